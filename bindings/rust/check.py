#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the crates against an installed tree: cargo test, the example, what the README shows; with --all clippy, Miri where a nightly toolchain has it, doc and the benchmark too.

check.py PREFIX WORK [--all [--record]]      PREFIX: of `meson install --destdir`; WORK: a folder for what cargo makes; --record: writes new public items into api.txt
Exit status 77: cargo is not installed, or the crates of Cargo.lock cannot be had; the last line says why.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
import api_record
from public_items import KNOWN_FORMAT, public_items

root = os.path.dirname(os.path.dirname(here))
prefix, work = (os.path.abspath(a) for a in sys.argv[1:3])
if not shutil.which("cargo"):
    print("cargo is not installed")
    sys.exit(77)
everything = "--all" in sys.argv[3:]
library = glob.glob(f"{prefix}/**/libquarry.so", recursive=True)
if len(library) != 1:
    sys.exit(f"FAILED: found {len(library)} libquarry.so below '{prefix}', expected one")
folder = os.path.dirname(library[0])
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY")}
environment |= {"QUARRY_LIB_DIR": folder, "LD_LIBRARY_PATH": folder, "CARGO_TARGET_DIR": work, "RUSTDOCFLAGS": "-D warnings",
                "QUARRY_SHARED": os.path.abspath(os.environ.get("QUARRY_SHARED") or f"{root}/../shared")}


def cargo(*words, cwd=here, env=environment):
    try:
        done = subprocess.run(["cargo", *words], capture_output=True, text=True, env=env, cwd=cwd, timeout=1200)
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
# Beside the installed tree: the null backend, which refuses every node and is not installed.
null = {"QUARRY_BACKEND_PATH": os.path.join(os.path.dirname(prefix), "backends", "null")}
printed = cargo("test", "--all-features", *offline, env=environment | null)
print("  ", sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if "test result: ok. " in line), "tests passed")
if not everything:
    pass
elif subprocess.run(["cargo", "clippy", "--version"], capture_output=True).returncode == 0:
    cargo("clippy", "--all-targets", "--all-features", *offline, "--", "-D", "warnings")
else:
    print("   clippy is not installed: not run")
if not everything:
    pass
elif subprocess.run(["cargo", "+nightly", "miri", "--version"], capture_output=True).returncode == 0:
    printed = cargo("+nightly", "miri", "test", "-p", "quarry-runtime", "--test", "miri", *offline)
    print("  ", sum(int(line.split("ok. ")[1].split()[0]) for line in printed.splitlines() if "test result: ok. " in line), "tests passed under Miri")
else:
    print("   Miri is not installed: not run")
if everything:
    # As docs.rs builds it, where there is no library and no pkg-config that knows one.
    without = {k: v for k, v in environment.items() if k not in ("QUARRY_LIB_DIR", "LD_LIBRARY_PATH")}
    without |= {"PKG_CONFIG": "false", "DOCS_RS": "1"}
    cargo("doc", "--no-deps", "--all-features", *offline, env=without)
    # What `cargo semver-checks` would look at, beside a record, as no release is on crates.io to compare with. The option of rustdoc's has to be unlocked.
    cargo("rustdoc", "-p", "quarry-runtime", "--all-features", *offline, "--", "-Zunstable-options", "--output-format", "json", env={**without, "RUSTC_BOOTSTRAP": "1"})
    with open(f"{work}/doc/quarry.json", encoding="utf-8") as file:
        said = json.load(file)
    if said["format_version"] == KNOWN_FORMAT:
        api_record.check(f"{here}/api.txt", public_items(said), "--record" in sys.argv)
    else:
        print(f"   public items were not compared: rustdoc's JSON is of format {said['format_version']}, expected {KNOWN_FORMAT}, that of Rust 1.95")
oldest = re.search(r'^rust-version = "([\d.]+)"', open(f"{here}/Cargo.toml", encoding="utf-8").read(), re.M)[1]
packages = json.loads(cargo("metadata", "--format-version", "1", *offline))["packages"]
newer = [f"{p['name']} {p['version']}" for p in packages if p["rust_version"] and [int(n) for n in p["rust_version"].split(".")[:2]] > [int(n) for n in oldest.split(".")]]
if newer:
    sys.exit(f"FAILED: Cargo.toml says Rust {oldest}, and these crates of Cargo.lock want a newer one: {', '.join(newer)}")


def has_oldest(env):
    return subprocess.run(["cargo", f"+{oldest}", "--version"], capture_output=True, env=env).returncode == 0


with_oldest = environment
if everything and shutil.which("rustup") and not has_oldest(environment):  # into the work folder: this machine's own stay as they are
    with_oldest = {**environment, "RUSTUP_HOME": f"{work}/rustup"}
    try:
        subprocess.run(["rustup", "toolchain", "install", oldest, "--profile", "minimal", "--no-self-update"], capture_output=True, env=with_oldest, timeout=300)
    except subprocess.TimeoutExpired:
        pass  # then it is not there
if has_oldest(with_oldest):
    cargo(f"+{oldest}", "check", "--all-targets", "--all-features", *offline, env=with_oldest)
    print(f"   compiles with Rust {oldest}, the oldest")
else:
    print(f"   Rust {oldest}, the oldest, is not installed: no crate wants a newer one, the compiler itself was not asked")
printed = cargo("run", "--example", "tokio", *offline, "--", f"{root}/models/digits")
if "the first digits are 9 and 4" not in printed:
    sys.exit(f"FAILED: the example for tokio printed {printed!r}")
printed = cargo("run", "--example", "digits", *offline, "--", f"{root}/models/digits")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# README.md, as a new user follows it.
app = os.path.join(work, "app")
shutil.rmtree(app, ignore_errors=True)
page = open(f"{here}/README.md", encoding="utf-8").read()
cargo("new", "-q", "--vcs", "none", app)
cargo("add", "-q", "--offline", "quarry-runtime", "--path", f"{here}/quarry", "--manifest-path", f"{app}/Cargo.toml")
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
if everything:
    print("  ", cargo("bench", "-p", "quarry-runtime", "--bench", "overhead", *offline).strip().splitlines()[-1])
