// SPDX-License-Identifier: Apache-2.0
// Options of the backend as the library's configurations. config.inc has the table.
#pragma once

#include <memory>
#include <span>

#include "backends/htp/engine/op_packages.h"
#include "backends/htp/qnn/htp_abi.h"
#include "backends/htp/settings/config_file.h"
#include "backends/htp/settings/power.h"
#include "backends/htp/settings/priority.h"
#include "backends/htp/soc/soc.h"
#include "base/option_row.h"
#include "quarry/backend.h"

namespace quarry::htp {

// Values of options: what the caller gave; where that is the default, what htp.config_file says.
class Settings {
 public:
  // Nothing is ignored: an option that this backend does nothing with yet must be left at its default.
  // `applies`: QR_PLUGIN_OPTION_COMPILE, LOAD or RUN.
  static Result<Settings> read(std::span<const OptionRow> rows, const qr_plugin_option *options, std::uint64_t count,
                               std::uint32_t applies);

  std::string_view text(std::string_view key, std::string_view graph = {}) const noexcept;
  std::string_view unset(std::string_view key) const noexcept;  // what it is where nobody says anything
  std::uint64_t number(std::string_view key, std::string_view graph = {}) const noexcept;
  bool flag(std::string_view key, std::string_view graph = {}) const noexcept { return text(key, graph) == "1"; }
  // The greatest that any graph is given.
  std::uint64_t greatest(std::string_view key) const;
  // Of a list that htp.config_file has.
  Vector<std::string_view> all(std::string_view key) const { return file_.all(key); }
  // That htp.config_file names no graph that is not among these.
  Status check_names(std::span<const std::string_view> graphs) const;

 private:
  std::span<const OptionRow> rows_;
  Vector<std::pair<String, String>> given_;  // those that are not at their default
  ConfigFile file_;
};

struct CompileOptions {
  const Soc *soc = nullptr;
  String notice;  // about what was asked for and does not count
  bool half_precision = true;
  bool signed_domain = false;
  bool host_quantization = true;  // of inputs and outputs
  Vector<OpPackage> packages;
  Settings settings;
};
Result<CompileOptions> read_compile_options(Settings settings);

PowerWishes read_power_wishes(const Settings &settings);
// That this SoC has what is voted for.
Status check_power_wishes(const Settings &settings, const Soc &soc);

// What htp.config_file says of graphs that are loaded when they run, of the graphs of a binary: together with the other
// options of a session, and no graph that is not there.
Status check_switching(const Settings &settings, std::span<const std::string_view> graphs);

// Lists of configurations; they hold what they point to, and stay where they are.
class GraphConfigs {
 public:
  GraphConfigs(const CompileOptions &options, std::string_view graph);
  GraphConfigs(const GraphConfigs &) = delete;
  GraphConfigs &operator=(const GraphConfigs &) = delete;
  const qnn::GraphConfig **list() noexcept { return pointers_.data(); }
  // "VtcmMb=8, HvxThreads=4": for errors of the call that takes them.
  const String &text() const noexcept { return text_; }
  // The keys of htp.finalize_config: one that the library does not know it says so of, and takes all the same.
  const Vector<String> &finalize_keys() const noexcept { return keys_; }

 private:
  static constexpr std::size_t kMost = 48;
  qnn::HtpGraphConfig *add(qnn::HtpGraphOpt option, const String &said);
  Vector<qnn::HtpGraphConfig> custom_;
  Vector<qnn::GraphConfig> configs_;
  Vector<const qnn::GraphConfig *> pointers_;
  Vector<String> keys_;
  String text_;
};

// Contexts of one group share buffers: the first one that was loaded, and how much its members may need.
struct ContextGroup {
  qnn::Handle first = nullptr;
  std::uint64_t max_spill = 0;
};

class ContextConfigs {
 public:
  enum class For : std::uint8_t { Compile, Load };
  // How many a binary has, and which are loaded; empty: all.
  struct Graphs {
    std::size_t count = 0;
    Vector<std::string_view> chosen;
  };
  // `graphs`: of a binary that is loaded.
  ContextConfigs(const Settings &settings, For what, const ContextGroup *group = nullptr,
                 const Graphs *graphs = nullptr);
  ContextConfigs(const ContextConfigs &) = delete;
  ContextConfigs &operator=(const ContextConfigs &) = delete;
  // nullptr where nothing is configured.
  const qnn::ContextConfig **list() noexcept { return configs_.empty() ? nullptr : pointers_.data(); }
  const String &text() const noexcept { return text_; }

 private:
  static constexpr std::size_t kMost = 24;
  qnn::ContextConfig &add(const String &said);
  qnn::HtpContextConfig &add_custom(qnn::HtpContextOpt option, const String &said);
  void add_switching(const Settings &settings, const Graphs &graphs);
  void add_names(qnn::ContextOpt option, std::string_view key, const Vector<std::string_view> &names);
  struct Names {
    Vector<String> texts;
    Vector<const char *> pointers;
  };
  Names enabled_, retained_;
  Vector<qnn::HtpContextConfig> custom_;
  Vector<qnn::ContextConfig> configs_;
  Vector<const qnn::ContextConfig *> pointers_;
  String text_;
};

}  // namespace quarry::htp
