#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up a cross build by zig, which brings the C library and libc++ of every target that it knows: fetches zig, compiles what Quarry links for TARGET
# (tools/cross/needs.sh), and prints the folder with cross.ini for `FOLDER/meson setup --cross-file`.
#   tools/cross/zig/zig.sh [--no-onnx] TARGET        --no-onnx: what -Dprepare=false builds need
# It takes 600 MB, most of it zig's. The first target takes minutes, as libc++ is compiled too.
# Wants the packages of tools/packages.txt, those of the group cross too (tools/install_packages.sh cross).
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/tools/cross/needs.sh"
onnx=1
[ "${1-}" != --no-onnx ] || { onnx=''; shift; }
target=${1-}
case $target in
  x86_64-linux-musl | aarch64-linux-musl) system=linux of_cmake=Linux ;;
  x86_64-windows-gnu | aarch64-windows-gnu) system=windows of_cmake=Windows ;;
  # With a sysroot of our own, to see that it compiles and links; what is for devices the NDK builds.
  x86_64-linux-android | aarch64-linux-android) system=android of_cmake=Linux ;;
  x86_64-macos | aarch64-macos) system=darwin of_cmake=Darwin ;;
  *) echo "usage: tools/cross/zig/zig.sh [--no-onnx] TARGET: found '$target', expected x86_64 or aarch64, and -linux-musl, -linux-android, -windows-gnu or -macos" >&2; exit 2 ;;
esac
machine=${target%%-*}
# zig has none of its own; Windows' debugging information is in files beside, macOS' in the objects.
strip=
case $system in windows | darwin) ;; *) strip="strip = '$machine-linux-gnu-strip'" ;; esac
begin_target "$target"
mkdir -p "$here/bin" || exit 1

need_pip
if ! cmp -s "$root/tools/cross/zig/tools.txt" "$kept/tools.txt"; then
  pip install --require-hashes -r "$root/tools/cross/zig/tools.txt" || fail "zig and meson cannot be installed"
  cp "$root/tools/cross/zig/tools.txt" "$kept/tools.txt"
fi
ln -sfn "$(echo "$kept"/venv/lib/python3*/site-packages/ziglang/zig)" "$kept/zig"
ln -sfn ../venv/bin/meson "$here/meson"
cmp -s "$root/tools/cross/zig/tool.sh" "$here/bin/tool.sh" || cp "$root/tools/cross/zig/tool.sh" "$here/bin/tool.sh" || exit 1
for tool in cc c++ ar ranlib; do ln -sfn tool.sh "$here/bin/$tool"; done

if [ $system = android ]; then
  . "$root/tools/cross/android/sysroot.sh"
  make_sysroot "$machine" || fail "the sysroot for Android cannot be made"
fi
if [ $system = darwin ]; then
  . "$root/tools/cross/macos/libraries.sh"
  take_libraries || fail "zig's libraries for macOS cannot be had"
fi
need_headers
[ -z "$onnx" ] || need_onnx $of_cmake "$machine" "$here/bin/cc" "$here/bin/c++" "$here/bin/ar" "$here/bin/ranlib"

pie=
[ $system != android ] || pie='b_pie = true'  # Android runs no other programs
# Nothing that is built is run by the build: its loader need not be there.
write_if_new "$here/cross.ini" <<END
# Written by tools/cross/zig/zig.sh.
[binaries]
c = [$ccache'$here/bin/cc']
cpp = [$ccache'$here/bin/c++']
ar = '$here/bin/ar'
ranlib = '$here/bin/ranlib'
pkg-config = 'pkg-config'
$strip

[properties]
needs_exe_wrapper = true
pkg_config_libdir = '$prefix/lib/pkgconfig'

[built-in options]
c_args = ['-isystem', '$prefix/include']
cpp_args = ['-isystem', '$prefix/include']
cpp_link_args = ['-L$prefix/lib']
$pie

[host_machine]
system = '$system'
cpu_family = '$machine'
cpu = '$machine'
endian = 'little'
END
echo "$here"
