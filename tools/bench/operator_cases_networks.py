# SPDX-License-Identifier: Apache-2.0
"""More cases of tools/bench/bench_operators.py: operators as networks of one kind have them: language models, diffusion and speech in f16, detection transformers, vocoders."""
import numpy as np

from operator_models import R, add, f, i64

MS = "com.microsoft"
half = lambda *s: f(*s).astype(np.float16)

# ---- f16: what exporters of language models, diffusion and speech write
add("MatMul_f16_batched", "MatMul", "f16 12,128,64 -1 1", "f16 12,64,128 -1 1")
add("MatMul_f16_decode", "MatMul", "f16 1,1,2048 -1 1", half(2048, 2048))
add("MatMul_f16_decode_attention", "MatMul", "f16 32,1,64 -1 1", "f16 32,64,512 -1 1")
for form, x, w, extra in (("1x1", "1,320,32,32", (320, 320, 1, 1), {}), ("3x3_unet", "1,320,32,32", (320, 320, 3, 3), {"pads": [1] * 4}), ("depthwise", "1,64,56,56", (64, 1, 3, 3), {"pads": [1] * 4, "group": 64}), ("s2", "1,64,56,56", (128, 64, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
                          ("1d", "1,384,500", (384, 384, 3), {"pads": [1, 1]}), ("stem", "1,3,224,224", (64, 3, 7, 7), {"pads": [3] * 4, "strides": [2, 2]})):
    add(f"Conv_f16_{form}", "Conv", f"f16 {x}", half(*w), half(w[0]), **extra)
add("GroupNormalization_f16", "GroupNormalization", "f16 1,320,32,32", half(320), half(320), opset=21, num_groups=32)
add("InstanceNormalization_f16", "InstanceNormalization", "f16 1,64,56,56", half(64), half(64))
add("InstanceNormalization_unet", "InstanceNormalization", "f32 1,32,40960", f(32), f(32))  # a GroupNorm as exporters write it
add("BatchNormalization_f16", "BatchNormalization", "f16 1,64,56,56", half(64), half(64), half(64), np.abs(half(64)) + 1)
add("RMSNormalization_f16", "RMSNormalization", "f16 1,128,768", half(768), opset=23)
add("SimplifiedLayerNormalization_f16_ms", "SimplifiedLayerNormalization", "f16 1,128,768", half(768), axis=-1)
add("SkipSimplifiedLayerNormalization_f16_ms", "SkipSimplifiedLayerNormalization", "f16 1,128,768", "f16 1,128,768", half(768), domain=MS)
add("SkipLayerNorm_f16_ms", "SkipLayerNormalization", "f16 1,128,768", "f16 1,128,768", half(768), half(768), domain=MS)
add("Gelu_f16", "Gelu", "f16 1,128,768 -3 3", opset=20)
add("Gelu_f16_tanh", "Gelu", "f16 1,128,768 -3 3", opset=20, approximate="tanh")
add("FastGelu_f16_ms", "FastGelu", "f16 1,128,768 -3 3", half(768), domain=MS)
add("Swish_f16", "Swish", "f16 1,128,768 -3 3", opset=24)
add("Attention_f16", "Attention", *["f16 1,12,128,64 -1 1"] * 3, opset=23)
add("Attention_f16_decode", "Attention", "f16 1,12,1,64 -1 1", *["f16 1,12,512,64 -1 1"] * 2, opset=23)
add("MultiHeadAttention_f16_ms", "MultiHeadAttention", *["f16 1,128,768 -1 1"] * 3, domain=MS, num_heads=12)
add("RotaryEmbedding_f16", "RotaryEmbedding", "f16 1,12,128,64", half(512, 32), half(512, 32), (np.arange(128)[None],), opset=23)
add("Softmax_f16_decode", "Softmax", "f16 32,1,512")
add("Resize_linear_f16", "Resize", "f16 1,64,56,56", "", np.array([1, 1, 2, 2], np.float32), mode="linear")
for op in ("GlobalAveragePool", "AveragePool"):
    add(f"{op}_f16", op, "f16 1,64,56,56", **({} if op[0] == "G" else {"kernel_shape": [3, 3], "pads": [1] * 4}))
add("Split_f16", "Split", "f16 1,128,2304", out="f16 f16 f16", axis=-1, num_outputs=3)
add("Sin_f16", "Sin", "f16 1,128,768 -9 9")
add("Cos_f16", "Cos", "f16 1,128,768 -9 9")
add("GatherElements_f16", "GatherElements", "f16 1,128,768", "i64 1,128,768 0 128", axis=1)
add("ScatterND_f16_cache", "ScatterND", "f16 32,1024,64", (np.stack([np.arange(32), np.full(32, 7)], 1),), "f16 32,64")
add("CumSum_f16", "CumSum", "f16 1,128,768", np.int64(1))
add("PRelu_f16", "PRelu", "f16 1,64,56,56 -1 1", half(64, 1, 1))
add("LSTM_f16", "LSTM", "f16 50,1,128 -1 1", half(1, 1024, 128), half(1, 1024, 256), half(1, 2048), hidden_size=256)
add("GRU_f16", "GRU", "f16 50,1,128 -1 1", half(1, 768, 128), half(1, 768, 256), half(1, 1536), hidden_size=256, linear_before_reset=1)
add("MatMulNBits4_f16", "MatMulNBits", "f16 1,1,2048 -1 1", R.integers(0, 255, (2048, 64, 16)).astype(np.uint8), np.abs(half(2048 * 64)), domain=MS, K=2048, N=2048, bits=4, block_size=32)

# ---- language models
add("GroupQueryAttention_prompt_ms", "GroupQueryAttention", "f32 1,128,2048 -1 1", *["f32 1,128,512 -1 1"] * 2, *["f32 1,8,0,64"] * 2, (np.array([[127]], np.int32),), np.array([128], np.int32), out="f32 f32 f32", domain=MS, num_heads=32, kv_num_heads=8)
add("CumSum_positions", "CumSum", "i64 4,512 0 2", np.int64(1))
add("Softmax_logits", "Softmax", "f32 1,128256 -5 5")
add("ArgMax_logits", "ArgMax", "f32 1,128256 -5 5", out="i64", axis=-1)
add("TopK_logits", "TopK", "f32 1,128256 -5 5", i64(50), out="f32 i64", axis=-1)
add("TopK_all_logits", "TopK", "f32 1,32000 -5 5", i64(32000), out="f32 i64", axis=-1)
add("GatherElements_tokens", "GatherElements", "f32 128,32000", "i64 128,1 0 32000", axis=1)
add("ScatterElements_logits", "ScatterElements", "f32 1,32000", "i64 1,50 0 32000", "f32 1,50", axis=1)
add("Concat_cache", "Concat", "f32 1,8,511,64", "f32 1,8,1,64", axis=2)
add("Trilu_mask", "Trilu", "f32 1024,1024", i64(1)[0], upper=1)
add("Where_causal", "Where", "bool 1,1,512,512", np.float32(0), np.float32(-3.4e38), out="f32")
add("Expand_mask", "Expand", "i64 1,1,1,512 0 2", i64(4, 1, 512, 512))
add("Gather_rows_f32", "Gather", "f32 512,64", "i64 1,128 0 512", axis=0)

# ---- detectors, segmenters, and transformers of both
add("GridSample_deformable", "GridSample", "f32 8,32,80,80", "f32 8,300,4,2 -1 1", opset=20)
add("Gather_boxes", "Gather", "f32 8400,4", "i64 300 0 8400", axis=0)
add("GatherND_boxes", "GatherND", "f32 1,8400,4", "i64 1,300,1 0 8400", batch_dims=1)
add("TopK_queries", "TopK", "f32 1,13294", i64(900), out="f32 i64", axis=1)
add("TopK_anchors_least", "TopK", "f32 8,2000", i64(13), out="f32 i64", axis=1, largest=0)
add("ReduceMax_classes", "ReduceMax", "f32 1,8400,80", i64(-1))
add("ArgMax_classes", "ArgMax", "f32 1,8400,80", out="i64", axis=-1)
add("ReduceMax_class_planes", "ReduceMax", "f32 1,80,8400", i64(1))
add("ArgMax_class_planes", "ArgMax", "f32 1,80,8400", out="i64", axis=1)
add("Softmax_dfl", "Softmax", "f32 1,16,4,8400", axis=1)
add("Transpose_dfl", "Transpose", "f32 1,4,16,8400", perm=[0, 2, 1, 3])
add("Resize_linear_masks", "Resize", "f32 1,32,160,160", "", np.array([1, 1, 4, 4], np.float32), mode="linear")
add("Resize_linear_logits", "Resize", "f32 1,21,65,65", "", "", i64(1, 21, 513, 513), mode="linear", coordinate_transformation_mode="align_corners")
add("Resize_nearest_fpn", "Resize", "f32 1,256,40,40", "", np.array([1, 1, 2, 2], np.float32), mode="nearest")
add("Resize_nearest_asymmetric", "Resize", "f32 1,256,20,20", "", np.array([1, 1, 2, 2], np.float32), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
add("Resize_cubic_positions", "Resize", "f32 1,384,14,14", "", "", i64(1, 384, 37, 37), mode="cubic", antialias=0)
add("Greater_scores", "Greater", "f32 1,8400,80", np.float32(0.25), out="bool")
add("Sigmoid_scores", "Sigmoid", "f32 1,8400,80 -8 8")
add("MaxPool_peaks", "MaxPool", "f32 1,80,128,128", kernel_shape=[3, 3], pads=[1] * 4)
add("MaxPool_spp", "MaxPool", "f32 1,256,20,20", kernel_shape=[5, 5], pads=[2] * 4)
add("MaxPool_spp13", "MaxPool", "f32 1,256,20,20", kernel_shape=[13, 13], pads=[6] * 4)
add("Slice_focus", "Slice", "f32 1,3,640,640", i64(0, 0), i64(640, 640), i64(2, 3), i64(2, 2))
add("Split_boxes", "Split", "f32 1,8400,84", i64(2, 2, 80), out="f32 f32 f32", axis=2)
add("ReverseSequence_rows", "ReverseSequence", "f32 50,4,256", (np.array([50, 40, 30, 20]),), batch_axis=1, time_axis=0)

# ---- speech and sound
add("Conv_wav2vec", "Conv", "f32 1,512,3199", f(512, 512, 3), strides=[2])
add("Conv_wav2vec_positions", "Conv", "f32 1,256,200", f(256, 16, 128), pads=[64, 64], group=16)
add("Conv_whisper", "Conv", "f32 1,80,3000", f(384, 80, 3), f(384), pads=[1, 1])
add("Conv_vocoder_dilated", "Conv", "f32 1,128,2000", f(128, 128, 3), pads=[5, 5], dilations=[5])
add("ConvTranspose_vocoder16", "ConvTranspose", "f32 1,256,200", f(256, 128, 16), strides=[8], pads=[4, 4])
add("Conv_stft", "Conv", "f32 1,1,16000", f(258, 1, 256), strides=[128])
add("LeakyRelu_vocoder", "LeakyRelu", "f32 1,128,16000 -1 1", alpha=0.1)
add("Sin_phase", "Sin", "f32 1,9,24000 0 5000")
add("CumSum_phase", "CumSum", "f32 1,9,24000", np.int64(2))
add("RandomNormalLike", "RandomNormalLike", "f32 1,192,200")
add("Pad_reflect_stft", "Pad", "f32 1,80000", i64(0, 200, 0, 200), mode="reflect")
add("Pad_relative_shift", "Pad", "f32 1,8,200,399", i64(0, 0, 0, 1, 0, 0, 0, 0))
add("Softplus_flow", "Softplus", "f32 1,192,200,9 -5 5")
add("CumSum_flow", "CumSum", "f32 192,200,10", np.int64(2))
add("GatherElements_flow", "GatherElements", "f32 38400,10", "i64 38400,1 0 10", axis=1)
add("Pow_mel", "Pow", "f32 1,201,3000 0 9", np.float32(2))
add("Log_mel", "Log", "f32 1,80,3000 0.1 9")
add("ReduceSum_magnitude", "ReduceSum", "f32 1,201,3000,2", i64(-1))

# ---- small, large and odd shapes of what moves, makes or reduces elements
for form, x, extra in (("stem", "1,64,112,112", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}), ("odd", "1,13,31,29", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}), ("small", "1,8,14,14", {"kernel_shape": [2, 2], "strides": [2, 2]}),
                       ("large", "1,32,224,224", {"kernel_shape": [2, 2], "strides": [2, 2]}), ("one_channel", "1,1,512,512", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}), ("batch", "8,16,28,28", {"kernel_shape": [2, 2], "strides": [2, 2]})):
    add(f"MaxPool_{form}", "MaxPool", f"f32 {x}", **extra)
add("AveragePool_small", "AveragePool", "f32 1,8,14,14", kernel_shape=[3, 3], pads=[1] * 4)
add("AveragePool_odd", "AveragePool", "f32 1,13,31,29", kernel_shape=[3, 3], strides=[2, 2])
for form, x, size, extra in (("nearest_up3", "1,64,13,13", (1, 64, 39, 39), {"mode": "nearest"}), ("nearest_odd", "1,3,37,53", (1, 3, 101, 77), {"mode": "nearest"}), ("nearest_image_down", "1,3,640,640", (1, 3, 320, 320), {"mode": "nearest"}), ("nearest_large", "1,32,160,160", (1, 32, 320, 320), {"mode": "nearest"}),
                             ("linear_small", "1,3,32,32", (1, 3, 64, 64), {"mode": "linear"}), ("linear_image_down", "1,3,480,640", (1, 3, 224, 224), {"mode": "linear"}), ("linear_one_channel", "1,1,128,128", (1, 1, 512, 512), {"mode": "linear"})):
    add(f"Resize_{form}", "Resize", f"f32 {x}", "", "", i64(*size), **extra)
add("Tile_odd", "Tile", "f32 3,5,7", i64(2, 3, 4))
add("Tile_small", "Tile", "i64 1,16", i64(4, 1))
add("Tile_large", "Tile", "f32 1,64,56,56", i64(4, 1, 1, 1))
add("SpaceToDepth_focus", "SpaceToDepth", "f32 1,3,640,640", blocksize=2)
add("SpaceToDepth_odd", "SpaceToDepth", "f32 1,13,30,34", blocksize=2)
for form, x in (("rows17", "4096,17"), ("rows100", "1000,100"), ("rows300", "1000,300"), ("small", "1,8,8")):
    add(f"ReduceMax_{form}", "ReduceMax", f"f32 {x}", i64(-1))
add("Equal_bool_tiny", "Equal", "bool 1,256", "bool 1,256", out="bool")
add("Less_i8_rows", "Less", "i8 1,128,768", "i8 1,128,1", out="bool")
add("Range_small", "Range", "i64 - 0 1", (np.int64(512),), np.int64(1), out="i64")
add("HannWindow_400", "HannWindow", (np.int64(400),), out="f32")
add("Col2Im_small", "Col2Im", "f32 1,36,64", i64(8, 8), i64(3, 3), pads=[1] * 4)
add("Inverse_3x3_ms", "Inverse", "f32 256,3,3 -1 1", domain=MS)
for op in ("RandomNormalLike", "RandomUniformLike"):
    add(f"{op}_latents", op, "f32 1,4,64,64")
add("RandomUniformLike_large", "RandomUniformLike", "f32 1,64,112,112")
add("ReverseSequence_batch_first", "ReverseSequence", "f32 16,128,64", (np.arange(16) * 8 + 1,), batch_axis=0, time_axis=1)
add("CumSum_i64_first", "CumSum", "i64 128,768", np.int64(0))

# ---- integers, states and blocks of weights as language and graph networks have them
for rule, more in (("gated", ["f32 1,64,8 -1 0"]), ("gated_delta", ["f32 1,64,8 -1 0", "f32 1,64,8 0 1"])):
    add(f"LinearAttention_{rule}", "LinearAttention", *["f32 1,64,512 -1 1"] * 3, "f32 1,8,64,64", *more, out="f32 f32", opset=27, q_num_heads=8, kv_num_heads=8, update_rule=rule)
    add(f"LinearAttention_{rule}_token", "LinearAttention", *["f32 1,1,512 -1 1"] * 3, "f32 1,8,64,64", *[m.replace(",64,", ",1,") for m in more], out="f32 f32", opset=27, q_num_heads=8, kv_num_heads=8, update_rule=rule)
add("MatMulNBits4_zeros_prompt", "MatMulNBits", "f32 1,64,2048 -1 1", R.integers(0, 255, (2048, 64, 16)).astype(np.uint8), np.abs(f(2048 * 64)), R.integers(0, 255, 2048 * 32).astype(np.uint8), domain=MS, K=2048, N=2048, bits=4, block_size=32)
for m in (8, 16, 256):
    add(f"MatMulNBits4_rows{m}", "MatMulNBits", f"f32 1,{m},2048 -1 1", R.integers(0, 255, (2048, 64, 16)).astype(np.uint8), np.abs(f(2048 * 64)), domain=MS, K=2048, N=2048, bits=4, block_size=32)
for t in ("i32", "i64"):
    add(f"ScatterElements_add_{t}", "ScatterElements", f"{t} 1,128,768", "i64 1,64,768 0 128", f"{t} 1,64,768", axis=1, reduction="add")
    add(f"ArgMax_{t}_channel", "ArgMax", f"{t} 1,21,128,128", out="i64", axis=1)
    add(f"Range_{t}_steps", "Range", f"{t} - 0 1", (np.array(30000, np.dtype({'i32': np.int32, 'i64': np.int64}[t])),), np.array(3, np.dtype({'i32': np.int32, 'i64': np.int64}[t])), out=t)
add("ScatterElements_nodes", "ScatterElements", "f32 4096,64", "i64 8192,64 0 4096", "f32 8192,64", axis=0, reduction="add")
add("Gather_last_i32_indices", "Gather", "f32 1,512,512", "i32 512 0 512", axis=2)
add("Compress_half_bytes", "Compress", "u8 262144", "bool 262144", axis=0)
