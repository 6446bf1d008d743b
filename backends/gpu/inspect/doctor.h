// SPDX-License-Identifier: Apache-2.0
// What stands in the way of a run on this machine, for `quarry doctor`.
#pragma once

#include "backends/gpu/opencl/device.h"

namespace quarry::gpu {

// What the backend knows of this machine, found out once. Where there is no library or no device at all it has one
// device that cannot be used and says why.
class Machine {
 public:
  struct Entry {
    opencl::Device device;
    String name, details, why_not;
  };
  Machine();
  const std::shared_ptr<const opencl::Library> &library() const noexcept { return library_; }
  const Vector<Entry> &devices() const noexcept { return devices_; }
  // The device of an index that can be used. With `pattern`, which is part of its name in any case of letters: that of
  // the index where it fits, else (index 0) the first that does.
  Result<const opencl::Device *> choose(std::uint32_t index, std::string_view pattern) const;

 private:
  std::shared_ptr<const opencl::Library> library_;
  Vector<Entry> devices_;
};

}  // namespace quarry::gpu
