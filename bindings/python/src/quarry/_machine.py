# SPDX-License-Identifier: Apache-2.0
"""Which machine a library, this Python and the computer are for: what is said where they do not fit each other."""

import os
import sys
import sysconfig
import warnings
from typing import Optional, Tuple

_ELF = {3: "x86", 40: "arm", 62: "x86-64", 183: "Arm64", 243: "RISC-V"}
_PE = {0x14C: "x86", 0x8664: "x86-64", 0xAA64: "Arm64", 0xA641: "Arm64EC", 0x1C4: "arm"}
# The words of sysconfig.get_platform(), behind the system's.
_PYTHON = {"win32": "x86", "amd64": "x86-64", "x86_64": "x86-64", "arm64": "Arm64", "aarch64": "Arm64", "i386": "x86", "i686": "x86", "armv7l": "arm", "armv8l": "arm"}


def machine_of(path: str) -> Optional[Tuple[str, str]]:
    """The system and the machine that a library is for; None where that cannot be read."""
    try:
        with open(path, "rb") as file:
            head = file.read(4096)
    except OSError:
        return None
    if head[:4] == b"\x7fELF" and len(head) > 20:
        return "Linux", _ELF.get(int.from_bytes(head[18:20], "little"), "another machine")
    start = int.from_bytes(head[60:64], "little")
    if head[:2] == b"MZ" and head[start : start + 4] == b"PE\0\0":
        return "Windows", _PE.get(int.from_bytes(head[start + 4 : start + 6], "little"), "another machine")
    return None


def machine_of_python(platform: str = "") -> str:
    """The machine that this interpreter was built for, which an emulated one does not share with the computer."""
    word = (platform or sysconfig.get_platform()).rpartition("-")[2]
    # Under a kernel of 64 bits an interpreter of 32 shows by the size of its pointers alone.
    return {"x86-64": "x86", "Arm64": "arm"}.get(_PYTHON.get(word, word), word) if sys.maxsize < 1 << 32 else _PYTHON.get(word, word)


def why_not(path: str, python: str = "") -> str:
    """Why this Python cannot open a library that is there, and what to install; empty where its file says nothing of that."""
    found = machine_of(path)
    python = python or machine_of_python()
    system = "Windows" if os.name == "nt" else "Linux"
    if not found or found == (system, python):
        return ""
    library_is, python_is = (f"{machine} {of}" for of, machine in (found, (system, python)))
    if system == "Windows" and found == ("Windows", "Arm64") and python in ("x86-64", "x86"):
        return (f"the library is for {library_is}, and this Python ({sys.executable}) for {python_is}: install Python for Arm64 (python-3.x-arm64.exe of python.org, or "
                "`winget install Python.Python.3.13 --architecture arm64`) and the package in it, or, for this Python, the wheel win_amd64, which has no NPU on such a machine")
    return f"the library is for {library_is}, and this Python ({sys.executable}) for {python_is}: `pip install` of this very Python takes the wheel that fits it"


def native_machine() -> str:
    """The computer's, on Windows, where a program of another machine runs emulated; empty elsewhere."""
    if sys.platform != "win32":
        return ""
    import ctypes  # of use here alone

    process, native = ctypes.c_ushort(), ctypes.c_ushort()
    ask = getattr(ctypes.WinDLL("kernel32"), "IsWow64Process2", None)  # Windows 10 1709
    if ask is None or not ask(ctypes.c_void_p(-1), ctypes.byref(process), ctypes.byref(native)):
        return ""
    return _PE.get(native.value, "")


def warn_if_emulated(native: str = "", python: str = "") -> None:
    """An x64 Python on a Snapdragon laptop works, slowly and without its NPU: that is said once, with the way out."""
    native, python = native or native_machine(), python or machine_of_python()
    if native == "Arm64" and python in ("x86-64", "x86"):
        warnings.warn(
            f"quarry: this Python ({sys.executable}) is for {python} and runs emulated on an Arm64 machine: slower, and without the NPU (htp), whose libraries are for Arm64 alone. "
            "Install Python for Arm64 (python-3.x-arm64.exe of python.org, or `winget install Python.Python.3.13 --architecture arm64`), and the package in it",
            RuntimeWarning, stacklevel=2)
