// SPDX-License-Identifier: Apache-2.0
// Hands the library the parts of a binary that it asks for (htp.data_provider), each in memory of its own that the
// device shares, page-aligned, until the library gives it back or its context has ended.
#pragma once

#include <mutex>
#include <span>

#include "backends/htp/qnn/abi.h"
#include "backends/htp/run/shared_memory.h"

namespace quarry::htp {

class DataProvider : public HeapObject {
 public:
  // `folder` is that of the libraries, where a device's allocator may be.
  DataProvider(std::span<const std::uint8_t> binary, const String &folder);
  ~DataProvider();
  DataProvider(const DataProvider &) = delete;
  DataProvider &operator=(const DataProvider &) = delete;

  qnn::BinCallback callback() noexcept;
  // The context is made: the binary may go, what was handed out stays.
  void finish() noexcept;

 private:
  qnn::Error provide(const qnn::BinRequest &request, qnn::BinDmaReply &reply);
  qnn::Error release(const qnn::BinDmaMem &given) noexcept;

  Allocator &allocator_;  // the library calls on threads of its own
  std::mutex mutex_;
  std::span<const std::uint8_t> binary_;
  SharedMemory memory_;
  Vector<plugin::ProcessorMemory> given_;
};

}  // namespace quarry::htp
