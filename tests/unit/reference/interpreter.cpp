// SPDX-License-Identifier: Apache-2.0
// Whole graphs: memory plan, unknown dimensions, quantised bias, subgraphs, stopping, and a second run without
// allocations.
#include "backends/cpu-reference/interpreter.h"

#include <cstring>

#include "tests/unit/reference/graph_builder.h"

using namespace quarry;
using namespace quarry::reference;
using qir::Op;
using quarry::test::Builder;
using i32 = std::int32_t;
using i64 = std::int64_t;

namespace {

template <class T>
IoBuffer buffer(std::initializer_list<i64> shape, T *data) {
  IoBuffer io;
  io.data = data;
  io.rank = static_cast<std::uint32_t>(shape.size());
  i64 count = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) count *= io.dims[i] = shape.begin()[i];
  io.size_bytes = static_cast<std::uint64_t>(count) * sizeof(T);
  return io;
}

struct Alone final : Environment {
} g_alone;

class CountingAllocator final : public Allocator {
 public:
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    ++count;
    return malloc_allocator().allocate(size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    malloc_allocator().deallocate(ptr, size, align);
  }
  int count = 0;
};

}  // namespace

TEST_CASE("a chain shares its arena") {
  Builder b;
  i32 last = b.input(DType::F32, {1000});
  for (int i = 0; i < 10; ++i) {
    const i32 next = b.tensor(DType::F32, {1000});
    b.node(Op::Neg, {last}, {next});
    last = next;
  }
  b.gives({last});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  CHECK_EQ(program.value()->arena_bytes(), 2 * 4032u);  // one in use, one being made; 4000 bytes aligned to 64

  Vector<std::uint64_t> offsets;
  program.value()->append_plan(offsets);
  std::span<const std::uint64_t> plan(offsets);
  CHECK_OK(Program::build(b.graph, &plan).status());
  CHECK(plan.empty());
  // Plans that a damaged blob could hold.
  for (const auto &[index, value] : {std::pair<std::size_t, std::uint64_t>{2, offsets[3]},
                                     {2, 1 << 20},
                                     {2, 32},
                                     {0, 4032},
                                     {3, ~std::uint64_t{0} << 6}}) {
    Vector<std::uint64_t> broken = offsets;
    broken[index] = value;
    std::span<const std::uint64_t> view(broken);
    CHECK_EQ(Program::build(b.graph, &view).status().id(), "QR-B0005");
  }
  std::span<const std::uint64_t> cut(offsets.data(), 5);
  CHECK_EQ(Program::build(b.graph, &cut).status().id(), "QR-B0005");
}

TEST_CASE("a declared shape is not believed") {
  Builder b;
  const i32 x = b.input(DType::F32, {4}), y = b.tensor(DType::F32, {2});
  b.node(Op::Neg, {x}, {y});
  b.gives({y});
  CHECK_EQ(Program::build(b.graph).status().id(), "QR-G0004");
}

TEST_CASE("the second run allocates nothing") {
  CountingAllocator counting;
  AllocatorScope scope(counting);
  Builder b;  // f16 and quantised operands need conversions, the output is both used and given
  const i32 x = b.input(DType::F16, {8}), h = b.tensor(DType::F16, {8}), q = b.tensor(DType::I8, {8}),
            y = b.tensor(DType::F32, {8});
  b.node(Op::Exp, {x}, {h});
  b.node(Op::Relu, {h}, {q});
  b.quantize(q, {0.5f}, {0});
  b.node(Op::Neg, {q}, {y});
  b.gives({q, y});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  const std::uint16_t in[8] = {0, 0x3c00, 0, 0, 0, 0, 0, 0xbc00};
  float out[8] = {};
  std::int8_t stored[8] = {};
  int before = 0;
  for (int run = 0; run < 3; ++run) {
    before = counting.count;
    IoBuffer inputs[] = {buffer({8}, const_cast<std::uint16_t *>(in))},
             outputs[] = {buffer({8}, stored), buffer({8}, out)};
    CHECK_OK(execution.run(inputs, 1, outputs, 2, g_alone));
    CHECK_EQ(outputs[1].used_bytes, 32u);
  }
  CHECK_EQ(counting.count, before);
  CHECK_EQ(out[0], -1.0f);
  CHECK_EQ(out[1], -2.5f);  // e = 2.718 -> 5.4 steps of 0.5
  CHECK_EQ(stored[7], 1);   // 0.368 -> 0.74 steps
}

TEST_CASE("room and alignment of outputs") {
  Builder b;
  const i32 x = b.input(DType::F32, {2}), y = b.tensor(DType::F32, {2});
  b.node(Op::Neg, {x}, {y});
  b.gives({y, x, y});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  float in[2] = {1, 2};
  alignas(4) char odd[9], second[8];
  IoBuffer inputs[] = {buffer({2}, in)}, outputs[3];
  outputs[0].data = odd + 1;
  outputs[0].size_bytes = 8;
  outputs[2].data = second;
  outputs[2].size_bytes = 8;
  CHECK_OK(execution.run(inputs, 1, outputs, 3, g_alone));
  float got[2];
  std::memcpy(got, odd + 1, 8);
  CHECK((got[0] == -1 && got[1] == -2));
  CHECK(outputs[1].data == in);  // an output that is an input
  CHECK(std::memcmp(second, got, 8) == 0);
  outputs[0].size_bytes = 7;
  CHECK_EQ(execution.run(inputs, 1, outputs, 3, g_alone).id(), "QR-R0005");
  inputs[0].size_bytes = 4;
  CHECK_EQ(execution.run(inputs, 1, outputs, 3, g_alone).id(), "QR-R0004");
  inputs[0] = buffer({1}, in);
  CHECK_EQ(execution.run(inputs, 1, outputs, 3, g_alone).id(), "QR-R0003");
}

TEST_CASE("unknown dimensions") {
  // NonZero gives [1, ?]; its transpose and the sum after it follow.
  Builder b;
  const i32 x = b.input(DType::F32, {-1}), where = b.tensor(DType::I64, {1, -1}),
            turned = b.tensor(DType::I64, {-1, 1}), twice = b.tensor(DType::I64, {-1, 1});
  b.node(Op::NonZero, {x}, {where});
  b.node(Op::Transpose, {where}, {turned});
  b.node(Op::Add, {turned, turned}, {twice});
  b.gives({twice});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  float in[5] = {0, 3, 0, 4, 5};
  for (i64 length : {5, 3, 1, 0, 5}) {
    IoBuffer inputs[] = {buffer({length}, in)}, outputs[1];
    CHECK_OK(execution.run(inputs, 1, outputs, 1, g_alone));
    CHECK_EQ(outputs[0].dims[0], length == 5 ? 3 : length == 3 ? 1 : 0);
    if (length == 5) CHECK_EQ(static_cast<const i64 *>(outputs[0].data)[2], 8);
  }
}

TEST_CASE("a quantised bias needs no quantisation of its own") {
  for (const bool own : {false, true}) {
    Builder b;
    const i32 x = b.input(DType::U8, {1, 1, 2, 2}), w = b.constant<std::int8_t>({2, 1, 1, 1}, {2, 4}),
              bias = b.constant<i32>({2}, {8, -8});
    const i32 y = b.tensor(DType::U8, {1, 2, 2, 2});
    b.quantize(x, {0.5f}, {10}).quantize(w, {0.25f, 0.5f}, {0, 0}).quantize(y, {0.25f}, {100});
    if (own) b.quantize(bias, {0.125f, 0.25f}, {0, 0});
    b.node(Op::Conv, {x, w, bias}, {y});
    b.gives({y});
    auto program = Program::build(b.graph);
    CHECK_OK(program.status());
    Execution execution(**program);
    std::uint8_t in[4] = {10, 12, 14, 8}, out[8];
    IoBuffer inputs[] = {buffer({1, 1, 2, 2}, in)}, outputs[] = {buffer({1, 2, 2, 2}, out)};
    CHECK_OK(execution.run(inputs, 1, outputs, 1, g_alone));
    // real x = 0 1 2 -1; channel 0: 0.5 x + 1, channel 1: 2 x - 2; stored = real / 0.25 + 100
    const std::uint8_t expected[8] = {104, 106, 108, 102, 92, 100, 108, 84};
    CHECK(std::memcmp(out, expected, 8) == 0);
  }
}

namespace {
// while (condition) { sum += x; condition = iteration < limit; scanned = sum }
Builder loop_graph(i64 trips) {
  Builder body;
  const i32 iteration = body.input(DType::I64, {}), condition = body.input(DType::Bool, {}),
            sum = body.input(DType::F32, {2});
  const i32 x = body.input(DType::F32, {2}), limit = body.constant<i64>({}, {2});
  const i32 next = body.tensor(DType::Bool, {}), added = body.tensor(DType::F32, {2});
  static_cast<void>(condition);
  body.node(Op::Less, {iteration, limit}, {next});
  body.node(Op::Add, {sum, x}, {added});
  body.gives({next, added, added});

  Builder b;
  const i32 start = b.input(DType::F32, {2}), step = b.input(DType::F32, {2}), count = b.constant<i64>({}, {trips});
  const i32 result = b.tensor(DType::F32, {2}), all = b.tensor(DType::F32, {-1, 2});
  qir::Node &node = b.node(Op::Loop, {count, qir::kAbsent, start, step}, {result, all});
  node.set("carried", i64{1});
  node.subgraphs.push_back(std::move(body.graph));
  for (auto &[key, bytes] : body.data) b.data[key + 1000] = std::move(bytes);
  b.gives({result, all});
  return b;
}
}  // namespace

TEST_CASE("loop") {
  for (const i64 trips : {10, 2, 0}) {
    Builder b = loop_graph(trips);
    auto program = Program::build(b.graph);
    CHECK_OK(program.status());
    Execution execution(**program);
    float start[2] = {0, 1}, step[2] = {1, 10};
    for (int run = 0; run < 2; ++run) {
      IoBuffer inputs[] = {buffer({2}, start), buffer({2}, step)}, outputs[2];
      CHECK_OK(execution.run(inputs, 2, outputs, 2, g_alone));
      const float rounds = trips == 10 ? 3 : static_cast<float>(trips);  // the condition ends the first after three
      CHECK_EQ(static_cast<const float *>(outputs[0].data)[1], 1 + 10 * rounds);
      CHECK_EQ(outputs[1].dims[0], static_cast<i64>(rounds));
      if (trips != 0) CHECK_EQ(static_cast<const float *>(outputs[1].data)[2], 2.0f);
    }
  }
}

TEST_CASE("scan backwards over columns") {
  Builder body;  // state += slice; the slice itself is given
  const i32 state = body.input(DType::F32, {2}), slice = body.input(DType::F32, {2}),
            added = body.tensor(DType::F32, {2});
  body.node(Op::Add, {state, slice}, {added});
  body.gives({added, added});
  Builder b;
  const i32 start = b.input(DType::F32, {2}), x = b.input(DType::F32, {2, 3}), last = b.tensor(DType::F32, {2}),
            all = b.tensor(DType::F32, {2, 3});
  qir::Node &node = b.node(Op::Scan, {start, x}, {last, all});
  node.set("num_scan_inputs", i64{1});
  node.set("states", i64{1});
  for (const char *axes : {"scan_input_axes", "scan_output_axes"}) node.set(axes, Vector<i64>{1});
  for (const char *directions : {"scan_input_directions", "scan_output_directions"})
    node.set(directions, Vector<i64>{1});
  node.subgraphs.push_back(std::move(body.graph));
  b.gives({last, all});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  float zero[2] = {}, in[6] = {1, 2, 3, 10, 20, 30}, sums[2], out[6];
  IoBuffer inputs[] = {buffer({2}, zero), buffer({2, 3}, in)}, outputs[] = {buffer({2}, sums), buffer({2, 3}, out)};
  CHECK_OK(execution.run(inputs, 2, outputs, 2, g_alone));
  const float expected[6] = {6, 5, 3, 60, 50, 30};
  CHECK((sums[0] == 6 && sums[1] == 60));
  CHECK(std::memcmp(out, expected, sizeof out) == 0);
}

TEST_CASE("if passes small elements") {
  Builder branches[2];
  Builder b;
  const i32 condition = b.input(DType::Bool, {}), x = b.input(DType::U4, {3}), y = b.tensor(DType::U4, {3});
  qir::Node &node = b.node(Op::If, {condition, x}, {y});
  for (int i = 0; i < 2; ++i) {
    const i32 in = branches[i].input(DType::U4, {3}), other = branches[i].constant<i64>({1}, {3}),
              out = branches[i].tensor(DType::U4, {3});
    if (i == 0) branches[i].node(Op::Identity, {in}, {out});
    else branches[i].node(Op::Reshape, {in, other}, {out});
    branches[i].gives({out});
    node.subgraphs.push_back(std::move(branches[i].graph));
  }
  b.gives({y});
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  for (std::uint8_t truth : {1, 0}) {
    std::uint8_t in[2] = {0x21, 0x03}, out[2] = {};
    IoBuffer inputs[] = {buffer({}, &truth), buffer({2}, in)}, outputs[] = {buffer({2}, out)};
    inputs[1].dims[0] = 3;
    CHECK_OK(execution.run(inputs, 2, outputs, 1, g_alone));
    CHECK(std::memcmp(in, out, 2) == 0);
  }
}

TEST_CASE("a stopped run says why") {
  Builder b = loop_graph(1'000'000'000);
  b.graph.nodes[0].subgraphs[0].nodes[0].op = Op::LessOrEqual;  // iteration <= limit; made endless below
  struct Stopping final : Environment {
    mutable int polls = 0;
    bool stopped() const noexcept override { return ++polls > 3; }
    Status stop_reason() override { return Status::error(ErrorId::cancelled, "run: stopped by the test"); }
  } environment;
  auto program = Program::build(b.graph);
  CHECK_OK(program.status());
  Execution execution(**program);
  float in[2] = {};
  IoBuffer inputs[] = {buffer({2}, in), buffer({2}, in)}, outputs[2];
  CHECK_EQ(execution.run(inputs, 2, outputs, 2, environment).id(), "QR-C0011");
  CHECK_OK(execution.run(inputs, 2, outputs, 2, g_alone));  // and can be run again
}

TEST_CASE("refusals name node and type") {
  Builder b;
  const i32 x = b.input(DType::U8, {2}), y = b.tensor(DType::U8, {2});
  b.node(Op::Exp, {x}, {y});
  const Status status = check_node(b.graph, b.graph.nodes[0]);
  CHECK_EQ(status.id(), "QR-B0003");
  CHECK(status.message().find("Exp 'n1'") != std::string_view::npos);
  CHECK(status.message().find("u8") != std::string_view::npos);
}

// A graph of such a rank is refused before a backend sees it; the backend does not rely on that.
TEST_CASE("refusals name the limit") {
  Builder b;
  const i32 x = b.input(DType::F32, {1, 1, 1, 1, 1, 1, 1, 1, 2}), y = b.tensor(DType::F32, {2});
  b.node(Op::Exp, {x}, {y});
  const Status status = check_node(b.graph, b.graph.nodes[0]);
  CHECK_EQ(status.id(), "QR-B0004");
  CHECK_EQ(status.message(), "Exp 'n1': tensor 't1' has 9 dimensions, expected at most 8");
}
