#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One-operator models (tools/bench/operator_cases.py) at the sizes of real networks, timed on Quarry's cpu backend and on ONNX Runtime, one thread, alternating.

    tools/bench/bench_operators.py --program build/tools/quarry [--only TEXT ...] [--from N --to N] [--rounds 3] [--json FILE] [--markdown FILE]
    tools/bench/bench_operators.py --program build/tools/quarry --against OTHER/tools/quarry ...      (another build of ours in ONNX Runtime's place)
    tools/bench/bench_operators.py --pages FILE.json ... --markdown FILE

Prints ours, theirs and the ratio for every case, the worst first. A ratio far over 1 is a cliff: an operator that real models use and that
nobody wrote a kernel for. Where theirs has no implementation, "-" stands for its time. Needs numpy, onnx, onnxruntime.
"""
import argparse, json, os, re, statistics, subprocess, sys, tempfile, time

# Answers one line, the median in ms, to each line "model seconds inputs...": one process for all cases, since importing takes longer than most of them.
ORT = r'''
import json, os, sys, time
answers = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)
import numpy as np, onnx, onnxruntime as o
from onnx import numpy_helper as nh
o.set_default_logger_severity(4)
for line in sys.stdin:
    path, seconds, clock, *files = line.rstrip("\n").split("\t")
    now = time.thread_time if clock == "processor" else time.perf_counter
    try:
        s = o.SessionOptions(); s.intra_op_num_threads = 1
        k = o.InferenceSession(path, s, providers=["CPUExecutionProvider"]); b = k.io_binding()
        for i, file in zip(k.get_inputs(), files):
            t = onnx.load_tensor(file); v = nh.to_array(t)
            b.bind_ortvalue_input(i.name, o.OrtValue.ortvalue_from_numpy_with_onnx_type(v, t.data_type) if t.data_type == onnx.TensorProto.BFLOAT16 else o.OrtValue.ortvalue_from_numpy(v))
        for y in k.get_outputs(): b.bind_output(y.name)
        k.run_with_iobinding(b); times = []; end = time.time() + float(seconds)
        while time.time() < end or len(times) < 5:
            at = now(); k.run_with_iobinding(b); times.append(now() - at)
        answer = {"ms": sorted(times)[len(times) // 2] * 1e3}
    except Exception as error:
        answer = {"why": str(error).strip().splitlines()[-1]}
    print(json.dumps(answer), file=answers, flush=True)
'''


class Theirs:
    """ONNX Runtime in a process of its own, started again where a case kills it."""

    def __init__(self, clock):
        self.process, self.clock = None, clock

    def run(self, path, seconds, files, _names):
        if not self.process:
            self.process = subprocess.Popen([sys.executable, "-c", ORT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.process.stdin.write("\t".join([path, str(seconds), self.clock, *files]) + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            code, self.process = self.process.wait(), None
            return {"why": f"ended with {code}"}
        return json.loads(answer)


def ours(program, path, seconds, names, files, clock):
    given = [a for n, file in zip(names, files) for a in ("--input", f"{n}={file}")]
    r = subprocess.run([program, "bench", path, "--backend", "cpu", "--threads", "1", "--duration", str(seconds), "--json", "-", *given], capture_output=True, text=True)
    return {"ms": json.loads(r.stdout)["median_ms" if clock == "wall" else "median_processor_ms"]} if r.returncode == 0 else {"why": (r.stderr.strip() or f"ended with {r.returncode}").splitlines()[0][:200]}


class Before:
    """Another build of ours in ONNX Runtime's place: whether a change made something slower."""

    def __init__(self, program, clock):
        self.program, self.clock = program, clock

    def run(self, path, seconds, files, names):
        return ours(self.program, path, seconds, names, files, self.clock)


def on_reference(program, path):
    """Whether a node of the model runs by cpu-reference's kernel."""
    r = subprocess.run([program, "compile", "--check", "--json", "--backend", "cpu", path], capture_output=True, text=True)
    try:
        return any(n["path"] == "reference" for n in json.loads(r.stdout)["nodes"])
    except ValueError:
        return False


def time_case(name, case, o, theirs, folder):
    import onnx
    from onnx import numpy_helper as nh
    path = os.path.join(folder, "model.onnx")
    onnx.save(case.model, path)
    files = []
    for i, (n, v) in enumerate(case.values.items()):
        files.append(os.path.join(folder, f"{i}.pb"))
        onnx.save_tensor(nh.from_array(v, n), files[-1])
    row = {"case": name, "ops": sorted(f"{d}.{op}" if d else op for d, op in case.ops), "ours_ms": None, "theirs_ms": None, "ratio": None, "why": "", "reference": on_reference(o.program, path)}
    ratios = []
    for _ in range(o.rounds):
        them = {"why": row["why"]} if row["why"] else theirs.run(path, o.seconds, files, list(case.values))
        us = ours(o.program, path, o.seconds, list(case.values), files, o.clock)
        if "ms" in us:
            row["ours_ms"] = min(us["ms"], row["ours_ms"] or us["ms"])
        else:
            row["why"] = "ours: " + us["why"]
            break
        if "ms" in them:
            row["theirs_ms"] = min(them["ms"], row["theirs_ms"] or them["ms"])
            ratios.append(us["ms"] / them["ms"])
        else:
            row["why"] = them["why"]
    row["ratio"] = statistics.median(ratios) if ratios else None
    return row


def reason(why):
    """What ONNX Runtime lacks, in a few words; anything else that it says stands as it is, since the model may be at fault."""
    lacks = re.search(r"(?:Could not find an implementation for|No Op registered for) (\w+)", why)
    return f"no kernel for {lacks.group(1)}" if lacks else why[:160].replace("|", "/")


def tables(rows):
    """Every case, the worst first; then those that they cannot run."""
    timed = sorted((r for r in rows if r["ratio"]), key=lambda r: -r["ratio"])
    yield f"Geometric mean of {len(timed)} ratios {statistics.geometric_mean(r['ratio'] for r in timed):.2f}; over 2: {sum(r['ratio'] > 2 for r in timed)}; over 1.15: {sum(r['ratio'] > 1.15 for r in timed)}. Between 0.9 and 1.3 it may be noise."
    slow = sorted((r for r in rows if r["reference"]), key=lambda r: -(r["ratio"] or 0))
    yield from ["", "By `cpu-reference`'s kernel run (as `quarry compile --check` says), with their ratios: " + (", ".join(r["case"] + " " + (f"{r['ratio']:.2f}" if r["ratio"] else "-") for r in slow) or "none") + "."]
    yield from ["", "| case | ours, ms | ONNX Runtime, ms | ratio |", "|---|---|---|---|"]
    for r in timed:
        yield f"| {r['case']} | {r['ours_ms']:.3f} | {r['theirs_ms']:.3f} | {r['ratio']:.2f} |"
    for r in rows:
        if r["ours_ms"] and not r["ratio"]:
            yield f"| {r['case']} | {r['ours_ms']:.3f} | - ({reason(r['why'])}) | - |"
    failed = [r for r in rows if not r["ours_ms"]]
    if failed:
        yield from ["", "Not timed: " + "; ".join(f"{r['case']} ({r['why']})" for r in failed) + "."]


def uncovered(rows):
    """Operators of docs/operators.md of the cpu backend that no case has."""
    table = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "operators.md")).read()
    known = set(re.findall(r"^\| (\S+) \| \w+ \| (?!-)", table, re.M)) | {"com.microsoft." + n for n in re.search(r"domain are read too, as the ones above: (.*?)\.\n", table).group(1).split(", ")}
    return sorted(known - {op for r in rows for op in r["ops"]})


def markdown(rows, processor):
    lines = [f"# One operator at a time: {processor}", "",
             f"Models of one operator at sizes of real networks, one thread, ours beside ONNX Runtime's ({time.strftime('%Y-%m-%d')}); written by `tools/bench/bench_operators.py`.", "Where a time of theirs is -, it has no implementation for the processor."]
    missing = uncovered(rows)
    return "\n".join(lines + list(tables(rows)) + (["", "Operators of [operators.md](../operators.md) without a case: " + ", ".join(missing) + "."] if missing else [])) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--program")
    a.add_argument("--against", metavar="PROGRAM", help="another build of quarry in ONNX Runtime's place")
    a.add_argument("--only", nargs="*", help="cases whose names have one of these texts in them; =NAME is the case of that name")
    a.add_argument("--from", type=int, default=0, dest="first", help="the place of the first case: a sweep in parts")
    a.add_argument("--to", type=int, help="one behind the place of the last")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=0.3)
    a.add_argument("--clock", choices=("wall", "processor"), default="wall", help="processor: what a run had of the processor, which other work on the machine does not lengthen")
    a.add_argument("--limit", type=float, default=1e9, help="stop after so many seconds and say at which place to go on")
    a.add_argument("--json")
    a.add_argument("--pages", nargs="+", metavar="JSON", help="time nothing: read rows of these files; of a case that is in several the last")
    a.add_argument("--markdown", help="the table as a page of docs/performance")
    a.add_argument("--processor", default="", help="named in the page")
    o = a.parse_args()
    rows, began = [], time.time()
    if o.pages:
        rows = list({r["case"]: r for file in o.pages for r in json.load(open(file))}.values())
    elif not o.program:
        a.error("--program or --pages")
    else:
        from operator_cases import CASES
        theirs, wanted = Before(o.against, o.clock) if o.against else Theirs(o.clock), list(CASES)[o.first:o.to]
        with tempfile.TemporaryDirectory() as folder:
            for place, name in enumerate(wanted, o.first):
                if o.only and not any(t == "=" + name or t.lower() in name.lower() for t in o.only):
                    continue
                if time.time() - began > o.limit:
                    print(f"stopped before case {place} of {len(CASES)}: go on with --from {place}", file=sys.stderr)
                    break
                rows.append(time_case(name, CASES[name], o, theirs, folder))
                r = rows[-1]
                print(f"{name}: " + (f"{r['ours_ms']:.4f} / {r['theirs_ms']:.4f} ms = {r['ratio']:.2f}" if r["ratio"] else f"{r['ours_ms']} / - ({r['why']})"), file=sys.stderr, flush=True)
    for r in sorted(rows, key=lambda r: -(r["ratio"] or 0)):
        print(f"{r['case']:32s} " + (f"{r['ours_ms']:10.4f} {r['theirs_ms']:10.4f} {r['ratio']:8.2f}" if r["ratio"] else f"{r['ours_ms'] or 0:10.4f}          -        - {reason(r['why']) if r['ours_ms'] else r['why']}") + (" (reference)" if r["reference"] else ""))
    if o.json:
        json.dump(rows, open(o.json, "w"), indent=1)
    if o.markdown:
        with open(o.markdown, "w") as page:
            page.write(markdown(rows, o.processor))


if __name__ == "__main__":
    main()
