# SPDX-License-Identifier: Apache-2.0
"""Buffers that a device reads and writes without a copy."""

import contextlib
from dataclasses import dataclass
from typing import Any, Iterable, Iterator, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import Text, ffi, lib, new_struct, pointer_of
from .dtypes import PACKED, TO_NUMPY, DType, bits_of, dtype_named, dtype_of, unpacked
from .errors import WrongType, check, refused, whole_number
from .runtime import Handle, Runtime, default_runtime

READ: int = lib.QR_ACCESS_READ
WRITE: int = lib.QR_ACCESS_WRITE
_INT32 = (1 << 31) - 1


class SessionHandle(Handle):
    """What a session is to memory: it says whose memory it is. Every one is a `Session`, which lies above this module."""


class Memory(Handle):
    """Memory of a device; of use to every session of the runtime on that device.

    `session` says which device. Before there is one it is None, and `backend`, `device` (its number) and `runtime` say it:
    `Memory(None, 4096, backend="gpu")`.
    """

    def __init__(self, session: Optional[SessionHandle], size_bytes: int, *, access: int = 0, host_view: bool = True, backend: str = "", device: int = 0,
                 runtime: Optional[Runtime] = None) -> None:
        """Allocates; zero-filled where the host has a view."""
        out, options = ffi.new("qr_memory **"), _Options(session, access, host_view, backend, device, runtime)
        check(lib.qr_memory_allocate(pointer_of(session), whole_number("size_bytes", size_bytes), options.c, out))
        self._own(out)

    def _own(self, out: Any, kept: Any = None) -> None:
        self._kept = kept
        self._ptr = ffi.gc(out[0], lib.qr_memory_destroy)

    @classmethod
    def register(cls, session: Optional[SessionHandle], array: "np.ndarray[Any, Any]", *, access: int = 0, backend: str = "", device: int = 0,
                 runtime: Optional[Runtime] = None) -> "Memory":
        """An array's own memory, which the device uses in place where it can."""
        made, out, options = cls.__new__(cls), ffi.new("qr_memory **"), _Options(session, access, True, backend, device, runtime)
        try:
            place = ffi.from_buffer(array, require_writable=True)
        except (TypeError, ValueError, BufferError) as error:
            raise refused(f"register: found a {type(array).__name__} ({error}), expected an array in C order that may be written to", kind=WrongType) from None
        check(lib.qr_memory_register(pointer_of(session), place, ffi.sizeof(place), options.c, out))
        made._own(out, place)
        return made

    @classmethod
    def import_fd(cls, session: Optional[SessionHandle], fd: int, size_bytes: int, offset: int = 0, *, access: int = 0, backend: str = "", device: int = 0,
                  runtime: Optional[Runtime] = None) -> "Memory":
        """A memfd's or dma-buf's memory; the descriptor stays the caller's."""
        made, out, options = cls.__new__(cls), ffi.new("qr_memory **"), _Options(session, access, True, backend, device, runtime)
        check(lib.qr_memory_import_fd(pointer_of(session), whole_number("fd", fd, -_INT32 - 1, _INT32), whole_number("offset", offset),
                                       whole_number("size_bytes", size_bytes), options.c, out))
        made._own(out)
        return made

    def __repr__(self) -> str:
        return f"<quarry.Memory of {self.size_bytes} bytes>" if self._ptr else "<quarry.Memory, closed>"

    @property
    def size_bytes(self) -> int:
        found: int = lib.qr_memory_size(self._ptr)
        return found

    def tensor(self, shape: Sequence[int], dtype: Union[DType, Any] = DType.F32, offset: int = 0) -> "MemoryTensor":
        """A part of the memory as an input or output of runs."""
        try:
            dims = tuple(whole_number("shape", dim, 0, (1 << 63) - 1) for dim in shape)
        except TypeError:
            if isinstance(shape, Iterable):
                raise
            raise refused(f"found {shape!r}, expected a shape: (1, 3, 224, 224)", kind=WrongType) from None
        return MemoryTensor(self, dims, dtype_named(dtype), whole_number("offset", offset))

    @contextlib.contextmanager
    def access(self, how: int = READ | WRITE) -> Iterator["np.ndarray[Any, np.dtype[np.uint8]]"]:
        """The memory's bytes for the host, as long as the `with` lasts; no run may use it meanwhile."""
        data = lib.qr_memory_data(self._ptr)
        if data:
            check(lib.qr_memory_begin_access(self._ptr, how))
        else:
            out = ffi.new("void **")
            check(lib.qr_memory_map(self._ptr, how, out))
            data = out[0]
        try:
            view = np.frombuffer(ffi.buffer(data, self.size_bytes), np.uint8)
            view.flags.writeable = bool(how & WRITE)
            yield view
        finally:
            if lib.qr_memory_data(self._ptr) == data:
                check(lib.qr_memory_end_access(self._ptr, how))
            else:
                check(lib.qr_memory_unmap(self._ptr))

    def export_fd(self) -> Tuple[int, int]:
        """A descriptor of the memory, which the caller closes, and where the memory begins in it."""
        fd, offset = ffi.new("int32_t *"), ffi.new("uint64_t *")
        check(lib.qr_memory_export_fd(self._ptr, fd, offset))
        return int(fd[0]), int(offset[0])


class _Options:
    """A qr_memory_options, with what it points to."""

    def __init__(self, session: Optional[SessionHandle], access: int, host_view: bool, backend: str, device: int, runtime: Optional[Runtime]) -> None:
        self.c = new_struct("qr_memory_options")
        self.c.device_access = whole_number("access", access, 0, _INT32)
        self.c.flags = 0 if host_view else lib.QR_MEMORY_NO_HOST_POINTER
        if session is not None:
            if backend or device or runtime is not None:
                raise refused("both a session and a backend, device or runtime: expected one of them to say whose memory it is", kind=WrongType)
            return
        self._kept = (Text(backend), runtime or default_runtime())
        self.c.backend, self.c.device, self.c.runtime = self._kept[0].c, whole_number("device", device, 0, _INT32), pointer_of(self._kept[1])


@dataclass(frozen=True, repr=False)
class MemoryTensor:
    """A tensor in Memory: given to a run as an input, or as the place of an output."""

    memory: Memory
    shape: Tuple[int, ...]
    dtype: DType
    offset: int = 0

    def __repr__(self) -> str:
        return f"<quarry.MemoryTensor {self.dtype.name.lower()} {list(self.shape)} at {self.offset} of {self.memory!r}>"

    @property
    def size_bytes(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return (count * bits_of(self.dtype) + 7) // 8

    def numpy(self) -> "np.ndarray[Any, Any]":
        """A copy of its elements."""
        with self.memory.access(READ) as data:
            part = data[self.offset : self.offset + self.size_bytes].copy()
        if self.dtype in PACKED:
            return unpacked(part, self.dtype, int(np.prod(self.shape, dtype=np.int64))).reshape(self.shape)
        found: "np.ndarray[Any, Any]" = part.view(TO_NUMPY[self.dtype]).reshape(self.shape)
        return found

    def write(self, array: "np.ndarray[Any, Any]") -> None:
        """Copies elements there."""
        if array.shape != self.shape or dtype_of(array, self.dtype) != self.dtype:
            raise refused(f"found an array of {array.dtype} {array.shape}, expected {TO_NUMPY[self.dtype]} {self.shape}")
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        with self.memory.access(WRITE) as place:
            place[self.offset : self.offset + data.size] = data
