// SPDX-License-Identifier: Apache-2.0
// ArgMax and ArgMin: exact.
#include "tests/kernels/numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_arg_extreme(const Isa &isa) {
  Random random(36);
  for (const std::int64_t cols : {1, 3, 15, 16, 17, 31, 40, 80, 100, 1000})
    for (int kind = 0; kind < static_cast<int>(Kind::Count); ++kind)
      for (std::uint32_t flags = 0; flags < 4; ++flags) {
        const std::int64_t rows = 9;
        const auto x = elements<float>(static_cast<Kind>(kind), static_cast<std::size_t>(rows * cols), random);
        const ArgExtremeF32 p{rows, cols, flags & 1, flags >> 1};
        qir::Node node = node_of(p.least ? Op::ArgMin : Op::ArgMax, 1);
        node.set("axis", std::int64_t{1}), node.set("keepdims", std::int64_t{0});
        node.set("select_last_index", std::int64_t{p.last});
        if (run(isa, Kernel::ArgExtremeF32, &p, {{bytes_of(x)}, out(rows * 8)})[0] !=
            reference(node, {tensor_of({rows, cols}, x)})[0].data)
          throw std::runtime_error("greatest of rows: another place, " + std::to_string(cols) + " columns, kind " +
                                   std::to_string(kind) + ", flags " + std::to_string(flags));
      }
  const ArgExtremeF32 p{2, 3, 0};
  refuse(isa, Kernel::ArgExtremeF32, p, "empty rows", [](auto &q) { q.cols = 0; });
  refuse(isa, Kernel::ArgExtremeF32, p, "a flag of 2", [](auto &q) { q.last = 2; });
  refuse(isa, Kernel::ArgExtremeF32, p, "negative rows", [](auto &q) { q.rows = -1; });
}

void test_arg_extreme_rows(const Isa &isa) {
  Random random(37);
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const Shape &s : {Shape{7, 1, 1},
                         {5, 3, 1},
                         {3, 64, 1},
                         {2, 255, 1},
                         {3, 257, 1},
                         {2, 1000, 1},
                         {2, 5, 3},
                         {2, 21, 65},
                         {1, 300, 16},
                         {3, 1, 9},
                         {1, 40, 300}})
    for (int kind = 0; kind < static_cast<int>(Kind::Count); ++kind)
      for (std::uint32_t flags = 0; flags < 4; ++flags)
        each_number([&]<class T>(T, DType dtype) {
          const auto x =
              elements<T>(static_cast<Kind>(kind), static_cast<std::size_t>(s.outer * s.n * s.inner), random);
          const ArgExtreme p{s.outer, s.n, s.inner, static_cast<std::uint32_t>(dtype), flags & 1, flags >> 1, 0};
          qir::Node node = node_of(p.least ? Op::ArgMin : Op::ArgMax, 1);
          node.set("axis", std::int64_t{1}), node.set("keepdims", std::int64_t{0});
          node.set("select_last_index", std::int64_t{p.last});
          if (run(isa, Kernel::ArgExtreme, &p,
                  {{bytes_of(x)}, out(static_cast<std::size_t>(s.outer * s.inner) * 8)})[0] !=
              reference(node, {{dtype, {s.outer, s.n, s.inner}, bytes_of(x), {}}})[0].data)
            throw std::runtime_error("greatest of lines: another place, " + std::string(dtype_name(dtype)) + ", " +
                                     std::to_string(s.n) + "x" + std::to_string(s.inner) + ", kind " +
                                     std::to_string(kind) + ", flags " + std::to_string(flags));
        });
  const ArgExtreme p{2, 3, 2, static_cast<std::uint32_t>(DType::I32), 0, 0, 0};
  refuse(isa, Kernel::ArgExtreme, p, "empty lines", [](auto &q) { q.n = 0; });
  refuse(isa, Kernel::ArgExtreme, p, "a flag of 2", [](auto &q) { q.least = 2; });
  refuse(isa, Kernel::ArgExtreme, p, "a reserved field", [](auto &q) { q.reserved = 1; });
  refuse(isa, Kernel::ArgExtreme, p, "halves", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F16); });
  refuse(isa, Kernel::ArgExtreme, p, "negative lines", [](auto &q) { q.outer = -1; });
  refuse(isa, Kernel::ArgExtreme, p, "2^60 elements", [](auto &q) { q.outer = q.inner = std::int64_t{1} << 30; });
}

}  // namespace

void register_arg_extreme(Registry &registry) {
  registry.test("ArgExtremeF32", test_arg_extreme);
  registry.test("ArgExtreme", test_arg_extreme_rows);
}

}  // namespace quarry::kernel_test
