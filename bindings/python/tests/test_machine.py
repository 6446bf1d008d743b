# SPDX-License-Identifier: Apache-2.0
"""What is said where the library, Python and the computer are not of one machine."""
import os
import shutil
import subprocess
import sys
import warnings

import pytest

import quarry
from quarry import _machine

ELF, DLL = 18, 4  # where the machine's number stands: in an ELF file; behind "PE\0\0"


def changed(path, machine):
    """The library at `path` as one for another machine: its number alone is another's."""
    with open(path, "r+b") as file:
        head = file.read(4096)
        file.seek(ELF if head[:4] == b"\x7fELF" else int.from_bytes(head[60:64], "little") + DLL)
        file.write(machine.to_bytes(2, "little"))


def header(kind, machine):
    if kind == "Linux":
        return b"\x7fELF\2\1\1" + b"\0" * 9 + b"\3\0" + machine.to_bytes(2, "little") + b"\0" * 44
    return b"MZ" + b"\0" * 58 + (64).to_bytes(4, "little") + b"PE\0\0" + machine.to_bytes(2, "little") + b"\0" * 60


@pytest.mark.parametrize("system, number, machine", [
    ("Linux", 62, "x86-64"), ("Linux", 183, "Arm64"), ("Linux", 3, "x86"), ("Linux", 7777, "another machine"),
    ("Windows", 0x8664, "x86-64"), ("Windows", 0xAA64, "Arm64"), ("Windows", 0xA641, "Arm64EC"), ("Windows", 0x14C, "x86")])
def test_machine_of_a_file(tmp_path, system, number, machine):
    path = tmp_path / "library"
    path.write_bytes(header(system, number))
    assert _machine.machine_of(str(path)) == (system, machine)


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"MZ", b"MZ" + b"\xff" * 62, b"MZ" + b"\0" * 62, b"no library at all, by any means, whatever its name may say of it .............."])
def test_files_that_say_nothing(tmp_path, content):
    path = tmp_path / "library"
    path.write_bytes(content)
    assert _machine.machine_of(str(path)) is None and _machine.why_not(str(path)) == ""
    assert _machine.machine_of(str(tmp_path / "none")) is None


@pytest.mark.parametrize("platform, machine", [("linux-x86_64", "x86-64"), ("linux-aarch64", "Arm64"), ("win-amd64", "x86-64"), ("win-arm64", "Arm64"), ("win32", "x86")])
def test_machine_of_python(platform, machine):
    assert _machine.machine_of_python(platform) == machine


def test_the_library_that_is_open_fits():
    if os.path.dirname(quarry.library_path()):
        assert _machine.machine_of(quarry.library_path())[1] == _machine.machine_of_python()
        assert _machine.why_not(quarry.library_path()) == ""


def test_emulated_python_is_told():
    with pytest.warns(RuntimeWarning, match="runs emulated on an Arm64 machine.*Install Python for Arm64"):
        _machine.warn_if_emulated("Arm64", "x86-64")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for native, python in (("Arm64", "Arm64"), ("x86-64", "x86-64"), ("x86-64", "x86"), ("", "x86-64")):
            _machine.warn_if_emulated(native, python)
    assert _machine.native_machine() in (("x86-64", "Arm64") if os.name == "nt" else ("",))


def test_import_of_another_machines_library(tmp_path):
    """It says which machine the library and the interpreter are for, and what to install."""
    own = quarry.library_path()
    if not os.path.dirname(own):
        pytest.skip("the library is the system's, at a place that only its loader knows")
    path = str(tmp_path / os.path.basename(own))
    shutil.copyfile(own, path)
    other = "Arm64" if _machine.machine_of_python() == "x86-64" else "x86-64"
    changed(path, {("nt", "Arm64"): 0xAA64, ("nt", "x86-64"): 0x8664, ("posix", "Arm64"): 183, ("posix", "x86-64"): 62}[os.name, other])
    try:
        done = subprocess.run([sys.executable, "-c", "import quarry"], capture_output=True, text=True,
                              env={**os.environ, "QUARRY_LIBRARY": path, "PYTHONPATH": os.pathsep.join(sys.path)})
    except OSError as failed:
        pytest.skip(f"this Python cannot be started by itself (an emulator's): {failed}")
    system = "Windows" if os.name == "nt" else "Linux"
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: quarry: cannot open '") and f"is for {other} {system}" in last and f"for {_machine.machine_of_python()} {system}" in last
    assert ("win_amd64" if os.name == "nt" and other == "Arm64" else "`pip install` of this very Python") in last
