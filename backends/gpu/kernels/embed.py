#!/usr/bin/env python3
"""Writes the kernels' files as texts of C++, and enums.inc as macros in front of the prelude: embed.py OUTPUT kernels.inc FOLDER."""
import os
import re
import sys

out, table, folder = sys.argv[1:4]


def capitals(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def enums():
    with open(os.path.join(folder, "enums.inc"), encoding="utf-8") as handle:
        rows = re.findall(r"^QR_GPU_ENUM\((\w+), ([^)]*)\)", handle.read(), re.M)
    return [f"#define {capitals(name)}_{capitals(value)} {number}" for name, values in rows for number, value in enumerate(values.split(", "))]


def lines_of(name):
    """A file's lines, with those of the files that it includes."""
    with open(os.path.join(folder, name + ".cl"), encoding="utf-8") as handle:
        for line in handle:
            included = re.match(r'#include "(\w+)\.cl"', line)
            yield from lines_of(included[1]) if included else [line.rstrip()]


def literal(name, first=()):
    lines = [*first, *lines_of(name)]
    lines = [re.sub(r"\s*//.*$", "", line) for line in lines]
    lines = [line for line in lines if line.strip()]
    return "".join("\n  " + '"' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in lines)


with open(table, encoding="utf-8") as handle:
    rows = re.findall(r'^QR_GPU_KERNEL\((\w+), "(\w+)"', handle.read(), re.M)
with open(out, "w", encoding="utf-8") as handle:
    handle.write("// Made by backends/gpu/kernels/embed.py.\n#pragma once\nnamespace quarry::gpu {\n")
    handle.write(f"inline constexpr char kPrelude[] ={literal('prelude', enums())};\n")
    for kernel, name in rows:
        handle.write(f"inline constexpr char kText_{kernel}[] ={literal(name)};\n")
    handle.write("}  // namespace quarry::gpu\n")
