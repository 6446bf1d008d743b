// SPDX-License-Identifier: Apache-2.0
// The slots that report a backend's options to the host, from the rows of its options.inc.
#pragma once

#include <iterator>

#include "backends/common/processor_backend.h"
#include "base/option_row.h"

namespace quarry::plugin {

static_assert(QR_OPTION_COMPILE == QR_PLUGIN_OPTION_COMPILE && QR_OPTION_LOAD == QR_PLUGIN_OPTION_LOAD &&
              QR_OPTION_RUN == QR_PLUGIN_OPTION_RUN && QR_OPTION_TARGET == QR_PLUGIN_OPTION_TARGET);

template <class Backend, const auto &kRows>
qr_plugin_code option_info(Backend *backend, std::uint64_t index, qr_plugin_option_info *out_info,
                           const qr_error_sink *errors) {
  return guard(backend->allocator, errors, [&]() -> Status {
    QR_RETURN_IF_ERROR(check_index("option", index, std::size(kRows)));
    if constexpr (std::size(kRows) > 0) {
      const OptionRow &row = kRows[index];
      qr_plugin_option_info info{};
      info.changes_at_run_time = row.changes_at_run_time;
      info.applies = row.applies;
      info.key = text(row.key);
      info.values = text(row.values);
      info.default_value = text(row.default_value);
      info.help = text(row.help);
      give(info, out_info);
    }
    return {};
  });
}

template <class Backend, const auto &kRows>
inline constexpr qr_plugin_option_api kOptionSlots = {sizeof(qr_plugin_option_api), 0,
                                                      [](Backend *) -> std::uint64_t { return std::size(kRows); },
                                                      option_info<Backend, kRows>};

}  // namespace quarry::plugin
