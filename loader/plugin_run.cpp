// SPDX-License-Identifier: Apache-2.0
// Contexts, executions and registered memory.
#include <algorithm>

#include "base/checked.h"
#include "base/dtype.h"
#include "loader/checks.h"
#include "loader/plugin.h"
#include "quarry/runtime.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif

// What is met when a context is loaded, or when something is wrong: for size, as the rest of the library.
#define QR_COLD __attribute__((cold, noinline))

namespace quarry::loader {
namespace {

// What outputs hold before a run: no plugin writes these.
constexpr std::uint32_t kUnsetRank = UINT32_MAX;
constexpr std::uint64_t kUnsetBytes = UINT64_MAX;

}  // namespace

// ---- context ------------------------------------------------------------------------------------

Context::Context(std::shared_ptr<Plugin> plugin, qr_context *handle) noexcept
    : plugin_(std::move(plugin)), handle_(handle) {}

Context::~Context() { plugin_->table_->context->destroy(handle_); }

QR_COLD Status Context::read_tensors(std::uint64_t graph_count) {
  const qr_plugin_context_api &api = *plugin_->table_->context;
  const std::uint64_t found = QR_HAS_SLOT(&api, graph_count) ? api.graph_count(handle_) : 1;
  if (found != graph_count)
    return plugin_->misbehaved("context.graph_count",
                               format("returned %llu, expected %llu as in the blob", found, graph_count));
  graphs_.resize(graph_count);
  for (std::uint64_t graph = 0; graph < graph_count; ++graph) {
    QR_RETURN_IF_ERROR(read_side(graph, false, api.input_count(handle_, graph), graphs_[graph].inputs));
    QR_RETURN_IF_ERROR(read_side(graph, true, api.output_count(handle_, graph), graphs_[graph].outputs));
    for (const TensorInfo &output : graphs_[graph].outputs)
      graphs_[graph].outputs_are_static = graphs_[graph].outputs_are_static && output.is_static;
  }
  return {};
}

QR_COLD Status Context::read_side(std::uint64_t graph, bool is_output, std::uint64_t count, Vector<TensorInfo> &out) {
  const char *const side = is_output ? "output" : "input";
  const bool may_be_open = is_output || std::ranges::any_of(plugin_->devices(), [](const DeviceInfo &device) {
                             return (device.features & (QR_DEVICE_RANGES | QR_DEVICE_BATCHES)) != 0;
                           });
  if (count > kMaxTensors)
    return plugin_->misbehaved(is_output ? "context.output_count" : "context.input_count",
                               format("returned %llu, expected at most %llu", count, kMaxTensors));
  out.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    qr_plugin_tensor_info info{};
    info.struct_size = sizeof info;
    info.rank = kUnsetRank;
    ErrorCollector errors(*plugin_);
    QR_RETURN_IF_ERROR(errors.finish(
        "context.tensor", plugin_->table_->context->tensor(handle_, graph, is_output, i, &info, errors.sink())));
    const auto name = checked_text(info.name);
    if (info.rank == kUnsetRank)
      return plugin_->misbehaved("context.tensor", format("returned 0 and left %s %llu unset", side, i));
    if (!name || name->empty())
      return plugin_->misbehaved("context.tensor", format("returned 0 and left the name of %s %llu unset", side, i));
    if (!dtype_from_number(info.dtype))
      return plugin_->misbehaved("context.tensor", format("gave %s %llu dtype %d, which is none", side, i, info.dtype));
    if (info.rank > QR_PLUGIN_MAX_RANK)
      return plugin_->misbehaved("context.tensor", format("gave %s %llu rank %u, expected at most %d", side, i,
                                                          info.rank, QR_PLUGIN_MAX_RANK));
    TensorInfo tensor;
    tensor.dtype = info.dtype;
    tensor.rank = info.rank;
    for (std::uint32_t axis = 0; axis < info.rank; ++axis) {
      if (info.dims[axis] < (may_be_open ? -1 : 0))
        return plugin_->misbehaved("context.tensor",
                                   format("gave %s %llu dimension %lld on axis %u", side, i, info.dims[axis], axis));
      tensor.dims[axis] = info.dims[axis];
      tensor.is_static = tensor.is_static && info.dims[axis] >= 0;
    }
    if (tensor.is_static) {
      const auto elements = element_count(tensor.dims, tensor.rank);
      const auto bytes = elements ? packed_size(static_cast<DType>(tensor.dtype), *elements) : std::nullopt;
      if (!bytes)
        return plugin_->misbehaved("context.tensor",
                                   format("gave %s %llu a shape of more bytes than there can be", side, i));
      tensor.bytes = *bytes;
    }
    tensor.name = *name;
    out.push_back(std::move(tensor));
  }
  return {};
}

QR_COLD Result<Unique<Execution>> Context::create_execution(std::uint32_t graph, const qr_plugin_option *options,
                                                            std::uint64_t option_count, std::uint64_t queue_depth,
                                                            std::span<qr_plugin_appended> appended) {
  const qr_plugin_execution_api &api = *plugin_->table_->execution;
  const qr_execution_request request{sizeof request, graph,           options,        option_count,
                                     queue_depth,    appended.data(), appended.size()};
  qr_execution *handle = nullptr;
  ErrorCollector errors(*plugin_);
  QR_RETURN_IF_ERROR(errors.finish("execution.create", api.create(handle_, &request, &handle, errors.sink())));
  if (!handle) return plugin_->misbehaved("execution.create", "returned 0 and left its execution NULL");
  try {
    return quarry::make_unique<Execution>(shared_from_this(), graph, queue_depth, handle);
  } catch (...) {
    api.destroy(handle);
    throw;
  }
}

// ---- execution ----------------------------------------------------------------------------------

Execution::Execution(std::shared_ptr<Context> context, std::uint32_t graph, std::uint64_t queue_depth,
                     qr_execution *handle)
    : context_(std::move(context)),
      graph_(graph),
      places_(queue_depth + 1),
      given_(places_ * context_->graphs()[graph].outputs.size()),
      handle_(handle) {}

Execution::~Execution() { context_->plugin_->table_->execution->destroy(handle_); }

namespace {

// Whether an output of a shape known beforehand is as it must be: what nearly every output is. output_fault says what
// is wrong.
bool as_declared(const TensorInfo &declared, const qr_io_buffer &output, const void *given_data, std::uint64_t room,
                 bool is_memory) {
  bool fits = declared.is_static && output.rank == declared.rank && output.used_bytes == declared.bytes &&
              (given_data || is_memory) && output.data == given_data && output.used_bytes <= room;
  for (std::uint32_t axis = 0; axis < declared.rank; ++axis) fits = fits && output.dims[axis] == declared.dims[axis];
  return fits;
}

// What is wrong with an output after a run that returned 0; empty: nothing. Allocates only when something is.
QR_COLD String output_fault(const TensorInfo &declared, const qr_io_buffer &output, const void *given_data,
                            std::uint64_t room, bool is_memory, std::uint64_t index) {
  const auto fault = [&](const String &what) {
    return format("returned 0 and output %llu (%s) %s", index, printable(declared.name), what);
  };
  if (output.rank == kUnsetRank || output.used_bytes == kUnsetBytes) return fault("left unset");
  if (output.rank != declared.rank) return fault(format("of rank %u, expected %u", output.rank, declared.rank));
  bool fits = true;
  for (std::uint32_t axis = 0; axis < output.rank; ++axis)
    fits = fits && output.dims[axis] >= 0 && (declared.dims[axis] < 0 || declared.dims[axis] == output.dims[axis]);
  if (!fits)
    return fault(format("of shape %s, expected %s", shape_text(output.dims, output.rank),
                        shape_text(declared.dims, declared.rank)));
  const auto count = element_count(output.dims, output.rank);
  // A size past 2^64 is no output's: used_bytes was not left unset, so it differs from this value.
  const std::uint64_t bytes =
      count ? packed_size(static_cast<DType>(declared.dtype), *count).value_or(kUnsetBytes) : kUnsetBytes;
  if (output.used_bytes != bytes)
    return fault(format("of %llu bytes, expected %llu for %s of %s", output.used_bytes, bytes,
                        dtype_name(static_cast<DType>(declared.dtype)), shape_text(output.dims, output.rank)));
  if (given_data || is_memory) {
    if (output.data != given_data) return fault("at another address than the host gave");
    if (output.used_bytes > room)
      return fault(format("of %llu bytes, expected at most the room of %llu", output.used_bytes, room));
  } else if (!output.data && output.used_bytes) {
    return fault("without data");
  }
  return {};
}

}  // namespace

Status Execution::prepare(const qr_run_request &request, Given *given) {
  const GraphTensors &declared = tensors();
  if (request.output_count != declared.outputs.size() || request.input_count != declared.inputs.size())
    return Status::errorf(ErrorId::internal, "run: found %llu inputs and %llu outputs, expected %zu and %zu",
                          request.input_count, request.output_count, declared.inputs.size(), declared.outputs.size());
  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    qr_io_buffer &output = request.outputs[i];
    given[i] = {output.data, output.size_bytes, output.memory != nullptr};
    output.rank = kUnsetRank;
    output.used_bytes = kUnsetBytes;
  }
  return {};
}

Status Execution::validate_outputs(const char *slot, Status status, const qr_run_request &request, const Given *given) {
  Plugin &plugin = *context_->plugin_;
  if (status.code() == QR_DEVICE_LOST && status.id() != error_row(ErrorId::device_lost).id) {
    Status lost = Status::error(ErrorId::device_lost, status.message(), status.hint());
    for (const Status::Detail &frame : status.payload()->details) lost.with(frame.key, frame.value);
    return lost;
  }
  if (!status.ok()) return status;
  const Vector<TensorInfo> &declared = tensors().outputs;
  for (std::uint64_t i = 0; i < request.output_count; ++i) {
    const qr_io_buffer &output = request.outputs[i];
    const Given &was = given[i];
    if (!output.wanted || as_declared(declared[i], output, was.data, was.room, was.is_memory)) continue;
    if (const String fault = output_fault(declared[i], output, was.data, was.room, was.is_memory, i); !fault.empty())
      return plugin.misbehaved(slot, fault);
  }
  return {};
}

Status Execution::run(const qr_run_request &request) {
  Plugin &plugin = *context_->plugin_;
  Given *const given = given_.data() + (places_ - 1) * tensors().outputs.size();
  QR_RETURN_IF_ERROR(prepare(request, given));
  ErrorCollector errors(plugin);
  Status status = errors.finish("execution.run", plugin.table_->execution->run(handle_, &request, errors.sink()));
  return validate_outputs("execution.run", std::move(status), request, given);
}

bool Execution::submits() const noexcept {
  return QR_HAS_SLOT(context_->plugin_->table_->execution, submit) != nullptr;
}

Result<std::uint64_t> Execution::submit(const qr_run_request &request) {
  Plugin &plugin = *context_->plugin_;
  const std::uint64_t place = submitted_ % (places_ - 1);
  QR_RETURN_IF_ERROR(prepare(request, given_.data() + place * tensors().outputs.size()));
  std::uint64_t ticket = 0;
  ErrorCollector errors(plugin);
  QR_RETURN_IF_ERROR(
      errors.finish("execution.submit", plugin.table_->execution->submit(handle_, &request, &ticket, errors.sink())));
  ++submitted_;
  return ticket;
}

Status Execution::wait(std::uint64_t ticket, const qr_run_request &request) {
  Plugin &plugin = *context_->plugin_;
  const std::uint64_t place = waited_++ % (places_ - 1);
  ErrorCollector errors(plugin);
  Status status = errors.finish("execution.wait", plugin.table_->execution->wait(handle_, ticket, errors.sink()));
  return validate_outputs("execution.wait", std::move(status), request,
                          given_.data() + place * tensors().outputs.size());
}

QR_COLD void Execution::plans(qr_plugin_plans *out) const noexcept {
  out->struct_size = sizeof *out;
  const qr_plugin_execution_api &api = *context_->plugin_->table_->execution;
  if (QR_HAS_SLOT(&api, plans)) api.plans(handle_, out);
}

QR_COLD Status Execution::set_option(std::string_view key, std::string_view value) {
  Plugin &plugin = *context_->plugin_;
  const qr_plugin_execution_api &api = *plugin.table_->execution;
  if (!QR_HAS_SLOT(&api, set_option))
    return Status::errorf(ErrorId::option_not_at_run_time, "option %s: backend %s changes none at run time",
                          printable(key), plugin.id_)
        .with("backend", plugin.id());
  ErrorCollector errors(plugin);
  return errors.finish("execution.set_option",
                       api.set_option(handle_, plugin_text(key), plugin_text(value), errors.sink()));
}

}  // namespace quarry::loader
