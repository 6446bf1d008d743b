// SPDX-License-Identifier: Apache-2.0
// One plan for many lengths of a state. The plans of lengths that are near each other have the same steps; what differs
// are numbers (dimensions, strides, offsets) that go along with the length. They are found by comparing plans of some
// lengths, and written into the longest one for each other length. Called by dynamic_region.cpp.
#pragma once

#include "backends/cpu/program/blob.h"

namespace quarry::cpu {

// What a plan gives of an output that is appended to.
struct AppendedShape {
  std::uint32_t output, axis;
  std::int64_t entries;
  std::uint64_t bytes;
};

// A plan as it is compared and, if it is the longest one, written to.
struct LengthSample {
  std::int64_t length = 0;
  LoadedPlan *plan = nullptr;
  std::uint8_t *blob = nullptr;
  qir::Bytes packed, subgraph_constants;
  AppendedShape *appended = nullptr;
};

class LengthNumbers {
 public:
  // Of plans in the order of their lengths: 0, 1 and others. That the first two are neighbours is what shows a number
  // that goes up in stairs (sizes that are rounded up): between neighbours it stays or goes up by a whole step, and
  // neither leads to what the longest plan has. False: they differ in something else.
  bool find(std::span<const LengthSample> samples, std::size_t appended);
  // Into the longest plan. Its steps are asked again whether they stay inside their operands.
  Status write(std::int64_t length);

 private:
  struct Number {
    std::uint8_t *at;
    std::uint32_t first, each;
  };
  // A constant whose rows become longer (a mask of several tokens): those of each length are the ends of the longest
  // ones, or their beginnings.
  struct Rows {
    std::uint8_t *at;
    Vector<std::uint8_t> longest;
    std::size_t count, row, first, each;  // bytes of a row: of the longest, of the first length, more with each
    bool ends;
    const std::uint8_t *begin(std::size_t i, std::size_t bytes) const {
      return longest.data() + i * row + (ends ? row - bytes : 0);
    }
    bool match(const std::uint8_t *others, std::size_t bytes) const;  // rows of so many bytes
  };
  static constexpr std::size_t kMostSamples = 4;
  using Places = const void *[kMostSamples];  // the same in each plan; that of the longest is written to
  bool words(const Places &places, std::size_t bytes);
  bool field(const void *in_longest, std::size_t bytes);
  bool alike() const;
  bool find_values();
  bool find_constant(std::size_t value);
  bool find_rows(std::size_t value, const Places &places);
  bool find_steps();
  bool find_shapes(std::size_t appended);

  std::span<const LengthSample> samples_;  // while they are compared
  LoadedPlan *plan_ = nullptr;             // the longest
  Vector<Number> numbers_;
  Vector<Rows> rows_;
  Vector<std::uint32_t> steps_;  // that changed
};

}  // namespace quarry::cpu
