#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run costs in Python beyond the same call in C: bench.py [--limit MICROSECONDS]

The same session runs by Session.run, and by the C function alone with everything prepared. The difference of the medians is the
binding's; --limit fails where it is more. The model is the smallest there is, so that nothing hides it.
"""
import argparse
import statistics
import sys
import time

import numpy as np

import quarry
from quarry._library import NULL, ffi, lib


def tiny_model() -> bytes:
    """An ONNX model of one Identity of 1x4 floats, written by hand: field numbers of onnx.proto."""
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    def value(name: bytes) -> bytes:
        dims = b"".join(field(1, bytes([1 << 3, extent])) for extent in (1, 4))
        return field(1, name) + field(2, field(1, bytes([1 << 3, 1]) + field(2, dims)))

    node = field(1, b"x") + field(2, b"y") + field(4, b"Relu")
    graph = field(1, node) + field(2, b"g") + field(11, value(b"x")) + field(12, value(b"y"))
    return bytes([1 << 3, 8]) + field(7, graph) + field(8, bytes([2 << 3, 17]))


def median_us(call, rounds: int = 200, inner: int = 100) -> float:  # type: ignore[no-untyped-def]
    times = []
    for _ in range(rounds):
        begin = time.perf_counter_ns()
        for _ in range(inner):
            call()
        times.append((time.perf_counter_ns() - begin) / inner / 1000)
    return statistics.median(times)


def empty_loop_us() -> float:
    return median_us(lambda: None)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--limit", type=float)
    limit = parser.parse_args().limit
    session = quarry.Session(tiny_model(), threads=1)
    array = np.array([[1, -2, 3, -4]], np.float32)
    assert (session.run(array)[0] == [[1, 0, 3, 0]]).all()

    run, pointer = lib.qr_session_run, session._ptr
    inputs, outputs = session._in.pointers, session._out.pointers
    kept = session.run(array)

    def in_c() -> None:
        run(pointer, NULL, inputs, 1, outputs, 1)

    best = None
    for _ in range(5):  # another program may have had the processor
        through_cffi, python = median_us(in_c), median_us(lambda: session.run(array))
        cffi_call = median_us(lambda: lib.qr_dtype_bits(1)) - empty_loop_us()
        overhead = python - through_cffi + cffi_call
        best = overhead if best is None else min(best, overhead)
    assert best is not None and kept
    print(f"Session.run: {python:.2f} us; the C call through cffi: {through_cffi:.2f} us, of which cffi {cffi_call:.2f} us; over the C ABI: {best:.2f} us")
    if limit is not None and best > limit:
        print(f"FAILED: {best:.2f} us over the C ABI, expected at most {limit} us", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
