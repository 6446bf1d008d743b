// SPDX-License-Identifier: Apache-2.0
#include "quantize/plan/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "graph/ops/quantization.h"
#include "quantize/plan/rules.h"
#include "quantize/ranges/clipped_range.h"
#include "quantize/ranges/compare.h"
#include "quantize/ranges/ranges.h"
#include "quantize/stop.h"

namespace quarry::quantize {
namespace {

using qir::at;
using qir::Op;

std::span<const float> floats_of(const qir::Tensor &tensor) {
  return {static_cast<const float *>(tensor.data.data), static_cast<std::size_t>(tensor.data.size / sizeof(float))};
}

// Which of the encodings an element has: per channel and by blocks alike.
class Places {
 public:
  Places(const qir::Shape &shape, std::size_t axis, std::int64_t block) : block_(block) {
    for (std::size_t d = 0; d < shape.size(); ++d) (d < axis ? outer_ : d == axis ? extent_ : inner_) *= shape[d];
    rows_ = block > 0 ? (extent_ + block - 1) / block : extent_;
  }
  std::size_t count() const { return static_cast<std::size_t>(block_ > 0 ? outer_ * rows_ * inner_ : extent_); }
  // Calls body(index of the scale, first element, count) for all runs of elements of one scale.
  template <class Body>
  void each(const Body &body) const {
    std::size_t element = 0;
    const auto run = [&](std::int64_t place, std::int64_t count) {
      body(index_of(place), element, static_cast<std::size_t>(count));
      element += static_cast<std::size_t>(count);
    };
    for (std::int64_t o = 0; o < outer_; ++o) {
      if (block_ > 0 && inner_ == 1) {
        for (std::int64_t from = 0; from < extent_; from += block_)
          run(o * rows_ + from / block_, std::min(block_, extent_ - from));
        continue;
      }
      for (std::int64_t along = 0; along < extent_; ++along) {
        if (block_ <= 0) run(along, inner_);
        else
          for (std::int64_t i = 0; i < inner_; ++i) run((o * rows_ + along / block_) * inner_ + i, 1);
      }
    }
  }

 private:
  std::int64_t outer_ = 1, extent_ = 1, inner_ = 1, rows_ = 1, block_;
};

// The runs of a constant's elements that have one encoding.
template <class Body>
void each_encoding(const qir::Tensor &tensor, const Constant &constant, const Body &body) {
  const qir::Quantization &quant = constant.quant;
  const auto give = [&](std::size_t place, std::size_t first, std::size_t count) {
    body(Encoding{constant.dtype, quant.scales[place], quant.zero_points[place], constant.reduced}, first, count);
  };
  if (quant.scales.size() == 1) return give(0, 0, floats_of(tensor).size());
  Places(tensor.shape, index_of(quant.axis), quant.block_size).each(give);
}

void store(const qir::Graph &graph, Constant &constant) {
  const std::span<const float> values = floats_of(at(graph, constant.tensor));
  constant.stored.resize(values.size());
  each_encoding(at(graph, constant.tensor), constant,
                [&](const Encoding &encoding, std::size_t first, std::size_t count) {
                  quantize_values(values.subspan(first, count), encoding, constant.stored.data() + first);
                });
}

Range extremes(std::span<const float> values) {
  const Extremes seen = extremes_of(values);
  if (seen.beyond == 0 && !values.empty())
    return {std::min(0.0, static_cast<double>(seen.low)), std::max(0.0, static_cast<double>(seen.high))};
  Range out{0, 0};
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    out.low = std::min(out.low, static_cast<double>(value));
    out.high = std::max(out.high, static_cast<double>(value));
  }
  // An infinity is no end that a range can have, and must not become what is beside it.
  if (std::ranges::count(values, -std::numeric_limits<float>::infinity())) out.low -= kFarBelow;
  if (std::ranges::count(values, std::numeric_limits<float>::infinity())) out.high += kFarBelow;
  return out;
}

void encode_places(const qir::Graph &graph, const Places &places, const Grid &grid, bool clip, Constant &constant) {
  const std::span<const float> values = floats_of(at(graph, constant.tensor));
  Vector<Range> ranges(places.count());
  if (clip) {
    Vector<Vector<float>> of_place(places.count());
    places.each([&](std::size_t place, std::size_t first, std::size_t count) {
      const auto from = values.subspan(first, count);
      of_place[place].insert(of_place[place].end(), from.begin(), from.end());
    });
    SeldomAsked asked;
    for (std::size_t p = 0; p < ranges.size() && !asked.stopped(80 * of_place[p].size()); ++p)
      ranges[p] = clipped_range(of_place[p], grid);
  } else
    places.each([&](std::size_t place, std::size_t first, std::size_t count) {
      const Range seen = extremes(values.subspan(first, count));
      ranges[place] = {std::min(ranges[place].low, seen.low), std::max(ranges[place].high, seen.high)};
    });
  constant.dtype = grid.dtype;
  constant.reduced = grid.reduced && dtype_bits(grid.dtype) == 8;
  constant.quant.scales.clear(), constant.quant.zero_points.clear();
  // A channel of zeros has the scale of the widest: its bias counts in units of it, and 1 would be far too coarse.
  Range widest;
  for (const Range &range : ranges)
    if (range.high - range.low > widest.high - widest.low) widest = range;
  for (const Range &range : ranges) {
    const Encoding encoding = encode(range == Range() ? widest : range, grid);
    constant.quant.scales.push_back(encoding.scale);
    constant.quant.zero_points.push_back(encoding.zero_point);
  }
  store(graph, constant);
}

// What is said of channels, in place of what follows from their values.
void encode_channels(const Vector<Override> &channels, const Grid &grid, Constant &constant) {
  for (std::size_t c = 0; c < channels.size(); ++c) {
    const Override &one = channels[c];
    float &scale = constant.quant.scales[c];
    std::int32_t &zero = constant.quant.zero_points[c];
    if (one.scale) {
      scale = *one.scale, zero = one.zero_point.value_or(0);
    } else if (one.low || one.high) {
      const Range seen = covered({constant.dtype, scale, zero, constant.reduced});
      const Encoding encoding = encode({one.low.value_or(seen.low), one.high.value_or(seen.high)}, grid);
      scale = encoding.scale, zero = encoding.zero_point;
    }
  }
}

// Weights that were trained on a grid lie on its points, and stored on it they lose nothing: their grid, where they
// have one of this type.
std::optional<Encoding> own_grid(std::span<const float> values, const Grid &grid) {
  const qir::IntegerRange integers = qir::integer_range(grid.dtype);
  const auto most = static_cast<std::size_t>(integers.high - integers.low);
  Vector<float> points;
  for (const float value : values) {
    const auto there = std::ranges::lower_bound(points, value);
    if (there != points.end() && *there == value) continue;
    if (points.size() > most || !std::isfinite(value)) return std::nullopt;
    points.insert(there, value);
  }
  if (points.size() < 16 || grid.symmetric || grid.reduced) return std::nullopt;  // a few weights lie on many grids
  double step = HUGE_VAL;
  for (std::size_t i = 1; i < points.size(); ++i)
    step = std::min(step, static_cast<double>(points[i]) - static_cast<double>(points[i - 1]));
  const double low = std::min(0.0, static_cast<double>(points.front()));
  const double high = std::max(0.0, static_cast<double>(points.back()));
  const double steps = std::nearbyint((high - low) / step);
  if (!(step > 0) || steps > static_cast<double>(most)) return std::nullopt;
  step = (high - low) / steps;
  for (const float point : points) {
    const double place = static_cast<double>(point) / step;
    if (std::fabs(place - std::nearbyint(place)) > 0.02) return std::nullopt;
  }
  return Encoding{grid.dtype, static_cast<float>(step),
                  static_cast<std::int32_t>(integers.low - std::llround(low / step))};
}

const TensorOverride *override_of(const qir::Graph &graph, const Overrides &overrides, std::int32_t id) {
  const auto found = overrides.find(at(graph, id).name);
  return found == overrides.end() ? nullptr : &found->second;
}

}  // namespace

void quantize_as(const qir::Graph &graph, const Encoding &encoding, Constant &constant) {
  constant.dtype = encoding.dtype;
  constant.reduced = encoding.reduced;
  constant.quant.scales = {encoding.scale};
  constant.quant.zero_points = {encoding.zero_point};
  store(graph, constant);
}

void quantize_whole(const qir::Graph &graph, const Overrides &overrides, const Grid &grid, Constant &constant,
                    bool clip) {
  const TensorOverride *said = override_of(graph, overrides, constant.tensor);
  Grid used = grid;
  Range range = extremes(floats_of(at(graph, constant.tensor)));
  if (said) {
    if (said->own.dtype) used.dtype = *said->own.dtype;
    if (said->own.symmetric) used.symmetric = *said->own.symmetric;
  }
  if (clip) range = clipped_range(floats_of(at(graph, constant.tensor)), used);
  if (said) {
    if (said->own.low) range.low = *said->own.low;
    if (said->own.high) range.high = *said->own.high;
  }
  Encoding encoding = encode(range, used);
  if (const auto own = said || clip ? std::nullopt : own_grid(floats_of(at(graph, constant.tensor)), used))
    encoding = *own;
  if (said && said->own.scale) {
    encoding.scale = *said->own.scale;
    encoding.zero_point = said->own.zero_point.value_or(0);
  }
  quantize_as(graph, encoding, constant);
}

namespace {

// In one type: per channel, by blocks or whole.
void quantize_weights_as(const qir::Graph &graph, const Settings &settings, const Overrides &overrides,
                         const qir::Node &node, DType dtype, Constant &constant) {
  const qir::Tensor &weights = at(graph, constant.tensor);
  const TensorOverride *said = override_of(graph, overrides, constant.tensor);
  Grid grid = settings.weight_grid(dtype);
  if (said && said->own.symmetric) grid.symmetric = *said->own.symmetric;
  if (said && said->channels.empty() && (said->own.scale || said->own.low || said->own.high)) {
    quantize_whole(graph, overrides, grid, constant);
    return;
  }
  const auto blocks = block_axis(node, weights.shape.size());
  if (settings.block_size > 0 && blocks && constant.input == 1 && weights.shape[*blocks] > settings.block_size &&
      !said) {
    constant.quant.axis = static_cast<std::int32_t>(*blocks);
    constant.quant.block_size = settings.block_size;
    encode_places(graph, Places(weights.shape, *blocks, settings.block_size), grid, settings.clip_weights, constant);
    return;
  }
  const std::int64_t rank = static_cast<std::int64_t>(weights.shape.size());
  const bool named = said && said->own.axis && *said->own.axis >= 0 && *said->own.axis < rank;
  const auto own = weight_axis(node, weights.shape.size());
  if (!named && (!own || !settings.per_channel || constant.input != 1 || (said && said->per_tensor))) {
    quantize_whole(graph, overrides, grid, constant, settings.clip_weights && constant.input == 1);
    return;
  }
  const std::size_t axis = named ? index_of(*said->own.axis) : *own;
  constant.quant.axis = static_cast<std::int32_t>(axis);
  encode_places(graph, Places(weights.shape, axis, 0), grid, settings.clip_weights, constant);
  if (said && said->channels.size() == constant.quant.scales.size()) {
    encode_channels(said->channels, grid, constant);
    store(graph, constant);
  }
}

// The squares of what storing changes beside those of the weights, summed over channels of results: a narrow channel is
// as much worth as a wide one.
double relative_miss(const qir::Graph &graph, const qir::Node &node, const Constant &constant) {
  const qir::Tensor &tensor = at(graph, constant.tensor);
  const std::span<const float> values = floats_of(tensor);
  Vector<float> restored(values.size());
  each_encoding(tensor, constant, [&](const Encoding &encoding, std::size_t first, std::size_t elements) {
    for (std::size_t i = first; i < first + elements; ++i)
      restored[i] = static_cast<float>(constant.stored[i] - encoding.zero_point) * encoding.scale;
  });
  const auto axis = weight_axis(node, tensor.shape.size());
  const Places channels(tensor.shape, axis.value_or(0), 0);
  const std::size_t count = axis ? channels.count() : 1;
  Vector<double> missed(count, 0), all(count, 0);
  const auto look = [&](std::size_t c, std::size_t first, std::size_t elements) {
    double square = 0, miss = 0;
    for (std::size_t i = first; i < first + elements; ++i) {
      const double value = static_cast<double>(values[i]), by = static_cast<double>(restored[i]) - value;
      miss += by * by, square += value * value;
    }
    missed[c] += miss, all[c] += square;
  };
  if (axis) channels.each(look);
  else look(0, 0, values.size());
  double sum = 0;
  for (std::size_t c = 0; c < count; ++c)
    if (all[c] > 0) sum += missed[c] / all[c];
  return sum;
}

}  // namespace

void quantize_weights(const qir::Graph &graph, const Settings &settings, const Overrides &overrides,
                      const qir::Node &node, DType type, Constant &constant) {
  const TensorOverride *said = override_of(graph, overrides, constant.tensor);
  const DType wanted = said && said->own.dtype ? *said->own.dtype : type;
  if (wanted != DType::Unknown) return quantize_weights_as(graph, settings, overrides, node, wanted, constant);
  // NPUs take the factors of normalizations in unsigned integers alone.
  if (!is_product(node.op)) return quantize_weights_as(graph, settings, overrides, node, DType::U8, constant);
  quantize_weights_as(graph, settings, overrides, node, DType::I8, constant);
  if (constant.quant.block_size > 0 || (said && said->own.scale)) return;
  // Weights that lie on one side of 0, or that were trained on a grid, miss less with a zero point of their own.
  Settings whole = settings;
  whole.per_channel = false;
  Constant other = constant;
  other.quant = {};
  quantize_weights_as(graph, whole, overrides, node, DType::U8, other);
  if (relative_miss(graph, node, other) < relative_miss(graph, node, constant)) constant = std::move(other);
}

bool quantize_bias(const qir::Graph &graph, const qir::Node &node, float x_scale, const qir::Quantization &w,
                   Constant &bias, Constant *weights) {
  const qir::Tensor &tensor = at(graph, bias.tensor);
  const std::span<const float> values = floats_of(tensor);
  const bool per_channel = w.scales.size() > 1;
  const std::size_t last = tensor.shape.empty() ? 1 : static_cast<std::size_t>(tensor.shape.back());
  if (per_channel && (last == 0 || last % w.scales.size() != 0)) return false;
  qir::Quantization raised = w;
  bool changed = false;
  // A bias of most of i32 would leave no room for the sums.
  constexpr double kMost = 1 << 30;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float &scale = raised.scales[per_channel ? i % last % w.scales.size() : 0];
    const double least = std::fabs(static_cast<double>(values[i])) / (kMost * static_cast<double>(x_scale));
    if (static_cast<double>(scale) < least && std::isfinite(least)) scale = static_cast<float>(least), changed = true;
  }
  if (changed && weights) {
    weights->quant = raised;
    store(graph, *weights);
  } else if (changed) {
    return false;
  }
  (void)node;
  bias.dtype = DType::I32;
  bias.quant.axis = per_channel ? static_cast<std::int32_t>(tensor.shape.size()) - 1 : 0;
  const std::size_t count = per_channel ? last : 1;
  for (std::size_t c = 0; c < count; ++c)
    bias.quant.scales.push_back(x_scale * raised.scales[c % raised.scales.size()]);
  bias.quant.zero_points.assign(count, 0);
  bias.stored.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double steps =
        static_cast<double>(values[i]) / static_cast<double>(bias.quant.scales[per_channel ? i % last : 0]);
    bias.stored[i] = static_cast<std::int32_t>(std::clamp(std::nearbyint(steps), -2147483647.0, 2147483647.0));
  }
  return true;
}

void describe_weights(const Constant &constant, const qir::Tensor &tensor, TensorEntry *entry) {
  const std::span<const float> values = floats_of(tensor);
  Tally tally;
  tally.add(values);
  entry->seen = {static_cast<double>(tally.min()), static_cast<double>(tally.max())};
  entry->histogram = plotted(tally);
  Comparison comparison;
  std::size_t clipped = 0;
  Vector<float> restored(values.size());
  each_encoding(tensor, constant, [&](const Encoding &encoding, std::size_t first, std::size_t elements) {
    const qir::IntegerRange integers = integers_of(encoding);
    for (std::size_t i = first; i < first + elements; ++i) {
      const std::int64_t integer = constant.stored[i];
      restored[i] = static_cast<float>(integer - encoding.zero_point) * encoding.scale;
      clipped +=
          (integer == integers.low || integer == integers.high) && std::fabs(values[i] - restored[i]) > encoding.scale;
    }
  });
  comparison.add(values, restored);
  entry->sqnr_alone = comparison.sqnr();
  entry->clipped = values.empty() ? 0 : static_cast<double>(clipped) / static_cast<double>(values.size());
}

Vector<std::uint8_t> packed(DType dtype, const Vector<std::int32_t> &stored) {
  const std::uint32_t bits = dtype_bits(dtype);
  Vector<std::uint8_t> out((stored.size() * bits + 7) / 8);
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(stored[i]);
    if (bits < 8)
      out[i * bits / 8] = static_cast<std::uint8_t>(out[i * bits / 8] | (value & ((1u << bits) - 1)) << (i * bits % 8));
    else std::memcpy(out.data() + i * (bits / 8), &value, bits / 8);
  }
  return out;
}

}  // namespace quarry::quantize
