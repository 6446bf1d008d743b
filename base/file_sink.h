// SPDX-License-Identifier: Apache-2.0
// Takes files that belong together, one after the other: who makes them need not know where they go.
#pragma once

#include "base/status.h"

namespace quarry {

class FileSink {
 public:
  // The next file; the one before is whole. `name`: without folders. `size`: what will be written of it. `more`: files
  // that follow.
  virtual Status begin(std::string_view name, std::uint64_t size, std::uint64_t more) = 0;
  virtual Status write(const void *data, std::uint64_t size) = 0;  // nullptr: zeros
  virtual Status whole() { return {}; }                            // whether all that was promised has been written

 protected:
  ~FileSink() = default;
};

}  // namespace quarry
