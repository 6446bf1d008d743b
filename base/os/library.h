// SPDX-License-Identifier: Apache-2.0
// Libraries that are loaded while the program runs: plugins, vendors' drivers, libraries that may or may not be there.
#pragma once

#include "base/alloc.h"

namespace quarry::os {

// The form of the system's libraries.
enum class LibraryForm : unsigned char { Elf, Pe, MachO };
// What the file of a library "x" begins with by the system's custom; path.h has the ending.
#if defined(_WIN32)
inline constexpr LibraryForm kLibraryForm = LibraryForm::Pe;
#define QR_LIBRARY_PREFIX ""
#elif defined(__APPLE__)
inline constexpr LibraryForm kLibraryForm = LibraryForm::MachO;
#define QR_LIBRARY_PREFIX "lib"
#else
inline constexpr LibraryForm kLibraryForm = LibraryForm::Elf;
#define QR_LIBRARY_PREFIX "lib"
#endif

// Whether this is built for musl, which can open nothing that is linked with glibc.
#if defined(__linux__) && !defined(__GLIBC__) && !defined(__ANDROID__)
inline constexpr bool kMusl = true;
#else
inline constexpr bool kMusl = false;
#endif

#if defined(__ANDROID__)
inline constexpr bool kAndroid = true;
// Android installs no other libraries of an app than those whose names begin so.
#define QR_PLUGIN_PREFIX "lib"
#else
inline constexpr bool kAndroid = false;
#define QR_PLUGIN_PREFIX ""
#endif

// Opens a library for good, its symbols its own: threads, drivers and thread-local destructors of a library may outlive
// every object of ours, so none is closed. A name without a folder is searched where the system searches.
// nullptr: library_error() says why.
void *open_library(const char *path) noexcept;

// Why the last open_library of this thread failed, in the system's words; on musl with more, where the file is linked
// with glibc; on Android, where apps may not open what they did not name.
String library_error();
// What Android's linker said, with the line of an app's manifest that lets it open a library of the system. What is the
// app's own no such line brings: Quarry's libraries and Qualcomm's.
String with_manifest_line(std::string_view why);

// Whether the system finds a library that one in the folder `beside` needs by that name, as open_library would. (Of
// kLibraryForm Pe alone: there the system does not say which one was missing.)
bool finds_library(const char *name, const char *beside) noexcept;

// What a library exports by that name, nullptr: nothing.
void *find_symbol(void *library, const char *name) noexcept;
template <class Function>
void find_symbol(void *library, const char *name, Function *&out) noexcept {
  out = reinterpret_cast<Function *>(find_symbol(library, name));
}

// The file, as an absolute path, of the library or program that `address` lies in. Empty: that is not known.
String file_of(const void *address);

// The files of the libraries that the process has loaded, one after another.
void for_each_library(void (*visit)(void *self, std::string_view file), void *self);

}  // namespace quarry::os
