// SPDX-License-Identifier: Apache-2.0
// Samples of inputs run through the float model on the cpu backend, each tensor's values seen by its observer.
#pragma once

#include "quantize/plan/plan.h"
#include "quantize/ranges/observer.h"
#include "quantize/search/runner.h"
#include "quantize/search/state.h"

namespace quarry::quantize {

class Calibration final : public HeapObject, public Ranges {
 public:
  // `tensors`: of f32, of `graph`, which outlives this.
  static Result<Unique<Calibration>> make(qr_runtime *runtime, const qir::Graph &graph,
                                          const Vector<std::int32_t> &tensors, const RangeSettings &settings,
                                          unsigned threads, qr_signal *signal);
  // Runs one sample; `inputs` in the order of the graph. What fails, or is stopped, leaves all as it was. A NaN names
  // the tensor that has it; `number`: of the sample, from 1, for that message.
  Status add(const std::vector<qr::Tensor> &inputs, std::uint64_t number, qr_signal *signal);
  // Runs one that is not to count: a NaN is named.
  Status check(const std::vector<qr::Tensor> &inputs, std::uint64_t number, qr_signal *signal);

  // What is known of each tensor, and back: `settings` are those that this was made with. Where `known` is not of these
  // tensors, all is as it was.
  void save(Vector<State::Known> &known) const;
  Status restore(const Vector<State::Known> &known, std::uint64_t samples, const RangeSettings &settings);
  // As before the first sample.
  void forget(const RangeSettings &settings);

  // By the settings' method, or the one that was said since; `wide`: for 16 bits.
  Range range(std::int32_t tensor, const Grid &grid) const override;
  void use(RangeMethod method, RangeMethod wide) noexcept { method_ = method, wide_ = wide; }
  const Observer *observer(std::int32_t tensor) const noexcept;
  std::uint64_t samples() const noexcept { return samples_; }
  unsigned threads() const noexcept { return threads_; }

 private:
  struct Watched {
    std::int32_t tensor;
    std::int32_t input;      // of the graph; -1: it is a result
    std::size_t result = 0;  // of the runner
    Unique<Observer> observer;
    std::vector<float> masked;  // room for values without what stands for minus infinity
    Extremes extremes{};
    std::size_t row = 0;  // of what Softmax alone reads: the elements that it looks at together
  };
  static std::span<const float> values(const qr::Tensor &tensor);
  std::span<const float> values_of(const Watched &one, const std::vector<qr::Tensor> &inputs) const;
  template <class Body>
  Status each(qr_signal *signal, Body body);  // on all threads

  const qir::Graph *graph_ = nullptr;
  Unique<Runner> runner_;
  std::vector<Watched> watched_;
  Vector<std::int32_t> of_tensor_;
  RangeMethod method_ = RangeMethod::MinMax, wide_ = RangeMethod::MinMax;
  unsigned threads_ = 1;
  std::uint64_t samples_ = 0;
};

}  // namespace quarry::quantize
