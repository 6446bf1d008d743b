#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The binary interface as a text: every struct, field, constant and signature of the public headers, and every export of the libraries, against the record.

record.py check|update CC INCLUDE_DIR ABI_TXT ABI_CHANGES_MD [NM LIBRARY...]

An addition wants the record brought up to date: `update` does it, and has vary.py derive the headers of other minors. Anything else is a break, which `update` refuses as well until a new line of
docs/abi-changes.md names each symbol that it breaks. The record counts the lines it has seen, so an old line allows no later break.
Without a library the exports of the record stay as they are.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import headers

USED = "lines of docs/abi-changes.md"


def first_size_name(struct):
    return struct.upper() + "_FIRST_SIZE"


def rows_of(found, exports):
    """The record: a dict from what a row names to the rest of it."""
    rows = {}
    for name, struct in sorted(found.structs.items()):
        rows[f"struct {name}"] = f"{struct.size} {'grows' if struct.grows() else 'frozen'}"
        for field, kind in struct.fields:
            offset, size = struct.places[field]
            rows[f"field {name}.{field}"] = f"{offset} {size} {kind}"
    rows.update((f"constant {name}", value) for name, value in sorted(found.constants.items()))
    rows.update((f"constant {name}", value) for name, value in sorted(found.texts.items()))
    rows.update((f"type {name}", value) for name, value in sorted(found.types.items()))
    rows.update((f"function {name}", value) for name, value in sorted(found.functions.items()))
    rows.update((f"export {name}", "") for name in sorted(exports))
    return rows


def exports_of(nm, *libraries):
    lines = subprocess.run([nm, "-D", "--defined-only", *libraries], check=True, capture_output=True, text=True).stdout.splitlines()
    lines = [line for line in lines if len(line.split()) > 2]  # between libraries stand their names
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[1] not in "Aa"}


def read(path):
    rows, used = {}, 0
    for line in open(path) if os.path.exists(path) else []:
        line = line.rstrip("\n")
        if line.startswith(USED):
            used = int(line.rsplit(" ", 1)[1])
        elif line and not line.startswith("#"):
            kind, name, *rest = line.split(" ", 2)
            rows[f"{kind} {name}"] = rest[0] if rest else ""
    return rows, used


def faults_of(found):
    """What is wrong with the headers whatever the record says."""
    faults = []
    for name, struct in sorted(found.structs.items()):
        first = found.constants.get(first_size_name(name))
        if not struct.grows():
            if first is not None:
                faults.append(f"{name}: found {first_size_name(name)}, expected none: the struct does not begin with struct_size or is FROZEN")
            continue
        if first is None:
            faults.append(f"{name}: found no {first_size_name(name)}, expected one: the struct can grow")
        elif int(first) > struct.size:
            faults.append(f"{name}: found {struct.size} bytes, expected at least its first size, {first}")
        elif int(first) not in {sum(place) for place in struct.places.values()}:
            faults.append(f"{name}: found a first size of {first}, expected the end of a field")
    return faults


def compare(old, new):
    """Additions, and breaks as (symbol, text)."""
    additions, breaks = [], []
    for key, row in new.items():
        kind, name = key.split(" ", 1)
        if key not in old:
            struct = name.split(".")[0]
            before = old.get(f"struct {struct}") if kind == "field" else None
            if before and (before.endswith("frozen") or int(row.split()[0]) < int(before.split()[0])):
                breaks.append((name, f"{key}: found it new at {row.split()[0]}, expected nothing new before the end of a struct, nor in a frozen one"))
            else:
                additions.append(key)
        elif old[key] != row:
            was, now = old[key], row
            if kind == "struct" and was.endswith("grows") and now.endswith("grows") and int(now.split()[0]) > int(was.split()[0]):
                additions.append(key)
            elif name == "QR_PLUGIN_ABI_MINOR" and int(now) > int(was):
                additions.append(key)
            else:
                breaks.append((name, f"{key}: found {now}, expected {was}"))
    breaks += [(key.split(" ", 1)[1], f"{key}: found none, expected {row or 'it'}") for key, row in old.items() if key not in new]
    return additions, breaks


def main():
    command, compiler, include, record_path, changes_path, *library = sys.argv[1:]
    found = headers.measure(headers.parse(os.path.join(include, "quarry")), compiler, [include])
    old, used = read(record_path)
    exports = exports_of(*library) if library else {key.split(" ")[1] for key in old if key.startswith("export ")}
    new = rows_of(found, exports)
    lines = [line for line in open(changes_path) if line.startswith("- ")]
    additions, breaks = compare(old, new)
    named = {symbol for line in lines[used:] for symbol in re.findall(r"`(\w+(?:\.\w+)?)`", line)}
    untold = [text for symbol, text in breaks if symbol not in named and symbol.split(".")[0] not in named]
    problems = faults_of(found)
    problems += [f"{text}; not an addition: docs/abi-changes.md needs a new line that names it and says why" for text in untold]
    if len(lines) < used:
        problems.append(f"docs/abi-changes.md: found {len(lines)} lines, expected the {used} that the record has seen")
    if command == "update" and not problems:
        with open(record_path, "w") as out:
            out.write("# Written by tests/abi/record.py, never by hand.\n")
            out.write(f"{USED} {len(lines)}\n")
            out.writelines(f"{key} {row}".rstrip() + "\n" for key, row in new.items())
        subprocess.run([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "vary.py"), "write", compiler, include,
                        os.path.dirname(os.path.abspath(record_path))], check=True)
        print(f"{len(new)} rows: {len(additions)} added or grown, {len(breaks)} broken as docs/abi-changes.md says")
    elif command == "check" and not problems and (additions or breaks or used != len(lines)):
        problems.append(f"the record is behind by {len(additions)} additions ({', '.join(additions[:5])}), {len(breaks)} breaks and "
                        f"{len(lines) - used} lines of docs/abi-changes.md: run `ninja -C build abi-record`")
    for problem in problems:
        print(f"FAILED {problem}")
    if not problems and command == "check":
        print(f"{len(new)} rows as recorded")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
