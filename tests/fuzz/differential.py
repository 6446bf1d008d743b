#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential fuzzing of operators: random cases of one operator and short random graphs, on backends beside ONNX Runtime or ONNX's reference evaluator.

differential.py QUARRY OUT [--operators N] [--graphs N] [--seed S] [--from N] [--backend B]... [--op NAME]... [--keep FOLDER] [--jobs N] [--alternate] [--drawn]
differential.py QUARRY OUT --only NAME [--backend B]...        a case that a finding names, once more

A backend is cpu, cpu-reference, gpu, or htp with a SoC ("htp:SM8650"). gpu:oclgrind is gpu on Oclgrind's device, which interprets kernels (a tenth of what PoCL's
compiler takes) and finds accesses out of bounds. Each case is asked of `check`, and run from ONNX and through a container. Verdicts: crash, hang, wrong, promised
(check took what compile refused), error (neither a result nor a refusal), mute (refused without a reason), access (out of bounds), untold (it runs, and
`quarry ops` says that the backend has it not). What is refused with a reason is counted by operator. Each kind of finding is made smaller by itself and kept as a folder in the layout of ONNX's own tests.
"""
import argparse
import collections
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

import oracle
import neighbours
import provider_suite
import random_operators
import shrink

CHUNK = 500
LARGEST = 40000  # elements of a result


def made(rows, name):
    """The case of a name, with its expected results; or a text that says why there is none."""
    letter, seed, number, what = re.fullmatch(r"([ogpw])(\d+)_(\d+)_(\w+)", name).groups()
    mixed = int(seed) * 1_000_003 + int(number)
    if letter == "g":
        import random_models
        case = random_models.short_graph(mixed)
    elif letter == "w":
        case = neighbours.among(rows, mixed, what)
    elif letter == "p":
        case = provider_suite.one(rows, mixed, int(number))
    else:
        case = random_operators.one(rows, mixed, what)
    if case is None:
        return "nothing drawn"
    try:
        sure, case.results = oracle.expected(case)
    except Exception:  # what nobody computes has no results, and is run all the same
        case.results, case.kind, case.exact = None, "unchecked", False
        try:
            case.model(typed=True)
            return case
        except Exception:
            return "no ONNX"
    if any(a.size > LARGEST for a in case.results):
        return "too large"
    if not case.exact and any(oracle.is_float(a) and not np.isfinite(a.astype(np.float64)).all() for a in case.results):
        return "not finite"
    if any(oracle.is_float(a) and (np.abs(a.astype(np.float64), where=np.isfinite(a.astype(np.float64)), out=np.zeros(a.shape)) > 1e30).any() for a in case.results):
        return "not finite"  # the greatest of nothing but padding is the lowest number, or less
    if "MaxPool" in case.operators() and any(oracle.is_float(a) and np.isneginf(a.astype(np.float64)).any() for a in case.results):
        return "not finite"  # windows of nothing but padding, of a type that is compared to the bit
    if not oracle.steady(case, sure, np.random.default_rng(mixed)):
        return "ill-conditioned"
    case.oracle = sure.who
    return case


def write_chunk(names, out, sender):
    """In a process of its own: what computes may crash too."""
    rows = random_operators.table()
    for name in names:
        sender.send(("begun", name, ""))
        case = made(rows, name)
        if isinstance(case, str):
            sender.send(("none", name, case))
        else:
            case.save(os.path.join(out, "exact" if case.exact else case.kind, name))
            sender.send(("case", name, f"checked by {case.oracle}" if case.oracle else "that nobody computes: run for crashes and broken promises alone"))
    sender.send(("end", "", ""))


def write_cases(names, out):
    counts = collections.Counter()
    while names:
        receiver, sender = multiprocessing.Pipe(False)
        process = multiprocessing.Process(target=write_chunk, args=(names[:CHUNK], out, sender))
        process.start()
        sender.close()
        begun, kind = None, ""
        try:
            while kind != "end":
                kind, name, text = receiver.recv() if receiver.poll(60) else ("late", begun, "")
                if kind == "begun":
                    begun = name
                elif kind == "late":
                    process.kill()
                    raise EOFError
                elif kind != "end":
                    counts[text] += 1
            names = names[CHUNK:]
        except EOFError:
            counts["its oracle died"] += 1
            names = names[names.index(begun) + 1:]
        process.join()
    return counts


def finding(result, kind):
    """The verdict on a case of a report; None: nothing to say."""
    reason = result.get("reason", "")
    if result["result"] == "passed":
        return None
    if result["result"] == "refused":
        return "mute" if len(reason) < 20 else None
    if "killed by signal" in reason:
        return "crash"
    if reason.startswith("Oclgrind"):
        return "access"
    if "seconds" in reason and "values differ" not in reason and "id" not in result:
        return "hang"
    if "which is what the device computes with" in reason:  # values that an NPU has no numbers for: said by the run, as no one knows before
        return None
    if reason.startswith("check took"):
        return "promised"
    if kind == "unchecked":  # it may be wrong as such; conform says that there is nothing to compare with
        return None
    return "error" if "id" in result else "wrong"


def untold(rows, name, result, lacks):
    """One operator that runs, of values of the run, and is not in the table; sets the reason."""
    operator = name.split("_")[2]
    if not name.startswith("o") or operator not in lacks or result["result"] != "passed" or not made(rows, name).inputs:
        return None
    result["reason"] = "`quarry ops` says that the backend has it not"
    return "untold"


def about(reason):
    """What reasons of one kind have in common."""
    return re.sub(r"'[^']*'|[-+]?\d[\d.e+-]*", "#", reason)[:160]


def oclgrind():
    program = shutil.which("oclgrind")
    if not program:
        sys.exit("differential.py: gpu:oclgrind: found no program oclgrind, expected one (apt install oclgrind)")
    return os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(program))), "lib", "oclgrind", "liboclgrind-rt.so")


class Quarry:
    def __init__(self, program, backend, jobs=None, timeout="60"):
        name, _, device = backend.partition(":")
        self.program, self.backend, self.name, self.soc, self.log, self.environment = program, backend, name, device if name == "htp" else "", None, None
        self.start = [program, "conform", "--backend", name, "--checked", "--timeout", timeout] + (["--jobs", jobs] if jobs else [])
        if name == "gpu":
            self.start += ["-O", "gpu.tail=host"]
        if device == "oclgrind":
            self.log = tempfile.NamedTemporaryFile(mode="r", errors="replace")
            self.environment = dict(os.environ, QUARRY_OPENCL_PATH=oclgrind(), OCLGRIND_LOG=self.log.name, OCLGRIND_NUM_THREADS="1", OCLGRIND_MAX_ERRORS="20",
                                    OCLGRIND_BUILD_OPTIONS="-cl-opt-disable")  # it has not all that LLVM's optimiser writes
        if self.soc:
            self.start += ["-O", f"soc_model={self.soc}", "--precision", "f16"]

    def lacks(self):
        """Operators that `quarry ops` says the backend has not."""
        told = json.loads(subprocess.run([self.program, "ops", "--json"], stdout=subprocess.PIPE, check=True).stdout)["backends"]
        return {row["name"] for one in told if one["backend"] == self.name for row in one["operators"] if not row["supported"]}

    def run(self, folder, kind, compiled, names=()):
        """name -> result of each case in a folder, or of those of these names."""
        results, report = self.conform(folder, kind, compiled, names)
        for name, text in self.reported(folder, kind, compiled, sorted(results), report):
            results[name].update(result="failed", reason="Oclgrind: " + " ".join(text.split())[:400])
        return results

    def reported(self, folder, kind, compiled, names, report):
        """Which cases Oclgrind reported something of, and what; `report` is that of all of them."""
        if not report or len(names) < 2:
            return [(name, report) for name in names if report]
        half = len(names) // 2
        return [found for part in (names[:half], names[half:]) for found in self.reported(folder, kind, compiled, part, self.conform(folder, kind, compiled, part)[1])]

    def conform(self, folder, kind, compiled, names=()):
        """name -> result, and what Oclgrind reported."""
        kind = "f32" if kind == "unchecked" else kind
        if self.soc:
            kind = {"f32": "npu", "f16": "npu", "f64": "npu", "exact": "npu", "steps": "npu steps"}.get(kind, kind)
        command = self.start + oracle.flags(kind) + (["--compiled"] if compiled else []) + ["--json", "-"] + [word for name in names for word in ("--filter", name)] + [folder]
        if self.log:
            os.truncate(self.log.name, 0)
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment, check=False)
        try:
            results = {case["name"]: case for case in json.loads(found.stdout)["cases"]}
        except ValueError:
            sys.exit(f"differential.py: {' '.join(command)} ended with {found.returncode}: {found.stderr.decode(errors='replace')[-2000:]}")
        if not self.log:
            return results, ""
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            return results, log.read().strip()


def steady_in_f16(case):
    if case.kind in ("f32", "f16", "f64") and not case.exact:
        case = case.with_(kind="npu", results=case.results)
    return oracle.steady(case, oracle.Oracle(case), np.random.default_rng(1))


def counts_on_npu(case, quarry, compiled):
    """Whether a difference says something of an NPU: of no numbers (docs/htp/models.md: it has its largest in their place) the same case with numbers says it,
    and quantised results may be off by what `beside_a_step` says."""
    again, kind = case, "exact" if case.exact else case.kind
    if not oracle.is_finite(case):
        again = oracle.with_numbers(case)
        if again is None:
            return False
    more = oracle.beside_a_step(case) if kind == "steps" else 0.0
    units = oracle.units_on_npu(again)
    if again is not case or more > 0 or units > 0:
        with tempfile.TemporaryDirectory() as folder:
            again.save(os.path.join(folder, "case"))
            kind = oracle.wider("npu steps", more) if more > 0 else kind
            result = quarry.run(folder, kind, compiled)["case"]
            whole = re.search(r"worst at \d+: found (-?\d+), expected (-?\d+) \(", result.get("reason", ""))
            if finding(result, kind) is None or (whole and abs(int(whole.group(1)) - int(whole.group(2))) <= units):
                return False
    return steady_in_f16(again)


def suspect(case, quarry, compiled):
    """Who stands alone: the backend, or who computed what was expected."""
    try:
        first = oracle.Oracle(case).who
        other = oracle.EVALUATOR if first == oracle.ORT else oracle.ORT
        _, results = oracle.expected(case, other)
    except Exception:
        return "there is no third", True
    if all(oracle.within("exact" if case.exact else case.kind, a, b) for a, b in zip(case.results, results)):
        return f"{other} agrees with {first}", True
    with tempfile.TemporaryDirectory() as folder:
        case.with_(results=results).save(os.path.join(folder, "case"))
        kind = "exact" if case.exact else case.kind
        agrees = finding(quarry.run(folder, kind, compiled)["case"], kind) is None
    return (f"{other} agrees with it, {first} stands alone", False) if agrees else (f"{first} and {other} differ too", True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("quarry")
    parser.add_argument("out")
    parser.add_argument("--operators", type=int, default=1000, help="cases of one operator")
    parser.add_argument("--graphs", type=int, default=300, help="graphs of two to six nodes: of forms that passes look for, and as many of one operator among neighbours")
    parser.add_argument("--suite", type=int, default=0, help="cases of the families that the suite of ONNX Runtime's QNN provider has (provider_suite.py)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the number of the first case and graph: a long run in parts")
    parser.add_argument("--way", choices=("both", "onnx", "container"), default="both", help="how cases reach the backend")
    parser.add_argument("--backend", action="append")
    parser.add_argument("--op", action="append", help="these operators alone")
    parser.add_argument("--only", help="the name of one case")
    parser.add_argument("--keep", help="where the smallest cases are kept; otherwise OUT/found")
    parser.add_argument("--most", type=int, default=40, help="kinds of findings that are made smaller")
    parser.add_argument("--jobs", help="processes of `quarry conform` (one for each processor)")
    parser.add_argument("--timeout", default="60", help="seconds of a case; more where others work on the machine")
    parser.add_argument("--alternate", action="store_true", help="each case from ONNX or through a container, by its number, not both")
    parser.add_argument("--drawn", action="store_true", help="the cases that an earlier call left in OUT, not drawn again")
    parser.add_argument("--refused", action="store_true", help="print what was refused, by operator and reason")
    given = parser.parse_args()
    backends = given.backend or ["cpu-reference", "cpu"]
    keep = given.keep or os.path.join(given.out, "found")
    rows = random_operators.table()
    missing = sorted(set(rows) - set(random_operators.DRAWERS) - set(random_operators.LEFT_OUT))
    if missing:
        sys.exit(f"differential.py: the table has operators that nobody draws: {', '.join(missing)}; write their drawers (drawers_*.py), or say there why they are left out")
    operators = sorted(given.op or (set(rows) & set(random_operators.DRAWERS)))
    cut = lambda count: range(given.first, given.first + count)
    names = [f"o{given.seed}_{n:05d}_{operators[n % len(operators)]}" for n in cut(given.operators)] + [f"g{given.seed}_{n:05d}_graph" for n in cut(given.graphs)]
    names += [f"w{given.seed}_{n:05d}_{operators[n % len(operators)]}" for n in cut(given.graphs)]
    names += provider_suite.names(given.seed, given.first, given.suite)
    names = [given.only] if given.only else names
    cases = os.path.join(given.out, "cases")
    if not given.drawn:
        shutil.rmtree(cases, ignore_errors=True)
        begun = time.time()
        counts = write_cases(names, cases)
        print(f"seed {given.seed}: {', '.join(f'{count} {what}' for what, count in counts.most_common())} ({time.time() - begun:.0f} s)", flush=True)
    bad, unsteady, outvoted = 0, 0, collections.Counter()
    for backend in backends:
        quarry = Quarry(given.quarry, backend, given.jobs, given.timeout)
        lacks = quarry.lacks()
        kinds, refusals, total, begun = {}, collections.Counter(), collections.Counter(), time.time()
        for kind in sorted(os.listdir(cases)) if os.path.isdir(cases) else []:
            folder = os.path.join(cases, kind)
            for compiled in {"onnx": (False,), "container": (True,)}.get(given.way, (False, True)):
                chosen = [name for name in os.listdir(folder) if int(name.split("_")[1]) // 7 % 2 == compiled] if given.alternate else []
                if given.alternate and not chosen:
                    continue
                for name, result in quarry.run(folder, kind, compiled, chosen).items():
                    verdict = finding(result, kind) or untold(rows, name, result, lacks)
                    total["run" if kind == "unchecked" and result["result"] == "failed" and not verdict else result["result"]] += 1
                    operator = name.split("_")[2]
                    if result["result"] == "refused" and (given.alternate or not compiled):
                        refusals[f"{operator}: {about(result['reason'])}"] += 1
                    if verdict:
                        print(f"{verdict} on {backend}{' through a container' if compiled else ''}: {name}: {result.get('reason', '')[:200]}", file=sys.stderr, flush=True)  # a long run may be cut off
                        kinds.setdefault((verdict, operator if operator != "graph" else "+".join(sorted(set(result.get("operators", [])))), about(result["reason"]) if verdict != "wrong" else ""), []).append((name, compiled, result))
        print(f"{backend}: {total['passed']} passed, {total['refused']} refused with a reason, {total['run']} with nothing to compare, {total['failed']} failed ({time.time() - begun:.0f} s)", flush=True)
        if given.refused:
            for reason, count in refusals.most_common():
                print(f"  refused {count} x {reason}")
        told = 0
        for (verdict, operator, _), found in sorted(kinds.items(), key=lambda entry: -len(entry[1])):
            if verdict == "wrong" and quarry.soc:
                sure = [f for f in found if counts_on_npu(made(rows, f[0]), quarry, f[1])]
                unsteady += len(found) - len(sure)
                found = sure
                if not found:
                    continue
            name, compiled, result = found[0]
            case = made(rows, name)
            who, counts_for = suspect(case, quarry, compiled) if verdict == "wrong" else ("", True)
            if not counts_for:
                outvoted[operator] += len(found)
                continue
            bad += len(found)
            told += 1
            text = f"{verdict} on {backend}{' through a container' if compiled else ''}: {operator}, {len(found)} cases, the first {name}: {result['reason']}"
            print(text + (f" ({who})" if who else ""))
            if told <= given.most and not isinstance(case, str):
                small = case if case.oracle is None else shrink.smallest(case, lambda folder, kind: {k: finding(r, kind) for k, r in quarry.run(folder, kind, compiled).items()}, verdict)
                folder = os.path.join(keep, f"{backend.replace(':', '-')}_{verdict}_{name}")
                small.save(folder)
                print(f"  smallest: {shrink.text(small)}\n  {' '.join(quarry.start + oracle.flags('exact' if small.exact else small.kind if small.oracle else 'f32'))}{' --compiled' if compiled else ''} {folder}", flush=True)
    if outvoted:
        print(f"who computed what was expected stood alone: {', '.join(f'{op} {n}' for op, n in outvoted.most_common())}")
    if unsteady:
        print(f"{unsteady} results that differ are ill-conditioned in f16, right with numbers for what is none there, or off by what is not of the backend in quantised chains, and say nothing")
    print(f"{bad} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
