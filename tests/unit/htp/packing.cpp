// SPDX-License-Identifier: Apache-2.0
// Contexts in sessions of the processor, by the example of the library's document.
#include "backends/htp/run/packing.h"

#include "tests/support/check.h"

using namespace quarry::htp;

TEST_CASE("the first session with room, as the document has it") {
  constexpr std::uint64_t kMega = std::uint64_t{1} << 20, kGiga = kMega << 10;
  const std::uint64_t sizes[] = {kGiga * 3 / 2, kGiga * 3 / 2, kGiga, kGiga, 250 * kMega};
  const std::size_t sessions[] = {0, 0, 1, 1, 0};
  Packing packing;
  for (std::size_t i = 0; i < std::size(sizes); ++i) CHECK_EQ(packing.enter(sizes[i]), sessions[i]);
  CHECK_EQ(packing.used(0), 3 * kGiga + 250 * kMega);
  CHECK_EQ(packing.used(1), 2 * kGiga);
  CHECK_EQ(packing.used(2), 0u);
  packing.leave(0, sizes[0]);
  CHECK_EQ(packing.enter(kGiga), 0u);          // where one has left
  CHECK_EQ(packing.enter(kSessionBytes), 2u);  // exactly a whole one
  CHECK_EQ(packing.enter(1), 0u);
  CHECK_EQ(packing.enter(kSessionBytes + 1), 3u);  // what no session has room for is alone
  CHECK_EQ(packing.enter(kSessionBytes), 4u);
  packing.leave(3, kSessionBytes + 1);
  CHECK_EQ(packing.enter(kSessionBytes), 3u);
}
