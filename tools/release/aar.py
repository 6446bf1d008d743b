#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs builds for Android into one AAR: Java's classes and those for Android, libraries for each ABI, and headers and libraries for C and C++ (prefab).

aar.py OUT.aar ABI=BUILD_DIR... [--strip PROGRAM]     ABI: arm64-v8a or x86_64; BUILD_DIR: of `meson setup` for it; PROGRAM: default `llvm-strip`, or binutils'
Wants a JDK. Kotlin's part (suspending functions) is compiled where `kotlinc` is on PATH and KOTLIN_CLASSPATH names kotlinx-coroutines-core (1.3 or newer); else the
AAR is without it, and says so: the files *.kt of bindings/android/src/quarry/android may be sources of the app.
The bytes depend on what is packed alone: files are in order, and have one time.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, f"{root}/bindings/java")
import build_jar

MACHINES = {"arm64-v8a": "aarch64", "x86_64": "x86_64"}
API = 29
# What an app links by prefab; plugins, what reads ONNX and the native part of Java's package are opened. Builds without ONNX have no quantizer.
MODULES = ("quarry", "quarry-generate", "quarry-quantize")


def fail(why):
    sys.exit(f"aar.py: {why}")


def version():
    text = open(f"{root}/include/quarry/version.h", encoding="utf-8").read()
    return ".".join(re.search(rf"#define QR_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def written(path, entries):
    """A ZIP of entries (name, file or bytes) in order."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, content in sorted(entries.items()):
            if not isinstance(content, bytes):
                with open(content, "rb") as file:
                    content = file.read()
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            out.writestr(entry, content)


def kotlin_classes(folder, classes):
    """Whether the suspending functions and flows were compiled."""
    if not shutil.which("kotlinc") or not os.environ.get("KOTLIN_CLASSPATH"):
        return False
    build_jar.run("kotlinc", "-jvm-target", "1.8", "-cp", f"{classes}:{os.environ['KOTLIN_CLASSPATH']}", "-d", f"{folder}/kotlin", *sorted(glob.glob(f"{root}/bindings/android/src/**/*.kt", recursive=True)))
    shutil.copytree(f"{folder}/kotlin", classes, dirs_exist_ok=True)
    return True


def classes_of(folder):
    """The entries of classes.jar, and whether Kotlin's are among them."""
    stubs, classes = f"{folder}/stubs", f"{folder}/classes"
    build_jar.classes(stubs, glob.glob(f"{root}/bindings/android/stubs/**/*.java", recursive=True))
    build_jar.classes(classes, glob.glob(f"{root}/bindings/java/src/quarry/*.java") + glob.glob(f"{root}/bindings/android/src/**/*.java", recursive=True), [stubs])
    with_kotlin = kotlin_classes(folder, classes)
    found = [path for path in glob.glob(f"{classes}/**/*", recursive=True) if os.path.isfile(path)]
    return {os.path.relpath(path, classes): path for path in found}, with_kotlin


def stripper(given, machine):
    for program in [given] if given else ["llvm-strip", f"{machine}-linux-gnu-strip", "strip"]:
        if shutil.which(program):
            return program
    fail(f"there is no {given or 'llvm-strip'}, which takes the symbols out of libraries")


def libraries_of(abi, build, folder, strip):
    """Name to stripped file."""
    out = {}
    os.makedirs(f"{folder}/{abi}", exist_ok=True)
    for path in sorted(glob.glob(f"{build}/**/libquarry*.so", recursive=True)):
        name = os.path.basename(path)
        if name == "libquarry-backend-null.so" or "/tests/" in path:  # an example for authors
            continue
        out[name] = f"{folder}/{abi}/{name}"
        build_jar.run(stripper(strip, MACHINES[abi]), "-o", out[name], path)
    for name in ("libquarry.so", "libquarry-jni.so", "libquarry-backend-cpu.so"):
        if name not in out:
            fail(f"{build} has no {name}: build it for Android" + (", with a jni.h (the NDK has it)" if "jni" in name else ""))
    return out


def is_for_looking(build):
    """Whether it was linked against stubs (tools/cross/android/sysroot.sh) and not by the NDK: zig's linker says so in the file. (What meson writes down of compilers depends on its age.)"""
    with open(glob.glob(f"{build}/**/libquarry.so", recursive=True)[0], "rb") as file:
        return b"zig-bootstrap" in file.read()


def prefab_of(builds):
    """headers and libraries for find_package(quarry)."""
    text = lambda value: (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
    entries = {"prefab/prefab.json": text({"schema_version": 2, "name": "quarry", "version": version(), "dependencies": []})}
    for module in (one for one in MODULES if all(f"lib{one}.so" in libraries for libraries in builds.values())):
        place = f"prefab/modules/{module}"
        entries[f"{place}/module.json"] = text({"export_libraries": [] if module == "quarry" else [":quarry"], "library_name": f"lib{module}"})
        for header in glob.glob(f"{root}/include/quarry/*.h*"):
            entries[f"{place}/include/quarry/{os.path.basename(header)}"] = header
        for abi, libraries in builds.items():
            entries[f"{place}/libs/android.{abi}/abi.json"] = text({"abi": abi, "api": API, "ndk": 27, "stl": "none", "static": False})
            entries[f"{place}/libs/android.{abi}/lib{module}.so"] = libraries[f"lib{module}.so"]
    return entries


def main(words):
    strip = ""
    if "--strip" in words:
        at = words.index("--strip")
        strip, words = words[at + 1], words[:at] + words[at + 2:]
    pairs = [word.partition("=")[::2] for word in words[1:]]
    if not pairs or any(abi not in MACHINES or not os.path.isdir(build) for abi, build in pairs):
        fail(f"found {words}, expected OUT.aar and ABI=BUILD_DIR with an ABI of {', '.join(MACHINES)}")
    if not shutil.which("javac"):
        fail("there is no javac (apt install openjdk-17-jdk-headless)")
    with tempfile.TemporaryDirectory() as folder:
        builds = {abi: libraries_of(abi, build, folder, strip) for abi, build in pairs}
        classes, with_kotlin = classes_of(folder)
        written(f"{folder}/classes.jar", classes)
        entries = {"classes.jar": f"{folder}/classes.jar", "R.txt": b"", "META-INF/LICENSE": f"{root}/LICENSE", "META-INF/NOTICE": f"{root}/NOTICE",
                   "AndroidManifest.xml": f'<manifest xmlns:android="http://schemas.android.com/apk/res/android" package="quarry.android">\n  <uses-sdk android:minSdkVersion="{API}" />\n</manifest>\n'.encode(),
                   # The native part finds classes and members by name.
                   "proguard.txt": b"-keep class quarry.** { *; }\n", **prefab_of(builds)}
        stubs = [abi for abi, build in pairs if is_for_looking(build)]
        if stubs:
            entries["META-INF/NOT-FOR-DEVICES"] = f"{', '.join(stubs)}: compiled without Android's headers, to see that it links; build with the NDK (docs/android.md).\n".encode()
        for abi, libraries in builds.items():
            entries.update({f"jni/{abi}/{name}": path for name, path in libraries.items()})
        written(words[0], entries)
    print(f"{words[0]}: {', '.join(builds)}" + (" (not for devices: not by the NDK)" if stubs else "") + ("" if with_kotlin else "; without Kotlin's suspending functions: kotlinc or KOTLIN_CLASSPATH is not there"))


if __name__ == "__main__":
    main(sys.argv[1:])
