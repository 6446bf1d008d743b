#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Models that once gave a wrong number, a crash or a refusal (SHARED/cases), on cpu, cpu-reference and, where OpenCL has a device, gpu: from ONNX and through .qrm.

check_cases.py BUILD SHARED
"""
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import build, check, environment, finish, floats, new_folder, npy, require, run, shared  # noqa: E402

cases = os.path.join(shared, "cases")
if not os.path.isdir(cases):
    print(f"   skipped: there is no {cases} (set QUARRY_SHARED)")
    finish()
# What nobody runs yet, and the id that says so.
REFUSED = {"F16_if_ranks": "QR-G0006"}  # an If whose branches have two ranks
names = sorted(os.listdir(cases))
stored = [name for name in names if os.path.isdir(os.path.join(cases, name, "test_data_set_0"))]
folder = new_folder()

backends = {"cpu": [], "cpu-reference": []}
gpu = run("doctor").stdout.split("  ok   gpu", 1)
if len(gpu) == 2 and "  usable," in "".join(gpu[1].splitlines()[:2]):
    backends["gpu"] = ["-O", "gpu.tail=host"]
else:
    print("   without gpu: there is no OpenCL device here")
here = dict(environment, POCL_CACHE_DIR=os.path.join(build, "pocl-cache"), POCL_WORK_GROUP_SPECIALIZATION="0")

for backend, options in backends.items():
    for way in ([], ["--compiled"]):
        report = os.path.join(folder, "report.json")
        done = run("conform", "--backend", backend, *options, *way, "--json", report, *[os.path.join(cases, name) for name in stored], env=here, timeout=600)
        with open(report, encoding="utf-8") as file:
            found = json.load(file)["cases"]
        how = f"on {backend}" + (" through .qrm" if way else "")
        require(f"{how}: every case", len(found) == len(stored) > 0, done.stdout + done.stderr)
        for case in found:
            if case["name"] in REFUSED:
                require(f"{case['name']} {how}", case.get("id") == REFUSED[case["name"]], case)
            else:
                require(f"{case['name']} {how}", case["result"] == "passed", f"{case['result']}: {case.get('reason')}")
    # Heap that was written over, by a perm with negatives; there is no stored result.
    check(f"C04 on {backend}", run("run", os.path.join(cases, "C04_transpose_negative_perm_heap", "model.onnx"), "--zeros", "--backend", backend, *options, env=here), 0)

    # Backwards from before the first element: that element, as ONNX has it.
    case, y = os.path.join(cases, "F13_slice_start_below"), os.path.join(folder, backend, "y.npy")
    check(f"F13 on {backend}", run("run", os.path.join(case, "model.onnx"), os.path.join(case, "x.npy"), "-o", os.path.dirname(y), "--backend", backend, *options, env=here), 0)
    require(f"F13 on {backend}: its values", os.path.exists(y) and floats(y) == floats(os.path.join(case, "x.npy"))[:1])

    # An If whose branches have two ranks: right where its condition is bound, and the refusal says how that is done.
    case, y = os.path.join(cases, "F16_if_ranks"), os.path.join(folder, backend, "y.npy")
    x = npy(os.path.join(folder, "sample", "x.npy"), [2], [4, 3])
    check(f"F16 on {backend}", run("run", os.path.join(case, "model.onnx"), "--zeros", "--backend", backend, *options, env=here), 3, "expected one rank", "the option shape", "input=[value]")
    for value, wanted in ((1, [4, 3]), (0, [-4, -3])):
        check(f"F16 on {backend}, c={value}", run("run", os.path.join(case, "model.onnx"), x, "--shape", f"c=[{value}]", "-o", os.path.dirname(y), "--backend", backend, *options, env=here), 0)
        require(f"F16 on {backend}, c={value}: its values", list(floats(y)) == wanted, floats(y))

# Conv, Relu, BatchNormalization: the quantizer's passes read what a node of one input does not have.
quantized = os.path.join(folder, "quantized.onnx")
case = os.path.join(cases, "C02_quantize_conv_relu_batchnorm")
check("C02 through quarry quantize", run("quantize", os.path.join(case, "model.onnx"), "-c", os.path.join(case, "calibration_0.npy"), "-o", quantized), 0, "SQNR")
for backend, options in backends.items():
    check(f"C02 quantised, on {backend}", run("run", quantized, "--zeros", "--backend", backend, *options, env=here), 0)

# A mask of minus infinity among the constants: 4.4 dB once, as it became zeros.
case, report = os.path.join(cases, "F14_quantize_inf_mask"), os.path.join(folder, "report.json")
sample = npy(os.path.join(folder, "sample", "x.npy"), [1, 5, 8], [((i * 37) % 41 - 20) / 16 for i in range(40)])
check("F14 through quarry quantize", run("quantize", os.path.join(case, "model.onnx"), "-c", sample, "-o", quantized, "--report", report), 0, "SQNR")
with open(report, encoding="utf-8") as file:
    lost = json.load(file)["outputs"][0]
require("F14: what is lost", lost["sqnr"] > 25, lost)

shutil.rmtree(folder)
finish()
