// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

extern "C" {

qr_status *qr_signal_create(qr_runtime *runtime, qr_signal **out_signal) {
  QR_REQUIRE(runtime);
  QR_REQUIRE(out_signal);
  return guard(object(runtime), [&]() -> Status {
    *out_signal = handle_of(Ref<Signal>::make(Ref<Runtime>(object(runtime))).give());
    return {};
  });
}

void qr_signal_abort(qr_signal *signal) {
  if (signal) object(signal)->abort();
}

void qr_signal_reset(qr_signal *signal) {
  if (signal) object(signal)->reset();
}

void qr_signal_set_timeout(qr_signal *signal, uint64_t timeout_ns) {
  if (signal) object(signal)->set_timeout(timeout_ns);
}

qr_status *qr_signal_fd(qr_signal *signal, int32_t *out_fd) {
  QR_REQUIRE(signal);
  QR_REQUIRE(out_fd);
  return guard([&]() -> Status {
    const int fd = object(signal)->fd();
    if (fd < 0)
      return Status::error(ErrorId::no_descriptor,
                           quarry::format("qr_signal_fd: the system gives no descriptor: %s", std::strerror(errno)));
    *out_fd = fd;
    return {};
  });
}

void qr_signal_destroy(qr_signal *signal) {
  if (signal) object(signal)->release();
}

}  // extern "C"
