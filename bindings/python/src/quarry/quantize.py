# SPDX-License-Identifier: Apache-2.0
"""A float ONNX model and samples of its inputs to a QDQ model (docs/quantize.md), with libquarry-quantize, which lies beside libquarry.

    report = quarry.quantize("model.onnx", samples, "model.qdq.onnx", activations="u16")
"""

import json
import os
import time
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Union

from ._library import Text, ffi, new_struct, string_of, taken_text
from .beside import library
from .errors import WrongType, check, refused
from .interrupts import make
from .model import CallOptions, External, OpenSource, Progress, Source, TensorInfo, tensor_info
from .runtime import Handle, OptionInfo, Runtime, Signal, default_runtime
from .targets import OpenTarget, Path, Target
from .tensors import ArrayLike, Tensors

Sample = Union[ArrayLike, Sequence[ArrayLike], Mapping[str, ArrayLike]]
"""One array for a model of one input, several in the model's order, or a mapping by name."""

def _library() -> Any:
    return library("quantize")


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
    if isinstance(value, (os.PathLike, bytes)):  # a name of any bytes
        return os.fsdecode(value)
    return str(value)


class Quantizer(Handle):
    """A float model that samples are shown to. One call at a time."""

    def __init__(self, model: Source, *, runtime: Optional[Runtime] = None, folder: Union[Path, int, None] = None,
                 external: Optional[External] = None, signal: Optional[Signal] = None, **options: Any) -> None:
        """model, folder and external: as of a Model; signal: of the opening. options: those of `quantize_options()`; lists become texts with commas."""
        lib = _library()
        self._runtime = runtime if runtime is not None else default_runtime()
        call = CallOptions(self._runtime, signal)
        self._source = OpenSource(model, call, folder, external)  # the library reads memory where it lies
        try:
            self._ptr = make("qr_quantizer", lib.qr_quantizer_destroy, call, lib.qr_quantizer_open, self._runtime._ptr, self._source.c, call.options)
        finally:
            self._source.close()
        self._tensors: Optional[Tensors] = None
        for key, value in options.items():
            name, text = Text(key), Text(_text_of(value))
            check(lib.qr_quantizer_set(self._ptr, name.c, text.c))

    @property
    def inputs(self) -> List[TensorInfo]:
        """What a sample has, with all dimensions known; from the first time on options are fixed."""
        return self._inputs(None)

    def _inputs(self, signal: Optional[Signal]) -> List[TensorInfo]:
        lib, count, call = _library(), ffi.new("uint64_t *"), CallOptions(self._runtime, signal)
        call.call(lib.qr_quantizer_input_count, self._ptr, call.options, count)
        return [tensor_info(lib.qr_quantizer_input, self._ptr, index) for index in range(count[0])]

    def __repr__(self) -> str:
        return f"<quarry.Quantizer, {self.samples} samples>" if self._ptr else "<quarry.Quantizer, closed>"

    def add(self, sample: Sample, *, signal: Optional[Signal] = None, progress: Optional[Progress] = None) -> None:
        """Shows the model one sample."""
        if self._tensors is None:
            self._tensors = Tensors(self._inputs(signal), "qr_tensor *[]")
        tensors = self._tensors
        names = [info.name for info in tensors.infos]
        if isinstance(sample, Mapping):
            if set(sample) != set(names):
                raise refused(f"a sample: found the inputs {sorted(sample)}, expected {sorted(names)}")
            values = [sample[name] for name in names]
        elif isinstance(sample, (list, tuple)):
            values = list(sample)
        else:
            values = [sample]
        if len(values) != len(names):
            raise refused(f"a sample: found {len(values)} arrays, expected {len(names)}, one for each input")
        for index, value in enumerate(values):
            tensors.set_input(index, value)
        call = CallOptions(self._runtime, signal, None, progress)
        call.call(_library().qr_quantizer_add_sample, self._ptr, tensors.pointers, tensors.count, call.options)

    @property
    def samples(self) -> int:
        """How many samples the model was shown, those of a calibration that was taken up included."""
        count = ffi.new("uint64_t *")
        check(_library().qr_quantizer_sample_count(self._ptr, count))
        return int(count[0])

    def save(self, target: Target = None, note: str = "", *, signal: Optional[Signal] = None) -> Optional[bytes]:
        """Writes all that is known of the samples so far, from which another process can go on: to a path, a descriptor, what has write(), or into
        bytes that this gives back."""
        call, text = CallOptions(self._runtime, signal), Text(note)
        opened = OpenTarget(target, None, call)
        call.call(_library().qr_quantizer_save, self._ptr, opened.c, text.c, call.options)
        return opened.made()

    def restore(self, source: Source, *, signal: Optional[Signal] = None) -> str:
        """Takes up what `save` wrote, before the first sample, and gives its note."""
        call, out = CallOptions(self._runtime, signal), ffi.new("char **")
        opened = OpenSource(source, call)
        call.call(_library().qr_quantizer_restore, self._ptr, opened.c, call.options, out)
        return taken_text(out)

    def write(self, target: Target, *, name: Optional[str] = None, signal: Optional[Signal] = None, progress: Optional[Progress] = None) -> Dict[str, Any]:
        """Makes the quantised model of what was seen, writes it whole to a path, a descriptor or what has write(), and gives the report."""
        if target is None:
            raise refused("write: found None, expected a target: write_bytes gives the model back", kind=WrongType)
        self._write(target, name, signal, progress)
        return self.report()

    def write_bytes(self, *, signal: Optional[Signal] = None, progress: Optional[Progress] = None) -> bytes:
        """As write, and gives the model; report() has what was found."""
        return self._write(None, None, signal, progress) or b""

    def _write(self, target: Target, name: Optional[str], signal: Optional[Signal], progress: Optional[Progress]) -> Optional[bytes]:
        call = CallOptions(self._runtime, signal, None, progress)
        opened = OpenTarget(target, name, call)
        call.call(_library().qr_quantizer_write, self._ptr, opened.c, call.options)
        return opened.made()

    def report(self) -> Dict[str, Any]:
        """What the last write found and did (docs/quantize.md)."""
        found: Dict[str, Any] = json.loads(self._report("json"))
        return found

    def report_html(self) -> str:
        """The report of the last write as a page that needs nothing else."""
        return self._report("html")

    def _report(self, kind: str) -> str:
        call, format_name = CallOptions(self._runtime), Text(kind)
        opened = OpenTarget(None, None, call)
        call.call(_library().qr_quantizer_report, self._ptr, format_name.c, opened.c, call.options)
        return opened.text()


def _add_samples(quantizer: Quantizer, samples: Iterable[Sample], resume: Optional[Path], signal: Optional[Signal]) -> None:
    """Those that the quantizer does not know yet, kept in `resume` every 20 seconds and when something stops it."""
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


def quantize(model: Source, samples: Iterable[Sample], output: Target, *, runtime: Optional[Runtime] = None,
             signal: Optional[Signal] = None, progress: Optional[Progress] = None, resume: Optional[Path] = None, **options: Any) -> Dict[str, Any]:
    """Quantises a float ONNX model by samples of its inputs, which may be a generator: they are read one at a time. Gives the report.

    resume: a file that keeps what the samples gave, every 20 seconds and when something stops it. Where it is there, as many samples as it knows are
    passed over: give the same ones in the same order. Removed when the model is written. signal: its timeout is of all of it."""
    if signal is not None:
        signal = signal.derive()
    with Quantizer(model, runtime=runtime, **options) as quantizer:
        if resume is not None and os.path.exists(resume):
            quantizer.restore(resume, signal=signal)
        _add_samples(quantizer, samples, resume, signal)
        report = quantizer.write(output, signal=signal, progress=progress)
    if resume is not None and os.path.exists(resume):
        os.remove(resume)
    return report
