# SPDX-License-Identifier: Apache-2.0
"""Tensors of other libraries: types that numpy's reader of DLPack refuses."""
import ctypes
import gc
import sys

import numpy as np
import pytest

import quarry
from conftest import onnx_model
from quarry.dlpack import DLTensor, from_dlpack


class Managed(ctypes.Structure):
    _fields_ = [("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Producer:
    """What PyTorch is for a tensor of its: hands out capsules, and knows whether somebody holds one."""

    def __init__(self, bits, code, bitsize, shape, strides=None, offset=0, device=1):
        self.bits, self.code, self.bitsize, self.shape, self.strides, self.offset, self.device = bits, code, bitsize, shape, strides, offset, device
        self.kept = []

    def __dlpack_device__(self):
        return (self.device, 0)

    def __dlpack__(self, **_):
        keep = [(ctypes.c_int64 * len(self.shape))(*self.shape), self.strides and (ctypes.c_int64 * len(self.shape))(*self.strides)]
        managed = Managed(DLTensor(self.bits.ctypes.data, self.device, 0, len(self.shape), self.code, self.bitsize, 1, keep[0], keep[1] or None, self.offset))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = make(ctypes.addressof(managed), b"dltensor", None)
        self.kept.append((keep, managed, capsule))
        return capsule

    def holders(self):
        """How many hold the capsules beside this object."""
        return sum(sys.getrefcount(capsule) - 3 for _, _, capsule in self.kept)


# 1, -2, 0.5, 3, 4, -8 as bfloat16
BITS = np.array([0x3F80, 0xC000, 0x3F00, 0x4040, 0x4080, 0xC100], np.uint16)
VALUES = [1, -2, 0.5, 3, 4, -8]


def floats(array):
    return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def test_bfloat16_is_read_in_place_and_let_go_of():
    producer = Producer(BITS, 4, 16, (2, 3))
    array = from_dlpack(producer)
    assert array.shape == (2, 3) and array.__array_interface__["data"][0] == BITS.ctypes.data
    assert floats(array).ravel().tolist() == VALUES
    part = array[1:]
    del array
    gc.collect()
    assert producer.holders() == 1 and floats(part).ravel().tolist() == VALUES[3:]
    del part
    gc.collect()
    assert producer.holders() == 0


def test_strides_and_offsets():
    turned = from_dlpack(Producer(BITS, 4, 16, (3, 2), strides=(1, 3)))
    assert floats(np.ascontiguousarray(turned)).tolist() == [[1, 3], [-2, 4], [0.5, -8]]
    assert floats(from_dlpack(Producer(BITS, 4, 16, (2,), offset=8))).tolist() == [4, -8]
    assert from_dlpack(Producer(BITS, 4, 16, (0, 3))).shape == (0, 3)


def test_a_session_takes_bfloat16():
    model = onnx_model("Relu", [("x", 16, (2, 3))], [("y", 16, (2, 3))])
    with quarry.Session(quarry.Model(model), backend="cpu-reference") as session:
        found, = session.run(Producer(BITS, 4, 16, (2, 3)))
    assert floats(found).ravel().tolist() == [1, 0, 0.5, 3, 4, 0]


@pytest.mark.parametrize("wrong", [dict(device=2), dict(code=5), dict(code=4, bitsize=32), dict(strides=(-3, 1))])
def test_what_cannot_be_read_is_refused(wrong):
    with pytest.raises((BufferError, TypeError, RuntimeError, ValueError)):
        from_dlpack(Producer(BITS, **{"code": 4, "bitsize": 16, "shape": (2, 3), **wrong}))
