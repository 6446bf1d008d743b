# SPDX-License-Identifier: Apache-2.0
"""Models: an opened .onnx or .qrm file."""

import errno
import json
import os
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Protocol, Sequence, Tuple, Union

from ._library import Text, ffi, lib, new_struct, pointer_of, string_of, taken_text
from .dtypes import DType
from .errors import EndOfFile, FileNotFound, NotAFile, PermissionDenied, WrongType, check, refused
from .interrupts import Watch, make
from .reports import Check, Compatibility
from .runtime import Handle, OptionValue, Options, Profile, Runtime, Signal, all_options, default_runtime, home_of_signals, make_options
from .tables import html_folded, html_table, html_title
from .targets import OpenTarget, Path, Target, descriptor, path_of

Progress = Callable[[int, int, str], Optional[bool]]
"""Called with how far a long call has come: done, total (0: not known), what it is doing. Where it gives False the call raises Cancelled; where it gives anything
else, or nothing, it goes on. What it raises stops the call and comes out of it."""


class Reader(Protocol):
    """A file or what is like one: seek and read. What has readinto too is read without a copy."""

    def seek(self, offset: int, whence: int = ..., /) -> Any: ...
    def read(self, size: int = ..., /) -> Any: ...


Source = Union[str, "os.PathLike[str]", "os.PathLike[bytes]", bytes, bytearray, memoryview, int, Reader]
External = Union[Mapping[str, Source], Callable[[str], Optional[Source]]]
"""External data of an .onnx by name: None, or no such key, for one that is not there."""


@dataclass(frozen=True)
class Quantization:
    """What a quantised value q means: (q - zero_point) * scale."""

    scale: float
    """Of the whole tensor; nan where `scales` hold."""
    zero_point: int
    kind: str = "tensor"
    """"tensor", "channel" or "block"."""
    scales: Tuple[float, ...] = ()
    """Per channel: one for each index of `axis`. Per block: laid out like the tensor, with `axis` divided by `block_size` and rounded up."""
    zero_points: Tuple[int, ...] = ()
    axis: int = 0
    block_size: int = 0


def _quantization(info: Any) -> Optional[Quantization]:
    if not info.is_quantized:
        return None
    kinds = {lib.QR_QUANTIZED_PER_TENSOR: "tensor", lib.QR_QUANTIZED_PER_CHANNEL: "channel", lib.QR_QUANTIZED_PER_BLOCK: "block"}
    scales = tuple(info.scales[0 : info.scale_count]) if info.scales else ()
    zero_points = tuple(info.zero_points[0 : info.scale_count]) if info.zero_points else ()
    return Quantization(info.scale, info.zero_point, kinds.get(info.is_quantized, str(info.is_quantized)), scales, zero_points, info.quantized_axis, info.block_size)


@dataclass(frozen=True, repr=False)
class TensorInfo:
    """What is known of an input or output. str() is "image f32 [1, 3, 224, 224]"."""

    name: str
    dtype: DType
    shape: Tuple[Optional[int], ...]
    """None for a dimension that is symbolic, or known only after a run."""
    dim_names: Tuple[str, ...]
    """Names of the symbolic dimensions of a model's inputs and outputs; empty where a dimension has none."""
    quantization: Optional[Quantization]

    def __str__(self) -> str:
        return f"{self.name} {told(self)}"

    def __repr__(self) -> str:
        return f"<quarry.TensorInfo {self}{_told_of(self.quantization)}>"


def told(info: TensorInfo) -> str:
    """Type and shape in words: "f32 [batch, 3, 224, 224]", with "?" for a dimension that has no name."""
    names = info.dim_names or ("",) * len(info.shape)
    return f"{info.dtype.name.lower()} [{', '.join(str(extent) if extent is not None else name or '?' for extent, name in zip(info.shape, names))}]"


def _told_of(quantization: Optional[Quantization]) -> str:
    if quantization is None:
        return ""
    if quantization.kind == "tensor":
        return f", scale {quantization.scale:g}, zero point {quantization.zero_point}"
    return f", {len(quantization.scales)} scales per {quantization.kind}"


def known_shape(info: TensorInfo) -> Optional[Tuple[int, ...]]:
    """None where a dimension is symbolic, or known only after a run."""
    found = tuple(extent for extent in info.shape if extent is not None)
    return found if len(found) == len(info.shape) else None


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
    return TensorInfo(string_of(info.name), DType(info.dtype), shape, tuple(names), _quantization(info))


class CallOptions(Watch):
    """A qr_call_options, for call(). What the progress function raises stops the call and comes out of it."""

    __slots__ = ("options", "_kept")

    def __init__(self, runtime: Runtime, signal: Optional[Signal] = None, profile: Optional[Profile] = None, progress: Optional[Progress] = None) -> None:
        super().__init__(home_of_signals(runtime), signal)
        self.options = new_struct("qr_call_options")
        self.options.signal, self.options.profile = self.c, pointer_of(profile)
        self._kept: Tuple[Any, ...] = (profile,)
        if progress is not None:
            told = progress

            stop, go_on = int(lib.QR_STOP), int(lib.QR_GO_ON)

            def report(_: Any, done: int, total: int, what: Any) -> int:
                return stop if self.error is not None or told(done, total, string_of(what)) is False else go_on

            c_report = ffi.callback("int32_t(void *, uint64_t, uint64_t, qr_string)", report, error=stop, onerror=self.keep)
            c_progress = new_struct("qr_progress")
            c_progress.report = c_report
            self.options.progress = c_progress
            self._kept = (profile, c_report, c_progress)


class OpenSource:
    """A qr_model_source, with what it points to; `close` after the call."""

    def __init__(self, source: Source, call: Watch, folder: Union[Path, int, None] = None, external: Optional[External] = None) -> None:
        self.path: Optional[str] = None
        self.data: Optional[bytes] = None
        self.view: Any = None
        self.c = new_struct("qr_model_source")
        self.c.fd = self.c.folder_fd = -1
        self._opened = -1
        self.external: List["OpenSource"] = []
        if isinstance(source, (bytes, bytearray, memoryview)):
            if isinstance(source, bytes) and len(source) < 4096 and b"\0" not in source and os.path.exists(source):
                raise refused(f"a model: found bytes that are the name of a file, {source!r}, expected those of a model", "os.fsdecode(name) is the file's path", WrongType)
            # bytes do not change; anything else is copied once. The model's sessions hold them too.
            self.data = bytes(source)
            self.view = ffi.from_buffer(self.data)
            self.c.kind, self.c.data, self.c.size_bytes = lib.QR_SOURCE_MEMORY, self.view, len(self.data)
        elif isinstance(source, int):
            self.c.kind, self.c.fd = lib.QR_SOURCE_DESCRIPTOR, descriptor(source)
        elif not isinstance(source, (str, os.PathLike)) and hasattr(source, "seek"):
            self._kept = _reader(source, call)
            self.c.kind, self.c.read, self.c.size_bytes = lib.QR_SOURCE_READER, self._kept, _size_of(source)
        else:
            self.path = os.path.abspath(path_of(source, "a model", "a path, bytes, a descriptor, or what has seek and read"))
            text = self._kept = Text(self.path)
            self.c.kind, self.c.path = lib.QR_SOURCE_PATH, text.c
        if isinstance(folder, int):
            self.c.folder_fd = descriptor(folder)
        elif folder is not None and os.name == "nt":
            external = _below(path_of(folder, "folder", "a path")) if external is None else external
        elif folder is not None:
            self._opened = self.c.folder_fd = _open_folder(path_of(folder, "folder", "a path or a descriptor"))

        if external is not None:
            self._finds = self.c.external = self._finder(external, call)

    def _finder(self, external: External, call: Watch) -> Any:
        ask = external.get if isinstance(external, Mapping) else external

        def find(_: Any, name: Any, out: Any) -> int:
            found = ask(string_of(name))
            if found is None:
                return errno.ENOENT
            self.external.append(OpenSource(found, call))
            out[0] = self.external[-1].c[0]
            return 0

        return ffi.callback("int32_t(void *, qr_string, qr_model_source *)", find, error=errno.EIO, onerror=call.stop)

    def close(self) -> None:
        if self._opened >= 0:
            os.close(self._opened)
            self._opened = -1


def _below(folder: str) -> External:
    """What _open_folder is elsewhere: Windows has no descriptors of folders."""
    if not os.path.isdir(folder):
        raise refused(f"folder '{seen(folder)}': there is no such folder", "name the folder of the external data", FileNotFound)

    def find(name: str) -> Optional[str]:
        parts = name.replace("\\", "/").split("/")
        if ":" in name or "" in parts or ".." in parts:
            raise refused(f"external data '{seen(name)}': found a name that leads out of the folder '{seen(folder)}', expected one in or below it")
        path = os.path.join(folder, *parts)
        return path if os.path.exists(path) else None

    return find


def _open_folder(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        kind = FileNotFound if isinstance(error, FileNotFoundError) else PermissionDenied if isinstance(error, PermissionError) else NotAFile
        raise refused(f"folder '{seen(path)}': {getattr(error, 'strerror', error)}", "name the folder of the external data", kind) from None


def _size_of(source: Any) -> int:
    end = source.seek(0, os.SEEK_END)
    return int(source.tell() if end is None else end)


def _reader(source: Any, call: Watch) -> Any:
    """The function of a qr_model_source. What `source` raises ends the call and comes out of it."""
    readinto = getattr(source, "readinto", None)

    def read(_: Any, offset: int, to: Any, size: int) -> int:
        place, filled = memoryview(ffi.buffer(to, size)), 0
        source.seek(offset)
        while filled < size:
            if readinto is not None:
                count = readinto(place[filled:])
            else:
                part = source.read(size - filled)
                if isinstance(part, str):
                    raise refused(f"a model's reader gave a str, expected bytes: open the file in binary mode, \"rb\"", kind=WrongType)
                count = len(part)
                place[filled : filled + count] = part
            if not count:
                raise refused(f"a model's reader ends at byte {offset + filled}: expected {size - filled} bytes more", kind=EndOfFile)
            filled += count
        return 0

    return ffi.callback("int32_t(void *, uint64_t, void *, uint64_t)", read, error=errno.EIO, onerror=call.stop)


class Model(Handle):
    """An opened .onnx or .qrm: immutable, for any number of threads and sessions.

    `source` is a path, the bytes of a model, the descriptor of a file, or a file (what has seek and read). `folder` is where the external data
    of an .onnx are, as a path or a descriptor, if not beside it; `external` has them by name instead, or is asked for them: each like a model's
    source. Options are keyword arguments (`container__map=False` for "container.map"), or
    a mapping by the library's own names. Pickles by its path, or by its bytes.
    """

    def __init__(self, source: Source, *, runtime: Optional[Runtime] = None, signal: Optional[Signal] = None,
                 folder: Union[Path, int, None] = None, external: Optional[External] = None, options: Optional[Options] = None,
                 **keywords: OptionValue) -> None:
        self.runtime = runtime or default_runtime()
        self._options = all_options(options, keywords)
        c_options = make_options(self.runtime, self._options)
        call = CallOptions(self.runtime, signal)
        opened = OpenSource(source, call, folder, external)
        self.path, self._data, self._folder, self._external = opened.path, opened.data, folder, external
        try:
            self._ptr = make("qr_model", lib.qr_model_destroy, call, lib.qr_model_open, self.runtime._ptr, opened.c, c_options, call.options)
        finally:
            opened.close()
        self._view = (opened.view, [one.view for one in opened.external])  # what the library reads where it lies

    def __repr__(self) -> str:
        if not self._ptr:
            return f"<quarry.Model {name_of(self)}, closed>"
        return f"<quarry.Model {name_of(self)}: {signature(self.inputs, self.outputs)}>"

    def _repr_html_(self) -> str:
        if not self._ptr:
            return html_title(repr(self))
        said = self.inspect()
        graph: Dict[str, Any] = said.get("onnx") or next((one for one in said.get("graphs", []) if "operators" in one), {})
        operators = sorted(graph.get("operators", {}).items(), key=lambda pair: (-pair[1], pair[0]))
        table = html_table(("operator", "nodes"), operators)
        return html_title(f"Model {name_of(self)}") + html_tensors(self.inputs, self.outputs) + (
            html_folded(f"{sum(count for _, count in operators)} nodes", table) if operators else "")

    def __reduce__(self) -> Tuple[Any, ...]:
        source = self.path if self.path is not None else self._data
        if source is None or isinstance(self._folder, int) or self._external is not None:
            raise refused("a model of a descriptor or a file cannot be pickled: open it by its path or from its bytes", kind=WrongType)
        return _model_again, (source, self.runtime, self._options, self._folder)

    @property
    def inputs(self) -> List[TensorInfo]:
        return [tensor_info(lib.qr_model_input, self._ptr, i, lib.qr_model_input_dim_name) for i in range(lib.qr_model_input_count(self._ptr))]

    @property
    def outputs(self) -> List[TensorInfo]:
        return [tensor_info(lib.qr_model_output, self._ptr, i, lib.qr_model_output_dim_name) for i in range(lib.qr_model_output_count(self._ptr))]

    @property
    def properties(self) -> Dict[str, str]:
        """What the model carries as keys and values: ONNX's metadata_props, "metadata.<key>" of a container."""
        key, value, found = ffi.new("qr_string *"), ffi.new("qr_string *"), {}
        for index in range(lib.qr_model_property_count(self._ptr)):
            check(lib.qr_model_property(self._ptr, index, key, value))
            found[string_of(key[0])] = string_of(value[0])
        return found

    def inspect(self, *, signal: Optional[Signal] = None) -> Dict[str, Any]:
        """Everything the model says of itself (docs/formats/inspect.md)."""
        call, out = CallOptions(self.runtime, signal), ffi.new("char **")
        call.call(lib.qr_model_inspect, self._ptr, call.options, out)
        found: Dict[str, Any] = json.loads(taken_text(out))
        return found

    def verify(self, *, signal: Optional[Signal] = None) -> None:
        """Reads every byte of a .qrm and checks all sums."""
        call = CallOptions(self.runtime, signal)
        call.call(lib.qr_model_verify, self._ptr, call.options)

    def compile(self, target: Target = None, *, name: Optional[str] = None, signal: Optional[Signal] = None, profile: Optional[Profile] = None,
                progress: Optional[Progress] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Optional[bytes]:
        """Compiles into a .qrm: a path, a descriptor, what has write(), or None for bytes that this gives back. A name (of the path, or `name`) that
        ends in .onnx: what ONNX Runtime loads."""
        return self._write(lib.qr_model_compile, target, name, CallOptions(self.runtime, signal, profile, progress), all_options(options, keywords))

    def export(self, target: Target = None, *, name: Optional[str] = None, signal: Optional[Signal] = None, profile: Optional[Profile] = None,
               progress: Optional[Progress] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Optional[bytes]:
        """Writes the graph after the passes that all backends share: as .onnx, .onnx.data or .json, as the name says; see qr_model_export."""
        return self._write(lib.qr_model_export, target, name, CallOptions(self.runtime, signal, profile, progress), all_options(options, keywords))

    def _write(self, function: Any, target: Target, name: Optional[str], call: CallOptions, options: Options) -> Optional[bytes]:
        opened, c_options = OpenTarget(target, name, call), make_options(self.runtime, options)
        call.call(function, self._ptr, c_options, opened.c, call.options)
        return opened.made()

    def check(self, *, signal: Optional[Signal] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Check:
        """Asks a backend about every node and compiles nothing; see qr_model_check."""
        call, out = CallOptions(self.runtime, signal), ffi.new("char **")
        c_options = make_options(self.runtime, all_options(options, keywords))
        call.call(lib.qr_model_check, self._ptr, c_options, call.options, out)
        found: Check = json.loads(taken_text(out))
        return found

    def compatibility(self, *, signal: Optional[Signal] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Compatibility:
        """How well a container fits a backend of this machine: "optimal", "usable", "recompile" or "incompatible", and why."""
        grade, out, call = ffi.new("qr_compatibility *"), ffi.new("char **"), CallOptions(self.runtime, signal)
        c_options = make_options(self.runtime, all_options(options, keywords))
        call.call(lib.qr_model_compatibility, self._ptr, c_options, call.options, grade, out)
        words = {lib.QR_COMPATIBILITY_OPTIMAL: "optimal", lib.QR_COMPATIBILITY_USABLE: "usable",
                 lib.QR_COMPATIBILITY_RECOMPILE: "recompile", lib.QR_COMPATIBILITY_INCOMPATIBLE: "incompatible"}
        return Compatibility(words.get(grade[0], str(grade[0])), taken_text(out))


def seen(path: str) -> str:
    """A path to be read: bytes that are no UTF-8 become \\xe9 and the like, as no terminal takes what stands for them."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def name_of(model: Model) -> str:
    """What a person calls it: the file's name, or what it was given as."""
    return seen(os.path.basename(model.path)) if model.path is not None else "bytes" if model._data is not None else "a file object"


def signature(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> str:
    """"image f32 [1, 1, 8, 8] -> scores f32 [1, 10]"; of many tensors the first ones."""
    def few(infos: Sequence[TensorInfo]) -> str:
        return ", ".join(map(str, infos[:4])) + (f", {len(infos) - 4} more" if len(infos) > 4 else "")

    return f"{few(inputs)} -> {few(outputs)}"


def html_tensors(inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> str:
    rows = [(kind, info.name, *told(info).split(" ", 1), _told_of(info.quantization).lstrip(", "))
            for kind, infos in (("input", inputs), ("output", outputs)) for info in infos]
    return html_table(("", "name", "type", "shape", "quantised"), rows)


def _model_again(source: Union[str, bytes], runtime: Runtime, options: Options, folder: Optional[Path] = None) -> Model:
    return Model(source, runtime=runtime, folder=folder, options=options)
