/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_replay: a record of the calls that sessions made of Qualcomm's QNN library (option htp.record), made again of any
 * library: what a bug report to Qualcomm needs. In a library of its own, libquarry-replay, which a program links beside
 * libquarry of the same release; quarry.h does not include this header. The texts that these functions give are freed
 * with qr_string_destroy, and statuses with qr_status_destroy, as all others. */
#ifndef QUARRY_REPLAY_H
#define QUARRY_REPLAY_H

#include <quarry/call.h>
#include <quarry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How a record is replayed. */
typedef struct qr_replay_options {
  uint32_t struct_size;
  uint32_t flags;    /* QR_REPLAY_* */
  qr_string library; /* libQnnHtp.so or its folder; empty: as the option htp.library_path looks for it */
  /* since one minor later */
  uint64_t later;
} qr_replay_options;
#define QR_REPLAY_OPTIONS_FIRST_SIZE 24u
#define QR_REPLAY_OPTIONS_INIT                \
  {                                           \
    sizeof(qr_replay_options), 0, { NULL, 0 } \
  }

/* No call is made, and no library is needed: every call is read and listed. */
#define QR_REPLAY_LIST 1u
/* Makes the call, too, that had not returned when the record ended: it ended the process that recorded it, and may end
 * this one. */
#define QR_REPLAY_UNFINISHED 2u

/* Makes the calls of a record again, one after another on this thread, and compares the codes that they return and,
 * byte for byte, the outputs of runs. A process has one copy of QNN's libraries: a session's of it must be the same.
 * @param record           borrows: the file's name; UTF-8 on Windows, Linux asks for none.
 * @param options          borrows: may be NULL.
 * @param call             borrows: may be NULL; its signal ends the call between two of the library's.
 * @param out_report       gives: qr_string_destroy; JSON, whose schema is docs/formats/record.md.
 * @param out_differences  borrows: how many calls were others; may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT (no record, a damaged one), INCOMPATIBLE (of another version),
 *          UNSUPPORTED (its weights were left out), UNAVAILABLE (no library), INVALID_ARGUMENT, RESOURCE_EXHAUSTED,
 *          CANCELLED, DEADLINE_EXCEEDED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_replay(qr_string record, const qr_replay_options *options, const qr_call_options *call,
                                        char **out_report, uint64_t *out_differences);

#ifdef __cplusplus
}
#endif
#endif
