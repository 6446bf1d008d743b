# SPDX-License-Identifier: Apache-2.0
"""The cases of tools/bench/bench_operators.py: every operator and type of docs/operators.md at sizes of real networks (operator_models.py says how they are written)."""
import os
import sys

import numpy as np
from onnx import TensorProto as T, helper as h

from operator_models import CASES, F, R, TYPES, add, boxes, case, f, i64, keep, made_up, quantised

IMG = [1, 64, 56, 56]
SEQ = [1, 128, 768]
for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Erf", "Sqrt", "Abs", "Neg", "Floor", "Round", "Log", "Sin", "Cos", "Softplus", "Softsign", "Elu", "Selu", "HardSwish", "HardSigmoid", "Mish", "LeakyRelu", "Reciprocal", "Sign", "Celu"):
    case(op, op, [("x", F, IMG)])
case("Gelu", "Gelu", [("x", F, SEQ)], opset=20)
for op in ("Add", "Mul", "Sub", "Div", "Max", "Min", "Pow"):
    case(op, op, [("x", F, IMG), ("z", F, IMG)])
    case(op + "_channel", op, [("x", F, IMG)], [("z", np.abs(f(64, 1, 1)) + 1)])
    case(op + "_last", op, [("x", F, SEQ)], [("z", np.abs(f(768)) + 1)])
case("PRelu", "PRelu", [("x", F, IMG)], [("s", f(64, 1, 1))])
case("Clip", "Clip", [("x", F, IMG)], [("a", np.float32(0)), ("b", np.float32(6))])
case("Where", "Where", [("c", T.BOOL, SEQ), ("x", F, SEQ), ("z", F, SEQ)], out_types=[F])
case("Greater", "Greater", [("x", F, SEQ), ("z", F, SEQ)], out_types=[T.BOOL])
case("Equal_i64", "Equal", [("x", T.INT64, SEQ), ("z", T.INT64, SEQ)], out_types=[T.BOOL])
case("Not", "Not", [("x", T.BOOL, SEQ)])
case("And", "And", [("x", T.BOOL, SEQ), ("z", T.BOOL, SEQ)])
case("Add_i64", "Add", [("x", T.INT64, SEQ), ("z", T.INT64, SEQ)])
case("Mul_i32", "Mul", [("x", T.INT32, SEQ), ("z", T.INT32, SEQ)])
case("Mod_i64", "Mod", [("x", T.INT64, SEQ)], [("z", np.int64(7))])
case("Cast_f32_i64", "Cast", [("x", F, SEQ)], out_types=[T.INT64], to=T.INT64)
case("Cast_i64_f32", "Cast", [("x", T.INT64, SEQ)], out_types=[F], to=F)
case("Cast_u8_f32", "Cast", [("x", T.UINT8, [1, 3, 224, 224])], out_types=[F], to=F)
case("Cast_f32_f16", "Cast", [("x", F, SEQ)], out_types=[T.FLOAT16], to=T.FLOAT16)
case("Cast_bool_f32", "Cast", [("x", T.BOOL, SEQ)], out_types=[F], to=F)
case("QuantizeLinear", "QuantizeLinear", [("x", F, IMG)], [("s", np.float32(0.02)), ("z", np.uint8(128))], out_types=[T.UINT8])
case("DequantizeLinear", "DequantizeLinear", [("x", T.UINT8, IMG)], [("s", np.float32(0.02)), ("z", np.uint8(128))], out_types=[F])
case("DynamicQuantizeLinear", "DynamicQuantizeLinear", [("x", F, SEQ)], outs=3, out_types=[T.UINT8, F, T.UINT8])
case("Conv3x3", "Conv", [("x", F, IMG)], [("w", f(64, 64, 3, 3)), ("b", f(64))], pads=[1] * 4)
case("Conv1x1", "Conv", [("x", F, IMG)], [("w", f(128, 64, 1, 1)), ("b", f(128))])
case("Conv_depthwise3", "Conv", [("x", F, IMG)], [("w", f(64, 1, 3, 3))], pads=[1] * 4, group=64)
case("Conv_depthwise5", "Conv", [("x", F, IMG)], [("w", f(64, 1, 5, 5))], pads=[2] * 4, group=64)
case("Conv_group4", "Conv", [("x", F, IMG)], [("w", f(64, 16, 3, 3))], pads=[1] * 4, group=4)
case("Conv_dilated", "Conv", [("x", F, IMG)], [("w", f(64, 64, 3, 3))], pads=[2] * 4, dilations=[2, 2])
case("Conv_7x7s2", "Conv", [("x", F, [1, 3, 224, 224])], [("w", f(64, 3, 7, 7))], pads=[3] * 4, strides=[2, 2])
case("Conv1d", "Conv", [("x", F, [1, 256, 400])], [("w", f(256, 256, 5))], pads=[2, 2])
case("Conv1d_depthwise", "Conv", [("x", F, [1, 256, 400])], [("w", f(256, 1, 15))], pads=[7, 7], group=256)
case("Conv3d", "Conv", [("x", F, [1, 16, 16, 28, 28])], [("w", f(32, 16, 3, 3, 3))], pads=[1] * 6)
case("ConvTranspose2x2s2", "ConvTranspose", [("x", F, [1, 128, 32, 32])], [("w", f(128, 64, 2, 2)), ("b", f(64))], strides=[2, 2])
case("ConvTranspose4x4s2", "ConvTranspose", [("x", F, [1, 64, 32, 32])], [("w", f(64, 32, 4, 4))], strides=[2, 2], pads=[1] * 4)
case("ConvTranspose3x3s2", "ConvTranspose", [("x", F, [1, 64, 32, 32])], [("w", f(64, 32, 3, 3))], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1])
case("ConvTranspose1d", "ConvTranspose", [("x", F, [1, 256, 100])], [("w", f(256, 128, 16))], strides=[8], pads=[4, 4])
case("MatMul_2d", "MatMul", [("x", F, SEQ)], [("w", f(768, 768))])
case("MatMul_batched", "MatMul", [("x", F, [12, 128, 64]), ("z", F, [12, 64, 128])])
case("MatMul_vector", "MatMul", [("x", F, [1, 1, 2048])], [("w", f(2048, 2048))])
case("MatMul_f16", "MatMul", [("x", T.FLOAT16, SEQ)], [("w", f(768, 768).astype(np.float16))])
case("Gemm", "Gemm", [("x", F, [1, 2048])], [("w", f(1000, 2048)), ("b", f(1000))], transB=1)
case("MatMulInteger", "MatMulInteger", [("x", T.UINT8, [128, 768])], [("w", R.integers(-127, 127, (768, 768)).astype(np.int8))], out_types=[T.INT32])
case("Einsum_bhqk", "Einsum", [("x", F, [1, 128, 12, 64]), ("z", F, [1, 128, 12, 64])], equation="bqhd,bkhd->bhqk")
case("MaxPool3x3", "MaxPool", [("x", F, IMG)], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
case("MaxPool2x2", "MaxPool", [("x", F, IMG)], kernel_shape=[2, 2], strides=[2, 2])
case("MaxPool1d", "MaxPool", [("x", F, [1, 256, 400])], kernel_shape=[2], strides=[2])
case("AveragePool3x3", "AveragePool", [("x", F, IMG)], kernel_shape=[3, 3], pads=[1] * 4)
case("GlobalAveragePool", "GlobalAveragePool", [("x", F, IMG)])
case("GlobalMaxPool", "GlobalMaxPool", [("x", F, IMG)])
case("LpPool", "LpPool", [("x", F, IMG)], kernel_shape=[3, 3])
case("BatchNormalization", "BatchNormalization", [("x", F, IMG)], [("s", f(64)), ("b", f(64)), ("m", f(64)), ("v", np.abs(f(64)) + 1)])
case("InstanceNormalization", "InstanceNormalization", [("x", F, IMG)], [("s", f(64)), ("b", f(64))])
case("GroupNormalization", "GroupNormalization", [("x", F, IMG)], [("s", f(64)), ("b", f(64))], opset=21, num_groups=8)
case("LayerNormalization", "LayerNormalization", [("x", F, SEQ)], [("s", f(768)), ("b", f(768))])
case("RMSNormalization", "RMSNormalization", [("x", F, SEQ)], [("s", f(768))], opset=23)
case("LRN", "LRN", [("x", F, IMG)], size=5)
case("LpNormalization", "LpNormalization", [("x", F, SEQ)], axis=-1)
case("MeanVarianceNormalization", "MeanVarianceNormalization", [("x", F, IMG)])
case("Softmax_last", "Softmax", [("x", F, [1, 12, 128, 128])], axis=-1)
case("Softmax_channel", "Softmax", [("x", F, [1, 21, 65, 65])], axis=1)
case("LogSoftmax", "LogSoftmax", [("x", F, [1, 12, 128, 128])], axis=-1)
for op in ("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp"):
    case(op + "_last", op, [("x", F, SEQ)], [("a", np.array([-1], np.int64))])
case("ReduceMean_hw", "ReduceMean", [("x", F, IMG)], [("a", np.array([2, 3], np.int64))])
case("ReduceMean_channel", "ReduceMean", [("x", F, IMG)], [("a", np.array([1], np.int64))])
case("ArgMax_last", "ArgMax", [("x", F, SEQ)], out_types=[T.INT64], axis=-1)
case("ArgMax_channel", "ArgMax", [("x", F, [1, 21, 257, 257])], out_types=[T.INT64], axis=1)
case("TopK", "TopK", [("x", F, [1, 8400])], [("k", np.array([100], np.int64))], outs=2, out_types=[F, T.INT64])
case("CumSum", "CumSum", [("x", F, SEQ)], [("a", np.int64(1))])
case("Transpose_nchw_nhwc", "Transpose", [("x", F, IMG)], perm=[0, 2, 3, 1])
case("Transpose_heads", "Transpose", [("x", F, [1, 128, 12, 64])], perm=[0, 2, 1, 3])
case("Transpose_last2", "Transpose", [("x", F, [12, 128, 64])], perm=[0, 2, 1])
case("Transpose_5d", "Transpose", [("x", F, [1, 8, 8, 56, 56])], perm=[0, 2, 1, 3, 4])
case("Transpose_u8", "Transpose", [("x", T.UINT8, [1, 224, 224, 3])], perm=[0, 3, 1, 2])
case("Concat_channel", "Concat", [("x", F, IMG), ("z", F, IMG)], axis=1)
case("Concat_last", "Concat", [("x", F, SEQ), ("z", F, SEQ)], axis=-1)
case("Split_channel", "Split", [("x", F, IMG)], outs=2, axis=1, num_outputs=2)
case("Slice_step2", "Slice", [("x", F, IMG)], [("a", np.array([0, 0], np.int64)), ("b", np.array([56, 56], np.int64)), ("c", np.array([2, 3], np.int64)), ("d", np.array([2, 2], np.int64))])
case("Slice_crop", "Slice", [("x", F, IMG)], [("a", np.array([4, 4], np.int64)), ("b", np.array([52, 52], np.int64)), ("c", np.array([2, 3], np.int64))])
case("Pad_constant", "Pad", [("x", F, IMG)], [("p", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))])
case("Pad_reflect", "Pad", [("x", F, IMG)], [("p", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))], mode="reflect")
case("Pad_edge", "Pad", [("x", F, IMG)], [("p", np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int64))], mode="edge")
case("Tile", "Tile", [("x", F, SEQ)], [("r", np.array([1, 4, 1], np.int64))])
case("Expand", "Expand", [("x", F, [1, 128, 1])], [("s", np.array([12, 128, 768], np.int64))])
case("Gather_embedding", "Gather", [("i", T.INT64, [1, 128])], [("w", f(30522, 768))], order=["w", "i"], out_types=[F])
case("Gather_axis1", "Gather", [("x", F, SEQ)], [("i", R.integers(0, 128, 64))], axis=1)
case("GatherElements", "GatherElements", [("x", F, SEQ)], [("i", R.integers(0, 128, (1, 128, 768)))], axis=1)
case("GatherND", "GatherND", [("x", F, SEQ)], [("i", R.integers(0, 1, (128, 2)))])
case("ScatterND", "ScatterND", [("x", F, SEQ)], [("i", np.stack([np.zeros(64, np.int64), np.arange(64)], 1)), ("u", f(64, 768))])
case("ScatterElements", "ScatterElements", [("x", F, SEQ)], [("i", R.integers(0, 128, (1, 64, 768))), ("u", f(1, 64, 768))], axis=1)
case("OneHot", "OneHot", [("i", T.INT64, [1, 128])], [("d", np.array(1000, np.int64)), ("v", np.array([0, 1], np.float32))], out_types=[F])
case("Trilu", "Trilu", [("x", F, [12, 128, 128])])
case("DepthToSpace", "DepthToSpace", [("x", F, IMG)], blocksize=2)
case("SpaceToDepth", "SpaceToDepth", [("x", F, IMG)], blocksize=2)
case("Resize_nearest2x", "Resize", [("x", F, IMG)], [("s", np.array([1, 1, 2, 2], np.float32))], order=["x", "", "s"], mode="nearest")
case("Resize_linear2x", "Resize", [("x", F, IMG)], [("s", np.array([1, 1, 2, 2], np.float32))], order=["x", "", "s"], mode="linear")
case("Resize_linear_odd", "Resize", [("x", F, [1, 21, 33, 33])], [("s", np.array([1, 21, 257, 257], np.int64))], order=["x", "", "", "s"], mode="linear", coordinate_transformation_mode="align_corners")
case("Resize_cubic", "Resize", [("x", F, [1, 3, 112, 112])], [("s", np.array([1, 1, 2, 2], np.float32))], order=["x", "", "s"], mode="cubic")
case("GridSample", "GridSample", [("x", F, [1, 32, 64, 64]), ("g", F, [1, 64, 64, 2])])
case("RoiAlign", "RoiAlign", [("x", F, [1, 256, 50, 50])], [("r", np.abs(f(64, 4)).cumsum(1) * 100), ("b", np.zeros(64, np.int64))], output_height=7, output_width=7)
case("LSTM", "LSTM", [("x", F, [50, 1, 128])], [("w", f(1, 1024, 128)), ("r", f(1, 1024, 256)), ("b", f(1, 2048))], hidden_size=256)
case("LSTM_step", "LSTM", [("x", F, [1, 1, 128])], [("w", f(1, 1024, 128)), ("r", f(1, 1024, 256)), ("b", f(1, 2048))], hidden_size=256)
case("LSTM_bi", "LSTM", [("x", F, [50, 1, 128])], [("w", f(2, 512, 128)), ("r", f(2, 512, 128)), ("b", f(2, 1024))], hidden_size=128, direction="bidirectional")
case("GRU", "GRU", [("x", F, [50, 1, 128])], [("w", f(1, 768, 128)), ("r", f(1, 768, 256)), ("b", f(1, 1536))], hidden_size=256, linear_before_reset=1)
case("RNN", "RNN", [("x", F, [50, 1, 128])], [("w", f(1, 256, 128)), ("r", f(1, 256, 256)), ("b", f(1, 512))], hidden_size=256)
case("NonMaxSuppression", "NonMaxSuppression", [("b", F, [1, 2000, 4]), ("s", F, [1, 1, 2000])], [("m", np.array([100], np.int64)), ("i", np.array([0.5], np.float32)), ("t", np.array([0.1], np.float32))], out_types=[T.INT64])
case("NonZero", "NonZero", [("x", F, [128, 768])], out_types=[T.INT64])
case("DFT", "DFT", [("x", F, [1, 100, 512, 1])], axis=2)
case("STFT", "STFT", [("x", F, [1, 16000, 1])], [("h", np.int64(160)), ("w", np.hanning(512).astype(np.float32))], outs=1, order=["x", "h", "w"])
case("MatMulNBits4", "MatMulNBits", [("x", F, [1, 1, 2048])], [("w", R.integers(0, 255, (2048, 64, 16)).astype(np.uint8)), ("s", np.abs(f(2048 * 64)))], domain="com.microsoft", K=2048, N=2048, bits=4, block_size=32)
case("FusedGelu_ms", "Gelu", [("x", F, SEQ)], domain="com.microsoft")
case("SkipLayerNorm_ms", "SkipLayerNormalization", [("x", F, SEQ), ("z", F, SEQ)], [("g", f(768)), ("b", f(768))], domain="com.microsoft")

ORT = r'''
import onnxruntime as o, numpy as np, sys, time
o.set_default_logger_severity(4)
s=o.SessionOptions(); s.intra_op_num_threads=1; k=o.InferenceSession(sys.argv[1],s,providers=["CPUExecutionProvider"])
T={"tensor(float)":np.float32,"tensor(float16)":np.float16,"tensor(int64)":np.int64,"tensor(int32)":np.int32,"tensor(uint8)":np.uint8,"tensor(bool)":np.bool_}
b=k.io_binding()
for i in k.get_inputs(): b.bind_cpu_input(i.name, (np.random.rand(*i.shape)*1.5+0.1).astype(T[i.type]))
for y in k.get_outputs(): b.bind_output(y.name)
k.run_with_iobinding(b); t=[]; e=time.time()+float(sys.argv[2])
while time.time()<e or len(t)<5:
    a=time.perf_counter(); k.run_with_iobinding(b); t.append(time.perf_counter()-a)
print(sorted(t)[len(t)//2]*1e3)'''

# ---- every other operator and type of docs/operators.md, from tables. Names: operator, then type or form, then size.
MS = "com.microsoft"
S, L = "1,128,768", "1,64,112,112"  # in the caches, and beyond them
TINY = "1,256"
NUMBERS = ("f16", "f64", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")
INTEGERS = NUMBERS[2:]

for op in ("Relu", "Sigmoid", "Exp", "Tanh", "Abs", "HardSwish"):
    add(f"{op}_tiny", op, f"f32 {TINY}")
    add(f"{op}_large", op, f"f32 {L}")
for op in ("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cosh", "Hardmax", "Shrink", "Sinh", "Tan", "ThresholdedRelu"):
    add(op, op, f"f32 {S} " + ("1 5" if op == "Acosh" else "-0.9 0.9"), opset=22 if op == "ThresholdedRelu" else 18)
for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Erf", "Softplus", "LeakyRelu", "HardSwish", "Neg", "Abs", "Reciprocal", "Floor"):
    add(f"{op}_f16", op, f"f16 {S}")
for op in ("Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Log", "Abs", "Sin", "Round"):
    add(f"{op}_f64", op, f"f64 {S}")
for op in ("Sigmoid", "Gelu", "Softmax"):
    add(f"{op}_bf16", op, f"bf16 {S}", opset=20)
add("Swish", "Swish", f"f32 {S}", opset=24)
add("SwiGLU", "SwiGLU", f"f32 {S}", f"f32 {S}", opset=27)
add("Gelu_tanh", "Gelu", f"f32 {S}", opset=20, approximate="tanh")
for op in ("IsNaN", "IsInf"):
    add(op, op, f"f32 {S}", out="bool", opset=20)
for op, types in (("Abs", ("i8", "i32", "i64")), ("Neg", ("i8", "i32", "i64")), ("Sign", ("u8", "i32", "i64")), ("Relu", ("i8", "i32"))):
    for t in types:
        add(f"{op}_{t}", op, f"{t} {S} " + ("0 100" if t[0] == "u" else "-100 100"))
for t, a, b in (("f16", 0.2, 0.8), ("f64", 0.2, 0.8), ("i8", 20, 60), ("u8", 20, 60), ("i32", 20, 60), ("i64", 20, 60)):
    add(f"Clip_{t}", "Clip", f"{t} {S}", *(np.array(v, h.tensor_dtype_to_np_dtype(TYPES[t])) for v in (a, b)))

for op in ("Add", "Sub", "Mul", "Div", "Min", "Max"):
    for t in NUMBERS:
        if f"{op}_{t}" not in CASES:
            add(f"{op}_{t}", op, f"{t} {S}", f"{t} {S}")
    add(f"{op}_tiny", op, f"f32 {TINY}", f"f32 {TINY}")
    add(f"{op}_large", op, f"f32 {L}", f"f32 {L}")
    add(f"{op}_rows", op, f"f32 {S}", "f32 1,128,1")
add("Add_i64_last", "Add", f"i64 {S}", "i64 768")
add("Mul_f16_last", "Mul", f"f16 {S}", "f16 768")
for t in INTEGERS:
    if f"Mod_{t}" not in CASES:
        add(f"Mod_{t}", "Mod", f"{t} {S}", f"{t} {S}")
add("Mod_f32", "Mod", f"f32 {S}", f"f32 {S}", fmod=1)
for t, u in (("f32", "i64"), ("f64", "f64"), ("i32", "i32"), ("i64", "i64"), ("f16", "f16")):
    add(f"Pow_{t}_{u}", "Pow", f"{t} {S} 1 9", f"{u} {S} 1 4")
add("Pow_square", "Pow", f"f32 {S}", np.float32(2))
add("PRelu_rows", "PRelu", f"f32 {S} -1 1", f(768))
add("Sum3", "Sum", f"f32 {S}", f"f32 {S}", f"f32 {S}")
add("Mean3", "Mean", f"f32 {S}", f"f32 {S}", f"f32 {S}")
add("Max3", "Max", f"f32 {S}", f"f32 {S}", f"f32 {S}")
for op in ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"):
    for t in ("f32", "bool") + NUMBERS if op == "Equal" else ("f32",) + NUMBERS:
        if f"{op}_{t}" not in CASES and (op, t) != ("Greater", "f32"):
            add(f"{op}_{t}", op, f"{t} {S}", f"{t} {S}", out="bool", opset=19)
add("Equal_i64_scalar", "Equal", f"i64 {S}", np.int64(7), out="bool")
for op in ("Or", "Xor"):
    add(op, op, f"bool {S}", f"bool {S}")
for t in ("u8", "i16", "i32", "i64"):
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        add(f"{op}_{t}", op, f"{t} {S}", f"{t} {S}")
    add(f"BitwiseNot_{t}", "BitwiseNot", f"{t} {S}")
for t in ("u8", "u16", "u32", "u64"):
    for d in ("LEFT", "RIGHT"):
        add(f"BitShift_{t}_{d.lower()}", "BitShift", f"{t} {S}", f"{t} {S} 0 7", direction=d)
for t in ("f16", "u8", "i32", "i64", "f64"):
    add(f"Where_{t}", "Where", f"bool {S}", f"{t} {S}", f"{t} {S}", out=t)
add("Where_mask", "Where", "bool 1,1,128,128", "f32 1,12,128,128", np.float32(-1e9), out="f32")
add("Where_large", "Where", f"bool {L}", f"f32 {L}", f"f32 {L}", out="f32")
CASTS = ("f32", "f16", "bf16", "f64", "i64", "i32", "i8", "u8", "bool")
for a in CASTS:
    for b in CASTS:
        if a != b and f"Cast_{a}_{b}" not in CASES:
            add(f"Cast_{a}_{b}", "Cast", f"{a} {S}", out=b, to=TYPES[b])
add("Cast_f32_f16_large", "Cast", f"f32 {L}", out="f16", to=TYPES["f16"])
add("CastLike", "CastLike", f"f32 {S}", np.array([1], np.float16), out="f16")
add("BitCast", "BitCast", f"f32 {S}", out="i32", opset=26, to=TYPES["i32"])

# ---- sums along axes
AXES = {"last": (S, i64(-1)), "middle": (S, i64(1)), "hw": ("1,64,56,56", i64(2, 3)), "channel": ("1,64,56,56", i64(1)), "all": (S, i64(0, 1, 2)), "rows32": ("4096,32", i64(1))}
for op in ("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"):
    for form, (shape, axes) in AXES.items():
        if f"{op}_{form}" not in CASES:
            add(f"{op}_{form}", op, f"f32 {shape}", axes)
    for t in ("i32", "i64", "f64", "f16") + (("u8", "i8") if op in ("ReduceMax", "ReduceMin") else ()):
        if op in ("ReduceMax", "ReduceMin", "ReduceSum", "ReduceMean", "ReduceProd") and (op, t) != ("ReduceProd", "i32"):
            add(f"{op}_{t}", op, f"{t} {S}", i64(-1))
for op in ("ArgMax", "ArgMin"):
    for form, shape, axis in (("last", S, -1), ("channel", "1,21,257,257", 1), ("vocabulary", "1,32000", 1), ("middle", S, 1)):
        if f"{op}_{form}" not in CASES:
            add(f"{op}_{form}", op, f"f32 {shape}", out="i64", axis=axis)
    for t in ("i32", "u8", "f64"):
        add(f"{op}_{t}", op, f"{t} {S}", out="i64", axis=-1)
add("CumSum_last", "CumSum", f"f32 {S}", np.int64(2))
add("CumSum_first", "CumSum", "f32 128,768", np.int64(0))
add("CumSum_reverse", "CumSum", f"f32 {S}", np.int64(1), exclusive=1, reverse=1)
add("CumSum_i64", "CumSum", f"i64 {S}", np.int64(1))
add("CumSum_i32_last", "CumSum", f"i32 {S}", np.int64(2))
add("CumProd", "CumProd", f"f32 {S}", np.int64(1), opset=26)

# ---- choosing and moving
for form, shape, k, axis, extra in (("detector", "1,8400,80", 300, 1, {}), ("k5", "1,100000", 5, 1, {}), ("rows", "1024,1000", 5, -1, {}), ("middle", "1,1000,64", 10, 1, {}), ("all", "1,10000", 10000, 1, {}),
                                    ("smallest", "1,8400", 100, 1, {"largest": 0}), ("unsorted", "1,8400", 1000, 1, {"sorted": 0}), ("vocabulary", "1,32000", 50, 1, {}), ("experts", "128,64", 8, -1, {})):
    add(f"TopK_{form}", "TopK", f"f32 {shape} -1 1", i64(k), out="f32 i64", axis=axis, **extra)
for t in ("i64", "i32", "f64", "f16"):
    add(f"TopK_{t}", "TopK", f"{t} 1,8400 " + ("0 100000" if t[0] == "i" else "-1 1"), i64(100), out=t + " i64")
for t in ("u8", "i64", "f16"):
    add(f"Gather_{t}", "Gather", f"{t} 1000,256", "i64 512 0 1000", axis=0)
add("Gather_i32_indices", "Gather", f"f32 {S}", "i32 64 0 128", axis=1)
add("Gather_last", "Gather", f"f32 {S}", "i64 64 0 768", axis=2)
add("Gather_scalar", "Gather", f"f32 {S}", np.int64(0), axis=1)
add("Gather_elements_of_row", "Gather", "f32 32000", "i64 4096 0 32000")
for form, data, index, axis in (("last", f"f32 {S}", f"i64 {S} 0 768", 2), ("detector", "f32 1,8400,4", "i64 1,300,4 0 8400", 1), ("i64", f"i64 {S}", f"i64 {S} 0 128", 1), ("u8", f"u8 {S}", f"i64 {S} 0 128", 1), ("i32_indices", f"f32 {S}", f"i32 {S} 0 128", 1),
                                ("first", "f32 128,768", "i64 128,768 0 128", 0), ("large", "f32 1,512,4096", "i64 1,512,4096 0 512", 1)):
    add(f"GatherElements_{form}", "GatherElements", data, index, axis=axis)
add("GatherND_elements", "GatherND", f"f32 {S}", (np.stack([np.zeros(20000, np.int64), R.integers(0, 128, 20000), R.integers(0, 768, 20000)], 1),))
add("GatherND_batch", "GatherND", "f32 8,512,64", "i64 8,128,1 0 512", batch_dims=1)
add("GatherND_i64", "GatherND", "i64 512,64", "i64 2048,1 0 512")
POINTS = np.stack([R.integers(0, 128, 20000), R.integers(0, 768, 20000)], 1)
for reduction in ("none", "add", "mul", "max", "min"):
    add(f"ScatterND_rows_{reduction}", "ScatterND", "f32 128,768", "i64 64,1 0 128", "f32 64,768", reduction=reduction)
    add(f"ScatterND_elements_{reduction}", "ScatterND", "f32 128,768", (POINTS,), "f32 20000", reduction=reduction)
    add(f"ScatterElements_{reduction}", "ScatterElements", f"f32 {S}", "i64 1,64,768 0 128", "f32 1,64,768", axis=1, reduction=reduction)
add("ScatterND_i64", "ScatterND", "i64 128,768", (POINTS,), "i64 20000")
add("ScatterND_cache", "ScatterND", "f32 32,1024,64", (np.stack([np.arange(32), np.full(32, 7)], 1),), "f32 32,64")
add("ScatterElements_last", "ScatterElements", f"f32 {S}", "i64 1,128,64 0 768", "f32 1,128,64", axis=2)
add("ScatterElements_i64", "ScatterElements", f"i64 {S}", "i64 1,64,768 0 128", "i64 1,64,768", axis=1)
add("TensorScatter", "TensorScatter", "f32 4,8,512,64", "f32 4,8,1,64", (i64(5, 9, 100, 400),), opset=24)
add("OneHot_first", "OneHot", "i64 4096 0 21", np.int64(21), np.array([0, 1], np.float32), out="f32", axis=0)
add("OneHot_i64", "OneHot", "i64 1,128 0 1000", np.int64(1000), i64(0, 1), out="i64")
add("Trilu_lower", "Trilu", "f32 12,128,128", upper=0)
add("Trilu_i64", "Trilu", "i64 1,512,512")
add("Trilu_u8", "Trilu", "u8 1,512,512", i64(1)[0])
add("Trilu_bool", "Trilu", "bool 1,512,512", upper=0)
add("EyeLike", "EyeLike", "f32 512,512")
add("Range_i64", "Range", "i64 - 0 1", (np.int64(32768),), np.int64(1), out="i64")
add("Range_f32", "Range", "f32 -", (np.float32(32768),), np.float32(1), out="f32")
add("ConstantOfShape", "ConstantOfShape", (i64(128, 768),), out="f32")
add("Compress", "Compress", "f32 8400,84", "bool 8400")
add("Compress_flat", "Compress", f"f32 {S}", "bool 98304")
add("Compress_axis1", "Compress", f"f32 {S}", "bool 128", axis=1)
for t in ("bool", "i64", "u8"):
    add(f"NonZero_{t}", "NonZero", f"{t} 128,768" + ("" if t == "bool" else " 0 2"), out="i64")
add("Unique", "Unique", "f32 20000", out="f32 i64 i64 i64")
add("Unique_i64", "Unique", "i64 20000 0 500", out="i64 i64 i64 i64")
add("Unique_unsorted", "Unique", "i64 20000 0 500", out="i64", sorted=0)
add("Unique_rows", "Unique", "f32 2000,4", out="f32", axis=0)
add("ReverseSequence", "ReverseSequence", "f32 128,16,64", (np.arange(16) * 8 + 1,), batch_axis=1, time_axis=0)
for form, dtype in (("2000", "f32"), ("20000", "f32")):
    n = int(form)
    add(f"NonMaxSuppression_{form}", "NonMaxSuppression", (boxes(n, 640)[None],), (R.random((1, 1, n)).astype(np.float32),), i64(300), np.array([0.5], np.float32), np.array([0.3], np.float32), out="i64")
add("NonMaxSuppression_80_classes", "NonMaxSuppression", (boxes(8400, 640)[None],), (R.random((1, 80, 8400)).astype(np.float32) ** 4,), i64(100), np.array([0.5], np.float32), np.array([0.5], np.float32), out="i64")
for t in ("u8", "f16", "i64"):
    add(f"Concat_{t}", "Concat", f"{t} {S}", f"{t} {S}", axis=1)
    add(f"Tile_{t}", "Tile", f"{t} {S}", i64(1, 4, 1))
    add(f"Expand_{t}", "Expand", f"{t} 1,128,1", i64(12, 128, 768))
    add(f"Slice_{t}", "Slice", f"{t} {S}", i64(10), i64(100), i64(1))
    add(f"Pad_{t}", "Pad", f"{t} 1,64,56,56", i64(0, 0, 1, 1, 0, 0, 1, 1))
    add(f"Transpose_{t}_nchw_nhwc", "Transpose", f"{t} 1,64,56,56", perm=[0, 2, 3, 1])
    add(f"Transpose_{t}_heads", "Transpose", f"{t} 1,128,12,64", perm=[0, 2, 1, 3])
    add(f"DepthToSpace_{t}", "DepthToSpace", f"{t} 1,64,56,56", blocksize=2)
    add(f"SpaceToDepth_{t}", "SpaceToDepth", f"{t} 1,64,56,56", blocksize=2)
add("Concat_many", "Concat", *["f32 1,32,784"] * 8, axis=1)
add("Concat_channels_last", "Concat", "f32 1,56,56,64", "f32 1,56,56,32", axis=3)
add("Split_last", "Split", f"f32 {S}", out="f32 f32 f32", axis=-1, num_outputs=3)
add("Slice_reverse", "Slice", f"f32 {S}", i64(-1), i64(-1000), i64(1), i64(-1))
add("Slice_step2_last", "Slice", f"f32 {S}", i64(0), i64(768), i64(2), i64(2))
add("Slice_large", "Slice", f"f32 {L}", i64(1, 1), i64(111, 111), i64(2, 3))
for mode in ("reflect", "edge", "wrap"):
    add(f"Pad_{mode}_1d", "Pad", "f32 1,1,16000", i64(0, 0, 256, 0, 0, 256), mode=mode, opset=19)
    add(f"Pad_{mode}_u8", "Pad", "u8 1,3,224,224", i64(0, 0, 3, 3, 0, 0, 3, 3), mode=mode, opset=19)
add("Pad_wrap", "Pad", "f32 1,64,56,56", i64(0, 0, 1, 1, 0, 0, 1, 1), mode="wrap", opset=19)
add("Pad_crop", "Pad", "f32 1,64,56,56", i64(0, 0, -2, -2, 0, 0, -2, -2))
add("CenterCropPad", "CenterCropPad", "f32 3,256,256", i64(224, 288), axes=[1, 2])
add("Tile_image", "Tile", "f32 1,3,128,128", i64(1, 1, 2, 2))
add("Tile_batch", "Tile", f"f32 {S}", i64(8, 1, 1))
add("Tile_elements", "Tile", "f32 1,1000,1", i64(1, 1, 64))
add("Expand_rows", "Expand", "f32 1,1,768", i64(8, 128, 768))
add("Expand_heads", "Expand", "f32 1,8,1,128,64", i64(1, 8, 4, 128, 64))
for form, shape, perm in (("nhwc_nchw", "1,56,56,64", (0, 3, 1, 2)), ("large", L, (0, 2, 3, 1)), ("reverse", "32,48,64,16", (3, 2, 1, 0)), ("batch", "16,128,768", (1, 0, 2)), ("windows", "1,8,7,8,7,96", (0, 1, 3, 2, 4, 5)), ("last2_large", "1,1024,1024", (0, 2, 1))):
    add(f"Transpose_{form}", "Transpose", f"f32 {shape}", perm=perm)
add("DepthToSpace_crd", "DepthToSpace", "f32 1,64,56,56", blocksize=2, mode="CRD")
for op in ("Identity", "Shape", "Size", "Dropout"):
    add(op, op, f"f32 {S}", out="i64" if op in ("Shape", "Size") else "")
add("Flatten", "Flatten", f"f32 {S}", axis=2)
add("Reshape", "Reshape", f"f32 {S}", i64(128, 12, 64))
add("Squeeze", "Squeeze", f"f32 {S}", i64(0))
add("Unsqueeze", "Unsqueeze", f"f32 {S}", i64(0))

# ---- images
for form, x, sizes, extra in (("nearest_down", "f32 1,64,56,56", (1, 1, .5, .5), {"mode": "nearest"}), ("nearest_u8", "u8 1,3,224,224", (1, 1, 2, 2), {"mode": "nearest"}), ("nearest_f16", "f16 1,64,56,56", (1, 1, 2, 2), {"mode": "nearest"}), ("nearest_3d", "f32 1,16,16,28,28", (1, 1, 2, 2, 2), {"mode": "nearest"}),
                              ("nearest_1d", "f32 1,256,400", (1, 1, 2), {"mode": "nearest"}), ("linear_u8", "u8 1,3,224,224", (1, 1, 1.5, 1.5), {"mode": "linear"}), ("linear_down", "f32 1,3,448,448", (1, 1, .5, .5), {"mode": "linear"}), ("linear_3d", "f32 1,16,16,28,28", (1, 1, 2, 2, 2), {"mode": "linear"}), ("linear_1d", "f32 1,256,400", (1, 1, 2), {"mode": "linear"}),
                              ("linear_antialias", "f32 1,3,448,448", (1, 1, .5, .5), {"mode": "linear", "antialias": 1}), ("cubic_down", "f32 1,3,224,224", (1, 1, .5, .5), {"mode": "cubic"}), ("cubic_channels", "f32 1,64,28,28", (1, 1, 2, 2), {"mode": "cubic"}), ("cubic_antialias", "f32 1,3,224,224", (1, 1, .5, .5), {"mode": "cubic", "antialias": 1}),
                              ("linear_nhwc", "f32 1,56,56,64", (1, 2, 2, 1), {"mode": "linear"})):
    add(f"Resize_{form}", "Resize", x, "", np.array(sizes, np.float32), **extra)
add("Resize_crop", "Resize", "f32 1,3,224,224", np.array([0, 0, .1, .1, 1, 1, .9, .9], np.float32), "", i64(1, 3, 112, 112), mode="linear", coordinate_transformation_mode="tf_crop_and_resize")
for mode, padding in (("linear", "border"), ("linear", "reflection"), ("nearest", "zeros"), ("cubic", "zeros"), ("cubic", "border")):
    add(f"GridSample_{mode}_{padding}", "GridSample", "f32 1,32,64,64", "f32 1,64,64,2 -1.1 1.1", opset=20, mode=mode, padding_mode=padding)
add("GridSample_3d", "GridSample", "f32 1,8,16,32,32", "f32 1,16,32,32,3 -1.1 1.1", opset=20)
add("AffineGrid", "AffineGrid", "f32 1,2,3", i64(1, 3, 128, 128), opset=20)
ROIS = boxes(64, 50)
for form, extra in (("max", {"mode": "max"}), ("samples2", {"sampling_ratio": 2}), ("fpn", {"sampling_ratio": 2, "spatial_scale": 0.25, "output_height": 14, "output_width": 14})):
    add(f"RoiAlign_{form}", "RoiAlign", "f32 1,256,50,50", (ROIS * (4 if form == "fpn" else 1),), (np.zeros(64, np.int64),), **{"output_height": 7, "output_width": 7, **extra})
add("MaxRoiPool", "MaxRoiPool", "f32 1,256,50,50", (np.concatenate([np.zeros((64, 1), np.float32), ROIS.round()], 1),), pooled_shape=[7, 7])
add("DeformConv", "DeformConv", "f32 1,32,28,28", f(64, 32, 3, 3), "f32 1,18,28,28 -2 2", opset=22, kernel_shape=[3, 3], pads=[1] * 4)
add("Col2Im", "Col2Im", "f32 1,576,784", i64(28, 28), i64(3, 3), pads=[1] * 4)
POOLS = {"1d": ("1,256,400", {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}), "3d": ("1,16,16,28,28", {"kernel_shape": [2] * 3, "strides": [2] * 3}), "3d_3": ("1,16,16,28,28", {"kernel_shape": [3] * 3, "pads": [1] * 6}), "5x5": ("1,128,20,20", {"kernel_shape": [5, 5], "pads": [2] * 4}),
         "ceil": ("1,64,55,55", {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}), "dilated": ("1,64,56,56", {"kernel_shape": [3, 3], "dilations": [2, 2]})}
for form, (shape, extra) in POOLS.items():
    for op in ("MaxPool", "AveragePool", "LpPool"):
        add(f"{op}_{form}", op, f"f32 {shape}", opset=22, **extra)
add("MaxPool_indices", "MaxPool", "f32 1,64,56,56", out="f32 i64", kernel_shape=[2, 2], strides=[2, 2])
add("MaxPool_u8", "MaxPool", "u8 1,64,56,56", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
add("MaxPool_i8", "MaxPool", "i8 1,64,56,56", kernel_shape=[2, 2], strides=[2, 2])
add("MaxPool_f16", "MaxPool", "f16 1,64,56,56", kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
add("AveragePool_padded", "AveragePool", "f32 1,64,56,56", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1)
add("MaxUnpool", "MaxUnpool", "f32 1,64,28,28", ((np.arange(28)[:, None] * 112 + np.arange(28) * 2 + np.arange(64)[:, None, None] * 3136)[None],), kernel_shape=[2, 2], strides=[2, 2])
for op in ("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"):
    add(f"{op}_3d", op, "f32 1,16,16,28,28", opset=22)
    add(f"{op}_1d", op, "f32 1,256,400", opset=22)
add("GlobalLpPool", "GlobalLpPool", "f32 1,64,56,56")

# ---- products
CONV = {"1d_s2": ("1,128,400", (256, 128, 3), {"strides": [2], "pads": [1, 1]}), "1d_few": ("1,1,16000", (64, 1, 10), {"strides": [5]}), "1d_1x1": ("1,256,400", (256, 256, 1), {}), "3d_1x1": ("1,32,16,28,28", (64, 32, 1, 1, 1), {}), "3d_s2": ("1,16,16,28,28", (32, 16, 3, 3, 3), {"strides": [2] * 3, "pads": [1] * 6}),
        "3d_depthwise": ("1,32,16,28,28", (32, 1, 3, 3, 3), {"pads": [1] * 6, "group": 32}), "3d_dilated": ("1,16,16,28,28", (16, 16, 3, 3, 3), {"pads": [2] * 6, "dilations": [2] * 3}), "1x7": ("1,64,17,17", (64, 64, 1, 7), {"pads": [0, 3, 0, 3]}), "3x3s2": ("1,64,56,56", (128, 64, 3, 3), {"strides": [2, 2], "pads": [1] * 4}),
        "stem": ("1,3,224,224", (32, 3, 3, 3), {"strides": [2, 2], "pads": [1] * 4}), "patch16": ("1,3,224,224", (768, 3, 16, 16), {"strides": [16, 16]}), "depthwise_s2": ("1,64,56,56", (64, 1, 3, 3), {"strides": [2, 2], "pads": [1] * 4, "group": 64}), "depthwise7": ("1,96,56,56", (96, 1, 7, 7), {"pads": [3] * 4, "group": 96}),
        "multiplier2": ("1,32,56,56", (64, 1, 3, 3), {"pads": [1] * 4, "group": 32}), "group32": ("1,128,28,28", (128, 4, 3, 3), {"pads": [1] * 4, "group": 32}), "batch8": ("8,64,14,14", (64, 64, 3, 3), {"pads": [1] * 4}), "odd": ("1,13,29,31", (19, 13, 3, 3), {"auto_pad": "SAME_UPPER"})}
for form, (x, w, extra) in CONV.items():
    add(f"Conv_{form}", "Conv", f"f32 {x}", f(*w), **extra)
add("Conv_f16", "Conv", "f16 1,64,56,56", f(64, 64, 3, 3).astype(np.float16), pads=[1] * 4)
add("Conv_f64", "Conv", "f64 1,32,28,28", f(32, 32, 3, 3).astype(np.float64), pads=[1] * 4)
add("Conv_weights_at_run_time", "Conv", "f32 1,32,28,28", "f32 32,32,3,3 -1 1", pads=[1] * 4)
add("CausalConvWithState", "CausalConvWithState", "f32 1,256,128", "f32 256,1,4 -1 1", "", "f32 1,256,3", out="f32 f32", opset=27)
for form, x, w, extra in (("3d", "1,16,8,14,14", (16, 16, 2, 2, 2), {"strides": [2] * 3}), ("3d_3", "1,16,8,14,14", (16, 16, 3, 3, 3), {"strides": [2] * 3, "pads": [1] * 6}), ("depthwise", "1,64,28,28", (64, 1, 4, 4), {"strides": [2, 2], "pads": [1] * 4, "group": 64}), ("group4", "1,64,28,28", (64, 16, 4, 4), {"strides": [2, 2], "pads": [1] * 4, "group": 4}),
                          ("dilated", "1,32,28,28", (32, 32, 3, 3), {"dilations": [2, 2]}), ("stride1", "1,64,28,28", (64, 64, 3, 3), {"pads": [1] * 4}), ("vocoder", "1,64,800", (64, 32, 4), {"strides": [2], "pads": [1, 1]})):
    add(f"ConvTranspose_{form}", "ConvTranspose", f"f32 {x}", f(*w), **extra)
add("ConvTranspose_f16", "ConvTranspose", "f16 1,64,32,32", f(64, 32, 4, 4).astype(np.float16), strides=[2, 2], pads=[1] * 4)
for form, a, b in (("up", "1,128,768", "768,3072"), ("down", "1,128,3072", "3072,768"), ("small", "1,8,64", "64,64"), ("decode", "1,1,768", "768,3072"), ("batch8", "8,128,256", "256,256"), ("narrow", "1,4096,16", "16,16"), ("odd", "1,77,333", "333,111")):
    add(f"MatMul_{form}", "MatMul", f"f32 {a} -1 1", f(*map(int, b.split(","))))
add("MatMul_vectors", "MatMul", "f32 2048", "f32 2048")
add("MatMul_run_time", "MatMul", "f32 128,768", "f32 768,768")
add("MatMul_one_for_all", "MatMul", "f32 12,128,64", "f32 64,128")
add("MatMul_decode_attention", "MatMul", "f32 12,1,64", "f32 12,64,512")
for t in ("f64", "i32", "i64", "bf16"):
    add(f"MatMul_{t}", "MatMul", f"{t} 128,256", f"{t} 256,256")
for form, a, b, extra in (("rows", "128,768", (768, 768), {}), ("transposed_a", "768,128", (768, 256), {"transA": 1}), ("scaled", "128,256", (256, 256), {"alpha": 0.5, "beta": 2.0}), ("small", "1,64", (10, 64), {"transB": 1}), ("f16", "128,768", (768, 768), {})):
    t = "f16" if form == "f16" else "f32"
    add(f"Gemm_{form}", "Gemm", f"{t} {a}", f(*b).astype("float16" if t == "f16" else "float32"), f(b[0] if extra.get("transB") else b[1]).astype("float16" if t == "f16" else "float32"), **extra)
add("FusedGemm_ms", "FusedGemm", "f32 128,256", f(256, 256), f(256), domain=MS, activation="Relu")
add("FusedConv_ms", "FusedConv", "f32 1,64,28,28", f(64, 64, 3, 3), f(64), domain=MS, activation="Relu", pads=[1] * 4)
add("FusedMatMul_ms", "FusedMatMul", "f32 12,128,64", "f32 12,128,64", domain=MS, transB=1, alpha=0.125)
for equation, shapes in (("ij,jk->ik", ("128,256", "256,256")), ("bij,bjk->bik", ("12,128,64", "12,64,128")), ("bhqk,bkhd->bqhd", ("1,12,128,128", "1,128,12,64")), ("bhwc,hkc->bhwk", ("4,14,14,64", "14,14,64")), ("ij->ji", ("512,512",)), ("ii->i", ("512,512",)), ("ij->", ("512,512",)), ("ijk->jk", ("16,128,256",)), ("i,j->ij", ("512", "512")), ("bi,bi->b", ("512,256", "512,256")), ("nchw,nc->nhw", ("1,64,28,28", "1,64")), ("bij,bjk,bkl->bil", ("4,32,32", "4,32,32", "4,32,32"))):
    add("Einsum_" + equation.replace(",", "_").replace("->", "_to_"), "Einsum", *(f"f32 {s}" for s in shapes), equation=equation)
add("Det", "Det", "f32 16,32,32 -1 1", opset=22)
add("Inverse_ms", "Inverse", "f32 16,32,32 -1 1", domain=MS)

# ---- normalisations, attention, recurrent cells
add("BatchNormalization_rows", "BatchNormalization", "f32 128,768", f(768), f(768), f(768), np.abs(f(768)) + 1)
add("BatchNormalization_1d", "BatchNormalization", "f32 1,256,400", f(256), f(256), f(256), np.abs(f(256)) + 1)
add("InstanceNormalization_1d", "InstanceNormalization", "f32 1,256,400", f(256), f(256))
add("InstanceNormalization_3d", "InstanceNormalization", "f32 1,16,16,28,28", f(16), f(16))
add("GroupNormalization_unet", "GroupNormalization", "f32 1,320,32,32", f(320), f(320), opset=21, num_groups=32)
for form, shape, axis in (("small", "4096,64", -1), ("wide", "16,4096", -1), ("image", "1,64,56,56", 1)):
    shape_of = [int(n) for n in shape.split(",")][axis:]
    add(f"LayerNormalization_{form}", "LayerNormalization", f"f32 {shape}", f(*shape_of), f(*shape_of), axis=axis)
add("LayerNormalization_f16", "LayerNormalization", f"f16 {S}", f(768).astype(np.float16), f(768).astype(np.float16))
add("LRN_deep", "LRN", "f32 1,256,27,27", size=5)
add("LpNormalization_channel_p1", "LpNormalization", "f32 1,64,56,56", axis=1, p=1)
for form, shape, axis in (("vocabulary", "1,32000", -1), ("classes", "1,1000", -1), ("middle", S, 1), ("first", "128,768", 0), ("large", "12,512,512", -1)):
    for op in ("Softmax", "LogSoftmax"):
        add(f"{op}_{form}", op, f"f32 {shape}", axis=axis)
add("Softmax_f16", "Softmax", "f16 12,128,128")
add("Softmax_f64", "Softmax", "f64 12,128,128")
add("Hardmax_middle", "Hardmax", f"f32 {S}", axis=1)
add("NegativeLogLikelihoodLoss", "NegativeLogLikelihoodLoss", "f32 8,21,64,64", "i64 8,64,64 0 21", opset=22)
add("SoftmaxCrossEntropyLoss", "SoftmaxCrossEntropyLoss", "f32 8,21,64,64", "i64 8,64,64 0 21", out="f32")
add("SimplifiedLayerNormalization_ms", "SimplifiedLayerNormalization", f"f32 {S}", f(768), axis=-1)
add("SkipSimplifiedLayerNormalization_ms", "SkipSimplifiedLayerNormalization", f"f32 {S}", f"f32 {S}", f(768), domain=MS)
for op in ("BiasGelu", "FastGelu"):
    add(f"{op}_ms", op, f"f32 {S}", f(768), domain=MS)
add("QuickGelu_ms", "QuickGelu", f"f32 {S}", domain=MS)
add("EmbedLayerNormalization_ms", "EmbedLayerNormalization", "i32 1,128 0 1000", "i32 1,128 0 2", f(1000, 768), f(512, 768), f(2, 768), f(768), f(768), out="f32 i32", domain=MS)
add("Trilu_ms", "Trilu", "f32 12,128,128", domain=MS)
for form, q, kv in (("prompt", "1,12,128,64", "1,12,128,64"), ("decode", "1,12,1,64", "1,12,512,64"), ("grouped", "1,32,64,64", "1,8,64,64"), ("long", "1,8,1024,64", "1,8,1024,64")):
    add(f"Attention_{form}", "Attention", f"f32 {q} -1 1", f"f32 {kv} -1 1", f"f32 {kv} -1 1", opset=23)
add("Attention_causal", "Attention", *["f32 1,12,128,64 -1 1"] * 3, opset=23, is_causal=1)
add("Attention_ms", "Attention", "f32 1,128,768", f(768, 2304), f(2304), domain=MS, num_heads=12)
add("MultiHeadAttention_ms", "MultiHeadAttention", *["f32 1,128,768 -1 1"] * 3, domain=MS, num_heads=12)
add("GroupQueryAttention_ms", "GroupQueryAttention", "f32 1,1,2048 -1 1", "f32 1,1,512 -1 1", "f32 1,1,512 -1 1", "f32 1,8,512,64 -1 1", "f32 1,8,512,64 -1 1", (np.array([[511]], np.int32),), np.array([512], np.int32), out="f32 f32 f32", domain=MS, num_heads=32, kv_num_heads=8)
add("LinearAttention", "LinearAttention", *["f32 1,64,512 -1 1"] * 3, "f32 1,8,64,64", out="f32 f32", opset=27, q_num_heads=8, kv_num_heads=8, update_rule="linear")
add("RotaryEmbedding", "RotaryEmbedding", "f32 1,12,128,64", f(512, 32), f(512, 32), (np.arange(128)[None],), opset=23)
add("RotaryEmbedding_ms", "RotaryEmbedding", "f32 1,12,128,64", (np.arange(128)[None],), f(512, 32), f(512, 32), domain=MS)
for form, d, n in (("batch8", "50,8,128", 256), ("large_step", "1,1,1024", 1024)):
    i = int(d.split(",")[2])
    add(f"LSTM_{form}", "LSTM", f"f32 {d}", f(1, 4 * n, i), f(1, 4 * n, n), f(1, 8 * n), hidden_size=n)
    add(f"GRU_{form}", "GRU", f"f32 {d}", f(1, 3 * n, i), f(1, 3 * n, n), f(1, 6 * n), hidden_size=n)
    add(f"RNN_{form}", "RNN", f"f32 {d}", f(1, n, i), f(1, n, n), f(1, 2 * n), hidden_size=n)
add("GRU_bi", "GRU", "f32 50,1,128", f(2, 384, 128), f(2, 384, 128), f(2, 768), hidden_size=128, direction="bidirectional", linear_before_reset=1)
add("LSTM_lengths", "LSTM", "f32 50,4,128", f(1, 512, 128), f(1, 512, 128), f(1, 1024), (np.array([50, 40, 30, 20], np.int32),), hidden_size=128)
add("LSTM_peepholes", "LSTM", "f32 50,1,128", f(1, 512, 128), f(1, 512, 128), f(1, 1024), "", "", "", f(1, 384), hidden_size=128)

# ---- signals
for form, n, extra in (("400", 400, {}), ("prime", 509, {}), ("small", 64, {}), ("large", 4096, {}), ("onesided", 512, {"onesided": 1})):
    add(f"DFT_{form}", "DFT", f"f32 1,100,{n},1", "", i64(2)[0], opset=20, **extra)
add("DFT_complex", "DFT", "f32 1,100,512,2", "", i64(2)[0], opset=20)
add("DFT_inverse", "DFT", "f32 1,100,512,2", "", i64(2)[0], opset=20, inverse=1)
add("DFT_axis1", "DFT", "f32 1,256,64,1", "", i64(1)[0], opset=20)
add("STFT_400", "STFT", "f32 1,16000,1", np.int64(160), np.hanning(400).astype(np.float32))
add("STFT_long", "STFT", "f32 1,160000,1", np.int64(256), np.hanning(1024).astype(np.float32))
for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
    add(op, op, (np.int64(4096),), out="f32")
add("MelWeightMatrix", "MelWeightMatrix", (np.int64(80),), np.int64(512), np.int64(16000), np.float32(0), np.float32(8000), out="f32")

# ---- integers that stand for reals
for form, x, scale, zero, extra in (("channel", f"f32 {S}", (np.abs(f(128)) + 0.01), np.zeros(128, np.int8), {"axis": 1}), ("i8", f"f32 {S}", np.float32(0.02), np.int8(0), {}), ("u16", f"f32 {S}", np.float32(0.001), np.uint16(100), {}), ("f16", f"f16 {S}", np.float16(0.02), np.uint8(128), {}), ("large", f"f32 {L}", np.float32(0.02), np.uint8(128), {})):
    add(f"QuantizeLinear_{form}", "QuantizeLinear", x, scale, zero, out={"i": "i8", "u": "u8"}[zero.dtype.kind] if zero.dtype.itemsize == 1 else "u16", opset=21, **extra)
for form, x, scale, zero, extra in (("channel", f"i8 {S}", (np.abs(f(128)) + 0.01), np.zeros(128, np.int8), {"axis": 1}), ("last", f"u8 {S}", (np.abs(f(768)) + 0.01), np.zeros(768, np.uint8), {"axis": 2}), ("blocks", "i8 768,768", np.abs(f(768, 24)) + 0.01, np.zeros((768, 24), np.int8), {"axis": 1, "block_size": 32}), ("i32", f"i32 {S}", np.float32(0.02), np.int32(0), {}),
                                    ("u16", f"u16 {S}", np.float32(0.02), np.uint16(7), {}), ("f16", f"u8 {S}", np.float16(0.02), np.uint8(128), {}), ("large", f"u8 {L}", np.float32(0.02), np.uint8(128), {})):
    add(f"DequantizeLinear_{form}", "DequantizeLinear", x, scale, zero, out="f16" if form == "f16" else "f32", opset=21, **extra)
add("DynamicQuantizeLinear_large", "DynamicQuantizeLinear", f"f32 {L}", out="u8 f32 u8")
add("QuantizeLinear_ms", "QuantizeLinear", f"f32 {S}", np.float32(0.02), np.uint16(128), out="u16", domain=MS)
add("DequantizeLinear_ms", "DequantizeLinear", f"u16 {S}", np.float32(0.02), np.uint16(128), out="f32", domain=MS)
Z, W8 = np.uint8(128), lambda *s: R.integers(-127, 127, s).astype(np.int8)
for form, w, extra in (("3x3", (64, 64, 3, 3), {"pads": [1] * 4}), ("1x1", (128, 64, 1, 1), {}), ("depthwise", (64, 1, 3, 3), {"pads": [1] * 4, "group": 64}), ("depthwise_s2", (64, 1, 3, 3), {"pads": [1] * 4, "strides": [2, 2], "group": 64}), ("depthwise5", (64, 1, 5, 5), {"pads": [2] * 4, "group": 64}),
    ("depthwise5_s2", (64, 1, 5, 5), {"pads": [2] * 4, "strides": [2, 2], "group": 64}), ("depthwise7", (64, 1, 7, 7), {"pads": [3] * 4, "group": 64}), ("depthwise_dilated", (64, 1, 3, 3), {"pads": [2] * 4, "dilations": [2, 2], "group": 64}), ("s2", (128, 64, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}), ("group4", (64, 16, 3, 3), {"pads": [1] * 4, "group": 4}), ("u8u8", (64, 64, 3, 3), {"pads": [1] * 4})):
    weights, wz = (W8(*w), np.int8(0)) if form != "u8u8" else (R.integers(0, 255, w).astype(np.uint8), np.uint8(128))
    add(f"QLinearConv_{form}", "QLinearConv", "u8 1,64,56,56 0 255", np.float32(.02), Z, weights, np.float32(.01), wz, np.float32(.5), Z, R.integers(-999, 999, w[0]).astype(np.int32), **extra)
for form, x, w in (("3x3", "u8 1,32,28,28 0 255", (32, 32, 3, 3)), ("1x1", "u8 1,64,28,28 0 255", (64, 64, 1, 1))):
    add(f"ConvInteger_{form}", "ConvInteger", x, R.integers(0, 255, w).astype(np.uint8), Z, np.uint8(127), out="i32")
for form, a, zero in (("u8", "u8 1,128,768 0 255", Z), ("i8", "i8 1,128,768 -127 127", np.int8(0)), ("vector", "u8 1,1,2048 0 255", Z)):
    k = int(a.split()[1].split(",")[2])
    add(f"QLinearMatMul_{form}", "QLinearMatMul", a, np.float32(.02), zero, W8(k, k), np.float32(.01), np.int8(0), np.float32(.5), zero)
    add(f"MatMulInteger_{form}", "MatMulInteger", a, W8(k, k), zero, np.int8(0), out="i32")
add("MatMulInteger_run_time", "MatMulInteger", "u8 12,128,64 0 255", "i8 12,64,128 -127 127", out="i32")
add("MatMulInteger_columns", "MatMulInteger", "u8 128,768 0 255", R.integers(0, 255, (768, 768)).astype(np.uint8), Z, R.integers(120, 130, 768).astype(np.uint8), out="i32")
Q = ["u8 1,64,56,56 0 255", np.float32(.02), Z]
for op in ("QLinearAdd", "QLinearMul"):
    add(f"{op}_ms", op, *Q, *Q, np.float32(.04), Z, domain=MS)
    add(f"{op}_channel_ms", op, *Q, R.integers(0, 255, (64, 1, 1)).astype(np.uint8), np.float32(.01), Z, np.float32(.04), Z, domain=MS)
for op, extra in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearGlobalAveragePool", {}), ("QLinearAveragePool", {"kernel_shape": [3, 3], "pads": [1] * 4})):
    add(f"{op}_ms", op, *Q, np.float32(.01), Z, domain=MS, **extra)
add("QLinearSoftmax_ms", "QLinearSoftmax", "u8 12,128,128 0 255", np.float32(.02), Z, np.float32(1 / 256), np.uint8(0), domain=MS, more={"opset": 18}, axis=-1)
add("QLinearConcat_ms", "QLinearConcat", np.float32(.02), Z, *Q, "u8 1,64,56,56 0 255", np.float32(.03), Z, out="u8", domain=MS, axis=1)
add("DynamicQuantizeMatMul_ms", "DynamicQuantizeMatMul", f"f32 {S} -1 1", W8(768, 768), np.float32(.01), np.int8(0), domain=MS)
add("MatMulIntegerToFloat_ms", "MatMulIntegerToFloat", f"u8 {S} 0 255", W8(768, 768), np.float32(.02), np.float32(.01), Z, np.int8(0), out="f32", domain=MS)
add("DynamicQuantizeLSTM_ms", "DynamicQuantizeLSTM", "f32 50,1,128 -1 1", W8(1, 128, 1024), W8(1, 256, 1024), f(1, 2048), "", "", "", "", np.full(1, .01, np.float32), np.zeros(1, np.int8), np.full(1, .01, np.float32), np.zeros(1, np.int8), domain=MS, hidden_size=256)
for bits in (2, 4, 8):
    for block in (16, 32, 64, 128):
        for form, m in (("", 1), ("_prompt", 64)):
            if (bits, block, m) == (4, 32, 1) or (m == 64 and block != 32) or (bits == 2 and block == 64):
                continue
            add(f"MatMulNBits{bits}_block{block}{form}", "MatMulNBits", f"f32 1,{m},2048 -1 1", R.integers(0, 255, (2048, 2048 // block, block * bits // 8)).astype(np.uint8), np.abs(f(2048 * (2048 // block))), domain=MS, K=2048, N=2048, bits=bits, block_size=block)
add("MatMulNBits4_zeros", "MatMulNBits", "f32 1,1,2048 -1 1", R.integers(0, 255, (2048, 64, 16)).astype(np.uint8), np.abs(f(2048 * 64)), R.integers(0, 255, 2048 * 32).astype(np.uint8), domain=MS, K=2048, N=2048, bits=4, block_size=32)
IM = [1, 64, 56, 56]
quantised("QDQ_Conv3x3", "Conv", IM, (64, 64, 3, 3), pads=[1] * 4)
quantised("QDQ_Conv1x1", "Conv", IM, (64, 64, 1, 1))
quantised("QDQ_Conv_depthwise", "Conv", IM, (64, 1, 3, 3), pads=[1] * 4, group=64)
quantised("QDQ_Conv1d", "Conv", [1, 256, 400], (256, 256, 5), pads=[2, 2])
quantised("QDQ_Conv3d", "Conv", [1, 16, 16, 28, 28], (16, 16, 3, 3, 3), pads=[1] * 6)
quantised("QDQ_ConvTranspose2x2", "ConvTranspose", [1, 64, 32, 32], (64, 64, 2, 2), strides=[2, 2], weight_axis=1)
quantised("QDQ_ConvTranspose4x4", "ConvTranspose", [1, 64, 32, 32], (64, 64, 4, 4), strides=[2, 2], pads=[1] * 4, weight_axis=1)
quantised("QDQ_MatMul", "MatMul", [1, 128, 768], (768, 768), weight_axis=1)
quantised("QDQ_MatMul_vector", "MatMul", [1, 1, 2048], (2048, 2048), weight_axis=1)
for op in ("Relu", "Sigmoid", "Tanh", "HardSwish", "LeakyRelu", "Elu", "Erf", "Softplus"):
    quantised(f"QDQ_{op}", op, IM)
for op in ("Add", "Sub", "Mul", "Div", "Max", "Min"):
    quantised(f"QDQ_{op}", op, IM, second=True)
quantised("QDQ_Concat", "Concat", IM, second=True, axis=1)
quantised("QDQ_Softmax", "Softmax", [12, 128, 128], axis=-1)
quantised("QDQ_LayerNormalization", "LayerNormalization", [1, 128, 768], others=(f(768), f(768)))
quantised("QDQ_InstanceNormalization", "InstanceNormalization", IM, others=(f(64), f(64)))
quantised("QDQ_MaxPool", "MaxPool", IM, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
quantised("QDQ_MaxPool_1d", "MaxPool", [1, 256, 400], kernel_shape=[2], strides=[2])
quantised("QDQ_AveragePool", "AveragePool", IM, kernel_shape=[3, 3], pads=[1] * 4)
quantised("QDQ_AveragePool_3d", "AveragePool", [1, 16, 16, 28, 28], kernel_shape=[2] * 3, strides=[2] * 3)
quantised("QDQ_GlobalAveragePool", "GlobalAveragePool", IM)
quantised("QDQ_ReduceMean", "ReduceMean", IM, others=(i64(2, 3),))
quantised("QDQ_ReduceMax", "ReduceMax", IM, others=(i64(2, 3),))
quantised("QDQ_Resize_nearest", "Resize", IM, others=((), np.array([1, 1, 2, 2], np.float32)), mode="nearest")
quantised("QDQ_Resize_linear", "Resize", IM, others=((), np.array([1, 1, 2, 2], np.float32)), mode="linear")
quantised("QDQ_Transpose", "Transpose", IM, perm=[0, 2, 3, 1])
quantised("QDQ_Clip", "Clip", IM, others=(np.float32(0), np.float32(2)))
quantised("QDQ_Pad", "Pad", IM, others=(i64(0, 0, 1, 1, 0, 0, 1, 1),))
quantised("QDQ_Pow", "Pow", IM, others=(np.float32(2),))
quantised("QDQ_GridSample", "GridSample", [1, 32, 64, 64], others=((R.random((1, 64, 64, 2)) * 2 - 1).astype(np.float32),))
quantised("QDQ_Gather", "Gather", [1, 128, 768], others=(R.integers(0, 128, 64),), axis=1)
quantised("QDQ_TopK_reduce", "ReduceSum", [1, 128, 768], others=(i64(-1),))


def bodies():
    """The operators that run graphs of their own: a hundred rounds of one addition, and a choice."""
    row, no_type = [1, 256], lambda n: h.make_tensor_value_info(n, F, None)
    value = lambda n, t=F, s=row: h.make_tensor_value_info(n, t, s)
    x = made_up(F, row)
    loop = h.make_graph([h.make_node("Identity", ["go_in"], ["go"]), h.make_node("Add", ["v_in", "v_in"], ["v"])], "loop", [value("i", T.INT64, []), value("go_in", T.BOOL, []), value("v_in")], [value("go", T.BOOL, []), value("v")])
    keep("Loop", [h.make_node("Loop", ["trips", "", "x"], ["y"], body=loop)], {"x": x}, {"trips": np.int64(100)}, {"y": F}, 18, "")
    scan = h.make_graph([h.make_node("Add", ["s_in", "e"], ["s"]), h.make_node("Identity", ["s"], ["each"])], "scan", [value("s_in", F, [256]), value("e", F, [256])], [value("s", F, [256]), value("each", F, [256])])
    keep("Scan", [h.make_node("Scan", ["x", "all"], ["y", "ys"], body=scan, num_scan_inputs=1)], {"x": x[0], "all": made_up(F, [100, 256])}, {}, {"y": F, "ys": F}, 18, "")
    branch = lambda op: h.make_graph([h.make_node(op, ["x"], ["r"])], op, [], [no_type("r")])
    keep("If", [h.make_node("If", ["c"], ["y"], then_branch=branch("Relu"), else_branch=branch("Neg"))], {"c": np.array(True), "x": x}, {}, {"y": F}, 18, "")


bodies()

import operator_cases_networks  # noqa: E402,F401 (behind the cases here, whose made-up values stay as they were)
import operator_cases_unfrozen  # noqa: E402,F401

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "cases"))
import case_tables  # noqa: E402

COVERED = {op for one in CASES.values() for op in one.ops}
for name, one in {**case_tables.functions(), **case_tables.binary(), **case_tables.reductions()}.items():
    if (one.domain, name) not in COVERED:
        add(name, name, *(f"f32 {S} {low} {high}" for low, high in one.ranges), domain=one.domain, opset=one.opset, **one.attributes)
for name, rows in case_tables.operators().items():
    for number, one in enumerate(rows if (rows[0].domain, name) not in COVERED else ()):
        extents = dict.fromkeys(one.letters(), 256)
        operands = [f"f32 {','.join(map(str, o.shape(extents)))} {o.low} {o.high}" if not o.values else np.array(o.values, np.int64).reshape(o.shape({})) for o in one.operands]
        add(f"{name}_{number}" if number else name, name, *operands, domain=one.domain, opset=one.opset, **one.attributes)
