// SPDX-License-Identifier: Apache-2.0
// Random numbers: those of cpu-reference. Even ones are the same bits; of normal ones a few may be rounded otherwise,
// because logarithm and cosine are others.
#include <cmath>
#include <stdexcept>

#include "tests/kernels/operands.h"

namespace quarry::kernel_test {

namespace {

using qir::Op;

std::vector<float> found_of(const Isa &isa, const RandomF32 &p) {
  return values_of<float>(run(isa, Kernel::RandomF32, &p, {out(static_cast<std::size_t>(p.count) * 4)})[0]);
}

void test_random(const Isa &isa) {
  for (const std::int64_t count : {1, 7, 155, 156, 157, 311, 313, 1000, 40000})
    for (const std::uint32_t seed : {0u, 1u, 4294967040u})
      for (const bool normal : {false, true}) {
        const RandomF32 p{count, normal ? 0.25 : -3.0, normal ? 1.5 : 8.0, seed, normal};
        qir::Node node = node_of(normal ? Op::RandomNormal : Op::RandomUniform, 0);
        node.set("shape", Vector<std::int64_t>{count}), node.set("seed", static_cast<float>(seed));
        node.set("dtype", std::int64_t{1});
        node.set(normal ? "mean" : "low", static_cast<float>(p.offset));
        node.set(normal ? "scale" : "high", normal ? 1.5f : 5.0f);
        const auto found = found_of(isa, p), expected = reference_values(node, {});
        expect_close("random", found, expected, normal ? 1.3e-7f : 0, 0);
        std::size_t other = 0;
        for (std::size_t i = 0; i < found.size(); ++i) other += found[i] != expected[i];
        if (other > found.size() / 10000) throw std::runtime_error("random: too many numbers are rounded otherwise");
      }
  // numpy.random.RandomState(5).random_sample(3)
  const auto known = found_of(isa, {3, 0, 1, 5, 0});
  const float numpy[] = {0.22199317f, 0.87073231f, 0.20671916f};
  for (std::size_t i = 0; i < 3; ++i)
    if (std::fabs(known[i] - numpy[i]) > 1e-7f) throw std::runtime_error("random: not numpy's numbers");
  const RandomF32 p{4, 0, 1, 0, 0};
  refuse(isa, Kernel::RandomF32, p, "fewer than no numbers", [](auto &q) { q.count = -1; });
  refuse(isa, Kernel::RandomF32, p, "a kind of 2", [](auto &q) { q.normal = 2; });
}

}  // namespace

void register_random(Registry &registry) {
  registry.test("RandomF32", test_random);
  for (const bool normal : {false, true})
    registry.bench(std::string("RandomF32 ") + (normal ? "normal" : "even"), [normal](const Isa &) {
      const RandomF32 p{38400, 0, 1, 0, normal};
      return Registry::Prepared{Kernel::RandomF32, params_of(p), {out(38400 * 4)}, {0, 38400 * 4}};
    });
}

}  // namespace quarry::kernel_test
