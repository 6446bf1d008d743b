#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds library, plugins and kernels for aarch64 and runs under qemu: the kernels' tests, with dot products and without, at the same time, and the htp
# backend with Qualcomm's libraries for devices, which it opens and judges and which then find no Snapdragon; gpu, which finds no OpenCL there.
#   tools/test_aarch64.sh [BUILD_DIR]
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
build=${1:-${QUARRY_BUILD_DIR:-$root/build}-aarch64}
# minsize: kernels are compiled for speed all the same, the rest in less time.
install_packages cross || { echo "cannot install the cross compiler and qemu" >&2; exit 1; }
configure "$build" --cross-file tools/cross/aarch64-linux-gnu.ini --buildtype=minsize -Dwerror=true -Dprepare=false &&
  ninja -C "$build" tests/kernels/test-kernels backends/cpu/quarry-backend-cpu.so backends/cpu-reference/quarry-backend-cpu-reference.so backends/htp/quarry-backend-htp.so backends/gpu/quarry-backend-gpu.so \
    bindings/hello tests/integration/backend-host tests/unit/base/test-real >"$build.ninja.log" 2>&1 || { grep -A 30 -m 3 -E 'FAILED|error:' "$build.ninja.log"; exit 1; }
run() { qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/tests/kernels/test-kernels" --isa "$1" >"$build.$1.log" 2>&1; }
run dotprod &
other=$!
run neon
neon=$?
wait $other
dotprod=$?
for isa in dotprod neon; do echo "$isa: $(tail -n 1 "$build.$isa.log")"; done
[ $neon = 0 ] || grep FAILED "$build.neon.log"
[ $dotprod = 0 ] || grep FAILED "$build.dotprod.log"
qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/tests/unit/base/test-real" >"$build.real.log" 2>&1
real=$?
[ $real = 0 ] && echo "functions of reals: the bits of x86-64" || { echo "functions of reals: FAILED"; cat "$build.real.log"; }
htp=0
if libraries=$(tools/get_qnn.sh --machine aarch64 "$build/qnn" 2>"$build.qnn.log"); then
  QUARRY_QNN_PATH=$libraries QUARRY_BACKEND_PATH=$build/backends/htp qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/tests/integration/backend-host" htp >"$build.htp.log" 2>&1
  for text in "htp: usable 0, 1 devices" "HTP 5\." "found a machine without a Snapdragon SoC"; do grep -q "$text" "$build.htp.log" || htp=1; done
  [ $htp = 0 ] && echo "htp: Qualcomm's libraries for devices are opened, and find no Snapdragon" || { echo "htp: FAILED"; cat "$build.htp.log"; }
else
  echo "htp: left out: $(cat "$build.qnn.log")"
fi
QUARRY_BACKEND_PATH=$build/backends/gpu qemu-aarch64 -L /usr/aarch64-linux-gnu "$build/tests/integration/backend-host" gpu >"$build.gpu.log" 2>&1
gpu=0
grep -q "gpu: usable 0, 1 devices" "$build.gpu.log" && grep -q "libOpenCL.so.1" "$build.gpu.log" && echo "gpu: without an OpenCL library it says so" || { gpu=1; echo "gpu: FAILED"; cat "$build.gpu.log"; }
[ $neon = 0 ] && [ $dotprod = 0 ] && [ $real = 0 ] && [ $htp = 0 ] && [ $gpu = 0 ]
