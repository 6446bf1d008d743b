#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The musllinux wheel: its tag and its files (wheel_file.py), and what a user does with it in a root of musl with CPython in it (musl_root.py): the README's example, the
program, the package's tests; and what is said of libraries that are linked with glibc. Of another machine's wheel the example and the tests of runs, under qemu.

check_musl_wheel.py FOLDER WORK MACHINE CROSS    FOLDER: has the wheel; CROSS: the folder of tools/cross/zig/zig.sh for MACHINE
"""
import glob
import os
import platform
import re
import shutil
import subprocess
import sys

import musl_root
import wheel_file

folder, work, machine, cross = (*map(os.path.abspath, sys.argv[1:3]), sys.argv[3], os.path.abspath(sys.argv[4]))
root = musl_root.root
python = f"{root}/bindings/python"
own_machine = machine == platform.machine()
if own_machine and os.geteuid() != 0:
    sys.exit("a root of musl is entered by root alone: run it as root")
wheel, = glob.glob(f"{folder}/quarry_runtime-*.whl")
os.makedirs(work, exist_ok=True)
shutil.rmtree(f"{work}/files", ignore_errors=True)
wheel_file.examine(wheel, f"musllinux_1_2_{machine}", f"{work}/files")

path = f"{work}/root"
musl_root.make(path, cross, machine)
shutil.rmtree(f"{path}/site", ignore_errors=True)
wanted = dict(re.findall(r"^([\w-]+)==(\S+)$", open(f"{python}/requirements-test.txt", encoding="utf-8").read(), re.M))
# pip checks the tag, too.
musl_root.pip(cross, "install", "--target", f"{path}/site", *musl_root.for_musl(machine), wheel, *(f"{name}=={wanted[name]}" for name in ("cffi", "numpy", "pytest")))

# A test of the package reads which hints the library's sources have.
parts = "backends base formats graph loader passes prepare quantize runtime"
os.makedirs(f"{path}/quarry", exist_ok=True)
musl_root.must("sh", "-c", f"cd '{root}' && git ls-files -z models bindings/python {parts} | tar -c --null --ignore-failed-read -T - | tar -x -C '{path}/quarry'")
checkout = "/quarry" if own_machine else f"{path}/quarry"
environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "PYTHONPATH": "/site", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/tmp", "LANG": "C.UTF-8"}


def run(*what, status=0, **more):
    full = [f"/usr/bin/{what[0]}", *what[1:]]
    done = subprocess.run(musl_root.command(path, machine, *full), capture_output=True, text=True, env={**environment, **more}, timeout=1800)
    if done.returncode != status:
        sys.exit(f"FAILED: {' '.join(what)[:300]}: exit status {done.returncode}, expected {status}\n{done.stdout[-6000:]}{done.stderr[-4000:]}")
    return done.stdout


print("  ", run("python3", "-c", "import sys, cffi, numpy; print('CPython', sys.version.split()[0], sys.implementation._multiarch, 'numpy', numpy.__version__, 'cffi', cffi.__version__)").strip())
example = re.search(r"```python\n(import numpy.*?)```", open(f"{python}/README.md", encoding="utf-8").read(), re.S)[1]
printed = run("python3", "-c", f"import os\nos.chdir({checkout!r})\n{example}")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the README's example printed {printed!r}")
print("  ", printed.strip())
tests = ["--ignore", f"{checkout}/bindings/python/tests/onnx_suite.py", f"{checkout}/bindings/python/tests"] if own_machine else [f"{checkout}/bindings/python/tests/test_run.py"]
print("  ", run("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests).strip().splitlines()[-1])
if own_machine:
    quarry = ["python3", "-m", "quarry"]
    print("  ", run(*quarry, "run", f"{checkout}/models/digits/digits.onnx", f"{checkout}/models/digits/images/digit_3.png", "--softmax").strip().splitlines()[-1])
    # A library that is linked with glibc, in the place of Qualcomm's.
    os.makedirs(f"{path}/qnn", exist_ok=True)
    own = os.path.realpath(f"/lib/{machine}-linux-gnu/libm.so.6")
    shutil.copy(own, f"{path}/qnn/libQnnHtp.so")
    said = run(*quarry, "doctor", QUARRY_QNN_PATH="/qnn")
    for part in ("is linked with glibc", "built for musl", "manylinux"):
        if part not in said.replace("\n", " "):
            sys.exit(f"FAILED: `quarry doctor` says nothing of {part!r} where htp's library is glibc's:\n{said}")
    print("   htp: says that Qualcomm's libraries are linked with glibc")
