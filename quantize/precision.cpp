// SPDX-License-Identifier: Apache-2.0
#include "quantize/precision.h"

#include <algorithm>

namespace quarry::quantize {
namespace {

struct Candidate {
  std::int32_t tensor;
  double sqnr;  // of its own rounding
};

Vector<Candidate> candidates(const qir::Graph &graph, const Plan &plan, const Calibration &calibration,
                             const Overrides &given) {
  Vector<Candidate> out;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const Activation &a = plan.activations[i];
    const Observer *observer = calibration.observer(id);
    if (!a.quantized || !observer || dtype_bits(a.grid.dtype) >= 16 || given.contains(graph.tensors[i].name)) continue;
    out.push_back({id, observer->loss(a.encoding).sqnr});
  }
  std::ranges::stable_sort(out, {}, &Candidate::sqnr);
  return out;
}

}  // namespace

Status raise_activations(const qir::Graph &graph, const Settings &settings, const Plan &plan,
                         const Calibration &calibration, double target, Judge &judge, Overrides *overrides) {
  const Vector<Candidate> ranked = candidates(graph, plan, calibration, *overrides);
  const bool is_signed = dtype_kind(settings.activations) == DTypeKind::Signed;
  const auto with = [&](std::size_t count) {
    Overrides out = *overrides;
    for (std::size_t i = 0; i < count; ++i)
      out[qir::at(graph, ranked[i].tensor).name].own.dtype = is_signed ? DType::I16 : DType::U16;
    return out;
  };
  QR_ASSIGN_OR_RETURN(const double none, judge.sqnr(*overrides));
  if (none >= target) return {};
  QR_ASSIGN_OR_RETURN(const double all, judge.sqnr(with(ranked.size())));
  if (all < target)
    return Status::error(
               ErrorId::bad_option_value,
               format("option target_sqnr: found %.1f dB with all activations of 16 bits, expected %.1f", all, target),
               "keep the worst layers in float, or give weights more bits")
        .with("option", "target_sqnr");
  // `high` is enough, `low` is not.
  std::size_t low = 0, high = ranked.size();
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    QR_ASSIGN_OR_RETURN(const double found, judge.sqnr(with(middle)));
    (found >= target ? high : low) = middle;
  }
  *overrides = with(high);
  return {};
}

Operations count_operations(const qir::Graph &graph, const Plan &plan) {
  Operations out;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!plan.quantized[n] || plan.absorbed[n]) continue;
    ++out.all;
    const bool wide = std::ranges::any_of(graph.nodes[n].outputs, [&](std::int32_t id) {
      if (id == qir::kAbsent) return false;
      const Activation &a = plan.activations[static_cast<std::size_t>(id)];
      return a.quantized && dtype_bits(a.grid.dtype) == 16;
    });
    out.wide += wide;
  }
  return out;
}

}  // namespace quarry::quantize
