// SPDX-License-Identifier: Apache-2.0
// Where values lie in the execution's memory: those that live at the same time lie apart.
#include <algorithm>
#include <numeric>
#include <optional>
#include <span>

#include "backends/common/gaps.h"
#include "backends/cpu/lower/plan_passes.h"
#include "backends/cpu/program/view.h"
#include "base/stop.h"
#include "kernels/cpu/pack/pack.h"

namespace quarry::cpu {

namespace {

using kernels::Kernel;

struct Lifetime {
  std::uint32_t first = UINT32_MAX, last = 0;  // steps
  bool used() const noexcept { return first != UINT32_MAX; }
};

Vector<Lifetime> lifetimes_of(const Plan &plan) {
  Vector<Lifetime> lifetimes(plan.values.size());
  for (std::uint32_t s = 0; s < plan.steps.size() && !stop_asked(); ++s) {
    const Step &step = plan.steps[s];
    for (std::uint32_t o = 0; o < step.operand_count; ++o) {
      Lifetime &lifetime = lifetimes[plan.operands[step.first_operand + o].value];
      lifetime.first = std::min(lifetime.first, s);
      lifetime.last = s;
    }
  }
  return lifetimes;
}

// The operand that a step reads exactly as it writes its result, each element before it writes that: operand 0 of an
// elementwise step, what a convolution adds.
std::optional<std::uint32_t> same_walk(const Plan &plan, const Step &step) {
  const auto first_if = [](bool same) { return same ? std::optional<std::uint32_t>(0) : std::nullopt; };
  switch (step.kernel) {
    case static_cast<std::uint32_t>(Kernel::UnaryF32):
    case static_cast<std::uint32_t>(Kernel::UnaryF64):
    case static_cast<std::uint32_t>(Kernel::ScatterElements):
    case static_cast<std::uint32_t>(Kernel::ScatterInto):
    case static_cast<std::uint32_t>(Kernel::ScatterRows): return 0;  // (rows are all that it writes then)
    case static_cast<std::uint32_t>(Kernel::BinaryF32): {
      const auto p = params_of<kernels::BinaryF32>(plan, step);
      return first_if(is_row_major({p.dims, p.rank}, {p.a, p.rank}));
    }
    case static_cast<std::uint32_t>(Kernel::ChainF32): {
      const auto p = params_of<kernels::ChainF32>(plan, step);
      return first_if(p.x_type == p.y_type && is_row_major({p.dims, p.rank}, {p.x, p.rank}));
    }
    case static_cast<std::uint32_t>(Kernel::ConvF32):
      if (!kernels::adds_in_place(params_of<kernels::ConvF32>(plan, step), *plan.isa)) return std::nullopt;
      return step.operand_count - 2;
    default: return std::nullopt;
  }
}

// y = f(x) where nobody needs x any more: y lies where x lies.
void write_in_place(Plan &plan) {
  const Vector<Lifetime> lifetimes = lifetimes_of(plan);
  Vector<std::uint32_t> alias(plan.values.size());
  std::iota(alias.begin(), alias.end(), 0u);
  bool any = false;
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    if (stop_asked()) return;
    const Step &step = plan.steps[s];
    if (step.kernel == kReferenceStep) continue;
    const std::optional<std::uint32_t> overwritten = same_walk(plan, step);
    if (!overwritten) continue;
    const auto inputs = std::span(plan.operands).subspan(step.first_operand, step.operand_count - 1);
    const Operand &x = inputs[*overwritten], &y = plan.operands[step.first_operand + step.operand_count - 1];
    const Value &from = plan.values[x.value], &to = plan.values[y.value];
    if (x.value == y.value || x.offset != 0 || y.offset != 0 || from.storage != StorageKind::Arena ||
        to.storage != StorageKind::Arena || from.bytes != to.bytes)
      continue;
    if (lifetimes[x.value].last != s || lifetimes[y.value].first != s) continue;
    // No other operand may be another part of x.
    if (std::ranges::count_if(inputs, [&](const Operand &input) { return input.value == x.value; }) > 1) continue;
    alias[y.value] = alias[x.value];
    any = true;
  }
  if (!any) return;
  for (Operand &operand : plan.operands) operand.value = alias[operand.value];
}

// Values by keys that each has; those of one key by their numbers.
void sort_by(Vector<std::uint32_t> &values, const Vector<std::uint64_t> &keys) {
  std::sort(values.begin(), values.end(),
            [&](std::uint32_t a, std::uint32_t b) { return keys[a] != keys[b] ? keys[a] < keys[b] : a < b; });
}

// Of a great many values, in the order of time.
void assign_many(Plan &plan, Vector<std::uint32_t> &values, const Vector<Lifetime> &lifetimes) {
  const auto size_of = [&](std::uint32_t v) { return (plan.values[v].bytes + kAlign - 1) / kAlign * kAlign; };
  Vector<std::uint32_t> by_end = values;
  Vector<std::uint64_t> keys(plan.values.size());
  for (const std::uint32_t v : values) keys[v] = lifetimes[v].first;
  sort_by(values, keys);
  if (stop_asked()) return;
  for (const std::uint32_t v : values) keys[v] = lifetimes[v].last;
  sort_by(by_end, keys);
  Gaps gaps;
  auto ended = by_end.begin();
  for (const std::uint32_t v : values) {
    if (stop_asked()) return;
    for (; lifetimes[*ended].last < lifetimes[v].first; ++ended)
      gaps.give_back(plan.values[*ended].offset, size_of(*ended));
    plan.values[v].offset = gaps.take(size_of(v));
  }
  plan.arena_bytes = std::max(plan.arena_bytes, gaps.end());
}

}  // namespace

void assign_offsets(Plan &plan) {
  write_in_place(plan);
  if (stop_asked()) return;  // compile() asks too
  Vector<Lifetime> lifetimes = lifetimes_of(plan);
  if (stop_asked()) return;
  Vector<std::uint32_t> order;
  for (std::uint32_t v = 0; v < plan.values.size(); ++v) {
    Value &value = plan.values[v];
    if ((value.storage != StorageKind::Arena && value.storage != StorageKind::Output) || value.offset == kNoPlace)
      continue;
    if (value.storage == StorageKind::Output) {
      lifetimes[v].last = static_cast<std::uint32_t>(plan.steps.size());
      if (!lifetimes[v].used()) lifetimes[v].first = 0;
    }
    if (lifetimes[v].used() && value.bytes > 0) order.push_back(v);
  }
  if (order.size() > Gaps::kMany) return assign_many(plan, order, lifetimes);
  // Largest first, each as low as it fits beside those that live with it.
  Vector<std::uint64_t> keys(plan.values.size());
  for (const std::uint32_t v : order) keys[v] = ~plan.values[v].bytes;
  sort_by(order, keys);
  Vector<std::uint32_t> placed;  // by offset
  for (const std::uint32_t v : order) {
    if (stop_asked()) return;
    std::uint64_t offset = 0;
    const std::uint64_t bytes = (plan.values[v].bytes + kAlign - 1) / kAlign * kAlign;
    for (const std::uint32_t other : placed) {
      if (lifetimes[other].last < lifetimes[v].first || lifetimes[v].last < lifetimes[other].first) continue;
      if (plan.values[other].offset >= offset + bytes) break;
      offset = std::max(offset, plan.values[other].offset + (plan.values[other].bytes + kAlign - 1) / kAlign * kAlign);
    }
    plan.values[v].offset = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    placed.insert(std::upper_bound(
                      placed.begin(), placed.end(), v,
                      [&](std::uint32_t a, std::uint32_t b) { return plan.values[a].offset < plan.values[b].offset; }),
                  v);
  }
}

}  // namespace quarry::cpu
