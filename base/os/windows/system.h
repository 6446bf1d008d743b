// SPDX-License-Identifier: Apache-2.0
// What the files of this folder share: texts are UTF-8 everywhere else and UTF-16 where Windows is asked, files are
// descriptors of the C runtime there and handles here.
#pragma once

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#ifndef NOMINMAX
#define NOMINMAX
#endif
#include <windows.h>

#include <cstdint>
#include <string_view>

#include "base/alloc.h"
#include "base/open_fd.h"

namespace quarry::os {

// Errors are an errno where one says it all, and Windows' own number with this bit for the rest; os_error.h reads both.
constexpr int kWindowsError = 1 << 16;
int number_of(DWORD error) noexcept;
// Notes what the last call of Windows failed by, in errno. False, for who returns it.
bool fail() noexcept;
bool fail(int number) noexcept;

// A name of a file for Windows. One that is long is a full path with the prefix that lifts the limit of 260.
class Wide {
 public:
  explicit Wide(std::string_view utf8) noexcept;
  Wide(const Wide &) = delete;
  Wide &operator=(const Wide &) = delete;
  ~Wide() { free_block(text_); }
  // nullptr: no memory, or no UTF-8; errno says which.
  const wchar_t *get() const noexcept { return text_; }

 private:
  void lengthen() noexcept;
  wchar_t *text_ = nullptr;
};

// UTF-8 of a text of Windows; of a name of a file also with '/' between folders and without the prefix above.
String narrow(std::wstring_view text);
String narrow_path(std::wstring_view path);

HANDLE handle_of(int fd) noexcept;  // INVALID_HANDLE_VALUE: errno
// Takes the handle, INVALID_HANDLE_VALUE: none, with errno for the last call's error.
OpenFd descriptor_of(HANDLE handle) noexcept;
// The full path of what a handle is of, with '/'. Empty: errno.
String path_of(HANDLE handle);
// `path` in a folder that is open (-1: the working folder). Empty: errno.
String path_in(std::string_view path, int folder);

}  // namespace quarry::os
