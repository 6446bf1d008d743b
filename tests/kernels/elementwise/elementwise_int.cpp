// SPDX-License-Identifier: Apache-2.0
// Stored integers, element by element. Bounds: BinaryInt: one quantum from cpu-reference, and that only next to ties
// (few elements; see kOffLimit); the rest: equal.
#include "tests/kernels/operands.h"
#include "tests/kernels/quantization.h"

namespace quarry::kernel_test {

namespace {

void test_binary(const Isa &isa, BinaryOp op, const Quant &qa, const Quant &qb, const Quant &qy,
                 std::vector<std::int64_t> a_shape, std::vector<std::int64_t> b_shape) {
  Random random(11);
  BinaryInt p;
  p.op = op;
  p.rank = static_cast<std::uint32_t>(a_shape.size());
  p.qa = qa, p.qb = qb, p.qy = qy;
  p.lo = low_of(qy.dtype) + 3, p.hi = high_of(qy.dtype) - 2;
  std::int64_t a_count = 1, b_count = 1, count = 1;
  for (std::size_t i = a_shape.size(); i-- > 0;) {
    p.dims[i] = std::max(a_shape[i], b_shape[i]);
    p.a[i] = a_shape[i] == 1 ? 0 : a_count;
    p.b[i] = b_shape[i] == 1 ? 0 : b_count;
    a_count *= a_shape[i], b_count *= b_shape[i], count *= p.dims[i];
  }
  const Bytes a = random_ints(random, qa.dtype, static_cast<std::size_t>(a_count)),
              b = random_ints(random, qb.dtype, static_cast<std::size_t>(b_count));
  const Bytes found = run(isa, Kernel::BinaryInt, &p,
                          {{a}, {b}, {Bytes(static_cast<std::size_t>(count) * width_of(qy.dtype)), true}})[0];
  const qir::Op ops[] = {qir::Op::Add, qir::Op::Sub, qir::Op::Mul};
  Bytes expected = reference_quantised(node_of(ops[static_cast<int>(op)], 2),
                                       {tensor_of(qa, a_shape, a), tensor_of(qb, b_shape, b)}, qy);
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
    set(expected, qy.dtype, i, std::clamp(get(expected, qy.dtype, i), p.lo, p.hi));
  expect_quanta("binary " + std::to_string(static_cast<int>(op)) + " types " + std::to_string(qa.dtype) +
                    std::to_string(qb.dtype) + std::to_string(qy.dtype),
                found, expected, qy.dtype, 0.02);
}

void register_binary(Registry &registry) {
  registry.test("binary_int types", [](const Isa &isa) {
    for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul})
      for (const std::uint32_t a : kAll)
        for (const std::uint32_t b : kAll)
          for (const std::uint32_t y : kAll)
            test_binary(isa, op, some_quant(a, a >= kU16 ? 3e-5f : 0.007f),
                        some_quant(b, b >= kU16 ? 2.3e-5f : 0.0061f), some_quant(y, y >= kU16 ? 4.7e-5f : 0.0119f),
                        {3, 37}, {3, 37});
  });
  registry.test("binary_int shapes", [](const Isa &isa) {
    const std::vector<std::int64_t> shapes[][2] = {{{1}, {1}},
                                                   {{7}, {7}},
                                                   {{65}, {1}},
                                                   {{1}, {65}},
                                                   {{5, 40}, {1, 40}},
                                                   {{5, 1}, {1, 40}},
                                                   {{3, 1, 5, 9}, {1, 4, 5, 1}},
                                                   {{40000}, {40000}},
                                                   {{2, 3, 20000}, {2, 1, 20000}},
                                                   {{2, 2, 2, 2, 2, 3}, {1, 2, 1, 2, 1, 3}}};
    for (const auto &shape : shapes)
      for (const BinaryOp op : {BinaryOp::Add, BinaryOp::Mul})
        test_binary(isa, op, some_quant(kU8, 0.02f), some_quant(kI8, 0.011f), some_quant(kU8, 0.031f), shape[0],
                    shape[1]);
  });
  registry.test("binary_int strided", [](const Isa &isa) {
    // Every second element of a, and a nest with nothing in it.
    BinaryInt p;
    p.qa = p.qb = p.qy = quant(kU8, 0, 1);
    p.hi = 255;
    p.dims[0] = 21;
    p.a[0] = 2, p.b[0] = 1;
    Bytes a(41), b(21);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = std::byte(i);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = std::byte(i);
    const Bytes y = run(isa, Kernel::BinaryInt, &p, {{a}, {b}, {Bytes(21), true}})[0];
    for (std::size_t i = 0; i < y.size(); ++i)
      if (y[i] != std::byte(3 * i)) throw std::runtime_error("strided sum is wrong");
    p.dims[0] = 0;
    run(isa, Kernel::BinaryInt, &p, {{{}}, {{}}, {{}, true}});
  });
}

// Bit by bit what the three steps give that it stands for, of any types, also across its tiles.
void test_unary_int(const Isa &isa) {
  Random random(61);
  const Activation acts[] = {
      {Act::Sigmoid}, {Act::Tanh}, {Act::Exp}, {Act::Clip, -0.25f, 0.5f}, {Act::LeakyRelu, 0.1f}};
  for (const std::uint32_t x_type : kAll)
    for (const std::uint32_t y_type : kAll)
      for (const std::size_t count : {0, 1, 9, 1024, 1025, 40000}) {
        UnaryInt p;
        p.count = static_cast<std::int64_t>(count);
        p.x = some_quant(x_type, x_type >= kU16 ? 2e-4f : 0.05f),
        p.y = some_quant(y_type, y_type >= kU16 ? 3e-5f : 0.01f);
        p.act = acts[(x_type + y_type + count) % std::size(acts)];
        const Bytes x = random_ints(random, x_type, count);
        const Dequantize from{p.count, p.x};
        const UnaryF32 function{p.count, p.act};
        const Quantize to{p.count, p.y};
        const Bytes floats = run(isa, Kernel::Dequantize, &from, {{x}, {Bytes(count * 4), true}})[0];
        const Bytes made = run(isa, Kernel::UnaryF32, &function, {{floats}, {Bytes(count * 4), true}})[0];
        const Bytes expected = run(isa, Kernel::Quantize, &to, {{made}, {Bytes(count * width_of(y_type)), true}})[0];
        const Bytes found = run(isa, Kernel::UnaryInt, &p, {{x}, {Bytes(count * width_of(y_type)), true}})[0];
        if (found != expected) throw std::runtime_error("differs from three steps");
      }
  refuse(isa, Kernel::UnaryInt, UnaryInt{1, some_quant(kU16, 1), some_quant(kU16, 1), {}}, "a negative count",
         [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::UnaryInt, UnaryInt{1, some_quant(kU16, 1), some_quant(kU16, 1), {}}, "a scale of 0",
         [](auto &q) { q.y.scale = 0; });
  refuse(isa, Kernel::UnaryInt, UnaryInt{1, some_quant(kU16, 1), some_quant(kU16, 1), {}}, "an activation that is none",
         [](auto &q) { q.act.kind = static_cast<Act>(99); });
}

void test_lookup(const Isa &isa) {
  Random random(41);
  const Bytes table = random_ints(random, kU8, 256);
  for (const std::int64_t count : {0, 1, 7, 8, 31, 63, 64, 65, 100, 129, 127, 70001, 300007}) {
    const Lookup8 p{count};
    const Bytes x = random_ints(random, kU8, static_cast<std::size_t>(count));
    const Bytes y = run(isa, Kernel::Lookup8, &p, {{x}, {table}, {Bytes(x.size()), true}})[0];
    for (std::size_t i = 0; i < x.size(); ++i)
      if (y[i] != table[static_cast<std::size_t>(x[i])])
        throw std::runtime_error("element " + std::to_string(i) + " is wrong");
  }
}

void register_elementwise_int_benches(Registry &registry) {
  const auto binary = [&](const char *name, std::uint32_t type, std::int64_t count) {
    registry.bench(std::string("binary_int add ") + name, [=](const Isa &) {
      BinaryInt p;
      p.qa = some_quant(type, 0.02f), p.qb = some_quant(type, 0.013f), p.qy = some_quant(type, 0.03f);
      p.lo = low_of(type), p.hi = high_of(type);
      p.dims[0] = count, p.a[0] = p.b[0] = 1;
      const std::size_t bytes = static_cast<std::size_t>(count) * width_of(type);
      return Registry::Prepared{Kernel::BinaryInt,
                                params_of(p),
                                {{Bytes(bytes)}, {Bytes(bytes)}, {Bytes(bytes), true}},
                                {0, 3.0 * static_cast<double>(bytes)}};
    });
  };
  binary("u8 56x56x24", kU8, 56 * 56 * 24);
  binary("u16 56x56x24", kU16, 56 * 56 * 24);
  binary("u8 8", kU8, 8);
  registry.bench("lookup8 65536", [](const Isa &) {
    Random random(3);
    return Registry::Prepared{
        Kernel::Lookup8,
        params_of(Lookup8{65536}),
        {{random_ints(random, kU8, 65536)}, {random_ints(random, kU8, 256)}, {Bytes(65536), true}},
        {0, 131072}};
  });
  registry.bench("unary_int sigmoid u16 208x208x16", [](const Isa &) {
    constexpr std::int64_t kCount = 208 * 208 * 16;
    Random random(5);
    return Registry::Prepared{
        Kernel::UnaryInt,
        params_of(UnaryInt{kCount, some_quant(kU16, 2e-4f), some_quant(kU16, 1.6e-5f), {Act::Sigmoid}}),
        {{random_ints(random, kU16, kCount)}, {Bytes(kCount * 2), true}},
        {0, 4.0 * kCount}};
  });
}

}  // namespace

void register_elementwise_int(Registry &registry) {
  register_binary(registry);
  registry.test("unary_int", test_unary_int);
  registry.test("lookup8", test_lookup);
  register_elementwise_int_benches(registry);
}

}  // namespace quarry::kernel_test
