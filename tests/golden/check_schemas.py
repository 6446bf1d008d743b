#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A schema may only grow. check_schemas.py FLATC GOLDEN_FOLDER SCHEMA...

For each release's copy of a schema: flatc --conform, and what that lets through (removed enum values, renamed or removed fields, `required`,
another root or file identifier): every declaration of the old schema stands unchanged in the new one.
"""
import pathlib
import re
import subprocess
import sys


def declarations(path):
    """{"table Tensor": {"dtype:ubyte (id: 1)", ...}, "": {"root_type Model", ...}}"""
    text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
    found = {"": set()}
    for kind, name, body in re.findall(r"\b(table|struct|enum|union)\s+([^{]+?)\s*\{(.*?)\}", text, re.S):
        parts = body.split("," if kind in ("enum", "union") else ";")
        found[f"{kind} {name}"] = {" ".join(part.split()) for part in parts if part.strip()}
    rest = re.sub(r"\b(table|struct|enum|union)\s+[^{]+\{.*?\}", "", text, flags=re.S)
    found[""] = {" ".join(part.split()) for part in rest.split(";") if part.strip()}
    return found


def main(flatc, golden, *schemas):
    problems = []
    checked = 0
    for schema in map(pathlib.Path, schemas):
        new = declarations(schema)
        for kind in new:
            if kind.startswith("struct"):
                problems.append(f"{schema.name}: {kind}: tables alone may be used, a struct can never grow")
        for old_path in sorted(pathlib.Path(golden).glob(f"v*/{schema.name}")):
            checked += 1
            run = subprocess.run([flatc, "--require-explicit-ids", "--conform", old_path, schema], capture_output=True, text=True)
            if run.returncode != 0:
                problems.append(f"{schema.name} against {old_path.parent.name}: {run.stdout}{run.stderr}".strip())
            for where, entries in declarations(old_path).items():
                for entry in sorted(entries - new.get(where, set())):
                    problems.append(f"{schema.name} against {old_path.parent.name}: {where or 'the schema'} has lost or changed: {entry}")
    print("\n".join(problems) or f"{checked} schemas of earlier releases still hold")
    return 1 if problems or checked == 0 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
