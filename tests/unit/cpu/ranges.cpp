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

struct RangedRun {
  RangedRun(Builder &&from, std::size_t plans)
      : builder(std::move(from)),
        made(builder.graph),
        execution(*made.loaded().region, plans),
        request(made.loaded(), 1) {}
  void prepare(std::int64_t rows, std::int64_t mask_rows, Data *inputs) {
    shapes = {{rows, 64}, {mask_rows, 1}};
    Random random(static_cast<std::uint64_t>(rows));
    *inputs = made.random_inputs(random, &shapes);
    for (std::size_t i = 0; i < 2; ++i) {
      qr_io_buffer &input = request.inputs[i];
      input.data = (*inputs)[i].data(), input.size_bytes = (*inputs)[i].size(), input.dims[0] = shapes[i][0];
    }
    request.outputs[0].data = nullptr;
  }
  Status run_prepared(const qr_host *host = nullptr, const qr_plugin_signal *signal = nullptr) {
    std::uint64_t events = 0;
    qr_run_request asked = request.request;
    asked.signal = signal;
    return execution.run(request.inputs, request.outputs, asked, host ? *host : test_host(), &events);
  }
  Status run(std::int64_t rows, std::int64_t mask_rows, Data *inputs) {
    prepare(rows, mask_rows, inputs);
    return run_prepared();
  }
  // The same, compared with the reference's.
  Status run_right(std::int64_t rows) {
    Data inputs, expected;
    QR_RETURN_IF_ERROR(run(rows, rows, &inputs));
    QR_RETURN_IF_ERROR(made.run_reference(inputs, expected, &shapes));
    const auto *found = static_cast<const float *>(request.outputs[0].data);
    const Vector<float> right = floats_of(DType::F32, expected[0]);
    REQUIRE_EQ(request.outputs[0].used_bytes, expected[0].size());
    for (std::size_t k = 0; k < right.size(); ++k) REQUIRE(std::abs(found[k] - right[k]) <= 1e-4f);
    return {};
  }
  const Builder builder;
  PlanCase made;
  cpu::DynamicExecution execution;
  Request request;
  Vector<qir::Shape> shapes;
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
    REQUIRE_OK(sample.run_right(rows));
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

namespace {

// Refuses one block, the Nth.
class FailingAllocator final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    return ++asked == fail_at ? nullptr : malloc_allocator().allocate(size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    malloc_allocator().deallocate(ptr, size, align);
  }
  std::uint64_t asked = 0, fail_at = 0;
};

// Aborted when it has been asked so often.
class Impatient {
 public:
  explicit Impatient(std::int64_t after) : left_(after) {}
  const qr_plugin_signal &signal() const noexcept { return signal_; }
  static std::uint64_t clock(void *self) {
    auto *const one = static_cast<Impatient *>(self);
    return --one->left_ < 0 ? 2 : 0;
  }
  qr_host host() {
    qr_host host = test_host();
    host.self = this, host.clock_ns = clock;
    return host;
  }

 private:
  std::int64_t left_;
  qr_plugin_signal signal_ = {sizeof signal_, 0, nullptr, 1};
};

}  // namespace

TEST_CASE("memory that runs out while a plan is made: the plans stay, and the next run is right") {
  FailingAllocator allocator;  // what it gave out it takes back, when the plans end
  RangedRun sample(ranged(96), 2);
  REQUIRE(sample.made.ok());
  Data inputs;
  REQUIRE_OK(sample.run(5, 5, &inputs));
  int failures = 0;
  for (std::uint64_t n = 1;; n += 1 + n / 40) {
    allocator.asked = 0, allocator.fail_at = n;
    bool failed = false, ran = false;
    sample.prepare(40, 40, &inputs);
    {
      const AllocatorScope scope(allocator);
      try {
        ran = sample.run_prepared().ok();
      } catch (const std::bad_alloc &) {
        failed = true;
      }
    }
    if (allocator.asked < n) {
      CHECK(ran);
      break;
    }
    failures += failed || !ran;
    CHECK((failed || ran || allocator.asked >= n));
    // (What ran out may have been memory for a later part of the run: the plan is there then.)
    REQUIRE(sample.execution.plans() <= 2);
    REQUIRE_OK(sample.run_right(5));
    sample.execution.drop_plans();
    REQUIRE_OK(sample.run_right(5));
  }
  CHECK(failures > 50);
  REQUIRE_OK(sample.run_right(40));
  REQUIRE_OK(sample.run_right(41));
}

TEST_CASE("a stop while a plan is made: the plans stay, and the next run is right") {
  RangedRun sample(ranged(96), 4);
  REQUIRE(sample.made.ok());
  REQUIRE_OK(sample.run_right(5));
  Data inputs;
  int stopped = 0;
  for (std::int64_t after = 0;; after += 3) {
    Impatient impatient(after);
    sample.prepare(40, 40, &inputs);
    const qr_host host = impatient.host();
    const Status status = sample.run_prepared(&host, &impatient.signal());
    if (status.ok()) break;
    ++stopped;
    CAPTURE(std::string(status.message()));
    REQUIRE_EQ(status.code(), QR_DEADLINE_EXCEEDED);
    REQUIRE_OK(sample.run_right(5));
  }
  CHECK(stopped > 5);
  REQUIRE_OK(sample.run_right(40));
}

TEST_CASE("results stay until another run has ended well, though their plan had to go") {
  RangedRun sample(ranged(96), 1);
  REQUIRE(sample.made.ok());
  Data inputs;
  REQUIRE_OK(sample.run(7, 7, &inputs));
  const auto *const given = static_cast<const std::uint8_t *>(sample.request.outputs[0].data);
  const Data::value_type before(given, given + sample.request.outputs[0].used_bytes);
  for (std::int64_t after = 0;; after += 40) {  // a plan that is made, and runs that are stopped behind that
    Impatient impatient(after);
    sample.prepare(20, 20, &inputs);
    const qr_host host = impatient.host();
    if (sample.run_prepared(&host, &impatient.signal()).ok()) break;
    REQUIRE(std::equal(before.begin(), before.end(), given));
    CHECK_EQ(sample.run(1000, 1000, &inputs).id(), "QR-R0003");
    REQUIRE(std::equal(before.begin(), before.end(), given));
  }
  CHECK_EQ(sample.execution.plans(), 1u);
  REQUIRE_OK(sample.run_right(7));
}

TEST_CASE("shapes that a graph does not take are named, and the session is whole") {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, 4}), y = b.tensor(DType::F32, {-1, 8});
  b.node(Op::Reshape, {x, b.constant<std::int64_t>({2}, {-1, 8})}, {y});
  b.gives({y});
  b.graph.dimensions.push_back({"rows", 1, 16, {{0, 0}}, {}, 0});
  const PlanCase made(b.graph);
  REQUIRE(made.ok());
  cpu::DynamicExecution execution(*made.loaded().region, 2);
  Request request(made.loaded(), 1);
  const auto run = [&](std::int64_t rows) {
    static const float zeros[64] = {};
    qr_io_buffer &input = request.inputs[0];
    input.data = const_cast<float *>(zeros), input.size_bytes = static_cast<std::uint64_t>(rows) * 16,
    input.dims[0] = rows;
    request.outputs[0].data = nullptr;
    std::uint64_t events = 0;
    return execution.run(request.inputs, request.outputs, request.request, test_host(), &events);
  };
  REQUIRE_OK(run(4));
  const Status odd = run(3);
  CHECK_FALSE(odd.ok());
  CHECK(std::string_view(odd.message()).find("(with t1 [3,4])") != std::string_view::npos);
  CHECK_EQ(execution.plans(), 1u);
  REQUIRE_OK(run(6));
}
