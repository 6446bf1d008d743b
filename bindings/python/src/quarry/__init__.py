# SPDX-License-Identifier: Apache-2.0
"""Quarry: an embeddable runtime for neural networks.

    import numpy as np, quarry
    session = quarry.Session("model.onnx")
    scores, = session.run(np.zeros((1, 3, 224, 224), np.float32))
"""

from typing import Any

from ._library import library_path
from .adapter import Adapter
from .dtypes import DType
from .errors import (
    Busy, Cancelled, Code, Corrupt, DeadlineExceeded, DeviceLost, Error, FailedPrecondition, Incompatible, Internal, InvalidArgument,
    NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unavailable, Unsupported,
)
from .generate import EndReason, Generator
from .memory import Memory, MemoryTensor
from .model import Model, Quantization, Reader, TensorInfo
from .node_times import Event, NodeTime, NodeTimes
from .program import Bench, bench, check, compile
from .quantize import Quantizer, quantize, quantize_options
from .reports import Check, CheckedNode, Compatibility, NodePath, SessionReport
from .runtime import Backend, Device, OptionInfo, Profile, Runtime, Signal, abi_version, default_runtime, version
from .session import Bucket, MemoryPlan, Run, Session, plan
from .state import State, StateTensor
from .targets import Writer
from .tokenizer import TextStream, Tokenizer

__version__ = version()

__all__ = [
    "Adapter", "Backend", "Bench", "Bucket", "Busy", "Cancelled", "Check", "CheckedNode", "Code", "Compatibility", "Corrupt", "DType", "DeadlineExceeded", "Device",
    "DeviceLost", "EndReason", "Error", "Event", "FailedPrecondition", "Generator", "Incompatible", "Internal", "InvalidArgument", "Memory", "MemoryPlan", "MemoryTensor", "Model",
    "NodePath", "NodeTime", "NodeTimes", "NotFound", "OptionInfo", "OutOfRange", "PermissionDenied", "Profile", "Quantization", "Quantizer", "Reader",
    "ResourceExhausted", "Run", "Runtime", "Session", "SessionReport", "Signal", "State", "StateTensor", "TensorInfo", "TextStream", "Tokenizer", "Unavailable", "Unsupported", "Writer", "abi_version",
    "bench", "check", "compile", "default_runtime", "library_path", "plan", "quantize", "quantize_options", "version",
]


def __getattr__(name: str) -> Any:
    if name == "InferenceSession":
        raise AttributeError('quarry has no InferenceSession: quarry.Session(model, backend="cpu"), whose run takes (None, {"name": array}) too')
    raise AttributeError(f"module 'quarry' has no attribute '{name}'")
