// SPDX-License-Identifier: Apache-2.0
// What the planner promises: which graphs become how many steps of which kind, what is no step at all, and what runs
// need.
#include <algorithm>

#include "tests/unit/cpu/random_graph.h"

using namespace quarry;
using namespace quarry::test;
using kernels::Kernel;
using qir::kAbsent;
using qir::Op;
using i32 = std::int32_t;
using Ints = Vector<std::int64_t>;

namespace {

// A graph in a few words; shapes are inferred, constants are random.
struct PromiseNet : RandomGraph {
  PromiseNet() : RandomGraph(1) { most_ = 1 << 22; }
  using RandomGraph::constant, RandomGraph::input, RandomGraph::integers, RandomGraph::node, RandomGraph::reals,
      RandomGraph::scalar;
  i32 image(std::int64_t c, std::int64_t h, std::int64_t w) { return input(DType::F32, {1, c, h, w}); }
  i32 conv(i32 x, std::int64_t oc, std::int64_t k, std::int64_t group = 1, std::int64_t stride = 1) {
    const std::int64_t c = graph_.tensors[static_cast<std::size_t>(x)].shape[1];
    return node(Op::Conv, {x, reals({oc, c / group, k, k}, -0.3f, 0.3f), reals({oc}, -1, 1)}, [&](qir::Node &n) {
      n.set("group", group), n.set("pads", Ints(4, k / 2)), n.set("strides", Ints(2, stride));
    });
  }
  i32 transpose(i32 x, Ints perm) {
    return node(Op::Transpose, {x}, [&](qir::Node &n) { n.set("perm", perm); });
  }
  i32 clip6(i32 x) { return node(Op::Clip, {x, reals({}, 0, 0), reals({}, 6, 6)}); }
  const qir::Graph &gives(std::initializer_list<i32> outputs) {
    graph_.outputs.assign(outputs);
    return graph_;
  }
};

// The plan's steps, after the results were compared with cpu-reference's.
std::string steps_of(const qir::Graph &graph, float tolerance = 1e-4f) {
  const PlanCase sample(graph);
  Random random(1);
  return same_results(sample, "a promise", random, tolerance) ? sample.steps() : "(wrong results)";
}

}  // namespace

TEST_CASE("convolutions take what follows") {
  PromiseNet net;
  const i32 x = net.image(16, 9, 9), a = net.conv(x, 16, 3),
            sum = net.node(Op::Add, {net.conv(net.node(Op::Relu, {a}), 16, 1), a});
  const std::string steps = steps_of(net.gives({net.node(Op::Relu, {sum})}));
  // x comes with its channels first; `a` is read before and after its activation, so that one stays a step.
  CHECK_EQ(steps, "Copy ConvF32 UnaryF32 ConvF32 Copy");

  PromiseNet chain;
  CHECK_EQ(steps_of(chain.gives({chain.node(Op::HardSwish, {chain.conv(chain.image(8, 8, 8), 8, 3)})})),
           "Copy ConvF32 Copy");
}

// Windows of hundreds of samples, as a spectrogram's, are products too; depthwise ones of that size are left to
// cpu-reference.
TEST_CASE("filter banks are products") {
  PromiseNet net, grouped;
  const auto conv = [](PromiseNet &to, i32 x, i32 w, std::int64_t group, std::int64_t step) {
    return to.node(Op::Conv, {x, w}, [&](qir::Node &n) { n.set("group", group), n.set("strides", Ints(1, step)); });
  };
  const i32 x = net.input(DType::F32, {1, 1, 2000}), y = conv(net, x, net.reals({34, 1, 400}, -0.1f, 0.1f), 1, 160);
  CHECK_EQ(steps_of(net.gives({y})), "ConvF32 Copy");
  const i32 z = conv(grouped, grouped.input(DType::F32, {1, 2, 700}), grouped.reals({2, 1, 300}, -0.1f, 0.1f), 2, 100);
  CHECK_EQ(steps_of(grouped.gives({z})), "reference");
}

TEST_CASE("images stay channels last") {
  PromiseNet net;
  i32 y = net.conv(net.image(3, 16, 16), 8, 3, 1, 2);
  y = net.conv(net.clip6(y), 8, 3, 8);
  y = net.node(Op::MaxPool, {y}, [](qir::Node &n) { n.set("kernel_shape", Ints(2, 2)), n.set("strides", Ints(2, 2)); });
  y = net.node(Op::GlobalAveragePool, {net.node(Op::Sigmoid, {net.conv(y, 16, 1)})});
  y = net.node(Op::Flatten, {y});
  const std::string steps =
      steps_of(net.gives({net.node(Op::Gemm, {y, net.reals({16, 10}, -1, 1), net.reals({10}, -1, 1)})}));
  CHECK_EQ(steps, "ConvF32 DepthwiseF32 PoolF32 ConvF32 ReduceF32 ConvF32");
}

TEST_CASE("planes that leave the graph as planes get no other layout") {
  const auto steps = [](std::int64_t channels, std::int64_t oc, std::int64_t k, std::int64_t group) {
    PromiseNet net;
    return steps_of(net.gives({net.conv(net.image(channels, 9, 9), oc, k, group)}));
  };
  CHECK_EQ(steps(8, 12, 1, 1), "MatMulF32");
  CHECK_EQ(steps(8, 8, 7, 8), "DepthwiseF32");
  CHECK_EQ(steps(3, 8, 3, 1), "ConvF32");
  CHECK_EQ(steps(8, 8, 3, 1), "Copy ConvF32 Copy");
  PromiseNet net;
  const i32 y = net.node(Op::ConvTranspose, {net.image(8, 6, 6), net.reals({8, 4, 2, 2}, -1, 1)},
                         [](qir::Node &n) { n.set("strides", Ints(2, 2)); });
  CHECK_EQ(steps_of(net.gives({y})), "MatMulF32 Copy");
}

TEST_CASE("concatenations of convolutions copy nothing") {
  PromiseNet net;
  const i32 x = net.conv(net.image(8, 6, 6), 16, 1), left = net.node(Op::Relu, {net.conv(x, 8, 1)}),
            right = net.node(Op::Relu, {net.conv(x, 8, 3)});
  const i32 both = net.node(Op::Concat, {left, right}, [](qir::Node &n) { n.set("axis", std::int64_t{1}); });
  CHECK_EQ(steps_of(net.gives({net.conv(both, 4, 1)})), "Copy ConvF32 ConvF32 ConvF32 ConvF32 Copy");
}

TEST_CASE("einsum is a product of matrices") {
  struct Case {
    const char *equation;
    Ints a, b;
  };
  const Case cases[] = {
      {"bhid,bhjd->bhij", {2, 3, 5, 4}, {2, 3, 6, 4}},
      {"b h i j, b h j d -> b h i d", {2, 3, 5, 6}, {2, 3, 6, 4}},
      {"ij,jk", {3, 4}, {4, 5}},
      {"bnqd,bknd->bkqn", {2, 3, 4, 5}, {2, 6, 3, 5}},  // batches out of order, the result moved
      {"abcd,cde->eab", {2, 3, 4, 5}, {4, 5, 6}},       // several rows, several summed
      {"...ij,...jk->...ik", {7, 1, 2, 3}, {4, 3, 5}},  // batches stretched
      {"i,j->ji", {3}, {4}},                            // nothing summed
      {"ab,ab->", {3, 4}, {3, 4}},                      // all summed
      {"ii,ij->j", {3, 3}, {3, 4}},                     // a diagonal
      {"aij,jk->ik", {2, 3, 4}, {4, 5}},                // summed before there is a product
  };
  for (const Case &c : cases) {
    PromiseNet net;
    const i32 a = net.input(DType::F32, c.a), b = net.input(DType::F32, c.b);
    const PlanCase sample(
        net.gives({net.node(Op::Einsum, {a, b}, [&](qir::Node &n) { n.set("equation", c.equation); })}));
    Random random(3);
    REQUIRE(same_results(sample, c.equation, random, 1e-5f));
    const cpu::Plan &plan = sample.plan();
    const bool left = std::any_of(plan.steps.begin(), plan.steps.end(), [&](const cpu::Step &step) {
      return std::string_view(plan.names.data() + step.op) == "Einsum";
    });
    CHECK_MESSAGE(!left, c.equation);
  }
}

TEST_CASE("what is small or little is packed") {
  const auto constants = [](const PlanCase &plan, std::uint32_t segment) {
    int found = 0;
    for (const cpu::Operand &operand : plan.plan().operands) {
      const cpu::Value &value = plan.plan().values[operand.value];
      found += value.storage == cpu::StorageKind::Constant && value.bytes > 0 && value.index == segment;
    }
    return found;
  };
  // A large table is read where the model has it, a small constant beside it is not.
  PromiseNet net;
  const i32 table = net.reals({256, 128}, -1, 1), rows = net.node(Op::Gather, {table, net.input(DType::I64, {3})});
  const PlanCase kept(net.gives({net.node(Op::Add, {rows, net.reals({128}, -1, 1)})}));
  REQUIRE(kept.ok());
  CHECK_EQ(kept.segments().size(), 3u);
  CHECK_EQ(constants(kept, 0), 1);
  CHECK_EQ(constants(kept, 1), 1);
  // Where nothing large is read as it is, no segment of the model is kept.
  PromiseNet little;
  const PlanCase packed(little.gives({little.conv(little.image(64, 6, 6), 128, 3)}));
  REQUIRE(packed.ok());
  CHECK_EQ(packed.segments().size(), 2u);
  CHECK(constants(packed, 0) > 0);
}

TEST_CASE("movement without steps") {
  PromiseNet net;
  const i32 x = net.input(DType::F32, {2, 6, 8});
  i32 y = net.node(Op::Reshape, {x, net.integers({2, 6, 2, 4})});
  y = net.transpose(y, {0, 2, 1, 3});
  y = net.node(Op::Slice, {y, net.integers({1}), net.integers({5}), net.integers({2})});
  y = net.node(Op::Unsqueeze, {y, net.integers({0})});
  y = net.node(Op::Squeeze, {y, net.integers({0})});
  const i32 z = net.transpose(net.input(DType::F32, {2, 2, 5, 4}), {0, 1, 3, 2});
  CHECK_EQ(steps_of(net.gives({net.node(Op::MatMul, {y, z})})), "MatMulF32");
}

TEST_CASE("pieces become one operator") {
  PromiseNet gelu;  // x * (1 + erf(x / sqrt 2)) * 0.5 behind a product
  i32 y = gelu.node(Op::Add, {gelu.node(Op::MatMul, {gelu.input(DType::F32, {4, 16}), gelu.reals({16, 24}, -1, 1)}),
                              gelu.reals({24}, -1, 1)});
  const i32 erf = gelu.node(Op::Erf, {gelu.node(Op::Div, {y, gelu.scalar(1.41421356f)})});
  y = gelu.node(Op::Mul, {gelu.node(Op::Mul, {y, gelu.node(Op::Add, {erf, gelu.scalar(1)})}), gelu.scalar(0.5f)});
  CHECK_EQ(steps_of(gelu.gives({y})), "ConvF32");

  PromiseNet norm;
  const i32 x = norm.input(DType::F32, {2, 3, 20});
  const auto mean = [&](i32 of) {
    return norm.node(Op::ReduceMean, {of, norm.integers({-1})},
                     [](qir::Node &n) { n.set("keepdims", std::int64_t{1}); });
  };
  const i32 centred = norm.node(Op::Sub, {x, mean(x)}), variance = mean(norm.node(Op::Pow, {centred, norm.scalar(2)}));
  const i32 normal =
      norm.node(Op::Div, {centred, norm.node(Op::Sqrt, {norm.node(Op::Add, {variance, norm.scalar(1e-5f)})})});
  CHECK_EQ(steps_of(norm.gives({norm.node(
               Op::Add, {norm.node(Op::Mul, {normal, norm.reals({20}, 0.5f, 1)}), norm.reals({20}, -1, 1)})})),
           "LayerNormF32");
}

TEST_CASE("attention is one step between products") {
  PromiseNet net;
  const std::int64_t b = 2, t = 5, d = 16, heads = 4;
  const i32 x = net.input(DType::F32, {b, t, d});
  const auto part = [&](Ints perm) {
    const i32 p = net.node(Op::Add, {net.node(Op::MatMul, {x, net.reals({d, d}, -0.4f, 0.4f)}), net.reals({d}, -1, 1)});
    return net.transpose(net.node(Op::Reshape, {p, net.integers({b, t, heads, d / heads})}), perm);
  };
  const i32 q = part({0, 2, 1, 3}), k = part({0, 2, 3, 1}), v = part({0, 2, 1, 3});
  const i32 scores = net.node(
      Op::Add, {net.node(Op::Div, {net.node(Op::MatMul, {q, k}), net.scalar(2)}), net.reals({b, 1, 1, t}, -2, 1)});
  const i32 mixed = net.transpose(net.node(Op::MatMul, {net.node(Op::Softmax, {scores}), v}), {0, 2, 1, 3});
  const i32 y =
      net.node(Op::MatMul, {net.node(Op::Reshape, {mixed, net.integers({b, t, d})}), net.reals({d, d}, -0.4f, 0.4f)});
  const std::string steps = steps_of(net.gives({net.node(Op::Add, {y, x})}));
  CHECK(steps.find("AttentionF32") != std::string::npos);
  CHECK_EQ(std::count(steps.begin(), steps.end(), ' ') + 1, 5);  // q, k, v, attention, the product with the addition
}

TEST_CASE("products take what multiplies them") {
  const auto steps = [](Op op, bool constant, bool first, float factor) {
    PromiseNet net;
    const i32 a = net.input(DType::F32, {3, 7, 20}),
              b = constant ? net.reals({20, 33}, -1, 1) : net.input(DType::F32, {3, 20, 33}),
              product = net.node(Op::MatMul, {a, b}), by = net.scalar(factor);
    i32 y = first ? net.node(op, {product, by}) : net.node(op, {by, product});
    y = net.node(Op::Relu, {net.node(Op::Add, {y, net.reals({33}, -1, 1)})});
    return steps_of(net.gives({y}));
  };
  CHECK_EQ(steps(Op::Mul, false, true, 0.3f), "MatMulF32");
  CHECK_EQ(steps(Op::Mul, false, false, -2), "MatMulF32");
  CHECK_EQ(steps(Op::Mul, true, true, 0.3f), "ConvF32");
  CHECK_EQ(steps(Op::Div, false, true, 8), "MatMulF32");
  // What changes roundings stays a step, and so does what may leave the range of f32.
  CHECK_EQ(steps(Op::Div, false, true, 3), "MatMulF32 ChainF32");
  CHECK_EQ(steps(Op::Div, false, false, 8), "MatMulF32 ChainF32");
  CHECK_EQ(steps(Op::Mul, false, true, 1e30f), "MatMulF32 ChainF32");
}

// Expand, depthwise, project: one step where the expanded image is large, three where it is not.
TEST_CASE("inverted residuals by size") {
  for (const auto &[size, block] : {std::pair{64, true}, std::pair{8, false}}) {
    PromiseNet net;
    const i32 x = net.conv(net.image(16, size, size), 16, 1);
    i32 y = net.clip6(net.conv(x, 96, 1));
    y = net.clip6(net.conv(y, 96, 3, 96));
    const std::string steps = steps_of(net.gives({net.node(Op::Add, {net.conv(y, 16, 1), x})}));
    CHECK_EQ(steps.find("BlockF32") != std::string::npos, block);
    CHECK_EQ(std::count(steps.begin(), steps.end(), ' ') + 1, block ? 4 : 6);
  }
}

// Where a worker is held up, others do its share: no loop is cut into one piece for each.
TEST_CASE("inverted residuals leave work for others") {
  PromiseNet net;
  const i32 x = net.conv(net.image(16, 64, 64), 16, 1);
  i32 y = net.clip6(net.conv(x, 96, 1));
  y = net.clip6(net.conv(y, 96, 3, 96));
  const PlanCase sample(net.gives({net.node(Op::Add, {net.conv(y, 16, 1), x})}));
  REQUIRE_EQ(sample.count(kernels::Kernel::BlockF32), 1);
  Random random(1);
  Data inputs = sample.random_inputs(random), expected;
  REQUIRE_OK(sample.run(inputs, expected));
  Request made(sample.loaded(), 2);
  made.inputs[0].data = inputs[0].data(), made.inputs[0].size_bytes = inputs[0].size();
  static std::uint64_t fewest;
  fewest = UINT64_MAX;
  // Worker 1 comes to nothing but one piece in the middle.
  made.threads.parallel_for = [](void *, std::uint64_t count, std::uint64_t grain, qr_parallel_body body,
                                 void *context) {
    const std::uint64_t pieces = (count + grain - 1) / grain;
    fewest = std::min(fewest, pieces);
    for (std::uint64_t i = 0; i < pieces; ++i)
      body(context, i * grain, std::min(count, (i + 1) * grain), i == pieces / 2);
  };
  cpu::Execution execution(sample.loaded());
  execution.share_all();
  REQUIRE_OK(execution.run(made.request, test_host()));
  CHECK_EQ(std::memcmp(made.outputs[0].data, expected[0].data(), expected[0].size()), 0);
  CHECK(fewest >= 8);
}

// To wake threads takes longer than a small loop: those are run alone until there is work enough.
TEST_CASE("threads are woken for what is worth it") {
  PromiseNet net;
  i32 y = net.input(DType::F32, {1, 128, 128});
  for (int i = 0; i < 40; ++i) y = net.node(Op::Sin, {y});
  const PlanCase sample(net.gives({y}));
  static std::uint64_t clock, tick, shared, more;
  shared = more = 0;
  qr_host host = test_host();
  host.clock_ns = [](void *) { return clock += tick; };
  Request made(sample.loaded(), 2);
  Random random(1);
  Data inputs = sample.random_inputs(random);
  made.inputs[0].data = inputs[0].data(), made.inputs[0].size_bytes = inputs[0].size();
  made.threads.parallel_for = [](void *, std::uint64_t count, std::uint64_t, qr_parallel_body body, void *context) {
    ++shared, clock += more;
    body(context, 0, count, 0);
  };
  cpu::Execution execution(sample.loaded());
  // ns that a loop takes; shared loops of the last run. (Long enough for the trials to come again.)
  const auto runs = [&](std::uint64_t each) {
    tick = each;
    for (int run = 0; run < 520; ++run) {
      shared = 0;
      made.outputs[0].data = nullptr;
      REQUIRE_OK(execution.run(made.request, host));
    }
    return shared;
  };
  CHECK_EQ(runs(50'000), 40);     // each is worth a wake
  more = std::uint64_t{0} - 500;  // ns that a shared loop takes beyond what it takes alone
  CHECK_EQ(runs(2'000), 40);      // short runs wake them at once where that takes least time
  more = 5'000;
  CHECK_EQ(runs(2'000), 0);  // where the threads come late, short runs are made alone
  more = std::uint64_t{0} - 500;
  CHECK((runs(2'000) > 0));  // and are not, when they come in time again
  more = 0;
  CHECK_EQ(runs(100), 0);  // all of them together are not worth it
}

TEST_CASE("quantized convolutions take additions") {
  PromiseNet net;
  const auto quantised = [&](i32 id, float scale) {
    qir::Tensor &t = const_cast<qir::Tensor &>(net.graph().tensors[index_of(id)]);
    t.dtype = DType::U8;
    t.quant = qir::Quantization{{scale}, {128}, 0, 0};
    return id;
  };
  Random random(1);
  const auto conv = [&](i32 x, float scale) {
    const i32 w = net.constant(DType::I8, {8, 8, 3, 3}, test::random_data(random, DType::I8, 8 * 8 * 9));
    const_cast<qir::Tensor &>(net.graph().tensors[static_cast<std::size_t>(w)]).quant =
        qir::Quantization{{0.002f}, {0}, 0, 0};
    return quantised(net.node(Op::Conv, {x, w}, [](qir::Node &n) { n.set("pads", Ints(4, 1)); }), scale);
  };
  const i32 x = quantised(net.image(8, 6, 6), 0.02f), a = conv(x, 0.03f), b = conv(a, 0.03f);
  const PlanCase sample(net.gives({quantised(net.node(Op::Add, {b, a}), 0.05f)}));
  Random inputs(2);
  CHECK(same_results(sample, "quantised addition", inputs, 0, 1));
  CHECK_EQ(sample.steps(), "Copy ConvInt ConvInt Copy");
}

TEST_CASE("quantized images meet constants, and are averaged, as they lie") {
  for (const DType dtype : {DType::U8, DType::I8}) {
    PromiseNet net;
    const auto quantised = [&](i32 id, float scale) {
      qir::Tensor &t = const_cast<qir::Tensor &>(net.graph().tensors[index_of(id)]);
      t.dtype = dtype;
      t.quant = qir::Quantization{{scale}, {dtype == DType::U8 ? 120 : -3}, 0, 0};
      return id;
    };
    Random random(3);
    const i32 x = quantised(net.image(5, 13, 19), 0.02f);
    const i32 c = quantised(net.constant(dtype, {5, 1, 1}, test::random_data(random, dtype, 5)), 0.01f);
    const i32 sum = quantised(net.node(Op::Add, {x, c}), 0.03f);
    const PlanCase sample(net.gives({quantised(net.node(Op::GlobalAveragePool, {sum}), 0.004f)}));
    Random inputs(4);
    CHECK(same_results(sample, "quantised addition of a constant", inputs, 0, 1));
    CHECK_EQ(sample.steps(), "BinaryInt MeanInt");
  }
}

TEST_CASE("gelu by tanh is found") {
  const auto steps = [](int form, float cubic) {
    PromiseNet net;
    const i32 x = net.input(DType::F32, {4, 48});
    const auto times = [&](i32 a, i32 b) { return net.node(Op::Mul, {a, b}); };
    const auto plus = [&](i32 a, i32 b) { return net.node(Op::Add, {a, b}); };
    const i32 half = net.scalar(0.5f), one = net.scalar(1), c = net.scalar(cubic), root = net.scalar(0.79788456f);
    i32 inside = 0, y = 0;
    switch (form) {
      case 0: inside = times(root, plus(x, times(c, times(x, times(x, x))))); break;                  // JAX
      case 1: inside = times(plus(x, times(net.node(Op::Pow, {x, net.scalar(3)}), c)), root); break;  // PyTorch
      default: inside = times(times(x, root), plus(one, times(times(c, x), x))); break;               // GPT-NeoX
    }
    const i32 gate = plus(net.node(Op::Tanh, {inside}), one);
    switch (form) {
      case 0: y = times(x, times(half, gate)); break;
      case 1: y = times(times(half, x), gate); break;
      default: y = times(half, times(x, gate)); break;
    }
    return steps_of(net.gives({y}));
  };
  for (int form = 0; form < 3; ++form) {
    CHECK_EQ(steps(form, 0.044715f), "UnaryF32");
    CHECK(steps(form, 0.05f).find(' ') != std::string::npos);
  }
}

// Weights of 16 bits are multiplied in integers too; where a zero point makes 17 of them, all but depthwise ones.
TEST_CASE("quantized convolutions of words") {
  for (const std::int64_t group : {1, 8})
    for (const std::int32_t zero : {32768, 1000}) {
      PromiseNet net;
      const auto quantised = [&](i32 id, float scale, std::int32_t zero_point) {
        qir::Tensor &t = const_cast<qir::Tensor &>(net.graph().tensors[index_of(id)]);
        t.dtype = DType::U16;
        t.quant = qir::Quantization{{scale}, {zero_point}, 0, 0};
        return id;
      };
      Random random(1);
      const i32 x = quantised(net.image(8, 6, 6), 1e-4f, 32768);
      const i32 w = quantised(
          net.constant(DType::U16, {8, 8 / group, 3, 3}, test::random_data(random, DType::U16, 8 * 8 / group * 9)),
          1e-5f, zero);
      // The zero point's end of the range is there, so that the others are as far away as they can be.
      auto *const first =
          static_cast<std::uint16_t *>(const_cast<void *>(net.graph().tensors[static_cast<std::size_t>(w)].data.data));
      first[0] = 1, first[1] = 65535;
      const PlanCase sample(net.gives({quantised(
          net.node(Op::Conv, {x, w}, [&](qir::Node &n) { n.set("pads", Ints(4, 1)), n.set("group", group); }), 3e-4f,
          32768)}));
      Random inputs(2);
      CHECK(same_results(sample, "quantised words", inputs, 0, 1));
      const bool integers = sample.steps().find("ConvInt") != std::string::npos;
      CHECK_EQ(integers, group == 1 || zero == 32768);
    }
}

// A chain of elementwise steps needs the memory of one tensor, however long it is.
TEST_CASE("elementwise steps write where they read") {
  PromiseNet net;
  i32 y = net.input(DType::F32, {1, 4096});
  for (int i = 0; i < 20; ++i) y = net.node(Op::Sin, {net.node(Op::Add, {y, net.reals({1, 4096}, -1, 1)})});
  const PlanCase sample(net.gives({net.node(Op::ReduceSum, {y, net.integers({1})})}));
  Random random(1);
  CHECK(same_results(sample, "a chain", random, 1e-4f));
  CHECK(sample.plan().arena_bytes <= 2 * 4096 * 4);
}

// What is summed so far lies in the result, which each stage of a chain writes.
static void check_sum_of_steps(Op op, std::size_t count, std::int64_t size) {
  PromiseNet net;
  Vector<i32> parts;
  for (std::size_t i = 0; i < count; ++i)
    parts.push_back(net.node(i % 2 ? Op::Mul : Op::Sub,
                             {net.input(DType::F32, {1, i % 3 == 1 ? 1 : size}), net.reals({size}, -1, 1)}));
  const PlanCase sample(net.gives({net.node(Op::Neg, {net.node(op, parts)})}));
  Random random(1);
  CHECK(same_results(sample, "operands of a sum", random, 1e-5f));
  CHECK_EQ(sample.reference_steps(), 0);
}
TEST_CASE("operands of Sum, Max, Min and Mean that elementwise steps make") {
  for (const Op op : {Op::Sum, Op::Max, Op::Min, Op::Mean})
    for (const std::size_t count : {2, 3, 5})
      for (const std::int64_t size : {5, 11, 40, 5000}) check_sum_of_steps(op, count, size);
}

TEST_CASE("no allocation after the first run") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const PlanCase sample(RandomGraph(seed, DType::F32).graph());
    if (!sample.ok() || sample.reference_steps() > 0) continue;
    Random random(seed);
    Data inputs = sample.random_inputs(random);
    cpu::Execution execution(sample.loaded());
    Request made(sample.loaded(), 3);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      made.inputs[i].data = inputs[i].data(), made.inputs[i].size_bytes = inputs[i].size();
    REQUIRE_OK(execution.run(made.request, test_host()));
    for (qr_io_buffer &output : made.outputs) output.data = nullptr;
    CountingAllocator counter;
    AllocatorScope scope(counter);
    CHECK_OK(execution.run(made.request, test_host()));
    CHECK_EQ(counter.count, 0);
  }
}
