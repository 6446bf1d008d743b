#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Android's loader asks of each file of a build, and its package (tools/release/aar.py): pages of 16 kB, no name of another C library, nothing needed that apps may not
link, names that Android installs. Nothing is run: there is no bionic here.

check_android.py BUILD MACHINE [--without-onnx]      BUILD: of `meson setup` for MACHINE-linux-android (tools/test_android.sh); without: of -Dprepare=false
check_android.py --aar FILE [--for-devices] [--without-onnx]      for devices: not of builds against stubs
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import zipfile

ABIS = {"aarch64": "arm64-v8a", "x86_64": "x86_64"}
# What the NDK has for apps and Quarry may link, beside its own.
SYSTEM = {"libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so"}
PAGE = 0x4000
BACKENDS = ("cpu", "cpu-reference", "gpu", "htp")
LIBRARIES = {f"lib{one}.so" for one in ("quarry", "quarry-jni", "quarry-generate", "quarry-generate-jni", "quarry-prepare", "quarry-quantize", *(f"quarry-backend-{one}" for one in BACKENDS))}
MODULES = ["quarry", "quarry-generate", "quarry-quantize"]
if "--without-onnx" in sys.argv:
    LIBRARIES -= {"libquarry-prepare.so", "libquarry-quantize.so"}
    MODULES.remove("quarry-quantize")


def readelf(*words):
    return subprocess.run(["readelf", "-W", *words], check=True, capture_output=True, text=True).stdout


def problems_of(path, machine):
    """What Android would not load of this file, or would load wrongly."""
    name, told = os.path.basename(path), readelf("-hldV", path)
    is_library = ".so" in name
    wanted = {"aarch64": "AArch64", "x86_64": "Advanced Micro Devices X86-64"}[machine]
    if not re.search(r"Machine: +" + re.escape(wanted), told):
        yield f"is not for {machine}"
    if not re.search(r"Type: +DYN", told):
        yield "is not position-independent, expected it so: Android runs nothing else"
    for at, address, align in re.findall(r"^ +LOAD +(0x\w+) (0x\w+) .* (0x\w+)$", told, re.M):
        at, address, align = int(at, 16), int(address, 16), int(align, 16)
        if align < PAGE or (address - at) % PAGE:
            yield f"has a segment at {at:#x} aligned to {align:#x}, expected {PAGE:#x} or more: devices have pages of 16 kB"
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", told))
    foreign = {one for one in needed if one not in SYSTEM and not re.fullmatch(r"libquarry[a-z-]*\.so", one)}
    if foreign:
        yield f"needs {sorted(foreign)}, expected {sorted(SYSTEM)} and Quarry's own"
    if name == "libquarry-jni.so" and "libandroid.so" not in needed:
        yield f"needs {sorted(needed)}, expected libandroid.so among them: its hardware buffers would not be found"
    versions = {one for one in re.findall(r"Version: \d+  File: (\S+)", told) if not one.startswith("libquarry")}
    if versions or "GLIBC" in told:
        yield f"needs versions of names of {sorted(versions)}, expected none but of Quarry's own"
    if "TEXTREL" in told:
        yield "has relocations in its code"
    if re.search(r"\(RELR\)", told):
        yield "has packed relocations, which Android knows from API 30 on"
    if is_library:
        soname = re.findall(r"\(SONAME\).*\[(.*)\]", told)
        # (What is opened by its path alone needs none.)
        if (soname or [name]) != [name] or not re.fullmatch(r"lib[\w-]+\.so", name):
            yield f"is called {name} and says {soname}, expected lib<name>.so in both: Android installs no others of an app"
    elif "/system/bin/linker64" not in told:
        yield "is not started by /system/bin/linker64"
    with open(path, "rb") as file:
        content = file.read()
    if name.startswith("libquarry-backend-") and f"{machine}-android-bionic".encode() not in content:
        yield f"has no note of a plugin for {machine}-android-bionic"
    # What is opened by its name is called as Android installs it.
    opened = set(re.findall(rb"libquarry-[a-z-]+\.so\.?[0-9][0-9.]*", content))
    if opened:
        yield f"opens {sorted(one.decode() for one in opened)}, expected names that end in .so"


def check_files(paths, machine):
    failed = False
    for path in paths:
        found = list(problems_of(path, machine))
        for one in found:
            print(f"FAILED: {path}: {one}")
        failed = failed or bool(found)
        if not found:
            needed = sorted(re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path)))
            print(f"   {os.path.basename(path)}: {os.path.getsize(path) / 1e6:.2f} MB, needs {' '.join(needed) or 'nothing'}")
    return not failed


def check_build(build, machine):
    libraries = sorted(path for path in glob.glob(f"{build}/**/*.so", recursive=True))
    names = {os.path.basename(path) for path in libraries}
    expected = LIBRARIES - {"libquarry-jni.so"}
    if not expected <= names:
        sys.exit(f"FAILED: {build} has no {sorted(expected - names)}")
    programs = [path for path in (f"{build}/tools/quarry", f"{build}/runtime/quarry-compiler", f"{build}/bindings/hello") if os.path.exists(path)]
    return check_files(libraries + programs, machine)


def check_aar(path, for_devices):
    """The package: what Gradle and prefab read of it, and its libraries."""
    import json
    good = True
    with zipfile.ZipFile(path) as aar, tempfile.TemporaryDirectory() as folder:
        names = set(aar.namelist())
        for one in ("AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", "prefab/prefab.json", "META-INF/LICENSE", "META-INF/NOTICE"):
            if one not in names:
                sys.exit(f"FAILED: {path} has no {one}")
        if for_devices and "META-INF/NOT-FOR-DEVICES" in names:
            sys.exit(f"FAILED: {path}: {aar.read('META-INF/NOT-FOR-DEVICES').decode().strip()}")
        aar.extractall(folder)
        top = json.load(open(f"{folder}/prefab/prefab.json", encoding="utf-8"))
        if top["schema_version"] != 2 or top["name"] != "quarry" or not re.fullmatch(r"\d+\.\d+\.\d+", top["version"]):
            sys.exit(f"FAILED: prefab.json says {top}")
        modules = sorted(os.listdir(f"{folder}/prefab/modules"))
        if modules != MODULES:
            sys.exit(f"FAILED: prefab has the modules {modules}")
        abis = sorted(os.listdir(f"{folder}/jni"))
        for module in modules:
            place = f"{folder}/prefab/modules/{module}"
            json.load(open(f"{place}/module.json", encoding="utf-8"))
            for header in ("quarry/quarry.h", "quarry/session.h"):
                if not os.path.exists(f"{place}/include/{header}"):
                    sys.exit(f"FAILED: module {module} has no {header}")
            for abi in abis:
                said = json.load(open(f"{place}/libs/android.{abi}/abi.json", encoding="utf-8"))
                if said["abi"] != abi or said["api"] != 29 or said["static"] or not os.path.exists(f"{place}/libs/android.{abi}/lib{module}.so"):
                    sys.exit(f"FAILED: module {module} says {said} for {abi}")
        for machine, abi in ABIS.items():
            if abi in abis:
                there = sorted(glob.glob(f"{folder}/jni/{abi}/*"))
                if not LIBRARIES <= {os.path.basename(one) for one in there}:
                    sys.exit(f"FAILED: {abi} has {[os.path.basename(one) for one in there]}, expected {sorted(LIBRARIES)}")
                good = check_files(there, machine) and good
        with zipfile.ZipFile(f"{folder}/classes.jar") as jar:
            classes = set(jar.namelist())
        for one in ("quarry/Model.class", "quarry/Session.class", "quarry/Tensor.class", "quarry/Generator.class", "quarry/HardwareMemory.class", "quarry/android/Logcat.class", "quarry/android/HardwareBuffers.class"):
            if one not in classes:
                sys.exit(f"FAILED: classes.jar has no {one}")
        print(f"   {os.path.basename(path)}: {os.path.getsize(path) / 1e6:.1f} MB, {' '.join(abis)}, {len(classes)} entries of classes, Kotlin: {'quarry/android/CoroutinesKt.class' in classes}")
    return good


if __name__ == "__main__":
    if sys.argv[1] == "--aar":
        sys.exit(0 if check_aar(sys.argv[2], "--for-devices" in sys.argv) else 1)
    sys.exit(0 if check_build(*sys.argv[1:3]) else 1)
