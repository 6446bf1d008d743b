// SPDX-License-Identifier: Apache-2.0
// Blobs cut short and with bytes changed: a clear error, or a run that stays inside its memory (pages that nobody may
// read, and the address sanitizer, see to that); never more than the header's figures say.
#include <algorithm>

#include "base/checked.h"

#include "tests/unit/cpu/random_graph.h"
#include "tests/unit/cpu/dynamic_graphs.h"

using namespace quarry;
using namespace quarry::test;

namespace {

// Loads and, where that works, runs with inputs and outputs of the sizes that the blob itself declares, as the host
// does. False: an error, which must be one of a bad blob.
bool use(const qir::Bytes &blob, std::span<const qir::Bytes> segments) {
  auto loaded = cpu::read_blob(blob, segments);
  if (!loaded.ok()) {
    const Status &status = loaded.status();
    if (status.id().substr(0, 4) != "QR-B" && status.id().substr(0, 4) != "QR-G")
      FAIL_CHECK("unlike an error of a blob: ", outcome(status));
    return false;
  }
  const cpu::LoadedPlan &plan = **loaded;
  constexpr std::uint64_t kMost = 1 << 22;
  if (plan.arena_bytes > kMost || plan.scratch_bytes > kMost || plan.shared_bytes > kMost)
    return true;  // an honest 'no memory', tested with failing allocations
  cpu::Execution execution(plan);
  Request made(plan, 2);
  Vector<Guarded> memory;
  Random random(1);
  const auto give = [&](const Vector<cpu::Io> &list, Vector<qr_io_buffer> &buffers) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      qir::Shape shape = list[i].shape;
      for (std::int64_t &extent : shape) extent = std::max<std::int64_t>(extent, 1);  // unknown: any
      const auto count = element_count(shape.data(), shape.size());
      const auto bytes = count ? packed_size(list[i].dtype, *count) : std::nullopt;
      if (!bytes || *bytes > kMost) return false;
      memory.emplace_back(*bytes);
      for (std::uint64_t b = 0; b < *bytes; ++b)
        memory.back().data()[b] = static_cast<std::uint8_t>(random.integer(0, 255));
      buffers[i].data = memory.back().data(), buffers[i].size_bytes = *bytes;
      buffers[i].rank = static_cast<std::uint32_t>(shape.size());
      std::copy(shape.begin(), shape.end(), buffers[i].dims);
    }
    return true;
  };
  if (!give(plan.inputs, made.inputs) || !give(plan.outputs, made.outputs)) return true;
  (void)execution.run(made.request, test_host());  // an error of the run (an index out of range) is as good
  return true;
}

struct Sample {
  explicit Sample(const qir::Graph &graph)
      : plan(graph),
        bytes(static_cast<const std::uint8_t *>(plan.blob().data),
              static_cast<const std::uint8_t *>(plan.blob().data) + plan.blob().size) {}
  PlanCase plan;
  Vector<std::uint8_t> bytes;
};

}  // namespace

TEST_CASE("blobs cut short") {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Sample sample(seed % 2 ? RandomGraph(seed, DType::F32).graph() : RandomQuantizedGraph(seed).graph());
    REQUIRE(sample.plan.ok());
    for (std::size_t length = 0; length < sample.bytes.size(); ++length) {
      Guarded part(length);
      if (length > 0) std::memcpy(part.data(), sample.bytes.data(), length);
      REQUIRE(!use(part.bytes(), sample.plan.segments()));
    }
    // Segments that are missing, or shorter than what points into them.
    Vector<qir::Bytes> fewer(sample.plan.segments().begin(), sample.plan.segments().end());
    for (qir::Bytes &segment : fewer) {
      const qir::Bytes whole = segment;
      segment.size /= 2;
      use(sample.plan.blob(), fewer);
      segment = whole;
    }
    while (!fewer.empty()) fewer.pop_back(), use(sample.plan.blob(), fewer);
  }
}

TEST_CASE("blobs with bytes changed") {
  int loaded = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Sample sample(seed % 2 ? RandomGraph(seed, DType::F32).graph() : RandomQuantizedGraph(seed).graph());
    REQUIRE(sample.plan.ok());
    Random random(seed);
    Guarded changed(sample.bytes.size());
    for (int round = 0; round < 300; ++round) {
      std::memcpy(changed.data(), sample.bytes.data(), sample.bytes.size());
      for (std::int64_t flips = random.integer(1, 3); flips > 0; --flips) {
        const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(sample.bytes.size()) - 1));
        // Small numbers, sign bits, anything.
        changed.data()[at] =
            static_cast<std::uint8_t>(random.chance(50)   ? changed.data()[at] ^ (1 << random.integer(0, 7))
                                      : random.chance(50) ? random.integer(0, 4)
                                                          : random.integer(0, 255));
      }
      ++(use(changed.bytes(), sample.plan.segments()) ? loaded : refused);
    }
  }
  CHECK((loaded > 1000 && refused > 1000));
}

TEST_CASE("dynamic regions with bytes changed, or cut short") {
  int loaded = 0, refused = 0;
  for (const bool detector : {true, false}) {
    const Sample sample(detector ? Detector().graph : ChosenRows(true).graph);
    REQUIRE(sample.plan.ok());
    for (std::size_t length = 0; length < sample.bytes.size(); length += 64) {
      Guarded part(length);
      if (length > 0) std::memcpy(part.data(), sample.bytes.data(), length);
      REQUIRE(!use(part.bytes(), sample.plan.segments()));
    }
    Random random(3);
    Guarded changed(sample.bytes.size());
    const auto size = static_cast<std::int64_t>(sample.bytes.size());
    for (int round = 0; round < 3000; ++round) {
      std::memcpy(changed.data(), sample.bytes.data(), sample.bytes.size());
      // The dynamic region's tables are at the end, the header and values at the beginning.
      const auto at = static_cast<std::size_t>(random.chance(50)   ? random.integer(0, 2047)
                                               : random.chance(50) ? random.integer(size * 2 / 3, size - 1)
                                                                   : random.integer(0, size - 1));
      changed.data()[at] = static_cast<std::uint8_t>(
          random.chance(50) ? changed.data()[at] ^ (1 << random.integer(0, 7)) : random.integer(0, 255));
      ++(use(changed.bytes(), sample.plan.segments()) ? loaded : refused);
    }
  }
  CHECK((loaded > 500 && refused > 500));
}

// What the tables cannot say but the rules can.
TEST_CASE("blobs that lie") {
  const Sample sample(RandomGraph(1, DType::F32).graph());
  REQUIRE(sample.plan.ok());
  Guarded copy(sample.bytes.size());
  const auto message = [&](std::size_t at, const auto &value) -> std::string {
    std::memcpy(copy.data(), sample.bytes.data(), sample.bytes.size());
    std::memcpy(copy.data() + at, &value, sizeof value);
    auto loaded = cpu::read_blob(copy.bytes(), sample.plan.segments());
    return loaded.ok() ? "" : std::string(loaded.status().message());
  };
  CHECK_EQ(message(0, 'X'), "cpu blob: found another kind of blob, expected a plan of the cpu backend");
  CHECK_EQ(message(8, std::uint32_t{99}), "cpu blob: version: found 99, expected " + std::to_string(cpu::kBlobVersion));
  const char isa[16] = "avx9000";
  CHECK_EQ(message(16, isa), "cpu blob: found it packed for 'avx9000', expected an instruction set of this processor");
  CHECK_EQ(message(40, ~std::uint64_t{0}),
           "cpu blob: bytes of memory: found 18446744073709551615, expected at most 2^46");
}

// Steps that became one leave operands behind that no step has.
TEST_CASE("operands of no step are looked at too") {
  Builder b;
  b.graph.inputs.push_back(b.tensor(DType::U16, {2, 40}));
  const std::int32_t y = b.tensor(DType::U16, {2, 40});
  b.quantize(b.graph.inputs[0], {2e-4f}, {32768}).quantize(y, {3e-5f}, {0});
  b.node(qir::Op::Sigmoid, {b.graph.inputs[0]}, {y});
  b.graph.outputs = {y};
  const Sample sample(b.graph);
  REQUIRE(sample.plan.ok());
  const std::span<const cpu::Operand> operands = sample.plan.loaded().operands;
  REQUIRE(operands.size() > sample.plan.loaded().steps[0].operand_count);
  Guarded copy(sample.bytes.size());
  for (const cpu::Operand &operand : operands) {
    const auto at = static_cast<std::size_t>(reinterpret_cast<const std::uint8_t *>(&operand.value) -
                                             static_cast<const std::uint8_t *>(sample.plan.blob().data));
    std::memcpy(copy.data(), sample.bytes.data(), sample.bytes.size());
    constexpr std::uint32_t kNone = 1000000;
    std::memcpy(copy.data() + at, &kNone, sizeof kNone);
    auto loaded = cpu::read_blob(copy.bytes(), sample.plan.segments());
    CHECK_EQ(loaded.ok() ? "" : std::string(loaded.status().message()),
             "cpu blob: value of operand: found 1000000, expected one of the table");
  }
}

TEST_CASE("programs of a range with bytes changed, or cut short") {
  int loaded = 0, refused = 0;
  const Builder graph = ranged(32);
  const Sample sample(graph.graph);
  REQUIRE(sample.plan.ok());
  REQUIRE(sample.plan.loaded().region->shared);
  for (std::size_t length = 0; length < sample.bytes.size(); length += 16) {
    Guarded part(length);
    if (length > 0) std::memcpy(part.data(), sample.bytes.data(), length);
    REQUIRE(!use(part.bytes(), sample.plan.segments()));
  }
  Vector<qir::Bytes> fewer(sample.plan.segments().begin(), sample.plan.segments().end());
  for (qir::Bytes &segment : fewer) {
    const qir::Bytes whole = segment;
    segment.size /= 2;
    use(sample.plan.blob(), fewer);
    segment = whole;
  }
  while (!fewer.empty()) fewer.pop_back(), use(sample.plan.blob(), fewer);
  Random random(4);
  Guarded changed(sample.bytes.size());
  for (int round = 0; round < 3000; ++round) {
    std::memcpy(changed.data(), sample.bytes.data(), sample.bytes.size());
    const auto at = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(sample.bytes.size()) - 1));
    changed.data()[at] = static_cast<std::uint8_t>(random.chance(50) ? changed.data()[at] ^ (1 << random.integer(0, 7))
                                                                     : random.integer(0, 255));
    ++(use(changed.bytes(), sample.plan.segments()) ? loaded : refused);
  }
  CHECK((loaded > 500 && refused > 500));
}

TEST_CASE("dynamic regions that lie") {
  const Detector detector;
  const Sample sample(detector.graph);
  REQUIRE(sample.plan.ok());
  const std::span<const cpu::Step> steps = sample.plan.loaded().steps;
  const auto *const base = static_cast<const std::uint8_t *>(sample.plan.blob().data);
  Guarded copy(sample.bytes.size());
  const auto message = [&](const void *field, const auto &value) -> std::string {
    std::memcpy(copy.data(), sample.bytes.data(), sample.bytes.size());
    std::memcpy(copy.data() + (static_cast<const std::uint8_t *>(field) - base), &value, sizeof value);
    auto loaded = cpu::read_blob(copy.bytes(), sample.plan.segments());
    return loaded.ok() ? "" : std::string(loaded.status().message());
  };
  const std::uint32_t region = cpu::kRegionStep;
  CHECK_EQ(message(&steps[0].kernel, region),
           "cpu blob: step of the dynamic region: found 0, expected the last one, where there is a dynamic region");
  CHECK_EQ(
      message(&steps.back().kernel, cpu::kReferenceStep),
      format("cpu blob: step of the dynamic region: found %zu, expected the last one, where there is a dynamic region",
             steps.size() - 1));
  CHECK_EQ(message(&steps.back().operand_count, std::uint32_t{1}),
           "cpu blob: operands of the dynamic region: found 1, expected those of its graph");
  // An operand that has less room than its tensor, and an output that is given twice.
  const cpu::Operand *const operands = &sample.plan.loaded().operands[steps.back().first_operand];
  CHECK_EQ(message(&operands[0].offset, std::uint64_t{4}).substr(0, 40), "cpu blob: operand of the dynamic region:");
  const std::size_t inputs = sample.plan.loaded().region->inputs.size();
  CHECK_EQ(message(&operands[inputs].value, operands[inputs + 1].value).substr(0, 40),
           "cpu blob: operand of the dynamic region:");
}
