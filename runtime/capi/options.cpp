// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

extern "C" {

qr_status *qr_options_create(qr_runtime *runtime, qr_options **out_options) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_options);
  return guard(object(runtime), [&]() -> Status {
    *out_options = handle_of(Ref<OptionSet>::make(Ref<Runtime>(object(runtime))).give());
    return {};
  });
}

qr_status *qr_options_set(qr_options *options, qr_string key, qr_string value) {
  QR_RETURN_IF_NULL(options);
  QR_ENTER_SHARED_OR_RETURN(scope, object(options), "options", Access::Change);
  return guard(object(options), [&]() -> Status {
    std::string_view name, text;
    QR_RETURN_IF_ERROR(read_text("qr_options_set", "key", key, Empty::Allowed, &name));
    QR_RETURN_IF_ERROR(read_text("qr_options_set", "value", value, Empty::Value, &text));
    return object(options)->set(name, text);
  });
}

qr_status *qr_options_get(const qr_options *options, qr_string key, qr_string *out_value) {
  QR_RETURN_IF_NULL(options);
  QR_RETURN_IF_NULL(out_value);
  QR_ENTER_SHARED_OR_RETURN(scope, object(options), "options", Access::Read);
  return guard(object(options), [&]() -> Status {
    std::string_view name;
    QR_RETURN_IF_ERROR(read_text("qr_options_get", "key", key, Empty::Allowed, &name));
    QR_ASSIGN_OR_RETURN(const std::string_view value, object(options)->get(name));
    *out_value = string_of(value);
    return {};
  });
}

qr_status *qr_options_unset(qr_options *options, qr_string key) {
  QR_RETURN_IF_NULL(options);
  QR_ENTER_SHARED_OR_RETURN(scope, object(options), "options", Access::Change);
  return guard(object(options), [&]() -> Status {
    std::string_view name;
    QR_RETURN_IF_ERROR(read_text("qr_options_unset", "key", key, Empty::Allowed, &name));
    return object(options)->unset(name);
  });
}

uint64_t qr_options_count(const qr_options *options) { return options ? object(options)->values().size() : 0; }

qr_status *qr_options_at(const qr_options *options, uint64_t index, qr_string *out_key, qr_string *out_value) {
  QR_RETURN_IF_NULL(options);
  QR_RETURN_IF_NULL(out_key);
  QR_RETURN_IF_NULL(out_value);
  QR_ENTER_SHARED_OR_RETURN(scope, object(options), "options", Access::Read);
  return guard(object(options), [&]() -> Status {
    const auto &values = object(options)->values();
    if (index >= values.size()) return index_out_of_range("qr_options_at", "index", index, values.size());
    const auto &[key, value] = *std::next(values.begin(), static_cast<std::ptrdiff_t>(index));
    *out_key = string_of(key);
    *out_value = string_of(value);
    return {};
  });
}

qr_status *qr_options_copy(const qr_options *options, qr_options **out_copy) {
  QR_RETURN_IF_NULL(options);
  QR_RETURN_IF_NULL(out_copy);
  QR_ENTER_SHARED_OR_RETURN(scope, object(options), "options", Access::Read);
  return guard(object(options), [&]() -> Status {
    *out_copy = handle_of(object(options)->copy().give());
    return {};
  });
}

void qr_options_destroy(qr_options *options) {
  if (options) object(options)->release();
}

qr_status *qr_runtime_option(qr_runtime *runtime, uint64_t index, qr_option_info *out_info) {
  QR_RETURN_IF_NULL(runtime);
  QR_RETURN_IF_NULL(out_info);
  QR_ENTER_OR_RETURN(scope, object(runtime), "runtime");
  return guard(object(runtime), [&]() -> Status {
    QR_RETURN_IF_ERROR(check_struct("qr_runtime_option", "qr_option_info", out_info, QR_OPTION_INFO_FIRST_SIZE,
                                    sizeof(qr_option_info)));
    qr_option_info info = QR_OPTION_INFO_INIT;
    const auto give = [&info](const auto &row, std::string_view whose) {
      info.changes_at_run_time = row.changes_at_run_time;
      info.key = string_of(row.key);
      info.values = string_of(row.values);
      info.applies = row.applies;
      info.default_value = string_of(row.default_value);
      info.scope = string_of(whose);
      info.help = string_of(row.help);
    };
    const std::size_t known = option_row_count();
    if (index < known) {
      give(option_row(index), option_row(index).scope);
    } else {
      QR_ASSIGN_OR_RETURN(const Vector<const BackendOption *> rows, object(runtime)->backend_options());
      if (index - known >= rows.size())
        return index_out_of_range("qr_runtime_option", "index", index, known + rows.size());
      give(*rows[index - known], rows[index - known]->backend);
    }
    write_struct(info, out_info);
    return {};
  });
}

}  // extern "C"
