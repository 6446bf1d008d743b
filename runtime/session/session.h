// SPDX-License-Identifier: Apache-2.0
// qr_session: one execution state of a model on one backend.
#pragma once

#include "quarry/session.h"
#include "runtime/compile/recompile.h"
#include "runtime/core/device.h"
#include "runtime/model/state_pairs.h"
#include "runtime/session/queue.h"
#include "runtime/session/run_frame.h"

namespace quarry {

class Adapter;
class Memory;
class State;

// What the options state and adapter.targets are of a model: what runs keep, and what is left to the caller to give and
// take.
struct StatePlan {
  Vector<StatePair> pairs;
  std::uint64_t capacity = 0;             // of those that grow, in entries
  std::uint64_t window = 0, sink = 0;     // of those, the last and the first that a run leaves; window 0: all
  Vector<std::uint32_t> inputs, outputs;  // the caller's, by their numbers in the model
  Vector<std::uint32_t> adapters;         // inputs that adapters fill, likewise
  Vector<EntryAxis> entries;              // of masks, which say which entries count in programs of fixed shapes
};

// What a session and its clones share; immutable but for loaded().
class SessionCore : public Counted<SessionCore> {
 public:
  static Result<Ref<SessionCore>> make(CompileJob &job, Ref<LoadableModel> loadable);

  SessionCore(const CompileJob &job, std::shared_ptr<DeviceState> device, Unique<LoadedModel> loaded);
  ~SessionCore();

  Runtime &runtime() const noexcept { return *runtime_; }
  const loader::Plugin &plugin() const noexcept { return *plugin_; }
  const Vector<qrm::TensorInfo> &inputs() const noexcept {
    return padding_ ? padding_->inputs() : first_->loadable->inputs();
  }
  const Vector<qrm::TensorInfo> &outputs() const noexcept {
    return padding_ ? padding_->outputs() : first_->loadable->outputs();
  }
  const Padding *padding() const noexcept { return padding_.get(); }  // null: runs have the shapes of a program
  const StatePlan &state() const noexcept { return state_; }
  bool keeps_state() const noexcept { return !state_.pairs.empty(); }
  Adapter &no_adapter() const noexcept { return *no_adapter_; }  // zeros
  // What the first execution of all took; before there is any state.
  void set_appended(std::span<const qr_plugin_appended> appended) noexcept;
  // A sum of the model's signature and constants, the same whatever shapes, backend and file they came by.
  std::uint64_t identity() const noexcept;
  // What runs use: the first, until a better one was compiled. It has no buckets where there is nothing to run before
  // that.
  const LoadedModel &loaded() const noexcept {
    const LoadedModel *better = recompilation_ ? recompilation_->result() : nullptr;
    return better ? *better : *first_;
  }
  // The same, but waits until there is something to run.
  Result<const LoadedModel *> runnable(const CallSignal &signal) const;
  const Recompilation *recompilation() const noexcept {
    return recompilation_.get();
  }  // null: none was asked for or needed
  DeviceState &device() const noexcept { return *device_; }
  const std::shared_ptr<DeviceState> &shared_device() const noexcept { return device_; }
  std::uint64_t queue_depth() const noexcept { return queue_depth_; }
  const std::shared_ptr<ThreadPool> &shared_pool() const noexcept {
    return shared_pool_;
  }  // null: each session has its own
  const PoolSettings &pool_settings() const noexcept { return pool_settings_; }
  const String &pool_name() const noexcept { return pool_name_; }
  bool warms_up() const noexcept { return warms_up_; }
  ProfileLevel profiling() const noexcept { return profiling_; }
  const String &profiling_path() const noexcept { return profiling_path_; }

  struct Pair {
    String key, value;
  };
  const Vector<Pair> &options() const noexcept { return options_; }  // of the backend, in force
  const Vector<Pair> &foreign() const noexcept { return foreign_; }  // given, but for other backends
  const Vector<Pair> &given() const noexcept { return given_; }      // Quarry's own that were given
  std::string_view option(std::string_view key) const noexcept;      // of the backend
  const String &group() const noexcept { return group_; }

 private:
  Status plan_state(const Settings &settings, bool capacity_is_given);
  Status fix_capacity(std::string_view padded, bool is_given);

  Ref<Runtime> runtime_;
  std::shared_ptr<loader::Plugin> plugin_;
  Unique<LoadedModel> first_;
  std::shared_ptr<DeviceState> device_;
  std::uint64_t queue_depth_;
  PoolSettings pool_settings_;
  String pool_name_;
  std::shared_ptr<ThreadPool> shared_pool_;
  bool warms_up_;
  ProfileLevel profiling_;
  String profiling_path_;
  String group_;
  Vector<Pair> options_, foreign_, given_;
  StatePlan state_;
  Unique<Padding> padding_;
  Ref<Adapter> no_adapter_;
  mutable std::atomic<std::uint64_t> identity_{0};  // 0: nobody has asked
  Unique<Recompilation> recompilation_;             // last, so that its thread ends first
};

class Session : public Counted<Session> {
 public:
  static Result<Ref<Session>> create(const Model &model, const OptionSet *options, const CallWatch &watch);
  Result<Ref<Session>> clone(const CallWatch &watch);

  explicit Session(SessionCore &core);
  ~Session();

  SessionCore &core() const noexcept { return *core_; }
  ExclusiveUse &use() const noexcept { return use_; }

  // The arrays' elements were read by the edge: `outputs` may hold nulls. Writes to the tensors on success only.
  Status run(const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs, qr_tensor *const *outputs);
  Status warm_up(const CallSignal &signal, Profile *profile);
  Status set_option(std::string_view key, std::string_view value);
  Status recover(const CallSignal &signal);
  Result<String> report() const;
  RunQueue &queue() noexcept { return queue_; }

  // Where the core keeps state: what the next run goes on from; else null.
  State *state() const noexcept { return state_.get(); }
  Status set_state(State &state);
  Status set_adapter(Adapter *adapter);  // null: none
  // The caller's inputs, and those that the adapter fills: all that the model takes. Until the next call of it.
  const qr_tensor *const *with_adapter(const qr_tensor *const *inputs) noexcept;

  // The steps of a run, for the queue. `prepare` binds the tensors and makes the request; what it changes of the
  // session is the caller's to guard. `outputs` of a queued run must have room.
  enum class Room : std::uint8_t { OfSession, OfCaller };
  Status bind_run(RunFrame &frame, const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                  qr_tensor *const *outputs, Room room);
  Status execute(RunFrame &frame);
  // Takes what the backend returned, and gives the outputs.
  Status finish_run(RunFrame &frame, Status status, qr_tensor *const *outputs);
  Unique<RunFrame> make_frame() const;
  // Frees what was run before the change over to a better context; no run of it is under way.
  void drop_retired() noexcept { retired_.clear(); }
  bool has_retired() const noexcept { return !retired_.empty(); }
  void write_plans(JsonWriter &json) const;
  // In a child of fork(), where runs were under way: nobody knows what their executions are in the midst of.
  void abandon_executions() noexcept;

 private:
  // Memory for an output that the caller gives no room for. What a run gave out stays as it is until another one has
  // ended well, so that it can be an input of that one, and a run that was refused loses nothing.
  struct OutputRoom {
    struct Block {
      void *data = nullptr;
      std::uint64_t size = 0;
    };
    // One of the last two runs, which tensors in turns may hold.
    bool gave(const void *data) const noexcept {
      const std::uint64_t at = span_of(data, 0).begin;
      return data == given.data || data == other.data || at == plugins.begin || at == plugins_before;
    }
    Block given;                       // what the last run gave out; it never shrinks
    Block other;                       // for a run whose inputs lie in `given`, or that needs more
    Span plugins{};                    // what the last run gave out of the plugin's own memory
    std::uint64_t plugins_before = 0;  // and the run before that gave out
    // Whose memory that is, until another run of it has ended well, which may be one of the queue's thread.
    std::atomic<const loader::Execution *> of{nullptr};
  };

  Status start_first_execution(bool of_all);  // of the core: what it takes of the state is asked
  Status warm_up_buckets(const LoadedModel &loaded, const CallSignal &signal, Profile *profile);
  __attribute__((cold, noinline)) Status change_over(const CallSignal &signal);
  Result<loader::Execution *> execution(std::size_t bucket, bool of_all = false);
  Status choose_bucket(RunFrame &frame, const qr_tensor *const *inputs, std::size_t *out_bucket) const;
  Status no_bucket(const qr_tensor *const *inputs) const;
  Status bind_input(RunFrame &frame, std::size_t index, const qr_tensor &tensor);
  Status bind_output(RunFrame &frame, std::size_t index, const qr_tensor *tensor, Room from);
  void *room_for(RunFrame &frame, std::size_t index, std::uint64_t needed);
  Status check_overlap(RunFrame &frame);
  Status pad(RunFrame &frame);
  void note_padding(RunFrame &frame, std::size_t bucket);
  void cut(RunFrame &frame) const;
  void write_padding(JsonWriter &json) const;
  Status keep_result(RunFrame &frame, std::size_t index);
  Status inputs_overlap(const RunFrame &frame) const;
  Status outputs_overlap(const RunFrame &frame, qr_tensor *const *outputs) const;
  Status check_rooms(RunFrame &frame, qr_tensor *const *outputs) const;
  void give_output(const RunFrame &frame, std::size_t index, qr_tensor &tensor);
  Status set_in_all(std::string_view key, std::string_view value);
  Status run_on_state(const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                      qr_tensor *const *outputs);
  void write_state(JsonWriter &json) const;
  void put_adapter(Adapter &adapter) noexcept;
  Status apply_lora_config(std::string_view path, const CallWatch &watch);  // the option qnn.lora_config
  void write_adapter(JsonWriter &json) const;
  void write_paths(JsonWriter &json) const;
  void write_profile() noexcept;

  Ref<SessionCore> core_;
  const LoadedModel *loaded_;                     // what the executions are of
  Vector<Unique<loader::Execution>> executions_;  // one per bucket, made when it is first used
  Vector<Unique<loader::Execution>> retired_;  // of what was run before; inputs of the next run may lie in their memory
  Vector<SessionCore::Pair> changed_;          // by set_option, in order
  Vector<SessionCore::Pair> foreign_;          // likewise, for other backends
  std::shared_ptr<ThreadPool> pool_;
  RunFrame frame_;  // of run()
  Ref<State> state_;
  Ref<Adapter> adapter_;
  // Of a run, where there is state or room for adapters: the caller's tensors and those of these.
  Vector<const qr_tensor *> all_inputs_;
  Vector<qr_tensor *> all_outputs_;
  // Of runs in a larger bucket: how many, and the last one.
  struct {
    std::uint64_t runs = 0;
    std::size_t bucket = 0;
    Fit::Sizes sizes = {}, rooms = {};
  } padded_;
  ThreadPool *own_threads_;  // pool_ where runs use it; null: one worker, or the caller's threads
  Vector<OutputRoom> rooms_;
  Unique<EventLog> events_;  // of the option profiling_level, where a file will have them
  mutable ExclusiveUse use_;
  mutable RunQueue queue_;  // last, so that its thread ends first
};

}  // namespace quarry
