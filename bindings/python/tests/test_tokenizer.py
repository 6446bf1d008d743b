# SPDX-License-Identifier: Apache-2.0
"""Texts as tokens, and a generator's text, with words that are tokens of the small decoder of test_generate.py."""

import json
import os

import pytest

import quarry
from quarry.beside import library

onnx = pytest.importorskip("onnx")
from test_generate import decoder, goes_on  # noqa: E402

WORDS = "abcdefghijk"


def words(tokens):
    return " ".join(WORDS[token] for token in tokens)


@pytest.fixture(scope="module")
def data():
    try:
        library("tokenizer")
    except quarry.Unavailable as missing:
        assert "libquarry-tokenizer" in str(missing) and "QUARRY_TOKENIZER_LIBRARY" in missing.hint
        pytest.skip("there is no libquarry-tokenizer (bindings/tokenizer/build.py)")
    model = {"type": "WordLevel", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "a"}
    return json.dumps({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}).encode()


@pytest.fixture
def tokenizer(data):
    with quarry.Tokenizer(data) as made:
        yield made


def test_texts_and_tokens(tokenizer, data, tmp_path):
    assert len(tokenizer) == 11 and tokenizer.encode("d b e") == [3, 1, 4] and tokenizer.decode([3, 1, 4]) == "d b e"
    assert tokenizer.token("k") == 10 and repr(tokenizer) == "<quarry.Tokenizer, 11 tokens>"
    path = tmp_path / "wörter.json"
    path.write_bytes(data)
    for name in (path, str(path)):
        with quarry.Tokenizer(name) as again:
            assert again.encode("k") == [10]
    with quarry.TextStream(tokenizer, stops=["c d"]) as stream:
        assert [stream.push(token) for token in (0, 1)] == ["a", " b"] and not stream.stopped
        pieces = [stream.push(token) for token in (2, 3)]
        assert "".join(pieces) == " " and stream.stopped


def test_a_generators_text(tokenizer):
    expected = goes_on([3, 1, 4], 8)
    with quarry.Session(quarry.Model(decoder()), state="auto", state__capacity=32) as session, quarry.Generator(session, max_new_tokens=8) as generator:
        generator.prompt(tokenizer.encode("d b e"))
        assert "".join(generator.texts(tokenizer)) == words(expected) and generator.end == quarry.EndReason.LENGTH
        generator.rewind(3)
        stop = words(expected[3:5])
        found = "".join(generator.texts(tokenizer, stops=["never", stop]))
        text = words(expected)
        assert found == text[:text.index(stop)] and generator.end == quarry.EndReason.STOP_TEXT


def test_refused(tokenizer, tmp_path):
    with pytest.raises(quarry.Corrupt, match="QR-T0001"):
        quarry.Tokenizer(b"{")
    with pytest.raises(FileNotFoundError):
        quarry.Tokenizer(os.fspath(tmp_path / "none.json"))
    with pytest.raises(quarry.NotFound, match="QR-T0002"):
        tokenizer.token("none")
    with pytest.raises(quarry.InvalidArgument, match="whole number|below 0"):
        tokenizer.decode([-1])
    with pytest.raises(quarry.InvalidArgument, match="empty text"):
        quarry.TextStream(tokenizer, stops=[""])
    with pytest.raises(quarry.InvalidArgument, match="a list of texts"):
        quarry.TextStream(tokenizer, stops="ab")
    tokenizer.close()
    with pytest.raises(quarry.InvalidArgument, match="QR-C0002"):
        tokenizer.encode("a")
