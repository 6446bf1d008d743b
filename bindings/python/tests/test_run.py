# SPDX-License-Identifier: Apache-2.0
import gc
import threading
import tracemalloc

import numpy as np
import pytest
from conftest import onnx_model

import quarry
from quarry import DType


def test_digits_are_read_as_onnx_runtime_reads_them(digits, session):
    scores = np.concatenate([session.run(image)[0] for image in digits.images])
    np.testing.assert_allclose(scores, digits.expected.reshape(scores.shape), atol=1e-4)
    assert (scores.argmax(1) == digits.labels).mean() >= 0.97


def test_every_way_to_give_inputs(digits, session):
    image = digits.images[0]
    wanted = session.run(image)[0]
    for result in (session.run([image])[0], session.run({"image": image})[0], session(image), session(image=image),
                   session.run([image.tolist()])[0], session.run(np.repeat(image, 2, axis=3)[..., ::2])[0]):
        np.testing.assert_array_equal(result, wanted)
    for wrong in ([], [image, image], {"picture": image}, {}):
        with pytest.raises(ValueError, match="image"):
            session.run(wrong)


def test_arrays_are_used_where_they_lie(digits, session):
    image, scores = digits.images[3], np.empty((1, 10), np.float32)
    session.run(image)
    assert int(quarry._library.ffi.cast("uintptr_t", session._in.items[0].const_data)) == image.ctypes.data
    found = session.run(image, out=[scores])
    assert found[0] is scores
    np.testing.assert_array_equal(scores, session.run(image)[0])
    # What a run gives is the caller's: the next run leaves it alone.
    first = session.run(digits.images[0])[0]
    copy = first.copy()
    session.run(digits.images[1])
    np.testing.assert_array_equal(first, copy)


def test_a_large_input_is_not_copied():
    count = 4 << 20
    session = quarry.Session(onnx_model("Identity", [("x", 1, [count])], [("y", 1, [count])]), threads=1)
    given, out = np.ones(count, np.float32), np.zeros(count, np.float32)
    session.run(given, out=[out])
    tracemalloc.start()
    session.run(given, out=[out])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert out[-1] == 1 and peak < 100_000


def test_what_speaks_dlpack_is_an_input(digits, session):
    class Foreign:  # a tensor of another library
        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **keywords):
            return self.array.__dlpack__(**keywords)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    image = digits.images[5]
    np.testing.assert_array_equal(session.run(Foreign(image))[0], session.run(image)[0])
    assert int(quarry._library.ffi.cast("uintptr_t", session._in.items[0].const_data)) == image.ctypes.data
    np.testing.assert_array_equal(np.from_dlpack(session.run(image)[0]), session.run(image)[0])


@pytest.mark.parametrize("array, words", [
    (np.zeros((1, 1, 8, 8)), "QR-R0002: input image: found f64.*expected f32"),
    (np.zeros((1, 1, 8, 9), np.float32), "expected"),
    (np.zeros((1, 64), np.float32), "expected"),
])
def test_a_wrong_array_is_refused_by_the_library(session, array, words):
    with pytest.raises(quarry.InvalidArgument, match=words) as caught:
        session.run(array)
    assert isinstance(caught.value, ValueError) and caught.value.code == quarry.Code.INVALID_ARGUMENT and caught.value.hint
    # and the session goes on
    session.run(np.zeros((1, 1, 8, 8), np.float32))


def test_a_refused_run_leaves_nothing_behind(digits):
    """Every way to be refused, before and within the library, and in between right runs by the short way."""
    session = quarry.Session(digits.model, threads=1)
    image, wide = digits.images[0], digits.images[0].astype(np.float64)
    wanted = session.run(image)[0]
    memory = quarry.Memory(session, 4096)
    signal = quarry.Signal()
    signal.abort()

    class Breaks:
        def __array__(self, *arguments, **keywords):
            raise KeyError("broken")

    refused = [
        lambda: session.run(wide),
        lambda: session.run(wide, out=[]),
        lambda: session.run(wide, out=[np.empty((1, 10))]),
        lambda: session.run(wide, timeout=1, signal=signal),
        lambda: session.run(wide, timeout=float("nan")),
        lambda: session.run(wide, signal=signal),
        lambda: session.run(image, signal=signal),
        lambda: session.run(image, out=[]),
        lambda: session.run(image, out=["no array"]),
        lambda: session.run(image.reshape(1, 64), out=[]),
        lambda: session.run(np.zeros([1] * 9)),
        lambda: session.run(np.zeros([1] * 9), out=[np.empty((1, 10), np.float32)]),
        lambda: session.run(np.array([["a"]])),
        lambda: session.run(Breaks()),
        lambda: session.run(memory.tensor((1, 1, 8, 8)), out=[]),
        lambda: session.run(memory.tensor((1, 1, 8, 8), np.float64), out=[]),
        lambda: session.run(memory.tensor((1, 1, 8, 8), offset=4090)),
        lambda: session.run(image, out=[memory.tensor((1, 10), np.int32)]),
        lambda: session.run([image, image]),
        lambda: session.submit(wide),
    ]
    for number, call in enumerate(refused):
        with pytest.raises(Exception):
            call()
        np.testing.assert_array_equal(session.run(image)[0], wanted, f"after call {number}")
        np.testing.assert_array_equal(session.run(image, out=[np.empty((1, 10), np.float32)])[0], wanted, f"after call {number}")
        np.testing.assert_array_equal(session.submit(image).wait()[0], wanted, f"after call {number}")
    # Of several inputs one may have been set when another is refused.
    both = quarry.Session(onnx_model("Add", [("a", 1, [2]), ("b", 1, [2])], [("c", 1, [2])]))
    right, wrong = np.array([1, 2], np.float32), np.array([1, 2])
    assert both.run([right, right])[0].tolist() == [2, 4]
    for given in ([wrong, np.zeros([1] * 9)], [wrong, Breaks()], [right, wrong], [wrong, right], [np.zeros([1] * 9), wrong]):
        with pytest.raises(Exception):
            both.run(given)
        with pytest.raises(Exception):
            both.run(given, out=[])
        assert both.run([right, right])[0].tolist() == [2, 4]


def test_memory_for_an_output_has_its_type_and_gets_its_shape(digits, session):
    memory = quarry.Memory(session, 4096)
    with pytest.raises(ValueError, match="I32.*expected F32"):
        session.run(digits.images[0], out=[memory.tensor((1, 10), np.int32)])
    found, = session.run(digits.images[0], out=[memory.tensor((20,), np.float32)])
    assert found.shape == (1, 10)
    np.testing.assert_array_equal(found.numpy(), session.run(digits.images[0])[0])
    for shape, offset in (((-1, 10), 0), ((-2, -5), 0), ((1, 10), -4)):
        with pytest.raises(ValueError, match="below 0"):
            memory.tensor(shape, offset=offset)


def test_a_wrong_place_for_an_output_is_refused(digits, session):
    image = digits.images[0]
    read_only = np.empty((1, 10), np.float32)
    read_only.flags.writeable = False
    for out, error in (([np.empty((1, 10))], ValueError), ([read_only], ValueError), ([np.empty((10, 2), np.float32)[:, 0]], ValueError),
                       ([np.empty((1, 9), np.float32)], quarry.OutOfRange), ([], ValueError), (["scores"], TypeError)):
        with pytest.raises(error):
            session.run(image, out=out)


def test_nothing_is_left_of_runs(digits):
    session = quarry.Session(digits.model, threads=1)
    image = digits.images[0]
    for _ in range(100):
        session.run(image)
    gc.collect()
    tracemalloc.start()
    for _ in range(2000):
        session.run(image)
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 20_000


def test_extents_that_only_a_run_tells():
    session = quarry.Session(onnx_model("NonZero", [("x", 1, [2, 3])], [("y", 7, [2, "n"])]))
    assert session.outputs[0].shape == (2, None)
    given = np.array([[0, 1, 2], [3, 0, 0]], np.float32)
    first = session.run(given)[0]
    np.testing.assert_array_equal(first, np.stack(given.nonzero()))
    assert session.run(np.zeros((2, 3), np.float32))[0].shape == (2, 0)
    np.testing.assert_array_equal(first, np.stack(given.nonzero()))  # a copy: the second run has not changed it
    room = np.empty((2, 6), np.int64)
    found = session.run(given, out=[room])[0]
    assert np.shares_memory(found, room)
    np.testing.assert_array_equal(found, np.stack(given.nonzero()))


def test_symbolic_extents_are_bound_by_an_option():
    model = quarry.Model(onnx_model("Relu", [("x", 1, ["batch", 4])], [("y", 1, ["batch", 4])]))
    assert model.inputs[0].shape == (None, 4) and model.inputs[0].dim_names == ("batch", "")
    session = quarry.Session(model, shape={"x": (3, 4)})
    assert session.inputs[0].shape == (3, 4)
    assert session.run(np.full((3, 4), -1, np.float32))[0].sum() == 0
    assert quarry.Session(model, shape="batch=2").outputs[0].shape == (2, 4)


TYPES = [t for t in DType if t not in (DType.UNKNOWN,)]


@pytest.mark.parametrize("dtype", TYPES, ids=lambda t: t.name)
def test_every_type_goes_through(dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert ml_dtypes
    kind = quarry.dtypes.TO_NUMPY[dtype]
    session = quarry.Session(onnx_model("Identity", [("x", int(dtype), [7])], [("y", int(dtype), [7])]), backend="cpu-reference")
    raw = np.array([0, 1, 3, 2, 1, 0, 1], np.uint8)
    given = raw.astype(kind) if dtype not in (DType.I2, DType.I4) else np.array([0, 1, -2, -1, 1, 0, -2]).astype(kind)
    found = session.run(given)[0]
    assert found.dtype == kind
    np.testing.assert_array_equal(found.view(np.uint8) if kind.itemsize == 1 else found, given.view(np.uint8) if kind.itemsize == 1 else given)
    for _ in range(2):  # and the prepared way
        np.testing.assert_array_equal(session.run(given)[0].astype(np.float64), given.astype(np.float64))


def test_scalars_and_nothing():
    scalar = quarry.Session(onnx_model("Neg", [("x", 1, [])], [("y", 1, [])]))
    assert scalar.run(np.float32(2))[0] == -2 and scalar.run(2.0)[0].shape == ()
    empty = quarry.Session(onnx_model("Neg", [("x", 1, [0, 3])], [("y", 1, [0, 3])]))
    assert empty.run(np.empty((0, 3), np.float32))[0].shape == (0, 3)


def test_threads_take_turns_and_clones_run_by_themselves(digits, session):
    wrong = []

    def work(own):
        for _ in range(50):
            for number in (0, 7, 9):
                if own.run(digits.images[number])[0].argmax() != digits.expected.reshape(-1, 10)[number].argmax():
                    wrong.append(number)

    for sessions in ([session] * 4, [session.clone() for _ in range(4)]):
        threads = [threading.Thread(target=work, args=(own,)) for own in sessions]
        [t.start() for t in threads]
        [t.join() for t in threads]
    assert not wrong


def test_one_array_in_two_types(digits, session):
    # The short way of a session must notice that the array's type has changed.
    image = digits.images[0]
    session.run(image)
    with pytest.raises(quarry.InvalidArgument):
        session.run(image.view(np.int32))
    session.run(image)
    with pytest.raises(quarry.InvalidArgument):
        session.run(image[0])
    np.testing.assert_array_equal(session.run(image)[0], session.run(image)[0])


def test_room_and_the_session_s_memory_by_turns():
    session = quarry.Session(onnx_model("NonZero", [("x", 1, [2, 3])], [("y", 7, [2, "n"])]))
    for given in (np.eye(2, 3, dtype=np.float32), np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)):
        given.flags.writeable = False
        expected, room = np.stack(given.nonzero()), np.empty((2, 6), np.int64)
        for out in (None, [room], [None], [room]):
            np.testing.assert_array_equal(session.run(given, out=out)[0], expected)
        assert (session._in.items[0].data, session._out.items[0].flags) == (quarry._library.NULL, 0)
