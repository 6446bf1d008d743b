// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu-reference/program.h"

#include <algorithm>

#include "backends/common/ep_context.h"
#include "backends/common/gaps.h"
#include "base/checked.h"
#include "base/stop.h"
#include "graph/ops/quantization.h"
#include "kernels/reference/convert.h"

namespace quarry::reference {
namespace {

constexpr std::uint64_t kAlign = 64;

std::uint64_t align_up(std::uint64_t size) noexcept { return (size + kAlign - 1) & ~(kAlign - 1); }

bool is_known(const qir::Shape &shape) noexcept {
  return std::none_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent < 0; });
}

String describe(const qir::Node &node) { return format("%s '%s'", qir::op_text(node), printable(node.name)); }

bool has_subgraphs(qir::Op op) noexcept { return op == qir::Op::If || op == qir::Op::Loop || op == qir::Op::Scan; }

// Calls visit(tensor) for each input and output that is there.
template <class Visit>
void for_operands(const qir::Graph &graph, const qir::Node &node, Visit &&visit) {
  for (const auto *list : {&node.inputs, &node.outputs})
    for (const std::int32_t index : *list)
      if (index != qir::kAbsent) visit(at(graph, index));
}

// Stored elements may be moved as they are when all tensors mean the same by them.
Handling handling_of(const qir::Graph &graph, const qir::Node &node, const KernelRow &row) {
  if (row.handling != Handling::Move || has_subgraphs(node.op)) return row.handling;
  const qir::Quantization *common = nullptr;
  bool same = true, unquantized_float = false;
  for_operands(graph, node, [&](const qir::Tensor &tensor) {
    if (!tensor.quant) {
      unquantized_float |= is_float(tensor.dtype);
    } else if (!common) {
      common = &*tensor.quant;
      same &= common->per_tensor();
    } else {
      same &= *common == *tensor.quant;
    }
  });
  if (!common) return Handling::Move;
  return same && !unquantized_float ? Handling::Move : Handling::Compute;
}

// What lives at one time, of a plan that was read.
class UsedRanges {
 public:
  // False: the range is in use already.
  bool take_at(std::uint64_t offset, std::uint64_t size) {
    const auto next = used_.lower_bound(offset);
    if (next != used_.end() && next->first - offset < size) return false;
    if (next != used_.begin()) {
      const auto previous = std::prev(next);
      if (offset - previous->first < previous->second) return false;
    }
    used_.emplace_hint(next, offset, size);
    return true;
  }
  void give_back(std::uint64_t offset) { used_.erase(offset); }

 private:
  OrderedMap<std::uint64_t, std::uint64_t> used_;  // offset -> size
};

// Calls born(lifetime) and died(lifetime) in order of time; a tensor dies after the node that uses it last, before the
// next one's births. False: born() gave false, or it was stopped.
template <class List, class Born, class Died>
bool sweep(const List &by_first, Born &&born, Died &&died) {
  Vector<std::size_t> by_last(by_first.size());
  for (std::size_t i = 0; i < by_last.size(); ++i) by_last[i] = i;
  std::sort(by_last.begin(), by_last.end(), [&](std::size_t a, std::size_t b) {
    return by_first[a].last != by_first[b].last ? by_first[a].last < by_first[b].last : a < b;
  });
  auto death = by_last.begin();
  for (const auto &lifetime : by_first) {
    if (stop_asked()) return false;
    for (; death != by_last.end() && by_first[*death].last < lifetime.first; ++death) died(by_first[*death]);
    if (!born(lifetime)) return false;
  }
  return true;
}

}  // namespace

Status check_node(const qir::Graph &graph, const qir::Node &node) {
  if (is_ep_context(node))
    return refuse_ep_context(node, "this backend can run none",
                             "compile the model that it was made from, or choose the backend of its device");
  if (node.op == qir::Op::Custom)
    return Status::error(ErrorId::backend_op,
                         format("custom operator %s version %lld: this backend has no package for it",
                                qir::op_text(node), node.custom ? node.custom->version : 0),
                         "choose a backend that has a package for it, or take the operator out of the model");
  const KernelRow *row = find_kernel(node.op);
  if (!row) {
    return Status::error(ErrorId::backend_op,
                         format("%s: found operator %s, expected one that cpu-reference has a kernel for",
                                describe(node), qir::op_name(node.op)));
  }
  const auto &judged = node.inputs.empty() || node.inputs[0] == qir::kAbsent ? node.outputs : node.inputs;
  if (!judged.empty() && judged[0] != qir::kAbsent) {
    const qir::Tensor &tensor = at(graph, judged[0]);
    const DType dtype = tensor.quant && !reads_stored(node, 0) ? DType::F32 : tensor.dtype;
    if (!takes_dtype(*row, dtype)) {
      return Status::error(ErrorId::backend_type, format("%s: tensor '%s' is %s, expected one of: %s", describe(node),
                                                         printable(tensor.name), dtype_name(tensor.dtype), row->types));
    }
  }
  Status status;
  for_operands(graph, node, [&](const qir::Tensor &tensor) {
    if (tensor.shape.size() > qir::kMaxRank && status.ok()) {
      status = Status::error(ErrorId::backend_limit,
                             format("%s: tensor '%s' has %zu dimensions, expected at most %zu", describe(node),
                                    printable(tensor.name), tensor.shape.size(), qir::kMaxRank));
    }
  });
  QR_RETURN_IF_ERROR(std::move(status));
  const auto operand = [&](std::size_t i) -> const qir::Tensor & { return at(graph, node.inputs[i]); };
  if (is_counted_bias(graph, node, 2) && !qir::BiasUnit::of(node, operand(0), operand(1), operand(2))) {
    return Status::error(
        ErrorId::backend_type,
        format("%s: tensor '%s' is i32 without a quantisation, expected one element per output channel and weights "
               "quantised per tensor or along their output channels: it counts in units of their scales",
               describe(node), printable(operand(2).name)));
  }
  for (const qir::Graph &body : node.subgraphs) {
    for (const qir::Node &inner : body.nodes) {
      if (Status refused = check_node(body, inner); !refused.ok())
        return std::move(refused).with("subgraph of", node.name);
    }
  }
  return {};
}

Status Program::plan_node(std::size_t index) {
  const qir::Node &node = graph_->nodes[index];
  QR_RETURN_IF_ERROR(check_node(*graph_, node));
  NodePlan &plan = nodes_[index];
  plan.row = find_kernel(node.op);
  plan.handling = handling_of(*graph_, node, *plan.row);

  bool any_quantized = false;
  Vector<qir::InferValue> inputs;
  inputs.reserve(node.inputs.size());
  for (const std::int32_t i : node.inputs) {
    qir::InferValue &value = inputs.emplace_back();
    if (i == qir::kAbsent) continue;
    const qir::Tensor &tensor = at(*graph_, i);
    value = {true, tensor.dtype, tensor.shape, &tensor.quant, tensor.is_constant ? tensor.data : qir::Bytes{}};
    any_quantized |= tensor.quant.has_value();
    plan.infers |= !is_known(tensor.shape);
  }
  Vector<qir::InferType> inferred;
  QR_RETURN_IF_ERROR(qir::infer_node(node, inputs, inferred));
  inferred.resize(node.outputs.size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i] == qir::kAbsent) continue;
    const qir::Tensor &tensor = at(*graph_, node.outputs[i]);
    const qir::InferType &type = inferred[i];
    // Quantisation stands for real numbers: there the float type of the rule is not that of the tensor.
    const bool real = (tensor.quant && !writes_stored(node, i)) || (any_quantized && is_float(tensor.dtype));
    bool fits = type.shape.size() == tensor.shape.size() && (real ? is_float(type.dtype) : type.dtype == tensor.dtype);
    for (std::size_t d = 0; fits && d < tensor.shape.size(); ++d)
      fits = type.shape[d] < 0 || tensor.shape[d] < 0 || type.shape[d] == tensor.shape[d];
    if (!fits) {
      return Status::error(
          ErrorId::qir_shape,
          format("%s: output '%s' is declared %s%s, expected %s%s", describe(node), printable(tensor.name),
                 dtype_name(tensor.dtype), shape_text(tensor.shape.data(), tensor.shape.size()), dtype_name(type.dtype),
                 shape_text(type.shape.data(), type.shape.size())));
    }
    plan.infers |= !is_known(type.shape) || !is_known(tensor.shape);
  }
  return {};
}

Status Program::place_tensors(Vector<Lifetime> &lifetimes) {
  const qir::Graph &graph = *graph_;
  const std::size_t count = graph.tensors.size();
  tensors_.resize(count);
  for (std::size_t i = 0; i < count; ++i)
    if (graph.tensors[i].is_constant) tensors_[i].storage = StorageKind::Constant;
  for (const std::int32_t i : graph.inputs) tensors_[index_of(i)].storage = StorageKind::Input;

  constexpr std::int32_t kNever = -1;
  Vector<std::int32_t> last(count, kNever);
  const auto stopped = [] { return stop_status("compile"); };
  QR_RETURN_IF_ERROR(stopped());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    for (const auto *list : {&graph.nodes[n].inputs, &graph.nodes[n].outputs})
      for (const std::int32_t i : *list)
        if (i != qir::kAbsent) last[index_of(i)] = static_cast<std::int32_t>(n);
  Vector<bool> is_output(count, false);
  for (const std::int32_t i : graph.outputs) is_output[index_of(i)] = true;

  QR_RETURN_IF_ERROR(stopped());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const std::int32_t i : graph.nodes[n].outputs) {
      if (i == qir::kAbsent) continue;
      const std::size_t t = index_of(i);
      TensorPlan &plan = tensors_[t];
      if (!is_known(graph.tensors[t].shape)) plan.storage = StorageKind::Dynamic;
      else plan.storage = is_output[t] ? StorageKind::Output : StorageKind::Arena;
      if (plan.storage == StorageKind::Arena) lifetimes.push_back({static_cast<std::int32_t>(n), last[t], i});
    }
  }
  QR_RETURN_IF_ERROR(stopped());
  for (std::size_t t = 0; t < count; ++t) {
    const qir::Tensor &tensor = graph.tensors[t];
    if (!is_known(tensor.shape)) continue;
    const auto elements = element_count(tensor.shape.data(), tensor.shape.size());
    const auto bytes = elements ? packed_size(tensor.dtype, *elements) : std::nullopt;
    // The widest form of an element has 8 bytes; sizes stay far from overflow everywhere below.
    if (!bytes || *elements > INT64_MAX / 64) {
      return Status::error(ErrorId::qir_limit,
                           format("tensor '%s' with shape %s is larger than memory can be", printable(tensor.name),
                                  shape_text(tensor.shape.data(), tensor.shape.size())));
    }
    tensors_[t].bytes = *bytes;
  }
  return {};
}

Status Program::make_plan(const Vector<Lifetime> &lifetimes) {
  Gaps gaps;
  const auto overflow = [&] {
    return Status::error(ErrorId::qir_limit, "the graph's intermediate tensors together exceed 2^62 bytes");
  };
  const auto size_of = [&](const Lifetime &life) {
    return align_up(std::max<std::uint64_t>(tensors_[index_of(life.tensor)].bytes, 1));
  };
  const bool fits = sweep(
      lifetimes,
      [&](const Lifetime &life) {
        TensorPlan &plan = tensors_[index_of(life.tensor)];
        plan.offset = gaps.take(size_of(life));
        return gaps.end() < (std::uint64_t{1} << 62);
      },
      [&](const Lifetime &life) { gaps.give_back(tensors_[index_of(life.tensor)].offset, size_of(life)); });
  QR_RETURN_IF_ERROR(stop_status("compile"));
  if (!fits) return overflow();
  arena_bytes_ = gaps.end();
  return {};
}

Status Program::adopt_plan(const Vector<Lifetime> &lifetimes, std::span<const std::uint64_t> *offsets) {
  const auto bad = [](const char *what) {
    return Status::error(ErrorId::backend_bad_blob, format("memory plan: %s", what));
  };
  if (offsets->size() < 1 + tensors_.size()) return bad("found fewer offsets than the graph has tensors");
  arena_bytes_ = (*offsets)[0];
  const auto plan_offsets = offsets->subspan(1, tensors_.size());
  *offsets = offsets->subspan(1 + tensors_.size());
  UsedRanges used;
  const bool fits = sweep(
      lifetimes,
      [&](const Lifetime &life) {
        const std::size_t t = index_of(life.tensor);
        const std::uint64_t size = align_up(std::max<std::uint64_t>(tensors_[t].bytes, 1));
        tensors_[t].offset = plan_offsets[t];
        return plan_offsets[t] % kAlign == 0 && range_fits(plan_offsets[t], size, arena_bytes_) &&
               used.take_at(plan_offsets[t], size);
      },
      [&](const Lifetime &life) { used.give_back(tensors_[index_of(life.tensor)].offset); });
  QR_RETURN_IF_ERROR(stop_status("load"));
  return fits ? Status() : bad("found tensors outside the arena or over each other, expected disjoint ones");
}

Result<Unique<Program>> Program::build(const qir::Graph &graph, std::span<const std::uint64_t> *offsets) {
  Unique<Program> program = make_unique<Program>();
  program->graph_ = &graph;
  program->nodes_.resize(graph.nodes.size());
  program->subprograms_.resize(graph.nodes.size());
  Vector<Lifetime> lifetimes;
  QR_RETURN_IF_ERROR(program->place_tensors(lifetimes));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    QR_RETURN_IF_ERROR(program->plan_node(n));
  }
  QR_RETURN_IF_ERROR(offsets ? program->adopt_plan(lifetimes, offsets) : program->make_plan(lifetimes));
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const qir::Graph &body : graph.nodes[n].subgraphs) {
      QR_ASSIGN_OR_RETURN(Unique<Program> subprogram, build(body, offsets));
      program->subprograms_[n].push_back(std::move(subprogram));
    }
  }
  return program;
}

std::uint64_t Program::total_arena_bytes() const noexcept {
  std::uint64_t total = arena_bytes_;
  for (const auto &list : subprograms_)
    for (const auto &program : list) total += program->total_arena_bytes();
  return total;
}

std::uint64_t Program::conversion_bytes() const noexcept {
  std::uint64_t most = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    std::uint64_t sum = 0;
    for_operands(*graph_, graph_->nodes[n], [&](const qir::Tensor &tensor) {
      const Form form = form_of(tensor.dtype, tensor.quant.has_value(), nodes_[n].handling);
      if (form == Form::Stored || !is_known(tensor.shape)) return;
      sum += align_up(static_cast<std::uint64_t>(*element_count(tensor.shape.data(), tensor.shape.size())) *
                      form_width(tensor.dtype, form));
    });
    for (const auto &program : subprograms_[n]) sum += program->conversion_bytes();
    most = std::max(most, sum);
  }
  return most;
}

std::uint64_t Program::constant_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const TensorPlan &plan : tensors_)
    if (plan.storage == StorageKind::Constant) total += plan.bytes;
  for (const auto &list : subprograms_)
    for (const auto &program : list) total += program->constant_bytes();
  return total;
}

void Program::append_plan(Vector<std::uint64_t> &out) const {
  out.push_back(arena_bytes_);
  for (const TensorPlan &plan : tensors_) out.push_back(plan.offset);
  for (const auto &list : subprograms_)
    for (const auto &program : list) program->append_plan(out);
}

}  // namespace quarry::reference
