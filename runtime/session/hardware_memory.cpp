// SPDX-License-Identifier: Apache-2.0
// Memory that is a buffer of Android's. Elsewhere nobody calls it, but tests (tests/support/native_window).
#include <algorithm>
#include <cerrno>

#include "base/os/file.h"
#include "base/os/library.h"
#include "base/os_error.h"
#include "runtime/core/runtime.h"
#include "runtime/session/memory.h"

namespace quarry {
namespace {

constexpr const char *kCall = "qr_memory_import_hardware_buffer";

// From where the first plane begins to where the last one ends, at `out_begin`. 0: that is no memory.
std::uint64_t lay_out(const os::BufferDescription &described, const os::BufferPlanes &locked, qr_buffer_layout &out,
                      char **out_begin) noexcept {
  if (described.width == 0 || described.height == 0 || locked.count > std::size(out.offset)) return 0;
  std::uintptr_t begin = UINTPTR_MAX, end = 0;
  for (std::uint32_t i = 0; i < locked.count; ++i) {
    const auto &plane = locked.planes[i];
    const auto at = reinterpret_cast<std::uintptr_t>(plane.data);
    const std::uint64_t half = i > 0, columns = (described.width + half) >> half,
                        rows = (described.height + half) >> half;
    begin = std::min(begin, at);
    // The last pixel ends with its own bytes: what is between it and the next is of another plane.
    end = std::max(
        end, at + (rows - 1) * plane.row_bytes + (columns - 1) * plane.pixel_bytes + locked.planes[0].pixel_bytes);
    out.offset[i] = at;
    out.row_bytes[i] = plane.row_bytes;
    out.pixel_bytes[i] = plane.pixel_bytes;
  }
  for (std::uint32_t i = 0; i < locked.count; ++i) out.offset[i] -= begin;
  out.format = described.format;
  out.width = described.width;
  out.height = described.height;
  out.plane_count = locked.count;
  *out_begin = reinterpret_cast<char *>(begin);
  return begin != 0 && begin < end ? end - begin : 0;
}

}  // namespace

Result<Ref<Memory>> Memory::import_hardware_buffer(Runtime &runtime, Device device, void *buffer, int fence,
                                                   const qr_memory_options &how, qr_buffer_layout &out_layout) {
  QR_RETURN_IF_ERROR(device->check(kCall));
  auto memory = Ref<Memory>::make(runtime, std::move(device), 0);
  OpenFd waited = fence < 0 ? OpenFd() : os::duplicate(fence);
  if (fence >= 0 && waited.get() < 0)
    return Status::errorf(ErrorId::bad_argument, "%s: fence %d: %s", kCall, fence, os_error_text(errno));
  os::HardwareBufferCalls android;
  if (!android.find())
    return Status::errorf(ErrorId::memory_unsupported,
                          "%s: found no hardware buffers, expected Android's of API 29: %s", kCall,
                          os::library_error());
  memory->buffer_.hold(android, buffer);
  os::BufferDescription described;
  android.describe(buffer, &described);
  const std::uint32_t access = memory->request(how).device_access;
  const std::uint64_t reads = access & QR_ACCESS_READ ? os::kProcessorReads : 0,
                      writes = access & QR_ACCESS_WRITE ? os::kProcessorWrites : 0;
  if (described.layers != 1 || (reads && !(described.usage & reads)) || (writes && !(described.usage & writes)))
    return Status::hinted(ErrorId::memory_unsupported,
                          "make it with AHARDWAREBUFFER_USAGE_CPU_READ_OFTEN and CPU_WRITE_OFTEN, or say in "
                          "options->device_access what of the two runs need",
                          "%s: found %u layers and usage 0x%llx, expected 1 and some of each of 0x%llx and 0x%llx",
                          kCall, described.layers, described.usage, reads, writes);
  os::BufferPlanes locked{};
  const int refused =
      memory->buffer_.lock(android, described, described.usage & (reads | writes), waited.release(), locked);
  char *begin = nullptr;
  if (!refused) memory->size_ = lay_out(described, locked, out_layout, &begin);
  if (memory->size_ == 0)
    return Status::errorf(ErrorId::memory_unsupported,
                          "%s: found a buffer of format 0x%x, %u x %u, which the system locks as %u planes: %s", kCall,
                          described.format, described.width, described.height, locked.count,
                          refused ? os_error_text(refused) : String("expected 1 to 3"));
  QR_RETURN_IF_ERROR(memory->adopt(begin, how));
  return memory;
}

}  // namespace quarry
