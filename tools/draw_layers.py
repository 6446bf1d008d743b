#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws tests/tidy/layers.txt into ARCHITECTURE.md, between the lines that say so.

    tools/draw_layers.py [--check] [SOURCE_ROOT]

--check changes nothing and exits with 1 where the drawing is not up to date (tests/tidy runs it so).
"""
import os
import re
import sys

BEGIN, END = "<!-- drawn by tools/draw_layers.py: begin -->", "<!-- drawn by tools/draw_layers.py: end -->"
SHOWN_AS = {"public": "include/quarry", "plugin": "include/quarry/backend.h", "onnx": "protobuf and onnx"}


def read_layers(root):
    layers, rooms, lists = {}, {}, {}
    with open(os.path.join(root, "tests/tidy/layers.txt"), encoding="utf-8") as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line.startswith("<"):
                continue
            if line.startswith("$"):
                name, words = line.split("=")
                lists[name.strip()] = words.split()
            elif ">" in line:
                folder, order = line.split(">")
                rooms[folder.strip()] = [room for room in order.split() if not room.startswith("+")]
            elif line:
                folder, allowed = line.split(":")
                layers[folder.strip()] = [word for given in allowed.split() for word in lists.get(given, [given])]
    return layers, rooms


def folder_of(word, layers):
    """The folder of the list that a word allows (the longest that holds it), or None: a single file, or a library of others'."""
    word = "include/quarry" if word in ("public", "plugin") else word
    if "." in os.path.basename(word):
        return None
    return word if word in layers else None


def reach(folder, below, seen):
    for one in below[folder]:
        if one not in seen:
            seen.add(one)
            reach(one, below, seen)
    return seen


def draw(root):
    layers, rooms = read_layers(root)
    layers = {folder: words for folder, words in layers.items() if not folder.endswith("/pch")}  # precompiled headers are no layer
    below = {folder: {to for word in words if (to := folder_of(word, layers)) and to != folder} for folder, words in layers.items()}
    for folder, words in layers.items():  # "kernels" allows both of its folders
        below[folder] |= {other for word in words for other in layers if word not in layers and other.startswith(word + "/")}
    level = {}

    def level_of(folder):
        if folder not in level:
            level[folder] = max((level_of(one) + 1 for one in below[folder]), default=0)
        return level[folder]

    for folder in layers:
        level_of(folder)
    included = set().union(*below.values())
    top = max(level.values()) + 1
    level.update({folder: top for folder in layers if folder not in included})  # libraries, plugins and programs
    width = max(map(len, layers))
    out, last = ["what nothing includes: libraries, plugins, programs"], top
    for folder in sorted(layers, key=lambda name: (-level[name], name)):
        direct = below[folder] - {far for near in below[folder] for far in reach(near, below, set())}
        extra = [SHOWN_AS.get(word, word) for word in layers[folder] if word in ("plugin", "onnx") or "." in os.path.basename(word)]
        if sum(word.endswith("options.inc") for word in extra) > 1:
            extra = [word for word in extra if not word.endswith("options.inc")] + ["the backends' options.inc"]
        if last != level[folder]:
            out.append("")
        last = level[folder]
        out.append(f"{folder:{width}}  -> {', '.join(sorted(direct) + extra)}" if direct else folder)
    out += ["", "rooms of a folder: a file may include its own room and those to the left (. is the folder itself)", ""]
    width = max(map(len, rooms))
    for folder, order in rooms.items():
        lines = [""]
        for room in order:
            if len(lines[-1]) + len(room) > 110:
                lines.append("")
            lines[-1] += ("| " if lines[-1] or len(lines) > 1 else "") + room + " "
        out += [f"{folder if i == 0 else '':{width}}  {line.rstrip()}" for i, line in enumerate(lines)]
    return "\n".join(["```text", *out, "```"])


def main():
    arguments = [word for word in sys.argv[1:] if word != "--check"]
    root = arguments[0] if arguments else os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(root, "ARCHITECTURE.md")
    with open(path, encoding="utf-8") as file:
        old = file.read()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        sys.exit(f"FAILED: ARCHITECTURE.md has not the two lines {BEGIN} and {END}")
    new = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda _: f"{BEGIN}\n{draw(root)}\n{END}", old, flags=re.S)
    if "--check" in sys.argv:
        if new != old:
            sys.exit("FAILED: the drawing of ARCHITECTURE.md is not that of tests/tidy/layers.txt: run tools/draw_layers.py")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(new)


main()
