# SPDX-License-Identifier: Apache-2.0
"""A file system with Debian's CPython 3.11 for aarch64 and the libraries that it and a manylinux wheel need, to be run by qemu."""
import glob
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))

PACKAGES = "python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libgcc-s1 libstdc++6 zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5".split()
FOR_ARM = ["--only-binary=:all:", "--platform", "manylinux_2_36_aarch64", "--platform", "manylinux_2_35_aarch64", "--platform", "manylinux_2_28_aarch64", "--platform", "manylinux_2_27_aarch64",
           "--platform", "manylinux_2_17_aarch64", "--platform", "manylinux2014_aarch64", "--implementation", "cp", "--python-version", "3.11"]


def must(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


def make(path, cross):
    """At `path`, once; `cross`: the folder of tools/cross/aarch64.sh."""
    if os.path.exists(f"{path}/usr/bin/python3.11"):
        return
    shutil.rmtree(path, ignore_errors=True)
    shutil.rmtree(f"{path}.parts", ignore_errors=True)
    os.makedirs(f"{path}.parts")
    must(f"{root}/tools/cross/private_apt.sh", f"{cross}/../apt", "deb", "bookworm", "download", *(f"{name}:arm64" for name in PACKAGES), cwd=f"{path}.parts")
    os.makedirs(f"{path}.new")
    for package in glob.glob(f"{path}.parts/*.deb"):
        must("dpkg", "-x", package, f"{path}.new")
    shutil.rmtree(f"{path}.parts")
    os.rename(f"{path}.new", path)
