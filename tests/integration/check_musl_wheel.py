#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The musllinux wheel: its tag, what its files need and export, and what a user does with it in a root of musl with CPython in it (musl_root.py): the README's example, the
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

folder, work, machine, cross = (*map(os.path.abspath, sys.argv[1:3]), sys.argv[3], os.path.abspath(sys.argv[4]))
root = musl_root.root
python = f"{root}/bindings/python"
own_machine = machine == platform.machine()
if own_machine and os.geteuid() != 0:
    sys.exit("a root of musl is entered by root alone: run it as root")
wheel, = glob.glob(f"{folder}/quarry_runtime-*.whl")
if not wheel.endswith(f"-py3-none-musllinux_1_2_{machine}.whl"):
    sys.exit(f"FAILED: found {os.path.basename(wheel)}, expected the tag py3-none-musllinux_1_2_{machine}")
print("  ", os.path.basename(wheel), f"{os.path.getsize(wheel) / 1e6:.1f} MB")

path = f"{work}/root"
os.makedirs(work, exist_ok=True)
musl_root.make(path, cross, machine)
shutil.rmtree(f"{path}/site", ignore_errors=True)
wanted = dict(re.findall(r"^([\w-]+)==(\S+)$", open(f"{python}/requirements-test.txt", encoding="utf-8").read(), re.M))
# pip checks the tag, too.
musl_root.pip(cross, "install", "--target", f"{path}/site", *musl_root.for_musl(machine), wheel, *(f"{name}=={wanted[name]}" for name in ("cffi", "numpy", "pytest")))
files = [file for file in glob.glob(f"{path}/site/quarry/_native/**/*", recursive=True) if os.path.isfile(file)]
names = {os.path.basename(file) for file in files}
for name in ("libquarry.so.0", "libquarry-prepare.so.0", "libquarry-quantize.so.0", "libquarry-generate.so.0", "libquarry-replay.so.0", "quarry", *(f"quarry-backend-{one}.so" for one in ("cpu", "cpu-reference", "gpu", "htp"))):
    if name not in names:
        sys.exit(f"FAILED: the wheel has no {name}: it has {sorted(names)}")
for file in files:
    told = musl_root.must("readelf", "-W", "-d", "--dyn-syms", file)
    foreign = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told)) - names - {"libc.so"}
    if foreign:
        sys.exit(f"FAILED: {file} needs {sorted(foreign)}, expected musl's libc.so and the wheel's own")
    # libc++ is in each file; a second one in the process must not find it.
    shown = [words[7] for words in map(str.split, told.splitlines()) if len(words) == 8 and words[4] in ("GLOBAL", "WEAK") and words[6] != "UND" and words[7].startswith("_Z")]
    if shown and not os.access(file, os.X_OK):
        sys.exit(f"FAILED: {file} exports {shown[:5]}, expected nothing of C++")
print(f"   {len(files)} files need libc.so and one another alone")

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
