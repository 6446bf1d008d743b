/* SPDX-License-Identifier: Apache-2.0 */
/* A libnativewindow.so for tests: Android's hardware buffers over shared memory, with what a test wants to see and to
 * bring about. While nobody holds the lock nobody reaches the memory; who locks for reading alone cannot write. */
#ifndef QUARRY_TESTS_NATIVE_WINDOW_H
#define QUARRY_TESTS_NATIVE_WINDOW_H

#include <stdint.h>

enum {
  WINDOW_RGBA = 1,
  WINDOW_BLOB = 0x21,
  WINDOW_YUV = 0x23, /* Y8Cb8Cr8_420 */
  WINDOW_R8 = 0x38,
  WINDOW_READS = 3,
  WINDOW_READS_RARELY = 2,
  WINDOW_WRITES = 3 << 4,
  WINDOW_SAMPLED = 1 << 8, /* by the GPU */
  WINDOW_CAMERA = 1 << 17
};

/* AHardwareBuffer_Desc. */
typedef struct window_description {
  uint32_t width, height, layers, format;
  uint64_t usage;
  uint32_t stride, reserved;
  uint64_t reserved_too;
} window_description;

/* How the next buffers are laid out, and what goes wrong. */
typedef struct window_script {
  uint32_t row_align;  /* of rows, in pixels; 0: none */
  uint32_t chroma_gap; /* bytes between Y and the colours */
  int swapped, planar; /* Cr before Cb (NV21); three planes (I420) */
  int refuse_lock;     /* the errno of every lock; 0: none */
  int32_t planes;      /* that lockPlanes says there are; 0: those that there are */
  int hides_data;      /* locks say that the data lies nowhere */
} window_script;

typedef struct window_counts {
  int buffers, references, locks; /* that are there now */
  int read_locks, write_locks;    /* that were given */
  int fences;                     /* that were waited for and closed */
  int mistakes;                   /* calls that Android leaves undefined, or refuses */
  uint64_t last_usage;
} window_counts;

/* The library's own: test programs look them up by these names. Not of Android. */
typedef void set_window_script_fn(const window_script *script); /* NULL: as it began */
typedef const window_counts *count_windows_fn(void);
typedef void *window_memory_fn(void *buffer); /* the producer's view, which no lock concerns */

/* Of Android's. */
typedef int allocate_window_fn(const window_description *description, void **out);
typedef void release_window_fn(void *buffer);

#endif
