// SPDX-License-Identifier: Apache-2.0
#include "base/new_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <climits>
#include <cstdlib>

#include "base/os/file_lock.h"
#include "base/os/file_making.h"
#include "base/os/library.h"
#include "base/os_error.h"
#include "base/stop.h"

namespace quarry {
namespace {

constexpr std::uint64_t kMaxWrite = 8 << 20;  // so that who is to stop is asked
constexpr int kMaxLinks = 40;                 // as the kernel
constexpr int kReaderMs = 5000;               // a pipe that nobody reads yet is waited for so long
constexpr int kLockMs = 1000;
// Android's C library refuses the flag; there nobody acts as another.
constexpr int kAsWhoActs = os::kAndroid ? 0 : AT_EACCESS;
constexpr int kAskMs = 20;  // who waits for room asks so often whether to stop

void sleep_ms(int ms) noexcept { ::poll(nullptr, 0, ms); }

// A name that nobody guesses beforehand: whoever may write to the folder could put a link there.
String random_name(const char *ending) { return format(".quarry-%016" PRIx64 ".%s", os::random_number(), ending); }

// The kernel's rule for links that anybody may put (fs.protected_symlinks), which following them by hand passes by.
bool is_planted(int folder, const char *name) noexcept {
  struct stat place, link;
  return ::fstat(folder, &place) == 0 && (place.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) &&
         ::fstatat(folder, name, &link, AT_SYMLINK_NOFOLLOW) == 0 && link.st_uid != ::geteuid() &&
         link.st_uid != place.st_uid;
}

}  // namespace

NewFile::~NewFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
  if (!old_.empty()) ::unlinkat(folder_.get(), old_.c_str(), 0);
}

// A name beside the file's place: for a new file, or one that the nameless file gets.
int NewFile::take_name() {
  for (int attempt = 0;; ++attempt) {
    String name = random_name("tmp");
    int result;
    if (fd_.get() >= 0) {
      result = link_to(name.c_str());
    } else {
      constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
      result = ::openat(folder_.get(), name.c_str(), kNew, new_mode());
      fd_ = OpenFd(result);
    }
    if (result >= 0) {
      temporary_ = std::move(name);
      return 0;
    }
    if (errno != EEXIST || attempt == 100) return errno;
  }
}

int NewFile::link_to(const char *name) const { return os::link_nameless(fd_.get(), folder_.get(), name) ? 0 : -1; }

Status NewFile::open(std::string_view path, int folder) {
  path_ = path;
  int error = path_.empty() || path_.find('\0') != String::npos ? ENOENT : 0;
  if (error == 0 && folder >= 0) {
    folder_ = OpenFd(::fcntl(folder, F_DUPFD_CLOEXEC, 0));
    if (folder_.get() < 0) error = errno;
  }
  if (error == 0) error = find_place();
  if (error == 0 && !in_place_) error = create();
  if (error == ECANCELED) return stop_status("writing a file");
  return error ? fail(error, "creating it") : Status();
}

Status NewFile::open_descriptor(int fd) {
  path_ = format("/dev/fd/%d", fd);
  in_place_ = true;
  fd_ = OpenFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  const int flags = ::fcntl(fd, F_GETFL);
  struct stat info;
  if (fd_.get() < 0 || flags < 0 || ::fstat(fd, &info) != 0) return fail(errno, "looking at it");
  if ((flags & O_ACCMODE) == O_RDONLY) return fail(EBADF, "writing");
  may_wait_ = !S_ISREG(info.st_mode);
  if (may_wait_) return {};
  end_ = static_cast<std::uint64_t>(info.st_size);
  const off_t at = ::lseek(fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
  if (at < 0) return fail(errno, "looking at its position");
  begin_ = static_cast<std::uint64_t>(at);
  return {};
}

std::uint64_t NewFile::take_back() noexcept {
  if (at_ == 0 || may_wait_) return at_;
  const bool done = ::ftruncate(fd_.get(), static_cast<off_t>(end_)) == 0;
  (void)::lseek(fd_.get(), static_cast<off_t>(begin_), SEEK_SET);
  if (!done) return at_;
  return begin_ < end_ ? std::min(at_, end_ - begin_) : 0;
}

// Follows links by hand: the file must take the place of what they point to, in that folder. The folder is open from
// here on, so that it does not matter what its name or the process's working folder becomes.
int NewFile::find_place() {
  String left = path_;  // from folder_ on
  for (int links = 0;; ++links) {
    const std::size_t slash = left.rfind('/');
    const String folder = slash == String::npos ? String(".") : left.substr(0, slash + 1);
    name_ = slash == String::npos ? left : left.substr(slash + 1);
    const int from = folder_.get() < 0 ? AT_FDCWD : folder_.get();
    OpenFd next = os::open_place(folder.c_str(), from);
    if (next.get() < 0) return errno;
    folder_ = std::move(next);
    if (name_.empty()) return EISDIR;

    char target[PATH_MAX];
    const ssize_t length = ::readlinkat(folder_.get(), name_.c_str(), target, sizeof target);
    if (length < 0) break;  // no link
    if (os::holds_descriptors(folder_.get())) return open_in_place(true);
    if (is_planted(folder_.get(), name_.c_str())) return EACCES;
    if (links == kMaxLinks || static_cast<std::size_t>(length) == sizeof target) return ELOOP;
    left.assign(target, static_cast<std::size_t>(length));
  }
  struct stat info;
  if (::fstatat(folder_.get(), name_.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT ? 0 : errno;
  if (S_ISDIR(info.st_mode)) return EISDIR;
  if (S_ISREG(info.st_mode) && os::holds_descriptors(folder_.get())) return open_in_place(true);  // no links in macOS
  if (!S_ISREG(info.st_mode)) return open_in_place(false);
  if (::faccessat(folder_.get(), name_.c_str(), W_OK, kAsWhoActs) != 0) return errno;
  replaces_ = true;
  owner_ = info.st_uid, group_ = info.st_gid, mode_ = info.st_mode & 07777;
  return 0;
}

int NewFile::open_in_place(bool is_process_link) {
  in_place_ = true;
  if (is_process_link) {
    // /proc/self/fd/N: to open it anew would begin at the file's start, and cannot be done to a socket.
    struct stat there, ours;
    const int number = std::atoi(name_.c_str());
    if (::fstatat(folder_.get(), name_.c_str(), &there, 0) == 0 && ::fstat(number, &ours) == 0 &&
        there.st_dev == ours.st_dev && there.st_ino == ours.st_ino)
      fd_ = OpenFd(::fcntl(number, F_DUPFD_CLOEXEC, 0));
    if (fd_.get() >= 0) {
      may_wait_ = !S_ISREG(ours.st_mode);
      return 0;
    }
  }
  // Whoever opens a pipe waits for its reader; this does so for a while.
  for (int waited = 0;; waited += 10) {
    fd_ = OpenFd(::openat(folder_.get(), name_.c_str(), O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd_.get() >= 0) break;
    if (errno != ENXIO || is_process_link || waited >= kReaderMs) return errno;
    if (stop_asked()) return ECANCELED;
    sleep_ms(10);
  }
  struct stat info;
  may_wait_ = ::fstat(fd_.get(), &info) != 0 || !S_ISREG(info.st_mode);
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags >= 0) (void)::fcntl(fd_.get(), F_SETFL, flags & ~O_NONBLOCK);
  return 0;
}

int NewFile::create() {
  if (naming_ == Naming::Late) fd_ = os::open_nameless(folder_.get(), new_mode());
  if (fd_.get() >= 0) return 0;
  // Whatever the reason was: where it is not about nameless files, this meets it again and says so.
  naming_ = Naming::Early;
  return take_name();
}

Status NewFile::write_run(const char *from, std::uint64_t size) {
  while (size > 0) {
    if (stop_asked()) return stop_status("writing a file");
    // What waits for its reader is given no more than it has room for when it says that it has some.
    pollfd room = {fd_.get(), POLLOUT, 0};
    const int ready = may_wait_ ? ::poll(&room, 1, kAskMs) : 1;
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const auto part =
        static_cast<std::size_t>(std::min<std::uint64_t>(size, may_wait_ ? std::uint64_t{PIPE_BUF} : kMaxWrite));
    const ssize_t put = in_place_ ? os::write_without_signal(fd_.get(), from, part)
                                  : ::pwrite(fd_.get(), from, part, static_cast<off_t>(at_));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN) {  // the descriptor is another's, who wants it so
      sleep_ms(1);
      continue;
    }
    if (put <= 0) return fail(put < 0 ? errno : ENOSPC, "writing");
    from += put;
    size -= static_cast<std::uint64_t>(put);
    at_ += static_cast<std::uint64_t>(put);
  }
  return {};
}

Status NewFile::close(Outlasts what) {
  outlasts_ = what;
  if (!in_place_) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(at_)) != 0) return fail(errno, "setting its size");
    if (replaces_) {
      // Only the system's administrator gives files away; others own what they write.
      const bool is_theirs = owner_ != ::geteuid() || group_ != ::getegid();
      if (is_theirs && ::fchown(fd_.get(), owner_, group_) != 0) mode_ &= 0777;
      if (::fchmod(fd_.get(), mode_) != 0) return fail(errno, "setting its mode");
    }
    // Before it has its name, so that no loss of power leaves the name with a part of the bytes. Some file systems
    // cannot flush (EINVAL); where it is the disk that fails, the file must not appear.
    if (what == Outlasts::Disk && !os::flush_file(fd_.get()) && errno != EINVAL && errno != ENOTSUP)
      return fail(errno, "flushing");
    if (naming_ == Naming::Late) return {};  // it is needed for its name
  }
  // Network file systems may report a failed write here.
  return ::close(fd_.release()) == 0 || errno == EINTR ? Status() : fail(errno, "closing");
}

// The nameless file gets the name of its place if that is free, and one beside it otherwise: no call names a file over
// another.
Status NewFile::name_it() {
  if (!replaces_ && link_to(name_.c_str()) == 0) return {};
  if ((replaces_ || errno == EEXIST) && take_name() == 0) return {};
  return copy_to_named();
}

// There is no way to give it a name, in a sandbox without /proc for one: what it holds goes to a file that has one.
Status NewFile::copy_to_named() {
  const OpenFd from(fd_.release());
  naming_ = Naming::Early;
  if (const int error = create()) return fail(error, "naming it");
  if (!os::copy_nameless(from.get(), fd_.get(), at_)) return fail(errno, "naming it");
  return close(outlasts_);
}

Status NewFile::put_in_place() {
  if (in_place_) return {};
  if (naming_ == Naming::Late) {
    QR_RETURN_IF_ERROR(name_it());
    fd_ = OpenFd();
  }
  if (!temporary_.empty()) {
    if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0)
      return fail(errno, "renaming it into its place");
    temporary_.clear();
  }
  placed_ = true;
  // The name is to outlast a loss of power too. The file stands in its place by now, so a failure is none of the call.
  if (outlasts_ == Outlasts::Disk) (void)os::flush_file(folder_.get());
  return {};
}

void NewFile::keep_old() {
  String name = random_name("old");
  if (!in_place_ && ::linkat(folder_.get(), name_.c_str(), folder_.get(), name.c_str(), 0) == 0) old_ = std::move(name);
}

void NewFile::undo() noexcept {
  if (!placed_) return;
  placed_ = false;
  if (old_.empty()) ::unlinkat(folder_.get(), name_.c_str(), 0);
  else if (::renameat(folder_.get(), old_.c_str(), folder_.get(), name_.c_str()) == 0) old_.clear();
}

Status NewFiles::put_in_place(NewFile::Outlasts what) {
  for (const auto &file : files_) QR_RETURN_IF_ERROR(file->close(what));
  // One lot at a time: two writers would leave the model of one with the constants of the other. The lock is the
  // folder's, ends with its descriptor, and nobody waits for ever for one that another program holds.
  if (files_.size() > 1)
    for (int waited = 0; os::try_lock(files_[0]->folder_.get()) == os::LockTaken::Busy; ++waited) {
      if (waited == kLockMs) break;
      sleep_ms(1);
    }
  Status status;
  for (std::size_t i = 0; i < files_.size() && status.ok(); ++i) {
    if (files_.size() > 1) files_[i]->keep_old();
    status = files_[i]->put_in_place();
  }
  if (!status.ok())
    for (const auto &file : files_) file->undo();
  if (files_.size() > 1) os::unlock(files_[0]->folder_.get());
  return status;
}

}  // namespace quarry
