// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/calibration.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "quantize/parallel.h"

namespace quarry::quantize {
namespace {

bool has_nan(std::span<const float> values) {
  bool nan = false;
  for (const float value : values) nan |= value != value;
  return nan;
}

// The values with those bounded.
void bound(std::span<const float> values, std::vector<float> &out) {
  float low = 0, high = 0;
  for (const float value : values)
    if (std::fabs(value) < kInfinite) low = std::min(low, value), high = std::max(high, value);
  out.assign(values.begin(), values.end());
  for (float &value : out)
    if (!(std::fabs(value) < kInfinite)) value = value < 0 ? low - kFarBelow : high + kFarBelow;
}

// What lies so far below the greatest of its row counts as nothing to Softmax, however far it is: masks have -1e9 or
// -10000 there, and a range to these would have no steps for the others.
void bound_rows(std::vector<float> &values, std::size_t row) {
  for (std::size_t from = 0; from + row <= values.size(); from += row) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(from),
               end = begin + static_cast<std::ptrdiff_t>(row);
    const float least = *std::max_element(begin, end) - kFarBelow;
    for (auto value = begin; value != end; ++value) *value = std::max(*value, least);
  }
}

}  // namespace

Result<Unique<Calibration>> Calibration::make(qr_runtime *runtime, const qir::Graph &graph,
                                              const Vector<std::int32_t> &tensors, const RangeSettings &settings,
                                              unsigned threads, qr_signal *signal) {
  auto made = make_unique<Calibration>();
  made->graph_ = &graph;
  made->method_ = made->wide_ = settings.method;
  made->threads_ = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
  made->of_tensor_.assign(graph.tensors.size(), -1);
  Vector<std::int32_t> outputs;
  const qir::Uses uses(graph);
  Vector<std::int32_t> input_of(graph.tensors.size(), -1);
  for (std::size_t i = graph.inputs.size(); i-- > 0;)
    input_of[index_of(graph.inputs[i])] = static_cast<std::int32_t>(i);
  for (const std::int32_t id : tensors) {
    QR_RETURN_IF_ERROR(stop_status(kStopped));
    Watched &one = made->watched_.emplace_back();
    one.tensor = id;
    one.input = input_of[index_of(id)];
    one.observer = make_observer(settings);
    one.row = softmax_row(graph, uses, id);
    if (one.input < 0) one.result = outputs.size(), outputs.push_back(id);
    made->of_tensor_[index_of(id)] = static_cast<std::int32_t>(made->watched_.size() - 1);
  }
  QR_ASSIGN_OR_RETURN(made->runner_, Runner::make(runtime, graph, outputs, threads, signal));
  return made;
}

std::span<const float> Calibration::values(const qr::Tensor &tensor) {
  return {static_cast<const float *>(tensor.bytes()), static_cast<std::size_t>(tensor.size_bytes / sizeof(float))};
}

template <class Body>
Status Calibration::each(qr_signal *signal, Body body) {
  return in_parallel(watched_.size(), threads_, signal, [&](std::size_t i) { body(watched_[i]); });
}

std::span<const float> Calibration::values_of(const Watched &one, const std::vector<qr::Tensor> &inputs) const {
  return values(one.input >= 0 ? inputs[index_of(one.input)] : runner_->results()[one.result]);
}

Status Calibration::check(const std::vector<qr::Tensor> &inputs, std::uint64_t number, qr_signal *signal) {
  QR_RETURN_IF_ERROR(runner_->run(inputs, signal));
  QR_RETURN_IF_ERROR(each(signal, [&](Watched &one) { one.extremes = extremes_of(values_of(one, inputs)); }));
  for (const Watched &one : watched_)
    if (one.extremes.beyond && has_nan(values_of(one, inputs))) {
      const String name = printable(qir::at(*graph_, one.tensor).name);
      return Status::error(ErrorId::bad_argument,
                           format("sample %llu: found NaN in the %s '%s', expected numbers", number,
                                  one.input >= 0 ? "input" : "tensor", name),
                           "look at the values of this sample's inputs")
          .with("tensor", name);
    }
  return {};
}

Status Calibration::add(const std::vector<qr::Tensor> &inputs, std::uint64_t number, qr_signal *signal) {
  QR_RETURN_IF_ERROR(check(inputs, number, signal));
  QR_RETURN_IF_ERROR(each(signal, [&](Watched &one) {
    if (one.extremes.beyond || one.row > 1) {
      bound(values_of(one, inputs), one.masked);
      if (one.row > 1) bound_rows(one.masked, one.row);
      one.observer->observe(one.masked);
    } else {
      one.observer->observe(values_of(one, inputs), one.extremes);
    }
  }));
  for (const Watched &one : watched_) one.observer->keep();
  ++samples_;
  return {};
}

void Calibration::forget(const RangeSettings &settings) {
  for (Watched &one : watched_) one.observer = make_observer(settings);
  samples_ = 0;
}

void Calibration::save(Vector<State::Known> &known) const {
  for (const Watched &one : watched_) {
    State::Known &to = known.emplace_back();
    to.tensor = qir::at(*graph_, one.tensor).name;
    one.observer->save(to.bytes);
  }
}

Status Calibration::restore(const Vector<State::Known> &known, std::uint64_t samples, const RangeSettings &settings) {
  if (known.size() != watched_.size())
    return Status::error(ErrorId::bad_argument,
                         format("a saved calibration: found %zu tensors, expected %zu", known.size(), watched_.size()));
  std::vector<Unique<Observer>> observers;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const String &name = qir::at(*graph_, watched_[i].tensor).name;
    if (known[i].tensor != name)
      return Status::error(ErrorId::bad_argument, format("a saved calibration: found the tensor '%s', expected '%s'",
                                                         printable(known[i].tensor), printable(name)));
    observers.push_back(make_observer(settings));
    QR_RETURN_IF_ERROR(observers.back()->restore(known[i].bytes));
  }
  for (std::size_t i = 0; i < known.size(); ++i) watched_[i].observer = std::move(observers[i]);
  samples_ = samples;
  return {};
}

const Observer *Calibration::observer(std::int32_t tensor) const noexcept {
  const std::int32_t at = of_tensor_[index_of(tensor)];
  return at < 0 ? nullptr : watched_[index_of(at)].observer.get();
}

Range Calibration::range(std::int32_t tensor, const Grid &grid) const {
  const Observer *found = observer(tensor);
  return found ? found->range(grid, dtype_bits(grid.dtype) == 16 ? wide_ : method_) : Range{};
}

}  // namespace quarry::quantize
