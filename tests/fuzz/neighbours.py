# SPDX-License-Identifier: Apache-2.0
"""One operator among neighbours: in front of it what leaves its operand as it is (so that it is as well conditioned as alone), behind it what passes join to it."""
import numpy as np
from onnx import helper

import oracle
import random_operators


class Around:
    def __init__(self, d, case, results):
        self.d, self.case, self.nodes, self.count = d, case, list(case.nodes), 0
        self.inputs, self.constants = dict(case.inputs), dict(case.constants)
        self.value, self.array, self.exact = case.outputs[0], results[0], case.exact

    def name(self):
        self.count += 1
        return f"n{self.count}v"

    def constant(self, array):
        name = self.name()
        self.constants[name] = np.asarray(array)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def front(self, name):
        """The operand `name` comes out of a node."""
        d = self.d
        held = self.inputs if name in self.inputs else self.constants
        array = held.pop(name)
        kind, rank, before = d.r.randrange(9), array.ndim, self.name()
        if kind == 0 and rank > 1:
            perm = d.r.sample(range(rank), rank)
            held[before] = np.ascontiguousarray(array.transpose(np.argsort(perm)))
            node = helper.make_node("Transpose", [before], [name], perm=perm)
        elif kind == 1:
            held[before] = array.reshape(-1) if d.chance(50) else array[None]
            node = helper.make_node("Reshape", [before, self.ints(*array.shape)], [name], allowzero=1)
        elif kind == 2 and rank:
            axis = d.r.randrange(rank)
            held[before] = np.concatenate([array, np.take(array, [0] * 2, axis)], axis) if array.shape[axis] else array
            node = helper.make_node("Slice", [before, self.ints(0), self.ints(array.shape[axis]), self.ints(axis)], [name])
        elif kind == 3 and rank and array.shape[0] > 1:
            other = self.name()
            held[before], held[other] = array[:1], array[1:]
            node = helper.make_node("Concat", [before, other], [name], axis=0)
        elif kind == 4:
            held[before] = array[None]
            node = helper.make_node("Squeeze", [before, self.ints(0)], [name])
        elif kind >= 7 and rank in (3, 4) and array.dtype in (np.float32, np.float16):  # an image: where channels are stored last, they come so
            held[before] = array
            kernel = [1] * (rank - 2)
            if kind == 7:
                node = helper.make_node("MaxPool", [before], [name], kernel_shape=kernel)
            else:
                node = helper.make_node("Conv", [before, self.constant(np.ones([array.shape[1], 1, *kernel], array.dtype))], [name], kernel_shape=kernel, group=array.shape[1])
        elif kind == 5 and array.dtype == np.float16:
            held[before] = array.astype(np.float32)
            node = helper.make_node("Cast", [before], [name], to=10)
        else:
            held[before] = array
            node = helper.make_node("Identity", [before], [name])
        self.nodes.insert(0, node)

    def put(self, op, operands, array, **attributes):
        name = self.name()
        self.nodes.append(helper.make_node(op, operands, [name], **attributes))
        self.value, self.array = name, array

    def behind(self):
        """A node on the result; its array is known by its shape alone."""
        d, a = self.d, self.array
        real = a.dtype in (np.float32, np.float16)
        kind = d.r.randrange(10)
        if kind == 0 and a.ndim > 1:
            perm = d.r.sample(range(a.ndim), a.ndim)
            return self.put("Transpose", [self.value], a.transpose(perm), perm=perm)
        if kind == 1:
            return self.put("Reshape", [self.value, self.ints(-1)], a.reshape(-1)) if a.size else None
        if not real:
            return self.put("Cast", [self.value], a.astype(np.float32), to=1) if a.dtype.kind in "iub" and kind < 5 else None
        if kind < 6:
            self.exact = False
            part = d.n.uniform(0.5, 1.5, size=d.part(list(a.shape))).astype(a.dtype)
            return self.put(d.pick("Add", "Mul", "Add", "Sub"), [self.value, self.constant(part)] if d.chance(70) else [self.constant(part), self.value], a)
        if kind == 6:
            same = [k for k, v in self.inputs.items() if v.shape == a.shape and v.dtype == a.dtype]
            self.exact = False
            return self.put("Add", [self.value, d.r.choice(same)] if d.chance(50) else [d.r.choice(same), self.value], a) if same else None
        if kind == 7:
            return self.put("Clip", [self.value, self.constant(np.array(0, a.dtype)), self.constant(np.array(d.pick(1, 6), a.dtype))], a)
        if kind == 8 and a.dtype == np.float32:
            self.exact = False
            return self.put("Sigmoid", [self.value], a)
        return self.put(d.pick("Relu", "LeakyRelu"), [self.value], a)


def among(rows, seed, name):
    case = random_operators.one(rows, seed, name)
    if case is None or len({a.dtype for a in [*case.inputs.values(), *case.constants.values()] if oracle.is_float(a)} - {np.dtype(np.float32), np.dtype(np.float16)}):
        return None
    d = random_operators.Draw(seed + 1, rows[name])
    try:
        _, results = oracle.expected(case)
    except Exception:
        return None
    around = Around(d, case, results)
    for operand in [n for n in case.nodes[0].input if n]:
        if d.chance(40) and (operand in around.inputs or operand in around.constants):
            around.front(operand)
    outputs = list(case.outputs)
    for _ in range(d.pick(0, 1, 1, 2, 3)):
        around.behind()
    if around.value != outputs[0]:
        outputs[0:1] = [around.value] + (outputs[:1] if d.chance(15) else [])
    return case.with_(nodes=around.nodes, inputs=around.inputs, constants=around.constants, outputs=outputs, exact=around.exact and len(outputs) == 1, named=False, opset=max(case.opset, 18))
