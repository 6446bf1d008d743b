// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/data_provider.h"

#include <algorithm>
#include <cstring>

namespace quarry::htp {

namespace {

constexpr std::uint64_t kPage = 4096;
constexpr auto kNotThere = static_cast<qnn::Error>(qnn::Code::ContextArgument);
constexpr auto kNoMemory = static_cast<qnn::Error>(qnn::Code::Memory);

}  // namespace

DataProvider::DataProvider(std::span<const std::uint8_t> binary, const String &folder)
    : allocator_(current_allocator()), binary_(binary), memory_(folder) {}

DataProvider::~DataProvider() {
  for (const plugin::ProcessorMemory &memory : given_) (void)memory_.release(memory);
}

qnn::BinCallback DataProvider::callback() noexcept {
  // Of the two kinds the library has this one alone; plain memory is reserved.
  constexpr std::uint32_t kDma = 2;
  qnn::BinCallback made{};
  made.kind = kDma, made.version = 1;
  made.dma.provide = [](qnn::BinRequest request, qnn::BinDmaReply *reply, void *self) {
    return static_cast<DataProvider *>(self)->provide(request, *reply);
  };
  made.dma.release = [](qnn::BinDmaMem given, void *self) { return static_cast<DataProvider *>(self)->release(given); };
  made.dma.arg = this;
  return made;
}

void DataProvider::finish() noexcept {
  const std::lock_guard lock(mutex_);
  binary_ = {};
}

qnn::Error DataProvider::provide(const qnn::BinRequest &request, qnn::BinDmaReply &reply) {
  const std::lock_guard lock(mutex_);
  const AllocatorScope scope(allocator_);
  if (request.size == 0 || request.offset > binary_.size() || request.size > binary_.size() - request.offset)
    return kNotThere;
  try {
    given_.reserve(given_.size() + 1);
    plugin::ProcessorMemory memory;
    // No further than the binary, so the sum is one.
    const std::uint64_t whole = (request.size + kPage - 1) / kPage * kPage;
    if (!memory_.allocate(whole, memory).ok()) return kNoMemory;
    std::memcpy(memory.base, binary_.data() + request.offset, request.size);
    given_.push_back(memory);
    reply.dma = {memory.fd, memory.base};
    reply.start = 0, reply.aligned = whole;
    return qnn::kOk;
  } catch (const std::bad_alloc &) {
    return kNoMemory;
  }
}

qnn::Error DataProvider::release(const qnn::BinDmaMem &given) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      given_, [&](const plugin::ProcessorMemory &memory) { return memory.base == given.dma.data; });
  if (found == given_.end()) return kNotThere;
  (void)memory_.release(*found);
  given_.erase(found);
  return qnn::kOk;
}

}  // namespace quarry::htp
