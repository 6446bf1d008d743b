# SPDX-License-Identifier: Apache-2.0
"""Graphs of exporters as files of kilobytes: all of the graph, and of each weight only what a new one like it is drawn by."""
import json
import lzma
import os
import re
import zlib

import numpy as np
import onnx
from onnx import numpy_helper

LEAST = 64          # elements of a tensor that is drawn anew
KEPT_BYTES = 24     # what a tensor may take compressed for each hundred bytes of it, and be kept as it is: masks, tables of angles


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from graphs_of(attribute.g)
            for one in attribute.graphs:
                yield from graphs_of(one)


def tensors_of(model):
    """Each weight with a name of its own."""
    for place, graph in enumerate([*graphs_of(model.graph), *model.functions]):
        for tensor in getattr(graph, "initializer", ()):
            yield f"{place}/{tensor.name}", tensor
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield f"{place}/{node.output[0]}/{attribute.name}", attribute.t


def is_drawn(value):
    if value.size < LEAST or value.dtype.kind not in "fui" or not np.isfinite(value.astype(np.float64)).all():
        return False
    raw = value.tobytes()
    return len(zlib.compress(raw, 9)) * 100 > KEPT_BYTES * len(raw)


def clear_notes(message):
    """Stack traces of torch and the like, which say nothing about the graph."""
    for field in ("doc_string", "metadata_props"):
        if any(known.name == field for known in message.DESCRIPTOR.fields):
            message.ClearField(field)


def pack(path, to, made_by):
    """The model at `path`, with its external data, as a file without weights. made_by: the packages and their versions."""
    model = onnx.load(path)
    drawn = {}
    for name, tensor in tensors_of(model):
        value = numpy_helper.to_array(tensor)
        if not is_drawn(value):
            continue
        wide = value.astype(np.float64)
        drawn[name] = [float(f"{number:.6g}") for number in (wide.mean(), wide.std(), wide.min(), wide.max())]
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
            tensor.ClearField(field)
    for message in [model, *graphs_of(model.graph), *model.functions]:
        clear_notes(message)
        for one in (*getattr(message, "node", ()), *getattr(message, "value_info", ()), *getattr(message, "initializer", ())):
            clear_notes(one)
    model.metadata_props.add(key="made_by", value=made_by)
    model.metadata_props.add(key="drawn", value=json.dumps(drawn, separators=(",", ":")))
    with open(to, "wb") as file:
        file.write(lzma.compress(model.SerializeToString(deterministic=True), preset=9 | lzma.PRESET_EXTREME))


def draw(name, dims, dtype, recipe):
    mean, deviation, low, high = recipe
    # (RandomState: its numbers are the same in every version of numpy.)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    value = random.standard_normal(int(np.prod(dims))) * deviation + mean
    if dtype.kind in "ui":
        value = np.rint(value)
    return np.clip(value, low, high).astype(dtype).reshape(dims)


def unpack(path):
    """The model of a file that `pack` wrote, with weights."""
    with open(path, "rb") as file:
        model = onnx.load_from_string(lzma.decompress(file.read()))
    drawn = json.loads(next(one.value for one in model.metadata_props if one.key == "drawn"))
    for name, tensor in tensors_of(model):
        if name in drawn:
            value = draw(re.sub(r"^\d+/", "", name), tuple(tensor.dims), np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)), drawn[name])
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    return model


def save(model, path, external):
    """external: the weights beside it, in one file, as the builder of onnxruntime-genai and torch's dynamo exporter write them."""
    if external:
        onnx.save(model, path, save_as_external_data=True, location=os.path.basename(path) + ".data", size_threshold=256)
    else:
        onnx.save(model, path)
