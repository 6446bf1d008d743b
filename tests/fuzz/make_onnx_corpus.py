# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX files of corpus/onnx: small models, each for one part of the importer. They are committed, so this runs only
when they change: make_onnx_corpus.py FOLDER"""
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto as T
from onnx import checker, helper, numpy_helper

folder = Path(sys.argv[1])
F, I = T.FLOAT, T.INT64
rng = np.random.default_rng(1)


def real(name, *shape):
    return numpy_helper.from_array(rng.uniform(-1, 1, shape).astype(np.float32), name)


def ints(name, *values):
    return numpy_helper.from_array(np.array(values, np.int64), name)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(" ") if inputs else [], outputs.split(" "), name=f"{op}_{outputs.split(' ')[0]}", **attributes)


def write(name, nodes, inputs, outputs, constants=(), opset=17, domains=(), functions=(), check=True, sparse=(), change=None):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants), sparse_initializer=list(sparse))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in domains]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions), producer_name="quarry")
    helper.set_model_props(model, {"author": "quarry"})
    if check:
        checker.check_model(model)
    if change:
        change(model)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


x = value("x", F, [1, 3, 8, 8])
write("convolutions", [node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2]), node("BatchNormalization", "c s s s v", "n"), node("Relu", "n", "r"),
                       node("MaxPool", "r", "m", kernel_shape=[2, 2]), node("GlobalAveragePool", "m", "g"), node("Flatten", "g", "f"),
                       node("Gemm", "f k", "l", transB=1), node("Softmax", "l", "y")],
      [x], [value("y", F, [1, 5])], [real("w", 4, 3, 3, 3), real("b", 4), real("s", 4), numpy_helper.from_array(np.ones(4, np.float32), "v"), real("k", 5, 4)])
write("shape_arithmetic", [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n zero1", "u"), node("Concat", "u minus", "t", axis=0),
                           node("Reshape", "x t", "r"), node("Slice", "r zero1 three one", "c"), node("ConstantOfShape", "t2", "z"), node("Add", "c z", "y")],
      [value("x", F, ["batch", 2, 3])], [value("y", F, ["batch", "rest"])],
      [numpy_helper.from_array(np.array(0, np.int64), "zero"), ints("zero1", 0), ints("minus", -1), ints("three", 3), ints("one", 1), ints("t2", 1, 3)])
write("quantised", [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "d"), node("DequantizeLinear", "w ws wz", "dw", axis=0),
                    node("Conv", "d dw", "c"), node("QuantizeLinear", "c s z", "r"), node("DequantizeLinear", "r s z", "y"),
                    node("QLinearMatMul", "a s z b s z s z", "p")],
      [x, value("a", T.UINT8, [2, 3])], [value("y", F, [1, 2, 6, 6]), value("p", T.UINT8, [2, 2])],
      [numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.uint8(128), "z"), numpy_helper.from_array(rng.integers(-9, 9, (2, 3, 3, 3)).astype(np.int8), "w"),
       numpy_helper.from_array(np.array([0.1, 0.2], np.float32), "ws"), numpy_helper.from_array(np.zeros(2, np.int8), "wz"),
       numpy_helper.from_array(rng.integers(0, 255, (3, 2)).astype(np.uint8), "b")])

then = helper.make_graph([node("Add", "x c", "t")], "then", [], [value("t", F, [2])], [real("c", 2)])
other = helper.make_graph([node("Neg", "x", "e")], "else", [], [value("e", F, [2])])
body = helper.make_graph([node("Add", "carried x", "next"), node("Identity", "go", "more"), node("Mul", "next next", "scanned")], "body",
                         [value("i", I, []), value("go", T.BOOL, []), value("carried", F, [2])],
                         [value("more", T.BOOL, []), value("next", F, [2]), value("scanned", F, [2])])
step = helper.make_graph([node("Add", "state sample", "sum"), node("Relu", "sum", "out")], "step", [value("state", F, [2]), value("sample", F, [2])],
                         [value("sum", F, [2]), value("out", F, [2])])
write("control_flow", [node("If", "flag", "chosen", then_branch=then, else_branch=other), node("Loop", "trips yes chosen", "last all", body=body),
                       node("Scan", "last seq", "final steps", body=step, num_scan_inputs=1)],
      [value("x", F, [2]), value("flag", T.BOOL, []), value("seq", F, [4, 2])], [value("final", F, [2]), value("steps", F, [4, 2]), value("all", F, ["n", 2])],
      [numpy_helper.from_array(np.array(3, np.int64), "trips"), numpy_helper.from_array(np.array(True), "yes")])
write("recurrent", [node("LSTM", "x w r b", "y h c", hidden_size=2), node("GRU", "x gw gr", "g", hidden_size=2, direction="reverse")],
      [value("x", F, [3, 1, 4])], [value("y", F, [3, 1, 1, 2]), value("h", F, [1, 1, 2]), value("c", F, [1, 1, 2]), value("g", F, [3, 1, 1, 2])],
      [real("w", 1, 8, 4), real("r", 1, 8, 2), real("b", 1, 16), real("gw", 1, 6, 4), real("gr", 1, 6, 2)])
write("attention_pieces", [node("MatMul", "q k", "s"), node("Div", "s scale", "d"), node("Softmax", "d", "p", axis=-1), node("MatMul", "p v", "o"),
                           node("Einsum", "o e", "m", equation="bij,jk->bik"), node("ReduceMean", "m", "mean", axes=[-1]), node("Sub", "m mean", "c"), node("Pow", "c two", "sq"),
                           node("ReduceMean", "sq", "var", axes=[-1]), node("Add", "var eps", "ve"), node("Sqrt", "ve", "sd"), node("Div", "c sd", "n"),
                           node("Erf", "n", "er"), node("Add", "er one", "e1"), node("Mul", "n e1", "y")],
      [value("q", F, [2, 3, 4]), value("k", F, [2, 4, 3]), value("v", F, [2, 3, 4])], [value("y", F, [2, 3, 5])],
      [numpy_helper.from_array(np.float32(2), "scale"), numpy_helper.from_array(np.float32(2), "two"), numpy_helper.from_array(np.float32(1e-5), "eps"),
       numpy_helper.from_array(np.float32(1), "one"), real("e", 4, 5)])
kinds = [T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.INT8, T.UINT8, T.INT16, T.UINT16, T.INT32, T.UINT32, T.INT64, T.UINT64, T.BOOL]
write("typed_constants", [node("Cast", f"c{k}", f"f{k}", to=F) for k in kinds] + [node("Sum", "x " + " ".join(f"f{k}" for k in kinds), "y")],
      [value("x", F, [3])], [value("y", F, [3])], [helper.make_tensor(f"c{k}", k, [3], [0, 1, 1]) for k in kinds])
write("sparse_constant", [node("MatMul", "x w", "y")], [value("x", F, [2, 3])], [value("y", F, [2, 4])], check=False,
      sparse=[helper.make_sparse_tensor(real("w", 3), ints("", 0, 5, 11), [3, 4])])


def move_outside(model):
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = T.EXTERNAL
    for key, text in (("location", "weights.bin"), ("offset", "0"), ("length", "48")):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, text


write("external_data", [node("MatMul", "x w", "y")], [value("x", F, [2, 3])], [value("y", F, [2, 4])], [real("w", 3, 4)], change=move_outside)
function = helper.make_function("ours", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["s"]), helper.make_node("LeakyRelu", ["s"], ["b"], alpha=0.2)],
                                [helper.make_opsetid("", 17)])
write("functions", [helper.make_node("Twice", ["x"], ["t"], domain="ours"), helper.make_node("Twice", ["t"], ["y"], domain="ours")],
      [value("x", F, [2])], [value("y", F, [2])], domains=["ours"], functions=[function])
write("contrib", [helper.make_node("FusedMatMul", ["x", "w"], ["m"], domain="com.microsoft", transB=1, alpha=0.5), helper.make_node("Gelu", ["m"], ["g"], domain="com.microsoft"),
                  helper.make_node("SkipLayerNormalization", ["g", "g", "s"], ["y"], domain="com.microsoft", epsilon=1e-5)],
      [value("x", F, [1, 2, 3])], [value("y", F, [1, 2, 4])], [real("w", 4, 3), real("s", 4)], domains=["com.microsoft"], check=False)
write("custom", [helper.make_node("Wobble", ["x"], ["y"], domain="ours", strength=2, words=["a", "b"])], [value("x", F, [2])], [value("y", F, [2])], domains=["ours"], check=False)
write("other_runtime", [helper.make_node("EPContext", ["x"], ["y"], domain="com.microsoft", ep_cache_context="AAAA", embed_mode=1, source="Other")],
      [value("x", F, [2])], [value("y", F, [2])], domains=["com.microsoft"], check=False)
write("old_opset", [node("Upsample", "x", "u", mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
                    node("BatchNormalization", "u s s s s", "n"), node("Reshape", "n to", "r"), node("Softmax", "r", "f"), node("Dropout", "f", "y")],
      [x], [value("y", F, [1, 768])], [real("s", 3), ints("to", 1, -1)], opset=7, check=False)
write("resize_and_sample", [node("Resize", "x  scales", "r", mode="cubic", coordinate_transformation_mode="align_corners"), node("GridSample", "x grid", "g"),
                            node("NonMaxSuppression", "boxes scores", "n"), node("TopK", "scores k", "v i"), node("NonZero", "v", "y")],
      [x, value("grid", F, [1, 4, 4, 2]), value("boxes", F, [1, 4, 4]), value("scores", F, [1, 2, 4])], [value("r", F, None), value("g", F, None), value("n", I, None), value("y", I, None)],
      [numpy_helper.from_array(np.array([1, 1, 0.5, 1.5], np.float32), "scales"), ints("k", 2)], check=False)
write("folded", [node("Range", "a b c", "r"), node("Tile", "r reps", "t"), node("Where", "mask t t", "w"), node("ScatterND", "w at upd", "s"), node("CumSum", "s axis", "u"),
                 node("Cast", "u", "f", to=F), node("Add", "x f", "y")],
      [value("x", F, [6])], [value("y", F, [6])],
      [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in (("a", 0), ("b", 3), ("c", 1))] +
      [ints("reps", 2), numpy_helper.from_array(np.array([True] * 6), "mask"), numpy_helper.from_array(np.array([[1]], np.int64), "at"), ints("upd", 7),
       numpy_helper.from_array(np.array(0, np.int64), "axis")])
write("sequences", [node("SplitToSequence", "x", "s"), node("SequenceAt", "s at", "y")], [value("x", F, [2, 3])], [value("y", F, None)],
      [numpy_helper.from_array(np.array(0, np.int64), "at")], check=False)
