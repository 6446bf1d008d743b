// SPDX-License-Identifier: Apache-2.0
// Operators that have a lowering of their own run by kernels, whatever their parameters, and give what cpu-reference
// gives.
#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::test;
namespace test = quarry::test;
using kernels::Kernel;
using qir::Op;
using i32 = std::int32_t;

namespace {

// A graph of one node whose output's type is inferred.
struct OneNode {
  Builder b;
  Random random;
  explicit OneNode(std::uint64_t seed) : random(seed) {}

  i32 shaped(DType dtype, const Vector<std::int64_t> &shape) {
    const i32 made = b.tensor(dtype, {});
    b.graph.tensors[static_cast<std::size_t>(made)].shape = shape;
    return made;
  }
  i32 input(DType dtype, const Vector<std::int64_t> &shape) {
    return b.graph.inputs.emplace_back(shaped(dtype, shape));
  }
  i32 constant(DType dtype, const Vector<std::int64_t> &shape, std::int64_t indices = 1) {
    const i32 made = shaped(dtype, shape);
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    auto &bytes = b.data[made];
    bytes = test::random_data(random, dtype, count, indices);
    qir::Tensor &tensor = b.graph.tensors[static_cast<std::size_t>(made)];
    tensor.is_constant = true, tensor.data = {bytes.data(), bytes.size()};
    return made;
  }
  // The node's outputs have the types given; their shapes are inferred. No step may be the reference's.
  template <class Set>
  void check(const std::string &what, Op op, Vector<i32> inputs, Vector<DType> outputs, float tolerance, Set &&set,
             bool natively = true) {
    Vector<i32> made;
    for (const DType dtype : outputs) made.push_back(shaped(dtype, {}));
    qir::Node &node = b.node(op, std::move(inputs), made);
    set(node);
    b.graph.outputs.assign(made.begin(), made.end());
    Status status = qir::infer_graph(b.graph);
    CHECK(status.ok());
    if (!status.ok()) {
      std::fprintf(stderr, "%s: %s\n", what.c_str(), std::string(status.message()).c_str());
      return;
    }
    const PlanCase sample(b.graph);
    CHECK(sample.ok());
    if (!sample.ok()) return;
    if (natively && sample.reference_steps() != 0) {
      std::fprintf(stderr, "%s: %s\n", what.c_str(), sample.steps().c_str());
      CHECK_EQ(sample.reference_steps(), 0);
    }
    same_results(sample, what, random, tolerance);
  }
};

}  // namespace

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
    const i32 xi = one.input(DType::F32, x), wi = one.constant(DType::F32, w);
    Vector<i32> inputs{xi, wi};
    if (random.chance(50)) inputs.push_back(one.constant(DType::F32, {oc * group}));
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
    Vector<i32> inputs{one.input(DType::F32, x), one.constant(DType::F32, w)};
    if (random.chance(50)) inputs.push_back(one.constant(DType::F32, {oc}));
    one.check("Conv3d, seed " + std::to_string(seed), Op::Conv, inputs, {DType::F32}, 2e-5f, [&](qir::Node &node) {
      node.set("group", group), node.set("strides", strides), node.set("dilations", dilations);
      node.set("pads", pads);
    });
  }
}

TEST_CASE("operators on elements of every type") {
  constexpr DType kIntegers[] = {DType::I8,  DType::U8,  DType::I16, DType::U16,
                                 DType::I32, DType::U32, DType::I64, DType::U64};
  std::uint64_t seed = 0;
  const auto binary = [&](Op op, DType dtype, DType made) {
    OneNode one(++seed);
    const i32 a = one.input(dtype, {3, 1, 7}), b = one.input(dtype, {2, 3, 4, 1});
    one.check(qir::op_name(op), op, {a, b}, {made}, 1e-6f, [&](qir::Node &node) {
      if (op == Op::BitShift) node.set("direction", std::string_view(seed % 2 ? "LEFT" : "RIGHT"));
    });
  };
  for (const DType dtype : kIntegers) {
    for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Mod, Op::Min, Op::Max, Op::BitwiseAnd, Op::BitwiseOr,
                        Op::BitwiseXor, Op::BitShift})
      binary(op, dtype, dtype);
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
}
