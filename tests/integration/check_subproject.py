#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quarry as a subproject of a project that meson builds, the one of docs/packages.md: fetched by packaging/quarry.wrap from the checkout, or, where that holds
changes or is no repository, linked to. No program and no tests are built; main.c is, and runs a container there.

check_subproject.py BUILD_DIR SOURCE_ROOT [options of meson setup]      BUILD_DIR: whose program compiles the container and whose plugin runs it
"""
import json
import os
import re
import shutil
import subprocess
import sys

import consumers

build, root = (os.path.abspath(a) for a in sys.argv[1:3])
work = f"{build}/subproject"
project = f"{work}/project"
shutil.rmtree(work, ignore_errors=True)
consumers.page_project(root, project, "meson.build")
with open(f"{project}/meson.build", "a", encoding="utf-8") as file:  # the other names of the wrap's
    file.write("dependency('quarry-quantize')\ndependency('quarry-prepare')\ndependency('quarry-generate')\n")
os.makedirs(f"{project}/subprojects")
with open(f"{root}/packaging/quarry.wrap", encoding="utf-8") as file:
    wrap = file.read()
for key, value in (("url", f"file://{root}"), ("revision", "HEAD")):
    wrap = re.sub(rf"^{key} = .*$", f"{key} = {value}", wrap, flags=re.M)
with open(f"{project}/subprojects/quarry.wrap", "w", encoding="utf-8") as file:
    file.write(wrap)
changes = subprocess.run(["git", "-C", root, "status", "--porcelain"], capture_output=True, text=True)
if changes.returncode != 0 or changes.stdout.strip():
    os.symlink(root, f"{project}/subprojects/quarry")
# Found by pkg-config, an installed Quarry would do as well: it is the subproject that is tried here. Backends are left out: they take minutes.
quick = ["-Dquarry:default_library=shared", "-Dquarry:static_backends=", "-Dquarry:optimization=0", "-Dquarry:debug=false", "-Dquarry:b_pch=false", "-Dquarry:optimise_subproject=false"]
consumers.run("meson", "setup", f"{work}/build", project, "--force-fallback-for=quarry,quarry-quantize,quarry-prepare,quarry-generate", *quick, *sys.argv[3:])
# As it comes, a project is not optimised; what runs networks is all the same.
consumers.run("meson", "setup", f"{work}/plain", project, "--force-fallback-for=quarry,quarry-quantize,quarry-prepare,quarry-generate", "-Dquarry:b_pch=false", *sys.argv[3:])
with open(f"{work}/plain/compile_commands.json", encoding="utf-8") as file:
    commands = {entry["output"]: entry["command"].split() for entry in json.load(file)}
for what, wanted in (("kernels/cpu", "-O3"), ("backends/cpu-reference", "-O2"), ("passes", "-Os")):
    flags = [[flag for flag in command if flag.startswith("-O")][-1] for output, command in commands.items() if f"subprojects/quarry/{what}/" in output]
    if wanted not in flags or "-O0" in flags:
        sys.exit(f"FAILED: inside a project for debugging {what} is compiled with {sorted(set(flags))}, expected {wanted} and no -O0")
slow = [output for output, command in commands.items() if "subprojects/quarry/" in output and [flag for flag in command if flag.startswith("-O")][-1] == "-O0" and not output.endswith(".gch")]
if slow:
    sys.exit(f"FAILED: inside a project for debugging these are compiled with -O0, expected none: {slow}")
targets = consumers.run("ninja", "-C", f"{work}/build", "-t", "targets", "all")
for kind in ("/tests/", "/tools/", "/bindings/"):
    if f"subprojects/quarry{kind}" in targets:
        sys.exit(f"FAILED: the subproject builds something of {kind.strip('/')}")
consumers.run("ninja", "-C", f"{work}/build", "main")
container = f"{work}/digits.qrm"
consumers.run(f"{build}/tools/quarry", "compile", f"{root}/models/digits/digits.onnx", "-o", container)
consumers.reads_a_digit(f"{work}/build/main", container, root, QUARRY_BACKEND_PATH=f"{build}/backends/cpu")
print("   as a subproject,", "linked to:" if os.path.islink(f"{project}/subprojects/quarry") else "fetched by its wrap:", consumers.FIRST_DIGIT)
