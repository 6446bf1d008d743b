// SPDX-License-Identifier: Apache-2.0
// The main function of test programs in C++. Options are doctest's (--help lists them); a bare word is short for
// --test-case=*WORD*. A run in which no test case ran fails: a filter that fits nothing must not look like success.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // a crash is reported by the sanitizer or the shell, not swallowed
#include <cstdio>

#include "tests/support/check.h"

namespace {

unsigned g_ran = 0;

struct CountCases final : doctest::IReporter {
  explicit CountCases(const doctest::ContextOptions &) {}
  void report_query(const doctest::QueryData &) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats &run) override { g_ran = run.numTestCasesPassingFilters; }
  void test_case_start(const doctest::TestCaseData &) override {}
  void test_case_reenter(const doctest::TestCaseData &) override {}
  void test_case_end(const doctest::CurrentTestCaseStats &) override {}
  void test_case_exception(const doctest::TestCaseException &) override {}
  void subcase_start(const doctest::SubcaseSignature &) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData &) override {}
  void log_message(const doctest::MessageData &) override {}
  void test_case_skipped(const doctest::TestCaseData &) override {}
};
DOCTEST_REGISTER_LISTENER("count", 1, CountCases);

}  // namespace

int main(int argc, char **argv) {
  doctest::Context context(argc, argv);
  for (int i = 1; i < argc; ++i)
    if (argv[i][0] != '-') context.addFilter("test-case", ("*" + std::string(argv[i]) + "*").c_str());
  const int status = context.run();
  if (context.shouldExit()) return status;  // --help, --list-test-cases: nothing was to run
  if (g_ran == 0) std::fputs("no test case ran: none fits the filter, or the program has none\n", stderr);
  return g_ran == 0 ? 1 : status;
}
