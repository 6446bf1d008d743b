// SPDX-License-Identifier: Apache-2.0
// Damaged containers. A byte that changed by accident is always noticed: every byte is summed or known to be zero.
// Bytes that were changed on purpose, with sums that fit, are refused or are a container that keeps every rule.
#include <random>

#include "crafted.h"
#include "tests/support/check.h"
#include "tests/support/kept_graph.h"

namespace quarry {
namespace {

using test::AlignedBytes;
using test::Crafted;
using test::SampleContainer;

// Opens and uses everything, as a session would.
Status use(AlignedBytes &bytes, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(qrm::RawFile file, qrm::RawFile::from_memory(bytes.data(), size));
  QR_ASSIGN_OR_RETURN(const qrm::ValidatedModel model, qrm::ValidatedModel::open(std::move(file)));
  for (std::uint32_t i = 0; i < model.metadata().graphs.size(); ++i) {
    if (!model.metadata().graphs[i].qir_segment) continue;
    Result<qir::Graph> graph = test::kept_graph(model, i);
    if (!graph.ok()) return graph.take_status();
    qir::print_graph(*graph);
  }
  for (const qrm::ContextInfo &context : model.metadata().contexts)
    for (const qrm::Program &program : context.programs) {
      Result<qir::Bytes> blob = model.segment(program.blob_segment);
      if (!blob.ok()) return blob.take_status();
      Result<Vector<qir::Bytes>> segments = model.segments(program.segments);
      if (!segments.ok()) return segments.take_status();
    }
  return {};
}

TEST_CASE("truncation at every length") {
  const Vector<std::uint8_t> good = SampleContainer().bytes();
  for (std::size_t size = 0; size < good.size(); ++size) {
    AlignedBytes cut(good.data(), size);  // its own block: reading past it is seen by asan
    const Status status = use(cut, size);
    REQUIRE((status.id() == "QR-M0001" && !status.message().empty() && !status.hint().empty()));
  }
}

TEST_CASE("random damage is always noticed") {
  const Vector<std::uint8_t> good = SampleContainer(64).bytes();
  AlignedBytes bytes(good.data(), good.size());
  std::mt19937 random(20240607);
  for (int round = 0; round < 20000; ++round) {
    const std::size_t at = random() % good.size();
    const auto before = bytes.data()[at];
    bytes.data()[at] ^= static_cast<std::uint8_t>(1 + random() % 255);
    const Status status = use(bytes, good.size());
    CHECK_MESSAGE((!status.ok() && !status.message().empty()), "at byte ", at);
    bytes.data()[at] = before;
  }
  CHECK_OK(use(bytes, good.size()));
}

TEST_CASE("damage behind sums that fit") {
  const Crafted crafted;
  const Vector<std::uint8_t> good = crafted.build();
  qrm::Prologue prologue;
  std::memcpy(&prologue, good.data(), sizeof prologue);
  AlignedBytes bytes(good.data(), good.size());
  std::mt19937 random(7);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    // One to four bytes of metadata, or of the prologue's own fields.
    for (unsigned i = 0, n = 1 + random() % 4; i < n; ++i) {
      const std::size_t at = random() % 8 == 0 ? 8 + random() % 40 : 64 + random() % prologue.metadata_size;
      bytes.data()[at] = static_cast<std::uint8_t>(random() % 4 ? random() : (random() % 2 ? 0xff : 0));
    }
    qrm::Prologue damaged;
    std::memcpy(&damaged, bytes.data(), sizeof damaged);
    damaged.metadata_sum =
        hash64(bytes.data() + 64, damaged.metadata_size <= good.size() - 64 ? damaged.metadata_size : 0);
    damaged.sum = damaged.own_sum();
    std::memcpy(bytes.data(), &damaged, sizeof damaged);
    const Status status = use(bytes, good.size());
    accepted += status.ok();
    CHECK((status.ok() || !status.message().empty()));
    std::memcpy(bytes.data(), good.data(), good.size());
  }
  CHECK(accepted > 100);  // names and figures may be any
}

TEST_CASE("damage of a kept graph behind sums that fit") {
  Crafted crafted;
  const Vector<std::uint8_t> good = crafted.bytes;
  const qrm::SegmentInfo graph = crafted.segments[1];
  std::mt19937 random(99);
  for (int round = 0; round < 4000; ++round) {
    for (unsigned i = 0, n = 1 + random() % 3; i < n; ++i)
      crafted.bytes[graph.offset + random() % graph.size] = static_cast<std::uint8_t>(random() % 3 ? random() : 0xff);
    crafted.segments[1].sum = hash64(crafted.bytes.data() + graph.offset, graph.size);
    const Vector<std::uint8_t> built = crafted.build();
    AlignedBytes bytes(built.data(), built.size());
    const Status status = use(bytes, built.size());
    CHECK((status.ok() || !status.message().empty()));
    crafted.bytes = good;
  }
}

// Fails the Nth allocation for every N: an error, never a crash or a leak (asan looks), and afterwards all is well.
class FailingAllocator final : public Allocator {
 public:
  explicit FailingAllocator(std::size_t fail_at) : left_(fail_at) {}
  void *allocate(std::size_t size, std::size_t align) noexcept override {
    if (left_ == 0) return nullptr;
    --left_;
    ++live_;
    return malloc_allocator().allocate(size, align);
  }
  void deallocate(void *ptr, std::size_t size, std::size_t align) noexcept override {
    --live_;
    malloc_allocator().deallocate(ptr, size, align);
  }
  std::size_t live() const { return live_; }

 private:
  std::size_t left_, live_ = 0;
};

TEST_CASE("no memory at any point") {
  const Vector<std::uint8_t> good = SampleContainer().bytes();
  AlignedBytes bytes(good.data(), good.size());
  const SampleContainer sample;
  bool finished = false;
  for (std::size_t n = 0; !finished && n < 20000; ++n) {
    FailingAllocator allocator(n);
    {
      const AllocatorScope scope(allocator);
      try {
        if (use(bytes, good.size()).ok() && sample.writer.write_memory(sample.metadata).ok()) {
          qir::ConstantPool pool;
          qrm::Writer writer;
          finished = qir::write_graph(sample.sample.graph, pool).ok() && writer.add_segment("constants", pool).ok() &&
                     writer.add_segment("again", pool).ok();
        }
      } catch (const std::bad_alloc &) {
      }
    }
    REQUIRE_EQ(allocator.live(), 0u);
  }
  CHECK(finished);
}

}  // namespace
}  // namespace quarry
