#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gives Doxygen the comments of the headers, which are plain ones: those above a declaration, and those behind a field."""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
lines = text.split("\n")
for i, line in enumerate(lines):  # "<id>" in a comment is no HTML
    if re.match(r"\s*(/\*| \*|//) ", line) and "#include" not in line:
        lines[i] = re.sub(r"<(?=[\w.]+>)", r"\\<", line)
text = "\n".join(lines)
text = re.sub(r"^(\s*)/\* (?!SPDX|----)", r"\1/** ", text, flags=re.M)
text = re.sub(r"([;,\w)}] *)/\* ", r"\1/**< ", text)
text = re.sub(r"^(\s*)// (?!SPDX)", r"\1/// ", text, flags=re.M)
sys.stdout.write(text)
