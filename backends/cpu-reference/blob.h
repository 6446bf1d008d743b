// SPDX-License-Identifier: Apache-2.0
// The context blob: a header, the memory plan, and the graph as QIR. Weights stay in the container's segments. A blob
// that is read is not trusted: sizes, graph and plan are checked before anything of it is used.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cpu-reference/program.h"

namespace quarry::reference {

inline constexpr std::uint32_t kBlobVersion = 1;

// What the compiler worked out about memory.
struct BlobFigures {
  std::uint64_t weights_bytes = 0;
  std::uint64_t arena_bytes = 0;  // with what operands need in the forms of kernels
  std::uint64_t io_bytes = 0;
};

struct BlobView {
  BlobFigures figures;
  std::span<const std::uint64_t> offsets;  // as Program::append_plan
  qir::Bytes qir;
};

BlobFigures figures_of(const Program &program) noexcept;
Vector<std::uint8_t> write_blob(const Program &program, qir::Bytes qir);
Result<BlobView> read_blob(qir::Bytes blob);

}  // namespace quarry::reference
