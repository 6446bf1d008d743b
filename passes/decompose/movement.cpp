// SPDX-License-Identifier: Apache-2.0
// Operators that put elements elsewhere: CenterCropPad, Pad that cuts, ReverseSequence; and CumProd, which is written
// out.
#include "base/checked.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"
#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::Op;

namespace {

bool center_crop_pad(Decomposer &s) {
  const qir::Shape from = s.in(0).shape, to = s.out().shape;
  qir::Shape sizes;
  if (const Vector<std::int64_t> *const axes = s.node().get_ints("axes")) {
    for (const std::int64_t axis : *axes) {
      const std::int64_t place = axis < 0 ? axis + static_cast<std::int64_t>(to.size()) : axis;
      if (place < 0 || place >= static_cast<std::int64_t>(to.size())) return false;
      sizes.push_back(to[index_of(place)]);
    }
  } else {
    sizes = to;
  }
  qir::CropPadGeometry g;
  if (s.in(0).quant || !qir::resolve_center_crop_pad(s.node(), from, sizes, &g).ok()) return false;
  std::int32_t x = s.node().inputs[0];
  Vector<std::int64_t> pads(2 * from.size(), 0);
  bool padded = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (g.length[i] != from[i]) x = s.slice(x, i, g.in_start[i], g.in_start[i] + g.length[i], 1);
    pads[i] = g.out_start[i];
    pads[from.size() + i] = g.extent[i] - g.out_start[i] - g.length[i];
    padded = padded || g.extent[i] != g.length[i];
  }
  if (padded) s.give(Op::Pad, {x, s.integers(pads)});
  else s.give(Op::Identity, {x});
  return true;
}

}  // namespace

std::optional<Vector<std::int64_t>> constant_integers(const Decomposer &s, std::size_t i) {
  const std::int32_t id = s.node().inputs[i];
  if (id == qir::kAbsent) return Vector<std::int64_t>();
  const qir::Tensor &given = s.tensor(id);
  const auto count = element_count(given.shape.data(), given.shape.size());
  if (!given.is_constant || !count || (given.dtype != DType::I64 && given.dtype != DType::I32)) return std::nullopt;
  Vector<std::int64_t> values;
  for (std::int64_t k = 0; k < *count; ++k)
    values.push_back(qir::stored_integer(given.dtype, given.data.data, index_of(k)));
  return values;
}

namespace {

// Negative amounts cut: what is left is padded by the others.
bool cutting_pad(Decomposer &s) {
  const qir::Shape from = s.in(0).shape;
  const auto amounts = constant_integers(s, 1), axes = constant_integers(s, 3);
  qir::PadGeometry g;
  if (!amounts || !axes || s.in(0).quant ||
      !qir::resolve_pad(s.node(), from, *amounts, s.node().inputs[3] != qir::kAbsent, *axes, &g).ok())
    return false;
  Vector<std::int64_t> pads(2 * from.size(), 0);
  bool cuts = false, padded = false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool cut = g.begin[i] < 0 || g.end[i]<0, grows = g.begin[i]> 0 || g.end[i] > 0;
    // More is cut than there is: only the rest of an axis stays, which no Slice gives.
    if (cut && from[i] + std::min<std::int64_t>(g.begin[i], 0) + std::min<std::int64_t>(g.end[i], 0) < 1) return false;
    cuts = cuts || cut, padded = padded || grows;
    pads[i] = std::max<std::int64_t>(g.begin[i], 0);
    pads[from.size() + i] = std::max<std::int64_t>(g.end[i], 0);
  }
  if (!cuts) return false;
  std::int32_t x = s.node().inputs[0];
  for (std::size_t i = 0; i < from.size(); ++i)
    if (g.begin[i] < 0 || g.end[i] < 0)
      x = s.slice(x, i, std::max<std::int64_t>(-g.begin[i], 0), from[i] + std::min<std::int64_t>(g.end[i], 0), 1);
  if (!padded) {
    s.give(Op::Identity, {x});
    return true;
  }
  Vector<std::int32_t> inputs{x, s.integers(pads)};
  if (const std::int32_t value = s.node().inputs[2]; value != qir::kAbsent) inputs.push_back(value);
  qir::Node &pad = s.give(Op::Pad, std::move(inputs));
  pad.set("mode", s.node().get_string("mode", "constant"));
  return true;
}

bool reverse_sequence(Decomposer &s) {
  const qir::Tensor lengths = s.in(1);
  const qir::Shape shape = s.in(0).shape;
  const std::int64_t time = s.node().get_int("time_axis", 0), batch = s.node().get_int("batch_axis", 1);
  if (!lengths.is_constant || lengths.dtype != DType::I64 || s.in(0).quant || shape.size() < 2 || time + batch != 1 ||
      (time != 0 && time != 1))
    return false;
  const auto *const ends = static_cast<const std::int64_t *>(lengths.data.data);
  if (lengths.data.size < static_cast<std::uint64_t>(shape[index_of(batch)]) * sizeof *ends) return false;
  Vector<std::int64_t> from;
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t k = 0; k < shape[1]; ++k) {
      const std::int64_t t = time == 0 ? i : k, b = time == 0 ? k : i;
      if (ends[b] < 0 || ends[b] > shape[index_of(time)]) return false;
      const std::int64_t at = t < ends[b] ? ends[b] - 1 - t : t;
      from.push_back(time == 0 ? at * shape[1] + b : b * shape[1] + at);
    }
  std::int64_t inner = 1;
  for (std::size_t i = 2; i < shape.size(); ++i) inner *= shape[i];
  const qir::Shape rows{static_cast<std::int64_t>(from.size()), inner};
  const std::int32_t x = s.reshape(s.node().inputs[0], rows);
  const std::int32_t turned = s.of(Op::Gather, {x, s.integers(from)}, s.in(0).dtype, rows);
  s.last_made().set("axis", std::int64_t{0});
  s.give(Op::Reshape, {turned, s.integers(shape)});
  return true;
}

// A product for each place, up to so many.
bool cumulative_product(Decomposer &s) {
  constexpr std::int64_t kMost = 64;
  const qir::Tensor given = s.in(1);
  const qir::Shape shape = s.in(0).shape;
  const DType dtype = s.in(0).dtype;
  if (!given.is_constant || (given.dtype != DType::I64 && given.dtype != DType::I32) || s.in(0).quant ||
      !element_count(shape.data(), shape.size()) || (dtype != DType::F32 && dtype != DType::F16))
    return false;
  std::int64_t stored = 0;
  if (given.dtype == DType::I64) std::memcpy(&stored, given.data.data, sizeof stored);
  else stored = qir::stored_integer(given.dtype, given.data.data, 0);
  const std::int64_t rank = static_cast<std::int64_t>(shape.size());
  const std::int64_t axis = stored < 0 ? stored + rank : stored;
  if (axis < 0 || axis >= rank) return false;
  const auto at = index_of(axis);
  const std::int64_t n = shape[at];
  const bool reverse = s.node().get_int("reverse", 0) != 0, exclusive = s.node().get_int("exclusive", 0) != 0;
  if (n < 1 || n > kMost) return false;
  Vector<std::int32_t> parts(static_cast<std::size_t>(n));
  std::int32_t sofar = qir::kAbsent;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t place = reverse ? n - 1 - i : i;
    const std::int32_t one = s.slice(s.node().inputs[0], at, place, place + 1, 1);
    if (exclusive && sofar == qir::kAbsent) {
      const Vector<float> ones(static_cast<std::size_t>(*element_count(shape.data(), shape.size()) / n), 1);
      sofar = s.floats(s.tensor(one).shape, ones);
    }
    const std::int32_t before = sofar;
    sofar = sofar == qir::kAbsent ? one : s.of(Op::Mul, {sofar, one});
    parts[index_of(place)] = exclusive ? before : sofar;
  }
  const std::int32_t all = s.concat(std::move(parts), axis);
  s.give(Op::Identity, {all});
  return true;
}

}  // namespace

bool decompose_movement(Decomposer &s) {
  switch (s.node().op) {
    case Op::CenterCropPad: return center_crop_pad(s);
    case Op::Pad: return cutting_pad(s);
    case Op::ReverseSequence: return reverse_sequence(s);
    case Op::CumProd: return cumulative_product(s);
    default: return false;
  }
}

}  // namespace quarry::passes
