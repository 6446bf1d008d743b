#!/usr/bin/env python3
"""Writes the kernels' files as texts of C++: embed.py OUTPUT kernels.inc FOLDER."""
import os
import re
import sys

out, table, folder = sys.argv[1:4]


def literal(name):
    with open(os.path.join(folder, name + ".cl"), encoding="utf-8") as handle:
        lines = [line.rstrip() for line in handle]
    lines = [re.sub(r"\s*//.*$", "", line) for line in lines]
    lines = [line for line in lines if line.strip()]
    return "".join("\n  " + '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in lines)


with open(table, encoding="utf-8") as handle:
    rows = re.findall(r'^QR_GPU_KERNEL\((\w+), "(\w+)"', handle.read(), re.M)
with open(out, "w", encoding="utf-8") as handle:
    handle.write("// Made by backends/gpu/kernels/embed.py.\n#pragma once\nnamespace quarry::gpu {\n")
    handle.write(f"inline constexpr char kPrelude[] ={literal('prelude')};\n")
    for kernel, name in rows:
        handle.write(f"inline constexpr char kText_{kernel}[] ={literal(name)};\n")
    handle.write("}  // namespace quarry::gpu\n")
