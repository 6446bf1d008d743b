// SPDX-License-Identifier: Apache-2.0
#include "tests/plugins/scripted/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/plugins/scripted/objects.h"

struct qr_registration {
  char *data;
  std::uint64_t size;
  enum { Allocated, Mapped, Pointer } kind;
  void *map_base;
  std::uint64_t map_size;
  int fd = -1;           // of allocated memory: a memfd
  char *view = nullptr;  // of memory that is not coherent: what the host sees, apart from what the device does
};

namespace quarry::scripted {

using plugin::guard;

// Memory of this size is not coherent: the host's view is a copy, brought up to date by begin_access and end_access.
constexpr std::uint64_t kApart = 4242;

char *place_of(const qr_io_buffer &buffer) noexcept {
  return buffer.memory ? buffer.memory->data + buffer.memory_offset : static_cast<char *>(buffer.data);
}

template <class Body>
qr_plugin_code make_registration(qr_backend *backend, qr_registration **out, const qr_error_sink *errors, Body &&body) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (backend->no_memory)
      return Status::error(ErrorId::memory_unsupported, "memory: the script says that there is none");
    auto registration = quarry::make_unique<qr_registration>();
    QR_RETURN_IF_ERROR(body(*registration));
    ++backend->registrations;
    *out = registration.release();
    return {};
  });
}

void give_view(void *data, qr_plugin_memory_info *out_info) {
  plugin::give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), 1, data}, out_info);
}

qr_plugin_code memory_allocate(qr_backend *backend, const qr_plugin_memory_request *request,
                               qr_plugin_memory_info *out_info, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    const int fd = memfd_create("scripted", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(request->size_bytes)) != 0)
      return Status::error(ErrorId::io_error, "memory: the system gives no memfd");
    void *base = mmap(nullptr, request->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) return Status::error(ErrorId::io_error, "memory: the memfd cannot be mapped");
    made = {static_cast<char *>(base), request->size_bytes, qr_registration::Allocated, base, request->size_bytes, fd};
    const bool apart = request->size_bytes == kApart;
    if (apart) made.view = static_cast<char *>(allocate_block(kApart, 64));
    void *const view = request->flags & QR_PLUGIN_MEMORY_NO_HOST_POINTER ? nullptr : apart ? made.view : base;
    plugin::give(qr_plugin_memory_info{sizeof(qr_plugin_memory_info), !apart, view}, out_info);
    return {};
  });
}

qr_plugin_code memory_import_fd(qr_backend *backend, const qr_plugin_memory_request *request,
                                qr_plugin_memory_info *out_info, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    const std::uint64_t page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)), lead = request->offset % page;
    void *base = mmap(nullptr, lead + request->size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, request->fd,
                      static_cast<off_t>(request->offset - lead));
    if (base == MAP_FAILED) return Status::error(ErrorId::io_error, "memory: the descriptor cannot be mapped");
    made = {static_cast<char *>(base) + lead, request->size_bytes, qr_registration::Mapped, base,
            lead + request->size_bytes};
    give_view(made.data, out_info);
    return {};
  });
}

qr_plugin_code memory_register_pointer(qr_backend *backend, const qr_plugin_memory_request *request,
                                       qr_plugin_memory_info *, qr_registration **out, const qr_error_sink *errors) {
  return make_registration(backend, out, errors, [&](qr_registration &made) -> Status {
    made = {static_cast<char *>(request->data), request->size_bytes, qr_registration::Pointer, nullptr, 0};
    return {};
  });
}

void memory_release(qr_backend *backend, qr_registration *registration) {
  if (registration->kind != qr_registration::Pointer) munmap(registration->map_base, registration->map_size);
  if (registration->fd >= 0) close(registration->fd);
  free_block(registration->view);
  FreeDelete<qr_registration>()(registration);
  --backend->registrations;
}

qr_plugin_code memory_map(qr_backend *, qr_registration *registration, std::uint32_t, void **out_data,
                          const qr_error_sink *) {
  *out_data = registration->data;
  return QR_OK;
}

qr_plugin_code memory_unmap(qr_backend *, qr_registration *, const qr_error_sink *) { return QR_OK; }

qr_plugin_code memory_begin_access(qr_backend *, qr_registration *registration, std::uint32_t access,
                                   const qr_error_sink *) {
  if (access & QR_PLUGIN_ACCESS_READ) std::memcpy(registration->view, registration->data, registration->size);
  return QR_OK;
}

qr_plugin_code memory_end_access(qr_backend *, qr_registration *registration, std::uint32_t access,
                                 const qr_error_sink *) {
  if (access & QR_PLUGIN_ACCESS_WRITE) std::memcpy(registration->data, registration->view, registration->size);
  return QR_OK;
}

qr_plugin_code memory_export_fd(qr_backend *backend, qr_registration *registration, std::int32_t *out_fd,
                                std::uint64_t *out_offset, const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    if (registration->fd < 0)
      return Status::error(ErrorId::memory_unsupported, "memory: the caller's own has no descriptor");
    *out_fd = fcntl(registration->fd, F_DUPFD_CLOEXEC, 0);
    *out_offset = 0;
    return *out_fd >= 0 ? Status() : Status::error(ErrorId::no_descriptor, "memory: the system gives no descriptor");
  });
}

const qr_plugin_memory_api kMemory = {sizeof(qr_plugin_memory_api),
                                      0,
                                      memory_allocate,
                                      memory_import_fd,
                                      memory_register_pointer,
                                      memory_release,
                                      memory_map,
                                      memory_unmap,
                                      memory_begin_access,
                                      memory_end_access,
                                      memory_export_fd};

}  // namespace quarry::scripted
