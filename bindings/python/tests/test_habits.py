# SPDX-License-Identifier: Apache-2.0
"""What somebody types who comes from another runtime: it works, or is answered by the right call."""
import os
import pickle
import re
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import ROOT, field, onnx_model

import quarry


def test_run_as_onnx_runtime_has_it(digits, session):
    image = digits.images[0]
    wanted = session.run(image)[0]
    assert session.get_inputs()[0].name == "image" and session.get_outputs()[0].shape == (1, 10)
    for found in (session.run(None, {"image": image}), session.run(["scores"], {"image": image}), session.run("scores", {"image": image}),
                  session.run(None, [image]), session.run(None, {"image": image}, timeout=60), session.run(None, {"image": image}, None),
                  session.run(None, {"image": image}, run_options=None), session.run(image, run_options=None)):
        assert len(found) == 1
        np.testing.assert_array_equal(found[0], wanted)
    several = quarry.Session(onnx_model("Split", [("x", 1, [4])], [("a", 1, [2]), ("b", 1, [2])], field(5, field(1, b"num_outputs") + b"\x18\x02\xa0\x01\x02")))
    given = np.arange(4, dtype=np.float32)
    assert [part.tolist() for part in several.run(["b"], {"x": given})] == [[2, 3]]
    assert [part.tolist() for part in several.run(["b", "a", "b"], {"x": given})] == [[2, 3], [0, 1], [2, 3]]
    for wrong, words in ((lambda: session.run(["logits"], {"image": image}), "'logits'.*'scores'"), (lambda: session.run(image, {"image": image}), "ndarray.*'scores'"),
                         (lambda: session.run(None), "image f32 \\[1, 1, 8, 8\\]"), (lambda: session.run(None, {"picture": image}), "'image'")):
        with pytest.raises(quarry.InvalidArgument, match=words):
            wrong()


@pytest.mark.parametrize("keywords, words", [
    ({"providers": ["CPUExecutionProvider"]}, 'quarry.Session\\(model, backend="cpu"\\)'),
    ({"providers": [("QNNExecutionProvider", {"backend_path": "x"}), "CPUExecutionProvider"]}, 'backend="htp"'),
    ({"providers": ["CUDAExecutionProvider"]}, 'CUDA.*backend="gpu"'),
    ({"sess_options": object()}, "threads=2"),
    ({"provider_options": [{}]}, "options"),
])
def test_arguments_of_another_runtime_are_answered(digits, keywords, words):
    for call in (lambda: quarry.Session(digits.model, **keywords), lambda: quarry.check(digits.model, **keywords)):
        with pytest.raises(TypeError, match=words) as caught:
            call()
        assert isinstance(caught.value, quarry.Error) and next(iter(keywords)) in str(caught.value)


def test_options_of_a_run_are_answered(digits, session):
    for call in (lambda options: session.run(None, {"image": digits.images[0]}, run_options=options), lambda options: session.run(["scores"], {"image": digits.images[0]}, options)):
        with pytest.raises(TypeError, match="run_options.*timeout=, signal=, profile=") as caught:
            call(object())
        assert isinstance(caught.value, quarry.Error)


def test_methods_of_another_runtime_are_answered(session):
    for name, words in (("get_providers", "report"), ("io_binding", "out="), ("get_modelmeta", "properties"), ("end_profiling", "profile")):
        with pytest.raises(AttributeError, match=words) as caught:
            getattr(session, name)
        assert isinstance(caught.value, quarry.Error)
    assert not hasattr(session, "no_such_method") and not hasattr(session, "get_providers")
    with pytest.raises(AttributeError, match="quarry.Session"):
        quarry.InferenceSession


def test_inputs_of_any_name():
    for name in ("self", "inputs", "out", "feed", "a.b:0", "input 1", "run"):
        session = quarry.Session(onnx_model("Neg", [(name, 1, [2])], [("y", 1, [2])]))
        given = np.array([1, 2], np.float32)
        assert session(**{name: given}).tolist() == session.run({name: given})[0].tolist() == session.run(None, {name: given})[0].tolist() == [-1, -2]


def test_every_error_is_ours_and_a_builtin(digits, session, tmp_path):
    image, closed = digits.images[0], quarry.Session(digits.model)
    closed.close()
    (tmp_path / "text.onnx").write_text("no model")
    signal = quarry.Signal()
    cases = [
        (FileNotFoundError, lambda: quarry.Model(tmp_path / "none.onnx")),
        (OSError, lambda: quarry.Model(tmp_path)),
        (ValueError, lambda: quarry.Model(tmp_path / "text.onnx")),
        (FileNotFoundError, lambda: quarry.Model(digits.model).compile(tmp_path / "no" / "such" / "x.qrm")),
        (PermissionError, lambda: quarry.Model(digits.model).compile(tmp_path / "no" / "such" / "x.qrm")),
        (FileNotFoundError, lambda: quarry.compile(tmp_path / "none.onnx", tmp_path / "text.onnx")),
        (FileNotFoundError, lambda: quarry.Model(b"", folder=tmp_path / "none")),
        (TypeError, lambda: quarry.Model(b"", folder=3.5)),
        (TypeError, lambda: quarry.compile(digits.model, bytearray(b"x.qrm"))),
        (ValueError, lambda: quarry.Memory(session, -1)),
        (TypeError, lambda: quarry.Memory(session, "4096")),
        (TypeError, lambda: quarry.Memory("session", 4096)),
        (ValueError, lambda: quarry.Memory(session, 4096, access=-1)),
        (ValueError, lambda: quarry.Memory.import_fd(session, 1 << 40, 4096)),
        (TypeError, lambda: quarry.Memory.register(session, "array")),
        (TypeError, lambda: quarry.Memory(session, 4096).tensor((1, 10), "nonsense")),
        (TypeError, lambda: quarry.Memory(session, 4096).tensor((1, 10), 99)),
        (TypeError, lambda: quarry.Memory(session, 4096).tensor(10)),
        (TypeError, lambda: quarry.Memory(session, 4096).tensor((1, "10"))),
        (ValueError, lambda: quarry.Memory(session, 4096).tensor((1, 10), offset=-1)),
        (TypeError, lambda: quarry.Session(None)),
        (TypeError, lambda: quarry.Session(3.5)),
        (ValueError, lambda: quarry.Session(1 << 40)),
        (TypeError, lambda: quarry.Session(digits.model, options=["a"])),
        (TypeError, lambda: quarry.Session(digits.model, options={1: "a"})),
        (TypeError, lambda: quarry.Session(digits.model, runtime="cpu")),
        (TypeError, lambda: quarry.Session(digits.model, signal=5)),
        (ValueError, lambda: quarry.Session(digits.model, metadata__author="\ud800")),
        (TypeError, lambda: session.run(image, timeout="1")),
        (TypeError, lambda: session.run(image, signal=5)),
        (TypeError, lambda: session.run(image, profile=5)),
        (TypeError, lambda: session.run(image, out=5)),
        (TypeError, lambda: session.submit(image).wait(timeout="1")),
        (TypeError, lambda: quarry.Signal(timeout="1")),
        (TypeError, lambda: session.run(None, image, run_options=object())),
        (TypeError, lambda: session.run(None, image, object())),
        (ValueError, lambda: session.run(image, out=[])),
        (ValueError, lambda: session.run([image, image])),
        (ValueError, lambda: session.run({"picture": image})),
        (TypeError, lambda: session.run(image, out=["text"])),
        (TypeError, lambda: session.run("picture.png")),
        (TypeError, lambda: session.run(None)),
        (TypeError, lambda: session.run([None])),
        (TypeError, lambda: session(image, image=image)),
        (TypeError, lambda: session.run(image, timeout=1, signal=signal)),
        (TypeError, lambda: session.submit(image, timeout=1, signal=signal)),
        (TypeError, lambda: session.run(np.array(["a"]))),
        (TypeError, lambda: quarry.Quantizer(digits.model).write(None)),
        (TypeError, lambda: pickle.dumps(quarry.Model(open(digits.model, "rb")))),
        (TypeError, lambda: quarry.Memory(session, 4096, backend="cpu")),
        (TypeError, lambda: quarry.Model(open(digits.model, encoding="latin-1"))),
        (ValueError, lambda: session.run(image, timeout=float("nan"))),
        (ValueError, lambda: session.run(image.astype(np.float64))),
        (ValueError, lambda: quarry.Runtime(log=print, log_level="loud")),
        (ValueError, lambda: closed.run(image)),
        (LookupError, lambda: quarry.Session(digits.model, treads=1)),
        (TimeoutError, lambda: session.run(image, timeout=0)),
        (NotImplementedError, lambda: quarry.Session(onnx_model("NoSuch", [("x", 1, [2])], [("y", 1, [2])]))),
        (RuntimeError, lambda: session.set_option("backend", "cpu")),
        (BufferError, lambda: session.run(image, out=[np.empty((10, 2), np.float32)[:, 0]])),
    ]
    for number, (builtin, call) in enumerate(cases):
        with pytest.raises(quarry.Error) as caught:
            call()
        assert isinstance(caught.value, builtin), (number, type(caught.value).__mro__)
        assert caught.value.code in quarry.Code and str(caught.value).startswith(f"{caught.value.id}: " if caught.value.id else caught.value.message)
        again = pickle.loads(pickle.dumps(caught.value))  # as it comes from another process
        assert (type(again), again.code, again.id, again.message, again.hint, again.details, str(again)) == (
            type(caught.value), caught.value.code, caught.value.id, caught.value.message, caught.value.hint, caught.value.details, str(caught.value))
    with pytest.raises(FileNotFoundError) as caught:
        quarry.Model(tmp_path / "none.onnx")
    assert caught.value.errno == 2 and "none.onnx" in caught.value.strerror and caught.value.id == "QR-F0001"


def arguments_of(text, begin):
    """Those of a call of C++ whose parenthesis opens before `begin`: of each the text that its literals make."""
    depth, found, at = 1, [""], begin
    while depth:
        literal = re.compile(r'"((?:[^"\\\\]|\\\\.)*)"').match(text, at)
        if literal:
            found[-1] += literal[1]
            at = literal.end()
            continue
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(text[at], 0)
        if text[at] == "," and depth == 1:
            found.append("")
        at += 1
    return found


def hints_of_the_library():
    with open(os.path.join(ROOT, "base", "error_ids.inc"), encoding="utf-8") as file:
        yield from re.findall(r'^QR_ERROR\(\w+, "[^"]+", \w+, "(.*)"\)', file.read(), re.M)
    for part in ("backends", "base", "formats", "generate", "graph", "loader", "passes", "prepare", "quantize", "runtime"):
        for folder, _, names in os.walk(os.path.join(ROOT, part)):
            for name in names:
                if name.endswith((".cpp", ".h")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        text = re.sub(r"(^|\s)//.*", "", file.read())
                    for call in re.finditer(r"\bStatus::(error|hinted)\(", text):
                        yield (arguments_of(text, call.end()) + ["", ""])[1 if call[1] == "hinted" else 2]


def test_hints_are_of_python():
    hints = list(hints_of_the_library())
    of_plugins = {"qr_plugin_query", "qr_thread_pool"}  # and no business of a program in Python
    left = {name for hint in hints for name in re.findall(r"qr_\w+", quarry.errors.in_python(hint))} - of_plugins
    assert len(hints) > 400 and "call qr_quantizer_write" in hints and not left
    with pytest.raises(quarry.Error, match="hint: call Quantizer.write"):
        quarry.Quantizer(os.path.join(ROOT, "models", "digits", "digits.onnx")).report()
    with pytest.raises(quarry.NotFound, match="quarry.quantize_options\\(\\)"):
        quarry.Quantizer(os.path.join(ROOT, "models", "digits", "digits.onnx"), activatons="u16")


def test_the_file_is_in_the_message_and_a_reason_once(digits, tmp_path):
    (tmp_path / "cut.onnx").write_bytes(open(digits.model, "rb").read()[:5000])
    with pytest.raises(quarry.Corrupt, match="cut.onnx"):
        quarry.Model(tmp_path / "cut.onnx")
    (tmp_path / "odd.onnx").write_bytes(onnx_model("NoSuch", [("x", 1, [2])], [("y", 1, [2])]))
    with pytest.raises(quarry.Unsupported) as caught:
        quarry.Session(tmp_path / "odd.onnx")
    assert "odd.onnx" in str(caught.value) and "NoSuch" in str(caught.value)
    twice = quarry.Error(quarry.Code.UNSUPPORTED, "QR-O0005", "the model", "", (("reason", "a"), ("reason", "b"), ("reason", "a"), ("file", "/models/x.onnx")))
    assert str(twice) == "QR-O0005: /models/x.onnx: the model\n  a (2 times)\n  b"


def test_a_library_that_is_not_there_is_ours_too():
    code = "import quarry\ntry: quarry.quantize_options()\nexcept ImportError as e: print(isinstance(e, quarry.Error), e)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "QUARRY_QUANTIZE_LIBRARY": "/none.so"})
    assert done.stdout.startswith("True") and "/none.so" in done.stdout, done


def test_big_endian_and_fortran_arrays(digits, session, tmp_path):
    image = digits.images[0]
    wanted = session.run(image)[0]
    for number, array in enumerate((image.astype(">f4"), np.asfortranarray(image), np.asfortranarray(image.astype(">f4")), image[:, :, ::-1, ::-1][:, :, ::-1, ::-1])):
        np.save(tmp_path / f"{number}.npy", array)
        for given in (array, np.load(tmp_path / f"{number}.npy"), np.load(tmp_path / f"{number}.npy", mmap_mode="r")):
            np.testing.assert_array_equal(session.run(given)[0], wanted)
    with pytest.raises(quarry.InvalidArgument, match=">f4"):
        session.run(image, out=[np.empty((1, 10), ">f4")])


def test_an_onnx_backend_has_one_device():
    pytest.importorskip("onnx")
    import onnx

    from quarry import onnx_backend

    model = onnx.load_model_from_string(onnx_model("Neg", [("x", 1, [2])], [("y", 1, [2])]))
    assert onnx_backend.prepare(model, device="CPU:0").run([np.ones(2, np.float32)])[0].tolist() == [-1, -1]
    with pytest.raises(NotImplementedError, match="CUDA.*expected CPU") as caught:
        onnx_backend.prepare(model, device="CUDA")
    assert isinstance(caught.value, quarry.Error)
    with pytest.raises(quarry.Error):
        onnx_backend.run_model(model, [np.ones(2, np.float32)], device="CUDA:1")


class LockOfOne:
    """A lock that a run of another thread takes as soon as it is free: who wants it a second time waits for that."""

    def __init__(self):
        self.lock = threading.Lock()

    def acquire(self, blocking=True):
        assert not blocking, "this waits for a run"
        return self.lock.acquire(blocking=False)

    def __enter__(self):
        raise AssertionError("this waits for a run")

    def __exit__(self, *_):
        pass

    def release(self):
        pass


def test_objects_say_what_they_are(digits, session):
    model = session.model
    assert repr(model) == "<quarry.Model digits.onnx: image f32 [1, 1, 8, 8] -> scores f32 [1, 10]>"
    assert repr(session) == "<quarry.Session of digits.onnx on cpu: image f32 [1, 1, 8, 8] -> scores f32 [1, 10]>"
    assert repr(session.inputs[0]) == "<quarry.TensorInfo image f32 [1, 1, 8, 8]>" and str(session.inputs[0]) == "image f32 [1, 1, 8, 8]"
    symbolic = quarry.Model(onnx_model("Relu", [("x", 1, ["batch", 4])], [("y", 1, ["batch", 4])]))
    assert repr(symbolic) == "<quarry.Model bytes: x f32 [batch, 4] -> y f32 [batch, 4]>"
    run = session.submit(digits.images[0])
    run.wait()
    assert repr(run) == f"<quarry.Run {run.ticket}, done>"
    memory = quarry.Memory(session, 4096)
    assert repr(memory.tensor((1, 10))) == "<quarry.MemoryTensor f32 [1, 10] at 0 of <quarry.Memory of 4096 bytes>>"
    assert "2.5 s" in repr(quarry.Signal(timeout=2.5)) and "events" in repr(quarry.Profile()) and quarry.version() in repr(quarry.default_runtime())
    with session._lock:  # as a run of another thread holds it
        assert "digits.onnx" in repr(session.clone.__self__)
    session._lock, session._backend = LockOfOne(), None
    assert " on cpu: " in repr(session)
    session._lock = threading.Lock()
    session.close()
    memory.close()
    assert repr(session) == "<quarry.Session of digits.onnx, closed>" and repr(memory) == "<quarry.Memory, closed>"
    other = quarry.Model(digits.model)
    other.close()
    assert repr(other) == "<quarry.Model digits.onnx, closed>" and "closed" in other._repr_html_()


def test_a_notebook_shows_the_graph(digits, session):
    page = session._repr_html_()
    assert "<table>" in page and "conv1" in page and "Conv" in page and "image" in page and "[1, 1, 8, 8]" in page
    assert "Conv" in session.model._repr_html_() and page.count("<table>") == page.count("</table>") == 2
    nasty = quarry.Model(onnx_model("Neg", [("<script>", 1, [2])], [("y", 1, [2])]))
    assert "<script>" not in nasty._repr_html_() and "&lt;script&gt;" in nasty._repr_html_()


def test_what_the_program_does_is_a_function(digits, tmp_path):
    assert quarry.compile(digits.model, tmp_path / "d.qrm", metadata__author="me") is None
    assert quarry.Model(tmp_path / "d.qrm").inspect()["metadata"]["author"] == "me"
    container = quarry.compile(open(digits.model, "rb").read())
    assert container[:4] == (tmp_path / "d.qrm").read_bytes()[:4] and quarry.Session(container).run(digits.images[0])[0].shape == (1, 10)
    quarry.compile(tmp_path / "d.qrm", tmp_path / "d.qrm")
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(open(digits.model, "rb").read())
    with pytest.raises(quarry.InvalidArgument, match="overwrite"):
        quarry.compile(copy, copy)
    report = quarry.check(digits.model, backend="cpu-reference")
    assert report["refused"] == 0 and report["backend"] == "cpu-reference" and report["nodes"][0]["supported"]
    found = quarry.bench(digits.model, iterations=20, threads=1)
    assert found.runs == 20 and found.backend == "cpu" and found.threads == 1 and found.model == "digits.onnx"
    assert 0 < found.min_ms <= found.median_ms <= found.p90_ms <= found.p99_ms == found.times_ms[-1] and "median" in repr(found)
    with quarry.Session(digits.model) as session:
        assert quarry.bench(session, digits.images[0], duration=0.05).runs >= 1
        with pytest.raises(quarry.InvalidArgument, match="threads"):
            quarry.bench(session, threads=2)
    with pytest.raises(quarry.Error, match="without None"):
        quarry.bench(onnx_model("Relu", [("x", 1, ["batch", 4])], [("y", 1, ["batch", 4])]))


def test_a_range_of_shapes():
    model = onnx_model("Relu", [("x", 1, ["batch", 4])], [("y", 1, ["batch", 4])])
    for options in ({"shape": "batch=1..4"}, {"backend": "cpu-reference", "shape": "x=1..4x4"}, {}):
        with quarry.Session(model, **options) as session:
            for rows in (1, 4, 2, 1):
                x = np.full((rows, 4), -1 + rows, np.float32)
                assert np.array_equal(session.run(x)[0], x)
            if options:
                with pytest.raises(quarry.InvalidArgument, match=r"found 5 for dimension 'batch' \(axis 0\), expected 1\.\.4"):
                    session.run(np.zeros((5, 4), np.float32))


@pytest.mark.parametrize("name, is_drawn", [("F32", True), ("F16", True), ("BF16", "ml_dtypes"), ("F8E4M3FN", "ml_dtypes"), ("F8E8M0", False), ("I4", False)])
def test_values_that_nobody_gave(name, is_drawn):
    from quarry.dtypes import TO_NUMPY
    from quarry.program import made_input

    found = made_input(quarry.TensorInfo("x", quarry.DType[name], (4, 8), (), None))
    assert found.shape == (4, 8) and found.dtype == TO_NUMPY[quarry.DType[name]]
    if is_drawn is True or (is_drawn and found.dtype.kind != "u"):
        values = found.astype(np.float32)
        assert (np.abs(values) <= 1).all() and len(np.unique(values)) > 8 and (values < 0).any()


def test_a_session_says_where_its_time_goes(digits, session):
    found = session.profile(runs=3)
    assert found.runs == 3 and found.wall_ms > 0 and {"conv1", "dense2"} <= {node.name for node in found}
    assert abs(sum(node.share for node in found) - 1) < 1e-6 and all(node.ms >= 0 and node.calls >= 1 for node in found)
    assert [node.share for node in found] == sorted((node.share for node in found), reverse=True)
    assert "conv1" in repr(found) and "3 runs" in repr(found) and "<table>" in found._repr_html_() and found[0] in list(found)
    assert session.profile(digits.images[0], runs=1).runs == 1
    profile = quarry.Profile()
    session.run(digits.images[0], profile=profile)
    assert {node.name for node in profile.nodes()} == {node.name for node in found}
    with pytest.raises(quarry.InvalidArgument):
        session.profile(runs=0)


def test_nodes_within_nodes_count_once():
    from quarry._library import lib
    from quarry.node_times import node_times
    from quarry.runtime import Event

    def event(id, parent, kind, name, begin, end):
        return Event(id, parent, 1, lib.QR_CLOCK_HOST, 0, begin, end, -1, name, kind, name, {}, {})

    events = [event(1, 0, "compile", "compile", 0, 9), event(2, 1, "node", "folded", 0, 5)]
    for run in (10, 20):
        events += [event(run, 0, "run", "run", 0, 10_000_000), event(run + 1, run, "node", "loop", 0, 9_000_000),
                   event(run + 2, run + 1, "node", "body", 1_000_000, 3_000_000), event(run + 3, run + 1, "node", "body", 3_000_000, 5_000_000)]
    found = node_times(events)
    assert [(node.name, node.ms, node.calls) for node in found] == [("loop", 5.0, 1), ("body", 4.0, 2)] and found.runs == 2 and found.wall_ms == 10.0


def test_import_takes_little():
    """Beyond numpy: 60 ms with the library, of which the most is what it does not need to load. Counted, since a busy machine says nothing of times."""
    code = ("import sys, numpy; before = set(sys.modules); import quarry; new = set(sys.modules) - before\n"
            "print(sorted(name for name in ('asyncio', 'logging', 'traceback', 'onnx', 'pandas', 'torch', 'ssl', 'html', 'statistics', 'fractions') if name in new))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done
