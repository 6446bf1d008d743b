# SPDX-License-Identifier: Apache-2.0
"""What goes into libquarry-tokenizer, as cargo knows it: crates with their licences and the texts of these, which go with the library wherever it is shipped.

licenses.py      compares NOTICE, which names each crate
"""
import json
import os
import re
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
TEXTS = re.compile(r"(LICEN[CS]E|UNLICENSE|COPYING|COPYRIGHT|NOTICE)", re.I)


def cargo(*words):
    done = subprocess.run(["cargo", *words, "--locked", "--offline"], cwd=here, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: cargo {' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


def crates():
    """(name, version, licence, authors, folder) of each crate that is compiled in: none that writes code for the compiler, none that builds or tests want."""
    inside = {tuple(line.split()[:2]) for line in cargo("tree", "-e", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}").splitlines() if line.strip()}
    found = [(of["name"], of["version"], of["license"] or "?", ", ".join(re.sub(r" *<.*?>", "", author) for author in of["authors"]), os.path.dirname(of["manifest_path"]))
             for of in json.loads(cargo("metadata", "--format-version", "1"))["packages"] if (of["name"], "v" + of["version"]) in inside]
    return sorted(one for one in found if one[0] != "quarry-tokenizer")


def write(path):
    """All texts as one file: each once, below the crates that have it."""
    texts, lines = {}, []
    for name, version, licence, authors, folder in crates():
        lines.append(f"{name} {version}: {licence}" + (f" ({authors})" if authors else ""))
        for file in sorted(os.listdir(folder)):
            if TEXTS.match(file) and os.path.isfile(os.path.join(folder, file)):
                with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as text:
                    texts.setdefault(text.read().strip().replace("\r\n", "\n"), []).append(f"{name} {version}: {file}")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write("libquarry-tokenizer has these crates in it:\n\n" + "\n".join(lines) + "\n")
        for text, of in texts.items():
            out.write("\n" + "=" * 100 + "\n" + "\n".join(of) + "\n\n" + text + "\n")


def main():
    with open(os.path.join(here, "..", "..", "NOTICE"), encoding="utf-8") as file:
        section = re.search(r"^Part of libquarry-tokenizer.*?\n(.*?)\n\n", file.read(), re.M | re.S)[1]
    named, inside = set(re.findall(r"^  (\S+)", section, re.M)), {name for name, *_ in crates()}
    if named != inside:
        sys.exit(f"FAILED: NOTICE: libquarry-tokenizer: found {sorted(named - inside)} that are not in it, and not {sorted(inside - named)} that are")
    print(f"   {len(inside)} crates, as NOTICE has them")


if __name__ == "__main__":
    main()
