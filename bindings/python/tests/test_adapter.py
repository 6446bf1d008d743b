# SPDX-License-Identifier: Apache-2.0
"""Adapters: exchanged between runs, shared by sessions, refused by name."""

import json
import struct

import numpy as np
import pytest

import quarry

onnx = pytest.importorskip("onnx")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

random = np.random.default_rng(1)
W, A, B, X = (random.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (2, 6), (8, 2), (3, 6)))


def model() -> bytes:
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="/layer/q_proj/MatMul")], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 6])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])],
                              [numpy_helper.from_array(W, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def safetensors(name="layer.q_proj") -> bytes:
    header = {f"base_model.model.{name}.lora_A.weight": {"dtype": "F32", "shape": [2, 6], "data_offsets": [0, 48]},
              f"base_model.model.{name}.lora_B.weight": {"dtype": "F32", "shape": [8, 2], "data_offsets": [48, 112]}}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + A.tobytes() + B.tobytes()


@pytest.mark.parametrize("backend", ["cpu", "cpu-reference"])
def test_adapters_take_turns(backend, tmp_path):
    session = quarry.Session(quarry.Model(model()), backend=backend, adapter__targets="q_proj", adapter__rank=4)
    assert [info.name for info in session.inputs] == ["x"]
    path = tmp_path / "adapter_model.safetensors"
    path.write_bytes(safetensors())
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "lora_alpha": 4}')
    whole, half = quarry.Adapter(session, path), quarry.Adapter(session, safetensors(), alpha=4, strength=0.5)
    for adapter, scale in ((None, 0), (whole, 2), (half, 1), (None, 0), (whole, 2)):
        session.apply(adapter)
        y, = session.run(X)
        assert np.allclose(y, X @ (W + scale * (B @ A).T), atol=1e-4)
    clone = session.clone()
    session.apply(None)
    assert np.allclose(clone.run(X)[0], X @ (W + 2 * (B @ A).T), atol=1e-4)
    assert session.report()["adapter"] == {"weights": 1, "applied": False, "changed": 0}
    assert "adapter_model" in repr(whole)


def test_what_does_not_fit():
    session = quarry.Session(quarry.Model(model()), adapter__targets="q_proj")
    with pytest.raises(quarry.InvalidArgument, match="lora_alpha"):
        quarry.Adapter(session, safetensors())
    with pytest.raises(quarry.Incompatible, match="k_proj"):
        quarry.Adapter(session, safetensors("layer.k_proj"), alpha=1)
    with pytest.raises(quarry.Corrupt):
        quarry.Adapter(session, safetensors()[:-1], alpha=1)
    with pytest.raises(quarry.FailedPrecondition, match="adapter.targets"):
        quarry.Adapter(quarry.Session(quarry.Model(model())), safetensors(), alpha=1)
