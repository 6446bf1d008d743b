# SPDX-License-Identifier: Apache-2.0
# Read by ../zig/zig.sh: what is linked for macOS, in a folder of its own for link.py. zig compiles libc++ for a target when something is linked for the first time, and says on
# its line for the linker where it is; of the system's libraries it has the names (libSystem.tbd).
#   take_libraries    into $here/lib; wants zig, here and kept
take_libraries() {
  cmp -s "$root/tools/cross/macos/link.py" "$here/bin/link.py" || cp "$root/tools/cross/macos/link.py" "$here/bin/link.py" || return 1
  ! cmp -s "$kept/tools.txt" "$here/lib/tools.txt" || return 0
  command -v ld64.lld-14 >"$log" 2>&1 || { echo "there is no ld64.lld-14: tools/install_packages.sh cross installs it" >>"$log"; return 1; }
  mkdir -p "$here/lib" && echo 'int main() { throw 1; }' >"$here/throws.cpp" || return 1
  ZIG_VERBOSE_LINK=1 ZIG_GLOBAL_CACHE_DIR="$kept/cache" "$kept/zig" c++ -target "$target.12.0" "$here/throws.cpp" -o "$here/throws" >"$log" 2>&1 || return 1
  for name in libc++abi libc++ libcompiler_rt; do
    file=$(tr ' ' '\n' <"$log" | grep "/$name\.a\$") && cp "$file" "$here/lib/" || return 1
  done
  cp "$(dirname "$(readlink -f "$kept/zig")")/lib/libc/darwin/libSystem.tbd" "$here/lib/" && cp "$kept/tools.txt" "$here/lib/tools.txt"
}
