#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the crates against an installed tree: cargo test, clippy, doc, the example and the benchmark.

check.py PREFIX WORK      PREFIX: of `meson install --destdir`; WORK: a folder for what cargo makes
Exit status 77: cargo is not installed, or the crates of Cargo.lock cannot be had; the last line says why.
"""
import glob
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
prefix, work = (os.path.abspath(a) for a in sys.argv[1:3])
if not shutil.which("cargo"):
    print("cargo is not installed")
    sys.exit(77)
library = glob.glob(f"{prefix}/**/libquarry.so", recursive=True)
if len(library) != 1:
    sys.exit(f"FAILED: found {len(library)} libquarry.so below '{prefix}', expected one")
folder = os.path.dirname(library[0])
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY")}
environment |= {"QUARRY_LIB_DIR": folder, "LD_LIBRARY_PATH": folder, "CARGO_TARGET_DIR": work, "RUSTDOCFLAGS": "-D warnings",
                "QUARRY_SHARED": os.path.abspath(os.environ.get("QUARRY_SHARED") or f"{root}/../shared")}


def cargo(*words):
    done = subprocess.run(["cargo", *words], capture_output=True, text=True, env=environment, cwd=here)
    if done.returncode != 0:
        sys.exit(f"FAILED: cargo {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-6000:]}")
    return done.stdout


fetched = subprocess.run(["cargo", "fetch", "--locked"], capture_output=True, text=True, env=environment, cwd=here)
if fetched.returncode != 0:
    print(f"the crates of Cargo.lock cannot be fetched: {(fetched.stderr.strip().splitlines() or ['?'])[-1]}")
    sys.exit(77)
offline = ("--locked", "--offline")
printed = cargo("test", "--all-features", *offline)
print("  ", sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if "test result: ok. " in line), "tests passed")
if subprocess.run(["cargo", "clippy", "--version"], capture_output=True).returncode == 0:
    cargo("clippy", "--all-targets", "--all-features", *offline, "--", "-D", "warnings")
else:
    print("   clippy is not installed: not run")
cargo("doc", "--no-deps", "--all-features", *offline)
printed = cargo("run", "--example", "digits", *offline, "--", f"{root}/models/digits")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# A busy machine makes it dearer; the figure that holds is measured on a quiet one.
print("  ", cargo("bench", "-p", "quarry", "--bench", "overhead", *offline, "--", "200" if os.environ.get("QUARRY_QUIET") else "2000").strip().splitlines()[-1])
