# SPDX-License-Identifier: Apache-2.0
"""Models: an opened .onnx or .qrm file."""

import json
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, List, Optional, Tuple, Union

from ._library import NULL, Text, ffi, lib, new_struct, pointer_of, string_of, taken_text
from .dtypes import DType
from .errors import check
from .runtime import Handle, OptionValue, Options, Profile, Runtime, Signal, all_options, default_runtime, make_options

Progress = Callable[[int, int, str], None]
"""Told how far a long call has come: done, total (0: not known), what it is doing."""


@dataclass(frozen=True)
class Quantization:
    scale: float
    zero_point: int


@dataclass(frozen=True)
class TensorInfo:
    """What is known of an input or output."""

    name: str
    dtype: DType
    shape: Tuple[Optional[int], ...]
    """None for an extent that is symbolic, or known only after a run."""
    dim_names: Tuple[str, ...]
    """Names of a model input's symbolic extents; empty where an extent has none."""
    quantization: Optional[Quantization]


def tensor_info(ask: Any, pointer: Any, index: int, dim_name: Any = None) -> TensorInfo:
    info = new_struct("qr_tensor_info")
    check(ask(pointer, index, info))
    names = []
    for axis in range(info.rank):
        name = ffi.new("qr_string *")
        if dim_name is not None:
            check(dim_name(pointer, index, axis, name))
        names.append(string_of(name))
    shape = tuple(None if info.dims[axis] < 0 else int(info.dims[axis]) for axis in range(info.rank))
    quantization = Quantization(info.scale, info.zero_point) if info.is_quantized else None
    return TensorInfo(string_of(info.name), DType(info.dtype), shape, tuple(names), quantization)


class CallOptions:
    """A qr_call_options. What the progress function raises comes out of raise_pending(), when the call has ended."""

    def __init__(self, signal: Optional[Signal], profile: Optional[Profile], progress: Optional[Progress]) -> None:
        self.c = new_struct("qr_call_options")
        self.c.signal, self.c.profile = pointer_of(signal), pointer_of(profile)
        self._raised: Optional[BaseException] = None
        self._kept = (signal, profile)
        if progress is not None:
            told = progress

            def report(_: Any, done: int, total: int, what: Any) -> None:
                if self._raised is None:
                    try:
                        told(done, total, string_of(what))
                    except BaseException as error:
                        self._raised = error
                        if signal is not None:
                            signal.abort()

            self._report = ffi.callback("void(void *, uint64_t, uint64_t, qr_string)", report)
            self._progress = new_struct("qr_progress")
            self._progress.report = self._report
            self.c.progress = self._progress

    def done(self, status: Any) -> None:
        if self._raised is not None:
            lib.qr_status_destroy(status)
            raise self._raised
        check(status)


class Model(Handle):
    """An opened .onnx or .qrm: immutable, for any number of threads and sessions.

    `source` is a path, or the bytes of a model. Options are keyword arguments (`container__map=False` for
    "container.map"), or a mapping by the library's own names. Pickles by its path, or by its bytes.
    """

    def __init__(self, source: Union[str, "os.PathLike[str]", bytes, bytearray, memoryview], *, runtime: Optional[Runtime] = None,
                 options: Optional[Options] = None, **keywords: OptionValue) -> None:
        self.runtime = runtime or default_runtime()
        self._options = all_options(options, keywords)
        c_options = make_options(self.runtime, self._options)
        out = ffi.new("qr_model **")
        if isinstance(source, (bytes, bytearray, memoryview)):
            self.path: Optional[str] = None
            # bytes do not change; anything else is copied once. The model's sessions hold them too.
            self._data = bytes(source)
            view = ffi.from_buffer(self._data)
            check(lib.qr_model_open_memory(self.runtime._ptr, view, len(self._data), c_options, out))
        else:
            self.path = os.path.abspath(os.fspath(source))
            path = Text(self.path)
            check(lib.qr_model_open_path(self.runtime._ptr, path.c, c_options, out))
            view = None
        self._view = view
        self._ptr = ffi.gc(out[0], lib.qr_model_destroy)

    def __reduce__(self) -> Tuple[Any, ...]:
        return _model_again, (self.path if self.path is not None else self._data, self.runtime, self._options)

    @property
    def inputs(self) -> List[TensorInfo]:
        return [tensor_info(lib.qr_model_input, self._ptr, i, lib.qr_model_input_dim_name) for i in range(lib.qr_model_input_count(self._ptr))]

    @property
    def outputs(self) -> List[TensorInfo]:
        return [tensor_info(lib.qr_model_output, self._ptr, i) for i in range(lib.qr_model_output_count(self._ptr))]

    def inspect(self) -> Any:
        """Everything the model says of itself (docs/formats/inspect.md)."""
        out = ffi.new("char **")
        check(lib.qr_model_inspect(self._ptr, out))
        return json.loads(taken_text(out))

    def verify(self) -> None:
        """Reads every byte of a .qrm and checks all sums."""
        check(lib.qr_model_verify(self._ptr))

    def compile(self, path: Union[str, "os.PathLike[str]"], *, signal: Optional[Signal] = None, profile: Optional[Profile] = None,
                progress: Optional[Progress] = None, options: Optional[Options] = None, **keywords: OptionValue) -> None:
        """Compiles into a .qrm, which appears whole or not at all."""
        target, call = Text(os.fspath(path)), CallOptions(signal, profile, progress)
        c_options = make_options(self.runtime, all_options(options, keywords))
        call.done(lib.qr_model_compile(self._ptr, c_options, target.c, call.c))

    def check(self, *, signal: Optional[Signal] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Any:
        """Asks a backend about every node and compiles nothing; see qr_model_check."""
        call, out = CallOptions(signal, None, None), ffi.new("char **")
        c_options = make_options(self.runtime, all_options(options, keywords))
        call.done(lib.qr_model_check(self._ptr, c_options, call.c, out))
        return json.loads(taken_text(out))

    def compatibility(self, *, options: Optional[Options] = None, **keywords: OptionValue) -> Tuple[str, str]:
        """How well a container fits a backend of this machine: "optimal", "usable", "recompile" or "incompatible", and why."""
        grade, out = ffi.new("qr_compatibility *"), ffi.new("char **")
        c_options = make_options(self.runtime, all_options(options, keywords))
        check(lib.qr_model_compatibility(self._ptr, c_options, grade, out))
        words = {lib.QR_COMPATIBILITY_OPTIMAL: "optimal", lib.QR_COMPATIBILITY_USABLE: "usable",
                 lib.QR_COMPATIBILITY_RECOMPILE: "recompile", lib.QR_COMPATIBILITY_INCOMPATIBLE: "incompatible"}
        return words.get(grade[0], str(grade[0])), taken_text(out)


def _model_again(source: Union[str, bytes], runtime: Runtime, options: Options) -> Model:
    return Model(source, runtime=runtime, options=options)
