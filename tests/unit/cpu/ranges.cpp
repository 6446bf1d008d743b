// SPDX-License-Identifier: Apache-2.0
// One program for a range of shapes: right for each, weights packed once, plans bounded, what lies outside refused.
#include "backends/cpu/run/dynamic_region.h"
#include "graph/dimensions.h"
#include "tests/unit/cpu/dynamic_graphs.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

// Products, a softmax over the ranged axis, and a shape that is computed; "rows" is 1..high.
Builder ranged(std::int64_t high) {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, 64}), mask = b.input(DType::F32, {-1, 1});
  const i32 w = weights(b, {64, 64});
  const i32 p = b.tensor(DType::F32, {-1, 64}), r = b.tensor(DType::F32, {-1, 64}), shape = b.tensor(DType::I64, {2}),
            flat = b.tensor(DType::F32, {-1, -1}), soft = b.tensor(DType::F32, {-1, -1}),
            y = b.tensor(DType::F32, {-1, -1});
  b.node(Op::MatMul, {x, w}, {p});
  b.node(Op::Relu, {p}, {r});
  b.node(Op::Shape, {r}, {shape});
  b.node(Op::Reshape, {r, shape}, {flat});
  b.node(Op::Softmax, {flat}, {soft}).set("axis", std::int64_t{0});
  b.node(Op::Add, {soft, mask}, {y});
  b.gives({y});
  b.graph.dimensions.push_back({"rows", 1, high, {{0, 0}, {1, 0}}, {}, 0});
  return b;
}

struct RangedRun {
  RangedRun(Builder &&from, std::size_t plans)
      : builder(std::move(from)),
        made(builder.graph),
        execution(*made.loaded().region, plans),
        request(made.loaded(), 1) {}
  Status run(std::int64_t rows, std::int64_t mask_rows, Data *inputs) {
    const Vector<qir::Shape> shapes{{rows, 64}, {mask_rows, 1}};
    Random random(static_cast<std::uint64_t>(rows));
    *inputs = made.random_inputs(random, &shapes);
    for (std::size_t i = 0; i < 2; ++i) {
      qr_io_buffer &input = request.inputs[i];
      input.data = (*inputs)[i].data(), input.size_bytes = (*inputs)[i].size(), input.dims[0] = shapes[i][0];
    }
    request.outputs[0].data = nullptr;
    std::uint64_t events = 0;
    return execution.run(request.inputs, request.outputs, request.request, test_host(), &events);
  }
  const Builder builder;
  PlanCase made;
  cpu::DynamicExecution execution;
  Request request;
};

}  // namespace

TEST_CASE("shapes of a range: right, plans bounded, weights packed once") {
  constexpr std::size_t kPlans = 3;
  RangedRun sample(ranged(96), kPlans);
  REQUIRE(sample.made.ok());
  REQUIRE(sample.made.loaded().region->shared);
  CHECK_EQ(sample.made.loaded().region->shared->entries().size(), 1u);  // packed when it was compiled
  Random random(5);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t rows = random.integer(1, 96);
    Data inputs, expected;
    REQUIRE_OK(sample.run(rows, rows, &inputs));
    const Vector<qir::Shape> shapes{{rows, 64}, {rows, 1}};
    REQUIRE_OK(sample.made.run_reference(inputs, expected, &shapes));
    const auto *found = static_cast<const float *>(sample.request.outputs[0].data);
    const Vector<float> right = floats_of(DType::F32, expected[0]);
    REQUIRE_EQ(sample.request.outputs[0].used_bytes, expected[0].size());
    for (std::size_t k = 0; k < right.size(); ++k) REQUIRE(std::abs(found[k] - right[k]) <= 1e-4f);
    CHECK(sample.execution.plans() <= kPlans);
  }
  CHECK_EQ(sample.execution.plans(), kPlans);
  CHECK_EQ(sample.made.loaded().region->shared->entries().size(), 1u);
  CHECK_EQ(sample.made.loaded().region->shared->own_bytes(), 0u);  // it lies in the program's segment
}

TEST_CASE("what lies outside of a range is refused, and the next run is right") {
  RangedRun sample(ranged(8), 4);
  REQUIRE(sample.made.ok());
  Data inputs;
  const Status outside = sample.run(9, 9, &inputs);
  CHECK_EQ(outside.id(), "QR-R0003");
  CHECK(std::string_view(outside.message()).find("found 9 for dimension 'rows' (axis 0), expected 1..8") !=
        std::string_view::npos);
  const Status unequal = sample.run(3, 1, &inputs);
  CHECK_EQ(unequal.id(), "QR-R0003");
  CHECK(std::string_view(unequal.message()).find("expected 3, as input") != std::string_view::npos);
  CHECK_EQ(sample.execution.plans(), 0u);
  REQUIRE_OK(sample.run(8, 8, &inputs));
  CHECK_EQ(sample.execution.plans(), 1u);
}

TEST_CASE("plans are made ahead") {
  RangedRun sample(ranged(64), 8);
  REQUIRE(sample.made.ok());
  REQUIRE_OK(sample.execution.prepare("1,16,64"));
  CHECK_EQ(sample.execution.plans(), 3u);
  Data inputs;
  REQUIRE_OK(sample.run(16, 16, &inputs));
  CHECK_EQ(sample.execution.plans(), 3u);
  REQUIRE_OK(sample.execution.prepare("rows=2;rows=3"));
  CHECK_EQ(sample.execution.plans(), 5u);
  for (const char *bad : {"65", "rows=0", "row=4", "x", "rows=4,=", "rows"})
    CHECK_EQ(sample.execution.prepare(bad).id(), Status::error(ErrorId::bad_option_value, "").id());
}

TEST_CASE("numbers of dimensions and shapes that follow") {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, 4}), past = b.input(DType::F32, {-1, 4}), mask = b.input(DType::F32, {-1});
  b.gives({x, past, mask});
  b.graph.dimensions = {{"past", 0, 16, {{1, 0}}, {}, 0},
                        {"seq", 1, 8, {{0, 0}}, {}, 0},
                        {"past + 2*seq - 1", 0, qir::kMaxExtent, {{2, 0}}, {{0, 1}, {1, 2}}, -1}};
  REQUIRE_OK(qir::validate_graph(b.graph));
  CHECK((*qir::bound_shapes(b.graph, {3, 2, 0}) == Vector<qir::Shape>{{2, 4}, {3, 4}, {6}}));
  CHECK_FALSE(qir::bound_shapes(b.graph, {17, 2, 0}));
  const auto check = [&](std::int64_t seq, std::int64_t before, std::int64_t all) {
    const Vector<qir::Shape> shapes{{seq, 4}, {before, 4}, {all}};
    return qir::check_dimensions(b.graph, shapes);
  };
  CHECK_OK(check(2, 3, 6));
  CHECK_EQ(std::string_view(check(2, 3, 7).message()),
           "input t3: found 7 for dimension 'past + 2*seq - 1' (axis 0), expected 'past' (3) + 2 * 'seq' (2) + -1");
  CHECK_EQ(check(9, 3, 20).id(), "QR-R0003");
  // What no reader believes.
  const auto broken = [&](auto &&change) {
    qir::Graph graph = b.graph;
    change(graph.dimensions);
    return qir::validate_graph(graph);
  };
  CHECK_EQ(broken([](auto &d) { d[0].low = 17; }).id(), "QR-G0001");
  CHECK_EQ(broken([](auto &d) { d[0].places[0].input = 3; }).id(), "QR-G0001");
  CHECK_EQ(broken([](auto &d) { d[0].places[0].axis = 1; }).id(), "QR-G0001");
  CHECK_EQ(broken([](auto &d) { d[2].terms[0].dimension = 2; }).id(), "QR-G0001");
  // They are a part of the graph's bytes.
  qir::ConstantPool pool;
  auto bytes = qir::write_graph(b.graph, pool);
  REQUIRE_OK(bytes);
  auto again = qir::read_graph({bytes->data(), bytes->size()}, nullptr, 0);
  REQUIRE_OK(again);
  REQUIRE_EQ(again->dimensions.size(), 3u);
  CHECK_EQ(again->dimensions[2].name, "past + 2*seq - 1");
  CHECK((again->dimensions[2].terms == b.graph.dimensions[2].terms && again->dimensions[2].added == -1));
  CHECK((again->dimensions[0].places == b.graph.dimensions[0].places && again->dimensions[0].high == 16));
}
