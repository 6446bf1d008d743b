/* SPDX-License-Identifier: Apache-2.0 */
/* What the C tests share: cmocka, expected errors, a counting allocator that can fail, and the digits model. */
#ifndef QUARRY_CAPI_TEST_H
#define QUARRY_CAPI_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <quarry/quarry.h>

#include "../support/open_model.h"

static inline qr_string str(const char *text) {
  qr_string out = {text, QR_NUL_TERMINATED};
  return out;
}

/* The call must succeed. */
#define OK(call)                                                                             \
  do {                                                                                       \
    qr_status *status_ = (call);                                                             \
    if (status_) {                                                                           \
      print_error("%s: %s: %s\n", #call, qr_status_id(status_), qr_status_message(status_)); \
      qr_status_destroy(status_);                                                            \
      fail();                                                                                \
    }                                                                                        \
  } while (0)

/* The call must fail with this id, and its message must hold the text. */
#define FAILS(id_, text_, call) expect_failure((call), (id_), (text_), #call, __FILE__, __LINE__)
static inline void expect_failure(qr_status *status, const char *id, const char *text, const char *call,
                                  const char *file, int line) {
  if (!status) {
    print_error("%s:%d: %s succeeded, expected %s\n", file, line, call, id);
    fail();
    return;
  }
  if (strcmp(qr_status_id(status), id) != 0 || !strstr(qr_status_message(status), text) ||
      qr_status_code(status) == QR_OK) {
    print_error("%s:%d: %s: found %s: %s, expected %s with '%s'\n", file, line, call, qr_status_id(status),
                qr_status_message(status), id, text);
    qr_status_destroy(status);
    fail();
    return;
  }
  qr_status_destroy(status);
}

/* Counts live blocks, checks that size and alignment given on free are those of the allocation, and fails the Nth
 * allocation. */
typedef struct counting_allocator {
  uint64_t live, made, fail_at; /* fail_at: 0 never; n: the n-th allocation from now on */
  int keep_failing;
  uint64_t mismatches;
} counting_allocator;

typedef struct block_header {
  uint64_t size, align;
} block_header;

static inline void *counting_alloc(void *self, uint64_t size, uint64_t align) {
  counting_allocator *counter = self;
  const uint64_t number = __atomic_add_fetch(&counter->made, 1, __ATOMIC_RELAXED);
  uint64_t offset = align < sizeof(block_header) ? sizeof(block_header) : align;
  void *raw = NULL;
  if (counter->fail_at && (number == counter->fail_at || (counter->keep_failing && number > counter->fail_at)))
    return NULL;
  if (posix_memalign(&raw, align < 16 ? 16 : align, size + offset) != 0) return NULL;
  memset(raw, 0xa5, size + offset);
  ((block_header *)((char *)raw + offset))[-1] = (block_header){size, align};
  __atomic_add_fetch(&counter->live, 1, __ATOMIC_RELAXED);
  return (char *)raw + offset;
}
static inline void counting_free(void *self, void *ptr, uint64_t size, uint64_t align) {
  counting_allocator *counter = self;
  const block_header header = ((block_header *)ptr)[-1];
  const uint64_t offset = align < sizeof(block_header) ? sizeof(block_header) : align;
  if (header.size != size || header.align != align) {
    __atomic_add_fetch(&counter->mismatches, 1, __ATOMIC_RELAXED);
    return; /* leaked on purpose: where the block begins is not known */
  }
  __atomic_sub_fetch(&counter->live, 1, __ATOMIC_RELAXED);
  memset(ptr, 0xdd, size);
  free((char *)ptr - offset);
}
static inline qr_allocator counting(counting_allocator *counter) {
  qr_allocator out = QR_ALLOCATOR_INIT;
  out.self = counter;
  out.alloc = counting_alloc;
  out.free = counting_free;
  return out;
}

static inline const char *digits_path(void) {
  const char *root = getenv("QUARRY_SOURCE_ROOT");
  static char path[4096];
  snprintf(path, sizeof path, "%s/models/digits/digits.onnx", root ? root : ".");
  return path;
}

/* A container of the digits model, compiled once per test program into the current folder. */
static inline const char *digits_qrm(const char *name) {
  static char path[4096];
  qr_runtime *runtime = NULL;
  qr_model *model = NULL;
  snprintf(path, sizeof path, "./%s.qrm", name);
  OK(qr_runtime_create(NULL, &runtime));
  OK(model_at_path(runtime, str(digits_path()), NULL, &model));
  OK(qr_model_compile(model, NULL, &(qr_target)QR_TARGET_AT(path), NULL));
  qr_model_destroy(model);
  qr_runtime_destroy(runtime);
  return path;
}

#endif
