// SPDX-License-Identifier: Apache-2.0
// Operators on elements that are no f32 arithmetic: integers, truth values, comparisons, choices, rare functions; and
// operators on any number of operands, as chains.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/lower/lowering.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

using kernels::BinaryOp;
using kernels::ElementOp;
using kernels::Kernel;
using qir::Op;

namespace {

struct ElementRow {
  Op op;
  ElementOp element;
  bool swapped = false;  // the operands
};
constexpr ElementRow kRows[] = {{Op::Add, ElementOp::Add},
                                {Op::Sub, ElementOp::Sub},
                                {Op::Mul, ElementOp::Mul},
                                {Op::Div, ElementOp::Div},
                                {Op::Mod, ElementOp::Mod},
                                {Op::Min, ElementOp::Min},
                                {Op::Max, ElementOp::Max},
                                {Op::BitwiseAnd, ElementOp::BitAnd},
                                {Op::BitwiseOr, ElementOp::BitOr},
                                {Op::BitwiseXor, ElementOp::BitXor},
                                {Op::BitwiseNot, ElementOp::BitNot},
                                {Op::BitShift, ElementOp::ShiftLeft},
                                {Op::Equal, ElementOp::Equal},
                                {Op::Less, ElementOp::Less},
                                {Op::LessOrEqual, ElementOp::LessOrEqual},
                                {Op::Greater, ElementOp::Less, true},
                                {Op::GreaterOrEqual, ElementOp::LessOrEqual, true},
                                {Op::And, ElementOp::And},
                                {Op::Or, ElementOp::Or},
                                {Op::Xor, ElementOp::Xor},
                                {Op::Not, ElementOp::Not},
                                {Op::Where, ElementOp::Select},
                                {Op::Abs, ElementOp::Abs},
                                {Op::Neg, ElementOp::Neg},
                                {Op::Sign, ElementOp::Sign},
                                {Op::IsNaN, ElementOp::IsNan},
                                {Op::IsInf, ElementOp::IsInf},
                                {Op::Softsign, ElementOp::Softsign},
                                {Op::Selu, ElementOp::Selu},
                                {Op::Celu, ElementOp::Celu},
                                {Op::ThresholdedRelu, ElementOp::ThresholdedRelu},
                                {Op::Shrink, ElementOp::Shrink},
                                {Op::Sin, ElementOp::Sin},
                                {Op::Cos, ElementOp::Cos},
                                {Op::Tan, ElementOp::Tan},
                                {Op::Sinh, ElementOp::Sinh},
                                {Op::Cosh, ElementOp::Cosh},
                                {Op::Asin, ElementOp::Asin},
                                {Op::Acos, ElementOp::Acos},
                                {Op::Atan, ElementOp::Atan},
                                {Op::Asinh, ElementOp::Asinh},
                                {Op::Acosh, ElementOp::Acosh},
                                {Op::Atanh, ElementOp::Atanh}};

DType of_width(std::uint64_t width) {
  return width == 1 ? DType::U8 : width == 2 ? DType::U16 : width == 4 ? DType::U32 : DType::U64;
}

}  // namespace

// One step; false where the nest has too many dimensions.
Result<bool> Lowering::emit_elements(kernels::Elements params, std::span<const View *const> operands, const View &y) {
  Vector<const View *> views{&y};
  views.insert(views.end(), operands.begin(), operands.end());
  Nest nest;
  if (!make_nest(views, kernels::kLoopRank, nest)) return false;
  params.rank = static_cast<std::uint32_t>(nest.dims.size());
  std::copy(nest.dims.begin(), nest.dims.end(), params.dims);
  for (std::size_t i = 0; i < operands.size(); ++i)
    std::copy(nest.strides[i + 1].begin(), nest.strides[i + 1].end(), params.x[i]);
  const std::uint64_t each = dtype_bits(static_cast<DType>(params.dtype)) / 8;
  Vector<Arg> args;
  for (std::size_t i = 0; i < operands.size(); ++i)
    args.push_back(arg(*operands[i], params.op == ElementOp::Select && i == 0 ? 1 : each));
  args.push_back(arg(y, kernels::gives_truth(params.op) ? 1 : each));
  QR_RETURN_IF_ERROR(emit(Kernel::Elements, &params, args));
  return true;
}

Status Lowering::lower_elements(const qir::Node &node, bool *done) {
  const auto *row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const ElementRow &r) { return r.op == node.op; });
  if (row == std::end(kRows) || node.outputs.size() != 1) return {};
  kernels::Elements p;
  p.op = row->element;
  const bool select = p.op == ElementOp::Select;
  Vector<std::int32_t> operands(node.inputs.begin(), node.inputs.end());
  if (operands.size() != static_cast<std::size_t>(kernels::operands_of(p.op))) return {};
  for (const std::int32_t id : operands)
    if (id == qir::kAbsent || tensor(id).quant) return {};
  if (row->swapped) std::swap(operands[0], operands[1]);
  const std::int32_t yi = node.outputs[0];
  DType dtype = tensor(operands.back()).dtype;
  for (std::size_t i = select ? 1 : 0; i < operands.size(); ++i)
    if (tensor(operands[i]).dtype != dtype) return {};
  if (select) {
    if (tensor(operands[0]).dtype != DType::Bool || tensor(yi).dtype != dtype || width(yi) == 0) return {};
    dtype = of_width(width(yi));
  } else if (tensor(yi).dtype != (kernels::gives_truth(p.op) ? DType::Bool : dtype) || tensor(yi).quant) {
    return {};
  }
  switch (node.op) {
    case Op::Mod:
      if (node.get_int("fmod", 0) != 0) p.op = ElementOp::Fmod;
      break;
    case Op::BitShift:
      if (node.get_string("direction", "LEFT") != "LEFT") p.op = ElementOp::ShiftRight;
      break;
    case Op::IsInf:
      p.a = node.get_int("detect_negative", 1) != 0 ? 1 : 0, p.b = node.get_int("detect_positive", 1) != 0 ? 1 : 0;
      break;
    case Op::Selu: p.a = node.get_float("alpha", 1.67326319f), p.b = node.get_float("gamma", 1.05070102f); break;
    case Op::Celu:
      p.a = node.get_float("alpha", 1.0f);
      if (!(p.a > 0)) return {};
      break;
    case Op::ThresholdedRelu: p.a = node.get_float("alpha", 1.0f); break;
    case Op::Shrink:
      p.a = node.get_float("lambd", 0.5f), p.b = node.get_float("bias", 0.0f);
      if (!(p.a >= 0)) return {};
      break;
    default: break;
  }
  if (!kernels::takes(p.op, dtype)) return {};
  p.dtype = static_cast<std::uint32_t>(dtype);
  const View y = elementwise_output(tensor(yi).shape, operands, width(yi));
  Vector<View> views;
  for (const std::int32_t id : operands) views.push_back(beside(id, y));
  Vector<const View *> pointers;
  for (const View &view : views) pointers.push_back(&view);
  QR_ASSIGN_OR_RETURN(const bool fits, emit_elements(p, pointers, y));
  if (!fits) return {};
  *done = true;
  define(yi, y);
  return {};
}

// RandomNormal, RandomUniform and their likes, of f32.
Status Lowering::lower_random(const qir::Node &node, bool *done) {
  const std::int32_t yi = node.outputs[0];
  if (!is_f32(yi)) return {};
  kernels::RandomF32 p;
  if (const qir::Attribute *seed = node.find("seed")) {
    const double value =
        seed->kind == qir::Attribute::Kind::Float ? static_cast<double>(seed->f) : static_cast<double>(seed->i);
    if (!(std::fabs(value) < 0x1p62)) return {};
    p.seed = static_cast<std::uint32_t>(static_cast<std::int64_t>(std::rint(value)));
  }
  p.normal = node.op == Op::RandomNormal || node.op == Op::RandomNormalLike;
  if (p.normal) {
    p.offset = static_cast<double>(node.get_float("mean", 0.0f));
    p.scale = static_cast<double>(node.get_float("scale", 1.0f));
  } else {
    p.offset = static_cast<double>(node.get_float("low", 0.0f));
    p.scale = static_cast<double>(node.get_float("high", 1.0f)) - p.offset;
  }
  const View y = new_row_major(tensor(yi).shape, 4);
  p.count = count_of(y.dims);
  define(yi, y);
  *done = true;
  return emit_step(Kernel::RandomF32, p, {arg(y)});
}

// Sum, Mean, Min and Max of any number of operands: from the left, two at a time.
Status Lowering::lower_variadic(const qir::Node &node, bool *done) {
  const std::int32_t yi = node.outputs[0];
  const DType dtype = tensor(yi).dtype;
  const bool f32 = is_f32(yi);
  for (const std::int32_t id : node.inputs)
    if (id == qir::kAbsent || tensor(id).dtype != dtype || tensor(id).quant) return {};
  const bool mean = node.op == Op::Mean;
  const ElementOp op = node.op == Op::Min ? ElementOp::Min : node.op == Op::Max ? ElementOp::Max : ElementOp::Add;
  const BinaryOp binary = node.op == Op::Min ? BinaryOp::Min : node.op == Op::Max ? BinaryOp::Max : BinaryOp::Add;
  if (!f32 && (mean || !kernels::takes(op, dtype))) return {};
  if (node.inputs.size() == 1) {
    any(node.inputs[0]);
    const Vector<View> forms = forms_[static_cast<std::size_t>(node.inputs[0])];
    for (const View &form : forms) define(yi, form);
    *done = true;
    return {};
  }
  const View y = elementwise_output(tensor(yi).shape, node.inputs, width(yi));
  Vector<View> views;
  for (const std::int32_t id : node.inputs) views.push_back(broadcast(beside(id, y), y.dims));
  Vector<const View *> all{&y};
  for (const View &view : views) all.push_back(&view);
  Nest nest;
  if (!make_nest(all, kernels::kLoopRank, nest)) return {};
  *done = true;
  define(yi, y);
  const View *left = &views[0];
  for (std::size_t i = 1; i < views.size(); ++i) {
    if (!f32) {
      kernels::Elements p;
      p.op = op, p.dtype = static_cast<std::uint32_t>(dtype);
      const View *const operands[] = {left, &views[i]};
      QR_RETURN_IF_ERROR(emit_elements(p, operands, y).take_status());
    } else {
      kernels::BinaryF32 p;
      p.op = binary;
      p.rank = static_cast<std::uint32_t>(nest.dims.size());
      std::copy(nest.dims.begin(), nest.dims.end(), p.dims);
      const Dims &a = nest.strides[i == 1 ? 1 : 0], &b = nest.strides[i + 1];
      std::copy(a.begin(), a.end(), p.a);
      std::copy(b.begin(), b.end(), p.b);
      if (mean && i + 1 == views.size()) p.act = {kernels::Act::Linear, 1.0f / static_cast<float>(views.size()), 0, 0};
      QR_RETURN_IF_ERROR(emit_step(Kernel::BinaryF32, p, {arg(*left), arg(views[i]), arg(y)}));
    }
    left = &y;
  }
  return {};
}

// Clip of integers and f64, at most two steps; and Relu of them, which is one.
Status Lowering::lower_clip(const qir::Node &node, bool *done) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = tensor(xi).dtype;
  if (tensor(xi).quant || tensor(yi).quant || !kernels::takes(ElementOp::Min, dtype)) return {};
  const std::int32_t bounds[] = {input(node, 1), input(node, 2)};
  for (const std::int32_t id : bounds)
    if (id != qir::kAbsent && (count_of(tensor(id).shape) != 1 || tensor(id).dtype != dtype)) return {};
  View x = dense(xi);
  *done = true;
  const bool relu = node.op == Op::Relu;
  for (std::size_t i = 0; i < 2; ++i) {
    if (bounds[i] == qir::kAbsent && !(relu && i == 0)) continue;
    kernels::Elements p;
    p.op = i == 0 ? ElementOp::Max : ElementOp::Min, p.dtype = static_cast<std::uint32_t>(dtype);
    View bound;
    if (relu) bound.value = static_cast<std::int32_t>(own_constant(Vector<std::uint8_t>(width(xi))));
    else bound = any(bounds[i]);
    bound.dims = x.dims, bound.strides.assign(x.rank(), 0);
    const View y = new_like(x, width(yi));
    const View *const operands[] = {&x, &bound};
    QR_RETURN_IF_ERROR(emit_elements(p, operands, y).take_status());
    x = y;
  }
  define(yi, x);
  return {};
}

}  // namespace quarry::cpu
