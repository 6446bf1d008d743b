/* SPDX-License-Identifier: Apache-2.0 */
/* qr_memory: buffers that a backend reads and writes without a copy. A tensor names one by `memory` and
 * `memory_offset`. */
#ifndef QUARRY_MEMORY_H
#define QUARRY_MEMORY_H

#include <quarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates memory that suits the session's device (64-byte aligned, zero-filled).
 * @param session     borrows: the memory may be used with this session and its clones, and keeps their context alive.
 * @param size_bytes  at least 1.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_allocate(qr_session *session, uint64_t size_bytes, qr_memory **out_memory);

/* Makes an existing file descriptor (memfd, dma-buf) usable. The descriptor is duplicated; the caller keeps its own.
 * @param session     borrows: as in qr_memory_allocate.
 * @param fd          borrows.
 * @param offset      in bytes, into the file.
 * @param size_bytes  at least 1; offset + size_bytes must lie inside the file.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, OUT_OF_RANGE, UNSUPPORTED (the device cannot import), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_import_fd(qr_session *session, int32_t fd, uint64_t offset, uint64_t size_bytes,
                                                  qr_memory **out_memory);

/* Makes memory of the caller's usable. It must stay valid until qr_memory_destroy.
 * @param session     borrows: as in qr_memory_allocate.
 * @param data        borrows: until qr_memory_destroy.
 * @param size_bytes  at least 1.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_register(qr_session *session, void *data, uint64_t size_bytes,
                                                 qr_memory **out_memory);

/* The host's view of the memory; NULL for NULL.
 * @param memory  borrows.
 * @return  borrows: until qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API void *qr_memory_data(qr_memory *memory);

/* The size in bytes; 0 for NULL.
 * @param memory  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_memory_size(const qr_memory *memory);

/* Lets go of the memory. Accepts NULL. A run that uses it must have returned.
 * @param memory  takes.
 * @thread  [exclusive:memory]
 * @errors  none
 * @since   0.1 */
QR_API void qr_memory_destroy(qr_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
