#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compiles Quarry for macOS 12 by zig, links it whole by LLVM's linker (tools/cross/macos), without ONNX, and looks at every file as macOS' loader does, at the plugins by Quarry's
# own reader as well. Nothing of it runs: there is no macOS here (docs/macos.md).
#   tools/test_macos.sh [MACHINE] [BUILD_DIR]
#     MACHINE    aarch64 (the default: Apple's own processors) or x86_64
# The names that libraries show are compared with those of Linux' build in $QUARRY_BUILD_DIR (default: build) where it is. From nothing it takes a quarter of an hour on two cores.
. "$(dirname "$0")/setup.sh"
cd "$root" || exit 1
machine=${1-aarch64}
case $machine in
  aarch64) isas=neon ;;
  x86_64) isas=sse2 ;;
  *) echo "usage: tools/test_macos.sh [MACHINE] [BUILD_DIR]: found machine '$machine', expected aarch64 or x86_64" >&2; exit 2 ;;
esac
linux=$build
build=${2:-$build-macos}
case $build in /*) ;; *) build=$root/$build ;; esac
here=$build/$machine
install_packages cross || { echo "cannot install the packages of tools/packages.txt" >&2; exit 1; }

cross=$(tools/cross/zig/zig.sh --no-onnx "$machine-macos") || exit 1
PATH=$cross:$PATH  # a meson that is as new as zig
configure "$here" --cross-file "$cross/cross.ini" --buildtype=minsize -Ddebug=false -Dwerror=true -Dprepare=false -Dprogram=enabled -Dtests=false -Dgpu=enabled "-Dkernel_isas=$isas" || exit 1
say "building for macOS, $machine, in $here"
ninja_in "$here" || exit 1
reader=$build/read-macho
if [ -x "$linux/tests/plugins/macho/read-macho" ]; then reader=$linux/tests/plugins/macho/read-macho
else
  g++ -std=c++20 -O1 -D_GNU_SOURCE -I. -Iinclude tests/plugins/macho/read_macho.cpp loader/macho_note.cpp loader/plugin_note.cpp base/alloc.cpp base/paths.cpp base/status.cpp base/text.cpp \
    base/os_error.cpp base/os/linux/file.cpp base/os/linux/folder.cpp base/os/linux/os_error.cpp base/os/linux/path.cpp -o "$reader" || exit 1
fi
python3 tests/integration/check_macos.py "$here" "$machine" --reader "$reader" $([ ! -e "$linux/runtime/libquarry.so" ] || echo --linux "$linux") || { echo "$machine: FAILED"; exit 1; }
# A user's project, by find_package. CMake asks a program of macOS' how old the system is.
mkdir -p "$build/bin" && printf '#!/bin/sh\necho 12.0\n' >"$build/bin/sw_vers" && chmod +x "$build/bin/sw_vers" && PATH=$build/bin:$PATH
rm -rf "$here.tree" "$here.cmake"
DESTDIR="$here.tree" meson install -C "$here" --no-rebuild --quiet >"$here.log" 2>&1 &&
  cmake -S tests/integration/consumer/cmake -B "$here.cmake" -DCMAKE_SYSTEM_NAME=Darwin "-DCMAKE_C_COMPILER=$cross/bin/cc" "-DCMAKE_CXX_COMPILER=$cross/bin/c++" "-DCMAKE_AR=$cross/bin/ar" -DCMAKE_INSTALL_NAME_TOOL=true \
    "-DCMAKE_PREFIX_PATH=$here.tree/usr/local" -DCMAKE_FIND_ROOT_PATH= "-DQUARRY_EXAMPLES=$root/bindings" "-DQUARRY_COMPONENTS=generate;backend-cpu;program" >>"$here.log" 2>&1 &&
  cmake --build "$here.cmake" --target hello generate >>"$here.log" 2>&1 || { tail -n 20 "$here.log"; exit 1; }
echo "$machine: linked whole, no name is undefined"
