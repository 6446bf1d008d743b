# SPDX-License-Identifier: Apache-2.0
"""Arrays as the C ABI takes them: where they lie, without a copy."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ._library import NULL, ffi, lib
from .dlpack import from_dlpack, writable_from_dlpack
from .dtypes import PACKED, TO_NUMPY, bits_of, dtype_of, packed, unpacked
from .errors import WrongBuffer, WrongType, refused
from .memory import MemoryTensor
from .model import TensorInfo, told

Array = np.ndarray[Any, Any]
ArrayLike = Any
"""A numpy array, what has __dlpack__ (a tensor of PyTorch, JAX, CuPy on the host), a MemoryTensor, or numbers."""

from_buffer = ffi.from_buffer
MAX_RANK: int = lib.QR_MAX_RANK


def as_array(value: ArrayLike, info: TensorInfo) -> Array:
    """Any input as a dense array; no copy of what is dense already. Plain numbers get the input's type, arrays keep theirs."""
    if not isinstance(value, np.ndarray):
        if value is None:
            raise refused(f"input '{info.name}': found None, expected {told(info)}", kind=WrongType)
        if isinstance(value, np.generic):
            value = np.asarray(value)
        elif hasattr(value, "__dlpack__"):
            value = from_dlpack(value)
        elif hasattr(value, "__array__"):
            value = np.asarray(value)
        else:
            value = _of_numbers(value, info)
    if not value.flags.c_contiguous:
        # (ascontiguousarray makes a vector of a scalar, which is always contiguous)
        value = np.ascontiguousarray(value)
    if value.dtype.byteorder == ">":
        value = value.astype(value.dtype.newbyteorder("="))
    return value  # type: ignore[no-any-return]


def _of_numbers(value: Any, info: TensorInfo) -> Array:
    try:
        return np.asarray(value, dtype=TO_NUMPY[info.dtype])
    except (TypeError, ValueError, OverflowError) as error:
        raise refused(f"input '{info.name}': found a {type(value).__name__} that is no array ({error}), expected {told(info)}", kind=WrongType) from None


def place_of(array: Array, writable: bool = False) -> Any:
    """Where an array's bytes lie, as a cdata that keeps them."""
    try:
        return from_buffer(array, require_writable=writable)
    except (TypeError, ValueError, BufferError):
        if writable and not array.flags.writeable:
            raise refused("an array for an output is read-only: expected one that may be written to", kind=WrongBuffer) from None
        if not array.flags.c_contiguous:
            raise refused("an array for an output is not contiguous: expected one in C order", kind=WrongBuffer) from None
        return from_buffer(array.view(np.uint8), require_writable=writable)  # a type that the buffer protocol has no letter for


class Tensors:
    """The qr_tensor structs of one side of a run, made once and filled for each."""

    __slots__ = ("infos", "count", "items", "pointers", "shapes", "dtypes", "numpy", "kept", "given", "sizes", "_all")

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
        self.given: List[Any] = [None] * self.count  # of an output, the caller's own object for it

    def set_shape(self, index: int, shape: Tuple[int, ...]) -> None:
        item = self.items[index]
        if len(shape) > MAX_RANK:
            raise refused(f"'{self.infos[index].name}': found an array of {len(shape)} dimensions, expected at most {MAX_RANK}")
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
                raise refused(f"output '{self.infos[index].name}': found a MemoryTensor of {value.dtype.name} in `out`, expected {self.infos[index].dtype.name}")
            item.data, item.memory, item.memory_offset, item.size_bytes = NULL, value.memory._ptr, value.offset, value.size_bytes
            self.kept[index] = value
            return
        item.memory = NULL
        room = self._new_room(index, own) if value is None else self._given_room(index, value)
        if room is None:
            item.data, item.size_bytes, self.kept[index] = NULL, 0, None
            return
        item.data = place_of(room, True)
        item.size_bytes = room.nbytes
        self.kept[index] = room
        self.given[index] = room if value is None else value

    def _given_room(self, index: int, value: ArrayLike) -> Array:
        """An array of the caller's to write into, as numpy has it."""
        info = self.infos[index]
        if self.dtypes[index] in PACKED:
            raise refused(f"output '{info.name}' has a packed type ({info.dtype.name}): expected None in `out`")
        if not isinstance(value, np.ndarray):
            if not hasattr(value, "__dlpack__"):
                raise refused(f"output '{info.name}': found {type(value).__name__} in `out`, expected a numpy array, what has __dlpack__, a MemoryTensor or None",
                              kind=WrongType)
            value = writable_from_dlpack(value)
        if dtype_of(value, self.dtypes[index]) != self.dtypes[index]:
            raise refused(f"output '{info.name}': found an array of {value.dtype} in `out`, expected {self.numpy[index]}")
        return value  # type: ignore[no-any-return]

    def _new_room(self, index: int, own: bool) -> Optional["np.ndarray[Any, Any]"]:
        """An array for a result that the caller gave none for; None: it goes to the session's memory."""
        if self.sizes[index] is not None and self.dtypes[index] not in PACKED:
            return np.empty(self.infos[index].shape, self.numpy[index])
        if own:
            return None
        if self.sizes[index] is None:
            raise refused(f"output '{self.infos[index].name}' has a data-dependent shape: give an array that it fits in (out=)")
        return np.empty(self.sizes[index], np.uint8)

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
            return self.given[index]
        count = int(np.prod(shape, dtype=np.int64))
        return value.reshape(-1).view(TO_NUMPY[dtype])[:count].reshape(shape)

    def forget(self) -> None:
        """Lets go of arrays: the structs point to nothing until the next run."""
        for index in range(self.count):
            self.kept[index] = self.given[index] = None
