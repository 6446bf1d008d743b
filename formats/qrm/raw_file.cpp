// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "base/checked.h"
#include "base/stop.h"
#include "formats/qrm/limits.h"
#include "formats/qrm/os.h"
#include "formats/qrm/qrm.h"

namespace quarry::qrm {
namespace {

// Segments are at multiples of this within a file, and every reader of them relies on it.
constexpr std::uint64_t kBaseAlign = kMinSegmentAlign;

// What is not mapped lies as if it were: segments are page-aligned all the same.
std::size_t page_size() noexcept { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The file may be cut or written to meanwhile: sums find what came of it.
Status read_all(int fd, std::string_view name, char *out, std::uint64_t size, std::uint64_t offset) {
  while (size > 0) {
    QR_RETURN_IF_ERROR(stop_status("reading the file"));
    const ssize_t got =
        ::pread(fd, out, static_cast<std::size_t>(std::min(size, kPieceBytes)), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error(errno, name, "reading");
    if (got == 0)
      return Status::errorf(ErrorId::io_error, "file '%s': found its end early: it was cut while it was read",
                            printable(name, 1000));
    out += got;
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
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
  if (owner_ == Owner::Mapping) ::munmap(base_, static_cast<std::size_t>(base_size_));
  if (owner_ == Owner::Block) free_block(base_);
}

Result<RawFile> RawFile::open_path(std::string_view path, FileUse use, int folder) {
  if (path.empty() || path.find('\0') != std::string_view::npos)
    return Status::errorf(ErrorId::file_not_found, "file '%s': found no such path", printable(path, 1000));
  // Without O_NONBLOCK a named pipe would make us wait for a writer.
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const bool in_folder = folder >= 0 && !name.empty();
  OpenFd fd(::openat(in_folder ? folder : AT_FDCWD, String(in_folder ? name : path).c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return os_error(errno, path, "opening");
  return load(std::move(fd), path, 0, 0, use);
}

Result<RawFile> RawFile::open_fd(int fd, std::uint64_t offset, std::uint64_t size, FileUse use) {
  const String name = format("descriptor %d", fd);
  OpenFd own(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (own.get() < 0) return os_error(errno, name, "duplicating it");
  return load(std::move(own), name, offset, size, use);
}

Result<RawFile> RawFile::load(OpenFd fd, std::string_view name, std::uint64_t offset, std::uint64_t size, FileUse use) {
  struct stat info;
  if (::fstat(fd.get(), &info) != 0) return os_error(errno, name, "asking for its size");
  if (!S_ISREG(info.st_mode))
    return Status::errorf(ErrorId::not_a_file, "file '%s': found a %s, expected a regular file", printable(name, 1000),
                          S_ISDIR(info.st_mode) ? "folder" : "device or pipe");
  const auto file_size = static_cast<std::uint64_t>(info.st_size);
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
  const std::uint64_t lead = offset % page_size();
  void *base = ::mmap(nullptr, static_cast<std::size_t>(lead + size), PROT_READ, MAP_PRIVATE, fd.get(),
                      static_cast<off_t>(offset - lead));
  if (base == MAP_FAILED) return os_error(errno, name, format("mapping its %" PRIu64 " bytes", size).c_str());
  file.base_ = base;
  file.base_size_ = lead + size;
  file.owner_ = Owner::Mapping;
  file.bytes_ = {static_cast<const char *>(base) + lead, size};
  file.fd_ = std::move(fd);
  file.offset_ = offset;
  return file;
}

Status RawFile::read(int fd, std::string_view name, std::uint64_t offset, std::uint64_t size) {
  base_ = try_allocate_block(static_cast<std::size_t>(size), page_size());
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
  file.base_ = size <= PTRDIFF_MAX ? try_allocate_block(static_cast<std::size_t>(size), page_size()) : nullptr;
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
  file.base_ = allocate_block(static_cast<std::size_t>(size), page_size());
  file.owner_ = Owner::Block;
  std::memcpy(file.base_, data, static_cast<std::size_t>(size));
  file.bytes_.data = file.base_;
  return file;
}

}  // namespace quarry::qrm
