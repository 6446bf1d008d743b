// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/verdict.h"

#include <algorithm>
#include <cmath>

#include "base/text.h"

namespace quarry::quantize {
namespace {

// An output of 15 dB has noise of a sixth of its signal; 30 dB are a thirtieth, which most models do not notice.
constexpr double kPoor = 15, kGood = 30, kPoorTop1 = 0.9;
constexpr std::uint64_t kFewSamples = 20, kManySamples = 100;

bool is_poor(const OutputEntry &output) { return !(output.sqnr >= kPoor) || (output.top1 && *output.top1 < kPoorTop1); }

String found_of(const OutputEntry &output) {
  String text = format("output '%s': found %.1f dB of signal to noise", printable(output.name), output.sqnr);
  if (output.top1) text += format(" and the same best class for %.1f %% of the samples", 100 * *output.top1);
  return text;
}

// The activation that loses most by its own rounding; nothing where none loses much.
const TensorEntry *narrowest(const Report &report) {
  const TensorEntry *worst = nullptr;
  for (const TensorEntry &entry : report.tensors)
    if (!entry.is_weight && entry.sqnr_alone && *entry.sqnr_alone < kGood && dtype_bits(entry.dtype) == 8 &&
        (!worst || *entry.sqnr_alone < *worst->sqnr_alone))
      worst = &entry;
  return worst;
}

Vector<Advice> advice_for(const Report &report, const Settings &settings) {
  Vector<Advice> next;
  if (report.samples < kFewSamples)
    next.push_back({"", "",
                    format("give more samples like those that the model will see: found %llu, a hundred are usual",
                           report.samples)});
  const bool narrow = dtype_bits(settings.activations) == 8;
  if (narrow && settings.target.empty())
    next.push_back({"target", format("sqnr=%.0f", kGood), "16 bits for as few activations as reach it"});
  else if (!settings.target.empty() && settings.budget < 100)
    next.push_back({"budget", "100", "more operations may have 16 bits"});
  if (!narrow && settings.wide_weights != "1")
    next.push_back({"wide_weights", "1", "weights of 16 bits where activations have 16"});
  if (!settings.per_channel) next.push_back({"per_channel", "1", "a scale for each output channel of weights"});
  if (const TensorEntry *worst = narrowest(report); worst && narrow)
    next.push_back({"tensor_types", worst->name + "=u16",
                    format("its own rounding leaves it %.1f dB, the least of all", *worst->sqnr_alone)});
  return next;
}

// As much more is asked for as samples that were not seen are short of it.
Vector<Advice> advice_to_reach(const Report &report, double wanted, double found) {
  Vector<Advice> next;
  if (report.samples < kManySamples)
    next.push_back({"", "", format("give more samples: found %llu, a hundred are usual", report.samples)});
  if (wanted > 0) {
    constexpr double kMost = 200;  // of the option
    const double more = std::min(kMost, std::ceil(2 * wanted - found));
    next.push_back({"target", format("sqnr=%.0f", more), "as much more as is missing"});
  } else {
    next.push_back({"", "", "ask for a higher target: samples that were not seen have a little less"});
  }
  return next;
}

}  // namespace

Verdict verdict_of(const Report &report, const Settings &settings, bool missed, double wanted) {
  Verdict out;
  if (report.outputs.empty()) {
    out.word = "not evaluated";
    out.why = report.evaluated == 0 ? "no sample was kept to compare with the float model (option evaluate)"
                                    : "no output is made of float numbers";
    return out;
  }
  const auto worst = std::ranges::min_element(
      report.outputs, {}, [](const OutputEntry &output) { return std::pair(!is_poor(output), output.sqnr); });
  out.word = is_poor(*worst) ? "poor" : worst->sqnr < kGood ? "fair" : "good";
  out.why = found_of(*worst);
  if (missed)
    out.why +=
        format(", of samples that were held back; %s was reached on those that it was sought with", settings.target);
  if (out.word == "poor") {
    out.why += format(", expected %.0f dB or more%s", kPoor, worst->top1 ? " and 90 %" : "");
    out.next = advice_for(report, settings);
  } else if (missed) {
    out.next = advice_to_reach(report, wanted, worst->sqnr);
  }
  return out;
}

}  // namespace quarry::quantize
