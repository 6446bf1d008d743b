# SPDX-License-Identifier: Apache-2.0
"""Tokens from a session that is a decoder (docs/guide.md, "Text generation"), with libquarry-generate, which lies beside libquarry.

    session = quarry.Session("model.onnx", state="auto")
    with quarry.Generator(session, temperature=0.7, stop_tokens=[2], max_new_tokens=100) as generator:
        generator.prompt(tokens)
        for token in generator:
            print(token)
"""

import enum
from typing import Any, Iterator, List, Optional, Sequence

import numpy as np

from ._library import Text, ffi, new_struct
from .beside import library
from .errors import check, refused, whole_number
from .interrupts import make
from .model import CallOptions
from .runtime import Handle, Signal
from .session import Session
from .state import State
from .tokenizer import TextStream, Tokenizer


class EndReason(enum.IntEnum):
    """Why tokens end; see qr_end_reason."""

    NONE = 0
    STOP_TOKEN = 1
    LENGTH = 2
    CAPACITY = 3
    CALLBACK = 4
    ABORTED = 5
    DEADLINE = 6
    STOP_TEXT = -1
    """Of Generator.texts: a stop text is complete; its tokens are the last of the sequence."""


def _tokens(tokens: Sequence[int]) -> Any:
    try:
        return ffi.new("int64_t[]", [whole_number("a token", token, most=(1 << 63) - 1) for token in tokens])
    except TypeError:
        raise refused(f"found {tokens!r}, expected tokens: a list of whole numbers") from None


class Generator(Handle):
    """A sequence of tokens, and a session that goes on with it. One call at a time."""

    def __init__(self, session: Session, *, temperature: float = 0.0, top_k: int = 0, top_p: float = 0.0, min_p: float = 0.0,
                 repetition_penalty: float = 0.0, repetition_window: int = 0, seed: int = 0, stop_tokens: Sequence[int] = (),
                 max_new_tokens: int = 0, prompt_chunk: int = 0, names: str = "", signal: Optional[Signal] = None) -> None:
        """On a clone of the session, which was made with state="auto". Zeros: the most probable token, no end; see qr_sampler_options and
        qr_generator_options."""
        lib = library("generate")
        self._runtime = session.model.runtime
        sampler, options = new_struct("qr_sampler_options"), new_struct("qr_generator_options")
        sampler.temperature, sampler.top_p, sampler.min_p, sampler.repetition_penalty = temperature, top_p, min_p, repetition_penalty
        sampler.top_k, sampler.repetition_window, sampler.seed = whole_number("top_k", top_k), whole_number("repetition_window", repetition_window), whole_number("seed", seed)
        stops, text = _tokens(stop_tokens), Text(names)
        options.sampler, options.stop_tokens, options.stop_token_count, options.names = sampler, stops, len(stops), text.c
        options.max_new_tokens, options.prompt_chunk = whole_number("max_new_tokens", max_new_tokens), whole_number("prompt_chunk", prompt_chunk)
        self._most = max_new_tokens
        self.end = EndReason.NONE
        """Why the last iteration ended."""
        call = CallOptions(self._runtime, signal)
        with session._lock:
            self._ptr = make("qr_generator", lib.qr_generator_destroy, call, lib.qr_generator_create, session._ptr, options, call.options)

    def __repr__(self) -> str:
        return f"<quarry.Generator, {len(self.tokens)} tokens>" if self._ptr else "<quarry.Generator, closed>"

    def _run(self, function: Any, signal: Optional[Signal], *arguments: Any, before: Sequence[Any] = ()) -> None:
        watch = CallOptions(self._runtime, signal)
        options = new_struct("qr_run_options")
        options.signal = watch.c
        watch.call(function, self._ptr, *before, options, *arguments)

    def prompt(self, tokens: Sequence[int], *, signal: Optional[Signal] = None) -> None:
        """Makes the sequence these tokens, all of it; what the sequence before began with is not run again."""
        given = _tokens(tokens)
        self._run(library("generate").qr_generator_prompt, signal, before=(given, len(given)))

    def step(self, *, signal: Optional[Signal] = None) -> Optional[int]:
        """Picks a token and puts it behind the sequence; None where the state is full. `end` says whether it is a stop token."""
        token, end = ffi.new("int64_t *"), ffi.new("int32_t *")
        self._run(library("generate").qr_generator_step, signal, token, end)
        self.end = EndReason(end[0])
        return None if token[0] < 0 else int(token[0])

    def __iter__(self) -> Iterator[int]:
        """Tokens until there is a reason to end, a stop token left out; `end` has the reason."""
        count = 0
        while not self._most or count < self._most:
            token = self.step()
            if token is None or self.end != EndReason.NONE:
                return
            count += 1
            yield token
        self.end = EndReason.LENGTH

    def texts(self, tokenizer: Tokenizer, *, stops: Sequence[str] = ()) -> Iterator[str]:
        """The same as text, piece by piece, as far as it is certain: without special tokens, until one of `stops` too; `end` has the reason."""
        with TextStream(tokenizer, stops=stops) as stream:
            for token in self:
                piece = stream.push(token)
                if piece:
                    yield piece
                if stream.stopped:
                    self.end = EndReason.STOP_TEXT
                    return
            rest = stream.finish()
            if rest:
                yield rest

    def logits(self, *, signal: Optional[Signal] = None) -> "np.ndarray[Any, np.dtype[np.float32]]":
        """Those of the next token, for a choice of your own: accept() goes on with it."""
        out, count = ffi.new("float **"), ffi.new("uint64_t *")
        self._run(library("generate").qr_generator_logits, signal, out, count)
        return np.frombuffer(ffi.buffer(out[0], count[0] * 4), np.float32).copy()

    def accept(self, token: int) -> None:
        """Puts a token behind the sequence."""
        check(library("generate").qr_generator_accept(self._ptr, whole_number("token", token)))

    def rewind(self, length: int) -> None:
        """Forgets the tokens from `length` on; of 0 the seed begins again too."""
        check(library("generate").qr_generator_rewind(self._ptr, whole_number("length", length)))

    def _sequence(self) -> Any:
        info = new_struct("qr_sequence_info")
        check(library("generate").qr_generator_sequence(self._ptr, info))
        return info

    @property
    def tokens(self) -> List[int]:
        """The sequence."""
        info = self._sequence()
        return [int(info.tokens[i]) for i in range(info.count)]

    @property
    def reused(self) -> int:
        """How many tokens of the last prompt were not run again."""
        return int(self._sequence().reused)

    @property
    def capacity(self) -> int:
        """So many tokens have room; 0: no end is known."""
        return int(self._sequence().capacity)

    @property
    def state(self) -> State:
        """What the session keeps: to save it, or to load what was saved, which restore() has to hear of."""
        out = ffi.new("qr_state **")
        check(library("generate").qr_generator_state(self._ptr, out))
        return State(self._runtime, out[0])

    def restore(self, tokens: Sequence[int]) -> None:
        """Says which tokens the state has, after State.load."""
        given = _tokens(tokens)
        check(library("generate").qr_generator_restore(self._ptr, given, len(given)))
