// SPDX-License-Identifier: Apache-2.0
// What the plan says of each node of the graph that was given: by which kernel it runs, what it went into, that it
// needs no step. Looking says what compiling does.
#include <algorithm>

#include "backends/cpu/compile/compile.h"
#include "tests/unit/cpu/random_graph.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

// "native ConvF32", per node of the graph.
std::vector<std::string> ways_of(const cpu::Plan &plan) {
  static constexpr const char *kPaths[] = {"", "native ", "reference ", "none "};
  std::vector<std::string> out;
  for (const cpu::NodePathRow &row : plan.paths)
    out.push_back(std::string(kPaths[static_cast<std::size_t>(row.path)]) + (plan.names.data() + row.text));
  return out;
}

std::vector<std::string> looked(const qir::Graph &graph) {
  qir::ConstantPool pool;
  auto bytes = qir::write_graph(graph, pool);
  REQUIRE_OK(bytes);
  Vector<std::uint8_t> memory(pool.size() + 64);
  pool.write_to(memory.data());
  const qir::Bytes segment{memory.data(), pool.size()};
  auto read = qir::read_graph({bytes->data(), bytes->size()}, &segment, 1);
  REQUIRE_OK(read);
  cpu::CompileOptions options;
  options.isa = &kernels::best_isa();
  options.dry_run = true;
  auto made = cpu::compile(std::move(*read), {&segment, 1}, options);
  REQUIRE_OK(made);
  CHECK(made->packed.empty());
  return ways_of(made->plan);
}

struct PathNet : RandomGraph {
  PathNet() : RandomGraph(1) {}
  using RandomGraph::input, RandomGraph::node, RandomGraph::reals, RandomGraph::scalar, RandomGraph::integers;
  const qir::Graph &gives(std::initializer_list<i32> outputs) {
    graph_.outputs.assign(outputs);
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) graph_.nodes[i].name = format("n%zu", i);
    return graph_;
  }
};

}  // namespace

TEST_CASE("each node says by what it runs") {
  PathNet net;
  const i32 x = net.input(DType::F32, {1, 4, 6, 6});
  i32 y = net.node(Op::Conv, {x, net.reals({4, 4, 1, 1}, -1, 1)});                              // 0
  y = net.node(Op::Mul, {y, net.node(Op::Sigmoid, {y})});                                       // 1, 2
  const i32 rows = net.node(Op::Reshape, {y, net.integers({1, 4, 36})});                        // 3
  const i32 sorted = net.node(Op::Det, {net.node(Op::Reshape, {y, net.integers({4, 6, 6})})});  // 4, 5
  const i32 sum = net.node(Op::ReduceSum, {rows, net.integers({2})});                           // 6
  const PlanCase sample(net.gives({sum, sorted}));
  REQUIRE(sample.ok());
  const std::vector<std::string> expected = {"native ConvF32",       "none fused into n0",   "none fused into n0",
                                             "none no work: a view", "none no work: a view", "reference reference: Det",
                                             "native ReduceF32"};
  const std::vector<std::string> found = ways_of(sample.plan());
  REQUIRE_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK_EQ(found[i], expected[i]);
  // The blob brings it back.
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK_NE(found[i].find(sample.loaded().name(sample.loaded().paths[i].text)), std::string::npos);
  // Each step names the node that it came from.
  for (const cpu::Step &step : sample.plan().steps)
    if (step.source >= 0)
      CHECK_EQ(std::string(sample.plan().names.data() + step.name), format("n%d", step.source).c_str());
}

TEST_CASE("elementwise nodes one behind the other are one step") {
  PathNet net;
  const i32 x = net.input(DType::F32, {1, 4, 6, 6}), z = net.input(DType::F32, {1, 4, 6, 6});
  i32 y = net.node(Op::Add, {x, net.scalar(3)});               // 0
  y = net.node(Op::Relu, {y});                                 // 1: the bound of 0
  y = net.node(Op::Mul, {z, y});                               // 2
  y = net.node(Op::Div, {y, net.reals({4, 1, 1}, 1, 2)});      // 3
  const i32 both = net.node(Op::Tanh, {y});                    // 4: of 3, and two want it
  const i32 one = net.node(Op::Exp, {both});                   // 5
  const i32 other = net.node(Op::Sub, {net.scalar(1), both});  // 6
  const PlanCase sample(net.gives({one, other}));
  REQUIRE(sample.ok());
  const std::vector<std::string> expected = {"none fused into n3", "none fused into n3", "none fused into n3",
                                             "native ChainF32",    "none fused into n3", "native UnaryF32",
                                             "native BinaryF32"};
  const std::vector<std::string> found = ways_of(sample.plan());
  REQUIRE_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK_EQ(found[i], expected[i]);
  CHECK_EQ(sample.plan().steps.size(), 3);
  Random random(1);
  CHECK(same_results(sample, "chain", random, 1e-6f));
}

TEST_CASE("what is decomposed keeps its node") {
  Builder b;
  const i32 x = b.input(DType::U8, {1, 2, 3}), y = b.tensor(DType::U8, {1, 2, 3});
  b.quantize(x, {0.1f}, {100}).quantize(y, {0.1f}, {100});
  b.node(Op::Softmax, {x}, {y});
  b.gives({y});
  const PlanCase sample(b.graph);
  REQUIRE(sample.ok());
  CHECK_EQ(ways_of(sample.plan())[0], "native Dequantize, SoftmaxF32, Quantize");
}

TEST_CASE("graphs of unknown dimensions are the reference's") {
  Builder b;
  const i32 x = b.input(DType::F32, {-1, 3}), y = b.tensor(DType::F32, {-1, 3});
  b.node(Op::Relu, {x}, {y});
  b.gives({y});
  const PlanCase sample(b.graph);
  REQUIRE(sample.ok());
  CHECK_EQ(ways_of(sample.plan())[0], "reference data-dependent shape: reference: Relu");
}

TEST_CASE("looking says what compiling does") {
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    const RandomGraph reals(seed, seed % 3 == 0 ? DType::F16 : DType::F32);
    const RandomQuantizedGraph quantized(seed);
    for (const qir::Graph *graph : {&reals.graph(), &quantized.graph()}) {
      const PlanCase sample(*graph);
      REQUIRE(sample.ok());
      const std::vector<std::string> paths = ways_of(sample.plan());
      CHECK_EQ(paths.size(), graph->nodes.size());
      CHECK((looked(*graph) == paths));
    }
  }
}

// A bias whose own scale is not that of the products cannot be added to their sums.
TEST_CASE("a bias of another scale is no integer of the products") {
  Builder b;
  const i32 x = b.input(DType::U8, {1, 2, 4, 4}), w = b.constant<std::int8_t>({2, 2, 1, 1}, {50, -20, 30, 100});
  const i32 bias = b.constant<std::int32_t>({2}, {40, -60}), y = b.tensor(DType::U8, {1, 2, 4, 4});
  b.quantize(x, {0.1f}, {120}).quantize(w, {0.02f}, {0}).quantize(bias, {0.1f}, {0}).quantize(y, {0.5f}, {128});
  b.node(Op::Conv, {x, w, bias}, {y});
  b.gives({y});
  const PlanCase sample(b.graph);
  Random random(1);
  CHECK(same_results(sample, "a bias of another scale", random, 0, 1));
  CHECK_NE(ways_of(sample.plan())[0].find("ConvF32"), std::string::npos);
}

// Four bits run in floats, not on cpu-reference.
TEST_CASE("weights of four bits are dequantised") {
  Builder b;
  const i32 x = b.input(DType::U8, {2, 4}), w = b.constant<std::uint8_t>({4, 2}, {0x71, 0xF8, 0x23, 0x9A}),
            y = b.tensor(DType::U8, {2, 2});
  b.graph.tensors[static_cast<std::size_t>(w)].dtype = DType::I4;
  b.quantize(x, {0.1f}, {120}).quantize(w, {0.5f}, {-3}).quantize(y, {0.5f}, {128});
  b.node(Op::MatMul, {x, w}, {y});
  b.gives({y});
  const PlanCase sample(b.graph);
  Random random(1);
  CHECK(same_results(sample, "four bits", random, 0, 1));
  CHECK_EQ(sample.reference_steps(), 0);
}

// As CNTK writes a bias: one number for each channel, with ones behind it, or before it too.
TEST_CASE("a constant that is added to each channel is the convolution's bias") {
  for (int form = 0; form < 3; ++form) {
    Builder b;
    const i32 x = b.input(DType::F32, {1, 2, 4, 3}), y = b.tensor(DType::F32, {1, 3, 4, 3}),
              sum = b.tensor(DType::F32, {1, 3, 4, 3}), z = b.tensor(DType::F32, {1, 3, 4, 3});
    b.node(Op::Conv, {x, b.constant<float>({3, 2, 1, 1}, {0.5f, -1, 2, 0.25f, 1, -3})}, {y});
    const i32 added = form == 0   ? b.constant<float>({3, 1, 1}, {1, -2, 3})
                      : form == 1 ? b.constant<float>({1, 3, 1, 1}, {1, -2, 3})
                                  : b.constant<float>({1, 1, 3}, {1, -2, 3});  // one for each column of the image
    b.node(Op::Add, {added, y}, {sum});
    b.node(Op::Relu, {sum}, {z});
    b.gives({z});
    const PlanCase sample(b.graph);
    REQUIRE(sample.ok());
    Random random(1);
    CHECK(same_results(sample, "a bias by an Add", random, 1e-5f, 1));
    CHECK_EQ(ways_of(sample.plan())[1] == std::string("none fused into ") + b.graph.nodes[0].name.c_str(), form < 2);
  }
}
