#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quarry quantize beside ONNX Runtime's quantiser: signal to noise of the outputs and agreement of classes, for float models with the same data. For docs/performance/quantize.md.

    tools/bench/bench_quantize.py --program build/tools/quarry --shared ../shared [--ours "FLAGS"] [--cache FOLDER] [NAME...]
    tools/bench/bench_quantize.py --program build/tools/quarry --shared ../shared --targets 30    # the table of mixed precision
    tools/bench/bench_quantize.py --program build/tools/quarry --shared ../shared --wholly        # what htp takes of each (QUARRY_QNN_PATH), and how far ours and ONNX Runtime's results are from what the model means
    tools/bench/bench_quantize.py --program build/tools/quarry --shared ../shared --by-cpu        # models of one input by either tool, run by Quarry's backend cpu
    tools/bench/bench_quantize.py --program build/tools/quarry --shared ../shared --time 100      # calibration of MobileNetV2 with so many samples, and memory

Run by a Python that has onnx, onnxruntime, numpy and Pillow. Models lie in folders in the layout of ONNX's tests: model.onnx and test_data_set_*/input_*.pb. Those that see pictures are calibrated with the
photographs of SHARED/images of even number (and their data sets) and checked on the others, as they are, mirrored and cut (classifiers on some 150 forms of each); the rest with what lies beside them. Each output is checked by ONNX Runtime
against the float model; a row has the least of a model's outputs. Theirs: qnn_preprocess_model, get_qnn_qdq_config (u8 activations and weights), quantize. Their models are kept in the cache.
"""
import argparse
import glob
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantType, quantize
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config, qnn_preprocess_model
from qdq_meaning import meaning

PHOTOS = ["kitten_224.png", "mushroom.png", "hummingbird.jpg", "goldfish.jpg", "coral_cat.bmp", "coral_parrot.jpg", "coral_hot_dog.jpg", "ji_banana_0.jpg", "ji_dog_0.jpg", "darknet_dog.jpg",
          "darknet_person.jpg", "face_two_people.jpg"]
DIGITS = ["mnist_0.jpg", "mnist_3.jpg", "mnist_5.jpg", "mnist_7.jpg"]
CLASSIFIERS = ("mobilenetv2_1.0_224_google_f32", "squeezenet1.1_f32", "vww_mobilenetv1_0.25_96_f32", "mnist-8", "resnet8_cifar10_f32")


def resized(image, width, height):
    return np.asarray(image.resize((width, height), 2), np.float32)


def short_side(image, side, crop):
    scale = side / min(image.size)
    image = image.resize((round(image.width * scale), round(image.height * scale)), 2)
    left, top = (image.width - crop) // 2, (image.height - crop) // 2
    return np.asarray(image.crop((left, top, left + crop, top + crop)), np.float32)


def letterbox(image, side, value, centred=False):
    scale = side / max(image.size)
    small = np.asarray(image.resize((round(image.width * scale), round(image.height * scale)), 2), np.float32)
    out = np.full((side, side, 3), value, np.float32)
    top, left = ((side - small.shape[0]) // 2, (side - small.shape[1]) // 2) if centred else (0, 0)
    out[top:top + small.shape[0], left:left + small.shape[1]] = small
    return out


def nchw(value):
    return np.ascontiguousarray(value.transpose(2, 0, 1)[None])


# Name of a model: its input from a picture, as the models' manifest says.
PICTURES = {
    "mobilenetv2_1.0_224_google_f32": lambda i: nchw((resized(i, 224, 224) - 128) / 128),
    "squeezenet1.1_f32": lambda i: nchw(short_side(i, 256, 224)[:, :, ::-1] - np.array([104, 117, 123], np.float32)),
    "vww_mobilenetv1_0.25_96_f32": lambda i: nchw(resized(i, 96, 96) / 255),
    "resnet8_cifar10_f32": lambda i: nchw(resized(i, 32, 32)),
    "ultraface_rfb_320": lambda i: nchw((resized(i, 320, 240) - 127) / 128),
    "yolox_nano_416": lambda i: nchw(letterbox(i, 416, 114)[:, :, ::-1]),
    "yunet_n_640": lambda i: nchw(letterbox(i, 640, 0)[:, :, ::-1]),
    "mediapipe_face_detection_short_128": lambda i: letterbox(i, 128, 0, True)[None] / 127.5 - 1,
    "super-resolution-10": lambda i: np.asarray(i.convert("YCbCr").split()[0].resize((224, 224), 2), np.float32)[None, None] / 255,
    "mnist-8": lambda i: np.asarray(i.convert("L").resize((28, 28), 2), np.float32)[None, None],
}


def pictures(shared, name):
    """Samples to calibrate with, and others to check by."""
    from PIL import Image, ImageOps
    prepare, calibrate, judge = PICTURES[name], [], []
    for at, file in enumerate(DIGITS if name == "mnist-8" else PHOTOS):
        image = Image.open(os.path.join(shared, "images", file)).convert("RGB")
        width, height = image.size
        parts = [image.crop((width // 8, height // 8, width * 7 // 8, height * 7 // 8)), image.crop((0, 0, width * 3 // 4, height * 3 // 4))]
        forms = [image, *parts] if name == "mnist-8" else [image, ImageOps.mirror(image), *parts]
        if at % 2 and name != "mnist-8":  # more of those to check by: the other corners, and all of them mirrored
            parts += [image.crop((x, y, x + width * 3 // 4, y + height * 3 // 4)) for x, y in ((width // 4, 0), (0, height // 4), (width // 4, height // 4))]
            forms = [form for one in (image, *parts) for form in (one, ImageOps.mirror(one))]
            if name in CLASSIFIERS:  # a class is one answer for a whole picture: so many forms that a few near ties do not decide
                sizes = [(width * part // 10, height * part // 10) for part in (5, 6, 7, 8, 9)]
                parts = [image.crop((x, y, x + w, y + h)) for w, h in sizes for x in range(0, width - w + 1, (width - w) // 4) for y in range(0, height - h + 1, (height - h) // 2)]
                forms += [form for one in parts for form in (one, ImageOps.mirror(one))]
        (judge if at % 2 else calibrate).extend(np.ascontiguousarray(prepare(form), np.float32) for form in forms)
    return calibrate, judge


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.samples, self.at = samples, iter(samples)

    def get_next(self):
        return next(self.at, None)

    def rewind(self):
        self.at = iter(self.samples)


def session(path):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def samples_of(folder, inputs):
    out = []
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        sample = {}
        for i, value in enumerate(inputs):
            with open(os.path.join(data, f"input_{i}.pb"), "rb") as file:
                sample[value.name] = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
        out.append(sample)
    return out


def data_of(shared, name, inputs):
    """Samples to calibrate with, and to check by: the same where there are no others."""
    given = samples_of(os.path.join(shared, "models", name), inputs)
    if name not in PICTURES:  # models for NPUs have one shape: that of the last sample
        given = [one for one in given if all(one[key].shape == value.shape for key, value in given[-1].items())]
        return given, given
    calibrate, judge = pictures(shared, name)
    return given + [{inputs[0].name: one} for one in calibrate], [{inputs[0].name: one} for one in judge]


def save(samples, inputs, folder):
    for s, sample in enumerate(samples):
        inner = os.path.join(folder, f"{s:04}")
        os.makedirs(inner)
        for i, value in enumerate(inputs):
            np.save(os.path.join(inner, f"input_{i}.npy"), sample[value.name])


def by_ort(path, samples):
    found = session(path)
    return [found.run(None, sample) for sample in samples]


def by_cpu(program, path, samples):
    """The same by Quarry's backend cpu, of a model of one input."""
    names = [one.name for one in session(path).get_outputs()]
    with tempfile.TemporaryDirectory() as folder:
        asked, said = os.path.join(folder, "asked"), os.path.join(folder, "said")
        os.makedirs(asked)
        os.makedirs(said)
        for i, sample in enumerate(samples):
            np.save(os.path.join(asked, f"{i:04}.npy"), *sample.values())
        subprocess.run([program, "run", path, asked, "--backend", "cpu", "--save", said], check=True, capture_output=True)
        return [[np.load(os.path.join(said, f"{i:04}.npy.{name}.npy")) for name in names] for i in range(len(samples))]


def noise(wanted, outputs):
    """The least signal to noise of the outputs in dB, and how often the greatest element is the same."""
    least = np.inf
    for i in range(len(wanted[0])):
        if wanted[0][i].dtype != np.float32:
            continue
        signal = sum(float((w[i].astype(np.float64) ** 2).sum()) for w in wanted)
        error = sum(float(((w[i].astype(np.float64) - o[i]) ** 2).sum()) for w, o in zip(wanted, outputs))
        least = min(least, 10 * np.log10(signal / error) if error else 200)
    same = np.mean([w[0].argmax() == o[0].argmax() for w, o in zip(wanted, outputs)])
    return float(least), float(same)


def theirs(model, samples, out, method):
    with tempfile.TemporaryDirectory() as folder:
        prepared = os.path.join(folder, "prepared.onnx")
        changed = qnn_preprocess_model(model, prepared)
        base = prepared if changed else model
        config = get_qnn_qdq_config(base, Reader(samples), method, activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8)
        quantize(base, out, config)


def float_models(shared):
    for name in sorted(os.listdir(os.path.join(shared, "models"))):
        path = os.path.join(shared, "models", name, "model.onnx")
        if not os.path.exists(path) or name.endswith("_f16"):
            continue
        if not any(node.op_type in ("QuantizeLinear", "DequantizeLinear") and "kws_dscnn_f32" != name for node in onnx.load(path).graph.node):
            yield name


def row(args, name):
    """Figures of one model: by tool."""
    model = os.path.join(args.shared, "models", name, "model.onnx")
    real = session(model)
    inputs = real.get_inputs()
    calibrate, judge = data_of(args.shared, name, inputs)
    wanted_here, wanted_there = [real.run(None, one) for one in calibrate], [real.run(None, one) for one in judge]
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        def measure(key, path):
            out[key] = {"seen": noise(wanted_here, by_ort(path, calibrate))[0]}
            out[key]["other"], out[key]["top1"] = noise(wanted_there, by_ort(path, judge))

        for key, method in (("minmax", CalibrationMethod.MinMax), ("percentile", CalibrationMethod.Percentile)):
            path = os.path.join(args.cache or folder, f"{name}.{key}.onnx")
            told = path + ".json"
            if os.path.exists(told):
                out[key] = json.load(open(told))
                continue
            try:  # their tool refuses some models: that is a result
                if not os.path.exists(path):
                    theirs(model, calibrate, path, method)
                measure(key, path)
            except Exception as problem:
                out[key] = {"problem": f"{type(problem).__name__}"}
            with open(told, "w") as file:
                json.dump(out[key], file)
        samples, made = os.path.join(folder, "samples"), os.path.join(folder, "ours.onnx")
        save(calibrate, inputs, samples)
        ran = subprocess.run([args.program, "quantize", model, "-c", samples, "-o", made, "--hold-back", "0", *args.ours.split()], capture_output=True, text=True)
        try:
            if ran.returncode:
                raise RuntimeError(ran.stderr.splitlines()[0][:160])
            measure("ours", made)
        except Exception as problem:
            out["ours"] = {"problem": f"{type(problem).__name__}: {str(problem)[:160]}"}
    return out


def table(args):
    print("| model | min-max | percentile | Quarry | difference | held out: theirs | Quarry | difference | top-1: theirs | Quarry |\n|---|---|---|---|---|---|---|---|---|---|")
    gains, others = [], []
    for name in args.names or float_models(args.shared):
        found = row(args, name)
        figure = lambda tool, what, scale=1: f"{scale * found[tool][what]:.1f}" if what in found[tool] else found[tool]["problem"]  # noqa: E731
        known = [t for t in ("minmax", "percentile") if "seen" in found[t]]
        best = {what: max((found[t][what] for t in known), default=None) for what in ("seen", "other", "top1")}
        gain = lambda what: found["ours"][what] - best[what] if "seen" in found["ours"] and known else None  # noqa: E731
        if gain("seen") is not None:
            gains.append(gain("seen"))
            others.append(gain("other"))
        has_classes, told = name in CLASSIFIERS, lambda value, form="+.1f": "" if value is None else format(value, form)
        print(f"| {name} | {figure('minmax', 'seen')} | {figure('percentile', 'seen')} | {figure('ours', 'seen')} | {told(gain('seen'))} | {told(best['other'], '.1f')} | {figure('ours', 'other')} | "
              f"{told(gain('other'))} | {told(100 * best['top1'], '.0f') if has_classes and known else ''} | {figure('ours', 'top1', 100) if has_classes else ''} |", flush=True)
    if gains:
        print(f"\nmedian difference {np.median(gains):+.1f} dB, least {min(gains):+.1f} dB; held out {np.median(others):+.1f} dB, least {min(others):+.1f} dB")


# The peak of a child's memory begins with what its parent has, and this program has much: so a small one starts it.
LAUNCH = """
import os, sys
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
_, status, used = os.wait4(child, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


def ours(args, model, samples, out, *flags):
    """The report, or why there is none; seconds; seconds of processors; peak of memory in MB."""
    began = time.monotonic()
    command = [args.program, "quantize", model, "-c", samples, "-o", out, "--report", out + ".json", "--hold-back", "0", *args.ours.split(), *flags]
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCH, *command], capture_output=True, text=True)
    seconds = time.monotonic() - began
    busy, memory = (float(one) for one in done.stdout.split())
    return (json.load(open(out + ".json")) if done.returncode == 0 else done.stderr.splitlines()[0][:160]), seconds, busy, memory


def targets(args):
    """What 30 dB take: operations of 16 bits."""
    print("| model | dB in 8 bits | dB reached | operations of 16 bits | of | fewer by |\n|---|---|---|---|---|---|")
    for name in args.names or float_models(args.shared):
        model = os.path.join(args.shared, "models", name, "model.onnx")
        inputs = session(model).get_inputs()
        with tempfile.TemporaryDirectory() as folder:
            samples, out = os.path.join(folder, "samples"), os.path.join(folder, "out.onnx")
            save(data_of(args.shared, name, inputs)[0][:8], inputs, samples)
            least = lambda report: min(one["sqnr"] for one in report["outputs"])  # noqa: E731
            plain, found = (ours(args, model, samples, out, *flags)[0] for flags in ((), ("--target", f"sqnr={args.targets:g}")))
            if isinstance(plain, str) or isinstance(found, str):
                print(f"| {name} | {plain if isinstance(plain, str) else format(least(plain), '.1f')} | {found if isinstance(found, str) else ''} | | | |", flush=True)
                continue
            wide, of = next(one["detail"].split(" of ") for one in found["changes"] if one["what"] == "operations of 16 bits")
            print(f"| {name} | {least(plain):.1f} | {least(found):.1f} | {wide} | {of} | {format(int(of) / int(wide), '.1f') if int(wide) else 'all'} |", flush=True)


def run_by_cpu(args):
    """Whether ours is as good as the better of theirs where Quarry runs both; three forms of each photograph that was held out."""
    print("| model | theirs, dB | ours, dB | held out: theirs, dB | ours, dB |\n|---|---|---|---|---|")
    for name in args.names or ("resnet8_cifar10_f32", "mobilenetv2_1.0_224_google_f32"):
        model = os.path.join(args.shared, "models", name, "model.onnx")
        inputs = session(model).get_inputs()
        calibrate, judge = data_of(args.shared, name, inputs)
        judge = judge[::max(1, len(judge) // 18)]
        wanted = [by_ort(model, part) for part in (calibrate, judge)]
        with tempfile.TemporaryDirectory() as folder:
            samples, made = os.path.join(folder, "samples"), os.path.join(folder, "ours.onnx")
            save(calibrate, inputs, samples)
            ours(args, model, samples, made)
            paths = [made]
            for method in (CalibrationMethod.MinMax, CalibrationMethod.Percentile):
                paths.append(os.path.join(folder, f"{method.name}.onnx"))
                theirs(model, calibrate, paths[-1], method)
            found = [[noise(want, by_cpu(args.program, path, part))[0] for want, part in zip(wanted, (calibrate, judge))] for path in paths]
        best = [max(one) for one in zip(*found[1:])]
        print(f"| {name} | {best[0]:.1f} | {found[0][0]:.1f} | {best[1]:.1f} | {found[0][1]:.1f} |", flush=True)


def wholly(args):
    """Whether htp takes what it takes of the float model; and how far results are from what the quantised graph means (qdq_meaning.py), in steps of the outputs: those of the cpu backend, and ONNX Runtime's
    node by node and as it comes. Most and mean, of the output where it is the most."""
    print("| model | nodes refused by htp: float | quantised | from the exact result: Quarry | ONNX Runtime, node by node | as it comes | Quarry from ONNX Runtime, node by node |\n|---|---|---|---|---|---|---|")
    for name in args.names or float_models(args.shared):
        model = os.path.join(args.shared, "models", name, "model.onnx")
        inputs = session(model).get_inputs()
        with tempfile.TemporaryDirectory() as folder:
            samples, out, saved = (os.path.join(folder, part) for part in ("samples", "out.onnx", "saved"))
            save(data_of(args.shared, name, inputs)[0][:8], inputs, samples)
            report = ours(args, model, samples, out)[0]
            if isinstance(report, str):
                print(f"| {name} | {report} | | | | | |", flush=True)
                continue
            options = ort.SessionOptions()
            options.log_severity_level, options.graph_optimization_level = 4, ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            found = ort.InferenceSession(out, options, providers=["CPUExecutionProvider"])
            files = {one.name: os.path.join(samples, "0000", f"input_{i}.npy") for i, one in enumerate(inputs)}
            given = {}
            for one in found.get_inputs():
                given[one.name] = np.load(files[one.name]).reshape([d if isinstance(d, int) else 1 for d in one.shape])
                np.save(files[one.name], given[one.name])
            shapes = ",".join(f"{one.name}={'x'.join(map(str, given[one.name].shape))}" for one in found.get_inputs())

            def refused(path, *flags):
                told = subprocess.run([args.program, "check", path, "--backend", "htp", "-O", "soc_model=SM8650", *flags], capture_output=True, text=True).stdout
                last = [line for line in told.splitlines() if line.startswith("backend htp:")]
                return last[-1].split(", ")[1].split()[0] if last else "?"

            names = [one.name for one in found.get_outputs()]
            meant = meaning(out, given)
            one_by_one, optimised = (dict(zip(names, run.run(None, given))) for run in (found, session(out)))
            ran = subprocess.run([args.program, "run", out, *(part for key, file in files.items() for part in ("--input", f"{key}={file}")), "--save", saved], capture_output=True, text=True)
            if ran.returncode:
                print(f"| {name} | {ran.stderr[:160].strip()} | | | | | |", flush=True)
                continue
            quarry = {key: np.load(os.path.join(saved, key.replace("/", "_") + ".npy")) for key in names}
            scales = {one["name"]: one["scale"] for one in report["tensors"] if not one["is_weight"]}

            def apart(one, other):
                steps = [np.abs(one[key].astype(np.float64) - other[key]) / scales[key] for key in names if key in scales and one[key].size]
                most = max(steps, key=np.max)
                return f"{most.max():.1f}, {most.mean():.4f}"

            print(f"| {name} | {refused(model, '--shape', shapes)} | {refused(out)} | {apart(quarry, meant)} | {apart(one_by_one, meant)} | {apart(optimised, meant)} | {apart(quarry, one_by_one)} |", flush=True)


def timed(args):
    """MobileNetV2 with so many samples, both tools in turn: what theirs does, and ours with all that it chooses by measurement; and the memory of ten times as many."""
    name = "mobilenetv2_1.0_224_google_f32"
    model = os.path.join(args.shared, "models", name, "model.onnx")
    inputs = session(model).get_inputs()
    some = [{inputs[0].name: one} for one in pictures(args.shared, name)[0]]
    with tempfile.TemporaryDirectory() as folder:
        few, many, out = (os.path.join(folder, part) for part in ("few", "many", "out.onnx"))
        samples = [some[i % len(some)] for i in range(args.time)]
        save(samples, inputs, few)
        os.makedirs(many)
        for i in range(10 * args.time):
            os.symlink(os.path.join(few, f"{i % args.time:04}"), os.path.join(many, f"{i:05}"))
        same = ("--range", "minmax", "--equalize-activations", "0", "--bias-correction", "0", "--adaptive-rounding", "0", "--evaluate", "0")
        all_of = ([], [], [])
        for _ in range(3):
            began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
            theirs(model, samples, out + ".theirs", CalibrationMethod.MinMax)
            after = resource.getrusage(resource.RUSAGE_SELF)
            all_of[0].append((time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 0))
            all_of[1].append(ours(args, model, few, out, *same)[1:])
            all_of[2].append(ours(args, model, few, out)[1:])
        for what, found in zip(("ONNX Runtime's tool, min-max, without its start", "ours, the same work", "ours as it comes"), all_of):
            print(f"{args.time} samples: {what}: {np.median([one[0] for one in found]):.1f} s, of processors {np.median([one[1] for one in found]):.1f} s, memory at most {max(one[2] for one in found):.0f} MB", flush=True)
        _, seconds, busy, memory = ours(args, model, many, out)
        print(f"{10 * args.time} samples: ours {seconds:.1f} s, of processors {busy:.1f} s, memory at most {memory:.0f} MB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--shared", required=True)
    parser.add_argument("--ours", default="")
    parser.add_argument("--cache")
    parser.add_argument("--targets", type=float, help="the table of what so many dB take")
    parser.add_argument("--time", type=int)
    parser.add_argument("--wholly", action="store_true")
    parser.add_argument("--by-cpu", action="store_true", help="run by Quarry's cpu backend")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.cache:
        os.makedirs(args.cache, exist_ok=True)
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(4)
    run_by_cpu(args) if args.by_cpu else wholly(args) if args.wholly else timed(args) if args.time else targets(args) if args.targets else table(args)


main()
