# SPDX-License-Identifier: Apache-2.0
"""More cases of tools/bench/bench_operators.py, their names beginning with unfrozen_: graphs that nobody froze, whose weights, biases, bounds and statistics are known at run time; and the
forms beside them: other axes, ranks, types and outputs than networks mostly have."""
import numpy as np

from operator_models import add, f, i64


def unfrozen(name, *operands, **attrs):
    add("unfrozen_" + name, name.split("_")[0], *operands, **attrs)


# ---- Gemm
for form, a, b, c, extra in (("bias", "128,768", f(768, 256), "256", {}), ("b", "128,768", "768,256", f(256), {}), ("b_row", "1,768", "768,1000", f(1000), {}), ("bt", "128,768", "256,768", f(256), {"transB": 1}), ("bt_row", "1,768", "1000,768", f(1000), {"transB": 1}), ("a", "768,128", "768,256", f(256), {"transA": 1}),
                             ("at_bt", "768,128", "256,768", "256", {"transA": 1, "transB": 1}), ("all", "128,768", "768,256", "256", {}), ("scaled", "128,768", "768,256", "256", {"alpha": .5, "beta": 2.}), ("matrix", "128,768", f(768, 256), "128,256", {}), ("column", "128,768", f(768, 256), "128,1", {}), ("number", "128,768", "768,256", "1", {"beta": .5}),
                             ("none", "128,768", "768,256", "", {})):
    c = f"f32 {c} -1 1" if isinstance(c, str) and c else c
    unfrozen(f"Gemm_{form}", f"f32 {a} -1 1", f"f32 {b} -1 1" if isinstance(b, str) else b, c, **extra)
unfrozen("Gemm_constant_a", f(128, 768), "f32 768,256 -1 1", f(256))
unfrozen("Gemm_constant_a_transposed", f(768, 128), "f32 256,768 -1 1", f(256), transA=1, transB=1)
unfrozen("Gemm_f16", "f16 128,768 -1 1", "f16 768,256 -1 1", "f16 256 -1 1")
unfrozen("Gemm_f64", "f64 128,256 -1 1", "f64 256,256 -1 1", "f64 256 -1 1")
unfrozen("Gemm_f64_constant", "f64 128,256 -1 1", f(256, 256).astype(np.float64), f(256).astype(np.float64), transB=1)
unfrozen("Gemm_i32", "i32 128,256", "i32 256,256", "i32 256")
# ---- MatMul
unfrozen("MatMul_rank7", "f32 2,1,2,1,3,64,64 -1 1", "f32 2,1,2,1,3,64,64 -1 1")
unfrozen("MatMul_rank7_broadcast", "f32 2,2,2,2,3,32,64 -1 1", "f32 2,1,2,1,3,64,32 -1 1")
unfrozen("MatMul_rank8", "f32 2,1,2,1,2,2,32,64 -1 1", f(1, 2, 1, 2, 1, 2, 64, 32))
unfrozen("MatMul_rank7_weights", "f32 2,1,2,1,3,64,64 -1 1", f(64, 64))
unfrozen("MatMul_rank7_i32", "i32 2,1,2,1,3,64,64", "i32 2,1,2,1,3,64,64")
# ---- convolutions
IMG = "f32 1,64,56,56 -1 1"
CONV = {"3x3": ("64,64,3,3", {"pads": [1] * 4}), "1x1": ("128,64,1,1", {}), "1x1_s2": ("128,64,1,1", {"strides": [2, 2]}), "3x3_s2": ("128,64,3,3", {"strides": [2, 2], "pads": [1] * 4}), "depthwise": ("64,1,3,3", {"pads": [1] * 4, "group": 64}), "depthwise_s2": ("64,1,3,3", {"pads": [1] * 4, "strides": [2, 2], "group": 64}), "multiplier": ("128,1,3,3", {"pads": [1] * 4, "group": 64}),
        "group4": ("64,16,3,3", {"pads": [1] * 4, "group": 4}), "group16": ("64,4,3,3", {"pads": [1] * 4, "group": 16}), "dilated": ("64,64,3,3", {"pads": [2] * 4, "dilations": [2, 2]}), "7x7": ("32,64,7,7", {"pads": [3] * 4})}
for form, (w, extra) in CONV.items():
    o = w.split(",")[0]
    unfrozen(f"Conv_{form}", IMG, f"f32 {w} -1 1", f"f32 {o} -1 1", **extra)
    unfrozen(f"Conv_{form}_bias", IMG, f(*map(int, w.split(","))), f"f32 {o} -1 1", **extra)
unfrozen("Conv_batch", "f32 4,32,28,28 -1 1", "f32 32,32,3,3 -1 1", f(32), pads=[1] * 4)
unfrozen("Conv_1d", "f32 1,128,400 -1 1", "f32 128,128,5 -1 1", "f32 128 -1 1", pads=[2, 2])
unfrozen("Conv_1d_bias", "f32 1,128,400 -1 1", f(128, 128, 5), "f32 128 -1 1", pads=[2, 2])
unfrozen("Conv_1d_depthwise", "f32 1,256,400 -1 1", "f32 256,1,15 -1 1", pads=[7, 7], group=256)
unfrozen("Conv_3d", "f32 1,16,8,28,28 -1 1", "f32 16,16,3,3,3 -1 1", "f32 16 -1 1", pads=[1] * 6)
unfrozen("Conv_3d_bias", "f32 1,16,8,28,28 -1 1", f(16, 16, 3, 3, 3), "f32 16 -1 1", pads=[1] * 6)
unfrozen("Conv_f16", "f16 1,64,56,56 -1 1", "f16 64,64,3,3 -1 1", "f16 64 -1 1", pads=[1] * 4)
TRANSPOSED = {"2x2": ("64,32,2,2", {"strides": [2, 2]}), "4x4": ("64,32,4,4", {"strides": [2, 2], "pads": [1] * 4}), "3x3": ("64,32,3,3", {"strides": [2, 2], "pads": [1] * 4, "output_padding": [1, 1]}), "stride1": ("64,64,3,3", {"pads": [1] * 4}), "group4": ("64,16,4,4", {"strides": [2, 2], "pads": [1] * 4, "group": 4}), "depthwise": ("64,1,4,4", {"strides": [2, 2], "pads": [1] * 4, "group": 64}),
              "dilated": ("64,32,3,3", {"dilations": [2, 2]})}
for form, (w, extra) in TRANSPOSED.items():
    ic, each = map(int, w.split(",")[:2])
    o = each * extra.get("group", 1)
    unfrozen(f"ConvTranspose_{form}", "f32 1,64,28,28 -1 1", f"f32 {w} -1 1", f"f32 {o} -1 1", **extra)
    unfrozen(f"ConvTranspose_{form}_bias", "f32 1,64,28,28 -1 1", f(*map(int, w.split(","))), f"f32 {o} -1 1", **extra)
unfrozen("ConvTranspose_1d", "f32 1,128,100 -1 1", "f32 128,64,16 -1 1", strides=[8], pads=[4, 4])
unfrozen("ConvTranspose_3d", "f32 1,16,8,14,14 -1 1", "f32 16,16,2,2,2 -1 1", strides=[2] * 3)
# ---- recurrent cells
for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
    for form, steps, batch, n, given in (("w", 50, 1, 128, "w"), ("all", 50, 1, 128, "wrb"), ("step", 1, 1, 256, "wrb"), ("b", 50, 1, 128, "b"), ("batch", 20, 8, 128, "wrb")):
        w, r, b = (1, gates * n, 128), (1, gates * n, n), (1, 2 * gates * n)
        put = lambda letter, shape: f"f32 {','.join(map(str, shape))} -.1 .1" if letter in given else f(*shape)
        unfrozen(f"{op}_{form}", f"f32 {steps},{batch},128 -1 1", put("w", w), put("r", r), put("b", b), hidden_size=n)
unfrozen("LSTM_bidirectional", "f32 50,1,128 -1 1", "f32 2,512,128 -.1 .1", "f32 2,512,128 -.1 .1", "f32 2,1024 -.1 .1", hidden_size=128, direction="bidirectional")
unfrozen("GRU_after", "f32 50,1,128 -1 1", "f32 1,384,128 -.1 .1", "f32 1,384,128 -.1 .1", "f32 1,768 -.1 .1", hidden_size=128, linear_before_reset=1)
# ---- functions of one element and of two
S, I = "1,128,768", "1,64,56,56"
unfrozen("Clip_both", f"f32 {I}", "f32 -", "f32 -")
unfrozen("Clip_low", f"f32 {I}", "f32 -")
unfrozen("Clip_high", f"f32 {I}", "", "f32 -")
unfrozen("Clip_one_constant", f"f32 {I}", np.float32(0), "f32 -")
unfrozen("Clip_f16", f"f16 {I}", "f16 -", "f16 -")
unfrozen("Clip_i32", f"i32 {I}", "i32 -", "i32 -")
for t, exponent in (("i64", np.int64(2)), ("i64_3", np.int64(3)), ("i64_half", np.int64(-1)), ("i32", np.int32(2)), ("f64", np.float64(2)), ("f64_half", np.float64(.5))):
    unfrozen(f"Pow_f32_{t}", f"f32 {S}", exponent)
unfrozen("Pow_f32_i64_each", f"f32 {S}", "i64 768 1 4")
unfrozen("Pow_f32_i64_run_time", f"f32 {S}", "i64 - 2 3")
unfrozen("Pow_f16_i64", f"f16 {S}", np.int64(2))
unfrozen("Pow_f64", f"f64 {S}", np.float64(2))
unfrozen("Pow_f64_f32", f"f64 {S}", np.float32(3))
unfrozen("Pow_i32", f"i32 {S} 1 9", np.int32(2))
unfrozen("Pow_i64_f32", f"i64 {S} 1 9", np.float32(2))
unfrozen("Pow_i64_i64", f"i64 {S} 1 9", f"i64 {S} 1 4")
unfrozen("PRelu_run_time", f"f32 {I} -1 1", "f32 64,1,1")
unfrozen("PRelu_f64", f"f64 {I} -1 1", "f64 64,1,1")
unfrozen("PRelu_i32", f"i32 {I} -9 9", np.full((64, 1, 1), 3, np.int32))
unfrozen("Sum_f64", f"f64 {S}", f"f64 {S}", f"f64 {S}")
unfrozen("Mean_f64", f"f64 {S}", f"f64 {S}", f"f64 {S}")
for t in "u32", "u64", "i64", "bool", "u8", "i8", "u16", "i16", "f64", "f16":
    for a, b in (("f32", t), (t, "f32")):
        unfrozen(f"Cast_{a}_{b}", f"{a} {S}", out=b, to={"f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13}[b])
for a, b, to in (("u32", "i64", 7), ("i64", "u32", 12), ("u64", "i64", 7), ("i64", "u64", 13), ("u32", "u8", 2), ("u8", "u32", 12), ("u32", "f16", 10), ("f64", "u32", 12), ("i32", "u32", 12), ("bool", "u64", 13)):
    unfrozen(f"Cast_{a}_{b}", f"{a} {S}", out=b, to=to)
# ---- reductions
AXES = {"023": ("4,64,56,56", (0, 2, 3)), "13": ("4,16,64,64", (1, 3)), "02": ("16,64,256", (0, 2)), "024": ("4,8,16,8,32", (0, 2, 4)), "03": ("8,32,32,16", (0, 3)), "12": ("8,32,32,16", (1, 2))}
for form, (shape, axes) in AXES.items():
    for op in ("ReduceSum", "ReduceMax", "ReduceMean") if form in ("023", "13") else ("ReduceSum",):
        unfrozen(f"{op}_{form}", f"f32 {shape}", i64(*axes))
for op in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceMin"):
    unfrozen(f"{op}_13", "f32 4,16,64,64", i64(1, 3))
for t in "f64", "i32", "i64", "f16":
    unfrozen(f"ReduceSum_13_{t}", f"{t} 4,16,64,64", i64(1, 3))
unfrozen("ReduceMax_13_u8", "u8 4,16,64,64", i64(1, 3))
unfrozen("ReduceMean_i32", f"i32 {S}", i64(-1))
unfrozen("ReduceMean_keep0_13", "f32 4,16,64,64", i64(1, 3), keepdims=0)
# ---- normalisations
unfrozen("LayerNormalization_three", f"f32 {S}", f(768), f(768), out="f32 f32 f32")
unfrozen("LayerNormalization_two", f"f32 {S}", f(768), f(768), out="f32 f32")
unfrozen("LayerNormalization_run_time", f"f32 {S}", "f32 768", "f32 768")
unfrozen("LayerNormalization_three_image", f"f32 {I}", f(64, 56, 56), f(64, 56, 56), out="f32 f32 f32", axis=1)
unfrozen("LayerNormalization_broadcast", f"f32 {S}", f(1), f(1))
unfrozen("LayerNormalization_f64", f"f64 {S}", f(768).astype(np.float64), f(768).astype(np.float64))
unfrozen("BatchNormalization_run_time", f"f32 {I}", "f32 64", "f32 64", "f32 64", "f32 64")
unfrozen("BatchNormalization_mean_var", f"f32 {I}", f(64), f(64), "f32 64", "f32 64")
unfrozen("BatchNormalization_rows", "f32 128,768", "f32 768", "f32 768", "f32 768", "f32 768")
unfrozen("BatchNormalization_training", f"f32 {I}", f(64), f(64), f(64), abs(f(64)), out="f32 f32 f32", training_mode=1)
unfrozen("InstanceNormalization_run_time", f"f32 {I}", "f32 64", "f32 64")
# ---- axes, modes and constants that are known at run time
unfrozen("CumSum_axis", f"f32 {S}", (np.int64(1),))
unfrozen("MaxPool_indices", f"f32 {I}", out="f32 i64", kernel_shape=[2, 2], strides=[2, 2])
unfrozen("Dropout_mask", f"f32 {S}", out="f32 bool")
unfrozen("Pad_reflect", f"f32 {I}", i64(0, 0, 2, 2, 0, 0, 2, 2), mode="reflect")
unfrozen("Pad_edge", f"f32 {I}", i64(0, 0, 2, 2, 0, 0, 2, 2), mode="edge")
unfrozen("Pad_value", f"f32 {I}", i64(0, 0, 2, 2, 0, 0, 2, 2), "f32 -")
unfrozen("Slice_negative", f"f32 {S}", i64(-1), i64(-1000), i64(1), i64(-1))
