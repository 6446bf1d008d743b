# SPDX-License-Identifier: Apache-2.0
"""Makes a case that fails smaller, as long as it fails in the same way: fewer nodes, attributes, operands, elements, axes."""
import os
import tempfile

import numpy as np
from onnx import helper

import oracle

ROUNDS = 25
AT_ONCE = 40  # candidates that are tried together


def size(case):
    arrays = [*case.inputs.values(), *case.constants.values()]
    return (len(case.nodes), sum(a.size for a in arrays), sum(len(n.attribute) for n in case.nodes), sum(a.ndim for a in arrays), sum(len(n.input) for n in case.nodes), len(case.constants))


def text(case):
    """The model in a line."""
    arrays = {**case.inputs, **case.constants}
    def operand(name):
        if name not in arrays:
            return name or "-"
        array = arrays[name]
        short = f"{array.dtype}{list(array.shape)}"
        return ("constant " if name in case.constants else "") + short + (f"={array.tolist()}" if array.size <= 6 else "")
    def node(n):
        attributes = "".join(f" {a.name}={value.decode() if isinstance(value, bytes) else value}" for a in n.attribute for value in [helper.get_attribute_value(a)])
        return f"{', '.join(n.output)} = {n.op_type}({', '.join(operand(i) for i in n.input)}){attributes}"
    return "; ".join(node(n) for n in case.nodes) + f" (opset {case.opset})"


def pruned(case):
    read = {name for n in case.nodes for name in n.input} | set(case.outputs)
    return case.with_(inputs={k: v for k, v in case.inputs.items() if k in read}, constants={k: v for k, v in case.constants.items() if k in read})


def parts(case):
    """Some nodes in a row, with what the others gave them as inputs."""
    if len(case.nodes) < 2:
        return
    names = [name for n in case.nodes for name in n.output if name]
    try:
        _, arrays = oracle.expected(case.with_(outputs=names))
    except Exception:
        return
    values = dict(zip(names, arrays))
    for length in range(1, len(case.nodes)):
        for low in range(len(case.nodes) - length + 1):
            nodes = case.nodes[low:low + length]
            made = {name for n in nodes for name in n.output if name}
            inside = {name for n in nodes for name in n.input}
            outputs = [name for name in case.outputs if name in made] + sorted(name for name in made - inside if name not in case.outputs)
            inputs = {**case.inputs, **{k: v for k, v in values.items() if k in inside and k not in made}}
            yield pruned(case.with_(nodes=nodes, inputs=inputs, outputs=outputs or sorted(made)))


def changed_node(case, i, change):
    nodes = list(case.nodes)
    copy = type(nodes[i])()
    copy.CopyFrom(nodes[i])
    change(copy)
    nodes[i] = copy
    return pruned(case.with_(nodes=nodes))


def fewer(case):
    for i, node in enumerate(case.nodes):
        for a in range(len(node.attribute)):
            yield changed_node(case, i, lambda n, a=a: n.attribute.pop(a))
        if len(node.input) > 1:
            yield changed_node(case, i, lambda n: n.input.pop())
            for k in range(1, len(node.input) - 1):
                if node.input[k]:
                    yield changed_node(case, i, lambda n, k=k: n.input.__setitem__(k, ""))
        if len(node.output) > 1 and len(case.nodes) == 1:
            for keep in range(1, len(node.output)):
                def cut(n, keep=keep):
                    del n.output[keep:]
                yield changed_node(case.with_(outputs=[o for o in case.outputs if o in node.output[:keep]]), i, cut)
    if len(case.outputs) > 1:
        for name in case.outputs:
            yield case.with_(outputs=[name])
    for k, v in case.constants.items():
        yield case.with_(inputs={**case.inputs, k: v}, constants={n: c for n, c in case.constants.items() if n != k})


def mapped(case, change):
    return case.with_(inputs={k: change(v) for k, v in case.inputs.items()}, constants={k: change(v) for k, v in case.constants.items()})


def smaller_extents(case):
    arrays = [*case.inputs.values(), *case.constants.values()]
    extents = sorted({e for a in arrays for e in a.shape if e > 1}, reverse=True)
    for extent in extents:
        for to in sorted({1, extent // 2, extent - 1}):
            def cut(array, extent=extent, to=to):
                if array.dtype == np.int64 and array.ndim == 1 and extent in array and array.size < 9:
                    array = np.where(array == extent, to, array)
                return array[tuple(slice(0, to) if e == extent else slice(None) for e in array.shape)]
            yield mapped(case, cut)
    for k in [*case.inputs, *case.constants]:  # one operand alone, one axis alone
        array = case.inputs.get(k, case.constants.get(k))
        for axis, extent in enumerate(array.shape):
            if extent > 1:
                where = "inputs" if k in case.inputs else "constants"
                yield case.with_(**{where: {**getattr(case, where), k: np.take(array, range(1), axis)}})
    most = max((a.ndim for a in arrays), default=0)
    for axis in range(most):
        if all(a.shape[axis] == 1 for a in arrays if a.ndim == most):
            yield mapped(case, lambda a, axis=axis: a.reshape(a.shape[:axis] + a.shape[axis + 1:]) if a.ndim == most else a)


def smallest(case, verdicts, verdict):
    """`verdicts`: (folder, kind) -> name of a case -> verdict."""
    best = case
    for _ in range(ROUNDS):
        candidates = []
        for candidate in [*parts(best), *fewer(best), *smaller_extents(best)]:
            if len(candidates) == AT_ONCE:
                break
            if size(candidate) >= size(best):
                continue
            try:
                sure, candidate.results = oracle.expected(candidate)
                if all(np.isfinite(a.astype(np.float64)).all() for a in candidate.results if oracle.is_float(a)) and oracle.steady(candidate, sure, np.random.default_rng(1)):
                    candidates.append(candidate)
            except Exception:
                continue
        if not candidates:
            break
        with tempfile.TemporaryDirectory() as folder:
            for i, candidate in enumerate(candidates):
                candidate.save(os.path.join(folder, f"{i:03d}"))
            found = verdicts(folder, "exact" if case.exact else case.kind)
        failing = [c for i, c in enumerate(candidates) if found.get(f"{i:03d}") == verdict]
        if not failing:
            break
        best = min(failing, key=size)
    return best
