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
  registrations_.clear();  // before what they describe
  free_block(own_);
  if (fd_ >= 0) close(fd_);
}

// The first context has the memory (or gave it); the contexts of the other buckets get to know it too.
Status Memory::register_with_others() {
  for (std::size_t bucket = registrations_.size(); bucket < core_->buckets().size(); ++bucket) {
    QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration, core_->buckets()[bucket].context->register_pointer(data_, size_));
    registrations_.push_back(std::move(registration));
  }
  return {};
}

Result<Ref<Memory>> Memory::allocate(SessionCore &core, std::uint64_t size) {
  auto memory = Ref<Memory>::make(core);
  memory->size_ = size;
  QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration, core.buckets()[0].context->allocate(size));
  if (registration) {
    memory->data_ = registration->data();
    memory->registrations_.push_back(std::move(registration));
  } else {
    memory->own_ = memory->data_ = allocate_block(size, kMemoryAlign);
  }
  std::memset(memory->data_, 0, size);
  QR_RETURN_IF_ERROR(memory->register_with_others());
  return memory;
}

Result<Ref<Memory>> Memory::import_fd(SessionCore &core, int fd, std::uint64_t offset, std::uint64_t size) {
  auto memory = Ref<Memory>::make(core);
  memory->size_ = size;
  memory->fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (memory->fd_ < 0)
    return Status::error(ErrorId::bad_argument, format("qr_memory_import_fd: descriptor %d: %s", fd, std::strerror(errno)));
  const off_t end = lseek(memory->fd_, 0, SEEK_END);  // files, memfds and dma-bufs know their size
  if (end < 0)
    return Status::error(ErrorId::bad_argument, format("qr_memory_import_fd: descriptor %d has no size: %s", fd, std::strerror(errno)));
  if (!range_fits(offset, size, static_cast<std::uint64_t>(end)))
    return Status::error(ErrorId::index_out_of_range,
                         format("qr_memory_import_fd: offset %llu and size %llu, expected a range inside the file's %llu bytes",
                                static_cast<unsigned long long>(offset), static_cast<unsigned long long>(size),
                                static_cast<unsigned long long>(end)));
  for (const SessionBucket &bucket : core.buckets()) {
    QR_ASSIGN_OR_RETURN(Unique<loader::Registration> registration, bucket.context->import_fd(memory->fd_, offset, size));
    if (!memory->data_) memory->data_ = registration->data();
    memory->registrations_.push_back(std::move(registration));
  }
  return memory;
}

Result<Ref<Memory>> Memory::adopt(SessionCore &core, void *data, std::uint64_t size) {
  auto memory = Ref<Memory>::make(core);
  memory->data_ = data;
  memory->size_ = size;
  QR_RETURN_IF_ERROR(memory->register_with_others());
  return memory;
}

}  // namespace quarry
