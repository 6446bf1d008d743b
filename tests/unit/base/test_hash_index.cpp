// SPDX-License-Identifier: Apache-2.0
#include "base/hash_index.h"

#include <map>
#include <random>
#include <string>

#include "tests/support/check.h"

using namespace quarry;

TEST_CASE("numbers are found under their hashes, however many share one") {
  std::mt19937_64 random(1);
  for (const std::uint64_t hashes : {1ull, 7ull, 1000ull, ~0ull}) {
    HashIndex index;
    std::vector<std::uint64_t> hash_of;
    CHECK_EQ(index.find(5, [](std::uint32_t) { return true; }), HashIndex::kNone);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      hash_of.push_back(random() % hashes);
      index.put(hash_of.back(), i);
    }
    for (std::uint32_t i = 0; i < 1000; ++i) {
      CHECK_EQ(index.find(hash_of[i], [&](std::uint32_t k) { return k == i; }), i);
      const std::uint32_t any = index.find(hash_of[i], [](std::uint32_t) { return true; });
      CHECK_EQ(hash_of[any], hash_of[i]);
    }
    CHECK_EQ(index.find(hash_of[0], [](std::uint32_t) { return false; }), HashIndex::kNone);
  }
}

TEST_CASE("a table of names does what a map does") {
  std::mt19937 random(2);
  std::vector<std::string> names(2000);
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = std::string(i % 40, 'n') + std::to_string(i % 1500);
  NameTable table;
  std::map<std::string, std::int32_t> expected;
  for (int turn = 0; turn < 20000; ++turn) {
    const std::string &name = names[random() % names.size()];
    const auto number = static_cast<std::int32_t>(random() % 100) - 50;
    if (turn % 2) {
      CHECK_EQ(table.emplace(name, number), expected.emplace(name, number).second);
    } else {
      table.set(name, number);
      expected[name] = number;
    }
    const std::string &asked = names[random() % names.size()];
    const std::int32_t *const found = table.find(asked);
    const auto known = expected.find(asked);
    CHECK_EQ(found != nullptr, known != expected.end());
    if (found && known != expected.end()) CHECK_EQ(*found, known->second);
  }
  CHECK(table.find("") == nullptr);
}
