# SPDX-License-Identifier: Apache-2.0
"""Drawers of operators of single numbers, of rows and of axes: functions, binary operators, comparisons, reductions, products, quantisation."""
import os
import sys

import numpy as np
from onnx import helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import case_tables
from random_operators import GROUPS, TYPES, Arg, draws, left_out

FUNCTIONS, BINARY, REDUCTIONS, OPERATORS = case_tables.functions(), case_tables.binary(), case_tables.reductions(), case_tables.operators()
CHOICES = {"alpha": (0.1, 0.5, 1.5), "beta": (0.0, 0.25, 1.0), "gamma": (0.5, 2.0), "bias": (0.0, 0.25, 1.0), "lambd": (0.5, 1.0, 0.0)}
OF_THE_OPERATOR = {("ThresholdedRelu", "alpha"): (0.0, 0.5, -1.0)}
WHOLE = ("Abs", "Neg", "Relu", "Identity")


def drawn_attributes(d, op):
    """Each attribute of a function that is a real, in half of the cases."""
    return {name: d.pick(*OF_THE_OPERATOR.get((op, name), CHOICES.get(name, (0.0, 0.5, -1.0)))) for name in FUNCTIONS[op].attributes if d.chance(50)}


@draws(*(name for name, one in FUNCTIONS.items() if not one.jumps))
def function(d):
    op = d.row.name
    d.take("V" if op == "Identity" else "T")
    low, high = FUNCTIONS[op].low, FUNCTIONS[op].high
    attributes = drawn_attributes(d, op)
    if op == "Gelu" and d.chance(50):
        attributes["approximate"] = "tanh"
    return [d.values(d.shape(high=8), low=low, high=high)], attributes, 1, op in WHOLE


@draws(*(name for name, one in FUNCTIONS.items() if one.jumps), "IsNaN", "IsInf", "Not", "BitwiseNot")
def jump(d):
    op = d.row.name
    d.take("T1" if op in ("IsNaN", "IsInf") else "T")
    x = d.values(d.shape(high=8), "eighths")
    attributes = drawn_attributes(d, op) if op in FUNCTIONS else {}
    if op in ("IsNaN", "IsInf") and x.size:
        x.flat[d.r.randrange(x.size)] = d.pick(np.nan, np.inf, -np.inf)
    if op == "IsInf":
        attributes = {"detect_negative": d.flag(), "detect_positive": d.flag()}
    return [x], attributes, 1, True


@draws(*BINARY)
def binary(d):
    op = d.row.name
    t = d.take("T", "u8", "u16", "u32", "u64") if op == "BitShift" else d.take()
    whole = t in GROUPS["int"] or t == "bool"
    shape = d.shape(high=8)
    jumps = BINARY[op].jumps
    kind = "any" if op.startswith("Bitwise") else "eighths" if jumps and op != "BitShift" else None
    attributes = {}
    if op in ("Min", "Max", "Mean", "Sum") and d.chance(60):
        return [d.values(shape if i == 0 or d.chance(50) else d.part(shape), "eighths") for i in range(d.pick(1, 2, 3, 4))], {}, 1, op in ("Min", "Max")
    x, y = d.values(shape, kind), d.values(d.part(shape) if d.chance(70) else shape, kind)
    if d.chance(25) and op != "PRelu":
        x, y = y, x
    if op == "Div" or op == "Mod":
        y = np.where(y == 0, np.asarray(1, y.dtype), y) if whole else (np.abs(y.astype(np.float64)) + 0.25).astype(y.dtype) * d.pick(1, -1)
        y = np.asarray(y).astype(x.dtype)
    if op == "Mod":
        attributes = {"fmod": 1 if not whole else d.flag()}
        if not whole:
            y = (np.round(np.abs(y.astype(np.float64)) * 2 + 1) / 2).astype(x.dtype)
    if op == "Pow":
        if whole:
            x, y = np.abs(x.astype(np.int64)).clip(0, 5).astype(x.dtype), np.abs(y.astype(np.int64)).clip(0, 4)
        else:
            x = (np.abs(x.astype(np.float64)) + 0.125).astype(x.dtype)
        t1 = d.pick(t, "f32", "i32", "i64")
        t1 = "i64" if whole and t1 == "f32" else t1
        y = np.asarray(d.pick(0, 1, 2, 3)) if d.chance(40) else y.astype(np.float64).clip(-2, 3) if t1 in GROUPS["float"] else np.abs(y.astype(np.float64)).round()
        y = np.asarray(y).astype(TYPES[t1])
    if op == "BitShift":
        attributes = {"direction": d.pick("LEFT", "RIGHT")}
        y = np.asarray(np.abs(y.astype(np.int64)) % 8).astype(x.dtype)
    if op == "PRelu" and whole and d.chance(50):
        y = np.asarray(y)
    return [x, Arg(y, 50)], attributes, 1, whole or jumps


@draws("Clip")
def clip(d):
    d.take()
    low, high = sorted([d.values([], "eighths"), d.values([], "eighths")], key=float)
    return [d.values(d.shape(high=8), "eighths"), d.pick(None, Arg(low, 80)), d.pick(None, Arg(high, 80))], {}, 1, True


@draws("Where")
def where(d):
    d.take()
    shape = d.shape(high=8)
    return [Arg(d.values(d.part(shape), "bool"), 20), d.values(d.part(shape), "any"), d.values(shape, "any")], {}, 1, True


@draws("Cast", "CastLike")
def cast(d):
    source = d.take("T1")
    target = d.r.choice(list(TYPES))
    source = d.type = d.pick("i4", "u4") if d.chance(5) else source
    x = d.values(d.shape(high=8), "eighths")
    if source in GROUPS["float"] and target.startswith("u"):
        x = np.abs(x)
    if d.row.name == "CastLike":
        return [x, d.values(d.pick([], [1], [2]), target)], {}, 1, True
    return [x], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[target]))}, 1, True


@draws("BitCast")
def bit_cast(d):
    d.take("T1", "f32", "i32", "u32", "f64", "i64", "u64", "i8", "u8", "i16", "u16", "f16")
    size = np.dtype(TYPES[d.type]).itemsize
    targets = [t for t in TYPES if np.dtype(TYPES[t]).itemsize == size and t not in ("bool", "bf16") and t not in GROUPS["float"]]
    return [d.values(d.shape(high=8), "eighths")], {"to": helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[d.r.choice(targets)]))}, 1, True


@draws(*(name for name, rows in OPERATORS.items() if rows[0].domain))  # (those of ONNX have drawers of their own)
def operator(d):
    """By a row of its cases: the letters of its dimensions are drawn."""
    case = d.r.choice(OPERATORS[d.row.name])
    d.take(case.operands[0].type, "f32", "f16", "f64")
    extents = {letter: d.pick(1, 2, 3, 5, 8, 17, 33, 70) for letter in case.letters()}

    def made(operand):
        if operand.values:
            return Arg(np.array(operand.values, TYPES[operand.type]).reshape(operand.shape({})), 100)
        return d.values(operand.shape(extents), operand.type if operand.type in TYPES else None, operand.low, operand.high)
    return [made(operand) for operand in case.operands], case.attributes, 1, False


@draws(*REDUCTIONS)
def reduce(d):
    op = d.row.name
    d.take()
    shape = d.shape(high=8, empty=not op.startswith(("ReduceM", "ReduceLog", "ReduceProd")))
    low, high, exact = REDUCTIONS[op].low, REDUCTIONS[op].high, REDUCTIONS[op].jumps
    axes = d.r.sample(range(len(shape)), d.r.randrange(len(shape) + 1))
    axes = [a - len(shape) if d.chance(40) else a for a in axes]
    attributes = {"keepdims": d.flag() if d.chance(70) else None, "noop_with_empty_axes": d.pick(None, None, 0, 1)}
    x = d.values(shape, "eighths" if exact else None, low=low, high=high)
    if op == "ReduceProd" and d.type in GROUPS["int"]:
        x = np.sign(x.astype(np.int64)).clip(0 if d.type[0] == "u" else -1, 1).astype(x.dtype)
    return [x, Arg(np.array(axes, np.int64), 90) if d.chance(85) else None], attributes, 1, exact or d.type in GROUPS["int"]


@draws("ArgMax", "ArgMin")
def arg_reduce(d):
    d.take()
    shape = d.shape(low=1, high=8, empty=False)
    return [d.values(shape, "eighths")], {"axis": d.axis(len(shape)) if d.chance(80) else None, "keepdims": d.pick(None, 0, 1), "select_last_index": d.pick(None, 0, 1)}, 1, True


@draws("Softmax", "LogSoftmax", "Hardmax", "LpNormalization")
def rows(d):
    d.take()
    shape = d.shape(low=1, high=8, empty=False)
    hard = d.row.name == "Hardmax"
    return [d.values(shape, "eighths" if hard else None)], {"axis": d.axis(len(shape)) if d.chance(80) else None, "p": d.pick(None, 1, 2) if d.row.name[:2] == "Lp" else None}, 1, hard


@draws("CumSum", "CumProd")
def cumulative(d):
    d.take()
    shape = d.shape(low=1, high=8)
    x = d.values(shape, low=0.5, high=1.25)
    if d.row.name == "CumProd" and d.type in GROUPS["int"]:
        x = np.sign(x.astype(np.int64)).clip(0 if d.type[0] == "u" else -1, 1).astype(x.dtype)
    axis = np.array(d.axis(len(shape)), TYPES[d.pick("i32", "i64")])
    return [x, Arg(axis.reshape(d.pick([], [], [1])), 85)], {"exclusive": d.pick(None, 0, 1), "reverse": d.pick(None, 0, 1)}, 1, d.type in GROUPS["int"]


@draws("TopK")
def top_k(d):
    d.take()
    shape = d.shape(low=1, high=6, empty=False)
    axis = d.axis(len(shape))
    k = d.pick(1, shape[axis], d.r.randrange(1, shape[axis] + 1))
    return [d.values(shape, "eighths"), d.ints(k)], {"axis": axis, "largest": d.pick(None, 0, 1), "sorted": d.pick(None, 1)}, 2, True


@draws("MatMul", "FusedMatMul")
def matmul(d):
    d.take()
    m, k, n = (d.pick(1, 2, 3, 5, 8, 16, 17, 33, 70) for _ in range(3))
    batch = d.shape(high=4, most=24, empty=False)
    attributes = {}
    a, b = d.part(batch) + [m, k], d.part(batch) + [k, n]
    if d.row.name == "FusedMatMul":
        attributes = {"alpha": d.pick(0.5, 2.0, 1.0), "transA": d.flag(), "transB": d.flag()}
        a, b = (v[:-2] + v[:-3:-1] if turned else v for v, turned in ((a, attributes["transA"]), (b, attributes["transB"])))
    elif d.chance(12):
        a = [k]
    elif d.chance(12):
        b = [k]
    elif d.chance(3):
        a, b = [k], [k]
    return [d.values(a), Arg(d.values(b), 60)], attributes, 1, d.type in GROUPS["int"]


@draws("Gemm")
def gemm(d):
    d.take()
    m, k, n = (d.pick(1, 2, 3, 5, 8, 16, 17, 33) for _ in range(3))
    attributes = {"alpha": d.pick(None, 0.5, 2.0), "beta": d.pick(None, 0.5, 2.0, 0.0), "transA": d.pick(None, 0, 1), "transB": d.pick(None, 0, 1)}
    if d.type in GROUPS["int"]:
        attributes["alpha"] = attributes["beta"] = None
    a, b = [k, m] if attributes["transA"] else [m, k], [n, k] if attributes["transB"] else [k, n]
    c = d.pick(None, [n], [m, n], [1, n], [m, 1], [1], [])
    return [d.values(a), Arg(d.values(b), 60), None if c is None else Arg(d.values(c), 60)], attributes, 1, d.type in GROUPS["int"]


@draws("Einsum")
def einsum(d):
    d.take("T", "f32", "f16", "f64", "i32", "i64")
    letters = {c: d.pick(1, 2, 3, 5, 8) for c in "abcdijk"}
    equation = d.pick("ij,jk->ik", "ij,kj->ik", "abij,abjk->abik", "aibd,ajbd->abij", "abij,ajbd->aibd", "ij->ji", "ij->i", "ij->", "i,j->ij", "i,i->", "...ij,...jk->...ik", "...i->...", "abc,cd->abd",
                      "ij,j", "ii->i", "ii", "abi,bi->ab", "ij,jk,kd->id", "aab->b", "ab,ab,ab->a", "bij,bjk->bik", "a...->...a")
    if d.chance(20):
        equation = equation.replace(",", ", ").replace("->", " -> ")
    extra = d.extents(d.pick(0, 1, 2), most=8, empty=False)
    shapes = []
    for term in equation.replace(" ", "").split("->")[0].split(","):
        shapes.append([v for c in term.replace("...", ".") for v in (extra if c == "." else [letters[c]])])
    return [d.values(s) for s in shapes], {"equation": equation}, 1, d.type in GROUPS["int"]


@draws("MatMulInteger")
def matmul_integer(d):
    t1, t2 = d.take("T1"), d.take("T2")
    m, k, n = (d.pick(1, 2, 3, 5, 8, 16, 17, 33) for _ in range(3))
    batch = d.shape(high=2, most=12, empty=False)
    a, b = d.values(batch + [m, k], t1), d.values((batch if d.chance(40) else []) + [k, n], t2)
    return [a, Arg(b, 70), d.pick(None, Arg(d.values([], t1), 85)), d.pick(None, Arg(d.values(d.pick([], [n]) if b.ndim == 2 else [], t2), 85))], {}, 1, True


def qlinear_parts(d, t, channels=None):
    scale = np.asarray(d.pick(0.125, 0.25, 0.5), np.float32)
    zero = d.values([], t)
    if channels:
        scale = (2.0 ** d.n.integers(-4, 0, size=channels)).astype(np.float32)
        zero = np.zeros(channels, TYPES[t])
    return Arg(scale, 95), Arg(zero, 95)


@draws("QLinearMatMul")
def qlinear_matmul(d):
    t1, t2, t3 = (d.pick("i8", "u8") for _ in range(3))
    t2, t3 = ("i8" if t1 == "i8" else t2), t1
    m, k, n = (d.pick(1, 2, 3, 5, 8, 16, 17) for _ in range(3))
    batch = d.shape(high=2, most=12, empty=False)
    a, b = d.values(batch + [m, k], t1), d.values((batch if d.chance(40) else []) + [k, n], t2)
    return [a, *qlinear_parts(d, t1), Arg(b, 80), *qlinear_parts(d, t2, n if b.ndim == 2 and d.chance(40) else None), *qlinear_parts(d, t3)], {}, 1, True


@draws("QuantizeLinear")
def quantize(d):
    source = d.pick("f32", "f32", "f16", "i32")
    target = d.pick("u8", "i8", "u8", "i8", "u16", "i16")
    shape = d.shape(high=6)
    if source == "f32" and d.chance(10):
        target = d.pick("i4", "u4")
    if source == "i32":
        target, x = d.pick("u8", "i8"), d.values(shape, "i32")
    else:
        x = d.values(shape, source)
        x = (np.round(x.astype(np.float64) * 64) / 64).astype(x.dtype)  # ties of quantisation steps, to either side
    per_axis = len(shape) and d.chance(40)
    axis = d.axis(len(shape)) if per_axis else None
    extent = [shape[axis]] if per_axis else d.pick([], [], [1])
    scale = (2.0 ** d.n.integers(-5, 0, size=extent)).astype(x.dtype if source != "i32" else np.float32)
    zero = d.values(extent, target)
    keep_zero = target != "u8" or d.chance(70)
    return [x, Arg(scale, 95), Arg(zero, 95) if keep_zero else None], {"axis": axis}, 1, True


@draws("DequantizeLinear")
def dequantize(d):
    t = d.pick("u8", "i8", "u8", "i8", "i32", "u16", "i16", "i4", "u4")
    shape = d.shape(high=6)
    per_axis = len(shape) and d.chance(40)
    axis = d.axis(len(shape)) if per_axis else None
    extent = [shape[axis]] if per_axis else d.pick([], [], [1])
    scale = d.n.uniform(0.01, 0.5, size=extent).astype(TYPES[d.pick("f32", "f32", "f16")])
    zero = None if t == "i32" or d.chance(30) else Arg(d.values(extent, t), 95)
    return [d.values(shape, t), Arg(scale, 95), zero], {"axis": axis}, 1, False


@draws("DynamicQuantizeLinear")
def dynamic_quantize(d):
    x = d.values(d.shape(empty=False), "f32")
    x = np.round(x.astype(np.float64) * 8).clip(-16, 16)  # steps of 1/64 at most: no ties that roundings decide
    flat = x.reshape(-1)
    if flat.size < 2:
        return None
    flat[0], flat[-1] = 0, 255
    return [(x / 8).astype(np.float32)], {}, 3, True


@draws("Det", "Inverse")
def square(d):
    d.take()
    n = d.pick(1, 2, 3, 4, 5)
    return [(d.values(d.shape(high=3, most=12, empty=False) + [n, n], low=-0.4, high=0.4) + np.eye(n) * 1.5).astype(TYPES[d.type])], {}, 1, False


@draws("BlackmanWindow", "HammingWindow", "HannWindow")
def window(d):
    return [Arg(np.array(d.pick(1, 2, 5, 16, 33), TYPES[d.pick("i32", "i64")]), 80)], {"periodic": d.pick(None, 0, 1), "output_datatype": d.pick(None, 1, 11)}, 1, False


@draws("Range")
def range_(d):
    t = d.take()
    start, step = d.r.randrange(-5, 6), d.pick(1, 2, -1, 3)
    limit = start + step * d.r.randrange(-1, 20)
    return [Arg(np.array(v, TYPES[t]), 85) for v in (start, limit, step)], {}, 1, True


@draws("DFT")
def dft(d):
    d.take("T1", "f32", "f16", "f64")
    shape = d.shape(low=1, high=4, least=2, most=300, empty=False)
    inverse = d.flag()
    parts = 2 if inverse else d.pick(1, 2)
    axis = d.r.randrange(len(shape))
    length = d.pick(None, shape[axis], shape[axis] + 3, max(1, shape[axis] - 1))
    return [d.values(shape + [parts]), None if length is None else Arg(np.array(length, np.int64), 95), Arg(np.array(d.pick(axis, axis - len(shape) - 1), np.int64), 95)], \
        {"inverse": inverse, "onesided": 0 if inverse or parts == 2 else d.flag()}, 1, False


@draws("STFT")
def stft(d):
    d.take("T1", "f32", "f64")
    frame = d.pick(4, 8, 15, 16)
    signal = d.values([d.pick(1, 2, 3), frame + d.r.randrange(40), 1])
    return [signal, Arg(np.array(d.pick(1, 3, 8), np.int64), 95), d.pick(None, Arg(d.values([frame]), 90)), Arg(np.array(frame, np.int64), 95)], {"onesided": d.pick(None, 0, 1)}, 1, False


@draws("MelWeightMatrix")
def mel(d):
    return [Arg(np.array(v, t), 95) for v, t in ((d.pick(4, 8, 12), np.int64), (d.pick(16, 32, 64), np.int64), (8000, np.int64), (0.0, np.float32), (4000.0, np.float32))], {}, 1, False


left_out("its result is drawn at random", "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
left_out("it holds graphs: random_models.py and the zoo have those", "If", "Loop", "Scan")
left_out("it stands for operators that are in no table", "Custom")
