// SPDX-License-Identifier: Apache-2.0
// What the frame is asked to do in tests/support/meson.build: one case passes, the other fails.
#include "tests/support/check.h"

namespace quarry {
namespace {

TEST_CASE("passes") {
  CHECK_OK(Status());
  CHECK_EQ(String("a"), std::string("a"));
  CHECK_EQ(test::outcome(Status::error(ErrorId::unknown_option, "what")), "QR-C0101 what");
}

TEST_CASE("fails") { CHECK_OK(Status::error(ErrorId::unknown_option, "what")); }

}  // namespace
}  // namespace quarry
