// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backends/common/gaps.h"
#include "backends/gpu/program/images.h"

namespace quarry::gpu {

namespace {

struct Lifetime {
  std::uint32_t first = UINT32_MAX, last = 0;
  bool meets(const Lifetime &other) const noexcept { return first <= other.last && other.first <= last; }
};

constexpr std::uint64_t rounded(std::uint64_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Of a great many values, in the order of time.
Status assign_many(Plan &plan, Vector<std::uint32_t> &values, const Vector<Lifetime> &lifetimes,
                   const Vector<std::uint64_t> &room) {
  const auto size_of = [&](std::uint32_t v) { return rounded(std::max<std::uint64_t>(room[v], 1)); };
  Vector<std::uint32_t> by_end = values;
  std::ranges::stable_sort(values, {}, [&](std::uint32_t v) { return lifetimes[v].first; });
  std::ranges::stable_sort(by_end, {}, [&](std::uint32_t v) { return lifetimes[v].last; });
  Vector<Gaps> gaps;
  auto ended = by_end.begin();
  for (const std::uint32_t v : values) {
    for (; lifetimes[*ended].last < lifetimes[v].first; ++ended)
      gaps[plan.values[*ended].index].give_back(plan.values[*ended].offset, size_of(*ended));
    Value &value = plan.values[v];
    for (value.index = 0;; ++value.index) {
      if (value.index == gaps.size()) gaps.emplace_back();
      if (gaps[value.index].take(size_of(v), kLargestPiece, &value.offset)) break;
    }
  }
  for (const Gaps &piece : gaps) plan.pieces.push_back(piece.end());
  return {};
}

}  // namespace

Status assign_offsets(Plan &plan) {
  Vector<Lifetime> lifetimes(plan.values.size());
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s)
    for (std::uint32_t o = 0; o < plan.steps[s].operand_count; ++o) {
      Lifetime &lifetime = lifetimes[plan.operands[plan.steps[s].first_operand + o].value];
      lifetime.first = std::min(lifetime.first, s), lifetime.last = s;
    }
  plan.pieces.clear();
  Vector<std::uint64_t> room;
  for (const Value &value : plan.values) room.push_back(value.bytes);
  for (const Step &step : plan.steps)
    for (std::size_t o = 0; o < 2; ++o)
      if (image_layouts(plan, step) & kRowImages & images_of_operand(o)) {
        const Operand &operand = plan.operands[step.first_operand + o];
        room[operand.value] = row_image_bytes(plan.values[operand.value].bytes,
                                              operand.dtype == static_cast<std::uint32_t>(DType::F16) ? 2 : 4);
      }
  Vector<std::uint32_t> order;
  for (std::uint32_t v = 0; v < plan.values.size(); ++v)
    if (plan.values[v].storage == StorageKind::Arena) {
      if (lifetimes[v].first != UINT32_MAX) order.push_back(v);
      else plan.values[v].bytes = 0;  // nobody wants it
    }
  if (order.size() > Gaps::kMany) return assign_many(plan, order, lifetimes, room);
  // The largest first, each in the first piece that has room, as low as it fits beside those that live with it.
  std::ranges::stable_sort(order, [&](auto a, auto b) { return room[a] > room[b]; });
  Vector<Vector<std::uint32_t>> placed;  // per piece, by offset
  for (const std::uint32_t v : order) {
    Value &value = plan.values[v];
    const std::uint64_t bytes = rounded(std::max<std::uint64_t>(room[v], 1));
    for (std::uint32_t piece = 0;; ++piece) {
      if (piece == placed.size()) placed.emplace_back(), plan.pieces.push_back(0);
      std::uint64_t offset = 0;
      for (const std::uint32_t other : placed[piece]) {
        if (!lifetimes[other].meets(lifetimes[v])) continue;
        if (plan.values[other].offset >= offset + bytes) break;
        offset = std::max(offset, plan.values[other].offset + rounded(room[other]));
      }
      if (offset > 0 && offset + bytes > kLargestPiece) continue;
      value.index = piece, value.offset = offset;
      plan.pieces[piece] = std::max(plan.pieces[piece], offset + bytes);
      placed[piece].insert(std::ranges::upper_bound(placed[piece], offset, {},
                                                    [&](std::uint32_t other) { return plan.values[other].offset; }),
                           v);
      break;
    }
  }
  return {};
}

}  // namespace quarry::gpu
