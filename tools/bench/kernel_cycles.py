#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cycles of the kernels' inner loops as llvm-mca computes them, for processors that are not at hand. Nothing is run.

kernel_cycles.py BUILD_FOLDER [--mcpu sapphirerapids] [--mca llvm-mca-16]

Loops are taken from the objects of an optimised build that has all instruction sets. Of tiles, llvm-mca 16 knows no times: their loops are counted as
Intel's optimisation manual has it, 16 cycles for a product and 8 for a load, whichever takes longer together. (llvm-mca 19 gives vectors of 64 bytes one
unit on this processor; measured, there are two, as llvm-mca 16 has it.)
"""
import argparse
import glob
import os
import re
import subprocess

# name, instruction set, source, what the function's name has, multiplying instruction, what one of it multiplies
LOOPS = [
    ("u8 x s8, VNNI, 6 rows x 64", "avx512", "conv_int", r"run_tile<.*Quads, false, 6, 4>", "vpdpbusd", 64),
    ("u8 x s8, AMX, 32 rows x 32", "amx", "conv_int_amx", r"multiply_tiles<2, 2>", "tdpbusd", 16384),
    ("u8 x s8, AVX2 in pairs, 6 rows x 16", "avx2", "conv_int", r"run_tile<.*BytePairs, false, 6, 2>", "vpmaddubsw", 32),
    ("u8 x s8, AVX2 exact, 6 rows x 16", "avx2", "conv_int", r"run_tile<.*Pairs<signed char>, false, 6, 2>", "vpmaddwd", 16),
    ("f32, FMA, 6 rows x 64", "avx512", "gemm_tile", r"::tile<6, 4, 1", "vfmadd231ps", 16),
    ("f32 as bf16, AMX, 32 rows x 32", "amx", "conv_f32_split", r"multiply_tiles<true>", "tdpbf16ps", 8192 / 6),
]


def loops(path, name):
    """The loops of the functions whose names fit: lists of instructions."""
    listed = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", path], check=True, capture_output=True, text=True).stdout
    code, inside = [], False
    for line in listed.splitlines():
        if line.endswith(">:"):
            inside = re.search(name, line) is not None
            code = []
        found = re.match(r"^\s*([0-9a-f]+):\s+(.*?)\s*(#.*)?$", line)
        if not inside or not found:
            continue
        code.append((int(found[1], 16), found[2]))
        jump = re.match(r"j\w+\s+([0-9a-f]+)\b", found[2])
        if jump and code[0][0] <= int(jump[1], 16) < code[-1][0]:
            body = [text for at, text in code if at >= int(jump[1], 16)][:-1]
            yield body


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--mcpu", default="sapphirerapids")
    parser.add_argument("--mca", default="llvm-mca-16")
    args = parser.parse_args()
    print(f"| loop | instructions | cycles ({args.mcpu}) | multiplications a cycle |\n|---|---|---|---|")
    for title, isa, source, name, product, each in LOOPS:
        paths = glob.glob(os.path.join(args.build, "kernels/cpu", f"libquarry-kernels-{isa}.a.p", f"*_{source}.cpp.o"))
        bodies = [b for path in paths for b in loops(path, name)]
        count = lambda body: sum(text.startswith(product) for text in body)
        if not product.startswith("td"):
            bodies = [body for body in bodies if not any(re.match(r"j\w+\s", text) for text in body)]
        body = max(bodies, key=lambda b: (count(b), -len(b)), default=[])  # innermost
        if not count(body):
            print(f"| {title} | not found in this build | | |")
            continue
        if product.startswith("td"):
            cycles, how = float(max(16 * count(body), 8 * sum(t.startswith("tileloadd") for t in body))), ", counted"
        else:
            given = "\n".join(re.sub(r"<.*>", "", text) for text in body)
            made = subprocess.run([args.mca, f"-mcpu={args.mcpu}", "-iterations=200"], input=given, check=True, capture_output=True, text=True).stdout
            cycles, how = int(re.search(r"Total Cycles:\s+(\d+)", made)[1]) / 200, ", llvm-mca"
        print(f"| {title} | {len(body)}, {count(body)} {product} | {cycles:.1f}{how} | {count(body) * each / cycles:.0f} |")


if __name__ == "__main__":
    main()
