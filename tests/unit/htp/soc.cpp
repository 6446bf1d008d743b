// SPDX-License-Identifier: Apache-2.0
// What is compiled for: names, numbers, and which option counts.
#include "backends/htp/soc/soc.h"

#include <set>

#include "tests/support/check.h"

using namespace quarry;
using htp::choose_target;

namespace {

std::uint32_t number_of(std::string_view soc, std::string_view arch) {
  const auto target = choose_target(soc, arch);
  return target.ok() ? target.value().soc->number : 0;
}

}  // namespace

TEST_CASE("every SoC is found by its name and by its number") {
  std::set<std::uint32_t> numbers;
  for (const htp::Soc &soc : htp::all_socs()) {
    CHECK(numbers.insert(soc.number).second);
    CHECK_EQ(htp::find_soc(soc.number), &soc);
    CHECK_EQ(number_of(std::to_string(soc.number), "0"), soc.number);
    if (*soc.name) CHECK_EQ(number_of(soc.name, "0"), soc.number);
    CHECK((soc.arch >= 68 && soc.arch <= 85));
  }
  CHECK_EQ(number_of("sm8650", "0"), 57u);  // as people write it
}

TEST_CASE("what a SoC has is said") {
  CHECK_EQ(htp::soc_facts(*htp::find_soc(57)), "8 MB of VTCM, f16");
  CHECK_EQ(htp::soc_facts(*htp::find_soc(88)), "8 MB of VTCM, f16 and bf16");
  CHECK_EQ(htp::soc_facts(*htp::find_soc(61)), "2 MB of VTCM, no floating point: quantised models alone");
}

TEST_CASE("numbers for which the library prepares something that is no such NPU are refused") {
  for (const char *const wrong : {"1", "14", "29", "40", "56", "122", "9999", "SM9999", "SM865", "57x", "-57", "v73"}) {
    const auto target = choose_target(wrong, "0");
    CHECK_FALSE(target.ok());
    CHECK_NE(target.status().message().find(wrong), std::string_view::npos);
  }
}

TEST_CASE("the SoC counts before the architecture, which counts alone") {
  CHECK_EQ(number_of("0", "0"), 30u);
  CHECK_EQ(number_of("0", "75"), 57u);
  CHECK_EQ(number_of("", "81"), 87u);
  CHECK_EQ(number_of("0", "70"), 0u);
  const auto both = choose_target("SM8550", "79");
  REQUIRE(both.ok());
  CHECK_EQ(both.value().soc->number, 43u);
  CHECK_EQ(both.value().notice, "htp_arch=79 is not that of SM8550 (43, v73), which soc_model names and which counts");
  CHECK(choose_target("SM8550", "73").value().notice.empty());
}
