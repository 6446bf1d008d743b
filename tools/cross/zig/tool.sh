#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# zig's compilers and tools by the names that build systems look for: zig.sh links to this file as TARGET/bin/{cc,c++,ar,ranlib}.
# Instruction sets are spelt here as zig wants them; what meson wants of a linker where warnings are errors zig's does not know.
here=${0%/*}
tool=${0##*/}
target=${here%/bin}
target=${target##*/}
export ZIG_GLOBAL_CACHE_DIR="$here/../../cache"
case $tool in
  ar)  # zig's linker cannot read the thin archives that meson asks for
    [ "${1-}" != csrDT ] || { shift; set -- csrD "$@"; }
    exec "$here/../../zig" ar "$@" ;;
  ranlib) exec "$here/../../zig" ranlib "$@" ;;
esac
links=1
for argument do
  shift
  case $argument in
    -Wl,--fatal-warnings) continue ;;
    -c | -E | -S | -M | -MM | --version | -dump* | -print-*) links= ;;
    # What is precompiled has no times of headers in it, so that ccache knows it in the next folder.
    c++-header) links= && set -- "$@" "$argument" -Xclang; argument=-fno-pch-timestamp ;;
    -march=x86-64-v*) argument=-mcpu=x86_64_v${argument#-march=x86-64-v} ;;
    -march=armv8.2-a+dotprod+fp16) argument=-mcpu=generic+v8_2a+dotprod+fullfp16 ;;
  esac
  set -- "$@" "$argument"
done
# zig has NDEBUG where it optimises and not elsewhere, so that tests would expect what the library does not do. (Musl's builds have no tests.)
case $target in
  *-windows-*) set -- -UNDEBUG "$@" ;;
  *-android)  # of the oldest API that Quarry is for
    export ZIG_LIBC="$here/../libc.conf"
    target=$target.29
    set -- -dynamic "-L$here/../sysroot/lib" "$@" ;;
  *-macos)  # of the oldest version that Quarry is for
    target=$target.12.0
    [ -z "$links" ] || exec python3 "$here/link.py" "$here/../../zig" "$tool" "$target" "$here/../lib" "$@" ;;
esac
# What is not optimised would have traps for undefined behaviour in it.
exec "$here/../../zig" "$tool" -target "$target" -fno-sanitize=undefined "$@"
