// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of bytes of the run: exact, whatever the types, the steps between elements and the zero
// points.
#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

Bytes any_bytes(Random &random, std::size_t count) {
  Bytes bytes(count);
  constexpr std::uint8_t kEdges[] = {0, 127, 128, 255};
  for (std::byte &byte : bytes)
    byte = static_cast<std::byte>(random.integer(0, 9) == 0 ? kEdges[random.integer(0, 3)] : random.integer(0, 255));
  return bytes;
}

struct Shape {
  std::int64_t batch, m, n, k;
  bool a_transposed, b_transposed, one_b;
};

// As ONNX has it, `rows` x `columns` of each matrix, from one that has the columns one after the other.
Bytes turned(const Bytes &from, std::int64_t matrices, std::int64_t rows, std::int64_t columns) {
  Bytes to(from.size());
  for (std::int64_t i = 0; i < matrices; ++i)
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c)
        to[static_cast<std::size_t>((i * rows + r) * columns + c)] =
            from[static_cast<std::size_t>((i * columns + c) * rows + r)];
  return to;
}

void test_products(const Isa &isa) {
  Random random(41);
  int turn = 0;
  for (const Shape s : {Shape{1, 1, 1, 1, false, false, false},
                        {1, 5, 7, 3, false, false, false},
                        {2, 9, 65, 17, false, false, true},
                        {3, 8, 64, 64, true, false, false},
                        {2, 13, 40, 36, false, true, false},
                        {1, 17, 70, 1100, true, true, false},
                        {1, 100, 130, 20, false, true, false},
                        {2, 98, 33, 2052, false, false, false},
                        {1, 7, 50, 2, false, false, false},
                        {1, 4, 5, 0, false, false, false}})
    for (const DType a_type : {DType::U8, DType::I8})
      for (const DType b_type : {DType::U8, DType::I8}) {
        MatMulInt p;
        p.a_dtype = static_cast<std::uint32_t>(a_type), p.b_dtype = static_cast<std::uint32_t>(b_type);
        p.a_zeros = static_cast<ByteZeros>(turn % 3), p.b_zeros = static_cast<ByteZeros>(turn / 3 % 3), ++turn;
        p.m = s.m, p.n = s.n, p.k = s.k;
        p.batch[3] = s.batch, p.a_batch[3] = s.m * s.k, p.b_batch[3] = s.one_b ? 0 : s.k * s.n,
        p.y_batch[3] = s.m * s.n;
        p.a_row = s.a_transposed ? 1 : s.k, p.a_col = s.a_transposed ? s.m : 1;
        p.b_row = s.b_transposed ? 1 : s.n, p.b_col = s.b_transposed ? s.k : 1;
        p.y_row = s.n;
        const std::int64_t b_count = s.one_b ? 1 : s.batch;
        const Bytes a = any_bytes(random, static_cast<std::size_t>(s.batch * s.m * s.k)),
                    b = any_bytes(random, static_cast<std::size_t>(b_count * s.k * s.n));
        std::vector<Operand> operands{{a}, {b}};
        std::vector<Tensor> inputs{
            {a_type, {s.batch, s.m, s.k}, s.a_transposed ? turned(a, s.batch, s.m, s.k) : a, {}},
            {b_type, {b_count, s.k, s.n}, s.b_transposed ? turned(b, b_count, s.k, s.n) : b, {}}};
        qir::Node node = node_of(Op::MatMulInteger, 4);
        for (const auto &[form, type, each, at] :
             {std::tuple{p.a_zeros, a_type, s.m, std::size_t{2}}, std::tuple{p.b_zeros, b_type, s.n, std::size_t{3}}}) {
          const std::int64_t count = form == ByteZeros::Each ? each : 1;
          // None is as good as zero.
          Bytes zeros(static_cast<std::size_t>(count));
          if (form != ByteZeros::None) {
            zeros = any_bytes(random, zeros.size());
            operands.push_back({zeros});
          }
          inputs.push_back({type, {count}, zeros, {}});
          node.inputs.set(at, static_cast<std::int32_t>(at));
        }
        operands.push_back(out(static_cast<std::size_t>(s.batch * s.m * s.n) * 4));
        const Bytes found = run(isa, Kernel::MatMulInt, &p, operands)[0], expected = reference(node, inputs)[0].data;
        if (found != expected)
          throw std::runtime_error(std::string("product of ") + dtype_name(a_type) + " and " + dtype_name(b_type) +
                                   ", " + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k) +
                                   ": not what the reference gives");
      }
  MatMulInt p;
  p.a_dtype = p.b_dtype = static_cast<std::uint32_t>(DType::U8), p.m = p.n = p.k = 2, p.a_row = p.b_row = p.y_row = 2;
  refuse(isa, Kernel::MatMulInt, p, "i32", [](auto &q) { q.b_dtype = static_cast<std::uint32_t>(DType::I32); });
  refuse(isa, Kernel::MatMulInt, p, "rows of y that overlap", [](auto &q) { q.y_row = 1; });
  refuse(isa, Kernel::MatMulInt, p, "unknown zero points", [](auto &q) { q.a_zeros = ByteZeros::Count; });
  refuse(isa, Kernel::MatMulInt, p, "a negative step", [](auto &q) { q.b_col = -1; });
}

}  // namespace

void register_matmul_int(Registry &registry) {
  registry.test("MatMulInt", test_products);
  for (const bool transposed : {false, true})
    for (const bool zeros : {false, true}) {
      const std::string name = std::string("matmul_int 12x 128x128x64") + (transposed ? " transposed" : "") +
                               (zeros ? " with zero points" : "");
      registry.bench(name, [=](const Isa &) {
        MatMulInt p;
        p.a_dtype = static_cast<std::uint32_t>(DType::U8), p.b_dtype = static_cast<std::uint32_t>(DType::I8);
        p.m = p.n = 128, p.k = 64, p.batch[3] = 12;
        p.a_batch[3] = p.b_batch[3] = 128 * 64, p.y_batch[3] = 128 * 128;
        p.a_row = 64, p.y_row = 128;
        p.b_row = transposed ? 1 : 128, p.b_col = transposed ? 64 : 1;
        if (zeros) p.a_zeros = p.b_zeros = ByteZeros::One;
        Random random(1);
        const std::size_t bytes = 12 * 128 * 64;
        std::vector<Operand> operands{{any_bytes(random, bytes)}, {any_bytes(random, bytes)}};
        if (zeros) operands.push_back({Bytes(1, std::byte{7})}), operands.push_back({Bytes(1, std::byte{3})});
        operands.push_back(out(12 * 128 * 128 * 4));
        return Registry::Prepared{
            Kernel::MatMulInt, params_of(p), operands, {2.0 * 12 * 128 * 128 * 64, 12.0 * 128 * (64 + 64 + 128 * 4)}};
      });
    }
}

}  // namespace quarry::kernel_test
