# SPDX-License-Identifier: Apache-2.0
"""Arrays as the C ABI takes them: where they lie, without a copy."""

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import NULL, ffi, lib
from .dlpack import from_dlpack
from .dtypes import PACKED, TO_NUMPY, DType, bits_of, dtype_of, packed, unpacked
from .memory import MemoryTensor
from .model import TensorInfo

Array = np.ndarray[Any, Any]
ArrayLike = Any
"""A numpy array, what has __dlpack__ (a tensor of PyTorch, JAX, CuPy on the host), a MemoryTensor, or numbers."""

from_buffer = ffi.from_buffer
MAX_RANK: int = lib.QR_MAX_RANK


def as_array(value: ArrayLike, info: TensorInfo) -> Array:
    """Any input as a dense array; no copy of what is dense already. Plain numbers get the input's type, arrays keep theirs."""
    if not isinstance(value, np.ndarray):
        if isinstance(value, np.generic):
            value = np.asarray(value)
        elif hasattr(value, "__dlpack__"):
            value = from_dlpack(value)
        elif hasattr(value, "__array__"):
            value = np.asarray(value)
        else:
            value = np.asarray(value, dtype=TO_NUMPY[info.dtype])
    if not value.flags.c_contiguous:
        # (ascontiguousarray makes a vector of a scalar, which is always contiguous)
        value = np.ascontiguousarray(value)
    if value.dtype.byteorder == ">":
        value = value.astype(value.dtype.newbyteorder("="))
    return value  # type: ignore[no-any-return]


def place_of(array: Array, writable: bool = False) -> Any:
    """Where an array's bytes lie, as a cdata that keeps them."""
    try:
        return from_buffer(array, require_writable=writable)
    except (TypeError, ValueError, BufferError):
        if writable and not array.flags.writeable:
            raise ValueError("an array for an output is read-only: expected one that may be written to") from None
        if not array.flags.c_contiguous:
            raise ValueError("an array for an output is not contiguous (C order)") from None
        return from_buffer(array.view(np.uint8), require_writable=writable)  # a type that the buffer protocol has no letter for


class Tensors:
    """The qr_tensor structs of one side of a run, made once and filled for each."""

    __slots__ = ("infos", "count", "items", "pointers", "shapes", "dtypes", "numpy", "kept", "sizes", "_all")

    def __init__(self, infos: Sequence[TensorInfo], pointer: str) -> None:
        self.infos = list(infos)
        self.count = len(self.infos)
        self._all = ffi.new("qr_tensor[]", max(1, self.count))
        self.items = [self._all[i] for i in range(self.count)]
        for item in self.items:
            item.struct_size = ffi.sizeof("qr_tensor")
        self.pointers = ffi.new(pointer, [self._all + i for i in range(self.count)])
        self.dtypes = [int(info.dtype) for info in self.infos]
        self.numpy: List["np.dtype[Any]"] = [TO_NUMPY[info.dtype] for info in self.infos]
        # Of each item that stands ready for a plain array: type and memory are as declared, rank and dims are these. None: of all others.
        self.shapes: List[Optional[Tuple[int, ...]]] = [None] * self.count
        self.sizes: List[Optional[int]] = []
        for info in self.infos:
            count: Optional[int] = 1
            for extent in info.shape:
                count = None if count is None or extent is None else count * extent
            self.sizes.append(None if count is None else (count * bits_of(info.dtype) + 7) // 8)
        self.kept: List[Any] = [None] * self.count  # what the structs point to

    def set_shape(self, index: int, shape: Tuple[int, ...]) -> None:
        item = self.items[index]
        if len(shape) > MAX_RANK:
            raise ValueError(f"'{self.infos[index].name}': found an array of {len(shape)} dimensions, expected at most {MAX_RANK}")
        item.rank = len(shape)
        for axis, extent in enumerate(shape):
            item.dims[axis] = extent

    def set_input(self, index: int, value: ArrayLike) -> None:
        item = self.items[index]
        self.shapes[index] = None  # until all is set: whatever fails on the way leaves nothing half done that counts as ready
        if isinstance(value, MemoryTensor):
            item.const_data, item.memory, item.memory_offset = NULL, value.memory._ptr, value.offset
            item.dtype, item.size_bytes = value.dtype, value.size_bytes
            self.set_shape(index, value.shape)
            self.kept[index] = value
            return
        array = as_array(value, self.infos[index])
        dtype, shape = dtype_of(array, self.dtypes[index]), array.shape
        if dtype in PACKED:
            array = packed(array, PACKED[dtype])
        place = place_of(array)
        item.dtype = dtype
        self.set_shape(index, shape)
        item.memory = NULL
        item.const_data = place  # an array may be read-only, and none is written to
        item.size_bytes = array.nbytes
        self.kept[index] = place
        if dtype == self.dtypes[index] and dtype not in PACKED:
            self.shapes[index] = shape

    def set_output(self, index: int, value: Optional[ArrayLike], own: bool) -> None:
        """Room for a result: a MemoryTensor, an array, or, for None, a new array; `own`: where the dimensions are not
        known, in the session's memory."""
        item = self.items[index]
        self.shapes[index] = None  # the run writes there
        item.flags = 0  # what an earlier run gave of the session's own is put aside here
        if isinstance(value, MemoryTensor):
            if value.dtype != self.dtypes[index]:
                raise ValueError(f"output '{self.infos[index].name}': found a MemoryTensor of {value.dtype.name} in `out`, expected {self.infos[index].dtype.name}")
            item.data, item.memory, item.memory_offset, item.size_bytes = NULL, value.memory._ptr, value.offset, value.size_bytes
            self.kept[index] = value
            return
        item.memory = NULL
        if value is None:
            if self.sizes[index] is None or self.dtypes[index] in PACKED:
                if not own:
                    if self.sizes[index] is None:
                        raise ValueError(f"output '{self.infos[index].name}' has a data-dependent shape: give an array that it fits in (out=)")
                    value = np.empty(self.sizes[index] or 0, np.uint8)
                else:
                    item.data, item.size_bytes, self.kept[index] = NULL, 0, None
                    return
            else:
                value = np.empty(self.infos[index].shape, self.numpy[index])
        elif not isinstance(value, np.ndarray):
            raise TypeError(f"output '{self.infos[index].name}': found {type(value).__name__} in `out`, expected a numpy array, a MemoryTensor or None")
        elif self.dtypes[index] in PACKED:
            raise ValueError(f"output '{self.infos[index].name}' has a packed type ({self.infos[index].dtype.name}): expected None in `out`")
        elif dtype_of(value, self.dtypes[index]) != self.dtypes[index]:
            raise ValueError(f"output '{self.infos[index].name}': found an array of {value.dtype} in `out`, expected {self.numpy[index]}")
        item.data = place_of(value, True)
        item.size_bytes = value.nbytes
        self.kept[index] = value

    def result(self, index: int) -> Any:
        """What the run has written, in the array that was given where it fits there exactly."""
        item, value = self.items[index], self.kept[index]
        shape = tuple(item.dims[0:item.rank])
        if isinstance(value, MemoryTensor):
            return value if value.shape == shape else MemoryTensor(value.memory, shape, value.dtype, value.offset)
        dtype = int(item.dtype)
        if dtype in PACKED:
            data = np.frombuffer(ffi.buffer(item.data, item.size_bytes), np.uint8) if item.size_bytes else np.empty(0, np.uint8)
            return unpacked(data, dtype, int(np.prod(shape, dtype=np.int64))).reshape(shape)
        if value is None:
            if not item.size_bytes:
                return np.empty(shape, TO_NUMPY[dtype])
            return np.frombuffer(ffi.buffer(item.data, item.size_bytes), np.uint8).copy().view(TO_NUMPY[dtype]).reshape(shape)
        if value.shape == shape and value.dtype == TO_NUMPY[dtype]:
            return value
        count = int(np.prod(shape, dtype=np.int64))
        return value.reshape(-1).view(TO_NUMPY[dtype])[:count].reshape(shape)

    def forget(self) -> None:
        """Lets go of arrays: the structs point to nothing until the next run."""
        for index in range(self.count):
            self.kept[index] = None


def array_dtype(dtype: Union[int, DType, "np.dtype[Any]", type, str]) -> DType:
    """A DType, given as one or as numpy's."""
    if isinstance(dtype, (int, DType)):
        return DType(dtype)
    return DType(dtype_of(np.empty(0, dtype)))
