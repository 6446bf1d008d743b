#!/usr/bin/env python3
"""The one-operator models of tools/bench/operator_cases.py that the peer was measured with, on the emulator: as they are, and quantised to u8 and u16 by ONNX Runtime's tool.

check_htp_ops.py BUILD SHARED LIBRARIES [--only NAME ...] [--kinds f32 u8 u16] [--models FOLDER] [--json FILE] [--table FILE] [--all]

And the QDQ models of htp_quantized_cases.py, which other exporters would write.

Each result is held against the CPU's (ONNX Runtime on the same model) and against what the peer reaches (SHARED/peers/ort_qnn_ep_ops.json: placed
wholly on HTP, distance from the CPU). A model that the peer places must be placed and be no further off, but for the rows of EXPECTED, which say why.
The models need numpy, onnx and onnxruntime: of this Python, of $QUARRY_ORT_PYTHON, or of a venv in BUILD, which --all makes; else this is skipped.
Without --all a tenth of the models runs. FOLDER keeps models and the CPU's results from run to run.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

for folder in (("..", "support"), ("..", "..", "tools", "bench")):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *folder))

PACKAGES = ("numpy", "onnx", "onnxruntime", "sympy")
KINDS = ("f32", "u8", "u16")
CONVERSIONS = {"QuantizeLinear", "DequantizeLinear"}  # which the peer leaves at the borders
# How far a result may be from the CPU's (whose last bits are those of a processor, and the peer's were measured on another) although the peer's is nearer: f16 has 11 bits. A quantised one within a step is right.
SLACK = {"f32": 0.0005, "u8": 0.0005, "u16": 0.0001}
# Why a result is further than 1 % of its range (and more than a step) from the CPU's, or why there is none.
NEAR = "f16 rounds the inputs: numbers that differ by less than 2^-11 of their size are one"
REASONS = {
    "Floor": NEAR + ", and 0.9998 is 1",
    "Round": NEAR + ", and 0.49998 is 0.5",
    "Greater": NEAR,
    "ArgMax_last": NEAR,
    "ArgMax_channel": NEAR,
    "TopK": NEAR,
    "GlobalMaxPool": NEAR + "; the outputs lie within 0.2 % of each other",
    "ReduceMax_last": NEAR + "; the outputs lie within 1 % of each other",
    "GlobalAveragePool": NEAR + "; the outputs lie within 5 % of each other",
    "ReduceMean_hw": NEAR + "; the outputs lie within 5 % of each other",
    "ReduceLogSumExp_last": NEAR + "; the outputs lie within 1 % of each other",
    "Reciprocal": "1 / 0 is 65504 on the device, and so is every larger result",
    "Div": "a quotient by 0, or by less than 2^-14, has no exponent in f16",
    "Log": "log(0) is finite on the device",
    "MatMul_batched": "u8: two steps, the library's product of two values",
    "GridSample": NEAR + ", coordinates among them",
    "LSTM": "50 steps in f16",
    "LSTM_step": "a step in f16",
    "LSTM_bi": "50 steps in f16",
    "RNN": "50 steps in f16",
    "NonMaxSuppression": "how many boxes there are is known only at run time",
    "NonZero": "how many there are is known only at run time",
    "MatMul_f16": "the tool writes scales of f16",
}
HERE = os.path.dirname(os.path.abspath(__file__))


def python_with_packages(build, may_install):
    """The Python to run in, or why there is none."""
    def has(python):
        return subprocess.run([python, "-c", "import " + ", ".join(PACKAGES) + ", onnxruntime.quantization"], capture_output=True).returncode == 0
    venv = os.path.join(build, "venv")  # tools/test.sh makes it too
    for python in (sys.executable, os.environ.get("QUARRY_ORT_PYTHON"), os.path.join(venv, "bin", "python3")):
        if python and os.path.exists(python) and has(python):
            return python, ""
    if not may_install:
        return None, "no Python here has " + ", ".join(PACKAGES) + " (QUARRY_ORT_PYTHON may name one; --all makes a venv)"
    made = subprocess.run([sys.executable, "-m", "venv", venv], capture_output=True, text=True)
    if made.returncode:
        return None, "no venv can be made: " + (made.stderr or made.stdout).strip().splitlines()[-1]
    python = os.path.join(venv, "bin", "python3")
    got = subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *PACKAGES], capture_output=True, text=True)
    if got.returncode or not has(python):
        return None, "pip cannot install " + ", ".join(PACKAGES) + ": " + (got.stderr.strip().splitlines() or ["no reason given"])[-1]
    return python, ""


# ---- the models, with inputs and the CPU's results
def types():
    import numpy as np
    return {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8,
            "tensor(bool)": np.bool_}


def random_inputs(session, seed_or_generator):
    import numpy as np
    r = np.random.default_rng(seed_or_generator) if isinstance(seed_or_generator, int) else seed_or_generator
    return {i.name: (r.random(i.shape) * (1 if "float" in i.type else 4)).astype(types()[i.type]) for i in session.get_inputs()}


def quantise(source, target, kind):
    """As SHARED/peers/ort_qnn_ep_ops.py does it; a reason where the tool cannot."""
    import numpy as np
    import onnx
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config
    from ort_session import make_session
    session = make_session(source)
    r = np.random.default_rng(5)

    class Data(CalibrationDataReader):
        n = 0

        def get_next(self):
            self.n += 1
            return None if self.n > 4 else random_inputs(session, r)
    try:
        quantize(source, target, get_qnn_qdq_config(source, Data(), activation_type=QuantType.QUInt16 if kind == "u16" else QuantType.QUInt8, weight_type=QuantType.QUInt8))
    except Exception as e:  # the tool's own limits, of any kind
        return f"{type(e).__name__}: {e}"[:160]
    if not any(n.op_type == "DequantizeLinear" for n in onnx.load(target).graph.node):
        os.remove(target)
        return "the tool leaves it in float"
    return ""


def make(folder, names, kinds):
    """Writes NAME.KIND.onnx and NAME.KIND/ (inputs, the CPU's results, or why.txt) of what is not there yet."""
    import logging
    import numpy as np
    import onnx
    import onnxruntime as o
    from ort_session import make_session
    logging.disable(logging.WARNING)
    o.set_default_logger_severity(4)
    cases = load_cases()
    for name in names:
        plain = os.path.join(folder, name + ".f32.onnx")
        if not os.path.exists(plain):
            onnx.save(cases[name].model, plain)
        for kind in kinds:
            path, data = os.path.join(folder, f"{name}.{kind}.onnx"), os.path.join(folder, f"{name}.{kind}")
            if os.path.exists(data):
                continue
            with tempfile.TemporaryDirectory(dir=folder) as work:
                why = quantise(plain, path, kind) if kind != "f32" else ""
                if not why:
                    try:
                        session = make_session(path)
                        inputs = random_inputs(session, 3)
                        for key, value in inputs.items():
                            np.save(os.path.join(work, f"in.{key}.npy"), value)
                        for output, value in zip(session.get_outputs(), session.run(None, inputs)):
                            np.save(os.path.join(work, f"out.{output.name}.npy"), value)
                    except Exception as e:
                        why = f"ONNX Runtime's CPU: {e}"[:160]
                if why:
                    with open(os.path.join(work, "why.txt"), "w") as out:
                        out.write(why)
                shutil.copytree(work, data)


def load_cases():
    from operator_cases import CASES
    return CASES


def scales_of(path):
    """The step of each output that a DequantizeLinear makes."""
    import onnx
    from onnx import numpy_helper
    graph = onnx.load(path).graph
    constants = {i.name: i for i in graph.initializer}
    return {n.output[0]: float(numpy_helper.to_array(constants[n.input[1]]).max()) for n in graph.node if n.op_type == "DequantizeLinear" and n.input[1] in constants}


# ---- ours
def run_one(program, environment, folder, name, kind, options):
    import numpy as np
    data = os.path.join(folder, f"{name}.{kind}")
    why = os.path.join(data, "why.txt")
    if os.path.exists(why):
        with open(why) as text:
            return {"not_quantised": text.read()}
    inputs = [a for f in sorted(os.listdir(data)) if f.startswith("in.") for a in ("-i", f"{f[3:-4]}={os.path.join(data, f)}")]
    with tempfile.TemporaryDirectory() as got:
        try:
            result = subprocess.run([program, "run", os.path.join(folder, f"{name}.{kind}.onnx"), "--backend", "htp", *options, *inputs, "-o", got], env=environment,
                                    capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return {"failure": "300 s"}
        if result.returncode:
            return {"failure" if result.returncode != 3 else "refused": result.stderr.strip()[:1500] or f"exit {result.returncode}"}
        error, steps, scales = 0.0, 0.0, scales_of(os.path.join(folder, f"{name}.{kind}.onnx"))
        for file in sorted(os.listdir(data)):
            if not file.startswith("out."):
                continue
            want, have = (np.atleast_1d(np.load(path).astype(np.float64)) for path in (os.path.join(data, file), os.path.join(got, file[4:])))
            if have.shape != want.shape:
                return {"failure": f"{file}: shape {have.shape}, expected {want.shape}"}
            if want.size:
                with np.errstate(invalid="ignore"):
                    difference = np.abs(have - want)
                difference[have == want] = 0  # among them equal infinities
                if np.isnan(difference).all() or (np.isnan(have) & ~np.isnan(want)).any():
                    return {"failure": f"{file}: not numbers"}
                spread = float(want.max() - want.min())
                error = max(error, float(np.nanmax(difference)) / (spread if spread > 0 and np.isfinite(spread) else 1.0))
                steps = max(steps, float(np.nanmax(difference)) / scales[file[4:-4]] if file[4:-4] in scales else float("inf"))
        return {"error_of_range": error, "steps": steps if steps < 1e9 else None}


def run_own_cases(program, environment, socs):
    """htp_quantized_cases.py against the CPU, each node by itself there."""
    import numpy as np
    import onnx
    import onnxruntime as o
    from ort_session import make_session
    from htp_quantized_cases import CASES
    o.set_default_logger_severity(4)
    bad = count = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, tolerance, supported) in CASES.items():
            path = os.path.join(folder, name + ".onnx")
            onnx.save(model, path)
            session = make_session(path, optimised=False)
            r = np.random.default_rng(3)
            inputs = {i.name: ((r.random(i.shape) * 2 - 1) if "_s8" in name or "_s16" in name else r.random(i.shape)).astype(np.float32) for i in session.get_inputs()}
            want = session.run(None, inputs)[0]
            step = scales_of(path).get("y", 0.001)
            files = []
            for key, value in inputs.items():
                np.save(os.path.join(folder, key + ".npy"), value)
                files += ["-i", f"{key}={os.path.join(folder, key + '.npy')}"]
            for soc in socs:
                if soc not in supported:
                    continue
                count += 1
                result = subprocess.run([program, "run", path, "--backend", "htp", "-O", "soc_model=" + soc, *files, "-o", folder], env=environment, capture_output=True,
                                        text=True, timeout=300)
                if result.returncode:
                    bad += 1
                    print(f"   FAILED {name} for {soc}: exit {result.returncode}: {result.stderr.strip()[-400:]!r}")
                    continue
                steps = float(np.abs(np.load(os.path.join(folder, "y.npy")) - want).max()) / step
                if not steps <= tolerance + 0.01:
                    bad += 1
                    print(f"   FAILED {name} for {soc}: {steps:.2f} steps off, expected at most {tolerance}")
    print(f"   QDQ models of other exporters: {count - bad} right, {bad} not")
    return bad


def placed_by_peer(row):
    return bool(row.get("htp_nodes")) and set(row["cpu_nodes"]) <= CONVERSIONS


def is_far(ours):
    return ours.get("error_of_range", 0) > 0.01 and (ours.get("steps") is None or ours["steps"] > 1.01)


def judge(kind, ours, peer):
    """(verdict, is it as wanted)."""
    if "not_quantised" in ours:
        return "no model", True
    if "failure" in ours:
        return "FAILED", False
    theirs = peer.get("error_of_range") if placed_by_peer(peer) else None
    if "refused" in ours:
        return ("refused, the peer places it" if placed_by_peer(peer) else "refused", not placed_by_peer(peer))
    right = ours["steps"] is not None and ours["steps"] <= 1.01  # what a quantised result can be
    if theirs is None:
        return "placed, the peer does not", right or ours["error_of_range"] <= 0.05
    if right or ours["error_of_range"] <= max(theirs * 1.0001, SLACK[kind]):
        return "placed", True
    return "further off than the peer", False


def write_table(path, names, kinds, rows, peers, soc):
    def cell(row, placed=True):
        if "not_quantised" in row:
            return "-"
        if "error_of_range" not in row or row["error_of_range"] is None or not placed:
            return "refused"
        error = row["error_of_range"]
        return "0" if error == 0 else f"{error:.2g}"
    with open(path, "w") as out:
        out.write(f"""# One-operator models on htp

Written by `tests/integration/check_htp_ops.py --all --table`, on the emulator for {soc}: {len(names)} models of one operator at the sizes of real networks, as they are and
quantised by ONNX Runtime's tool to u8 and u16 activations with u8 weights. Each cell: how far the worst element is from ONNX Runtime's CPU result, as a part of
the result's range; ours, then ONNX Runtime's QNN provider on the same library ("refused": some node is not on the NPU; "-": the tool does not quantise it).

| model | {" | ".join(kinds)} |
|---|{"---|" * len(kinds)}
""")
        for name in names:
            cells = [f"{cell(rows[name][k])} / {cell(peers[name].get(k, {}), placed_by_peer(peers[name].get(k, {})))}" for k in kinds]
            out.write(f"| {name} | " + " | ".join("-" if c.startswith("- ") else c for c in cells) + " |\n")
        out.write("\nWhere ours is further off than 1 % of the range and a step, or refused:\n\n| model | why |\n|---|---|\n")
        for name in names:
            if any(is_far(rows[name][k]) or "refused" in rows[name][k] for k in kinds):
                out.write(f"| {name} | {REASONS.get(name, '?')} |\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("shared")
    parser.add_argument("libraries")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--models")
    parser.add_argument("--json")
    parser.add_argument("--table")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--soc", default="SM8650")
    parser.add_argument("-O", action="append", default=[], dest="options")
    o = parser.parse_args()
    python, why = python_with_packages(os.path.abspath(o.build), o.all)
    if not python:
        print("   skipped: one-operator models on htp: " + why)
        return 0
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        return subprocess.run([python, *sys.argv]).returncode
    build = os.path.abspath(o.build)
    environment = {**os.environ, "QUARRY_BACKEND_PATH": os.path.join(build, "backends", "htp"), "QUARRY_QNN_PATH": o.libraries}
    with open(os.path.join(o.shared, "peers", "ort_qnn_ep_ops.json")) as file:
        peers = json.load(file)
    names = [n for n in peers if not o.only or n in o.only]
    if not o.all and not o.only:
        names = names[::10]
    folder = o.models or tempfile.mkdtemp(prefix="quarry-ops-")
    os.makedirs(folder, exist_ok=True)
    make(folder, names, o.kinds)
    options = [a for text in ["soc_model=" + o.soc, *o.options] for a in ("-O", text)]
    rows = {name: {} for name in names}
    with concurrent.futures.ThreadPoolExecutor(o.jobs) as pool:
        jobs = {pool.submit(run_one, os.path.join(build, "tools", "quarry"), environment, folder, name, kind, options): (name, kind) for name in names for kind in o.kinds}
        for job in concurrent.futures.as_completed(jobs):
            name, kind = jobs[job]
            rows[name][kind] = job.result()
            if o.json:
                with open(o.json, "w") as out:
                    json.dump(rows, out, indent=1)
    bad = 0
    for kind in o.kinds:
        counts = {}
        for name in names:
            ours, peer = rows[name][kind], peers[name].get(kind, {})
            verdict, fine = judge(kind, ours, peer)
            if (is_far(ours) or "refused" in ours) and name not in REASONS:
                verdict, fine = verdict + ", and nobody says why", False
            counts[verdict] = counts.get(verdict, 0) + 1
            if not fine:
                bad += 1
                told = ours.get("error_of_range", ours.get("refused", ours.get("failure", "")))
                print(f"   FAILED {name} {kind}: {verdict}: {told if isinstance(told, float) else str(told)[:300]!r}; the peer {peer.get('error_of_range')}")
        print(f"   {kind}: " + ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items(), key=lambda c: -c[1])))
    if o.table:
        write_table(o.table, names, o.kinds, rows, peers, o.soc)
    if not o.only:
        bad += run_own_cases(os.path.join(build, "tools", "quarry"), environment, ("SM8350", "SM8650", "SM8850") if o.all else (o.soc,))
    if not o.models:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if bad else 0


sys.exit(main())
