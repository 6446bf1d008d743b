#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests what quarry.android has on a desktop's JVM, against an installed tree: models in a package, hardware buffers, and, for Kotlin, the suspending functions, and the example's pixels.

check.py PREFIX FOLDER [NATIVE_WINDOW]      PREFIX: of `meson install --destdir`; FOLDER: for what is built; NATIVE_WINDOW: tests/support/native_window of the build
Exit status 77: no JDK or no Kotlin is installed (Debian: kotlin, libkotlinx-coroutines-java, libkotlinx-atomicfu-java); the last line says so.
"""
import glob
import os
import shutil
import subprocess
import sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here))
sys.path.insert(0, f"{root}/bindings/java")
import build_jar

sys.path.insert(0, f"{root}/bindings")
import story

prefix, folder = (os.path.abspath(word) for word in sys.argv[1:3])
window = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else None
if not shutil.which("javac") or not os.path.exists(f"{build_jar.java_home()}/include/jni.h"):
    print("no JDK is installed (apt install openjdk-17-jdk-headless)")
    sys.exit(77)
os.makedirs(folder, exist_ok=True)
build_jar.build(prefix, folder, with_libraries=False)
stubs, classes, tests = f"{folder}/stubs", f"{folder}/android", f"{folder}/tests"
build_jar.classes(stubs, glob.glob(f"{here}/stubs/**/*.java", recursive=True))
build_jar.classes(classes, glob.glob(f"{root}/bindings/java/src/quarry/*.java") + glob.glob(f"{here}/src/**/*.java", recursive=True), [stubs])
library = next(os.path.dirname(path) for path in glob.glob(f"{prefix}/**/libquarry.so", recursive=True))
models = f"{folder}/digits"
os.makedirs(models, exist_ok=True)
shutil.copy(f"{root}/models/digits/test_images.npy", models)
quarry = next(path for path in glob.glob(f"{prefix}/**/bin/quarry", recursive=True))
environment = dict(os.environ, LD_LIBRARY_PATH=library)
environment.pop("QUARRY_BACKEND_PATH", None)
subprocess.run([quarry, "compile", f"{root}/models/digits/digits.onnx", "--backend", "cpu", "-o", f"{models}/digits.qrm"], check=True, stdout=subprocess.DEVNULL, env=environment)


def passes(name, class_path, *words, options=(), more={}):
    done = subprocess.run(["java", f"-Dquarry.library={folder}/libquarry-jni.so", *options, "-cp", class_path, name, *words], capture_output=True, text=True,
                          env={**environment, **more}, timeout=300)
    print(done.stdout, end="")
    if done.returncode != 0 or "all passed" not in done.stdout:
        sys.exit(f"FAILED: {name}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


build_jar.classes(f"{folder}/java-tests", [f"{here}/tests/AssetsTest.java"], [classes, stubs])
passes("AssetsTest", f"{folder}/java-tests:{classes}:{stubs}", models, folder)
# Hardware buffers: of a build for Linux, which refuses them, and of one as on Android, with libraries of the tests' own in place of Android's.
home = build_jar.java_home()
build_jar.classes(f"{folder}/hardware-tests", [f"{here}/tests/HardwareTest.java"], [classes, stubs])
passes("HardwareTest", f"{folder}/hardware-tests:{classes}:{stubs}", models, "none")
if window:
    build_jar.run("cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{root}/tests/support/native_window", f"-I{home}/include", f"-I{home}/include/linux",
                  f"{here}/tests/hardware_test.c", f"-L{window}", "-lnativewindow", "-o", f"{folder}/libandroid.so")
    passes("HardwareTest", f"{folder}/hardware-tests:{classes}:{stubs}", models, options=[f"-Dquarry.test.library={folder}/libandroid.so", "-Xcheck:jni"],
           more={"LD_PRELOAD": f"{folder}/libandroid.so", "LD_LIBRARY_PATH": f"{window}:{library}", "QUARRY_BACKEND_PATH": f"{library}/quarry/backends"})
else:
    print("   hardware buffers: refusal alone, as no NATIVE_WINDOW was given")
debian = [f"/usr/share/java/{name}.jar" for name in ("kotlinx-coroutines-core", "atomicfu", "kotlin-stdlib")]
MAVEN = ("org.jetbrains.kotlinx:kotlinx-coroutines-core:1.3.0", "org.jetbrains.kotlin:kotlin-stdlib:1.3.50")  # which have Flow, and which Debian's compiler reads


def from_maven():
    """The class path of MAVEN; empty where they cannot be had."""
    jars = [f"{folder}/maven/{name}-{version}.jar" for _, name, version in (one.split(":") for one in MAVEN)]
    for one, jar in zip(MAVEN, jars):
        if not os.path.exists(jar) and shutil.which("mvn"):
            subprocess.run(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={one}", f"-DoutputDirectory={folder}/maven"], cwd=folder, capture_output=True, timeout=300)
    return ":".join(jars) if all(map(os.path.exists, jars)) else ""


class_path = os.environ.get("KOTLIN_CLASSPATH") or from_maven() or ":".join(debian)
if not shutil.which("kotlinc") or not all(map(os.path.exists, class_path.split(":"))):
    print("no Kotlin is installed (apt install kotlin libkotlinx-coroutines-java libkotlinx-atomicfu-java; or KOTLIN_CLASSPATH)")
    sys.exit(77)
has_flows = class_path != ":".join(debian)
shutil.rmtree(tests, ignore_errors=True)
example = f"{root}/examples/android/app/src/main/kotlin/org/quarry/camera"
sources = [f"{here}/src/quarry/android/Coroutines.kt", f"{example}/Nv12.kt", f"{example}/Classifier.kt", f"{here}/tests/CoroutinesTest.kt"]
if has_flows:
    sources += [f"{here}/src/quarry/android/Flows.kt", f"{here}/tests/FlowsTest.kt"]
build_jar.run("kotlinc", "-jvm-target", "1.8", "-cp", f"{classes}:{stubs}:{class_path}", "-d", tests, *sources)
passes("CoroutinesTestKt", f"{tests}:{classes}:{stubs}:{class_path}", models)
llama = f"{os.path.abspath(os.environ.get('QUARRY_SHARED') or f'{root}/../shared')}/{story.MODEL}"
if not has_flows:
    print("skipped: flows: Debian's coroutines have none, and Maven gave no newer ones")
elif not os.path.exists(llama):
    print(f"skipped: flows: there is no {llama}")
else:
    passes("FlowsTestKt", f"{tests}:{classes}:{stubs}:{class_path}", llama)
