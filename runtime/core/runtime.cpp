// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime.h"

#include "runtime/core/allocator.h"
#include "runtime/core/cpu_features.h"
#include "runtime/core/file.h"
#include "runtime/core/settings.h"

namespace quarry {

Runtime::Runtime(const Config &config)
    : allocator_(config.allocator),
      callers_(config.callers),
      log_(config.log),
      thread_pool_(config.thread_pool),
      pools_(process_),
      host_(loader::make_host(*this)),
      library_folder_(quarry::library_folder()),
      prepare_(config.prepare_path, library_folder_, process_),
      cpu_features_(quarry::cpu_features()),
      loader_(*this, {config.backend_path, config.only_given_paths, library_folder_}),
      plugins_mutex_(process_) {}

Runtime::~Runtime() {
  candidates_.clear();  // before the loader: they hold plugins
  if (callers_) callers_->release();
}

namespace {
constexpr const char *kPlugins = "the plugins of this runtime";
}

Result<std::shared_ptr<loader::Plugin>> Runtime::open_backend(std::string_view id_or_path, const CallSignal &signal) {
  const ProcessLock lock(plugins_mutex_, signal);
  QR_RETURN_IF_ERROR(lock.status(kPlugins));
  QR_ASSIGN_OR_RETURN(std::shared_ptr<loader::Plugin> plugin,
                      is_plugin_path(id_or_path) ? loader_.open_file(id_or_path) : loader_.open(id_or_path));
  learn_options_locked(*plugin);
  return plugin;
}

Status Runtime::scan() {
  const ProcessLock lock(plugins_mutex_);
  QR_RETURN_IF_ERROR(lock.status(kPlugins));
  candidates_ = loader_.scan();
  return {};
}

const BackendOption *Runtime::learned_locked(std::string_view key) const noexcept {
  for (const auto &row : options_)
    if (row->key == key) return row.get();
  return nullptr;
}

void Runtime::learn_options_locked(const loader::Plugin &plugin) {
  for (const auto &row : options_)
    if (row->backend == plugin.id()) return;
  for (const loader::OptionRow &row : plugin.options())
    if (!is_known_option_of(plugin.id(), row.key))
      options_.push_back(
          make_unique<BackendOption>(BackendOption{String(plugin.id()), row.key, row.values, row.default_value,
                                                   row.help, row.applies, row.changes_at_run_time}));
}

Result<Vector<const BackendOption *>> Runtime::backend_options() {
  const ProcessLock lock(plugins_mutex_);
  QR_RETURN_IF_ERROR(lock.status(kPlugins));
  if (!all_opened_) {
    for (const loader::Candidate &candidate : loader_.scan())
      if (candidate.plugin) learn_options_locked(*candidate.plugin);
    all_opened_ = true;
  }
  Vector<const BackendOption *> rows;
  for (const auto &row : options_) rows.push_back(row.get());
  return rows;
}

Result<const BackendOption *> Runtime::backend_option(std::string_view key) {
  const ProcessLock lock(plugins_mutex_);
  QR_RETURN_IF_ERROR(lock.status(kPlugins));
  if (const BackendOption *row = learned_locked(key)) return row;
  if (const std::size_t dot = key.find('.'); dot != std::string_view::npos) {
    Result<std::shared_ptr<loader::Plugin>> plugin = loader_.open(key.substr(0, dot));
    if (plugin.ok()) {
      learn_options_locked(**plugin);
      if (const BackendOption *row = learned_locked(key)) return row;
    } else if (plugin.status().id() != error_row(ErrorId::backend_not_found).id) {
      return plugin.take_status().with("option", key);
    }
  }
  NearestWord nearest(key);
  offer_option_keys(nearest);
  for (const auto &row : options_) nearest.offer(row->key);
  const std::string_view near = nearest.word();
  return Status::errorf(ErrorId::unknown_option, "option %s: there is no option of that name%s", printable(key),
                        near.empty() ? "" : format(", the nearest is %s", String(near)).c_str())
      .with("option", key);
}

}  // namespace quarry
