# SPDX-License-Identifier: Apache-2.0
"""Names of files are bytes: one that is no UTF-8 serves wherever a path is taken, as a str of os.fsdecode's, a Path, a DirEntry, and as bytes."""
import os
import pathlib
import pickle

import numpy as np
import pytest
from conftest import unix_alone

import quarry

pytestmark = unix_alone
NAME = b"caf\xe9.onnx"


@pytest.fixture()
def odd(tmp_path, digits, monkeypatch):
    folder = os.fsencode(tmp_path) + b"/\xe9t\xe9"
    os.mkdir(folder)
    with open(digits.model, "rb") as model, open(folder + b"/" + NAME, "wb") as copy:
        copy.write(model.read())
    monkeypatch.chdir(os.fsdecode(folder))
    return folder


def entry(name):
    return next(one for one in os.scandir(b".") if one.name == name)


SOURCES = {"str": os.fsdecode, "Path": lambda name: pathlib.Path(os.fsdecode(name)), "DirEntry": entry}
TARGETS = {"str": os.fsdecode, "Path": lambda name: pathlib.Path(os.fsdecode(name)), "bytes": bytes}
IMAGE = np.zeros((1, 1, 8, 8), np.float32)


@pytest.mark.parametrize("kind", SOURCES)
def test_sources(odd, kind):
    path = SOURCES[kind](NAME)
    session = quarry.Session(path)
    assert session.run(IMAGE)[0].shape == (1, 10)
    assert repr(session).startswith("<quarry.Session of caf\\xe9.onnx on ")
    assert "caf\\xe9.onnx" in session._repr_html_() + repr(session.model) + session.model._repr_html_()
    for text in (repr(session), repr(session.model), str(quarry.bench(path, iterations=1))):
        text.encode()  # a terminal takes it
    assert quarry.check(path)["refused"] == 0
    assert quarry.plan(session.model).weights_bytes > 0
    assert session.model.inspect()["path"].endswith("caf\ufffd.onnx")
    assert pickle.loads(pickle.dumps(session)).run(IMAGE)[0].shape == (1, 10)


@pytest.mark.parametrize("kind", TARGETS)
def test_targets(odd, kind):
    model, path = quarry.Model(os.fsdecode(NAME)), TARGETS[kind]
    written = [b"1\xe9.qrm", b"2\xe9.qrm", b"3\xe9.onnx", b"4\xe9.csv", b"5\xe9.onnx", b"6\xe9.onnx", b"7\xe9.state"]
    model.compile(path(written[0]))
    quarry.compile(os.fsdecode(NAME), path(written[1]))
    model.export(path(written[2]))
    profile = quarry.Profile()
    quarry.Session(os.fsdecode(written[0])).run(IMAGE, profile=profile)
    profile.write(path(written[3]), "csv")
    samples = [np.random.RandomState(i).rand(1, 1, 8, 8).astype(np.float32) for i in range(3)]
    quarry.quantize(os.fsdecode(NAME), samples, path(written[4]), resume=path(b"8\xe9.state"))
    quantizer = quarry.Quantizer(os.fsdecode(NAME))
    for sample in samples:
        quantizer.add(sample)
    quantizer.save(path(written[6]))
    quantizer.write(path(written[5]))
    again = quarry.Quantizer(os.fsdecode(NAME))
    again.restore(os.fsdecode(written[6]))
    assert again.samples == 3
    assert sorted(os.listdir(b".")) == sorted([NAME, *written])
    for name in (written[0], written[2], written[4]):
        assert quarry.Session(os.fsdecode(name)).run(IMAGE)[0].shape == (1, 10)


@pytest.mark.parametrize("kind", TARGETS)
def test_folders(odd, kind):
    with open(NAME, "rb") as file:
        quarry.Model(file, folder=TARGETS[kind](odd))
    path = TARGETS[kind](odd)
    for folders in (path, [path, path]):
        runtime = quarry.Runtime(backend_path=folders, prepare_path=TARGETS[kind](b"no\xe9.so"))
        assert "cpu" in [backend.id for backend in runtime.backends()]
    with pytest.raises(quarry.Error, match=r"no\\xe9\.so"):
        quarry.Model(os.fsdecode(NAME), runtime=runtime)


def test_what_is_refused(odd):
    with pytest.raises(FileNotFoundError, match=r"no\\xe9\.onnx"):
        quarry.Model(os.fsdecode(b"no\xe9.onnx"))
    with pytest.raises(TypeError, match="os.fsdecode"):
        quarry.Model(NAME)  # bytes are a model's own
    with pytest.raises(ValueError, match="NUL"):
        quarry.Model("a\0b")
    with pytest.raises(ValueError, match="NUL"):
        quarry.Model(os.fsdecode(NAME)).compile("a\0b.qrm")
    with pytest.raises(ValueError, match="UTF-8"):  # a value of an option is text
        quarry.Session(os.fsdecode(NAME), thread_pool=os.fsdecode(b"\xe9"))


@pytest.mark.parametrize("kind", TARGETS)
def test_options_that_name_files(odd, kind):
    path = TARGETS[kind]
    with quarry.Session(os.fsdecode(NAME), profiling_level="basic", profiling_file_path=path(b"o\xe9.csv")) as session:
        session.run(IMAGE)
    assert os.path.getsize(b"o\xe9.csv") > 0
    with open(os.fsdecode(NAME), "rb") as file:
        quarry.Model(file.read(), **{"model.folder": path(b".")})
    with open(b"\xe9.json", "w") as file:
        file.write("{}")
    quarry.quantize(os.fsdecode(NAME), [np.random.RandomState(1).rand(1, 1, 8, 8).astype(np.float32)], "q.onnx", overrides=path(b"\xe9.json"))
    with pytest.raises(ValueError, match="option range: the value is not UTF-8"):
        quarry.Quantizer(os.fsdecode(NAME), range=os.fsdecode(b"\xe9"))
    with pytest.raises(ValueError, match="option profiling_file_path: the value is not a path without NUL bytes"):
        quarry.Session(os.fsdecode(NAME), profiling_file_path="a\0b")
