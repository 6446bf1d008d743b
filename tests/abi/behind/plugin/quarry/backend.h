/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* The plugin ABI: what a backend gives and gets. Free-standing: needs <stdint.h> alone.
 *
 * A plugin is one shared object, quarry-backend-<id>.so. It exports one function, qr_plugin_query, and carries one ELF
 * note (QR_PLUGIN_NOTE). The loader reads the note before dlopen; only a plugin whose note fits has any of its code
 * run. Nothing of C++ crosses: no exception, std type, errno or malloc/free pair. At prepare verified bytes cross, at
 * run fixed-width structs. docs/plugin-author-guide.md walks through it; docs/plugin-policy.md numbers the rules
 * (PLG-n); backends/null is the skeleton.
 *
 * Growth: tables and structs are append-only within a major. `struct_size` comes first in each and is set by whoever
 * made it: the reader takes what both know, and what lies past the other's end is zero, which means the earlier
 * behaviour. A struct that is smaller than its first release (QR_..._FIRST_SIZE) is a mistake. What came later is
 * marked "since 0.2". A struct marked FROZEN never grows: it is an element of arrays. Out-structs come with the
 * struct_size of the host: the plugin fills in as far as that reaches.
 *
 * Slots are marked (required) or (optional: what the host does instead); the host calls none that lies past a table's
 * end or is NULL. Unless said otherwise a slot returns a qr_plugin_code, 0 on success, and has given the error sink the
 * reason otherwise; outputs are written on success only, and are then all written.
 *
 * Threads: slots of one backend object may be called from several threads at once; slots of one execution object are
 * called by one thread at a time, but for `wait`, which may run beside `submit`. A slot may call any host service on
 * the thread it was called on and, for parallel_for's body, on the pool's threads.
 */
#ifndef QUARRY_BACKEND_H
#define QUARRY_BACKEND_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QR_PLUGIN_ABI_MAJOR 0u /* 0: a release candidate, docs/abi-changes.md; 1 when it is frozen */
#define QR_PLUGIN_ABI_MINOR 1u
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
  qr_plugin_string value; /* of an option whose values are a "path" any bytes but NUL */
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
  char target[32];  /* "x86_64-linux-glibc", what it was built for */
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

#if defined(__x86_64__) || defined(_M_X64)
#define QR_PLUGIN_BUILD_ARCH "x86_64"
#elif defined(__aarch64__) || defined(_M_ARM64)
#define QR_PLUGIN_BUILD_ARCH "aarch64"
#else
#define QR_PLUGIN_BUILD_ARCH "unknown"
#endif
#if defined(__ANDROID__)
#define QR_PLUGIN_BUILD_OS "android"
#elif defined(__linux__)
#define QR_PLUGIN_BUILD_OS "linux"
#elif defined(_WIN32)
#define QR_PLUGIN_BUILD_OS "windows"
#elif defined(__APPLE__) && defined(__ENVIRONMENT_MAC_OS_X_VERSION_MIN_REQUIRED__)
#define QR_PLUGIN_BUILD_OS "macos"
#else
#define QR_PLUGIN_BUILD_OS "unknown"
#endif
/* The C library, and with it the loader: plugins of two do not mix in one process. <stdint.h> has its name, where
 * it has one: musl has none on purpose. */
#if defined(__BIONIC__) || defined(__ANDROID__)
#define QR_PLUGIN_BUILD_LIBC "bionic"
#elif defined(__UCLIBC__)
#define QR_PLUGIN_BUILD_LIBC "uclibc"
#elif defined(__GLIBC__)
#define QR_PLUGIN_BUILD_LIBC "glibc"
#elif defined(__linux__) && __STDC_HOSTED__
#define QR_PLUGIN_BUILD_LIBC "musl"
#elif defined(_WIN32) /* DLLs of several do: nothing of a C library crosses this interface */
#define QR_PLUGIN_BUILD_LIBC "any"
#elif defined(__APPLE__)
#define QR_PLUGIN_BUILD_LIBC "libSystem"
#else
#define QR_PLUGIN_BUILD_LIBC "unknown"
#endif
#define QR_PLUGIN_BUILD_TARGET QR_PLUGIN_BUILD_ARCH "-" QR_PLUGIN_BUILD_OS "-" QR_PLUGIN_BUILD_LIBC

/* One whole note: header (n_namesz, n_descsz, n_type), name padded to 4, descriptor. */
typedef struct qr_plugin_note_section {
  uint32_t namesz;
  uint32_t descsz;
  uint32_t type;
  char name[8];
  qr_plugin_note note;
} qr_plugin_note_section;

/* The oldest host minor that a plugin can work with; a plugin that needs a later one defines it before it includes this
 * header. */
#ifndef QR_PLUGIN_ABI_MINOR_MIN
#define QR_PLUGIN_ABI_MINOR_MIN 1u
#endif

/* Where it stands: an ELF note; in a DLL a section of its own, which linkers keep because it is exported; in a file of
 * macOS' a section, too. */
#if defined(_WIN32)
#define QR_PLUGIN_NOTE_AS_(name_)                                                                       \
  extern __attribute__((dllexport, section(".qrnote"), aligned(4))) const qr_plugin_note_section name_; \
  const qr_plugin_note_section name_
#elif defined(__APPLE__)
#define QR_PLUGIN_NOTE_AS_(name_) \
  __attribute__((used, section("__TEXT,__qrnote"), aligned(4))) static const qr_plugin_note_section name_
#else
#define QR_PLUGIN_NOTE_AS_(name_) \
  __attribute__((used, section(".note.qr"), aligned(4))) static const qr_plugin_note_section name_
#endif

/* Defines the note; one per plugin, at file scope. */
#define QR_PLUGIN_NOTE(id_, version_, blob_version_)                                                     \
  QR_PLUGIN_NOTE_AS_(qr_plugin_note_section_) = {                                                        \
      7u,                                                                                                \
      (uint32_t)sizeof(qr_plugin_note),                                                                  \
      QR_PLUGIN_NOTE_TYPE,                                                                               \
      QR_PLUGIN_NOTE_NAME,                                                                               \
      {QR_PLUGIN_NOTE_MAGIC, (uint32_t)sizeof(qr_plugin_note), QR_PLUGIN_ABI_MAJOR, QR_PLUGIN_ABI_MINOR, \
       QR_PLUGIN_ABI_MINOR_MIN, (blob_version_), QR_PLUGIN_BUILD_FLAVOUR, 0u, id_, version_, QR_PLUGIN_BUILD_TARGET}}

/* ---- what the host gives --------------------------------------------------------------------- */

/* Where a slot says why it failed. Strings are copied. Calling `set` again replaces; `detail` adds a frame. */
typedef struct qr_error_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void (*set)(void *self, qr_plugin_code code, qr_plugin_string id, qr_plugin_string message, qr_plugin_string hint);
  void (*detail)(void *self, qr_plugin_string key, qr_plugin_string value);
} qr_error_sink;
#define QR_ERROR_SINK_FIRST_SIZE 32u

/* Abort and deadline of one call. A slot that gets one polls it often (at least between nodes) and returns QR_CANCELLED
 * (11) or QR_DEADLINE_EXCEEDED (10). `aborted` is plain memory, so that it can be watched from another process. */
typedef struct qr_plugin_signal {
  uint32_t struct_size;
  uint32_t reserved;
  const uint32_t *aborted; /* non-zero: stop; read with acquire order; may be NULL */
  uint64_t deadline_ns;    /* on host.clock_ns; 0: none */
} qr_plugin_signal;
#define QR_PLUGIN_SIGNAL_FIRST_SIZE 24u

/* How much of a call is recorded; each level holds those before it. */
#define QR_PLUGIN_PROFILE_BASIC 1u    /* the call, and its phases */
#define QR_PLUGIN_PROFILE_DETAILED 2u /* its nodes */
#define QR_PLUGIN_PROFILE_LINTING 3u  /* what the device says about each node beyond its time */
#define QR_PLUGIN_PROFILE_TRACE 4u    /* everything there is */

/* What begin and end of an event count. */
#define QR_PLUGIN_CLOCK_HOST 0u          /* nanoseconds of host.clock_ns */
#define QR_PLUGIN_CLOCK_DEVICE_NS 1u     /* nanoseconds from some beginning of the device's */
#define QR_PLUGIN_CLOCK_DEVICE_CYCLES 2u /* cycles of the device, likewise */
#define QR_PLUGIN_CLOCK_NONE 3u          /* no times: the event has counters alone */

/* FROZEN. What was counted in an event: {"bytes read", "bytes", 4096}. */
typedef struct qr_plugin_counter {
  qr_plugin_string name;
  qr_plugin_string unit;
  uint64_t value;
} qr_plugin_counter;

/* FROZEN. What else is known of an event. Keys with a meaning: "kernel", "shapes", "fused"; see profile.h. */
typedef struct qr_plugin_attribute {
  qr_plugin_string key;
  qr_plugin_string value;
} qr_plugin_attribute;

/* An event for the profile; everything is copied. A child may be reported before its parent. See qr_profile_event. */
typedef struct qr_plugin_event {
  uint32_t struct_size;
  uint32_t level;  /* QR_PLUGIN_PROFILE_* */
  uint64_t id;     /* the plugin's own, from 1, unique within the call; under 2^32 */
  uint64_t parent; /* such an id; 0: the call itself */
  uint32_t clock;  /* QR_PLUGIN_CLOCK_* */
  uint32_t thread; /* worker or device thread, from 0 */
  uint64_t begin;
  uint64_t end;
  int64_t node; /* index of the source node in the graph's QIR; -1: no node's */
  qr_plugin_string name;
  qr_plugin_string kind; /* "compile", "load", "run", "phase", "node", or a word of the plugin's */
  qr_plugin_string op;   /* the node's operator; may be empty */
  const qr_plugin_counter *counters;
  uint64_t counter_count;
  const qr_plugin_attribute *attributes;
  uint64_t attribute_count;
} qr_plugin_event;
#define QR_PLUGIN_EVENT_FIRST_SIZE 136u

/* Where events go; may be called from any thread until the call has returned. */
typedef struct qr_profile_sink {
  uint32_t struct_size;
  uint32_t level; /* the most detailed that is wanted */
  void *self;
  void (*event)(void *self, const qr_plugin_event *event);
} qr_profile_sink;
#define QR_PROFILE_SINK_FIRST_SIZE 24u

/* How far a long call has come: `done` of `total` steps (total 0: not known), and what it does. Any thread of the
 * call. A caller that wants no more of it has the call's signal aborted by the time `report` returns: ask it then. */
typedef struct qr_progress_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void (*report)(void *self, uint64_t done, uint64_t total, qr_plugin_string what);
} qr_progress_sink;
#define QR_PROGRESS_SINK_FIRST_SIZE 24u

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
#define QR_HOST_FIRST_SIZE 72u

/* Threads for one call: handed to execution.run and compiler.compile. */
typedef struct qr_host_threads {
  uint32_t struct_size;
  uint32_t worker_count; /* at least 1 */
  void *self;
  void (*parallel_for)(void *self, uint64_t count, uint64_t grain, qr_parallel_body body, void *context);
} qr_host_threads;
#define QR_HOST_THREADS_FIRST_SIZE 24u

/* ---- objects of the plugin (opaque to the host) ---------------------------------------------- */
typedef struct qr_backend qr_backend;
typedef struct qr_context qr_context;
typedef struct qr_execution qr_execution;
typedef struct qr_registration qr_registration;

/* ---- options --------------------------------------------------------------------------------- */

/* When an option is looked at; a value given later than that cannot have an effect. */
#define QR_PLUGIN_OPTION_COMPILE 1u /* it shapes the blob */
#define QR_PLUGIN_OPTION_LOAD 2u
#define QR_PLUGIN_OPTION_RUN 4u
/* Beside COMPILE: it names the machine that is compiled for, so it is not carried over to a compilation for another. */
#define QR_PLUGIN_OPTION_TARGET 8u

/* A row of a backend's option table. A key of the plugin's own begins with its id and a dot; keys of Quarry's own table
 * may be listed too, to say that they are honoured. */
typedef struct qr_plugin_option_info {
  uint32_t struct_size;
  uint32_t changes_at_run_time;
  uint32_t applies; /* QR_PLUGIN_OPTION_* */
  uint32_t reserved;
  qr_plugin_string key;
  qr_plugin_string values; /* "a|b|c", "integer LOW..HIGH", "path", "text": the host checks it before the plugin sees it
                            */
  qr_plugin_string default_value;
  qr_plugin_string help;
} qr_plugin_option_info;
#define QR_PLUGIN_OPTION_INFO_FIRST_SIZE 80u

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
#define QR_PLUGIN_DEVICE_INFO_FIRST_SIZE 72u

/* ---- compiler -------------------------------------------------------------------------------- */

/* One graph: QIR (graph), already verified, and the segments that its constants point into. */
typedef struct qr_plugin_graph {
  uint32_t struct_size;
  uint32_t reserved;
  qr_plugin_string name; /* of the shape bucket or variant; may be empty */
  qr_plugin_bytes qir;
  const qr_plugin_bytes *segments; /* borrowed until the call returns */
  uint64_t segment_count;
} qr_plugin_graph;
#define QR_PLUGIN_GRAPH_FIRST_SIZE 56u

/* What to check or compile. */
typedef struct qr_compile_request {
  uint32_t struct_size;
  uint32_t device;                      /* index of the device; it need not be usable */
  const qr_plugin_graph *const *graphs; /* check, compile: one; compile_group: those of one context */
  uint64_t graph_count;
  const qr_plugin_option *options; /* the backend's own keys, checked, defaults filled in */
  uint64_t option_count;
  const qr_plugin_signal *signal; /* may be NULL */
  const qr_host_threads *threads;
} qr_compile_request;
#define QR_COMPILE_REQUEST_FIRST_SIZE 56u

/* Of `check`: nobody reads `path` and `kernel` of the verdicts, so a backend need not find them. */
#define QR_PLUGIN_COMPILE_VERDICTS_ALONE 1u

/* By what a node runs. */
#define QR_PLUGIN_PATH_UNKNOWN 0u
#define QR_PLUGIN_PATH_NATIVE 1u    /* by a kernel made for this backend */
#define QR_PLUGIN_PATH_REFERENCE 2u /* by the plain loops that define the operator: right, and slow */
#define QR_PLUGIN_PATH_NONE 3u      /* nothing runs for it: fused into another node, folded, or a view */

typedef struct qr_plugin_verdict {
  uint32_t struct_size;
  uint32_t node; /* index in the graph's QIR */
  int32_t supported;
  uint32_t path;           /* QR_PLUGIN_PATH_*, of a supported node */
  qr_plugin_string id;     /* of a refused node: an error id */
  qr_plugin_string reason; /* of a refused node: found, limit */
  qr_plugin_string hint;   /* of a refused node: what to change; may be empty */
  qr_plugin_string kernel; /* of a supported node: "gemm_f32", "fused into conv_3"; may be empty */
} qr_plugin_verdict;
#define QR_PLUGIN_VERDICT_FIRST_SIZE 80u

/* Takes the verdict on each node, in any order; a node without a verdict counts as refused (QR-L0115). */
typedef struct qr_verdict_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  void (*verdict)(void *self, const qr_plugin_verdict *verdict);
} qr_verdict_sink;
#define QR_VERDICT_SINK_FIRST_SIZE 24u

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
#define QR_PLUGIN_PLAN_FIRST_SIZE 48u

/* Takes the result of a compilation. The order of the segments is the blob's own numbering: the first kept or added is
 * 0. The container stores equal segments once, whoever wrote them. */
typedef struct qr_blob_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  /* Keeps a segment of a graph of the request as it is. */
  qr_plugin_code (*keep_segment)(void *self, uint64_t graph, uint64_t segment, uint32_t *out_segment);
  /* Adds bytes (packed weights, say), copied. align_bytes: a power of two up to 16384. */
  qr_plugin_code (*add_segment)(void *self, const void *data, uint64_t size, uint64_t align_bytes,
                                uint32_t *out_segment);
  /* The blob itself, copied; exactly once. */
  qr_plugin_code (*blob)(void *self, const void *data, uint64_t size);
  /* What it was compiled for, and a key that only the plugin understands; both stand in the container. */
  qr_plugin_code (*compatibility)(void *self, qr_plugin_string target, qr_plugin_string key);
  qr_plugin_code (*plan)(void *self, const qr_plugin_plan *plan);
} qr_blob_sink;
#define QR_BLOB_SINK_FIRST_SIZE 56u

/* ---- context --------------------------------------------------------------------------------- */

/* FROZEN. Bytes of a loaded container, and the same bytes as a part of a file, for a device or a process that maps
 * them itself. The descriptor is borrowed until context_destroy returned. */
typedef struct qr_plugin_segment {
  const void *data;
  uint64_t size;
  int32_t fd; /* -1: in no file */
  uint32_t reserved;
  uint64_t offset; /* in that file */
  uint64_t hash;   /* XXH3 (64 bits) of the bytes, as the container has it; 0: not known */
} qr_plugin_segment;

/* A compiled context as it stands in a container. Bytes stay mapped until context_destroy returned. */
typedef struct qr_blob {
  uint32_t struct_size;
  uint32_t version;                  /* the blob version that wrote it */
  qr_plugin_segment bytes;           /* at least 64-byte aligned */
  const qr_plugin_segment *segments; /* page-aligned when mapped from a container */
  uint64_t segment_count;
  qr_plugin_string target;
  qr_plugin_string key;
  uint64_t graph_count; /* that were compiled into it, in the order of the request */
} qr_blob;
#define QR_BLOB_FIRST_SIZE 104u

#define QR_PLUGIN_GRADE_OPTIMAL 1
#define QR_PLUGIN_GRADE_USABLE 2
#define QR_PLUGIN_GRADE_RECOMPILE 3
#define QR_PLUGIN_GRADE_INCOMPATIBLE 4

/* For grade, plan and load. */
typedef struct qr_load_request {
  uint32_t struct_size;
  uint32_t device;
  const qr_blob *blob;
  const qr_plugin_option *options; /* the backend's own keys, checked, defaults filled in */
  uint64_t option_count;
  const qr_plugin_signal *signal; /* may be NULL */
} qr_load_request;
#define QR_LOAD_REQUEST_FIRST_SIZE 40u

/* An input or output of a graph, in the order of the graph's. */
typedef struct qr_plugin_tensor_info {
  uint32_t struct_size;
  int32_t dtype;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[QR_PLUGIN_MAX_RANK]; /* -1: known after the run; of an input of a device with QR_DEVICE_RANGES or
                                     * QR_DEVICE_BATCHES: each run gives it, and the plugin checks it (QR-R0003) */
  qr_plugin_string name;
} qr_plugin_tensor_info;
#define QR_PLUGIN_TENSOR_INFO_FIRST_SIZE 96u

/* ---- execution ------------------------------------------------------------------------------- */

/* FROZEN. Data of one input or output for one run. With `memory` the data lies there at memory_offset, and `data` is
 * the host's view of it, NULL where the memory has none. For an output of unknown shape `data` may be NULL: the plugin
 * then points it to its own memory, valid until the next run of the execution object or its end; that of a submitted
 * run until queue_depth more have been submitted. The plugin writes dims, rank and used_bytes of every output. */
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

/* since 0.2. An output that is the input with entries behind it, along an axis. Where the plugin takes that, the data
 * of both are one block in each run, with room for `capacity` entries: an entry has its place whatever the length is,
 * index i in front of the axis begins behind i * capacity entries. The input's dims have the entries that there are,
 * and no run changes those. An output of more entries than `capacity` is QR-R0005. */
typedef struct qr_plugin_appended {
  uint32_t input;
  uint32_t output;
  uint32_t axis;
  uint32_t taken; /* 0; the plugin sets 1 */
  uint64_t capacity;
} qr_plugin_appended;

typedef struct qr_execution_request {
  uint32_t struct_size;
  uint32_t graph;                  /* which of the context's */
  const qr_plugin_option *options; /* the backend's own keys, checked, defaults filled in */
  uint64_t option_count;
} qr_execution_request;
#define QR_EXECUTION_REQUEST_FIRST_SIZE 24u

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
#define QR_RUN_REQUEST_FIRST_SIZE 64u

/* ---- memory ---------------------------------------------------------------------------------- */

#define QR_PLUGIN_ACCESS_READ 1u /* by the device in its runs, or by the host in begin_access and map */
#define QR_PLUGIN_ACCESS_WRITE 2u

#define QR_PLUGIN_MEMORY_NO_HOST_POINTER 1u /* the caller does without a host's view; `data` may be NULL */

/* Memory that every execution of the backend may use. The fields that a slot does not name are 0. */
typedef struct qr_plugin_memory_request {
  uint32_t struct_size;
  uint32_t device;
  uint64_t size_bytes;
  uint32_t device_access; /* what runs will do with it: QR_PLUGIN_ACCESS_* */
  uint32_t flags;         /* QR_PLUGIN_MEMORY_* */
  void *data;             /* register_pointer */
  int32_t fd;             /* import_fd: borrowed until release */
  uint32_t reserved;
  uint64_t offset; /* import_fd: in the file */
} qr_plugin_memory_request;
#define QR_PLUGIN_MEMORY_REQUEST_FIRST_SIZE 48u

typedef struct qr_plugin_memory_info {
  uint32_t struct_size;
  uint32_t coherent; /* 1: host and device see each other's writes without begin_access and end_access */
  void *data;        /* the host's view; NULL: none, or none before `map` */
} qr_plugin_memory_info;
#define QR_PLUGIN_MEMORY_INFO_FIRST_SIZE 16u

/* ---- the plugin's tables, by concept --------------------------------------------------------- */

typedef struct qr_plugin_device_api {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t (*count)(qr_backend *backend); /* (required) */
  /* (required) */
  qr_plugin_code (*info)(qr_backend *backend, uint64_t index, qr_plugin_device_info *out_info,
                         const qr_error_sink *errors);
} qr_plugin_device_api;
#define QR_PLUGIN_DEVICE_API_FIRST_SIZE 24u

typedef struct qr_plugin_option_api {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t (*count)(qr_backend *backend); /* (required) */
  /* (required) */
  qr_plugin_code (*info)(qr_backend *backend, uint64_t index, qr_plugin_option_info *out_info,
                         const qr_error_sink *errors);
} qr_plugin_option_api;
#define QR_PLUGIN_OPTION_API_FIRST_SIZE 24u

typedef struct qr_plugin_compiler_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Gives a verdict on every node of one graph. (required) */
  qr_plugin_code (*check)(qr_backend *backend, const qr_compile_request *request, const qr_verdict_sink *verdicts,
                          const qr_error_sink *errors);
  /* Compiles one graph of which every node was found supported. (required) */
  qr_plugin_code (*compile)(qr_backend *backend, const qr_compile_request *request, const qr_blob_sink *result,
                            const qr_error_sink *errors);
  /* Says whether an operator is in the backend's repertoire, by its name and the newest version of it that the host
   * knows; `out_types` and `out_note` are static texts. 1, 0, or -1 for an operator that the plugin has never heard of.
   * (optional: the coverage report says "unknown") */
  int32_t (*supports)(qr_backend *backend, qr_plugin_string domain, qr_plugin_string name, uint32_t version,
                      qr_plugin_string *out_types, qr_plugin_string *out_note);
} qr_plugin_compiler_api;
#define QR_PLUGIN_COMPILER_API_FIRST_SIZE 32u

/* Takes bytes, copied, one piece behind the other. */
typedef struct qr_bytes_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  qr_plugin_code (*write)(void *self, const void *data, uint64_t size);
} qr_bytes_sink;
#define QR_BYTES_SINK_FIRST_SIZE 24u

/* since 0.2. Takes files that belong together, one after the other. The host writes them where its caller wants them,
 * whole or not at all: no plugin writes a file that its caller asked for. A code other than 0 ends the slot: the host
 * knows why. */
typedef struct qr_files_sink {
  uint32_t struct_size;
  uint32_t reserved;
  void *self;
  /* The next file; the one before is whole. `name`: without folders; `size`: what will be written; `more`: files that
   * follow. */
  qr_plugin_code (*begin)(void *self, qr_plugin_string name, uint64_t size, uint64_t more);
  qr_plugin_code (*write)(void *self, const void *data, uint64_t size); /* NULL: zeros */
} qr_files_sink;
#define QR_FILES_SINK_FIRST_SIZE 32u

typedef struct qr_plugin_context_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* Grades a blob from version, target and key; `bytes` and segments are there but need not be read. The reason goes to
   * the sink's `set` with code 0. (required) */
  qr_plugin_code (*grade)(qr_backend *backend, const qr_load_request *request, int32_t *out_grade,
                          const qr_error_sink *reason);
  /* What `load` and one execution will need. (optional: the host uses what compile said) */
  qr_plugin_code (*plan)(qr_backend *backend, const qr_load_request *request, qr_plugin_plan *out_plan,
                         const qr_error_sink *errors);
  /* Loads. The blob is untrusted: everything in it is checked. (required) */
  qr_plugin_code (*load)(qr_backend *backend, const qr_load_request *request, qr_context **out_context,
                         const qr_error_sink *errors);
  uint64_t (*input_count)(qr_context *context, uint64_t graph);  /* (required) */
  uint64_t (*output_count)(qr_context *context, uint64_t graph); /* (required) */
  /* (required) */
  qr_plugin_code (*tensor)(qr_context *context, uint64_t graph, int32_t is_output, uint64_t index,
                           qr_plugin_tensor_info *out_info, const qr_error_sink *errors);
  void (*destroy)(qr_context *context); /* (required) */
} qr_plugin_context_api;
#define QR_PLUGIN_CONTEXT_API_FIRST_SIZE 64u

/* What an execution has of a range of shapes (QR_DEVICE_RANGES). */
typedef struct qr_plugin_plans {
  uint32_t struct_size;
  uint32_t reserved;
  uint64_t most;          /* plans that are kept; 0: it is of no range */
  uint64_t kept;          /* now */
  uint64_t bytes;         /* their memory, without what they share */
  uint64_t weights_bytes; /* packed weights that all executions of the context share, beyond those of the blob */
  uint64_t hits;          /* runs that found their plan, since it was created */
  uint64_t made;
  uint64_t dropped;
} qr_plugin_plans;
#define QR_PLUGIN_PLANS_FIRST_SIZE 64u

typedef struct qr_plugin_execution_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* (required) */
  qr_plugin_code (*create)(qr_context *context, const qr_execution_request *request, qr_execution **out_execution,
                           const qr_error_sink *errors);
  /* Runs once, and returns when the outputs are complete. Allocates nothing from the second run with the same shapes
   * on. (required) */
  qr_plugin_code (*run)(qr_execution *execution, const qr_run_request *request, const qr_error_sink *errors);
  /* Changes an option whose row says so. (optional: no option changes at run time) */
  qr_plugin_code (*set_option)(qr_execution *execution, qr_plugin_string key, qr_plugin_string value,
                               const qr_error_sink *errors);
  void (*destroy)(qr_execution *execution); /* (required) */
} qr_plugin_execution_api;
#define QR_PLUGIN_EXECUTION_API_FIRST_SIZE 40u

/* Registrations belong to the backend and serve all its contexts and executions on the device that they were made for.
 */
typedef struct qr_plugin_memory_api {
  uint32_t struct_size;
  uint32_t reserved;
  /* (optional: the host allocates plain memory and registers that) */
  qr_plugin_code (*allocate)(qr_backend *backend, const qr_plugin_memory_request *request,
                             qr_plugin_memory_info *out_info, qr_registration **out_registration,
                             const qr_error_sink *errors);
  /* (optional: UNSUPPORTED) */
  qr_plugin_code (*import_fd)(qr_backend *backend, const qr_plugin_memory_request *request,
                              qr_plugin_memory_info *out_info, qr_registration **out_registration,
                              const qr_error_sink *errors);
  /* (optional: the host passes plain pointers) */
  qr_plugin_code (*register_pointer)(qr_backend *backend, const qr_plugin_memory_request *request,
                                     qr_plugin_memory_info *out_info, qr_registration **out_registration,
                                     const qr_error_sink *errors);
  /* (required where one of the above is there) */
  void (*release)(qr_backend *backend, qr_registration *registration);
} qr_plugin_memory_api;
#define QR_PLUGIN_MEMORY_API_FIRST_SIZE 40u

/* What qr_plugin_query returns: static, the same for every host. What is spoken is the smaller of the host's
 * abi_minor_max and the plugin's abi_minor. */
typedef struct qr_plugin {
  uint32_t struct_size;
  uint32_t abi_minor; /* built against */
  uint64_t magic;
  const char *id; /* as in the note */
  const char *version;
  const char *description; /* one line */
  uint32_t blob_version;
  uint32_t abi_minor_min;                   /* the oldest host minor it can work with, as in the note */
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
#define QR_PLUGIN_FIRST_SIZE 120u

/* The one export. For a host with which it shares no minor it says why and returns QR_INCOMPATIBLE (6). */
typedef qr_plugin_code (*qr_plugin_query_fn)(const qr_host *host, const qr_plugin **out_plugin,
                                             const qr_error_sink *errors);

#if defined(_WIN32)
#define QR_PLUGIN_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define QR_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define QR_PLUGIN_EXPORT
#endif

#ifdef __cplusplus
}
#endif
#endif
