/* SPDX-License-Identifier: Apache-2.0 */
/* qr_model: an opened .onnx or .qrm file; immutable, shareable between threads and sessions. */
#ifndef QUARRY_MODEL_H
#define QUARRY_MODEL_H

#include <quarry/call.h>
#include <quarry/options.h>
#include <quarry/target.h>
#include <quarry/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where a model is read from. Start from one of the macros below; what a kind does not name is not looked at. */
typedef struct qr_model_source {
  uint32_t struct_size;
  uint32_t kind;    /* QR_SOURCE_* */
  qr_string path;   /* PATH: the bytes of its name; UTF-8 on Windows, Linux asks for none */
  const void *data; /* MEMORY: used where it lies, or copied once if it is not aligned to 64 bytes. Must stay valid and
                     * unchanged until the model and its sessions are gone */
  uint64_t offset;  /* DESCRIPTOR: where the model begins, in bytes (a part of an Android package) */
  uint64_t size_bytes; /* MEMORY, READER: of the model; DESCRIPTOR: likewise, 0: to the end of the file */
  int32_t fd;          /* DESCRIPTOR: duplicated; nobody moves its file position. (Not on Windows.) */
  int32_t folder_fd;   /* of the folder with the external data of an .onnx: duplicated; -1: with PATH that of the file,
                        * else there is none; on Windows -1 */
  void *self;
  /* READER: fills `to` with so many bytes of the model from `offset` on; 0, or an errno. Called within qr_model_open,
   * on its thread, from the first byte to the last. */
  int32_t (*read)(void *self, uint64_t offset, void *to, uint64_t size_bytes);
  /* External data of an .onnx, of any kind of source, in place of a folder; may be NULL. Fills `out_source`, which is
   * QR_MODEL_SOURCE_INIT, with where the whole file `name` is, by one of the macros below; what that names must stay as
   * that of the model. 0; ENOENT: there is none; another errno, with which opening fails. `name` is as the model has
   * it, relative, without "..", and is asked for once. Called within qr_model_open, on its thread. */
  int32_t (*external)(void *self, qr_string name, struct qr_model_source *out_source);
} qr_model_source;
#define QR_MODEL_SOURCE_FIRST_SIZE 72u
#define QR_MODEL_SOURCE_INIT \
  { sizeof(qr_model_source), 0, {NULL, 0}, NULL, 0, 0, -1, -1, NULL, NULL, NULL }

#define QR_SOURCE_PATH 1u
#define QR_SOURCE_MEMORY 2u
#define QR_SOURCE_DESCRIPTOR 3u
#define QR_SOURCE_READER 4u

/* Sources as initialisers: qr_model_source source = QR_MODEL_AT("model.qrm"); */
#define QR_MODEL_AT(path) \
  { sizeof(qr_model_source), QR_SOURCE_PATH, {path, QR_NUL_TERMINATED}, NULL, 0, 0, -1, -1, NULL, NULL, NULL }
#define QR_MODEL_IN_MEMORY(data, size_bytes) \
  { sizeof(qr_model_source), QR_SOURCE_MEMORY, {NULL, 0}, data, 0, size_bytes, -1, -1, NULL, NULL, NULL }
#define QR_MODEL_IN_FILE(fd, offset, size_bytes) \
  { sizeof(qr_model_source), QR_SOURCE_DESCRIPTOR, {NULL, 0}, NULL, offset, size_bytes, fd, -1, NULL, NULL, NULL }
#define QR_MODEL_BY_READER(self, read, size_bytes) \
  { sizeof(qr_model_source), QR_SOURCE_READER, {NULL, 0}, NULL, 0, size_bytes, -1, -1, self, read, NULL }

/* Opens a model. A .qrm is mapped where it is a file, or read into memory with the option "container.map" at 0; an
 * .onnx is parsed and checked, and its external data are opened now, and mapped or read likewise. The kind is found
 * from the content. A mapped file must not be cut or written to in place as long as the model or a session of it lives:
 * replace it by renaming another over it.
 * @param runtime    borrows: kept alive by the model.
 * @param source     borrows.
 * @param options    borrows: may be NULL; of use here: "verify", "container.map" and, for ONNX, "shape",
 * "model.folder".
 * @param call       borrows: may be NULL.
 * @param out_model  gives: qr_model_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT, INCOMPATIBLE, UNSUPPORTED (all reasons as details), OUT_OF_RANGE
 * (offset or size past the file), CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_open(qr_runtime *runtime, const qr_model_source *source,
                                            const qr_options *options, const qr_call_options *call,
                                            qr_model **out_model);

/* The number of inputs; 0 for NULL.
 * @param model  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_model_input_count(const qr_model *model);

/* The number of outputs; 0 for NULL.
 * @param model  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_model_output_count(const qr_model *model);

/* What the model says of an input. With several shape buckets the dimensions that differ are QR_DIM_UNKNOWN.
 * @param model     borrows.
 * @param index     under qr_model_input_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the model.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_input(const qr_model *model, uint64_t index, qr_tensor_info *out_info);

/* What the model says of an output; as qr_model_input.
 * @param model     borrows.
 * @param index     under qr_model_output_count.
 * @param out_info  borrows: set its struct_size; its strings live as long as the model.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_output(const qr_model *model, uint64_t index, qr_tensor_info *out_info);

/* The name of a symbolic dimension ("batch"); empty where the dimension has none.
 * @param model     borrows.
 * @param index     of the input.
 * @param axis      under its rank.
 * @param out_name  borrows: as long as the model.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_input_dim_name(const qr_model *model, uint64_t index, uint64_t axis,
                                                      qr_string *out_name);

/* The same of an output.
 * @param model     borrows.
 * @param index     of the output.
 * @param axis      under its rank.
 * @param out_name  borrows: as long as the model.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_output_dim_name(const qr_model *model, uint64_t index, uint64_t axis,
                                                       qr_string *out_name);

/* The number of properties that the model carries (ONNX's metadata_props, "metadata.<key>" of a container); 0 for NULL.
 * @param model  borrows.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_model_property_count(const qr_model *model);

/* A property of the model.
 * @param model      borrows.
 * @param index      under qr_model_property_count.
 * @param out_key    borrows: as long as the model; any bytes that the file has.
 * @param out_value  borrows: likewise.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_property(const qr_model *model, uint64_t index, qr_string *out_key,
                                                qr_string *out_value);

/* Everything the model says of itself, as JSON: kind, producer, inputs, outputs, graphs with their shapes, operators
 * and their counts, contexts (backend, target, blob version, compatibility key, options), segments, metadata. The
 * schema is docs/formats/inspect.md.
 * @param model     borrows.
 * @param call      borrows: may be NULL.
 * @param out_json  gives: qr_string_destroy; NUL-terminated.
 * @thread  [thread-safe] [blocking]
 * @errors  INVALID_ARGUMENT, CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_inspect(const qr_model *model, const qr_call_options *call, char **out_json);

/* Reads every byte of a .qrm and checks all sums and rules. Of an .onnx, what was not checked when it was opened: all
 * data, external ones too, are there and whole, and each value is made by a node, an input or an initializer.
 * @param model  borrows.
 * @param call   borrows: may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  CORRUPT, NOT_FOUND (external data), UNSUPPORTED (several reasons at once), INVALID_ARGUMENT, CANCELLED,
 *          DEADLINE_EXCEEDED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_verify(const qr_model *model, const qr_call_options *call);

/* Compiles a model for a backend into a container, the file "model.qrm". Where the target's name ends in ".onnx" it
 * becomes what ONNX Runtime loads, as with option ep.context_file_path: a model of an EPContext node, and with
 * ep.context_embed_mode at 0 the device's binary as a file before it. Options of use: "backend", "device_id", "shape"
 * (several: shape buckets), "container.keep_graph", "metadata.<key>" and the backend's own.
 * @param model     borrows: an ONNX model, or a container that kept its graph.
 * @param options   borrows: may be NULL: the backend is then cpu.
 * @param target    borrows: where the files go.
 * @param call      borrows: may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  UNSUPPORTED (nodes the backend refuses: one "reason" detail for each), INVALID_ARGUMENT, NOT_FOUND,
 *          CANCELLED, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED, UNAVAILABLE (the target's writer)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_compile(const qr_model *model, const qr_options *options,
                                               const qr_target *target, const qr_call_options *call);

/* One of several models that become one container: a network. */
typedef struct qr_network {
  uint32_t struct_size;
  uint32_t reserved;
  const qr_model *model; /* borrows: the shapes of its options are its buckets */
  qr_string name;        /* UTF-8, not empty: what the option "model" chooses it by */
} qr_network;
#define QR_NETWORK_FIRST_SIZE 32u
#define QR_NETWORK_INIT                      \
  {                                          \
    sizeof(qr_network), 0, NULL, { NULL, 0 } \
  }

/* Compiles several models for a backend into one container. What is equal in them is in the file once; a backend that
 * takes several graphs (htp) has all of them in one program, with weights in common where its options say so. Such a
 * container is opened with the option "model", which names a network of it. Where the target's name ends in ".onnx" it
 * is a model of an EPContext node for each network and bucket, "name_1.onnx" and so on in their order, which have one
 * binary. Options as for qr_model_compile but "shape", which is each model's own.
 * @param networks  borrows: all of models of one runtime.
 * @param count     of the networks; at least one.
 * @param options   borrows: may be NULL: the backend is then cpu.
 * @param target    borrows: where the files go.
 * @param call      borrows: may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  as qr_model_compile
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_model_compile_networks(const qr_network *const *networks, uint64_t count,
                                                        const qr_options *options, const qr_target *target,
                                                        const qr_call_options *call);

/* Writes a model's graph as it is after the passes that all backends share, for other programs; nothing is compiled.
 * The target's name says how: ".onnx" (also where it has no name): a model, with its constants in a file before it
 * where they are more than 2 GB; ".onnx.data": with them there in any case, in the file of this name; ".json": what
 * docs/formats/graph.md describes. Options as for qr_model_compile, "graph.head" and "graph.tail" among them.
 * @param model     borrows: an ONNX model, or a container that kept its graph.
 * @param options   borrows: may be NULL.
 * @param target    borrows: where the files go.
 * @param call      borrows: may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  as qr_model_compile; UNSUPPORTED: ONNX has no form for a node
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_model_export(const qr_model *model, const qr_options *options, const qr_target *target,
                                              const qr_call_options *call);

/* Asks a backend about every node and compiles nothing. JSON: {"backend", "supported", "refused", "nodes": [{"name",
 * "op", "supported", "reason", "id", "hint", "path", "kernel", "inputs", "outputs"}]}. "path" says by what a supported
 * node runs: "native", "reference" (right, and slow), "none" (fused, folded or a view) or "unknown". Where nodes are
 * refused, "cut" has the tensors between which the most nodes are taken wholly ("kept" of "nodes"): "front" for the
 * option graph.tail, "back" for graph.head. It is not there where no cut helps.
 * @param model     borrows: an ONNX model, or a container that kept its graph.
 * @param options   borrows: may be NULL; as for qr_model_compile.
 * @param call      borrows: may be NULL.
 * @param out_json  gives: qr_string_destroy; NUL-terminated.
 * @thread  [thread-safe] [blocking]
 * @errors  INVALID_ARGUMENT, NOT_FOUND, UNSUPPORTED (the model has no graph to ask about), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_check(const qr_model *model, const qr_options *options,
                                             const qr_call_options *call, char **out_json);

/* How well a context of a container fits a backend of this machine. */
typedef int32_t qr_compatibility;
#define QR_COMPATIBILITY_OPTIMAL 1
#define QR_COMPATIBILITY_USABLE 2       /* runs, but another compilation would be better */
#define QR_COMPATIBILITY_RECOMPILE 3    /* does not run; the kept graph can be compiled again */
#define QR_COMPATIBILITY_INCOMPATIBLE 4 /* does not run, and there is no graph to compile */

/* Grades a container's context for a backend without loading it and without a session.
 * @param model       borrows.
 * @param options     borrows: may be NULL; "backend" and "device_id" choose.
 * @param call        borrows: may be NULL.
 * @param out_grade   the grade.
 * @param out_reason  gives: qr_string_destroy; one line: found and expected; NUL-terminated.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND (no such backend, or the container has no context for it), INVALID_ARGUMENT, CANCELLED,
 *          DEADLINE_EXCEEDED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_compatibility(const qr_model *model, const qr_options *options,
                                                     const qr_call_options *call, qr_compatibility *out_grade,
                                                     char **out_reason);

/* Lets go of a model; its sessions keep what they need. Accepts NULL.
 * @param model  takes.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API void qr_model_destroy(qr_model *model);

#ifdef __cplusplus
}
#endif
#endif
