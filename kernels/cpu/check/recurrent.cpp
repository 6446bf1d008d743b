// SPDX-License-Identifier: Apache-2.0
// Check of RecurrentF32 and RecurrentBytes, and packing of the latter.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/alloc.h"
#include "kernels/cpu/check/check.h"
#include "kernels/cpu/isa.h"
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_int_shape.h"
#include "kernels/cpu/shapes/recurrent_shape.h"

namespace quarry::kernels {

namespace {

// Bytes of operands; of x: rows of `columns` elements.
struct Extents {
  std::uint64_t x, y, state;
};

Status check_layer(const char *name, const RecurrentF32 &p, std::int64_t columns, Extents *out) {
  if (p.cell >= Cell::Count) return refuse(name, "cell", static_cast<std::int64_t>(p.cell), "0 to 3");
  for (const std::uint32_t flag :
       {p.backwards, p.has_bias, p.has_h, p.has_c, p.has_peepholes, p.coupled, p.has_lengths})
    if (flag > 1) return refuse(name, "flag", flag, "0 or 1");
  if (p.has_bias && p.cell != Cell::GruAfter) return refuse(name, "has_bias", p.has_bias, "0 for this cell");
  if ((p.has_c || p.has_peepholes || p.coupled) && p.cell != Cell::Lstm)
    return refuse(name, "flag of a cell with a state of its own", 1, "0");
  if (p.reserved != 0) return refuse(name, "reserved field", p.reserved, "0");
  if (!(p.clip >= 0)) return refuse(name, "clip", 0, "a number, 0 or more");
  for (const Activation *act : {&p.f, &p.g, &p.h})
    if (!valid(*act) || act->reserved != 0)
      return refuse(name, "activation", static_cast<std::int64_t>(act->kind), "one of the table");
  if (p.steps < 1 || p.steps > 1 << 24) return refuse(name, "steps", p.steps, "1 to 2^24");
  if (p.batch < 1 || p.batch > 1 << 20) return refuse(name, "entries of the batch", p.batch, "1 to 2^20");
  if (p.hidden < 1 || p.hidden > 1 << 16) return refuse(name, "size of the state", p.hidden, "1 to 2^16");
  const auto extent = [&](std::int64_t step, std::int64_t row, std::int64_t elements, std::uint64_t *bytes) {
    const std::int64_t dims[3] = {p.steps, p.batch, elements}, strides[3] = {step, row, 1};
    const bool fits = row >= 0 && step >= 0 && nest_extent(dims, strides, 3, bytes);
    *bytes *= 4;
    return fits;
  };
  const std::int64_t wide = columns > 0 ? columns : (p.cell == Cell::Lstm ? 4 : p.cell == Cell::Rnn ? 1 : 3) * p.hidden;
  if (!extent(p.x_step, p.x_row, wide, &out->x))
    return refuse(name, "strides of the gates (step given)", p.x_step, "0 or more, within 2^48 elements");
  // What is written must lie apart: each step reads what the one before wrote.
  const auto apart = [&] {
    if (p.steps == 1 || p.batch == 1)
      return (p.steps == 1 || p.y_step >= p.hidden) && (p.batch == 1 || p.y_row >= p.hidden);
    return p.y_step > p.y_row ? p.y_row >= p.hidden && p.y_step - (p.batch - 1) * p.y_row >= p.hidden
                              : p.y_step >= p.hidden && p.y_row - (p.steps - 1) * p.y_step >= p.hidden;
  };
  if (!extent(p.y_step, p.y_row, p.hidden, &out->y) || !apart())
    return refuse(name, "strides of y (step given)", p.y_step, "ones that keep rows apart, within 2^48 elements");
  const std::int64_t dims[2] = {p.batch, p.hidden}, strides[2] = {p.state_row, 1};
  if (!nest_extent(dims, strides, 2, &out->state) || (p.batch > 1 && p.state_row < p.hidden))
    return refuse(name, "stride of the states", p.state_row, "at least the state's size, within 2^48 elements");
  out->state *= 4;
  return {};
}

// What comes behind the weights.
void add_states(const RecurrentF32 &p, const Extents &bytes, Needs &needs) {
  if (p.has_bias) add(needs, static_cast<std::uint64_t>(p.hidden) * 4);
  if (p.has_h) add(needs, bytes.state);
  if (p.has_c) add(needs, bytes.state);
  if (p.has_peepholes) add(needs, static_cast<std::uint64_t>(p.hidden) * 12);
  if (p.has_lengths) add(needs, static_cast<std::uint64_t>(p.batch) * 4);
  add(needs, bytes.y, true);
  add(needs, bytes.state, true);
  if (p.cell == Cell::Lstm) add(needs, bytes.state, true);
}

// A row of weights as whole numbers times a factor: the fewest levels that serve, of which rounding to f32 shows no
// more. The numbers, less `zero`, are bytes.
bool whole_numbers(const float *row, std::int64_t count, std::int8_t *to, float *scale, float *zero) {
  constexpr int kLevels = 255;
  constexpr double kError = 1.5e-7;  // of a product in f32 and of what it is divided by, together
  float most = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!std::isfinite(row[i])) return false;
    most = std::max(most, std::fabs(row[i]));
  }
  *scale = *zero = 0;
  for (std::int64_t i = 0; i < count; ++i) to[i] = 0;
  if (most == 0) return true;
  for (int levels = 1; levels <= kLevels; ++levels) {
    const double inverse = levels / static_cast<double>(most);
    double low = 0, high = 0;
    std::int64_t i = 0;
    for (; i < count; ++i) {
      const double number = row[i] * inverse, whole = std::nearbyint(number);
      if (std::fabs(number - whole) > levels * kError) break;
      low = std::min(low, whole), high = std::max(high, whole);
    }
    if (i < count || high - low > kLevels) continue;
    const double from = low >= -128 && high <= 127 ? 0 : low + 128;
    for (i = 0; i < count; ++i) to[i] = static_cast<std::int8_t>(std::nearbyint(row[i] * inverse) - from);
    *scale = static_cast<float>(1 / inverse), *zero = static_cast<float>(from);
    return true;
  }
  return false;
}

}  // namespace

Status check_RecurrentF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const RecurrentF32 *>(params);
  Extents bytes;
  QR_RETURN_IF_ERROR(check_layer("RecurrentF32", p, 0, &bytes));
  const RecurrentShape s = recurrent_shape(p, isa.f32_lanes);
  add(needs, bytes.x);
  add(needs, static_cast<std::uint64_t>(s.weights) * 4);
  add_states(p, bytes, needs);
  needs.shared_bytes = (static_cast<std::uint64_t>(s.shared) * 4 + 63) / 64 * 64;
  return {};
}

Status check_PackRecurrentF32(const void *params, const Isa &isa, Needs &needs) {
  const auto &p = *static_cast<const PackRecurrentF32 *>(params);
  if (p.reserved != 0) return refuse("PackRecurrentF32", "reserved field", p.reserved, "0");
  if (p.lanes != isa.f32_lanes)
    return refuse("PackRecurrentF32", "elements of a vector", p.lanes, "those of the instruction set");
  Needs behind;
  QR_RETURN_IF_ERROR(check_RecurrentF32(&p.layer, isa, behind));
  // (A state has 2^16 elements at most.)
  const std::int64_t gates = recurrent_shape(p.layer, p.lanes).gates;
  add(needs, static_cast<std::uint64_t>(gates * p.layer.hidden * p.layer.hidden) * 4);
  add(needs, behind.operand_bytes[1], true);
  return {};
}

Status check_RecurrentBytes(const void *params, const Isa &isa, Needs &needs) {
  constexpr const char *kName = "RecurrentBytes";
  const auto &p = *static_cast<const RecurrentBytes *>(params);
  if (isa.int_group != 4) return refuse(kName, "bytes of the dot product", isa.int_group, "4");
  if (p.layer.cell != Cell::Lstm) return refuse(kName, "cell", static_cast<std::int64_t>(p.layer.cell), "an LSTM");
  if (p.input < 1 || p.input > 1 << 16) return refuse(kName, "size of the input", p.input, "1 to 2^16");
  Extents bytes;
  QR_RETURN_IF_ERROR(check_layer(kName, p.layer, p.input, &bytes));
  if (p.layer.steps > (1 << 24) / p.layer.batch)
    return refuse(kName, "steps of so many entries", p.layer.steps, "at most 2^24 in all");
  const RecurrentBytesShape s = recurrent_bytes_shape(p, isa.f32_lanes);
  add(needs, bytes.x);
  add(needs, static_cast<std::uint64_t>(s.weights));
  add_states(p.layer, bytes, needs);
  needs.scratch_bytes = static_cast<std::uint64_t>(s.worker_bytes);
  needs.shared_bytes = static_cast<std::uint64_t>(s.shared_bytes);
  return {};
}

bool pack_recurrent_bytes(const RecurrentBytes &p, const Isa &isa, const float *w, const float *r, const float *bias,
                          void *destination) {
  const std::int64_t lanes = isa.f32_lanes, hidden = p.layer.hidden, gates = 4;
  const RecurrentBytesShape s = recurrent_bytes_shape(p, lanes);
  auto *const bytes = static_cast<std::int8_t *>(destination);
  std::memset(bytes, 0, static_cast<std::size_t>(s.weights));
  auto *columns = bytes + s.w.bytes + s.r.bytes;
  Vector<std::int8_t> row(static_cast<std::size_t>(std::max(p.input, hidden)));
  const auto put = [](std::int8_t *to, std::int64_t index, auto value) {
    std::memcpy(to + index * 4, &value, sizeof value);
  };
  const auto matrix = [&](const RecurrentBytesShape::Matrix &m, const float *from, std::int8_t *to) {
    for (std::int64_t i = 0; i < gates * hidden; ++i) {
      const std::int64_t gate = i / hidden, j = i % hidden, column = gate * s.padded + j;
      float scale, zero;
      if (!whole_numbers(from + i * m.depth, m.depth, row.data(), &scale, &zero)) return false;
      std::int32_t total = 0;
      for (std::int64_t k = 0; k < m.depth; ++k) {
        const std::int8_t value = row[index_of(k)];
        to[(((j / lanes * m.steps + k / 4) * gates + gate) * lanes + j % lanes) * 4 + k % 4] = value;
        total += value;
      }
      put(columns, column, total * (kDotSigned ? 128 : -128));
      put(columns, s.columns + column, scale), put(columns, 2 * s.columns + column, zero);
    }
    columns += 3 * s.columns * 4;
    return true;
  };
  if (!matrix(s.w, w, bytes) || !matrix(s.r, r, bytes + s.w.bytes)) return false;
  for (std::int64_t gate = 0; bias && gate < gates; ++gate)
    for (std::int64_t j = 0; j < hidden; ++j) put(columns, gate * s.padded + j, bias[gate * hidden + j]);
  return true;
}

Vector<std::int64_t> pack_form(const RecurrentF32 &p, const Isa &isa) {
  const RecurrentShape s = recurrent_shape(p, isa.f32_lanes);
  return {p.hidden, s.blocks, s.first_gates, s.gates};
}

}  // namespace quarry::kernels
