// SPDX-License-Identifier: Apache-2.0
#include <cerrno>

#include "base/os/file.h"
#include "base/os_error.h"
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

extern "C" {

qr_status *qr_signal_create(qr_runtime *runtime, qr_signal **out_signal) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_signal);
  return guard(object(runtime), [&]() -> Status {
    *out_signal = handle_of(Ref<Signal>::make(Ref<Runtime>(object(runtime))).give());
    return {};
  });
}

qr_status *qr_signal_derive(qr_signal *parent, qr_signal **out_signal) {
  QR_RETURN_IF_NULL(parent);
  QR_RETURN_IF_NULL(out_signal);
  return guard(object(parent), [&]() -> Status {
    *out_signal = handle_of(Ref<Signal>::make(Ref<Runtime>(&object(parent)->runtime()), object(parent)).give());
    return {};
  });
}

qr_status *qr_signal_check(const qr_signal *signal) {
  if (!signal) return nullptr;
  return guard(object(signal), [&] { return CallSignal(const_cast<Signal *>(object(signal))).check("a call"); });
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
  QR_RETURN_IF_NULL(signal);
  QR_RETURN_IF_NULL(out_fd);
  return guard([&]() -> Status {
    if constexpr (!os::kDescriptorsAreShared) return no_descriptors("qr_signal_fd", "ask qr_signal_check now and then");
    const int fd = object(signal)->fd();
    if (fd < 0)
      return Status::error(ErrorId::no_descriptor,
                           quarry::format("qr_signal_fd: the system gives no descriptor: %s", os_error_text(errno)));
    *out_fd = fd;
    return {};
  });
}

void qr_signal_destroy(qr_signal *signal) {
  if (signal) object(signal)->release();
}

}  // extern "C"
