#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a build needs stands in tools/packages.txt alone: tools/install_packages.sh installs just that, no page repeats it, each page that builds begins with the
script, and the Debian package's Build-Depends, which must name them itself, lacks none.

check_package_list.py ROOT
"""
import os
import re
import subprocess
import sys

root = sys.argv[1]
failed = []


def read(name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


rows = [line.partition("#") for line in read("tools/packages.txt").splitlines() if line.strip() and not line.startswith("#")]
needs = [name.strip() for name, _, why in rows if not re.match(r" (tests|cross|windows|browser|Debian packages|documentation site):", why)]
debian = [name.strip() for name, _, why in rows if why.startswith(" Debian packages:")]
for groups, expected in (([], needs), (["Debian packages"], needs + debian)):
    listed = subprocess.run(["sh", f"{root}/tools/install_packages.sh", "--list", *groups], capture_output=True, text=True, check=True).stdout.split()
    if listed != expected:
        failed.append(f"tools/install_packages.sh --list {groups}: expected {expected}, found {listed}")
for wrong in ("no such group", "--lists"):
    if subprocess.run(["sh", f"{root}/tools/install_packages.sh", wrong], capture_output=True, check=False).returncode != 2:
        failed.append(f"tools/install_packages.sh '{wrong}': expected exit status 2")
wants = {re.sub(r"-compat \(.*\)", "", want) for want in re.split(r",\s*", re.search(r"^Build-Depends: (.*)$", read("packaging/debian/control"), re.M)[1])}
absent = {*needs, *debian} - wants - {"build-essential"}
if absent:
    failed.append(f"packaging/debian/control: Build-Depends lacks {sorted(absent)} of tools/packages.txt")
builds = 0
for page in subprocess.run(["git", "-C", root, "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout.split("\n")[:-1]:
    for code in re.findall(r"^```sh\n(.*?)^```$", read(page), re.M | re.S):
        # Names that nobody installs for another reason.
        again = {"libonnx-dev", "flatbuffers-compiler"} & set(re.findall(r"\S+", code))
        if again:
            failed.append(f"{page}: it repeats {sorted(again)} of tools/packages.txt; expected tools/install_packages.sh")
        building = re.search(r"^(meson setup build --buildtype=release -Dtests=false|tools/make_deb\.sh$|pip wheel)", code, re.M)
        builds += bool(building and "tools/install_packages.sh" in code[:building.start()])
if builds < 7:
    failed.append(f"found {builds} builds behind tools/install_packages.sh in the pages, expected 7")
print("\n".join(failed) or f"{len(needs)} packages, {builds} builds in the pages")
sys.exit(1 if failed else 0)
