#!/usr/bin/env python3
"""Kinds of models that Qualcomm's library takes wrongly, refuses or crashes on as they stand, on its emulator: small cases of each, held against cpu-reference.

check_htp_kinds.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES [--only TEXT]

And the folders F* of SHARED_DIR/cases, which stand for these kinds.
"""
import ast
import concurrent.futures
import json
import os
import random
import shutil
import struct
import sys

from onnx_file import BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16, initializer, number, numbers, onnx_file, onnx_node, text
from program import build, check, environment, finish, new_folder, npy, require, run, shared

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu-reference"))
only = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
folder = new_folder()
random.seed(11)
SOCS = ("SM8650", "SM8750")
LETTER = {F32: "f", F64: "d", I64: "q", I32: "i", U8: "B", I8: "b", U16: "H", I16: "h", BOOL: "B"}
cases = []


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
one("Conv of one axis", "Conv", (1, 4, 12), (1, 4, 15), floats("c0", (4, 4, 2)), attributes=numbers("pads", [2, 2]))
one("Conv of three axes", "Conv", (1, 2, 5, 6, 7), (1, 4, 7, 6, 7), floats("c0", (4, 2, 1, 3, 3)), attributes=numbers("pads", [1, 1, 1, 1, 1, 1]))

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


WORDS = {F32: "f32", F16: "f16", I64: "i64", I32: "i32", U8: "u8", I8: "i8", U16: "u16", I16: "i16", BOOL: "bool"}
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


# ---- data-dependent shapes: to the host, where htp.tail=host asks for that
HOST = ("-O", "htp.tail=host")
LATE = {
    "NonZero": ([onnx_node("Mul", ["x", "two"], ["z"], name="mul"), onnx_node("Greater", ["z", "zero"], ["g"], name="greater"), onnx_node("NonZero", ["g"], ["n"], name="nonzero"),
                 onnx_node("Transpose", ["n"], ["t"], name="t"), onnx_node("GatherND", ["z", "t"], ["y"], name="gather")], [("x", F32, (3, "rows"))], [("z", F32, (3, "rows")), ("y", F32, ("found",))]),
    "Range": ([onnx_node("ReduceMax", ["x"], ["m"], number("keepdims", 0), name="max"), onnx_node("Ceil", ["m"], ["c"], name="ceil"), onnx_node("Cast", ["c"], ["k"], number("to", I64), name="cast"),
               onnx_node("Range", ["none", "k", "step"], ["y"], name="range"), onnx_node("Sigmoid", ["x"], ["z"], name="sigmoid")], [("x", F32, (3, "rows"))], [("z", F32, (3, "rows")), ("y", I64, ("found",))]),
    "Compress": ([onnx_node("Less", ["x", "zero"], ["l"], name="less"), onnx_node("Reshape", ["l", "flat"], ["r"], name="r"), onnx_node("Compress", ["x", "r"], ["y"], name="compress")],
                 [("x", F32, (3, "rows"))], [("y", F32, ("found",))]),
}


# What must not be an output, as `quarry diff` makes it.
INSIDE = {
    "f64": ([onnx_node("Cast", ["x"], ["d"], number("to", F64), name="cast"), onnx_node("Add", ["d", "quarter"], ["e"], name="add"), onnx_node("Cast", ["e"], ["y"], number("to", F32), name="back")],
            [("x", F32, (3, "rows"))], [("y", F32, (3, "rows"))]),
    "QuantizeLinear along an axis": ([onnx_node("QuantizeLinear", ["x", "s", "zs"], ["q"], number("axis", 0), name="q"), onnx_node("DequantizeLinear", ["q", "s", "zs"], ["y"], number("axis", 0), name="d")],
                                     [("x", F32, (3, "rows"))], [("y", F32, (3, "rows"))]),
}


def late_model(kind):
    nodes, inputs, outputs = {**LATE, **INSIDE}[kind]
    path = os.path.join(folder, f"late_{kind.replace(' ', '_')}.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), (packed("two", F32, (), [2.0]), packed("zero", F32, (), [0.0]), packed("none", I64, (), [0]), packed("step", I64, (), [1]), ints("flat", -1),
                                                                      initializer("quarter", F64, (), struct.pack("<d", 0.25)), packed("s", F32, (3,), [0.02, 0.05, 0.1]), packed("zs", I8, (3,), [0, 1, -1])), 21))
    return path


def stored(path):
    """Shape and values of a .npy."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    return header["shape"], struct.unpack(f"<{count_of(header['shape'])}{dict(f4='f', i8='q')[header['descr'][1:]]}", data[10 + size:])


def same_results(title, model, shapes, *options):
    """Every output of a run on htp is that of cpu-reference."""
    for rows in shapes:
        x = npy(os.path.join(folder, "late", "x.npy"), [3, rows], [random.uniform(-4, 4) for _ in range(3 * rows)])
        sides = []
        for backend, given in (("htp", options), ("cpu-reference", ("--shape", f"rows={rows}"))):
            out = new_folder()
            path = model if backend == "htp" else model.replace(".qrm", ".onnx")
            check(f"{title}, {rows} rows on {backend}", run("run", path, x, "--backend", backend, *given, "-o", out), 0)
            sides.append({name: stored(os.path.join(out, name)) for name in sorted(os.listdir(out))})
            shutil.rmtree(out)
        close = sides[0].keys() == sides[1].keys() and all(a[0] == b[0] and all(abs(u - v) <= 0.11 for u, v in zip(a[1], b[1])) for a, b in zip(sides[0].values(), sides[1].values()))
        require(f"{title}, {rows} rows: the same", close and len(sides[0]) > 0, sides)


def path_of(index):
    return os.path.join(folder, f"{index}.onnx")


def judge(index, soc):
    title, _, tolerance, sqnr = cases[index]
    return title, soc, run("diff", path_of(index), "--random", "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=" + soc, "--tolerance", str(tolerance), "--sqnr", str(sqnr))


# Every fourth goes through the other SoC too.
wanted = [index for index, case in enumerate(cases) if only in case[0]]
for index in wanted:
    with open(path_of(index), "wb") as file:
        file.write(cases[index][1])
with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
    jobs = [pool.submit(judge, index, soc) for index in wanted for soc in (SOCS if index % 4 == 0 else SOCS[:1])]
    for job in jobs:
        title, soc, result = job.result()
        check(f"{title}, {soc}", result, 0, "agree")
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
    folder = new_folder()
    same_results(f"{kind} inside", late_model(kind), (4,), "-O", "soc_model=SM8650", "--shape", "rows=4")
    shutil.rmtree(folder)

# ---- integers past 32 bits, where a value would be another one, and graphs without inputs: refused by name
def refused_or_right(title, nodes, inputs, outputs, constants, *words):
    path = os.path.join(new_folder(), "m.onnx")
    with open(path, "wb") as file:
        file.write(onnx_file(nodes, inputs, outputs, (), constants, 21))
    check(title, run("check", path, "--backend", "htp", "-O", "soc_model=SM8650"), 1 if words else 0, *words)
    shutil.rmtree(os.path.dirname(path))


if not only or only in "operands that are all constants":
    refused_or_right("DequantizeLinear of constants", [onnx_node("DequantizeLinear", ["q", "s", "z"], ["y"])], [], [("y", F32, (4,))],
                     [packed("q", U8, (4,), [1, 2, 130, 255]), packed("s", F32, (), [0.5]), packed("z", U8, (), [128])], "operands that are all constants")
    refused_or_right("QLinearConv of constants", [onnx_node("QLinearConv", ["q", "s", "z", "w", "s", "z", "s", "z"], ["y"])], [], [("y", U8, (1, 1, 2, 2))],
                     [packed("q", U8, (1, 1, 2, 2), [100, 130, 140, 150]), packed("w", U8, (1, 1, 1, 1), [131]), packed("s", F32, (), [0.5]), packed("z", U8, (), [128])], "operands that are all constants")
if not only or only in "past 32 bits":
    wide = packed("c", I64, (2,), [1 << 40, 5])
    whole = onnx_node("Cast", ["x"], ["i"], number("to", I64), name="i")
    for op in ("Add", "Mul"):
        refused_or_right(f"{op} of an integer past 32 bits", [whole, onnx_node(op, ["i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide], "constant c: found a value past 32 bits")
    refused_or_right("a choice of integers past 32 bits", [whole, onnx_node("Less", ["i", "c"], ["b"], name="less"), onnx_node("Where", ["b", "i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide], "past 32 bits")
    refused_or_right("a limit past 32 bits", [whole, onnx_node("Min", ["i", "c"], ["y"])], [("x", F32, (2,))], [("y", I64, (2,))], [wide])

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
