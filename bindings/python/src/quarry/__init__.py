# SPDX-License-Identifier: Apache-2.0
"""Quarry: an embeddable runtime for neural networks.

    import numpy as np, quarry
    session = quarry.Session("model.onnx")
    scores, = session.run(np.zeros((1, 3, 224, 224), np.float32))
"""

from ._library import library_path
from .dtypes import DType
from .errors import (
    Busy, Cancelled, Code, Corrupt, DeadlineExceeded, DeviceLost, Error, FailedPrecondition, Incompatible, Internal, InvalidArgument,
    NotFound, OutOfRange, PermissionDenied, ResourceExhausted, Unavailable, Unsupported,
)
from .memory import Memory, MemoryTensor
from .model import Model, Quantization, TensorInfo
from .quantize import Quantizer, quantize, quantize_options
from .runtime import Backend, Device, Event, OptionInfo, Profile, Runtime, Signal, default_runtime, version
from .session import MemoryPlan, Run, Session, plan

__version__ = version()

__all__ = [
    "Backend", "Busy", "Cancelled", "Code", "Corrupt", "DType", "DeadlineExceeded", "Device", "DeviceLost", "Error", "Event",
    "FailedPrecondition", "Incompatible", "Internal", "InvalidArgument", "Memory", "MemoryPlan", "MemoryTensor", "Model", "NotFound",
    "OptionInfo", "OutOfRange", "PermissionDenied", "Profile", "Quantization", "Quantizer", "ResourceExhausted", "Run", "Runtime", "Session", "Signal",
    "TensorInfo", "Unavailable", "Unsupported", "default_runtime", "library_path", "plan", "quantize", "quantize_options", "version",
]
