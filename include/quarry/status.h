/* SPDX-License-Identifier: Apache-2.0 */
/* qr_status: why a call failed. NULL is success. Every fallible function returns one; outputs are untouched on failure.
 */
#ifndef QUARRY_STATUS_H
#define QUARRY_STATUS_H

#include <quarry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The code of a status; QR_OK for NULL.
 * @param status  borrows: may be NULL.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API qr_code qr_status_code(const qr_status *status);

/* The code's name, "INVALID_ARGUMENT"; "UNKNOWN" for a number that is none.
 * @return  borrows: static, NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_code_name(qr_code code);

/* The stable id, "QR-C0107"; empty for NULL. docs/errors.md has a section for each id.
 * @param status  borrows: may be NULL.
 * @return  borrows: until the status is destroyed; NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_status_id(const qr_status *status);

/* What went wrong: subject, found, expected. Empty for NULL.
 * @param status  borrows: may be NULL.
 * @return  borrows: until the status is destroyed; NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_status_message(const qr_status *status);

/* What to do about it; may be empty.
 * @param status  borrows: may be NULL.
 * @return  borrows: until the status is destroyed; NUL-terminated.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_status_hint(const qr_status *status);

/* The number of detail frames. A refusal of several nodes carries one "reason" frame for each of them.
 * @param status  borrows: may be NULL.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_status_detail_count(const qr_status *status);

/* A detail frame: its key ("file", "node", "op", "tensor", "option", "backend", "reason") and value.
 * @param status     borrows: may be NULL (then both results are empty).
 * @param index      from 0; past the end gives two empty strings.
 * @param out_key    gives nothing: borrows until the status is destroyed; NUL-terminated.
 * @param out_value  likewise borrows.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_status_detail(const qr_status *status, uint64_t index, const char **out_key, const char **out_value);

/* Frees a status. Accepts NULL.
 * @param status  takes.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_status_destroy(qr_status *status);

#ifdef __cplusplus
}
#endif
#endif
