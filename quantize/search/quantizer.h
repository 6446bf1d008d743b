// SPDX-License-Identifier: Apache-2.0
// qr_quantizer: a model, options, samples, and the quantised model that follows.
#pragma once

#include "base/target_writer.h"
#include "prepare/float_model.h"
#include "quantize/search/calibration.h"
#include "quantize/search/precision.h"
#include "quantize/settings/source.h"
#include "quantize/weights/improve.h"

namespace quarry::quantize {

// Of samples that are held back: what fewer say of a model is chance.
inline constexpr std::size_t kFewestHeld = 3;

class Quantizer : public HeapObject {
 public:
  static Result<Unique<Quantizer>> open(qr_runtime *runtime, const qr_model_source &from, qr_signal *signal);

  // Until the inputs are asked for, or a sample is given.
  Status set(std::string_view key, std::string_view value);
  // Inputs with all dimensions known: imports and prepares the model.
  Result<Vector<qr_tensor_info>> inputs(qr_signal *signal);

  // One sample: a tensor for each input, in order.
  Status add_sample(const qr_tensor *const *tensors, std::uint64_t count, qr_signal *signal,
                    const qr_progress *progress);
  qr_runtime *runtime() const noexcept { return runtime_; }
  // Those that were held back too.
  std::uint64_t samples() const noexcept { return calibration_ ? calibration_->samples() + held_.size() : 0; }

  // What is known of the samples so far as a file, and back before the first sample: what follows is as if all samples
  // had been given here. Another model or other options are refused. `note` is the caller's.
  Status save(TargetWriter &out, std::string_view note, qr_signal *signal);
  Status restore(const qr_model_source &from, qr_signal *signal, const qr_progress *progress, String *note);

  // Makes the quantised model of what was seen, writes it whole, and compares it with the float one.
  Status write(TargetWriter &out, qr_signal *signal, const qr_progress *progress);
  // Of the last `write`.
  const Report &report() const noexcept { return report_; }
  bool has_report() const noexcept { return written_; }

 private:
  Status prepare(qr_signal *signal);
  // The options that were given, and sums of the files that they name, a line each; without `threads`, which changes no
  // result.
  Result<String> settings_text() const;
  Status improve(Plan *plan, qr_signal *signal, const qr_progress *progress, Vector<Change> *changes);
  // Whether equalised activations serve the outputs better, by the samples that are kept.
  Status choose_graph(qr_signal *signal, const qr_progress *progress);
  // Of the graph as it is equalised now; keeps it and what was seen of it where it does.
  Result<bool> choose_equalized(const qir::Graph &before, Vector<Change> changes, qr_signal *signal,
                                const qr_progress *progress);
  Status choose_ranges(qr_signal *signal, const qr_progress *progress);
  Feed feed(qr_signal *signal, const qr_progress *progress, std::size_t step = 1);
  // Float outputs of the kept samples, those that can be compared.
  Status keep_outputs(qr_signal *signal);
  // How near the outputs of a quantised model with these overrides are to those.
  // Quick: on the first of them, without bias correction. Nearest, Rounded: on every second one; Rounded with adaptive
  // rounding by the others, as what was fitted to samples says little on these; AllRounded: by all, on all.
  enum class Trial : std::uint8_t { Plain, Quick, Nearest, Rounded, AllRounded };
  Result<AccuracyMetrics> nearness(const Overrides &overrides, qr_signal *signal, const qr_progress *progress,
                                   Trial trial = Trial::Plain);
  using Sample = Vector<Vector<std::uint8_t>>;  // the inputs one behind the other
  std::vector<qr::Tensor> sample_of(Sample &sample) const;
  static Sample copy_of_sample(const std::vector<qr::Tensor> &inputs);
  // The number, from 1, of the sample that kept_[kept] is.
  std::uint64_t number_of(std::size_t kept) const noexcept;
  bool has_samples_of(const State &state, std::uint64_t calibrated) const;
  // Whether sample `number`, from 1, is held back, where `held` of those before it were.
  bool holds_back(std::uint64_t number, std::size_t held) const noexcept;
  Status evaluate_by_enough(qr_signal *signal, const qr_progress *progress);
  // That the inputs were not the same number all over: a black picture says nothing of a model.
  Status check_variety() const;
  void note_variety(const std::vector<qr::Tensor> &inputs);
  Status check_sample(const qr_tensor *const *tensors, std::uint64_t count) const;
  Status evaluate(const qir::Graph &quantized, const Plan &plan, qr_signal *signal, const qr_progress *progress);
  // The options' types, and those of a target.
  // Whether adaptive rounding serves the outputs better, where it is cheap to know.
  Status choose_rounding(const Overrides &overrides, qr_signal *signal, const qr_progress *progress);
  Status choose_types(qr_signal *signal, const qr_progress *progress, Overrides *overrides);
  void describe(const Plan &plan);

  qr_runtime *runtime_ = nullptr;
  qr::Options keeps_runtime_;
  String path_;
  Settings settings_;
  std::optional<Target> target_;
  Vector<std::pair<String, String>> given_;
  Overrides overrides_;
  SourceBytes file_;  // what model_ borrows, as the next
  Vector<Unique<SourceBytes>> external_;
  Unique<prepare::FloatModel> model_;
  std::uint64_t model_sum_ = 0;  // as it was prepared
  bool prepared_ = false, written_ = false, graph_chosen_ = false, rounds_ = false;
  Plan layout_;
  Unique<Calibration> calibration_;
  // Samples that are kept to choose by, and those that are held back from that and from calibration, to evaluate the
  // result by.
  Vector<Sample> kept_, held_;
  bool varied_ = false;                          // the elements of the samples' inputs
  Vector<Vector<std::uint8_t>> first_elements_;  // of each input of the first sample
  // Outputs of f32, made by nodes, and behind those what the Softmax nodes among their makers read: of sure classes
  // their results hardly show noise, so choices go by what they read.
  Vector<std::int32_t> outputs_;
  std::size_t real_count_ = 0;                  // of outputs
  Vector<Vector<Vector<float>>> real_outputs_;  // of the kept samples
  InputMeans means_;                            // of the graph on the kept samples
  KnownWeights weights_;                        // of the graph
  Vector<Change> target_changes_, graph_changes_, range_changes_, rounding_changes_;
  Report report_;
  Vector<Change> prepared_changes_;
};

}  // namespace quarry::quantize
