# SPDX-License-Identifier: Apache-2.0
"""Tokens from a session that is a decoder, beside numpy."""

import numpy as np
import pytest

import quarry

onnx = pytest.importorskip("onnx")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

WORDS, WIDTH = 11, 4
E = np.array([[(7 * t + 3 * w * w + 1) % 9 for w in range(WIDTH)] for t in range(WORDS)], np.float32)
M = np.array([[(5 * w + 2 * v * v + 3) % 7 for v in range(WORDS)] for w in range(WIDTH)], np.float32)


def decoder() -> bytes:
    """logits = (the sum of the rows of all tokens, with their places, times M) mod 97: whole numbers."""
    nodes = [helper.make_node("Gather", ["E", "input_ids"], ["e"]), helper.make_node("Cast", ["position_ids"], ["p"], to=1), helper.make_node("Unsqueeze", ["p", "two"], ["pu"]),
             helper.make_node("Add", ["e", "pu"], ["x"]), helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
             helper.make_node("ReduceSum", ["present", "one"], ["s"], keepdims=0), helper.make_node("MatMul", ["s", "M"], ["y"]), helper.make_node("Mod", ["y", "m"], ["logits"], fmod=1)]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [info("input_ids", TensorProto.INT64, [1, "n"]), info("position_ids", TensorProto.INT64, [1, "n"]), info("past", TensorProto.FLOAT, [1, "k", WIDTH])],
                              [info("logits", TensorProto.FLOAT, [1, WORDS]), info("present", TensorProto.FLOAT, [1, "k2", WIDTH])],
                              [numpy_helper.from_array(E, "E"), numpy_helper.from_array(M, "M"), numpy_helper.from_array(np.array(97, np.float32), "m"),
                               numpy_helper.from_array(np.array([1]), "one"), numpy_helper.from_array(np.array([2]), "two")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def logits_of(tokens):
    return ((E[tokens] + np.arange(len(tokens))[:, None]).sum(0) @ M) % 97


def goes_on(tokens, count):
    out = list(tokens)
    for _ in range(count):
        out.append(int(logits_of(out).argmax()))
    return out[len(tokens):]


@pytest.fixture(scope="module")
def session():
    assert onnx.__version__
    with quarry.Session(quarry.Model(decoder()), state="auto", state__capacity=32) as made:
        yield made


def test_greedy(session):
    with quarry.Generator(session, max_new_tokens=8) as generator:
        generator.prompt([3, 1, 4])
        first = list(generator)
        assert first == goes_on([3, 1, 4], 8) and generator.end == quarry.EndReason.LENGTH
        generator.prompt([3, 1, 4, *first, 2])
        assert generator.reused == 10 and list(generator) == goes_on([3, 1, 4, *first, 2], 8)
        generator.rewind(3)
        assert list(generator) == first and generator.tokens == [3, 1, 4, *first]


def test_ends(session):
    expected = goes_on([3, 1, 4], 6)
    with quarry.Generator(session, stop_tokens=[expected[3]]) as generator:
        generator.prompt([3, 1, 4])
        found = list(generator)
        assert found == expected[:expected.index(expected[3])] and generator.end == quarry.EndReason.STOP_TOKEN
    with quarry.Generator(session) as generator:
        generator.prompt([3, 1, 4])
        assert len(list(generator)) == 30 and generator.end == quarry.EndReason.CAPACITY and generator.capacity == 32


def test_logits_and_state(session):
    with quarry.Generator(session) as one, quarry.Generator(session) as other:
        one.prompt([3, 1, 4, 1])
        assert np.array_equal(one.logits(), logits_of([3, 1, 4, 1]))
        one.accept(9)
        assert np.array_equal(one.logits(), logits_of([3, 1, 4, 1, 9]))
        other.state.load(one.state.save())
        other.restore([3, 1, 4, 1, 9])
        assert np.array_equal(other.logits(), one.logits())


def test_seeds(session):
    found = []
    for seed in (1, 1, 2):
        with quarry.Generator(session, temperature=30, seed=seed, max_new_tokens=20) as generator:
            generator.prompt([5])
            found.append(list(generator))
    assert found[0] == found[1] != found[2]


def test_refused(session):
    with quarry.Generator(session) as generator:
        with pytest.raises(quarry.FailedPrecondition, match="expected a prompt"):
            generator.step()
        with pytest.raises(quarry.InvalidArgument, match="found 11, expected one under 11"):
            generator.prompt([11])
        signal = quarry.Signal(timeout=0)
        with pytest.raises(quarry.DeadlineExceeded):
            generator.prompt([1, 2], signal=signal)
    with pytest.raises(quarry.InvalidArgument, match="top_p"):
        quarry.Generator(session, top_p=2)
    with quarry.Session(quarry.Model(decoder()), shape="k=0,n=1") as plain, pytest.raises(quarry.Unsupported, match="'past'"):
        quarry.Generator(plain)


def sums(keeps: bool) -> bytes:
    """logits = (h + the sum of the tokens' rows) times M mod 97; h is what a run leaves to the next, or there is none."""
    total = ["ReduceSum", ["e", "one"], ["s"]]
    nodes = [helper.make_node("Gather", ["E", "input_ids"], ["e"]), helper.make_node(*total, keepdims=0), helper.make_node("Add", ["h", "s"], ["hn"]) if keeps else
             helper.make_node("Identity", ["s"], ["hn"]), helper.make_node("MatMul", ["hn", "M"], ["y"]), helper.make_node("Mod", ["y", "m"], ["logits"], fmod=1)]
    info = helper.make_tensor_value_info
    h = [info("h", TensorProto.FLOAT, [1, WIDTH])] if keeps else []
    graph = helper.make_graph(nodes, "g", [info("input_ids", TensorProto.INT64, [1, "n"]), *h], [info("logits", TensorProto.FLOAT, [1, WORDS])] + ([info("hn", TensorProto.FLOAT, [1, WIDTH])] if keeps else []),
                              [numpy_helper.from_array(E, "E"), numpy_helper.from_array(M, "M"), numpy_helper.from_array(np.array(97, np.float32), "m"), numpy_helper.from_array(np.array([1]), "one")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def sums_go_on(tokens, count):
    out = list(tokens)
    for _ in range(count):
        out.append(int(((E[out].sum(0) @ M) % 97).argmax()))
    return out[len(tokens):]


def test_a_state_that_keeps_its_size():
    with quarry.Session(quarry.Model(sums(True)), state="auto") as session, quarry.Generator(session, max_new_tokens=5) as generator:
        generator.prompt([3, 1, 4])
        first = list(generator)
        assert first == sums_go_on([3, 1, 4], 5) and generator.capacity == 0
        generator.prompt([3, 1, 4, *first, 7])
        assert generator.reused == 7 and list(generator) == sums_go_on([3, 1, 4, *first, 7], 5)
        generator.prompt([3, 2, 9])  # another beginning: all of it is run
        assert generator.reused == 0 and list(generator) == sums_go_on([3, 2, 9], 5)
        with pytest.raises(quarry.Unsupported, match="keeps its size"):
            generator.rewind(2)
        generator.rewind(0)
        assert generator.tokens == []


def test_no_state():
    with quarry.Session(quarry.Model(sums(False))) as session, quarry.Generator(session, max_new_tokens=5) as generator:
        generator.prompt([3, 1, 4])
        assert list(generator) == sums_go_on([3, 1, 4], 5) and generator.reused == 0
        generator.rewind(4)
        assert list(generator) == sums_go_on(generator.tokens[:4], 5)
        with pytest.raises(quarry.FailedPrecondition, match="keep"):
            generator.restore([1])
