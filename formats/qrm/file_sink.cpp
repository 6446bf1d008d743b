// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>

#include "formats/qrm/os.h"
#include "formats/qrm/prologue.h"
#include "formats/qrm/sink.h"

namespace quarry::qrm {
namespace {

constexpr std::uint64_t kChunk = 64 << 10;
constexpr std::uint64_t kMaxWrite = 1 << 30;  // Linux writes at most 2 GiB at once

}  // namespace

FileSink::~FileSink() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

Status FileSink::fail(int number, const char *doing) const {
  return os_error(number, path_, doing, ErrorId::file_not_writable);
}

// Tries names beside the file's place until `take` gets one: it returns 0, or an errno.
template <class Take>
Status FileSink::take_name(const char *doing, Take &&take) {
  for (unsigned attempt = 0;; ++attempt) {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    const auto salt = static_cast<std::uint64_t>(now.tv_sec) * 1000000000u + static_cast<std::uint64_t>(now.tv_nsec);
    String name = folder_ + format(".quarry-%x-%" PRIx64 ".tmp", static_cast<unsigned>(::getpid()), salt);
    const int error = take(name.c_str());
    if (error == 0) {
      temporary_ = std::move(name);
      return {};
    }
    if (error != EEXIST || attempt == 100) return fail(error, doing);
  }
}

Status FileSink::open() {
  if (path_.empty() || path_.find('\0') != String::npos) return fail(ENOENT, "creating");
  struct stat info;
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return Status::error(ErrorId::not_a_file,
                         format("file '%s': found a %s in its place, expected a regular file or none",
                                printable(path_, 1000).c_str(), S_ISDIR(info.st_mode) ? "folder" : "device or pipe"));
  const std::size_t slash = path_.rfind('/');
  folder_ = slash == String::npos ? "./" : path_.substr(0, slash + 1);
  if (naming_ == Naming::Late) fd_ = OpenFd(::open(folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
  if (fd_.get() >= 0) return {};
  // Whatever the reason was: where it is not about nameless files, this meets it again and says so.
  naming_ = Naming::Early;
  return take_name("creating", [&](const char *name) {
    fd_ = OpenFd(::open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    return fd_.get() < 0 ? errno : 0;
  });
}

Status FileSink::write(const void *data, std::uint64_t size) {
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

Status FileSink::write_run(const char *from, std::uint64_t size) {
  while (size > 0) {
    const ssize_t put =
        ::pwrite(fd_.get(), from, static_cast<std::size_t>(std::min(size, kMaxWrite)), static_cast<off_t>(at_));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return fail(put < 0 ? errno : ENOSPC, "writing");
    from += put;
    size -= static_cast<std::uint64_t>(put);
    at_ += static_cast<std::uint64_t>(put);
  }
  return {};
}

Status FileSink::zeros(std::uint64_t size) {
  at_ += size;
  return {};
}

// The nameless file gets the name of its place if that is free, and one beside it otherwise: no call names a file over
// another.
Status FileSink::give_name() {
  const String self = format("/proc/self/fd/%d", fd_.get());
  const auto link_to = [&](const char *name) {
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
  };
  const int error = link_to(path_.c_str());
  if (error == EEXIST) return take_name("naming it", link_to);
  return error ? fail(error, "naming it") : Status();
}

Status FileSink::commit() {
  if (::ftruncate(fd_.get(), static_cast<off_t>(at_)) != 0) return fail(errno, "setting its size");
  // Before it has its name, so that no loss of power leaves the name with a part of the bytes. Some file systems cannot
  // flush (EINVAL); where it is the disk that fails, the file must not appear.
  if (::fsync(fd_.get()) != 0 && errno != EINVAL && errno != ENOTSUP) return fail(errno, "flushing");
  if (naming_ == Naming::Late) QR_RETURN_IF_ERROR(give_name());
  // Network file systems may tell of a failed write here.
  if (::close(fd_.release()) != 0 && errno != EINTR) return fail(errno, "closing");
  if (!temporary_.empty()) {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) return fail(errno, "renaming into its place");
    temporary_.clear();
  }
  // The name is to outlast a loss of power too. The file stands in its place by now, so a failure is none of the call.
  const OpenFd folder(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) (void)::fsync(folder.get());
  return {};
}

}  // namespace quarry::qrm
