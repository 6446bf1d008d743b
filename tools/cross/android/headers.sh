#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a folder with the headers that Quarry includes of others, for builds by the NDK, which must not see /usr/include.
#   tools/cross/android/headers.sh [--onnx MACHINE]      without it no library of theirs is linked: -Dprepare=false
#     --onnx MACHINE    aarch64 or x86_64: compiles protobuf and the schema of ONNX for it too, by the NDK's compilers on PATH, into lib beside the folder (docs/android.md)
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/tools/cross/needs.sh"
if [ "${1-}" != --onnx ]; then
  begin_target linux-android
  need_headers
else
  case ${2-} in
    aarch64 | x86_64) ;;
    *) echo "usage: tools/cross/android/headers.sh [--onnx MACHINE]: found machine '${2-}', expected aarch64 or x86_64" >&2; exit 2 ;;
  esac
  compiler=$2-linux-android29-clang
  command -v "$compiler++" llvm-ar llvm-ranlib >/dev/null || { echo "tools/cross/android/headers.sh: found no $compiler++, llvm-ar and llvm-ranlib on PATH, expected those of the NDK (toolchains/llvm/prebuilt/*/bin)" >&2; exit 1; }
  target=ndk-$2-linux-android
  begin_target "$target"
  need_pip
  need_headers
  need_onnx Linux "$2" "$(command -v "$compiler")" "$(command -v "$compiler++")" "$(command -v llvm-ar)" "$(command -v llvm-ranlib)"
fi
echo "$prefix/include"
