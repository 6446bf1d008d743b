#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds Quarry for Windows x64 and runs it under wine, without a display: what base/os promises on every system, containers on the backends cpu-reference and cpu, the
# program, plugins that are refused, what the gpu backend does without a device.
#   tools/test_windows.sh [--zig] [--onnx] [--kernels] [BUILD_DIR]
#     --zig      by zig, with Windows' newer C runtime (UCRT), in place of mingw-w64; and for Arm64, which runs nowhere here: it is linked whole, and its DLLs are read
#     --onnx     what reads ONNX and the quantiser too, beside Linux's program: models imported, checked, compiled and quantised, real models, ONNX's node tests on cpu,
#                Qualcomm's emulator (tests/integration/check_windows.py); then the archive of a release
#     --kernels  the tests of the kernels for avx2 and sse2
# Linux's program and numbers are of the build in $QUARRY_BUILD_DIR (default: build). From nothing it takes half an hour on two cores, --onnx an hour.
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
zig='' onnx='' kernels=''
while :; do
  case "${1-}" in
    --zig) zig=1 ;;
    --onnx) onnx=1 ;;
    --kernels) kernels=1 ;;
    -*) echo "usage: tools/test_windows.sh [--zig] [--onnx] [--kernels] [BUILD_DIR]: found $1" >&2; exit 2 ;;
    *) break ;;
  esac
  shift
done
linux=$build
build=${1:-$linux-windows${zig:+-zig}${onnx:+-onnx}}
case $build in /*) ;; *) build=$root/$build ;; esac
install_packages windows && install_packages cross || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }

# made MACHINE BUILD INSTRUCTION_SETS TARGET...: builds these and what users have.
made() {
  machine=$1 here=$2 isas=$3
  shift 3
  if [ -n "$zig" ]; then  # whose folder has a meson that knows zig's linker
    cross=$(tools/cross/zig/zig.sh $no_onnx "$machine-windows-gnu") || return 1
    PATH=$cross:$PATH
    files="--cross-file $cross/cross.ini"
  else
    cross=$(tools/cross/mingw.sh $no_onnx) || return 1
    files="--cross-file tools/cross/x86_64-w64-mingw32.ini --cross-file $cross/needs.ini"
  fi
  configure "$here" $files --buildtype=minsize -Ddebug=false -Dwerror=true -Dprogram=enabled -Dgpu=enabled ${no_onnx:+-Dprepare=false} "-Dkernel_isas=$isas" || return 1
  say "building for $machine in $here"
  ninja_in "$here" runtime/libquarry-0.dll runtime/quarry-compiler.exe tools/quarry.exe bindings/hello.exe backends/null/quarry-backend-null.dll backends/cpu-reference/quarry-backend-cpu-reference.dll \
    backends/cpu/quarry-backend-cpu.dll backends/htp/quarry-backend-htp.dll backends/gpu/quarry-backend-gpu.dll generate/libquarry-generate-0.dll backends/htp/record/libquarry-replay-0.dll ${onnx:+prepare/libquarry-prepare-0.dll quantize/libquarry-quantize-0.dll} "$@"
}
no_onnx=--no-onnx
[ -z "$onnx" ] || no_onnx=
tests='os-everywhere alloc hash-index pattern real'
made x86_64 "$build" avx2,sse2 $(printf 'tests/unit/base/test-%s.exe ' $tests) tests/unit/base/os-child.exe tests/unit/gpu/test-gpu.exe tests/plugins/dll/test-pe-note.exe tests/plugins/dll/read-dll.exe \
  tests/integration/backend-host.exe ${kernels:+tests/kernels/test-kernels.exe} || exit 1

export WINEPREFIX="$build.wine" WINEDEBUG=-all WINEPATH="Z:$build/runtime${onnx:+;Z:$build/prepare;Z:$build/quantize}"
unset DISPLAY
export LC_ALL=C.UTF-8  # wine reads words of the command line by it
failed=0
wrong() {  # NAME WHY: with the end of what was printed
  failed=1
  echo "$1: FAILED${2:+: $2}"
  tail -n 20 "$build.run.log"
}
# windows NAME TEXT COMMAND...: runs a program under wine; what it prints must have TEXT, and it must end well.
windows() {
  name=$1 text=$2
  shift 2
  if wine "$@" >"$build.run.log" 2>&1 && grep -q "$text" "$build.run.log"; then printf "%s: %s\n" "$name" "$(grep -m 1 -- "$text" "$build.run.log" | tr -d "\r")"
  else wrong "$name"; fi
}
say 'running under wine'
# Its server stays, so that each program starts at once.
wineserver -p && trap 'wineserver -k' EXIT
for one in $tests; do windows "base, $one" 'Status: SUCCESS' "$build/tests/unit/base/test-$one.exe"; done
windows "plugins that are DLLs" 'Status: SUCCESS' "$build/tests/plugins/dll/test-pe-note.exe"
windows "gpu, plans" 'Status: SUCCESS' "$build/tests/unit/gpu/test-gpu.exe"
for one in cpu-reference null cpu; do
  QUARRY_BACKEND_PATH="Z:$build/backends/$one" windows "backend $one is opened" "^$one: usable 1" "$build/tests/integration/backend-host.exe" "$one"
done
# Containers that Linux made. One for cpu may be packed for another instruction set: its weights are packed anew.
numbers() {  # PROGRAM BACKEND
  echo "not run" >"$build.run.log"
  there=$("$linux/bindings/hello" "$build.digits-$2.qrm" "$2" 2>"$build.run.log")
  found=$(QUARRY_BACKEND_PATH="Z:$build/backends/$2" wine "$1" "$build.digits-$2.qrm" "$2" 2>"$build.run.log" | tr -d '\r')
  if [ -n "$there" ] && [ "$found" = "$there" ]; then echo "the numbers of Linux, on $2: $(echo "$there" | tail -n 1)"
  else wrong "the numbers of Linux, on $2" "found $found, expected $there"; fi
}
if [ -x "$linux/tools/quarry" ] && [ -x "$linux/bindings/hello" ]; then
  for one in cpu-reference cpu; do
    "$linux/tools/quarry" compile models/digits/digits.onnx --backend $one -o "$build.digits-$one.qrm" >"$build.run.log" 2>&1 || wrong "a container of Linux for $one"
    numbers "$build/bindings/hello.exe" $one
  done
else echo "containers, what the program does: left out, there is no program in $linux to compile one"; fi
# The program: names of files that are in no code page, standard input and output, a folder that it makes, wrong use.
place=$build.place/Größe-模型
rm -rf "$build.place"
mkdir -p "$place"
if cp "$build.digits-cpu-reference.qrm" "$place/ziffern-数字.qrm" 2>/dev/null; then
  export QUARRY_BACKEND_PATH="Z:$build/backends/cpu-reference"
  windows "the program's version" '^quarry [0-9]' "$build/tools/quarry.exe" --version
  windows "the program runs a model, and saves its output" 'saved as' "$build/tools/quarry.exe" run "$place/ziffern-数字.qrm" --backend cpu-reference --zeros --save "$place/out"
  "$linux/tools/quarry" run "$build.digits-cpu-reference.qrm" --backend cpu-reference --zeros --save "$build.place/linux" >"$build.run.log" 2>&1
  if cmp -s "$place/out/scores.npy" "$build.place/linux/scores.npy"; then echo "its output: the bytes of Linux"
  else wrong "its output" "found other bytes than on Linux"; fi
  windows "it verifies a container by Windows' own path" 'sound' "$build/tools/quarry.exe" verify "Z:$(printf %s "$place" | tr / "\\\\")\\ziffern-数字.qrm"
  windows "it reads standard input" 'container format' "$build/tools/quarry.exe" inspect - <"$build.digits-cpu-reference.qrm"
  windows "it doctors" 'ok   cpu-reference' "$build/tools/quarry.exe" doctor
  windows "it measures" 'PeakWorkingSetSize' "$build/tools/quarry.exe" bench "$place/ziffern-数字.qrm" --backend cpu-reference --iterations 3 --json -
  wine "$build/tools/quarry.exe" run "$place/nothing.qrm" >"$build.run.log" 2>&1
  if [ $? = 3 ] && grep -q 'QR-F0001' "$build.run.log"; then echo "a file that is not there: exit status 3, $(grep -m 1 -o 'No such file or directory' "$build.run.log")"
  else wrong "a file that is not there"; fi
  unset QUARRY_BACKEND_PATH
fi
# A library that is looked for by its name: never in the working folder, where this one lies, which has nothing of OpenCL. (wine's own is left out.)
cp "$build/backends/null/quarry-backend-null.dll" "$place/OpenCL.dll"
opencl() {  # NAME TEXT
  (cd "$place" && WINEDLLOVERRIDES=opencl=n QUARRY_BACKEND_PATH="Z:$build/backends/gpu" wine "$build/tests/integration/backend-host.exe" gpu) >"$build.run.log" 2>&1
  if grep -q "$2" "$build.run.log"; then echo "$1: $(grep -m 1 -o "$2" "$build.run.log")"
  else wrong "$1"; fi
}
opencl "gpu without OpenCL" 'OpenCL.dll: not found in the system.s library path'
QUARRY_OPENCL_PATH="Z:$place/OpenCL.dll" opencl "gpu with a library of another kind" 'found no function cl[A-Za-z]*, expected the OpenCL library'
# Bad plugins, in a folder whose name is in no code page: each is refused before any of it runs, and says why.
bad=$build.bad/Größe-模型
mkdir -p "$bad"
sed 's/ADVAPI32\.dll/NOTTHERE.dll/' "$build/backends/null/quarry-backend-null.dll" >"$bad/quarry-backend-lacking.dll"
sed 's/\.qrnote/.xrnote/' "$build/backends/null/quarry-backend-null.dll" >"$bad/quarry-backend-plain.dll"
printf '\177ELF and more' >"$bad/quarry-backend-elf.dll"
refused() {  # ID TEXT
  QUARRY_BACKEND_PATH="Z:$bad" wine "$build/tests/integration/backend-host.exe" "$1" tests/golden/v0.1/sample.qrm >"$build.run.log" 2>&1
  if grep -q "$2" "$build.run.log"; then echo "refused: $(grep -m 1 "$2" "$build.run.log" | tr -d '\r')"
  else wrong "bad plugin $1"; fi
}
refused lacking 'it needs NOTTHERE.dll'
refused plain 'this is no Quarry plugin'
refused elf 'found a file that starts with 7f 45, expected a DLL'

# Each DLL of a build as the loader reads it before it opens it: for that machine, with its note, and with what it imports.
read_dlls() {  # x64|arm64 TARGET BUILD
  windows "plugins for $1, as the loader reads them" "^gpu [0-9.]*, $2, .* KERNEL32.dll" "$build/tests/plugins/dll/read-dll.exe" "$1" \
    "$3"/backends/cpu/*.dll "$3"/backends/cpu-reference/*.dll "$3"/backends/htp/*.dll "$3"/backends/null/*.dll "$3"/backends/gpu/*.dll
  tr -d '\r' <"$build.run.log" | sed 's/^/   /'
}
read_dlls x64 x86_64-windows-any "$build"
if [ -n "$zig" ]; then
  # Another compiler's program, with another C runtime, on zig's DLL.
  if x86_64-w64-mingw32-gcc-posix -std=c99 -Wall -Werror -Iinclude bindings/c/hello.c "$build/runtime/libquarry.dll.a" -o "$build.hello.exe" >"$build.run.log" 2>&1; then
    [ ! -f "$build.digits-cpu.qrm" ] || numbers "$build.hello.exe" cpu
  else wrong "a program of mingw"; fi
  # What Microsoft's compiler would read, by clang in its way; its own headers are not needed, and not there.
  own=$(dirname "$(readlink -f "$cross/../zig")")/lib/include
  for header in include/quarry/*.h; do
    echo "#include <quarry/${header##*/}>" | "$cross/../zig" clang --target=x86_64-pc-windows-msvc -ffreestanding -fsyntax-only -std=c11 -Wall -Wextra -Werror -nostdinc -isystem "$own" -Iinclude -x c - >"$build.run.log" 2>&1 ||
      wrong "$header, for Microsoft's compiler"
  done
  if made aarch64 "$build-arm64" dotprod,neon; then echo "Arm64: linked whole, no name is undefined" && read_dlls arm64 aarch64-windows-any "$build-arm64"
  else failed=1 && echo "Arm64: FAILED"; fi
fi
if [ -n "$onnx" ] && [ -x "$linux/tools/quarry" ]; then
  say "beside the program in $linux"
  libraries=$(tools/get_qnn.sh --machine x86_64 "$build.qnn-linux" 2>"$build.run.log") && dlls=$(tools/get_qnn.sh --machine x86_64 --system windows "$build.qnn" 2>"$build.run.log") ||
    { libraries='' dlls=''; echo "htp: left out, Qualcomm's libraries cannot be fetched: $(tail -n 1 "$build.run.log")"; }
  python3 tests/integration/check_windows.py "$build" "$linux" $dlls $libraries || failed=1
elif [ -n "$onnx" ]; then echo "models, conformance, htp: left out, no program in $linux to compare with"
fi
# What a release has for Windows, in a folder of its own, where nothing says where anything is.
if [ -n "$onnx" ]; then
  rm -rf "$build.zip" "$build.tree"
  if python3 tools/release/windows.py "$build" "$root" "$build.zip" >"$build.run.log" 2>&1 && python3 -m zipfile -e "$build.zip" "$build.tree/Größe-模型" >>"$build.run.log" 2>&1; then
    tree=$(echo "$build.tree"/*/*) WINEPATH=
    windows "the release opens ONNX" ' 9\.1587 *3' "$tree/bin/quarry.exe" run models/digits/digits.onnx models/digits/images/digit_3.png
    windows "it compiles in a process of its own" 'backend cpu for x86_64' "$tree/bin/quarry.exe" compile models/digits/digits.onnx --backend cpu -O compile.process=child -o "$build.child.qrm"
    windows "it quantises" 'operations: 6 in 8 bits' "$tree/bin/quarry.exe" quantize models/digits/digits.onnx -c models/digits/images -o "$build.quantized.onnx"
    windows "it doctors" 'ok   cpu ' "$tree/bin/quarry.exe" doctor
    # A user's project, by find_package.
    if cmake -S tests/integration/consumer/cmake -B "$build.cmake" -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=x86_64-w64-mingw32-gcc-posix -DCMAKE_CXX_COMPILER=x86_64-w64-mingw32-g++-posix \
      "-DCMAKE_PREFIX_PATH=$tree" "-DQUARRY_EXAMPLES=$root/bindings" "-DQUARRY_COMPONENTS=prepare;quantize;backend-cpu;program" >"$build.run.log" 2>&1 && cmake --build "$build.cmake" --target hello >>"$build.run.log" 2>&1
    then [ ! -f "$build.digits-cpu.qrm" ] || WINEPATH="Z:$tree/bin" windows "find_package, of the archive" 'f32, 40 bytes' "$build.cmake/hello.exe" "$build.digits-cpu.qrm" cpu
    else wrong "find_package, of the archive"; fi
  else wrong "the archive of a release"; fi
fi
if [ -n "$kernels" ]; then
  for isa in avx2 sse2; do windows "kernels, $isa" ' 0 failed' "$build/tests/kernels/test-kernels.exe" --isa "$isa"; done
fi
[ $failed = 0 ]
