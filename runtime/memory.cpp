// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"

namespace quarry {

constexpr std::size_t kMemoryAlign = 64;

Memory::~Memory() {
  later_.clear();
  registrations_.clear();  // before what they describe
  free_block(own_);
  if (fd_ >= 0) close(fd_);
}

Result<Ref<Memory>> Memory::begin(SessionCore &core, std::uint64_t size) {
  auto memory = Ref<Memory>::make(core);
  QR_ASSIGN_OR_RETURN(memory->first_, core.runnable(CallSignal(nullptr)));
  memory->size_ = size;
  return memory;
}

// The first context has the memory (or gave it); the contexts of the other buckets get to know it too.
Status Memory::register_with_others(const Loaded &loaded, Registrations &known) {
  for (std::size_t bucket = known.size(); bucket < loaded.buckets.size(); ++bucket) {
    QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration,
                        loaded.buckets[bucket].context->register_pointer(data_, size_));
    known.push_back(std::move(registration));
  }
  return {};
}

Result<qr_registration *> Memory::handle(const Loaded &loaded, std::size_t bucket) {
  const auto of = [bucket](const Registrations &known) { return known[bucket] ? known[bucket]->handle() : nullptr; };
  if (&loaded == first_) return of(registrations_);
  const std::lock_guard lock(mutex_);
  QR_RETURN_IF_ERROR(register_with_others(loaded, later_));
  return of(later_);
}

Result<Ref<Memory>> Memory::allocate(SessionCore &core, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(Ref<Memory> memory, begin(core, size));
  QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration, memory->first_->buckets[0].context->allocate(size));
  if (registration) {
    memory->data_ = registration->data();
    memory->registrations_.push_back(std::move(registration));
  } else {
    memory->own_ = memory->data_ = allocate_block(size, kMemoryAlign);
  }
  std::memset(memory->data_, 0, size);
  QR_RETURN_IF_ERROR(memory->register_with_others(*memory->first_, memory->registrations_));
  return memory;
}

Result<Ref<Memory>> Memory::import_fd(SessionCore &core, int fd, std::uint64_t offset, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(Ref<Memory> memory, begin(core, size));
  memory->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory->fd_ < 0)
    return Status::error(ErrorId::bad_argument,
                         format("qr_memory_import_fd: descriptor %d: %s", fd, std::strerror(errno)));
  const off_t end = lseek(memory->fd_, 0, SEEK_END);  // files, memfds and dma-bufs know their size
  if (end < 0)
    return Status::error(ErrorId::bad_argument,
                         format("qr_memory_import_fd: descriptor %d has no size: %s", fd, std::strerror(errno)));
  if (!range_fits(offset, size, static_cast<std::uint64_t>(end)))
    return Status::error(
        ErrorId::index_out_of_range,
        format("qr_memory_import_fd: offset %llu and size %llu, expected a range inside the file's %llu bytes",
               static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size),
               static_cast<unsigned long long>(end)));
  for (const SessionBucket &bucket : memory->first_->buckets) {
    QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration,
                        bucket.context->import_fd(memory->fd_, offset, size));
    if (!memory->data_) memory->data_ = registration->data();
    memory->registrations_.push_back(std::move(registration));
  }
  return memory;
}

Result<Ref<Memory>> Memory::adopt(SessionCore &core, void *data, std::uint64_t size) {
  QR_ASSIGN_OR_RETURN(Ref<Memory> memory, begin(core, size));
  memory->data_ = data;
  QR_RETURN_IF_ERROR(memory->register_with_others(*memory->first_, memory->registrations_));
  return memory;
}

}  // namespace quarry
