// SPDX-License-Identifier: Apache-2.0
// A run's kernels as commands that the driver keeps (opencl/replay.h): recorded once for each memory that inputs and
// outputs lie in, and handed over by one call for all of them, or for a batch where a run may be stopped. Recording
// costs what handing over costs, so memory of the caller's is recorded when it comes for the second time; what was
// recorded is kept for so many different memories as can be under way, and some more. The driver's copy of arguments
// stays as it was recorded: exchanging them (mutable dispatch) is a provisional extension whose calls have changed
// twice, spares nothing more than that one recording, and may not be done to what is under way.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "backends/gpu/engine/engine.h"
#include "backends/gpu/kernels/kernel.h"

namespace quarry::gpu {

// So many kernels are handed over before the first of them has to be done: an abort waits for no more.
inline constexpr std::size_t kBatch = 16;

class Recorder {
 public:
  // What an input or output lies in; id 0: memory of the execution's own.
  struct BoundBuffer {
    std::uint64_t id = 0, offset = 0;
    std::shared_ptr<const opencl::Parts> parts;  // drivers need not keep what is recorded alive
  };
  enum class Piece : std::uint8_t { Whole, Batch };
  class Kept;

  Recorder() noexcept;
  ~Recorder();
  // Of kernels whose arguments are set, and stay where they are. Where the driver has no extension nothing is ever
  // recorded.
  Status open(const Engine &engine, std::span<const opencl::Kernel> kernels, std::span<const Bounds> bounds,
              std::size_t count, std::uint64_t depth);
  void close() noexcept;

  // For a run whose kernels have these buffers as arguments; null: by plain enqueues. Given back when it has ended.
  Kept *take(std::span<const BoundBuffer> buffers);
  static void give_back(Kept *kept) noexcept;
  // Hands over kernels from `first` on, and says how many; 0: the driver refuses, and will not be asked again.
  std::size_t enqueue(Kept &kept, Piece piece, std::size_t first, cl_command_queue queue, cl_event *event);
  // Why nothing is recorded any more, once.
  String take_refusal() { return std::exchange(refusal_, {}); }

 private:
  class Recording;
  Status record(std::size_t first, std::size_t count, cl_command_queue queue, Recording &out);
  std::size_t size_of(Piece piece) const noexcept;

  const Engine *engine_ = nullptr;  // null: nothing is recorded
  std::span<const opencl::Kernel> kernels_;
  std::span<const Bounds> bounds_;
  opencl::Queue recording_queue_;  // Qualcomm's
  Vector<Unique<Kept>> kept_;
  std::uint64_t clock_ = 0;
  String refusal_;
};

}  // namespace quarry::gpu
