// SPDX-License-Identifier: Apache-2.0
// Convolutions. All are one product: out(m, p) = sum over k of w(m, k) * patch(k, p), where m is an output channel of
// the group, p an output position and k runs over (channel of the group, tap of the kernel), row-major. Padding reads
// as 0.
#include "base/real/real.h"
#include "kernels/reference/dot_tiles.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

namespace {

using qir::ConvGeometry;

// The kernel taps that hit the input. Conv: input = output * stride - pad + tap * dilation. ConvTranspose is that read
// backwards: input * stride - pad + tap * dilation = output, where the input index comes out whole.
struct Space {
  std::uint32_t rank;
  std::int64_t in[qir::kMaxSpatial], kernel[qir::kMaxSpatial], out[qir::kMaxSpatial];
  std::int64_t stride[qir::kMaxSpatial], dilation[qir::kMaxSpatial], pad[qir::kMaxSpatial];
  std::int64_t in_size, kernel_size, out_size;

  explicit Space(const ConvGeometry &g) : rank(g.rank) {
    bool pointwise = true;
    for (std::uint32_t i = 0; i < rank; ++i) {
      in[i] = g.in[i];
      kernel[i] = g.kernel[i];
      out[i] = g.out[i];
      stride[i] = g.stride[i];
      dilation[i] = g.dilation[i];
      pad[i] = g.pad_begin[i];
      pointwise = pointwise && kernel[i] == 1 && stride[i] == 1 && pad[i] == 0 && in[i] == out[i];
    }
    in_size = product(in, 0, rank);
    kernel_size = product(kernel, 0, rank);
    out_size = product(out, 0, rank);
    if (pointwise || rank == 0) *this = flat(in_size);
  }

  // A row of positions with one tap: 1x1 kernels see every image so.
  static Space flat(std::int64_t size) { return Space(size); }

 private:
  explicit Space(std::int64_t size)
      : rank(1),
        in{size},
        kernel{1},
        out{size},
        stride{1},
        dilation{1},
        pad{0},
        in_size(size),
        kernel_size(1),
        out_size(size) {}
};

// The output positions [first, first + columns) as runs of rows along the last axis.
struct Rows {
  struct Run {
    std::int64_t column, length, x;
    std::int64_t outer[qir::kMaxSpatial];
  };
  std::int64_t count = 0;
  Run runs[kTileColumns];

  Rows(const Space &s, std::int64_t first, std::int64_t columns) {
    const std::uint32_t last = s.rank - 1;
    for (std::int64_t column = 0; column < columns;) {
      Run &run = runs[count++];
      std::int64_t rest = first + column;
      run.column = column;
      run.x = rest % s.out[last];
      run.length = std::min(columns - column, s.out[last] - run.x);
      rest /= s.out[last];
      for (std::uint32_t i = last; i-- > 0; rest /= s.out[i]) run.outer[i] = rest % s.out[i];
      column += run.length;
    }
  }
};

// The input index that output `o` sees through tap `t` of an axis; -1: none.
template <bool Transposed>
std::int64_t source(const Space &s, std::uint32_t axis, std::int64_t o, std::int64_t t) noexcept {
  if constexpr (Transposed) {
    const std::int64_t scaled = o + s.pad[axis] - t * s.dilation[axis];
    const std::int64_t i = scaled / s.stride[axis];
    return scaled >= 0 && scaled % s.stride[axis] == 0 && i < s.in[axis] ? i : -1;
  } else {
    const std::int64_t i = o * s.stride[axis] - s.pad[axis] + t * s.dilation[axis];
    return i >= 0 && i < s.in[axis] ? i : -1;
  }
}

// Fills the patches of taps [k, k + count) at the positions of `rows`. `first`: the number of the group's first
// element.
using LoadPatches = void (*)(const Space &s, const Rows &rows, const void *x, std::int64_t first, double zero,
                             std::int64_t k, std::int64_t count, TileB &b);
template <class X, bool Transposed>
void load_patches(const Space &s, const Rows &rows, const void *x, std::int64_t first, double zero, std::int64_t k,
                  std::int64_t count, TileB &b) noexcept {
  const std::uint32_t last = s.rank - 1;
  for (std::int64_t row = 0; row < count; ++row) {
    std::int64_t tap[qir::kMaxSpatial] = {};
    std::int64_t rest = (k + row) % s.kernel_size;
    for (std::uint32_t i = s.rank; i-- > 0; rest /= s.kernel[i]) tap[i] = rest % s.kernel[i];
    const X *plane = static_cast<const X *>(x) + first + (k + row) / s.kernel_size * s.in_size;
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const Rows::Run &run = rows.runs[i];
      double *to = b.at[row] + run.column;
      std::int64_t offset = 0;
      bool inside = true;
      for (std::uint32_t axis = 0; axis < last; ++axis) {
        const std::int64_t at = source<Transposed>(s, axis, run.outer[axis], tap[axis]);
        inside = inside && at >= 0;
        offset = offset * s.in[axis] + at;
      }
      if (!inside) {
        std::fill_n(to, run.length, 0.0);
        continue;
      }
      const X *from_row = plane + offset * s.in[last];
      if (!Transposed && s.stride[last] == 1) {
        const std::int64_t begin = run.x - s.pad[last] + tap[last] * s.dilation[last];  // of the first position
        const std::int64_t from = std::clamp<std::int64_t>(-begin, 0, run.length);
        const std::int64_t until = std::clamp(s.in[last] - begin, from, run.length);
        std::fill_n(to, from, 0.0);
        for (std::int64_t p = from; p < until; ++p) to[p] = static_cast<double>(from_row[begin + p]) - zero;
        std::fill(to + until, to + run.length, 0.0);
      } else {
        for (std::int64_t p = 0; p < run.length; ++p) {
          const std::int64_t at = source<Transposed>(s, last, run.x + p, tap[last]);
          to[p] = at < 0 ? 0.0 : static_cast<double>(from_row[at]) - zero;
        }
      }
    }
  }
}
LoadPatches find_load_patches(DType dtype, bool transposed) noexcept {
  LoadPatches found = nullptr;
  if (transposed) dispatch<float, double>(dtype, [&](auto tag) { found = load_patches<decltype(tag), true>; });
  else
    dispatch<float, double, std::int8_t, std::uint8_t>(dtype,
                                                       [&](auto tag) { found = load_patches<decltype(tag), false>; });
  return found;
}

// Takes row m of results: output channel (over all groups), and their first index in the output.
using StoreSums = void (*)(const void *user, std::int64_t m, std::int64_t index, std::int64_t count,
                           const double *sums);

// w_zero: per output channel.
Status convolve(Context &context, const ConvGeometry &g, bool transposed, const View &x, double x_zero, const View &w,
                const Values &w_zero, StoreSums store, const void *user) {
  const LoadPatches load_x = find_load_patches(x.dtype, transposed);
  const LoadRows load_w = find_load_rows(w.dtype);
  if (!load_x || !load_w) return type_error(context, load_x ? w.dtype : x.dtype);
  const Space s(g);
  const std::int64_t depth = g.in_per_group * s.kernel_size;
  const Tiling tiling{g.out_per_group, s.out_size};
  const std::int64_t tiles = tiling.count();
  parallel(context, g.batch * g.group * tiles, [&](std::int64_t task) {
    if (context.stopped()) return;
    const std::int64_t n = task / tiles / g.group, group = task / tiles % g.group;
    const Tiling::Tile tile = tiling[task % tiles];
    const Rows rows(s, tile.column, tile.columns);
    const std::int64_t group_x = (n * g.in_channels + group * g.in_per_group) * s.in_size;
    const std::int64_t first = group * g.out_per_group + tile.row;
    double zeros[kTileRows];
    const double *const w_zeros = w_zero.data ? zeros : nullptr;
    for (std::int64_t m = 0; w_zeros && m < tile.rows; ++m) zeros[m] = w_zero[first + m];
    dot_tile(
        tile.rows, tile.columns, depth,
        [&](std::int64_t k, std::int64_t count, TileA &a) {
          if (!transposed) {  // [out channel][in channel of the group][tap]
            load_w(w.data, first * depth + k, depth, 1, tile.rows, count, w_zeros, a.at[0]);
            return;
          }
          // [in channel][out channel of the group][tap]
          const auto first_of = [&](std::int64_t at) {
            const std::int64_t c = group * g.in_per_group + at / s.kernel_size;
            return (c * g.out_per_group + tile.row) * s.kernel_size + at % s.kernel_size;
          };
          if (s.kernel_size == 1) {
            load_w(w.data, first_of(k), 1, g.out_per_group, tile.rows, count, w_zeros, a.at[0]);
            return;
          }
          for (std::int64_t i = 0, taps; i < count; i += taps) {
            taps = std::min(count - i, s.kernel_size - (k + i) % s.kernel_size);
            load_w(w.data, first_of(k + i), s.kernel_size, 1, tile.rows, taps, w_zeros, a.at[0] + i);
          }
        },
        [&](std::int64_t k, std::int64_t count, TileB &b) { load_x(s, rows, x.data, group_x, x_zero, k, count, b); },
        [&](std::int64_t m, const double *sums) {
          store(user, first + m, (n * g.out_channels + first + m) * s.out_size + tile.column, tile.columns, sums);
        });
  });
  return {};
}

Status float_conv(Context &context, bool transposed) {
  const View &x = *context.input(0), &w = *context.input(1);
  const View *bias = context.input(2);
  ConvGeometry g;
  QR_RETURN_IF_ERROR(transposed ? qir::resolve_conv_transpose(context.node(), dims_of(x), dims_of(w), &g)
                                : qir::resolve_conv(context.node(), dims_of(x), dims_of(w), &g));
  QR_RETURN_IF_ERROR(check_real(context, bias, "the bias", {g.out_channels}));
  View *y = context.output(0);
  if (!y) return {};
  if (!is_real(x) || w.dtype != x.dtype || y->dtype != x.dtype) return type_error(context, x.dtype);
  struct Target {
    const View &y;
    const double *offsets;
    static void store(const void *user, std::int64_t m, std::int64_t index, std::int64_t count, const double *sums) {
      const Target &to = *static_cast<const Target *>(user);
      double row[kTileColumns];
      for (std::int64_t p = 0; p < count; ++p) row[p] = to.offsets ? sums[p] + to.offsets[m] : sums[p];
      store_rounded(to.y, index, count, row);
    }
  };
  const Target target = {*y, bias ? as_doubles(context, *bias) : nullptr};
  return convolve(context, g, transposed, x, 0.0, w, Values{}, Target::store, &target);
}

bool is_byte(const View &view) noexcept { return view.dtype == DType::I8 || view.dtype == DType::U8; }

}  // namespace

Status kernel_conv(Context &context) { return float_conv(context, false); }

Status kernel_conv_transpose(Context &context) { return float_conv(context, true); }

Status kernel_conv_integer(Context &context) {
  const View &x = *context.input(0), &w = *context.input(1);
  ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(context.node(), dims_of(x), dims_of(w), &g));
  Values x_zero, w_zero;
  QR_RETURN_IF_ERROR(read_values(context, 2, "x_zero_point", {}, 0, &x_zero));
  QR_RETURN_IF_ERROR(read_values(context, 3, "w_zero_point", {g.out_channels}, 0, &w_zero));
  View *y = context.output(0);
  if (!y) return {};
  if (!is_byte(x) || !is_byte(w)) return type_error(context, x.dtype);
  const auto store = [](const void *user, std::int64_t, std::int64_t index, std::int64_t count, const double *sums) {
    std::int32_t *const to = static_cast<const View *>(user)->as<std::int32_t>() + index;
    for (std::int64_t p = 0; p < count; ++p)
      to[p] = static_cast<std::int32_t>(static_cast<std::int64_t>(sums[p]));  // wraps around, as 32-bit sums do
  };
  return convolve(context, g, false, x, x_zero[0], w, w_zero, store, y);
}

Status kernel_qlinear_conv(Context &context) {
  const View &x = *context.input(0), &w = *context.input(3);
  const View *bias = context.input(8);
  ConvGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_conv(context.node(), dims_of(x), dims_of(w), &g));
  Values x_scale, x_zero, w_scale, w_zero, y_scale, y_zero;
  QR_RETURN_IF_ERROR(read_values(context, 1, "x_scale", {}, 1, &x_scale));
  QR_RETURN_IF_ERROR(read_values(context, 2, "x_zero_point", {}, 0, &x_zero));
  QR_RETURN_IF_ERROR(read_values(context, 4, "w_scale", {g.out_channels}, 1, &w_scale));
  QR_RETURN_IF_ERROR(read_values(context, 5, "w_zero_point", {g.out_channels}, 0, &w_zero));
  QR_RETURN_IF_ERROR(read_values(context, 6, "y_scale", {}, 1, &y_scale));
  QR_RETURN_IF_ERROR(read_values(context, 7, "y_zero_point", {}, 0, &y_zero));
  if (bias && (bias->dtype != DType::I32 || bias->count != g.out_channels)) {
    return qir::node_error(context.node(), ErrorId::run_value, "the bias is %s %s, expected i32 [%lld]",
                           dtype_name(bias->dtype), shape_text(bias->dims, bias->rank), g.out_channels);
  }
  View *y = context.output(0);
  if (!y) return {};
  if (!is_byte(x) || !is_byte(w) || !is_byte(*y)) return type_error(context, is_byte(*y) ? x.dtype : y->dtype);
  struct Target {
    const View &y;
    const View *bias;
    const Values &x_scale, &w_scale, &y_scale, &y_zero;
    static void store(const void *user, std::int64_t m, std::int64_t index, std::int64_t count, const double *sums) {
      const Target &to = *static_cast<const Target *>(user);
      const double scale = to.x_scale[0] * to.w_scale[m];
      double row[kTileColumns];
      for (std::int64_t p = 0; p < count; ++p) {
        const double sum = to.bias ? sums[p] + to.bias->as<const std::int32_t>()[m] : sums[p];
        row[p] = __builtin_rint(sum * scale / to.y_scale[0]) + to.y_zero[0];
      }
      store_rounded(to.y, index, count, row);
    }
  };
  const Target target = {*y, bias, x_scale, w_scale, y_scale, y_zero};
  return convolve(context, g, false, x, x_zero[0], w, w_zero, Target::store, &target);
}

Status kernel_causal_conv_with_state(Context &context) {
  const View &x = *context.input(0), &w = *context.input(1);
  const View *bias = context.input(2), *past = context.input(3);
  if (x.rank != 3 || w.rank != 3 || w.dims[0] != x.dims[1] || w.dims[1] != 1 || w.dims[2] < 1) {
    return qir::node_error(context.node(), ErrorId::run_value,
                           "found input %s and weight %s, expected [N,C,L] and [C,1,k]", shape_text(x.dims, x.rank),
                           shape_text(w.dims, w.rank));
  }
  const std::int64_t channels = x.dims[1], length = x.dims[2], taps = w.dims[2], carried = taps - 1;
  QR_RETURN_IF_ERROR(check_real(context, bias, "the bias", {channels}));
  QR_RETURN_IF_ERROR(check_real(context, past, "past_state", {x.dims[0], channels, carried}));
  if (!is_real(x) || !is_real(w)) return type_error(context, x.dtype);
  const bool silu = context.node().get_string("activation", "none") != "none";
  View *y = context.output(0), *present = context.output(1);
  dispatch<float, double>(x.dtype, [&](auto tag) {
    using T = decltype(tag);
    parallel(context, x.dims[0] * channels, [&](std::int64_t row) {
      if (context.stopped()) return;
      const std::int64_t c = row % channels;
      // The row with what was carried over before it: position 0 is the oldest of the past.
      const T *const given = x.as<const T>() + row * length;
      const auto value = [&](std::int64_t at) {
        return at >= carried ? static_cast<double>(given[at - carried])
               : past        ? real_at(*past, row * carried + at)
                             : 0.0;
      };
      // Sums of some positions beside each other: each begins with the oldest of its values.
      constexpr std::int64_t kPositions = 64;
      for (std::int64_t begin = 0; y && begin < length; begin += kPositions) {
        const std::int64_t count = std::min(kPositions, length - begin);
        double sums[kPositions] = {};
        for (std::int64_t t = 0; t < taps; ++t) {
          const double weight = real_at(w, c * taps + t);
          std::int64_t i = 0;
          for (; i < count && begin + i + t < carried; ++i) sums[i] += weight * value(begin + i + t);
          const T *const from = given + begin + t - carried;
          for (; i < count; ++i) sums[i] += weight * static_cast<double>(from[i]);
        }
        const double added = bias ? real_at(*bias, c) : 0;
        T *const to = y->as<T>() + row * length + begin;
        for (std::int64_t i = 0; bias && i < count; ++i) sums[i] += added;
        for (std::int64_t i = 0; silu && i < count; ++i) sums[i] /= 1 + real::exp(-sums[i]);
        for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(sums[i]);
      }
      for (std::int64_t i = 0; present && i < carried; ++i) set_real(*present, row * carried + i, value(length + i));
    });
  });
  return {};
}

}  // namespace quarry::reference
