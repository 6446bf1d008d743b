// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/settings/config.h"

#include <algorithm>
#include <charconv>
#include <type_traits>

#include "backends/common/plugin_support.h"

namespace quarry::htp {

namespace {

// What nothing is done with, and why: refused at another value than the default.
struct IdleOption {
  std::string_view key;
  const char *reason;
};
constexpr IdleOption kIdle[] = {
    {"enable_htp_monolithic_lstm", "an LSTM is unrolled, which the library computes rightly"},
    {"enable_htp_graph_splitting",
     "a graph is prepared as a whole: pieces that the library made of it were not run rightly; cut it (quarry cut)"},
    {"htp_graph_splitting_num_prepare_threads", "a graph is prepared as a whole; see enable_htp_graph_splitting"},
    {"op_affinity",
     "a session runs wholly on its one backend; cut the model, and run each part where it belongs (quarry cut)"},
    {"genie_log_level", "Genie's pipelines are not used: a decoder's cache is a state of the session (option state)"},
    {"enable_block_quant_weight_optimization",
     "weights with scales for blocks stay so wherever the library computes them rightly"},
    {"enable_dx12_shared_memory_allocator", "Direct3D 12 is on Windows alone; see enable_htp_shared_memory_allocator"},
    {"num_graph_prepare_threads", "a graph has no partitions, and the library prepares it with threads of its own"},
    {"dump_qnn_ep_input_graph", "it is the model's own; graph.watch makes its inner tensors outputs"},
    {"dump_qnn_ep_input_graph_dir", "see dump_json_qnn_graph"},
    {"ep.context_model_external_initializers_file_name",
     "a written EPContext model has scales and zero points alone, which are in it"},
};

// What is read where another option asks for it alone.
constexpr struct {
  std::string_view key, needs, or_else;
} kBeside[] = {
    {"htp.max_spill_fill_buffer", "enable_htp_spill_fill_buffer", "enable_vtcm_backup_buffer_sharing"},
    {"json_qnn_graph_dir", "dump_json_qnn_graph", {}},
    {"dump_qnn_ir_dlc_dir", "dump_qnn_ir_dlc", {}},
    {"framework_op_trace_dir", "enable_framework_op_trace", {}},
    {"htp.optrace_dir", "htp.optrace", {}},
    {"htp.saver_dir", "qnn_saver_path", {}},
    {"htp.share_resources_type", "htp_share_resource_optimization", {}},
};

// What cannot stand together, and why.
constexpr struct {
  std::string_view key, other;
  const char *reason;
} kApart[] = {
    {"htp.file_read_memory_budget_mb", "disable_file_mapped_weights",
     "the library reads pieces of a mapped file alone"},
};

std::uint64_t decimal(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);  // the host has checked it, or check() below
  return value;
}

// The host checks what it is given; what the file says is checked here.
bool fits(std::string_view values, std::string_view value) {
  constexpr std::string_view kEach = "each ";  // in the file, of the one machine that is compiled for
  if (values.starts_with(kEach)) values.remove_prefix(kEach.size());
  constexpr std::string_view kInteger = "integer ";
  if (values.starts_with(kInteger)) {
    values.remove_prefix(kInteger.size());
    const std::size_t dots = values.find("..");
    return decimal(value) <= decimal(values.substr(dots + 2)) &&
           (values[0] == '-' || decimal(value) >= decimal(values.substr(0, dots)));
  }
  if (values.find('|') == values.npos) return true;
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t end = std::min(values.find('|', at), values.size());
    if (values.substr(at, end - at) == value) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

Result<Settings> Settings::read(std::span<const OptionRow> rows, const qr_plugin_option *options, std::uint64_t count,
                                std::uint32_t applies) {
  Settings made;
  made.rows_ = rows;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const OptionRow &row = rows[i];
    // The host has them in the order of the rows, of which it may leave some out.
    const bool in_place = i < count && plugin::view(options[i].key) == row.key;
    const std::string_view value =
        in_place ? plugin::view(options[i].value) : plugin::option(options, count, row.key, row.default_value);
    if (value == row.default_value) continue;
    made.given_.emplace_back(row.key, value);
    const auto *const idle =
        std::find_if(std::begin(kIdle), std::end(kIdle), [&](const IdleOption &each) { return row.key == each.key; });
    if (idle != std::end(kIdle) && ((row.applies & applies) || row.applies == QR_OPTION_NO_RESULT))
      return Status::error(ErrorId::bad_option_value,
                           format("option %s: found '%s', which the htp backend does not do; expected '%s': %s",
                                  String(row.key), printable(value), String(row.default_value), idle->reason),
                           "leave the option out");
  }
  constexpr std::string_view kFile = "htp.config_file";
  const std::string_view path = plugin::option(options, count, kFile, "");
  QR_ASSIGN_OR_RETURN(made.file_, ConfigFile::read(path));
  for (const OptionRow &row : rows)
    for (const std::string_view said : made.file_.all(row.key))
      if (!fits(row.values, said))
        return Status::error(ErrorId::bad_option_value,
                             format("htp.config_file %s: found %s for option %s, expected %s", printable(path, 1000),
                                    printable(said), String(row.key), String(row.values)));
  for (const auto &[key, needs, or_else] : kBeside)
    if (const std::string_view value = made.text(key); value != made.unset(key) &&
                                                       made.text(needs) == made.unset(needs) &&
                                                       (or_else.empty() || made.text(or_else) == made.unset(or_else)))
      return Status::error(ErrorId::option_conflict,
                           format("option %s: found %s, which nothing reads without %s", String(key),
                                  printable(value, 1000), String(needs)),
                           format("set %s beside it, or leave it out", String(needs)));
  if (find_power_profile(made.text("htp_performance_mode")) == nullptr)
    for (const char *const key : {"htp.hmx_corner", "htp.sleep_disable"})
      if (const std::string_view value = made.text(key); value != made.unset(key))
        return Status::error(ErrorId::option_conflict,
                             format("option %s: found %s without htp_performance_mode: the library takes such a vote "
                                    "beside one for the vector unit alone",
                                    key, printable(value)),
                             "set htp_performance_mode beside it, or leave it out");
  if (made.text("htp.hmx_clock") != "high" && made.text("htp.hmx_corner") == "auto")
    return Status::error(ErrorId::option_conflict,
                         "option htp.hmx_clock: found low, which nothing reads without htp.hmx_corner",
                         "set htp.hmx_corner beside it, or leave it out");
  for (const auto &[key, other, reason] : kApart)
    if (made.number(key) > 0 && made.flag(other))
      return Status::error(ErrorId::option_conflict, format("options %s and %s: found both, expected one: %s",
                                                            String(key), String(other), reason));
  return made;
}

std::string_view Settings::text(std::string_view key, std::string_view graph) const noexcept {
  for (const auto &[name, value] : given_)
    if (name == key) return value;
  if (const String *const said = file_.find(key, graph)) return *said;
  return unset(key);
}

std::string_view Settings::unset(std::string_view key) const noexcept {
  for (const OptionRow &row : rows_)
    if (row.key == key) return row.default_value;
  return {};
}

std::uint64_t Settings::greatest(std::string_view key) const {
  std::uint64_t most = number(key);
  for (const std::string_view said : file_.all(key)) most = std::max(most, decimal(said));
  return most;
}

Status Settings::check_names(std::span<const std::string_view> graphs) const {
  const std::string_view stranger = file_.stranger(graphs);
  if (stranger.empty()) return {};
  String known;
  for (const std::string_view graph : graphs) known += (known.empty() ? "" : ", ") + printable(graph);
  return Status::error(ErrorId::bad_option_value,
                       format("htp.config_file %s: found graph_names '%s', expected graphs of this model: %s",
                              printable(text("htp.config_file"), 1000), printable(stranger), known),
                       "leave graph_names out where it is meant for every graph");
}

std::uint64_t Settings::number(std::string_view key, std::string_view graph) const noexcept {
  return decimal(text(key, graph));
}

namespace {

constexpr std::size_t kMostKeys = 16;

// Keys of the library's own, each with a number.
Status check_keys(std::string_view list) {
  std::size_t count = 0;
  for (std::string_view left = list; !left.empty(); ++count) {
    const std::size_t end = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view value = item.substr(std::min(equals + 1, item.size()));
    std::uint32_t number = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), number);
    if (equals == 0 || value.empty() || read.ec != std::errc() || read.ptr != value.data() + value.size() ||
        count == kMostKeys)
      return Status::error(ErrorId::bad_option_value,
                           format("option htp.finalize_config: found '%s' in %s, expected at most %zu of KEY=NUMBER, "
                                  "commas between",
                                  printable(item), printable(list, 300), kMostKeys));
  }
  return {};
}

}  // namespace

Result<CompileOptions> read_compile_options(Settings settings) {
  CompileOptions out;
  QR_ASSIGN_OR_RETURN(Target target, choose_target(settings.text("soc_model"), settings.text("htp_arch")));
  out.soc = target.soc;
  out.notice = std::move(target.notice);
  out.half_precision = settings.text("enable_htp_fp16_precision") != "0";
  out.signed_domain = settings.flag("htp.signed_pd");
  out.host_quantization = settings.flag("offload_graph_io_quantization");
  QR_ASSIGN_OR_RETURN(out.packages, read_op_packages(settings.text("op_packages")));
  // What the library would take with a shrug, or refuse at another call.
  const auto limit = [&](const char *option, const String &found, const String &expected) {
    return Status::error(ErrorId::bad_option_value, format("option %s: found %s for %s, expected %s", option, found,
                                                           soc_text(*out.soc), expected));
  };
  const std::uint64_t vtcm_mb = settings.greatest("vtcm_mb"), vtcm_bytes = settings.greatest("htp.vtcm_bytes");
  if (vtcm_mb > out.soc->vtcm_mb)
    return limit("vtcm_mb", format("%llu", static_cast<unsigned long long>(vtcm_mb)),
                 format("at most %u, all that it has", out.soc->vtcm_mb));
  if (vtcm_bytes > std::uint64_t{out.soc->vtcm_mb} << 20)
    return limit("htp.vtcm_bytes", format("%llu", static_cast<unsigned long long>(vtcm_bytes)),
                 format("at most %u, all that it has", out.soc->vtcm_mb << 20));
  if (vtcm_bytes > 0 && out.soc->arch < 81)
    return limit("htp.vtcm_bytes", format("%llu", static_cast<unsigned long long>(vtcm_bytes)),
                 "0: before v81 the library does nothing with it; vtcm_mb is there");
  if (settings.flag("extended_udma") && out.soc->arch < 81)
    return limit("extended_udma", "1", "0: it is there from v81 on");
  if (settings.flag("enable_htp_fp16_clamp_overflow") && out.soc->arch >= 81)
    return limit("enable_htp_fp16_clamp_overflow", "1",
                 "0: from v81 on an overflow is 131008, which the library's own operations do not clamp");
  if (settings.flag("htp_bf16_enable") && out.soc->arch < 81)
    return limit("htp_bf16_enable", "1", "0: it is there from v81 on");
  if (settings.flag("enable_htp_weight_sharing") && out.soc->arch < 73)
    return limit("enable_htp_weight_sharing", "1", "0: it is there from v73 on");
  QR_RETURN_IF_ERROR(check_keys(settings.text("htp.finalize_config")));
  out.settings = std::move(settings);
  return out;
}

PowerWishes read_power_wishes(const Settings &settings) {
  const auto number = [&](std::string_view key) { return static_cast<std::uint32_t>(settings.number(key)); };
  PowerWishes wishes;
  wishes.profile = find_power_profile(settings.text("htp_performance_mode"));
  wishes.core = number("htp.core_id");
  wishes.rpc_latency_us = number("rpc_control_latency");
  wishes.adaptive_polling_us = number("htp.adaptive_polling_time");
  wishes.hmx_timeout_us = number("htp.hmx_timeout_us");
  wishes.hmx_corner = find_hmx_corner(settings.text("htp.hmx_corner"));
  wishes.hmx_clock = settings.text("htp.hmx_clock") == "low" ? 1 : 0;
  wishes.no_sleep = settings.flag("htp.sleep_disable");
  if (settings.text("htp.rpc_polling_time") != "-1")
    wishes.rpc_polling_us = static_cast<std::int32_t>(number("htp.rpc_polling_time"));
  return wishes;
}

Status check_power_wishes(const Settings &settings, const Soc &soc) {
  constexpr std::uint32_t kFirst = 75;
  const std::string_view corner = settings.text("htp.hmx_corner");
  if (corner == "auto" || soc.arch >= kFirst) return {};
  return Status::error(
      ErrorId::bad_option_value,
      format("option htp.hmx_corner: found %s for %s, expected auto: votes for the matrix unit are there "
             "from v%u on",
             printable(corner), soc_text(soc), kFirst));
}

// ---- graphs -------------------------------------------------------------------------------------

namespace {

void put(bool &field, std::uint64_t value) { field = value != 0; }
void put(std::uint32_t &field, std::uint64_t value) { field = static_cast<std::uint32_t>(value); }
void put(std::uint64_t &field, std::uint64_t value) { field = value; }

String said_of(std::string_view option, std::string_view value) { return String(option) + "=" + printable(value); }

}  // namespace

qnn::HtpGraphConfig *GraphConfigs::add(qnn::HtpGraphOpt option, const String &said) {
  text_ += (text_.empty() ? "" : ", ") + said;
  custom_.push_back({});
  custom_.back().option = static_cast<std::uint32_t>(option);
  configs_.push_back({});
  configs_.back().option = qnn::GraphOpt::Custom;
  configs_.back().custom = &custom_.back();
  pointers_.insert(pointers_.end() - 1, &configs_.back());
  return &custom_.back();
}

GraphConfigs::GraphConfigs(const CompileOptions &options, std::string_view graph) : pointers_(1, nullptr) {
  custom_.reserve(kMost), configs_.reserve(kMost), keys_.reserve(kMost);
  const Settings &settings = options.settings;
  add(qnn::HtpGraphOpt::Precision, said_of("enable_htp_fp16_precision", options.half_precision ? "1" : "0"))->u32 =
      options.half_precision ? 1 : 0;
  std::uint64_t value = settings.number("vtcm_mb", graph);
  if (value != 0 || settings.number("htp.vtcm_bytes", graph) == 0)  // 0: all that the SoC has, said to the library too
    put(add(qnn::HtpGraphOpt::VtcmMb, said_of("vtcm_mb", settings.text("vtcm_mb", graph)))->u32, value);
#define QR_HTP_GRAPH(option, configuration, field, unset) \
  value = settings.number(option, graph);                 \
  if (value != (unset))                                   \
    put(add(qnn::HtpGraphOpt::configuration, said_of(option, settings.text(option, graph)))->field, value);
#define QR_HTP_OPTIMIZATION(option, type, unset)                                                \
  value = settings.number(option, graph);                                                       \
  if (value != (unset))                                                                         \
    add(qnn::HtpGraphOpt::Optimization, said_of(option, settings.text(option, graph)))->opt = { \
        static_cast<std::uint32_t>(qnn::HtpOptimType::type), static_cast<float>(value)};
#define QR_HTP_CONTEXT(option, configuration, field, when)
#include "backends/htp/settings/config.inc"
#undef QR_HTP_GRAPH
#undef QR_HTP_OPTIMIZATION
#undef QR_HTP_CONTEXT
  if (const std::string_view priority = settings.text("file.graph_priority", graph); !priority.empty()) {
    text_ += ", " + said_of("graph_priority", priority);
    configs_.push_back({});
    configs_.back().option = qnn::GraphOpt::Priority, configs_.back().priority = read_priority(priority);
    pointers_.insert(pointers_.end() - 1, &configs_.back());
  }
  // Keys of the library's own, each with a number.
  std::string_view left = settings.text("htp.finalize_config", graph);
  while (!left.empty() && keys_.size() < kMostKeys) {
    const std::size_t end = std::min(left.find(','), left.size());
    const std::string_view item = left.substr(0, end);
    left.remove_prefix(std::min(end + 1, left.size()));
    const std::size_t equals = item.find('=');
    keys_.emplace_back(item.substr(0, equals));
    qnn::HtpGraphConfig &config = *add(qnn::HtpGraphOpt::FinalizeConfig, "htp.finalize_config " + printable(item));
    config.finalize.key = keys_.back().c_str();
    config.finalize.value.dtype = qnn::DataType::U32;
    config.finalize.value.u32 = static_cast<std::uint32_t>(decimal(item.substr(equals + 1)));
  }
}

// ---- contexts -----------------------------------------------------------------------------------

qnn::ContextConfig &ContextConfigs::add(const String &said) {
  text_ += (text_.empty() ? "" : ", ") + said;
  configs_.push_back({});
  pointers_.insert(pointers_.end() - 1, &configs_.back());
  return configs_.back();
}

qnn::HtpContextConfig &ContextConfigs::add_custom(qnn::HtpContextOpt option, const String &said) {
  custom_.push_back({});
  custom_.back().option = static_cast<std::uint32_t>(option);
  qnn::ContextConfig &config = add(said);
  config.option = qnn::ContextOpt::Custom;
  config.custom = &custom_.back();
  return custom_.back();
}

namespace {

Status switching_refused(const Settings &settings, std::string_view what, std::string_view expected) {
  return Status::error(ErrorId::option_conflict,
                       format("htp.config_file %s: found %s, expected %s",
                              printable(settings.text("htp.config_file"), 1000), String(what), String(expected)));
}

Status check_listed(const Settings &settings, std::string_view key, std::span<const std::string_view> graphs) {
  for (const std::string_view name : settings.all(key)) {
    if (std::ranges::find(graphs, name) != graphs.end()) continue;
    String known;
    for (const std::string_view graph : graphs) known += (known.empty() ? "" : ", ") + printable(graph);
    return switching_refused(settings, format("graph '%s' in a list of graphs", printable(name)), known);
  }
  return {};
}

}  // namespace

Status check_switching(const Settings &settings, std::span<const std::string_view> graphs) {
  const bool is_persistent = settings.flag("file.persistent_binary"),
             is_limited = settings.number("file.memory_limit_hint") > 0;
  if (is_limited && !is_persistent)
    return switching_refused(settings, "memory_limit_hint alone",
                             "is_persistent_binary beside it: graphs are read from it again");
  if (!is_limited && !settings.all("file.graph_retention_order").empty())
    return switching_refused(settings, "graph_retention_order alone",
                             "memory_limit_hint beside it, without which all graphs stay loaded");
  // The bytes must stay where they are for as long as the context lives, and one graph is loaded at a time.
  for (const char *const key :
       {"disable_file_mapped_weights", "ep.share_ep_contexts", "htp.data_provider", "htp_share_resource_optimization"})
    if (is_persistent && settings.flag(key))
      return switching_refused(settings, format("is_persistent_binary beside option %s", key), "one of them");
  QR_RETURN_IF_ERROR(check_listed(settings, "file.enable_graphs", graphs));
  return check_listed(settings, "file.graph_retention_order", graphs);
}

void ContextConfigs::add_names(qnn::ContextOpt option, std::string_view key, const Vector<std::string_view> &names) {
  if (names.empty()) return;
  Names &held = option == qnn::ContextOpt::EnableGraphs ? enabled_ : retained_;
  String said;
  for (const std::string_view name : names) held.texts.emplace_back(name);
  for (const String &text : held.texts) {
    held.pointers.push_back(text.c_str());
    said += (said.empty() ? "" : ",") + printable(text);
  }
  held.pointers.push_back(nullptr);
  qnn::ContextConfig &config = add(String(key) + "=" + said);
  config.option = option, config.graphs = held.pointers.data();
}

// Graphs that are loaded when they run.
void ContextConfigs::add_switching(const Settings &settings, const Graphs &graphs) {
  // The library finds none where the one graph of a binary is listed, so a list of all is none.
  if (graphs.chosen.size() < graphs.count) add_names(qnn::ContextOpt::EnableGraphs, "enable_graphs", graphs.chosen);
  if (settings.flag("file.persistent_binary")) {
    qnn::ContextConfig &config = add("is_persistent_binary=true");
    config.option = qnn::ContextOpt::PersistentBinary, config.flag = 1;
  }
  if (const std::uint64_t hint = settings.number("file.memory_limit_hint")) {
    qnn::ContextConfig &config = add(said_of("memory_limit_hint", settings.text("file.memory_limit_hint")));
    config.option = qnn::ContextOpt::MemoryLimitHint, config.mem_limit = hint;
  }
  add_names(qnn::ContextOpt::RetentionOrder, "graph_retention_order", settings.all("file.graph_retention_order"));
}

ContextConfigs::ContextConfigs(const Settings &settings, For what, const ContextGroup *group, const Graphs *graphs)
    : pointers_(1, nullptr) {
  custom_.reserve(kMost), configs_.reserve(kMost);
  const std::string_view priority = settings.text("qnn_context_priority");
  if (what == For::Load && priority != "normal") {
    qnn::ContextConfig &config = add(said_of("qnn_context_priority", priority));
    config.option = qnn::ContextOpt::Priority;
    config.priority = read_priority(priority);
  }
  if (graphs) add_switching(settings, *graphs);
#define QR_HTP_GRAPH(option, configuration, field, unset)
#define QR_HTP_OPTIMIZATION(option, type, unset)
#define QR_HTP_CONTEXT(option, configuration, field, when)                                           \
  if (what == For::when && settings.number(option) != 0)                                             \
    put(add_custom(qnn::HtpContextOpt::configuration, said_of(option, settings.text(option))).field, \
        settings.number(option));
#include "backends/htp/settings/config.inc"
#undef QR_HTP_GRAPH
#undef QR_HTP_OPTIMIZATION
#undef QR_HTP_CONTEXT
  if (!group) return;
  if (settings.flag("enable_htp_spill_fill_buffer"))
    add_custom(qnn::HtpContextOpt::RegisterMulti, "enable_htp_spill_fill_buffer=1").group = {group->first,
                                                                                             group->max_spill};
  if (settings.flag("enable_vtcm_backup_buffer_sharing"))
    add_custom(qnn::HtpContextOpt::ConcurrentSharing, "enable_vtcm_backup_buffer_sharing=1").group = {group->first,
                                                                                                      group->max_spill};
}

}  // namespace quarry::htp
