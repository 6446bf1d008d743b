// SPDX-License-Identifier: Apache-2.0
// Running sums: exact.
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

template <class T>
void cumulate(const Isa &isa, DType dtype, Random &random) {
  for (const std::int64_t inner : {1, 5, 600})
    for (std::uint32_t flags = 0; flags < 8; ++flags) {
      Cumulate p;
      p.outer = 3, p.n = 21, p.inner = inner, p.dtype = static_cast<std::uint32_t>(dtype);
      p.product = flags & 1, p.exclusive = flags >> 1 & 1, p.backwards = flags >> 2;
      std::vector<T> x(size(p.outer * p.n * p.inner));
      for (T &v : x) v = static_cast<T>(random.integer(1, 3));  // exact in every type
      qir::Node node = node_of(p.product ? Op::CumProd : Op::CumSum, 2, 1);
      node.set("exclusive", std::int64_t{p.exclusive}), node.set("reverse", std::int64_t{p.backwards});
      const auto expected = reference(node, {{dtype, {p.outer, p.n, p.inner}, bytes_of(x), {}},
                                             {DType::I64, {}, bytes_of(std::vector<std::int64_t>{1}), {}}});
      if (run(isa, Kernel::Cumulate, &p, {{bytes_of(x)}, out(x.size() * sizeof(T))})[0] != expected[0].data)
        throw std::runtime_error(std::string("running sums of ") + dtype_name(dtype) + ": not the reference's");
    }
}
void test_cumulate(const Isa &isa) {
  Random random(13);
  cumulate<float>(isa, DType::F32, random), cumulate<double>(isa, DType::F64, random);
  cumulate<std::int32_t>(isa, DType::I32, random), cumulate<std::uint64_t>(isa, DType::U64, random);
  Cumulate p;
  p.dtype = static_cast<std::uint32_t>(DType::F32);
  refuse(isa, Kernel::Cumulate, p, "halves", [](auto &q) { q.dtype = static_cast<std::uint32_t>(DType::F16); });
  refuse(isa, Kernel::Cumulate, p, "a flag of 2", [](auto &q) { q.product = 2; });
  refuse(isa, Kernel::Cumulate, p, "negative dimensions", [](auto &q) { q.n = -1; });
}

}  // namespace

void register_cumulate(Registry &registry) { registry.test("running sums", test_cumulate); }

}  // namespace quarry::kernel_test
