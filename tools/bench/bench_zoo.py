#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs as exporters make them (zoo of $QUARRY_SHARED), on the cpu backend beside ONNX Runtime: one thread, alternating. Started by `tools/bench.sh --zoo`.

    tools/bench.sh --zoo [--only TEXT ...] [--all] [--rounds 3] [--seconds 0.3] [--out FILE.md] [--check]

A round is a process of each (`quarry bench` on a .qrm, tools/bench/bench_ort.c on the .onnx with all optimisations), with the graph's own inputs; a graph's ratio is the
median over the rounds. --all takes graphs with symbolic dimensions too, at the sizes that they were exported with. Results are compared by tools/zoo.sh, not here.
The page is docs/performance/zoo-PROCESSOR.md, with a row in docs/performance.md, or the file of --out; with --only it stays in the work folder. --check fails where a ratio is above 1.0 and EXPLAINED has no word about it.
"""
import argparse
import datetime
import os
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "conformance"))
import bench as networks
from check_zoo import family

# Graphs above 1.0, and why: name -> reason.
EXPLAINED = {
    "tv_fcos-t": "convolutions of twelve pixels and fewer read their weights at 10 GB/s, which is what the machine's memory gives: 1.05 in a second run",
    "op_affine_grid-t": "three microseconds; AffineGrid is three steps on pairs of coordinates, theirs one product of matrices",
    "op_nms-d": "three microseconds; what depends on the number of boxes that are kept is planned in the run",
    "op_nms-t": "three microseconds; what depends on the number of boxes that are kept is planned in the run",
}
MOST_ROWS = 15


def arguments():
    parser = argparse.ArgumentParser(prog="tools/bench.sh --zoo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="TEXT", nargs="+", help="graphs whose names have one of these in them")
    parser.add_argument("--all", action="store_true", help="graphs with symbolic dimensions too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each process, or as long as a run takes")
    parser.add_argument("--out", metavar="FILE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--program", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--work", required=True, help=argparse.SUPPRESS)
    return parser.parse_args()


def graphs_of(folder):
    """Made once, with their inputs, by the zoo's build.py."""
    graphs, made = os.path.join(folder, "graphs"), os.path.join(folder, "made")
    if not os.path.exists(made):
        networks.say(f"making the graphs in {graphs}: some minutes")
        subprocess.run([sys.executable, os.path.join(networks.SHARED, "zoo", "build.py"), graphs], check=True, stdout=subprocess.DEVNULL)
        open(made, "w", encoding="utf-8").close()
    return graphs


def measure(bench, name, path, args):
    """Median times of both and the ratio; a text where one of them does not run it."""
    qrm = os.path.join(bench.work, name + ".qrm")
    bench.made_from[qrm] = path
    try:
        bench.write_inputs(name, path)
        networks.run([args.program, "compile", path, "--backend", "cpu", "-o", qrm] + (["--shape", bench.shapes[path]] if path in bench.shapes else []))
        ratio = lambda a, b: a["median_ms"] / b["median_ms"]
        shortest = bench.ours(qrm, duration=0.05)["median_ms"]
        flags = {"duration": args.seconds, "group": max(1, min(1000, int(0.2 / max(shortest, 1e-4))))}  # runs of microseconds are timed together
        pairs = bench.pairs(lambda: bench.ours(qrm, **flags), lambda: bench.theirs(path, **flags), ratio, args.rounds)
    except networks.Failed as failure:
        return str(failure)
    finally:
        for file in [qrm, *[f + ending for f in bench.files.get(path, {}).values() for ending in (".npy", ".raw")]]:
            if os.path.exists(file):
                os.unlink(file)
    return {"name": name, "family": family(name), **networks.summary(pairs, "median_ms"), "ratio": statistics.median(ratio(*pair) for pair in pairs)}


def page(rows, left_out, bench, args, head):
    mean = networks.geometric_mean
    by_family = {}
    for row in rows:
        by_family.setdefault(row["family"], []).append(row)
    of_families = [(name, len(some), f"**{mean([r['ratio'] for r in some]):.2f}**", f"{max(r['ratio'] for r in some):.2f} ({max(some, key=lambda r: r['ratio'])['name']})", sum(r["ratio"] > 1 for r in some))
                   for name, some in sorted(by_family.items())]
    of_families.append(("all", len(rows), f"**{mean([r['ratio'] for r in rows]):.2f}**", f"{max(r['ratio'] for r in rows):.2f}", sum(r["ratio"] > 1 for r in rows)))
    worst = sorted(rows, key=lambda r: -r["ratio"])
    worst = worst[:max(MOST_ROWS, sum(r["ratio"] > 1 for r in rows))]
    text = [f"# Graphs of exporters on {head['cpu']}, {head['isa']}\n",
            f"Measured {head['date']} by `{head['command']}` on {head['cpu']} with {head['isa']}, {head['processors']} processors; load before it began {head['load']:.1f}. One thread; medians of "
            f"{args.rounds} alternating rounds. Quarry {head['quarry']} backend `cpu` from .qrm, ONNX Runtime {bench.ort_version} (CPU provider, all optimisations). Ratios are ours / theirs: less than 1 is better. "
            "The graphs are those of [state.md](../state.md#graphs-of-exporters); they are small: many take less than a millisecond.\n",
            networks.table(["family", "graphs", "geometric mean", "worst", "above 1.0"], of_families),
            "## The worst\n", networks.table(["graph", "ours, ms", "theirs, ms", "ratio", "why"], [(r["name"], f"{r['ours']:.3f}", f"{r['theirs']:.3f}", f"**{r['ratio']:.2f}**", EXPLAINED.get(r["name"], "")) for r in worst])]
    if left_out:
        text += ["Not timed: " + "; ".join(f"{name} ({why})" for name, why in left_out) + ".\n"]
    return "\n".join(text)


def add_row(file, rows, head):
    """The processor's row in docs/performance.md, in place of one that is there."""
    begin, end = "<!-- written by tools/bench.sh --zoo: begin -->\n", "<!-- written by tools/bench.sh --zoo: end -->"
    link = f"[{head['cpu']}, {head['isa']}](performance/zoo-{networks.name_of(head)}.md)"
    worst = max(rows, key=lambda row: row["ratio"])
    row = f"| {link} | {head['date']} | {len(rows)} | {networks.geometric_mean([r['ratio'] for r in rows]):.2f} | {worst['ratio']:.2f} ({worst['name']}) |\n"
    with open(file, encoding="utf-8") as page:
        before, _, rest = page.read().partition(begin)
    old, _, after = rest.partition(end)
    kept = old.splitlines(keepends=True)
    networks.write(file, before + begin + "".join(kept[:2] + sorted([line for line in kept[2:] if link not in line] + [row])) + end + after)


def main():
    args = arguments()
    args.backend, args.option, args.quick, args.most = "cpu", [], False, None
    head = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"), "cpu": networks.cpu_name(), "isa": networks.best_isa(args.program), "processors": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0],
            "quarry": networks.run([args.program, "--version"]).split()[-1], "command": "tools/bench.sh --zoo" + " --all" * args.all + (" --only " + " ".join(args.only) if args.only else "")}
    bench = networks.Bench(args)
    folder = graphs_of(os.path.join(ROOT, "build", "zoo") if os.path.exists(os.path.join(ROOT, "build", "zoo", "made")) else os.path.join(bench.work, "zoo"))
    rows, left_out = [], []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "model.onnx")
        bench.bind_shapes(path)
        if args.only and not any(text in name for text in args.only) or path in bench.shapes and not args.all:
            continue
        found = measure(bench, name, path, args)
        if isinstance(found, str):
            left_out.append((name, found))
            networks.say(f"{name}: {found}")
            continue
        rows.append(found)
        networks.say(f"{name}: {found['ours']:.3f} ms, theirs {found['theirs']:.3f} ms, ratio {found['ratio']:.3f}")
    if not rows:
        sys.exit("bench: found no graph to time")
    whole = os.path.join(ROOT, "docs", "performance", f"zoo-{networks.name_of(head)}.md")
    out = args.out or (os.path.join(bench.work, "zoo.md") if args.only else whole)
    networks.write(out, page(rows, left_out, bench, args, head))
    if out == whole:
        add_row(os.path.join(ROOT, "docs", "performance.md"), rows, head)
    above = [row["name"] for row in rows if row["ratio"] > 1 and row["name"] not in EXPLAINED]
    networks.say(f"{len(rows)} graphs, geometric mean {networks.geometric_mean([row['ratio'] for row in rows]):.3f}; above 1.0 without a reason: {', '.join(above) or 'none'}")
    return 1 if args.check and above else 0


if __name__ == "__main__":
    sys.exit(main())
