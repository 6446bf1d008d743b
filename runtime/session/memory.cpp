// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/memory.h"

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/os/file.h"
#include "base/os/shared_memory.h"
#include "base/os_error.h"
#include "runtime/core/runtime.h"

namespace quarry {

namespace {

constexpr std::size_t kMemoryAlign = 64;

}  // namespace

Memory::Memory(Runtime &runtime, Device device, std::uint64_t size)
    : runtime_(&runtime), device_(std::move(device)), size_(size) {}

Memory::~Memory() {
  registration_.reset();  // before what it describes
  free_block(own_);
  if (fd_ >= 0) os::close_descriptor(fd_);
}

qr_plugin_memory_request Memory::request(const qr_memory_options &how) const noexcept {
  qr_plugin_memory_request request = {};
  request.struct_size = sizeof request;
  request.device = device_->index();
  request.size_bytes = size_;
  request.device_access = how.device_access ? how.device_access : QR_PLUGIN_ACCESS_READ | QR_PLUGIN_ACCESS_WRITE;
  request.flags = how.flags & QR_MEMORY_NO_HOST_POINTER ? QR_PLUGIN_MEMORY_NO_HOST_POINTER : 0;
  request.fd = -1;
  return request;
}

Status Memory::take(Result<Unique<loader::Registration>> registration) {
  if (!registration.ok()) return device_->note(registration.take_status());
  registration_ = std::move(*registration);
  if (registration_) data_ = registration_->data();
  return {};
}

Result<Ref<Memory>> Memory::allocate(Runtime &runtime, Device device, std::uint64_t size,
                                     const qr_memory_options &how) {
  QR_RETURN_IF_ERROR(device->check("qr_memory_allocate"));
  auto memory = Ref<Memory>::make(runtime, std::move(device), size);
  QR_RETURN_IF_ERROR(memory->take(memory->device_->plugin().allocate(memory->request(how))));
  if (!memory->registration_) memory->own_ = memory->data_ = allocate_block(size, kMemoryAlign);
  if (memory->data_) {
    QR_RETURN_IF_ERROR(memory->begin_access(QR_ACCESS_WRITE));
    std::memset(memory->data_, 0, size);
    QR_RETURN_IF_ERROR(memory->end_access(QR_ACCESS_WRITE));
  }
  if (memory->own_) {  // the backend allocates nothing, but may want to know of it
    qr_plugin_memory_request known = memory->request(how);
    known.data = memory->own_;
    QR_RETURN_IF_ERROR(memory->take(memory->device_->plugin().register_pointer(known)));
  }
  return memory;
}

Result<Ref<Memory>> Memory::import_fd(Runtime &runtime, Device device, int fd, std::uint64_t offset, std::uint64_t size,
                                      const qr_memory_options &how) {
  if constexpr (!os::kDescriptorsAreShared)
    return no_descriptors("qr_memory_import_fd", "map the memory and give it to qr_memory_register");
  QR_RETURN_IF_ERROR(device->check("qr_memory_import_fd"));
  auto memory = Ref<Memory>::make(runtime, std::move(device), size);
  memory->fd_ = os::duplicate(fd).release();
  if (memory->fd_ < 0)
    return Status::errorf(ErrorId::bad_argument, "qr_memory_import_fd: descriptor %d: %s", fd, std::strerror(errno));
  std::uint64_t end = 0;
  if (!os::get_size(memory->fd_, &end))
    return Status::errorf(ErrorId::bad_argument, "qr_memory_import_fd: descriptor %d has no size: %s", fd,
                          std::strerror(errno));
  if (!range_fits(offset, size, end))
    return Status::errorf(
        ErrorId::index_out_of_range,
        "qr_memory_import_fd: offset %llu and size %llu, expected a range inside the file's %llu bytes", offset, size,
        end);
  memory->offset_ = offset;
  qr_plugin_memory_request request = memory->request(how);
  request.fd = memory->fd_;
  request.offset = offset;
  QR_RETURN_IF_ERROR(memory->take(memory->device_->plugin().import_fd(request)));
  return memory;
}

Result<Ref<Memory>> Memory::adopt(Runtime &runtime, Device device, void *data, std::uint64_t size,
                                  const qr_memory_options &how) {
  QR_RETURN_IF_ERROR(device->check("qr_memory_register"));
  auto memory = Ref<Memory>::make(runtime, std::move(device), size);
  QR_RETURN_IF_ERROR(memory->adopt(data, how));
  return memory;
}

Status Memory::adopt(void *data, const qr_memory_options &how) {
  data_ = data;
  qr_plugin_memory_request known = request(how);
  known.data = data;
  return take(device_->plugin().register_pointer(known));
}

// ---- the host's access --------------------------------------------------------------------------

Result<void *> Memory::map(std::uint32_t access) {
  QR_RETURN_IF_ERROR(device_->check("qr_memory_map"));
  if (is_mapped())
    return Status::error(ErrorId::memory_state, "qr_memory_map: the memory is mapped already, expected it not to be");
  void *data = data_;
  if (!data) {
    auto mapped = registration_->map(access);
    if (!mapped.ok()) return device_->note(mapped.take_status());
    data = *mapped;
  } else {
    QR_RETURN_IF_ERROR(begin_access(access));
  }
  mapped_access_ = access;
  mapped_.store(true, std::memory_order_release);
  return data;
}

Status Memory::unmap() {
  if (!is_mapped())
    return Status::error(ErrorId::memory_state, "qr_memory_unmap: the memory is not mapped, expected it to be");
  mapped_.store(false, std::memory_order_release);
  return data_ ? end_access(mapped_access_) : device_->note(registration_->unmap());
}

Status Memory::begin_access(std::uint32_t access) {
  return registration_ ? device_->note(registration_->begin_access(access)) : Status();
}

Status Memory::end_access(std::uint32_t access) {
  return registration_ ? device_->note(registration_->end_access(access)) : Status();
}

// What was imported is given out again; for the rest the backend is asked.
Result<loader::Registration::File> Memory::export_fd() {
  if constexpr (!os::kDescriptorsAreShared)
    return no_descriptors("qr_memory_export_fd", "copy what qr_memory_map shows");
  if (fd_ >= 0) {
    const int copy = os::duplicate(fd_).release();
    if (copy < 0)
      return Status::errorf(ErrorId::no_descriptor, "qr_memory_export_fd: the system gives no descriptor: %s",
                            std::strerror(errno));
    return loader::Registration::File{copy, offset_};
  }
  if (registration_) return registration_->export_fd();
  return Status::hinted(ErrorId::memory_unsupported, "import a memfd with qr_memory_import_fd",
                        "qr_memory_export_fd: found plain memory of backend %s, expected memory with a descriptor",
                        device_->plugin().id().c_str());
}

}  // namespace quarry
