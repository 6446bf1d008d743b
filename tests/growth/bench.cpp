// SPDX-License-Identifier: Apache-2.0
// Prints how long sessions of graphs take to make, and how that grows with them: bench-growth [BACKEND [FROM [TO]]].
// Ten shapes, from FROM (1000) nodes to TO (50000), doubling. A fifth argument names the one shape.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/growth/measure.h"
#include "tests/growth/shapes.h"

int main(int argc, char **argv) {
  using namespace quarry::test;
  const char *const backend = argc > 1 ? argv[1] : "cpu";
  const int from = argc > 2 ? std::atoi(argv[2]) : 1000, to = argc > 3 ? std::atoi(argv[3]) : 50000;
  std::printf("%-20s %7s %7s %10s %10s %9s %7s\n", "shape", "n", "nodes", "open ms", "create ms", "us a node",
              "factor");
  for (const GrowthShape &shape : kGrowthShapes) {
    if (argc > 4 && std::strcmp(argv[4], shape.name) != 0) continue;
    double before = 0;
    for (int n = from; n <= to; n = n < to && 2 * n > to ? to : 2 * n) {
      int nodes = 0;
      const std::string model = growth_model(shape, n, &nodes);
      double best = 1e9, open = 0;
      for (int i = 0; i < (n < 10000 ? 3 : 1); ++i) {
        const Creation took = create_session(model, backend);
        if (took.create < best) best = took.create, open = took.open;
      }
      std::printf("%-20s %7d %7d %10.2f %10.2f %9.2f", shape.name, n, nodes, 1e3 * open, 1e3 * best,
                  1e6 * best / nodes);
      if (before > 0) std::printf(" %7.2f", best / before);
      std::printf("\n");
      std::fflush(stdout);
      before = best;
      if (n == to) break;
    }
  }
}
