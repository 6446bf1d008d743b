#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a release build weighs and what it took to compile: each library, plugin and object against its budget.

  tools/sizes.py BUILD [--budgets FILE] [--top N] [--also NAME=FILE] [--lacks PATTERN] [--check [--times]]

BUILD is a folder that meson made (--buildtype=release). Bytes are those of what is loaded: of a stripped file for libraries, plugins and programs, of the
sections of code and data for objects. Seconds are those that ninja last took for an object, while others were compiled beside it. `--check` ends with 1 where
something is over its budget (tests/tidy/budgets.txt says how much each may have), or where a budget names nothing of the build.
"""
import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Budget:
    """A line of budgets.txt: pattern, bytes, seconds ("-": none)."""

    def __init__(self, words):
        self.pattern = words[0]
        self.bytes = None if words[1] == "-" else int(float(words[1][:-1]) * {"k": 1e3, "M": 1e6}[words[1][-1]])
        self.seconds = None if words[2] == "-" else float(words[2])
        self.used = False


def read_budgets(path):
    lines = [line.split("#")[0].split() for line in open(path, encoding="utf-8")]
    return [Budget(words) for words in lines if words]


def budget_of(name, budgets):
    """The first line that fits: exceptions stand before what holds for all."""
    for budget in budgets:
        if fnmatch.fnmatch(name, budget.pattern):
            budget.used = True
            return budget
    return None


def section_bytes(objects):
    """Bytes of code and data of objects; unwind tables and what is read by the linker alone count as what `size` makes of them."""
    found = {}
    for start in range(0, len(objects), 200):
        told = subprocess.run(["size", *objects[start:start + 200]], capture_output=True, text=True, check=True).stdout
        for line in told.splitlines()[1:]:
            words = line.split(None, 5)
            found[words[5]] = int(words[0]) + int(words[1])
    return found


def stripped_bytes(path):
    with tempfile.NamedTemporaryFile() as out:
        subprocess.run(["strip", "-o", out.name, path], check=True)
        return os.path.getsize(out.name)


def compile_seconds(build):
    """What ninja's log says of each output: the last line holds."""
    seconds = {}
    for line in open(os.path.join(build, ".ninja_log"), encoding="utf-8"):
        words = line.rstrip("\n").split("\t")
        if len(words) == 5:
            seconds[words[3]] = (int(words[1]) - int(words[0])) / 1000
    return seconds


def outputs(build):
    """What is built and loaded, and the objects that it is made of; what only tests and examples are made of is not looked at."""
    wholes, objects = [], []
    for target in subprocess.run(["ninja", "-C", build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout.splitlines():
        name = target.split(": ")[0]
        if name.startswith(("tests/", "examples/", "bindings/")) or not os.path.isfile(os.path.join(build, name)):
            continue
        if re.search(r"\.so(\.[0-9.]+)?$", name) or name in ("tools/quarry",):
            wholes.append(name)
        elif name.endswith(".o") or name.endswith(".gch"):
            objects.append(name)
    return sorted(wholes), sorted(objects)


def short(name):
    """kernels/cpu/libquarry-kernels-avx2.a.p/elementwise_cast.cpp.o as kernels/cpu/kernels-avx2/elementwise_cast.cpp"""
    folder, _, rest = name.partition(".p/")
    if not rest:
        return name
    library = re.sub(r"(\.a|\.so[.0-9]*)$", "", os.path.basename(folder))
    return f"{os.path.dirname(folder)}/{library.removeprefix('libquarry-').removeprefix('quarry-')}/{rest.removesuffix('.o')}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--budgets", default=os.path.join(root, "tests/tidy/budgets.txt"))
    parser.add_argument("--top", type=int, default=25, help="objects to list, the largest and those that took longest (default 25)")
    parser.add_argument("--also", metavar="NAME=FILE", action="append", default=[], help="another file to weigh, under the name that its budget has")
    parser.add_argument("--lacks", metavar="PATTERN", action="append", default=[], help="budgets of this name are for what was not built")
    parser.add_argument("--check", action="store_true", help="end with 1 where something is over its budget")
    parser.add_argument("--times", action="store_true", help="with --check: seconds too, for a build that nothing else ran beside")
    arguments = parser.parse_args()
    budgets = read_budgets(arguments.budgets)
    wholes, objects = outputs(arguments.build)
    if not wholes or not objects:
        sys.exit(f"{arguments.build}: found no library, expected a folder in which ninja has built")
    seconds = compile_seconds(arguments.build)
    sizes = section_bytes([os.path.join(arguments.build, name) for name in objects if name.endswith(".o")])
    rows, over = [], []

    def add(name, size, took):
        budget = budget_of(short(name), budgets)
        row = (short(name), size, budget and budget.bytes, took, budget and budget.seconds)
        rows.append(row)
        if budget and budget.bytes is not None and size > budget.bytes:
            over.append(f"{row[0]}: found {size:,} bytes, expected at most {budget.bytes:,}")
        if arguments.times and budget and budget.seconds is not None and took is not None and took > budget.seconds:
            over.append(f"{row[0]}: found {took:.1f} s of compiling, expected at most {budget.seconds:g}")

    for name in wholes:
        add(name, stripped_bytes(os.path.join(arguments.build, name)), None)
    for name, _, path in (one.partition("=") for one in arguments.also):
        add(name, stripped_bytes(path), None)
    whole_count = len(rows)
    for name in objects:
        add(name, sizes.get(os.path.join(arguments.build, name), 0), seconds.get(name))
    told = rows[:whole_count] + sorted(set(sorted(rows[whole_count:], key=lambda r: -r[1])[:arguments.top] + sorted(rows[whole_count:], key=lambda r: -(r[3] or 0))[:arguments.top]), key=lambda r: -r[1])
    number = lambda value, pattern: "-" if value is None else format(value, pattern)
    print(f"{'bytes':>12} {'budget':>12} {'seconds':>8} {'budget':>7}  what")
    for name, size, allowed, took, limit in told:
        print(f"{size:12,} {number(allowed, ','):>12} {number(took, '.1f'):>8} {number(limit, 'g'):>7}  {name}")
    print(f"{sum(r[1] for r in rows[whole_count:]):12,} bytes in {len(objects)} objects, {sum(r[3] or 0 for r in rows):.0f} s of compiling (ninja's log)")
    for budget in budgets:
        if not budget.used and not any(fnmatch.fnmatch(budget.pattern, pattern) for pattern in arguments.lacks):
            over.append(f"budget {budget.pattern}: found nothing of that name in {arguments.build}, expected what it is for")
    if arguments.check:
        for problem in over:
            print(f"over budget: {problem}")
        return 1 if over else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
