// SPDX-License-Identifier: Apache-2.0
#include "runtime/session/adapter.h"

#include <algorithm>

#include "base/checked.h"
#include "base/hash.h"
#include "base/json_writer.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"

namespace quarry {
namespace {

Status no_targets(const char *function) {
  return Status::errorf(ErrorId::no_adapter_targets,
                        "%s: found no weight that adapters may change, expected some (option adapter.targets)",
                        function);
}

std::uint64_t bytes_of(const qrm::TensorInfo &input) noexcept {
  const auto count = element_count(input.dims.data(), input.dims.size());
  return count ? packed_size(input.dtype, *count).value_or(0) : 0;
}

}  // namespace

bool Adapter::fills(const qrm::TensorInfo &input) noexcept {
  if constexpr (!kHasPrepare) return false;
  return input.name.starts_with(QR_ADAPTER_INPUT) && (input.dims.size() == 2 || input.dims.size() == 4) &&
         std::ranges::none_of(input.dims, [](std::int64_t dim) { return dim < 1; }) && bytes_of(input) > 0;
}

Adapter::Adapter(const SessionCore &core, Zeros zeros) : runtime_(&core.runtime()) {
  constexpr std::uint64_t kAlign = 64;
  std::uint64_t room = 0;
  Hasher64 hasher;
  for (const std::uint32_t number : core.state().adapters) {
    const qrm::TensorInfo &info = core.inputs()[number];
    qr_tensor &tensor = tensors_.emplace_back(qr_tensor QR_TENSOR_INIT);
    tensor.dtype = static_cast<qr_dtype>(info.dtype);
    tensor.rank = static_cast<std::uint32_t>(info.dims.size());
    std::ranges::copy(info.dims, tensor.dims);
    tensor.size_bytes = bytes_of(info);
    hasher.add(info.name.c_str(), info.name.size() + 1);
    hasher.add(&tensor.dtype, sizeof tensor.dtype);
    hasher.add(tensor.dims, sizeof tensor.dims);
    const std::uint64_t before = zeros == Zeros::Own ? room : 0;
    std::uint64_t end;
    if (!checked_add(before, tensor.size_bytes, &end) || !checked_align_up(end, kAlign, &end)) throw std::bad_alloc();
    tensor.memory_offset = before;  // until there is memory
    room = std::max(room, end);
  }
  signature_ = hasher.sum();
  if (room == 0) return;
  block_ = static_cast<char *>(std::memset(allocate_block(room, kAlign), 0, room));
  for (qr_tensor &tensor : tensors_) tensor.data = block_ + std::exchange(tensor.memory_offset, 0);
}

Result<Ref<Adapter>> Adapter::open(const SessionCore &core, const qr_model_source &from,
                                   const qr_adapter_options &options, const CallWatch &watch, bool is_list) {
  const Vector<std::uint32_t> &numbers = core.state().adapters;
  if (!kHasPrepare || numbers.empty()) return no_targets("qr_adapter_open");
  OpenFd folder;
  QR_ASSIGN_OR_RETURN(const qrm::RawFile file, Model::read(from, qrm::FileUse::Read, watch, &folder));
  qr_prepare_adapter request = {};
  request.file = {file.bytes().data, file.bytes().size};
  request.is_list = is_list;
  if (from.kind == QR_SOURCE_PATH) request.path = plugin_string(text_of(from.path));
  request.alpha = static_cast<double>(options.alpha), request.strength = static_cast<double>(options.strength);
  QR_RETURN_IF_ERROR(watch.signal.check("qr_adapter_open"));
  auto adapter = Ref<Adapter>::make(core, Zeros::Own);
  Vector<qr_prepare_adapter_input> inputs;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const qr_tensor &tensor = adapter->tensors_[i];
    inputs.push_back(
        {plugin_string(core.inputs()[numbers[i]].name), tensor.dtype, tensor.rank, tensor.dims, tensor.data});
  }
  request.inputs = inputs.data(), request.input_count = inputs.size();
  QR_ASSIGN_OR_RETURN(const qr_prepare_api *const api, core.runtime().prepare().api());
  ErrorCollector errors;
  QR_RETURN_IF_ERROR(errors.status(
      api->read_adapter(&core.runtime().host(), &request, &adapter->weights_, errors.sink()), "read_adapter"));
  return adapter;
}

Status Session::set_adapter(Adapter *adapter) {
  constexpr const char *kFunction = "qr_session_set_adapter";
  if (!kHasPrepare || core_->state().adapters.empty()) return no_targets(kFunction);
  if (adapter && !adapter->fits(core_->no_adapter()))
    return Status::errorf(
        ErrorId::adapter_of_other,
        "%s: found an adapter for other weights, expected one that was opened for this session or for "
        "one of the same weights",
        kFunction);
  const RunQueue::Alone alone(queue_, kFunction, RunQueue::Until::Empty);
  QR_RETURN_IF_ERROR(alone.status());
  put_adapter(adapter ? *adapter : core_->no_adapter());
  return {};
}

Status Session::apply_lora_config(std::string_view path, const CallWatch &watch) {
  qr_model_source from = QR_MODEL_SOURCE_INIT;
  from.kind = QR_SOURCE_PATH, from.path = {path.data(), path.size()};
  QR_ASSIGN_OR_RETURN(const Ref<Adapter> adapter, Adapter::open(*core_, from, QR_ADAPTER_OPTIONS_INIT, watch, true));
  put_adapter(*adapter);
  return {};
}

void Session::put_adapter(Adapter &adapter) noexcept {
  const Vector<std::uint32_t> &numbers = core_->state().adapters;
  adapter_ = Ref<Adapter>(&adapter);
  for (std::size_t i = 0; i < numbers.size(); ++i) all_inputs_[numbers[i]] = &adapter.tensors()[i];
}

const qr_tensor *const *Session::with_adapter(const qr_tensor *const *inputs) noexcept {
  const StatePlan &plan = core_->state();
  if (!kHasPrepare || plan.adapters.empty()) return inputs;
  for (std::size_t i = 0; i < plan.inputs.size(); ++i) all_inputs_[plan.inputs[i]] = inputs[i];
  return all_inputs_.data();
}

void Session::write_adapter(JsonWriter &json) const {
  json.key("adapter").begin_object().field("weights", core_->state().adapters.size() / 2);
  json.field("applied", adapter_.get() != &core_->no_adapter()).field("changed", adapter_->weights()).end_object();
}

}  // namespace quarry
