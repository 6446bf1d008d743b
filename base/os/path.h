// SPDX-License-Identifier: Apache-2.0
// Names of files and folders, and what lies behind them.
#pragma once

#include "base/alloc.h"

namespace quarry::os {

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

}  // namespace quarry::os
