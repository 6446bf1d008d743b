#!/usr/bin/env python3
"""What `quarry export` writes: ONNX's checker takes it, and ONNX Runtime computes with it what it computes with the model itself.

check_export.py PROGRAM WORK FLOOR DIR...     (FLOOR: how many give the same bits; with a Python that has onnx, onnxruntime and numpy; DIR: cases in the layout of ONNX's tests)
Models that Quarry or ONNX Runtime refuse are counted and left out: what is checked is the export.
"""
import glob
import os
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support")]
import op_table
from ort_session import make_session

program, work, floor, *folders = sys.argv[1:]
os.makedirs(work, exist_ok=True)
counts = {"with external data": 0, "equal": 0, "close": 0, "random": 0, "quarry refuses": 0, "export refuses": 0, "ONNX Runtime refuses the model": 0, "ONNX Runtime refuses the export": 0}
failures = []
RANDOM = {row.name for row in op_table.rows().values() if row.family == "random"}


def tensor_of(path, kind):
    with open(path, "rb") as file:
        data = file.read()
    if kind.HasField("tensor_type"):
        tensor = onnx.TensorProto()
        tensor.ParseFromString(data)
        return numpy_helper.to_array(tensor)
    return None


def differ(mine, theirs, quantised):
    """None: equal or close enough; else what differs."""
    for name, a, b in zip("0123456789", mine, theirs):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"output {name}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}"
        if a.dtype.kind in "OSU" or a.size == 0:
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        room = float(np.nanmax(np.abs(np.where(np.isfinite(y), y, 0)))) * (0.05 if quantised else 1e-5)
        # Quantised: ONNX Runtime rounds a sum of integers once where the plain formula rounds reals.
        if quantised and a.dtype.kind in "iu":
            room = max(room, 1.0)
        if not np.allclose(x, y, rtol=1e-3, atol=max(1e-6, room), equal_nan=True):
            return f"output {name}: differs by {np.nanmax(np.abs(x - y)):.3g}"
    return None


def external_data(path, plain, shape, inputs, expected, optimised):
    """The same model with its constants in a file beside it; None: ONNX Runtime gives the same bits."""
    out = plain[:-len(".onnx")] + ".external.onnx"
    made = subprocess.run([program, "export", path, "-o", out, "--external-data", "--backend", "cpu-reference", *(["--shape", shape] if shape else [])],
                          capture_output=True, text=True)
    if made.returncode != 0:
        return made.stderr.strip()
    counts["with external data"] += 1
    try:
        onnx.checker.check_model(out, full_check=True)
        for tensor in onnx.load(out, load_external_data=False).graph.initializer:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if entries and int(entries["offset"]) % (65536 if int(entries["length"]) >= 1 << 20 else 64) != 0:
                return f"{tensor.name} lies at {entries['offset']}"
        session = make_session(out, optimised)
        wanted = {i.name for i in session.get_inputs()}
        found = session.run(None, {k: v for k, v in inputs.items() if k in wanted})
    except Exception as error:
        return str(error).strip().splitlines()[0]
    whole = onnx.load(out)  # reads the file beside it
    kept = {tensor.name: numpy_helper.to_array(tensor) for tensor in onnx.load(plain).graph.initializer}
    if any(not np.array_equal(kept[tensor.name], numpy_helper.to_array(tensor), equal_nan=kept[tensor.name].dtype.kind == "f") for tensor in whole.graph.initializer):
        return "other constants"
    return None if all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in zip(found, expected)) else "other results"


def judge(folder):
    path = os.path.join(folder, "model.onnx")
    if not os.path.exists(path):
        return
    model = onnx.load(path)
    sets = sorted(glob.glob(os.path.join(folder, "test_data_set_*")))
    if not sets:
        return
    shaped = [i for i in model.graph.input if i.name not in {c.name for c in model.graph.initializer}]
    inputs = {}
    for i, declared in enumerate(shaped):
        file = os.path.join(sets[0], f"input_{i}.pb")
        inputs[declared.name] = tensor_of(file, declared.type) if os.path.exists(file) else None
    if any(value is None for value in inputs.values()):
        counts["quarry refuses"] += 1  # sequences, optionals
        return
    shape = ",".join(f"{name}={'x'.join(map(str, value.shape))}" for name, value in inputs.items()
                     if any(not dim.HasField("dim_value") for d in shaped if d.name == name for dim in d.type.tensor_type.shape.dim)
                     or any(not d.type.tensor_type.HasField("shape") for d in shaped if d.name == name))
    out = os.path.join(work, os.path.basename(folder) + ".onnx")
    made = subprocess.run([program, "export", path, "-o", out, "--backend", "cpu-reference", *(["--shape", shape] if shape else [])],
                          capture_output=True, text=True)
    if made.returncode != 0:
        why = "export refuses" if "ONNX has no form" in made.stderr or "have no form in ONNX" in made.stderr else "quarry refuses"
        counts[why] += 1
        return
    written = onnx.load(out)
    try:
        onnx.checker.check_model(written, full_check=True)
    except Exception as error:  # of several kinds
        failures.append(f"{folder}: the checker: {str(error).strip().splitlines()[0]}")
        return
    # Both are to compute what they say; of operators that multiply integers ONNX Runtime has exact sums on every processor in what it optimises alone.
    optimised = any(node.op_type.startswith("QLinear") for node in model.graph.node)
    quantised = any("Quantize" in node.op_type or node.op_type.startswith("QLinear") for node in model.graph.node)
    try:
        original = make_session(path, optimised)
        theirs = original.run(None, {k: v for k, v in inputs.items()})
    except Exception:
        counts["ONNX Runtime refuses the model"] += 1
        return
    try:
        session = make_session(out, optimised)
        wanted = {i.name for i in session.get_inputs()}
        mine = session.run(None, {k: v for k, v in inputs.items() if k in wanted})
    except Exception as error:
        opset = written.opset_import[0].version
        text = str(error).strip().splitlines()[0]
        if "NOT_IMPLEMENTED" in text or "under development" in text:
            counts["ONNX Runtime refuses the export"] += 1
            print(f"refused {os.path.basename(folder)} (opset {opset}): {text[:200]}")
        else:
            failures.append(f"{folder} (opset {opset}): ONNX Runtime: {text[:300]}")
        return
    if os.path.getsize(out) > 100_000:
        wrong = external_data(path, out, shape, inputs, mine, optimised)
        if wrong:
            failures.append(f"{folder}: with external data: {wrong}")
    if RANDOM & {node.op_type for node in written.graph.node}:
        counts["random"] += 1
        return
    wrong = differ(mine, theirs, quantised)
    if wrong:
        failures.append(f"{folder}: {wrong}")
    else:
        counts["equal" if all(np.array_equal(a, b, equal_nan=np.asarray(a).dtype.kind == "f") for a, b in zip(mine, theirs)) else "close"] += 1


for root in folders:
    for folder in sorted(os.listdir(root)):
        judge(os.path.join(root, folder))
for failure in failures:
    print("FAILED", failure)
print(", ".join(f"{count} {what}" for what, count in counts.items()), f"; {len(failures)} failed")
if counts["equal"] < int(floor):
    sys.exit(f"FAILED: {counts['equal']} give the same bits, expected at least {floor}")
sys.exit(1 if failures else 0)
