// SPDX-License-Identifier: Apache-2.0
// Convolution as a product of pixels, gathered by pointers, and packed weights (conv_shape.h).
#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/convolution/conv_planes_f32.h"
#include "kernels/cpu/convolution/winograd_f32.h"
#include "kernels/cpu/movement/transpose.h"
#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::kernels::QR_ISA {

namespace {

struct Conv {
  const ConvF32 &p;
  const ConvShape &s;
  const float *x, *w, *bias, *r;
  float *y;
  std::int64_t pixels, block;
  bool few_rows;
  bool widen;  // weights of 16 bits, into the worker's scratch

  // Weights `at` elements on: where they lie, or widened.
  const void *weights(std::int64_t at, std::int64_t count, float *panel_at) const noexcept {
    if (p.weights == WeightType::F32) return w + at;
    const auto *const halves = reinterpret_cast<const std::uint16_t *>(w) + at;
    if (!widen) return halves;
    widen_weights(p.weights, halves, panel_at, count);
    return panel_at;
  }
  // Where weights that will be needed next lie in memory.
  const void *ahead(std::int64_t at) const noexcept {
    if (p.weights == WeightType::F32) return w + at;
    return widen ? nullptr : reinterpret_cast<const std::uint16_t *>(w) + at;
  }
};

// Pointers to the run of each tap of the pixels [begin, begin + count); taps outside of the image point to zeros.
void fill_table(const Conv &conv, std::int64_t begin, std::int64_t count, const float *zeros,
                const float **table) noexcept {
  const Window &w = conv.p.window;
  const std::int64_t stride = conv.p.x_stride;
  std::int64_t ox = begin % w.ow, oy = begin / w.ow % w.oh, image = begin / w.ow / w.oh;
  for (std::int64_t i = 0; i < count;) {
    // What is left of a row of output: of each tap, the pixels before the image, in it, and behind it.
    const std::int64_t length = min_of<std::int64_t>(count - i, w.ow - ox);
    const float **to = table + i;
    for (std::int64_t ky = 0, iy = oy * w.sh - w.pad_top; ky < w.kh; ++ky, iy += w.dh) {
      const bool row_inside = iy >= 0 && iy < w.ih;
      const float *const row = row_inside ? conv.x + (image * w.ih + iy) * w.iw * stride : zeros;
      for (std::int64_t kx = 0, ix = ox * w.sw - w.pad_left; kx < w.kw; ++kx, ix += w.dw, to += count) {
        std::int64_t from = 0, until = 0;
        if (row_inside) {
          from = ix >= 0 ? 0 : min_of(length, ceil_div(-ix, std::int64_t{w.sw}));
          until = ix >= w.iw ? from : max_of(from, min_of(length, ceil_div(w.iw - ix, std::int64_t{w.sw})));
        }
        for (std::int64_t p = 0; p < from; ++p) to[p] = zeros;
        for (std::int64_t p = from; p < until; ++p) to[p] = row + (ix + p * w.sw) * stride;
        for (std::int64_t p = until; p < length; ++p) to[p] = zeros;
      }
    }
    i += length;
    ox = 0;
    if (++oy == w.oh) oy = 0, ++image;
  }
}

// Copies the input of rows [first, first + rows) of an image's output with its borders, and points at the runs of it.
void fill_padded(const Conv &conv, std::int64_t image, std::int64_t first, std::int64_t rows, float *padded,
                 const float **table) noexcept {
  const Window &w = conv.p.window;
  const std::int64_t c = conv.p.ic, stride = conv.p.x_stride, length = conv.s.padded_row,
                     plane = std::int64_t{w.ih} * w.iw;
  const std::int64_t left = w.pad_left, inside = min_of<std::int64_t>(w.iw, length / c - left);
  const std::int64_t input_rows = conv_input_rows(w, rows);
  for (std::int64_t i = 0; i < input_rows; ++i) {
    float *const to = padded + i * length;
    const std::int64_t iy = first * w.sh - w.pad_top + i;
    if (iy < 0 || iy >= w.ih || inside <= 0) {
      std::memset(to, 0, bytes_of<float>(length));
      continue;
    }
    const float *const from =
        stride == kPlanes ? conv.x + image * c * plane + iy * w.iw : conv.x + (image * w.ih + iy) * w.iw * stride;
    std::memset(to, 0, bytes_of<float>(left * c));
    if (stride == kPlanes) {
      transpose(4, reinterpret_cast<const std::byte *>(from), reinterpret_cast<std::byte *>(to + left * c), c, inside,
                plane * 4, c * 4);
    } else if (stride == c) {
      std::memcpy(to + left * c, from, bytes_of<float>(inside * c));
    } else {
      for (std::int64_t ix = 0; ix < inside; ++ix)
        for (std::int64_t j = 0; j < c; ++j) to[(left + ix) * c + j] = from[ix * stride + j];
    }
    const std::int64_t end = (left + inside) * c;
    std::memset(to + end, 0, bytes_of<float>(length - end));
  }
  const std::int64_t count = rows * w.ow;
  for (std::int64_t oy = 0; oy < rows; ++oy)
    for (std::int64_t ky = 0; ky < w.kh; ++ky) {
      const float *from = padded + (oy * w.sh + ky * w.dh) * length;
      const float **const to = table + ky * count + oy * w.ow;
      for (std::int64_t ox = 0; ox < w.ow; ++ox, from += w.sw * c) to[ox] = from;
    }
}

// Pixels [begin, begin + count), panels [first, last) counted through all groups.
void run_panels(const Conv &conv, Asker &asker, std::int64_t begin, std::int64_t count, const float *const *table,
                std::int64_t first, std::int64_t last, float *panel_at) noexcept {
  const ConvF32 &p = conv.p;
  const ConvShape &s = conv.s;
  Gemm job;
  job.rows = count;
  job.taps = s.taps;
  job.table = table;
  job.table_step = count;
  job.x_step = p.x_stride;
  job.y_step = p.y_stride;
  job.few_rows = conv.few_rows;
  job.weights = conv.widen ? WeightType::F32 : p.weights;
  if (conv.few_rows) {
    // (From a third-level cache they come sooner as the processor itself foresees it.)
    constexpr std::int64_t kCacheBytes = 32 << 20;
    job.from_memory = s.group_weights() * p.groups * (p.weights == WeightType::F32 ? 4 : 2) > kCacheBytes;
  }
  job.end.step = p.r_stride;
  job.end.act = &p.act;
  // With several chunks, sums wait in y: for as many panels at a time as leave them in the second-level cache, so that
  // the block's chunk of x is read from there for all of them.
  const std::int64_t together = s.chunks == 1 ? 1 : max_of<std::int64_t>(1, (64 << 10) / (count * kF32Panel * kBytes));
  while (first < last && !asker.stopped(count * s.taps * s.run)) {
    const std::int64_t group = first / s.panels;
    const std::int64_t end = min_of(min_of(first + together, last), (group + 1) * s.panels);
    for (std::int64_t chunk = 0; chunk < s.chunks; ++chunk) {
      const std::int64_t from = chunk * s.chunk;
      job.k = min_of(s.chunk, s.run - from);
      job.accumulate = chunk > 0;
      job.finish = chunk == s.chunks - 1;
      for (std::int64_t i = first; i < end; ++i) {
        const std::int64_t panel = i - group * s.panels, column = s.panel_begin(panel) * kLanes;
        job.vectors = static_cast<int>(s.panel_vectors(panel));
        job.tail =
            static_cast<int>(min_of<std::int64_t>(kLanes, s.group_outputs - column - (job.vectors - 1) * kLanes));
        job.w = conv.weights(s.weights(group, panel, from), s.taps * job.k * job.vectors * kLanes, panel_at);
        const std::int64_t channel = group * s.group_outputs + column;
        job.bias = conv.bias ? conv.bias + channel : nullptr;
        job.y = conv.y + begin * p.y_stride + channel;
        const float *const r = conv.r ? conv.r + begin * p.r_stride + channel : nullptr;
        job.end.before = p.residual == Residual::BeforeAct ? r : nullptr;
        job.end.after = p.residual == Residual::AfterAct ? r : nullptr;
        const std::int64_t offset = group * s.group_inputs + from;
        if (table) job.x_offset = s.block_rows ? from : offset;
        else job.x = conv.x + begin * p.x_stride + offset;
        const std::int64_t next_chunk = i + 1 < end ? from : from + s.chunk;
        if (i + 1 < end) job.ahead = conv.ahead(s.weights(group, panel + 1, from));
        else if (next_chunk < s.run) job.ahead = conv.ahead(s.weights(group, first - group * s.panels, next_chunk));
        else if (end < last) job.ahead = conv.ahead(s.weights(end / s.panels, end % s.panels, 0));
        else job.ahead = nullptr;
        run_gemm(job);
      }
    }
    first = end;
  }
}

}  // namespace

void run_ConvF32(const Call &call) {
  const Window &w = call.as<ConvF32>().window;
  run_conv(call, std::int64_t{w.n} * w.oh * w.ow <= kFewRows);
}

void run_conv(const Call &call, bool few_rows) noexcept {
  const auto &p = call.as<ConvF32>();
  if (is_winograd(p.algorithm)) return run_winograd(call);
  if (p.algorithm == ConvAlgorithm::Groups) return run_conv_groups(call);
  if (p.y_stride == kPlanes) return run_conv_planes(call);
  if (p.x_stride == kPlanes && turns_planes(p, kLanes, kF32Panel)) return run_conv_planes(call);
  const ConvShape s = conv_shape(p, kLanes, kF32Panel);
  const Window &w = p.window;
  std::size_t operand = 2;
  Conv conv{p,
            s,
            call.operand<const float>(0),
            call.operand<const float>(1),
            nullptr,
            nullptr,
            nullptr,
            std::int64_t{w.n} * w.oh * w.ow,
            s.block,
            few_rows,
            p.weights != WeightType::F32 && !few_rows && !kWidensInTiles};
  if (p.has_bias) conv.bias = call.operand<const float>(operand++);
  if (p.residual != Residual::None) conv.r = call.operand<const float>(operand++);
  conv.y = call.operand<float>(operand);

  // Tasks are blocks of pixels times parts of the panels. With several workers, smaller blocks where the weights are
  // small enough to be passed over more often, else fewer panels.
  const std::int64_t panels = s.panels * p.groups, workers = call.threads.workers;
  const std::int64_t weight_bytes = s.group_weights() * p.groups * 4;
  std::int64_t rows = s.block_rows, parts = 1, blocks;
  if (rows) {
    if (workers > 1)
      rows = max_of<std::int64_t>(
          1, min_of(rows, ceil_div<std::int64_t>(std::int64_t{w.n} * w.oh, kTasksPerWorker * workers)));
    blocks = w.n * ceil_div<std::int64_t>(w.oh, rows);
  } else {
    if (workers > 1 && weight_bytes <= 128 << 10)
      conv.block = max_of<std::int64_t>(min_of<std::int64_t>(conv.block, 24),
                                        min_of(conv.block, ceil_div(conv.pixels, kTasksPerWorker * workers)));
    blocks = ceil_div(conv.pixels, conv.block);
    conv.block = ceil_div(ceil_div(conv.pixels, blocks), std::int64_t{6}) * 6;
    if (conv.block > s.block) conv.block = s.block;
    blocks = ceil_div(conv.pixels, conv.block);
  }
  if (workers > 1 && blocks < kTasksPerWorker * workers)
    parts = min_of(panels, ceil_div(kTasksPerWorker * workers, blocks));

  const double task_flops = 2.0 * static_cast<double>(conv.pixels) * static_cast<double>(s.taps * s.run) * p.oc /
                            static_cast<double>(blocks * parts);
  const auto grain = static_cast<std::uint64_t>(1 + kWorthSharing / task_flops);
  call.threads.run(static_cast<std::uint64_t>(blocks * parts), grain,
                   [&](std::uint64_t task, std::uint64_t end, std::uint32_t worker) {
                     std::byte *const scratch = call.worker_scratch(worker);
                     auto *const table = reinterpret_cast<const float **>(scratch);
                     auto *const extra = reinterpret_cast<float *>(scratch + s.table_bytes);
                     float *const panel_at = extra + s.extra_floats;
                     if (!s.dense && !rows && s.bordered) std::memset(extra, 0, bytes_of<float>(p.ic));
                     std::int64_t filled = -1, begin = 0, count = 0;
                     Asker asker(call.threads);
                     for (; task < end; ++task) {
                       const auto block = static_cast<std::int64_t>(task) / parts,
                                  part = static_cast<std::int64_t>(task) % parts;
                       if (block != filled) {
                         filled = block;
                         if (rows) {
                           const std::int64_t per_image = ceil_div<std::int64_t>(w.oh, rows), image = block / per_image,
                                              first = block % per_image * rows;
                           const std::int64_t n = min_of<std::int64_t>(rows, w.oh - first);
                           begin = (image * w.oh + first) * w.ow, count = n * w.ow;
                           fill_padded(conv, image, first, n, extra, table);
                         } else {
                           begin = block * conv.block, count = min_of(conv.block, conv.pixels - begin);
                           if (!s.dense) fill_table(conv, begin, count, extra, table);
                         }
                       }
                       run_panels(conv, asker, begin, count, s.dense ? nullptr : table, panels * part / parts,
                                  panels * (part + 1) / parts, panel_at);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
