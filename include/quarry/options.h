/* SPDX-License-Identifier: Apache-2.0 */
/* qr_options: string keys and values. An unknown key or a bad value is an error at once: it names the nearest key or
 * the values that are allowed. Keys known from ONNX Runtime and its QNN execution provider keep their names and values.
 * Any number of calls may read a set at a time (as their argument, or qr_options_get); one that overlaps with
 * qr_options_set is refused with QR-C0006. */
#ifndef QUARRY_OPTIONS_H
#define QUARRY_OPTIONS_H

#include <quarry/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates an empty set: every option has its default.
 * @param runtime      borrows: kept alive by the set.
 * @param out_options  gives: qr_options_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_create(qr_runtime *runtime, qr_options **out_options);

/* Sets one option; the last value of a key holds, except that "shape" adds (see docs/options.md).
 * @param options  borrows.
 * @param key      borrows: UTF-8.
 * @param value    borrows: UTF-8; of an option whose values are a "path" any bytes but NUL.
 * @thread  [exclusive:options]
 * @errors  NOT_FOUND (unknown key: the nearest is named), INVALID_ARGUMENT (bad value: the allowed ones are listed),
 *          RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_set(qr_options *options, qr_string key, qr_string value);

/* The value in force: what was set, or the default.
 * @param options    borrows.
 * @param key        borrows: UTF-8.
 * @param out_value  borrows: until the next set or the destruction of `options`.
 * @thread  [thread-safe]
 * @errors  NOT_FOUND, INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_get(const qr_options *options, qr_string key, qr_string *out_value);

/* Takes an option back: its default holds again. One that was not set stays so.
 * @param options  borrows.
 * @param key      borrows: UTF-8.
 * @thread  [exclusive:options]
 * @errors  NOT_FOUND (unknown key: the nearest is named), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_unset(qr_options *options, qr_string key);

/* The number of options that were set; 0 for NULL.
 * @param options  borrows.
 * @thread  [exclusive:options]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_options_count(const qr_options *options);

/* An option that was set, in the order of their keys.
 * @param options    borrows.
 * @param index      under qr_options_count.
 * @param out_key    borrows: until the next set or unset, or the destruction of `options`.
 * @param out_value  borrows: likewise.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_at(const qr_options *options, uint64_t index, qr_string *out_key,
                                            qr_string *out_value);

/* Copies a set of options.
 * @param options   borrows.
 * @param out_copy  gives: qr_options_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, FAILED_PRECONDITION (overlaps with qr_options_set), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_options_copy(const qr_options *options, qr_options **out_copy);

/* Frees a set of options. Accepts NULL.
 * @param options  takes.
 * @thread  [exclusive:options]
 * @errors  none
 * @since   0.1 */
QR_API void qr_options_destroy(qr_options *options);

/* One row of the option table. */
typedef struct qr_option_info {
  uint32_t struct_size;
  uint32_t changes_at_run_time; /* 1: qr_session_set_option takes it */
  qr_string key;
  qr_string values;        /* "0|1", "integer 0..1048576", "path": what a value may be */
  qr_string default_value; /* may be empty */
  qr_string scope;         /* "runtime", "model", "session", or the ids of the backends it is for */
  qr_string help;          /* one sentence */
  uint64_t applies;        /* QR_OPTION_*: when it is looked at; what comes later has no effect; 0: not known */
} qr_option_info;
#define QR_OPTION_INFO_FIRST_SIZE 96u
#define QR_OPTION_INFO_INIT \
  { sizeof(qr_option_info), 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, 0 }

#define QR_OPTION_COMPILE 1 /* it shapes what is compiled, and stands in the container */
#define QR_OPTION_LOAD 2    /* when a session is created */
#define QR_OPTION_RUN 4     /* in runs */
#define QR_OPTION_TARGET 8  /* beside COMPILE: it names the machine that is compiled for */

/* One row of the table of all options, those of the usable backends' own tables included.
 * @param runtime   borrows.
 * @param index     from 0.
 * @param out_info  borrows: set its struct_size; its strings live until the runtime's end.
 * @thread  [exclusive:runtime]
 * @errors  OUT_OF_RANGE (past the last row), INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_option(qr_runtime *runtime, uint64_t index, qr_option_info *out_info);

#ifdef __cplusplus
}
#endif
#endif
