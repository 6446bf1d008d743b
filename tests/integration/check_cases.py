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
from onnx_file import initializer, number, onnx_file, onnx_node, text  # noqa: E402
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

# An index that names no element is an error of the run, on gpu too, where it was the edge's element or nothing.
x, y = npy(os.path.join(folder, "indexed", "x.npy"), [4], [1, 2, 3, 4]), os.path.join(folder, "indexed", "y")
take = lambda op, **more: [onnx_node(op, ["x", "i"], ["y"], **more)]
forms = {"Gather": ([2], take("Gather")), "GatherElements": ([2], take("GatherElements")), "GatherND": ([2, 1], take("GatherND")),
         "ScatterElements": ([2], [onnx_node("ScatterElements", ["x", "i", "f"], ["y"])]),
         "ScatterElements that adds": ([2], [onnx_node("Cast", ["i"], ["u"], number("to", 1)), onnx_node("ScatterElements", ["x", "i", "u"], ["y"], text("reduction", "add"))]),
         "ScatterElements of many": ([40], [onnx_node("Cast", ["i"], ["u"], number("to", 1)), onnx_node("ScatterElements", ["x", "i", "u"], ["y"])])}
for name, (dims, nodes) in forms.items():
    model, count = os.path.join(folder, "indexed", f"{name.replace(' ', '_')}.onnx"), dims[0]
    with open(model, "wb") as file:
        file.write(onnx_file([onnx_node("Cast", ["f"], ["i"], number("to", 7)), *nodes], [("x", 1, [4]), ("f", 1, dims)], [("y", 1, [4] if "Scatter" in name else [2])], opset=18))
    for backend, options in backends.items():
        for last, status in ((3, 0), (-4, 0), (4, 3), (-5, 3)):
            given = npy(os.path.join(folder, "indexed", "f.npy"), dims, [1] * (count - 1) + [last])
            done = run("run", model, "--input", f"x={x}", "--input", f"f={given}", "-o", y, "--backend", backend, *options, env=here)
            check(f"{name} on {backend}, index {last}", done, status, *([] if status == 0 else [str(last)]))

# Reductions of no elements, and diagonals of Einsum.
none = npy(os.path.join(folder, "nothing", "x.npy"), [3, 0, 2], [])
for op, value in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -float("inf")), ("ReduceMin", float("inf")), ("ReduceL1", 0), ("ReduceL2", 0), ("ReduceSumSquare", 0),
                  ("ReduceLogSum", -float("inf")), ("ReduceLogSumExp", -float("inf"))):
    model = os.path.join(folder, "nothing", f"{op}.onnx")
    with open(model, "wb") as file:
        file.write(onnx_file([onnx_node(op, ["x", "a"], ["y"], number("keepdims", 0))], [("x", 1, [3, 0, 2])], [("y", 1, [3, 2])],
                             initializers=[initializer("a", 7, [1], (1).to_bytes(8, "little"))], opset=20))
    for backend, options in backends.items():
        check(f"{op} of nothing on {backend}", run("run", model, none, "-o", y, "--backend", backend, *options, env=here), 0)
        require(f"{op} of nothing on {backend}: its values", list(floats(os.path.join(y, "y.npy"))) == [value] * 6, list(floats(os.path.join(y, "y.npy"))))
square = npy(os.path.join(folder, "nothing", "square.npy"), [2, 3, 3], range(18))
for equation, dims, values in (("bii->bi", [2, 3], [0, 4, 8, 9, 13, 17]), ("bii->b", [2], [12, 39]), ("bii->ib", [3, 2], [0, 9, 4, 13, 8, 17])):
    model = os.path.join(folder, "nothing", "einsum.onnx")
    with open(model, "wb") as file:
        file.write(onnx_file([onnx_node("Einsum", ["x"], ["y"], text("equation", equation))], [("x", 1, [2, 3, 3])], [("y", 1, dims)]))
    for backend, options in backends.items():
        check(f"Einsum {equation} on {backend}", run("run", model, square, "-o", y, "--backend", backend, *options, env=here), 0)
        require(f"Einsum {equation} on {backend}: its values", list(floats(os.path.join(y, "y.npy"))) == values, list(floats(os.path.join(y, "y.npy"))))

# What stands between elementwise operators has its type's numbers, though no tensor of it is stored: gpu kept what a register holds.
def wrapped(value, bits, signed):
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


whole = [-400, -129, -128, -1, 0, 127, 128, 200, 255, 300, 32768, 65535, 70000]
small = [100, 120, 3, 7, 90]
chains = [(f"rounded to {name}", [onnx_node("Cast", ["x"], ["a"], number("to", to)), onnx_node("Cast", ["a"], ["y"], number("to", 1))], [1 + step, 1 + 3 * step], [1, 1 + 4 * step])
          for name, to, step in (("bf16", 16, 2**-8), ("f16", 10, 2**-11))]
for to, bits, signed in ((3, 8, True), (2, 8, False), (5, 16, True), (4, 16, False)):
    through = lambda *nodes: [onnx_node("Cast", ["x"], ["i"], number("to", 6)), onnx_node("Cast", ["i"], ["t"], number("to", to)), *nodes]
    last = lambda name: onnx_node("Cast", [name], ["y"], number("to", 1))
    name = f"{'' if signed else 'u'}int{bits}"
    chains.append((f"Cast to {name}", through(last("t")), whole, [wrapped(v, bits, signed) for v in whole]))
    for op, of in (("Add", lambda v: v + v), ("Mul", lambda v: v * v)):
        chains.append((f"{op} of {name}", through(onnx_node(op, ["t", "t"], ["u"]), last("u")), small, [wrapped(of(v), bits, signed) for v in small]))
    chains.append((f"BitwiseNot of {name}", through(onnx_node("BitwiseNot", ["t"], ["u"]), last("u")), small, [wrapped(~v, bits, signed) for v in small]))
for name, nodes, given, wanted in chains:
    model = os.path.join(folder, "chains", "chain.onnx")
    given = npy(os.path.join(folder, "chains", "x.npy"), [len(given)], given)
    with open(model, "wb") as file:
        file.write(onnx_file(nodes, [("x", 1, [len(wanted)])], [("y", 1, [len(wanted)])]))
    for backend, options in backends.items():
        check(f"{name} on {backend}", run("run", model, given, "-o", y, "--backend", backend, *options, env=here), 0)
        require(f"{name} on {backend}: its values", list(floats(os.path.join(y, "y.npy"))) == wanted, list(floats(os.path.join(y, "y.npy"))))

# A name with a '=' in it.
model = os.path.join(folder, "indexed", "equals.onnx")
with open(model, "wb") as file:
    file.write(onnx_file([onnx_node("Neg", ["a=b"], ["y"])], [("a", 1, [4]), ("a=b", 1, [4])], [("y", 1, [4])]))
check("a '=' in a name", run("run", model, "-i", f"a={x}", "-i", f"a=b={x}", "-o", y), 0)
require("a '=' in a name: its values", list(floats(os.path.join(y, "y.npy"))) == [-1, -2, -3, -4])
check("a '=' in a name that is none", run("run", model, "-i", f"c=b={x}"), 2, "has no input 'c'", "it has a, a=b")

# Conv, Relu, BatchNormalization: the quantizer's passes read what a node of one input does not have.
quantized = os.path.join(folder, "quantized.onnx")
case = os.path.join(cases, "C02_quantize_conv_relu_batchnorm")
sample = npy(os.path.join(folder, "c02", "x.npy"), [1, 3, 16, 16], [((i * 37) % 41 - 20) / 16 for i in range(768)])  # the case's own is one number all over
check("C02 through quarry quantize", run("quantize", os.path.join(case, "model.onnx"), "-c", sample, "-o", quantized), 0, "SQNR")
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
