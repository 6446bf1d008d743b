# SPDX-License-Identifier: Apache-2.0
"""What is right: results of ONNX Runtime, else of ONNX's reference evaluator, and how far they may be believed.

A Case is a small model with values: nodes, inputs, constants and names of outputs. `expected` computes it; floats other than f32 are computed in f32 where
that means the same, and rounded at the end, as ONNX Runtime's own kernels for them are few and round between steps. `steady` says whether the results stay
where they are when operands lie some units in the last place beside: no difference says anything where they do not.
"""
import os
import shutil
import sys

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ort_session import make_session

# How `quarry conform` checks results of a type: rtol, atol, range_floor, and what the type's last place is. `steps`: of results that are quantised by 1/16;
# `npu`: f32 that is computed in f16; quantised results are within a step there too, but for what `beside_a_step` says.
# Sums of 16-bit floats are made in f32 by everybody: a quarter of their last place.
BOUNDS = {"f32": (1e-3, 1e-4, 1e-4, 2.0**-23), "f16": (1e-2, 2e-3, 4e-3, 2.0**-12), "bf16": (4e-2, 1e-2, 2e-2, 2.0**-9), "f64": (1e-6, 1e-7, 1e-7, 2.0**-52),
          "exact": (0.0, 0.0, 0.0, 0.0), "steps": (1e-3, 1.01 / 16, 1e-4, 2.0**-23), "npu": (1e-2, 2e-3, 1e-2, 2.0**-11),
          "npu steps": (1e-3, 1.01 / 16, 1e-4, 2.0**-23)}
# Of these an NPU has 11 bits of the result (docs/operators.md).
OF_ELEVEN_BITS = {"ConvInteger", "MatMulInteger"}
# Of these the evaluator computes another thing (padding of quantised convolutions, clips of recurrences, windows of even
# sizes, dilated windows under auto_pad=VALID, scalars, orders): ONNX Runtime alone is asked.
NOT_OF_THE_EVALUATOR = {"QLinearConv", "ConvInteger", "RNN", "GRU", "LSTM", "LRN", "LpPool", "GlobalMaxPool", "NonZero", "Unique"}
ort.set_default_logger_severity(4)
ORT, EVALUATOR = "ONNX Runtime", "ONNX's reference evaluator"
# What part of those bounds a result may move by.
MOVES = 0.2
SHORT = {np.dtype(np.float32): "f32", np.dtype(np.float16): "f16", np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(np.float64): "f64"}
# What floats these mean depends on their type.
OF_A_TYPE = {"Cast", "CastLike", "BitCast", "QuantizeLinear", "DequantizeLinear", "EyeLike", "IsNaN", "IsInf", "ConstantOfShape", "Range", "DynamicQuantizeLinear"}


def misread(case):
    """Whether the evaluator computes another thing: of those operators, ConvTranspose by groups with a bias, dilated windows under auto_pad=VALID."""
    grouped = any(n.op_type == "ConvTranspose" and len(n.input) > 2 and any(a.name == "group" and a.i > 1 for a in n.attribute) for n in case.nodes)
    of = lambda n, name, otherwise: next((helper.get_attribute_value(a) for a in n.attribute if a.name == name), otherwise)
    dilated = any(of(n, "auto_pad", b"") == b"VALID" and max(of(n, "dilations", [1]), default=1) > 1 for n in case.nodes)
    return grouped or dilated or bool(NOT_OF_THE_EVALUATOR & set(case.operators()))


def flags(kind):
    rtol, atol, floor, _ = BOUNDS[kind]
    return ["--rtol", str(rtol), "--atol", str(atol), "--range-floor", str(floor), "--quantized-tolerance", "0"]


class Case:
    def __init__(self, nodes, inputs, constants, outputs, opset, kind="f32", exact=False, bare=False, named=False):
        self.nodes, self.inputs, self.constants, self.outputs = nodes, inputs, constants, outputs  # inputs, constants: name -> array
        self.opset, self.kind, self.exact = opset, kind, exact
        self.bare, self.named = bare, named  # outputs are declared without a shape; dimensions of inputs have names
        self.results = self.oracle = None

    def with_(self, **changed):
        made = Case(self.nodes, self.inputs, self.constants, self.outputs, self.opset, self.kind, self.exact, self.bare, self.named)
        made.__dict__.update(changed)
        return made

    def operators(self):
        return [n.op_type for n in self.nodes]

    def model(self, results=None, lifted=False, typed=False):
        arrays = {k: lift(v) if lifted else v for k, v in {**self.inputs, **self.constants}.items()}
        read = {name for n in self.nodes for name in n.input} | set(self.outputs)
        shape = lambda array: [f"n{e}" for e in array.shape] if self.named else array.shape
        given = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(arrays[k].dtype), shape(arrays[k])) for k in self.inputs]
        if results is None and typed:
            inferred = onnx.shape_inference.infer_shapes(self.model(), check_type=True, strict_mode=True).graph.output
            made = [helper.make_tensor_value_info(o.name, o.type.tensor_type.elem_type, None) for o in inferred]
        elif results is None:
            made = [helper.make_empty_tensor_value_info(name) for name in self.outputs]
        else:
            made = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), None if self.bare or self.named else a.shape) for name, a in zip(self.outputs, results)]
        weights = [numpy_helper.from_array(np.ascontiguousarray(arrays[k]).reshape(arrays[k].shape), k) for k in self.constants if k in read]
        graph = helper.make_graph(self.nodes, "case", given, made, weights)
        domains = sorted({n.domain for n in self.nodes} - {""})
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in domains], ir_version=13 if self.opset > 24 else 10)

    def save(self, folder):
        shutil.rmtree(folder, ignore_errors=True)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        onnx.save(self.model(self.results, typed=True), os.path.join(folder, "model.onnx"))
        for prefix, pairs in (("input", self.inputs.items()), ("output", zip(self.outputs, self.results or []))):
            for i, (name, array) in enumerate(pairs):
                with open(os.path.join(data, f"{prefix}_{i}.pb"), "wb") as out:
                    out.write(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name).SerializeToString())


def is_float(array):
    return array.dtype in SHORT


def lift(array):
    return array.astype(np.float32) if is_float(array) else array


def quiet_session(model):
    return make_session(model.SerializeToString(), optimised=False)  # what each node means


class Oracle:
    """One model, computed as often as one likes. Raises what its maker raises where nobody computes it."""

    def __init__(self, case, who=None):
        floats = {a.dtype for a in [*case.inputs.values(), *case.constants.values()] if is_float(a)}
        small = floats & {np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)}
        self.back = small.pop() if len(small) == 1 and len(floats) == 1 and not OF_A_TYPE & set(case.operators()) else None
        self.outputs = list(case.outputs)
        model = case.model(lifted=self.back is not None)
        self.who = None
        if who in (None, ORT):
            try:
                self.session, self.who = quiet_session(model), ORT
                self.inputs = [i.name for i in self.session.get_inputs()]
                return
            except Exception:
                if who or misread(case):
                    raise
        elif misread(case):
            raise ValueError("not asked")
        # The evaluator takes much that is no ONNX: what ONNX's own inference refuses is nobody's case.
        inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        self.types = [helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type) for o in inferred.graph.output]
        self.session, self.who = ReferenceEvaluator(model), EVALUATOR
        self.inputs = list(case.inputs)

    def run(self, inputs):
        with np.errstate(all="ignore"):
            found = self.session.run(self.outputs, {k: lift(v) if self.back is not None else v for k, v in inputs.items() if k in self.inputs})
            found = [np.asarray(a) for a in found]
            if self.who == EVALUATOR and [a.dtype for a in found] != self.types:
                raise TypeError("the evaluator gives another type than ONNX's inference")
            return [a.astype(self.back) if self.back is not None and a.dtype == np.float32 else a for a in found]


def expected(case, who=None):
    oracle = Oracle(case, who)
    return oracle, oracle.run(case.inputs)


def within(kind, mine, other, part=1.0):
    if mine.shape != other.shape or mine.dtype != other.dtype:
        return False
    if not is_float(mine):
        return bool((mine == other).all())
    if mine.size == 0:
        return True
    rtol, atol, floor, _ = BOUNDS[kind]
    mine, other = mine.astype(np.float64), other.astype(np.float64)
    same = (mine == other) | (np.isnan(mine) & np.isnan(other))
    finite = mine[np.isfinite(mine)]
    reach = max(finite.max(initial=0), 0) - min(finite.min(initial=0), 0)
    with np.errstate(all="ignore"):
        return bool((same | (np.abs(mine - other) <= part * (max(atol, floor * reach) + rtol * np.abs(mine)))).all())


PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
MOVES_ALONE = {"Concat", "Expand", "Flatten", "Identity", "MaxPool", "Pad", "Relu", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}


def dropped(case):
    """How far products of 16-bit data may be off on an NPU, whose library drops the low byte of their sums (docs/htp/models.md): of data and of what their zero points add."""
    arrays = {**case.constants, **case.inputs}
    makers = {name: n for n in case.nodes for name in n.output if name}

    def source(name):
        """Scale and bits of what a DequantizeLinear gave, moved or not."""
        node = makers.get(name)
        while node is not None and node.op_type in MOVES_ALONE:
            node = makers.get(node.input[0])
        if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in arrays:
            return 0.0, 0
        made = makers.get(node.input[0])  # a QuantizeLinear, whose zero point has the type
        stored = arrays.get(node.input[0], arrays.get(made.input[2]) if made is not None and made.op_type == "QuantizeLinear" and len(made.input) > 2 else None)
        return float(np.max(np.abs(arrays[node.input[1]].astype(np.float64)))), 8 * stored.dtype.itemsize if stored is not None else 0

    found = 0.0
    for node in case.nodes:
        if node.op_type in PRODUCTS:
            (data, bits), (weights, _) = source(node.input[0]), source(node.input[1])
            found += 2 * 256 * data * weights if bits == 16 else 0.0
    return found


def beside_a_step(case):
    """What quantised results may be off by on an NPU beyond a step: another one, where a number that f16 put on the other side of a middle is quantised once more; and what products lack."""
    makers = {name for n in case.nodes for name in n.output if name}
    times = sum(n.op_type == "QuantizeLinear" and n.input[0] in makers for n in case.nodes)
    return (1 / 16 if times > 1 else 0.0) + dropped(case)


def wider(kind, more):
    """A kind whose bounds are wider by a number."""
    rtol, atol, floor, place = BOUNDS[kind]
    name = f"{kind} and {more:g}"
    BOUNDS[name] = (rtol, atol + more, floor, place)
    return name


def units_on_npu(case):
    """What whole numbers may be off by on an NPU: steps of what a QuantizeLinear made of products of 16 bits, and what lies behind the first 11 bits."""
    if OF_ELEVEN_BITS & set(case.operators()):
        return int(np.ceil(2.0**-11 * max(float(np.abs(a.astype(np.float64)).max(initial=0)) for a in case.results)))
    return 1 + int(16 * dropped(case)) if case.kind == "steps" else 0  # steps are 1/16


def is_finite(case):
    return all(np.isfinite(a.astype(np.float32)).all() for a in [*case.inputs.values(), *case.constants.values()] if is_float(a))


def with_numbers(case):
    """The case with numbers in the place of infinities and NaN; None: nobody computes it."""
    def numbers(array):
        if not is_float(array):
            return array
        wide = array.astype(np.float32)
        return np.where(np.isfinite(wide), wide, 1.5).astype(array.dtype)
    made = case.with_(inputs={k: numbers(a) for k, a in case.inputs.items()}, constants={k: numbers(a) for k, a in case.constants.items()})
    try:
        _, made.results = expected(made)
    except Exception:
        return None
    return made


def steady(case, oracle, rng):
    """Do results stay where they are when float operands lie two units in the last place beside? Constants too: as inputs they can be moved."""
    if case.exact or case.kind == "steps":  # what jumps by a step is compared by a step
        return True
    if case.results is None:
        raise ValueError("there are no results that could move")
    floats = {k: v for k, v in case.constants.items() if is_float(v)}
    for loose in (case.with_(inputs={**case.inputs, **floats}, constants={k: v for k, v in case.constants.items() if k not in floats}), case):
        try:
            sure = Oracle(loose, oracle.who)
            return all(within(case.kind, a, b, MOVES) for way in (1, -1, 0) for a, b in zip(case.results, sure.run(beside(loose, way, rng))))
        except Exception:  # some operands must be constants: then it is the others alone
            continue
    return False


def beside(case, way, rng):
    place = BOUNDS[case.kind][3]
    return {k: np.asarray(v.astype(np.float64) * (1 + 2 * place * (way or rng.choice([-1, 1], size=v.shape)))).astype(v.dtype) if is_float(v) else v for k, v in case.inputs.items()}
