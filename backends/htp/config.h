// SPDX-License-Identifier: Apache-2.0
// Options of the backend as the library's configurations.
#pragma once

#include <memory>
#include <span>

#include "backends/htp/qnn/htp_abi.h"
#include "backends/htp/soc/soc.h"
#include "base/option_row.h"
#include "quarry/backend.h"

namespace quarry::htp {

struct CompileOptions {
  const Soc *soc = nullptr;
  String notice;  // about what was asked for and does not count
  bool half_precision = true;
  bool host_quantization = true;   // of inputs and outputs
  std::uint32_t optimization = 0;  // 0..3, as the option has it
  std::uint32_t vtcm_mb = 0;       // 0: all there is
};
// Nothing is ignored: an option of the table that this backend does nothing with yet must be left at its default.
// `applies`: QR_PLUGIN_OPTION_COMPILE or LOAD.
Status refuse_idle_options(std::span<const OptionRow> rows, const qr_plugin_option *options, std::uint64_t count,
                           std::uint32_t applies);
Result<CompileOptions> read_compile_options(const qr_plugin_option *options, std::uint64_t count);

// What graphCreate gets; holds what it points to.
class GraphConfigs {
 public:
  explicit GraphConfigs(const CompileOptions &options);
  GraphConfigs(const GraphConfigs &) = delete;
  GraphConfigs &operator=(const GraphConfigs &) = delete;
  const qnn::GraphConfig **list() noexcept { return pointers_; }

 private:
  static constexpr std::size_t kMost = 8;
  qnn::HtpGraphConfig &add();
  qnn::HtpGraphConfig custom_[kMost] = {};
  qnn::GraphConfig configs_[kMost] = {};
  const qnn::GraphConfig *pointers_[kMost + 1] = {};
  std::size_t count_ = 0;
};

}  // namespace quarry::htp
