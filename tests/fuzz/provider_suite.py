# SPDX-License-Identifier: Apache-2.0
"""What the test suite of ONNX Runtime's QNN provider has for the NPU, as parameters of this fuzzer: its cases by family, drawn again here. 677 cases: of each family how
many there are, and which operators or forms; as many of a hundred as there are quantised ones get QuantizeLinear and DequantizeLinear around every real operand and
result, of the types that it has them in. Nothing of the suite itself is here: what it counts alone."""
import numpy as np
from onnx import helper

import oracle
import random_operators

# family: (cases for the NPU, operators and how often, or forms of this file)
FAMILIES = {
    "simple_op": (109, {"GridSample": 11, "ScatterElements": 7, "Softmax": 7, "HardSigmoid": 7, "ScatterND": 5, "Mean": 4, "Sub": 4, "Div": 4, "LogSoftmax": 4, "SpaceToDepth": 4, "DepthToSpace": 3,
                        "Concat": 3, **dict.fromkeys(("Mul", "Add", "PRelu", "Reciprocal", "LpNormalization", "Abs", "Ceil", "Cos", "Atan", "Elu", "Gelu", "HardSwish", "Log", "Relu", "Sigmoid", "Sign", "Tanh"), 2),
                        **dict.fromkeys(("Exp", "Floor", "Neg", "Not", "Round", "Sin", "Sqrt", "Tan", "Asin", "Pow", "And", "DequantizeLinear"), 1)}),
    "conv": (61, {"Conv": 3, "ConvTranspose": 1}), "pad": (25, {"Pad": 1}), "einsum": (23, {"Einsum": 1}), "resize": (18, {"Resize": 1}), "gemm": (12, {"Gemm": 1}),
    "reduce": (19, {"ReduceSum": 4, "ReduceMean": 4, "ReduceMin": 3, "ReduceMax": 3, "ReduceProd": 3, "ReduceL2": 2}), "lstm": (20, {"LSTM": 1}), "maxpool": (20, {"MaxPool": 4, "GlobalMaxPool": 1}),
    "reshape_expand": (15, {"Reshape": 2, "Expand": 1}), "averagepool": (8, {"AveragePool": 3, "GlobalAveragePool": 1}), "bf16": (17, {"Add": 1, "MatMul": 1, "Conv": 1, "Mul": 1, "Softmax": 1, "Relu": 1}),
    "clip": (12, {"Clip": 1}), "flatten": (7, {"Flatten": 1}), "topk": (8, {"TopK": 1}), "squeeze_unsqueeze": (10, {"Squeeze": 1, "Unsqueeze": 1}), "cast": (7, {"Cast": 1}),
    "fusedmatmul": (8, {"FusedMatMul": 1}), "gather": (15, {"Gather": 2, "GatherND": 1}), "gatherelements": (11, {"GatherElements": 1}), "matmul": (4, {"MatMul": 1}), "batchnormalization": (12, {"BatchNormalization": 1}),
    "simplifiedlayernormalization": (9, {"RMSNormalization": 1}), "quickgelu": (10, {"QuickGelu": 1}), "split": (8, {"Split": 1}), "layernormalization": (6, {"LayerNormalization": 1}),
    "logical_compare": (6, {"Equal": 1, "Greater": 1, "Less": 1, "GreaterOrEqual": 1, "LessOrEqual": 1}), "gelu_fusion": (10, {"gelu": 1}), "instancenormalization": (9, {"InstanceNormalization": 1}),
    "inverse": (6, {"Inverse": 1}), "rmsnormalization": (5, {"RMSNormalization": 1}), "roialign": (5, {"RoiAlign": 1}), "argmax_argmin": (5, {"ArgMax": 1, "ArgMin": 1}), "max_min": (4, {"Max": 1, "Min": 1}),
    "slice": (7, {"Slice": 1}), "scale_softmax_fusion": (7, {"scaled": 1}), "lrn": (3, {"LRN": 1}), "groupnormalization": (4, {"GroupNormalization": 1}), "where": (5, {"Where": 1}), "cumsum": (4, {"CumSum": 1}),
    "isnan": (2, {"IsNaN": 1}), "mod": (2, {"Mod": 1}), "gather_transpose_reshape_fusion": (4, {"gathered": 1}), "stft": (4, {"STFT": 1}), "tile": (2, {"Tile": 1}), "leakyrelu": (3, {"LeakyRelu": 1}),
    "thresholdedrelu": (2, {"ThresholdedRelu": 1}), "transpose": (3, {"Transpose": 1}), "lpbq": (8, {"blocks": 1}), "reshape_transpose_rank5": (2, {"sixfold": 1}), "channel_shuffle_fusion": (1, {"shuffled": 1}),
}
# What it has no model of one operator for: options and profiles; contexts, their files and sharing. tests/integration has those.
ELSEWHERE = {"qnn_basic": 32, "qnn_ep_context": 58}
assert sum(count for count, _ in FAMILIES.values()) + sum(ELSEWHERE.values()) == 677
# Types of data and of weights of its quantised models, by how many it has.
QUANTISED = {("u8", "u8"): 275, ("u16", "u16"): 45, ("u16", "u8"): 25, ("u8", "i8"): 10, ("u16", "i8"): 6, ("u16", "i16"): 5}
OF_A_HUNDRED = 62
STEP = 1 / 16  # of data and results, as oracle.py has it
WITH_WEIGHTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "FusedMatMul"}
# What the suite has of floats alone, or whose types are the point.
OF_FLOATS = {"bf16", "cast", "isnan", "lstm", "stft", "inverse", "lpbq"}


def listed():
    """(family, operator or form) of each case."""
    for family, (count, operators) in FAMILIES.items():
        of = [name for name, times in operators.items() for _ in range(times)]
        for i in range(count):
            yield family, of[i % len(of)]


CASES = list(listed())


def names(seed, first, count):
    return [f"p{seed}_{n:05d}_{CASES[n % len(CASES)][1]}" for n in range(first, first + count)]


def form(d, name):
    """The graphs that its fusions are tested by: nodes, inputs, constants."""
    real = lambda *shape, low=-2.0, high=2.0: d.n.uniform(low, high, size=shape).astype(np.float32)
    shape = [d.pick(1, 2), d.pick(3, 8, 17), d.pick(4, 16)]
    if name == "gelu":
        root, half, one = np.float32(np.sqrt(2.0)), np.float32(0.5), np.float32(1.0)
        nodes = [("Div", ["x", "r"], "a"), ("Erf", ["a"], "b"), ("Add", ["b", "one"], "c")]
        nodes += [("Mul", ["x", "c"], "d"), ("Mul", ["d", "h"], "y")] if d.chance(50) else [("Mul", ["x", "h"], "d"), ("Mul", ["d", "c"], "y")]
        return nodes, {"x": real(*shape)}, {"r": root, "h": half, "one": one}
    if name == "scaled":
        by = np.float32(d.pick(0.125, 0.5, 2.0, 0.33))
        return [(d.pick("Mul", "Div"), ["x", "s"], "a"), ("Softmax", ["a"], "y", {"axis": -1})], {"x": real(*shape)}, {"s": by if d.chance(50) else np.full([1], by, np.float32)}
    if name == "gathered":
        n, s = d.pick(1, 2), d.pick(2, 3)
        return [("Gather", ["x", "i"], "a", {"axis": 2}), ("Transpose", ["a"], "b", {"perm": [0, 3, 1, 2, 4]}), ("Reshape", ["b", "to"], "y")], {"x": real(n, 4, 6, 5)}, \
            {"i": d.n.integers(0, 6, size=[s, s]), "to": np.array([n, s, -1, 5], np.int64)}
    if name == "sixfold":
        n, c, h, w = 1, 8, d.pick(2, 4), d.pick(2, 6)
        return [("Reshape", ["x", "to"], "a"), ("Transpose", ["a"], "b", {"perm": [0, 1, 4, 2, 5, 3]}), ("Reshape", ["b", "back"], "y")], {"x": real(n, c, h, w)}, \
            {"to": np.array([n, 2, 2, 2, h, w], np.int64), "back": np.array([n, 2, 2 * h, 2 * w], np.int64)}
    if name == "shuffled":
        n, c, h, w = 1, 12, 5, d.pick(4, 7)
        return [("Reshape", ["x", "to"], "a"), ("Transpose", ["a"], "b", {"perm": [0, 2, 1, 3, 4]}), ("Reshape", ["b", "back"], "y")], {"x": real(n, c, h, w)}, \
            {"to": np.array([n, 3, 4, h, w], np.int64), "back": np.array([n, c, h, w], np.int64)}
    # Weights of 4 bits with a scale for each block of 16.
    rows, columns, blocks = 32, d.pick(8, 16), 2
    weights = d.n.integers(-7, 8, size=[rows, columns]).astype(random_operators.TYPES["i4"])
    scales = np.repeat((2.0 ** d.n.integers(-4, -1, size=[1, columns])), blocks, axis=0) * d.n.integers(1, 5, size=[blocks, columns])
    nodes = [("DequantizeLinear", ["w", "s"], "wr", {"axis": 0, "block_size": rows // blocks})]
    nodes += [("MatMul", ["x", "wr"], "y")] if d.chance(50) else [("Gemm", ["x", "wr", "b"], "y")]
    return nodes, {"x": real(d.pick(1, 7), rows)}, {"w": weights, "s": scales.astype(np.float32), "b": real(columns)}


class Around:
    """Every real operand and result of a case quantised, as tools write it: DequantizeLinear before a node, QuantizeLinear and DequantizeLinear behind."""

    def __init__(self, d, case):
        self.case, self.constants, self.nodes, self.count = case, dict(case.constants), [], 0
        self.read = {}  # what is quantised already, by its name (and how): nodes share it
        self.data, self.weights = d.r.choices(list(QUANTISED), list(QUANTISED.values()))[0]

    def constant(self, array):
        self.count += 1
        name = f"q{self.count}"
        self.constants[name] = np.asarray(array)
        return name

    def steps(self, kind, step):
        """Scale and zero point: in the middle, as data go both ways."""
        info = np.iinfo(random_operators.TYPES[kind])
        return self.constant(np.float32(step)), self.constant(np.array(0 if info.min else (info.max + 1) // 2, info.dtype)), info

    def through(self, name, to):
        scale, zero, _ = self.steps(self.data, STEP)
        self.nodes += [helper.make_node("QuantizeLinear", [name, scale, zero], [to + "_q"]), helper.make_node("DequantizeLinear", [to + "_q", scale, zero], [to])]
        return to

    def stored(self, name, kind, step):
        """A constant operand, quantised ahead."""
        if (name, kind, step) in self.read:
            return self.read[name, kind, step]
        scale, zero, info = self.steps(kind, step)
        made = f"{name}_{kind}_{len(self.read)}"
        whole = np.clip(np.rint(self.constants[name].astype(np.float64) / step) + self.constants[zero], info.min, info.max).astype(info.dtype)
        self.constants[made + "_w"] = whole
        self.nodes.append(helper.make_node("DequantizeLinear", [made + "_w", scale, zero], [made]))
        self.read[name, kind, step] = made
        return made

    def operand(self, node, place, name):
        array = self.constants.get(name, self.case.inputs.get(name))
        if array is None or array.dtype != np.float32:
            return name
        if name not in self.constants:  # once, however many read it
            if name not in self.read:
                self.read[name] = self.through(name, name + "_d")
            return self.read[name]
        if node.op_type in WITH_WEIGHTS and place == 1:
            return self.stored(name, self.weights, 1 / 64)
        if node.op_type in WITH_WEIGHTS and place == 2:  # a bias, in units of data times weights
            return self.stored(name, "i32", STEP / 64)
        return self.stored(name, self.data, STEP) if array.size > 1 else name

    def made(self):
        outputs, behind = [], []
        for node in self.case.nodes:
            node.input[:] = [self.operand(node, i, name) if name else name for i, name in enumerate(node.input)]
        before = self.nodes
        self.nodes = behind
        for name, array in zip(self.case.outputs, self.case.results):
            outputs.append(self.through(name, name + "_r") if array.dtype == np.float32 else name)
        return self.case.with_(nodes=before + self.case.nodes + behind, constants=self.constants, outputs=outputs, kind="steps", exact=False, bare=False, named=False, results=None,
                               opset=max(self.case.opset, 21))  # 16-bit steps are there from 21 on


def one(rows, seed, number):
    """The case of a number; None: this draw has no model."""
    family, what = CASES[number % len(CASES)]
    d = random_operators.Draw(seed, rows[what] if what in rows else None)
    if what in rows:
        case = random_operators.one(rows, seed, what)
    else:
        nodes, inputs, constants = form(d, what)
        read = {name for n in nodes for name in n[1]}
        case = oracle.Case([helper.make_node(n[0], n[1], [n[2]], name=f"n{i}", **(n[3] if len(n) > 3 else {})) for i, n in enumerate(nodes)], inputs,
                           {k: v for k, v in constants.items() if k in read}, ["y"], 21)
    if case is None or family in OF_FLOATS or not d.chance(OF_A_HUNDRED):
        return case
    reals = [a for a in [*case.inputs.values(), *case.constants.values()] if oracle.is_float(a)]
    if not reals or any(a.dtype != np.float32 for a in reals) or any(not np.isfinite(a).all() for a in reals):
        return case
    try:
        _, case.results = oracle.expected(case)
    except Exception:
        return case
    return Around(d, case).made()
