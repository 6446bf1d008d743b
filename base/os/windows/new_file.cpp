// SPDX-License-Identifier: Apache-2.0
#include "base/new_file.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>

#include "base/hash.h"
#include "base/os/path.h"
#include "base/os/windows/system.h"
#include "base/os_error.h"
#include "base/stop.h"

// On Windows a file has a name beside its place until it is whole: there are no nameless ones. folder_ is not used,
// name_ and the others are full paths.
namespace quarry {
namespace {

constexpr std::uint64_t kPiece = 64 << 10;    // of what waits for its reader
constexpr std::uint64_t kMaxWrite = 8 << 20;  // so that who is to stop is asked
constexpr DWORD kLockMs = 1000;
// Who looks at new files (search, antivirus) has one open for a moment: its renaming is tried for so long.
constexpr int kTries = 100, kTryMs = 10;

// A name that nobody guesses beforehand.
String random_name(const String &beside, const char *ending) {
  LARGE_INTEGER now;
  QueryPerformanceCounter(&now);
  static constinit LONG counter = 0;
  const std::uint64_t seeds[] = {static_cast<std::uint64_t>(now.QuadPart), GetCurrentProcessId(), GetCurrentThreadId(),
                                 static_cast<std::uint64_t>(InterlockedIncrement(&counter)),
                                 reinterpret_cast<std::uintptr_t>(&now)};
  const std::size_t slash = os::last_separator(beside);
  return beside.substr(0, slash == String::npos ? 0 : slash + 1) +
         format(".quarry-%016" PRIx64 ".%s", hash64(seeds, sizeof seeds), ending);
}

int last_number() noexcept { return os::number_of(GetLastError()); }

bool is_for_a_moment(DWORD error) noexcept {
  return error == ERROR_SHARING_VIOLATION || error == ERROR_ACCESS_DENIED || error == ERROR_LOCK_VIOLATION ||
         error == ERROR_UNABLE_TO_REMOVE_REPLACED;
}

// Over what is there, whose permissions stay. 0, or the reason.
int move_over(const String &from, const String &to, bool replaces) {
  const os::Wide old_name(from), new_name(to);
  if (!old_name.get() || !new_name.get()) return errno;
  for (int round = 0;; ++round) {
    if (replaces && ReplaceFileW(new_name.get(), old_name.get(), nullptr,
                                 REPLACEFILE_IGNORE_MERGE_ERRORS | REPLACEFILE_IGNORE_ACL_ERRORS, nullptr, nullptr))
      return 0;
    // Some file systems cannot replace, and the old file may have gone meanwhile.
    if (MoveFileExW(old_name.get(), new_name.get(), MOVEFILE_REPLACE_EXISTING)) return 0;
    const DWORD error = GetLastError();
    if (!is_for_a_moment(error) || round == kTries) return os::number_of(error);
    Sleep(kTryMs);
  }
}

}  // namespace

NewFile::~NewFile() {
  fd_ = OpenFd();  // a file that is open cannot be removed
  if (!temporary_.empty()) os::remove_file(temporary_.c_str());
  if (!old_.empty()) os::remove_file(old_.c_str());
}

int NewFile::take_name() {
  for (int attempt = 0;; ++attempt) {
    String name = random_name(name_, "tmp");
    const os::Wide wide(name);
    if (!wide.get()) return errno;
    const HANDLE handle = CreateFileW(wide.get(), GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_DELETE,
                                      nullptr, CREATE_NEW, FILE_ATTRIBUTE_NORMAL, nullptr);
    const DWORD error = GetLastError();
    if (handle != INVALID_HANDLE_VALUE) {
      temporary_ = std::move(name);
      fd_ = os::descriptor_of(handle);
      return fd_.get() < 0 ? errno : 0;
    }
    if ((error != ERROR_FILE_EXISTS && error != ERROR_ALREADY_EXISTS) || attempt == 100) return os::number_of(error);
  }
}

int NewFile::create() {
  naming_ = Naming::Early;
  return take_name();
}

Status NewFile::open(std::string_view path, int folder) {
  path_ = path;
  int error = path_.empty() || path_.find('\0') != String::npos ? ENOENT : 0;
  if (error == 0) name_ = os::path_in(path_, folder);
  if (error == 0 && name_.empty()) error = errno;
  if (error == 0) error = find_place();
  if (error == 0 && !in_place_) error = create();
  return error ? fail(error, "creating it") : Status();
}

Status NewFile::open_descriptor(int fd) {
  path_ = format("descriptor %d", fd);
  in_place_ = true;
  const HANDLE given = os::handle_of(fd), self = GetCurrentProcess();
  HANDLE copy;
  if (given == INVALID_HANDLE_VALUE) return fail(errno, "looking at it");
  if (!DuplicateHandle(self, given, self, &copy, 0, FALSE, DUPLICATE_SAME_ACCESS))
    return fail(last_number(), "looking at it");
  fd_ = os::descriptor_of(copy);
  if (fd_.get() < 0) return fail(errno, "looking at it");
  may_wait_ = GetFileType(copy) != FILE_TYPE_DISK;
  if (may_wait_) return {};
  LARGE_INTEGER end, at;
  const LARGE_INTEGER none{};
  if (!GetFileSizeEx(copy, &end) || !SetFilePointerEx(copy, none, &at, FILE_CURRENT))
    return fail(last_number(), "looking at its position");
  DWORD put;
  if (!WriteFile(copy, "", 0, &put, nullptr)) return fail(last_number(), "writing");  // it was opened to be read
  end_ = static_cast<std::uint64_t>(end.QuadPart);
  begin_ = static_cast<std::uint64_t>(at.QuadPart);
  return {};
}

std::uint64_t NewFile::take_back() noexcept {
  if (at_ == 0 || may_wait_) return at_;
  const HANDLE file = os::handle_of(fd_.get());
  LARGE_INTEGER end, begin;
  end.QuadPart = static_cast<LONGLONG>(end_);
  begin.QuadPart = static_cast<LONGLONG>(begin_);
  const bool done = SetFilePointerEx(file, end, nullptr, FILE_BEGIN) && SetEndOfFile(file);
  SetFilePointerEx(file, begin, nullptr, FILE_BEGIN);
  if (!done) return at_;
  return begin_ < end_ ? std::min(at_, end_ - begin_) : 0;
}

// What a link points to is replaced, and the link stays: the system says what the path leads to.
int NewFile::find_place() {
  const std::size_t slash = os::last_separator(name_);
  if (slash + 1 == name_.size() && slash != String::npos) return EISDIR;
  const os::Wide wide(name_);
  if (!wide.get()) return errno;
  const HANDLE there = CreateFileW(wide.get(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                   OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr);
  if (there == INVALID_HANDLE_VALUE) {
    const int number = last_number();
    return number == ENOENT ? 0 : number;
  }
  const OpenFd closer = os::descriptor_of(there);
  if (closer.get() < 0) return errno;
  if (GetFileType(there) != FILE_TYPE_DISK) return open_in_place(false);
  BY_HANDLE_FILE_INFORMATION info;
  if (!GetFileInformationByHandle(there, &info)) return last_number();
  if (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) return EISDIR;
  if (info.dwFileAttributes & FILE_ATTRIBUTE_READONLY) return EACCES;
  replaces_ = true;
  String real = os::path_of(there);
  if (real.empty()) return errno;
  name_ = std::move(real);
  return 0;
}

// NUL, a pipe: \\.\pipe\NAME.
int NewFile::open_in_place(bool) {
  in_place_ = may_wait_ = true;
  const os::Wide wide(name_);
  if (!wide.get()) return errno;
  fd_ = os::descriptor_of(
      CreateFileW(wide.get(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr, OPEN_EXISTING, 0, nullptr));
  return fd_.get() < 0 ? errno : 0;
}

Status NewFile::write_run(const char *from, std::uint64_t size) {
  const HANDLE file = os::handle_of(fd_.get());
  while (size > 0) {
    if (stop_asked()) return stop_status("writing a file");
    const auto part = static_cast<DWORD>(std::min(size, may_wait_ ? kPiece : kMaxWrite));
    OVERLAPPED where{};
    where.Offset = static_cast<DWORD>(at_);
    where.OffsetHigh = static_cast<DWORD>(at_ >> 32);
    DWORD put = 0;
    const BOOL done = WriteFile(file, from, part, &put, in_place_ ? nullptr : &where);
    if (!done || put == 0) return fail(done ? ENOSPC : last_number(), "writing");
    from += put;
    size -= put;
    at_ += put;
  }
  return {};
}

Status NewFile::close(Outlasts what) {
  outlasts_ = what;
  const HANDLE file = os::handle_of(fd_.get());
  if (!in_place_) {
    LARGE_INTEGER end;
    end.QuadPart = static_cast<LONGLONG>(at_);
    if (!SetFilePointerEx(file, end, nullptr, FILE_BEGIN) || !SetEndOfFile(file))
      return fail(last_number(), "setting its size");
    if (what == Outlasts::Disk && !FlushFileBuffers(file)) return fail(last_number(), "flushing");
  }
  fd_ = OpenFd();
  return {};
}

Status NewFile::put_in_place() {
  if (in_place_) return {};
  if (const int error = move_over(temporary_, name_, replaces_)) return fail(error, "renaming it into its place");
  temporary_.clear();
  placed_ = true;
  return {};
}

void NewFile::keep_old() {
  if (in_place_ || !replaces_) return;
  String name = random_name(name_, "old");
  const os::Wide link(name), there(name_);
  if (link.get() && there.get() && CreateHardLinkW(link.get(), there.get(), nullptr)) old_ = std::move(name);
}

void NewFile::undo() noexcept {
  if (!placed_) return;
  placed_ = false;
  if (old_.empty()) return os::remove_file(name_.c_str());
  const os::Wide old_name(old_), new_name(name_);
  if (old_name.get() && new_name.get() && MoveFileExW(old_name.get(), new_name.get(), MOVEFILE_REPLACE_EXISTING))
    old_.clear();
}

namespace {

// One lot at a time in a folder: two writers would leave the model of one with the constants of the other. Nobody waits
// for ever for a lock that another program holds.
class FolderLock {
 public:
  explicit FolderLock(std::string_view file) {
    const String folder(file.substr(0, os::last_separator(file)));
    const String name = format("Local\\quarry-%016" PRIx64, hash64(folder.data(), folder.size()));
    const os::Wide wide(name);
    if (wide.get()) mutex_ = CreateMutexW(nullptr, FALSE, wide.get());
    const DWORD got = mutex_ ? WaitForSingleObject(mutex_, kLockMs) : WAIT_FAILED;
    held_ = got == WAIT_OBJECT_0 || got == WAIT_ABANDONED;
  }
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;
  ~FolderLock() {
    if (held_) ReleaseMutex(mutex_);
    if (mutex_) CloseHandle(mutex_);
  }

 private:
  HANDLE mutex_ = nullptr;
  bool held_ = false;
};

}  // namespace

Status NewFiles::put_in_place(NewFile::Outlasts what) {
  for (const auto &file : files_) QR_RETURN_IF_ERROR(file->close(what));
  std::optional<FolderLock> lock;
  if (files_.size() > 1) lock.emplace(files_[0]->name_);
  Status status;
  for (std::size_t i = 0; i < files_.size() && status.ok(); ++i) {
    if (files_.size() > 1) files_[i]->keep_old();
    status = files_[i]->put_in_place();
  }
  if (!status.ok())
    for (const auto &file : files_) file->undo();
  return status;
}

}  // namespace quarry
