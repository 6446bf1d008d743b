#!/usr/bin/env python3
"""Several networks in one container: `quarry compile a.onnx b.onnx -o all.qrm`, sessions that choose one, and what is in the file once.

check_networks.py BUILD_DIR SHARED_DIR [FOLDER_OF_QUALCOMM'S_LIBRARIES]   (without the folder: on the processor alone)
"""
import array
import glob
import json
import os
import random
import re
import subprocess
import sys

from onnx_file import F32, initializer, onnx_file, onnx_node
from program import build, check, environment, finish, model, new_folder, require, root, run

folder = new_folder()
draw = random.Random(5)


def at(name):
    return os.path.join(folder, name)


def floats(count):
    return array.array("f", (draw.uniform(-0.2, 0.2) for _ in range(count))).tobytes()


# Two networks that share their first layer, and the first again with another name of its input.
shared_weights = floats(64 * 128)
own = {"a": floats(128 * 10), "b": floats(128 * 20)}
for name, width, entry in (("a", 10, "x"), ("b", 20, "x"), ("c", 10, "other")):
    nodes = [onnx_node("MatMul", [entry, "W"], ["h"], name="first"), onnx_node("Relu", ["h"], ["r"], name="act"), onnx_node("MatMul", ["r", "V"], ["y"], name="last")]
    with open(at(name + ".onnx"), "wb") as file:
        file.write(onnx_file(nodes, [(entry, F32, ["n", 64])], [("y", F32, ["n", width])], initializers=[initializer("W", F32, [64, 128], shared_weights), initializer("V", F32, [128, width], own["b" if name == "b" else "a"])], opset=17))
for rows in (1, 4):
    with open(at(f"x{rows}.npy"), "wb") as file:
        head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 64), }}".ljust(117) + "\n"
        file.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + floats(rows * 64))


def output(words, name):
    """What a run gives, as bytes."""
    to = at("out_" + name)
    check("run: " + name, run("run", *words, "-o", to), 0)
    with open(glob.glob(os.path.join(to, "*.npy"))[0], "rb") as file:
        return file.read()


def networks(backend, options=(), shapes=("n=1",), container="all.qrm", names=("a", "b", "other=c"), **how):
    words = [word if "=" in word else at(word + ".onnx") for word in names]
    words = [word.split("=")[0] + "=" + at(word.split("=")[1] + ".onnx") if re.match(r"\w+=\w+$", word) else word for word in words]
    return run("compile", *words, "--backend", backend, *[w for s in shapes for w in ("--shape", s)], *[w for o in options for w in ("-O", o)], "-o", at(container), **how)


def of(name, container="all.qrm"):
    options = [] if name is None else ["-O", "model=" + name]
    return json.loads(run("inspect", at(container), "--json", *options).stdout)


for backend in ("cpu", "cpu-reference"):
    check("compile for " + backend, networks(backend), 0, "3 networks", "a: 1 graph", "are in the file once for several of them, which saves")
    whole = of(None)
    require("their names", whole["networks"] == ["a", "b", "other"] and whole["graphs"] == [] and whole["inputs"] == [], whole)
    require("inputs are each network's own", [of(n)["inputs"][0]["name"] for n in whole["networks"]] == ["x", "x", "other"], [of(n)["inputs"] for n in whole["networks"]])
    for name, file in (("a", "a"), ("b", "b"), ("other", "c")):
        alone = output([at(file + ".onnx"), "--backend", backend, "--shape", "n=1", at("x1.npy")], f"{backend} {file} alone")
        together = output([at("all.qrm"), "--backend", backend, "-O", "model=" + name, at("x1.npy")], f"{backend} {name}")
        require(f"{backend}: {name} gives what it gives alone", alone == together, name)
check("weights that are equal are in it once", run("inspect", at("all.qrm")), 0, "which saves")
size = os.path.getsize(at("all.qrm"))
require("and the file shows it", size < 3 * (64 * 128 + 128 * 20) * 4, size)
check("no network is named", run("run", at("all.qrm"), at("x1.npy")), 3, 'option model: found ""', "expected one of the networks: a b other")
check("one that is not there", run("run", at("all.qrm"), "-O", "model=d", at("x1.npy")), 3, 'option model: found "d"', "a b other")
check("the whole cannot be run", run("run", at("all.qrm"), "-O", "model=*", "--zeros"), 3, "found no context")
check("a container of one network", run("compile", model, "-o", at("one.qrm")), 0)
check("has none to name", run("run", at("one.qrm"), "-O", "model=a", "--zeros"), 3, 'option model: found "a"')
check("but is whole", run("run", at("one.qrm"), "-O", "model=*", "--zeros"), 0)
check("a model that is no container", run("run", model, "-O", "model=a", "--zeros"), 3, "option model", "no container")
check("all of it is sound", run("verify", at("all.qrm")), 0, "sound")
with open(at("all.qrm"), "rb") as file:
    bytes_ = file.read()
bad = 0
for i in range(60):  # whatever byte is another, it is found
    place = draw.randrange(len(bytes_))
    with open(at("damaged.qrm"), "wb") as file:
        file.write(bytes_[:place] + bytes([bytes_[place] ^ (1 + draw.randrange(255))]) + bytes_[place + 1 :])
    bad += run("verify", at("damaged.qrm")).returncode == 1
require("damage is found", bad == 60, bad)
check("several shapes of each", networks("cpu", shapes=("a:n=1", "a:n=4", "b:n=1", "other:n=1")), 0, "a: 2 graphs", "b: 1 graph")
check("and each has its own", run("run", at("all.qrm"), "-O", "model=a", at("x4.npy")), 0)
check("others do not have it", run("run", at("all.qrm"), "-O", "model=b", at("x4.npy")), 3, "QR-R0003")
check("one network, compiled again alone", run("compile", at("all.qrm"), "-O", "model=b", "--backend", "cpu-reference", "-o", at("b.qrm")), 0, "cpu-reference")
check("runs", run("run", at("b.qrm"), "--backend", "cpu-reference", at("x1.npy")), 0)
check("two of one name", networks("cpu", names=("a", "a")), 3, "a second one named 'a'")
check("no name for the result", run("compile", at("a.onnx"), at("b.onnx")), 2, "-o FILE")
check("a child compiles one", networks("cpu", ["compile.process=child"]), 3, "compile.process", "expected own")
check("for ONNX Runtime one program is needed", networks("cpu", container="all.onnx"), 3, "found programs of their own", "several networks in one program")
if len(sys.argv) < 4:
    finish()
    sys.exit()

# ---- htp: all graphs in one binary
libraries = os.path.abspath(sys.argv[3])
environment["QUARRY_QNN_PATH"] = libraries
environment["QUARRY_BACKEND_PATH"] = os.path.join(build, "backends", "htp")
soc = ["soc_model=SM8650"]
check("htp: compile", networks("htp", soc, ("a:n=1", "a:n=4", "b:n=1", "other:n=1"), "htp.qrm"), 0, "3 networks", "a: 2 graphs")
segments = [of(n, "htp.qrm")["contexts"][0]["programs"][0] for n in ("a", "b", "other")]
require("htp: one binary", len({json.dumps(p["segments"]) for p in segments}) == 1 and segments[1]["graphs"] == [None, None, 0, None], segments)
for name, file, rows in (("a", "a", 1), ("a", "a", 4), ("b", "b", 1), ("other", "c", 1)):
    alone = output([at(file + ".onnx"), "--backend", "htp", "-O", soc[0], "--shape", f"n={rows}", at(f"x{rows}.npy")], f"htp {file} {rows} alone")
    together = output([at("htp.qrm"), "--backend", "htp", "-O", "model=" + name, at(f"x{rows}.npy")], f"htp {name} {rows}")
    require(f"htp: {name} of {rows} rows gives what it gives alone", alone == together, name)
record = at("b.qrec")
check("htp: a session of one network", run("run", at("htp.qrm"), "--backend", "htp", "-O", "model=b", "-O", "htp.record=" + record, at("x1.npy")), 0)
calls = [one.get("function") for one in json.loads(check("htp: its calls", run("replay", record, "--list", "--json"), 0).stdout)["list"]]
require("htp: loads its own graph alone", calls.count("graphRetrieve") == 1 and calls.count("contextCreateFromBinary") == 1, calls)
check("htp: two machines", networks("htp", ["soc_model=SM8650,SM8750"], container="two.qrm"), 0)
require("htp: a context for each", [c["target"] for c in of("b", "two.qrm")["contexts"]] == ["SM8650", "SM8750"], of("b", "two.qrm")["contexts"])
check("htp: and the second runs", run("run", at("two.qrm"), "--backend", "htp", "-O", "model=b", "-O", "soc_model=SM8750", at("x1.npy")), 0)

# ---- weights in common: run before it is written, as x86 loads none
sharing = soc + ["enable_htp_weight_sharing=1"]
check("htp: shared weights", networks("htp", sharing, container="shared.qrm"), 0, "of its graphs' weights", "are shared, which saves")
about = of("a", "shared.qrm")["contexts"][0]["programs"][0]["about"]
require("htp: how many bytes", about["shared_weight_bytes"] >= 64 * 128 * 2 and about["saved_bytes"] > 0, about)
check("htp: none is loaded on x86", run("run", at("shared.qrm"), "--backend", "htp", "-O", "model=a", at("x1.npy")), 3, "graphs that share")
many = ["n%d=a" % i for i in range(8)]
check("htp: eight equal networks, apart", networks("htp", soc, container="apart.qrm", names=many), 0)
check("htp: and sharing", networks("htp", sharing, container="eight.qrm", names=many), 0)
sizes = [of("n0", name)["contexts"][0]["programs"][0]["about"]["binary_bytes"] for name in ("apart.qrm", "eight.qrm")]
require("htp: the binary is smaller", sizes[1] < 0.6 * sizes[0], sizes)
print(f"   eight networks of 64x128 and 128x10 weights: {sizes[0]} bytes, sharing {sizes[1]}")

# ---- for ONNX Runtime: one binary, and a model for each
check("htp: EPContext models", networks("htp", soc + ["ep.context_embed_mode=0"], container="ctx.onnx"), 0, "with their binary")
files = sorted(os.path.basename(p) for p in glob.glob(at("ctx*")))
require("htp: one binary and a model each", files == ["ctx_1.onnx", "ctx_2.onnx", "ctx_3.onnx", "ctx_htp.bin"], files)
expected = {}
for i, file in enumerate(("a", "b", "c"), 1):
    ours = output([at(f"ctx_{i}.onnx"), "--backend", "htp", "-O", "htp.foreign_context=trust", at("x1.npy")], f"ctx {i}")
    alone = at(f"out_htp {file} 1 alone")
    with open(glob.glob(os.path.join(alone, "*.npy"))[0], "rb") as result:
        require(f"htp: ctx_{i}.onnx gives the same", result.read() == ours, i)
    expected[i] = glob.glob(os.path.join(alone, "*.npy"))[0]
for python in (os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(build, "venv", "bin", "python")):
    if not python or not os.path.exists(python) or subprocess.run([python, "-c", "import onnxruntime, onnxruntime_qnn"], capture_output=True).returncode != 0:
        continue
    for i in (1, 2, 3):
        told = subprocess.run([python, os.path.join(root, "tests", "integration", "ort_qnn.py"), at(f"ctx_{i}.onnx"), expected[i], "57", at("x1.npy")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=300).stdout
        require(f"ONNX Runtime's provider: ctx_{i}.onnx gives the same bytes", told.split()[-1:] == ["equal"], told)
    break
else:
    print("   skipped: ONNX Runtime's QNN provider on the models: no Python has onnxruntime and onnxruntime-qnn (set QUARRY_ORT_PYTHON)")
finish()
