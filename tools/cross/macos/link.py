#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links for macOS, as Apple's compiler is asked to, by LLVM's linker (Debian's package lld): that of zig knows no list of exported names, and would show libc++'s of every
library. ../zig/tool.sh calls it instead of `zig cc` and `zig c++` where something is linked; sources among the words are compiled by zig before.

link.py ZIG TOOL TARGET LIBRARIES WORD...      TARGET in zig's form: aarch64-macos.12.0; LIBRARIES: the folder with zig's libc++ for it, and libSystem.tbd
"""
import os
import subprocess
import sys
import tempfile

LINKER = "ld64.lld-14"
SDK = "15.5"  # which zig's libSystem.tbd is of
WITH_VALUE = {"-isystem", "-include", "-I", "-D", "-x", "-Xclang", "-arch"}  # of the compiler
OF_THE_SYSTEM = {"-lpthread", "-lm", "-ldl", "-lc", "-lc++", "-lc++abi", "-lSystem"}


def main(zig, tool, target, libraries, words):
    if all(word.startswith("-") for word in words):  # nothing to link
        # What meson asks to know the linker by.
        if "-Wl,--version" in words:
            print("LLD 14")
        elif "-Wl,-v" in words:
            print("ld64.lld", file=sys.stderr)
        else:
            return subprocess.run([zig, tool, "-target", target, *words]).returncode
        return 0
    machine, version = target.split("-macos.")
    out, link, compile, sources = "a.out", [], [], []
    rest = iter(words)
    for word in rest:
        if word == "-o":
            out = next(rest)
        elif word in ("-shared", "-dynamiclib"):
            link.append("-dylib")
        elif word == "-bundle":
            link.append("-bundle")
        elif word in ("-v", "-Wl,-v"):
            link.append("-v")
        elif word.startswith("-Wl,"):
            link += word[4:].split(",")
        elif word == "-Xlinker":
            link.append(next(rest))
        elif word == "-framework":
            link += [word, next(rest)]
        elif word.startswith(("-L", "-l")):
            link += [] if word in OF_THE_SYSTEM else [word]
        elif word.startswith("-"):
            compile += [word, next(rest)] if word in WITH_VALUE else [word]
        elif word.endswith((".c", ".cc", ".cpp", ".s", ".S")):
            sources.append(word)
        else:
            link.append(word)
    # Of a bundle meson lets names be undefined: of ours none is.
    for at in reversed(range(len(link) - 1)):
        if link[at:at + 2] == ["-undefined", "dynamic_lookup"]:
            del link[at:at + 2]
    with tempfile.TemporaryDirectory() as folder:
        for i, source in enumerate(sources):
            made = f"{folder}/{i}.o"
            done = subprocess.run([zig, tool, "-target", target, "-fno-sanitize=undefined", *compile, "-c", source, "-o", made])
            if done.returncode:
                return done.returncode
            link.append(made)
        return subprocess.run([LINKER, "-arch", {"aarch64": "arm64"}.get(machine, machine), "-platform_version", "macos", version, SDK, "-o", out, *link,
                               f"-L{libraries}", "-lc++abi", "-lc++", "-lSystem", "-lcompiler_rt"]).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5], sys.argv[5:]))
