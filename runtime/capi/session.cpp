// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

constexpr const char *kRun = "qr_session_run", *kSubmit = "qr_session_submit";

// A tensor that the caller built with other headers, or not at all. Ours is the first release: there is no smaller one.
Status check_tensor(const char *function, const char *side, uint64_t index, const qr_tensor *tensor) {
  if (tensor->struct_size == sizeof(qr_tensor) && !(tensor->flags & ~QR_TENSOR_OF_SESSION))
    return {};  // the way it nearly always is
  const String name = format("qr_tensor %s[%llu]", side, index);
  QR_RETURN_IF_ERROR(check_struct(function, name.c_str(), tensor, QR_TENSOR_FIRST_SIZE, sizeof(qr_tensor)));
  return check_flags(function, name.c_str(), tensor->flags, QR_TENSOR_OF_SESSION);
}

Status check_count(const char *function, ErrorId id, const char *what, uint64_t found, std::size_t expected) {
  if (found == expected) return {};
  return Status::errorf(id, "%s: found %llu %ss, expected %zu", function, found, what, expected);
}

Status check_arguments(const char *function, const Session &session, const qr_tensor *const *inputs,
                       uint64_t input_count, qr_tensor *const *outputs, uint64_t output_count) {
  const StatePlan &callers = session.core().state();
  QR_RETURN_IF_ERROR(check_count(function, ErrorId::run_input_count, "input", input_count, callers.inputs.size()));
  QR_RETURN_IF_ERROR(check_count(function, ErrorId::run_output_count, "output", output_count, callers.outputs.size()));
  if (input_count && !inputs) return null_argument(function, "inputs");
  if (output_count && !outputs) return null_argument(function, "outputs");
  for (uint64_t i = 0; i < input_count; ++i) {
    if (!inputs[i]) return null_argument(function, format("inputs[%llu]", i).c_str());
    QR_RETURN_IF_ERROR(check_tensor(function, "inputs", i, inputs[i]));
  }
  for (uint64_t i = 0; i < output_count; ++i)
    if (outputs[i]) QR_RETURN_IF_ERROR(check_tensor(function, "outputs", i, outputs[i]));
  return {};
}

Status read_run_options(const char *function, const qr_run_options *options, qr_run_options &run) {
  QR_RETURN_IF_ERROR(read_struct(function, "qr_run_options", options, run, QR_RUN_OPTIONS_FIRST_SIZE));
  if (run.reserved) return unknown_field(function, "qr_run_options", "reserved");
  return check_flags(function, "qr_run_options", run.flags, 0);
}

// The caller does not see what the session keeps: the tensor's number in the model.
Status number_of(const char *function, const Session &session, bool is_output, uint64_t index, uint64_t *out) {
  const StatePlan &callers = session.core().state();
  const Vector<std::uint32_t> &numbers = is_output ? callers.outputs : callers.inputs;
  if (index >= numbers.size()) return index_out_of_range(function, "index", index, numbers.size());
  *out = numbers[index];
  return {};
}

// A tensor of the signature with the shape of one bucket.
Status bucket_tensor(const char *function, const Session &session, bool is_output, uint64_t bucket, uint64_t index,
                     qr_tensor_info *out_info) {
  const Vector<qrm::TensorInfo> &signature = is_output ? session.core().outputs() : session.core().inputs();
  const Vector<SessionBucket> &buckets = session.core().loaded().buckets;
  if (bucket >= buckets.size()) return index_out_of_range(function, "bucket", bucket, buckets.size());
  QR_RETURN_IF_ERROR(number_of(function, session, is_output, index, &index));
  QR_RETURN_IF_ERROR(
      check_struct(function, "qr_tensor_info", out_info, QR_TENSOR_INFO_FIRST_SIZE, sizeof(qr_tensor_info)));
  const loader::GraphTensors &tensors = buckets[bucket].tensors();
  const loader::TensorInfo &here = (is_output ? tensors.outputs : tensors.inputs)[index];
  qr_tensor_info info = tensor_info(signature[index]);
  info.rank = here.rank;
  static_assert(sizeof info.dims == sizeof here.dims);
  std::memcpy(info.dims, here.dims, sizeof info.dims);
  info.size_bytes = here.bytes;
  write_struct(info, out_info);
  return {};
}

}  // namespace

extern "C" {

qr_status *qr_session_plan(const qr_model *model, const qr_options *options, const qr_call_options *call,
                           qr_memory_plan *out_plan) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_plan);
  return guard_call(object(model), call, [&](const CallWatch &watch) -> Status {
    QR_RETURN_IF_ERROR(
        check_struct("qr_session_plan", "qr_memory_plan", out_plan, QR_MEMORY_PLAN_FIRST_SIZE, sizeof(qr_memory_plan)));
    const OptionsArgument given(options, "qr_session_plan");
    QR_RETURN_IF_ERROR(given.status());
    QR_ASSIGN_OR_RETURN(const Unique<CompileJob> job,
                        CompileJob::begin(*object(model), given.get(), watch, DeviceUse::CompileOnly));
    if (job->settings.recompile == Recompile::Background)
      job->settings.recompile = Recompile::Wait;  // the figures are wanted now
    QR_ASSIGN_OR_RETURN(const Ref<LoadableModel> loadable, LoadableModel::make(*job));
    QR_ASSIGN_OR_RETURN(const qrm::Plan plan, plan_all(*job, *loadable));
    qr_memory_plan out = QR_MEMORY_PLAN_INIT;
    out.weights_bytes = plan.weights_bytes;
    QR_ASSIGN_OR_RETURN(const Vector<StatePair> state,
                        find_state(job->settings.state, loadable->inputs(), loadable->outputs()));
    const bool appends = (job->plugin->devices()[job->device].features & QR_DEVICE_APPENDS) != 0;
    const std::uint64_t kept = state_bytes(state, loadable->inputs(), job->settings.state_capacity, appends);
    if (!checked_add(plan.arena_bytes, kept, &out.arena_bytes)) out.arena_bytes = UINT64_MAX;
    out.io_bytes = plan.io_bytes;
    out.device_bytes = plan.device_bytes;
    out.scratchpad_bytes = plan.scratchpad_bytes;
    out.spill_fill_bytes = plan.spill_fill_bytes;
    write_struct(out, out_plan);
    return {};
  });
}

qr_status *qr_session_create(const qr_model *model, const qr_options *options, const qr_call_options *call,
                             qr_session **out_session) {
  QR_RETURN_IF_NULL(model);
  QR_RETURN_IF_NULL(out_session);
  return guard_call(object(model), call, [&](const CallWatch &watch) -> Status {
    const OptionsArgument given(options, "qr_session_create");
    QR_RETURN_IF_ERROR(given.status());
    QR_ASSIGN_OR_RETURN(Ref<Session> session, Session::create(*object(model), given.get(), watch));
    *out_session = handle_of(session.give());
    return {};
  });
}

qr_status *qr_session_clone(qr_session *session, const qr_call_options *call, qr_session **out_session) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_session);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard_call(object(session), call, [&](const CallWatch &watch) -> Status {
    QR_ASSIGN_OR_RETURN(Ref<Session> made, object(session)->clone(watch));
    *out_session = handle_of(made.give());
    return {};
  });
}

uint64_t qr_session_input_count(const qr_session *session) {
  return session ? object(session)->core().state().inputs.size() : 0;
}
uint64_t qr_session_output_count(const qr_session *session) {
  return session ? object(session)->core().state().outputs.size() : 0;
}

qr_status *qr_session_input(const qr_session *session, uint64_t index, qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(session), [&]() -> Status {
    QR_RETURN_IF_ERROR(number_of("qr_session_input", *object(session), false, index, &index));
    return give_tensor_info("qr_session_input", "index", object(session)->core().inputs(), index, out_info);
  });
}

qr_status *qr_session_output(const qr_session *session, uint64_t index, qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(session), [&]() -> Status {
    QR_RETURN_IF_ERROR(number_of("qr_session_output", *object(session), true, index, &index));
    return give_tensor_info("qr_session_output", "index", object(session)->core().outputs(), index, out_info);
  });
}

uint64_t qr_session_bucket_count(const qr_session *session) {
  return session ? object(session)->core().loaded().buckets.size() : 0;
}

qr_status *qr_session_bucket_input(const qr_session *session, uint64_t bucket, uint64_t index,
                                   qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(session), [&] {
    return bucket_tensor("qr_session_bucket_input", *object(session), false, bucket, index, out_info);
  });
}

qr_status *qr_session_bucket_output(const qr_session *session, uint64_t bucket, uint64_t index,
                                    qr_tensor_info *out_info) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_info);
  return guard(object(session), [&] {
    return bucket_tensor("qr_session_bucket_output", *object(session), true, bucket, index, out_info);
  });
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif
qr_status *qr_session_run(qr_session *session, const qr_run_options *options, const qr_tensor *const *inputs,
                          uint64_t input_count, qr_tensor *const *outputs, uint64_t output_count) {
  QR_RETURN_IF_NULL(session);
  const Ref<Session> self(object(session));  // a destroy that overlaps must not pull it away
  QR_ENTER_OR_RETURN(scope, self.get(), "session");
  return guard(self.get(), [&]() -> Status {
    qr_run_options run = QR_RUN_OPTIONS_INIT;
    if (options) QR_RETURN_IF_ERROR(read_run_options(kRun, options, run));
    QR_RETURN_IF_ERROR(check_arguments(kRun, *self, inputs, input_count, outputs, output_count));
    return self->run(CallSignal(object(run.signal)), object(run.profile), inputs, outputs);
  });
}
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif

qr_status *qr_session_warm_up(qr_session *session, const qr_run_options *options) {
  QR_RETURN_IF_NULL(session);
  const Ref<Session> self(object(session));
  QR_ENTER_OR_RETURN(scope, self.get(), "session");
  return guard(self.get(), [&]() -> Status {
    qr_run_options run = QR_RUN_OPTIONS_INIT;
    if (options) QR_RETURN_IF_ERROR(read_run_options("qr_session_warm_up", options, run));
    return self->warm_up(CallSignal(object(run.signal)), object(run.profile));
  });
}

qr_status *qr_session_submit(qr_session *session, const qr_submit_options *options, const qr_tensor *const *inputs,
                             uint64_t input_count, qr_tensor *const *outputs, uint64_t output_count,
                             uint64_t *out_ticket) {
  QR_RETURN_IF_NULL(session);
  const Ref<Session> self(object(session));
  return guard(self.get(), [&]() -> Status {
    qr_submit_options how = QR_SUBMIT_OPTIONS_INIT;
    if (options) {
      QR_RETURN_IF_ERROR(read_struct(kSubmit, "qr_submit_options", options, how, QR_SUBMIT_OPTIONS_FIRST_SIZE));
      if (how.reserved) return unknown_field(kSubmit, "qr_submit_options", "reserved");
      QR_RETURN_IF_ERROR(check_flags(kSubmit, "qr_submit_options", how.flags, 0));
    }
    QR_RETURN_IF_ERROR(check_arguments(kSubmit, *self, inputs, input_count, outputs, output_count));
    if (self->state())
      return Status::error(ErrorId::state_unsupported,
                           "qr_session_submit: the session keeps state (option state), expected one that keeps none",
                           "call qr_session_run: each run reads what the one before it left");
    QR_ASSIGN_OR_RETURN(const uint64_t ticket, self->queue().submit(how, inputs, outputs));
    if (out_ticket) *out_ticket = ticket;
    return {};
  });
}

qr_status *qr_session_wait(qr_session *session, uint64_t ticket, qr_signal *signal, int32_t *out_ended) {
  if (out_ended) *out_ended = 0;
  QR_RETURN_IF_NULL(session);
  const Ref<Session> self(object(session));
  bool ended = false;
  qr_status *status = guard(self.get(), [&] { return self->queue().wait(ticket, CallSignal(object(signal)), &ended); });
  if (out_ended) *out_ended = ended;
  return status;
}

void qr_session_abort(qr_session *session, uint64_t ticket) {
  if (session) object(session)->queue().abort(ticket);
}

qr_status *qr_session_completion_fd(qr_session *session, int32_t *out_fd) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_fd);
  return guard(object(session), [&]() -> Status {
    QR_ASSIGN_OR_RETURN(*out_fd, object(session)->queue().completion_fd());
    return {};
  });
}

qr_status *qr_session_set_option(qr_session *session, qr_string key, qr_string value) {
  QR_RETURN_IF_NULL(session);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard(object(session), [&]() -> Status {
    std::string_view name, text;
    QR_RETURN_IF_ERROR(read_text("qr_session_set_option", "key", key, Empty::Allowed, &name));
    QR_RETURN_IF_ERROR(read_text("qr_session_set_option", "value", value, Empty::Value, &text));
    return object(session)->set_option(name, text);
  });
}

qr_status *qr_session_recover(qr_session *session, const qr_call_options *call) {
  QR_RETURN_IF_NULL(session);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard_call(object(session), call,
                    [&](const CallWatch &watch) -> Status { return object(session)->recover(watch.signal); });
}

qr_status *qr_session_report(const qr_session *session, char **out_json) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_json);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard(object(session), [&]() -> Status {
    QR_ASSIGN_OR_RETURN(const String report, object(session)->report());
    *out_json = give_text(report);
    return {};
  });
}

void qr_session_destroy(qr_session *session) {
  if (!session) return;
  AllocatorScope memory(memory_of(object(session)));
  {
    ExclusiveScope scope(object(session)->use(), process_of(object(session)), __func__, "session");
    if (!scope.held()) object(session)->core().runtime().log().misuse(scope.status());
  }
  if (!object(session)->queue().close())
    return object(session)->core().runtime().log().misuse(
        Status::error(ErrorId::overlapping_calls,
                      "qr_session_destroy: called by the callback of a submitted run, expected another thread; the "
                      "session was not destroyed"));
  object(session)->release();
}

}  // extern "C"
