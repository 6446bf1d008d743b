// SPDX-License-Identifier: Apache-2.0
// One run: choose the bucket, bind the caller's tensors, call the backend, hand the results out. Nothing here allocates
// on success once the session has run with the same shapes.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "runtime/memory.h"
#include "runtime/plugin_text.h"
#include "runtime/runtime.h"
#include "runtime/session.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif

// Errors, and what is not met in the runs of every frame: out of the way of the rest, and for size.
#define QR_COLD __attribute__((cold, noinline))

namespace quarry {
namespace {

unsigned long long ull(std::uint64_t value) noexcept { return value; }

Memory *memory_of(const qr_tensor &tensor) noexcept { return reinterpret_cast<Memory *>(tensor.memory); }

bool dims_equal(const qr_tensor &tensor, const loader::TensorInfo &info) noexcept {
  if (tensor.rank != info.rank) return false;
  for (std::uint32_t axis = 0; axis < info.rank; ++axis)
    if (tensor.dims[axis] != info.dims[axis]) return false;
  return true;
}

// Gives zero-sized data an address.
constinit char g_nothing[64] = {};

// Whose memory it is; where it ends is the caller's to check.
QR_COLD Status check_memory(const SessionCore &core, const char *what, const String &name, const qr_tensor &tensor) {
  const Memory &memory = *memory_of(tensor);
  if (&memory.device() != &core.device())
    return Status::error(
               ErrorId::run_bad_memory,
               format("%s %s: found memory of device %u of backend %s%s, expected device %u of backend %s%s", what,
                      printable(name).c_str(), memory.device().index(), String(memory.device().plugin().id()).c_str(),
                      &memory.runtime() == &core.runtime() ? "" : " in another runtime", core.device().index(),
                      String(core.plugin().id()).c_str(), &memory.runtime() == &core.runtime() ? "" : " in this one"))
        .with("tensor", name);
  if (memory.is_mapped())
    return Status::error(ErrorId::memory_state, format("%s %s: its memory is mapped by the host, expected it not to be",
                                                       what, printable(name).c_str()))
        .with("tensor", name);
  if (tensor.data)
    return Status::error(ErrorId::run_bad_memory, format("%s %s: both data and memory are set, expected one of them",
                                                         what, printable(name).c_str()))
        .with("tensor", name);
  return {};
}

void *view_of(const Memory &memory, std::uint64_t offset) noexcept {
  return memory.data() ? static_cast<char *>(memory.data()) + offset : nullptr;
}

// What lies behind memory_offset.
std::uint64_t memory_room(const qr_tensor &tensor) noexcept {
  const std::uint64_t size = memory_of(tensor)->size();
  return tensor.memory_offset < size ? size - tensor.memory_offset : 0;
}

QR_COLD Status no_room(const String &name, std::uint64_t found, const loader::TensorInfo &info,
                       const std::int64_t *dims, std::uint64_t needed) {
  return Status::error(ErrorId::run_room,
                       format("output %s: found room for %llu bytes, expected at least %llu for %s %s",
                              printable(name).c_str(), ull(found), ull(needed),
                              dtype_name(static_cast<DType>(info.dtype)), shape_text(dims, info.rank).c_str()))
      .with("tensor", name);
}

QR_COLD Status no_callers_room(const String &name, const qr_tensor &tensor) {
  return Status::error(ErrorId::run_no_data,
                       format("output %s: %s, expected room of the caller's for a queued run", printable(name).c_str(),
                              tensor.data ? "data is what the session gave out" : "neither data nor memory is set"))
      .with("tensor", name);
}

}  // namespace

Status Session::choose_bucket(const qr_tensor *const *inputs, std::size_t *out_bucket) const {
  const Vector<SessionBucket> &buckets = loaded_->buckets;
  const Vector<qrm::TensorInfo> &signature = core_->inputs();
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const qr_tensor &tensor = *inputs[i];
    if (tensor.dtype != static_cast<qr_dtype>(signature[i].dtype))
      return Status::error(ErrorId::run_dtype, format("input %s: found %s (data type %d), expected %s",
                                                      printable(signature[i].name).c_str(), qr_dtype_name(tensor.dtype),
                                                      tensor.dtype, dtype_name(signature[i].dtype)))
          .with("tensor", signature[i].name);
    if (tensor.rank > QR_MAX_RANK)
      return Status::error(ErrorId::run_shape, format("input %s: found rank %u, expected at most %d",
                                                      printable(signature[i].name).c_str(), tensor.rank, QR_MAX_RANK))
          .with("tensor", signature[i].name);
  }
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    const Vector<loader::TensorInfo> &expected = buckets[b].tensors().inputs;
    std::size_t i = 0;
    while (i < expected.size() && dims_equal(*inputs[i], expected[i])) ++i;
    if (i == expected.size()) {
      *out_bucket = b;
      return {};
    }
  }
  return no_bucket(inputs);
}

// Names the first input that fits no bucket, or, where each fits some, the combination.
QR_COLD Status Session::no_bucket(const qr_tensor *const *inputs) const {
  const Vector<SessionBucket> &buckets = loaded_->buckets;
  const Vector<qrm::TensorInfo> &signature = core_->inputs();
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const auto fits = [&](const SessionBucket &bucket) { return dims_equal(*inputs[i], bucket.tensors().inputs[i]); };
    if (std::any_of(buckets.begin(), buckets.end(), fits)) continue;
    String expected;
    for (const SessionBucket &bucket : buckets) {
      const loader::TensorInfo &info = bucket.tensors().inputs[i];
      const String text = shape_text(info.dims, info.rank);
      if (expected.find(text) != String::npos) continue;
      expected += expected.empty() ? "" : " or ";
      expected += text;
    }
    return Status::error(ErrorId::run_shape,
                         format("input %s: found %s, expected %s", printable(signature[i].name).c_str(),
                                shape_text(inputs[i]->dims, inputs[i]->rank).c_str(), expected.c_str()))
        .with("tensor", signature[i].name);
  }
  String found, expected;
  for (std::size_t i = 0; i < signature.size(); ++i)
    found += format("%s%s=%s", i ? ", " : "", printable(signature[i].name).c_str(),
                    shape_text(inputs[i]->dims, inputs[i]->rank).c_str());
  for (const SessionBucket &bucket : buckets)
    expected += format("%s\"%s\"", expected.empty() ? "" : " or ", printable(bucket.name).c_str());
  return Status::error(ErrorId::run_shape, format("inputs %s: no shape bucket has them together, expected %s",
                                                  found.c_str(), expected.c_str()));
}

Status Session::bind_input(RunFrame &frame, std::size_t index, const qr_tensor &tensor) {
  const loader::TensorInfo &info = frame.tensors->inputs[index];
  const String &name = core_->inputs()[index].name;
  const std::uint64_t needed = info.bytes;
  qr_io_buffer &buffer = frame.inputs[index];
  buffer = {};
  buffer.size_bytes = needed;
  buffer.wanted = 1;
  buffer.rank = info.rank;
  std::memcpy(buffer.dims, info.dims, sizeof buffer.dims);
  if (Memory *memory = memory_of(tensor)) {
    QR_RETURN_IF_ERROR(check_memory(*core_, "input", name, tensor));
    if (memory_room(tensor) < needed)
      return Status::error(
                 ErrorId::run_bad_memory,
                 format("input %s: found %llu bytes behind offset %llu of its memory, expected %llu",
                        printable(name).c_str(), ull(memory_room(tensor)), ull(tensor.memory_offset), ull(needed)))
          .with("tensor", name);
    buffer.data = view_of(*memory, tensor.memory_offset);
    buffer.memory = memory->handle();
    buffer.memory_offset = tensor.memory_offset;
    return {};
  }
  if (!tensor.data && needed > 0)
    return Status::error(
               ErrorId::run_no_data,
               format("input %s: neither data nor memory is set, expected %llu bytes of %s %s", printable(name).c_str(),
                      ull(needed), qr_dtype_name(tensor.dtype), shape_text(info.dims, info.rank).c_str()))
        .with("tensor", name);
  if (tensor.size_bytes != 0 && tensor.size_bytes < needed)
    return Status::error(ErrorId::run_shape,
                         format("input %s: size_bytes is %llu, expected %llu for %s %s", printable(name).c_str(),
                                ull(tensor.size_bytes), ull(needed), qr_dtype_name(tensor.dtype),
                                shape_text(info.dims, info.rank).c_str()))
        .with("tensor", name);
  buffer.data = tensor.data ? tensor.data : g_nothing;
  return {};
}

// Whether the caller gave an output room; what the last run gave out is the session's, though it comes back.
bool Session::has_room(std::size_t index, const qr_tensor &tensor) const noexcept {
  return tensor.memory || (tensor.data && tensor.data != rooms_[index].last);
}

Status Session::bind_output(RunFrame &frame, std::size_t index, const qr_tensor *tensor, Room from) {
  const loader::TensorInfo &info = frame.tensors->outputs[index];
  const String &name = core_->outputs()[index].name;
  qr_io_buffer &buffer = frame.outputs[index];
  buffer = {};
  if (!tensor) return {};
  buffer.wanted = 1;
  if (from == Room::OfCaller && !has_room(index, *tensor)) return no_callers_room(name, *tensor);
  // A shape that the run finds out: the backend points to its own memory, and check_room and give_output see to the
  // caller's.
  if (!info.is_static) {
    if (!tensor->memory) return {};
    QR_RETURN_IF_ERROR(check_memory(*core_, "output", name, *tensor));
    if (memory_of(*tensor)->data()) return {};
    return Status::error(ErrorId::run_bad_memory,
                         format("output %s: its memory has no view for the host, expected one: only the run knows the "
                                "output's shape",
                                printable(name).c_str()))
        .with("tensor", name);
  }

  const std::uint64_t needed = info.bytes;
  OutputRoom &room = rooms_[index];
  if (Memory *memory = memory_of(*tensor)) {
    QR_RETURN_IF_ERROR(check_memory(*core_, "output", name, *tensor));
    if (memory_room(*tensor) < needed) return no_room(name, memory_room(*tensor), info, info.dims, needed);
    buffer.data = view_of(*memory, tensor->memory_offset);
    buffer.size_bytes = needed;
    buffer.memory = memory->handle();
    buffer.memory_offset = tensor->memory_offset;
  } else if (tensor->data && tensor->data != room.last) {
    if (tensor->size_bytes < needed) return no_room(name, tensor->size_bytes, info, info.dims, needed);
    buffer.data = tensor->data;
    buffer.size_bytes = tensor->size_bytes;
  } else {  // no room given, or what the last run gave out comes back
    if (room.size < needed) {
      void *block = allocate_block(needed, 64);
      free_block(room.block);
      room.block = block;  // `last` stays: it tells give_output whose memory the tensor names
      room.size = needed;
    }
    buffer.data = room.block ? room.block : g_nothing;
    buffer.size_bytes = needed;
  }
  return {};
}

// An input must not lie where this run writes: a backend may write outputs before it has read all inputs.
Status Session::check_overlap(const RunFrame &frame) const {
  // Memory without a view for the host is told apart by its registration.
  const auto begin = [](const qr_io_buffer &buffer) {
    return buffer.data ? reinterpret_cast<std::uintptr_t>(buffer.data) : buffer.memory_offset;
  };
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    const qr_io_buffer &output = frame.outputs[o];
    if (!output.wanted) continue;
    for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
      const qr_io_buffer &input = frame.inputs[i];
      if (input.size_bytes == 0) continue;
      const bool placed = output.data || output.memory;
      const bool comparable =
          (input.data != nullptr) == (output.data != nullptr) && (input.data || input.memory == output.memory);
      if (placed && !comparable) continue;
      const bool overlap =
          placed ? begin(input) < begin(output) + output.size_bytes && begin(output) < begin(input) + input.size_bytes
                 : input.data && input.data == rooms_[o].last;
      if (!overlap) continue;
      return Status::error(
                 ErrorId::run_bad_memory,
                 format("input %s: its data lie where this run writes output %s, expected memory of its own",
                        printable(core_->inputs()[i].name).c_str(), printable(core_->outputs()[o].name).c_str()),
                 "copy the data, or give the output memory of its own")
          .with("tensor", core_->inputs()[i].name);
    }
  }
  return {};
}

// For outputs of unknown shape, once the shape is known and before anything is handed out.
Status Session::check_room(const RunFrame &frame, std::size_t index, const qr_tensor &tensor) const {
  const loader::TensorInfo &info = frame.tensors->outputs[index];
  if (info.is_static) return {};
  const String &name = core_->outputs()[index].name;
  const qr_io_buffer &buffer = frame.outputs[index];
  if (!has_room(index, tensor)) return {};
  const std::uint64_t room = tensor.memory ? memory_room(tensor) : tensor.size_bytes;
  if (room < buffer.used_bytes) return no_room(name, room, info, buffer.dims, buffer.used_bytes);
  return {};
}

void Session::give_output(const RunFrame &frame, std::size_t index, qr_tensor &tensor) {
  const loader::TensorInfo &info = frame.tensors->outputs[index];
  const qr_io_buffer &buffer = frame.outputs[index];
  if (!has_room(index, tensor)) {
    tensor.data = buffer.data ? buffer.data : g_nothing;
    rooms_[index].last = tensor.data;
  } else if (!info.is_static && buffer.used_bytes > 0) {
    void *to = tensor.memory ? static_cast<char *>(memory_of(tensor)->data()) + tensor.memory_offset : tensor.data;
    if (to != buffer.data) std::memcpy(to, buffer.data, buffer.used_bytes);
  }
  tensor.dtype = info.dtype;
  tensor.rank = buffer.rank;
  for (std::uint32_t axis = 0; axis < QR_MAX_RANK; ++axis)
    tensor.dims[axis] = axis < buffer.rank ? buffer.dims[axis] : 0;
  tensor.size_bytes = buffer.used_bytes;
}

Status Session::prepare(RunFrame &frame, const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                        qr_tensor *const *outputs, Room room) {
  if (core_->device().lost() || (core_->device().info().features & QR_DEVICE_NO_FORK))
    QR_RETURN_IF_ERROR(core_->device().check("run"));
  QR_RETURN_IF_ERROR(signal.check("run"));
  if (&core_->loaded() != loaded_ || executions_.empty()) QR_RETURN_IF_ERROR(change_over(signal));
  std::size_t bucket = 0;
  QR_RETURN_IF_ERROR(choose_bucket(inputs, &bucket));
  frame.tensors = &loaded_->buckets[bucket].tensors();
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) QR_RETURN_IF_ERROR(bind_input(frame, i, *inputs[i]));
  for (std::size_t i = 0; i < frame.outputs.size(); ++i) QR_RETURN_IF_ERROR(bind_output(frame, i, outputs[i], room));
  QR_RETURN_IF_ERROR(check_overlap(frame));
  QR_ASSIGN_OR_RETURN(frame.execution, this->execution(bucket));

  EventSink &sink = frame.sink.emplace();
  if (profile) sink.attach(&profile->log(), ProfileLevel::Trace);
  sink.attach(events_.get(), core_->profiling());
  qr_run_request &request = frame.request;
  request = {};
  request.struct_size = sizeof request;
  request.inputs = frame.inputs.data();
  request.input_count = frame.inputs.size();
  request.outputs = frame.outputs.data();
  request.output_count = frame.outputs.size();
  request.signal = signal.plugin();
  request.profile = sink.plugin_sink();
  request.threads = frame.threads.table();
  frame.begin_ns = sink.wanted() ? loader::monotonic_ns() : 0;
  return {};
}

Status Session::execute(RunFrame &frame) {
  const ThreadPool::RunScope under_way(own_threads_);
  return frame.execution->run(frame.request);
}

Status Session::complete(RunFrame &frame, Status status, qr_tensor *const *outputs) {
  if (Status broken = frame.threads.take_fault(); !broken.ok()) status = std::move(broken);
  if (frame.sink->wanted()) {
    const std::uint64_t end = loader::monotonic_ns();
    frame.sink->add_call("run", "run", frame.begin_ns, end);
    if (events_ && core_->profiling_path().empty())
      core_->runtime().log().write(QR_LOG_INFO, "profile",
                                   format("run: %.3f ms", static_cast<double>(end - frame.begin_ns) / 1e6));
  }
  if (!status.ok()) return core_->device().note(std::move(status));
  for (std::size_t i = 0; i < frame.outputs.size(); ++i)
    if (outputs[i]) QR_RETURN_IF_ERROR(check_room(frame, i, *outputs[i]));
  for (std::size_t i = 0; i < frame.outputs.size(); ++i)
    if (outputs[i]) give_output(frame, i, *outputs[i]);
  return {};
}

Status Session::run(const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                    qr_tensor *const *outputs) {
  const RunQueue::Alone alone(queue_, "qr_session_run", RunQueue::Until::Empty, signal);
  QR_RETURN_IF_ERROR(alone.status());
  QR_RETURN_IF_ERROR(prepare(frame_, signal, profile, inputs, outputs, Room::OfSession));
  QR_RETURN_IF_ERROR(complete(frame_, execute(frame_), outputs));
  if (!retired_.empty()) retired_.clear();
  return {};
}

}  // namespace quarry
