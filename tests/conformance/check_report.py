#!/usr/bin/env python3
"""Checks a report of `quarry conform --json`: nothing failed, enough passed, and every refusal names an operator or a type.

check_report.py REPORT --at-least N [--promised]

With --promised, of the cases that use promised operators alone at least 95 % must have passed: those of the op table with the trait Promised, and those that
the importer writes as such.
"""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import op_table

# Promised, but no rows of the table: formats/onnx/rules writes them as operators that are.
REWRITTEN = {"Constant", "SimplifiedLayerNormalization", "Upsample", "com.microsoft.DequantizeLinear", "com.microsoft.Gelu", "com.microsoft.QuantizeLinear",
             "com.microsoft.SimplifiedLayerNormalization"}

parser = argparse.ArgumentParser()
parser.add_argument("report")
parser.add_argument("--at-least", type=int, default=0)
parser.add_argument("--promised", action="store_true")
args = parser.parse_args()
report = json.load(open(args.report))
problems = []
if report["failed"]:
    problems.append(f"{report['failed']} cases failed")
if report["passed"] < args.at_least:
    problems.append(f"{report['passed']} cases passed, expected at least {args.at_least}")
for case in report["cases"]:
    if case["result"] == "refused" and len(case.get("reason", "")) < 20:
        problems.append(f"{case['name']} is refused without a reason")
text = f"{report['passed']} passed, {report['failed']} failed, {report['refused']} refused"
if args.promised:
    promised = REWRITTEN | {name for name, row in op_table.rows().items() if "Promised" in row.traits}
    counted = [case for case in report["cases"] if case.get("operators") is not None and set(case["operators"]) <= promised]
    done = sum(case["result"] == "passed" for case in counted)
    share = 100 * done / max(len(counted), 1)
    text += f"; of the {len(counted)} cases with promised operators alone {done} passed ({share:.1f} %)"
    if counted and share < 95:
        problems.append(f"only {share:.1f} % of the cases with promised operators passed, expected 95 %")
        problems += [f"  {case['name']}: {case.get('reason', '')[:160]}" for case in counted if case["result"] != "passed"]
print("   " + text)
for problem in problems:
    print("   " + problem)
sys.exit(1 if problems else 0)
