#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/site/error_examples.tsv, from which tools/generate_docs.py takes an example for each error id: of the messages that programs got, and of
those that the tests expect word by word, the one that is easiest to read. What is there for ids without a message stays.

error_examples.py MESSAGES       MESSAGES: what collect_messages.c wrote
"""
import os
import re
import sys

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "error_examples.tsv")


# What stands in the table of bad plugins for what depends on the machine.
PLACES = {"path": "quarry-backend-x.so", "id": "x", "machine": "x86_64", "target": "x86_64-linux-glibc", "flavour": "none", "other": "address"}


def read(name):
    with open(name, encoding="utf-8", errors="replace") as file:
        return [line.rstrip("\n").split("\t", 1) for line in file if re.match(r"QR-\w\d{4}\t", line)]


def expected():
    """What the tests compare with as a whole."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if not name.endswith((".cpp", ".c", ".inc")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = re.sub(r'"\s*\n\s*"', "", file.read())
            for number, message in re.findall(r'"(QR-\w\d{4}) ((?:[^"\\]|\\.)+)"\s*[);,}]', text):
                yield number, re.sub(r"\\(.)", r"\1", message)
            for number, message in re.findall(r'^ZOO\(.*"(QR-\w\d{4})", \w+,\s*"((?:[^"\\]|\\.)+)"\)', text, re.M):
                message = re.sub(r"\\(.)", r"\1", message)
                yield number, re.sub(r"\{(\w+)\}", lambda m: PLACES.get(m[1], m[0]), message)


def shown(text):
    """Without the folders of whoever ran it."""
    return re.sub(r"(?<![\w/])/(?:tmp|work|root|home)/(?:[\w.+-]+/)*(?=[\w.+-]+)|\./", "", text)


def cost(text):
    """Long, or of things that only a test would do."""
    strange = len(re.findall(r"[^\x20-\x7e]|\\x|0x[0-9a-f]{6}|[0-9]{7}|test|no-such|bogus|nonsense|/", text))
    return strange * 60 + abs(len(text) - 90) + (0 if "expected" in text else 20)


found = {}
for number, text in [*read(sys.argv[1]), *expected()]:
    text = shown(text)
    if "`" not in text and "{" not in text and not re.search(r"\b(\S+), \1\b|, $|expected at most $| at $", text) and len(text) < 300 and "\ufffd" not in text:
        found.setdefault(number, set()).add(text)
examples = dict(read(path)) if os.path.exists(path) else {}
for number, texts in found.items():
    examples[number] = min(sorted(texts), key=cost)
with open(path, "w", encoding="utf-8") as file:
    file.writelines(f"{number}\t{text}\n" for number, text in sorted(examples.items()))
print(f"{len(found)} ids were met, {len(examples)} have an example")
