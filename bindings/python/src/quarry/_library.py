# SPDX-License-Identifier: Apache-2.0
"""Finds libquarry and opens it with cffi in ABI mode: nothing is compiled, one wheel serves every Python."""

import os
import sys
from typing import Any, Callable, List, Optional

from ._abi import ffi as _ffi
from ._machine import warn_if_emulated, why_not

_HERE = os.path.dirname(os.path.abspath(__file__))
NATIVE = os.path.join(_HERE, "_native")
# On Windows DLLs lie where programs do.
LIBRARIES = os.path.join(NATIVE, "bin" if os.name == "nt" else "lib")


def file_name(part: str = "") -> str:
    """That of libquarry, or of libquarry-PART."""
    name = f"libquarry-{part}" if part else "libquarry"
    return f"{name}-0.dll" if os.name == "nt" else f"{name}.so.0"


def library_path() -> str:
    """The file that is opened: QUARRY_LIBRARY, that of the wheel, else what the system's loader finds."""
    given = os.environ.get("QUARRY_LIBRARY")
    if given:
        return given
    own = os.path.join(LIBRARIES, file_name())
    return own if os.path.exists(own) else file_name()


def opened(path: str) -> Any:
    """The library at `path`, for cffi."""
    if sys.platform == "win32" and os.path.dirname(path):
        import ctypes  # of use here alone: cffi has no word for what follows

        # What it needs is looked for beside it first (LOAD_WITH_ALTERED_SEARCH_PATH, which wants a whole path); what is opened once cffi finds again.
        path = os.path.abspath(path)
        ctypes.WinDLL(path, winmode=8)
    return _ffi.dlopen(path)


def _open() -> Any:
    path = library_path()
    try:
        found = opened(path)
    except OSError as error:
        why = why_not(path) or f"{error}. Install the package from its wheel, which holds the library, or set QUARRY_LIBRARY to the file of an installed {file_name()}"
        raise ImportError(f"quarry: cannot open '{path}': {why}") from None
    if sys.platform == "win32":
        warn_if_emulated()
    return found


def check_abi(library: Any, path: str) -> None:
    """Refuses a library whose C ABI is not the one that this package was made for, before anything else is called."""
    try:
        major, minor = divmod(int(library.qr_abi_version()), 65536)
    except AttributeError:
        major, minor = 0, 0  # of the time before 0.3
    if major != library.QR_ABI_MAJOR or minor < library.QR_ABI_MINOR:
        raise ImportError(
            f"quarry: '{path}' has the C ABI {major}.{minor}, expected {library.QR_ABI_MAJOR}.{library.QR_ABI_MINOR}, or a later minor. "
            "Install the library and this package of one release"
        )


# cffi's objects have no static types: what touches them is Any, and the public classes say what comes out.
ffi: Any = _ffi
lib: Any = _open()
check_abi(lib, library_path())
NULL: Any = ffi.NULL
_refusals: List[Callable[[str, bool], Exception]] = []


def refuse_with(made: Callable[[str, bool], Exception]) -> None:
    """What an argument is refused with: of a message, and whether the argument's type is right. errors.py, which lies above this module, says it."""
    _refusals[:] = [made]


def text_of(pointer: Any) -> str:
    """A NUL-terminated text of the library's."""
    found: bytes = ffi.string(pointer)
    return found.decode("utf-8", "replace")


def string_of(view: Any) -> str:
    """A qr_string as str."""
    if not view.size:
        return ""
    found: bytes = ffi.unpack(view.data, view.size)
    return found.decode("utf-8", "replace")


class Text:
    """A str as qr_string, kept alive as long as this object is."""

    __slots__ = ("c", "_bytes")

    def __init__(self, text: str) -> None:
        try:
            data = text.encode("utf-8", "surrogateescape")
        except (AttributeError, TypeError, UnicodeError) as error:
            raise _refusals[0](f"found {text!r}, expected a text" + (f": {error}" if isinstance(text, str) else ""), isinstance(text, str)) from None
        self._bytes = ffi.new("char[]", data)
        self.c = ffi.new("qr_string *", (self._bytes, len(data)))[0]


def taken_text(out: Any) -> str:
    """The text in a `char **` that a function gave; frees it."""
    pointer = out[0]
    try:
        return text_of(pointer)
    finally:
        lib.qr_string_destroy(pointer)


def new_struct(kind: str) -> Any:
    """A struct of the C ABI with its struct_size, all else zero."""
    made = ffi.new(f"{kind} *")
    made.struct_size = ffi.sizeof(kind)
    return made


def pointer_of(handle: Optional[Any]) -> Any:
    """The C object of a wrapper; NULL for None."""
    if handle is None:
        return NULL
    try:
        return handle._ptr
    except AttributeError:
        raise _refusals[0](f"found {handle!r}, expected an object of quarry's, or None", False) from None
