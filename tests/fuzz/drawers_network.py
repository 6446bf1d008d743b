# SPDX-License-Identifier: Apache-2.0
"""Drawers of what networks are made of: windows, normalisations, resizing, recurrences, attention, losses."""
import numpy as np

from random_operators import GROUPS, TYPES, Arg, draws

WEIGHT = 70  # in how many of 100 cases weights are constants


def window(d, space, pads=True, dilations=True, most_kernel=5):
    """Kernels, strides, pads (to their limit: one less than what the kernel covers), dilations."""
    kernel = [d.pick(*[k for k in (1, 2, 3, 3, 4, 5) if k <= most_kernel]) for _ in range(space)]
    dilation = [d.pick(1, 1, 1, 2, 3) if dilations else 1 for _ in range(space)]
    found = {"strides": [d.pick(1, 1, 2, 3) for _ in range(space)] if d.chance(80) else None, "dilations": dilation if d.chance(60) or max(dilation) > 1 else None}
    cover = [(k - 1) * x + 1 for k, x in zip(kernel, dilation)]
    if pads and d.chance(60):
        found["pads"] = [d.pick(0, 1, (c - 1) // 2, d.r.randrange(c)) if c > 1 else 0 for c in cover * 2]
    elif d.chance(40):
        found["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET")
    return kernel, cover, found


def image(d, space, channels, cover, found, batch=None):
    pads = found.get("pads") or [0] * 2 * space
    return [batch or d.pick(1, 1, 2, 3), channels] + [d.pick(max(1, c - pads[i] - pads[i + space]), c, c + 1, c + 4, c + 7, c + 14 if space < 3 else c + 3) for i, c in enumerate(cover)]


def group_of(d):
    group = d.pick(1, 1, 1, 2, 3, 4, 8, 17)
    return group, group * d.pick(1, 1, 2, 3, 4, 16 if group < 3 else 1), group * d.pick(1, 1, 2, 3, 4, 17 if group < 3 else 1)


def convolution(d):
    d.take("T")
    space = d.pick(1, 2, 2, 2, 3)
    return space, *window(d, space), *group_of(d)


@draws("Conv")
def conv(d):
    space, kernel, cover, found, group, c, out = convolution(d)
    bias = Arg(d.values([out]), 80) if d.chance(60) else None
    return [d.values(image(d, space, c, cover, found)), Arg(d.values([out, c // group] + kernel, low=-0.5, high=0.5), WEIGHT), bias], \
        {**found, "group": group if group > 1 or d.chance(40) else None, "kernel_shape": kernel if d.chance(70) else None}, 1, False


@draws("ConvTranspose")
def conv_transpose(d):
    space, kernel, cover, found, group, c, out = convolution(d)
    shape = [d.pick(1, 2), c] + [d.pick(1, 2, 4, 5) for _ in range(space)]
    strides = found.get("strides") or [1] * space
    more = {}
    if any(k < s for k, s in zip(cover, found.get("strides") or [1] * space)):
        found.pop("auto_pad", None)  # ONNX's text and ONNX Runtime differ where gaps are wider than the kernel
    if d.chance(30):
        more["output_padding"] = [d.r.randrange(max(s, (found.get("dilations") or [1] * space)[i])) for i, s in enumerate(strides)]
        more["output_padding"] = [min(p, s - 1) for p, s in zip(more["output_padding"], strides)]
    if found.get("pads"):
        full = [(n - 1) * s + k for n, s, k in zip(shape[2:], strides, cover)]
        if any(f - found["pads"][i] - found["pads"][i + space] < 1 for i, f in enumerate(full)):
            return None
    if d.chance(15) and not found.get("pads") and "auto_pad" not in found:
        more = {"output_shape": [(n - 1) * s + k - d.pick(0, 0, 1) for n, s, k in zip(shape[2:], strides, cover)]}
        if min(more["output_shape"]) < 1:
            return None
    return [d.values(shape), Arg(d.values([c, out // group] + kernel, low=-0.5, high=0.5), WEIGHT), d.pick(None, Arg(d.values([out]), 80))], \
        {**found, **more, "group": group if group > 1 or d.chance(40) else None, "kernel_shape": kernel if d.chance(70) else None}, 1, False


@draws("ConvInteger", "QLinearConv")
def conv_integer(d):
    t1, t2 = d.pick("u8", "u8", "i8"), d.pick("u8", "i8", "i8")
    space = d.pick(1, 2, 2, 2)
    kernel, cover, found = window(d, space, most_kernel=3)
    group, c, out = group_of(d)
    x, w = d.values(image(d, space, c, cover, found), t1), d.values([out, c // group] + kernel, t2)
    attributes = {**found, "group": group, "kernel_shape": kernel if d.chance(70) else None}
    if d.row.name == "ConvInteger":
        return [x, Arg(w, WEIGHT), d.pick(None, Arg(d.values([], t1), 90)), d.pick(None, Arg(d.values([], t2), 90))], attributes, 1, True
    per_channel = d.chance(40)
    scale = (2.0 ** d.n.integers(-4, 0, size=[out] if per_channel else [])).astype(np.float32)
    zero = d.values([out] if per_channel else [], t2)
    if per_channel:
        zero = np.zeros_like(zero)
    return [x, Arg(np.float32(0.25), 95), Arg(d.values([], t1), 95), Arg(w, 90), Arg(scale, 95), Arg(zero, 95), Arg(np.float32(d.pick(0.25, 0.5, 1.0)), 95), Arg(d.values([], t1), 95),
            Arg(d.values([out], "i32"), 90) if d.chance(60) else None], attributes, 1, True


@draws("MaxPool", "AveragePool", "LpPool")
def pool(d):
    op = d.row.name
    d.take()
    space = d.pick(1, 2, 2, 2, 3)
    kernel, cover, found = window(d, space)
    if found.get("pads"):  # a window of padding alone has no value; ONNX Runtime wants pads under the kernel
        found["pads"] = [min(p, k - 1) for p, k in zip(found["pads"], kernel * 2)]
    if found.get("auto_pad", "").startswith("SAME"):  # ONNX Runtime leaves dilations out of its reckoning where it pads by itself
        found["dilations"], cover = None, kernel
    if op == "MaxPool" and d.type in ("i8", "u8"):
        found["dilations"] = None if d.chance(70) else found["dilations"]
    shape = image(d, space, d.pick(1, 2, 3, 5, 8, 17), cover, found)
    attributes = {**found, "kernel_shape": kernel, "ceil_mode": d.pick(None, None, 0, 1)}
    if op == "AveragePool":
        attributes["count_include_pad"] = d.pick(None, 0, 1)
    if op == "LpPool":
        attributes["p"] = d.pick(None, 1, 2, 3)
    if op == "MaxPool" and d.chance(20):
        x = d.n.permutation(int(np.prod(shape))).reshape(shape)  # no two are equal: nobody says which index counts
        return [(x % 120 if d.type in ("i8", "u8") else x / 8).astype(TYPES[d.type])], \
            attributes, 2 if d.type == "f32" else 1, True
    return [d.values(shape, "eighths" if op == "MaxPool" else None)], attributes, 1, op == "MaxPool"


@draws("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(d):
    d.take()
    return [d.values(d.shape(low=3, high=5, empty=False), "eighths" if "Max" in d.row.name else None)], {"p": d.pick(None, 1, 2, 3) if "Lp" in d.row.name else None}, 1, "Max" in d.row.name


@draws("MaxUnpool")
def max_unpool(d):
    d.take("T1", "f32", "f16", "f64")
    n, c, h, w = d.pick(1, 2), d.pick(1, 3), d.pick(1, 2, 3), d.pick(1, 2, 4)
    out = h * 2 * w * 2
    indices = np.stack([d.n.permutation(out)[:h * w] + i * out for i in range(n * c)]).reshape(n, c, h, w).astype(np.int64)
    return [d.values([n, c, h, w], "eighths"), Arg(indices, 30)], {"kernel_shape": [2, 2], "strides": [2, 2]}, 1, True


@draws("BatchNormalization", "InstanceNormalization", "GroupNormalization")
def channel_norm(d):
    op = d.row.name
    d.take()
    c = d.pick(1, 2, 3, 4, 6, 8, 16)
    low = 2 if op == "BatchNormalization" else 3
    shape = [d.pick(1, 2, 3), c] + d.extents(d.pick(*range(low - 2, 4)), most=60, empty=False)
    if op == "BatchNormalization" and d.chance(5):
        shape = shape[:2]
    if op != "BatchNormalization" and int(np.prod(shape[2:])) * (1 if op[0] == "I" else 2) < 4:
        return None  # of few values, deviations are nobody's
    attributes = {"epsilon": d.pick(None, 1e-3, 1e-2)}
    if op == "GroupNormalization":
        attributes["num_groups"] = d.pick(*[g for g in (1, 2, 3, c) if c % g == 0])
    more = [Arg(d.values([c], low=-1, high=1), 85), Arg(d.values([c], low=0.3, high=2), 85)] if op == "BatchNormalization" else []
    return [d.values(shape), Arg(d.values([c]), 85), Arg(d.values([c]), 85), *more], attributes, 1, False


@draws("LayerNormalization", "RMSNormalization")
def row_norm(d):
    d.take()
    shape = d.shape(low=1, high=6, least=2, empty=False)
    axis = d.axis(len(shape))
    own = shape[axis:]
    if int(np.prod(own)) < 4:
        return None
    if d.chance(25):
        own = d.pick(own[-1:], [1] * len(own), [1], own)
    second = Arg(d.values(own), 85) if d.row.name[0] == "L" and d.chance(70) else None
    return [d.values(shape), Arg(d.values(own), 85), second], {"axis": axis if d.chance(85) or len(own) > 1 else None, "epsilon": d.pick(None, 1e-3)}, 1, False


@draws("MeanVarianceNormalization")
def mvn(d):
    d.take()
    shape = d.shape(low=4, high=4, least=2, empty=False)
    return [d.values(shape)], {"axes": d.pick(None, [0, 2, 3], [1], [2, 3], [-1], [1, 2, 3])}, 1, False


@draws("LRN")
def lrn(d):
    d.take()
    return [d.values(d.shape(low=4 if d.chance(90) else 3, high=4, empty=False))], {"size": d.pick(1, 3, 5, 7), "alpha": d.pick(None, 0.1, 0.5), "beta": d.pick(None, 0.5), "bias": d.pick(None, 2.0)}, 1, False


@draws("Dropout")
def dropout(d):
    d.take()
    return [d.values(d.shape(), "any"), d.pick(None, Arg(np.array(0.5, TYPES[d.type]), 90)), d.pick(None, Arg(np.array(False), 95))], {}, d.pick(1, 2), True


@draws("Resize")
def resize(d):
    mode = d.pick("nearest", "linear", "linear", "cubic", None)
    d.take("T1", *(["f32", "f16", "u8", "i8", "f64"] if mode in ("nearest", None) else ["f32", "f16"]))
    rank = 4 if mode == "cubic" else d.pick(1, 2, 3, 4, 4, 4, 5)
    shape = d.extents(rank, most=600, empty=False)
    scaled = [d.pick(0.5, 2.0, 1.0, 1.5, 3.0, 0.75) for _ in shape]
    if rank > 2 and d.chance(85):
        shape[0], scaled[0], scaled[1] = min(shape[0], 3), 1.0, 1.0
    coordinates = d.pick(None, "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates, "antialias": 1 if mode in ("linear", "cubic") and d.chance(15) else None,
                  "cubic_coeff_a": d.pick(None, -0.5) if mode == "cubic" else None, "exclude_outside": d.pick(None, None, 1) if mode == "cubic" else None,
                  "nearest_mode": d.pick(None, "floor", "ceil", "round_prefer_ceil") if mode in (None, "nearest") else None}
    axes = None
    if d.chance(20) and rank > 2:
        axes = list(range(2, rank))
        attributes["axes"] = [a - rank if d.chance(30) else a for a in axes]
        scaled = scaled[2:]
    whole = [shape[a] for a in axes] if axes else shape
    # Where corners are aligned and scale times dimension is no whole number, ONNX's node tests and ONNX Runtime differ.
    if d.chance(50) and (coordinates != "align_corners" or all((e * s) % 1 == 0 for e, s in zip(whole, scaled))):
        return [d.values(shape, "eighths"), None, Arg(np.array(scaled, np.float32), 95)], attributes, 1, mode in (None, "nearest")
    sizes = [max(1, int(e * s)) for e, s in zip(whole, scaled)]
    if d.chance(20):
        attributes["keep_aspect_ratio_policy"] = d.pick("stretch", "not_larger", "not_smaller") if axes else "stretch"
        attributes["axes"] = axes  # ONNX Runtime forgets the policy on axes that are counted from the end
    return [d.values(shape, "eighths"), None, None, d.ints(*sizes, constant=95)], attributes, 1, mode in (None, "nearest")


@draws("GridSample")
def grid_sample(d):
    d.take("T1", "f32", "f16", "f64")
    space = d.pick(2, 2, 2, 3)
    mode = d.pick(None, "linear", "nearest") if space == 3 else d.pick(None, "linear", "nearest", "cubic")
    n = d.pick(1, 2)
    extents = [d.pick(1, 2, 4, 8) for _ in range(space)]
    grid = d.n.uniform(-1.3, 1.3, size=[n] + [d.pick(1, 2, 5) for _ in range(space)] + [space])
    if mode == "nearest":  # away from ties
        grid = (np.round(grid * 16) + 0.27) / 16
    return [d.values([n, d.pick(1, 3)] + extents), Arg(grid.astype(TYPES[d.type]), 20)], {"mode": mode, "padding_mode": d.pick(None, "zeros", "border", "reflection"), "align_corners": d.pick(None, 0, 1)}, 1, False


@draws("AffineGrid")
def affine_grid(d):
    d.take("T1", "f32", "f16", "f64")
    n = d.pick(1, 2, 3)
    space = d.pick(2, 2, 3)
    aligned = d.pick(None, 0, 1)
    extents = [d.pick(2, 3, 5) if aligned else d.pick(1, 2, 5) for _ in range(space)]  # where the corners are one, PyTorch, ONNX Runtime and ONNX's reference differ
    return [d.values([n, space, space + 1]), d.ints(n, d.pick(1, 3), *extents)], {"align_corners": aligned}, 1, False


@draws("RoiAlign", "MaxRoiPool")
def roi(d):
    d.take("T" if d.row.name[0] == "M" else "T1", "f32", "f16", "f64")
    n, c, h, w = d.pick(1, 2), d.pick(1, 2, 3), d.pick(4, 6, 9), d.pick(4, 5, 8)
    count = d.pick(1, 2, 5)
    corners = d.n.uniform(0, 2.6, size=[count, 2])
    boxes = np.concatenate([corners, corners + d.n.uniform(0.6, 4, size=[count, 2])], 1)
    which = d.n.integers(0, n, size=[count])
    if d.row.name == "MaxRoiPool":
        boxes = np.concatenate([which[:, None], np.round(boxes)], 1)
        return [d.values([n, c, h, w], "eighths"), Arg(boxes.astype(TYPES[d.type]), 40)], {"pooled_shape": [d.pick(1, 2, 3), d.pick(1, 2)], "spatial_scale": d.pick(None, 1.0, 0.5)}, 1, True
    return [d.values([n, c, h, w]), Arg(boxes.astype(TYPES[d.type]), 40), Arg(which.astype(np.int64), 60)], \
        {"mode": d.pick(None, "avg", "max"), "coordinate_transformation_mode": d.pick(None, "half_pixel", "output_half_pixel"), "output_height": d.pick(None, 1, 2, 3), "output_width": d.pick(None, 1, 2),
         "sampling_ratio": d.pick(None, 0, 1, 2, 3), "spatial_scale": d.pick(None, 0.5, 1.0)}, 1, False


@draws("DeformConv")
def deform_conv(d):
    d.take("T", "f32", "f16", "f64")
    kernel, cover, found = window(d, 2, dilations=d.chance(30), most_kernel=3)
    found.pop("auto_pad", None)
    group, c, out = group_of(d)
    offsets = d.pick(1, 1, c)
    shape = image(d, 2, c, cover, found)
    pads, strides = found.get("pads") or [0] * 4, found.get("strides") or [1, 1]
    to = [(n + pads[i] + pads[i + 2] - k) // s + 1 for i, (n, k, s) in enumerate(zip(shape[2:], cover, strides))]
    if min(to) < 1:
        return None
    points = offsets * kernel[0] * kernel[1]
    return [d.values(shape), Arg(d.values([out, c // group] + kernel, low=-0.5, high=0.5), WEIGHT), Arg(d.values([shape[0], 2 * points] + to, low=-1.4, high=1.4), 10), d.pick(None, Arg(d.values([out]), 80)),
            d.pick(None, Arg(d.values([shape[0], points] + to, low=0, high=1), 10))], {**found, "group": group, "offset_group": offsets, "kernel_shape": kernel}, 1, False


@draws("LSTM", "GRU", "RNN")
def recurrent(d):
    op = d.row.name
    d.take("T")
    seq, batch, width, hidden = d.pick(1, 2, 3, 7), d.pick(1, 1, 2, 3), d.pick(1, 2, 5, 8), d.pick(1, 2, 3, 8, 9)
    direction = d.pick(None, "forward", "reverse", "bidirectional")
    both = 2 if direction == "bidirectional" else 1
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    layout = d.pick(None, None, None, 0)
    small = {"low": -0.5, "high": 0.5}
    operands = [d.values([seq, batch, width]), Arg(d.values([both, gates * hidden, width], **small), 85), Arg(d.values([both, gates * hidden, hidden], **small), 85),
                d.pick(None, Arg(d.values([both, 2 * gates * hidden], **small), 85)), d.pick(None, None, Arg(d.n.integers(1, seq + 1, size=[batch]).astype(np.int32), 50)),
                d.pick(None, Arg(d.values([both, batch, hidden], **small), 30))]
    attributes = {"hidden_size": hidden, "direction": direction, "layout": layout, "clip": d.pick(None, None, None, 0.5)}
    if op == "LSTM":
        operands += [d.pick(None, Arg(d.values([both, batch, hidden], **small), 30)), d.pick(None, None, Arg(d.values([both, 3 * hidden], **small), 85))]
    if op == "GRU":
        attributes["linear_before_reset"] = d.pick(None, 0, 1)
    if d.chance(20):
        attributes["activations"] = {"LSTM": ["Sigmoid", "Tanh", d.pick("Tanh", "Relu")], "GRU": [d.pick("Sigmoid", "HardSigmoid"), "Tanh"], "RNN": [d.pick("Relu", "Sigmoid", "Tanh")]}[op] * both
    return operands, attributes, d.pick(1, 2, 3 if op == "LSTM" else 2), False


@draws("Attention")
def attention(d):
    d.take("T1", "f32", "f16")
    b, heads, q, kv, width = d.pick(1, 2, 3), d.pick(1, 2, 4), d.pick(1, 3, 8), d.pick(1, 4, 9), d.pick(1, 4, 8)
    kv_heads = d.pick(heads, heads, 1)
    v_width = d.pick(width, width, 3)
    flat = d.chance(30)
    attributes = {"is_causal": d.pick(None, 0, 1), "scale": d.pick(None, 0.5), "softcap": d.pick(None, None, 2.0)}
    shape = lambda h, n, w: [b, n, h * w] if flat else [b, h, n, w]
    if flat:
        attributes.update(q_num_heads=heads, kv_num_heads=kv_heads)
    if attributes["is_causal"]:
        kv = max(q, kv)
    mask = d.pick(None, None, Arg(d.values([q, kv]), 40), Arg(d.values([b, 1, q, kv]), 20))
    return [d.values(shape(heads, q, width)), d.values(shape(kv_heads, kv, width)), d.values(shape(kv_heads, kv, v_width)), mask], attributes, 1, False


@draws("RotaryEmbedding")
def rotary(d):
    d.take("T", "f32", "f16")
    b, heads, seq, width = d.pick(1, 2, 3), d.pick(1, 2, 4), d.pick(1, 3, 8), d.pick(2, 4, 8, 16)
    part = d.pick(None, None, 2) if width > 2 else None
    half = (part or width) // 2
    angles = d.n.uniform(-3, 3, size=[16, half])
    attributes = {"interleaved": d.pick(None, 0, 1), "rotary_embedding_dim": part}
    flat = d.chance(30)
    if flat or part:
        attributes["num_heads"] = heads
    x = d.values([b, seq, heads * width] if flat else [b, heads, seq, width])
    cos, sin = (f(angles).astype(TYPES[d.type]) for f in (np.cos, np.sin))
    if d.chance(60):
        return [x, Arg(cos, 80), Arg(sin, 80), Arg(d.n.integers(0, 16, size=[b, seq]).astype(np.int64), 30)], attributes, 1, False
    rows = d.n.integers(0, 16, size=[b, seq])
    return [x, Arg(cos[rows], 40), Arg(sin[rows], 40)], attributes, 1, False


@draws("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d):
    d.take("T", "f32", "f16", "f64")
    n, c = d.pick(1, 2, 3), d.pick(2, 3, 5)
    more = d.extents(d.pick(0, 0, 1, 2), most=20, empty=False)
    ignore = d.pick(None, None, 1, -1)
    target = d.n.integers(0, c, size=[n] + more).astype(TYPES[d.pick("i64", "i32")])
    weight = d.pick(None, Arg(d.values([c], low=0.25, high=2), 80))
    if ignore is not None and (target == ignore).all():
        return None
    return [d.values([n, c] + more), target, weight], {"reduction": d.pick(None, "none", "sum", "mean"), "ignore_index": ignore}, 1 if d.row.name[0] == "N" else d.pick(1, 2), False


@draws("NonMaxSuppression")
def nms(d):
    n, boxes, classes = d.pick(1, 2), d.pick(1, 3, 6, 12), d.pick(1, 2)
    corners = d.n.integers(0, 20, size=[n, boxes, 2])
    values = np.concatenate([corners, corners + d.n.integers(1, 12, size=[n, boxes, 2])], -1).astype(np.float32)
    scores = (d.n.permutation(n * classes * boxes).reshape(n, classes, boxes) / 64).astype(np.float32)
    return [values, scores, d.pick(None, d.ints(d.pick(1, 3, 20))), Arg(np.array([d.pick(0.0, 0.3137, 0.5731)], np.float32), 90), d.pick(None, Arg(np.array([0.0703], np.float32), 90))], \
        {"center_point_box": d.pick(None, 0, 1)}, 1, True


@draws("SwiGLU")
def swiglu(d):
    d.take("T")
    shape = d.shape()
    return [d.values(shape), d.values(shape)], {"alpha": d.pick(None, 1.5)}, 1, False


@draws("CausalConvWithState")
def causal_conv(d):
    d.take("T", "f32", "f16")
    b, c, length, k = d.pick(1, 2), d.pick(1, 3, 4), d.pick(1, 3, 7), d.pick(2, 3, 4)
    return [d.values([b, c, length]), Arg(d.values([c, 1, k]), 80), d.pick(None, Arg(d.values([c]), 80)), d.pick(None, d.values([b, c, k - 1]))], {"activation": d.pick(None, "none", "silu")}, 2, False


@draws("LinearAttention")
def linear_attention(d):
    d.take("T", "f32", "f16")
    b, heads, length, width = d.pick(1, 2), d.pick(1, 2), d.pick(1, 4), d.pick(2, 4)
    rule = d.pick("linear", "gated", "delta", "gated_delta")
    flat = lambda w: [b, length, heads * w]
    gate = d.values(flat(width), low=-1, high=-0.1) if rule.startswith("gated") else None
    beta = d.values([b, length, heads], low=0.1, high=0.9) if rule.endswith("delta") else None
    state = d.pick(None, d.values([b, heads, width, width]))
    return [d.values(flat(width)), d.values(flat(width)), d.values(flat(width)), state, gate, beta], {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": rule}, 2, False


@draws("MatMulNBits")
def matmul_nbits(d):
    d.take("T1", "f32", "f16")
    block = d.pick(16, 32, 64)
    k, n, bits = d.pick(16, 33, 64, 96), d.pick(1, 3, 8, 17), d.pick(4, 4, 8)
    count = -(-k // block)
    weight = d.n.integers(0, 256, size=[n, count, block * bits // 8]).astype(np.uint8)
    zeros = d.pick(None, Arg(d.n.integers(0, 256, size=[n, -(-count * bits // 8)]).astype(np.uint8), 95))
    return [d.values(d.extents(d.pick(1, 2), most=12, empty=False) + [k]), Arg(weight, 95), Arg(d.values([n, count], low=0.01, high=0.1), 95), zeros], {"K": k, "N": n, "bits": bits, "block_size": block}, 1, False
