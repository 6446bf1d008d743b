// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/config.h"

#include <algorithm>
#include <charconv>

#include "backends/common/plugin_support.h"

namespace quarry::htp {

namespace {

std::uint32_t number(std::string_view text) {
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);  // the host has checked it
  return value;
}

}  // namespace

Status refuse_idle_options(std::span<const OptionRow> rows, const qr_plugin_option *options, std::uint64_t count,
                           std::uint32_t applies) {
  static constexpr std::string_view kDone[] = {"htp.library_path",
                                               "soc_model",
                                               "htp_arch",
                                               "enable_htp_fp16_precision",
                                               "htp_graph_finalization_optimization_mode",
                                               "offload_graph_io_quantization",
                                               "vtcm_mb"};
  for (const OptionRow &row : rows) {
    if (!(row.applies & applies) || std::find(std::begin(kDone), std::end(kDone), row.key) != std::end(kDone)) continue;
    const std::string_view value = plugin::option(options, count, row.key, row.default_value);
    if (value != row.default_value)
      return Status::error(ErrorId::bad_option_value,
                           format("option %s: found '%s', which the htp backend does not do yet; expected '%s'",
                                  String(row.key).c_str(), printable(value).c_str(), String(row.default_value).c_str()),
                           "leave the option out");
  }
  return {};
}

Result<CompileOptions> read_compile_options(const qr_plugin_option *options, std::uint64_t count) {
  const auto value = [&](std::string_view key, std::string_view fallback) {
    return plugin::option(options, count, key, fallback);
  };
  CompileOptions out;
  QR_ASSIGN_OR_RETURN(Target target, choose_target(value("soc_model", "0"), value("htp_arch", "0")));
  out.soc = target.soc;
  out.notice = std::move(target.notice);
  out.half_precision = value("enable_htp_fp16_precision", "1") != "0";
  out.host_quantization = value("offload_graph_io_quantization", "1") != "0";
  out.optimization = number(value("htp_graph_finalization_optimization_mode", "0"));
  out.vtcm_mb = number(value("vtcm_mb", "0"));
  return out;
}

qnn::HtpGraphConfig &GraphConfigs::add() {
  configs_[count_].option = qnn::GraphOpt::Custom;
  configs_[count_].custom = &custom_[count_];
  pointers_[count_] = &configs_[count_];
  return custom_[count_++];
}

GraphConfigs::GraphConfigs(const CompileOptions &options) {
  const auto option = [](qnn::HtpGraphOpt what) { return static_cast<std::uint32_t>(what); };
  {
    qnn::HtpGraphConfig &precision = add();
    precision.option = option(qnn::HtpGraphOpt::Precision);
    precision.u32 = options.half_precision ? 1 : 0;
  }
  if (options.optimization > 0) {
    qnn::HtpGraphConfig &level = add();
    level.option = option(qnn::HtpGraphOpt::Optimization);
    level.opt = {static_cast<std::uint32_t>(qnn::HtpOptimType::Level), static_cast<float>(options.optimization)};
  }
  if (options.vtcm_mb > 0) {
    qnn::HtpGraphConfig &vtcm = add();
    vtcm.option = option(qnn::HtpGraphOpt::VtcmMb);
    vtcm.u32 = options.vtcm_mb;
  }
}

}  // namespace quarry::htp
