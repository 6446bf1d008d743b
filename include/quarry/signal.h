/* SPDX-License-Identifier: Apache-2.0 */
/* qr_signal: stops a call that is under way, from another thread or by a timeout. One signal may serve many calls. */
#ifndef QUARRY_SIGNAL_H
#define QUARRY_SIGNAL_H

#include <quarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of qr_signal_set_timeout. */
#define QR_NO_TIMEOUT 0xffffffffffffffffull

/* Creates a signal that is not aborted and has no timeout.
 * @param runtime     borrows: kept alive by the signal.
 * @param out_signal  gives: qr_signal_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_signal_create(qr_runtime *runtime, qr_signal **out_signal);

/* A signal for the calls that belong together: it is aborted when `parent` is, and what is left of the parent's timeout
 * counts from now on for all of them. By itself it may be aborted, and have a timeout of each call, without the parent
 * seeing it. It stays aborted when the parent is reset.
 * @param parent      borrows: kept alive by the new signal.
 * @param out_signal  gives: qr_signal_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_signal_derive(qr_signal *parent, qr_signal **out_signal);

/* Whether a call that began now would go on: for work of the caller's own between calls. NULL goes on.
 * @param signal  borrows.
 * @thread  [thread-safe] [in-callback]
 * @errors  CANCELLED (it is aborted), DEADLINE_EXCEEDED (no time is left)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_signal_check(const qr_signal *signal);

/* Makes the calls that use the signal return CANCELLED as soon as they can, now and until it is reset. NULL is ignored.
 * @param signal  borrows.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_signal_abort(qr_signal *signal);

/* Takes an abort back. NULL is ignored.
 * @param signal  borrows.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_signal_reset(qr_signal *signal);

/* Gives each later call that uses the signal this long, counted from its start, its waiting for other calls included.
 * NULL is ignored.
 * @param signal      borrows.
 * @param timeout_ns  in nanoseconds; 0: no time at all; QR_NO_TIMEOUT: no limit, as before the first call.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_signal_set_timeout(qr_signal *signal, uint64_t timeout_ns);

/* A descriptor that poll() calls readable while the signal is aborted, for a caller that waits for several things. A
 * child of fork() asks for it again: the number stays, and is from then on of what happens to the signal in the child.
 * Refused on Windows, where no descriptor goes from one library to another: ask qr_signal_check now and then.
 * @param signal  borrows.
 * @param out_fd  borrows: until the signal is destroyed; never read, written or closed by the caller.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no descriptor to be had)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_signal_fd(qr_signal *signal, int32_t *out_fd);

/* Frees a signal; calls that use it keep it alive. Accepts NULL.
 * @param signal  takes.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API void qr_signal_destroy(qr_signal *signal);

#ifdef __cplusplus
}
#endif
#endif
