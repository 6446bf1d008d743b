// SPDX-License-Identifier: Apache-2.0
// Nothing takes the square of nodes, inputs, outputs or readers: four times the graph takes about four times as long to
// make a session of. The bound lies between that and sixteen, processor time is measured and the best of some tries
// counts, so that a slow or busy machine fails nothing.
#include <algorithm>
#include <cstdlib>

#include "tests/growth/measure.h"
#include "tests/growth/shapes.h"
#include "tests/support/check.h"

using namespace quarry::test;

namespace {

constexpr int kNodes = 3000, kTries = 5;
constexpr double kMostGrowth = 8;

void check_growth(const char *backend) {
  for (const GrowthShape &shape : kGrowthShapes) {
    const std::string small = growth_model(shape, kNodes), large = growth_model(shape, 4 * kNodes);
    double growth = 1e9;
    for (int i = 0; i < kTries && growth > kMostGrowth; ++i)
      growth = std::min(growth, create_session(large, backend).create / create_session(small, backend).create);
    INFO(std::string(shape.name));
    CHECK_LE(growth, kMostGrowth);
  }
}

}  // namespace

TEST_CASE("cpu: sessions of large graphs") { check_growth("cpu"); }
TEST_CASE("cpu-reference: sessions of large graphs") { check_growth("cpu-reference"); }
