# SPDX-License-Identifier: Apache-2.0
"""A small Llama's story, by ONNX Runtime, for the checks of the bindings: what it makes of a beginning, by tokens and by words, one a token."""
import json

MODEL = "models/babyllama105_kv_f32/model.onnx"  # below the shared folder
BEGINNING = [1, 3, 34, 9, 22, 4, 3, 18, 20, 7]
GOES_ON = [9, 3, 5, 3, 6, 10, 16, 4, 25, 3, 6, 8, 4, 13, 4, 3, 17, 5, 12, 3, 5, 3, 14, 10]


def words(tokens):
    return " ".join(f"w{token}" for token in tokens)


def tokenizer(path):
    """Writes a tokenizer.json of the words w0 to w104; gives its path."""
    model = {"type": "WordLevel", "vocab": {f"w{token}": token for token in range(105)}, "unk_token": "w0"}
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
                   "decoder": None, "model": model}, file)
    return path
