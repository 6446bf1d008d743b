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


def zeros(count):
    return np.zeros(count, np.float32)


def test_results_are_written_into_other_libraries_arrays():
    room = zeros(6)
    producer = Producer(room, 2, 32, (2, 3))  # of floats, which numpy would take for read-only
    with quarry.Session(onnx_model("Neg", [("x", 1, (2, 3))], [("y", 1, (2, 3))])) as session:
        given = np.arange(6, dtype=np.float32).reshape(2, 3)
        for _ in range(2):
            room[:] = 0
            assert session.run(given, out=[producer])[0] is producer and (room == -given.ravel()).all()
        larger = zeros(8)
        found, = session.run(given, out=[Producer(larger, 2, 32, (8,))])
        assert found.shape == (2, 3) and (larger[:6] == -given.ravel()).all()
        run = session.submit(given, out=[producer])
        assert run.wait()[0] is producer
        del run
    gc.collect()
    assert producer.holders() == 0


@pytest.mark.parametrize("device", [3, 11, 13])
def test_all_memory_that_the_host_reads(device):
    with quarry.Session(onnx_model("Neg", [("x", 1, (2, 3))], [("y", 1, (2, 3))])) as session:
        given, room = np.arange(6, dtype=np.float32), zeros(6)
        producer = Producer(room, 2, 32, (2, 3), device=device)
        assert session.run(Producer(given, 2, 32, (2, 3), device=device), out=[producer])[0] is producer and (room == -given).all()
    assert floats(from_dlpack(Producer(BITS, 4, 16, (2, 3), device=device))).ravel().tolist() == VALUES


class Broken(Producer):
    def __dlpack__(self, **_):
        raise ValueError("no capsule today")


class Lost(Producer):
    def __dlpack_device__(self):
        raise ValueError("no device today")


@pytest.mark.parametrize("kind", [Broken, Lost])
def test_what_a_library_raises_is_ours(kind):
    with quarry.Session(onnx_model("Neg", [("x", 1, (2, 3))], [("y", 1, (2, 3))])) as session:
        for call in (lambda one: session.run(one), lambda one: session.run(zeros(6).reshape(2, 3), out=[one])):
            with pytest.raises(BufferError, match="today") as caught:
                call(kind(zeros(6), 2, 32, (2, 3)))
            assert isinstance(caught.value, quarry.Error)


class ReadOnly(Producer):
    """A library of DLPack 1.0: its capsules say whether they may be written to."""

    flags = 1

    def __dlpack__(self, max_version=None, **_):
        from quarry.dlpack import DLManagedTensorVersioned

        shape = (ctypes.c_int64 * len(self.shape))(*self.shape)
        managed = DLManagedTensorVersioned(1, 0, None, None, self.flags, DLTensor(self.bits.ctypes.data, self.device, 0, len(self.shape), self.code, self.bitsize, 1, shape, None, 0))
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = make(ctypes.addressof(managed), b"dltensor_versioned", None)
        self.kept.append((shape, managed, capsule))
        return capsule


class Copies(ReadOnly):
    """Hands out copies, which it says, and nothing where no copy is wanted."""

    flags = 2

    def __dlpack__(self, max_version=None, copy=None, **_):
        if copy is False:
            raise BufferError("copies alone")
        self.bits = self.bits.copy()
        return super().__dlpack__(max_version)


class CopiesAnyway(ReadOnly):
    flags = 2

    def __dlpack__(self, max_version=None):
        return super().__dlpack__(max_version)


@pytest.mark.parametrize("out, words", [
    (lambda: Copies(zeros(6), 2, 32, (2, 3)), "copies alone"),
    (lambda: CopiesAnyway(zeros(6), 2, 32, (2, 3)), "may be written to"),
    (lambda: ReadOnly(zeros(6), 2, 32, (2, 3)), "may be written to"),
    (lambda: type("Array", (Producer,), {"__module__": "jaxlib.x"})(zeros(6), 2, 32, (2, 3)), "never change"),
    (lambda: Producer(zeros(6), 2, 32, (2, 3), device=2), "CUDA.*host"),
    (lambda: Producer(zeros(6), 2, 32, (2, 3), strides=(1, 2)), "contiguous"),
    (lambda: Producer(np.zeros(6, np.int32), 0, 32, (2, 3)), "int32.*float32"),
])
def test_arrays_that_cannot_be_written_to_are_refused(out, words):
    with quarry.Session(onnx_model("Neg", [("x", 1, (2, 3))], [("y", 1, (2, 3))])) as session:
        with pytest.raises(quarry.InvalidArgument, match=words):
            session.run(np.zeros((2, 3), np.float32), out=[out()])


def test_an_input_on_a_device_is_refused_with_what_to_do():
    with quarry.Session(onnx_model("Neg", [("x", 1, (2, 3))], [("y", 1, (2, 3))])) as session:
        with pytest.raises(BufferError, match="(?s)CUDA.*\\.cpu\\(\\)") as caught:
            session.run(Producer(np.zeros(6, np.float32), 2, 32, (2, 3), device=2))
    assert isinstance(caught.value, quarry.Error)
