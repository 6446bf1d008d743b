// SPDX-License-Identifier: Apache-2.0
// Operators on signals, and what is filled with one number.
#include <cmath>
#include <numbers>

#include "base/real/real.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::kAbsent;
using qir::Op;

namespace {

constexpr std::int64_t kMostWeights = std::int64_t{1} << 23;

// An integer of one element, constant, of 32 or 64 bits.
std::optional<std::int64_t> integer(const Decomposer &s, std::size_t input) {
  const std::int32_t id = s.node().inputs[input];
  if (id == kAbsent || !s.tensor(id).is_constant) return std::nullopt;
  const qir::Bytes &data = s.tensor(id).data;
  if (data.size == 8) {
    std::int64_t value;
    std::memcpy(&value, data.data, 8);
    return value;
  }
  std::int32_t value;
  if (data.size != 4) return std::nullopt;
  std::memcpy(&value, data.data, 4);
  return value;
}

// Of real signals: a convolution by the window's cosines and sines.
bool short_fourier(Decomposer &s) {
  const qir::Shape signal = s.in(0).shape, out = s.out().shape;
  const auto step = integer(s, 1);
  if (s.in(0).dtype != DType::F32 || s.in(0).quant || !step || *step < 1 || out.size() != 4 || signal.size() < 2 ||
      (signal.size() == 3 && signal[2] != 1))
    return false;
  const std::int32_t window = s.node().inputs[2];
  const float *const weights = window == kAbsent ? nullptr : qir::constant_floats(s.rewriting().graph, window);
  if (window != kAbsent && !weights) return false;
  std::int64_t length = signal[1];
  if (window != kAbsent) length = elements(s.tensor(window).shape);
  if (s.node().inputs[3] != kAbsent) {
    const auto given = integer(s, 3);
    if (!given || (window != kAbsent && *given != length)) return false;
    length = *given;
  }
  const std::int64_t batch = out[0], frames = out[1], bins = out[2];
  if (length < 1 || length > signal[1] || bins < 1 || bins > length || out[3] != 2 ||
      frames != (signal[1] - length) / *step + 1 || length > kMostWeights / (2 * bins))
    return false;
  Vector<float> table;
  for (std::int64_t k = 0; k < bins; ++k)
    for (const bool is_sine : {false, true})
      for (std::int64_t n = 0; n < length; ++n) {
        const double angle = 2 * std::numbers::pi * static_cast<double>(k * n % length) / static_cast<double>(length);
        table.push_back(static_cast<float>((is_sine ? -real::sin(angle) : real::cos(angle)) *
                                           (weights ? static_cast<double>(weights[n]) : 1.0)));
      }
  const std::int32_t x = s.reshape(s.node().inputs[0], {batch, 1, signal[1]});
  const std::int32_t parts =
      s.of(Op::Conv, {x, s.floats({2 * bins, 1, length}, table)}, DType::F32, {batch, 2 * bins, frames});
  s.last_made().set("strides", Vector<std::int64_t>{*step});
  s.last_made().set("kernel_shape", Vector<std::int64_t>{length});
  s.give(Op::Reshape, {s.transpose(parts, {0, 2, 1}), s.integers(out)});
  return true;
}

// What a transform of `length` does with element `i` of a signal for element `k` of its result: the factors of the real
// and the imaginary part, of which a real result wants the first alone.
struct Turn {
  std::int64_t length;
  bool inverse, to_real;
  void write(std::int64_t i, std::int64_t k, bool is_imaginary, Vector<float> &table) const {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i * k % length) / static_cast<double>(length);
    const double sine = inverse ? real::sin(angle) : -real::sin(angle), cosine = real::cos(angle);
    double factor = inverse ? 1 / static_cast<double>(length) : 1;
    // Half a spectrum stands for the other half too; its ends are real.
    if (to_real && i > 0 && length - i > i) factor *= 2;
    if (to_real && is_imaginary && (i == 0 || 2 * i == length)) factor = 0;
    table.push_back(static_cast<float>(factor * (is_imaginary ? -sine : cosine)));
    if (!to_real) table.push_back(static_cast<float>(factor * (is_imaginary ? cosine : sine)));
  }
};

// A product with the cosines and sines of its length.
bool fourier(Decomposer &s) {
  const qir::Shape x = s.in(0).shape, out = s.out().shape;
  const std::size_t rank = x.size();
  const bool inverse = s.node().get_int("inverse", 0) != 0, to_real = inverse && s.node().get_int("onesided", 0) != 0;
  std::int64_t axis = -2;
  if (s.node().inputs[2] != kAbsent) {
    const auto given = integer(s, 2);
    if (!given) return false;
    axis = *given;
  }
  if (axis < 0) axis += static_cast<std::int64_t>(rank);
  if (s.in(0).dtype != DType::F32 || s.in(0).quant || rank < 2 || axis < 0 ||
      axis + 1 >= static_cast<std::int64_t>(rank))
    return false;
  const std::size_t at = index_of(axis);
  const std::int64_t parts = x.back(), result_parts = out.back(), bins = out[at];
  std::int64_t length = to_real ? 2 * (x[at] - 1) : x[at];
  if (s.node().inputs[1] != kAbsent) {
    const auto given = integer(s, 1);
    if (!given) return false;
    length = *given;
  }
  if (length < 1 || length > kMostWeights) return false;
  const std::int64_t used = std::min(x[at], to_real ? length / 2 + 1 : length);
  if (used < 1 || bins < 1 || used * parts > kMostWeights / (bins * result_parts)) return false;
  Vector<float> table;
  const Turn turn{length, inverse, to_real};
  for (std::int64_t i = 0; i < used; ++i)
    for (std::int64_t part = 0; part < parts; ++part)
      for (std::int64_t k = 0; k < bins; ++k) turn.write(i, k, part == 1, table);
  // The axis goes to where the parts are, and back.
  Vector<std::int64_t> there, back(rank);
  for (std::size_t d = 0; d < rank; ++d)
    if (d != at && d + 1 != rank) there.push_back(static_cast<std::int64_t>(d));
  there.push_back(axis), there.push_back(static_cast<std::int64_t>(rank) - 1);
  for (std::size_t d = 0; d < rank; ++d) back[index_of(there[d])] = static_cast<std::int64_t>(d);
  std::int32_t id = s.node().inputs[0];
  if (used < x[at]) id = s.slice(id, at, 0, used, 1);
  const std::int64_t lines = elements(x) / (x[at] * parts);
  id = s.reshape(s.transpose(id, there), {lines, used * parts});
  id = s.of(Op::MatMul, {id, s.floats({used * parts, bins * result_parts}, table)}, DType::F32,
            {lines, bins * result_parts});
  qir::Shape turned;
  for (const std::int64_t d : there) turned.push_back(out[index_of(d)]);
  s.give(Op::Transpose, {s.reshape(id, turned)}).set("perm", std::move(back));
  return true;
}

// Where the shape is known: the number, everywhere.
bool filled(Decomposer &s) {
  std::int32_t value = s.node().inputs[1];
  const qir::Shape out = s.out().shape;
  if (value == kAbsent) {
    const float zero = 0;
    value = s.constant({1}, &zero, sizeof zero, DType::F32);
  }
  if (s.tensor(value).dtype != s.out().dtype || elements(s.tensor(value).shape) != 1) return false;
  s.give(Op::Expand, {s.reshape(value, {}), s.integers(out)});
  return true;
}

}  // namespace

bool decompose_signals(Decomposer &s) {
  switch (s.node().op) {
    case Op::DFT: return fourier(s);
    case Op::STFT: return short_fourier(s);
    case Op::ConstantOfShape: return filled(s);
    default: return false;
  }
}

}  // namespace quarry::passes
