// SPDX-License-Identifier: Apache-2.0
// Graphs with data-dependent shapes: what comes before them is planned, what depends on them is planned
// for each shape or left to cpu-reference, and the results are cpu-reference's.
#include "backends/cpu/run/dynamic_region.h"
#include "tests/unit/cpu/dynamic_graphs.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

TEST_CASE("what comes before NonMaxSuppression is planned") {
  const Detector detector;
  const PlanCase sample(detector.graph);
  REQUIRE(sample.ok());
  CHECK_EQ(sample.reference_steps(), 0);
  CHECK_EQ(sample.count(kernels::Kernel::ConvF32), 2);  // boxes and scores are of one
  CHECK_EQ(sample.plan().steps.back().kernel, cpu::kRegionStep);
  Random random(1);
  for (int i = 0; i < 5; ++i) same_results(sample, "a detector", random, 1e-5f);
}

TEST_CASE("what depends on data-dependent shapes is planned when it has matrix multiplications") {
  for (const bool twice : {false, true}) {
    const ChosenRows rows(twice);
    const PlanCase sample(rows.graph);
    REQUIRE(sample.ok());
    CHECK((sample.loaded().region && sample.loaded().region->pieces.rest_has_contractions));
    Random random(1);
    for (int i = 0; i < 20; ++i) same_results(sample, twice ? "chosen twice" : "chosen rows", random, 1e-5f);
  }
}

// One execution, many shapes: plans are kept, and not too many.
TEST_CASE("plans of the last shapes are kept") {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, 3}), w = b.constant<float>({3, 2}, {1, 2, 3, 4, 5, 6}),
            y = b.tensor(DType::F32, {-1, 2}), where = b.tensor(DType::I64, {2, -1});
  b.node(Op::MatMul, {x, w}, {y});
  b.node(Op::NonZero, {y}, {where});
  b.gives({y, where, x});
  const PlanCase sample(b.graph);
  REQUIRE(sample.ok());
  CHECK_EQ(sample.steps(), "region");
  cpu::DynamicExecution execution(*sample.loaded().region, cpu::DynamicExecution::kPlansKept);
  Request made(sample.loaded(), 1);
  std::size_t plans = 0;
  for (const std::int64_t rows : {4, 1, 4, 9, 2, 4, 5, 1}) {
    const Vector<qir::Shape> shapes{{rows, 3}};
    Random random(7);
    const Data inputs = sample.random_inputs(random, &shapes);
    Data expected;
    REQUIRE_OK(sample.run_reference(inputs, expected, &shapes));
    Vector<std::uint8_t> input = inputs[0];
    made.inputs[0].data = input.data(), made.inputs[0].size_bytes = input.size(), made.inputs[0].dims[0] = rows;
    for (qr_io_buffer &output : made.outputs) output.data = nullptr;
    std::uint64_t events = 0;
    REQUIRE_OK(execution.run(made.inputs, made.outputs, made.request, test_host(), &events));
    for (std::size_t i = 0; i < expected.size(); ++i) {
      REQUIRE_EQ(made.outputs[i].used_bytes, expected[i].size());
      CHECK_EQ(std::memcmp(made.outputs[i].data, expected[i].data(), expected[i].size()), 0);
    }
    plans = std::max(plans, execution.plans());
  }
  CHECK_EQ(plans, cpu::DynamicExecution::kPlansKept);
  made.inputs[0].size_bytes = 4;
  std::uint64_t events = 0;
  CHECK_EQ(execution.run(made.inputs, made.outputs, made.request, test_host(), &events).id(), "QR-R0004");
}

TEST_CASE("a result without room is reported, also the dynamic region's") {
  const Detector detector;
  const PlanCase sample(detector.graph);
  REQUIRE(sample.ok());
  cpu::Execution execution(sample.loaded());
  Request made(sample.loaded(), 1);
  Random random(1);
  Data inputs = sample.random_inputs(random);
  made.inputs[0].data = inputs[0].data(), made.inputs[0].size_bytes = inputs[0].size();
  std::int64_t room[1];
  made.outputs[0].data = room, made.outputs[0].size_bytes = sizeof room;
  CHECK_EQ(execution.run(made.request, test_host()).id(), Status::error(ErrorId::run_room, "").id());
  made.outputs[0] = {};  // not wanted
  made.outputs[2] = {};
  REQUIRE_OK(execution.run(made.request, test_host()));
  CHECK_EQ(made.outputs[0].data, nullptr);
  CHECK_EQ(made.outputs[1].used_bytes, 8 * 8 * 8 * sizeof(float));
}
