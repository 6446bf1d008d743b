// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

Status check_access(const char *function, uint32_t access) {
  if (access != 0 && (access & ~uint32_t{QR_ACCESS_READ | QR_ACCESS_WRITE}) == 0) return {};
  return Status::error(ErrorId::bad_argument,
                       format("%s: access is %u, expected QR_ACCESS_READ, QR_ACCESS_WRITE or both", function, access));
}

// What the three ways to make memory share.
template <class Make>
qr_status *make_memory(const char *function, qr_session *session, uint64_t size_bytes, const qr_memory_options *options,
                       qr_memory **out_memory, Make &&make) {
  return guard(
      object(session),
      [&]() -> Status {
        if (size_bytes == 0)
          return Status::error(ErrorId::bad_argument, format("%s: size_bytes is 0, expected at least 1", function));
        qr_memory_options how = QR_MEMORY_OPTIONS_INIT;
        if (options) {
          QR_RETURN_IF_ERROR(read_struct(function, "qr_memory_options", options, how, QR_MEMORY_OPTIONS_FIRST_SIZE));
          QR_RETURN_IF_ERROR(check_flags(function, "qr_memory_options", how.flags, QR_MEMORY_NO_HOST_POINTER));
          if (how.device_access) QR_RETURN_IF_ERROR(check_access(function, how.device_access));
        }
        SessionCore &core = object(session)->core();
        QR_ASSIGN_OR_RETURN(Ref<Memory> memory, make(core.runtime(), core.shared_device(), how));
        *out_memory = handle_of(memory.give());
        return {};
      },
      function);
}

}  // namespace

extern "C" {

qr_status *qr_memory_allocate(qr_session *session, uint64_t size_bytes, const qr_memory_options *options,
                              qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(out_memory);
  return make_memory("qr_memory_allocate", session, size_bytes, options, out_memory,
                     [&](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how) {
                       return Memory::allocate(runtime, device, size_bytes, how);
                     });
}

qr_status *qr_memory_import_fd(qr_session *session, int32_t fd, uint64_t offset, uint64_t size_bytes,
                               const qr_memory_options *options, qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(out_memory);
  return make_memory("qr_memory_import_fd", session, size_bytes, options, out_memory,
                     [&](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how) {
                       return Memory::import_fd(runtime, device, fd, offset, size_bytes, how);
                     });
}

qr_status *qr_memory_register(qr_session *session, void *data, uint64_t size_bytes, const qr_memory_options *options,
                              qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(data);
  QR_REQUIRE(out_memory);
  return make_memory("qr_memory_register", session, size_bytes, options, out_memory,
                     [&](Runtime &runtime, const Memory::Device &device, const qr_memory_options &how) {
                       return Memory::adopt(runtime, device, data, size_bytes, how);
                     });
}

void *qr_memory_data(qr_memory *memory) { return memory ? object(memory)->data() : nullptr; }
uint64_t qr_memory_size(const qr_memory *memory) { return memory ? object(memory)->size() : 0; }

qr_status *qr_memory_map(qr_memory *memory, uint32_t access, void **out_data) {
  QR_REQUIRE(memory);
  QR_REQUIRE(out_data);
  QR_ENTER(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_map", access));
    QR_ASSIGN_OR_RETURN(*out_data, object(memory)->map(access));
    return {};
  });
}

qr_status *qr_memory_unmap(qr_memory *memory) {
  QR_REQUIRE(memory);
  QR_ENTER(scope, object(memory), "memory");
  return guard(object(memory), [&] { return object(memory)->unmap(); });
}

qr_status *qr_memory_begin_access(qr_memory *memory, uint32_t access) {
  QR_REQUIRE(memory);
  QR_ENTER(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_begin_access", access));
    return object(memory)->begin_access(access);
  });
}

qr_status *qr_memory_end_access(qr_memory *memory, uint32_t access) {
  QR_REQUIRE(memory);
  QR_ENTER(scope, object(memory), "memory");
  return guard(object(memory), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_access("qr_memory_end_access", access));
    return object(memory)->end_access(access);
  });
}

qr_status *qr_memory_export_fd(qr_memory *memory, int32_t *out_fd, uint64_t *out_offset) {
  QR_REQUIRE(memory);
  QR_REQUIRE(out_fd);
  QR_REQUIRE(out_offset);
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
