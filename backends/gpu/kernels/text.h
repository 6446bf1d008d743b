// SPDX-License-Identifier: Apache-2.0
// The source of a program: the prelude, then each different step's kernel, which is its file between the macros that
// the step's form comes to. Equal forms share a kernel.
#pragma once

#include "backends/gpu/kernels/kernel.h"

namespace quarry::gpu {

// Whether its kernel has one more argument, where it reports an index that names no element: two numbers of 64 bits,
// whether there was one, and which.
bool checks_indices(const Form &form);

class ProgramText {
 public:
  // The number of the kernel that runs the form; it is called "k<number>".
  std::uint32_t kernel(const Form &form);
  // All that was asked for.
  String text() const;
  std::uint32_t kernel_count() const noexcept { return count_; }

 private:
  String kernels_;
  StringMap<std::uint32_t> known_;
  std::uint32_t count_ = 0;
  bool doubles_ = false;
};

}  // namespace quarry::gpu
