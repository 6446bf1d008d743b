# SPDX-License-Identifier: Apache-2.0
"""The decoder of tests/capi with letters as its tokens: texts that are a few letters, and an answer that is ONNX Runtime's."""
import os
import re

ASKED, ANSWER = "d b e b f", "i c g g e e c h"  # 3 1 4 1 5 goes on with 8 2 6 6 4 4 2 7 (tests/capi/test_generator.c)


def decoder(root):
    """The model's bytes."""
    with open(os.path.join(root, "tests", "capi", "decoder_model.h"), encoding="utf-8") as file:
        return bytes(map(int, re.findall(r"\d+", re.search(r"decoder_model\[\] = \{(.*?)\}", file.read(), re.S)[1])))


def tokenizer():
    """A tokenizer.json: a letter is a token, and blanks are between them."""
    model = {"type": "WordLevel", "vocab": {letter: i for i, letter in enumerate("abcdefghijk")}, "unk_token": "a"}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
            "model": model}
