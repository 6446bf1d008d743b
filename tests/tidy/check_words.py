#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds retired words (retired_words.txt), and files that a README or ARCHITECTURE.md names and that are not there.

check_words.py SOURCE_ROOT
"""
import glob
import io
import os
import re
import subprocess
import sys
import tokenize

root = sys.argv[1]
here = os.path.dirname(os.path.abspath(__file__))
problems = []


def tracked():
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], check=True, capture_output=True, text=True).stdout
        return [f for f in listed.splitlines() if os.path.exists(os.path.join(root, f))]
    except (OSError, subprocess.CalledProcessError):  # a release archive
        found = []
        for folder, folders, names in os.walk(root):
            folders[:] = [d for d in folders if not d.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(folder, name), root) for name in names]
        return found


def read(path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


lists, rules = {}, []
for line in open(os.path.join(here, "retired_words.txt"), encoding="utf-8"):
    line = line.rstrip("\n")
    if line.startswith("$"):
        name, words = line.split("=", 1)
        lists[name.strip("$ ")] = words.split()
    elif line and not line.startswith("#"):
        expression, _, rest = line.partition(" => ")
        instead, _, paths = rest.partition(" @ ")
        rules.append((re.compile(expression, re.I), instead, re.compile(paths) if paths else None))


def covered(path, name):
    return any(path == one or path.startswith(one + "/") for one in lists[name]) and path not in lists["not"]


# A string, or a comment: whichever begins first.
PIECE = re.compile(r'(?P<text>R"\((?:.*?)\)"|"(?:[^"\\\n]|\\.)*")|(?P<comment>//[^\n]*(?:\n\s*//[^\n]*)*|/\*.*?\*/)|\'(?:[^\'\\\n]|\\.)\'', re.S)


def report(path, text, begin, what):
    for expression, instead, elsewhere in rules:
        if elsewhere and elsewhere.search(path):
            continue
        for match in expression.finditer(text):
            number = read(path).count("\n", 0, begin + match.start()) + 1
            problems.append(f'{path}:{number}: "{match[0]}" in {what}, expected: {instead} (tests/tidy/retired_words.txt)')


def pieces_of_python(source):
    """Comments and strings, with where each begins."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in STRINGS or token.type == tokenize.COMMENT:
            text = re.sub(r"\{[^{}\n]*\}", lambda m: " " * len(m[0]), token.string) if token.string[:2].lower() in ('f"', "f'", "rf") else token.string
            yield "a comment" if token.type == tokenize.COMMENT else "a text", text, starts[token.start[0] - 1] + token.start[1]


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
files = tracked()
looked_at = 0
for path in files:
    if path.endswith(".md") and covered(path, "pages"):
        text = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), read(path), flags=re.M | re.S)
        text = re.sub(r"`[^`\n]*`|\]\([^)\s]*\)", lambda m: " " * len(m[0]), text)  # names and links stay what they are
        # Lines keep their numbers, not their positions: a page is searched line by line.
        begin = 0
        for number, line in enumerate(text.splitlines(), 1):
            for expression, instead, elsewhere in rules:
                if not (elsewhere and elsewhere.search(path)):
                    problems += [f'{path}:{number}: "{m[0]}", expected: {instead} (tests/tidy/retired_words.txt)' for m in expression.finditer(line)]
        looked_at += 1
    elif path.endswith((".c", ".cpp", ".h", ".hpp", ".inc", ".go", ".rs", ".cs")) and (covered(path, "texts") or covered(path, "comments")):
        source = read(path)
        for match in PIECE.finditer(source):
            if match["text"] and covered(path, "texts") and " " in match["text"]:
                report(path, match["text"], match.start(), "a text")
            elif match["comment"] and covered(path, "comments"):
                report(path, re.sub(r'"[^"\n]*"|`[^`\n]*`', lambda m: " " * len(m[0]), match["comment"]), match.start(), "a comment")
        looked_at += 1
    elif path.endswith(".py") and covered(path, "scripts"):
        source = read(path)
        for what, text, begin in pieces_of_python(source):
            if what == "a comment" or " " in text:
                report(path, re.sub(r"`[^`\n]*`", lambda m: " " * len(m[0]), text), begin, what)
        looked_at += 1
    elif os.path.basename(path) in ("meson.build", "meson_options.txt") and covered(path, "scripts"):
        source = read(path)
        for match in re.finditer(r"'(?:[^'\\\n]|\\.)*'|(?P<comment>#[^\n]*)", source):
            if match["comment"] or " " in match[0]:
                report(path, match[0], match.start(), "a comment" if match["comment"] else "a text")
        looked_at += 1

# ---- what READMEs name is there


def exists(folder, name):
    """A file or folder of the tree, by its path from the README's folder or from the root; `name` alone may stand for name.h and name.cpp."""
    name = re.sub(r"\{([^}]*)\}", "*", name)
    for base in (folder, ""):
        for tail in ("", ".*"):
            if glob.glob(os.path.join(root, base, name.rstrip("/") + tail)):
                return True
    return False


NOT_YET = ("backends/cpu/README.md",)  # READMEs whose tables are being written
for path in files:
    if not path.endswith("README.md") or path.startswith(("docs/", "bindings/", "examples/", "packaging/", "models/", "tests/golden")) or path in NOT_YET:
        continue
    folder, columns, room = os.path.dirname(path), [], ""
    for number, line in enumerate(read(path).splitlines(), 1):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            columns, room = [], ""
        elif not columns:
            columns = [i for i, cell in enumerate(cells) if cell in ("file", "folder", "file or folder", "folder or file", "here")] or [-1]
        elif columns != [-1]:
            for i in columns:
                for name in re.findall(r"`([^`]+)`", cells[i]):
                    room = name if len(columns) > 1 and i == columns[0] else room
                    where = os.path.join(folder, room) if len(columns) > 1 and i != columns[0] else folder
                    if not exists(where, name) and not (len(columns) > 1 and exists(folder, name)):
                        problems.append(f"{path}:{number}: {name} is not there")
for path in ["ARCHITECTURE.md"] + [f for f in files if f.endswith("README.md") and f not in NOT_YET]:
    folder = os.path.dirname(path)
    for name in re.findall(r"`((?:backends|base|bindings|docs|examples|formats|graph|include|kernels|loader|passes|prepare|quantize|runtime|tests|tools)/[\w./*<>-]+)`", read(path)):
        if not exists("", re.sub(r"<\w+>", "*", name)) and not exists(folder, re.sub(r"<\w+>", "*", name)):
            problems.append(f"{path}: {name} is not there")

# ---- files that comments name are there: by their path, or the end of it
OTHERS = {"AssertMacros.h", "X.h", "Xlib.h", "windows.h"}  # headers of systems
ends = {path[i:] for path in files for i in [0] + [at.end() for at in re.finditer("/", path)]} | OTHERS
named = re.compile(r"(?<![\w./<-])((?:[\w-]+/)*[\w-]+\.(?:h|hpp|cpp|c|inc|py|cl))\b(?![\w(>])")
commented = re.compile(r"(?://|/\*|^\s*\*|#(?!include|define|if|el|un|pragma|error))(.*)")
for path in files:
    if not path.endswith((".h", ".hpp", ".c", ".cpp", ".inc", ".cl", ".py", ".rs", ".go", ".cs", ".build")) or path.startswith(("docs/", "examples/")):
        continue
    for number, line in enumerate(read(path).splitlines(), 1):
        if comment := commented.search(line):
            problems += [f"{path}:{number}: {name} is not there" for name in named.findall(comment[1]) if name not in ends]

for problem in problems:
    print(f"FAILED {problem}")
print(f"{looked_at} files, {len(rules)} retired words, {len(problems)} problems")
sys.exit(1 if problems else 0)
