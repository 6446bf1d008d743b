#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs what is needed, builds and tests. A step that cannot run here says why and counts as skipped. The last line counts the steps; the exit
# status is 1 when one failed.
#   tools/test.sh                  what matters most: the release build for this processor and its tests, ONNX's backend tests of Debian's release, the real
#                                  models of $QUARRY_SHARED (default ../shared) where they are, the program, bindings and htp (about 12 minutes on two
#                                  cores, about 8 after tools/demo.sh)
#   tools/test.sh --all            that for all instruction sets, the tests that take long (the suite `long`: kernels of gpu, stops, deep graphs), those of gpu and
#                                  htp (the suite `devices`; all checks of htp in Qualcomm's emulator), the core, cpu and cpu-reference under the address and
#                                  undefined-behaviour sanitizers, the static builds, an installed tree, the packages as a newcomer has them (each snippet of the
#                                  docs, in a clean root), the tests of ONNX's newest package, everything through containers too, sizes against their budgets
#                                  (about half an hour)
#   tools/test.sh --ci             that, and what takes longest or finds least: gpu, htp and plugins under those sanitizers, threads under the thread
#                                  sanitizer, aarch64 under qemu, kernels of gpu under Oclgrind, htp on its other architectures and on every
#                                  one-operator model, exports beside ONNX Runtime, packages, the smallest program (about an hour;
#                                  with CI_MINUTES, as .ci/run sets it, what would end later is left out and named)
#   tools/test.sh --no-sanitizers  --all without the build with sanitizers
#   tools/test.sh --quick          the release build, its tests and ONNX's tests of Debian's release
#   tools/test.sh --avx512         the same, and the kernels for AVX-512 with its instructions emulated: after changes to kernels/cpu
#                                  (not a part of --all, which has no room for it; a processor with AVX-512 runs them in every run)
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
models='' all='' ci='' sanitizers='' emulate=false  # what is run beyond the release build, its tests and Debian's ONNX tests
case "${1-}" in
  "") models=1 ;;
  --all) models=1 all=1 sanitizers=1 ;;
  --ci) models=1 all=1 ci=1 sanitizers=1 ;;
  --no-sanitizers) models=1 all=1 ;;
  --quick) ;;
  --avx512) emulate=true ;;
  *) echo "usage: tools/test.sh [--all|--ci|--no-sanitizers|--quick|--avx512]" >&2; exit 2 ;;
esac
begun=$(date +%s)
shared=${QUARRY_SHARED:-$root/../shared}
quarry=$build/tools/quarry
passed=0 failed=0 skipped=0 failures=

# Builds with sanitizers and static ones have the kernels for one instruction set: the best of this processor.
isas=$best_isa
grep -qw amx_int8 /proc/cpuinfo && isas=amx,$isas
# The release build has them all; that of the short run is the demo's.
release_isas=
[ -n "$all" ] || release_isas=$best_isa

# CI gives it an hour (CI_MINUTES): what finds least comes last, and is left out where the time is gone. SECONDS: what it takes where the release build takes 650.
fits() {  # NAME SECONDS
  [ -n "${CI_MINUTES-}" ] || return 0
  needs=$(($2 * build_seconds / 650)) gone=$(($(date +%s) - begun))
  [ $((gone + needs)) -gt $((CI_MINUTES * 60)) ] || return 0
  skip "$1" "$((gone / 60)) minutes of CI's $CI_MINUTES are gone, and this takes about $(((needs + 59) / 60)) on this machine (tools/test.sh --ci has no such limit)"
  return 1
}
in_time() {  # SECONDS NAME COMMAND...: a step of what CI leaves out when its time is gone
  seconds=$1 name=$2
  shift 2
  ! fits "$name" "$seconds" || step "$name" "$@"
}
drop() {  # DIR...: what no later step reads; CI's disk may be small
  [ -z "${CI_MINUTES-}" ] || rm -rf "$@"
}
free_space() { df -Ph "$build" | awk 'NR == 2 { print $4 }'; }
beside() {  # FUNCTION: its steps run beside those that follow, as most of either keep one processor busy; `joined` waits for them and shows what they said
  echo "failed=\$((failed + 1)) failures=\"\$failures
   the steps of $1 did not come to their end\"" >"$build/beside.$1.counts"
  (
    passed=0 failed=0 skipped=0 failures=
    "$1"
    printf 'passed=$((passed + %d)) failed=$((failed + %d)) skipped=$((skipped + %d)) failures="$failures%s"\n' $passed $failed $skipped "$failures" >"$build/beside.$1.counts"
  ) >"$build/beside.$1.log" 2>&1 &
  begun_beside="${begun_beside-} $1"
}
joined() {
  wait
  for name in ${begun_beside-}; do
    cat "$build/beside.$name.log"
    . "$build/beside.$name.counts"
  done
  begun_beside=
}
make_in() {  # DIR [targets]
  ninja_in "$@"
}
build_release() {
  # Tests of the suites `long` and `devices` are built where they are run.
  release_build "$release_isas" true && meson configure "$build" "-Demulate_avx512=$emulate" >/dev/null && make_in "$build" all ${all:+meson-test-prereq}
}
build_in() {  # DIR [meson options]
  configure "$@" && make_in "$1"
}
meson_tests() {  # DIR [options of meson test]
  dir=$1
  shift
  # meson is content with a filter that leaves it no test.
  meson test -C "$dir" --no-rebuild --list "$@" | grep ' / ' >/dev/null || { echo "   no test: $*"; return 1; }
  QUARRY_SHARED=$shared meson test -C "$dir" --no-rebuild --print-errorlogs --timeout-multiplier 3 "$@"
}
sanitized_tests() {  # SETUP DIR [options of meson test]: builds what the tests need and no more, and runs them
  setup=$1 dir=$2
  shift 2
  if QUARRY_SHARED=$shared meson test -C "$dir" --setup "$setup" --print-errorlogs --timeout-multiplier 3 "$@" >"$dir.test.log" 2>&1; then
    grep -E '^(Ok|Skipped):' "$dir.test.log"
  else
    grep -v '^\[[0-9]*/[0-9]*\]' "$dir.test.log" | tail -n 150
    return 1
  fi
}
conform() {  # NAME BACKEND FLOOR DIR... : no case failed, and at least FLOOR passed
  report=$build/conform-$1-$2.json backend=$2 floor=$3
  shift 3
  ${runner-} "$quarry" conform --backend "$backend" --json "$report" "$@" >"$report.txt" 2>&1 || { grep -v '^refused' "$report.txt"; return 1; }
  python3 tests/conformance/check_report.py "$report" --at-least "$floor" --promised
}
gpu_conform() {  # NAME FLOOR DIR... : the same for gpu, on OpenCL's first device; PoCL keeps what it compiled in the build folder, and need not make a kernel anew for each size of group
  report=$build/conform-$1-gpu.json floor=$2
  shift 2
  POCL_CACHE_DIR=$build/pocl-cache POCL_WORK_GROUP_SPECIALIZATION=0 "$quarry" conform --backend gpu --json "$report" "$@" >"$report.txt" 2>&1 || { grep -v '^refused' "$report.txt"; return 1; }
  python3 tests/conformance/check_report.py "$report" --at-least "$floor"
}
under_asan() {  # COMMAND...: the release build's program with the sanitized library, preparation and backends, so that it need not be built twice
  env "LD_PRELOAD=$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libubsan.so)" "LD_LIBRARY_PATH=$build-asan/runtime" \
    "QUARRY_BACKEND_PATH=$build-asan/backends/cpu:$build-asan/backends/cpu-reference" "$@"
}
qnn_libraries() {  # prints the folder of Qualcomm's libraries, fetched once; fails where they cannot be had
  [ "$(uname -m)" = x86_64 ] && tools/get_qnn.sh "$build/qnn" 2>"$build/qnn.log"
}
newest_onnx_and_qnn() {  # with ONNX Runtime's QNN provider, which checks of the htp backend compare with
  newest_onnx || return 1
  "$build/venv/bin/python" -c 'import onnxruntime_qnn' 2>/dev/null || "$build/venv/bin/pip" install -q onnxruntime-qnn >"$build/pip.log" 2>&1
}
random_graphs() {  # COUNT: on cpu; tools/fuzz.sh has more of them
  "$build/venv/bin/python" tests/fuzz/random_models.py "$build/random-models" --count "$1" &&
    "$quarry" conform --backend cpu $(cat "$build/random-models/tolerance") "$build/random-models" >"$build/random-models.txt" 2>&1 ||
    { grep -v '^refused' "$build/random-models.txt" | tail -n 40; return 1; }
}
random_operators() {  # the same cases each time, in less than two minutes; tools/fuzz.sh has others
  for fuzz_seed in 1 2 3; do
    "$build/venv/bin/python" tests/fuzz/differential.py "$quarry" "$build/random-operators" --operators 2000 --graphs 600 --seed $fuzz_seed || return 1
  done
}
bindings_prefix() {  # what `meson install` puts somewhere, for bindings of other languages
  prefix=$build/prefix-bindings
  rm -rf "$prefix" && meson install -C "$build" --no-rebuild --quiet --destdir "$prefix" || return 1
  # Texts as tokens, where there is a cargo; without, the checks say that they leave texts out.
  python3 bindings/tokenizer/build.py --tree "$prefix" --work "$build/tokenizer/cargo" >"$build/tokenizer.log" 2>&1 || [ $? -eq 77 ] || { tail -n 20 "$build/tokenizer.log"; return 1; }
}
binding() {  # NAME COMMAND...: a step that exits with 77 says in its last line why it is skipped
  name=$1 log=$build/binding.log
  shift
  begun_binding=$(date +%s)
  "$@" >"$log" 2>&1 && status=0 || status=$?
  case $status in
    0) step "$name" tail -n 8 "$log"; echo "   (it took $(($(date +%s) - begun_binding)) s)" ;;
    77) skip "$name" "$(tail -n 1 "$log")" ;;
    *) step "$name" sh -c 'tail -n 60 "$1"; false' sh "$log" ;;
  esac
}
htp_steps() {
  if ! libraries=$(qnn_libraries); then
    step "htp without Qualcomm's libraries" python3 tests/integration/check_htp.py "$build" "$shared"
    step "several networks in one container" python3 tests/integration/check_networks.py "$build" "$shared"
    skip "htp, on Qualcomm's libraries and their emulator" "they are for x86-64 and cannot be fetched here: $(tail -n 1 "$build/qnn.log" 2>/dev/null)"
    return
  fi
  step "htp, on Qualcomm's libraries and their emulator" python3 tests/integration/check_htp.py "$build" "$shared" "$libraries"
  if [ -d "$shared/models" ]; then
    step "htp: options, profiles, threads" python3 tests/integration/check_htp_run.py "$build" "$shared" "$libraries"
  else
    skip "htp: options, profiles, threads" "there is no $shared/models (set QUARRY_SHARED)"
  fi
  [ -n "$all" ] || return 0
  ! has_opencl || step "htp, gpu and cpu in one process" env QUARRY_QNN_PATH="$libraries" POCL_CACHE_DIR="$build/pocl-cache" \
    QUARRY_BACKEND_PATH="$build/backends/htp:$build/backends/gpu:$build/backends/cpu" "$build/tests/plugins/test_gpu_runs" "gpu and cpu in one process"
  step "htp: which option counts, files and refusals" python3 tests/integration/check_htp_options.py "$build" "$shared" "$libraries"
  step "htp: containers, tools and other runtimes" python3 tests/integration/check_htp_tools.py "$build" "$shared" "$libraries"
  step "htp: kinds of models that the library takes wrongly as they stand" python3 tests/integration/check_htp_kinds.py "$build" "$shared" "$libraries"
  step "htp: runs of several batches" python3 tests/integration/check_htp_batches.py "$build" "$shared" "$libraries"
  step "htp: types of weights and of arithmetic" python3 tests/integration/check_htp_types.py "$build" "$shared" "$libraries"
  step "htp: contexts of others" python3 tests/integration/check_htp_contexts.py "$build" "$shared" "$libraries"
  step "htp: context binaries, contexts of several graphs" python3 tests/integration/check_htp_binaries.py "$build" "$shared" "$libraries"
  step "htp: several networks in one binary" python3 tests/integration/check_networks.py "$build" "$shared" "$libraries"
  step "htp: records of calls, made again" python3 tests/integration/check_htp_record.py "$build" "$shared" "$libraries"
  step "htp: ONNX's own node tests" python3 tests/integration/check_htp_nodes.py "$build" "$shared" "$libraries"
  if [ -d "$shared/models" ]; then
    step "htp, one-operator models against ONNX Runtime" python3 tests/integration/check_htp_ops.py "$build" "$shared" "$libraries"
    step "htp, the real models" python3 tests/integration/check_htp_models.py "$build" "$shared" "$libraries" --all
  else
    skip "htp, the real models" "there is no $shared/models (set QUARRY_SHARED)"
  fi
  [ -d "$build/contrib" ] || return 0
  export QUARRY_QNN_PATH="$libraries"
  step "ONNX Runtime's transformer operators, on htp" conform contrib htp 30 -O soc_model=SM8650 --rtol 0.01 --range-floor 0.01 "$build/contrib"
}
interpreted_operators() {  # their kernels' accesses are watched too
  "$build/venv/bin/python" tests/fuzz/differential.py "$quarry" "$build/random-operators-gpu" --operators 1000 --graphs 200 --alternate --backend gpu:oclgrind
}
gpu_steps() {
  if command -v oclgrind >/dev/null && "$build/venv/bin/python" -c 'import onnx, onnxruntime, ml_dtypes' 2>/dev/null; then
    in_time 150 "operators and short graphs beside ONNX Runtime, on gpu under Oclgrind" interpreted_operators
  else
    skip "operators and short graphs beside ONNX Runtime, on gpu under Oclgrind" "oclgrind or the venv with onnx and onnxruntime is missing"
  fi
  if ! has_opencl; then
    skip "ONNX's node tests and real models, on gpu" "there is no OpenCL device here (pocl-opencl-icd makes one of the processor)"
    return
  fi
  [ ! -d /usr/share/libonnx-testdata/data ] ||
    step "ONNX's node tests, Debian's release, on gpu" gpu_conform debian 855 -O gpu.tail=host --constant-inputs /usr/share/libonnx-testdata/data/node
  # A model of f16 differs by steps of f16: its tensors are stored so between kernels.
  [ ! -d "$shared/models" ] ||
    step "real models, on gpu" gpu_conform models 22 -O gpu.tail=host --range-floor 0.002 "$shared/models"
}
device_steps() {
  htp_steps
  [ -z "$all" ] || gpu_steps
}
# What the emulator computes otherwise on a processor that has AVX2 and nothing newer, where this one can say that it is such.
on_plain_processor() {
  LD_PRELOAD=$build/tests/support/plain_processor.so "$@"
}
late_device_steps() {
  if command -v oclgrind >/dev/null; then in_time 200 "kernels of gpu under Oclgrind" meson_tests "$build" --suite oclgrind
  else skip "kernels of gpu under Oclgrind" "oclgrind is not installed"
  fi
  libraries=$(qnn_libraries) || return 0
  [ ! -d "$build/onnx-newest/node" ] ||
    in_time 150 "htp: node tests of the newest ONNX package" python3 tests/integration/check_htp_nodes.py "$build" "$shared" "$libraries" --nodes "$build/onnx-newest/node"
  if grep -qw avx512f /proc/cpuinfo && grep -qw cpuid_fault /proc/cpuinfo; then
    in_time 100 "htp: kinds of models, as on a processor with AVX2 alone" on_plain_processor python3 tests/integration/check_htp_kinds.py "$build" "$shared" "$libraries" --every 4
  else
    skip "htp: kinds of models, as on a processor with AVX2 alone" "the processor has no more than AVX2, or its CPUID cannot fault"
  fi
  in_time 150 "htp: ONNX's own node tests, on the oldest and the newest architecture" python3 tests/integration/check_htp_nodes.py "$build" "$shared" "$libraries" --ends
  [ ! -d "$shared/models" ] || in_time 200 "htp, all one-operator models against ONNX Runtime" python3 tests/integration/check_htp_ops.py "$build" "$shared" "$libraries" --all
}
bindings_steps() {
  if bindings_prefix; then
    docs_python="$build/python/venv/bin/python"
    binding "bindings: Python, from its wheel in a fresh venv" python3 bindings/python/check.py "$prefix" "$build/python" ${all:+--all}
    binding "bindings: Rust" python3 bindings/rust/check.py "$prefix" "$build/rust" ${all:+--all}
    binding "bindings: Go" python3 bindings/go/check.py "$prefix" ${all:+--all}
    binding "tokenizers, and chat with texts" python3 tests/integration/check_tokenizer.py "$build" "$build/tokenizer"
    binding "bindings: Java" python3 bindings/java/check.py "$prefix" "$build/java" ${all:+--all}
    binding "bindings: Kotlin, of the package for Android" python3 bindings/android/check.py "$prefix" "$build/kotlin" "$build/tests/support/native_window"
    binding "bindings: C#" python3 bindings/csharp/check.py "$prefix" "$build/csharp"
    [ -x "$docs_python" ] && "$docs_python" -c 'import quarry' 2>/dev/null || docs_python=
    step "docs: the code in them" python3 tests/integration/check_docs_code.py "$prefix" "$build/docs-code" ${docs_python:+--python "$docs_python"}
    step "docs: pieces of code, and lines of the program's" python3 tests/integration/check_snippets.py "$prefix" "$build/docs-snippets" ${docs_python:+--python "$docs_python"}
  else
    skip "bindings of other languages" "the tree cannot be installed into $prefix"
  fi
  if [ -d "$shared/models" ] && [ -d "$shared/images" ]; then
    with=$build/python/venv/bin/python
    "$with" -c 'import quarry, PIL' 2>/dev/null || with=
    step "examples${with:+, in Python too}" python3 tests/integration/check_examples.py "$build" "$shared" $with
  else
    skip "examples" "there is no $shared/models or $shared/images (set QUARRY_SHARED)"
  fi
}
program_steps() {
  for subject in program usage habits draw parts outputs shapes trouble profile view completion quantize cases; do
    step "the program, as a user would: $subject" python3 "tests/integration/check_$subject.py" "$build" "$shared"
  done
}
installed_tree() {  # a program outside the tree, built against what `meson install` put somewhere
  prefix=$build/prefix
  rm -rf "$prefix" && DESTDIR="$prefix" meson install -C "$build" --quiet &&
    python3 tests/integration/check_installed.py "$prefix" "$build" "$root" && python3 tests/integration/check_vcpkg.py "$build"
}
subproject() {
  python3 tests/integration/check_subproject.py "$build" "$root"
}
packages_made=
packages() {  # of this build, once
  [ -n "$packages_made" ] || tools/make_deb.sh --build "$build" "$build/deb" && packages_made=1
}
debian_packages() {
  packages && python3 tests/integration/check_packages.py "$build/deb" "$root"
}
newcomer() {
  packages && python3 tests/integration/check_pages.py "$build/newcomer" --packages "$build/deb"
}
static_build() {
  # No more than what programs outside the tree are linked with, and with the options of the release build: ccache has the most of it.
  configure "$build-static" --buildtype=release -Dwerror=true -Ddefault_library=static -Dstatic_backends=cpu,cpu-reference,gpu,htp -Dtests=false "-Dkernel_isas=$isas" &&
    make_in "$build-static" runtime/libquarry.a prepare/libquarry-prepare.a quantize/libquarry-quantize.a generate/libquarry-generate.a &&
    "$quarry" compile models/digits/digits.onnx -o "$build-static/digits.qrm" >/dev/null || return 1
  if libraries=$(qnn_libraries); then
    QUARRY_QNN_PATH=$libraries "$quarry" compile models/digits/digits.onnx --backend htp -O soc_model=SM8650 -o "$build-static/digits-htp.qrm" >/dev/null || return 1
  fi
  python3 tests/integration/check_static.py "$build-static" "$root" "$build-static/digits.qrm" $libraries
}
sizes() {  # of the release build, and of what an app takes of it
  mkdir -p "$build-one" && "$quarry" compile models/digits/digits.onnx -o "$build-one/digits.qrm" >/dev/null &&
    python3 tests/integration/check_sizes.py "$build" "$root" "$build-one" "$build-one/digits.qrm" $programs
}
static_reference() {
  configure "$build-static-reference" -Ddefault_library=static -Dstatic_backends=cpu-reference -Dtests=false &&
    if ninja -C "$build-static-reference" -t inputs all | grep -E '^(backends|kernels)/cpu/'; then echo "   a build without cpu compiles what is cpu's"; false; fi
}

install_packages || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }
if [ -n "$ci" ]; then expected=$(minutes 7200); elif [ -n "$all" ]; then expected=$(minutes 4200); elif [ -n "$models" ]; then expected=$(minutes 1440); else expected=$(minutes 1200); fi
mkdir -p "$build"
say "tests in $build: at most $expected on $processors processors; what is built already is not built again; $(free_space) of the disk are free"
step "build: release, warnings are errors" build_release
build_seconds=$(($(date +%s) - begun))
[ $build_seconds -ge 300 ] || build_seconds=650  # most of it was built before
if [ $failed -gt 0 ]; then
  echo "nothing else can run"
  echo "$passed passed, $failed failed, $skipped skipped"
  exit 1
fi
# Each of these keeps one processor busy at a time. With --all the tests have the machine for themselves, as those that measure times of stops are among them.
[ -z "$models" ] || [ -n "$all" ] || { beside device_steps; beside bindings_steps; beside program_steps; }
step "tests of the release build" meson_tests "$build" --no-suite oclgrind $([ -n "$all" ] || echo --no-suite long --no-suite devices)
if [ -n "$models" ]; then
  if [ -n "$all" ]; then
    if newest_onnx; then
      step "ONNX's backend tests, newest package: write" "$build/venv/bin/python" tests/conformance/dump_onnx_node_tests.py "$build/onnx-newest"
      step "ONNX Runtime's transformer operators: write" "$build/venv/bin/python" tests/conformance/dump_contrib_tests.py "$build/contrib"
    fi
    newest_onnx_and_qnn || echo "   without ONNX Runtime's QNN provider to compare with: $(tail -n 1 "$build/pip.log" 2>/dev/null)"
  fi
  [ -z "$all" ] || { beside device_steps; beside bindings_steps; }
fi
if [ -d /usr/share/libonnx-testdata/data ]; then
  step "ONNX's backend tests, Debian's release, on cpu-reference" conform debian cpu-reference 1000 /usr/share/libonnx-testdata/data
  step "ONNX's backend tests, Debian's release, on cpu" conform debian cpu 1000 /usr/share/libonnx-testdata/data
else
  skip "ONNX's backend tests, Debian's release" "libonnx-testdata is not installed"
fi
step "changed models, under malloc that fills" python3 tests/fuzz/mutated_models.py "$quarry" models tests/fuzz/corpus/onnx /usr/share/libonnx-testdata/data --count 200
if "$build/venv/bin/python" -c 'import onnx, onnxruntime' 2>/dev/null; then
  step "random graphs beside ONNX Runtime" random_graphs 150
  [ -z "$all" ] || step "operators and short graphs beside ONNX Runtime" random_operators
  if [ -d "$shared/zoo" ]; then
    step "graphs of exporters beside ONNX Runtime" env QUARRY_SHARED="$shared" tools/zoo.sh $([ -z "$all" ] && echo cpu || echo --sizes --perturb cpu cpu-reference)
  fi
else
  skip "random graphs beside ONNX Runtime" "there is no venv with onnx and onnxruntime (tools/test.sh --all makes one)"
fi
if [ -n "$models" ]; then
  if [ -d "$shared/models" ]; then
    step "real models, on cpu through .qrm containers" conform models-qrm cpu 24 --compiled "$shared/models"
  else
    skip "real models" "there is no $shared/models (set QUARRY_SHARED)"
  fi
  [ -z "$all" ] || program_steps
  step "docs made from tables are up to date" python3 tools/generate_docs.py --check "$quarry"
  step "bindings: what is made from the headers is up to date" python3 tools/generate_bindings.py --check
fi
# -O1, names of functions without line numbers (-g1 has those), traps in place of messages (the address sanitizer shows where a trap was met), and not three checks of
# -fsanitize=undefined: a null or overrun pointer is caught where it is used, and no base class of ours is cast down. Each halves the time to compile. Large
# functions call the address sanitizer and do not have its checks in them: a tile of a product takes 41 seconds to compile, and not 109.
few='-fno-sanitize=null,object-size,vptr -fsanitize-undefined-trap-on-error --param=asan-instrumentation-with-call-threshold=100'
core_suites='--suite unit --suite capi --suite kernels --suite faults --suite fuzz --suite golden --no-suite devices'
if [ -n "$sanitizers" ] && fits "address and undefined-behaviour sanitizers" 1100; then
  step "configure: address and undefined-behaviour sanitizers" configure "$build-asan" -Db_sanitize=address,undefined -Db_lundef=false \
    -Doptimization=1 -Ddebug=false "-Dc_args=$few" "-Dcpp_args=$few" "-Dkernel_isas=$isas"
  step "address and undefined-behaviour sanitizers: build and tests" sanitized_tests asan "$build-asan" $core_suites
  if [ -d /usr/share/libonnx-testdata/data ]; then
    step "address and undefined-behaviour sanitizers: build of the backends" make_in "$build-asan" backends/cpu/quarry-backend-cpu.so
    runner=under_asan
    step "address and undefined-behaviour sanitizers: ONNX's node tests on cpu-reference" conform debian-asan cpu-reference 850 /usr/share/libonnx-testdata/data/node
    step "address and undefined-behaviour sanitizers: ONNX's node tests on cpu" conform debian-asan cpu 850 /usr/share/libonnx-testdata/data/node
    runner=
  fi
  if [ -n "$ci" ] && fits "thread sanitizer" 300; then
    step "configure: thread sanitizer" configure "$build-tsan" -Db_sanitize=thread -Db_lundef=false -Doptimization=1 -Ddebug=false "-Dkernel_isas=$isas"
    step "thread sanitizer: build and tests of threads" sanitized_tests tsan "$build-tsan" --suite threads
    drop "$build-tsan"
  fi
fi
if [ -n "$all" ]; then
  ! fits "docs: the site and its links" 60 || binding "docs: the site and its links" tools/docs.sh "$build/docs"
  [ ! -d /usr/share/libonnx-testdata/data ] ||
    in_time 30 "ONNX's backend tests, Debian's release, through .qrm containers" conform debian-qrm cpu-reference 1000 --compiled /usr/share/libonnx-testdata/data
  if newest_onnx; then
    in_time 30 "data-dependent shapes, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_dynamic_shapes.py "$build" "$shared"
    in_time 30 "state, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_state.py "$build" "$shared"
    "$build/venv/bin/python" -c 'import cffi' 2>/dev/null || "$build/venv/bin/pip" install -q cffi >"$build/pip.log" 2>&1
    in_time 60 "runs in larger programs, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_padding.py "$build" "$shared" $(qnn_libraries)
    in_time 30 "state in f16 and bytes, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_state_types.py "$build" "$shared" $(qnn_libraries)
    in_time 60 "models as Optimum, torch and onnxruntime-genai write them, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_exporters.py "$build" "$shared"
    in_time 30 "a model of over 2 GB" "$build/venv/bin/python" tests/integration/check_large.py "$build" "$shared"
    in_time 60 "adapters, beside merged weights" env QUARRY_QNN_PATH="$(qnn_libraries)" POCL_CACHE_DIR="$build/pocl-cache" "$build/venv/bin/python" tests/integration/check_adapters.py "$build" "$shared"
    in_time 30 "text generation, beside ONNX Runtime" "$build/venv/bin/python" tests/integration/check_generate.py "$build" "$shared"
    [ -z "$ci" ] || in_time 100 "quarry export, beside ONNX Runtime" "$build/venv/bin/python" tests/conformance/check_export.py "$quarry" "$build/export" 2300 /usr/share/libonnx-testdata/data/node "$build/onnx-newest/node" $(ls -d "$shared/models" 2>/dev/null)
    newest=$("$build/venv/bin/python" -c 'import onnx, os; d = os.path.join(os.path.dirname(onnx.__file__), "backend/test/data"); print(*[os.path.join(d, n) for n in ("simple", "pytorch-converted", "pytorch-operator") if os.path.isdir(os.path.join(d, n))])')
    in_time 30 "ONNX's backend tests, newest package, on cpu-reference" conform newest cpu-reference 1850 "$build/onnx-newest/node" $newest
    in_time 30 "ONNX's backend tests, newest package, on cpu through .qrm containers" conform newest-qrm cpu 1850 --compiled "$build/onnx-newest/node" $newest
    in_time 30 "ONNX Runtime's transformer operators, on cpu" conform contrib cpu 48 "$build/contrib"
  else
    skip "ONNX's backend tests, newest package" "the onnx package cannot be installed here: $(tail -n 1 "$build/pip.log" 2>/dev/null)"
  fi
  if [ -d "$shared/models" ]; then
    in_time 60 "real models, on cpu-reference" conform models cpu-reference 24 "$shared/models"
    in_time 60 "real models, on cpu-reference through .qrm containers" conform models-qrm cpu-reference 24 --compiled "$shared/models"
    in_time 30 "real models, on cpu" conform models cpu 24 "$shared/models"
  fi
  install_packages browser || echo "   Chromium cannot be installed"
  ! fits "quarry view, in Chromium" 60 || binding "quarry view, in Chromium" python3 tests/integration/check_page.py "$build" "$shared"
  in_time 60 "installed tree: pkg-config, find_package" installed_tree
  ! fits "a newcomer, by the docs' own snippets in a clean root" 150 || binding "a newcomer, by the docs' own snippets in a clean root" newcomer
  in_time 120 "static build" static_build
  drop "$build-static"
  programs=
  [ -z "$ci" ] || ! fits "sizes of the smallest programs" 350 || programs=--programs
  if [ "$(uname -m)" = x86_64 ]; then in_time 100 "sizes against their budgets" sizes; else skip "sizes against their budgets" "budgets are those of x86-64"; fi
  in_time 30 "static build of cpu-reference alone" static_reference
  drop "$build-static-reference" "$build-one" "$build-one-plugin" "$build-one-static" "$build-one-small"
fi
if [ -n "$ci" ]; then
  beside late_device_steps
  in_time 400 "aarch64: cross-built, kernels under qemu" tools/test_aarch64.sh "$build-aarch64"
  drop "$build-aarch64"
  [ ! -f "$build-asan/build.ninja" ] ||
    in_time 700 "plugins, devices and the ABI under the address and undefined-behaviour sanitizers" sanitized_tests asan "$build-asan" --suite plugins --suite devices --suite abi
  in_time 60 "as a subproject of another project" subproject
  ! fits "Debian packages, in a clean root" 100 || binding "Debian packages, in a clean root" debian_packages
fi
[ -z "$models" ] || joined
[ -z "$failures" ] || echo "failed steps:$failures"
seconds=$(($(date +%s) - begun))
echo "$((seconds / 60)) min $((seconds % 60)) s; $(free_space) of the disk are free"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
