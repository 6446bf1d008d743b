#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One-operator models at the sizes of real networks, timed on Quarry's cpu backend and on ONNX Runtime, one thread, alternating.

    tools/bench_operators.py --program build/tools/quarry [--only TEXT ...] [--rounds 3] [--json FILE] [--markdown FILE]

Prints ours, theirs and the ratio for every case, the worst first. A ratio far over 1 is a cliff: an operator that real models use and that
nobody wrote a kernel for. Needs numpy, onnx, onnxruntime.
"""
import argparse, json, os, statistics, subprocess, sys, tempfile, time
import numpy as np
import onnx
from onnx import TensorProto as T, helper as h, numpy_helper as nh

R = np.random.default_rng(7)
CASES = {}


def case(name, op, inputs, consts=(), outs=1, opset=18, domain="", out_types=None, **attrs):
    """inputs: [(name, dtype, shape)]; consts: [(name, array)], both in operator order given by `order` in attrs or as listed."""
    order = attrs.pop("order", [i[0] for i in inputs] + [c[0] for c in consts])
    node = h.make_node(op, order, [f"y{i}" for i in range(outs)], domain=domain, **attrs)
    g = h.make_graph([node], name, [h.make_tensor_value_info(n, t, s) for n, t, s in inputs],
                     [h.make_tensor_value_info(f"y{i}", (out_types or [inputs[0][1]] * outs)[i], None) for i in range(outs)],
                     [nh.from_array(np.ascontiguousarray(a), n) for n, a in consts])
    m = h.make_model(g, opset_imports=[h.make_opsetid("", opset)] + ([h.make_opsetid(domain, 1)] if domain else []), ir_version=8)
    CASES[name] = (m, inputs)


def f(*s):
    return (R.standard_normal(s) * 0.1).astype(np.float32)


F = T.FLOAT
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


def markdown(rows, processor):
    """The page of one sweep: the geometric mean, then every case, the worst first."""
    timed = [r for r in rows if r["ratio"]]
    mean = statistics.geometric_mean(r["ratio"] for r in timed)
    lines = [f"# One operator at a time: {processor}", "",
             f"Models of one operator at sizes of real networks, one thread, ours beside ONNX Runtime's ({time.strftime('%Y-%m-%d')}); written by `tools/bench_operators.py`.",
             f"Geometric mean of {len(timed)} ratios {mean:.2f}; over 2: {sum(r['ratio'] > 2 for r in timed)}. Between 0.9 and 1.3 it may be noise.", "",
             "| case | ours, ms | ONNX Runtime, ms | ratio |", "|---|---|---|---|"]
    lines += [f"| {r['case']} | {r['ours_ms']:.3f} | {r['theirs_ms']:.3f} | {r['ratio']:.2f} |" for r in timed]
    missing = [r for r in rows if not r["ratio"]]
    if missing:
        lines += ["", "Not timed: " + "; ".join(f"{r['case']} ({r['why']})" for r in missing) + "."]
    return "\n".join(lines) + "\n"


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--program", required=True)
    a.add_argument("--only", nargs="*")
    a.add_argument("--rounds", type=int, default=3)
    a.add_argument("--seconds", type=float, default=0.3)
    a.add_argument("--json")
    a.add_argument("--markdown", help="the table as a page of docs/performance")
    a.add_argument("--processor", default="", help="named in the page")
    o = a.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as d:
        for name, (m, _) in CASES.items():
            if o.only and not any(t.lower() in name.lower() for t in o.only):
                continue
            p = os.path.join(d, name + ".onnx")
            onnx.save(m, p)
            ours, theirs, ratio, why = [], [], [], ""
            for _ in range(o.rounds):
                t = subprocess.run([sys.executable, "-c", ORT, p, str(o.seconds)], capture_output=True, text=True)
                u = subprocess.run([o.program, "bench", p, "--backend", "cpu", "--threads", "1", "--duration", str(o.seconds), "--json", "-"], capture_output=True, text=True)
                if t.returncode:
                    why = "theirs: " + t.stderr.strip().splitlines()[-1][:120]
                    break
                if u.returncode:
                    why = "ours: " + u.stderr.strip().splitlines()[0][:160]
                    break
                theirs.append(float(t.stdout)); ours.append(json.loads(u.stdout)["median_ms"]); ratio.append(ours[-1] / theirs[-1])
            r = {"case": name, "ours_ms": min(ours) if ours else None, "theirs_ms": min(theirs) if theirs else None, "ratio": statistics.median(ratio) if ratio else None, "why": why}
            rows.append(r)
            print(f"{name}: " + (why or f"{r['ours_ms']:.3f} / {r['theirs_ms']:.3f} ms = {r['ratio']:.2f}"), file=sys.stderr, flush=True)
    rows.sort(key=lambda r: -(r["ratio"] or 0))
    for r in rows:
        print(f"{r['case']:28s} " + (f"{r['ours_ms']:10.3f} {r['theirs_ms']:10.3f} {r['ratio']:8.2f}" if r["ratio"] else r["why"]))
    if o.json:
        json.dump(rows, open(o.json, "w"), indent=1)
    if o.markdown:
        with open(o.markdown, "w") as page:
            page.write(markdown(rows, o.processor))


if __name__ == "__main__":
    main()
