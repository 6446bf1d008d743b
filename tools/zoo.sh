#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Graphs as exporters make them (277 of $QUARRY_SHARED/zoo, default ../shared): made once in build/zoo, run on each backend, compared with what ONNX Runtime makes
# of them. What is wrong is printed, and what cpu refuses; the exit status is 1 then.
#   tools/zoo.sh [--sizes] [--perturb] [--markdown] [BACKEND...]
#     --sizes     on the first backend: every graph with symbolic dimensions at three more sizes
#     --perturb   under malloc that fills what it gives, by another byte each day: what nobody wrote shows
#     --markdown  a table by family, as docs/state.md has it
#     BACKEND     cpu, cpu-reference, gpu; those that are here where none is named
# It wants the release build of tools/test.sh; the venv with onnx and onnxruntime is made where it can be.
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
quarry=$build/tools/quarry flags= backends=
shared=${QUARRY_SHARED:-$root/../shared}
for word in "$@"; do
  case $word in
    --sizes|--markdown) flags="$flags $word" ;;
    --perturb) flags="$flags --perturb $(($(date +%-j) % 255 + 1))" ;;
    cpu|cpu-reference|gpu) backends="$backends $word" ;;
    *) echo "usage: tools/zoo.sh [--sizes] [--perturb] [--markdown] [cpu|cpu-reference|gpu]..." >&2; exit 2 ;;
  esac
done
[ -x "$quarry" ] || { echo "there is no $quarry: run tools/test.sh --quick first" >&2; exit 1; }
[ -d "$shared/zoo" ] || { echo "there is no $shared/zoo (set QUARRY_SHARED)" >&2; exit 1; }
newest_onnx || { echo "the onnx package cannot be installed here: $(tail -n 1 "$build/pip.log" 2>/dev/null)" >&2; exit 1; }
if [ -z "$backends" ]; then
  backends="cpu cpu-reference"
  ! has_opencl || backends="$backends gpu"
fi
for backend in $backends; do flags="$flags --backend $backend"; done
mkdir -p "$build/zoo"
POCL_CACHE_DIR=$build/pocl-cache POCL_WORK_GROUP_SPECIALIZATION=0 "$build/venv/bin/python" tests/conformance/check_zoo.py "$quarry" "$shared/zoo" "$build/zoo" $flags
