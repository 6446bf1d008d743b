// SPDX-License-Identifier: Apache-2.0
// Rows of a tensor that are replaced.
#include "backends/common/kernels/isa/kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

// The first index that is out of range, or -1. (None almost always: so signs are gathered, without branches.)
std::int64_t first_bad(const ScatterRows &p, const std::int64_t *index) noexcept {
  std::int64_t signs = 0;
  for (std::int64_t t = 0; t < p.tuples; ++t)
    for (std::uint32_t k = 0; k < p.length; ++k) {
      const std::int64_t given = index[t * p.length + k];
      signs |= (given + p.dims[k]) | (p.dims[k] - 1 - given);
    }
  if (signs >= 0) return -1;
  for (std::int64_t i = 0;; ++i)
    if (const std::int64_t extent = p.dims[i % p.length]; index[i] < -extent || index[i] >= extent) return i;
}

// Rows of a size that is known, or (0) of any.
template <std::size_t size>
void put_rows(const ScatterRows &p, const std::int64_t *index, const std::byte *updates, std::byte *y) noexcept {
  const std::size_t bytes = size ? size : static_cast<std::size_t>(p.row_bytes);
  for (std::int64_t t = 0; t < p.tuples; ++t, index += p.length, updates += bytes) {
    std::byte *to = y;
    for (std::uint32_t k = 0; k < p.length; ++k) to += (index[k] + (p.dims[k] & (index[k] >> 63))) * p.steps[k];
    std::memcpy(to, updates, bytes);
  }
}

}  // namespace

void run_ScatterRows(const Call &call) {
  const auto &p = call.as<ScatterRows>();
  const std::byte *const x = call.operands[0], *const updates = call.operands[2];
  const auto *const index = call.operand<const std::int64_t>(1);
  std::byte *const y = call.operands[3];
  if (const std::int64_t bad = first_bad(p, index); bad >= 0) {
    call.bad_index[0] = index[bad], call.bad_index[1] = bad;
    return;
  }
  constexpr std::int64_t kPart = 64 * 1024;
  if (x != y)
    call.threads.run(static_cast<std::uint64_t>(ceil_div(p.bytes, kPart)), 4,
                     [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                       const std::int64_t first = static_cast<std::int64_t>(begin) * kPart,
                                          last = min_of(p.bytes, static_cast<std::int64_t>(end) * kPart);
                       std::memcpy(y + first, x + first, static_cast<std::size_t>(last - first));
                     });
  switch (p.row_bytes) {
    case 1: return put_rows<1>(p, index, updates, y);
    case 2: return put_rows<2>(p, index, updates, y);
    case 4: return put_rows<4>(p, index, updates, y);
    case 8: return put_rows<8>(p, index, updates, y);
    default: return put_rows<0>(p, index, updates, y);
  }
}

}  // namespace quarry::kernels::QR_ISA
