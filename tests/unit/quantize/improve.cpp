// SPDX-License-Identifier: Apache-2.0
// Weights made better: against brute force and values worked out by hand.
#include "quantize/ranges/clipped_range.h"
#include "quantize/weights/improve.h"

#include <cmath>
#include <random>
#include <vector>

#include "quantize/weights/products.h"
#include "quantize/weights/rounding.h"
#include "tests/support/check.h"

using namespace quarry;
using namespace quarry::quantize;

namespace {

constexpr Grid kSymmetric{DType::I8, true};

// A graph of products by hand: constants live in `numbers`.
struct Network {
  qir::Graph graph;
  std::vector<std::vector<float>> numbers;

  std::int32_t tensor(const char *name, qir::Shape shape) {
    qir::Tensor made;
    made.name = name, made.dtype = DType::F32, made.shape = std::move(shape);
    graph.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }
  std::int32_t constant(const char *name, qir::Shape shape, std::vector<float> values) {
    numbers.push_back(std::move(values));
    const std::int32_t id = tensor(name, std::move(shape));
    graph.tensors.back().is_constant = true;
    graph.tensors.back().data = {numbers.back().data(), numbers.back().size() * sizeof(float)};
    return id;
  }
  qir::Node &node(qir::Op op, const char *name, Vector<std::int32_t> inputs, std::int32_t output) {
    qir::Node made;
    made.op = op, made.name = name, made.inputs = std::move(inputs), made.outputs = {output};
    graph.nodes.push_back(std::move(made));
    return graph.nodes.back();
  }
  const float *values(std::int32_t id) const { return qir::constant_floats(graph, id); }
};

double miss(float real, const Encoding &encoding, std::int32_t stored) {
  return static_cast<double>(stored - encoding.zero_point) * static_cast<double>(encoding.scale) -
         static_cast<double>(real);
}

}  // namespace

TEST_CASE("moments of inputs") {
  InputMoments moments(2);
  moments.add(std::vector<float>{1, 2});
  moments.add(std::vector<float>{3, -4});
  CHECK_EQ(moments.rows(), 2u);
  CHECK_EQ(moments.mean(0), 2);
  CHECK_EQ(moments.mean(1), -1);
  CHECK_EQ(moments.second(0, 0), 5);
  CHECK_EQ(moments.second(0, 1), -5);
  CHECK_EQ(moments.second(1, 1), 10);
}

TEST_CASE("two inputs that are alike: one weight goes up for both") {
  InputMoments moments(2);
  moments.add(std::vector<float>{1, 1});
  const Encoding one{DType::I8, 1, 0};
  const std::vector<float> real = {0.4f, 0.4f};
  const std::vector<Encoding> encodings = {one, one};
  std::vector<std::int32_t> stored = {0, 0};
  AdaptiveRounding(moments).round(real, encodings, stored);
  CHECK_EQ(stored[0] + stored[1], 1);  // 0.8 becomes 1 and not 0
  // At the end of the type there is no other side.
  const Encoding last{DType::I4, 1, 0};
  std::vector<std::int32_t> full = {7, 7};
  AdaptiveRounding(moments).round(std::vector<float>{7.4f, 7.4f}, std::vector<Encoding>{last, last}, full);
  CHECK_EQ(full, std::vector<std::int32_t>{7, 7});
}

TEST_CASE("adaptive rounding beside all ways to round") {
  std::mt19937 random(5);
  const auto uniform = [&] { return static_cast<float>(random()) / 4294967296.0f; };
  double found = 0, best = 0, nearest = 0;
  for (int trial = 0; trial < 20; ++trial) {
    constexpr std::size_t kTerms = 10;
    InputMoments moments(kTerms);
    for (int row = 0; row < 40; ++row) {
      std::vector<float> values(kTerms);
      const float shared = uniform();
      for (float &value : values) value = shared + 0.3f * uniform();
      moments.add(values);
    }
    const AdaptiveRounding rounding(moments);
    std::vector<float> real(kTerms);
    for (float &value : real) value = 6 * uniform() - 3;
    const std::vector<Encoding> encodings(kTerms, Encoding{DType::I4, 0.5f, 0});
    std::vector<std::int32_t> stored(kTerms), down(kTerms);
    for (std::size_t i = 0; i < kTerms; ++i) {
      stored[i] = static_cast<std::int32_t>(std::nearbyint(real[i] / 0.5f));
      down[i] = static_cast<std::int32_t>(std::floor(real[i] / 0.5f));
    }
    const double before = rounding.error(real, encodings, stored);
    rounding.round(real, encodings, stored);
    const double after = rounding.error(real, encodings, stored);
    CHECK_LE(after, before);
    double least = before;
    for (unsigned ways = 0; ways < 1u << kTerms; ++ways) {
      std::vector<std::int32_t> tried = down;
      for (std::size_t i = 0; i < kTerms; ++i) tried[i] += ways >> i & 1;
      least = std::min(least, rounding.error(real, encodings, tried));
    }
    CHECK_GE(after, least * 0.999);
    nearest += before, found += after, best += least;
  }
  CHECK_LT(found, 0.25 * nearest);
  CHECK_LT(found, 3 * best);
}

TEST_CASE("clipping weights") {
  std::mt19937 random(3);
  std::vector<float> values(2000);
  for (float &value : values) value = (static_cast<float>(random()) / 4294967296.0f - 0.5f) * 2;
  values[9] = 4;
  const auto error = [&](const Range &range, const Grid &grid) {
    double sum = 0;
    for (const float value : values) {
      const double missed = rounded(static_cast<double>(value), encode(range, grid)) - static_cast<double>(value);
      sum += missed * missed;
    }
    return sum;
  };
  for (const Grid &grid : {Grid{DType::I4, true}, Grid{DType::U8, false}, kSymmetric}) {
    const double found = error(clipped_range(values, grid), grid);
    double best = error({-1, 4}, grid);
    CHECK_LE(found, best);
    for (double low = 0.5; low <= 1; low += 0.1)
      for (double high = 0.5; high <= 4; high += 0.1)
        best = std::min(best, error({grid.symmetric ? -high : -low, high}, grid));
    CHECK_LE(found, best * 1.03);
  }
  CHECK(clipped_range({}, kSymmetric) == Range{0, 0});
  CHECK(clipped_range(std::vector<float>{0, 0}, kSymmetric) == Range{0, 0});
}

TEST_CASE("rows of a convolution") {
  Network net;
  const std::int32_t x = net.tensor("x", {1, 2, 2, 2}), w = net.constant("w", {2, 1, 3, 3}, std::vector<float>(18, 1));
  qir::Node &conv = net.node(qir::Op::Conv, "conv", {x, w}, net.tensor("y", {1, 2, 2, 2}));
  conv.set("group", std::int64_t{2});
  conv.set("pads", Vector<std::int64_t>{1, 1, 1, 1});
  const auto product = product_of(net.graph, conv);
  REQUIRE(product);
  CHECK_EQ(product->groups, 2u);
  CHECK_EQ(product->outputs, 1u);
  CHECK_EQ(product->terms, 9u);
  CHECK_EQ(product->weight(1, 0, 4), 13u);
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<std::vector<float>> rows;
  gather_rows(net.graph, conv, *product, values, 100, [&](std::size_t group, std::span<const float> row) {
    CHECK_EQ(group, rows.size() % 2);
    rows.emplace_back(row.begin(), row.end());
  });
  REQUIRE_EQ(rows.size(), 8u);
  CHECK_EQ(rows[0], std::vector<float>{0, 0, 0, 0, 1, 2, 0, 3, 4});  // above the first place lies padding
  CHECK_EQ(rows[7], std::vector<float>{5, 6, 0, 7, 8, 0, 0, 0, 0});
  rows.clear();
  gather_rows(net.graph, conv, *product, values, 2,
              [&](std::size_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); });
  CHECK_EQ(rows.size(), 4u);
}

TEST_CASE("equal ranges of channels, through a Relu and a depthwise convolution") {
  Network net;
  net.numbers.reserve(8);
  const std::int32_t x = net.tensor("x", {1, 1, 1, 1});
  const std::int32_t w1 = net.constant("w1", {2, 1, 1, 1}, {8, -0.5f}), b1 = net.constant("b1", {2}, {4, 1});
  const std::int32_t w2 = net.constant("w2", {2, 1, 1, 1}, {2, 0.25f});
  const std::int32_t w3 = net.constant("w3", {3, 2, 1, 1}, {1, 4, -0.5f, 2, 0.125f, -3});
  const std::int32_t y1 = net.tensor("y1", {1, 2, 1, 1}), r1 = net.tensor("r1", {1, 2, 1, 1});
  const std::int32_t y2 = net.tensor("y2", {1, 2, 1, 1}), y3 = net.tensor("y3", {1, 3, 1, 1});
  net.node(qir::Op::Conv, "one", {x, w1, b1}, y1);
  net.node(qir::Op::Relu, "relu", {y1}, r1);
  net.node(qir::Op::Conv, "two", {r1, w2}, y2).set("group", std::int64_t{2});
  net.node(qir::Op::Conv, "three", {y2, w3}, y3);
  net.graph.inputs = {x}, net.graph.outputs = {y3};
  const auto result = [&](float input, std::size_t output) {
    float sum = 0;
    for (std::size_t c = 0; c < 2; ++c) {
      const float one = std::max(0.0f, net.values(w1)[c] * input + net.values(b1)[c]);
      sum += one * net.values(w2)[c] * net.values(w3)[output * 2 + c];
    }
    return sum;
  };
  std::vector<float> before, after;
  for (const float input : {-3.0f, -1.0f, 0.5f, 2.0f})
    for (std::size_t output = 0; output < 3; ++output) before.push_back(result(input, output));
  qir::Store store;
  Vector<Change> changes;
  equalize_layers(net.graph, store, &changes);
  for (const float input : {-3.0f, -1.0f, 0.5f, 2.0f})
    for (std::size_t output = 0; output < 3; ++output) after.push_back(result(input, output));
  for (std::size_t i = 0; i < before.size(); ++i) CHECK_EQ(after[i], doctest::Approx(before[i]).epsilon(1e-5));
  // 8 * 2 * 1 and 0.5 * 0.25 * 4: a third of each, in logarithms, for every layer.
  for (std::size_t c = 0; c < 2; ++c) {
    const double wanted = std::cbrt(c == 0 ? 16.0 : 0.5);
    CHECK_EQ(std::fabs(net.values(w1)[c]), doctest::Approx(wanted).epsilon(0.03));
    CHECK_EQ(std::fabs(net.values(w2)[c]), doctest::Approx(wanted).epsilon(0.03));
    CHECK_EQ(std::fabs(net.values(w3)[c]), doctest::Approx(wanted).epsilon(0.03));
  }
  CHECK_EQ(net.numbers[0][0], 8.0f);  // the constants of whoever made the graph are as they were
  REQUIRE_EQ(changes.size(), 2u);
  CHECK_EQ(changes[0].where, std::string("one"));
}

TEST_CASE("no equalisation where a channel is seen by others") {
  Network net;
  net.numbers.reserve(4);
  const std::int32_t x = net.tensor("x", {1, 2}), w = net.constant("w", {2, 2}, {8, 0.5f, 1, 1});
  const std::int32_t y = net.tensor("y", {1, 2}), w2 = net.constant("w2", {2, 1}, {1, 4}), z = net.tensor("z", {1, 1});
  net.node(qir::Op::MatMul, "one", {x, w}, y);
  net.node(qir::Op::MatMul, "two", {y, w2}, z);
  net.graph.inputs = {x}, net.graph.outputs = {z};
  qir::Store store;
  Vector<Change> changes;
  qir::Graph seen = net.graph;
  seen.outputs = {z, y};
  equalize_layers(seen, store, &changes);
  CHECK(changes.empty());
  equalize_layers(net.graph, store, &changes);
  CHECK_EQ(changes.size(), 1u);
}

TEST_CASE("channels of activations, through a SiLU") {
  Network net;
  net.numbers.reserve(4);
  const std::int32_t x = net.tensor("x", {1, 1, 1, 1}), w1 = net.constant("w1", {2, 1, 1, 1}, {100, 0.5f});
  const std::int32_t w2 = net.constant("w2", {1, 2, 1, 1}, {0.01f, 4});
  const std::int32_t y = net.tensor("y", {1, 2, 1, 1}), s = net.tensor("s", {1, 2, 1, 1});
  const std::int32_t silu = net.tensor("silu", {1, 2, 1, 1}), z = net.tensor("z", {1, 1, 1, 1});
  net.node(qir::Op::Conv, "one", {x, w1}, y);
  net.node(qir::Op::Sigmoid, "sigmoid", {y}, s);
  net.node(qir::Op::Mul, "mul", {y, s}, silu);
  net.node(qir::Op::Conv, "two", {silu, w2}, z);
  net.graph.inputs = {x}, net.graph.outputs = {z};
  const Feed feed = [&](const Vector<std::int32_t> &tensors, const auto &give) -> Status {
    for (const float input : {-1.0f, 0.5f, 1.0f})
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        std::vector<float> values = {100 * input, 0.5f * input};
        for (float &value : values)
          if (tensors[i] == silu) value /= 1 + std::exp(-value);
        give(i, values);
      }
    return {};
  };
  qir::Store store;
  Vector<Change> changes;
  bool changed = false;
  REQUIRE(equalize_activations(net.graph, store, feed, 255, 127, &changes, &changed).ok());
  CHECK(changed);
  REQUIRE_EQ(net.graph.nodes.size(), 5u);
  const qir::Node &undo = net.graph.nodes[1];
  CHECK_EQ(undo.op, qir::Op::Mul);
  CHECK_EQ(undo.inputs[0], y);
  CHECK_EQ(net.graph.nodes[2].inputs[0], undo.outputs[0]);  // the Sigmoid
  CHECK_EQ(net.graph.nodes[3].inputs[0], y);                // its Mul
  const float *factors = qir::constant_floats(net.graph, undo.inputs[1]);
  REQUIRE(factors);
  CHECK_EQ(factors[0], 1.0f);
  CHECK_LT(factors[1], 0.5f);
  int exponent = 0;
  CHECK_EQ(std::frexp(factors[1], &exponent), 0.5f);
  CHECK_GE(factors[1], 0.5f / 100);  // not further than the widest
  const auto shape = net.graph.tensors[static_cast<std::size_t>(undo.inputs[1])].shape;
  CHECK_EQ(shape, qir::Shape{1, 2, 1, 1});
  for (std::size_t c = 0; c < 2; ++c) {  // the same is computed
    CHECK_EQ(net.values(w1)[c] * factors[c], c == 0 ? 100.0f : 0.5f);
    CHECK_EQ(net.values(w2)[c] / factors[c], c == 0 ? 0.01f : 4.0f);
  }
  // Nothing where others see what the SiLU gives.
  net.graph.outputs = {z, silu};
  REQUIRE(equalize_activations(net.graph, store, feed, 255, 127, &changes, &changed).ok());
  CHECK_FALSE(changed);
}

// As long as a file may say: whoever follows it does not do so by calling itself.
TEST_CASE("a chain of 100,000 nodes between two products") {
  constexpr int kNodes = 100000;
  Network net;
  net.numbers.reserve(2);
  const std::int32_t x = net.tensor("x", {1, 1, 1, 1}), w1 = net.constant("w1", {2, 1, 1, 1}, {100, 1});
  std::int32_t last = net.tensor("y", {1, 2, 1, 1});
  net.node(qir::Op::Conv, "first", {x, w1, qir::kAbsent}, last);
  for (int i = 0; i < kNodes; ++i) {
    const std::int32_t next = net.tensor("", {1, 2, 1, 1});
    net.node(qir::Op::Relu, "", {last}, next);
    last = next;
  }
  const std::int32_t w2 = net.constant("w2", {1, 2, 1, 1}, {0.01f, 4}), z = net.tensor("z", {1, 1, 1, 1});
  net.node(qir::Op::Conv, "second", {last, w2, qir::kAbsent}, z);
  net.graph.inputs = {x}, net.graph.outputs = {z};
  const Feed feed = [&](const Vector<std::int32_t> &tensors, const auto &give) -> Status {
    REQUIRE_EQ(tensors, Vector<std::int32_t>{last});
    give(0, std::vector<float>{100, 1});
    return {};
  };
  qir::Store store;
  Vector<Change> changes;
  bool changed = false;
  REQUIRE_OK(equalize_activations(net.graph, store, feed, 255, 127, &changes, &changed));
  CHECK(changed);
  equalize_layers(net.graph, store, &changes);
}

TEST_CASE("weights and bias of a plan") {
  Network net;
  net.numbers.reserve(4);
  const std::int32_t x = net.tensor("x", {1, 3}), w = net.constant("w", {2, 3}, {0.4f, 0.4f, 0.4f, -1.3f, 0.2f, 2});
  const std::int32_t b = net.constant("b", {2}, {1, -1}), y = net.tensor("y", {1, 2});
  net.node(qir::Op::Gemm, "gemm", {x, w, b}, y).set("transB", std::int64_t{1});
  net.graph.inputs = {x}, net.graph.outputs = {y};
  const auto plan_of = [&] {
    Plan plan;
    Constant weights, bias;
    weights.node = 0, weights.tensor = w, weights.input = 1, weights.dtype = DType::I8;
    weights.quant.scales = {1, 0.5f}, weights.quant.zero_points = {0, 0}, weights.quant.axis = 0;
    weights.stored = {0, 0, 0, -3, 0, 4};
    bias.node = 0, bias.tensor = b, bias.input = 2, bias.dtype = DType::I32;
    bias.quant.scales = {0.01f, 0.005f}, bias.quant.zero_points = {0, 0}, bias.stored = {100, -200};
    plan.constants = {weights, bias};
    return plan;
  };
  std::size_t runs = 0;
  const Feed feed = [&](const Vector<std::int32_t> &tensors, const auto &give) -> Status {
    ++runs;
    REQUIRE_EQ(tensors.size(), 1u);
    CHECK_EQ(tensors[0], x);
    for (const float value : {0.5f, 1.0f, 1.5f}) give(0, std::vector<float>{value, value, value});
    return {};
  };
  Vector<Change> changes;
  Plan plan = plan_of();
  InputMeans means;
  REQUIRE_OK(improve_weights(net.graph, feed, {}, &means, &plan, &changes));
  CHECK_EQ(runs, 0u);
  // The bias alone: the first result's mean lacks 1.2, in steps of 0.01; the second's weights miss by -0.2 - 0.2 + 0.
  const Improvements of_bias{false, true, 1};
  REQUIRE_OK(improve_weights(net.graph, feed, of_bias, &means, &plan, &changes));
  CHECK_EQ(plan.constants[0].stored, Vector<std::int32_t>{0, 0, 0, -3, 0, 4});
  CHECK_EQ(plan.constants[1].stored, Vector<std::int32_t>{220, -120});
  // Another plan for the same samples: they are not run again.
  plan = plan_of();
  REQUIRE_OK(improve_weights(net.graph, feed, of_bias, &means, &plan, &changes));
  CHECK_EQ(plan.constants[1].stored, Vector<std::int32_t>{220, -120});
  CHECK_EQ(runs, 1u);
  // Rounding: of 1.2, one goes up.
  plan = plan_of();
  REQUIRE_OK(improve_weights(net.graph, feed, {true, false, 2}, &means, &plan, &changes));
  const Vector<std::int32_t> &stored = plan.constants[0].stored;
  CHECK_EQ(stored[0] + stored[1] + stored[2], 1);
  CHECK_EQ(plan.constants[1].stored, Vector<std::int32_t>{100, -200});
  const double before = miss(-1.3f, {DType::I8, 0.5f, 0}, -3) + miss(0.2f, {DType::I8, 0.5f, 0}, 0);
  const double after = miss(-1.3f, {DType::I8, 0.5f, 0}, stored[3]) + miss(0.2f, {DType::I8, 0.5f, 0}, stored[4]) +
                       miss(2, {DType::I8, 0.5f, 0}, stored[5]);
  CHECK_LT(std::fabs(after), std::fabs(before));
  CHECK_GE(changes.size(), 2u);
}
