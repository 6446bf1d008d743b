#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The Python wheel for a system or a machine that this one is not: built, looked at file by file, and used where an emulator runs it.
#   tools/test_wheel.sh [--isas LIST] TARGET [BUILD_DIR]
#     TARGET    x86_64-w64-mingw32     win_amd64, by mingw-w64; used by CPython for Windows under wine
#               aarch64-linux-gnu      manylinux aarch64, by Debian's cross compiler; used by Debian's CPython for arm64 under qemu
#               aarch64-linux-musl     musllinux aarch64, by zig; used by CPython on musl under qemu (tools/test_musl.sh --wheel aarch64 is the same)
#               x86_64-linux-musl      musllinux x86_64, by zig; used in a root of musl
#               aarch64-windows-gnu    win_arm64, by zig; nothing here runs it
#     --isas    kernels for these instruction sets alone, for size (such a wheel is none for a release); without it those of all, for speed
# A build takes a quarter of an hour to half an hour on two cores; --isas avx2 (neon for aarch64) ten minutes.
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
usage() { echo "usage: tools/test_wheel.sh [--isas LIST] TARGET [BUILD_DIR]: found '${1-}', expected a target: $targets" >&2; exit 2; }
targets='x86_64-w64-mingw32 aarch64-linux-gnu aarch64-linux-musl x86_64-linux-musl aarch64-windows-gnu'
isas=
[ "${1-}" != --isas ] || { isas=${2-}; shift 2 || usage; }
target=${1-}
case " $targets " in *" ${target:-none} "*) ;; *) usage "$target" ;; esac
build=${2:-$build-wheel-$target}
case $build in /*) ;; *) build=$root/$build ;; esac
install_packages && install_packages cross && install_packages windows || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }
words=
case $target in
  x86_64-w64-mingw32) cross=$(tools/cross/mingw.sh) && words="--cross-file tools/cross/$target.ini --cross-file $cross/needs.ini" || exit 1 ;;
  aarch64-linux-gnu) cross=$(tools/cross/aarch64.sh) && words="--cross-file tools/cross/$target.ini --cross-file $cross/needs.ini" || exit 1 ;;
  *) cross=$(tools/cross/zig/zig.sh "$target") && PATH=$cross:$PATH && words="--cross-file $cross/cross.ini" || exit 1 ;;
esac
if [ -n "$isas" ]; then configure "$build/build" $words --buildtype=minsize -Ddebug=false -Dwerror=true -Dtests=false -Dpacked_relocations=false "-Dkernel_isas=$isas" || exit 1; fi
say "building the wheel for $target in $build"
rm -rf "$build/dist"
mkdir -p "$build" && QUARRY_TARGET=$target QUARRY_BUILD=$build/build "$cross/../venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$build/dist" bindings/python || exit 1
say "looking at it"
case $target in
  *-linux-musl) python3 tests/integration/check_musl_wheel.py "$build/dist" "$build/use" "${target%%-*}" "$cross" ;;
  *) python3 tests/integration/check_wheel.py "$build/dist" "$build/use" "$target" "$cross" ;;
esac
