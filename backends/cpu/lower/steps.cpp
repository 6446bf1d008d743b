// SPDX-License-Identifier: Apache-2.0
// Steps of the plan, and what profiles report of them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "backends/common/node_event.h"
#include "backends/cpu/lower/lowering.h"
#include "base/checked.h"
#include "base/stop.h"

namespace quarry::cpu {

using kernels::Kernel;

namespace {

// Those that lie in memory: a repeated one counts once.
std::uint64_t elements_of(const View &view) {
  std::uint64_t count = 1;
  for (std::size_t d = 0; d < view.rank(); ++d)
    if (view.strides[d] != 0) count *= static_cast<std::uint64_t>(view.dims[d]);
  return count;
}

}  // namespace

std::uint32_t Lowering::name_of(std::string_view text) {
  const std::size_t hash = StringHash{}(text);
  const std::uint32_t known = names_.find(hash, [&](std::uint32_t at) {
    const std::size_t end = at + text.size();
    return end < plan_.names.size() && plan_.names[end] == '\0' &&
           std::equal(text.begin(), text.end(), plan_.names.begin() + at);
  });
  if (known != HashIndex::kNone) return known;
  const std::uint32_t offset = static_cast<std::uint32_t>(plan_.names.size());
  plan_.names.insert(plan_.names.end(), text.begin(), text.end());
  plan_.names.push_back('\0');
  names_.put(hash, offset);
  return offset;
}

Status Lowering::check(Kernel kernel, const void *params, kernels::Needs *needs) {
  Status status = kernels::kernel_row(kernel).check(params, *plan_.isa, *needs);
  refused_ |= !status.ok();
  return status;
}

Status Lowering::refuse(const char *why) {
  refused_ = true;
  return Status::error(ErrorId::internal, why);
}

Status Lowering::emit(Kernel kernel, const void *params, std::span<const Arg> args) {
  QR_RETURN_IF_ERROR(stop_status("compile"));  // a node of thousands of operands makes as many steps
  const kernels::KernelRow &row = kernels::kernel_row(kernel);
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(check(kernel, params, &needs));
  if (needs.operand_count != args.size())
    return Status::error(ErrorId::internal, format("plan: %s: found %zu operands, expected %zu", row.name, args.size(),
                                                   needs.operand_count));
  Step step;
  step.kernel = static_cast<std::uint32_t>(kernel);
  step.params = static_cast<std::uint32_t>((plan_.params.size() + 7) / 8 * 8);
  plan_.params.resize(step.params + std::size_t{row.params_bytes});
  std::memcpy(plan_.params.data() + step.params, params, row.params_bytes);
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(args.size());
  step.name = name_of(current_ ? std::string_view(current_->name) : "output");
  step.op = name_of(current_ ? qir::op_name(current_->op) : "Copy");
  step.source = current_ ? current_->source : qir::kNoSource;
  StepNote note;
  note.shapes = note.fused = name_of("");
  std::uint64_t gathered = UINT64_MAX;  // from a table, of which only some rows are read
  for (std::size_t i = 0; i < args.size(); ++i) {
    Operand operand;
    operand.value = args[i].view ? static_cast<std::uint32_t>(args[i].view->value) : args[i].value;
    operand.offset = args[i].view ? static_cast<std::uint64_t>(args[i].view->offset) * args[i].width : 0;
    const Value &value = plan_.values[operand.value];
    if (!range_fits(operand.offset, needs.operand_bytes[i], value.bytes))
      return Status::error(ErrorId::internal,
                           format("plan: %s of node '%s': operand %zu: found %llu bytes, expected %llu", row.name,
                                  current_ ? printable(current_->name).c_str() : "", i, value.bytes - operand.offset,
                                  needs.operand_bytes[i]));
    plan_.operands.push_back(operand);
    // A view may leave elements out between its first and its last.
    const std::uint64_t used =
        std::min(needs.operand_bytes[i], args[i].view ? elements_of(*args[i].view) * args[i].width : value.bytes);
    if (needs.written[i]) note.bytes_written += used;
    else if (kernel == Kernel::Gather && i == 0) gathered = used;
    else note.bytes_read += used;
  }
  if (kernel == Kernel::Gather) note.bytes_read += std::min(gathered, note.bytes_written);
  plan_.scratch_bytes = std::max(plan_.scratch_bytes, needs.scratch_bytes);
  plan_.shared_bytes = std::max(plan_.shared_bytes, needs.shared_bytes);
  plan_.steps.push_back(step);
  plan_.notes.push_back(note);
  return {};
}

Result<Lowered> done(Status status) {
  if (!status.ok()) return status;
  return Lowered::Done;
}

Result<Lowered> Lowering::finish(Kernel kernel, const void *params, std::span<const Arg> args) {
  return done(emit(kernel, params, args));
}

// ---- what reports say ----------------------------------------------------------------------------

void Lowering::report_steps(const Group &group, std::size_t before) {
  const std::int32_t root = node(group).source;
  paths_.steps(root, std::span(plan_.steps).subspan(before));
  for (const std::int32_t member : group.members) paths_.fused(graph_.nodes[index_of(member)].source, root);
  const std::uint32_t shapes = shapes_of(group);
  for (std::size_t s = before; s < plan_.steps.size(); ++s)  // copies have said what they copy
    if (plan_.steps[s].kernel != static_cast<std::uint32_t>(Kernel::Copy)) plan_.notes[s].shapes = shapes;
}

// What the group takes from outside, and what it makes. Of the nodes behind its first, single constants (the bounds of
// a Clip) are left out.
std::uint32_t Lowering::shapes_of(const Group &group) {
  plugin::ShapesText shapes;
  ++asked_;
  const auto met = [&](std::int32_t id) {  // or made inside
    return std::exchange(met_[index_of(id)], asked_) == asked_;
  };
  for (const std::int32_t member : group.members)
    for (const std::int32_t id : graph_.nodes[index_of(member)].outputs)
      if (id != qir::kAbsent) met(id);
  for (const std::int32_t member : group.members) {
    for (const std::int32_t id : graph_.nodes[index_of(member)].inputs) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &t = tensor(id);
      if ((member != group.root && t.is_constant && count_of(t.shape) == 1) || met(id)) continue;
      shapes.input(t.dtype, t.shape.data(), t.shape.size());
    }
  }
  for (const std::int32_t id : graph_.nodes[index_of(group.last)].outputs)
    if (id != qir::kAbsent) shapes.output(tensor(id).dtype, tensor(id).shape.data(), tensor(id).shape.size());
  return name_of(shapes.view());
}

// ---- cpu-reference ------------------------------------------------------------------------------

void Lowering::add_reference_step(const qir::Node &node, ReferenceParts parts, StepNote note, std::string_view shapes) {
  Step step;
  step.kernel = kReferenceStep;
  step.params = static_cast<std::uint32_t>(plan_.subgraphs.size());
  step.first_operand = static_cast<std::uint32_t>(plan_.operands.size());
  step.operand_count = static_cast<std::uint32_t>(parts.reads.size() + parts.writes.size());
  step.name = name_of(node.name);
  step.op = name_of(qir::op_name(node.op));
  step.source = node.source;
  note.shapes = name_of(shapes);
  note.fused = name_of("");
  plan_.operands.insert(plan_.operands.end(), parts.reads.begin(), parts.reads.end());
  plan_.operands.insert(plan_.operands.end(), parts.writes.begin(), parts.writes.end());
  plan_.subgraphs.push_back({std::move(parts.bytes), static_cast<std::uint32_t>(parts.reads.size()),
                             static_cast<std::uint32_t>(parts.writes.size())});
  plan_.steps.push_back(step);
  plan_.notes.push_back(note);
}

// One node as a graph of its own.
Status Lowering::lower_reference(const qir::Node &node) {
  StepNote note;
  plugin::ShapesText shapes;
  qir::Graph subgraph;
  subgraph.name = "subgraph";
  qir::Node copy_of = node;
  Vector<Operand> reads, writes;
  HashMap<std::int32_t, std::int32_t> imported;
  const auto import = [&](std::int32_t id) -> std::int32_t {
    const auto found = imported.find(id);
    if (found != imported.end()) return found->second;
    subgraph.tensors.push_back(tensor(id));
    const std::int32_t number = static_cast<std::int32_t>(subgraph.tensors.size() - 1);
    imported.emplace(id, number);
    return number;
  };
  for (std::int32_t &id : copy_of.inputs) {
    if (id == qir::kAbsent) continue;
    const qir::Tensor &read = tensor(id);
    shapes.input(read.dtype, read.shape.data(), read.shape.size());
    note.bytes_read += packed_size(read.dtype, count_of(read.shape)).value_or(0);
    const bool known = imported.contains(id);
    if (!known && !constant(id)) {
      const View view = row_major(id);
      reads.push_back({static_cast<std::uint32_t>(view.value), 0, static_cast<std::uint64_t>(view.offset) * width(id)});
    }
    const std::int32_t local = import(id);
    if (!known && !constant(id)) subgraph.inputs.push_back(local);
    id = local;
  }
  for (std::int32_t &id : copy_of.outputs) {
    if (id == qir::kAbsent) continue;
    const auto bytes = packed_size(tensor(id).dtype, count_of(tensor(id).shape));
    if (!bytes)
      return Status::error(ErrorId::run_shape,
                           format("tensor '%s' is larger than memory can be", printable(tensor(id).name)));
    shapes.output(tensor(id).dtype, tensor(id).shape.data(), tensor(id).shape.size());
    note.bytes_written += *bytes;
    View made{static_cast<std::int32_t>(new_value(*bytes)), 0, tensor(id).shape, cpu::row_major(tensor(id).shape)};
    writes.push_back({static_cast<std::uint32_t>(made.value), 0, 0});
    define(id, std::move(made));
    id = import(id);
    subgraph.outputs.push_back(id);
  }
  subgraph.nodes.push_back(std::move(copy_of));
  paths_.reference(node.source, node.op);
  Vector<std::uint8_t> bytes;
  if (!options_.dry_run) {
    QR_ASSIGN_OR_RETURN(bytes, qir::write_graph(subgraph, pool_));
  }
  add_reference_step(node, {std::move(bytes), std::move(reads), std::move(writes)}, note, shapes.view());
  return {};
}

}  // namespace quarry::cpu
