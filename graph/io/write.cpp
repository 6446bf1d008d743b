// SPDX-License-Identifier: Apache-2.0
#include <cinttypes>

#include "base/stop.h"
#include "formats/flatbuffer.h"
#include "graph/graph.h"
#include "graph/io/write.h"
#include "graph/limits.h"
#include "qir_generated.h"

namespace quarry::qir {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;
template <class T>
using Offsets = Vector<Offset<T>>;

class GraphWriter {
 public:
  GraphWriter(FlatBufferBuilder &builder, ConstantPool &pool, std::uint32_t segment, std::span<const Bytes> kept)
      : builder_(builder), pool_(pool), segment_(segment), kept_(kept) {}

  Offset<fb::Model> model(const Graph &root) {
    const Offset<fb::Graph> graph_offset = graph(root);
    return fb::CreateModel(builder_, static_cast<std::uint32_t>(kNormalOpset),
                           flat::optional_vector(builder_, operators_), graph_offset);
  }
  // Once the buffer is over its limit nothing more is added (flatbuffers would assert at 2 GiB); write_graph reports
  // it.
  bool too_big() const { return builder_.GetSize() > kMaxGraphBytes; }
  bool ended() const { return too_big() || stop_asked(); }

 private:
  static constexpr std::uint32_t kNoIndex = UINT32_MAX;

  Offset<fb::Graph> graph(const Graph &from) {
    Offsets<fb::Tensor> tensors;
    tensors.reserve(from.tensors.size());
    for (const Tensor &t : from.tensors) {
      if (ended()) break;
      tensors.push_back(tensor(t));
    }
    Offsets<fb::Node> nodes;
    nodes.reserve(from.nodes.size());
    for (const Node &n : from.nodes) {
      if (ended()) break;
      nodes.push_back(node(n));
    }
    const auto name = flat::optional_text(builder_, from.name);
    const auto all_tensors = flat::optional_vector(builder_, tensors);
    const auto all_nodes = flat::optional_vector(builder_, nodes);
    const auto inputs = flat::optional_vector(builder_, from.inputs);
    const auto outputs = flat::optional_vector(builder_, from.outputs);
    Offsets<flatbuffers::String> names;
    Vector<std::int64_t> numbers;
    for (const Dimension &d : from.dimensions) {
      names.push_back(flat::text(builder_, d.name));
      numbers.insert(numbers.end(), {d.low, d.high, d.added, static_cast<std::int64_t>(d.places.size()),
                                     static_cast<std::int64_t>(d.terms.size())});
      for (const Dimension::Place &place : d.places) numbers.insert(numbers.end(), {place.input, place.axis});
      for (const Dimension::Term &term : d.terms) numbers.insert(numbers.end(), {term.dimension, term.factor});
    }
    const auto dimension_names = flat::optional_vector(builder_, names);
    return fb::CreateGraph(builder_, name, all_tensors, all_nodes, inputs, outputs, dimension_names,
                           flat::optional_vector(builder_, numbers));
  }

  Offset<fb::Tensor> tensor(const Tensor &t) {
    Offset<fb::Quantization> quant;
    if (t.quant) {
      const auto scales = flat::optional_vector(builder_, t.quant->scales);
      const auto zero_points = flat::optional_vector(builder_, t.quant->zero_points);
      quant = fb::CreateQuantization(builder_, scales, zero_points, t.quant->axis, t.quant->block_size);
    }
    Offset<fb::Constant> constant;
    if (t.is_constant) constant = this->constant(t.data);
    const auto name = flat::text(builder_, t.name);
    return fb::CreateTensor(builder_, name, static_cast<std::uint8_t>(t.dtype),
                            flat::optional_vector(builder_, t.shape), quant, constant);
  }

  Offset<fb::Constant> constant(const Bytes &data) {
    const auto at = reinterpret_cast<std::uintptr_t>(data.data);
    for (std::uint32_t i = 0; i < kept_.size() && data.size > 0; ++i) {
      const std::uint64_t offset = at - reinterpret_cast<std::uintptr_t>(kept_[i].data);
      if (at >= reinterpret_cast<std::uintptr_t>(kept_[i].data) && offset < kept_[i].size &&
          data.size <= kept_[i].size - offset && offset % kConstantAlign == 0)
        return fb::CreateConstant(builder_, i, offset, data.size);
    }
    return fb::CreateConstant(builder_, segment_, pool_.add(data), data.size);
  }

  Offset<fb::Node> node(const Node &n) {
    Offsets<fb::Attribute> attributes;
    for (const Attribute &a : n.attributes) {
      if (ended()) break;
      attributes.push_back(attribute(a));
    }
    Offsets<fb::Graph> subgraphs;
    for (const Graph &body : n.subgraphs) subgraphs.push_back(graph(body));
    const std::uint32_t op = n.custom ? custom_index(*n.custom) : operator_index(n.op);
    const auto name = flat::text(builder_, n.name);
    const auto inputs = flat::optional_vector(builder_, n.inputs);
    const auto outputs = flat::optional_vector(builder_, n.outputs);
    const auto all_attributes = flat::optional_vector(builder_, attributes);
    return fb::CreateNode(builder_, op, name, inputs, outputs, all_attributes,
                          flat::optional_vector(builder_, subgraphs));
  }

  Offset<fb::Attribute> attribute(const Attribute &a) {
    const auto name = flat::text(builder_, a.name);
    Offset<flatbuffers::String> s;
    Offset<flatbuffers::Vector<std::int64_t>> ints;
    Offset<flatbuffers::Vector<float>> floats;
    Offset<flatbuffers::Vector<Offset<flatbuffers::String>>> strings;
    Offset<flatbuffers::Vector<Offset<fb::Tensor>>> tensors;
    switch (a.kind) {
      case Attribute::Kind::String: s = flat::optional_text(builder_, a.s); break;
      case Attribute::Kind::Ints: ints = flat::optional_vector(builder_, a.ints); break;
      case Attribute::Kind::Floats: floats = flat::optional_vector(builder_, a.floats); break;
      case Attribute::Kind::Strings: {
        Offsets<flatbuffers::String> all;
        for (const String &each : a.strings) all.push_back(flat::text(builder_, each));
        strings = flat::optional_vector(builder_, all);
        break;
      }
      case Attribute::Kind::Tensor:
      case Attribute::Kind::Tensors: {
        Offsets<fb::Tensor> all;
        for (const Tensor &each : a.tensors) all.push_back(tensor(each));
        tensors = flat::optional_vector(builder_, all);
        break;
      }
      default: break;
    }
    fb::AttributeBuilder out(builder_);
    out.add_name(name);
    out.add_kind(static_cast<fb::AttributeKind>(static_cast<int>(a.kind) + 1));
    if (a.kind == Attribute::Kind::Int) out.add_i(a.i);
    if (a.kind == Attribute::Kind::Float) {
      builder_.ForceDefaults(true);  // -0.0 equals the default and would come back as 0.0
      out.add_f(a.f);
      builder_.ForceDefaults(false);
    }
    out.add_s(s);
    out.add_ints(ints);
    out.add_floats(floats);
    out.add_strings(strings);
    out.add_tensors(tensors);
    return out.Finish();
  }

  std::uint32_t operator_index(Op op) {
    std::uint32_t &index = operator_indices_[index_of(op)];
    if (index == kNoIndex) {
      index = static_cast<std::uint32_t>(operators_.size());
      const OpRow &row = op_row(op);
      const auto domain = flat::optional_text(builder_, row.domain);
      const auto name = flat::text(builder_, row.name);
      operators_.push_back(fb::CreateOperator(builder_, domain, name));
    }
    return index;
  }

  std::uint32_t custom_index(const CustomOp &op) {
    const String key = op.domain + '\0' + op.type + '\0' + format("%" PRId64, op.version);
    const auto [it, is_new] = custom_indices_.try_emplace(key, static_cast<std::uint32_t>(operators_.size()));
    if (is_new) {
      const auto domain = flat::text(builder_, op.domain);
      const auto name = flat::text(builder_, op.type);
      operators_.push_back(fb::CreateOperator(builder_, domain, name, op.version));
    }
    return it->second;
  }

  FlatBufferBuilder &builder_;
  ConstantPool &pool_;
  std::uint32_t segment_;
  std::span<const Bytes> kept_;
  Offsets<fb::Operator> operators_;
  Vector<std::uint32_t> operator_indices_ = Vector<std::uint32_t>(op_count(), kNoIndex);  // by Op
  StringMap<std::uint32_t> custom_indices_;
};

static_assert(static_cast<int>(fb::AttributeKind::TENSORS) == static_cast<int>(Attribute::Kind::Tensors) + 1);

}  // namespace

Result<Vector<std::uint8_t>> write_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment) {
  return write_graph(graph, pool, pool_segment, {});
}
Result<Vector<std::uint8_t>> write_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment,
                                         std::span<const Bytes> kept) {
  QR_RETURN_IF_ERROR(validate_graph(graph));  // what a reader would refuse is not written
  return write_valid_graph(graph, pool, pool_segment, kept);
}

Result<Vector<std::uint8_t>> write_valid_graph(const Graph &graph, ConstantPool &pool, std::uint32_t pool_segment,
                                               std::span<const Bytes> kept) {
  flat::BuilderMemory memory;
  FlatBufferBuilder builder(4096, &memory);
  GraphWriter writer(builder, pool, pool_segment, kept);
  const Offset<fb::Model> model = writer.model(graph);
  QR_RETURN_IF_ERROR(stop_status("writing the graph"));
  if (writer.too_big())
    return Status::errorf(ErrorId::qir_limit,
                          "graph '%s': found over %" PRIu64 " bytes without its constants, expected at most that",
                          printable(graph.name), kMaxGraphBytes);
  fb::FinishModelBuffer(builder, model);
  QR_RETURN_IF_ERROR(stop_status("writing the graph"));
  if (builder.GetSize() > kMaxGraphBytes)
    return Status::errorf(ErrorId::qir_limit,
                          "graph '%s': found %u bytes without its constants, expected at most %" PRIu64,
                          printable(graph.name), builder.GetSize(), kMaxGraphBytes);
  return Vector<std::uint8_t>(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
}

}  // namespace quarry::qir
