# SPDX-License-Identifier: Apache-2.0
"""ONNX's own backend interface (onnx.backend.base), so that its test suite, and programs written for it, run on Quarry.

    import onnx, quarry.onnx_backend as backend
    outputs = backend.prepare(onnx.load("model.onnx")).run([image])
"""

from typing import Any, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import onnx
from onnx.backend.base import Backend as OnnxBackend
from onnx.backend.base import BackendRep

from .dtypes import TO_NUMPY, DType
from .errors import Unsupported, refused
from .model import Model, TensorInfo
from .runtime import OptionValue
from .session import Session


class NotSupported(Unsupported):
    """The backend refuses the model; str() says why, for each node."""


class Prepared(BackendRep):
    """A model; a session is made for each set of shapes that it is run with."""

    def __init__(self, model: Model, options: Mapping[str, OptionValue]) -> None:
        self._model = model
        self._options = dict(options)
        self._sessions: dict[Tuple[Tuple[int, ...], ...], Session] = {}

    def run(self, inputs: Any, **kwargs: Any) -> Tuple[Any, ...]:
        infos = self._model.inputs
        values = [inputs[info.name] for info in infos] if isinstance(inputs, Mapping) else list(inputs)
        if any(isinstance(value, (list, tuple, dict)) or value is None for value in values):
            raise refused("an input is a sequence, a map or an optional: expected tensors", kind=NotSupported)
        arrays = [_as_declared(value, info) for value, info in zip(values, infos)]
        if len(values) != len(infos):
            raise refused(f"found {len(values)} inputs, expected {len(infos)}: {[info.name for info in infos]}")
        return tuple(self._session(arrays, infos).run(arrays))

    def _session(self, arrays: Sequence[Any], infos: Sequence[TensorInfo]) -> Session:
        key = tuple(array.shape for array in arrays)
        if key not in self._sessions:
            options = dict(self._options)
            bound = {info.name: array.shape for info, array in zip(infos, arrays) if info.shape != array.shape and array.shape}
            if bound and "shape" not in options:
                options["shape"] = bound
            self._sessions[key] = Session(self._model, options=options)
        return self._sessions[key]


def _as_declared(value: Any, info: TensorInfo) -> Any:
    array = np.asarray(value)
    if info.shape == () and array.shape == (1,):
        array = array.reshape(())  # as ONNX Runtime does
    if info.dtype == DType.BF16 and array.dtype == np.uint16:
        array = array.view(TO_NUMPY[DType.BF16])  # files of ONNX releases before 1.13
    same = len(info.shape) == array.ndim and all(a is None or a == b for a, b in zip(info.shape, array.shape))
    if not same:
        raise refused(f"input '{info.name}' is declared {info.dtype.name}{info.shape}, found {array.dtype}{array.shape}", kind=NotSupported)
    return array


class Backend(OnnxBackend):
    """onnx.backend.base.Backend. `device` is "CPU"; keyword arguments are options of Quarry's ("backend", "threads", ...)."""

    @classmethod
    def prepare(cls, model: "onnx.ModelProto", device: str = "CPU", **kwargs: Any) -> Prepared:
        if not cls.supports_device(device):
            raise refused(f"device: found '{device}', expected CPU: ONNX's names of devices have no other of Quarry's",
                          'prepare(model, backend="gpu") names a backend', NotSupported)
        return Prepared(Model(model.SerializeToString()), kwargs)

    @classmethod
    def run_model(cls, model: "onnx.ModelProto", inputs: Any, device: str = "CPU", **kwargs: Any) -> Tuple[Any, ...]:
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(cls, node: "onnx.NodeProto", inputs: Any, device: str = "CPU", outputs_info: Optional[Sequence[Tuple[Any, Tuple[int, ...]]]] = None,
                 **kwargs: Any) -> Tuple[Any, ...]:
        """Makes a model of the node. `outputs_info`: a type and a shape for each output; without it, shape inference finds them."""
        arrays = [np.asarray(value) for value in inputs]
        names = [name for name in node.input if name]
        declared = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for name, a in zip(names, arrays)]
        outputs: List[Any]
        if outputs_info is not None:
            outputs = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)), shape)
                       for name, (kind, shape) in zip(node.output, outputs_info)]
        else:
            outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", declared, outputs)
        model = onnx.helper.make_model(graph)
        if outputs_info is None:
            inferred = {info.name: info for info in onnx.shape_inference.infer_shapes(model).graph.output}
            del model.graph.output[:]
            model.graph.output.extend(inferred[name] for name in node.output if name)
        return cls.run_model(model, arrays, device, **kwargs)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        return device.split(":")[0] == "CPU"


prepare = Backend.prepare
run_model = Backend.run_model
run_node = Backend.run_node
supports_device = Backend.supports_device

__all__ = ["Backend", "NotSupported", "Prepared", "Unsupported", "prepare", "run_model", "run_node", "supports_device"]
