// SPDX-License-Identifier: Apache-2.0
// Graphs that nobody froze: weights, biases, bounds, exponents and statistics that are known in the run alone, and
// forms of operators beside those that networks mostly have. All by kernels, and what cpu-reference gives.
#include <cmath>

#include "tests/unit/cpu/one_node.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

const auto plain = [](qir::Node &) {};
constexpr float kNan = __builtin_nanf("");

// Runs with those inputs: the same bits as cpu-reference, or the same numbers but for `tolerance`.
void same_as_reference(const PlanCase &sample, const Data &inputs, float tolerance) {
  Data found, expected;
  REQUIRE_OK(sample.run(inputs, found));
  REQUIRE_OK(sample.run_reference(inputs, expected));
  if (tolerance == 0) {
    CHECK(found == expected);
    return;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Vector<float> one = floats_of(DType::F32, found[i]), other = floats_of(DType::F32, expected[i]);
    REQUIRE_EQ(one.size(), other.size());
    for (std::size_t n = 0; n < one.size(); ++n) CHECK(std::fabs(one[n] - other[n]) <= tolerance);
  }
}

void spoil(Vector<std::uint8_t> &values) {
  for (std::size_t i = 0; i + sizeof kNan <= values.size(); i += sizeof kNan)
    std::memcpy(&values[i], &kNan, sizeof kNan);
}

// A tensor and what Transpose makes of it.
i32 turned(OneNode &one, i32 x, const Vector<std::int64_t> &order) {
  const i32 made = one.shaped(qir::at(one.b.graph, x).dtype, {});
  one.b.node(Op::Transpose, {x}, {made}).set("perm", order);
  return made;
}

}  // namespace

TEST_CASE("Gemm of sides that are transposed, constant or not, with any sum behind it") {
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    OneNode one(seed);
    Random &random = one.random;
    const std::int64_t m = random.integer(1, 40), k = random.integer(1, 70), n = random.integer(1, 60);
    const bool a_turned = random.chance(40), b_turned = random.chance(50), scaled = random.chance(30);
    const DType dtype = seed % 6 == 0 ? DType::F64 : seed % 6 == 1 ? DType::I32 : DType::F32;
    const Vector<std::int64_t> a = a_turned ? Vector<std::int64_t>{k, m} : Vector<std::int64_t>{m, k},
                               b = b_turned ? Vector<std::int64_t>{n, k} : Vector<std::int64_t>{k, n};
    const i32 left = one.either(dtype, a),
              right = one.b.graph.inputs.empty() ? one.input(dtype, b) : one.either(dtype, b);
    Vector<i32> inputs{left, right};
    const Vector<std::int64_t> sums[] = {{n}, {1, n}, {m, 1}, {m, n}, {1}, {}};
    if (random.chance(85)) inputs.push_back(one.either(dtype, sums[random.integer(0, 5)]));
    one.check("Gemm, seed " + std::to_string(seed), Op::Gemm, inputs, {dtype}, 2e-5f, [&](qir::Node &node) {
      node.set("transA", std::int64_t{a_turned}), node.set("transB", std::int64_t{b_turned});
      if (scaled && dtype == DType::F32) node.set("alpha", 0.7f), node.set("beta", -1.3f);
    });
  }
}

TEST_CASE("a matrix that is one row, one column or one number for all") {
  for (const Vector<std::int64_t> &given : {Vector<std::int64_t>{1, 32}, {9, 1}, {1, 1}})
    for (const std::int64_t m : {2, 4, 7, 30}) {
      OneNode one(13);
      const i32 a = one.input(DType::F32, {m, 9}), b = one.input(DType::F32, given), wide = one.shaped(DType::F32, {});
      one.b.node(Op::Expand, {b, one.integers({2}, {9, 32})}, {wide});
      one.check("MatMul by a matrix that is repeated", Op::MatMul, {a, wide}, {DType::F32}, 2e-5f, plain);
    }
}

TEST_CASE("one constant is the sum of Gemm and what is added behind it") {
  for (const Vector<std::int64_t> &shape : {Vector<std::int64_t>{6}, {1, 6}, {1}})
    for (const bool constant : {false, true}) {
      OneNode one(14);
      const i32 a = one.input(DType::F32, {4, 5}),
                b = constant ? one.constant(DType::F32, {5, 6}) : one.input(DType::F32, {5, 6}),
                c = one.constant(DType::F32, shape), product = one.shaped(DType::F32, {});
      qir::Node &gemm = one.b.node(Op::Gemm, {a, b, c}, {product});
      gemm.set("beta", 2.0f);
      one.check("Gemm and Add of one constant", Op::Add, {product, c}, {DType::F32}, 1e-5f, plain);
    }
}

TEST_CASE("Gemm does not read what it multiplies by nothing") {
  for (const Vector<std::int64_t> &shape : {Vector<std::int64_t>{4, 6}, {6}, {4, 1}, {}})
    for (const int constants : {0, 1, 2, 3}) {
      OneNode one(15);
      const i32 a = one.input(DType::F32, {4, 5}),
                b = constants & 1 ? one.constant(DType::F32, {5, 6}) : one.input(DType::F32, {5, 6}),
                c = constants & 2 ? one.constant(DType::F32, shape) : one.input(DType::F32, shape),
                y = one.shaped(DType::F32, {4, 6});
      if (constants & 2) spoil(one.b.data[c]);
      one.b.node(Op::Gemm, {a, b, c}, {y}).set("beta", 0.0f);
      one.b.gives({y});
      const PlanCase sample(one.b.graph);
      REQUIRE(sample.ok());
      CHECK_EQ(sample.reference_steps(), 0);
      Data inputs = sample.random_inputs(one.random);
      if (!(constants & 2)) spoil(inputs.back());
      same_as_reference(sample, inputs, 1e-5f);
    }
}

TEST_CASE("matrix multiplications of more dimensions than a step has") {
  using Extents = Vector<std::int64_t>;
  for (const DType dtype : {DType::F32, DType::F64, DType::I32})
    for (const auto &[left, right] : {std::pair{Extents{2, 1, 2, 1, 3, 5, 7}, Extents{2, 1, 2, 1, 3, 7, 4}},
                                      std::pair{Extents{2, 3, 2, 2, 3, 5, 7}, Extents{2, 1, 2, 1, 3, 7, 4}},
                                      std::pair{Extents{2, 1, 3, 1, 2, 1, 5, 7}, Extents{1, 2, 1, 3, 1, 2, 7, 4}},
                                      std::pair{Extents{2, 3, 2, 2, 3, 5, 7}, Extents{7, 4}}}) {
      OneNode one(3);
      const i32 a = one.input(dtype, left), b = one.input(dtype, right);
      one.check("product of many dimensions", Op::MatMul, {a, b}, {dtype}, 2e-5f, plain);
    }
}

TEST_CASE("reductions of axes that do not lie side by side") {
  constexpr Op kOps[] = {Op::ReduceSum, Op::ReduceMean, Op::ReduceMax,       Op::ReduceMin,    Op::ReduceProd,
                         Op::ReduceL1,  Op::ReduceL2,   Op::ReduceSumSquare, Op::ReduceLogSum, Op::ReduceLogSumExp};
  const std::vector<double> axes[] = {{0, 2, 3}, {1, 3}, {0, 2}, {0, 2, 4}, {-1, 0}};
  const auto check = [&](Op op, DType dtype, std::size_t i) {
    if (!by_rule(op, dtype) || (op == Op::ReduceLogSum && is_integer(dtype))) return;
    OneNode one(20 + i);
    const i32 x = one.input(dtype, {3, 4, 5, 2, 3}),
              of = one.integers({static_cast<std::int64_t>(axes[i].size())}, axes[i]);
    one.check(std::string(qir::op_name(op)) + " of " + dtype_name(dtype), op, {x, of}, {dtype}, 1e-5f,
              [&](qir::Node &node) { node.set("keepdims", static_cast<std::int64_t>(i % 2)); });
  };
  for (const Op op : kOps)
    for (const DType dtype : {DType::F32, DType::F64, DType::I32, DType::U8})
      for (std::size_t i = 0; i < std::size(axes); ++i) check(op, dtype, i);
}

TEST_CASE("exponents of another type") {
  struct Exponents {
    DType dtype;
    Vector<std::int64_t> shape;
    bool constant;
  };
  for (const Exponents &e :
       {Exponents{DType::I64, {}, true}, Exponents{DType::I64, {7}, true}, Exponents{DType::I32, {4, 1}, true},
        Exponents{DType::F64, {}, true}, Exponents{DType::I8, {7}, false}, Exponents{DType::U8, {}, true},
        Exponents{DType::I64, {2, 3, 4, 7}, true}}) {
    OneNode one(5);
    const i32 x = one.input(DType::F32, {3, 4, 7}),
              by = e.constant ? one.constant(e.dtype, e.shape, 4) : one.input(e.dtype, e.shape);
    one.check("Pow", Op::Pow, {x, by}, {DType::F32}, 1e-5f, plain);
  }
  // What f32 does not hold is cpu-reference's: an odd number stays odd.
  OneNode one(6);
  const i32 x = one.input(DType::F32, {4}), by = one.b.constant<std::int64_t>({}, {(1 << 24) + 1});
  one.check("Pow of a large exponent", Op::Pow, {x, by}, {DType::F32}, 0, plain, false);
}

TEST_CASE("exponents of another type that lie otherwise than what they are of") {
  const Vector<std::int64_t> shape(7, 2), order{6, 4, 2, 0, 5, 3, 1}, back{6, 5, 4, 3, 2, 1, 0};
  for (const bool turns_x : {true, false})
    for (const bool turns_e : {false, true})
      for (const DType dtype : {DType::I64, DType::I16, DType::U8}) {
        OneNode one(16);
        const i32 given = one.input(DType::F32, shape), x = turns_x ? turned(one, given, order) : given,
                  by = dtype == DType::I64 ? one.constant(dtype, shape, 4) : one.input(dtype, shape),
                  e = turns_e && dtype != DType::I64 ? turned(one, by, back) : by;
        one.check("Pow of seven axes", Op::Pow, {x, e}, {DType::F32}, 1e-5f, plain);
      }
  // More loops than a kernel has, and no copy that would make them fewer: cpu-reference's.
  for (const DType dtype : {DType::I64, DType::I16}) {
    OneNode one(17);
    const Vector<std::int64_t> fewer{2, 1, 2, 1, 2, 1, 2};
    const i32 x = turned(one, one.input(DType::F32, shape), order),
              by = dtype == DType::I64 ? one.constant(dtype, fewer, 4) : one.input(dtype, fewer);
    one.check("Pow of seven axes by fewer", Op::Pow, {x, by}, {DType::F32}, 1e-5f, plain, false);
  }
}

TEST_CASE("Clip by bounds of the run") {
  for (const int form : {0, 1, 2, 3}) {
    OneNode one(7);
    const i32 x = one.input(DType::F32, {3, 5, 17}), low = form == 1 ? qir::kAbsent : one.input(DType::F32, {}),
              high = form == 2   ? qir::kAbsent
                     : form == 3 ? one.constant(DType::F32, {})
                                 : one.input(DType::F32, {});
    one.check("Clip", Op::Clip, {x, low, high}, {DType::F32}, 0, plain);
  }
  // NaN bounds nothing, and stays; a zero that is equal to a bound keeps its sign.
  Builder b;
  const i32 x = b.input(DType::F32, {6}), low = b.input(DType::F32, {}), high = b.input(DType::F32, {}),
            y = b.tensor(DType::F32, {6});
  b.node(Op::Clip, {x, low, high}, {y});
  b.graph.outputs = {y};
  const PlanCase sample(b.graph);
  REQUIRE_EQ(sample.ok(), true);
  CHECK_EQ(sample.reference_steps(), 0);
  const float values[] = {-5, kNan, -0.0f, 0.0f, 0.5f, 5},
              bounds[][2] = {{kNan, 1}, {-1, kNan}, {kNan, kNan}, {2, 1},
                             {0.0f, 1}, {-0.0f, 1}, {-1, 0.0f},   {-1, -0.0f}};
  for (const auto &bound : bounds) {
    Data inputs(3);
    const auto put = [](Vector<std::uint8_t> &to, const float *from, std::size_t count) {
      to.assign(reinterpret_cast<const std::uint8_t *>(from), reinterpret_cast<const std::uint8_t *>(from + count));
    };
    put(inputs[0], values, std::size(values)), put(inputs[1], &bound[0], 1), put(inputs[2], &bound[1], 1);
    same_as_reference(sample, inputs, 0);
  }
}

TEST_CASE("BatchNormalization by statistics of the run") {
  for (const Vector<std::int64_t> &shape : {Vector<std::int64_t>{2, 5, 7, 9}, {3, 19}, {2, 1, 6}, {2, 3, 2, 3, 4}}) {
    OneNode one(8);
    Vector<i32> inputs{one.input(DType::F32, shape)};
    for (int i = 0; i < 3; ++i) inputs.push_back(one.either(DType::F32, {shape[1]}));
    inputs.push_back(one.input(DType::F32, {shape[1]}));
    // (Of a variance below zero NaN comes, of both.)
    one.check("BatchNormalization", Op::BatchNormalization, inputs, {DType::F32}, 1e-5f, plain);
  }
}

TEST_CASE("LayerNormalization gives its mean and the inverse of its deviation") {
  for (const std::int64_t axis : {-1, 1})
    for (const std::size_t outputs : {2u, 3u}) {
      OneNode one(9);
      const Vector<std::int64_t> shape{3, 4, 37}, last(shape.end() - (axis == 1 ? 2 : 1), shape.end());
      const Vector<i32> inputs{one.input(DType::F32, shape), one.either(DType::F32, last),
                               one.either(DType::F32, last)};
      one.check("LayerNormalization", Op::LayerNormalization, inputs, Vector<DType>(outputs, DType::F32), 1e-5f,
                [&](qir::Node &node) { node.set("axis", axis); });
    }
  for (const Vector<std::int64_t> &factor : {Vector<std::int64_t>{1}, {}, {4, 1}, {1, 5}}) {
    OneNode one(11);
    const Vector<i32> inputs{one.input(DType::F32, {3, 4, 5}), one.either(DType::F32, factor),
                             one.either(DType::F32, {5})};
    one.check("LayerNormalization of a factor for several elements", Op::LayerNormalization, inputs, {DType::F32},
              1e-5f, [&](qir::Node &node) { node.set("axis", std::int64_t{1}); });
  }
}

TEST_CASE("LayerNormalization gives its statistics as the type that they are kept in") {
  for (const std::size_t outputs : {2u, 3u}) {
    OneNode one(18);
    const Vector<i32> inputs{one.input(DType::F32, {3, 8}), one.input(DType::F32, {8})};
    Vector<DType> types(outputs, DType::BF16);
    types[0] = DType::F32;
    one.check(
        "LayerNormalization of stash_type 16", Op::LayerNormalization, inputs, types, 1e-2f,
        [](qir::Node &node) { node.set("stash_type", std::int64_t{static_cast<int>(DType::BF16)}); }, false);
  }
}

TEST_CASE("factors of a normalisation that vary beside its row") {
  struct Factor {
    Vector<std::int64_t> x, shape;
    std::int64_t axis;
    bool natively;
  };
  for (const Op op : {Op::LayerNormalization, Op::RMSNormalization})
    for (const Factor &f : {Factor{{4, 4}, {4, 1}, -1, false}, Factor{{4, 4}, {1, 4}, -1, true},
                            Factor{{2, 4, 4}, {4, 1}, -1, false}, Factor{{2, 4, 4}, {1, 1, 4}, 2, true},
                            Factor{{4, 4, 4}, {4, 1, 4}, 1, false}, Factor{{2, 4, 4}, {1, 4, 1}, 1, true}}) {
      OneNode one(19);
      const i32 x = one.input(DType::F32, f.x), factor = one.either(DType::F32, f.shape);
      one.check(
          "factors beside a row", op, {x, factor}, {DType::F32}, 1e-5f,
          [&](qir::Node &node) { node.set("axis", f.axis); }, f.natively);
    }
}

TEST_CASE("filters of one channel each are packed once, whatever the batch is") {
  for (const bool constant : {false, true}) {
    int constants[2] = {};
    for (const std::int64_t batch : {1, 5}) {
      OneNode one(20);
      const auto given = [&](const Vector<std::int64_t> &shape) {
        return constant ? one.constant(DType::F32, shape) : one.input(DType::F32, shape);
      };
      const i32 x = one.input(DType::F32, {batch, 12, 4, 5, 6}), w = given({12, 1, 3, 3, 3}), bias = given({12}),
                y = one.shaped(DType::F32, {batch, 12, 4, 5, 6});
      qir::Node &node = one.b.node(Op::Conv, {x, w, bias}, {y});
      node.set("group", std::int64_t{12}), node.set("pads", Vector<std::int64_t>(6, 1));
      one.b.gives({y});
      const PlanCase sample(one.b.graph);
      REQUIRE(sample.ok());
      CHECK_EQ(sample.count(kernels::Kernel::PackF32), constant ? 0 : 3);
      for (const cpu::Value &value : sample.plan().values)
        constants[batch > 1] += value.storage == cpu::StorageKind::Constant;
      same_results(sample, "Conv of three axes by channel", one.random, 1e-5f);
    }
    CHECK_EQ(constants[0], constants[1]);
  }
}

TEST_CASE("casts from and to u32 and u64") {
  constexpr DType kOthers[] = {DType::F32, DType::F64, DType::F16, DType::I8,  DType::U8,  DType::I16,
                               DType::U16, DType::I32, DType::U32, DType::I64, DType::U64, DType::Bool};
  const auto check = [](DType from, DType to) {
    OneNode one(10);
    one.check(std::string("Cast of ") + dtype_name(from) + " to " + dtype_name(to), Op::Cast,
              {one.input(from, {3, 70})}, {to}, 0,
              [&](qir::Node &node) { node.set("to", static_cast<std::int64_t>(to)); });
  };
  for (const DType wide : {DType::U32, DType::U64})
    for (const DType other : kOthers) check(wide, other), check(other, wide);
}
