// SPDX-License-Identifier: Apache-2.0
// Cast, CastLike, BitCast: the kernels that see elements as they are stored.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/float16.h"
#include "kernels/reference/broadcast.h"
#include "kernels/reference/convert.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {
namespace {

constexpr std::int64_t kChunk = 512;

// Rounds to odd: what comes out can be rounded again, to a shorter type, as if it had been rounded once.
float to_odd(double value) noexcept {
  const float rounded = static_cast<float>(value);
  if (static_cast<double>(rounded) == value || value != value) return rounded;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(rounded);
  if (std::fabs(static_cast<double>(rounded)) > std::fabs(value)) --bits;
  return std::bit_cast<float>(bits | 1u);
}

// An integer as f64, rounded to odd: of 54 bits and more the lowest 11 become one that says whether any was set.
template <class T>
double to_double_odd(T value) noexcept {
  constexpr T kLow = (1 << 11) - 1, kExact = T{1} << 53;
  const bool fits = value <= kExact && (std::is_unsigned_v<T> || value >= -kExact);
  return static_cast<double>(fits ? value : (value & ~kLow) | ((value & kLow) != 0 ? kLow + 1 : 0));
}

// The integer part, saturated to 64 bits; NaN is 0. `is_unsigned`: to u64, as bits.
std::int64_t to_integer(double value, bool is_unsigned) noexcept {
  if (value != value) return 0;
  if (is_unsigned && value >= 0x1p63)
    return value >= 0x1p64 ? -1 : static_cast<std::int64_t>(static_cast<std::uint64_t>(value));
  if (value >= 0x1p63) return INT64_MAX;
  return value <= -0x1p63 ? INT64_MIN : static_cast<std::int64_t>(value);
}

struct Target {
  DType dtype;
  bool saturate;
  E8M0Round round;
};

// Some elements on the way: as reals, or as integers (u64 as their bits).
struct Chunk {
  std::int64_t size = 0;
  double reals[kChunk];
  std::int64_t integers[kChunk];
};

void load(const View &in, std::int64_t at, Chunk &chunk) noexcept {
  const auto *bytes = in.as<const std::uint8_t>() + at;
  if (in.dtype == DType::F64) {
    std::copy_n(in.as<const double>() + at, chunk.size, chunk.reals);
  } else if (in.dtype == DType::F32) {
    std::copy_n(in.as<const float>() + at, chunk.size, chunk.reals);
  } else if (is_float(in.dtype)) {
    float values[kChunk];
    widen(in.dtype, in.as<const char>() + at * in.width, chunk.size, values);
    std::copy_n(values, chunk.size, chunk.reals);
  } else if (in.dtype == DType::Bool) {
    for (std::int64_t i = 0; i < chunk.size; ++i) chunk.integers[i] = bytes[i] != 0;
  } else if (in.dtype == DType::I4 || in.dtype == DType::I2) {
    const int sign = in.dtype == DType::I4 ? 8 : 2;
    for (std::int64_t i = 0; i < chunk.size; ++i) chunk.integers[i] = (bytes[i] ^ sign) - sign;
  } else {
    load_integers(in, at, 1, chunk.size, chunk.integers);
  }
}

void store_small_floats(const Chunk &chunk, const Target &target, void *out) noexcept {
  float values[kChunk];
  for (std::int64_t i = 0; i < chunk.size; ++i) values[i] = to_odd(chunk.reals[i]);
  if (target.dtype == DType::F8E8M0) {
    for (std::int64_t i = 0; i < chunk.size; ++i)
      static_cast<std::uint8_t *>(out)[i] = f32_to_e8m0(values[i], target.round, target.saturate);
  } else if (dtype_bits(target.dtype) == 8) {
    const float one = 1;
    quantize(target.dtype, EntryMap::per_tensor(chunk.size), &one, nullptr, values, out, target.saturate);
  } else {
    narrow(target.dtype, values, chunk.size, out);
  }
}

void store(Chunk &chunk, DType source, const Target &target, const View &out, std::int64_t at) noexcept {
  const bool from_real = is_float(source), from_unsigned = source == DType::U64;
  if (target.dtype == DType::Bool) {
    for (std::int64_t i = 0; i < chunk.size; ++i)
      out.as<std::uint8_t>()[at + i] = from_real ? chunk.reals[i] != 0 : chunk.integers[i] != 0;
  } else if (target.dtype == DType::F32) {
    float *const to = out.as<float>() + at;
    if (from_real) std::copy_n(chunk.reals, chunk.size, to);
    else if (from_unsigned) std::copy_n(reinterpret_cast<const std::uint64_t *>(chunk.integers), chunk.size, to);
    else std::copy_n(chunk.integers, chunk.size, to);
  } else if (is_float(target.dtype)) {
    const bool whole = target.dtype == DType::F64;  // else they are rounded once more
    const auto each = [&](const auto *from) {
      for (std::int64_t i = 0; i < chunk.size; ++i)
        chunk.reals[i] = whole ? static_cast<double>(from[i]) : to_double_odd(from[i]);
    };
    if (from_unsigned) each(reinterpret_cast<const std::uint64_t *>(chunk.integers));
    else if (!from_real) each(chunk.integers);
    if (whole) std::copy_n(chunk.reals, chunk.size, out.as<double>() + at);
    else store_small_floats(chunk, target, out.as<char>() + at * out.width);
  } else {
    if (from_real)
      for (std::int64_t i = 0; i < chunk.size; ++i)
        chunk.integers[i] = to_integer(chunk.reals[i], target.dtype == DType::U64);
    // Higher bits are dropped, for elements under 8 bits when they are packed.
    store_integers(out, at, chunk.size, chunk.integers);
  }
}

}  // namespace

Status kernel_cast(Context &context) {
  const View &in = *context.input(0);
  View *out = context.output(0);
  if (!out) return {};
  const std::string_view mode = context.node().get_string("round_mode", "up");
  const Target target{out->dtype, context.node().get_int("saturate", 1) != 0,
                      mode == "down"      ? E8M0Round::Down
                      : mode == "nearest" ? E8M0Round::Nearest
                                          : E8M0Round::Up};
  for_stretches(context, in.count, [&](std::int64_t begin, std::int64_t end) {
    Chunk chunk;
    for (std::int64_t at = begin; at < end; at += chunk.size) {
      chunk.size = std::min(kChunk, end - at);
      load(in, at, chunk);
      store(chunk, in.dtype, target, *out, at);
    }
  });
  return {};
}

Status kernel_cast_like(Context &context) { return kernel_cast(context); }  // the output has the wanted type already

Status kernel_bit_cast(Context &context) { return copy_bits(context); }

}  // namespace quarry::reference
