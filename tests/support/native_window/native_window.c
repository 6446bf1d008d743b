/* SPDX-License-Identifier: Apache-2.0 */
#include "native_window.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHOWN __attribute__((visibility("default")))
#define ALL_READS 0xfu
#define ALL_WRITES 0xf0u

typedef struct window {
  window_description description;
  window_script script; /* as it was when the buffer was made */
  uint64_t size;
  int references, is_locked;
  unsigned char *own, *locked; /* two views of one memory */
} window;
typedef struct window_planes {
  uint32_t count;
  struct {
    void *data;
    uint32_t pixel_bytes, row_bytes;
  } planes[4];
} window_planes;

static pthread_mutex_t g_mutex = PTHREAD_MUTEX_INITIALIZER;
static window_counts g_counts;
static window_script g_script;

SHOWN void set_window_script(const window_script *script) {
  g_script = script ? *script : (window_script){0, 0, 0, 0, 0, 0, 0};
}
SHOWN const window_counts *count_windows(void) { return &g_counts; }
SHOWN void *window_memory(void *buffer) { return ((window *)buffer)->own; }

static int mistake(void) {
  ++g_counts.mistakes;
  return -EINVAL;
}

static uint32_t pixel_bytes(const window *of) {
  return of->description.format == WINDOW_RGBA ? 4 : 1; /* Y, R8 and bytes have one */
}

static void lay_out(const window *of, unsigned char *base, window_planes *out) {
  const uint32_t row = of->description.stride * pixel_bytes(of);
  memset(out, 0, sizeof *out);
  out->count = of->description.format == WINDOW_YUV ? 3 : 1;
  out->planes[0].data = base, out->planes[0].pixel_bytes = pixel_bytes(of), out->planes[0].row_bytes = row;
  if (out->count == 1) return;
  const uint32_t step = of->script.planar ? 1 : 2, chroma_row = of->script.planar ? (row + 1) / 2 : row + row % 2;
  unsigned char *const colours = base + (uint64_t)row * of->description.height + of->script.chroma_gap;
  unsigned char *const second =
      colours + (of->script.planar ? (uint64_t)chroma_row * ((of->description.height + 1) / 2) : 1);
  for (int i = 1; i < 3; ++i) {
    out->planes[i].data = (i == 1) != of->script.swapped ? colours : second;
    out->planes[i].pixel_bytes = step, out->planes[i].row_bytes = chroma_row;
  }
}

/* False: the system has no room, and nothing is mapped. */
static int map_twice(window *made) {
  const int file = memfd_create("window", MFD_CLOEXEC);
  made->own = made->locked = MAP_FAILED;
  if (file < 0) return 0;
  if (ftruncate(file, (off_t)made->size) == 0) {
    made->own = mmap(NULL, made->size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    made->locked = mmap(NULL, made->size, PROT_NONE, MAP_SHARED, file, 0);
  }
  close(file);
  if (made->own != MAP_FAILED && made->locked != MAP_FAILED) return 1;
  if (made->own != MAP_FAILED) munmap(made->own, made->size);
  if (made->locked != MAP_FAILED) munmap(made->locked, made->size);
  return 0;
}

SHOWN int AHardwareBuffer_allocate(const window_description *description, void **out) {
  window *const made = calloc(1, sizeof *made);
  const uint32_t align = g_script.row_align ? g_script.row_align : 1;
  if (!made) return -ENOMEM;
  made->description = *description;
  made->script = g_script;
  made->description.stride = (description->width + align - 1) / align * align;
  if (description->format == WINDOW_BLOB && description->height != 1) {
    free(made);
    return mistake();
  }
  /* Room for all planes, and the last row whole. */
  made->size = (uint64_t)(made->description.stride + 2) * pixel_bytes(made) * (description->height + 2) * 2 +
               made->script.chroma_gap;
  if (!map_twice(made)) {
    free(made);
    return -ENOMEM;
  }
  made->references = 1;
  pthread_mutex_lock(&g_mutex);
  ++g_counts.buffers, ++g_counts.references;
  pthread_mutex_unlock(&g_mutex);
  *out = made;
  return 0;
}

SHOWN void AHardwareBuffer_acquire(void *buffer) {
  pthread_mutex_lock(&g_mutex);
  ++((window *)buffer)->references, ++g_counts.references;
  pthread_mutex_unlock(&g_mutex);
}

SHOWN void AHardwareBuffer_release(void *buffer) {
  window *const of = buffer;
  pthread_mutex_lock(&g_mutex);
  --g_counts.references;
  const int is_last = --of->references == 0;
  if (is_last) {
    if (of->is_locked) mistake();
    --g_counts.buffers;
  }
  pthread_mutex_unlock(&g_mutex);
  if (!is_last) return;
  munmap(of->own, of->size), munmap(of->locked, of->size);
  free(of);
}

SHOWN void AHardwareBuffer_describe(const void *buffer, window_description *out) {
  *out = ((const window *)buffer)->description;
}

/* The fence is the library's from here on, whatever comes of it. */
static int begin(window *of, uint64_t usage, int32_t fence, const void *part) {
  int result = 0;
  if (fence >= 0) {
    struct pollfd wait = {fence, POLLIN, 0};
    while (poll(&wait, 1, -1) < 0 && errno == EINTR) continue;
    close(fence);
    ++g_counts.fences;
  }
  pthread_mutex_lock(&g_mutex);
  const uint64_t kinds[2] = {usage & ALL_READS, usage & ALL_WRITES};
  g_counts.last_usage = usage;
  if (part || usage == 0 || usage & ~(uint64_t)(ALL_READS | ALL_WRITES) || of->is_locked ||
      kinds[0] > (of->description.usage & ALL_READS) || kinds[1] > (of->description.usage & ALL_WRITES))
    result = mistake();
  else if (g_script.refuse_lock) result = -g_script.refuse_lock;
  if (result == 0) {
    of->is_locked = 1;
    ++g_counts.locks, g_counts.read_locks += kinds[0] != 0, g_counts.write_locks += kinds[1] != 0;
    /* (A processor that writes reads, too.) */
    mprotect(of->locked, of->size, kinds[1] ? PROT_READ | PROT_WRITE : PROT_READ);
  }
  pthread_mutex_unlock(&g_mutex);
  return result;
}

SHOWN int AHardwareBuffer_lock(void *buffer, uint64_t usage, int32_t fence, const void *part, void **out) {
  window *const of = buffer;
  if (of->description.format == WINDOW_YUV) mistake(); /* has planes */
  const int result = begin(of, usage, fence, part);
  *out = result == 0 && !g_script.hides_data ? of->locked : NULL;
  return result;
}

SHOWN int AHardwareBuffer_lockPlanes(void *buffer, uint64_t usage, int32_t fence, const void *part,
                                     window_planes *out) {
  window *const of = buffer;
  if (of->description.format == WINDOW_BLOB) mistake(); /* is no picture */
  const int result = begin(of, usage, fence, part);
  if (result != 0) return result;
  lay_out(of, of->locked, out);
  if (g_script.planes) out->count = (uint32_t)g_script.planes;
  if (g_script.hides_data) memset(out, 0, sizeof *out);
  return 0;
}

SHOWN int AHardwareBuffer_unlock(void *buffer, int32_t *out_fence) {
  window *const of = buffer;
  int result = 0;
  pthread_mutex_lock(&g_mutex);
  if (of->is_locked) {
    of->is_locked = 0;
    --g_counts.locks;
    mprotect(of->locked, of->size, PROT_NONE);
  } else {
    result = mistake();
  }
  pthread_mutex_unlock(&g_mutex);
  if (out_fence) *out_fence = -1;
  return result;
}
