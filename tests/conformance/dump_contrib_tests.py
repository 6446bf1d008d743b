#!/usr/bin/env python3
"""Writes models of ONNX Runtime's own transformer operators (com.microsoft) with its results, in ONNX's test layout.

Needs onnx, onnxruntime and numpy. `quarry conform OUT` reads what is written.
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnx.helper as h
from onnx import TensorProto as T, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from ort_session import make_session

KINDS = {np.dtype("float32"): T.FLOAT, np.dtype("int32"): T.INT32, np.dtype("int64"): T.INT64, np.dtype("float16"): T.FLOAT16,
         np.dtype("uint8"): T.UINT8, np.dtype("int8"): T.INT8}
out = sys.argv[1]
shutil.rmtree(out, ignore_errors=True)
random = np.random.default_rng(5)
B, S, H, D, P = 2, 5, 4, 16, 3
written = 0


def reals(*shape):
    return random.standard_normal(shape).astype(np.float32)


def case(name, op, inputs, outputs, constants=(), **attributes):
    """inputs: name -> array, or None where the input is absent; those in `constants` are initializers."""
    global written
    names = [key if value is not None else "" for key, value in inputs.items()]
    node = h.make_node(op, names, list(outputs), domain="com.microsoft", name=op, **attributes)
    given = {key: value for key, value in inputs.items() if value is not None and key not in constants}
    graph = h.make_graph([node], name, [h.make_tensor_value_info(key, KINDS[value.dtype], value.shape) for key, value in given.items()],
                         [h.make_tensor_value_info(key, kind, shape) for key, (kind, shape) in outputs.items() if key],
                         [numpy_helper.from_array(inputs[key], key) for key in constants])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)], ir_version=8)
    results = make_session(model.SerializeToString()).run(None, given)
    folder = os.path.join(out, "test_ms_" + name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for prefix, values in (("input", given.items()), ("output", zip([key for key in outputs if key], results))):
        for i, (key, value) in enumerate(values):
            with open(os.path.join(data, f"{prefix}_{i}.pb"), "wb") as file:
                file.write(numpy_helper.from_array(np.asarray(value), key).SerializeToString())
    written += 1


def y(*shape):
    return T.FLOAT, shape


qkv = lambda length=S: {"query": reals(B, S, H * D), "key": reals(B, length, H * D), "value": reals(B, length, H * D)}
flags = lambda *shape: np.concatenate([np.ones((*shape[:-1], 1), np.int32), random.integers(0, 2, (*shape[:-1], shape[-1] - 1), dtype=np.int32)], -1)
# MultiHeadAttention
case("mha", "MultiHeadAttention", qkv(), {"y": y(B, S, H * D)}, num_heads=H)
case("mha_cross_scale", "MultiHeadAttention", qkv(7), {"y": y(B, S, H * D)}, num_heads=H, scale=0.5)
case("mha_bias", "MultiHeadAttention", {**qkv(), "bias": reals(3 * H * D)}, {"y": y(B, S, H * D)}, ("bias",), num_heads=H)
case("mha_unidirectional", "MultiHeadAttention", qkv(), {"y": y(B, S, H * D)}, num_heads=H, unidirectional=1)
case("mha_padding", "MultiHeadAttention", {**qkv(7), "bias": None, "mask": flags(B, 7)}, {"y": y(B, S, H * D)}, num_heads=H)
case("mha_padding_rank3", "MultiHeadAttention", {**qkv(7), "bias": None, "mask": flags(B, S, 7)}, {"y": y(B, S, H * D)}, num_heads=H)
case("mha_attention_bias", "MultiHeadAttention", {**qkv(7), "bias": None, "mask": flags(B, 7), "added": reals(1, H, S, 7)}, {"y": y(B, S, H * D)}, num_heads=H)
case("mha_past", "MultiHeadAttention", {**qkv(), "bias": None, "mask": None, "added": None, "past_key": reals(B, H, P, D), "past_value": reals(B, H, P, D)},
     {"y": y(B, S, H * D), "present_key": y(B, H, P + S, D), "present_value": y(B, H, P + S, D)}, num_heads=H)
case("mha_cached_cross", "MultiHeadAttention", {"query": reals(B, S, H * D), "key": reals(B, H, 7, D), "value": reals(B, H, 7, D)}, {"y": y(B, S, H * D)}, num_heads=H)
# Attention
packed = {"input": reals(B, S, 12), "weights": reals(12, 3 * H * D), "bias": reals(3 * H * D)}
case("attention", "Attention", packed, {"y": y(B, S, H * D)}, ("weights", "bias"), num_heads=H)
case("attention_mask", "Attention", {**packed, "mask": flags(B, S)}, {"y": y(B, S, H * D)}, ("weights", "bias"), num_heads=H)
case("attention_mask_rank3", "Attention", {**packed, "mask": flags(B, S, S)}, {"y": y(B, S, H * D)}, ("weights", "bias"), num_heads=H, mask_filter_value=-1000.0)
case("attention_past", "Attention", {**packed, "mask": None, "past": reals(2, B, H, P, D)}, {"y": y(B, S, H * D), "present": y(2, B, H, P + S, D)}, ("weights", "bias"),
     num_heads=H, unidirectional=1)
case("attention_present", "Attention", packed, {"y": y(B, S, H * D), "present": y(2, B, H, S, D)}, ("weights", "bias"), num_heads=H)
case("attention_sizes", "Attention", {"input": reals(B, S, 12), "weights": reals(12, 128 + 16), "bias": reals(144)}, {"y": y(B, S, 16)}, ("weights", "bias"), num_heads=H,
     qkv_hidden_sizes=[64, 64, 16])
# RotaryEmbedding
angle = random.uniform(0, 3, (16, D // 2))
caches = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
case("rotary", "RotaryEmbedding", {"x": reals(B, S, H * D), "p": random.integers(0, 16, (B, S)), **caches}, {"y": y(B, S, H * D)}, ("cos", "sin"))
case("rotary_offset", "RotaryEmbedding", {"x": reals(B, H, S, D), "p": np.array([4]), **caches}, {"y": y(B, H, S, D)}, ("cos", "sin"), interleaved=1)
half = {key: value[:, :2].copy() for key, value in caches.items()}
case("rotary_partial", "RotaryEmbedding", {"x": reals(B, S, H * D), "p": random.integers(0, 16, (B, S)), **half}, {"y": y(B, S, H * D)}, ("cos", "sin"), num_heads=H,
     rotary_embedding_dim=4)
# GroupQueryAttention: the first tokens, then more with a cache that grows, or that has room for all
K = 2
angle = random.uniform(0, 3, (32, D // 2))
wheel = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}


def grouped(name, batch, length, past, total, room, rotary=False, joint=False, counts=None, extra=None, run_total=False, sink=None, **attributes):
    """past: length of the cache given; room: of the cache made; run_total: the total is an input; sink: a score of each head that no key has."""
    inputs = {"query": reals(batch, length, (H + 2 * K) * D), "key": None, "value": None} if joint else {
        "query": reals(batch, length, H * D), "key": reals(batch, length, K * D), "value": reals(batch, length, K * D)}
    inputs |= {"past_key": reals(batch, K, past, D), "past_value": reals(batch, K, past, D)} if past else {"past_key": None, "past_value": None}
    counts = counts or [total - 1] * batch
    inputs |= {"seqlens": np.array(counts, np.int32), "total": np.array(total, np.int32)}
    for entry in range(batch if past else 0):  # ONNX Runtime clears what does not count when the caches are two buffers
        for key in "past_key", "past_value":
            inputs[key][entry, :, counts[entry] + 1 - length :] = 0
    if rotary or extra is not None or sink is not None:
        inputs |= wheel if rotary else {"cos": None, "sin": None}
    if extra is not None or sink is not None:
        inputs |= {"positions": None, "added": extra}
    if sink is not None:
        inputs |= {"sink": sink}
    case(name, "GroupQueryAttention", inputs, {"y": y(batch, length, H * D), "present_key": y(batch, K, room, D), "present_value": y(batch, K, room, D)},
         (*(() if run_total else ("total",)), *(("cos", "sin") if rotary else ())), num_heads=H, kv_num_heads=K, do_rotary=int(rotary), **attributes)


grouped("gqa_first", 1, 6, 0, 6, 6)
grouped("gqa_first_joint_rotary", 2, 6, 0, 6, 6, rotary=True, joint=True)
grouped("gqa_grows", 1, 1, 9, 10, 10, rotary=True)
grouped("gqa_grows_by_three", 1, 3, 9, 12, 12, rotary=True, rotary_interleaved=1, softcap=5.0)
grouped("gqa_room", 1, 1, 16, 10, 16, rotary=True)
grouped("gqa_room_batches", 2, 1, 16, 10, 16, counts=[9, 6])
grouped("gqa_room_first", 1, 6, 16, 6, 16, scale=0.2)
grouped("gqa_room_total_of_run", 1, 1, 16, 10, 16, rotary=True, run_total=True)
grouped("gqa_room_batches_total_of_run", 2, 1, 16, 10, 16, counts=[9, 6], run_total=True)
grouped("gqa_room_first_total_of_run", 1, 6, 16, 6, 16, rotary=True, run_total=True)
grouped("gqa_room_all_total_of_run", 1, 16, 16, 16, 16, rotary=True, run_total=True)
grouped("gqa_first_total_of_run", 2, 6, 0, 6, 6, rotary=True, run_total=True)
grouped("gqa_window", 1, 3, 9, 12, 12, local_window_size=4)
grouped("gqa_bias", 1, 3, 9, 12, 12, extra=reals(1, H, 3, 12))
grouped("gqa_sink_first", 2, 6, 0, 6, 6, rotary=True, sink=reals(H))
grouped("gqa_sink_grows", 1, 3, 9, 12, 12, rotary=True, sink=reals(H), local_window_size=4)
grouped("gqa_sink_room", 2, 1, 16, 10, 16, counts=[9, 6], sink=reals(H))
grouped("gqa_smooth_softmax", 1, 3, 9, 12, 12, smooth_softmax=1)
# GatherBlockQuantized: rows of a table of 4 or 8 bits, whose blocks have scales
table = {"data": random.integers(0, 256, (20, 24), dtype=np.uint8), "ids": random.integers(0, 20, (B, S)), "scales": reals(20, 3)}
row = {"y": y(B, S, 48)}
case("gather_blocks", "GatherBlockQuantized", table, row, ("data", "scales"), block_size=16)
case("gather_blocks_zeros", "GatherBlockQuantized", {**table, "zeros": random.integers(0, 256, (20, 2), dtype=np.uint8)}, row, ("data", "scales", "zeros"), block_size=16)
case("gather_blocks_of_run", "GatherBlockQuantized", {**table, "ids": np.array(7)}, {"y": y(48)}, block_size=16)
case("gather_bytes", "GatherBlockQuantized", {**table, "scales": reals(20, 2).astype(np.float16)}, {"y": (T.FLOAT16, (B, S, 24))}, ("data", "scales"), block_size=16, bits=8)
# CausalConvWithState
case("causal_conv", "CausalConvWithState", {"x": reals(B, 6, S), "w": reals(6, 1, 3), "bias": reals(6), "past": reals(B, 6, 2)}, {"y": y(B, 6, S), "present": y(B, 6, 2)}, ("w", "bias"), activation="silu")
# EmbedLayerNormalization
ids = lambda count: random.integers(0, count, (B, S), dtype=np.int32)
tables = {"words": reals(20, 16), "places": reals(9, 16), "kinds": reals(2, 16), "gamma": reals(16), "beta": reals(16)}
embedded = {"y": y(B, S, 16), "mask": (T.INT32, (B,))}
case("embed", "EmbedLayerNormalization", {"ids": ids(20), "segments": ids(2), **tables}, embedded, tuple(tables))
case("embed_all", "EmbedLayerNormalization", {"ids": ids(20), "segments": ids(2), **tables, "flags": flags(B, S), "positions": ids(9)}, {**embedded, "sum": y(B, S, 16)},
     tuple(tables), epsilon=0.001)
case("embed_no_segments", "EmbedLayerNormalization", {"ids": ids(20), "segments": None, "words": tables["words"], "places": tables["places"], "kinds": None,
                                                      "gamma": tables["gamma"], "beta": tables["beta"]}, embedded, ("words", "places", "gamma", "beta"))
# Products of integers with scales known at run time
bytes_ = lambda *shape: random.integers(0, 255, shape, dtype=np.uint8)
signed = lambda *shape: random.integers(-127, 127, shape, dtype=np.int8)
scale = lambda *shape: random.uniform(0.01, 0.03, shape).astype(np.float32)
product = {"a": bytes_(B, S, 12), "b": signed(12, 7), "a_scale": scale(), "b_scale": scale(7)}
case("integer_to_float", "MatMulIntegerToFloat", product, {"y": y(B, S, 7)}, ("b", "b_scale"))
case("integer_to_float_bias", "MatMulIntegerToFloat", {**product, "a_zero": bytes_(), "b_zero": signed(7), "bias": reals(7)}, {"y": y(B, S, 7)},
     ("b", "b_scale", "b_zero", "bias"))
dynamic = {"a": reals(B, S, 12), "b": signed(12, 7), "b_scale": scale(1)}
case("dynamic_matmul", "DynamicQuantizeMatMul", dynamic, {"y": y(B, S, 7)}, ("b", "b_scale"))
case("dynamic_matmul_bias", "DynamicQuantizeMatMul", {**dynamic, "b_zero": signed(1), "bias": reals(7)}, {"y": y(B, S, 7)}, ("b", "b_scale", "b_zero", "bias"))
print(f"{written} cases in {out}")
