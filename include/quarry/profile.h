/* SPDX-License-Identifier: Apache-2.0 */
/* qr_profile: the events of runs: what ran, when, how long. Given to a run in qr_run_options. */
#ifndef QUARRY_PROFILE_H
#define QUARRY_PROFILE_H

#include <quarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* FROZEN. One event; times in nanoseconds on the monotonic clock. `unit` says what `value` counts ("cycles", "bytes";
 * empty: none). */
typedef struct qr_profile_event {
  qr_string name; /* the node's or phase's name */
  qr_string kind; /* "run", "node", "copy", "wait", "load" */
  qr_string op;   /* the operator; empty where the event is no node */
  qr_string unit;
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t value;
  uint64_t thread; /* the worker it ran on, from 0 */
} qr_profile_event;

/* Creates an empty profile.
 * @param runtime      borrows: kept alive by the profile.
 * @param out_profile  gives: qr_profile_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_profile_create(qr_runtime *runtime, qr_profile **out_profile);

/* The number of events so far; 0 for NULL.
 * @param profile  borrows.
 * @thread  [exclusive:profile]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_profile_event_count(const qr_profile *profile);

/* One event, in the order of their ends.
 * @param profile    borrows.
 * @param index      under qr_profile_event_count.
 * @param out_event  its strings are borrowed until the profile is cleared or destroyed.
 * @thread  [exclusive:profile]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_profile_event_at(const qr_profile *profile, uint64_t index,
                                                  qr_profile_event *out_event);

/* The events as a file's content: "chrome" (trace JSON for Perfetto and chrome://tracing) or "csv".
 * @param profile   borrows.
 * @param format    borrows.
 * @param out_text  gives: qr_string_destroy; NUL-terminated.
 * @thread  [exclusive:profile]
 * @errors  INVALID_ARGUMENT (unknown format), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_profile_export(const qr_profile *profile, qr_string format, char **out_text);

/* Forgets all events. NULL is ignored.
 * @param profile  borrows.
 * @thread  [exclusive:profile]
 * @errors  none
 * @since   0.1 */
QR_API void qr_profile_clear(qr_profile *profile);

/* Frees a profile. Accepts NULL.
 * @param profile  takes.
 * @thread  [exclusive:profile]
 * @errors  none
 * @since   0.1 */
QR_API void qr_profile_destroy(qr_profile *profile);

#ifdef __cplusplus
}
#endif
#endif
