#!/usr/bin/env python3
"""Contexts of others on the htp backend: EPContext models, embedded and beside their binary, several nodes of one binary and of several, and everything about them that can be wrong.

check_htp_contexts.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys

from onnx_file import F32, I32, I64, U8, initializer, number, onnx_file, onnx_node, text
from program import build, check, environment, finish, image, model, new_folder, npy, require, root, run, shared

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))
folder = new_folder()
TRUST = ("--backend", "htp", "-O", "htp.foreign_context=trust")


def path(name):
    return os.path.join(folder, name)


def context(inputs, outputs, graph, cache=None, **others):
    """A node; the cache is the binary itself (bytes), a file's name, or none (main_context 0)."""
    given = dict(source="Qnn", partition_name=graph, main_context=int(cache is not None), embed_mode=int(isinstance(cache, bytes)))
    given.update({"ep_cache_context": cache} if cache is not None else {})
    given.update(others)
    return onnx_node("EPContext", inputs, outputs, b"".join(number(k, v) if isinstance(v, int) else text(k, v) for k, v in given.items() if v is not None), "com.microsoft", graph)


def onnx(name, nodes, inputs, outputs, between=()):
    with open(path(name), "wb") as out:
        out.write(onnx_file(nodes, inputs, outputs, between))
    return path(name)


# ---- the binaries: of the digits model, by the backend itself, as ONNX Runtime's provider would have it
npy(path("x.npy"), (1, 1, 8, 8))
check("the model itself", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8650", "--save", path("own")), 0)
check("write its context", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O", "ep.context_file_path=" + path("own_ctx.onnx"), "-O",
                               "ep.context_embed_mode=0"), 0)
check("a context of two machines", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8650,SM8750", "-O", "ep.context_enable=1", "-O", "ep.context_file_path=" + path("two_ctx.onnx")), 3,
      "option soc_model", "found 2 machines", "ep.context_enable")
check("compile to a container", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8650", "-o", path("own.qrm")), 0)
about = json.loads(run("inspect", path("own.qrm"), "--json").stdout)["contexts"][0]["programs"][0]["about"]
GRAPH = about["graphs"][0]["name"]
with open(path("own_ctx_htp.bin"), "rb") as file:
    BINARY = file.read()
IN, OUT = ("image", F32, (1, 1, 8, 8)), ("scores", F32, (1, 10))


def same(name, result, saved):
    require(name, result.returncode == 0 and open(path(saved), "rb").read() == open(path("own/scores.npy"), "rb").read(), result.stderr[-1500:])


def taken(name, file, *more, save="got"):
    result = run("run", file, image, *TRUST, *more, "--save", path(save))
    same(name, result, save + "/scores.npy")
    return result


def refused(name, file, *texts, more=()):
    return check(name, run("run", file, "--zeros", *TRUST, *more), 3, "EPContext", *texts)


embedded = onnx("embedded.onnx", [context(["image"], ["scores"], GRAPH, BINARY)], [IN], [OUT])
beside = onnx("beside.onnx", [context(["image"], ["scores"], GRAPH, "own_ctx_htp.bin")], [IN], [OUT])
check("refused unless it is trusted", run("run", embedded, image, "--backend", "htp"), 3, "QR-O0013", "htp.foreign_context=trust", "source 'Qnn'")
check("no other backend has it", run("run", embedded, image, "--backend", "cpu"), 3, "QR-O0013")
taken("embedded", embedded)
taken("a file beside it", beside)
taken("what the backend wrote itself", path("own_ctx.onnx"))
taken("the SoC that it is for", beside, "-O", "soc_model=57")
check("check says what it is", run("check", beside, *TRUST, "--json"), 0, "graph " + GRAPH + " of a context of others")
check("compile to a container of its own", run("compile", beside, *TRUST, "-o", path("foreign.qrm")), 0, "SM8650")
taken("the container, without a word", path("foreign.qrm"))
said = json.loads(run("inspect", path("foreign.qrm"), "--json").stdout)["contexts"][0]["programs"][0]["about"]
require("inspect: where it is from, a hash", said["origin"].startswith("EPContext of Qnn") and said["binary_bytes"] == len(BINARY) and len(said["binary_xxh3"]) == 16 and
        said["soc"] == "SM8650" and said["build_id"] == about["build_id"], said)
result = subprocess.run([sys.executable, os.path.join(root, "tests", "integration", "htp_damage.py"), os.path.join(build, "runtime", "libquarry.so.0"), path("foreign.qrm"), "backend=htp",
                         "context.recompile=never"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
require("1,000 damaged containers of it", result.returncode == 0 and json.loads(result.stdout.splitlines()[-1])["ids"].get("QR-B0005", 0) > 100, result.stdout[-500:] + result.stderr[-500:])

# ---- names, types and shapes are held against what the binary says
renamed = onnx("renamed.onnx", [context(["outer"], ["result"], GRAPH, "own_ctx_htp.bin", io_name_overrides="result=scores;outer=image;")], [("outer",) + IN[1:]], [("result",) + OUT[1:]])
check("ONNX Runtime's other names", run("run", renamed, image, *TRUST, "--save", path("names")), 0)
require("and the same result", open(path("names/result.npy"), "rb").read() == open(path("own/scores.npy"), "rb").read())
for name, nodes, inputs, outputs, texts in (
        ("an input of another name", context(["x"], ["scores"], GRAPH, BINARY), [("x",) + IN[1:]], [OUT], ("found input x, the binary's inputs are image",)),
        ("an output of another name", context(["image"], ["y"], GRAPH, BINARY), [IN], [("y",) + OUT[1:]], ("found output y, the binary's outputs are scores",)),
        ("another shape", context(["image"], ["scores"], GRAPH, BINARY), [("image", F32, (1, 8, 8, 1))], [OUT], ("found shape [1,8,8,1], the binary has [1,1,8,8]",)),
        ("another type", context(["image"], ["scores"], GRAPH, BINARY), [("image", I32, (1, 1, 8, 8))], [OUT], ("found i32, the binary has f32",)),
        ("another graph", context(["image"], ["scores"], "other", BINARY), [IN], [OUT], ("found partition_name other, expected one of the binary's graphs: " + GRAPH,)),
        ("an input too many", context(["image", "more"], ["scores"], GRAPH, BINARY), [IN, ("more", F32, (1,))], [OUT], ("found input more",)),
        ("an input twice", context(["image", "image"], ["scores"], GRAPH, BINARY), [IN], [OUT], ("found input image twice",)),
        ("another runtime's", context(["image"], ["scores"], GRAPH, BINARY, source="OpenVINOExecutionProvider"), [IN], [OUT], ("it is no context of QNN", "OpenVINO")),
        ("several SoCs in one", context(["image"], ["scores"], GRAPH, BINARY, is_multi_soc_ep_context=1), [IN], [OUT], ("binaries for several SoCs",)),
        ("nobody has the binary", context(["image"], ["scores"], GRAPH), [IN], [OUT], ("main_context 0", "expected one that has the binary")),
        ("no context at all", context(["image"], ["scores"], GRAPH, b"nothing of the kind"), [IN], [OUT], ("found 19 bytes that the library cannot read as a context",)),
        ("cut off", context(["image"], ["scores"], GRAPH, BINARY[:-4096]), [IN], [OUT], ("that the library cannot read as a context",))):
    refused(name, onnx("wrong.onnx", [nodes], inputs, outputs), *texts)
refused("another SoC than asked for", embedded, "made for SM8650 (57, v75), asked for was SM8750", more=("-O", "soc_model=SM8750"))

# ---- files are looked for beside the model alone
for name, location, texts in (("a path upwards", "../own_ctx_htp.bin", ("external data file '../own_ctx_htp.bin'",)), ("an absolute path", path("own_ctx_htp.bin"), ("external data file",)),
                              ("no such file", "none.bin", ("'none.bin': is not there",)), ("an empty name", "", ("external data",)), ("a folder", ".", ("external data file '.'",))):
    check(name, run("run", onnx("away.onnx", [context(["image"], ["scores"], GRAPH, location)], [IN], [OUT]), "--zeros", *TRUST), 3, "ep_cache_context", *texts)
check("no bytes in the model", run("run", onnx("empty.onnx", [context(["image"], ["scores"], GRAPH, b"")], [IN], [OUT]), "--zeros", *TRUST), 3, "found no bytes")

# ---- borders: stored integers outside, quantised by the host, 64 bits
quantised = os.path.join(shared, "models", "kws_dscnn_int8_qdq", "model.onnx")
if os.path.exists(quantised):
    write = ("--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1")
    npy(path("k.npy"), (1, 1, 49, 10))
    check("a quantised model", run("run", quantised, path("k.npy"), *write, "-O", "ep.context_file_path=" + path("k_ctx.onnx"), "--save", path("k")), 0)
    for name, more in (("its context", ()),):
        check(name, run("run", path("k_ctx.onnx"), path("k.npy"), *TRUST, "--save", path("k_got")), 0)
        require(name + ": equal", [open(path("k_got/" + f), "rb").read() for f in sorted(os.listdir(path("k_got")))] == [open(path("k/" + f), "rb").read() for f in sorted(os.listdir(path("k")))])

# 64-bit integers outside, 32 bits in the binary: Casts around the node, and back
with open(path("sum.onnx"), "wb") as out:
    out.write(onnx_file([onnx_node("Add", ["a", "a"], ["y"])], [("a", I64, (4,))], [("y", I64, (4,))]))
header = b"{'descr': '<i8', 'fortran_order': False, 'shape': (4,), }"
with open(path("a.npy"), "wb") as out:
    out.write(b"\x93NUMPY\x01\0" + struct.pack("<H", 118) + header.ljust(117) + b"\n" + struct.pack("<4q", 1, -2, 3, 1 << 20))
check("write a context of 64-bit integers", run("run", path("sum.onnx"), path("a.npy"), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O",
                                                "ep.context_file_path=" + path("sum_ctx.onnx"), "-O", "ep.context_node_name_prefix=given_", "--save", path("sum")), 0)
require("the node has the prefix", b"given_" in open(path("sum_ctx.onnx"), "rb").read())
check("64-bit integers from the context", run("run", path("sum_ctx.onnx"), path("a.npy"), *TRUST, "--save", path("sum_got")), 0)
require("64-bit integers: equal", open(path("sum/y.npy"), "rb").read()[-32:] == struct.pack("<4q", 2, -4, 6, 1 << 21) and
        open(path("sum_got/y.npy"), "rb").read() == open(path("sum/y.npy"), "rb").read())
# An output that the binary knows by another name (the image is turned back behind the convolution), and borders of more axes than the device has.
for name, nodes, dims, out, constants in (
        ("a convolution", [onnx_node("Conv", ["x", "w"], ["y"])], (1, 1, 8, 8), (1, 2, 8, 8), [initializer("w", F32, (2, 1, 1, 1), struct.pack("<2f", 0.5, -2))]),
        ("six axes", [onnx_node("Neg", ["x"], ["y"])], (1, 1, 2, 4, 2, 4), (1, 1, 2, 4, 2, 4), [])):
    with open(path("named.onnx"), "wb") as out_file:
        out_file.write(onnx_file(nodes, [("x", F32, dims)], [("y", F32, out)], (), constants))
    npy(path("n.npy"), dims)
    for embed in "01":
        check(f"write a context of {name}", run("run", path("named.onnx"), path("n.npy"), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O", "ep.context_embed_mode=" + embed,
                                                "-O", "ep.context_file_path=" + path("named_ctx.onnx"), "--save", path("named")), 0)
        check(f"read the context of {name}", run("run", path("named_ctx.onnx"), path("n.npy"), *TRUST, "--save", path("named_got")), 0)
        require(f"the context of {name}: equal", open(path("named/y.npy"), "rb").read() == open(path("named_got/y.npy"), "rb").read())
# What the device neither reads nor makes, and integers that a border's QuantizeLinear makes.
relu = onnx_node("Relu", ["x"], ["y"], name="y")
quantise = [initializer("s", F32, (), struct.pack("<f", 0.03)), initializer("z", U8, (), bytes([100]))]
npy(path("n.npy"), (2, 8))
npy(path("u.npy"), (3,))
for name, nodes, inputs, outputs, constants in (
        ("an output that is a constant", [relu], [("x", F32, (2, 8))], [("y", F32, (2, 8)), ("w", F32, (3,))], [initializer("w", F32, (3,), struct.pack("<3f", 1, -2, 0.3))]),
        ("an output that is 64-bit constants", [relu, onnx_node("Shape", ["y"], ["k"], name="k")], [("x", F32, (2, 8))], [("y", F32, (2, 8)), ("k", I64, (2,))], []),
        ("an input that nobody reads", [relu], [("x", F32, (2, 8)), ("u", F32, (3,))], [("y", F32, (2, 8))], []),
        ("an output of integers of an input", [onnx_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q")], [("x", F32, (2, 8))], [("q", U8, (2, 8))], quantise)):
    with open(path("edge.onnx"), "wb") as out_file:
        out_file.write(onnx_file(nodes, inputs, outputs, (), constants))
    given = [f"{n}={path('n.npy' if n == 'x' else 'u.npy')}" for n, _, _ in inputs]
    given = [word for one in given for word in ("-i", one)]
    check(f"write a context with {name}", run("run", path("edge.onnx"), *given, "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O",
                                              "ep.context_file_path=" + path("edge_ctx.onnx"), "--save", path("edge")), 0)
    check(f"read the context with {name}", run("run", path("edge_ctx.onnx"), *given, *TRUST, "--save", path("edge_got")), 0)
    require(f"the context with {name}: equal", all(open(path(f"edge/{n}.npy"), "rb").read() == open(path(f"edge_got/{n}.npy"), "rb").read() for n, _, _ in outputs))
with open(path("edge.onnx"), "wb") as out_file:
    out_file.write(onnx_file([relu], [("x", F32, (2, 8))], [("y", F32, (2, 8)), ("x", F32, (2, 8))]))
check("a context with an output that is an input", run("run", path("edge.onnx"), path("n.npy"), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O",
                                                       "ep.context_file_path=" + path("never.onnx")), 3, "output x: found an input of that name")
require("and no file is left", not os.path.exists(path("never.onnx")))
for key, value in (("ep.context_model_external_initializers_file_name", "x.bin"),):
    check(key + " is refused", run("run", model, image, "--backend", "htp", "-O", "soc_model=SM8650", "-O", f"{key}={value}"), 3, key, "the htp backend does not do")

# ---- ONNX Runtime's QNN provider loads what was written and gives the same bytes
candidates = [os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(build, "venv", "bin", "python")]
python = next((p for p in candidates if p and os.path.exists(p) and subprocess.run([p, "-c", "import onnxruntime, onnxruntime_qnn"], stderr=subprocess.DEVNULL).returncode == 0), None)
if python:
    for name, expected, given in (("sum_ctx.onnx", "sum/y.npy", "a.npy"), ("k_ctx.onnx", None, "k.npy")):
        if not os.path.exists(path(name)):
            continue
        expected = expected or "k/" + os.listdir(path("k"))[0]
        result = subprocess.run([python, os.path.join(root, "tests", "integration", "ort_qnn.py"), path(name), path(expected), "57", path(given)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, timeout=120)
        require("ONNX Runtime's QNN provider gives the same from " + name, result.stdout.splitlines()[-1:] == ["equal"], result.stdout[-300:] + result.stderr[-800:])
else:
    print("   skipped: ONNX Runtime's QNN provider on EPContext models: no Python has onnxruntime and onnxruntime-qnn (set QUARRY_ORT_PYTHON)")

# ---- several nodes: of one binary, and of several
GIVEN = os.path.join(shared, "models", "qnn_ctx")
npy(path("m.npy"), (3, 4))
if os.path.isdir(GIVEN):
    for name in ("qnn_multi_ctx_embed.onnx", "qnn_multi_ctx_external.onnx"):
        check(name + ": it does not say for which SoC", run("run", os.path.join(GIVEN, name), "--zeros", *TRUST), 3, "does not say for which SoC it is", "expected option soc_model")
        check(name, run("run", os.path.join(GIVEN, name), path("m.npy"), *TRUST, "-O", "soc_model=SM8350", "--save", path(name)), 0, "made by v2.22.0")
        check(name + ": strict", run("run", os.path.join(GIVEN, name), "--zeros", *TRUST, "-O", "soc_model=SM8350", "-O", "htp.compatibility=strict"), 3, "made by v2.22.0", "htp.compatibility is strict")
    require("two binaries in one run", open(path("qnn_multi_ctx_embed.onnx/output.npy"), "rb").read() == open(path("qnn_multi_ctx_external.onnx/output.npy"), "rb").read())
else:
    print(f"   skipped: ONNX Runtime's own contexts: '{GIVEN}' is not there")
# The same binary twice, the second node without it: image -> scores of one node, and again from a second input of the model.
SECOND = [("image2", F32, IN[2])], [("scores2", F32, OUT[2])]
pair = onnx("pair.onnx", [context(["image"], ["scores"], GRAPH, "own_ctx_htp.bin"), context(["image2"], ["scores2"], GRAPH, io_name_overrides="image2=image;scores2=scores;")],
            [IN] + SECOND[0], [OUT] + SECOND[1])
check("two nodes of one binary", run("compile", pair, *TRUST, "-o", path("pair.qrm")), 0)
parts = json.loads(run("inspect", path("pair.qrm"), "--json").stdout)["contexts"][0]["programs"][0]["about"]
require("the binary is there once", len(parts["parts"]) == 1 and parts["graphs"][0]["stages"] == [GRAPH, GRAPH], parts)
check("both compute", run("run", path("pair.qrm"), "--input", "image=" + image, "--input", "image2=" + image, "--backend", "htp", "--save", path("pair")), 0)
require("the same twice", {open(path("pair/" + f), "rb").read() for f in ("scores.npy", "scores2.npy")} == {open(path("own/scores.npy"), "rb").read()})
beside_it = onnx("relu.onnx", [context(["image"], ["s"], GRAPH, BINARY, io_name_overrides="s=scores"), onnx_node("Relu", ["s"], ["scores"])], [IN], [OUT], [("s",) + OUT[1:]])
check("other operators beside it", run("run", beside_it, "--zeros", *TRUST), 3, "operator Relu beside EPContext nodes", "cut the model")

# ---- damaged binaries and models: an error or what the bytes say, never a crash of the compilation (which loads nothing)
random.seed(11)
whole = open(embedded, "rb").read()
crashed, ended = [], {}
for case in range(60):
    damaged = bytearray(whole)
    if case % 3 == 0:
        del damaged[random.randrange(len(damaged)):]
    for _ in range(1 + case % 4):
        if damaged:
            damaged[random.randrange(min(len(damaged), 4096 if case % 2 else len(damaged)))] ^= 1 << random.randrange(8)
    with open(path("damaged.onnx"), "wb") as out:
        out.write(damaged)
    status = run("compile", path("damaged.onnx"), *TRUST, "-o", path("damaged.qrm")).returncode
    ended[status] = ended.get(status, 0) + 1
    if status not in (0, 3):
        crashed.append((case, status))
require("60 damaged models", not crashed and ended.get(3, 0) > 10, (crashed, ended))

shutil.rmtree(folder)
finish()
