// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/lower/lowering.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/lower/rules.h"
#include "base/checked.h"
#include "base/stop.h"

namespace quarry::cpu {

Lowering::Lowering(const qir::Graph &graph, Plan &plan, Constants &constants, qir::ConstantPool &pool,
                   NodePathTable &paths, const CompileOptions &options)
    : graph_(graph),
      plan_(plan),
      constants_(constants),
      uses_(graph),
      fusion_(graph, uses_),
      slots_(graph.tensors.size()),
      forms_(graph.tensors.size()),
      met_(graph.tensors.size()),
      pool_(pool),
      paths_(paths),
      options_(options) {}

Status Lowering::run() {
  QR_RETURN_IF_ERROR(stop_status("compile"));  // the constructor asks and has no Status
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const std::int32_t id = graph_.inputs[i];
    const qir::Tensor &t = tensor(id);
    const auto bytes = packed_size(t.dtype, count_of(t.shape));
    if (!bytes)
      return Status::error(ErrorId::run_shape, format("input '%s' is larger than memory can be", printable(t.name)));
    if (const Appended *const appended = appended_to(i)) {
      define_appended(*appended);
      continue;
    }
    const std::uint32_t value = new_value(*bytes);
    plan_.values[value] = {StorageKind::Input, static_cast<std::uint32_t>(i), 0, *bytes};
    define(id, View{static_cast<std::int32_t>(value), 0, t.shape, cpu::row_major(t.shape)});
  }
  find_slots();
  for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
    QR_RETURN_IF_ERROR(stop_status("compile"));
    QR_RETURN_IF_ERROR(lower(n));
  }
  return finish_outputs();
}

const Appended *Lowering::appended_to(std::size_t input) const {
  const auto found = std::ranges::find(options_.appended, input, &Appended::input);
  return found == options_.appended.end() ? nullptr : &*found;
}

// Input and output are views of one block.
void Lowering::define_appended(const Appended &appended) {
  const std::int32_t in = graph_.inputs[appended.input], out = graph_.outputs[appended.output];
  Dims dims = tensor(in).shape;
  dims[appended.axis] = appended.capacity;
  const std::uint32_t value = new_value(static_cast<std::uint64_t>(count_of(dims)) * width(in));
  plan_.values[value].storage = StorageKind::Output;
  plan_.values[value].index = appended.output;
  plan_.values[value].offset = kNoPlace;
  const View block{static_cast<std::int32_t>(value), 0, dims, cpu::row_major(dims)};
  define(in, sliced(block, appended.axis, 0, tensor(in).shape[appended.axis]));
  blocks_.push_back({appended.output, sliced(block, appended.axis, 0, tensor(out).shape[appended.axis])});
}

// (A decomposed operator gives its outputs by Identity; TensorScatter goes on where a Concat has put the new entries.)
const View *Lowering::block_of(std::int32_t id) const {
  for (const auto &[output, block] : blocks_) {
    std::int32_t made = graph_.outputs[output];
    for (std::int32_t maker; made != id && (maker = uses_.maker(made)) >= 0;) {
      const qir::Node &node = graph_.nodes[index_of(maker)];
      if (node.op != qir::Op::Identity && (node.op != qir::Op::TensorScatter || !uses_.used_once(node.inputs[0])))
        break;
      made = node.inputs[0];
    }
    if (made == id) return &block;
  }
  return nullptr;
}

// Outputs that are appended to otherwise, whole, when nothing reads the blocks any more.
void Lowering::finish_appended() {
  Vector<View> from;
  for (const auto &[output, block] : blocks_) {
    const std::int32_t id = graph_.outputs[output];
    View made = any(id);
    const Value &value = plan_.values[index_of(made.value)];
    const bool is_there = made.value == block.value && made.offset == 0 && made.strides == block.strides;
    if (!is_there && value.offset == kNoPlace && value.storage == StorageKind::Output) {  // a part of some block
      const View apart = new_row_major(made.dims, width(id));
      copy(made, apart, width(id), id);
      made = apart;
    }
    from.push_back(std::move(made));
  }
  for (std::size_t i = 0; i < from.size(); ++i)
    if (from[i].value != blocks_[i].second.value)
      copy(from[i], blocks_[i].second, width(graph_.outputs[blocks_[i].first]), graph_.outputs[blocks_[i].first]);
}

// Values that a step makes for an output are written where the caller wants them; else they are copied there.
Status Lowering::finish_outputs() {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    const std::int32_t id = graph_.outputs[i];
    current_ = nullptr;
    if (std::ranges::any_of(blocks_, [i](const auto &block) { return block.first == i; })) continue;
    const View from = row_major(id);
    Value &made = plan_.values[index_of(from.value)];
    const std::uint64_t bytes = *packed_size(tensor(id).dtype, count_of(tensor(id).shape));
    if (made.storage == StorageKind::Arena && from.offset == 0 && made.bytes == bytes) {
      made.storage = StorageKind::Output;  // its maker writes where the caller wants it
      made.index = static_cast<std::uint32_t>(i);
      continue;
    }
    const std::uint32_t value = new_value(bytes);
    plan_.values[value].storage = StorageKind::Output;
    plan_.values[value].index = static_cast<std::uint32_t>(i);
    // As bytes: elements under 8 bits are dense too.
    const std::uint64_t each = width(id);
    View source = from;
    source.dims = {static_cast<std::int64_t>(bytes)}, source.strides = {1},
    source.offset *= static_cast<std::int64_t>(each ? each : 1);
    copy(source, View{static_cast<std::int32_t>(value), 0, source.dims, source.strides}, 1, id);
  }
  finish_appended();
  return {};
}

// ---- rules --------------------------------------------------------------------------------------

Lowering::Mark Lowering::mark() const {
  return {plan_.values.size(), plan_.params.size(),       plan_.operands.size(),
          plan_.steps.size(),  constants_.entries.size(), constants_.owned.size(),
          defined_.size(),     plan_.scratch_bytes,       plan_.shared_bytes};
}

void Lowering::take_back(const Mark &to) {
  for (; defined_.size() > to.defined; defined_.pop_back()) forms_[index_of(defined_.back())].pop_back();
  const auto cut = [](auto &list, std::size_t size) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(size), list.end());
  };
  cut(plan_.values, to.values), cut(plan_.params, to.params), cut(plan_.operands, to.operands);
  cut(plan_.steps, to.steps), cut(plan_.notes, to.steps);
  cut(constants_.entries, to.entries), cut(constants_.owned, to.owned);
  plan_.scratch_bytes = to.scratch_bytes, plan_.shared_bytes = to.shared_bytes;
}

Result<Lowered> Lowering::try_rule(const Rule &rule, const Group &group) {
  if (rule.of_node && group.members.size() > 1) return Lowered::NotMine;
  const Mark before = mark();
  refused_ = false;
  Result<Lowered> made = rule.of_node ? rule.of_node(*this, node(group)) : rule.of_group(*this, group);
  if (!made.ok() && !refused_) return made;
  if (made.ok() && made.value() == Lowered::Done) return made;
  const Lowered answer = made.ok() ? made.value() : Lowered::Refused;
  if (answer == Lowered::NotMine && !(mark() == before)) ++traces_;
  take_back(before);
  return answer;
}

Result<Lowered> Lowering::lower_group(const Group &group) {
  const qir::Node &root = node(group);
  bool quantized = false;
  for (const auto *list : {&root.inputs, &root.outputs}) {
    for (const std::int32_t id : *list) {
      if (id == qir::kAbsent) continue;
      quantized |= tensor(id).quant.has_value();
      // Nothing to compute: cpu-reference knows what an empty sum is.
      if (count_of(tensor(id).shape) == 0) return Lowered::NotMine;
    }
  }
  if (group.attention) return try_rule(rule_of(RuleId::attention), group);
  if (group.members.size() == 1 && stays_narrow(root)) return Lowered::Done;
  const std::int32_t leading =
      !root.inputs.empty() && root.inputs[0] != qir::kAbsent ? root.inputs[0] : root.outputs[0];
  const DType first = leading == qir::kAbsent ? DType::Unknown : tensor(leading).dtype;
  for (const RuleId id : rules_for(root.op, quantized)) {
    if (id == RuleId::None) break;
    if (!takes_type(id, root.op, first)) continue;
    QR_ASSIGN_OR_RETURN(const Lowered made, try_rule(rule_of(id), group));
    if (made != Lowered::NotMine) return made;
  }
  return Lowered::NotMine;
}

Status Lowering::lower(std::size_t n) {
  const Group &group = fusion_.group_of(n);
  if (group.last != static_cast<std::int32_t>(n) || group.part_of_block) return {};
  if (group.expand >= 0) {
    current_ = &node(group);
    const std::size_t before = plan_.steps.size();
    QR_ASSIGN_OR_RETURN(const Lowered made, try_rule(rule_of(RuleId::block), group));
    if (made == Lowered::Done) {
      Group block = group;
      for (const std::int32_t part : {group.depthwise, group.expand}) {
        const Vector<std::int32_t> &members = fusion_.group(part).members;
        block.members.insert(block.members.begin(), members.begin(), members.end());
      }
      report_steps(block, before);
      return std::move(failed_);
    }
    QR_RETURN_IF_ERROR(lower_members(fusion_.group(group.expand)));
    QR_RETURN_IF_ERROR(lower_members(fusion_.group(group.depthwise)));
  }
  return lower_members(group);
}

// A group as one step, or each node of it by itself.
Status Lowering::lower_members(const Group &group) {
  current_ = &node(group);
  std::size_t before = plan_.steps.size();
  QR_ASSIGN_OR_RETURN(const Lowered whole, lower_group(group));
  if (whole == Lowered::Done) {
    report_steps(group, before);
    return std::move(failed_);
  }
  for (const std::int32_t member : group.members) {
    Group single;
    single.root = single.last = member;
    single.members = {member};
    current_ = &node(single);
    single.output = current_->outputs[0];
    before = plan_.steps.size();
    Lowered made = Lowered::NotMine;
    if (group.members.size() > 1) {
      QR_ASSIGN_OR_RETURN(made, lower_group(single));
    }
    if (made == Lowered::Done) report_steps(single, before);
    else QR_RETURN_IF_ERROR(lower_reference(*current_));
  }
  return std::move(failed_);
}

}  // namespace quarry::cpu
