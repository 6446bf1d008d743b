# SPDX-License-Identifier: Apache-2.0
"""Graphs by Optimum (optimum-onnx): decoders with their caches, encoders and decoders beside each other, the merged decoder, encoders, speech."""
import importlib
import os

import torch
import transformers

WORDS = 96
TEXT = {"vocab_size": WORDS, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
GROUPED = {**TEXT, "num_key_value_heads": 2}
GPT2 = {"vocab_size": WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "bos_token_id": 1, "eos_token_id": 2}
GEMMA = {**GROUPED, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 4}
PICTURE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32, "patch_size": 8}
WAVES = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "conv_dim": (16, 16, 16), "conv_kernel": (10, 3, 3), "conv_stride": (5, 2, 2),
         "num_feat_extract_layers": 3, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4}
BOTH_SIDES = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
              "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1}
WHISPER = {"vocab_size": WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
           "num_mel_bins": 80, "max_source_positions": 1500, "max_target_positions": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0, "decoder_start_token_id": 1,
           "begin_suppress_tokens": None, "suppress_tokens": None}

# Name: the model's class, the task, its configuration.
GENERATE, WITH_PAST = "text-generation-with-past", "text2text-generation-with-past"
MODELS = {
    "llama": ("LlamaForCausalLM", GENERATE, GROUPED),
    "mistral": ("MistralForCausalLM", GENERATE, {**GROUPED, "head_dim": 8, "sliding_window": 4}),
    "qwen2": ("Qwen2ForCausalLM", GENERATE, GROUPED),
    "qwen3": ("Qwen3ForCausalLM", GENERATE, {**GROUPED, "head_dim": 16}),
    "gemma": ("GemmaForCausalLM", GENERATE, {**GROUPED, "head_dim": 16}),
    "gemma2": ("Gemma2ForCausalLM", GENERATE, GEMMA),
    "gemma3": ("Gemma3ForCausalLM", GENERATE, {**GEMMA, "layer_types": ["sliding_attention", "full_attention"]}),
    "phi": ("PhiForCausalLM", GENERATE, TEXT),
    "phi3": ("Phi3ForCausalLM", GENERATE, {**GROUPED, "sliding_window": 4}),
    "gpt2": ("GPT2LMHeadModel", GENERATE, GPT2),
    "gptj": ("GPTJForCausalLM", GENERATE, {**GPT2, "rotary_dim": 4}),
    "gpt_neo": ("GPTNeoForCausalLM", GENERATE, {"vocab_size": WORDS, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]], "window_size": 4, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2}),
    "gpt_bigcode": ("GPTBigCodeForCausalLM", GENERATE, GPT2),
    "gpt_neox": ("GPTNeoXForCausalLM", GENERATE, TEXT),
    "opt": ("OPTForCausalLM", GENERATE, {**TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}),
    "falcon": ("FalconForCausalLM", GENERATE, {**TEXT, "alibi": False, "new_decoder_architecture": False}),
    "falcon_alibi": ("FalconForCausalLM", GENERATE, {**TEXT, "alibi": True, "multi_query": False}),
    "bloom": ("BloomForCausalLM", GENERATE, {"vocab_size": WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}),
    "mpt": ("MptForCausalLM", GENERATE, {"vocab_size": WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "expansion_ratio": 2, "max_seq_len": 64}),
    "stablelm": ("StableLmForCausalLM", GENERATE, GROUPED),
    "olmo2": ("Olmo2ForCausalLM", GENERATE, GROUPED),
    "granite": ("GraniteForCausalLM", GENERATE, GROUPED),
    "cohere": ("CohereForCausalLM", GENERATE, GROUPED),
    "smollm3": ("SmolLM3ForCausalLM", GENERATE, GROUPED),
    "gpt_oss": ("GptOssForCausalLM", GENERATE, {**GROUPED, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]}),
    "mixtral": ("MixtralForCausalLM", GENERATE, {**GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2}),
    "t5": ("T5ForConditionalGeneration", WITH_PAST, {"vocab_size": WORDS, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    "bart": ("BartForConditionalGeneration", WITH_PAST, BOTH_SIDES),
    "marian": ("MarianMTModel", WITH_PAST, BOTH_SIDES),
    "whisper": ("WhisperForConditionalGeneration", "automatic-speech-recognition-with-past", WHISPER),
    "bert": ("BertModel", "feature-extraction", TEXT),
    "bert_classes": ("BertForSequenceClassification", "text-classification", TEXT),
    "roberta": ("RobertaForTokenClassification", "token-classification", TEXT),
    "distilbert": ("DistilBertForMaskedLM", "fill-mask", {"vocab_size": WORDS, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": 64}),
    "albert": ("AlbertForQuestionAnswering", "question-answering", {**TEXT, "embedding_size": 16}),
    "deberta_v2": ("DebertaV2Model", "feature-extraction", {**TEXT, "relative_attention": True, "position_buckets": 8, "pos_att_type": ["c2p", "p2c"], "share_att_key": True, "norm_rel_ebd": "layer_norm"}),
    "modernbert": ("ModernBertModel", "feature-extraction", {**TEXT, "global_attn_every_n_layers": 2, "local_attention": 8, "cls_token_id": 1, "sep_token_id": 2}),
    "xlm_roberta": ("XLMRobertaModel", "feature-extraction", TEXT),
    "vit": ("ViTForImageClassification", "image-classification", PICTURE),
    "dinov2": ("Dinov2Model", "feature-extraction", {**PICTURE, "mlp_ratio": 2}),
    "clip": ("CLIPModel", "zero-shot-image-classification", {"text_config": TEXT, "vision_config": PICTURE, "projection_dim": 16}),
    "siglip": ("SiglipModel", "zero-shot-image-classification", {"text_config": {**TEXT, "projection_size": 32}, "vision_config": PICTURE}),
    "wav2vec2": ("Wav2Vec2ForCTC", "automatic-speech-recognition", WAVES),
    "hubert": ("HubertForCTC", "automatic-speech-recognition", WAVES),
    "sam": ("SamModel", "feature-extraction", {"vision_config": {"hidden_size": 32, "output_channels": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "image_size": 64, "patch_size": 16, "window_size": 2, "global_attn_indexes": [1], "mlp_dim": 48, "num_pos_feats": 8},
                                             "prompt_encoder_config": {"hidden_size": 16, "image_size": 64, "patch_size": 16, "mask_input_channels": 4}, "mask_decoder_config": {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2, "iou_head_hidden_dim": 16}}),
    "trocr": (("ViTModel", PICTURE, "TrOCRForCausalLM", {"vocab_size": WORDS, "d_model": 32, "decoder_layers": 2, "decoder_attention_heads": 4, "decoder_ffn_dim": 48, "max_position_embeddings": 64, "cross_attention_hidden_size": 32}),
              "image-to-text-with-past", {}),
    "donut": (("DonutSwinModel", {"image_size": [32, 32], "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4}, "MBartForCausalLM", {**BOTH_SIDES, "d_model": 32}),
              "image-to-text-with-past", {}),
    "segformer": ("SegformerForSemanticSegmentation", "semantic-segmentation", {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 16, 32], "decoder_hidden_size": 16, "num_attention_heads": [1, 2, 2, 4]}),
}
# What Optimum's files are called, and what the graph is called here.
FILES = {"model": "", "encoder_model": ".encoder", "decoder_model": ".decoder", "decoder_with_past_model": ".decoder_with_past", "decoder_model_merged": ".merged",
         "vision_encoder": ".encoder", "prompt_encoder_mask_decoder": ".decoder"}


def seeded(model):
    """Random weights that leave every part of the network its say (a transformer's own are 0.02 wide, so that its logits are nearly one number)."""
    draw = torch.Generator().manual_seed(7)
    for name, value in sorted(model.state_dict().items()):
        if value.is_floating_point() and value.dim() > 1 and "inv_freq" not in name and "embed_positions" not in name and "slopes" not in name:
            value.copy_(torch.randn(value.shape, generator=draw) * (0.5 if "embed" in name else 1.5 / value.shape[-1] ** 0.5))
    return model.eval()


def make(kind, config):
    torch.manual_seed(3)
    if isinstance(kind, tuple):
        encoder, decoder = (make(kind[i], kind[i + 1]) for i in (0, 2))
        model = transformers.VisionEncoderDecoderModel(encoder=encoder, decoder=decoder)
        model.config.decoder_start_token_id, model.config.pad_token_id = 1, 0
        return model
    made = getattr(transformers, kind)
    return seeded(made(made.config_class(**config)))


def export(name, folder):
    """Yields the name of a graph and its path, for each file that Optimum writes."""
    convert = importlib.import_module("optimum.exporters.onnx.convert")
    kind, task, config = MODELS[name]
    with torch.no_grad():
        convert.onnx_export_from_model(make(kind, config), folder, task=task, do_validation=False)
    for file in sorted(os.listdir(folder)):
        stem, ending = os.path.splitext(file)
        if ending == ".onnx":
            yield f"{name}{FILES.get(stem, '.' + stem)}", os.path.join(folder, file)
