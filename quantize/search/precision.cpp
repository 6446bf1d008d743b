// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/precision.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "base/real/real.h"

namespace quarry::quantize {
namespace {

struct Candidate {
  std::int32_t tensor;
  double gain = 0;  // noise that goes, in parts of the signal, for each operation that becomes wide
};

Vector<Candidate> candidates(const qir::Graph &graph, const Plan &plan, const Overrides &given) {
  Vector<Candidate> out;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Activation &a = plan.activations[i];
    if (!a.quantized || dtype_bits(a.grid.dtype) >= 16 || given.contains(graph.tensors[i].name)) continue;
    out.push_back({static_cast<std::int32_t>(i)});
  }
  return out;
}

double noise_of(const AccuracyMetrics &found) { return real::pow(10, -found.sqnr / 10); }

const char *name_of(Target::Measure measure) {
  return measure == Target::Measure::Sqnr ? "sqnr" : measure == Target::Measure::Top1 ? "top1" : "cosine";
}

}  // namespace

Result<Target> read_target(std::string_view text) {
  Target out;
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string_view name = text.substr(0, equals), value = text.substr(std::min(equals + 1, text.size()));
  bool known = false;
  double most = 0;
  for (const auto &[measure, limit] :
       {std::pair{Target::Measure::Sqnr, 200.0}, {Target::Measure::Top1, 100.0}, {Target::Measure::Cosine, 1.0}})
    if (name == name_of(measure)) out.measure = measure, most = limit, known = true;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), out.value);
  if (!known || error != std::errc() || end != value.data() + value.size() || !(out.value > 0 && out.value <= most))
    return Status::error(
               ErrorId::bad_option_value,
               format(
                   "option target: found \"%s\", expected sqnr=DB (to 200), top1=PERCENT (to 100) or cosine=X (to 1)",
                   printable(text)))
        .with("option", "target");
  return out;
}

namespace {

// Which activations get 16 bits, so that the target is reached.
class Raiser {
 public:
  Raiser(const qir::Graph &graph, const Settings &settings, const Target &target, ModelEvaluator &evaluator,
         const Overrides &given, const Plan &plan)
      : graph_(graph),
        settings_(settings),
        target_(target),
        evaluator_(evaluator),
        given_(given),
        ranked_(candidates(graph, plan, given)) {}

  // What is reached with the first `count` of them, or with all of them.
  Result<double> reached(std::size_t count) { return reached(first(count)); }
  Result<double> reached_with_all() { return reached(ranked_.size()); }
  Status rank();
  Result<Overrides> choose();
  Status check_budget(const Overrides &chosen) const;

 private:
  Overrides with(const Vector<bool> &chosen) const {
    const bool is_signed = dtype_kind(settings_.activations) == DTypeKind::Signed;
    Overrides out = given_;
    for (std::size_t i = 0; i < ranked_.size(); ++i)
      if (chosen[i]) out[qir::at(graph_, ranked_[i].tensor).name].own.dtype = is_signed ? DType::I16 : DType::U16;
    return out;
  }
  Vector<bool> first(std::size_t count) const {
    Vector<bool> out(ranked_.size(), false);
    std::fill_n(out.begin(), count, true);
    return out;
  }
  Result<double> reached(const Vector<bool> &chosen) {
    QR_ASSIGN_OR_RETURN(const AccuracyMetrics found, evaluator_.evaluate(with(chosen), false));
    return target_.of(found);
  }

  const qir::Graph &graph_;
  const Settings &settings_;
  const Target &target_;
  ModelEvaluator &evaluator_;
  const Overrides &given_;
  Vector<Candidate> ranked_;
};

// By what each gains alone, for what it costs.
Status Raiser::rank() {
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics before, evaluator_.evaluate(given_, true));
  const double noise = noise_of(before);
  for (std::size_t i = 0; i < ranked_.size(); ++i) {
    Vector<bool> alone(ranked_.size(), false);
    alone[i] = true;
    const Overrides tried = with(alone);
    QR_ASSIGN_OR_RETURN(const Plan laid, lay_out(graph_, settings_, tried));
    QR_ASSIGN_OR_RETURN(const AccuracyMetrics found, evaluator_.evaluate(tried, true));
    ranked_[i].gain =
        (noise - noise_of(found)) / static_cast<double>(std::max<std::size_t>(count_operations(graph_, laid).wide, 1));
  }
  std::ranges::stable_sort(ranked_, std::greater<>(), &Candidate::gain);
  return {};
}

Result<Overrides> Raiser::choose() {
  // `high` is enough, `low` is not.
  std::size_t low = 0, high = ranked_.size();
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    QR_ASSIGN_OR_RETURN(const double found, reached(middle));
    (found >= target_.value ? high : low) = middle;
  }
  // Some of those were raised for nothing: what others do makes up for them.
  Vector<bool> chosen = first(high);
  constexpr int kMostTrials = 24;
  int trials = 0;
  for (std::size_t i = high; i-- > 0 && trials < kMostTrials; ++trials) {
    chosen[i] = false;
    QR_ASSIGN_OR_RETURN(const double found, reached(chosen));
    if (found < target_.value) chosen[i] = true;
  }
  return with(chosen);
}

Status Raiser::check_budget(const Overrides &chosen) const {
  QR_ASSIGN_OR_RETURN(const Plan laid, lay_out(graph_, settings_, chosen));
  const Operations operations = count_operations(graph_, laid);
  if (static_cast<double>(operations.wide) * 100 > settings_.budget * static_cast<double>(operations.all))
    return Status::error(
               ErrorId::bad_option_value,
               format("option budget: found %zu of %zu operations of 16 bits that option target takes, expected "
                      "%.4g %% at the most",
                      operations.wide, operations.all, settings_.budget),
               "allow more, or let the target be less")
        .with("option", "budget");
  return {};
}

}  // namespace

Status raise_activations(const qir::Graph &graph, Settings *told, const Plan &plan, const Target &target,
                         ModelEvaluator &evaluator, Overrides *overrides) {
  Raiser raiser(graph, *told, target, evaluator, *overrides, plan);
  QR_ASSIGN_OR_RETURN(const double none, raiser.reached(0));
  if (none >= target.value) return {};
  QR_ASSIGN_OR_RETURN(double all, raiser.reached_with_all());
  if (all < target.value && told->wide_weights == "auto") {
    told->widens_weights = true;
    QR_ASSIGN_OR_RETURN(all, raiser.reached_with_all());
  }
  if (all < target.value)
    return Status::error(
               ErrorId::bad_option_value,
               format("option target: found %s=%.4g with all activations%s of 16 bits, expected %.4g",
                      name_of(target.measure), all, told->widens_weights ? " and their weights" : "", target.value),
               "keep the worst layers in float, or give weights more bits")
        .with("option", "target");
  QR_RETURN_IF_ERROR(raiser.rank());
  QR_ASSIGN_OR_RETURN(Overrides chosen, raiser.choose());
  QR_RETURN_IF_ERROR(raiser.check_budget(chosen));
  *overrides = std::move(chosen);
  return {};
}

Operations count_operations(const qir::Graph &graph, const Plan &plan) {
  Operations out;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!plan.quantized[n] || plan.absorbed[n]) continue;
    ++out.all;
    const bool wide = std::ranges::any_of(graph.nodes[n].outputs, [&](std::int32_t id) {
      if (id == qir::kAbsent) return false;
      const Activation &a = plan.activations[index_of(id)];
      return a.quantized && dtype_bits(a.grid.dtype) == 16;
    });
    out.wide += wide;
  }
  return out;
}

}  // namespace quarry::quantize
