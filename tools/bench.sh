#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures Quarry and ONNX Runtime on the same models in one run and writes docs/performance.md and docs/performance/. See tools/bench/bench.py
# for what is measured and how. The networks are made by the generator of $QUARRY_SHARED (default ../shared), or taken from --models DIR.
#   tools/bench.sh                                    the whole, backend cpu (an hour on two cores; let the machine have nothing else to do)
#   tools/bench.sh --quick --backend cpu-reference    to try it out: few runs, written to the build folder
#   tools/bench.sh --backend gpu                      the gpu backend beside cpu (tools/bench/bench_gpu.py: creation, kernels, runs), a page named after the device
#   tools/bench.sh --zoo                              graphs of exporters beside ONNX Runtime (tools/bench/bench_zoo.py), a page named after the processor
#   tools/bench.sh --help                             the other options
# QUARRY_PROGRAM names a built program to measure; otherwise a release build is made. QUARRY_BENCH_PYTHON names a Python that has numpy,
# onnx and onnxruntime; otherwise one is made in the build folder.
. "$(dirname "$0")/setup.sh"
build=${QUARRY_BUILD_DIR:-$root/build}-bench
QUARRY_SHARED=${QUARRY_SHARED:-$root/../shared}
export QUARRY_SHARED
case " $* " in *" --help "*|*" -h "*) exec python3 "$root/tools/bench/bench.py" --help ;; esac

program=${QUARRY_PROGRAM-}
if [ -z "$program" ]; then
  install_packages || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }
  say "building"
  configure "$build" --buildtype=release -Dtests=false &&
    { ninja -C "$build" >"$build.ninja.log" 2>&1 || { grep -A 30 -m 3 -E 'FAILED|error:' "$build.ninja.log"; false; }; } || exit 1
  program=$build/tools/quarry
fi
mkdir -p "$build" || exit 1
python=${QUARRY_BENCH_PYTHON-}
if [ -z "$python" ]; then
  python=$build/venv/bin/python
  [ -x "$python" ] || python3 -m venv "$build/venv" || exit 1
  "$python" -c 'import numpy, onnx, onnxruntime' 2>/dev/null || {
    say "installing onnx and onnxruntime"
    "$build/venv/bin/pip" install -q numpy onnx onnxruntime >"$build/pip.log" 2>&1 || { cat "$build/pip.log" >&2; exit 1; }
  }
fi
case " $* " in *" --zoo "*)
  [ "$1" = --zoo ] || { echo "tools/bench.sh: --zoo comes first" >&2; exit 2; }
  shift
  exec "$python" "$root/tools/bench/bench_zoo.py" --program "$program" --work "$build/bench-zoo" "$@" ;;
esac
case " $* " in *" --backend gpu "*)  # beside cpu, on one device
  [ "$1 $2" = "--backend gpu" ] || { echo "tools/bench.sh: --backend gpu comes first" >&2; exit 2; }
  shift 2
  exec "$python" "$root/tools/bench/bench_gpu.py" --program "$program" --work "$build/bench-gpu" "$@" ;;
esac
exec "$python" "$root/tools/bench/bench.py" --program "$program" --work "$build/bench" "$@"
