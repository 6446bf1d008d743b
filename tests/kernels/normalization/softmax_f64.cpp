// SPDX-License-Identifier: Apache-2.0
// Softmax of f64: 1e-14 of a value; its logarithm: 1e-14 of a value, and 1e-14; Hardmax is exact.
#include "tests/kernels/wide_numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_rows_f64(const Isa &isa) {
  Random random(22);
  struct Shape {
    std::int64_t outer, n, inner;
  };
  for (const Shape s : {Shape{1, 1, 1},
                        {3, 5, 1},
                        {2, 8, 1},
                        {7, 33, 1},
                        {4, 1000, 1},
                        {2, 5, 3},
                        {3, 21, 16},
                        {2, 70, 37},
                        {0, 4, 1},
                        {4, 0, 1}})
    for (const bool special : {false, true}) {
      const Dims shape = {s.outer, s.n, s.inner};
      std::vector<double> x(product(shape));
      for (double &v : x) v = static_cast<double>(random.real(-20, 20));
      for (double &v : x)
        if (random.integer(0, 9) == 0) v = 19;  // equal ones
      if (special && x.size() > 8)
        x[1] = kDoubleNan, x[x.size() / 2] = kDoubleInf, x[x.size() - 1] = -kDoubleInf, x[x.size() / 3] = kDoubleNan;
      std::vector<float> narrow(x.begin(), x.end());
      for (const Op op : {Op::Softmax, Op::LogSoftmax, Op::Hardmax})
        for (const DType dtype : {DType::F64, DType::F32}) {
          if (op != Op::Hardmax && dtype == DType::F32) continue;
          const Bytes data = dtype == DType::F64 ? bytes_of(x) : bytes_of(narrow);
          const SoftmaxF64 soft{s.outer, s.n, s.inner, op == Op::LogSoftmax, 0};
          const Hardmax hard{s.outer, s.n, s.inner, static_cast<std::uint32_t>(dtype), 0};
          const Bytes found = op == Op::Hardmax ? run(isa, Kernel::Hardmax, &hard, {{data}, out(data.size())})[0]
                                                : run(isa, Kernel::SoftmaxF64, &soft, {{data}, out(data.size())})[0];
          if (data.empty()) continue;
          qir::Node node = node_of(op, 1);
          node.set("axis", std::int64_t{1});
          const Bytes expected = reference(node, {tensor_as(dtype, shape, data)})[0].data;
          if (op != Op::Hardmax) expect_near("softmax", found, expected, 1e-14, op == Op::LogSoftmax ? 1e-14 : 1e-300);
          else if (found != expected) throw std::runtime_error("hardmax: another place");
        }
    }
  refuse(isa, Kernel::SoftmaxF64, SoftmaxF64{}, "a negative dimension", [](auto &q) { q.n = -1; });
  refuse(isa, Kernel::SoftmaxF64, SoftmaxF64{}, "a flag of 2", [](auto &q) { q.log = 2; });
  refuse(isa, Kernel::Hardmax, Hardmax{}, "integers",
         [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::I32); });
  refuse(isa, Kernel::Hardmax, Hardmax{}, "a line of 2^40", [](auto &q) { q.n = std::int64_t{1} << 40, q.dtype = 1; });
}

}  // namespace

void register_softmax_f64(Registry &registry) { registry.test("SoftmaxF64, Hardmax", test_rows_f64); }

}  // namespace quarry::kernel_test
