/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin ABI: what a backend gives and gets. Free-standing: needs <stdint.h> alone.
 *
 * A plugin is one shared object, quarry-backend-<id>.so. It exports one function, qr_plugin_query, and carries one ELF
 * note (QR_PLUGIN_NOTE). The loader reads the note before dlopen; only a plugin whose note fits has any of its code
 * run. Nothing of C++ crosses: no exception, std type, errno or malloc/free pair. At prepare verified bytes cross, at
 * run fixed-width structs. docs/plugin-author-guide.md walks through it; docs/plugin-policy.md numbers the rules
 * (PLG-n); backends/null is the skeleton.
 *
 * Tables are append-only within a major. `struct_size` comes first in each; the host never calls a slot that lies past
 * it or is NULL. Slots are marked (required) or (optional: what the host does instead). Unless said otherwise a slot
 * returns a qr_plugin_code, 0 on success, and has told the error sink why otherwise; outputs are written on success
 * only, and are then all written.
 *
 * Threads: slots of one backend object may be called from several threads at once; slots of one execution object never
 * are. A slot may call any host service on the thread it was called on and, for parallel_for's body, on the pool's
 * threads.
 */
#ifndef QUARRY_BACKEND_H
#define QUARRY_BACKEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QR_PLUGIN_ABI_MAJOR 1u
#define QR_PLUGIN_ABI_MINOR 0u
#define QR_PLUGIN_MAGIC 0x31504c5051u /* host and plugin tables */
#define QR_PLUGIN_MAX_RANK 8
#define QR_PLUGIN_NUL_TERMINATED ((uint64_t)-1)

typedef int32_t qr_plugin_code; /* the numbers of qr_code in types.h */

/* FROZEN. UTF-8; size is explicit unless it is QR_PLUGIN_NUL_TERMINATED. */
typedef struct qr_plugin_string {
  const char *data;
  uint64_t size;
} qr_plugin_string;

/* FROZEN. Borrowed bytes. */
typedef struct qr_plugin_bytes {
  const void *data;
  uint64_t size;
} qr_plugin_bytes;

/* FROZEN. */
typedef struct qr_plugin_option {
  qr_plugin_string key;
  qr_plugin_string value;
} qr_plugin_option;

/* ---- the ELF note ---------------------------------------------------------------------------- */

/* FROZEN layout of the note's descriptor; owner name "Quarry", type 1, section .note.qr. */
#define QR_PLUGIN_NOTE_NAME "Quarry"
#define QR_PLUGIN_NOTE_TYPE 1u
#define QR_PLUGIN_NOTE_MAGIC 0x45544f4eu /* "NOTE" */
typedef struct qr_plugin_note {
  uint32_t magic;
  uint32_t size; /* of this struct */
  uint32_t abi_major;
  uint32_t abi_minor;     /* built against */
  uint32_t abi_minor_min; /* the oldest host minor it can work with */
  uint32_t blob_version;  /* of the context blobs it writes */
  uint32_t flavour;       /* QR_PLUGIN_FLAVOUR_* */
  uint32_t reserved;
  char id[32];      /* "cpu-reference", NUL-padded */
  char version[32]; /* the plugin's own version */
  char target[32];  /* "x86_64-linux", what it was built for */
} qr_plugin_note;

#define QR_PLUGIN_FLAVOUR_ASAN 1u
#define QR_PLUGIN_FLAVOUR_TSAN 2u
#define QR_PLUGIN_FLAVOUR_MSAN 4u
#if defined(__SANITIZE_ADDRESS__)
#define QR_PLUGIN_FLAVOUR_BIT_ASAN QR_PLUGIN_FLAVOUR_ASAN
#endif
#if defined(__SANITIZE_THREAD__)
#define QR_PLUGIN_FLAVOUR_BIT_TSAN QR_PLUGIN_FLAVOUR_TSAN
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(QR_PLUGIN_FLAVOUR_BIT_ASAN)
#define QR_PLUGIN_FLAVOUR_BIT_ASAN QR_PLUGIN_FLAVOUR_ASAN
#endif
#if __has_feature(thread_sanitizer) && !defined(QR_PLUGIN_FLAVOUR_BIT_TSAN)
#define QR_PLUGIN_FLAVOUR_BIT_TSAN QR_PLUGIN_FLAVOUR_TSAN
#endif
#if __has_feature(memory_sanitizer)
#define QR_PLUGIN_FLAVOUR_BIT_MSAN QR_PLUGIN_FLAVOUR_MSAN
#endif
#endif
#ifndef QR_PLUGIN_FLAVOUR_BIT_ASAN
#define QR_PLUGIN_FLAVOUR_BIT_ASAN 0u
#endif
#ifndef QR_PLUGIN_FLAVOUR_BIT_TSAN
#define QR_PLUGIN_FLAVOUR_BIT_TSAN 0u
#endif
#ifndef QR_PLUGIN_FLAVOUR_BIT_MSAN
#define QR_PLUGIN_FLAVOUR_BIT_MSAN 0u
#endif
#define QR_PLUGIN_BUILD_FLAVOUR (QR_PLUGIN_FLAVOUR_BIT_ASAN | QR_PLUGIN_FLAVOUR_BIT_TSAN | QR_PLUGIN_FLAVOUR_BIT_MSAN)

#if defined(__x86_64__)
#define QR_PLUGIN_BUILD_ARCH "x86_64"
#elif defined(__aarch64__)
#define QR_PLUGIN_BUILD_ARCH "aarch64"
#else
#define QR_PLUGIN_BUILD_ARCH "unknown"
#endif
#if defined(__ANDROID__)
#define QR_PLUGIN_BUILD_OS "android"
#elif defined(__linux__)
#define QR_PLUGIN_BUILD_OS "linux"
#else
#define QR_PLUGIN_BUILD_OS "unknown"
#endif
#define QR_PLUGIN_BUILD_TARGET QR_PLUGIN_BUILD_ARCH "-" QR_PLUGIN_BUILD_OS

/* One whole note: header (n_namesz, n_descsz, n_type), name padded to 4, descriptor. */
typedef struct qr_plugin_note_section {
  uint32_t namesz;
  uint32_t descsz;
  uint32_t type;
  char name[8];
  qr_plugin_note note;
} qr_plugin_note_section;

/* Defines the note; one per plugin, at file scope. */
#define QR_PLUGIN_NOTE(id_, version_, blob_version_)                                                         \
  __attribute__((used, section(".note.qr"),                                                                  \
                 aligned(4))) static const qr_plugin_note_section qr_plugin_note_section_ = {                \
      7u,                                                                                                    \
      (uint32_t)sizeof(qr_plugin_note),                                                                      \
      QR_PLUGIN_NOTE_TYPE,                                                                                   \
      QR_PLUGIN_NOTE_NAME,                                                                                   \
      {QR_PLUGIN_NOTE_MAGIC, (uint32_t)sizeof(qr_plugin_note), QR_PLUGIN_ABI_MAJOR, QR_PLUGIN_ABI_MINOR, 0u, \
       (blob_version_), QR_PLUGIN_BUILD_FLAVOUR, 0u, id_, version_, QR_PLUGIN_BUILD_TARGET}}

/* ---- what the host gives --------------------------------------------------------------------- */

/* Where a slot says why it failed. Strings are copied. Calling `set` again replaces; `detail` adds a frame. */
typedef struct qr_error_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void (*set)(void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string hint);
  void (*detail)(void *self, qr_plugin_string key, qr_plugin_string value);
} qr_error_sink;

/* Abort and deadline of one call. A slot that gets one polls it often (at least between nodes) and returns QR_CANCELLED
 * (11) or QR_DEADLINE_EXCEEDED (10). Plain memory, so that it can be watched from another process. */
typedef struct qr_plugin_signal {
  uint32_t struct_size;
  uint32_t reserved;
  const uint32_t *aborted; /* non-zero: stop; read with acquire order; may be NULL */
  uint64_t deadline_ns;    /* on host.clock_ns; 0: none */
} qr_plugin_signal;

/* FROZEN. An event for the profile; strings are copied. See qr_profile_event in profile.h. */
typedef struct qr_plugin_event {
  qr_plugin_string name;
  qr_plugin_string kind;
  qr_plugin_string op;
  qr_plugin_string unit;
  uint64_t begin_ns;
  uint64_t end_ns;
  uint64_t value;
  uint64_t thread;
} qr_plugin_event;

typedef struct qr_profile_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void (*event)(void *self, const qr_plugin_event *event);
} qr_profile_sink;

typedef void (*qr_parallel_body)(void *context, uint64_t begin, uint64_t end, uint32_t worker);

/* Host services; valid from `create` until `destroy` of the backend object has returned. */
typedef struct qr_host {
  uint32_t struct_size;
  uint32_t abi_major;
  uint32_t abi_minor_min; /* the host can speak these minors */
  uint32_t abi_minor_max;
  uint64_t magic;
  void *self;
  void *(*alloc)(void *self, uint64_t size_bytes, uint64_t align_bytes); /* NULL when out of memory */
  void (*free)(void *self, void *ptr, uint64_t size_bytes, uint64_t align_bytes);
  void (*log)(void *self, int32_t level, qr_plugin_string topic, qr_plugin_string message);
  uint64_t (*clock_ns)(void *self);
  const void *(*get_extension)(void *self, const char *id); /* "qr.<name>/<rev>"; NULL: not there */
} qr_host;

/* Threads for one call: handed to execution.run and compiler.compile. */
typedef struct qr_host_threads {
  uint32_t struct_size;
  uint32_t worker_count; /* at least 1 */
  void *self;
  void (*parallel_for)(void *self, uint64_t count, uint64_t grain, qr_parallel_body body, void *context);
} qr_host_threads;

/* ---- objects of the plugin (opaque to the host) ---------------------------------------------- */
typedef struct qr_backend qr_backend;
typedef struct qr_context qr_context;
typedef struct qr_execution qr_execution;
typedef struct qr_registration qr_registration;

/* ---- options --------------------------------------------------------------------------------- */

/* A row of a backend's option table. Keys of Quarry's own table may be listed too, to say that they are honoured. */
typedef struct qr_plugin_option_info {
  uint32_t struct_size;
  uint32_t changes_at_run_time;
  qr_plugin_string key;
  qr_plugin_string
      values; /* "a|b|c", "integer LOW..HIGH", "path", "text": the host checks it before the plugin sees it */
  qr_plugin_string fallback; /* the default */
  qr_plugin_string help;
} qr_plugin_option_info;

/* ---- devices --------------------------------------------------------------------------------- */
typedef struct qr_plugin_device_info {
  uint32_t struct_size;
  int32_t usable;
  uint64_t memory_bytes;
  uint64_t features; /* the bits of QR_DEVICE_* in runtime.h */
  qr_plugin_string name;
  qr_plugin_string target;  /* stands in the container and is compared on load */
  qr_plugin_string why_not; /* required where not usable */
} qr_plugin_device_info;

/* ---- compiler -------------------------------------------------------------------------------- */

/* One graph to judge or compile: QIR (formats/qir), already verified, and the segments that its constants point into.
 */
typedef struct qr_compile_request {
  uint32_t struct_size;
  uint32_t device; /* index of the device */
  qr_plugin_bytes qir;
  const qr_plugin_bytes *segments; /* borrowed until the call returns */
  uint64_t segment_count;
  const qr_plugin_option *options; /* the backend's own keys, checked, defaults filled in */
  uint64_t option_count;
  const qr_plugin_signal *signal; /* may be NULL */
  const qr_host_threads *threads;
} qr_compile_request;

/* Takes the verdict on each node, in any order; a node without a verdict counts as refused (PLUGIN_MISBEHAVING). */
typedef struct qr_verdict_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  /* supported: 1 or 0. id: an error id; reason: found, limit; hint: what to change. All three may be empty where
   * supported. */
  void (*verdict)(void *self, uint32_t node, int32_t supported, qr_plugin_string id, qr_plugin_string reason,
                  qr_plugin_string hint);
} qr_verdict_sink;

/* What a context will need of the machine: see qr_memory_plan in session.h. */
typedef struct qr_plugin_plan {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t weights_bytes;
  uint64_t arena_bytes;
  uint64_t io_bytes;
  uint64_t device_bytes;
  uint64_t scratchpad_bytes;
} qr_plugin_plan;

/* Takes the result of a compilation. The order of the segments is the blob's own numbering: the first kept or added is
 * 0. The container stores equal segments once, whoever wrote them. */
typedef struct qr_blob_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  /* Keeps a segment of the request as it is. */
  qr_plugin_code (*keep_segment)(void *self, uint64_t request_segment, uint32_t *out_segment);
  /* Adds bytes (packed weights, say), copied. align_bytes: a power of two up to 16384. */
  qr_plugin_code (*add_segment)(void *self, const void *data, uint64_t size, uint64_t align_bytes,
                                uint32_t *out_segment);
  /* The blob itself, copied; exactly once. */
  qr_plugin_code (*blob)(void *self, const void *data, uint64_t size);
  /* What it was compiled for, and a key that only the plugin understands; both stand in the container. */
  qr_plugin_code (*compatibility)(void *self, qr_plugin_string target, qr_plugin_string key);
  qr_plugin_code (*plan)(void *self, const qr_plugin_plan *plan);
} qr_blob_sink;

/* ---- context --------------------------------------------------------------------------------- */

/* A compiled context as it stands in a container. Bytes stay mapped until context_destroy returned. */
typedef struct qr_blob {
  uint32_t struct_size;
  uint32_t version;                /* the blob version that wrote it */
  qr_plugin_bytes bytes;           /* at least 64-byte aligned */
  const qr_plugin_bytes *segments; /* page-aligned when mapped from a container */
  uint64_t segment_count;
  qr_plugin_string target;
  qr_plugin_string key;
} qr_blob;

#define QR_PLUGIN_GRADE_OPTIMAL 1
#define QR_PLUGIN_GRADE_USABLE 2
#define QR_PLUGIN_GRADE_RECOMPILE 3
#define QR_PLUGIN_GRADE_INCOMPATIBLE 4

typedef struct qr_load_request {
  uint32_t struct_size;
  uint32_t device;
  const qr_blob *blob;
  const qr_plugin_option *options;
  uint64_t option_count;
  const qr_plugin_signal *signal;
} qr_load_request;

/* An input or output of a context, in the order of the graph's. */
typedef struct qr_plugin_tensor_info {
  uint32_t struct_size;
  int32_t dtype;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[QR_PLUGIN_MAX_RANK]; /* -1: known after the run */
  qr_plugin_string name;
} qr_plugin_tensor_info;

/* ---- execution ------------------------------------------------------------------------------- */

/* FROZEN. Data of one input or output for one run. With `memory` the data lies there at memory_offset, and `data` is
 * the host's view of it. For an output of unknown shape `data` may be NULL: the plugin then points it to its own
 * memory, valid until the next run of the execution object or its end. The plugin writes dims, rank and used_bytes of
 * every output. */
typedef struct qr_io_buffer {
  void *data;
  uint64_t size_bytes;     /* room (output) or length (input) */
  uint64_t used_bytes;     /* written by the plugin: length of the result */
  qr_registration *memory; /* NULL: plain host memory */
  uint64_t memory_offset;
  uint32_t rank;
  uint32_t wanted; /* 0: an output that the caller does not want */
  int64_t dims[QR_PLUGIN_MAX_RANK];
} qr_io_buffer;

typedef struct qr_run_request {
  uint32_t struct_size;
  uint32_t reserved;
  qr_io_buffer *inputs;
  uint64_t input_count;
  qr_io_buffer *outputs;
  uint64_t output_count;
  const qr_plugin_signal *signal; /* may be NULL */
  const qr_profile_sink *profile; /* NULL: not profiled */
  const qr_host_threads *threads;
} qr_run_request;

/* ---- the plugin's tables, by concept --------------------------------------------------------- */

typedef struct qr_plugin_device_api {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t (*count)(qr_backend *backend); /* (required) */
  qr_plugin_code (*info)(qr_backend *backend, uint64_t index, qr_plugin_device_info *out_info,
                         const qr_error_sink *errors); /* (required) */
} qr_plugin_device_api;

typedef struct qr_plugin_option_api {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t (*count)(qr_backend *backend); /* (required) */
  qr_plugin_code (*info)(qr_backend *backend, uint64_t index, qr_plugin_option_info *out_info,
                         const qr_error_sink *errors); /* (required) */
} qr_plugin_option_api;

typedef struct qr_plugin_compiler_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Judges every node. (required) */
  qr_plugin_code (*check)(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                          const qr_error_sink *errors);
  /* Compiles a graph of which every node was judged supported. (required) */
  qr_plugin_code (*compile)(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                            const qr_error_sink *errors);
  /* Says whether an operator is in the backend's repertoire, by its index in QIR's op table; `out_types` and `out_note`
   * are static texts. (optional: the coverage report says "unknown") */
  int32_t (*supports)(qr_backend *backend, uint32_t op, qr_plugin_string *out_types, qr_plugin_string *out_note);
} qr_plugin_compiler_api;

typedef struct qr_plugin_context_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Grades a blob from version, target and key; `bytes` and segments are there but need not be read. The reason goes to
   * the sink's `set` with code 0. (required) */
  qr_plugin_code (*grade)(qr_backend *backend, uint32_t device, const qr_blob *blob, int32_t *out_grade,
                          const qr_error_sink *reason);
  /* What `load` and one execution will need. (optional: the host uses what compile said) */
  qr_plugin_code (*plan)(qr_backend *backend, uint32_t device, const qr_blob *blob, qr_plugin_plan *out_plan,
                         const qr_error_sink *errors);
  /* Loads. The blob is untrusted: everything in it is checked. (required) */
  qr_plugin_code (*load)(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                         const qr_error_sink *errors);
  uint64_t (*input_count)(qr_context *context);  /* (required) */
  uint64_t (*output_count)(qr_context *context); /* (required) */
  qr_plugin_code (*tensor)(qr_context *context, int32_t is_output, uint64_t index, qr_plugin_tensor_info *out_info,
                           const qr_error_sink *errors); /* (required) */
  void (*destroy)(qr_context *context);                  /* (required) */
} qr_plugin_context_api;

typedef struct qr_plugin_execution_api {
  uint32_t struct_size;
  uint32_t reserved;
  qr_plugin_code (*create)(qr_context *context, const qr_plugin_option *options, uint64_t option_count,
                           qr_execution **out_execution, const qr_error_sink *errors); /* (required) */
  /* Runs once, and returns when the outputs are complete. Allocates nothing from the second run with the same shapes
   * on. (required) */
  qr_plugin_code (*run)(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors);
  /* Changes an option whose row says so. (optional: no option changes at run time) */
  qr_plugin_code (*set_option)(qr_execution *execution, qr_plugin_string key, qr_plugin_string value,
                               const qr_error_sink *errors);
  /* Brings the execution back after a run returned QR_UNAVAILABLE (9). (optional: the device cannot recover) */
  qr_plugin_code (*recover)(qr_execution *execution, const qr_error_sink *errors);
  void (*destroy)(qr_execution *execution); /* (required) */
} qr_plugin_execution_api;

typedef struct qr_plugin_memory_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* (optional: the host allocates plain memory and registers that) */
  qr_plugin_code (*allocate)(qr_context *context, uint64_t size, void **out_data, qr_registration **out_registration,
                             const qr_error_sink *errors);
  /* (optional: UNSUPPORTED) */
  qr_plugin_code (*import_fd)(qr_context *context, int32_t fd, uint64_t offset, uint64_t size, void **out_data,
                              qr_registration **out_registration, const qr_error_sink *errors);
  /* (optional: the host passes plain pointers) */
  qr_plugin_code (*register_pointer)(qr_context *context, void *data, uint64_t size, qr_registration **out_registration,
                                     const qr_error_sink *errors);
  void (*release)(qr_context *context, qr_registration *registration); /* (required where one of the above is there) */
} qr_plugin_memory_api;

/* What qr_plugin_query returns: static, the same for every host. */
typedef struct qr_plugin {
  uint32_t struct_size;
  uint32_t abi_minor; /* chosen: at most the host's abi_minor_max */
  uint64_t magic;
  const char *id; /* as in the note */
  const char *version;
  const char *description; /* one line */
  uint32_t blob_version;
  uint32_t reserved;
  const qr_plugin_device_api *device;       /* (required) */
  const qr_plugin_compiler_api *compiler;   /* (optional: only containers compiled elsewhere can be run) */
  const qr_plugin_context_api *context;     /* (required) */
  const qr_plugin_execution_api *execution; /* (required) */
  const qr_plugin_memory_api *memory;       /* (optional: plain pointers) */
  const qr_plugin_option_api *options;      /* (optional: no options of its own) */
  /* Makes the state that one runtime has of the plugin; there is no other. (required) */
  qr_plugin_code (*create)(const qr_host *host, qr_backend **out_backend, const qr_error_sink *errors);
  void (*destroy)(qr_backend *backend);                              /* (required) */
  const void *(*get_extension)(qr_backend *backend, const char *id); /* (optional) */
} qr_plugin;

/* The one export. Chooses a minor that both can speak; where there is none it says why and returns QR_INCOMPATIBLE (6).
 */
typedef qr_plugin_code (*qr_plugin_query_fn)(const qr_host *host, const qr_plugin **out_plugin,
                                             const qr_error_sink *errors);

#if defined(__GNUC__)
#define QR_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define QR_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
}
#endif
#endif
