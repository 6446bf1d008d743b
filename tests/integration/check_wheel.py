#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A wheel for a machine that this one is not: its tag and its files (wheel_file.py), and, where an emulator runs it, what a user does with it: the README's example, the program,
the package's tests. win_amd64 under wine with CPython for Windows, manylinux aarch64 under qemu with Debian's. (musllinux: check_musl_wheel.py.)

check_wheel.py FOLDER WORK TARGET CROSS    FOLDER: has the wheel; WORK: is made once, and kept; CROSS: the folder that TARGET's script of tools/cross prints
"""
import glob
import os
import re
import shutil
import subprocess
import sys

import arm_root
import wheel_file
import windows_python

folder, work, target, cross = (*map(os.path.abspath, sys.argv[1:3]), sys.argv[3], os.path.abspath(sys.argv[4]))
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
python = f"{root}/bindings/python"
TAGS = {"x86_64-w64-mingw32": r"win_amd64", "aarch64-windows-gnu": r"win_arm64", "aarch64-linux-gnu": r"manylinux_2_\d\d_aarch64"}
wheel, = glob.glob(f"{folder}/quarry_runtime-*.whl")
os.makedirs(work, exist_ok=True)
shutil.rmtree(f"{work}/files", ignore_errors=True)
wheel_file.examine(wheel, TAGS[target], f"{work}/files")
if target == "aarch64-windows-gnu":
    print("   not run: nothing here runs programs of Windows for Arm64")
    sys.exit()
on_windows = target == "x86_64-w64-mingw32"
pip = [f"{cross}/../venv/bin/python", "-m", "pip", "--disable-pip-version-check", "-q"]
wanted = dict(re.findall(r"^([\w-]+)==(\S+)$", open(f"{python}/requirements-test.txt", encoding="utf-8").read(), re.M))
if on_windows:
    windows_python.make(f"{work}/python", pip)
    wanted["numpy"], platform, more = windows_python.NUMPY, windows_python.FOR_WINDOWS, ["colorama"]
else:
    arm_root.make(f"{work}/root", cross)
    platform, more = arm_root.FOR_ARM, []
shutil.rmtree(f"{work}/site", ignore_errors=True)
# pip checks the tag, too.
windows_python.must(*pip, "install", "--target", f"{work}/site", *platform, wheel, *(f"{name}=={wanted[name]}" for name in ("cffi", "numpy", "pytest")), *more)
shutil.rmtree(f"{work}/temporary", ignore_errors=True)
os.makedirs(f"{work}/temporary")


def run(*words, status=0, **more):
    """Python in the emulator, in the root of the checkout."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    environment = {**kept, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"}
    if on_windows:
        command = ["wine", f"{work}/python/python.exe"]
        environment.update(WINEPREFIX=f"{work}/wine", WINEDEBUG="-all", PYTHONPATH=windows_python.windows_path(f"{work}/site"), PYTHONUTF8="1",
                           TEMP=windows_python.windows_path(f"{work}/temporary"), TMP=windows_python.windows_path(f"{work}/temporary"))
    else:
        command = ["qemu-aarch64", "-L", f"{work}/root", f"{work}/root/usr/bin/python3.11"]
        environment.update(PYTHONPATH=f"{work}/site", TMPDIR=f"{work}/temporary")
    done = subprocess.run([*command, *words], capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, cwd=root, env={**environment, **more}, timeout=1800)
    if done.returncode != status:
        sys.exit(f"FAILED: {' '.join(words)[:300]}: exit status {done.returncode}, expected {status}\n{done.stdout[-8000:]}{done.stderr[-4000:]}")
    return done.stdout


print("  ", run("-c", "import sys, sysconfig, cffi, numpy; print('CPython', sys.version.split()[0], sysconfig.get_platform(), 'numpy', numpy.__version__, 'cffi', cffi.__version__)").strip())
example = re.search(r"```python\n(import numpy.*?)```", open(f"{python}/README.md", encoding="utf-8").read(), re.S)[1]
printed = run("-c", example)
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the README's example printed {printed!r}")
print("  ", printed.strip())
if on_windows:  # under qemu a program would be started as this machine's
    printed = run("-m", "quarry", "run", "models/digits/digits.onnx", "models/digits/images/digit_3.png", "--softmax")
    rows = re.findall(r"^\s*([01]\.\d+)\s+(\d)\s*$", printed, re.M)
    if not rows or max(rows)[1] != "3":
        sys.exit(f"FAILED: `quarry run` printed {printed!r}, expected 3 as the best")
    print(f"   `quarry run`: 3, {max(rows)[0]}")
    said = run("-m", "quarry", "doctor")
    for text in ("ok   cpu", "ok   cpu-reference"):
        if text not in said:
            sys.exit(f"FAILED: `quarry doctor` says nothing of '{text}':\n{said}")
tests = [f"bindings/python/tests/{name}" for name in sorted(os.listdir(f"{python}/tests")) if name.startswith("test_")] if on_windows else \
    [f"bindings/python/tests/test_{name}.py" for name in ("run", "machine", "sources")]
print("  ", run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests).strip().splitlines()[-1])
