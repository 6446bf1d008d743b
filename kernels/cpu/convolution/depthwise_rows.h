// SPDX-License-Identifier: Apache-2.0
// How 3x3 depthwise ConvInt is shared out where rows of output are computed straight from rows of input: groups of
// rows, all their channels after each other, since their lines of cache hold neighbours' too.
#pragma once

#include "kernels/cpu/quantization/finish_rows.h"

namespace quarry::kernels::QR_ISA {

// What the kernels for it take; the types of input and output are theirs to check.
QR_INLINE bool depthwise_rows_fit(const ConvInt &p) noexcept {
  const Window &w = p.window;
  return w.kh == 3 && w.kw == 3 && w.dh == 1 && w.dw == 1 && w.sw <= 2 && !p.has_residual;
}
// body(first channel, first row of output of all images, row behind the last).
template <class Body>
QR_INLINE void over_depthwise_rows(const Call &call, const ConvInt &p, std::int64_t chunk_channels,
                                   const Body &body) noexcept {
  const Window &w = p.window;
  const std::int64_t chunks = ceil_div(std::int64_t{p.oc}, chunk_channels), all_rows = std::int64_t{w.n} * w.oh,
                     workers = call.threads.workers;
  constexpr std::int64_t kSlab = 128 << 10;  // bytes of input
  std::int64_t group = max_of<std::int64_t>(kSlab / (w.sh * w.iw * p.x_stride * quant_bytes(p.x.dtype)) / 2 * 2, 4);
  if (workers > 1) group = max_of<std::int64_t>(min_of(group, all_rows / (2 * workers) / 2 * 2), 2);
  // Depthwise takes about six times as long as dense products of as many operations.
  const double work = static_cast<double>(group * w.ow * chunk_channels * 9);
  const std::int64_t groups = ceil_div(all_rows, group);
  call.threads.run(
      static_cast<std::uint64_t>(groups * chunks), static_cast<std::uint64_t>(kWorthSharing / 6 / work) + 1,
      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
        for (std::uint64_t task = begin; task < end; ++task) {
          const std::int64_t first = static_cast<std::int64_t>(task) / chunks * group;
          body(static_cast<std::int64_t>(task) % chunks * chunk_channels, first, min_of(all_rows, first + group));
        }
      });
}

}  // namespace quarry::kernels::QR_ISA
