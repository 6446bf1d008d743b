#!/usr/bin/env python3
"""Looks through the disassembly of every instruction set's kernels for conversions that the compiler does element by element.

check_vectors.py BUILD_FOLDER

gcc 12 does that to __builtin_convertvector at 64 bytes: 16 bytes are loaded one at a time (movzbl), widened, and put together again (vpinsrd), which
takes ten times as long as the one instruction that there is. No test of results sees it. What is looked for are kMany elements that go into vectors, or
come out of them, one at a time within kWindow instructions. Of x86-64 and optimised builds alone: others have no such code to check.
"""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

kWindow, kMany = 32, 8

# Elements that do not lie side by side are read one at a time: (source, what the function's name has, why).
ALLOWED = [
    ("elementwise_int", "run_binary", "operands with strides"),
    ("matmul_int", "pack_panel", "columns and rows with strides, and the last rows"),
]

build = sys.argv[1]
if not shutil.which("objdump"):
    print("skipped: objdump is not installed (apt-get install binutils)")
    sys.exit(77)
with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
    options = {option["name"]: option["value"] for option in json.load(file)}
if options["optimization"] not in ("2", "3") or options["b_sanitize"] != "none":
    print("skipped: not an optimised build")
    sys.exit(77)
objects = sorted(glob.glob(os.path.join(build, "kernels", "cpu", "libquarry-kernels-*.a.p", "*.cpp.o")))
if not objects:
    print(f"FAILED {build}: found no objects of kernels, expected kernels/cpu/libquarry-kernels-*.a.p/*.o")
    sys.exit(1)

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
INSTRUCTION = re.compile(r"^\s*[0-9a-f]+:\s+(\S+)\s*(.*)$")
problems, seen, allowed = [], 0, set()
for path in objects:
    isa = re.search(r"libquarry-kernels-(.*)\.a\.p", path).group(1)
    source = re.search(r"/(?:[a-z]+_)?(\w+)\.cpp\.o$", path).group(1)
    listed = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    if "file format elf64-x86-64" not in listed:
        print("skipped: not of x86-64")
        sys.exit(77)
    function, window, worst = "", collections.deque(), collections.Counter()
    for line in listed.splitlines():
        begins = FUNCTION.match(line)
        if begins:
            function = begins.group(1)
            window.clear()
            continue
        instruction = INSTRUCTION.match(line)
        if not instruction:
            continue
        seen += 1
        one = re.fullmatch(r"v?p(insr|extr)[bwd]", instruction.group(1))
        window.append(one is not None)
        if len(window) > kWindow:
            window.popleft()
        worst[function] = max(worst[function], sum(window))
    for function, count in worst.items():
        if count < kMany:
            continue
        reason = next((entry for entry in ALLOWED if entry[0] == source and entry[1] in function), None)
        if reason:
            allowed.add(reason)
            continue
        name = function if len(function) < 160 else function[:157] + "..."
        problems.append(f"{isa}/{source}.cpp: {name}: found {count} elements that move one at a time within {kWindow} instructions, expected a conversion "
                        "of vectors (kernels/cpu/vector/int_vec.h)")
for problem in problems:
    print(f"FAILED {problem}")
print(f"{len(objects)} objects, {seen} instructions, {len(problems)} problems")
sys.exit(1 if problems else 0)
