// SPDX-License-Identifier: Apache-2.0
// Making, changing and describing sessions; run.cpp runs them.
#include "runtime/session.h"

#include <algorithm>

#include "base/json_writer.h"
#include "runtime/file.h"
#include "runtime/plugin_text.h"
#include "runtime/runtime.h"

namespace quarry {
namespace {

// "model.onnx" -> "model_ctx.qrm".
String default_context_path(std::string_view model) {
  for (const std::string_view ending : {".onnx", ".qrm"})
    if (model.ends_with(ending)) model.remove_suffix(ending.size());
  return String(model) + "_ctx.qrm";
}

// The option ep.context_enable: keeps what was compiled.
Status keep_context(const Compilation &compilation, const ReadyModel &ready) {
  const Settings &settings = compilation.settings;
  if (!settings.write_context) return {};
  const Log &log = compilation.model.runtime().journal();
  if (!ready.compiled()) {
    log.write(QR_LOG_INFO, "session", format("ep.context_enable: %s holds the context already, nothing is written", compilation.model.describe().c_str()));
    return {};
  }
  if (!settings.context_embedded)
    log.write(QR_LOG_INFO, "session", "ep.context_embed_mode is 0: a .qrm holds everything in one file all the same");
  if (settings.context_path.empty() && compilation.model.path().empty())
    return Status::error(ErrorId::option_conflict, "option ep.context_file_path: it is not set and the model has no path, expected a file to write the context to",
                         "set ep.context_file_path").with("option", "ep.context_file_path");
  const String path = settings.context_path.empty() ? default_context_path(compilation.model.path()) : String(settings.context_path);
  QR_RETURN_IF_ERROR(write_container(compilation, *ready.compiled(), path));
  log.write(QR_LOG_INFO, "session", format("the compiled model was written to %s", printable(path, 1000).c_str()));
  return {};
}

void raise(std::uint64_t &figure, std::uint64_t by) noexcept { figure = std::max(figure, by); }

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

}  // namespace

// ---- what clones share -------------------------------------------------------------------------------------------------

SessionCore::SessionCore(const Compilation &compilation, Ref<ReadyModel> ready)
    : runtime_(&compilation.model.runtime()),
      ready_(std::move(ready)),
      plugin_(compilation.plugin),
      device_(compilation.device),
      pool_settings_(compilation.settings.pool),
      pool_name_(compilation.settings.pool_name),
      shared_pool_(pool_name_.empty() ? nullptr : compilation.pool),
      profiling_(compilation.settings.profiling),
      profiling_path_(compilation.settings.profiling_path) {
  for (const qr_plugin_option &option : compilation.plugin_options.own) options_.push_back({String(text_of(option.key)), String(text_of(option.value))});
  for (const KeyValue &option : compilation.plugin_options.foreign) foreign_.push_back({String(option.key), String(option.value)});
  if (!compilation.options) return;
  for (const auto &[key, value] : compilation.options->values())
    if (const OptionRow *row = find_option_row(key); row && is_core_scope(row->scope)) given_.push_back({key, value});
}

SessionCore::~SessionCore() {
  buckets_.clear();
  plugin_.reset();
}

std::string_view SessionCore::option(std::string_view key) const noexcept {
  for (const Pair &pair : options_)
    if (pair.key == key) return pair.value;
  return {};
}

// A context must take and give what the model's signature says; the plugin is the only one that could have mixed them up.
Status SessionCore::check_signature(const loader::Context &context) const {
  const auto side = [&](const char *what, const Vector<qrm::TensorInfo> &expected, const Vector<loader::TensorInfo> &found) -> Status {
    if (found.size() != expected.size())
      return plugin_->misbehaved("context.load", format("gave a context with %zu %ss, expected %zu", found.size(), what, expected.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      bool same = found[i].dtype == static_cast<std::int32_t>(expected[i].dtype) && found[i].rank == expected[i].dims.size();
      for (std::uint32_t axis = 0; same && axis < found[i].rank; ++axis)
        same = expected[i].dims[axis] < 0 || found[i].dims[axis] < 0 || expected[i].dims[axis] == found[i].dims[axis];
      if (!same)
        return plugin_->misbehaved("context.load",
                                   format("gave a context with %s %s as %s%s, expected %s%s", what, printable(expected[i].name).c_str(),
                                          dtype_name(static_cast<DType>(found[i].dtype)), shape_text(found[i].dims, found[i].rank).c_str(),
                                          dtype_name(expected[i].dtype), shape_text(expected[i].dims.data(), expected[i].dims.size()).c_str()));
    }
    return {};
  };
  QR_RETURN_IF_ERROR(side("input", inputs(), context.inputs()));
  return side("output", outputs(), context.outputs());
}

Result<Ref<SessionCore>> SessionCore::make(Compilation &compilation, Ref<ReadyModel> ready) {
  auto core = Ref<SessionCore>::make(compilation, std::move(ready));
  for (const ReadyProgram &program : core->ready().programs()) {
    QR_RETURN_IF_ERROR(compilation.signal.check("loading the context"));
    qr_load_request request = {};
    request.struct_size = sizeof request;
    request.device = compilation.device;
    request.blob = &program.blob;
    request.options = compilation.plugin_options.own.data();
    request.option_count = compilation.plugin_options.own.size();
    request.signal = compilation.signal.plugin();
    QR_ASSIGN_OR_RETURN(std::shared_ptr<loader::Context> context, compilation.plugin->load(request));
    QR_RETURN_IF_ERROR(core->check_signature(*context));
    core->buckets_.push_back({program.bucket, std::move(context)});
  }
  QR_ASSIGN_OR_RETURN(core->plan_, plan_all(compilation, core->ready()));
  return core;
}

Result<qrm::Plan> plan_all(const Compilation &compilation, const ReadyModel &ready) {
  qrm::Plan largest;
  for (const ReadyProgram &program : ready.programs()) {
    QR_ASSIGN_OR_RETURN(const qrm::Plan plan, plan_program(compilation, program));
    raise(largest.weights_bytes, plan.weights_bytes);
    raise(largest.arena_bytes, plan.arena_bytes);
    raise(largest.io_bytes, plan.io_bytes);
    raise(largest.device_bytes, plan.device_bytes);
    raise(largest.scratchpad_bytes, plan.scratchpad_bytes);
  }
  return largest;
}

// ---- sessions ------------------------------------------------------------------------------------------------------------

Session::Session(SessionCore &core)
    : core_(&core),
      pool_(core.shared_pool() ? core.shared_pool() : quarry::make_shared<ThreadPool>(core.pool_settings())),
      threads_(host_threads(core.runtime().thread_pool(), *pool_)),
      own_threads_(threads_.self == pool_.get() && pool_->workers() > 1 ? pool_.get() : nullptr),
      input_buffers_(core.inputs().size()),
      output_buffers_(core.outputs().size()),
      rooms_(core.outputs().size()) {
  executions_.resize(core.buckets().size());
  if (core.profiling() != ProfileLevel::Off) events_ = make_unique<EventLog>();
}

Session::~Session() {
  write_profile();
  executions_.clear();
  for (const OutputRoom &room : rooms_) free_block(room.block);
}

// What cannot run fails here and not in the first run. Executions of further buckets wait until they are used: each has an arena.
Status Session::start_first_execution() { return execution(0).status(); }

Result<Ref<Session>> Session::create(const Model &model, const OptionSet *options, Signal *signal) {
  QR_ASSIGN_OR_RETURN(const Unique<Compilation> compilation, Compilation::begin(model, options, signal, Progress(), DeviceUse::Run));
  QR_ASSIGN_OR_RETURN(Ref<ReadyModel> ready, ReadyModel::make(*compilation));
  QR_RETURN_IF_ERROR(keep_context(*compilation, *ready));
  QR_ASSIGN_OR_RETURN(const Ref<SessionCore> core, SessionCore::make(*compilation, std::move(ready)));
  auto session = Ref<Session>::make(*core);
  QR_RETURN_IF_ERROR(session->start_first_execution());
  const qrm::Plan &plan = core->plan();
  model.runtime().journal().write(
      QR_LOG_INFO, "session",
      format("%s on backend %s, device %u (%s): %s, %zu bucket%s, weights %llu bytes, arena %llu bytes", model.describe().c_str(),
             String(core->plugin().id()).c_str(), core->device(), core->plugin().devices()[core->device()].target.c_str(), core->ready().source(),
             core->buckets().size(), core->buckets().size() == 1 ? "" : "s", static_cast<unsigned long long>(plan.weights_bytes),
             static_cast<unsigned long long>(plan.arena_bytes)));
  return session;
}

Result<Ref<Session>> Session::clone() {
  auto session = Ref<Session>::make(*core_);
  session->changed_ = changed_;
  session->foreign_ = foreign_;
  QR_RETURN_IF_ERROR(session->start_first_execution());
  return session;
}

Result<loader::Execution *> Session::execution(std::size_t bucket) {
  if (!executions_[bucket]) {
    Vector<qr_plugin_option> options;
    for (const SessionCore::Pair &pair : core_->options()) options.push_back({plugin_string(pair.key), plugin_string(pair.value)});
    QR_ASSIGN_OR_RETURN(Unique<loader::Execution> made, core_->buckets()[bucket].context->create_execution(options.data(), options.size()));
    for (const SessionCore::Pair &pair : changed_) QR_RETURN_IF_ERROR(made->set_option(pair.key, pair.value));
    executions_[bucket] = std::move(made);
  }
  return executions_[bucket].get();
}

Status Session::set_option(std::string_view key, std::string_view value) {
  const loader::Plugin &plugin = core_->plugin();
  const OptionRow *ours = find_option_row(key);
  if (const loader::OptionRow *row = plugin.find_option(key)) {
    QR_RETURN_IF_ERROR(check_option_value(key, row->values, value));
    if (!row->changes_at_run_time)
      return Status::error(ErrorId::option_not_at_run_time, format("option %s: backend %s cannot change it at run time", printable(key).c_str(),
                                                                   String(plugin.id()).c_str())).with("option", key);
    for (const Unique<loader::Execution> &made : executions_)
      if (made) QR_RETURN_IF_ERROR(made->set_option(key, value));
    put(changed_, key, value);
    return {};
  }
  bool at_run_time;
  if (ours) {
    QR_RETURN_IF_ERROR(check_option_value(key, ours->values, value));
    at_run_time = ours->changes_at_run_time;
  } else {
    QR_ASSIGN_OR_RETURN(const BackendOption *other, core_->runtime().backend_option(key));
    QR_RETURN_IF_ERROR(check_option_value(key, other->values, value));
    at_run_time = other->changes_at_run_time;
  }
  if (!at_run_time)
    return Status::error(ErrorId::option_not_at_run_time, format("option %s: it cannot change while the session lives", printable(key).c_str()))
        .with("option", key);
  core_->runtime().journal().write(QR_LOG_INFO, "options", format("option %s is not one of backend %s: it has no effect", printable(key).c_str(),
                                                                  String(plugin.id()).c_str()));
  put(foreign_, key, value);
  return {};
}

Status Session::recover() {
  if (!lost_) return {};
  for (const Unique<loader::Execution> &made : executions_)
    if (made) QR_RETURN_IF_ERROR(made->recover());
  lost_ = false;
  return {};
}

String Session::report() const {
  const loader::Plugin &plugin = core_->plugin();
  const loader::DeviceInfo &device = plugin.devices()[core_->device()];
  const ReadyModel &ready = core_->ready();
  const qrm::Plan &plan = core_->plan();
  JsonWriter json;
  json.begin_object().field("model", ready.model().path()).field("backend", plugin.id()).field("backend_version", plugin.version());
  json.field("plugin", plugin.path()).field("device", core_->device()).field("device_name", device.name).field("target", device.target);
  json.field("context_target", ready.programs()[0].target).field("source", ready.source()).field("grade", grade_name(ready.grade().grade));
  json.field("grade_reason", ready.grade().reason);
  json.key("nodes");
  if (ready.compiled()) {
    json.value(ready.compiled()->node_count());
  } else if (const auto graph = ready.model().container().read_graph(0); graph.ok()) {
    json.value(graph.value().nodes.size());
  } else {
    json.null();  // the graph was not kept
  }
  json.key("buckets").begin_array();
  for (const SessionBucket &bucket : core_->buckets()) json.value(bucket.name);
  json.end_array();
  json.field("threads", threads_.worker_count).field("thread_pool", core_->pool_name()).field("device_lost", lost_);
  json.key("memory").begin_object().field("weights_bytes", plan.weights_bytes).field("arena_bytes", plan.arena_bytes);
  json.field("io_bytes", plan.io_bytes).field("device_bytes", plan.device_bytes).field("scratchpad_bytes", plan.scratchpad_bytes).end_object();

  Vector<SessionCore::Pair> in_force = core_->given(), foreign = core_->foreign();
  for (const SessionCore::Pair &pair : core_->options()) put(in_force, pair.key, pair.value);
  for (const SessionCore::Pair &pair : changed_) put(in_force, pair.key, pair.value);
  for (const SessionCore::Pair &pair : foreign_) put(foreign, pair.key, pair.value);
  write_pairs(json, "options", in_force);
  write_pairs(json, "ignored_options", foreign);
  return json.end_object().take();
}

// The option profiling_file_path. A session that ends has nobody to tell about a failure but the log.
void Session::write_profile() noexcept {
  if (!events_ || core_->profiling_path().empty()) return;
  try {
    if (Status status = write_text_file(core_->profiling_path(), events_->text("csv")); !status.ok())
      core_->runtime().journal().write(QR_LOG_ERROR, "profile", status.message());
  } catch (const std::bad_alloc &) {
    core_->runtime().journal().write(QR_LOG_ERROR, "profile", "the profile was not written: out of memory");
  }
}

}  // namespace quarry
