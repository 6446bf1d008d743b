# SPDX-License-Identifier: Apache-2.0
"""What a graph of QuantizeLinear and DequantizeLinear means: every node in f64, but for the quotient of QuantizeLinear, which ONNX has in f32; the nearest integer, ties to even. For tools/bench/bench_quantize.py, which holds runtimes to it.

Operators of convolutional networks are written here; onnx's reference evaluator has the others, in f64 too.
"""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


def along(values, like, axis):
    shape = [1] * like.ndim
    if values.size > 1:
        shape[axis] = values.size
    return values.reshape(shape if values.size > 1 else ())


def windows(x, kernel, a, fill):
    """For each tap of a window over the last two axes: its position, and x there. And the shape of the result."""
    strides, dilations, pads = a.get("strides", [1, 1]), a.get("dilations", [1, 1]), list(a.get("pads", [0] * 4))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations)]
    extents = []
    for i in range(2):
        size = x.shape[2 + i]
        if a.get("auto_pad", "NOTSET").startswith("SAME"):
            extents.append(-(-size // strides[i]))
            total = max(0, (extents[i] - 1) * strides[i] + reach[i] - size)
            pads[i] = total // 2 if a["auto_pad"] == "SAME_UPPER" else total - total // 2
            pads[i + 2] = total - pads[i]
        else:
            room = size + pads[i] + pads[i + 2] - reach[i]
            extents.append((-(-room // strides[i]) if a.get("ceil_mode") else room // strides[i]) + 1)
            if a.get("ceil_mode") and (extents[i] - 1) * strides[i] >= size + pads[i]:
                extents[i] -= 1
    more = [max(0, (extents[i] - 1) * strides[i] + reach[i] - x.shape[2 + i] - pads[i] - pads[i + 2]) for i in range(2)]
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2] + more[0]), (pads[1], pads[3] + more[1])), constant_values=fill)

    def taps():
        for i in range(kernel[0]):
            for j in range(kernel[1]):
                top, left = i * dilations[0], j * dilations[1]
                yield i, j, x[:, :, top:top + (extents[0] - 1) * strides[0] + 1:strides[0], left:left + (extents[1] - 1) * strides[1] + 1:strides[1]]
    return taps(), extents


def conv(x, w, b, a):
    if x.ndim == 3:  # a line is an image one pixel high
        flat = {**a, **{key: [1, *a[key]] for key in ("strides", "dilations") if key in a}}
        if "pads" in a:
            flat["pads"] = [0, a["pads"][0], 0, a["pads"][1]]
        return conv(x[:, :, None], w[:, :, None], b, flat)[:, :, 0]
    groups, (outputs, inputs) = a.get("group", 1), w.shape[:2]
    taps, extents = windows(x, w.shape[2:], a, 0)
    out = np.zeros((len(x), outputs, *extents))
    for i, j, at in taps:
        if inputs == 1 and outputs == groups:
            out += at * w[:, 0, i, j][None, :, None, None]
        else:
            out += np.matmul(w[:, :, i, j].reshape(1, groups, outputs // groups, inputs), at.reshape(len(x), groups, inputs, -1)).reshape(out.shape)
    return out if b is None else out + b.reshape(1, -1, 1, 1)


def max_pool(x, a):
    out = None
    for _, _, at in windows(x, a["kernel_shape"], a, -np.inf)[0]:
        out = at if out is None else np.maximum(out, at)
    return out


def resize(x, scales, sizes, a):
    for axis in range(x.ndim):
        before = x.shape[axis]
        scale = sizes[axis] / before if sizes is not None else scales[axis]
        after = int(sizes[axis]) if sizes is not None else int(np.floor(before * scale))
        if after == before:
            continue
        at, way = np.arange(after), a.get("coordinate_transformation_mode", "half_pixel")
        place = at / scale if way == "asymmetric" else at * (before - 1) / (after - 1) if way == "align_corners" else (at + 0.5) / scale - 0.5
        if a.get("mode", "nearest") == "nearest":
            nearest = {"floor": np.floor(place), "ceil": np.ceil(place), "round_prefer_floor": np.ceil(place - 0.5), "round_prefer_ceil": np.floor(place + 0.5)}
            x = np.take(x, np.clip(nearest[a.get("nearest_mode", "round_prefer_floor")], 0, before - 1).astype(int), axis)
        else:
            low = np.floor(place)
            part = along(place - low, x, axis)
            x = np.take(x, np.clip(low, 0, before - 1).astype(int), axis) * (1 - part) + np.take(x, np.clip(low + 1, 0, before - 1).astype(int), axis) * part
    return x


def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


SIMPLE = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Relu": lambda x: np.maximum(x, 0), "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdims=True), "GlobalMaxPool": lambda x: x.max(tuple(range(2, x.ndim)), keepdims=True),
}


def meaning(path, given):
    """The outputs of a model, by name."""
    model = onnx.load(path)
    values = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values.update({name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in given.items()})
    for node in model.graph.node:
        inputs = [values[name] if name else None for name in node.input] + [None] * 4
        a = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        a = {key: value.decode() if isinstance(value, bytes) else value for key, value in a.items()}
        x, op = inputs[0], node.op_type
        if op == "DequantizeLinear":
            axis, block, scale = a.get("axis", 1), a.get("block_size", 0), inputs[1].astype(np.float64)
            zero = np.zeros_like(scale) if inputs[2] is None else inputs[2].astype(np.float64)
            if block:
                scale, zero = (np.take(np.repeat(one, block, axis), np.arange(x.shape[axis]), axis) for one in (scale, zero))
            else:
                scale, zero = along(scale, x, axis), along(zero, x, axis)
            out = [(x.astype(np.float64) - zero) * scale]
        elif op == "QuantizeLinear":
            holds = np.iinfo(inputs[2].dtype)
            out = [np.clip(np.rint((x.astype(np.float32) / inputs[1]).astype(np.float64)) + int(inputs[2]), holds.min, holds.max).astype(inputs[2].dtype)]
        elif op == "Conv":
            out = [conv(x, inputs[1], inputs[2], a)]
        elif op == "MaxPool" and x.ndim == 4 and len(node.output) == 1:
            out = [max_pool(x, a)]
        elif op == "Resize":
            out = [resize(x, inputs[2], inputs[3], a)]
        elif op == "Softmax":
            out = [softmax(x, a.get("axis", -1))]
        elif op in SIMPLE:
            out = [SIMPLE[op](*(one for one in inputs if one is not None))]
        else:
            known = {name: value for name, value in zip(node.input, inputs) if name}
            shown = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in known]
            made = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in node.output if name]
            alone = helper.make_model(helper.make_graph([node], "one", shown, made), opset_imports=model.opset_import)
            out = ReferenceEvaluator(alone).run(None, known)
        values.update({name: np.asarray(value) for name, value in zip([name for name in node.output if name], out)})
    return {one.name: values[one.name] for one in model.graph.output}
