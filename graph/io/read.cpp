// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/stop.h"
#include "graph/graph.h"
#include "graph/io/well_formed.h"
#include "graph/limits.h"

namespace quarry::qir {
namespace {

class GraphReader {
 public:
  GraphReader(std::uint64_t qir_size, const Bytes *segments, std::uint64_t segment_count)
      : copy_(qir_size), segments_(segments), segment_count_(segment_count) {}

  // The symbolic dimensions of the whole graph, which validate_graph checks.
  Status dimensions(const fb::Graph &from, Graph &out) {
    const Vector<std::int64_t> numbers = copy_.vector(from.dimension_numbers());
    std::size_t at = 0;
    bool is_whole = true;
    const auto next = [&]() -> std::int64_t {
      return (is_whole = is_whole && at < numbers.size()) ? numbers[at++] : 0;
    };
    const auto index = [&] { return static_cast<std::uint32_t>(std::clamp<std::int64_t>(next(), 0, UINT32_MAX)); };
    for (std::uint32_t i = 0, n = copy_.count(from.dimension_names()); i < n && is_whole; ++i) {
      Dimension &made = out.dimensions.emplace_back();
      made.name = copy_.text(from.dimension_names()->Get(i));
      made.low = next(), made.high = next(), made.added = next();
      const std::uint32_t places = index(), terms = index();
      for (std::uint32_t p = 0; p < places && is_whole; ++p) {
        const std::uint32_t input = index(), axis = index();
        made.places.push_back({input, axis});
      }
      for (std::uint32_t t = 0; t < terms && is_whole; ++t) {
        const std::uint32_t dimension = index();
        made.terms.push_back({dimension, next()});
      }
    }
    if (is_whole && at == numbers.size()) return {};
    return Status::errorf(ErrorId::qir_bad, "graph: found %zu numbers of symbolic dimensions, expected those of each",
                          numbers.size());
  }

  Result<Graph> model(const fb::Model &from) {
    QR_RETURN_IF_ERROR(operators(from.operators()));
    Graph out;
    QR_RETURN_IF_ERROR(graph(*from.graph(), out));
    QR_RETURN_IF_ERROR(dimensions(*from.graph(), out));
    if (!copy_.within_budget())
      return Status::error(ErrorId::qir_bad, "graph: found strings or lists that share bytes, expected each its own");
    return out;
  }

 private:
  Status operators(const flatbuffers::Vector<flatbuffers::Offset<fb::Operator>> *from) {
    for (std::uint32_t i = 0, n = copy_.count(from); i < n; ++i) {
      const std::string_view domain = copy_.view(from->Get(i)->domain()), name = copy_.view(from->Get(i)->name());
      if (from->Get(i)->version() != 0) {
        // Which domains and versions there may be validate_graph says.
        CustomOp op;
        op.domain = String(domain);
        op.type = String(name);
        op.version = from->Get(i)->version();
        operators_.push_back({Op::Custom, quarry::make_shared<const CustomOp>(std::move(op))});
        continue;
      }
      const OpRow *row = find_op(domain, name);
      if (!row)
        return Status::hinted(ErrorId::qir_bad, "update Quarry, or compile the model again with this version",
                              "graph: found operator '%s' of domain '%s', expected one that this version knows",
                              printable(name).c_str(), printable(domain).c_str());
      operators_.push_back({row->op, nullptr});
    }
    return {};
  }

  Status graph(const fb::Graph &from, Graph &out) {
    out.name = copy_.text(from.name());
    const std::uint32_t tensor_count = copy_.count(from.tensors()), node_count = copy_.count(from.nodes());
    // The containers are as large as the file says only when the file has as many tables.
    out.tensors.resize(tensor_count);
    for (std::uint32_t i = 0; i < tensor_count; ++i) {
      QR_RETURN_IF_ERROR(stop_status("reading the graph"));
      QR_RETURN_IF_ERROR(tensor(*from.tensors()->Get(i), out.tensors[i]));
    }
    out.nodes.resize(node_count);
    for (std::uint32_t i = 0; i < node_count; ++i) {
      QR_RETURN_IF_ERROR(stop_status("reading the graph"));
      QR_RETURN_IF_ERROR(node(*from.nodes()->Get(i), out.nodes[i]));
    }
    out.inputs = copy_.vector(from.inputs());
    out.outputs = copy_.vector(from.outputs());
    return {};
  }

  Status tensor(const fb::Tensor &from, Tensor &out) {
    QR_RETURN_IF_ERROR(read_type(copy_, from, out));
    return from.constant() ? constant(*from.constant(), out) : Status();
  }

  Status constant(const fb::Constant &from, Tensor &out) {
    out.is_constant = true;
    QR_RETURN_IF_ERROR(check_place(from, out.name, segments_, segment_count_));
    const Bytes &segment = segments_[from.segment()];
    const char *data = static_cast<const char *>(segment.data) + from.offset_bytes();
    if (from.offset_bytes() % kConstantAlign != 0 ||
        reinterpret_cast<std::uintptr_t>(data) % ((dtype_bits(out.dtype) + 7) / 8) != 0)
      return Status::errorf(ErrorId::qir_bad,
                            "tensor '%s': found its data at offset %" PRIu64
                            ", expected a multiple of %u in an aligned segment",
                            printable(out.name), from.offset_bytes(), kConstantAlign);
    out.data = {data, from.size_bytes()};
    return {};
  }

  Status node(const fb::Node &from, Node &out) {
    out.name = copy_.text(from.name());
    if (from.op() >= operators_.size())
      return Status::errorf(ErrorId::qir_bad, "node '%s': found operator number %u, expected one under %zu",
                            printable(out.name), from.op(), operators_.size());
    out.op = operators_[from.op()].op;
    out.custom = operators_[from.op()].custom;
    out.inputs = copy_.vector(from.inputs());
    out.outputs = copy_.vector(from.outputs());
    const std::uint32_t attribute_count = copy_.count(from.attributes());
    out.attributes.resize(attribute_count);
    for (std::uint32_t i = 0; i < attribute_count; ++i)
      QR_RETURN_IF_ERROR(attribute(*from.attributes()->Get(i), out.name, out.attributes[i]));
    const std::uint32_t subgraph_count = copy_.count(from.subgraphs());
    out.subgraphs.resize(subgraph_count);
    for (std::uint32_t i = 0; i < subgraph_count; ++i)
      QR_RETURN_IF_ERROR(graph(*from.subgraphs()->Get(i), out.subgraphs[i]));
    return {};
  }

  Status attribute(const fb::Attribute &from, const String &node, Attribute &out) {
    out.name = copy_.text(from.name());
    if (from.kind() <= fb::AttributeKind::UNKNOWN || from.kind() > fb::AttributeKind::MAX)
      return Status::errorf(ErrorId::qir_attribute, "node '%s': found attribute '%s' of kind %d, expected 1 to %d",
                            printable(node), printable(out.name), static_cast<int>(from.kind()),
                            static_cast<int>(fb::AttributeKind::MAX));
    out.kind = static_cast<Attribute::Kind>(static_cast<int>(from.kind()) - 1);
    switch (out.kind) {
      case Attribute::Kind::Int: out.i = from.i(); break;
      case Attribute::Kind::Float: out.f = from.f(); break;
      case Attribute::Kind::String: out.s = copy_.text(from.s()); break;
      case Attribute::Kind::Ints: out.ints = copy_.vector(from.ints()); break;
      case Attribute::Kind::Floats: out.floats = copy_.vector(from.floats()); break;
      case Attribute::Kind::Strings:
        for (std::uint32_t i = 0, n = copy_.count(from.strings()); i < n; ++i)
          out.strings.push_back(copy_.text(from.strings()->Get(i)));
        break;
      case Attribute::Kind::Tensor:
      case Attribute::Kind::Tensors:
        for (std::uint32_t i = 0, n = copy_.count(from.tensors()); i < n; ++i)
          QR_RETURN_IF_ERROR(tensor(*from.tensors()->Get(i), out.tensors.emplace_back()));
        break;
    }
    return {};
  }

  flat::Copier copy_;
  const Bytes *segments_;
  std::uint64_t segment_count_;
  struct Operator {
    Op op;
    std::shared_ptr<const CustomOp> custom;
  };
  Vector<Operator> operators_;
};

}  // namespace

Result<Graph> read_graph(Bytes qir, const Bytes *segments, std::uint64_t segment_count) {
  Vector<std::uint8_t> aligned;
  QR_ASSIGN_OR_RETURN(const fb::Model *const model, well_formed_model(qir, aligned));
  QR_ASSIGN_OR_RETURN(Graph graph, GraphReader(qir.size, segments, segment_count).model(*model));
  QR_RETURN_IF_ERROR(validate_graph(graph));
  return graph;
}

}  // namespace quarry::qir
