// SPDX-License-Identifier: Apache-2.0
// Memory that is more aligned than what malloc gives. Here and not in a file for each system: an allocation is no place
// for another call.
#pragma once

#include <cstddef>
#include <cstdlib>
#if defined(_WIN32)
#include <malloc.h>
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

inline void free_aligned(void *memory) noexcept {
#if defined(_WIN32)
  ::_aligned_free(memory);
#else
  std::free(memory);
#endif
}

}  // namespace quarry::os
