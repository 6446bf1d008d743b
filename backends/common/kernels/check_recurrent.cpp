// SPDX-License-Identifier: Apache-2.0
// Check and packing of RecurrentF32.
#include <cmath>
#include <cstring>

#include "backends/common/kernels/check.h"
#include "backends/common/kernels/isa.h"
#include "backends/common/kernels/pack.h"
#include "backends/common/kernels/recurrent_shape.h"

namespace quarry::kernels {

Status check_RecurrentF32(const void *params, const Isa &isa, Needs &needs) {
  constexpr const char *kName = "RecurrentF32";
  const auto &p = *static_cast<const RecurrentF32 *>(params);
  if (p.cell >= Cell::Count) return refuse(kName, "cell", static_cast<std::int64_t>(p.cell), "0 to 3");
  for (const std::uint32_t flag :
       {p.backwards, p.has_bias, p.has_h, p.has_c, p.has_peepholes, p.coupled, p.has_lengths})
    if (flag > 1) return refuse(kName, "flag", flag, "0 or 1");
  if (p.has_bias && p.cell != Cell::GruAfter) return refuse(kName, "has_bias", p.has_bias, "0 for this cell");
  if ((p.has_c || p.has_peepholes || p.coupled) && p.cell != Cell::Lstm)
    return refuse(kName, "flag of a cell with a state of its own", 1, "0");
  if (p.reserved != 0) return refuse(kName, "reserved field", p.reserved, "0");
  if (!(p.clip >= 0)) return refuse(kName, "clip", 0, "a number, 0 or more");
  for (const Activation *act : {&p.f, &p.g, &p.h})
    if (!valid(*act) || act->reserved != 0)
      return refuse(kName, "activation", static_cast<std::int64_t>(act->kind), "one of the table");
  if (p.steps < 1 || p.steps > 1 << 24) return refuse(kName, "steps", p.steps, "1 to 2^24");
  if (p.batch < 1 || p.batch > 1 << 20) return refuse(kName, "entries of the batch", p.batch, "1 to 2^20");
  if (p.hidden < 1 || p.hidden > 1 << 16) return refuse(kName, "extent of the state", p.hidden, "1 to 2^16");
  const RecurrentShape s = recurrent_shape(p, isa.f32_lanes);
  const auto extent = [&](std::int64_t step, std::int64_t row, std::int64_t columns, std::uint64_t *bytes) {
    const std::int64_t dims[3] = {p.steps, p.batch, columns}, strides[3] = {step, row, 1};
    const bool fits = row >= 0 && step >= 0 && nest_extent(dims, strides, 3, bytes);
    *bytes *= 4;
    return fits;
  };
  std::uint64_t gates, y, state;
  if (!extent(p.x_step, p.x_row, s.gates * p.hidden, &gates))
    return refuse(kName, "strides of the gates (step given)", p.x_step, "0 or more, within 2^48 elements");
  // What is written must lie apart: each step reads what the one before wrote.
  const auto apart = [&] {
    if (p.steps == 1 || p.batch == 1)
      return (p.steps == 1 || p.y_step >= p.hidden) && (p.batch == 1 || p.y_row >= p.hidden);
    return p.y_step > p.y_row ? p.y_row >= p.hidden && p.y_step - (p.batch - 1) * p.y_row >= p.hidden
                              : p.y_step >= p.hidden && p.y_row - (p.steps - 1) * p.y_step >= p.hidden;
  };
  if (!extent(p.y_step, p.y_row, p.hidden, &y) || !apart())
    return refuse(kName, "strides of y (step given)", p.y_step, "ones that keep rows apart, within 2^48 elements");
  const std::int64_t dims[2] = {p.batch, p.hidden}, strides[2] = {p.state_row, 1};
  if (!nest_extent(dims, strides, 2, &state) || (p.batch > 1 && p.state_row < p.hidden))
    return refuse(kName, "stride of the states", p.state_row, "at least the state's extent, within 2^48 elements");
  state *= 4;
  add(needs, gates);
  add(needs, static_cast<std::uint64_t>(s.weights) * 4);
  if (p.has_bias) add(needs, static_cast<std::uint64_t>(p.hidden) * 4);
  if (p.has_h) add(needs, state);
  if (p.has_c) add(needs, state);
  if (p.has_peepholes) add(needs, static_cast<std::uint64_t>(p.hidden) * 12);
  if (p.has_lengths) add(needs, static_cast<std::uint64_t>(p.batch) * 4);
  add(needs, y, true);
  add(needs, state, true);
  if (p.cell == Cell::Lstm) add(needs, state, true);
  needs.shared_bytes = (static_cast<std::uint64_t>(s.shared) * 4 + 63) / 64 * 64;
  return {};
}

void pack_recurrent_f32(const RecurrentF32 &p, const Isa &isa, const float *r, void *destination) {
  const RecurrentShape s = recurrent_shape(p, isa.f32_lanes);
  float *to = static_cast<float *>(destination);
  const auto matrix = [&](int first, int count) {
    for (std::int64_t block = 0; block < s.blocks; ++block)
      for (std::int64_t k = 0; k < p.hidden; ++k)
        for (int gate = first; gate < first + count; ++gate)
          for (std::int64_t lane = 0; lane < isa.f32_lanes; ++lane) {
            const std::int64_t j = block * isa.f32_lanes + lane;
            *to++ = j < p.hidden ? r[(gate * p.hidden + j) * p.hidden + k] : 0.0f;
          }
  };
  matrix(0, s.first_gates);
  if (s.first_gates < s.gates) matrix(s.first_gates, s.gates - s.first_gates);
}

}  // namespace quarry::kernels
