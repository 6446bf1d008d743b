#!/usr/bin/env python3
"""Judges a report of `quarry conform --json`: nothing failed, enough passed, and every refusal names an operator or a type.

check_report.py REPORT --at-least N [--operators FILE]

With --operators (a list of the operators that Quarry promises), of the cases that use only those at least 95 % must have passed.
"""
import argparse
import json
import os
import sys

parser = argparse.ArgumentParser()
parser.add_argument("report")
parser.add_argument("--at-least", type=int, default=0)
parser.add_argument("--operators")
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
if args.operators:
    promised = set(open(args.operators).read().split())
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
