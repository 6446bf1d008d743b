// SPDX-License-Identifier: Apache-2.0
// Model::inspect: what a model says of itself, as the JSON of docs/formats/inspect.md.
#include "base/json_writer.h"
#include "runtime/compile/loadable_model.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/prepare_library.h"
#include "runtime/core/runtime.h"
#include "runtime/model/model.h"
#include "runtime/model/state_pairs.h"

namespace quarry {
namespace {

void write_tensor(JsonWriter &json, const qrm::TensorInfo &info) {
  json.begin_object().field("name", info.name).field("dtype", dtype_name(info.dtype));
  json.key("dims").begin_array();
  for (std::size_t axis = 0; axis < info.dims.size();
       ++axis) {  // a symbolic dimension is its name, one without a name is null
    if (info.dims[axis] >= 0) json.value(info.dims[axis]);
    else if (axis < info.dim_names.size() && !info.dim_names[axis].empty()) json.value(info.dim_names[axis]);
    else json.null();
  }
  json.end_array();
  if (info.quant) {
    json.key("quantization").begin_object().key("scales").begin_array();
    for (const float scale : info.quant->scales) json.value(static_cast<double>(scale));
    json.end_array().key("zero_points").begin_array();
    for (const std::int32_t zero_point : info.quant->zero_points) json.value(zero_point);
    json.end_array();
    if (!info.quant->per_tensor()) json.field("axis", info.quant->axis);
    if (info.quant->block_size) json.field("block_size", info.quant->block_size);
    json.end_object();
  }
  json.end_object();
}

void write_tensors(JsonWriter &json, const char *name, const Vector<qrm::TensorInfo> &tensors) {
  json.key(name).begin_array();
  for (const qrm::TensorInfo &info : tensors) write_tensor(json, info);
  json.end_array();
}

void write_shapes(JsonWriter &json, const char *name, const Vector<qir::Shape> &shapes) {
  json.key(name).begin_array();
  for (const qir::Shape &shape : shapes) json.shape(shape.data(), shape.size());
  json.end_array();
}

void write_pairs(JsonWriter &json, const char *name, const Vector<qrm::KeyValue> &pairs) {
  json.key(name).begin_object();
  for (const qrm::KeyValue &pair : pairs) json.field(pair.key, pair.value);
  json.end_object();
}

template <class T>
void write_numbers(JsonWriter &json, const char *name, const Vector<T> &numbers) {
  json.key(name).begin_array();
  for (const T number : numbers) json.value(number);
  json.end_array();
}

// What the backend itself has to say of a program, where it is at hand.
String description_of(const Model &model, const qrm::ContextInfo &context, const qrm::Program &program,
                      const CallSignal &signal) {
  auto plugin = model.runtime().open_backend(context.backend, signal);
  if (!plugin.ok()) return {};
  auto text = describe_program(**plugin, model.container(), context, program);
  if (text.ok()) return std::move(*text);
  model.runtime().log().write(QR_LOG_INFO, "inspect", text.status().message());
  return {};
}

Status write_graph(JsonWriter &json, const qrm::ValidatedModel &model, std::uint32_t index) {
  const qrm::GraphInfo &graph = model.metadata().graphs[index];
  json.begin_object().field("name", graph.name).field("kept", graph.qir_segment.has_value());
  write_shapes(json, "input_dims", graph.input_dims);
  write_shapes(json, "output_dims", graph.output_dims);
  if (graph.qir_segment) {
    QR_ASSIGN_OR_RETURN(const qir::Outline kept, model.outline(index));
    json.field("nodes", kept.node_count()).key("operators").begin_object();
    for (const auto &[name, count] : kept.operators()) json.field(name, count);
    json.end_object().field("segment", *graph.qir_segment);
  }
  write_numbers(json, "segments", graph.segments);
  json.end_object();
  return {};
}

Status write_program(JsonWriter &json, const Model &from, const qrm::ContextInfo &context, const qrm::Program &program,
                     const CallSignal &signal) {
  json.begin_object();
  json.key("graphs").begin_array();
  for (const std::uint32_t graph : program.graphs)
    if (graph == qrm::kOtherNetwork) json.null();
    else json.value(graph);
  json.end_array().field("segment", program.blob_segment).field("key", program.key);
  write_numbers(json, "segments", program.segments);
  write_memory(json, program.plan);
  QR_RETURN_IF_ERROR(signal.check("qr_model_inspect"));
  if (const String text = description_of(from, context, program, signal); !text.empty()) json.key("about").raw(text);
  json.end_object();
  return {};
}

Status write_context(JsonWriter &json, const Model &from, const qrm::ContextInfo &context, const CallSignal &signal) {
  json.begin_object().field("backend", context.backend).field("backend_version", context.backend_version);
  json.field("target", context.target).field("blob_version", context.blob_version);
  write_pairs(json, "options", context.options);
  json.key("programs").begin_array();
  for (const qrm::Program &program : context.programs)
    QR_RETURN_IF_ERROR(write_program(json, from, context, program, signal));
  json.end_array().end_object();
  return {};
}

void write_segments(JsonWriter &json, const qrm::ValidatedModel &model) {
  json.key("segments").begin_array();
  for (const qrm::SegmentInfo &segment : model.segments()) {
    json.begin_object()
        .field("kind", qrm::segment_kind_name(segment.kind))
        .field("name", segment.name)
        .field("offset", segment.offset);
    json.field("size", segment.size).field("align", segment.align).field("xxh3", format("%016llx", segment.sum));
    json.end_object();
  }
  json.end_array();
}

Status write_container(JsonWriter &json, const Model &from, const CallSignal &signal) {
  const qrm::ValidatedModel &model = from.container();
  const qrm::Metadata &metadata = model.metadata();
  json.field("kind", "qrm").field("format", format("%u.%u", model.format_major(), model.format_minor()));
  json.field("producer", metadata.producer).field("source", metadata.source).field("file_bytes", model.file_bytes());
  if (metadata.graphs.empty()) {
    json.key("networks").begin_array();
    for (const qrm::SegmentInfo &segment : model.segments())
      if (segment.kind == qrm::SegmentKind::Network) json.value(segment.name);
    json.end_array();
  }
  write_tensors(json, "inputs", metadata.inputs);
  write_tensors(json, "outputs", metadata.outputs);

  json.key("graphs").begin_array();
  for (std::uint32_t i = 0; i < metadata.graphs.size(); ++i) QR_RETURN_IF_ERROR(write_graph(json, model, i));
  json.end_array();

  json.key("contexts").begin_array();
  for (const qrm::ContextInfo &context : metadata.contexts)
    QR_RETURN_IF_ERROR(write_context(json, from, context, signal));
  json.end_array();

  write_segments(json, model);
  write_pairs(json, "created_by", metadata.created_by);
  write_pairs(json, "metadata", metadata.user);
  return {};
}

}  // namespace

Result<String> Model::inspect(const CallSignal &signal) const {
  JsonWriter json;
  json.begin_object();
  if (!path_.empty()) json.field("path", path_);
  if (is_container()) {
    QR_RETURN_IF_ERROR(write_container(json, *this, signal));
  } else {
    ErrorCollector errors;
    qr_plugin_string facts = {};
    QR_RETURN_IF_ERROR(signal.check("qr_model_inspect"));
    const ProcessLock lock(prepared_mutex_, signal);
    QR_RETURN_IF_ERROR(lock.status("the parts of the ONNX model"));
    QR_RETURN_IF_ERROR(errors.status(api_->inspect(prepared_, &facts, errors.sink()), "inspect"));
    json.field("kind", about_.empty() ? "onnx" : "context").field("file_bytes", file_->bytes().size);
    if (!about_.empty()) json.key("about").raw({reinterpret_cast<const char *>(about_.data()), about_.size()});
    write_tensors(json, "inputs", inputs_);
    write_tensors(json, "outputs", outputs_);
    json.key("onnx").raw(text_of(facts));
  }
  if (const auto state = find_state("auto", inputs(), outputs()); state.ok() && !state.value().empty())
    write_pairs(json.key("state"), state.value(), inputs(), outputs());
  return json.end_object().take();
}

}  // namespace quarry
