# SPDX-License-Identifier: Apache-2.0
"""One operator, drawn: attributes, ranks, shapes, types, which operands are constants. The drawers stand in drawers_*.py, one for each operator of the table
(graph/ops/ops.inc), or its name with a reason in `left_out`; types are drawn from the table's."""
import os
import random
import sys

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper

from oracle import SHORT, Case

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import op_table

TYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
         "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_,
         "i4": ml_dtypes.int4, "u4": ml_dtypes.uint4}  # those of four bits where a drawer asks for them
GROUPS = {"float": ["f32", "f16", "bf16", "f64"], "int": ["i32", "i64", "i8", "u8", "i16", "u16", "u32", "u64"]}
GROUPS["num"] = GROUPS["float"] + GROUPS["int"]
GROUPS["std"] = GROUPS["all"] = GROUPS["num"] + ["bool"]
OFTEN = {"f32": 12, "f16": 4, "i64": 3, "i32": 2, "u8": 2, "i8": 2, "bool": 2}
EXTENTS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31]
MOST = 3000  # elements of an operand
NEWEST = 23  # what an exporter writes today, where no operator needs more


# What the second operand holds, the first has not (zeros to divide by).
NEEDS_ITS_OWN = {"Div", "Mod", "Pow", "BitShift", "Gather", "GatherElements"}


# Newer ones ONNX Runtime has not.
OLDER = {"MaxRoiPool": 20, "GlobalLpPool": 20}
# ONNX Runtime makes some of these of f64 in f32.
IN_F32 = {"GridSample"}


class Row:
    """An operator of the table: what types its operands may have."""

    def __init__(self, name, domain, types):
        self.name, self.domain = name, domain
        signature, *variables = [part.strip() for part in types.split(";")]
        self.first = signature.split("->")[0].split(",")[0].rstrip("?.*")
        self.types = {}
        for variable in variables:
            key, _, what = variable.partition("=")
            self.types[key.strip()] = [t for part in what.split(",") for t in GROUPS.get(part.strip(), [part.strip()]) if t in TYPES]

    def of(self, variable):
        return self.types.get(variable) or [variable]


def table():
    return {row.name: Row(row.name, row.domain, row.types) for row in op_table.rows().values()}


class Arg:
    """An operand. `constant`: as models have it: in how many of 100 cases."""

    def __init__(self, array, constant=15):
        self.array, self.constant = np.asarray(array), constant


class Draw:
    def __init__(self, seed, row):
        self.r, self.n, self.row = random.Random(seed), np.random.default_rng(seed), row
        self.type = None

    def chance(self, percent):
        return self.r.randrange(100) < percent

    def pick(self, *choices):
        return self.r.choice(choices)

    def flag(self):
        return self.r.randrange(2)

    def take(self, variable="T", *among):
        """A type of the table's variable, f32 most often; it is `type` from then on."""
        names = [t for t in self.row.of(variable) if not among or t in among]
        self.type = self.r.choices(names, [OFTEN.get(t, 1) for t in names])[0]
        return self.type

    def shape(self, low=0, high=6, least=1, most=MOST, empty=True):
        most = 8 * most if most == MOST and self.chance(4) else most
        rank = self.r.choice([v for v in [0, 1, 1, 2, 2, 3, 3, 4, 4, 4, 5, 6, 7, 8] if low <= v <= high] or [low])
        return self.extents(rank, least, most, empty)

    def extents(self, rank, least=1, most=MOST, empty=True):
        shape = [self.r.choice([e for e in EXTENTS if e >= least]) for _ in range(rank)]
        while int(np.prod(shape)) > most:
            shape[shape.index(max(shape))] = max(least, 1 if self.chance(30) else 2)
            if all(e <= max(least, 2) for e in shape):
                break
        if empty and rank and least <= 1 and self.chance(3):
            shape[self.r.randrange(rank)] = 0
        return shape

    def axis(self, rank):
        return self.r.randrange(-rank, rank) if rank else self.pick(0, -1)

    def part(self, shape):
        """A shape that spreads over `shape`: fewer axes, ones."""
        return [d if self.chance(60) else 1 for d in shape][self.r.randrange(len(shape) + 1) if self.chance(50) else 0:]

    def values(self, shape, kind=None, low=-2.0, high=2.0):
        """`kind`: `eighths` are sums and products that everybody has to the bit."""
        dtype = np.dtype(TYPES[kind if kind in TYPES else self.type])
        if dtype == np.bool_:
            return self.n.random(shape) < 0.5
        if dtype not in SHORT:
            info = ml_dtypes.iinfo(dtype)
            if kind == "any" and self.chance(30):
                return self.n.integers(info.min, info.max, size=shape, dtype=dtype, endpoint=True)
            return self.n.integers(max(info.min, -9), 12, size=shape).clip(info.min, info.max).astype(dtype)
        if kind in ("eighths", "any"):
            made = np.asarray(self.n.integers(-16, 17, size=shape) / 8)
            if kind == "any" and made.size and self.chance(10):  # what only moves moves these too
                made.flat[self.n.integers(0, made.size, size=min(3, made.size))] = self.pick(np.inf, -np.inf, np.nan, 0.0)
            return made.astype(dtype)
        return self.n.uniform(low, high, size=shape).astype(dtype)

    def index(self, shape, extent, name="i64", negative=True):
        return self.n.integers(-extent if negative else 0, max(extent, 1 if not negative else -extent + 1), size=shape).astype(TYPES[name])

    def ints(self, *values, constant=85):
        return Arg(np.array(values, dtype=np.int64), constant)


DRAWERS, LEFT_OUT = {}, {}


def draws(*names):
    def keep(function):
        for name in names:
            DRAWERS[name] = function
        return function
    return keep


def left_out(reason, *names):
    for name in names:
        LEFT_OUT[name] = reason


def since(op, opset, domain=""):
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def one(rows, seed, name):
    """A Case of one operator; None: this draw has no model."""
    d = Draw(seed, rows[name])
    drawn = DRAWERS[name](d)
    if drawn is None:
        return None
    operands, attributes, *rest = drawn
    outputs, exact = (rest + [1, False][len(rest):])[:2]
    domain = rows[name].domain
    attributes = {k: v for k, v in attributes.items() if v is not None}
    while operands and operands[-1] is None:
        operands.pop()
    operands = [o if o is None or isinstance(o, Arg) else Arg(o) for o in operands]
    inputs, constants, names = {}, {}, []
    for i, operand in enumerate(operands):
        if operand is None:
            names.append("")
            continue
        names.append(f"x{i}")
        (constants if d.chance(operand.constant) else inputs)[f"x{i}"] = operand.array
    if len(operands) > 1 and d.chance(5) and None not in operands[:2]:
        first, second = operands[0].array, operands[1].array
        if first.shape == second.shape and first.dtype == second.dtype and name not in NEEDS_ITS_OWN:
            names[1] = names[0]  # one value, read twice
            inputs.pop("x1", None), constants.pop("x1", None)
    opset = opset_of(d, name, domain, attributes, len(names))
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(name, names, results, name="n0", domain=domain, **attributes)
    floats = [SHORT[a.dtype] for a in [*inputs.values(), *constants.values()] if a.dtype in SHORT]
    kind = next((k for k in ("bf16", "f16", "f32", "f64") if k in floats), "f32")
    kind = "f32" if kind == "f64" and name in IN_F32 else kind
    return Case([node], inputs, constants, results, opset, kind, exact, bare=d.chance(20), named=d.chance(8))


def opset_of(d, name, domain, attributes, operands):
    """The newest, sometimes an older one whose operator has these attributes and operands."""
    last = onnx.defs.onnx_opset_version()
    newest = since(name, last)
    usual = OLDER.get(name, NEWEST)
    choices = [usual] if since(name, usual) and not domain else [22] if domain else []
    for opset in (13, 17, 18, 20) if name in OLDER else (13, 17, 18, 20, 22, 24, 26, last):
        schema = since(name, opset)
        if domain or not schema or not newest:
            continue
        if set(attributes) <= set(schema.attributes) and operands <= schema.max_input and operands >= schema.min_input:
            choices.append(opset)
    fits = [o for o in choices if domain or (set(attributes) <= set(since(name, o).attributes) and operands <= since(name, o).max_input)]
    fits = fits or choices or [last]
    return fits[0] if d.chance(60) else d.r.choice(fits)


import drawers_move  # noqa: E402,F401 pylint: disable=wrong-import-position
import drawers_number  # noqa: E402,F401 pylint: disable=wrong-import-position
import drawers_network  # noqa: E402,F401 pylint: disable=wrong-import-position
