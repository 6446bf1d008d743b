// SPDX-License-Identifier: Apache-2.0
// Plans of random graphs give what cpu-reference gives. The seed of a graph that does not stands in the message, with
// its listing.
#include <cstdlib>

#include "tests/unit/cpu/random_graph.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// QUARRY_TEST_SEEDS: more graphs, for a longer search.
std::uint64_t seeds(std::uint64_t usual) {
  const char *given = std::getenv("QUARRY_TEST_SEEDS");
  return given ? std::strtoull(given, nullptr, 10) : usual;
}

}  // namespace

TEST_CASE("random graphs of reals") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= seeds(500) && wrong < 5; ++seed) {
    const RandomGraph graph(seed, DType::F32);
    Random random(seed);
    wrong += !same_results(PlanCase(graph.graph(), seed % 4 != 0), format("seed %d", static_cast<int>(seed)).c_str(),
                           random, 1e-4f);
  }
}

TEST_CASE("random graphs of float16") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= seeds(120) && wrong < 5; ++seed) {
    const RandomGraph graph(seed, DType::F16);
    Random random(seed);
    wrong += !same_results(PlanCase(graph.graph()), format("seed %d", static_cast<int>(seed)).c_str(), random, 2e-3f);
  }
}

TEST_CASE("random quantized graphs") {
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= seeds(500) && wrong < 5; ++seed) {
    const RandomQuantizedGraph graph(seed);
    Random random(seed);
    wrong += !same_results(PlanCase(graph.graph()), format("seed %d", static_cast<int>(seed)).c_str(), random, 1e-4f,
                           std::max(graph.depth(), 1));
  }
}
