// SPDX-License-Identifier: Apache-2.0
// Operators on signals, and what is filled with one number.
#include <cmath>
#include <numbers>

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
        table.push_back(static_cast<float>((is_sine ? -std::sin(angle) : std::cos(angle)) *
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
    case Op::STFT: return short_fourier(s);
    case Op::ConstantOfShape: return filled(s);
    default: return false;
  }
}

}  // namespace quarry::passes
