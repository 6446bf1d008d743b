#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zig's compilers and tools by the names that build systems look for: zig.sh links to this file as TARGET/bin/{cc,c++,ar,ranlib}.
# Instruction sets are spelt here as zig wants them.
here=${0%/*}
tool=${0##*/}
target=${here%/bin}
target=${target##*/}
export ZIG_GLOBAL_CACHE_DIR="$here/../../cache"
case $tool in ar|ranlib) exec "$here/../../zig" "$tool" "$@" ;; esac
for argument do
  shift
  case $argument in
    -march=x86-64-v*) argument=-mcpu=x86_64_v${argument#-march=x86-64-v} ;;
    -march=armv8.2-a+dotprod+fp16) argument=-mcpu=generic+v8_2a+dotprod+fullfp16 ;;
  esac
  set -- "$@" "$argument"
done
exec "$here/../../zig" "$tool" -target "$target" "$@"
