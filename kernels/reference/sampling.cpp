// SPDX-License-Identifier: Apache-2.0
// Operators that read an image at positions that another tensor gives: GridSample, DeformConv; and AffineGrid, which
// makes such positions.
#include <algorithm>
#include <cmath>

#include "graph/ops/resize_coordinates.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/tensors.h"

namespace quarry::reference {

using qir::kMaxRank;
using qir::kMaxSpatial;

namespace {

enum class Padding { Zeros, Border, Reflection };
constexpr std::int64_t kOutside = -1;

// Reflects x between two borders until it lies inside.
template <class F>
F reflect(F x, F low, F high) {
  const F range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const F beyond = x < low ? low - x : x - high;
  const F turns = std::floor(beyond / range), rest = beyond - turns * range;
  const bool from_low = (x < low) == (std::fmod(turns, F{2}) == 0);
  return from_low ? low + rest : high - rest;
}

// One spatial axis of the sampled image.
struct GridAxis {
  std::int64_t extent, stride;
  Padding padding;
  bool align_corners;
  double low() const { return align_corners ? 0 : -0.5; }
  double high() const { return static_cast<double>(extent) - (align_corners ? 1 : 0.5); }

  // The element that a tap at `index` reads; kOutside: zero.
  std::int64_t source(std::int64_t index) const {
    if (index >= 0 && index < extent) return index;
    if (padding == Padding::Zeros || extent == 0) return kOutside;
    if (padding == Padding::Reflection)
      index = static_cast<std::int64_t>(reflect(static_cast<double>(index), low(), high()));
    return std::clamp<std::int64_t>(index, 0, extent - 1);
  }
};

struct Tap {
  std::int64_t offset;
  double weight;
};

enum class GridMode { Nearest, Linear, Cubic };

// The taps along one axis for normalised coordinate `at`; returns how many.
template <class G>
int axis_taps(const GridAxis &axis, GridMode mode, G at, Tap *taps) {
  const G length = static_cast<G>(axis.extent);
  G x = axis.align_corners ? (at + 1) / 2 * (length - 1) : ((at + 1) * length - 1) / 2;
  if (mode == GridMode::Nearest) x = std::nearbyint(x);
  if (x < static_cast<G>(axis.low()) || x > static_cast<G>(axis.high())) {
    // Cubic taps go to the border each by itself, as PyTorch and ONNX Runtime have it: what is further out than they
    // reach is as far as they reach.
    const G reach = mode == GridMode::Cubic ? 4 : 0;
    if (axis.padding == Padding::Border) x = std::clamp(x, -reach, std::max(length - 1, G{0}) + reach);
    if (axis.padding == Padding::Reflection) x = reflect(x, static_cast<G>(axis.low()), static_cast<G>(axis.high()));
  }
  if (!(std::fabs(x) < G{1e9})) x = G{-1e9};  // NaN and what no image has
  const G floor = std::floor(x);
  const auto first = static_cast<std::int64_t>(floor);
  const auto ratio = static_cast<double>(x - floor);
  int count = 0;
  const auto put = [&](std::int64_t index, double weight) {
    if (weight == 0) return;  // an infinity there counts for nothing
    const std::int64_t source = axis.source(index);
    if (source != kOutside) taps[count++] = {source * axis.stride, weight};
  };
  switch (mode) {
    case GridMode::Nearest: put(first, 1); break;
    case GridMode::Linear:
      put(first, 1 - ratio);
      put(first + 1, ratio);
      break;
    case GridMode::Cubic:
      for (int t = -1; t <= 2; ++t) put(first + t, qir::cubic_weight(t - ratio, -0.75));
      break;
  }
  return count;
}

// One position of all channels: element `position` of every plane of `positions`, from planes of `pixels`.
template <class T>
void sample_position(const View &in, std::int64_t plane, std::int64_t pixels, std::int64_t channels, const Tap *taps,
                     std::int64_t count, const View &out, std::int64_t positions, std::int64_t position) {
  const T *image = in.as<const T>() + plane * pixels;
  T *to = out.as<T>() + plane * positions + position;
  const bool single = count == 1 && taps[0].weight == 1;
  for (std::int64_t c = 0; c < channels; ++c, image += pixels, to += positions) {
    if (single) {
      *to = image[taps[0].offset];
      continue;
    }
    double sum = 0;
    for (std::int64_t t = 0; t < count; ++t) sum += taps[t].weight * static_cast<double>(image[taps[t].offset]);
    *to = cast_to<T>(sum);
  }
}

}  // namespace

Status kernel_grid_sample(Context &context) {
  const View &in = *context.input(0);
  const View &grid = *context.input(1);
  View &out = *context.output(0);
  const std::uint32_t space = in.rank - 2;
  std::int64_t dims[kMaxRank] = {in.dims[0], in.dims[1]};
  if (grid.rank != in.rank || grid.dims[0] != in.dims[0] || grid.dims[in.rank - 1] != space) {
    return qir::node_error(context.node(), ErrorId::run_value, "grid is %s for input %s",
                           shape_text(grid.dims, grid.rank), shape_text(in.dims, in.rank));
  }
  std::copy_n(grid.dims + 1, space, dims + 2);
  View *made;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, in.rank, &made));
  if (out.count == 0) return {};

  const qir::Node &node = context.node();
  const std::string_view mode_name = node.get_string("mode", "linear"),
                         padding_name = node.get_string("padding_mode", "zeros");
  const GridMode mode = mode_name == "nearest" ? GridMode::Nearest
                        : mode_name == "cubic" ? GridMode::Cubic
                                               : GridMode::Linear;
  const Padding padding = padding_name == "border"       ? Padding::Border
                          : padding_name == "reflection" ? Padding::Reflection
                                                         : Padding::Zeros;
  GridAxis axes[kMaxSpatial];
  std::int64_t strides[kMaxSpatial], most = 1;
  dense_strides(in.dims + 2, space, strides);
  for (std::uint32_t i = 0; i < space; ++i) {
    axes[i] = {in.dims[2 + i], strides[i], padding, node.get_int("align_corners", 0) != 0};
    most *= 4;
  }
  const std::int64_t pixels = product(in.dims, 2, in.rank), positions = product(out.dims, 2, out.rank),
                     channels = in.dims[1];
  // The taps of a position: all combinations of those of its axes.
  auto *taps = static_cast<Tap *>(context.scratch(static_cast<std::uint64_t>(most) * sizeof(Tap)));
  decltype(sample_position<float>) *sample = nullptr;
  if (!dispatch_any(in.dtype, [&](auto tag) { sample = sample_position<decltype(tag)>; }))
    return type_error(context, in.dtype);
  const bool known = dispatch<float, double>(grid.dtype, [&](auto tag) {
    using G = decltype(tag);
    Poll poll(context);
    for (std::int64_t n = 0; n < in.dims[0]; ++n) {
      for (std::int64_t position = 0; position < positions && !poll.stopped(64 + 4 * channels); ++position) {
        const G *at = grid.as<const G>() + (n * positions + position) * space;
        std::int64_t count = 1;
        taps[0] = {0, 1};
        for (std::uint32_t i = 0; i < space; ++i) {
          Tap axis[4];
          const int more = axis_taps(axes[i], mode, at[space - 1 - i], axis);  // the grid names the last axis first
          for (int t = more; t-- > 0;) {  // the first copy of the list is overwritten last
            for (std::int64_t c = 0; c < count; ++c)
              taps[t * count + c] = {taps[c].offset + axis[t].offset, taps[c].weight * axis[t].weight};
          }
          count *= more;
        }
        sample(in, n * channels, pixels, channels, taps, count, out, positions, position);
      }
    }
  });
  return known ? Status() : type_error(context, grid.dtype);
}

Status kernel_affine_grid(Context &context) {
  const View &theta = *context.input(0);
  qir::IntList size;
  QR_RETURN_IF_ERROR(read_list(context, 1, &size));
  const std::uint32_t space = size.size - 2;  // 2 or 3
  if (size.size < 4 || size.size > 5 || theta.rank != 3 || theta.dims[0] != size[0] || theta.dims[1] != space ||
      theta.dims[2] != space + 1) {
    return qir::node_error(context.node(), ErrorId::run_value, "theta is %s for size %s",
                           shape_text(theta.dims, theta.rank), shape_text(size.values, size.size));
  }
  std::int64_t dims[kMaxRank] = {size[0]};
  for (std::uint32_t i = 0; i < space; ++i) dims[1 + i] = size[2 + i];
  dims[1 + space] = space;
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, space + 2, &out));
  const bool align = context.node().get_int("align_corners", 0) != 0;
  // Where index i of an axis lies in [-1, 1].
  const auto coordinate = [&](std::int64_t i, std::int64_t extent) {
    if (!align) return static_cast<double>(2 * i + 1) / static_cast<double>(extent) - 1;
    return extent > 1 ? static_cast<double>(2 * i) / static_cast<double>(extent - 1) - 1 : 0.0;
  };
  const bool known = dispatch<float, double>(theta.dtype, [&](auto tag) {
    using T = decltype(tag);
    T *to = out->as<T>();
    Poll poll(context);
    for (std::int64_t n = 0; n < size[0]; ++n) {
      const T *matrix = theta.as<const T>() + n * space * (space + 1);
      for (Odometer at(dims + 1, space); !at.done() && !poll.stopped(16); at.next()) {
        for (std::uint32_t row = 0; row < space; ++row) {
          double sum = matrix[row * (space + 1) + space];
          for (std::uint32_t i = 0; i < space; ++i) {  // x is the last axis
            sum += static_cast<double>(matrix[row * (space + 1) + i]) * coordinate(at[space - 1 - i], dims[space - i]);
          }
          *to++ = static_cast<T>(sum);
        }
      }
    }
  });
  return known ? Status() : type_error(context, theta.dtype);
}

Status kernel_deform_conv(Context &context) {
  const View &in = *context.input(0), &weights = *context.input(1), &offsets = *context.input(2);
  const View *bias = context.input(3), *mask = context.input(4);
  qir::ConvGeometry conv;
  QR_RETURN_IF_ERROR(qir::resolve_conv(context.node(), dims_of(in), dims_of(weights), &conv));
  const std::uint32_t space = conv.rank;
  const std::int64_t offset_groups = context.node().get_int("offset_group", 1);
  const std::int64_t taps = product(conv.kernel, 0, space), positions = product(conv.out, 0, space),
                     pixels = product(conv.in, 0, space);
  const std::int64_t entries = conv.batch * offset_groups * taps * positions;
  if (offset_groups < 1 || conv.in_channels % offset_groups != 0 || offsets.count != entries * space ||
      (mask && mask->count != entries) || (bias && bias->count != conv.out_channels)) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "offsets are %s for %lld output positions, %lld taps and %lld offset groups",
                           shape_text(offsets.dims, offsets.rank), positions, taps, offset_groups);
  }
  std::int64_t dims[kMaxRank] = {conv.batch, conv.out_channels}, strides[kMaxSpatial];
  std::copy_n(conv.out, space, dims + 2);
  dense_strides(conv.in, space, strides);
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, dims, space + 2, &out));
  if (out->count == 0) return {};
  const std::int64_t channels_per_offset = conv.in_channels / offset_groups, column = conv.in_per_group * taps;
  // What the kernel sees at one position, per input channel and tap.
  auto *seen =
      static_cast<double *>(context.scratch(static_cast<std::uint64_t>(conv.in_channels * taps) * sizeof(double)));
  const bool known = dispatch<float, double>(in.dtype, [&](auto tag) {
    using T = decltype(tag);
    const T *moved = offsets.as<const T>();
    for (std::int64_t n = 0; n < conv.batch; ++n) {
      std::int64_t position = 0;
      for (Odometer at(conv.out, space); !at.done() && !context.stopped(); at.next(), ++position) {
        for (std::int64_t g = 0; g < offset_groups; ++g) {
          std::int64_t k = 0;
          for (Odometer tap(conv.kernel, space); !tap.done(); tap.next(), ++k) {
            const std::int64_t entry = (n * offset_groups + g) * taps + k;
            Tap corners[1u << kMaxSpatial] = {{0, 1}};
            const double factor = mask ? static_cast<double>(mask->as<const T>()[entry * positions + position]) : 1;
            std::int64_t count = 1;
            for (std::uint32_t i = 0; i < space; ++i) {
              const std::int64_t base = at[i] * conv.stride[i] + tap[i] * conv.dilation[i] - conv.pad_begin[i];
              const double x =
                  static_cast<double>(base) + static_cast<double>(moved[(entry * space + i) * positions + position]);
              if (!(x > -1 && x < static_cast<double>(conv.in[i]))) {
                count = 0;
                break;
              }
              const double floor = std::floor(x), ratio = x - floor;
              const auto low = static_cast<std::int64_t>(floor);
              const bool has_low = low >= 0, has_high = low + 1 < conv.in[i] && ratio != 0;
              for (std::int64_t c = 0; c < count; ++c) {
                const Tap corner = corners[c];
                if (has_high)
                  corners[has_low ? count + c : c] = {corner.offset + (low + 1) * strides[i], corner.weight * ratio};
                if (has_low) corners[c] = {corner.offset + low * strides[i], corner.weight * (1 - ratio)};
              }
              count *= has_low + has_high;
            }
            for (std::int64_t c = g * channels_per_offset; c < (g + 1) * channels_per_offset; ++c) {
              const T *image = in.as<const T>() + (n * conv.in_channels + c) * pixels;
              double sum = 0;
              for (std::int64_t t = 0; t < count; ++t)
                sum += corners[t].weight * static_cast<double>(image[corners[t].offset]);
              seen[c * taps + k] = sum * factor;
            }
          }
        }
        for (std::int64_t m = 0; m < conv.out_channels; ++m) {
          const T *row = weights.as<const T>() + m * column;
          const double *group = seen + m / conv.out_per_group * column;
          double sum = bias ? static_cast<double>(bias->as<const T>()[m]) : 0.0;
          for (std::int64_t i = 0; i < column; ++i) sum += static_cast<double>(row[i]) * group[i];
          out->as<T>()[(n * conv.out_channels + m) * positions + position] = static_cast<T>(sum);
        }
      }
    }
  });
  return known ? Status() : type_error(context, in.dtype);
}

}  // namespace quarry::reference
