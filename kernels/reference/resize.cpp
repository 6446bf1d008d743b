// SPDX-License-Identifier: Apache-2.0
// Resize. Interpolation is separable: every resized axis gets a table of taps (which inputs, with which weights) and is
// a pass of its own.
#include <algorithm>
#include <cmath>
#include <utility>

#include "graph/ops/resize_coordinates.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

using qir::Coordinates;
using qir::kMaxRank;
using qir::Nearest;
using qir::ResizeAxis;

namespace {

enum class Mode { Nearest, Linear, Cubic };

struct Settings {
  Coordinates coordinates;
  Mode mode;
  Nearest nearest;
  bool antialias, exclude_outside;
  double cubic_a, extrapolation;

  explicit Settings(const qir::Node &node) {
    coordinates = qir::coordinates_of(node);
    const std::string_view kind = node.get_string("mode", "nearest");
    mode = kind == "linear" ? Mode::Linear : kind == "cubic" ? Mode::Cubic : Mode::Nearest;
    nearest = qir::nearest_of(node);
    antialias = node.get_int("antialias", 0) != 0;
    exclude_outside = node.get_int("exclude_outside", 0) != 0;
    cubic_a = node.get_float("cubic_coeff_a", -0.75F);
    extrapolation = node.get_float("extrapolation_value", 0.0F);
  }
};

// One axis. For output index y the taps are index[y * taps + t] with weight[y * taps + t], the first used[y] of them;
// nearest has one tap.
struct Axis : ResizeAxis {
  bool identity = false;
  std::int64_t taps = 1;
  std::int64_t *index = nullptr;
  double *weight = nullptr;
  std::int64_t *used = nullptr;
  bool *outside = nullptr;  // beyond the input, for Coordinates::Crop only
};

double filter(Mode mode, double distance, double a) {
  return mode == Mode::Cubic ? qir::cubic_weight(distance, a) : std::max(1 - std::fabs(distance), 0.0);
}

Status make_taps(Context &context, const Settings &settings, Axis *axis) {
  // Antialiasing stretches the filter where the axis shrinks.
  const double stretch =
      settings.antialias && settings.mode != Mode::Nearest ? std::min(static_cast<double>(axis->scale), 1.0) : 1.0;
  const double radius = settings.mode == Mode::Cubic ? 2 : 1;
  const double first_tap = settings.mode == Mode::Nearest ? 0 : std::floor(-radius / stretch) + 1;
  if (!(first_tap >= -2.0 * static_cast<double>(axis->in) - 4)) {
    return qir::node_error(context.node(), ErrorId::run_value, "found scale %g for %lld elements, which leaves none",
                           static_cast<double>(axis->scale), axis->in);
  }
  const auto first = static_cast<std::int64_t>(first_tap);
  axis->taps = settings.mode == Mode::Nearest ? 1 : 2 - 2 * first;
  const auto entries = static_cast<std::uint64_t>(axis->out * axis->taps);
  axis->index = static_cast<std::int64_t *>(context.scratch(entries * sizeof(std::int64_t)));
  axis->weight = static_cast<double *>(context.scratch(entries * sizeof(double)));
  axis->used =
      static_cast<std::int64_t *>(context.scratch(static_cast<std::uint64_t>(axis->out) * sizeof(std::int64_t)));
  axis->outside = static_cast<bool *>(context.scratch(static_cast<std::uint64_t>(axis->out)));
  for (std::int64_t y = 0; y < axis->out; ++y) {
    const float x = qir::original(*axis, settings.coordinates, y);
    axis->outside[y] = settings.coordinates == Coordinates::Crop && !(x >= 0 && x <= static_cast<float>(axis->in - 1));
    std::int64_t *index = axis->index + y * axis->taps;
    double *weight = axis->weight + y * axis->taps;
    if (settings.mode == Mode::Nearest) {
      index[0] = qir::clamp_index(qir::nearest_index(x, settings.nearest), axis->in);
      weight[0] = 1;
      continue;
    }
    const float floor = std::floor(x);
    const double ratio = static_cast<double>(x) - static_cast<double>(floor);
    double sum = 0;
    for (std::int64_t t = 0; t < axis->taps; ++t) {
      const float position = floor + static_cast<float>(first + t);
      index[t] = qir::clamp_index(position, axis->in);
      weight[t] = filter(settings.mode, (static_cast<double>(first + t) - ratio) * stretch, settings.cubic_a);
      if (settings.exclude_outside && !(position >= 0 && position < static_cast<float>(axis->in))) weight[t] = 0;
      sum += weight[t];
    }
    if ((settings.exclude_outside || settings.antialias) && sum != 0) {
      for (std::int64_t t = 0; t < axis->taps; ++t) weight[t] /= sum;
    }
    for (std::int64_t t = 0; t < axis->taps; ++t) {
      if (weight[t] == 0) continue;  // an infinity beside the window stays outside
      index[axis->used[y]] = index[t];
      weight[axis->used[y]++] = weight[t];
    }
  }
  return {};
}

// `beyond`: what stands where the input is not seen; nullptr: it is seen everywhere.
template <class T>
void resize_nearest(const View &in, const View &out, const Axis *axes, const void *beyond) {
  std::int64_t strides[kMaxRank];
  dense_strides(in.dims, in.rank, strides);
  T *to = out.as<T>();
  const std::uint32_t last = in.rank - 1;
  const Axis &row = axes[last];
  constexpr std::int64_t kShort = 8;  // not worth a call
  for (Odometer index(out.dims, last); !index.done(); index.next(), to += row.out) {
    std::int64_t base = 0;
    bool outside = false;
    for (std::uint32_t i = 0; i < last; ++i) {
      base += (axes[i].identity ? index[i] : axes[i].index[index[i]]) * strides[i];
      outside |= !axes[i].identity && axes[i].outside[index[i]];
    }
    const T *const from = in.as<const T>() + base;
    if (beyond && outside) {
      fill(to, row.out, beyond, sizeof(T));
    } else if (row.identity && row.out > kShort) {
      std::copy_n(from, row.out, to);
    } else if (row.identity) {
      for (std::int64_t x = 0; x < row.out && x < kShort; ++x) to[x] = from[x];
    } else {
      const std::int64_t *const positions = row.index;
      for (std::int64_t x = 0; x < row.out; ++x) to[x] = from[positions[x]];
      for (std::int64_t x = 0; beyond && x < row.out; ++x)
        if (row.outside[x]) std::memcpy(to + x, beyond, sizeof(T));
    }
  }
}

// to += the weighted sum of some rows, each added by itself.
template <class T, std::size_t... taps>
void add_rows(std::index_sequence<taps...>, const T *from, const std::int64_t *index, const double *weight,
              std::int64_t inner, double *__restrict to) {
  const T *const rows[] = {(from + index[taps] * inner)...};
  const double weights[] = {weight[taps]...};
  for (std::int64_t j = 0; j < inner; ++j) {
    double sum = to[j];
    ((sum += weights[taps] * static_cast<double>(rows[taps][j])), ...);
    to[j] = sum;
  }
}

// Position y of the result: `inner` neighbours.
template <class T>
inline void resize_position(const T *from, double *to, std::int64_t inner, const Axis &axis, std::int64_t y) {
  const std::int64_t *const index = axis.index + y * axis.taps;
  const double *const weight = axis.weight + y * axis.taps;
  const std::int64_t used = axis.used[y];
  if (inner == 1) {
    double sum = 0;
    for (std::int64_t t = 0; t < used; ++t) sum += weight[t] * static_cast<double>(from[index[t]]);
    *to = sum;
    return;
  }
  std::fill_n(to, inner, 0.0);
  std::int64_t t = 0;
  for (; t + 4 <= used; t += 4) add_rows(std::make_index_sequence<4>(), from, index + t, weight + t, inner, to);
  if (t + 2 <= used) {
    add_rows(std::make_index_sequence<2>(), from, index + t, weight + t, inner, to);
    t += 2;
  }
  if (t < used) add_rows(std::make_index_sequence<1>(), from, index + t, weight + t, inner, to);
}

// One pass: [outer, axis.in, inner] -> [outer, axis.out, inner].
template <class T>
void resize_axis(const T *from, double *to, std::int64_t outer, std::int64_t inner, const Axis &axis,
                 double extrapolation) {
  for (std::int64_t o = 0; o < outer; ++o, from += axis.in * inner) {
    for (std::int64_t y = 0; y < axis.out; ++y, to += inner) {
      if (axis.outside[y]) std::fill_n(to, inner, extrapolation);
      else resize_position(from, to, inner, axis, y);
    }
  }
}

// The first pass over a plane, which reads the input.
template <class T>
void resize_plane(const View &in, std::int64_t first, double *to, std::int64_t outer, std::int64_t inner,
                  const Axis &axis, double extrapolation) {
  resize_axis(in.as<const T>() + first, to, outer, inner, axis, extrapolation);
}

// Leading axes that keep their dimension count planes; each plane goes through the passes in two buffers of doubles.
void resize_smooth(Context &context, const View &in, const View &out, const Axis *axes, double extrapolation) {
  std::uint32_t first = 0;
  while (first < in.rank && axes[first].identity) ++first;
  const std::int64_t planes = product(in.dims, 0, first), in_plane = product(in.dims, first, in.rank),
                     out_plane = product(out.dims, first, in.rank);
  std::int64_t dims[kMaxRank], largest = in_plane;
  std::copy_n(in.dims, in.rank, dims);
  for (std::uint32_t i = first; i < in.rank; ++i) {
    dims[i] = out.dims[i];
    largest = std::max(largest, product(dims, first, in.rank));
  }
  auto *a = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(largest) * sizeof(double)));
  auto *b = static_cast<double *>(context.scratch(static_cast<std::uint64_t>(largest) * sizeof(double)));
  // Of the types of images; others are made doubles before the first pass.
  decltype(resize_plane<float>) *from_input = nullptr;
  dispatch<float, double, std::uint8_t>(in.dtype, [&](auto tag) { from_input = resize_plane<decltype(tag)>; });
  for (std::int64_t plane = 0; plane < planes && !context.stopped(); ++plane) {
    if (!from_input) load_reals(in, plane * in_plane, 1, in_plane, a);
    std::copy_n(in.dims, in.rank, dims);
    for (std::uint32_t i = first; i < in.rank; ++i) {
      if (axes[i].identity) continue;
      const std::int64_t outer = product(dims, first, i), inner = product(dims, i + 1, in.rank);
      if (i == first && from_input) from_input(in, plane * in_plane, b, outer, inner, axes[i], extrapolation);
      else resize_axis(a, b, outer, inner, axes[i], extrapolation);
      dims[i] = axes[i].out;
      std::swap(a, b);
    }
    store_rounded(out, plane * out_plane, out_plane, a);
  }
}

}  // namespace

Status kernel_resize(Context &context) {
  const View &in = *context.input(0);
  const View *roi = context.input(1), *scales = context.input(2);
  qir::IntList sizes;
  QR_RETURN_IF_ERROR(read_list(context, 3, &sizes));
  const std::span<const float> given =
      scales ? std::span<const float>(scales->as<const float>(), static_cast<std::size_t>(scales->count))
             : std::span<const float>();
  qir::ResizeGeometry geometry;
  QR_RETURN_IF_ERROR(qir::resolve_resize(context.node(), dims_of(in), given, sizes, &geometry));
  View *out;
  QR_RETURN_IF_ERROR(make_output(context, 0, geometry.extent, in.rank, &out));
  if (out->count == 0) return {};
  if (in.count == 0) {
    return qir::node_error(context.node(), ErrorId::run_value, "found %s, which has nothing to make %s of",
                           shape_text(in.dims, in.rank), shape_text(out->dims, out->rank));
  }

  const Settings settings(context.node());
  Axis axes[kMaxRank];
  for (std::uint32_t i = 0; i < in.rank; ++i)
    axes[i] = {{in.dims[i], out->dims[i], static_cast<float>(geometry.scale[i])}};
  if (settings.coordinates == Coordinates::Crop) {
    const std::uint32_t count = geometry.axes.size;
    if (!roi || roi->count != 2 * static_cast<std::int64_t>(count)) {
      return qir::node_error(context.node(), ErrorId::run_value, "found %lld entries of roi, expected %u",
                             roi ? roi->count : 0, 2 * count);
    }
    for (std::uint32_t i = 0; i < count; ++i) {
      Axis &axis = axes[geometry.axes[i]];
      const bool known = dispatch<float, double>(roi->dtype, [&](auto tag) {
        const auto *values = roi->as<const decltype(tag)>();
        axis.roi_start = static_cast<float>(values[i]);
        axis.roi_end = static_cast<float>(values[count + i]);
      });
      if (!known) return type_error(context, roi->dtype);
    }
  }
  bool all_identity = true;
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    Axis &axis = axes[i];
    axis.identity = axis.in == axis.out && axis.scale == 1 && axis.roi_start == 0 && axis.roi_end == 1;
    all_identity &= axis.identity;
    if (!axis.identity) QR_RETURN_IF_ERROR(make_taps(context, settings, &axis));
  }
  if (all_identity) {
    std::memmove(out->data, in.data, in.bytes());
    return {};
  }
  if (!is_loadable(in.dtype)) return type_error(context, in.dtype);
  if (settings.mode != Mode::Nearest) {
    resize_smooth(context, in, *out, axes, settings.extrapolation);
    return {};
  }
  std::uint64_t bits = 0;
  View beyond = in;  // one element
  beyond.data = &bits;
  store_rounded(beyond, 0, 1, &settings.extrapolation);
  const auto nearest = in.width == 1   ? resize_nearest<std::uint8_t>
                       : in.width == 2 ? resize_nearest<std::uint16_t>
                       : in.width == 4 ? resize_nearest<std::uint32_t>
                                       : resize_nearest<std::uint64_t>;
  nearest(in, *out, axes, settings.coordinates == Coordinates::Crop ? &bits : nullptr);
  return {};
}

}  // namespace quarry::reference
