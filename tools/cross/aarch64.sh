#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Sets up a cross build for aarch64 with glibc by Debian's cross compiler: compiles what Quarry links (tools/cross/needs.sh), and prints the folder with needs.ini, for
# `meson setup --cross-file tools/cross/aarch64-linux-gnu.ini --cross-file FOLDER/needs.ini`. Builds with -Dprepare=false need none of it.
#   tools/cross/aarch64.sh
# Wants the packages of tools/packages.txt, those of the group cross too (tools/install_packages.sh).
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/cross/needs.sh"
[ $# = 0 ] || { echo "usage: tools/cross/aarch64.sh: found '$*', expected nothing" >&2; exit 2; }
target=aarch64-linux-gnu
begin_target $target
need_pip
need_headers
need_onnx Linux aarch64 $target-gcc $target-g++ "$(command -v $target-gcc-ar)" "$(command -v $target-gcc-ranlib)"  # paths, for cmake
write_if_new "$here/needs.ini" <<END
# Written by tools/cross/aarch64.sh.
[binaries]
c = [${ccache}'$target-gcc']
cpp = [${ccache}'$target-g++']
pkgconfig = 'pkg-config'

[properties]
pkg_config_libdir = '$prefix/lib/pkgconfig'

[built-in options]
c_args = ['-isystem', '$prefix/include']
cpp_args = ['-isystem', '$prefix/include']
cpp_link_args = ['-L$prefix/lib']
END
echo "$here"
