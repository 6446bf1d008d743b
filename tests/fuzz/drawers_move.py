# SPDX-License-Identifier: Apache-2.0
"""Drawers of operators that move elements, or choose them by indices."""
import numpy as np
from onnx import helper

from random_operators import GROUPS, TYPES, Arg, draws


def factors(d, count):
    """A shape of `count` elements."""
    shape = []
    while count > 1 and len(shape) < 6:
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        shape.append(d.r.choice(divisors))
        count //= shape[-1]
    return shape + [count] if count > 1 or not shape else shape


@draws("Transpose")
def transpose(d):
    d.take()
    shape = d.shape(high=8)
    return [d.values(shape, "any")], {"perm": d.r.sample(range(len(shape)), len(shape)) if shape and d.chance(85) else None}, 1, True


@draws("Reshape")
def reshape(d):
    d.take()
    shape = d.shape(high=8)
    count = int(np.prod(shape))
    to = [] if count == 1 and d.chance(30) else factors(d, count) if count else [0, 3]
    for _ in range(d.pick(0, 0, 1, 2)):
        to.insert(d.r.randrange(len(to) + 1), 1)
    if count and to and d.chance(50):
        to[d.r.randrange(len(to))] = -1
    elif count and to and shape and to[0] == shape[0] and d.chance(50):
        to[0] = 0
    return [d.values(shape, "any"), d.ints(*to, constant=90)], {"allowzero": 1 if not count else None}, 1, True


@draws("Flatten")
def flatten(d):
    d.take()
    shape = d.shape(low=0, high=8)
    return [d.values(shape, "any")], {"axis": d.r.randrange(-len(shape), len(shape) + 1) if d.chance(80) and shape else None if shape else 0}, 1, True


@draws("Squeeze", "Unsqueeze")
def squeeze(d):
    d.take("T")
    shape = d.shape(high=5)
    if d.row.name == "Unsqueeze":
        rank = len(shape) + d.pick(1, 1, 2)
        axes = d.r.sample(range(rank), rank - len(shape))
        return [d.values(shape, "any"), d.ints(*[a - rank if d.chance(40) else a for a in axes])], {}, 1, True
    for _ in range(d.pick(1, 2)):
        shape.insert(d.r.randrange(len(shape) + 1), 1)
    ones = [i for i, e in enumerate(shape) if e == 1]
    axes = d.r.sample(ones, d.r.randrange(1, len(ones) + 1))
    return [d.values(shape, "any"), d.pick(None, d.ints(*[a - len(shape) if d.chance(40) else a for a in axes]))], {}, 1, True


@draws("Expand")
def expand(d):
    d.take()
    shape = d.shape(high=6, most=500)
    part = d.part(shape)
    to = list(shape)
    for i in range(len(part)):
        if d.chance(30) and part[len(part) - 1 - i] == to[len(to) - 1 - i] != 0:
            to[len(to) - 1 - i] = 1  # a one leaves what is there
    return [d.values(part, "any"), d.ints(*to)], {}, 1, True


@draws("Tile")
def tile(d):
    d.take()
    shape = d.shape(high=6, most=200)
    return [d.values(shape, "any"), d.ints(*[d.pick(1, 1, 2, 3, 0 if d.chance(5) else 1) for _ in shape])], {}, 1, True


@draws("Concat")
def concat(d):
    d.take()
    shape = d.shape(low=1, high=8, most=800)
    axis = d.axis(len(shape))
    parts = []
    for _ in range(d.pick(1, 2, 2, 3, 5)):
        own = list(shape)
        own[axis] = d.pick(1, 2, shape[axis], 3, 0 if d.chance(10) else 1)
        parts.append(Arg(d.values(own, "any"), 30))
    return parts, {"axis": axis}, 1, True


@draws("Split")
def split(d):
    d.take()
    shape = d.shape(low=1, high=6)
    axis, parts = d.axis(len(shape)), d.pick(1, 2, 2, 3)
    extent = shape[axis]
    if d.chance(50):
        if extent < parts:
            return None
        return [d.values(shape, "any")], {"axis": axis, "num_outputs": parts}, parts, True
    cuts = sorted(d.r.randrange(extent + 1) for _ in range(parts - 1))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [extent])]
    return [d.values(shape, "any"), d.ints(*sizes)], {"axis": axis}, parts, True


@draws("Slice")
def slice_(d):
    d.take()
    shape = d.shape(low=1, high=6)
    axes = d.r.sample(range(len(shape)), d.r.randrange(1, len(shape) + 1))
    most = 2**63 - 1
    # A negative step may start below the first element: what begins before it is empty, as ONNX's text clamps it.
    starts = [d.pick(0, 0, d.r.randrange(-e - 2, e + 3), most, -most) for e in (shape[a] for a in axes)]
    ends = [d.pick(most, -most - 1, e, d.r.randrange(-e - 2, e + 3)) for e in (shape[a] for a in axes)]
    steps = [d.pick(1, 1, 1, 2, -1, -2, 3, most if d.chance(20) else 5, -most if d.chance(20) else -3) for _ in axes]
    tind = TYPES[d.pick("i64", "i64", "i32")]
    bounds = np.iinfo(tind)
    make = lambda values: Arg(np.array([min(max(v, bounds.min), bounds.max) for v in values], tind), 85)
    # With a negative step ONNX Runtime takes the largest end for the beginning.
    ends = [-e - 1 if t == most and s < 0 else t for t, s, e in zip(ends, steps, (shape[a] for a in axes))]
    named = [a - len(shape) if d.chance(40) else a for a in axes]
    last = make(steps) if d.chance(70) else None
    if not last and axes == list(range(len(axes))) and d.chance(50):
        return [d.values(shape, "any"), make(starts), make(ends)], {}, 1, True
    return [d.values(shape, "any"), make(starts), make(ends), make(named), last], {}, 1, True


@draws("Pad")
def pad(d):
    d.take()
    mode = d.pick("constant", "edge", "reflect", "wrap", None)
    shape = d.shape(low=0 if mode in ("constant", None) else 1, high=6, most=400, empty=mode in ("constant", None))
    axes = d.r.sample(range(len(shape)), d.r.randrange(1, len(shape) + 1)) if shape and d.chance(40) else None
    whole = [shape[a] for a in axes] if axes is not None else shape
    def amount(extent):
        most = {"reflect": extent - 1, "wrap": extent, "edge": 4}.get(mode, 4)
        low = -min(1, extent - 1) if d.chance(20) and extent and mode != "wrap" else 0  # what wraps, of a part or the whole, nobody says
        return d.pick(0, 0, d.r.randrange(low, most + 1), most) if most >= low else 0
    pads = [amount(e) for e in whole] + [amount(e) for e in whole]
    tind = TYPES[d.pick("i64", "i32")]
    named = None if axes is None else Arg(np.array([a - len(shape) if d.chance(40) else a for a in axes], tind), 90)
    value = Arg(d.values([], "eighths"), 85) if d.chance(60) else None
    return [d.values(shape, "any"), d.ints(*pads), value, named], {"mode": mode}, 1, True


@draws("Gather")
def gather(d):
    d.take()
    shape = d.shape(low=1, high=6, most=600, empty=False)
    axis = d.axis(len(shape))
    return [Arg(d.values(shape, "any"), 40), Arg(d.index(d.shape(high=3, most=12), shape[axis], d.pick("i64", "i32")), 50)], {"axis": axis if d.chance(85) or axis else None}, 1, True


@draws("GatherElements", "ScatterElements")
def gather_elements(d):
    d.take()
    shape = d.shape(low=1, high=6, most=800, empty=False)
    axis = d.axis(len(shape))
    to = [d.pick(e, e, d.r.randrange(1, e + 1)) for e in shape]
    tind = d.pick("i64", "i32")
    if d.row.name == "GatherElements":
        to[axis] = d.pick(1, 3, shape[axis])
        return [d.values(shape, "any"), Arg(d.index(to, shape[axis], tind), 40)], {"axis": axis}, 1, True
    reduction = d.pick(None, None, "none", "add", "mul", "max", "min") if d.type != "bool" else None
    indices = d.index(to, shape[axis], tind)
    if reduction in (None, "none"):  # which of two is last, nobody promises
        rows = np.stack([d.n.permutation(shape[axis])[:to[axis]] for _ in range(int(np.prod(to)) // to[axis])]) if to[axis] <= shape[axis] else None
        indices = np.moveaxis(rows.reshape([e for i, e in enumerate(to) if i != axis % len(to)] + [to[axis]]), -1, axis).astype(indices.dtype)
    return [d.values(shape, "eighths"), Arg(indices, 40), Arg(d.values(to, "eighths"), 20)], {"axis": axis, "reduction": reduction}, 1, reduction not in ("mul", "add") or d.type in GROUPS["int"]


@draws("GatherND", "ScatterND")
def gather_nd(d):
    d.take()
    shape = d.shape(low=1, high=6, most=800, empty=False)
    scatter = d.row.name == "ScatterND"
    batch = 0 if scatter or len(shape) < 2 else d.pick(0, 0, 1)
    depth = d.r.randrange(1, len(shape) - batch + 1)
    lead = shape[:batch] + d.extents(d.pick(0, 1, 1, 2), most=10, empty=False)
    if batch == 0 and not scatter and not lead:
        lead = []
    reduction = d.pick(None, None, "none", "add", "mul", "max", "min") if scatter and d.type != "bool" else None
    count, extents = int(np.prod(lead)), shape[batch:batch + depth]
    if scatter and reduction in (None, "none"):
        total = int(np.prod(extents))
        if total < count:
            return None
        flat = d.n.permutation(total)[:count]
    else:
        flat = d.n.integers(0, int(np.prod(extents)), size=count)
    indices = np.stack(np.unravel_index(flat, extents), -1).reshape(lead + [depth]).astype(np.int64)
    if d.chance(30):
        indices = np.where(d.n.random(indices.shape) < 0.5, indices, indices - np.array(extents)).astype(np.int64)
    if not scatter:
        return [d.values(shape, "any"), Arg(indices, 40)], {"batch_dims": batch or d.pick(None, 0)}, 1, True
    return [d.values(shape, "eighths"), Arg(indices, 40), Arg(d.values(lead + shape[depth:], "eighths"), 20)], {"reduction": reduction}, 1, reduction not in ("mul", "add") or d.type in GROUPS["int"]


@draws("OneHot")
def one_hot(d):
    t1, depth = d.pick("i64", "i32", "f32", "u8"), d.pick(1, 2, 5, 9)
    shape = d.shape(high=4, most=60)
    indices = d.n.integers(-depth - 1 if t1 in ("i64", "i32") else 0, depth + 2, size=shape).astype(TYPES[t1])
    d.type = d.pick("f32", "f32", "i64", "i64", "f16", "bool", "u8")
    values = d.values([2], "eighths")
    axis = d.r.randrange(-len(shape) - 1, len(shape) + 1)
    return [indices, Arg(np.array(depth, TYPES[d.pick("i64", "i32", "f32")]).reshape(d.pick([], [1])), 90), Arg(values, 90)], {"axis": axis if d.chance(80) else None}, 1, True


@draws("Trilu")
def trilu(d):
    d.take()
    shape = d.shape(low=2, high=5)
    return [d.values(shape, "any"), d.pick(None, Arg(np.array(d.r.randrange(-8, 9), np.int64), 90))], {"upper": d.pick(None, 0, 1)}, 1, True


@draws("DepthToSpace", "SpaceToDepth")
def blocks(d):
    d.take()
    block = d.pick(1, 2, 3)
    n, c, h, w = d.pick(1, 2, 3), d.pick(1, 2, 3), d.pick(1, 2, 5), d.pick(1, 3, 4)
    if d.row.name == "DepthToSpace":
        return [d.values([n, c * block * block, h, w], "any")], {"blocksize": block, "mode": d.pick(None, "DCR", "CRD")}, 1, True
    return [d.values([n, c, h * block, w * block], "any")], {"blocksize": block}, 1, True


@draws("ReverseSequence")
def reverse_sequence(d):
    d.take()
    time = d.flag()
    shape = d.shape(low=2, high=5, empty=False)
    return [d.values(shape, "any"), Arg(d.n.integers(1, shape[time] + 1, size=[shape[1 - time]]).astype(np.int64), 50)], {"time_axis": time, "batch_axis": 1 - time}, 1, True


@draws("Compress")
def compress(d):
    d.take()
    shape = d.shape(low=1, high=5, empty=False)
    axis = d.pick(None, d.axis(len(shape)))
    extent = int(np.prod(shape)) if axis is None else shape[axis]
    return [d.values(shape, "any"), Arg(d.values([d.pick(extent, max(1, extent - 1))], "bool"), 70)], {"axis": axis}, 1, True


@draws("NonZero", "Shape", "Size")
def looked_at(d):
    d.take()
    shape = d.shape(high=6)
    attributes = {}
    if d.row.name == "Shape" and d.chance(60):
        attributes = {"start": d.pick(None, d.r.randrange(-7, 8)), "end": d.pick(None, d.r.randrange(-7, 8))}
    return [d.values(shape, "eighths")], attributes, 1, True


@draws("Unique")
def unique(d):
    d.take()
    shape = d.shape(low=1, high=4, empty=False)
    return [d.values(shape, "eighths")], {"axis": d.pick(None, d.axis(len(shape))), "sorted": d.pick(None, 0, 1)}, d.pick(1, 4, 2), True


@draws("ConstantOfShape")
def constant_of_shape(d):
    value = d.pick(None, helper.make_tensor("v", helper.np_dtype_to_tensor_dtype(np.dtype(TYPES[t := d.pick("f32", "i64", "bool", "f16", "u8")])), [1], [d.pick(0, 1)] if t != "f16" else [1.0]))
    return [d.ints(*d.shape(high=6), constant=70)], {"value": value}, 1, True


@draws("EyeLike")
def eye_like(d):
    d.take("T1")
    return [d.values(d.extents(2), "any")], {"dtype": d.pick(None, 1, 7, 6, 10), "k": d.pick(None, 0, 1, -2)}, 1, True


@draws("CenterCropPad")
def center_crop_pad(d):
    d.take()
    shape = d.shape(low=1, high=5, most=500, empty=False)
    axes = d.r.sample(range(len(shape)), d.r.randrange(1, len(shape) + 1)) if d.chance(60) else None
    return [d.values(shape, "any"), d.ints(*[d.pick(1, 3, 4, 7, 10) for _ in (axes or shape)])], {"axes": axes}, 1, True


@draws("Col2Im")
def col2im(d):
    d.take("T", "f32", "f16", "f64")
    block, strides, dilations = [d.pick(1, 2, 3), d.pick(1, 2)], [d.pick(1, 2), d.pick(1, 2)], [d.pick(1, 2), d.pick(1, 1, 2)]
    pads = [d.pick(0, 1), d.pick(0, 0, 1), d.pick(0, 1), d.pick(0, 0, 1)]
    image = [d.pick(4, 5, 8), d.pick(4, 7)]
    steps = [(e + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i, e in enumerate(image)]
    if min(steps) < 1:
        return None
    return [d.values([d.pick(1, 2), d.pick(1, 3) * block[0] * block[1], steps[0] * steps[1]]), d.ints(*image), d.ints(*block)], {"dilations": dilations, "pads": pads, "strides": strides}, 1, False


@draws("TensorScatter")
def tensor_scatter(d):
    d.take("T", "f32", "f16", "i64")
    b, h, length, width = d.pick(1, 2), d.pick(1, 3), d.pick(4, 7), d.pick(1, 4)
    step = d.pick(1, 2)
    mode = d.pick(None, "linear", "circular")
    most = length if mode == "circular" else length - step + 1
    at = Arg(d.n.integers(0, most, size=[b]).astype(np.int64), 30) if d.chance(80) else None
    return [d.values([b, h, length, width], "any"), d.values([b, h, step, width], "any"), at], {"mode": mode, "axis": d.pick(None, -2, 2)}, 1, True
