#!/usr/bin/env python3
"""Writes the files that rows of kernels.inc name as texts of C++, and enums.inc as macros in front of the prelude: embed.py OUTPUT DEPFILE kernels.inc FOLDER.

DEPFILE says which files were read, so that ninja asks again when one of them changes."""
import os
import re
import sys

out, depfile, table, folder = sys.argv[1:5]
read = [table]


def open_read(name):
    read.append(os.path.join(folder, name))
    return open(read[-1], encoding="utf-8")


def capitals(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper()


def enums():
    with open_read("enums.inc") as handle:
        rows = re.findall(r"^QR_GPU_ENUM\((\w+), ([^)]*)\)", handle.read(), re.M)
    return [f"#define {capitals(name)}_{capitals(value)} {number}" for name, values in rows for number, value in enumerate(values.split(", "))]


def lines_of(name):
    """A file's lines, with those of the files that it includes."""
    with open_read(name + ".cl") as handle:
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
with open(depfile, "w", encoding="utf-8") as handle:
    handle.write(out.replace(" ", "\\ ") + ": " + " ".join(path.replace(" ", "\\ ") for path in sorted(set(read))) + "\n")
