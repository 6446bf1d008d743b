// SPDX-License-Identifier: Apache-2.0
// A quantiser's calibration into a file and out of it again.
#include <algorithm>
#include <cinttypes>

#include "base/hash.h"
#include "base/text.h"
#include "prepare/read_file.h"
#include "quantize/search/quantizer.h"

namespace quarry::quantize {
namespace {

// The first line that one text has and the other has not.
String first_difference(std::string_view a, std::string_view b) {
  const auto at = std::ranges::mismatch(a, b).in1 - a.begin();
  const std::size_t end_before = at == 0 ? String::npos : a.rfind('\n', static_cast<std::size_t>(at) - 1);
  const std::size_t begin = end_before == String::npos ? 0 : end_before + 1;
  const std::string_view line = a.substr(begin, std::min(a.find('\n', begin), a.size()) - begin);
  return line.empty() ? String("nothing") : printable(line);
}

Status other(std::string_view path, const String &found, const String &expected) {
  return Status::error(
             ErrorId::bad_argument,
             format("the calibration '%s': found one %s, expected %s", printable(path, 1000), found, expected),
             "go on with the model and options that it began with, or delete the file to begin anew")
      .with("file", path);
}

}  // namespace

Result<String> Quantizer::settings_text() const {
  Vector<std::pair<String, String>> last;
  for (const auto &one : given_) {
    const auto same = std::ranges::find(last, one.first, &std::pair<String, String>::first);
    if (same == last.end()) last.push_back(one);
    else same->second = one.second;
  }
  std::ranges::sort(last);
  String text;
  for (const auto &[key, value] : last) {
    if (key == "threads") continue;
    text += format("%s=%s", key, printable(value, 1 << 20));
    if (key == "overrides" && !value.empty()) {
      QR_ASSIGN_OR_RETURN(const Vector<std::uint8_t> bytes, prepare::read_file("overrides", value));
      text += format(" (%016" PRIx64 ")", hash64(bytes.data(), bytes.size()));
    }
    text += '\n';
  }
  return text;
}

Status Quantizer::save(TargetWriter &out, std::string_view note, qr_signal *signal) {
  QR_RETURN_IF_ERROR(prepare(signal));
  State state;
  state.model = model_sum_;
  QR_ASSIGN_OR_RETURN(state.settings, settings_text());
  state.note = String(note);
  state.samples = samples();
  state.graph_chosen = graph_chosen_;
  state.kept = kept_;
  state.held = held_;
  calibration_->save(state.tensors);
  return write_state(state, out);
}

// Whether the samples in it are those that the same rules keep and hold back when samples are given.
bool Quantizer::has_samples_of(const State &state, std::uint64_t calibrated) const {
  std::size_t held = 0;
  // Behind so many none is held back.
  const std::uint64_t last = std::min<std::uint64_t>(state.samples, 3 * settings_.evaluate + 6);
  for (std::uint64_t number = 1; number <= last; ++number) held += holds_back(number, held);
  const auto fits = [&](const Sample &sample) {
    if (sample.size() != model_->graph.inputs.size()) return false;
    for (std::size_t i = 0; i < sample.size(); ++i) {
      const qir::Tensor &input = qir::at(model_->graph, model_->graph.inputs[i]);
      std::int64_t count = 1;
      for (const std::int64_t dimension : input.shape) count *= dimension;
      if (sample[i].size() != packed_size(input.dtype, count).value_or(0)) return false;
    }
    return true;
  };
  // Too few were calibrated with after all when a model was written.
  if (state.held.empty() && held < kFewestHeld) held = 0;
  return held == state.held.size() && state.kept.size() == std::min<std::uint64_t>(settings_.evaluate, calibrated) &&
         std::ranges::all_of(state.kept, fits) && std::ranges::all_of(state.held, fits);
}

Status Quantizer::restore(const qr_model_source &from, qr_signal *signal, const qr_progress *progress, String *note) {
  std::string_view path = path_of(from);
  if (path.empty()) path = "in memory";
  tell(progress, 0, 0, "preparing the model");
  QR_RETURN_IF_ERROR(prepare(signal));
  if (samples() > 0)
    return Status::error(ErrorId::option_not_at_run_time,
                         format("the calibration '%s': found that %llu samples were given already, expected none",
                                printable(path, 1000), samples()),
                         "take a calibration up before the first sample");
  QR_ASSIGN_OR_RETURN(const SourceBytes saved, read_source("calibration", from));
  QR_ASSIGN_OR_RETURN(State state, read_state(saved.all, path));
  if (state.model != model_sum_) return other(path, "of another model", "one of this model as it is now");
  QR_ASSIGN_OR_RETURN(const String settings, settings_text());
  if (state.settings != settings)
    return other(path, "with the option " + first_difference(state.settings, settings),
                 first_difference(settings, state.settings));
  const std::uint64_t calibrated = state.samples - std::min<std::uint64_t>(state.held.size(), state.samples);
  if (!has_samples_of(state, calibrated))
    return other(path, "whose samples are not those that are kept", "one that was saved whole");
  // What is known must be of these tensors before anything changes.
  QR_ASSIGN_OR_RETURN(const Unique<Calibration> known,
                      Calibration::make(runtime_, model_->graph, observed_tensors(model_->graph, layout_),
                                        settings_.range, settings_.threads, signal));
  QR_RETURN_IF_ERROR(known->restore(state.tensors, calibrated, settings_.range));
  kept_ = std::move(state.kept);
  held_ = std::move(state.held);
  means_ = {};
  const auto again = [&]() -> Status {
    // The graph was chosen when these samples and no others had been seen.
    if (!state.graph_chosen) return {};
    for (std::size_t s = 0; s < kept_.size(); ++s) {
      tell(progress, s, kept_.size(), "looking at the samples that were kept");
      QR_RETURN_IF_ERROR(calibration_->add(sample_of(kept_[s]), number_of(s), signal));
    }
    return choose_graph(signal, progress);
  };
  Status status = again();
  // After that the calibration is of the graph that was chosen, which has these tensors too.
  if (status.ok()) status = calibration_->restore(state.tensors, calibrated, settings_.range);
  if (status.ok()) {
    *note = std::move(state.note);
    // What was not kept may have varied: nobody is refused for that.
    varied_ = calibrated > kept_.size();
    first_elements_.clear();
    for (Vector<Sample> *samples : {&kept_, &held_})
      for (Sample &sample : *samples) note_variety(sample_of(sample));
    return {};
  }
  kept_.clear();
  held_.clear();
  calibration_->forget(settings_.range);
  return status;
}

}  // namespace quarry::quantize
