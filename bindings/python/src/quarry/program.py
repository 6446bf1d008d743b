# SPDX-License-Identifier: Apache-2.0
"""What the program's commands do, as functions: quarry.compile, quarry.check, quarry.bench (and quarry.quantize, which has a file of its own).

    quarry.compile("model.onnx", "model.qrm", backend="cpu")
    quarry.check("model.onnx", backend="htp")["refused"]
    print(quarry.bench("model.onnx", threads=2))
"""

import math
import os
import sys
import time
from dataclasses import dataclass
from typing import Any, List, Optional, Union

import numpy as np

from .dtypes import PACKED, TO_NUMPY, DType
from .errors import refused
from .model import Model, Progress, Source, TensorInfo, known_shape, name_of, seen
from .reports import Check
from .runtime import OptionValue, Options, Runtime, Signal, all_options
from .session import Inputs, Session
from .targets import Target


def _opened(model: Union[Model, Source], runtime: Optional[Runtime], signal: Optional[Signal], options: Options) -> Model:
    return model if isinstance(model, Model) else Model(model, runtime=runtime, signal=signal, options=options)


def _is_same_file(one: Any, other: Any) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):  # one of them is not there: the library says so, of the model
        return False


def compile(model: Union[Model, Source], target: Target = None, *, name: Optional[str] = None, runtime: Optional[Runtime] = None,
            signal: Optional[Signal] = None, progress: Optional[Progress] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Optional[bytes]:
    """`quarry compile`: a model into a .qrm, for the backend that the options name. Without a target the container is given back."""
    given = all_options(options, keywords)
    if isinstance(target, (str, bytes, os.PathLike)) and isinstance(model, (str, os.PathLike)) and _is_same_file(model, target):
        if not os.fsdecode(model).endswith(".qrm"):  # a container is read and then written again
            raise refused(f"compile: found '{seen(os.fsdecode(target))}' as model and target: expected another name, which compiling would overwrite")
    return _opened(model, runtime, signal, given).compile(target, name=name, signal=signal, progress=progress, options=given)


def check(model: Union[Model, Source], *, runtime: Optional[Runtime] = None, signal: Optional[Signal] = None, options: Optional[Options] = None,
          **keywords: OptionValue) -> Check:
    """`quarry check`: what a backend says of every node; nothing is compiled."""
    given = all_options(options, keywords)
    return _opened(model, runtime, signal, given).check(signal=signal, options=given)


@dataclass(frozen=True)
class Bench:
    """What runs take, in ms; the names are those of `quarry bench --json`."""

    model: str
    backend: str
    threads: int
    create_ms: float
    """To open the model and make the session."""
    first_ms: float
    runs: int
    min_ms: float
    median_ms: float
    p90_ms: float
    p99_ms: float
    runs_per_s: float
    times_ms: List[float]
    """Of each run, in order of time taken."""

    def __repr__(self) -> str:
        return (f"{self.model} on {self.backend}, {self.threads} thread{'' if self.threads == 1 else 's'}: {self.runs} runs, median {self.median_ms:.3f} ms, "
                f"p90 {self.p90_ms:.3f}, p99 {self.p99_ms:.3f}, least {self.min_ms:.3f}; created in {self.create_ms:.1f} ms, first run {self.first_ms:.3f} ms")


def made_input(info: TensorInfo) -> Any:
    """Values for an input that nobody gave: drawn between -1 and 1 for floats, 0 or 1 for others; the same in every process.

    Zeros for what is smaller than 8 bits, for powers of two alone (f8e8m0), and for floats that numpy has not where there is no ml_dtypes."""
    shape = known_shape(info)
    if shape is None:
        raise refused(f"input '{info.name}': found the shape {info.shape}, expected one without None", "bind it: shape={'" + info.name + "': (1, 3, 224, 224)}")
    random, kind = np.random.RandomState(42), TO_NUMPY[info.dtype]
    is_float = info.dtype.name.startswith(("F", "BF"))
    if info.dtype in PACKED or info.dtype == DType.F8E8M0 or (is_float and kind.kind == "u"):
        return np.zeros(shape, np.uint8).astype(kind)
    if is_float:
        return random.uniform(-1, 1, shape).astype(kind)
    return random.randint(0, 2, shape).astype(kind)


def bench(model: Union[Model, Source, Session], inputs: Optional[Inputs] = None, *, iterations: int = 0, duration: float = 0.0, warmup: int = 1,
          runtime: Optional[Runtime] = None, signal: Optional[Signal] = None, options: Optional[Options] = None, **keywords: OptionValue) -> Bench:
    """`quarry bench`: measures a model's runs, on made-up values where no inputs are given.

    iterations: so many runs; duration: seconds of them (without both: 2 seconds). warmup: untimed runs behind the first.
    """
    if iterations < 0 or warmup < 0 or not duration >= 0:
        raise refused(f"bench: found iterations={iterations}, duration={duration}, warmup={warmup}, expected none below 0")
    begin = time.perf_counter()
    given = all_options(options, keywords)
    if isinstance(model, Session):
        if given:
            raise refused(f"bench: found the options {sorted(given)} for a session, which has its own: expected a model, or none")
        session = model
    else:
        session = Session(_opened(model, runtime, signal, given), signal=signal, options=given)
    create_ms = (time.perf_counter() - begin) * 1000
    values: Inputs = [made_input(info) for info in session.inputs] if inputs is None else inputs
    first_ms = _run_ms(session, values, signal)
    for _ in range(warmup):
        session.run(values, signal=signal)
    limit = duration if duration > 0 else math.inf if iterations else 2.0
    times: List[float] = []
    start = time.perf_counter()
    while not times or (len(times) < (iterations or sys.maxsize) and time.perf_counter() - start < limit):
        times.append(_run_ms(session, values, signal))
    whole = time.perf_counter() - start
    times.sort()
    report = session.report()

    def part(of: float) -> float:
        return times[min(max(math.ceil(of * len(times)), 1), len(times)) - 1]

    return Bench(name_of(session.model), report["backend"], int(report["threads"]), create_ms, first_ms, len(times), times[0], part(0.5), part(0.9), part(0.99),
                 len(times) / whole, times)


def _run_ms(session: Session, values: Inputs, signal: Optional[Signal]) -> float:
    begin = time.perf_counter()
    session.run(values, signal=signal)
    return (time.perf_counter() - begin) * 1000
