#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds library, plugins and kernels for aarch64 and runs the kernels' tests under qemu: with dot products and without, at the same time.
#   tools/test_aarch64.sh [BUILD_DIR]
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
build=${1:-${QUARRY_BUILD_DIR:-$root/build}-aarch64}
# minsize: kernels are compiled for speed all the same, the rest in less time.
install_packages cross || { echo "cannot install the cross compiler and qemu" >&2; exit 1; }
configure "$build" --cross-file tools/cross/aarch64-linux-gnu.ini --buildtype=minsize -Dwerror=true -Dprepare=false &&
  ninja -C "$build" tests/kernels/test-kernels backends/cpu/quarry-backend-cpu.so backends/cpu-reference/quarry-backend-cpu-reference.so bindings/hello >"$build.ninja.log" 2>&1 || { grep -A 30 -m 3 -E 'FAILED|error:' "$build.ninja.log"; exit 1; }
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
[ $neon = 0 ] && [ $dotprod = 0 ]
