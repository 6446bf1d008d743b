#!/usr/bin/env python3
"""Writes a page as a text of C++, before and behind its data: embed.py OUTPUT NAMESPACE page.html page.css SCRIPT..."""
import sys

out, namespace, page, style, *scripts = sys.argv[1:]


def read(path):
    with open(path, encoding="utf-8") as handle:
        return handle.read()


code = "".join(read(path) for path in scripts)
before, after = read(page).replace("@STYLE@", read(style)).replace("@SCRIPT@", code).split("@DATA@")
with open(out, "w", encoding="utf-8") as handle:
    handle.write("// Made by tools/view/embed.py.\n#pragma once\nnamespace " + namespace + " {\n")
    for name, text in (("kPageBefore", before), ("kPageAfter", after)):
        lines = "".join('\n  "' + line.replace("\\", "\\\\").replace('"', '\\"') + '\\n"' for line in text.split("\n"))
        handle.write(f"inline constexpr char {name}[] ={lines};\n")
    handle.write("}  // namespace " + namespace + "\n")
