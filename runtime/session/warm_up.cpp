// SPDX-License-Identifier: Apache-2.0
// qr_session_warm_up: each shape bucket runs once on zeros, so that no later run is the first.
#include <algorithm>
#include <cstring>

#include "runtime/session/run_frame.h"
#include "runtime/session/state.h"

namespace quarry {

Status Session::warm_up(const CallSignal &signal, Profile *profile) {
  QR_ASSIGN_OR_RETURN(const LoadedModel *const loaded, core_->runnable(signal));
  if (!state_) return warm_up_buckets(*loaded, signal, profile);
  const Ref<State> kept = std::exchange(state_, Ref<State>::make(*core_));  // the runs' zeros go into another
  Status status = warm_up_buckets(*loaded, signal, profile);
  state_ = kept;
  return status;
}

Status Session::warm_up_buckets(const LoadedModel &loaded, const CallSignal &signal, Profile *profile) {
  const Vector<std::uint32_t> &numbers = core_->state().inputs;
  const std::size_t inputs = numbers.size(), tensors = inputs + core_->state().outputs.size();
  std::uint64_t largest = 0;
  for (const SessionBucket &bucket : loaded.buckets)
    for (const loader::TensorInfo &input : bucket.tensors().inputs) largest = std::max(largest, input.bytes);
  // The tensors, pointers to them, and zeros. Inputs are only read, so that the same zeros are data of them all;
  // outputs are the session's own, whose memory is made too.
  const std::size_t head = (tensors * (sizeof(qr_tensor) + sizeof(qr_tensor *)) + 63) & ~std::size_t{63};
  Vector<std::uint8_t> block(head + largest + 1);
  qr_tensor *const tensor = reinterpret_cast<qr_tensor *>(block.data());
  qr_tensor **const places = reinterpret_cast<qr_tensor **>(tensor + tensors);
  for (std::size_t i = 0; i < tensors; ++i) {
    tensor[i].struct_size = sizeof(qr_tensor);
    places[i] = tensor + i;
  }
  for (const SessionBucket &bucket : loaded.buckets) {
    // A range has no shape to run: the option shape.prepare says what the backend makes ahead.
    const auto is_range = [](const loader::TensorInfo &input) { return !input.is_static; };
    if (std::ranges::any_of(bucket.tensors().inputs, is_range)) continue;
    for (std::size_t i = 0; i < inputs; ++i) {
      const loader::TensorInfo &input = bucket.tensors().inputs[numbers[i]];
      tensor[i].dtype = static_cast<qr_dtype>(input.dtype);
      tensor[i].rank = input.rank;
      static_assert(sizeof tensor->dims == sizeof input.dims);
      std::memcpy(tensor[i].dims, input.dims, sizeof input.dims);
      for (std::uint32_t d = 0; d < input.rank; ++d)  // of a state that is empty
        if (core_->padding() && core_->padding()->counts_entries(numbers[i], d))
          tensor[i].dims[d] -= static_cast<std::int64_t>(core_->state().capacity);
      tensor[i].data = block.data() + head;
      tensor[i].size_bytes = input.bytes;
    }
    if (state_) state_->reset();
    QR_RETURN_IF_ERROR(run(signal, profile, places, places + inputs));
  }
  return {};
}

}  // namespace quarry
