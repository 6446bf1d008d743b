#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quarry as a subproject of a project that meson builds: no program and no tests; hello.c is built with it and runs a container there.

check_subproject.py BUILD_DIR SOURCE_ROOT [options of meson setup]      BUILD_DIR: whose program compiles the container and whose plugin runs it
(-Ddefault_library=static -Dquarry:static_backends=cpu-reference needs no plugin, and a minute more)
"""
import os
import shutil
import sys

import consumers

build, root = (os.path.abspath(a) for a in sys.argv[1:3])
work = f"{build}/subproject"
shutil.rmtree(work, ignore_errors=True)
shutil.copytree(f"{consumers.HERE}/consumer/meson", f"{work}/project")
os.makedirs(f"{work}/project/subprojects")
os.symlink(root, f"{work}/project/subprojects/quarry")
# Found by pkg-config, an installed Quarry would do as well: it is the subproject that is tried here.
consumers.run("meson", "setup", f"{work}/build", f"{work}/project", f"-Dexamples={root}/bindings", "--force-fallback-for=quarry", "-Db_pch=false", *sys.argv[3:])
targets = consumers.run("ninja", "-C", f"{work}/build", "-t", "targets", "all")
for kind in ("/tests/", "/tools/", "/bindings/"):
    if f"subprojects/quarry{kind}" in targets:
        sys.exit(f"FAILED: the subproject builds something of {kind.strip('/')}")
consumers.run("ninja", "-C", f"{work}/build", "hello")
container = f"{work}/digits.qrm"
consumers.run(f"{build}/tools/quarry", "compile", f"{root}/models/digits/digits.onnx", "--backend", "cpu-reference", "-o", container)
printed = consumers.run(f"{work}/build/hello", container, "cpu-reference", env={"QUARRY_BACKEND_PATH": f"{build}/backends/cpu-reference"})
print("   as a subproject:", printed.splitlines()[-1])
if "-1.5272 1.9513" not in printed:
    sys.exit(f"FAILED: hello printed {printed!r}")
