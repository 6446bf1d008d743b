// SPDX-License-Identifier: Apache-2.0
// Functions of one element and of two. Bounds (rtol, atol), against f64 rounded once: functions 4e-6, 4e-7 (pow 1e-6);
// + - * / and bounds exact.
#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "tests/kernels/functions.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

// Values where functions have their edges, then random ones of several magnitudes.
std::vector<float> values_for_functions(std::size_t count, Random &random) {
  static const float kEdges[] = {0.0f,  -0.0f,  kInf,   -kInf,   kNan,    1e-45f,     -1e-45f,    1.2e-38f,    1e-20f,
                                 88.7f, 88.73f, -87.3f, -87.4f,  -103.9f, -104.5f,    3e38f,      -3e38f,      0.5f,
                                 1.5f,  2.5f,   -0.5f,  -1.5f,   -2.5f,   8388607.5f, 8388609.0f, -8388609.0f, 1.0f,
                                 -1.0f, 0.927f, 1.312f, 1.3121f, 20.0f,   20.5f,      3.0f,       -3.0f,       6.0f};
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    const float range = i % 3 == 0 ? 1.0f : i % 3 == 1 ? 10.0f : 100.0f;
    values[i] = i < std::size(kEdges) ? kEdges[i] : random.real(-range, range);
  }
  return values;
}

// Forms of functions that an attribute or an operand asks for.
constexpr KernelFunction kForms[] = {{Op::Gelu, Act::GeluTanh, ElementOp::Count, "", "", 0, 0},
                                     {Op::Clip, Act::Clip, ElementOp::Count, "", "", -1.5f, 2.25f}};

std::vector<float> function_reference(const KernelFunction &function, const std::vector<float> &x) {
  const bool clip = function.op == Op::Clip;
  qir::Node node = node_of(function.op, clip ? 3 : 1);
  if (function.act == Act::GeluTanh) node.set("approximate", std::string_view("tanh"));
  function.set(node);
  std::vector<Tensor> inputs = {tensor_of({static_cast<std::int64_t>(x.size())}, x)};
  if (clip)
    inputs.push_back(tensor_of({}, std::vector<float>{function.a})),
        inputs.push_back(tensor_of({}, std::vector<float>{function.b}));
  return reference_values(node, inputs);
}

// The function that an activation is, with its numbers.
std::optional<KernelFunction> function_of(const Activation &act) {
  for (const std::span<const KernelFunction> list : {std::span<const KernelFunction>(kForms), {kKernelFunctions}})
    for (KernelFunction one : list)
      if (one.act == act.kind && act.kind != Act::None) return one.a = act.a, one.b = act.b, one;
  return std::nullopt;
}

std::vector<float> run_unary(const Isa &isa, const Activation &act, const std::vector<float> &x) {
  UnaryF32 p;
  p.count = static_cast<std::int64_t>(x.size());
  p.act = act;
  return values_of<float>(run(isa, Kernel::UnaryF32, &p, {in(x), out(x.size() * 4)})[0]);
}

void test_unary(const Isa &isa) {
  Random random(1);
  for (const std::size_t count : {1u, 3u, 4u, 7u, 8u, 15u, 17u, 33u, 120u, 70001u}) {
    const std::vector<float> x = values_for_functions(count, random);
    const auto check = [&](const KernelFunction &function) {
      const std::vector<float> found = run_unary(isa, {function.act, function.a, function.b, 0}, x);
      expect_close("act " + std::to_string(static_cast<int>(function.act)), found, function_reference(function, x),
                   4e-6f, 4e-7f);
    };
    for (const KernelFunction &function : kForms) check(function);
    for (const KernelFunction &function : kKernelFunctions)
      if (function.act != Act::None) check(function);
    std::vector<float> rsqrt(count), linear(count), square(count);
    for (std::size_t i = 0; i < count; ++i) {
      rsqrt[i] = static_cast<float>(1 / std::sqrt(static_cast<double>(x[i])));
      linear[i] = static_cast<float>(1.25 * static_cast<double>(x[i]) - 0.75);
      square[i] = x[i] * x[i];
    }
    expect_close("rsqrt", run_unary(isa, {Act::Rsqrt, 0, 0, 0}, x), rsqrt, 4e-7f, 0);
    expect_close("linear", run_unary(isa, {Act::Linear, 1.25f, -0.75f, 0}, x), linear, 4e-7f, 4e-7f);
    expect_close("square", run_unary(isa, {Act::Square, 0, 0, 0}, x), square, 0, 0);
    expect_close("none", run_unary(isa, {}, x), x, 0, 0);
  }
  // Nothing beyond 1, and as near to it as a few roundings.
  std::vector<float> far(40000);
  for (std::size_t i = 0; i < far.size(); ++i) far[i] = static_cast<float>(i) * (i % 2 ? -2.5e-4f : 2.5e-4f);
  const std::vector<float> found = run_unary(isa, {Act::Tanh, 0, 0, 0}, far);
  for (std::size_t i = 0; i < far.size(); ++i) {
    const double expected = std::tanh(static_cast<double>(far[i]));
    if (std::fabs(found[i]) > 1 || std::fabs(static_cast<double>(found[i]) - expected) > 4.5e-7 * std::fabs(expected))
      throw std::runtime_error("tanh of " + std::to_string(far[i]) + " is wrong");
  }
  UnaryF32 p;
  (void)run(isa, Kernel::UnaryF32, &p, {in({}), out(0)});
  refuse(isa, Kernel::UnaryF32, p, "a negative count", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::UnaryF32, p, "2^60 elements", [](auto &q) { q.count = std::int64_t{1} << 60; });
  refuse(isa, Kernel::UnaryF32, p, "an unknown activation", [](auto &q) { q.act.kind = Act::Count; });
}

// ---- two operands ----

struct BinaryCase {
  Dims dims, a_shape, b_shape;  // numpy shapes of the same rank
};

constexpr Op kBinaryOps[] = {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Min, Op::Max, Op::Pow, Op::PRelu};

void test_binary_case(const Isa &isa, const BinaryCase &c, BinaryOp op, const Activation &act, Random &random) {
  std::vector<float> a = random.reals(product(c.a_shape), -3, 3), b = random.reals(product(c.b_shape), -3, 3);
  if (op == BinaryOp::Pow)
    for (float &v : a) v = std::fabs(v);
  for (const float edge : {kNan, kInf, -kInf, 0.0f, -0.0f}) {
    a[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(a.size()) - 1))] = edge;
    b[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(b.size()) - 1))] = edge;
  }
  if (op == BinaryOp::Pow && b.size() == 1)
    b[0] = std::vector<float>{2, 0.5f, -1, 3, 1, 0, 1.5f}[static_cast<std::size_t>(random.integer(0, 6))];
  BinaryF32 p;
  p.op = op;
  p.rank = static_cast<std::uint32_t>(c.dims.size());
  p.act = act;
  const auto a_strides = strides_of(c.a_shape), b_strides = strides_of(c.b_shape);
  for (std::size_t i = 0; i < c.dims.size(); ++i) p.dims[i] = c.dims[i], p.a[i] = a_strides[i], p.b[i] = b_strides[i];
  const auto found = values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(product(c.dims) * 4)})[0]);
  Dims full = c.dims;
  std::vector<float> expected;
  const qir::Node node = node_of(kBinaryOps[static_cast<std::size_t>(op)], 2);
  expected = reference_values(node, {tensor_of(c.a_shape, a), tensor_of(c.b_shape, b)});
  if (expected.size() != found.size()) throw std::runtime_error("the reference's shape differs");
  expected = activated(act, std::move(expected));
  const bool exact = op != BinaryOp::Pow && (act.kind == Act::None || act.kind == Act::Clip);
  expect_close("op " + std::to_string(static_cast<int>(op)), found, expected, exact ? 0 : 4e-6f, exact ? 0 : 4e-7f);
  // Over an operand of the same layout.
  if (c.a_shape == c.dims) {
    Bytes scratch = bytes_of(a), other = bytes_of(b);
    std::byte *const pointers[3] = {scratch.data(), other.data(), scratch.data()};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::BinaryF32)](Call{&p, pointers, threads, nullptr, 0, nullptr});
    expect_close("in place", values_of<float>(scratch), found, 0, 0);
  }
}

void test_binary(const Isa &isa) {
  Random random(2);
  const Activation acts[] = {
      {}, {Act::Clip, 0, kInf, 0}, {Act::Clip, -1.5f, 2.25f, 0}, {Act::Gelu, 0, 0, 0}, {Act::Sigmoid, 0, 0, 0}};
  const BinaryCase cases[] = {{{1}, {1}, {1}},
                              {{5}, {5}, {5}},
                              {{37}, {37}, {1}},
                              {{37}, {1}, {37}},
                              {{300}, {300}, {300}},
                              {{9, 21}, {9, 21}, {1, 21}},
                              {{9, 21}, {1, 21}, {9, 21}},
                              {{9, 21}, {9, 21}, {9, 1}},
                              {{6, 3}, {6, 1}, {1, 3}},
                              {{301, 24}, {301, 24}, {1, 24}},
                              {{20000, 5}, {20000, 5}, {1, 5}},
                              {{2, 3, 4, 5}, {2, 1, 4, 1}, {1, 3, 1, 5}},
                              {{2, 2, 3, 2, 2, 9}, {2, 1, 3, 1, 2, 9}, {1, 2, 1, 2, 1, 9}},
                              {{3, 5000}, {3, 5000}, {3, 1}},
                              {{90001}, {90001}, {90001}},
                              {{300, 301}, {300, 301}, {1, 301}}};
  for (const BinaryCase &c : cases)
    for (std::uint32_t op = 0; op < static_cast<std::uint32_t>(BinaryOp::Count); ++op) {
      // The reference's PRelu broadcasts its slope only.
      if (static_cast<BinaryOp>(op) == BinaryOp::Prelu && c.a_shape != c.dims) continue;
      const std::size_t act = product(c.dims) > 1000 ? op % std::size(acts) : 0;
      test_binary_case(isa, c, static_cast<BinaryOp>(op), acts[act], random);
      if (act == 0 && op < 4)
        for (const Activation &other : acts) test_binary_case(isa, c, static_cast<BinaryOp>(op), other, random);
    }
  // Powers of what is no plain number, and at the ends of the range.
  const float edges[] = {kNan,    kInf,  -kInf,  0,    -0.0f,       1,          -1,          2,
                         -2,      0.5f,  -0.5f,  3,    -3,          2.5f,       -2.5f,       1e-40f,
                         -1e-40f, 3e38f, -3e38f, 1e9f, 16777217.0f, 1.0000001f, 0.99999994f, 150};
  std::vector<float> bases, exponents, powers;
  for (const float x : edges)
    for (const float y : edges) {
      bases.push_back(x), exponents.push_back(y);
      powers.push_back(static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y))));
    }
  BinaryF32 power;
  power.op = BinaryOp::Pow, power.dims[0] = static_cast<std::int64_t>(powers.size()), power.a[0] = power.b[0] = 1;
  expect_close(
      "powers",
      values_of<float>(run(isa, Kernel::BinaryF32, &power, {in(bases), in(exponents), out(powers.size() * 4)})[0]),
      powers, 2e-7f, 1e-45f);
  // Any strides.
  BinaryF32 p;
  p.rank = 2, p.dims[0] = 7, p.dims[1] = 301;
  p.a[0] = 2, p.a[1] = 14, p.b[0] = 0, p.b[1] = 3;
  const std::vector<float> a = random.reals(13 + 300 * 14), b = random.reals(901);
  std::vector<float> expected;
  for (std::size_t i = 0; i < 7; ++i)
    for (std::size_t j = 0; j < 301; ++j) expected.push_back(a[i * 2 + j * 14] + b[j * 3]);
  expect_close("strided",
               values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(expected.size() * 4)})[0]), expected,
               0, 0);
  p.a[1] = p.b[1] = 0;  // each side one value a row
  expected.clear();
  for (std::size_t i = 0; i < 7; ++i) expected.insert(expected.end(), 301, a[i * 2] + b[0]);
  expect_close("scalars",
               values_of<float>(run(isa, Kernel::BinaryF32, &p, {in(a), in(b), out(expected.size() * 4)})[0]), expected,
               0, 0);
  p.dims[1] = 0;
  (void)run(isa, Kernel::BinaryF32, &p, {in({}), in({}), out(0)});
  refuse(isa, Kernel::BinaryF32, p, "rank 7", [](auto &q) { q.rank = 7; });
  refuse(isa, Kernel::BinaryF32, p, "rank 0", [](auto &q) { q.rank = 0; });
  refuse(isa, Kernel::BinaryF32, p, "an unknown operator", [](auto &q) { q.op = BinaryOp::Count; });
  refuse(isa, Kernel::BinaryF32, p, "a negative stride", [](auto &q) { q.dims[1] = 2, q.a[1] = -1; });
  refuse(isa, Kernel::BinaryF32, p, "a stride of 2^60", [](auto &q) { q.dims[1] = 2, q.b[1] = std::int64_t{1} << 60; });
  refuse(isa, Kernel::BinaryF32, p, "2^62 elements", [](auto &q) { q.dims[0] = q.dims[1] = std::int64_t{1} << 31; });
}

void register_elementwise_benches(Registry &registry) {
  const auto floats = [](std::int64_t count, float low = -3, float high = 3) {
    Random random(1);
    return in(random.reals(static_cast<std::size_t>(count), low, high));
  };
  struct Named {
    const char *name;
    Act act;
  };
  for (const Named &f : {Named{"Relu", Act::Clip},
                         {"Gelu", Act::Gelu},
                         {"GeluTanh", Act::GeluTanh},
                         {"Sigmoid", Act::Sigmoid},
                         {"Silu", Act::Silu},
                         {"Tanh", Act::Tanh},
                         {"Erf", Act::Erf},
                         {"Exp", Act::Exp},
                         {"Log", Act::Log},
                         {"HardSwish", Act::HardSwish},
                         {"Mish", Act::Mish},
                         {"Sqrt", Act::Sqrt}})
    for (const std::int64_t count : {16 * 1024, 128 * 3072}) {
      if (count > 20000 && f.act != Act::Gelu && f.act != Act::Clip) continue;
      registry.bench("UnaryF32 " + std::string(f.name) + " " + std::to_string(count), [=](const Isa &) {
        UnaryF32 p;
        p.count = count, p.act = {f.act, 1, f.act == Act::Clip ? 2.0f : 0.0f, 0};
        return Registry::Prepared{Kernel::UnaryF32,
                                  params_of(p),
                                  {floats(count), out(static_cast<std::size_t>(count) * 4)},
                                  {0, 8.0 * static_cast<double>(count)}};
      });
    }
  registry.bench("BinaryF32 4 elements", [=](const Isa &) {
    BinaryF32 p;
    p.dims[0] = 4, p.a[0] = p.b[0] = 1;
    return Registry::Prepared{Kernel::BinaryF32, params_of(p), {floats(4), floats(4), out(16)}, {4, 48}};
  });
  registry.bench("UnaryF32 Relu 4 elements", [=](const Isa &) {
    UnaryF32 p;
    p.count = 4, p.act = {Act::Clip, 0, kInf, 0};
    return Registry::Prepared{Kernel::UnaryF32, params_of(p), {floats(4), out(16)}, {4, 32}};
  });
  for (const std::int64_t side : {7, 56})
    registry.bench("BinaryF32 Add Relu " + std::to_string(side) + "x" + std::to_string(side) + "x256",
                   [=](const Isa &) {
                     BinaryF32 p;
                     const std::int64_t count = side * side * 256;
                     p.dims[0] = count, p.a[0] = p.b[0] = 1, p.act = {Act::Clip, 0, kInf, 0};
                     return Registry::Prepared{Kernel::BinaryF32,
                                               params_of(p),
                                               {floats(count), floats(count), out(static_cast<std::size_t>(count) * 4)},
                                               {0, 12.0 * static_cast<double>(count)}};
                   });
  for (const std::int64_t c : {16, 96})
    registry.bench("BinaryF32 Mul 3136 x " + std::to_string(c) + " by channel", [=](const Isa &) {
      BinaryF32 p;
      p.op = BinaryOp::Mul, p.rank = 2, p.dims[0] = 3136, p.dims[1] = c, p.a[0] = c, p.a[1] = p.b[1] = 1;
      return Registry::Prepared{Kernel::BinaryF32,
                                params_of(p),
                                {floats(3136 * c), floats(c), out(static_cast<std::size_t>(3136 * c) * 4)},
                                {0, 8.0 * 3136 * static_cast<double>(c)}};
    });
}

}  // namespace

std::vector<float> activated(const Activation &act, std::vector<float> x) {
  if (const auto function = function_of(act)) return function_reference(*function, x);
  return x;
}

void register_elementwise(Registry &registry) {
  registry.test("UnaryF32", test_unary);
  registry.test("BinaryF32", test_binary);
  register_elementwise_benches(registry);
}

}  // namespace quarry::kernel_test
