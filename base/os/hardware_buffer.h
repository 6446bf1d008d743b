// SPDX-License-Identifier: Apache-2.0
// Buffers that the parts of Android hand to one another: pictures of the camera, of decoders, of the GPU
// (AHardwareBuffer), and how the processor reads and writes them.
#pragma once

#include <cstdint>

namespace quarry::os {

// Whether this is built for a system that has them, or to be tested on Linux with a library in the place of Android's
// (tests/support).
#if defined(__ANDROID__) || defined(QR_TEST_HARDWARE_BUFFERS)
inline constexpr bool kHasHardwareBuffers = true;
#else
inline constexpr bool kHasHardwareBuffers = false;
#endif

inline constexpr std::uint32_t kBlobFormat = 0x21;  // bytes, whose number is the width; all other formats are pictures
// What the maker of a buffer said that the processor does with it, and how often.
inline constexpr std::uint64_t kProcessorReads = 0xf, kProcessorWrites = 0xf0;

// Android's AHardwareBuffer_Desc.
struct BufferDescription {
  std::uint32_t width, height, layers, format;
  std::uint64_t usage;
  std::uint32_t row_pixels, unused;
  std::uint64_t unused_too;
};
// Android's AHardwareBuffer_Planes.
struct BufferPlanes {
  std::uint32_t count;
  struct {
    void *data;
    std::uint32_t pixel_bytes, row_bytes;
  } planes[4];
};

// Android's functions.
struct HardwareBufferCalls {
  void (*acquire)(void *buffer);
  void (*release)(void *buffer);
  void (*describe)(const void *buffer, BufferDescription *out);
  int (*lock)(void *buffer, std::uint64_t usage, std::int32_t fence, const void *part, void **out_data);
  int (*lock_planes)(void *buffer, std::uint64_t usage, std::int32_t fence, const void *part, BufferPlanes *out);
  int (*unlock)(void *buffer, std::int32_t *out_fence);

  // False: the system's library is not there, or is too old; library_error() says why.
  bool find() noexcept;
};

// A buffer that is held, and locked for the processor, as long as the object lives.
class HardwareBuffer {
 public:
  HardwareBuffer() noexcept = default;
  // Without a fence it is unlocked when what the processor wrote is there for all others.
  ~HardwareBuffer() {
    if (unlock_) unlock_(buffer_, nullptr);
    if (release_) release_(buffer_);
  }
  HardwareBuffer(const HardwareBuffer &) = delete;
  HardwareBuffer &operator=(const HardwareBuffer &) = delete;

  void hold(const HardwareBufferCalls &calls, void *buffer) noexcept;
  // Waits for `fence`, which the system closes (-1: for none), and locks the buffer, which is held; of a blob there is
  // one plane of one row. 0, or an errno.
  int lock(const HardwareBufferCalls &calls, const BufferDescription &described, std::uint64_t usage, int fence,
           BufferPlanes &out) noexcept;

 private:
  void *buffer_ = nullptr;
  void (*release_)(void *buffer) = nullptr;                         // null: nothing is held
  int (*unlock_)(void *buffer, std::int32_t *out_fence) = nullptr;  // null: it is not locked
};

}  // namespace quarry::os
