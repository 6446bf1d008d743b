// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/lowering.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "passes/passes.h"
#include "passes/shapes/cut.h"

namespace quarry::htp {

using qnn::DataType;
using qnn::TensorType;

Status refuse(ErrorId id, String reason, std::string_view hint) { return Status::error(id, reason, hint); }

Lowering::Lowering(const qir::Graph &graph, const Soc &soc, qir::Store &store, Draft &draft)
    : graph_(graph),
      soc_(soc),
      store_(store),
      draft_(draft),
      users_(graph.tensors.size()),
      is_border_(graph.tensors.size()),
      is_output_(graph.tensors.size()),
      values_(graph.tensors.size()) {
  for (const qir::Node &node : graph.nodes)
    for (const std::int32_t id : node.inputs)
      if (id != qir::kAbsent) ++users_[index_of(id)];
  for (const std::int32_t id : graph.inputs) is_border_[index_of(id)] = true;
  for (const std::int32_t id : graph.outputs)
    ++users_[index_of(id)], is_border_[index_of(id)] = true, is_output_[index_of(id)] = true;
}

DraftNode &Lowering::node(const char *type, std::initializer_list<std::int32_t> inputs,
                          std::initializer_list<std::int32_t> outputs) {
  DraftNode made;
  made.name = at_ ? at_->name : String(type);
  made.type = type;
  for (const std::int32_t input : inputs)
    if (input >= 0) made.inputs.push_back(input);
  made.outputs = outputs;
  made.source = at_ ? at_->source : qir::kNoSource;
  return draft_.nodes.emplace_back(std::move(made));
}

void Lowering::param(DraftNode &node, const char *name, std::span<const std::uint32_t> values,
                     Vector<std::uint32_t> dims) {
  if (dims.empty()) dims = {static_cast<std::uint32_t>(values.size())};
  const std::int32_t made =
      constant(node.name + "." + name, DataType::U32, std::move(dims), values.data(), values.size_bytes());
  node.params.push_back({name, DraftParam::Ref{made}});
}
void Lowering::param(DraftNode &node, const char *name, std::span<const std::int32_t> values,
                     Vector<std::uint32_t> dims) {
  if (dims.empty()) dims = {static_cast<std::uint32_t>(values.size())};
  const std::int32_t made =
      constant(node.name + "." + name, DataType::I32, std::move(dims), values.data(), values.size_bytes());
  node.params.push_back({name, DraftParam::Ref{made}});
}

// ---- the graph ----------------------------------------------------------------------------------

// An input or output is copied byte for byte, or from 64 to 32 bits.
Status Lowering::check_border(std::int32_t id) const {
  const qir::Tensor &tensor = this->tensor(id);
  QR_ASSIGN_OR_RETURN(const DataType dtype, type_of(tensor));
  const bool narrows = tensor.dtype == DType::I64 || tensor.dtype == DType::U64;
  if (narrows || dtype_bits(tensor.dtype) == 8 * element_bytes(dtype)) return {};
  return refuse(ErrorId::backend_type,
                format("tensor %s: found %s as an input or output of the model, expected whole bytes",
                       printable(tensor.name), dtype_name(tensor.dtype)));
}

Status check_scales(std::string_view name, std::span<const float> scales) {
  const auto found = std::ranges::find_if(scales, [](float scale) { return !std::isnormal(scale); });
  if (found == scales.end()) return {};
  return refuse(ErrorId::backend_limit,
                format("tensor %s: found a scale of %g, expected at least 1.2e-38: the library has no smaller one",
                       printable(name), static_cast<double>(*found)),
                "quantise numbers of a common size, or leave that part of the model in floats");
}

Status Lowering::check_types(const qir::Node &node) const {
  for (const auto *list : {&node.inputs, &node.outputs}) {
    for (const std::int32_t id : *list) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &tensor = this->tensor(id);
      QR_RETURN_IF_ERROR(type_of(tensor).take_status());
      if (is_border_[index_of(id)]) QR_RETURN_IF_ERROR(check_border(id));
      if (tensor.quant && !tensor.is_constant) QR_RETURN_IF_ERROR(check_scales(tensor.name, tensor.quant->scales));
      // Concat leaves out what holds nothing (the cache of a first run), and axes may be none.
      const bool may_be_empty = list == &node.inputs && (node.op == qir::Op::Concat || id != node.inputs[0]);
      for (const std::int64_t extent : tensor.shape) {
        if (extent == 0 && may_be_empty) continue;
        if (extent < 0)
          return refuse(
              ErrorId::backend_limit,
              format("tensor %s: found shape %s, expected one that is known before the run", printable(tensor.name),
                     shape_text(tensor.shape.data(), tensor.shape.size())),
              "bind symbolic dimensions by the option shape; option htp.tail=host has the host run what depends on "
              "data-dependent shapes");
        if (extent == 0 || extent > std::numeric_limits<std::uint32_t>::max())
          return refuse(ErrorId::backend_limit,
                        format("tensor %s: found shape %s, expected dimensions of at least 1", printable(tensor.name),
                               shape_text(tensor.shape.data(), tensor.shape.size())));
      }
    }
  }
  return {};
}

Status Lowering::lower_node(const qir::Node &node) {
  const bool is_custom = node.op == qir::Op::Custom;
  if (is_custom && std::ranges::any_of(packages_, [&](const OpPackage &p) { return p.op == node.custom->type; })) {
    QR_RETURN_IF_ERROR(check_types(node));
    return apply(lower_custom, node);
  }
  const OperatorRow *row = is_custom ? nullptr : find_operator(node.op);
  if (is_custom)
    return refuse(ErrorId::backend_op,
                  format("custom operator %s version %lld: this backend has no package for it", qir::op_text(node),
                         node.custom->version),
                  "name the package by the option op_packages");
  if (!row) {
    const bool is_open = passes::is_control_flow(node) || std::ranges::any_of(node.outputs, [&](std::int32_t id) {
                           return id != qir::kAbsent && !passes::known(tensor(id).shape);
                         });
    return refuse(ErrorId::backend_op, format("operator %s has no form on this device", qir::op_text(node)),
                  is_open ? "option htp.tail=host has the host run it, and what depends on it"
                          : "docs/htp.md says what is taken; cut the model before and behind this node and run it on "
                            "another backend");
  }
  QR_RETURN_IF_ERROR(check_types(node));
  QR_RETURN_IF_ERROR(check_operand_types(graph_, node, *row));
  return apply(row->rule, node);
}

struct Lowering::Mark {
  std::size_t nodes, tensors;
  std::uint32_t layout_copies;
};

Lowering::Mark Lowering::mark() {
  taken_.clear();
  past_32_bits_ = qir::kAbsent;
  return {draft_.nodes.size(), draft_.tensors.size(), draft_.layout_copies};
}

void Lowering::undo(const Mark &mark, const qir::Node &node) {
  const auto is_new = [&](const auto &entry) { return entry.second >= static_cast<std::int32_t>(mark.tensors); };
  std::erase_if(copies_, is_new);
  std::erase_if(encoded_, is_new);
  std::erase_if(clamped_, [&](std::int32_t made) { return made >= static_cast<std::int32_t>(mark.tensors); });
  for (const std::int32_t id : node.outputs)
    if (id != qir::kAbsent) values_[index_of(id)] = {}, encoded_.erase(id);
  for (std::uint32_t *const used : taken_) --*used;
  draft_makers_.resize(std::min(draft_makers_.size(), mark.tensors));
  draft_nodes_met_ = std::min(draft_nodes_met_, mark.nodes);
  draft_.nodes.erase(draft_.nodes.begin() + static_cast<std::ptrdiff_t>(mark.nodes), draft_.nodes.end());
  draft_.tensors.erase(draft_.tensors.begin() + static_cast<std::ptrdiff_t>(mark.tensors), draft_.tensors.end());
  draft_.layout_copies = mark.layout_copies;
}

namespace {

// Whether a constant past 32 bits means the same when it is the nearest number of 32 bits: it is a limit, and the
// device's data are not past it either.
bool takes_limits(qir::Op op) {
  using qir::Op;
  switch (op) {
    case Op::Clip:
    case Op::Greater:
    case Op::GreaterOrEqual:
    case Op::Less:
    case Op::LessOrEqual:
    case Op::Max:
    case Op::Min: return true;
    default: return false;
  }
}

}  // namespace

Status Lowering::apply(Rule rule, const qir::Node &node) {
  const qir::Node *const outer = std::exchange(at_, &node);
  const Mark before = mark();
  Status status = rule(*this, node);
  if (status.ok() && past_32_bits_ != qir::kAbsent && !takes_limits(node.op))
    status = refuse(ErrorId::backend_limit,
                    format("constant %s: found a value past 32 bits, expected at most 32: the device has no more",
                           printable(tensor(past_32_bits_).name)),
                    "use smaller numbers, or cut the model before and behind this node");
  if (!status.ok()) undo(before, node);
  at_ = outer;
  return status;
}

void Lowering::border(std::int32_t id, bool output) {
  const qir::Tensor &tensor = this->tensor(id);
  IoBinding made{tensor.name, tensor.dtype, tensor.shape, -1, {}};
  Value &value = values_[index_of(id)];
  if (!output) {
    if (element_count(tensor.shape.data(), tensor.shape.size()).value_or(1) == 0) {
      draft_.inputs.push_back(std::move(made));
      return;
    }
    const Result<DataType> dtype = type_of(tensor);
    const Order order = natural_order(tensor.shape.size());
    made.tensor = add({tensor.name,
                       TensorType::AppWrite,
                       dtype.ok() ? dtype.value() : DataType::F32,
                       dims_of(tensor.shape, order),
                       encoding_of(tensor, order),
                       {}});
    value = {made.tensor, order, qir::kAbsent};
    draft_.inputs.push_back(std::move(made));
    return;
  }
  const std::int32_t constant = tensor.is_constant ? id : value.constant;
  if (constant != qir::kAbsent) {
    made.constant = this->tensor(constant).data;
    draft_.outputs.push_back(std::move(made));
    return;
  }
  const bool taken = given_.contains(value.tensor);
  if (value.tensor >= 0 && is_natural(value.order) && drafted(value.tensor).type == TensorType::AppRead && !taken) {
    made.tensor = value.tensor;
    given_.insert(value.tensor);
  } else {
    const DraftTensor &like = drafted(value.tensor);
    const Order order = natural_order(tensor.shape.size());
    made.tensor = add({tensor.name,
                       TensorType::AppRead,
                       like.dtype,
                       dims_of(tensor.shape, order),
                       like.encoding.scales.size() > 1 ? encoding_of(tensor, order) : like.encoding,
                       {}});
    move(value, order, made.tensor);
  }
  draft_.outputs.push_back(std::move(made));
}

Status Lowering::run(Vector<Status> &refused) {
  draft_.name = graph_.name.empty() ? String("graph") : graph_.name;
  for (const std::int32_t id : graph_.inputs) border(id, false);
  for (const qir::Node &node : graph_.nodes) {
    Status status = lower_node(node);
    const bool failed = !status.ok();
    const auto source = index_of(node.source);
    if (node.source >= 0 && source < refused.size() && refused[source].ok()) refused[source] = std::move(status);
    if (!failed) continue;
    for (const std::int32_t id : node.outputs) {
      if (id == qir::kAbsent) continue;
      for (const std::int64_t extent : tensor(id).shape)
        if (extent < 0) return {};  // nothing behind it can be checked
      result(id);
    }
  }
  for (const std::int32_t id : graph_.outputs) border(id, true);
  // The library takes out an input that nobody reads, and then wants to hear nothing of it.
  Vector<bool> read(draft_.tensors.size());
  for (const DraftNode &node : draft_.nodes)
    for (const std::int32_t id : node.inputs) read[index_of(id)] = true;
  for (IoBinding &input : draft_.inputs) {
    if (input.tensor < 0 || read[index_of(input.tensor)]) continue;
    drafted(input.tensor).type = TensorType::Null;
    input.tensor = -1;
  }
  return {};
}

Result<Vector<std::int64_t>> constant_ints(const Lowering &lowering, const qir::Node &node, std::size_t input,
                                           const char *what) {
  const std::int32_t id = node.inputs[input];
  Vector<std::int64_t> values;
  if (id == qir::kAbsent) return values;
  const qir::Tensor &tensor = lowering.tensor(id);
  if (element_count(tensor.shape.data(), tensor.shape.size()).value_or(1) == 0) return values;
  if (!tensor.is_constant || (tensor.dtype != DType::I64 && tensor.dtype != DType::I32))
    return refuse(ErrorId::backend_limit,
                  format("%s (input %zu) is known only at run time, expected a constant", what, input),
                  "export the model with fixed shapes");
  const std::size_t count = static_cast<std::size_t>(*element_count(tensor.shape.data(), tensor.shape.size()));
  for (std::size_t i = 0; i < count; ++i) {
    if (tensor.dtype == DType::I64) {
      std::int64_t value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + 8 * i, 8);
      values.push_back(value);
    } else {
      std::int32_t value;
      std::memcpy(&value, static_cast<const std::uint8_t *>(tensor.data.data) + 4 * i, 4);
      values.push_back(value);
    }
  }
  return values;
}

}  // namespace quarry::htp
