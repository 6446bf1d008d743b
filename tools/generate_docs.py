#!/usr/bin/env python3
"""Writes the parts of docs/ that come from tables: options.md, operators.md (from the built program), errors.md (from base/error_ids.inc) and htp_document.md (from
backends/htp/document.tsv).

    tools/generate_docs.py [--check] QUARRY_PROGRAM

Text written by hand under an error's heading is kept. --check changes nothing and exits with 1 when a file is not up to date.
"""
import difflib
import os
import re
import subprocess
import sys

import op_table

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AREAS = {"C": "Calls, options and objects", "F": "Files and the operating system", "M": "Containers (.qrm)", "G": "Graphs (QIR)", "O": "ONNX import",
         "L": "Loader and plugins", "B": "Backends", "R": "Runs", "T": "Tokenizers", "A": "Adapters"}


def errors(old):
    kept = {}
    for match in re.finditer(r"^### (QR-\w\d{4}).*?\n\n\*.*?\*\n(.*?)(?=^##|\Z)", old, re.M | re.S):
        kept[match.group(1)] = match.group(2).strip()
    table = open(os.path.join(root, "base", "error_ids.inc"), encoding="utf-8").read()
    rows = re.findall(r'^QR_ERROR\((\w+), "(QR-\w\d{4})", (QR_\w+), "((?:[^"\\]|\\.)*)"\)', table, re.M)
    with open(os.path.join(root, "docs", "site", "error_examples.tsv"), encoding="utf-8") as file:
        examples = dict(line.rstrip("\n").split("\t", 1) for line in file)
    out = ["# Error ids", "",
           "Every error carries a stable id. The code says what kind it is (programs branch on that), the message what was found and expected, the hint what to do. "
           "This page is made from `base/error_ids.inc` by `tools/generate_docs.py`; the paragraphs under the headings are written by hand and kept.", ""]
    without = [number for _, number, _, _ in rows if number not in examples]
    if without:
        sys.exit(f"docs/site/error_examples.tsv has no example of {', '.join(without)}: add the message of a real failure")
    bare = []
    area = None
    for name, number, code, hint in rows:
        if number[3] != area:
            area = number[3]
            out += [f"## {AREAS[area]}", ""]
        out += [f"### {number} {name.replace('_', ' ')}", "", f"*{code[3:]}*" , ""]
        if hint:
            out += [f"What to do: {hint}." if not hint.endswith(".") else f"What to do: {hint}", ""]
        if number in examples:
            out += [f"For example: `{examples[number]}`", ""]
        text = re.sub(r"^(?:What to do|For example):.*\n?", "", kept.get(number, ""), flags=re.M).strip()
        if text:
            out += [text, ""]
        else:
            bare.append(number)
    if bare:
        print(f"docs/errors.md has no text under {', '.join(bare)}: write why it comes, and what to do then")
    return "\n".join(out), bare


def program(quarry, *args):
    return subprocess.run([quarry, *args], check=True, capture_output=True, text=True).stdout


def microsoft():
    """The operators of com.microsoft that the importer has a rule for, or that the table of operators has itself."""
    names = {row.name for row in op_table.rows().values() if row.domain == "com.microsoft"}
    rules = open(os.path.join(root, "formats/onnx/rules/rules.inc"), encoding="utf-8").read()
    names |= set(re.findall(r'^QR_IMPORT_RULE\((?:Microsoft|Quantized), "(\w+)"', rules, re.M))
    return sorted(names)


def with_families(table):
    """The table of operators, with the family of each behind its name."""
    family = {name: row.family for name, row in op_table.rows().items()} | {"operator": "family"}
    lines = []
    for line in table.splitlines():
        name, rest = line.removeprefix("|").split("|", 1)
        lines.append(f"|---|---|{rest}" if name == "---" else f"|{name}| {family[name.strip()]} |{rest}")
    return "\n".join(lines) + "\n"


STATES = {"here": "works here", "device": "by the interface", "own": "Quarry's own way", "refused": "refused"}


def htp_document():
    """Rows of the table by section: a key that is a word of code is written as one."""
    out = ["# Qualcomm's HTP document, row by row", "",
           "What the document of the HTP backend and the newest release of ONNX Runtime's QNN provider have, and what becomes of it here. *Works here*: on the emulator, tested. *By the interface*: "
           "the calls and structures that it states, tested on a stand-in for the libraries; the emulator refuses it or has nothing to show. *Refused*: an error with the reason. "
           "This page is made from `backends/htp/document.tsv` by `tools/generate_docs.py`; a key of the provider's library that is not in it fails a test, and so does a row without one. [Options](htp/options.md) says more of each option.", ""]
    section = None
    for number, line in enumerate(open(os.path.join(root, "backends/htp/document.tsv"), encoding="utf-8"), 1):
        if line.startswith("#"):
            continue
        cells = line.rstrip("\n").split("\t")
        if len(cells) != 5 or not all(cells[:4]) or cells[2] not in STATES:
            sys.exit(f"backends/htp/document.tsv, line {number}: found {len(cells)} cells and state '{cells[2] if len(cells) > 2 else ''}', expected section, key, one of {', '.join(STATES)}, how, and its test")
        if cells[0] != section:
            section = cells[0]
            out += [f"## {section}", "", "| what | | how | tested by |", "|---|---|---|---|"] if out[-1] == "" else ["", f"## {section}", "", "| what | | how | tested by |", "|---|---|---|---|"]
        word = lambda text: re.sub(r"(?<![\w`])([a-z]\w*[_.]\w+[\w.]*|[A-Z]+_[A-Z_0-9]+)(?![\w`(])", r"`\1`", text)
        out.append(f"| {word(cells[1])} | {STATES[cells[2]]} | {word(cells[3])} | {cells[4].partition(':')[0].rpartition('/')[2]} |")
    return "\n".join(out) + "\n"


def main():
    check = "--check" in sys.argv
    quarry = [a for a in sys.argv[1:] if a != "--check"][0]
    stale = []

    def write(name, text):
        path = os.path.join(root, "docs", name)
        old = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
        if old == text:
            return
        stale.append(name)
        if check:
            print("\n".join(list(difflib.unified_diff(old.splitlines(), text.splitlines(), name, "generated", lineterm="", n=0))[:20]))
        else:
            open(path, "w", encoding="utf-8").write(text)
            print(f"docs/{name} written")

    path = os.path.join(root, "docs", "errors.md")
    text, bare = errors(open(path, encoding="utf-8").read() if os.path.exists(path) else "")
    write("errors.md", text)
    write("options.md", "# Options\n\nKeys and values are strings: `qr_options_set` in C, `--option key=value` in the program. An unknown key or a bad value is an error that names the nearest key "
          "or the allowed values. Keys known from ONNX Runtime and its QNN execution provider keep their names and values. An option that is for another backend than the session's is checked, "
          "kept out of the way, logged and listed in `qr_session_report`: a configuration may hold the options of several backends. The column \"in\" says what an option has a part in: what is compiled (and so stands in a container), an opened model or session (load), or runs; \"at run time\": `qr_session_set_option` takes it. \"each ...\" is one value, or one for each machine that another option lists, with commas between. This page is the output of `quarry options --markdown`.\n\n" +
          program(quarry, "options", "--markdown"))
    write("operators.md", "# Operators\n\nEach ONNX opset from 7 to 28 is rewritten to one normal form; a backend then sees one version of each operator. `quarry.Custom` stands for every operator that Quarry does not know: a backend says for each by name whether it has a package for it. This page is the output of `quarry ops --markdown`, with the family of each operator from `graph/ops/ops.inc`. native: by kernels or operations of the backend; decomposed: as operators that it has; by the reference: by the kernels of cpu-reference, within cpu; by the host: where data-dependent shapes are asked for (`gpu.tail=host`). Resize with align_corners and constant scales stretches to the length that the model states for its result (value_info or output), as PyTorch and ONNX Runtime do, else to scale times length, as ONNX has it.\n\n" +
          with_families(program(quarry, "ops", "--markdown")) +
          "\n## com.microsoft\n\nThese operators of ONNX Runtime's own domain are read too, as the ones above: " + ", ".join(microsoft()) + ".\n")
    write("htp_document.md", htp_document())
    if check and stale:
        print(f"not up to date: {', '.join(stale)}; run tools/generate_docs.py {quarry}")
    if bare or (check and stale):
        sys.exit(1)


main()
