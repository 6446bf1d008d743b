#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel from an installed tree, installs it in a fresh venv, and runs there what the README shows, the tests and the benchmark.

check.py PREFIX WORK [--all] [--ray] [--record]      PREFIX: of `meson install --destdir`; WORK: a folder of its own. --all: mypy, ONNX's test suite and other Pythons
                                          too; --ray: the example for Ray Data, which fetches 100 MB; --record: writes new public names into api.txt
Exit status 77: the packages of requirements-test.txt cannot be had here; the last line says why.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import venv

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
import api_record

root = os.path.dirname(os.path.dirname(here))
prefix, work = (os.path.abspath(a) for a in sys.argv[1:3])
everything = "--all" in sys.argv[3:]
# Nothing of the tree's or the caller's own: what is tried is what a user has.
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY", "PYTHONPATH", "LD_LIBRARY_PATH")}


def run(*command, show=0, **kwargs):
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**environment, **kwargs.pop("env", {})}, timeout=1200, **kwargs)
    except subprocess.TimeoutExpired:
        sys.exit(f"FAILED: {' '.join(command)}: not done after 20 minutes")
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    for line in done.stdout.strip().splitlines()[-show:] if show else []:
        print("  ", line)
    return done.stdout


def install(python, *what):
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries", "2", "--timeout", "30", *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
        why = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
    except subprocess.TimeoutExpired:
        why = "pip was not done after 10 minutes"
    if why:
        print(f"packages cannot be installed here: {why}")
        sys.exit(77)


shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
venv.create(f"{work}/venv", with_pip=True)
python = f"{work}/venv/bin/python"
install(python, "-r", f"{here}/requirements-test.txt")
# With the build's own needs from the venv: what pip would fetch for it is pinned there.
path = {"PATH": f"{work}/venv/bin:{environment['PATH']}", "QUARRY_PREFIX": prefix}
run(python, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "-w", f"{work}/dist", here, env=path)
wheel, = glob.glob(f"{work}/dist/quarry_runtime-*.whl")
print("  ", os.path.basename(wheel), f"{os.path.getsize(wheel) / 1e6:.1f} MB")
if not re.search(r"-py3-none-manylinux_2_\d+_\w+\.whl$", wheel):
    sys.exit(f"FAILED: {wheel} has no manylinux tag")
install(python, wheel)
run(python, f"{here}/make_abi.py", "--check")
api_record.check(f"{here}/api.txt", json.loads(run(python, f"{here}/public_names.py")), "--record" in sys.argv)

# The README's first example, as it stands there, from the root of the checkout.
example = re.search(r"```python\n(import numpy.*?)```", open(f"{here}/README.md", encoding="utf-8").read(), re.S)[1]
printed = run(python, "-c", example, cwd=root, show=1)
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the README's example printed {printed!r}")
run(f"{work}/venv/bin/quarry", "run", "models/digits/digits.onnx", "models/digits/images/digit_3.png", cwd=root)
run(python, f"{here}/examples/digits.py", f"{root}/models/digits", show=1)
# What the tests import is what is installed.
site = os.path.dirname(os.path.dirname(run(python, "-c", "import quarry; print(quarry.__file__)", cwd=work).strip()))
if not site.startswith(work):
    sys.exit(f"FAILED: quarry comes from {site}, expected the venv")
if everything:
    run(python, "-m", "mypy", "--strict", f"{here}/src/quarry", cwd=work, env={"MYPY_CACHE_DIR": f"{work}/mypy"}, show=1)
    run(python, "-m", "mypy", "--strict", f"{here}/examples/digits.py", cwd=work, env={"MYPY_CACHE_DIR": f"{work}/mypy"})
# Beside the installed tree: the null backend, which refuses every node and is not installed.
null = {"QUARRY_BACKEND_PATH": os.path.join(os.path.dirname(prefix), "backends", "null")}
run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{here}/tests", cwd=work, env=null, show=1)
# A figure to be read: on a busy machine no time is a fault. `bench.py --limit 3` is for a quiet one.
run(python, f"{here}/bench.py", show=1)
if everything:
    run(python, f"{here}/tests/onnx_suite.py", f"{work}/venv/bin/quarry", f"{work}/onnx", show=2)
    # One wheel serves every Python: the oldest and the newest on this machine run the example too.
    own = ".".join(map(str, sys.version_info[:2]))
    found = {}
    others = [shutil.which(f"python3.{minor}") for minor in range(9, 20)] + sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    for name in filter(None, others):
        asked = subprocess.run([name, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
        version = asked.stdout.strip()
        if asked.returncode == 0 and version != own and int(version.split(".")[1]) >= 9:  # a shim of pyenv's stands for versions that are not chosen too
            found.setdefault(int(version.split(".")[1]), name)
    ends = sorted({min(found), max(found)}) if found else []
    for minor in ends:
        name, version = found[minor], f"3.{minor}"
        run(name, "-m", "venv", f"{work}/venv-{version}")
        install(f"{work}/venv-{version}/bin/python", wheel)
        printed = run(f"{work}/venv-{version}/bin/python", "-c", example, cwd=root)
        if "the first digit is a 9" not in printed:
            sys.exit(f"FAILED: with Python {version} the README's example printed {printed!r}")
    print("   the wheel runs in Python", ", ".join([own, *(f"3.{minor}" for minor in ends)]))
if "--ray" in sys.argv[3:]:
    install(python, "-r", f"{here}/requirements-ray.txt")
    # A busy machine takes its time to start Ray; it is given five minutes.
    ray = {"RAY_AUTH_MODE": "disabled", "RAY_raylet_start_wait_time_s": "300", "RAY_USAGE_STATS_ENABLED": "0"}
    printed = run(python, f"{here}/examples/ray_images.py", f"{root}/models/digits/digits.onnx", f"{root}/models/digits/images", show=2, env=ray)
    for digit in range(10):
        if f"digit_{digit}.png: {digit} " not in printed:
            sys.exit(f"FAILED: Ray's answers are {printed!r}, expected {digit} for digit_{digit}.png")
