# SPDX-License-Identifier: Apache-2.0
"""Where a call writes what it makes."""

import errno
import os
from typing import Any, Optional, Protocol, Union

from ._library import Text, ffi, lib, new_struct, string_of
from .errors import FileFailed, WrongType, refused, whole_number
from .interrupts import Watch


class Writer(Protocol):
    """A file or what is like one. It may have begin(name, size, more) too, for who takes several files, and end(committed), which is called once
    behind everything: with False the call has failed, and what was written is of no use."""

    def write(self, data: bytes, /) -> Any: ...


Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
"""The name of a file, in whatever bytes it has: those that are no UTF-8 are in a str as os.fsdecode puts them there."""
Target = Union[Path, int, Writer, None]
"""A path (the file appears whole or not at all), a descriptor, what has write(), or None for bytes that the call gives back."""


def path_of(value: Any, what: str, expected: str) -> str:
    """A path, as text."""
    try:
        if isinstance(value, (str, bytes, os.PathLike)):
            return os.fsdecode(value)
    except TypeError:  # __fspath__ gives something else
        pass
    raise refused(f"{what}: found {value!r}, expected {expected}", kind=WrongType)


def descriptor(value: int) -> int:
    return whole_number("a descriptor", value, -(1 << 31), (1 << 31) - 1)


class OpenTarget:
    """A qr_target, with what it points to; `made` after the call."""

    def __init__(self, target: Target, name: Optional[str], call: Watch) -> None:
        self.c = new_struct("qr_target")
        self.c.fd = self.c.folder_fd = -1
        path = name
        if target is None:
            self._data, self._size = ffi.new("void **"), ffi.new("uint64_t *")
            self.c.kind, self.c.out_data, self.c.out_size_bytes = lib.QR_TARGET_MEMORY, self._data, self._size
        elif isinstance(target, int):
            self.c.kind, self.c.fd = lib.QR_TARGET_DESCRIPTOR, descriptor(target)
        elif not isinstance(target, (str, bytes, os.PathLike)) and hasattr(target, "write"):
            self.c.kind = lib.QR_TARGET_WRITER
            self._kept = self.c.begin, self.c.write, self.c.end = _functions(target, call)
        else:
            self.c.kind, path = lib.QR_TARGET_PATH, path_of(target, "a target", "a path, a descriptor, what has write(), or None")
        if path is not None:
            self._path = Text(path)
            self.c.path = self._path.c

    def made(self) -> Optional[bytes]:
        """What was written into memory."""
        if self.c.kind != lib.QR_TARGET_MEMORY:
            return None
        return bytes(ffi.buffer(self._data[0], self._size[0]))

    def __del__(self) -> None:
        if self.c.kind == lib.QR_TARGET_MEMORY:
            lib.qr_string_destroy(ffi.cast("char *", self._data[0]))

    def text(self) -> str:
        return (self.made() or b"").decode()


def _functions(target: Any, call: Watch) -> Any:
    """Those of a qr_target. What `target` raises ends the call and comes out of it."""
    target_begin, target_end = getattr(target, "begin", None), getattr(target, "end", None)

    def begin(_: Any, name: Any, size: int, more: int) -> int:
        if target_begin is not None:
            target_begin(string_of(name), size, more)
        elif more:
            raise refused(f"a target with write() alone takes one file, and '{string_of(name)}' has {more} more beside it: give a path, or a begin() too")
        return 0

    def write(_: Any, data: Any, size: int) -> int:
        rest = memoryview(bytes(ffi.buffer(data, size)))  # a copy: what is written may be kept
        while rest:
            count = target.write(rest)
            if count is None or count >= len(rest):
                break
            if count <= 0:
                raise refused(f"a target's write() took {count} of {len(rest)} bytes", kind=FileFailed)
            rest = rest[count:]
        return 0

    def end(_: Any, committed: int) -> int:
        if target_end is not None:
            target_end(bool(committed))
        return 0

    return (
        ffi.callback("int32_t(void *, qr_string, uint64_t, uint64_t)", begin, error=errno.EIO, onerror=call.stop),
        ffi.callback("int32_t(void *, const void *, uint64_t)", write, error=errno.EIO, onerror=call.stop),
        ffi.callback("int32_t(void *, int32_t)", end, error=errno.EIO, onerror=call.stop),
    )
