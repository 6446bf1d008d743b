// SPDX-License-Identifier: Apache-2.0
// Elementwise operators as code: by itself a step of its own, behind other kernels a part of theirs.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/gpu/lower/quantized.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

using qir::Op;

namespace {

// What a node's code is written with: operands as registers.
class Writer {
 public:
  Writer(Lowering &l, const qir::Node &node, FusedExpression &elements)
      : l_(l), node_(node), elements_(elements), chained_(elements.result) {}

  Code &code() noexcept { return elements_.code; }
  Number number(std::size_t i) const {
    return means_real(node_.inputs[i]) ? Number::Float : *number_of(l_.dtype(node_.inputs[i]));
  }
  bool has(std::size_t i) const { return node_.inputs[i] != qir::kAbsent; }
  std::uint32_t operator()(std::size_t i) {
    const std::int32_t id = node_.inputs[i];
    if (id != chained_) return of(id, l_.view(id));
    return means_real(id) ? real_of(l_, elements_, l_.tensor(id), elements_.at) : elements_.at;
  }
  // An operand seen otherwise than it is: a vector along an axis.
  std::uint32_t of(std::int32_t id, const View &view) {
    const std::uint32_t r = loaded(id, view);
    return means_real(id) ? real_of(l_, elements_, l_.tensor(id), r) : r;
  }
  float real(const char *name, float fallback) const { return node_.get_float(name, fallback); }
  Status is(std::uint32_t r) {
    if (!means_real(node_.outputs[0])) r = narrowed(r);
    elements_.at = means_real(node_.outputs[0]) ? stored_of(code(), l_.tensor(node_.outputs[0]), r) : r;
    elements_.result = node_.outputs[0];
    return {};
  }
  Status unary(Element element, double p = 0, double q = 0) {
    const std::uint32_t a = (*this)(0);
    return is(code().add(element, number(0), p, q, a));
  }
  Status binary(Element element) {
    const std::uint32_t a = (*this)(0), b = (*this)(1);
    return is(code().add(element, a, b));
  }
  Status folded(Element element) {
    std::uint32_t sum = (*this)(0);
    for (std::size_t i = 1; i < node_.inputs.size(); ++i) sum = code().add(element, sum, (*this)(i));
    if (node_.op == Op::Mean)
      sum = code().add(Element::Div, sum, code().constant(number(0), static_cast<double>(node_.inputs.size())));
    return is(sum);
  }

 private:
  // Stored integers of the tensor stand for reals here; a QuantizeLinear or DequantizeLinear says so by itself.
  bool means_real(std::int32_t id) const {
    return l_.tensor(id).quant && node_.op != Op::QuantizeLinear && node_.op != Op::DequantizeLinear;
  }
  // A register may hold more than the type of the result: what is next in a chain reads what would have been stored.
  // Reals of 16 bits are computed in f32 on purpose, but a cast to one rounds.
  std::uint32_t narrowed(std::uint32_t r) {
    const DType dtype = l_.dtype(node_.outputs[0]);
    switch (node_.op) {
      case Op::Cast:
        if (dtype == DType::F16) return code().add(Element::AsF16, r);
        if (dtype == DType::BF16) return code().add(Element::AsBf16, r);
        break;
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::Div:
      case Op::Neg:
      case Op::Abs:
      case Op::Sum:
      case Op::Mean:
      case Op::Pow:
      case Op::BitShift:
      case Op::BitwiseNot: break;
      default: return r;
    }
    const Number type = *number_of(dtype);
    const unsigned bits = dtype_bits(dtype), wide = type == Number::Int || type == Number::Uint ? 32 : 64;
    if (is_real(type) || type == Number::Truth || bits == wide) return r;
    if (dtype_kind(dtype) != DTypeKind::Signed)
      return code().add(Element::BitAnd, r, code().constant_bits(type, (std::uint64_t{1} << bits) - 1));
    const std::uint32_t by = code().constant_bits(type, wide - bits);
    return code().add(Element::ShiftRight, code().add(Element::ShiftLeft, r, by), by);
  }
  std::uint32_t loaded(std::int32_t id, const View &view) {
    const qir::Tensor &t = l_.tensor(id);
    const Number type = *number_of(t.dtype);
    if (t.is_constant && strided::count_of(t.shape) == 1 && !t.quant) {
      if (const auto real = l_.reals(id); real && t.dtype != DType::F64)
        return code().constant(type, static_cast<double>((*real)[0]));
      if (t.data.size == 8 && t.dtype != DType::F64) {
        std::uint64_t bits;
        std::memcpy(&bits, t.data.data, 8);
        return code().constant_bits(type, bits);
      }
    }
    for (std::size_t i = 0; i < elements_.operands.size(); ++i)
      if (elements_.tensors[i] == id && elements_.operands[i].view.dims == view.dims)
        return static_cast<std::uint32_t>(i);
    elements_.operands.push_back({view, t.dtype});
    elements_.tensors.push_back(id);
    return static_cast<std::uint32_t>(elements_.operands.size() - 1);
  }
  Lowering &l_;
  const qir::Node &node_;
  FusedExpression &elements_;
  const std::int32_t chained_;
};

// A vector of `x`'s axis, or one number, seen so that it broadcasts to x.
View along(const View &vector, std::size_t rank, std::size_t axis) {
  View out = vector;
  if (strided::count_of(vector.dims) == 1 && vector.rank() == 0) return out;
  out.dims.assign(rank, 1), out.strides.assign(rank, 0);
  out.dims[axis] = vector.dims[0], out.strides[axis] = vector.strides[0];
  return out;
}

Status modulo(Writer &w, const qir::Node &node) {
  const std::uint32_t a = w(0), b = w(1);
  Code &code = w.code();
  const Number type = w.number(0);
  const std::uint32_t rest = code.add(Element::Rem, a, b);
  if (node.get_int("fmod", 0) != 0) return w.is(rest);
  const std::uint32_t zero = code.constant(type, 0);
  const std::uint32_t none = code.add(Element::Equal, rest, zero);
  const std::uint32_t other_sign =
      code.add(Element::Xor, code.add(Element::Less, rest, zero), code.add(Element::Less, b, zero));
  const std::uint32_t moved = code.select(type, other_sign, code.add(Element::Add, rest, b), rest);
  return w.is(code.select(type, none, is_real(type) ? code.add(Element::CopySign, rest, b) : zero, moved));
}

Status power(Writer &w) {
  const Number base = w.number(0), exponent = w.number(1);
  Code &code = w.code();
  const std::uint32_t a = w(0), b = w(1);
  if (is_real(base)) return w.is(code.add(Element::Pow, a, exponent == base ? b : code.to(base, b)));
  if (!is_real(exponent))
    return w.is(code.to(base, code.add(Element::Pow, code.to(Number::Long, a), code.to(Number::Long, b))));
  // A real that is an integer but for its rounding is that integer, before the rest is cut off.
  const std::uint32_t real = code.add(Element::Pow, code.to(Number::Float, a), code.to(Number::Float, b)),
                      whole = code.add(Element::Round, real),
                      off = code.add(Element::Abs, code.add(Element::Sub, real, whole)),
                      most = code.add(Element::Mul, code.add(Element::Abs, whole), code.constant(Number::Float, 4e-6));
  return w.is(code.to(base, code.select(Number::Float, code.add(Element::LessOrEqual, off, most), whole, real)));
}

Status batch_normalization(Writer &w, Lowering &l, const qir::Node &node) {
  if (node.get_int("training_mode", 0) != 0 || node.outputs.size() > 1)
    return refuse(ErrorId::backend_limit, node, "found training_mode 1, expected 0");
  const std::size_t rank = l.shape(node.inputs[0]).size();
  const Number type = w.number(0);
  Code &code = w.code();
  const auto channel = [&](std::size_t i) {
    const std::int32_t id = node.inputs[i];
    const View v = rank < 2 ? l.view(id) : along(l.view(id), rank, 1);
    const std::uint32_t r = w.of(id, v);
    return w.number(i) == type ? r : code.to(type, r);
  };
  const std::uint32_t x = w(0), scale = channel(1), bias = channel(2), mean = channel(3), variance = channel(4);
  const std::uint32_t epsilon = code.constant(type, static_cast<double>(w.real("epsilon", 1e-5f)));
  const std::uint32_t deviation = code.add(Element::Sqrt, code.add(Element::Add, variance, epsilon));
  const std::uint32_t factor = code.add(Element::Div, scale, deviation);
  return w.is(code.add(Element::Add, code.add(Element::Mul, code.add(Element::Sub, x, mean), factor), bias));
}

// Scale and zero point: one number, or a vector along an axis.
Status operand_along(Writer &w, Lowering &l, const qir::Node &node, std::size_t input, std::uint32_t *out) {
  const std::int32_t id = node.inputs[input];
  const std::size_t rank = l.shape(node.inputs[0]).size();
  if (l.shape(id).size() > 1 || node.get_int("block_size", 0) != 0)
    return refuse(ErrorId::backend_limit, node,
                  "found scales for blocks, expected one, or one for each index of an axis");
  std::size_t axis = 0;
  if (l.shape(id).size() == 1 && rank > 0)
    QR_RETURN_IF_ERROR(qir::resolve_axis(node, node.get_int("axis", 1),
                                         strided::count_of(l.shape(id)) == 1 && rank < 2 ? 2 : rank, &axis));
  *out = w.of(id, l.shape(id).size() == 1 && rank > 0 ? along(l.view(id), rank, std::min(axis, rank - 1)) : l.view(id));
  return {};
}

Status quantize(Writer &w, Lowering &l, const qir::Node &node) {
  const DType to = l.dtype(node.outputs[0]);
  const Number from = w.number(0);
  if (from != Number::Float || w.number(1) != Number::Float || !is_integer(to))
    return refuse(ErrorId::backend_type, node,
                  format("found %s to %s, expected reals to integers of 8 or 16 bits",
                         dtype_name(l.dtype(node.inputs[0])), dtype_name(to)));
  Code &code = w.code();
  std::uint32_t scale, r = w(0);
  QR_RETURN_IF_ERROR(operand_along(w, l, node, 1, &scale));
  r = code.add(Element::Round, code.add(Element::Div, r, scale));
  r = code.select(Number::Float, code.add(Element::IsNaN, r), code.constant(Number::Float, 0), r);  // the zero point
  if (w.has(2)) {
    std::uint32_t zero;
    QR_RETURN_IF_ERROR(operand_along(w, l, node, 2, &zero));
    r = code.add(Element::Add, r, code.to(Number::Float, zero));
  }
  const unsigned bits = dtype_bits(to);
  const bool has_sign = dtype_kind(to) == DTypeKind::Signed;
  const double high = std::ldexp(1.0, static_cast<int>(bits - has_sign)) - 1, low = has_sign ? -high - 1 : 0;
  r = code.add(Element::AtLeast, r, code.constant(Number::Float, low));
  r = code.add(Element::AtMost, r, code.constant(Number::Float, high));
  return w.is(code.to(*number_of(to), r));
}

Status dequantize(Writer &w, Lowering &l, const qir::Node &node) {
  Code &code = w.code();
  if (!is_integer(l.dtype(node.inputs[0])) || w.number(1) != Number::Float ||
      *number_of(l.dtype(node.outputs[0])) != Number::Float)
    return refuse(ErrorId::backend_type, node,
                  format("found %s, expected integers", dtype_name(l.dtype(node.inputs[0]))));
  std::uint32_t r = code.to(Number::Float, w(0)), scale;
  QR_RETURN_IF_ERROR(operand_along(w, l, node, 1, &scale));
  if (w.has(2)) {
    std::uint32_t zero;
    QR_RETURN_IF_ERROR(operand_along(w, l, node, 2, &zero));
    r = code.add(Element::Sub, r, code.to(Number::Float, zero));
  }
  return w.is(code.add(Element::Mul, r, scale));
}

Status clip(Writer &w) {
  std::uint32_t r = w(0);
  if (w.has(1)) r = w.code().add(Element::AtLeast, r, w(1));
  if (w.has(2)) r = w.code().add(Element::AtMost, r, w(2));
  return w.is(w.has(1) || w.has(2) ? r : w.code().add(Element::Copy, r));
}

}  // namespace

bool is_elementwise(Op op) noexcept {
  const OperatorRow *const row = find_operator(op);
  return row && row->rule == lower_elementwise;
}

Status element_code(Lowering &l, const qir::Node &node, FusedExpression &elements) {
  Writer w(l, node, elements);
  const auto real = [&](Element element, double p = 0, double q = 0) { return w.unary(element, p, q); };
  if (node.op == Op::Gelu && node.get_string("approximate", "none") == "tanh") return real(Element::GeluTanh);
  // (A default of a parameter that has no name is for cpu's function alone.)
  const auto parameter = [&](const char *name, float value) { return *name ? w.real(name, value) : 0.0f; };
  switch (node.op) {
#define QR_FUNCTION(op, cpu, p, p_value, q, q_value, ...) \
  case Op::op:                                            \
    return real(Element::op, parameter(p, p_value), parameter(q, q_value));
#include "graph/ops/functions.inc"
    case Op::IsNaN: return real(Element::IsNaN);
    case Op::IsInf:
      return real(Element::IsInf, node.get_int("detect_negative", 1) != 0, node.get_int("detect_positive", 1) != 0);
    case Op::Not: return real(Element::Not);
    case Op::BitwiseNot: return real(Element::BitNot);
    case Op::Cast: {
      const std::uint32_t a = w(0);
      return w.is(w.code().to(*number_of(l.dtype(node.outputs[0])), a));
    }
    case Op::Clip: return clip(w);
    case Op::Add: return w.binary(Element::Add);
    case Op::Sub: return w.binary(Element::Sub);
    case Op::Mul: return w.binary(Element::Mul);
    case Op::Div: return w.binary(Element::Div);
    case Op::PRelu: return w.binary(Element::PRelu);
    case Op::Equal: return w.binary(Element::Equal);
    case Op::Greater: return w.binary(Element::Greater);
    case Op::GreaterOrEqual: return w.binary(Element::GreaterOrEqual);
    case Op::Less: return w.binary(Element::Less);
    case Op::LessOrEqual: return w.binary(Element::LessOrEqual);
    case Op::And: return w.binary(Element::And);
    case Op::Or: return w.binary(Element::Or);
    case Op::Xor: return w.binary(Element::Xor);
    case Op::BitwiseAnd: return w.binary(Element::BitAnd);
    case Op::BitwiseOr: return w.binary(Element::BitOr);
    case Op::BitwiseXor: return w.binary(Element::BitXor);
    case Op::BitShift:
      return w.binary(node.get_string("direction", "LEFT") == "LEFT" ? Element::ShiftLeft : Element::ShiftRight);
    case Op::Max: return w.folded(Element::Max);
    case Op::Min: return w.folded(Element::Min);
    case Op::Sum:
    case Op::Mean: return w.folded(Element::Add);
    case Op::Mod: return modulo(w, node);
    case Op::Pow: return power(w);
    case Op::Where: {
      const std::uint32_t c = w(0), a = w(1), b = w(2);
      return w.is(w.code().select(w.number(1), c, a, b));
    }
    case Op::BatchNormalization: return batch_normalization(w, l, node);
    case Op::QuantizeLinear: return quantize(w, l, node);
    case Op::DequantizeLinear: return dequantize(w, l, node);
    default: return refuse(ErrorId::backend_op, node, "found an operator without code");
  }
}

Status lower_elementwise(Lowering &l, const qir::Node &node) {
  FusedExpression elements;
  QR_RETURN_IF_ERROR(element_code(l, node, elements));
  if (elements.operands.size() + 1 > kMaxOperands || elements.code.size() > kMaxCode)
    return refuse(ErrorId::backend_limit, node,
                  format("found %zu operands, expected at most %zu", elements.operands.size(), kMaxOperands - 1));
  l.fuse(elements, [](const View &) { return true; });
  const View y = l.result(elements.result);
  return l.emit_elements(elements, {y, l.dtype(elements.result)});
}

}  // namespace quarry::gpu
