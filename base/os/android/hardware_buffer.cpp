// SPDX-License-Identifier: Apache-2.0
#include "base/os/hardware_buffer.h"

#include "base/os/library.h"

namespace quarry::os {

// Asked for by name, so that programs without such buffers load no library for them.
bool HardwareBufferCalls::find() noexcept {
  void *const library = open_library("libnativewindow.so");
  if (!library) return false;
  find_symbol(library, "AHardwareBuffer_acquire", acquire);
  find_symbol(library, "AHardwareBuffer_release", release);
  find_symbol(library, "AHardwareBuffer_describe", describe);
  find_symbol(library, "AHardwareBuffer_lock", lock);
  find_symbol(library, "AHardwareBuffer_unlock", unlock);
  find_symbol(library, "AHardwareBuffer_lockPlanes", lock_planes);  // the youngest, of API 29
  return lock_planes != nullptr;
}

void HardwareBuffer::hold(const HardwareBufferCalls &calls, void *buffer) noexcept {
  calls.acquire(buffer);
  buffer_ = buffer;
  release_ = calls.release;
}

int HardwareBuffer::lock(const HardwareBufferCalls &calls, const BufferDescription &described, std::uint64_t usage,
                         int fence, BufferPlanes &out) noexcept {
  int result;
  if (described.format == kBlobFormat) {
    out = {1, {{nullptr, 1, described.width}}};
    result = calls.lock(buffer_, usage, fence, nullptr, &out.planes[0].data);
  } else {
    result = calls.lock_planes(buffer_, usage, fence, nullptr, &out);
  }
  if (result == 0) unlock_ = calls.unlock;
  return -result;
}

}  // namespace quarry::os
