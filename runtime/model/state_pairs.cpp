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

// The numbers beside what is kept in bytes.
std::size_t scales_of(const Tensors &tensors, std::size_t of) {
  const std::string_view name = tensors[of].name;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (const std::string_view one = tensors[i].name;
        one.starts_with(name) && one.substr(name.size()) == QR_STATE_SCALES)
      return i;
  return tensors.size();
}

std::string_view dim_name(const qrm::TensorInfo &tensor, std::size_t axis) {
  return axis < tensor.dim_names.size() ? std::string_view(tensor.dim_names[axis]) : std::string_view();
}

// Whether one can be the other's next value, but for axes that differ: none, or one of a cache.
bool are_alike(const qrm::TensorInfo &a, const qrm::TensorInfo &b, int may_differ) {
  if (a.dtype != b.dtype || a.dims.size() != b.dims.size() || a.quant != b.quant) return false;
  for (std::size_t axis = 0; axis < a.dims.size(); ++axis)
    may_differ -= a.dims[axis] >= 0 && b.dims[axis] >= 0 && a.dims[axis] != b.dims[axis];
  return may_differ >= 0;
}

// Outputs by their names: a model may have thousands of them, and of inputs.
using Named = HashMap<std::string_view, const qrm::TensorInfo *>;

// The output that goes by the name; null: there is none.
const qrm::TensorInfo *find_output(const qrm::TensorInfo &input, const Named &outputs) {
  const String whole = "<" + input.name + ">";
  for (const char *rule = kRenamings; *rule;) {
    const std::string_view from = rule, to = rule + from.size() + 1;
    rule = to.data() + to.size() + 1;
    const std::size_t at = whole.find(from);
    if (at == String::npos) continue;
    String name = whole;
    name.replace(at, from.size(), to);
    const auto found = outputs.find(std::string_view(name).substr(1, name.size() - 2));
    if (found != outputs.end() && are_alike(input, *found->second, from.starts_with("past"))) return found->second;
  }
  return nullptr;
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
    if (input.dims[axis] >= 0) continue;  // what differs there: fix_state
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
    Named named;
    for (const qrm::TensorInfo &output : outputs) named.emplace(output.name, &output);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const qrm::TensorInfo *const found = find_output(inputs[i], named);
      if (!found) continue;
      const auto output = static_cast<std::uint32_t>(found - outputs.data());
      const auto is_taken = [&](const StatePair &pair) { return pair.output == output; };
      if (std::ranges::none_of(pairs, is_taken)) pairs.push_back({static_cast<std::uint32_t>(i), output});
    }
  }
  for (std::size_t i = 0, named = pairs.size(); i < named; ++i) {
    const std::size_t input = scales_of(inputs, pairs[i].input), output = scales_of(outputs, pairs[i].output);
    const auto is_taken = [input](const StatePair &pair) { return pair.input == input; };
    if (input < inputs.size() && output < outputs.size() && std::ranges::none_of(pairs, is_taken))
      pairs.push_back({static_cast<std::uint32_t>(input), static_cast<std::uint32_t>(output)});
  }
  for (StatePair &pair : pairs) QR_RETURN_IF_ERROR(find_axis(inputs, outputs, pairs, &pair));
  return pairs;
}

Result<Vector<EntryAxis>> fix_state(Vector<StatePair> &pairs, const Tensors &inputs, const Tensors &outputs,
                                    const Vector<Vector<qir::Shape>> &input_dims,
                                    const Vector<Vector<qir::Shape>> &output_dims, std::string_view padded,
                                    std::uint64_t *capacity) {
  const auto is_open = [](const qir::Shape &shape) {
    return std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; });
  };
  std::int64_t room = 0;
  Vector<std::int64_t> fresh(input_dims.size());  // entries that a run of each program adds
  for (StatePair &pair : pairs) {
    const auto named = [&](const char *what) {
      return bad(format("input '%s' and output '%s' %s", printable(inputs[pair.input].name),
                        printable(outputs[pair.output].name), what));
    };
    for (std::size_t b = 0; b < input_dims.size(); ++b) {
      const qir::Shape &in = input_dims[b][pair.input], &out = output_dims[b][pair.output];
      if (is_open(in) || is_open(out)) break;  // a range
      std::int32_t axis = -1;
      for (std::size_t d = 0; d < in.size(); ++d) {
        if (in[d] == out[d]) continue;
        if (axis >= 0) return named("differ on several axes, expected one that grows");
        axis = static_cast<std::int32_t>(d);
      }
      if (axis < 0 && !pair.is_fixed && pair.axis < 0) continue;
      if (axis < 0 || (b > 0 && axis != pair.axis))
        return named("have one length in a program of fixed shapes, expected the output to have the new entries too");
      const std::int64_t most = in[index_of(axis)], made = out[index_of(axis)], kept = made > most ? most : 0;
      if (dtype_bits(inputs[pair.input].dtype) < 8) return named("grow, expected a type of whole bytes");
      if ((room > 0 && room != most) || (fresh[b] > 0 && fresh[b] != made - kept) || (b > 0 && kept != pair.kept))
        return named("have another capacity or other new entries than those before, expected the same");
      room = most, fresh[b] = made - kept;
      pair.axis = axis, pair.is_fixed = true, pair.kept = kept;
    }
  }
  Vector<EntryAxis> found;
  if (room == 0) return found;
  *capacity = static_cast<std::uint64_t>(room);
  // (Axes without a name, of a model that was exported with numbers, only where no named one is as long.)
  for (const bool has_name : {true, false})
    for (std::size_t i = 0; i < inputs.size() && (has_name || found.empty()); ++i) {
      if (std::ranges::any_of(pairs, [i](const StatePair &pair) { return pair.input == i; })) continue;
      for (std::size_t d = 0; d < inputs[i].dims.size(); ++d) {
        bool is_whole = dim_name(inputs[i], d).empty() != has_name;
        for (std::size_t b = 0; is_whole && b < input_dims.size(); ++b)
          is_whole = input_dims[b][i][d] == room + fresh[b];
        if (is_whole) found.push_back({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(d)});
      }
    }
  if (found.empty())
    return Status::hinted(ErrorId::state_unsupported,
                          "export the model with an attention_mask over past and new entries, or use backend cpu, "
                          "cpu-reference or gpu with a range",
                          "option state: found a program with room for %lld entries of input '%s' and no input that "
                          "says which count, expected a mask with an axis of past and new entries together (%lld)",
                          room, printable(inputs[pairs[0].input].name).c_str(), room + fresh[0]);
  const String mask = ":" + inputs[found[0].input].name;
  const auto has_positions = [](const qrm::TensorInfo &input) { return input.name.find("position") != String::npos; };
  if (std::ranges::none_of(inputs, has_positions) && padded.find(mask) == padded.npos)
    return Status::hinted(
        ErrorId::state_unsupported,
        "export the model with position_ids; or where its positions come of the mask, as by CumSum, "
        "say so by naming it: shape.pad=DIMENSION:MASK",
        "option state: found no input with the positions of new entries, expected one (position_ids): "
        "what counts the entries of the past counts all %lld that there is room for",
        room);
  return found;
}

String state_ranges(const Vector<StatePair> &pairs, const Tensors &inputs, std::string_view shapes,
                    std::uint64_t capacity, bool takes_ranges) {
  String said = ",", added;
  for (const char letter : shapes)
    if (letter != ' ') said += letter;
  const auto is_said = [&](std::string_view name) {
    const String entry = "," + String(name) + "=";
    return said.find(entry) != String::npos || added.find(entry) != String::npos;
  };
  // (An input whose dimensions are given says all of their names.)
  const auto is_said_by_input = [&](std::string_view name) {
    return std::ranges::any_of(inputs, [&](const qrm::TensorInfo &input) {
      return std::ranges::find(input.dim_names, name) != input.dim_names.end() && is_said(input.name);
    });
  };
  for (const StatePair &pair : pairs) {
    if (pair.axis < 0) continue;
    const std::string_view name = dim_name(inputs[pair.input], index_of(pair.axis));
    if (name.empty() || is_said(name) || is_said_by_input(name)) continue;
    added += format(",%s=%s", String(name), takes_ranges ? "0.." : "");
    if (capacity != 0) added += format("%llu", capacity);
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
