# SPDX-License-Identifier: Apache-2.0
"""What a failed call raises: an exception for each status code, with the id, message and hint of the library.

Each is the builtin too that a Python program would catch: a file that is not there is a FileNotFoundError, a wrong value a ValueError. What this package
refuses itself, before the library is asked, is the same with an empty id.
"""

import enum
import errno
import operator
import os
import re
from typing import Any, Dict, List, Tuple, Type

from ._library import ffi, lib, refuse_with, text_of


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

    _errno = 0
    """Of classes that are an OSError too."""

    def __init__(self, code: int, id: str, message: str, hint: str = "", details: Tuple[Tuple[str, str], ...] = ()) -> None:
        Exception.__init__(self, code, id, message, hint, details)  # and not OSError's, to which these would be a number and names of files
        self.code = code
        """One of Code; a number that this package does not know stays one."""
        self.id = id
        """The stable id, "QR-C0107": docs/errors.md has a section for each. Empty for what this package refuses itself."""
        self.message = message
        """What was found and what was expected."""
        self.hint = hint
        """What to do about it; may be empty."""
        self.details = details
        """Pairs of key and value: "node", "op", "reason" ... ; one "reason" for each refused node."""
        if isinstance(self, OSError):
            found: Any = self
            found.errno, found.strerror = self._errno, message

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.code, self.id, self.message, self.hint, self.details)

    def __str__(self) -> str:
        about = next((value for key, value in self.details if key == "file"), "")
        message = self.message if not about or os.path.basename(about) in self.message else f"{about}: {self.message}"
        text = f"{self.id}: {message}" if self.id else message
        reasons = [value for key, value in self.details if key == "reason"]
        for reason in dict.fromkeys(reasons):  # each once
            times = reasons.count(reason)
            text += f"\n  {reason}" + (f" ({times} times)" if times > 1 else "")
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class InvalidArgument(Error, ValueError):
    pass


class FailedPrecondition(Error, RuntimeError):
    pass


class NotFound(Error, LookupError):
    pass


class OutOfRange(Error, IndexError):
    pass


class Unsupported(Error, NotImplementedError):
    pass


class Incompatible(Error, RuntimeError):
    pass


class Corrupt(Error, ValueError):
    pass


class ResourceExhausted(Error, MemoryError):
    pass


class Unavailable(Error, RuntimeError):
    pass


class DeadlineExceeded(Error, TimeoutError):
    _errno = errno.ETIMEDOUT


class Cancelled(Error, RuntimeError):
    pass


class PermissionDenied(Error, PermissionError):
    _errno = errno.EACCES


class Internal(Error, RuntimeError):
    pass


class Busy(Error, RuntimeError):
    pass


class DeviceLost(Error, RuntimeError):
    pass


# ---- what has a builtin of its own

class FileNotFound(NotFound, FileNotFoundError):
    """QR-F0001."""

    _errno = errno.ENOENT


class FolderNotFound(PermissionDenied, FileNotFoundError):
    """QR-F0003, where there is no folder to write into."""

    _errno = errno.ENOENT


class FileFailed(Unavailable, OSError):
    """QR-F0004, and a target's write() that takes a part."""

    _errno = errno.EIO


class NotAFile(InvalidArgument, OSError):
    """QR-F0005."""

    _errno = errno.EINVAL


class DiskFull(ResourceExhausted, OSError):
    """QR-F0007."""

    _errno = errno.ENOSPC


class OutOfDescriptors(ResourceExhausted, OSError):
    """QR-F0008."""

    _errno = errno.EMFILE


class WrongType(InvalidArgument, TypeError):
    """An argument of a Python type that this package has no use for."""


class WrongName(InvalidArgument, AttributeError):
    """A method of another runtime's, with what there is in its place."""


class WrongBuffer(InvalidArgument, BufferError):
    """An array of another library that cannot be read or written where it lies."""


class EndOfFile(Corrupt, EOFError):
    """A model's reader that has less than it said."""


class LibraryMissing(Unavailable, ImportError):
    """A library of Quarry's that is opened when it is first wanted."""


_BY_ID: Dict[str, Type[Error]] = {
    "QR-F0001": FileNotFound, "QR-F0004": FileFailed, "QR-F0005": NotAFile, "QR-F0007": DiskFull, "QR-F0008": OutOfDescriptors,
}
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


# What hints of the library call by the names of C.
_IN_PYTHON: Dict[str, str] = {
    "qr_generator_options.names": "the argument names", "qr_generator_options": "quarry.Generator(...)", "qr_generator_prompt": "Generator.prompt()", "qr_generator_rewind": "Generator.rewind()",
    "qr_memory_allocate": "quarry.Memory(...)", "qr_memory_import_fd": "Memory.import_fd()", "qr_memory_map": "Memory.access()", "qr_memory_unmap": "its end",
    "qr_model_check": "Model.check()", "qr_quantize_option_at": "quarry.quantize_options()", "qr_quantizer_write": "Quantizer.write()", "qr_session_abort": "Run.abort()", "qr_session_clone": "Session.clone()",
    "qr_session_create": "quarry.Session(...)", "qr_session_destroy": "Session.close()", "qr_session_recover": "Session.recover()", "qr_session_run": "Session.run()", "qr_session_submit": "Session.submit()",
    "qr_state_fork": "State.fork()", "qr_state_load": "State.load()", "qr_state_reset": "State.reset()", "qr_state_rewind": "State.rewind()", "qr_state_save": "State.save()",
    "qr_state_write": "state[name] = ...", "qr_signal_reset": "Signal.reset()", "set data and size of the qr_string": "give a text that is not empty",
}


def in_python(hint: str) -> str:
    """A hint by the names that a program in Python has."""
    return re.sub(r"set data and size of the qr_string|qr_generator_options\.names|qr_\w+", lambda found: _IN_PYTHON.get(found[0], found[0]), hint)


def refused(message: str, hint: str = "", kind: Type[Error] = InvalidArgument) -> Error:
    """What this package refuses itself; its code is that of the class of statuses that `kind` is one of."""
    code = next(code for code, one in _CLASSES.items() if issubclass(kind, one))
    return kind(Code(code), "", message, hint)


refuse_with(lambda message, is_type_right: refused(message, kind=InvalidArgument if is_type_right else WrongType))


def whole_number(what: str, value: Any, least: int = 0, most: int = (1 << 64) - 1) -> int:
    """An argument that the C ABI has as an integer of that range."""
    try:
        found = operator.index(value)
    except TypeError:
        raise refused(f"{what}: found {value!r}, expected a whole number", kind=WrongType) from None
    if not least <= found <= most:
        raise refused(f"{what}: found {found}, expected " + ("no number below 0" if found < 0 <= least else f"{least} to {most}"))
    return found


def _made(code: int, id: str, message: str, hint: str, details: Tuple[Tuple[str, str], ...]) -> Error:
    kind = _BY_ID.get(id, Error)
    if id == "QR-F0003" and os.strerror(errno.ENOENT) in message:
        kind = FolderNotFound
    if not issubclass(kind, _CLASSES.get(code, Error)):  # of an id that says a code no more that this package knew
        kind = Error
    return (_CLASSES.get(code, Error) if kind is Error else kind)(Code(code) if code in _CLASSES else code, id, message, in_python(hint), details)


def error_of(status: Any) -> Error:
    """The exception of a status, which is freed."""
    details: List[Tuple[str, str]] = []
    key, value = ffi.new("const char **"), ffi.new("const char **")
    for index in range(lib.qr_status_detail_count(status)):
        lib.qr_status_detail(status, index, key, value)
        details.append((text_of(key[0]), text_of(value[0])))
    made = _made(lib.qr_status_code(status), text_of(lib.qr_status_id(status)), text_of(lib.qr_status_message(status)), text_of(lib.qr_status_hint(status)), tuple(details))
    lib.qr_status_destroy(status)
    return made


def check_tokenizer(of: Any, error: Any) -> None:
    """Raises what an error of libquarry-tokenizer says, which is freed. `of`: the library."""
    if not error:
        return
    made = _made(of.qr_tokenizer_error_code(error), text_of(of.qr_tokenizer_error_id(error)), text_of(of.qr_tokenizer_error_message(error)), text_of(of.qr_tokenizer_error_hint(error)), ())
    of.qr_tokenizer_error_destroy(error)
    raise made


def check(status: Any) -> None:
    if status:
        raise error_of(status)
