#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every operator of the op table has a reference kernel and a case for it, and each backend takes it or says why not; every kernel of the cpu backend has a case.

check_operators.py ROOT [QUARRY]

With QUARRY (the program), the backends that it finds are asked. What is refused stands in refused_operators.txt with the reason.
"""
import json
import os
import re
import subprocess
import sys

root = sys.argv[1]
sys.path.insert(0, os.path.join(root, "tools"))
import op_table

problems = []


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def named(folder, pattern):
    """What the C++ files of a folder name."""
    names = set()
    for file in sorted(os.listdir(os.path.join(root, folder))):
        if file.endswith((".cpp", ".h")):
            names |= set(re.findall(pattern, read(os.path.join(folder, file))))
    return names


def kernels(path):
    return re.findall(r"^QR_KERNEL\((\w+),", read(path), re.M)


def refusals():
    """Of refused_operators.txt: backend -> operators."""
    refused = {}
    for number, line in enumerate(read("tests/tidy/refused_operators.txt").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        head, colon, reason = line.partition(": ")
        backends, _, names = head.partition(" ")
        if not colon or not reason.strip() or not names:
            problems.append(f"tests/tidy/refused_operators.txt:{number}: found \"{line}\", expected \"BACKEND[,BACKEND] OPERATOR ...: reason\"")
        for backend in backends.split(","):
            refused.setdefault(backend, set()).update(names.split())
    return refused


def answers(quarry):
    """Backend -> operator -> whether it is supported."""
    done = subprocess.run([quarry, "ops", "--json"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{quarry} ops --json: {done.stderr}")
    return {one["backend"]: {(row["domain"] + "." if row["domain"] else "") + row["name"]: row["supported"] for row in one["operators"]}
            for one in json.loads(done.stdout)["backends"]}


rows = op_table.rows()
refused = refusals()
for backend, names in refused.items():
    problems += [f"tests/tidy/refused_operators.txt: {backend} refuses {name}, which is no operator of graph/ops/ops.inc" for name in sorted(names - set(rows))]

in_reference, cases = set(kernels("kernels/reference/kernels.inc")), named("tests/unit/reference", r"\bOp::(\w+)")
for name, row in rows.items():
    if name in refused.get("cpu-reference", ()):
        continue
    if row.enumerator not in in_reference:
        problems.append(f"{name}: found no row in kernels/reference/kernels.inc, expected one or a refusal of cpu-reference in tests/tidy/refused_operators.txt")
    elif row.enumerator not in cases:
        problems.append(f"{name}: found no case in tests/unit/reference that names Op::{row.enumerator}, expected one (functions.cpp has the plain ones)")

cases = named("tests/kernels", r"\bKernel::(\w+)")
problems += [f"{kernel}: found no case in tests/kernels that names Kernel::{kernel}, expected one for each row of kernels/cpu/kernels.inc"
             for kernel in kernels("kernels/cpu/kernels.inc") if kernel not in cases]

asked = []
for backend, supported in answers(sys.argv[2]).items() if len(sys.argv) > 2 else ():
    if not any(supported.values()):
        continue  # the skeleton runs nothing
    asked.append(backend)
    stated = refused.get(backend, set())
    for name in rows:
        if not supported[name] and name not in stated:
            problems.append(f"{name}: {backend} refuses it, expected a rule, a decomposition or a reason in tests/tidy/refused_operators.txt")
        elif supported[name] and name in stated:
            problems.append(f"{name}: {backend} takes it, expected no refusal in tests/tidy/refused_operators.txt")

for problem in problems:
    print(problem)
print(f"{len(rows)} operators, backends asked: {', '.join(asked) or 'none'}; {len(problems)} problems")
sys.exit(1 if problems else 0)
