# SPDX-License-Identifier: Apache-2.0
"""Runtimes, sets of options, signals and profiles."""

import json
import os
import threading
import time
import weakref
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

from ._library import NULL, Text, ffi, lib, new_struct, pointer_of, string_of, taken_text, text_of
from .errors import Error, WrongType, check, refused
from .interrupts import NO_LIMIT, Watch, caught
from .node_times import Event, NodeTimes, node_times
from .targets import OpenTarget, Path, Target, path_of

if TYPE_CHECKING:  # at run time a logger brings it along
    import logging

OptionValue = Union[str, int, float, bool, os.PathLike, Sequence[Any], Mapping[str, Any]]  # type: ignore[type-arg]
Options = Mapping[str, OptionValue]
Self = TypeVar("Self", bound="Handle")


class Handle:
    """Owns one object of the C ABI. A child holds its parent there, so any order of closing is right."""

    _ptr: Any = NULL

    def close(self) -> None:
        """Frees the object now; without it, the garbage collector does. Calls on a closed one raise QR-C0002."""
        if self._ptr:
            ffi.release(self._ptr)
        self._ptr = NULL

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.close()


@dataclass(frozen=True)
class Device:
    """A device of a backend."""

    name: str
    usable: bool
    target: str
    memory_bytes: int
    features: int
    why_not: str
    details: str


@dataclass(frozen=True)
class Backend:
    """What the loader says of one candidate plugin."""

    id: str
    usable: bool
    path: str
    version: str
    verdict: str
    error_id: str
    hint: str
    devices: Tuple[Device, ...]


@dataclass(frozen=True)
class OptionInfo:
    """One row of the table of options (docs/options.md)."""

    key: str
    values: str
    default: str
    scope: str
    help: str
    changes_at_run_time: bool


Log = Union["logging.Logger", Callable[[int, str, str], None]]
"""Where log lines go: a logger, whose children have the lines' topics, or a function of level (as logging has them), topic and message.

A logger's records have `misbehaves`: "caller" or "plugin" where the line says that one of them broke the contract, else ""."""

# Each level of the library's as logging has it.
_WARNING = 30
_LEVELS: Dict[int, int] = {lib.QR_LOG_ERROR: 40, lib.QR_LOG_WARN: _WARNING, lib.QR_LOG_INFO: 20, lib.QR_LOG_DEBUG: 10, lib.QR_LOG_TRACE: 5}
_WORDS: Dict[str, int] = {"error": lib.QR_LOG_ERROR, "warn": lib.QR_LOG_WARN, "info": lib.QR_LOG_INFO, "debug": lib.QR_LOG_DEBUG, "trace": lib.QR_LOG_TRACE}
_sinks: List[Any] = []  # for as long as the process: models and sessions go on logging when their Runtime is gone


def _sink(log: Log, level: str) -> Any:
    if level not in _WORDS:
        raise refused(f"log_level: found '{level}', expected one of {', '.join(_WORDS)}")
    handle = ffi.new_handle(log)
    made = new_struct("qr_log_sink")
    made.level, made.self, made.write = _WORDS[level], handle, _write_log
    _sinks.append((handle, log))
    return made


def _log_failed(kind: Type[BaseException], error: BaseException, trace: Optional[TracebackType]) -> None:
    # What a log function raises is printed and no more: it is not the business of the call that wrote the line.
    if not caught(kind, error, trace):
        import traceback

        traceback.print_exception(kind, error, trace)


@ffi.callback("void(void *, qr_log_level, uint32_t, qr_string, qr_string)", onerror=_log_failed)  # type: ignore[untyped-decorator]
def _write_log(handle: Any, level: int, flags: int, topic: Any, message: Any) -> None:
    log: Log = ffi.from_handle(handle)
    if not callable(log):
        who = "caller" if flags & lib.QR_LOG_CALLER_MISBEHAVES else "plugin" if flags & lib.QR_LOG_PLUGIN_MISBEHAVES else ""
        log.getChild(string_of(topic)).log(_LEVELS.get(level, _WARNING), "%s", string_of(message), extra={"misbehaves": who})
    else:
        log(_LEVELS.get(level, _WARNING), string_of(topic), string_of(message))


class Runtime(Handle):
    """Plugin search path and thread pools. Without one given, all models share default_runtime().

    backend_path: folders of plugins, searched before the others. only_given_paths: and no others are searched.
    log: where log lines from log_level ("error", "warn", "info", "debug", "trace") on go, from any thread; without one, to nobody.
    """

    def __init__(self, *, backend_path: Union[Path, Sequence[Path]] = (), prepare_path: Path = "", only_given_paths: bool = False,
                 log: Optional[Log] = None, log_level: str = "warn") -> None:
        one = isinstance(backend_path, (str, bytes, os.PathLike))
        folders = ":".join(path_of(p, "backend_path", "a path, or several") for p in ([backend_path] if one else backend_path))  # type: ignore[union-attr]
        prepare_path = path_of(prepare_path, "prepare_path", "a path")
        self._made_with = {"backend_path": folders, "prepare_path": prepare_path, "only_given_paths": only_given_paths, "log": log, "log_level": log_level}
        path, prepare = Text(folders), Text(prepare_path)
        options = new_struct("qr_runtime_options")
        options.flags = lib.QR_RUNTIME_ONLY_GIVEN_PATHS if only_given_paths else 0
        options.backend_path, options.prepare_path = path.c, prepare.c
        if log is not None:
            sink = _sink(log, log_level)
            options.log = sink
        out = ffi.new("qr_runtime **")
        check(lib.qr_runtime_create(options, out))
        self._ptr = ffi.gc(out[0], lib.qr_runtime_destroy)

    def __repr__(self) -> str:
        return f"<quarry.Runtime {version()}{'' if self._ptr else ', closed'}>"

    def __reduce__(self) -> Tuple[Any, ...]:
        return (_default_runtime_again, ()) if self is _default else (_runtime_again, (self._made_with,))

    def backends(self) -> List[Backend]:
        """Looks at every candidate plugin and says of each whether it can be used, or why not."""
        count = ffi.new("uint64_t *")
        Watch().call(lib.qr_runtime_scan, self._ptr, count)
        found = []
        for index in range(count[0]):
            info = new_struct("qr_backend_info")
            check(lib.qr_runtime_backend(self._ptr, index, info))
            devices = []
            for number in range(info.device_count):
                device = new_struct("qr_device_info")
                check(lib.qr_runtime_device(self._ptr, index, number, device))
                devices.append(
                    Device(string_of(device.name), bool(device.usable), string_of(device.target), device.memory_bytes,
                           device.features, string_of(device.why_not), string_of(device.details)))
            found.append(
                Backend(string_of(info.id), bool(info.usable), string_of(info.path), string_of(info.version),
                        string_of(info.verdict), string_of(info.error_id), string_of(info.hint), tuple(devices)))
        return found

    def options(self) -> List[OptionInfo]:
        """The table of all options."""
        found: List[OptionInfo] = []
        while True:
            info = new_struct("qr_option_info")
            status = lib.qr_runtime_option(self._ptr, len(found), info)
            if status and lib.qr_status_code(status) == lib.QR_OUT_OF_RANGE:
                lib.qr_status_destroy(status)
                return found
            check(status)
            found.append(
                OptionInfo(string_of(info.key), string_of(info.values), string_of(info.default_value),
                           string_of(info.scope), string_of(info.help), bool(info.changes_at_run_time)))

    def operators(self, backend: str = "") -> Any:
        """What a backend takes, as docs/operators.md has it; Quarry's own operator set for an empty name."""
        name, out = Text(backend), ffi.new("char **")
        Watch().call(lib.qr_runtime_operators, self._ptr, name.c, out)
        return json.loads(taken_text(out))

    def search_path(self) -> List[Tuple[str, str]]:
        """The folders that are searched for plugins, each with where it came from."""
        found: List[Tuple[str, str]] = []
        path, origin = ffi.new("qr_string *"), ffi.new("qr_string *")
        while True:
            status = lib.qr_runtime_search_path(self._ptr, len(found), path, origin)
            if status and lib.qr_status_code(status) == lib.QR_OUT_OF_RANGE:
                lib.qr_status_destroy(status)
                return found
            check(status)
            found.append((string_of(path[0]), string_of(origin[0])))

    @property
    def cpu_features(self) -> List[str]:
        """The processor features that kernels may use."""
        return text_of(lib.qr_runtime_cpu_features(self._ptr)).split()


_default: Optional[Runtime] = None
_default_lock = threading.Lock()


def default_runtime() -> Runtime:
    """The runtime of all models that are given none; made at its first use."""
    global _default
    if _default is None:
        with _default_lock:
            if _default is None:
                _default = Runtime()
    return _default


def _default_runtime_again() -> Runtime:
    return default_runtime()


def _runtime_again(made_with: Dict[str, Any]) -> Runtime:
    return Runtime(**made_with)


def version() -> str:
    """The version of the library that is loaded, "major.minor.patch"."""
    return text_of(lib.qr_version())


def abi_version() -> Tuple[int, int]:
    """Major and minor of the loaded library's C ABI."""
    major, minor = divmod(int(lib.qr_abi_version()), 65536)
    return major, minor


# ---- options

def option_text(value: OptionValue) -> str:
    """A value as the C ABI takes it: True is "1", a sequence has commas between, a mapping is "key=1x3x8,..."."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (os.PathLike, bytes)):  # a name of any bytes
        return os.fsdecode(value)
    if isinstance(value, Mapping):
        parts = []
        for key, extents in value.items():
            many = "x".join(str(e) for e in extents) if isinstance(extents, (tuple, list)) else str(extents)
            parts.append(f"{key}={many}")
        return ",".join(parts)
    if isinstance(value, Sequence):
        # Several mappings are several shape buckets.
        separator = ";" if any(isinstance(item, Mapping) for item in value) else ","
        return separator.join(option_text(item) for item in value)
    return str(value)


def all_options(options: Optional[Options], keywords: Options) -> Dict[str, OptionValue]:
    """Options of a mapping, by the library's names, and of keyword arguments, in which "__" stands for the dot."""
    try:
        found = dict(options or {})
    except (TypeError, ValueError):
        raise refused(f"options: found {options!r}, expected a mapping", 'threads=2, or options={"threads": 2}', WrongType) from None
    for key, value in keywords.items():
        if key in _OF_ONNX_RUNTIME:
            raise of_onnx_runtime(key, value)
        found[key.replace("__", ".")] = value
    return found


# Arguments of another runtime's, by what there is in their place. Its keys of sessions and of QNN are options here too (docs/options.md).
_OF_ONNX_RUNTIME: Dict[str, str] = {
    "providers": "backend=: a session runs wholly on the one backend that it names, and falls back on no other",
    "provider_options": "options as keyword arguments, or options={...}, by the same names",
    "sess_options": "options as keyword arguments: threads=2 for intra_op_num_threads, or options={...}",
    "run_options": "the arguments of run: timeout=, signal=, profile=",
}
# Its providers' names, as far as there is a backend for the same devices.
_BACKEND_OF: Dict[str, str] = {"CPU": "cpu", "QNN": "htp", "XNNPACK": "cpu", "Dnnl": "cpu"}


def of_onnx_runtime(key: str, value: Any) -> Error:
    """What answers an argument of that name."""
    return refused(f"{key}: found an argument of ONNX Runtime's, expected {_OF_ONNX_RUNTIME[key]}", _right_call(key, value), WrongType)


def _right_call(key: str, value: Any) -> str:
    if key != "providers" or not isinstance(value, (list, tuple)) or not value:
        return "docs/coming-from.md has the names side by side"
    first = value[0][0] if isinstance(value[0], (list, tuple)) and value[0] else value[0]
    provider = str(first).replace("ExecutionProvider", "")
    backend = _BACKEND_OF.get(provider)
    if backend is not None:
        return f'quarry.Session(model, backend="{backend}")'
    return f'{provider} has no backend here; backend="gpu" runs on GPUs that speak OpenCL, and `quarry doctor` lists what this machine has'


def make_options(runtime: Runtime, options: Options) -> Any:
    """A qr_options, or NULL for none."""
    if not options:
        return NULL
    out = ffi.new("qr_options **")
    check(lib.qr_options_create(runtime._ptr, out))
    made = ffi.gc(out[0], lib.qr_options_destroy)
    for key, value in options.items():
        name, text = Text(key), Text(option_text(value))
        check(lib.qr_options_set(made, name.c, text.c))
    return made


# ---- signals and profiles

def home_of_signals(runtime: Runtime) -> Any:
    """A runtime that signals can be made of: they serve calls of every runtime, and this one may be closed."""
    return pointer_of(runtime) or default_runtime()._ptr


def nanoseconds(seconds: Optional[float]) -> int:
    """A timeout as the C ABI takes it. What is left of a time that has run out, 0 or less, is a time that has passed: no more, and never no limit."""
    if seconds is None:
        return NO_LIMIT
    try:
        if seconds != seconds:
            raise refused("a timeout of nan s: expected a number, or None for no limit")
        return int(min(max(seconds, 0), 1e9) * 1e9)
    except TypeError:
        raise refused(f"timeout: found {seconds!r}, expected a number of seconds, or None for no limit", kind=WrongType) from None


class Signal(Handle):
    """Stops calls that are under way: from another thread, or by a timeout. One signal may serve many calls."""

    def __init__(self, *, timeout: Optional[float] = None, runtime: Optional[Runtime] = None) -> None:
        out = ffi.new("qr_signal **")
        check(lib.qr_signal_create((runtime or default_runtime())._ptr, out))
        self._ptr = ffi.gc(out[0], lib.qr_signal_destroy)
        # A call has a signal of its own (interrupts.Watch), which this one's abort reaches: what ends one call leaves the others alone.
        self._aborted = False
        self._timeout_ns = NO_LIMIT
        self._until: Optional[int] = None  # of all calls together, as time.monotonic_ns()
        self._followers: "Dict[int, Union[Watch, Signal]]" = {}
        self._derived: "weakref.WeakSet[Signal]" = weakref.WeakSet()
        if timeout is not None:
            self.set_timeout(timeout)

    def derive(self) -> "Signal":
        """A signal for calls that belong together: aborted with this one, and what is left of this one's timeout counts for all of them from now on."""
        made = Signal.__new__(Signal)
        out = ffi.new("qr_signal **")
        check(lib.qr_signal_derive(self._ptr, out))
        made._ptr = ffi.gc(out[0], lib.qr_signal_destroy)
        made._timeout_ns, made._followers, made._derived = NO_LIMIT, {}, weakref.WeakSet()
        left = self._left_ns()
        made._until = None if left == NO_LIMIT else time.monotonic_ns() + left
        self._derived.add(made)
        made._aborted = self._aborted
        return made

    def check(self) -> None:
        """Raises Cancelled where the signal is aborted, DeadlineExceeded where it has no time left: for work between calls."""
        check(lib.qr_signal_check(self._ptr))

    def _left_ns(self) -> int:
        """Of a call that begins now."""
        return self._timeout_ns if self._until is None else min(self._timeout_ns, max(0, self._until - time.monotonic_ns()))

    def abort(self) -> None:
        """Calls that use the signal raise Cancelled as soon as they can, now and until reset()."""
        self._aborted = True
        lib.qr_signal_abort(self._ptr)
        for follower in [*self._followers.values(), *self._derived]:
            follower.abort()

    def reset(self) -> None:
        self._aborted = False
        lib.qr_signal_reset(self._ptr)

    def set_timeout(self, seconds: Optional[float]) -> None:
        """Each later call has this long, from its own start; 0 and less: none at all, it has passed already. None: no limit."""
        self._timeout_ns = nanoseconds(seconds)
        lib.qr_signal_set_timeout(self._ptr, self._timeout_ns)

    def _add(self, follower: "Union[Watch, Signal]") -> None:
        self._followers[id(follower)] = follower  # before the look, so that no abort is missed
        if self._aborted:
            follower.abort()

    def _remove(self, follower: "Union[Watch, Signal]") -> None:
        self._followers.pop(id(follower), None)

    def __repr__(self) -> str:
        limit = "" if self._timeout_ns == NO_LIMIT else f", {self._timeout_ns / 1e9:g} s for each call"
        return f"<quarry.Signal{', aborted' if self._aborted else ''}{limit}>"

    def fileno(self) -> int:
        """A descriptor that select and poll call readable while the signal is aborted; it stays the signal's."""
        out = ffi.new("int32_t *")
        check(lib.qr_signal_fd(self._ptr, out))
        found: int = out[0]
        return found


class Profile(Handle):
    """What the calls that it is given to did, and how long that took."""

    def __init__(self, *, runtime: Optional[Runtime] = None) -> None:
        out = ffi.new("qr_profile **")
        check(lib.qr_profile_create((runtime or default_runtime())._ptr, out))
        self._ptr = ffi.gc(out[0], lib.qr_profile_destroy)

    def __len__(self) -> int:
        found: int = lib.qr_profile_event_count(self._ptr)
        return found

    @property
    def lost(self) -> int:
        """Events that could not be kept."""
        found: int = lib.qr_profile_lost_count(self._ptr)
        return found

    def __getitem__(self, index: int) -> Event:
        event = new_struct("qr_profile_event")
        check(lib.qr_profile_event_at(self._ptr, index + len(self) if index < 0 else index, event))
        counters = [event.counters[i] for i in range(event.counter_count)]
        attributes = [event.attributes[i] for i in range(event.attribute_count)]
        return Event(
            event.id, event.parent, event.level, event.clock, event.thread, event.begin, event.end, event.node,
            string_of(event.name), string_of(event.kind), string_of(event.op),
            {string_of(c.name): (c.value, string_of(c.unit)) for c in counters},
            {string_of(a.key): string_of(a.value) for a in attributes},
        )

    def export(self, format: str = "csv") -> str:
        """The events as a file's content: "csv", or "chrome" for Perfetto."""
        return self._write(format, None).text()

    def write(self, target: Target, format: str = "csv") -> None:
        """The same to a path, a descriptor or what has write()."""
        self._write(format, target).made()

    def _write(self, format: str, target: Target) -> OpenTarget:
        watch, name = Watch(), Text(format)
        opened = OpenTarget(target, None, watch)
        watch.call(lib.qr_profile_export, self._ptr, name.c, opened.c)
        return opened

    def nodes(self) -> NodeTimes:
        """Where the time of the runs went, node by node."""
        return node_times([self[index] for index in range(len(self))])

    def __repr__(self) -> str:
        return f"<quarry.Profile of {len(self)} events>"

    def clear(self) -> None:
        lib.qr_profile_clear(self._ptr)
