// SPDX-License-Identifier: Apache-2.0
#include "base/os/child_process.h"

#include <io.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <cwchar>

#include "base/clock.h"
#include "base/os/windows/system.h"
#include "base/status.h"

// The stream is a pipe of both directions, which cannot be closed in one of them: a byte from the parent says that it
// has no more to send.
namespace quarry::os {
namespace {

constexpr DWORD kPipeSize = 1 << 16, kPauseMs = 5;
constexpr std::uint64_t kMostInherited = 4096;

class OwnHandle {
 public:
  OwnHandle() noexcept = default;
  explicit OwnHandle(HANDLE handle) noexcept : handle_(handle == INVALID_HANDLE_VALUE ? nullptr : handle) {}
  OwnHandle(OwnHandle &&other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  OwnHandle &operator=(OwnHandle &&other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~OwnHandle() {
    if (handle_) CloseHandle(handle_);
  }
  HANDLE get() const noexcept { return handle_; }
  HANDLE release() noexcept { return std::exchange(handle_, nullptr); }

 private:
  HANDLE handle_ = nullptr;
};

// One that a child may have. Of none, or one that cannot be had: none.
OwnHandle inheritable(HANDLE handle) noexcept {
  HANDLE out = nullptr;
  const HANDLE self = GetCurrentProcess();
  if (!handle || handle == INVALID_HANDLE_VALUE ||
      !DuplicateHandle(self, handle, self, &out, 0, TRUE, DUPLICATE_SAME_ACCESS))
    return {};
  return OwnHandle(out);
}

// What the C runtime of the child finds its descriptors in: how many, what they are of, the handles.
class Descriptors {
 public:
  // What a child inherits of this process in any case: what it reads, writes and complains to.
  Descriptors() {
    for (const DWORD which : {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE})
      handles_.push_back(inheritable(GetStdHandle(which)));
  }
  void give(HANDLE handle, int as) {
    const auto number = static_cast<std::size_t>(as);
    if (handles_.size() <= number) handles_.resize(number + 1);
    handles_[number] = inheritable(handle);
  }
  HANDLE at(std::size_t number) const noexcept { return handles_[number].get(); }
  Vector<HANDLE> list() const {
    Vector<HANDLE> out;
    for (const OwnHandle &one : handles_) {
      HANDLE const handle = one.get();
      if (handle) out.push_back(handle);
    }
    return out;
  }
  Vector<BYTE> block() const {
    constexpr BYTE kOpen = 1, kPipe = 8, kDevice = 0x40;
    const int count = static_cast<int>(handles_.size());
    Vector<BYTE> out(sizeof count + handles_.size() * (1 + sizeof(HANDLE)));
    std::memcpy(out.data(), &count, sizeof count);
    for (std::size_t i = 0; i < handles_.size(); ++i) {
      HANDLE const handle = handles_[i].get() ? handles_[i].get() : INVALID_HANDLE_VALUE;
      const DWORD type = handles_[i].get() ? GetFileType(handle) : FILE_TYPE_UNKNOWN;
      const int traits = (handles_[i].get() ? kOpen : 0) | (type == FILE_TYPE_PIPE ? kPipe : 0) |
                         (type == FILE_TYPE_CHAR ? kDevice : 0);
      out[sizeof count + i] = static_cast<BYTE>(traits);
      std::memcpy(&out[sizeof count + handles_.size() + i * sizeof handle], &handle, sizeof handle);
    }
    return out;
  }

 private:
  Vector<OwnHandle> handles_;
};

// As the child's C runtime takes the line apart again.
void add_word(std::wstring_view word, Vector<wchar_t> &line) {
  const auto add = [&](std::size_t count, wchar_t unit) { line.insert(line.end(), count, unit); };
  if (!line.empty()) add(1, L' ');
  add(1, L'"');
  std::size_t slashes = 0;
  for (const wchar_t unit : word) {
    if (unit == L'"') add(slashes + 1, L'\\');
    slashes = unit == L'\\' ? slashes + 1 : 0;
    add(1, unit);
  }
  add(slashes, L'\\');
  add(1, L'"');
}

std::wstring_view variable_at(const wchar_t *at) noexcept { return at; }

// This process's environment with one more folder at the front of PATH: there a program's libraries are looked for.
Vector<wchar_t> environment_with(std::wstring_view folder) {
  Vector<wchar_t> out;
  const std::unique_ptr<wchar_t, BOOL (*)(wchar_t *)> all(GetEnvironmentStringsW(), FreeEnvironmentStringsW);
  const auto add = [&](std::wstring_view text) { out.insert(out.end(), text.begin(), text.end()); };
  bool found = false;
  for (const wchar_t *at = all.get(); at && *at; at += variable_at(at).size() + 1) {
    const std::wstring_view text = variable_at(at);
    const bool is_path = text.size() > 5 && CompareStringOrdinal(text.data(), 5, L"PATH=", 5, TRUE) == CSTR_EQUAL;
    found |= is_path;
    add(text.substr(0, is_path ? 5 : text.size()));
    if (is_path) {
      add(folder);
      add(L";");
      add(text.substr(5));
    }
    add({L"\0", 1});
  }
  if (!found) {
    add(L"PATH=");
    add(folder);
    add({L"\0", 1});
  }
  add({L"\0", 1});
  return out;
}

// Both ends of a new pipe. The child waits for bytes and sends others at the same time, so its end is overlapped.
bool make_pipe(OwnHandle *ours, OwnHandle *theirs) noexcept {
  static constinit LONG counter = 0;
  wchar_t name[80];
  std::swprintf(name, 80, L"\\\\.\\pipe\\quarry-%lx-%lx-%llx", GetCurrentProcessId(), InterlockedIncrement(&counter),
                static_cast<unsigned long long>(now_ns()));
  *ours = OwnHandle(CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                     PIPE_TYPE_BYTE | PIPE_WAIT | PIPE_REJECT_REMOTE_CLIENTS, 1, kPipeSize, kPipeSize,
                                     0, nullptr));
  if (!ours->get()) return fail();
  *theirs = OwnHandle(
      CreateFileW(name, GENERIC_READ | GENERIC_WRITE, 0, nullptr, OPEN_EXISTING, FILE_FLAG_OVERLAPPED, nullptr));
  return theirs->get() || fail();
}

// Starts it with these handles and no others. 0, or an errno.
int start_process(const wchar_t *program, Vector<wchar_t> &line, const Descriptors &descriptors,
                  Vector<wchar_t> &environment, PROCESS_INFORMATION *out) {
  Vector<HANDLE> list = descriptors.list();
  Vector<BYTE> block = descriptors.block();
  if (block.size() > kMostInherited * 16) return EMFILE;
  SIZE_T size = 0;
  InitializeProcThreadAttributeList(nullptr, 1, 0, &size);
  Vector<BYTE> room(size);
  STARTUPINFOEXW how{};
  how.StartupInfo.cb = sizeof how;
  how.StartupInfo.dwFlags = STARTF_USESTDHANDLES;
  how.StartupInfo.hStdInput = descriptors.at(0);
  how.StartupInfo.hStdOutput = descriptors.at(1);
  how.StartupInfo.hStdError = descriptors.at(2);
  how.StartupInfo.cbReserved2 = static_cast<WORD>(block.size());
  how.StartupInfo.lpReserved2 = block.data();
  how.lpAttributeList = reinterpret_cast<LPPROC_THREAD_ATTRIBUTE_LIST>(room.data());
  if (!InitializeProcThreadAttributeList(how.lpAttributeList, 1, 0, &size)) return number_of(GetLastError());
  const bool done = UpdateProcThreadAttribute(how.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_HANDLE_LIST, list.data(),
                                              list.size() * sizeof(HANDLE), nullptr, nullptr) &&
                    CreateProcessW(program, line.data(), nullptr, nullptr, TRUE,
                                   EXTENDED_STARTUPINFO_PRESENT | CREATE_UNICODE_ENVIRONMENT |
                                       CREATE_NEW_PROCESS_GROUP,  // Ctrl-C is for whoever watches over it
                                   environment.data(), nullptr, &how.StartupInfo, out);
  const int error = done ? 0 : number_of(GetLastError());
  DeleteProcThreadAttributeList(how.lpAttributeList);
  return error;
}

// How many bytes are there to be read; -1: the other side is gone.
std::ptrdiff_t bytes_there(HANDLE pipe) noexcept {
  DWORD count = 0;
  return PeekNamedPipe(pipe, nullptr, 0, nullptr, &count, nullptr) ? static_cast<std::ptrdiff_t>(count) : -1;
}

// The child's end is overlapped: one transfer, waited for. 0: the other side is gone.
template <class Transfer>
DWORD transferred(int stream, Transfer transfer) noexcept {
  const HANDLE pipe = handle_of(stream);
  OVERLAPPED waiting{};
  const OwnHandle event(CreateEventW(nullptr, TRUE, FALSE, nullptr));
  waiting.hEvent = event.get();
  DWORD count = 0;
  if (!waiting.hEvent || (!transfer(pipe, &waiting) && GetLastError() != ERROR_IO_PENDING)) return 0;
  return GetOverlappedResult(pipe, &waiting, &count, TRUE) ? count : 0;
}

}  // namespace

ChildProcess::~ChildProcess() {
  if (process_ == kNone) return;
  const OwnHandle process(reinterpret_cast<HANDLE>(process_));
  TerminateProcess(process.get(), 1);
  WaitForSingleObject(process.get(), INFINITE);
}

int ChildProcess::start(std::span<const String> words, const String &libraries, std::span<const Inherited> files,
                        int stream) {
  OwnHandle ours, theirs;
  if (!make_pipe(&ours, &theirs)) return errno;
  stream_ = descriptor_of(ours.release());
  if (stream_.get() < 0) return errno;
  Descriptors descriptors;
  descriptors.give(theirs.get(), stream);
  for (const Inherited &file : files) descriptors.give(handle_of(file.fd), file.as);
  Vector<wchar_t> line;
  for (const String &word : words) {
    const Wide wide(word);
    if (!wide.get()) return errno;
    add_word(wide.get(), line);
  }
  const wchar_t end = L'\0';
  line.push_back(end);
  const Wide program(words[0]), folder(libraries);
  if (!program.get() || !folder.get()) return errno;
  Vector<wchar_t> environment = environment_with(folder.get());
  PROCESS_INFORMATION started{};
  if (const int error = start_process(program.get(), line, descriptors, environment, &started)) return error;
  CloseHandle(started.hThread);
  process_ = reinterpret_cast<std::intptr_t>(started.hProcess);
  return 0;
}

bool ChildProcess::wait(EventHandle, std::uint64_t ms) noexcept {
  const std::uint64_t until = now_ns() + ms * 1'000'000;
  while (!gone_ && bytes_there(handle_of(stream_.get())) == 0) {
    if (WaitForSingleObject(reinterpret_cast<HANDLE>(process_), kPauseMs) == WAIT_OBJECT_0) gone_ = true;
    else if (now_ns() >= until) return false;
  }
  return true;
}

std::ptrdiff_t ChildProcess::receive(void *to, std::size_t size) noexcept {
  const HANDLE pipe = handle_of(stream_.get());
  const std::ptrdiff_t there = bytes_there(pipe);
  if (there <= 0) return there < 0 || gone_ ? 0 : kNothingYet;
  DWORD got = 0;
  const auto most = static_cast<DWORD>(std::min(size, static_cast<std::size_t>(there)));
  return ReadFile(pipe, to, most, &got, nullptr) ? static_cast<std::ptrdiff_t>(got) : 0;
}

void ChildProcess::hang_up() noexcept {
  DWORD put = 0;
  WriteFile(handle_of(stream_.get()), "", 1, &put, nullptr);
}

String ChildProcess::how_it_ended(std::uint64_t ms) {
  const HANDLE process = reinterpret_cast<HANDLE>(process_);
  DWORD code = 0;
  if (process_ == kNone || WaitForSingleObject(process, static_cast<DWORD>(ms)) != WAIT_OBJECT_0 ||
      !GetExitCodeProcess(process, &code))
    return "ended";
  return code >= 0xc0000000 ? format("ended by exception 0x%08lx", code) : format("ended with exit status %lu", code);
}

bool begin_as_child(int stream) noexcept {
  if (GetFileType(handle_of(stream)) != FILE_TYPE_PIPE) return false;
  ::_dup2(2, 1);
  return true;
}

void send(int stream, const void *data, std::size_t size) noexcept {
  for (const char *at = static_cast<const char *>(data); size;) {
    const auto part = static_cast<DWORD>(std::min<std::size_t>(size, kPipeSize));
    const DWORD put = transferred(
        stream, [&](HANDLE pipe, OVERLAPPED *waiting) { return WriteFile(pipe, at, part, nullptr, waiting); });
    if (put == 0) return;
    at += put;
    size -= put;
  }
}

void await_end(int stream) noexcept {
  char byte;
  (void)transferred(stream,
                    [&](HANDLE pipe, OVERLAPPED *waiting) { return ReadFile(pipe, &byte, 1, nullptr, waiting); });
}

}  // namespace quarry::os
