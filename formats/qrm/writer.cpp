// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/hash.h"
#include "base/stop.h"
#include "base/target_writer.h"
#include "base/zeros.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"
#include "formats/qrm/prologue.h"
#include "formats/qrm/qrm.h"

namespace quarry::qrm {
namespace {

struct InMemory final : FileSink {
  Vector<std::uint8_t> bytes;
  Status begin(std::string_view, std::uint64_t size, std::uint64_t) override {
    bytes.reserve(static_cast<std::size_t>(size));
    return {};
  }
  Status write(const void *data, std::uint64_t size) override {
    const auto *from = static_cast<const std::uint8_t *>(data);
    if (from) bytes.insert(bytes.end(), from, from + size);
    else bytes.resize(bytes.size() + static_cast<std::size_t>(size));
    return {};
  }
};

// Walks through a segment's contents: the parts and, as runs without data, the zeros between them.
class Cursor {
 public:
  Cursor(const Vector<Writer::Part> &parts, std::uint64_t size) noexcept : parts_(parts), size_(size) {}

  // The run from here on; size 0: the end. data == nullptr: zeros.
  Bytes run() const noexcept {
    if (part_ == parts_.size()) return {nullptr, size_ - at_};
    const Writer::Part &part = parts_[part_];
    if (at_ < part.offset) return {nullptr, part.offset - at_};
    const std::uint64_t into = at_ - part.offset;
    return {static_cast<const char *>(part.contents.data) + into, part.contents.size - into};
  }
  void advance(std::uint64_t bytes) noexcept {
    at_ += bytes;
    while (part_ < parts_.size() && at_ >= parts_[part_].offset + parts_[part_].contents.size) ++part_;
  }

 private:
  const Vector<Writer::Part> &parts_;
  std::uint64_t size_, at_ = 0;
  std::size_t part_ = 0;
};

constexpr const char *kWriting = "writing the container";

std::uint64_t sum_of(const Vector<Writer::Part> &parts, std::uint64_t size) noexcept {
  static constexpr unsigned char kZeros[256] = {};
  Hasher64 hasher;
  Cursor cursor(parts, size);
  std::uint64_t unasked = 0;
  for (Bytes run = cursor.run(); run.size; run = cursor.run()) {
    run.size = run.data ? std::min(run.size, kPieceBytes) : std::min<std::uint64_t>(run.size, sizeof kZeros);
    if ((unasked += run.size) > kPieceBytes) {
      if (stop_asked()) break;  // the caller asks too
      unasked = run.size;
    }
    if (!run.data) run.data = kZeros;
    hasher.add(run.data, static_cast<std::size_t>(run.size));
    cursor.advance(run.size);
  }
  return hasher.sum();
}

bool same_contents(const Vector<Writer::Part> &a, const Vector<Writer::Part> &b, std::uint64_t size) noexcept {
  Cursor left(a, size), right(b, size);
  for (;;) {
    const Bytes x = left.run(), y = right.run();
    const std::uint64_t n = std::min({x.size, y.size, kPieceBytes});
    if (n == 0 || stop_asked()) return true;  // the caller asks too
    const bool same = x.data && y.data ? std::memcmp(x.data, y.data, static_cast<std::size_t>(n)) == 0
                      : x.data         ? is_zero(x.data, n)
                                       : !y.data || is_zero(y.data, n);
    if (!same) return false;
    left.advance(n);
    right.advance(n);
  }
}

}  // namespace

struct Writer::Layout {
  Vector<std::uint8_t> metadata;
  Vector<SegmentInfo> segments;
  std::uint64_t file_size = 0;
  std::uint64_t features = 0;
};

std::uint32_t Writer::mapping_align(std::string_view target) noexcept {
  return target.substr(0, 7) == "aarch64" ? kLargePageAlign : kPageAlign;
}

Result<std::uint32_t> Writer::add_segment(SegmentKind kind, std::string_view name, const Part *parts,
                                          std::size_t part_count, std::uint64_t size, std::uint32_t align) {
  if (kind == SegmentKind::Unknown || align < kMinSegmentAlign || align > kMaxSegmentAlign ||
      (align & (align - 1)) != 0)
    return Status::errorf(
        ErrorId::bad_argument,
        "segment '%s': found kind %s and alignment %u, expected a known kind and a power of two from %u to %u",
        printable(name), segment_kind_name(kind), align, kMinSegmentAlign, kMaxSegmentAlign);
  Segment segment{{kind, String(name), 0, size, align, 0}, {}};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < part_count; ++i) {
    if (parts[i].offset < end || !range_fits(parts[i].offset, parts[i].contents.size, size))
      return Status::errorf(ErrorId::bad_argument,
                            "segment '%s': found part %zu of %" PRIu64 " bytes at %" PRIu64
                            ", expected it from %" PRIu64 " on and within %" PRIu64,
                            printable(name), i, parts[i].contents.size, parts[i].offset, end, size);
    end = parts[i].offset + parts[i].contents.size;
    if (parts[i].contents.size) segment.parts.push_back(parts[i]);
  }
  segment.info.sum = sum_of(segment.parts, size);
  QR_RETURN_IF_ERROR(stop_status(kWriting));
  const auto [first, last] = by_sum_.equal_range(segment.info.sum);
  for (auto it = first; it != last; ++it) {
    Segment &other = segments_[it->second];
    if (other.info.kind != kind || other.info.size != size || !same_contents(other.parts, segment.parts, size))
      continue;
    QR_RETURN_IF_ERROR(stop_status(kWriting));
    other.info.align = std::max(other.info.align, align);
    return it->second;
  }
  if (segments_.size() == kMaxSegments)
    return Status::errorf(ErrorId::qrm_limit, "container: found more than %u segments, expected at most that",
                          kMaxSegments);
  if (segments_.size() == segments_.capacity())
    segments_.reserve(2 * segments_.size() + 8);  // so that the two go together or not at all
  by_sum_.emplace(segment.info.sum, static_cast<std::uint32_t>(segments_.size()));
  segments_.push_back(std::move(segment));
  return static_cast<std::uint32_t>(segments_.size() - 1);
}

Result<std::uint32_t> Writer::add_segment(SegmentKind kind, std::string_view name, Bytes contents,
                                          std::uint32_t align) {
  const Part part{0, contents};
  return add_segment(kind, name, &part, 1, contents.size, align);
}

Result<std::uint32_t> Writer::add_segment(std::string_view name, const qir::ConstantPool &pool, std::uint32_t align) {
  Vector<Part> parts;
  parts.reserve(pool.parts().size());
  for (const qir::ConstantPool::Part &part : pool.parts()) parts.push_back({part.offset, part.contents});
  return add_segment(SegmentKind::Weights, name, parts.data(), parts.size(), pool.size(), align);
}

// Offsets depend on the metadata's size, which does not depend on their values.
Result<Writer::Layout> Writer::lay_out(const Metadata &metadata) const {
  Vector<SegmentInfo> segments;
  segments.reserve(segments_.size());
  for (const Segment &segment : segments_) segments.push_back(segment.info);
  QR_RETURN_IF_ERROR(check_metadata(metadata, segments));
  Layout out;
  for (SegmentInfo &segment : segments) {
    segment.offset = 1;
    if (segment.kind == SegmentKind::Network) out.features |= kFeatureNetworks;
  }
  QR_ASSIGN_OR_RETURN(out.metadata, write_metadata(metadata, segments));
  const std::size_t metadata_size = out.metadata.size();
  std::uint64_t end = sizeof(Prologue) + metadata_size;
  for (SegmentInfo &segment : segments) {
    if (!checked_align_up(end, segment.align, &segment.offset) || !checked_add(segment.offset, segment.size, &end) ||
        end > kMaxFileBytes)
      return Status::errorf(ErrorId::qrm_limit, "container: found more than %" PRIu64 " bytes, expected at most that",
                            kMaxFileBytes);
  }
  QR_ASSIGN_OR_RETURN(out.metadata, write_metadata(metadata, segments));
  if (out.metadata.size() != metadata_size)
    return Status::error(ErrorId::internal, "container: found metadata of another size with the offsets filled in");
  for (const ContextInfo &context : metadata.contexts)
    for (const Program &program : context.programs)
      if (program.graphs.size() > 1) out.features |= kFeatureGraphsInOneProgram;
  out.segments = std::move(segments);
  out.file_size = end;
  return out;
}

Result<Vector<std::uint8_t>> Writer::write_memory(const Metadata &metadata) const {
  InMemory made;
  QR_RETURN_IF_ERROR(write(made, {}, metadata));
  return std::move(made.bytes);
}

Status Writer::write_file(std::string_view path, const Metadata &metadata) const {
  TargetWriter file("container", target_at(path), {});
  return file.finish(write(file, file.name(), metadata));
}

Status Writer::write(FileSink &sink, std::string_view name, const Metadata &metadata) const {
  QR_ASSIGN_OR_RETURN(const Layout layout, lay_out(metadata));
  QR_RETURN_IF_ERROR(sink.begin(name, layout.file_size, 0));
  Prologue prologue{};
  std::memcpy(prologue.magic, kMagic, sizeof kMagic);
  prologue.major = kFormatMajor;
  prologue.minor = kFormatMinor;
  prologue.header_size = sizeof prologue;
  prologue.file_size = layout.file_size;
  prologue.metadata_offset = sizeof prologue;
  prologue.metadata_size = layout.metadata.size();
  prologue.required_features = layout.features;
  prologue.metadata_sum = hash64(layout.metadata.data(), layout.metadata.size());
  prologue.sum = prologue.own_sum();
  QR_RETURN_IF_ERROR(sink.write(&prologue, sizeof prologue));
  QR_RETURN_IF_ERROR(sink.write(layout.metadata.data(), layout.metadata.size()));
  std::uint64_t at = sizeof prologue + layout.metadata.size();
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    QR_RETURN_IF_ERROR(sink.write(nullptr, layout.segments[i].offset - at));
    Cursor cursor(segments_[i].parts, segments_[i].info.size);
    for (Bytes run = cursor.run(); run.size; run = cursor.run()) {
      QR_RETURN_IF_ERROR(stop_status(kWriting));
      run.size = std::min(run.size, kPieceBytes);
      QR_RETURN_IF_ERROR(sink.write(run.data, run.size));
      cursor.advance(run.size);
    }
    at = layout.segments[i].offset + layout.segments[i].size;
  }
  return {};
}

}  // namespace quarry::qrm
