/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_memory: buffers that a device reads and writes without a copy. A tensor names one by `memory` and `memory_offset`.
 * Memory belongs to a device of a backend: every session of the same runtime on that device may use it, whichever model
 * it runs. It keeps the backend alive, not the session that it was made with. */
#ifndef QUARRY_MEMORY_H
#define QUARRY_MEMORY_H

#include <quarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QR_ACCESS_READ 1
#define QR_ACCESS_WRITE 2

/* How memory will be used. NULL or zero: read and written by the device, with a view for the host. */
typedef struct qr_memory_options {
  uint32_t struct_size;
  uint32_t device_access; /* QR_ACCESS_*: what runs will do with it; 0: both */
  uint64_t flags;         /* QR_MEMORY_* */
  /* Whose memory, where it is made before there is a session (then `session` is NULL): device `device` of the backend.
   */
  qr_runtime *runtime; /* borrows: kept alive by the memory */
  qr_string backend;   /* its id: "gpu" */
  uint32_t device;     /* its number, as the option "device_id" has it */
  uint32_t reserved;
  /* since one minor later */
  uint64_t later;
} qr_memory_options;
#define QR_MEMORY_OPTIONS_FIRST_SIZE 48u
#define QR_MEMORY_OPTIONS_INIT \
  { sizeof(qr_memory_options), 0, 0, NULL, {NULL, 0}, 0, 0 }

/* The host needs no view: device memory that is best for runs. qr_memory_map may still give one. */
#define QR_MEMORY_NO_HOST_POINTER 1ull

/* Allocates memory that suits a device (at least 64-byte aligned, zero-filled where the host has a view).
 * @param session     borrows: says the device; NULL: the options say it.
 * @param size_bytes  at least 1.
 * @param options     borrows: may be NULL.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, UNSUPPORTED (an option that the device cannot serve), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_allocate(qr_session *session, uint64_t size_bytes,
                                                 const qr_memory_options *options, qr_memory **out_memory);

/* Makes an existing file descriptor (memfd, dma-buf) usable. The descriptor is duplicated; the caller keeps its own.
 * Refused on Windows (see qr_signal_fd): map the memory and give it to qr_memory_register.
 * @param session     borrows: says the device; NULL: the options say it.
 * @param fd          borrows.
 * @param offset      in bytes, into the file.
 * @param size_bytes  at least 1; offset + size_bytes must lie inside the file.
 * @param options     borrows: may be NULL.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, OUT_OF_RANGE, UNSUPPORTED (the device cannot import), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_import_fd(qr_session *session, int32_t fd, uint64_t offset, uint64_t size_bytes,
                                                  const qr_memory_options *options, qr_memory **out_memory);

/* Makes memory of the caller's usable. It must stay valid until qr_memory_destroy.
 * @param session     borrows: says the device; NULL: the options say it.
 * @param data        borrows: until qr_memory_destroy.
 * @param size_bytes  at least 1.
 * @param options     borrows: may be NULL.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_register(qr_session *session, void *data, uint64_t size_bytes,
                                                 const qr_memory_options *options, qr_memory **out_memory);

#define QR_BUFFER_PLANES 3

/* How a hardware buffer lies in memory while it is locked: a picture as one plane or several, with bytes between its
 * rows where the system wants them; a buffer of bytes (BLOB) as one plane of one row. */
typedef struct qr_buffer_layout {
  uint32_t struct_size;
  uint32_t format;      /* AHARDWAREBUFFER_FORMAT_*: 0x21 BLOB, 1 R8G8B8A8_UNORM, 0x23 Y8Cb8Cr8_420, ... */
  uint32_t width;       /* in pixels; of a BLOB bytes */
  uint32_t height;      /* of a BLOB 1 */
  uint32_t plane_count; /* 1, or 3: Y, Cb, Cr, the last two of half the width and height, rounded up */
  uint32_t reserved;
  uint64_t offset[QR_BUFFER_PLANES];      /* where each plane begins in the memory, in bytes */
  uint32_t row_bytes[QR_BUFFER_PLANES];   /* from one row to the next, with the room between them */
  uint32_t pixel_bytes[QR_BUFFER_PLANES]; /* from one pixel to the next: 2 of interleaved Cb and Cr (NV12, NV21) */
  /* since one minor later */
  uint64_t later;
} qr_buffer_layout;
#define QR_BUFFER_LAYOUT_FIRST_SIZE 72u
#define QR_BUFFER_LAYOUT_INIT                                                  \
  {                                                                            \
    sizeof(qr_buffer_layout), 0, 0, 0, 0, 0, {0, 0, 0}, {0, 0, 0}, { 0, 0, 0 } \
  }

/* Makes a buffer of Android's (AHardwareBuffer: a picture of the camera, of a decoder or the GPU, or bytes) usable. It
 * is held, and locked for the processor from now until qr_memory_destroy, so that nobody else writes to it: import it
 * when its producer has given it, destroy the memory before it goes on. The memory has a view for the host, and runs
 * use it where it lies; a tensor whose pixels do not follow one another in it (row_bytes) is the caller's to copy.
 * Android alone has such buffers, from API 29 on; elsewhere the call is refused (UNSUPPORTED).
 * @param session     borrows: says the device; NULL: the options say it.
 * @param buffer      borrows: an AHardwareBuffer *, whose usage has CPU_READ and CPU_WRITE, as far as options'
 * device_access has QR_ACCESS_READ and QR_ACCESS_WRITE; of one layer.
 * @param fence       borrows: a descriptor that says when the producer has written, which is waited for; -1: it has.
 * @param options     borrows: may be NULL.
 * @param out_layout  borrows: may be NULL.
 * @param out_memory  gives: qr_memory_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  INVALID_ARGUMENT, UNSUPPORTED (no such buffers here, a usage or form that cannot be locked),
 * RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_import_hardware_buffer(qr_session *session, void *buffer, int32_t fence,
                                                               const qr_memory_options *options,
                                                               qr_buffer_layout *out_layout, qr_memory **out_memory);

/* The host's view of the memory; NULL for NULL, and where there is none (see qr_memory_map).
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

/* Gives the host a view of memory that has none of its own, and begins an access to it. No run may use the memory until
 * qr_memory_unmap.
 * @param memory    borrows.
 * @param access    QR_ACCESS_*: what the host will do.
 * @param out_data  borrows: until qr_memory_unmap.
 * @thread  [exclusive:memory] [blocking]
 * @errors  INVALID_ARGUMENT, FAILED_PRECONDITION (mapped already), UNSUPPORTED, DEVICE_LOST, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_map(qr_memory *memory, uint32_t access, void **out_data);

/* Ends what qr_memory_map began.
 * @param memory  borrows.
 * @thread  [exclusive:memory] [blocking]
 * @errors  FAILED_PRECONDITION (not mapped), DEVICE_LOST
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_unmap(qr_memory *memory);

/* Where host and device do not see each other's writes by themselves: goes before the host reads or writes what
 * qr_memory_data points to. Costs nothing where they do. Runs see to the rest.
 * @param memory  borrows.
 * @param access  QR_ACCESS_*: what the host will do.
 * @thread  [exclusive:memory] [blocking]
 * @errors  INVALID_ARGUMENT, DEVICE_LOST
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_begin_access(qr_memory *memory, uint32_t access);

/* Goes after it.
 * @param memory  borrows.
 * @param access  as given to qr_memory_begin_access.
 * @thread  [exclusive:memory] [blocking]
 * @errors  INVALID_ARGUMENT, DEVICE_LOST
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_end_access(qr_memory *memory, uint32_t access);

/* A descriptor of the memory, for another process or device. Refused on Windows (see qr_signal_fd).
 * @param memory      borrows.
 * @param out_fd      gives: close().
 * @param out_offset  where the memory begins in it, in bytes.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, UNSUPPORTED (the memory has none), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_memory_export_fd(qr_memory *memory, int32_t *out_fd, uint64_t *out_offset);

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
