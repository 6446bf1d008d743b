#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the tree of a build for Windows as an archive, the same bytes for the same build: windows.py BUILD SOURCE OUT.zip

bin/ has the DLLs, the program and below quarry/ the plugins and the compiler's process, as libquarry looks for them; lib/ what linkers read; include/quarry/ the headers.
Debugging information is left out. Everything lies in a folder that is called as the archive is.
"""
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

EPOCH = os.environ.get("SOURCE_DATE_EPOCH", "315532800")  # 1980, with which times in archives begin
# What a build for Windows must have: one that was not built whole makes no release.
EXPECTED = ["bin/libquarry-0.dll", "bin/libquarry-prepare-0.dll", "bin/libquarry-quantize-0.dll", "bin/libquarry-replay-0.dll", "bin/quarry.exe", "bin/quarry/quarry-compiler.exe",
            *(f"bin/quarry/backends/quarry-backend-{name}.dll" for name in ("cpu", "cpu-reference", "gpu", "htp")),
            "lib/libquarry.dll.a", "lib/libquarry-quantize.dll.a", "include/quarry/quarry.h", "LICENSE", "NOTICE"]
# libquarry opens libquarry-prepare and the plugins: nobody links them. The pkg-config files speak of a Unix tree.
LEFT_OUT = re.compile(r"lib/pkgconfig/|lib/libquarry-prepare|bin/.*\.a$|share/")


def stripped(path, folder):
    """A copy without debugging information; import libraries and headers as they are."""
    if not path.endswith((".dll", ".exe")):
        return path
    copy = os.path.join(folder, os.path.basename(path))
    shutil.copyfile(path, copy)
    # It would write the time into the file.
    done = subprocess.run(["x86_64-w64-mingw32-strip", "--strip-unneeded", copy], capture_output=True, text=True, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH})
    if done.returncode != 0:
        sys.exit(f"FAILED: strip {path}: {done.stderr}")
    return copy


def files_of(build, source):
    """{name in the tree: file}"""
    with open(os.path.join(build, "meson-info", "intro-installed.json"), encoding="utf-8") as file:
        installed = json.load(file)
    with open(os.path.join(build, "meson-info", "intro-buildoptions.json"), encoding="utf-8") as file:
        prefix = next(option["value"] for option in json.load(file) if option["name"] == "prefix")
    found = {"LICENSE": os.path.join(source, "LICENSE"), "NOTICE": os.path.join(source, "NOTICE")}
    for path, place in installed.items():
        name = os.path.relpath(place, prefix).replace(os.sep, "/")
        if not LEFT_OUT.match(name):
            found[name] = path
    missing = [name for name in EXPECTED if name not in found] + [path for path in found.values() if not os.path.exists(path)]
    if missing:
        sys.exit(f"FAILED: {build}: it has not been built whole (tools/test_windows.sh --onnx builds it): found no {', '.join(missing)}")
    return found


def main():
    build, source, out = (os.path.abspath(path) for path in sys.argv[1:])
    moment = datetime.datetime.fromtimestamp(int(EPOCH), datetime.timezone.utc)
    top = os.path.basename(out).removesuffix(".zip")
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, path in sorted(files_of(build, source).items()):
            info = zipfile.ZipInfo(f"{top}/{name}", (max(moment.year, 1980), *moment.timetuple()[1:6]))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.create_system = 3  # Unix, whose permissions the next line has
            info.external_attr = (0o100755 if name.endswith((".dll", ".exe")) else 0o100644) << 16
            with open(stripped(path, folder), "rb") as file:
                archive.writestr(info, file.read())


if __name__ == "__main__":
    main()
