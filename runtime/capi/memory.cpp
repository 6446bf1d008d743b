// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

Status check_access(const char *function, uint32_t access) {
  if (access != 0 && (access & ~uint32_t{QR_ACCESS_READ | QR_ACCESS_WRITE}) == 0) return {};
  return Status::errorf(ErrorId::bad_argument, "%s: access is %u, expected QR_ACCESS_READ, QR_ACCESS_WRITE or both",
                        function, access);
}

// Whose memory it will be: of the session's device, or of the one that the options name.
Status find_device(const char *function, qr_session *session, const qr_memory_options &how, Memory::Device *out) {
  if (session) {
    if (how.runtime)
      return Status::errorf(ErrorId::bad_argument,
                            "%s: both session and options->runtime are set, expected one of them", function);
    *out = object(session)->core().shared_device();
    return {};
  }
  std::string_view backend;
  QR_RETURN_IF_ERROR(read_text(function, "options->backend", how.backend, Empty::Refused, &backend));
  Runtime &runtime = *object(how.runtime);
  QR_ASSIGN_OR_RETURN(const std::shared_ptr<loader::Plugin> plugin, runtime.open_backend(backend, CallSignal(nullptr)));
  if (how.device >= plugin->devices().size())
    return index_out_of_range(function, "options->device", how.device, plugin->devices().size());
  const loader::DeviceInfo &device = plugin->devices()[how.device];
  if (!device.usable)
    return Status::errorf(ErrorId::backend_no_device, "%s: device %u (%s) of backend %s: %s", function, how.device,
                          device.name, plugin->id(), device.why_not);
  QR_ASSIGN_OR_RETURN(*out, runtime.devices().of(plugin, how.device));
  return {};
}

// Where memory comes from: each way to make it reads what is its own.
struct Origin {
  std::uint64_t size_bytes;
  void *data = nullptr;
  int fd = -1;
  std::uint64_t offset = 0;
  qr_buffer_layout *out_layout = nullptr;
};
using Make = Result<Ref<Memory>> (*)(Runtime &, const Memory::Device &, const qr_memory_options &, const Origin &);

// What the four ways to make memory share.
qr_status *make_memory(const char *function, qr_session *session, const Origin &origin,
                       const qr_memory_options *options, qr_memory **out_memory, Make make) {
  qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
  qr_status *refused = guard(
      [&]() -> Status {
        if (options) {
          QR_RETURN_IF_ERROR(read_struct(function, "qr_memory_options", options, how, QR_MEMORY_OPTIONS_FIRST_SIZE));
          QR_RETURN_IF_ERROR(check_flags(function, "qr_memory_options", how.flags, QR_MEMORY_NO_HOST_POINTER));
          if (how.reserved) return unknown_field(function, "qr_memory_options", "reserved");
          if (how.device_access) QR_RETURN_IF_ERROR(check_access(function, how.device_access));
        }
        if (!session && !how.runtime)
          return Status::errorf(ErrorId::null_argument,
                                "%s: session and options->runtime are NULL, expected one of them", function);
        if (origin.size_bytes == 0)
          return Status::errorf(ErrorId::bad_argument, "%s: size_bytes is 0, expected at least 1", function);
        return {};
      },
      function);
  if (refused) return refused;
  Runtime &runtime = session ? object(session)->core().runtime() : *object(how.runtime);
  return guard(
      &runtime,
      [&]() -> Status {
        Memory::Device device;
        QR_RETURN_IF_ERROR(find_device(function, session, how, &device));
        QR_ASSIGN_OR_RETURN(Ref<Memory> memory, make(runtime, device, how, origin));
        *out_memory = handle_of(memory.give());
        return {};
      },
      function);
}

}  // namespace

extern "C" {

qr_status *qr_memory_allocate(qr_session *session, uint64_t size_bytes, const qr_memory_options *options,
                              qr_memory **out_memory) {
  QR_RETURN_IF_NULL(out_memory);
  return make_memory("qr_memory_allocate", session, {size_bytes}, options, out_memory,
                     [](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how,
                        const Origin &from) { return Memory::allocate(runtime, device, from.size_bytes, how); });
}

qr_status *qr_memory_import_fd(qr_session *session, int32_t fd, uint64_t offset, uint64_t size_bytes,
                               const qr_memory_options *options, qr_memory **out_memory) {
  QR_RETURN_IF_NULL(out_memory);
  return make_memory(
      "qr_memory_import_fd", session, {size_bytes, nullptr, fd, offset}, options, out_memory,
      [](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how, const Origin &from) {
        return Memory::import_fd(runtime, device, from.fd, from.offset, from.size_bytes, how);
      });
}

qr_status *qr_memory_register(qr_session *session, void *data, uint64_t size_bytes, const qr_memory_options *options,
                              qr_memory **out_memory) {
  QR_RETURN_IF_NULL(data);
  QR_RETURN_IF_NULL(out_memory);
  return make_memory(
      "qr_memory_register", session, {size_bytes, data}, options, out_memory,
      [](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how, const Origin &from) {
        return Memory::adopt(runtime, device, from.data, from.size_bytes, how);
      });
}

qr_status *qr_memory_import_hardware_buffer(qr_session *session, void *buffer, int32_t fence,
                                            const qr_memory_options *options, qr_buffer_layout *out_layout,
                                            qr_memory **out_memory) {
  QR_RETURN_IF_NULL(buffer);
  QR_RETURN_IF_NULL(out_memory);
  if constexpr (!os::kHasHardwareBuffers) {
    // (Status::error throws nothing.)
    return give(Status::error(ErrorId::memory_unsupported,
                              "qr_memory_import_hardware_buffer: found another system, expected Android",
                              "map the memory and register it as the host's"));
  } else {
    return make_memory(  // (how large it is the buffer says)
        "qr_memory_import_hardware_buffer", session, {1, buffer, fence, 0, out_layout}, options, out_memory,
        [](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how,
           const Origin &from) -> Result<Ref<Memory>> {
          if (from.out_layout)
            QR_RETURN_IF_ERROR(check_struct("qr_memory_import_hardware_buffer", "qr_buffer_layout", from.out_layout,
                                            QR_BUFFER_LAYOUT_FIRST_SIZE, sizeof(qr_buffer_layout)));
          qr_buffer_layout layout = QR_BUFFER_LAYOUT_INIT;
          QR_ASSIGN_OR_RETURN(Ref<Memory> memory,
                              Memory::import_hardware_buffer(runtime, device, from.data, from.fd, how, layout));
          if (from.out_layout) write_struct(layout, from.out_layout);
          return memory;
        });
  }
}

void *qr_memory_data(qr_memory *memory) { return memory ? object(memory)->data() : nullptr; }
uint64_t qr_memory_size(const qr_memory *memory) { return memory ? object(memory)->size() : 0; }

qr_status *qr_memory_map(qr_memory *memory, uint32_t access, void **out_data) {
  QR_RETURN_IF_NULL(memory);
  QR_RETURN_IF_NULL(out_data);
  QR_ENTER_OR_RETURN(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_map", access));
    QR_ASSIGN_OR_RETURN(*out_data, object(memory)->map(access));
    return {};
  });
}

qr_status *qr_memory_unmap(qr_memory *memory) {
  QR_RETURN_IF_NULL(memory);
  QR_ENTER_OR_RETURN(scope, object(memory), "memory");
  return guard(object(memory), [&] { return object(memory)->unmap(); });
}

qr_status *qr_memory_begin_access(qr_memory *memory, uint32_t access) {
  QR_RETURN_IF_NULL(memory);
  QR_ENTER_OR_RETURN(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_begin_access", access));
    return object(memory)->begin_access(access);
  });
}

qr_status *qr_memory_end_access(qr_memory *memory, uint32_t access) {
  QR_RETURN_IF_NULL(memory);
  QR_ENTER_OR_RETURN(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_end_access", access));
    return object(memory)->end_access(access);
  });
}

qr_status *qr_memory_export_fd(qr_memory *memory, int32_t *out_fd, uint64_t *out_offset) {
  QR_RETURN_IF_NULL(memory);
  QR_RETURN_IF_NULL(out_fd);
  QR_RETURN_IF_NULL(out_offset);
  return guard(object(memory), [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const loader::Registration::File file, object(memory)->export_fd());
    *out_fd = file.fd;
    *out_offset = file.offset;
    return {};
  });
}

void qr_memory_destroy(qr_memory *memory) {
  if (!memory) return;
  AllocatorScope scope(object(memory)->runtime().memory());
  object(memory)->release();
}

}  // extern "C"
