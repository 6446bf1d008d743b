#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters (LoRA), through the program: each beside the model whose weights were merged with it, on every backend that is there.

check_adapters.py BUILD SHARED, run by a Python that has numpy and onnx. On gpu where there is an OpenCL device, on htp in the emulator where QUARRY_QNN_PATH names the libraries.
"""
import json
import os
import struct
import sys

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from decoders import Network, decoder  # noqa: E402
from program import check, finish, new_folder, require, run  # noqa: E402

folder = new_folder()
rng = np.random.default_rng(36)
IN, MID, OUT, RANK, ALPHA = 12, 16, 20, 3, 6.0
Q, UP, POINT = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj", "model.head"
TARGETS = "q_proj,*.up_proj,head"


def random(*shape):
    return rng.standard_normal(shape).astype(np.float32) / np.float32(np.sqrt(shape[-1]))


weights = {Q: random(IN, MID), UP: random(MID, MID), POINT: random(OUT, MID, 1, 1)}  # MatMul [K, N], Gemm [N, K], Conv
bias = random(MID)
updates = {Q: (random(RANK, IN), random(MID, RANK)), UP: (random(RANK, MID), random(MID, RANK)), POINT: (random(RANK, MID), random(OUT, RANK))}


def merged(which, scale=ALPHA / RANK):
    made = dict(weights)
    for name in which:
        a, b = updates[name]
        delta = np.float32(scale) * (b @ a)  # [N, K]
        made[name] = made[name] + (delta.T if name == Q else delta.reshape(made[name].shape))
    return made


def save(name, values, rows):
    """Three layers as exporters name them: by its node, by its weight, and a Conv by one point."""
    nodes = [
        h.make_node("MatMul", ["x", "onnx::MatMul_7"], ["q"], name="/model/layers.0/self_attn/q_proj/MatMul"),
        h.make_node("Gemm", ["q", UP + ".weight", UP + ".bias"], ["up"], name="node_linear", transB=1),
        h.make_node("Relu", ["up"], ["r"], name="/model/Relu"),
        h.make_node("Reshape", ["r", "to"], ["image"], name="/model/Reshape"),
        h.make_node("Conv", ["image", "onnx::Conv_9"], ["made"], name="/model/head/Conv"),
        h.make_node("Flatten", ["made"], ["y"], name="/model/Flatten"),
    ]
    initializers = [numpy_helper.from_array(value, key) for key, value in (
        ("onnx::MatMul_7", values[Q]), (UP + ".weight", values[UP]), (UP + ".bias", bias), ("onnx::Conv_9", values[POINT]),
        ("to", np.array([-1, MID, 1, 1])))]
    graph = h.make_graph(nodes, name, [h.make_tensor_value_info("x", T.FLOAT, [rows, IN])], [h.make_tensor_value_info("y", T.FLOAT, [rows, OUT])], initializers)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), path)
    return path


def by_numpy(values, x):
    rows = np.maximum(x @ values[Q] @ values[UP].T + bias, 0)
    return rows @ values[POINT].reshape(OUT, MID).T


def safetensors(path, tensors, metadata=None):
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for name, value in tensors.items():
        kind = {"float32": "F32", "float16": "F16", "float64": "F64"}[str(value.dtype)]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + data)
    return path


def peft(which, dtype=np.float32):
    return {f"base_model.model.{name}.lora_{half}.weight": value.astype(dtype) for name in which for half, value in zip("AB", updates[name])}


def with_config(name, tensors, **config):
    path = safetensors(os.path.join(folder, name, "adapter_model.safetensors"), tensors)
    with open(os.path.join(folder, name, "adapter_config.json"), "w") as out:
        json.dump({"peft_type": "LORA", "lora_alpha": ALPHA, "r": RANK, "use_rslora": False, **config}, out)
    return path


def onnx_adapter(name, tensors, metadata=None):
    model = h.make_model(h.make_graph([], "adapter", [], [], [numpy_helper.from_array(value, key) for key, value in tensors.items()]),
                         opset_imports=[h.make_opsetid("", 17)], ir_version=9)
    for key, value in (metadata or {}).items():
        model.metadata_props.add(key=key, value=value)
    path = os.path.join(folder, name + ".onnx")
    onnx.save(model, path)
    return path


def result(*args):
    out = new_folder()
    said = run("run", *args, "--save", out, "--json")
    if said.returncode != 0:
        return said.stdout + said.stderr
    return np.load(json.loads(said.stdout)["runs"][0]["outputs"][0]["file"])


def near(name, found, right, tolerance):
    worst = float(np.abs(found - right).max() / np.abs(right).max()) if isinstance(found, np.ndarray) and found.shape == right.shape else found
    require(name, isinstance(worst, float) and worst < tolerance, worst)


x = random(4, IN)
given = os.path.join(folder, "x.npy")
np.save(given, x)
every, some = with_config("every", peft(updates)), with_config("some", peft([Q, POINT], np.float16))
room = ["-O", "adapter.targets=" + TARGETS, "-O", "adapter.rank=5"]
fixed, open_rows = save("fixed", weights, 4), save("open", weights, "rows")


def all_of(backend, *flags, tolerance=1e-5):
    """From .onnx and from a container; without an adapter the same as the model without room for one."""
    base = ["--backend", backend, *flags]
    container = os.path.join(folder, backend + ".qrm")
    check(f"{backend}: compiled", run("compile", fixed, "-o", container, *base, *room), 0)
    plain = result(fixed, given, *base)
    near(f"{backend}: plain", plain, by_numpy(weights, x), tolerance)
    sources = [("onnx", [fixed, *room]), ("qrm", [container])]
    for what, source in sources:
        alone = result(*source, given, *base)
        same = isinstance(alone, np.ndarray) and (np.array_equal(alone, plain) if backend.startswith("cpu") else np.allclose(alone, plain, atol=tolerance * np.abs(plain).max()))
        require(f"{backend} from {what}: without an adapter", same, alone)
        for name, file, which, scale in (("every", every, updates, ALPHA / RANK), ("some, f16", some, [Q, POINT], ALPHA / RANK)):
            right = result(save("merged", merged(which, scale), 4), given, *base)
            near(f"{backend}: merged", right, by_numpy(merged(which, scale), x), tolerance)
            near(f"{backend} from {what}: {name}", result(*source, given, "--adapter", file, *base), right, max(tolerance, 1e-3 if "f16" in name else 0))
        near(f"{backend} from {what}: half the strength", result(*source, given, "--adapter", every, "--adapter-strength", "0.5", *base),
             by_numpy(merged(updates, ALPHA / RANK / 2), x), tolerance)
    check(f"{backend}: the weights are listed", run("inspect", container), 0, f"{Q}, rank at most 5", f"{UP}, rank at most 5", f"{POINT}, rank at most 5")
    check(f"{backend}: asked for as compiled", run("run", container, given, *base, *room), 0)
    check(f"{backend}: asked for otherwise", run("run", container, given, *base, "-O", "adapter.targets=q_proj", "-O", "adapter.rank=5"), 3, "QR-C0103", "adapter.targets")


for backend in ("cpu", "cpu-reference"):
    all_of(backend)
    near(f"{backend}: any number of rows", result(open_rows, given, "--backend", backend, *room, "--adapter", every), by_numpy(merged(updates), x), 1e-5)
    near(f"{backend}: a range of rows", result(open_rows, given, "--backend", backend, "--shape", "rows=1..8", *room, "--adapter", every), by_numpy(merged(updates), x), 1e-5)
backends = {one["id"]: one for one in json.loads(run("doctor", "--json").stdout)["backends"]}
if any(device["usable"] for device in backends.get("gpu", {"devices": []})["devices"]):
    all_of("gpu", tolerance=1e-4)
else:
    print("   on gpu: skipped, there is no device")
if any(device["usable"] for device in backends.get("htp", {"devices": []})["devices"]):
    all_of("htp", "-O", "soc_model=SM8650", tolerance=6e-3)
else:
    print("   on htp: skipped, there are no QNN libraries (QUARRY_QNN_PATH)")

# ---- where alpha comes from, and other files
right = by_numpy(merged(updates), x)
apply = lambda file, *flags: result(fixed, given, *room, "--adapter", file, *flags)  # noqa: E731
bare = safetensors(os.path.join(folder, "bare", "a.safetensors"), peft(updates))
near("alpha by argument", apply(bare, "--adapter-alpha", str(ALPHA)), right, 1e-5)
near("alpha by metadata", apply(safetensors(os.path.join(folder, "meta", "a.safetensors"), peft(updates), {"lora_alpha": str(ALPHA)})), right, 1e-5)
near("alpha by root", apply(with_config("root", peft(updates), use_rslora=True, lora_alpha=ALPHA / np.sqrt(RANK))), right, 1e-5)
near("ONNX", apply(onnx_adapter("peft", peft(updates), {"lora_alpha": str(ALPHA)})), right, 1e-5)
inputs = {}
for name, (a, b) in updates.items():
    inputs[f"quarry.lora_A.{name}"] = a.reshape(RANK, MID, 1, 1) if name == POINT else np.ascontiguousarray(a.T)
    b = np.float32(ALPHA / RANK) * b
    inputs[f"quarry.lora_B.{name}"] = b.reshape(OUT, RANK, 1, 1) if name == POINT else np.ascontiguousarray(b.T)
near("ONNX by the inputs' names", apply(onnx_adapter("inputs", inputs)), right, 1e-5)

# ---- weights that are quantised: of eight bits by DequantizeLinear, of four by MatMulNBits
K, N, BLOCK = 32, 16, 16
bytes8, scales8 = rng.integers(-127, 128, (K, N)).astype(np.int8), (rng.random(N) / 500 + 1e-3).astype(np.float32)
nibbles, scales4 = rng.integers(0, 16, (K, K)).astype(np.uint8), (rng.random((K, K // BLOCK)) / 20 + 0.01).astype(np.float32)  # [N, K]
packed = (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).reshape(K, K // BLOCK, BLOCK // 2)
graph = h.make_graph(
    [h.make_node("MatMulNBits", ["x", "b4", "s4"], ["m"], name="/block/first/MatMul_Q4", domain="com.microsoft", K=K, N=K, bits=4, block_size=BLOCK),
     h.make_node("DequantizeLinear", ["b8", "s8"], ["w8"], axis=1), h.make_node("MatMul", ["m", "w8"], ["y"], name="/block/second/MatMul")], "quantised",
    [h.make_tensor_value_info("x", T.FLOAT, [4, K])], [h.make_tensor_value_info("y", T.FLOAT, [4, N])],
    [numpy_helper.from_array(value, key) for key, value in (("b4", packed), ("s4", scales4.reshape(-1)), ("b8", bytes8), ("s8", scales8))])
path = os.path.join(folder, "quantised.onnx")
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=9), path)
first = (nibbles.astype(np.float32) - 8) * np.repeat(scales4, BLOCK, 1)
parts = {"block.first": (random(RANK, K), random(K, RANK)), "block.second": (random(RANK, K), random(N, RANK))}
rows = random(4, K)
np.save(os.path.join(folder, "rows.npy"), rows)
file = with_config("quantised", {f"{name}.lora_{half}.weight": value for name, pair in parts.items() for half, value in zip("AB", pair)})
expected = rows @ (first + ALPHA / RANK * parts["block.first"][1] @ parts["block.first"][0]).T
expected = expected @ (bytes8 * scales8 + (ALPHA / RANK * parts["block.second"][1] @ parts["block.second"][0]).T)
for backend in ("cpu", "cpu-reference"):
    near(f"{backend}: quantised weights", result(path, os.path.join(folder, "rows.npy"), "--backend", backend, "-O", "adapter.targets=*", "--adapter", file), expected, 2e-3)

# ---- a decoder whose cache the session keeps: piece by piece as in one piece
path = decoder(Network(folder, rng), "decoder")
container = os.path.join(folder, "decoder.qrm")
check("a decoder", run("compile", path, "-o", container, "-O", "state=auto", "-O", "adapter.targets=*", "-O", "adapter.rank=4"), 0)
tensors = {}
for one in json.loads(run("inspect", "--json", container).stdout)["inputs"]:
    if one["name"].startswith("quarry.lora_"):
        tensors[one["name"]] = random(*one["dims"])
file = onnx_adapter("of_decoder", tensors)
ids = rng.integers(0, 40, (1, 8))
pieces = []
for index, (begin, end) in enumerate(((0, 8), (0, 5), (5, 6), (6, 8))):
    pieces.append(os.path.join(folder, f"piece{index}.npy"))
    np.save(pieces[-1], ids[:, begin:end])


def last_logits(*flags):
    out = new_folder()
    said = run("run", container, "--state", "auto", *flags, "--save", out, "--json")
    require("a decoder with state", said.returncode == 0, said.stdout + said.stderr)
    return np.load(json.loads(said.stdout)["runs"][-1]["outputs"][0]["file"])[0, -1]


plain, whole, parts = last_logits(pieces[0]), last_logits(pieces[0], "--adapter", file), last_logits(*pieces[1:], "--adapter", file)
near("piece by piece", parts, whole, 1e-4)
require("the adapter counts", len(tensors) >= 8 and not np.allclose(plain, whole, atol=1e-2 * np.abs(plain).max()), f"{len(tensors)} {plain} {whole}")
check("bench", run("bench", os.path.join(folder, "cpu.qrm"), "--adapter", every, "-n", "2"), 0)
said = [run("chat", container, "--ids", "1,2,3", "--max-tokens", "6", *flags).stdout for flags in ((), ("--adapter", file))]
require("chat", all(said) and said[0] != said[1], said)

# ---- the option that names a file of ONNX Runtime's provider
def listed(text):
    path = os.path.join(folder, "lora.txt")
    with open(path, "w") as out:
        out.write(text)
    return ["-O", "qnn.lora_config=" + path]


section = os.path.join(folder, "section.bin")
with open(section, "wb") as out:
    out.write(struct.pack("<QQ", 0x1048, 2) + bytes(range(256)) * 4)
near("by a list", result(fixed, given, *room, *listed(f"graph;{every}\r\n\n")), right, 1e-5)
for text, said in ((f"graph;{every}\ng2;{some}\n", "several lines"), ("", "no line"), (every, "GRAPH;PATH"), (f";{every}", "GRAPH;PATH")):
    check("a bad list", run("run", fixed, given, *room, *listed(text)), 3, "QR-A0001", said, "qnn.lora_config")
check("a list of what is not there", run("run", fixed, given, *room, *listed("graph;/nowhere/a.bin")), 3, "QR-F0001", "/nowhere/a.bin")
check("a binary section", run("run", fixed, given, *room, *listed(f"graph;{section}")), 3, "QR-A0001", "binary section of Qualcomm's")
check("a list without room", run("run", fixed, given, *listed(f"graph;{every}")), 3, "QR-A0005")

# ---- what does not fit
def refused(name, tensors, *texts):
    check(name, run("run", fixed, given, *room, "--adapter", with_config(name.replace(" ", "_"), tensors)), 3, *texts)


check("no alpha", run("run", fixed, given, *room, "--adapter", bare), 3, "QR-A0004", "lora_alpha")
check("no room", run("run", fixed, given, "--adapter", every), 3, "QR-A0005", "adapter.targets")
a, b = updates[Q]
name = "base_model.model." + Q
refused("unknown weight", {**peft(updates), "x.k_proj.lora_A.weight": a, "x.k_proj.lora_B.weight": b}, "QR-A0002", "k_proj")
refused("half", {f"{name}.lora_A.weight": a}, "QR-A0002", "lora_A alone")
refused("twice", {**peft([Q]), f"{Q}.lora_A.weight": a}, "QR-A0002", "are both the lora_A")
refused("other sizes", {f"{name}.lora_A.weight": random(RANK, IN + 1), f"{name}.lora_B.weight": b}, "QR-A0002", "expected from 12 to 16")
refused("other ranks", {f"{name}.lora_A.weight": random(RANK + 1, IN), f"{name}.lora_B.weight": b}, "QR-A0002", "rank 4 in lora_A and 3 in lora_B")
refused("large rank", {f"{name}.lora_A.weight": random(6, IN), f"{name}.lora_B.weight": random(MID, 6)}, "QR-A0002", "rank 6, expected 1 to 5")
refused("DoRA", {**peft([Q]), f"{name}.lora_magnitude_vector": random(MID)}, "QR-A0003", "lora_magnitude_vector")
check("other kind", run("run", fixed, given, *room, "--adapter", with_config("ia3", peft([Q]), peft_type="IA3")), 3, "QR-A0003", "IA3")
check("no file", run("run", fixed, given, *room, "--adapter", os.path.join(folder, "none.safetensors")), 3, "QR-F0001")
check("no weight of that name", run("run", fixed, given, "-O", "adapter.targets=v_proj"), 3, "QR-C0102", "v_proj", Q)

turned = onnx.load(fixed)
turned.graph.node[1].attribute.append(h.make_attribute("alpha", 2.0))
turned_path = os.path.join(folder, "turned.onnx")
onnx.save(turned, turned_path)
check("weights that cannot", run("run", turned_path, given, "-O", "adapter.targets=*"), 3, "QR-A0007", UP, "alpha")
check("the others", run("run", turned_path, given, "-O", "adapter.targets=q_proj,head"), 0)

# ---- damaged files: an error, never a crash
whole = open(every, "rb").read()
damaged = os.path.join(folder, "damaged", "a.safetensors")
os.makedirs(os.path.dirname(damaged))
size = struct.unpack("<Q", whole[:8])[0]
cuts = [whole[:n] for n in (0, 4, 8, 9, 8 + size // 2, 8 + size, len(whole) - 1)]
cuts += [struct.pack("<Q", n) + whole[8:] for n in (0, 2 ** 21 + 1, 2 ** 63, 2 ** 64 - 1, len(whole), size - 1)]
for old, new in ((b"[0,", b"[9,"), (b"F32", b"F99"), (b"[3, 12]", b"[3, 13]"), (b"[3, 12]", b"[-3,12]"), (b"[3, 12]", b"[1e30,1]"), (b'"shape"', b'"shade"'),
                 (b"data_offsets", b"data_offsetz")):
    cuts.append(whole.replace(old, new, 1))
for number, cut in enumerate(cuts):
    with open(damaged, "wb") as out:
        out.write(cut)
    said = run("run", fixed, given, *room, "--adapter", damaged, "--adapter-alpha", "1")
    require(f"damaged {number}", said.returncode == 3 and "QR-A000" in said.stderr, f"{said.returncode} {said.stdout} {said.stderr}")
with open(os.path.join(folder, "every", "adapter_config.json"), "w") as out:
    out.write('{"lora_alpha": ')
check("damaged configuration", run("run", fixed, given, *room, "--adapter", every), 3, "QR-A0001", "adapter_config.json")
finish()
