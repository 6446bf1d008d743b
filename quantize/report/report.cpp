// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/report.h"

#include <cmath>

#include "base/json_writer.h"

namespace quarry::quantize {
namespace {

void number(JsonWriter &json, std::string_view key, double value) { json.key(key).value(value); }

void number(JsonWriter &json, std::string_view key, const std::optional<double> &value) {
  if (value) number(json, key, *value);
}

void range(JsonWriter &json, std::string_view key, const Range &of) {
  json.key(key).begin_array().value(of.low).value(of.high).end_array();
}

void tensor(JsonWriter &json, const TensorEntry &entry) {
  json.begin_object().key("name").value(entry.name);
  json.key("node").value(entry.node).key("op").value(entry.op);
  json.key("shape").begin_array();
  for (const std::int64_t extent : entry.shape) json.value(extent);
  json.end_array();
  json.key("is_weight").value(entry.is_weight).key("type").value(dtype_name(entry.dtype));
  range(json, "seen", entry.seen);
  range(json, "range", entry.range);
  json.key("channels").value(static_cast<std::int64_t>(entry.channels));
  number(json, "scale", static_cast<double>(entry.scale));
  json.key("zero_point").value(static_cast<std::int64_t>(entry.zero_point));
  number(json, "clipped", entry.clipped);
  number(json, "sqnr_alone", entry.sqnr_alone);
  number(json, "sqnr", entry.sqnr);
  number(json, "sqnr_device", entry.sqnr_device);
  if (!entry.histogram.counts.empty()) {
    json.key("histogram").begin_object();
    range(json, "range", {entry.histogram.low, entry.histogram.high});
    json.key("counts").begin_array();
    for (const std::uint64_t count : entry.histogram.counts) json.value(static_cast<std::int64_t>(count));
    json.end_array().end_object();
  }
  json.end_object();
}

void layer(JsonWriter &json, const LayerEntry &entry) {
  json.begin_object().key("node").value(entry.node).key("op").value(entry.op);
  json.key("outputs").begin_array();
  for (const String &name : entry.outputs) json.value(name);
  json.end_array();
  json.key("quantized").value(entry.quantized).key("bits").value(static_cast<std::int64_t>(entry.bits));
  number(json, "sqnr", entry.sqnr);
  number(json, "sqnr_device", entry.sqnr_device);
  json.end_object();
}

void output(JsonWriter &json, const OutputEntry &entry) {
  json.begin_object().key("name").value(entry.name);
  number(json, "sqnr", entry.sqnr);
  number(json, "sqnr_device", entry.sqnr_device);
  number(json, "cosine", entry.cosine);
  number(json, "top1", entry.top1);
  json.end_object();
}

void verdict(JsonWriter &json, const Verdict &of) {
  json.key("verdict").begin_object().key("word").value(of.word).key("why").value(of.why).key("next").begin_array();
  for (const Advice &advice : of.next)
    json.begin_object()
        .key("option")
        .value(advice.option)
        .key("value")
        .value(advice.value)
        .key("why")
        .value(advice.why)
        .end_object();
  json.end_array().end_object();
}

}  // namespace

String report_json(const Report &report) {
  JsonWriter json;
  json.begin_object()
      .key("model")
      .value(report.model)
      .key("backend")
      .value(report.backend)
      .key("device")
      .value(report.device);
  json.key("samples").value(static_cast<std::int64_t>(report.samples));
  json.key("evaluated").value(static_cast<std::int64_t>(report.evaluated));
  json.key("held_back").value(static_cast<std::int64_t>(report.held_back));
  verdict(json, report.verdict);
  json.key("operations").begin_object();
  json.key("of_8_bits").value(static_cast<std::int64_t>(report.operations.of_8_bits));
  json.key("of_16_bits").value(static_cast<std::int64_t>(report.operations.of_16_bits));
  json.key("of_float").value(static_cast<std::int64_t>(report.operations.of_float)).end_object();
  json.key("float_bytes").value(static_cast<std::int64_t>(report.float_bytes));
  json.key("quantized_bytes").value(static_cast<std::int64_t>(report.quantized_bytes));
  json.key("settings").begin_object();
  for (const auto &[key, value] : report.settings) json.key(key).value(value);
  json.end_object().key("changes").begin_array();
  for (const Change &change : report.changes)
    json.begin_object()
        .key("what")
        .value(change.what)
        .key("where")
        .value(change.where)
        .key("detail")
        .value(change.detail)
        .end_object();
  json.end_array().key("outputs").begin_array();
  for (const OutputEntry &entry : report.outputs) output(json, entry);
  json.end_array().key("layers").begin_array();
  for (const LayerEntry &entry : report.layers) layer(json, entry);
  json.end_array().key("tensors").begin_array();
  for (const TensorEntry &entry : report.tensors) tensor(json, entry);
  return json.end_array().end_object().take();
}

}  // namespace quarry::quantize
