// SPDX-License-Identifier: Apache-2.0
// What the quantizer chooses by measurement on the samples that are kept: each choice is tried, and the outputs
// compared with the float model's.
#include <algorithm>
#include <cmath>
#include <utility>

#include "quantize/ranges/compare.h"
#include "quantize/search/quantizer.h"
#include "quantize/stop.h"

namespace quarry::quantize {

using qir::at;

namespace {

// What the Softmax reads that gives an output; kAbsent: none does, or a constant or an input is read.
std::int32_t softmax_input(const qir::Graph &graph, const qir::Uses &uses, std::int32_t output) {
  const std::int32_t n = uses.maker(output);
  if (n == qir::Uses::kNobody || graph.nodes[index_of(n)].op != qir::Op::Softmax) return qir::kAbsent;
  const std::int32_t from = graph.nodes[index_of(n)].inputs[0];
  return uses.maker(from) == qir::Uses::kNobody ? qir::kAbsent : from;
}

// The tensor of the quantised graph that has a tensor's values.
String given_name(const Plan &plan, const qir::Graph &graph, std::int32_t id) {
  const String &name = at(graph, id).name;
  return plan.activations[index_of(id)].quantized ? dequantized_name(name) : name;
}

}  // namespace

Status Quantizer::keep_outputs(qr_signal *signal) {
  const qir::Graph &graph = model_->graph;
  outputs_.clear();
  const qir::Uses uses(graph);
  QR_RETURN_IF_ERROR(stop_status(kStopped));  // uses of a graph are not whole when they were stopped
  for (const std::int32_t id : graph.outputs)
    if (uses.maker(id) != qir::Uses::kNobody && at(graph, id).dtype == DType::F32 &&
        std::ranges::find(outputs_, id) == outputs_.end())
      outputs_.push_back(id);
  if (outputs_.empty()) return {};
  real_count_ = outputs_.size();
  for (std::size_t i = 0; i < real_count_; ++i) {
    const std::int32_t from = softmax_input(graph, uses, outputs_[i]);
    if (from != qir::kAbsent && std::ranges::find(outputs_, from) == outputs_.end()) outputs_.push_back(from);
  }
  QR_ASSIGN_OR_RETURN(Unique<Runner> real, Runner::make(runtime_, graph, outputs_, settings_.threads, signal));
  for (std::size_t s = real_outputs_.size(); s < kept_.size(); ++s) {
    QR_RETURN_IF_ERROR(real->run(sample_of(kept_[s]), signal));
    auto &sample = real_outputs_.emplace_back();
    for (const qr::Tensor &result : real->results()) sample.emplace_back(floats(result).begin(), floats(result).end());
  }
  return {};
}

Result<AccuracyMetrics> Quantizer::nearness(const Overrides &overrides, qr_signal *signal, const qr_progress *progress,
                                            Trial trial) {
  const qir::Graph &graph = model_->graph;
  QR_ASSIGN_OR_RETURN(Plan plan, lay_out(graph, settings_, overrides));
  QR_RETURN_IF_ERROR(give_encodings(graph, settings_, overrides, *calibration_, &plan, &weights_));
  constexpr std::size_t kMostWhenQuick = 4;
  const bool quick = trial == Trial::Quick, rounded = trial == Trial::Rounded || trial == Trial::AllRounded;
  const bool is_half = trial == Trial::Rounded || trial == Trial::Nearest;
  const std::size_t samples = std::min(real_outputs_.size(), quick ? kMostWhenQuick : real_outputs_.size());
  InputMeans of_half;
  const Improvements wanted{rounded, settings_.bias_correction && !quick, calibration_->threads(), signal};
  QR_RETURN_IF_ERROR(improve_weights(graph, feed(signal, progress, is_half && rounded ? 2 : 1), wanted,
                                     rounded ? &of_half : &means_, &plan, nullptr));
  qir::Store store;
  const qir::Graph quantized = write_qdq(graph, plan, store);
  Vector<std::int32_t> there;
  for (const std::int32_t id : outputs_)
    for (std::size_t i = 0; i < quantized.tensors.size(); ++i)
      if (quantized.tensors[i].name ==
          (there.size() < real_count_ ? at(graph, id).name : given_name(plan, graph, id))) {
        there.push_back(static_cast<std::int32_t>(i));
        break;
      }
  QR_ASSIGN_OR_RETURN(Unique<Runner> coded, Runner::make(runtime_, quantized, there, settings_.threads, signal));
  Vector<Comparison> compared(there.size());
  Vector<std::size_t> agree(there.size());
  Vector<double> sums(there.size());
  std::size_t count = 0;
  for (std::size_t s = is_half ? 1 : 0; s < samples; s += is_half ? 2 : 1) {
    ++count;
    QR_RETURN_IF_ERROR(coded->run(sample_of(kept_[s]), signal));
    for (std::size_t i = 0; i < there.size(); ++i) {
      const std::span<const float> found = floats(coded->results()[i]);
      compared[i].add(real_outputs_[s][i], found);
      Comparison alone;
      alone.add(real_outputs_[s][i], found);
      sums[i] += alone.sqnr();
      agree[i] += found.empty() || greatest(real_outputs_[s][i]) == greatest(found);
    }
  }
  AccuracyMetrics out{kNoNoise, 1, kNoNoise, 100};
  const qir::Uses uses(graph);
  for (std::size_t i = 0; i < there.size(); ++i) {
    if (count > 0 && (i >= real_count_ || softmax_input(graph, uses, outputs_[i]) == qir::kAbsent))
      out.typical = std::min(out.typical, sums[i] / static_cast<double>(count));
    if (i >= real_count_) continue;
    out.sqnr = std::min(out.sqnr, compared[i].sqnr());
    out.cosine = std::min(out.cosine, compared[i].cosine());
    if (is_scores(at(graph, outputs_[i])) && count > 0)
      out.top1 = std::min(out.top1, 100.0 * static_cast<double>(agree[i]) / static_cast<double>(count));
  }
  // Whether loud samples or all of them alike: a choice is to serve both.
  out.typical = (out.typical + out.sqnr) / 2;
  return out;
}

// By how many dB a choice has to be better than what loses nothing to be clearly better on few samples.
constexpr double kClear = 0.5;

Result<bool> Quantizer::choose_equalized(const qir::Graph &before, Vector<Change> changes, qr_signal *signal,
                                         const qr_progress *progress) {
  qir::Graph after = model_->graph;
  QR_ASSIGN_OR_RETURN(Plan layout, lay_out(model_->graph, settings_, overrides_));
  QR_ASSIGN_OR_RETURN(Unique<Calibration> equalized,
                      Calibration::make(runtime_, model_->graph, observed_tensors(model_->graph, layout),
                                        settings_.range, settings_.threads, signal));
  for (std::size_t s = 0; s < kept_.size(); ++s)
    QR_RETURN_IF_ERROR(equalized->add(sample_of(kept_[s]), number_of(s), signal));
  model_->graph = before;
  QR_RETURN_IF_ERROR(keep_outputs(signal));
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics plain, nearness(overrides_, signal, progress));
  model_->graph = after;
  std::swap(calibration_, equalized);
  InputMeans means = std::exchange(means_, {});
  KnownWeights known = std::exchange(weights_, {});
  auto better = nearness(overrides_, signal, progress);
  if (!better.ok() || better.value().typical <= plain.typical + kClear) {
    std::swap(calibration_, equalized);
    means_ = std::move(means), weights_ = std::move(known);
    if (!better.ok()) return better.take_status();
    graph_changes_.push_back(
        {"activations left as they are", "the graph",
         format("outputs have %.1f dB, equalised %.1f dB", plain.typical, better.value().typical)});
    return false;
  }
  layout_ = std::move(layout);
  graph_changes_ = std::move(changes);
  graph_changes_.push_back({"activations equalised", "the graph",
                            format("outputs have %.1f dB, before %.1f dB", better.value().typical, plain.typical)});
  return true;
}

// The calibration has seen the kept samples and no others when this is called.
Status Quantizer::choose_graph(qr_signal *signal, const qr_progress *progress) {
  if (graph_chosen_ || kept_.empty()) return {};
  const bool says_ranges = std::ranges::any_of(overrides_, [](const auto &one) {
    const Override &own = one.second.own, &convert = one.second.convert;
    return own.scale || own.low || own.high || convert.scale || convert.low || convert.high;
  });
  if (!settings_.equalize_activations || !settings_.per_channel || says_ranges) {
    graph_chosen_ = true;
    return {};
  }
  tell(progress, 0, 0, "equalising activations");
  const auto steps = [](DType dtype, bool is_signed) {
    return std::ldexp(1.0, static_cast<int>(dtype_bits(dtype)) - (is_signed ? 1 : 0)) - 1;
  };
  const DType weights = settings_.weights == DType::Unknown ? DType::I8 : settings_.weights;
  const qir::Graph before = model_->graph;
  bool changed = false;
  Vector<Change> changes;
  // Whatever stops this leaves the graph as it was.
  struct Restore {
    qir::Graph &graph;
    const qir::Graph &before;
    bool wanted = true;
    ~Restore() {
      if (wanted) graph = before;
    }
  } restore{model_->graph, before};
  QR_RETURN_IF_ERROR(equalize_activations(model_->graph, model_->store, feed(signal, progress),
                                          steps(settings_.activations, false), steps(weights, true), &changes,
                                          &changed));
  QR_RETURN_IF_ERROR(stop_status(kStopped));  // before what a stopped look did not find counts as not there
  if (!changed) {
    restore.wanted = false;
  } else {
    QR_ASSIGN_OR_RETURN(const bool kept, choose_equalized(before, std::move(changes), signal, progress));
    restore.wanted = !kept;
  }
  graph_chosen_ = true;
  return {};
}

// Option range=auto.
Status Quantizer::choose_ranges(qr_signal *signal, const qr_progress *progress) {
  range_changes_.clear();
  if (settings_.range.method != RangeMethod::Measured || kept_.empty()) return {};
  tell(progress, 0, 0, "choosing how ranges are made");
  QR_RETURN_IF_ERROR(keep_outputs(signal));
  if (outputs_.empty()) return {};
  constexpr std::pair<RangeMethod, const char *> kTried[] = {
      {RangeMethod::MinMax, "minmax"}, {RangeMethod::LeastSquares, "mse"}, {RangeMethod::Percentile, "percentile"}};
  // What serves 8 bits cuts off more than steps of 16 bits cost: where those are the exception, they have all that was
  // seen.
  const bool is_wide = dtype_bits(settings_.activations) == 16;
  const auto use = [&](RangeMethod method) { calibration_->use(method, is_wide ? method : RangeMethod::MinMax); };
  RangeMethod best = RangeMethod::MinMax;
  double most = -HUGE_VAL;
  String chosen, found;
  for (const auto &[method, name] : kTried) {
    use(method);
    auto tried = nearness(overrides_, signal, progress);
    use(best);
    QR_RETURN_IF_ERROR(tried.ok() ? Status() : tried.take_status());
    const double sqnr = tried.value().typical - (method == RangeMethod::MinMax ? 0 : kClear);
    found += format("%s%s %.1f dB", found.empty() ? "" : ", ", name, tried.value().typical);
    if (sqnr > most) most = sqnr, best = method, chosen = name;
  }
  use(best);
  range_changes_.push_back({"ranges by " + chosen, "the graph", found});
  return {};
}

// Option adaptive_rounding=auto.
Status Quantizer::choose_rounding(const Overrides &overrides, qr_signal *signal, const qr_progress *progress) {
  rounding_changes_.clear();
  rounds_ = settings_.adaptive_rounding == "1";
  constexpr double kCheap = 3e9;  // multiplications: a second or two
  constexpr std::size_t kFewest = 4;
  if (settings_.adaptive_rounding != "auto" || kept_.size() < kFewest ||
      rounding_cost(model_->graph, kept_.size()) > kCheap)
    return {};
  tell(progress, 0, 0, "choosing how weights are rounded");
  QR_RETURN_IF_ERROR(keep_outputs(signal));
  if (outputs_.empty()) return {};
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics nearest, nearness(overrides, signal, progress, Trial::Nearest));
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics adapted, nearness(overrides, signal, progress, Trial::Rounded));
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics plain, nearness(overrides, signal, progress));
  QR_ASSIGN_OR_RETURN(const AccuracyMetrics all, nearness(overrides, signal, progress, Trial::AllRounded));
  // What was fitted to half of the samples gains less than what is fitted to all will on others; that to all, more.
  const double gain = (adapted.typical - nearest.typical + all.typical - plain.typical) / 2;
  rounds_ = gain > kClear / 2 && all.sqnr > plain.sqnr && (!target_ || target_->of(all) >= target_->value);
  rounding_changes_.push_back(
      {rounds_ ? "rounding of weights adapted" : "rounding of weights left as it is", "the graph",
       format("outputs have %.1f dB adapted, %.1f dB with the nearest integers; on samples that "
              "it was not fitted to %.1f dB and %.1f dB",
              all.typical, plain.typical, adapted.typical, nearest.typical)});
  return {};
}

Status Quantizer::choose_types(qr_signal *signal, const qr_progress *progress, Overrides *overrides) {
  target_changes_.clear();
  settings_.widens_weights = settings_.wide_weights == "1";
  if (!target_) return {};
  if (kept_.empty())
    return Status::error(ErrorId::option_conflict,
                         "option target: found that no sample is kept, expected some to measure with",
                         "let option evaluate be more than 0")
        .with("option", "evaluate");
  const qir::Graph &graph = model_->graph;
  QR_RETURN_IF_ERROR(keep_outputs(signal));
  if (outputs_.empty()) return {};
  class Measured final : public ModelEvaluator {
   public:
    Measured(Quantizer &of, qr_signal *signal, const qr_progress *progress)
        : of_(of), signal_(signal), progress_(progress) {}
    Result<AccuracyMetrics> evaluate(const Overrides &given, bool quick) override {
      tell(progress_, trials_++, 0, "looking for what needs 16 bits");
      return of_.nearness(given, signal_, nullptr, quick ? Trial::Quick : Trial::Plain);
    }

   private:
    Quantizer &of_;
    qr_signal *signal_;
    const qr_progress *progress_;
    std::uint64_t trials_ = 0;
  };
  Measured evaluator(*this, signal, progress);
  QR_RETURN_IF_ERROR(raise_activations(graph, &settings_, layout_, *target_, evaluator, overrides));
  for (const auto &[name, said] : *overrides)
    if (!overrides_.contains(name)) target_changes_.push_back({"raised to 16 bits", name, {}});
  if (settings_.widens_weights && settings_.wide_weights == "auto")
    target_changes_.push_back({"weights of 16 bits", "operators that read 16 bits", {}});
  QR_ASSIGN_OR_RETURN(const Plan chosen, lay_out(graph, settings_, *overrides));
  const Operations operations = count_operations(graph, chosen);
  target_changes_.push_back(
      {"operations of 16 bits", "the graph", format("%zu of %zu", operations.wide, operations.all)});
  return {};
}

}  // namespace quarry::quantize
