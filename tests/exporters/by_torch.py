# SPDX-License-Identifier: Apache-2.0
"""Graphs by torch.onnx.export, both exporters: decoders with both kinds of cache, encoders, recurrent layers."""
import os

import torch
import transformers
from by_optimum import GEMMA, GROUPED, PICTURE, TEXT, make
from torch.export import Dim
from transformers.cache_utils import DynamicCache, StaticCache

ROOM = 16  # entries of a static cache
LAYERS, GROUPS, SIZE = 2, 2, 8


def pairs_of(cache):
    """Keys and values of a cache, whatever the release of transformers calls them."""
    return [(layer.keys, layer.values) for layer in cache.layers]


class Growing(torch.nn.Module):
    """A decoder that is given its cache as tensors, and gives it longer."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask, position_ids, *past):
        cache = DynamicCache()
        for layer in range(len(past) // 2):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        made = self.model(input_ids=input_ids, attention_mask=attention_mask, position_ids=position_ids, past_key_values=cache, use_cache=True)
        return (made.logits, *(one for pair in pairs_of(made.past_key_values) for one in pair))


class Static(torch.nn.Module):
    """A decoder with a cache of ROOM entries; cache_position says where the new ones go."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, cache_position, *past):
        cache = StaticCache(config=self.model.config, max_cache_len=ROOM)
        cache.early_initialization(input_ids.shape[0], GROUPS, SIZE, torch.float32, input_ids.device)
        for layer, one in enumerate(cache.layers):
            one.keys, one.values = past[2 * layer].clone(), past[2 * layer + 1].clone()
            # What the model asks how many entries there are: those before the first new one.
            one.get_seq_length = lambda *ignored, first=cache_position[0]: first
        made = self.model(input_ids=input_ids, position_ids=cache_position.unsqueeze(0), cache_position=cache_position, past_key_values=cache, use_cache=True)
        return (made.logits, *(one for pair in pairs_of(cache) for one in pair))


def names(kind):
    return [f"{kind}.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]


def cache_of(batch, length):
    return [torch.randn(batch, GROUPS, length, SIZE) for _ in range(2 * LAYERS)]


def growing(path, model, dynamo):
    inputs = (torch.randint(3, 90, (2, 3)), torch.ones(2, 8, dtype=torch.int64), torch.arange(5, 8).expand(2, 3).contiguous(), *cache_of(2, 5))
    given, taken = ["input_ids", "attention_mask", "position_ids", *names("past_key_values")], ["logits", *names("present")]
    if dynamo:
        batch, new, past, total = Dim("batch"), Dim("sequence"), Dim("past_sequence"), Dim("total_sequence")
        shapes = ({0: batch, 1: new}, {0: batch, 1: Dim.DYNAMIC}, {0: batch, 1: new}, tuple({0: batch, 2: past} for _ in range(2 * LAYERS)))
        torch.onnx.export(Growing(model), inputs, path, input_names=given, output_names=taken, dynamic_shapes=shapes, dynamo=True)
    else:
        axes = {"input_ids": {0: "batch", 1: "sequence"}, "attention_mask": {0: "batch", 1: "total_sequence"}, "position_ids": {0: "batch", 1: "sequence"}, "logits": {0: "batch", 1: "sequence"}}
        axes |= {name: {0: "batch", 2: "past_sequence"} for name in names("past_key_values")} | {name: {0: "batch", 2: "total_sequence"} for name in names("present")}
        torch.onnx.export(Growing(model), inputs, path, input_names=given, output_names=taken, dynamic_axes=axes, dynamo=False)


def static(path, model, dynamo):
    inputs = (torch.randint(3, 90, (1, 3)), torch.arange(5, 8), *cache_of(1, ROOM))
    given, taken = ["input_ids", "cache_position", *names("past_key_values")], ["logits", *names("present")]
    if dynamo:
        new = Dim("sequence")
        torch.onnx.export(Static(model), inputs, path, input_names=given, output_names=taken, dynamic_shapes=({1: new}, {0: new}, tuple({} for _ in range(2 * LAYERS))), dynamo=True)
    else:
        torch.onnx.export(Static(model), inputs, path, input_names=given, output_names=taken, dynamic_axes={"input_ids": {1: "sequence"}, "cache_position": {0: "sequence"}, "logits": {1: "sequence"}}, dynamo=False)


class Recurrent(torch.nn.Module):
    def __init__(self, kind, **settings):
        super().__init__()
        self.layer = getattr(torch.nn, kind)(6, 5, 2, batch_first=True, **settings)

    def forward(self, x, *state):
        y, after = self.layer(x, tuple(state) if len(state) == 2 else state[0])
        return (y, *after) if isinstance(after, tuple) else (y, after)


def recurrent(path, kind, dynamo, **settings):
    layers = 4 if settings.get("bidirectional") else 2
    state = [torch.zeros(layers, 2, 5) for _ in range(2 if kind == "LSTM" else 1)]
    given, taken = ["x", "h", "c"][:1 + len(state)], ["y", "hn", "cn"][:1 + len(state)]
    model, inputs = Recurrent(kind, **settings).eval(), (torch.randn(2, 7, 6), *state)
    if dynamo:
        batch, frames = Dim("batch"), Dim("frames")
        torch.onnx.export(model, inputs, path, input_names=given, output_names=taken, dynamic_shapes=({0: batch, 1: frames}, tuple({1: batch} for _ in state)), dynamo=True)
    else:
        axes = {"x": {0: "batch", 1: "frames"}, "y": {0: "batch", 1: "frames"}} | {name: {1: "batch"} for name in (*given[1:], *taken[1:])}
        torch.onnx.export(model, inputs, path, input_names=given, output_names=taken, dynamic_axes=axes, dynamo=False)


def encoder(path, model, inputs, axes):
    """axes: of each input, the names of those that may differ."""
    dims = {name: Dim(name) for of in axes.values() for name in of.values()}
    torch.onnx.export(model, (), path, kwargs=inputs, dynamic_shapes={name: {axis: dims[dim] for axis, dim in of.items()} for name, of in axes.items()}, dynamo=True)


def tokens_encoder(path, kind, config):
    inputs = {"input_ids": torch.randint(3, 90, (2, 7)), "attention_mask": torch.ones(2, 7, dtype=torch.int64)}
    encoder(path, make(kind, config), inputs, {name: {0: "batch", 1: "sequence"} for name in inputs})


SHARED = {**GROUPED, "head_dim": SIZE}
MODELS = {}
for _kind, _class, _config in (("llama", "LlamaForCausalLM", SHARED), ("qwen3", "Qwen3ForCausalLM", SHARED), ("gemma3", "Gemma3ForCausalLM", {**GEMMA, "head_dim": SIZE, "layer_types": ["sliding_attention", "full_attention"]}),
                               ("mistral", "MistralForCausalLM", {**SHARED, "sliding_window": 4})):
    for _way in (True, False):
        _suffix = "" if _way else "_script"
        MODELS[f"{_kind}_growing{_suffix}"] = lambda path, c=_class, f=_config, w=_way: growing(path, make(c, f), w)
        if _kind in ("llama", "qwen3"):
            MODELS[f"{_kind}_static{_suffix}"] = lambda path, c=_class, f=_config, w=_way: static(path, make(c, f), w)
for _kind in ("RNN", "LSTM", "GRU"):
    for _way in (True, False):
        _suffix = "" if _way else "_script"
        MODELS[f"{_kind.lower()}{_suffix}"] = lambda path, k=_kind, w=_way: recurrent(path, k, w)
        MODELS[f"{_kind.lower()}_both{_suffix}"] = lambda path, k=_kind, w=_way: recurrent(path, k, w, bidirectional=True)
MODELS["bert"] = lambda path: tokens_encoder(path, "BertModel", TEXT)
MODELS["modernbert"] = lambda path: tokens_encoder(path, "ModernBertModel", {**TEXT, "global_attn_every_n_layers": 2, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2})
MODELS["vit"] = lambda path: encoder(path, make("ViTForImageClassification", PICTURE), {"pixel_values": torch.randn(2, 3, 32, 32)}, {"pixel_values": {0: "batch"}})


def export(name, folder):
    path = os.path.join(folder, "model.onnx")
    torch.manual_seed(3)
    with torch.no_grad():
        MODELS[name](path)
    yield name, path
