// SPDX-License-Identifier: Apache-2.0
// What `quarry ops` says of cpu is what lowering does: a type that a rule takes has kernels, every other one that is
// taken is cpu-reference's.
#include "backends/cpu/lower/coverage.h"

#include "backends/cpu-reference/program.h"
#include "backends/cpu/lower/rewrite.h"
#include "graph/ops/op_spec.h"
#include "kernels/reference/kernel.h"
#include "tests/unit/cpu/one_node.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;

namespace {

bool needs_attributes(const qir::OpRow &row) {
  qir::AttributeSpec spec;
  for (qir::AttributeSpecs walk(row.attributes); walk.next(&spec);)
    if (spec.required) return true;
  return false;
}

}  // namespace

TEST_CASE("the types of coverage are those that are lowered") {
  constexpr DType kTypes[] = {DType::F32, DType::F16, DType::F64, DType::I8,  DType::U8,  DType::I16,
                              DType::U16, DType::I32, DType::U32, DType::I64, DType::U64, DType::Bool};
  std::size_t native = 0, left = 0;
  for (std::size_t i = 0; i < qir::op_count(); ++i) {
    const auto op = static_cast<Op>(i);
    const qir::OpRow &row = qir::op_row(op);
    const reference::KernelRow *const kernel = reference::find_kernel(op);
    // Of one operand or two; what is computed from shapes alone has no step.
    if (!kernel || row.min_inputs > 2 || row.min_inputs < 1 || row.min_outputs > 1 || needs_attributes(row) ||
        op == Op::Shape || op == Op::Size || cpu::decomposes(op))
      continue;
    for (const DType dtype : kTypes) {
      OneNode one(i);
      Vector<std::int32_t> inputs;
      inputs.push_back(one.input(dtype, {2, 4, 6, 6}));
      if (row.min_inputs == 2 && row.family == qir::OpFamily::Convolution)
        inputs.push_back(one.constant(dtype, {2, 4, 3, 3}));  // filters
      else if (row.min_inputs == 2 && row.family == qir::OpFamily::Normalization)
        inputs.push_back(one.input(dtype, {6}));  // scales of rows
      else if (row.min_inputs == 2) inputs.push_back(one.input(dtype, {2, 4, 6, 6}));
      const std::int32_t made = one.shaped(dtype, {});
      one.b.node(op, inputs, {made});
      one.b.graph.outputs = {made};
      if (!qir::infer_graph(one.b.graph).ok() || !reference::check_node(one.b.graph, one.b.graph.nodes[0]).ok())
        continue;
      const PlanCase sample(one.b.graph);
      if (!sample.ok() || sample.steps().find("region") != std::string::npos) continue;  // shapes are computed
      const std::string what = std::string(qir::op_name(op)) + " of " + dtype_name(dtype);
      const bool said = by_rule(op, dtype);
      (said ? native : left) += 1;
      CHECK_MESSAGE((sample.reference_steps() == 0) == said, what, ": ", sample.steps());
    }
  }
  CHECK_GT(native, 400u);
  CHECK_GT(left, 50u);
}

TEST_CASE("notes of coverage") {
  CHECK_EQ(cpu::note_of(Op::Relu), "");
  CHECK_EQ(cpu::note_of(Op::Det), "by the reference");
  CHECK_EQ(cpu::note_of(Op::SwiGLU), "decomposed");
  CHECK_EQ(cpu::note_of(Op::Gelu), "by the reference: f64");
  CHECK_EQ(cpu::note_of(Op::MaxPool), "by the reference: f64; more than two axes of space; indices");
}
