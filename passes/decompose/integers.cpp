// SPDX-License-Identifier: Apache-2.0
// Operators on integers as others: by reals where the integers have a meaning, by wider integers where they wrap.
#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

std::int64_t elements_of(const qir::Tensor &t) { return passes::elements(t.shape); }

// What belongs to an axis, beside the data.
qir::Shape along(std::size_t rank, std::int64_t axis, std::int64_t count) {
  qir::Shape shape(rank, 1);
  if (count != 1) shape[index_of(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis)] = count;
  return shape;
}

// The operand as f32 without its zero point, which is one number.
std::int32_t real_of(Decomposer &s, std::int32_t x, std::int32_t zero) {
  const std::int32_t real = s.cast(x, DType::F32);
  if (zero == qir::kAbsent) return real;
  return s.of(Op::Sub, {real, s.reshape(s.cast(zero, DType::F32), {})});
}

// Weights without their zero points (one, or one for each of `channels` along `axis`), times a factor.
std::int32_t real_weights(Decomposer &s, std::size_t input, std::size_t zero_input, std::size_t axis, double factor) {
  const qir::Tensor w = s.in(input);
  const std::int32_t zero = s.node().inputs[zero_input];
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < w.shape.size(); ++i) inner *= w.shape[i];
  Vector<float> values;
  for (std::int64_t i = 0; i < elements_of(w); ++i) {
    std::int64_t from = 0;
    if (zero != qir::kAbsent) {
      const qir::Tensor &zeros = s.tensor(zero);
      const std::int64_t which = elements_of(zeros) == 1 ? 0 : i / inner % w.shape[axis];
      from = qir::stored_integer(zeros.dtype, zeros.data.data, static_cast<std::uint64_t>(which));
    }
    const std::int64_t stored = qir::stored_integer(w.dtype, w.data.data, static_cast<std::uint64_t>(i));
    values.push_back(static_cast<float>(static_cast<double>(stored - from) * factor));
  }
  return s.floats(w.shape, values);
}

// ConvInteger and MatMulInteger with constant weights. Sums that would pass f16 are brought down by 2^-k, and put
// together again of a whole and a fraction.
bool integer_product(Decomposer &s) {
  const qir::Node node = s.node();
  const bool conv = node.op == Op::ConvInteger;
  const qir::Tensor w = s.in(1);
  const std::int32_t x_zero = node.inputs[2], w_zero = node.inputs[3];
  const std::size_t axis = conv ? 0 : w.shape.size() - 1;
  if (!w.is_constant || w.shape.size() < 2 || w.quant || s.in(0).quant || !is_small(s.in(0).dtype) ||
      !is_small(w.dtype) || (x_zero != qir::kAbsent && elements_of(s.tensor(x_zero)) != 1))
    return false;
  if (w_zero != qir::kAbsent && (!s.tensor(w_zero).is_constant || (elements_of(s.tensor(w_zero)) != 1 &&
                                                                   elements_of(s.tensor(w_zero)) != w.shape[axis])))
    return false;
  double inner = static_cast<double>(w.shape[w.shape.size() - 2]);
  if (conv) {
    inner = 1;
    for (std::size_t i = 1; i < w.shape.size(); ++i) inner *= static_cast<double>(w.shape[i]);
  }
  const int down = std::max(0, static_cast<int>(std::ceil(std::log2(inner * 255 * 255 / 65504))));
  const double factor = std::ldexp(1.0, -down);
  const std::int32_t x = real_of(s, node.inputs[0], x_zero), weights = real_weights(s, 1, 3, axis, factor);
  const std::int32_t product = s.of(conv ? Op::Conv : Op::MatMul, {x, weights}, DType::F32, s.out().shape);
  if (conv) s.last_made().attributes = node.attributes;
  if (down == 0) {
    s.give(Op::Cast, {s.of(Op::Round, {product})}).set("to", static_cast<std::int64_t>(DType::I32));
    return true;
  }
  const std::int32_t whole = s.of(Op::Floor, {product});
  const std::int32_t part = s.of(Op::Round, {s.with(Op::Mul, s.of(Op::Sub, {product, whole}), 1 / factor)});
  const std::int32_t high = s.with(Op::Mul, s.cast(whole, DType::I32), 1 / factor);
  s.give(Op::Add, {high, s.cast(part, DType::I32)});
  return true;
}

// Scale and zero point of a QuantizeLinear or DequantizeLinear as f32, beside the data; absent: a zero point of 0.
struct Meaning {
  std::int32_t scale, zero;
};
std::optional<Meaning> meaning_of(Decomposer &s) {
  const qir::Node &node = s.node();
  const std::size_t rank = s.in(0).shape.size();
  const std::int64_t count = elements_of(s.in(1)), axis = node.get_int("axis", 1);
  const std::int64_t place = axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis;
  const bool fits = count == 1 || (s.in(1).shape.size() == 1 && place >= 0 && place < static_cast<std::int64_t>(rank) &&
                                   s.in(0).shape[index_of(place)] == count);
  if (!fits || s.in(1).dtype != DType::F32 || node.get_int("block_size", 0) != 0) return std::nullopt;
  const qir::Shape shape = along(rank, place, count);
  const std::int32_t zero = node.inputs[2];
  if (zero != qir::kAbsent && elements_of(s.tensor(zero)) != count) return std::nullopt;
  return Meaning{s.reshape(node.inputs[1], shape),
                 zero == qir::kAbsent ? zero : s.reshape(s.cast(zero, DType::F32), shape)};
}

bool dequantize(Decomposer &s) {
  const DType from = s.in(0).dtype;
  if (s.in(0).quant || s.out().quant || s.out().dtype != DType::F32 || (!is_small(from) && from != DType::I32))
    return false;
  const std::optional<Meaning> meaning = meaning_of(s);
  if (!meaning) return false;
  std::int32_t real = s.cast(s.node().inputs[0], DType::F32);
  if (meaning->zero != qir::kAbsent) real = s.of(Op::Sub, {real, meaning->zero});
  s.give(Op::Mul, {real, meaning->scale});
  return true;
}

bool quantize(Decomposer &s) {
  const DType to = s.out().dtype;  // of 16 bits f16 has no units
  if (s.in(0).quant || s.out().quant || s.in(0).dtype != DType::F32 || !is_small(to)) return false;
  const std::optional<Meaning> meaning = meaning_of(s);
  if (!meaning) return false;
  std::int32_t counted = s.of(Op::Round, {s.of(Op::Div, {s.node().inputs[0], meaning->scale})});
  if (meaning->zero != qir::kAbsent) counted = s.of(Op::Add, {counted, meaning->zero});
  const std::int32_t low = s.number(DType::F32, to == DType::U8 ? 0 : -128),
                     high = s.number(DType::F32, to == DType::U8 ? 255 : 127);
  s.give(Op::Cast, {s.of(Op::Clip, {counted, low, high})}).set("to", static_cast<std::int64_t>(to));
  return true;
}

// The remainder with the sign of the dividend. A quotient that was rounded to the next whole number is set right.
bool remainder(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Tensor out = s.out();
  const bool real = out.dtype == DType::F32 || out.dtype == DType::F16,
             whole = out.dtype == DType::I32 || out.dtype == DType::I64;
  if (node.get_int("fmod", 0) == 0 || out.quant || (!real && !whole)) return false;
  const auto full = [&](Op op, std::int32_t x, std::int32_t y) { return s.of(op, {x, y}, out.dtype, out.shape); };
  const auto choose = [&](Op compare, std::int32_t x, std::int32_t y, std::int32_t yes, std::int32_t no) {
    const std::int32_t flag = s.of(compare, {x, y}, DType::Bool, out.shape);
    return s.of(Op::Where, {flag, yes, no}, out.dtype, out.shape);
  };
  const std::int32_t size = s.of(Op::Abs, {node.inputs[0]}), by = s.of(Op::Abs, {node.inputs[1]});
  const std::int32_t zero = s.number(out.dtype, 0);
  std::int32_t rest;
  if (whole) {
    rest = full(Op::Mod, size, by);
  } else {
    const std::int32_t times = s.of(Op::Floor, {full(Op::Div, size, by)});
    rest = full(Op::Sub, size, full(Op::Mul, times, by));
    rest = choose(Op::Less, rest, zero, full(Op::Add, rest, by), rest);
    rest = choose(Op::GreaterOrEqual, rest, by, full(Op::Sub, rest, by), rest);
  }
  const std::int32_t negative = s.of(Op::Less, {node.inputs[0], zero}, DType::Bool, s.in(0).shape);
  s.give(Op::Where, {negative, full(Op::Sub, zero, rest), rest});
  return true;
}

// Integers of 8 bits wrap: they are computed in 32 bits, of which 8 are left.
bool wrapping(Decomposer &s) {
  const qir::Node &node = s.node();
  const qir::Tensor out = s.out();
  if (out.quant || !is_small(out.dtype) || s.in(0).quant || s.in(1).quant || node.inputs.size() != 2) return false;
  if (node.op == Op::Mod && node.get_int("fmod", 0) != 0) return false;
  const std::int32_t a = s.cast(node.inputs[0], DType::I32), b = s.cast(node.inputs[1], DType::I32);
  std::int32_t wide = s.of(node.op, {a, b}, DType::I32, out.shape);
  if (node.op != Op::Mod && node.op != Op::Div) {
    const bool is_signed = out.dtype == DType::I8;
    if (is_signed) wide = s.with(Op::Add, wide, 128);
    wide = s.with(Op::Mod, wide, 256);
    if (is_signed) wide = s.with(Op::Sub, wide, 128);
  }
  s.give(Op::Cast, {wide}).set("to", static_cast<std::int64_t>(out.dtype));
  return true;
}

}  // namespace

// By one scale, where the quotient is rounded to float16 or bfloat16: the division in f32 rounds right on its way
// there.
bool decompose_float16_quantize(Decomposer &s) {
  const qir::Node &node = s.node();
  const DType x_type = s.in(0).dtype, scale_type = s.in(1).dtype;
  const std::int64_t given = node.get_int("precision", 0);
  const DType precision = given == 0 ? scale_type : static_cast<DType>(given);
  if ((precision != DType::F16 && precision != DType::BF16) || x_type != precision || scale_type != precision ||
      elements_of(s.in(1)) != 1 || node.get_int("block_size", 0) != 0)
    return false;
  const qir::Shape scale_shape = s.in(1).shape;
  const std::int32_t zero = node.inputs[2];
  if (scale_shape.size() > s.in(0).shape.size() || (zero != qir::kAbsent && s.tensor(zero).shape != scale_shape))
    return false;
  const std::int32_t x = s.cast(node.inputs[0], DType::F32), scale = s.cast(node.inputs[1], DType::F32),
                     quotient = s.cast(s.cast(s.of(Op::Div, {x, scale}), precision), DType::F32);
  constexpr float kOne = 1;
  Vector<std::int32_t> inputs{quotient, s.constant(scale_shape, &kOne, sizeof kOne, DType::F32)};
  if (zero != qir::kAbsent) inputs.push_back(zero);
  qir::Node &made = s.give(Op::QuantizeLinear, std::move(inputs));
  made.attributes = node.attributes;
  made.set("precision", static_cast<std::int64_t>(DType::F32));
  return true;
}

bool decompose_integers(Decomposer &s) {
  switch (s.node().op) {
    case Op::ConvInteger:
    case Op::MatMulInteger: return integer_product(s);
    case Op::DequantizeLinear: return dequantize(s);
    case Op::QuantizeLinear: return quantize(s);
    case Op::Mod: return remainder(s) || wrapping(s);
    case Op::Add:
    case Op::Div:
    case Op::Mul:
    case Op::Sub: return wrapping(s);
    default: return false;
  }
}

}  // namespace quarry::passes
