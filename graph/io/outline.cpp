// SPDX-License-Identifier: Apache-2.0
#include "graph/io/outline.h"

#include <cinttypes>

#include "base/small_sort.h"
#include "base/stop.h"
#include "graph/io/well_formed.h"
#include "graph/limits.h"

namespace quarry::qir {
namespace {

std::string_view view(const flatbuffers::String *text) noexcept {
  return text ? std::string_view(text->c_str(), text->size()) : std::string_view();
}

std::span<const std::int32_t> numbers(const flatbuffers::Vector<std::int32_t> *list) noexcept {
  return list ? std::span(list->data(), list->size()) : std::span<const std::int32_t>();
}

std::uint32_t size_of(const auto *list) noexcept { return list ? list->size() : 0; }

Status bad(const char *what, std::string_view name) {
  return Status::errorf(ErrorId::qir_bad, "graph: found %s in '%s', expected none", what, printable(name));
}

void count(const fb::Graph &graph, Vector<std::pair<String, std::uint64_t>> &counts) {
  for (std::uint32_t i = 0; i < size_of(graph.nodes()); ++i) {
    const fb::Node &node = *graph.nodes()->Get(i);
    ++counts[node.op()].second;
    for (std::uint32_t b = 0; b < size_of(node.subgraphs()); ++b) count(*node.subgraphs()->Get(b), counts);
  }
}

Status read_side(const fb::Graph &graph, const flatbuffers::Vector<std::int32_t> *indices, std::uint64_t bytes,
                 Vector<Tensor> &out) {
  if (size_of(indices) > kMaxNodeArity) return bad("too many inputs or outputs", view(graph.name()));
  flat::Copier copy(bytes);
  for (std::uint32_t i = 0; i < size_of(indices); ++i) {
    const std::int32_t index = indices->Get(i);
    if (index < 0 || index_of(index) >= size_of(graph.tensors()))
      return bad("an input or output that is no tensor", view(graph.name()));
    QR_RETURN_IF_ERROR(read_type(copy, *graph.tensors()->Get(static_cast<std::uint32_t>(index)), out.emplace_back()));
    QR_RETURN_IF_ERROR(validate_tensor(out.back()));
  }
  return copy.within_budget() ? Status() : bad("names or lists that share bytes", view(graph.name()));
}

}  // namespace

Result<Outline> Outline::read(Bytes qir, std::span<const Bytes> segments) {
  Outline out;
  QR_ASSIGN_OR_RETURN(out.model_, well_formed_model(qir, out.aligned_));
  const fb::Graph &graph = *out.model_->graph();
  QR_RETURN_IF_ERROR(out.check(graph, segments, 0));
  QR_RETURN_IF_ERROR(read_side(graph, graph.inputs(), qir.size, out.inputs_));
  QR_RETURN_IF_ERROR(read_side(graph, graph.outputs(), qir.size, out.outputs_));
  return out;
}

Status Outline::check(const fb::Graph &graph, std::span<const Bytes> segments, std::uint32_t depth) const {
  if (depth > kMaxSubgraphDepth || size_of(graph.nodes()) > kMaxNodes || size_of(graph.tensors()) > kMaxTensors)
    return Status::errorf(ErrorId::qir_limit,
                          "graph '%s': found %u nodes and %u tensors at level %u of subgraphs, "
                          "expected at most %u, %u and %u",
                          printable(view(graph.name())), size_of(graph.nodes()), size_of(graph.tensors()), depth,
                          kMaxNodes, kMaxTensors, kMaxSubgraphDepth);
  for (std::uint32_t i = 0; i < size_of(graph.tensors()); ++i) {
    const fb::Tensor &tensor = *graph.tensors()->Get(i);
    const std::string_view name = view(tensor.name());
    if (name.size() > kMaxNameBytes) return bad("a tensor's name that is too long", name);
    if (const fb::Constant *const data = tensor.constant())
      QR_RETURN_IF_ERROR(check_place(*data, name, segments.data(), segments.size()));
  }
  for (std::uint32_t i = 0; i < size_of(graph.nodes()); ++i) {
    const fb::Node &node = *graph.nodes()->Get(i);
    QR_RETURN_IF_ERROR(stop_status("reading the graph"));
    if (view(node.name()).size() > kMaxNameBytes) return bad("a node's name that is too long", view(node.name()));
    if (node.op() >= size_of(model_->operators()))
      return Status::errorf(ErrorId::qir_bad, "node '%s': found operator number %u, expected one under %u",
                            printable(view(node.name())), node.op(), size_of(model_->operators()));
    for (const auto *const list : {node.inputs(), node.outputs()})
      for (const std::int32_t index : numbers(list))
        if (index != kAbsent && index_of(index) >= size_of(graph.tensors()))
          return bad("an input or output that is no tensor", view(node.name()));
    for (std::uint32_t b = 0; b < size_of(node.subgraphs()); ++b)
      QR_RETURN_IF_ERROR(check(*node.subgraphs()->Get(b), segments, depth + 1));
  }
  return {};
}

std::size_t Outline::node_count() const noexcept { return size_of(model_->graph()->nodes()); }
std::string_view Outline::node_name(std::size_t node) const noexcept {
  return view(model_->graph()->nodes()->Get(static_cast<std::uint32_t>(node))->name());
}
std::span<const std::int32_t> Outline::node_inputs(std::size_t node) const noexcept {
  return numbers(model_->graph()->nodes()->Get(static_cast<std::uint32_t>(node))->inputs());
}
std::span<const std::int32_t> Outline::node_outputs(std::size_t node) const noexcept {
  return numbers(model_->graph()->nodes()->Get(static_cast<std::uint32_t>(node))->outputs());
}
String Outline::op_text(std::size_t node) const {
  return op_text_of(model_->graph()->nodes()->Get(static_cast<std::uint32_t>(node))->op());
}
String Outline::op_text_of(std::uint32_t op) const {
  const fb::Operator &row = *model_->operators()->Get(op);
  return (row.version() ? printable(view(row.domain())) + "::" : String()) + printable(view(row.name()));
}

Vector<std::pair<String, std::uint64_t>> Outline::operators() const {
  Vector<std::pair<String, std::uint64_t>> counts(size_of(model_->operators()));
  for (std::uint32_t op = 0; op < counts.size(); ++op) counts[op].first = op_text_of(op);
  count(*model_->graph(), counts);
  std::erase_if(counts, [](const auto &row) { return row.second == 0; });
  small_sort(counts);
  return counts;
}

std::size_t Outline::tensor_count() const noexcept { return size_of(model_->graph()->tensors()); }
std::string_view Outline::tensor_name(std::int32_t tensor) const noexcept {
  return view(model_->graph()->tensors()->Get(static_cast<std::uint32_t>(tensor))->name());
}
bool Outline::is_constant(std::int32_t tensor) const noexcept {
  return model_->graph()->tensors()->Get(static_cast<std::uint32_t>(tensor))->constant() != nullptr;
}

}  // namespace quarry::qir
