# SPDX-License-Identifier: Apache-2.0
"""DLPack: arrays of other libraries where they lie. numpy reads most; what it refuses is read here: bfloat16 and the floats of 8 bits, and arrays to
write into, which numpy takes for read-only as long as the other library does not say otherwise in a newer form than most have."""

import ctypes
from typing import Any, Dict, Optional, Tuple

import numpy as np

from .dtypes import TO_NUMPY, DType
from .errors import WrongBuffer, refused

HOST = (1, 3, 11, 13)
"""DLDevice's types of memory that the host reads: its own, that of CUDA's and ROCm's hosts, and CUDA's managed memory."""
# The others, as people call them.
DEVICES: Dict[int, str] = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 14: "oneAPI"}
# DLDataType's code and bits.
TYPES: Dict[Tuple[int, int], DType] = {
    (4, 16): DType.BF16, (10, 8): DType.F8E4M3FN, (11, 8): DType.F8E4M3FNUZ, (12, 8): DType.F8E5M2, (13, 8): DType.F8E5M2FNUZ, (14, 8): DType.F8E8M0,
    (0, 8): DType.I8, (0, 16): DType.I16, (0, 32): DType.I32, (0, 64): DType.I64, (1, 8): DType.U8, (1, 16): DType.U16, (1, 32): DType.U32, (1, 64): DType.U64,
    (2, 16): DType.F16, (2, 32): DType.F32, (2, 64): DType.F64, (6, 8): DType.BOOL,
}
# Libraries whose arrays never change, and do not say so in a capsule.
UNCHANGING = ("jax", "jaxlib", "tensorflow")


class DLTensor(ctypes.Structure):
    """As dlpack.h has it."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class DLManagedTensor(ctypes.Structure):
    """What a capsule holds, as far as it is read here."""

    _fields_ = [("tensor", DLTensor)]


class DLManagedTensorVersioned(ctypes.Structure):
    """The same since DLPack 1.0, in capsules of another name."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", DLTensor)]


READ_ONLY, IS_COPIED = 1, 2  # of `flags`


class Lent(ctypes.Array):  # type: ignore[type-arg]
    """Another library's bytes, which that one's capsule keeps."""

    _type_ = ctypes.c_uint8
    _length_ = 0


def from_dlpack(value: Any) -> "np.ndarray[Any, Any]":
    """What has __dlpack__ as an array of the same memory, to be read."""
    _on_host(value)
    try:
        found: "np.ndarray[Any, Any]" = np.from_dlpack(value)
        return found
    except Exception as error:  # whatever the library raises that the tensor is of
        try:
            made = _mapped(value, False)
        except Exception:
            made = None
        if made is None:
            raise refused(f"a {_kind(value)} cannot be read where it lies: {error}", "give it dense, on the host and without a gradient", WrongBuffer) from None
        return made


def writable_from_dlpack(value: Any) -> "np.ndarray[Any, Any]":
    """The same, to be written into."""
    _on_host(value)
    if type(value).__module__.split(".")[0] in UNCHANGING:
        raise refused(f"found a {_kind(value)} in `out`, whose elements never change, expected an array that may be written to", kind=WrongBuffer)
    try:
        made = _mapped(value, True)
    except Exception as error:
        raise refused(f"a {_kind(value)} cannot be written where it lies: {error}", "give it dense, on the host and without a gradient", WrongBuffer) from None
    if made is None:
        raise refused(f"found a {_kind(value)} in `out` that cannot be written where it lies, expected one that is dense and may be written to", kind=WrongBuffer)
    return made


def _kind(value: Any) -> str:
    return f"{type(value).__module__.split('.')[0]} {type(value).__name__}"


def _on_host(value: Any) -> None:
    where = getattr(value, "__dlpack_device__", None)
    try:
        device = HOST[0] if where is None else int(where()[0])
    except Exception as error:
        raise refused(f"a {_kind(value)} does not say where it lies: {error}", kind=WrongBuffer) from None
    if device not in HOST:
        raise refused(f"found a {_kind(value)} on {DEVICES.get(device, f'device {device} of DLPack')}, expected one of the host's memory",
                      "copy it to the host: .cpu() of PyTorch, .get() of CuPy, jax.device_get()", WrongBuffer)


def _capsule(value: Any, versioned: bool) -> Any:
    """In the form that says whether it may be written to, where the library has that: then no copy, into which a result would be lost."""
    for arguments in ({"max_version": (1, 0), "copy": False}, {"max_version": (1, 0)}) if versioned else ():
        try:
            return value.__dlpack__(**arguments)
        except TypeError:  # of an older form of the protocol
            pass
    return value.__dlpack__()


def _tensor_of(capsule: Any) -> Tuple[Any, bool]:
    """What a capsule says, and whether what is written there is lost."""
    is_valid, pointer = ctypes.pythonapi.PyCapsule_IsValid, ctypes.pythonapi.PyCapsule_GetPointer
    is_valid.restype, is_valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    if is_valid(capsule, b"dltensor_versioned"):
        made = DLManagedTensorVersioned.from_address(pointer(capsule, b"dltensor_versioned"))
        return made.tensor, bool(made.flags & (READ_ONLY | IS_COPIED))
    return DLManagedTensor.from_address(pointer(capsule, b"dltensor")).tensor, False


def _mapped(value: Any, writable: bool) -> Optional["np.ndarray[Any, Any]"]:
    capsule = _capsule(value, writable)
    tensor, is_lost = _tensor_of(capsule)
    dtype = TYPES.get((tensor.code, tensor.bits))
    if dtype is None or tensor.lanes != 1 or tensor.device_type not in HOST or (writable and is_lost):
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
    flat = np.frombuffer(memory, f"u{itemsize}")
    found = np.lib.stride_tricks.as_strided(flat, shape, tuple(stride * itemsize for stride in strides), writeable=writable)
    return found.view(TO_NUMPY[dtype])
