"""What the checks of the docs' code share: compiling and running a block by its language, against an installed tree.

Each check file is called with PREFIX WORK [--python PYTHON]: PREFIX of `meson install --destdir`, or /usr where packages are installed; PYTHON one that has the
package `quarry`.
"""
import glob
import os
import re
import shutil
import subprocess
import sys

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
prefix, work = (os.path.abspath(a) for a in sys.argv[1:3])
python = os.path.abspath(sys.argv[4]) if "--python" in sys.argv else ""
pc = glob.glob(f"{prefix}/**/quarry.pc", recursive=True)
program = glob.glob(f"{prefix}/**/bin/quarry", recursive=True)
if len(pc) != 1 or len(program) != 1:
    sys.exit(f"FAILED: found {len(pc)} quarry.pc and {len(program)} programs below '{prefix}', expected one of each")
libraries = os.path.dirname(os.path.dirname(pc[0]))
environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY", "PYTHONPATH")}
environment |= {"PKG_CONFIG_PATH": os.path.dirname(pc[0]), "PKG_CONFIG_SYSROOT_DIR": "" if prefix == "/usr" else prefix, "LD_LIBRARY_PATH": libraries, "QUARRY_LIB_DIR": libraries,
                "PATH": os.path.dirname(program[0]) + ":" + os.environ["PATH"], "CARGO_TARGET_DIR": f"{work}/cargo", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-pedantic"]


def run(*command, folder, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env={**environment, **kwargs}, cwd=folder, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        file.write(text)


def flags(folder, code=""):
    packages = ["quarry", *(f"quarry-{part}" for part in ("quantize", "generate") if f"quarry/{part}.h" in code)]
    return run("pkg-config", "--cflags", "--libs", *packages, folder=folder).split()


def c(folder, code):
    write(folder, "cookbook.c", code)
    run("cc", "-std=c11", *WARNINGS, "cookbook.c", *flags(folder, code), "-o", "cookbook", folder=folder)
    return run("./cookbook", folder=folder)


def cpp(folder, code):
    write(folder, "cookbook.cpp", code)
    run("c++", "-std=c++17", *WARNINGS, "cookbook.cpp", *flags(folder, code), "-o", "cookbook", folder=folder)
    return run("./cookbook", folder=folder)


def run_python(folder, code):
    write(folder, "cookbook.py", code)
    return run(python, "cookbook.py", folder=folder)


def rust(folder, code):
    # As an example in a copy of the bindings' workspace, so that Cargo.lock is theirs.
    shutil.copytree(f"{root}/bindings/rust", f"{folder}/rust", dirs_exist_ok=True)
    write(f"{folder}/rust/quarry/examples", "cookbook.rs", code)
    run("cargo", "build", "-q", "--locked", "--offline", "--example", "cookbook", *(["--features", "quantize"] if "Quantizer" in code else []), folder=f"{folder}/rust", RUSTFLAGS="-D warnings")
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
