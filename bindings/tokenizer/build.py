#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds libquarry-tokenizer with cargo and puts it into a folder by the name that programs open it by.

build.py FOLDER [--work DIR] [--licenses FILE]      --work: where cargo works (default: target/ beside this file); --licenses: writes the texts of what goes into it
build.py --tree TREE [--work DIR]                   beside the libquarry of an installed tree, with its texts in share/licenses/quarry
Exit status 77: cargo is not installed, or the crates of Cargo.lock cannot be had; the last line says why.
"""
import glob
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
import licenses  # noqa: E402

# By the system: what cargo calls it, what programs open, and a name for the linker.
NAMES = {"linux": ("libquarry_tokenizer.so", "libquarry-tokenizer.so.0", "libquarry-tokenizer.so"), "win32": ("quarry_tokenizer.dll", "libquarry-tokenizer-0.dll", None)}


LICENSES = "share/licenses/quarry/libquarry-tokenizer.txt"  # below the prefix of an installed tree


def after(words, flag):
    """What stands behind a flag, which is taken away; or nothing."""
    if flag not in words[:-1]:
        return ""
    at = words.index(flag)
    value = os.path.abspath(words[at + 1])
    del words[at:at + 2]
    return value


def main():
    words = sys.argv[1:]
    work, texts, tree = after(words, "--work") or os.path.join(here, "target"), after(words, "--licenses"), after(words, "--tree")
    if tree and not words:
        found = glob.glob(f"{tree}/**/libquarry.so", recursive=True)
        if len(found) != 1:
            sys.exit(f"FAILED: {tree}: found {len(found)} libquarry.so, expected one")
        words = [os.path.dirname(found[0])]
        texts = os.path.join(words[0][:words[0].rindex("/lib")], LICENSES)
    if len(words) != 1:
        sys.exit(__doc__)
    if not shutil.which("cargo"):
        print("cargo is not installed")
        sys.exit(77)
    environment = {**os.environ, "CARGO_TARGET_DIR": work}
    fetched = subprocess.run(["cargo", "fetch", "--locked"], cwd=here, env=environment, capture_output=True, text=True)
    if fetched.returncode != 0:
        print(f"the crates of Cargo.lock cannot be fetched: {(fetched.stderr.strip().splitlines() or ['?'])[-1]}")
        sys.exit(77)
    done = subprocess.run(["cargo", "build", "--release", "--locked", "--offline"], cwd=here, env=environment)
    if done.returncode != 0:
        sys.exit("FAILED: cargo build: see above")
    made, opened, linked = NAMES[sys.platform]
    os.makedirs(words[0], exist_ok=True)
    target = os.path.join(words[0], opened)
    shutil.copy(os.path.join(work, "release", made), target + ".new")
    os.replace(target + ".new", target)  # who has it open keeps the old one
    if linked:
        link = os.path.join(words[0], linked)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(opened, link)
    if texts:
        licenses.write(texts)
    print(target)


if __name__ == "__main__":
    main()
