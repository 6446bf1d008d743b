#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The code in the docs: blocks behind `<!-- test -->` are taken from each page, put together to one program for each language, compiled against an installed
tree as the page says, and run. The programs of the cookbook do the same things, so all of them must print the same, which `quarry run` says too. And what
the pages say that a build needs is what tools/packages.txt says.

check_docs_code.py PREFIX WORK [--python PYTHON]     PREFIX: of `meson install --destdir`; PYTHON: one that has the package `quarry`
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
prefix, work = (os.path.abspath(a) for a in sys.argv[1:3])
python = sys.argv[4] if "--python" in sys.argv else ""
pc = glob.glob(f"{prefix}/**/quarry.pc", recursive=True)
program = glob.glob(f"{prefix}/**/bin/quarry", recursive=True)
if len(pc) != 1 or len(program) != 1:
    sys.exit(f"FAILED: found {len(pc)} quarry.pc and {len(program)} programs below '{prefix}', expected one of each")
libraries = os.path.dirname(os.path.dirname(pc[0]))
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY", "PYTHONPATH")}
environment |= {"PKG_CONFIG_PATH": os.path.dirname(pc[0]), "PKG_CONFIG_SYSROOT_DIR": prefix, "LD_LIBRARY_PATH": libraries, "QUARRY_LIB_DIR": libraries,
                "PATH": os.path.dirname(program[0]) + ":" + os.environ["PATH"], "CARGO_TARGET_DIR": f"{work}/cargo", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]
failed, passed, skipped = [], 0, []


def blocks(page):
    """The marked blocks of a page by their language, one text each."""
    found = {}
    with open(os.path.join(root, page), encoding="utf-8") as file:
        text = file.read()
    marks = len(re.findall(r"^<!-- test -->$", text, re.M))
    for language, code in re.findall(r"^<!-- test -->\n```(\w+)\n(.*?)^```$", text, re.M | re.S):
        found[language] = found.get(language, "") + code
        marks -= 1
    if marks:
        sys.exit(f"FAILED: {page}: {marks} marks without a block behind them")
    return found


def run(*command, folder, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, **kwargs}, cwd=folder, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def flags(folder):
    return run("pkg-config", "--cflags", "--libs", "quarry", folder=folder).split()


def c(folder, code):
    write(folder, "cookbook.c", code)
    run("cc", "-std=c11", *WARNINGS, "cookbook.c", *flags(folder), "-o", "cookbook", folder=folder)
    return run("./cookbook", folder=folder)


def cpp(folder, code):
    write(folder, "cookbook.cpp", code)
    run("c++", "-std=c++17", *WARNINGS, "cookbook.cpp", *flags(folder), "-o", "cookbook", folder=folder)
    return run("./cookbook", folder=folder)


def run_python(folder, code):
    write(folder, "cookbook.py", code)
    return run(python, "cookbook.py", folder=folder)


def rust(folder, code):
    # As an example in a copy of the bindings' workspace, so that Cargo.lock is theirs.
    shutil.copytree(f"{root}/bindings/rust", f"{folder}/rust", dirs_exist_ok=True)
    write(f"{folder}/rust/quarry/examples", "cookbook.rs", code)
    run("cargo", "build", "-q", "--locked", "--offline", "--example", "cookbook", folder=f"{folder}/rust", RUSTFLAGS="-D warnings")
    return run(f"{work}/cargo/debug/examples/cookbook", folder=folder)


def go(folder, code):
    write(folder, "cookbook.go", code)
    wanted = re.search(r"^go (\S+)", open(f"{root}/bindings/go/go.mod", encoding="utf-8").read(), re.M)[1]
    write(folder, "go.mod", f"module cookbook\n\ngo {wanted}\n\nrequire quarry.dev/quarry v0.0.0\n\nreplace quarry.dev/quarry => {root}/bindings/go\n")
    run("go", "vet", ".", folder=folder)
    return run("go", "run", ".", folder=folder)


def sh(folder, code):
    for name in os.listdir(f"{root}/models/digits/images"):
        shutil.copy(f"{root}/models/digits/images/{name}", folder)
    return run("sh", "-ec", code, folder=folder)


def go_is_new_enough():
    wanted = re.search(r"^go (\d+)\.(\d+)", open(f"{root}/bindings/go/go.mod", encoding="utf-8").read(), re.M)
    found = re.search(r"go(\d+)\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True, env=environment).stdout)
    return found and [int(x) for x in found.groups()] >= [int(x) for x in wanted.groups()]


def crates_are_here():
    return shutil.which("cargo") and subprocess.run(["cargo", "fetch", "--locked", "--offline"], cwd=f"{root}/bindings/rust", env=environment,
                                                    capture_output=True).returncode == 0


WAYS = {"c": (c, lambda: True), "cpp": (cpp, lambda: True), "sh": (sh, lambda: True), "python": (run_python, lambda: bool(python)),
        "rust": (rust, crates_are_here), "go": (go, lambda: bool(shutil.which("go")) and go_is_new_enough())}
shutil.rmtree(work, ignore_errors=True)
os.makedirs(work)
model = f"{root}/models/digits/digits.onnx"
answer = json.loads(subprocess.run([program[0], "run", model, "--zeros", "--json", "--top", "1"], capture_output=True, text=True, env=environment, check=True).stdout)
digit = answer["runs"][0]["outputs"][0]["top"][0]["index"]
EXPECTED = f"run: {digit}\nsubmit: {digit}\nstop: cancelled\nmemory: {digit}\nprofile: has nodes\n"
pages = ["README.md"] + sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/docs/**/*.md", recursive=True))
cookbooks = 0
for page in pages:
    for language, code in blocks(page).items():
        if language not in WAYS:
            sys.exit(f"FAILED: {page}: nobody knows how to test a block of '{language}'")
        way, can = WAYS[language]
        cookbook = page.startswith("docs/cookbook/")
        cookbooks += cookbook
        if not can():
            skipped.append(language)
            continue
        folder = os.path.join(work, page.replace("/", "-")[:-3] + "-" + language)
        os.makedirs(folder)
        shutil.copy(model, folder)
        try:
            printed = way(folder, code)
            if cookbook and printed != EXPECTED:
                raise RuntimeError(f"it printed\n{printed}expected\n{EXPECTED}")
            passed += 1
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            failed.append(page)
            print(f"   FAILED {page}, its blocks of {language}: {error}")
with open(f"{root}/tools/packages.txt", encoding="utf-8") as file:
    rows = [line.partition("#") for line in file if line.strip() and not line.startswith("#")]
needs = [name.strip() for name, _, why in rows if not re.match(r" (tests|cross|browser|Debian packages|documentation site):", why)]
told = 0
for page in pages + [os.path.relpath(p, root) for p in sorted(glob.glob(f"{root}/bindings/*/README.md"))]:
    with open(f"{root}/{page}", encoding="utf-8") as file:
        for line in re.findall(r"^apt-get install (.*\bmeson\b.*)$", file.read(), re.M):
            told += 1
            if line.split()[:len(needs)] != needs:
                failed.append(page)
                print(f"   FAILED {page}: a build needs {' '.join(needs)}, and it has: apt-get install {line}")
if told < 7:
    failed.append("what a build needs")
    print(f"   FAILED: found {told} lines of what a build needs, expected 7")
if cookbooks < 5:
    failed.append("the cookbook")
    print(f"   FAILED: found {cookbooks} pages of the cookbook, expected 5")
print(f"   {passed} programs of the docs ran, {len(failed)} failed" + (f"; not tried here: {', '.join(skipped)}" if skipped else ""))
sys.exit(1 if failed else 0)
