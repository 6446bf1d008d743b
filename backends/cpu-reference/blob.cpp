// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu-reference/blob.h"

#include <bit>
#include <cstring>

#include "base/checked.h"

namespace quarry::reference {
namespace {

static_assert(std::endian::native == std::endian::little, "blobs are little-endian, and are read where they lie");

constexpr std::uint64_t kAlign = 64;

// All at offsets from the blob's start; the plan follows the header, the graph follows the plan, aligned.
struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint64_t offset_count;
  std::uint64_t qir_size;
  std::uint64_t weights_bytes;
  std::uint64_t arena_bytes;
  std::uint64_t io_bytes;
  std::uint64_t reserved;
};
static_assert(sizeof(Header) == 64);
constexpr char kMagic[8] = {'Q', 'R', 'R', 'E', 'F', 'B', 'L', 'B'};

Status bad(const String &what) { return Status::error(ErrorId::backend_bad_blob, format("context blob: %s", what)); }

}  // namespace

BlobFigures figures_of(const Program &program) noexcept {
  BlobFigures figures{program.constant_bytes(), program.total_arena_bytes() + program.conversion_bytes(), 0};
  for (const auto *list : {&program.graph().inputs, &program.graph().outputs})
    for (const std::int32_t t : *list) figures.io_bytes += program.tensor(index_of(t)).bytes;
  return figures;
}

Vector<std::uint8_t> write_blob(const Program &program, qir::Bytes qir) {
  Vector<std::uint64_t> offsets;
  program.append_plan(offsets);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kBlobVersion;
  header.header_size = sizeof header;
  header.offset_count = offsets.size();
  header.qir_size = qir.size;
  const BlobFigures figures = figures_of(program);
  header.weights_bytes = figures.weights_bytes;
  header.arena_bytes = figures.arena_bytes;
  header.io_bytes = figures.io_bytes;

  const std::size_t plan_size = offsets.size() * sizeof(std::uint64_t);
  const std::size_t qir_at = (sizeof header + plan_size + kAlign - 1) / kAlign * kAlign;
  Vector<std::uint8_t> blob(qir_at + qir.size);
  std::memcpy(blob.data(), &header, sizeof header);
  std::memcpy(blob.data() + sizeof header, offsets.data(), plan_size);
  std::memcpy(blob.data() + qir_at, qir.data, qir.size);
  return blob;
}

Result<BlobView> read_blob(qir::Bytes blob) {
  const auto *bytes = static_cast<const std::uint8_t *>(blob.data);
  Header header;
  if (blob.size < sizeof header)
    return bad(format("found %llu bytes, expected at least %zu", blob.size, sizeof header));
  if (reinterpret_cast<std::uintptr_t>(bytes) % kAlign != 0)
    return bad("found it at an address that is no multiple of 64");
  std::memcpy(&header, bytes, sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return bad("found another magic number than QRREFBLB");
  if (header.version != kBlobVersion || header.header_size != sizeof header || header.reserved != 0)
    return bad(format("found version %u, expected %u", header.version, kBlobVersion));
  std::uint64_t plan_size = 0, plan_end = 0, qir_at = 0, end = 0;
  if (!checked_mul<std::uint64_t>(header.offset_count, sizeof(std::uint64_t), &plan_size) ||
      !checked_add<std::uint64_t>(sizeof header, plan_size, &plan_end) ||
      !checked_align_up(plan_end, kAlign, &qir_at) || !checked_add(qir_at, header.qir_size, &end) || end != blob.size)
    return bad(format("found %llu bytes, expected as many as its header says", blob.size));
  BlobView view;
  view.figures = {header.weights_bytes, header.arena_bytes, header.io_bytes};
  view.offsets = {reinterpret_cast<const std::uint64_t *>(bytes + sizeof header), header.offset_count};
  view.qir = {bytes + qir_at, header.qir_size};
  return view;
}

}  // namespace quarry::reference
