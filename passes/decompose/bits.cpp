// SPDX-License-Identifier: Apache-2.0
// Operators on bits by arithmetic, for devices that have remainders of integers and no bits. Numbers of 8 and 16 bits
// are computed in 32; those of 64 bits are taken for 32, as such devices have them. Nothing on the way passes 32 bits.
#include <algorithm>
#include <limits>

#include "graph/ops/quantization.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min();

std::int64_t power(unsigned bit) { return std::int64_t{1} << bit; }

class Bits {
 public:
  explicit Bits(Decomposer &s) : s_(s), dtype_(s.out().dtype), shape_(s.out().shape) {
    const std::size_t stored = dtype_bits(dtype_);
    is_signed_ = dtype_ == DType::I8 || dtype_ == DType::I16 || dtype_ == DType::I32 || dtype_ == DType::I64;
    width_ = static_cast<unsigned>(std::min<std::size_t>(stored, 32));
    wide_ = dtype_ == DType::I64 ? DType::I64 : DType::I32;
  }

  // False: nothing was written.
  bool run() {
    const qir::Node &node = s_.node();
    if (dtype_ == DType::U32 || dtype_ == DType::U64 || dtype_bits(dtype_) < 8) return false;
    for (const std::int32_t id : node.inputs)
      if (s_.tensor(id).quant || s_.tensor(id).dtype != dtype_ || passes_32_bits(id)) return false;
    if (node.op == Op::BitShift) return shift();
    const std::int32_t x = s_.cast(node.inputs[0], wide_);
    if (node.op == Op::BitwiseNot) return give(full(Op::Sub, number(is_signed_ ? -1 : power(width_) - 1), x));
    const std::int32_t y = s_.cast(node.inputs[1], wide_), both = in_both(x, y);
    if (node.op == Op::BitwiseAnd) return give(both);
    const std::int32_t alone = full(Op::Sub, x, both);
    return give(full(Op::Add, alone, node.op == Op::BitwiseOr ? y : full(Op::Sub, y, both)));
  }

 private:
  std::int32_t number(std::int64_t value) { return s_.number(wide_, static_cast<double>(value)); }
  // Of the shape of its operands, as far as these are the node's.
  std::int32_t op(Op what, std::int32_t a, std::int32_t b, DType dtype) {
    const qir::Shape &one = s_.tensor(a).shape, &other = s_.tensor(b).shape;
    const qir::Shape shape = one == other || other.empty() ? one : one.empty() ? other : shape_;
    return s_.of(what, {a, b}, dtype, shape);
  }
  std::int32_t full(Op what, std::int32_t a, std::int32_t b) { return op(what, a, b, wide_); }
  std::int32_t test(Op what, std::int32_t a, std::int64_t b) { return op(what, a, number(b), DType::Bool); }
  std::int32_t choose(std::int32_t flag, std::int32_t yes, std::int32_t no) {
    return s_.of(Op::Where, {flag, yes, no}, wide_, s_.tensor(flag).shape);
  }
  // A constant of one element may have more axes than the other operand.
  bool give(std::int32_t id) {
    id = s_.reshape(id, shape_);
    if (wide_ == dtype_) s_.give(Op::Identity, {id});
    else s_.give(Op::Cast, {id}).set("to", static_cast<std::int64_t>(dtype_));
    return true;
  }

  // A constant that is one number.
  std::optional<std::int64_t> constant(std::int32_t id) const {
    const qir::Tensor &tensor = s_.tensor(id);
    if (!tensor.is_constant || elements(tensor.shape) != 1) return std::nullopt;
    if (tensor.dtype != DType::I64) return qir::stored_integer(tensor.dtype, tensor.data.data, 0);
    std::int64_t value;
    std::memcpy(&value, tensor.data.data, sizeof value);
    return value;
  }

  bool passes_32_bits(std::int32_t id) const {
    const qir::Tensor &tensor = s_.tensor(id);
    if (!tensor.is_constant || dtype_ != DType::I64) return false;
    const auto *const values = static_cast<const std::int64_t *>(tensor.data.data);
    return std::any_of(values, values + tensor.data.size / sizeof *values,
                       [](std::int64_t value) { return value < kLeast || value > ~kLeast; });
  }

  // The lowest bits of a number, as one from 0; none of no bits.
  std::int32_t low(std::int32_t x, unsigned bits) {
    if (bits == 0) return number(0);
    if (!is_signed_ && bits >= width_) return x;
    if (bits < 31) return full(Op::Mod, x, number(power(bits)));
    return choose(test(Op::Less, x, 0), full(Op::Sub, x, number(kLeast)), x);  // 2^31 is past 32 bits
  }

  // The bits that a number from 0 has. One below 0 is what the bits that it lacks leave.
  std::int32_t masked(std::int32_t x, std::int64_t mask) {
    if (mask < 0) return full(Op::Sub, x, masked(x, ~mask));
    std::int32_t sum = qir::kAbsent;
    for (unsigned from = 0; power(from) <= mask;) {
      if (!(mask >> from & 1)) {
        ++from;
        continue;
      }
      unsigned end = from;
      while (mask >> end & 1) ++end;
      std::int32_t run = low(x, end);
      if (from > 0) run = full(Op::Sub, run, low(x, from));
      sum = sum == qir::kAbsent ? run : full(Op::Add, sum, run);
      from = end;
    }
    return sum == qir::kAbsent ? full(Op::Sub, x, x) : sum;
  }

  // Bit by bit the smaller one, and the sign of two numbers that have it.
  std::int32_t in_both(std::int32_t x, std::int32_t y) {
    if (const auto mask = constant(s_.node().inputs[1])) return masked(x, *mask);
    if (const auto mask = constant(s_.node().inputs[0])) return masked(y, *mask);
    const unsigned bits = is_signed_ ? width_ - 1 : width_;
    std::int32_t sum = qir::kAbsent, lower[2] = {qir::kAbsent, qir::kAbsent};
    for (unsigned bit = 0; bit < bits; ++bit) {
      std::int32_t one[2];
      for (int i = 0; i < 2; ++i) {
        const std::int32_t upto = low(i == 0 ? x : y, bit + 1);
        one[i] = bit == 0 ? upto : full(Op::Sub, upto, lower[i]);
        lower[i] = upto;
      }
      const std::int32_t common = full(Op::Min, one[0], one[1]);
      sum = bit == 0 ? common : full(Op::Add, sum, common);
    }
    if (!is_signed_) return sum;
    const std::int32_t negative = op(Op::And, test(Op::Less, x, 0), test(Op::Less, y, 0), DType::Bool);
    return full(Op::Add, sum, choose(negative, number(-power(width_ - 1)), number(0)));
  }

  bool shift() {
    const qir::Node &node = s_.node();
    const bool left = node.get_string("direction", "LEFT") == "LEFT";
    const auto amount = constant(node.inputs[1]);
    if (!amount && width_ == 32) return false;  // a power of two that is known in the run may pass 32 bits
    const std::int32_t x = s_.cast(node.inputs[0], wide_);
    if (amount) {
      const auto by = static_cast<unsigned>(
          std::min<std::uint64_t>(static_cast<std::uint64_t>(*amount), is_signed_ && !left ? width_ - 1 : width_));
      return give(left ? shifted_left(x, by) : shifted_right(x, by));
    }
    const std::int32_t by = s_.cast(node.inputs[1], wide_), times = power_of(by);
    const std::int32_t moved = left ? wrapped(full(Op::Mul, low(x, width_), times))
                                    : full(Op::Div, full(Op::Sub, x, full(Op::Mod, x, times)), times);
    const std::int32_t within = op(Op::And, test(Op::Less, by, width_), test(Op::GreaterOrEqual, by, 0), DType::Bool);
    const std::int32_t beyond = !left && is_signed_ ? choose(test(Op::Less, x, 0), number(-1), number(0)) : number(0);
    return give(s_.of(Op::Where, {within, moved, beyond}, wide_, shape_));
  }

  // As a number of the type has the lowest bits.
  std::int32_t wrapped(std::int32_t x) {
    if (!is_signed_) return full(Op::Mod, x, number(power(width_)));
    const std::int64_t half = power(width_ - 1);
    return full(Op::Sub, full(Op::Mod, full(Op::Add, x, number(half)), number(2 * half)), number(half));
  }

  // Up to 2^15: of the four lowest bits of the exponent.
  std::int32_t power_of(std::int32_t exponent) {
    std::int32_t product = qir::kAbsent;
    for (unsigned bit = 0; power(bit) < width_; ++bit) {
      const std::int32_t here = full(Op::Mod, full(Op::Div, exponent, number(power(bit))), number(2));
      const std::int32_t factor = choose(test(Op::Equal, here, 1), number(power(1u << bit)), number(1));
      product = bit == 0 ? factor : full(Op::Mul, product, factor);
    }
    return product;
  }

  std::int32_t shifted_left(std::int32_t x, unsigned by) {
    if (by == 0) return x;
    if (by >= width_) return full(Op::Sub, x, x);
    // What passes 32 bits of a number of 64 is lost there as in its product.
    if (dtype_ == DType::I64 && by < 31) return full(Op::Mul, x, number(power(by)));
    const unsigned stays = width_ - by - (is_signed_ ? 1 : 0);  // bits that are left, but for the sign
    const std::int32_t lower = low(x, stays), moved = full(Op::Mul, lower, number(power(by)));
    if (!is_signed_) return moved;
    const std::int32_t sign = full(Op::Sub, low(x, stays + 1), lower);
    return full(Op::Add, moved, choose(test(Op::Greater, sign, 0), number(-power(width_ - 1)), number(0)));
  }
  std::int32_t shifted_right(std::int32_t x, unsigned by) {
    if (by == 0) return x;
    if (!is_signed_ && by >= width_) return full(Op::Sub, x, x);
    if (by < 31) return full(Op::Div, full(Op::Sub, x, low(x, by)), number(power(by)));
    return choose(test(Op::Less, x, 0), number(-1), number(0));
  }

  Decomposer &s_;
  const DType dtype_;
  const qir::Shape shape_;
  bool is_signed_;
  unsigned width_;
  DType wide_;
};

}  // namespace

bool decompose_bits(Decomposer &s) {
  switch (s.node().op) {
    case Op::BitShift:
    case Op::BitwiseAnd:
    case Op::BitwiseNot:
    case Op::BitwiseOr:
    case Op::BitwiseXor: return Bits(s).run();
    default: return false;
  }
}

}  // namespace quarry::passes
