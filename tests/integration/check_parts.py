#!/usr/bin/env python3
"""Parts of models: `quarry check` says where to cut, `quarry cut` does it, the chain gives what the whole gives; `quarry diff` compares layers.

check_parts.py BUILD_DIR SHARED_DIR
"""
import glob
import json
import os
import shutil
import struct
import sys

from program import build, check, finish, image, model, new_folder, onnx_model, require, run, shared

folder = new_folder()


def path(name):
    return os.path.join(folder, name)


def saved(directory):
    return {os.path.basename(file)[:-4]: open(file, "rb").read() for file in glob.glob(os.path.join(directory, "*.npy"))}


def run_saved(name, where, *inputs, backend):
    arguments = [a for i in inputs for a in ("--input", i)]
    check(f"run {os.path.basename(name)}", run("run", name, *arguments, "--backend", backend, "--save", path(where), "--json"), 0)
    return saved(path(where))


# ---- check
report = json.loads(check("check --json", run("check", model, "--json"), 0).stdout)
require("check: tensors of nodes", report["nodes"][0]["inputs"] == ["image"] and report["nodes"][-1]["outputs"] == ["scores"], report["nodes"])
require("check: nothing to cut", "cut" not in report, report)
check("check: a table", run("check", model), 0, "operator", "Conv", "9 nodes supported, 0 refused")
check("check: refused nodes, and no part that is taken", run("check", model, "--backend", "null"), 1, "refused conv1", "QR-B0002", "no cut leaves")

# ---- cut: two parts and three, of the .onnx and of a container; each chain gives the whole's bytes
whole = run_saved(model, "whole", f"image={image}", backend="cpu")
check("compile", run("compile", model, "-o", path("whole.qrm")), 0)
for name, source in (("onnx", model), ("qrm", path("whole.qrm"))):
    head, tail = path(name + ".head.qrm"), path(name + ".tail.qrm")
    check("cut " + name, run("cut", source, "--at", "p", "-o", head, tail), 0, "gives p f32[1,32,4,4]", "takes p f32[1,32,4,4]", "gives scores")
    run_saved(head, name + "-h", f"image={image}", backend="cpu")
    given = run_saved(tail, name + "-t", "p=" + path(f"{name}-h/p.npy"), backend="cpu")
    require("the chain gives what the whole does: " + name, given == whole, list(given))
parts = [path(f"part{i}.qrm") for i in range(3)]
check("cut in three", run("cut", model, "--at", "r1", "--at", "r3", "--backend", "cpu,cpu-reference,cpu", "-o", *parts), 0, "backend cpu-reference")
run_saved(parts[0], "three-0", f"image={image}", backend="cpu")
run_saved(parts[1], "three-1", "r1=" + path("three-0/r1.npy"), backend="cpu-reference")
given = run_saved(parts[2], "three-2", "r3=" + path("three-1/r3.npy"), backend="cpu")
require("three parts give what the whole does", given.keys() == whole.keys() and len(given["scores"]) == len(whole["scores"]), list(given))
check("cut at no tensor", run("cut", model, "--at", "nowhere", "-o", path("a"), path("b")), 3, "graph.head", "nowhere")
check("cut at a constant", run("cut", model, "--at", "conv1_w", "-o", path("a"), path("b")), 3, "graph.head")
check("cut in two, three files", run("cut", model, "--at", "p", "-o", path("a"), path("b"), path("c")), 2, "3 files for 2 parts")
require("nothing is left behind", not os.path.exists(path("b")))

# ---- diff
report = json.loads(check("diff --json", run("diff", model, "--backend", "cpu", "--backend-b", "cpu-reference", "--input", image, "--json"), 0).stdout)
require("diff: a row per layer, in order", [row["name"] for row in report["tensors"]] == ["c1", "r1", "c2", "r2", "p", "f", "d1", "r3", "scores"], report)
require("diff: two backends agree", report["first_bad"] is None and all(row["of_range"] < 1e-3 for row in report["tensors"]), report)
require("diff: who made it", report["tensors"][0]["node"] == "conv1" and report["tensors"][0]["op"] == "Conv", report)
check("diff: a table", run("diff", path("whole.qrm"), model, "--backend-b", "cpu-reference", "--random"), 0, "SQNR", "9 tensors agree")
for name, op in (("abs.onnx", b"Abs"), ("neg.onnx", b"Neg")):
    with open(path(name), "wb") as out:
        out.write(onnx_model(op))
check("diff: another model", run("diff", path("abs.onnx"), path("neg.onnx"), "--random"), 1, "the first that does not: y", "Abs")
# Scales of each channel: the same values by other zero points, and others by another scale.
with open(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "models", "facts.onnx"), "rb") as given:
    facts = given.read()
for name, was, now in (("facts.onnx", b"", b""), ("shifted.onnx", b"\x4a\x02\x03\x05", b"\x4a\x02\x50\x60"), ("coarse.onnx", struct.pack("<f", 0.25), struct.pack("<f", 64))):
    with open(path(name), "wb") as out:
        out.write(facts.replace(was, now) if was else facts)
check("diff per channel: zero points", run("diff", path("facts.onnx"), path("shifted.onnx"), "--shape", "columns=300", "--random"), 0, "exact", "1 tensors agree")
check("diff per channel: scales", run("diff", path("facts.onnx"), path("coarse.onnx"), "--shape", "columns=300", "--random"), 1, "the first that does not: y")
check("diff without an input", run("diff", model), 2, "no file for input 'image'", "--random")
if os.path.isdir(os.path.join(shared, "models")):
    quantized = os.path.join(shared, "models", "kws_dscnn_int8_qdq", "model.onnx")
    report = json.loads(run("diff", quantized, "--backend", "cpu", "--backend-b", "cpu-reference", "--random", "--json").stdout)
    steps = [row["steps"] for row in report["tensors"] if row["steps"] is not None]
    require("diff: steps of quantised tensors", len(steps) > 10 and max(steps) <= 1, steps)
    check("cut at a quantised tensor", run("cut", quantized, "--at", "t27_q", "-o", path("q-head.qrm"), path("q-tail.qrm")), 0, "gives t27_q", "takes t27_q")

shutil.rmtree(folder)
finish()
