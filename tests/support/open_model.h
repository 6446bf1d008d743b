/* SPDX-License-Identifier: Apache-2.0 */
/* qr_model_open for tests in C and C++: one source each, without qr_call_options; and a file to write to. */
#ifndef QUARRY_TESTS_OPEN_MODEL_H
#define QUARRY_TESTS_OPEN_MODEL_H

#include <quarry/quarry.h>
#include <string.h>

/* Every field set: the headers may be of another minor, whose struct is longer than the macros of today make it. */
static inline qr_model_source model_source(uint32_t kind) {
  qr_model_source source;
  memset(&source, 0, sizeof source);
  source.struct_size = sizeof source, source.kind = kind, source.fd = source.folder_fd = -1;
  return source;
}

static inline qr_status *model_at_path(qr_runtime *runtime, qr_string path, const qr_options *options,
                                       qr_model **out_model) {
  qr_model_source source = model_source(QR_SOURCE_PATH);
  source.path = path;
  return qr_model_open(runtime, &source, options, NULL, out_model);
}

static inline qr_status *model_in_file(qr_runtime *runtime, int32_t fd, uint64_t offset, uint64_t size_bytes,
                                       const qr_options *options, qr_model **out_model) {
  qr_model_source source = model_source(QR_SOURCE_DESCRIPTOR);
  source.fd = fd, source.offset = offset, source.size_bytes = size_bytes;
  return qr_model_open(runtime, &source, options, NULL, out_model);
}

static inline qr_status *model_in_memory(qr_runtime *runtime, const void *data, uint64_t size_bytes,
                                         const qr_options *options, qr_model **out_model) {
  qr_model_source source = model_source(QR_SOURCE_MEMORY);
  source.data = data, source.size_bytes = size_bytes;
  return qr_model_open(runtime, &source, options, NULL, out_model);
}

static inline qr_target file_target(const char *path) {
  qr_target target;
  memset(&target, 0, sizeof target);
  target.struct_size = sizeof target, target.kind = QR_TARGET_PATH, target.fd = target.folder_fd = -1;
  target.path.data = path, target.path.size = strlen(path);
  return target;
}

#endif
