# SPDX-License-Identifier: Apache-2.0
"""What a failed call raises: an exception for each status code, with the id, message and hint of the library."""

import enum
from typing import Any, Dict, List, Tuple, Type

from ._library import ffi, lib, text_of


class Code(enum.IntEnum):
    """Status codes of the C ABI (QR_INVALID_ARGUMENT is Code.INVALID_ARGUMENT)."""

    INVALID_ARGUMENT = lib.QR_INVALID_ARGUMENT
    FAILED_PRECONDITION = lib.QR_FAILED_PRECONDITION
    NOT_FOUND = lib.QR_NOT_FOUND
    OUT_OF_RANGE = lib.QR_OUT_OF_RANGE
    UNSUPPORTED = lib.QR_UNSUPPORTED
    INCOMPATIBLE = lib.QR_INCOMPATIBLE
    CORRUPT = lib.QR_CORRUPT
    RESOURCE_EXHAUSTED = lib.QR_RESOURCE_EXHAUSTED
    UNAVAILABLE = lib.QR_UNAVAILABLE
    DEADLINE_EXCEEDED = lib.QR_DEADLINE_EXCEEDED
    CANCELLED = lib.QR_CANCELLED
    PERMISSION_DENIED = lib.QR_PERMISSION_DENIED
    INTERNAL = lib.QR_INTERNAL
    BUSY = lib.QR_BUSY
    DEVICE_LOST = lib.QR_DEVICE_LOST


class Error(Exception):
    """A call of Quarry's that failed. str() is "QR-C0107: message (hint)"."""

    def __init__(self, code: int, id: str, message: str, hint: str = "", details: Tuple[Tuple[str, str], ...] = ()) -> None:
        super().__init__(code, id, message, hint, details)
        self.code = code
        """One of Code; a number that this package does not know stays one."""
        self.id = id
        """The stable id, "QR-C0107": docs/errors.md has a section for each."""
        self.message = message
        """What was found and what was expected."""
        self.hint = hint
        """What to do about it; may be empty."""
        self.details = details
        """Pairs of key and value: "node", "op", "reason" ... ; one "reason" for each refused node."""

    def __str__(self) -> str:
        text = f"{self.id}: {self.message}"
        text += "".join(f"\n  {value}" for key, value in self.details if key == "reason")
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class InvalidArgument(Error, ValueError):
    pass


class FailedPrecondition(Error):
    pass


class NotFound(Error, LookupError):
    pass


class OutOfRange(Error, IndexError):
    pass


class Unsupported(Error, NotImplementedError):
    pass


class Incompatible(Error):
    pass


class Corrupt(Error):
    pass


class ResourceExhausted(Error, MemoryError):
    pass


class Unavailable(Error):
    pass


class DeadlineExceeded(Error, TimeoutError):
    pass


class Cancelled(Error):
    pass


class PermissionDenied(Error):
    pass


class Internal(Error):
    pass


class Busy(Error):
    pass


class DeviceLost(Error):
    pass


_CLASSES: Dict[int, Type[Error]] = {
    Code.INVALID_ARGUMENT: InvalidArgument,
    Code.FAILED_PRECONDITION: FailedPrecondition,
    Code.NOT_FOUND: NotFound,
    Code.OUT_OF_RANGE: OutOfRange,
    Code.UNSUPPORTED: Unsupported,
    Code.INCOMPATIBLE: Incompatible,
    Code.CORRUPT: Corrupt,
    Code.RESOURCE_EXHAUSTED: ResourceExhausted,
    Code.UNAVAILABLE: Unavailable,
    Code.DEADLINE_EXCEEDED: DeadlineExceeded,
    Code.CANCELLED: Cancelled,
    Code.PERMISSION_DENIED: PermissionDenied,
    Code.INTERNAL: Internal,
    Code.BUSY: Busy,
    Code.DEVICE_LOST: DeviceLost,
}


def error_of(status: Any) -> Error:
    """The exception of a status, which is freed."""
    code: int = lib.qr_status_code(status)
    details: List[Tuple[str, str]] = []
    key, value = ffi.new("const char **"), ffi.new("const char **")
    for index in range(lib.qr_status_detail_count(status)):
        lib.qr_status_detail(status, index, key, value)
        details.append((text_of(key[0]), text_of(value[0])))
    made = _CLASSES.get(code, Error)(
        Code(code) if code in _CLASSES else code,
        text_of(lib.qr_status_id(status)),
        text_of(lib.qr_status_message(status)),
        text_of(lib.qr_status_hint(status)),
        tuple(details),
    )
    lib.qr_status_destroy(status)
    return made


def check(status: Any) -> None:
    if status:
        raise error_of(status)
