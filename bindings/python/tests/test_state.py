# SPDX-License-Identifier: Apache-2.0
"""State that a session keeps from run to run."""

import numpy as np
import pytest

import quarry

onnx = pytest.importorskip("onnx")
TensorProto, helper = onnx.TensorProto, onnx.helper


def model() -> bytes:
    """present = Concat(past, x); y = x times present transposed; hn = h + x."""
    def info(name, *shape):
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=1), helper.make_node("Transpose", ["present"], ["t"], perm=[0, 2, 1]),
             helper.make_node("MatMul", ["x", "t"], ["y"]), helper.make_node("ReduceSum", ["x", "axes"], ["s"], keepdims=0),
             helper.make_node("Add", ["h", "s"], ["hn"])]
    graph = helper.make_graph(nodes, "g", [info("x", "batch", "n", 4), info("past", "batch", "k", 4), info("h", "batch", 4)],
                              [info("y", "batch", "n", "m"), info("present", "batch", "m", 4), info("hn", "batch", 4)],
                              [helper.make_tensor("axes", TensorProto.INT64, [1], [1])])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def rows(count, start):
    return np.arange(start, start + 2 * count * 4, dtype=np.float32).reshape(2, count, 4)


@pytest.mark.parametrize("backend", ["cpu", "cpu-reference"])
def test_a_window_slides_over_it(backend):
    session = quarry.Session(quarry.Model(model()), backend=backend, state="past:present", state__capacity=8, state__window=2, state__sink=1)
    given = [rows(1, 10 * number) for number in range(20)]
    for one in given:
        session.run({"x": one, "h": np.zeros((2, 4), np.float32)})
    assert session.state.length == 3 and session.state.dropped == 17
    assert np.array_equal(session.state["past"], np.concatenate([given[0], *given[-2:]], 1))
    session.state.reset()
    assert session.state.dropped == 0


def test_a_profile_has_the_shapes_of_its_run():
    session = quarry.Session(quarry.Model(model()), state="past:present", state__capacity=100)
    given = {"x": rows(1, 0), "h": np.zeros((2, 4), np.float32)}
    for _ in range(7):  # of which one plan serves most, and the lengths behind them
        session.run(given)
    profile = quarry.Profile()
    session.run(given, profile=profile)
    shapes = [event.attributes["shapes"] for event in profile if event.op == "MatMul"]
    assert shapes and all("2x4x8" in one for one in shapes)


@pytest.mark.parametrize("backend", ["cpu", "cpu-reference"])
def test_what_runs_leave(backend):
    session = quarry.Session(quarry.Model(model()), backend=backend, state="auto", state__capacity=8)
    assert [info.name for info in session.inputs] == ["x"] and [info.name for info in session.outputs] == ["y"]
    state = session.state
    assert len(state) == 2 and state.length == 0
    first, second = rows(3, 0), rows(1, 100)
    session.run(first)
    y, = session.run(second)
    past = np.concatenate([first, second], 1)
    assert np.array_equal(y, second @ past.transpose(0, 2, 1)) and np.array_equal(state["past"], past)
    assert np.array_equal(state["h"], past.sum(1)) and state.length == 4
    grown = state.tensors[0]
    assert (grown.input, grown.output, grown.axis, grown.shape, grown.capacity) == ("past", "present", 1, (2, 4, 4), 8)
    before, saved = state.fork(), state.save()
    with pytest.raises(quarry.Unsupported, match="keeps its size"):
        state.rewind(2)
    with pytest.raises(quarry.ResourceExhausted, match="state.capacity"):
        session.run(rows(5, 0))
    state.reset()
    assert state.length == 0
    session.state = before
    session.run(second)
    assert session.state.length == 5 and before.length == 5
    state.load(saved)
    assert state.length == 4 and np.array_equal(state[0], past)
    with pytest.raises(quarry.Corrupt):
        state.load(saved[:-1])
    state["h"] = np.zeros((2, 4), np.float32)
    assert not state["h"].any()
    with pytest.raises(quarry.InvalidArgument, match="expected one of past, h"):
        state["hn"]


def test_what_can_be_rewound():
    session = quarry.Session(quarry.Model(model()), state="past:present")
    zeros = np.zeros((2, 4), np.float32)
    session.run([rows(3, 0), zeros])
    session.state.rewind(1)
    assert np.array_equal(session.state["past"], rows(3, 0)[:, :1])


def test_sessions_without():
    with pytest.raises(quarry.FailedPrecondition):
        quarry.Session(quarry.Model(model())).state
