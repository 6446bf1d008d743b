// SPDX-License-Identifier: Apache-2.0
#include "runtime/runtime.h"

#include "runtime/allocator.h"
#include "runtime/cpu_features.h"
#include "runtime/file.h"
#include "runtime/settings.h"

namespace quarry {

Runtime::Runtime(const Config &config)
    : allocator_(config.allocator),
      callers_(config.callers),
      log_(config.log),
      thread_pool_(config.thread_pool),
      host_(loader::make_host(*this)),
      prepare_(config.prepare_path),
      cpu_features_(quarry::cpu_features()),
      loader_(*this, {config.backend_path, config.only_given_paths, library_folder()}) {}

Runtime::~Runtime() {
  candidates_.clear();  // before the loader: they hold plugins
  if (callers_) callers_->release();
}

Result<std::shared_ptr<loader::Plugin>> Runtime::open_backend(std::string_view id_or_path) {
  if (!is_plugin_path(id_or_path)) return loader_.open(id_or_path);
  QR_ASSIGN_OR_RETURN(std::shared_ptr<loader::Plugin> plugin, loader_.open_file(id_or_path));
  learn_options(*plugin);
  return plugin;
}

const Vector<BackendOption> &Runtime::backend_options() {
  {
    std::lock_guard lock(options_mutex_);
    if (options_known_) return options_;
  }
  const Vector<loader::Candidate> all = loader_.scan();
  for (const loader::Candidate &candidate : all)
    if (candidate.plugin) learn_options(*candidate.plugin);
  std::lock_guard lock(options_mutex_);
  options_known_ = true;
  return options_;
}

void Runtime::learn_options(const loader::Plugin &plugin) {
  std::lock_guard lock(options_mutex_);
  for (const BackendOption &known : options_)
    if (known.backend == plugin.id()) return;
  for (const loader::OptionRow &row : plugin.options())
    options_.push_back({String(plugin.id()), row.key, row.values, row.fallback, row.help, row.changes_at_run_time});
}

Result<const BackendOption *> Runtime::backend_option(std::string_view key) {
  NearestWord nearest(key);
  offer_option_keys(nearest);
  for (const BackendOption &row : backend_options()) {
    if (row.key == key) return &row;
    nearest.offer(row.key);
  }
  const std::string_view near = nearest.word();
  return Status::error(ErrorId::unknown_option,
                       format("option %s: there is no option of that name%s", printable(key).c_str(),
                              near.empty() ? "" : format(", the nearest is %s", String(near).c_str()).c_str()))
      .with("option", key);
}

}  // namespace quarry
