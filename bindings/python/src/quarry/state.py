# SPDX-License-Identifier: Apache-2.0
"""What a session keeps from run to run."""

from dataclasses import dataclass
from typing import Any, List, Optional, Tuple, Union

from ._library import ffi, lib, new_struct, string_of
from .dtypes import DType
from .errors import check, refused, whole_number
from .model import CallOptions, TensorInfo
from .runtime import Handle, Runtime, Signal
from .targets import OpenTarget, Target
from .tensors import ArrayLike, Tensors


@dataclass(frozen=True)
class StateTensor:
    """A pair of input and output that a session keeps; see qr_state_info."""

    input: str
    output: str
    axis: Optional[int]
    """Along which it grows; None: it keeps its size."""
    dtype: DType
    shape: Tuple[Optional[int], ...]
    capacity: int
    bytes: int


class State(Handle):
    """The values of the pairs that the option "state" names: `session.state`, or a fork of one.

    `session.state = other` has the next runs go on from another state of that session or of a clone: of a beam, or of another conversation.
    """

    def __init__(self, runtime: Runtime, pointer: Any) -> None:
        self._runtime = runtime
        self._ptr = ffi.gc(pointer, lib.qr_state_destroy)

    def __repr__(self) -> str:
        return f"<quarry.State of {len(self)} pairs, length {self.length}>" if self._ptr else "<quarry.State, closed>"

    def __len__(self) -> int:
        return int(lib.qr_state_count(self._ptr))

    @property
    def tensors(self) -> List[StateTensor]:
        """The pairs, in the order of the model's inputs."""
        found = []
        for index in range(len(self)):
            info = new_struct("qr_state_info")
            check(lib.qr_state_tensor(self._ptr, index, info))
            shape = tuple(None if extent < 0 else int(extent) for extent in info.dims[0:info.rank])
            found.append(StateTensor(string_of(info.input), string_of(info.output), None if info.axis < 0 else int(info.axis), DType(info.dtype), shape,
                                     int(info.capacity), int(info.bytes)))
        return found

    @property
    def length(self) -> int:
        """How many entries the pairs that grow have; 0 where none does."""
        out = ffi.new("uint64_t *")
        check(lib.qr_state_length(self._ptr, out))
        return int(out[0])

    @property
    def dropped(self) -> int:
        """How many entries the option "state.window" has dropped: the next token's position is this and the length."""
        out = ffi.new("uint64_t *")
        check(lib.qr_state_dropped(self._ptr, out))
        return int(out[0])

    def reset(self) -> None:
        """Empties it: no entries, and zeros."""
        check(lib.qr_state_reset(self._ptr))

    def rewind(self, length: int) -> None:
        """Forgets the entries from `length` on."""
        check(lib.qr_state_rewind(self._ptr, whole_number("length", length)))

    def fork(self) -> "State":
        """A copy, which goes on by itself."""
        out = ffi.new("qr_state **")
        check(lib.qr_state_fork(self._ptr, out))
        return State(self._runtime, out[0])

    def save(self, target: Target = None, *, signal: Optional[Signal] = None) -> Optional[bytes]:
        """Writes it for load(): a path, a descriptor, what has write(), or None for bytes that this gives back."""
        call = CallOptions(self._runtime, signal)
        opened = OpenTarget(target, None, call)
        call.call(lib.qr_state_save, self._ptr, opened.c, call.options)
        return opened.made()

    def load(self, data: Any) -> None:
        """Makes it what save() wrote, of the same model; nothing changes where that fails. `data`: bytes, or what has the buffer protocol."""
        place = ffi.from_buffer(data)
        check(lib.qr_state_load(self._ptr, place, ffi.sizeof(place)))

    def __getitem__(self, which: Union[int, str]) -> Any:
        """A copy of one tensor, by its number or the name of its input: an array."""
        index, info = self._find(which)
        tensors = Tensors([_told(info)], "qr_tensor *[]")
        tensors.set_output(0, None, own=True)
        check(lib.qr_state_read(self._ptr, index, tensors.pointers[0]))
        return tensors.result(0)

    def __setitem__(self, which: Union[int, str], value: ArrayLike) -> None:
        """Replaces one tensor."""
        index, info = self._find(which)
        tensors = Tensors([_told(info)], "const qr_tensor *[]")
        tensors.set_input(0, value)
        check(lib.qr_state_write(self._ptr, index, tensors.pointers[0]))

    def _find(self, which: Union[int, str]) -> Tuple[int, StateTensor]:
        found = self.tensors
        for index, info in enumerate(found):
            if which in (index, info.input):
                return index, info
        raise refused(f"found {which!r}, expected one of {', '.join(info.input for info in found)}, or its number")


def _told(info: StateTensor) -> TensorInfo:
    return TensorInfo(info.input, info.dtype, info.shape, (), None)
