/* SPDX-License-Identifier: Apache-2.0 */
/* qr_model: an opened .onnx or .qrm file; immutable, shareable between threads and sessions. */
#ifndef QUARRY_MODEL_H
#define QUARRY_MODEL_H

#include <quarry/call.h>
#include <quarry/options.h>
#include <quarry/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a model file. A .qrm is mapped, or read into memory with the option "container.map" at 0; an .onnx is parsed
 * and checked, and its external data are mapped or read likewise. The kind is told from the content. A mapped file must
 * not be cut or written to in place as long as the model or a session of it lives: replace it by renaming another over
 * it.
 * @param runtime    borrows: kept alive by the model.
 * @param path       borrows: UTF-8.
 * @param options    borrows: may be NULL; of use here: "verify", "container.map" and, for ONNX, "shape".
 * @param out_model  gives: qr_model_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT, INCOMPATIBLE, UNSUPPORTED (all reasons as details),
 * RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_open_path(qr_runtime *runtime, qr_string path, const qr_options *options,
                                                 qr_model **out_model);

/* Opens a model from a file descriptor (a sandbox's, or a part of an Android package).
 * @param runtime     borrows: kept alive by the model.
 * @param fd          borrows: duplicated; nobody moves its file position. "container.map" means here what it means of a
 *                    path: the range is mapped, or read.
 * @param offset      in bytes: where the model begins.
 * @param size_bytes  the model's length; 0: to the end of the file.
 * @param options     borrows: as in qr_model_open_path.
 * @param out_model   gives: qr_model_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  as qr_model_open_path; OUT_OF_RANGE (offset or length past the file)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_open_fd(qr_runtime *runtime, int32_t fd, uint64_t offset, uint64_t size_bytes,
                                               const qr_options *options, qr_model **out_model);

/* Opens a model from memory. It is used where it lies, or copied once if it is not aligned to 64 bytes; the option
 * "container.map" changes nothing here.
 * @param runtime     borrows: kept alive by the model.
 * @param data        borrows: must stay valid and unchanged until the model and its sessions are gone.
 * @param size_bytes  of data.
 * @param options     borrows: as in qr_model_open_path.
 * @param out_model   gives: qr_model_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  as qr_model_open_path
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_open_memory(qr_runtime *runtime, const void *data, uint64_t size_bytes,
                                                   const qr_options *options, qr_model **out_model);

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

/* What the model says of an input. With several shape buckets the extents that differ are QR_DIM_UNKNOWN.
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

/* The name of a symbolic extent ("batch"); empty where the extent has none.
 * @param model     borrows.
 * @param index     of the input.
 * @param axis      under its rank.
 * @param out_name  borrows: as long as the model.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_input_dim_name(const qr_model *model, uint64_t index, uint64_t axis,
                                                      qr_string *out_name);

/* Everything the model says of itself, as JSON: kind, producer, inputs, outputs, graphs with their shapes, operators
 * and their counts, contexts (backend, target, blob version, compatibility key, options), segments, metadata. The
 * schema is docs/formats/inspect.md.
 * @param model     borrows.
 * @param out_json  gives: qr_string_destroy; NUL-terminated.
 * @thread  [thread-safe] [blocking]
 * @errors  INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_inspect(const qr_model *model, char **out_json);

/* Reads every byte of a .qrm and checks all sums and rules; an .onnx was checked when it was opened.
 * @param model  borrows.
 * @thread  [thread-safe] [blocking]
 * @errors  CORRUPT, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_verify(const qr_model *model);

/* Compiles a model for a backend into a .qrm file. The file appears whole or not at all (it is written beside its place
 * and renamed). Options of use: "backend", "device_id", "shape" (several: shape buckets), "container.keep_graph",
 * "metadata.<key>" and the backend's own.
 * @param model     borrows: an ONNX model, or a container that kept its graph.
 * @param options   borrows: may be NULL: the backend is then cpu.
 * @param path      borrows: UTF-8: the file to write.
 * @param call      borrows: may be NULL.
 * @thread  [thread-safe] [blocking]
 * @errors  UNSUPPORTED (nodes the backend refuses: one "reason" detail for each), INVALID_ARGUMENT, NOT_FOUND,
 *          CANCELLED, DEADLINE_EXCEEDED, PERMISSION_DENIED, RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_compile(const qr_model *model, const qr_options *options, qr_string path,
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
 * @param out_grade   the grade.
 * @param out_reason  gives: qr_string_destroy; one line: found and expected; NUL-terminated.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND (no such backend, or the container has no context for it), INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_model_compatibility(const qr_model *model, const qr_options *options,
                                                     qr_compatibility *out_grade, char **out_reason);

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
