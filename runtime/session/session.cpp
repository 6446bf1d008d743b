// SPDX-License-Identifier: Apache-2.0
// Making, changing and describing sessions; run.cpp runs them.
#include "runtime/session/session.h"

#include <algorithm>

#include "base/json_writer.h"
#include "base/new_file.h"
#include "base/os/file.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"
#include "runtime/session/adapter.h"
#include "runtime/session/state.h"

namespace quarry {
namespace {

void write_pairs(JsonWriter &json, const char *name, const Vector<SessionCore::Pair> &pairs) {
  json.key(name).begin_object();
  for (const SessionCore::Pair &pair : pairs) json.field(pair.key, pair.value);
  json.end_object();
}

void put(Vector<SessionCore::Pair> &pairs, std::string_view key, std::string_view value) {
  for (SessionCore::Pair &pair : pairs)
    if (pair.key == key) {
      pair.value.assign(value);
      return;
    }
  pairs.push_back({String(key), String(value)});
}

// What cannot be written fails when the session is made: when it ends, nobody listens. A pipe is opened once, for its
// contents.
Status profile_can_be(const String &path) {
  os::FileInfo info;
  if (os::get_info(path.c_str(), &info) && info.kind != os::FileKind::Regular) return {};
  return NewFile("option profiling_file_path").open(path);
}

}  // namespace

// ---- what clones share --------------------------------------------------------------------------

SessionCore::SessionCore(const CompileJob &job, std::shared_ptr<DeviceState> device, Unique<LoadedModel> loaded)
    : runtime_(&job.model.runtime()),
      plugin_(job.plugin),
      first_(std::move(loaded)),
      device_(std::move(device)),
      queue_depth_(job.settings.queue_depth),
      pool_settings_(job.settings.pool),
      pool_name_(job.settings.pool_name),
      shared_pool_(pool_name_.empty() ? nullptr : job.pool),
      warms_up_(job.settings.warm_up),
      profiling_(job.settings.profiling),
      profiling_path_(job.settings.profiling_path),
      group_(job.settings.group) {
  for (const qr_plugin_option &option : job.plugin_options.own)
    options_.push_back({String(text_of(option.key)), String(text_of(option.value))});
  for (const KeyValue &option : job.plugin_options.foreign)
    foreign_.push_back({String(option.key), String(option.value)});
  if (!job.options) return;
  for (const auto &[key, value] : job.options->values())
    if (const std::optional<OptionRow> row = find_option_row(key);
        row && is_core_scope(row->scope) && (key != "context.group" || !group_.empty()))
      given_.push_back({key, value});
}

SessionCore::~SessionCore() = default;

std::string_view SessionCore::option(std::string_view key) const noexcept {
  for (const Pair &pair : options_)
    if (pair.key == key) return pair.value;
  return {};
}

Result<Ref<SessionCore>> SessionCore::make(CompileJob &job, Ref<LoadableModel> loadable) {
  const LoadableModel &signature = *loadable;
  QR_ASSIGN_OR_RETURN(std::shared_ptr<DeviceState> device, job.model.runtime().devices().of(job.plugin, job.device));
  if (device->lost()) QR_RETURN_IF_ERROR(device->recover(job.signal));  // there may be no session left to ask for it
  QR_ASSIGN_OR_RETURN(Unique<LoadedModel> loaded, load_contexts(job, std::move(loadable), signature));
  auto core = Ref<SessionCore>::make(job, std::move(device), std::move(loaded));
  QR_RETURN_IF_ERROR(core->plan_state(job.settings, job.options && !job.options->given("state.capacity").empty()));
  QR_ASSIGN_OR_RETURN(core->padding_, Padding::make(job.settings.pad, core->state_, core->inputs(), core->outputs(),
                                                    core->first_->buckets));
  if (signature.wants_recompilation()) {
    QR_ASSIGN_OR_RETURN(core->recompilation_, Recompilation::start(signature, job.options));
  }
  return core;
}

Result<const LoadedModel *> SessionCore::runnable(const CallSignal &signal) const {
  const LoadedModel *now = &loaded();
  if (now->buckets.empty() && recompilation_) {
    QR_RETURN_IF_ERROR(recompilation_->wait(signal));
    now = &loaded();
  }
  return now;
}

// ---- sessions -----------------------------------------------------------------------------------

Session::Session(SessionCore &core)
    : core_(&core),
      loaded_(&core.loaded()),
      pool_(core.shared_pool() ? core.shared_pool()
                               : quarry::make_shared<ThreadPool>(core.pool_settings(), core.runtime().process())),
      frame_(core.inputs().size(), core.outputs().size(), core.runtime().thread_pool(), *pool_),
      own_threads_(!frame_.threads.are_callers() && pool_->workers() > 1 ? pool_.get() : nullptr),
      rooms_(core.outputs().size()),
      queue_(*this) {
  executions_.resize(loaded_->buckets.size());
  if (core.keeps_state() || !core.state().adapters.empty())
    all_inputs_.resize(core.inputs().size()), all_outputs_.resize(core.outputs().size());
  if (core.keeps_state()) state_ = Ref<State>::make(core);
  if (kHasPrepare) put_adapter(core.no_adapter());
  if (core.profiling() != ProfileLevel::Off && !core.profiling_path().empty())
    events_ = make_unique<EventLog>(core.runtime().process());
}

Session::~Session() {
  queue_.close();
  write_profile();
  executions_.clear();
  retired_.clear();
  for (const OutputRoom &room : rooms_) {
    free_block(room.given.data);
    free_block(room.other.data);
  }
}

// What cannot run fails here and not in the first run. Executions of further buckets wait until they are used: each has
// an arena.
Status Session::start_first_execution(bool of_all) {
  return executions_.empty() ? Status() : execution(0, of_all).take_status();
}

// To what was compiled meanwhile: executions of it are made as they are needed, with the options that were set since.
Status Session::change_over(const CallSignal &signal) {
  QR_ASSIGN_OR_RETURN(const LoadedModel *const now, core_->runnable(signal));
  if (now == loaded_) return {};
  Vector<Unique<loader::Execution>> fresh;
  fresh.resize(now->buckets.size());
  retired_ = std::exchange(executions_, std::move(fresh));
  loaded_ = now;
  return {};
}

Result<Ref<Session>> Session::create(const Model &model, const OptionSet *options, const CallWatch &watch) {
  QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job, CompileJob::begin(model, options, watch, DeviceUse::Run));
  QR_ASSIGN_OR_RETURN(Ref<LoadableModel> loadable, LoadableModel::make(*job));
  QR_RETURN_IF_ERROR(keep_context(*job, *loadable));
  if (loadable->compiled()) job->events.next("load");
  QR_ASSIGN_OR_RETURN(const Ref<SessionCore> core, SessionCore::make(*job, std::move(loadable)));
  auto session = Ref<Session>::make(*core);
  if (session->events_) {
    if (Status status = profile_can_be(core->profiling_path()); !status.ok()) {
      session->events_ = nullptr;
      return std::move(status).with("option", "profiling_file_path");
    }
  }
  {
    const CallEvents::Phase phase(job->events, "create execution");
    QR_RETURN_IF_ERROR(session->start_first_execution(true));
  }
  if (!job->settings.lora_config.empty())
    QR_RETURN_IF_ERROR(session->apply_lora_config(job->settings.lora_config, watch));
  if (core->warms_up()) {
    const CallEvents::Phase phase(job->events, "warm up");
    QR_RETURN_IF_ERROR(session->warm_up(job->signal, nullptr));
  }
  const LoadedModel &loaded = core->loaded();
  model.runtime().log().write(
      QR_LOG_INFO, "session",
      format("%s on backend %s, device %u (%s): %s, %zu bucket%s, weights %llu bytes, arena %llu bytes",
             model.describe(), core->plugin().id(), core->device().index(), core->device().info().target,
             loaded.loadable->source(), loaded.buckets.size(), loaded.buckets.size() == 1 ? "" : "s",
             loaded.plan.weights_bytes, loaded.plan.arena_bytes));
  return session;
}

Result<Ref<Session>> Session::clone(const CallWatch &watch) {
  QR_RETURN_IF_ERROR(watch.signal.check("qr_session_clone"));
  CallEvents events(watch.profile ? &watch.profile->log() : nullptr, "load");
  auto session = Ref<Session>::make(*core_);
  session->changed_ = Vector<SessionCore::Pair>(changed_);  // (a list's own assignment is half a kilobyte)
  session->foreign_ = Vector<SessionCore::Pair>(foreign_);
  if (kHasPrepare) session->put_adapter(*adapter_);
  {
    const CallEvents::Phase phase(events, "create execution");
    QR_RETURN_IF_ERROR(session->start_first_execution(false));
  }
  if (core_->warms_up()) {
    const CallEvents::Phase phase(events, "warm up");
    QR_RETURN_IF_ERROR(session->warm_up(watch.signal, nullptr));
  }
  return session;
}

Result<loader::Execution *> Session::execution(std::size_t bucket, bool of_all) {
  if (!executions_[bucket]) {
    Vector<qr_plugin_option> options;
    for (const SessionCore::Pair &pair : core_->options())
      options.push_back({plugin_string(pair.key), plugin_string(pair.value)});
    Vector<qr_plugin_appended> appended;
    for (const StatePair &pair : core_->state().pairs)
      if (pair.stays)
        appended.push_back(
            {pair.input, pair.output, static_cast<std::uint32_t>(pair.axis), 0, core_->state().capacity});
    const SessionBucket &from = loaded_->buckets[bucket];
    QR_ASSIGN_OR_RETURN(
        Unique<loader::Execution> made,
        from.context->create_execution(from.graph, options.data(), options.size(), core_->queue_depth(), appended));
    if (of_all) core_->set_appended(appended);
    for (const SessionCore::Pair &pair : changed_) QR_RETURN_IF_ERROR(made->set_option(pair.key, pair.value));
    executions_[bucket] = std::move(made);
  }
  return executions_[bucket].get();
}

Unique<RunFrame> Session::make_frame() const {
  return quarry::make_unique<RunFrame>(core_->inputs().size(), core_->outputs().size(), core_->runtime().thread_pool(),
                                       *pool_);
}

void Session::abandon_executions() noexcept {
  for (Vector<Unique<loader::Execution>> *const list : {&executions_, &retired_})
    for (Unique<loader::Execution> &execution : *list) static_cast<void>(execution.release());
}

Status Session::recover(const CallSignal &signal) {
  QR_RETURN_IF_ERROR(signal.check("qr_session_recover"));
  const RunQueue::Alone alone(queue_, "qr_session_recover", RunQueue::Until::Empty, signal);
  QR_RETURN_IF_ERROR(alone.status());
  return core_->device().recover(signal);
}

Status Session::set_option(std::string_view key, std::string_view value) {
  const RunQueue::Alone alone(queue_, "qr_session_set_option", RunQueue::Until::Empty);
  QR_RETURN_IF_ERROR(alone.status());
  const loader::Plugin &plugin = core_->plugin();
  if (const loader::OptionRow *row = plugin.find_option(key)) {
    QR_RETURN_IF_ERROR(check_option_value(key, row->values, value));
    if (!row->changes_at_run_time)
      return Status::errorf(ErrorId::option_not_at_run_time, "option %s: backend %s cannot change it at run time",
                            printable(key), plugin.id())
          .with("option", key);
    QR_RETURN_IF_ERROR(core_->device().check("qr_session_set_option"));
    QR_RETURN_IF_ERROR(set_in_all(key, value));
    put(changed_, key, value);
    return {};
  }
  bool at_run_time;
  if (const std::optional<OptionRow> known = find_option_row(key)) {
    QR_RETURN_IF_ERROR(check_known_value(key, value));
    at_run_time = known->changes_at_run_time;
  } else {
    QR_ASSIGN_OR_RETURN(const BackendOption *other, core_->runtime().backend_option(key));
    QR_RETURN_IF_ERROR(check_option_value(key, other->values, value));
    at_run_time = other->changes_at_run_time;
  }
  if (!at_run_time)
    return Status::errorf(ErrorId::option_not_at_run_time, "option %s: it cannot change while the session lives",
                          printable(key))
        .with("option", key);
  if (key == "kvcache_rewind") {  // ONNX Runtime's provider has it of its pipelines' caches
    if (!state_) return Status::error(ErrorId::no_state, "option kvcache_rewind: the session keeps no state");
    if (value == "0") state_->reset();
    return {};
  }
  core_->runtime().log().write(
      QR_LOG_INFO, "options",
      format("option %s is not one of backend %s: it has no effect", printable(key), plugin.id()));
  put(foreign_, key, value);
  return {};
}

// In the executions of all buckets, or in none: what an execution took is taken back when a later one refuses.
Status Session::set_in_all(std::string_view key, std::string_view value) {
  for (std::size_t bucket = 0; bucket < executions_.size(); ++bucket) {
    if (!executions_[bucket]) continue;
    Status refused = core_->device().note(executions_[bucket]->set_option(key, value));
    if (refused.ok()) continue;
    std::string_view before = core_->option(key);
    for (const SessionCore::Pair &pair : changed_)
      if (pair.key == key) before = pair.value;
    for (std::size_t done = 0; done < bucket; ++done) {
      if (!executions_[done]) continue;
      if (const Status lost = executions_[done]->set_option(key, before); !lost.ok())
        core_->runtime().log().write(QR_LOG_ERROR, "options",
                                     format("option %s: it was refused, and its value before cannot be set again: %s",
                                            printable(key), String(lost.message())));
    }
    return refused;
  }
  return {};
}

// By what the nodes of the first bucket run, as far as the backend says.
void Session::write_paths(JsonWriter &json) const {
  if (loaded_->buckets.empty()) return;
  const SessionBucket &bucket = loaded_->buckets[0];
  const LoadableModel &loadable = *loaded_->loadable;
  Result<qir::Outline> graph = loadable.compiled() ? loadable.compiled()->portable_graphs().outline(bucket.index)
                               : loadable.keeps_graphs()
                                   ? loadable.model().container().outline(bucket.index)
                                   : Result<qir::Outline>(Status::error(ErrorId::qrm_no_graph, ""));
  if (!graph.ok()) return;
  Vector<loader::Verdict> verdicts;
  if (!bucket.context->nodes(bucket.graph, static_cast<std::uint32_t>(graph->node_count()), verdicts).ok()) return;
  if (verdicts.empty()) return;
  json.key("node_paths").begin_array();
  for (std::size_t n = 0; n < verdicts.size(); ++n) {
    json.begin_object().field("name", graph->node_name(n)).field("op", graph->op_text(n));
    json.field("path", path_name(verdicts[n].path)).field("kernel", verdicts[n].kernel).end_object();
  }
  json.end_array();
}

// Of ranges, as far as the backend says.
void Session::write_plans(JsonWriter &json) const {
  for (const Unique<loader::Execution> &execution : executions_) {
    qr_plugin_plans plans = {};
    if (execution) execution->plans(&plans);
    if (plans.most == 0) continue;
    // (Names beside numbers: a call for each takes a page more of the library.)
    static constexpr char kNames[] = "most\0kept\0bytes\0weights_bytes\0hits\0made\0dropped";
    std::uint64_t numbers[7];
    static_assert(sizeof plans - offsetof(qr_plugin_plans, most) == sizeof numbers);
    std::memcpy(numbers, &plans.most, sizeof numbers);
    json.key("plans").begin_object();
    const char *name = kNames;
    for (const std::uint64_t number : numbers) json.field(name, number), name += std::strlen(name) + 1;
    json.end_object();
    return;  // a range has one bucket
  }
}

Result<String> Session::report() const {
  const RunQueue::Alone alone(queue_, "qr_session_report", RunQueue::Until::NoneIsAdded);
  QR_RETURN_IF_ERROR(alone.status());
  const loader::Plugin &plugin = core_->plugin();
  const loader::DeviceInfo &device = core_->device().info();
  const LoadableModel &loadable = *loaded_->loadable;
  JsonWriter json;
  json.begin_object()
      .field("model", loadable.model().path())
      .field("backend", plugin.id())
      .field("backend_version", plugin.version());
  json.field("plugin", plugin.path())
      .field("device", core_->device().index())
      .field("device_name", device.name)
      .field("target", device.target);
  json.field("context_target", loadable.programs().empty() ? String() : loadable.programs()[0].target)
      .field("source", loadable.source())
      .field("grade", grade_name(loadable.grade().grade));
  json.field("grade_reason", loadable.grade().reason);
  const auto write_options = [&](const char *name, const Vector<CompileOption> &options) {
    json.key(name).begin_object();
    for (const CompileOption &option : options) json.field(option.key, option.value);
    json.end_object();
  };
  write_options("compiled_with", loadable.compiled_with());
  write_options("asked_for", loadable.asked_for());
  json.field("group", core_->group());
  constexpr const char *kStates[] = {"running", "done", "failed", "left behind"};
  const Recompilation *const recompilation = core_->recompilation();
  json.field("recompilation", recompilation ? kStates[static_cast<int>(recompilation->state())] : "none");
  json.key("nodes");
  if (loadable.compiled()) {
    json.value(loadable.compiled()->node_count());
  } else if (const auto graph = loadable.model().container().outline(0); graph.ok()) {
    json.value(graph.value().node_count());
  } else {
    json.null();  // the graph was not kept
  }
  json.key("buckets").begin_array();
  for (const SessionBucket &bucket : loaded_->buckets) json.value(bucket.name);
  json.end_array();
  json.field("threads", frame_.threads.table()->worker_count)
      .field("thread_pool", core_->pool_name())
      .field("device_lost", core_->device().lost());
  write_memory(json, loaded_->plan);
  write_plans(json);
  if (core_->padding()) write_padding(json);
  if (state_) write_state(json);
  if (kHasPrepare && !core_->state().adapters.empty()) write_adapter(json);
  write_paths(json);

  Vector<SessionCore::Pair> in_force = core_->given(), foreign = core_->foreign();
  for (const SessionCore::Pair &pair : core_->options()) put(in_force, pair.key, pair.value);
  for (const SessionCore::Pair &pair : changed_) put(in_force, pair.key, pair.value);
  for (const SessionCore::Pair &pair : foreign_) put(foreign, pair.key, pair.value);
  write_pairs(json, "options", in_force);
  write_pairs(json, "ignored_options", foreign);
  return json.end_object().take();
}

// The option profiling_file_path. A session that ends has nobody to report a failure to but the log.
void Session::write_profile() noexcept {
  if (!events_) return;
  try {
    Result<String> text = events_->text("csv");
    const Status status = text.ok() ? write_file(core_->profiling_path(), *text) : text.take_status();
    if (!status.ok()) core_->runtime().log().write(QR_LOG_ERROR, "profile", status.message());
  } catch (const std::bad_alloc &) {
    core_->runtime().log().write(QR_LOG_ERROR, "profile", "the profile was not written: out of memory");
  }
}

}  // namespace quarry
