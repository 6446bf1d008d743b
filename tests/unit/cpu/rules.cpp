// SPDX-License-Identifier: Apache-2.0
// What a rule of the lowering that does not take a group leaves in the plan: nothing.
#include <algorithm>

#include "backends/cpu/lower/rules.h"
#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::test;
using cpu::Lowered;
using qir::Op;

namespace {

// Writes something of every kind.
void write(cpu::Lowering &l, const qir::Node &node) {
  const cpu::View y = l.new_row_major({4}, 4);
  kernels::Fill fill;
  fill.count = 4;
  if (!l.emit_step(kernels::Kernel::Fill, fill, {cpu::arg(y)}).ok()) return;
  l.own_constant(Vector<std::uint8_t>(16));
  l.copy(l.constant_floats({1, 2, 3, 4}, {4}), y, 4, node.outputs[0]);
  l.define(node.outputs[0], y);
}

Result<Lowered> refuses_first(cpu::Lowering &, const qir::Node &) { return Lowered::NotMine; }
Result<Lowered> refuses_in_the_middle(cpu::Lowering &l, const qir::Node &node) {
  write(l, node);
  return Lowered::NotMine;
}
// A softmax of no rows: the kernel's check refuses it.
Result<Lowered> refused_by_a_kernel(cpu::Lowering &l, const qir::Node &node) {
  write(l, node);
  const cpu::View y = l.new_row_major({4}, 4);
  return l.finish_step(kernels::Kernel::SoftmaxF32, kernels::SoftmaxF32{-1, 4, 1, 1, 0}, {cpu::arg(y), cpu::arg(y)});
}
// An elementwise step of more loops than kernels have.
Result<Lowered> of_many_loops(cpu::Lowering &l, const qir::Node &node, bool binary) {
  write(l, node);
  const cpu::Dims dims(kernels::kLoopRank + 1, 2);
  cpu::View x = l.new_row_major(dims, 4), y = l.new_row_major(dims, 4);
  std::ranges::reverse(x.strides);
  if (binary) return cpu::done(cpu::emit_binary(l, kernels::BinaryOp::Add, x, x, y));
  kernels::Elements p;
  p.dtype = static_cast<std::uint32_t>(DType::F32);
  const cpu::View *const operands[] = {&x, &x};
  return cpu::done(cpu::emit_elements(l, p, operands, y));
}
Result<Lowered> binary_of_many_loops(cpu::Lowering &l, const qir::Node &node) { return of_many_loops(l, node, true); }
Result<Lowered> elements_of_many_loops(cpu::Lowering &l, const qir::Node &node) {
  return of_many_loops(l, node, false);
}
Result<Lowered> fails(cpu::Lowering &, const qir::Node &) {
  return Status::error(ErrorId::internal, "a rule that fails");
}
Result<Lowered> takes(cpu::Lowering &l, const qir::Node &node) {
  write(l, node);
  return Lowered::Done;
}
Result<Lowered> of_a_group(cpu::Lowering &, const cpu::Group &) { return Lowered::Done; }

}  // namespace

TEST_CASE("a rule that refuses leaves nothing in the plan") {
  Builder b;
  const std::int32_t x = b.input(DType::F32, {4}), y = b.tensor(DType::F32, {4});
  b.node(Op::Relu, {x}, {y});
  b.gives({y});
  REQUIRE_OK(qir::infer_graph(b.graph));
  qir::number_sources(b.graph);
  cpu::Plan plan;
  cpu::Constants constants;
  qir::ConstantPool pool;
  cpu::NodePathTable paths(b.graph, 0);
  cpu::CompileOptions options;
  plan.isa = options.isa = &kernels::best_isa();
  cpu::Lowering lowering(b.graph, plan, constants, pool, paths, options);
  cpu::Group group;
  group.root = group.last = 0, group.members = {0}, group.output = y;
  const auto empty = [&] {
    return plan.values.empty() && plan.steps.empty() && plan.notes.empty() && plan.params.empty() &&
           plan.operands.empty() && plan.scratch_bytes == 0 && constants.entries.empty() && constants.owned.empty() &&
           lowering.forms(y).empty();
  };
  const auto tried = [&](Result<Lowered> (*rule)(cpu::Lowering &, const qir::Node &)) {
    Result<Lowered> made = lowering.try_rule({nullptr, rule}, group);
    REQUIRE_OK(made.status());
    return made.value();
  };
  CHECK_EQ(tried(refuses_first) == Lowered::NotMine, true);
  CHECK_EQ(empty(), true);
  CHECK_EQ(lowering.traces(), 0u);
  CHECK_EQ(tried(refuses_in_the_middle) == Lowered::NotMine, true);
  CHECK_EQ(empty(), true);
  CHECK_EQ(lowering.traces(), 1u);  // a mistake of the rule, which compile() counts
  for (const auto rule : {refused_by_a_kernel, binary_of_many_loops, elements_of_many_loops}) {
    CHECK_EQ(tried(rule) == Lowered::Refused, true);
    CHECK_EQ(empty(), true);
  }
  CHECK_EQ(lowering.traces(), 1u);
  CHECK_EQ(lowering.try_rule({nullptr, fails}, group).status().ok(), false);  // what is no refusal is handed on
  CHECK_EQ(tried(takes) == Lowered::Done, true);
  CHECK_EQ(plan.steps.size(), 2u);
  CHECK_EQ(lowering.forms(y).size(), 1u);
  // Rules of one node are not tried for a group of several.
  cpu::Group two = group;
  two.members = {0, 0};
  CHECK_EQ(lowering.try_rule({nullptr, takes}, two).value() == Lowered::NotMine, true);
  CHECK_EQ(lowering.try_rule({of_a_group, nullptr}, two).value() == Lowered::Done, true);
}
