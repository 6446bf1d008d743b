# SPDX-License-Identifier: Apache-2.0
"""Texts to tokens and back, by a model's tokenizer.json, with libquarry-tokenizer, which lies beside libquarry where it is installed.

    with quarry.Tokenizer("tokenizer.json") as tokenizer:
        generator.prompt(tokenizer.encode("Once upon a time"))
        for piece in generator.texts(tokenizer):
            print(piece, end="", flush=True)
"""

import os
from typing import Any, List, Sequence, Union

from ._library import Text, ffi, new_struct, string_of, text_of
from .beside import library
from .errors import check_tokenizer, refused, whole_number
from .runtime import Handle


def _check(error: Any) -> None:
    check_tokenizer(library("tokenizer"), error)


class Tokenizer(Handle):
    """A tokenizer.json: its path, or the bytes that it holds. It knows no chat templates: write the roles of your model around your texts."""

    def __init__(self, source: Union[str, bytes, "os.PathLike[str]"]) -> None:
        lib = library("tokenizer")
        out = ffi.new("qr_tokenizer **")
        if isinstance(source, bytes):
            _check(lib.qr_tokenizer_open_memory(ffi.from_buffer(source), len(source), out))
        else:
            path = Text(os.fspath(source))
            _check(lib.qr_tokenizer_open(path.c, out))
        self._ptr = ffi.gc(out[0], lib.qr_tokenizer_destroy)

    def __repr__(self) -> str:
        return f"<quarry.Tokenizer, {len(self)} tokens>" if self._ptr else "<quarry.Tokenizer, closed>"

    def __len__(self) -> int:
        """The number of tokens, those that were added included."""
        return int(library("tokenizer").qr_tokenizer_vocabulary(self._ptr))

    def encode(self, text: str, *, special: bool = True) -> List[int]:
        """A text as tokens; `special`: with those that the model wants around a text, as "<s>"."""
        lib, given = library("tokenizer"), Text(text)
        tokens, count = ffi.new("int64_t **"), ffi.new("uint64_t *")
        _check(lib.qr_tokenizer_encode(self._ptr, given.c, lib.QR_ENCODE_SPECIAL if special else 0, tokens, count))
        try:
            return [int(tokens[0][i]) for i in range(count[0])]
        finally:
            lib.qr_tokenizer_tokens_destroy(tokens[0], count[0])

    def decode(self, tokens: Sequence[int], *, skip_special: bool = True) -> str:
        """Tokens as a text; those that it does not know are left out, and so are special ones."""
        lib = library("tokenizer")
        given = ffi.new("int64_t[]", [whole_number("a token", token, most=(1 << 63) - 1) for token in tokens])
        out = ffi.new("char **")
        _check(lib.qr_tokenizer_decode(self._ptr, given, len(given), lib.QR_DECODE_SKIP_SPECIAL if skip_special else 0, out))
        try:
            return text_of(out[0])
        finally:
            lib.qr_tokenizer_text_destroy(out[0])

    def token(self, text: str) -> int:
        """The number of a token by its own text, "</s>"."""
        given, out = Text(text), ffi.new("int64_t *")
        _check(library("tokenizer").qr_tokenizer_token(self._ptr, given.c, out))
        return int(out[0])


class TextStream(Handle):
    """Text of tokens that come one by one, as far as it is certain: half a character is held back, and so is what may be the beginning of a stop text."""

    def __init__(self, tokenizer: Tokenizer, *, stops: Sequence[str] = (), skip_special: bool = True) -> None:
        lib = library("tokenizer")
        if isinstance(stops, str):
            raise refused(f"stops: found {stops!r}, expected a list of texts")
        texts = [Text(stop) for stop in stops]
        views, options = ffi.new("qr_string[]", [text.c for text in texts]), new_struct("qr_text_stream_options")
        options.flags, options.stops, options.stop_count = lib.QR_DECODE_SKIP_SPECIAL if skip_special else 0, views, len(texts)
        out = ffi.new("qr_text_stream **")
        _check(lib.qr_text_stream_create(tokenizer._ptr, options, out))
        self._ptr = ffi.gc(out[0], lib.qr_text_stream_destroy)
        self.stopped = False
        """Whether a stop text is complete: it is no part of the texts, and nothing follows."""

    def push(self, token: int) -> str:
        """Takes a token and gives the text that is certain now; it may be empty."""
        text, stopped = ffi.new("qr_string *"), ffi.new("int32_t *")
        _check(library("tokenizer").qr_text_stream_push(self._ptr, whole_number("a token", token, most=(1 << 63) - 1), text, stopped))
        self.stopped = bool(stopped[0])
        return string_of(text[0])

    def finish(self) -> str:
        """No token follows: gives what was held back, and begins anew."""
        text = ffi.new("qr_string *")
        _check(library("tokenizer").qr_text_stream_finish(self._ptr, text))
        self.stopped = False
        return string_of(text[0])
