// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/run/execution.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include "backends/htp/program/io_binding.h"
#include "backends/htp/run/profile.h"
#include "base/checked.h"

namespace quarry::htp {

namespace {

const plugin::ProcessorMemory *memory_of(const qr_io_buffer &io) noexcept {
  return reinterpret_cast<const plugin::ProcessorMemory *>(io.memory);
}

}  // namespace

Execution::Execution(LoadedContext &context, std::size_t graph, const Settings &settings)
    : context_(context),
      graph_(context.blob().graphs[graph]),
      index_(graph),
      binding_(graph_),
      priority_(read_priority(context.settings().text("qnn_context_priority"))),
      traces_(settings.flag("htp.optrace")),
      registers_memory_(settings.flag("enable_htp_shared_memory_allocator")) {
  power_.during = find_power_profile(settings.text("qnn.htp_perf_mode"));
  power_.after = find_power_profile(settings.text("qnn.htp_perf_mode_post_run"));
  power_.rpc_latency_us = static_cast<std::uint32_t>(settings.number("qnn.rpc_control_latency"));
  is_efficient_ = settings.text("ep.dynamic.workload_type") == "Efficient";
  if (const PowerProfile *const profile = find_power_profile(settings.text("ep.dynamic.qnn_htp_performance_mode")))
    context_.power().choose(profile);
  bind_stages(settings);
  if (const LoadedRegion *const region = context_.region(index_))
    region_ = quarry::make_unique<RegionRun>(context_, graph_, *region, settings);
}

Execution::~Execution() = default;

std::uint32_t Execution::queue_priority() const noexcept {
  const auto priority = static_cast<std::uint32_t>(is_efficient_ ? qnn::Priority::Low : priority_);
  // The rest of what is efficient comes behind what is low for another reason.
  return is_efficient_ ? priority : priority + 1;
}

Status Execution::set_option(std::string_view key, std::string_view value) {
  for (const auto &stage : stages_) QR_RETURN_IF_ERROR(stage->set_option(key, value));
  if (region_) QR_RETURN_IF_ERROR(region_->set_option(key, value));
  if (key == "qnn.htp_perf_mode") {
    power_.during = find_power_profile(value);
  } else if (key == "qnn.htp_perf_mode_post_run") {
    power_.after = find_power_profile(value);
  } else if (key == "qnn.rpc_control_latency") {
    power_.rpc_latency_us = 0;
    std::from_chars(value.data(), value.data() + value.size(), power_.rpc_latency_us);  // the host has checked it
  } else if (key == "ep.dynamic.qnn_htp_performance_mode") {
    context_.power().choose(find_power_profile(value));
  } else if (key == "htp.lora_sections") {
    QR_RETURN_IF_ERROR(context_.apply_sections(value, &graph_.name));
  } else if (key == "ep.dynamic.workload_type") {
    const bool efficient = value == "Efficient";
    QR_RETURN_IF_ERROR(context_.set_priority(efficient ? qnn::Priority::Low : priority_));
    is_efficient_ = efficient;
  } else {
    return Status::error(ErrorId::bad_option_value,
                         format("option %s: found '%s', which the htp backend does not do yet; expected it unchanged",
                                printable(key), printable(value)),
                         "leave the option out");
  }
  return {};
}

Binding::Binding(const BlobGraph &graph) : graph_(graph) {
  bind(graph_.inputs, inputs, input_places_);
  bind(graph_.outputs, outputs, output_places_);
}

void Binding::bind(const Vector<BlobTensor> &from, Vector<qnn::Tensor> &tensors, Vector<BoundTensor> &places) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    const BlobTensor &tensor = from[i];
    if (tensor.storage != BlobStorage::Device) continue;
    qnn::Tensor made{};
    made.version = 1;
    made.v1.id = tensor.id;
    made.v1.dtype = tensor.device_dtype;
    made.v1.rank = static_cast<std::uint32_t>(tensor.device_dims.size());
    made.v1.mem = qnn::TensorMem::Raw;
    made.v1.q.defined = qnn::Defined::Undef, made.v1.q.enc = qnn::QuantEnc::Undef;
    std::uint64_t elements = 1;
    for (const std::uint32_t extent : tensor.device_dims) elements *= extent;
    BoundTensor &place = places.emplace_back();
    place.io = i, place.dims = tensor.device_dims;
    made.v1.dims = place.dims.data();
    place.session_bytes = *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size()));
    place.device_bytes = elements * element_bytes(tensor.device_dtype);
    const bool is_real = tensor.dtype == DType::F64 || tensor.dtype == DType::BF16;
    place.path = tensor.scale != 0                                      ? Path::Quantize
                 : is_real && tensor.device_dtype == qnn::DataType::F32 ? Path::Reals
                 : place.session_bytes == place.device_bytes            ? Path::AsIs
                 : tensor.dtype == DType::I64                           ? Path::Narrow
                                                                        : Path::NarrowUnsigned;
    // Bools too: those that a caller has as other numbers than 0 and 1 are put right there.
    if (place.path != Path::AsIs || tensor.dtype == DType::Bool) place.room.resize(place.device_bytes);
    tensors.push_back(made);
  }
}

Status Binding::bind_memory(LoadedContext *registers, const qr_io_buffer &io, const BoundTensor &place,
                            qnn::Tensor &tensor) const {
  tensor.v1.mem = qnn::TensorMem::Raw;
  if (!registers || !io.memory || place.path != Path::AsIs) return {};
  QR_ASSIGN_OR_RETURN(qnn::Handle handle,
                      registers->registered(*memory_of(io), io.memory_offset, tensor, batches_ * place.device_bytes));
  tensor.v1.mem = qnn::TensorMem::Registered;
  tensor.v1.mem_handle = handle;
  return {};
}

Status Binding::take_input(LoadedContext *registers, BoundTensor &place, const qr_io_buffer &io, qnn::Tensor &tensor) {
  const BlobTensor &from = graph_.inputs[place.io];
  const std::uint64_t session_bytes = batches_ * place.session_bytes, device_bytes = batches_ * place.device_bytes;
  if (!io.data || io.size_bytes != session_bytes)
    return Status::error(ErrorId::run_shape, format("input %s: found %llu bytes, expected %llu", printable(from.name),
                                                    io.data ? io.size_bytes : 0, session_bytes));
  if (place.path != Path::AsIs || from.dtype == DType::Bool) place.room.resize(device_bytes);
  tensor.v1.mem = qnn::TensorMem::Raw;
  tensor.v1.buf = {io.data, static_cast<std::uint32_t>(device_bytes)};
  if (from.dtype == DType::Bool && place.path == Path::AsIs) {
    const auto *const bytes = static_cast<const std::uint8_t *>(io.data);
    if (std::any_of(bytes, bytes + device_bytes, [](std::uint8_t byte) { return byte > 1; })) {
      std::transform(bytes, bytes + device_bytes, place.room.data(),
                     [](std::uint8_t byte) { return static_cast<std::uint8_t>(byte != 0); });
      tensor.v1.buf.data = place.room.data();
      return {};
    }
  }
  if (place.path == Path::AsIs) return bind_memory(registers, io, place, tensor);
  tensor.v1.buf.data = place.room.data();
  if (place.path == Path::Quantize) {
    quantize_border(from.device_dtype, from.scale, from.zero_point, io.data, place.room.data(), session_bytes / 4);
    return {};
  }
  if (place.path == Path::Reals) {
    reals_to_floats(from.dtype, io.data, place.room.data(), device_bytes / 4);
    return {};
  }
  const bool is_signed = place.path == Path::Narrow;
  const std::int64_t low = is_signed ? std::numeric_limits<std::int32_t>::min() : 0,
                     high = is_signed ? std::numeric_limits<std::int32_t>::max()
                                      : std::numeric_limits<std::uint32_t>::max();
  for (std::uint64_t k = 0; k < device_bytes / 4; ++k) {
    std::int64_t value;
    std::memcpy(&value, static_cast<const std::uint8_t *>(io.data) + 8 * k, 8);
    if (value < low || value > high)
      return Status::error(
          ErrorId::run_value,
          format("input %s: found %lld at element %llu, expected a number of 32 bits, which is what the device "
                 "computes with",
                 printable(from.name), value, k));
    const auto narrow = static_cast<std::uint32_t>(value);
    std::memcpy(place.room.data() + 4 * k, &narrow, 4);
  }
  return {};
}

// How many the run has, which all inputs say alike. The library knows it by the first axis of each tensor.
Status Binding::count_batches(const qr_run_request &request) {
  if (graph_.rows == 0) return {};
  for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
    const qr_io_buffer &io = request.inputs[i];
    const BlobTensor &tensor = graph_.inputs[i];
    const auto rows = static_cast<std::int64_t>(graph_.rows), most = static_cast<std::int64_t>(graph_.most);
    qir::Shape wanted = tensor.shape;
    wanted[0] = qir::kUnknownDim;
    bool fits = io.rank == wanted.size();
    for (std::size_t d = 1; fits && d < wanted.size(); ++d) fits = io.dims[d] == wanted[d];
    if (!fits)
      return Status::error(ErrorId::run_shape,
                           format("input %s: found %s, expected %s", printable(tensor.name),
                                  shape_text(io.dims, io.rank), shape_text(wanted.data(), wanted.size())));
    const std::int64_t found = io.dims[0];
    if (found < rows || found > most || found % rows != 0)
      return Status::error(
          ErrorId::run_shape,
          format("input %s: found %lld in its first axis, expected %s", printable(tensor.name), found,
                 rows == 1 ? format("1 to %lld", most) : format("a multiple of %lld, up to %lld", rows, most)),
          "fill the batch up, or compile for a smaller one: the least number of the range in shape");
    const auto batches = static_cast<std::uint64_t>(found / rows);
    if (i > 0 && batches != batches_)
      return Status::error(
          ErrorId::run_shape,
          format("input %s: found %lld in its first axis, expected %lld, as input %s has it", printable(tensor.name),
                 found, static_cast<std::int64_t>(batches_) * rows, printable(graph_.inputs[0].name)));
    batches_ = batches;
  }
  const auto lay = [&](const Vector<BlobTensor> &from, Vector<BoundTensor> &places) -> Status {
    for (BoundTensor &place : places) {
      const BlobTensor &tensor = from[place.io];
      if (place.device_bytes > UINT32_MAX / batches_ || tensor.device_dims[0] > UINT32_MAX / batches_)
        return Status::error(ErrorId::run_shape,
                             format("%s: found %llu batches of %llu bytes, expected less than 4 GB",
                                    printable(tensor.name), batches_, place.device_bytes),
                             "run fewer at once");
      place.dims[0] = static_cast<std::uint32_t>(batches_ * tensor.device_dims[0]);
    }
    return {};
  };
  QR_RETURN_IF_ERROR(lay(graph_.inputs, input_places_));
  return lay(graph_.outputs, output_places_);
}

// The library looks at no size: all are checked here.
Status Binding::take(LoadedContext &context, bool registers_memory, const qr_run_request &request) {
  QR_RETURN_IF_ERROR(count_batches(request));
  LoadedContext *const registers = registers_memory ? &context : nullptr;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    QR_RETURN_IF_ERROR(take_input(registers, input_places_[i], request.inputs[input_places_[i].io], inputs[i]));
  return place_outputs(registers, request);
}

Status Binding::place_outputs(LoadedContext *registers, const qr_run_request &request) {
  for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
    qr_io_buffer &io = request.outputs[i];
    const BlobTensor &tensor = graph_.outputs[i];
    const std::uint64_t bytes =
        batches_ * *packed_size(tensor.dtype, *element_count(tensor.shape.data(), tensor.shape.size()));
    if (io.data && io.size_bytes < bytes)
      return Status::error(ErrorId::run_shape, format("output %s: found room for %llu bytes, expected %llu",
                                                      printable(tensor.name), io.size_bytes, bytes));
    io.rank = static_cast<std::uint32_t>(tensor.shape.size());
    std::copy(tensor.shape.begin(), tensor.shape.end(), io.dims);
    if (graph_.rows > 0) io.dims[0] *= static_cast<std::int64_t>(batches_);
    io.used_bytes = bytes;
    if (tensor.storage == BlobStorage::Constant && io.data) std::memcpy(io.data, tensor.constant.data(), bytes);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    BoundTensor &place = output_places_[i];
    qr_io_buffer &io = request.outputs[place.io];
    const std::uint64_t bytes = batches_ * place.device_bytes;
    if (graph_.rows > 0 && !io.data && io.wanted) {
      place.given.resize(io.used_bytes);
      io.data = place.given.data(), io.size_bytes = io.used_bytes;
    }
    void *to = io.data;
    if (place.path != Path::AsIs || !to) {
      if (place.room.size() < bytes) place.room.resize(bytes);
      to = place.room.data();
    }
    outputs[i].v1.mem = qnn::TensorMem::Raw;
    outputs[i].v1.buf = {to, static_cast<std::uint32_t>(bytes)};
    if (io.data) QR_RETURN_IF_ERROR(bind_memory(registers, io, place, outputs[i]));
  }
  return {};
}

Status Binding::give_outputs(const qr_run_request &request) const {
  for (const BoundTensor &place : output_places_) {
    const qr_io_buffer &io = request.outputs[place.io];
    if (!io.data || place.path == Path::AsIs) continue;
    const BlobTensor &tensor = graph_.outputs[place.io];
    const std::uint8_t *const from = place.room.data();
    const std::uint64_t session_bytes = batches_ * place.session_bytes;
    if (place.path == Path::Quantize)
      dequantize_border(tensor.device_dtype, tensor.scale, tensor.zero_point, from, io.data, session_bytes / 4);
    else if (place.path == Path::Reals) floats_to_reals(tensor.dtype, from, io.data, batches_ * place.device_bytes / 4);
    else QR_RETURN_IF_ERROR(give_wide(place, request));
  }
  return {};
}

Status Binding::give_wide(const BoundTensor &place, const qr_run_request &request) const {
  const qr_io_buffer &io = request.outputs[place.io];
  const BlobTensor &tensor = graph_.outputs[place.io];
  const bool is_signed = place.path == Path::Narrow;
  // Sums are made of floats there: the last of them below 2^31, or 2^32, is where they end.
  const std::int64_t low = is_signed ? std::numeric_limits<std::int32_t>::min() : -1,
                     high = is_signed ? 2147483520 : 4294967040;
  for (std::uint64_t k = 0; k < batches_ * place.device_bytes / 4; ++k) {
    std::int32_t narrow;
    std::memcpy(&narrow, place.room.data() + 4 * k, 4);
    const std::int64_t value = is_signed ? std::int64_t{narrow} : std::int64_t{static_cast<std::uint32_t>(narrow)};
    if (tensor.may_saturate && (value <= low || value >= high))
      return Status::error(
          ErrorId::run_value,
          format("output %s: found %lld at element %llu, the end of the 32 bits which is what the device computes "
                 "with: the result may be further out",
                 printable(tensor.name), value, k),
          "compute it with floats, or on the host behind a cut (quarry cut)");
    std::memcpy(static_cast<std::uint8_t *>(io.data) + 8 * k, &value, 8);
  }
  return {};
}

// Not device_lost: the host would take the device for lost again.
Status lost_while_waiting() {
  return Status::error(ErrorId::device_busy, "run: the device was lost and recovered while it waited", "run again");
}

Status outcome_of(std::string_view call, qnn::Error error, const plugin::StopToken &stop, const qnn::LogLines *lines) {
  const bool ended_by_signal =
      qnn::code_of(error) == qnn::Code::GraphAborted || qnn::code_of(error) == qnn::Code::GraphTimeout;
  if (ended_by_signal && stop.stopped()) return stop.status("run");
  if (error) return qnn::call_failed(call, error, lines);
  return {};
}

Status Execution::execute(const qr_run_request &request, const plugin::StopToken &stop, std::uint32_t generation) {
  const bool may_stop = request.signal != nullptr;
  const RunQueue::Turn turn(RunQueue::of_process(), queue_priority(), stop, may_stop);
  if (!turn.ok()) return stop.status("run");
  if (context_.generation() != generation) return lost_while_waiting();
  QR_RETURN_IF_ERROR(check_enabled());
  QR_RETURN_IF_ERROR(context_.power().begin(power_));
  Status ran = call_library(request, stop);
  Status lowered = context_.power().end(power_);  // after a run that failed, too
  return ran.ok() ? std::move(lowered) : std::move(ran);
}

Status Execution::call_library(const qr_run_request &request, const plugin::StopToken &stop) {
  const Engine &engine = context_.engine();
  qnn::LogLines lines;
  ProfiledCall profiled(engine, request.profile, traces_, trace_folder());
  QR_RETURN_IF_ERROR(profiled.status());
  qnn::Error error = qnn::kOk;
  {
    const Interrupter::Call interrupted(engine.interrupter(), stop, request.signal != nullptr);
    error = engine.api().graphExecute(handle(), binding_.inputs.data(), binding_.input_count(), binding_.outputs.data(),
                                      binding_.output_count(), profiled.handle(), interrupted.signal());
  }
  QR_RETURN_IF_ERROR(outcome_of("graphExecute", error, stop, &lines));
  profiled.tell("graphExecute", &graph_.nodes);
  return {};
}

Status Execution::check_enabled() const {
  if (handle()) return {};
  return Status::error(
      ErrorId::backend_limit,
      format("graph %s: it is not loaded, expected one of enable_graphs of htp.config_file", printable(graph_.name)),
      "add it to enable_graphs, or leave the list out");
}

Status Execution::run(const qr_run_request &request, const plugin::StopToken &stop) {
  const plugin::DmaAccess access(request);  // of memory that only the host knows
  if (region_) return region_->run(request, stop);
  const std::uint32_t generation = context_.generation();
  QR_RETURN_IF_ERROR(binding_.take(context_, registers_memory_, request));
  if (!stages_.empty()) return run_stages(request, stop);
  if (!graph_.on_device) return {};
  QR_RETURN_IF_ERROR(execute(request, stop, generation));
  return binding_.give_outputs(request);
}

}  // namespace quarry::htp
