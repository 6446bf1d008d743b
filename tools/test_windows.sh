#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds library, plugins and kernels for Windows x64 with mingw-w64 and runs under wine, without a display: what base/os promises on every system, a container
# on the backend cpu-reference, plugins that are refused, and with --kernels the backend cpu and its kernels' tests (sse2 and avx2, a quarter of an hour).
# With --onnx what reads ONNX, the quantiser, the backends cpu and htp too, beside Linux's: models imported, checked, compiled and quantised, ONNX's node tests on cpu
# case by case, Qualcomm's emulator (tests/integration/check_windows.py; never run to its end yet: docs/windows.md).
#   tools/test_windows.sh [--kernels] [--onnx] [BUILD_DIR]
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
kernels='' onnx=''
[ "${1-}" = --kernels ] && kernels=1 && shift
[ "${1-}" = --onnx ] && onnx=1 && shift
build=${1:-${QUARRY_BUILD_DIR:-$root/build}-windows${onnx:+-onnx}}
case $build in /*) ;; *) build=$root/$build ;; esac
install_packages windows || { echo "cannot install mingw-w64 and wine" >&2; exit 1; }
# Headers that need no library, which mingw does not look for in /usr/include.
headers=$build.headers
mkdir -p "$headers"
for one in xxhash.h flatbuffers doctest CLI nlohmann stb; do ln -sfn "/usr/include/$one" "$headers/$one"; done
with_onnx() {
  install_packages cross && cross=$(tools/cross/mingw.sh) &&
    configure "$build" --cross-file tools/cross/x86_64-w64-mingw32.ini --cross-file "$cross/needs.ini" --buildtype=minsize -Dwerror=true -Dgpu=disabled -Dkernel_isas=avx2,sse2
}
without_onnx() {
  configure "$build" --cross-file tools/cross/x86_64-w64-mingw32.ini --buildtype=minsize -Dwerror=true -Dprepare=false -Dprogram=enabled -Dgpu=disabled -Dkernel_isas=avx2,sse2 "-Dcpp_args=-isystem$headers"
}
if [ -n "$onnx" ]; then with_onnx; else without_onnx; fi || exit 1
ninja -C "$build" tests/unit/base/test-os-everywhere.exe tests/unit/base/os-child.exe tests/unit/base/test-alloc.exe tests/unit/base/test-hash-index.exe tests/unit/base/test-pattern.exe \
  tests/plugins/dll/test-pe-note.exe runtime/libquarry-0.dll runtime/quarry-compiler.exe backends/cpu-reference/quarry-backend-cpu-reference.dll \
  backends/null/quarry-backend-null.dll bindings/hello.exe tools/quarry.exe generate/libquarry-generate-0.dll tests/integration/backend-host.exe ${kernels:+backends/cpu/quarry-backend-cpu.dll tests/kernels/test-kernels.exe} \
  ${onnx:+prepare/libquarry-prepare-0.dll quantize/libquarry-quantize-0.dll backends/cpu/quarry-backend-cpu.dll backends/htp/quarry-backend-htp.dll} >"$build.ninja.log" 2>&1 ||
  { grep -A 30 -m 3 -E 'FAILED|error:' "$build.ninja.log"; exit 1; }

export WINEPREFIX="$build.wine" WINEDEBUG=-all WINEPATH="Z:$build/runtime${onnx:+;Z:$build/prepare;Z:$build/quantize}"
unset DISPLAY
export LC_ALL=C.UTF-8  # wine reads words of the command line by it
failed=0
# windows NAME TEXT COMMAND...: runs a program under wine; what it prints must have TEXT, and it must end well.
windows() {
  name=$1 text=$2
  shift 2
  if wine "$@" >"$build.run.log" 2>&1 && grep -q "$text" "$build.run.log"; then printf "%s: %s\n" "$name" "$(grep -m 1 -- "$text" "$build.run.log" | tr -d "\r")"
  else failed=1; echo "$name: FAILED"; tail -n 20 "$build.run.log"; fi
}
for one in os-everywhere alloc hash-index pattern; do windows "base, $one" 'Status: SUCCESS' "$build/tests/unit/base/test-$one.exe"; done
windows "plugins that are DLLs" 'Status: SUCCESS' "$build/tests/plugins/dll/test-pe-note.exe"
for one in cpu-reference null ${kernels:+cpu}; do
  QUARRY_BACKEND_PATH="Z:$build/backends/$one" windows "backend $one is opened" "^$one: usable 1" "$build/tests/integration/backend-host.exe" "$one"
done
# A container that Linux made.
linux=${QUARRY_BUILD_DIR:-$root/build}
if [ -x "$linux/tools/quarry" ] && [ -x "$linux/bindings/hello" ] && "$linux/tools/quarry" compile models/digits/digits.onnx --backend cpu-reference -o "$build.digits.qrm" >"$build.run.log" 2>&1; then
  numbers=$("$linux/bindings/hello" "$build.digits.qrm" cpu-reference) found=$(wine "$build/bindings/hello.exe" "$build.digits.qrm" cpu-reference 2>"$build.run.log" | tr -d '\r')
  if [ -n "$numbers" ] && [ "$found" = "$numbers" ]; then echo "the numbers of Linux, on cpu-reference: $(echo "$numbers" | tail -n 1)"
  else failed=1; printf 'the numbers of Linux, on cpu-reference: FAILED\nthere: %s\nhere: %s\n' "$numbers" "$found"; fi
else echo "a container: left out, no program in $linux to compile one"; fi
# The program: names of files that are in no code page, standard input and output, a folder that it makes, wrong use.
place=$build.place/Größe-模型
rm -rf "$build.place"
mkdir -p "$place"
if cp "$build.digits.qrm" "$place/ziffern-数字.qrm" 2>/dev/null; then
  export QUARRY_BACKEND_PATH="Z:$build/backends/cpu-reference"
  windows "the program's version" '^quarry [0-9]' "$build/tools/quarry.exe" --version
  windows "the program runs a model, and saves its output" 'saved as' "$build/tools/quarry.exe" run "$place/ziffern-数字.qrm" --backend cpu-reference --zeros --save "$place/out"
  "$linux/tools/quarry" run "$build.digits.qrm" --backend cpu-reference --zeros --save "$build.place/linux" >"$build.run.log" 2>&1
  if cmp -s "$place/out/scores.npy" "$build.place/linux/scores.npy"; then echo "its output: the bytes of Linux"
  else failed=1; echo "its output: FAILED: found other bytes than on Linux"; fi
  windows "it verifies a container by Windows' own path" 'sound' "$build/tools/quarry.exe" verify "Z:$(printf %s "$place" | tr / "\\\\")\\ziffern-数字.qrm"
  windows "it reads standard input" 'container format' "$build/tools/quarry.exe" inspect - <"$build.digits.qrm"
  windows "it doctors" 'ok   cpu-reference' "$build/tools/quarry.exe" doctor
  windows "it measures" 'PeakWorkingSetSize' "$build/tools/quarry.exe" bench "$place/ziffern-数字.qrm" --backend cpu-reference --iterations 3 --json -
  wine "$build/tools/quarry.exe" run "$place/nothing.qrm" >"$build.run.log" 2>&1
  if [ $? = 3 ] && grep -q 'QR-F0001' "$build.run.log"; then echo "a file that is not there: exit status 3, $(grep -m 1 -o 'No such file or directory' "$build.run.log")"
  else failed=1; echo "a file that is not there: FAILED"; cat "$build.run.log"; fi
  unset QUARRY_BACKEND_PATH
else echo "the program: left out, no container"; fi
# Bad plugins, in a folder whose name is in no code page: each is refused before any of it runs, and says why.
bad=$build.bad/Größe-模型
mkdir -p "$bad"
sed 's/ADVAPI32\.dll/NOTTHERE.dll/' "$build/backends/null/quarry-backend-null.dll" >"$bad/quarry-backend-lacking.dll"
sed 's/\.qrnote/.xrnote/' "$build/backends/null/quarry-backend-null.dll" >"$bad/quarry-backend-plain.dll"
printf '\177ELF and more' >"$bad/quarry-backend-elf.dll"
refused() {  # ID TEXT
  QUARRY_BACKEND_PATH="Z:$bad" wine "$build/tests/integration/backend-host.exe" "$1" tests/golden/v0.1/sample.qrm >"$build.run.log" 2>&1
  if grep -q "$2" "$build.run.log"; then echo "refused: $(grep -m 1 "$2" "$build.run.log" | tr -d '\r')"
  else failed=1; echo "bad plugin $1: FAILED"; cat "$build.run.log"; fi
}
refused lacking 'it needs NOTTHERE.dll'
refused plain 'this is no Quarry plugin'
refused elf 'found a file that starts with 7f 45, expected a DLL'
if [ -n "$onnx" ] && [ -x "$linux/tools/quarry" ]; then
  libraries=$(tools/get_qnn.sh --machine x86_64 "$build.qnn-linux" 2>"$build.run.log") && dlls=$(tools/get_qnn.sh --machine x86_64 --system windows "$build.qnn" 2>"$build.run.log") ||
    { libraries='' dlls=''; echo "htp: left out, Qualcomm's libraries cannot be fetched: $(tail -n 1 "$build.run.log")"; }
  python3 tests/integration/check_windows.py "$build" "$linux" $dlls $libraries || failed=1
elif [ -n "$onnx" ]; then echo "models, conformance, htp: left out, no program in $linux to compare with"
fi
if [ -n "$kernels" ]; then
  for isa in avx2 sse2; do windows "kernels, $isa" ' 0 failed' "$build/tests/kernels/test-kernels.exe" --isa "$isa"; done
fi
[ $failed = 0 ]
