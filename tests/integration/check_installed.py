#!/usr/bin/env python3
"""Builds bindings/c/hello.c and bindings/cpp/digits.cpp against an installed tree, with pkg-config and with find_package, and runs them there.

check_installed.py DESTDIR BUILD_DIR SOURCE_ROOT
"""
import glob
import json
import os
import subprocess
import sys

import consumers

destdir, build, root = (os.path.abspath(a) for a in sys.argv[1:4])
pc = glob.glob(destdir + "/**/quarry.pc", recursive=True)
if len(pc) != 1:
    sys.exit(f"FAILED: found {len(pc)} quarry.pc under {destdir}, expected 1")
environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(pc[0]), PKG_CONFIG_SYSROOT_DIR=destdir)
environment.pop("QUARRY_BACKEND_PATH", None)
environment.pop("LD_LIBRARY_PATH", None)


def run(*command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, env=environment, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


flags = run("pkg-config", "--cflags", "--libs", "quarry").split()
# A machine that has the installed tree and nothing of a build's needs: no other package is asked for.
alone = subprocess.run(["pkg-config", "--cflags", "--libs", "quarry", "quarry-prepare", "quarry-quantize", "quarry-generate", "quarry-replay"], capture_output=True, text=True, env=dict(environment, PKG_CONFIG_LIBDIR=os.path.dirname(pc[0])))
if alone.returncode != 0:
    sys.exit(f"FAILED: pkg-config of the installed tree alone: {alone.stderr}")
libdir = os.path.dirname(os.path.dirname(pc[0]))
backends = destdir + run("pkg-config", "--variable=backenddir", "quarry").removeprefix(destdir)
found = sorted(os.path.basename(p) for p in glob.glob(backends + "/quarry-backend-*.so"))
if not {"quarry-backend-cpu-reference.so", "quarry-backend-cpu.so"} <= set(found) or "quarry-backend-null.so" in found:
    sys.exit(f"FAILED: installed backends are {found}, expected quarry-backend-cpu.so and quarry-backend-cpu-reference.so among them, and not the skeleton, null")
run("cc", "-std=c99", f"{root}/bindings/c/hello.c", "-o", f"{destdir}/hello", *flags)
run("c++", "-std=c++17", f"{root}/bindings/cpp/digits.cpp", "-o", f"{destdir}/digits", *flags)
run("c++", "-std=c++17", f"{consumers.HERE}/consumer/quantize.cpp", "-o", f"{destdir}/quantize", *run("pkg-config", "--cflags", "--libs", "quarry-quantize").split())
run("c++", "-std=c++17", f"{consumers.HERE}/consumer/generate.cpp", "-o", f"{destdir}/generate", *run("pkg-config", "--cflags", "--libs", "quarry-generate").split())
consumers.page_project(root, f"{destdir}/page")
run("cc", f"{destdir}/page/main.c", "-o", f"{destdir}/page/main", *flags)
# The program starts from any prefix, also one that the tree was moved to after its installation, and finds there what belongs to it.
program = glob.glob(destdir + "/**/bin/quarry", recursive=True)[0]
prefix, moved = os.path.dirname(os.path.dirname(program)), destdir + "/moved to elsewhere"
image = f"{root}/models/digits/images/digit_3.png"
run(program, "run", f"{root}/models/digits/digits.onnx", image)
os.rename(prefix, moved)
try:
    run(f"{moved}/bin/quarry", "run", f"{root}/models/digits/digits.onnx", image)
    report = json.loads(run(f"{moved}/bin/quarry", "doctor", "--json"))
    paths = [b["path"] for b in report["backends"] if b["usable"] and b["id"] == "cpu"]
    if not (paths and paths[0].startswith(moved + "/")):
        sys.exit(f"FAILED: the moved program uses the backend {paths}, expected that below {moved}")
    there = dict(environment, PKG_CONFIG_PATH=moved + pc[0].removeprefix(prefix).removesuffix("/quarry.pc"))
    del there["PKG_CONFIG_SYSROOT_DIR"]
    for what in ("--variable=backenddir", "--variable=includedir", "--variable=libdir"):
        told = os.path.realpath(subprocess.run(["pkg-config", what, "quarry"], env=there, capture_output=True, text=True).stdout.strip().replace("\\", ""))
        if not (told.startswith(moved + "/") and os.path.isdir(told)):
            sys.exit(f"FAILED: pkg-config {what} of the moved tree is {told}, expected a folder below {moved}")
finally:
    os.rename(moved, prefix)
consumers.check_cmake(destdir, f"{destdir}/cmake build", root, ["prepare", "quantize", "generate", "program", "backend-cpu", "backend-cpu-reference"])
# Plugins and compiler library are found beside libquarry, wherever the installed tree was moved to.
environment["LD_LIBRARY_PATH"] = libdir
print("  ", run(f"{destdir}/hello", f"{root}/models/digits/digits.onnx"))
consumers.reads_a_digit(f"{destdir}/page/main", f"{root}/models/digits/digits.onnx", root, LD_LIBRARY_PATH=libdir)
print("  ", run(f"{destdir}/quantize", f"{root}/models/digits", f"{destdir}/digits.qdq.onnx"))
print("  ", run(f"{destdir}/generate", f"{root}/models/digits/digits.onnx"))
consumers.reads_a_digit(f"{destdir}/page/main", f"{destdir}/digits.qdq.onnx", root, LD_LIBRARY_PATH=libdir)
run(program, "compile", f"{root}/models/digits/digits.onnx", "-O", "compile.process=child", "-o", f"{destdir}/digits.qrm")
print("  ", run(f"{destdir}/digits", f"{root}/models/digits", f"{destdir}/digits.qrm").splitlines()[-1])
for header in sorted(os.listdir(os.path.join(root, "include", "quarry"))):
    if header.endswith((".h", ".hpp")) and not glob.glob(f"{destdir}/**/include/quarry/{header}", recursive=True):
        sys.exit(f"FAILED: {header} is not installed")
