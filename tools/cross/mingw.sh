#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up a cross build for Windows x64 by Debian's mingw-w64: compiles what Quarry links (tools/cross/needs.sh), and prints the folder with needs.ini, for
# `meson setup --cross-file tools/cross/x86_64-w64-mingw32.ini --cross-file FOLDER/needs.ini`.
#   tools/cross/mingw.sh [--no-onnx]        --no-onnx: what -Dprepare=false builds need
# Wants the packages of tools/packages.txt, those of the groups windows and cross too (tools/install_packages.sh).
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/cross/needs.sh"
onnx=1
[ "${1-}" != --no-onnx ] || { onnx=''; shift; }
[ $# = 0 ] || { echo "usage: tools/cross/mingw.sh [--no-onnx]: found '$*', expected nothing more" >&2; exit 2; }
target=x86_64-w64-mingw32
begin_target $target
need_pip
need_headers
[ -z "$onnx" ] || need_onnx Windows x86_64 $target-gcc-posix $target-g++-posix "$(command -v $target-gcc-ar-posix)" "$(command -v $target-gcc-ranlib-posix)"  # paths, for cmake
write_if_new "$here/needs.ini" <<END
# Written by tools/cross/mingw.sh. What is linked is a part of each DLL, the compiler's own libraries too.
[binaries]
c = [${ccache}'$target-gcc-posix']
cpp = [${ccache}'$target-g++-posix']
pkgconfig = 'pkg-config'

[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'

[built-in options]
c_args = ['-isystem', '$prefix/include']
cpp_args = ['-isystem', '$prefix/include']
cpp_link_args = ['-static', '-Wl,--no-insert-timestamp', '-L$prefix/lib']
END
echo "$here"
