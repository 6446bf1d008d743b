// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of f64 and whole numbers. Whole numbers are exact; f64: 1e-13 of a value, and 1e-13.
#include "tests/kernels/wide_numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_matmul_wide(const Isa &isa) {
  Random random(24);
  struct Shape {
    std::int64_t batch, m, n, k;
    bool a_transposed, b_transposed, one_b;
  };
  for (const DType dtype : {DType::F64, DType::I32, DType::U32, DType::I64, DType::U64})
    for (const Shape s : {Shape{1, 1, 1, 1, false, false, false},
                          {1, 5, 7, 3, false, false, false},
                          {2, 9, 33, 17, false, false, true},
                          {3, 8, 16, 64, true, false, false},
                          {2, 13, 40, 9, false, true, false},
                          {1, 17, 70, 700, true, true, false},
                          {1, 4, 5, 0, false, false, false}}) {
      MatMulWide p;
      p.dtype = static_cast<std::uint32_t>(dtype);
      p.m = s.m, p.n = s.n, p.k = s.k;
      p.batch[3] = s.batch, p.a_batch[3] = s.m * s.k, p.b_batch[3] = s.one_b ? 0 : s.k * s.n, p.y_batch[3] = s.m * s.n;
      p.a_row = s.a_transposed ? 1 : s.k, p.a_col = s.a_transposed ? s.m : 1;
      p.b_row = s.b_transposed ? 1 : s.n, p.b_col = s.b_transposed ? s.k : 1;
      p.y_row = s.n;
      const std::size_t width = dtype_bits(dtype) / 8, a_count = static_cast<std::size_t>(s.batch * s.m * s.k),
                        b_count = static_cast<std::size_t>((s.one_b ? 1 : s.batch) * s.k * s.n);
      const Bytes a = numbers(dtype, a_count, random), b = numbers(dtype, b_count, random);
      const Bytes found =
          run(isa, Kernel::MatMulWide, &p, {{a}, {b}, out(static_cast<std::size_t>(s.batch * s.m * s.n) * width)})[0];
      // As the reference has its operands.
      const auto transposed = [&](const Bytes &from, std::int64_t matrices, std::int64_t rows, std::int64_t columns) {
        Bytes to(from.size());
        for (std::int64_t i = 0; i < matrices; ++i)
          for (std::int64_t r = 0; r < rows; ++r)
            for (std::int64_t c = 0; c < columns; ++c)
              std::memcpy(to.data() + static_cast<std::size_t>((i * rows + r) * columns + c) * width,
                          from.data() + static_cast<std::size_t>((i * columns + c) * rows + r) * width, width);
        return to;
      };
      const Bytes given_a = s.a_transposed ? transposed(a, s.batch, s.m, s.k) : a;
      const Bytes given_b = s.b_transposed ? transposed(b, s.one_b ? 1 : s.batch, s.k, s.n) : b;
      const Bytes expected =
          reference(node_of(Op::MatMul, 2), {tensor_as(dtype, {s.batch, s.m, s.k}, given_a),
                                             tensor_as(dtype, {s.one_b ? 1 : s.batch, s.k, s.n}, given_b)})[0]
              .data;
      if (dtype == DType::F64) expect_near("f64 product", found, expected, 1e-13, 1e-13);
      else if (found != expected)
        throw std::runtime_error(std::string("product of ") + dtype_name(dtype) + ": not what the reference gives");
    }
  MatMulWide p;
  p.dtype = static_cast<std::uint32_t>(DType::I32), p.m = p.n = p.k = 2, p.a_row = p.b_row = p.y_row = 2;
  refuse(isa, Kernel::MatMulWide, p, "f32", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F32); });
  refuse(isa, Kernel::MatMulWide, p, "rows of y that overlap", [](auto &q) { q.y_row = 1; });
  refuse(isa, Kernel::MatMulWide, p, "a reserved field", [](auto &q) { q.reserved = 1; });
}

}  // namespace

void register_matmul_wide(Registry &registry) { registry.test("MatMulWide", test_matmul_wide); }

}  // namespace quarry::kernel_test
