// SPDX-License-Identifier: Apache-2.0
#include "base/os/hardware_buffer.h"

#include <cstring>

#include "base/os/library.h"

namespace quarry::os {

// Asked for by name, so that programs without such buffers load no library for them.
bool HardwareBuffer::take(void *buffer, BufferDescription &out) noexcept {
  void *const library = open_library("libnativewindow.so");
  if (!library) return false;
  static constexpr char kNames[][11] = {"acquire", "release", "describe", "lock", "lockPlanes", "unlock"};
  static_assert(sizeof(Functions) == sizeof kNames / sizeof kNames[0] * sizeof(void *));
  void **function = reinterpret_cast<void **>(&functions_);
  for (const char *const name : kNames) {
    char whole[32] = "AHardwareBuffer_";
    std::strcpy(whole + 16, name);
    if (!(*function++ = find_symbol(library, whole))) return false;
  }
  buffer_ = buffer;
  functions_.acquire(buffer);
  functions_.describe(buffer, &out);
  return true;
}

int HardwareBuffer::lock(const BufferDescription &described, std::uint64_t usage, int fence,
                         BufferPlanes &out) noexcept {
  int result;
  if (described.format == kBlobFormat) {
    out = {1, {{nullptr, 1, described.width}}};
    result = functions_.lock(buffer_, usage, fence, nullptr, &out.planes[0].data);
  } else {
    result = functions_.lock_planes(buffer_, usage, fence, nullptr, &out);
  }
  is_locked_ = result == 0;
  return -result;
}

}  // namespace quarry::os
