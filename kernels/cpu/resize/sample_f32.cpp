// SPDX-License-Identifier: Apache-2.0
// Images read at places that are computed: GridSample, RoiAlign. Channels last: the taps of a place are found once, in
// f64 as cpu-reference does, and all its channels are summed in vectors. Planes: the taps of some places, then each
// plane, which stays in the first cache, for all of them.
#include "kernels/cpu/vector/isa_kernels.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Tap {
  std::int64_t at;  // elements from the image's first
  float weight;
};
constexpr int kTaps = 64;

struct Taps {
  Tap list[kTaps];
  int count = 0;
  bool zero = false;  // one that counts as 0 was there
};

// `vectors` vectors of channels, the last of `lanes`: y = (begun ? y : none) joined with the taps, times factor.
template <bool greatest, int vectors>
QR_INLINE void join_channels(const float *image, const Taps &taps, float *y, bool begun, VecF factor,
                             int lanes) noexcept {
  const auto part = [&](int v) __attribute__((always_inline)) { return v == vectors - 1 && lanes != kLanes; };
  VecF acc[vectors];
  QR_UNROLL
  for (int v = 0; v < vectors; ++v) {
    if (begun) acc[v] = part(v) ? load_part(y + v * kLanes, lanes) : load(y + v * kLanes);
    else acc[v] = greatest ? splat(-__builtin_inff()) : VecF{};
    if (greatest && taps.zero) acc[v] = max(VecF{}, acc[v]);
  }
  for (int t = 0; t < taps.count; ++t) {
    const float *const from = image + taps.list[t].at;
    const VecF weight = splat(taps.list[t].weight);
    QR_UNROLL
    for (int v = 0; v < vectors; ++v) {
      const VecF x = part(v) ? load_part(from + v * kLanes, lanes) : load(from + v * kLanes);
      if constexpr (greatest) acc[v] = max(weight * x, acc[v]);  // a NaN does not count
      else acc[v] = fma(weight, x, acc[v]);
    }
  }
  QR_UNROLL
  for (int v = 0; v < vectors; ++v) {
    const VecF r = acc[v] * factor;
    if (part(v)) store_part(y + v * kLanes, r, lanes);
    else store(y + v * kLanes, r);
  }
}
template <bool greatest>
void join(const float *image, const Taps &taps, float *y, std::int64_t channels, bool begun, float factor) noexcept {
  const VecF f = splat(factor);
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes)
    join_channels<greatest, 4>(image + c, taps, y + c, begun, f, kLanes);
  for (; c + 2 * kLanes <= channels; c += 2 * kLanes)
    join_channels<greatest, 2>(image + c, taps, y + c, begun, f, kLanes);
  for (; c + kLanes <= channels; c += kLanes) join_channels<greatest, 1>(image + c, taps, y + c, begun, f, kLanes);
  if (c < channels) join_channels<greatest, 1>(image + c, taps, y + c, begun, f, static_cast<int>(channels - c));
}

// ---- RoiAlign

// The two pixels of an axis around a point, and the weight of the second; false: off the image.
struct Between {
  std::int64_t low, high;
  double ratio;
};
QR_INLINE bool place(double at, std::int64_t extent, Between *out) noexcept {
  if (!(at >= -1 && at <= static_cast<double>(extent))) return false;
  at = max_of(at, 0.0);
  out->low = static_cast<std::int64_t>(at);
  if (out->low >= extent - 1) {
    out->low = out->high = extent - 1;
    out->ratio = 0;
  } else {
    out->high = out->low + 1;
    out->ratio = at - static_cast<double>(out->low);
  }
  return true;
}

// A region: where it begins, and the dimensions of a bin; in pixels.
struct Region {
  double top, left, bin_height, bin_width;
  std::int64_t grid_height, grid_width, batch;
};
QR_INLINE double ceil_of(double x) noexcept {  // within +-1e6
  const auto whole = static_cast<std::int64_t>(x);
  return static_cast<double>(static_cast<double>(whole) < x ? whole + 1 : whole);
}
// False: of no image, or of no sensible size.
bool region_of(const RoiAlignF32 &p, const float *roi, std::int64_t batch, Region *out) noexcept {
  double edge[4];  // x1, y1, x2, y2
  for (int i = 0; i < 4; ++i)
    edge[i] = static_cast<double>(roi[i]) * static_cast<double>(p.scale) - (p.half_pixel ? 0.5 : 0.0);
  double width = edge[2] - edge[0], height = edge[3] - edge[1];
  if (!p.half_pixel) width = max_of(width, 1.0), height = max_of(height, 1.0);
  *out = {edge[1], edge[0], height / static_cast<double>(p.rows), width / static_cast<double>(p.columns), p.ratio,
          p.ratio, batch};
  if (batch < 0 || batch >= p.n || !(__builtin_fabs(out->bin_height) < 1e6 && __builtin_fabs(out->bin_width) < 1e6))
    return false;
  if (p.ratio == 0) {
    out->grid_height = static_cast<std::int64_t>(ceil_of(out->bin_height));
    out->grid_width = static_cast<std::int64_t>(ceil_of(out->bin_width));
  }
  return true;
}

// Of the points of an axis of a bin, those that may lie on the image, and some beside them: a region that is larger
// than the image has any number of others, which count as 0.
struct Points {
  std::int64_t first, last;  // behind
};
QR_INLINE Points points_on(double start, double bin, std::int64_t grid, std::int64_t extent) noexcept {
  const double size = static_cast<double>(grid), a = (-1 - start) * size / bin,
               b = (static_cast<double>(extent) - start) * size / bin;
  const auto bound = [&](double at) { return static_cast<std::int64_t>(min_of(max_of(at, 0.0), size)); };
  if (!(bin > 0 || bin < 0)) return {0, grid};  // all at one place
  return {bound(min_of(a, b) - 2), bound(max_of(a, b) + 2)};
}

template <bool greatest>
void align_bin(const RoiAlignF32 &p, const Region &r, const float *image, std::int64_t bin, float *y) noexcept {
  const double top = r.top + static_cast<double>(bin / p.columns) * r.bin_height,
               left = r.left + static_cast<double>(bin % p.columns) * r.bin_width;
  const std::int64_t points = max_of<std::int64_t>(0, r.grid_height) * max_of<std::int64_t>(0, r.grid_width);
  if (greatest && points == 0) {
    for (std::int64_t c = 0; c < p.c; ++c) y[c] = 0;
    return;
  }
  Taps taps;
  bool begun = false;
  const Points rows = points_on(top, r.bin_height, r.grid_height, p.h),
               columns = points_on(left, r.bin_width, r.grid_width, p.w);
  taps.zero = rows.first > 0 || rows.last < r.grid_height || columns.first > 0 || columns.last < r.grid_width;
  for (std::int64_t i = rows.first; i < rows.last; ++i) {
    Between v{}, h{};
    const bool row_inside =
        place(top + (static_cast<double>(i) + 0.5) * r.bin_height / static_cast<double>(r.grid_height), p.h, &v);
    for (std::int64_t j = columns.first; j < columns.last; ++j) {
      const double x = left + (static_cast<double>(j) + 0.5) * r.bin_width / static_cast<double>(r.grid_width);
      if (!row_inside || !place(x, p.w, &h)) {
        taps.zero = true;
        continue;
      }
      const double weights[4] = {(1 - v.ratio) * (1 - h.ratio), (1 - v.ratio) * h.ratio, v.ratio * (1 - h.ratio),
                                 v.ratio * h.ratio};
      const std::int64_t pixels[4] = {v.low * p.w + h.low, v.low * p.w + h.high, v.high * p.w + h.low,
                                      v.high * p.w + h.high};
      for (int k = 0; k < 4; ++k) {
        if (weights[k] == 0) taps.zero = true;
        else taps.list[taps.count++] = {pixels[k] * p.x_stride, static_cast<float>(weights[k])};
      }
      if (taps.count + 4 > kTaps) {
        join<greatest>(image, taps, y, p.c, begun, 1);
        begun = true, taps.count = 0;
      }
    }
  }
  join<greatest>(image, taps, y, p.c, begun,
                 greatest ? 1.0f : static_cast<float>(1 / static_cast<double>(max_of<std::int64_t>(1, points))));
}

// ---- GridSample

QR_INLINE double cubic_weight(double distance) noexcept {
  constexpr double a = -0.75;
  const double d = __builtin_fabs(distance);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

template <class F>
QR_INLINE F reflect(F x, F low, F high) noexcept {
  const F range = high - low;
  if (range <= 0) return low;
  if (x >= low && x <= high) return x;
  const F beyond = x < low ? low - x : x - high;
  const F turns = static_cast<F>(__builtin_floor(static_cast<double>(beyond / range)));
  const double of_turns = static_cast<double>(turns) * static_cast<double>(range);  // rounded before it is taken off
  const F rest = beyond - static_cast<F>(of_turns);
  const bool even = static_cast<double>(turns) == 2 * __builtin_floor(static_cast<double>(turns) / 2);
  return (x < low) == even ? low + rest : high - rest;
}

struct AxisTap {
  std::int64_t index;
  double weight;
};
// The taps along one axis for normalised coordinate `at`; returns how many. As cpu-reference: coordinates are f32, and
// what is rounded there is rounded here.
int axis_taps(const GridSampleF32 &p, std::int64_t extent, float at, AxisTap *taps) noexcept {
  const float length = static_cast<float>(extent), low = p.align_corners ? 0.0f : -0.5f,
              high = length - (p.align_corners ? 1.0f : 0.5f);
  float x;
  if (p.align_corners) {
    x = (at + 1) / 2 * (length - 1);
  } else {
    const double scaled = static_cast<double>(at + 1) * static_cast<double>(length);
    x = (static_cast<float>(scaled) - 1) / 2;
  }
  if (p.mode == SampleMode::Nearest) x = __builtin_nearbyintf(x);
  if (x < low || x > high) {
    const float reach = p.mode == SampleMode::Cubic ? 4 : 0;  // cubic taps go to the border each by itself
    if (p.padding == SamplePadding::Border) x = min_of(max_of(x, -reach), max_of(length - 1, 0.0f) + reach);
    if (p.padding == SamplePadding::Reflection) x = reflect(x, low, high);
  }
  if (!(__builtin_fabsf(x) < 1e9f)) x = -1e9f;  // NaN and what no image has
  const float floor = __builtin_floorf(x);
  const auto first = static_cast<std::int64_t>(floor);
  const double ratio = static_cast<double>(x - floor);
  int count = 0;
  const auto put = [&](std::int64_t index, double weight) {
    if (weight == 0) return;  // an infinity there counts for nothing
    if (index < 0 || index >= extent) {
      if (p.padding == SamplePadding::Zeros) return;
      if (p.padding == SamplePadding::Reflection)
        index = static_cast<std::int64_t>(reflect(static_cast<double>(index), static_cast<double>(low),
                                                  static_cast<double>(extent) - (p.align_corners ? 1 : 0.5)));
      index = min_of(max_of<std::int64_t>(index, 0), extent - 1);
    }
    taps[count++] = {index, weight};
  };
  switch (p.mode) {
    case SampleMode::Nearest: put(first, 1); break;
    case SampleMode::Linear:
      put(first, 1 - ratio);
      put(first + 1, ratio);
      break;
    default:
      for (int t = -1; t <= 2; ++t) put(first + t, cubic_weight(static_cast<double>(t) - ratio));
  }
  return count;
}

constexpr std::int64_t kPlacesAtOnce = 512;
constexpr int kPlaneTaps = 4;
// The taps of some places of an image, those of the same number side by side; -1 where there is none.
struct PlaceTaps {
  alignas(64) std::int32_t at[kPlaneTaps][kPlacesAtOnce];
  alignas(64) float weight[kPlaneTaps][kPlacesAtOnce];
};

QR_INLINE VecF pick_taps(const float *plane, const std::int32_t *at) noexcept {
#if defined(__AVX512F__) && QR_ISA_BYTES == 64 && !defined(QR_EMULATED_AVX512)
  const __m512i index = _mm512_loadu_si512(at);
  return reinterpret_cast<VecF>(
      _mm512_mask_i32gather_ps(_mm512_setzero_ps(), _mm512_cmpge_epi32_mask(index, __m512i{}), index, plane, 4));
#else
  float room[kLanes];
  for (int i = 0; i < kLanes; ++i) room[i] = at[i] < 0 ? 0.0f : plane[at[i]];
  return load(room);
#endif
}

// The two linear taps of many places along one axis, as axis_taps finds them, but without branches: -1 where there is
// none. Not of reflections.
struct LinearTaps {
  alignas(64) std::int32_t at[2][kPlacesAtOnce];
  alignas(64) double weight[2][kPlacesAtOnce];
};
bool has_plain_taps(const GridSampleF32 &p) noexcept {
  return p.mode == SampleMode::Linear && p.padding != SamplePadding::Reflection && std::int64_t{p.h} * p.w <= INT32_MAX;
}
void linear_taps(const GridSampleF32 &p, std::int32_t extent, const float *grid, std::int64_t count,
                 LinearTaps &out) noexcept {
  const float length = static_cast<float>(extent), low = p.align_corners ? 0.0f : -0.5f,
              high = length - (p.align_corners ? 1.0f : 0.5f), last = max_of(length - 1, 0.0f);
  const bool aligned = p.align_corners != 0, border = p.padding == SamplePadding::Border;
  for (std::int64_t i = 0; i < count; ++i) {
    const float given = grid[2 * i];
    const double scaled = static_cast<double>(given + 1) * static_cast<double>(length);
    float x = aligned ? (given + 1) / 2 * (length - 1) : (static_cast<float>(scaled) - 1) / 2;
    const float clamped = x < 0 ? 0.0f : x > last ? last : x;
    x = border & ((x < low) | (x > high)) ? clamped : x;
    x = __builtin_fabsf(x) < 1e9f ? x : -1e9f;
    const float floor = __builtin_floorf(x);
    const auto first = static_cast<std::int32_t>(floor);
    const double ratio = static_cast<double>(x - floor);
    const std::int32_t second = first + 1, end = extent - 1;
    const std::int32_t none = border ? 0 : -1, beyond = border ? end : -1;
    out.at[0][i] = first < 0 ? none : first > end ? beyond : first;
    out.at[1][i] = ratio == 0 ? -1 : second < 0 ? none : second > end ? beyond : second;
    out.weight[0][i] = 1 - ratio;
    out.weight[1][i] = ratio;
  }
}
void linear_places(const GridSampleF32 &p, const float *grid, std::int64_t count, PlaceTaps &of) noexcept {
  LinearTaps rows, columns;
  linear_taps(p, p.h, grid + 1, count, rows);
  linear_taps(p, p.w, grid, count, columns);
  for (int r = 0; r < 2; ++r)
    for (int c = 0; c < 2; ++c)
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int32_t row = rows.at[r][i], column = columns.at[c][i], at = row * p.w + column;
        const bool there = (row | column) >= 0;
        of.at[2 * r + c][i] = there ? at : -1;
        of.weight[2 * r + c][i] = there ? static_cast<float>(rows.weight[r][i] * columns.weight[c][i]) : 0.0f;
      }
}

// Places of an image whose channels lie beside each other.
void join_places(const GridSampleF32 &p, const float *image, const float *grid, float *y, std::int64_t count) noexcept {
  PlaceTaps of;
  linear_places(p, grid, count, of);
  for (std::int64_t i = 0; i < count; ++i) {
    Taps taps;
    QR_UNROLL for (int t = 0; t < kPlaneTaps; ++t) {
      taps.list[taps.count] = {std::int64_t{of.at[t][i]} * p.x_stride, of.weight[t][i]};
      taps.count += of.at[t][i] >= 0;
    }
    join<false>(image, taps, y + i * p.y_stride, p.c, false, 1);
  }
}

// The places [first, last) of one image.
template <int taps>
void sample_planes(const GridSampleF32 &p, const float *x, const float *grid, float *y, std::int64_t first,
                   std::int64_t last) noexcept {
  PlaceTaps of;
  const std::int64_t pixels = std::int64_t{p.h} * p.w, places = std::int64_t{p.oh} * p.ow, count = last - first,
                     whole = ceil_div<std::int64_t>(count, kLanes) * kLanes;
  const bool plain = has_plain_taps(p);
  if (plain) linear_places(p, grid + 2 * first, count, of);
  for (std::int64_t i = plain ? count : 0; i < whole; ++i) {
    int found = 0;
    if (i < count) {
      AxisTap rows[4], columns[4];
      const float *const at = grid + 2 * (first + i);
      const int row_count = axis_taps(p, p.h, at[1], rows), column_count = axis_taps(p, p.w, at[0], columns);
      for (int r = 0; r < row_count; ++r)
        for (int c = 0; c < column_count; ++c, ++found) {
          of.at[found][i] = static_cast<std::int32_t>(rows[r].index * p.w + columns[c].index);
          of.weight[found][i] = static_cast<float>(rows[r].weight * columns[c].weight);
        }
    }
    for (; found < taps; ++found) of.at[found][i] = -1, of.weight[found][i] = 0;
  }
  for (std::int64_t channel = 0; channel < p.c; ++channel) {
    const float *const plane = x + channel * pixels;
    float *const to = y + channel * places + first;
    for (std::int64_t i = 0; i < whole; i += kLanes) {
      VecF sum{};
      QR_UNROLL for (int t = 0; t < taps; ++t) sum = fma(load(of.weight[t] + i), pick_taps(plane, of.at[t] + i), sum);
      if (i + kLanes <= count) store(to + i, sum);
      else store_part(to + i, sum, static_cast<int>(count - i));
    }
  }
}
void run_planes(const Call &call, const GridSampleF32 &p) {
  const float *const x = call.operand<const float>(0), *const grid = call.operand<const float>(1);
  float *const y = call.operand<float>(2);
  const std::int64_t places = std::int64_t{p.oh} * p.ow, parts = ceil_div(places, kPlacesAtOnce);
  const std::int64_t work = min_of(places, kPlacesAtOnce) * (p.c + 16);
  call.threads.run(static_cast<std::uint64_t>(p.n * parts),
                   static_cast<std::uint64_t>(max_of<std::int64_t>(1, 16384 / work)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t image = task / parts, first = task % parts * kPlacesAtOnce,
                                          last = min_of(places, first + kPlacesAtOnce);
                       const float *const from = x + image * p.c * p.h * p.w, *const at = grid + 2 * image * places;
                       float *const to = y + image * p.c * places;
                       if (p.mode == SampleMode::Nearest) sample_planes<1>(p, from, at, to, first, last);
                       else sample_planes<kPlaneTaps>(p, from, at, to, first, last);
                     }
                   });
}

}  // namespace

void run_RoiAlignF32(const Call &call) {
  const auto &p = call.as<RoiAlignF32>();
  const float *const x = call.operand<const float>(0), *const rois = call.operand<const float>(1);
  const std::byte *const batches = call.operands[2];
  float *const y = call.operand<float>(3);
  const auto batch_of = [&](std::int64_t region) {
    std::int64_t wide = 0;
    std::int32_t narrow = 0;
    if (p.index_bytes == 8) std::memcpy(&wide, batches + region * 8, 8);
    else std::memcpy(&narrow, batches + region * 4, 4), wide = narrow;
    return wide;
  };
  Region r;
  for (std::int64_t i = 0; i < p.regions; ++i)
    if (!region_of(p, rois + 4 * i, batch_of(i), &r)) {
      call.bad_index[0] = i + 1, call.bad_index[1] = batch_of(i);
      return;
    }
  const std::int64_t bins = std::int64_t{p.rows} * p.columns;
  call.threads.run(static_cast<std::uint64_t>(p.regions * p.rows), 1,
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     Region region{};
                     for (auto task = static_cast<std::int64_t>(begin); task < static_cast<std::int64_t>(end); ++task) {
                       const std::int64_t i = task / p.rows, row = task % p.rows;
                       (void)region_of(p, rois + 4 * i, batch_of(i), &region);
                       const float *const image = x + region.batch * p.h * p.w * p.x_stride;
                       for (std::int64_t bin = row * p.columns; bin < (row + 1) * p.columns; ++bin) {
                         float *const to = y + (i * bins + bin) * p.c;
                         if (p.greatest) align_bin<true>(p, region, image, bin, to);
                         else align_bin<false>(p, region, image, bin, to);
                       }
                     }
                   });
}

void run_GridSampleF32(const Call &call) {
  const auto &p = call.as<GridSampleF32>();
  if (p.planes) return run_planes(call, p);
  const float *const x = call.operand<const float>(0), *const grid = call.operand<const float>(1);
  float *const y = call.operand<float>(2);
  const std::int64_t places = std::int64_t{p.oh} * p.ow;
  const std::int64_t grain = max_of<std::int64_t>(16, 8192 / p.c);
  const bool plain = has_plain_taps(p);
  call.threads.run(static_cast<std::uint64_t>(p.n * places), static_cast<std::uint64_t>(grain),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                     const auto to = static_cast<std::int64_t>(end);
                     if (plain) {
                       for (auto at = static_cast<std::int64_t>(begin); at < to;) {
                         const std::int64_t count = min_of(min_of(kPlacesAtOnce, to - at), places - at % places);
                         join_places(p, x + at / places * p.h * p.w * p.x_stride, grid + 2 * at, y + at * p.y_stride,
                                     count);
                         at += count;
                       }
                       return;
                     }
                     for (auto at = static_cast<std::int64_t>(begin); at < static_cast<std::int64_t>(end); ++at) {
                       const float *const image = x + at / places * p.h * p.w * p.x_stride;
                       AxisTap rows[4], columns[4];
                       const int row_count = axis_taps(p, p.h, grid[2 * at + 1], rows),
                                 column_count = axis_taps(p, p.w, grid[2 * at], columns);
                       Taps taps;
                       for (int i = 0; i < row_count; ++i)
                         for (int j = 0; j < column_count; ++j)
                           taps.list[taps.count++] = {(rows[i].index * p.w + columns[j].index) * p.x_stride,
                                                      static_cast<float>(rows[i].weight * columns[j].weight)};
                       join<false>(image, taps, y + at * p.y_stride, p.c, false, 1);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
