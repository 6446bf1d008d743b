// SPDX-License-Identifier: Apache-2.0
// Operators on elements that are no f32 arithmetic: integers, truth values, comparisons, choices, rare functions; and
// operators on any number of operands, as chains.
#include <algorithm>
#include <array>
#include <cmath>

#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/shapes/elements_shape.h"

namespace quarry::cpu {

using kernels::Act;
using kernels::BinaryOp;
using kernels::ElementOp;
using kernels::Kernel;
using qir::Op;

namespace {

struct ElementRow {
  constexpr ElementRow(Op op_of, ElementOp made, bool swaps = false)
      : op(op_of), element(static_cast<std::uint8_t>(made)), swapped(swaps) {}
  Op op;
  std::uint8_t element;  // ElementOp
  bool swapped;          // the operands
};
constexpr ElementOp element(ElementOp op) { return op; }
constexpr ElementOp element(Act) { return ElementOp::Count; }  // a function of UnaryF32
constexpr ElementRow kRows[] = {
    {Op::Add, ElementOp::Add},
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
    {Op::IsNaN, ElementOp::IsNan},
    {Op::IsInf, ElementOp::IsInf},
#define QR_FUNCTION(op, cpu, ...) {Op::op, element(cpu)},
#include "graph/ops/functions.inc"
};

// Sets the numbers of a function; false where they are out of its range.
bool set_parameters(const qir::Node &node, kernels::Elements *to) {
  const auto parameter = [&](const char *name, float value) { return *name ? node.get_float(name, value) : 0; };
  [[maybe_unused]] float p = 0;
  switch (node.op) {
#define QR_FUNCTION(op, cpu, p_name, p_value, q_name, q_value, range, ...) \
  case Op::op:                                                             \
    p = to->a = parameter(p_name, p_value);                                \
    to->b = parameter(q_name, q_value);                                    \
    return range;
#include "graph/ops/functions.inc"
    default: return true;
  }
}

DType of_width(std::uint64_t width) {
  return width == 1 ? DType::U8 : width == 2 ? DType::U16 : width == 4 ? DType::U32 : DType::U64;
}

}  // namespace

std::optional<ElementOp> element_of(Op op) noexcept {
  const auto *row = std::find_if(std::begin(kRows), std::end(kRows), [&](const ElementRow &r) {
    return r.op == op && r.element != static_cast<std::uint8_t>(ElementOp::Count);
  });
  if (row == std::end(kRows)) return std::nullopt;
  return static_cast<ElementOp>(row->element);
}

Status emit_elements(Lowering &l, kernels::Elements params, std::span<const View *const> operands, const View &y) {
  Vector<const View *> views{&y};
  views.insert(views.end(), operands.begin(), operands.end());
  Nest nest;
  if (!make_nest(views, kernels::kLoopRank, nest)) return l.refuse("plan: an elementwise step has too many dimensions");
  params.rank = static_cast<std::uint32_t>(nest.dims.size());
  std::copy(nest.dims.begin(), nest.dims.end(), params.dims);
  for (std::size_t i = 0; i < operands.size(); ++i)
    std::copy(nest.strides[i + 1].begin(), nest.strides[i + 1].end(), params.x[i]);
  const std::uint64_t each = dtype_bits(static_cast<DType>(params.dtype)) / 8;
  Vector<Arg> args;
  for (std::size_t i = 0; i < operands.size(); ++i)
    args.push_back(arg(*operands[i], params.op == ElementOp::Select && i == 0 ? 1 : each));
  args.push_back(arg(y, kernels::gives_truth(params.op) ? 1 : each));
  return l.emit(Kernel::Elements, &params, args);
}

Result<Lowered> lower_elements(Lowering &l, const qir::Node &node) {
  const auto *row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const ElementRow &r) { return r.op == node.op; });
  if (row == std::end(kRows) || row->element == static_cast<std::uint8_t>(ElementOp::Count) || node.outputs.size() != 1)
    return Lowered::NotMine;
  kernels::Elements p;
  p.op = static_cast<ElementOp>(row->element);
  const bool select = p.op == ElementOp::Select;
  Vector<std::int32_t> operands(node.inputs.begin(), node.inputs.end());
  if (operands.size() != static_cast<std::size_t>(kernels::operands_of(p.op))) return Lowered::NotMine;
  for (const std::int32_t id : operands)
    if (id == qir::kAbsent || l.tensor(id).quant) return Lowered::NotMine;
  if (row->swapped) std::swap(operands[0], operands[1]);
  const std::int32_t yi = node.outputs[0];
  DType dtype = l.tensor(operands.back()).dtype;
  for (std::size_t i = select ? 1 : 0; i < operands.size(); ++i)
    if (l.tensor(operands[i]).dtype != dtype) return Lowered::NotMine;
  if (select) {
    if (l.tensor(operands[0]).dtype != DType::Bool || l.tensor(yi).dtype != dtype || l.width(yi) == 0)
      return Lowered::NotMine;
    dtype = of_width(l.width(yi));
  } else if (l.tensor(yi).dtype != (kernels::gives_truth(p.op) ? DType::Bool : dtype) || l.tensor(yi).quant) {
    return Lowered::NotMine;
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
    default: break;
  }
  if (!set_parameters(node, &p)) return Lowered::NotMine;
  if (!kernels::takes(p.op, dtype)) return Lowered::NotMine;
  p.dtype = static_cast<std::uint32_t>(dtype);
  if (!l.match_nest(l.tensor(yi).shape, operands)) return Lowered::NotMine;
  const View y = l.elementwise_output(l.tensor(yi).shape, operands, l.width(yi));
  Vector<View> views;
  for (const std::int32_t id : operands) views.push_back(l.beside(id, y));
  Vector<const View *> pointers;
  for (const View &view : views) pointers.push_back(&view);
  l.define(yi, y);
  return done(emit_elements(l, p, pointers, y));
}

// RandomNormal, RandomUniform and their likes, of f32.
Result<Lowered> lower_random(Lowering &l, const qir::Node &node) {
  const std::int32_t yi = node.outputs[0];
  if (!l.is_f32(yi)) return Lowered::NotMine;
  kernels::RandomF32 p;
  if (const qir::Attribute *seed = node.find("seed")) {
    const double value =
        seed->kind == qir::Attribute::Kind::Float ? static_cast<double>(seed->f) : static_cast<double>(seed->i);
    if (!(std::fabs(value) < 0x1p62)) return Lowered::NotMine;
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
  const View y = l.new_row_major(l.tensor(yi).shape, 4);
  p.count = count_of(y.dims);
  l.define(yi, y);
  return l.finish_step(Kernel::RandomF32, p, {arg(y)});
}

// Sum, Mean, Min and Max of any number of operands: from the left, two at a time.
Result<Lowered> lower_variadic(Lowering &l, const qir::Node &node) {
  const std::int32_t yi = node.outputs[0];
  const DType dtype = l.tensor(yi).dtype;
  const bool f32 = l.is_f32(yi);
  for (const std::int32_t id : node.inputs)
    if (id == qir::kAbsent || l.tensor(id).dtype != dtype || l.tensor(id).quant) return Lowered::NotMine;
  const bool mean = node.op == Op::Mean;
  const ElementOp op = node.op == Op::Min ? ElementOp::Min : node.op == Op::Max ? ElementOp::Max : ElementOp::Add;
  const BinaryOp binary = node.op == Op::Min ? BinaryOp::Min : node.op == Op::Max ? BinaryOp::Max : BinaryOp::Add;
  if (!f32 && (mean || !kernels::takes(op, dtype))) return Lowered::NotMine;
  if (node.inputs.size() == 1) return view_as(l, node, [](const View &form) { return form; });
  const auto nest = l.match_nest(l.tensor(yi).shape, node.inputs);
  if (!nest) return Lowered::NotMine;
  const View y = l.elementwise_output(l.tensor(yi).shape, node.inputs, l.width(yi));
  Vector<View> views;
  for (const std::int32_t id : node.inputs) views.push_back(broadcast(l.beside(id, y), y.dims));
  l.define(yi, y);
  const View *left = &views[0];
  for (std::size_t i = 1; i < views.size(); ++i) {
    if (!f32) {
      kernels::Elements p;
      p.op = op, p.dtype = static_cast<std::uint32_t>(dtype);
      const View *const operands[] = {left, &views[i]};
      QR_RETURN_IF_ERROR(emit_elements(l, p, operands, y));
    } else {
      kernels::BinaryF32 p;
      p.op = binary;
      p.rank = static_cast<std::uint32_t>(nest->dims.size());
      std::copy(nest->dims.begin(), nest->dims.end(), p.dims);
      const Dims &a = nest->strides[i == 1 ? 1 : 0], &b = nest->strides[i + 1];
      std::copy(a.begin(), a.end(), p.a);
      std::copy(b.begin(), b.end(), p.b);
      if (mean && i + 1 == views.size()) p.act = {kernels::Act::Linear, 1.0f / static_cast<float>(views.size()), 0, 0};
      QR_RETURN_IF_ERROR(l.emit_step(Kernel::BinaryF32, p, {arg(*left), arg(views[i]), arg(y)}));
    }
    left = &y;
  }
  return Lowered::Done;
}

namespace {

// A bound that is known at run time, or `otherwise` where it is NaN, which bounds nothing.
Status emit_bound(Lowering &l, std::int32_t id, float otherwise, View *out) {
  View bound = l.row_major(id), none = l.constant_floats({otherwise}, {1});
  bound.dims = none.dims, bound.strides = none.strides;
  const View is_nan = l.new_row_major(none.dims, 1);
  *out = l.new_row_major(none.dims, 4);
  kernels::Elements p;
  p.op = ElementOp::IsNan, p.dtype = static_cast<std::uint32_t>(DType::F32);
  const View *const tested[] = {&bound};
  QR_RETURN_IF_ERROR(emit_elements(l, p, tested, is_nan));
  p.op = ElementOp::Select, p.dtype = static_cast<std::uint32_t>(of_width(4));
  const View *const chosen[] = {&is_nan, &none, &bound};
  return emit_elements(l, p, chosen, *out);
}

// Clip of f32 whose bounds are known at run time: elementwise steps, which become one (chain.cpp).
Result<Lowered> emit_clip(Lowering &l, const qir::Node &node) {
  View x = l.dense(node.inputs[0]);
  for (std::size_t i = 1; i < 3; ++i) {
    if (l.input(node, i) == qir::kAbsent) continue;
    View bound;
    QR_RETURN_IF_ERROR(emit_bound(l, l.input(node, i), i == 1 ? -__builtin_inff() : __builtin_inff(), &bound));
    bound.dims = x.dims, bound.strides.assign(x.rank(), 0);
    const View y = l.new_like(x, 4);
    // The bound first: of two zeros, kernels give the second, as x is.
    QR_RETURN_IF_ERROR(emit_binary(l, i == 1 ? BinaryOp::Max : BinaryOp::Min, bound, x, y));
    x = y;
  }
  l.define(node.outputs[0], x);
  return Lowered::Done;
}

}  // namespace

// Clip of integers and f64, at most two steps, and Relu of them, which is one; and what is left of f32.
Result<Lowered> lower_clip(Lowering &l, const qir::Node &node) {
  const std::int32_t xi = node.inputs[0], yi = node.outputs[0];
  const DType dtype = l.tensor(xi).dtype;
  const bool relu = node.op == Op::Relu, f32 = dtype == DType::F32;
  if ((!relu && node.op != Op::Clip) || l.tensor(xi).quant || l.tensor(yi).quant ||
      (f32 ? relu : !kernels::takes(ElementOp::Min, dtype)))
    return Lowered::NotMine;
  const std::int32_t bounds[] = {l.input(node, 1), l.input(node, 2)};
  for (const std::int32_t id : bounds)
    if (id != qir::kAbsent && (count_of(l.tensor(id).shape) != 1 || l.tensor(id).dtype != dtype))
      return Lowered::NotMine;
  if (f32) return emit_clip(l, node);
  View x = l.dense(xi);
  for (std::size_t i = 0; i < 2; ++i) {
    if (bounds[i] == qir::kAbsent && !(relu && i == 0)) continue;
    kernels::Elements p;
    p.op = i == 0 ? ElementOp::Max : ElementOp::Min, p.dtype = static_cast<std::uint32_t>(dtype);
    View bound;
    if (relu) bound.value = static_cast<std::int32_t>(l.own_constant(Vector<std::uint8_t>(l.width(xi))));
    else bound = l.any(bounds[i]);
    bound.dims = x.dims, bound.strides.assign(x.rank(), 0);
    const View y = l.new_like(x, l.width(yi));
    const View *const operands[] = {&x, &bound};
    QR_RETURN_IF_ERROR(emit_elements(l, p, operands, y));
    x = y;
  }
  l.define(yi, x);
  return Lowered::Done;
}

}  // namespace quarry::cpu
