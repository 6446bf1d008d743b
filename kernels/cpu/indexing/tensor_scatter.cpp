// SPDX-License-Identifier: Apache-2.0
// New entries of a cache, at each batch entry's own place.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

void put_entries(const TensorScatter &p, const std::byte *updates, std::int64_t start, std::byte *y) noexcept {
  for (std::int64_t h = 0; h < p.heads; ++h)
    for (std::int64_t i = 0; i < p.added; ++i)
      std::memcpy(y + h * p.y[1] + (start + i) % p.length * p.y[2], updates + h * p.updates[1] + i * p.updates[2],
                  static_cast<std::size_t>(p.entry_bytes));
}

}  // namespace

void run_TensorScatter(const Call &call) {
  const auto &p = call.as<TensorScatter>();
  const auto *const starts = call.operand<const std::int64_t>(1);
  // (Round the end, what counts is that no sum overflows.)
  const std::int64_t most = p.circular ? INT64_MAX - p.added : p.length - p.added;
  for (std::int64_t b = 0; b < p.batches; ++b)
    if (starts[b] < 0 || starts[b] > most) {
      call.bad_index[0] = starts[b], call.bad_index[1] = b;
      return;
    }
  const std::int64_t bytes = p.heads * p.added * p.entry_bytes, grain = 16 << 10;
  call.threads.run(static_cast<std::uint64_t>(p.batches), static_cast<std::uint64_t>(1 + grain / (bytes + 1)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto b = static_cast<std::int64_t>(begin); b < static_cast<std::int64_t>(end); ++b)
                       put_entries(p, call.operands[0] + b * p.updates[0], starts[b], call.operands[2] + b * p.y[0]);
                   });
}

}  // namespace quarry::kernels::QR_ISA
