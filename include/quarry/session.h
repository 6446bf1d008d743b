/* SPDX-License-Identifier: Apache-2.0 */
/* qr_session: one execution state of a model on one backend. Used by one caller at a time; qr_session_clone gives
 * another caller its own, sharing everything but the working memory. */
#ifndef QUARRY_SESSION_H
#define QUARRY_SESSION_H

#include <quarry/memory.h>
#include <quarry/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a session will need, known before it is created. */
typedef struct qr_memory_plan {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t weights_bytes;    /* constants, mapped from the container where possible */
  uint64_t arena_bytes;      /* working memory of one session, and its state; a clone needs this much more */
  uint64_t io_bytes;         /* inputs and outputs */
  uint64_t device_bytes;     /* on the device beside the above: address space, spill and fill */
  uint64_t scratchpad_bytes; /* fast on-chip memory (VTCM) */
  uint64_t spill_fill_bytes; /* a part of device_bytes that contexts of one "context.group" can share */
} qr_memory_plan;
#define QR_MEMORY_PLAN_FIRST_SIZE 56u
#define QR_MEMORY_PLAN_INIT \
  { sizeof(qr_memory_plan), 0, 0, 0, 0, 0, 0, 0 }

/* Says what a session would need, without creating it. Works for a target that is not there (see the options of the
 * backend that name one): then it says what compiling for it found out.
 * @param model     borrows.
 * @param options   borrows: may be NULL; as for qr_session_create.
 * @param call      borrows: may be NULL.
 * @param out_plan  borrows: set its struct_size. With shape buckets: the largest of each figure.
 * @thread  [thread-safe] [blocking]
 * @errors  as qr_session_create
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_plan(const qr_model *model, const qr_options *options,
                                              const qr_call_options *call, qr_memory_plan *out_plan);

/* Creates a session on the backend that the option "backend" (or "backend_path", "backend_type") names. From a
 * container it loads the context compiled for it, or has it compiled again (option context.recompile); from ONNX it
 * compiles in memory. Nothing falls back: a node that the backend refuses is an error with one "reason" detail for
 * each.
 * @param model        borrows: kept alive by the session.
 * @param options      borrows: may be NULL: then all defaults, on cpu.
 * @param call         borrows: may be NULL.
 * @param out_session  gives: qr_session_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND (backend, context), INCOMPATIBLE (found and expected), UNSUPPORTED, INVALID_ARGUMENT, CANCELLED,
 *          DEADLINE_EXCEEDED, UNAVAILABLE, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_create(const qr_model *model, const qr_options *options,
                                                const qr_call_options *call, qr_session **out_session);

/* Another execution state of the same context: shares weights and programs, has its own working memory.
 * @param session      borrows.
 * @param call         borrows: may be NULL.
 * @param out_session  gives: qr_session_destroy.
 * @thread  [exclusive:session] [blocking]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_clone(qr_session *session, const qr_call_options *call,
                                               qr_session **out_session);

/* The number of inputs; 0 for NULL.
 * @param session  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_session_input_count(const qr_session *session);

/* The number of outputs; 0 for NULL.
 * @param session  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_session_output_count(const qr_session *session);

/* What the session expects as an input.
 * @param session   borrows.
 * @param index     under qr_session_input_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the session.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_input(const qr_session *session, uint64_t index, qr_tensor_info *out_info);

/* What the session gives as an output.
 * @param session   borrows.
 * @param index     under qr_session_output_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the session.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_output(const qr_session *session, uint64_t index, qr_tensor_info *out_info);

/* The number of shape buckets that runs choose from: 1 without the option "shape", 0 for NULL and while a container
 * that does not suit the machine is compiled in the background.
 * @param session  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_session_bucket_count(const qr_session *session);

/* What a shape bucket expects as an input: qr_session_input with the bucket's dimensions.
 * @param session   borrows.
 * @param bucket    under qr_session_bucket_count.
 * @param index     under qr_session_input_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the session.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_bucket_input(const qr_session *session, uint64_t bucket, uint64_t index,
                                                      qr_tensor_info *out_info);

/* What a shape bucket gives as an output; as qr_session_bucket_input. Dimensions that only the run knows are
 * QR_DIM_UNKNOWN.
 * @param session   borrows.
 * @param bucket    under qr_session_bucket_count.
 * @param index     under qr_session_output_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the session.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_bucket_output(const qr_session *session, uint64_t bucket, uint64_t index,
                                                       qr_tensor_info *out_info);

/* Options of one run. */
typedef struct qr_run_options {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;      /* none yet: must be 0 */
  qr_signal *signal;   /* borrows: aborts or limits the run; may be NULL */
  qr_profile *profile; /* borrows: receives the events of the run; may be NULL */
} qr_run_options;
#define QR_RUN_OPTIONS_FIRST_SIZE 32u
#define QR_RUN_OPTIONS_INIT \
  { sizeof(qr_run_options), 0, 0, NULL, NULL }

/* Runs the network. After the first run with the same shapes the CPU backends allocate nothing, but for what a run
 * meets for the first time: data that are not aligned for their type, an output that is given back as an input, more
 * threads, a program that was compiled in the background (option context.recompile), other shapes of a part whose
 * shapes depend on data. With shape buckets the inputs' shapes choose the bucket.
 * @param session       borrows.
 * @param options       borrows: may be NULL.
 * @param inputs        borrows: input_count tensors in the order of qr_session_input.
 * @param input_count   must equal qr_session_input_count.
 * @param outputs       borrows: output_count tensors in the order of qr_session_output; a NULL entry is not wanted.
 * @param output_count  must equal qr_session_output_count.
 * @thread  [exclusive:session] [blocking]
 * @errors  INVALID_ARGUMENT (count, dtype or shape: found and expected), OUT_OF_RANGE (an output's room is too small),
 *          CANCELLED, DEADLINE_EXCEEDED, DEVICE_LOST (qr_session_recover), BUSY (the device is taken: try again),
 *          RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_run(qr_session *session, const qr_run_options *options,
                                             const qr_tensor *const *inputs, uint64_t input_count,
                                             qr_tensor *const *outputs, uint64_t output_count);

/* Runs each shape bucket once on inputs of zeros and throws the results away, so that the next run takes as long as
 * those after it: threads are started, working memory and that of outputs is made, weights are read. The option
 * "warm_up" has qr_session_create and qr_session_clone do so. Where something better is being compiled
 * (context.recompile=background), what there is now is warmed; where there is nothing yet, the call waits.
 * @param session  borrows.
 * @param options  borrows: may be NULL. A timeout of its signal is for all buckets together.
 * @thread  [exclusive:session] [blocking]
 * @errors  as qr_session_run; also what the model's nodes say of zeros
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_warm_up(qr_session *session, const qr_run_options *options);

/* Changes an option that may change at run time (see qr_option_info.changes_at_run_time).
 * @param session  borrows.
 * @param key      borrows.
 * @param value    borrows.
 * @thread  [exclusive:session]
 * @errors  NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION (not an option that changes at run time), UNSUPPORTED.
 *          On failure nothing has changed, in no shape bucket
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_set_option(qr_session *session, qr_string key, qr_string value);

/* ---- runs in a queue -------------------------------------------------------------------------
 *
 * qr_session_submit queues a run and returns; runs of a session end in the order in which they were submitted. At most
 * "queue_depth" (an option) are under way: one more is refused with BUSY. A backend with QR_DEVICE_SUBMITS queues them
 * on the device, elsewhere a thread of Quarry's runs them. qr_session_run waits until the queue is empty, and so do
 * qr_session_set_option and qr_session_recover; qr_session_destroy aborts what is queued and waits for its end. A clone
 * has a queue of its own. In a child of fork() the queue is empty: what the parent queued ends in the parent alone. */

/* Options of a submitted run. */
typedef struct qr_submit_options {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;      /* none yet: must be 0 */
  qr_signal *signal;   /* borrows: kept alive by the run; its timeout counts from the submission; may be NULL */
  qr_profile *profile; /* borrows: kept alive by the run; may be NULL */
  void *self;
  /* Called once when the run has ended, before qr_session_wait returns for it, on the thread of the session's queue:
   * never two at a time for a session, in the order of the tickets (a clone has a thread of its own). It may call
   * qr_session_submit on the same session, and what is marked [in-callback]; calls that wait for the queue are refused,
   * and it must not destroy the session. `status` is given: qr_status_destroy; NULL: the outputs are complete. May be
   * NULL. */
  void (*done)(void *self, uint64_t ticket, qr_status *status);
} qr_submit_options;
#define QR_SUBMIT_OPTIONS_FIRST_SIZE 48u
#define QR_SUBMIT_OPTIONS_INIT \
  { sizeof(qr_submit_options), 0, 0, NULL, NULL, NULL, NULL }

/* Queues a run. Every wanted output must have room (data or memory): the session's own is not given to queued runs.
 * Several threads may submit; while one is inside qr_session_run, set_option or recover, the others wait for it. The
 * CPU backends allocate nothing for it once queue_depth runs of the same shapes have been submitted.
 * @param session       borrows.
 * @param options       borrows: may be NULL.
 * @param inputs        borrows: the array until the call returns; the tensors and their data until the run has ended.
 * @param input_count   must equal qr_session_input_count.
 * @param outputs       borrows: likewise; a NULL entry is not wanted.
 * @param output_count  must equal qr_session_output_count.
 * @param out_ticket    borrows: the run's number, from 1, larger with each; may be NULL.
 * @thread  [thread-safe] [in-callback]
 * @errors  as qr_session_run as far as the tensors show it; BUSY (queue_depth runs are under way),
 *          INVALID_ARGUMENT (an output without room), DEVICE_LOST
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_submit(qr_session *session, const qr_submit_options *options,
                                                const qr_tensor *const *inputs, uint64_t input_count,
                                                qr_tensor *const *outputs, uint64_t output_count, uint64_t *out_ticket);

/* Waits until a submitted run has ended and gives its status, once; a run that nobody waits for is forgotten when the
 * session ends, or, at the earliest, once 1024 more have ended after it.
 * @param session    borrows.
 * @param ticket     of qr_session_submit; 0: waits until the queue is empty, and gives OK.
 * @param signal     borrows: aborts or limits the waiting, not the run; may be NULL. A waiting that it ends has an id
 * of its own, QR-R0019 (CANCELLED) or QR-R0020 (DEADLINE_EXCEEDED): wait again, or qr_session_abort.
 * @param out_ended  borrows: may be NULL. 1: the run has ended, as the status says, and its tensors and their data are
 *                   the caller's again. 0: they may still be in use; nothing was reported of the run.
 * @thread  [thread-safe] [blocking]
 * @errors  those of the run; NOT_FOUND (no such ticket, or its status was given before), CANCELLED, DEADLINE_EXCEEDED,
 *          FAILED_PRECONDITION (called by a run's callback)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_wait(qr_session *session, uint64_t ticket, qr_signal *signal,
                                              int32_t *out_ended);

/* Aborts a submitted run, or all; they end with CANCELLED as soon as they can. One that has ended is left alone.
 * @param session  borrows: NULL is ignored.
 * @param ticket   of qr_session_submit; 0: all.
 * @thread  [thread-safe] [in-callback]
 * @errors  none
 * @since   0.1 */
QR_API void qr_session_abort(qr_session *session, uint64_t ticket);

/* A descriptor that poll() calls readable while runs have ended whose status qr_session_wait has not given yet.
 * Refused on Windows (see qr_signal_fd): wait by qr_session_wait, on a thread of your own.
 * @param session  borrows.
 * @param out_fd   borrows: until the session is destroyed; never read, written or closed by the caller.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED (no descriptor to be had)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_completion_fd(qr_session *session, int32_t *out_fd);

/* Brings the session's device back after a run returned DEVICE_LOST. It is the device that is lost and recovered: all
 * sessions of the runtime on it fail with DEVICE_LOST in between, and all work again afterwards, clones too. Runs that
 * were queued end with DEVICE_LOST. Memory objects stay valid; what was in device memory is undefined. Does nothing
 * where the device is healthy.
 * @param session  borrows.
 * @param call     borrows: may be NULL.
 * @thread  [exclusive:session] [blocking]
 * @errors  DEVICE_LOST (still), CANCELLED, DEADLINE_EXCEEDED, UNSUPPORTED (the device cannot recover: create a new
 * session), INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_recover(qr_session *session, const qr_call_options *call);

/* What the session is, as JSON: backend, plugin file, device, target, grade, source of the context ("container",
 * "compiled", "recompiled", "pending"), recompilation in the background ("none", "running", "done", "failed"), nodes
 * and by what they run ("node_paths", as in qr_model_check, where the backend says), the compile-time options that the
 * context was compiled with ("compiled_with") and those of them that were asked to be otherwise ("asked_for"), memory
 * plan, of a range of shapes what became of its plans ("plans": how many are kept of "most", their bytes, those of
 * packed weights that no container has, runs that found their plan, plans made and dropped), options in force, options
 * given that are for other backends.
 * @param session   borrows.
 * @param out_json  gives: qr_string_destroy; NUL-terminated.
 * @thread  [exclusive:session]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_session_report(const qr_session *session, char **out_json);

/* Ends a session. Accepts NULL.
 * @param session  takes.
 * @thread  [exclusive:session]
 * @errors  none
 * @since   0.1 */
QR_API void qr_session_destroy(qr_session *session);

#ifdef __cplusplus
}
#endif
#endif
