/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_adapter: low-rank updates of weights (LoRA) that a session's runs compute with: y = x W + (x A) B. A model that
 * was compiled, or a session that was made, with the option "adapter.targets" has room for them; applying one changes
 * pointers and takes microseconds, however large it is. Without one, runs compute what the model does. */
#ifndef QUARRY_ADAPTER_H
#define QUARRY_ADAPTER_H

#include <quarry/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How an adapter is read. */
typedef struct qr_adapter_options {
  uint32_t struct_size;
  uint32_t reserved;
  float alpha; /* updates are scaled by alpha / rank; 0: as adapter_config.json beside the file, or its metadata, say */
  float strength; /* and by this: 1 */
  /* since one minor later */
  uint64_t later;
} qr_adapter_options;
#define QR_ADAPTER_OPTIONS_FIRST_SIZE 16u
#define QR_ADAPTER_OPTIONS_INIT \
  { sizeof(qr_adapter_options), 0, 0, 1 }

/* Reads an adapter for a session, its clones, and any session whose weights for adapters are the same. The file is
 * safetensors with the names of PEFT (NAME.lora_A.weight [rank, K], NAME.lora_B.weight [N, rank]), or an ONNX model
 * whose initializers have these names, or those of the model's inputs for adapters ("quarry inspect" lists them), whose
 * values are taken as they are. Each tensor must be of a weight that adapters may change, with its sizes and a rank
 * that there is room for; weights that the file does not name stay as they are. Nothing of the source is kept.
 * @param session      borrows.
 * @param source       borrows. Of a PATH, adapter_config.json beside it is read too.
 * @param options      borrows: may be NULL.
 * @param call         borrows: may be NULL.
 * @param out_adapter  gives: qr_adapter_destroy.
 * @thread  [thread-safe] [blocking]
 * @errors  FAILED_PRECONDITION (no weight may change: option "adapter.targets"), CORRUPT, INCOMPATIBLE (names, shapes
 * or ranks), UNSUPPORTED (other than low-rank updates), INVALID_ARGUMENT (nothing says alpha), NOT_FOUND,
 *          PERMISSION_DENIED, RESOURCE_EXHAUSTED, CANCELLED, DEADLINE_EXCEEDED
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_adapter_open(const qr_session *session, const qr_model_source *source,
                                              const qr_adapter_options *options, const qr_call_options *call,
                                              qr_adapter **out_adapter);

/* Has the session's runs from now on compute with an adapter, in place of the one before; waits until the runs that
 * were submitted have ended. A clone that is made of the session has it too. What the session keeps as state stays.
 * @param session  borrows.
 * @param adapter  borrows: kept alive by the session; several sessions may have it. NULL: none is applied any more.
 * @thread  [exclusive:session]
 * @errors  FAILED_PRECONDITION (no weight may change), INVALID_ARGUMENT (opened for a session of other weights)
 * @since   0.3 */
QR_API QR_MUST_USE qr_status *qr_session_set_adapter(qr_session *session, qr_adapter *adapter);

/* Lets go of an adapter; sessions that it is applied to keep it. Accepts NULL.
 * @param adapter  takes.
 * @thread  [exclusive:adapter]
 * @errors  none
 * @since   0.3 */
QR_API void qr_adapter_destroy(qr_adapter *adapter);

#ifdef __cplusplus
}
#endif
#endif
