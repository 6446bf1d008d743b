#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives the headers one minor ahead and one minor behind of today's; tests build against both.

vary.py check|write CC INCLUDE_DIR ABI_DIR

Ahead: every struct that can grow has one more field at its end, tables and services one more slot. Behind: every struct ends where its first release
did. Headers of the plugin ABI go to <ahead|behind>/plugin, those of the C ABI to <ahead|behind>/embed; a header that would be as today's is left out.
"""
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import headers

LATER_SLOT = "\n  /* since one minor later */\n  void (*later)(void);\n"
LATER_FIELD = "\n  /* since one minor later */\n  uint64_t later;\n"


def is_table(name):
    return name.endswith(("_api", "_sink", "_host", "_host_threads", "qr_plugin"))


def body_of(text, name):
    match = re.search(rf"typedef struct {name} \{{\n(.*?)\n\}} {name};", text, re.S)
    return match.start(1), match.end(1)


def ahead(text, structs):
    for struct in structs:
        end = body_of(text, struct.name)[1]
        text = text[:end] + (LATER_SLOT if is_table(struct.name) else LATER_FIELD).rstrip("\n") + text[end:]
    return re.sub(r"(#define QR_PLUGIN_ABI_MINOR )(\d+)u", lambda m: f"{m.group(1)}{int(m.group(2)) + 1}u", text)


def behind(text, structs, first_sizes):
    for struct in structs:
        first = first_sizes[struct.name]
        kept = sum(struct.places[name][0] < first for name, _ in struct.fields)
        if kept == len(struct.fields):
            continue
        start, end = body_of(text, struct.name)
        body = text[start:end]
        plain = re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group(0)), body, flags=re.S)
        at = -1
        for _ in range(kept):
            at = plain.index(";", at + 1)
        line_end = body.find("\n", at)
        text = text[:start] + body[:line_end if line_end >= 0 else len(body)] + text[end:]
    return re.sub(r"(#define QR_PLUGIN_ABI_MINOR )(\d+)u", lambda m: f"{m.group(1)}{int(m.group(2)) - 1}u", text)


def main():
    command, compiler, include, folder = sys.argv[1:]
    quarry = os.path.join(include, "quarry")
    found = headers.measure(headers.parse(quarry), compiler, [include])
    first_sizes = {name: int(found.constants.get(name.upper() + "_FIRST_SIZE", 0)) for name in found.structs}
    wanted = {}
    for header in sorted(n for n in os.listdir(quarry) if n.endswith(".h")):
        text = open(os.path.join(quarry, header)).read()
        names = headers.parse(quarry, [header]).structs
        structs = [found.structs[name] for name in names if found.structs[name].grows()]
        kind = "plugin" if header == "backend.h" else "embed"
        note = "/* Derived by tests/abi/vary.py: never edited by hand. */\n"
        for age, other in (("ahead", ahead(text, structs)), ("behind", behind(text, structs, first_sizes))):
            if other != text:
                lines = other.split("\n", 1)
                wanted[f"{age}/{kind}/quarry/{header}"] = lines[0] + "\n" + note + lines[1]
    stale = []
    kept = {os.path.relpath(os.path.join(where, name), folder) for age in ("ahead", "behind") for where, _, names in os.walk(os.path.join(folder, age))
            for name in names if name.endswith(".h")}
    for name in sorted(kept - set(wanted)):
        stale.append(name)
        if command == "write":
            os.remove(os.path.join(folder, name))
    for name, text in wanted.items():
        path = os.path.join(folder, name)
        if not os.path.exists(path) or open(path).read() != text:
            stale.append(name)
            if command == "write":
                os.makedirs(os.path.dirname(path), exist_ok=True)
                open(path, "w").write(text)
    if command == "check":
        for name in stale:
            print(f"FAILED tests/abi/{name}: found another text than today's headers give: run `ninja -C build abi-record`")
    print(f"{len(wanted)} headers, {len(stale)} {'written' if command == 'write' else 'out of date'}")
    sys.exit(1 if command == "check" and stale else 0)


if __name__ == "__main__":
    main()
