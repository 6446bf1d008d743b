// SPDX-License-Identifier: Apache-2.0
// Operators on integers, and on integers that a node of the model gives their meaning.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/htp/lower/block_weights.h"
#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "graph/ops/quantization.h"

namespace quarry::htp::rules {

using qnn::DataType;
using Dims = Vector<std::uint32_t>;

namespace {

std::int32_t f32_constant(Lowering &l, const char *name, float value) {
  return l.constant(name, DataType::F32, {1}, &value, sizeof value);
}

// The zero point of MatMulInteger's operand: a constant for all, or nothing.
std::optional<std::int32_t> zero_point(Lowering &l, std::int32_t id) {
  if (id == qir::kAbsent) return 0;
  const qir::Tensor &tensor = l.tensor(id);
  if (!tensor.is_constant || element_count(tensor.shape.data(), tensor.shape.size()) != 1) return std::nullopt;
  return static_cast<std::int32_t>(qir::stored_integer(tensor.dtype, tensor.data.data, 0));
}

// Plain integers of 8 bits as f32, without their zero point.
std::int32_t real_of(Lowering &l, std::int32_t id, std::int32_t zero) {
  const std::int32_t x = l.natural(id);
  const Dims dims = l.drafted(x).dims;
  const std::int32_t wide = l.between(l.tensor(id).name, DataType::F32, dims);
  l.node("Dequantize", {x}, {wide});
  if (zero == 0) return wide;
  const std::int32_t made = l.between(l.tensor(id).name, DataType::F32, dims);
  l.node("ElementWiseSubtract", {wide, f32_constant(l, "zero point", static_cast<float>(zero))}, {made});
  return made;
}

}  // namespace

// The remainder has the sign of the divisor, or with fmod that of the dividend.
Status modulo(Lowering &l, const qir::Node &node) {
  const bool integers = l.tensor(node.outputs[0]).dtype == DType::I64 || l.tensor(node.outputs[0]).dtype == DType::I32;
  const bool fmod = node.get_int("fmod", 0) != 0;
  if (integers == fmod)
    return refuse(ErrorId::backend_limit, format("fmod %d of %s, expected 0 of i32 or i64, or 1 of floats",
                                                 fmod ? 1 : 0, dtype_name(l.tensor(node.outputs[0]).dtype)));
  const Order order = common_order(l, node);
  const std::int32_t a = l.broadcast(node.inputs[0], order), b = l.broadcast(node.inputs[1], order);
  const std::int32_t y = l.result(node.outputs[0], order);
  if (integers) {
    l.node("ElementWiseMod", {a, b}, {y});
    return {};
  }
  constexpr std::uint32_t kFmod = 5;
  l.param(l.node("ElementWiseBinary", {a, b}, {y}), "operation", kFmod);
  return {};
}

// The device has no product of integers with a result of 32 bits. It is computed in f16, whose sums have 11 bits: what
// passes 65504 is brought down by 2^-k, and put together again of a whole and a fraction.
Status matmul_integer(Lowering &l, const qir::Node &node) {
  const std::optional<std::int32_t> zeros[2] = {zero_point(l, node.inputs[2]), zero_point(l, node.inputs[3])};
  if (!zeros[0] || !zeros[1])
    return refuse(ErrorId::backend_limit,
                  "a zero point for each row or column, or one known only at run time; expected "
                  "one constant for each operand");
  const qir::Tensor &a = l.tensor(node.inputs[0]), &b = l.tensor(node.inputs[1]);
  if (a.shape.size() < 2 || b.shape.size() < 2 || a.is_constant)
    return refuse(ErrorId::backend_limit, "expected matrices, and a left one that is known at run time");
  const auto inner = static_cast<double>(a.shape.back());
  const int down = std::max(0, static_cast<int>(std::ceil(std::log2(inner * 255 * 255 / 65504))));
  const double factor = std::ldexp(1.0, -down);
  const std::int32_t left = real_of(l, node.inputs[0], *zeros[0]);
  std::int32_t right;
  if (b.is_constant) {
    const auto count = static_cast<std::uint64_t>(*element_count(b.shape.data(), b.shape.size()));
    auto *const values = static_cast<float *>(l.store().allocate(count * sizeof(float)));
    for (std::uint64_t i = 0; i < count; ++i)
      values[i] =
          static_cast<float>(static_cast<double>(qir::stored_integer(b.dtype, b.data.data, i) - *zeros[1]) * factor);
    right = l.constant(b.name, DataType::F32, Lowering::dims_of(b.shape, natural_order(b.shape.size())),
                       {values, count * sizeof(float)});
  } else {
    const std::int32_t real = real_of(l, node.inputs[1], *zeros[1]);
    right = l.between(b.name, DataType::F32, l.drafted(real).dims);
    l.node("ElementWiseMultiply", {real, f32_constant(l, "factor", static_cast<float>(factor))}, {right});
  }
  const Dims dims = Lowering::dims_of(l.tensor(node.outputs[0]).shape, natural_order(l.rank(node.outputs[0])));
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs, DataType dtype) {
    const std::int32_t made = l.between(node.outputs[0], "~", dims);
    l.drafted(made).dtype = dtype;
    l.node(type, inputs, {made});
    return made;
  };
  const std::int32_t product = step("MatMul", {left, right}, DataType::F32), y = l.result(node.outputs[0]);
  if (down == 0) {
    l.node("Cast", {step("ElementWiseRound", {product}, DataType::F32)}, {y});
    return {};
  }
  const std::int32_t whole = step("ElementWiseFloor", {product}, DataType::F32);
  const std::int32_t part = step("ElementWiseMultiply",
                                 {step("ElementWiseSubtract", {product, whole}, DataType::F32),
                                  f32_constant(l, "unit", static_cast<float>(1 / factor))},
                                 DataType::F32);
  const std::int32_t unit = std::int32_t{1} << down;
  const std::int32_t high =
      step("ElementWiseMultiply",
           {step("Cast", {whole}, DataType::I32), l.constant("unit", DataType::I32, {1}, &unit, sizeof unit)},
           DataType::I32);
  const std::int32_t low = step("Cast", {step("ElementWiseRound", {part}, DataType::F32)}, DataType::I32);
  l.node("ElementWiseAdd", {high, low}, {y});
  return {};
}

// The range of the data with 0 in it, in 255 steps.
Status dynamic_quantize(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  const std::int32_t x = l.natural(node.inputs[0]);
  const Dims dims = l.drafted(x).dims;
  Dims axes;
  for (std::size_t i = 0; i < std::max<std::size_t>(rank, 1); ++i) axes.push_back(static_cast<std::uint32_t>(i));
  const auto step = [&](const char *type, std::initializer_list<std::int32_t> inputs, const Dims &shape) {
    const std::int32_t made = l.between(node.name, DataType::F32, shape);
    l.node(type, inputs, {made});
    return made;
  };
  const auto extreme = [&](const char *reduction, const char *with_zero) {
    const std::int32_t made = l.between(node.name, DataType::F32, {1});
    DraftNode &reduced = l.node(reduction, {x}, {made});
    l.param(reduced, "axes", axes);
    l.param(reduced, "keep_dims", false);
    return step(with_zero, {made, f32_constant(l, "nothing", 0)}, {1});
  };
  const auto clamped = [&](std::int32_t from, const Dims &shape) {
    const std::int32_t made = l.between(node.name, DataType::F32, shape);
    DraftNode &clamp = l.node("ReluMinMax", {from}, {made});
    l.param(clamp, "min_value", 0.0f);
    l.param(clamp, "max_value", 255.0f);
    return made;
  };
  const std::int32_t low = extreme("ReduceMin", "ElementWiseMinimum"),
                     high = extreme("ReduceMax", "ElementWiseMaximum");
  const std::int32_t scale = step(
      "ElementWiseMultiply", {step("ElementWiseSubtract", {high, low}, {1}), f32_constant(l, "step", 1 / 255.0f)}, {1});
  const std::int32_t zero =
      step("ElementWiseRound",
           {clamped(step("ElementWiseDivide", {step("ElementWiseNeg", {low}, {1}), scale}, {1}), {1})}, {1});
  const Dims ones(dims.size(), 1);
  const auto wide = [&](std::int32_t from) { return dims.size() == 1 ? from : step("Reshape", {from}, ones); };
  const std::int32_t counted = step("ElementWiseRound", {step("ElementWiseDivide", {x, wide(scale)}, dims)}, dims);
  l.node("Cast", {clamped(step("ElementWiseAdd", {counted, wide(zero)}, dims), dims)}, {l.result(node.outputs[0])});
  if (node.outputs[1] != qir::kAbsent) l.node("Reshape", {scale}, {l.result(node.outputs[1])});
  if (node.outputs[2] != qir::kAbsent) l.node("Cast", {zero}, {l.result(node.outputs[2])});
  return {};
}

// Weights of few bits that have no form beside floats (block_weights.h) are expanded.
Status matmul_nbits(Lowering &l, const qir::Node &node) {
  const std::int64_t k = node.get_int("K", 0), n = node.get_int("N", 0), bits = node.get_int("bits", 4),
                     block = node.get_int("block_size", 0);
  const qir::Tensor &packed = l.tensor(node.inputs[1]), &x = l.tensor(node.inputs[0]);
  const float *const scales = qir::constant_floats(l.graph(), node.inputs[2]);
  const std::int32_t zero_id = node.inputs[3], bias = node.inputs[5];
  if (x.dtype != DType::F32 || !packed.is_constant || !scales || (bits != 4 && bits != 8) || block <= 0 ||
      (zero_id != qir::kAbsent && (!l.tensor(zero_id).is_constant || l.tensor(zero_id).dtype != DType::U8)) ||
      node.inputs[4] != qir::kAbsent)
    return refuse(ErrorId::backend_limit,
                  "expected f32 data, constant weights of 4 or 8 bits with f32 scales and u8 "
                  "zero points, and no order of groups");
  if (block_product(l, node)) return {};
  std::int64_t count;
  if (k <= 0 || n <= 0 || !checked_mul<std::int64_t>(k, n, &count) || count > (std::int64_t{1} << 32))
    return refuse(ErrorId::backend_limit, "weights of no size that can be dequantised");
  const std::int64_t blocks = (k + block - 1) / block, row = blocks * block * bits / 8,
                     zero_row = (blocks * bits + 7) / 8;
  const auto *const stored = static_cast<const std::uint8_t *>(packed.data.data);
  const auto *const zeros =
      zero_id == qir::kAbsent ? nullptr : static_cast<const std::uint8_t *>(l.tensor(zero_id).data.data);
  if (packed.data.size < static_cast<std::uint64_t>(n * row) ||
      (zeros && l.tensor(zero_id).data.size < static_cast<std::uint64_t>(n * zero_row)))
    return refuse(ErrorId::backend_limit, "weights or zero points of fewer bytes than K, N, bits and block_size say");
  const auto at = [&](const std::uint8_t *from, std::int64_t i) -> int {
    return bits == 8 ? from[i] : (from[i / 2] >> (i % 2 * 4)) & 15;
  };
  auto *const values = static_cast<float *>(l.store().allocate(static_cast<std::uint64_t>(count) * sizeof(float)));
  for (std::int64_t column = 0; column < n; ++column) {
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t b = i / block;
      const int zero = zeros ? at(zeros + column * zero_row, b) : 1 << (bits - 1);
      values[i * n + column] = static_cast<float>(at(stored + column * row, i) - zero) * scales[column * blocks + b];
    }
  }
  const std::int32_t weights =
      l.constant(packed.name, DataType::F32, {static_cast<std::uint32_t>(k), static_cast<std::uint32_t>(n)},
                 {values, static_cast<std::uint64_t>(count) * sizeof(float)});
  const std::int32_t y = l.result(node.outputs[0]);
  if (bias == qir::kAbsent) {
    l.node("MatMul", {l.natural(node.inputs[0]), weights}, {y});
    return {};
  }
  const std::int32_t product = l.between(node.outputs[0], "~product", l.drafted(y).dims);
  l.node("MatMul", {l.natural(node.inputs[0]), weights}, {product});
  l.node("ElementWiseAdd", {product, l.natural(bias)}, {y});
  return {};
}

}  // namespace quarry::htp::rules
