// SPDX-License-Identifier: Apache-2.0
// How far functions of one f32 lie beside the function, in units in the last place of the true value, over numbers of
// every magnitude: each 4,001st float, or others (QUARRY_ULP_STEP and QUARRY_ULP_FROM in the environment; a step of 1
// is two hours).
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/cases/cases.h"
#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;

namespace {

using Real = long double;
constexpr Real kPi = 3.1415926535897932385L;

struct Function : FunctionCase {
  const char *way = nullptr;  // Gelu's `approximate`
  float alpha = -1;
};
Vector<Function> functions() {
  Vector<Function> all = {
      {{Op::Gelu, -5, 5,
        [](Real x) { return x / 2 * (1 + std::tanh(std::sqrt(2 / kPi) * (x + 0.044715L * x * x * x))); }, 6, 2e-7},
       "tanh"},
      {{Op::Celu, -3, 3, [](Real x) { return x < 0 ? 2 * std::expm1(x / 2) : x; }, 3, 0}, nullptr, 2}};
  for (const FunctionCase &one : kFunctionCases) all.push_back({one});
  return all;
}

// Units in the last place between them; infinity where one is no number or no finite one and the other is.
double ulps_between(float found, Real wanted) {
  if (std::isnan(wanted)) return std::isnan(found) ? 0 : std::numeric_limits<double>::infinity();
  const auto rounded = static_cast<float>(wanted);
  if (std::isinf(rounded) || std::isinf(found)) {
    // A value within a unit of the greatest may become either.
    const Real edge = std::fabs(wanted) / static_cast<Real>(std::numeric_limits<float>::max());
    if (found == rounded) return 0;
    return std::isinf(wanted) || edge < 0.999999L || edge > 1.000001L ? std::numeric_limits<double>::infinity() : 1;
  }
  int exponent = 0;
  (void)std::frexp(wanted, &exponent);
  const Real unit = std::ldexp(Real{1}, std::max(exponent, -125) - 24);
  return static_cast<double>(std::fabs(static_cast<Real>(found) - wanted) / unit);
}

}  // namespace

TEST_CASE("functions lie within units of the last place") {
  const auto number = [](const char *name, std::uint64_t otherwise) {
    const char *const given = std::getenv(name);
    return given ? std::strtoull(given, nullptr, 10) : otherwise;
  };
  const std::uint64_t step = number("QUARRY_ULP_STEP", 4001), first = number("QUARRY_ULP_FROM", 0);
  REQUIRE_GT(step, 0u);
  constexpr std::uint64_t kBlock = 1 << 20;
  // Those beside the multiples of pi / 2, where waves have next to nothing left of their operand; and those of which a
  // little more than a power of two is left, with a sine a little below it, whose unit is half as large.
  Vector<float> beside;
  for (int n = 1; n < 6000; ++n) {
    const auto nearest = static_cast<float>(n * kPi / 2);
    for (const float x : {std::nextafter(nearest, 0.0f), nearest, std::nextafter(nearest, 1e9f)}) {
      beside.push_back(x);
      beside.push_back(-x);
    }
    for (const double left : {0.06252, 0.12516, 0.2513})
      for (const double sign : {-1.0, 1.0})
        beside.push_back(static_cast<float>(n * static_cast<double>(kPi) / 2 + sign * left));
  }
  for (const Function &f : functions()) {
    double worst = 0;
    float worst_at = 0, worst_found = 0;
    const auto measure = [&](const Vector<float> &x) {
      Builder b;
      const std::int32_t in = b.tensor(DType::F32, {}), out = b.tensor(DType::F32, {});
      for (const std::int32_t id : {in, out})
        b.graph.tensors[index_of(id)].shape = {static_cast<std::int64_t>(x.size())};
      qir::Node &node = b.node(f.op, {in}, {out});
      if (f.way) node.set("approximate", std::string_view(f.way));
      if (f.alpha >= 0) node.set("alpha", f.alpha);
      b.graph.inputs = {in}, b.graph.outputs = {out};
      const PlanCase sample(b.graph);
      REQUIRE(sample.ok());
      CHECK_EQ(sample.reference_steps(), 0);
      const auto *const bytes = reinterpret_cast<const std::uint8_t *>(x.data());
      Data found;
      REQUIRE_OK(sample.run({Vector<std::uint8_t>(bytes, bytes + x.size() * 4)}, found));
      const auto *const y = reinterpret_cast<const float *>(found[0].data());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const Real wanted = f.formula(static_cast<Real>(x[i]));
        const double off = ulps_between(y[i], wanted);
        if (off <= worst || std::fabs(static_cast<Real>(y[i]) - wanted) <= static_cast<Real>(f.absolute)) continue;
        worst = off, worst_at = x[i], worst_found = y[i];
      }
    };
    measure(beside);
    for (std::uint64_t from = first; from < std::uint64_t{1} << 32; from += step * kBlock) {
      Vector<float> x;
      for (std::uint64_t bits = from; bits < std::uint64_t{1} << 32 && x.size() < kBlock; bits += step) {
        const auto pattern = static_cast<std::uint32_t>(bits);
        float value;
        std::memcpy(&value, &pattern, 4);
        x.push_back(value);
      }
      measure(x);
    }
    if (std::getenv("QUARRY_ULP_PRINT"))
      std::printf("%-12s %-5s %8.3f ulp at %.9g\n", qir::op_name(f.op), f.way ? f.way : "", worst,
                  static_cast<double>(worst_at));
    CHECK_MESSAGE(worst <= f.ulps, qir::op_name(f.op), ": ", worst, " ulp at ", worst_at, ": found ", worst_found,
                  ", expected ", static_cast<double>(f.formula(static_cast<Real>(worst_at))));
  }
}
