// SPDX-License-Identifier: Apache-2.0
// Operators that have a lowering of their own run by kernels, whatever their parameters, and give what cpu-reference
// gives.
#include "kernels/cpu/shapes/matmul_shape.h"
#include "tests/cases/cases.h"
#include "tests/unit/cpu/one_node.h"

using namespace quarry;
using namespace quarry::test;
namespace test = quarry::test;
using kernels::Kernel;
using qir::Op;
using i32 = std::int32_t;

TEST_CASE("transposed convolutions") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::size_t rank = random.chance(70) ? 2 : 1;
    const std::int64_t group = random.one_of({1, 1, 1, 2, 4}), channelwise = random.chance(15);
    const std::int64_t ic = group * (channelwise ? 1 : random.integer(1, 9)),
                       oc = channelwise ? 1 : random.integer(1, 20);
    Vector<std::int64_t> x{random.integer(1, 2), ic}, w{ic, oc}, strides, dilations, pads(rank * 2), more;
    for (std::size_t d = 0; d < rank; ++d) {
      x.push_back(random.integer(1, 9)), w.push_back(random.integer(1, 6));
      strides.push_back(random.integer(1, 4));
      dilations.push_back(random.chance(70) ? 1 : random.integer(1, 3));
      const std::int64_t reach = (w.back() - 1) * dilations.back();
      const std::int64_t whole = (x.back() - 1) * strides.back() + reach + 1;
      pads[d] = random.integer(0, reach);
      pads[rank + d] = std::min(random.integer(0, reach), whole - pads[d] - 1);
      more.push_back(random.integer(0, strides.back() - 1));
    }
    const i32 xi = one.input(DType::F32, x), wi = one.either(DType::F32, w);
    Vector<i32> inputs{xi, wi};
    if (random.chance(60)) inputs.push_back(one.either(DType::F32, {oc * group}));
    one.check("ConvTranspose, seed " + std::to_string(seed), Op::ConvTranspose, inputs, {DType::F32}, 2e-5f,
              [&](qir::Node &node) {
                node.set("group", group), node.set("strides", strides), node.set("dilations", dilations);
                node.set("pads", pads), node.set("output_padding", more);
              });
  }
}

TEST_CASE("convolutions of three dimensions") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::int64_t group = random.one_of({1, 1, 1, 2}), ic = random.integer(1, 9),
                       oc = group * random.integer(1, 9);
    Vector<std::int64_t> x{random.integer(1, 2), ic * group}, w{oc, ic}, strides, dilations, pads(6);
    for (std::size_t d = 0; d < 3; ++d) {
      w.push_back(random.integer(1, 3));
      strides.push_back(random.integer(1, 2)), dilations.push_back(random.integer(1, 2));
      const std::int64_t reach = (w.back() - 1) * dilations.back();
      x.push_back(reach + random.integer(1, 6));
      pads[d] = random.integer(0, 3), pads[3 + d] = random.integer(0, 3);
    }
    Vector<i32> inputs{one.input(DType::F32, x), one.either(DType::F32, w)};
    if (random.chance(60)) inputs.push_back(one.either(DType::F32, {oc}));
    one.check("Conv3d, seed " + std::to_string(seed), Op::Conv, inputs, {DType::F32}, 2e-5f, [&](qir::Node &node) {
      node.set("group", group), node.set("strides", strides), node.set("dilations", dilations);
      node.set("pads", pads);
    });
  }
}

TEST_CASE("convolutions whose filters have one channel each, and those of one tap") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::size_t rank = static_cast<std::size_t>(random.integer(1, 3));
    const bool pointwise = random.chance(30);
    const std::int64_t channels = random.integer(2, 20), times = rank == 3 ? 1 : random.integer(1, 3),
                       oc = pointwise ? random.integer(1, 70) : channels * times;
    Vector<std::int64_t> x{random.integer(1, 2), channels}, w{oc, pointwise ? channels : 1}, strides, dilations,
        pads(rank * 2);
    for (std::size_t d = 0; d < rank; ++d) {
      w.push_back(pointwise ? 1 : random.one_of({1, 2, 3, 3, 5, 7}));
      strides.push_back(pointwise || random.chance(60) ? 1 : 2), dilations.push_back(random.chance(70) ? 1 : 2);
      const std::int64_t reach = (w.back() - 1) * dilations.back();
      x.push_back(reach + random.integer(1, 12));
      if (!pointwise) pads[d] = random.integer(0, reach), pads[rank + d] = random.integer(0, reach);
    }
    Vector<i32> inputs{one.input(DType::F32, x), one.either(DType::F32, w)};
    if (random.chance(60)) inputs.push_back(one.either(DType::F32, {oc}));
    one.check("Conv, seed " + std::to_string(seed), Op::Conv, inputs, {DType::F32}, 2e-5f, [&](qir::Node &node) {
      node.set("group", pointwise ? std::int64_t{1} : channels), node.set("strides", strides);
      node.set("dilations", dilations), node.set("pads", pads);
    });
  }
}

namespace {

constexpr DType kTypes[] = {DType::F32, DType::F64, DType::I8,  DType::U8,  DType::I16, DType::U16,
                            DType::I32, DType::U32, DType::I64, DType::U64, DType::Bool};

// Its operands of this type, with dimensions of up to so many.
void check_case(const OperatorCase &row, DType dtype, std::uint64_t seed, std::int64_t longest) {
  OneNode one(seed);
  std::int64_t extents[26];
  for (std::int64_t &extent : extents) extent = one.random.integer(1, longest);
  const auto operands = operands_of(row, [&](char letter) { return extents[letter - 'a']; });
  if (!takes_type(row.op, operands[0].type, dtype)) return;
  Vector<i32> inputs;
  for (const CaseOperand &operand : operands)
    inputs.push_back(operand.values ? one.integers(operand.shape, *operand.values)
                                    : one.input(dtype_from_name(operand.type).value_or(dtype), operand.shape));
  one.check(
      std::string(qir::op_name(row.op)) + " of " + dtype_name(dtype), row.op, inputs,
      {result_type(row.op, operands[0].type, dtype)}, 1e-6f,
      [&](qir::Node &node) { set_attributes(node, row.attributes); }, by_rule(row.op, dtype));
}

}  // namespace

TEST_CASE("operators of the tables of cases, of every type that they have") {
  std::uint64_t seed = 0;
  for (const BinaryCase &row : kBinaryCases)
    for (const DType dtype : kTypes) {
      if (!takes_type(row.op, "T", dtype)) continue;
      OneNode one(++seed);
      const i32 a = one.input(dtype, {3, 1, 7}),
                b = one.input(dtype, row.op == Op::PRelu ? qir::Shape{3, 1, 1} : qir::Shape{2, 3, 4, 1});
      one.check(
          std::string(qir::op_name(row.op)) + " of " + dtype_name(dtype), row.op, {a, b},
          {result_type(row.op, "T", dtype)}, 1e-6f, [&](qir::Node &node) { set_attributes(node, row.attributes); },
          by_rule(row.op, dtype));
    }
  for (const ReductionCase &row : kReductionCases)
    for (const DType dtype : kTypes) {
      if (!takes_type(row.op, "T", dtype)) continue;
      OneNode one(++seed);
      const std::int64_t keep = seed % 2;
      const i32 x = one.input(dtype, {4, 9, 21}), axes = one.b.constant<std::int64_t>({1}, {keep == 0 ? 2 : 1});
      one.check(
          std::string(qir::op_name(row.op)) + " of " + dtype_name(dtype), row.op, {x, axes}, {dtype}, 1e-6f,
          [&](qir::Node &node) { node.set("keepdims", keep); }, by_rule(row.op, dtype));
    }
  for (const OperatorCase &row : kOperatorCases)
    for (const DType dtype : kTypes)
      for (const std::int64_t longest : {1, 5, 9, 70}) check_case(row, dtype, ++seed, longest);
}

TEST_CASE("operators on elements of every type") {
  // Each has a step of cpu's own, whatever the tables say.
  constexpr DType kIntegers[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                                 DType::I32, DType::U32, DType::I64, DType::U64};
  std::uint64_t seed = 0;
  const auto binary = [&](Op op, DType dtype, DType made, std::string_view direction = {}) {
    OneNode one(++seed);
    const i32 a = one.input(dtype, {3, 1, 7}), b = one.input(dtype, {2, 3, 4, 1});
    one.check(qir::op_name(op), op, {a, b}, {made}, 1e-6f, [&](qir::Node &node) {
      if (!direction.empty()) node.set("direction", direction);
    });
  };
  for (const DType dtype : kIntegers) {
    for (const Op op :
         {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod, Op::Min, Op::Max, Op::BitwiseAnd, Op::BitwiseOr, Op::BitwiseXor})
      binary(op, dtype, dtype);
    for (const std::string_view direction : {"LEFT", "RIGHT"}) binary(Op::BitShift, dtype, dtype, direction);
    for (const Op op : {Op::Equal, Op::Less, Op::LessOrEqual, Op::Greater, Op::GreaterOrEqual})
      binary(op, dtype, DType::Bool);
  }
  for (const Op op : {Op::Less, Op::Greater, Op::Equal, Op::GreaterOrEqual}) binary(op, DType::F32, DType::Bool);
  for (const Op op : {Op::And, Op::Or, Op::Xor, Op::Equal}) binary(op, DType::Bool, DType::Bool);
  for (const DType dtype : {DType::F32, DType::Bool, DType::I64, DType::U8, DType::F64, DType::I16}) {
    OneNode one(++seed);
    const i32 c = one.input(DType::Bool, {4, 1, 5}), x = one.input(dtype, {1, 3, 5}), y = one.input(dtype, {1});
    one.check("Where", Op::Where, {c, x, y}, {dtype}, 0, [](qir::Node &) {});
  }
  for (const Op op : {Op::Sum, Op::Mean, Op::Max, Op::Min}) {
    for (const std::size_t count : {1u, 2u, 3u, 5u}) {
      OneNode one(++seed);
      Vector<i32> inputs;
      for (std::size_t i = 0; i < count; ++i)
        inputs.push_back(one.input(DType::F32, i % 2 ? Vector<std::int64_t>{5} : Vector<std::int64_t>{3, 4, 5}));
      one.check(qir::op_name(op), op, inputs, {DType::F32}, 1e-6f, [](qir::Node &) {});
    }
  }
  for (const DType dtype : {DType::I64, DType::I32, DType::U8}) {
    OneNode one(++seed);
    const i32 x = one.input(dtype, {50}), low = one.constant(dtype, {}, 3), high = one.input(dtype, {});
    one.check("Clip", Op::Clip, {x, low, high}, {dtype}, 0, [](qir::Node &) {});
  }
  for (const DType dtype : {DType::I8, DType::I32, DType::F64}) {
    OneNode one(++seed);
    one.check("Relu", Op::Relu, {one.input(dtype, {3, 50})}, {dtype}, 0, [](qir::Node &) {});
  }
  for (const DType dtype : {DType::I8, DType::U8}) {
    OneNode one(++seed);
    one.check("MaxPool of bytes", Op::MaxPool, {one.input(dtype, {2, 5, 9, 8})}, {dtype}, 0, [](qir::Node &node) {
      node.set("kernel_shape", Vector<std::int64_t>{3, 2});
      node.set("pads", Vector<std::int64_t>{1, 0, 1, 1});
    });
  }
}

TEST_CASE("f64, and products and sums of whole numbers") {
  constexpr DType kWhole[] = {DType::F64, DType::I32, DType::I64, DType::U32, DType::U64};
  const auto plain = [](qir::Node &) {};
  for (const Op op :
       {Op::Tanh, Op::Exp, Op::Round, Op::Sqrt, Op::Sin, Op::LeakyRelu, Op::Relu, Op::Softplus, Op::Selu}) {
    OneNode one(11);
    one.check(std::string("f64 ") + std::string(qir::op_name(op)), op, {one.input(DType::F64, {3, 1, 37})},
              {DType::F64}, 1e-6f, plain);
  }
  for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::Hardmax})
    for (const DType dtype : {DType::F32, DType::F64})
      for (const std::int64_t axis : {0, 1, 2}) {
        OneNode one(12);
        one.check("lines", op, {one.input(dtype, {5, 33, 6})}, {dtype}, 1e-6f,
                  [&](qir::Node &node) { node.set("axis", axis); });
      }
  for (const DType dtype : kWhole) {
    for (const Op op : {Op::ReduceSum, Op::ReduceMax, Op::ReduceMin, Op::ReduceProd, Op::ReduceL1, Op::ReduceSumSquare})
      for (const std::int64_t keep : {0, 1}) {
        OneNode one(13);
        const i32 x = one.input(dtype, {4, 9, 21});
        const i32 axes = one.b.constant<std::int64_t>({1}, {keep == 0 ? 2 : 1});
        one.check("reduction", op, {x, axes}, {dtype}, 1e-6f, [&](qir::Node &node) { node.set("keepdims", keep); });
      }
    OneNode one(14);
    const i32 a = one.input(dtype, {2, 1, 5, 19}), b = one.input(dtype, {3, 19, 34});
    one.check("product", Op::MatMul, {a, b}, {dtype}, 1e-6f, plain);
  }
  for (const DType dtype : {DType::F32, DType::F64, DType::I32}) {
    // Vectors on either side, and on both.
    using Extents = Vector<std::int64_t>;
    for (const auto &[left, right] : {std::pair{Extents{70}, Extents{70}}, std::pair{Extents{19}, Extents{3, 19, 34}},
                                      std::pair{Extents{2, 5, 19}, Extents{19}}}) {
      OneNode vectors(16);
      const i32 x = vectors.input(dtype, left), y = vectors.input(dtype, right);
      vectors.check("product of a vector", Op::MatMul, {x, y}, {dtype}, 1e-6f, plain);
    }
  }
  OneNode sums(15);
  const i32 axes = sums.b.constant<std::int64_t>({1}, {0});
  sums.check("logarithm of a sum", Op::ReduceLogSum, {sums.input(DType::F64, {9, 40}), axes}, {DType::F64}, 1e-6f,
             [](qir::Node &node) { node.set("keepdims", std::int64_t{0}); });
}

TEST_CASE("the best of rows, regions, random numbers of a seed") {
  for (const std::int64_t k : {1, 7, 20}) {
    OneNode one(20);
    const i32 x = one.input(DType::F32, {3, 20, 5}), count = one.integers({1}, {static_cast<double>(k)});
    one.check("TopK", Op::TopK, {x, count}, {DType::F32, DType::I64}, 0,
              [](qir::Node &node) { node.set("axis", std::int64_t{1}); });
  }
  OneNode regions(21);
  const i32 x = regions.input(DType::F32, {2, 3, 9, 11}), rois = regions.constant(DType::F32, {3, 4}),
            batches = regions.integers({3}, {0, 1, 0});
  regions.check("RoiAlign", Op::RoiAlign, {x, rois, batches}, {DType::F32}, 2e-6f, [](qir::Node &node) {
    node.set("output_height", std::int64_t{3}), node.set("output_width", std::int64_t{2});
  });
  for (const Op op : {Op::RandomNormal, Op::RandomUniform}) {
    OneNode one(22);
    one.check(qir::op_name(op), op, {}, {DType::F32}, 1e-6f, [](qir::Node &node) {
      node.set("shape", Vector<std::int64_t>{5, 40}), node.set("seed", 3.0f);
    });
  }
}

TEST_CASE("diagonals, dots, ones along a diagonal") {
  for (const char *equation : {"ii->i", "iij->ji", "ijk->kij", "...ii->...i"})
    for (const DType dtype : {DType::F32, DType::I64}) {
      OneNode one(16);
      one.check(equation, Op::Einsum,
                {one.input(dtype, equation[0] == '.'   ? Vector<std::int64_t>{3, 6, 6}
                                  : equation[2] == '-' ? Vector<std::int64_t>{7, 7}
                                                       : Vector<std::int64_t>{5, 5, 8})},
                {dtype}, 0, [&](qir::Node &node) { node.set("equation", std::string_view(equation)); });
    }
  for (const std::int64_t k : {1, 15, 16, 77, 300}) {
    OneNode one(17);
    const i32 a = one.input(DType::F32, {6, k}), b = one.input(DType::F32, {6, k});
    one.check("dots", Op::Einsum, {a, b}, {DType::F32}, 2e-6f,
              [](qir::Node &node) { node.set("equation", std::string_view("bi,bi->b")); });
  }
  for (const std::int64_t k : {-9, -4, -3, 0, 2, 5, 6, 9})
    for (const DType dtype : {DType::F32, DType::F64, DType::I64, DType::U8}) {
      OneNode one(18);
      one.check("EyeLike", Op::EyeLike, {one.input(dtype, {4, 6})}, {dtype}, 0,
                [&](qir::Node &node) { node.set("k", k); });
    }
}

TEST_CASE("integer products whose sums stay integers") {
  std::uint64_t seed = 0;
  for (const DType x_type : {DType::U8, DType::I8}) {
    for (const DType w_type : {DType::I8, DType::U8}) {
      for (int zeros = 0; zeros < 6; ++zeros) {
        OneNode one(++seed);
        Random &random = one.random;
        const std::int64_t k = random.integer(1, 90), n = random.integer(1, 70);
        const i32 x = one.input(x_type, {random.integer(1, 3), random.integer(1, 40), k}),
                  w = one.constant(w_type, {k, n});
        // Of x: none, constant, known at run time; of w: none, one, one for each column.
        const i32 x_zero = zeros % 3 == 0   ? qir::kAbsent
                           : zeros % 3 == 1 ? one.constant(x_type, {})
                                            : one.input(x_type, {});
        const i32 w_zero = zeros < 2 ? qir::kAbsent : zeros < 4 ? one.constant(w_type, {}) : one.constant(w_type, {n});
        one.check("MatMulInteger", Op::MatMulInteger, {x, w, x_zero, w_zero}, {DType::I32}, 0, [](qir::Node &) {});
      }
      // Neither side constant, or more than one matrix of weights; zero points of all shapes.
      for (int zeros = 0; zeros < 12; ++zeros) {
        OneNode one(++seed);
        Random &random = one.random;
        const std::int64_t m = random.integer(2, 40), k = random.integer(1, 90), n = random.integer(2, 70),
                           b = random.integer(2, 3);
        const qir::Shape x_shape{zeros % 2 ? b : 1, m, k},
            w_shape = zeros == 5 ? qir::Shape{k, n} : qir::Shape{b, k, n};
        const i32 x = one.input(x_type, x_shape),
                  w = zeros == 6 ? one.constant(w_type, w_shape) : one.input(w_type, w_shape);
        const i32 x_zero = zeros % 3 == 0   ? qir::kAbsent
                           : zeros % 3 == 1 ? one.input(x_type, {m})
                                            : one.input(x_type, {1});
        const i32 w_zero = zeros < 4 ? qir::kAbsent : zeros < 8 ? one.input(w_type, {}) : one.input(w_type, {n});
        one.check("MatMulInteger", Op::MatMulInteger, {x, w, x_zero, w_zero}, {DType::I32}, 0, [](qir::Node &) {});
      }
      for (int zeros = 0; zeros < 24; ++zeros) {
        OneNode one(++seed);
        Random &random = one.random;
        const std::int64_t group = random.one_of({1, 1, 1, 3}), ic = random.integer(1, 20),
                           oc = group * random.integer(1, 20);
        const std::int64_t taps = random.integer(1, 3), pad = random.integer(0, taps - 1);
        const i32 x = one.input(x_type, {random.integer(1, 2), ic * group, random.integer(3, 9), random.integer(3, 9)}),
                  w = one.constant(w_type, {oc, ic, taps, taps});
        const i32 x_zero = zeros % 3 == 0   ? qir::kAbsent
                           : zeros % 3 == 1 ? one.constant(x_type, {})
                                            : one.input(x_type, {});
        const i32 w_zero = zeros % 2 ? one.constant(w_type, {}) : qir::kAbsent;
        one.check("ConvInteger", Op::ConvInteger, {x, w, x_zero, w_zero}, {DType::I32}, 0, [&](qir::Node &node) {
          node.set("group", group), node.set("pads", Vector<std::int64_t>{pad, pad, pad, pad});
        });
      }
    }
  }
}

TEST_CASE("quantisation by the values' own range") {
  for (const std::int64_t count : {1, 5, 33, 1000, 100000}) {
    OneNode one(static_cast<std::uint64_t>(count));
    one.check("DynamicQuantizeLinear", Op::DynamicQuantizeLinear, {one.input(DType::F32, {count})},
              {DType::U8, DType::F32, DType::U8}, 0, [](qir::Node &) {});
  }
}

TEST_CASE("quantisation along axes, by blocks and by scales of the run") {
  std::uint64_t seed = 0;
  const Vector<std::int64_t> shape{3, 8, 4, 34};
  for (const DType dtype : {DType::U8, DType::I8, DType::U16, DType::I16, DType::I32}) {
    for (const std::int64_t axis : {0, 1, 2, 3, -1, 4 /* none: one scale */}) {
      for (const std::int64_t block : {0, 2, 1}) {
        for (int form = 0; form < 6; ++form) {
          const bool to_int = form % 2, zeros = form / 2 != 0, at_run_time = form / 2 == 2;
          const std::size_t place = static_cast<std::size_t>(axis < 0 ? axis + 4 : axis);
          if ((axis == 4 && block != 0) || (dtype == DType::I32 && (to_int || zeros)) ||
              (block != 0 && shape[place] % block != 0))
            continue;
          OneNode one(++seed);
          Vector<std::int64_t> entries;
          if (axis != 4 && block == 0) entries = {shape[place]};
          if (block != 0) entries = shape, entries[place] /= block;
          Vector<i32> inputs{one.input(to_int ? DType::F32 : dtype, shape),
                             at_run_time ? one.input(DType::F32, entries) : one.constant(DType::F32, entries)};
          if (zeros) inputs.push_back(at_run_time ? one.input(dtype, entries) : one.constant(dtype, entries));
          one.check(to_int ? "QuantizeLinear" : "DequantizeLinear", to_int ? Op::QuantizeLinear : Op::DequantizeLinear,
                    inputs, {to_int ? dtype : DType::F32}, 0, [&](qir::Node &node) {
                      if (axis != 4) node.set("axis", axis);
                      if (block != 0) node.set("block_size", block);
                    });
        }
      }
    }
  }
}

TEST_CASE("quantisation of float16") {
  std::uint64_t seed = 100;
  for (const DType half : {DType::F16, DType::BF16})
    for (const DType dtype : {DType::U8, DType::I8, DType::U16})
      for (int form = 0; form < 8; ++form) {
        OneNode one(++seed);
        const bool at_run_time = form & 1, zeros = form & 2;
        const Vector<std::int64_t> one_shape = form & 4 ? Vector<std::int64_t>{1} : Vector<std::int64_t>{};
        Vector<i32> inputs{one.input(half, {3, 5, 77}),
                           at_run_time ? one.input(half, one_shape) : one.constant(half, one_shape)};
        if (zeros) inputs.push_back(at_run_time ? one.input(dtype, one_shape) : one.constant(dtype, one_shape));
        one.check("QuantizeLinear", Op::QuantizeLinear, inputs, {zeros ? dtype : DType::U8}, 0, [](qir::Node &) {});
      }
}

TEST_CASE("pairs turned by positions") {
  std::uint64_t seed = 0;
  for (const bool packed : {false, true})
    for (const bool interleaved : {false, true})
      for (const bool positions : {false, true})
        for (const std::int64_t turned : {0, 6}) {
          OneNode one(++seed);
          const std::int64_t size = 10, half = (turned == 0 ? size : turned) / 2;
          const i32 x = one.input(DType::F32,
                                  packed ? Vector<std::int64_t>{2, 5, 3 * size} : Vector<std::int64_t>{2, 3, 5, size});
          const Vector<std::int64_t> table =
              positions ? Vector<std::int64_t>{7, half} : Vector<std::int64_t>{2, 5, half};
          Vector<i32> inputs{x, one.input(DType::F32, table), one.input(DType::F32, table)};
          if (positions) inputs.push_back(one.constant(DType::I64, {2, 5}, 7));
          one.check("RotaryEmbedding", Op::RotaryEmbedding, inputs, {DType::F32}, 1e-6f, [&](qir::Node &node) {
            node.set("interleaved", std::int64_t{interleaved}), node.set("rotary_embedding_dim", turned);
            if (packed) node.set("num_heads", std::int64_t{3});
          });
        }
}

TEST_CASE("a position that no table has is reported") {
  OneNode one(1);
  const i32 positions = one.input(DType::I64, {1, 2}), y = one.shaped(DType::F32, {1, 2, 2, 4});
  const i32 x = one.constant(DType::F32, {1, 2, 2, 4}), table = one.constant(DType::F32, {3, 2});
  one.b.node(Op::RotaryEmbedding, {x, table, table, positions}, {y});
  one.b.graph.outputs = {y};
  const PlanCase sample(one.b.graph);
  REQUIRE(sample.ok());
  CHECK_EQ(sample.reference_steps(), 0);
  for (const std::int64_t position : {-1, 3, 2, 0}) {
    const std::int64_t given[2] = {2, position};
    Data inputs(1), outputs;
    inputs[0].assign(reinterpret_cast<const std::uint8_t *>(given), reinterpret_cast<const std::uint8_t *>(given + 2));
    const Status status = sample.run(inputs, outputs);
    CHECK_EQ(status.ok(), position >= 0 && position <= 2);
    if (status.ok()) continue;
    CHECK_EQ(status.id(), Status::error(ErrorId::run_value, "").id());
    CHECK_NE(
        status.message().find(format("position_ids[1]: found %lld, expected 0 to 2", static_cast<long long>(position))),
        std::string::npos);
  }
}

TEST_CASE("pads that cut off") {
  std::uint64_t seed = 0;
  const auto check = [&](std::initializer_list<std::int64_t> pads) {
    for (const DType dtype : {DType::F32, DType::I64, DType::U8}) {
      OneNode one(++seed);
      const i32 x = one.input(dtype, {3, 5, 7}), list = one.b.constant<std::int64_t>({6}, pads);
      one.check("Pad", Op::Pad, {x, list}, {dtype}, 0, [](qir::Node &) {});
    }
  };
  check({0, -1, 0, 0, 0, -2});
  check({1, -1, 2, -1, 3, -2});
  check({-1, 0, 2, 0, 0, -4});
}

TEST_CASE("running sums and products") {
  std::uint64_t seed = 0;
  for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::I64, DType::U32, DType::U64}) {
    for (const std::int64_t axis : {0, 1, 2, -1}) {
      for (const std::int64_t flags : {0, 1, 2, 3}) {
        OneNode one(++seed);
        const i32 x = one.input(dtype, {3, 17, seed % 2 ? 300 : 5}), along = one.b.constant<std::int64_t>({}, {axis});
        one.check("CumSum", Op::CumSum, {x, along}, {dtype}, 1e-5f,
                  [&](qir::Node &node) { node.set("exclusive", flags & 1), node.set("reverse", flags >> 1); });
      }
    }
  }
}

TEST_CASE("channels normalised by themselves") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::int64_t c = random.integer(1, 20);
    Vector<std::int64_t> shape{random.integer(1, 3), c, random.integer(2, 30)};
    if (random.chance(70)) shape.push_back(random.integer(1, 30));
    const i32 x = one.input(DType::F32, shape), scale = one.constant(DType::F32, {c}),
              shift = one.constant(DType::F32, {c});
    one.check("InstanceNormalization", Op::InstanceNormalization, {x, scale, shift}, {DType::F32}, 2e-5f,
              [](qir::Node &) {});
  }
}

TEST_CASE("products with weights in blocks") {
  std::uint64_t seed = 0;
  for (const std::int64_t bits : {2, 4, 8}) {
    for (const std::int64_t block : {16, 32, 128}) {
      for (const int zeros : {0, 1, 2}) {
        OneNode one(++seed);
        Random &random = one.random;
        const std::int64_t k = random.integer(1, 300), n = random.integer(1, 40), blocks = (k + block - 1) / block;
        const i32 x = one.input(DType::F32, {random.integer(1, 9), k}),
                  w = one.constant(DType::U8, {n, blocks, block * bits / 8}),
                  scales = one.constant(DType::F32, {n * blocks});
        const i32 zero = zeros == 0   ? qir::kAbsent
                         : zeros == 1 ? one.constant(DType::U8, {n * ((blocks * bits + 7) / 8)})
                                      : one.constant(DType::F32, {n * blocks});
        const i32 bias = random.chance(50) ? one.constant(DType::F32, {n}) : qir::kAbsent;
        one.check("MatMulNBits", Op::MatMulNBits, {x, w, scales, zero, qir::kAbsent, bias}, {DType::F32}, 2e-5f,
                  [&](qir::Node &node) {
                    node.set("K", k), node.set("N", n), node.set("bits", bits), node.set("block_size", block);
                  });
      }
    }
  }
}

TEST_CASE("weights in blocks: accuracy level 4 lets x be bytes, others do not") {
  for (const std::int64_t level : {0, 1, 2, 3, 4})
    for (const std::int64_t bits : {2, 4, 8})
      for (const std::int64_t m : {1, 40}) {
        OneNode one(static_cast<std::uint64_t>(level * 100 + bits * 10 + m));
        const std::int64_t k = 96, n = 33, block = 32, blocks = k / block;
        const i32 x = one.input(DType::F32, {m, k}), w = one.constant(DType::U8, {n, blocks, block * bits / 8}),
                  scales = one.constant(DType::F32, {n * blocks}), y = one.shaped(DType::F32, {m, n});
        qir::Node &node = one.b.node(Op::MatMulNBits, {x, w, scales}, {y});
        node.set("K", k), node.set("N", n), node.set("bits", bits), node.set("block_size", block);
        node.set("accuracy_level", level);
        one.b.graph.outputs.assign(1, y);
        const PlanCase sample(one.b.graph);
        REQUIRE(sample.ok());
        kernels::MatMulBlocks p;
        p.m = m, p.bits = static_cast<std::uint32_t>(bits);
        const bool bytes = level == 4 && kernels::bytes_pay(p, kernels::best_isa());
        CHECK_EQ(sample.count(Kernel::MatMulBlocksBytes), bytes ? 1 : 0);
        CHECK_EQ(sample.count(Kernel::MatMulBlocks), bytes ? 0 : 1);
        same_results(sample, "MatMulNBits of a level", one.random, bytes ? 3e-2f : 2e-5f);
      }
}

TEST_CASE("a function between integers of 16 bits is one step") {
  for (const DType dtype : {DType::U16, DType::I16}) {
    OneNode one(9);
    Builder &b = one.b;
    const std::int32_t middle = dtype == DType::U16 ? 32768 : 0;
    const i32 x = one.input(dtype, {2, 900}), y = one.shaped(dtype, {2, 900}), z = one.shaped(dtype, {2, 900});
    b.quantize(x, {2e-4f}, {middle}).quantize(y, {3e-5f}, {middle}).quantize(z, {4e-5f}, {middle});
    b.node(Op::Sigmoid, {x}, {y});
    b.node(Op::Tanh, {x}, {z});
    b.graph.outputs = {y, z};
    REQUIRE_OK(qir::infer_graph(b.graph));
    const PlanCase sample(b.graph);
    REQUIRE_EQ(sample.ok(), true);
    CHECK_EQ(sample.steps(), "UnaryInt UnaryInt");
    same_results(sample, "functions of 16 bits", one.random, 0, 1);
  }
}

TEST_CASE("steps read and write float16 themselves") {
  const struct {
    const char *what, *steps;
    Op op;
    std::size_t inputs;
    DType out;
  } cases[] = {{"f16 Add", "ChainF32", Op::Add, 2, DType::F16},
               {"f16 Exp", "ChainF32", Op::Exp, 1, DType::F16},
               {"f16 Max", "ChainF32", Op::Max, 2, DType::F16},
               {"f16 Greater", "Elements", Op::Greater, 2, DType::Bool},
               {"f16 Sin", "Elements", Op::Sin, 1, DType::F16},
               {"f16 ReduceMax", "ReduceF32 Cast", Op::ReduceMax, 1, DType::F16}};
  for (const auto &c : cases)
    for (const DType half : {DType::F16, DType::BF16}) {
      OneNode one(7);
      Vector<i32> inputs;
      for (std::size_t i = 0; i < c.inputs; ++i)
        inputs.push_back(one.input(half, i == 0 ? Vector<std::int64_t>{3, 40, 50} : Vector<std::int64_t>{50}));
      const i32 made = one.shaped(c.out == DType::F16 ? half : c.out, {});
      qir::Node &node = one.b.node(c.op, inputs, {made});
      if (c.op == Op::ReduceMax) node.set("keepdims", std::int64_t{0});
      one.b.graph.outputs = {made};
      REQUIRE_OK(qir::infer_graph(one.b.graph));
      const PlanCase sample(one.b.graph);
      REQUIRE_EQ(sample.ok(), true);
      CHECK_EQ(sample.steps(), c.steps);
      if (half == DType::F16) same_results(sample, c.what, one.random, 1e-3f);
    }
  // A Cast that somebody else reads too stays for him; a chain takes what is in front of it and what is behind.
  OneNode one(8);
  Builder &b = one.b;
  const i32 x = one.input(DType::F16, {6, 70}), wide = one.shaped(DType::F32, {}), sum = one.shaped(DType::F32, {}),
            act = one.shaped(DType::F32, {}), narrow = one.shaped(DType::F16, {}), softmax = one.shaped(DType::F32, {});
  b.node(Op::Cast, {x}, {wide}).set("to", static_cast<std::int64_t>(DType::F32));
  b.node(Op::Mul, {wide, wide}, {sum});
  b.node(Op::Tanh, {sum}, {act});
  b.node(Op::Cast, {act}, {narrow}).set("to", static_cast<std::int64_t>(DType::F16));
  b.node(Op::Softmax, {wide}, {softmax});
  b.graph.outputs = {narrow, softmax};
  REQUIRE_OK(qir::infer_graph(b.graph));
  const PlanCase sample(b.graph);
  REQUIRE_EQ(sample.ok(), true);
  CHECK_EQ(sample.steps(), "Cast ChainF32 SoftmaxF32");
  same_results(sample, "f16 chain beside a softmax", one.random, 1e-3f);
}
