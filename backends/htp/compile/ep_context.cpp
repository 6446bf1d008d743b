// SPDX-License-Identifier: Apache-2.0
// ONNX's ModelProto, as far as a model of an EPContext node needs it, written field by field.
#include "backends/htp/compile/ep_context.h"

#include "quarry/version.h"

namespace quarry::htp {

namespace {

constexpr std::int64_t kIrVersion = 9, kOpset = 21;  // 16-bit QuantizeLinear

class Message {
 public:
  Message &number(std::uint32_t field, std::uint64_t value) {
    varint(std::uint64_t{field} << 3);
    varint(value);
    return *this;
  }
  Message &bytes(std::uint32_t field, const void *data, std::size_t size) {
    varint((std::uint64_t{field} << 3) | 2);
    varint(size);
    const auto *const from = static_cast<const std::uint8_t *>(data);
    if (size > 0) out_.insert(out_.end(), from, from + size);
    return *this;
  }
  Message &text(std::uint32_t field, std::string_view value) { return bytes(field, value.data(), value.size()); }
  Message &message(std::uint32_t field, const Message &value) {
    return bytes(field, value.out_.data(), value.out_.size());
  }
  Vector<std::uint8_t> take() { return std::move(out_); }

 private:
  void varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) out_.push_back(static_cast<std::uint8_t>(value & 127) | 128);
    out_.push_back(static_cast<std::uint8_t>(value));
  }
  Vector<std::uint8_t> out_;
};

// AttributeProto: name 1, i 3, s 4, type 20 (INT 2, STRING 3).
Message attribute(std::string_view name, std::string_view value) {
  return std::move(Message().text(1, name).text(4, value).number(20, 3));
}
Message attribute(std::string_view name, std::uint64_t value) {
  return std::move(Message().text(1, name).number(3, value).number(20, 2));
}

// ValueInfoProto: name 1, type 2 (tensor_type 1: elem_type 1, shape 2: dim 1: dim_value 1).
Message value_info(const BlobTensor &tensor, std::string_view name, DType dtype) {
  Message shape;
  for (const std::int64_t extent : tensor.shape)
    shape.message(1, Message().number(1, static_cast<std::uint64_t>(extent)));
  const Message type = std::move(Message().number(1, static_cast<std::uint64_t>(dtype)).message(2, shape));
  return std::move(Message().text(1, name).message(2, Message().message(1, type)));
}

// TensorProto: data_type 2, name 8, raw_data 9; without dims: a scalar.
Message scalar(std::string_view name, DType dtype, const void *data) {
  return std::move(
      Message().number(2, static_cast<std::uint64_t>(dtype)).text(8, name).bytes(9, data, dtype_bits(dtype) / 8));
}

// TensorProto: dims 1.
Message constant(const BlobTensor &tensor) {
  Message made;
  for (const std::int64_t extent : tensor.shape) made.number(1, static_cast<std::uint64_t>(extent));
  return std::move(made.number(2, static_cast<std::uint64_t>(tensor.dtype))
                       .text(8, tensor.name)
                       .bytes(9, tensor.constant.data(), tensor.constant.size()));
}

class ModelWriter {
 public:
  // Names of the model's own inputs and outputs: no value between may have them.
  Status take_names(const BlobGraph &graph) {
    for (const BlobTensor &tensor : graph.inputs) taken_.emplace(tensor.name, true);
    for (const BlobTensor &tensor : graph.outputs)
      if (!taken_.emplace(tensor.name, true).second)
        return Status::error(ErrorId::backend_limit,
                             format("EPContext: output %s: found an input of that name, expected one of its own: an "
                                    "ONNX model gives no value twice",
                                    printable(tensor.name)),
                             "write a .qrm, or leave the output out");
    return {};
  }
  // The name by which the EPContext node knows the tensor; empty: it has none, as the device neither reads nor makes
  // it.
  Result<String> border(const BlobTensor &tensor, bool is_output) {
    if (tensor.storage == BlobStorage::Staged)
      return Status::error(
          ErrorId::backend_limit,
          format("EPContext: %s %s: found one that the device does not %s, expected inputs and outputs of its own",
                 is_output ? "output" : "input", printable(tensor.name), is_output ? "compute" : "read"),
          "write a .qrm");
    if (is_pairs(tensor))
      return Status::error(ErrorId::backend_limit,
                           format("EPContext: %s %s: found 64-bit integers that the device moves as pairs, expected "
                                  "such as an ONNX model has a Cast for",
                                  is_output ? "output" : "input", printable(tensor.name)),
                           "compile with htp.narrow_moved_integers=1, or write a .qrm");
    if (tensor.storage != BlobStorage::Device) {
      graph_.message(is_output ? 12 : 11, value_info(tensor, tensor.name, tensor.dtype));
      if (is_output) graph_.message(5, constant(tensor));
      return String();
    }
    graph_.message(is_output ? 12 : 11, value_info(tensor, tensor.name, tensor.dtype));
    // The host narrows 64-bit integers, gives f32 for other reals, and quantises.
    const bool is_real = tensor.device_dtype == qnn::DataType::F32 && tensor.dtype != DType::F32;
    const DType narrow = tensor.device_dtype == qnn::DataType::I32 && tensor.dtype == DType::I64   ? DType::I32
                         : tensor.device_dtype == qnn::DataType::U32 && tensor.dtype == DType::U64 ? DType::U32
                         : is_real                                                                 ? DType::F32
                                                                                                   : DType::Unknown;
    if (tensor.scale == 0 && narrow == DType::Unknown && tensor.device_name == tensor.name) return String(tensor.name);
    const bool is_taken = !taken_.emplace(tensor.device_name, true).second;
    String inner = tensor.device_name;
    if (is_taken) inner = tensor.name + "_stored";
    while (is_taken && !taken_.emplace(inner, true).second) inner += "_";
    if (is_taken) overrides_ += inner + "=" + tensor.device_name + ";";
    // Who reads the model may take out an Identity, and the node then has the model's name.
    else if (tensor.scale == 0 && narrow == DType::Unknown) overrides_ += tensor.name + "=" + tensor.device_name + ";";
    const String &from = is_output ? inner : tensor.name, &to = is_output ? tensor.name : inner;
    // The node's own types are not inferred: value_info says them.
    const DType dtype = tensor.scale != 0          ? plain_type(tensor.device_dtype)
                        : narrow != DType::Unknown ? narrow
                                                   : tensor.dtype;
    graph_.message(13, value_info(tensor, inner, dtype));
    if (narrow != DType::Unknown) {
      Message made;
      made.text(1, from).text(2, to).text(3, to + "_convert").text(4, "Cast");
      node(is_output,
           std::move(made.message(5, attribute("to", static_cast<std::uint64_t>(is_output ? tensor.dtype : narrow)))));
    } else if (tensor.scale == 0) {
      node(is_output, Message().text(1, from).text(2, to).text(3, to + "_identity").text(4, "Identity"));
    } else {
      const String scale = tensor.name + "_scale", zero = tensor.name + "_zero_point";
      const std::int32_t zero_point = tensor.zero_point;  // its low bytes are those of the stored type
      graph_.message(5, scalar(scale, DType::F32, &tensor.scale)).message(5, scalar(zero, dtype, &zero_point));
      Message made;
      made.text(1, from).text(1, scale).text(1, zero).text(2, to).text(3, to + "_convert");
      node(is_output, std::move(made.text(4, is_output ? "DequantizeLinear" : "QuantizeLinear")));
    }
    return inner;
  }
  // One that is the binary's own, under a name of the model's.
  void plain_border(const BlobTensor &tensor, bool is_output) {
    graph_.message(is_output ? 12 : 11, value_info(tensor, tensor.name, tensor.dtype));
    if (tensor.device_name != tensor.name) overrides_ += tensor.name + "=" + tensor.device_name + ";";
  }
  // The node for the borders since the last one. NodeProto: input 1, output 2, name 3, op_type 4, attribute 5,
  // domain 7.
  void context(const Vector<String> &inputs, const Vector<String> &outputs, const EpContext &from,
               const String &graph) {
    Message made;
    for (const String &name : inputs) made.text(1, name);
    for (const String &name : outputs) made.text(2, name);
    made.text(3, String(from.name_prefix) + graph).text(4, "EPContext").text(7, "com.microsoft");
    made.message(5, attribute("main_context", 1)).message(5, attribute("embed_mode", from.file.empty() ? 1u : 0u));
    const auto *const bytes = reinterpret_cast<const char *>(from.binary.data());
    made.message(
        5, attribute("ep_cache_context", from.file.empty() ? std::string_view(bytes, from.binary.size()) : from.file));
    made.message(5, attribute("ep_sdk_version", from.build_id)).message(5, attribute("partition_name", graph));
    made.message(5, attribute("source", from.source));
    // ONNX Runtime's way to say by which name the binary knows a tensor of the node.
    if (!overrides_.empty()) made.message(5, attribute("io_name_overrides", overrides_));
    overrides_.clear();
    contexts_.push_back(std::move(made));
  }
  Vector<std::uint8_t> finish(std::string_view name, std::string_view producer, std::string_view version) {
    for (const auto *list : {&before_, &contexts_, &after_})
      for (const Message &one : *list) graph_.message(1, one);
    graph_.text(2, name);
    Message model;  // ir_version 1, producer_name 2, producer_version 3, graph 7, opset_import 8 (domain 1, version 2)
    model.number(1, kIrVersion).text(2, producer).text(3, version).message(7, graph_);
    model.message(8, Message().text(1, "").number(2, kOpset))
        .message(8, Message().text(1, "com.microsoft").number(2, 1));
    return model.take();
  }

 private:
  void node(bool is_output, Message made) { (is_output ? after_ : before_).push_back(std::move(made)); }
  Message graph_;  // GraphProto: node 1, name 2, initializer 5, input 11, output 12, value_info 13
  Vector<Message> before_, contexts_, after_;
  String overrides_;
  StringMap<bool> taken_;
};

}  // namespace

Result<Vector<std::uint8_t>> ep_context_model(const Blob &blob, std::size_t index, const EpContext &context) {
  const BlobGraph &graph = blob.graphs[index];
  if (blob.binary_bytes == 0 || !graph.on_device)
    return Status::error(ErrorId::backend_limit,
                         format("EPContext: graph %s: found no work for the device, or that of several binaries, "
                                "expected one graph of one binary",
                                printable(graph.name)),
                         "write a .qrm");
  ModelWriter writer;
  QR_RETURN_IF_ERROR(writer.take_names(graph));
  const auto borders = [&](const Vector<BlobTensor> &tensors, bool is_output) -> Result<Vector<String>> {
    Vector<String> names;
    for (const BlobTensor &tensor : tensors) {
      QR_ASSIGN_OR_RETURN(String name, writer.border(tensor, is_output));
      if (!name.empty()) names.push_back(std::move(name));
    }
    return names;
  };
  QR_ASSIGN_OR_RETURN(const Vector<String> inputs, borders(graph.inputs, false));
  QR_ASSIGN_OR_RETURN(const Vector<String> outputs, borders(graph.outputs, true));
  writer.context(inputs, outputs, context, graph.name);
  return writer.finish(graph.name, "quarry", format("%d.%d.%d", QR_VERSION_MAJOR, QR_VERSION_MINOR, QR_VERSION_PATCH));
}

Vector<std::uint8_t> ep_context_model(const Vector<BlobGraph> &graphs, const EpContext &context) {
  ModelWriter writer;
  for (const BlobGraph &graph : graphs) {
    const auto borders = [&](const Vector<BlobTensor> &tensors, bool is_output) {
      Vector<String> names;
      for (const BlobTensor &tensor : tensors) {
        writer.plain_border(tensor, is_output);
        names.push_back(tensor.name);
      }
      return names;
    };
    const Vector<String> inputs = borders(graph.inputs, false), outputs = borders(graph.outputs, true);
    writer.context(inputs, outputs, context, graph.name);
  }
  return writer.finish("contexts", "QNN", context.build_id);
}

Status write_ep_contexts(const Blob &blob, std::span<const std::uint8_t> binary, std::string_view name,
                         bool is_embedded, std::string_view name_prefix, FileSink &files) {
  constexpr std::string_view kEnding = ".onnx";
  const String stem(name.substr(0, name.ends_with(kEnding) ? name.size() - kEnding.size() : name.size()));
  const String binary_name = stem + "_htp.bin";
  EpContext context{binary, {}, name_prefix, blob.build_id, "QNNExecutionProvider"};
  if (!is_embedded) context.file = binary_name;
  Vector<Vector<std::uint8_t>> models;  // all of them before one is written
  for (std::size_t i = 0; i < blob.graphs.size(); ++i) {
    QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> model, ep_context_model(blob, i, context));
    models.push_back(std::move(model));
  }
  std::size_t more = models.size() + (is_embedded ? 0 : 1);
  const auto add = [&](std::string_view file, std::span<const std::uint8_t> bytes) -> Status {
    QR_RETURN_IF_ERROR(files.begin(file, bytes.size(), --more));
    return files.write(bytes.data(), bytes.size());
  };
  if (!is_embedded) QR_RETURN_IF_ERROR(add(binary_name, binary));
  for (std::size_t i = 0; i < models.size(); ++i)
    QR_RETURN_IF_ERROR(add(models.size() == 1 ? String(name) : stem + format("_%zu.onnx", i + 1), models[i]));
  return {};
}

}  // namespace quarry::htp
