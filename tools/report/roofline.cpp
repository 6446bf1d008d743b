// SPDX-License-Identifier: Apache-2.0
#include "tools/report/roofline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tools/console/text_grid.h"

namespace tools {
namespace {

struct Operand {
  std::vector<double> dims;
  std::string dtype;
  double count() const {
    double out = 1;
    for (const double extent : dims) out *= extent;
    return out;
  }
  // From the end: 1 is the last.
  double back(size_t from_end) const { return dims.size() < from_end ? 1 : dims[dims.size() - from_end]; }
};

struct Operands {
  std::vector<Operand> inputs, outputs;
  bool whole = true;  // false: some had no room in the event
};

Operands read_operands(const std::string &text) {
  Operands out;
  std::vector<Operand> *list = &out.inputs;
  for (size_t at = 0; at < text.size();) {
    if (text.compare(at, 2, "->") == 0) {
      list = &out.outputs;
      at += 2;
      continue;
    }
    if (text[at] == ' ' || text[at] == ',') {
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(",", at), text.find(" ->", at));
    const std::string one = text.substr(at, end == std::string::npos ? end : end - at);
    at = end == std::string::npos ? text.size() : end;
    if (one.compare(0, 3, "...") == 0) {
      out.whole = false;
      continue;
    }
    Operand operand;
    const size_t space = one.find(' ');
    operand.dtype = space == std::string::npos ? one : one.substr(space + 1);
    if (space != std::string::npos)
      for (const char *digits = one.c_str(); *digits >= '0' && *digits <= '9';) {
        char *next;
        operand.dims.push_back(static_cast<double>(std::strtoull(digits, &next, 10)));
        digits = *next == 'x' ? next + 1 : next;
      }
    list->push_back(std::move(operand));
  }
  return out;
}

// The operands behind the first that have its rank: weights of convolutions, not their biases and scales.
std::vector<const Operand *> weights_of(const Operands &operands) {
  std::vector<const Operand *> out;
  for (size_t i = 1; i < operands.inputs.size(); ++i)
    if (operands.inputs[i].dims.size() == operands.inputs[0].dims.size()) out.push_back(&operands.inputs[i]);
  return out;
}

bool begins(const std::string &text, const char *with) { return text.rfind(with, 0) == 0; }
bool is_one_of(const std::string &text, std::initializer_list<const char *> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Which peak a kernel is to be held against: that of the numbers that it multiplies.
const char *peak_of(const NodeRow &node) {
  if (node.kernel.find("F32") != std::string::npos) return "f32";
  const Operands operands = read_operands(node.shapes);
  const std::string dtype = operands.inputs.empty() ? "" : operands.inputs[0].dtype;
  return is_one_of(dtype, {"u8", "i8"}) ? "int8" : is_one_of(dtype, {"u16", "i16"}) ? "int16" : "f32";
}

double peak_value(const std::string &name, const ProcessorPeaks &peaks) {
  return name == "int8" ? peaks.int8 : name == "int16" ? peaks.int16 : peaks.f32;
}

}  // namespace

double product_operations(const std::string &op, const std::string &kernel, const std::string &shapes) {
  const Operands operands = read_operands(shapes);
  if (operands.inputs.empty() || operands.outputs.empty()) return 0;
  const Operand &x = operands.inputs[0], &y = operands.outputs[0];
  if (begins(kernel, "Attention") && operands.inputs.size() >= 3) {  // Q K^T, and its softmax times V
    const Operand &v = operands.inputs[2];
    return v.back(1) > 0 ? 2 * v.back(2) * y.count() * (1 + x.back(1) / v.back(1)) : 0;
  }
  if (begins(kernel, "BlockF32")) {  // 1x1, depthwise, 1x1
    const std::vector<const Operand *> weights = weights_of(operands);
    if (weights.size() < 3 || y.dims.size() < 3 || y.dims[1] == 0) return 0;
    const double in_pixels = x.count() / x.dims[1], out_pixels = y.count() / y.dims[1];
    return 2 * (in_pixels * weights[0]->count() + out_pixels * (weights[1]->count() + weights[2]->count()));
  }
  if (is_one_of(op, {"Conv", "ConvInteger", "QLinearConv"})) {
    const std::vector<const Operand *> weights = weights_of(operands);
    if (weights.empty() || weights[0]->dims[0] == 0) return 0;
    return 2 * y.count() * weights[0]->count() / weights[0]->dims[0];
  }
  if (op == "ConvTranspose") {
    const std::vector<const Operand *> weights = weights_of(operands);
    if (weights.empty() || x.dims.size() < 2 || x.dims[1] == 0) return 0;
    return 2 * x.count() * weights[0]->count() / x.dims[1];
  }
  if (op == "Gemm") return y.back(2) > 0 ? 2 * y.count() * x.count() / y.back(2) : 0;
  if (is_one_of(op, {"MatMul", "FusedMatMul", "MatMulInteger", "QLinearMatMul", "MatMulNBits"}))
    return 2 * y.count() * (x.back(2) == y.back(2) || op != "FusedMatMul" ? x.back(1) : x.back(2));
  if (is_one_of(op, {"LSTM", "GRU", "RNN"}) && operands.inputs.size() >= 3 && x.dims.size() == 3)
    return 2 * x.dims[0] * x.dims[1] * (operands.inputs[1].count() + operands.inputs[2].count());
  return 0;
}

std::vector<RooflineRow> roofline_rows(const RunTable &table, const ProcessorPeaks &peaks) {
  std::vector<RooflineRow> out;
  if (table.cycles) return out;  // a device's clock says nothing of this processor
  for (const NodeRow &node : table.nodes) {
    RooflineRow row;
    row.node = &node;
    row.gop = product_operations(node.op, node.kernel, node.shapes) * std::max(node.calls, 1.0) / 1e9;
    row.gb = static_cast<double>(node.bytes_read + node.bytes_written) / 1e9;
    row.gb_per_s = node.gb_per_s;
    if (peaks.read_gb_per_s > 0) row.of_reading = row.gb_per_s / peaks.read_gb_per_s;
    if (row.gop > 0) {
      row.peak = peak_of(node);
      row.gop_per_s = node.time > 0 ? row.gop / node.time * 1e3 : 0;
      const double peak = peak_value(row.peak, peaks);
      row.of_peak = peak > 0 ? row.gop_per_s / peak : 0;
    }
    out.push_back(std::move(row));
  }
  return out;
}

std::string peaks_text(const ProcessorPeaks &peaks) {
  char text[400];
  std::snprintf(text, sizeof text,
                "measured peaks of %u thread%s: f32 %.1f GFLOP/s (%s), int8 %.1f GOP/s (%s), int16 %.1f GOP/s (%s), "
                "memory %.1f GB/s read\n",
                peaks.threads, peaks.threads == 1 ? "" : "s", peaks.f32, peaks.f32_by.c_str(), peaks.int8,
                peaks.int8_by.c_str(), peaks.int16, peaks.int16_by.c_str(), peaks.read_gb_per_s);
  return text;
}

std::string roofline_text(const RunTable &table, const ProcessorPeaks &peaks, size_t top) {
  const std::vector<RooflineRow> rows = roofline_rows(table, peaks);
  const size_t shown = top == 0 ? rows.size() : std::min(top, rows.size());
  std::vector<Column> out = {{"node", false, {}}, {"kernel", false, {}}, {"shapes", false, {}},  {"ms", true, {}},
                             {"share", true, {}}, {"GOP", true, {}},     {"GOP/s", true, {}},    {"of peak", true, {}},
                             {"bytes", true, {}}, {"GB/s", true, {}},    {"of memory", true, {}}};
  double gop = 0, product_ms = 0, ideal_ms = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RooflineRow &row = rows[i];
    const NodeRow &node = *row.node;
    const bool product = row.gop > 0;
    if (product) {
      gop += row.gop, product_ms += node.time;
      if (const double peak = peak_value(row.peak, peaks); peak > 0) ideal_ms += row.gop / peak * 1e3;
    }
    if (i >= shown) continue;
    size_t at = 0;
    out[at++].cells.push_back(node.name);
    out[at++].cells.push_back(node.kernel.empty() ? node.op : node.kernel);
    out[at++].cells.push_back(node.shapes);
    out[at++].cells.push_back(number(node.time, table.sum < 1 ? 5 : 3));
    out[at++].cells.push_back(percent(node.share));
    out[at++].cells.push_back(product ? number(row.gop, row.gop < 0.1 ? 4 : 2) : "");
    out[at++].cells.push_back(product ? number(row.gop_per_s, 1) : "");
    out[at++].cells.push_back(product && row.of_peak > 0 ? percent(row.of_peak) : "");
    out[at++].cells.push_back(node.has_bytes ? size_text(node.bytes_read + node.bytes_written) : "");
    out[at++].cells.push_back(row.gb_per_s > 0 ? number(row.gb_per_s, 2) : "");
    out[at++].cells.push_back(row.of_reading > 0 ? percent(row.of_reading) : "");
  }
  std::string text = grid(std::move(out));
  if (shown < rows.size()) text += "  and " + std::to_string(rows.size() - shown) + " more\n";
  if (product_ms > 0) {
    char line[200];
    std::snprintf(
        line, sizeof line,
        "multiplications: %.3f GOP in %.3f ms, %.1f GOP/s; at the peaks they would take %.3f ms (%.1f %%); all else "
        "takes %.3f ms\n",
        gop, product_ms, gop / product_ms * 1e3, ideal_ms, ideal_ms / product_ms * 100, table.sum - product_ms);
    text += line;
  }
  return text;
}

nlohmann::json roofline_json(const RunTable &table, const ProcessorPeaks &peaks) {
  nlohmann::json out = {{"threads", peaks.threads},
                        {"peaks",
                         {{"f32_gflop_per_s", peaks.f32},
                          {"int8_gop_per_s", peaks.int8},
                          {"int16_gop_per_s", peaks.int16},
                          {"f32_by", peaks.f32_by},
                          {"int8_by", peaks.int8_by},
                          {"int16_by", peaks.int16_by},
                          {"read_gb_per_s", peaks.read_gb_per_s}}},
                        {"nodes", nlohmann::json::array()}};
  for (const RooflineRow &row : roofline_rows(table, peaks)) {
    nlohmann::json one = {{"name", row.node->name},     {"operator", row.node->op}, {"kernel", row.node->kernel},
                          {"shapes", row.node->shapes}, {"ms", row.node->time},     {"share", row.node->share}};
    if (row.gop > 0) {
      one["gop"] = row.gop, one["gop_per_s"] = row.gop_per_s;
      one["peak"] = row.peak, one["of_peak"] = row.of_peak;
    }
    if (row.node->has_bytes) {
      one["bytes"] = row.node->bytes_read + row.node->bytes_written;
      one["gb_per_s"] = row.gb_per_s, one["of_memory"] = row.of_reading;
    }
    out["nodes"].push_back(std::move(one));
  }
  return out;
}

}  // namespace tools
