// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

Status check_size(const char *function, uint64_t size_bytes) {
  if (size_bytes > 0) return {};
  return Status::error(ErrorId::bad_argument, format("%s: size_bytes is 0, expected at least 1", function));
}

}  // namespace

extern "C" {

qr_status *qr_memory_allocate(qr_session *session, uint64_t size_bytes, qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(out_memory);
  return guard(object(session), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_size("qr_memory_allocate", size_bytes));
    QR_ASSIGN_OR_RETURN(Ref<Memory> memory, Memory::allocate(object(session)->core(), size_bytes));
    *out_memory = handle_of(memory.give());
    return {};
  });
}

qr_status *qr_memory_import_fd(qr_session *session, int32_t fd, uint64_t offset, uint64_t size_bytes,
                               qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(out_memory);
  return guard(object(session), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_size("qr_memory_import_fd", size_bytes));
    QR_ASSIGN_OR_RETURN(Ref<Memory> memory, Memory::import_fd(object(session)->core(), fd, offset, size_bytes));
    *out_memory = handle_of(memory.give());
    return {};
  });
}

qr_status *qr_memory_register(qr_session *session, void *data, uint64_t size_bytes, qr_memory **out_memory) {
  QR_REQUIRE(session);
  QR_REQUIRE(data);
  QR_REQUIRE(out_memory);
  return guard(object(session), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_size("qr_memory_register", size_bytes));
    QR_ASSIGN_OR_RETURN(Ref<Memory> memory, Memory::adopt(object(session)->core(), data, size_bytes));
    *out_memory = handle_of(memory.give());
    return {};
  });
}

void *qr_memory_data(qr_memory *memory) { return memory ? object(memory)->data() : nullptr; }
uint64_t qr_memory_size(const qr_memory *memory) { return memory ? object(memory)->size() : 0; }

void qr_memory_destroy(qr_memory *memory) {
  if (!memory) return;
  AllocatorScope scope(object(memory)->core().runtime().memory());
  object(memory)->release();
}

}  // extern "C"
