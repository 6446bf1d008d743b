// SPDX-License-Identifier: Apache-2.0
// An inverted residual block, some rows at a time: the rows of the expanded image that the next rows of output read are
// made, or still there from the rows before; they are filtered, and projected at once.
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::kernels::QR_ISA {

namespace {

// The rows of the expanded image that a worker holds, at the beginning of its scratch.
struct BlockRows {
  std::int64_t image, begin, end;
};
static_assert(sizeof(BlockRows) <= kBlockRowsBytes);

// One of the three on some rows: a run of its own kernel on this thread.
template <class Run, class P>
QR_INLINE void run_part(Run &&run, const P &params, const float *x, const float *w, const float *bias, const float *r,
                        float *y, std::byte *scratch) noexcept {
  std::byte *operands[5];
  std::size_t count = 0;
  for (const float *in : {x, w, bias, r})
    if (in) operands[count++] = reinterpret_cast<std::byte *>(const_cast<float *>(in));
  operands[count] = reinterpret_cast<std::byte *>(y);
  const Threads here;
  run({&params, operands, here, scratch, 0, nullptr});
}

}  // namespace

void run_BlockF32(const Call &call) {
  const auto &p = call.as<BlockF32>();
  const Window &w = p.depthwise.window;
  const BlockShape s = block_shape(p);
  std::size_t operand = 0;
  const auto next = [&](bool there) { return there ? call.operand<const float>(operand++) : nullptr; };
  const float *const x = next(true), *const w1 = next(true), *const bias1 = next(p.expand.has_bias),
                     *const w2 = next(true), *const bias2 = next(p.depthwise.has_bias);
  const float *const w3 = next(true), *const bias3 = next(p.project.has_bias),
                     *const r = next(p.project.residual != Residual::None);
  float *const y = call.operand<float>(operand);
  // Sums are made in the same order wherever stretches and strips begin.
  const bool few_in = std::int64_t{w.n} * w.ih * w.iw <= kFewRows,
             few_out = std::int64_t{w.n} * w.oh * w.ow <= kFewRows;
  const auto expand = [few_in](const Call &part) { run_conv(part, few_in); };
  const auto project = [few_out](const Call &part) { run_conv(part, few_out); };
  const std::int64_t c = p.depthwise.c, row_in = w.iw * c, row_out = w.ow * c;
  const auto room = [](std::int64_t floats) { return static_cast<std::size_t>((floats * 4 + 63) / 64 * 64); };

  // A strip at a time: whoever is done takes from one that is held up. Who goes on where it stopped, as all do with
  // their own share, has the rows that both strips read; else they are made twice.
  for (std::uint32_t worker = 0; worker < call.threads.workers; ++worker)
    *reinterpret_cast<BlockRows *>(call.worker_scratch(worker)) = {-1, 0, 0};
  const auto total = static_cast<std::uint64_t>(w.n) * static_cast<std::uint64_t>(w.oh);
  call.threads.run(
      total, static_cast<std::uint64_t>(s.rows), [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
        auto &have = *reinterpret_cast<BlockRows *>(call.worker_scratch(worker));
        std::byte *const scratch = call.worker_scratch(worker) + kBlockRowsBytes;
        auto *const expanded = reinterpret_cast<float *>(scratch);
        auto *const filtered = reinterpret_cast<float *>(scratch + room(s.rows_in * row_in));
        std::byte *const rest = scratch + room(s.rows_in * row_in) + room(s.rows * row_out);
        BlockF32 part = p;
        part.expand.window.n = part.depthwise.window.n = part.project.window.n = 1;
        for (auto at = static_cast<std::int64_t>(begin); at < static_cast<std::int64_t>(end);) {
          const std::int64_t image = at / w.oh, oy = at % w.oh;
          const std::int64_t rows = min_of(min_of(s.rows, static_cast<std::int64_t>(end) - at), w.oh - oy);
          const std::int64_t top = oy * w.sh - w.pad_top;
          const std::int64_t first = max_of<std::int64_t>(0, top),
                             last = min_of<std::int64_t>(w.ih, top + conv_input_rows(w, rows));
          std::int64_t kept = 0;
          if (have.image == image && have.begin <= first && first < have.end) {
            kept = min_of(have.end, last) - first;
            std::memmove(expanded, expanded + (first - have.begin) * row_in, bytes_of<float>(kept * row_in));
          }
          if (first + kept < last) {
            part.expand.window.ih = part.expand.window.oh = static_cast<std::int32_t>(last - first - kept);
            run_part(expand, part.expand, x + (image * w.ih + first + kept) * w.iw * p.expand.x_stride, w1, bias1,
                     nullptr, expanded + kept * row_in, rest);
          }
          have = {image, first, max_of(first, last)};
          Window &rows_of = part.depthwise.window;
          rows_of.ih = static_cast<std::int32_t>(max_of<std::int64_t>(last - first, 1));
          rows_of.oh = static_cast<std::int32_t>(rows);
          // A window altogether below the image sees no row: then the one that is named lies outside of every tap.
          rows_of.pad_top = static_cast<std::int32_t>(last > first ? first - top : conv_input_rows(w, rows));
          run_part(run_DepthwiseF32, part.depthwise, expanded, w2, bias2, nullptr, filtered, nullptr);
          part.project.window.ih = part.project.window.oh = static_cast<std::int32_t>(rows);
          const std::int64_t pixel = at * w.ow;
          run_part(project, part.project, filtered, w3, bias3, r ? r + pixel * p.project.r_stride : nullptr,
                   y + pixel * p.project.y_stride, rest);
          at += rows;
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
