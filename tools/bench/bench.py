#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures Quarry and ONNX Runtime on the same models in one run. Started by tools/bench.sh.

Every figure comes from short processes that alternate (ours, theirs, ours, theirs, ...), so that a machine whose speed drifts is as fast
for both. A round is one process of each; its ratio is that of their medians, and the ratio printed is the median over the rounds. Rounds go
on until the middle half of the ratios lies within 6 % or the most rounds are done. Ours is `quarry bench`, theirs tools/bench/bench_ort.c,
which does the same through ONNX Runtime's C API with inputs and outputs bound, all optimisations on, N threads within an operator and one
between operators.

  latency      median run, ours from .qrm, theirs from .onnx, 1 and 2 threads
  create       first session of a process: ours opening of the .qrm and session, plugin loaded; theirs without their process-wide
               environment (shown beside), from .onnx, from .ort, and from .ort with the bytes mapped and the initialisers used in place
  first run    the run after that, which takes the page faults
  memory       peak resident memory of a process that creates a session and runs it, the host program included; theirs from .onnx and
               from .ort in place, and the smaller counts
  overhead     a run of a one-operator model, and of 200 small operators one after the other, timed in groups
  throughput   two sessions at once with one thread each, one with two, and two with two; theirs with spinning and without, the better
               counts
  error        results of both for the same inputs (a model's own test data where it has any), the worst output's, as part of that output's
               range (optimised or as the graph says, whichever is nearer): a fast wrong answer is no result
"""

import argparse
import datetime
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.environ.get("QUARRY_SHARED", os.path.join(ROOT, "..", "shared"))
KINDS = {
    "f32": ["squeezenet11", "mobilenet_v2", "resnet18", "resnet50", "vit_b16", "bert_base_128"],
    "int8": ["squeezenet11_qdq", "mobilenet_v2_qdq", "resnet50_qdq"],
    "a16w8": ["mobilenet_v2_qdq_a16w8"],
}
KIND_NAMES = {"f32": "f32", "int8": "int8 (QDQ u8s8)", "a16w8": "A16W8", "real": "real models"}
SMALL = ["trivial_add", "trivial_chain200"]
TOGETHER = ["squeezenet11", "resnet50", "squeezenet11_qdq"]
MODES = {"2 x 1": (2, 1), "1 x 2": (1, 2), "2 x 2": (2, 2)}  # sessions, threads of each
# What the results are to be, ours / theirs, by what the processor has: geometric mean and the worst single one. None: no limit.
LIMITS = {
    "AMX": {"f32": (0.55, 0.75), "int8": (0.50, 0.65), "a16w8": (0.20, 0.20), "real": (None, 0.95)},
    "VNNI": {"f32": (0.70, 0.90), "int8": (0.60, 0.85), "a16w8": (0.20, 0.20), "real": (None, 0.95)},
    "AVX2": {"f32": (0.70, 0.90), "int8": (0.95, 1.05), "a16w8": (0.20, 0.20), "real": (None, 0.95)},
}
# Dot products of bytes make a processor one of VNNI's class, whoever made it.
CLASSES = {"AMX": "AMX", "AVX-512 VNNI": "VNNI", "AVX-VNNI": "VNNI", "dotprod": "VNNI"}
CREATE_RATIO, CREATE_MS = 0.1, 1.0
MEMORY = {"onnx": 0.6, "ort": 1.0}  # to their usual form, and to the one that takes least (in place)
OVERHEAD = {"trivial_add": 0.20, "trivial_chain200": 0.04}
# Above these the answer is wrong and no time of it counts. Quantised networks may differ by steps of their last tensors.
ERROR_LIMIT = {"f32": 1e-3, "int8": 0.15, "a16w8": 0.05, "real": 0.15}


def arguments():
    parser = argparse.ArgumentParser(
        prog="tools/bench.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--backend", default="cpu", help="our backend (default: cpu)")
    parser.add_argument(
        "--models", metavar="DIR", help="folder with the networks as NAME.onnx; one that is missing there is left out"
    )
    parser.add_argument(
        "--generator",
        metavar="FILE",
        default=os.path.join(SHARED, "bench", "gen_models.py"),
        help="Python program that makes them: FILE --out DIR NAME... (default: bench/gen_models.py of $QUARRY_SHARED)",
    )
    parser.add_argument("--real", action="store_true", help="the real models of $QUARRY_SHARED/models too")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="these models only")
    parser.add_argument("--quick", action="store_true", help="few short rounds, to try it out")
    parser.add_argument("--rounds", type=int, metavar="N", help="least number of rounds (default: 7; quick: 2)")
    parser.add_argument("--most", type=int, metavar="N", help="most rounds (default: 25; quick: 2)")
    parser.add_argument("--option", "-O", action="append", default=[], metavar="KEY=VALUE", help="option for our sessions")
    parser.add_argument(
        "--out",
        metavar="DIR",
        help="folder for the results (default: docs/performance, named after the processor, with a row in docs/performance.md; quick, "
        "--only, --option or another backend than cpu: the work folder)",
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 where a limit is missed")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--compare", help=argparse.SUPPRESS)
    return parser.parse_args()


def say(text):
    print(text, flush=True)


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


# ---- a model on both sides --------------------------------------------------------------------------------------------------


class Failed(Exception):
    pass


def run(command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or [f"exit status {done.returncode}"]
        raise Failed(next((line for line in lines if "error" in line), lines[-1])[:300])
    return done.stdout


class Bench:
    def __init__(self, args):
        import onnxruntime

        self.args = args
        self.work = os.path.abspath(args.work)
        os.makedirs(self.work, exist_ok=True)
        folder = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
        names = sorted(n for n in os.listdir(folder) if n.startswith("libonnxruntime.so"))
        if not names:
            sys.exit(f"{folder}: found no libonnxruntime.so, expected a Linux wheel of onnxruntime")
        self.library, self.ort_version = os.path.join(folder, names[-1]), onnxruntime.__version__
        self.ort_program = os.path.join(self.work, "bench-ort")
        source = os.path.join(ROOT, "tools", "bench", "bench_ort.c")
        if not os.path.exists(self.ort_program) or os.path.getmtime(self.ort_program) < os.path.getmtime(source):
            run([os.environ.get("CC", "cc"), "-O2", "-o", self.ort_program, source, "-ldl", "-lpthread"])
        self.quick = args.quick
        self.least = args.rounds or (2 if self.quick else 7)
        self.most = max(self.least, args.most or (2 if self.quick else 25))

    def ours(self, model, threads=1, **flags):
        command = [self.args.program, "bench", model, "--backend", self.args.backend, "--threads", str(threads), "--json", "-"]
        for option in self.args.option:
            command += ["--option", option]
        if model in self.shapes:
            command += ["--shape", self.shapes[model]]
        for name, file in self.files_of(model).items():
            command += ["--input", f"{name}={file}.npy"]
        for key, value in flags.items():
            command += ["--" + key, str(value)]
        return json.loads(run(command))

    def our_memory(self, model):
        """Peak memory in kB of a small C program, as theirs is; the `quarry` program brings libraries of its own."""
        host = os.path.join(os.path.dirname(os.path.abspath(self.args.program)), "bench-host")
        if not os.path.exists(host):
            return self.ours(model, iterations=1)["peak_rss_kb"]
        return json.loads(run([host, model, "backend=" + self.args.backend, "threads=1", *self.args.option]))["peak_rss_kb"]

    def theirs(self, model, threads=1, **flags):
        command = [self.ort_program, self.library, model, "--threads", str(threads)]
        shape = self.shapes.get(model) or self.shapes.get(self.made_from.get(model))
        if shape:
            command += ["--shape", shape]
        for name, file in self.files_of(model).items():
            command += ["--input", f"{name}={file}.raw"]
        for key, value in flags.items():
            command += ["--" + key.replace("_", "-"), str(value)]
        return json.loads(run(command) or "{}")

    shapes = {}  # of .onnx files with symbolic dimensions: what --shape of both takes
    made_from = {}  # .ort and .qrm: .onnx
    files = {}  # of .onnx files with test data: their first inputs by name, as files without their ending .npy or .raw

    def files_of(self, model):
        return self.files.get(model) or self.files.get(self.made_from.get(model)) or {}

    def find_models(self):
        """[(kind, name, path)], generated where they are not there yet."""
        wanted = [(kind, name) for kind, names in KINDS.items() for name in names] + [("small", name) for name in SMALL]
        if self.args.only:
            wanted = [
                (kind, name) for kind, name in wanted if name in self.args.only or kind == "small" and "small" in self.args.only
            ]
        folder = self.args.models or os.path.join(self.work, "models")
        missing = [name for _, name in wanted if not os.path.exists(os.path.join(folder, name + ".onnx"))]
        if missing and not self.args.models:
            if not os.path.exists(self.args.generator):
                sys.exit(f"{self.args.generator}: there is no generator of the networks; give --generator FILE or --models DIR")
            say(f"making {', '.join(missing)}")
            run([sys.executable, self.args.generator, "--out", folder, *missing])
            missing = []
        for name in missing:
            say(f"{name}: not in {folder}, left out")
        found = [(kind, name, os.path.join(folder, name + ".onnx")) for kind, name in wanted if name not in missing]
        if self.args.real:
            real = os.path.join(SHARED, "models")
            for name in sorted(os.listdir(real)):
                path = os.path.join(real, name, "model.onnx")
                if os.path.exists(path) and (not self.args.only or name in self.args.only):
                    self.bind_shapes(path)
                    self.write_inputs(name, path)
                    found.append(("real", name, path))
        return found

    def bind_shapes(self, path):
        """Symbolic dimensions: those of the model's first test data, else 1."""
        import onnx

        graph = onnx.load(path, load_external_data=False).graph
        constants = {i.name for i in graph.initializer}
        inputs = [value for value in graph.input if value.name not in constants]
        symbols = []
        for number, value in enumerate(inputs):
            dims = value.type.tensor_type.shape.dim
            if all(d.HasField("dim_value") for d in dims):
                continue
            given = [d.dim_value if d.HasField("dim_value") else 1 for d in dims]
            data = os.path.join(os.path.dirname(path), "test_data_set_0", f"input_{number}.pb")
            if os.path.exists(data):
                with open(data, "rb") as file:
                    given = list(onnx.TensorProto.FromString(file.read()).dims)
            symbols.append(value.name + "=" + "x".join(map(str, given)))
        if symbols:
            self.shapes[path] = ",".join(symbols)

    def write_inputs(self, name, path):
        """The model's first test inputs, as both sides read them: what a run takes may depend on its values."""
        import numpy

        self.files[path] = {}
        for number, (wanted, value) in enumerate(next(iter(test_inputs(path)), {}).items()):
            file = os.path.join(self.work, f"{name}.input{number}")
            numpy.save(file + ".npy", value)
            value.tofile(file + ".raw")
            self.files[path][wanted] = file

    def compile(self, name, path):
        """Our .qrm and their .ort, in the work folder."""
        qrm, ort = os.path.join(self.work, name + ".qrm"), os.path.join(self.work, name + ".ort")
        self.made_from[ort] = self.made_from[qrm] = path
        command = [self.args.program, "compile", path, "--backend", self.args.backend, "-o", qrm]
        if path in self.shapes:
            command += ["--shape", self.shapes[path]]
        run(command)
        if not os.path.exists(ort) or os.path.getmtime(ort) < os.path.getmtime(path):
            self.theirs(path, save_ort=ort)
        return qrm, ort

    def error(self, name, path, qrm):
        """Per output the largest difference between our results and theirs, as part of its range; in a process of its own."""
        command = [
            sys.executable,
            os.path.abspath(__file__),
            "--program",
            self.args.program,
            "--work",
            os.path.join(self.work, name + ".compare"),
            "--backend",
            self.args.backend,
            "--compare",
            path + "\n" + qrm + "\n" + self.shapes.get(path, ""),
        ]
        for option in self.args.option:
            command += ["--option", option]
        return json.loads(run(command))

    def pairs(self, first, second, ratio, rounds=None):
        """Alternates until the ratios are stable; [(ours, theirs)]."""
        done = []
        least, most = rounds or self.least, rounds or self.most
        while len(done) < most:
            done.append((first(), second()) if len(done) % 2 == 0 else tuple(reversed((second(), first()))))
            if len(done) >= least:
                ratios = sorted(ratio(*pair) for pair in done)
                middle = statistics.median(ratios)
                if ratios[len(ratios) * 3 // 4] - ratios[len(ratios) // 4] <= 0.06 * middle:
                    break
        return done


def test_inputs(path):
    """[{name: value}]: the inputs of a model's test_data_set_*; a name that a file has not is that of its number."""
    import onnx
    from onnx import numpy_helper

    folder, sets = os.path.dirname(path), []
    graph = onnx.load(path, load_external_data=False).graph
    constants = {i.name for i in graph.initializer}
    dims = {value.name: value.type.tensor_type.shape.dim for value in graph.input if value.name not in constants}
    names = list(dims)
    for entry in sorted(os.listdir(folder)):
        if not re.fullmatch(r"test_data_set_\d+", entry):
            continue
        values = {}
        for number, name in enumerate(names):
            file = os.path.join(folder, entry, f"input_{number}.pb")
            if os.path.exists(file):
                with open(file, "rb") as data:
                    tensor = onnx.TensorProto.FromString(data.read())
                wanted = tensor.name if tensor.name in names else name
                values[wanted] = numpy_helper.to_array(tensor)
                if all(d.HasField("dim_value") for d in dims[wanted]):  # one number may be stored as a list of one
                    values[wanted] = values[wanted].reshape([d.dim_value for d in dims[wanted]])
        if len(values) == len(names):
            sets.append(values)
    return sets


def made_up(session, bound, types):
    """Floats in [-1, 1), integers 0 or 1 (they may be indices)."""
    import numpy

    random, feeds = numpy.random.default_rng(7), {}
    for value in session.get_inputs():
        dtype = numpy.dtype(types[value.type[7:-1]])
        shape = bound.get(value.name) or [d if isinstance(d, int) else 1 for d in value.shape]
        if dtype.kind == "f":
            feeds[value.name] = random.uniform(-1, 1, shape).astype(dtype)
        else:
            feeds[value.name] = random.integers(0, 256 if dtype in (numpy.uint8, numpy.uint16) else 2, shape).astype(dtype)
    return feeds


def range_of(values):
    """Of one output over all runs: its spread, and of one number (or the same everywhere) its size."""
    spread = max(float(v.max()) for v in values) - min(float(v.min()) for v in values)
    return spread or max(float(abs(v).max()) for v in values) or 1e-12


def compare(args):
    """--compare ONNX\\nQRM\\nSHAPES: prints {output: error}. The inputs are the model's own test data where it has any, else made up."""
    import numpy
    import onnxruntime

    onnx_path, qrm, shapes = args.compare.split("\n")
    bound = {name: [int(extent) for extent in text.split("x")] for name, text in (item.split("=") for item in shapes.split(",") if item)}
    shutil.rmtree(args.work, ignore_errors=True)
    results = os.path.join(args.work, "results")
    os.makedirs(args.work)
    sessions = []
    # With and without their optimisations: their fused integer kernels differ by steps from what the graph says.
    for level in (onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL, onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.graph_optimization_level = level
        sessions.append(onnxruntime.InferenceSession(onnx_path, options, providers=["CPUExecutionProvider"]))
    session = sessions[0]
    types = {
        "float": "f4",
        "double": "f8",
        "float16": "f2",
        "int64": "i8",
        "int32": "i4",
        "int16": "i2",
        "int8": "i1",
        "uint8": "u1",
        "uint16": "u2",
        "uint32": "u4",
        "uint64": "u8",
        "bool": "?",
    }
    bound_shapes = {name: tuple(extents) for name, extents in bound.items()}
    runs = [feeds for feeds in test_inputs(onnx_path) if all(feeds[name].shape == shape for name, shape in bound_shapes.items())]
    runs = runs or [made_up(session, bound, types)]
    ours = {}  # per output, a list of a result per run
    for number, feeds in enumerate(runs):
        command = [args.program, "run", qrm, "--backend", args.backend, "--save", results, "--json"]
        for i, (name, data) in enumerate(feeds.items()):
            numpy.save(os.path.join(args.work, f"input{i}.npy"), data)
            command += ["--input", f"{name}={args.work}/input{i}.npy"]
        for option in args.option:
            command += ["--option", option]
        for given in json.loads(run(command))["runs"][0]["outputs"]:
            file = os.path.join(results, (given["name"].replace("/", "_") or "output") + ".npy")
            ours.setdefault(given["name"], []).append(numpy.load(file).astype("f8"))
    errors = []
    for session in sessions:
        names = [output.name for output in session.get_outputs()]
        theirs = zip(*(session.run(None, feeds) for feeds in runs))
        found = {}
        for name, expected in zip(names, theirs):
            expected = [e.astype("f8") for e in expected]
            finite = [e[numpy.isfinite(e)] for e in expected]
            found[name] = 0.0
            for given, e in zip(ours[name], expected):
                if given.shape != e.shape:
                    raise Failed(f"output {name} has shape {given.shape}, theirs {e.shape}")
                good = numpy.isfinite(e)
                if not numpy.array_equal(numpy.isfinite(given), good):
                    found[name] = math.inf
                elif good.any():
                    difference = float(numpy.abs(given[good] - e[good]).max())
                    found[name] = max(found[name], difference / range_of([f for f in finite if f.size]))
        errors.append(found)
    print(json.dumps(min(errors, key=lambda e: max(e.values(), default=0))))
    shutil.rmtree(args.work, ignore_errors=True)


# ---- measuring ---------------------------------------------------------------------------------------------------------------


def summary(pairs, key, unit_ratio=None):
    """Median and least of both sides, and the ratio."""
    ours, theirs = [p[0][key] for p in pairs], [p[1][key] for p in pairs]
    least = "min_ms" if key == "median_ms" else key
    return {
        "ours": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ours_min": min(p[0][least] for p in pairs),
        "theirs_min": min(p[1][least] for p in pairs),
        "rounds": len(pairs),
        "ratio": statistics.median((unit_ratio or (lambda a, b: a / b))(a, b) for a, b in zip(ours, theirs)),
    }


def measure_network(bench, kind, name, path):
    row = {"name": name, "kind": kind, "onnx_bytes": os.path.getsize(path)}
    try:
        qrm, ort = bench.compile(name, path)
        row["qrm_bytes"], row["ort_bytes"] = os.path.getsize(qrm), os.path.getsize(ort)
        row["errors"] = bench.error(name, path, qrm)
        row["error"] = max(row["errors"].values())
    except Failed as failure:
        row["failed"] = str(failure)
        say(f"  {name}: {failure}")
        return row
    if row["error"] > ERROR_LIMIT[kind]:
        worst = max(row["errors"], key=row["errors"].get)
        row["failed"] = f"wrong results: output {worst} differs by {row['error']:.2g} of its range"
        say(f"  {name}: {row['failed']}")
        return row

    by_median = lambda a, b: a["median_ms"] / b["median_ms"]
    probe = max(bench.ours(qrm, iterations=1, warmup=0)["median_ms"], bench.theirs(path, iterations=1, warmup=0)["median_ms"])
    duration = max(0.05, min(0.003 * probe, 1.0)) if bench.quick else max(0.4, min(0.01 * probe, 3.0))
    singles = None
    for threads in (1, 2):
        pairs = bench.pairs(
            lambda: bench.ours(qrm, threads, duration=duration), lambda: bench.theirs(path, threads, duration=duration), by_median
        )
        row[f"latency_{threads}"] = summary(pairs, "median_ms")
        singles = singles or pairs
        figure = row[f"latency_{threads}"]
        say(
            f"  {name}: {threads} thread{'s' * (threads > 1)}: {figure['ours']:.3f} ms, theirs {figure['theirs']:.3f} ms, "
            f"ratio {figure['ratio']:.3f} "
            f"({figure['rounds']} rounds)"
        )

    one = {"iterations": 1, "warmup": 0}
    rounds = 2 if bench.quick else 7
    from_qrm = bench.pairs(
        lambda: bench.ours(qrm, **one), lambda: bench.theirs(ort, form="ort-in-place", **one), by_median, rounds
    )
    from_onnx = bench.pairs(
        lambda: bench.ours(path, **one), lambda: bench.theirs(path, **one), by_median, 1 if bench.quick else 3
    )
    from_ort = [bench.theirs(ort, form="ort", **one) for _ in range(rounds)]
    row["create"] = summary(from_qrm, "create_ms")
    row["create_onnx"] = summary(from_onnx, "create_ms")
    row["create_ort"] = statistics.median(p["create_ms"] for p in from_ort)
    row["env_ms"] = statistics.median(p[1]["env_ms"] for p in from_qrm)
    fastest = min(row["create"]["theirs"], row["create_onnx"]["theirs"], row["create_ort"])
    row["create_ratio"] = row["create"]["ours"] / fastest
    row["first"] = summary(from_qrm, "first_ms")
    ours = statistics.median(bench.our_memory(qrm) for _ in range(3)) / 1e3
    theirs = {
        "onnx": statistics.median(p[1]["peak_rss_kb"] for p in singles) / 1e3,
        "ort": statistics.median(p[1]["peak_rss_kb"] for p in from_qrm) / 1e3,
    }
    row["memory"] = {"ours": ours, "theirs": theirs, "ratio": ours / min(theirs.values())}
    say(
        f"  {name}: create {row['create']['ours']:.2f} ms (theirs {fastest:.2f}), "
        f"first run {row['first']['ours']:.2f} ms ({row['first']['theirs']:.2f}), "
        f"memory {ours:.1f} MB ({min(theirs.values()):.1f}), error {row['error']:.1e}"
    )
    return row


def measure_small(bench, name, path):
    row = {"name": name}
    try:
        qrm, _ = bench.compile(name, path)
        row["error"] = max(bench.error(name, path, qrm).values())
    except Failed as failure:
        row["failed"] = str(failure)
        say(f"  {name}: {failure}")
        return row
    flags = {"group": 1000 if name == "trivial_add" else 50, "duration": 0.1 if bench.quick else 0.4, "warmup": 20}
    pairs = bench.pairs(
        lambda: bench.ours(qrm, **flags), lambda: bench.theirs(path, **flags), lambda a, b: a["median_ms"] / b["median_ms"]
    )
    row["run"] = summary(pairs, "median_ms")
    row["memory"] = {"ours": bench.our_memory(qrm) / 1e3, "theirs": statistics.median(p[1]["peak_rss_kb"] for p in pairs) / 1e3}
    row["create"] = summary(pairs, "create_ms")
    say(
        f"  {name}: {row['run']['ours'] * 1e3:.3f} us, theirs {row['run']['theirs'] * 1e3:.3f} us, ratio {row['run']['ratio']:.3f}"
    )
    return row


def measure_together(bench, name, path):
    row = {"name": name, "modes": {}}
    try:
        qrm, _ = bench.compile(name, path)
        for mode, (sessions, threads) in MODES.items():
            flags = {"sessions": sessions, "duration": 0.3 if bench.quick else 1.5}
            pairs = bench.pairs(
                lambda: bench.ours(qrm, threads, **flags),
                lambda: max((bench.theirs(path, threads, spin=spin, **flags) for spin in (1, 0)), key=lambda r: r["runs_per_s"]),
                lambda a, b: b["runs_per_s"] / a["runs_per_s"],
                2 if bench.quick else 5,
            )
            row["modes"][mode] = summary(pairs, "runs_per_s")
            say(f"  {name}: {mode}: {row['modes'][mode]['ours']:.1f} runs a second, theirs {row['modes'][mode]['theirs']:.1f}")
    except Failed as failure:
        row["failed"] = str(failure)
        say(f"  {name}: {failure}")
    return row


def limits_of(results):
    return LIMITS[CLASSES.get(results["isa"], "AVX2")]


def judge(results):
    """[(what, limit, found, met)]; a network that failed misses its limits."""
    verdicts = []
    rows = results["networks"]
    limits = limits_of(results)
    for kind, (mean, worst) in limits.items():
        of_kind = [r for r in rows if r["kind"] == kind]
        if not of_kind:
            continue
        good = [r for r in of_kind if "failed" not in r]
        for threads in (1, 2):
            ratios = {r["name"]: r[f"latency_{threads}"]["ratio"] for r in good}
            name = f"{KIND_NAMES[kind]} latency, {threads} thread{'s' * (threads > 1)}"
            if not ratios:
                verdicts.append((name, f"<= {mean or worst:.2f}", "no result", False))
                continue
            whole = len(good) == len(of_kind)
            found = geometric_mean(ratios.values())
            if mean:
                verdicts.append(
                    (
                        name + ": geometric mean",
                        f"<= {mean:.2f}",
                        f"{found:.3f}" + ("" if whole else f" (of {len(good)})"),
                        whole and found <= mean,
                    )
                )
            slowest = max(ratios, key=ratios.get)
            verdicts.append(
                (name + ": worst", f"<= {worst:.2f}", f"{ratios[slowest]:.3f} ({slowest})", whole and ratios[slowest] <= worst)
            )
    good = [r for r in rows if "failed" not in r]
    limited = [r for r in good if r["kind"] != "real"]
    if limited:
        slow = max(limited, key=lambda r: r["create_ratio"])
        verdicts.append(
            (
                "creation: worst ratio to their fastest form",
                f"<= {CREATE_RATIO:.2f}",
                f"{slow['create_ratio']:.3f} ({slow['name']})",
                slow["create_ratio"] <= CREATE_RATIO,
            )
        )
        slow = max(limited, key=lambda r: r["create"]["ours"])
        verdicts.append(
            (
                "creation: longest",
                f"< {CREATE_MS:g} ms",
                f"{slow['create']['ours']:.2f} ms ({slow['name']})",
                slow["create"]["ours"] < CREATE_MS,
            )
        )
    for form, limit in MEMORY.items():
        if good:
            ratios = {r["name"]: r["memory"]["ours"] / r["memory"]["theirs"][form] for r in good}
            large = max(ratios, key=ratios.get)
            found = f"{ratios[large]:.3f} ({large})"
            verdicts.append((f"memory: worst ratio to theirs from .{form}", f"<= {limit:.2f}", found, ratios[large] <= limit))
    for row in results["small"]:
        found = "no result" if "failed" in row else f"{row['run']['ratio']:.3f}"
        verdicts.append(
            (
                f"a run of {row['name']}",
                f"<= {OVERHEAD[row['name']]:.2f}",
                found,
                "failed" not in row and row["run"]["ratio"] <= OVERHEAD[row["name"]],
            )
        )
    return verdicts


# ---- writing -------------------------------------------------------------------------------------------------------------------


def table(head, rows):
    return (
        "\n".join(
            ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(map(str, row)) + " |" for row in rows]
        )
        + "\n"
    )


def markdown(results):
    out = [
        f"# Performance on {results['cpu']}, {results['isa']}\n",
        f"Measured {results['date']} with `{results['command']}` on {results['cpu']} with {results['isa']}, "
        f"{results['processors']} processors, "
        f"{results['system']}; load before it began {results['load']:.1f}. Quarry {results['quarry']} backend `{results['backend']}`, "
        f"ONNX Runtime {results['onnxruntime']} (CPU provider). "
        "Ratios are ours / theirs: less than 1 is better.\n",
        "## Limits\n",
        f"Of the class {CLASSES.get(results['isa'], 'AVX2')}.\n",
    ]
    out.append(table(["", "limit", "found", "met"], [(w, l, f, "yes" if m else "**no**") for w, l, f, m in results["verdicts"]]))
    rows = []
    for row in results["networks"]:
        if "failed" in row:
            rows.append((row["name"], KIND_NAMES[row["kind"]], row["failed"]) + ("",) * 7)
            continue
        cells = [row["name"], KIND_NAMES[row["kind"]]]
        for threads in (1, 2):
            f = row[f"latency_{threads}"]
            cells += [
                f"{f['ours']:.2f} ({f['ours_min']:.2f})",
                f"{f['theirs']:.2f} ({f['theirs_min']:.2f})",
                f"**{f['ratio']:.2f}**",
            ]
        rows.append(cells + [f"{row['error']:.0e}", f"{row['latency_1']['rounds']}, {row['latency_2']['rounds']}"])
    for kind in KIND_NAMES:
        some = [r for r in results["networks"] if r["kind"] == kind and "failed" not in r]
        if len(some) > 1:
            means = [geometric_mean([r[f"latency_{t}"]["ratio"] for r in some]) for t in (1, 2)]
            rows.append(
                (
                    f"*geometric mean of {len(some)}*",
                    KIND_NAMES[kind],
                    "",
                    "",
                    f"**{means[0]:.2f}**",
                    "",
                    "",
                    f"**{means[1]:.2f}**",
                    "",
                    "",
                )
            )
    out += [
        "## Latency\n",
        "Milliseconds: median, and in brackets the shortest run of all.\n",
        table(
            ["network", "", "ours, 1 thread", "theirs", "ratio", "ours, 2 threads", "theirs", "ratio", "error", "rounds"], rows
        ),
        f"![Ratios]({name_of(results)}.svg)\n",
    ]
    good = [r for r in results["networks"] if "failed" not in r]
    out += [
        "## Creation, first run, memory\n",
        "Milliseconds and MB. Theirs from .ort is with the file mapped and its initialisers used in place; their process-wide environment "
        "comes on top and is not counted. The ratio of creation is to their fastest form, that of memory to their smaller one.\n",
        table(
            [
                "network",
                "create from .qrm",
                "theirs, .ort in place",
                ".ort",
                ".onnx",
                "ratio",
                "ours from .onnx",
                "first run",
                "theirs",
                "memory",
                "theirs, .onnx",
                ".ort in place",
                "ratio",
            ],
            [
                (
                    r["name"],
                    f"{r['create']['ours']:.2f}",
                    f"{r['create']['theirs']:.1f}",
                    f"{r['create_ort']:.1f}",
                    f"{r['create_onnx']['theirs']:.1f}",
                    f"**{r['create_ratio']:.3f}**",
                    f"{r['create_onnx']['ours']:.0f}",
                    f"{r['first']['ours']:.1f}",
                    f"{r['first']['theirs']:.1f}",
                    f"{r['memory']['ours']:.1f}",
                    f"{r['memory']['theirs']['onnx']:.1f}",
                    f"{r['memory']['theirs']['ort']:.1f}",
                    f"**{r['memory']['ratio']:.2f}**",
                )
                for r in good
            ],
        ),
    ]
    if good:
        out.append(f"Their environment: {statistics.median(r['env_ms'] for r in good):.0f} ms, once a process.\n")
    if results["small"]:
        out += [
            "## Overhead\n",
            table(
                ["model", "ours, us a run", "theirs", "ratio", "memory, MB", "theirs"],
                [
                    (
                        (r["name"], r["failed"], "", "", "", "")
                        if "failed" in r
                        else (
                            r["name"],
                            f"{r['run']['ours'] * 1e3:.2f}",
                            f"{r['run']['theirs'] * 1e3:.2f}",
                            f"**{r['run']['ratio']:.2f}**",
                            f"{r['memory']['ours']:.1f}",
                            f"{r['memory']['theirs']:.1f}",
                        )
                    )
                    for r in results["small"]
                ],
            ),
        ]
    if results["together"]:
        out += [
            "## Several sessions\n",
            "Runs a second, sessions x threads of each; theirs is the better of spinning and not spinning.\n",
            table(
                ["network"] + [cell for mode in MODES for cell in (mode, "theirs")],
                [
                    [r["name"]]
                    + (
                        [r["failed"]] + [""] * (2 * len(MODES) - 1)
                        if "failed" in r
                        else [f"{r['modes'][m][side]:.1f}" for m in MODES for side in ("ours", "theirs")]
                    )
                    for r in results["together"]
                ],
            ),
        ]
    return "\n".join(out)


def svg(results):
    """Bars: the ratio of each network at 1 and 2 threads; lines at 1 and at the limit of its kind."""
    rows = [r for r in results["networks"] if "failed" not in r]
    left, width, step, top = 190, 520, 34, 50
    reach = max([1.1] + [r[f"latency_{t}"]["ratio"] * 1.08 for r in rows for t in (1, 2)])
    x = lambda ratio: left + width * min(ratio, reach) / reach
    height = top + step * len(rows) + 40
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 70}" height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="10" y="20" font-size="14">Latency, ours / ONNX Runtime {results["onnxruntime"]} (shorter is better), '
        f'{results["date"][:10]}</text>',
        f'<rect x="10" y="30" width="10" height="10" fill="#2a6f97"/><text x="24" y="39">1 thread</text>'
        f'<rect x="90" y="30" width="10" height="10" fill="#89c2d9"/><text x="104" y="39">2 threads</text>'
        '<text x="180" y="39" fill="#b00">| limit of the geometric mean</text>',
    ]
    for i, row in enumerate(rows):
        y = top + step * i
        out.append(f'<text x="{left - 6}" y="{y + 18}" text-anchor="end">{row["name"]}</text>')
        for t, fill in ((1, "#2a6f97"), (2, "#89c2d9")):
            ratio = row[f"latency_{t}"]["ratio"]
            out.append(
                f'<rect x="{left}" y="{y + 4 + 12 * (t - 1)}" width="{x(ratio) - left:.1f}" height="11" fill="{fill}"/>'
                f'<text x="{x(ratio) + 4:.1f}" y="{y + 14 + 12 * (t - 1)}" font-size="10">{ratio:.2f}</text>'
            )
        if limits_of(results)[row["kind"]][0]:
            limit = x(limits_of(results)[row["kind"]][0])
            out.append(
                f'<line x1="{limit:.1f}" x2="{limit:.1f}" y1="{y + 1}" y2="{y + step - 3}" stroke="#b00" stroke-width="1.5"/>'
            )
    out.append(
        f'<line x1="{x(1):.1f}" x2="{x(1):.1f}" y1="{top}" y2="{height - 30}" stroke="black"/>'
        f'<text x="{x(1):.1f}" y="{height - 16}" text-anchor="middle">1.0: as ONNX Runtime</text></svg>'
    )
    return "\n".join(out) + "\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    say(f"{path} written")


def name_of(results):
    return re.sub(r"[^a-z0-9]+", "-", f"{results['cpu']} {results['isa']}".lower()).strip("-")


def index(folder):
    """A row for each processor that has been measured."""
    rows = []
    for entry in sorted(os.listdir(folder)):
        if not entry.endswith(".json"):
            continue
        with open(os.path.join(folder, entry), encoding="utf-8") as file:
            results = json.load(file)
        cells = [f"[{results['cpu']}, {results['isa']}](performance/{name_of(results)}.md)", results["date"][:10]]
        for kind in KINDS:
            good = [r for r in results["networks"] if r["kind"] == kind and "failed" not in r]
            cells += [
                f"{geometric_mean([r[f'latency_{threads}']['ratio'] for r in good]):.2f}" if good else "" for threads in (1, 2)
            ]
        rows.append(cells)
    return table(["processor", "measured"] + [f"{KIND_NAMES[k]}, {t}" for k in KINDS for t in ("1 thread", "2 threads")], rows)


def write_all(results, folder, page):
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name_of(results))
    write(base + ".json", json.dumps(results, indent=1) + "\n")
    write(base + ".svg", svg(results))
    write(base + ".md", markdown(results))
    if not page:
        return
    begin, end = "<!-- written by tools/bench.sh: begin -->\n", "<!-- written by tools/bench.sh: end -->"
    with open(page, encoding="utf-8") as file:
        old = file.read()
    write(page, old[: old.index(begin) + len(begin)] + index(folder) + old[old.index(end) :])


# Hosts of virtual machines often hide which processor it is ("AMD EPYC", "Intel(R) Xeon(R) Processor"); its family and model say the
# generation, and one may be twice as fast as the one before it: (vendor, family, least model, greatest model, name).
GENERATIONS = [
    ("AuthenticAMD", 23, 0x00, 0x2F, "Zen"),
    ("AuthenticAMD", 23, 0x30, 0xFF, "Zen 2"),
    ("AuthenticAMD", 25, 0x10, 0x1F, "Zen 4"),
    ("AuthenticAMD", 25, 0x60, 0xAF, "Zen 4"),
    ("AuthenticAMD", 25, 0x00, 0x5F, "Zen 3"),
    ("AuthenticAMD", 26, 0x00, 0x4F, "Zen 5"),
    ("AuthenticAMD", 26, 0x60, 0x7F, "Zen 5"),
    ("GenuineIntel", 6, 0x4F, 0x4F, "Broadwell"),
    ("GenuineIntel", 6, 0x55, 0x55, "Skylake or Cascade Lake"),
    ("GenuineIntel", 6, 0x6A, 0x6C, "Ice Lake"),
    ("GenuineIntel", 6, 0x8F, 0x8F, "Sapphire Rapids"),
    ("GenuineIntel", 6, 0xAD, 0xAE, "Granite Rapids"),
    ("GenuineIntel", 6, 0xCF, 0xCF, "Emerald Rapids"),
]


def cpu_name():
    said = {}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            said.setdefault(key.strip(), value.strip())
    name = said.get("model name") or said.get("Hardware") or os.uname().machine
    try:
        vendor, family, model = said["vendor_id"], int(said["cpu family"]), int(said["model"])
    except (KeyError, ValueError):  # no x86 processor
        return name
    return name + next((f" ({made})" for v, f, low, high, made in GENERATIONS if (v, f) == (vendor, family) and low <= model <= high), "")


# What decides which kernels run, the best first, by its usual name.
ISAS = {
    "amxint8": "AMX",
    "avx512vnni": "AVX-512 VNNI",
    "avx512bw": "AVX-512",
    "avxvnni": "AVX-VNNI",
    "avx2": "AVX2",
    "sse4.1": "SSE4.1",
    "dotprod": "dotprod",
}


def best_isa(program):
    try:
        features = json.loads(run([program, "doctor", "--json"]))["cpu_features"].split()
    except (Failed, ValueError, KeyError):
        features = []
    with open("/proc/cpuinfo", encoding="utf-8") as file:  # which the system lets a process use once it has asked
        features += ["amxint8"] * (" amx_int8" in file.read())
    return next((name for feature, name in ISAS.items() if feature in features), os.uname().machine)


def main():
    args = arguments()
    if args.compare:
        return compare(args)
    bench = Bench(args)
    # Where things lie on this machine is nothing to anybody else.
    places = ("--program", "--work", "--models", "--out")
    shown = [a for before, a in zip(["", *sys.argv[1:]], sys.argv[1:]) if a not in places and before not in places]
    system = os.uname()
    results = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "command": " ".join(["tools/bench.sh", *shown]),
        "cpu": cpu_name(),
        "isa": best_isa(args.program),
        "processors": len(os.sched_getaffinity(0)),
        "system": f"{system.sysname} {system.release}",
        "load": os.getloadavg()[0],
        "quarry": run([args.program, "--version"]).split()[-1],
        "backend": args.backend,
        "onnxruntime": bench.ort_version,
        "networks": [],
        "small": [],
        "together": [],
    }
    models = bench.find_models()
    for kind, name, path in models:
        say(name)
        if kind == "small":
            results["small"].append(measure_small(bench, name, path))
        else:
            results["networks"].append(measure_network(bench, kind, name, path))
    for _, name, path in models:
        if name in TOGETHER and (not bench.quick or name == TOGETHER[0]):
            say(f"{name}, several sessions")
            results["together"].append(measure_together(bench, name, path))
    results["verdicts"] = judge(results)
    official = args.backend == "cpu" and not (args.quick or args.only or args.option)
    page = os.path.join(ROOT, "docs", "performance.md") if official and not args.out else None
    write_all(
        results,
        args.out or (os.path.join(ROOT, "docs", "performance") if official else os.path.join(bench.work, "results")),
        page,
    )
    missed = [v for v in results["verdicts"] if not v[3]]
    for what, limit, found, met in results["verdicts"]:
        say(f"{'ok    ' if met else 'MISSED'} {what}: {found}, limit {limit}")
    return 1 if missed and args.check else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        sys.exit(f"bench: {failure}")
