// SPDX-License-Identifier: Apache-2.0
// Kernels that move data or change its type: exact.
#include <cmath>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void expect_same(const std::string &what, const Bytes &found, const Bytes &expected) {
  if (found == expected) return;
  std::size_t at = 0;
  while (at < found.size() && at < expected.size() && found[at] == expected[at]) ++at;
  throw std::runtime_error(what + ": byte " + std::to_string(at) + " of " + std::to_string(found.size()) +
                           " (expected " + std::to_string(expected.size()) + ") differs");
}

void test_copy_case(const Isa &isa, const kernels::Copy &p, Random &random) {
  Needs needs;
  if (const Status status = check_Copy(&p, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Bytes x(needs.operand_bytes[0]), y(needs.operand_bytes[1], std::byte{0xa5});
  for (std::byte &v : x) v = static_cast<std::byte>(random.bits() >> 32);
  Bytes expected = y;
  std::int64_t count = 1, index[kCopyRank] = {};
  std::string text = "width " + std::to_string(p.width);
  for (std::uint32_t i = 0; i < p.rank; ++i) {
    count *= p.dims[i];
    text += " [" + std::to_string(p.dims[i]) + " from " + std::to_string(p.from[i]) + " to " + std::to_string(p.to[i]) +
            "]";
  }
  for (; count > 0; --count) {
    std::size_t from = 0, to = 0;
    for (std::uint32_t i = 0; i < p.rank; ++i)
      from += static_cast<std::size_t>(index[i] * p.from[i]), to += static_cast<std::size_t>(index[i] * p.to[i]);
    std::copy_n(x.begin() + static_cast<std::ptrdiff_t>(from * p.width), p.width,
                expected.begin() + static_cast<std::ptrdiff_t>(to * p.width));
    for (std::uint32_t i = p.rank; i-- > 0 && ++index[i] == p.dims[i];) index[i] = 0;
  }
  expect_same("copy " + text, run(isa, Kernel::Copy, &p, {{x}, {y, true}})[0], expected);
}

void test_copy(const Isa &isa) {
  Random random(6);
  const auto permuted = [&](std::uint32_t width, const Dims &shape,
                            const std::vector<int> &order) {  // y = x.transpose(order)
    kernels::Copy p;
    p.width = width, p.rank = static_cast<std::uint32_t>(shape.size());
    const auto from = strides_of(shape);
    std::int64_t step = 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      const auto axis = static_cast<std::size_t>(order[i]);
      p.dims[i] = shape[axis], p.from[i] = from[axis], p.to[i] = step;
      step *= shape[axis];
    }
    test_copy_case(isa, p, random);
  };
  for (const std::uint32_t width : {1u, 2u, 4u, 8u, 16u}) {
    permuted(width, {1}, {0});
    permuted(width, {1000}, {0});
    for (const std::int64_t c : {2, 3, 4, 5, 16, 35})
      for (const std::int64_t hw : {1, 7, 15, 16, 17, 121, 300}) {
        permuted(width, {2, c, hw}, {0, 2, 1});
        permuted(width, {2, hw, c}, {0, 2, 1});
      }
    permuted(width, {1, 12, 64, 20}, {0, 2, 1, 3});
    permuted(width, {1, 12, 64, 20}, {0, 3, 1, 2});
    permuted(width, {3, 2, 4, 5, 2, 3}, {5, 2, 0, 4, 1, 3});
  }
  permuted(4, {3, 224, 224}, {1, 2, 0});
  permuted(4, {224, 224, 3}, {2, 0, 1});
  permuted(4, {2, 64, 56, 56}, {0, 2, 3, 1});
  permuted(1, {500000}, {0});
  for (const std::int64_t block : {100000, 4100, 130})  // each of 3 blocks 2 x 5 times
    for (const std::uint32_t width : {1u, 8u}) {
      const kernels::Copy p{width, 4, {3, 2, 5, block}, {block, 0, 0, 1}, {10 * block, 5 * block, block, 1}};
      test_copy_case(isa, p, random);
    }
  for (const std::int64_t columns : {1, 3, 4, 17, 37, 70})  // pairs of columns of an image apart
    permuted(4, {3, columns, 2}, {2, 0, 1});
  permuted(2, {700, 701}, {1, 0});
  for (int i = 0; i < 400;
       ++i) {  // any nest: a source of any order with broadcasts, a destination of any order with gaps
    kernels::Copy p;
    p.width = 1u << random.integer(0, 4);
    p.rank = static_cast<std::uint32_t>(random.integer(1, 6));
    std::int64_t elements = 1;
    for (std::uint32_t k = 0; k < p.rank; ++k) {
      p.dims[k] = random.integer(1, i % 7 == 0 ? 40 : 9);
      if (elements * p.dims[k] > 60000) p.dims[k] = 1;
      elements *= p.dims[k];
    }
    const auto strides = [&](std::int64_t *into, bool broadcasts) {
      std::uint32_t order[kCopyRank];
      for (std::uint32_t k = 0; k < p.rank; ++k) order[k] = k;
      for (std::uint32_t k = p.rank; k > 1; --k) std::swap(order[k - 1], order[random.integer(0, k - 1)]);
      std::int64_t step = random.integer(0, 3) == 0 ? random.integer(1, 3) : 1;
      for (std::uint32_t k = 0; k < p.rank; ++k) {
        into[order[k]] = step;
        step = step * p.dims[order[k]] + (random.integer(0, 2) == 0 ? random.integer(0, 5) : 0);
        if (broadcasts && random.integer(0, 4) == 0) into[order[k]] = 0;
      }
    };
    strides(p.from, true);
    strides(p.to, false);
    test_copy_case(isa, p, random);
  }
  kernels::Copy p;
  p.rank = 2, p.dims[0] = 4, p.dims[1] = 3, p.from[0] = 3, p.from[1] = 1, p.to[0] = 3, p.to[1] = 1;
  refuse(isa, Kernel::Copy, p, "width 3", [](auto &q) { q.width = 3; });
  refuse(isa, Kernel::Copy, p, "rank 9", [](auto &q) { q.rank = 9; });
  refuse(isa, Kernel::Copy, p, "overlapping destinations", [](auto &q) { q.to[0] = 2; });
  refuse(isa, Kernel::Copy, p, "a destination stride of 0", [](auto &q) { q.to[1] = 0; });
  refuse(isa, Kernel::Copy, p, "a negative stride", [](auto &q) { q.from[0] = -3; });
  refuse(isa, Kernel::Copy, p, "2^60 elements from broadcasts",
         [](auto &q) { q.dims[0] = std::int64_t{1} << 60, q.from[0] = 0; });
  p.dims[0] = 0;
  (void)run(isa, Kernel::Copy, &p, {{Bytes()}, {Bytes(), true}});
}

void test_fill(const Isa &isa) {
  for (const std::uint32_t width : {1u, 2u, 4u, 8u})
    for (const std::int64_t count : {0, 1, 7, 33, 100000}) {
      Fill p;
      p.width = width, p.count = count, p.value = 0x0123456789abcdefu;
      Bytes expected(static_cast<std::size_t>(count) * width);
      for (std::size_t i = 0; i < expected.size(); ++i)
        expected[i] = static_cast<std::byte>(p.value >> 8 * (i % width));
      expect_same("fill", run(isa, Kernel::Fill, &p, {out(expected.size())})[0], expected);
    }
  Fill p;
  refuse(isa, Kernel::Fill, p, "width 16", [](auto &q) { q.width = 16; });
  refuse(isa, Kernel::Fill, p, "a negative count", [](auto &q) { q.count = -1; });
}

void test_gather(const Isa &isa) {
  Random random(7);
  struct Shape {
    std::int64_t outer, rows, row_bytes, count;
  };
  for (const Shape s :
       {Shape{1, 5, 12, 9}, {3, 7, 1, 4}, {2, 4, 3072, 128}, {1, 10, 4, 100000}, {2, 3, 0, 4}, {1, 3, 8, 0}})
    for (const std::uint32_t width : {4u, 8u}) {
      kernels::Gather p;
      p.outer = s.outer, p.rows = s.rows, p.row_bytes = s.row_bytes, p.count = s.count, p.index_bytes = width;
      Bytes table(static_cast<std::size_t>(s.outer * s.rows * s.row_bytes)), indices, expected;
      for (std::byte &v : table) v = static_cast<std::byte>(random.bits() >> 32);
      std::vector<std::int64_t> values;
      for (std::int64_t i = 0; i < s.count; ++i) {
        values.push_back(random.integer(-s.rows, s.rows - 1));
        const auto *bytes = reinterpret_cast<const std::byte *>(&values.back());
        indices.insert(indices.end(), bytes, bytes + width);
      }
      for (std::int64_t o = 0; o < s.outer; ++o)
        for (const std::int64_t index : values) {
          const auto begin = table.begin() + (o * s.rows + (index < 0 ? index + s.rows : index)) * s.row_bytes;
          expected.insert(expected.end(), begin, begin + s.row_bytes);
        }
      expect_same("gather", run(isa, Kernel::Gather, &p, {{table}, {indices}, out(expected.size())})[0], expected);
    }
  kernels::Gather p;
  p.rows = 4, p.row_bytes = 4, p.count = 3;
  float table[4] = {}, y[3];
  for (const std::int64_t bad : {std::int64_t{4}, std::int64_t{-5}, INT64_MIN, INT64_MAX}) {
    std::int64_t indices[3] = {0, bad, 99}, found[2] = {};
    std::byte *const pointers[3] = {reinterpret_cast<std::byte *>(table), reinterpret_cast<std::byte *>(indices),
                                    reinterpret_cast<std::byte *>(y)};
    const Threads threads;
    isa.run[static_cast<std::size_t>(Kernel::Gather)](Call{&p, pointers, threads, nullptr, 0, found});
    if (found[0] != bad || found[1] != 1) throw std::runtime_error("gather: an index out of range was not reported");
  }
  refuse(isa, Kernel::Gather, p, "no rows", [](auto &q) { q.rows = 0; });
  refuse(isa, Kernel::Gather, p, "indices of 2 bytes", [](auto &q) { q.index_bytes = 2; });
  refuse(isa, Kernel::Gather, p, "a table of 2^62 bytes",
         [](auto &q) { q.rows = q.row_bytes = std::int64_t{1} << 31; });
}

void test_cast(const Isa &isa) {
  Random random(8);
  constexpr DType kTypes[] = {DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8,  DType::U8,  DType::I16,
                              DType::U16, DType::I32, DType::U32,  DType::I64, DType::U64, DType::Bool};
  for (const DType from : kTypes)
    for (const DType to : kTypes)
      for (const std::size_t count : {1u, 17u, 1100u, 40000u}) {
        std::vector<double> values(count);
        static const double kEdges[] = {0,
                                        -0.0,
                                        1,
                                        -1,
                                        0.5,
                                        -0.5,
                                        1.5,
                                        255,
                                        256,
                                        -129,
                                        65504,
                                        65520,
                                        6e-8,
                                        3e-8,
                                        1e-40,
                                        2147483647,
                                        2147483648.0,
                                        -2147483649.0,
                                        9.3e18,
                                        -9.3e18,
                                        1e300,
                                        1 + 0x1p-11 + 0x1p-40,
                                        std::numeric_limits<double>::infinity(),
                                        -std::numeric_limits<double>::infinity(),
                                        std::numeric_limits<double>::quiet_NaN()};
        const std::size_t edges = count == 1100 ? std::size(kEdges) : count == 17 ? 8 : 0;
        for (std::size_t i = 0; i < count; ++i)
          values[i] = i < edges ? kEdges[i] : static_cast<double>(random.real(i % 2 ? -300 : -2, i % 2 ? 300 : 2));
        // Made by the reference; and all bit patterns of small types.
        qir::Node node = node_of(Op::Cast, 1);
        node.set("to", static_cast<std::int64_t>(from));
        Tensor source{DType::F64, {static_cast<std::int64_t>(count)}, bytes_of(values), {}};
        if (from != DType::F64) source = reference(node, {source})[0];
        if (count == 40000 && (from == DType::F16 || from == DType::BF16)) {
          std::vector<std::uint16_t> bits(count);
          for (std::size_t i = 0; i < count; ++i) bits[i] = static_cast<std::uint16_t>(random.bits() >> 20);
          source.data = bytes_of(bits);
        }
        if (count == 17 && from == DType::I64) {  // just more than half way between two bf16, and not so in f64
          const std::int64_t between = (std::int64_t{1} << 62) + (std::int64_t{1} << 54) + 1,
                             both[] = {between, -between};
          std::memcpy(source.data.data(), both, sizeof both);
        }
        if (count == 40000 && from == DType::Bool)
          for (std::byte &v : source.data) v = static_cast<std::byte>(random.integer(0, 3));
        node.set("to", static_cast<std::int64_t>(to));
        const Tensor expected = reference(node, {source})[0];
        kernels::Cast p;
        p.from = static_cast<std::uint32_t>(from), p.to = static_cast<std::uint32_t>(to),
        p.count = static_cast<std::int64_t>(count);
        const Bytes found = run(isa, Kernel::Cast, &p, {{source.data}, out(expected.data.size())})[0];
        const std::string what = std::string("cast ") + dtype_name(from) + " to " + dtype_name(to);
        if (to == DType::F32) expect_close(what, values_of<float>(found), values_of<float>(expected.data), 0, 0);
        else if (!(from == DType::F16 && to == DType::F64) && !(to == DType::F64))
          expect_same(what, found, expected.data);
        else {
          const auto f = values_of<double>(found), e = values_of<double>(expected.data);
          for (std::size_t i = 0; i < count; ++i)
            if (f[i] != e[i] && !(std::isnan(f[i]) && std::isnan(e[i])))
              throw std::runtime_error(what + ": element " + std::to_string(i));
        }
      }
  kernels::Cast p;
  p.from = 1, p.to = 1;
  refuse(isa, Kernel::Cast, p, "a string", [](auto &q) { q.to = 8; });
  refuse(isa, Kernel::Cast, p, "dtype 257", [](auto &q) { q.from = 257; });
}

void register_movement_benches(Registry &registry) {
  struct Transpose {
    std::uint32_t width;
    std::int64_t n, rows, columns, block;
  };  // y[n][columns][rows][block] = x[n][rows][columns][block]
  for (const Transpose t : {Transpose{4, 1, 1, 64, 1},
                            {4, 1, 1, 150528, 1},
                            {4, 1, 3, 50176, 1},
                            {4, 1, 50176, 3, 1},
                            {4, 1, 64, 3136, 1},
                            {4, 1, 3136, 64, 1},
                            {4, 1, 2048, 49, 1},
                            {4, 1, 49, 2048, 1},
                            {4, 1, 128, 12, 64},
                            {4, 1, 768, 768, 1},
                            {1, 1, 50176, 3, 1},
                            {1, 1, 3, 50176, 1},
                            {1, 1, 64, 3136, 1},
                            {2, 1, 3136, 64, 1},
                            {8, 1, 256, 256, 1}})
    registry.bench(
        "Copy " + std::to_string(t.width) + " bytes, " + std::to_string(t.rows) + "x" + std::to_string(t.columns) +
            "x" + std::to_string(t.block) + " transposed",
        [=](const Isa &) {
          kernels::Copy p;
          p.width = t.width, p.rank = 4;
          const std::int64_t dims[4] = {t.n, t.columns, t.rows, t.block},
                             from[4] = {t.rows * t.columns * t.block, t.block, t.columns * t.block, 1},
                             to[4] = {t.rows * t.columns * t.block, t.rows * t.block, t.block, 1};
          for (int i = 0; i < 4; ++i) p.dims[i] = dims[i], p.from[i] = from[i], p.to[i] = to[i];
          const auto bytes = static_cast<std::size_t>(t.n * t.rows * t.columns * t.block) * t.width;
          return Registry::Prepared{
              Kernel::Copy, params_of(p), {{Bytes(bytes)}, out(bytes)}, {0, 2.0 * static_cast<double>(bytes)}};
        });
  struct Casts {
    const char *name;
    DType from, to;
  };
  for (const Casts &c : {Casts{"f32 to f16", DType::F32, DType::F16},
                         {"f16 to f32", DType::F16, DType::F32},
                         {"bf16 to f32", DType::BF16, DType::F32},
                         {"u8 to f32", DType::U8, DType::F32},
                         {"f32 to u8", DType::F32, DType::U8},
                         {"i64 to i32", DType::I64, DType::I32},
                         {"f32 to i64", DType::F32, DType::I64}})
    registry.bench(std::string("Cast ") + c.name + " 16384", [=](const Isa &) {
      kernels::Cast p;
      p.from = static_cast<std::uint32_t>(c.from), p.to = static_cast<std::uint32_t>(c.to), p.count = 16384;
      const double bytes = (dtype_bits(c.from) + dtype_bits(c.to)) / 8.0 * 16384;
      return Registry::Prepared{Kernel::Cast,
                                params_of(p),
                                {{Bytes(16384 * dtype_bits(c.from) / 8)}, out(16384 * dtype_bits(c.to) / 8)},
                                {0, bytes}};
    });
  registry.bench("Gather 128 rows of 3072 bytes", [=](const Isa &) {
    kernels::Gather p;
    p.rows = 1000, p.row_bytes = 3072, p.count = 128;
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < 128; ++i) indices.push_back(i * 7);
    return Registry::Prepared{
        Kernel::Gather, params_of(p), {{Bytes(3072000)}, {bytes_of(indices)}, out(128 * 3072)}, {0, 2.0 * 128 * 3072}};
  });
}

}  // namespace

void register_movement(Registry &registry) {
  registry.test("Copy", test_copy);
  registry.test("Fill", test_fill);
  registry.test("Gather", test_gather);
  registry.test("Cast", test_cast);
  register_movement_benches(registry);
}

}  // namespace quarry::kernel_test
