# SPDX-License-Identifier: Apache-2.0
"""What is read in files that a wheel holds: the machine that they are for, what they need, and the least system that has it (the wheel's tag)."""
import re
import subprocess
import sys

# Libraries that every machine of a manylinux tag has (PEP 600); what is linked beyond them goes into the wheel.
EVERYWHERE = re.compile(r"lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+|z)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
# The least glibc whose distributions have a libstdc++ of these symbols.
GLIBCXX_NEEDS = {28: (2, 31), 29: (2, 34), 30: (2, 35), 31: (2, 38), 32: (2, 39)}
# musl's own, which has all of these in one library, by its name and by Alpine's: all that every machine of a musllinux tag has (PEP 656).
MUSL = re.compile(r"libc\.so|libc\.musl-\w+\.so\.1")
# What musl has since a release after 1.2.2, which is that of the first systems with 1.2 (Alpine 3.13): with one of these a wheel needs more than musllinux_1_2 says.
MUSL_LATER = {"qsort_r": "1.2.3", "pthread_getname_np": "1.2.3", "statx": "1.2.5", "preadv2": "1.2.5", "pwritev2": "1.2.5"}
# What every Windows 10 has: its own libraries, its C runtimes of the same release (msvcrt, and UCRT, which the last names stand for). Microsoft's C++ runtime is none of them.
WINDOWS = re.compile(r"(kernel32|ntdll|advapi32|bcrypt|dbghelp|ole32|psapi|setupapi|cfgmgr32|shell32|shlwapi|user32|version|ws2_32|msvcrt|ucrtbase|api-ms-win-[\w-]+)\.dll", re.I)
MACHINES = {"ELF": {62: "x86_64", 183: "aarch64"}, "PE": {0x8664: "amd64", 0xAA64: "arm64"}}


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def kind_and_machine(path):
    """"ELF" or "PE", and the machine that the file is for, as wheels' tags of its system have it."""
    with open(path, "rb") as file:
        head = file.read(4096)
    if head[:4] == b"\x7fELF":
        kind, found = "ELF", int.from_bytes(head[18:20], "little")
    elif head[:2] == b"MZ" and head[(at := int.from_bytes(head[60:64], "little")) : at + 4] == b"PE\0\0":
        kind, found = "PE", int.from_bytes(head[at + 4 : at + 6], "little")
    else:
        sys.exit(f"'{path}': found a file that begins with {head[:4].hex(' ')}, expected one of ELF or a DLL")
    if found not in MACHINES[kind]:
        sys.exit(f"'{path}': found {kind} machine {found}, expected " + " or ".join(f"{number} ({name})" for number, name in MACHINES[kind].items()))
    return kind, MACHINES[kind][found]


def needed(path):
    if path.endswith((".dll", ".exe")):
        # Debian's objdump knows no Arm64 DLLs; they are read here.
        return dll_imports(path)
    return re.findall(r"^\s+NEEDED\s+(\S+)", run("objdump", "-p", path), re.M)


def dll_imports(path):
    """The names of the DLLs in a PE file's import table, delayed ones too."""
    with open(path, "rb") as file:
        data = file.read()

    def number(at, size=4):
        return int.from_bytes(data[at : at + size], "little")

    start = number(60)
    sections, optional = number(start + 6, 2), start + 24
    if number(optional, 2) != 0x20B:
        sys.exit(f"'{path}': found a DLL of 32 bits, expected one of 64")
    table = optional + number(start + 20, 2)

    def place(address):
        """Where in the file lies what is loaded at an address."""
        for at in range(table, table + 40 * sections, 40):
            begin = number(at + 12)
            if begin <= address < begin + max(number(at + 8), number(at + 16)):
                return address - begin + number(at + 20)
        sys.exit(f"'{path}': found the address {address:#x}, expected one in a section")

    names = []
    # Of the directory 1 (imports) entries of 20 bytes with the name at 12; of 13 (delayed ones) 32 with the name at 4.
    for directory, step, name in ((1, 20, 12), (13, 32, 4)):
        at = number(optional + 112 + 8 * directory)
        if not at:
            continue
        at = place(at)
        while number(at + name):
            begin = place(number(at + name))
            names.append(data[begin : data.index(b"\0", begin)].decode())
            at += step
    return names


def undefined(path):
    return {row.split()[-1] for row in run("nm", "-D", "--undefined-only", path).splitlines() if row.strip()}


def musllinux(places):
    """musllinux_1_2: musl has no versions of symbols, so what it must have is known by names."""
    for path in places:
        for name in needed(path):
            if EVERYWHERE.fullmatch(name):
                sys.exit(f"'{path}' needs {name}, which is glibc's or its compiler's, beside files that are linked with musl")
        later = undefined(path) & MUSL_LATER.keys()
        if later:
            name = max(later, key=lambda one: MUSL_LATER[one])
            sys.exit(f"'{path}' needs {name}, which musl has since {MUSL_LATER[name]}, expected what musl 1.2.2 has")
    return "musllinux_1_2"


def manylinux(places):
    """manylinux_X_Y of the newest symbols that any file needs."""
    least = (2, 17)
    for path in places:
        text = run("objdump", "-p", path)
        least = max([least, *[(int(a), int(b)) for a, b in re.findall(r"\bGLIBC_(\d+)\.(\d+)\b", text)]])
        for minor in re.findall(r"\bGLIBCXX_3\.4\.(\d+)\b", text):
            if int(minor) >= 28:
                least = max(least, GLIBCXX_NEEDS.get(int(minor), (2, 39)))
        if "GLIBC_ABI_DT_RELR" in text:  # packed relocations
            least = max(least, (2, 36))
    return f"manylinux_{least[0]}_{least[1]}"


def windows(places):
    own = {path.replace("\\", "/").rsplit("/", 1)[-1].lower() for path in places}
    for path in places:
        foreign = sorted(name for name in needed(path) if name.lower() not in own and not WINDOWS.fullmatch(name))
        if foreign:
            sys.exit(f"'{path}' needs {', '.join(foreign)}, expected Windows' own DLLs and the wheel's")
    return "win"


def platform(places):
    """The platform of the tag."""
    found = {kind_and_machine(path) for path in places}
    if len(found) != 1:
        sys.exit(f"found files for {' and '.join(sorted(' '.join(one) for one in found))}, expected one machine")
    (kind, machine), = found
    if kind == "PE":
        return f"{windows(places)}_{machine}"
    with_musl = any(MUSL.fullmatch(name) for path in places for name in needed(path))
    return f"{(musllinux if with_musl else manylinux)(places)}_{machine}"
