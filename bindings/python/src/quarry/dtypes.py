# SPDX-License-Identifier: Apache-2.0
"""Element types: those of ONNX, by their numbers, and what they are in numpy."""

import enum
from typing import Any, Dict, Optional

import numpy as np

from ._library import lib
from .errors import Error, WrongType, refused

ml_dtypes: Any
try:
    import ml_dtypes
except ImportError:  # then the types that numpy has not are seen as the integers that hold their bits
    ml_dtypes = None


class DType(enum.IntEnum):
    """The element type of a tensor; the numbers are those of ONNX's TensorProto.DataType."""

    UNKNOWN = lib.QR_DTYPE_UNKNOWN
    F32 = lib.QR_DTYPE_F32
    U8 = lib.QR_DTYPE_U8
    I8 = lib.QR_DTYPE_I8
    U16 = lib.QR_DTYPE_U16
    I16 = lib.QR_DTYPE_I16
    I32 = lib.QR_DTYPE_I32
    I64 = lib.QR_DTYPE_I64
    BOOL = lib.QR_DTYPE_BOOL
    F16 = lib.QR_DTYPE_F16
    F64 = lib.QR_DTYPE_F64
    U32 = lib.QR_DTYPE_U32
    U64 = lib.QR_DTYPE_U64
    BF16 = lib.QR_DTYPE_BF16
    F8E4M3FN = lib.QR_DTYPE_F8E4M3FN
    F8E4M3FNUZ = lib.QR_DTYPE_F8E4M3FNUZ
    F8E5M2 = lib.QR_DTYPE_F8E5M2
    F8E5M2FNUZ = lib.QR_DTYPE_F8E5M2FNUZ
    U4 = lib.QR_DTYPE_U4
    I4 = lib.QR_DTYPE_I4
    F4E2M1 = lib.QR_DTYPE_F4E2M1
    F8E8M0 = lib.QR_DTYPE_F8E8M0
    U2 = lib.QR_DTYPE_U2
    I2 = lib.QR_DTYPE_I2


# What numpy has, and what the package ml_dtypes adds to it.
_NUMPY: Dict[str, str] = {
    "F32": "f4", "U8": "u1", "I8": "i1", "U16": "u2", "I16": "i2", "I32": "i4", "I64": "i8", "BOOL": "?",
    "F16": "f2", "F64": "f8", "U32": "u4", "U64": "u8",
}
_MORE: Dict[str, str] = {
    "BF16": "bfloat16", "F8E4M3FN": "float8_e4m3fn", "F8E4M3FNUZ": "float8_e4m3fnuz", "F8E5M2": "float8_e5m2",
    "F8E5M2FNUZ": "float8_e5m2fnuz", "U4": "uint4", "I4": "int4", "F4E2M1": "float4_e2m1fn",
    "F8E8M0": "float8_e8m0fnu", "U2": "uint2", "I2": "int2",
}


def bits_of(dtype: int) -> int:
    found: int = lib.qr_dtype_bits(dtype)
    return found


def _raw(dtype: DType) -> "np.dtype[Any]":
    return np.dtype("u2" if bits_of(dtype) == 16 else "u1")


TO_NUMPY: Dict[int, "np.dtype[Any]"] = {DType[name]: np.dtype(code) for name, code in _NUMPY.items()}
for _name, _type in _MORE.items():
    _found = getattr(ml_dtypes, _type, None)
    TO_NUMPY[DType[_name]] = _raw(DType[_name]) if _found is None else np.dtype(_found)

# The other way; of types that ml_dtypes would have to give, only those that it gives.
FROM_NUMPY: Dict["np.dtype[Any]", DType] = {np.dtype(code): DType[name] for name, code in _NUMPY.items()}
for _name, _type in _MORE.items():
    if getattr(ml_dtypes, _type, None) is not None:
        FROM_NUMPY[np.dtype(getattr(ml_dtypes, _type))] = DType[_name]

# Types under 8 bits: packed in Quarry, the first element in the low bits; one in a byte in numpy.
PACKED: Dict[int, int] = {int(DType[name]): bits_of(DType[name]) for name in _MORE if bits_of(DType[name]) < 8}


def dtype_of(array: "np.ndarray[Any, Any]", wanted: Optional[int] = None) -> int:
    """The number of an array's type. Bits of a `wanted` type that numpy has not may come as an unsigned integer of that size."""
    found = FROM_NUMPY.get(array.dtype)
    if wanted is not None and found != wanted and DType(wanted).name in _MORE and array.dtype == _raw(DType(wanted)):
        return wanted
    if found is None:
        raise refused(f"a numpy array of type {array.dtype} is no tensor: expected one of {', '.join(str(t) for t in FROM_NUMPY)}", kind=WrongType)
    return found


def dtype_named(dtype: Any) -> DType:
    """A DType, given as one, as its number or as numpy's."""
    try:
        return DType(dtype) if isinstance(dtype, int) else DType(dtype_of(np.empty(0, dtype)))
    except (TypeError, ValueError) as error:
        if isinstance(error, Error):
            raise
        raise refused(f"found {dtype!r}, expected an element type: quarry.DType.F32, numpy.float32", kind=WrongType) from None


def packed(array: "np.ndarray[Any, Any]", bits: int) -> "np.ndarray[Any, np.dtype[np.uint8]]":
    """Elements of fewer than 8 bits as Quarry has them."""
    per_byte = 8 // bits
    flat = array.reshape(-1).view(np.uint8) & np.uint8((1 << bits) - 1)
    padded = np.zeros((flat.size + per_byte - 1) // per_byte * per_byte, np.uint8)
    padded[: flat.size] = flat
    out = np.zeros(padded.size // per_byte, np.uint8)
    for place in range(per_byte):
        out |= padded[place::per_byte] << np.uint8(place * bits)
    return out


def unpacked(data: "np.ndarray[Any, Any]", dtype: int, count: int) -> "np.ndarray[Any, Any]":
    """The other way: `count` elements, one in the low bits of a byte, as the types of ml_dtypes have them."""
    bits = PACKED[dtype]
    per_byte = 8 // bits
    out = np.empty(data.size * per_byte, np.uint8)
    for place in range(per_byte):
        out[place::per_byte] = (data >> np.uint8(place * bits)) & np.uint8((1 << bits) - 1)
    found: "np.ndarray[Any, Any]" = out[:count].view(TO_NUMPY[dtype])
    return found
