# SPDX-License-Identifier: Apache-2.0
"""What nodes meet in: the forms that fusions and passes look for, and near misses of them. Each takes a random_models.Graph and a value of it, and grows the graph;
it gives the last value, or None where that did not work."""
import numpy as np


def again(g, array):
    """A constant; now and then one that is there already, if it fits."""
    same = [w.name for w in g.weights if list(w.dims) == list(array.shape) and w.data_type == 1]
    return g.r.choice(same) if same and g.chance(50) and array.dtype == np.float32 else g.constant(array)


def reals(g, *shape, reach=0.5):
    return again(g, g.n.uniform(-reach, reach, size=shape).astype(np.float32))


def spread(g, shape):
    """A constant that spreads over `shape`: whole, rows, channels, one element, with and without leading ones."""
    kind = g.r.randrange(7)
    if kind == 0:
        own = list(shape)
    elif kind == 1:
        own = list(shape[-1:])
    elif kind == 2:
        own = [1] + list(shape[1:])
    elif kind == 3:
        own = list(shape[1:])
    elif kind == 4:
        own = g.r.choice([[], [1], [1] * len(shape), [1] * (len(shape) + 1)])
    elif kind == 5:
        own = [1 if i != 1 else d for i, d in enumerate(shape)]
    else:
        own = [d if g.chance(50) else 1 for d in shape]
    return reals(g, *own)


def steps(g, *made):
    """(operator, operands, attributes)...: a chain; an operand None is what the chain has."""
    value = None
    for op, operands, attributes in made:
        if any(o is None for o in operands) and value is None:
            return None
        value = g.node(op, [value if o is None else o for o in operands], **attributes)
        if value is None:
            return None
    return value


def one_of(g, x):
    """A node on x that keeps its shape."""
    rank, shape = x.array.ndim, x.array.shape
    kind = g.r.randrange(6)
    if kind == 0:
        return g.node(g.r.choice(["Relu", "Sigmoid", "Tanh", "HardSwish", "Gelu", "Softplus", "Neg", "Abs", "Elu"]), [x])
    if kind == 1:
        return g.node(g.r.choice(["Add", "Mul", "Sub", "Max"]), [x, spread(g, shape)] if g.chance(70) else [spread(g, shape), x])
    if kind == 2 and rank >= 2:
        return g.node("MatMul", [x, reals(g, shape[-1], shape[-1])])
    if kind == 3 and rank >= 3:
        c, space = shape[1], rank - 2
        if space > 3:
            return None
        k, group = g.r.choice([1, 3]), g.r.choice([1, c])
        return g.node("Conv", [x, reals(g, c, c // group, *[k] * space)] + ([reals(g, c)] if g.chance(60) else []), group=group, kernel_shape=[k] * space, pads=[k // 2] * 2 * space)
    if kind == 4 and shape[-1] > 1:
        return norm(g, x)
    return g.node("Softmax", [x], axis=g.r.choice([-1, rank - 1, 0]))


def norm(g, x):
    shape = x.array.shape
    if g.chance(25):
        return g.node("RMSNormalization", [x, reals(g, shape[-1])]) if g.opset >= 23 else None
    axis = g.r.choice([-1, -1, x.array.ndim - 1, -min(2, x.array.ndim)])
    own = shape[axis:]
    scale = spread(g, own) if g.chance(20) else reals(g, *own)
    return g.node("LayerNormalization", [x, scale] + ([reals(g, *own)] if g.chance(75) else []), axis=axis, epsilon=g.r.choice([1e-3, 1e-2]))


def residual(g, x):
    y = one_of(g, x)
    y = y and (one_of(g, y) if g.chance(40) else y)
    if y is None or y.array.shape != x.array.shape:
        return None
    made = g.node(g.r.choice(["Add", "Add", "Add", "Mul", "Sub"]), [x, y] if g.chance(60) else [y, x])
    return made and (norm(g, made) if g.chance(40) and made.array.shape[-1] > 1 else g.node("Relu", [made]) if g.chance(50) else made)


def added_before_norm(g, x):
    made = g.node(g.r.choice(["Add", "Add", "Sub", "Mul"]), [x, spread(g, x.array.shape)])
    return made and made.array.shape[-1] > 1 and norm(g, made) or None


def several_readers(g, x):
    y = one_of(g, x)
    if y is None:
        return None
    a, b = one_of(g, y), one_of(g, y)
    if a is None or b is None or a.array.shape != b.array.shape:
        return None
    return g.node("Concat", [a, b, y] if g.chance(30) and y.array.shape == a.array.shape else [a, b], axis=g.r.randrange(a.array.ndim)) if g.chance(60) else g.node("Add", [a, b])


def layout(g, x):
    """To channels last and back, or not quite back."""
    rank = x.array.ndim
    there = [0] + list(range(2, rank)) + [1] if g.chance(70) else g.r.sample(range(rank), rank)
    back = [there.index(i) for i in range(rank)]
    y = g.node("Transpose", [x], perm=there, exact=x.exact)
    y = y and one_of(g, y)
    y = y and (g.node("ReduceMean", [y, g.ints(-1)], keepdims=1) if g.chance(20) else y)
    if y is None or y.array.ndim != rank:
        return None
    return g.node("Transpose", [y], perm=back if g.chance(75) else g.r.sample(range(rank), rank))


def conv_chain(g, x):
    rank, shape = x.array.ndim, x.array.shape
    if rank not in (3, 4, 5) or min(shape[2:]) < 2:
        return None
    space, c = rank - 2, shape[1]
    k, out, pad = g.r.choice([1, 2, 3]), g.r.choice([1, 2, 3, 4, 8, 16, c]), g.r.choice([0, 1])
    pad = min(pad, k - 1)
    y = x
    if g.chance(30):
        y = g.node("Pad", [x, g.ints(*([0, 0] + [1] * space) * 2)] + ([g.constant(np.float32(g.r.choice([0, 0, 0.5])))] if g.chance(60) else []), mode=g.r.choice(["constant", "constant", "edge", "reflect"]), exact=x.exact)
    group = c if out == c and g.chance(50) else 1
    y = y and g.node("Conv", [y, reals(g, out, c // group, *[k] * space)] + ([reals(g, out)] if g.chance(50) else []), kernel_shape=[k] * space, pads=[pad] * 2 * space, group=group, strides=[g.r.choice([1, 1, 2])] * space)
    if y and g.chance(40):
        y = g.node("BatchNormalization", [y, reals(g, out), reals(g, out), reals(g, out), g.constant(g.n.uniform(0.3, 2, size=out).astype(np.float32))])
    if y and g.chance(30):
        y = g.node(g.r.choice(["Add", "Mul"]), [y, reals(g, out, *[1] * space)])
    if y is None:
        return None
    kind = g.r.randrange(7)
    if kind == 0:
        return g.node("Clip", [y, g.constant(np.float32(0)), g.constant(np.float32(g.r.choice([6, 1])))])
    if kind == 1:
        gate = g.node("Sigmoid", [y])
        return gate and g.node("Mul", [y, gate])
    if kind == 2:
        return g.node("PRelu", [y, reals(g, out, *[1] * space)])
    if kind == 3:
        gate = g.node("GlobalAveragePool", [y])
        gate = gate and g.node("HardSigmoid", [gate])
        return gate and g.node("Mul", [y, gate] if g.chance(50) else [gate, y])
    if kind == 4:
        return g.node("Resize", [y, "", g.constant(np.array([1, 1] + [2] * space, np.float32))], mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")
    return g.node(g.r.choice(["Relu", "LeakyRelu", "HardSwish", "Tanh"]), [y])


def written_out(g, x):
    """Operators as exporters write them out."""
    shape, kind = x.array.shape, g.r.randrange(7)
    one = lambda v: g.constant(np.float32(v) if g.chance(70) else np.array([v], np.float32))
    if kind == 0:  # Gelu
        y = steps(g, ("Div", [x, one(1.4142135)], {}), ("Erf", [None], {}), ("Add", [None, one(1)], {}), ("Mul", [x, None] if g.chance(50) else [None, x], {}))
        return y and g.node("Mul", [y, one(0.5)])
    if kind == 1:
        return steps(g, ("Sigmoid", [x], {}), ("Mul", [x, None] if g.chance(50) else [None, x], {}))
    if kind == 2:
        return steps(g, ("Mul", [x, one(1.702)], {}), ("Sigmoid", [None], {}), ("Mul", [x, None], {}))
    if kind == 3 and shape[-1] > 1:  # LayerNormalization; or a near miss of it, on another axis
        axis = g.ints(g.r.choice([-1, -1, x.array.ndim - 1, 0]))
        mean = g.node("ReduceMean", [x, axis], keepdims=1)
        centred = mean and g.node("Sub", [x, mean])
        deviation = centred and steps(g, ("Pow", [centred, one(2)], {}), ("ReduceMean", [None, axis], {"keepdims": 1}), ("Add", [None, one(1e-3)], {}), ("Sqrt", [None], {}))
        y = deviation and g.node("Div", [centred, deviation])
        y = y and g.node("Mul", [y, spread(g, shape)])
        return y and (g.node("Add", [y, spread(g, shape)]) if g.chance(70) else y)
    if kind == 4:  # HardSwish
        return steps(g, ("Add", [x, one(3)], {}), ("Clip", [None, g.constant(np.float32(0)), g.constant(np.float32(6))], {}), ("Mul", [x, None], {}), ("Div", [None, one(6)], {}))
    if kind == 5:  # Softplus and Mish
        return steps(g, ("Softplus", [x], {}), ("Tanh", [None], {}), ("Mul", [x, None], {}))
    return steps(g, ("Mul", [x, one(g.r.choice([2, 0.5, 1, 0]))], {}), (g.r.choice(["Add", "Sub"]), [None, one(g.r.choice([0, 1, -0.5]))], {}), (g.r.choice(["Mul", "Div"]), [None, one(g.r.choice([1, 4]))], {}))


def attention(g, x):
    """softmax(q k' scale + mask) v of one value, in heads or not."""
    shape = x.array.shape
    if x.array.ndim != 3 or shape[1] < 2:
        return None
    b, s, c = shape
    heads = g.r.choice([h for h in (1, 2, 3, 4) if c % h == 0])
    def part():
        y = g.node("MatMul", [x, reals(g, c, c)])
        y = y and (g.node("Add", [y, reals(g, c)] if g.chance(50) else [reals(g, c), y]) if g.chance(60) else y)
        if heads == 1 or y is None:
            return y
        return steps(g, ("Reshape", [y, g.ints(0 if g.chance(50) else b, -1, heads, c // heads)], {}), ("Transpose", [None], {"perm": [0, 2, 1, 3]}))
    q, k = part(), part()
    v = part() if g.chance(70) else k
    if None in (q, k, v):
        return None
    order = [0, 2, 1] if heads == 1 else [0, 1, 3, 2]
    k = g.node("Transpose", [k], perm=order)
    y = k and g.node("MatMul", [q, k])
    y = y and (g.node("Mul" if g.chance(50) else "Div", [y, g.constant(np.float32(2))]) if g.chance(70) else y)
    y = y and (g.node("Add", [y, reals(g, *g.r.choice([[s, s], [1, 1, s, s], [b, 1, 1, s]] if heads > 1 else [[s, s], [1, s, s], [b, 1, s]]))]) if g.chance(50) else y)
    y = y and g.node("Softmax", [y], axis=-1 if g.chance(80) else y.array.ndim - 1)
    y = y and g.node("MatMul", [y, v])
    if y is None or heads == 1:
        return y
    return steps(g, ("Transpose", [y], {"perm": [0, 2, 1, 3]}), ("Reshape", [None, g.ints(0, 0, c)], {}))


def moved_about(g, x):
    """Chains that move: two in a row become one, or none."""
    shape, rank = x.array.shape, x.array.ndim
    kind = g.r.randrange(6)
    if kind == 0:
        return steps(g, ("Transpose", [x], {"perm": g.r.sample(range(rank), rank)}), ("Transpose", [None], {"perm": g.r.sample(range(rank), rank)}), ("Relu", [None], {}))
    if kind == 1:
        axis = g.r.randrange(rank)
        d = shape[axis]
        if d < 2:
            return None
        cut = g.r.randrange(1, d)
        a = g.node("Slice", [x, g.ints(0), g.ints(cut), g.ints(axis)], exact=x.exact)
        b = g.node("Slice", [x, g.ints(cut), g.ints(2**31), g.ints(axis - rank)], exact=x.exact)
        return a and b and g.node("Concat", [b, a] if g.chance(60) else [a, b], axis=axis, exact=x.exact)
    if kind == 2 and rank == 4 and shape[1] % 2 == 0:  # channel shuffle
        n, c, h, w = shape
        return steps(g, ("Reshape", [x, g.ints(n, 2, c // 2, h, w)], {"exact": x.exact}), ("Transpose", [None], {"perm": [0, 2, 1, 3, 4]}), ("Reshape", [None, g.ints(n, -1, h, w)], {}))
    if kind == 3:
        axis = g.r.randrange(rank + 1)
        return steps(g, ("Unsqueeze", [x, g.ints(axis)], {"exact": x.exact}), ("Expand", [None, g.ints(*[3 if i == axis else 1 for i in range(rank + 1)])], {}), ("Reshape", [None, g.ints(-1, *([shape[-1]] if axis < rank else []))], {}))
    if kind == 4 and shape[-1] > 1:
        made = g.node("Split", [x], outputs=2, axis=-1, num_outputs=2, exact=x.exact)
        if not made or made[0].array.shape != made[1].array.shape:
            return None
        gate = g.node(g.r.choice(["Sigmoid", "Gelu"]), [made[1]])
        return gate and g.node("Mul", [made[0], gate])
    if rank < 2:
        return None
    return steps(g, ("Flatten", [x], {"axis": g.r.randrange(1, rank), "exact": x.exact}), ("Transpose", [None], {"perm": [1, 0]}), (g.r.choice(["Softmax", "Relu"]), [None], {}))


def gemm_chain(g, x):
    rank, shape = x.array.ndim, x.array.shape
    if rank < 2:
        return None
    n = g.r.choice([1, 2, 3, 5, 8, 16, 33])
    y = g.node("MatMul", [x, reals(g, shape[-1], n)])
    y = y and (g.node("Add", [y, spread(g, y.array.shape)] if g.chance(50) else [reals(g, n), y]) if g.chance(80) else y)
    y = y and (g.node(g.r.choice(["Relu", "Gelu", "Tanh"]), [y]) if g.chance(60) else y)
    return y and (g.node("MatMul", [y, reals(g, n, g.r.choice([1, 4, shape[-1]]))]) if g.chance(50) else y)


def casts(g, x):
    """To a type that has the values, and back."""
    if not x.exact:
        return None
    kind = g.r.choice([10, 11])  # f16, f64
    y = g.node("Cast", [x], to=kind, exact=True)
    y = y and g.node(g.r.choice(["Neg", "Abs", "Relu", "Identity"]), [y], exact=True)
    return y and g.node("Cast", [y], to=1, exact=True)


def narrowed(g, x):
    """A value that is made narrower, moved, and read as a wider type, or by another scale: its integers count. One step off is seen, for what they count from is taken off again."""
    if not x.exact or x.array.dtype != np.float32 or not x.array.ndim:
        return None
    t = g.r.choice([np.uint8, np.int8] * 3 + ([np.uint16, np.int16] if g.opset >= 21 else []))
    unsigned = t in (np.uint8, np.uint16)
    zero = int(g.n.integers(32, 120)) if unsigned else int(g.n.integers(-60, 60))
    if g.chance(60):
        y = g.node("QuantizeLinear", [x, g.constant(np.float32(1 / 8)), g.constant(np.array(zero, t))], exact=True)
    else:  # whole numbers around `zero`
        y = steps(g, ("Mul", [x, g.constant(np.float32(8))], {"exact": True}), ("Add", [None, g.constant(np.float32(zero))], {"exact": True}), ("Cast", [None], {"to": {np.uint8: 2, np.int8: 3, np.uint16: 4, np.int16: 5}[t], "exact": True}))
    kind = g.r.randrange(4)
    if y and kind == 0 and y.array.ndim > 1:
        y = g.node("Transpose", [y], perm=g.r.sample(range(y.array.ndim), y.array.ndim), exact=True)
    elif y and kind == 1:
        y = g.node("Reshape", [y, g.ints(-1)], exact=True)
    if y is None:
        return None
    kind = g.r.randrange(4)
    if kind == 0:
        y = g.node("DequantizeLinear", [y, g.constant(np.float32(1 / 4)), g.constant(np.array(zero + g.r.choice([0, 0, 3]), t))], exact=True)
    elif kind == 1:
        y = steps(g, ("Cast", [y], {"to": 6, "exact": True}), ("Sub", [None, g.constant(np.int32(zero))], {"exact": True}), ("Cast", [None], {"to": 1, "exact": True}))
    else:
        y = steps(g, ("Cast", [y], {"to": 1, "exact": True}), ("Sub", [None, g.constant(np.float32(zero))], {"exact": True}))
    return y and (g.node("Mul", [y, g.constant(np.float32(0.5))], exact=True) if g.chance(40) else y)


MEETINGS = [narrowed, narrowed, residual, residual, added_before_norm, added_before_norm, several_readers, several_readers, layout, conv_chain, conv_chain, written_out, written_out, attention, moved_about, gemm_chain, casts]


# ---- quantised: from integers to integers, one that rounds between them; a step at the end is 1/16

def quantised(g, shape):
    """A graph of its own: dequantise, one operator, quantise, then what only moves or chooses."""
    types = [np.uint8, np.int8] if g.chance(80) else [np.uint16, np.int16]
    t = g.r.choice(types)
    def zero(extent=()):
        return g.constant(g.n.integers(0 if t in (np.uint8, np.uint16) else -5, 6, size=extent).astype(t) if g.chance(70) else np.zeros(extent, t))
    def stored():
        low, high = (0, 60) if t in (np.uint8, np.uint16) else (-30, 30)
        return g.stored(g.n.integers(low, high, size=shape).astype(t))
    scale = lambda s: g.constant(np.float32(s))
    x = g.node("DequantizeLinear", [stored(), scale(1 / 16), zero()])
    if x is None:
        return None
    rank, kind = len(shape), g.r.randrange(8)
    y = None
    def weight(*own):
        if g.chance(30):
            return reals(g, *own)
        per_channel = g.chance(60)
        w = g.constant(g.n.integers(-60, 60, size=own).astype(np.int8))
        extent = (own[0],) if per_channel else ()
        axis = {"axis": 0} if per_channel else {}
        return g.node("DequantizeLinear", [w, g.constant(g.n.uniform(0.002, 0.01, size=extent).astype(np.float32)), g.constant(np.zeros(extent, np.int8))], **axis)
    if kind in (0, 1) and rank == 4:
        k, out = g.r.choice([1, 2, 3]), g.r.choice([1, 3, 8, shape[1]])
        group = shape[1] if out == shape[1] and g.chance(50) else 1
        w = weight(out, shape[1] // group, k, k)
        y = w and g.node("Conv", [x, w] + ([reals(g, out)] if g.chance(50) else []), kernel_shape=[k, k], pads=[k // 2] * 4, group=group)
        y = y and (g.node("Relu", [y]) if g.chance(40) else y)
    elif kind in (2, 3) and rank >= 2:
        w = weight(g.r.choice([1, 3, 8, 17]), shape[-1])
        w = w and g.node("Transpose", [w], perm=[1, 0])
        y = w and g.node("MatMul", [x, w])
    elif kind == 4:
        other = g.node("DequantizeLinear", [stored(), scale(1 / 8), zero()]) if g.chance(60) else spread(g, shape)
        y = other and g.node(g.r.choice(["Add", "Mul", "Sub"]), [x, other])
    elif kind == 5:
        y = g.node(g.r.choice(["Sigmoid", "Tanh", "Relu", "HardSwish", "Gelu", "LeakyRelu", "Neg"]), [x])
    elif kind == 6 and shape[-1] > 2:
        y = norm(g, x) if g.chance(60) else g.node("Softmax", [x])
    elif rank >= 3 and min(shape[2:]) > 1:
        y = g.node(g.r.choice(["AveragePool", "MaxPool"]), [x], kernel_shape=[2] * (rank - 2))
    y = y and g.node("QuantizeLinear", [y, scale(1 / 16), zero()])
    if y is None:
        return None
    if g.chance(40):
        y = g.node("Transpose", [y], perm=g.r.sample(range(y.array.ndim), y.array.ndim)) if g.chance(50) else g.node("Reshape", [y, g.ints(-1)])
    last = [n for n in g.nodes if n.op_type == "QuantizeLinear"][-1]
    y = y and g.node("DequantizeLinear", [y, last.input[1], last.input[2]])
    return y and (g.node("Relu", [y]) if g.chance(25) else y)
