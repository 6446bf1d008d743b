// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

namespace quarry {

Signal::Signal(Ref<Runtime> runtime) : runtime_(std::move(runtime)) {}
Signal::~Signal() = default;

}  // namespace quarry

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

void qr_signal_destroy(qr_signal *signal) {
  if (signal) object(signal)->release();
}

}  // extern "C"
