// SPDX-License-Identifier: Apache-2.0
#include "tools/report/latency_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {
namespace {

constexpr size_t kParts = 200;
constexpr double kPlotWidth = 860, kLeft = 190, kRight = 30, kTop = 56, kRow = 92, kBars = 60;

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string time_text(double ms) {
  char text[40];
  if (ms >= 100) std::snprintf(text, sizeof text, "%.0f ms", ms);
  else if (ms >= 1) std::snprintf(text, sizeof text, "%.3g ms", ms);
  else std::snprintf(text, sizeof text, "%.3g µs", ms * 1000);
  return text;
}

std::string escaped(const std::string &text) {
  std::string out;
  for (const char c : text) {
    if (c == '&') out += "&amp;";
    else if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '"') out += "&quot;";
    else if (static_cast<unsigned char>(c) >= 32) out += c;
  }
  return out;
}

// The part of the runs that took at most `ms`.
double part_until(const std::vector<double> &quantiles, double ms) {
  const auto above = std::upper_bound(quantiles.begin(), quantiles.end(), ms);
  if (above == quantiles.begin()) return 0;
  if (above == quantiles.end()) return 1;
  const auto below = above - 1;
  const double inside = *above > *below ? (ms - *below) / (*above - *below) : 0;
  return (static_cast<double>(below - quantiles.begin()) + inside) / static_cast<double>(quantiles.size() - 1);
}

// Of a list of quantiles.
double at_part(const std::vector<double> &quantiles, double part) {
  const double place = part * static_cast<double>(quantiles.size() - 1);
  const auto low = static_cast<size_t>(place);
  const size_t high = std::min(low + 1, quantiles.size() - 1);
  return quantiles[low] + (quantiles[high] - quantiles[low]) * (place - static_cast<double>(low));
}

// The axis: linear, or by powers where the rows are far from each other.
struct Axis {
  double low, high;
  bool log;
  double x(double ms) const {
    const double part = log ? std::log(ms / low) / std::log(high / low) : (ms - low) / (high - low);
    return kLeft + std::clamp(part, 0.0, 1.0) * (kPlotWidth - kLeft - kRight);
  }
  double ms(double part) const { return log ? low * std::pow(high / low, part) : low + (high - low) * part; }
};

// What slow runs have beyond the 99.5th percentile is said in words: an axis that held it would hide all else.
Axis axis_of(const std::vector<LatencySeries> &series) {
  double low = INFINITY, high = 0;
  for (const LatencySeries &one : series)
    low = std::min(low, one.quantiles.front()), high = std::max(high, at_part(one.quantiles, 0.995));
  low = std::max(low, 1e-6);
  if (high <= low) high = low * 1.1;
  if (high / low > 20) return {low / 1.15, high * 1.15, true};
  const double room = (high - low) * 0.06;
  return {std::max(low - room, 0.0), high + room, false};
}

std::vector<double> ticks_of(const Axis &axis) {
  std::vector<double> ticks;
  if (axis.log) {
    for (double power = std::pow(10, std::floor(std::log10(axis.low))); power <= axis.high; power *= 10)
      for (const double digit : {1.0, 2.0, 5.0})
        if (power * digit >= axis.low && power * digit <= axis.high) ticks.push_back(power * digit);
    return ticks;
  }
  double step = std::pow(10, std::floor(std::log10((axis.high - axis.low) / 4)));
  for (const double factor : {2.0, 2.5, 2.0})
    if ((axis.high - axis.low) / step > 8) step *= factor;
  for (double at = std::ceil(axis.low / step) * step; at <= axis.high; at += step) ticks.push_back(at);
  return ticks;
}

std::string row_svg(const LatencySeries &one, const Axis &axis, size_t index) {
  constexpr int kCount = 110;  // bars
  const double top = kTop + kRow * static_cast<double>(index), base = top + kBars;
  std::vector<double> heights(kCount);
  for (int i = 0; i < kCount; ++i)
    heights[static_cast<size_t>(i)] = part_until(one.quantiles, axis.ms((i + 1.0) / kCount)) -
                                      part_until(one.quantiles, axis.ms(static_cast<double>(i) / kCount));
  const double tallest = std::max(*std::max_element(heights.begin(), heights.end()), 1e-9);
  std::string out = "<g class=\"s" + std::to_string(index % 6) + "\">\n<text class=\"title\" x=\"12\" y=\"" +
                    number(top + 22) + "\">" + escaped(one.title) + "</text>\n<text class=\"quiet\" x=\"12\" y=\"" +
                    number(top + 40) + "\">" + escaped(one.about) + "</text>\n<path class=\"bars\" d=\"";
  for (int i = 0; i < kCount; ++i) {
    const double height = heights[static_cast<size_t>(i)] / tallest * (kBars - 18);
    if (height <= 0) continue;
    const double x0 = axis.x(axis.ms(static_cast<double>(i) / kCount)), x1 = axis.x(axis.ms((i + 1.0) / kCount));
    out += "M" + number(x0) + " " + number(base) + "V" + number(base - std::max(height, 0.8)) + "H" + number(x1) + "V" +
           number(base) + "Z";
  }
  out += "\"/>\n<path class=\"base\" d=\"M" + number(kLeft) + " " + number(base) + "H" + number(kPlotWidth - kRight) +
         "\"/>\n";
  // Marks; their words stand below the row one behind the other, so that none covers another.
  std::string words;
  for (const auto &[name, part] : {std::pair{"median", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}}) {
    const double ms = at_part(one.quantiles, part);
    out += "<path class=\"mark\" data-part=\"" + std::string(name) + "\" d=\"M" + number(axis.x(ms)) + " " +
           number(base + 4) + "V" + number(part == 0.5 ? top + 6 : base - 22) + "\"/>\n";
    words += std::string(words.empty() ? "" : "   ") + name + " " + time_text(ms);
  }
  words += "   slowest " + time_text(one.quantiles.back());
  return out + "<text class=\"words\" x=\"" + number(kLeft) + "\" y=\"" + number(base + 18) + "\">" + escaped(words) +
         "</text>\n</g>\n";
}

}  // namespace

std::string threads_text(const std::string &count) { return count + (count == "1" ? " thread" : " threads"); }

std::vector<double> quantiles_of(const std::vector<double> &sorted) {
  std::vector<double> out;
  for (size_t i = 0; i <= kParts && !sorted.empty(); ++i)
    out.push_back(at_part(sorted, static_cast<double>(i) / kParts));
  return out;
}

LatencySeries read_latencies(const std::string &path) {
  const std::vector<uint8_t> bytes = read_file(path);
  // (As char: libc++ has no traits of other types.)
  const auto *const begin = reinterpret_cast<const char *>(bytes.data());
  const nlohmann::json json = nlohmann::json::parse(begin, begin + bytes.size(), nullptr, false);
  const auto wrong = [&](const std::string &found) {
    return UsageError("--beside: '" + path + "': " + found,
                      "give a file that `quarry bench --json FILE` wrote, with at least one run");
  };
  if (!json.is_object() || !json.contains("quantiles_ms") || !json["quantiles_ms"].is_array())
    throw wrong("found no quantiles_ms in it");
  LatencySeries series;
  for (const nlohmann::json &one : json["quantiles_ms"]) {
    if (!one.is_number() || !(one.get<double>() >= 0) || !std::isfinite(one.get<double>()) ||
        (!series.quantiles.empty() && one.get<double>() < series.quantiles.back()))
      throw wrong("found quantiles_ms that are no rising times");
    series.quantiles.push_back(one.get<double>());
  }
  if (series.quantiles.size() < 2) throw wrong("found fewer than two quantiles_ms");
  const auto text = [&](const char *key) {
    return !json.contains(key)     ? std::string("?")
           : json[key].is_string() ? json[key].get<std::string>()
                                   : json[key].dump();
  };
  series.title = text("backend") + ", " + threads_text(text("threads"));
  series.about = text("runs") + " runs, before";
  return series;
}

std::string latency_svg(const std::string &title, const std::vector<LatencySeries> &series) {
  const Axis axis = axis_of(series);
  const double bottom = kTop + kRow * static_cast<double>(series.size());
  std::string out =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kPlotWidth) + " " + number(bottom + 40) +
      "\" width=\"" + number(kPlotWidth) + "\" height=\"" + number(bottom + 40) +
      "\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n<title>" + escaped(title) +
      "</title>\n"
      "<style>:root{--ground:#fff;--ink:#1f2328;--quiet:#626a73;--line:#dcdcdc}"
      "@media (prefers-color-scheme:dark){:root{--ground:#16181c;--ink:#e6e7e9;--quiet:#9aa3ad;--line:#3a4048}}"
      ".ground{fill:var(--ground)}text{fill:var(--ink)}.head{font-size:15px;font-weight:600}.title{font-weight:600}"
      ".quiet,.tick{fill:var(--quiet)}.grid,.base{stroke:var(--line);fill:none}.mark{stroke:var(--ink);stroke-width:1."
      "3;fill:none}"
      ".words{white-space:pre}.s0 .bars{fill:#3b82c4}.s1 .bars{fill:#d9822b}.s2 .bars{fill:#3c9f6a}.s3 "
      ".bars{fill:#a35db5}"
      ".s4 .bars{fill:#c4314b}.s5 .bars{fill:#7a8390}</style>\n"
      "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n<text class=\"head\" x=\"12\" y=\"26\">" +
      escaped(title) + "</text>\n";
  for (const double tick : ticks_of(axis)) {
    out +=
        "<path class=\"grid\" d=\"M" + number(axis.x(tick)) + " " + number(kTop - 8) + "V" + number(bottom) + "\"/>\n";
    out += "<text class=\"tick\" text-anchor=\"middle\" x=\"" + number(axis.x(tick)) + "\" y=\"" + number(bottom + 18) +
           "\">" + escaped(time_text(tick)) + "</text>\n";
  }
  for (size_t i = 0; i < series.size(); ++i) out += row_svg(series[i], axis, i);
  out += "<text class=\"quiet\" x=\"" + number(kLeft) + "\" y=\"" + number(bottom + 34) + "\">time of a run" +
         std::string(axis.log ? ", axis by powers" : "") +
         "; long marks: medians, short ones: p90 and p99</text>\n</svg>\n";
  return out;
}

}  // namespace tools
