// SPDX-License-Identifier: Apache-2.0
// Kernels along rows. Bounds (rtol, atol), against f64 rounded once: Softmax 4e-6, 1e-7; LayerNorm 2e-5, 2e-6.
#include <algorithm>
#include <cmath>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_softmax(const Isa &isa) {
  Random random(3);
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const Shape s : {Shape{1, 1, 1},
                        {3, 5, 1},
                        {2, 8, 1},
                        {7, 33, 1},
                        {4, 1000, 1},
                        {1, 50257, 1},
                        {64, 197, 1},
                        {2, 5, 3},
                        {3, 21, 16},
                        {2, 70, 37},
                        {1, 130, 200},
                        {0, 4, 1},
                        {4, 0, 1}})
    for (const bool log : {false, true})
      for (const float scale : {1.0f, 0.125f, -2.0f}) {
        const Dims shape = {s.outer, s.n, s.inner};
        std::vector<float> x = random.reals(product(shape), -20, 20);
        // Rows with what is special.
        if (s.outer > 2 && s.n > 4) {
          const auto at = [&](std::int64_t row, std::int64_t i) -> float & {
            return x[static_cast<std::size_t>((row * s.n + i) * s.inner)];
          };
          at(0, 1) = kNan, at(1, 2) = scale > 0 ? -kInf : kInf, at(2, 3) = kInf, at(2, 4) = 3e38f;
        }
        SoftmaxF32 p;
        p.outer = s.outer, p.n = s.n, p.inner = s.inner, p.scale = scale, p.log = log;
        const auto found = values_of<float>(run(isa, Kernel::SoftmaxF32, &p, {in(x), out(x.size() * 4)})[0]);
        for (float &v : x) v *= scale;
        qir::Node node = node_of(log ? Op::LogSoftmax : Op::Softmax, 1);
        node.set("axis", std::int64_t{1});
        if (!x.empty())
          expect_close("softmax", found, reference_values(node, {tensor_of(shape, x)}), 4e-6f, log ? 1e-5f : 1e-7f);
      }
  SoftmaxF32 p;
  refuse(isa, Kernel::SoftmaxF32, p, "a negative dimension", [](auto &q) { q.n = -1; });
  refuse(isa, Kernel::SoftmaxF32, p, "too many elements",
         [](auto &q) { q.outer = q.n = q.inner = std::int64_t{1} << 30; });
  refuse(isa, Kernel::SoftmaxF32, p, "a flag of 2", [](auto &q) { q.log = 2; });
}

void test_layer_norm(const Isa &isa) {
  Random random(4);
  struct Shape {
    std::int64_t rows, cols;
  };
  for (const Shape s : {Shape{1, 1}, {3, 5}, {2, 8}, {5, 31}, {9, 768}, {3, 1024}, {2, 5000}, {130, 193}})
    for (unsigned options = 0; options < 32; ++options) {
      LayerNormF32 p;
      p.rows = s.rows, p.cols = s.cols, p.epsilon = 1e-5f;
      p.rms = options & 1, p.has_residual = options >> 1 & 1, p.has_beta = options >> 2 & 1,
      p.has_sum = options >> 3 & 1, p.has_statistics = options >> 4 & 1;
      if (s.rows == 9) p.act = options % 3 == 0 ? Activation{Act::Clip, 0, kInf, 0} : Activation{Act::Gelu, 0, 0, 0};
      const auto count = static_cast<std::size_t>(s.rows * s.cols), cols = static_cast<std::size_t>(s.cols);
      // A mean that is large beside the deviation.
      std::vector<float> x = random.reals(count, 9, 11), r = random.reals(count), gamma = random.reals(cols),
                         beta = random.reals(cols);
      if (s.rows == 5) x[7] = kNan, x[40] = kInf;
      p.plain = !p.has_beta && s.cols % 2;
      if (p.plain) std::fill(gamma.begin(), gamma.end(), 1.0f);
      std::vector<Operand> operands = {in(x)};
      if (p.has_residual) operands.push_back(in(r));
      if (!p.plain) operands.push_back(in(gamma));
      if (p.has_beta) operands.push_back(in(beta));
      operands.push_back(out(count * 4));
      if (p.has_sum) operands.push_back(out(count * 4));
      for (int i = 0; i < 2 * p.has_statistics; ++i) operands.push_back(out(size(s.rows) * 4));
      const std::vector<Bytes> found = run(isa, Kernel::LayerNormF32, &p, operands);
      if (p.has_residual)
        for (std::size_t i = 0; i < count; ++i) x[i] += r[i];
      if (p.has_sum) expect_close("sum", values_of<float>(found[1]), x, 0, 0);
      const bool with_beta = !p.rms && p.has_beta;
      qir::Node node = node_of(p.rms ? Op::RMSNormalization : Op::LayerNormalization, with_beta ? 3 : 2);
      node.set("epsilon", p.epsilon);
      std::vector<Tensor> inputs = {tensor_of({s.rows, s.cols}, x), tensor_of({s.cols}, gamma)};
      if (with_beta) inputs.push_back(tensor_of({s.cols}, beta));
      if (p.has_statistics && !p.rms) {
        qir::Node three = node;
        three.outputs = {100, 101, 102};
        const std::vector<Tensor> made = reference(three, inputs);
        for (std::size_t i = 1; i < 3; ++i)
          expect_close("statistics", values_of<float>(found[i + p.has_sum]), values_of<float>(made[i].data), 2e-5f,
                       1e-5f);
      }
      std::vector<float> expected = reference_values(node, inputs);
      if (p.rms && p.has_beta)
        for (std::size_t i = 0; i < count; ++i) expected[i] += beta[i % cols];
      expected = activated(p.act, std::move(expected));
      expect_close("layer norm", values_of<float>(found[0]), expected, 2e-5f, 1e-5f);
    }
  // Elements that differ by nothing, or by little beside their mean: what is left of a mean that was rounded would be
  // all of the result.
  for (const float mean : {0.1f, 3.3f, 1000.1f, 1e6f})
    for (const float range : {0.0f, 1.0f})
      for (const std::int64_t cols : {std::int64_t{7}, std::int64_t{192}, std::int64_t{1000}, std::int64_t{4099}}) {
        LayerNormF32 q;
        q.rows = 2, q.cols = cols, q.epsilon = 1e-5f, q.plain = 1;
        const auto count = static_cast<std::size_t>(2 * cols);
        std::vector<float> x(count);
        for (float &v : x) v = mean + (range > 0 ? random.real(-range, range) : 0);
        const auto found = values_of<float>(run(isa, Kernel::LayerNormF32, &q, {in(x), out(count * 4)})[0]);
        std::vector<float> expected(count);
        for (std::size_t row = 0; row < 2; ++row) {
          const std::span<const float> line(x.data() + row * count / 2, count / 2);
          double sum = 0, squares = 0;
          for (const float v : line) sum += v;
          const double middle = sum / static_cast<double>(cols);
          for (const float v : line) squares += (v - middle) * (v - middle);
          const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(q.epsilon));
          for (std::size_t i = 0; i < line.size(); ++i)
            expected[row * count / 2 + i] = static_cast<float>((line[i] - middle) * factor);
        }
        expect_close("layer norm about " + std::to_string(mean), found, expected, 2e-5f, 1e-5f);
      }
  LayerNormF32 p;
  refuse(isa, Kernel::LayerNormF32, p, "a flag of 2", [](auto &q) { q.has_beta = 2; });
  refuse(isa, Kernel::LayerNormF32, p, "statistics of 2", [](auto &q) { q.has_statistics = 2; });
  refuse(isa, Kernel::LayerNormF32, p, "an offset without a factor", [](auto &q) { q.plain = q.has_beta = 1; });
  refuse(isa, Kernel::LayerNormF32, p, "too many elements", [](auto &q) { q.rows = q.cols = std::int64_t{1} << 40; });
  refuse(isa, Kernel::LayerNormF32, p, "columns of 2^60", [](auto &q) { q.cols = std::int64_t{1} << 60; });
}

void register_normalization_benches(Registry &registry) {
  const auto floats = [](std::int64_t count, float low = -3, float high = 3) {
    Random random(1);
    return in(random.reals(static_cast<std::size_t>(count), low, high));
  };
  struct Rows {
    std::int64_t outer, n, inner;
  };
  for (const Rows s : {Rows{12 * 128, 128, 1}, {12 * 197, 197, 1}, {1, 1000, 1}, {1, 50257, 1}, {1, 21, 3136}})
    registry.bench("SoftmaxF32 " + std::to_string(s.outer) + "x" + std::to_string(s.n) + "x" + std::to_string(s.inner),
                   [=](const Isa &) {
                     SoftmaxF32 p;
                     p.outer = s.outer, p.n = s.n, p.inner = s.inner;
                     const std::int64_t count = s.outer * s.n * s.inner;
                     return Registry::Prepared{Kernel::SoftmaxF32,
                                               params_of(p),
                                               {floats(count), out(static_cast<std::size_t>(count) * 4)},
                                               {0, 8.0 * static_cast<double>(count)}};
                   });
  for (const bool residual : {false, true})
    for (const std::int64_t rows : {128, 197})
      registry.bench(
          "LayerNormF32 " + std::to_string(rows) + "x768" + (residual ? " with residual and sum" : ""),
          [=](const Isa &) {
            LayerNormF32 p;
            p.rows = rows, p.cols = 768, p.epsilon = 1e-5f, p.has_beta = 1, p.has_residual = p.has_sum = residual;
            const std::int64_t count = rows * 768;
            const auto bytes = static_cast<std::size_t>(count) * 4;
            std::vector<Operand> operands = {floats(count)};
            if (residual) operands.push_back(floats(count));
            operands.insert(operands.end(), {floats(768), floats(768), out(bytes)});
            if (residual) operands.push_back(out(bytes));
            return Registry::Prepared{
                Kernel::LayerNormF32, params_of(p), operands, {0, static_cast<double>(bytes) * (residual ? 4 : 2)}};
          });
}

}  // namespace

void register_normalization(Registry &registry) {
  registry.test("SoftmaxF32", test_softmax);
  registry.test("LayerNormF32", test_layer_norm);
  register_normalization_benches(registry);
}

}  // namespace quarry::kernel_test
