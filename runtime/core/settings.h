// SPDX-License-Identifier: Apache-2.0
// What a set of options means for one model or session.
#pragma once

#include "base/status.h"
#include "graph/edit/graph_part.h"
#include "loader/plugin.h"
#include "runtime/core/options.h"
#include "runtime/core/threads.h"
#include "runtime/profile/profile.h"

namespace quarry {

// True for what names a plugin's file rather than an id.
bool is_plugin_path(std::string_view id_or_path) noexcept;
// "libQnnHtp.so", "QnnHtp.dll" and paths that end in them are "htp", and so on; anything else stays as it is.
std::string_view backend_of_path(std::string_view backend_path) noexcept;

// When a container's context is compiled again that another compilation would suit better; the option
// context.recompile.
enum class Recompile : std::uint8_t { Wait, Background, Never };

struct KeyValue {
  std::string_view key, value;
};

// Views live as long as the set of options (and the tables) do.
struct Settings {
  std::string_view backend;  // an id or a plugin's path
  std::uint32_t device = 0;
  bool device_given = false;
  Vector<std::string_view> shapes;  // one text per bucket
  std::string_view pad;             // which runs a larger bucket takes; empty: none
  std::string_view state;           // "auto", or pairs of input and output; empty: none
  std::uint32_t state_capacity = 0, state_window = 0, state_sink = 0;
  qir::Part part;              // of the graph; empty: all of it
  PoolSettings pool;           // of the session's threads
  std::string_view pool_name;  // empty: the session has its own
  std::string_view group;      // of contexts; empty: none
  std::uint32_t queue_depth = 2;
  bool warm_up = false;
  std::string_view lora_config;  // a file's path; empty: none
  bool keep_graph = true;
  Recompile recompile = Recompile::Wait;
  bool write_context = false;
  std::string_view context_path;
  bool context_embedded = true;
  ProfileLevel profiling = ProfileLevel::Off;
  std::string_view profiling_path;
  Vector<KeyValue> metadata;      // without the "metadata."
  Vector<KeyValue> backend_keys;  // given, and not Quarry's own
};

// `options` may be null: all defaults.
Result<Settings> resolve_settings(const OptionSet *options);

// The buckets of a "shape" text.
void split_shapes(std::string_view text, Vector<std::string_view> &out);

// The items of a "list".
void split_list(std::string_view text, Vector<std::string_view> &out);

// The options of a backend's own table, defaults filled in, as the plugin ABI wants them; and the given ones that are
// not for it.
struct PluginOptions {
  Vector<qr_plugin_option> own;  // borrows from the plugin and the set of options
  Vector<KeyValue> foreign;
};
Result<PluginOptions> plugin_options(const Settings &settings, const OptionSet *options, const loader::Plugin &plugin);

// The device to use: the one asked for, or the first usable one. To compile only, an unusable device will do.
enum class DeviceUse : std::uint8_t { Run, CompileOnly };
Result<std::uint32_t> choose_device(const Settings &settings, const loader::Plugin &plugin, DeviceUse use);

}  // namespace quarry
