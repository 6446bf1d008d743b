# SPDX-License-Identifier: Apache-2.0
"""Small networks with random weights, for checks that compare with ONNX Runtime: what makes a graph, and a decoder."""
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper


class Network:
    def __init__(self, folder, rng):
        self.folder, self.rng = folder, rng
        self.nodes, self.initializers, self.count = [], [], 0

    def const(self, value):
        self.count += 1
        self.initializers.append(numpy_helper.from_array(np.asarray(value), f"k{self.count}"))
        return f"k{self.count}"

    def weights(self, *shape):
        return self.const((self.rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 1)).astype(np.float32))

    def node(self, op, *inputs, outputs=None, **attributes):
        self.count += 1
        made = outputs or [f"t{self.count}"]
        self.nodes.append(h.make_node(op, list(inputs), made, **attributes))
        return made[0]

    def save(self, name, inputs, outputs, opset=17):
        graph = h.make_graph(self.nodes, name, [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                             [h.make_tensor_value_info(n, t, s) for n, t, s in outputs], self.initializers)
        model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)], ir_version=9 if opset < 22 else 10)
        onnx.checker.check_model(model)
        path = os.path.join(self.folder, name + ".onnx")
        onnx.save(model, path)
        return path


def decoder(n, name, half=False):
    """Two layers of attention with causal masks; caches as exporters write them: [batch, heads, past, size], joined along axis 2."""
    heads, size, words = 3, 8, 40
    kind = T.FLOAT16 if half else T.FLOAT
    x = n.node("Gather", n.weights(words, heads * size), "input_ids")
    inputs, outputs = [("input_ids", T.INT64, [1, "seq"])], [("logits", T.FLOAT, [1, "seq", words])]
    new = n.node("Gather", n.node("Shape", "input_ids"), n.const(np.array(1)))
    for layer in range(2):
        def head_first(rows):
            return n.node("Transpose", n.node("Reshape", rows, n.const(np.array([0, 0, heads, size]))), perm=[0, 2, 1, 3])

        normal = n.node("LayerNormalization", x, n.const(np.ones(heads * size, np.float32)), axis=-1)
        parts = [head_first(n.node("MatMul", normal, n.weights(heads * size, heads * size))) for _ in range(3)]
        whole = []
        for kv, part in zip(("key", "value"), parts[1:]):
            past, present = f"past_key_values.{layer}.{kv}", f"present.{layer}.{kv}"
            inputs.append((past, kind, [1, heads, "past_sequence_length", size]))
            outputs.append((present, kind, [1, heads, "past_sequence_length + seq", size]))
            part = n.node("Cast", part, to=T.FLOAT16) if half else part
            n.node("Concat", past, part, outputs=[present], axis=2)
            whole.append(n.node("Cast", present, to=T.FLOAT) if half else present)
        total = n.node("Gather", n.node("Shape", whole[0]), n.const(np.array(2)))
        zero, one = n.const(np.array(0)), n.const(np.array(1))
        columns = n.node("Range", zero, total, one)
        rows = n.node("Add", n.node("Range", zero, new, one), n.node("Sub", total, new))
        hidden = n.node("Greater", n.node("Unsqueeze", columns, n.const(np.array([0]))), n.node("Unsqueeze", rows, n.const(np.array([1]))))
        mask = n.node("Where", hidden, n.const(np.array(-1e9, np.float32)), n.const(np.array(0, np.float32)))
        scores = n.node("Mul", n.node("MatMul", parts[0], n.node("Transpose", whole[0], perm=[0, 1, 3, 2])), n.const(np.array(size ** -0.5, np.float32)))
        seen = n.node("MatMul", n.node("Softmax", n.node("Add", scores, mask), axis=-1), whole[1])
        joined = n.node("Reshape", n.node("Transpose", seen, perm=[0, 2, 1, 3]), n.const(np.array([0, 0, heads * size])))
        x = n.node("Add", x, n.node("MatMul", joined, n.weights(heads * size, heads * size)))
    n.node("MatMul", x, n.weights(heads * size, words), outputs=["logits"])
    return n.save(name, inputs, outputs)


def grouped_decoder(n, name, length="past_sequence_length", tokens="seq", batch=1):
    """One layer of com.microsoft's GroupQueryAttention, which is given its lengths as onnxruntime-genai does. length: of the cache, a number or a name; batch likewise."""
    heads, groups, size, words, most = 4, 2, 16, 40, 64
    x = n.node("Gather", n.weights(words, heads * size), "input_ids")
    parts = [n.node("MatMul", x, n.weights(heads * size, count * size)) for count in (heads, groups, groups)]
    angles = np.outer(np.arange(most), 10000.0 ** (-np.arange(size // 2) * 2 / size)).astype(np.float32)
    y = n.node("GroupQueryAttention", *parts, "past_key_values.0.key", "past_key_values.0.value", "seqlens_k", "total_sequence_length", n.const(np.cos(angles)), n.const(np.sin(angles)),
               outputs=["attended", "present.0.key", "present.0.value"], domain="com.microsoft", num_heads=heads, kv_num_heads=groups, do_rotary=1)
    x = n.node("Add", x, n.node("MatMul", y, n.weights(heads * size, heads * size)))
    n.node("MatMul", x, n.weights(heads * size, words), outputs=["logits"])
    cache = lambda dim: [batch, groups, dim, size]
    inputs = [("input_ids", T.INT64, [batch, tokens]), ("seqlens_k", T.INT32, [batch]), ("total_sequence_length", T.INT32, [])]
    inputs += [(f"past_key_values.0.{kv}", T.FLOAT, cache(length)) for kv in ("key", "value")]
    outputs = [("logits", T.FLOAT, [batch, tokens, words])]
    outputs += [(f"present.0.{kv}", T.FLOAT, cache(length if isinstance(length, int) else "total")) for kv in ("key", "value")]
    return n.save(name, inputs, outputs)


def attention_decoder(n, name):
    """A layer of ONNX's own Attention, of groups of heads, which makes the caches longer itself."""
    heads, groups, size, words = 4, 2, 8, 40
    x = n.node("Gather", n.weights(words, heads * size), "input_ids")
    parts = [n.node("MatMul", x, n.weights(heads * size, count * size)) for count in (heads, groups, groups)]
    y = n.node("Attention", *parts, "", "past_key_values.0.key", "past_key_values.0.value", outputs=["seen", "present.0.key", "present.0.value"], is_causal=1, q_num_heads=heads, kv_num_heads=groups)
    n.node("MatMul", n.node("Add", x, n.node("MatMul", y, n.weights(heads * size, heads * size))), n.weights(heads * size, words), outputs=["logits"])
    cache = lambda dim: [1, groups, dim, size]
    inputs = [("input_ids", T.INT64, [1, "seq"])] + [(f"past_key_values.0.{kv}", T.FLOAT, cache("past_sequence_length")) for kv in ("key", "value")]
    outputs = [("logits", T.FLOAT, [1, "seq", words])] + [(f"present.0.{kv}", T.FLOAT, cache("total")) for kv in ("key", "value")]
    return n.save(name, inputs, outputs, opset=23)


def batched_decoder(n, name, positions="input"):
    """Two layers as Optimum writes them: any batch, an attention_mask that hides entries of the cache, positions that are given, or come of the mask."""
    heads, size, words, most = 3, 8, 40, 256
    width = heads * size
    x = n.node("Add", n.node("Gather", n.weights(words, width), "input_ids"), n.node("Gather", n.const(n.rng.standard_normal((most, width)).astype(np.float32)), places(n, positions)))
    given = [(name, T.INT64, ["batch", dim]) for name, dim in (("input_ids", "seq"), ("attention_mask", "total"), ("position_ids", "seq"))]
    inputs, outputs = given[:2 if positions == "mask" else 3], [("logits", T.FLOAT, ["batch", "seq", words])]
    axes = lambda *which: n.const(np.array(which))
    number = lambda of, axis: n.node("Gather", n.node("Shape", of), n.const(np.array(axis)))
    zero, one, total, new = n.const(np.array(0)), n.const(np.array(1)), number("attention_mask", 1), number("input_ids", 1)
    rows = n.node("Add", n.node("Range", zero, new, one), n.node("Sub", total, new))
    later = n.node("Greater", n.node("Unsqueeze", n.node("Range", zero, total, one), axes(0)), n.node("Unsqueeze", rows, axes(1)))
    hidden = n.node("Unsqueeze", n.node("Equal", "attention_mask", zero), axes(1, 2))
    mask = n.node("Where", n.node("Or", hidden, later), n.const(np.array(np.finfo(np.float32).min, np.float32)), n.const(np.array(0, np.float32)))
    for layer in range(2):
        def head_first(rows):
            return n.node("Transpose", n.node("Reshape", rows, n.const(np.array([0, 0, heads, size]))), perm=[0, 2, 1, 3])

        normal = n.node("LayerNormalization", x, n.const(np.ones(width, np.float32)), axis=-1)
        parts = [head_first(n.node("MatMul", normal, n.weights(width, width))) for _ in range(3)]
        for kv, part in zip(("key", "value"), parts[1:]):
            past, present = f"past_key_values.{layer}.{kv}", f"present.{layer}.{kv}"
            inputs.append((past, T.FLOAT, ["batch", heads, "past_sequence_length", size]))
            outputs.append((present, T.FLOAT, ["batch", heads, "past_sequence_length + seq", size]))
            n.node("Concat", past, part, outputs=[present], axis=2)
        scores = n.node("Mul", n.node("MatMul", parts[0], n.node("Transpose", f"present.{layer}.key", perm=[0, 1, 3, 2])), n.const(np.array(size ** -0.5, np.float32)))
        seen = n.node("MatMul", n.node("Softmax", n.node("Add", scores, mask), axis=-1), f"present.{layer}.value")
        joined = n.node("Reshape", n.node("Transpose", seen, perm=[0, 2, 1, 3]), n.const(np.array([0, 0, width])))
        x = n.node("Add", x, n.node("MatMul", joined, n.weights(width, width)))
    n.node("MatMul", x, n.weights(width, words), outputs=["logits"])
    return n.save(name, inputs, outputs)


def places(n, positions):
    """The positions of new tokens: an input, or the last of what the mask counts."""
    if positions == "input":
        return "position_ids"
    one = n.const(np.array(1))
    counted = n.node("Sub", n.node("CumSum", "attention_mask", one), one)
    new = n.node("Shape", "input_ids", start=1)
    return n.node("Slice", counted, n.node("Neg", new), n.const(np.array([2 ** 40])), n.const(np.array([1])))


def streaming(n, name, kind):
    """Frames through a convolution that keeps its last ones, and a recurrent layer; and pieces of them."""
    rng, channels, width = n.rng, 6, 5
    joined = n.node("Concat", "conv_cache", "x", axis=2)
    n.node("Slice", joined, n.const(np.array([-2])), n.const(np.array([2 ** 40])), n.const(np.array([2])), outputs=["conv_cache_out"])
    steps = n.node("Transpose", n.node("Tanh", n.node("Conv", joined, n.weights(width, channels, 3))), perm=[2, 0, 1])
    gates = {"LSTM": 4, "GRU": 3}[kind]
    state = ["h", "c"] if kind == "LSTM" else ["h"]
    made = ["rows", "hn", "cn"] if kind == "LSTM" else ["rows", "hn"]
    n.node(kind, steps, n.weights(1, gates * width, width), n.weights(1, gates * width, width), "", "", *state, outputs=made, hidden_size=width)
    n.node("Squeeze", "rows", n.const(np.array([1])), outputs=["y"])
    inputs = [("x", T.FLOAT, ["batch", channels, "frames"]), ("conv_cache", T.FLOAT, ["batch", channels, 2])]
    outputs = [("y", T.FLOAT, ["frames", "batch", width]), ("conv_cache_out", T.FLOAT, ["batch", channels, 2])]
    for one in state:
        inputs.append((one, T.FLOAT, [1, "batch", width]))
        outputs.append((one + "n", T.FLOAT, [1, "batch", width]))
    return n.save(name, inputs, outputs), [rng.standard_normal((2, channels, count)).astype(np.float32) for count in (4, 1, 2, 1, 7, 1)]


def with_mask(path, to):
    """grouped_decoder as the builder of onnxruntime-genai writes it: both lengths come of an attention_mask."""
    model = onnx.load(path)
    graph = model.graph
    for info in [info for info in graph.input if info.name in ("seqlens_k", "total_sequence_length")]:
        graph.input.remove(info)
    graph.input.insert(1, h.make_tensor_value_info("attention_mask", T.INT64, [1, "total_sequence_length"]))
    graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in (("axis", np.array([1])), ("less", np.array([1])), ("at", np.array(1))))
    made = [h.make_node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=0), h.make_node("Sub", ["sum", "less"], ["last"]), h.make_node("Cast", ["last"], ["seqlens_k"], to=T.INT32),
            h.make_node("Shape", ["attention_mask"], ["lengths"]), h.make_node("Gather", ["lengths", "at"], ["total"]), h.make_node("Cast", ["total"], ["total_sequence_length"], to=T.INT32)]
    for index, node in enumerate(made):
        graph.node.insert(index, node)
    onnx.checker.check_model(model)
    onnx.save(model, to)
    return to
