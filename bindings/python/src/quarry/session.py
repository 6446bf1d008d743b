# SPDX-License-Identifier: Apache-2.0
"""Sessions: a model made ready to run on one backend."""

import collections
import json
import os
import sys
import threading
import weakref
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from ._library import NULL, Text, ffi, lib, new_struct, pointer_of, taken_text
from .adapter import Adapter
from .dtypes import PACKED
from .errors import Busy, Error, WrongName, WrongType, check, error_of, refused
from .interrupts import Watch, is_late, late, once_more
from .memory import SessionHandle
from .model import CallOptions, Model, Progress, Source, TensorInfo, html_tensors, known_shape, name_of, signature, tensor_info
from .node_times import NodeTimes
from .reports import SessionReport
from .runtime import OptionValue, Options, Profile, Runtime, Signal, all_options, home_of_signals, make_options, nanoseconds, of_onnx_runtime, option_text
from .state import State
from .tables import html_folded, html_table, html_title
from .tensors import Array, ArrayLike, Tensors, from_buffer

if TYPE_CHECKING:  # at run time it is there when a loop of its runs
    import asyncio

Inputs = Union[ArrayLike, Sequence[ArrayLike], Mapping[str, ArrayLike]]
_empty = np.empty
_ndarray = np.ndarray
_run = lib.qr_session_run
_QUICK, _BRIEF = 0.005, 0.03
"""Seconds. To listen for Ctrl-C costs a run 1 us. So a session whose last run took less than _QUICK has the next one end by itself after _BRIEF; a run
that does is made again, and listens. On a device it is the possibility to abort a run that costs time: a quick one goes without that."""


@dataclass(frozen=True)
class MemoryPlan:
    """What a session needs, in bytes; see qr_memory_plan."""

    weights_bytes: int
    arena_bytes: int
    io_bytes: int
    device_bytes: int
    scratchpad_bytes: int
    spill_fill_bytes: int


@dataclass(frozen=True)
class Bucket:
    """What one of a session's shape buckets takes and gives."""

    inputs: Tuple[TensorInfo, ...]
    outputs: Tuple[TensorInfo, ...]


def plan(model: Model, *, signal: Optional[Signal] = None, options: Optional[Options] = None, **keywords: OptionValue) -> MemoryPlan:
    """What a session would need, without making one."""
    found, call = new_struct("qr_memory_plan"), CallOptions(model.runtime, signal)
    c_options = make_options(model.runtime, {**model._options, **all_options(options, keywords)})
    call.call(lib.qr_session_plan, model._ptr, c_options, call.options, found)
    return MemoryPlan(found.weights_bytes, found.arena_bytes, found.io_bytes, found.device_bytes, found.scratchpad_bytes, found.spill_fill_bytes)


def _end(pointer: Any, kept: Dict[int, Any], *also_kept: Any) -> None:
    # Aborts what is queued and waits for its end: only then may its arrays go.
    try:
        lib.qr_session_destroy(pointer)
    except KeyboardInterrupt:
        once_more(weakref.finalize.__call__.__code__)
    finally:
        kept.clear()


_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


def _in_child_of_fork() -> None:
    # A lock that another thread of the parent held would be held for ever here; the library refuses what that thread was inside of.
    for session in list(_sessions):
        session._lock = threading.Lock()
        session._kept.clear()
        session._turns.clear()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_in_child_of_fork)


# Methods of ONNX Runtime's sessions, by what there is in their place.
_OF_ONNX_RUNTIME: Dict[str, str] = {
    "get_providers": 'session.report()["backend"]: there is one',
    "get_provider_options": 'session.report()["options"]',
    "set_providers": "a session of another backend: quarry.Session(model, backend=...)",
    "disable_fallback": "nothing: a session falls back on no other backend",
    "enable_fallback": "nothing: a session falls back on no other backend",
    "get_modelmeta": "session.model.properties, and session.model.inspect()",
    "get_overridable_initializers": "session.inputs: initializers are constants here",
    "get_session_options": 'session.report()["options"]',
    "io_binding": "run(inputs, out=[array]), on arrays or quarry.Memory",
    "run_with_iobinding": "run(inputs, out=[array]), on arrays or quarry.Memory",
    "run_with_ort_values": "run(inputs): arrays are used where they lie",
    "end_profiling": "session.profile(), or run(inputs, profile=quarry.Profile())",
}


class Session(SessionHandle):
    """A model made ready on one backend: `Session("model.onnx", backend="cpu", threads=2)`.

    Options are keyword arguments (`cpu__isa="avx2"` for "cpu.isa"), or a mapping by the library's own names. Calls from several threads
    take turns; clone() gives each thread a session of its own that shares the weights. Pickles by its model and options.
    """

    def __init__(self, model: Union[Model, Source], *, runtime: Optional[Runtime] = None, signal: Optional[Signal] = None,
                 profile: Optional[Profile] = None, progress: Optional[Progress] = None, options: Optional[Options] = None,
                 **keywords: OptionValue) -> None:
        given = all_options(options, keywords)
        if isinstance(model, Model):
            given = {**model._options, **given}
        else:
            model = Model(model, runtime=runtime, signal=signal, options=given)
        call = CallOptions(model.runtime, signal, profile, progress)
        c_options = make_options(model.runtime, given)
        self._begin(model, given, _made(call, lib.qr_session_create, model._ptr, c_options, call.options))

    def _begin(self, model: Model, options: Options, pointer: Any) -> None:
        self.model = model
        self._options = options
        self._ptr = pointer
        self._backend: Optional[str] = None  # once it has been asked for
        self._lock = threading.Lock()
        self._kept: Dict[int, Any] = {}  # queued runs, with their arrays, until they have ended
        self._turns: "Deque[asyncio.Future[None]]" = collections.deque()  # of coroutines that wait for room in the queue
        self._finalizer = weakref.finalize(self, _end, pointer, self._kept, model._view)
        self.inputs: List[TensorInfo] = [tensor_info(lib.qr_session_input, pointer, i) for i in range(lib.qr_session_input_count(pointer))]
        self.outputs: List[TensorInfo] = [tensor_info(lib.qr_session_output, pointer, i) for i in range(lib.qr_session_output_count(pointer))]
        self._names = {info.name: i for i, info in enumerate(self.inputs)}
        # Of runs without a signal of the caller's, which take turns.
        home = home_of_signals(model.runtime)
        self._watch, self._limit = Watch(home), Watch(home, timeout_ns=nanoseconds(_BRIEF))
        self._plain, self._brief = new_struct("qr_run_options"), new_struct("qr_run_options")
        self._plain.signal, self._brief.signal = self._watch.c, self._limit.c
        self._on_device = options.get("backend", "cpu") not in ("cpu", "cpu-reference") or "backend_path" in options or "backend_type" in options
        self._quick = False
        self._in, self._out = self._tensors()
        self._fresh = [
            (i, info.shape, self._out.numpy[i], self._out.sizes[i])
            for i, info in enumerate(self.outputs)
            if self._out.sizes[i] is not None and self._out.dtypes[i] not in PACKED
        ]
        self._all_fresh = len(self._fresh) == len(self.outputs)
        _sessions.add(self)

    def _tensors(self) -> Tuple[Tensors, Tensors]:
        return Tensors(self.inputs, "const qr_tensor *[]"), Tensors(self.outputs, "qr_tensor *[]")

    def close(self) -> None:
        """Ends the session now: aborts what is queued, waits for a run that is under way."""
        with self._lock:
            self._ptr = NULL
            self._finalizer()

    def __repr__(self) -> str:
        if not self._ptr:
            return f"<quarry.Session of {name_of(self.model)}, closed>"
        return f"<quarry.Session of {name_of(self.model)}{self._where()}: {signature(self.inputs, self.outputs)}>"

    def _where(self) -> str:
        """ " on cpu", where that is known without waiting for a run."""
        if self._backend is None and self._lock.acquire(blocking=False):
            try:
                self._backend = str(self._report_alone()["backend"])
            finally:
                self._lock.release()
        return "" if self._backend is None else f" on {self._backend}"

    def _repr_html_(self) -> str:
        if not self._ptr:
            return html_title(repr(self))
        report = self.report()
        nodes = report.get("node_paths", [])
        table = html_table(("node", "operator", "kernel"), [(node["name"], node["op"], node["kernel"]) for node in nodes])
        title = f"Session of {name_of(self.model)} on {report['backend']}, {report['threads']} threads"
        return html_title(title) + html_tensors(self.inputs, self.outputs) + html_folded(f"{len(nodes)} nodes", table)

    def __reduce__(self) -> Tuple[Any, ...]:
        return _session_again, (self.model, self._options)

    @property
    def backend(self) -> str:
        """Which one it runs on: "cpu"."""
        return str(self.report()["backend"])

    def get_inputs(self) -> List[TensorInfo]:
        """`inputs`, as ONNX Runtime's sessions have it: session.get_inputs()[0].name."""
        return list(self.inputs)

    def get_outputs(self) -> List[TensorInfo]:
        """`outputs`, likewise."""
        return list(self.outputs)

    @property
    def buckets(self) -> List[Bucket]:
        """The shape buckets that runs choose from (option "shape"); none while a container that does not suit is compiled in the background."""
        def side(ask: Any, bucket: int, count: int) -> Tuple[TensorInfo, ...]:
            return tuple(tensor_info(lambda session, i, info: ask(session, bucket, i, info), self._ptr, index) for index in range(count))

        return [
            Bucket(side(lib.qr_session_bucket_input, bucket, len(self.inputs)), side(lib.qr_session_bucket_output, bucket, len(self.outputs)))
            for bucket in range(lib.qr_session_bucket_count(self._ptr))
        ]

    def clone(self, *, signal: Optional[Signal] = None) -> "Session":
        """Another session of the same model: shares weights and programs, has its own working memory."""
        call = CallOptions(self.model.runtime, signal)
        with self._lock:
            pointer = _made(call, lib.qr_session_clone, self._ptr, call.options)
        made = Session.__new__(Session)
        made._begin(self.model, self._options, pointer)
        return made

    # ---- runs

    def run(self, inputs: Optional[Inputs] = (), feed: Optional[Inputs] = None, run_options: None = None, *, out: Optional[Sequence[Optional[ArrayLike]]] = None,
            signal: Optional[Signal] = None, timeout: Optional[float] = None, profile: Optional[Profile] = None) -> List[Any]:
        """Runs the network and gives its outputs, in the model's order.

        inputs: one array, several in the model's order, or a mapping by name. They are read where they lie.
        feed: as ONNX Runtime has it, the inputs behind the names of the outputs that are wanted, or None for all: run(None, {"image": image}).
        run_options: None, which ONNX Runtime's programs give there.
        out: arrays (or MemoryTensors, or what has __dlpack__) to write into; None for an entry makes an array. What is made belongs to the caller.
        """
        if run_options is not None:
            raise of_onnx_runtime("run_options", run_options)
        if feed is not None:
            chosen = self._chosen(inputs)
            found = self.run(feed, out=out, signal=signal, timeout=timeout, profile=profile)
            return found if chosen is None else [found[index] for index in chosen]
        with self._lock:
            tensors, results = self._in, self._out
            if out is None and signal is None and timeout is None and profile is None and self._all_fresh:
                # The common case, prepared as far as it can be: this is what a run costs beyond the C call.
                arrays = self._ordered(inputs)
                items, shapes, dtypes, kept = tensors.items, tensors.shapes, tensors.numpy, tensors.kept
                for index, array in enumerate(arrays):
                    if type(array) is _ndarray and array.shape == shapes[index] and array.dtype is dtypes[index] and array.flags.c_contiguous:
                        items[index].const_data = kept[index] = from_buffer(array)
                    else:
                        tensors.set_input(index, array)
                made = []
                for index, shape, dtype, size in self._fresh:
                    array = _empty(shape, dtype)
                    item = results.items[index]
                    item.data = from_buffer(array)
                    item.size_bytes = size
                    item.memory = NULL
                    made.append(array)
                if self._quick and not self._on_device:
                    status = _run(self._ptr, self._brief, tensors.pointers, tensors.count, results.pointers, results.count)
                    if not status and not (late and is_late()):
                        return made
                    self._after_brief(status)
                self._run_watched()
                return made
            try:
                self._set(tensors, results, inputs, out, own=True)
                watch, options = self._options_of(signal, timeout, profile)
                watch.call(_run, self._ptr, options, tensors.pointers, tensors.count, results.pointers, results.count)
                return [results.result(index) for index in range(results.count)]
            finally:
                tensors.forget()
                results.forget()

    def _after_brief(self, status: Any) -> None:
        self._quick = False
        ended = status and lib.qr_status_code(status) == lib.QR_DEADLINE_EXCEEDED
        if not ended or is_late():
            self._in.forget()
            raise self._limit.failure(status)
        lib.qr_status_destroy(status)

    def _run_watched(self) -> None:
        """A run of `_in` and `_out` that Ctrl-C ends."""
        tensors, results, watch, begin = self._in, self._out, self._watch, monotonic()
        try:
            if self._quick:
                check(_run(self._ptr, NULL, tensors.pointers, tensors.count, results.pointers, results.count))
            else:
                watch.call(_run, self._ptr, self._plain, tensors.pointers, tensors.count, results.pointers, results.count)
            self._quick = monotonic() - begin < _QUICK
        except BaseException:
            tensors.forget()
            raise

    def _chosen(self, names: Any) -> Optional[List[int]]:
        """Which outputs the names are of; None for all."""
        if names is None:
            return None
        if isinstance(names, str):
            names = [names]
        known = [info.name for info in self.outputs]
        if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
            raise refused(f"run: found a {type(names).__name__} before the inputs, expected None, or names of outputs: {known}",
                          'run(inputs), or run(None, {"name": array})', WrongType)
        for name in names:
            if name not in known:
                raise refused(f"run: found the output '{name}', expected one of {known}")
        return [known.index(name) for name in names]

    def profile(self, inputs: Optional[Inputs] = None, *, runs: int = 10) -> NodeTimes:
        """Where the time of `runs` runs goes, node by node; on zeros where no inputs are given. print() shows it as a table."""
        if runs < 1:
            raise refused(f"profile: found {runs} runs, expected at least 1")
        if inputs is None:
            inputs = [self._zeros(info, kind) for info, kind in zip(self.inputs, self._in.numpy)]
        self.run(inputs)  # the first takes longer
        with Profile(runtime=self.model.runtime if self.model.runtime._ptr else None) as events:
            for _ in range(runs):
                self.run(inputs, profile=events)
            return events.nodes()

    def _zeros(self, info: TensorInfo, kind: "np.dtype[Any]") -> Array:
        shape = known_shape(info)
        if shape is None:
            raise refused(f"profile: found no inputs, and '{info.name}' has no whole shape: expected inputs")
        return np.zeros(shape, kind)

    def __call__(self, /, *inputs: ArrayLike, **named: ArrayLike) -> Any:
        """The same with inputs as arguments: gives the output, or a tuple of several."""
        if inputs and named:
            raise refused("inputs by position and by name in one call: expected one of them", kind=WrongType)
        results = self.run(named if named else list(inputs))
        return results[0] if len(results) == 1 else tuple(results)

    def _options_of(self, signal: Optional[Signal], timeout: Optional[float], profile: Optional[Profile]) -> Tuple[Watch, Any]:
        if signal is not None and timeout is not None:
            raise refused("both a signal and a timeout: set the timeout on the signal (Signal.set_timeout)", kind=WrongType)
        watch, options = Watch(home_of_signals(self.model.runtime), signal, nanoseconds(timeout)), new_struct("qr_run_options")
        options.signal, options.profile = watch.c, pointer_of(profile)
        return watch, options

    def _ordered(self, inputs: Optional[Inputs]) -> Sequence[ArrayLike]:
        if isinstance(inputs, dict) or isinstance(inputs, Mapping):
            names = self._names
            if len(inputs) != len(names) or any(name not in names for name in inputs):
                raise refused(f"found inputs {sorted(map(str, inputs))}, expected {[info.name for info in self.inputs]}")
            return [inputs[info.name] for info in self.inputs]
        if inputs is None:
            raise refused(f"run: found None, expected the inputs: {'; '.join(map(str, self.inputs))}",
                          'run(array), run({"name": array}), or as ONNX Runtime has it run(None, {"name": array})', WrongType)
        arrays = list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]
        if len(arrays) != len(self.inputs):
            raise refused(f"found {len(arrays)} inputs, expected {len(self.inputs)}: {[info.name for info in self.inputs]}")
        return arrays

    def _set(self, tensors: Tensors, results: Tensors, inputs: Inputs, out: Optional[Sequence[Optional[ArrayLike]]], own: bool) -> None:
        for index, value in enumerate(self._ordered(inputs)):
            tensors.set_input(index, value)
        if out is not None and not isinstance(out, (list, tuple)):
            raise refused(f"found a {type(out).__name__} as `out`, expected a list, an entry for each output: {[info.name for info in self.outputs]}", kind=WrongType)
        if out is not None and len(out) != results.count:
            raise refused(f"found {len(out)} entries in `out`, expected {results.count}: {[info.name for info in self.outputs]}")
        for index in range(results.count):
            results.set_output(index, None if out is None else out[index], own)

    # ---- queued runs

    def submit(self, inputs: Inputs = (), *, out: Optional[Sequence[Optional[ArrayLike]]] = None, signal: Optional[Signal] = None,
               timeout: Optional[float] = None, profile: Optional[Profile] = None) -> "Run":
        """Queues a run and returns at once; Run.wait() gives the outputs. At most `queue_depth` (an option) are under way, more raise Busy.

        timeout: in seconds from now; a run that has not ended then ends with DeadlineExceeded, which wait() raises."""
        return Run(self, inputs, out, _with_timeout(signal, timeout), profile, None)

    async def run_async(self, inputs: Inputs = (), *, out: Optional[Sequence[Optional[ArrayLike]]] = None, signal: Optional[Signal] = None,
                        timeout: Optional[float] = None, profile: Optional[Profile] = None) -> List[Any]:
        """run() for asyncio: the loop goes on meanwhile. Waits for its turn where the queue is full; a cancelled task aborts its run.

        timeout: in seconds from now, the waiting for its turn included."""
        import asyncio  # here: what has no loop does not load it

        loop = asyncio.get_running_loop()
        signal = _with_timeout(signal, timeout)
        if out is None and any(size is None for size in self._out.sizes):
            # Queued runs need room for their outputs; how much is known only at run time.
            own = Signal(runtime=self.model.runtime)
            if signal is not None:
                own._timeout_ns = signal._left_ns()
                signal._add(own)
            try:
                return await loop.run_in_executor(None, lambda: self.run(inputs, signal=own, profile=profile))
            except asyncio.CancelledError:
                own.abort()
                raise
            finally:
                if signal is not None:
                    signal._remove(own)
        while True:
            turn: "asyncio.Future[None]" = loop.create_future()
            self._turns.append(turn)  # before the look, so that no end is missed
            try:
                run = Run(self, inputs, out, signal, profile, loop)
                turn.cancel()
                break
            except Busy:
                await _until(turn, timeout is not None, signal)
        assert run._future is not None
        try:
            await run._future
        except asyncio.CancelledError:
            run.abort()
            raise
        return run._results()

    def _ended(self, run: "Run") -> None:
        # On a thread of Quarry's: wakes the coroutines that wait for this run, and those that wait for room in the queue.
        if run._future is not None:
            _on_loop(run._future, lambda: _settle(run))
        while self._turns:
            turn = self._turns.popleft()
            _on_loop(turn, lambda turn=turn: None if turn.done() else turn.set_result(None))  # type: ignore[misc]

    # ---- the rest

    def warm_up(self, signal: Optional[Signal] = None, profile: Optional[Profile] = None) -> None:
        """Runs each shape bucket once on zeros, so that the next run takes as long as those after it; Session(..., warm_up=True) does so when it is made."""
        watch, options = self._options_of(signal, None, profile)
        with self._lock:
            watch.call(lib.qr_session_warm_up, self._ptr, options)

    def set_option(self, key: str, value: OptionValue) -> None:
        """Changes an option that may change at run time."""
        name, text = Text(key), Text(option_text(value))
        with self._lock:
            Watch().call(lib.qr_session_set_option, self._ptr, name.c, text.c)

    def recover(self, *, signal: Optional[Signal] = None) -> None:
        """Brings the device back after DeviceLost."""
        call = CallOptions(self.model.runtime, signal)
        with self._lock:
            call.call(lib.qr_session_recover, self._ptr, call.options)

    @property
    def state(self) -> State:
        """What the next run goes on from, where the session keeps state (option "state"); a session may be given another one."""
        out = ffi.new("qr_state **")
        with self._lock:
            check(lib.qr_session_state(self._ptr, out))
        return State(self.model.runtime, out[0])

    @state.setter
    def state(self, state: State) -> None:
        with self._lock:
            check(lib.qr_session_set_state(self._ptr, pointer_of(state)))

    def apply(self, adapter: Optional[Adapter]) -> None:
        """Has the runs from now on compute with an adapter, or with none (None); clones that are made of the session too."""
        with self._lock:
            check(lib.qr_session_set_adapter(self._ptr, NULL if adapter is None else pointer_of(adapter)))

    def report(self) -> SessionReport:
        """What the session is: backend, device, plan, options in force; see qr_session_report."""
        with self._lock:
            return self._report_alone()

    def _report_alone(self) -> SessionReport:
        """The same for who has the lock."""
        out = ffi.new("char **")
        check(lib.qr_session_report(self._ptr, out))
        found: SessionReport = json.loads(taken_text(out))
        return found


def _with_timeout(signal: Optional[Signal], timeout: Optional[float]) -> Optional[Signal]:
    """A signal whose time counts from now, where a timeout is given."""
    if timeout is None:
        return signal
    if signal is not None:
        raise refused("both a signal and a timeout: set the timeout on the signal (Signal.set_timeout)", kind=WrongType)
    return Signal(timeout=timeout).derive()


async def _until(turn: "asyncio.Future[None]", limited: bool, signal: Optional[Signal]) -> None:
    """Waits for a turn; with a limit as long as the signal says."""
    import asyncio

    if not limited or signal is None:
        await turn
        return
    await asyncio.wait([turn], timeout=signal._left_ns() / 1e9)
    if not turn.done():
        turn.cancel()
        signal.check()


class _OfOnnxRuntime:
    """A method that there is not. (A __getattr__ of the class would do it too, and cost each run half a microsecond.)"""

    def __init__(self, name: str, in_place: str) -> None:
        self.name, self.in_place = name, in_place

    def __get__(self, session: Optional[Session], kind: type) -> Any:
        if session is None:
            return self
        raise refused(f"{self.name}: found a method of ONNX Runtime's, expected {self.in_place}", kind=WrongName)


for _name, _in_place in _OF_ONNX_RUNTIME.items():
    setattr(Session, _name, _OfOnnxRuntime(_name, _in_place))


class Run:
    """A queued run."""

    def __init__(self, session: Session, inputs: Inputs, out: Optional[Sequence[Optional[ArrayLike]]], signal: Optional[Signal],
                 profile: Optional[Profile], loop: "Optional[asyncio.AbstractEventLoop]") -> None:
        self.session = session
        self.ticket = 0
        self.done = False
        """True once the run has ended."""
        self._error: Optional[Error] = None
        self._inputs, self._outputs = session._tensors()
        session._set(self._inputs, self._outputs, inputs, out, own=False)
        self._future: "Optional[asyncio.Future[None]]" = None if loop is None else loop.create_future()
        options = new_struct("qr_submit_options")
        self._signal = signal
        options.signal, options.profile = pointer_of(signal), pointer_of(profile)
        handle = ffi.new_handle(self)
        options.self, options.done = handle, _run_ended
        ticket = ffi.new("uint64_t *")
        # From here to its end the session keeps the run, and the run its arrays.
        session._kept[id(self)] = handle
        status = lib.qr_session_submit(session._ptr, options, self._inputs.pointers, self._inputs.count, self._outputs.pointers,
                                       self._outputs.count, ticket)
        if status:
            session._kept.pop(id(self), None)
            raise error_of(status)
        self.ticket = int(ticket[0])

    def __repr__(self) -> str:
        state = "under way" if not self.done else "done" if self._error is None else f"failed: {self._error.message}"
        return f"<quarry.Run {self.ticket}, {state}>"

    def wait(self, timeout: Optional[float] = None) -> List[Any]:
        """Waits for the end of the run and gives its outputs. A `timeout` in seconds limits the waiting, and Ctrl-C ends it, not the run.

        Where the waiting alone ended, the DeadlineExceeded has the id QR-R0020 and `done` is False: the run has its arrays still.
        """
        limit = nanoseconds(timeout)  # said of a run that has ended, too
        if not self.done:
            watch, ended = Watch(home_of_signals(self.session.model.runtime), None, limit), ffi.new("int32_t *")
            try:
                watch.call(lib.qr_session_wait, self.session._ptr, self.ticket, watch.c, ended)
            except Error:
                if not ended[0] and not self.done:
                    raise
        if self._error is not None:
            raise self._error
        return self._results()

    def abort(self) -> None:
        """The run ends with Cancelled as soon as it can; one that has ended is left alone."""
        if not self.done:
            lib.qr_session_abort(self.session._ptr, self.ticket)

    def _results(self) -> List[Any]:
        return [self._outputs.result(index) for index in range(self._outputs.count)]


@ffi.callback("void(void *, uint64_t, qr_status *)")  # type: ignore[untyped-decorator]
def _run_ended(handle: Any, ticket: int, status: Any) -> None:
    run: Run = ffi.from_handle(handle)
    run._error = error_of(status) if status else None
    run.done = True
    run.session._kept.pop(id(run), None)
    run.session._ended(run)


def _on_loop(future: "asyncio.Future[None]", call: Callable[[], None]) -> None:
    try:
        future.get_loop().call_soon_threadsafe(call)
    except RuntimeError:  # the loop is closed: nobody waits any more
        pass


def _settle(run: Run) -> None:
    future = run._future
    if future is None or future.done():
        return
    if run._error is None:
        future.set_result(None)
    else:
        future.set_exception(run._error)


def _made(watch: Watch, function: Any, *arguments: Any) -> Any:
    """A session that the function gives by its last argument."""
    out = ffi.new("qr_session **")
    try:
        watch.call(function, *arguments, out)
    except BaseException:
        lib.qr_session_destroy(out[0])  # it may be there: what ended the call came too late; NULL is accepted
        raise
    return out[0]


def _session_again(model: Model, options: Options) -> Session:
    return Session(model, options=options)
