// SPDX-License-Identifier: Apache-2.0
// The files of Qualcomm's libraries: what they are called on each system, and whether one is a library for this
// machine.
#pragma once

#include "base/os/library.h"
#include "base/os/path.h"
#include "base/status.h"

// QnnHtp.dll on Windows, libQnnHtp.so elsewhere. What the DSP loads (skels) is an ELF file on every system.
#define QR_QNN_FILE(name) QR_LIBRARY_PREFIX name QR_LIBRARY_SUFFIX

namespace quarry::qnn {

// What the hint says where a library is not there, or is another.
extern const char *const kHowToGet;

bool is_folder(const String &path);
bool is_file(const String &path);
// Empty: the name has none.
String folder_of(const String &file);

// Opens it; refuses in words what is no library for this machine, of which the system's loader says little.
Result<void *> open_file(const String &path);

Status unfit(const String &path, const String &found, const String &expected, std::string_view hint = kHowToGet);

}  // namespace quarry::qnn
