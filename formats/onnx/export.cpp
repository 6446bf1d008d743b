// SPDX-License-Identifier: Apache-2.0
// The normal form is ONNX at its newest opset but for closed bodies and a few inputs that were attributes. A model gets
// the lowest opset from kLowestOpset on that has all it uses: fewer programs read newer ones.
#include "formats/onnx/export.h"

#include <algorithm>
#include <charconv>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <optional>

#include "base/stop.h"
#include "formats/onnx/proto.h"
#include "formats/onnx/reasons.h"
#include "graph/edit/graph_edit.h"
#include "graph/ops/op_spec.h"

namespace quarry::onnx_import {
namespace {

using qir::at;
using qir::Op;

constexpr std::int64_t kLowestOpset = 21;  // of all forms that neither a row of ops.inc nor one below says more of

// Attributes that an operator got later; with its default's value such a one is left out of older models.
constexpr struct {
  Op op;
  std::string_view name;
  std::int64_t opset;
} kNewAttributes[] = {
    {Op::Attention, "left_window_size", 25},
    {Op::Attention, "right_window_size", 25},
    {Op::Cast, "round_mode", 24},
    {Op::CastLike, "round_mode", 24},
    {Op::QuantizeLinear, "precision", 23},
    {Op::DequantizeLinear, "output_dtype", 23},
    {Op::Range, "stash_type", 27},
    {Op::SpaceToDepth, "mode", 28},
};

// Types that an operator took later than the opset below says of them all.
constexpr struct {
  Op op;
  std::string_view types;
  std::int64_t opset;
} kNewTypes[] = {
    {Op::BitShift, "i8,i16,i32,i64", 28},
    {Op::Celu, "f16,bf16,f64", 28},
    {Op::Compress, "bf16", 28},
    {Op::Dropout, "f8", 22},
    {Op::Einsum, "bf16", 28},
    {Op::OneHot, "bf16", 28},
    {Op::Range, "f16,bf16", 27},
    {Op::ReverseSequence, "bf16", 28},
    {Op::TopK, "bf16", 24},
    {Op::Unique, "bf16", 28},
};

std::int64_t opset_of(DType dtype) {
  switch (dtype) {
    case DType::BF16: return 22;  // as an operand of most operators
    case DType::F4E2M1: return 23;
    case DType::F8E8M0: return 24;
    case DType::U2:
    case DType::I2: return 25;
    default: return kLowestOpset;
  }
}

bool has_default_value(const qir::Node &node, const qir::Attribute &attribute) {
  qir::AttributeSpec spec;
  for (qir::AttributeSpecs walk(qir::op_row(node.op).attributes); walk.next(&spec);) {
    if (spec.name != attribute.name || !spec.has_default) continue;
    if (attribute.kind == qir::Attribute::Kind::String) return attribute.s == spec.fallback;
    std::int64_t value = 0;
    std::from_chars(spec.fallback.data(), spec.fallback.data() + spec.fallback.size(), value);
    return attribute.kind == qir::Attribute::Kind::Int && attribute.i == value;
  }
  return false;
}

std::int64_t opset_of(const qir::Node &node, const qir::Attribute &attribute) {
  for (const auto &row : kNewAttributes)
    if (row.op == node.op && row.name == attribute.name) return row.opset;
  return kLowestOpset;
}

bool has_operand_of(const qir::Graph &graph, const qir::Node &node, std::string_view types) {
  const std::uint32_t mask = qir::dtype_mask(types);
  const auto is_one = [&](std::int32_t id) {
    return id != qir::kAbsent && (qir::dtype_bit(at(graph, id).dtype) & mask) != 0;
  };
  return std::ranges::any_of(node.inputs, is_one) || std::ranges::any_of(node.outputs, is_one);
}

// What was allowed, or put right, later and is no matter of a type or an attribute by itself.
std::int64_t opset_of_form(const qir::Graph &graph, const qir::Node &node) {
  switch (node.op) {
    case Op::Attention: return node.inputs[6] != qir::kAbsent ? 24 : kLowestOpset;
    case Op::AveragePool:
    case Op::MaxPool: return node.get_int("ceil_mode", 0) != 0 ? 22 : kLowestOpset;  // no window that is padding alone
    case Op::Mod: return node.get_int("fmod", 0) == 0 && has_operand_of(graph, node, "float") ? 28 : kLowestOpset;
    default: return kLowestOpset;
  }
}

std::int64_t opset_of(const qir::Graph &graph) {
  std::int64_t opset = kLowestOpset;
  for (const qir::Tensor &tensor : graph.tensors) opset = std::max(opset, opset_of(tensor.dtype));
  for (const qir::Node &node : graph.nodes) {
    opset = std::max({opset, std::int64_t{qir::op_row(node.op).opset}, opset_of_form(graph, node)});
    for (const auto &row : kNewTypes)
      if (row.op == node.op && has_operand_of(graph, node, row.types)) opset = std::max(opset, row.opset);
    for (const qir::Attribute &attribute : node.attributes)
      if (!has_default_value(node, attribute)) opset = std::max(opset, opset_of(node, attribute));
    for (const qir::Graph &body : node.subgraphs) opset = std::max(opset, opset_of(body));
  }
  return opset;
}

// Of the IR version that came with an opset.
std::int64_t ir_version(std::int64_t opset) { return opset <= 22 ? 10 : opset == 23 ? 11 : opset <= 25 ? 12 : 13; }

std::string text(const String &from) { return std::string(from.data(), from.size()); }

void write_type(const qir::Tensor &from, const String &name, pb::TensorProto *out) {
  out->set_name(text(name));
  out->set_data_type(static_cast<std::int32_t>(from.dtype));
  for (const std::int64_t extent : from.shape) out->add_dims(extent);
}

void write_constant(const qir::Tensor &from, const String &name, pb::TensorProto *out) {
  write_type(from, name, out);
  out->set_raw_data(from.data.data, static_cast<std::size_t>(from.data.size));
}

// Gives constants their places in the file beside the model; one that nodes share under several names has one place.
class ExternalWriter {
 public:
  explicit ExternalWriter(ExternalConstants &to) : to_(to) {}

  // Small ones stay in the model: readers that infer shapes want values of shapes and axes and do not open files.
  static bool wants(const qir::Tensor &constant) { return constant.data.size >= 1024; }

  void write(const qir::Tensor &from, const String &name, pb::TensorProto *out) {
    write_type(from, name, out);
    out->set_data_location(pb::TensorProto::EXTERNAL);
    add(out, "location", to_.location);
    add(out, "offset", std::to_string(place_of(from.data)));
    add(out, "length", std::to_string(from.data.size));
  }

 private:
  static void add(pb::TensorProto *out, const char *key, std::string value) {
    pb::StringStringEntryProto *entry = out->add_external_data();
    entry->set_key(key);
    entry->set_value(std::move(value));
  }

  std::uint64_t place_of(const qir::Bytes &bytes) {
    const auto [known, is_new] = places_.emplace(bytes.data, ~std::size_t{0});
    if (!is_new && to_.parts[known->second].bytes.size == bytes.size) return to_.parts[known->second].offset;
    constexpr std::uint64_t kMappedBy = 65536, kLarge = 1 << 20, kLine = 64;
    const std::uint64_t align = bytes.size >= kLarge ? kMappedBy : kLine;
    const std::uint64_t offset = (to_.size + align - 1) & ~(align - 1);
    known->second = to_.parts.size();
    to_.parts.push_back({offset, bytes});
    to_.size = offset + bytes.size;
    return offset;
  }

  ExternalConstants &to_;
  HashMap<const void *, std::size_t> places_;  // the part
};

class Writer {
 public:
  // `external`: nullptr where all constants lie in the model.
  Writer(std::int64_t opset, Reasons &reasons, ExternalWriter *external)
      : opset_(opset), reasons_(reasons), external_(external) {}

  // What it knew of names, a piece at a time: it is of no use behind `write`.
  Status forget_names() {
    constexpr std::size_t kPiece = 4096;
    for (StringSet *names : {&tensors_, &nodes_, &graphs_})
      for (std::size_t count = 0; !names->empty(); ++count) {
        if (count % kPiece == 0) QR_RETURN_IF_ERROR(stop_status("writing the graph as ONNX"));
        names->erase(names->begin());
      }
    return {};
  }

  // `names`: of the graph's tensors; empty where the tensor's own is to be used if it is free.
  void write(const qir::Graph &graph, Vector<String> names, pb::GraphProto *out, bool is_body) {
    for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
      if (stop_asked()) return;
      if (names[i].empty()) names[i] = fresh(tensors_, graph.tensors[i].name);
    }
    Vector<bool> listed(graph.tensors.size());  // as inputs, outputs and constants are
    for (std::size_t i = 0; i < graph.tensors.size(); ++i)
      if (graph.tensors[i].is_constant) {
        if (external_ && ExternalWriter::wants(graph.tensors[i]))
          external_->write(graph.tensors[i], names[i], out->add_initializer());
        else write_constant(graph.tensors[i], names[i], out->add_initializer());
        listed[i] = true;
      }
    for (const std::int32_t id : graph.inputs) listed[index_of(id)] = true;
    if (!is_body)
      for (const std::int32_t id : graph.inputs) declare(graph, id, names, out->add_input());
    for (const qir::Node &node : graph.nodes) {
      if (stop_asked()) return;  // who called asks too
      write(graph, node, names, out);
    }
    Vector<bool> given(graph.tensors.size());
    for (const std::int32_t id : graph.outputs) {
      // A body gives what its own nodes make, each once.
      if (is_body && (listed[index_of(id)] || given[index_of(id)])) {
        pb::NodeProto *copy = out->add_node();
        const String name = fresh(tensors_, names[index_of(id)]);
        copy->set_op_type("Identity");
        copy->set_name(text(fresh(nodes_, name)));
        copy->add_input(text(names[index_of(id)]));
        copy->add_output(text(name));
        pb::ValueInfoProto *value = out->add_output();
        declare(graph, id, names, value);
        value->set_name(text(name));
        continue;
      }
      declare(graph, id, names, out->add_output());
      given[index_of(id)] = true;
    }
    for (std::size_t i = 0; i < graph.tensors.size() && !stop_asked(); ++i)
      if (!listed[i] && !given[i] && graph.tensors[i].dtype != DType::Unknown)
        declare(graph, static_cast<std::int32_t>(i), names, out->add_value_info());
  }

  Vector<std::pair<String, std::int64_t>> domains;  // beside ONNX's own

 private:
  // Names are unique over all bodies: in ONNX a body sees the names around it.
  String fresh(StringSet &taken, const String &wanted) {
    String name = wanted;
    for (int i = 1; !taken.insert(name).second; ++i) name = format("%s_%d", wanted, i);
    return name;
  }

  static void declare(const qir::Graph &graph, std::int32_t id, const Vector<String> &names, pb::ValueInfoProto *out) {
    const qir::Tensor &tensor = at(graph, id);
    out->set_name(text(names[index_of(id)]));
    pb::TypeProto::Tensor *type = out->mutable_type()->mutable_tensor_type();
    type->set_elem_type(static_cast<std::int32_t>(tensor.dtype));
    pb::TensorShapeProto *shape = type->mutable_shape();
    for (const std::int64_t extent : tensor.shape) {
      pb::TensorShapeProto::Dimension *dim = shape->add_dim();
      if (extent != qir::kUnknownDim) dim->set_dim_value(extent);
    }
  }

  void refuse(const qir::Node &node, const String &why) {
    reasons_.add(ErrorId::onnx_op, format("node '%s' (%s)", printable(node.name), qir::op_text(node)),
                 "ONNX has no form for it: " + why);
  }

  void use_domain(const String &domain, std::int64_t version) {
    for (const auto &[name, known] : domains)
      if (name == domain) return;
    domains.push_back({domain, version});
  }

  void write(const qir::Graph &graph, const qir::Node &node, const Vector<String> &names, pb::GraphProto *out) {
    pb::NodeProto *made = out->add_node();
    made->set_name(text(fresh(nodes_, node.name)));
    const qir::OpRow &row = qir::op_row(node.op);
    if (node.custom) {
      made->set_op_type(text(node.custom->type));
      made->set_domain(text(node.custom->domain));
      use_domain(node.custom->domain, node.custom->version);
    } else {
      made->set_op_type(row.name);
      if (*row.domain) made->set_domain(row.domain), use_domain(String(row.domain), 1);
    }
    if (node.op == Op::ConstantOfShape) fill(graph, node, made);
    const std::size_t inputs = node.op == Op::If                ? 1
                               : node.op == Op::Loop            ? 2 + carried(node)
                               : node.op == Op::Scan            ? states(node) + scanned(node)
                               : node.op == Op::ConstantOfShape ? 1
                                                                : node.inputs.size();
    for (std::size_t i = 0; i < inputs && i < node.inputs.size(); ++i)
      made->add_input(node.inputs[i] == qir::kAbsent ? std::string() : text(names[index_of(node.inputs[i])]));
    for (const std::int32_t id : node.outputs)
      made->add_output(id == qir::kAbsent ? std::string() : text(names[index_of(id)]));
    for (const qir::Attribute &attribute : node.attributes) {
      const bool ours = (node.op == Op::Loop && attribute.name == "carried") ||
                        (node.op == Op::Scan && attribute.name == "states") ||
                        (node.op == Op::LSTM && attribute.name == "dynamic_quantize");
      if (!ours && (opset_of(node, attribute) <= opset_ || !has_default_value(node, attribute)))
        write(attribute, made->add_attribute());
    }
    // ONNX's own checker does not know this attribute's default.
    if (node.op == Op::MeanVarianceNormalization && !node.get_ints("axes")) {
      qir::Node with;
      with.set("axes", Vector<std::int64_t>{0, 2, 3});
      write(with.attributes[0], made->add_attribute());
    }
    for (std::size_t i = 0; i < node.subgraphs.size(); ++i) body(node, i, names, inputs, made);
  }

  static std::size_t carried(const qir::Node &node) { return node.get_count("carried"); }
  static std::size_t states(const qir::Node &node) { return node.get_count("states"); }
  static std::size_t scanned(const qir::Node &node) { return node.get_count("num_scan_inputs"); }

  // ConstantOfShape's value is an attribute in ONNX.
  void fill(const qir::Graph &graph, const qir::Node &node, pb::NodeProto *made) {
    const std::int32_t value = node.inputs[1];
    if (value == qir::kAbsent) return;
    if (!at(graph, value).is_constant) return refuse(node, "the value that it fills with is not constant");
    pb::AttributeProto *attribute = made->add_attribute();
    attribute->set_name("value");
    attribute->set_type(pb::AttributeProto::TENSOR);
    write_constant(at(graph, value), String(), attribute->mutable_t());
    attribute->mutable_t()->clear_dims();
    attribute->mutable_t()->add_dims(1);
  }

  // What a body takes of its surroundings goes by name.
  void body(const qir::Node &node, std::size_t index, const Vector<String> &names, std::size_t own,
            pb::NodeProto *made) {
    const qir::Graph &graph = node.subgraphs[index];
    // If: [condition, captures...] and a body of the captures; Loop and Scan: the body begins with what it gets anew.
    const std::size_t formal = node.op == Op::If ? 0 : own;
    const std::size_t first_capture = node.op == Op::If ? 1 : own;
    Vector<String> inner(graph.tensors.size());
    pb::AttributeProto *attribute = made->add_attribute();
    attribute->set_name(node.op != Op::If ? "body" : index == 0 ? "then_branch" : "else_branch");
    attribute->set_type(pb::AttributeProto::GRAPH);
    pb::GraphProto *out = attribute->mutable_g();
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      const std::size_t id = index_of(graph.inputs[i]);
      if (i < formal) {
        inner[id] = fresh(tensors_, graph.tensors[id].name);
        pb::ValueInfoProto *value = out->add_input();
        declare(graph, graph.inputs[i], inner, value);
      } else if (const std::size_t from = first_capture + i - formal;
                 from < node.inputs.size() && node.inputs[from] != qir::kAbsent) {
        inner[id] = names[index_of(node.inputs[from])];
      }
    }
    out->set_name(text(fresh(graphs_, graph.name.empty() ? node.name : graph.name)));
    write(graph, std::move(inner), out, true);
  }

  void write(const qir::Attribute &from, pb::AttributeProto *out) {
    out->set_name(text(from.name));
    switch (from.kind) {
      case qir::Attribute::Kind::Int:
        out->set_type(pb::AttributeProto::INT);
        out->set_i(from.i);
        break;
      case qir::Attribute::Kind::Float:
        out->set_type(pb::AttributeProto::FLOAT);
        out->set_f(from.f);
        break;
      case qir::Attribute::Kind::String:
        out->set_type(pb::AttributeProto::STRING);
        out->set_s(text(from.s));
        break;
      case qir::Attribute::Kind::Ints:
        out->set_type(pb::AttributeProto::INTS);
        for (const std::int64_t value : from.ints) out->add_ints(value);
        break;
      case qir::Attribute::Kind::Floats:
        out->set_type(pb::AttributeProto::FLOATS);
        for (const float value : from.floats) out->add_floats(value);
        break;
      case qir::Attribute::Kind::Strings:
        out->set_type(pb::AttributeProto::STRINGS);
        for (const String &value : from.strings) out->add_strings(text(value));
        break;
      case qir::Attribute::Kind::Tensor:
        out->set_type(pb::AttributeProto::TENSOR);
        if (!from.tensors.empty()) write_constant(from.tensors[0], from.tensors[0].name, out->mutable_t());
        break;
      case qir::Attribute::Kind::Tensors:
        out->set_type(pb::AttributeProto::TENSORS);
        for (const qir::Tensor &tensor : from.tensors) write_constant(tensor, tensor.name, out->add_tensors());
        break;
    }
  }

  std::int64_t opset_;
  Reasons &reasons_;
  ExternalWriter *external_;
  StringSet tensors_, nodes_, graphs_;
};

constexpr std::uint64_t kMostBytes =
    (std::uint64_t{1} << 31) - (std::uint64_t{1} << 24);  // protobuf's messages end there

std::uint64_t constant_bytes(const qir::Graph &graph) noexcept {
  std::uint64_t bytes = 0;
  for (const qir::Tensor &tensor : graph.tensors)
    if (tensor.is_constant) bytes += tensor.data.size;
  for (const qir::Node &node : graph.nodes)
    for (const qir::Graph &body : node.subgraphs) bytes += constant_bytes(body);
  return bytes;
}

// In pieces, between which it may be stopped.
class PiecesOut final : public google::protobuf::io::ZeroCopyOutputStream {
 public:
  explicit PiecesOut(std::string *to) : all_(to) {}
  bool Next(void **data, int *size) override {
    if (stop_asked() || !all_.Next(data, size)) return false;
    if (*size <= kPiece) return true;
    all_.BackUp(*size - kPiece);
    *size = kPiece;
    return true;
  }
  void BackUp(int count) override { all_.BackUp(count); }
  std::int64_t ByteCount() const override { return all_.ByteCount(); }

 private:
  static constexpr int kPiece = 1 << 18;
  google::protobuf::io::StringOutputStream all_;
};

// What is long goes a piece at a time: to end all of it at once is as long as to write it.
template <class List>
Status clear_in_pieces(List *list) {
  constexpr int kPiece = 4096;
  while (!list->empty()) {
    QR_RETURN_IF_ERROR(stop_status("writing the graph as ONNX"));
    const int count = std::min(kPiece, list->size());
    list->DeleteSubrange(list->size() - count, count);
  }
  return {};
}

}  // namespace

bool needs_external_data(const qir::Graph &graph) noexcept { return constant_bytes(graph) > kMostBytes; }

Result<std::string> export_graph(const qir::Graph &graph, ExternalConstants *external) {
  const bool beside = external && !external->location.empty();
  if (const std::uint64_t bytes = constant_bytes(graph); !beside && bytes > kMostBytes)
    return Status::error(ErrorId::qir_limit,
                         format("the graph as ONNX: found %llu bytes of constants, expected at most %llu: an ONNX file "
                                "has no room for more",
                                bytes, kMostBytes),
                         "export with the constants in a file beside the model: a name that ends in .onnx.data");
  pb::ModelProto model;
  const std::int64_t opset = opset_of(graph);
  Reasons reasons;
  std::optional<ExternalWriter> externals;
  if (beside) externals.emplace(*external);
  Writer writer(opset, reasons, externals ? &*externals : nullptr);
  writer.write(graph, Vector<String>(graph.tensors.size()), model.mutable_graph(), false);
  QR_RETURN_IF_ERROR(stop_status("writing the graph as ONNX"));
  if (!reasons.empty()) return reasons.status();
  model.mutable_graph()->set_name(graph.name.empty() ? "main" : text(graph.name));
  model.set_ir_version(ir_version(opset));
  model.set_producer_name("quarry");
  pb::OperatorSetIdProto *own = model.add_opset_import();
  own->set_domain("");
  own->set_version(opset);
  for (const auto &[domain, version] : writer.domains) {
    pb::OperatorSetIdProto *import = model.add_opset_import();
    import->set_domain(text(domain));
    import->set_version(version);
  }
  std::string bytes;
  bytes.reserve(model.ByteSizeLong());
  QR_RETURN_IF_ERROR(stop_status("writing the graph as ONNX"));
  PiecesOut pieces(&bytes);
  const bool is_written = model.SerializeToZeroCopyStream(&pieces);
  QR_RETURN_IF_ERROR(stop_status("writing the graph as ONNX"));
  if (!is_written) return Status::error(ErrorId::internal, "the graph as ONNX: protobuf cannot write it");
  QR_RETURN_IF_ERROR(clear_in_pieces(model.mutable_graph()->mutable_node()));
  QR_RETURN_IF_ERROR(clear_in_pieces(model.mutable_graph()->mutable_value_info()));
  QR_RETURN_IF_ERROR(writer.forget_names());
  return bytes;
}

}  // namespace quarry::onnx_import
