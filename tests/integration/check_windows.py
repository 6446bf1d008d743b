#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program for Windows under wine beside that of Linux, on the same files: models of ONNX imported, checked, compiled, quantised and run, ONNX's node tests on cpu
case by case, and Qualcomm's emulator. tools/test_windows.sh calls it, with wine's settings made.

check_windows.py BUILD LINUX_BUILD [QNN_OF_WINDOWS QNN_OF_LINUX]
"""
import filecmp
import glob
import json
import os
import subprocess
import sys
import tempfile

build, linux = (os.path.abspath(path) for path in sys.argv[1:3])
libraries = [os.path.abspath(path) for path in sys.argv[3:5]]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODES = "/usr/share/libonnx-testdata/data/node"
BACKENDS = ("cpu", "cpu-reference", "htp")
# Whose results on cpu-reference are those of the C runtime's functions (docs/windows.md): nothing but values may differ there.
failed = 0


def programs():
    """For each system what calls the program, and the environment."""
    common = {name: value for name, value in os.environ.items() if not name.startswith("QUARRY_")}
    there = {**common, "QUARRY_BACKEND_PATH": ";".join(f"Z:{build}/backends/{one}" for one in BACKENDS)}
    here = {**common, "QUARRY_BACKEND_PATH": ":".join(f"{linux}/backends/{one}" for one in BACKENDS)}
    if libraries:
        there["QUARRY_QNN_PATH"], here["QUARRY_QNN_PATH"] = f"Z:{libraries[0]}", libraries[1]
    return {"windows": (["wine", f"{build}/tools/quarry.exe"], there), "linux": ([f"{linux}/tools/quarry"], here)}


PROGRAMS = programs()


def run(system, *arguments, status=0, timeout=3000):
    command, environment = PROGRAMS[system]
    done = subprocess.run([*command, *arguments], capture_output=True, env=environment, timeout=timeout)
    out, said = (text.decode("utf-8", "replace").replace("\r\n", "\n") for text in (done.stdout, done.stderr))
    if status is not None and done.returncode != status:
        raise SystemExit(f"FAILED: {system}: quarry {' '.join(arguments)}: exit status {done.returncode}, expected {status}\n{out[-2000:]}{said[-2000:]}")
    return out


def both(*arguments, **more):
    return [run(system, *arguments, **more) for system in PROGRAMS]


def require(name, is_right, found=""):
    global failed
    failed += not is_right
    print(f"{name}: {'ok' if is_right else f'FAILED: {found}'}")


def same_files(name, *arguments):
    """Each program writes a file, the last argument's; whether their bytes are the same."""
    files = []
    for system in PROGRAMS:
        files.append(f"{folder}/{system}-{name}")
        run(system, *arguments, files[-1])
    return filecmp.cmp(*files, shallow=False), files


def results(report):
    with open(report, encoding="utf-8") as file:
        return {case["name"]: case["result"] for case in json.load(file)["cases"]}


def models():
    onnx = f"{root}/models/digits/digits.onnx"
    for path in sorted(glob.glob(f"{root}/models/**/*.onnx", recursive=True)):
        verdicts = both("check", path, "--backend", "cpu", "--json", status=None)
        require(f"check {os.path.relpath(path, root)}: the verdicts of Linux", verdicts[0] == verdicts[1] and verdicts[0], verdicts)
    tops = [[json.loads(run(system, "run", onnx, f"{root}/models/digits/images/digit_{digit}.png", "--json"))["runs"][0]["outputs"][0]["top"][0]["index"] for digit in range(10)]
            for system in PROGRAMS]
    require("digits.onnx on cpu: ten images", tops[0] == tops[1] == list(range(10)), tops)
    same, files = same_files("digits.qrm", "compile", onnx, "--backend", "cpu", "-O", "cpu.isa=avx2", "-o")
    require("compile: a container of Linux's bytes", same, files)
    same, files = same_files("digits-quantized.onnx", "quantize", onnx, "-c", f"{root}/models/digits/images", "-o")
    require("quantize: a model of Linux's bytes", same, files)


def conformance():
    if not os.path.isdir(NODES):
        print("conformance: left out, libonnx-testdata is not installed")
        return
    found = []
    for system in PROGRAMS:
        report = f"{folder}/{system}.json"
        run(system, "conform", "--backend", "cpu", "--json", report, NODES, status=None)
        found.append(results(report))
    there, here = found
    counts = [", ".join(f"{list(one.values()).count(kind)} {kind}" for kind in ("passed", "failed", "refused")) for one in found]
    differ = {name: (there.get(name), here[name]) for name in here if there.get(name) != here[name]}
    require(f"ONNX's node tests on cpu: {counts[0]}; Linux: {counts[1]}", not differ and len(here) > 900, differ)


def emulator():
    for soc in ("SM8650", "SC8380XP"):
        same, files = same_files(f"{soc}.qrm", "compile", f"{root}/models/digits/digits.onnx", "--backend", "htp", "-O", f"soc_model={soc}", "-o")
        print(f"htp, {soc}: container {'of' if same else 'not of'} Linux's bytes")
        for number, file in enumerate(files):  # each runs what either made
            for system in PROGRAMS:
                run(system, "run", file, f"{root}/models/digits/images/digit_3.png", "--backend", "htp", "--save", f"{folder}/{soc}-{number}-{system}")
            outputs = [f"{folder}/{soc}-{number}-{system}/scores.npy" for system in PROGRAMS]
            require(f"htp, {soc}: the scores of Linux's bytes, of a container that {list(PROGRAMS)[number]} made", filecmp.cmp(*outputs, shallow=False))


with tempfile.TemporaryDirectory() as folder:
    models()
    conformance()
    if libraries:
        emulator()
sys.exit(1 if failed else 0)
