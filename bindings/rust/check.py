#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the crates against an installed tree: cargo test, clippy, Miri where a nightly toolchain has it, doc, the example and the benchmark.

check.py PREFIX WORK      PREFIX: of `meson install --destdir`; WORK: a folder for what cargo makes
Exit status 77: cargo is not installed, or the crates of Cargo.lock cannot be had; the last line says why.
"""
import glob
import os
import re
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


def cargo(*words, cwd=here):
    try:
        done = subprocess.run(["cargo", *words], capture_output=True, text=True, env=environment, cwd=cwd, timeout=1200)
    except subprocess.TimeoutExpired:
        sys.exit(f"FAILED: cargo {' '.join(words)}: not done after 20 minutes")
    if done.returncode != 0:
        sys.exit(f"FAILED: cargo {' '.join(words)}\n{done.stdout[-4000:]}{done.stderr[-6000:]}")
    return done.stdout


try:
    fetched = subprocess.run(["cargo", "fetch", "--locked"], capture_output=True, text=True, env=environment, cwd=here, timeout=300)
    why = "" if fetched.returncode == 0 else (fetched.stderr.strip().splitlines() or ["?"])[-1]
except subprocess.TimeoutExpired:
    why = "cargo was not done after 5 minutes"
if why:
    print(f"the crates of Cargo.lock cannot be fetched: {why}")
    sys.exit(77)
offline = ("--locked", "--offline")
printed = cargo("test", "--all-features", *offline)
print("  ", sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if "test result: ok. " in line), "tests passed")
if subprocess.run(["cargo", "clippy", "--version"], capture_output=True).returncode == 0:
    cargo("clippy", "--all-targets", "--all-features", *offline, "--", "-D", "warnings")
else:
    print("   clippy is not installed: not run")
if subprocess.run(["cargo", "+nightly", "miri", "--version"], capture_output=True).returncode == 0:
    printed = cargo("+nightly", "miri", "test", "-p", "quarry", "--test", "miri", *offline)
    print("  ", sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if "test result: ok. " in line), "tests passed under Miri")
else:
    print("   Miri is not installed: not run")
cargo("doc", "--no-deps", "--all-features", *offline)
printed = cargo("run", "--example", "digits", *offline, "--", f"{root}/models/digits")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# README.md, as a new user follows it.
app = os.path.join(work, "app")
shutil.rmtree(app, ignore_errors=True)
page = open(f"{here}/README.md", encoding="utf-8").read()
cargo("new", "-q", "--vcs", "none", app)
cargo("add", "-q", "--offline", "quarry", "--path", f"{here}/quarry", "--manifest-path", f"{app}/Cargo.toml")
with open(f"{app}/src/main.rs", "w", encoding="utf-8") as main:
    main.write(re.search(r"```rust\n(use quarry.*?)```", page, re.S)[1])
# By pkg-config, as there.
pc = glob.glob(f"{prefix}/**/quarry.pc", recursive=True)
del environment["QUARRY_LIB_DIR"]
environment |= {"PKG_CONFIG_PATH": os.path.dirname(pc[0]) if pc else "", "PKG_CONFIG_SYSROOT_DIR": prefix}
printed = cargo("run", "-q", "--offline", "--manifest-path", f"{app}/Cargo.toml", cwd=root)
environment["QUARRY_LIB_DIR"] = folder
if printed.strip() != "the first digit is a 9":
    sys.exit(f"FAILED: the README's program printed {printed!r}")
print("   README.md, followed:", printed.strip())
# A figure to be read: on a busy machine no time is a fault. `cargo bench --bench overhead -- 200` is for a quiet one.
print("  ", cargo("bench", "-p", "quarry", "--bench", "overhead", *offline).strip().splitlines()[-1])
