#!/usr/bin/env python3
"""Context binaries of QNN as models of their own, and contexts of several graphs as EPContext models.

check_htp_binaries.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys

from onnx_file import F32, initializer, onnx_file, onnx_node
from program import build, check, environment, finish, image, model, new_folder, npy, require, root, run, shared

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))
folder = new_folder()
HTP = ("--backend", "htp")
TRUST = HTP + ("-O", "htp.foreign_context=trust")


def path(name):
    return os.path.join(folder, name)


def data(name):
    with open(path(name), "rb") as file:
        return file.read()


def about(name, *more):
    result = run("inspect", path(name), "--json", *more)
    require("inspect " + name, result.returncode == 0, result.stderr[-1500:])
    return json.loads(result.stdout[result.stdout.index("{"):])


# ---- one graph: the digits model's binary, alone
check("write the binary", run("run", model, image, *HTP, "-O", "soc_model=SM8650", "-O", "ep.context_enable=1", "-O", "ep.context_file_path=" + path("own.onnx"), "-O", "ep.context_embed_mode=0",
                              "--save", path("own")), 0)
os.rename(path("own_htp.bin"), path("own.bin"))
BINARY = data("own.bin")
check("compile writes it without a session", run("compile", model, *HTP, "-O", "soc_model=SM8650", "-O", "ep.context_embed_mode=0", "-o", path("made.onnx")), 0, "made.onnx")
require("the same binary", data("made_htp.bin") == BINARY)
said = about("own.bin")
graph = said["about"]["graphs"][0]
require("what is in it", said["kind"] == "context" and said["file_bytes"] == len(BINARY) == said["about"]["binary_bytes"] and said["about"]["soc"] == "SM8650" and said["about"]["arch"] == "v75" and
        said["about"]["build_id"].startswith("v2.") and graph["vtcm_bytes"] > 0 and "spill_fill_bytes" in graph and [t["name"] for t in graph["inputs"]] == ["image"] and
        [t["name"] for t in said["outputs"]] == ["scores"], said)
check("in words", run("inspect", path("own.bin")), 0, "context", "SM8650", "vtcm_bytes", "device_name image")
check("of a backend that is named", run("inspect", path("own.bin"), *TRUST), 0, "SM8650")
check("which reads nothing without trust", run("inspect", path("own.bin"), *HTP), 3, "QR-O0013", "htp.foreign_context=trust")
check("of one that does not know it", run("inspect", path("own.bin"), "--backend", "cpu"), 3, "QR-F0006", "begin with 00 00 00 02")
check("nor do others run it", run("run", path("own.bin"), "--zeros", "--backend", "cpu"), 3, "QR-F0006", "option backend")
check("refused unless it is trusted", run("run", path("own.bin"), image, *HTP), 3, "QR-O0013", f"found {len(BINARY)} bytes of a context binary", "its binary has no hash", "htp.foreign_context=trust")
check("to compile as well", run("compile", path("own.bin"), *HTP, "-o", path("no.qrm")), 3, "QR-O0013", "htp.foreign_context=trust")
check("trusted", run("run", path("own.bin"), image, *TRUST, "--save", path("raw")), 0)
require("the same result", data("raw/scores.npy") == data("own/scores.npy"))
check("another SoC than asked for", run("run", path("own.bin"), image, *TRUST, "-O", "soc_model=SM8750"), 3, "made for SM8650 (57, v75), asked for was SM8750")
check("compile to a container", run("compile", path("own.bin"), *TRUST, "-O", "container.keep_graph=0", "-o", path("raw.qrm")), 0, "SM8650")
check("the container runs without a word", run("run", path("raw.qrm"), image, *HTP, "--save", path("qrm")), 0)
require("with the same result", data("qrm/scores.npy") == data("own/scores.npy"))
program = about("raw.qrm")["contexts"][0]["programs"][0]["about"]
require("the container says where it is from", program["origin"].startswith("EPContext of QNN") and program["binary_xxh3"] == said["about"]["binary_xxh3"], program)
check("in a process of its own", run("compile", path("own.bin"), *TRUST, "-O", "compile.process=child", "-O", "container.keep_graph=0", "-o", path("child.qrm")), 0)
require("the same bytes", data("child.qrm") == data("raw.qrm"))
environment.pop("QUARRY_QNN_PATH")
check("the libraries where an option says", run("compile", path("own.bin"), *TRUST, "-O", "htp.library_path=" + sys.argv[3], "-o", path("no.qrm")), 0)
check("no libraries", run("inspect", path("own.bin"), *TRUST, "-O", "htp.library_path=" + folder), 3, "QR-B00", folder)
with open(os.path.join(sys.argv[3], "libQnnHtp.so"), "rb") as file:
    part = file.read(3 << 20)
with open(path("libQnnHtp.so"), "wb") as out:
    out.write(part)
check("a library that is cut off", run("run", model, "--zeros", *HTP, env={**environment, "QUARRY_QNN_PATH": folder}), 3, "libQnnHtp.so", "a file that ends before its segments do")
check("and doctor says so", run("doctor", env={**environment, "QUARRY_QNN_PATH": folder}), 0, "a file that ends before its segments do")
os.remove(path("libQnnHtp.so"))
# Where the libraries are is said by an option alone, whatever the environment; what is missing is named, and not the container.
check("a container", run("compile", model, *HTP, "-O", "soc_model=SM8650", "-O", "container.keep_graph=0", "-o", path("kept.qrm"), env={**environment, "QUARRY_QNN_PATH": sys.argv[3]}), 0)
for elsewhere in ("", "/nowhere"):
    check("the option alone, for a session", run("run", path("kept.qrm"), "--zeros", *HTP, "-O", "htp.library_path=" + sys.argv[3], env={**environment, "QUARRY_QNN_PATH": elsewhere}), 0)
check("the folder of backend_path", run("run", path("kept.qrm"), "--zeros", "-O", "backend_path=" + os.path.join(sys.argv[3], "libQnnHtp.so"), env={**environment, "QUARRY_QNN_PATH": ""}), 0)
result = check("an option that names nothing", run("run", path("kept.qrm"), "--zeros", *HTP, "-O", "htp.library_path=/nowhere", env={**environment, "QUARRY_QNN_PATH": ""}), 3, "QR-B0008", "/nowhere: No such file", "tools/get_qnn.sh")
require("nothing is wrong with the container", "compile the model again" not in result.stderr, result.stderr)
environment["QUARRY_QNN_PATH"] = sys.argv[3]

# From memory, by the C ABI: nothing lies beside it.
code = """
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
class Text(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_uint64)]
def text(value): return Text(value.encode(), len(value.encode()))
class Source(ctypes.Structure):  # qr_model_source
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("path", Text), ("data", ctypes.c_char_p), ("offset", ctypes.c_uint64),
                ("size_bytes", ctypes.c_uint64), ("fd", ctypes.c_int32), ("folder_fd", ctypes.c_int32), ("self", ctypes.c_void_p), ("read", ctypes.c_void_p)]
class Target(ctypes.Structure):  # qr_target
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_uint32), ("path", Text), ("fd", ctypes.c_int32), ("folder_fd", ctypes.c_int32),
                ("data", ctypes.c_void_p), ("size", ctypes.c_void_p), ("self", ctypes.c_void_p), ("begin", ctypes.c_void_p), ("write", ctypes.c_void_p), ("end", ctypes.c_void_p)]
for name in ("qr_runtime_create", "qr_options_create", "qr_options_set", "qr_model_open", "qr_model_compile"): getattr(lib, name).restype = ctypes.c_void_p
lib.qr_status_message.restype, lib.qr_status_message.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
def ok(status):
    if status: sys.exit(lib.qr_status_message(status).decode())
runtime, options, model = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
ok(lib.qr_runtime_create(None, ctypes.byref(runtime)))
ok(lib.qr_options_create(runtime, ctypes.byref(options)))
for pair in ("backend=htp", "htp.foreign_context=trust", "container.keep_graph=0"): ok(lib.qr_options_set(options, *map(text, pair.split("="))))
data = open(sys.argv[2], "rb").read()
source = Source(ctypes.sizeof(Source), 2, Text(None, 0), data, 0, len(data), -1, -1, None, None)
ok(lib.qr_model_open(runtime, ctypes.byref(source), options, None, ctypes.byref(model)))
target = Target(ctypes.sizeof(Target), 1, text(sys.argv[3]), -1, -1)
ok(lib.qr_model_compile(model, options, ctypes.byref(target), None))
"""
result = subprocess.run([sys.executable, "-c", code, os.path.join(build, "runtime", "libquarry.so.0"), path("own.bin"), path("memory.qrm")], env=environment, stdout=subprocess.PIPE,
                        stderr=subprocess.PIPE, text=True, timeout=120)
require("from memory", result.returncode == 0, result.stderr[-1000:])
check("it runs", run("run", path("memory.qrm"), image, *HTP, "--save", path("memory")), 0)
require("from memory: the same result", data("memory/scores.npy") == data("own/scores.npy"))

# ---- binaries of ONNX Runtime's, from before metadata said the SoC
GIVEN = os.path.join(shared, "models", "qnn_ctx")
if not os.path.isdir(GIVEN):
    print(f"   skipped: ONNX Runtime's own binaries: '{GIVEN}' is not there")
for name in sorted(f for f in os.listdir(GIVEN) if f.endswith(".bin")) if os.path.isdir(GIVEN) else []:
    check(name[:20] + ": inspected", run("inspect", os.path.join(GIVEN, name)), 0, "soc unknown", "v2.22.0")
    check(name[:20] + ": which SoC", run("run", os.path.join(GIVEN, name), "--zeros", *TRUST), 3, "does not say for which SoC it is", "expected option soc_model")
    check(name[:20] + ": runs", run("run", os.path.join(GIVEN, name), "--zeros", *TRUST, "-O", "soc_model=SM8350"), 0, "made by v2.22.0")

    damaged = bytearray(open(os.path.join(GIVEN, name), "rb").read())
    if damaged[516] == 24:  # a length: without it the library's reader crashes, in a process of its own
        damaged[516] = 0
        with open(path("damaged.bin"), "wb") as out:
            out.write(damaged)
        check("which crashes its reader", run("inspect", path("damaged.bin")), 3, "cannot be inspected", "killed by signal", "hint: the file is damaged")

# ---- several graphs: shape buckets in one context
with open(path("buckets.onnx"), "wb") as out:
    out.write(onnx_file([onnx_node("Sigmoid", ["x"], ["s"], name="a"), onnx_node("Mul", ["s", "x"], ["y"], name="b")], [("x", F32, ("batch", 8))], [("y", F32, ("batch", 8))]))
BUCKETS = ("--shape", "batch=1", "--shape", "batch=3", *HTP, "-O", "soc_model=SM8650")
WRITE = ("-O", "ep.context_enable=1")
inputs = {}
for batch in (1, 3):
    inputs[batch] = path(f"x{batch}.npy")
    npy(inputs[batch], (batch, 8))
    check("the model itself", run("run", path("buckets.onnx"), inputs[batch], *BUCKETS, "--save", path(f"b{batch}")), 0)
check("a binary beside", run("run", path("buckets.onnx"), inputs[1], *BUCKETS, *WRITE, "-O", "ep.context_embed_mode=0", "-O", "ep.context_file_path=" + path("beside.onnx")), 0)
check("binaries within", run("run", path("buckets.onnx"), inputs[1], *BUCKETS, *WRITE, "-O", "ep.context_file_path=" + path("within.onnx")), 0)
require("a model for each, and one binary", sorted(f for f in os.listdir(folder) if f.startswith(("beside", "within"))) ==
        ["beside_1.onnx", "beside_2.onnx", "beside_htp.bin", "within_1.onnx", "within_2.onnx"], os.listdir(folder))
require("the binary in both", all(data("beside_htp.bin") in data(f"within_{i}.onnx") and data("beside_htp.bin") not in data(f"beside_{i}.onnx") for i in (1, 2)))
candidates = [os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(build, "venv", "bin", "python")]
python = next((p for p in candidates if p and os.path.exists(p) and subprocess.run([p, "-c", "import onnxruntime, onnxruntime_qnn"], stderr=subprocess.DEVNULL).returncode == 0), None)
if not python:
    print("   skipped: ONNX Runtime's QNN provider on EPContext models: no Python has onnxruntime and onnxruntime-qnn (set QUARRY_ORT_PYTHON)")
for kind in ("beside", "within"):
    for i, batch in ((1, 1), (2, 3)):
        name = f"{kind}_{i}.onnx"
        check("we take " + name, run("run", path(name), inputs[batch], *TRUST, "--save", path("got")), 0)
        require(name + ": the same", data("got/y.npy") == data(f"b{batch}/y.npy"))
        if python:
            result = subprocess.run([python, os.path.join(root, "tests", "integration", "ort_qnn.py"), path(name), path(f"b{batch}/y.npy"), "57", inputs[batch]], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=120)
            require("ONNX Runtime's QNN provider gives the same from " + name, result.stdout.splitlines()[-1:] == ["equal"], result.stdout[-300:] + result.stderr[-800:])
check("a folder that is not there", run("run", path("buckets.onnx"), inputs[1], *BUCKETS, *WRITE, "-O", "ep.context_file_path=" + path("none/x.onnx")), 3, "option ep.context_file_path", "none/x_1.onnx")

# Of several graphs those alone that the file of backend extensions names.
check("both in a container", run("compile", path("buckets.onnx"), *BUCKETS, "-o", path("two.qrm")), 0, "2 graphs")
for listed in (["g"], ["g#1"], ["g", "g#1"]):
    with open(path("enable.json"), "w") as out:
        json.dump({"context_configs": {"enable_graphs": listed}, "graph_configs": [{"graph_name": listed[0], "graph_priority": "high"}]}, out)
    for batch, name in ((1, "g"), (3, "g#1")):
        enabled = name in listed
        check(f"{name} of {listed}", run("run", path("two.qrm"), inputs[batch], *HTP, "-O", "htp.config_file=" + path("enable.json"), "--save", path("two")), 0 if enabled else 3,
              *([] if enabled else [f"graph {name}: it is not loaded", "enable_graphs"]))
        require("and right", not enabled or data("two/y.npy") == data(f"b{batch}/y.npy"))

# Graphs that share weights are not loaded here, in any of their forms: the library would end the process.
with open(path("shared.onnx"), "wb") as out:
    out.write(onnx_file([onnx_node("Gemm", ["x", "w"], ["y"])], [("x", F32, ("batch", 64))], [("y", F32, ("batch", 32))],
                        initializers=[initializer("w", F32, (64, 32), struct.pack("<2048f", *[(i % 37 - 18) / 64 for i in range(2048)]))]))
SHARING = (*HTP, "-O", "soc_model=SM8650", "-O", "enable_htp_weight_sharing=1", "-O", "container.keep_graph=0")
npy(path("x64.npy"), (1, 64))
check("compile with weights that are shared", run("compile", path("shared.onnx"), *SHARING, "--shape", "batch=1", "--shape", "batch=3", "-o", path("shared.qrm")), 0, "2 graphs")
run("compile", path("shared.onnx"), *SHARING, "--shape", "batch=1", "--shape", "batch=3", "-O", "ep.context_embed_mode=0", "-o", path("shares.onnx"))
check("one graph alone", run("compile", path("shared.onnx"), *SHARING, "--shape", "batch=1", "-o", path("alone.qrm")), 0)
check("which runs", run("run", path("alone.qrm"), path("x64.npy"), *HTP), 0)
for name, how in (("shared.qrm", HTP), ("shares_1.onnx", TRUST), ("shares_htp.bin", TRUST)):
    inputs_of = [path("x64.npy")] if name != "shares_htp.bin" else ["--zeros"]
    check("refused: " + name, run("run", path(name), *inputs_of, *how), 3, "found 2 graphs that share", "bytes of weights", "compile without enable_htp_weight_sharing")

# Their binary by itself: all graphs, distinguished by name; a part of it by the options that take parts of any model.
several = about("beside_htp.bin")
names = [g["name"] for g in several["about"]["graphs"]]
require("both graphs", len(names) == 2 and [t["name"] for t in several["inputs"]] == [n + "/x" for n in names] and sorted(t["dims"][0] for t in several["outputs"]) == [1, 3], several)
given = [arg for n, t in zip(names, several["inputs"]) for arg in ("--input", f"{n}/x={inputs[t['dims'][0]]}")]
check("both run", run("run", path("beside_htp.bin"), *given, *TRUST, "--save", path("all")), 0)
saved = sorted(os.path.join(d, f) for d, _, files in os.walk(path("all")) for f in files)
require("both results", {open(f, "rb").read() for f in saved} == {data("b1/y.npy"), data("b3/y.npy")}, saved)
for n, tensor in zip(names, several["outputs"]):
    check("one of them: " + n, run("compile", path("beside_htp.bin"), *TRUST, "-O", "container.keep_graph=0", "-O", "graph.tail=" + n + "/x", "-O", "graph.head=" + tensor["name"], "-o", path("one.qrm")), 0)
    check("it runs", run("run", path("one.qrm"), inputs[tensor["dims"][0]], *HTP, "--save", path("one")), 0)

# ---- damage: what the library says of itself, or an error; nothing else
check("cut off", run("inspect", path("cut.bin")) if open(path("cut.bin"), "wb").write(BINARY[:-4096]) else None, 3, "context binary: found", "cannot read as a context")
check("its beginning alone", run("inspect", path("cut.bin")) if open(path("cut.bin"), "wb").write(BINARY[:24]) else None, 3, "context binary: found 24 bytes")
check("not even that", run("inspect", path("cut.bin")) if open(path("cut.bin"), "wb").write(BINARY[:8]) else None, 3, "QR-F0006")
random.seed(6)
ended = {}
for case in range(60):
    damaged = bytearray(BINARY)
    if case % 3 == 0:
        del damaged[random.randrange(len(damaged)):]
    for _ in range(1 + case % 5):
        if damaged:
            damaged[random.randrange(min(len(damaged), 4096 if case % 4 else len(damaged)))] ^= 1 << random.randrange(8)
    with open(path("damaged.bin"), "wb") as out:
        out.write(damaged)
    status = run("compile", path("damaged.bin"), *TRUST, "-O", "container.keep_graph=0", "-o", path("damaged.qrm")).returncode
    ended[status] = ended.get(status, 0) + 1
require("60 damaged binaries", set(ended) <= {0, 3} and ended.get(3, 0) > 10, ended)

shutil.rmtree(folder)
finish()
