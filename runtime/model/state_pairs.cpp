// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/state_pairs.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/json_writer.h"
#include "base/text.h"

namespace quarry {
namespace {

using Tensors = Vector<qrm::TensorInfo>;

// How exporters name what a run gives back, by the name of what it takes: the first part of each line is replaced by
// the second. '<' and '>' are the name's ends.
constexpr char kRenamings[] =
    "past_key_values\0present\0"  // Optimum, onnxruntime-genai
    "past\0present\0"
    "_in>\0_out>\0"
    "<in_\0<out_\0"
    "<\0<new_\0"  // icefall
    "<\0<next_\0"
    ">\0_out>\0"  // GTCRN
    ">\0N>\0"     // Silero VAD
    ">\0n>\0"     // h and c
    "0>\0n>\0"    // h0, h_0
    "<initial_\0<Y_\0"
    "prev\0next\0";

std::size_t place_of(const Tensors &tensors, std::string_view name) {
  return index_of(std::ranges::find(tensors, name, &qrm::TensorInfo::name) - tensors.begin());
}

std::string_view dim_name(const qrm::TensorInfo &tensor, std::size_t axis) {
  return axis < tensor.dim_names.size() ? std::string_view(tensor.dim_names[axis]) : std::string_view();
}

// Whether one can be the other's next value, but for one axis.
bool are_alike(const qrm::TensorInfo &a, const qrm::TensorInfo &b) {
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size() || a.quant != b.quant) return false;
  for (std::size_t axis = 0; axis < a.dims.size(); ++axis)
    if (a.dims[axis] >= 0 && b.dims[axis] >= 0 && a.dims[axis] != b.dims[axis]) return false;
  return true;
}

// The output that goes by the name; the number of outputs: there is none.
std::size_t find_output(const qrm::TensorInfo &input, const Tensors &outputs) {
  const String whole = "<" + input.name + ">";
  for (const char *rule = kRenamings; *rule;) {
    const std::string_view from = rule, to = rule + from.size() + 1;
    rule = to.data() + to.size() + 1;
    const std::size_t at = whole.find(from);
    if (at == String::npos) continue;
    String name = whole;
    name.replace(at, from.size(), to);
    const std::size_t found = place_of(outputs, std::string_view(name).substr(1, name.size() - 2));
    if (found < outputs.size() && are_alike(input, outputs[found])) return found;
  }
  return outputs.size();
}

Status bad(const String &what, const char *hint = "") {
  return Status::error(ErrorId::bad_state_option, format("option state: %s", what), hint).with("option", "state");
}

Status no_such(const char *kind, std::string_view name, const Tensors &tensors) {
  NearestWord nearest(name);
  for (const qrm::TensorInfo &tensor : tensors) nearest.offer(tensor.name);
  return bad(nearest.word().empty()
                 ? format("found no %s '%s'", kind, printable(name))
                 : format("found no %s '%s'; did you mean '%s'?", kind, printable(name), printable(nearest.word())));
}

Status read_pairs(std::string_view wanted, const Tensors &inputs, const Tensors &outputs, Vector<StatePair> *out) {
  while (!wanted.empty()) {
    const std::string_view text = wanted.substr(0, wanted.find(','));
    wanted.remove_prefix(std::min(text.size() + 1, wanted.size()));
    if (text.empty()) continue;
    // (Names of tensors may have colons, as those of TensorFlow.)
    std::size_t input = inputs.size(), output = outputs.size(), colon = text.find(':');
    const std::size_t first = colon;
    for (; colon != std::string_view::npos && (input == inputs.size() || output == outputs.size());
         colon = text.find(':', colon + 1))
      input = place_of(inputs, text.substr(0, colon)), output = place_of(outputs, text.substr(colon + 1));
    if (first == std::string_view::npos)
      return bad(format("found '%s', expected auto, or INPUT:OUTPUT with commas between", printable(text)));
    if (input == inputs.size() && place_of(inputs, text.substr(0, first)) == inputs.size())
      return no_such("input", text.substr(0, first), inputs);
    if (input == inputs.size() || output == outputs.size()) return no_such("output", text.substr(first + 1), outputs);
    if (inputs[input].dtype != outputs[output].dtype || inputs[input].dims.size() != outputs[output].dims.size())
      return bad(format("found %s of rank %zu for input '%s' and %s of rank %zu for output '%s', expected the same",
                        dtype_name(inputs[input].dtype), inputs[input].dims.size(), printable(inputs[input].name),
                        dtype_name(outputs[output].dtype), outputs[output].dims.size(),
                        printable(outputs[output].name)));
    out->push_back({static_cast<std::uint32_t>(input), static_cast<std::uint32_t>(output)});
  }
  for (std::size_t i = 0; i < out->size(); ++i) {
    for (std::size_t other = i; other-- > 0;)  // (std::sort takes a page of the library)
      if ((*out)[other].input > (*out)[other + 1].input) std::swap((*out)[other], (*out)[other + 1]);
  }
  for (std::size_t i = 0; i < out->size(); ++i)
    for (std::size_t other = 0; other < i; ++other)
      if ((*out)[i].input == (*out)[other].input || (*out)[i].output == (*out)[other].output)
        return bad(format("found input '%s' or output '%s' twice, expected one pair of each",
                          printable(inputs[(*out)[i].input].name), printable(outputs[(*out)[i].output].name)));
  return {};
}

// Where a run that gives the other inputs says this dimension; nothing: nowhere.
std::optional<StatePair::Source> source_of(std::string_view name, std::size_t axis, const Tensors &inputs,
                                           const Vector<StatePair> &pairs) {
  for (std::size_t i = 0; i < inputs.size() && !name.empty(); ++i) {
    if (std::ranges::any_of(pairs, [i](const StatePair &pair) { return pair.input == i; })) continue;
    for (std::size_t d = 0; d < inputs[i].dims.size(); ++d)
      if (inputs[i].dims[d] < 0 && dim_name(inputs[i], d) == name)
        return StatePair::Source{static_cast<std::uint32_t>(axis), static_cast<std::uint32_t>(i),
                                 static_cast<std::uint32_t>(d)};
  }
  return std::nullopt;
}

// The axis that grows is unknown, is called otherwise in the output, and no other input says it.
Status find_axis(const Tensors &inputs, const Tensors &outputs, const Vector<StatePair> &pairs, StatePair *pair) {
  const qrm::TensorInfo &input = inputs[pair->input], &output = outputs[pair->output];
  for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
    if (input.dims[axis] >= 0) {
      if (output.dims[axis] < 0 || output.dims[axis] == input.dims[axis]) continue;
      return bad(format("input '%s' has %lld on axis %zu and output '%s' %lld", printable(input.name), input.dims[axis],
                        axis, printable(output.name), output.dims[axis]),
                 "leave the dimension to the runs: bind no number to it (option shape)");
    }
    const std::string_view name = dim_name(input, axis);
    if (const auto source = source_of(name, axis, inputs, pairs)) {
      pair->sources.push_back(*source);
    } else if (name.empty() || name != dim_name(output, axis)) {
      if (pair->axis >= 0)
        return bad(format("input '%s' and output '%s' may differ on axes %d and %zu, expected one that grows",
                          printable(input.name), printable(output.name), pair->axis, axis),
                   "bind the other one to a number (option shape)");
      pair->axis = static_cast<std::int32_t>(axis);
    }
  }
  if (pair->axis >= 0 && dtype_bits(input.dtype) < 8)
    return bad(format("input '%s' grows and is %s, expected a type of whole bytes", printable(input.name),
                      dtype_name(input.dtype)));
  return {};
}

}  // namespace

Result<Vector<StatePair>> find_state(std::string_view wanted, const Tensors &inputs, const Tensors &outputs) {
  Vector<StatePair> pairs;
  if (wanted != "auto") {
    QR_RETURN_IF_ERROR(read_pairs(wanted, inputs, outputs, &pairs));
  } else {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::size_t output = find_output(inputs[i], outputs);
      const auto is_taken = [&](const StatePair &pair) { return pair.output == output; };
      if (output < outputs.size() && std::ranges::none_of(pairs, is_taken))
        pairs.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(output)});
    }
  }
  for (StatePair &pair : pairs) QR_RETURN_IF_ERROR(find_axis(inputs, outputs, pairs, &pair));
  return pairs;
}

String state_ranges(const Vector<StatePair> &pairs, const Tensors &inputs, std::string_view shapes,
                    std::uint64_t capacity) {
  String said = ",", added;
  for (const char letter : shapes)
    if (letter != ' ') said += letter;
  const auto is_said = [&](std::string_view name) {
    const String entry = "," + String(name) + "=";
    return said.find(entry) != String::npos || added.find(entry) != String::npos;
  };
  for (const StatePair &pair : pairs) {
    if (pair.axis < 0) continue;
    const std::string_view name = dim_name(inputs[pair.input], index_of(pair.axis));
    if (!name.empty() && !is_said(name) && !is_said(inputs[pair.input].name))
      added += format(",%s=0..%llu", String(name), capacity);
  }
  return added;
}

std::uint64_t state_bytes(const Vector<StatePair> &pairs, const Tensors &inputs, std::uint64_t capacity,
                          bool appends) noexcept {
  std::uint64_t sum = 0;
  for (const StatePair &pair : pairs) {
    const qrm::TensorInfo &info = inputs[pair.input];
    std::uint64_t bytes = dtype_bits(info.dtype) / 8 * (appends && pair.axis >= 0 ? 1 : 2);
    for (std::size_t d = 0; d < info.dims.size(); ++d) {
      const bool grows = static_cast<std::int32_t>(d) == pair.axis;
      const auto extent = static_cast<std::uint64_t>(std::max<std::int64_t>(info.dims[d], 1));
      if (!checked_mul(bytes, grows ? capacity : extent, &bytes)) return UINT64_MAX;
    }
    if (!checked_add(sum, bytes, &sum)) return UINT64_MAX;
  }
  return sum;
}

void write_pairs(JsonWriter &json, const Vector<StatePair> &pairs, const Tensors &inputs, const Tensors &outputs) {
  json.begin_array();
  for (const StatePair &pair : pairs) {
    json.begin_object().field("input", inputs[pair.input].name).field("output", outputs[pair.output].name).key("axis");
    pair.axis < 0 ? json.null() : json.value(pair.axis);
    json.end_object();
  }
  json.end_array();
}

}  // namespace quarry
