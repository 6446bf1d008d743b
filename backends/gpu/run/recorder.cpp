// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/run/recorder.h"

#include <algorithm>

namespace quarry::gpu {

using opencl::check;
using opencl::Replay;

namespace {

constexpr std::uint64_t kSpare = 3;  // memories that are kept besides those that can be under way

}  // namespace

// ---- what is kept ---------------------------------------------------------------------------------

class Recorder::Recording {
 public:
  Recording() noexcept = default;
  Recording(const Engine &engine, opencl::RecordingObject object) noexcept : engine_(&engine), object_(object) {}
  Recording(Recording &&other) noexcept { *this = std::move(other); }
  Recording &operator=(Recording &&other) noexcept {
    std::swap(engine_, other.engine_), std::swap(object_, other.object_), std::swap(count, other.count);
    return *this;
  }
  ~Recording() {
    if (object_ && engine_->library().is_ours()) (void)engine_->device().replay.release(object_);
  }
  opencl::RecordingObject get() const noexcept { return object_; }
  std::size_t count = 0;  // kernels

 private:
  const Engine *engine_ = nullptr;
  opencl::RecordingObject object_ = nullptr;
};

class Recorder::Kept : public HeapObject {
 public:
  Vector<BoundBuffer> buffers;
  Vector<Recording> whole, batches;  // empty until a run wants them
  std::uint64_t used = 0;            // when; 0: never
  std::atomic<std::uint32_t> runs = 0;
};

// ---- recording ------------------------------------------------------------------------------------

Recorder::Recorder() noexcept = default;
Recorder::~Recorder() = default;

void Recorder::close() noexcept {
  kept_.clear();
  recording_queue_ = opencl::Queue();
  engine_ = nullptr;
}

Status Recorder::open(const Engine &engine, std::span<const opencl::Kernel> kernels, std::span<const Bounds> bounds,
                      std::size_t count, std::uint64_t depth) {
  const Replay &replay = engine.device().replay;
  // One kernel is one call already.
  if (replay.api == Replay::Api::None || replay.most < kBatch || kernels.size() < 2) return {};
  if (replay.api == Replay::Api::Qualcomm) {
    auto queue = engine.recordable_queue();
    if (!queue.ok()) {
      refusal_ = String(queue.status().message());
      return {};
    }
    recording_queue_ = std::move(*queue);
  }
  for (std::uint64_t i = 0; i < 1 + depth + kSpare; ++i) {
    Kept &kept = *kept_.emplace_back(quarry::make_unique<Kept>());
    kept.buffers.resize(count);
  }
  engine_ = &engine, kernels_ = kernels, bounds_ = bounds;
  return {};
}

std::size_t Recorder::size_of(Piece piece) const noexcept {
  return piece == Piece::Batch ? kBatch : std::min(kernels_.size(), engine_->device().replay.most);
}

Recorder::Kept *Recorder::take(std::span<const BoundBuffer> buffers) {
  if (!engine_) return nullptr;
  const auto is_same = [&](const Unique<Kept> &kept) {
    return kept->used != 0 &&
           std::ranges::equal(kept->buffers, buffers, [](const BoundBuffer &a, const BoundBuffer &b) {
             return a.id == b.id && a.offset == b.offset;
           });
  };
  const auto found = std::ranges::find_if(kept_, is_same);
  const bool is_own = std::ranges::all_of(buffers, [](const BoundBuffer &buffer) { return buffer.id == 0; });
  if (found != kept_.end()) {
    Kept &kept = **found;
    kept.used = ++clock_;
    if (kept.runs != 0 && !engine_->device().replay.simultaneous) return nullptr;
    ++kept.runs;
    return &kept;
  }
  Kept *oldest = nullptr;
  for (const Unique<Kept> &kept : kept_)
    if (kept->runs == 0 && (!oldest || kept->used < oldest->used)) oldest = kept.get();
  if (!oldest) return nullptr;
  oldest->whole.clear(), oldest->batches.clear();
  oldest->used = 0;
  std::ranges::copy(buffers, oldest->buffers.begin());
  oldest->used = ++clock_;
  if (!is_own) return nullptr;
  ++oldest->runs;
  return oldest;
}

void Recorder::give_back(Kept *kept) noexcept {
  if (kept) --kept->runs;
}

Status Recorder::record(std::size_t first, std::size_t count, cl_command_queue queue, Recording &out) {
  const opencl::Library &cl = engine_->library();
  const Replay &replay = engine_->device().replay;
  const bool is_buffer = replay.api == Replay::Api::CommandBuffer;
  cl_int error = CL_SUCCESS;
  const std::uint64_t properties[] = {opencl::kRecordingFlags, opencl::kRecordingSimultaneous, 0};
  const opencl::RecordingObject object =
      is_buffer ? replay.create(1, &queue, replay.simultaneous ? properties : nullptr, &error)
                : replay.begin(recording_queue_.get(), &error);
  QR_RETURN_IF_ERROR(check(is_buffer ? "CreateCommandBufferKHR" : "NewRecordingQCOM", error));
  Recording made(*engine_, object);
  opencl::SyncPoint before = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    const WorkItems items(bounds_[i]);
    // A command buffer is without order but for what is stated.
    opencl::SyncPoint after = 0;
    if (is_buffer)
      QR_RETURN_IF_ERROR(check("CommandNDRangeKernelKHR",
                               replay.kernel(object, nullptr, nullptr, kernels_[i].get(), 3, nullptr, items.global,
                                             items.local, i > first, i > first ? &before : nullptr, &after, nullptr)));
    else
      QR_RETURN_IF_ERROR(check("EnqueueNDRangeKernel of a recording",
                               cl->EnqueueNDRangeKernel(recording_queue_.get(), kernels_[i].get(), 3, nullptr,
                                                        items.global, items.local, 0, nullptr, nullptr)));
    before = after;
  }
  QR_RETURN_IF_ERROR(is_buffer ? check("FinalizeCommandBufferKHR", replay.finalize(object))
                               : check("EndRecordingQCOM", replay.end(object)));
  made.count = count;
  out = std::move(made);
  return {};
}

std::size_t Recorder::enqueue(Kept &kept, Piece piece, std::size_t first, cl_command_queue queue, cl_event *event) {
  if (!engine_) return 0;
  const std::size_t size = size_of(piece), count = kernels_.size();
  Vector<Recording> &list = piece == Piece::Whole ? kept.whole : kept.batches;
  const Replay &replay = engine_->device().replay;
  const auto recorded = [&]() -> Status {
    if (list.empty()) list.resize((count + size - 1) / size);
    Recording &one = list[first / size];
    if (!one.get()) QR_RETURN_IF_ERROR(record(first, std::min(size, count - first), queue, one));
    return replay.api == Replay::Api::CommandBuffer
               ? check("EnqueueCommandBufferKHR", replay.enqueue(1, &queue, one.get(), 0, nullptr, event))
               : check("EnqueueRecordingQCOM", replay.enqueue_recording(queue, one.get(), 0, nullptr, 0, nullptr, 0,
                                                                        nullptr, 0, nullptr, 0, nullptr, event));
  };
  const Status status = recorded();
  if (status.ok()) return list[first / size].count;
  refusal_ = String(status.message());
  engine_ = nullptr;
  return 0;
}

}  // namespace quarry::gpu
