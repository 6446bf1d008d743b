// SPDX-License-Identifier: Apache-2.0
// Functions of one f64, and softmax of them.
#include "kernels/cpu/vector/functions_f64.h"

#include "kernels/cpu/vector/double_vec.h"
#include "kernels/cpu/vector/isa_kernels.h"
#include "kernels/cpu/vector/written.h"

namespace quarry::kernels::QR_ISA {

namespace {

template <class F>
QR_INLINE VecD by_lane(VecD x, F f) noexcept {
  VecD y{};
  for (int i = 0; i < kDoubles; ++i) y[i] = f(x[i]);
  return y;
}
QR_INLINE VecD nan_of(VecD x, VecD y) noexcept { return x != x ? x : y; }

template <ElementOp op>
QR_INLINE VecD wave(VecD x) noexcept {
  if (any(abs(x) > splat(kFarthest))) {  // lanes by the C library
    if constexpr (op == ElementOp::Sin) return by_lane(x, [](double v) { return __builtin_sin(v); });
    else if constexpr (op == ElementOp::Cos) return by_lane(x, [](double v) { return __builtin_cos(v); });
    else return by_lane(x, [](double v) { return __builtin_tan(v); });
  }
  const Waves w = waves_in(x);
  const VecD sine = w.sine, cosine = w.cosine;
  const VecL turns = w.turns, odd = (turns & splat(std::int64_t{1})) == splat(std::int64_t{1});
  if constexpr (op == ElementOp::Tan) {
    const VecD y = odd ? -(cosine / sine) : sine / cosine;
    return nan_of(x, x == VecD{} ? x : y);  // the sign of zero stays
  } else {
    const VecL turn = op == ElementOp::Sin ? turns : turns + splat(std::int64_t{1});  // cos(x) = sin(x + pi / 2)
    const VecL use_cosine = op == ElementOp::Sin ? odd : ~odd;
    const VecD value = use_cosine ? cosine : sine;
    const VecD y = of_bits(bits_of(value) ^ ((turn & splat(std::int64_t{2})) << 62));
    return nan_of(x, op == ElementOp::Sin ? (x == VecD{} ? x : y) : y);  // the sign of zero stays
  }
}

QR_INLINE VecD sinh(VecD x) noexcept {
  const VecD t = abs(x), m = expm1_of_negative(-min(splat(2.0), t));
  const VecD small = -m * (m + splat(2.0)) / (splat(2.0) * (m + splat(1.0)));
  const VecD half = exp(t * splat(0.5));
  const VecD large = fma(splat(0.5) * half, half, splat(-0.5) / half / half);
  return with_sign_of(abs(t < splat(2.0) ? small : nan_of(x, large)), x);
}
QR_INLINE VecD cosh(VecD x) noexcept {
  const VecD half = exp(abs(x) * splat(0.5));
  return nan_of(x, fma(splat(0.5) * half, half, splat(0.5) / half / half));
}
QR_INLINE VecD elu(VecD x, VecD a) noexcept { return x < VecD{} ? a * expm1_of_negative(min(VecD{}, x)) : x; }

void activate_row(Act kind, double a_, double b_, const double *x, double *y, std::int64_t count) noexcept {
  const VecD zero{}, one = splat(1.0), a = splat(a_), b = splat(b_);
  switch (kind) {
    case Act::Clip: return map(x, y, count, [=](VecD v) { return clamp(v, a, b); });
    case Act::LeakyRelu: return map(x, y, count, [=](VecD v) { return v < zero ? a * v : v; });
    case Act::HardSigmoid: return map(x, y, count, [=](VecD v) { return clamp(fma(a, v, b), zero, one); });
    case Act::HardSwish:
      return map(x, y, count, [=](VecD v) { return v * clamp(v / splat(6.0) + splat(0.5), zero, one); });
    case Act::Sigmoid: return map_long(x, y, count, [](VecD v) { return sigmoid(v); });
    case Act::Silu: return map_long(x, y, count, [=](VecD v) { return v * sigmoid(a * v); });
    case Act::Tanh: return map_long(x, y, count, [](VecD v) { return tanh(v); });
    case Act::Elu: return map_long(x, y, count, [=](VecD v) { return elu(v, a); });
    case Act::Softplus: return map_long(x, y, count, [](VecD v) { return softplus(v); });
    case Act::Mish: return map_long(x, y, count, [](VecD v) { return v * tanh(softplus(v)); });
    case Act::Exp: return map_long(x, y, count, [](VecD v) { return exp(v); });
    case Act::Log: return map_long(x, y, count, [](VecD v) { return log(v); });
    case Act::Sqrt: return map(x, y, count, [](VecD v) { return sqrt(v); });
    case Act::Reciprocal: return map(x, y, count, [=](VecD v) { return one / v; });
    case Act::Abs: return map(x, y, count, [](VecD v) { return abs(v); });
    case Act::Neg: return map(x, y, count, [](VecD v) { return -v; });
    case Act::Floor: return map(x, y, count, [](VecD v) { return floor(v); });
    case Act::Ceil: return map(x, y, count, [](VecD v) { return ceil(v); });
    case Act::Round: return map(x, y, count, [](VecD v) { return round(v); });
    default: return;
  }
}

// Lines whose elements lie side by side.
void softmax_row(const Threads &threads, const double *x, double *y, std::int64_t n, bool log_of_it) noexcept {
  VecD best[2] = {splat(-__builtin_inf()), splat(-__builtin_inf())};
  double greatest = x[0];  // (NaN comes out of the sum.)
  for (Parts part(threads, n); part.next();) {
    std::int64_t i = part.begin;
    for (; i + 2 * kDoubles <= part.end; i += 2 * kDoubles)
      QR_UNROLL for (int k = 0; k < 2; ++k) best[k] = max(load(x + i + k * kDoubles), best[k]);
    for (; i < part.end; ++i) greatest = x[i] > greatest ? x[i] : greatest;
  }
  const VecD both = max(best[0], best[1]);
  for (int k = 0; k < kDoubles; ++k) greatest = both[k] > greatest ? both[k] : greatest;
  const VecD shift = splat(greatest);
  VecD total[2] = {};
  const auto take = [&](VecD v, std::int64_t at) __attribute__((always_inline)) {
    const VecD e = exp(v - shift);
    if (!log_of_it) store(y + at, e);
    return e;
  };
  for (Parts part(threads, n); part.next();) {
    std::int64_t i = part.begin;
    for (; i + 2 * kDoubles <= part.end; i += 2 * kDoubles)
      QR_UNROLL for (int k = 0; k < 2; ++k) total[k] += take(load(x + i + k * kDoubles), i + k * kDoubles);
    for (; i + kDoubles <= part.end; i += kDoubles) total[0] += take(load(x + i), i);
    if (const int rest = static_cast<int>(part.end - i); rest > 0) {
      const VecD e = exp(load_part(x + i, rest) - shift);
      if (!log_of_it) store_part(y + i, e, rest);
      total[0] += first_doubles(rest) ? e : VecD{};
    }
  }
  const VecD whole = splat(sum(total[0] + total[1]));
  if (log_of_it) {
    const VecD log_sum = log(whole);
    for (Parts part(threads, n); part.next();)
      map(x + part.begin, y + part.begin, part.end - part.begin, [=](VecD v) { return (v - shift) - log_sum; });
    return;
  }
  const VecD factor = splat(1.0) / whole;
  for (Parts part(threads, n); part.next();)
    map(y + part.begin, y + part.begin, part.end - part.begin, [=](VecD v) { return v * factor; });
}
// A few lines side by side, their elements `step` apart.
__attribute__((noinline)) void softmax_columns(Parts rows, const double *x, double *y, std::int64_t step, int lanes,
                                               bool log_of_it) noexcept {
  const auto from = [&](const double *p) __attribute__((always_inline)) {
    return lanes == kDoubles ? load(p) : load_part(p, lanes);
  };
  const auto to = [&](double *p, VecD v) __attribute__((always_inline)) {
    if (lanes == kDoubles) store(p, v);
    else store_part(p, v, lanes);
  };
  VecD greatest = splat(-__builtin_inf()), total{};
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) greatest = max(from(x + i * step), greatest);
  for (Parts part = rows; part.next();)
    for (std::int64_t i = part.begin; i < part.end; ++i) {
      const VecD e = exp(from(x + i * step) - greatest);
      if (!log_of_it) to(y + i * step, e);
      total += e;
    }
  const VecD log_sum = log(total), factor = splat(1.0) / total;
  while (rows.next())
    for (std::int64_t i = rows.begin; i < rows.end; ++i)
      to(y + i * step, log_of_it ? (from(x + i * step) - greatest) - log_sum : from(y + i * step) * factor);
}

}  // namespace

void function_row(ElementOp op, double a_, double b_, const double *x, double *y, std::int64_t count) noexcept {
  const VecD zero{}, one = splat(1.0), a = splat(a_), b = splat(b_);
  switch (op) {
    case ElementOp::Softsign: return map(x, y, count, [=](VecD v) { return v / (one + abs(v)); });
    case ElementOp::Selu: return map_long(x, y, count, [=](VecD v) { return b * elu(v, a); });
    case ElementOp::Celu:
      return map_long(x, y, count, [=](VecD v) { return v < zero ? a * expm1_of_negative(min(zero, v / a)) : v; });
    case ElementOp::ThresholdedRelu: return map(x, y, count, [=](VecD v) { return v > a ? v : zero; });
    case ElementOp::Shrink:
      return map(x, y, count, [=](VecD v) { return v < -a ? v + b : v > a ? v - b : v != v ? v : zero; });
    case ElementOp::Sin: return map_long(x, y, count, [](VecD v) { return wave<ElementOp::Sin>(v); });
    case ElementOp::Cos: return map_long(x, y, count, [](VecD v) { return wave<ElementOp::Cos>(v); });
    case ElementOp::Tan: return map_long(x, y, count, [](VecD v) { return wave<ElementOp::Tan>(v); });
    case ElementOp::Sinh: return map_long(x, y, count, [](VecD v) { return sinh(v); });
    case ElementOp::Cosh: return map_long(x, y, count, [](VecD v) { return cosh(v); });
#define QR_EXPRESSION(op, ...) \
  case ElementOp::op:          \
    return map_long(x, y, count, [=](VecD v) { return written_##op<double>(v, a, b); });
#include "graph/ops/functions.inc"
    default: return;
  }
}

void run_UnaryF64(const Call &call) {
  const auto &p = call.as<UnaryF64>();
  const bool quick =
      p.kind == Act::Clip || p.kind == Act::LeakyRelu || (p.kind >= Act::Reciprocal && p.kind <= Act::Round);
  call.threads.run(static_cast<std::uint64_t>(p.count), quick ? 8192 : 2048,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     activate_row(p.kind, p.a, p.b, call.operand<const double>(0) + begin,
                                  call.operand<double>(1) + begin, static_cast<std::int64_t>(end - begin));
                   });
}

void run_SoftmaxF64(const Call &call) {
  const auto &p = call.as<SoftmaxF64>();
  if (p.outer == 0 || p.n == 0 || p.inner == 0) return;
  const std::int64_t blocks = ceil_div<std::int64_t>(p.inner, kDoubles);
  call.threads.run(
      static_cast<std::uint64_t>(p.outer * blocks), static_cast<std::uint64_t>(1 + 4096 / p.n),
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
        for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
          const std::int64_t column = task % blocks * kDoubles, at = task / blocks * p.n * p.inner + column;
          const double *const x = call.operand<const double>(0) + at;
          double *const y = call.operand<double>(1) + at;
          if (p.inner == 1) softmax_row(call.threads, x, y, p.n, p.log != 0);
          else
            softmax_columns(Parts::of_rows(call.threads, p.n, kDoubles), x, y, p.inner,
                            static_cast<int>(min_of<std::int64_t>(kDoubles, p.inner - column)), p.log != 0);
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
