// SPDX-License-Identifier: Apache-2.0
// qr_runtime: the allocator, log, threads and loader that everything made from it shares. There is nothing
// process-global.
#pragma once

#include "loader/loader.h"
#include "quarry/options.h"
#include "quarry/runtime.h"
#include "runtime/core/device.h"
#include "runtime/core/log.h"
#include "runtime/core/object.h"
#include "runtime/core/options.h"
#include "runtime/core/prepare_library.h"
#include "runtime/core/process.h"
#include "runtime/core/threads.h"

namespace quarry {

class Runtime final : public Counted<Runtime>, private loader::HostEnvironment {
 public:
  struct Config {
    Allocator *allocator;            // a CallerAllocator (its holder goes to the runtime) or malloc_allocator()
    class CallerAllocator *callers;  // the same, where it is the caller's
    Log log;
    qr_thread_pool thread_pool;
    std::string_view backend_path, prepare_path;
    bool only_given_paths;
  };
  explicit Runtime(const Config &config);
  ~Runtime();

  Allocator &memory() const noexcept { return *allocator_; }
  const Log &log() const noexcept { return log_; }
  const qr_thread_pool &thread_pool() const noexcept { return thread_pool_; }
  const qr_host &host() const noexcept { return host_; }
  Process &process() const noexcept { return process_; }
  SharedPools &pools() noexcept { return pools_; }
  DeviceStates &devices() noexcept { return devices_; }
  PrepareLibrary &prepare() noexcept { return prepare_; }
  std::string_view prepare_path() const noexcept { return prepare_.path(); }
  const String &library_folder() const noexcept { return library_folder_; }  // runtime/core/file.h; as of its creation
  const Vector<loader::Folder> &search_path() const noexcept { return loader_.search_path(); }
  loader::Loader &loader() noexcept { return loader_; }
  const char *cpu_features() const noexcept { return cpu_features_.c_str(); }
  ExclusiveUse &use() const noexcept { return use_; }

  // By id, by QNN's library name or by a plugin's path: see backend_id_of in settings.h.
  Result<std::shared_ptr<loader::Plugin>> open_backend(std::string_view id_or_path, const CallSignal &signal);

  // The candidates of the last scan; strings in them live until the next.
  Status scan();
  const Vector<loader::Candidate> &candidates() const noexcept { return candidates_; }

  // Rows of options that only a plugin knows. They stay where they are, and as they are, until the runtime's end.
  // By key: opens at most the plugin that the key's beginning names ("acme.speed": acme).
  Result<const BackendOption *> backend_option(std::string_view key);
  // Those of all usable backends, which it opens.
  Result<Vector<const BackendOption *>> backend_options();

 private:
  Allocator &allocator() noexcept override { return *allocator_; }
  void log(qr_log_level level, std::uint32_t flags, std::string_view topic,
           std::string_view message) noexcept override {
    log_.write(level, topic, message, flags);
  }

  const void *extension(std::string_view id) noexcept override {
    return id == "qr.malloc/1" && allocator_->pools() ? this : nullptr;
  }
  bool knows_option(std::string_view key) noexcept override { return find_option_row(key).has_value(); }
  void learn_options_locked(const loader::Plugin &plugin);
  const BackendOption *learned_locked(std::string_view key) const noexcept;

  Allocator *allocator_;
  CallerAllocator *callers_;
  mutable Process process_;
  Log log_;
  qr_thread_pool thread_pool_;
  SharedPools pools_;
  DeviceStates devices_{process_};
  qr_host host_;
  const String library_folder_;
  PrepareLibrary prepare_;
  String cpu_features_;
  loader::Loader loader_;
  Vector<loader::Candidate> candidates_;
  ProcessMutex plugins_mutex_;  // of the loader and the rows of options
  bool all_opened_ = false;
  Vector<Unique<BackendOption>> options_;
  mutable ExclusiveUse use_;
};

}  // namespace quarry
