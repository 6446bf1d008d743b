/* SPDX-License-Identifier: Apache-2.0 */
/* The malloc of the process, whose Nth call fails: of protobuf, the C++ library and the dynamic linker too. Included by
 * one file of a program. */
#ifndef QUARRY_FAILING_MALLOC_H
#define QUARRY_FAILING_MALLOC_H

#include <errno.h>
#include <malloc.h>
#include <stdint.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *ptr, size_t size);
extern void *__libc_memalign(size_t align, size_t size);

static uint64_t calls, fail_at;
static int fails(void) {
  if (!__atomic_load_n(&fail_at, __ATOMIC_RELAXED)) return 0;
  if (__atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) != fail_at) return 0;
  errno = ENOMEM;
  return 1;
}
void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *ptr, size_t size) { return fails() ? NULL : __libc_realloc(ptr, size); }
int posix_memalign(void **out, size_t align, size_t size) {
  void *ptr = fails() ? NULL : __libc_memalign(align, size);
  if (!ptr) return ENOMEM;
  *out = ptr;
  return 0;
}

/* The n-th call from now on fails, that one alone. */
static inline void fail_malloc(uint64_t n) {
  __atomic_store_n(&calls, 0, __ATOMIC_RELAXED);
  __atomic_store_n(&fail_at, n, __ATOMIC_RELAXED);
}
/* None fails any longer; gives the number of calls since. */
static inline uint64_t stop_failing_malloc(void) {
  const uint64_t made = __atomic_load_n(&calls, __ATOMIC_RELAXED);
  __atomic_store_n(&fail_at, 0, __ATOMIC_RELAXED);
  return made;
}

#endif
