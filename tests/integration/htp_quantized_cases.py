"""QDQ models written by hand: what exporters give besides ONNX Runtime's tool, and what Qualcomm's library takes wrongly as it stands.

CASES: name -> (model, how many steps of its output a result may be off by, the SoCs that it runs for; others refuse it). A float output's step is 0.001.
"""
import numpy as np
from onnx import TensorProto as T, helper as h, numpy_helper as nh

# What v68 cannot prepare, or computes with another operation, is NEW's.
EVERY = ("SM8350", "SM8650", "SM8850")  # v68, v75, v81
NEW = ("SM8650", "SM8850")
R = np.random.default_rng(11)
CASES = {}
KIND = {"u8": (np.uint8, T.UINT8, 0, 255), "s8": (np.int8, T.INT8, -128, 127), "u16": (np.uint16, T.UINT16, 0, 65535), "s16": (np.int16, T.INT16, -32768, 32767)}


class Model:
    def __init__(self):
        self.nodes, self.constants, self.inputs = [], [], []

    def constant(self, array, name=None):
        name = name or f"c{len(self.constants)}"
        self.constants.append(array if isinstance(array, T) else nh.from_array(np.asarray(array), name))
        return name

    def of(self, op, inputs, **attributes):
        out = f"t{len(self.nodes)}"
        self.nodes.append(h.make_node(op, inputs, [out], name=f"{op}{len(self.nodes)}", **attributes))
        return out

    def input(self, shape, name="x"):
        self.inputs.append(h.make_tensor_value_info(name, T.FLOAT, shape))
        return name

    def cut(self, x, kind, low, high):
        """QuantizeLinear and DequantizeLinear for a range."""
        dtype, _, least, most = KIND[kind]
        scale = np.float32((high - low) / (most - least))
        zero = dtype(np.clip(round(least - low / scale), least, most))
        if kind[0] == "s" and low == -high:
            scale, zero = np.float32(high / most), dtype(0)
        parameters = [self.constant(scale), self.constant(zero)]
        return self.of("DequantizeLinear", [self.of("QuantizeLinear", [x, *parameters]), *parameters])

    def weights(self, w, dtype, axis=None, zero=0, bits=8):
        """Stored integers, symmetric but for `zero`, with one scale or one along an axis."""
        most = 2 ** (bits - 1) - 1
        largest = np.abs(w).max() if axis is None else np.abs(w).max(axis=tuple(i for i in range(w.ndim) if i != axis))
        scale = (largest / most).astype(np.float32)
        by = scale if axis is None else scale.reshape([-1 if i == axis else 1 for i in range(w.ndim)])
        stored = np.clip(np.rint(w / by) + zero, *((-most - 1, most) if np.dtype(dtype).kind == "i" else (0, 255))).astype(dtype)
        zeros = np.full(scale.shape, zero, dtype)
        if bits == 4:
            name = f"c{len(self.constants)}"
            packed = h.make_tensor(name, T.INT4, stored.shape, stored.ravel().tolist())
            self.constants.append(packed)
            return self.of("DequantizeLinear", [name, self.constant(scale)], **({} if axis is None else {"axis": axis})), scale
        inputs = [self.constant(stored), self.constant(scale), self.constant(zeros)]
        return self.of("DequantizeLinear", inputs, **({} if axis is None else {"axis": axis})), scale

    def bias(self, b, scale):
        scale = np.asarray(scale, np.float32)
        stored = np.rint(b / scale).astype(np.int32)
        return self.of("DequantizeLinear", [self.constant(stored), self.constant(scale)], **({"axis": 0} if scale.ndim else {}))

    def done(self, y, opset=21):
        self.nodes[-1].output[0] = "y"
        graph = h.make_graph(self.nodes, "m", self.inputs, [h.make_tensor_value_info("y", T.FLOAT, None)], self.constants)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=10)


def f(*shape):
    return (R.standard_normal(shape) * 0.2).astype(np.float32)


def conv(kind, weights, bias, tolerance, socs=EVERY, w=None, out=(-3.0, 3.0), **attributes):
    m = Model()
    x = m.cut(m.input([1, 8, 12, 12]), kind, 0.0, 1.0) if kind[0] == "u" else m.cut(m.input([1, 8, 12, 12]), kind, -1.0, 1.0)
    w, scale = weights(m, f(16, 8, 3, 3) if w is None else w)
    x_scale = (1.0 / KIND[kind][3]) if kind[0] == "s" else (1.0 / (KIND[kind][3] - KIND[kind][2]))
    b = [m.bias(f(16), {"counted": np.float32(x_scale) * scale, "tensor": np.float32(1e-4)}[bias])] if bias else []
    return m.done(m.cut(m.of("Conv", [x, w, *b], **attributes), kind, *out)), tolerance, socs


def case(name, made):
    CASES[name] = made


# ---- weights and bias: a bias that does not have the scales of the weights is dropped by the library, or read as if it had
for kind, steps in (("u8", 1), ("s8", 1), ("u16", 40), ("s16", 40)):
    case(f"conv_{kind}_weights_s8", conv(kind, lambda m, w: m.weights(w, np.int8), "counted", steps))
    case(f"conv_{kind}_weights_s8_axis", conv(kind, lambda m, w: m.weights(w, np.int8, 0), "counted", steps))
    case(f"conv_{kind}_weights_s8_bias_of_its_own", conv(kind, lambda m, w: m.weights(w, np.int8), "tensor", steps))
case("conv_u8_weights_axis_bias_of_one_scale", conv("u8", lambda m, w: m.weights(w, np.int8, 0), "tensor", 1))
case("conv_u16_weights_axis_bias_of_one_scale", conv("u16", lambda m, w: m.weights(w, np.int8, 0), "tensor", 40))
case("conv_u8_weights_u8", conv("u8", lambda m, w: m.weights(w, np.uint8, zero=120), "counted", 1))
# distances from the zero point that need a ninth bit, for which the library gives up the last one of the whole output channel
NINE = np.full((16, 8, 3, 3), 3 / 255, np.float32)
NINE[:, 0, 1, 1] = 1
case("conv_u8_weights_u8_past_s8", conv("u8", lambda m, w: m.weights(w, np.uint8, zero=51, bits=9), None, 1, w=NINE, out=(0.0, 2.0)))
case("conv_u8_weights_u8_past_s8_depthwise", conv("u8", lambda m, w: m.weights(w, np.uint8, zero=51, bits=9), None, 1, w=NINE[:8, :1], out=(0.0, 1.0), group=8))
case("conv_u16_weights_u8_past_s8", conv("u16", lambda m, w: m.weights(np.abs(w), np.uint8, zero=10), "counted", 40))
case("conv_u16_weights_u8_dilated", conv("u16", lambda m, w: m.weights(w, np.uint8, zero=120), "counted", 40, dilations=[2, 2], pads=[2] * 4))
case("conv_u16_weights_s16", conv("u16", lambda m, w: m.weights(w, np.int16, bits=16), "counted", 40))
# ---- weights of 4 bits
for kind, steps in (("u8", 1), ("u16", 40)):
    case(f"conv_{kind}_weights_4_axis", conv(kind, lambda m, w: m.weights(w, np.int8, 0, bits=4), "counted", steps))
    case(f"conv_{kind}_weights_4", conv(kind, lambda m, w: m.weights(w, np.int8, bits=4), "counted", steps))


def product(kind, dtype, bits, tolerance, axis=None, block=None, socs=EVERY, w=None, zero=0, out=(-6.0, 6.0), op="MatMul"):
    m = Model()
    x = m.cut(m.input([4, 64]), kind, 0.0, 1.0)
    w = f(64, 32) if w is None else w
    if block:
        by = (np.abs(w).reshape(64 // block, block, 32).max(1) / 7).astype(np.float32)
        stored = np.clip(np.rint(w / np.repeat(by, block, 0)), -8, 7).astype(np.int8)
        m.constants.append(h.make_tensor("w4", T.INT4, stored.shape, stored.ravel().tolist()))
        w = m.of("DequantizeLinear", ["w4", m.constant(by)], axis=0, block_size=block)
    else:
        w, _ = m.weights(w, dtype, axis, zero, bits)
    return m.done(m.cut(m.of(op, [x, w]), kind, *out)), tolerance, socs


for kind, steps in (("u8", 1), ("u16", 40)):
    case(f"matmul_{kind}_weights_s8", product(kind, np.int8, 8, steps))
    case(f"matmul_{kind}_weights_s8_axis", product(kind, np.int8, 8, steps, axis=1))
    case(f"matmul_{kind}_weights_4_axis", product(kind, np.int8, 4, steps, axis=1))
    case(f"matmul_{kind}_weights_4_blocks", product(kind, np.int8, 4, steps, block=32))


NINE = np.full((64, 32), 3 / 255, np.float32)
NINE[0] = 1
for op in ("MatMul", "Gemm"):
    case(f"{op.lower()}_u8_weights_u8_past_s8", product("u8", np.uint8, 9, 1, w=NINE, zero=51, out=(0.0, 2.0), op=op))


def pair(op, kind, tolerance, ranges=((0.0, 1.0), (0.0, 1.0)), out=(0.0, 2.0), shape=(2, 4, 8, 8), socs=EVERY, **attributes):
    m = Model()
    a, b = (m.cut(m.input(list(shape), name), kind, *r) for name, r in zip("xz", ranges))
    if op == "Div":  # away from 0
        b = m.cut(m.of("Add", [b, m.constant(np.float32(1.5))]), kind, *((0.0, 2.5) if kind[0] == "u" else (-2.5, 2.5)))
    return m.done(m.cut(m.of(op, [a, b], **attributes), kind, *out)), tolerance, socs


for kind, steps in (("u8", 1), ("s8", 1), ("u16", 40), ("s16", 40)):
    signed = ((-1.0, 1.0), (-1.0, 1.0)) if kind[0] == "s" else ((0.0, 1.0), (0.0, 1.0))
    case(f"div_{kind}", pair("Div", kind, 2 if steps == 1 else 60, signed, (-2.0, 2.0)))
    case(f"add_{kind}", pair("Add", kind, steps, signed, (-2.0, 2.0)))
    case(f"matmul_{kind}_two_values", pair("MatMul", kind, 2 if steps == 1 else 8, signed, (-8.0, 8.0), (2, 8, 8)))
for kind in ("u16", "s16"):  # of ranges that the numbers hardly use
    case(f"matmul_{kind}_two_values_in_wide_ranges", pair("MatMul", kind, 8, ((-40.0, 40.0),) * 2, (-8.0, 8.0), (2, 8, 8)))


def unary(op, kind, tolerance, low=-1.0, high=1.0, out=(-1.0, 1.0), shape=(1, 4, 6, 10), socs=EVERY, constants=(), **attributes):
    m = Model()
    x = m.cut(m.input(list(shape)), kind, low, high)
    return m.done(m.cut(m.of(op, [x, *[m.constant(c) for c in constants]], **attributes), kind, *out)), tolerance, socs


for kind, steps in (("u8", 1), ("s8", 1), ("u16", 40), ("s16", 40)):
    case(f"softmax_axis_1_{kind}", unary("Softmax", kind, 2 * steps if steps > 1 else 1, out=(0.0, 1.0), axis=1))
    case(f"average_pool_{kind}", unary("AveragePool", kind, steps, kernel_shape=[2, 2], strides=[2, 2]))
    case(f"softplus_{kind}", unary("Softplus", kind, steps, out=(0.0, 2.0)))
    case(f"neg_{kind}", unary("Neg", kind, steps))
    case(f"abs_{kind}", unary("Abs", kind, steps))
    case(f"gather_to_another_range_{kind}", unary("GatherND", kind, steps, out=(-2.0, 2.0), constants=[np.array([[0, 3], [0, 1]], np.int64)]))
    case(f"transpose_to_another_range_{kind}", unary("Transpose", kind, steps, out=(-2.0, 2.0), perm=[0, 3, 1, 2]))
    case(f"hard_sigmoid_{kind}", unary("HardSigmoid", kind, steps, out=(0.0, 1.0), socs=EVERY if steps == 1 else NEW))
    case(f"layer_norm_{kind}", unary("LayerNormalization", kind, 2 * steps, out=(-4.0, 4.0), constants=[np.ones(10, np.float32), np.zeros(10, np.float32)]))
    case(f"instance_norm_{kind}", unary("InstanceNormalization", kind, 2 * steps, out=(-4.0, 4.0), constants=[np.ones(4, np.float32), np.zeros(4, np.float32)], socs=NEW))


# ---- curves of floats behind a convolution, into which the library would put them as tables that are 0.004 to 0.02 off
def curve(thousandths, write, socs=EVERY):
    m = Model()
    x = m.cut(m.input([1, 4, 16, 16]), "u8", 0.0, 255 / 256)  # from here on f16 has every number
    x = m.of("Conv", [x, m.constant((np.eye(4) * 16).reshape(4, 4, 1, 1).astype(np.float32)), m.constant(np.full(4, -8, np.float32))])
    write(m, x)
    return m.done("y"), thousandths, socs


case("curve_sigmoid", curve(1, lambda m, x: m.of("Sigmoid", [x])))
case("curve_tanh", curve(1, lambda m, x: m.of("Tanh", [x])))
case("curve_elu", curve(1, lambda m, x: m.of("Elu", [x])))
case("curve_mish", curve(8, lambda m, x: m.of("Mish", [x])))
case("curve_swish", curve(4, lambda m, x: m.of("Mul", [x, m.of("Sigmoid", [x])])))


# ---- two nodes that go by f16 one behind the other: the range between them is a Relu6 that the library would lose
def clipped_between(kind, steps):
    m = Model()
    by = m.cut(m.of("Add", [m.cut(m.input([1, 4, 6, 10], "z"), kind, 0.0, 1.0), m.constant(np.float32(0.5))]), kind, 0.0, 1.5)
    x = m.cut(m.of("Div", [m.cut(m.input([1, 4, 6, 10]), kind, -1.0, 1.0), by]), kind, 0.0, 0.5)
    return m.done(m.cut(m.of("Div", [x, by]), kind, 0.0, 1.0)), steps, EVERY


case("clipped_between_u8", clipped_between("u8", 2))
case("clipped_between_u16", clipped_between("u16", 120))
