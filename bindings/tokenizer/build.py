#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds libquarry-tokenizer with cargo and puts it into a folder by the name that programs open it by.

build.py FOLDER [--work DIR]      --work: where cargo works (default: target/ beside this file)
Exit status 77: cargo is not installed, or the crates of Cargo.lock cannot be had; the last line says why.
"""
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
# By the system: what cargo calls it, what programs open, and a name for the linker.
NAMES = {"linux": ("libquarry_tokenizer.so", "libquarry-tokenizer.so.0", "libquarry-tokenizer.so"), "win32": ("quarry_tokenizer.dll", "libquarry-tokenizer-0.dll", None)}


def main():
    words = sys.argv[1:]
    work = os.path.join(here, "target")
    if "--work" in words:
        at = words.index("--work")
        work = os.path.abspath(words[at + 1])
        del words[at:at + 2]
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
    print(target)


if __name__ == "__main__":
    main()
