#!/usr/bin/env python3
"""Runs an ONNX model on ONNX Runtime's QNN provider and its HTP emulator, and compares with what a .npy holds.

ort_qnn.py MODEL OUTPUT.npy SOC INPUT.npy...   (of a Python that has onnxruntime and onnxruntime-qnn)
ort_qnn.py --time MODEL SOC COUNT              creates sessions, prints the milliseconds of each as JSON
"""
import json
import sys
import time

import numpy
import onnxruntime
import onnxruntime_qnn


def session(path, soc):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_cpu_ep_fallback", "0")
    device = next(d for d in onnxruntime.get_ep_devices() if d.ep_name == "QNNExecutionProvider")
    options.add_provider_for_devices([device], {"backend_path": onnxruntime_qnn.get_qnn_htp_path(), "soc_model": soc})
    return onnxruntime.InferenceSession(path, options)


onnxruntime.register_execution_provider_library("QNNExecutionProvider", onnxruntime_qnn.get_library_path())
if sys.argv[1] == "--time":
    times = []
    for _ in range(int(sys.argv[4])):
        begin = time.perf_counter()
        made = session(sys.argv[2], sys.argv[3])
        times.append((time.perf_counter() - begin) * 1e3)
        del made
    print(json.dumps(times))
    sys.exit(0)
made = session(sys.argv[1], sys.argv[3])
inputs = {i.name: numpy.load(path).reshape(i.shape) for i, path in zip(made.get_inputs(), sys.argv[4:])}
found, expected = made.run(None, inputs)[0], numpy.load(sys.argv[2])
same = found.dtype == expected.dtype and found.shape == expected.shape and numpy.array_equal(found, expected)
print("equal" if same else f"differ by {numpy.abs(found.astype('f8').ravel() - expected.astype('f8').ravel()).max()}")
