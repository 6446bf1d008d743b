# SPDX-License-Identifier: Apache-2.0
"""What a graph of an exporter is run with, by the names that its inputs and their dimensions have."""
import re

import numpy as np

# A dimension's name: what it counts.
ROLES = (
    (r"(.*_)?batch(_size)?(_\w+)?", "rows"),
    (r"past_((decoder_)?sequence(_length)?|sliding_length)", "past"), (r"kv_cache_dim", "size"),
    (r"encoder_sequence_length(_out)?|encoder_sequence", "source"),
    (r"total_sequence(_length)?|s\d+", "total"),
    (r"(decoder_)?sequence(_length)?|seq", "new"),
    (r"num_channels", "channels"), (r"height|width", "pixels"), (r"feature_size", "bins"), (r"nb_max_frames|num_frames", "frames"),
    (r"audio_sequence_length", "samples"), (r"frames", "steps"), (r"nb_points_per_image|num_points", "points"),
)
# A conversation: how many tokens each run brings.
PIECES = (5, 1, 1, 3, 1)
WORDS = 90


def is_cache(name):
    return name.startswith("past") and name != "past_sequence_length" or name in ("h", "c")


def comes_of_encoder(name):
    return ".encoder." in name or "cross" in name


def after(name, outputs):
    """The output that is this cache's next value."""
    tries = [name.replace("past_key_values", "present"), name.replace("past_key_self", "present_key_self").replace("past_value_self", "present_value_self"),
             name.replace("past", "present"), name + "n", "present_" + name]
    return next((one for one in tries if one in outputs), None)


def kept_by(given, right):
    """The caches for the next run."""
    kept = {}
    for name, value in given.items():
        if not is_cache(name):
            continue
        found = right.get(after(name, right))
        # The branch with caches of the merged decoder gives those of the encoder back as nothing.
        kept[name] = value if found is None or 0 in found.shape and 0 not in value.shape else found
    return kept


def tolerance_of(model):
    """f32 in another order; f16; products of activations that ONNX Runtime rounds to 8 bits, and we do not."""
    types = {one.type.tensor_type.elem_type for one in (*model.graph.input, *model.graph.output)} | {one.data_type for one in model.graph.initializer}
    levels = {attribute.i for node in model.graph.node if node.op_type == "MatMulNBits" for attribute in node.attribute if attribute.name == "accuracy_level"}
    return 0.05 if 4 in levels else 0.01 if 10 in types else 3e-4


def size_of_head(node, model):
    counts = {attribute.name: attribute.i for attribute in node.attribute}
    width = next(info.type.tensor_type.shape.dim[2].dim_value for info in model.graph.value_info if info.name == node.input[0])
    return width // (counts["num_heads"] + (0 if node.input[1] else 2 * counts["kv_num_heads"]))


def cache_of(info, sizes, extent):
    return np.zeros([extent(dim, sizes) for dim in info.shape], np.float16 if "16" in info.type else np.float32)


class Feeds:
    def __init__(self, session, model):
        # (Of several rows ONNX Runtime's GroupQueryAttention takes one token behind a past, and has its own way with those that are shorter: check_generate.py.)
        groups = [node for node in model.graph.node if node.op_type == "GroupQueryAttention"]
        self.has_groups, self.size = bool(groups), size_of_head(groups[0], model) if groups else 0
        self.infos = {info.name: info for info in session.get_inputs()}
        self.caches = [name for name in self.infos if is_cache(name)]
        self.has_branch = "use_cache_branch" in self.infos
        self.random = np.random.RandomState(5)
        fixed = {info.shape[0] for name, info in self.infos.items() if info.shape and name not in ("cache_position", "use_cache_branch")}
        self.batches = (1,) if fixed == {1} else (1, 2)
        tokens = next((self.infos[name].shape for name in ("input_ids", "decoder_input_ids", "inputs_embeds") if name in self.infos), [])
        self.is_static = any(isinstance(dim, int) and dim > 1 for name in self.caches for dim in self.infos[name].shape[2:3])
        self.fixed_new = tokens[1] if len(tokens) > 1 and isinstance(tokens[1], int) else None

    def extent(self, dim, sizes):
        if isinstance(dim, int):
            return dim
        total = 0
        for part in re.split(r"\s*\+\s*", dim):
            if part.isdigit():
                total += int(part)
                continue
            role = next((role for pattern, role in ROLES if re.fullmatch(pattern, part)), None)
            if role is None:
                raise KeyError(f"a dimension called {dim}: feeds.py does not know what it counts")
            total += sizes[role]
        return total

    def value(self, name, info, sizes):
        shape = [self.extent(dim, sizes) for dim in info.shape]
        kind = np.float16 if "16" in info.type and "float" in info.type else np.float32 if "float" in info.type else np.int32 if "int32" in info.type else np.int64
        if name in ("input_ids", "decoder_input_ids"):
            return self.random.randint(3, WORDS, shape).astype(kind)
        if name.endswith("attention_mask"):
            value = np.ones(shape, kind)
            if shape[0] > 1 and shape[1] > 2 and not self.has_groups:  # the second row is shorter: padded at its left, as decoders are, or its right
                if "past" in sizes and sizes["decodes"] and not name.startswith("encoder"):
                    value[1, :2] = 0
                else:
                    value[1, -2:] = 0
            return value
        if name == "position_ids":
            places = np.arange(sizes["past"], sizes["past"] + shape[-1]) + np.zeros(shape, np.int64)
            if shape[0] > 1 and len(shape) == 2:
                places[1] = np.maximum(places[1] - 2, 0)
            return places.astype(kind)
        if name == "cache_position":
            return np.arange(sizes["past"], sizes["past"] + shape[0]).astype(kind)
        if name == "token_type_ids":
            return (np.arange(int(np.prod(shape))).reshape(shape) % shape[-1] > shape[-1] // 2).astype(kind)
        if name == "use_cache_branch":
            return np.array([sizes["past"] > 0])
        if name == "total_sequence_length":
            return np.full(shape, sizes["total"], kind)
        if name == "seqlens_k":
            return np.full(shape, sizes["total"] - 1, kind)
        if name == "input_points":
            return (self.random.random_sample(shape) * 60).astype(kind)
        if name == "input_labels":
            return np.ones(shape, kind)
        if name == "audio_features" or "float" in info.type:
            return self.random.standard_normal(shape).astype(kind)
        raise KeyError(f"an input called {name}: feeds.py does not know what it is")

    def sizes(self, rows, new, past):
        return {"rows": rows, "new": new, "past": past, "total": new + past, "source": 6, "channels": 3, "pixels": 32, "bins": 80, "frames": 3000, "samples": 800, "steps": new, "points": 2, "size": self.size,
                "decodes": bool(self.caches) or "position_ids" in self.infos}

    def pieces(self, rows):
        """All but the caches, of each run."""
        past, kept = 0, {}
        lengths = PIECES if self.caches else (7, 4)
        if self.has_groups and rows > 1:
            lengths = (5, 1, 1)
        if self.fixed_new:
            lengths = (self.fixed_new,) * 4
        for new in lengths:
            sizes = self.sizes(rows, new, past)
            feed = {name: self.value(name, info, sizes) for name, info in self.infos.items() if not is_cache(name)}
            for name, value in feed.items():  # what came of the encoder stays as it is
                if self.caches and name.startswith(("encoder", "audio")):
                    feed[name] = kept.setdefault(name, value)
            yield feed
            past += new

    def with_cache(self, feed, cache, rows):
        """The feed with its caches; of the first run they are empty."""
        sizes = self.sizes(rows, 0, 0)
        first = {}
        for name in self.caches:
            first[name] = cache_of(self.infos[name], sizes, self.extent)
            # A decoder that is never the first one has the encoder's part from elsewhere.
            if comes_of_encoder(name):
                first[name] = self.random.standard_normal(first[name].shape).astype(first[name].dtype)
        return {**feed, **(cache or first)}
