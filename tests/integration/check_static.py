#!/usr/bin/env python3
"""A static tree as an embedder has it: installed, linked into bindings/c/hello.c and bindings/cpp/digits.cpp by `pkg-config --static`, and run on
an ONNX model and on a container. The programs need no library of Quarry's at run time, and cannot open any.

check_static.py BUILD_DIR SOURCE_ROOT CONTAINER   (BUILD_DIR: configured with -Ddefault_library=static -Dstatic_backends=cpu,cpu-reference, both libraries built)
"""
import glob
import os
import re
import shutil
import subprocess
import sys

build, root, container = (os.path.abspath(a) for a in sys.argv[1:4])
destdir = os.path.join(build, "installed")
environment = dict(os.environ)
environment.pop("QUARRY_BACKEND_PATH", None)
environment.pop("LD_LIBRARY_PATH", None)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


shutil.rmtree(destdir, ignore_errors=True)
run("meson", "install", "-C", build, "--no-rebuild", "--tags", "devel", "--destdir", destdir)
pc = sorted(glob.glob(destdir + "/**/*.pc", recursive=True))
if [os.path.basename(p) for p in pc] != ["quarry-prepare.pc", "quarry.pc"]:
    sys.exit(f"FAILED: installed {pc}, expected quarry-prepare.pc and quarry.pc")
libraries = {os.path.basename(p) for p in glob.glob(destdir + "/**/lib*", recursive=True) if os.path.isfile(p)}
if libraries != {"libquarry.a", "libquarry-prepare.a"}:
    sys.exit(f"FAILED: installed {sorted(libraries)}, expected libquarry.a and libquarry-prepare.a")
# The system root is for the tree under DESTDIR alone, so protobuf's own folders are not asked for again.
environment.update(PKG_CONFIG_PATH=os.path.dirname(pc[0]), PKG_CONFIG_SYSROOT_DIR=destdir)
flags = run("pkg-config", "--static", "--cflags", "--libs", "quarry").split()
print("   pkg-config --static --libs quarry:", " ".join(f for f in flags if f.startswith("-l")))
hello, digits = destdir + "/hello", destdir + "/digits"
run("cc", "-std=c99", f"{root}/bindings/c/hello.c", "-o", hello, *flags)
run("c++", "-std=c++17", f"{root}/bindings/cpp/digits.cpp", "-o", digits, *flags)
for arguments in ((f"{root}/models/digits/digits.onnx", "cpu-reference"), (f"{root}/models/digits/digits.onnx", "cpu"), (container,)):
    print("  ", run(hello, *arguments))
print("  ", run(digits, f"{root}/models/digits", f"{root}/models/digits/digits.onnx", container).splitlines()[-1])
for program in (hello, digits):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "-d", program))
    if any("quarry" in name for name in needed):
        sys.exit(f"FAILED: {program} needs {needed}, expected no library of Quarry's")
    if re.search(r"\bdlopen\b", run("nm", program)):
        sys.exit(f"FAILED: {program} refers to dlopen")
