// SPDX-License-Identifier: Apache-2.0
#include "backends/common/plugin_support.h"

#include <algorithm>
#include <cstring>

namespace quarry::plugin {

std::string_view view(qr_plugin_string string) noexcept {
  if (!string.data) return {};
  return {string.data, string.size == QR_PLUGIN_NUL_TERMINATED ? std::strlen(string.data) : string.size};
}

qr_plugin_code report(const qr_error_sink *errors, const Status &status) noexcept {
  if (status.ok()) return QR_OK;
  if (errors && errors->set) {
    errors->set(errors->self, status.code(), text(status.id()), text(status.message()), text(status.hint()));
    if (errors->detail)
      for (const Status::Detail &frame : status.payload()->details)
        errors->detail(errors->self, text(frame.key), text(frame.value));
  }
  return status.code();
}

Status negotiate(const qr_host *host, std::uint32_t minor_min, std::uint32_t *out_minor) noexcept try {
  if (host->magic != QR_PLUGIN_MAGIC || host->abi_major != QR_PLUGIN_ABI_MAJOR)
    return Status::error(ErrorId::plugin_abi_major,
                         format("host: found plugin ABI major %u, expected %u", host->abi_major, QR_PLUGIN_ABI_MAJOR));
  if (host->abi_minor_max < minor_min || host->abi_minor_min > QR_PLUGIN_ABI_MINOR)
    return Status::error(ErrorId::plugin_abi_minor,
                         format("host: found plugin ABI minors %u to %u, expected one of %u to %u", host->abi_minor_min,
                                host->abi_minor_max, minor_min, QR_PLUGIN_ABI_MINOR));
  *out_minor = std::min(host->abi_minor_max, std::uint32_t{QR_PLUGIN_ABI_MINOR});
  return {};
} catch (const std::bad_alloc &) {
  return Status::out_of_memory();
}

qr_plugin_code answer_query(const qr_host *host, const qr_plugin &table, const qr_plugin **out_plugin,
                            const qr_error_sink *errors) noexcept {
  std::uint32_t minor;
  if (const Status status = negotiate(host, 0, &minor); !status.ok()) return report(errors, status);
  *out_plugin = &table;
  return QR_OK;
}

Status Stop::status(std::string_view what) const noexcept {
  try {
    if (aborted())
      return Status::error(ErrorId::cancelled, format("%.*s: the signal was aborted", int(what.size()), what.data()));
    if (late())
      return Status::error(ErrorId::deadline_exceeded,
                           format("%.*s: the deadline has passed", int(what.size()), what.data()));
    return {};
  } catch (const std::bad_alloc &) {
    return Status::error(aborted() ? ErrorId::cancelled : ErrorId::deadline_exceeded, what);
  }
}

Result<qir::Graph> read_request(const qr_compile_request &request) {
  Vector<qir::Bytes> segments(request.segment_count);
  for (std::uint64_t i = 0; i < request.segment_count; ++i)
    segments[i] = {request.segments[i].data, request.segments[i].size};
  return qir::read_graph({request.qir.data, request.qir.size}, segments.data(), segments.size());
}

std::string_view option(const qr_plugin_option *options, std::uint64_t count, std::string_view key,
                        std::string_view fallback) noexcept {
  for (std::uint64_t i = count; i-- > 0;)
    if (view(options[i].key) == key) return view(options[i].value);
  return fallback;
}

}  // namespace quarry::plugin
