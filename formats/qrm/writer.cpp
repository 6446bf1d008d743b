// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/hash.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/metadata.h"
#include "formats/qrm/os.h"
#include "formats/qrm/prologue.h"

namespace quarry::qrm {
namespace {

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

std::uint64_t sum_of(const Vector<Writer::Part> &parts, std::uint64_t size) noexcept {
  static constexpr unsigned char kZeros[256] = {};
  Hasher64 hasher;
  Cursor cursor(parts, size);
  for (Bytes run = cursor.run(); run.size; run = cursor.run()) {
    if (!run.data) run = {kZeros, std::min<std::uint64_t>(run.size, sizeof kZeros)};
    hasher.add(run.data, static_cast<std::size_t>(run.size));
    cursor.advance(run.size);
  }
  return hasher.sum();
}

bool same_contents(const Vector<Writer::Part> &a, const Vector<Writer::Part> &b, std::uint64_t size) noexcept {
  Cursor left(a, size), right(b, size);
  for (;;) {
    const Bytes x = left.run(), y = right.run();
    const std::uint64_t n = std::min(x.size, y.size);
    if (n == 0) return true;
    const bool same = x.data && y.data ? std::memcmp(x.data, y.data, static_cast<std::size_t>(n)) == 0
                      : x.data         ? is_zero(x.data, n)
                                       : !y.data || is_zero(y.data, n);
    if (!same) return false;
    left.advance(n);
    right.advance(n);
  }
}

}  // namespace

// ---- where the bytes go -------------------------------------------------------------------------

class Writer::Sink {
 public:
  virtual Status write(const void *data, std::uint64_t size) = 0;
  virtual Status zeros(std::uint64_t size) = 0;

 protected:
  ~Sink() = default;
};

struct Writer::Layout {
  Vector<std::uint8_t> metadata;
  Vector<SegmentInfo> segments;
  std::uint64_t file_size = 0;
  std::uint64_t features = 0;
};

namespace {

class MemorySink final : public Writer::Sink {
 public:
  explicit MemorySink(std::uint64_t size) { bytes.reserve(static_cast<std::size_t>(size)); }
  Status write(const void *data, std::uint64_t size) override {
    const auto *from = static_cast<const std::uint8_t *>(data);
    bytes.insert(bytes.end(), from, from + size);
    return {};
  }
  Status zeros(std::uint64_t size) override {
    bytes.resize(bytes.size() + static_cast<std::size_t>(size));
    return {};
  }
  Vector<std::uint8_t> bytes;
};

// A new file beside `path` that takes its place on commit, and is gone otherwise.
class FileSink final : public Writer::Sink {
 public:
  explicit FileSink(std::string_view path) : path_(path) {}
  FileSink(const FileSink &) = delete;
  FileSink &operator=(const FileSink &) = delete;
  ~FileSink() {
    if (fd_ >= 0) ::close(fd_);
    if (!temporary_.empty()) ::unlink(temporary_.c_str());
  }

  Status open() {
    if (path_.empty() || path_.find('\0') != String::npos) return fail(ENOENT, "creating");
    struct stat info;
    if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
      return Status::error(ErrorId::not_a_file,
                           format("file '%s': found a %s in its place, expected a regular file or none",
                                  printable(path_, 1000).c_str(), S_ISDIR(info.st_mode) ? "folder" : "device or pipe"));
    const std::size_t slash = path_.rfind('/');
    const String folder = slash == String::npos ? String() : path_.substr(0, slash + 1);
    for (unsigned attempt = 0;; ++attempt) {
      timespec now{};
      ::clock_gettime(CLOCK_REALTIME, &now);
      const auto salt = static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
      String name = folder + format(".quarry-%x-%" PRIx64 ".tmp", static_cast<unsigned>(::getpid()), salt);
      fd_ = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (fd_ >= 0) {
        temporary_ = std::move(name);
        return {};
      }
      if (errno != EEXIST || attempt == 100) return fail(errno, "creating");
    }
  }

  Status write(const void *data, std::uint64_t size) override {
    const char *from = static_cast<const char *>(data);
    while (size > 0) {
      // Runs of zero chunks become holes, the rest goes out in one piece.
      std::uint64_t run = 0;
      while (run < size && !is_zero(from + run, std::min(kChunk, size - run))) run += std::min(kChunk, size - run);
      QR_RETURN_IF_ERROR(write_run(from, run));
      from += run;
      size -= run;
      while (size > 0 && is_zero(from, std::min(kChunk, size))) {
        const std::uint64_t hole = std::min(kChunk, size);
        at_ += hole;
        from += hole;
        size -= hole;
      }
    }
    return {};
  }
  Status zeros(std::uint64_t size) override {
    at_ += size;
    return {};
  }

  Status commit() {
    if (::ftruncate(fd_, static_cast<off_t>(at_)) != 0) return fail(errno, "setting its size");
    // Some file systems cannot flush (EINVAL); where it is the disk that fails, the file must not appear.
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != ENOTSUP) return fail(errno, "flushing");
    const int closed = ::close(std::exchange(fd_, -1));
    if (closed != 0 && errno != EINTR) return fail(errno, "closing");
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail(errno, "renaming into its place");
    temporary_.clear();
    return {};
  }

 private:
  static constexpr std::uint64_t kChunk = 64 << 10;
  static constexpr std::uint64_t kMaxWrite = 1 << 30;  // Linux writes at most 2 GiB at once

  Status write_run(const char *from, std::uint64_t size) {
    while (size > 0) {
      const ssize_t put =
          ::pwrite(fd_, from, static_cast<std::size_t>(std::min(size, kMaxWrite)), static_cast<off_t>(at_));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return fail(put < 0 ? errno : ENOSPC, "writing");
      from += put;
      size -= static_cast<std::uint64_t>(put);
      at_ += static_cast<std::uint64_t>(put);
    }
    return {};
  }
  Status fail(int number, const char *doing) const {
    return os_error(number, path_, doing, ErrorId::file_not_writable);
  }

  String path_, temporary_;
  int fd_ = -1;
  std::uint64_t at_ = 0;
};

}  // namespace

std::uint32_t Writer::mapping_align(std::string_view target) noexcept {
  return target.substr(0, 7) == "aarch64" ? kLargePageAlign : kPageAlign;
}

Result<std::uint32_t> Writer::add_segment(SegmentKind kind, std::string_view name, const Part *parts,
                                          std::size_t part_count, std::uint64_t size, std::uint32_t align) {
  if (kind == SegmentKind::Unknown || align < kMinSegmentAlign || align > kMaxSegmentAlign ||
      (align & (align - 1)) != 0)
    return Status::error(
        ErrorId::bad_argument,
        format("segment '%s': found kind %s and alignment %u, expected a known kind and a power of two from %u to %u",
               printable(name).c_str(), segment_kind_name(kind), align, kMinSegmentAlign, kMaxSegmentAlign));
  Segment segment{{kind, String(name), 0, size, align, 0}, {}};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < part_count; ++i) {
    if (parts[i].offset < end || !range_fits(parts[i].offset, parts[i].contents.size, size))
      return Status::error(ErrorId::bad_argument,
                           format("segment '%s': found part %zu of %" PRIu64 " bytes at %" PRIu64
                                  ", expected it from %" PRIu64 " on and within %" PRIu64,
                                  printable(name).c_str(), i, parts[i].contents.size, parts[i].offset, end, size));
    end = parts[i].offset + parts[i].contents.size;
    if (parts[i].contents.size) segment.parts.push_back(parts[i]);
  }
  segment.info.sum = sum_of(segment.parts, size);
  const auto [first, last] = by_sum_.equal_range(segment.info.sum);
  for (auto it = first; it != last; ++it) {
    Segment &other = segments_[it->second];
    if (other.info.kind != kind || other.info.size != size || !same_contents(other.parts, segment.parts, size))
      continue;
    other.info.align = std::max(other.info.align, align);
    return it->second;
  }
  if (segments_.size() == kMaxSegments)
    return Status::error(ErrorId::qrm_limit,
                         format("container: found more than %u segments, expected at most that", kMaxSegments));
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
  for (SegmentInfo &segment : segments) segment.offset = 1;
  QR_ASSIGN_OR_RETURN(out.metadata, write_metadata(metadata, segments));
  const std::size_t metadata_size = out.metadata.size();
  std::uint64_t end = sizeof(Prologue) + metadata_size;
  for (SegmentInfo &segment : segments) {
    if (!checked_align_up(end, segment.align, &segment.offset) || !checked_add(segment.offset, segment.size, &end) ||
        end > kMaxFileBytes)
      return Status::error(
          ErrorId::qrm_limit,
          format("container: found more than %" PRIu64 " bytes, expected at most that", kMaxFileBytes));
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
  QR_ASSIGN_OR_RETURN(const Layout layout, lay_out(metadata));
  MemorySink sink(layout.file_size);
  QR_RETURN_IF_ERROR(emit(layout, sink));
  return std::move(sink.bytes);
}

Status Writer::write_file(std::string_view path, const Metadata &metadata) const {
  QR_ASSIGN_OR_RETURN(const Layout layout, lay_out(metadata));
  FileSink sink(path);
  QR_RETURN_IF_ERROR(sink.open());
  QR_RETURN_IF_ERROR(emit(layout, sink));
  return sink.commit();
}

Status Writer::emit(const Layout &layout, Sink &sink) const {
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
    QR_RETURN_IF_ERROR(sink.zeros(layout.segments[i].offset - at));
    Cursor cursor(segments_[i].parts, segments_[i].info.size);
    for (Bytes run = cursor.run(); run.size; run = cursor.run()) {
      QR_RETURN_IF_ERROR(run.data ? sink.write(run.data, run.size) : sink.zeros(run.size));
      cursor.advance(run.size);
    }
    at = layout.segments[i].offset + layout.segments[i].size;
  }
  return {};
}

}  // namespace quarry::qrm
