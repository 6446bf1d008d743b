// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/compile/dump.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/new_file.h"
#include "base/os/path.h"
#include "base/small_sort.h"

namespace quarry::htp {

namespace {

// By number, as the library's own converters write it.
template <class Enum>
std::uint32_t number(Enum value) {
  return static_cast<std::uint32_t>(value);
}

void write_numbers(JsonWriter &json, std::string_view key, const Vector<std::uint32_t> &values) {
  json.key(key).begin_array();
  for (const std::uint32_t value : values) json.value(value);
  json.end_array();
}

void write_tensor(JsonWriter &json, const DraftTensor &tensor) {
  const Encoding &e = tensor.encoding;
  json.key(tensor.name).begin_object();
  json.field("type", number(tensor.type)).field("data_type", number(tensor.dtype));
  json.field("data_type_name", type_name(tensor.dtype));
  write_numbers(json, "dims", tensor.dims);
  json.key("quant_params").begin_object();
  json.field("definition", e.scales.empty() ? number(qnn::Defined::Undef) : number(qnn::Defined::Yes));
  if (e.scales.size() > 1) json.field("axis", e.axis);
  if (e.bits > 0) json.field("bitwidth", e.bits);
  if (!e.block.empty()) write_numbers(json, "block_size", e.block);
  if (!e.multipliers.empty())
    write_numbers(json, "block_multipliers", Vector<std::uint32_t>(e.multipliers.begin(), e.multipliers.end()));
  json.key("scale_offset").begin_array();
  for (std::size_t i = 0; i < e.scales.size(); ++i)
    json.begin_object().field("scale", double{e.scales[i]}).field("offset", -e.zero_points[i]).end_object();
  json.end_array().end_object();
  if (tensor.type == qnn::TensorType::Static) json.field("bytes", tensor.data.size);
  json.end_object();
}

void write_node(JsonWriter &json, const Draft &draft, const DraftNode &node) {
  const auto name_of = [&](std::int32_t id) -> const String & { return draft.tensors[index_of(id)].name; };
  const auto write_names = [&](std::string_view key, const Vector<std::int32_t> &ids) {
    json.key(key).begin_array();
    for (const std::int32_t id : ids) json.value(name_of(id));
    json.end_array();
  };
  json.begin_object().field("package", node.package()).field("type", node.type);
  json.key("tensor_params").begin_object();
  for (const DraftParam &param : node.params)
    if (const auto *const ref = std::get_if<DraftParam::Ref>(&param.value))
      json.field(param.name, name_of(ref->tensor));
  json.end_object().key("scalar_params").begin_object();
  for (const DraftParam &param : node.params) {
    if (const auto *const u32 = std::get_if<std::uint32_t>(&param.value)) json.field(param.name, *u32);
    else if (const auto *const i32 = std::get_if<std::int32_t>(&param.value)) json.field(param.name, *i32);
    else if (const auto *const f32 = std::get_if<float>(&param.value)) json.field(param.name, double{*f32});
    else if (const auto *const text = std::get_if<DraftParam::Text>(&param.value)) json.field(param.name, text->text);
    else if (const auto *const flag = std::get_if<bool>(&param.value)) json.field(param.name, *flag);
  }
  json.end_object();
  write_names("input_names", node.inputs);
  write_names("output_names", node.outputs);
  json.end_object();
}

String graph_json(const Draft &draft) {
  JsonWriter json;
  json.begin_object();
  Vector<String> types;
  for (const DraftNode &node : draft.nodes) types.push_back(node.type);
  small_sort(types);
  types.erase(std::unique(types.begin(), types.end()), types.end());
  json.field("graph_name", draft.name).key("op_types").begin_array();
  for (const String &type : types) json.value(type);
  json.end_array().key("graph").begin_object().key("tensors").begin_object();
  for (const DraftTensor &tensor : draft.tensors)
    if (tensor.type != qnn::TensorType::Null) write_tensor(json, tensor);
  json.end_object().key("nodes").begin_object();
  UniqueNames names;
  for (const DraftNode &node : draft.nodes) {
    json.key(names.of(node.name));
    write_node(json, draft, node);
  }
  json.end_object().end_object().end_object();
  return json.take();
}

String trace_json(const Draft &draft, const Vector<String> &sources) {
  JsonWriter json;
  json.begin_object().field("graph_name", draft.name).key("nodes").begin_array();
  UniqueNames names;
  for (const DraftNode &node : draft.nodes) {
    const auto source = index_of(node.source);
    json.begin_object().field("qnn_node", names.of(node.name)).field("qnn_type", node.type).key("onnx_node");
    if (node.source >= 0 && source < sources.size()) json.value(sources[source]);
    else json.null();
    json.end_object();
  }
  json.end_array().end_object();
  return json.take();
}

Status write_dump(std::string_view option, std::string_view folder, const Draft &draft, const Soc &soc,
                  std::string_view ending, const String &text) {
  return write_file(dump_path(folder, draft, soc, ending), text, "option " + String(option));
}

}  // namespace

String file_name_of(std::string_view graph) {
  String name(graph.substr(0, 100));
  for (char &letter : name)
    if (!os::fits_name(letter) || static_cast<unsigned char>(letter) < ' ') letter = '_';
  return name;
}

String dump_path(std::string_view folder, const Draft &draft, const Soc &soc, std::string_view ending) {
  return (folder.empty() ? String() : String(folder) + "/") + file_name_of(draft.name) + "_" +
         (*soc.name ? String(soc.name) : format("soc%u", soc.number)) + String(ending);
}

Status dump_draft(const Draft &draft, const Vector<String> &sources, const CompileOptions &options) {
  const Settings &settings = options.settings;
  if (settings.flag("dump_json_qnn_graph"))
    QR_RETURN_IF_ERROR(write_dump("json_qnn_graph_dir", settings.text("json_qnn_graph_dir"), draft, *options.soc,
                                  ".json", graph_json(draft)));
  if (settings.flag("enable_framework_op_trace"))
    QR_RETURN_IF_ERROR(write_dump("framework_op_trace_dir", settings.text("framework_op_trace_dir"), draft,
                                  *options.soc, "_op_trace.json", trace_json(draft, sources)));
  return {};
}

}  // namespace quarry::htp
