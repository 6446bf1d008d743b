#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles Quarry for Android (API 29) by zig and a sysroot of our own (tools/cross/android), links it whole against what Android's libraries have by their names at that API,
# and looks at every file as Android's loader does. Nothing of it runs: what is for devices the NDK builds (docs/android.md). What reads ONNX is in it (libquarry-prepare, -quantize).
#   tools/test_android.sh [--aar] [MACHINE] [BUILD_DIR]
#     --aar      and packs it for Gradle, x86_64 too, with the classes and the native part of Java's package (tools/release/aar.py), and looks at the package
#     MACHINE    aarch64 (the default) or x86_64
# From nothing it takes twenty minutes on two cores, a few of them protobuf's.
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
aar=''
[ "${1-}" != --aar ] || { aar=1; shift; }
case ${1-aarch64} in
  aarch64 | x86_64) machines=${1-aarch64} ;;
  *) echo "usage: tools/test_android.sh [--aar] [MACHINE] [BUILD_DIR]: found machine '$1', expected aarch64 or x86_64" >&2; exit 2 ;;
esac
[ -z "$aar" ] || machines='aarch64 x86_64'
build=${2:-$build-android}
case $build in /*) ;; *) build=$root/$build ;; esac
install_packages cross || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }

made() {  # MACHINE INSTRUCTION_SETS
  cross=$(tools/cross/zig/zig.sh "$1-linux-android") || return 1
  PATH=$cross:$PATH  # a meson that knows zig's linker
  configure "$build/$1" --cross-file "$cross/cross.ini" --buildtype=minsize -Ddebug=false -Dwerror=true -Dprogram=enabled -Dtests=false -Dgpu=enabled "-Dkernel_isas=$2" || return 1
  say "building for Android, $1, in $build/$1"
  ninja_in "$build/$1" && python3 tests/integration/check_android.py "$build/$1" "$1" || return 1
  # A user's project, by find_package.
  rm -rf "$build/$1.tree" "$build/$1.cmake"
  DESTDIR="$build/$1.tree" meson install -C "$build/$1" --no-rebuild --quiet >"$build/$1.log" 2>&1 &&
    cmake -S tests/integration/consumer/cmake -B "$build/$1.cmake" -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_C_COMPILER=$cross/bin/cc" "-DCMAKE_CXX_COMPILER=$cross/bin/c++" \
      "-DCMAKE_PREFIX_PATH=$build/$1.tree/usr/local" -DCMAKE_FIND_ROOT_PATH= "-DQUARRY_EXAMPLES=$root/bindings" "-DQUARRY_COMPONENTS=generate;quantize;backend-cpu;program" >>"$build/$1.log" 2>&1 &&
    cmake --build "$build/$1.cmake" --target hello generate quantize >>"$build/$1.log" 2>&1 || { tail -n 20 "$build/$1.log"; return 1; }
}
failed=0
for machine in $machines; do
  [ $machine = aarch64 ] && isas=neon || isas=sse2
  if made $machine $isas; then echo "$machine: linked whole, no name is undefined; every file has pages of 16 kB"
  else failed=1 && echo "$machine: FAILED"; fi
done
if [ -n "$aar" ] && [ $failed = 0 ]; then
  python3 tools/release/aar.py "$build/quarry-android.aar" "arm64-v8a=$build/aarch64" "x86_64=$build/x86_64" && python3 tests/integration/check_android.py --aar "$build/quarry-android.aar" || failed=1
fi
[ $failed = 0 ]
