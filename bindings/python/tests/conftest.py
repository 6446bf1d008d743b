# SPDX-License-Identifier: Apache-2.0
"""What the tests share: the digits model with ONNX Runtime's stored scores, and models written by hand."""
import os
import signal
import sys

import numpy as np
import pytest

import quarry

# A shell that runs the tests in the background has SIGINT ignored, which Python and its children keep.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A descriptor is a number of one C library, and a Windows process has several: there it is refused, with what serves instead. Nor is there fork(), or a name that is no Unicode.
DESCRIPTORS = os.name != "nt"
unix_alone = pytest.mark.skipif(os.name == "nt", reason="of Unix alone: descriptors, fork(), names of any bytes")

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
DIGITS = os.path.join(ROOT, "models", "digits")


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def value_info(name, dtype, dims):
    shape = b"".join(field(1, b"\x08" + varint(d) if isinstance(d, int) else field(2, d.encode())) for d in dims)
    return field(1, name.encode()) + field(2, field(1, b"\x08" + varint(dtype) + field(2, shape)))


def onnx_model(op, inputs, outputs, attributes=b""):
    """An ONNX file of one node; inputs and outputs are (name, type, shape). Field numbers are those of onnx.proto."""
    node = b"".join(field(1, i[0].encode()) for i in inputs) + b"".join(field(2, o[0].encode()) for o in outputs) + field(4, op.encode()) + attributes
    graph = field(1, node) + field(2, b"g") + b"".join(field(11, value_info(*i)) for i in inputs) + b"".join(field(12, value_info(*o)) for o in outputs)
    return b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(21))


class Digits:
    model = os.path.join(DIGITS, "digits.onnx")
    facts = os.path.join(ROOT, "models", "facts.onnx")

    def __init__(self):
        self.images = np.load(os.path.join(DIGITS, "test_images.npy")).reshape(-1, 1, 1, 8, 8).astype(np.float32) / 255
        self.labels = np.load(os.path.join(DIGITS, "test_labels.npy"))
        self.expected = np.load(os.path.join(DIGITS, "ort_scores.npy"))


@pytest.fixture(scope="session")
def digits():
    return Digits()


@pytest.fixture
def session(digits):
    with quarry.Session(digits.model, threads=1) as made:
        yield made


sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # processes that tests start import their functions from here
