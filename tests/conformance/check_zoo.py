#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs as exporters make them (SHARED/zoo), on a backend, beside what ONNX Runtime makes of them: which are right, which are refused, and why.

check_zoo.py QUARRY ZOO OUT [--backend B]... [--sizes] [--perturb N] [--markdown] [-O KEY=VALUE]...

ZOO has build.py, which makes weights and right results; they are made once, in OUT. --sizes: every graph with symbolic dimensions at three more sizes. --perturb:
glibc's malloc fills what it gives, so that what nobody wrote shows. What is wrong is printed and counts, and so does on cpu and cpu-reference what is refused. A venv
with onnx and onnxruntime runs it.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ort_session import make_session

# What a result may differ by, as a part of the range, where a graph's own arithmetic is not that of f32: ONNX Runtime's kernels for it round elsewhere.
NOISE = {"+f16": 0.004, "+dynq": 0.004}
# Its twenty best scores are one number in f32 (50.37689): which come first depends on the last bit of what they were computed in.
TIES = {"hf_rtdetrv2-t": 0.02}
WHOLE = ("cpu", "cpu-reference")
FAMILIES = {"codec": "audio codecs", "diff": "diffusion", "gnn": "graphs", "lm": "decoders", "op": "operators", "ops": "operators", "rnn": "recurrent", "s2s": "sequence to sequence",
            "speech": "speech", "ta": "speech", "whisper": "speech", "openai": "speech", "tts": "speech", "kokoro": "speech", "tab": "tables, series", "ts": "tables, series", "tcn": "tables, series",
            "timm": "image classifiers", "tv": "detectors", "yolo": "detectors", "hf": "segmentation, depth", "sam": "segmentation, depth", "txt": "text encoders", "cf": "control flow",
            "trocr": "text in images", "pp": "text in images", "easyocr": "text in images", "fft": "operators", "sr": "segmentation, depth", "pointnet2": "graphs"}


def read(path):
    tensor = onnx.TensorProto()
    with open(path, "rb") as file:
        tensor.ParseFromString(file.read())
    return tensor


def tensors(folder, prefix):
    return [read(os.path.join(folder, f"{prefix}_{i}.pb")) for i in range(len(glob.glob(os.path.join(folder, f"{prefix}_*.pb"))))]


def feed_of(folder, session):
    return {tensor.name or session.get_inputs()[i].name: numpy_helper.to_array(tensor) for i, tensor in enumerate(tensors(os.path.join(folder, "test_data_set_0"), "input"))}


def part_of_range(found, expected):
    """The greatest difference of reals as a part of the range; None: they are none, or not of one shape."""
    worst = 0.0
    for mine, other in zip(found, expected):
        if mine.shape != other.shape or mine.dtype.kind != "f":
            return None
        finite = other[np.isfinite(other)].astype(np.float64)
        reach = max(finite.max(initial=0), 0) - min(finite.min(initial=0), 0)
        if reach > 0:
            worst = max(worst, float(np.abs(mine.astype(np.float64) - other.astype(np.float64)).max(initial=0) / reach))
    return worst


def moved_by_optimiser(folder):
    """What ONNX Runtime's own optimiser moves the results of a graph by."""
    path = os.path.join(folder, "model.onnx")
    sessions = [make_session(path, optimised=optimised) for optimised in (False, True)]
    feed = feed_of(folder, sessions[0])
    return part_of_range(*(session.run(None, feed) for session in sessions)) or 0.0


def verdict(case, folder):
    """right, noise (of the graph's own arithmetic), refused, wrong."""
    if case["result"] != "failed" or "values differ" not in case.get("reason", ""):
        return {"passed": "right", "refused": "refused"}.get(case["result"], "wrong")
    said = re.search(r"\(([\d.e+-]+) of the range\)", case["reason"])
    worst, name = float(said.group(1)) if said else 1.0, case["name"].partition("@")[0]
    noise = TIES.get(name, 0.0) or max([part for ending, part in NOISE.items() if name.endswith(ending)], default=0.0)
    if worst <= noise or name.endswith("+qdq") and worst <= 1.05 * moved_by_optimiser(folder):
        return "noise"
    return "wrong"


def run(quarry, backend, options, cases, out, jobs, environment):
    report = os.path.join(out, f"{os.path.basename(cases)}.{backend}.json")
    # f16 is stored between the steps of a device; PoCL's compiler takes minutes for the largest graphs where others work too.
    own = ["-O", "gpu.tail=host", "--range-floor", "0.002", "--timeout", "1800"] if backend == "gpu" else []
    command = [quarry, "conform", "--backend", backend, "--json", report, *own, *jobs, *[word for option in options for word in ("-O", option)], cases]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, check=False)
    if not os.path.exists(report):
        sys.exit(f"check_zoo.py: {' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}")
    with open(report, encoding="utf-8") as file:
        return {case["name"]: (verdict(case, os.path.join(cases, case["name"])), case) for case in json.load(file)["cases"]}


def resized(array, shape):
    """The elements of an array, over again along axes that grow."""
    for axis, extent in enumerate(shape):
        array = np.take(array, np.arange(extent) % max(array.shape[axis], 1), axis=axis) if array.shape[axis] else np.zeros(array.shape[:axis] + (extent,) + array.shape[axis + 1:], array.dtype)
    return array


# What becomes of the sizes that a graph was exported with; those that ONNX Runtime takes count.
CHANGES = [lambda n: n + 1, lambda n: 2 * n, lambda n: n + 3, lambda n: max(n - 1, 1), lambda n: 3 * n, lambda n: n + 32, lambda n: n + 64, lambda n: max(n // 2, 1), lambda n: 4 * n]


def more_sizes(folder, out, count=3):
    """Writes the graph with inputs of other sizes, as folders beside each other; how many."""
    path = os.path.join(folder, "model.onnx")
    model = onnx.load(path)
    dims = {value.name: [d.dim_param for d in value.type.tensor_type.shape.dim] for value in model.graph.input}
    session = make_session(path, optimised=False)
    feed = feed_of(folder, session)
    symbols = {symbol: feed[name].shape[axis] for name, symbolic in dims.items() if name in feed for axis, symbol in enumerate(symbolic) if symbol}
    made = 0
    # All dimensions at once, then each by itself.
    trials = [dict.fromkeys(symbols, change) for change in CHANGES] + [{symbol: change} for change in CHANGES[:3] for symbol in symbols]
    for trial in trials if symbols else []:
        if made == count:
            break
        sizes = {symbol: trial[symbol](extent) if symbol in trial else extent for symbol, extent in symbols.items()}
        given = {name: resized(array, [sizes.get(symbol, array.shape[axis]) for axis, symbol in enumerate(dims[name])]) for name, array in feed.items()}
        try:
            results = session.run(None, given)
        except Exception:
            continue
        made += 1
        case = os.path.join(out, f"{os.path.basename(folder)}@{made}")
        data = os.path.join(case, "test_data_set_0")
        shutil.rmtree(case, ignore_errors=True)
        os.makedirs(data)
        os.link(path, os.path.join(case, "model.onnx"))
        for prefix, pairs in (("input", given.items()), ("output", zip([o.name for o in session.get_outputs()], results))):
            for i, (name, array) in enumerate(pairs):
                with open(os.path.join(data, f"{prefix}_{i}.pb"), "wb") as file:
                    file.write(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name).SerializeToString())
    return made


def family(name):
    return FAMILIES.get("yolo" if name.startswith("yolo") else name.split("_")[0].split("-")[0], "others")


def told(found, backend):
    """Prints what is not right; how much of it counts."""
    bad = 0
    for name, (what, case) in sorted(found.items()):
        if what in ("wrong", "refused"):
            counts = what == "wrong" or backend in WHOLE
            bad += counts
            print(f"{what} on {backend}: {name}: {case.get('reason', '')[:300]}")
    counts = collections.Counter(what for what, _ in found.values())
    print(f"{backend}: {counts['right']} right, {counts['noise']} within the noise of their own arithmetic, {counts['refused']} refused, {counts['wrong']} wrong")
    return bad


def table(by_backend):
    rows = collections.defaultdict(collections.Counter)
    for backend, found in by_backend.items():
        for name, (what, _) in found.items():
            rows[family(name)][backend] += what in ("right", "noise")
            rows[family(name)]["of"] += backend == next(iter(by_backend))
    print("| family | graphs | " + " | ".join(by_backend) + " |\n|---|---|" + "---|" * len(by_backend))
    for name, row in sorted(rows.items()):
        print(f"| {name} | {row['of']} | " + " | ".join(str(row[backend]) for backend in by_backend) + " |")
    print(f"| all | {sum(row['of'] for row in rows.values())} | " + " | ".join(str(sum(row[backend] for row in rows.values())) for backend in by_backend) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry")
    parser.add_argument("zoo")
    parser.add_argument("out")
    parser.add_argument("--backend", action="append")
    parser.add_argument("--sizes", action="store_true", help="graphs with symbolic dimensions at three more sizes, on the first backend")
    parser.add_argument("--perturb", type=int, metavar="N", help="fill what malloc gives and what is freed, by the byte N (1 to 255)")
    parser.add_argument("--markdown", action="store_true", help="print a table by family")
    parser.add_argument("-O", dest="options", action="append", default=[], help="an option of the runtime or the backend")
    parser.add_argument("--jobs", help="processes of `quarry conform`")
    given = parser.parse_args()
    backends = given.backend or list(WHOLE)
    graphs = os.path.join(given.out, "graphs")
    if not os.path.exists(os.path.join(given.out, "made")):
        subprocess.run([sys.executable, os.path.join(given.zoo, "build.py"), graphs], check=True, stdout=subprocess.DEVNULL)
        open(os.path.join(given.out, "made"), "w", encoding="utf-8").close()
    jobs = ["--jobs", given.jobs] if given.jobs else []
    # Small pieces that a thread keeps for itself (tcache) are not filled.
    filled = {"GLIBC_TUNABLES": f"glibc.malloc.tcache_count=0:glibc.malloc.perturb={given.perturb}"} if given.perturb else {}
    environment = {**os.environ, **filled}
    if filled:
        print(f"under malloc that fills: --perturb {given.perturb}")
    by_backend = {backend: run(given.quarry, backend, given.options, graphs, given.out, jobs, environment) for backend in backends}
    bad = sum(told(found, backend) for backend, found in by_backend.items())
    if given.sizes:
        sizes = os.path.join(given.out, "sizes")
        if not os.path.isdir(sizes):
            os.makedirs(sizes)
            made = collections.Counter(more_sizes(os.path.join(graphs, name), sizes) for name in sorted(os.listdir(graphs)))
            print(f"more sizes: {made[3]} graphs at three, {made[1] + made[2]} at one or two, {made[0]} at none: they have no symbolic dimension, or ONNX Runtime takes no other size")
        bad += told(run(given.quarry, backends[0], given.options, sizes, given.out, jobs, environment), backends[0])
    if given.markdown:
        table(by_backend)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
