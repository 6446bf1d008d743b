# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C, and exceptions of callbacks, while a call is inside the library.

Python runs the handlers of signals between two of its own instructions, so a call of C's is not ended by Ctrl-C. Here a thread of its own
learns of SIGINT, by the descriptor that Python writes to when one arrives (signal.set_wakeup_fd), and aborts the calls that the main thread
is inside of. They return, and Python raises KeyboardInterrupt there. That is so where SIGINT has Python's own handler
(signal.default_int_handler): whether another one will raise, nobody knows before it has run, and it runs when the call has ended.
"""

import os
import signal
import sys
import threading
import time
from _thread import get_ident
from types import CodeType, TracebackType
from typing import Any, List, Optional, Protocol, Type

from ._library import NULL, ffi, lib, pointer_of
from .errors import check, error_of

_set_wakeup_fd = signal.set_wakeup_fd
_main = threading.main_thread().ident
_lock = threading.Lock()  # of _active and of Watch.hit
_active: "List[Watch]" = []  # what the main thread is inside of; a callback may have begun another call
_thread: Optional[threading.Thread] = None
_reader, _writer = -1, -1
NO_LIMIT: int = lib.QR_NO_TIMEOUT
late: List[BaseException] = []  # what `caught` has, of a call that is not watched
_others = -1  # the descriptor of somebody else (an event loop) that ours stands in place of


class _Abortable(Protocol):
    """A caller's signal (quarry.Signal, which lies above this module)."""

    def _left_ns(self) -> int: ...
    def _add(self, watch: "Watch") -> None: ...
    def _remove(self, watch: "Watch") -> None: ...


class Watch:
    """The signal of one call at a time. `c` goes to the library; Ctrl-C, an exception of a callback that cannot stop the call by its answer, and
    the caller's signal abort it.

    runtime: the C object; without one `c` is NULL, for a call that takes no signal: an exception of a callback comes out of that one too.
    """

    __slots__ = ("c", "hit", "error", "_spent", "_signal", "_before")

    def __init__(self, runtime: Any = None, signal: Optional[_Abortable] = None, timeout_ns: int = NO_LIMIT) -> None:
        self.c = NULL
        if runtime is not None:
            out = ffi.new("qr_signal **")
            check(lib.qr_signal_create(runtime, out))
            self.c = ffi.gc(out[0], lib.qr_signal_destroy)
            if signal is not None:
                pointer_of(signal)  # is one
                timeout_ns = signal._left_ns()
            if timeout_ns != NO_LIMIT:
                lib.qr_signal_set_timeout(self.c, timeout_ns)
        self.hit = False  # by Ctrl-C
        self.error: Optional[BaseException] = None
        self._spent = False  # `c` has been aborted
        self._signal = signal
        self._before: Optional[int] = None

    def enter(self) -> None:
        """Just before the call; leave() follows in any case."""
        global _others
        if self._spent:
            self._spent = self.hit = False
            lib.qr_signal_reset(self.c)
        if self._signal is not None:
            self._signal._add(self)
        if get_ident() != _main or (_thread is None and not _begin()):
            return
        _active.append(self)
        try:
            self._before = _set_wakeup_fd(_writer, warn_on_full_buffer=False)
        except ValueError:  # not the interpreter that has the signals
            return
        if self._before != _writer:
            _others = self._before

    def leave(self) -> None:
        if self in _active:
            with _lock:
                _active.remove(self)
            before, self._before = self._before, None
            if before is not None:
                _set_wakeup_fd(before)
        if self._signal is not None:
            self._signal._remove(self)

    def again(self, status: Any) -> bool:
        """Whether the call was ended by a Ctrl-C of the time before it, which has been raised there: then it is made again."""
        if not self.hit or lib.qr_status_code(status) != lib.QR_CANCELLED:
            return False
        lib.qr_status_destroy(status)
        return True

    def failure(self, status: Any) -> BaseException:
        """What a call that failed raises."""
        if is_late():
            self.error = late.pop()
        if self.error is None:
            return error_of(status)
        if status:
            lib.qr_status_destroy(status)
        error, self.error = self.error, None
        return error

    def stop(self, kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        """For the `onerror` of a callback: its exception stops the call, and comes out of it."""
        self.keep(kind, error, trace)
        self.abort()

    def keep(self, kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
        """The same of a callback whose answer stops the call."""
        if self.error is None:
            self.error = error

    def abort(self) -> None:
        self._spent = True
        lib.qr_signal_abort(self.c)

    def call(self, function: Any, *arguments: Any) -> None:
        """Calls a function of the library's that is given `c` by one of its arguments."""
        while True:
            status = NULL
            try:
                self.enter()
                status = function(*arguments)
            finally:
                self.leave()
            if self.error is not None or (late and is_late()) or (status and not self.again(status)):
                raise self.failure(status)
            if not status:
                return


def is_late() -> bool:
    """Whether something waits in `late` that is this thread's to raise."""
    return bool(late) and get_ident() == _main


def make(kind: str, destroy: Any, watch: Watch, function: Any, *arguments: Any) -> Any:
    """A new object, which the function gives by its last argument."""
    out = ffi.new(f"{kind} **")
    try:
        watch.call(function, *arguments, out)
    except BaseException:
        destroy(out[0])  # it may be there: what ended the call came too late; NULL is accepted
        raise
    return ffi.gc(out[0], destroy)


def caught(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> bool:
    """For a callback that is no call's own (log lines): has a KeyboardInterrupt that hit it there come out of the call that it interrupts."""
    if isinstance(error, Exception) or get_ident() != _main:
        return False
    if _active:
        _active[-1].stop(kind, error, trace)
    else:
        late.append(error)
    return True


def _begin() -> bool:
    global _thread, _reader, _writer
    if _writer < 0:
        _reader, _writer = os.pipe()  # which no child inherits
        if sys.platform != "win32":  # there it need not
            os.set_blocking(_writer, False)
    thread = threading.Thread(target=_listen, args=(_reader,), name="quarry-interrupts", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is ending, or there are no more threads
        return False
    _thread = thread
    return True


_END, _AGAIN = 255, 254  # no signal's numbers


_lossy: Optional[CodeType] = None


def once_more(lossy: CodeType) -> None:
    """For where a KeyboardInterrupt gets lost, as in what the garbage collector calls: raises it in the main thread again, once that has left the function `lossy`."""
    global _lossy
    _lossy = lossy
    if _thread is not None or _begin():
        os.write(_writer, bytes([_AGAIN]))


def _is_in(code: Optional[CodeType]) -> bool:
    frame = sys._current_frames().get(_main or 0)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None


def _abort_all() -> None:
    with _lock:
        for watch in _active:
            watch.hit = True
            watch.abort()


def _listen(reader: int) -> None:
    while True:
        arrived = os.read(reader, 4096)
        if _END in arrived:
            return
        if _AGAIN in arrived:
            outside = 0
            while outside < 5:  # what calls the function leaves it too, and other callbacks of the same collection end
                time.sleep(0.001)
                outside = 0 if _is_in(_lossy) else outside + 1
            if sys.platform == "win32":  # what it waits in then ends, as by Ctrl-C
                signal.raise_signal(signal.SIGINT)
            else:
                signal.pthread_kill(_main or 0, signal.SIGINT)
            arrived = arrived.replace(bytes([_AGAIN]), b"")
        if signal.SIGINT in arrived and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            _abort_all()
        if _others >= 0 and arrived:
            try:
                os.write(_others, arrived)
            except OSError:  # full, or closed meanwhile
                pass


# A forked child has one thread, and a pipe of its own: signals of the child are no business of its parent's. The thread is ended before the
# fork, so that none stands in the middle of something, and begun again where it is wanted.

def _before_fork() -> None:
    global _thread
    if _thread is not None:
        os.write(_writer, bytes([_END]))
        _thread.join()
        _thread = None


def _in_parent() -> None:
    if _active:
        _begin()


def _in_child() -> None:
    global _lock, _main, _reader, _writer
    _main = threading.main_thread().ident
    _lock = threading.Lock()
    if _writer >= 0:
        for watch in _active:
            if watch._before is not None and watch._before != _writer:
                _set_wakeup_fd(watch._before)
            watch._before = None
        os.close(_reader)
        os.close(_writer)
        _reader, _writer = -1, -1
    _active.clear()


if sys.platform != "win32":
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
