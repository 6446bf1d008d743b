// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications and distances (expected: sums in f64 here, bounds as in conv_f32.cpp).
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/shapes/matmul_shape.h"
#include "tests/kernels/operands.h"
#include "tests/kernels/convolution/conv_f32.h"

namespace quarry::kernel_test {

using namespace kernels;

namespace {

std::size_t extent(const std::int64_t *dims, const std::int64_t *steps, int rank) {
  std::int64_t last = 0;
  for (int i = 0; i < rank; ++i) {
    if (dims[i] == 0) return 0;
    last += (dims[i] - 1) * steps[i];
  }
  return static_cast<std::size_t>(last + 1);
}

struct MatMulData {
  std::vector<float> a, b, bias, r, y;
};
MatMulData matmul_data(const MatMulF32 &p, Random &random) {
  const auto matrix = [&](const std::int64_t *batch, std::int64_t rows, std::int64_t columns, std::int64_t row,
                          std::int64_t column) {
    std::int64_t dims[kBatchRank + 2], steps[kBatchRank + 2];
    std::copy_n(p.batch, kBatchRank, dims), std::copy_n(batch, kBatchRank, steps);
    dims[kBatchRank] = rows, dims[kBatchRank + 1] = columns, steps[kBatchRank] = row, steps[kBatchRank + 1] = column;
    return extent(dims, steps, kBatchRank + 2);
  };
  MatMulData d;
  d.a = random.reals(matrix(p.a_batch, p.m, p.k, p.a_row, p.a_col));
  d.b = random.reals(matrix(p.b_batch, p.k, p.n, p.b_row, p.b_col));
  d.y.assign(matrix(p.y_batch, p.m, p.n, p.y_row, 1), -77.0f);
  d.bias = random.reals(static_cast<std::size_t>(p.has_bias == kBiasPerRow ? p.m : p.n));
  d.r = random.reals(d.y.size());
  return d;
}
std::vector<Operand> operands_of(const MatMulF32 &p, const MatMulData &d) {
  std::vector<Operand> operands = {{bytes_of(d.a)}, {bytes_of(d.b)}};
  if (p.has_bias) operands.push_back({bytes_of(d.bias)});
  if (p.residual != Residual::None) operands.push_back({bytes_of(d.r)});
  operands.push_back({bytes_of(d.y), true});
  return operands;
}

void check_matmul(const Isa &isa, const MatMulF32 &p) {
  Random random(static_cast<std::uint64_t>(p.m * 5 + p.n * 3 + p.k));
  const MatMulData d = matmul_data(p, random);
  char what[160];
  std::snprintf(what, sizeof what,
                "m %lld n %lld k %lld a %lld %lld b %lld %lld residual %d act %d: ", static_cast<long long>(p.m),
                static_cast<long long>(p.n), static_cast<long long>(p.k), static_cast<long long>(p.a_row),
                static_cast<long long>(p.a_col), static_cast<long long>(p.b_row), static_cast<long long>(p.b_col),
                static_cast<int>(p.residual), static_cast<int>(p.act.kind));
  try {
    const std::vector<float> y = values_of<float>(run(isa, Kernel::MatMulF32, &p, operands_of(p, d)).at(0));
    std::int64_t batches = 1;
    for (const std::int64_t dim : p.batch) batches *= dim;
    std::vector<bool> seen(y.size());
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      std::int64_t a = 0, b = 0, at = 0, rest = batch;
      for (int i = kBatchRank - 1; i >= 0; --i) {
        const std::int64_t index = rest % p.batch[i];
        rest /= p.batch[i];
        a += index * p.a_batch[i], b += index * p.b_batch[i], at += index * p.y_batch[i];
      }
      for (std::int64_t m = 0; m < p.m; ++m)
        for (std::int64_t n = 0; n < p.n; ++n) {
          double sum = 0, size = 0;
          for (std::int64_t k = 0; k < p.k; ++k) {
            const double term = static_cast<double>(d.a[static_cast<std::size_t>(a + m * p.a_row + k * p.a_col)]) *
                                static_cast<double>(d.b[static_cast<std::size_t>(b + k * p.b_row + n * p.b_col)]);
            sum += term, size += std::fabs(term);
          }
          const auto i = static_cast<std::size_t>(at + m * p.y_row + n);
          const double bias = p.has_bias ? static_cast<double>(
                                               d.bias[static_cast<std::size_t>(p.has_bias == kBiasPerRow ? m : n)])
                                         : 0,
                       alpha = static_cast<double>(p.alpha);
          const double r = p.residual == Residual::None ? 0 : static_cast<double>(d.r[i]);
          seen[i] = true;
          expect_result("row " + std::to_string(m) + " column " + std::to_string(n), y[i], alpha * sum + bias,
                        (5 + std::sqrt(static_cast<double>(p.k))) * 0x1p-24 *
                            (std::fabs(alpha) * size + std::fabs(bias) + std::fabs(r)),
                        p.residual, r, p.act);
        }
    }
    for (std::size_t i = 0; i < y.size(); ++i)
      if (!seen[i] && y[i] != -77.0f) throw std::runtime_error("a gap was written to");
  } catch (const std::exception &error) {
    throw std::runtime_error(what + std::string(error.what()));
  }
}

MatMulF32 matmul(std::int64_t m, std::int64_t k, std::int64_t n, std::int64_t batch = 1) {
  MatMulF32 p;
  p.m = m, p.k = k, p.n = n;
  p.a_row = k, p.b_row = n, p.y_row = n;
  p.batch[kBatchRank - 1] = batch;
  p.a_batch[kBatchRank - 1] = m * k, p.b_batch[kBatchRank - 1] = k * n, p.y_batch[kBatchRank - 1] = m * n;
  return p;
}

MatMulF32 random_matmul(Random &random) {
  const auto size = [&] { return random.integer(1, random.integer(0, 3) ? 30 : 80); };
  MatMulF32 p = matmul(size(), random.integer(0, 5) ? size() : 700, size());
  if (random.integer(0, 2) == 0) p.a_row = 1 + random.integer(0, 1), p.a_col = p.m * p.a_row + random.integer(0, 3);
  else p.a_row += random.integer(0, 3);
  if (random.integer(0, 1) == 0) p.b_row = 1 + random.integer(0, 1), p.b_col = p.k * p.b_row + random.integer(0, 3);
  else p.b_row += random.integer(0, 3);
  p.y_row += random.integer(0, 5);
  std::int64_t y = p.m * p.y_row;
  for (int i = kBatchRank - 1; i >= 0; --i) {
    p.batch[i] = random.integer(0, 1) ? 1 : random.integer(1, 3);
    p.y_batch[i] = y;
    p.a_batch[i] = random.integer(0, 2) * 7, p.b_batch[i] = random.integer(0, 2) * 5;
    y *= p.batch[i];
  }
  p.alpha = random.integer(0, 1) ? 1.0f : random.real(-2, 2);
  p.has_bias = static_cast<std::uint32_t>(random.integer(0, kBiasPerRow));
  p.residual = static_cast<Residual>(random.integer(0, 2));
  p.act = {
      random.integer(0, 2) ? Act::Clip : static_cast<Act>(random.integer(0, static_cast<std::int64_t>(Act::Count) - 1)),
      -0.5f, 0.8f, 0};
  return p;
}

Registry::Prepared prepare(const MatMulF32 &p) {
  Random random(1);
  const MatMulData d = matmul_data(p, random);
  Registry::Prepared prepared{Kernel::MatMulF32, params_of(p), operands_of(p, d), {}};
  double batches = 1;
  for (const std::int64_t dim : p.batch) batches *= static_cast<double>(dim);
  prepared.work.flops = 2 * batches * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  prepared.work.bytes = 4.0 * static_cast<double>(d.a.size() + d.b.size() + d.y.size());
  return prepared;
}

DistanceF32 distance(std::int64_t m, std::int64_t n, std::int64_t k, bool root) {
  DistanceF32 p;
  p.m = m, p.n = n, p.k = k, p.root = root;
  return p;
}
std::vector<Operand> operands_of(const DistanceF32 &p, const std::vector<float> &a, const std::vector<float> &b) {
  return {{bytes_of(a)}, {bytes_of(b)}, {Bytes(static_cast<std::size_t>(p.m * p.n) * 4), true}};
}
// By cpu-reference's CDist. NaN and infinities stay in their rows; a root is finite where the square is not.
void check_distance(const Isa &isa, const DistanceF32 &p, float size) {
  Random random(static_cast<std::uint64_t>(p.m * 7 + p.n * 3 + p.k));
  std::vector<float> a = random.reals(static_cast<std::size_t>(p.m * p.k), -size, size),
                     b = random.reals(static_cast<std::size_t>(p.n * p.k), -size, size);
  if (p.m > 2) a[static_cast<std::size_t>(p.k)] = kNan, a[static_cast<std::size_t>(2 * p.k)] = kInf;
  qir::Node node;
  node.op = qir::Op::CDist;
  node.name = "distance";
  node.inputs = {0, 1};
  node.outputs = {2};
  if (p.root) node.set("metric", std::string_view("euclidean"));
  const std::vector<float> expected = values_of<float>(
      reference(node, {{DType::F32, {p.m, p.k}, bytes_of(a), {}}, {DType::F32, {p.n, p.k}, bytes_of(b), {}}})
          .at(0)
          .data);
  expect_close("distance " + std::to_string(p.m) + " " + std::to_string(p.n) + " " + std::to_string(p.k),
               values_of<float>(run(isa, Kernel::DistanceF32, &p, operands_of(p, a, b)).at(0)), expected, 1e-6f, 0);
}

// What Expand gives: of a matrix one row, one column or one number is there.
void check_repeated(const Isa &isa, std::int64_t m, std::int64_t n, std::int64_t k, bool turned) {
  for (int still = 1; still < 16; ++still) {
    MatMulF32 p = matmul(m, k, n);
    if (turned) p.a_row = 1, p.a_col = m, p.b_row = 1, p.b_col = k;
    for (std::int64_t *const step : {&p.a_row, &p.a_col, &p.b_row, &p.b_col})
      if (still & 1 << (step - &p.a_row)) *step = 0;
    // (Equal terms are rounded all the same way, which the bound does not allow for.)
    if (p.a_col != 0 || p.b_row != 0 || k < 10) check_matmul(isa, p);
  }
}
void test_repeated(const Isa &isa) {
  for (const std::int64_t m : {1, 2, 4, 5, 8, 9, 40})
    for (const std::int64_t n : {8, 16, 32, 33, 64})
      for (int i = 0; i < 4; ++i) check_repeated(isa, m, n, i / 2 ? 9 : 600, i % 2 != 0);
}

}  // namespace

void register_matmul(Registry &registry) {
  registry.test("DistanceF32", [](const Isa &isa) {
    for (const bool root : {false, true})
      for (const std::int64_t k : {1, 3, 8, 17, 64, 333})
        for (const std::int64_t n : {1, 3, 4, 70}) check_distance(isa, distance(7, n, k, root), root ? 1e30f : 2);
  });
  registry.bench("distance 256x256x128", [](const Isa &) {
    Random random(3);
    const DistanceF32 p = distance(256, 256, 128, true);
    const std::vector<float> a = random.reals(256 * 128), b = random.reals(256 * 128);
    return Registry::Prepared{
        Kernel::DistanceF32, params_of(p), operands_of(p, a, b), {3.0 * 256 * 256 * 128, 3 * 256 * 128 * 4}};
  });
  registry.test("MatMulF32: random", [](const Isa &isa) {
    Random random(4);
    for (int i = 0; i < 150; ++i) check_matmul(isa, random_matmul(random));
  });
  registry.test("MatMulF32: repeated", test_repeated);
  registry.test("MatMulF32: nothing", [](const Isa &isa) {
    check_matmul(isa, matmul(3, 0, 5));
    check_matmul(isa, matmul(0, 3, 5));
    check_matmul(isa, matmul(3, 4, 0));
    check_matmul(isa, matmul(3, 4, 5, 0));
  });
  registry.test("MatMulF32: few rows", [](const Isa &isa) {
    for (std::int64_t m = 1; m <= 4; ++m)
      for (const std::int64_t n : {40, 1500})
        for (const std::int64_t k : {1, 7, 600})
          for (const Residual residual : {Residual::None, Residual::BeforeAct, Residual::AfterAct}) {
            MatMulF32 p = matmul(m, k, n + 1);
            p.residual = residual;
            p.has_bias = residual == Residual::AfterAct ? 1 : residual == Residual::BeforeAct ? kBiasPerRow : 0;
            p.alpha = k == 7 ? 0.3f : 1.0f;
            if (residual != Residual::None) p.act = {Act::HardSigmoid, 0.2f, 0.5f, 0};
            check_matmul(isa, p);
          }
  });
  registry.test("MatMulF32: many rows", [](const Isa &isa) {
    check_matmul(isa, matmul(900, 10, 40));
    MatMulF32 p = matmul(250, 300, 40);
    p.a_row = 1, p.a_col = 250;
    check_matmul(isa, p);
  });

  const auto bench = [&](const char *name, const MatMulF32 &p) {
    registry.bench(std::string("MatMulF32: ") + name, [p](const Isa &) { return prepare(p); });
  };
  MatMulF32 heads = matmul(197, 64, 197, 12);
  heads.a_row = 2304, heads.b_row = 1, heads.b_col = 2304,
  heads.a_batch[kBatchRank - 1] = heads.b_batch[kBatchRank - 1] = 64;
  bench("q k^T 197x64x197 x12", heads);
  MatMulF32 values = matmul(197, 197, 64, 12);
  values.b_row = 2304, values.b_batch[kBatchRank - 1] = 64, values.y_row = 768, values.y_batch[kBatchRank - 1] = 64;
  bench("p v 197x197x64 x12", values);
  bench("512x512x512", matmul(512, 512, 512));
  bench("1x768x3072", matmul(1, 768, 3072));
}

}  // namespace quarry::kernel_test
