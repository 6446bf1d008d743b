#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What macOS' loader asks of each file of a build (tools/test_macos.sh), read from the files themselves: machine, names by which libraries are found, what they need, what they
show, the oldest version, the signature that Arm wants; and the notes of plugins. Nothing is run: there is no macOS here.

check_macos.py BUILD MACHINE [--reader READ_MACHO] [--linux BUILD]      READ_MACHO: of tests/plugins/macho; BUILD of Linux: its libraries show the same names
"""
import argparse
import glob
import os
import re
import struct
import subprocess
import sys

MACHINES = {"aarch64": (0x0100000C, "arm64"), "x86_64": (0x01000007, "x86_64")}
PROGRAM, DYLIB, BUNDLE = 2, 6, 8
KINDS = {PROGRAM: "program", DYLIB: "library", BUNDLE: "bundle"}
SEGMENT, ID_DYLIB, RPATH, CODE_SIGNATURE, BUILD_VERSION, SYMTAB = 0x19, 0xD, 0x8000001C, 0x1D, 0x32, 0x2
NEEDS = {0xC, 0x80000018, 0x8000001F, 0x80000023}  # LC_LOAD_DYLIB, weak, re-exported, upward
OLDEST = "12.0"
SYSTEM = {"/usr/lib/libSystem.B.dylib", "/usr/lib/libc++.1.dylib"}
# Of the file's flags: no name is undefined at link time; names say which library has them; programs lie anywhere.
NO_UNDEFINED, TWO_LEVEL, ANYWHERE = 0x1, 0x80, 0x200000
EXTERNAL, UNDEFINED_OR_DEFINED, PRIVATE = 0x1, 0xE, 0x10


class Macho:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = file.read()
        magic, self.machine, _, self.kind, count, _, self.flags, _ = struct.unpack_from("<8I", self.bytes)
        if magic != 0xFEEDFACF:
            raise ValueError(f"begins with {magic:#x}, expected {0xFEEDFACF:#x}")
        self.name, self.needs, self.rpaths, self.sections, self.shown = None, [], [], {}, set()
        self.oldest, self.is_signed = None, False
        at = 32
        for _ in range(count):
            command, size = struct.unpack_from("<2I", self.bytes, at)
            self.take(command, at)
            at += size

    def text(self, at):
        return self.bytes[at:self.bytes.index(b"\0", at)].decode()

    def take(self, command, at):
        if command in NEEDS | {ID_DYLIB, RPATH}:
            text = self.text(at + struct.unpack_from("<I", self.bytes, at + 8)[0])
            if command == ID_DYLIB:
                self.name = text
            else:
                (self.rpaths if command == RPATH else self.needs).append(text)
        elif command == BUILD_VERSION:
            platform, oldest = struct.unpack_from("<2I", self.bytes, at + 8)
            self.oldest = f"{oldest >> 16}.{oldest >> 8 & 255}" if platform == 1 else f"platform {platform}"
        elif command == CODE_SIGNATURE:
            self.is_signed = True
        elif command == SEGMENT:
            for i in range(struct.unpack_from("<I", self.bytes, at + 64)[0]):
                row = at + 72 + 80 * i
                section, segment = (self.bytes[row + j:row + j + 16].rstrip(b"\0").decode() for j in (0, 16))
                _, size, offset = struct.unpack_from("<QQI", self.bytes, row + 32)
                self.sections[f"{segment},{section}"] = self.bytes[offset:offset + size]
        elif command == SYMTAB:
            symbols, count, strings, _ = struct.unpack_from("<4I", self.bytes, at + 8)
            for i in range(count):
                name, kind = struct.unpack_from("<IB", self.bytes, symbols + 16 * i)
                if kind & 0xE0 == 0 and kind & EXTERNAL and not kind & PRIVATE and kind & UNDEFINED_OR_DEFINED:
                    self.shown.add(self.text(strings + name))


def shown_on_linux(path):
    """The names of Quarry's C functions that Linux' library shows."""
    rows = subprocess.run(["nm", "-D", "--defined-only", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return {row.split()[2].split("@")[0] for row in rows if row.split()[1] not in "A"}


def problems_of(path, machine, linux):
    """What macOS would not load of this file, or would load wrongly."""
    name = os.path.basename(path)
    try:
        file = Macho(path)
    except (ValueError, struct.error, IndexError) as error:
        yield f"is no file of macOS for 64 bits: {error}"
        return
    number, called = MACHINES[machine]
    if file.machine != number:
        yield f"is for machine {file.machine:#x}, expected {number:#x} ({called})"
    is_plugin = name.startswith("quarry-backend-")
    wanted = BUNDLE if is_plugin else DYLIB if name.endswith(".dylib") else PROGRAM
    if file.kind != wanted:
        yield f"is a {KINDS.get(file.kind, file.kind)}, expected a {KINDS[wanted]}"
    flags = NO_UNDEFINED | TWO_LEVEL | (ANYWHERE if wanted == PROGRAM else 0)
    if file.flags & flags != flags:
        yield f"has the flags {file.flags:#x}, expected {flags:#x} among them"
    if wanted == DYLIB and file.name != f"@rpath/{name}":
        yield f"is called {file.name}, expected @rpath/{name}"
    foreign = [one for one in file.needs if one not in SYSTEM and not re.fullmatch(r"@rpath/libquarry[a-z-]*\.\d+\.dylib", one)]
    if foreign or "/usr/lib/libSystem.B.dylib" not in file.needs:
        yield f"needs {file.needs}, expected libSystem, and none but {sorted(SYSTEM)} and Quarry's own by @rpath"
    if any(one.startswith("@rpath/") for one in file.needs) and not any(one.startswith("@loader_path") for one in file.rpaths):
        yield f"looks for libraries in {file.rpaths}, expected @loader_path among them"
    if file.oldest != OLDEST:
        yield f"is for macOS {file.oldest}, expected {OLDEST}"
    if machine == "aarch64" and not file.is_signed:
        yield "has no signature (one of the linker's is enough): Apple's processors run nothing without"
    shown = {one.removeprefix("_") for one in file.shown} - {"_mh_execute_header"}
    if is_plugin:
        if shown != {"qr_plugin_query"}:
            yield f"shows {sorted(shown)}, expected qr_plugin_query alone"
        note = file.sections.get("__TEXT,__qrnote", b"")
        if f"{machine}-macos-libSystem".encode() not in note:
            yield f"has no note of a plugin for {machine}-macos-libSystem: found {note[:160]}"
    elif wanted == DYLIB and linux:
        there = glob.glob(f"{linux}/*/{name.split('.')[0]}.so") + glob.glob(f"{linux}/backends/htp/record/{name.split('.')[0]}.so")
        expected = shown_on_linux(there[0]) if there else {"(no such library)"}
        expected = {one for one in expected if not one.startswith("QUARRY_")}
        if shown != expected:
            yield f"shows more than Linux' library: {sorted(shown - expected)}; less: {sorted(expected - shown)}"
    elif wanted == DYLIB and not all(one.startswith(("qr_", "quarry_")) for one in shown):
        yield f"shows {sorted(one for one in shown if not one.startswith(('qr_', 'quarry_')))}, expected Quarry's alone"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("machine", choices=MACHINES)
    parser.add_argument("--reader")
    parser.add_argument("--linux")
    given = parser.parse_args()
    build = given.build
    libraries = sorted(path for path in glob.glob(f"{build}/**/*.dylib", recursive=True) if not os.path.islink(path))
    plugins = [path for path in libraries if os.path.basename(path).startswith("quarry-backend-")]
    expected = {*(f"libquarry{one}.0.dylib" for one in ("", "-generate", "-replay")), *(f"quarry-backend-{one}.dylib" for one in ("null", "cpu", "cpu-reference", "gpu", "htp"))}
    missing = expected - {os.path.basename(path) for path in libraries}
    programs = [f"{build}/{one}" for one in ("tools/quarry", "runtime/quarry-compiler", "bindings/hello")]
    missing |= {one for one in programs if not os.path.exists(one)}
    if missing:
        sys.exit(f"FAILED: {build} has no {sorted(missing)}")
    good = True
    for path in libraries + programs:
        found = list(problems_of(path, given.machine, given.linux))
        for one in found:
            print(f"FAILED: {path}: {one}")
        good = good and not found
        if not found:
            file = Macho(path)
            print(f"   {os.path.basename(path)}: {len(file.bytes) / 1e6:.2f} MB, shows {len(file.shown)}, needs {' '.join(os.path.basename(one) for one in file.needs)}")
    if given.reader:  # what libquarry reads before it opens one, and of damaged ones
        read = subprocess.run([given.reader, MACHINES[given.machine][1], *plugins], capture_output=True, text=True)
        print("   as the loader reads them: " + read.stdout.strip().replace("\n", "; "))
        other = MACHINES["x86_64" if given.machine == "aarch64" else "aarch64"][1]
        refused = subprocess.run([given.reader, other, plugins[0]], capture_output=True, text=True)
        if read.returncode or refused.returncode != 1 or f"machine found {MACHINES[given.machine][1]}, expected {other}" not in refused.stdout:
            print(f"FAILED: the loader reads them with {read.returncode}, for {other} it says: {refused.stdout}")
            good = False
    return good


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
