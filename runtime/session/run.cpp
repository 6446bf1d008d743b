// SPDX-License-Identifier: Apache-2.0
// One run: choose the bucket, bind the caller's tensors, call the backend, hand the results out. Nothing here allocates
// on success once the session has run with the same shapes.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/clock.h"
#include "base/os/tracing.h"
#include "runtime/core/plugin_text.h"
#include "runtime/core/runtime.h"
#include "runtime/session/memory.h"
#include "runtime/session/session.h"
#include "runtime/session/state.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2")  // the library is built for size; what every run goes through is built for speed
#endif

// Errors, and what is not met in the runs of every frame: out of the way of the rest, and for size.
#define QR_COLD __attribute__((cold, noinline))

namespace quarry {
namespace {

Memory *memory_of(const qr_tensor &tensor) noexcept { return reinterpret_cast<Memory *>(tensor.memory); }

// Of an input whose shape the run gives; nothing where there is no such tensor.
QR_COLD std::optional<std::uint64_t> bytes_of(const qr_tensor &tensor) noexcept {
  const auto count = element_count(tensor.dims, tensor.rank);
  return count ? packed_size(static_cast<DType>(tensor.dtype), *count) : std::nullopt;
}

bool dims_equal(const qr_tensor &tensor, const loader::TensorInfo &info) noexcept {
  if (tensor.rank != info.rank || (!info.is_static && !bytes_of(tensor))) return false;
  for (std::uint32_t axis = 0; axis < info.rank; ++axis)
    if (tensor.dims[axis] != info.dims[axis] && info.dims[axis] >= 0) return false;
  return true;
}

// The room that an output's `data` is. What a run gave out is the session's, though it comes back.
void *callers_data(const qr_tensor &tensor) noexcept {
  return tensor.flags & QR_TENSOR_OF_SESSION ? nullptr : tensor.data;
}

// Of the session's state, where a run finds room for what only it knows the size of.
bool is_state(const qr_tensor &tensor) noexcept { return tensor.flags & kOfState; }

bool has_room(const qr_tensor &tensor) noexcept { return tensor.memory || callers_data(tensor); }

// Says to the system's tracing how long a run took, where it listens.
class TracedRun {
 public:
  explicit TracedRun(const SessionCore &core) noexcept : core_(core) {
    if (os::is_traced(4, os::TraceKeyword::Profile)) begin_ns_ = now_ns();
  }
  ~TracedRun() {
    if (begin_ns_ != 0)
      os::trace("Run", 4, os::TraceKeyword::Profile,
                {{"Backend", core_.plugin().id()}, {"Begin", begin_ns_}, {"Nanoseconds", now_ns() - begin_ns_}});
  }
  TracedRun(const TracedRun &) = delete;
  TracedRun &operator=(const TracedRun &) = delete;

 private:
  const SessionCore &core_;
  std::uint64_t begin_ns_ = 0;
};

// Gives zero-sized data an address.
constinit char g_nothing[64] = {};

// Whether the elements of a data type can lie there. The kernels read and write them as what they are.
bool is_aligned(std::uint64_t at, qr_dtype dtype) noexcept {
  return at % std::max<std::uint64_t>(dtype_bits(static_cast<DType>(dtype)) / 8, 1) == 0;
}

// Whose memory it is; where it ends is the caller's to check.
QR_COLD Status check_memory(const SessionCore &core, const char *what, const String &name, const qr_tensor &tensor,
                            const void *data, qr_dtype dtype) {
  const Memory &memory = *memory_of(tensor);
  if (&memory.device() != &core.device())
    return Status::errorf(ErrorId::run_bad_memory,
                          "%s %s: found memory of device %u of backend %s%s, expected device %u of backend %s%s", what,
                          printable(name), memory.device().index(), memory.device().plugin().id(),
                          &memory.runtime() == &core.runtime() ? "" : " in another runtime", core.device().index(),
                          core.plugin().id(), &memory.runtime() == &core.runtime() ? "" : " in this one")
        .with("tensor", name);
  if (memory.is_mapped())
    return Status::errorf(ErrorId::memory_state, "%s %s: its memory is mapped by the host, expected it not to be", what,
                          printable(name))
        .with("tensor", name);
  if (!is_aligned(tensor.memory_offset, dtype))
    return Status::errorf(ErrorId::run_bad_memory,
                          "%s %s: found memory_offset %llu, expected a multiple of the size of %s", what,
                          printable(name), tensor.memory_offset, qr_dtype_name(dtype))
        .with("tensor", name);
  if (data || tensor.const_data)
    return Status::errorf(ErrorId::run_bad_memory, "%s %s: both %s and memory are set, expected one of them", what,
                          printable(name), tensor.const_data ? "const_data" : "data")
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

// Where an output lies after the run: what only the run knows the size of is copied to the caller's room.
Span span_of_result(const qr_io_buffer &buffer, const loader::TensorInfo &info, const qr_tensor &tensor) noexcept {
  if (info.is_static || !has_room(tensor)) return span_of(buffer, buffer.used_bytes);
  return span_of(tensor.memory ? view_of(*memory_of(tensor), tensor.memory_offset) : tensor.data, buffer.used_bytes);
}

QR_COLD Status no_room(const String &name, std::uint64_t found, const loader::TensorInfo &info,
                       const std::int64_t *dims, std::uint64_t needed) {
  return Status::errorf(ErrorId::run_room, "output %s: found room for %llu bytes, expected at least %llu for %s %s",
                        printable(name), found, needed, dtype_name(static_cast<DType>(info.dtype)),
                        shape_text(dims, info.rank))
      .with("tensor", name);
}

QR_COLD Status no_callers_room(const String &name, const qr_tensor &tensor) {
  return Status::errorf(ErrorId::run_no_data, "output %s: %s, expected room of the caller's for a queued run",
                        printable(name),
                        tensor.data ? "data is what the session gave out" : "neither data nor memory is set")
      .with("tensor", name);
}

QR_COLD Status not_of_session(const String &name) {
  return Status::hinted(ErrorId::run_bad_memory,
                        "clear flags where you set data; set data to NULL where another session gave it",
                        "output %s: flags has QR_TENSOR_OF_SESSION and data is not what this session gave out, "
                        "expected data NULL, or the flag cleared beside room of the caller's",
                        printable(name).c_str())
      .with("tensor", name);
}

QR_COLD Status two_pointers(const String &name) {
  return Status::errorf(ErrorId::run_bad_memory, "input %s: both data and const_data are set, expected one of them",
                        printable(name))
      .with("tensor", name);
}

QR_COLD Status no_place_to_write(const String &name) {
  return Status::hinted(ErrorId::run_bad_memory, "set const_data of inputs alone",
                        "output %s: const_data is set, expected data or memory, which a run writes to",
                        printable(name).c_str())
      .with("tensor", name);
}

}  // namespace

Status Session::choose_bucket(RunFrame &frame, const qr_tensor *const *inputs, std::size_t *out_bucket) const {
  const Vector<SessionBucket> &buckets = loaded_->buckets;
  const Vector<qrm::TensorInfo> &signature = core_->inputs();
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const qr_tensor &tensor = *inputs[i];
    if (tensor.dtype != static_cast<qr_dtype>(signature[i].dtype))
      return Status::errorf(ErrorId::run_dtype, "input %s: found %s (data type %d), expected %s",
                            printable(signature[i].name), qr_dtype_name(tensor.dtype), tensor.dtype,
                            dtype_name(signature[i].dtype))
          .with("tensor", signature[i].name);
    if (tensor.rank > QR_MAX_RANK)
      return Status::errorf(ErrorId::run_shape, "input %s: found rank %u, expected at most %d",
                            printable(signature[i].name), tensor.rank, QR_MAX_RANK)
          .with("tensor", signature[i].name);
  }
  const Padding *const padding = core_->padding();
  frame.fit.is_on = false;
  for (std::size_t b = 0; b < buckets.size() && !(padding && padding->has_state()); ++b) {
    const Vector<loader::TensorInfo> &expected = buckets[b].tensors().inputs;
    std::size_t i = 0;
    while (i < expected.size() && dims_equal(*inputs[i], expected[i])) ++i;
    if (i == expected.size()) {
      *out_bucket = b;
      return {};
    }
  }
  if (padding && padding->fit(buckets, inputs, state_ ? state_->length() : 0, frame.fit, out_bucket)) return {};
  return no_bucket(inputs);
}

// Names the first input that fits no bucket, or, where each fits some, the combination.
QR_COLD Status Session::no_bucket(const qr_tensor *const *inputs) const {
  const Vector<SessionBucket> &buckets = loaded_->buckets;
  const Vector<qrm::TensorInfo> &signature = core_->inputs();
  if (core_->padding()) return core_->padding()->no_fit(inputs, state_ ? state_->length() : 0, buckets);
  for (std::size_t i = 0; i < signature.size(); ++i) {
    const auto fits = [&](const SessionBucket &bucket) { return dims_equal(*inputs[i], bucket.tensors().inputs[i]); };
    if (std::any_of(buckets.begin(), buckets.end(), fits)) continue;
    String expected;
    bool has_room = false;  // one that is larger
    for (const SessionBucket &bucket : buckets) {
      const loader::TensorInfo &info = bucket.tensors().inputs[i];
      has_room |= info.is_static && info.rank == inputs[i]->rank &&
                  std::equal(info.dims, info.dims + info.rank, inputs[i]->dims, std::greater_equal());
      const String text = shape_text(info.dims, info.rank);
      if (expected.find(text) != String::npos) continue;
      expected += expected.empty() ? "" : " or ";
      expected += text;
    }
    return Status::hinted(ErrorId::run_shape,
                          has_room ? "create the session with the option shape.pad (DIMENSION:MASK), which runs it "
                                     "padded in a larger bucket, or compile the model for this shape (option shape)"
                                   : error_row(ErrorId::run_shape).hint,
                          "input %s: found %s, expected %s", printable(signature[i].name).c_str(),
                          shape_text(inputs[i]->dims, inputs[i]->rank).c_str(), expected.c_str())
        .with("tensor", signature[i].name);
  }
  String found, expected;
  for (std::size_t i = 0; i < signature.size(); ++i)
    found +=
        format("%s%s=%s", i ? ", " : "", printable(signature[i].name), shape_text(inputs[i]->dims, inputs[i]->rank));
  for (const SessionBucket &bucket : buckets)
    expected += format("%s\"%s\"", expected.empty() ? "" : " or ", printable(bucket.name));
  return Status::errorf(ErrorId::run_shape, "inputs %s: no shape bucket has them together, expected %s", found,
                        expected);
}

Status Session::bind_input(RunFrame &frame, std::size_t index, const qr_tensor &tensor) {
  const loader::TensorInfo &info = frame.tensors->inputs[index];
  const String &name = core_->inputs()[index].name;
  const std::uint64_t needed = info.is_static ? info.bytes : *bytes_of(tensor);
  qr_io_buffer &buffer = frame.inputs[index];
  buffer = {};
  buffer.size_bytes = needed;
  buffer.wanted = 1;
  buffer.rank = info.rank;
  std::copy_n(tensor.dims, info.rank, buffer.dims);
  if (Memory *memory = memory_of(tensor)) {
    QR_RETURN_IF_ERROR(check_memory(*core_, "input", name, tensor, tensor.data, info.dtype));
    if (memory_room(tensor) < needed)
      return Status::errorf(ErrorId::run_bad_memory,
                            "input %s: found %llu bytes behind offset %llu of its memory, expected %llu",
                            printable(name), memory_room(tensor), tensor.memory_offset, needed)
          .with("tensor", name);
    buffer.data = view_of(*memory, tensor.memory_offset);
    buffer.memory = memory->handle();
    buffer.memory_offset = tensor.memory_offset;
    return {};
  }
  if (tensor.data && tensor.const_data) return two_pointers(name);
  const void *data = tensor.const_data ? tensor.const_data : tensor.data;
  if (!data && needed > 0)
    return Status::errorf(ErrorId::run_no_data,
                          "input %s: neither data nor memory is set, expected %llu bytes of %s %s", printable(name),
                          needed, qr_dtype_name(tensor.dtype), shape_text(buffer.dims, info.rank))
        .with("tensor", name);
  if (tensor.size_bytes != 0 && tensor.size_bytes < needed)
    return Status::errorf(ErrorId::run_shape, "input %s: size_bytes is %llu, expected %llu for %s %s", printable(name),
                          tensor.size_bytes, needed, qr_dtype_name(tensor.dtype), shape_text(buffer.dims, info.rank))
        .with("tensor", name);
  buffer.data = data ? const_cast<void *>(data) : g_nothing;  // no backend writes to an input
  return {};
}

// The session's own memory for an output: what the last run gave out, unless this one reads it or needs more.
void *Session::room_for(RunFrame &frame, std::size_t index, std::uint64_t needed) {
  OutputRoom &room = rooms_[index];
  if (needed == 0) return g_nothing;
  if (room.given.size >= needed && !frame.read.overlaps(span_of(room.given.data, needed))) return room.given.data;
  if (room.other.size < needed) {
    void *block = allocate_block(needed, 64);
    free_block(room.other.data);  // of a run before the last, which no input may lie in
    room.other = {block, needed};
  }
  return room.other.data;
}

Status Session::bind_output(RunFrame &frame, std::size_t index, const qr_tensor *tensor, Room from) {
  const loader::TensorInfo &info = frame.tensors->outputs[index];
  const String &name = core_->outputs()[index].name;
  qr_io_buffer &buffer = frame.outputs[index];
  buffer = {};
  if (frame.fit.is_on) frame.fit.targets[index] = nullptr;
  if (!tensor) return {};
  buffer.wanted = 1;
  if (tensor->const_data) return no_place_to_write(name);
  if (!has_room(*tensor)) {
    if (from == Room::OfCaller) return no_callers_room(name, *tensor);
    // Addresses decide nothing here: they find a caller that forgot to clear the flag, whose room would stay empty.
    if (tensor->data && !rooms_[index].gave(tensor->data) && tensor->data != g_nothing) return not_of_session(name);
  }
  // A shape that the run finds out: the backend points to its own memory, and check_room and give_output see to the
  // caller's.
  if (!info.is_static) {
    if (is_state(*tensor)) buffer.data = tensor->data, buffer.size_bytes = tensor->size_bytes;
    if (!tensor->memory) return {};
    QR_RETURN_IF_ERROR(check_memory(*core_, "output", name, *tensor, callers_data(*tensor), info.dtype));
    if (memory_of(*tensor)->data()) return {};
    return Status::errorf(ErrorId::run_bad_memory,
                          "output %s: its memory has no view for the host, expected one: only the run knows the "
                          "output's shape",
                          printable(name))
        .with("tensor", name);
  }

  const std::uint64_t needed = info.bytes;
  if (Memory *memory = memory_of(*tensor)) {
    QR_RETURN_IF_ERROR(check_memory(*core_, "output", name, *tensor, callers_data(*tensor), info.dtype));
    if (memory_room(*tensor) < needed) return no_room(name, memory_room(*tensor), info, info.dims, needed);
    buffer.data = view_of(*memory, tensor->memory_offset);
    buffer.size_bytes = needed;
    buffer.memory = memory->handle();
    buffer.memory_offset = tensor->memory_offset;
  } else if (has_room(*tensor)) {
    if (tensor->size_bytes < needed) return no_room(name, tensor->size_bytes, info, info.dims, needed);
    buffer.data = tensor->data;
    buffer.size_bytes = tensor->size_bytes;
  } else {
    buffer.data = room_for(frame, index, needed);
    buffer.size_bytes = needed;
  }
  return {};
}

// An input must not lie where this run writes: a backend may write outputs before it has read all inputs.
Status Session::check_overlap(RunFrame &frame) {
  frame.written.clear();
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    const qr_io_buffer &output = frame.outputs[o];
    const loader::TensorInfo &info = frame.tensors->outputs[o];
    if (!info.is_static) {
      if (rooms_[o].of == frame.execution && frame.read.overlaps(rooms_[o].plugins))
        QR_RETURN_IF_ERROR(keep_result(frame, o));
    } else if (output.wanted) {
      const Span span = span_of(output, info.bytes);
      if (frame.read.overlaps(span)) return inputs_overlap(frame);
      frame.written.add(span);
    }
  }
  return frame.written.join() ? outputs_overlap(frame, nullptr) : Status();
}

// The execution is about to use its own memory again, where inputs lie that it gave out: they move to the session's.
QR_COLD Status Session::keep_result(RunFrame &frame, std::size_t index) {
  OutputRoom &room = rooms_[index];
  const std::uint64_t bytes = room.plugins.end - room.plugins.begin;
  for (const qr_io_buffer &input : frame.inputs) {
    const Span span = span_of(input, input.size_bytes);
    if (span.overlaps(room.plugins) && (span.begin < room.plugins.begin || span.end > room.plugins.end))
      return inputs_overlap(frame);
  }
  if (room.given.size < bytes) {
    void *block = allocate_block(bytes, 64);
    free_block(room.given.data);
    room.given = {block, bytes};
  }
  for (qr_io_buffer &input : frame.inputs) {
    const Span span = span_of(input, input.size_bytes);
    if (!span.overlaps(room.plugins)) continue;
    void *const copy = static_cast<char *>(room.given.data) + (span.begin - room.plugins.begin);
    input.data = std::memcpy(copy, input.data, input.size_bytes);
  }
  return {};
}

// Names the pair, known to be there.
QR_COLD Status Session::inputs_overlap(const RunFrame &frame) const {
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    const loader::TensorInfo &info = frame.tensors->outputs[o];
    if (info.is_static ? !frame.outputs[o].wanted : rooms_[o].of != frame.execution) continue;
    const Span written = info.is_static ? span_of(frame.outputs[o], info.bytes) : rooms_[o].plugins;
    for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
      if (!written.overlaps(span_of(frame.inputs[i], frame.inputs[i].size_bytes))) continue;
      return Status::hinted(ErrorId::run_bad_memory, "copy the data, or give the output memory of its own",
                            "input %s: its data lie where this run writes output %s, expected memory of its own",
                            printable(core_->inputs()[i].name).c_str(), printable(core_->outputs()[o].name).c_str())
          .with("tensor", core_->inputs()[i].name);
    }
  }
  return {};
}

// Likewise; before the run, without `outputs`, of those whose shape is known.
QR_COLD Status Session::outputs_overlap(const RunFrame &frame, qr_tensor *const *outputs) const {
  const auto span = [&](std::size_t o) {
    const loader::TensorInfo &info = frame.tensors->outputs[o];
    if (outputs) return span_of_result(frame.outputs[o], info, *outputs[o]);
    return span_of(frame.outputs[o], info.is_static ? info.bytes : 0);
  };
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    if (!frame.outputs[o].wanted) continue;
    for (std::size_t other = 0; other < o; ++other) {
      if (!frame.outputs[other].wanted || !span(o).overlaps(span(other))) continue;
      return Status::hinted(ErrorId::run_bad_memory, "give each output memory of its own, or leave data NULL",
                            "output %s: its room overlaps that of output %s, expected memory of its own",
                            printable(core_->outputs()[o].name).c_str(),
                            printable(core_->outputs()[other].name).c_str())
          .with("tensor", core_->outputs()[o].name);
    }
  }
  return {};
}

// For outputs of unknown shape, once the shapes are known and before anything is handed out.
Status Session::check_rooms(RunFrame &frame, qr_tensor *const *outputs) const {
  frame.written.clear();
  bool copies = false;
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    if (!outputs[o]) continue;
    const loader::TensorInfo &info = frame.tensors->outputs[o];
    const qr_io_buffer &buffer = frame.outputs[o];
    if (!info.is_static && has_room(*outputs[o])) {
      const qr_tensor &tensor = *outputs[o];
      const std::uint64_t room = tensor.memory ? memory_room(tensor) : tensor.size_bytes;
      if (room < buffer.used_bytes)
        return no_room(core_->outputs()[o].name, room, info, buffer.dims, buffer.used_bytes);
      copies = true;
    }
    frame.written.add(span_of_result(buffer, info, *outputs[o]));
  }
  return copies && frame.written.join() ? outputs_overlap(frame, outputs) : Status();
}

void Session::give_output(const RunFrame &frame, std::size_t index, qr_tensor &tensor) {
  const loader::TensorInfo &info = frame.tensors->outputs[index];
  const qr_io_buffer &buffer = frame.outputs[index];
  if (!has_room(tensor)) {
    OutputRoom &room = rooms_[index];
    if (!info.is_static) {
      if (room.plugins.begin != span_of(buffer.data, 0).begin) room.plugins_before = room.plugins.begin;
      room.plugins = span_of(buffer.data, buffer.used_bytes);
      room.of = frame.execution;
    } else if (buffer.data == room.other.data && room.other.data) {
      std::swap(room.given, room.other);
    }
    tensor.data = buffer.data ? buffer.data : g_nothing;
    tensor.flags |= QR_TENSOR_OF_SESSION;
  } else {
    if (buffer.used_bytes > 0) {
      void *to = tensor.memory ? view_of(*memory_of(tensor), tensor.memory_offset) : tensor.data;
      if (to != buffer.data) std::memcpy(to, buffer.data, buffer.used_bytes);
    }
    tensor.flags &= ~QR_TENSOR_OF_SESSION;
  }
  tensor.dtype = info.dtype;
  tensor.rank = buffer.rank;
  for (std::uint32_t axis = 0; axis < QR_MAX_RANK; ++axis)
    tensor.dims[axis] = axis < buffer.rank ? buffer.dims[axis] : 0;
  tensor.size_bytes = buffer.used_bytes;
}

namespace {

std::uint64_t address_of(const void *data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

}  // namespace

QR_COLD void *RunFrame::aligned_room(std::size_t which, std::uint64_t bytes) {
  if (copies.empty()) copies.resize(inputs.size() + outputs.size());
  Vector<std::max_align_t> &room = copies[which];
  const std::uint64_t units = bytes / sizeof room[0] + 1;
  if (room.size() < units) room.resize(units);
  return room.data();
}

Status Session::bind_run(RunFrame &frame, const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                         qr_tensor *const *outputs, Room room) {
  if (core_->device().lost() || (core_->device().info().features & QR_DEVICE_NO_FORK))
    QR_RETURN_IF_ERROR(core_->device().check("run"));
  QR_RETURN_IF_ERROR(signal.check("run"));
  if (&core_->loaded() != loaded_ || executions_.empty()) QR_RETURN_IF_ERROR(change_over(signal));
  std::size_t bucket = 0;
  QR_RETURN_IF_ERROR(choose_bucket(frame, inputs, &bucket));
  frame.tensors = frame.fit.is_on ? &frame.fit.tensors : &loaded_->buckets[bucket].tensors();
  QR_ASSIGN_OR_RETURN(frame.execution, this->execution(bucket));
  frame.read.clear();
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
    QR_RETURN_IF_ERROR(bind_input(frame, i, *inputs[i]));
    frame.read.add(span_of(frame.inputs[i], frame.inputs[i].size_bytes));
  }
  frame.read.join();
  for (std::size_t i = 0; i < frame.outputs.size(); ++i) QR_RETURN_IF_ERROR(bind_output(frame, i, outputs[i], room));
  QR_RETURN_IF_ERROR(check_overlap(frame));
  if (frame.fit.is_on) {
    QR_RETURN_IF_ERROR(pad(frame));
    if (frame.fit.pads()) note_padding(frame, bucket);
  }
  for (std::size_t i = 0; i < frame.inputs.size(); ++i) {
    qr_io_buffer &input = frame.inputs[i];
    if (input.memory || is_aligned(address_of(input.data), frame.tensors->inputs[i].dtype)) continue;
    void *const copy = frame.aligned_room(i, input.size_bytes);
    input.data = std::memcpy(copy, input.data, input.size_bytes);
  }
  for (std::size_t o = 0; o < frame.outputs.size(); ++o) {
    qr_io_buffer &output = frame.outputs[o];
    const loader::TensorInfo &info = frame.tensors->outputs[o];
    if (output.memory || is_aligned(address_of(output.data), info.dtype)) continue;
    output.data = frame.aligned_room(frame.inputs.size() + o, info.bytes);  // give_output copies it
    output.size_bytes = info.bytes;
  }

  EventSink &sink = frame.sink.emplace();
  if (profile) sink.attach(&profile->log(), ProfileLevel::Trace);
  sink.attach(events_.get(), core_->profiling());
  const bool logs = core_->profiling() != ProfileLevel::Off && !events_;
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
  frame.begin_ns = sink.wanted() || logs ? loader::monotonic_ns() : 0;
  return {};
}

Status Session::execute(RunFrame &frame) {
  const ThreadPool::RunScope under_way(own_threads_);
  return frame.execution->run(frame.request);
}

Status Session::finish_run(RunFrame &frame, Status status, qr_tensor *const *outputs) {
  if (Status broken = frame.threads.take_fault(); !broken.ok()) status = std::move(broken);
  if (frame.begin_ns != 0) {
    const std::uint64_t end = loader::monotonic_ns();
    const bool pads = frame.fit.is_on && frame.fit.pads();
    frame.sink->add_call("run", "run", frame.begin_ns, end,
                         pads ? core_->padding()->describe(frame.fit.sizes, frame.fit.rooms) : String());
    if (core_->profiling() != ProfileLevel::Off && !events_)  // nobody would read them
      core_->runtime().log().write(QR_LOG_INFO, "profile",
                                   format("run: %.3f ms", static_cast<double>(end - frame.begin_ns) / 1e6));
  }
  if (!status.ok()) return core_->device().note(std::move(status));
  if (frame.fit.is_on) cut(frame);
  if (!frame.tensors->outputs_are_static) QR_RETURN_IF_ERROR(check_rooms(frame, outputs));
  for (OutputRoom &room : rooms_)  // not before: behind a run that fails, what lies there may be an input again
    if (room.of == frame.execution) room.of = nullptr;
  for (std::size_t i = 0; i < frame.outputs.size(); ++i)
    if (outputs[i]) give_output(frame, i, *outputs[i]);
  return {};
}

Status Session::run(const CallSignal &signal, Profile *profile, const qr_tensor *const *inputs,
                    qr_tensor *const *outputs) {
  const RunQueue::Alone alone(queue_, "qr_session_run", RunQueue::Until::Empty, signal);
  QR_RETURN_IF_ERROR(alone.status());
  const TracedRun traced(*core_);
  if (state_) {
    QR_RETURN_IF_ERROR(run_on_state(signal, profile, inputs, outputs));
  } else {
    QR_RETURN_IF_ERROR(bind_run(frame_, signal, profile, with_adapter(inputs), outputs, Room::OfSession));
    QR_RETURN_IF_ERROR(finish_run(frame_, execute(frame_), outputs));
  }
  if (!retired_.empty()) retired_.clear();
  return {};
}

}  // namespace quarry
