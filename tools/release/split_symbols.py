#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes the symbols of an installed tree's ELF files out of them, into files that debuggers find by the build id: split_symbols.py TREE SYMBOLS"""
import os
import re
import shutil
import subprocess
import sys


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def main():
    tree, symbols = sys.argv[1:]
    shutil.rmtree(symbols, ignore_errors=True)
    for folder, _, names in sorted(os.walk(tree)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.islink(path) or not is_elf(path):
                continue
            build_id = re.search(r"Build ID: ([0-9a-f]+)", run("readelf", "-n", path))
            if not build_id:
                sys.exit(f"FAILED: {path}: found no build id, by which its symbols would be found")
            # As gdb looks for it below each folder of debug files: two letters, then the rest.
            place = os.path.join(symbols, ".build-id", build_id[1][:2], build_id[1][2:] + ".debug")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            run("objcopy", "--only-keep-debug", path, place)
            os.chmod(place, 0o644)
            run("strip", "--strip-unneeded", path)


if __name__ == "__main__":
    main()
