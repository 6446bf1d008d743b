#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""quarry quantize beside ONNX Runtime's quantiser: signal to noise of the outputs, for float models with the same data. For docs/quantize.md.

    tools/bench_quantize.py --program build/tools/quarry --models ../shared/models [--ours "FLAGS"] [NAME...]

Run by a Python that has onnx, onnxruntime and numpy. Models lie in folders in the layout of ONNX's tests: model.onnx and test_data_set_*/input_*.pb. Both are calibrated with these data sets and judged
on them, each output by ONNX Runtime against the float model; a row has the least of a model's outputs. Theirs: qnn_preprocess_model, get_qnn_qdq_config (u8, min-max), quantize.
"""
import argparse
import glob
import logging
import os
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize
from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config, qnn_preprocess_model


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.samples, self.at = samples, iter(samples)

    def get_next(self):
        return next(self.at, None)

    def rewind(self):
        self.at = iter(self.samples)


def session(path):
    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def samples_of(folder, inputs):
    out = []
    for data in sorted(glob.glob(os.path.join(folder, "test_data_set_*"))):
        sample = {}
        for i, value in enumerate(inputs):
            with open(os.path.join(data, f"input_{i}.pb"), "rb") as file:
                sample[value.name] = numpy_helper.to_array(onnx.TensorProto.FromString(file.read()))
        out.append(sample)
    return out


def noise(wanted, path, samples):
    """The least signal to noise of the outputs, in dB."""
    found = session(path)
    least = np.inf
    outputs = [found.run(None, sample) for sample in samples]
    for i in range(len(wanted[0])):
        if wanted[0][i].dtype != np.float32:
            continue
        signal = sum(float((w[i].astype(np.float64) ** 2).sum()) for w in wanted)
        error = sum(float(((w[i].astype(np.float64) - o[i]) ** 2).sum()) for w, o in zip(wanted, outputs))
        least = min(least, 10 * np.log10(signal / error) if error else 200)
    return least


def theirs(model, samples, folder):
    prepared, out = os.path.join(folder, "prepared.onnx"), os.path.join(folder, "theirs.onnx")
    changed = qnn_preprocess_model(model, prepared)
    base = prepared if changed else model
    quantize(base, out, get_qnn_qdq_config(base, Reader(samples), activation_type=QuantType.QUInt8, weight_type=QuantType.QUInt8))
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--ours", default="")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(3)
    print("| model | ONNX Runtime | Quarry | difference |\n|---|---|---|---|")
    gains = []
    for name in args.names or sorted(os.listdir(args.models)):
        model = os.path.join(args.models, name, "model.onnx")
        if not os.path.exists(model):
            continue
        with tempfile.TemporaryDirectory() as folder:
            figures = []
            try:
                real = session(model)
                samples = samples_of(os.path.join(args.models, name), real.get_inputs())
                wanted = [real.run(None, sample) for sample in samples]
                figures.append(noise(wanted, theirs(model, samples, folder), samples))
            except Exception as problem:  # their tool refuses some models: that is a result
                figures.append(f"{type(problem).__name__}")
            out = os.path.join(folder, "ours.onnx")
            made = subprocess.run([args.program, "quantize", model, "-c", os.path.join(args.models, name), "-o", out, *args.ours.split()], capture_output=True, text=True)
            try:
                figures.append(noise(wanted, out, samples) if made.returncode == 0 else made.stderr.splitlines()[0][:80])
            except Exception as problem:
                figures.append(f"{type(problem).__name__}: {str(problem)[:80]}")
        numbers = all(isinstance(f, float) for f in figures)
        if numbers:
            gains.append(figures[1] - figures[0])
        print(f"| {name} | " + " | ".join(f"{f:.1f}" if isinstance(f, float) else f for f in figures) + f" | {f'{gains[-1]:+.1f}' if numbers else ''} |", flush=True)
    if gains:
        print(f"\nmedian difference {np.median(gains):+.1f} dB, least {min(gains):+.1f} dB")


main()
