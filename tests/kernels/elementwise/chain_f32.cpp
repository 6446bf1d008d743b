// SPDX-License-Identifier: Apache-2.0
// Chains of elementwise operations: against the reference's results of one operation after the other, and bit for bit
// against the kernels that do one of them.
#include <cmath>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

struct Shape {
  Dims dims, x;
  std::vector<Dims> operands;  // one for each stage that has one, taken in turn
};

// Strides of broadcast shapes of the nest's rank.
void put_strides(const Dims &shape, std::int64_t *to) {
  const auto strides = strides_of(shape);
  std::copy(strides.begin(), strides.end(), to);
}

struct Case {
  ChainF32 p;
  std::vector<std::vector<float>> values;  // x, then one per stage that has an operand
  std::vector<Dims> shapes;
};

Case made(const Shape &shape, std::uint32_t stages, Random &random) {
  static const Activation kActs[] = {
      {}, {}, {Act::Clip, 0, kInf, 0}, {Act::Clip, -1.5f, 2.25f, 0}, {Act::Sigmoid, 0, 0, 0}, {Act::Erf, 0, 0, 0}};
  Case c;
  c.p.rank = static_cast<std::uint32_t>(shape.dims.size());
  c.p.stages = stages;
  std::copy(shape.dims.begin(), shape.dims.end(), c.p.dims);
  put_strides(shape.x, c.p.x);
  const auto add = [&](const Dims &dims) {
    std::vector<float> values = random.reals(product(dims), -3, 3);
    for (const float edge : {kNan, kInf, -kInf, -0.0f})
      if (values.size() > 20)
        values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(values.size()) - 1))] = edge;
    c.values.push_back(values), c.shapes.push_back(dims);
  };
  add(shape.x);
  for (std::uint32_t s = 0; s < stages; ++s) {
    ChainStage &stage = c.p.stage[s];
    stage.act = kActs[random.integer(0, 5)];
    stage.form = static_cast<ChainForm>(random.integer(0, 2));
    stage.op = static_cast<BinaryOp>(random.integer(0, static_cast<std::int64_t>(BinaryOp::Count) - 1));
    if (stage.op == BinaryOp::Pow && s + 1 < stages) stage.op = BinaryOp::Mul;  // NaN for most of what follows
    if (stage.form == ChainForm::Alone) continue;
    const Dims &dims = shape.operands[s % shape.operands.size()];
    put_strides(dims, stage.b);
    add(dims);
  }
  return c;
}

std::vector<Operand> operands_of(const Case &c) {
  std::vector<Operand> operands;
  for (const std::vector<float> &values : c.values) operands.push_back(in(values));
  operands.push_back(out(product(Dims(c.p.dims, c.p.dims + c.p.rank)) * 4));
  return operands;
}

// One kernel after the other.
std::vector<float> one_by_one(const Isa &isa, const Case &c) {
  std::vector<float> value = c.values[0];
  const Dims dims(c.p.dims, c.p.dims + c.p.rank);
  const std::size_t bytes = product(dims) * 4;
  std::int64_t strides[kLoopRank] = {}, dense[kLoopRank] = {};
  std::copy(c.p.x, c.p.x + kLoopRank, strides);
  put_strides(dims, dense);
  std::size_t next = 1;
  for (std::uint32_t s = 0; s < c.p.stages; ++s) {
    const ChainStage &stage = c.p.stage[s];
    if (stage.form == ChainForm::Alone) {
      BinaryF32 copy;  // x * 1, which also lays it out
      copy.op = BinaryOp::Mul, copy.rank = c.p.rank;
      std::copy(c.p.dims, c.p.dims + kLoopRank, copy.dims), std::copy(strides, strides + kLoopRank, copy.a);
      value = values_of<float>(run(isa, Kernel::BinaryF32, &copy, {in(value), in({1.0f}), out(bytes)})[0]);
      const UnaryF32 p{static_cast<std::int64_t>(value.size()), stage.act};
      value = values_of<float>(run(isa, Kernel::UnaryF32, &p, {in(value), out(bytes)})[0]);
    } else {
      BinaryF32 p;
      p.op = stage.op, p.rank = c.p.rank, p.act = stage.act;
      const bool first = stage.form == ChainForm::ValueFirst;
      std::copy(c.p.dims, c.p.dims + kLoopRank, p.dims);
      std::copy(strides, strides + kLoopRank, first ? p.a : p.b);
      std::copy(stage.b, stage.b + kLoopRank, first ? p.b : p.a);
      const std::vector<float> &other = c.values[next++];
      value = values_of<float>(
          run(isa, Kernel::BinaryF32, &p, {in(first ? value : other), in(first ? other : value), out(bytes)})[0]);
    }
    std::copy(dense, dense + kLoopRank, strides);
  }
  return value;
}

void test_chain(const Isa &isa) {
  Random random(7);
  const Shape shapes[] = {{{1}, {1}, {{1}}},
                          {{4}, {4}, {{4}, {1}}},
                          {{15}, {15}, {{15}}},
                          {{17}, {1}, {{17}, {1}}},
                          {{300}, {300}, {{1}, {300}}},
                          {{9, 21}, {9, 21}, {{1, 21}, {9, 1}, {9, 21}}},
                          {{301, 24}, {301, 24}, {{1, 24}, {1, 1}, {301, 24}}},
                          {{301, 24}, {1, 24}, {{301, 24}, {1, 24}}},
                          {{20000, 5}, {20000, 5}, {{1, 5}}},
                          {{2, 3, 4, 5}, {2, 1, 4, 1}, {{1, 3, 1, 5}, {2, 3, 4, 5}}},
                          {{2, 2, 3, 2, 2, 9}, {2, 2, 3, 2, 2, 9}, {{1, 2, 1, 2, 1, 9}}},
                          {{3, 5000}, {3, 5000}, {{3, 1}, {1, 5000}}},
                          {{90001}, {90001}, {{90001}, {1}}}};
  for (const Shape &shape : shapes)
    for (const std::uint32_t stages : {1u, 2u, 3u, 7u})
      for (int again = 0; again < (product(shape.dims) > 1000 ? 1 : 6); ++again) {
        const Case c = made(shape, stages, random);
        const auto found = values_of<float>(run(isa, Kernel::ChainF32, &c.p, operands_of(c))[0]);
        expect_close(std::to_string(stages) + " stages", found, one_by_one(isa, c), 0, 0);
      }
}

// v = (x + 3) clipped to 0..6; v = x2 * v; v = v / 6, and the same by hand; over x's own memory.
void test_hard_swish(const Isa &isa) {
  Random random(8);
  ChainF32 p;
  p.stages = 3, p.dims[0] = 5000, p.x[0] = 1;
  p.stage[0] = {ChainForm::ValueFirst, BinaryOp::Add, {}, {Act::Clip, 0, 6, 0}};
  p.stage[1] = {ChainForm::OperandFirst, BinaryOp::Mul, {1}, {}};
  p.stage[2] = {ChainForm::ValueFirst, BinaryOp::Div, {}, {}};
  const std::vector<float> x = random.reals(5000, -8, 8), other = random.reals(5000, -8, 8);
  std::vector<float> expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    expected[i] = other[i] * std::min(std::max(x[i] + 3.0f, 0.0f), 6.0f) / 6.0f;
  expect_close("hard swish",
               values_of<float>(
                   run(isa, Kernel::ChainF32, &p, {in(x), in({3.0f}), in(other), in({6.0f}), out(x.size() * 4)})[0]),
               expected, 0, 0);
  Bytes memory = bytes_of(x), second = bytes_of(other), three = bytes_of(std::vector<float>{3}),
        six = bytes_of(std::vector<float>{6});
  std::byte *const pointers[] = {memory.data(), three.data(), second.data(), six.data(), memory.data()};
  const Threads threads;
  isa.run[static_cast<std::size_t>(Kernel::ChainF32)](Call{&p, pointers, threads, nullptr, 0, nullptr});
  expect_close("in place", values_of<float>(memory), expected, 0, 0);

  refuse(isa, Kernel::ChainF32, p, "no stages", [](auto &q) { q.stages = 0; });
  refuse(isa, Kernel::ChainF32, p, "8 stages", [](auto &q) { q.stages = 8; });
  refuse(isa, Kernel::ChainF32, p, "rank 7", [](auto &q) { q.rank = 7; });
  refuse(isa, Kernel::ChainF32, p, "an unknown operator", [](auto &q) { q.stage[1].op = BinaryOp::Count; });
  refuse(isa, Kernel::ChainF32, p, "an unknown form", [](auto &q) { q.stage[1].form = ChainForm::Count; });
  refuse(isa, Kernel::ChainF32, p, "an unknown activation", [](auto &q) { q.stage[0].act.kind = Act::Count; });
  refuse(isa, Kernel::ChainF32, p, "a negative stride", [](auto &q) { q.stage[1].b[0] = -1; });
  refuse(isa, Kernel::ChainF32, p, "2^62 elements",
         [](auto &q) { q.rank = 2, q.dims[0] = q.dims[1] = std::int64_t{1} << 31; });
}

void register_chain_benches(Registry &registry) {
  for (const std::int64_t count : {4, 16 * 1024, 1024 * 1024})
    registry.bench("ChainF32 7 Mul " + std::to_string(count), [=](const Isa &) {
      Random random(1);
      ChainF32 p;
      p.stages = 7, p.dims[0] = count, p.x[0] = 1;
      std::vector<Operand> operands = {in(random.reals(static_cast<std::size_t>(count)))};
      for (ChainStage &stage : p.stage) {
        stage.form = ChainForm::ValueFirst, stage.op = BinaryOp::Mul;
        operands.push_back(in({1.25f}));
      }
      operands.push_back(out(static_cast<std::size_t>(count) * 4));
      return Registry::Prepared{Kernel::ChainF32,
                                params_of(p),
                                operands,
                                {7.0 * static_cast<double>(count), 8.0 * static_cast<double>(count)}};
    });
}

}  // namespace

void register_chain(Registry &registry) {
  registry.test("ChainF32", test_chain);
  registry.test("ChainF32 hard swish", test_hard_swish);
  register_chain_benches(registry);
}

}  // namespace quarry::kernel_test
