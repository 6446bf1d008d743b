#!/usr/bin/env python3
"""What surrounds the htp backend: several SoCs in a container, cuts and comparisons, EPContext models, damage, what doctor and inspect say.

check_htp_tools.py BUILD_DIR SHARED_DIR FOLDER_OF_THE_LIBRARIES
"""
import json
import os
import random
import shutil
import struct
import subprocess
import sys

from program import build, check, environment, finish, image, model, new_folder, npy, require, root, run

environment["QUARRY_QNN_PATH"] = sys.argv[3]
environment["QUARRY_BACKEND_PATH"] = ":".join(os.path.join(build, "backends", name) for name in ("htp", "cpu", "cpu-reference"))
folder = new_folder()


def path(name):
    return os.path.join(folder, name)


def npy_random(name, dims):
    npy(name, dims)
    with open(name, "rb") as file:
        content = file.read()
    count = 1
    for d in dims:
        count *= d
    random.seed(5)
    with open(name, "wb") as out:
        out.write(content[:-4 * count] + struct.pack(f"<{count}f", *(random.random() for _ in range(count))))
    return name


# ---- several SoCs: a context each, the one that is asked for is taken
several = path("several.qrm")
check("compile for several SoCs", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8550,SM8650,57,SM8750", "-O", "container.keep_graph=0", "-o", several), 0,
      "SM8550", "SM8650", "SM8750")
contexts = json.loads(run("inspect", several, "--json").stdout)["contexts"]
require("a context each, and one for two names of a SoC", [c["target"] for c in contexts] == ["SM8550", "SM8650", "SM8750"], contexts)
require("each says what it is for", [c["options"]["soc_model"] for c in contexts] == ["SM8550", "SM8650", "SM8750"], contexts)
for asked, taken in (("0", "SM8550"), ("SM8650", "SM8650"), ("57", "SM8650"), ("SM8850,SM8750", "SM8750")):
    check("taken: " + asked, run("run", several, image, "--backend", "htp", "-O", "soc_model=" + asked, "-v"), 0, f"that for {taken} is the best: optimal")
check("none for the SoC", run("run", several, image, "--backend", "htp", "-O", "soc_model=SM8850"), 3, "QR-M0011", "asked for was SM8850", "was not kept")
check("one SoC of several is none", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8550,SM1", "-o", path("x.qrm")), 3, "soc_model", "SM1")
check("check for several SoCs", run("check", model, "--backend", "htp", "-O", "soc_model=SM8350,SM8650"), 0, "0 refused")

# ---- doctor: each library, what a device needs, the next thing
check("doctor with the libraries", run("doctor"), 0, "libQnnHtp.so: " + sys.argv[3], "core 2.", "build v2.", "its table: ", "libQnnSystem.so: 1.", "their own C++ library", "stubs: ", "skels: ",
      "device nodes: ", "next: compile for the phone's SoC")
check("doctor without", run("doctor", env=dict(environment, QUARRY_QNN_PATH=path("nowhere"))), 0, "not usable from QUARRY_QNN_PATH=" + path("nowhere"), "next: get the libraries")

# ---- check, cut, diff
check("diff with the emulator", run("diff", model, "--backend", "htp", "--backend-b", "cpu-reference", "-O", "soc_model=SM8650", "--input", image), 0, "9 tensors agree")
check("cut for two backends", run("cut", model, "--at", "p", "--backend", "htp,cpu", "-O", "soc_model=SM8650", "-o", path("head.qrm"), path("tail.qrm")), 0, "backend htp")
check("run the head", run("run", path("head.qrm"), image, "--backend", "htp", "--save", path("head")), 0)
check("run the second part", run("run", path("tail.qrm"), path("head/p.npy"), "--backend", "cpu"), 0, "     3  \n      5")

# ---- inspect reports what the binary says, without the libraries
check("compile a quantised model", run("compile", model, "--backend", "htp", "-O", "soc_model=SM8650", "-o", path("one.qrm")), 0)
bare = dict(environment, QUARRY_QNN_PATH=path("nowhere"))
about = json.loads(check("inspect without the libraries", run("inspect", path("one.qrm"), "--json", env=bare), 0).stdout)["contexts"][0]["programs"][0]["about"]
require("inspect: SoC, versions, sizes", about["soc"] == "SM8650" and about["arch"] == "v75" and about["build_id"].startswith("v2.") and about["binary_bytes"] > 4096, about)
graph = about["graphs"][0]
require("inspect: tensors, VTCM", graph["vtcm_bytes"] >= 1 << 20 and graph["inputs"][0]["id"] > 0 and graph["outputs"][0]["device_dims"] == [1, 10], graph)
check("inspect as text", run("inspect", path("one.qrm")), 0, "soc SM8650", "vtcm_bytes", "device_name image")

# ---- 1,000 damaged containers: no damaged binary reaches the library, which would crash or compute nonsense
result = subprocess.run([sys.executable, os.path.join(root, "tests", "integration", "htp_damage.py"), os.path.join(build, "runtime", "libquarry.so.0"),
                         path("one.qrm"), "backend=htp", "context.recompile=never"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=280)
require("1,000 damaged containers", result.returncode == 0 and json.loads(result.stdout.splitlines()[-1])["ids"].get("QR-B0005", 0) > 100, result.stdout[-500:] + result.stderr[-500:])

# ---- EPContext models: ONNX Runtime's QNN provider computes the same from them, embedded and not
candidates = [os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(root, "..", "venv-tools", "bin", "python"), os.path.join(build, "venv", "bin", "python")]
python = next((p for p in candidates if p and os.path.exists(p) and
               subprocess.run([p, "-c", "import onnxruntime, onnxruntime_qnn"], stderr=subprocess.DEVNULL).returncode == 0), None)
for embed in ("0", "1"):
    target = path(f"ctx{embed}.onnx")
    check("write an EPContext model", run("run", model, npy_random(path("x.npy"), (1, 1, 8, 8)), "--backend", "htp", "-O", "soc_model=SM8650", "-O", "ep.context_enable=1",
                                          "-O", "ep.context_file_path=" + target, "-O", "ep.context_embed_mode=" + embed, "--save", path("ctx")), 0)
    require("the binary is where it should be", os.path.exists(path(f"ctx{embed}_htp.bin")) == (embed == "0"), os.listdir(folder))
    check("Quarry refuses it with a reason", run("run", target, "--zeros", "--backend", "htp"), 3, "QR-O0013", "EPContext")
    if python:
        result = subprocess.run([python, os.path.join(root, "tests", "integration", "ort_qnn.py"), target, path("ctx/scores.npy"), "57", path("x.npy")], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=120)
        require("ONNX Runtime's QNN provider gives the same, embedded " + embed, result.stdout.splitlines()[-1:] == ["equal"], result.stdout[-300:] + result.stderr[-800:])
if not python:
    print("   skipped: ONNX Runtime's QNN provider on EPContext models: no Python has onnxruntime and onnxruntime-qnn (set QUARRY_ORT_PYTHON)")
check("a backend without EPContext models", run("run", model, image, "--backend", "cpu", "-O", "ep.context_enable=1", "-O", "ep.context_file_path=" + path("cpu.onnx")), 3, "backend cpu")

shutil.rmtree(folder)
finish()
