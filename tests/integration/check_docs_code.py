#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code in the docs: blocks behind `<!-- test -->` are taken from each page, put together to one program for each language, compiled against an installed
tree as the page says, and run. The programs of the cookbook do the same things, so all of them must print the same, which `quarry run` says too.

check_docs_code.py PREFIX WORK [--python PYTHON]     PREFIX: of `meson install --destdir`; PYTHON: one that has the package `quarry`
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from docs_code import WAYS, environment, program, root, work

failed, passed, skipped = [], 0, []


def blocks(page):
    """The marked blocks of a page by their language, one text each."""
    found = {}
    with open(os.path.join(root, page), encoding="utf-8") as file:
        text = file.read()
    marks = len(re.findall(r"^<!-- test -->$", text, re.M))
    for language, code in re.findall(r"^<!-- test -->\n```(\w+)\n(.*?)^```$", text, re.M | re.S):
        found[language] = found.get(language, "") + code
        marks -= 1
    if marks:
        sys.exit(f"FAILED: {page}: {marks} marks without a block behind them")
    return found


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
model = f"{root}/models/digits/digits.onnx"
answer = json.loads(subprocess.run([program[0], "run", model, "--zeros", "--json", "--top", "1"], capture_output=True, text=True, env=environment, check=True).stdout)
digit = answer["runs"][0]["outputs"][0]["top"][0]["index"]
EXPECTED = f"run: {digit}\nsubmit: {digit}\nstop: cancelled\nmemory: {digit}\nprofile: has nodes\n"
pages = ["README.md"] + sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/docs/**/*.md", recursive=True))
cookbooks = 0
for page in pages:
    for language, code in blocks(page).items():
        if language not in WAYS:
            sys.exit(f"FAILED: {page}: nobody knows how to test a block of '{language}'")
        way, can = WAYS[language]
        cookbook = page.startswith("docs/cookbook/")
        cookbooks += cookbook
        if not can():
            skipped.append(language)
            continue
        folder = os.path.join(work, page.replace("/", "-")[:-3] + "-" + language)
        os.makedirs(folder)
        shutil.copy(model, folder)
        try:
            printed = way(folder, code)
            if cookbook and printed != EXPECTED:
                raise RuntimeError(f"it printed\n{printed}expected\n{EXPECTED}")
            passed += 1
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(page)
            print(f"   FAILED {page}, its blocks of {language}: {error}")
if cookbooks < 5:
    failed.append("the cookbook")
    print(f"   FAILED: found {cookbooks} pages of the cookbook, expected 5")
print(f"   {passed} programs of the docs ran, {len(failed)} failed" + (f"; not tried here: {', '.join(skipped)}" if skipped else ""))
sys.exit(1 if failed else 0)
