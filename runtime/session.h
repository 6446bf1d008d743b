// SPDX-License-Identifier: Apache-2.0
// qr_session: one execution state of a model on one backend.
#pragma once

#include "quarry/session.h"
#include "runtime/profile.h"
#include "runtime/ready.h"
#include "runtime/threads.h"

namespace quarry {

class Memory;

// What the shapes of a bucket were compiled to.
struct SessionBucket {
  String name;
  std::shared_ptr<loader::Context> context;
};

// What a session and its clones share; immutable.
class SessionCore : public Counted<SessionCore> {
 public:
  static Result<Ref<SessionCore>> make(Compilation &compilation, Ref<ReadyModel> ready);

  SessionCore(const Compilation &compilation, Ref<ReadyModel> ready);
  ~SessionCore();

  Runtime &runtime() const noexcept { return *runtime_; }
  const loader::Plugin &plugin() const noexcept { return *plugin_; }
  const Vector<SessionBucket> &buckets() const noexcept { return buckets_; }
  const Vector<qrm::TensorInfo> &inputs() const noexcept { return ready_->inputs(); }
  const Vector<qrm::TensorInfo> &outputs() const noexcept { return ready_->outputs(); }
  const ReadyModel &ready() const noexcept { return *ready_; }
  std::uint32_t device() const noexcept { return device_; }
  const std::shared_ptr<ThreadPool> &shared_pool() const noexcept { return shared_pool_; }  // null: each session has its own
  const PoolSettings &pool_settings() const noexcept { return pool_settings_; }
  const String &pool_name() const noexcept { return pool_name_; }
  ProfileLevel profiling() const noexcept { return profiling_; }
  const String &profiling_path() const noexcept { return profiling_path_; }
  const qrm::Plan &plan() const noexcept { return plan_; }

  struct Pair {
    String key, value;
  };
  const Vector<Pair> &options() const noexcept { return options_; }   // of the backend, in force
  const Vector<Pair> &foreign() const noexcept { return foreign_; }   // given, but for other backends
  const Vector<Pair> &given() const noexcept { return given_; }       // Quarry's own that were given
  std::string_view option(std::string_view key) const noexcept;      // of the backend

 private:
  Status check_signature(const loader::Context &context) const;

  Ref<Runtime> runtime_;
  Ref<ReadyModel> ready_;  // the bytes that the contexts were loaded from; freed after them
  std::shared_ptr<loader::Plugin> plugin_;
  std::uint32_t device_;
  PoolSettings pool_settings_;
  String pool_name_;
  std::shared_ptr<ThreadPool> shared_pool_;
  ProfileLevel profiling_;
  String profiling_path_;
  qrm::Plan plan_;
  Vector<Pair> options_, foreign_, given_;
  Vector<SessionBucket> buckets_;
};

// The largest of each figure over all programs.
Result<qrm::Plan> plan_all(const Compilation &compilation, const ReadyModel &ready);

class Session : public Counted<Session> {
 public:
  static Result<Ref<Session>> create(const Model &model, const OptionSet *options, Signal *signal);
  Result<Ref<Session>> clone();

  explicit Session(SessionCore &core);
  ~Session();

  SessionCore &core() const noexcept { return *core_; }
  ExclusiveUse &use() const noexcept { return use_; }

  // The arrays' elements were read by the edge: `outputs` may hold nulls. Writes to the tensors on success only.
  Status run(const qr_run_options &options, const qr_tensor *const *inputs, qr_tensor *const *outputs);
  Status set_option(std::string_view key, std::string_view value);
  Status recover();
  String report() const;

 private:
  // Memory for an output that the caller gives no room for; grows, never shrinks.
  struct OutputRoom {
    void *block = nullptr;
    std::uint64_t size = 0;
    const void *last = nullptr;  // what the last run gave out, the plugin's own memory included
  };

  Status start_first_execution();
  Result<loader::Execution *> execution(std::size_t bucket);
  Status choose_bucket(const qr_tensor *const *inputs, std::size_t *out_bucket) const;
  Status bind_input(std::size_t bucket, std::size_t index, const qr_tensor &tensor);
  Status bind_output(std::size_t bucket, std::size_t index, const qr_tensor *tensor);
  Status check_overlap() const;
  Status check_room(std::size_t bucket, std::size_t index, const qr_tensor &tensor) const;
  void give_output(std::size_t bucket, std::size_t index, qr_tensor &tensor);
  void write_profile() noexcept;

  Ref<SessionCore> core_;
  Vector<Unique<loader::Execution>> executions_;  // one per bucket, made when it is first used
  Vector<SessionCore::Pair> changed_;             // by set_option, in order
  Vector<SessionCore::Pair> foreign_;             // likewise, for other backends
  std::shared_ptr<ThreadPool> pool_;
  qr_host_threads threads_;
  ThreadPool *own_threads_;                       // pool_ where runs use it; null: one worker, or the caller's threads
  Vector<qr_io_buffer> input_buffers_, output_buffers_;
  Vector<OutputRoom> rooms_;
  Unique<EventLog> events_;                       // of the option profiling_level
  bool lost_ = false;
  mutable ExclusiveUse use_;
};

}  // namespace quarry
