#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# What random models, changed files and strange memory show, at length; tools/test.sh has the same in small. A step that cannot run here says why and counts as
# skipped. The last line counts the steps; the exit status is 1 when one failed.
#   tools/fuzz.sh [--minutes N] [--seed S] [--only WORD]
#     --minutes  for each step that goes on as long as it may (10); the others take as long as they take
#     --seed     other models, other values (the day's number)
#     --only     the steps whose names hold the word
# What fails is told with what shows it again; models that failed are kept in build/fuzz/failed.
# It wants the release build of tools/test.sh (make it first), and for some steps a venv with onnx and onnxruntime (made where it can be), valgrind, clang. Operators are
# tried on htp where QUARRY_QNN_PATH says where Qualcomm's libraries are (tools/get_qnn.sh).
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
minutes_each=10 seed=$(date +%-j) only=
while [ $# -gt 0 ]; do
  case "$1" in
    --minutes) minutes_each=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --only) only=$2; shift 2 ;;
    *) echo "usage: tools/fuzz.sh [--minutes N] [--seed S] [--only WORD]" >&2; exit 2 ;;
  esac
done
quarry=$build/tools/quarry work=$build/fuzz
shared=${QUARRY_SHARED:-$root/../shared}
onnx_data=/usr/share/libonnx-testdata/data
passed=0 failed=0 skipped=0 failures=
[ -x "$quarry" ] || { echo "there is no $quarry: run tools/test.sh --quick first" >&2; exit 1; }
mkdir -p "$work/failed"
echo "seed $seed"

chosen() {  # NAME COMMAND...: a step, where it is one of those
  case $1 in *"$only"*) step "$@" ;; esac
}
again() { echo "   to see it again: $*"; }
until_late() {  # FUNCTION: called with 1, 2, ... until the step's minutes are over, or it fails
  end=$(($(date +%s) + minutes_each * 60)) round=0
  while :; do
    round=$((round + 1))
    "$@" $round || return 1
    [ "$(date +%s)" -lt $end ] || return 0
  done
}
random_models() {  # ROUND: 400 graphs on every backend that needs no device
  models_seed=$((seed * 1000 + $1))
  "$build/venv/bin/python" tests/fuzz/random_models.py "$work/random" --count 400 --seed "$models_seed" || return 1
  for backend in cpu cpu-reference; do
    "$quarry" conform --backend "$backend" $(cat "$work/random/tolerance") "$work/random" >"$work/random.$backend.txt" 2>&1 && continue
    grep -v '^refused' "$work/random.$backend.txt" | tail -n 40
    for name in $(sed -n 's/^failed \([^:]*\):.*/\1/p' "$work/random.$backend.txt"); do
      cp -r "$work/random/$name" "$work/failed/"
      again "$quarry conform --backend $backend $(cat "$work/random/tolerance") $work/failed/$name"
    done
    again "$build/venv/bin/python tests/fuzz/random_models.py FOLDER --seed $models_seed --only NUMBER makes rSEED_NUMBER once more"
    return 1
  done
  # The same models in variants that must not matter.
  variants cpu "$models_seed" "$work"/random/*/model.onnx
}
variants() {  # BACKEND SEED MODEL...
  variants_backend=$1 variants_seed=$2
  shift 2
  QUARRY_BACKEND_PATH=$build/backends/cpu:$build/backends/cpu-reference "$build/tests/fuzz/variants" "$variants_backend" 4 "$variants_seed" "$@" ||
    { again "QUARRY_BACKEND_PATH=$build/backends/cpu:$build/backends/cpu-reference $build/tests/fuzz/variants $variants_backend 4 $variants_seed MODEL"; return 1; }
}
operators() {  # ROUND: 4000 cases of one operator and 2000 graphs; fewer where each takes a good part of a second, of htp one SoC a round
  for backend in "cpu-reference --backend cpu" $slow_backends; do
    case $backend in
      cpu*) counts="--operators 4000 --graphs 1000" ;;
      htp) counts="--operators 180 --graphs 60" backend=htp:$(echo SM8350 SM8550 SM8650 SM8750 SM8850 | cut -d ' ' -f $(($1 % 5 + 1))) ;;
      gpu:oclgrind) counts="--operators 2000 --graphs 500" ;;
      *) counts="--operators 180 --graphs 60" ;;
    esac
    "$build/venv/bin/python" tests/fuzz/differential.py "$quarry" "$work/operators" $counts --seed $((seed * 1000 + $1)) --keep "$work/failed" --backend $backend || return 1
  done
}
mutated_models() {  # ROUND (not of corpus/model: those want much, and a run has no deadline)
  python3 tests/fuzz/mutated_models.py "$quarry" models tests/fuzz/corpus/onnx $seeds --count 2000 --seed "$((seed * 1000 + $1))" --keep "$work/failed"
}
ways_of_models() {
  variants "$1" "$seed" $(find "$onnx_data/node" -name model.onnx)
}
under_valgrind() {  # 100 models; AVX-512 valgrind does not know, so a build for that alone shows cpu-reference
  count=0 way="--backend cpu -O cpu.isa=avx2"
  "$quarry" run models/digits/digits.onnx --zeros $way >/dev/null 2>&1 || way="--backend cpu-reference"
  for model in $(find "$work/random" "$onnx_data/node" -name model.onnx | awk -v s="$seed" 'BEGIN { srand(s) } { print rand(), $0 }' | sort | head -n 100 | cut -d ' ' -f 2); do
    valgrind -q --error-exitcode=99 --exit-on-first-error=yes "$quarry" run "$model" --zeros $way -O threads=2 >"$work/valgrind.txt" 2>&1
    [ $? -ne 99 ] || { tail -n 40 "$work/valgrind.txt"; again "valgrind $quarry run $model --zeros $way -O threads=2"; return 1; }
    count=$((count + 1))
  done
  echo "   $count models, $way"
}
# Tests with several threads, in a build of its own whose atomic objects tell helgrind what they order (tests/support/helgrind). Left out: gpu's, as the threads of
# PoCL and its compiler order by atomics that nobody annotated.
under_helgrind() {
  configure "$build-helgrind" -Doptimization=1 -Ddebug=true -Dkernel_isas=sse2 "-Dc_args=-include $root/tests/support/helgrind/annotate.h" \
    "-Dcpp_args=-include $root/tests/support/helgrind/annotate.h" || return 1
  threads=$(meson test -C "$build-helgrind" --list --suite threads 2>/dev/null | sed -n 's/^[^/]* \/ //p' | grep -v '^gpu ')
  [ -n "$threads" ] || { echo "   there is no test with threads"; return 1; }
  echo "$threads" | tr '\n' '\0' | QUARRY_SHARED=$shared xargs -0 meson test -C "$build-helgrind" --setup helgrind --print-errorlogs >"$work/helgrind.txt" 2>&1 ||
    { grep -v '^\[[0-9]*/[0-9]*\]' "$work/helgrind.txt" | tail -n 100; again "meson test -C $build-helgrind --setup helgrind NAME"; return 1; }
  grep -E '^(Ok|Skipped):' "$work/helgrind.txt"
}
some_floats() {  # STEP: of all of them it would be two hours
  floats="QUARRY_ULP_STEP=$1 QUARRY_ULP_FROM=$((seed % $1))"
  env $floats "$build/tests/unit/cpu/test-cpu" "functions lie" || { again "$floats $build/tests/unit/cpu/test-cpu 'functions lie'"; return 1; }
}
libfuzzer() {  # TARGET
  "$build-fuzz/tests/fuzz/fuzz-$1" -seed="$seed" -artifact_prefix="$work/failed/$1-" -max_len=65536 -max_total_time=$((minutes_each * 60)) -timeout=10 -rss_limit_mb=2048 \
    "$work/new-$1" "tests/fuzz/corpus/$1" >"$work/libfuzzer.$1.txt" 2>&1 ||
    { tail -n 40 "$work/libfuzzer.$1.txt"; return 1; }
}

seeds=
for folder in "$onnx_data/node" "$shared/cases" "$shared/zoo" "$work/random"; do [ ! -d "$folder" ] || seeds="$seeds $folder"; done
ninja -C "$build" tests/fuzz/variants tests/unit/cpu/test-cpu >/dev/null || exit 1
slow_backends=
! has_opencl || slow_backends=gpu
! command -v oclgrind >/dev/null || slow_backends="$slow_backends gpu:oclgrind"
[ -z "$QUARRY_QNN_PATH" ] || slow_backends="$slow_backends htp"
if newest_onnx; then
  chosen "operators and short graphs beside ONNX Runtime" until_late operators
  chosen "random graphs beside ONNX Runtime, and in variants that must not matter" until_late random_models
else
  skip "random graphs beside ONNX Runtime" "the onnx package cannot be installed here: $(tail -n 1 "$build/pip.log" 2>/dev/null)"
fi
chosen "changed models under an allocator that fills" until_late mutated_models
if [ -d "$onnx_data" ]; then
  chosen "ONNX's node tests in variants that must not matter, on cpu" ways_of_models cpu
  chosen "ONNX's node tests in variants that must not matter, on cpu-reference" ways_of_models cpu-reference
fi
if [ "$minutes_each" -ge 10 ]; then chosen "functions of every 11th float" some_floats 11; else chosen "functions of every 101st float" some_floats 101; fi
if command -v valgrind >/dev/null; then
  chosen "models under valgrind" under_valgrind
  chosen "threads under helgrind" under_helgrind
else
  skip "models under valgrind, threads under helgrind" "valgrind is not installed"
fi
if clang=$(command -v clang-16 || command -v clang); then
  [ -f "$build-fuzz/build.ninja" ] || CC=$clang CXX=$(echo "$clang" | sed 's/clang\(-[0-9]*\)\?$/clang++\1/') meson setup "$build-fuzz" -Dfuzzing=true -Db_sanitize=address,undefined -Db_lundef=false \
    -Dcpp_args=-fsanitize=fuzzer-no-link >"$work/meson.txt" 2>&1
  for target in qir qrm onnx; do
    if ninja -C "$build-fuzz" "tests/fuzz/fuzz-$target" >"$work/ninja.txt" 2>&1; then
      mkdir -p "$work/new-$target"
      chosen "libFuzzer: $target" libfuzzer "$target"
    else
      chosen "libFuzzer: $target, build" sh -c "tail -n 30 '$work/ninja.txt'; false"
    fi
  done
else
  skip "libFuzzer" "clang is not installed"
fi
[ -z "$failures" ] || echo "failed steps:$failures"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
