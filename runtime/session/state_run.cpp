// SPDX-License-Identifier: Apache-2.0
// Sessions that keep state: which pairs, and their runs.
#include <algorithm>

#include "base/hash.h"
#include "base/json_writer.h"
#include "runtime/core/runtime.h"
#include "runtime/session/adapter.h"
#include "runtime/session/state.h"

namespace quarry {

// Of programs whose shapes are numbers: their room for state that grows is its capacity.
Status SessionCore::fix_capacity(std::string_view padded, bool is_given) {
  Vector<Vector<qir::Shape>> dims[2];
  for (const SessionBucket &bucket : first_->buckets)
    for (const bool is_output : {false, true}) {
      Vector<qir::Shape> &shapes = dims[is_output].emplace_back();
      for (const loader::TensorInfo &info : is_output ? bucket.tensors().outputs : bucket.tensors().inputs)
        shapes.emplace_back(info.dims, info.dims + info.rank);
    }
  std::uint64_t capacity = 0;
  QR_ASSIGN_OR_RETURN(state_.entries,
                      fix_state(state_.pairs, inputs(), outputs(), dims[0], dims[1], padded, &capacity));
  if (state_.entries.empty()) return {};
  if (is_given && capacity != state_.capacity)
    return Status::errorf(ErrorId::bad_state_option,
                          "option state.capacity: found %llu, expected %llu, which the program was compiled for",
                          state_.capacity, capacity)
        .with("option", "state.capacity");
  state_.capacity = capacity;
  return {};
}

Status SessionCore::plan_state(const Settings &settings, bool capacity_is_given) {
  if (!settings.state.empty()) {
    QR_ASSIGN_OR_RETURN(state_.pairs, find_state(settings.state, inputs(), outputs()));
    if (state_.pairs.empty())
      return Status::errorf(ErrorId::bad_state_option,
                            "option state: found none of the inputs and outputs to be a pair by name, expected some");
  }
  state_.capacity = settings.state_capacity, state_.window = settings.state_window, state_.sink = settings.state_sink;
  QR_RETURN_IF_ERROR(fix_capacity(settings.pad, capacity_is_given));
  bool grows = false;
  for (StatePair &pair : state_.pairs) {
    grows |= pair.axis >= 0;
    if (pair.is_fixed) continue;
    // (Where there is nothing to run yet, nobody can say what it will take.)
    pair.stays = pair.axis >= 0 && !first_->buckets.empty() && (device_->info().features & QR_DEVICE_APPENDS) != 0;
    if (pair.axis >= 0 && first_->buckets.size() > 1)
      return Status::errorf(ErrorId::bad_state_option,
                            "option state: input '%s' grows, and there are shape buckets, expected a range",
                            printable(inputs()[pair.input].name));
  }
  const std::uint64_t kept = state_.window + state_.sink;
  if (kept > 0 && (!grows || state_.window == 0 || kept >= state_.capacity))
    return Status::errorf(ErrorId::bad_state_option,
                          "state.window and state.sink: found %llu and %llu, expected a window, less than "
                          "state.capacity together, and a state that grows",
                          state_.window, state_.sink);
  const auto keep_others = [&](std::uint32_t StatePair::*side, std::size_t count, Vector<std::uint32_t> &out) {
    for (std::uint32_t i = 0; i < count; ++i)
      if (std::ranges::find(state_.pairs, i, side) == state_.pairs.end()) out.push_back(i);
  };
  keep_others(&StatePair::input, inputs().size(), state_.inputs);
  keep_others(&StatePair::output, outputs().size(), state_.outputs);
  if constexpr (!kHasPrepare) return {};
  std::erase_if(state_.inputs, [this](std::uint32_t number) {
    const bool is_adapters = Adapter::fills(inputs()[number]);
    if (is_adapters) state_.adapters.push_back(number);
    return is_adapters;
  });
  no_adapter_ = Ref<Adapter>::make(*this, Adapter::Zeros::Shared);
  return {};
}

void SessionCore::set_appended(std::span<const qr_plugin_appended> appended) noexcept {
  for (StatePair &pair : state_.pairs)
    pair.stays = std::ranges::any_of(
        appended, [&](const qr_plugin_appended &one) { return one.taken != 0 && one.input == pair.input; });
}

std::uint64_t SessionCore::identity() const noexcept {
  if (const std::uint64_t known = identity_.load(std::memory_order_relaxed)) return known;
  Hasher64 hasher;
  for (const auto *list : {&inputs(), &outputs()})
    for (const qrm::TensorInfo &info : *list) {
      hasher.add(info.name.c_str(), info.name.size() + 1);
      hasher.add(&info.dtype, sizeof info.dtype);
    }
  const LoadableModel &loadable = *first_->loadable;
  const auto add = [&](std::uint64_t sum) { hasher.add(&sum, sizeof sum); };
  if (const CompiledModel *const compiled = loadable.compiled()) {
    for (const qr_plugin_bytes &segment : compiled->portable_graphs().graphs()[0].segments)
      add(hash64(segment.data, segment.size));
  } else {  // (a container has the sums)
    const qrm::ValidatedModel &container = loadable.model().container();
    const qrm::GraphInfo &graph = container.metadata().graphs[0];
    for (const std::uint32_t segment : graph.segments) add(container.segments()[segment].sum);
    if (!graph.qir_segment)
      for (const qrm::SegmentInfo &segment : container.segments()) add(segment.sum);
  }
  const std::uint64_t sum = hasher.sum();
  identity_.store(sum, std::memory_order_relaxed);
  return sum;
}

Status Session::set_state(State &state) {
  if (&state.core() != core_.get())
    return Status::error(ErrorId::bad_argument,
                         "qr_session_set_state: found the state of another session, expected one of this or of a clone",
                         "save it and load it there: qr_state_save, qr_state_load");
  state_ = Ref<State>(&state);
  return {};
}

Status Session::run_on_state(const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                             qr_tensor *const *outputs) {
  const StatePlan &plan = core_->state();
  State &state = *state_;
  const ExclusiveScope scope(state.use(), core_->runtime().process(), "qr_session_run", "state");
  if (!scope.held()) return scope.status();
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) all_inputs_[plan.inputs[i]] = inputs[i];
  for (std::size_t i = 0; i < plan.outputs.size(); ++i) all_outputs_[plan.outputs[i]] = outputs[i];
  QR_RETURN_IF_ERROR(state.lend(all_inputs_.data(), all_outputs_.data()));
  QR_RETURN_IF_ERROR(bind_run(frame_, signal, profile, all_inputs_.data(), all_outputs_.data(), Room::OfSession));
  Status status = execute(frame_);
  if (status.id() == error_row(ErrorId::run_room).id)  // of the state: for other outputs it was looked at before
    status = Status::errorf(ErrorId::state_full, "%s, with room for %llu entries (state.capacity)",
                            String(status.message()), plan.capacity);
  if (status.ok()) status = state.check(frame_.outputs, frame_.fit.fresh);
  QR_RETURN_IF_ERROR(finish_run(frame_, std::move(status), all_outputs_.data()));
  state.take(frame_.outputs, frame_.fit.fresh);
  return {};
}

void Session::write_state(JsonWriter &json) const {
  json.key("state").begin_object();
  json.field("length", state_->length()).field("capacity", core_->state().capacity).field("bytes", state_->bytes());
  json.key("pairs");
  write_pairs(json, core_->state().pairs, core_->inputs(), core_->outputs());
  json.end_object();
}

}  // namespace quarry
