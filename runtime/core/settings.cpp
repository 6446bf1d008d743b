// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/settings.h"

#include <algorithm>
#include <charconv>

#include "base/os/path.h"
#include "runtime/core/plugin_text.h"

namespace quarry {
namespace {

// QNN's libraries by the middle of their names: lib<...>.so or <...>.dll.
constexpr struct {
  std::string_view stem, id;
} kQnnLibraries[] = {{"QnnHtp", "htp"}, {"QnnCpu", "cpu"}, {"QnnGpu", "gpu"}, {"QnnSaver", "saver"}, {"QnnIr", "ir"}};

constexpr std::string_view kLibraryPath = "htp.library_path";

std::uint32_t number(std::string_view text) noexcept {  // of a value that was checked when it was set
  std::uint32_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

bool is_plugin_path(std::string_view id_or_path) noexcept {
  return os::last_separator(id_or_path) != std::string_view::npos || id_or_path.ends_with(QR_LIBRARY_SUFFIX);
}

std::string_view backend_of_path(std::string_view backend_path) noexcept {
  std::string_view file = backend_path;
  if (const std::size_t slash = file.find_last_of("/\\"); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  if (file.ends_with(".dll")) {
    file.remove_suffix(4);
  } else if (file.starts_with("lib") && file.ends_with(".so")) {
    file.remove_prefix(3);
    file.remove_suffix(3);
  } else {
    return backend_path;
  }
  for (const auto &library : kQnnLibraries)
    if (file == library.stem) return library.id;
  return backend_path;
}

void split_shapes(std::string_view text, Vector<std::string_view> &out) {
  while (!text.empty()) {
    const std::size_t end = text.find(';');
    if (end != 0) out.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

void split_list(std::string_view text, Vector<std::string_view> &out) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

namespace {

// Three options name it: two that other runtimes have too, and ours.
Status name_backend(const OptionSet &options, std::string_view *backend) {
  const char *named_by = nullptr;
  for (const char *key : {"backend", "backend_type", "backend_path"}) {
    std::string_view id = options.given(key);
    if (id.empty()) continue;
    if (std::string_view(key) == "backend_path") id = backend_of_path(id);
    if (named_by && id != *backend)
      return Status::hinted(ErrorId::option_conflict, "set one of backend, backend_type and backend_path",
                            "options %s and %s: they name two backends, \"%s\" and \"%s\", expected one", named_by, key,
                            printable(*backend).c_str(), printable(id).c_str());
    *backend = id;
    named_by = key;
  }
  return {};
}

// What becomes of the graph before a backend has it.
void read_part(const OptionSet &options, Settings &settings) {
  split_list(options.in_force("graph.head"), settings.part.head);
  split_list(options.in_force("graph.tail"), settings.part.tail);
  split_list(options.in_force("graph.watch"), settings.part.watch);
  split_list(options.in_force("adapter.targets"), settings.part.adapters);
  settings.part.adapter_rank = number(options.in_force("adapter.rank"));
}

}  // namespace

Result<Settings> resolve_settings(const OptionSet *options) {
  Settings settings;
  settings.backend = QR_DEFAULT_BACKEND;
  settings.pool.spin_us = number(find_option_row("thread_spin_us")->default_value);
  if (!options) return settings;

  QR_RETURN_IF_ERROR(name_backend(*options, &settings.backend));
  settings.device = number(options->in_force("device_id"));
  settings.device_given = !options->given("device_id").empty();
  split_shapes(options->in_force("shape"), settings.shapes);
  settings.pad = options->in_force("shape.pad");
  settings.state = options->in_force("state");
  settings.state_capacity = number(options->in_force("state.capacity"));
  settings.state_window = number(options->in_force("state.window"));
  settings.state_sink = number(options->in_force("state.sink"));
  read_part(*options, settings);
  settings.pool.workers = number(options->in_force("threads"));
  settings.pool.spin_us = number(options->in_force("thread_spin_us"));
  QR_ASSIGN_OR_RETURN(settings.pool.affinity, parse_affinity(options->in_force("thread_affinity")));
  settings.pool_name = options->in_force("thread_pool");
  settings.group = options->in_force("context.group");
  settings.queue_depth = number(options->in_force("queue_depth"));
  settings.lora_config = options->in_force("qnn.lora_config");
  settings.warm_up = options->in_force("warm_up") == "1";
  settings.keep_graph = options->in_force("container.keep_graph") == "1";
  const std::string_view recompile = options->in_force("context.recompile");
  settings.recompile = recompile == "never"        ? Recompile::Never
                       : recompile == "background" ? Recompile::Background
                                                   : Recompile::Wait;
  settings.write_context = options->in_force("ep.context_enable") == "1";
  settings.context_path = options->in_force("ep.context_file_path");
  settings.context_embedded = options->in_force("ep.context_embed_mode") == "1";
  settings.profiling = profile_level(options->in_force("profiling_level"));
  settings.profiling_path = options->in_force("profiling_file_path");
  if (options->in_force("session.disable_cpu_ep_fallback") == "0")
    return Status::
        error(ErrorId::bad_option_value,
              "option session.disable_cpu_ep_fallback: found \"0\", expected 1: a session runs wholly on one backend; "
              "the nodes "
              "that it refuses are placed on no other",
              "leave it at 1, or run the model on backend cpu; the details of a refusal name every node and its reason")
            .with("option", "session.disable_cpu_ep_fallback");

  constexpr std::string_view kMetadata = "metadata.";
  for (const auto &[key, value] : options->values()) {
    const std::string_view name = key;
    if (name.starts_with(kMetadata)) {
      settings.metadata.push_back({name.substr(kMetadata.size()), value});
      continue;
    }
    const std::optional<OptionRow> row = find_option_row(name);
    if (!row || !is_core_scope(row->scope)) settings.backend_keys.push_back({name, value});
  }
  // The folder of QNN's library counts too.
  const std::string_view library = options->given("backend_path");
  if (backend_of_path(library) == kQnnLibraries[0].id && os::last_separator(library) != library.npos)
    settings.backend_keys.push_back({kLibraryPath, library});
  return settings;
}

namespace {

// The option, or the file of backend_path.
std::string_view named_library(const Settings &settings) noexcept {
  for (const KeyValue &given : settings.backend_keys)
    if (given.key == kLibraryPath) return given.value;
  return {};
}

}  // namespace

Result<PluginOptions> plugin_options(const Settings &settings, const OptionSet *options, const loader::Plugin &plugin) {
  PluginOptions out;
  for (const loader::OptionRow &row : plugin.options()) {
    const std::optional<OptionRow> ours = find_option_row(row.key);
    std::string_view value = row.default_value;
    if (options) {
      if (const auto found = options->values().find(row.key); found != options->values().end()) value = found->second;
      else if (ours && value.empty()) value = ours->default_value;
    }
    if (row.key == kLibraryPath) value = named_library(settings);
    // A plugin may allow less than Quarry's table does.
    if (value != row.default_value)
      QR_RETURN_IF_ERROR(check_option_value(row.key, row.values, value).with("backend", plugin.id()));
    out.own.push_back({plugin_string(row.key), plugin_string(value)});
  }
  for (const KeyValue &given : settings.backend_keys)
    if (!plugin.find_option(given.key)) out.foreign.push_back(given);
  return out;
}

Result<std::uint32_t> choose_device(const Settings &settings, const loader::Plugin &plugin, DeviceUse use) {
  // Whether a device is usable was asked without the library that an option names: the backend says what it lacks.
  if (!named_library(settings).empty()) use = DeviceUse::CompileOnly;
  const auto &devices = plugin.devices();
  const String &id = plugin.id();
  if (settings.device_given) {
    if (settings.device >= devices.size())
      return Status::errorf(ErrorId::backend_no_device, "backend %s: found %zu devices, expected one with device_id %u",
                            id, devices.size(), settings.device)
          .with("backend", id);
    const loader::DeviceInfo &device = devices[settings.device];
    if (device.usable || use == DeviceUse::CompileOnly) return settings.device;
    return Status::errorf(ErrorId::backend_no_device, "backend %s: device %u (%s) is not usable: %s", id,
                          settings.device, device.name, device.why_not)
        .with("backend", id);
  }
  std::uint32_t index = 0;
  if (plugin.first_usable_device(&index) || (use == DeviceUse::CompileOnly && !devices.empty())) return index;
  return Status::error(ErrorId::backend_no_device,
                       devices.empty() ? format("backend %s: found no device, expected at least one", id)
                                       : format("backend %s: none of its %zu devices is usable; the first: %s", id,
                                                devices.size(), devices[0].why_not))
      .with("backend", id);
}

}  // namespace quarry
