// SPDX-License-Identifier: Apache-2.0
// The heart of all f32 products: a register tile of some rows (pixels, addressed by pointers) times a panel of a few
// vectors of columns, whose weights are packed.
#pragma once

#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

// Whether a load widens f16 and bf16 in an instruction or two: then tiles read such weights as they lie in memory (on
// AVX-512 in 0.35 to 0.98, on AVX2 in 0.5 to 1.03 of the time that it takes with weights widened into scratch first, at
// 4 to 512 rows).
#if (defined(__AVX512F__) && QR_ISA_BYTES == 64) || defined(__F16C__) || defined(__aarch64__)
inline constexpr bool kWidensInTiles = true;
#else
inline constexpr bool kWidensInTiles = false;
#endif

// What happens to a sum before it is stored.
struct Finish {
  const float *before =
      nullptr;  // residual to be added before the activation, at the product's first row and column; or nullptr
  const float *after = nullptr;  // after it
  std::ptrdiff_t step = 0;       // from one row of the residual to the next
  const Activation *act = nullptr;
};

// y[row, 0 .. columns) (+)= sum over taps and k of x[row, tap, k] * w[tap, k, columns]
struct Gemm {
  const float *const *table = nullptr;  // pointers to the runs of the rows, tap after tap; or nullptr: rows are x_step
                                        // apart and there is one tap
  std::ptrdiff_t table_step = 0;        // pointers from one tap to the next
  const float *x = nullptr;
  std::ptrdiff_t x_step = 0, x_offset = 0;  // x_offset is added to the pointers of the table
  std::int64_t rows = 0, taps = 1, k = 0;
  int vectors = 1;                       // of the panel
  int tail = kLanes;                     // columns of its last vector that exist
  WeightType weights = WeightType::F32;  // other than F32 where rows are few, or kWidensInTiles
  const void *w = nullptr;
  static constexpr std::ptrdiff_t kPacked = -1;
  std::ptrdiff_t w_step = kPacked;  // elements from one k to the next: 0 where all k have the same
  float *y = nullptr;
  std::ptrdiff_t y_step = 0;
  const float *bias = nullptr;      // whole vectors; or nullptr
  const float *row_bias = nullptr;  // one number for each row; or nullptr
  bool accumulate = false;          // y holds the sum so far
  bool finish = true;               // the sum is complete
  bool few_rows = false;  // all rows of the operation are few: sums are made in several parts, for the units' latency
  bool from_memory = false;     // few rows, and more weights than caches hold from run to run
  const void *ahead = nullptr;  // weights that will be needed next; or nullptr
  Finish end;
};
void run_gemm(const Gemm &gemm) noexcept;

// act(y) (+ r) in place, for activations that the tiles do not do themselves.
void finish_rows(const Activation &act, float *y, std::ptrdiff_t y_step, std::int64_t rows, std::int64_t columns,
                 const float *r, std::ptrdiff_t r_step) noexcept;

// Packs columns [0, columns) of a k x columns matrix with any strides into a panel of `vectors` vectors, times `scale`;
// zeros beyond.
void pack_panel(const float *from, std::ptrdiff_t k_step, std::ptrdiff_t column_step, std::int64_t k,
                std::int64_t columns, int vectors, float scale, float *to) noexcept;

}  // namespace quarry::kernels::QR_ISA
