# SPDX-License-Identifier: Apache-2.0
"""DLPack, with the types that numpy's own reader refuses: bfloat16 and the floats of 8 bits."""

import ctypes
from typing import Any, Dict, Tuple

import numpy as np

from .dtypes import TO_NUMPY, DType

CPU = 1
# DLDataType's code and bits; those of 0 to 2 and 6 numpy reads itself.
TYPES: Dict[Tuple[int, int], DType] = {
    (4, 16): DType.BF16, (10, 8): DType.F8E4M3FN, (11, 8): DType.F8E4M3FNUZ, (12, 8): DType.F8E5M2, (13, 8): DType.F8E5M2FNUZ, (14, 8): DType.F8E8M0,
}


class DLTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Lent(ctypes.Array):  # type: ignore[type-arg]
    """Another library's bytes, which that one's capsule keeps."""

    _type_ = ctypes.c_uint8
    _length_ = 0


def from_dlpack(value: Any) -> "np.ndarray[Any, Any]":
    """What has __dlpack__ as an array of the same memory."""
    try:
        found: "np.ndarray[Any, Any]" = np.from_dlpack(value)
        return found
    except (BufferError, TypeError, RuntimeError) as refused:
        made = _of_a_type_that_numpy_has_not(value)
        if made is None:
            raise refused
        found = made
        return found


def _of_a_type_that_numpy_has_not(value: Any) -> Any:
    capsule = value.__dlpack__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = DLTensor.from_address(pointer(capsule, b"dltensor"))
    dtype = TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1 or tensor.device_type != CPU:
        return None
    itemsize = tensor.bits // 8
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    if tensor.strides:
        strides = tuple(tensor.strides[axis] for axis in range(tensor.ndim))
    else:  # row-major
        strides = tuple(int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(tensor.ndim))
    if any(stride < 0 for stride in strides):
        return None
    if 0 in shape:
        return np.empty(shape, TO_NUMPY[dtype])
    count = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    # The capsule is not taken: it frees the memory when it goes, and it goes with the array.
    kind: Any = type("Lent", (Lent,), {"_type_": ctypes.c_uint8, "_length_": count * itemsize})
    memory = kind.from_address(tensor.data + tensor.byte_offset)
    memory.capsule = capsule
    flat = np.frombuffer(memory, np.uint16 if itemsize == 2 else np.uint8)
    return np.lib.stride_tricks.as_strided(flat, shape, tuple(stride * itemsize for stride in strides), writeable=False).view(TO_NUMPY[dtype])
