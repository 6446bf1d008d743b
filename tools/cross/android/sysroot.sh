# SPDX-License-Identifier: Apache-2.0
# Read by ../zig/zig.sh: what Quarry is compiled and linked against for Android where there is no NDK (which no registry has): enough to know that it compiles, that
# Android's libraries of API 29 have every name that is linked, and how the files are laid out. Nothing that is built so is for a device: the headers are musl's
# and Linux', as zig has them, with what is here over them (NAME.more.h: at the end of NAME.h), and types of musl are not all of bionic's size.
#   make_sysroot MACHINE    sets sysroot; wants zig, here and kept
android_stub() {  # LIBRARY: with the names that names.txt has for it; data has a +
  awk -v library="$1" '$1 == library ":" {
    for (i = 2; i <= NF; i++) print ($i ~ /^\+/ ? "void *" substr($i, 2) ";" : "void " $i "(void) {}") }' "$root/tools/cross/android/names.txt" >"$sysroot/$1.c" &&
    "$kept/zig" cc -target "$stub_machine-linux-musl" -w -fno-builtin -ffreestanding -shared -nostdlib "-Wl,-soname,$1.so" -x c "$sysroot/$1.c" -o "$sysroot/lib/$1.so"
}
# Whether what FILE says was made is not of these WORDS any more.
is_new() { [ "$(printf %s "$2" | sha256sum)" != "$(cat "$1" 2>/dev/null)" ]; }
made() { printf %s "$2" | sha256sum >"$1"; }
make_sysroot() {
  stub_machine=$1 sysroot=$here/sysroot own=$root/tools/cross/android
  mkdir -p "$sysroot/lib" || return 1
  headers=$(cat "$own"/include/*.h "$own"/include/*/*.h "$kept/tools.txt") stubs=$(cat "$own/names.txt" "$own/sysroot.sh" "$kept/tools.txt")
  if is_new "$sysroot/headers" "$headers"; then
    from=$(dirname "$(readlink -f "$kept/zig")")/lib/libc/include
    rm -rf "$sysroot/include"
    for part in generic-musl "$1-linux-musl" any-linux-any "$(echo "$1" | sed s/x86_64/x86/)-linux-any"; do
      [ ! -d "$from/$part" ] || { mkdir -p "$sysroot/include" && cp -R "$from/$part/." "$sysroot/include"; } || return 1
    done
    cp -R "$own/include/." "$sysroot/include" || return 1
    for more in "$sysroot"/include/*.more.h; do
      cat "$more" >>"${more%.more.h}.h" && rm "$more" || return 1
    done
    # Of a JDK, where there is one; Android's differs in this.
    if javac=$(command -v javac) && jdk=$(dirname "$(dirname "$(readlink -f "$javac")")")/include && [ -f "$jdk/jni.h" ]; then
      sed 's/void \*\*penv, void \*args/JNIEnv **penv, void *args/' "$jdk/jni.h" >"$sysroot/include/jni.h" && cp "$jdk/linux/jni_md.h" "$sysroot/include" || return 1
    fi
    made "$sysroot/headers" "$headers"
  fi
  if is_new "$sysroot/stubs" "$stubs"; then
    (for library in libandroid libc libm libdl liblog; do android_stub $library || exit 1; done
      # What begins and ends a program and a library: bionic's own start them.
      for file in crtbegin_so crtend_so crtbegin_dynamic crtend_android; do
        [ $file != crtbegin_dynamic ] && start= || start='int main(int, char **); void _start(void) { main(0, 0); }'
        echo "$start" | "$kept/zig" cc -target "$1-linux-musl" -w -ffreestanding -c -x c - -o "$sysroot/lib/$file.o" || exit 1
      done) >"$log" 2>&1 || return 1
    made "$sysroot/stubs" "$stubs"
  fi
  printf 'include_dir=%s\nsys_include_dir=%s\ncrt_dir=%s\nmsvc_lib_dir=\nkernel32_lib_dir=\ngcc_dir=\n' "$sysroot/include" "$sysroot/include" "$sysroot/lib" | write_if_new "$here/libc.conf"
}
