// SPDX-License-Identifier: Apache-2.0
#include "quantize/settings/settings.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace quarry::quantize {
namespace {

constexpr OptionText kTexts[] = {
#define QR_QUANTIZE_OPTION(key, values, fallback, effect, help) {key, values, fallback, help},
#include "quantize/settings/options.inc"
#undef QR_QUANTIZE_OPTION
};

DType type_named(std::string_view name) { return dtype_from_name(name).value_or(DType::Unknown); }

RangeMethod method_named(std::string_view name) {
  constexpr std::pair<std::string_view, RangeMethod> kNames[] = {
      {"minmax", RangeMethod::MinMax},         {"moving", RangeMethod::MovingAverage},
      {"percentile", RangeMethod::Percentile}, {"entropy", RangeMethod::Entropy},
      {"mse", RangeMethod::LeastSquares},      {"auto", RangeMethod::Measured}};
  return std::ranges::find(kNames, name, &std::pair<std::string_view, RangeMethod>::first)->second;
}

Vector<String> list_of(std::string_view text) {
  Vector<String> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

template <class Number>
bool read(std::string_view text, Number *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size();
}

// `text` is one of the words of "a|b|c".
bool is_word_of(std::string_view text, std::string_view words) {
  for (;;) {
    const std::size_t end = std::min(words.find('|'), words.size());
    if (words.substr(0, end) == text) return true;
    if (end == words.size()) return false;
    words.remove_prefix(end + 1);
  }
}

bool in_bounds(std::string_view values, double value) {
  const std::size_t space = values.find(' '), dots = values.find("..");
  double low = 0, high = 0;
  return read(values.substr(space + 1, dots - space - 1), &low) && read(values.substr(dots + 2), &high) &&
         value >= low && value <= high;
}

bool fits(std::string_view values, std::string_view text, std::int64_t *whole, double *real) {
  if (values == "text" || values == "path") return true;
  if (values == "list")
    return text.empty() || (!text.starts_with(',') && !text.ends_with(',') && text.find(",,") == text.npos);
  if (values.starts_with("integer ")) return read(text, whole) && in_bounds(values, static_cast<double>(*whole));
  if (values.starts_with("number ")) return read(text, real) && std::isfinite(*real) && in_bounds(values, *real);
  read(text, whole);
  return is_word_of(text, values);
}

void take_effect(Settings &s, std::string_view key, const String &word, std::int64_t whole, double real) {
#define QR_QUANTIZE_OPTION(name, values, fallback, effect, help) \
  if (key == (name)) {                                           \
    effect;                                                      \
    return;                                                      \
  }
#include "quantize/settings/options.inc"
#undef QR_QUANTIZE_OPTION
  (void)whole, (void)real;
}

}  // namespace

std::span<const OptionText> option_texts() { return kTexts; }

Settings::Settings() {
  for (const OptionText &row : kTexts) (void)set(row.key, row.fallback);
}

Status Settings::set(std::string_view key, std::string_view value) {
  const auto row = std::ranges::find(kTexts, key, &OptionText::key);
  if (row == std::end(kTexts)) {
    NearestWord nearest(key);
    for (const OptionText &one : kTexts) nearest.offer(one.key);
    String message = format("found the option \"%s\", expected one of a quantisation's", printable(key));
    if (!nearest.word().empty()) message += ": the nearest is \"" + String(nearest.word()) + "\"";
    return Status::error(ErrorId::unknown_option, message, "qr_quantize_option_at lists every key").with("option", key);
  }
  const bool names_file = std::string_view(row->values) == "path";
  if ((!names_file && !is_utf8(value)) || value.find('\0') != std::string_view::npos)
    return Status::error(ErrorId::not_utf8, format("option %s: the value is not %s without NUL bytes: \"%s\"",
                                                   String(key), names_file ? "a path" : "UTF-8", printable(value)))
        .with("option", key);
  std::int64_t whole = 0;
  double real = 0;
  if (!fits(row->values, value, &whole, &real))
    return Status::error(ErrorId::bad_option_value,
                         format("option %s: found \"%s\", expected %s", String(key), printable(value),
                                std::string_view(row->values) == "list" ? String("items with one comma between")
                                                                        : String(row->values)),
                         row->help)
        .with("option", key);
  take_effect(*this, key, String(value), whole, real);
  return {};
}

Grid Settings::weight_grid(DType dtype) const {
  const bool is_signed = dtype_kind(dtype) == DTypeKind::Signed;
  return {dtype, weight_symmetry == "1" || (weight_symmetry == "auto" && is_signed), reduce_range};
}

}  // namespace quarry::quantize
