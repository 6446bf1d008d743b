#!/usr/bin/env python3
"""Types of weights and of arithmetic on the htp backend: 4 bits, scales for blocks, bf16.

check_htp_types.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import random
import shutil
import struct
import sys

from onnx_file import F32, I4, U4, U8, initializer, number, onnx_file, onnx_node
from program import build, check, environment, finish, image, model, new_folder, require, run

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))
folder = new_folder()
random.seed(3)
K, N, BLOCK = 64, 32, 32
U16 = 4


def path(name):
    return os.path.join(folder, name)


def floats(name, dims, low, high):
    count = 1
    for d in dims:
        count *= d
    return initializer(name, F32, dims, struct.pack(f"<{count}f", *(random.uniform(low, high) for _ in range(count))))


def some_bytes(count):
    return bytes(random.randrange(256) for _ in range(count))


def agree(name, nodes, out, initializers, *socs, inner=()):
    with open(path("m.onnx"), "wb") as file:
        file.write(onnx_file(nodes, [("x", F32, (4, K))], [("y", F32, out)], inner, initializers))
    for soc in socs:
        check(f"{name}, {soc}", run("diff", path("m.onnx"), "--random", "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=" + soc, "--tolerance", "0.01"), 0, "agree")


ALL = ("SM8350", "SM8550", "SM8650", "SM8850")
# ---- a scale per channel: f32 (in f16), and quantised: the library's own 4-bit weights
matmul = onnx_node("MatMul", ["x", "f"], ["y"], name="product")
for dtype, zero, name in ((I4, b"\0" * (N // 2), "s4"), (U4, b"\x88" * (N // 2), "u4 around 8"), (U4, bytes([0x5a]) * (N // 2), "u4 around others")):
    weights = [initializer("w", dtype, (K, N), some_bytes(K * N // 2)), floats("s", (N,), 0.005, 0.02), initializer("z", dtype, (N,), zero)]
    widened = onnx_node("DequantizeLinear", ["w", "s", "z"], ["f"], number("axis", 1), name="weights")
    agree(name + " per channel", [widened, matmul], (4, N), weights, "SM8650")
    borders = [initializer("a", F32, (), struct.pack("<f", 0.02)), initializer("b", U8, (), b"\x80"), initializer("c", F32, (), struct.pack("<f", 0.008))]
    quantised = [onnx_node("QuantizeLinear", ["x", "a", "b"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "a", "b"], ["d"], name="d"), widened,
                 onnx_node("MatMul", ["d", "f"], ["r"], name="product"), onnx_node("QuantizeLinear", ["r", "c", "b"], ["p"], name="p"),
                 onnx_node("DequantizeLinear", ["p", "c", "b"], ["y"], name="e")]
    agree(name + " per channel, u8 data", quantised, (4, N), weights + borders, *ALL)
# ---- scales for blocks: beside floats as they are (in f16); beside quantised data multiples of one for the channel
for dtype, zero, name in ((I4, b"\0" * (K // BLOCK * N // 2), "s4"), (U4, b"\x88" * (K // BLOCK * N // 2), "u4")):
    agree(name + " in blocks", [onnx_node("DequantizeLinear", ["w", "s", "z"], ["f"], number("axis", 0) + number("block_size", BLOCK), name="weights"), matmul], (4, N),
          [initializer("w", dtype, (K, N), some_bytes(K * N // 2)), floats("s", (K // BLOCK, N), 0.005, 0.02), initializer("z", dtype, (K // BLOCK, N), zero)], *ALL)
for bits in (4, 8):
    agree(f"MatMulNBits of {bits} bits", [onnx_node("MatMulNBits", ["x", "w", "s"], ["y"], number("K", K) + number("N", N) + number("bits", bits) + number("block_size", BLOCK), "com.microsoft")], (4, N),
          [initializer("w", U8, (N, K // BLOCK, BLOCK * bits // 8), some_bytes(N * K * bits // 8)), floats("s", (N * K // BLOCK,), 0.005, 0.02)], *ALL)



def written():
    """The operations of the container, and its size."""
    check("compile weights with scales for blocks", run("compile", path("m.onnx"), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "container.keep_graph=0", "-O", "dump_json_qnn_graph=1",
                                                        "-O", "json_qnn_graph_dir=" + folder, "-o", path("m.qrm")), 0)
    found = [name for name in os.listdir(folder) if name.endswith("SM8650.json")]
    with open(path(found[0])) as file:
        graph = json.load(file)["graph"]
    os.remove(path(found[0]))
    return [node["type"] for node in graph["nodes"].values()], os.path.getsize(path("m.qrm"))


# of 1 MB as f32 and more: smaller ones are folded before a backend sees them
LARGE = (1024, 512)
scales = floats("s", (LARGE[0] // BLOCK, LARGE[1]), 0.005, 0.02)
for dtype, zero, name in ((I4, 0, "s4"), (U4, 0x33, "u4 around 3")):
    K = LARGE[0]
    agree(f"large {name} in blocks", [onnx_node("DequantizeLinear", ["w", "s", "z"], ["f"], number("axis", 0) + number("block_size", BLOCK), name="weights"), matmul], (4, LARGE[1]),
          [initializer("w", dtype, LARGE, some_bytes(LARGE[0] * LARGE[1] // 2)), scales, initializer("z", dtype, (LARGE[0] // BLOCK, LARGE[1]), bytes([zero]) * (LARGE[0] // BLOCK * LARGE[1] // 2))],
          "SM8650", "SM8850")
    nodes, size = written()
    require(f"large {name} in blocks stay 4 bits", "Conv2d" in nodes and size < LARGE[0] * LARGE[1] * 0.75, (nodes, size))

# quantised data: the scales of a channel are 1 to 16 times one, or are not
for op in ("MatMul", "Gemm", "Conv"):
    for dtype, multiples in ((U8, True), (U16, True), (U16, False)) if op == "MatMul" else ((U16, True),):
        K, N, blocks, first = 96, 40, 3, op != "MatMul"  # the output channels are the first axis
        units = [random.uniform(0.002, 0.004) for _ in range(N)]
        by = [[units[o] * (random.randrange(1, 17) if multiples else random.uniform(1, 16)) for _ in range(blocks)] for o in range(N)]
        flat = [s for row in by for s in row] if first else [by[o][b] for b in range(blocks) for o in range(N)]
        one = (1, 1) if op == "Conv" else ()
        dims, parts = ((N, K, *one), (N, blocks, *one)) if first else ((K, N), (blocks, N))
        middle, step = (b"\x80", 255) if dtype == U8 else (b"\0\x80", 65535)
        of = [initializer("w", I4, dims, some_bytes(K * N // 2)), initializer("s", F32, parts, struct.pack(f"<{len(flat)}f", *flat)), initializer("a", F32, (), struct.pack("<f", 2 / step)),
              initializer("b", dtype, (), middle), initializer("c", F32, (), struct.pack("<f", 6 / step))]
        pair = [onnx_node("QuantizeLinear", ["x", "a", "b"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "a", "b"], ["d"], name="d"),
                onnx_node("DequantizeLinear", ["w", "s"], ["f"], number("axis", int(first)) + number("block_size", K // blocks), name="weights"),
                onnx_node(op, ["d", "f"], ["r"], number("transB", 1) if op == "Gemm" else b"", name="product"),
                onnx_node("QuantizeLinear", ["r", "c", "b"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "c", "b"], ["y"], name="e")]
        with open(path("m.onnx"), "wb") as file:
            shapes = ((1, K, 4, 5), (1, N, 4, 5)) if op == "Conv" else ((4, K), (4, N))
            file.write(onnx_file(pair, [("x", F32, shapes[0])], [("y", F32, shapes[1])], (), of))
        title = f"{op}, data of {8 * len(middle)} bits, weights in blocks" + (" of one scale's multiples" if multiples else "")
        for soc in ("SM8350", "SM8650"):  # a step; the sums of u16 in f16 and on v68 are further off
            check(f"{title}, {soc}", run("diff", path("m.onnx"), "--random", "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=" + soc, "--tolerance",
                                         "0.006" if dtype == U8 else "0.00005" if multiples and soc != "SM8350" else "0.002"), 0, "agree")
        nodes, _ = written()
        require(f"{title} stay on integers: {multiples}", "Conv2d" in nodes and ("Dequantize" in nodes) != multiples, nodes)

# ---- 4 bits are stored as such
def size_of(dtype, data):
    with open(path("m.onnx"), "wb") as file:
        wide, count = 256, 256 * 256
        file.write(onnx_file([onnx_node("QuantizeLinear", ["x", "a", "b"], ["q"], name="q"), onnx_node("DequantizeLinear", ["q", "a", "b"], ["d"], name="d"),
                              onnx_node("DequantizeLinear", ["w", "s"], ["f"], number("axis", 0), name="weights"), onnx_node("Conv", ["d", "f"], ["r"], name="c"),
                              onnx_node("QuantizeLinear", ["r", "a", "b"], ["p"], name="p"), onnx_node("DequantizeLinear", ["p", "a", "b"], ["y"], name="e")],
                             [("x", F32, (1, wide, 8, 8))], [("y", F32, (1, wide, 8, 8))], (),
                             [initializer("w", dtype, (wide, wide, 1, 1), data(count)), floats("s", (wide,), 0.005, 0.02), initializer("a", F32, (), struct.pack("<f", 0.02)),
                              initializer("b", U8, (), b"\x80")]))
    check("compile wide weights", run("compile", path("m.onnx"), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "container.keep_graph=0", "-o", path("m.qrm")), 0)
    return os.path.getsize(path("m.qrm"))


I8 = 3
four, eight = size_of(I4, lambda count: some_bytes(count // 2)), size_of(I8, some_bytes)
require("weights of 4 bits take half the room", eight - four > 256 * 256 * 0.4, (four, eight))

# ---- bf16: on the SoCs that the library has it for; the others are refused with its words
check("bf16 before v81", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8750", "-O", "htp_bf16_enable=1"), 3, "htp_bf16_enable", "from v81 on")
check("bf16 where the SoC has none", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8850", "-O", "htp_bf16_enable=1"), 3, "doesn't support BF16")
check("bf16", run("run", model, image, "--backend", "htp", "-O", "soc_model=SC8480XP", "-O", "htp_bf16_enable=1", "--save", path("bf16")), 0, "     3  ")
check("f16", run("run", model, image, "--backend", "htp", "-O", "soc_model=SC8480XP", "--save", path("f16")), 0, "     3  ")
require("they are not the same arithmetic", open(path("bf16/scores.npy"), "rb").read() != open(path("f16/scores.npy"), "rb").read())
check("bf16 is near", run("diff", model, "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=SC8480XP", "-O", "htp_bf16_enable=1", "--input", image), 0, "agree")

shutil.rmtree(folder)
finish()
