// SPDX-License-Identifier: Apache-2.0
// The context blob: the plan's tables and what stands in its segments. A blob that is read is not trusted: each step's
// kernel is asked what its form implies, and every operand is compared with that.
#pragma once

#include "backends/gpu/program/compiled_plan.h"

namespace quarry::gpu {

inline constexpr std::uint32_t kBlobVersion = 7;

struct Blob {
  Plan plan;
  DynamicRegion region;
  std::uint64_t weights_bytes = 0, io_bytes = 0;
  // The program's binary is the last segment, where there is one: for which device and driver, of which source.
  String device;
  std::uint64_t source_hash = 0, binary_hash = 0, binary_bytes = 0;
};

Vector<std::uint8_t> write_blob(const Blob &blob);
// `segments`: all of the blob's; constants must lie in them.
Result<Blob> read_blob(qir::Bytes bytes, std::span<const qir::Bytes> segments);

}  // namespace quarry::gpu
