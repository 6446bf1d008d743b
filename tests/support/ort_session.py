# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime as that with which a test compares."""
import onnxruntime


def make_session(model, optimised=True):
    """One thread, silent. On a processor without VNNI its sums of two 8-bit products would saturate at 16 bits: the session is to be exact."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    options.add_session_config_entry("session.x64quantprecision", "1")
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
