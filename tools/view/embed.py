#!/usr/bin/env python3
"""Writes a page as a text of C++, before and behind its data: embed.py OUTPUT NAMESPACE page.html page.css SCRIPT...
Or any other text, under a name: embed.py OUTPUT NAMESPACE NAME TEXT
"""
import sys

out, namespace, *inputs = sys.argv[1:]


def read(path):
    with open(path, encoding="utf-8") as handle:
        return handle.read()


if len(inputs) == 2:
    texts = ((inputs[0], read(inputs[1])),)
else:
    page, style, *scripts = inputs
    code = "".join(read(path) for path in scripts)
    before, after = read(page).replace("@STYLE@", read(style)).replace("@SCRIPT@", code).split("@DATA@")
    texts = (("kPageBefore", before), ("kPageAfter", after))
with open(out, "w", encoding="utf-8") as handle:
    handle.write("// Made by tools/view/embed.py.\n#pragma once\nnamespace " + namespace + " {\n")
    for name, text in texts:
        lines = "".join('\n  "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.split("\n"))
        handle.write(f"inline constexpr char {name}[] ={lines};\n")
    handle.write("}  // namespace " + namespace + "\n")
