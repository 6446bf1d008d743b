#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of more than 2 GB, whose weights lie in a file beside it: what it computes, and how much memory that takes.

check_large.py BUILD SHARED, run by a Python that has numpy and onnx. The file is sparse: it takes a few pages of the disk, the container all of it.
"""
import os
import shutil
import subprocess
import sys

import numpy as np
from onnx import TensorProto as T
from onnx import helper as h
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import environment, finish, new_folder, quarry, require  # noqa: E402

ROWS, WIDTH, OUT = 550_000, 1024, 16
LARGE = ROWS * WIDTH * 4
folder = new_folder()
path, data = os.path.join(folder, "large.onnx"), os.path.join(folder, "large.bin")
rng = np.random.default_rng(3)
weights = rng.standard_normal((WIDTH, OUT)).astype(np.float32)
# The rows that are asked for: the first, one on each side of 2 GiB, the last; all others are holes of the file.
places = np.array([[0, (2 << 30) // (WIDTH * 4) - 1, (2 << 30) // (WIDTH * 4) + 1, ROWS - 1, 7]])
rows = {int(place): rng.standard_normal(WIDTH).astype(np.float32) for place in places[0, :4]}
with open(data, "wb") as file:
    for place, row in rows.items():
        file.seek(place * WIDTH * 4)
        file.write(row.tobytes())
    file.seek(LARGE)
    file.write(weights.tobytes())
require("the file is sparse", os.stat(data).st_blocks * 512 < 1 << 20, os.stat(data))


def beside(name, shape, offset):
    tensor = T(name=name, data_type=T.FLOAT, dims=shape, data_location=T.EXTERNAL)
    for key, value in (("location", "large.bin"), ("offset", offset), ("length", int(np.prod(shape)) * 4)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


graph = h.make_graph([h.make_node("Gather", ["table", "ids"], ["rows"]), h.make_node("MatMul", ["rows", "weights"], ["y"])], "large",
                     [h.make_tensor_value_info("ids", T.INT64, [1, "n"])], [h.make_tensor_value_info("y", T.FLOAT, [1, "n", OUT])],
                     [beside("table", [ROWS, WIDTH], 0), beside("weights", [WIDTH, OUT], LARGE)])
onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9), path)
np.save(os.path.join(folder, "ids.npy"), places)
expected = np.stack([rows.get(int(place), np.zeros(WIDTH, np.float32)).astype(np.float64) for place in places[0]])[None] @ weights


def peak_of(name, *words):
    """Runs the program; how many bytes of memory it had at most."""
    process = subprocess.Popen([quarry, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    printed = process.stdout.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    require(name, process.returncode == 0, f"status {process.returncode}\n{printed[-2000:]}")
    return used.ru_maxrss * 1024


for backend in ("cpu", "cpu-reference"):
    container = os.path.join(folder, backend + ".qrm")
    peak = peak_of(f"compiled for {backend}", "compile", path, "-o", container, "--backend", backend)
    print(f"   compiled for {backend}: {peak / LARGE:.2f} of the file in memory")
    require(f"memory of compiling for {backend}", peak < 1.3 * LARGE, f"{peak} bytes for {LARGE}")
    for source in (path, container):
        out, name = new_folder(), f"{os.path.basename(source)} on {backend}"
        peak = peak_of(name, "run", source, "--backend", backend, os.path.join(folder, "ids.npy"), "-o", out)
        print(f"   {name}: {peak / LARGE:.2f} of the file in memory")
        # (Of an .onnx the session makes in memory what the container has.)
        require(f"memory of {name}", peak < (1.3 if source == path else 0.3) * LARGE, f"{peak} bytes for {LARGE}, of which a run reads five rows")
        file = os.path.join(out, "y.npy")
        require(f"results of {name}", os.path.exists(file) and np.abs(np.load(file) - expected).max() < 1e-3)
    os.remove(container)
shutil.rmtree(folder)
finish()
