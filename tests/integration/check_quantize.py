#!/usr/bin/env python3
"""quarry quantize as a user would: the digits network, a real one where it is there, and what goes wrong. ONNX Runtime checks the result where QUARRY_ORT_PYTHON names a Python that has it.

check_quantize.py BUILD SHARED
"""
import json
import os
import re
import resource
import shutil
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_file import F32, initializer, onnx_file, onnx_node  # noqa: E402
from program import check, digits, environment, field, finish, floats, model, new_folder, quarry, require, run, shared  # noqa: E402

folder = new_folder()
images = os.path.join(digits, "images")
out = os.path.join(folder, "digits.qdq.onnx")
ort_python = next((path for path in (os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(sys.argv[1], "venv", "bin", "python")) if path and os.path.exists(path)), None)

# Both models on the same data: outputs of ours by ONNX Runtime, against ours by the program.
ORT = """
import sys, numpy as np, onnxruntime as ort
options = ort.SessionOptions()
options.add_session_config_entry("session.x64quantprecision", "1")  # without VNNI its sums of two products saturate at 16 bits
session = ort.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
value = np.load(sys.argv[2])
np.save(sys.argv[3], session.run(None, {session.get_inputs()[0].name: value})[0])
"""

# Whether all constants of 8 bits of a model lie from -64 to 64 (or 0 to 127), of each.
WEIGHTS = """
import sys, numpy as np, onnx
from onnx import numpy_helper
for path in sys.argv[1:]:
    stored = [numpy_helper.to_array(one) for one in onnx.load(path).graph.initializer]
    print(all(np.abs(one.astype(int)).max() <= (64 if one.dtype == np.int8 else 127) for one in stored if one.dtype in (np.int8, np.uint8) and one.size > 1))
"""

# The example of the page on ONNX Runtime's QNN provider, "Mixed precision support": the float model, and what their tool makes of it with the same data and overrides.
SEED = """
import sys, numpy as np, onnx
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
folder = sys.argv[1]
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [4])
nodes = [("Op1", "Sigmoid", ["in0"]), ("Op2", "Tanh", ["in1"]), ("Op3", "Sigmoid", ["Op1_out"]), ("Op4", "Tanh", ["Op2_out"]), ("Op5", "Add", ["Op3_out", "Op4_out"]),
         ("Op6", "Sigmoid", ["Op5_out"]), ("Op7", "Tanh", ["Op2_out"]), ("Op8", "Sigmoid", ["Op2_out"])]
graph = helper.make_graph([helper.make_node(op, inputs, [name + "_out"], name) for name, op, inputs in nodes], "seed", [value("in0"), value("in1")], [value(f"Op{i}_out") for i in (6, 7, 8)])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
onnx.save(model, folder + "/float.onnx")
data = {"in0": np.array([-1, 0.5, 2, 3], np.float32), "in1": np.array([-2, 0.25, 1, 1.5], np.float32)}
for name, array in data.items():
    np.save(f"{folder}/data/one/{name}.npy", array)
class Reader(CalibrationDataReader):
    at = iter([data])
    def get_next(self):
        return next(self.at, None)
quantize(folder + "/float.onnx", folder + "/theirs.onnx", get_qnn_qdq_config(folder + "/float.onnx", Reader(), activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8,
         init_overrides={"Op4_out": [{"quant_type": QuantType.QUInt16}]}))
"""
# Each node of a model with what it reads: the types, scales and zero points on the way from the node that made it; and the same of the outputs.
NODES = """
import sys, json, onnx
from onnx import numpy_helper
graph = onnx.load(sys.argv[1]).graph
constants = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
makers = {name: node for node in graph.node for name in node.output}
def way(name):
    steps = []
    while name in makers and makers[name].op_type in ("QuantizeLinear", "DequantizeLinear"):
        node = makers[name]
        zero = constants[node.input[2]]
        steps.append([node.op_type, str(zero.dtype), float(constants[node.input[1]]), int(zero)])
        name = node.input[0]
    return steps + [makers[name].name if name in makers else name]
out = {node.name: [node.op_type] + [way(name) for name in node.input] for node in graph.node if node.op_type not in ("QuantizeLinear", "DequantizeLinear")}
out.update({one.name: way(one.name) for one in graph.output})
print(json.dumps(out))
"""


def same(a, b):
    """Equal but for the last bits of numbers."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    return abs(a - b) <= 1e-6 * abs(b) if isinstance(a, float) else a == b


def npy(path, values, shape):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * ((-len(header) - 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}f", *values))


def left(path):
    return [name for name in os.listdir(os.path.dirname(path)) if name.startswith((os.path.basename(path), ".quarry-"))]


report = os.path.join(folder, "report.json")
plainly = ("--range", "minmax", "--equalize-activations", "0", "--bias-correction", "0", "--adaptive-rounding", "0")
check("the digits network, plainly", run("quantize", model, "-c", images, "-o", out, "--report", report, *plainly), 0, "samples")
told = json.load(open(report))
check("the digits network", run("quantize", model, "-c", images, "-o", out, "--report", report), 0, "samples", "SQNR", "same best class 100.0%")
better = json.load(open(report))["outputs"][0]["sqnr"]
require("what is on by itself serves the outputs", better > told["outputs"][0]["sqnr"], (better, told["outputs"]))
require("the report has the output's figures", told["outputs"][0]["sqnr"] > 20 and told["samples"] >= 4, told["outputs"])
require("every tensor has a scale", all(t["scale"] > 0 for t in told["tensors"]) and any(t["is_weight"] for t in told["tensors"]), "")
check("the result is a model that cpu takes wholly", run("check", out, "--backend", "cpu"), 0)
for name in sorted(os.listdir(images)):
    digit = name.split("_")[-1][0]
    check(f"{name} by the quantised model", run("run", out, os.path.join(images, name), "--top", "1"), 0, digit)

# Few samples are evaluated by themselves; of more, some are held back, and the result is evaluated by these alone. What is poor is called so, with what to try.
check("ten samples", run("quantize", model, "-c", images, "-o", out), 0, "compared on 10 samples that it was calibrated with", "give 16 or more", "operations: 6 in 8 bits or fewer, 0 in 16 bits, 0 in float")
pictures = os.path.join(folder, "pictures")
os.mkdir(pictures)
for i in range(3):
    for name in sorted(os.listdir(images)):
        shutil.copy(os.path.join(images, name), os.path.join(pictures, f"{i}-{name}"))
check("thirty samples", run("quantize", model, "-c", pictures, "-o", out + ".30", "--report", report), 0, "compared on 5 samples that were held back")
held = json.load(open(report))
require("they were not calibrated with", held["samples"] == 30 and held["held_back"] == held["evaluated"] == 5 and
        all(sum(t["histogram"]["counts"]) == 25 * 64 for t in held["tensors"] if t["shape"] == [1, 1, 8, 8]), {key: held[key] for key in ("samples", "held_back", "evaluated")})
check("thirty samples, none held back", run("quantize", model, "-c", pictures, "-o", out + ".30", "--hold-back", "0", "--report", report), 0, "compared on 30 samples that it was calibrated with")
require("ten and three times the same ten are the same", json.load(open(report))["outputs"][0]["top1"] == 1)
missed = []
for decibels in (43, 45, 47, 49):
    summary = check(f"a target of {decibels} dB", run("quantize", model, "-c", pictures, "-o", out + ".aim", "--target", f"sqnr={decibels}", "--report", report), 0).stdout
    reached, verdict = json.load(open(report))["outputs"][0]["sqnr"], json.load(open(report))["verdict"]
    if reached < decibels:
        missed.append(decibels)
        require("a target that others miss: the summary says so", f"sqnr={decibels} was reached on those that it was sought with" in summary and f"try --target {verdict['next'][-1]['value']}: as much more as is missing" in summary, summary)
    else:
        require("a target that others reach", "was reached" not in summary and not verdict["next"], summary)
require("samples that were held back miss some target", missed)
check("a good one", run("quantize", model, "-c", images, "-o", out + ".good", "--target", "sqnr=46", "--report", report), 0, "good: output 'scores'")
said = json.load(open(report))
require("how many operations have 16 bits", said["verdict"]["word"] == "good" and not said["verdict"]["next"] and said["operations"]["of_16_bits"] > 0, (said["verdict"], said["operations"]))
check("a poor one", run("quantize", model, "-c", images, "-o", out + ".poor", "--weights", "i4", "--per-channel", "0", "--range", "minmax", "--adaptive-rounding", "0", "--bias-correction", "0", "--equalize-activations", "0", "--report", report), 0,
      "poor: output 'scores': found", "expected 15 dB or more", "try --target sqnr=30", "try --per-channel 1", "give more samples")
require("the report says so too", json.load(open(report))["verdict"]["word"] == "poor")
check("a budget without a target", run("quantize", model, "-c", images, "-o", out + ".none", "--budget", "20"), 3, "QR-C0103", "option budget: found 20 without the option target", "target=sqnr=DB")
black = os.path.join(folder, "black")
os.mkdir(black)
npy(os.path.join(black, "black.npy"), [0.0] * 64, [1, 1, 8, 8])
check("one black picture", run("quantize", model, "-c", black, "-o", out + ".none"), 3, "found every input of 1 of them to be one and the same number all over")
require("nothing is written of it", not os.path.exists(out + ".none"))
check("a black picture among others", run("quantize", model, "-c", black, "-c", images, "-o", out + ".some"), 0)
for i in range(2):
    npy(os.path.join(black, f"grey-{i}.npy"), [0.25 + 0.5 * i] * 64, [1, 1, 8, 8])
check("grey pictures that differ", run("quantize", model, "-c", black, "-o", out + ".grey"), 0)
check("weights of 7 bits", run("quantize", model, "-c", images, "-o", out + ".reduced", "--reduce-range", "1", "--adaptive-rounding", "1", "--report", report), 0)
require("they lose a little", 20 < json.load(open(report))["outputs"][0]["sqnr"] < better, (better, json.load(open(report))["outputs"]))
if ort_python:
    weights = subprocess.run([ort_python, "-c", WEIGHTS, out + ".reduced", out], capture_output=True, text=True, timeout=300)
    require("they lie from -64 to 64", weights.stdout.split() == ["True", "False"], weights.stdout + weights.stderr[-500:])

# 16 bits are nearer to float than 8.
check("16 bits", run("quantize", model, "-c", images, "-o", out + ".16", "--activations", "u16", "--report", report, *plainly), 0)
wide = json.load(open(report))["outputs"][0]["sqnr"]
require("16 bits are nearer to float than 8", wide > told["outputs"][0]["sqnr"] + 1, (wide, told["outputs"][0]["sqnr"]))

# One tensor of 16 bits: those around it too, with conversions.
tensor = [t["name"] for t in told["tensors"] if not t["is_weight"] and t["node"]][0]
check("one tensor of 16 bits", run("quantize", model, "-c", images, "-o", out + ".mixed", "--tensor-types", tensor + "=u16", "--report", report), 0)
require("it has 16 bits", [t["type"] for t in json.load(open(report))["tensors"] if t["name"] == tensor] == ["u16"], "")
check("a tensor that there is not", run("quantize", model, "-c", images, "-o", out + ".none", "--tensor-types", "nobody=u16"), 3, "nobody", "QR-C0102")



def lost(what, *flags):
    """The report of a quantisation with these flags."""
    last = dict(zip(flags[::2], flags[1::2]))
    check(what, run("quantize", model, "-c", images, "-o", out + ".way", "--report", report, *(part for pair in last.items() for part in pair)), 0)
    return json.load(open(report))


# Ranges: each way gives a model; the least squares of the samples are never more than those of all that was seen.
for way in ("moving", "percentile", "entropy", "mse"):
    ranged = lost(f"ranges by {way}", *plainly, "--range", way)
    require(f"{way}: a model that works", ranged["outputs"][0]["sqnr"] > 15 and ranged["outputs"][0]["top1"] == 1, ranged["outputs"])
    if way == "mse":
        before = {t["name"]: t["sqnr_alone"] for t in told["tensors"] if not t["is_weight"]}
        require("least squares are the least", all(t["sqnr_alone"] >= before[t["name"]] - 0.01 for t in ranged["tensors"] if not t["is_weight"]), ranged["tensors"])
require("histograms hold every value", all(sum(t["histogram"]["counts"]) == told["samples"] * 64 for t in told["tensors"] if t["shape"] == [1, 1, 8, 8]), "")
require("nothing is clipped by all that was seen", all(t["clipped"] == 0 for t in told["tensors"] if not t["is_weight"]), "")

# Weights of 4 bits, one scale for a tensor: each improvement helps where it can, and says what it did.
few = ("--weights", "i4", "--per-channel", "0", "--activations", "u16", *plainly)
plain = lost("weights of 4 bits", *few)["outputs"][0]["sqnr"]
clipped = lost("clipped weights", *few, "--clip-weights", "1")
require("some weights are clipped", any(t["clipped"] > 0 for t in clipped["tensors"] if t["is_weight"]), "")
require("clipping loses less of each tensor", all(t["sqnr_alone"] > 12 for t in clipped["tensors"] if t["is_weight"] and t["type"] == "i4"), clipped["tensors"])
adaptive = lost("adaptive rounding", *few, "--adaptive-rounding", "1")
require("adaptive rounding: results change less", adaptive["outputs"][0]["sqnr"] > plain + 3 and any(c["what"] == "weights rounded adaptively" for c in adaptive["changes"]),
        (plain, adaptive["outputs"]))
corrected = lost("bias correction", *few, "--bias-correction", "1")
require("bias correction: results change less", corrected["outputs"][0]["sqnr"] > plain and any(c["what"] == "bias corrected" for c in corrected["changes"]), (plain, corrected["outputs"]))
equal = lost("equalisation", *few, "--equalize", "1")
require("equalisation names the layers", any(c["what"] == "equalised" for c in equal["changes"]), equal["changes"])
everything = lost("all of them", *few, "--equalize", "1", "--clip-weights", "1", "--adaptive-rounding", "1", "--bias-correction", "1")
require("all of them are better than none", everything["outputs"][0]["sqnr"] > plain + 3, (plain, everything["outputs"]))
# Other types of weights, and scales for blocks of the summed axis.
known = {}
for kind in ("u8", "i8", "u16", "i16"):
    typed = lost(f"weights of {kind}", *plainly, "--weights", kind, "--activations", "u16")
    known[kind] = typed["outputs"][0]["sqnr"]
    require(f"they are {kind}", {t["type"] for t in typed["tensors"] if t["is_weight"]} - {"i32", "u16"} <= {kind}, typed["tensors"])
require("weights of 16 bits are nearer to float", min(known["u16"], known["i16"]) > max(known["u8"], known["i8"]) + 6, known)
whole, blocks = (lost("weights of 4 bits", *plainly, "--weights", "i4", "--activations", "u16", "--block-size", size) for size in ("0", "16"))
scales = [max(t["channels"] for t in one["tensors"] if t["type"] == "i4") for one in (whole, blocks)]
require("blocks have scales of their own, and lose less", scales[1] > scales[0] and blocks["outputs"][0]["sqnr"] > whole["outputs"][0]["sqnr"], (scales, whole["outputs"], blocks["outputs"]))
for weights in ("u16", "i16", "i4"):
    check(f"cpu takes weights of {weights}", run("quantize", model, "-c", images, "-o", out + ".typed", "--weights", weights, "--activations", "u16", *(("--block-size", "16") if weights == "i4" else ())), 0)
    check(f"and runs them: {weights}", run("run", out + ".typed", os.path.join(images, sorted(os.listdir(images))[0]), "--top", "1"), 0, sorted(os.listdir(images))[0].split("_")[-1][0])

# Channels last: the same model with the axes of its input in another order.
named = json.loads(run("inspect", model, "--json").stdout)["inputs"][0]["name"]
check("channels last", run("quantize", model, "-c", images, "-o", out + ".last", "--channels-last", named, "--report", report), 0)
require("the report says so", any(c["what"] == "channels put last" and c["where"] == named for c in json.load(open(report))["changes"]), "")
require("its input has them last", "1x8x8x1" in run("inspect", out + ".last").stdout or "[1,8,8,1]" in run("inspect", out + ".last").stdout, run("inspect", out + ".last").stdout)
for name in sorted(os.listdir(images))[:3]:
    check(f"{name}, channels last", run("run", out + ".last", os.path.join(images, name), "--top", "1"), 0, name.split("_")[-1][0])
check("channels of nobody", run("quantize", model, "-c", images, "-o", out + ".none", "--channels-last", "nobody"), 3, "nobody", "QR-C0102")
beside = lost("layers on another backend", "--compare-on", "cpu-reference")
require("each layer's error on it", beside["device"] == "cpu-reference" and all("sqnr_device" in one for one in beside["layers"] if "sqnr" in one), beside["layers"])
check("a backend that there is not", run("quantize", model, "-c", images, "-o", out + ".none", "--compare-on", "nobody"), 3, "nobody")
page = os.path.join(folder, "report.html")
check("the report as a page", run("quantize", model, "-c", images, "-o", out + ".way", "--report", page), 0)
with open(page, encoding="utf-8") as file:
    text = file.read()
require("the page has the report and opens nothing else", '"tensors": [' in text and "default-src 'none'" in text and not re.search(r'(?:src|href)="', text))

# To a target: as few tensors of 16 bits as it takes.
goal = (told["outputs"][0]["sqnr"] + wide) / 2
check("a target", run("quantize", model, "-c", images, "-o", out + ".target", "--target", f"sqnr={goal:.2f}", "--report", report, *plainly), 0)
reached = json.load(open(report))
raised = [c for c in reached["changes"] if c["what"] == "raised to 16 bits"]
require("it is reached with fewer tensors of 16 bits than all", reached["outputs"][0]["sqnr"] >= goal - 0.01 and 0 < len(raised) < sum(not t["is_weight"] for t in reached["tensors"]), (goal, reached["outputs"], raised))
check("a target that nothing reaches", run("quantize", model, "-c", images, "-o", out + ".never", "--target", "sqnr=150"), 3, "QR-C0102", "expected 150")
for goal, part in (("sqnr=", "expected sqnr=DB"), ("speed=3", "expected sqnr=DB"), ("top1=101", "to 100"), ("cosine=0", "to 1")):
    check(f"the target {goal}", run("quantize", model, "-c", images, "-o", out + ".never", "--target", goal), 3, "QR-C0102", part)
check("a budget that is too small", run("quantize", model, "-c", images, "-o", out + ".never", "--target", f"sqnr={told['outputs'][0]['sqnr'] + 2:.2f}", "--budget", "0", *plainly), 3, "option budget")
near = lost("a target of cosine and top-1", *plainly, "--target", "cosine=0.99995")
require("it is reached", near["outputs"][0]["cosine"] >= 0.99995, near["outputs"])
require("all classes the same", lost("top-1", *plainly, "--target", "top1=100")["outputs"][0]["top1"] == 1, "")
require("nothing is written then", not os.path.exists(out + ".never"), "")
# Into a container at once.
check("into a container", run("quantize", model, "-c", images, "-o", out + ".qrm", "--backend", "cpu"), 0)
check("which runs", run("run", out + ".qrm", os.path.join(images, sorted(os.listdir(images))[0]), "--top", "1"), 0)
check("a container for nobody", run("quantize", model, "-c", images, "-o", out + ".qrm"), 2, "--backend")

if ort_python:
    seed = os.path.join(folder, "seed")
    os.makedirs(os.path.join(seed, "data", "one"))
    made = subprocess.run([ort_python, "-c", SEED, seed], capture_output=True, text=True, timeout=300)
    require("ONNX Runtime's tool on the seed's example", made.returncode == 0, made.stderr[-1000:])
    for ending, text in ((".json", '{"Op4_out": [{"quant_type": "QUInt16"}]}'), (".yaml", "Op4_out:\n  type: u16\n")):
        with open(os.path.join(seed, "overrides" + ending), "w") as file:
            file.write(text)
        ours = os.path.join(seed, "ours.onnx")
        check("the seed's example", run("quantize", os.path.join(seed, "float.onnx"), "-c", os.path.join(seed, "data"), "-o", ours, "--overrides", os.path.join(seed, "overrides" + ending), *plainly), 0)
        both = [json.loads(subprocess.run([ort_python, "-c", NODES, path], capture_output=True, text=True, timeout=300).stdout) for path in (ours, os.path.join(seed, "theirs.onnx"))]
        require("the same nodes as ONNX Runtime's tool", sorted(both[0]) == sorted(both[1]), both)
        for name in both[0]:
            require(f"{name}: the same as ONNX Runtime's tool has it", same(both[0][name], both[1][name]), (both[0][name], both[1][name]))

    inputs = json.loads(run("inspect", model, "--json").stdout)["inputs"][0]
    dims = [d if isinstance(d, int) and d > 0 else 1 for d in inputs["shape"]] if "shape" in inputs else [1, 1, 8, 8]
    count = 1
    for d in dims:
        count *= d
    given, theirs, saved = os.path.join(folder, "x.npy"), os.path.join(folder, "theirs.npy"), os.path.join(folder, "saved")
    npy(given, [((i * 37) % 101) / 101 for i in range(count)], dims)
    for path in (out, out + ".16", out + ".mixed"):
        judged = subprocess.run([ort_python, "-c", ORT, path, given, theirs], capture_output=True, text=True, timeout=300)
        require(f"ONNX Runtime takes {os.path.basename(path)}", judged.returncode == 0, judged.stderr[-1000:])
        shutil.rmtree(saved, ignore_errors=True)
        check("ours", run("run", path, given, "--save", saved), 0)
        ours = floats(os.path.join(saved, os.listdir(saved)[0]))
        wanted = floats(theirs)
        step = [t["scale"] for t in told["tensors"] if t["name"] == told["outputs"][0]["name"]][0]
        require(f"{os.path.basename(path)}: equal to ONNX Runtime's within a step", max(abs(a - b) for a, b in zip(ours, wanted)) <= step * 1.01, (ours, wanted))

# Samples are not kept: ten times as many take no more memory.
small = os.path.join(shared, "models", "vww_mobilenetv1_0.25_96_f32", "model.onnx")
if os.path.exists(small):
    sample = os.path.join(folder, "sample.npy")
    npy(sample, [((i * 37) % 101) / 101 for i in range(96 * 96 * 3)], [1, 3, 96, 96])
    peaks = []
    for count in (60, 600):
        there = os.path.join(folder, f"of-{count}")
        os.mkdir(there)
        for i in range(count):
            os.symlink(sample, os.path.join(there, f"{i:04}.npy"))
        child = subprocess.Popen([quarry, "quantize", small, "-c", there, "-o", os.path.join(folder, "many.onnx"), "--evaluate", "4", *plainly], stdout=subprocess.DEVNULL, env=environment)
        _, status, used = os.wait4(child.pid, 0)
        require(f"{count} samples", status == 0, status)
        peaks.append(used.ru_maxrss / 1024)
    require("memory does not grow with samples", peaks[1] < peaks[0] + 20, peaks)

# A calibration that is stopped goes on where it was, and gives the same bytes.
many, state, ended = (os.path.join(folder, name) for name in ("many", "calibration.state", "ended.onnx"))
os.mkdir(many)
for i in range(30):
    for name in sorted(os.listdir(images)):
        shutil.copy(os.path.join(images, name), os.path.join(many, f"{i:02}-{name}"))
last = os.path.join(many, sorted(os.listdir(many))[-1])
whole = open(last, "rb").read()
check("a calibration in one go", run("quantize", model, "-c", many, "-o", ended), 0)
undisturbed = open(ended, "rb").read()
os.remove(ended)
with open(last, "wb") as cut:
    cut.write(whole[:60])
resumed = ("quantize", model, "-c", many, "-o", ended, "--resume", state)
check("the last picture is damaged", run(*resumed), 2, "299 of 300 samples are kept", "cut off after 60 bytes")
with open(last, "wb") as good:
    good.write(whole)
kept = open(state, "rb").read()
check("a calibration of other options", run(*resumed, "--activations", "u16"), 3, "QR-C0007", "expected activations=u16", "delete the file")
check("of pictures prepared otherwise", run(*resumed, "--scale", "0.5"), 3, "found pictures prepared as", "0.5")
check("of more samples", run(*resumed, "--limit", "3"), 3, "found 299 samples, expected at most the 3")
check("of other samples", run("quantize", model, "-c", images, "-c", many, "-o", ended, "--resume", state), 3, "sample 1: found", "00-digit_0.png")
check("of another model", run("quantize", out, "-c", many, "-o", ended, "--resume", state), 3)
for what, damaged in (("cut off", kept[:-9]), ("changed", kept[:5000] + bytes([kept[5000] ^ 1]) + kept[5001:]), ("of another kind", whole), ("empty", b"")):
    with open(state, "wb") as file:
        file.write(damaged)
    check(f"a saved calibration that is {what}", run(*resumed), 3, "QR-F0006", "calibration.state", "expected one that was saved whole")
    require(f"one that is {what} stays as it is", open(state, "rb").read() == damaged and not os.path.exists(ended))
with open(state, "wb") as file:
    file.write(kept)
check("kept where the model goes", run("quantize", model, "-c", many, "-o", ended, "--resume", ended), 2, "for --output and for --resume, expected one for each")
check("kept where the model lies", run("quantize", model, "-c", many, "-o", ended, "--resume", model), 2, "expected another file", "--resume would overwrite it")
check("a report over the model", run("quantize", model, "-c", many, "-o", ended, "--report", model), 2, "--report would overwrite it")
check("kept in a folder that is not there", run(*resumed[:-1], os.path.join(folder, "nowhere", "state")), 3, "QR-F0003")
check("it goes on", run(*resumed, "--threads", "1"), 0)
require("to the same bytes", open(ended, "rb").read() == undisturbed)
require("what it was kept in is gone", not os.path.exists(state))
# Killed at any time: what was written last is whole.
running = subprocess.Popen([quarry, *resumed], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
while running.poll() is None and not os.path.exists(state):
    time.sleep(0.001)
running.kill()
running.wait()
os.path.exists(ended) and os.remove(ended)
check("after a kill", run(*resumed), 0)
require("the same bytes too", open(ended, "rb").read() == undisturbed)

# What goes wrong is named, and nothing half-written is left.
bad = os.path.join(folder, "bad")
os.mkdir(bad)
target = os.path.join(folder, "none", "bad.onnx")
os.mkdir(os.path.dirname(target))
with open(os.path.join(images, sorted(os.listdir(images))[0]), "rb") as good, open(os.path.join(bad, "cut.png"), "wb") as cut:
    cut.write(good.read()[:100])
check("a damaged picture", run("quantize", model, "-c", bad, "-o", target), 2, "cut.png")
os.remove(os.path.join(bad, "cut.png"))
check("an empty folder", run("quantize", model, "-c", bad, "-o", target), 2, "found no sample")
npy(os.path.join(bad, "nan.npy"), [float("nan")] * 64, [1, 1, 8, 8])
check("a NaN", run("quantize", model, "-c", bad, "-o", target), 3, "nan.npy", "NaN")
npy(os.path.join(bad, "nan.npy"), [0.5] * 3, [1, 3])
check("another shape", run("quantize", model, "-c", bad, "-o", target), 3, "nan.npy", "[1,3]")
os.mkdir(os.path.join(folder, "sets"))
os.mkdir(os.path.join(folder, "sets", "a"))
npy(os.path.join(folder, "sets", "a", "other.npy"), [0.5], [1])
check("a sample without the input", run("quantize", model, "-c", os.path.join(folder, "sets"), "-o", target), 2, "found no file for input")
check("a bad value", run("quantize", model, "-c", images, "-o", target, "--activations", "u9"), 3, "QR-C0102", "u8|i8|u16|i16")
check("quantised already", run("quantize", out, "-c", images, "-o", target), 3, "quantised already", f"file: {out}")
with open(model, "rb") as good, open(os.path.join(folder, "cut.onnx"), "wb") as cut:
    cut.write(good.read()[:100])
check("a model that is cut off", run("quantize", os.path.join(folder, "cut.onnx"), "-c", images, "-o", target), 3, "the model is cut off: found 100 bytes", "cut.onnx")
check("over the model", run("quantize", model, "-c", images, "-o", model), 2, "would overwrite it")
full = run("quantize", model, "-c", images, "-o", target, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)))
check("a file that may not grow", full, 3, "bad.onnx", "cannot be written")
check("a folder that is not there", run("quantize", model, "-c", images, "-o", os.path.join(folder, "nowhere", "x.onnx")), 3, "x.onnx")
require("nothing half-written", not left(target), left(target))

# Weights per channel need opset 13: models of an older one are written as opset 21, each Conv with a scale for each of its channels.
old_data = os.path.join(folder, "old-data")
os.mkdir(old_data)
for at in range(2):
    npy(os.path.join(old_data, f"{at}.npy"), [(k * 37 % 64 - 32 + at) / 32 for k in range(3 * 16)], [1, 3, 4, 4])
weights = struct.pack("<24f", *((k * 29 % 31 - 15) / 15 * 10.0 ** -(k // 3 % 4) for k in range(24)))
for opset in (11, 12):
    old, made = (os.path.join(folder, f"opset{opset}{end}.onnx") for end in ("", ".qdq"))
    with open(old, "wb") as file:
        file.write(onnx_file([onnx_node("Conv", ["x", "w"], ["y"])], [("x", F32, [1, 3, 4, 4])], [("y", F32, [1, 8, 4, 4])], initializers=[initializer("w", F32, [8, 3, 1, 1], weights)], opset=opset))
    for flag, dims in (("1", b"\x08\x08"), ("0", b"")):
        check(f"opset {opset}, --per-channel {flag}", run("quantize", old, "-c", old_data, "-o", made, "--per-channel", flag), 0, "operations: 1 in 8 bits")
        with open(made, "rb") as file:
            found = re.search(rb"((?:\x08.)*)\x10\x01" + re.escape(field(8, b"w_DequantizeLinear/scale")), file.read(), re.S)
        require(f"opset {opset}, --per-channel {flag}: scales of the weights", found and found[1] == dims, found)
    said = json.loads(run("inspect", made, "--json").stdout)["onnx"]["opsets"]
    require(f"opset {opset} is written as 21", said == [{"domain": "ai.onnx", "version": 21}], said)

# A model whose data sets have a scalar as an array of one element, and one of attention with a mask of -1e9.
for name, least in (("silero_vad_16k_op15", 25), ("babyllama105_kv_f32", 20)):
    there = os.path.join(shared, "models", name)
    if os.path.isdir(there):
        last = sorted(one for one in os.listdir(there) if one.startswith("test_data_set_"))[-1]
        data = os.path.join(folder, "data-" + name)
        shutil.copytree(os.path.join(there, last), os.path.join(data, last))
        check(f"{name} on its own data", run("quantize", os.path.join(there, "model.onnx"), "-c", data, "-o", os.path.join(folder, name + ".onnx"), "--report", report), 0)
        outputs = json.load(open(report))["outputs"]
        require(f"{name}: near to float", min(one["sqnr"] for one in outputs) > least, outputs)

# htp takes the whole of what it takes of the float model: convolutions and pools, and a transformer with its normalizations.
if os.environ.get("QUARRY_QNN_PATH"):
    for name in ("kws_dscnn_f32", "tashkeel_transformer_f32"):
        there = os.path.join(shared, "models", name)
        if not os.path.isdir(there):
            continue
        made = os.path.join(folder, name + ".htp.onnx")
        data = os.path.join(folder, "htp-" + name)
        shutil.copytree(os.path.join(there, "test_data_set_0"), os.path.join(data, "0"))
        check(f"{name} on its own data", run("quantize", os.path.join(there, "model.onnx"), "-c", data, "-o", made, *plainly), 0)
        check(f"{name} runs wholly on htp", run("check", made, "--backend", "htp", "-O", "soc_model=SM8650"), 0, " 0 refused")

real = os.path.join(shared, "models", "mobilenetv2_1.0_224_google_f32")
if os.path.isdir(real):
    made = os.path.join(folder, "mobilenet.qdq.onnx")
    check("MobileNetV2 on its own data", run("quantize", os.path.join(real, "model.onnx"), "-c", real, "-o", made, "--report", report, timeout=600), 0, "SQNR")
    require("MobileNetV2: its classes stay", json.load(open(report))["outputs"][0].get("top1", 0) == 1, json.load(open(report))["outputs"])
    check("MobileNetV2 runs on cpu wholly", run("check", made, "--backend", "cpu"), 0)
shutil.rmtree(folder)
finish()
