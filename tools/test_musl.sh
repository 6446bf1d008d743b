#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Quarry for musl, built by zig (tools/cross/zig/zig.sh), for x86_64 and aarch64.
#   tools/test_musl.sh [BUILD_DIR]           what a firmware has of it: programs that are static and position-independent, with the core and the cpu backend in
#                                            them and without ONNX. Their size, their ELF files and their answers: of x86_64 in a root that holds nothing but the
#                                            program and its files, of aarch64 under qemu
#   tools/test_musl.sh --wheel x86_64|aarch64 [BUILD_DIR]    the musllinux wheel: what its files need and export, and the Python package's tests in a root of musl
#                                            with CPython in it, aarch64 under qemu. The whole build, with protobuf, takes a quarter of an hour on two cores
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
wheel=
if [ "${1-}" = --wheel ]; then
  wheel=${2-}
  case $wheel in
    x86_64 | aarch64) shift 2 ;;
    *) echo "usage: tools/test_musl.sh [--wheel x86_64|aarch64] [BUILD_DIR]: --wheel: found '$wheel', expected x86_64 or aarch64" >&2; exit 2 ;;
  esac
fi
quarry=$build/tools/quarry
build=${1:-$build-musl}
install_packages && install_packages cross || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }
mkdir -p "$build" || exit 1

if [ -n "$wheel" ]; then
  cross=$(tools/cross/zig/zig.sh "$wheel-linux-musl") && rm -rf "$build/dist-$wheel" &&
    QUARRY_TARGET=$wheel-linux-musl QUARRY_BUILD=$build/wheel-$wheel "$cross/../venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$build/dist-$wheel" bindings/python &&
    python3 tests/integration/check_musl_wheel.py "$build/dist-$wheel" "$build/python-$wheel" "$wheel" "$cross"
  exit
fi

firmware() {  # MACHINE INSTRUCTION_SET
  cross=$(tools/cross/zig/zig.sh --no-onnx "$1-linux-musl") || return 1
  here=$build/$1
  # For size; kernels are compiled for speed all the same.
  [ -f "$here/build.ninja" ] || "$cross/meson" setup "$here" --cross-file "$cross/cross.ini" --buildtype=minsize -Ddebug=false -Dwerror=true -Dprepare=false -Dtests=false \
    -Ddefault_library=static -Dstatic_backends=cpu "-Dkernel_isas=$2" >"$here.log" 2>&1 || { tail -n 20 "$here.log"; return 1; }
  ninja -C "$here" runtime/libquarry.a >"$here.ninja.log" 2>&1 || { grep -A 30 -m 3 -E 'FAILED|error:' "$here.ninja.log"; return 1; }
  "$cross/bin/cc" -std=c99 -Os -fPIE -Iinclude -c bindings/c/hello.c -o "$here/hello.o" &&
    "$cross/bin/c++" -std=c++20 -Os -fPIE -Iinclude -c bindings/cpp/digits.cpp -o "$here/digits.o" || return 1
  for program in hello digits; do
    "$cross/bin/c++" -static -pie "$here/$program.o" "$here/runtime/libquarry.a" -Wl,--gc-sections -s -o "$here/$program" || return 1
  done
  python3 tests/integration/check_firmware.py "$here" "$1" "$root" "$build/digits.qrm"
}
[ -x "$quarry" ] || { echo "tools/test_musl.sh: there is no $quarry, which compiles the container: build it first (tools/test.sh does)" >&2; exit 1; }
"$quarry" compile models/digits/digits.onnx -o "$build/digits.qrm" >/dev/null || exit 1
status=0
firmware x86_64 avx2 || { echo "x86_64: FAILED"; status=1; }
firmware aarch64 neon || { echo "aarch64: FAILED"; status=1; }
exit $status
