# SPDX-License-Identifier: Apache-2.0
"""Writes the two models of test_scripted.c; they are committed, so this runs only when they change: make_models.py FOLDER"""
import sys
from pathlib import Path

from onnx import TensorProto, checker, helper, numpy_helper
import numpy as np

folder = Path(sys.argv[1])
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
z = helper.make_tensor_value_info("z", TensorProto.INT64, [2, None])
c = numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(2, 4) * 10, "c")


def write(name, nodes, outputs, initializers):
    graph = helper.make_graph(nodes, name, [x], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


write("accepted",
      [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Add", ["r", "c"], ["y"], name="add"),
       helper.make_node("NonZero", ["r"], ["z"], name="nonzero")],
      [y, z], [c])
write("refused", [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Sigmoid", ["r"], ["s"], name="sigmoid"),
                  helper.make_node("Tanh", ["s"], ["y"], name="tanh")], [y], [])
