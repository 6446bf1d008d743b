// SPDX-License-Identifier: Apache-2.0
// What the executor reports of a step: the node, what ran it, what was fused into it, shapes and bytes.
#include "backends/common/node_event.h"
#include "tests/unit/cpu/random_graph.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

struct EventNet : RandomGraph {
  EventNet() : RandomGraph(1) {}
  using RandomGraph::input, RandomGraph::node, RandomGraph::reals, RandomGraph::scalar, RandomGraph::integers;
  const qir::Graph &gives(std::initializer_list<i32> outputs) {
    graph_.outputs.assign(outputs);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) graph_.nodes[i].name = format("n%zu", i);
    return graph_;
  }
};

std::string text_of(qr_plugin_string text) { return std::string(plugin::view(text)); }

// "n0 | ConvF32 | 1x8 f32 -> 1x8 f32 | n1 | 32 32", per event.
struct Events {
  std::vector<std::string> lines;
  std::vector<std::int64_t> nodes;
  qr_profile_sink sink{};
  explicit Events(std::uint32_t level) {
    sink.struct_size = sizeof sink;
    sink.level = level;
    sink.self = this;
    sink.event = [](void *self, const qr_plugin_event *event) {
      Events &to = *static_cast<Events *>(self);
      std::string line = text_of(event->name);
      for (const char *key : {"kernel", "shapes", "fused"}) {
        line += " | ";
        for (std::uint64_t i = 0; i < event->attribute_count; ++i)
          if (text_of(event->attributes[i].key) == key) line += text_of(event->attributes[i].value);
      }
      line += " |";
      for (std::uint64_t i = 0; i < event->counter_count; ++i) {
        CHECK_EQ(text_of(event->counters[i].name), i == 0 ? "bytes read" : "bytes written");
        CHECK_EQ(text_of(event->counters[i].unit), "bytes");
        line += " " + std::to_string(event->counters[i].value);
      }
      CHECK_EQ(event->level, QR_PLUGIN_PROFILE_DETAILED);
      CHECK_EQ(text_of(event->kind), "node");
      to.lines.push_back(line);
      to.nodes.push_back(event->node);
    };
  }
};

// Runs twice; the second time is profiled, which costs no allocation.
Events events_of(const PlanCase &sample, std::uint32_t level = QR_PLUGIN_PROFILE_LINTING) {
  Events events(level);
  Random random(1);
  Data inputs = sample.random_inputs(random);
  Request made(sample.loaded(), 1);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    made.inputs[i].data = inputs[i].data(), made.inputs[i].size_bytes = inputs[i].size();
  CountingAllocator counting;
  AllocatorScope scope(counting);
  cpu::Execution execution(sample.loaded());
  REQUIRE_OK(execution.run(made.request, test_host()));
  for (qr_io_buffer &output : made.outputs) output.data = nullptr;
  const int before = counting.count;
  made.request.profile = &events.sink;
  REQUIRE_OK(execution.run(made.request, test_host()));
  CHECK_EQ(counting.count, before);
  return events;
}

std::string kernel(const char *name) { return std::string(name) + " (" + kernels::best_isa().name + ")"; }

void check_lines(const Events &events, const std::vector<std::string> &expected) {
  REQUIRE_EQ(events.lines.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK_EQ(events.lines[i], expected[i]);
}

}  // namespace

TEST_CASE("a convolution says what it took in, and what it reads and writes") {
  EventNet net;
  const i32 x = net.input(DType::F32, {1, 8, 6, 6});
  i32 y = net.node(Op::Conv, {x, net.reals({64, 8, 2, 2}, -1, 1), net.reals({64}, -1, 1)});
  y = net.node(Op::Clip, {y, net.reals({}, 0, 0), net.reals({}, 6, 6)});
  const PlanCase sample(net.gives({y}));
  REQUIRE(sample.ok());
  const Events events = events_of(sample);
  // 8 * 36 floats come in the order of ONNX and go out in it. 64 * 32 weights and 64 biases; 64 * 25 results.
  check_lines(events,
              {
                  "n0 | " + kernel("Copy") + " | 1x8x6x6 f32 -> 1x8x6x6 f32 |  | 1152 1152",
                  "n0 | " + kernel("ConvF32") + " | 1x8x6x6 f32, 64x8x2x2 f32, 64 f32 -> 1x64x5x5 f32 | n1 | 9600 6400",
                  "output | " + kernel("Copy") + " | 1x64x5x5 f32 -> 1x64x5x5 f32 |  | 6400 6400",
              });
  CHECK_EQ(events.nodes[0], 0);
  CHECK_EQ(events.nodes[1], 0);
  CHECK_EQ(events.nodes[2], -1);
}

TEST_CASE("a composite operator names its pieces, a reference kernel itself") {
  EventNet net;
  const i32 x = net.input(DType::F32, {4, 6, 6});
  const i32 erf = net.node(Op::Erf, {net.node(Op::Div, {x, net.scalar(1.41421356f)})});           // 0, 1
  const i32 gate = net.node(Op::Mul, {x, net.node(Op::Add, {erf, net.scalar(1)})});               // 2, 3
  const i32 gelu = net.node(Op::Mul, {gate, net.scalar(0.5f)}), det = net.node(Op::Det, {gelu});  // 4, 5
  const PlanCase sample(net.gives({det}));
  REQUIRE(sample.ok());
  check_lines(events_of(sample),
              {
                  "n4 | " + kernel("UnaryF32") + " | 4x6x6 f32 -> 4x6x6 f32 | n0, n1, n2, n3 | 576 576",
                  "n5 | reference | 4x6x6 f32 -> 4 f32 |  | 576 16",
              });
}

TEST_CASE("bytes are those that are used") {
  EventNet net;
  // Two rows of a table of a hundred; a convolution writes its half of the channels, not what lies between.
  const i32 rows = net.node(Op::Gather, {net.reals({100, 16}, -1, 1), net.input(DType::I64, {2})});
  const i32 x = net.input(DType::F32, {1, 8, 2, 2});
  const auto conv = [&] { return net.node(Op::Conv, {x, net.reals({64, 8, 1, 1}, -1, 1)}); };
  const i32 a = conv(), b = conv();
  const i32 both = net.node(Op::Concat, {a, b}, [](qir::Node &node) { node.set("axis", std::int64_t{1}); });
  const PlanCase sample(net.gives({rows, both}));
  REQUIRE(sample.ok());
  check_lines(events_of(sample),
              {
                  "n0 | " + kernel("Gather") + " | 100x16 f32, 2 i64 -> 2x16 f32 |  | 144 128",
                  "n1 | " + kernel("Copy") + " | 1x8x2x2 f32 -> 1x8x2x2 f32 |  | 128 128",
                  "n1 | " + kernel("ConvF32") + " | 1x8x2x2 f32, 64x8x1x1 f32 -> 1x64x2x2 f32 |  | 2176 1024",
                  "n2 | " + kernel("ConvF32") + " | 1x8x2x2 f32, 64x8x1x1 f32 -> 1x64x2x2 f32 |  | 2176 1024",
                  "output | " + kernel("Copy") + " | 1x128x2x2 f32 -> 1x128x2x2 f32 |  | 2048 2048",
              });
}

TEST_CASE("a level gets what it asks for") {
  EventNet net;
  const i32 y = net.node(Op::Relu, {net.input(DType::F32, {3})});
  const PlanCase sample(net.gives({y}));
  REQUIRE(sample.ok());
  check_lines(events_of(sample, QR_PLUGIN_PROFILE_BASIC), {});
  check_lines(events_of(sample, QR_PLUGIN_PROFILE_DETAILED), {"n0 |  |  |  |"});
  check_lines(events_of(sample, QR_PLUGIN_PROFILE_LINTING),
              {"n0 | " + kernel("UnaryF32") + " | 3 f32 -> 3 f32 |  | 12 12"});
}

TEST_CASE("a graph of unknown dimensions says the shapes of its run") {
  Builder builder;
  const i32 x = builder.input(DType::F32, {-1, 3}), y = builder.tensor(DType::F32, {-1, 3});
  builder.node(Op::Relu, {x}, {y});
  builder.gives({y});
  const PlanCase sample(builder.graph);
  REQUIRE(sample.ok());
  Events events(QR_PLUGIN_PROFILE_TRACE);
  Data inputs = {Vector<std::uint8_t>(24)};
  Request made(sample.loaded(), 1);
  made.inputs[0].data = inputs[0].data(), made.inputs[0].size_bytes = 24, made.inputs[0].dims[0] = 2;
  made.request.profile = &events.sink;
  cpu::Execution execution(sample.loaded());
  REQUIRE_OK(execution.run(made.request, test_host()));
  REQUIRE_EQ(events.lines.size(), 1);
  CHECK_NE(events.lines[0].find(" | reference | 2x3 f32 -> 2x3 f32 |  | 24 24"), std::string::npos);
}

// ---- the text of shapes ----------------------------------------------------------------------------

TEST_CASE("shapes that have no room are left out") {
  plugin::ShapesText text;
  const std::int64_t dims[] = {1024, 1024, 1024, 1024};
  text.input(DType::I64, nullptr, 0);
  for (int i = 0; i < 100; ++i) text.input(DType::F32, dims, 4);
  for (int i = 0; i < 100; ++i) text.output(DType::F32, dims, 4);
  const std::string_view view = text.view();
  CHECK(view.starts_with("scalar i64, 1024x1024x1024x1024 f32, "));
  CHECK(view.ends_with("1024x1024x1024x1024 f32, ... -> ..."));
  CHECK_LE(view.size(), 256u);
  plugin::ShapesText made;
  made.output(DType::U8, dims, 1);
  CHECK_EQ(made.view(), "-> 1024 u8");
}
