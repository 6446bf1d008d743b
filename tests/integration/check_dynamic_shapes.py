#!/usr/bin/env python3
"""Models of data-dependent shapes, on the cpu backend: results are ONNX Runtime's, and what comes before is planned.

check_dynamic_shapes.py BUILD SHARED, run by a Python that has numpy, onnx and onnxruntime.
"""
import json
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import check, finish, new_folder, require, run  # noqa: E402

folder = new_folder()


class Network:
    def __init__(self, seed):
        self.rng, self.nodes, self.initializers, self.count = np.random.default_rng(seed), [], [], 0

    def const(self, value):
        self.count += 1
        self.initializers.append(numpy_helper.from_array(np.asarray(value), f"k{self.count}"))
        return f"k{self.count}"

    def weights(self, *shape):
        fan = np.prod(shape[1:]) if len(shape) > 1 else shape[0]
        return self.const((self.rng.standard_normal(shape) * np.sqrt(2 / fan)).astype(np.float32))

    def node(self, op, *inputs, outputs=1, name=None, **attributes):
        self.count += 1
        made = [name or f"t{self.count}"] if outputs == 1 else [f"t{self.count}_{i}" for i in range(outputs)]
        self.nodes.append(h.make_node(op, list(inputs), made, name=f"{op}_{len(self.nodes)}", **attributes))
        return made[0] if outputs == 1 else made

    def conv(self, x, channels_in, channels_out, kernel=3, stride=1):
        y = self.node("Conv", x, self.weights(channels_out, channels_in, kernel, kernel), self.weights(channels_out),
                      strides=[stride, stride], pads=[kernel // 2] * 4)
        return self.node("Relu", y) if kernel > 1 else y

    def save(self, name, inputs, outputs):
        graph = h.make_graph(self.nodes, name, [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                             [h.make_tensor_value_info(n, t, s) for n, t, s in outputs], self.initializers)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)
        onnx.checker.check_model(model)
        path = os.path.join(folder, name + ".onnx")
        onnx.save(model, path)
        return path


def detector(name, second_stage=False, nms=True):
    """A convolutional network with NonMaxSuppression at its end; with a second stage, features of the boxes go through a product."""
    n = Network(0)
    x = "image"
    for channels_in, channels_out, stride in ((3, 16, 2), (16, 32, 2), (32, 64, 1), (64, 64, 2), (64, 128, 1), (128, 128, 2)):
        x = n.conv(x, channels_in, channels_out, stride=stride)
    boxes = n.node("Transpose", n.node("Reshape", n.conv(x, 128, 4, 1), n.const(np.array([1, 4, 196]))), perm=[0, 2, 1])
    boxes = n.node("Sigmoid", boxes, name="boxes")
    scores = n.node("Sigmoid", n.node("Reshape", n.conv(x, 128, 3, 1), n.const(np.array([1, 3, 196]))), name="scores")
    outputs = [("boxes", T.FLOAT, [1, 196, 4]), ("scores", T.FLOAT, [1, 3, 196])]
    if nms:
        selected = n.node("NonMaxSuppression", boxes, scores, n.const(np.array([50])), n.const(np.array([0.5], np.float32)),
                          n.const(np.array([0.55], np.float32)), name="selected")
        which = n.node("Gather", selected, n.const(np.array(2)), axis=1)
        n.node("Gather", boxes, which, axis=1, name="found")
        outputs = [("selected", T.INT64, ["n", 3]), ("found", T.FLOAT, [1, "n", 4])] + outputs[:1]
        if second_stage:
            features = n.node("Transpose", n.node("Reshape", x, n.const(np.array([128, 196]))), perm=[1, 0])
            rows = n.node("Gather", features, which, axis=0)
            hidden = n.node("Relu", n.node("Gemm", rows, n.weights(128, 256), n.weights(256)))
            n.node("Softmax", n.node("MatMul", hidden, n.weights(256, 10)), name="classes", axis=1)
            outputs.append(("classes", T.FLOAT, ["n", 10]))
    return n.save(name, [("image", T.FLOAT, [1, 3, 224, 224])], outputs)


def chosen():
    """Rows that are positive somewhere, by NonZero; as many as a run says, by TopK; a Reshape by numbers that a run computes."""
    n = Network(1)
    x = n.node("MatMul", "x", n.weights(32, 32))
    where = n.node("NonZero", n.node("Greater", n.node("ReduceMax", x, axes=[1], keepdims=0), n.const(np.array(1.5, np.float32))))
    rows = n.node("Gather", x, n.node("Squeeze", where, n.const(np.array([0]))), axis=0)
    n.node("MatMul", rows, n.weights(32, 8), name="rows")
    k = n.node("Reshape", n.node("ReduceSum", n.node("Cast", "keep", to=T.INT64), keepdims=0), n.const(np.array([1])))
    values, indices = n.node("TopK", n.node("Flatten", x, axis=0), k, outputs=2)
    n.node("Relu", values, name="best")
    n.node("Identity", indices, name="places")
    shape = n.node("Concat", k, n.const(np.array([-1])), axis=0)
    n.node("Tanh", n.node("Reshape", x, shape), name="shaped")
    return n.save("chosen", [("x", T.FLOAT, [64, 32]), ("keep", T.INT32, [4])],
                  [("rows", T.FLOAT, ["n", 8]), ("best", T.FLOAT, [1, "k"]), ("places", T.INT64, [1, "k"]), ("shaped", T.FLOAT, ["k", "m"])])


def compare(title, path, inputs, backend="cpu", model=None):
    save = os.path.join(folder, "out")
    arguments = []
    for name, value in inputs.items():
        np.save(os.path.join(folder, name + ".npy"), value)
        arguments += ["-i", f"{name}={folder}/{name}.npy"]
    check(title, run("run", path, "--backend", backend, *arguments, "-o", save), 0)
    session = onnxruntime.InferenceSession(model or path, providers=["CPUExecutionProvider"])
    for output, expected in zip(session.get_outputs(), session.run(None, inputs)):
        found = np.load(os.path.join(save, output.name + ".npy"))
        same = found.shape == expected.shape and (
            np.array_equal(found, expected) if expected.dtype.kind == "i" else np.allclose(found, expected, rtol=1e-3, atol=1e-5))
        require(f"{title}: {output.name}", same, f"{found.shape} {found.ravel()[:8]}, expected {expected.shape} {expected.ravel()[:8]}")


def ways(path):
    """Per node of a model: by what the cpu backend runs it."""
    result = check(f"check {path}", run("check", path, "--backend", "cpu", "--json"), 0)
    return {n["name"]: n["kernel"] for n in json.loads(result.stdout)["nodes"]}


def images(count):
    rng = np.random.default_rng(7)
    return [{"image": rng.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(count)]


one, two, head, rows = detector("one_stage"), detector("two_stage", True), detector("head", nms=False), chosen()
random = np.random.default_rng(3)
for title, path, runs in (("a detector", one, images(3)), ("a detector of two stages", two, images(3)),
                          ("chosen rows", rows, [{"x": random.standard_normal((64, 32)).astype(np.float32), "keep": np.array([a, 1, 1, 0], np.int32)}
                                                 for a in (0, 2, 14)])):
    container = path.replace(".onnx", ".qrm")
    check(f"{title}: compile", run("compile", path, "--backend", "cpu", "-o", container, "-O", "container.keep_graph=0"), 0)
    for inputs in runs:
        compare(title, path, inputs)
        compare(title + " in a container", container, inputs, model=path)
    compare(title + " on cpu-reference", path, runs[0], backend="cpu-reference")

found = ways(two)
planned = [name for name, kernel in found.items() if name.startswith("Conv")]
require("convolutions are planned", all(found[name].startswith(("ConvF32", "fused into Conv")) for name in planned) and len(planned) == 8, found)
require("the dynamic region says so", any(k == "data-dependent shape: reference: NonMaxSuppression" for k in found.values()) and
        any(k == "data-dependent shape: planned when they are known" for k in found.values()), found)


def median(path):
    result = check(f"bench {path}", run("bench", path, "--backend", "cpu", "--threads", "1", "-d", "1", "--json", "-"), 0)
    return json.loads(result.stdout)["median_ms"]


# Whole on cpu-reference it takes ten times as long: noise does not hide that.
times = {path: min(median(path) for _ in range(2)) for path in (head, one)}
require("a detector takes the time of what is planned", times[one] < 2 * times[head], times)
shutil.rmtree(folder)
finish()
