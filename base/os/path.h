// SPDX-License-Identifier: Apache-2.0
// Names of files and folders, and what lies behind them.
#pragma once

#include "base/alloc.h"

namespace quarry::os {

// How names of files are written. Here and not in a file for each system: these are no calls.
#if defined(_WIN32)
inline constexpr char kListSeparator = ';';  // between folders of a list
#define QR_LIBRARY_SUFFIX ".dll"
#define QR_PROGRAM_SUFFIX ".exe"
// Of the last that ends a folder's name, npos: the name has no folder. Both kinds do on Windows, and "C:".
constexpr std::size_t last_separator(std::string_view path) noexcept {
  const std::size_t at = path.find_last_of("/\\");
  return at == path.npos && path.size() > 1 && path[1] == ':' ? 1 : at;
}
constexpr bool is_separator(char letter) noexcept { return letter == '/' || letter == '\\'; }
// Whether a name may have it. ("a:b" is a second file inside a, or one of another drive.)
constexpr bool fits_name(char letter) noexcept {
  return static_cast<unsigned char>(letter) >= ' ' &&
         std::string_view("/\\:*?\"<>|").find(letter) == std::string_view::npos;
}
// A part of a path that is the folder above: dots and spaces at the end of a name do not count.
constexpr bool leads_up(std::string_view part) noexcept {
  return part.starts_with("..") && part.find_first_not_of(". ") == part.npos;
}
// It names the same whatever the working folder is: "C:/x", "//server/x". ("/x" is of the working folder's drive.)
constexpr bool is_absolute(std::string_view path) noexcept {
  const auto ends = [&](std::size_t i) { return path.size() > i && (path[i] == '/' || path[i] == '\\'); };
  return (ends(0) && ends(1)) || (path.size() > 1 && path[1] == ':' && ends(2));
}
#else
inline constexpr char kListSeparator = ':';  // between folders of a list
#if defined(__APPLE__)
#define QR_LIBRARY_SUFFIX ".dylib"
#else
#define QR_LIBRARY_SUFFIX ".so"
#endif
#define QR_PROGRAM_SUFFIX ""
// Of the last that ends a folder's name, npos: the name has no folder.
constexpr std::size_t last_separator(std::string_view path) noexcept { return path.rfind('/'); }
constexpr bool is_separator(char letter) noexcept { return letter == '/'; }
// Whether a name may have it.
constexpr bool fits_name(char letter) noexcept { return letter != '/' && letter != '\0'; }
// A part of a path that is the folder above.
constexpr bool leads_up(std::string_view part) noexcept { return part == ".."; }
// It names the same whatever the working folder is.
constexpr bool is_absolute(std::string_view path) noexcept { return path.starts_with('/'); }
#endif

// The folder that relative names begin in. Empty: it cannot be had.
String working_folder();

// Enter: a folder, to open what is in it.
enum class Access : std::uint8_t { Exists, Read, ReadAndWrite, Enter };
// Whether this process may; not what it will find when it tries.
bool allows(const char *path, Access access) noexcept;

// The names in a folder, in no order, without those that begin with a dot. 0, or an errno.
int for_each_name(const char *folder, void (*visit)(void *self, const char *name), void *self);
template <class Visit>
int for_each_name(const char *folder, Visit visit) {
  return for_each_name(
      folder, [](void *self, const char *name) { (*static_cast<Visit *>(self))(name); }, &visit);
}

// Gives the calling thread, and those that it starts from then on, a working folder of their own: no other thread's
// changes. 0, or an errno.
int enter_own_folder(const char *path) noexcept;

// Nothing where it is not there.
void remove_file(const char *path) noexcept;

// 0, or an errno.
int make_folder(const char *path) noexcept;
// A new folder for files that nobody keeps, which this user alone may read; in TMPDIR where it is set, else where the
// system has its own. Empty: errno; `*out_place` is where it was to be.
String make_scratch_folder(String *out_place);

}  // namespace quarry::os
