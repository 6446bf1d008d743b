// SPDX-License-Identifier: Apache-2.0
// Kernels whose operands may be f16 or bf16: bit for bit what they make of the same numbers as f32, rounded where it is
// written.
#include "base/float16.h"
#include "kernels/cpu/shapes/elements_shape.h"
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

Bytes stored(const std::vector<float> &values, NumberType type) {
  if (type == NumberType::F32) return bytes_of(values);
  std::vector<std::uint16_t> halves;
  for (const float v : values) halves.push_back(type == NumberType::F16 ? f32_to_f16(v) : f32_to_bf16(v));
  return bytes_of(halves);
}
std::vector<float> read(const Bytes &data, NumberType type) {
  if (type == NumberType::F32) return values_of<float>(data);
  std::vector<float> values;
  for (const std::uint16_t half : values_of<std::uint16_t>(data))
    values.push_back(type == NumberType::F16 ? f16_to_f32(half) : bf16_to_f32(half));
  return values;
}
std::vector<float> rounded(const std::vector<float> &values, NumberType type) {
  return read(stored(values, type), type);
}
std::size_t width(NumberType type) { return type == NumberType::F32 ? 4 : 2; }
NumberType any_type(Random &random) { return static_cast<NumberType>(random.integer(0, 2)); }
std::vector<float> numbers(Random &random, std::size_t count) {
  std::vector<float> values = random.reals(count, -3, 3);
  for (const float edge : {kNan, kInf, -kInf, -0.0f, 1e-7f, 70000.0f})
    if (count > 20) values[static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(count) - 1))] = edge;
  return values;
}

void test_float16_chain(const Isa &isa) {
  Random random(11);
  const struct {
    Dims dims, x, b;
  } shapes[] = {{{1}, {1}, {1}},
                {{7}, {7}, {7}},
                {{17}, {1}, {17}},
                {{1500}, {1500}, {1}},
                {{9, 21}, {9, 21}, {1, 21}},
                {{301, 24}, {301, 24}, {1, 24}},
                {{301, 24}, {1, 24}, {301, 24}},
                {{2, 3, 4, 5}, {2, 1, 4, 1}, {1, 3, 1, 5}},
                {{90001}, {90001}, {90001}}};
  for (const auto &shape : shapes)
    for (int again = 0; again < 12; ++again) {
      ChainF32 p;
      p.rank = static_cast<std::uint32_t>(shape.dims.size()), p.stages = 3;
      std::ranges::copy(shape.dims, p.dims);
      std::ranges::copy(strides_of(shape.x), p.x);
      p.stage[0].form = ChainForm::ValueFirst, p.stage[0].op = BinaryOp::Add;
      p.stage[1].form = ChainForm::Alone, p.stage[1].act = {Act::Sigmoid, 0, 0, 0};
      p.stage[2].form = ChainForm::OperandFirst, p.stage[2].op = BinaryOp::Sub;
      for (const int s : {0, 2}) std::ranges::copy(strides_of(shape.b), p.stage[s].b);
      // Every second element: what is not adjacent is gathered.
      const bool apart = shape.dims.size() == 1 && shape.x == shape.dims && again % 3 == 0;
      if (apart) p.x[0] = 2;
      ChainF32 mixed = p;
      mixed.x_type = any_type(random), mixed.y_type = any_type(random);
      for (const int s : {0, 2}) mixed.stage[s].b_type = any_type(random);
      const auto x = rounded(numbers(random, product(shape.x) * (apart ? 2 : 1)), mixed.x_type),
                 b = rounded(numbers(random, product(shape.b)), mixed.stage[0].b_type),
                 c = rounded(numbers(random, product(shape.b)), mixed.stage[2].b_type);
      const std::size_t count = product(shape.dims);
      const auto expected = values_of<float>(run(isa, Kernel::ChainF32, &p, {in(x), in(b), in(c), out(count * 4)})[0]);
      const Bytes found = run(isa, Kernel::ChainF32, &mixed,
                              {{stored(x, mixed.x_type)},
                               {stored(b, mixed.stage[0].b_type)},
                               {stored(c, mixed.stage[2].b_type)},
                               out(count * width(mixed.y_type))})[0];
      expect_close("chain", read(found, mixed.y_type), rounded(expected, mixed.y_type), 0, 0);
    }
  ChainF32 p;
  p.dims[0] = 4, p.x[0] = 1;
  refuse(isa, Kernel::ChainF32, p, "an unknown type of x", [](auto &q) { q.x_type = NumberType::Count; });
  refuse(isa, Kernel::ChainF32, p, "an unknown type of y", [](auto &q) { q.y_type = NumberType::Count; });
  refuse(isa, Kernel::ChainF32, p, "an unknown type of b", [](auto &q) { q.stage[0].b_type = NumberType::Count; });
}

void test_float16_reduce(const Isa &isa) {
  Random random(12);
  for (const Dims &shape : {Dims{1, 5, 1}, {7, 300, 1}, {3, 49, 64}, {1, 33, 77}, {2, 900, 9}, {1, 20, 200}, {2, 0, 3}})
    for (std::uint32_t op = 0; op < static_cast<std::uint32_t>(ReduceOp::Count); ++op)
      for (const NumberType type : {NumberType::F16, NumberType::BF16}) {
        ReduceF32 p;
        p.outer = shape[0], p.reduced = shape[1], p.inner = shape[2], p.op = static_cast<ReduceOp>(op);
        const auto x = rounded(random.reals(product(shape), 0.9f, 1.1f), type);
        const std::size_t bytes = static_cast<std::size_t>(p.outer * p.inner) * 4;
        const auto expected = values_of<float>(run(isa, Kernel::ReduceF32, &p, {in(x), out(bytes)})[0]);
        p.x_type = type;
        expect_close("reduction", values_of<float>(run(isa, Kernel::ReduceF32, &p, {{stored(x, type)}, out(bytes)})[0]),
                     expected, 1e-6f, 0);
      }
  ReduceF32 p;
  refuse(isa, Kernel::ReduceF32, p, "an unknown type", [](auto &q) { q.x_type = NumberType::Count; });
}

void test_float16_elements(const Isa &isa) {
  Random random(13);
  for (const ElementOp op :
       {ElementOp::Less, ElementOp::LessOrEqual, ElementOp::Equal, ElementOp::Mod, ElementOp::IsInf, ElementOp::IsNan,
        ElementOp::Sin, ElementOp::Selu, ElementOp::Sign, ElementOp::MulAdd})
    for (const NumberType type : {NumberType::F16, NumberType::BF16})
      for (const std::int64_t step : {0, 1}) {
        Elements p;
        p.op = op, p.dtype = static_cast<std::uint32_t>(DType::F32), p.rank = 2;
        p.dims[0] = 3, p.dims[1] = 1111, p.a = p.b = 1;
        std::vector<Operand> wide, halves;
        for (int i = 0; i < kernels::operands_of(op); ++i) {
          p.x[i][0] = 1111, p.x[i][1] = i == 0 ? 1 : step;
          const auto x = rounded(numbers(random, 3333), type);
          wide.push_back(in(x)), halves.push_back({stored(x, type)});
        }
        const bool truth = gives_truth(op);
        wide.push_back(out(3333 * (truth ? 1 : 4))), halves.push_back(out(3333 * (truth ? 1 : 2)));
        const Bytes expected = run(isa, Kernel::Elements, &p, wide)[0];
        p.dtype = static_cast<std::uint32_t>(type == NumberType::F16 ? DType::F16 : DType::BF16);
        const Bytes found = run(isa, Kernel::Elements, &p, halves)[0];
        if (truth) {
          if (found != expected) throw std::runtime_error("truth values differ");
        } else {
          expect_close("elements", read(found, type), rounded(values_of<float>(expected), type), 0, 0);
        }
      }
}

// Rows side by side and apart, some with elements that are not turned.
void test_float16_rotary(const Isa &isa) {
  Random random(15);
  for (const NumberType type : {NumberType::F16, NumberType::BF16})
    for (unsigned options = 0; options < 32; ++options) {
      RotaryF32 p;
      p.batches = 2, p.heads = 3, p.length = 35, p.half = options & 1 ? 21 : 32;
      p.size = 2 * p.half + (options & 2 ? 5 : 0), p.interleaved = options >> 2 & 1;
      const bool packed = options >> 3 & 1;
      const std::int64_t row = packed ? p.heads * p.size : p.size, head = packed ? p.size : p.length * p.size;
      p.x[0] = p.y[0] = p.heads * p.length * p.size, p.x[1] = p.y[1] = head, p.x[2] = p.y[2] = row;
      const auto count = static_cast<std::size_t>(p.batches * p.x[0]);
      const auto angles = static_cast<std::size_t>(p.batches * p.length * p.half);
      const Bytes halves = stored(random.reals(count), type);
      const auto cosines = random.reals(angles), sines = random.reals(angles);
      const Bytes wide =
          run(isa, Kernel::RotaryF32, &p, {in(read(halves, type)), in(cosines), in(sines), out(count * 4)})[0];
      p.x_type = type;
      const bool both = options >> 4;
      if (both) p.y_type = type;
      const Bytes found =
          run(isa, Kernel::RotaryF32, &p, {{halves}, in(cosines), in(sines), out(count * (both ? 2 : 4))})[0];
      if (found != (both ? stored(values_of<float>(wide), type) : wide))
        throw std::runtime_error("rotated pairs of float16: not what f32 gives, rounded");
    }
  refuse(isa, Kernel::RotaryF32, RotaryF32{}, "an unknown type",
         [](auto &q) { q.size = 2, q.half = 1, q.x_type = NumberType::Count; });
}

}  // namespace

void register_float16(Registry &registry) {
  registry.test("ChainF32: float16", test_float16_chain);
  registry.test("ReduceF32: float16", test_float16_reduce);
  registry.test("Elements: float16", test_float16_elements);
  registry.test("RotaryF32: float16", test_float16_rotary);
}

}  // namespace quarry::kernel_test
