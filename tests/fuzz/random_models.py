#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random small models with what ONNX Runtime makes of them, in the layout of ONNX's own tests, for `quarry conform`.

random_models.py OUT [--count N] [--seed S]     OUT/tolerance: how `quarry conform` is to check them
random_models.py OUT --seed S --only N          the one model rS_N, once more

Operators that jump (rounding, comparing, choosing) get numbers that everybody has to the bit: inputs are multiples of
1/8, and what only moves, adds or compares those is too. Every other node is looked at while it is chosen: its result is
computed once more from operands that lie some units in the last place beside, as they do where somebody else rounds
otherwise. Where the result then moves by a good part of what `quarry conform` lets pass (Acos near 1, Log near 1, Mod, a
normalisation of equal values), the node is left out: no difference there would say anything.
"""
import argparse
import os
import random
import shutil
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cases"))
import case_tables
import meetings
from oracle import Case, quiet_session

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
MOST = 4000  # elements of a tensor
OPSET = 20
# How results are checked, and what part of that a node's may move by.
RTOL, ATOL, RANGE_FLOOR = 1e-3, 1e-4, 1e-4
MOVES = 0.1
ULP = float(np.finfo(np.float32).eps)
# Two units in the last place: all upwards, all downwards, and each as it falls.
WAYS = ("up", "down", "any", "any")
FUNCTIONS = {name: one for name, one in case_tables.functions().items() if not one.domain and one.opset <= 21}
UNARY = sorted(FUNCTIONS)
JUMPS = {name for name, one in FUNCTIONS.items() if one.jumps}
EXACT = {"Abs", "Identity", "Neg", "Relu"} | JUMPS  # of exact numbers
# Where a function that has a value everywhere is asked all the same; how steep it is there, `moved` says.
BEFORE = {"Sqrt": "above", "Exp": "unit", "Cosh": "unit", "Sinh": "unit"}


class Value:
    def __init__(self, name, array, exact, moved=None):
        self.name, self.array, self.exact = name, array, exact
        self.moved = moved or [array] * len(WAYS)  # what others may have, one for each of WAYS


class Graph:
    def __init__(self, seed):
        self.r, self.n = random.Random(seed), np.random.default_rng(seed)
        self.nodes, self.inputs, self.weights, self.pool = [], [], [], []
        self.ill = []  # operators that were left out
        self.opset, self.jumps = OPSET, False

    def name(self, kind):
        return f"{kind}{len(self.nodes)}_{len(self.weights)}_{len(self.inputs)}"

    def chance(self, percent):
        return self.r.randrange(100) < percent

    def eighths(self, shape):
        return (self.n.integers(-16, 17, size=shape) / 8).astype(np.float32)

    def input(self, shape):
        value = Value(self.name("x"), self.eighths(shape), True)
        self.inputs.append(value)
        self.pool.append(value)
        return value

    def stored(self, array):
        """An input of integers, for a graph that dequantises it."""
        value = Value(self.name("x"), array, True)
        self.inputs.append(value)
        return value

    def constant(self, array):
        self.weights.append(numpy_helper.from_array(np.asarray(array), self.name("w")))
        return self.weights[-1].name

    def reals(self, *shape, reach=0.5):
        return self.constant(self.n.uniform(-reach, reach, size=shape).astype(np.float32))

    def ints(self, *values):
        return self.constant(np.array(values, dtype=np.int64))

    def beside(self, array, way):
        if array.dtype != np.float32:
            return array
        sign = {"up": 1, "down": -1, "any": self.n.choice([-1, 1], size=array.shape)}[way]
        return np.asarray(array * (1 + 2 * ULP * sign), dtype=np.float32)

    def moved(self, session, inputs, arrays, exact):
        """The same results with operands that lie beside, one list for each of WAYS; None: they say little then."""
        made = []
        for i, way in enumerate(WAYS):
            # Who has the operands to the bit and does not round has the result to the bit.
            feeds = {v.name: v.moved[i] if exact else self.beside(v.moved[i], way) for v in inputs if isinstance(v, Value)}
            found = session.run(None, feeds)
            for mine, other in zip(arrays, found):
                if mine.shape != other.shape or (mine.dtype != np.float32 and (mine != other).any()):
                    return None
                if mine.dtype == np.float32:
                    range_floor = RANGE_FLOOR * (max(mine.max(), 0) - min(mine.min(), 0))
                    if not (np.abs(mine - other) <= MOVES * (max(ATOL, range_floor) + RTOL * np.abs(mine))).all():  # NaN, too
                        return None
            made.append([a if exact else self.beside(a, way) for a in found])
        return made

    def node(self, op, inputs, exact=False, outputs=1, domain="", **attributes):
        """The result of a node, evaluated at once: later ones are chosen by its shape. None: too large, not taken, or ill-conditioned."""
        names = [self.name(op.lower()) + (f"_{i}" if i else "") for i in range(outputs)]
        made = helper.make_node(op, [i.name if isinstance(i, Value) else i for i in inputs], names, name=names[0], domain=domain, **attributes)
        feeds = {i.name: i.array for i in inputs if isinstance(i, Value)}
        used = [w for w in self.weights if w.name in made.input]
        given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in feeds.items()]
        try:
            session = session_of(helper.make_graph([made], "one", given, [helper.make_empty_tensor_value_info(n) for n in names], used), self.opset)
            arrays = session.run(None, feeds)
        except Exception:  # what ONNX Runtime does not take is not asked of anybody
            return None
        if any(a.size > MOST or a.size == 0 or a.ndim > 6 or (a.dtype == np.float32 and (not np.isfinite(a).all() or np.abs(a).max() > 1e3)) for a in arrays):
            return None
        # What is rounded to integers jumps: the case is compared by steps.
        moved = [arrays] * len(WAYS) if self.jumps else self.moved(session, inputs, arrays, exact)
        if moved is None:
            self.ill.append(op)
            return None
        self.nodes.append(made)
        values = [Value(n, a, exact, [m[i] for m in moved]) for i, (n, a) in enumerate(zip(names, arrays))]
        self.pool += [v for v in values if v.array.dtype == np.float32]
        return values[0] if outputs == 1 else values

    # ---- families; each returns a value or None

    def unary(self, x):
        op = self.r.choice(UNARY)
        if op in JUMPS and not x.exact:
            return None
        low, high = FUNCTIONS[op].low, FUNCTIONS[op].high
        kind = BEFORE.get(op, "above" if low > 0 else "unit" if -1.5 < low and high < 1.5 else None)
        if kind:
            x = self.node("Tanh", [x])
            if x and kind == "above":
                x = self.node("Add", [x, self.constant(np.float32(2.5))])
            if x is None:
                return None
        attributes = {"alpha": self.r.choice([0.1, 0.5, 1.5])} if op in ("Celu", "Elu", "LeakyRelu", "ThresholdedRelu") and self.chance(50) else {}
        if op == "Gelu" and self.chance(50):
            attributes["approximate"] = "tanh"
        return self.node(op, [x], exact=x.exact and op in EXACT, **attributes)

    def binary(self, x):
        op = self.r.choice("Add Sub Mul Div Min Max Pow PRelu Mean Sum Add Mul".split())
        if self.chance(40):
            others = [v for v in self.pool if v.array.ndim == x.array.ndim]
            y = self.r.choice(others)
            exact = x.exact and y.exact and op in ("Min", "Max")
        else:
            shape = [d if self.chance(50) else 1 for d in x.array.shape][self.r.randrange(x.array.ndim + 1):]
            y, exact = self.reals(*shape), False
        if op == "Div":
            y = self.node("Add", [self.node("Abs", [y]) if isinstance(y, Value) else self.constant(np.float32(0.2)), self.constant(np.float32(0.7))])
        if op == "Pow":
            x, y = self.node("Abs", [x]), self.constant(np.float32(self.r.choice([0, 0.5, 1, 2, 3])))
        if x is None or y is None:
            return None
        if op == "PRelu" and isinstance(y, Value):
            return None
        return self.node(op, [x, y], exact=exact)

    def compare(self, x):
        if not x.exact:
            return None
        y = self.constant(self.eighths([1]))
        chosen = self.node(self.r.choice(["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]), [x, y], exact=True)
        if chosen is None:
            return None
        if self.chance(30):
            chosen = self.node("Not", [chosen], exact=True)
        if self.chance(40):
            return self.node("Cast", [chosen], exact=True, to=F32)
        return self.node("Where", [chosen, x, self.reals(*x.array.shape)])

    def movement(self, x):
        rank, shape = x.array.ndim, x.array.shape
        kind = self.r.randrange(13)
        keep = {"exact": x.exact}
        if kind == 0:
            return self.node("Transpose", [x], perm=self.r.sample(range(rank), rank), **keep)
        if kind == 1:
            return self.node("Reshape", [x, self.ints(*(([0, -1] if self.chance(50) else [-1]) if rank > 1 else [-1]))], **keep)
        if kind == 2:
            axis = self.r.randrange(-rank, rank)
            return self.node("Concat", [x, x] if self.chance(50) else [x, self.reals(*shape)], axis=axis) if rank else None
        if kind == 3:
            starts = [self.r.randrange(-d, d) for d in shape]
            return self.node("Slice", [x, self.ints(*starts), self.ints(*[self.r.randrange(-d - 1, d + 2) for d in shape]), self.ints(*range(rank)),
                                       self.ints(*[self.r.choice([-2, -1, 1, 1, 2]) for _ in shape])], **keep)
        if kind == 4:
            mode = self.r.choice(["constant", "edge", "reflect", "wrap"])
            most = min(shape) - 1 if mode != "constant" else 3
            return self.node("Pad", [x, self.ints(*[self.r.randrange(max(1, min(3, most + 1))) for _ in range(2 * rank)])], mode=mode, **keep)
        if kind == 5:
            axis = self.r.randrange(rank)
            indices = self.n.integers(-shape[axis], shape[axis], size=[self.r.randrange(1, 4) for _ in range(self.r.randrange(3))])
            return self.node("Gather", [x, self.constant(np.asarray(indices, dtype=np.int64))], axis=axis, **keep)
        if kind == 6:
            return self.node("Expand", [x, self.ints(*([2] + list(shape)))], **keep)
        if kind == 7:
            return self.node("Tile", [x, self.ints(*[self.r.choice([1, 1, 2]) for _ in shape])], **keep)
        if kind == 8:
            return self.node("Unsqueeze", [x, self.ints(self.r.randrange(-rank - 1, rank + 1))], **keep)
        if kind == 9:
            axis = self.r.randrange(rank)
            if shape[axis] < 2:
                return None
            return (self.node("Split", [x], outputs=2, axis=axis, num_outputs=2, **keep) or [None])[0]
        if kind == 10:
            return self.node("Flatten", [x], axis=self.r.randrange(rank + 1), **keep)
        if kind == 11 and rank >= 2:
            return self.node("Trilu", [x], upper=self.r.randrange(2), **keep)
        axis = self.r.randrange(rank)
        indices = self.n.integers(-shape[axis], shape[axis], size=shape)
        return self.node("GatherElements", [x, self.constant(indices.astype(np.int64))], axis=axis, **keep)

    def rows(self, x):
        rank, shape = x.array.ndim, x.array.shape
        kind = self.r.randrange(9)
        axis = self.r.randrange(-rank, rank)
        if kind == 0:
            op = self.r.choice(["Softmax", "LogSoftmax", "LpNormalization"] + (["Hardmax"] if x.exact else []))
            return self.node(op, [x], exact=op == "Hardmax", axis=axis)
        if kind == 1:
            op = self.r.choice("ReduceMean ReduceSum ReduceMax ReduceMin ReduceL1 ReduceL2 ReduceSumSquare ReduceLogSumExp".split())
            axes = self.r.sample(range(rank), self.r.randrange(1, rank + 1))
            return self.node(op, [x, self.ints(*axes)], keepdims=self.r.randrange(2))
        if kind == 2:
            n = self.r.randrange(1, 40)
            return self.node("MatMul", [x, self.reals(shape[-1], n)]) if rank >= 2 else None
        if kind == 3 and rank == 2:
            turned, n = self.chance(50), self.r.randrange(1, 30)
            w = self.reals(*([n, shape[1]] if turned else [shape[1], n]))
            return self.node("Gemm", [x, w] + ([self.reals(n)] if self.chance(60) else []), transB=int(turned), alpha=self.r.choice([1.0, 0.5]), beta=self.r.choice([1.0, 2.0]))
        if kind == 4:
            axis %= rank
            return (self.node("LayerNormalization", [x, self.reals(*shape[axis:]), self.reals(*shape[axis:])], axis=axis, epsilon=1e-3))
        if kind == 5:
            return self.node("CumSum", [x, self.constant(np.int64(axis))], exclusive=self.r.randrange(2), reverse=self.r.randrange(2))
        if kind == 6 and x.exact:
            k = self.r.randrange(1, shape[axis] + 1)
            return (self.node("TopK", [x, self.ints(k)], exact=True, outputs=2, axis=axis, largest=self.r.randrange(2)) or [None])[0]
        if kind == 7 and x.exact:
            found = self.node(self.r.choice(["ArgMax", "ArgMin"]), [x], exact=True, axis=axis, keepdims=self.r.randrange(2), select_last_index=self.r.randrange(2))
            return found and self.node("Cast", [found], exact=True, to=F32)
        if kind == 8 and rank == 3:
            hidden, op = self.r.randrange(1, 9), self.r.choice(["LSTM", "GRU", "RNN"])
            gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
            more = {"linear_before_reset": self.r.randrange(2)} if op == "GRU" else {}
            made = self.node(op, [x, self.reals(1, gates * hidden, shape[2]), self.reals(1, gates * hidden, hidden), self.reals(1, 2 * gates * hidden)], outputs=2, hidden_size=hidden,
                             direction=self.r.choice(["forward", "reverse"]), **more)
            return made and made[self.r.randrange(2)]
        return None

    def image(self, x):
        rank, shape = x.array.ndim, x.array.shape
        if rank not in (3, 4, 5) or min(shape[2:]) < 2:
            return None
        space, c = rank - 2, shape[1]
        kernel = [self.r.choice([1, 2, 3, 3, 5]) for _ in range(space)]
        window = {"strides": [self.r.choice([1, 1, 2]) for _ in range(space)], "dilations": [self.r.choice([1, 1, 2]) for _ in range(space)]}
        if self.chance(25):
            window["auto_pad"] = self.r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        else:
            window["pads"] = [self.r.randrange((k + 1) // 2 + (k > 1)) for k in kernel] * 2
        kind = self.r.randrange(9)
        if kind < 3:
            group = self.r.choice([1, 1, 1, c] + [g for g in (2, 4) if c % g == 0])
            out = group * self.r.randrange(1, max(2, 24 // group))
            made = self.node("Conv", [x, self.reals(out, c // group, *kernel), self.reals(out)], group=group, kernel_shape=kernel, **window)
            return made and self.node("Relu", [made]) if self.chance(30) else made
        if kind == 3:
            window.pop("auto_pad", None)
            return self.node("ConvTranspose", [x, self.reals(c, self.r.randrange(1, 9), *kernel)], kernel_shape=kernel, **window)
        if kind in (4, 5):
            # ONNX Runtime leaves dilations out of its reckoning where it pads by itself, and takes windows that do not fit.
            if window.get("auto_pad", "").startswith("SAME"):
                window["dilations"] = [1] * space
            pads = window.get("pads", [0] * 2 * space)
            if any((k - 1) * d + 1 > n + 2 * p for k, d, n, p in zip(kernel, window["dilations"], shape[2:], pads)):
                return None
        if kind == 4:
            return self.node("MaxPool", [x], exact=x.exact, kernel_shape=kernel, ceil_mode=self.r.randrange(2), **window)
        if kind == 5:
            return self.node("AveragePool", [x], kernel_shape=kernel, count_include_pad=self.r.randrange(2), **window)
        if kind == 6:
            return self.node(self.r.choice(["GlobalAveragePool", "GlobalMaxPool"]), [x])
        if kind == 7:
            op = self.r.choice(["InstanceNormalization", "BatchNormalization", "LRN"])
            if op == "LRN":
                return self.node("LRN", [x], size=self.r.choice([1, 3, 5]))
            more = [self.reals(c), self.constant(self.n.uniform(0.3, 2, size=c).astype(np.float32))] if op == "BatchNormalization" else []
            return self.node(op, [x, self.reals(c), self.reals(c)] + more, epsilon=1e-2)
        if rank == 4:
            sizes = self.ints(shape[0], c, self.r.randrange(1, 13), self.r.randrange(1, 13))
            mode = self.r.choice(["linear", "cubic"] + (["nearest"] if x.exact else []))
            return self.node("Resize", [x, "", "", sizes], mode=mode, coordinate_transformation_mode=self.r.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]),
                             exact=x.exact and mode == "nearest")
        return None

    def grow(self):
        x = self.pool[-1] if self.chance(60) else self.r.choice(self.pool)
        if x.array.ndim == 0:
            return None
        family = self.r.choice([self.unary, self.binary, self.compare, self.movement, self.movement, self.rows, self.rows, self.image, self.image, self.image, self.meeting, self.meeting])
        return family(x)

    def meeting(self, x):
        return self.r.choice(meetings.MEETINGS)(self, x)

    def start(self):
        ranks = self.r.choice([1, 2, 3, 4, 4, 4, 5])
        shape = [self.r.choice([1, 2, 3])] + [self.r.choice([1, 2, 3, 4, 5, 7, 8, 9, 16, 17]) for _ in range(ranks - 1)]
        while int(np.prod(shape)) > MOST:
            shape[self.r.randrange(ranks)] = 2
        return shape

    def model(self):
        shape = self.start()
        self.input(shape)
        if self.chance(30):
            self.input(shape)
        for _ in range(40):
            if len(self.nodes) >= self.length:
                break
            self.grow()
        read = {name for n in self.nodes for name in n.input}
        outputs = [v for v in self.pool if v not in self.inputs and v.name not in read][-4:]
        if not outputs:
            return None
        info = lambda v: helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.array.dtype), v.array.shape)
        used = [w for w in self.weights if w.name in read]
        inputs = [v for v in self.inputs if v.name in read]
        return helper.make_graph(self.nodes, "random", [info(v) for v in inputs], [info(v) for v in outputs], used), inputs, outputs


def model_of(graph, opset=OPSET):
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def session_of(graph, opset=OPSET):
    return quiet_session(model_of(graph, opset))


def short_graph(seed):
    """A Case of nodes that meet, for differential.py; None: this seed has none. Checked there."""
    g = Graph(seed)
    g.opset = g.r.choice([20, 20, 22, 23])
    if g.chance(25):
        g.jumps = True
        last = meetings.quantised(g, g.start())
        if last is None:
            return None
    else:
        x = g.input(g.start())
        if g.chance(30):
            g.input(x.array.shape)
        for _ in range(g.r.choice([1, 1, 2])):
            if len(g.nodes) < 6:
                g.meeting(g.r.choice(g.pool))
        if g.chance(40):
            g.grow()
    if not g.nodes:
        return None
    read = {name for n in g.nodes for name in n.input}
    outputs = [name for n in g.nodes for name in n.output if name not in read]
    made = [name for n in g.nodes for name in n.output if name in read]
    if made and g.chance(20):
        outputs.insert(g.r.randrange(len(outputs) + 1), g.r.choice(made))  # a result that others read
    constants = {w.name: numpy_helper.to_array(w) for w in g.weights if w.name in read}
    return Case(g.nodes, {v.name: v.array for v in g.inputs if v.name in read}, constants, outputs, g.opset, "steps" if g.jumps else "f32", bare=g.chance(10), named=g.chance(8))


def store(folder, name, values, arrays):
    for i, (value, array) in enumerate(zip(values, arrays)):
        with open(os.path.join(folder, f"{name}_{i}.pb"), "wb") as out:
            out.write(numpy_helper.from_array(array, value.name).SerializeToString())


def check_condition():
    """Acos of Tanh, which lies near 1 or does not: what distinguishes them still does."""
    for reach, taken in ((1, True), (5, False)):
        g = Graph(1)
        x = Value("x", np.linspace(-reach, reach, 64, dtype=np.float32), True)
        bounded = g.node("Tanh", [x])
        found = g.node("Acos", [bounded])
        if bounded is None or (found is not None) != taken:
            sys.exit(f"random_models.py: Acos of Tanh of -{reach} to {reach} is {'left out' if taken else 'taken'}, expected otherwise")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="the number of one model, which the name of a case ends with")
    given = parser.parse_args()
    check_condition()
    shutil.rmtree(given.out, ignore_errors=True)
    os.makedirs(given.out)
    with open(os.path.join(given.out, "tolerance"), "w", encoding="ascii") as out:
        out.write(f"--rtol {RTOL} --atol {ATOL} --range-floor {RANGE_FLOOR}\n")
    made, seed = 0, given.only or 0
    last = seed + 1 if given.only is not None else None
    counts, ill = {}, {}
    while made < given.count and seed != last:
        g = Graph(given.seed * 1_000_003 + seed)
        g.length = g.r.randrange(1, 9)
        seed += 1
        result = g.model()
        for op in g.ill:
            ill[op] = ill.get(op, 0) + 1
        if result is None:
            continue
        graph, inputs, outputs = result
        try:
            arrays = session_of(graph).run(None, {v.name: v.array for v in inputs})
        except Exception:  # as a whole it may have shapes that ONNX Runtime infers otherwise beforehand
            continue
        if not all(np.isfinite(a).all() for a in arrays):
            continue
        case = os.path.join(given.out, f"r{given.seed}_{seed - 1:05d}")
        data = os.path.join(case, "test_data_set_0")
        os.makedirs(data)
        onnx.save(model_of(graph), os.path.join(case, "model.onnx"))
        store(data, "input", inputs, [v.array for v in inputs])
        store(data, "output", outputs, arrays)
        for node in graph.node:
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
        made += 1
    most = ", ".join(f"{op} {count}" for op, count in sorted(ill.items(), key=lambda entry: -entry[1])[:6])
    print(f"{made} models, {sum(counts.values())} nodes, {len(counts)} operators; {sum(ill.values())} nodes left out as ill-conditioned ({most})")
    return 0 if made else f"random_models.py: no model {given.only} of seed {given.seed}"


if __name__ == "__main__":
    sys.exit(main())
