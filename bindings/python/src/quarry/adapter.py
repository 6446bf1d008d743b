# SPDX-License-Identifier: Apache-2.0
"""Low-rank updates of weights (LoRA) that a session's runs compute with."""

from typing import Any, Optional

from ._library import ffi, lib, new_struct
from .interrupts import make
from .model import CallOptions, OpenSource, Source
from .runtime import Handle, Signal


class Adapter(Handle):
    """Read for a session whose weights may change (option "adapter.targets"); see qr_adapter_open.

    `source` is the path of a .safetensors or .onnx file, its bytes, a descriptor, or what has seek and read. `alpha` is lora_alpha, where neither
    adapter_config.json beside the file nor its metadata say it. `session.apply(adapter)` has the session, or others of the same weights, run with it.
    """

    def __init__(self, session: Any, source: Source, *, alpha: Optional[float] = None, strength: float = 1.0, signal: Optional[Signal] = None) -> None:
        call = CallOptions(session.model.runtime, signal)
        how = new_struct("qr_adapter_options")
        how.alpha, how.strength = alpha or 0.0, strength
        opened = OpenSource(source, call)
        self.path = opened.path
        try:
            self._ptr = make("qr_adapter", lib.qr_adapter_destroy, call, lib.qr_adapter_open, session._ptr, opened.c, how, call.options)
        finally:
            opened.close()

    def __repr__(self) -> str:
        return f"<quarry.Adapter {self.path or 'in memory'}{'' if self._ptr else ', closed'}>"
