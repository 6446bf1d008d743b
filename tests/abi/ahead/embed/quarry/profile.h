/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_profile: what a call did and how long it took, as a tree of events. Given to a run in qr_run_options, and to what
 * compiles or creates in qr_call_options.
 *
 * Roots, whose name is their kind: "run" for each run; "compile" for qr_model_compile; "check" for qr_model_check;
 * "export" for qr_model_export; "load" for qr_session_create, with a "compile" before it where that compiled. A call
 * that fails has its root too.
 *
 * Parts of "compile", "check" and "load" are phases, in the order in which they occur: "open backend"; "grade contexts"
 * (of a container); "import" (ONNX to graphs, or those that a container kept); "read graphs"; "check" (the backend
 * checks the nodes of a graph); "compile program"; "write container"; "load context"; "plan"; "create execution"; "warm
 * up" (with the option "warm_up"). Where one is about a graph with a name (a shape bucket), the attribute "graph" says
 * which. What a backend reports is a part of the phase in which it was called.
 *
 * Parts of "run" are what the backend reports. Where it reports nodes, each has, from the level "linting" on and as far
 * as the backend knows: the attributes "kernel", "shapes" ("1x3x8x8 f32, 4x3x3x3 f32 -> 1x4x8x8 f32") and "fused"
 * (names of other nodes that ran with this one, ", " between them); the counters "bytes read" and "bytes written", in
 * bytes, of its tensors and weights. */
#ifndef QUARRY_PROFILE_H
#define QUARRY_PROFILE_H

#include <quarry/runtime.h>
#include <quarry/target.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How much is recorded; each level holds those before it. Words of the option "profiling_level" in brackets. */
#define QR_PROFILE_BASIC 1    /* the call and its phases (basic) */
#define QR_PROFILE_DETAILED 2 /* its nodes (detailed) */
#define QR_PROFILE_LINTING 3  /* what the device says about each node beyond its time (linting) */
#define QR_PROFILE_TRACE 4    /* everything there is (optrace) */

/* What `begin` and `end` count. */
#define QR_CLOCK_HOST 0          /* nanoseconds of the monotonic clock */
#define QR_CLOCK_DEVICE_NS 1     /* nanoseconds from some beginning of the device's */
#define QR_CLOCK_DEVICE_CYCLES 2 /* cycles of the device, likewise */
#define QR_CLOCK_NONE 3          /* no times: the event has counters alone */

/* FROZEN. What was counted in an event: {"bytes read", "bytes", 4096}. */
typedef struct qr_profile_counter {
  qr_string name;
  qr_string unit; /* may be empty */
  uint64_t value;
} qr_profile_counter;

/* FROZEN. What else is known of an event: "kernel", "shapes", "fused", "graph". */
typedef struct qr_profile_attribute {
  qr_string key;
  qr_string value;
} qr_profile_attribute;

/* One event. */
typedef struct qr_profile_event {
  uint32_t struct_size;
  uint32_t level;  /* QR_PROFILE_* */
  uint64_t id;     /* unique in the profile, never 0 */
  uint64_t parent; /* the event that it is a part of; 0: none */
  uint32_t clock;  /* QR_CLOCK_* */
  uint32_t thread; /* the worker or device thread it ran on, from 0 */
  uint64_t begin;
  uint64_t end;
  int64_t node; /* index of the source node in its graph; -1: no node's */
  qr_string name;
  qr_string kind; /* "compile", "check", "load", "run", "phase", "node", or a word of the backend's */
  qr_string op;   /* the operator; empty where the event is no node */
  const qr_profile_counter *counters;
  uint64_t counter_count;
  const qr_profile_attribute *attributes;
  uint64_t attribute_count;
  /* since one minor later */
  uint64_t later;
} qr_profile_event;
#define QR_PROFILE_EVENT_FIRST_SIZE 136u
#define QR_PROFILE_EVENT_INIT \
  { sizeof(qr_profile_event), 0, 0, 0, 0, 0, 0, 0, -1, {NULL, 0}, {NULL, 0}, {NULL, 0}, NULL, 0, NULL, 0 }

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

/* The number of events that could not be kept: for want of memory, by the device, or because the profile has 1048576 of
 * them (or 4194304 counters and attributes, or 64 MB of texts) since it was cleared; 0 for NULL.
 * @param profile  borrows.
 * @thread  [exclusive:profile]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_profile_lost_count(const qr_profile *profile);

/* One event. A call comes before its parts; among the parts of one, in the order of their begins.
 * @param profile    borrows.
 * @param index      under qr_profile_event_count.
 * @param out_event  borrows: set its struct_size; its strings and arrays live until the profile is cleared, destroyed
 * or given to another call.
 * @thread  [exclusive:profile]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_profile_event_at(const qr_profile *profile, uint64_t index,
                                                  qr_profile_event *out_event);

/* Writes the events, the file "profile": "chrome" (trace JSON for Perfetto and chrome://tracing) or "csv". Both say
 * how many events were lost.
 * @param profile  borrows.
 * @param format   borrows.
 * @param target   borrows: where they go.
 * @thread  [exclusive:profile] [blocking]
 * @errors  INVALID_ARGUMENT (unknown format), PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_profile_export(const qr_profile *profile, qr_string format, const qr_target *target);

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
