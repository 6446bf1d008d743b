// SPDX-License-Identifier: Apache-2.0
// What networks hold seldom: infinities and numbers near the greatest, rows of equal numbers, dimensions that no kernel
// has room for, targets that are no class.
#include <cmath>
#include <limits>

#include "kernels/cpu/shapes/conv_shape.h"
#include "tests/unit/cpu/random_graph.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;
using Ints = Vector<std::int64_t>;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

struct ExtremeNet : RandomGraph {
  ExtremeNet() : RandomGraph(1) { most_ = 1 << 22; }
  using RandomGraph::constant, RandomGraph::input, RandomGraph::integers, RandomGraph::node, RandomGraph::reals;
  i32 floats(qir::Shape shape, const Vector<float> &values) {
    const auto *const bytes = reinterpret_cast<const std::uint8_t *>(values.data());
    return constant(DType::F32, std::move(shape), Vector<std::uint8_t>(bytes, bytes + values.size() * 4));
  }
  const qir::Graph &gives(std::initializer_list<i32> outputs) {
    graph_.outputs.assign(outputs);
    return graph_;
  }
};

Vector<std::uint8_t> bytes_of(const Vector<float> &values) {
  const auto *const bytes = reinterpret_cast<const std::uint8_t *>(values.data());
  return Vector<std::uint8_t>(bytes, bytes + values.size() * 4);
}
Vector<float> values_of(const Vector<std::uint8_t> &bytes) {
  Vector<float> values(bytes.size() / 4);
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// NaN where NaN is wanted, the same infinities, and else what is near: by `tolerance` of a number, or of the largest.
void near(const std::string &what, const Vector<float> &found, const Vector<float> &wanted, double tolerance,
          bool of_largest = false) {
  REQUIRE_EQ(found.size(), wanted.size());
  double largest = 1;
  for (const float value : wanted)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double limit = tolerance * (of_largest ? largest : 1 + std::fabs(static_cast<double>(wanted[i])));
    const bool same = found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i])) ||
                      (std::isfinite(found[i]) && std::isfinite(wanted[i]) &&
                       std::fabs(static_cast<double>(found[i]) - static_cast<double>(wanted[i])) <= limit);
    if (!same) {
      FAIL_CHECK(what, ": at ", i, ": found ", found[i], ", expected ", wanted[i]);
      return;
    }
  }
}

// Output 0 against cpu-reference's, with one and with three workers.
void same(const std::string &what, const PlanCase &sample, const Data &inputs, double tolerance,
          bool of_largest = false) {
  REQUIRE(sample.ok());
  Data expected, found;
  REQUIRE_OK(sample.run_reference(inputs, expected));
  for (const std::uint32_t workers : {1u, 3u}) {
    REQUIRE_OK(sample.run(inputs, found, workers));
    near(what + "\n" + sample.steps(), values_of(found[0]), values_of(expected[0]), tolerance, of_largest);
  }
}

}  // namespace

TEST_CASE("an infinity spoils what taps reach, whatever the algorithm") {
  Random random(7);
  int winograd = 0;
  for (const auto &[channels, filters, group, dilation] :
       {std::array<std::int64_t, 4>{32, 64, 1, 1}, {48, 40, 1, 1}, {64, 33, 1, 2}, {96, 72, 2, 1}, {160, 160, 1, 1}})
    for (const std::int64_t side : {15, 28}) {
      ExtremeNet net;
      const i32 x = net.input(DType::F32, {2, channels, side, side});
      const i32 y = net.node(
          Op::Conv, {x, net.reals({filters, channels / group, 3, 3}, -0.3f, 0.3f), net.reals({filters}, -1, 1)},
          [&](qir::Node &n) {
            n.set("group", group), n.set("pads", Ints(4, dilation)), n.set("dilations", Ints(2, dilation));
          });
      const PlanCase sample(net.gives({net.node(Op::Relu, {y})}));
      REQUIRE(sample.ok());
      for (const cpu::Step &step : sample.plan().steps) {
        if (step.kernel != static_cast<std::uint32_t>(kernels::Kernel::ConvF32)) continue;
        kernels::ConvF32 p;
        std::memcpy(&p, sample.plan().params.data() + step.params, sizeof p);
        winograd += kernels::is_winograd(p.algorithm);
      }
      const Data plain = sample.random_inputs(random);
      for (const float strange : {kInfinity, -kInfinity, kNan, 3e36f, 3e38f}) {
        Vector<float> values = values_of(plain[0]);
        for (int i = 0; i < 3; ++i)
          values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(values.size()) - 1))] = strange;
        // (Near the greatest number sums are of few digits, whoever makes them.)
        same(std::to_string(channels) + "x" + std::to_string(side) + " with " + std::to_string(strange), sample,
             {bytes_of(values)}, 1e-3, std::isfinite(strange));
      }
    }
  CHECK_GT(winograd, 4);
}

TEST_CASE("what has no weight is not looked at") {
  for (const std::int64_t channels : {1, 3, 8, 20}) {
    for (const char *const where : {"asymmetric", "align_corners", "half_pixel"})
      for (const bool leaves : {true, false}) {
        ExtremeNet net;
        const i32 x = net.input(DType::F32, {1, channels, 5, 9});
        i32 y = net.node(Op::Resize, {x, qir::kAbsent, qir::kAbsent, net.integers({1, channels, 9, 17})},
                         [&](qir::Node &n) {
                           n.set("mode", std::string_view("linear"));
                           n.set("coordinate_transformation_mode", std::string_view(where));
                         });
        if (!leaves) y = net.node(Op::Neg, {y});
        const PlanCase sample(net.gives({y}));
        Vector<float> values(static_cast<std::size_t>(45 * channels), 0.5f);
        for (std::size_t i = 0; i < values.size(); i += 7) values[i] = i % 2 ? kInfinity : -kInfinity;
        same(std::string(where) + " Resize of " + std::to_string(channels), sample, {bytes_of(values)}, 1e-5);
      }
    for (const char *const mode : {"linear", "cubic", "nearest"})
      for (const char *const padding : {"zeros", "border", "reflection"}) {
        ExtremeNet net;
        const i32 x = net.input(DType::F32, {1, channels, 5, 5}), grid = net.input(DType::F32, {1, 9, 9, 2});
        const PlanCase sample(net.gives({net.node(Op::GridSample, {x, grid}, [&](qir::Node &n) {
          n.set("mode", std::string_view(mode)), n.set("padding_mode", std::string_view(padding));
          n.set("align_corners", std::int64_t{1});
        })}));
        Vector<float> values(static_cast<std::size_t>(25 * channels), 0.5f), places;
        for (std::size_t i = 0; i < values.size(); i += 3) values[i] = i % 2 ? kInfinity : -kInfinity;
        for (int i = 0; i < 81; ++i)  // on pixels, half way between them, and outside
          for (const int k : {i % 9, i / 9}) places.push_back(static_cast<float>(k - 4) * 0.25f * (i % 5 == 0 ? 2 : 1));
        same(std::string(mode) + " GridSample, " + padding, sample, {bytes_of(values), bytes_of(places)}, 1e-5);
      }
  }
}

TEST_CASE("normalisations of equal numbers, and of a large mean") {
  struct Case {
    Op op;
    std::int64_t rows, length;  // of a [2, 6, 7, 9] tensor
  };
  const Case cases[] = {{Op::InstanceNormalization, 12, 63},
                        {Op::GroupNormalization, 4, 189},
                        {Op::LayerNormalization, 84, 9},
                        {Op::MeanVarianceNormalization, 0, 0}};
  for (const Case &c : cases)
    for (const bool equal : {true, false})
      for (const float mean : {0.1f, 3.7f, 1e6f, -123456.7f}) {
        ExtremeNet net;
        const i32 x = net.input(DType::F32, {2, 6, 7, 9});
        Vector<i32> inputs{x};
        const bool scaled = c.op != Op::MeanVarianceNormalization;
        const std::int64_t wide = c.op == Op::LayerNormalization ? 9 : 6;
        if (scaled)
          inputs = {x, net.floats({wide}, Vector<float>(static_cast<std::size_t>(wide), 2)),
                    net.floats({wide}, Vector<float>(static_cast<std::size_t>(wide), 0.25f))};
        const PlanCase sample(net.gives({net.node(c.op, inputs, [&](qir::Node &n) {
          if (c.op == Op::GroupNormalization) n.set("num_groups", std::int64_t{2});
          if (c.op == Op::MeanVarianceNormalization) n.set("axes", Ints{0, 2, 3});
        })}));
        REQUIRE(sample.ok());
        Random random(3);
        Vector<float> values(756);
        for (float &value : values) value = equal ? mean : mean + static_cast<float>(random.integer(-8, 8)) * 0.25f;
        // In f64, by the definition.
        Vector<float> wanted(756);
        const auto group_of = [&](std::size_t i) {
          if (c.op == Op::MeanVarianceNormalization) return i / 63 % 6;
          return i / static_cast<std::size_t>(c.length);
        };
        for (std::size_t g = 0; g < (scaled ? static_cast<std::size_t>(c.rows) : 6); ++g) {
          long double sum = 0, squares = 0, count = 0;
          for (std::size_t i = 0; i < 756; ++i)
            if (group_of(i) == g) sum += values[i], count += 1;
          for (std::size_t i = 0; i < 756; ++i)
            if (group_of(i) == g) squares += (values[i] - sum / count) * (values[i] - sum / count);
          const long double deviation =
              scaled ? std::sqrt(squares / count + 1e-5L) : std::sqrt(squares / count) + 1e-9L;
          for (std::size_t i = 0; i < 756; ++i) {
            if (group_of(i) != g) continue;
            const long double normal = (values[i] - sum / count) / deviation;
            wanted[i] = static_cast<float>(scaled ? normal * 2 + 0.25L : normal);
          }
        }
        const std::string what =
            std::string(qir::op_name(c.op)) + (equal ? " of equal numbers " : " around ") + std::to_string(mean);
        Data found;
        REQUIRE_OK(sample.run({bytes_of(values)}, found));
        near(what, values_of(found[0]), wanted, 2e-5);
        REQUIRE_OK(sample.run_reference({bytes_of(values)}, found));
        near("cpu-reference: " + what, values_of(found[0]), wanted, 1e-6);
      }
  // Of BatchNormalization the mean is given.
  for (const float mean : {1e6f, 3.0f}) {
    ExtremeNet net;
    const i32 x = net.input(DType::F32, {2, 3, 50});
    const Vector<float> scales{1, 2, 3}, shifts{0.5f, 0, -1}, means(3, mean), variances{0.25f, 1, 4};
    const PlanCase sample(
        net.gives({net.node(Op::BatchNormalization, {x, net.floats({3}, scales), net.floats({3}, shifts),
                                                     net.floats({3}, means), net.floats({3}, variances)})}));
    Vector<float> values(300), wanted;
    for (std::size_t i = 0; i < 300; ++i) {
      values[i] = mean + static_cast<float>(i % 16) * 0.0625f;
      const std::size_t c = i / 50 % 3;
      wanted.push_back(static_cast<float>((double{values[i]} - double{mean}) /
                                              std::sqrt(double{variances[c]} + double{1e-5f}) * double{scales[c]} +
                                          double{shifts[c]}));
    }
    Data found;
    REQUIRE(sample.ok());
    REQUIRE_OK(sample.run({bytes_of(values)}, found));
    near("BatchNormalization", values_of(found[0]), wanted, 1e-5);
  }
}

TEST_CASE("a target that is no class is an error, as on cpu-reference") {
  for (const Op op : {Op::NegativeLogLikelihoodLoss, Op::SoftmaxCrossEntropyLoss})
    for (const char *const reduction : {"none", "sum", "mean"})
      for (const bool ignores : {false, true}) {
        ExtremeNet net;
        const i32 x = net.input(DType::F32, {2, 5, 3, 4}), targets = net.input(DType::I64, {2, 3, 4});
        const PlanCase sample(net.gives({net.node(op, {x, targets}, [&](qir::Node &n) {
          n.set("reduction", std::string_view(reduction));
          if (ignores) n.set("ignore_index", std::int64_t{-100});
        })}));
        REQUIRE(sample.ok());
        Random random(5);
        Data inputs = sample.random_inputs(random), found;
        Vector<float> scores = values_of(inputs[0]);
        scores[60] = -kInfinity;  // a class that cannot be
        inputs[0] = bytes_of(scores);
        auto *const target = reinterpret_cast<std::int64_t *>(inputs[1].data());
        for (int i = 0; i < 24; ++i) target[i] = (i + 1) % 5;
        if (ignores) target[7] = -100;
        same(std::string(qir::op_name(op)) + " " + reduction, sample, inputs, 1e-5);
        for (const std::int64_t wrong : {5, -1, 1000}) {
          target[3] = wrong;
          CHECK_EQ(std::string(sample.run(inputs, found).id()), "QR-R0007");
          CHECK_EQ(std::string(sample.run_reference(inputs, found).id()), "QR-R0007");
        }
      }
}

TEST_CASE("what kernels have no room for cpu-reference runs") {
  struct Case {
    Op op;
    Ints kernel, stride, dilation;
    qir::Shape x;
    bool natively;
  };
  const Case cases[] = {
      {Op::Conv, {1, 1}, {1, 1}, {1 << 20, 1 << 20}, {1, 2, 5, 5}, true},  // between the taps of one is nothing
      {Op::Conv, {1, 2}, {1, 1}, {1, 65537}, {1, 2, 1, 65550}, false},
      {Op::Conv, {1, 2}, {1, 65537}, {1, 1}, {1, 2, 1, 131080}, false},
      {Op::Conv, {1, 2}, {1, 1}, {1, 65536}, {1, 2, 1, 65550}, true},
      {Op::MaxPool, {1, 2}, {1, 1}, {1, 65537}, {1, 2, 1, 65550}, false},
      {Op::AveragePool, {1, 2}, {1, 65537}, {1, 1}, {1, 2, 1, 131080}, false},
  };
  for (const Case &c : cases) {
    ExtremeNet net;
    const i32 x = net.input(DType::F32, c.x);
    Vector<i32> inputs{x};
    if (c.op == Op::Conv) inputs = {x, net.reals({4, 2, c.kernel[0], c.kernel[1]}, -1, 1), net.reals({4}, -1, 1)};
    const i32 y = net.node(c.op, inputs, [&](qir::Node &n) {
      n.set("strides", c.stride), n.set("dilations", c.dilation);
      if (c.op != Op::Conv) n.set("kernel_shape", c.kernel);
    });
    REQUIRE_NE(y, qir::kAbsent);
    const PlanCase sample(net.gives({net.node(Op::Relu, {y})}));
    Random random(11);
    CHECK(same_results(sample, qir::op_name(c.op), random, 1e-5f));
    CHECK_EQ(sample.reference_steps() == 0, c.natively);
  }
}
