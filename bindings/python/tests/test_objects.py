# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import DESCRIPTORS, ROOT, onnx_model

import quarry


def test_version_and_backends():
    assert quarry.__version__ == quarry.version()
    usable = {backend.id: backend for backend in quarry.default_runtime().backends() if backend.usable}
    assert {"cpu", "cpu-reference"} <= set(usable) and usable["cpu"].devices[0].usable
    assert any(row.key == "threads" and "integer" in row.values for row in quarry.default_runtime().options())
    assert quarry.default_runtime().operators("cpu")["operators"]
    assert quarry.default_runtime().search_path()


@pytest.mark.parametrize("keywords, kind, words", [
    ({"treads": 1}, quarry.NotFound, "QR-C0101.*the nearest is threads"),
    ({"threads": "many"}, quarry.InvalidArgument, "QR-C01.*threads"),
    ({"cpu__isa": "mmx"}, quarry.InvalidArgument, "cpu.isa"),
    ({"options": {"cpu.isb": "avx2"}}, quarry.NotFound, "cpu.isa"),
    ({"backend": "nosuch"}, quarry.NotFound, "nosuch"),
])
def test_options_are_keywords_with_the_library_s_errors(digits, keywords, kind, words):
    with pytest.raises(kind, match=words) as caught:
        quarry.Session(digits.model, **keywords)
    assert caught.value.id.startswith("QR-") and caught.value.hint


def test_options_are_used(digits):
    session = quarry.Session(digits.model, threads=2, cpu__winograd="off", options={"thread_spin_us": 0})
    options = session.report()["options"]
    assert (str(options["threads"]), options["cpu.winograd"], str(options["thread_spin_us"])) == ("2", "off", "0")
    with pytest.raises(quarry.FailedPrecondition):
        session.set_option("backend", "cpu")


def test_a_refused_node_says_why():
    model = onnx_model("NoSuchOperator", [("x", 1, [2])], [("y", 1, [2])])
    with pytest.raises(quarry.Unsupported) as caught:
        quarry.Session(model)
    assert any(key == "reason" and "NoSuchOperator" in value for key, value in caught.value.details)
    assert "NoSuchOperator" in str(caught.value)


def test_a_file_that_is_not_there_and_one_that_is_no_model(tmp_path):
    with pytest.raises(quarry.NotFound):
        quarry.Model(tmp_path / "none.onnx")
    with pytest.raises(quarry.Error):
        quarry.Model(b"no model")


def test_closed_objects_refuse(digits):
    with quarry.Session(digits.model) as session:
        session.run(digits.images[0])
    for call in (lambda: session.run(digits.images[0]), session.report, session.clone, lambda: session.submit(digits.images[0])):
        with pytest.raises(quarry.InvalidArgument, match="QR-C0002"):
            call()
    session.close()
    model = quarry.Model(digits.model)
    session = quarry.Session(model)
    model.close()
    session.run(digits.images[0])  # it holds what it needs
    with pytest.raises(quarry.InvalidArgument):
        model.inspect()


def test_a_model_is_compiled_checked_and_inspected(digits, tmp_path):
    model, told = quarry.Model(digits.model), []
    model.compile(tmp_path / "d.qrm", metadata__author="me", progress=lambda *step: told.append(step))
    assert told and model.check()["refused"] == 0
    compiled = quarry.Model(tmp_path / "d.qrm")
    compiled.verify()
    assert compiled.inspect()["metadata"]["author"] == "me"
    assert compiled.compatibility()[0] == "optimal"
    assert quarry.Session(compiled).run(digits.images[0])[0].shape == (1, 10)
    assert quarry.plan(compiled).weights_bytes > 100_000
    with pytest.raises(ZeroDivisionError):
        model.compile(tmp_path / "e.qrm", progress=lambda *step: 1 / 0)


def test_signals(digits, session):
    signal = quarry.Signal()
    session.run(digits.images[0], signal=signal)
    signal.abort()
    with pytest.raises(quarry.Cancelled):
        session.run(digits.images[0], signal=signal)
    signal.reset()
    session.run(digits.images[0], signal=signal)
    if DESCRIPTORS:
        assert signal.fileno() >= 0
    else:
        with pytest.raises(quarry.Error, match="(?s)QR-R0018.*qr_signal_check"):
            signal.fileno()
    for passed in (0, -1, -1e300, float("-inf"), 1e-12):
        signal.set_timeout(passed)
        with pytest.raises(quarry.DeadlineExceeded):
            session.run(digits.images[0], signal=signal)
        with pytest.raises(quarry.DeadlineExceeded):
            session.run(digits.images[0], timeout=passed)
    signal.set_timeout(float("inf"))
    session.run(digits.images[0], signal=signal)
    with pytest.raises(ValueError, match="nan"):
        signal.set_timeout(float("nan"))
    signal.set_timeout(None)
    long = quarry.Session(onnx_model("MatMul", [("a", 1, [3000, 3000]), ("b", 1, [3000, 3000])], [("c", 1, [3000, 3000])]), backend="cpu-reference", threads=1)
    big = np.ones((3000, 3000), np.float32)
    with pytest.raises(quarry.DeadlineExceeded) as caught:
        long.run([big, big], timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    threading.Timer(0.05, signal.abort).start()
    begin = time.monotonic()
    with pytest.raises(quarry.Cancelled):
        long.run([big, big], signal=signal)
    assert time.monotonic() - begin < 10


def test_profiles(digits):
    profile = quarry.Profile()
    session = quarry.Session(digits.model, profile=profile, threads=1)
    session.run(digits.images[0], profile=profile)
    events = [profile[i] for i in range(len(profile))]
    assert {"load", "compile", "run"} <= {event.kind for event in events} and profile.lost == 0
    nodes = [event for event in events if event.kind == "node"]
    assert {"conv1", "dense2"} <= {event.name for event in nodes} and all(event.end >= event.begin for event in nodes)
    assert profile[-1] == events[-1]
    assert json.loads(profile.export("chrome"))["traceEvents"] and profile.export().count("\n") > len(events)
    profile.clear()
    assert len(profile) == 0


def test_memory_of_the_device(digits, session):
    memory = quarry.Memory(session, 4096)
    image, scores = memory.tensor((1, 1, 8, 8)), memory.tensor((1, 10), np.float32, 1024)
    image.write(digits.images[0])
    assert session.run(image, out=[scores]) == [scores]
    np.testing.assert_array_equal(scores.numpy(), session.run(digits.images[0])[0])
    own = digits.images[1].copy()
    registered = quarry.Memory.register(session, own)
    np.testing.assert_array_equal(session.run(registered.tensor((1, 1, 8, 8)))[0], session.run(own)[0])
    with pytest.raises(quarry.InvalidArgument, match="QR-R0006"):
        session.run(memory.tensor((1, 1, 8, 8), offset=4000))
    if not DESCRIPTORS:
        with pytest.raises(quarry.Error, match="(?s)QR-R0018.*qr_memory_register"):
            quarry.Memory.import_fd(session, 3, 4096)
        return
    fd = os.memfd_create("image")
    os.truncate(fd, 4096)
    imported = quarry.Memory.import_fd(session, fd, 4096)
    os.close(fd)
    with imported.access() as data:
        data[:256] = own.view(np.uint8).reshape(-1)
    np.testing.assert_array_equal(session.run(imported.tensor((1, 1, 8, 8)))[0], session.run(own)[0])


def test_the_program_of_the_package():
    if not os.path.exists(os.path.join(quarry._library.NATIVE, "bin", "quarry.exe" if os.name == "nt" else "quarry")):
        pytest.skip("the package is not installed from its wheel, which holds the program")
    done = subprocess.run([sys.executable, "-m", "quarry", "run", f"{ROOT}/models/digits/digits.onnx", f"{ROOT}/models/digits/images/digit_3.png"],
                          capture_output=True, text=True)
    assert done.returncode == 0 and "3" in done.stdout


def test_memory_before_there_is_a_session(digits, session):
    memory = quarry.Memory(None, 4096, backend="cpu")
    image = memory.tensor((1, 1, 8, 8))
    image.write(digits.images[0])
    np.testing.assert_array_equal(session.run(image)[0], session.run(digits.images[0])[0])
    own = digits.images[1].copy()
    registered = quarry.Memory.register(None, own, backend="cpu", runtime=quarry.default_runtime())
    np.testing.assert_array_equal(session.run(registered.tensor((1, 1, 8, 8)))[0], session.run(own)[0])
    if DESCRIPTORS:
        fd = os.memfd_create("image")
        os.truncate(fd, 4096)
        assert quarry.Memory.import_fd(None, fd, 4096, backend="cpu").size_bytes == 4096
        os.close(fd)
    with pytest.raises(quarry.Error):
        quarry.Memory(None, 4096, backend="no such")
    with pytest.raises(TypeError, match="session"):
        quarry.Memory(session, 4096, backend="cpu")
    other = quarry.Memory(None, 4096, backend="cpu", runtime=quarry.Runtime())
    with pytest.raises(quarry.InvalidArgument, match="QR-R0006"):
        session.run(other.tensor((1, 1, 8, 8)))


def test_a_library_of_another_abi_is_refused():
    class Library:
        QR_ABI_MAJOR, QR_ABI_MINOR = 1, 4

        def __init__(self, version):
            if version is not None:
                self.qr_abi_version = lambda: version

    check = quarry._library.check_abi
    check(Library(0x10004), "lib")
    check(Library(0x10005), "lib")
    for version, words in ((0x10003, "1.3"), (0x20004, "2.4"), (0x00004, "0.4"), (None, "0.0")):
        with pytest.raises(ImportError, match=f"C ABI {words}, expected 1.4"):
            check(Library(version), "lib")
    assert quarry.abi_version() == (quarry._library.lib.QR_ABI_MAJOR, quarry._library.lib.QR_ABI_MINOR)
