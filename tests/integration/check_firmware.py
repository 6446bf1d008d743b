#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs as a firmware has them: each one file, static and position-independent, with the core and the cpu backend in it. What their ELF files are, what they weigh
(tests/tidy/budgets.txt), and what they answer: on x86_64 in a root that holds the program and its files alone, elsewhere under qemu.

check_firmware.py FOLDER MACHINE SOURCE_ROOT CONTAINER    FOLDER: has `hello` and `digits`, as tools/test_musl.sh links them
"""
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import sizes

folder, machine, root, container = sys.argv[1:5]
budgets = sizes.read_budgets(os.path.join(root, "tests", "tidy", "budgets.txt"))


def told(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}, expected 0\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def check_file(path):
    header, program, dynamic = (told("readelf", option, "-W", path) for option in ("-h", "-l", "-d"))
    if not re.search(r"Type:\s+DYN", header):
        sys.exit(f"FAILED: {path}: found {re.search(r'Type:.*', header)[0]!r}, expected DYN: a program that runs at any address")
    if "INTERP" in program or "(NEEDED)" in dynamic:
        sys.exit(f"FAILED: {path} needs a loader or a library, expected that everything is in it\n{dynamic}")
    budget, size = sizes.budget_of(f"musl/{os.path.basename(path)}", budgets), os.path.getsize(path)
    print(f"   {machine}: {os.path.basename(path)}: {size:,} bytes")
    if size > budget.bytes:
        sys.exit(f"FAILED: {path}: found {size:,} bytes, expected at most {budget.bytes:,} (tests/tidy/budgets.txt)")


def run(work, program, *arguments):
    """In `work`, which is all that there is on a machine of its own."""
    if machine != platform.machine():
        return told(f"qemu-{machine}", f"./{program}", *arguments, cwd=work)
    if os.geteuid() != 0:  # chroot is root's
        return told(f"./{program}", *arguments, cwd=work)
    return told("chroot", work, f"/{program}", *arguments)


with tempfile.TemporaryDirectory() as work:
    for program in ("hello", "digits"):
        check_file(f"{folder}/{program}")
        shutil.copy(f"{folder}/{program}", work)
    shutil.copy(container, f"{work}/digits.qrm")
    for name in ("test_images.npy", "test_labels.npy", "ort_scores.npy"):
        shutil.copy(f"{root}/models/digits/{name}", work)
    answer = run(work, "hello", "digits.qrm")
    if "f32, 40 bytes" not in answer:
        sys.exit(f"FAILED: hello digits.qrm: found {answer!r}, expected ten numbers")
    # Exit status 0: 97 % right, and ONNX Runtime's scores.
    print(f"   {machine}:", run(work, "digits", ".", "digits.qrm").strip().splitlines()[-1])
