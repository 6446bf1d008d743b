// SPDX-License-Identifier: Apache-2.0
// What is said of the library's errors, and of what stands where the library should.
#include "backends/htp/qnn/library.h"

#include <cstdarg>

#include "backends/htp/qnn/log.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

void say(const char *pattern, std::uint32_t level, ...) {
  va_list arguments;
  va_start(arguments, level);
  qnn::write_log(pattern, level, 0, arguments);
  va_end(arguments);
}

}  // namespace

TEST_CASE("a failed call is reported with the error's name and what the library said") {
  qnn::LogLines outer;
  {
    qnn::LogLines lines;
    say("  Tensor %d is wrong\n", 1, 7);
    say("Tensor %d is wrong", 1, 7);  // once is enough
    say("unexpected GraphHtpSettings option 66", 1);
    say("chatter", 4);
    const Status status = qnn::call_failed("graphExecute", (std::uint64_t{5} << 16) | 6004, &lines);
    CHECK_EQ(status.id(), "QR-B0009");
    CHECK_EQ(status.message(),
             "graphExecute: error 6004 GraphTensor: a tensor of the graph was not accepted; the library says: Tensor 7 "
             "is wrong");
  }
  CHECK(outer.text().empty());
  CHECK_EQ(qnn::call_failed("x", 4242, nullptr).message(), "x: error 4242, which is not known");
}

TEST_CASE("a place without the library") {
  qnn::LibraryPlaces places;
  places.option = "/nowhere";
  places.environment = "/";  // not looked at: the option names the place
  const auto opened = qnn::Library::open(places);
  REQUIRE_FALSE(opened.ok());
  CHECK_EQ(opened.status().id(), "QR-B0008");
  CHECK_NE(opened.status().message().find("/nowhere"), std::string_view::npos);
}
