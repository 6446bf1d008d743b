// SPDX-License-Identifier: Apache-2.0
// Memory that is more aligned than what malloc gives. Here and not in a file for each system: an allocation is no place
// for another call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#if defined(_WIN32)
#include <malloc.h>
#else
#include <sys/mman.h>
#endif

namespace quarry::os {

// `align`: a power of two, at least a pointer's size. nullptr: there is none.
inline void *allocate_aligned(std::size_t size, std::size_t align) noexcept {
#if defined(_WIN32)
  return ::_aligned_malloc(size, align);
#else
  void *out = nullptr;
  return ::posix_memalign(&out, align, size) == 0 ? out : nullptr;
#endif
}

// What is read and written all over is in large pages, where the system has them for who asks.
inline void prefer_large_pages([[maybe_unused]] void *memory, [[maybe_unused]] std::size_t size) noexcept {
#if defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t kPage = std::uintptr_t{2} << 20;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(memory) + kPage - 1) / kPage * kPage,
                       end = (reinterpret_cast<std::uintptr_t>(memory) + size) / kPage * kPage;
  if (begin < end) (void)::madvise(reinterpret_cast<void *>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

inline void free_aligned(void *memory) noexcept {
#if defined(_WIN32)
  ::_aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace quarry::os
