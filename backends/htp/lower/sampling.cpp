// SPDX-License-Identifier: Apache-2.0
// GridSample: images by bilinear samples as the library has it; others as a weighted sum of gathered elements, one for
// each combination of neighbours along the axes.
#include "backends/htp/lower/rules.h"

namespace quarry::htp::rules {

using qnn::DataType;
using Dims = Vector<std::uint32_t>;

namespace {

class Sampler {
 public:
  Sampler(Lowering &l, const qir::Node &node)
      : l_(l),
        node_(node),
        mode_(node.get_string("mode", "linear")),
        padding_(node.get_string("padding_mode", "zeros")),
        aligns_(node.get_int("align_corners", 0) != 0) {}

  void run() {
    const qir::Shape &in = l_.tensor(node_.inputs[0]).shape;
    const Order order = channels_last(in.size());
    const std::int32_t x = l_.stored(node_.inputs[0], order), y = l_.result(node_.outputs[0], order);
    const Dims from = l_.drafted(x).dims, to = l_.drafted(y).dims;
    std::uint32_t positions = 1, points = 1;
    for (std::size_t i = 1; i + 1 < from.size(); ++i) positions *= from[i], points *= to[i];
    const auto axes = static_cast<std::uint32_t>(from.size() - 2);
    const std::int32_t data = l_.reshaped(x, {from[0], positions, from.back()}),
                       grid = l_.reshaped(l_.natural(node_.inputs[1]), {from[0], points, axes});
    column_ = {from[0], points, 1}, rows_ = {from[0], points, from.back()};
    Vector<Vector<Tap>> taps;  // of the last axis first, as the grid counts them
    for (std::uint32_t i = 0; i < axes; ++i) taps.push_back(taps_of(part_of(l_, grid, 2, i, i + 1), from[axes - i]));
    std::size_t combinations = 1;
    for (const Vector<Tap> &axis : taps) combinations *= axis.size();
    std::int32_t sum = -1;
    for (std::size_t c = 0; c < combinations; ++c) {
      std::int32_t at = -1, weight = -1;
      std::size_t rest = c;
      std::int32_t stride = 1;
      for (std::uint32_t i = 0; i < axes; ++i) {
        const Tap &tap = taps[i][rest % taps[i].size()];
        rest /= taps[i].size();
        const std::int32_t index = stride == 1 ? tap.index : whole("ElementWiseMultiply", tap.index, stride);
        at = at < 0 ? index : of("ElementWiseAdd", {at, index}, column_, DataType::I32);
        if (tap.weight >= 0)
          weight = weight < 0 ? tap.weight : of("ElementWiseMultiply", {weight, tap.weight}, column_);
        stride *= static_cast<std::int32_t>(from[axes - i]);
      }
      std::int32_t found = l_.between(node_.name + ".found", DataType::F32, rows_);
      l_.param(l_.node("GatherNd", {data, at}, {found}), "batch_dims", std::uint32_t{1});
      if (weight >= 0) found = of("ElementWiseMultiply", {found, weight}, rows_);
      sum = sum < 0 ? found : of("ElementWiseAdd", {sum, found}, rows_);
    }
    l_.node("Reshape", {sum}, {y});
  }

 private:
  struct Tap {
    std::int32_t index, weight;  // -1: a weight of 1
  };

  std::int32_t of(const char *type, std::initializer_list<std::int32_t> inputs, const Dims &dims,
                  DataType dtype = DataType::F32) {
    const std::int32_t made = l_.between(node_.name + ".sample", dtype, dims);
    l_.node(type, inputs, {made});
    return made;
  }
  std::int32_t whole(const char *type, std::int32_t x, std::int32_t value) {
    return of(type, {x, l_.constant(node_.name + ".stride", DataType::I32, {1}, &value, sizeof value)}, column_,
              DataType::I32);
  }
  std::int32_t with(const char *type, std::int32_t x, double value) {
    const auto number = static_cast<float>(value);
    return of(type, {x, l_.constant(node_.name + ".number", DataType::F32, {1}, &number, sizeof number)}, column_);
  }
  std::int32_t times(std::int32_t x, double value) { return with("ElementWiseMultiply", x, value); }
  std::int32_t plus(std::int32_t x, double value) { return value == 0 ? x : with("ElementWiseAdd", x, value); }
  std::int32_t unary(const char *type, std::int32_t x) { return of(type, {x}, column_); }
  std::int32_t within(std::int32_t x, double low, double high) {
    const std::int32_t made = l_.between(node_.name + ".within", DataType::F32, column_);
    DraftNode &clamp = l_.node("ReluMinMax", {x}, {made});
    l_.param(clamp, "min_value", static_cast<float>(low));
    l_.param(clamp, "max_value", static_cast<float>(high));
    return made;
  }

  // A position where padding_mode has it; of zeros it stays.
  std::int32_t padded(std::int32_t x, double size) {
    if (padding_ == "zeros") return x;
    if (padding_ == "reflection") {
      const double low = aligns_ ? 0 : -0.5, span = aligns_ ? size - 1 : size;
      if (span == 0) return times(x, 0);
      // A triangle wave of twice the span: span - |the rest - span|.
      const std::int32_t turns = times(unary("ElementWiseAbs", plus(x, -low)), 1 / (2 * span));
      const std::int32_t part = of("ElementWiseSubtract", {turns, unary("ElementWiseFloor", turns)}, column_);
      x = plus(times(unary("ElementWiseAbs", plus(times(part, 2 * span), -span)), -1), low + span);
    }
    return within(x, 0, size - 1);
  }

  // The element of an axis at a whole position, with a weight that is 0 where there is none.
  Tap tap(std::int32_t position, std::int32_t weight, double size) {
    const std::int32_t inside = within(position, 0, size - 1);
    if (padding_ == "zeros") {
      const std::int32_t is_inside = of("ElementWiseEqual", {position, inside}, column_, DataType::Bool8),
                         mask = of("Cast", {is_inside}, column_);
      weight = weight < 0 ? mask : of("ElementWiseMultiply", {weight, mask}, column_);
    }
    return {of("Cast", {inside}, column_, DataType::I32), weight};
  }

  // Of a distance from 0 to 1, and from 1 to 2.
  std::int32_t cubic_near(std::int32_t t) {
    const std::int32_t sum = plus(times(t, kCubic + 2), -(kCubic + 3));
    const std::int32_t square = of("ElementWiseMultiply", {t, t}, column_);
    return plus(of("ElementWiseMultiply", {sum, square}, column_), 1);
  }
  std::int32_t cubic_far(std::int32_t t) {
    std::int32_t sum = plus(times(t, kCubic), -5 * kCubic);
    sum = plus(of("ElementWiseMultiply", {sum, t}, column_), 8 * kCubic);
    return plus(of("ElementWiseMultiply", {sum, t}, column_), -4 * kCubic);
  }

  Vector<Tap> taps_of(std::int32_t given, std::uint32_t extent) {
    const double size = extent, half = (size - 1) / 2;
    std::int32_t position = plus(times(given, aligns_ ? half : size / 2), half);
    const bool is_cubic = mode_ == "cubic";
    if (!is_cubic) position = padded(position, size);  // of cubic samples each tap is
    if (mode_ == "nearest") return {tap(unary("ElementWiseRound", position), -1, size)};
    const std::int32_t first = unary("ElementWiseFloor", position),
                       part = of("ElementWiseSubtract", {position, first}, column_), rest = plus(times(part, -1), 1);
    if (!is_cubic) return {tap(first, rest, size), tap(plus(first, 1), part, size)};
    const std::int32_t weights[] = {cubic_far(plus(part, 1)), cubic_near(part), cubic_near(rest),
                                    cubic_far(plus(rest, 1))};
    Vector<Tap> taps;
    for (int i = 0; i < 4; ++i) {
      std::int32_t at = padded(plus(first, i - 1), size);
      if (padding_ == "reflection") at = unary("ElementWiseRound", at);
      taps.push_back(tap(at, weights[i], size));
    }
    return taps;
  }

  static constexpr double kCubic = -0.75;
  Lowering &l_;
  const qir::Node &node_;
  const std::string_view mode_, padding_;
  const bool aligns_;
  Dims column_, rows_;
};

}  // namespace

Status grid_sample(Lowering &l, const qir::Node &node) {
  const std::size_t rank = l.rank(node.inputs[0]);
  const std::string_view mode = node.get_string("mode", "linear"), edge = node.get_string("padding_mode", "zeros");
  if (rank == 4 && mode == "linear") {
    const Order order = channels_last(4);
    const std::int32_t x = l.stored(node.inputs[0], order), grid = l.natural(node.inputs[1]);
    DraftNode &made = l.node("GridSample", {x, grid}, {l.result(node.outputs[0], order)});
    l.param(made, "align_corners", node.get_int("align_corners", 0) != 0);
    l.param(made, "mode", std::uint32_t{0});
    l.param(made, "padding_mode", std::uint32_t{edge == "zeros" ? 0u : edge == "border" ? 1u : 2u});
    return {};
  }
  const qir::Tensor &x = l.tensor(node.inputs[0]), &grid = l.tensor(node.inputs[1]);
  if (x.quant || x.dtype != DType::F32 || grid.dtype != DType::F32 || (rank != 4 && rank != 5))
    return refuse(ErrorId::backend_limit,
                  format("mode %s of rank %zu of %s%s, expected f32 of rank 4 or 5, or linear of rank 4",
                         printable(mode), rank, dtype_name(x.dtype), x.quant ? " with a quantisation" : ""));
  for (std::size_t i = 2; i < rank; ++i)  // f16 counts no further
    if (x.shape[i] > 2048)
      return refuse(ErrorId::backend_limit,
                    format("mode %s along an axis of %lld, expected at most 2048", printable(mode), x.shape[i]));
  Sampler(l, node).run();
  return {};
}

}  // namespace quarry::htp::rules
