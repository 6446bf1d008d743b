/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_runtime: allocator, log sink, threads and plugin search path. There is no process-global state: two runtimes in
 * one process share nothing. Models and sessions hold their runtime, so any order of destruction is right. */
#ifndef QUARRY_RUNTIME_H
#define QUARRY_RUNTIME_H

#include <quarry/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The caller's memory functions. Size and alignment are given on free. `align_bytes` is a power of two, at least 16.
 * Both are called from any thread, several at a time. */
typedef struct qr_allocator {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void *(*alloc)(void *self, uint64_t size_bytes, uint64_t align_bytes);
  void (*free)(void *self, void *ptr, uint64_t size_bytes, uint64_t align_bytes);
  /* since one minor later */
  uint64_t later;
} qr_allocator;
#define QR_ALLOCATOR_FIRST_SIZE 32u
#define QR_ALLOCATOR_INIT \
  { sizeof(qr_allocator), 0, NULL, NULL, NULL }

/* Where log lines go. Called on whichever thread is inside Quarry; `topic` and `message` are borrowed for the call.
 * `flags`: QR_LOG_..._MISBEHAVES; others may come, and mean no harm to who does not know them. */
typedef struct qr_log_sink {
  uint32_t struct_size;
  qr_log_level level; /* the least important level wanted; 0: QR_LOG_WARN */
  void *self;
  void (*write)(void *self, qr_log_level level, uint32_t flags, qr_string topic, qr_string message);
  /* since one minor later */
  void (*later)(void);
} qr_log_sink;
#define QR_LOG_SINK_FIRST_SIZE 24u
#define QR_LOG_SINK_INIT \
  { sizeof(qr_log_sink), 0, NULL, NULL }

/* The caller's own threads. `parallel_for` must call body(context, begin, end, worker) so that every index in
 * [0, count) is covered exactly once, with worker < worker_count and no two concurrent calls with the same worker, and
 * return when all are done. A pool that does not is detected, and the call that used it ends with QR-R0101.
 * `grain` is advice: a piece of fewer indices costs more to hand out than to work off, so that pieces are best no
 * smaller; any division is right, the whole in one piece included.
 * It is called on the thread that is inside qr_session_run (or warm_up, create, compile) or on the queue's; by several
 * threads at a time where several sessions run, never from within a body. A body calls nothing of Quarry's ABI, takes
 * no lock that the pool's other workers hold, and does not throw. */
typedef struct qr_thread_pool {
  uint32_t struct_size;
  uint32_t worker_count;
  void *self;
  void (*parallel_for)(void *self, uint64_t count, uint64_t grain,
                       void (*body)(void *context, uint64_t begin, uint64_t end, uint32_t worker), void *context);
  /* since one minor later */
  uint64_t later;
} qr_thread_pool;
#define QR_THREAD_POOL_FIRST_SIZE 24u
#define QR_THREAD_POOL_INIT \
  { sizeof(qr_thread_pool), 0, NULL, NULL }

typedef struct qr_runtime_options {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t flags;                    /* QR_RUNTIME_* */
  const qr_allocator *allocator;     /* borrows: copied; NULL: malloc */
  const qr_log_sink *log;            /* borrows: copied; NULL: no log */
  const qr_thread_pool *thread_pool; /* borrows: copied; NULL: see the options "threads" and "thread_pool" */
  qr_string backend_path;            /* folders to look for plugins in, ':' between (Windows: ';'), of any bytes but NUL
                                      * (Windows: UTF-8); before the others; may be empty */
  qr_string prepare_path; /* file of the compiler library, likewise; empty: beside libquarry or in its libdir */
  /* since one minor later */
  uint64_t later;
} qr_runtime_options;
#define QR_RUNTIME_OPTIONS_FIRST_SIZE 72u
#define QR_RUNTIME_OPTIONS_INIT                                                \
  {                                                                            \
    sizeof(qr_runtime_options), 0, 0, NULL, NULL, NULL, {NULL, 0}, { NULL, 0 } \
  }

/* Neither QUARRY_BACKEND_PATH nor the folders of the library's own: only `backend_path` and static backends count. */
#define QR_RUNTIME_ONLY_GIVEN_PATHS 1ull

/* Creates a runtime. Starts no thread and opens no plugin.
 * @param options      borrows: may be NULL for the defaults.
 * @param out_runtime  gives: qr_runtime_destroy.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT (unknown flag or field, allocator without alloc or free), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_create(const qr_runtime_options *options, qr_runtime **out_runtime);

/* Lets go of a runtime. What was made from it stays valid and keeps it alive. Accepts NULL.
 * @param runtime  takes.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API void qr_runtime_destroy(qr_runtime *runtime);

/* What the loader says of one candidate plugin file (or static backend). */
typedef struct qr_backend_info {
  uint32_t struct_size;
  int32_t usable;        /* 1: sessions can be made on it */
  qr_code code;          /* QR_OK, or why not */
  uint32_t is_static;    /* 1: linked in, there is no file */
  uint64_t device_count; /* 0 where not usable */
  qr_string id;          /* "cpu-reference"; from the file name where the file could not be read */
  qr_string path;        /* the file; empty when static */
  qr_string version;     /* the plugin's own version; may be empty */
  qr_string error_id;    /* "QR-L0103"; empty when usable */
  qr_string verdict;     /* one line: why it is or is not usable */
  qr_string hint;        /* what to do; may be empty */
  /* since one minor later */
  uint64_t later;
} qr_backend_info;
#define QR_BACKEND_INFO_FIRST_SIZE 120u
#define QR_BACKEND_INFO_INIT                                                                                \
  {                                                                                                         \
    sizeof(qr_backend_info), 0, 0, 0, 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, {NULL, 0}, { NULL, 0 } \
  }

typedef struct qr_device_info {
  uint32_t struct_size;
  int32_t usable;
  uint64_t memory_bytes; /* 0: not known */
  uint64_t features;     /* QR_DEVICE_* */
  qr_string name;
  qr_string target;  /* what blobs are compiled for: "x86_64", "v75"; the same word stands in the container */
  qr_string why_not; /* one line; empty when usable */
  qr_string details; /* what it stands on (libraries, device nodes), lines with '\n' between; may be empty */
  /* since one minor later */
  uint64_t later;
} qr_device_info;
#define QR_DEVICE_INFO_FIRST_SIZE 72u
#define QR_DEVICE_INFO_INIT                                                       \
  {                                                                               \
    sizeof(qr_device_info), 0, 0, 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, { NULL, 0 } \
  }

#define QR_DEVICE_IMPORTS_FD 1ull        /* qr_memory_import_fd works */
#define QR_DEVICE_REGISTERS_POINTER 2ull /* qr_memory_register avoids a copy */
#define QR_DEVICE_SIMULATED 4ull         /* results are real, times are predicted */
#define QR_DEVICE_RECOVERS 8ull          /* qr_session_recover can bring it back after a loss */
#define QR_DEVICE_SUBMITS 16ull          /* qr_session_submit queues on the device; else a thread of Quarry's runs */
#define QR_DEVICE_GROUPS 32ull           /* contexts of one "context.group" share weights or buffers */
#define QR_DEVICE_NO_FORK 64ull          /* of no use in a forked child: calls there return FAILED_PRECONDITION */
#define QR_DEVICE_EXPORTS_FD 128ull      /* qr_memory_export_fd works */
#define QR_DEVICE_RANGES 256ull          /* the option "shape" takes ranges: one program for all of "seq=1..512" */
#define QR_DEVICE_APPENDS 512ull         /* of state that grows a run writes the new entries alone (state.h) */
#define QR_DEVICE_BATCHES 1024ull /* "shape" takes a range of the first axis of every input and output: a batch */

/* Looks at every candidate plugin: opens the usable ones, runs no code of the others. The list is kept until the next
 * call.
 * @param runtime    borrows.
 * @param out_count  the number of candidates.
 * @thread  [exclusive:runtime] [blocking]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_scan(qr_runtime *runtime, uint64_t *out_count);

/* The verdict on one candidate.
 * @param runtime   borrows.
 * @param index     under the count of the last qr_runtime_scan.
 * @param out_info  borrows: set its struct_size; its strings live until the next scan or the runtime's end.
 * @thread  [exclusive:runtime]
 * @errors  INVALID_ARGUMENT, OUT_OF_RANGE
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_backend(const qr_runtime *runtime, uint64_t index, qr_backend_info *out_info);

/* A device of a usable backend.
 * @param runtime   borrows.
 * @param index     of the backend, as for qr_runtime_backend.
 * @param device    under its device_count.
 * @param out_info  borrows: set its struct_size; strings live as in qr_runtime_backend.
 * @thread  [exclusive:runtime]
 * @errors  INVALID_ARGUMENT, OUT_OF_RANGE
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_device(const qr_runtime *runtime, uint64_t index, uint64_t device,
                                                qr_device_info *out_info);

/* The folders that are searched for plugins, in order, with where each came from: "option" (backend_path),
 * "environment" (QUARRY_BACKEND_PATH, not read in a set-user-id program), "beside libquarry" (quarry/backends below the
 * library's folder) or "build tree" (each folder of ../backends that holds a plugin, where the library is still in its
 * build tree), "built in" (the folder that the library was configured to be installed with). A folder is searched once.
 * @param runtime     borrows.
 * @param index       from 0.
 * @param out_path    borrows: until the runtime's end.
 * @param out_origin  borrows: static.
 * @thread  [thread-safe]
 * @errors  INVALID_ARGUMENT, OUT_OF_RANGE (past the last)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_search_path(const qr_runtime *runtime, uint64_t index, qr_string *out_path,
                                                     qr_string *out_origin);

/* The processor features that kernels may use, one word each with spaces between ("sse4.2 avx2 fma").
 * @return  borrows: until the runtime's end; NUL-terminated. Empty for NULL.
 * @param runtime  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_runtime_cpu_features(const qr_runtime *runtime);

/* What plugins have to be built for to be loaded here: processor, system and C library ("x86_64-linux-glibc").
 * @return  borrows: static; NUL-terminated.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API const char *qr_plugin_target(void);

/* One row per (operator, backend) as JSON: {"backend": ..., "opset": N, "operators": [{"name", "domain", "supported",
 * "types", "note"}]}. An empty backend gives the table of Quarry's own operator set.
 * The table is libquarry-prepare's, which is opened.
 * @param runtime   borrows.
 * @param backend   borrows: a backend's id, or empty.
 * @param out_json  gives: qr_string_destroy; NUL-terminated.
 * @thread  [exclusive:runtime] [blocking]
 * @errors  NOT_FOUND (no such backend, no libquarry-prepare), INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_runtime_operators(qr_runtime *runtime, qr_string backend, char **out_json);

/* Frees a text that a function of this library gave. What gave it, and its runtime, may be gone by then.
 * @param text  takes: may be NULL.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API void qr_string_destroy(char *text);

#ifdef __cplusplus
}
#endif
#endif
