// SPDX-License-Identifier: Apache-2.0
// What makes tensors out of little: copies, constants, shapes, ranges and random numbers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/real/real.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {
namespace {

// MT19937, seeded and read as numpy's RandomState(seed) does, whose numbers ONNX's tests hold. Without a seed it is 0,
// so that every run gives the same.
class Random {
 public:
  explicit Random(Context &context)
      : words_(static_cast<std::uint32_t *>(context.scratch(kWords * sizeof(std::uint32_t)))) {
    std::uint32_t word = 0;
    if (const qir::Attribute *seed = context.node().find("seed")) {
      const double value =
          seed->kind == qir::Attribute::Kind::Float ? static_cast<double>(seed->f) : static_cast<double>(seed->i);
      word = static_cast<std::uint32_t>(round_to<std::int64_t>(value));
    }
    for (std::uint32_t i = 0; i < kWords; word = 1812433253u * (word ^ (word >> 30)) + ++i) words_[i] = word;
  }
  double uniform() noexcept {  // [0, 1), 53 bits
    const double high = next() >> 5, low = next() >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;
  }
  double normal() noexcept {  // Box and Muller
    const double radius = std::sqrt(-2 * real::log(1 - uniform()));
    return radius * real::cos(6.28318530717958647692 * uniform());
  }

 private:
  static constexpr std::uint32_t kWords = 624, kShift = 397;

  std::uint32_t next() noexcept {
    if (at_ == kWords) {
      for (std::uint32_t i = 0; i < kWords; ++i) {
        const std::uint32_t pair = (words_[i] & 0x80000000u) | (words_[(i + 1) % kWords] & 0x7fffffffu);
        words_[i] = words_[(i + kShift) % kWords] ^ (pair >> 1) ^ (pair & 1u ? 0x9908b0dfu : 0u);
      }
      at_ = 0;
    }
    std::uint32_t word = words_[at_++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    return word ^ (word >> 18);
  }

  std::uint32_t *words_;
  std::uint32_t at_ = kWords;
};

// Fills an output of any type with f(index).
template <class F>
Status generate(Context &context, View &out, F f) {
  if (!is_loadable(out.dtype)) return type_error(context, out.dtype);
  constexpr std::int64_t kBlock = 256;
  double values[kBlock];
  Poll poll(context);
  for (std::int64_t begin = 0; begin < out.count && !poll.stopped(16 * kBlock); begin += kBlock) {
    const std::int64_t count = std::min(kBlock, out.count - begin);
    for (std::int64_t i = 0; i < count; ++i) values[i] = f(begin + i);
    store_rounded(out, begin, count, values);
  }
  return {};
}

Status random_normal(Context &context) {
  View *out = context.output(0);
  if (!out) return {};
  const double mean = context.node().get_float("mean", 0.0f), scale = context.node().get_float("scale", 1.0f);
  Random random(context);
  return generate(context, *out, [&](std::int64_t) { return mean + scale * random.normal(); });
}

Status random_uniform(Context &context) {
  View *out = context.output(0);
  if (!out) return {};
  const double low = context.node().get_float("low", 0.0f), high = context.node().get_float("high", 1.0f);
  Random random(context);
  return generate(context, *out, [&](std::int64_t) { return low + (high - low) * random.uniform(); });
}

double scalar(const View &view) noexcept {
  return view.dtype == DType::F64 ? *view.as<const double>() : static_cast<double>(*view.as<const float>());
}

}  // namespace

Status kernel_identity(Context &context) { return copy_bits(context); }

Status kernel_dropout(Context &context) {
  const View &data = *context.input(0);
  const View *ratio_input = context.input(1), *training_input = context.input(2);
  const double ratio = ratio_input ? scalar(*ratio_input) : 0.5;
  const bool training = training_input && *training_input->as<const std::uint8_t>() != 0 && ratio != 0;
  Random random(context);
  View *out = context.output(0), *mask = context.output(1);
  auto *kept = static_cast<std::uint8_t *>(mask ? mask->data : context.scratch(static_cast<std::uint64_t>(data.count)));
  for (std::int64_t i = 0; i < data.count; ++i) kept[i] = !training || random.uniform() >= ratio;
  if (!out) return {};
  const bool known = dispatch<float, double>(data.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T scale = training ? static_cast<T>(1 / (1 - ratio)) : T{1};
    for (std::int64_t i = 0; i < data.count; ++i) out->as<T>()[i] = kept[i] ? data.as<const T>()[i] * scale : T{0};
  });
  return known ? Status() : type_error(context, data.dtype);
}

Status kernel_bernoulli(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  Random random(context);
  return generate(context, *out, [&](std::int64_t i) {
    const double p = in.dtype == DType::F64 ? in.as<const double>()[i] : static_cast<double>(in.as<const float>()[i]);
    return random.uniform() < p ? 1.0 : 0.0;
  });
}
Status kernel_random_normal(Context &context) { return random_normal(context); }
Status kernel_random_normal_like(Context &context) { return random_normal(context); }
Status kernel_random_uniform(Context &context) { return random_uniform(context); }
Status kernel_random_uniform_like(Context &context) { return random_uniform(context); }

Status kernel_eye_like(Context &context) {
  View *out = context.output(0);
  if (!out) return {};
  if (!is_loadable(out->dtype)) return type_error(context, out->dtype);
  if (out->count == 0) return {};
  const std::int64_t columns = out->rank == 2 ? out->dims[1] : 1,
                     k = std::clamp(context.node().get_int("k", 0), -out->count, out->count);
  const double one = 1;
  const std::uint64_t zero = 0;
  fill(context, *out, &zero);
  for (std::int64_t row = std::max<std::int64_t>(0, -k); row < out->count / columns && row + k < columns; ++row)
    store_rounded(*out, row * columns + row + k, 1, &one);
  return {};
}

Status kernel_range(Context &context) {
  const View &start = *context.input(0), &delta = *context.input(2);
  View *out = context.output(0);
  if (!out) return {};
  if (!out->data) return qir::node_error(context.node(), ErrorId::run_value, "the number of elements is not known");
  const bool known = dispatch<float, double, std::int16_t, std::int32_t, std::int64_t>(out->dtype, [&](auto tag) {
    using T = decltype(tag);
    const T first = *start.as<const T>(), step = *delta.as<const T>();
    T *const to = out->as<T>();
    for_stretches(context, out->count, [&](std::int64_t begin, std::int64_t end) {
      if constexpr (std::is_integral_v<T>) {  // integers wrap around: some side by side, each of which steps so far
        using Bits = std::make_unsigned_t<T>;
        constexpr auto kWide = static_cast<std::int64_t>(16 / sizeof(T)), kSome = 2 * kWide;
        typedef Bits Some __attribute__((vector_size(16)));
        Some now[2];
        for (std::int64_t k = 0; k < kSome; ++k)
          now[k / kWide][k % kWide] = static_cast<Bits>(add(first, multiply(static_cast<T>(begin + k), step)));
        Some low = now[0], high = now[1];
        const Some far = Some{} + static_cast<Bits>(multiply(static_cast<T>(kSome), step));
        std::int64_t i = begin;
        for (const std::int64_t last = end - kSome; i <= last; i += kSome) {
          std::memcpy(to + i, &low, sizeof low), std::memcpy(to + i + kWide, &high, sizeof high);
          low += far, high += far;
        }
        now[0] = low, now[1] = high;
        std::memcpy(to + i, now, static_cast<std::size_t>(end - i) * sizeof(T));
      } else if (end <= INT32_MAX) {  // counted in 32 bits: the same numbers, and processors have vectors for that
        for (auto i = static_cast<std::int32_t>(begin); i < static_cast<std::int32_t>(end); ++i)
          to[i] = add(first, multiply(static_cast<T>(i), step));
      } else {
        for (std::int64_t i = begin; i < end; ++i) to[i] = add(first, multiply(static_cast<T>(i), step));
      }
    });
  });
  return known ? Status() : type_error(context, out->dtype);
}

Status kernel_constant_of_shape(Context &context) {
  View *out = context.output(0);
  if (!out) return {};
  const std::uint64_t zero = 0;
  const View *value = context.input(1);
  if (value && (value->width != out->width || value->count != 1)) return type_error(context, value->dtype);
  fill(context, *out, value ? value->data : &zero);
  return {};
}

Status kernel_shape(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  const std::int64_t rank = in.rank;
  std::int64_t start = context.node().get_int("start", 0);
  start = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
  for (std::int64_t i = 0; i < out->count && start + i < rank; ++i) out->as<std::int64_t>()[i] = in.dims[start + i];
  return {};
}

Status kernel_size(Context &context) {
  if (View *out = context.output(0)) *out->as<std::int64_t>() = context.input(0)->count;
  return {};
}

}  // namespace quarry::reference
