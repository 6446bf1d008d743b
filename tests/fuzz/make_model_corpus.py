# SPDX-License-Identifier: Apache-2.0
"""Writes the ONNX files of corpus/model: small models that want much time or memory. They are committed, so this runs only when they change:
make_model_corpus.py FOLDER"""
import struct
import sys
from pathlib import Path

F32, U8, I64, BOOL = 1, 2, 7, 9


def varint(value):
    value, out = value & 2**64 - 1, b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def field(number, payload):  # length-delimited
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def text(name, value):  # attributes
    return field(5, field(1, name.encode()) + field(4, value.encode()) + b"\xa0\x01\x03")


def number(name, value):
    return field(5, field(1, name.encode()) + b"\x18" + varint(value) + b"\xa0\x01\x02")


def numbers(name, *values):
    return field(5, field(1, name.encode()) + b"".join(b"\x40" + varint(v) for v in values) + b"\xa0\x01\x07")


def body(name, of):
    return field(5, field(1, name.encode()) + field(6, of) + b"\xa0\x01\x05")


def value_info(name, dtype, dims):
    shape = field(2, b"".join(field(1, b"\x08" + varint(d) if isinstance(d, int) else field(2, d.encode())) for d in dims))
    return field(1, name.encode()) + field(2, field(1, b"\x08" + varint(dtype) + shape))


def node(op, inputs, outputs, attributes=b"", domain=""):
    return b"".join(field(1, i.encode()) for i in inputs) + b"".join(field(2, o.encode()) for o in outputs) + field(3, outputs[0].encode()) + field(4, op.encode()) + \
        attributes + field(7, domain.encode())


folder = Path(sys.argv[1])


def tensor(name, dtype, dims, data):
    return b"".join(b"\x08" + varint(d) for d in dims) + b"\x10" + varint(dtype) + field(8, name.encode()) + field(9, data)


def floats(name, *values):
    return tensor(name, F32, [len(values)], struct.pack(f"<{len(values)}f", *values))


def ints(name, *values, dims=None):
    return tensor(name, I64, [len(values)] if dims is None else dims, struct.pack(f"<{len(values)}q", *values))


def graph(nodes, inputs, outputs, constants=()):
    return b"".join(field(1, n) for n in nodes) + field(2, b"g") + b"".join(field(5, c) for c in constants) + b"".join(field(11, value_info(*i)) for i in inputs) + \
        b"".join(field(12, value_info(*o)) for o in outputs)


def opsets(versions):
    return [field(1, domain.encode()) + b"\x10" + varint(version) for domain, version in versions]


def write(name, of, functions=(), opset=17):
    imports = opsets([("", opset), ("ours", 1)])
    (folder / f"{name}.onnx").write_bytes(b"\x08\x08" + field(7, of) + b"".join(field(8, i) for i in imports) + b"".join(field(25, f) for f in functions))


def function(name, nodes):
    return field(1, name.encode()) + field(4, b"a") + field(5, b"b") + b"".join(field(7, n) for n in nodes) + \
        b"".join(field(9, i) for i in opsets([("", 17), ("ours", 1)])) + field(10, b"ours")


x4, y4 = ("x", F32, [4]), ("y", F32, [4])


def doubling(depth, word=""):
    made = []
    for i in range(depth):
        inner = [node("Neg", ["a"], ["b"])] if i == depth - 1 else [node(f"F{i + 1}", ["a"], ["m" + word], domain="ours"), node(f"F{i + 1}", ["m" + word], ["b"], domain="ours")]
        made.append(function(f"F{i}", inner))
    return made


call = graph([node("F0", ["x"], ["y"], domain="ours")], [x4], [y4])
write("functions_in_functions", call, doubling(30))
write("functions_with_long_names", call, doubling(16, "m" * 2000))


def loop_in_loop(level, depth, carried):
    inputs = [(f"i{level}", I64, []), (f"c{level}", BOOL, [])] + [(f"v{level}_{j}", F32, ["?"]) for j in range(carried)]
    nodes = [node("Identity", [f"c{level}"], [f"co{level}"]), node("Concat", [f"v{level}_0", f"v{level}_0"], [f"o{level}_0"], number("axis", 0))]
    if level < depth:
        nodes.append(node("Loop", ["M", "C"] + ["one"] * carried, [f"L{level}_{j}" for j in range(carried)], body("body", loop_in_loop(level + 1, depth, carried))))
    nodes += [node("Identity", [f"v{level}_{j - 1}"], [f"o{level}_{j}"]) for j in range(1, carried)]
    return graph(nodes, inputs, [(f"co{level}", BOOL, [])] + [(f"o{level}_{j}", F32, ["?"]) for j in range(carried)])


for depth in (2, 6):
    write(f"loops_in_loops_{depth}", graph([node("Loop", ["M", "C"] + ["x"] * 8, ["y"] + [f"z{j}" for j in range(1, 8)], body("body", loop_in_loop(1, depth, 8)))],
                                           [("x", F32, [1]), ("C", BOOL, [])], [("y", F32, ["n"])], [ints("M", 1, dims=[]), floats("one", 1)]))
endless = graph([node("Identity", ["go"], ["more"]), node("Add", ["v", "v"], ["w"])], [("i", I64, []), ("go", BOOL, []), ("v", F32, [4])], [("more", BOOL, []), ("w", F32, [4])])
write("loop_without_end", graph([node("Loop", ["M", "yes", "x"], ["y"], body("body", endless))], [x4], [y4],
                                [ints("M", 2**63 - 1, dims=[]), tensor("yes", BOOL, [], b"\1")]))
inner = graph([node("Neg", ["x"], ["o0"])], [], [("o0", F32, [4])])
for i in range(1, 15):
    inner = graph([node("If", ["go"], [f"o{i}"], body("then_branch", inner) + body("else_branch", graph([node("Abs", ["x"], [f"e{i}"])], [], [(f"e{i}", F32, [4])])))], [],
                  [(f"o{i}", F32, [4])])
write("branches_in_branches", graph([node("If", ["go"], ["y"], body("then_branch", inner) + body("else_branch", inner))], [x4, ("go", BOOL, [])], [y4]))

# Constants that grow.
nodes = [node("Concat", [f"c{i}"] * 4, [f"c{i + 1}"], number("axis", 0)) for i in range(16)]
write("four_times_each", graph(nodes + [node("ReduceSum", ["c16"], ["s"]), node("Add", ["x", "s"], ["y"])], [x4], [("y", F32, [4])], [floats("c0", *range(256))]))
nodes = [node("ConstantOfShape", ["shape"], [f"z{i}"]) for i in range(200)] + [node("Sum", ["x"] + [f"z{i}" for i in range(200)], ["y"])]
write("constants_of_shape", graph(nodes, [("x", F32, [512, 512])], [("y", F32, [512, 512])], [ints("shape", 512, 512)]))
sparse = field(1, tensor("w", F32, [1], struct.pack("<f", 1))) + field(2, tensor("", I64, [1], struct.pack("<q", 5))) + b"\x18" + varint(2**30)
write("sparse_of_one", graph([node("Add", ["x", "w"], ["y"])], [("x", F32, [1])], [("y", F32, [2**30])]) + field(15, sparse))
write("eye", graph([node("Expand", ["x", "shape"], ["z"]), node("EyeLike", ["z"], ["e"]), node("ReduceSum", ["e"], ["s"]), node("Add", ["x", "s"], ["y"])], [("x", F32, [1])],
                   [("y", F32, [1, 1])], [ints("shape", 20000, 20000)]))
write("holes", graph([node("ConvTranspose", ["x", "w"], ["y"], numbers("dilations", 2**24))], [("x", F32, [1, 1, 4])],
                     [("y", F32, [1, 1, "n"])], [tensor("w", F32, [1, 1, 2], struct.pack("<2f", 1, 2))]))

# Values that say how long a loop is.
roi = [("image", F32, [1, 2, 8, 8])]
rois = [tensor("rois", F32, [1, 4], struct.pack("<4f", 0, 0, 7, 7)), ints("batch", 0)]
for ratio in (64, 2**20, 2**62):
    write(f"roi_{ratio}", graph([node("RoiAlign", ["image", "rois", "batch"], ["y"], number("sampling_ratio", ratio) + number("output_height", 4) + number("output_width", 4))], roi,
                                [("y", F32, [1, 2, 4, 4])], rois))
write("roi_far", graph([node("RoiAlign", ["image", "rois", "batch"], ["y"], number("output_height", 2) + number("output_width", 2))], roi, [("y", F32, [1, 2, 2, 2])],
                       [tensor("rois", F32, [1, 4], struct.pack("<4f", -5e5, -5e5, 9e5, 9e5)), ints("batch", 0)]))
for mode in ("zeros", "reflection", "border"):
    write(f"grid_{mode}", graph([node("GridSample", ["image", "grid"], ["y"], text("padding_mode", mode))], roi, [("y", F32, [1, 2, 1, 2])],
                                [tensor("grid", F32, [1, 1, 2, 2], struct.pack("<4f", 3e9, -3e9, 3e38, -1e-38))]))
write("range", graph([node("Range", ["from", "to", "by"], ["y"])], [("to", I64, [])], [("y", I64, ["n"])], [ints("from", -2**40, dims=[]), ints("by", 1, dims=[])]))
write("expand", graph([node("Expand", ["x", "shape"], ["e"]), node("ReduceSum", ["e"], ["y"])], [("x", F32, [1])], [("y", F32, [1, 1, 1])], [ints("shape", 2**12, 2**12, 2**14)]))
write("fourier", graph([node("DFT", ["x", "length"], ["y"], number("axis", 1))], [("x", F32, [1, 4, 1])], [("y", F32, [1, 2**22 - 3, 2])], [ints("length", 2**22 - 3, dims=[])]))
write("window", graph([node("HannWindow", ["size"], ["w"]), node("ReduceSum", ["w"], ["s"]), node("Add", ["x", "s"], ["y"])], [x4], [y4], [ints("size", 2**31, dims=[])]))
write("one_hot", graph([node("OneHot", ["at", "depth", "values"], ["h"]), node("ReduceSum", ["h"], ["y"])], [("at", I64, [4])], [("y", F32, [1, 1])],
                       [ints("depth", 2**30, dims=[]), floats("values", 0, 1)]))
write("tile", graph([node("Tile", ["x", "times"], ["t"]), node("ReduceSum", ["t"], ["y"])], [x4], [("y", F32, [1])], [ints("times", 2**34)]))
write("random", graph([node("RandomNormal", [], ["r"], numbers("shape", 2**26)), node("ReduceSum", ["r"], ["y"])], [], [("y", F32, [1])]))
write("pool", graph([node("AveragePool", ["image"], ["y"], numbers("kernel_shape", 2**30, 2**30) + numbers("pads", *[2**29] * 4))], roi, [("y", F32, [1, 2, 9, 9])]))
write("suppression", graph([node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])], [("boxes", F32, [1, 20000, 4]), ("scores", F32, [1, 4, 20000])], [("y", I64, ["n", 3])],
                           [ints("most", 20000)]))

# Shapes of graph.
slices = [node("Slice", ["image" if i == 0 else f"s{i - 1}", "zero", "most", "axis"], [f"s{i}"]) for i in range(400)]
write("slices", graph(slices + [node("Concat", [f"s{399 - i}" for i in range(4)], ["c"], number("axis", 1)), node("Conv", ["c", "w"], ["y"])], roi, [("y", F32, [1, 1, 8, 8])],
                      [ints("zero", 0), ints("most", 8), ints("axis", 2), tensor("w", F32, [1, 8, 1, 1], bytes(32))]))
nodes, before = [], "x"
for i in range(400):
    nodes += [node("DequantizeLinear", ["c", "s", "z"], [f"d{i}"]), node("Add", [before, f"d{i}"], ["y" if i == 399 else f"a{i}"])]
    before = f"a{i}"
write("readers", graph(nodes, [x4], [y4], [tensor("c", U8, [4], bytes([1, 2, 3, 4])), tensor("s", F32, [], struct.pack("<f", 0.5)), tensor("z", U8, [], b"\0")]))
