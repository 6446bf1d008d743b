// SPDX-License-Identifier: Apache-2.0
#include "backends/common/plugin_support.h"

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

namespace {

Status shares_a_minor(const qr_host &host, const qr_plugin &table) {
  if (host.magic != QR_PLUGIN_MAGIC || host.abi_major != QR_PLUGIN_ABI_MAJOR)
    return Status::error(ErrorId::plugin_abi_major,
                         format("host: found plugin ABI major %u, expected %u", host.abi_major, QR_PLUGIN_ABI_MAJOR));
  if (host.abi_minor_max < table.abi_minor_min || host.abi_minor_min > table.abi_minor)
    return Status::error(ErrorId::plugin_abi_minor,
                         format("host: found plugin ABI minors %u to %u, expected one of %u to %u", host.abi_minor_min,
                                host.abi_minor_max, table.abi_minor_min, table.abi_minor));
  return {};
}

}  // namespace

qr_plugin_code answer_query(const qr_host *host, const qr_plugin &table, const qr_plugin **out_plugin,
                            const qr_error_sink *errors) noexcept {
  try {
    if (const Status status = shares_a_minor(*host, table); !status.ok()) return report(errors, status);
  } catch (const std::bad_alloc &) {
    return report(errors, Status::out_of_memory());
  }
  *out_plugin = &table;
  return QR_OK;
}

Status StopToken::status(std::string_view what) const noexcept {
  if (!stopped()) return {};
  const bool was_aborted = seen_.load(std::memory_order_relaxed) == Seen::Abort;
  const ErrorId id = was_aborted ? ErrorId::cancelled : ErrorId::deadline_exceeded;
  try {
    return Status::errorf(id, "%.*s: %s", what, was_aborted ? "the signal was aborted" : "the deadline has passed");
  } catch (const std::bad_alloc &) {
    return Status::error(id, what);
  }
}

Result<qir::Graph> read_graph(const qr_plugin_graph &graph) {
  Vector<qir::Bytes> segments(graph.segment_count);
  for (std::uint64_t i = 0; i < graph.segment_count; ++i)
    segments[i] = {graph.segments[i].data, graph.segments[i].size};
  return qir::read_graph({graph.qir.data, graph.qir.size}, segments.data(), segments.size());
}

void report_verdict(const qr_verdict_sink &verdicts, std::uint32_t node, const Status &refused, std::uint32_t path,
                    std::string_view kernel) noexcept {
  qr_plugin_verdict verdict{};
  verdict.struct_size = sizeof verdict;
  verdict.node = node;
  verdict.supported = refused.ok();
  verdict.path = refused.ok() ? path : QR_PLUGIN_PATH_UNKNOWN;
  verdict.id = text(refused.id());
  verdict.reason = text(refused.message());
  verdict.hint = text(refused.hint());
  verdict.kernel = text(kernel);
  verdicts.verdict(verdicts.self, &verdict);
}

std::string_view option(const qr_plugin_option *options, std::uint64_t count, std::string_view key,
                        std::string_view fallback) noexcept {
  for (std::uint64_t i = count; i-- > 0;)
    if (view(options[i].key) == key) return view(options[i].value);
  return fallback;
}

}  // namespace quarry::plugin
