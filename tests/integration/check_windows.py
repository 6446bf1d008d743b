#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program for Windows under wine beside that of Linux, on the same files: models of ONNX imported, checked, compiled, quantised and run, ONNX's node tests on cpu
case by case, real models, and Qualcomm's emulator. tools/test_windows.sh calls it, with wine's settings made.

check_windows.py BUILD LINUX_BUILD [QNN_OF_WINDOWS QNN_OF_LINUX]
"""
import filecmp
import glob
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

from onnx_file import F32, initializer_outside, onnx_file, onnx_node

build, linux = (os.path.abspath(path) for path in sys.argv[1:3])
libraries = [os.path.abspath(path) for path in sys.argv[3:5]]
root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NODES = "/usr/share/libonnx-testdata/data/node"
SHARED = os.environ.get("QUARRY_SHARED") or os.path.join(root, "..", "shared")
# Real models, with the inputs that lie beside them.
REAL = ("kws_dscnn_int8_qdq", "mobilenetv2_1.0_224_google_f32")
BACKENDS = ("cpu", "cpu-reference", "htp")
# One-operator models whose outputs in the emulator must be Linux's, to the byte.
OPERATORS = ("add_bcast", "averagepool_2d_pads", "batchnorm_example", "clip", "concat_3d_axis_1", "conv_with_strides_padding", "convtranspose", "depthtospace_example", "div", "elu", "exp", "flatten_axis1",
             "gather_0", "gemm_all_attributes", "globalaveragepool", "hardsigmoid", "instancenorm_example", "leakyrelu", "log", "matmul_3d", "maxpool_2d_pads", "mul_bcast", "pow", "prelu_example",
             "quantizelinear", "reduce_mean_keepdims_random", "relu", "reshape_reordered_all_dims", "resize_upsample_scales_nearest", "sigmoid", "slice", "softmax_axis_1", "sqrt", "sub", "tanh", "top_k",
             "transpose_default", "where_example")
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


def run(system, *arguments, status=0, timeout=3000, refusal=None):
    """What it printed. status None: whatever the exit status is. None where it failed and complained of `refusal`."""
    command, environment = PROGRAMS[system]
    # Not by pipes: wine's services, which a program may start, would hold them open.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
        done = subprocess.run([*command, *arguments], stdin=subprocess.DEVNULL, stdout=printed, stderr=complained, env=environment, timeout=timeout)
        out, said = (file.seek(0) or file.read().decode("utf-8", "replace").replace("\r\n", "\n") for file in (printed, complained))
    if refusal and done.returncode and refusal in said:
        return None
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
    same, files = same_files("reference.qrm", "compile", onnx, "--backend", "cpu-reference", "-o")
    require("compile for cpu-reference: a container of Linux's bytes", same, files)
    isa = next((isa for isa in ("avx2", "sse2") if run("linux", "compile", onnx, "--backend", "cpu", "-O", f"cpu.isa={isa}", "-o", f"{folder}/of-{isa}.qrm", refusal="has no kernels for") is not None), None)
    same, files = same_files("digits.qrm", "compile", onnx, "--backend", "cpu", *(("-O", f"cpu.isa={isa}") if isa else ()), "-o")
    if isa:
        require(f"compile for cpu, {isa}: a container of Linux's bytes", same, files)
    else:
        print("compile for cpu, byte by byte: left out, Linux's build has kernels for neither avx2 nor sse2")
    tops = [json.loads(run("windows", "run", file, f"{root}/models/digits/images/digit_7.png", "--json"))["runs"][0]["outputs"][0]["top"][0]["index"] for file in files]
    require("containers for cpu of both systems on Windows", tops == [7, 7], tops)
    # The ranges are those of what each computed, by other instructions and another C library.
    same, files = same_files("digits-quantized.onnx", "quantize", onnx, "-c", f"{root}/models/digits/images", "-o")
    sizes = [os.path.getsize(file) for file in files]
    tops = [[json.loads(run("windows", "run", file, f"{root}/models/digits/images/digit_{digit}.png", "--json"))["runs"][0]["outputs"][0]["top"][0]["index"] for digit in range(10)] for file in files]
    require(f"quantize: ten images right by the model of either, {'equal' if same else 'not equal'} byte by byte", tops == [list(range(10))] * 2 and abs(sizes[0] - sizes[1]) < 64, [sizes, tops])


def names():
    """Names that are in no code page; locations of external data that Windows would look for elsewhere."""
    place = f"{folder}/Größe-模型"
    os.makedirs(f"{place}/daten-データ")
    with open(f"{place}/daten-データ/w.bin", "wb") as file:
        file.write(struct.pack("<2f", 1, 2))
    with open(f"{folder}/outside.bin", "wb") as file:
        file.write(struct.pack("<2f", 3, 4))
    said = {}
    for location in ("daten-データ/w.bin", "daten-データ\\w.bin", "../outside.bin", "..\\outside.bin", ".. \\outside.bin", "daten-データ\\..\\..\\outside.bin", "C:outside.bin", f"Z:{folder}/outside.bin",
                     f"Z:\\{folder}\\outside.bin".replace("/", "\\"), f"\\\\?\\Z:{folder}/outside.bin", "daten-データ/w.bin:hidden"):
        path = f"{place}/außen-外.onnx"
        with open(path, "wb") as file:
            file.write(onnx_file([onnx_node("Add", ["x", "w"], ["y:0"])], [("x", F32, [2])], [("y:0", F32, [2])], initializers=[initializer_outside("w", F32, [2], location)]))
        out = f"{place}/out-{len(said)}"
        done = run("windows", "run", path, "--backend", "cpu", "--zeros", "--save", out, refusal="external data file")
        said[location] = os.listdir(out) if done is not None else "refused"
    taken = {location for location, what in said.items() if what == ["y_0.npy"]}
    require("external data in the model's folder alone, and an output whose name is no file's", taken == {"daten-データ/w.bin", "daten-データ\\w.bin"} and
            sum(what == "refused" for what in said.values()) == len(said) - 2, said)
    overrides = f"{place}/wünsche-願い.json"
    with open(overrides, "w", encoding="utf-8") as file:
        file.write("{}")
    samples = f"{place}/bilder-画像"
    shutil.copytree(f"{root}/models/digits/images", samples)
    run("windows", "quantize", f"{root}/models/digits/digits.onnx", "-c", samples, "--overrides", overrides, "-o", f"{place}/klein-小.onnx", "--report", f"{place}/bericht-報告.html")
    require("the quantiser takes such names", sorted(name for name in os.listdir(place) if name.startswith(("klein", "bericht"))) == ["bericht-報告.html", "klein-小.onnx"], os.listdir(place))


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


def saved_on_both(name, model, inputs, *options):
    """Whether the outputs that both programs save have the same bytes; why not."""
    folders = [f"{folder}/{name}-{system}" for system in PROGRAMS]
    for system, place in zip(PROGRAMS, folders):
        run(system, "run", model, *inputs, *options, "--save", place)
    there, here = (sorted(os.listdir(place)) for place in folders)
    if there != here or not here:
        return False, f"found {there}, expected {here}"
    different = [one for one in here if not filecmp.cmp(f"{folders[0]}/{one}", f"{folders[1]}/{one}", shallow=False)]
    return not different, f"other bytes: {different}"


def inputs_of(case):
    found = glob.glob(f"{case}/test_data_set_0/input_*.pb")
    return sorted(found, key=lambda path: int(re.search(r"input_(\d+)", path)[1]))


def real_models():
    for name in REAL:
        place = f"{SHARED}/models/{name}"
        if not os.path.isdir(place):
            print(f"{name}: left out, there is no {place} (set QUARRY_SHARED)")
            continue
        reports = []
        for system in PROGRAMS:
            reports.append(f"{folder}/{system}-{name}.json")
            run(system, "conform", "--backend", "cpu", "--json", reports[-1], place, status=None)
        require(f"{name} on cpu", [results(report) for report in reports] == [{name: "passed"}] * 2, reports)
        if libraries:
            require(f"{name} on htp: the outputs of Linux's bytes", *saved_on_both(name, f"{place}/model.onnx", inputs_of(place), "--backend", "htp"))


def operators():
    if not os.path.isdir(NODES):
        return
    different, ran = {}, 0
    for name in OPERATORS:
        case = f"{NODES}/test_{name}"
        verdicts = both("check", f"{case}/model.onnx", "--backend", "htp", "--json", status=None)
        if verdicts[0] != verdicts[1]:
            different[name] = verdicts
        elif all(node["supported"] for node in json.loads(verdicts[0])["nodes"]):
            same, why = saved_on_both(name, f"{case}/model.onnx", inputs_of(case), "--backend", "htp")
            ran += 1
            if not same:
                different[name] = why
    require(f"htp, models of one operator: verdicts and outputs of Linux's bytes, {ran} ran of {len(OPERATORS)}", not different and ran > 30, different)


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
    names()
    real_models()
    if libraries:
        emulator()
        operators()
    conformance()
sys.exit(1 if failed else 0)
