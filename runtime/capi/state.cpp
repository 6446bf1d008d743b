// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/state.h"

#include "runtime/capi/edge.h"

using namespace quarry;
using namespace quarry::capi;

namespace {

// The wrapper of what is done with a state, one call at a time.
template <class Body>
qr_status *with_state(const qr_state *state, Body &&body, const char *function = __builtin_FUNCTION()) {
  if (!state) return refuse_null(function, "state");
  State *const self = const_cast<State *>(object(state));
  const ExclusiveScope scope(self->use(), process_of(self), function, "state");
  if (!scope.held()) return refuse_overlap(scope, memory_of(self), function);
  return guard(
      self, [&]() -> Status { return body(*self); }, function);
}

}  // namespace

extern "C" {

qr_status *qr_session_state(qr_session *session, qr_state **out_state) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(out_state);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard(object(session), [&]() -> Status {
    Ref<State> state(object(session)->state());
    if (!state)
      return Status::error(ErrorId::no_state, "qr_session_state: the session keeps no state, expected one that does");
    *out_state = handle_of(state.give());
    return {};
  });
}

qr_status *qr_session_set_state(qr_session *session, qr_state *state) {
  QR_RETURN_IF_NULL(session);
  QR_RETURN_IF_NULL(state);
  QR_ENTER_OR_RETURN(scope, object(session), "session");
  return guard(object(session), [&] { return object(session)->set_state(*object(state)); });
}

uint64_t qr_state_count(const qr_state *state) { return state ? object(state)->count() : 0; }

qr_status *qr_state_tensor(const qr_state *state, uint64_t index, qr_state_info *out_info) {
  QR_RETURN_IF_NULL(out_info);
  return with_state(state, [&](State &self) -> Status {
    if (index >= self.count()) return index_out_of_range("qr_state_tensor", "index", index, self.count());
    QR_RETURN_IF_ERROR(
        check_struct("qr_state_tensor", "qr_state_info", out_info, QR_STATE_INFO_FIRST_SIZE, sizeof(qr_state_info)));
    write_struct(self.info(index), out_info);
    return {};
  });
}

qr_status *qr_state_length(const qr_state *state, uint64_t *out_length) {
  QR_RETURN_IF_NULL(out_length);
  return with_state(state, [&](State &self) { return *out_length = self.length(), Status(); });
}

qr_status *qr_state_dropped(const qr_state *state, uint64_t *out_dropped) {
  QR_RETURN_IF_NULL(out_dropped);
  return with_state(state, [&](State &self) { return *out_dropped = self.dropped(), Status(); });
}

qr_status *qr_state_reset(qr_state *state) {
  return with_state(state, [](State &self) { return self.reset(), Status(); });
}

qr_status *qr_state_rewind(qr_state *state, uint64_t length) {
  return with_state(state, [&](State &self) { return self.rewind(length); });
}

qr_status *qr_state_fork(const qr_state *state, qr_state **out_state) {
  QR_RETURN_IF_NULL(out_state);
  return with_state(state, [&](State &self) -> Status {
    QR_ASSIGN_OR_RETURN(Ref<State> made, self.fork());
    *out_state = handle_of(made.give());
    return {};
  });
}

qr_status *qr_state_save(const qr_state *state, const qr_target *target, const qr_call_options *call) {
  QR_RETURN_IF_NULL(state);
  QR_RETURN_IF_NULL(target);
  QR_ENTER_OR_RETURN(scope, object(state), "state");
  return guard_call(object(state), call, [&](const CallWatch &) -> Status {
    qr_target to = QR_TARGET_INIT;
    QR_RETURN_IF_ERROR(read_target("qr_state_save", target, to));
    TargetWriter out("qr_state_save", to, "state");
    return out.finish(object(state)->save(out));
  });
}

qr_status *qr_state_load(qr_state *state, const void *data, uint64_t size) {
  QR_RETURN_IF_NULL(data);
  return with_state(state, [&](State &self) { return self.load(data, size); });
}

qr_status *qr_state_read(const qr_state *state, uint64_t index, qr_tensor *out_tensor) {
  QR_RETURN_IF_NULL(out_tensor);
  return with_state(state, [&](State &self) -> Status {
    if (index >= self.count()) return index_out_of_range("qr_state_read", "index", index, self.count());
    QR_RETURN_IF_ERROR(check_struct("qr_state_read", "qr_tensor", out_tensor, QR_TENSOR_FIRST_SIZE, sizeof(qr_tensor)));
    return self.read(index, *out_tensor);
  });
}

qr_status *qr_state_write(qr_state *state, uint64_t index, const qr_tensor *tensor) {
  QR_RETURN_IF_NULL(tensor);
  return with_state(state, [&](State &self) -> Status {
    if (index >= self.count()) return index_out_of_range("qr_state_write", "index", index, self.count());
    QR_RETURN_IF_ERROR(check_struct("qr_state_write", "qr_tensor", tensor, QR_TENSOR_FIRST_SIZE, sizeof(qr_tensor)));
    return self.write(index, *tensor);
  });
}

void qr_state_destroy(qr_state *state) {
  if (!state) return;
  AllocatorScope memory(memory_of(object(state)));
  object(state)->release();
}

}  // extern "C"
