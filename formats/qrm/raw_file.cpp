// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/os/file.h"
#include "base/os/mapping.h"
#include "base/os/path.h"
#include "base/stop.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/os.h"
#include "formats/qrm/qrm.h"

namespace quarry::qrm {
namespace {

// Segments are at multiples of this within a file, and every reader of them relies on it.
constexpr std::uint64_t kBaseAlign = kMinSegmentAlign;

// The file may be cut or written to meanwhile: sums find what came of it.
Status read_all(int fd, std::string_view name, char *out, std::uint64_t size, std::uint64_t offset) {
  while (size > 0) {
    QR_RETURN_IF_ERROR(stop_status("reading the file"));
    const std::uint64_t piece = std::min(size, kPieceBytes);
    const int failed = os::read_at(fd, out, piece, offset);
    if (failed == os::kFileEnded)
      return Status::errorf(ErrorId::io_error, "file '%s': found its end early: it was cut while it was read",
                            printable(name, 1000));
    if (failed != 0) return os_error(failed, name, "reading it");
    out += piece;
    offset += piece;
    size -= piece;
  }
  return {};
}

}  // namespace

RawFile::RawFile(RawFile &&other) noexcept
    : bytes_(std::exchange(other.bytes_, {})),
      fd_(std::move(other.fd_)),
      offset_(std::exchange(other.offset_, 0)),
      base_(std::exchange(other.base_, nullptr)),
      base_size_(std::exchange(other.base_size_, 0)),
      owner_(std::exchange(other.owner_, Owner::Caller)) {}

RawFile &RawFile::operator=(RawFile &&other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(fd_, other.fd_);
  std::swap(offset_, other.offset_);
  std::swap(base_, other.base_);
  std::swap(base_size_, other.base_size_);
  std::swap(owner_, other.owner_);
  return *this;
}

RawFile::~RawFile() {
  if (owner_ == Owner::Mapping) os::unmap(base_, static_cast<std::size_t>(base_size_));
  if (owner_ == Owner::Block) free_block(base_);
}

Result<RawFile> RawFile::open_path(std::string_view path, FileUse use, int folder) {
  if (path.empty() || path.find('\0') != std::string_view::npos)
    return Status::errorf(ErrorId::file_not_found, "file '%s': found no such path", printable(path, 1000));
  const std::string_view name = path.substr(os::last_separator(path) + 1);
  const bool in_folder = folder >= 0 && !name.empty();
  OpenFd fd = os::open_file(String(in_folder ? name : path).c_str(), in_folder ? folder : -1);
  if (fd.get() < 0) return os_error(errno, path, "opening it");
  return load(std::move(fd), path, 0, 0, use);
}

Result<RawFile> RawFile::open_fd(int fd, std::uint64_t offset, std::uint64_t size, FileUse use) {
  const String name = format("descriptor %d", fd);
  OpenFd own = os::duplicate(fd);
  if (own.get() < 0) return os_error(errno, name, "duplicating it");
  return load(std::move(own), name, offset, size, use);
}

Result<RawFile> RawFile::load(OpenFd fd, std::string_view name, std::uint64_t offset, std::uint64_t size, FileUse use) {
  os::FileInfo info;
  if (!os::get_info(fd.get(), &info)) return os_error(errno, name, "asking for its size");
  if (info.kind != os::FileKind::Regular)
    return Status::errorf(ErrorId::not_a_file, "file '%s': found a %s, expected a regular file", printable(name, 1000),
                          info.kind == os::FileKind::Folder ? "folder" : "device or pipe");
  const std::uint64_t file_size = info.size;
  if (!range_fits(offset, size, file_size))
    return Status::errorf(ErrorId::index_out_of_range,
                          "file '%s': found offset %" PRIu64 " and size %" PRIu64 ", expected them within its %" PRIu64
                          " bytes",
                          printable(name, 1000), offset, size, file_size);
  if (size == 0) size = file_size - offset;

  RawFile file;
  if (size == 0) return file;
  if (use == FileUse::Read || offset % kBaseAlign != 0) {
    QR_RETURN_IF_ERROR(file.read(fd.get(), name, offset, size));
    return file;
  }
  const std::uint64_t lead = offset % os::page_size();
  void *base = os::map_file(fd.get(), offset - lead, lead + size, os::MappedFor::Reading);
  if (!base) return os_error(errno, name, format("mapping its %" PRIu64 " bytes", size).c_str());
  file.base_ = base;
  file.base_size_ = lead + size;
  file.owner_ = Owner::Mapping;
  file.bytes_ = {static_cast<const char *>(base) + lead, size};
  file.fd_ = std::move(fd);
  file.offset_ = offset;
  return file;
}

Status RawFile::read(int fd, std::string_view name, std::uint64_t offset, std::uint64_t size) {
  // Not mapped, it lies as if it were: segments are page-aligned all the same.
  base_ = try_allocate_block(static_cast<std::size_t>(size), os::page_size());
  if (!base_)
    return Status::errorf(ErrorId::out_of_memory, "file '%s': found no memory for its %" PRIu64 " bytes",
                          printable(name, 1000), size);
  owner_ = Owner::Block;
  QR_RETURN_IF_ERROR(read_all(fd, name, static_cast<char *>(base_), size, offset));
  bytes_ = {base_, size};
  return {};
}

Result<RawFile> RawFile::blank(std::uint64_t size) {
  RawFile file;
  if (size == 0) return file;
  file.base_ = size <= PTRDIFF_MAX ? try_allocate_block(static_cast<std::size_t>(size), os::page_size()) : nullptr;
  if (!file.base_)
    return Status::errorf(ErrorId::out_of_memory, "a model: found no memory for its %" PRIu64 " bytes", size);
  file.owner_ = Owner::Block;
  file.bytes_ = {file.base_, size};
  return file;
}

Result<RawFile> RawFile::from_memory(const void *data, std::uint64_t size) {
  if (!data && size)
    return Status::errorf(ErrorId::null_argument, "memory: found no address for %" PRIu64 " bytes", size);
  RawFile file;
  file.bytes_ = {data, size};
  if (size == 0 || reinterpret_cast<std::uintptr_t>(data) % kBaseAlign == 0) return file;
  file.base_ = allocate_block(static_cast<std::size_t>(size), os::page_size());
  file.owner_ = Owner::Block;
  std::memcpy(file.base_, data, static_cast<std::size_t>(size));
  file.bytes_.data = file.base_;
  return file;
}

}  // namespace quarry::qrm
