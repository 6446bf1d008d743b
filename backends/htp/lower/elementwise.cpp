// SPDX-License-Identifier: Apache-2.0
// Operators on elements, comparisons and casts.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/htp/lower/rules.h"
#include "base/float16.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

bool is_comparison(qir::Op op) noexcept {
  using qir::Op;
  return op == Op::Equal || op == Op::Greater || op == Op::GreaterOrEqual || op == Op::Less || op == Op::LessOrEqual;
}

namespace rules {

using qir::Op;
using qnn::DataType;

namespace {

const char *name_of(Op op) {
  switch (op) {
    case Op::Abs: return "ElementWiseAbs";
    case Op::Add:
    case Op::Sum: return "ElementWiseAdd";
    case Op::And: return "ElementWiseAnd";
    case Op::Asin: return "ElementWiseAsin";
    case Op::Atan: return "ElementWiseAtan";
    case Op::Ceil: return "ElementWiseCeil";
    case Op::Cos: return "ElementWiseCos";
    case Op::Div: return "ElementWiseDivide";
    case Op::Equal: return "ElementWiseEqual";
    case Op::Exp: return "ElementWiseExp";
    case Op::Floor: return "ElementWiseFloor";
    case Op::Gelu: return "Gelu";
    case Op::Greater: return "ElementWiseGreater";
    case Op::GreaterOrEqual: return "ElementWiseGreaterEqual";
    case Op::HardSwish: return "HardSwish";
    case Op::IsNaN: return "IsNan";
    case Op::Less: return "ElementWiseLess";
    case Op::LessOrEqual: return "ElementWiseLessEqual";
    case Op::Log: return "ElementWiseLog";
    case Op::Max: return "ElementWiseMaximum";
    case Op::Min: return "ElementWiseMinimum";
    case Op::Mul: return "ElementWiseMultiply";
    case Op::Neg: return "ElementWiseNeg";
    case Op::Not: return "ElementWiseNot";
    case Op::Or: return "ElementWiseOr";
    case Op::Relu: return "Relu";
    case Op::Round: return "ElementWiseRound";
    case Op::Sign: return "ElementWiseSign";
    case Op::Sin: return "ElementWiseSin";
    case Op::Sqrt: return "ElementWiseSquareRoot";
    case Op::Sub: return "ElementWiseSubtract";
    default: return "ElementWiseXor";
  }
}

}  // namespace

Order common_order(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.outputs[0]);
  for (const std::int32_t id : node.inputs)
    if (id != qir::kAbsent && l.rank(id) == rank && !l.tensor(id).is_constant && !is_natural(l.order(id)))
      return l.order(id);
  return natural_order(rank);
}

std::optional<float> scalar_of(const Lowering &l, std::int32_t id) {
  if (id == qir::kAbsent) return std::nullopt;
  const qir::Tensor &tensor = l.tensor(id);
  if (!tensor.is_constant) return std::nullopt;
  for (const std::int64_t extent : tensor.shape)
    if (extent != 1) return std::nullopt;
  if (tensor.quant && tensor.quant->per_tensor()) {
    const std::int64_t stored = qir::stored_integer(tensor.dtype, tensor.data.data, 0);
    return static_cast<float>(stored - tensor.quant->zero_points[0]) * tensor.quant->scales[0];
  }
  if (tensor.dtype == DType::F32) {
    float value;
    std::memcpy(&value, tensor.data.data, sizeof value);
    return value;
  }
  if (tensor.dtype == DType::F16 || tensor.dtype == DType::BF16) {
    std::uint16_t bits;
    std::memcpy(&bits, tensor.data.data, sizeof bits);
    return tensor.dtype == DType::F16 ? f16_to_f32(bits) : bf16_to_f32(bits);
  }
  if (tensor.dtype == DType::I32 || tensor.dtype == DType::U8 || tensor.dtype == DType::I8)
    return static_cast<float>(qir::stored_integer(tensor.dtype, tensor.data.data, 0));
  if (tensor.dtype == DType::I64) {
    std::int64_t value;
    std::memcpy(&value, tensor.data.data, sizeof value);
    return static_cast<float>(value);
  }
  return std::nullopt;
}

std::int32_t scalar_like(Lowering &l, std::int32_t like, const char *name, float value) {
  const qir::Tensor &tensor = l.tensor(like);
  const DataType dtype = Lowering::type_of(tensor).ok() ? Lowering::type_of(tensor).value() : DataType::F32;
  switch (dtype) {
    case DataType::UQ8:
    case DataType::SQ8:
    case DataType::UQ16:
    case DataType::SQ16: {
      // One step of the scale is the number itself: it is exact.
      const bool wide = element_bytes(dtype) == 2, is_signed = dtype == DataType::SQ8 || dtype == DataType::SQ16;
      Encoding encoding;
      encoding.scales = {value == 0 ? 1.0f : std::fabs(value)};
      const std::int32_t zero = value < 0 && !is_signed ? 1 : 0;
      const std::int32_t stored = value == 0 ? 0 : value < 0 ? (is_signed ? -1 : 0) : 1;
      encoding.zero_points = {zero};
      const std::int16_t two = static_cast<std::int16_t>(stored);
      const std::int8_t one = static_cast<std::int8_t>(stored);
      return l.constant(name, dtype, {1}, wide ? static_cast<const void *>(&two) : &one, wide ? 2 : 1,
                        std::move(encoding));
    }
    case DataType::I32: {
      const std::int32_t integer = static_cast<std::int32_t>(value);
      return l.constant(name, dtype, {1}, &integer, sizeof integer);
    }
    case DataType::F16:
    case DataType::BF16: {
      const std::uint16_t half = dtype == DataType::F16 ? f32_to_f16(value) : f32_to_bf16(value);
      return l.constant(name, dtype, {1}, &half, sizeof half);
    }
    default: return l.constant(name, DataType::F32, {1}, &value, sizeof value);
  }
}

Vector<std::uint32_t> unsigned_of(std::span<const std::int64_t> values) {
  Vector<std::uint32_t> out;
  for (const std::int64_t value : values) out.push_back(static_cast<std::uint32_t>(value));
  return out;
}

Status unary(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  l.node(name_of(node.op), {x}, {l.result(node.outputs[0], order)});
  return {};
}

// Of integers the library has none.
Status negative(Lowering &l, const qir::Node &node) {
  const DType dtype = l.tensor(node.inputs[0]).dtype;
  if (l.tensor(node.inputs[0]).quant || (dtype != DType::I32 && dtype != DType::I64)) return unary(l, node);
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  l.node("ElementWiseSubtract", {scalar_like(l, node.inputs[0], "zero", 0), x}, {l.result(node.outputs[0], order)});
  return {};
}

Status identity(Lowering &l, const qir::Node &node) {
  if (node.outputs.size() > 1 && node.outputs[1] != qir::kAbsent)
    return refuse(ErrorId::backend_limit, "the mask of Dropout is asked for, expected its first output alone");
  const Order order = l.order(node.inputs[0]);
  l.same_as(node.outputs[0], l.stored(node.inputs[0], order), order);
  if (l.tensor(node.inputs[0]).is_constant) l.constant_is(node.outputs[0], node.inputs[0]);
  return {};
}

Status binary(Lowering &l, const qir::Node &node) {
  const Order order = common_order(l, node);
  const std::int32_t a = l.broadcast(node.inputs[0], order), b = l.broadcast(node.inputs[1], order);
  const std::int32_t y = l.result(node.outputs[0], order);
  l.node(name_of(node.op), {a, b}, {y});
  return {};
}

namespace {

// Whether an element of a constant lies past float16's numbers.
bool is_past_float16(const Lowering &l, std::int32_t id) {
  const qir::Tensor &tensor = l.tensor(id);
  const bool narrow = tensor.dtype == DType::F16;
  if (!tensor.is_constant || tensor.quant || !(narrow || (tensor.dtype == DType::F32 && l.soc().arch >= 69)))
    return false;
  const std::uint64_t count = tensor.data.size / (narrow ? 2 : 4);
  for (std::uint64_t i = 0; i < count; ++i) {
    const float value = narrow ? f16_to_f32(static_cast<const std::uint16_t *>(tensor.data.data)[i])
                               : static_cast<const float *>(tensor.data.data)[i];
    if (value > kLargestF16 || value < -kLargestF16) return true;
  }
  return false;
}

// A constant past float16's numbers is the largest of them (Lowering::within_half), wherever a model has it; a sum of
// two such masks is past it again. So what is compared with one is brought to the same limits, and so is an infinity
// that f16 has: who asks whether a value is minus infinity asks whether it is -65504 then.
std::int32_t within_float16(Lowering &l, std::int32_t like, std::int32_t x) {
  const std::int32_t near = l.between(like, "~near", l.drafted(x).dims);
  DraftNode &clamp = l.node("ReluMinMax", {x}, {near});
  l.param(clamp, "min_value", -kLargestF16);
  l.param(clamp, "max_value", kLargestF16);
  return near;
}

}  // namespace

Status comparison(Lowering &l, const qir::Node &node) {
  const Order order = common_order(l, node);
  std::int32_t operands[2] = {l.broadcast(node.inputs[0], order), l.broadcast(node.inputs[1], order)};
  const std::int32_t y = l.result(node.outputs[0], order);
  if (node.op == Op::Equal && l.tensor(node.inputs[0]).dtype == DType::Bool) {  // the library compares no bools
    const std::int32_t differs = l.between(node.outputs[0], "~differs", l.drafted(y).dims);
    l.node("ElementWiseXor", {operands[0], operands[1]}, {differs});
    l.node("ElementWiseNot", {differs}, {y});
    return {};
  }
  if (is_past_float16(l, node.inputs[0]) || is_past_float16(l, node.inputs[1]))
    for (const std::size_t side : {0u, 1u})
      if (!l.tensor(node.inputs[side]).is_constant || l.tensor(node.inputs[side]).dtype == DType::F16)
        operands[side] = within_float16(l, node.inputs[side], operands[side]);
  l.node(name_of(node.op), {operands[0], operands[1]}, {y});
  return {};
}

Status variadic(Lowering &l, const qir::Node &node) {
  if (node.inputs.size() == 1) return identity(l, node);
  const Order order = common_order(l, node);
  std::int32_t sum = l.broadcast(node.inputs[0], order);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const std::int32_t next = l.broadcast(node.inputs[i], order);
    const bool last = i + 1 == node.inputs.size();
    const std::int32_t out =
        last ? l.result(node.outputs[0], order)
             : l.between(node.outputs[0], "~", Lowering::dims_of(l.tensor(node.outputs[0]).shape, order));
    l.node(name_of(node.op), {sum, next}, {out});
    sum = out;
  }
  return {};
}

// Squares and roots are products and roots: the device's power is a table with less precision.
Status power(Lowering &l, const qir::Node &node) {
  const std::optional<float> exponent = scalar_of(l, node.inputs[1]);
  const Order order = common_order(l, node);
  const bool is_real = l.tensor(node.inputs[0]).dtype == DType::F32 || l.tensor(node.inputs[0]).dtype == DType::F16;
  if (exponent && *exponent == 0 && is_real && l.rank(node.inputs[0]) == l.rank(node.outputs[0])) {
    const std::int32_t x = l.stored(node.inputs[0], order);  // 1, of 0 too, of which the library's is 0
    DraftNode &one = l.node("ReluMinMax", {x}, {l.result(node.outputs[0], order)});
    l.param(one, "min_value", 1.0f);
    l.param(one, "max_value", 1.0f);
    return {};
  }
  if (exponent && (*exponent == 1 || *exponent == 2 || *exponent == 3 || *exponent == 0.5f) &&
      l.rank(node.inputs[0]) == l.rank(node.outputs[0])) {
    const std::int32_t x = l.stored(node.inputs[0], order);
    if (*exponent == 1) {
      l.same_as(node.outputs[0], x, order);
    } else if (*exponent == 0.5f) {
      l.node("ElementWiseSquareRoot", {x}, {l.result(node.outputs[0], order)});
    } else if (*exponent == 2) {
      l.node("ElementWiseMultiply", {x, x}, {l.result(node.outputs[0], order)});
    } else if (l.tensor(node.inputs[0]).quant) {
      l.node("ElementWisePower", {x, l.broadcast(node.inputs[1], order)}, {l.result(node.outputs[0], order)});
    } else {
      const std::int32_t square =
          l.between(node.outputs[0], "~square", Lowering::dims_of(l.tensor(node.outputs[0]).shape, order));
      l.node("ElementWiseMultiply", {x, x}, {square});
      l.node("ElementWiseMultiply", {square, x}, {l.result(node.outputs[0], order)});
    }
    return {};
  }
  const std::int32_t a = l.broadcast(node.inputs[0], order);
  std::int32_t b = l.broadcast(node.inputs[1], order);
  if (const DraftTensor power = l.drafted(b); power.dtype != l.drafted(a).dtype && power.encoding.scales.empty() &&
                                              l.drafted(a).encoding.scales.empty() &&
                                              l.tensor(node.inputs[0]).dtype == DType::F32) {
    const std::int32_t real = l.between(power.name, DataType::F32, power.dims);
    l.node("Cast", {b}, {real});
    b = real;
  }
  l.node("ElementWisePower", {a, b}, {l.result(node.outputs[0], order)});
  return {};
}

Status reciprocal(Lowering &l, const qir::Node &node) {
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  const std::int32_t one = scalar_like(l, node.inputs[0], "one", 1);
  l.node("ElementWiseDivide", {one, x}, {l.result(node.outputs[0], order)});
  return {};
}

// Past the numbers that the device computes with.
Status is_infinite(Lowering &l, const qir::Node &node) {
  const std::int32_t id = node.inputs[0];
  const Order order = l.order(id);
  const std::int32_t x = l.stored(id, order), y = l.result(node.outputs[0], order);
  const float most =
      l.soc().arch < 69 && l.tensor(id).dtype == DType::F32 ? std::numeric_limits<float>::max() : kLargestF16;
  const bool above = node.get_int("detect_positive", 1) != 0, below = node.get_int("detect_negative", 1) != 0;
  if (above != below) {
    l.node(above ? "ElementWiseGreater" : "ElementWiseLess", {x, scalar_like(l, id, "most", above ? most : -most)},
           {y});
    return {};
  }
  const std::int32_t size = l.between(id, "~size", l.drafted(x).dims);
  l.node("ElementWiseAbs", {x}, {size});
  if (above) l.node("ElementWiseGreater", {size, scalar_like(l, id, "most", most)}, {y});
  else l.node("ElementWiseLess", {size, scalar_like(l, id, "nothing", 0)}, {y});
  return {};
}

namespace {

// An operand as large as the result; a single number stays one.
std::int32_t repeated_to(Lowering &l, std::int32_t id, std::int32_t result) {
  const DraftTensor from = l.drafted(id);
  const Vector<std::uint32_t> to = l.drafted(result).dims;
  const bool is_number = std::ranges::all_of(from.dims, [](std::uint32_t extent) { return extent == 1; });
  if (is_number || from.dims == to || from.dims.size() != to.size()) return id;
  Vector<std::uint32_t> multiples;
  for (std::size_t i = 0; i < to.size(); ++i) multiples.push_back(to[i] / from.dims[i]);
  const std::int32_t made = l.between(from.name, from.dtype, to, from.encoding);
  l.param(l.node("Tile", {id}, {made}), "multiples", multiples);
  return made;
}

}  // namespace

Status where(Lowering &l, const qir::Node &node) {
  const Order order = common_order(l, node);
  const std::int32_t condition = l.broadcast(node.inputs[0], order), a = l.broadcast(node.inputs[1], order),
                     b = l.broadcast(node.inputs[2], order);
  const std::int32_t y = l.result(node.outputs[0], order);
  if (l.tensor(node.outputs[0]).dtype == DType::Bool) {  // the library chooses between no bools
    const Vector<std::uint32_t> dims = l.drafted(y).dims;
    const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs, Vector<std::uint32_t> shape) {
      const std::int32_t made = l.between(node.outputs[0], "~bools", std::move(shape));
      l.node(type, inputs, {made});
      return made;
    };
    const auto both = [&](std::int32_t one, std::int32_t other) {
      Vector<std::uint32_t> shape = l.drafted(one).dims;
      const Vector<std::uint32_t> &more = l.drafted(other).dims;
      for (std::size_t i = 0; i < shape.size(); ++i) shape[i] = std::max(shape[i], more[i]);
      return step("ElementWiseAnd", {one, other}, std::move(shape));
    };
    const std::int32_t otherwise = step("ElementWiseNot", {condition}, l.drafted(condition).dims);
    l.node("ElementWiseOr", {both(condition, a), both(otherwise, b)}, {y});
    return {};
  }
  const bool is_byte = l.drafted(y).dtype == DataType::SQ8;  // of which it cannot always stretch one
  l.node("ElementWiseSelect", {condition, is_byte ? repeated_to(l, a, y) : a, is_byte ? repeated_to(l, b, y) : b}, {y});
  return {};
}

namespace {

bool is_real(DataType dtype) { return dtype == DataType::F32 || dtype == DataType::F16; }
bool is_whole(DataType dtype) { return dtype == DataType::I32 || dtype == DataType::U32; }

// Whether a Cast to reals reads the value, by itself or behind operators that move it.
bool is_read_as_reals(const Lowering &l, std::int32_t id) {
  for (const qir::Node &node : l.graph().nodes) {
    if (std::ranges::find(node.inputs, id) == node.inputs.end()) continue;
    if (node.op != Op::Cast && !qir::moves_values(l.graph(), node)) continue;
    for (const std::int32_t to : node.outputs) {
      if (to == qir::kAbsent) continue;
      const DType dtype = l.tensor(to).dtype;
      if (dtype == DType::F32 || dtype == DType::F16 || is_read_as_reals(l, to)) return true;
    }
  }
  return false;
}

// The steps of a Cast. The library makes one of two casts behind each other, also where the first changes the value,
// and its casts to integers of 8 and 16 bits round and saturate: what a cast loses is taken off before it.
class CastSteps {
 public:
  CastSteps(Lowering &l, const qir::Node &node, std::int32_t x) : l_(l), node_(node), dims_(l.drafted(x).dims) {}

  std::int32_t of(const char *type, std::initializer_list<std::int32_t> inputs, DataType dtype) {
    const std::int32_t made = l_.between(node_.name + ".cast", dtype, dims_);
    l_.node(type, inputs, {made});
    return made;
  }
  // Toward zero.
  std::int32_t truncated(std::int32_t x) {
    const DataType dtype = l_.drafted(x).dtype;
    return of("ElementWiseMultiply",
              {of("ElementWiseSign", {x}, dtype), of("ElementWiseFloor", {of("ElementWiseAbs", {x}, dtype)}, dtype)},
              dtype);
  }
  std::int32_t real(std::int32_t x) {
    const DataType dtype = l_.drafted(x).dtype;
    if (dtype == DataType::F32) return x;
    return of(is_real(dtype) || is_whole(dtype) ? "Cast" : "Dequantize", {x}, DataType::F32);
  }
  std::int32_t whole(std::int32_t x) {
    const DataType dtype = l_.drafted(x).dtype;
    if (is_whole(dtype)) return x;
    if (dtype == DataType::UQ16 || dtype == DataType::SQ16) return of("Convert", {x}, DataType::I32);
    return of("Cast", {dtype == DataType::SQ8 ? real(x) : x}, DataType::I32);
  }
  // The lowest bits of a whole number, as a type of so many has them.
  std::int32_t wrapped(std::int32_t x, DataType to) {
    const std::int32_t count = element_bytes(to) == 1 ? 256 : 65536;
    const bool is_signed = to == DataType::SQ8 || to == DataType::SQ16;
    const auto number = [&](std::int32_t value) {
      return l_.constant(node_.name + ".range", DataType::I32, {1}, &value, sizeof value);
    };
    if (is_signed) x = of("ElementWiseAdd", {x, number(count / 2)}, DataType::I32);
    x = of("ElementWiseMod", {x, number(count)}, DataType::I32);
    return is_signed ? of("ElementWiseSubtract", {x, number(count / 2)}, DataType::I32) : x;
  }

 private:
  Lowering &l_;
  const qir::Node &node_;
  const Vector<std::uint32_t> dims_;
};

// Whether each number of one type is one of the other too.
bool holds(DataType to, DataType from) {
  const auto is_signed = [](DataType dtype) { return dtype == DataType::SQ8 || dtype == DataType::SQ16; };
  if (from == DataType::Bool8) return true;
  if (is_whole(from)) return is_whole(to);
  if (is_whole(to)) return true;
  return is_signed(from) == is_signed(to) ? element_bytes(to) >= element_bytes(from)
                                          : is_signed(to) && element_bytes(to) > element_bytes(from);
}

}  // namespace

Status cast(Lowering &l, const qir::Node &node) {
  QR_ASSIGN_OR_RETURN(const DataType to, Lowering::type_of(l.tensor(node.outputs[0])));
  const DType given = l.tensor(node.inputs[0]).dtype;
  if (l.tensor(node.outputs[0]).dtype == DType::U64 &&
      (given == DType::I8 || given == DType::I16 || given == DType::I32 || given == DType::I64))
    return refuse(ErrorId::backend_limit,
                  format("u64 of %s, which may be negative: then it has 64 bits, expected 32", dtype_name(given)),
                  "cast to i64, or to u32 where no number is negative");
  const Order order = l.order(node.inputs[0]);
  const std::int32_t x = l.stored(node.inputs[0], order);
  const DataType from = l.drafted(x).dtype;
  if (from == to) {  // among them i64 to i32 and back
    l.same_as(node.outputs[0], x, order);
    return {};
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  // To bool: whatever is not zero.
  if (to == DataType::Bool8) {
    l.node("ElementWiseNotEqual", {x, scalar_like(l, node.inputs[0], "zero", 0)}, {y});
    return {};
  }
  CastSteps s(l, node, x);
  const bool is_small = is_plain_small(l.tensor(node.outputs[0]));
  if (is_real(from) && !is_real(to)) {
    const bool loses = is_small || is_read_as_reals(l, node.outputs[0]);
    std::int32_t whole = loses ? s.truncated(x) : x;
    if (is_small) {  // the product and Quantize become one, which is a step lower for up to 8 numbers below 0
      const std::int32_t product = whole;
      whole = l.between(node.name, l.drafted(product).dtype, l.drafted(product).dims);
      clip_nothing(l, product, whole);
    }
    l.node(is_small ? "Quantize" : "Cast", {is_small ? s.real(whole) : whole}, {y});
    return {};
  }
  if (is_real(to)) {  // what is counted with a scale of 1 is read by its steps
    l.node(is_plain_small(l.tensor(node.inputs[0])) ? "Dequantize" : "Cast", {x}, {y});
    return {};
  }
  if (from == DataType::Bool8 || (is_whole(from) && is_whole(to))) {
    if (to == DataType::SQ8 || element_bytes(to) == 2) l.node("Quantize", {s.of("Cast", {x}, DataType::F32)}, {y});
    else l.node("Cast", {x}, {y});
    return {};
  }
  if (is_whole(to)) {
    if (from == DataType::SQ8) l.node("Cast", {s.real(x)}, {y});
    else l.node(from == DataType::UQ8 ? "Cast" : "Convert", {x}, {y});
    return {};
  }
  const std::int32_t whole = s.whole(x), kept = holds(to, from) ? whole : s.wrapped(whole, to);
  if (to == DataType::UQ8) l.node("Cast", {kept}, {y});
  else l.node("Quantize", {s.real(kept)}, {y});
  return {};
}

// Toward zero, which the library's own is of what is not negative. The least i32 has no size: it is moved by the
// divisor, and its quotient by one.
Status divide(Lowering &l, const qir::Node &node) {
  const Order order = common_order(l, node);
  const std::int32_t a = l.broadcast(node.inputs[0], order), b = l.broadcast(node.inputs[1], order);
  if (l.drafted(a).dtype != DataType::I32) return binary(l, node);
  const std::int32_t y = l.result(node.outputs[0], order);
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs, std::int32_t like,
                        DataType dtype = DataType::I32) {
    const std::int32_t made = l.between(node.outputs[0], "~", l.drafted(like).dims);
    l.drafted(made).dtype = dtype;
    return l.node(type, inputs, {made}), made;
  };
  const auto number = [&](const char *name, float value) { return scalar_like(l, node.inputs[0], name, value); };
  const std::int32_t zero = number("zero", 0), size = step("ElementWiseAbs", {b}, b),
                     is_least = step("ElementWiseEqual", {a, number("least", -0x1p31f)}, a, DataType::Bool8),
                     nearer = step("ElementWiseSelect", {is_least, step("ElementWiseAdd", {a, size}, y), a}, y),
                     times = step("ElementWiseDivide", {step("ElementWiseAbs", {nearer}, y), size}, y),
                     more = step("ElementWiseAdd", {times, number("one", 1)}, y),
                     whole = step("ElementWiseSelect", {is_least, more, times}, y),
                     differs = step("ElementWiseXor",
                                    {step("ElementWiseLess", {a, zero}, a, DataType::Bool8),
                                     step("ElementWiseLess", {b, zero}, b, DataType::Bool8)},
                                    y, DataType::Bool8);
  l.node("ElementWiseSelect", {differs, step("ElementWiseSubtract", {zero, whole}, y), whole}, {y});
  return {};
}

// Of plain 8 bits the library cannot always prepare one: on i32, then.
Status extreme(Lowering &l, const qir::Node &node) {
  const qir::Tensor &result = l.tensor(node.outputs[0]);
  if (node.inputs.size() == 1 || !is_plain_small(result) || dtype_bits(result.dtype) != 8) return variadic(l, node);
  const Order order = common_order(l, node);
  const auto whole = [&](std::int32_t id) {
    const std::int32_t x = l.broadcast(id, order);
    return CastSteps(l, node, x).whole(x);
  };
  const Vector<std::uint32_t> dims = Lowering::dims_of(result.shape, order);
  std::int32_t most = whole(node.inputs[0]);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    const std::int32_t next = whole(node.inputs[i]), made = l.between(node.name, DataType::I32, dims);
    l.node(name_of(node.op), {most, next}, {made});
    most = made;
  }
  const std::int32_t y = l.result(node.outputs[0], order);
  if (result.dtype == DType::U8) l.node("Cast", {most}, {y});
  else l.node("Quantize", {CastSteps(l, node, most).real(most)}, {y});
  return {};
}

}  // namespace rules
}  // namespace quarry::htp
