# SPDX-License-Identifier: Apache-2.0
"""Graphs by the model builder of onnxruntime-genai, run as its users run it: by its command line, on a folder with a model."""
import contextlib
import importlib.util
import io
import os
import runpy
import sys

import torch
import transformers
from by_optimum import GROUPED, seeded

# Where a weight has to be whole blocks of 32.
WIDE = {**GROUPED, "hidden_size": 64, "intermediate_size": 96, "head_dim": 16}
# (Half of a head is to be whole vectors of 8.)
HALF_TURNED = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32, "partial_rotary_factor": 0.5}
TIED = {**WIDE, "tie_word_embeddings": True}
WINDOWED = {**WIDE, "sliding_window": 4, "query_pre_attn_scalar": 16, "layer_types": ["sliding_attention", "full_attention"]}

# Name: the model's class, its configuration, the builder's precision, its extra options.
MODELS = {
    "llama": ("LlamaForCausalLM", WIDE, "fp32", ()),
    "llama_int4": ("LlamaForCausalLM", WIDE, "int4", ("block_size=32", "accuracy_level=4")),
    "llama_int4_exact": ("LlamaForCausalLM", {**WIDE, "intermediate_size": 128}, "int4", ("block_size=32", "accuracy_level=0", "is_symmetric=false", "algo_config=rtn")),
    "llama_int4_mixed": ("LlamaForCausalLM", WIDE, "int4", ("block_size=16", "algo_config=k_quant", "matmul_mixed_precision=last_matmul:int8,mixed_layers:int8")),
    "llama_int8": ("LlamaForCausalLM", WIDE, "int8", ()),
    "llama_shared": ("LlamaForCausalLM", TIED, "fp32", ("shared_embeddings=true",)),
    "llama_int4_shared": ("LlamaForCausalLM", TIED, "int4", ("shared_embeddings=true",)),
    "llama_int8_shared": ("LlamaForCausalLM", TIED, "int8", ("shared_embeddings=true", "is_symmetric=false")),
    "llama_int4_words": ("LlamaForCausalLM", WIDE, "int4", ("op_types_to_quantize=MatMul/Gather",)),
    "llama_qdq": ("LlamaForCausalLM", WIDE, "int4", ("use_qdq=true",)),
    "llama_unfused": ("LlamaForCausalLM", WIDE, "fp32", ("fuse_qkv=false",)),
    "llama_hidden": ("LlamaForCausalLM", WIDE, "fp32", ("include_hidden_states=true",)),
    "llama_embeds": ("LlamaForCausalLM", WIDE, "fp32", ("exclude_embeds=true", "exclude_lm_head=true")),
    "mistral": ("MistralForCausalLM", {**WIDE, "sliding_window": 4}, "fp32", ()),
    "qwen2": ("Qwen2ForCausalLM", WIDE, "fp32", ()),
    "qwen3_int4": ("Qwen3ForCausalLM", WIDE, "int4", ()),
    "phi": ("PhiForCausalLM", {**WIDE, **HALF_TURNED, "num_key_value_heads": 2}, "fp32", ()),
    "phi3": ("Phi3ForCausalLM", {**WIDE, "original_max_position_embeddings": 64, "sliding_window": None}, "fp32", ()),
    "gemma": ("GemmaForCausalLM", WIDE, "fp32", ()),
    "gemma2": ("Gemma2ForCausalLM", WINDOWED, "fp32", ("windowed_kv_cache=false",)),
    "gemma2_windowed": ("Gemma2ForCausalLM", WINDOWED, "fp32", ()),
    "granite": ("GraniteForCausalLM", WIDE, "fp32", ()),
    "olmo": ("OlmoForCausalLM", WIDE, "fp32", ()),
    "smollm3": ("SmolLM3ForCausalLM", WIDE, "fp32", ()),
    "nemotron": ("NemotronForCausalLM", {**WIDE, **HALF_TURNED}, "fp32", ()),
    "lfm2": ("Lfm2ForCausalLM", {**WIDE, "num_hidden_layers": 2, "layer_types": ["conv", "full_attention"], "block_auto_adjust_ff_dim": False}, "fp32", ()),
    "whisper": ("WhisperForConditionalGeneration", {"d_model": 64, "vocab_size": 96, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 96,
                                                    "decoder_ffn_dim": 96, "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
                                                    "decoder_start_token_id": 1, "begin_suppress_tokens": None, "suppress_tokens": None}, "fp32", ()),
}


def words(folder):
    """A tokenizer, which the builder copies."""
    from tokenizers import Tokenizer, models
    known = {f"w{i}": i for i in range(96)}
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(known, unk_token="w0")), bos_token="w1", eos_token="w2", pad_token="w0", unk_token="w0")
    made.save_pretrained(folder)


def export(name, folder):
    kind, config, precision, options = MODELS[name]
    source, made = os.path.join(folder, "source"), os.path.join(folder, "made")
    torch.manual_seed(3)
    one = getattr(transformers, kind)
    with torch.no_grad():
        seeded(one(one.config_class(**config))).save_pretrained(source)
    words(source)
    # (By its path: the package itself would load its own native library, which making a graph does not need.)
    builder = os.path.join(importlib.util.find_spec("onnxruntime_genai").submodule_search_locations[0], "models", "builder.py")
    kept = sys.argv, sys.path[:]
    sys.argv = [builder, "-m", "made", "-i", source, "-o", made, "-p", precision, "-e", "cpu", "-c", os.path.join(folder, "cache"), *(["--extra_options", *options] if options else [])]
    sys.path.insert(0, os.path.dirname(builder))
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(builder, run_name="__main__")
    finally:
        sys.argv, sys.path[:] = kept
    for file in sorted(os.listdir(made)):
        # (Whisper's decoder is no right model: its last MatMul has no input.)
        if file.endswith(".onnx") and file != "decoder.onnx":
            yield name + ("" if file == "model.onnx" else "." + file[:-5]), os.path.join(made, file)
