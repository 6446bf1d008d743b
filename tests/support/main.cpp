// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "tests/support/check.h"

namespace quarry::test {
namespace {
int g_failures = 0;
}

std::vector<Case> &cases() {
  static std::vector<Case> all;
  return all;
}

void fail(const char *file, int line, const std::string &what) {
  ++g_failures;
  std::printf("%s:%d: %s\n", file, line, what.c_str());
}

}  // namespace quarry::test

int main(int argc, char **argv) {
  using namespace quarry::test;
  int run = 0, failed = 0;
  for (const Case &test : cases()) {
    bool wanted = argc < 2;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::strstr(test.name, argv[i]);
    if (!wanted) continue;
    const int before = g_failures;
    test.body();
    ++run;
    if (g_failures != before) {
      ++failed;
      std::printf("FAILED %s\n", test.name);
    }
  }
  std::printf("%d tests, %d failed\n", run, failed);
  return failed != 0 || run == 0;
}
