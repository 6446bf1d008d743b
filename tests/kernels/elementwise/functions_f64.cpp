// SPDX-License-Identifier: Apache-2.0
// Functions of f64. Bounds (rtol, atol): 2e-15, 1e-300; tan 1e-14 of the magnitudes that it is made of.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/shapes/elements_shape.h"
#include "tests/kernels/functions.h"
#include "tests/kernels/wide_numbers.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

void test_unary_f64(const Isa &isa) {
  Random random(21);
  for (const KernelFunction &f : kKernelFunctions) {
    if (f.act == Act::None || f.act == Act::Clip || !takes_f64(f.act)) continue;
    for (const std::size_t count : {1, 3, 8, 21, 1000, 5000})
      for (const float range : {0.01f, 3.0f, 800.0f, 1e30f}) {
        const Bytes x = bytes_of(doubles(random, count, range));
        const UnaryF64 p{static_cast<std::int64_t>(count), f.act, 0, static_cast<double>(f.a),
                         static_cast<double>(f.b)};
        qir::Node node = node_of(f.op, 1);
        f.set(node);
        const Bytes found = run(isa, Kernel::UnaryF64, &p, {{x}, out(count * 8)})[0];
        const Bytes expected = reference(node, {tensor_as(DType::F64, {static_cast<std::int64_t>(count)}, x)})[0].data;
        const bool exact = f.act >= Act::Sqrt;
        // (The reference's own HardSigmoid, softplus and what is made of it round more than once.)
        const double loose = f.act == Act::Mish || f.act == Act::Softplus || f.act == Act::HardSigmoid ? 4e-15 : 2e-15;
        expect_near("f64 activation " + std::to_string(static_cast<int>(f.act)), found, expected, exact ? 0 : loose,
                    exact                                                  ? 0
                    : f.act == Act::HardSigmoid || f.act == Act::HardSwish ? 1e-15
                                                                           : 1e-300);
        if (f.act >= Act::Floor)  // signs of zeros too
          for (std::size_t i = 0; i < count; ++i)
            if (std::signbit(values_of<double>(found)[i]) != std::signbit(values_of<double>(expected)[i]))
              throw std::runtime_error("f64: another sign");
      }
  }
  // Bounds are any doubles.
  const std::vector<double> x = doubles(random, 333, 2);
  std::vector<double> expected = x;
  for (double &v : expected) v = v < -0.1 ? -0.1 : v > 1e-9 ? 1e-9 : v;
  UnaryF64 p{333, Act::Clip, 0, -0.1, 1e-9};
  expect_near("f64 clip", run(isa, Kernel::UnaryF64, &p, {{bytes_of(x)}, out(333 * 8)})[0], bytes_of(expected), 0, 0);
  refuse(isa, Kernel::UnaryF64, p, "a negative count", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::UnaryF64, p, "Gelu", [](auto &q) { q.kind = Act::Gelu; });
  refuse(isa, Kernel::UnaryF64, p, "an unknown activation", [](auto &q) { q.kind = static_cast<Act>(77); });
  refuse(isa, Kernel::UnaryF64, p, "a reserved field", [](auto &q) { q.reserved = 1; });
}

}  // namespace

void register_functions_f64(Registry &registry) { registry.test("UnaryF64", test_unary_f64); }

}  // namespace quarry::kernel_test
