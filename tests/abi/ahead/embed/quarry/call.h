/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_call_options: how a call that may take long is watched, stopped and measured. */
#ifndef QUARRY_CALL_H
#define QUARRY_CALL_H

#include <quarry/profile.h>
#include <quarry/signal.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What qr_progress.report answers. */
#define QR_GO_ON 0
#define QR_STOP 1 /* as every other value than 0 */

/* Called with how far a long call has come: `done` of `total` steps (total 0: not known) and what it is doing. On
 * whichever thread is inside Quarry, one call at a time. Where it answers QR_STOP the call ends as soon as it can, with
 * CANCELLED and the id QR-C0013, as if its signal were aborted, and reports no more; the signal itself stays as it is.
 */
typedef struct qr_progress {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  int32_t (*report)(void *self, uint64_t done, uint64_t total, qr_string what);
  /* since one minor later */
  uint64_t later;
} qr_progress;
#define QR_PROGRESS_FIRST_SIZE 24u
#define QR_PROGRESS_INIT \
  { sizeof(qr_progress), 0, NULL, NULL }

/* Of a call that compiles, loads or creates. NULL for the struct, or for a member, means: not wanted. */
typedef struct qr_call_options {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;              /* none yet: must be 0 */
  qr_signal *signal;           /* borrows: aborts or limits the call */
  qr_profile *profile;         /* borrows: receives the events of compiling and loading, see profile.h */
  const qr_progress *progress; /* borrows: gets how far the call is */
  /* since one minor later */
  uint64_t later;
} qr_call_options;
#define QR_CALL_OPTIONS_FIRST_SIZE 40u
#define QR_CALL_OPTIONS_INIT \
  { sizeof(qr_call_options), 0, 0, NULL, NULL, NULL }

#ifdef __cplusplus
}
#endif
#endif
