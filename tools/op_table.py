# SPDX-License-Identifier: Apache-2.0
"""The op table (graph/ops/ops.inc) for programs in Python: rows() gives its rows, by full name ("Add", "com.microsoft.Inverse")."""
import os
import re
from typing import NamedTuple

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "graph", "ops", "ops.inc")


class Row(NamedTuple):
    enumerator: str
    name: str
    domain: str
    family: str  # in lower case, as folders are
    value: str
    opset: int
    traits: frozenset
    reals: dict  # attributes that are reals: name -> default, None where there is none
    types: str


def rows(path=PATH):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    table = {}
    for entry in re.findall(r"^QR_OP\((\w+,.*?)\)$", text, re.S | re.M):
        found = re.match(r'(\w+), "(\w+)", "([\w.]*)", (\w+), (\w+), (\d+), ([\w |]+), ', entry)
        if not found:
            raise ValueError(f"{path}: found a row that does not read, expected the columns that its head lists: {entry.splitlines()[0]}")
        enumerator, name, domain, family, value, opset, traits = found.groups()
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', entry)
        reals = {attribute: float(default) if default else None for attribute, default in re.findall(r"(\w+):float(?:=([-\w.]+))?", "".join(texts[2:-1]))}
        table[f"{domain}.{name}" if domain else name] = Row(enumerator, name, domain, family.lower(), value, int(opset),
                                                             frozenset(traits.split(" | ")) - {"None"}, reals, texts[-1])
    return table
