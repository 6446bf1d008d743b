#!/usr/bin/env python3
"""What `--profile` reports of runs and of compiling: tables, figures in JSON, and files with the events.

check_profile.py BUILD_DIR SHARED_DIR
"""
import csv
import json
import os
import re
import shutil

from program import check, finish, image, model, new_folder, onnx_model, require, run

folder = new_folder()
qrm = os.path.join(folder, "digits.qrm")
trace, table = os.path.join(folder, "events.json"), os.path.join(folder, "events.csv")
check("compile", run("compile", model, "-o", qrm, "--backend", "cpu"), 0)


def rows_of(text, first):
    """The rows of the table whose first column has this title: each a dict by column."""
    lines = text.split("\n")
    at = next((i for i, line in enumerate(lines) if line.split()[:1] == [first]), None)
    if at is None:
        return []
    titles = list(re.finditer(r"\S+(?: \S+)*", lines[at]))
    rows = []
    for line in lines[at + 1:]:
        if not line.startswith("  "):
            break
        cells = re.findall(r"\S+(?: \S+)*", line)
        # Words stand below the beginning of their title, numbers below its end.
        row = {}
        for cell in re.finditer(r"\S+(?: \S+)*", line):
            title = next((t.group() for t in titles if t.start() == cell.start() or t.end() == cell.end()), None)
            row[title] = cell.group()
        rows.append(row if cells else {})
    return rows


def share(row):
    return float(row["share"].split()[0])


# ---- tables
for name, args in {"run": ("run", qrm, image), "bench": ("bench", qrm, "-n", "5"), "the reference": ("run", model, image, "--backend", "cpu-reference")}.items():
    result = check(f"{name}: tables", run(*args, "--profile", "--profile-top", "0"), 0, "conv1", "the nodes' times explain")
    require(f"{name}: no line is too wide", all(len(line) <= 120 for line in result.stdout.split("\n")), result.stdout)
    for title in ("node", "operator"):
        rows = rows_of(result.stdout, title)
        require(f"{name}: shares of each {title} add up", rows and abs(sum(map(share, rows)) - 100) < 0.1 * len(rows) + 0.1, result.stdout)
        require(f"{name}: the longest {title} is first", [share(r) for r in rows] == sorted(map(share, rows), reverse=True), result.stdout)
    # A busy machine may take the processor away in the middle of the one run that is reported: one of a few is not disturbed.
    for _ in range(10):
        part = re.search(r"explain ([0-9.]+) % of a run's", result.stdout)
        if not part or 20 < float(part.group(1)) < 101:
            break
        result = run(*args, "--profile", "--profile-top", "0")
    require(f"{name}: the nodes explain the run", part and 20 < float(part.group(1)) < 101, result.stdout)
    require(f"{name}: no event is lost", "were lost" not in result.stdout, result.stdout)
result = check("--profile-top", run("run", qrm, image, "--profile", "--profile-top", "1"), 0, " more, together ")
require("--profile-top 1 has one row", len(rows_of(result.stdout, "node")) == 2, result.stdout)  # and the line about the others
result = check("without --profile", run("run", qrm, image), 0)
require("no table without --profile", "share" not in result.stdout, result.stdout)

# ---- bench: warm runs beside those that are timed
bench = json.loads(check("bench --json", run("bench", qrm, "-n", "7", "--profile", "--json", "-"), 0).stdout)
require("bench: profiled runs are none of the timed", bench["runs"] == 7 and bench["profile"]["tables"][0]["runs"] >= 3, bench)
require("bench: neither compiling nor loading is profiled", bench["profile"]["phases"] == [], bench["profile"]["phases"])
check("bench says which runs", run("bench", qrm, "-n", "7", "--profile"), 0, "the times above are of runs without one")
figures = os.path.join(folder, "figures.json")
check("bench --json FILE: tables and file", run("bench", qrm, "-n", "3", "--profile", "--json", figures), 0, "conv1", "operator")
require("bench --json FILE has the profile", any(n["name"] == "conv1" for n in json.load(open(figures))["profile"]["tables"][0]["nodes"]))

# ---- run --json
report = json.loads(check("run --json", run("run", qrm, image, image, "--profile", "--json"), 0).stdout)
one = report["profile"]["tables"][0]
require("run --json: the runs", len(report["runs"]) == 2 and one["runs"] == 2 and report["profile"]["lost_events"] == 0, report)
require("run --json: the shares", abs(sum(n["share"] for n in one["nodes"]) - 1) < 1e-6 and abs(sum(o["share"] for o in one["operators"]) - 1) < 1e-6, one)
require("run --json: no profile unasked", "profile" not in json.loads(run("run", qrm, image, "--json").stdout))

# ---- files
check("a trace", run("run", qrm, image, "--profile=" + trace), 0, "conv1", "events.json")
events = [e for e in json.load(open(trace))["traceEvents"] if e["ph"] == "X"]
call = next((e for e in events if e["cat"] == "run"), None)
nodes = [e for e in events if e["cat"] == "node" and call and call["ts"] <= e["ts"]]
require("the trace has the run and its nodes", call and any(e["name"] == "conv1" for e in nodes), events[:5])
require("the nodes lie inside the run", all(e["ts"] + e["dur"] <= call["ts"] + call["dur"] + 0.01 for e in nodes), (call, nodes))
for args in (("run", qrm, image), ("bench", qrm, "-n", "3")):
    check("CSV", run(*args, "--profile=" + table), 0)
    with open(table, newline="") as file:
        lines = list(csv.DictReader(file))
    by_id = {line["id"]: line for line in lines}
    found = [line for line in lines if line["kind"] == "node" and line["name"] == "conv1"]
    require("CSV has the nodes", found and all(line["op"] == "Conv" and int(line["duration"]) > 0 for line in found), lines[:5])
    require("CSV: a node is a part of a run", all(by_id[line["parent"]]["kind"] == "run" for line in found), found)
require("bench has several runs in its file", len(found) >= 3, found)
for args in (("run", qrm, image), ("bench", qrm, "-n", "3"), ("compile", model, "-o", os.path.join(folder, "no.qrm"))):
    for path in ("x.txt", "x", ".csv", os.path.join(folder, "json")):
        check(f"{args[0]}: another ending", run(*args, "--profile=" + path), 2, path, ".csv", ".json", "hint")
require("a refused ending compiles nothing", not os.path.exists(os.path.join(folder, "no.qrm")))
check("the form of before", run("run", qrm, image, "--profile", "x.json"), 2, "--profile=x.json")
check("no folder", run("run", qrm, image, "--profile=" + os.path.join(folder, "no", "x.csv")), 2, "x.csv", "No such file")
for ending in ("csv", "json"):
    full = os.path.join(folder, "full." + ending)
    os.symlink("/dev/full", full)
    check(f"a disk that is full: .{ending}", run("run", qrm, image, "--profile=" + full), 3, "full." + ending, "No space left on device", "conv1")
    require("a link is written through", os.path.islink(full))
    os.remove(full)
os.chmod(table, 0o640)
before = open(table, "rb").read()
reader = open(table, "rb")
check("a file is there already", run("run", qrm, image, "--profile=" + table), 0)
require("it is replaced by the whole of the new one, with its mode", open(table, "rb").read() != before and os.stat(table).st_mode & 0o777 == 0o640, oct(os.stat(table).st_mode))
require("whoever reads the old one has it whole", reader.read() == before)
reader.close()
require("nothing is left behind", sorted(os.listdir(folder)) == ["digits.qrm", "events.csv", "events.json", "figures.json"], os.listdir(folder))

# ---- names as they come
odd = os.path.join(folder, "odd.onnx")
with open(odd, "wb") as out:
    out.write(onnx_model(b"Relu", name=b"/model/" + b"layer/" * 60 + b"\x1b[31m/end \xe6\xa8\xa1"))
result = check("a long name with odd characters", run("run", odd, "--zeros", "--profile"), 0, "/model/layer/", "..", "?[31m/end 模")
require("a long name is cut", "\x1b" not in result.stdout and all(len(line) <= 120 for line in result.stdout.split("\n")), result.stdout)

# ---- compiling
result = check("compile", run("compile", model, "-o", qrm, "--profile=" + table), 0, "digits.qrm")
rows = rows_of(result.stdout, "phase")
require("compile: its phases", rows and rows[0]["phase"] == "compile" and share(rows[0]) == 100, result.stdout)
check("compile --check has no profile", run("compile", model, "--check", "--profile"), 2, "--check")
result = check("run: making the session", run("run", model, image, "--profile"), 0)
require("run: loading is reported", "load" in [row.get("phase", "") for row in rows_of(result.stdout, "phase")], result.stdout)

shutil.rmtree(folder)
finish()
