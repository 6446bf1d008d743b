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


def named(folder, pattern, files=r".*\.(cpp|h)"):
    """What the files of a folder and those in it name, by default those of C++."""
    names = set()
    for path, _, found in os.walk(os.path.join(root, folder)):
        for file in found:
            if re.fullmatch(files, file):
                names |= set(re.findall(pattern, read(os.path.relpath(os.path.join(path, file), root))))
    return names


def rows_of(macro, path):
    return re.findall(rf"^{macro}\((\w+),", read(path), re.M)


def kernels(path):
    return rows_of("QR_KERNEL", path)


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

in_reference = set(kernels("kernels/reference/kernels.inc") + rows_of("QR_EXPRESSION", "graph/ops/functions.inc"))
TABLES = {"QR_FUNCTION_CASE": "functions", "QR_BINARY_CASE": "binary", "QR_REDUCTION_CASE": "reductions", "QR_OPERATOR_CASE": "operators"}
tabled = {op for macro, name in TABLES.items() for op in rows_of(macro, f"tests/cases/{name}.inc")}
cases = named("tests/unit/reference", r"\bOp::(\w+)") | tabled
for function in sorted(set(rows_of("QR_FUNCTION", "graph/ops/functions.inc") + rows_of("QR_EXPRESSION", "graph/ops/functions.inc")) - set(rows_of("QR_FUNCTION_CASE", "tests/cases/functions.inc"))):
    problems.append(f"{function}: found no row in tests/cases/functions.inc, expected one for each function of graph/ops/functions.inc")
for name, row in rows.items():
    if name in refused.get("cpu-reference", ()):
        continue
    if row.enumerator not in in_reference:
        problems.append(f"{name}: found no row in kernels/reference/kernels.inc, expected one or a refusal of cpu-reference in tests/tidy/refused_operators.txt")
    elif row.enumerator not in cases:
        problems.append(f"{name}: found no case in tests/unit/reference that names Op::{row.enumerator}, expected one (functions.cpp has the plain ones), or a row of a table of tests/cases")

cases = named("tests/kernels", r"\bKernel::(\w+)")
problems += [f"{kernel}: found no case in tests/kernels that names Kernel::{kernel}, expected one for each row of kernels/cpu/kernels.inc"
             for kernel in kernels("kernels/cpu/kernels.inc") if kernel not in cases]

# A rule of a backend has a case there. (Tests in Python name operators as ONNX does.)
python = {(row.name, row.enumerator) for row in rows.values()}
of_python = lambda folder, files: {enumerator for name, enumerator in python if name in named(folder, r"\b[A-Z]\w+", files)}
has_case = {"cpu": named("tests/unit/cpu", r"\bOp::(\w+)"), "gpu": named("tests/unit/gpu", r"\bOp::(\w+)"),
            "htp": named("tests/unit/htp", r"\bOp::(\w+)") | of_python("tests/integration", r"(check_htp_|htp_).*\.py") | of_python("tools/bench", r"operator_cases.*\.py")}
RULES = {"cpu": r"\bQR_CPU_(?:OPERATOR|FLOAT|MOVES|FUNCTION)\(([A-Z]\w+)", "gpu": r"\bQR_GPU_(?:OPERATOR|ELEMENTWISE)\(([A-Z]\w+)(?!, lower_(?:late|rewritten)\b)\b", "htp": r"\bQR_HTP_OP\(([A-Z]\w+)"}
for backend, pattern in RULES.items():
    for operator in sorted(set(re.findall(pattern, read(f"backends/{backend}/lower/operators.inc"))) - tabled - has_case[backend]):
        problems.append(f"{operator}: found no case of {backend} that names it, expected a row of a table of tests/cases or one in tests/unit/{backend}"
                        + (" or tests/integration/check_htp_kinds.py" if backend == "htp" else ""))

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
