# SPDX-License-Identifier: Apache-2.0
"""Writes the models of the tests on the scripted backend; they are committed, so this runs only when they change: make_models.py FOLDER"""
import sys
from pathlib import Path

from onnx import TensorProto, checker, helper, numpy_helper
import numpy as np

folder = Path(sys.argv[1])
x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 4])
y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])
z = helper.make_tensor_value_info("z", TensorProto.INT64, [2, None])
c = numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(2, 4) * 10, "c")


def write(name, nodes, outputs, initializers, inputs=(x,)):
    graph = helper.make_graph(nodes, name, list(inputs), outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model, full_check=True)
    (folder / f"{name}.onnx").write_bytes(model.SerializeToString())


write("accepted",
      [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Add", ["r", "c"], ["y"], name="add"),
       helper.make_node("NonZero", ["r"], ["z"], name="nonzero")],
      [y, z], [c])
write("refused", [helper.make_node("Relu", ["x"], ["r"], name="relu"), helper.make_node("Sigmoid", ["r"], ["s"], name="sigmoid"),
                  helper.make_node("Tanh", ["s"], ["y"], name="tanh")], [y], [])
rows = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 4]) for name in "xy"]
write("rows", [helper.make_node("Relu", ["x"], ["y"], name="relu")], rows[1:], [], rows[:1])
