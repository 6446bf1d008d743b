// SPDX-License-Identifier: Apache-2.0
// Operators on elements of any type: exact, but for functions of f32 (4e-6 of the value, 4e-7)
// and of f64 (3e-15, 1e-16).
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "kernels/cpu/shapes/elements_shape.h"
#include "tests/kernels/functions.h"

namespace quarry::kernel_test {

namespace {

using namespace kernels;
using qir::Op;

struct Meaning {
  ElementOp op;
  Op node;
  const char *attribute = nullptr;  // set to 1
  bool right = false;               // BitShift
};
constexpr Meaning kMeanings[] = {
    {ElementOp::Add, Op::Add},
    {ElementOp::Sub, Op::Sub},
    {ElementOp::Mul, Op::Mul},
    {ElementOp::Div, Op::Div},
    {ElementOp::Mod, Op::Mod},
    {ElementOp::Fmod, Op::Mod, "fmod"},
    {ElementOp::Min, Op::Min},
    {ElementOp::Max, Op::Max},
    {ElementOp::BitAnd, Op::BitwiseAnd},
    {ElementOp::BitOr, Op::BitwiseOr},
    {ElementOp::BitXor, Op::BitwiseXor},
    {ElementOp::ShiftLeft, Op::BitShift},
    {ElementOp::ShiftRight, Op::BitShift, nullptr, true},
    {ElementOp::Equal, Op::Equal},
    {ElementOp::Less, Op::Less},
    {ElementOp::LessOrEqual, Op::LessOrEqual},
    {ElementOp::And, Op::And},
    {ElementOp::Or, Op::Or},
    {ElementOp::Xor, Op::Xor},
    {ElementOp::Select, Op::Where},
    {ElementOp::Not, Op::Not},
    {ElementOp::BitNot, Op::BitwiseNot},
    {ElementOp::Abs, Op::Abs},
    {ElementOp::Neg, Op::Neg},
    {ElementOp::IsNan, Op::IsNaN},
    {ElementOp::IsInf, Op::IsInf},
};
// They, and the functions.
std::vector<Meaning> meanings() {
  std::vector<Meaning> all(std::begin(kMeanings), std::end(kMeanings));
  for (const KernelFunction &function : kKernelFunctions)
    if (function.element != ElementOp::Count) all.push_back({function.element, function.op});
  return all;
}
constexpr DType kTypes[] = {DType::Bool, DType::I8,  DType::U8,  DType::I16, DType::U16, DType::I32,
                            DType::U32,  DType::I64, DType::U64, DType::F32, DType::F64};

template <class T>
Bytes edges(std::size_t count, Random &random) {
  std::vector<T> values(count);
  for (T &value : values) {
    constexpr T kEdges[] = {0, 1, static_cast<T>(-1), std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), 7};
    value = random.integer(0, 2) == 0 ? kEdges[random.integer(0, 5)] : static_cast<T>(random.bits());
    if (random.integer(0, 4) == 0) value = static_cast<T>(random.integer(0, 9));  // equal ones too
  }
  return bytes_of(values);
}
template <class T>
Bytes reals(std::size_t count, Random &random, ElementOp op) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> values(count);
  for (T &value : values) {
    const T kEdges[] = {0, -T{0}, 1, -1, Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity(), 2.5};
    const float range = std::vector<float>{1, 10, 90, 5000}[static_cast<std::size_t>(random.integer(0, 3))];
    value = random.integer(0, 9) == 0 ? kEdges[random.integer(0, 7)] : static_cast<T>(random.real(-range, range));
    // Near a pole the function is as uncertain as its argument.
    if (op == ElementOp::Tan && std::isfinite(value)) value = std::fmod(value, T{1.5});
  }
  return bytes_of(values);
}
Bytes values_for(DType dtype, std::size_t count, Random &random, ElementOp op) {
  switch (dtype) {
    case DType::Bool:
    case DType::U8: return edges<std::uint8_t>(count, random);
    case DType::I8: return edges<std::int8_t>(count, random);
    case DType::I16: return edges<std::int16_t>(count, random);
    case DType::U16: return edges<std::uint16_t>(count, random);
    case DType::I32: return edges<std::int32_t>(count, random);
    case DType::U32: return edges<std::uint32_t>(count, random);
    case DType::I64: return edges<std::int64_t>(count, random);
    case DType::U64: return edges<std::uint64_t>(count, random);
    case DType::F32: return reals<float>(count, random, op);
    default: return reals<double>(count, random, op);
  }
}

// A zero has the sign that the reference's has: sinh(-0) is -0, sinh(0) is 0.
template <class T>
void same_zeros(const std::string &what, const Bytes &found, const Bytes &expected) {
  const auto a = values_of<T>(found), b = values_of<T>(expected);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] == 0 && b[i] == 0 && std::signbit(a[i]) != std::signbit(b[i]))
      throw std::runtime_error(what + ": found " + (std::signbit(a[i]) ? "-0" : "0") +
                               ", expected a zero of the other sign");
}

void one_case(const Isa &isa, const Meaning &meaning, DType dtype, const Dims &dims, std::vector<Dims> shapes,
              Random &random) {
  Elements p;
  p.op = meaning.op, p.dtype = static_cast<std::uint32_t>(dtype), p.rank = static_cast<std::uint32_t>(dims.size());
  std::copy(dims.begin(), dims.end(), p.dims);
  qir::Node node;
  node.op = meaning.node, node.name = "node", node.outputs = {100};
  if (meaning.attribute) node.set(meaning.attribute, std::int64_t{1});
  if (meaning.node == Op::BitShift) node.set("direction", std::string_view(meaning.right ? "RIGHT" : "LEFT"));
  if (meaning.op == ElementOp::IsInf) p.a = 1, p.b = 1;
  for (const KernelFunction &function : kKernelFunctions)
    if (function.element == meaning.op) p.a = function.a, p.b = function.b, function.set(node);
  std::vector<Operand> operands;
  std::vector<Tensor> inputs;
  std::int64_t count = 1;
  for (const std::int64_t extent : dims) count *= extent;
  shapes.resize(static_cast<std::size_t>(operands_of(meaning.op)));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const DType type = meaning.op == ElementOp::Select && i == 0 ? DType::Bool : dtype;
    std::int64_t step = 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
      p.x[i][d] = shapes[i][d] == 1 ? 0 : step;
      step *= shapes[i][d];
    }
    Bytes contents = values_for(type, static_cast<std::size_t>(step), random, meaning.op);
    node.inputs.push_back(static_cast<std::int32_t>(i));
    inputs.push_back({type, shapes[i], contents, {}});
    operands.push_back({std::move(contents)});
  }
  const std::size_t width = gives_truth(meaning.op) ? 1 : dtype_bits(dtype) / 8;
  operands.push_back({Bytes(static_cast<std::size_t>(count) * width, std::byte{0xa5}), true});
  const Bytes found = run(isa, Kernel::Elements, &p, operands)[0];
  // The reference's operators on one element do not broadcast: the operand is repeated first.
  Bytes expected;
  if (inputs.size() == 1 && shapes[0] != dims) {
    const Bytes of_row = reference(node, inputs)[0].data;
    const std::size_t rows = of_row.size() / width, repeat = static_cast<std::size_t>(count) / rows;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t k = 0; k < repeat; ++k)
        expected.insert(expected.end(), of_row.begin() + static_cast<std::ptrdiff_t>(i * width),
                        of_row.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
  } else {
    expected = reference(node, inputs)[0].data;
  }
  const std::string what = "op " + std::to_string(static_cast<int>(meaning.op)) + " of " + dtype_name(dtype);
  if (dtype == DType::F32 && !gives_truth(meaning.op)) same_zeros<float>(what, found, expected);
  if (dtype == DType::F64 && !gives_truth(meaning.op)) same_zeros<double>(what, found, expected);
  if (dtype == DType::F64 && meaning.op >= ElementOp::Softsign) {
    const auto a = values_of<double>(found), b = values_of<double>(expected);
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i])) &&
          !(std::fabs(a[i] - b[i]) <= 3e-15 * std::fabs(b[i]) + 1e-16))
        throw std::runtime_error(what + ": found " + std::to_string(a[i]) + ", expected " + std::to_string(b[i]));
    return;
  }
  if (meaning.op >= ElementOp::Softsign || (dtype == DType::F32 && !gives_truth(meaning.op))) {
    const bool function = meaning.op >= ElementOp::Softsign;
    expect_close(what, values_of<float>(found), values_of<float>(expected), function ? 4e-6f : 0, function ? 4e-7f : 0);
    return;
  }
  if (found == expected) return;
  if (dtype == DType::F64) {  // NaN for NaN
    const auto a = values_of<double>(found), b = values_of<double>(expected);
    if (std::equal(a.begin(), a.end(), b.begin(), b.end(),
                   [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); }))
      return;
  }
  throw std::runtime_error(what + ": not what the reference gives");
}

void test_elements(const Isa &isa) {
  Random random(7);
  for (const Meaning &meaning : meanings()) {
    for (const DType dtype : kTypes) {
      if (!takes(meaning.op, dtype)) continue;
      // (The reference has no remainders of floats without fmod's sign, and Neg of signed types alone.)
      const bool signed_type = dtype != DType::U8 && dtype != DType::U16 && dtype != DType::U32 && dtype != DType::U64;
      if (meaning.op == ElementOp::Neg && !signed_type) continue;
      for (const std::int64_t count : {1, 7, 31, 65, 513, 1300})
        one_case(isa, meaning, dtype, {count}, {{count}, {count}, {count}}, random);
      if (operands_of(meaning.op) == 1) {
        one_case(isa, meaning, dtype, {5, 9}, {{5, 1}}, random);
        continue;
      }
      one_case(isa, meaning, dtype, {3, 4, 5}, {{3, 1, 5}, {1, 4, 5}, {3, 4, 1}}, random);
      one_case(isa, meaning, dtype, {3, 600}, {{3, 1}, {1, 600}, {3, 600}}, random);
      one_case(isa, meaning, dtype, {700}, {{1}, {700}, {1}}, random);
      one_case(isa, meaning, dtype, {2, 2, 3, 2, 2, 9}, {{2, 1, 3, 1, 2, 9}, {1, 2, 1, 2, 1, 9}, {2, 2, 3, 2, 2, 1}},
               random);
    }
  }
  for (const ElementOp op : {ElementOp::Add, ElementOp::Select, ElementOp::Sin})
    for (const Meaning &meaning : meanings())
      if (meaning.op == op)
        one_case(isa, meaning, op == ElementOp::Sin ? DType::F32 : DType::I32, {300, 301},
                 {{300, 301}, {300, 301}, {300, 301}}, random);
  // Beyond what polynomials are good for.
  Elements far;
  far.op = ElementOp::Sin, far.dtype = static_cast<std::uint32_t>(DType::F32), far.dims[0] = 40, far.x[0][0] = 1;
  std::vector<float> x = random.reals(40, -1e9f, 1e9f), y;
  for (const float v : x) y.push_back(static_cast<float>(std::sin(static_cast<double>(v))));
  expect_close("sin of large numbers",
               values_of<float>(run(isa, Kernel::Elements, &far, {{bytes_of(x)}, {Bytes(160), true}})[0]), y, 4e-6f,
               4e-7f);
  // A factor and an offset per row.
  Elements scaled;
  scaled.op = ElementOp::MulAdd, scaled.dtype = static_cast<std::uint32_t>(DType::F32);
  scaled.rank = 2, scaled.dims[0] = 7, scaled.dims[1] = 1030;
  scaled.x[0][0] = 1030, scaled.x[0][1] = scaled.x[1][0] = scaled.x[2][0] = 1;
  const std::vector<float> m = random.reals(7 * 1030), factors = random.reals(7), offsets = random.reals(7);
  std::vector<float> sums;
  for (std::size_t i = 0; i < m.size(); ++i) sums.push_back(m[i] * factors[i / 1030] + offsets[i / 1030]);
  expect_close(
      "factors and offsets",
      values_of<float>(run(isa, Kernel::Elements, &scaled,
                           {{bytes_of(m)}, {bytes_of(factors)}, {bytes_of(offsets)}, {Bytes(7 * 1030 * 4), true}})[0]),
      sums, 1e-6f, 2e-7f);
  // Elements that do not lie side by side.
  Elements p;
  p.op = ElementOp::Sub, p.dtype = static_cast<std::uint32_t>(DType::I16);
  p.rank = 2, p.dims[0] = 3, p.dims[1] = 600, p.x[0][0] = 1, p.x[0][1] = 5, p.x[1][1] = 2;
  std::vector<std::int16_t> a(3000), b(1199), expected;
  for (auto &v : a) v = static_cast<std::int16_t>(random.bits());
  for (auto &v : b) v = static_cast<std::int16_t>(random.bits());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 600; ++j) expected.push_back(static_cast<std::int16_t>(a[i + j * 5] - b[j * 2]));
  if (run(isa, Kernel::Elements, &p, {{bytes_of(a)}, {bytes_of(b)}, {Bytes(3600), true}})[0] != bytes_of(expected))
    throw std::runtime_error("strided operands: another difference");
  const auto refuse = [&](const char *what, auto change) {
    Elements q = p;
    change(q);
    Needs needs;
    if (kernel_row(Kernel::Elements).check(&q, isa, needs).ok())
      throw std::runtime_error(std::string("Elements: accepted ") + what);
  };
  refuse("rank 0", [](Elements &q) { q.rank = 0; });
  refuse("rank 7", [](Elements &q) { q.rank = 7; });
  refuse("an unknown operator", [](Elements &q) { q.op = ElementOp::Count; });
  refuse("an unknown dtype", [](Elements &q) { q.dtype = 300; });
  refuse("And of numbers", [](Elements &q) { q.op = ElementOp::And; });
  refuse("Sin of integers", [](Elements &q) { q.op = ElementOp::Sin; });
  refuse("a negative stride", [](Elements &q) { q.x[1][0] = -1; });
  refuse("2^62 elements", [](Elements &q) { q.dims[0] = q.dims[1] = std::int64_t{1} << 31; });
  refuse("Celu without alpha", [](Elements &q) { q.op = ElementOp::Celu, q.dtype = 1; });
}

}  // namespace

void register_elements(Registry &registry) { registry.test("elements", test_elements); }

}  // namespace quarry::kernel_test
