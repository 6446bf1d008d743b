# SPDX-License-Identifier: Apache-2.0
"""A float ONNX model and samples of its inputs to a QDQ model (docs/quantize.md), with libquarry-quantize, which lies beside libquarry.

    report = quarry.quantize("model.onnx", samples, "model.qdq.onnx", activations="u16")
"""

import json
import os
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._library import Text, ffi, library_path, new_struct, string_of, taken_text
from .errors import check
from .model import CallOptions, Progress, TensorInfo, tensor_info
from .runtime import Handle, OptionInfo, Runtime, Signal, default_runtime
from .tensors import ArrayLike, Tensors

SONAME = "libquarry-quantize.so.0"
Sample = Union[ArrayLike, Sequence[ArrayLike], Mapping[str, ArrayLike]]
"""One array for a model of one input, several in the model's order, or a mapping by name."""

_opened: List[Any] = []


def _library() -> Any:
    """Opened when it is first wanted: QUARRY_QUANTIZE_LIBRARY, what lies beside libquarry, else what the system's loader finds."""
    if not _opened:
        beside = os.path.join(os.path.dirname(library_path()), SONAME)
        path = os.environ.get("QUARRY_QUANTIZE_LIBRARY") or (beside if os.path.exists(beside) else SONAME)
        try:
            _opened.append(ffi.dlopen(path))
        except OSError as error:
            raise ImportError(f"quarry: cannot open '{path}': {error}. Set QUARRY_QUANTIZE_LIBRARY to the file of an installed {SONAME}") from None
    return _opened[0]


def quantize_options() -> List[OptionInfo]:
    """Every option of a quantisation."""
    lib, out = _library(), []
    for index in range(lib.qr_quantize_option_count()):
        row = new_struct("qr_quantize_option")
        check(lib.qr_quantize_option_at(index, row))
        out.append(OptionInfo(string_of(row.key), string_of(row.values), string_of(row.default_value), "quantize", string_of(row.help), False))
    return out


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    return str(value)


class Quantizer(Handle):
    """A float model that samples are shown to. One call at a time."""

    def __init__(self, model: Union[str, "os.PathLike[str]"], *, runtime: Optional[Runtime] = None, **options: Any) -> None:
        """options: those of `quantize_options()`; lists become texts with commas."""
        lib = _library()
        self._runtime = runtime if runtime is not None else default_runtime()
        out, path = ffi.new("qr_quantizer **"), Text(os.fspath(model))
        check(lib.qr_quantizer_open(self._runtime._ptr, path.c, out))
        self._ptr = ffi.gc(out[0], lib.qr_quantizer_destroy)
        self._tensors: Optional[Tensors] = None
        for key, value in options.items():
            name, text = Text(key), Text(_text_of(value))
            check(lib.qr_quantizer_set(self._ptr, name.c, text.c))

    @property
    def inputs(self) -> List[TensorInfo]:
        """What a sample has, with all extents known; from the first time on options are fixed."""
        lib, count = _library(), ffi.new("uint64_t *")
        check(lib.qr_quantizer_input_count(self._ptr, count))
        return [tensor_info(lib.qr_quantizer_input, self._ptr, index) for index in range(count[0])]

    def add(self, sample: Sample, *, signal: Optional[Signal] = None) -> None:
        """Shows the model one sample."""
        if self._tensors is None:
            self._tensors = Tensors(self.inputs, "qr_tensor *[]")
        tensors = self._tensors
        names = [info.name for info in tensors.infos]
        if isinstance(sample, Mapping):
            if set(sample) != set(names):
                raise ValueError(f"a sample: found the inputs {sorted(sample)}, expected {sorted(names)}")
            values = [sample[name] for name in names]
        elif isinstance(sample, (list, tuple)):
            values = list(sample)
        else:
            values = [sample]
        if len(values) != len(names):
            raise ValueError(f"a sample: found {len(values)} arrays, expected {len(names)}, one for each input")
        for index, value in enumerate(values):
            tensors.set_input(index, value)
        call = CallOptions(signal, None, None)
        call.done(_library().qr_quantizer_add_sample(self._ptr, tensors.pointers, tensors.count, call.c))

    @property
    def samples(self) -> int:
        """How many samples the model was shown, those of a calibration that was taken up included."""
        count = ffi.new("uint64_t *")
        check(_library().qr_quantizer_sample_count(self._ptr, count))
        return int(count[0])

    def save(self, path: Union[str, "os.PathLike[str]"], note: str = "") -> None:
        """Writes all that is known of the samples so far to a file, from which another process can go on."""
        file, text = Text(os.fspath(path)), Text(note)
        check(_library().qr_quantizer_save(self._ptr, file.c, text.c))

    def restore(self, path: Union[str, "os.PathLike[str]"], *, signal: Optional[Signal] = None) -> str:
        """Takes up what `save` wrote, before the first sample, and gives its note."""
        call, file, out = CallOptions(signal, None, None), Text(os.fspath(path)), ffi.new("char **")
        call.done(_library().qr_quantizer_restore(self._ptr, file.c, call.c, out))
        return taken_text(out)

    def write(self, path: Union[str, "os.PathLike[str]"], *, signal: Optional[Signal] = None, progress: Optional[Progress] = None) -> Dict[str, Any]:
        """Makes the quantised model of what was seen, writes it whole, and gives the report."""
        call, file = CallOptions(signal, None, progress), Text(os.fspath(path))
        call.done(_library().qr_quantizer_write(self._ptr, file.c, call.c))
        report: Dict[str, Any] = json.loads(self._report("json"))
        return report

    def report_html(self) -> str:
        """The report of the last write as a page that needs nothing else."""
        return self._report("html")

    def _report(self, kind: str) -> str:
        out, format_name = ffi.new("char **"), Text(kind)
        check(_library().qr_quantizer_report(self._ptr, format_name.c, out))
        return taken_text(out)


def quantize(model: Union[str, "os.PathLike[str]"], samples: Iterable[Sample], output: Union[str, "os.PathLike[str]"], *, runtime: Optional[Runtime] = None,
             signal: Optional[Signal] = None, progress: Optional[Progress] = None, resume: Union[str, "os.PathLike[str]", None] = None, **options: Any) -> Dict[str, Any]:
    """Quantises a float ONNX model by samples of its inputs, which may be a generator: they are read one at a time. Gives the report.

    resume: a file that keeps what the samples have told, every 20 seconds and when something stops it. Where it is there, as many samples as it knows are
    passed over: give the same ones in the same order. Removed when the model is written."""
    with Quantizer(model, runtime=runtime, **options) as quantizer:
        if resume is not None and os.path.exists(resume):
            quantizer.restore(resume, signal=signal)
        known, written = quantizer.samples, time.monotonic()
        try:
            for index, sample in enumerate(samples):
                if index < known:
                    continue
                quantizer.add(sample, signal=signal)
                if resume is not None and time.monotonic() - written >= 20:
                    quantizer.save(resume)
                    written = time.monotonic()
        except BaseException:
            if resume is not None and quantizer.samples > known:
                quantizer.save(resume)
            raise
        report = quantizer.write(output, signal=signal, progress=progress)
    if resume is not None and os.path.exists(resume):
        os.remove(resume)
    return report
