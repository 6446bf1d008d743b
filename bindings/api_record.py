# SPDX-License-Identifier: Apache-2.0
"""A binding's public names as a text, against its record: what tests/abi/record.py is for the C ABI. Each check.py gathers its own; `check.py ... --record` writes what is new.

An addition only wants a new record. A name that goes, or that says something else, is a break: it is refused until a new line of docs/abi-changes.md names it in
backticks. The record counts the lines it has seen, so an old line allows no later break.
"""
import os
import re
import sys

CHANGES = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "abi-changes.md")
USED = "# lines of docs/abi-changes.md:"


def read(path):
    rows, used = {}, 0
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            for line in file.read().splitlines():
                if line.startswith(USED):
                    used = int(line[len(USED):])
                elif not line.startswith("#"):
                    name, _, rest = line.partition("\t")
                    rows[name] = rest
    return rows, used


def breaks_of(old, new):
    """Breaks as (name, text)."""
    gone = [(name, f"{name}: found none, expected {rest or 'it'}") for name, rest in old.items() if name not in new]
    return gone + [(name, f"{name}: found '{new[name]}', expected '{rest}'") for name, rest in old.items() if name in new and new[name] != rest]


def check(path, rows, update=False):
    """Ends the program where the public names `rows` (a name each, and what it is) are not those of the record."""
    old, used = read(path)
    with open(CHANGES, encoding="utf-8") as file:
        lines = [line for line in file if line.startswith("- ")]
    named = {name for line in lines[used:] for name in re.findall(r"`([^`]+)`", line)}
    untold = [text for name, text in breaks_of(old, rows) if name not in named]
    if untold:
        sys.exit("FAILED: " + "\n        ".join(untold) + "\nnot an addition: docs/abi-changes.md needs a new line that names it in backticks and says why")
    if update:
        with open(path, "w", encoding="utf-8") as out:
            out.write(f"# Written by check.py --record, never by hand.\n{USED} {len(lines)}\n")
            out.writelines(f"{name}\t{rest}".rstrip() + "\n" for name, rest in sorted(rows.items()))
    elif old != rows:
        news = [name for name in rows if old.get(name) != rows[name]]
        sys.exit(f"FAILED: {os.path.basename(path)} is not up to date: {', '.join(news[:8])}: run check.py with --record")
    print(f"   {len(rows)} public names, as {os.path.basename(path)} has them")
