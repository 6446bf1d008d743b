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

// A buffer that is held, and locked for the processor, as long as the object lives.
class HardwareBuffer {
 public:
  HardwareBuffer() noexcept = default;
  // Without a fence it is unlocked when what the processor wrote is there for all others.
  ~HardwareBuffer() {
    if (is_locked_) functions_.unlock(buffer_, nullptr);
    if (buffer_) functions_.release(buffer_);
  }
  HardwareBuffer(const HardwareBuffer &) = delete;
  HardwareBuffer &operator=(const HardwareBuffer &) = delete;

  // Holds `buffer`, an AHardwareBuffer *. False: the system's library is not there, library_error() says why.
  bool take(void *buffer, BufferDescription &out) noexcept;
  // Waits for `fence`, which the system closes (-1: for none), and locks the buffer, which was taken; of a blob there
  // is one plane of one row. 0, or an errno.
  int lock(const BufferDescription &described, std::uint64_t usage, int fence, BufferPlanes &out) noexcept;

 private:
  struct Functions {
    void (*acquire)(void *buffer);
    void (*release)(void *buffer);
    void (*describe)(const void *buffer, BufferDescription *out);
    int (*lock)(void *buffer, std::uint64_t usage, std::int32_t fence, const void *part, void **out_data);
    int (*lock_planes)(void *buffer, std::uint64_t usage, std::int32_t fence, const void *part, BufferPlanes *out);
    int (*unlock)(void *buffer, std::int32_t *out_fence);
  };
  Functions functions_{};
  void *buffer_ = nullptr;
  bool is_locked_ = false;
};

}  // namespace quarry::os
