// SPDX-License-Identifier: Apache-2.0
// Operators whose way depends on how long their lines are, against what defines them.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// Numbers with many doubles among them, some NaN and both zeros.
Vector<float> mixed(std::size_t count, std::uint32_t kinds) {
  Vector<float> values(count);
  std::uint32_t state = 12345;
  for (float &value : values) {
    state = state * 1664525u + 1013904223u;
    const std::uint32_t kind = (state >> 8) % kinds;
    value = kind == 0 ? kNan : kind == 1 ? -0.0f : kind == 2 ? 0.0f : (static_cast<float>(kind) - 40.5f) * 0.75f;
  }
  return values;
}
template <class T>
const T *data_of(const reference::OwnedTensor &tensor) {
  return reinterpret_cast<const T *>(tensor.data.data());
}
template <class T>
RunOp &add(RunOp &op, std::initializer_list<std::int64_t> shape, const Vector<T> &values) {
  return op.packed(reference::DTypeOf<T>::value, shape, values.data(), values.size() * sizeof(T));
}

}  // namespace

TEST_CASE("transforms of any length are the defining sum") {
  for (const std::int64_t length : {1, 2, 6, 31, 37, 62, 67, 105, 127, 134, 201, 509, 67 * 71})
    for (const bool inverse : {false, true}) {
      Vector<double> signal(static_cast<std::size_t>(2 * length));
      std::uint32_t state = 7;
      for (double &value : signal)
        value = static_cast<double>((state = state * 1664525u + 1013904223u) >> 8) / 8388608 - 1;
      RunOp op(Op::DFT);
      op.set("inverse", inverse ? 1 : 0);
      CHECK(add(op, {length, 2}, signal).run().ok());
      double worst = 0;
      for (std::int64_t k = 0; k < length; ++k) {
        double re = 0, im = 0;
        for (std::int64_t j = 0; j < length; ++j) {
          const double angle =
              (inverse ? 2 : -2) * std::numbers::pi * static_cast<double>(j * k % length) / static_cast<double>(length);
          const double c = std::cos(angle), s = std::sin(angle), a = signal[static_cast<std::size_t>(2 * j)],
                       b = signal[static_cast<std::size_t>(2 * j + 1)];
          re += a * c - b * s, im += a * s + b * c;
        }
        const double scale = inverse ? 1 / static_cast<double>(length) : 1;
        worst = std::max({worst, std::fabs(data_of<double>(op.outputs()[0])[2 * k] - re * scale),
                          std::fabs(data_of<double>(op.outputs()[0])[2 * k + 1] - im * scale)});
      }
      CHECK(worst < 1e-11 * std::sqrt(static_cast<double>(length)));
    }
}

TEST_CASE("the best of many, equal ones in their order") {
  for (const std::size_t count : {64u, 300u, 5000u})
    for (const std::uint32_t kinds : {4u, 90u, 1000000u})
      for (const bool largest : {false, true})
        for (const std::int64_t k :
             {std::int64_t{64}, static_cast<std::int64_t>(count) / 2 + 32, static_cast<std::int64_t>(count)}) {
          const Vector<float> values = mixed(count, kinds);
          RunOp op(Op::TopK, 2);
          op.set("largest", largest ? 1 : 0);
          CHECK(add(op, {static_cast<std::int64_t>(count)}, values).in<i64>({1}, {k}).run().ok());
          Vector<std::int64_t> order(count);
          for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::int64_t>(i);
          const auto rank = [&](std::int64_t i) {
            const float value = values[static_cast<std::size_t>(i)];
            return value != value ? kInf : value;
          };
          std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
            return largest ? rank(a) > rank(b) : rank(a) < rank(b);
          });
          CHECK(std::equal(order.begin(), order.begin() + k, data_of<std::int64_t>(op.outputs()[1])));
        }
}

TEST_CASE("what is unique among many") {
  for (const bool sorted : {true, false}) {
    const Vector<float> values = mixed(4000, 90);
    RunOp op(Op::Unique, 4);
    op.set("sorted", sorted ? 1 : 0);
    CHECK(add(op, {4000}, values).run().ok());
    const std::int64_t groups = op.outputs()[0].shape[0];
    const auto *first = data_of<std::int64_t>(op.outputs()[1]), *inverse = data_of<std::int64_t>(op.outputs()[2]),
               *counts = data_of<std::int64_t>(op.outputs()[3]);
    CHECK_EQ(groups, 89);  // one zero
    std::int64_t total = 0;
    for (std::int64_t g = 0; g < groups; ++g) {
      total += counts[g];
      if (g == 0) continue;
      const float a = data_of<float>(op.outputs()[0])[g - 1], b = data_of<float>(op.outputs()[0])[g];
      CHECK((sorted ? a < b || b != b : first[g - 1] < first[g]));
    }
    CHECK_EQ(total, 4000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = values[i], same = data_of<float>(op.outputs()[0])[inverse[i]];
      CHECK((value == same || (value != value && same != same)));
      CHECK(first[inverse[i]] <= static_cast<std::int64_t>(i));
    }
  }
}

TEST_CASE("columns to images, whatever the steps") {
  const auto check = [](std::int64_t stride, std::int64_t dilation, std::int64_t pad, std::int64_t height,
                        std::int64_t width) {
    const auto places = [&](std::int64_t extent, std::int64_t taps) {
      return (extent + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
    };
    const std::int64_t rows = places(height, 3), columns = places(width, 2), taps = 6;
    Vector<float> values(static_cast<std::size_t>(2 * taps * rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7919) % 101);
    RunOp op(Op::Col2Im);
    op.set("strides", {stride, stride}).set("dilations", {dilation, dilation}).set("pads", {pad, pad, pad, pad});
    add(op, {1, 2 * taps, rows * columns}, values).in<i64>({2}, {height, width}).in<i64>({2}, {3, 2});
    REQUIRE(op.run().ok());
    Vector<float> expected(static_cast<std::size_t>(2 * height * width), 0.0f);
    std::size_t from = 0;
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t t = 0; t < taps; ++t)
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t k = 0; k < columns; ++k, ++from) {
            const std::int64_t y = r * stride + t / 2 * dilation - pad, x = k * stride + t % 2 * dilation - pad;
            if (y >= 0 && y < height && x >= 0 && x < width)
              expected[static_cast<std::size_t>((c * height + y) * width + x)] += values[from];
          }
    CHECK(std::equal(expected.begin(), expected.end(), data_of<float>(op.outputs()[0])));
  };
  check(1, 1, 1, 6, 40);
  check(1, 2, 0, 7, 23);
  check(1, 1, 2, 3, 2);
  check(2, 1, 1, 8, 9);
  check(3, 2, 1, 9, 20);
}

TEST_CASE("where the greatest of windows stand") {
  for (const bool column_major : {false, true}) {
    const std::int64_t height = 7, width = 9;
    Vector<float> values = mixed(static_cast<std::size_t>(2 * height * width), 30);
    RunOp op(Op::MaxPool, 2);
    op.set("kernel_shape", {3, 2})
        .set("strides", {2, 2})
        .set("pads", {1, 0, 1, 1})
        .set("storage_order", column_major ? 1 : 0);
    REQUIRE(add(op, {1, 2, height, width}, values).run().ok());
    const auto *found = data_of<float>(op.outputs()[0]);
    const auto *places = data_of<std::int64_t>(op.outputs()[1]);
    for (std::int64_t c = 0; c < 2; ++c)
      for (std::int64_t r = 0; r < 4; ++r)
        for (std::int64_t k = 0; k < 5; ++k, ++found, ++places) {
          float best = -kInf;
          std::int64_t at = -1;
          for (std::int64_t y = std::max<std::int64_t>(0, 2 * r - 1); y < std::min(height, 2 * r + 2); ++y)
            for (std::int64_t x = 2 * k; x < std::min(width, 2 * k + 2); ++x) {
              const float value = values[static_cast<std::size_t>((c * height + y) * width + x)];
              if (at >= 0 && !(value > best) && !(value != value && best == best)) continue;
              best = value, at = c * height * width + (column_major ? x * height + y : y * width + x);
            }
          CHECK((best == *found || (best != best && *found != *found)));
          CHECK_EQ(*places, at);
        }
  }
}

TEST_CASE("a matrix times its inverse") {
  for (const std::int64_t n : {1, 2, 7, 32}) {
    Vector<double> values(static_cast<std::size_t>(2 * n * n));
    std::uint32_t state = 99;
    for (double &value : values)
      value = static_cast<double>((state = state * 1664525u + 1013904223u) >> 8) / 8388608 - 1;
    RunOp op(Op::Inverse);
    REQUIRE(add(op, {2, n, n}, values).run().ok());
    const double *const inverse = data_of<double>(op.outputs()[0]);
    double worst = 0;
    for (std::int64_t m = 0; m < 2; ++m)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double sum = i == j ? -1 : 0;
          for (std::int64_t k = 0; k < n; ++k)
            sum += values[static_cast<std::size_t>((m * n + i) * n + k)] * inverse[(m * n + k) * n + j];
          worst = std::max(worst, std::fabs(sum));
        }
    CHECK(worst < 1e-11);
  }
}
