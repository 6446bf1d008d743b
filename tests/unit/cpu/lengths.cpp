// SPDX-License-Identifier: Apache-2.0
// Numbers of plans that go along with the length of a state, and such as only seem to.
#include "backends/cpu/run/lengths.h"

#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::test;

namespace {

constexpr std::int64_t kLengths[] = {0, 1, 33, 64};

// A plan of one Copy, whose parameters begin with numbers of the test.
struct Tables {
  cpu::Value values[2];
  cpu::Step steps[1];
  cpu::Operand operands[2];
  alignas(8) std::uint8_t params[1024];
};

struct Plans {
  template <class Of>
  explicit Plans(Of &&of) {
    for (std::size_t i = 0; i < 4; ++i) {
      Tables &table = tables[i];
      std::memset(static_cast<void *>(&table), 0, sizeof table);
      table.values[0] = {cpu::StorageKind::Arena, 0, i * 64, 4096};
      table.values[1] = {cpu::StorageKind::Arena, 0, 0, 4096};
      table.steps[0] = {static_cast<std::uint32_t>(kernels::Kernel::Copy), 0, 0, 2, 0, 0, -1};
      table.operands[0].value = 0, table.operands[1].value = 1;
      of(table, kLengths[i]);
      loaded[i].values = table.values, loaded[i].steps = table.steps, loaded[i].operands = table.operands;
      loaded[i].params = table.params;
      samples[i].length = kLengths[i], samples[i].plan = &loaded[i];
      samples[i].blob = reinterpret_cast<std::uint8_t *>(&table);
    }
  }
  bool find() { return numbers.find(samples, 0); }
  Tables tables[4];
  cpu::LoadedPlan loaded[4];
  cpu::LengthSample samples[4];
  cpu::LengthNumbers numbers;
};

void put(Tables &table, std::int64_t number) { std::memcpy(table.params + 8, &number, sizeof number); }

}  // namespace

TEST_CASE("numbers that go along with the length are found and written") {
  Plans plans([](Tables &table, std::int64_t length) {
    put(table, -7 - 3 * length);
    table.operands[1].offset = static_cast<std::uint64_t>(128 + 16 * length);
  });
  REQUIRE(plans.find());
  (void)plans.numbers.write(10);  // (that the step is none of a real plan is said)
  std::int64_t number = 0;
  std::memcpy(&number, plans.tables[3].params + 8, sizeof number);
  CHECK_EQ(number, -37);
  CHECK_EQ(plans.tables[3].operands[1].offset, 288u);
}

namespace {

// A constant of three rows, which lies where a plan of its own has it.
struct Masks {
  template <class Of>
  explicit Masks(Of &&of)
      : plans([](Tables &table, std::int64_t length) {
          table.values[0] = {cpu::StorageKind::Constant, 0, 0, static_cast<std::uint64_t>(3 * (5 + length) * 4)};
        }) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::int64_t columns = 5 + kLengths[i];
      for (std::int64_t row = 0; row < 3; ++row)
        for (std::int64_t column = 0; column < columns; ++column) words[i].push_back(of(row, column, columns));
      constants[i] = {reinterpret_cast<const std::byte *>(words[i].data()), nullptr};
      plans.loaded[i].constants.assign(constants[i].begin(), constants[i].end());
      plans.samples[i].packed = {words[i].data(), words[i].size() * sizeof words[i][0]};
    }
  }
  std::vector<std::uint32_t> written(std::int64_t length) {
    (void)plans.numbers.write(length);
    return {words[3].begin(), words[3].begin() + 3 * (5 + length)};
  }
  Plans plans;
  std::vector<std::uint32_t> words[4];
  std::vector<const std::byte *> constants[4];
};

}  // namespace

TEST_CASE("rows that become longer are cut out of the longest: their ends, or their beginnings") {
  const auto causal = [](std::int64_t row, std::int64_t column, std::int64_t columns) {
    return static_cast<std::uint32_t>(column > columns - 3 + row ? 0xff800000u : 0u);
  };
  const auto begins = [](std::int64_t row, std::int64_t column, std::int64_t) {
    return static_cast<std::uint32_t>(1000 * row + column * column);
  };
  const auto all = [](auto &&of, std::int64_t length) {
    std::vector<std::uint32_t> made;
    for (std::int64_t row = 0; row < 3; ++row)
      for (std::int64_t column = 0; column < 5 + length; ++column) made.push_back(of(row, column, 5 + length));
    return made;
  };
  Masks ends(causal), starts(begins);
  REQUIRE(ends.plans.find());
  REQUIRE(starts.plans.find());
  for (const std::int64_t length : {64, 0, 17, 1, 63, 33, 0}) {
    CHECK(ends.written(length) == all(causal, length));
    CHECK(starts.written(length) == all(begins, length));
  }
  // Neither: the middle of a row, or what no longer row has.
  CHECK(!Masks([](std::int64_t, std::int64_t column, std::int64_t columns) {
           return static_cast<std::uint32_t>(column == columns / 2);
         }).plans.find());
  CHECK(!Masks([](std::int64_t, std::int64_t, std::int64_t columns) {
           return static_cast<std::uint32_t>(columns == 38);
         }).plans.find());
}

TEST_CASE("what does not go along with the length is no plan of many lengths") {
  const auto differs = [](auto &&of) { return !Plans(of).find(); };
  CHECK(!differs([](Tables &, std::int64_t) {}));
  // Sizes that are rounded up: from every place in a stair.
  for (std::int64_t stair = 2; stair <= 64; ++stair)
    for (std::int64_t begin = 0; begin < stair; ++begin)
      CHECK(differs([=](Tables &table, std::int64_t length) { put(table, (begin + length + stair - 1) / stair * 8); }));
  CHECK(differs([](Tables &table, std::int64_t length) { put(table, length * length); }));
  CHECK(differs([](Tables &table, std::int64_t length) { put(table, length > 40); }));
  CHECK(differs([](Tables &table, std::int64_t length) { put(table, length == 33); }));
  CHECK(differs([](Tables &table, std::int64_t length) { table.steps[0].kernel += length > 40; }));
  CHECK(differs([](Tables &table, std::int64_t length) { table.operands[0].value = length > 40; }));
  CHECK(
      differs([](Tables &table, std::int64_t length) { table.values[0].bytes -= static_cast<std::uint64_t>(length); }));
}
