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

  explicit Memory(SessionCore &core) : core_(&core) {}  // by begin() alone
  ~Memory();

  void *data() const noexcept { return data_; }
  std::uint64_t size() const noexcept { return size_; }
  const SessionCore &core() const noexcept { return *core_; }
  // As context `bucket` of `loaded` knows it; nullptr: as plain memory.
  __attribute__((noinline)) Result<qr_registration *> handle(const Loaded &loaded, std::size_t bucket);
  ExclusiveUse &use() const noexcept { return use_; }

 private:
  using Registrations = Vector<Unique<loader::Registration>>;  // one per bucket
  static Result<Ref<Memory>> begin(SessionCore &core, std::uint64_t size);
  Status register_with_others(const Loaded &loaded, Registrations &known);

  Ref<SessionCore> core_;
  void *data_ = nullptr;
  std::uint64_t size_ = 0;
  void *own_ = nullptr;            // our block, where the backend allocates none
  int fd_ = -1;                    // our duplicate
  const Loaded *first_ = nullptr;  // what the session ran when the memory was made
  Registrations registrations_;    // with it
  std::mutex mutex_;               // clones may meet what was compiled later at the same time
  Registrations later_;            // with that: made when a run first uses it
  mutable ExclusiveUse use_;
};

}  // namespace quarry
