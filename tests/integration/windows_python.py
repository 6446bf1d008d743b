# SPDX-License-Identifier: Apache-2.0
"""CPython for Windows x64, to be run by wine: its DLL and those of its modules out of PyPI's panda3d, which programs that are packed with it bring along, its standard library
from this machine, and a launcher of five lines in place of python.exe."""
import glob
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile

here = os.path.dirname(os.path.abspath(__file__))

# CPython's own main function, in its DLL.
LAUNCHER = """#include <windows.h>
#include <stdio.h>
int wmain(int argc, wchar_t **argv) {
  HMODULE python = LoadLibraryW(L"python311.dll");
  int (*run)(int, wchar_t **) = python ? (int (*)(int, wchar_t **))(void *)GetProcAddress(python, "Py_Main") : 0;
  return run ? run(argc, argv) : (fprintf(stderr, "python311.dll: error %lu\\n", GetLastError()), 1);
}
"""
NUMPY = "1.26.4"


def must(*command, **kwargs):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kwargs)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}: exit status {done.returncode}\n{done.stdout[-4000:]}")
    return done.stdout


FOR_WINDOWS = ["--only-binary=:all:", "--platform", "win_amd64", "--implementation", "cp", "--python-version", "3.11"]


def make(path, pip):
    """At `path`, once; pip: the words that call it."""
    if os.path.exists(f"{path}/python.exe"):
        return
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(f"{path}/DLLs")
    must(*pip, "download", "--no-deps", "--require-hashes", "-r", f"{here}/windows_python.txt", "-d", f"{path}.parts", *FOR_WINDOWS)
    with zipfile.ZipFile(glob.glob(f"{path}.parts/panda3d-*.whl")[0]) as wheel:
        for name in wheel.namelist():
            file = os.path.basename(name)
            if not name.startswith("deploy_libs/") or not file.lower().startswith(("python3", "vcruntime", "libffi", "libcrypto", "libssl", "sqlite")) and not file.endswith(".pyd"):
                continue
            folder = path if file.lower().startswith(("python3", "vcruntime")) else f"{path}/DLLs"
            with open(f"{folder}/{file}", "wb") as out:
                out.write(wheel.read(name))
    shutil.copytree(sysconfig.get_path("stdlib") if sys.version_info[:2] == (3, 11) else "/usr/lib/python3.11", f"{path}/Lib",
                    ignore=shutil.ignore_patterns("site-packages", "dist-packages", "lib-dynload", "test", "__pycache__", "sitecustomize.py", "config-3*"))
    with open(f"{path}.parts/python.c", "w", encoding="utf-8") as out:
        out.write(LAUNCHER)
    must("x86_64-w64-mingw32-gcc-posix", "-O1", "-municode", f"{path}.parts/python.c", "-o", f"{path}/python.exe")
    shutil.rmtree(f"{path}.parts")


def windows_path(path):
    """As wine shows the whole file system."""
    return "Z:" + os.path.abspath(path).replace("/", "\\")
