# SPDX-License-Identifier: Apache-2.0
"""Where calls write, and external data that come by name."""
import io
import json
import os
import pickle

import numpy as np
import pytest
from conftest import DESCRIPTORS, unix_alone
from test_interrupts import LATEST, took

import quarry


class Files(dict):
    """Several files, and how it ended."""

    def __init__(self):
        super().__init__()
        self.told, self.ends = [], []

    def begin(self, name, size, more):
        self.name = name
        self.told.append((name, size, more))
        self[name] = b""

    def write(self, data):
        self[self.name] += bytes(data)

    def end(self, committed):
        self.ends.append(committed)


class Slow(io.BytesIO):
    """Takes a part of what it is given."""

    def write(self, data):
        return super().write(data[:1000])


def test_every_target(digits, tmp_path):
    model = quarry.Model(digits.model)
    model.compile(tmp_path / "d.qrm")
    expected = (tmp_path / "d.qrm").read_bytes()
    assert model.compile() == expected and model.compile(None, name="x.qrm") == expected
    for target in (io.BytesIO(), Slow()):
        assert model.compile(target) is None
        assert target.getvalue() == expected
    with open(tmp_path / "e.qrm", "w+b") as file:
        file.write(b"before")
        file.flush()
        if DESCRIPTORS:
            model.compile(file.fileno())
        else:
            with pytest.raises(quarry.Error, match="(?s)QR-R0018.*QR_TARGET_BY_WRITER"):
                model.compile(file.fileno())
            file.write(expected)
        file.seek(0)
        assert file.read() == b"before" + expected
    files = Files()
    model.export(files, name="d.onnx.data")
    assert [(name, more) for name, _, more in files.told] == [("d.onnx.data", 1), ("d.onnx", 0)]
    assert all(len(files[name]) == size for name, size, _ in files.told) and files.ends == [True]
    assert model.export(name="d.json") == model.export(name="d.json") and json.loads(model.export(name="d.json"))["graphs"]
    zeros = np.zeros((1, 1, 8, 8), np.float32)
    session = quarry.Session(model, threads=1)
    again = quarry.Session(quarry.Model(model.export()), threads=1)
    np.testing.assert_array_equal(again.run(zeros)[0], session.run(zeros)[0])
    # External data by name: a mapping, a function, with bytes and with a file.
    for external in (files, files.get, lambda name: io.BytesIO(files[name])):
        there = quarry.Model(files["d.onnx"], external=external)
        np.testing.assert_array_equal(quarry.Session(there, threads=1).run(zeros)[0], session.run(zeros)[0])
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(there)
    with pytest.raises(quarry.NotFound, match="is not there"):
        quarry.Model(files["d.onnx"], external={}).verify()
    with pytest.raises(ZeroDivisionError):
        quarry.Model(files["d.onnx"], external=lambda name: 1 / 0)
    with pytest.raises(ValueError, match="takes one file"):
        model.export(io.BytesIO(), name="d.onnx.data")
    with pytest.raises(quarry.InvalidArgument, match="takes one file"):
        model.export(name="d.onnx.data")
    profile = quarry.Profile()
    session.run(zeros, profile=profile)
    profile.write(tmp_path / "p.csv")
    assert (tmp_path / "p.csv").read_text() == profile.export()


def test_what_a_writer_raises_comes_out(digits):
    model = quarry.Model(digits.model)

    class Refuses(Files):
        def __init__(self, where, error):
            super().__init__()
            self.where, self.error = where, error

        def begin(self, name, size, more):
            super().begin(name, size, more)
            if self.where == "begin":
                raise self.error

        def write(self, data):
            if self.where == "write":
                raise self.error

        def end(self, committed):
            super().end(committed)
            if self.where == "end":
                raise self.error

    for where in ("begin", "write", "end"):
        for error in (ZeroDivisionError("of the writer"), KeyboardInterrupt(), OSError(28, "full")):
            target = Refuses(where, error)
            with pytest.raises(type(error)):
                model.compile(target)
            assert target.ends == [where == "end"]

    class Nothing(io.BytesIO):
        def write(self, data):
            return 0

    with pytest.raises(OSError, match="took 0"):
        model.compile(Nothing())


@unix_alone
def test_a_pipe_that_nobody_reads_ends_by_ctrl_c(digits):
    model = quarry.Model(digits.model)
    reads, writes = os.pipe()
    try:
        assert took(lambda: model.compile(writes), after=0.3) < LATEST
        signal = quarry.Signal()
        signal.set_timeout(0.2)
        with pytest.raises(quarry.DeadlineExceeded) as caught:
            model.compile(writes, signal=signal)
        assert caught.value.code == quarry.Code.DEADLINE_EXCEEDED
    finally:
        os.close(reads), os.close(writes)
