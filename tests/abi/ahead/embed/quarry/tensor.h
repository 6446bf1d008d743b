/* SPDX-License-Identifier: Apache-2.0 */
/* Derived by tests/abi/vary.py: never edited by hand. */
/* qr_tensor: a view of the caller's data for one run; qr_tensor_info: what a model says of an input or output. */
#ifndef QUARRY_TENSOR_H
#define QUARRY_TENSOR_H

#include <quarry/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dense, row-major data. Plain data: there is nothing to destroy.
 *
 * As an input: dtype, rank, dims and either `data` or `memory` are set by the caller.
 * As an output: the caller may set `data` and `size_bytes` (room for the result) or `memory` and `memory_offset`; the
 * run then writes there. With neither, the run sets `data` to memory of the session's own, valid until the next run or
 * the session's end. In all cases the run sets dtype, rank, dims and size_bytes to the result's. */
typedef struct qr_tensor {
  uint32_t struct_size;
  qr_dtype dtype;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[QR_MAX_RANK];
  void *data;
  uint64_t size_bytes;
  qr_memory *memory;
  uint64_t memory_offset;
  /* since one minor later */
  uint64_t later;
} qr_tensor;
#define QR_TENSOR_FIRST_SIZE 112u
#define QR_TENSOR_INIT \
  { sizeof(qr_tensor), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, NULL, 0, NULL, 0 }

/* What is known of an input or output. `dims` holds QR_DIM_UNKNOWN for an extent that is symbolic (its name is in
 * qr_model_input_dim_name) or known only after the run. */
typedef struct qr_tensor_info {
  uint32_t struct_size;
  qr_dtype dtype;
  uint32_t rank;
  uint32_t is_quantized; /* 1: the values mean (q - zero_point) * scale, see the two fields */
  int64_t dims[QR_MAX_RANK];
  uint64_t size_bytes; /* 0 where an extent is unknown */
  qr_string name;
  double scale; /* of a per-tensor quantisation */
  int64_t zero_point;
  /* since one minor later */
  uint64_t later;
} qr_tensor_info;
#define QR_TENSOR_INFO_FIRST_SIZE 120u
#define QR_TENSOR_INFO_INIT \
  { sizeof(qr_tensor_info), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0, {NULL, 0}, 0.0, 0 }

#ifdef __cplusplus
}
#endif
#endif
