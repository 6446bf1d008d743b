# SPDX-License-Identifier: Apache-2.0
"""The tables of this folder for programs in Python, with what graph/ops/ops.inc says of the operators: functions(), binary(), reductions(): name -> Case; operators(): name -> [OperatorCase]."""
import os
import re
import sys
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
import op_table

ROWS = {row.enumerator: row for row in op_table.rows().values()}


class Case(NamedTuple):
    domain: str
    opset: int  # of which the operator is
    ranges: tuple  # (low, high) of each operand
    jumps: bool
    attributes: dict  # that the node has
    reals: dict  # attributes that are reals: name -> default

    @property
    def low(self):
        return self.ranges[0][0]

    @property
    def high(self):
        return self.ranges[0][1]


class Operand(NamedTuple):
    type: str  # a variable of the operator's row, or a type
    dims: list  # letters, and numbers
    low: float
    high: float
    values: list  # of a constant; None: it is drawn

    def shape(self, extents):
        return shape_of(self.dims, extents)


def shape_of(dims, extents):
    """`extents`: letter -> length."""
    return [dim if isinstance(dim, int) else extents[dim] for dim in dims]


class OperatorCase(NamedTuple):
    domain: str
    opset: int
    attributes: dict
    operands: list
    result: list  # dims

    def letters(self):
        return sorted({dim for operand in self.operands for dim in operand.dims if isinstance(dim, str)})


def rows_of(name, pattern):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return re.findall(pattern, file.read(), re.M)


def attributes_of(text):
    pairs = [part.strip().split("=") for part in text.split(";") if part.strip()]
    return {name: int(value) if re.fullmatch(r"-?\d+", value) else float(value) if re.fullmatch(r"-?[\d.]+", value) else value for name, value in pairs}


NUMBER = r"([-\d.]+)"


def functions():
    found = rows_of("functions.inc", rf"^QR_FUNCTION_CASE\((\w+), {NUMBER}, {NUMBER}, ([01]),")
    return {ROWS[op].name: Case(ROWS[op].domain, ROWS[op].opset, ((float(low), float(high)),), jumps == "1", {}, ROWS[op].reals) for op, low, high, jumps in found}


def binary():
    found = rows_of("binary.inc", rf'^QR_BINARY_CASE\((\w+), "([^"]*)", {NUMBER}, {NUMBER}, {NUMBER}, {NUMBER}, ([01]),')
    return {ROWS[op].name: Case(ROWS[op].domain, ROWS[op].opset, ((float(a), float(b)), (float(c), float(d))), jumps == "1", attributes_of(text), ROWS[op].reals)
            for op, text, a, b, c, d, jumps in found}


def reductions():
    found = rows_of("reductions.inc", rf"^QR_REDUCTION_CASE\((\w+), {NUMBER}, {NUMBER}, ([01]),")
    return {ROWS[op].name: Case(ROWS[op].domain, ROWS[op].opset, ((float(low), float(high)),), jumps == "1", {}, ROWS[op].reals) for op, low, high, jumps in found}


def dims_of(text):
    return [int(dim) if dim.isdigit() else dim for dim in text.split(",")] if text != "-" else []


def operators():
    table = {}
    for op, attributes, operands in rows_of("operators.inc", r'^QR_OPERATOR_CASE\((\w+), "([^"]*)", "([^"]*)",'):
        read, (operands, _, result) = [], operands.partition("->")
        for text in operands.split(";"):
            kind, dims, *rest = text.split()
            values = [float(value) for value in rest[1:]] if rest[0] == "=" else None
            read.append(Operand(kind, dims_of(dims), *((0, 0) if values else map(float, rest)), values))
        table.setdefault(ROWS[op].name, []).append(OperatorCase(ROWS[op].domain, ROWS[op].opset, attributes_of(attributes), read, dims_of(result.strip())))
    return table
