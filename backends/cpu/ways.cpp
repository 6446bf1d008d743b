// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/ways.h"

#include <algorithm>

#include "backends/cpu-reference/coverage.h"

namespace quarry::cpu {

using kernels::Kernel;

Ways::Ways(const qir::Graph &given) : ways_(given.nodes.size()) {
  for (std::size_t i = 0; i < ways_.size(); ++i) ways_[i].name = given.nodes[i].name, ways_[i].op = given.nodes[i].op;
}

Ways::Way *Ways::of(std::int32_t source) {
  return source < 0 || static_cast<std::size_t>(source) >= ways_.size() ? nullptr
                                                                        : &ways_[static_cast<std::size_t>(source)];
}

void Ways::add(Way &way, String kernel) {
  if (std::ranges::find(way.kernels, kernel) == way.kernels.end()) way.kernels.push_back(std::move(kernel));
}

void Ways::composed(const Vector<passes::Composed> &found) {
  for (const passes::Composed &one : found)
    for (const std::int32_t piece : one.pieces) fused(piece, one.node);
}

void Ways::steps(std::int32_t source, std::span<const Step> made) {
  Way *const way = of(source);
  if (!way) return;
  constexpr auto kCopy = static_cast<std::uint32_t>(Kernel::Copy);
  // Copies bring operands into the form that a kernel wants; where there is nothing else they are the work.
  const bool only_copies = std::ranges::all_of(made, [](const Step &step) { return step.kernel == kCopy; });
  for (const Step &step : made) {
    if (step.kernel == kCopy && !only_copies) continue;
    way->native = true;
    add(*way, kernels::kernel_row(static_cast<Kernel>(step.kernel)).name);
  }
  way->view |= made.empty();
}

void Ways::reference(std::int32_t source, qir::Op op) {
  Way *const way = of(source);
  if (!way) return;
  way->reference = true;
  add(*way, reference::way_of(op));
}

void Ways::fused(std::int32_t source, std::int32_t into) {
  if (Way *const way = of(source); way && into != source) way->into = into;
}

void Ways::all_reference() {
  for (std::size_t i = 0; i < ways_.size(); ++i) reference(static_cast<std::int32_t>(i), ways_[i].op);
}

void Ways::write(Plan &plan) const {
  StringMap<std::uint32_t> known;
  for (const Way &way : ways_) {
    NodeWay out;
    String text;
    if (way.native || way.reference) {
      out.path = way.reference ? NodePath::Reference : NodePath::Native;
      for (const String &kernel : way.kernels) (text += text.empty() ? "" : ", ") += kernel;
    } else if (way.into != qir::kNoSource) {
      // Whose step it is in the end; each node is asked once at most, so that this ends.
      const Way *to = &ways_[static_cast<std::size_t>(way.into)];
      for (std::size_t i = 0; i < ways_.size() && !to->native && !to->reference && to->into != qir::kNoSource; ++i)
        to = &ways_[static_cast<std::size_t>(to->into)];
      text = format("fused into %s", to->name.c_str());
    } else {
      text = way.view ? "no work: a view" : "no work: computed when compiled";
    }
    const auto [at, added] = known.emplace(text, static_cast<std::uint32_t>(plan.names.size()));
    if (added) {
      plan.names.insert(plan.names.end(), text.begin(), text.end());
      plan.names.push_back('\0');
    }
    out.text = at->second;
    plan.ways.push_back(out);
  }
}

}  // namespace quarry::cpu
