/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_state: what a session keeps from one run to the next. The option "state" pairs inputs with outputs (the caches of
 * a decoder, the h and c of a recurrent layer, the buffers of a streaming filter): those are no longer given and taken
 * by the caller, and are missing in qr_session_input and qr_session_output.
 *
 * A pair that grows (a cache to which each run appends along one axis) has room for "state.capacity" entries; where the
 * device has QR_DEVICE_APPENDS what is there stays where it is and the run writes the new entries behind it. Any other
 * pair keeps its size, and is zeros after a reset. A run that fails leaves the state as it was. State lies in the
 * host's memory: a lost device loses none of it.
 *
 * The option "state.type" keeps what grows in another type than the model has. U8: bytes b, and for each row along the
 * last axis a number s, the pair beside it whose name ends in ".state_scales"; a row stands for (b - 128) s. */
#ifndef QUARRY_STATE_H
#define QUARRY_STATE_H

#include <quarry/session.h>
#include <quarry/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a pair is. */
typedef struct qr_state_info {
  uint32_t struct_size;
  int32_t axis;    /* along which it grows; -1: it keeps its size */
  qr_string input; /* both live as long as the state */
  qr_string output;
  qr_dtype dtype;
  uint32_t rank;
  int64_t dims[QR_MAX_RANK]; /* now; QR_DIM_UNKNOWN: the next run says */
  uint64_t capacity;         /* entries along the axis that there is room for; 0: it keeps its size */
  uint64_t bytes;            /* of memory that is held */
  /* since one minor later */
  uint64_t later;
} qr_state_info;
#define QR_STATE_INFO_FIRST_SIZE 128u
#define QR_STATE_INFO_INIT \
  { sizeof(qr_state_info), 0, {NULL, 0}, {NULL, 0}, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0, 0 }

/* The state that the session's next run goes on from.
 * @param session    borrows.
 * @param out_state  gives: qr_state_destroy; it may outlive the session.
 * @thread  [exclusive:session]
 * @errors  FAILED_PRECONDITION (the session keeps none: option "state")
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_session_state(qr_session *session, qr_state **out_state);

/* Has the session's runs go on from another state, of this session or of a clone: of one beam among several, say.
 * @param session  borrows.
 * @param state    borrows: kept alive by the session. One session at a time runs it.
 * @thread  [exclusive:session]
 * @errors  INVALID_ARGUMENT (of another model, device or session)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_session_set_state(qr_session *session, qr_state *state);

/* The number of pairs; 0 for NULL.
 * @param state  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.3 */
QR_API uint64_t qr_state_count(const qr_state *state);

/* What a pair is, and how large now.
 * @param state     borrows.
 * @param index     under qr_state_count; in the order of the model's inputs.
 * @param out_info  borrows: set its struct_size.
 * @thread  [exclusive:state]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_tensor(const qr_state *state, uint64_t index, qr_state_info *out_info);

/* How many entries the pairs that grow have along their axes: the tokens so far, of a decoder.
 * @param state       borrows.
 * @param out_length  0 where no pair grows.
 * @thread  [exclusive:state]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_length(const qr_state *state, uint64_t *out_length);

/* How many entries the option "state.window" has dropped: the next token's position is this and the length.
 * @param state        borrows.
 * @param out_dropped  receives it; a reset begins again at 0.
 * @thread  [exclusive:state]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_dropped(const qr_state *state, uint64_t *out_dropped);

/* Empties the state: pairs that grow have no entries, all others are zeros. Memory is kept.
 * @param state  borrows.
 * @thread  [exclusive:state]
 * @errors  INVALID_ARGUMENT
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_reset(qr_state *state);

/* Forgets the entries from `length` on. What a pair of constant size was before is not known: a state that has one goes
 * back to 0 alone, or to a fork.
 * @param state   borrows.
 * @param length  in entries, at most qr_state_length; 0 is a reset.
 * @thread  [exclusive:state]
 * @errors  OUT_OF_RANGE (past the length), UNSUPPORTED (a pair that keeps its size)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_rewind(qr_state *state, uint64_t length);

/* A copy, which goes on by itself: qr_session_set_state has a session run it.
 * @param state      borrows.
 * @param out_state  gives: qr_state_destroy.
 * @thread  [exclusive:state]
 * @errors  RESOURCE_EXHAUSTED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_fork(const qr_state *state, qr_state **out_state);

/* Writes the state, the file "state", for qr_state_load: with a version, the model's identity and a sum.
 * @param state   borrows.
 * @param target  borrows: where it goes.
 * @param call    borrows: may be NULL.
 * @thread  [exclusive:state] [blocking]
 * @errors  INVALID_ARGUMENT, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer), CANCELLED,
 *          DEADLINE_EXCEEDED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_save(const qr_state *state, const qr_target *target,
                                            const qr_call_options *call);

/* Makes the state what was saved, by any session of the same model with the same pairs, whatever its backend and
 * capacity. Everything is checked first: on failure nothing has changed.
 * @param state  borrows.
 * @param data   borrows: what qr_state_save wrote; at any address.
 * @param size   in bytes.
 * @thread  [exclusive:state] [blocking]
 * @errors  CORRUPT (cut or damaged), INCOMPATIBLE (another version, another model, other pairs), RESOURCE_EXHAUSTED
 *          (more entries than state.capacity)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_load(qr_state *state, const void *data, uint64_t size);

/* Copies out one tensor of the state, dense.
 * @param state       borrows.
 * @param index       under qr_state_count.
 * @param out_tensor  borrows: data and size_bytes are the caller's room; without data its type, shape and size_bytes
 *                    alone are set.
 * @thread  [exclusive:state]
 * @errors  OUT_OF_RANGE (index; too little room), INVALID_ARGUMENT, FAILED_PRECONDITION (no run has said its shape)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_read(const qr_state *state, uint64_t index, qr_tensor *out_tensor);

/* Replaces one tensor of the state. One that grows may get another length: before the next run all have the same.
 * @param state   borrows.
 * @param index   under qr_state_count.
 * @param tensor  borrows: with data or const_data.
 * @thread  [exclusive:state]
 * @errors  OUT_OF_RANGE (index), INVALID_ARGUMENT (type or shape), RESOURCE_EXHAUSTED (more entries than
 *          state.capacity)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_state_write(qr_state *state, uint64_t index, const qr_tensor *tensor);

/* Lets go of a state; a session that runs it keeps it. Accepts NULL.
 * @param state  takes.
 * @thread  [exclusive:state]
 * @errors  none
 * @since   0.3 */
QR_API void qr_state_destroy(qr_state *state);

#ifdef __cplusplus
}
#endif
#endif
