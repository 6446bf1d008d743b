// SPDX-License-Identifier: Apache-2.0
// qr_memory: a buffer that the contexts of a session know.
#pragma once

#include "runtime/object.h"
#include "runtime/session.h"

namespace quarry {

class Memory : public Counted<Memory> {
 public:
  static Result<Ref<Memory>> allocate(SessionCore &core, std::uint64_t size);
  static Result<Ref<Memory>> import_fd(SessionCore &core, int fd, std::uint64_t offset, std::uint64_t size);
  static Result<Ref<Memory>> adopt(SessionCore &core, void *data, std::uint64_t size);  // qr_memory_register

  explicit Memory(SessionCore &core) : core_(&core) {}
  ~Memory();

  void *data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  const SessionCore &core() const noexcept { return *core_; }
  // As context `bucket` knows it; nullptr: as plain memory.
  qr_registration *handle(std::size_t bucket) const noexcept { return registrations_[bucket] ? registrations_[bucket]->handle() : nullptr; }
  ExclusiveUse &use() const noexcept { return use_; }

 private:
  Status register_with_others();

  Ref<SessionCore> core_;
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
  void *own_ = nullptr;   // our block, where the backend allocates none
  int fd_ = -1;           // our duplicate
  Vector<Unique<loader::Registration>> registrations_;  // one per bucket
  mutable ExclusiveUse use_;
};

}  // namespace quarry
