// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

extern "C" {

qr_status *qr_adapter_open(const qr_session *session, const qr_model_source *source, const qr_adapter_options *options,
                           const qr_call_options *call, qr_adapter **out_adapter) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(source);
  QR_RETURN_IF_NULL(out_adapter);
  return guard_call(object(session), call, [&](const CallWatch &watch) -> Status {
    constexpr const char *kFunction = "qr_adapter_open";
    qr_model_source from = QR_MODEL_SOURCE_INIT;
    QR_RETURN_IF_ERROR(read_struct(kFunction, "qr_model_source", source, from, QR_MODEL_SOURCE_FIRST_SIZE));
    qr_adapter_options how = QR_ADAPTER_OPTIONS_INIT;
    if (options)
      QR_RETURN_IF_ERROR(read_struct(kFunction, "qr_adapter_options", options, how, QR_ADAPTER_OPTIONS_FIRST_SIZE));
    if (how.reserved) return unknown_field(kFunction, "qr_adapter_options", "reserved");
    if (!std::isfinite(how.alpha) || !std::isfinite(how.strength))
      return Status::error(ErrorId::bad_argument,
                           "qr_adapter_open: found an alpha or strength that is no finite number, expected numbers");
    std::string_view path;
    if (from.kind == QR_SOURCE_PATH)
      QR_RETURN_IF_ERROR(read_text(kFunction, "source->path", from.path, Empty::Path, &path));
    QR_RETURN_IF_ERROR(Model::check_source(from, "source"));
    QR_ASSIGN_OR_RETURN(Ref<Adapter> adapter, Adapter::open(object(session)->core(), from, how, watch));
    *out_adapter = handle_of(adapter.give());
    return {};
  });
}

qr_status *qr_session_set_adapter(qr_session *session, qr_adapter *adapter) {
  QR_RETURN_IF_NULL(session);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard(object(session), [&] { return object(session)->set_adapter(object(adapter)); });
}

void qr_adapter_destroy(qr_adapter *adapter) {
  if (!adapter) return;
  AllocatorScope memory(memory_of(object(adapter)));
  object(adapter)->release();
}

}  // extern "C"
