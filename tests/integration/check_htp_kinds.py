#!/usr/bin/env python3
"""Kinds of models that Qualcomm's library takes wrongly, refuses or crashes on as they stand, on its emulator: small cases of each, held against cpu-reference.

check_htp_kinds.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES [--only TEXT] [--every N]

And the folders F* of SHARED_DIR/cases, which stand for these kinds.
"""
import ast
import concurrent.futures
import json
import math
import os
import random
import shutil
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import case_tables
from onnx_file import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, body, initializer, number, numbers, onnx_file, onnx_node, real, text
from program import build, check, environment, finish, new_folder, npy, require, run, shared

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu-reference"))
only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
every = int(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else 1
folder = new_folder()
random.seed(11)
SOCS = ("SM8650", "SM8750")
LETTER = {F32: "f", F16: "e", F64: "d", I64: "q", U64: "Q", I32: "i", U8: "B", I8: "b", U16: "H", I16: "h", BOOL: "B"}
cases = []
WORDS = {F32: "f32", F16: "f16", I64: "i64", I32: "i32", U8: "u8", I8: "i8", U16: "u16", I16: "i16", BOOL: "bool"}


def count_of(dims):
    count = 1
    for d in dims:
        count *= d
    return count


def packed(name, dtype, dims, values):
    return initializer(name, dtype, dims, struct.pack(f"<{len(values)}{LETTER[dtype]}", *values))


def ints(name, *values):
    return packed(name, I64, (len(values),), values)


def floats(name, dims, low=-1.0, high=1.0):
    return packed(name, F32, dims, [random.uniform(low, high) for _ in range(count_of(dims))])


def graph(title, nodes, inputs, outputs, *constants, tolerance=0.01, opset=21, sqnr=10):
    """Inputs and outputs are (name, type, shape)."""
    cases.append((title, onnx_file(nodes, inputs, outputs, (), constants, opset), tolerance, sqnr))


def one(title, op, dims, out, *constants, attributes=b"", names=None, out_type=F32, tolerance=0.01):
    """y = op(x, the names of the constants in order)."""
    names = names or ["x"] + [f"c{i}" for i in range(len(constants))]
    graph(title, [onnx_node(op, names, ["y"], attributes)], [("x", F32, dims)], [("y", out_type, out)], *constants, tolerance=tolerance)


def reduced(dims, axes, keep):
    return tuple(1 if i in axes else d for i, d in enumerate(dims) if keep or i not in axes)


# ---- constants of no axes
one("Gemm, a bias of no axes", "Gemm", (3, 8), (3, 1), floats("c0", (8, 1)), floats("c1", ()))
one("Gemm, a bias of no axes beside columns", "Gemm", (3, 8), (3, 4), floats("c0", (8, 4)), floats("c1", ()))

# ---- more axes than the library has an operation for
FIVE, SIX, EIGHT = (2, 3, 4, 5, 2), (2, 3, 2, 4, 3, 2), (2, 1, 3, 2, 2, 2, 1, 2)
for dims in (FIVE, SIX, EIGHT):
    rank = len(dims)
    for op in ("Sqrt", "Erf", "Softplus", "Neg", "Gelu", "HardSwish"):
        nodes = [onnx_node("Abs", ["x"], ["a"], name="abs"), onnx_node(op, ["a"], ["y"])] if op == "Sqrt" else [onnx_node(op, ["x"], ["y"])]
        graph(f"{op} of {rank} axes", nodes, [("x", F32, dims)], [("y", F32, dims)])
    for op in ("Pow", "Mul", "Max", "PRelu"):
        for kind, other in (("a number", ()), ("as many", dims), ("channels", (1, dims[1], *[1] * (rank - 2))), ("the last", dims[-1:])):
            base = [onnx_node("Abs", ["x"], ["a"], name="abs"), onnx_node(op, ["a", "c"], ["y"])] if op == "Pow" else [onnx_node(op, ["x", "c"], ["y"])]
            graph(f"{op} of {rank} axes by {kind}", base, [("x", F32, dims)], [("y", F32, dims)], floats("c", other, 0.5, 2))
    graph(f"Where of {rank} axes", [onnx_node("Greater", ["x", "z"], ["b"], name="greater"), onnx_node("Where", ["b", "x", "z"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("z", ()))
    for axis in (1, rank - 2, rank - 1):
        one(f"Softmax {axis} of {rank} axes", "Softmax", dims, dims, attributes=number("axis", axis))
        one(f"ReduceMean {axis} of {rank} axes", "ReduceMean", dims, reduced(dims, (axis,), False), ints("c0", axis), attributes=number("keepdims", 0))
        one(f"Gather {axis} of {rank} axes", "Gather", dims, (*dims[:axis], 2, *dims[axis + 1:]), ints("c0", -1, 0), attributes=number("axis", axis))
        one(f"CumSum {axis} of {rank} axes", "CumSum", dims, dims, packed("c0", I64, (), [axis]))
        graph(f"Concat {axis} of {rank} axes", [onnx_node("Concat", ["x", "c"], ["y"], number("axis", axis))], [("x", F32, dims)],
              [("y", F32, tuple(2 * d if i == axis else d for i, d in enumerate(dims)))], floats("c", dims))
    one(f"LayerNormalization of {rank} axes", "LayerNormalization", dims, dims, floats("c0", dims[-1:]), floats("c1", dims[-1:]))
    one(f"MatMul of {rank} axes", "MatMul", dims, (*dims[:-1], 3), floats("c0", (dims[-1], 3)))
    one(f"Slice of {rank} axes", "Slice", dims, (*dims[:3], dims[3] - 1, *dims[4:]), ints("c0", 1), ints("c1", 99), ints("c2", 3))
    one(f"Transpose of {rank} axes, backwards", "Transpose", dims, dims[::-1])
    one(f"Transpose of {rank} axes, two", "Transpose", dims, (*dims[:2], dims[3], dims[2], *dims[4:]), attributes=numbers("perm", [0, 1, 3, 2, *range(4, rank)]))
    one(f"Reshape to {rank} axes", "Reshape", (count_of(dims),), dims, ints("c0", *dims))
graph("windows of an image", [onnx_node("Reshape", ["x", "a"], ["r"], name="r"), onnx_node("Transpose", ["r"], ["t"], numbers("perm", [0, 1, 3, 2, 4, 5]), name="t"),
                              onnx_node("Add", ["t", "c"], ["u"], name="u"), onnx_node("Reshape", ["u", "b"], ["y"], name="y")],
      [("x", F32, (2, 8, 8, 16))], [("y", F32, (8, 16, 16))], ints("a", 2, 2, 4, 2, 4, 16), ints("b", 8, 16, 16), floats("c", (1, 1, 1, 4, 4, 16)))
one("Resize of five axes", "Resize", (1, 3, 5, 7, 4), (1, 3, 10, 8, 4), ints("s", 1, 3, 10, 8, 4), names=["x", "", "", "s"], attributes=text("mode", "linear"))

# ---- a constant over rows, added before they are normalised: batches but the first
for rows, dims in ((16, (2, 16, 32)), (5, (3, 5, 32)), (128, (2, 128, 32)), (16, (2, 3, 16, 32))):
    for kind, shape in (("rows", (rows, 32)), ("one batch of rows", (1, rows, 32))):
        graph(f"LayerNormalization of {dims} and {kind}", [onnx_node("Add", ["x", "p"], ["a"], name="add"), onnx_node("LayerNormalization", ["a", "s", "b"], ["y"])],
              [("x", F32, dims)], [("y", F32, dims)], floats("p", shape), floats("s", (32,)), floats("b", (32,)))

    graph(f"Sigmoid of {dims} and rows", [onnx_node("Add", ["x", "p"], ["a"], name="add"), onnx_node("Sigmoid", ["a"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("p", (rows, 32)))
for dims in ((2, 16, 32), (3, 32, 32), (2, 3, 16, 32)):
    graph(f"RMSNormalization of {dims}", [onnx_node("RMSNormalization", ["x", "s"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("s", (32,)), opset=23)
one("LayerNormalization, one scale for all", "LayerNormalization", (2, 4, 8), (2, 4, 8), floats("c0", (1,)), floats("c1", (1,)))

# ---- a constant that is added before all is multiplied by a number: its elements but the first
for dims in ((2,), (3, 4), (2, 8, 13, 13), (1, 32, 8, 8), (2, 2, 2, 13, 13, 1, 1)):
    for kind, shape in (("all", dims), ("the last axis", dims[-1:])):
        graph(f"half of {dims} and {kind}", [onnx_node("Add", ["c", "x"], ["a"], name="add"), onnx_node("Mul", ["a", "h"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("c", shape), packed("h", F32, (), [0.5]))
    graph(f"mean of {dims} and a constant", [onnx_node("Mean", ["x", "c"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("c", dims))
graph("half of a number and several", [onnx_node("Add", ["x", "c"], ["a"], name="add"), onnx_node("Mul", ["a", "h"], ["y"])], [("x", F32, (1,))], [("y", F32, (5,))], floats("c", (5,)), packed("h", F32, (), [0.5]))
graph("half of a sum in another shape", [onnx_node("Add", ["x", "c"], ["a"], name="add"), onnx_node("Transpose", ["a"], ["t"], numbers("perm", [1, 0]), name="t"), onnx_node("Mul", ["t", "h"], ["y"])],
      [("x", F32, (3, 5))], [("y", F32, (5, 3))], floats("c", (3, 5)), packed("h", F32, (1, 1), [0.5]))

for dims in ((1, 16, 5, 7), (2, 8, 13, 13), (3, 4, 1), (1, 32, 16, 16)):
    graph(f"half of {dims} and a number for each channel", [onnx_node("Add", ["x", "c"], ["a"], name="add"), onnx_node("Mul", ["a", "h"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], floats("c", (dims[1], *[1] * (len(dims) - 2))), packed("h", F32, (), [0.5]))
# ---- of a GroupNorm, which the library has as one: it is no GroupNorm with a difference
for dims, groups in (((1, 16, 32, 32), 4), ((1, 8, 5, 7), 2), ((1, 32, 16, 16), 32), ((1, 4, 1, 2), 2), ((1, 10, 13, 13), 5)):
    graph(f"half of a GroupNorm of {dims}", [onnx_node("Reshape", ["x", "s"], ["r"], name="r"), onnx_node("InstanceNormalization", ["r", "one", "none"], ["n"], name="n"), onnx_node("Reshape", ["n", "d"], ["b"], name="b"),
          onnx_node("Mul", ["b", "g"], ["m"], name="m"), onnx_node("Add", ["m", "c"], ["a"], name="add"), onnx_node("Mul", ["a", "h"], ["y"])], [("x", F32, dims)], [("y", F32, dims)],
          packed("s", I64, (3,), [0, groups, -1]), packed("d", I64, (4,), dims), packed("one", F32, (groups,), [1] * groups), packed("none", F32, (groups,), [0] * groups), floats("g", (dims[1], 1, 1)), floats("c", (dims[1], 1, 1)),
          packed("h", F32, (), [0.5]))

# ---- LogSoftmax of one element
for dims, axis in (((1,), 0), ((2, 3, 1), 2), ((2, 1, 3, 4), 1)):
    one(f"LogSoftmax {axis} of {dims}", "LogSoftmax", dims, dims, attributes=number("axis", axis))

# ---- LayerNormalization of 8 bits: what is normalised and its bias are rounded once, not one by one
for dims in ((1, 17, 192), (2, 5, 40), (2, 3, 4, 16)):
    for kind, word in ((U8, "u8"), (I8, "i8")):
        zero = 0 if kind == I8 else 128
        graph(f"LayerNormalization of {dims} and {word} with a bias",
              [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
               onnx_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], name="w"), onnx_node("DequantizeLinear", ["b", "bs", "bz"], ["bd"], name="b"),
               onnx_node("LayerNormalization", ["d", "wd", "bd"], ["n"], name="norm"), onnx_node("QuantizeLinear", ["n", "ys", "yz"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "ys", "yz"], ["y"], name="y")],
              [("x", F32, dims)], [("y", F32, dims)], packed("s", F32, (), [0.016]), packed("z", kind, (), [zero]), packed("w", I8, dims[-1:], [random.randrange(40, 60) for _ in range(dims[-1])]),
              packed("ws", F32, (), [0.0188]), packed("wz", I8, (), [0]), packed("b", I32, dims[-1:], [random.randrange(-300, 300) for _ in range(dims[-1])]), packed("bs", F32, (), [0.016 * 0.0188]),
              packed("bz", I32, (), [0]), packed("ys", F32, (), [0.03]), packed("yz", kind, (), [zero]), sqnr=42)

# ---- Pad: what is repeated or mirrored, on any axis
for mode in ("edge", "reflect", "wrap"):
    for axis in range(4):
        dims = (3, 4, 5, 6)
        pads = [2 if i % 4 == axis and i < 4 else 1 if i % 4 == axis else 0 for i in range(8)]
        one(f"Pad {mode}, axis {axis}", "Pad", dims, tuple(d + 3 if i == axis else d for i, d in enumerate(dims)), ints("c0", *pads), attributes=text("mode", mode))
    one(f"Pad {mode}, images", "Pad", (1, 3, 8, 8), (1, 3, 12, 11), ints("c0", 0, 0, 2, 2, 0, 0, 2, 1), attributes=text("mode", mode))

for dims, pads in (((2, 1, 1, 1, 1), (1, 0, 2, 3, 0, 4, 0, 4, 0, 2)), ((1, 2, 3, 2, 1), (0, 2, 0, 0, 0, 0, 0, 0, 3, 1)), ((3, 2, 2, 1, 1), (0, 0, 0, 0, 0, 0, 0, 3, 1, 3)), ((3, 2, 3, 3, 3), (1, 0, 0, 0, 0, 3, 0, 1, 0, 1))):
    graph(f"Pad of whole numbers {dims} by {pads}", [onnx_node("Pad", ["x", "c0"], ["y"])], [("x", I32, dims)], [("y", I32, tuple(d + pads[i] + pads[i + 5] for i, d in enumerate(dims)))], ints("c0", *pads))

# of nothing, of no axes too
for dims in ((), (1,), (3, 4)):
    for mode in ("constant", "edge", "reflect"):
        pads = [ints("p", *[0] * (2 * len(dims)))]
        graph(f"Pad of nothing, {mode}, {len(dims)} axes", [onnx_node("Pad", ["x", "p"], ["y"], text("mode", mode))], [("x", F32, dims)], [("y", F32, dims)], *pads)
        graph(f"Pad of nothing behind Abs, {mode}, {len(dims)} axes", [onnx_node("Abs", ["x"], ["a"], name="abs"), onnx_node("Pad", ["a", "p"], ["y"], text("mode", mode))], [("x", F32, dims)], [("y", F32, dims)], *pads)

graph("MaxPool with dilations and pads, v81 too", [onnx_node("MaxPool", ["x"], ["y"], numbers("kernel_shape", [3, 2]) + numbers("dilations", [3, 3]) + numbers("pads", [2, 0, 0, 0]))], [("x", F32, (1, 1, 5, 4))], [("y", F32, (1, 1, 1, 1))])
one("Pad that cuts, with a value", "Pad", (1, 2, 5, 6), (1, 2, 4, 7), ints("c0", 0, 0, 1, 2, 0, 0, -2, -1), packed("c1", F32, (), [3.0]))

# ---- padding that reaches the kernel, or further
for kernel, pads in (((3, 1), (1, 1)), ((1, 1), (1, 1)), ((2, 2), (2, 2)), ((3, 3), (4, 1)), ((1, 3), (1, 1))):
    for stride in (1, 2):
        out = tuple((8 + 2 * p - k) // stride + 1 for k, p in zip(kernel, pads))
        given = numbers("pads", [*pads, *pads]) + numbers("strides", [stride, stride])
        where = f"{kernel} padded by {pads}, stride {stride}"
        one(f"Conv {where}", "Conv", (1, 8, 8, 8), (1, 4, *out), floats("c0", (4, 8, *kernel)), attributes=given)
        one(f"depthwise Conv {where}", "Conv", (1, 8, 8, 8), (1, 8, *out), floats("c0", (8, 1, *kernel)), attributes=given + number("group", 8))
        back = tuple((8 - 1) * stride + k - 2 * p for k, p in zip(kernel, pads))
        one(f"ConvTranspose {where}", "ConvTranspose", (1, 4, 8, 8), (1, 3, *back), floats("c0", (4, 3, *kernel)), attributes=given)
graph("QLinearConv of a column, dilated, v68 too", [onnx_node("QLinearConv", ["x", "s", "z", "w", "t", "v", "s", "z"], ["y"], numbers("dilations", [2, 1]) + numbers("pads", [1, 0, 1, 0]))], [("x", I8, (1, 1, 2, 1)), ("w", I8, (2, 1, 2, 1))], [("y", I8, (1, 2, 2, 1))],
      packed("s", F32, (), [0.25]), packed("z", I8, (), [-6]), packed("t", F32, (), [0.03]), packed("v", I8, (), [-5]), tolerance=0.03)
# A row or column taken to one position: to as many channels as it had elements, or dilated and padded.
for length, maps, size, pads, spread in ((2, 2, 2, (0, 0), 1), (3, 3, 3, (0, 0), 1), (8, 8, 8, (0, 0), 1), (8, 8, 9, (1, 0), 1), (3, 3, 2, (0, 0), 2), (3, 2, 3, (2, 0), 2), (3, 3, 3, (2, 0), 2), (2, 1, 2, (1, 0), 2), (3, 1, 3, (0, 2), 2)):
    where = f"{length} elements by {size} to {maps} channels, {pads}, dilated by {spread}, v68 too"
    across = numbers("dilations", [spread]) + numbers("pads", pads)
    along = numbers("dilations", [spread, 1]) + numbers("pads", [pads[0], 0, pads[1], 0])
    one(f"Conv of a row, {where}", "Conv", (1, 3, length), (1, maps, 1), floats("c0", (maps, 3, size)), attributes=across)
    one(f"Conv of a column, {where}", "Conv", (1, 3, length, 1), (1, maps, 1, 1), floats("c0", (maps, 3, size, 1)), attributes=along)
    graph(f"Conv of a row, Flatten, {where}", [onnx_node("Conv", ["x", "w", "b"], ["c"], across, name="c"), onnx_node("Flatten", ["c"], ["y"])], [("x", F32, (1, 3, length))], [("y", F32, (1, maps))], floats("w", (maps, 3, size)), floats("b", (maps,)))
    graph(f"QLinearConv of a column, {where}", [onnx_node("QLinearConv", ["x", "s", "z", "w", "t", "v", "s", "z"], ["y"], along)], [("x", I8, (1, 3, length, 1)), ("w", I8, (maps, 3, size, 1))], [("y", I8, (1, maps, 1, 1))],
          packed("s", F32, (), [0.25]), packed("z", I8, (), [-6]), packed("t", F32, (), [0.1]), packed("v", I8, (), [-5]), tolerance=0.03)
# Images of one column, whose results a Reshape or a Squeeze reads.
for channels, maps in ((1, 1), (3, 1), (3, 4)):
    for batch in (1, 2):
        column, y = (batch, channels, 9, 1), (batch, maps, 9, 1)
        one(f"Conv of a column {column} to {maps}", "Conv", column, y, floats("c0", (maps, channels, 3, 1)), attributes=numbers("pads", [1, 0, 1, 0]))
        one(f"Conv by 3x3 of a column {column} to {maps}", "Conv", column, y, floats("c0", (maps, channels, 3, 3)), attributes=numbers("pads", [1, 1, 1, 1]))
        spread = 2 if maps > 1 else 1
        graph(f"Conv, Relu, Squeeze of a column {column} to {maps}", [onnx_node("Conv", ["x", "w"], ["c"], numbers("pads", [spread] * 4) + numbers("dilations", [spread] * 2), name="c"), onnx_node("Relu", ["c"], ["r"], name="r"), onnx_node("Squeeze", ["r", "a"], ["y"])],
              [("x", F32, column)], [("y", F32, y[:3])], floats("w", (maps, channels, 3, 3)), ints("a", 3))
    graph(f"Conv by 3x3 of a column of 8 bits, a scale for each channel, {channels} channels", [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"), onnx_node("DequantizeLinear", ["w", "t", "o"], ["v"], number("axis", 0), name="w"),
          onnx_node("Conv", ["d", "v"], ["y"], numbers("pads", [1, 1, 1, 1]))], [("x", F32, (1, channels, 9, 1))], [("y", F32, (1, 6, 9, 1))], packed("s", F32, (), [0.02]), packed("z", U8, (), [128]), packed("w", I8, (6, channels, 3, 3), [random.randint(-127, 127) for _ in range(54 * channels)]),
          packed("t", F32, (6,), [0.01, 0.003, 0.02, 0.007, 0.001, 0.015]), packed("o", I8, (6,), [0] * 6))
    one(f"AveragePool of a column, {channels} channels", "AveragePool", (1, channels, 9, 1), (1, channels, 9, 1), attributes=numbers("kernel_shape", [3, 1]) + numbers("pads", [1, 0, 1, 0]))
    graph(f"Conv, AveragePool, GlobalAveragePool of a column, {channels} channels", [onnx_node("Conv", ["x", "w"], ["c"], numbers("pads", [1, 0, 1, 0]), name="c"), onnx_node("AveragePool", ["c"], ["p"], numbers("kernel_shape", [3, 1]) + numbers("strides", [2, 1]), name="p"), onnx_node("GlobalAveragePool", ["p"], ["y"])],
          [("x", F32, (1, channels, 9, 1))], [("y", F32, (1, maps, 1, 1))], floats("w", (maps, channels, 3, 1)))
for dims, pads in (((1, 3, 5, 7), (0, 0, 0, 0, 0, 0, 1, 1)), ((1, 3, 5, 7), (0, 0, 2, 0, 0, 0, 2, 2)), ((3, 5, 7), (0, 1, 0, 0, 2, 1)), ((1, 1, 7), (0, 2, 0, 0, 2, 2))):
    given, padded = [("x", F32, dims)], tuple(d + pads[i] + pads[i + len(dims)] for i, d in enumerate(dims))
    graph(f"Pad behind the last of several axes, {dims} by {pads}", [onnx_node("Pad", ["x", "p", "v"], ["y"])], given, [("y", F32, padded)], ints("p", *pads), packed("v", F32, (), [0.5]))
    graph(f"Pad of f16 behind the last of several axes, {dims} by {pads}", [onnx_node("Cast", ["x"], ["h"], number("to", F16), name="cast"), onnx_node("Pad", ["h", "p", "v"], ["z"], name="pad"), onnx_node("Cast", ["z"], ["y"], number("to", F32))], given, [("y", F32, padded)], ints("p", *pads), packed("v", F16, (), [0.5]))
    if len(dims) == 4:
        graph(f"Pad behind the last of several axes, then Conv, {pads}", [onnx_node("Pad", ["x", "p"], ["z"], name="pad"), onnx_node("Conv", ["z", "w"], ["y"], numbers("strides", [2, 2]))], given, [("y", F32, (1, 4, (padded[2] - 3) // 2 + 1, (padded[3] - 3) // 2 + 1))], ints("p", *pads), floats("w", (4, 3, 3, 3)))
for bytes_type in (I8, I32):
    for dims, pads in (((1, 1, 1), (3, 0, 0, 0, 3, 1)), ((2, 3, 4), (3, 0, 0, 0, 3, 1)), ((1, 2, 3, 4), (1, 1, 1, 1, 0, 0, 2, 1))):
        graph(f"Pad of {WORDS[bytes_type]} {dims} by {pads}", [onnx_node("Pad", ["x", "p"], ["y"])], [("x", bytes_type, dims)], [("y", bytes_type, tuple(d + pads[i] + pads[i + len(dims)] for i, d in enumerate(dims)))], ints("p", *pads))
for dims, kernel, pads, out in (((1, 1, 2), (4,), (1, 1), (1,)), ((2, 3, 2, 2), (4, 4), (1, 1, 1, 1), (1, 1)), ((1, 3, 1, 8), (3, 3), (1, 1, 1, 1), (1, 8)), ((1, 8, 1, 1), (3, 3), (1, 1, 1, 1), (1, 1)), ((1, 2, 3, 4), (5, 3), (2, 1, 2, 1), (3, 4))):
    one(f"AveragePool of {dims} by {kernel}, beyond both edges", "AveragePool", dims, (*dims[:2], *out), attributes=numbers("kernel_shape", kernel) + numbers("pads", pads))
for strides in ((1, 2, 1), (1, 1, 2), (2, 2, 1), (2, 1, 2), (1, 3, 1), (3, 1, 3)):
    for kernel in ((1, 1, 1), (2, 3, 1), (1, 2, 3)):
        back = tuple((d - 1) * s + k for d, s, k in zip((3, 4, 5), strides, kernel))
        one(f"ConvTranspose by {kernel}, strides {strides}", "ConvTranspose", (1, 2, 3, 4, 5), (1, 3, *back), floats("c0", (2, 3, *kernel)), attributes=numbers("strides", strides))
for kernel, pads in (((2, 1, 1), (1, 0, 0)), ((2, 3, 2), (0, 1, 0)), ((2, 3, 2), (0, 1, 1)), ((3, 3, 3), (1, 2, 1)), ((2, 3, 3), (1, 1, 1))):
    one(f"ConvTranspose by {kernel}, pads {pads}", "ConvTranspose", (1, 2, 3, 4, 5), (1, 3, *(d - 1 + k - 2 * p for d, k, p in zip((3, 4, 5), kernel, pads))), floats("c0", (2, 3, *kernel)), attributes=numbers("pads", [*pads, *pads]))
one("ConvTranspose by (1, 2, 2), strides (1, 2, 1), in groups, cut, with a bias", "ConvTranspose", (1, 4, 3, 4, 5), (1, 6, 3, 7, 5), floats("c0", (4, 3, 1, 2, 2)), floats("c1", (6,)),
    attributes=numbers("strides", [1, 2, 1]) + number("group", 2) + numbers("pads", [0, 1, 0, 0, 0, 1]))
one("Conv of one axis", "Conv", (1, 4, 12), (1, 4, 15), floats("c0", (4, 4, 2)), attributes=numbers("pads", [2, 2]))
one("Conv of three axes", "Conv", (1, 2, 5, 6, 7), (1, 4, 7, 6, 7), floats("c0", (4, 2, 1, 3, 3)), attributes=numbers("pads", [1, 1, 1, 1, 1, 1]))
one("Conv of three axes in groups, dilated, with a bias", "Conv", (2, 6, 9, 6, 7), (2, 4, 4, 4, 7), floats("c0", (4, 3, 3, 3, 3)), floats("c1", (4,)),
    attributes=numbers("pads", [2, 0, 1, 0, 0, 1]) + numbers("strides", [2, 1, 1]) + numbers("dilations", [2, 1, 1]) + number("group", 2))
one("depthwise Conv of three axes", "Conv", (1, 8, 1, 1, 1), (1, 8, 1, 1, 1), floats("c0", (8, 1, 1, 1, 1)), attributes=number("group", 8))

# ---- Slice with a negative step
for axis, dims in ((0, (7,)), (1, (3, 7)), (0, (3, 7)), (2, (2, 3, 7)), (1, (1, 3, 4, 7))):
    for step in (-1, -2, -3):
        out = tuple((d + -step - 1) // -step if i == axis else d for i, d in enumerate(dims))
        one(f"Slice of {dims}, axis {axis} by {step}", "Slice", dims, out, ints("c0", -1), ints("c1", -(1 << 62)), ints("c2", axis), ints("c3", step))

# ---- pools
for channels in (1, 2, 8):
    for stride in (1, 2, 3, 4):
        out = (9 + 2 - 3) // stride + 1
        one(f"AveragePool of {channels} channels, stride {stride}", "AveragePool", (1, channels, 9, 9), (1, channels, out, out),
            attributes=numbers("kernel_shape", [3, 3]) + numbers("pads", [1, 1, 1, 1]) + numbers("strides", [stride, stride]) + number("count_include_pad", 1))

for dims, kernel in (((1, 1, 14, 9), (2, 2)), ((1, 4, 32, 9), (2, 2)), ((1, 32, 18, 9), (3, 3)), ((1, 4, 14, 9), (1, 5)), ((1, 4, 32, 5), (3, 1)), ((2, 2, 40, 30), (20, 25)), ((1, 1, 2, 14, 3), (2, 2, 2))):
    one(f"AveragePool of {dims}, {kernel}, tall and narrow", "AveragePool", dims, (*dims[:2], *(d - k + 1 for d, k in zip(dims[2:], kernel))), attributes=numbers("kernel_shape", kernel))

for channels, stride, kernel in ((33, 4, 3), (64, 4, 3), (33, 3, 1), (40, 2, 1)):
    out = (13 - kernel) // stride + 1
    one(f"depthwise Conv of {channels} channels, {kernel} wide, stride {stride}", "Conv", (1, channels, 13, 13), (1, channels, out, out), floats("c0", (channels, 1, kernel, kernel)),
        attributes=numbers("strides", [stride, stride]) + number("group", channels))

# ---- operators from data of one quantisation to another
def quantised(title, op, kinds, dims, out, weights=None, scales=(1 / 64, 0.01, 1 / 32), attributes=b"", more=(), operands=("a",), sqnr=25):
    """x, quantised as the first type, and weights of i8 become y, quantised as the second."""
    zeros = {U8: 128, I8: 3, U16: 30000, I16: -5}
    nodes = [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "s", "z"], ["a"], name="a"), onnx_node("DequantizeLinear", ["w", "ws", "wz"], ["b"], name="b"),
             onnx_node(op, list(operands) + (["b"] if weights else []), ["c"], attributes), onnx_node("QuantizeLinear", ["c", "t", "v"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "t", "v"], ["y"], name="y")]
    of_weights = [packed("w", I8, weights, [random.randrange(-100, 100) for _ in range(count_of(weights))]), packed("ws", F32, (), [scales[1]]), packed("wz", I8, (), [0])] if weights else []
    graph(title, nodes if weights else [node for i, node in enumerate(nodes) if i != 2], [("x", F32, dims)], [("y", F32, out)], packed("s", F32, (), [scales[0]]), packed("z", kinds[0], (), [zeros[kinds[0]]]), *of_weights,
          packed("t", F32, (), [scales[2]]), packed("v", kinds[1], (), [zeros[kinds[1]]]), *more, tolerance=0.1, sqnr=sqnr)


IMAGE = (1, 4, 5, 5)
for kinds in ((U16, U8), (U8, U16), (I8, I16), (I16, I8)):
    for op, dims, out, weights, rest in (("Conv", IMAGE, (1, 6, 5, 5), (6, 4, 1, 1), {}), ("ConvTranspose", IMAGE, (1, 6, 5, 5), (4, 6, 1, 1), {}), ("Gemm", (3, 4), (3, 6), (4, 6), {}), ("MatMul", (3, 4), (3, 6), (4, 6), {}),
                                         ("Mul", (3, 4), (3, 4), (4,), {}), ("Add", (3, 4), (3, 4), None, {"operands": ("a", "a")}), ("Concat", (3, 4), (6, 4), None, {"operands": ("a", "a"), "attributes": number("axis", 0)}),
                                         ("AveragePool", IMAGE, (1, 4, 3, 3), None, {"attributes": numbers("kernel_shape", [3, 3])}), ("Relu", (3, 4), (3, 4), None, {}), ("Transpose", (3, 4), (4, 3), None, {}),
                                         ("Reshape", (3, 4), (2, 6), None, {"operands": ("a", "shape"), "more": [ints("shape", 2, 6)]}), ("Softmax", (3, 4), (3, 4), None, {"scales": (1 / 64, 0.01, 1 / 255)})):
        quantised(f"{op} from {WORDS[kinds[0]]} to {WORDS[kinds[1]]}", op, kinds, dims, out, weights, **rest)
# ---- products of columns that are read as rows, and their result in another shape
for dims, columns in (((2, 33, 1), 1), ((2, 1, 33, 1), 3), ((1, 2, 60, 1), 1), ((4, 1, 1, 70, 1), 2)):
    rows, inner, out = dims[0] * dims[1] if len(dims) == 4 else dims[0], dims[-2], (*dims[:-2], 1, columns)
    for kind in ("constant", "of the run"):
        graph(f"product of columns {dims} as rows by {columns}, {kind}", [onnx_node("Reshape", ["x", "a"], ["r"], name="r"), onnx_node("MatMul", ["r", "m"], ["p"], name="p"), onnx_node("Reshape", ["p", "b"], ["y"])],
              [("x", F32, dims)] + ([("m", F32, (inner, columns))] if kind != "constant" else []), [("y", F32, out)], ints("a", rows, inner), ints("b", *out), *([floats("m", (inner, columns))] if kind == "constant" else []), sqnr=40)
# ---- products of 16 bits whose low byte the result shows: the library drops it
for op, dims, out, weights in (("MatMul", (3, 8), (3, 5), (8, 5)), ("Gemm", (3, 8), (3, 5), (8, 5)), ("Conv", (1, 8, 4, 4), (1, 5, 4, 4), (5, 8, 1, 1)), ("ConvTranspose", (1, 8, 4, 4), (1, 5, 4, 4), (8, 5, 1, 1))):
    quantised(f"{op} of 16 bits and its low byte", op, (U16, U16), dims, out, weights, scales=(1 / 16, 0.01, 1 / 400), sqnr=40)

# ---- integers that a QuantizeLinear made, read as such or by another scale
for dtype, scale, zero in ((U8, 0.01, 100), (U16, 0.00004, 30000)):
    numbers_of = [packed("s", F32, (), [scale]), packed("z", dtype, (), [zero]), packed("s2", F32, (), [3 * scale]), packed("z2", dtype, (), [zero // 2])]
    made = onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q")
    for kind, between, last, out in (("by another scale", [], ["q", "s2", "z"], (2, 8)), ("by another zero point", [], ["q", "s", "z2"], (2, 8)),
                                     ("by another scale behind Reshape", [onnx_node("Reshape", ["q", "shape"], ["r"], name="r")], ["r", "s2", "z2"], (16,)),
                                     ("by another scale behind Transpose", [onnx_node("Transpose", ["q"], ["r"], name="r")], ["r", "s2", "z2"], (8, 2)),
                                     ("by another scale behind Concat", [onnx_node("QuantizeLinear", ["x", "s2", "z"], ["p"], name="p"), onnx_node("Concat", ["q", "p"], ["r"], number("axis", 0), name="r")], ["r", "s", "z"], (4, 8))):
        graph(f"{8 * (1 + (dtype == U16))} bits read {kind}", [made, *between, onnx_node("DequantizeLinear", last, ["y"], name="d")], [("x", F32, (2, 8))], [("y", F32, out)], *numbers_of, ints("shape", 16))
    graph(f"{8 * (1 + (dtype == U16))} bits read as integers", [made, onnx_node("Cast", ["q"], ["y"], number("to", I32))], [("x", F32, (2, 8))], [("y", I32, (2, 8))], *numbers_of)
    # averages of quantised data
    for channels, counts, stride in ((1, 0, 1), (1, 0, 3), (1, 1, 3), (2, 1, 3), (33, 1, 3)):
        out = (9 + 2 - 3) // stride + 1
        graph(f"AveragePool of {8 * (1 + (dtype == U16))} bits, {channels} channels, stride {stride}, counting {counts}",
              [made, onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
               onnx_node("AveragePool", ["d"], ["a"], numbers("kernel_shape", [3, 3]) + numbers("pads", [1, 1, 1, 1]) + numbers("strides", [stride, stride]) + number("count_include_pad", counts), name="pool"),
               onnx_node("QuantizeLinear", ["a", "s", "z"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "s", "z"], ["y"], name="e")],
              [("x", F32, (1, channels, 9, 9))], [("y", F32, (1, channels, out, out))], *numbers_of, tolerance=0.02)

# ---- ConvTranspose of three axes
for pads in ((1, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 1, 0, 0, 0, 1), (1, 1, 1, 1, 1, 1)):
    for stride in (1, 2):
        out = tuple((d - 1) * stride + 3 - pads[i] - pads[i + 3] for i, d in enumerate((3, 4, 3)))
        one(f"ConvTranspose of three axes padded by {pads}, stride {stride}", "ConvTranspose", (1, 2, 3, 4, 3), (1, 3, *out), floats("c0", (2, 3, 3, 3, 3)),
            attributes=numbers("pads", pads) + numbers("strides", [stride] * 3))
one("ConvTranspose of three axes in groups", "ConvTranspose", (1, 4, 3, 4, 3), (1, 6, 7, 9, 7), floats("c0", (4, 3, 3, 3, 3)), floats("c1", (6,)), attributes=numbers("strides", [2, 2, 2]) + number("group", 2))

# ---- casts to and from s8, and what reads them
for source, letter in ((F32, "f32"), (I32, "i32"), (U8, "u8"), (I8, "i8")):
    for target, word in ((I8, "i8"), (U8, "u8"), (I32, "i32")):
        if source == target or (source == I32 and target == U8):
            continue
        first = [onnx_node("Mul", ["x", "k"], ["a"], name="mul"), onnx_node("Add", ["a", "half"], ["b"], name="add"), onnx_node("Round", ["b"], ["c"], name="round"), onnx_node("Cast", ["c"], ["d"], number("to", source), name="make")]
        for kind, last, out in (("read as reals", [onnx_node("Cast", ["e"], ["y"], number("to", F32), name="back")], F32), ("read as integers", [onnx_node("Cast", ["e"], ["y"], number("to", I32), name="back")], I32),
                                ("moved", [onnx_node("Gather", ["e", "g"], ["h"], number("axis", 1), name="gather"), onnx_node("Cast", ["h"], ["y"], number("to", F32), name="back")], F32)):
            if target == I32 and kind == "read as integers":
                continue
            graph(f"Cast of {letter} to {word}, {kind}", [*first, onnx_node("Cast", ["d"], ["e"], number("to", target), name="cast"), *last], [("x", F32, (3, 8))], [("y", out, (3, 4 if kind == "moved" else 8))],
                  packed("k", F32, (), [30.0 if target != U8 and source != U8 else 10.0]), packed("half", F32, (), [0.0 if source != U8 and target != U8 or source == I8 else 100.0]), packed("g", I64, (4,), [3, 1, 7, 0]), tolerance=0.02)

# ---- diagonals, columns to images, classes of integers, real samples of half the frequencies, numbers beside f16
for equation, dims, out in (("bhii->bhi", (2, 3, 5, 5), (2, 3, 5)), ("ii->", (4, 4), ()), ("iji->j", (3, 4, 3), (4,)), ("iii->i", (3, 3, 3), (3,))):
    one(f"Einsum {equation}", "Einsum", dims, out, names=["x"], attributes=text("equation", equation))
graph("Einsum of a diagonal and a matrix", [onnx_node("Einsum", ["x", "c"], ["y"], text("equation", "bii,bij->bj"))], [("x", F32, (2, 4, 4))], [("y", F32, (2, 5))], floats("c", (2, 4, 5)))
for image, block, given, columns in (((8, 10), (2, 2), numbers("strides", [2, 2]), 20), ((8, 10), (3, 2), numbers("strides", [1, 2]) + numbers("pads", [1, 0, 1, 0]), 40), ((9, 11), (2, 2), numbers("strides", [3, 3]), 12),
                                     ((9, 9), (3, 3), numbers("strides", [2, 2]) + numbers("dilations", [2, 1]), 12)):
    one(f"Col2Im of {image} by {block}", "Col2Im", (2, 3 * count_of(block), columns), (2, 3, *image), ints("c0", *image), ints("c1", *block), attributes=given)
for axis, out in ((1, (4, 5)), (0, (5, 4))):
    graph(f"OneHot of integers, axis {axis}", [onnx_node("TopK", ["x", "k"], ["v", "i"], name="top"), onnx_node("Reshape", ["i", "flat"], ["j"], name="flat"), onnx_node("OneHot", ["j", "depth", "values"], ["y"], number("axis", axis))],
          [("x", F32, (2, 5))], [("y", I64, out)], ints("k", 2), ints("flat", -1), packed("depth", I64, (), [5]), ints("values", -3, 7))
for length, half in ((32, 17), (9, 5)):
    graph(f"DFT of half the frequencies to {length} samples", [onnx_node("DFT", ["x", "n", "a"], ["y"], number("inverse", 1) + number("onesided", 1))], [("x", F32, (2, half, 2))], [("y", F32, (2, length, 1))],
          packed("n", I64, (), [length]), packed("a", I64, (), [-2]))
for op in ("Erf", "Softsign", "Selu", "Mish"):
    graph(f"{op} of f16", [onnx_node("Cast", ["x"], ["h"], number("to", F16), name="half"), onnx_node(op, ["h"], ["o"], name="op"), onnx_node("Cast", ["o"], ["y"], number("to", F32), name="back")], [("x", F32, (3, 8))], [("y", F32, (3, 8))])
graph("Neg of integers", [onnx_node("Cast", ["x"], ["i"], number("to", I32), name="cast"), onnx_node("Neg", ["i"], ["y"])], [("x", F32, (3, 4))], [("y", I32, (3, 4))])

# ---- ConvTranspose whose kernel does not reach what is asked for
for strides, kernel, extra, group in (((2, 2), (2, 3), (1, 1), 1), ((3, 3), (1, 1), (2, 2), 1), ((3, 2), (2, 2), (2, 1), 2)):
    out = tuple((d - 1) * s + k + e for d, s, k, e in zip((6, 5), strides, kernel, extra))
    given = numbers("strides", strides) + number("group", group)
    for kind, asked in (("output_padding", numbers("output_padding", extra)), ("output_shape", numbers("output_padding", extra) + numbers("output_shape", out))):
        one(f"ConvTranspose {kernel}, {kind} of {out}", "ConvTranspose", (1, 4, 6, 5), (1, 3 * group, *out), floats("c0", (4, 3, *kernel)), floats("c1", (3 * group,)), attributes=given + asked)
one("ConvTranspose of one axis, output_padding", "ConvTranspose", (2, 4, 9), (2, 3, 28), floats("c0", (4, 3, 2)), floats("c1", (3,)), attributes=numbers("strides", [3]) + numbers("output_padding", [2]))
one("ConvTranspose of three axes, output_padding", "ConvTranspose", (1, 2, 3, 4, 3), (1, 3, 7, 9, 7), floats("c0", (2, 3, 2, 2, 2)), floats("c1", (3,)), attributes=numbers("strides", [2, 2, 2]) + numbers("output_padding", [1, 1, 1]))

# ---- GRU: each direction by itself
for way in ("forward", "reverse", "bidirectional"):
    for before in (0, 1):
        ways = 2 if way == "bidirectional" else 1
        graph(f"GRU {way}, linear_before_reset {before}", [onnx_node("GRU", ["x", "w", "r", "b", "", "h"], ["y", "z"], number("hidden_size", 32) + text("direction", way) + number("linear_before_reset", before))],
              [("x", F32, (24, 2, 24)), ("h", F32, (ways, 2, 32))], [("y", F32, (24, ways, 2, 32)), ("z", F32, (ways, 2, 32))], floats("w", (ways, 96, 24)), floats("r", (ways, 96, 32), -0.85, 0.85),
              floats("b", (ways, 192)), tolerance=0.008)

# ---- Gather by indices of several axes, and of bools
for dims, axis in (((6, 2), 1), ((2, 3, 4, 5), 0), ((2, 3, 4, 5), 2), ((3, 4, 5), 1)):
    for shape in ((1, 1), (2, 3), (1, 2, 2), ()):
        one(f"Gather of {dims}, axis {axis}, by {shape}", "Gather", dims, (*dims[:axis], *shape, *dims[axis + 1:]),
            packed("c0", I64, shape, [random.randrange(-dims[axis], dims[axis]) for _ in range(count_of(shape))]), attributes=number("axis", axis))
positive = onnx_node("Greater", ["x", "z"], ["b"], name="greater")
for op, out, index, given in (("Gather", (2, 5), packed("i", I64, (5,), [0, 2, 1, 3, 3]), number("axis", 1)), ("GatherND", (3,), packed("i", I64, (3, 2), [0, 1, 1, 3, 1, 0]), b""),
                              ("GatherND", (2, 1, 1, 2), packed("i", I64, (2, 1, 1, 2, 2), [0, 1, 0, 3, 1, 0, 1, 2]), b""),
                              ("GatherElements", (2, 2), packed("i", I64, (2, 2), [0, 3, 2, 1]), number("axis", 1))):
    graph(f"{op} of bools to {out}", [positive, onnx_node(op, ["b", "i"], ["g"], given, name="gather"), onnx_node("Where", ["g", "one", "two"], ["y"])],
          [("x", F32, (2, 4))], [("y", F32, out)], index, packed("z", F32, (), [0.5]), packed("one", F32, (), [1.0]), packed("two", F32, (), [2.0]))
graph("Slice and Pad of bools", [positive, onnx_node("Slice", ["b", "s", "e", "a"], ["c"], name="slice"), onnx_node("Pad", ["c", "p"], ["g"], name="pad"), onnx_node("Where", ["g", "one", "two"], ["y"])],
      [("x", F32, (2, 4))], [("y", F32, (3, 4))], ints("s", 1), ints("e", 4), ints("a", 1), ints("p", 1, 0, 0, 1), packed("z", F32, (), [0.5]), packed("one", F32, (), [1.0]), packed("two", F32, (), [2.0]))

# ---- CumSum
for exclusive in (0, 1):
    for reverse in (0, 1):
        for axis, dims in ((1, (2, 7)), (0, (2, 7)), (1, (1, 3, 4, 5)), (0, (1, 3))):
            one(f"CumSum of {dims}, axis {axis}, exclusive {exclusive}, reverse {reverse}", "CumSum", dims, dims, packed("c0", I64, (), [axis]),
                attributes=number("exclusive", exclusive) + number("reverse", reverse))

# ---- ScatterElements that combines
for word in ("add", "mul", "max", "min"):
    for axis, places in ((1, [0, 1, 0, 2, 2, -1]), (0, [0, 1, 0, 2, -2, 3])):
        graph(f"ScatterElements {word}, axis {axis}", [onnx_node("ScatterElements", ["x", "i", "u"], ["y"], number("axis", axis) + text("reduction", word))],
              [("x", F32, (4, 5)), ("u", F32, (2, 3))], [("y", F32, (4, 5))], packed("i", I64, (2, 3), places))

for word in ("add", "max", "min"):
    for kind, dims, index in (("one axis", (5, 4), ((4, 1), [0, 3, 0, -1])), ("two axes", (3, 4, 5), ((4, 2), [0, 1, 2, 2, 0, 1, -1, -1])), ("all axes", (3, 4), ((2, 2, 2), [0, 1, 2, 2, 0, 1, -1, -1]))):
        given = onnx_node("ScatterND", ["x", "i", "u"], ["y"], text("reduction", word))
        values = (*index[0][:-1], *dims[index[0][-1]:])
        graph(f"ScatterND {word} by {kind}", [given], [("x", F32, dims), ("u", F32, values)], [("y", F32, dims)], packed("i", I64, *index))
        graph(f"ScatterND {word} by {kind} that the run gives", [onnx_node("Cast", ["t"], ["i"], number("to", I64), name="cast"), given], [("x", F32, dims), ("u", F32, values), ("t", F32, index[0])], [("y", F32, dims)])

for kind, dims, index in (("updates of five axes", (6, 3, 1, 4), (4, 1, 1)), ("data of five axes", (2, 3, 4, 2, 3), (2, 1)), ("all of five axes", (2, 3, 4, 2, 3), (2, 2, 5)), ("indices of five axes", (7,), (2, 2, 1, 1, 1))):
    reached, count = count_of(dims[:index[-1]]), count_of(index[:-1])
    to = [w for at in random.sample(range(reached), count) for w in [at // count_of(dims[i + 1:index[-1]]) % dims[i] for i in range(index[-1])]]
    given = [onnx_node("ScatterND", ["x", "i", "u"], ["y"])]
    update = (*index[:-1], *dims[index[-1]:])
    graph(f"ScatterND of {kind}", given, [("x", F32, dims), ("u", F32, update)], [("y", F32, dims)], packed("i", I64, index, to))
    graph(f"ScatterND of {kind} that the run gives", [onnx_node("Cast", ["t"], ["i"], number("to", I64), name="cast"), *given], [("x", F32, dims), ("u", F32, update), ("t", I32, index)], [("y", F32, dims)])

# ---- TopK: the first of equal values is first, of integers of any width
for dtype in (I8, U8, I16, U16, I32):
    for largest in (0, 1):
        graph(f"TopK {largest} of equal {WORDS[dtype]}", [onnx_node("Cast", ["x"], ["i"], number("to", dtype), name="cast"), onnx_node("TopK", ["i", "k"], ["v", "y"], number("largest", largest))], [("x", BOOL, (3, 9))], [("v", dtype, (3, 4)), ("y", I64, (3, 4))], ints("k", 4))

# ---- Where of i8 that is stretched
for shapes in (((1, 1), (2, 1)), ((2, 2), (2, 1)), ((2, 2), (1, 2))):
    graph(f"Where of i8, {shapes}", [onnx_node("Where", ["c", "x", "z"], ["y"])], [("c", BOOL, shapes[0]), ("x", I8, shapes[1]), ("z", I8, (2, 2))], [("y", I8, (2, 2))])

for axis in (0, 2, 4):
    one(f"LpNormalization of five axes along {axis}", "LpNormalization", (2, 2, 3, 2, 4), (2, 2, 3, 2, 4), attributes=number("axis", axis))

# ---- GatherND, of which the library takes other elements of some shapes
for dims, count, batch, indexed in (((3, 1), (1,), 0, 2), ((2, 1, 6, 2, 1), (2, 1, 2), 1, 3), ((2, 3, 4, 5), (2, 3, 2), 2, 2), ((2, 3, 4), (4, 2), 0, 3), ((2, 3, 4, 5, 2), (4,), 0, 1), ((2, 3, 4, 5), (2,), 1, 1)):
    for kind, dtype in (("f32", F32), ("bool", BOOL), ("i32", I32)):
        given = packed("i", I64, (*count, indexed), [random.randrange(-dims[batch + at % indexed], dims[batch + at % indexed]) for at in range(count_of(count) * indexed)])
        graph(f"GatherND {dims} of {kind} by {indexed} behind {batch}", [onnx_node("GatherND", ["x", "i"], ["y"], number("batch_dims", batch))], [("x", dtype, dims)], [("y", dtype, (*count, *dims[batch + indexed:]))], given)
        if dtype != F32 or 1 in dims[batch:batch + indexed]:
            continue
        graph(f"GatherND {dims} by {indexed} of the run behind {batch}", [onnx_node("Cast", ["t"], ["i"], number("to", I64), name="cast"), onnx_node("GatherND", ["x", "i"], ["y"], number("batch_dims", batch))],
              [("x", dtype, dims), ("t", BOOL, (*count, indexed))], [("y", dtype, (*count, *dims[batch + indexed:]))])

# ---- more axes: what is repeated, of bools, and gates of their own input
for dims in (FIVE, SIX):
    rank = len(dims)
    for repeats in ((1,) * rank, (1, 2) + (1,) * (rank - 2), (1,) * (rank - 1) + (3,), (2, 1) * (rank // 2) + (2,) * (rank % 2), (2,) * rank):
        graph(f"Tile of {rank} axes by {repeats}", [onnx_node("Neg", ["x"], ["n"], name="neg"), onnx_node("Tile", ["n", "r"], ["y"])], [("x", F32, dims)], [("y", F32, tuple(d * r for d, r in zip(dims, repeats)))], ints("r", *repeats))
    graph(f"Swish of {rank} axes", [onnx_node("Sigmoid", ["x"], ["s"], name="s"), onnx_node("Mul", ["x", "s"], ["y"])], [("x", F32, dims)], [("y", F32, dims)])
    graph(f"QuickGelu of {rank} axes", [onnx_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")], [("x", F32, dims)], [("y", F32, dims)])
    for target, word in ((F32, "f32"), (F16, "f16"), (I32, "i32"), (U8, "u8"), (I8, "i8")):
        graph(f"Cast of bools of {rank} axes to {word}", [onnx_node("Greater", ["x", "z"], ["b"], name="greater"), onnx_node("Cast", ["b"], ["y"], number("to", target))], [("x", F32, dims)], [("y", target, dims)], packed("z", F32, (), [0.0]))
        graph(f"Cast of {word} of {rank} axes to bools", [onnx_node("Abs", ["x"], ["a"], name="abs"), onnx_node("Mul", ["a", "k"], ["m"], name="mul"), onnx_node("Cast", ["m"], ["c"], number("to", target), name="make"), onnx_node("Cast", ["c"], ["b"], number("to", BOOL), name="cast"),
                                                            onnx_node("Where", ["b", "one", "two"], ["y"])], [("x", F32, dims)], [("y", F32, dims)], packed("k", F32, (), [1.9]), packed("one", F32, (), [1.0]), packed("two", F32, (), [2.0]))

# ---- reals of other types: f32 inside, the host converts inputs and outputs
for kind, word in ((BF16, "bf16"), (F64, "f64")):
    for op, inputs in (("Identity", ["x"]), ("Mean", ["x"]), ("Concat", ["x"]), ("Neg", ["x"]), ("Add", ["x", "x"]), ("Max", ["x"])):
        graph(f"{op} of {word}", [onnx_node(op, inputs, ["y"], number("axis", 0) if op == "Concat" else b"")], [("x", kind, (3, 5))], [("y", kind, (3, 5))])
    graph(f"{word} to integers and back", [onnx_node("Cast", ["x"], ["i"], number("to", I32), name="i"), onnx_node("Cast", ["i"], ["y"], number("to", kind))], [("x", kind, (3, 5))], [("y", kind, (3, 5))])
    graph(f"f32 to {word}", [onnx_node("Cast", ["x"], ["y"], number("to", kind))], [("x", F32, (3, 5))], [("y", kind, (3, 5))])
    graph(f"{word} to f32", [onnx_node("Cast", ["x"], ["y"], number("to", F32))], [("x", kind, (3, 5))], [("y", F32, (3, 5))])

# ---- GridSample that the library does not have: cubic, nearest, volumes. Grids of random positions, some of them outside
for mode in ("linear", "nearest", "cubic"):
    for edge in ("zeros", "border", "reflection"):
        for aligns in (0, 1):
            for dims, out in (((2, 3, 6, 7), (2, 3, 4, 5)),) if mode == "cubic" else ((((2, 3, 4, 6, 5), (2, 3, 2, 4, 3)),) if mode == "linear" else (((2, 3, 6, 7), (2, 3, 4, 5)), ((1, 2, 4, 6, 5), (1, 2, 2, 4, 3)))):
                # A nearest one is decided by no rounding of f16: positions stay away from ties.
                places = [(2 * random.randrange(-1, d + 1) + random.choice((-0.6, 0, 0.5))) / max(d - 1, 1) - 1 if aligns else (2 * random.randrange(-1, d + 1) + 1 + random.choice((-0.6, 0, 0.5))) / d - 1
                          for _ in range(count_of(out) // out[1]) for d in dims[:1:-1]]
                graph(f"GridSample {mode} of {dims}, {edge}, align_corners {aligns}", [onnx_node("GridSample", ["x", "g"], ["y"], text("mode", mode) + text("padding_mode", edge) + number("align_corners", aligns))],
                      [("x", F32, dims)], [("y", F32, out)], packed("g", F32, (out[0], *out[2:], len(dims) - 2), places), tolerance=0.02)
for op in ("IsInf", "IsNaN"):
    graph(f"{op} of finite numbers", [onnx_node(op, ["x"], ["b"], name="is"), onnx_node("Where", ["b", "one", "x"], ["y"])], [("x", F32, (3, 5))], [("y", F32, (3, 5))], packed("one", F32, (), [1.0]))
for positive, negative in ((1, 1), (1, 0), (0, 1), (0, 0)):
    graph(f"IsInf {positive} {negative} of large numbers", [onnx_node("Mul", ["x", "k"], ["a"], name="mul"), onnx_node("Exp", ["a"], ["e"], name="exp"), onnx_node("Mul", ["e", "s"], ["m"], name="sign"),
                                                            onnx_node("IsInf", ["m"], ["b"], number("detect_positive", positive) + number("detect_negative", negative), name="is"), onnx_node("Where", ["b", "one", "two"], ["y"])],
          [("x", F32, (3, 5))], [("y", F32, (3, 5))], packed("k", F32, (5,), [0.0, 0.0, 1.0, 0.0, 0.0]), packed("s", F32, (5,), [1.0, -1.0, 1.0, 1.0, -1.0]), packed("one", F32, (), [1.0]), packed("two", F32, (), [2.0]))

# ---- powers past what f16 has, whose logarithm is small
for axes, keep in (((2,), 1), ((0, 2), 0), ((0, 1, 2), 1), ((), 1)):
    graph(f"LogSumExp of powers past f16 over {axes or 'no'} axes, keepdims {keep}", [onnx_node("Mul", ["x", "c"], ["m"], name="mul"), onnx_node("ReduceLogSumExp", ["m", "axes"], ["y"], number("keepdims", keep) + number("noop_with_empty_axes", 1))],
          [("x", F32, (3, 4, 5))], [("y", F32, reduced((3, 4, 5), axes, keep))], packed("c", F32, (), [60.0]), ints("axes", *axes))

# ---- numbers whose exponential, arc tangent or reciprocal the library has wrong: the function itself is flat there
for op, factor in (("Exp", -150.0), ("Elu", 300.0), ("Celu", 2000.0), ("Selu", 3000.0), ("Softplus", 300.0), ("Mish", 3000.0), ("LogSoftmax", 3000.0), ("Atan", 60000.0), ("Softsign", 60000.0)):
    away = [onnx_node("Abs", ["x"], ["a"], name="abs")] if op == "Exp" else []
    graph(f"{op} of numbers to {factor:g}", away + [onnx_node("Mul", ["a" if away else "x", "c"], ["m"], name="mul"), onnx_node(op, ["m"], ["y"])], [("x", F32, (4, 50))], [("y", F32, (4, 50))], packed("c", F32, (), [factor]), opset=22)

# ---- operators of two elements, reductions and others, by their cases
def drawn(name, dims, low, high, parts):
    return packed(name, F32, dims, [of_cases.randrange(int(low * parts), int(high * parts) + 1) / parts for _ in range(count_of(dims))])


def attributes(values):
    return b"".join(number(name, value) if isinstance(value, int) else real(name, value) if isinstance(value, float) else text(name, value) for name, value in values.items())


def of_constants(title, op, out, constants, names, given=b"", domain="", opset=21, tolerance=0.01, kind=F32, flags=False):
    """y = op(c0 + 0 * x, ...): of numbers that f16 has, known only at run time, as `kind`; `flags`: y is one of truth values. Names that do not begin with c stay constants."""
    drawn_ones = [name for name in names if name[0] == "c"]
    nodes = [onnx_node("Mul", ["x", "nothing"], ["m"], name="mul")] + [onnx_node("Add", ["m", name], ["v" + name], name="a" + name) for name in drawn_ones]
    last = [onnx_node(op, ["v" + name if name in drawn_ones else name for name in names], ["y"], given, domain=domain)]
    if kind != F32 or flags:
        last = [onnx_node("Cast", ["v" + name], ["t" + name], number("to", kind), name="t" + name) for name in drawn_ones]
        last += [onnx_node(op, ["t" + name for name in drawn_ones], ["made"], given, domain=domain), onnx_node("Cast", ["made"], ["y"], number("to", F32), name="back")]
    graph(title, [*nodes, *last], [("x", F32, (1,))], [("y", F32, out)],
          packed("nothing", F32, (), [0.0]), *constants, opset=opset, tolerance=tolerance)


of_cases = random.Random(29)  # (what others are drawn stays as it is)
for name, case in case_tables.binary().items():
    types = case_tables.ROWS[name].types
    kind = BOOL if "T=bool" in types and "T1=bool" in types else U8 if name == "BitShift" else I32 if "T=int" in types else F32
    parts = 1 if kind != F32 else 8 if case.jumps else 64
    of_constants(f"{name} of two", name, (4, 50), [drawn(f"c{i}", (4, 50), *ends, parts) for i, ends in enumerate(case.ranges)], ["c0", "c1"], attributes(case.attributes), case.domain, max(21, case.opset),
                 kind=kind, flags=types.endswith("T1=bool"))
for name, case in case_tables.reductions().items():
    for axis in (0, 1, 2):
        dims = (4, 6, 5)
        graph(f"{name} of a case, axis {axis}", [onnx_node("Mul", ["x", "nothing"], ["m"], name="mul"), onnx_node("Add", ["m", "c"], ["v"], name="add"),
                                                 onnx_node(name, ["v", "axes"], ["y"], number("keepdims", 0))],
              [("x", F32, (1,))], [("y", F32, reduced(dims, (axis,), False))], packed("nothing", F32, (), [0.0]), drawn("c", dims, case.low, case.high, 64), ints("axes", axis))
for name, rows in case_tables.operators().items():
    for case in rows:
        for extents in ((3, 5, 8), (7, 1, 33)):
            letters = dict(zip(case.letters(), extents * 2))
            kind = {"i32": I32, "bool": BOOL}.get(case.operands[0].type, F32)
            of_constants(f"{name} {case.attributes} of {extents}", name, tuple(case_tables.shape_of(case.result, letters)),
                         [drawn(f"c{i}", tuple(operand.shape(letters)), operand.low, operand.high, 64 if kind == F32 else 1) if not operand.values else
                          packed(f"k{i}", I64, tuple(operand.shape({})), [int(value) for value in operand.values]) for i, operand in enumerate(case.operands)],
                         [f"k{i}" if operand.values else f"c{i}" for i, operand in enumerate(case.operands)], attributes(case.attributes), case.domain, max(21, case.opset), 0.02, kind)

# ---- each function of one element, of numbers that f16 has
draw = random.Random(23)  # (what others are drawn stays as it is)
for name, function in case_tables.functions().items():
    parts = 8 if function.jumps else 64
    values = [draw.randrange(int(function.low * parts), int(function.high * parts) + 1) / parts for _ in range(50)]
    graph(f"{name} of numbers between {function.low:g} and {function.high:g}",
          [onnx_node("Mul", ["x", "nothing"], ["m"], name="mul"), onnx_node("Add", ["m", "c"], ["v"], name="add"), onnx_node(name, ["v"], ["y"], domain=function.domain)],
          [("x", F32, (4, 50))], [("y", F32, (4, 50))], packed("nothing", F32, (), [0.0]), packed("c", F32, (50,), values), opset=max(21, function.opset))

# ---- what the shape of an input gives
graph("EyeLike of an input", [onnx_node("EyeLike", ["x"], ["y"], number("k", 1))], [("x", F32, (3, 4))], [("y", F32, (3, 4))])
graph("a sum of constants", [onnx_node("Shape", ["x"], ["s"], name="shape"), onnx_node("ConstantOfShape", ["s"], ["o"], name="zeros"), onnx_node("Exp", ["o"], ["e"], name="exp"), onnx_node("Add", ["e", "c"], ["y"])],
      [("x", F32, (3, 4))], [("y", F32, (3, 4))], floats("c", (4,)))

# ---- casts that change a value, before others that take it back
def values_between(low, high, target):
    """Numbers between two limits, with fractions that f16 has exactly, cast to `target`. The zeros of x keep them from being computed beforehand."""
    values = [float(low), float(high)] + [min(random.randrange(low, high) + random.choice((0, 0.5)), high) for _ in range(38)]
    return [onnx_node("Mul", ["x", "nothing"], ["m"], name="mul"), onnx_node("Add", ["m", "b"], ["r"], name="add"), onnx_node("Cast", ["r"], ["v"], number("to", target), name="make")], [
        packed("nothing", F32, (), [0.0]), packed("b", F32, (40,), values)]


RANGES = {I32: (-900, 900), I64: (-900, 900), U8: (0, 255), I8: (-128, 127), U16: (0, 900), I16: (-900, 900), F32: (-900, 900)}
for source in (F32, F16, I32, U8, I8, U16, I16):
    for target in (I64, I32, U8, I8, U16, I16, BOOL):
        if source == target:
            continue
        low, high = RANGES[F32 if source == F16 else source]
        if source in (F32, F16) and target != BOOL:
            low, high = RANGES[target]
        first, constants = values_between(low, high, source)
        for back in (F32, I32):
            last = [onnx_node("Cast", ["v"], ["c"], number("to", target), name="cast"), onnx_node("Cast", ["c"], ["y"], number("to", back), name="back")]
            graph(f"{WORDS[source]} to {WORDS[target]} to {WORDS[back]}", first + last, [("x", F32, (3, 40))], [("y", back, (3, 40))], *constants, tolerance=0.001, sqnr=60)
for kind in (I8, U8):
    for op in ("Add", "Sub", "Mul"):
        for back in (F32, I32):
            first, constants = values_between(*RANGES[kind], kind)
            graph(f"{op} of {WORDS[kind]}, cast to {WORDS[back]}", [*first, onnx_node(op, ["v", "c"], ["w"], name="op"), onnx_node("Cast", ["w"], ["y"], number("to", back), name="back")], [("x", F32, (3, 40))], [("y", back, (3, 40))], *constants,
                  packed("c", kind, (40,), [random.randrange(*RANGES[kind]) for _ in range(40)]), tolerance=0.001, sqnr=60)
graph("LayerNormalization of f16 with a mean", [onnx_node("Cast", ["x"], ["h"], number("to", F16), name="half"), onnx_node("Cast", ["s"], ["t"], number("to", F16), name="scale"), onnx_node("LayerNormalization", ["h", "t", "", ], ["n", "m", "d"], name="norm"),
                                                  onnx_node("Cast", ["n"], ["y"], number("to", F32))], [("x", F32, (3, 8))], [("y", F32, (3, 8)), ("m", F32, (3, 1)), ("d", F32, (3, 1))], floats("s", (8,)))

# ---- Clip by bounds of the run
graph("Clip by bounds of the run", [onnx_node("Neg", ["a"], ["low"], name="neg"), onnx_node("Clip", ["x", "low", "a"], ["y"])], [("x", F32, (3, 4)), ("a", F32, ())], [("y", F32, (3, 4))])
graph("Clip by one bound of the run", [onnx_node("Clip", ["x", "", "a"], ["y"])], [("x", F32, (1, 3, 4, 5)), ("a", F32, ())], [("y", F32, (1, 3, 4, 5))])


# ---- bits, by arithmetic
def drawn_integers(kind, low, high):
    """Integers of a type, near its limits too; the zeros of x keep them from being computed beforehand."""
    values = [low, high, -1 if low else 1, 0] + [random.randint(low, high) for _ in range(36)]
    nodes = [onnx_node("Cast", ["x"], ["i"], number("to", I32), name="whole"), onnx_node("Mul", ["i", "nothing"], ["n"], name="nothing"), onnx_node("Add", ["n", "b"], ["v" if kind == I32 else "u"], name="values")]
    if kind != I32:  # of 64 bits too: a sum of such at the end of 32 bits is an error of the run ("past 32 bits" has those)
        nodes.append(onnx_node("Cast", ["u"], ["v"], number("to", kind), name="narrow"))
    return nodes, [packed("nothing", I32, (), [0]), packed("b", I32, (40,), values)]


LIMITS = {I32: (-(1 << 31), (1 << 31) - 1), I64: (-(1 << 31), (1 << 31) - 1), I8: (-128, 127), U8: (0, 255), I16: (-32768, 32767), U16: (0, 65535)}
SEEN = {I32: I32, I64: I64, I8: I32, U8: I32, I16: I32, U16: I32}  # what the result is read as
for kind, (low, high) in LIMITS.items():
    first, constants = drawn_integers(kind, low, high)
    last = [] if SEEN[kind] == kind else [onnx_node("Cast", ["w"], ["y"], number("to", SEEN[kind]), name="back")]
    out = "y" if not last else "w"
    other = [random.randint(low, high) for _ in range(40)]
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        for title, dims, values in (("each another", (40,), other), ("a mask of few bits", (), [0x35]), ("a mask with its sign", (1, 1), [high - 0x1f if low == 0 else -0x20])):
            graph(f"{op} of {WORDS[kind]} by {title}", [*first, onnx_node(op, ["v", "m"], [out], name="bits"), *last], [("x", F32, (3, 40))], [("y", SEEN[kind], (3, 40))], *constants, packed("m", kind, dims, values), tolerance=1e-10, sqnr=90)
    graph(f"BitwiseNot of {WORDS[kind]}", [*first, onnx_node("BitwiseNot", ["v"], [out], name="bits"), *last], [("x", F32, (3, 40))], [("y", SEEN[kind], (3, 40))], *constants, tolerance=1e-10, sqnr=90)
    for by in (2, 3, -3, 7, -8) if kind == I32 else ():
        graph(f"Div of i32 to its limits by {by}", [*first, onnx_node("Div", ["v", "m"], ["y"])], [("x", F32, (3, 40))], [("y", I32, (3, 40))], *constants, packed("m", I32, (), [by]), tolerance=0)
    for direction in ("LEFT", "RIGHT"):
        for by in (0, 1, 5, 7, 30):
            if kind == I64 and direction == "LEFT":
                continue  # passes 32 bits
            graph(f"BitShift {direction} of {WORDS[kind]} by {by}", [*first, onnx_node("BitShift", ["v", "m"], [out], text("direction", direction), name="bits"), *last], [("x", F32, (3, 40))], [("y", SEEN[kind], (3, 40))], *constants, packed("m", kind, (), [by]), tolerance=1e-10, sqnr=90)
        if kind not in (I32, I64):
            graph(f"BitShift {direction} of {WORDS[kind]} by each another", [*first, onnx_node("BitShift", ["v", "m"], [out], text("direction", direction), name="bits"), *last], [("x", F32, (3, 40))], [("y", SEEN[kind], (3, 40))], *constants,
                  packed("m", kind, (40,), [random.randrange(18) for _ in range(40)]), tolerance=1e-10, sqnr=90)

# ---- regions of whole elements
for title, regions in (("one image", [(0, 1, 2, 9, 7), (0, 0, 0, 15, 11), (0, 3.4, 5.5, 4.5, 20)]), ("regions in a row and none", [(0, 5, 5, 5, 5), (0, 9, 9, 2, 2), (0, -6, -8, -2, -3), (0, 20, 20, 30, 30)])):
    for pooled in ((2, 2), (3, 5)):
        attributes = numbers("pooled_shape", pooled) + real("spatial_scale", 0.5)
        count = len(regions)
        flat = [v for region in regions for v in region]
        graph(f"MaxRoiPool {pooled}, {title}, constant", [onnx_node("MaxRoiPool", ["x", "r"], ["y"], attributes)], [("x", F32, (1, 3, 12, 16))], [("y", F32, (count, 3, *pooled))], packed("r", F32, (count, 5), flat))
        graph(f"MaxRoiPool {pooled}, {title}, of the run", [onnx_node("ReduceMax", ["x"], ["m"], number("keepdims", 0), name="m"), onnx_node("Mul", ["m", "nothing"], ["n"], name="n"), onnx_node("Add", ["r", "n"], ["s"], name="s"), onnx_node("MaxRoiPool", ["x", "s"], ["y"], attributes)],
              [("x", F32, (1, 3, 12, 16))], [("y", F32, (count, 3, *pooled))], packed("r", F32, (count, 5), flat), packed("nothing", F32, (), [0.0]))
graph("MaxRoiPool of two images", [onnx_node("MaxRoiPool", ["x", "r"], ["y"], numbers("pooled_shape", (3, 3)))], [("x", F32, (2, 3, 12, 16))], [("y", F32, (3, 3, 3, 3))], packed("r", F32, (3, 5), [1, 2, 3, 9, 9, 0, 0, 0, 15, 11, 1, 4, 4, 5, 6]))

# ---- random numbers are those that every run gives
for op, attributes in (("RandomUniformLike", real("low", -2) + real("high", 3)), ("RandomNormalLike", real("mean", 1) + real("scale", 0.5) + real("seed", 7))):
    graph(f"{op} of an input", [onnx_node(op, ["x"], ["r"], attributes, name="draw"), onnx_node("Add", ["x", "r"], ["y"])], [("x", F32, (3, 40))], [("y", F32, (3, 40))])
    graph(f"{op} alone", [onnx_node(op, ["x"], ["y"], attributes)], [("x", F32, (3, 40))], [("y", F32, (3, 40))])
for op in ("RandomUniform", "RandomNormal"):
    graph(op, [onnx_node(op, [], ["r"], numbers("shape", (3, 40)), name="draw"), onnx_node("Mul", ["x", "r"], ["y"])], [("x", F32, (3, 40))], [("y", F32, (3, 40))])

# ---- loops that end by a condition on constants: counted, and unrolled
def counting(by, limit, *more):
    """A body that goes on while its number is small: (time, go, number, carried) to (go, number, carried, slice)."""
    return body("body", [onnx_node("Add", ["n", "by"], ["n2"], name="n"), onnx_node("Less", ["n2", "limit"], ["go"], name="go"), onnx_node("Mul", ["v", "half"], ["h"], name="h"), onnx_node("Add", ["h", "x"], ["v2"], name="v"), onnx_node("Abs", ["v2"], ["slice"], name="slice")],
                [("t", I64, ()), ("c", BOOL, ()), ("n", I64, ()), ("v", F32, (3, 4))], [("go", BOOL, ()), ("n2", I64, ()), ("v2", F32, (3, 4)), *([("slice", F32, (3, 4))] if more else [])],
                [packed("by", I64, (), [by]), packed("limit", I64, (), [limit]), packed("half", F32, (), [0.5])])


for title, first, most in (("no number of times", "", 0), ("a large number of times", "most", (1 << 63) - 1), ("fewer times", "most", 3)):
    for slices in (False, True):
        outputs = [("y", F32, (3, 4))] + ([("s", F32, (min(5, most or 5), 3, 4))] if slices else [])
        graph(f"a Loop of {title} that counts{', its slices' if slices else ''}", [onnx_node("Loop", [first, "true", "none", "x"], ["k", "y"] + (["all"] if slices else []), counting(2, 10, *outputs[1:]), name="loop")] +
              ([onnx_node("Neg", ["all"], ["s"], name="s")] if slices else []), [("x", F32, (3, 4))], outputs, packed("most", I64, (), [most]), packed("true", BOOL, (), [1]), packed("none", I64, (), [0]))
graph("a Loop whose condition is always true", [onnx_node("Loop", ["most", "true", "none", "x"], ["k", "y"], counting(0, 1), name="loop")], [("x", F32, (3, 4))], [("y", F32, (3, 4))], packed("most", I64, (), [4]), packed("true", BOOL, (), [1]), packed("none", I64, (), [0]))

# ---- rows of several batches, which the library has no InstanceNorm of three axes for
for dims in ((2, 3, 5), (3, 4, 1), (1, 3, 5)):
    one(f"InstanceNormalization of {dims}", "InstanceNormalization", dims, dims, packed("c0", F32, (dims[1],), [0.5 + 0.25 * i for i in range(dims[1])]), packed("c1", F32, (dims[1],), [0.25 * i - 0.5 for i in range(dims[1])]))

# ---- divisors past what has a reciprocal in f16
values = [x * s for s in (1, -1) for x in (0.001, 1, 3, 100, 4096, 12000, 16383, 16384, 16400, 17000, 20000, 30000, 32768, 40000, 50000, 60000, 65000, 65504)]
for title, by in (("of the run", "b"), ("constant", "c")):
    graph(f"Div by large numbers, {title}", [onnx_node("Mul", ["x", "nothing"], ["n"], name="n"), onnx_node("Add", ["n", "c"], ["b"], name="b"), onnx_node("Add", ["n", "top"], ["a"], name="a"), onnx_node("Div", ["a", by], ["y"])],
          [("x", F32, (3, 36))], [("y", F32, (3, 36))], packed("nothing", F32, (), [0.0]), packed("c", F32, (36,), [max(abs(v), 0.5) * (1 if v > 0 else -1) for v in values]), packed("top", F32, (), [60000.0]), tolerance=0.001, sqnr=50)
graph("Div by a large sum", [onnx_node("Mul", ["x", "c"], ["m"], name="m"), onnx_node("Abs", ["m"], ["p"], name="p"), onnx_node("ReduceSum", ["p", "last"], ["s"], name="s"), onnx_node("Div", ["p", "s"], ["y"])], [("x", F32, (3, 36))], [("y", F32, (3, 36))],
      packed("c", F32, (), [1500.0]), ints("last", 1), tolerance=0.002)
graph("Reciprocal of large numbers", [onnx_node("Mul", ["x", "nothing"], ["n"], name="n"), onnx_node("Add", ["n", "c"], ["b"], name="b"), onnx_node("Reciprocal", ["b"], ["r"], name="r"), onnx_node("Mul", ["r", "top"], ["y"])],
      [("x", F32, (3, 36))], [("y", F32, (3, 36))], packed("nothing", F32, (), [0.0]), packed("c", F32, (36,), [20000.0 + 1000 * i for i in range(36)]), packed("top", F32, (), [60000.0]), tolerance=0.001, sqnr=50)

# ---- what depends on constants alone, beside what an input gives
for title, nodes, kind in (
        ("DequantizeLinear", [onnx_node("DequantizeLinear", ["q", "s", "z"], ["c"], name="dq")], F32),
        ("EyeLike", [onnx_node("EyeLike", ["k"], ["c"], name="eye")], F32),
        ("QLinearConv", [onnx_node("QLinearConv", ["q", "s", "z", "w", "s", "z", "s", "z"], ["c"], name="conv")], U8),
        ("a chain", [onnx_node("Exp", ["k"], ["e"], name="e"), onnx_node("Softmax", ["e"], ["c"], name="c")], F32)):
    dims = (1, 1, 2, 2) if title in ("DequantizeLinear", "QLinearConv") else (4, 4)
    constants = [packed("q", U8, (1, 1, 2, 2), [100, 130, 140, 150]), packed("w", U8, (1, 1, 1, 1), [131]), packed("s", F32, (), [0.5]), packed("z", U8, (), [128]), packed("k", F32, (4, 4), [i / 7 for i in range(16)])]
    graph(f"{title} of constants alone", nodes, [], [("c", kind, dims)], *constants, tolerance=0.01)
    graph(f"{title} of constants beside an input", [*nodes, onnx_node("Abs", ["x"], ["y"])], [("x", F32, (3, 4))], [("y", F32, (3, 4)), ("c", kind, dims)], *constants, tolerance=0.01)

# ---- both operands stretched, each along another axis
for kind, cast in ((I32, True), (F32, False), (BOOL, True)):
    for op in {I32: ("Mul", "Add", "Sub", "Min", "Max", "Div", "Mod", "Equal", "Less"), F32: ("Mul", "Add", "Max", "Div"), BOOL: ("And", "Or")}[kind]:
        for first, second, out in (((2, 1, 1, 12), (2, 1, 12, 1), (2, 1, 12, 12)), ((1, 12), (12, 1), (12, 12)), ((2, 1, 12), (2, 5, 1), (2, 5, 12)), ((3, 1, 4), (2, 1), (3, 2, 4)), ((2, 1, 3, 1), (1, 4, 1, 5), (2, 4, 3, 5)), ((2, 3, 1), (4,), (2, 3, 4)), ((2, 1, 4), (2, 3, 4), (2, 3, 4))):
            logic = op in ("Equal", "Less", "And", "Or")
            start = [onnx_node("Mul", ["a", "nine"], ["p"], name="p"), onnx_node("Mul", ["b", "nine"], ["q"], name="q")]
            if op in ("Div", "Mod"):
                start += [onnx_node("Abs", ["q"], ["q1"], name="q1"), onnx_node("Add", ["q1", "one"], ["q2"], name="q2")]
            last = "q2" if op in ("Div", "Mod") else "q"
            if cast:
                start += [onnx_node("Cast", ["p"], ["u"], number("to", kind), name="u"), onnx_node("Cast", [last], ["v"], number("to", kind), name="v")]
            nodes = start + [onnx_node(op, ["u", "v"] if cast else ["p", last], ["w" if logic else "y"], name="op")] + ([onnx_node("Cast", ["w"], ["y"], number("to", I32), name="back")] if logic else [])
            graph(f"{op} of {WORDS[kind]}, {first} by {second} stretched", nodes, [("a", F32, first), ("b", F32, second)], [("y", I32 if logic else kind, out)], packed("nine", F32, (), [0.6 if kind == BOOL else 9.0]), packed("one", F32, (), [1.0]), tolerance=0.002, sqnr=40)

# ---- a row and a column of one tensor
for kind in (I32, F32, I64):
    for op in ("Mul", "Add", "Equal", "Less"):
        for dims in ((2, 12), (12,), (1, 7)):
            head = dims[:-1]
            n = dims[-1]
            start = [onnx_node("Mul", ["x", "nine"], ["p"], name="p")] + ([onnx_node("Round", ["p"], ["i"], name="i")] if kind == F32 else [onnx_node("Cast", ["p"], ["i"], number("to", kind), name="i")])
            source = "i"
            logic = op in ("Equal", "Less")
            graph(f"{op} of {WORDS[kind]}, a row and a column of one tensor {dims}", start + [onnx_node("Reshape", [source, "row"], ["u"], name="u"), onnx_node("Reshape", [source, "column"], ["v"], name="v"), onnx_node(op, ["u", "v"], ["w" if logic else "y"], name="op")] +
                  ([onnx_node("Cast", ["w"], ["y"], number("to", I32), name="back")] if logic else []), [("x", F32, dims)], [("y", I32 if logic else kind, (*head, 1, n, n))], ints("row", *head, 1, 1, n), ints("column", *head, 1, n, 1), packed("nine", F32, (), [9.0]), tolerance=0.002, sqnr=40)
for kind in (I64, I32):
    graph(f"a mask of {WORDS[kind]} by rows and columns", [onnx_node("Reshape", ["x", "row"], ["u"], name="u"), onnx_node("Reshape", ["x", "column"], ["v"], name="v"), onnx_node("Mul", ["u", "v"], ["y"], name="op")], [("x", kind, (2, 12))], [("y", kind, (2, 1, 12, 12))],
          ints("row", 2, 1, 1, 12), ints("column", 2, 1, 12, 1), tolerance=0.002, sqnr=40)
    graph(f"a mask of {WORDS[kind]}, unsqueezed, by rows and columns", [onnx_node("Unsqueeze", ["x", "one"], ["a"], name="a"), onnx_node("Unsqueeze", ["a", "two"], ["u"], name="u"), onnx_node("Squeeze", ["u", "one"], ["s"], name="s"), onnx_node("Unsqueeze", ["s", "last"], ["v"], name="v"), onnx_node("Mul", ["u", "v"], ["y"], name="op")],
          [("x", kind, (2, 12))], [("y", kind, (2, 1, 12, 12))], ints("one", 1), ints("two", 2), ints("last", -1), tolerance=0.002, sqnr=40)


# ---- Softmax of integers, whose result is counted from any number
for kind, scale, zero in ((U8, 1 / 256, 0), (U8, 0.0625, 132), (U8, 1 / 200, 10), (I8, 1 / 256, -128), (I8, 0.0625, 4), (U16, 1 / 60000, 100)):
    middle = {U8: 128, I8: 0, U16: 30000}[kind]
    graph(f"Softmax of {WORDS[kind]} by {scale:g} from {zero}", [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"), onnx_node("Softmax", ["d"], ["m"], name="m"), onnx_node("QuantizeLinear", ["m", "t", "u"], ["w"], name="w"),
                                                                     onnx_node("DequantizeLinear", ["w", "t", "u"], ["y"], name="y")], [("x", F32, (2, 5))], [("y", F32, (2, 5))], packed("s", F32, (), [0.0625]), packed("z", kind, (), [middle]), packed("t", F32, (), [scale]), packed("u", kind, (), [zero]), tolerance=0.08, sqnr=3)

# ---- products of five axes and more, of which each side has batches that the other has not
for left, right, out in (((1, 2, 2, 1, 1), (2, 2, 1, 1, 1), (2, 2, 2, 1, 1)), ((2, 1, 3, 4, 5), (1, 3, 1, 5, 2), (2, 3, 3, 4, 2)), ((2, 1, 2, 1, 4, 5), (1, 3, 1, 2, 5, 2), (2, 3, 2, 2, 4, 2))):
    product = [onnx_node("MatMul", ["x", "w"], ["y"])]
    graph(f"MatMul {left} by {right}", product, [("x", F32, left), ("w", F32, right)], [("y", F32, out)])
    graph(f"MatMul {left} by {right}, a constant", product, [("x", F32, left)], [("y", F32, out)], floats("w", right))

# ---- a matrix that is turned, of four axes: v68 cannot prepare it behind some operations
graph("LRN of a column, v68 too", [onnx_node("LRN", ["x"], ["y"], number("size", 5))], [("x", F16, (1, 8, 2, 1))], [("y", F16, (1, 8, 2, 1))])
graph("LRN of rows, v68 too", [onnx_node("LRN", ["x"], ["y"], number("size", 5))], [("x", F32, (2, 5, 1, 8))], [("y", F32, (2, 5, 1, 8))])
for kind in (F16, F32):
    for dims in ((1, 8, 2, 2), (2, 8, 4, 4)):
        graph(f"LRN of {WORDS[kind]} {dims}, v68 too", [onnx_node("LRN", ["x"], ["y"], number("size", 5))], [("x", kind, dims)], [("y", kind, dims)])
graph("QLinearConv of a row, v68 too", [onnx_node("QLinearConv", ["x", "s", "z", "w", "t", "v", "u", "z"], ["y"], number("group", 8) + numbers("strides", [1, 3]))], [("x", U8, (1, 8, 1, 8)), ("w", I8, (8, 1, 1, 1))], [("y", U8, (1, 8, 1, 3))],
      packed("s", F32, (), [0.25]), packed("z", U8, (), [11]), packed("t", F32, (), [0.125]), packed("v", I8, (), [-7]), packed("u", F32, (), [1.0]), tolerance=0.03)

# ---- what reads a product of five axes
def behind_matmul(what, op, out, *constants, attributes=b"", dims=(2, 3, 4, 2, 2)):
    graph(f"{what} behind a MatMul of five axes", [onnx_node("MatMul", ["x", "w"], ["m"], name="m"), onnx_node(op, ["m"] + [f"c{i}" for i in range(len(constants))], ["y"], attributes)],
          [("x", F32, dims)], [("y", F32, out)], floats("w", (2, 2)), *constants)


for dims in ((2, 3, 4, 2, 2), (2, 1, 4, 2, 2)):
    for axis in (1, 3, 4):
        behind_matmul(f"Softmax {axis} of {dims}", "Softmax", dims, attributes=number("axis", axis), dims=dims)
        behind_matmul(f"ReduceMax {axis} of {dims}", "ReduceMax", reduced(dims, (axis,), False), ints("c0", axis), attributes=number("keepdims", 0), dims=dims)
    behind_matmul(f"ReduceSum of two axes of {dims}", "ReduceSum", reduced(dims, (1, 3), True), ints("c0", 1, 3), dims=dims)
    behind_matmul(f"Transpose of {dims}", "Transpose", dims[::-1], attributes=numbers("perm", [4, 3, 2, 1, 0]), dims=dims)
    behind_matmul(f"LayerNormalization of {dims}", "LayerNormalization", dims, floats("c0", (2,)), floats("c1", (2,)), dims=dims)
    behind_matmul(f"Slice of {dims}", "Slice", (1, 1, 2, 1, 2) if dims[1] == 1 else (1, 2, 2, 1, 2), ints("c0", 1, -2, 1, 1), ints("c1", 9, 9, 3, 9), ints("c2", 0, 1, 2, 3), dims=dims)

# ---- reductions of images, which are stored with the channels last
for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL1"):
    for axes in ((1, 2), (1, 3), (1, 2, 3), (2, 3), (0, 1)):
        for keep in (False, True):
            graph(f"{op} {axes} of an image, axes {'kept' if keep else 'gone'}", [onnx_node("Conv", ["x", "w"], ["c"], name="c"), onnx_node(op, ["c", "a"], ["y"], number("keepdims", int(keep)))],
                  [("x", F32, (2, 3, 9, 5))], [("y", F32, reduced((2, 4, 9, 5), axes, keep))], floats("w", (4, 3, 1, 1)), ints("a", *axes))

# ---- numbers below 0 that an operation makes, in steps of 8 bits: to the step
for count in (1, 4, 8, 12):
    for op, inputs in (("Mul", ["s", "a"]), ("Sub", ["x", "a"]), ("Neg", ["a"])):
        graph(f"{op} of {count} numbers, then a Cast to i8", [onnx_node("Sign", ["x"], ["s"], name="s"), onnx_node("Abs", ["x"], ["a"], name="a"), onnx_node(op, inputs, ["m"], name="m"), onnx_node("Cast", ["m"], ["c"], number("to", I8), name="c"),
                                                             onnx_node("Cast", ["c"], ["y"], number("to", F32))], [("x", F32, (count,))], [("y", F32, (count,))], tolerance=0.01, sqnr=30)
        graph(f"{op} of {count} numbers, then integers of 8 bits", [onnx_node("Round", ["x"], ["r"], name="r"), onnx_node("Sign", ["r"], ["s"], name="s"), onnx_node("Abs", ["r"], ["a"], name="a"),
                                                                    onnx_node(op, ["r" if name == "x" else name for name in inputs], ["m"], name="m"), onnx_node("QuantizeLinear", ["m", "u", "z"], ["q"], name="q"),
                                                                    onnx_node("Cast", ["q"], ["y"], number("to", F32))], [("x", F32, (count,))], [("y", F32, (count,))], packed("u", F32, (), [1.0]), packed("z", U8, (), [128]), tolerance=0.001)

# ---- a product beside what it was made of, of five axes
for axis, dims in ((0, (2, 11, 1, 2, 2)), (1, (1, 22, 1, 2, 2)), (3, (1, 11, 1, 4, 2)), (4, (1, 11, 1, 2, 4))):
    graph(f"Concat of five axes along {axis} behind a MatMul", [onnx_node("MatMul", ["x", "w"], ["m"], name="m"), onnx_node("Concat", ["z", "m"], ["y"], number("axis", axis))], [("x", F32, (1, 11, 1, 2, 2)), ("z", F32, (1, 11, 1, 2, 2))], [("y", F32, dims)], floats("w", (2, 2)))


# ---- data-dependent shapes: to the host, where htp.tail=host asks for that
HOST = ("-O", "htp.tail=host")
LATE = {
    "NonZero": ([onnx_node("Mul", ["x", "two"], ["z"], name="mul"), onnx_node("Greater", ["z", "zero"], ["g"], name="greater"), onnx_node("NonZero", ["g"], ["n"], name="nonzero"),
                 onnx_node("Transpose", ["n"], ["t"], name="t"), onnx_node("GatherND", ["z", "t"], ["y"], name="gather")], [("x", F32, (3, "rows"))], [("z", F32, (3, "rows")), ("y", F32, ("found",))]),
    "Range": ([onnx_node("ReduceMax", ["x"], ["m"], number("keepdims", 0), name="max"), onnx_node("Ceil", ["m"], ["c"], name="ceil"), onnx_node("Cast", ["c"], ["k"], number("to", I64), name="cast"),
               onnx_node("Range", ["none", "k", "step"], ["y"], name="range"), onnx_node("Sigmoid", ["x"], ["z"], name="sigmoid")], [("x", F32, (3, "rows"))], [("z", F32, (3, "rows")), ("y", I64, ("found",))]),
    "Range of floats": ([onnx_node("Abs", ["x"], ["a"], name="abs"), onnx_node("Ceil", ["a"], ["c"], name="ceil"), onnx_node("ReduceSum", ["c"], ["m"], number("keepdims", 0), name="sum"),
                         onnx_node("Range", ["zero", "m", "one"], ["y"], name="range"), onnx_node("Sigmoid", ["x"], ["z"], name="sigmoid")], [("x", F32, (3, "rows"))], [("z", F32, (3, "rows")), ("y", F32, ("found",))]),
    "Compress": ([onnx_node("Less", ["x", "zero"], ["l"], name="less"), onnx_node("Reshape", ["l", "flat"], ["r"], name="r"), onnx_node("Compress", ["x", "r"], ["y"], name="compress")],
                 [("x", F32, (3, "rows"))], [("y", F32, ("found",))]),
}


WHOLE = [onnx_node("Mul", ["x", "many"], ["m"], name="m"), onnx_node("Cast", ["m"], ["v"], number("to", I64), name="whole"), onnx_node("Cast", ["v"], ["p"], number("to", U64), name="plain")]
# What must not be an output, as `quarry diff` makes it.
INSIDE = {
    # As PyTorch's exporter writes them.
    "a signed shift to the right": ([*WHOLE, onnx_node("BitShift", ["p", "by"], ["t"], text("direction", "RIGHT"), name="shift"), onnx_node("BitwiseOr", ["t", "mask"], ["f"], name="fill"), onnx_node("Cast", ["f"], ["c"], number("to", I64), name="c"),
                                     onnx_node("Cast", ["t"], ["d"], number("to", I64), name="d"), onnx_node("Less", ["v", "none"], ["l"], name="less"), onnx_node("Where", ["l", "c", "d"], ["y"], name="where")],
                                    [("x", F32, (3, "rows"))], [("y", I64, (3, "rows"))]),
    "a signed shift to the left": ([*WHOLE, onnx_node("BitShift", ["p", "by"], ["t"], text("direction", "LEFT"), name="shift"), onnx_node("Cast", ["t"], ["y"], number("to", I64), name="c")], [("x", F32, (3, "rows"))], [("y", I64, (3, "rows"))]),
    "f64": ([onnx_node("Cast", ["x"], ["d"], number("to", F64), name="cast"), onnx_node("Add", ["d", "quarter"], ["e"], name="add"), onnx_node("Cast", ["e"], ["y"], number("to", F32), name="back")],
            [("x", F32, (3, "rows"))], [("y", F32, (3, "rows"))]),
    "QuantizeLinear along an axis": ([onnx_node("QuantizeLinear", ["x", "s", "zs"], ["q"], number("axis", 0), name="q"), onnx_node("DequantizeLinear", ["q", "s", "zs"], ["y"], number("axis", 0), name="d")],
                                     [("x", F32, (3, "rows"))], [("y", F32, (3, "rows"))]),
}


def late_model(kind):
    nodes, inputs, outputs = {**LATE, **INSIDE}[kind]
    path = os.path.join(folder, f"late_{kind.replace(' ', '_')}.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), (packed("two", F32, (), [2.0]), packed("zero", F32, (), [0.0]), packed("one", F32, (), [1.0]), packed("none", I64, (), [0]), packed("step", I64, (), [1]), ints("flat", -1),
                                                                      initializer("quarter", F64, (), struct.pack("<d", 0.25)), packed("many", F32, (), [64.0]), packed("by", U64, (), [3]), packed("mask", U64, (), [7 << 61]), packed("s", F32, (3,), [0.02, 0.05, 0.1]), packed("zs", I8, (3,), [0, 1, -1])), 21))
    return path


def stored(path):
    """Shape and values of a .npy."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    return header["shape"], struct.unpack(f"<{count_of(header['shape'])}{dict(f4='f', i8='q')[header['descr'][1:]]}", data[10 + size:])


def same_outputs(title, x, sides, off):
    """Every output of two runs of (model, backend, options) is the same, but for `off`."""
    outputs = []
    for model, backend, options in sides:
        out = new_folder()
        check(f"{title} on {backend}", run("run", model, x, "--backend", backend, *options, "-o", out), 0)
        outputs.append({name: stored(os.path.join(out, name)) for name in sorted(os.listdir(out))})
        shutil.rmtree(out)
    close = outputs[0].keys() == outputs[1].keys() and all(a[0] == b[0] and all(abs(u - v) <= off for u, v in zip(a[1], b[1])) for a, b in zip(outputs[0].values(), outputs[1].values()))
    require(f"{title}: the same", close and len(outputs[0]) > 0, outputs)


def same_results(title, model, shapes, *options):
    """Every output of a run on htp is that of cpu-reference."""
    for rows in shapes:
        x = npy(os.path.join(folder, "late", "x.npy"), [3, rows], [random.uniform(-4, 4) for _ in range(3 * rows)])
        same_outputs(f"{title}, {rows} rows", x, ((model, "htp", options), (model.replace(".qrm", ".onnx"), "cpu-reference", ("--shape", f"rows={rows}"))), 0.11)

# ---- products of quantised columns that a Reshape made rows
def quantised_columns(title, dims, columns, bits, run):
    """x of columns becomes rows, all of it quantised; the product, quantised too, has columns again."""
    rows, inner, out = count_of(dims) // dims[-2], dims[-2], (*dims[:-2], 1, columns)
    nodes, more = [], []

    def through(source, name, scale, dtype=bits, zero=128 if bits == U8 else 30000):
        nodes.extend([onnx_node("QuantizeLinear", [source, f"{name}s", f"{name}z"], [f"{name}q"], name=f"{name}q"), onnx_node("DequantizeLinear", [f"{name}q", f"{name}s", f"{name}z"], [name], name=name)])
        more.extend([packed(f"{name}s", F32, (), [scale]), packed(f"{name}z", dtype, (), [zero])])

    step = 1 / 64 if bits == U8 else 1 / 16384
    through("x", "a", step)
    nodes.append(onnx_node("Reshape", ["a", "shape"], ["r"], name="r"))
    through("r", "b", step)
    if run:
        through("w", "m", step)
    else:
        nodes.append(onnx_node("DequantizeLinear", ["w", "ms", "mz"], ["m"], name="m"))
        more.extend([packed("w", I8, (inner, columns), [random.randrange(-100, 100) for _ in range(inner * columns)]), packed("ms", F32, (), [0.01]), packed("mz", I8, (), [0])])
    nodes.append(onnx_node("MatMul", ["b", "m"], ["p"], name="p"))
    through("p", "c", 8 * step)
    nodes.append(onnx_node("Reshape", ["c", "last"], ["l"], name="l"))
    through("l", "y", 8 * step)
    graph(title, nodes, [("x", F32, dims)] + ([("w", F32, (inner, columns))] if run else []), [("y", F32, out)], ints("shape", rows, inner), ints("last", *out), *more, tolerance=0.1, sqnr=25)


for dims, columns in (((2, 33, 1), 1), ((2, 1, 33, 1), 3), ((1, 2, 60, 1), 1), ((4, 1, 1, 70, 1), 2)):
    for bits in (U8, U16):
        for kind in ("constant", "of the run"):
            quantised_columns(f"product of {WORDS[bits]} columns {dims} as rows by {columns}, {kind}", dims, columns, bits, kind != "constant")
# ---- products of rows that are read as columns, and their result in another shape
for dims in ((2, 1, 1, 2), (3, 4), (2, 3, 4)):
    for columns in (1, 3):
        rows = count_of(dims)
        graph(f"product of rows {dims} as columns by {columns}", [onnx_node("Reshape", ["x", "a"], ["r"], name="r"), onnx_node("MatMul", ["r", "m"], ["p"], name="p"), onnx_node("Reshape", ["p", "b"], ["y"])],
              [("x", F32, dims)], [("y", F32, (*dims, columns))], ints("a", rows, 1), ints("b", *dims, columns), floats("m", (1, columns)), sqnr=40)
# ---- convolutions to one position of an axis, padded or dilated
for dims, weights, given in (((2, 1, 4, 1), (4, 1, 2, 2), ((3, 1), (0, 1, 0, 1), (1, 2))), ((1, 2, 2, 1), (1, 2, 2, 1), ((1, 1), (1, 0, 0, 0), (2, 1))), ((2, 4, 4, 1), (3, 4, 4, 1), ((1, 2), (1, 0, 0, 0), (2, 1))),
                             ((2, 3, 1, 5), (4, 3, 1, 3), ((1, 2), (0, 0, 0, 1), (1, 2))), ((2, 3, 5, 6), (4, 3, 3, 3), ((2, 1), (0, 1, 1, 1), (2, 1)))):
    out = tuple((dims[2 + i] + given[1][i] + given[1][2 + i] - (weights[2 + i] - 1) * given[0][i] - 1) // given[2][i] + 1 for i in range(2))
    for kind in ("constant", "of the run"):
        graph(f"Conv of {dims} by {weights} to {out}, weights {kind}", [onnx_node("Conv", ["x", "w"], ["y"], numbers("dilations", given[0]) + numbers("pads", given[1]) + numbers("strides", given[2]))],
              [("x", F32, dims)] + ([("w", F32, weights)] if kind != "constant" else []), [("y", F32, (dims[0], weights[0], *out))], *([floats("w", weights)] if kind == "constant" else []), sqnr=40)
# ---- windows of one column that leave columns out, and such that pass both edges
for dims, window, stride, pads in (((1, 4, 9, 9), (3, 1), (2, 2), (0, 0, 0, 0)), ((3, 2, 9, 9), (3, 1), (2, 2), (1, 0, 1, 0)), ((1, 1, 3, 3), (2, 1), (2, 2), (0, 0, 0, 0)), ((1, 1, 1, 1), (3, 1), (2, 2), (1, 0, 1, 0)),
                                   ((1, 4, 9, 9), (1, 3), (2, 2), (0, 1, 0, 1)), ((2, 3, 2, 4), (5, 2), (1, 1), (2, 0, 1, 0))):
    out = tuple((dims[2 + i] + pads[i] + pads[2 + i] - window[i]) // stride[i] + 1 for i in range(2))
    one(f"MaxPool of {dims} by {window} and {stride}", "MaxPool", dims, (*dims[:2], *out), attributes=numbers("kernel_shape", window) + numbers("strides", stride) + numbers("pads", pads))
# ---- windows with one position, averages that see one edge from beyond the other, and results that are one column of one channel
for dims, window, stride, pads in (((1, 16, 2, 2), (3, 3), (1, 1), (1, 1, 1, 1)), ((1, 1, 5, 3), (5, 3), (3, 2), (1, 0, 1, 0)), ((1, 1, 5, 5), (3, 4), (3, 4), (0, 1, 0, 1)), ((1, 2, 2, 5), (1, 5), (3, 3), (0, 1, 0, 1)), ((1, 1, 1, 2), (2, 4), (1, 3), (1, 2, 1, 2)),
                                   ((1, 1, 7, 1), (1, 3), (1, 4), (0, 1, 0, 1)), ((1, 1, 3, 2), (5, 3), (3, 4), (4, 2, 4, 2)), ((1, 32, 6, 2), (2, 5), (1, 2), (0, 3, 1, 1)), ((2, 4, 3, 1), (3, 4), (2, 3), (0, 2, 0, 2))):
    out = tuple((dims[2 + i] + pads[i] + pads[2 + i] - window[i]) // stride[i] + 1 for i in range(2))
    where = numbers("kernel_shape", window) + numbers("strides", stride) + numbers("pads", pads)
    for counts in (0, 1):
        one(f"AveragePool of {dims} to {out} by {window} and {stride}, counting {counts}", "AveragePool", dims, (*dims[:2], *out), attributes=where + number("count_include_pad", counts), tolerance=0.004)
        quantised(f"AveragePool of bytes {dims} to {out} by {window} and {stride}, counting {counts}", "AveragePool", (U8, U8), dims, (*dims[:2], *out), attributes=where + number("count_include_pad", counts), scales=(1 / 64, 0.01, 1 / 64), sqnr=15)
for dims, weights, stride, pads in (((1, 1, 1, 2), (1, 1, 2, 2), (1, 1), (1, 0, 1, 0)), ((1, 2, 1, 2), (1, 2, 2, 2), (1, 1), (1, 0, 1, 0)), ((1, 1, 1, 3), (1, 1, 5, 3), (2, 1), (4, 0, 4, 0)), ((1, 1, 1, 2), (1, 1, 3, 2), (2, 1), (2, 0, 2, 0)), ((1, 1, 5, 1), (1, 1, 5, 3), (3, 2), (1, 1, 1, 1)),
                                      ((1, 1, 1, 2), (1, 1, 3, 1), (2, 1), (2, 0, 2, 0)), ((1, 1, 1, 1), (1, 1, 2, 2), (2, 1), (1, 1, 0, 1)), ((1, 2, 1, 1), (1, 2, 4, 6), (3, 3), (2, 4, 3, 4))):
    out = tuple((dims[2 + i] + pads[i] + pads[2 + i] - weights[2 + i]) // stride[i] + 1 for i in range(2))
    where = numbers("strides", stride) + numbers("pads", pads)
    one(f"Conv of {dims} to {out}, one channel, v68 too", "Conv", dims, (1, 1, *out), floats("c0", weights), attributes=where, tolerance=0.006)
    quantised(f"Conv of bytes {dims} to {out}, one channel", "Conv", (U8, U8), dims, (1, 1, *out), weights, scales=(1 / 64, 0.005, 1 / 40), attributes=where, sqnr=15)
for dims in ((1, 4, 9, 2), (7, 4, 9, 2)):
    one(f"ArgMin of {dims}, the last axis", "ArgMin", dims, (*dims[:-1], 1), attributes=number("axis", 3), out_type=I64, tolerance=0)
# ---- small ones: a Tanh behind a sum of products, powers of 0, divisions of negative integers, the larger of bytes, columns of blocks
graph("Tanh of a sum of products", [onnx_node("MatMul", ["x", "w"], ["a"], name="a"), onnx_node("MatMul", ["h", "r"], ["b"], name="b"), onnx_node("Add", ["a", "b"], ["c"], name="c"), onnx_node("Tanh", ["c"], ["y"])],
      [("x", F32, (1, 1)), ("w", F32, (1, 1)), ("h", F32, (1, 1)), ("r", F32, (1, 1))], [("y", F32, (1, 1))], tolerance=0.002, sqnr=50)
graph("Pow of 0 by 0", [onnx_node("Relu", ["x"], ["a"], name="a"), onnx_node("Pow", ["a", "c"], ["y"])], [("x", F32, (3, 8))], [("y", F32, (3, 8))], packed("c", F32, (), [0.0]))
for by in (2, -3):
    graph(f"Div of integers by {by}", [onnx_node("Cast", ["x"], ["i"], number("to", I32), name="i"), onnx_node("Div", ["i", "c"], ["y"])], [("x", I8, (3, 8))], [("y", I32, (3, 8))], packed("c", I32, (), [by]), tolerance=0)
for op in ("Max", "Min"):
    graph(f"{op} of bytes and a constant", [onnx_node(op, ["x", "c"], ["y"])], [("x", U8, (2,))], [("y", U8, (2,))], packed("c", U8, (2,), [7, 200]), tolerance=0)
graph("MatMulNBits to one column", [onnx_node("MatMulNBits", ["x", "w", "s"], ["y"], number("K", 16) + number("N", 1) + number("bits", 4) + number("block_size", 16), "com.microsoft")], [("x", F32, (1, 3, 16))], [("y", F32, (1, 3, 1))],
      packed("w", U8, (1, 1, 8), [random.randrange(256) for _ in range(8)]), floats("s", (1, 1), 0.03, 0.06))
graph("GRU of both directions, v68 too", [onnx_node("GRU", ["x", "w", "r"], ["y"], text("direction", "bidirectional") + number("hidden_size", 2))], [("x", F32, (3, 1, 4))], [("y", F32, (3, 2, 1, 2))],
      floats("w", (2, 6, 4)), floats("r", (2, 6, 2)))
graph("CumSum of f16, v68 too", [onnx_node("Cast", ["x"], ["h"], number("to", F16), name="h"), onnx_node("CumSum", ["h", "a"], ["s"], name="s"), onnx_node("Cast", ["s"], ["y"], number("to", F32))], [("x", F32, (3, 5))], [("y", F32, (3, 5))],
      packed("a", I64, (), [1]))
graph("16 bits that are an output, read by another scale", [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "t"], ["y"], name="d")], [("x", F32, (6,))], [("q", U16, (6,)), ("y", F32, (6,))],
      packed("s", F32, (), [0.125]), packed("z", U16, (), [44]), packed("t", F32, (), [0.25]))


def path_of(index):
    return os.path.join(folder, f"{index}.onnx")


def judge(index, soc):
    title, _, tolerance, sqnr = cases[index]
    return title, soc, run("diff", path_of(index), "--random", "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=" + soc, "--tolerance", str(tolerance), "--sqnr", str(sqnr))


# Every fourth goes through the other SoC too, and on v68 what has a form of its own there.
wanted = [index for index, case in enumerate(cases) if only in case[0] and index % every == 0]
for index in wanted:
    with open(path_of(index), "wb") as file:
        file.write(cases[index][1])
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
    jobs = [pool.submit(judge, index, soc) for index in wanted for soc in (SOCS if index % 4 == 0 else SOCS[:1]) + (("SM8350",) if "Conv of three axes" in cases[index][0] or cases[index][0].endswith("v68 too") else ()) + (("SM8850",) if cases[index][0].endswith("v81 too") else ())]
    for job in jobs:
        title, soc, result = job.result()
        check(f"{title}, {soc}", result, 0, "agree")
shutil.rmtree(folder)

# What has no form that is right is refused by name.
REFUSED = {"u64 of negative numbers": ([onnx_node("Cast", ["x"], ["y"], number("to", U64))], [("x", I64, (3,))], [("y", U64, (3,))], (), "u64 of i64"),
           "sums of bytes that are scattered": ([onnx_node("ScatterElements", ["x", "i", "u"], ["y"], text("reduction", "add"))], [("x", U8, (5,)), ("i", I64, (1,)), ("u", U8, (1,))], [("y", U8, (5,))], (), "reduction add of u8"),
           "bytes of no elements": ([onnx_node("QuantizeLinear", ["x", "s", "z"], ["y"])], [("x", F32, (0, 5))], [("y", I8, (0, 5))], (packed("s", F32, (), [0.0625]), packed("z", I8, (), [11])), "found shape [0,5]")}
for title, (nodes, inputs, outputs, constants, words) in REFUSED.items() if not only or only in "refused" else ():
    folder = new_folder()
    with open(os.path.join(folder, "m.onnx"), "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), constants, 21))
    check(f"{title}, refused", run("check", os.path.join(folder, "m.onnx"), "--backend", "htp", "-O", "soc_model=SM8650"), 1, words)
    shutil.rmtree(folder)

for kind in LATE if not only or only in "tail" else ():
    folder = new_folder()
    model = late_model(kind)
    shapes = ("--shape", "rows=4", "--shape", "rows=7")
    refused = run("run", model, "--zeros", "--backend", "htp", "-O", "soc_model=SM8650", "--shape", "rows=4")
    check(f"{kind} without htp.tail=host", refused, 3, "htp.tail=host")
    same_results(f"{kind}, its dynamic region by the host", model, (4, 7), "-O", "soc_model=SM8650", *HOST, *shapes)
    compiled = model.replace(".onnx", ".qrm")
    check(f"{kind} compiled with its dynamic region", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8650", *HOST, *shapes, "-o", compiled), 0)
    same_results(f"{kind}, compiled with its dynamic region", compiled, (4, 7))
    shutil.rmtree(folder)

for kind in INSIDE if not only or only in "inside" else ():
    random.seed(11)  # the same numbers whatever was drawn before: a product beside a whole number may be cast to its neighbour
    folder = new_folder()
    same_results(f"{kind} inside", late_model(kind), (4,), "-O", "soc_model=SM8650", "--shape", "rows=4")
    shutil.rmtree(folder)

# ---- rows that are masked wholly, found by comparing with the mask's number: infinities are the largest number of f16 on the device, sums of two are past it
def masked_wholly(word, low, kind, cast, masks):
    bias = [onnx_node("Where", ["m", "zero", "low"], ["b1"], name="w1"), onnx_node("Add" if masks == "two masks" else "Identity", ["b1", "more"][:1 + (masks == "two masks")], ["b2"], name="w2")]
    nodes = [onnx_node("Greater", ["x", "half"], ["m"], name="m"), *bias, onnx_node("Cast", ["b2"], ["b"], number("to", cast), name="bias"), onnx_node("Cast", ["low"], ["least"], number("to", cast), name="least"),
             onnx_node("Cast", ["x"], ["c"], number("to", cast), name="c"), onnx_node("Add", ["c", "b"], ["s"], name="s"), onnx_node("Softmax", ["s"], ["p"], name="p"), onnx_node("ReduceMax", ["b", "last"], ["most"], name="most"),
             onnx_node("Equal", ["most", "least"], ["all"], name="all"), onnx_node("Cast", ["zero"], ["nothing"], number("to", cast), name="nothing"), onnx_node("Where", ["all", "nothing", "p"], ["t"], name="t"),
             onnx_node("Cast", ["t"], ["y"], number("to", F32), name="y")]
    constants = (packed("half", F32, (), [0.5]), packed("zero", F32, (), [0.0]), packed("low", F32, (), [low]), packed("more", F32, (8, 1), [0, low, 0, 0, 0, low, 0, 0]), ints("last", -1))
    path = os.path.join(folder, "masked.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, [("x", F32, (8, 4))], [("y", F32, (8, 4))], (), constants, 18))
    x = npy(os.path.join(folder, "x.npy"), [8, 4], [0.25 * (i % 4) - (2 if i // 4 in (3, 5) else 0) + 0.01 * i for i in range(32)])
    same_outputs(f"rows masked wholly by {word} of {kind}, {masks}", x, ((path, "htp", ("-O", "soc_model=SM8650")), (path, "cpu-reference", ())), 0.01)


def compared_with(word, low, op, first, nodes, values):
    """Whether a value that may be past f16 is (greater, ... than) a number past it."""
    path = os.path.join(folder, "compared.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file([*nodes, onnx_node(op, ["low", "v"] if first else ["v", "low"], ["b"], name="op"), onnx_node("Cast", ["b"], ["y"], number("to", F32), name="y")], [("x", F32, (len(values),))],
                             [("y", F32, (len(values),))], (), (packed("low", F32, (), [low]), packed("half", F32, (), [0.5]), packed("zero", F32, (), [0.0])), 18))
    x = npy(os.path.join(folder, "x.npy"), [len(values)], values)
    same_outputs(f"masked wholly: {op} {word}, {'first' if first else 'second'}", x, ((path, "htp", ("-O", "soc_model=SM8650")), (path, "cpu-reference", ())), 0.01)


if not only or only in "masked wholly":
    folder = new_folder()
    twice = [onnx_node("Greater", ["x", "half"], ["m"], name="m"), onnx_node("Where", ["m", "zero", "low"], ["w"], name="w"), onnx_node("Add", ["w", "w"], ["v"], name="add")]
    square = [onnx_node("Mul", ["x", "x"], ["v"], name="mul")]
    for op in ("Equal", "GreaterOrEqual", "LessOrEqual"):
        for first in (False, True):
            compared_with("minus infinity twice", -math.inf, op, first, twice, [0, 1, 0.25, 2])
            # Squares past f16 are infinite there; that they are less than infinity or equal is so all the same.
            compared_with("infinity, of squares", math.inf, op, first, square, [1, 255, 256, 300] if (op, first) in (("LessOrEqual", False), ("GreaterOrEqual", True)) else [1, 255, 3, 100])
            compared_with("minus infinity, of an input", -math.inf, op, first, [onnx_node("Identity", ["x"], ["v"], name="v")], [-math.inf, 1, -5, 60000])
    for word, low in (("minus infinity", -math.inf), ("the least f32", -3.4028234663852886e38)):
        for kind, cast in (("f32", F32), ("f16", F16)):
            for masks in ("one mask", "two masks") if low == -math.inf else ("one mask",):  # f32 has no sum of its least
                masked_wholly(word, low, kind, cast, masks)
    shutil.rmtree(folder)

# ---- Softmax of what a mask leaves, quantised: the library's MaskedSoftmax, where a row cannot be masked wholly or the caller allows zeros of such
def masked_softmax(form, kind, dims, path):
    """x is quantised, masked where it is below 0 (of a constant mask: above the diagonal), normalised, and quantised again."""
    steps, zero = (255, 128) if kind == U8 else (65535, 32768)
    def stored(name, low, high):
        return [packed(name + "_s", F32, (), [(high - low) / steps]), packed(name + "_z", kind, (), [round(-low / (high - low) * steps)])]
    def both(name, to):
        return [onnx_node("QuantizeLinear", [name, to + "_s", to + "_z"], [to + "_q"], name=to + "_q"), onnx_node("DequantizeLinear", [to + "_q", to + "_s", to + "_z"], [to], name=to)]
    rows, last = (dims[-2] if len(dims) > 1 else 1), dims[-1]
    constants = [packed("none", F32, (), [0.0]), packed("low", F32, (), [-40.0]), packed("limit", F32, (), [0.0]), packed("added", F32, (), [-30.0]), ints("axis", -1)]
    constants += stored("a", -8, 8) + stored("m", -40, 0) + stored("b", -41, 8) + stored("c", -38, 9) + stored("p", 0, 1)
    constants.append(packed("triangle", F32, (rows, last), [0.0 if column <= row + last - rows else -40.0 for row in range(rows) for column in range(last)]))
    keep = [onnx_node("Greater", ["x", "limit"], ["keep"], name="keep")]
    nodes, end = {
        "Where": ([*keep, onnx_node("Where", ["keep", "a", "low"], ["w"], name="w")], "b"),
        "Where the other way round": ([*keep, onnx_node("Not", ["keep"], ["goes"], name="goes"), onnx_node("Where", ["goes", "low", "a"], ["w"], name="w")], "b"),
        "Add of a Where": ([*keep, onnx_node("Where", ["keep", "none", "low"], ["w0"], name="w0"), *both("w0", "m"), onnx_node("Add", ["a", "m"], ["w"], name="w")], "b"),
        "Add of a triangle": ([onnx_node("Add", ["a", "triangle"], ["w"], name="w")], "b"),
        "the form itself": ([*keep, onnx_node("ReduceMin", ["a", "axis"], ["l0"], name="least"), *both("l0", "l"), onnx_node("Add", ["l", "added"], ["t0"], name="t0"), *both("t0", "c"), onnx_node("Where", ["keep", "a", "c"], ["w"], name="w")], "c2"),
    }[form]
    constants += stored("l", -8, 8) + stored("c2", -38, 9)
    nodes = [*both("x", "a"), *nodes, *both("w", end), onnx_node("Softmax", [end], ["s"], number("axis", (1 << 64) - 1), name="softmax"), *both("s", "p"), onnx_node("Identity", ["p"], ["y"], name="y")]
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, [("x", F32, dims)], [("y", F32, dims)], (), constants, 21))


if not only or only in "masked softmax":
    folder = new_folder()
    path, traces = os.path.join(folder, "m.onnx"), os.path.join(folder, "traces")
    for form in ("Where", "Where the other way round", "Add of a Where", "Add of a triangle", "the form itself"):
        for kind, word in ((U8, "u8"), (U16, "u16")):
            for at, dims in enumerate(((1, 4, 32, 256), (2, 3, 1, 17), (3, 5, 7), (1, 2, 128, 128), (4, 33), (2, 2, 3, 65), (5, 31))):
                if form == "Add of a triangle" and len(dims) > 1 and dims[-2] > dims[-1]:
                    continue
                masked_softmax(form, kind, dims, path)
                values = [random.randrange(-799, 800, 2) / 100 for _ in range(count_of(dims))]
                for row in range(0, len(values), dims[-1]):
                    values[row + random.randrange(dims[-1])] = 5.01  # one that is left
                x = npy(os.path.join(folder, "x.npy"), dims, values)
                allowed = () if form == "Add of a triangle" else ("-O", "htp.masked_softmax=1")
                for soc in SOCS if at else (*SOCS, "SM8350", "SM8550", "SM8850"):
                    same_outputs(f"masked softmax of {word} {dims} by {form}, {soc}", x, ((path, "htp", ("-O", "soc_model=" + soc, *allowed)), (path, "cpu-reference", ())), 0.06 if kind == U8 else 0.002)
                if at in (0, 3):
                    os.makedirs(traces, exist_ok=True)
                    check(f"masked softmax of {word} {dims} by {form}, traced", run("compile", path, "--backend", "htp", "-O", "soc_model=SM8650", *allowed, "-O", "htp.optrace=1", "-O", "htp.optrace_dir=" + traces,
                                                                                    f"--profile={os.path.join(folder, 'profile.csv')}", "-O", "profiling_level=optrace", "-o", os.path.join(folder, "m.qrm")), 0)
                    seen = b"".join(open(os.path.join(traces, name), "rb").read() for name in os.listdir(traces))
                    require(f"masked softmax of {word} {dims} by {form} is the library's own", b"q::MaskedSoftmax_" in seen)
                    shutil.rmtree(traces)
    # A row that is masked wholly: equal parts, as ONNX has it, or by the option zeros.
    masked_softmax("Where", U16, (4, 32), path)
    x = npy(os.path.join(folder, "x.npy"), (4, 32), [-1.0 if at // 32 == 2 else 0.25 * (at % 7 + 1) for at in range(128)])
    same_outputs("a row masked wholly", x, ((path, "htp", ("-O", "soc_model=SM8650")), (path, "cpu-reference", ())), 0.002)
    target = os.path.join(folder, "out")
    check("a row masked wholly, allowed", run("run", path, "--backend", "htp", "-O", "soc_model=SM8650", "-O", "htp.masked_softmax=1", "-i", "x=" + x, "-o", target), 0)
    with open(os.path.join(target, "y.npy"), "rb") as file:
        found = struct.unpack("<128f", file.read()[-512:])
    require("a row masked wholly is zeros then", not any(found[64:96]) and all(found[:64]), found)
    shutil.rmtree(folder)

# ---- integers past 32 bits, where a value would be another one: refused by name
def refused_or_right(title, nodes, inputs, outputs, constants, *words):
    path = os.path.join(new_folder(), "m.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), constants, 21))
    check(title, run("check", path, "--backend", "htp", "-O", "soc_model=SM8650"), 1 if words else 0, *words)
    shutil.rmtree(os.path.dirname(path))


if not only or only in "past 32 bits":
    wide = packed("c", I64, (2,), [1 << 40, 5])
    whole = onnx_node("Cast", ["x"], ["i"], number("to", I64), name="i")
    for op in ("Add", "Mul"):
        refused_or_right(f"{op} of an integer past 32 bits", [whole, onnx_node(op, ["i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide], "constant c: found a value past 32 bits")
    refused_or_right("a choice of integers past 32 bits", [whole, onnx_node("Less", ["i", "c"], ["b"], name="less"), onnx_node("Where", ["b", "i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide], "past 32 bits")
    refused_or_right("a limit past 32 bits", [whole, onnx_node("Min", ["i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide])

# ---- 64-bit integers that are only moved keep all their bits; what computes with one on the way, or takes it for an index, has 32
if not only or only in "moved with 64 bits":
    folder = new_folder()
    path, given = os.path.join(folder, "m.onnx"), os.path.join(folder, "x.npy")
    wide = lambda count: [random.getrandbits(64) - (1 << 63) for _ in range(count)]
    large = 1 << 40
    last = (1 << 64) - 1  # axis -1
    forms = {  # nodes, constants, the result's shape, other inputs; x is [2,3,4]
        "Identity": ([onnx_node("Identity", ["x"], ["y"])], [], (2, 3, 4)),
        "Reshape": ([onnx_node("Reshape", ["x", "s"], ["y"])], [ints("s", 4, -1)], (4, 6)),
        "Flatten": ([onnx_node("Flatten", ["x"], ["y"], number("axis", last))], [], (6, 4)),
        "Unsqueeze and Squeeze": ([onnx_node("Unsqueeze", ["x", "a"], ["u"], name="u"), onnx_node("Transpose", ["u"], ["t"], name="t"), onnx_node("Squeeze", ["t"], ["y"])], [ints("a", -1)], (4, 3, 2)),
        "Transpose": ([onnx_node("Transpose", ["x"], ["y"], numbers("perm", [1, 2, 0]))], [], (3, 4, 2)),
        "Concat": ([onnx_node("Concat", ["x", "c", "x"], ["y"], number("axis", last - 1))], [packed("c", I64, (2, 1, 4), [large, -large, 5, -1, 1 << 62, -(1 << 63), 0, 7])], (2, 7, 4)),
        "Split": ([onnx_node("Split", ["x", "n"], ["a", "y"], number("axis", last))], [ints("n", 1, 3)], (2, 3, 3)),
        "Slice": ([onnx_node("Slice", ["x", "s", "e", "a", "d"], ["y"])], [ints("s", -1, 0), ints("e", -9, 2), ints("a", -1, 1), ints("d", -2, 1)], (2, 2, 2)),
        "Slice of i32": ([onnx_node("Slice", ["x", "s", "e", "a"], ["y"])], [packed("s", I32, (1,), [1]), packed("e", I32, (1,), [3]), packed("a", I32, (1,), [-2])], (2, 2, 4)),
        "Gather": ([onnx_node("Gather", ["x", "i"], ["y"], number("axis", last))], [ints("i", 3, -4, 1)], (2, 3, 3)),
        "Gather of a number": ([onnx_node("Gather", ["x", "i"], ["y"], number("axis", last - 1))], [packed("i", I64, (), [1])], (2, 4)),
        "GatherND": ([onnx_node("GatherND", ["x", "i"], ["y"], number("batch_dims", 1))], [packed("i", I64, (2, 2, 2), [0, 1, 2, 3, 1, 1, 0, 0])], (2, 2)),
        "Expand": ([onnx_node("Slice", ["x", "s", "e", "a"], ["p"], name="p"), onnx_node("Expand", ["p", "n"], ["y"])], [ints("s", 1), ints("e", 2), ints("a", 1), ints("n", 3, 1, 5, 1)], (3, 2, 5, 4)),
        "Tile": ([onnx_node("Tile", ["x", "n"], ["y"])], [ints("n", 1, 2, 3)], (2, 6, 12)),
        "Where": ([onnx_node("Where", ["b", "x", "c"], ["y"])], [packed("b", BOOL, (3, 1), [1, 0, 1]), packed("c", I64, (), [-large])], (2, 3, 4)),
        "Where by a run's condition": ([onnx_node("Greater", ["f", "h"], ["b"], name="b"), onnx_node("Where", ["b", "x", "c"], ["y"])], [packed("h", F32, (), [0.0]), packed("c", I64, (4,), [large, 1, -large, 2])], (2, 3, 4), "f"),
        "Pad": ([onnx_node("Pad", ["x", "p"], ["y"])], [ints("p", 0, 1, 0, 1, 0, 2)], (3, 4, 6)),
        "Pad of its last axis, edges": ([onnx_node("Pad", ["x", "p", "", "a"], ["y"], text("mode", "edge"))], [ints("p", 1, 2), ints("a", -1)], (2, 3, 7)),
        "ScatterND": ([onnx_node("ScatterND", ["x", "i", "c"], ["y"])], [packed("i", I64, (1, 2), [1, 2]), packed("c", I64, (1, 4), [large, -large, 5, -1])], (2, 3, 4)),
        "ReverseSequence": ([onnx_node("ReverseSequence", ["x", "n"], ["y"], number("batch_axis", 1) + number("time_axis", 0))], [ints("n", 2, 1, 2)], (2, 3, 4)),
        "a table": ([onnx_node("Gather", ["t", "j"], ["y"], number("axis", 0)), onnx_node("Identity", ["x"], ["z"], name="z")], [packed("t", I64, (4,), [large, 3, -large, -(1 << 63)])], (5,), "j"),
        "several": ([onnx_node("Transpose", ["x"], ["t"], numbers("perm", [2, 0, 1]), name="t"), onnx_node("Reshape", ["t", "s"], ["r"], name="r"), onnx_node("Concat", ["r", "r"], ["k"], number("axis", 1), name="k"),
                     onnx_node("Slice", ["k", "b", "e"], ["y"])], [ints("s", 0, 6), ints("b", 1), ints("e", 3)], (2, 12)),
    }
    others = {"f": (F32, (2, 3, 4), [random.uniform(-1, 1) for _ in range(24)]), "j": (I32, (5,), [0, 3, 2, 1, 0])}
    for label, (dtype, dims, values) in others.items():
        npy(os.path.join(folder, label + ".npy"), dims, values, LETTER[dtype])
    for name, (nodes, constants, out, *read) in forms.items():
        for kind in (I64, U64) if name in ("Transpose", "Gather", "several") else (I64,):
            with open(path, "wb") as file:
                file.write(onnx_file(nodes, [("x", kind, (2, 3, 4)), *((label, *others[label][:2]) for label in read)],
                                     [("y", kind, out), *([("z", kind, (2, 3, 4))] if name == "a table" else [])], (), constants, 21))
            npy(given, (2, 3, 4), [value + (1 << 63 if kind == U64 else 0) for value in wide(24)], LETTER[kind])
            more = [word for label in read for word in ("-i", f"{label}={os.path.join(folder, label + '.npy')}")]
            results = []
            for backend in ("cpu-reference", "htp"):
                target = os.path.join(folder, backend)
                check(f"{name} of {'i64' if kind == I64 else 'u64'} moved with 64 bits, {backend}", run("run", path, "--backend", backend, *(["-O", "soc_model=SM8650"] if backend == "htp" else []), "-i", f"x={given}", *more, "-o", target), 0)
                results.append([open(os.path.join(target, one), "rb").read() for one in sorted(os.listdir(target))] if os.path.isdir(target) else None)
                shutil.rmtree(target, ignore_errors=True)
            require(f"{name} of {'i64' if kind == I64 else 'u64'} moved with 64 bits, as by cpu-reference", results[0] == results[1], results)
    # One that a node takes for an index too has 32 bits, wherever it goes; so has one whose model is written for ONNX Runtime.
    with open(path, "wb") as file:
        file.write(onnx_file([onnx_node("Gather", ["t", "x"], ["y"], name="gather"), onnx_node("Transpose", ["x"], ["z"])], [("x", I64, (2, 2))], [("y", F32, (2, 2)), ("z", I64, (2, 2))], (), [floats("t", (4,))], 21))
    npy(given, (2, 2), [0, 3, 1 << 33, 1], "q")
    check("an index that is moved too", run("run", path, "--backend", "htp", "-O", "soc_model=SM8650", "-i", f"x={given}"), 3, "QR-R0007", "found 8589934592 at element 2")
    npy(given, (2, 2), [0, 3, 2, 1], "q")
    check("an index that is moved too, in 32 bits", run("run", path, "--backend", "htp", "-O", "soc_model=SM8650", "-i", f"x={given}"), 0)
    with open(path, "wb") as file:
        file.write(onnx_file([onnx_node("Transpose", ["x"], ["y"])], [("x", I64, (2, 2))], [("y", I64, (2, 2))], (), (), 21))
    written = os.path.join(folder, "w_ctx.onnx")
    check("pairs have no form in ONNX", run("compile", path, "--backend", "htp", "-O", "soc_model=SM8650", "-o", written), 3, "64-bit integers that the device moves as pairs", "htp.narrow_moved_integers=1")
    check("32 bits have one", run("compile", path, "--backend", "htp", "-O", "soc_model=SM8650", "-O", "htp.narrow_moved_integers=1", "-o", written), 0)
    check("32 bits have one, run", run("run", written, "--backend", "htp", "-O", "soc_model=SM8650", "-O", "htp.foreign_context=trust", "-i", f"x={given}"), 0)
    container = os.path.join(folder, "w.qrm")
    check("pairs in a container", run("compile", path, "--backend", "htp", "-O", "soc_model=SM8650", "-o", container), 0)
    check("pairs in a container, run", run("run", container, "--backend", "htp", "-O", "soc_model=SM8650", "-i", f"x={given}"), 0)
    shutil.rmtree(folder)

# ---- results past 32 bits: said by check, and an error of the run where an output shows it
if not only or only in "past 32 bits":
    folder = new_folder()
    path, given = os.path.join(folder, "m.onnx"), os.path.join(folder, "x.npy")
    for op, values, words in (("Mul", [3, 1 << 20], "found 2147483647 at element 1, the end of the 32 bits"), ("Add", [-(1 << 30) - 5, 5], "found -2147483648 at element 0"), ("Add", [(1 << 30) - 100, -(1 << 30) + 1], None), ("Add", [-(1 << 31), 7], "found -2147483648 at element 0"), ("Max", [(1 << 31) - 1, -(1 << 31)], None)):
        with open(path, "wb") as file:
            file.write(onnx_file([onnx_node(op, ["x", "x"], ["y"])], [("x", I64, (2,))], [("y", I64, (2,))], (), (), 21))
        npy(given, (2,), values, "q")
        ran = run("run", path, "--backend", "htp", "-O", "soc_model=SM8650", "-i", f"x={given}")
        check(f"{op} of {values} in 32 bits", ran, 3 if words else 0, *([words] if words else []))
        if op != "Max":
            check(f"check of {op} in 32 bits", run("check", path, "--backend", "htp", "-O", "soc_model=SM8650"), 0, f"note on n ({op}): of its 64-bit integers the device has 32 bits")
    # The limit itself is a number like others in an output that no computation of integers leads to.
    with open(path, "wb") as file:
        file.write(onnx_file([onnx_node("Mul", ["x", "x"], ["y"], name="mul"), onnx_node("Max", ["b", "b"], ["z"], name="max"), onnx_node("Slice", ["y", "first", "last"], ["w"], name="part")],
                             [("x", I64, (2,)), ("b", I64, (2,))], [("y", I64, (2,)), ("z", I64, (2,)), ("w", I64, (1,))], (), [ints("first", 1), ints("last", 2)], 21))
    at_limit = os.path.join(folder, "b.npy")
    npy(at_limit, (2,), [(1 << 31) - 1, -(1 << 31)], "q")
    for values, words in (([3, -7], None), ([1 << 20, 3], "output y: found 2147483647 at element 0")):
        npy(given, (2,), values, "q")
        ran = run("run", path, "--backend", "htp", "-O", "soc_model=SM8650", "-i", f"x={given}", "-i", f"b={at_limit}")
        check(f"two outputs, one at the end of 32 bits, {values}", ran, 3 if words else 0, *([words] if words else []))
    shutil.rmtree(folder)

# ---- types that an operator's row has not: by name, never in the library's words
if not only or only in "types of rows":
    for op, kind, operands in (("Sign", I32, 1), ("Relu", I32, 1), ("Greater", U32, 2), ("MatMul", I64, 2), ("PRelu", I32, 2), ("ArgMin", I64, 1)):
        inputs = ["x", "z"][:operands]
        refused_or_right(f"{op} of a type of no row", [onnx_node(op, inputs, ["y"])], [(name, kind, (3, 3)) for name in inputs], [("y", BOOL if op == "Greater" else I64 if op == "ArgMin" else kind, (1, 3) if op == "ArgMin" else (3, 3))], [], "without a quantisation, expected floats")

if not only or only in "words of the library":
    refused_or_right("types in words of the library", [onnx_node("Slice", ["x", "a", "b"], ["y"])], [("x", U32, (8,))], [("y", U32, (4,))], [ints("a", 1), ints("b", 5)], "found types that it has not the operation for", "what to do: cast before the node")

if not only or only in "i32 that a run dequantises":
    refused_or_right("i32 that a run dequantises", [onnx_node("DequantizeLinear", ["x", "s"], ["y"])], [("x", I32, (3, 4))], [("y", F32, (3, 4))], [packed("s", F32, (), [0.25])], "i32 that only a run knows (x), expected i8, i16, u8 or u16, or a constant", "what to do: cast it to f32")

# ---- refused before the types of the graph's outputs are known
if not only or only in "outputs behind data-dependent shapes":
    selected = onnx_node("Compress", ["x", "b"], ["s"], name="s")
    for kind, dtype in (("f64", F64), ("f32", F32)):
        refused_or_right(f"outputs of {kind} behind data-dependent shapes", [selected, onnx_node("Sqrt", ["s"], ["y"])], [("x", dtype, (6,)), ("b", BOOL, (6,))], [("y", dtype, ("n",))], [], "operator Compress has no form")
    refused_or_right("outputs dequantised behind data-dependent shapes", [onnx_node("QuantizeLinear", ["x", "c", "z"], ["q"], name="q"), onnx_node("Compress", ["q", "b"], ["s"], name="s"), onnx_node("DequantizeLinear", ["s", "c", "z"], ["y"])],
                     [("x", F32, (6,)), ("b", BOOL, (6,))], [("y", F32, ("n",))], [packed("c", F32, (), [0.02]), packed("z", U8, (), [3])], "operator Compress has no form")

# ---- the cases of others
given = os.path.join(shared, "cases")
if os.path.isdir(given) and not only:
    names = [name for name in sorted(os.listdir(given)) if name.startswith("F") and os.path.isdir(os.path.join(given, name, "test_data_set_0")) and name != "F16_if_ranks"]  # check_cases.py has it
    folder = new_folder()
    for name in names:
        os.symlink(os.path.join(given, name), os.path.join(folder, name))
    for soc in SOCS:
        out = os.path.join(folder, soc + ".json")
        run("conform", "--backend", "htp", "-O", "soc_model=" + soc, "--rtol", "0.01", "--range-floor", "0.01", "--precision", "f16", "--json", out, folder)
        with open(out) as file:
            for case in json.load(file)["cases"]:
                require(f"{case['name']}, {soc}", case["result"] == "passed", case.get("reason"))
    shutil.rmtree(folder)
finish()
