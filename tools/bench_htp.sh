#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures session creation on htp, in Qualcomm's emulator: ours from a .qrm, the library's own call for the same bytes, and ONNX Runtime's QNN provider from
# its EPContext file, embedded and not, alternating. Prints JSON, in milliseconds. x86-64 only: the libraries are fetched.
#   tools/bench_htp.sh [MODEL.onnx] [ROUNDS]      default: MobileNetV2 of $QUARRY_SHARED, 15 rounds
# QUARRY_BUILD_DIR: a release build is made there (default build-bench).
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
build=${QUARRY_BUILD_DIR:-$root/build-bench}
model=${1:-${QUARRY_SHARED:-$root/../shared}/models/mobilenetv2_1.0_224_google_f32/model.onnx}
install_packages || exit 1
say "building"
configure "$build" --buildtype=release && ninja -C "$build" tools/quarry backends/htp/quarry-backend-htp.so backends/cpu/quarry-backend-cpu.so >"$build.ninja.log" 2>&1 ||
  { grep -A 30 -m 3 -E 'FAILED|error:' "$build.ninja.log"; exit 1; }
python=${QUARRY_BENCH_PYTHON:-$build/venv-htp/bin/python}
if [ ! -x "$python" ]; then
  say "installing onnxruntime and onnxruntime-qnn"
  python3 -m venv "$build/venv-htp" && "$build/venv-htp/bin/pip" install -q numpy onnx onnxruntime onnxruntime-qnn >"$build/pip.log" 2>&1 || { cat "$build/pip.log" >&2; exit 1; }
fi
exec "$python" tools/bench/bench_htp.py "$build" "$model" "${2:-15}"
