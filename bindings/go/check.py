#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the Go package against an installed tree: go vet, go test, the example, what the README shows; with --all the race detector and the benchmark too.

check.py PREFIX [--all] [--record]      PREFIX: of `meson install --destdir`; --record: writes new public names into api.txt
Exit status 77: Go is not installed, or older than go.mod says; the last line says why.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
import api_record
from public_names import public_names

root = os.path.dirname(os.path.dirname(here))
prefix = os.path.abspath(sys.argv[1])
everything = "--all" in sys.argv[2:]
if not shutil.which("go"):
    print("go is not installed")
    sys.exit(77)
pc = glob.glob(f"{prefix}/**/quarry.pc", recursive=True)
if len(pc) != 1:
    sys.exit(f"FAILED: found {len(pc)} quarry.pc below '{prefix}', expected one")
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY")}
# Beside the installed tree: the null backend, which refuses every node and is not installed.
environment |= {"PKG_CONFIG_PATH": os.path.dirname(pc[0]), "PKG_CONFIG_SYSROOT_DIR": prefix, "LD_LIBRARY_PATH": os.path.dirname(os.path.dirname(pc[0])),
                "GOTOOLCHAIN": "local", "QUARRY_BACKEND_PATH": os.path.join(os.path.dirname(prefix), "backends", "null"), "GOFLAGS": "-mod=mod", "QUARRY_SHARED": os.path.abspath(os.environ.get("QUARRY_SHARED") or f"{root}/../shared")}


# The race detector wants places in memory that a library may have been given by chance: so they are not left to chance.
fixed = ["setarch", "--addr-no-randomize"]
try:
    fixed = fixed if subprocess.run([*fixed, "true"], capture_output=True).returncode == 0 else []
except OSError:
    fixed = []


def go(*words, cwd=here):
    try:
        done = subprocess.run([*fixed, "go", *words], capture_output=True, text=True, env=environment, cwd=cwd, timeout=1200)
    except subprocess.TimeoutExpired:
        sys.exit(f"FAILED: go {' '.join(words)}: not done after 20 minutes")
    if done.returncode != 0:
        sys.exit(f"FAILED: go {' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


wanted = re.search(r"^go (\d+)\.(\d+)", open(f"{here}/go.mod", encoding="utf-8").read(), re.M)
found = re.search(r"go(\d+)\.(\d+)", go("version"))
if tuple(map(int, found.groups())) < tuple(map(int, wanted.groups())):
    print(f"{found[0]} is installed, go.mod wants {wanted[0]}")
    sys.exit(77)
go("vet", "./...")
api_record.check(f"{here}/api.txt", {**public_names(go("doc", "-all", "."), "quarry"), **public_names(go("doc", "-all", "./quantize"), "quantize"), **public_names(go("doc", "-all", "./generate"), "generate")}, "--record" in sys.argv)
printed = go("test", "-count=1", "-v", "./...")
if everything:
    printed = go("test", "-race", "-count=1", "-v", ".", "./quantize", "./generate")
print("  ", len(re.findall(r"^--- PASS", printed, re.M)), "tests passed" + (", with the race detector too" if everything else ""))
for reason, name in re.findall(r"^\s+\S+_test\.go:\d+: (.*)\n--- SKIP: (\S+)", printed, re.M):
    print(f"   skipped: {name}: {reason}")
printed = go("run", "./examples/digits", f"{root}/models/digits")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# README.md, as a new user follows it.
page = open(f"{here}/README.md", encoding="utf-8").read()
with tempfile.TemporaryDirectory() as app:
    with open(f"{app}/main.go", "w", encoding="utf-8") as main:
        main.write(re.search(r"```go\n(package main.*?)```", page, re.S)[1])
    # What it does not import, it need not have: pkg-config knows libquarry alone.
    environment["PKG_CONFIG_PATH"] = os.path.dirname(shutil.copy(pc[0], app))
    go("mod", "init", "app", cwd=app)
    go(*re.search(r"^go (mod edit .*)$", page, re.M)[1].replace(".../bindings/go", here).split(), cwd=app)
    printed = go("run", ".", f"{root}/models/digits", cwd=app)
if printed.strip() != "the first digit is a 9":
    sys.exit(f"FAILED: the README's program printed {printed!r}")
environment["PKG_CONFIG_PATH"] = os.path.dirname(pc[0])
print("   README.md, followed:", printed.strip())
for line in re.findall(r"^Benchmark.*$", go("test", "-run", "none", "-bench", ".", "-benchmem", "."), re.M) if everything else ():
    print("  ", re.sub(r"\s+", " ", line))
