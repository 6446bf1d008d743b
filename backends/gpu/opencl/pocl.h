// SPDX-License-Identifier: Apache-2.0
// PoCL keeps what it compiled in a folder that all processes share, and a program's binary is made of the files that
// lie there when it is asked for. A process that writes a file which another has just written removes that one first:
// for a moment there is none, and a binary that is taken then has an entry without contents. Who loads such a binary
// ends by an assertion of PoCL's. So Quarry's processes build the same program one after the other, and a binary is
// looked through when it is taken and before it is given to the driver.
#pragma once

#include <span>

#include "backends/gpu/opencl/device.h"
#include "base/open_fd.h"

namespace quarry::opencl {

// PoCL ends the process when it is asked for its devices where it finds no processors. Null: it finds some.
const char *why_pocl_would_abort() noexcept;
// Whether OpenCL's loader will open it.
bool pocl_is_installed();

// The right to build programs of some hash with PoCL, of one thread of one process at a time.
class BuildLock {
 public:
  BuildLock() noexcept = default;
  BuildLock(BuildLock &&other) noexcept : file_(std::move(other.file_)), held_(std::exchange(other.held_, false)) {}
  BuildLock &operator=(BuildLock &&other) noexcept {
    release();
    file_ = std::move(other.file_), held_ = std::exchange(other.held_, false);
    return *this;
  }
  ~BuildLock() { release(); }

  // Of another driver, and where PoCL's folder cannot be written, there is nothing to be held.
  static BuildLock of(const Device &device, std::uint64_t hash);
  // False: another has it.
  bool hold() noexcept;
  void release() noexcept;

 private:
  explicit BuildLock(OpenFd file) noexcept : file_(std::move(file)) {}
  OpenFd file_;
  bool held_ = false;
};

// What is missing in a binary of PoCL's; nothing for one that is whole, and for those of other drivers.
String flaw_of_binary(std::span<const std::uint8_t> binary);

}  // namespace quarry::opencl
