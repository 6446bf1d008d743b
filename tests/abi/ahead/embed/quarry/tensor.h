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
 * As an input: dtype, rank, dims and one of `data`, `const_data` and `memory` are set by the caller. Inputs are only
 * read, whichever of them it is.
 * As an output: the caller may set `data` and `size_bytes` (room for the result) or `memory` and `memory_offset`; the
 * run then writes there. With neither, the run sets `data` to memory of the session's own and flags it
 * QR_TENSOR_OF_SESSION. It is valid until the next run of the session, and may be an input of that one: so a state is
 * carried from run to run. In all cases the run sets dtype, rank, dims and size_bytes to the result's.
 * `data` may lie at any address. Where an element could not (a float at an odd address), each run copies it: align
 * what is to be quick. `memory_offset` is a multiple of an element's size.
 * An output lies neither where an input of the same run lies nor where another output does. */
typedef struct qr_tensor {
  uint32_t struct_size;
  qr_dtype dtype;
  uint32_t rank;
  uint32_t flags; /* QR_TENSOR_... */
  int64_t dims[QR_MAX_RANK];
  void *data;
  uint64_t size_bytes;
  qr_memory *memory;
  uint64_t memory_offset;
  const void *const_data; /* of an input, in place of `data`: what must not be written */
  /* since one minor later */
  uint64_t later;
} qr_tensor;
#define QR_TENSOR_FIRST_SIZE 120u
#define QR_TENSOR_INIT \
  { sizeof(qr_tensor), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, NULL, 0, NULL, 0, NULL }

/* `data` is memory of a session: a run set it. An output that comes back to that session with it counts as one without
 * room. Clear it where you set `data` to memory of your own: data with the flag that the session did not give out in
 * one of its last two runs are refused. */
#define QR_TENSOR_OF_SESSION 1u

/* What is known of an input or output. `dims` holds QR_DIM_UNKNOWN for a dimension that is symbolic (its name is in
 * qr_model_input_dim_name) or known only after the run. */
typedef struct qr_tensor_info {
  uint32_t struct_size;
  qr_dtype dtype;
  uint32_t rank;
  uint32_t is_quantized; /* QR_QUANTIZED_...; 0: the values are what they say */
  int64_t dims[QR_MAX_RANK];
  uint64_t size_bytes; /* 0 where a dimension is unknown */
  qr_string name;
  double scale; /* per tensor: a value q means (q - zero_point) * scale; else 0, or NaN where the scales below hold */
  int64_t zero_point;
  /* Per channel and per block: index c of axis `quantized_axis` has entry c; with blocks the entries are laid out like
   * the tensor, with that axis divided by block_size and rounded up. They live as long as `name`. */
  const float *scales;
  const int32_t *zero_points;
  uint64_t scale_count;
  int64_t block_size; /* 0: no blocks */
  uint32_t quantized_axis;
  uint32_t reserved;
  /* since one minor later */
  uint64_t later;
} qr_tensor_info;
#define QR_TENSOR_INFO_FIRST_SIZE 160u
#define QR_TENSOR_INFO_INIT \
  { sizeof(qr_tensor_info), 0, 0, 0, {0, 0, 0, 0, 0, 0, 0, 0}, 0, {NULL, 0}, 0.0, 0, NULL, NULL, 0, 0, 0, 0 }

#define QR_QUANTIZED_PER_TENSOR 1u
#define QR_QUANTIZED_PER_CHANNEL 2u
#define QR_QUANTIZED_PER_BLOCK 3u

#ifdef __cplusplus
}
#endif
#endif
