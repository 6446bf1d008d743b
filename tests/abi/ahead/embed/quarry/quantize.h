/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_quantizer: a float ONNX model and inputs of it to a model with QuantizeLinear and DequantizeLinear nodes, which
 * NPUs run well and ONNX Runtime too. In a library of its own, libquarry-quantize, which a program links beside
 * libquarry of the same release; quarry.h does not include this header. Texts that these functions give are freed with
 * qr_string_destroy, and statuses with qr_status_destroy, as all others. */
#ifndef QUARRY_QUANTIZE_H
#define QUARRY_QUANTIZE_H

#include <quarry/call.h>
#include <quarry/model.h>
#include <quarry/runtime.h>
#include <quarry/target.h>
#include <quarry/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qr_quantizer qr_quantizer;

/* One option of a quantisation. */
typedef struct qr_quantize_option {
  uint32_t struct_size;
  uint32_t reserved;
  qr_string key;
  qr_string values;        /* "a|b|c", "integer LOW..HIGH", "number LOW..HIGH", "text", "path" or "list" */
  qr_string default_value; /* may be empty */
  qr_string help;
  /* since one minor later */
  uint64_t later;
} qr_quantize_option;
#define QR_QUANTIZE_OPTION_FIRST_SIZE 72u
#define QR_QUANTIZE_OPTION_INIT                                                 \
  {                                                                             \
    sizeof(qr_quantize_option), 0, {NULL, 0}, {NULL, 0}, {NULL, 0}, { NULL, 0 } \
  }

/* The number of options.
 * @thread  [thread-safe]
 * @errors  none
 * @since   0.1 */
QR_API uint64_t qr_quantize_option_count(void);

/* What is known of an option.
 * @param index       under qr_quantize_option_count.
 * @param out_option  borrows: set its struct_size; its strings are static.
 * @thread  [thread-safe]
 * @errors  OUT_OF_RANGE, INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantize_option_at(uint64_t index, qr_quantize_option *out_option);

/* Opens the float model: an .onnx, with its external data.
 * @param runtime        borrows: kept alive by the quantizer. Its cpu backend runs the model.
 * @param source         borrows: memory that it names must stay until the quantizer is gone.
 * @param call           borrows: may be NULL; its signal aborts it.
 * @param out_quantizer  gives: qr_quantizer_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT, UNSUPPORTED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, CANCELLED,
 *          DEADLINE_EXCEEDED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_open(qr_runtime *runtime, const qr_model_source *source,
                                                const qr_call_options *call, qr_quantizer **out_quantizer);

/* Sets one option, before the inputs are asked for and samples are given; the last value of a key holds.
 * @param quantizer  borrows.
 * @param key        borrows: UTF-8.
 * @param value      borrows: UTF-8; of an option whose values are a "path" any bytes but NUL.
 * @thread  [exclusive:quantizer]
 * @errors  NOT_FOUND (unknown key: the nearest is named), INVALID_ARGUMENT (bad value: the allowed ones are listed),
 *          FAILED_PRECONDITION (too late), RESOURCE_EXHAUSTED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_set(qr_quantizer *quantizer, qr_string key, qr_string value);

/* The number of inputs of the model as it is prepared; the first call imports and prepares it.
 * @param quantizer  borrows.
 * @param call       borrows: may be NULL; its signal aborts it, and the next call begins anew.
 * @param out_count  borrows: the number.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  INVALID_ARGUMENT (a dimension that no shape binds, a model that is quantised already), UNSUPPORTED (all
 *          reasons as details), RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_input_count(qr_quantizer *quantizer, const qr_call_options *call,
                                                       uint64_t *out_count);

/* What a sample has for an input: type, and shape with every dimension known.
 * @param quantizer  borrows.
 * @param index      under qr_quantizer_input_count.
 * @param out_info   borrows: set its struct_size; its strings live as long as the quantizer.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  OUT_OF_RANGE, and as qr_quantizer_input_count
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_input(qr_quantizer *quantizer, uint64_t index, qr_tensor_info *out_info);

/* Runs the float model on one sample and takes note of what each tensor holds. Samples are not kept, but for the first
 * few (option "evaluate"): memory does not grow with their number. One that fails leaves everything as it was.
 * @param quantizer    borrows.
 * @param inputs       borrows: input_count tensors in the order of qr_quantizer_input, with their data.
 * @param input_count  must equal qr_quantizer_input_count.
 * @param call         borrows: may be NULL; its timeout is of all of this.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  INVALID_ARGUMENT (count, type, shape; a NaN: the tensor that has it is named), CANCELLED, DEADLINE_EXCEEDED,
 *          and as qr_quantizer_input_count
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_add_sample(qr_quantizer *quantizer, const qr_tensor *const *inputs,
                                                      uint64_t input_count, const qr_call_options *call);

/* The number of samples seen so far, those of a calibration that was taken up included.
 * @param quantizer  borrows.
 * @param out_count  borrows: the number.
 * @thread  [exclusive:quantizer]
 * @errors  INVALID_ARGUMENT
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_sample_count(qr_quantizer *quantizer, uint64_t *out_count);

/* Writes all that is known of the samples so far, the file "calibration", from which another process can go on. It may
 * be written over again. Its size depends on the model and on option "evaluate", not on the samples.
 * @param quantizer  borrows.
 * @param target     borrows: where it goes.
 * @param note       borrows: UTF-8, may be empty: given back by qr_quantizer_restore; which samples these were, say.
 * @param call       borrows: may be NULL; its signal aborts it.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk or memory), CANCELLED, UNAVAILABLE (the target's writer), and as
 *          qr_quantizer_input_count
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_save(qr_quantizer *quantizer, const qr_target *target, qr_string note,
                                                const qr_call_options *call);

/* Takes up what qr_quantizer_save wrote, before the first sample. What follows is as if all samples had been given to
 * this quantizer. One that fails leaves it as it was.
 * @param quantizer  borrows.
 * @param source     borrows: where its bytes are.
 * @param call       borrows: may be NULL; its timeout is of all of this.
 * @param out_note   gives: qr_string_destroy; NUL-terminated. May be NULL.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  NOT_FOUND, PERMISSION_DENIED, CORRUPT (no saved calibration, or a damaged one), INVALID_ARGUMENT (of another
 *          model or of other options), FAILED_PRECONDITION (samples were given already), CANCELLED, DEADLINE_EXCEEDED,
 *          RESOURCE_EXHAUSTED, and as qr_quantizer_input_count
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_restore(qr_quantizer *quantizer, const qr_model_source *source,
                                                   const qr_call_options *call, char **out_note);

/* Makes the quantised model of the samples seen so far, compares it with the float one on those that were kept, and
 * writes it: the file "model.onnx", with its constants in a file before it where they are more than 2 GB, or where the
 * target's name ends in ".onnx.data". More samples may follow, and another write.
 * @param quantizer  borrows.
 * @param target     borrows: where the files go.
 * @param call       borrows: may be NULL; its timeout is of all of this, however many runs that takes.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  INVALID_ARGUMENT (no samples), PERMISSION_DENIED, RESOURCE_EXHAUSTED (disk or memory), CANCELLED,
 *          DEADLINE_EXCEEDED, UNAVAILABLE (the target's writer)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_write(qr_quantizer *quantizer, const qr_target *target,
                                                 const qr_call_options *call);

/* Writes what the last write found and did, the file "report": options, what was rewritten, and for each tensor its
 * range, type and signal to noise against the float model; docs/quantize.md has the keys.
 * @param quantizer  borrows.
 * @param format     borrows: "json", or "html": a page that needs nothing else.
 * @param target     borrows: where it goes.
 * @param call       borrows: may be NULL; its signal aborts it.
 * @thread  [exclusive:quantizer] [blocking]
 * @errors  FAILED_PRECONDITION (nothing was written yet), INVALID_ARGUMENT (another format), PERMISSION_DENIED,
 *          RESOURCE_EXHAUSTED, CANCELLED, UNAVAILABLE (the target's writer)
 * @since   0.1 */
QR_API QR_MUST_USE qr_status *qr_quantizer_report(qr_quantizer *quantizer, qr_string format, const qr_target *target,
                                                  const qr_call_options *call);

/* Frees a quantizer. Accepts NULL.
 * @param quantizer  takes.
 * @thread  [exclusive:quantizer]
 * @errors  none
 * @since   0.1 */
QR_API void qr_quantizer_destroy(qr_quantizer *quantizer);

#ifdef __cplusplus
}
#endif
#endif
