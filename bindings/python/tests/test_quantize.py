# SPDX-License-Identifier: Apache-2.0
"""quarry.quantize: the digits model by its own images."""
import io

import numpy as np
import pytest
from conftest import DESCRIPTORS

import quarry


def test_digits(digits, tmp_path):
    out = tmp_path / "digits.qdq.onnx"
    told = []
    report = quarry.quantize(digits.model, digits.images[:32], out, progress=lambda done, total, what: told.append(what), weights="i8", float_operators=["Softmax"])
    assert report["samples"] == 32 and report["outputs"][0]["sqnr"] > 20 and report["settings"]["weights"] == "i8" and told
    session = quarry.Session(out)
    found = [int(np.argmax(session.run(image)[0])) for image in digits.images[:64]]
    assert found == [int(scores.argmax()) for scores in digits.expected[:64]]


def test_step_by_step(digits, tmp_path):
    quantizer = quarry.Quantizer(digits.model, activations="u16")
    name = quantizer.inputs[0].name
    quantizer.add({name: digits.images[0]})
    quantizer.add([digits.images[1]])
    assert quantizer.write(tmp_path / "a.onnx")["samples"] == 2
    assert quantizer.report_html().startswith("<!")
    assert {"activations", "weights", "overrides"} <= {option.key for option in quarry.quantize_options()}


def test_sources_and_targets(digits, tmp_path):
    def shown(model, **keywords):
        quantizer = quarry.Quantizer(model, **keywords)
        for image in digits.images[:4]:
            quantizer.add(image)
        return quantizer

    quantizer = shown(digits.model)
    quantizer.write(tmp_path / "a.onnx")
    expected = (tmp_path / "a.onnx").read_bytes()
    content, file = open(digits.model, "rb").read(), io.BytesIO()
    parts = {}
    quarry.Model(content).export(Parts(parts), name="d.onnx.data")
    for source, keywords in ((content, {}), (io.BytesIO(content), {}), (parts["d.onnx"], {"external": parts})):
        again = shown(source, **keywords)
        assert again.write_bytes() == expected and again.report()["samples"] == 4
    with open(digits.model, "rb") as model:
        if not DESCRIPTORS:
            with pytest.raises(quarry.Error, match="(?s)QR-R0018.*QR_MODEL_BY_READER"):
                shown(model.fileno())
        assert shown(model.fileno() if DESCRIPTORS else model).write(file)["samples"] == 4
    assert file.getvalue() == expected
    # A calibration too.
    saved = quantizer.save(note="mine")
    quantizer.save(tmp_path / "state", "mine")
    assert saved == (tmp_path / "state").read_bytes()
    other = quarry.Quantizer(digits.model)
    assert other.restore(saved) == "mine" and other.samples == 4 and other.write_bytes() == expected
    with pytest.raises(TypeError, match="write_bytes"):
        other.write(None)

    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(28, "full")

    for call in (lambda: other.write(Full()), lambda: other.save(Full())):
        with pytest.raises(OSError, match="full"):
            call()


class Parts:
    def __init__(self, files):
        self.files = files

    def begin(self, name, size, more):
        self.name, self.files[name] = name, b""

    def write(self, data):
        self.files[self.name] += bytes(data)


def test_a_calibration_that_is_taken_up(digits, tmp_path):
    images, state = digits.images[:40], tmp_path / "calibration.state"
    quarry.quantize(digits.model, images, tmp_path / "whole.onnx")

    def stopped():
        yield from images[:35]
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        quarry.quantize(digits.model, stopped(), tmp_path / "parts.onnx", resume=state)
    with pytest.raises(quarry.InvalidArgument, match="activations=u16"):
        quarry.quantize(digits.model, images, tmp_path / "parts.onnx", resume=state, activations="u16")
    quantizer = quarry.Quantizer(digits.model)
    assert quantizer.restore(state) == "" and quantizer.samples == 35
    quantizer.save(state, "mine")
    with pytest.raises(quarry.FailedPrecondition, match="35 samples were given"):
        quantizer.restore(state)
    quarry.quantize(digits.model, images, tmp_path / "parts.onnx", resume=state)
    assert (tmp_path / "parts.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    assert not state.exists()


def test_what_goes_wrong(digits, tmp_path):
    with pytest.raises(quarry.InvalidArgument, match="u9"):
        quarry.Quantizer(digits.model, activations="u9")
    with pytest.raises(quarry.NotFound, match="activations"):
        quarry.Quantizer(digits.model, activation="u8")
    with pytest.raises(quarry.InvalidArgument, match="no samples"):
        quarry.quantize(digits.model, [], tmp_path / "b.onnx")
    with pytest.raises(ValueError, match="expected 1"):
        quarry.quantize(digits.model, [[digits.images[0], digits.images[0]]], tmp_path / "b.onnx")
    with pytest.raises(quarry.InvalidArgument, match="NaN"):
        quarry.quantize(digits.model, [digits.images[0] * np.float32("nan")], tmp_path / "b.onnx")
    assert not list(tmp_path.iterdir())

    def stop(done, total, what):
        raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        quarry.quantize(digits.model, digits.images[:2], tmp_path / "b.onnx", progress=stop)
