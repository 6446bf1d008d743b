# SPDX-License-Identifier: Apache-2.0
"""What a wheel for any system must be: `examine` reads its names, its RECORD, and each native file in it: machine, what it needs, what it shows; by other means than
what packed it."""
import base64
import fnmatch
import hashlib
import os
import re
import subprocess
import sys
import zipfile

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# For a platform's tag: how a library is called, the folder of the libraries, who reads the files, their format by that reader's words, and what each may need
# of the system. Of glibc PEP 600 has the list; Windows' is what all of Windows 10 has.
GLIBC = r"lib(c|m|dl|pthread|rt|gcc_s|stdc\+\+)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+"
WINDOWS = r"(?i)(kernel32|ntdll|advapi32|bcrypt|dbghelp|ole32|psapi|shell32|shlwapi|user32|version|ws2_32|msvcrt|api-ms-win-[\w-]+)\.dll"
PLATFORMS = {
    r"manylinux_2_\d\d_x86_64": ("ELF", "readelf", "X86-64", GLIBC),
    r"manylinux_2_\d\d_aarch64": ("ELF", "readelf", "AArch64", GLIBC),
    r"musllinux_1_2_x86_64": ("ELF", "readelf", "X86-64", r"libc\.so"),
    r"musllinux_1_2_aarch64": ("ELF", "readelf", "AArch64", r"libc\.so"),
    r"win_amd64": ("PE", "x86_64-w64-mingw32-objdump", "pei-x86-64", WINDOWS),
    r"win_arm64": ("PE", "aarch64-linux-gnu-objdump", "pei-aarch64-little", WINDOWS),
}
BACKENDS = ("cpu", "cpu-reference", "gpu", "htp")
# What each library of these names shows, by the list that Linux's is linked with.
SHOWN = {"": "runtime/libquarry.map", "-prepare": "prepare/prepare.map", "-quantize": "quantize/libquarry-quantize.map", "-generate": "generate/libquarry-generate.map",
         "-replay": "backends/htp/record/libquarry-replay.map"}
LIBRARIES = tuple(SHOWN)
PLUGIN_MAP = "backends/common/plugin.map"


def fail(wheel, text):
    sys.exit(f"FAILED: {os.path.basename(wheel)}: {text}")


def expected_files(kind):
    if kind == "PE":
        return {*(f"bin/libquarry{part}-0.dll" for part in LIBRARIES), *(f"bin/quarry/backends/quarry-backend-{name}.dll" for name in BACKENDS), "bin/quarry.exe", "bin/quarry/quarry-compiler.exe"}
    return {*(f"lib/libquarry{part}.so.0" for part in LIBRARIES), *(f"lib/quarry/backends/quarry-backend-{name}.so" for name in BACKENDS), "bin/quarry", "lib/quarry/quarry-compiler"}


def check_record(wheel, archive, info):
    """Every file is there once, with its sum; nothing else is."""
    names = archive.namelist()
    rows = [row.rsplit(",", 2) for row in archive.read(f"{info}/RECORD").decode().splitlines()]
    if sorted(row[0] for row in rows) != sorted(names) or len(set(names)) != len(names):
        fail(wheel, f"RECORD and the archive differ in {sorted(set(names) ^ {row[0] for row in rows})}")
    for name, digest, size in rows:
        data = archive.read(name)
        wanted = ("", "") if name == f"{info}/RECORD" else ("sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode(), str(len(data)))
        if (digest, size) != wanted:
            fail(wheel, f"RECORD has {digest} and {size} bytes for {name}, expected {wanted[0]} and {wanted[1]}")


def told(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def shown_names(path, kind, reader):
    """The names that a library shows to others."""
    if kind == "PE":
        table = told(reader, "-p", path).partition("[Ordinal/Name Pointer] Table")[2]
        return re.findall(r"^\s+\[ *\d+\] (?:\+base\[ *\d+\] +[0-9a-f]+ )?(\S+)$", table, re.M)
    rows = [row.split() for row in told(reader, "-W", "--dyn-syms", path).splitlines()]
    # (ABS: the name of a version.)
    return [row[7].split("@")[0] for row in rows if len(row) == 8 and row[4] in ("GLOBAL", "WEAK") and row[6] not in ("UND", "ABS")]


def examine_shown(wheel, path, kind, reader):
    """What is in a library beside its functions, C++'s runtime as well, stays its own: a second one in the process must not find it."""
    name = os.path.basename(path)
    if name.startswith("quarry-backend-"):
        place = PLUGIN_MAP
    elif name.startswith("libquarry"):
        place = SHOWN[re.fullmatch(r"libquarry((?:-[a-z]+)?)(?:-0\.dll|\.so\.0)", name)[1]]
    else:  # a program
        return
    listed = open(os.path.join(root, place), encoding="utf-8").read().partition("global:")[2].partition("local:")[0]
    patterns = re.findall(r"[\w*]+", listed)
    shown = shown_names(path, kind, reader)
    foreign = [one for one in shown if not any(fnmatch.fnmatchcase(one, pattern) for pattern in patterns)]
    if foreign:
        fail(wheel, f"{path} shows {len(foreign)} names as {', '.join(foreign[:5])}, expected those of {place} alone")
    lacking = [pattern for pattern in patterns if not fnmatch.filter(shown, pattern)]
    if lacking:
        fail(wheel, f"{path} shows no {', '.join(lacking)}, expected all of {place}")


def examine_native(wheel, path, kind, reader, machine, own, system):
    if kind == "ELF":
        text = told(reader, "-W", "-h", "-d", path)
        found, needs = re.search(r"Machine:\s+(.*)", text)[1], re.findall(r"\(NEEDED\).*\[(.*)\]", text)
        for place in re.findall(r"\(R(?:UN)?PATH\).*\[(.*)\]", text):
            if any(not part.startswith("$ORIGIN") for part in place.split(":")):
                fail(wheel, f"{path} looks for libraries in {place}, expected places that begin with $ORIGIN")
    else:
        text = told(reader, "-p", path)
        found, needs = re.search(r"file format (\S+)", text)[1], re.findall(r"DLL Name: (\S+)", text)
        if not needs:
            fail(wheel, f"{path}: {reader} found no DLLs that it needs")
    if machine not in found:
        fail(wheel, f"{path} is for {found}, expected {machine}")
    foreign = sorted(name for name in needs if name not in own and not re.fullmatch(system, name))
    if foreign:
        fail(wheel, f"{path} needs {', '.join(foreign)}, expected the system's own and the wheel's")
    examine_shown(wheel, path, kind, reader)


def examine(wheel, tag, folder, missing=()):
    """tag: a regular expression; unpacks into `folder`; missing: parts of its native files that this wheel has not. Gives the files."""
    name = os.path.basename(wheel)
    matched = re.fullmatch(rf"quarry_runtime-(\d+\.\d+\.\d+)-py3-none-({tag})\.whl", name)
    if not matched:
        fail(wheel, f"expected the name quarry_runtime-VERSION-py3-none-{tag}.whl")
    version, platform = matched.groups()
    kind, reader, machine, system = next(what for pattern, what in PLATFORMS.items() if re.fullmatch(pattern, platform))
    info = f"quarry_runtime-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        check_record(wheel, archive, info)
        lines = archive.read(f"{info}/WHEEL").decode().splitlines()
        if f"Tag: py3-none-{platform}" not in lines or "Root-Is-Purelib: false" not in lines:
            fail(wheel, f"WHEEL says {lines}, expected Tag: py3-none-{platform} and Root-Is-Purelib: false")
        metadata = archive.read(f"{info}/METADATA").decode()
        for line in ("Name: quarry-runtime", f"Version: {version}", "Requires-Python: >=3.9", "Requires-Dist: cffi>=1.15"):
            if f"\n{line}\n" not in metadata:
                fail(wheel, f"METADATA has no line '{line}'")
        tops = {entry.split("/")[0] for entry in archive.namelist()}
        if tops != {"quarry", info}:
            fail(wheel, f"it installs {sorted(tops)}, expected the module quarry alone")
        archive.extractall(folder)
        native = {entry[len("quarry/_native/") :]: f"{folder}/{entry}" for entry in archive.namelist() if entry.startswith("quarry/_native/")}
        python = [entry for entry in archive.namelist() if entry.startswith("quarry/") and not entry.startswith("quarry/_native/") and not entry.endswith((".py", ".typed"))]
    if python:
        fail(wheel, f"it has {python} beside Python's own, expected nothing that is compiled for one Python")
    absent = sorted(one for one in expected_files(kind) - set(native) if not any(part in one for part in missing))
    if absent:
        fail(wheel, f"it has no {', '.join(absent)}")
    own = {os.path.basename(one) for one in native}
    for place in native.values():
        examine_native(wheel, place, kind, reader, machine, own, system)
    print("  ", name, f"{os.path.getsize(wheel) / 1e6:.1f} MB, {len(native)} native files for {machine}, which need the system's own libraries and one another alone")
    return native


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        examine(sys.argv[1], sys.argv[2], place)
