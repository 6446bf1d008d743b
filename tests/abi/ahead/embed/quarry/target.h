/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_target: where a call writes what it makes, a file or several that belong together. */
#ifndef QUARRY_TARGET_H
#define QUARRY_TARGET_H

#include <quarry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where to write. Start from one of the macros below; what a kind does not name is not looked at. Whatever the kind, a
 * call that fails leaves nothing half made that passes for the whole; a call that is stopped ends in the middle of
 * writing too. */
typedef struct qr_target {
  uint32_t struct_size;
  uint32_t kind; /* QR_TARGET_* */
  /* PATH: the bytes of its name; UTF-8 on Windows, Linux asks for none. The file appears whole or not at all: it is
   * written beside its place and put there. A device or a pipe is written where it is. Other kinds: the name that the
   * file would have. Its ending says the form where a call knows several, and what lies beside it is named by it.
   * Empty: as the call says. */
  qr_string path;
  int32_t fd;        /* DESCRIPTOR (not on Windows): written from its position on; it stays the caller's, and open */
  int32_t folder_fd; /* PATH: where a relative path begins (not on Windows); -1: in the working folder */
  void **out_data;   /* MEMORY: gives: qr_string_destroy; aligned to 64 bytes, with a NUL byte behind the last one */
  uint64_t *out_size_bytes; /* MEMORY: how many, without that NUL */
  void *self;
  /* WRITER: all of them are called on a thread that is inside the call, one at a time. 0, or an errno, which fails the
   * call: nothing is written after that. */
  /* May be NULL. A file begins; of several (a model and its constants) one after the other, and `more` follow. `name`:
   * without folders. `size_bytes`: how many it will have. */
  int32_t (*begin)(void *self, qr_string name, uint64_t size_bytes, uint64_t more);
  /* The next bytes of the file: they are the caller's no longer than the call. */
  int32_t (*write)(void *self, const void *data, uint64_t size_bytes);
  /* May be NULL. Once, behind everything, wherever `begin` or `write` was called: committed 1: all files are whole, and
   * an errno fails the call; 0: the call has failed, and what was written is of no use. */
  int32_t (*end)(void *self, int32_t committed);
  /* since one minor later */
  uint64_t later;
} qr_target;
#define QR_TARGET_FIRST_SIZE 80u
#define QR_TARGET_INIT \
  { sizeof(qr_target), 0, {NULL, 0}, -1, -1, NULL, NULL, NULL, NULL, NULL, NULL }

#define QR_TARGET_PATH 1u
/* One file alone. */
#define QR_TARGET_MEMORY 2u
/* One file alone. On a failure a regular file gets the length and position back that it had; the detail "written" of
 * the status says how many bytes cannot be taken back: of a pipe or socket, or written over others. */
#define QR_TARGET_DESCRIPTOR 3u
#define QR_TARGET_WRITER 4u

/* Targets as initialisers: qr_target target = QR_TARGET_AT("model.qrm"); */
#define QR_TARGET_AT(path) \
  { sizeof(qr_target), QR_TARGET_PATH, {path, QR_NUL_TERMINATED}, -1, -1, NULL, NULL, NULL, NULL, NULL, NULL }
#define QR_TARGET_IN_MEMORY(out_data, out_size_bytes) \
  { sizeof(qr_target), QR_TARGET_MEMORY, {NULL, 0}, -1, -1, out_data, out_size_bytes, NULL, NULL, NULL, NULL }
#define QR_TARGET_IN_FILE(fd) \
  { sizeof(qr_target), QR_TARGET_DESCRIPTOR, {NULL, 0}, fd, -1, NULL, NULL, NULL, NULL, NULL, NULL }
#define QR_TARGET_BY_WRITER(self, begin, write, end) \
  { sizeof(qr_target), QR_TARGET_WRITER, {NULL, 0}, -1, -1, NULL, NULL, self, begin, write, end }

#ifdef __cplusplus
}
#endif
#endif
