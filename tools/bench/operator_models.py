# SPDX-License-Identifier: Apache-2.0
"""What tools/bench/operator_cases.py makes its models with: one operator, or one between dequantise and quantise.

`case`, `add` and `quantised` fill CASES: name -> Case. An operand of `add` is a constant (an array), an absent one (""), or an input: "f32 1,64,56,56",
with bounds of its made-up values behind it ("i64 64 0 128"), or a tuple (array,) whose values are the input's.
"""
import collections
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh

R = np.random.default_rng(7)  # of constants: those of the first 160 cases are those that peers were measured with (check_htp_ops.py)
VALUES = np.random.default_rng(8)  # of inputs
Case = collections.namedtuple("Case", "model values ops")  # values: input name -> array; ops: (domain, operator) of all nodes
CASES = {}
TYPES = {"f32": T.FLOAT, "f16": T.FLOAT16, "bf16": T.BFLOAT16, "f64": T.DOUBLE, "i8": T.INT8, "u8": T.UINT8, "i16": T.INT16, "u16": T.UINT16,
         "i32": T.INT32, "u32": T.UINT32, "i64": T.INT64, "u64": T.UINT64, "bool": T.BOOL}
F = T.FLOAT


def made_up(dtype, shape, low=None, high=None):
    """Values of an input: reals of 0.1 to 1.6, integers of 1 to 99 (nothing is divided by 0), within bounds where they are given."""
    numpy_type = h.tensor_dtype_to_np_dtype(dtype)
    if dtype == T.BOOL:
        return VALUES.random(shape) < 0.5
    if np.issubdtype(numpy_type, np.integer):
        return VALUES.integers(int(low or 1) if low is None else int(low), 100 if high is None else int(high), shape).astype(numpy_type)
    low, high = (0.1, 1.6) if low is None else (float(low), float(high))
    return (VALUES.random(shape, np.float32) * (high - low) + low).astype(numpy_type)


def keep(name, nodes, values, constants, outs, opset, domain):
    """The model of `nodes`; `values`: input name -> array, `outs`: name -> type."""
    g = h.make_graph(nodes, name, [h.make_tensor_value_info(n, h.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in values.items()],
                     [h.make_tensor_value_info(n, t, None) for n, t in outs.items()], [nh.from_array(np.array(a, order="C"), n) for n, a in constants.items()])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)] + ([h.make_opsetid(domain, 1)] if domain else []), ir_version=8)
    assert name not in CASES, name
    CASES[name] = Case(m, values, {(n.domain, n.op_type) for n in nodes})


def case(name, op, inputs, consts=(), outs=1, opset=18, domain="", out_types=None, **attrs):
    """inputs: [(name, dtype, shape)]; consts: [(name, array)], both in operator order given by `order` in attrs or as listed."""
    order = attrs.pop("order", [i[0] for i in inputs] + [c[0] for c in consts])
    node = h.make_node(op, order, [f"y{i}" for i in range(outs)], domain=domain, **attrs)
    keep(name, [node], {n: v if isinstance(v, np.ndarray) else made_up(t, v) for n, t, v in inputs}, dict(consts),
         {f"y{i}": (out_types or [inputs[0][1]] * outs)[i] for i in range(outs)}, opset, domain)


def add(name, op, *operands, out="", opset=18, domain="", more={}, **attrs):
    """One node; `out`: the types of its outputs, by default one of the first input's type; `more`: attributes whose names `add` has itself."""
    values, constants, order = {}, {}, []
    for i, o in enumerate(operands):
        if isinstance(o, str) and not o:
            order.append("")
            continue
        order.append(f"x{i}")
        if isinstance(o, str):
            dtype, shape, *bounds = o.split()
            values[f"x{i}"] = made_up(TYPES[dtype], [int(n) for n in shape.split(",")] if shape != "-" else [], *bounds)
        elif isinstance(o, tuple):
            values[f"x{i}"] = np.asarray(o[0])
        else:
            constants[f"x{i}"] = np.asarray(o)
    types = [TYPES[t] for t in out.split()] or [h.np_dtype_to_tensor_dtype(next(iter(values.values())).dtype)]
    node = h.make_node(op, order, [f"y{i}" for i in range(len(types))], domain=domain, **more, **attrs)
    keep(name, [node], values, constants, {f"y{i}": t for i, t in enumerate(types)}, opset, domain)


def quantised(name, op, shape, weights=None, others=(), opset=21, scale=0.02, second=False, weight_axis=0, **attrs):
    """Quantise-dequantise around one operator, u8 in and out, as quantisers write it; `weights`: i8 with a scale for each channel."""
    nodes = [h.make_node("DequantizeLinear", ["x", "s", "z"], ["xd"])]
    values, operands = {"x": R.integers(0, 255, shape).astype(np.uint8)}, ["xd"]
    constants = {"s": np.float32(scale), "z": np.uint8(128), "t": np.float32(scale * 2)}
    if second:
        nodes.append(h.make_node("DequantizeLinear", ["x2", "s", "z"], ["x2d"]))
        values["x2"] = R.integers(0, 255, shape).astype(np.uint8)
        operands.append("x2d")
    if weights is not None:
        constants.update(w=R.integers(-127, 127, weights).astype(np.int8), ws=(R.random(weights[weight_axis]) * 0.01 + 0.001).astype(np.float32), wz=np.zeros(weights[weight_axis], np.int8))
        nodes.append(h.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=weight_axis))
        operands.append("wd")
    for i, o in enumerate(others):
        constants[f"c{i}"] = np.asarray(o)
        operands.append(f"c{i}" if np.asarray(o).size else "")
    nodes += [h.make_node(op, operands, ["yd"], **attrs), h.make_node("QuantizeLinear", ["yd", "t", "z"], ["y"])]
    keep(name, nodes, values, constants, {"y": T.UINT8}, opset, "")


def f(*s):
    return (R.standard_normal(s) * 0.1).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def boxes(n, extent):
    """n boxes of a detector: corners in order, many of them over one another."""
    at = R.random((n, 2)) * extent * 0.8
    return np.concatenate([at, at + extent * (0.05 + 0.15 * R.random((n, 2)))], 1).astype(np.float32)
