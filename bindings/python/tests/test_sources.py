# SPDX-License-Identifier: Apache-2.0
"""Where models are opened from, and what they say of themselves."""
import io
import math
import os
import pickle
import time

import numpy as np
import pytest
from conftest import DESCRIPTORS, field, value_info, varint
from test_interrupts import LATEST, slow_to_compile, took

import quarry


class Plain:
    """A file without readinto, whose seek gives nothing, and which reads in small pieces."""

    def __init__(self, content):
        self.file, self.reads = io.BytesIO(content), 0

    def seek(self, *where):
        self.file.seek(*where)

    def tell(self):
        return self.file.tell()

    def read(self, size):
        self.reads += 1
        return self.file.read(min(size, 1000))


def test_a_model_from_everywhere(digits, tmp_path):
    content = open(digits.model, "rb").read()
    plain = Plain(content)
    with open(digits.model, "rb") as file:
        if not DESCRIPTORS:
            with pytest.raises(quarry.Error, match="(?s)QR-R0018.*QR_MODEL_BY_READER"):
                quarry.Model(file.fileno())
        models = [quarry.Model(digits.model), quarry.Model(content), quarry.Model(bytearray(content)), quarry.Model(file.fileno() if DESCRIPTORS else file), quarry.Model(file),
                  quarry.Model(io.BytesIO(content)), quarry.Model(plain)]
    assert plain.reads > 5
    models[0].compile(tmp_path / "d.qrm")
    with open(tmp_path / "d.qrm", "rb") as file:
        models += [quarry.Model(file.fileno() if DESCRIPTORS else file), quarry.Model(file), quarry.Model(io.BytesIO((tmp_path / "d.qrm").read_bytes()))]
    for model in models:
        np.testing.assert_allclose(quarry.Session(model, threads=1).run(digits.images[0])[0], digits.expected.reshape(-1, 1, 10)[0], atol=1e-4)
    assert quarry.Session(io.BytesIO(content)).run(digits.images[0])[0].shape == (1, 10)
    assert pickle.loads(pickle.dumps(models[0])).path == digits.model and pickle.loads(pickle.dumps(models[1])).inputs == models[1].inputs
    for model in models[3:7]:
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(model)


def test_what_a_reader_raises_comes_out(digits):
    class Broken(io.BytesIO):
        def readinto(self, place):
            raise ZeroDivisionError("of the reader")

    class Short(io.BytesIO):
        def readinto(self, place):
            return 0

    class Interrupted(io.BytesIO):
        def readinto(self, place):
            raise KeyboardInterrupt

    content = open(digits.model, "rb").read()
    for kind, error in ((Broken, ZeroDivisionError), (Short, EOFError), (Interrupted, KeyboardInterrupt)):
        with pytest.raises(error):
            quarry.Model(kind(content))


def test_external_data_in_a_folder(tmp_path):
    value = np.arange(6, dtype="<f4")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "w.bin").write_bytes(value.tobytes())
    entry = field(13, field(1, b"location") + field(2, b"w.bin"))
    weight = b"\x08" + varint(6) + b"\x10\x01" + field(8, b"w") + entry + b"\x70\x01"
    node = field(1, b"x") + field(1, b"w") + field(2, b"y") + field(4, b"Add")
    graph = field(1, node) + field(2, b"g") + field(5, weight) + field(11, value_info("x", 1, [6])) + field(12, value_info("y", 1, [6]))
    content = b"\x08\x0a" + field(7, graph) + field(8, b"\x10" + varint(21))
    (tmp_path / "m.onnx").write_bytes(content)
    zeros = np.zeros(6, np.float32)
    before = len(os.listdir("/proc/self/fd")) if DESCRIPTORS else 0
    for source in (content, io.BytesIO(content), tmp_path / "m.onnx"):
        model = quarry.Model(source, folder=tmp_path / "data")
        np.testing.assert_array_equal(quarry.Session(model, threads=1).run(zeros)[0], value)
        model.close()
    if DESCRIPTORS:
        assert len(os.listdir("/proc/self/fd")) <= before + 8  # what the runtime keeps; no folder of ours
        folder = os.open(tmp_path / "data", os.O_RDONLY)
        model = quarry.Model(content, folder=folder)
        os.close(folder)
        np.testing.assert_array_equal(quarry.Session(model, threads=1).run(zeros)[0], value)
    again = pickle.loads(pickle.dumps(quarry.Model(content, folder=tmp_path / "data")))
    np.testing.assert_array_equal(quarry.Session(again, threads=1).run(zeros)[0], value)
    with pytest.raises(FileNotFoundError):
        quarry.Model(content, folder=tmp_path / "none")
    with pytest.raises(quarry.NotFound):
        quarry.Session(quarry.Model(content))


def test_names_properties_scales_and_buckets(digits):
    model = quarry.Model(digits.facts)
    assert model.outputs[0].dim_names == model.inputs[0].dim_names == ("", "columns")
    assert model.properties == {"colour": "blue"}
    session = quarry.Session(model, shape=[{"columns": 3}, {"columns": 5}])
    assert [(bucket.inputs[0].shape, bucket.outputs[0].shape) for bucket in session.buckets] == [((2, 3), (2, 3)), ((2, 5), (2, 5))]
    assert session.buckets[1].inputs[0].name == "x"
    found = session.outputs[0].quantization
    assert (found.kind, found.scales, found.zero_points, found.axis, found.block_size) == ("channel", (0.5, 0.25), (3, 5), 0, 0)
    assert math.isnan(found.scale) and session.inputs[0].quantization is None
    np.testing.assert_array_equal(session.run(np.ones((2, 3), np.float32))[0], [[5] * 3, [9] * 3])


def test_a_signal_ends_every_call_that_may_take_long(digits, tmp_path):
    model, stop = quarry.Model(digits.model), quarry.Signal()
    session = quarry.Session(model, threads=1)
    model.compile(tmp_path / "d.qrm")
    compiled = quarry.Model(tmp_path / "d.qrm", signal=stop)
    content = open(digits.model, "rb").read()
    calls = [lambda: quarry.Model(digits.model, signal=stop), lambda: quarry.Model(content, signal=stop), lambda: quarry.Model(io.BytesIO(content), signal=stop),
             lambda: compiled.verify(signal=stop), lambda: compiled.inspect(signal=stop), lambda: compiled.compatibility(signal=stop),
             lambda: quarry.plan(model, signal=stop), lambda: session.clone(signal=stop)]
    for call in calls:
        call()
    session.recover(signal=stop)  # nothing to do, and nothing to end, where the device is healthy
    stop.abort()
    for call in calls:
        with pytest.raises(quarry.Cancelled):
            call()
    stop.reset()
    stop.set_timeout(0)
    for call in calls:
        with pytest.raises(quarry.DeadlineExceeded):
            call()


def test_ctrl_c_ends_planning_and_a_slow_reader(digits):
    model = quarry.Model(slow_to_compile())
    assert took(lambda: quarry.plan(model), after=0.3) < LATEST

    class Slow(io.BytesIO):
        def readinto(self, place):
            time.sleep(0.01)
            return super().readinto(place[:10])

    content = open(digits.model, "rb").read()
    assert took(lambda: quarry.Model(Slow(content))) < 0.2
