#!/usr/bin/env python3
"""The `quarry` program as a user meets it: right use, wrong use, broken files.

check_program.py BUILD_DIR SHARED_DIR
"""
import json
import os
import re
import shutil

from onnx_file import F32, initializer, onnx_file, onnx_node
from program import build, check, digits, environment, field, finish, image, model, new_folder, npy, onnx_model, require, root, run, shared, tensor_proto

folder = new_folder()
qrm = os.path.join(folder, "digits.qrm")

# ---- help and wrong use
check("help", run("--help"), 0, "run", "compile", "inspect", "verify", "conform", "bench", "doctor", "options", "ops", "explain")
check("version", run("--version"), 0, "quarry 0.")
for command in ("run", "compile", "inspect", "verify", "conform", "bench", "doctor", "options", "ops", "explain"):
    check(f"{command} --help", run(command, "--help"), 0, "--help")
check("no command", run(), 2, "subcommand")
check("unknown command", run("rum"), 2)
check("unknown flag", run("run", model, "--bogus"), 2, "--bogus")
check("unknown option", run("run", model, image, "-O", "theads=2"), 3, "QR-C0101", "threads")
check("bad option value", run("run", model, image, "-O", "threads=many"), 3, "QR-C0102", "threads", "many")
check("option without value", run("run", model, image, "-O", "threads"), 2, "KEY=VALUE")
check("unknown backend", run("run", model, image, "--backend", "tpu"), 3, "QR-L0001", "tpu", "hint")
check("no such file", run("run", os.path.join(folder, "nothing.onnx"), image), 3, "QR-F0001", "nothing.onnx")
check("a folder as a model", run("inspect", folder), 3, "QR-F0005")
check("no input", run("run", model), 2, "image f32[1,1,8,8]")
check("unknown input", run("run", model, "--input", "picture=" + image), 2, "picture", "image")

# ---- compile, inspect, verify
check("compile", run("compile", model, "-o", qrm, "--metadata", "author=me"), 0, "digits.qrm", "cpu")
check("inspect onnx", run("inspect", model), 0, "Conv 2", "image f32[1,1,8,8]")
check("inspect qrm", run("inspect", qrm), 0, "cpu ", "author = me", "image f32[1,1,8,8]", "segments")
for path in (model, qrm):
    info = json.loads(check("inspect --json", run("inspect", path, "--json"), 0).stdout)
    require("inspect --json inputs", info["inputs"][0]["dims"] == [1, 1, 8, 8], info["inputs"])
check("verify", run("verify", qrm, model), 0, "sound")
check("compile --check", run("compile", model, "--check", "--backend", "null"), 1, "refused conv1", "QR-B0002")
check("compile into a missing folder", run("compile", model, "-o", os.path.join(folder, "no", "x.qrm")), 3, "QR-F0003")
require("nothing is left behind", sorted(os.listdir(folder)) == ["digits.qrm"], os.listdir(folder))

check("a container without a context for the backend", run("run", qrm, image, "--backend", "null", "-O", "context.recompile=never"), 3,
      "QR-M0009", "null", "cpu")
check("its graph, for a backend that refuses it", run("run", qrm, image, "--backend", "null"), 3, "QR-B0001", "null")

# ---- models that cannot be taken are refused by name
external = b"\x08\x02\x10\x01" + field(8, b"w") + field(13, field(1, b"location") + field(2, b"weights.bin")) + b"\x70\x01"
for name, model_bytes, *texts in (
        ("missing external data", onnx_model(b"Add", (b"w", external)), "QR-O0007", "weights.bin"),
        ("unknown operator", onnx_model(b"Frobnicate"), "QR-O0005", "Frobnicate"),
        ("an opset of the future", onnx_model(b"Relu", opset=99), "QR-O0003", "99"),
        ("attribute value", onnx_model(b"QLinearSoftmax"), "QLinearSoftmax"),
):
    path = os.path.join(folder, "made.onnx")
    with open(path, "wb") as out:
        out.write(model_bytes)
    check(name, run("run", path, "--zeros"), 3, "error QR-O", *texts)
# verify checks what opening does not: all data there and whole, each value made by somebody, in bodies too.
made = os.path.join(folder, "made.onnx")
def verified(what, model_bytes, code, *texts):
    with open(made, "wb") as out:
        out.write(model_bytes)
    check("verify: " + what, run("verify", made), code, *texts)
verified("missing external data", onnx_model(b"Add", (b"w", external)), 1, "QR-O0007", "weights.bin")
with open(os.path.join(folder, "weights.bin"), "wb") as out:
    out.write(bytes(7))
verified("short external data", onnx_model(b"Add", (b"w", external)), 1, "QR-O0007", "7 bytes")
with open(os.path.join(folder, "weights.bin"), "wb") as out:
    out.write(bytes(8))
verified("external data", onnx_model(b"Add", (b"w", external)), 0, "sound")
os.remove(os.path.join(folder, "weights.bin"))
nobody = [onnx_node("Add", ["x", "nobody"], ["y"]), onnx_node("Neg", ["later"], ["z"]), onnx_node("Relu", ["x"], ["later"])]
verified("a value of nobody's", onnx_file(nobody, [("x", F32, [2])], [("y", F32, [2]), ("z", F32, [2]), ("w", F32, [2])]), 1, "input 1 'nobody'", "output 'w'")
verified("short data", onnx_file([onnx_node("Add", ["x", "c"], ["y"])], [("x", F32, [2])], [("y", F32, [2])],
                                 initializers=[initializer("c", F32, [2], bytes(4))]), 1, "initializer 'c'")
# Who wrote an ONNX model, and its metadata_props, go along into the container.
with open(path, "wb") as out:
    out.write(onnx_model(b"Relu") + field(2, b"trainer") + field(3, b"2.5") + field(14, field(1, b"labels") + field(2, b"cat,dog")))
made = os.path.join(folder, "made.qrm")
check("compile with metadata", run("compile", path, "-o", made, "--metadata", "author=me"), 0)
check("inspect what came along", run("inspect", made), 0, "trainer 2.5", "labels = cat,dog", "author = me")
os.remove(made)
os.remove(path)
scan = "/usr/share/libonnx-testdata/data/node/test_scan_sum"  # Scan of opset 8, which runs over batches
if os.path.isdir(scan):
    check("an old meaning of an operator", run("conform", scan), 0, "1 passed")

check("a profile of the session with no folder for it", run("run", model, image, "-O", "profiling_level=basic", "-O", "profiling_file_path=" + os.path.join(folder, "none/p.csv")), 3,
      "option profiling_file_path", "none/p.csv")

# A container for another backend: it runs, and what that costs is said.
other = os.path.join(folder, "reference.qrm")
check("compile for cpu-reference", run("compile", model, "--backend", "cpu-reference", "-o", other), 0)
check("run what was compiled for another backend", run("run", other, image, "--backend", "cpu"), 0, "warning", "it is compiled again for backend cpu")
result = check("run it where that is asked for", run("run", other, image, "--backend", "cpu", "-O", "context.recompile=wait"), 0)
require("no warning of what was asked for", "warning" not in result.stderr, result.stderr)

# A container for another processor: it runs, and is compiled again meanwhile.
other = os.path.join(folder, "other.qrm")
made = run("compile", model, "--backend", "cpu", "--option", "cpu.isa=sse2", "-o", other)
two_sets = "which this build has no kernels for" not in made.stderr
if two_sets:
    check("compile for another processor", made, 0)
else:
    print("   skipped: containers for another processor: this build has kernels for one instruction set")
for when in ("wait", "background", "never") if two_sets else ():
    check(f"run what was compiled for another processor, {when}", run("run", other, image, "--backend", "cpu", "--option", "context.recompile=" + when), 0)
if two_sets:
    check("bench what was compiled for another processor", run("bench", other, "--backend", "cpu", "--duration", "1", "--option", "context.recompile=background"), 0)
    check("split products without AMX", run("compile", model, "--backend", "cpu", "--option", "cpu.f32_products=split", "--option", "cpu.isa=sse2", "-o", other), 3,
          "QR-C0102", "cpu.f32_products", "expected amx", "choose auto or fma")
sizes = []
for weights in ("exact", "f16", "bf16"):
    check("compile with weights of another type", run("compile", model, "--backend", "cpu", "--option", "cpu.weights=" + weights, "--option", "cpu.winograd=off",
                                                      "--option", "container.keep_graph=0", "-o", other), 0)
    result = check("run with weights of another type", run("run", other, image, "--backend", "cpu", "--json"), 0)
    require("the answer with weights of another type", json.loads(result.stdout)["runs"][0]["outputs"][0]["top"][0]["index"] == 3, result.stdout[:300])
    sizes.append(os.path.getsize(other))
require("weights of 16 bits take half the room of f32", sizes[1] == sizes[2] and sizes[0] - sizes[1] > 70000, sizes)  # of 153 kB
require("weights that are packed are not kept as they were", sizes[0] < 250000, sizes)
if run("compile", model, "--backend", "cpu", "--option", "cpu.isa=amx", "--option", "cpu.f32_products=split", "-o", other).returncode == 0:  # kernels for it are built in
    check("run what was compiled for AMX", run("run", other, image, "--backend", "cpu", "--option", "context.recompile=wait"), 0)
check("a wrong time to recompile", run("run", other, image, "--option", "context.recompile=later"), 3, "QR-C0102", "background")
os.remove(other)

# ---- run: images, npy, pb, raw; from both kinds of model; strange paths
for path in (model, qrm):
    for digit in (0, 3, 7):
        result = check("run", run("run", path, os.path.join(digits, "images", f"digit_{digit}.png"), "--json"), 0)
        require(f"digit {digit} of {os.path.basename(path)}", json.loads(result.stdout)["runs"][0]["outputs"][0]["top"][0]["index"] == digit, result.stdout[:300])
check("run several", run("run", qrm, image, image, "--top", "2", "--softmax", "--picture"), 0, "@@")
odd = os.path.join(folder, "modèle 模型 🙂")
os.mkdir(odd)
shutil.copy(qrm, os.path.join(odd, "ø.qrm"))
shutil.copy(image, os.path.join(odd, "三.png"))
with open(os.path.join(odd, "labels.txt"), "w") as out:
    out.write("\n".join("zero one two three four five six seven eight nine".split()))
check("non-ASCII paths", run("run", os.path.join(odd, "ø.qrm"), os.path.join(odd, "三.png"), "--labels", os.path.join(odd, "labels.txt"), "--save", os.path.join(odd, "out")),
      0, "three")
saved = os.path.join(odd, "out", "scores.npy")
require("saved output", os.path.exists(saved) and os.path.getsize(saved) == 128 + 40, "no scores.npy")
zeros = os.path.join(folder, "zeros.raw")
with open(zeros, "wb") as out:
    out.write(b"\0" * 256)
check("raw input", run("run", qrm, zeros), 0, "scores")
with open(zeros, "ab") as out:
    out.write(b"\0")
check("raw input of a wrong size", run("run", qrm, zeros), 2, "257", "256")
check("npy of a wrong shape", run("run", qrm, npy(os.path.join(folder, "x.npy"), [1, 1, 8, 7])), 3, "QR-R0003", "[1,1,8,7]", "[1,1,8,8]")
with open(os.path.join(folder, "broken.png"), "wb") as out:
    out.write(b"\x89PNG\r\n\x1a\nnonsense")
check("broken image", run("run", qrm, os.path.join(folder, "broken.png")), 2, "broken.png")

# ---- broken containers
data = open(qrm, "rb").read()
for name, content in {"cut": data[: len(data) // 2], "flipped": data[:100] + bytes([data[100] ^ 64]) + data[101:], "empty": b"", "text": b"hello\n" * 40}.items():
    path = os.path.join(folder, name + ".qrm")
    with open(path, "wb") as out:
        out.write(content)
    result = check(f"{name} container", run("verify", path), 1, "error QR-", "hint")
    check(f"{name} container, run", run("run", path, image), 3, "error QR-")
with open(os.path.join(folder, "cut.onnx"), "wb") as out:
    out.write(open(model, "rb").read()[:5000])
check("cut ONNX", run("inspect", os.path.join(folder, "cut.onnx")), 3, "error QR-")

# ---- doctor, options, ops, bench, conform
check("doctor", run("doctor"), 0, "cpu-reference", "device")
report = json.loads(check("doctor --json", run("doctor", "--json"), 0).stdout)
require("doctor --json", {"cpu", "cpu-reference"} <= {b["id"] for b in report["backends"] if b["usable"]}, report["backends"])
require("doctor: search path", {"cpu", "cpu-reference", "null"} <= {os.path.basename(f["path"]) for f in report["search_path"] if f["origin"] == "build tree"},
        report["search_path"])
check("options", run("options"), 0, "htp_performance_mode", "sustained_high_performance", "vtcm_mb", "backend", "default")
check("options filter", run("options", "no-such-key"), 1, "no-such-key")
ids = [line.split()[0] for line in check("explain lists all errors", run("explain"), 0, "QR-C0001  out of memory").stdout.splitlines() if "  QR-" in line]
table = open(os.path.join(root, "base", "error_ids.inc"), encoding="utf-8").read()
require("explain has every id of the table", sorted(ids) == sorted(re.findall(r'^QR_ERROR\(\w+, "([^"]+)"', table, re.M)), ids)
check("explain an id", run("explain", "QR-O0008"), 0, "QR-O0008: onnx unbound shape", "What to do: bind it", "Bind them by name")
require("explain takes an id as people type it", run("explain", "o8", "m1").stdout == run("explain", "QR-O0008", "QR-M0001").stdout)
check("explain an unknown id", run("explain", "QR-O9999"), 2, "found 'QR-O9999', expected the id of an error", "hint:")
check("ops", run("ops"), 0, "Conv", "com.microsoft.MatMulNBits", "cpu-reference:", "cpu:")
scripted = os.path.join(build, "tests", "plugins", "scripted")
check("ops of a plugin that does not know one", run("ops", "--backend", "scripted", env={**environment, "QUARRY_BACKEND_PATH": scripted}), 0, "Xor", "scripted: 5 of")
together = json.loads(check("bench --sessions", run("bench", qrm, "--iterations", "5", "--group", "4", "--sessions", "3", "--option",
                                                    "thread_pool=one", "--json", "-"), 0).stdout)
require("bench runs all sessions", together.get("sessions") == 3 and together.get("runs") == 60 and together.get("runs_per_s", 0) > 0, together)
queued = json.loads(check("bench --queue", run("bench", qrm, "--iterations", "40", "--queue", "4", "--json", "-"), 0).stdout)
queue = queued.get("queue", {})
require("bench --queue: figures beside those of single runs", queued["runs"] == 40 and (queue.get("depth"), queue.get("runs")) == (4, 40), queued)
# How many are under way is the mean time of one times how many end in that time. Fewer are at the very end, which may be held up.
tries = [json.loads(run("bench", qrm, "--iterations", "400", "--queue", "4", "--json", "-").stdout)["queue"] for _ in range(3)]
require("bench --queue: several are under way", any(2.5 < q["mean_ms"] * q["runs_per_s"] / 1000 < 4.1 for q in tries), tries)
check("bench --roofline", run("bench", qrm, "-n", "3", "--roofline"), 0, "measured peaks of", "GFLOP/s", "of peak", "multiplications:")
# The peak is measured beside the run: on a busy machine a kernel may come out above it, and both are taken again.
below_peak = []
for _ in range(6):
    roofline = json.loads(check("bench --roofline --json", run("bench", qrm, "-n", "3", "--threads", "1", "--roofline", "--json", "-"), 0).stdout)["roofline"]
    convolutions, peak = [n for n in roofline["nodes"] if n["operator"] == "Conv"], roofline["peaks"]["f32_gflop_per_s"]
    require("bench --roofline: figures of each product", roofline["threads"] == 1 and peak > 0 and convolutions and
            all(n["gop"] > 0 and n["peak"] == "f32" and abs(n["of_peak"] * peak / n["gop_per_s"] - 1) < 0.01 and n["bytes"] > 0 for n in convolutions), roofline)
    below_peak.append(all(n["of_peak"] < 1.2 for n in convolutions))
    if below_peak[-1]:
        break
require("bench --roofline: no product is above the peak", below_peak[-1], roofline)
check("bench --input", run("bench", qrm, "-n", "3", "--input", "image=" + image), 0, "3 runs")
check("bench --input of another name", run("bench", qrm, "-n", "3", "--input", "picture=" + image), 2, "no input 'picture'")
check("bench --input without the file", run("bench", qrm, "-n", "3", "--input", "image=/nowhere.npy"), 2, "/nowhere.npy")
check("bench --queue in words", run("bench", qrm, "-n", "5", "--queue", "2"), 0, "runs a second with 2 under way", "median")
check("bench --queue: too deep", run("bench", qrm, "--queue", "65"), 2, "--queue", "64")
check("bench --queue with sessions", run("bench", qrm, "--queue", "2", "--sessions", "2"), 2, "--queue", "--sessions")
bench = json.loads(check("bench --json -", run("bench", qrm, "--iterations", "20", "--threads", "1", "--json", "-"), 0).stdout)
for key in ("create_ms", "first_ms", "median_ms", "p90_ms", "p99_ms", "peak_rss_kb"):
    require(f"bench has {key}", bench.get(key, -1) > 0, bench)
case = os.path.join(folder, "suite", "case")
os.makedirs(os.path.join(case, "test_data_set_0"))
shutil.copy(model, os.path.join(case, "model.onnx"))
with open(os.path.join(case, "test_data_set_0", "input_0.pb"), "wb") as out:
    out.write(tensor_proto([1, 1, 8, 8], [0.0] * 64))
with open(os.path.join(case, "test_data_set_0", "output_0.pb"), "wb") as out:
    out.write(tensor_proto([1, 10], [99.0] * 10))
result = check("conform finds a wrong result", run("conform", os.path.join(folder, "suite"), "--json", "-"), 1)
report = json.loads(result.stdout)
require("conform --json", (report["passed"], report["failed"], report["refused"]) == (0, 1, 0) and "expected 99" in report["cases"][0]["reason"], result.stdout)
with open(os.path.join(case, "test_data_set_0", "output_0.pb"), "wb") as out:
    out.write(tensor_proto([1, 10], [float("-inf")] * 10))
check("conform: a number is no infinity", run("conform", os.path.join(folder, "suite")), 1, "10 of 10 values differ", "expected -inf")
# A backend that refuses what its check took has broken a promise.
promise = os.path.join(folder, "promise", "case")
os.makedirs(os.path.join(promise, "test_data_set_0"))
shutil.copy(os.path.join(root, "tests", "plugins", "scripted", "accepted.onnx"), os.path.join(promise, "model.onnx"))
with open(os.path.join(promise, "test_data_set_0", "input_0.pb"), "wb") as out:
    out.write(tensor_proto([2, 4], [0.0] * 8))
scripted = ("conform", "--backend", "scripted", "-O", "scripted.script=fail_compile=2", promise)
with_scripted = {**environment, "QUARRY_BACKEND_PATH": os.path.join(build, "tests", "plugins", "scripted")}
check("conform: a backend refuses", run(*scripted, env=with_scripted), 0, "0 passed, 0 failed, 1 refused")
check("conform --checked: what check took is refused", run(*scripted, "--checked", env=with_scripted), 1, "0 passed, 1 failed, 0 refused", "check took every node, then: ")
check("conform on nothing", run("conform", digits), 2, "no case")
check("conform on a file", run("conform", model), 2, "no folder")

# ---- photographs
if os.path.isdir(os.path.join(shared, "models")):
    mobilenet = os.path.join(shared, "models", "mobilenetv2_1.0_224_google_f32", "model.onnx")
    for name, word in {"goldfish.jpg": "goldfish", "coral_parrot.jpg": "macaw", "ji_banana_0.jpg": "banana", "mushroom.png": "mushroom"}.items():
        result = check(name, run("run", mobilenet, os.path.join(shared, "images", name), "--labels", os.path.join(shared, "images", "imagenet_labels_1001.txt"), "--mean", "0.50196",
                                 "--std", "0.50196", "--top", "1"), 0, word)
    check("a real model refuses EPContext by name", run("run", os.path.join(shared, "models", "qnn_ctx", "qnn_multi_ctx_embed.onnx"), "--zeros"), 3, "QR-O0013", "QNN")
else:
    print(f"   photographs: skipped, there is no {shared}/models")

shutil.rmtree(folder)
finish()
