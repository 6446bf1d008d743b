// SPDX-License-Identifier: Apache-2.0
// Attention without a matrix of all scores: keys and values of some columns are packed, the scores of a few rows of
// queries with them are made, and added to the rows' results with running maxima and sums.
#include <cstring>

#include "kernels/cpu/contraction/gemm_tile.h"
#include "kernels/cpu/shapes/matmul_shape.h"
#include "kernels/cpu/vector/activate.h"
#include "kernels/cpu/vector/half_vec.h"
#include "kernels/cpu/vector/int_vec.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr float kInfinity = __builtin_inff();
constexpr std::int64_t kPanel = kF32Panel * kLanes;

struct Scratch {
  float *k, *v, *scores, *largest, *sums, *wide;
};

// Keys or values of a head as they lie; steps are of their elements.
struct Kept {
  const void *rows;
  const float *scales;
  std::int64_t step, scale_step, columns;
};

// One head of one batch entry.
struct Head {
  const AttentionF32 &p;
  const AttentionShape &s;
  const float *q, *mask;
  Kept k, v;
  float *y;
  std::int64_t columns, position;  // how many columns there are; where the first row stands

  bool is_limited() const noexcept { return p.has_mask || p.has_valid || p.left >= 0 || p.right >= 0; }
};

// Columns [low, high), as a row may see them; both grow with the row.
struct Seen {
  std::int64_t low, high;
};
Seen seen_by(const Head &h, std::int64_t row) noexcept {
  const std::int64_t at = h.position + row;
  const std::int64_t high = h.p.right < 0 ? h.columns : max_of<std::int64_t>(0, min_of(h.columns, at + h.p.right + 1));
  return {h.p.left < 0 ? 0 : min_of(high, max_of<std::int64_t>(0, at - h.p.left)), high};
}
// Those that any of the rows [row, row + rows) sees.
Seen seen_by_all(const Head &h, std::int64_t row, std::int64_t rows) noexcept {
  return {seen_by(h, row).low, seen_by(h, row + rows - 1).high};
}

// Keys and values of the columns [begin, begin + count), as reals.
struct Block {
  const float *k, *v;
  std::int64_t k_step, v_step, begin, count;
};

// `count` rows become reals, one behind the other; called out of line for all types, as memory bounds it.
template <class Element, class Load>
QR_INLINE void widen_rows(const Kept &kept, std::int64_t begin, std::int64_t count, float *to, Load &&vector) noexcept {
  for (std::int64_t r = begin; r < begin + count; ++r, to += kept.columns) {
    const auto *const row = static_cast<const Element *>(kept.rows) + r * kept.step;
    const VecF scale = splat(kept.scales ? kept.scales[r * kept.scale_step] : 1.0f);
    std::int64_t c = 0;
    for (; c + kLanes <= kept.columns; c += kLanes) store(to + c, vector(row + c, scale));
    if (c == kept.columns) continue;
    Element rest[kLanes] = {};
    std::memcpy(rest, row + c, bytes_of<Element>(kept.columns - c));
    store_part(to + c, vector(rest, scale), static_cast<int>(kept.columns - c));
  }
}
void widen_kept(KeptType type, const Kept &kept, std::int64_t begin, std::int64_t count, float *to) noexcept {
  const auto f16 = [](const std::uint16_t *p, VecF) __attribute__((always_inline)) { return load_f16(p); };
  const auto bf16 = [](const std::uint16_t *p, VecF) __attribute__((always_inline)) { return load_bf16(p); };
  const auto bytes = [](const std::uint8_t *p, VecF scale) __attribute__((always_inline)) {
    return __builtin_convertvector(widen(p) - 128, VecF) * scale;
  };
  if (type == KeptType::F16) widen_rows<std::uint16_t>(kept, begin, count, to, f16);
  else if (type == KeptType::BF16) widen_rows<std::uint16_t>(kept, begin, count, to, bf16);
  else widen_rows<std::uint8_t>(kept, begin, count, to, bytes);
}
Block block_of(const Head &h, std::int64_t begin, std::int64_t count, const Scratch &scratch) noexcept {
  if (h.p.kept == KeptType::F32)
    return {static_cast<const float *>(h.k.rows) + begin * h.k.step,
            static_cast<const float *>(h.v.rows) + begin * h.v.step,
            h.k.step,
            h.v.step,
            begin,
            count};
  float *const k = scratch.wide, *const v = k + count * h.p.qk_cols;
  widen_kept(h.p.kept, h.k, begin, count, k);
  widen_kept(h.p.kept, h.v, begin, count, v);
  return {k, v, h.p.qk_cols, h.p.v_cols, begin, count};
}

// Keys and values of a block into panels.
void pack(const Head &h, const Block &block, const Scratch &scratch) noexcept {
  const AttentionF32 &p = h.p;
  for (std::int64_t c = 0; c < block.count; c += kPanel)
    pack_panel(block.k + c * block.k_step, 1, block.k_step, p.qk_cols, min_of(kPanel, block.count - c), kF32Panel, 1.0f,
               scratch.k + c * p.qk_cols);
  for (std::int64_t c = 0; c < p.v_cols; c += kPanel) {
    const std::int64_t columns = min_of(kPanel, p.v_cols - c);
    pack_panel(block.v + c, block.v_step, 1, block.count, columns,
               static_cast<int>(ceil_div<std::int64_t>(columns, kLanes)), 1.0f, scratch.v + c * block.count);
  }
}

bool all_finite(const float *values, std::int64_t count) noexcept {  // a multiple of lanes
  VecI bad{};
  for (std::int64_t i = 0; i < count; i += kLanes) {
    const VecF v = load(values + i);
    bad |= (v - v) != VecF{};
  }
  std::int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= bad[i];
  return any == 0;
}

// Scores of one row for `count` columns from `begin` on become exp(score - largest), 0 for what it may not see; returns
// their sum.
float exponentials(const Head &h, std::int64_t row, std::int64_t begin, std::int64_t count, float *scores,
                   float *largest_so_far, float *factor) noexcept {
  const AttentionF32 &p = h.p;
  const VecF scale = splat(p.scale);
  VecF most = splat(-kInfinity);
  const float *const mask = h.mask ? h.mask + row * p.mask[2] + begin * p.mask[3] : nullptr;
  const std::int64_t mask_step = p.mask[3];
  const Seen seen = seen_by(h, row);
  const std::int64_t low = min_of(count, max_of<std::int64_t>(0, seen.low - begin)),
                     visible = max_of(low, min_of(count, seen.high - begin));
  std::int64_t j = 0;
  for (; j < low; ++j) scores[j] = -kInfinity;
  // What may not be seen has no say, even where its score is NaN.
  const auto masked = [](VecF score, VecF m) __attribute__((always_inline)) {
    return m == splat(-kInfinity) ? m : score + m;
  };
  if (!mask) {
    for (; j + kLanes <= visible; j += kLanes) {
      const VecF v = load(scores + j) * scale;
      store(scores + j, v);
      most = max(most, v);
    }
  } else if (mask_step == 1) {
    for (; j + kLanes <= visible; j += kLanes) {
      const VecF v = masked(load(scores + j) * scale, load(mask + j));
      store(scores + j, v);
      most = max(most, v);
    }
  }
  float top = max_of(*largest_so_far, largest(most));
  for (; j < visible; ++j) {
    float v = scores[j] * p.scale;
    if (mask) v = mask[j * mask_step] == -kInfinity ? -kInfinity : v + mask[j * mask_step];
    scores[j] = v;
    top = v > top ? v : top;
  }
  for (j = visible; j < ceil_div<std::int64_t>(count, kLanes) * kLanes; ++j) scores[j] = -kInfinity;
  *factor = *largest_so_far == top ? 1.0f : *largest_so_far == -kInfinity ? 0.0f : exp(splat(*largest_so_far - top))[0];
  *largest_so_far = top;
  if (top == -kInfinity) top = 0;  // nothing to be seen yet (or NaN only, which stays)
  VecF total{};
  for (j = 0; j < count; j += kLanes) {
    const VecF e = exp_of_negative(load(scores + j) - splat(top));
    store(scores + j, e);
    total += e;
  }
  return sum(total);
}

// A row's sum of weighted values becomes their mean.
void finish_row(const Head &h, std::int64_t row, float total) noexcept {
  const AttentionF32 &p = h.p;
  float *const y = h.y + row * p.y[2];
  const float inverse = total == 0 && !p.masked_nan ? 1.0f : total == 0 ? __builtin_nanf("") : 1.0f / total;
  std::int64_t c = 0;
  for (; c + kLanes <= p.v_cols; c += kLanes) store(y + c, load(y + c) * splat(inverse));
  for (; c < p.v_cols; ++c) y[c] *= inverse;
}

// Rows [row, row + rows) with the packed columns of a block.
// `first`, `last`: of those that they see.
void run_rows(const Head &h, std::int64_t row, std::int64_t rows, const Block &block, bool first, bool last,
              bool skip_hidden, const Scratch &scratch) noexcept {
  const AttentionF32 &p = h.p;
  const std::int64_t begin = block.begin, count = block.count;
  const std::int64_t step = h.s.padded + 16;
  Gemm job;
  job.rows = rows;
  job.x = h.q + row * p.q[2], job.x_step = p.q[2];
  job.k = p.qk_cols;
  job.y_step = step;
  job.vectors = kF32Panel;
  job.few_rows = p.q_rows <= kFewRows;
  for (std::int64_t c = 0; c < count; c += kPanel) {
    job.w = scratch.k + c * p.qk_cols;
    job.y = scratch.scores + c;
    run_gemm(job);
  }
  for (std::int64_t i = 0; i < rows; ++i) {
    float factor;
    float *const scores = scratch.scores + i * step;
    if (first) scratch.largest[row + i] = -kInfinity, scratch.sums[row + i] = 0;
    const float added = exponentials(h, row + i, begin, count, scores, &scratch.largest[row + i], &factor);
    scratch.sums[row + i] = scratch.sums[row + i] * factor + added;
    if (!first && factor != 1.0f) {
      float *const y = h.y + (row + i) * p.y[2];
      for (std::int64_t c = 0; c < p.v_cols; ++c) y[c] *= factor;
    }
  }
  if (skip_hidden) {  // infinities or NaN among the values: nothing may be multiplied by the zero of a column that is
                      // not seen
    for (std::int64_t i = 0; i < rows; ++i) {
      float *const y = h.y + (row + i) * p.y[2];
      const float *const scores = scratch.scores + i * step;
      for (std::int64_t c = 0; c < p.v_cols; ++c) {
        float total = first ? 0 : y[c];
        for (std::int64_t j = 0; j < count; ++j)
          if (scores[j] != 0) total += scores[j] * block.v[j * block.v_step + c];
        y[c] = total;
      }
    }
  } else {
    job.x = scratch.scores, job.x_step = step;
    job.k = count;
    job.y_step = p.y[2];
    job.accumulate = !first;
    for (std::int64_t c = 0; c < p.v_cols; c += kPanel) {
      const std::int64_t columns = min_of(kPanel, p.v_cols - c);
      job.vectors = static_cast<int>(ceil_div<std::int64_t>(columns, kLanes));
      job.tail = static_cast<int>(columns - (job.vectors - 1) * kLanes);
      job.w = scratch.v + c * count;
      job.y = h.y + row * p.y[2] + c;
      run_gemm(job);
    }
  }
  if (!last) return;
  for (std::int64_t i = 0; i < rows; ++i) finish_row(h, row + i, scratch.sums[row + i]);
}

// ---- a few rows of queries

// `rows` keys' products with one query.
template <int rows>
QR_INLINE void scores_of(const float *q, const float *k, std::int64_t step, std::int64_t columns,
                         float *scores) noexcept {
  VecF acc[rows] = {};
  std::int64_t c = 0;
  for (; c + kLanes <= columns; c += kLanes) {
    const VecF a = load(q + c);
    QR_UNROLL for (int r = 0; r < rows; ++r) acc[r] = fma(a, load(k + r * step + c), acc[r]);
  }
  if (const int rest = static_cast<int>(columns - c); rest > 0) {
    const VecF a = load_part(q + c, rest);
    QR_UNROLL for (int r = 0; r < rows; ++r) acc[r] = fma(a, load_part(k + r * step + c, rest), acc[r]);
  }
  QR_UNROLL for (int r = 0; r < rows; ++r) scores[r] = sum(acc[r]);
}

// y = (begun ? y : 0) + the values' rows times their weights; `vectors` vectors of columns, the last of `lanes`.
// `skip`: what has no weight is not read.
template <int vectors>
void add_values(const float *weights, const float *v, std::int64_t step, std::int64_t count, bool skip, bool begun,
                int lanes, float *y) noexcept {
  const auto at = [&](const float *from, int k) __attribute__((always_inline)) {
    return lanes == kLanes || k < vectors - 1 ? load(from + k * kLanes) : load_part(from + k * kLanes, lanes);
  };
  VecF acc[vectors] = {};
  if (begun) QR_UNROLL for (int k = 0; k < vectors; ++k) acc[k] = at(y, k);
  for (std::int64_t j = 0; j < count; ++j, v += step) {
    if (skip && weights[j] == 0) continue;
    const VecF weight = splat(weights[j]);
    QR_UNROLL for (int k = 0; k < vectors; ++k) acc[k] = fma(weight, at(v, k), acc[k]);
  }
  QR_UNROLL for (int k = 0; k < vectors; ++k) {
    if (lanes == kLanes || k < vectors - 1) store(y + k * kLanes, acc[k]);
    else store_part(y + k * kLanes, acc[k], lanes);
  }
}

// One row with the columns of a block that it sees.
void run_in_place(const Head &h, std::int64_t row, const Block &block, std::int64_t count, bool first, bool last,
                  const Scratch &scratch) noexcept {
  const AttentionF32 &p = h.p;
  const bool skip = !p.masked_nan && h.is_limited();
  float *const scores = scratch.scores;
  const float *const q = h.q + row * p.q[2], *const k = block.k, *const v = block.v;
  const std::int64_t k_step = block.k_step, v_step = block.v_step;
  std::int64_t j = 0;
  for (; j + 8 <= count; j += 8) scores_of<8>(q, k + j * k_step, k_step, p.qk_cols, scores + j);
  for (; j < count; ++j) scores_of<1>(q, k + j * k_step, k_step, p.qk_cols, scores + j);
  float factor;
  if (first) scratch.largest[row] = -kInfinity, scratch.sums[row] = 0;
  const float added = exponentials(h, row, block.begin, count, scores, &scratch.largest[row], &factor);
  scratch.sums[row] = scratch.sums[row] * factor + added;
  float *const y = h.y + row * p.y[2];
  for (std::int64_t c = 0; !first && factor != 1.0f && c < p.v_cols; ++c) y[c] *= factor;
  std::int64_t c = 0;
  for (; c + 4 * kLanes <= p.v_cols; c += 4 * kLanes)
    add_values<4>(scores, v + c, v_step, count, skip, !first, kLanes, y + c);
  for (; c < p.v_cols; c += kLanes)
    add_values<1>(scores, v + c, v_step, count, skip, !first,
                  static_cast<int>(min_of<std::int64_t>(kLanes, p.v_cols - c)), y + c);
  if (last) finish_row(h, row, scratch.sums[row]);
}

// Rows that see nothing at all.
void fill_rows(const Head &h, std::int64_t row, std::int64_t rows) noexcept {
  const float nothing = h.p.masked_nan ? __builtin_nanf("") : 0.0f;
  for (std::int64_t i = row; i < row + rows; ++i)
    for (std::int64_t c = 0; c < h.p.v_cols; ++c) h.y[i * h.p.y[2] + c] = nothing;
}

// Rows [row_begin, row_end) of a head, a block of keys after the other; blocks begin at the same columns for all rows.
void run_head(const Head &h, std::int64_t row_begin, std::int64_t row_end, const Scratch &scratch) noexcept {
  const AttentionF32 &p = h.p;
  const bool in_place = p.q_rows <= kAttendInPlace;
  const std::int64_t together = in_place ? 1 : AttentionShape::kRows;
  const auto each = [&](const auto &call) {
    for (std::int64_t row = row_begin; row < row_end; row += together) {
      const std::int64_t rows = min_of(together, row_end - row);
      call(row, rows, seen_by_all(h, row, rows));
    }
  };
  each([&](std::int64_t row, std::int64_t rows, Seen seen) {
    if (seen.low >= seen.high) fill_rows(h, row, rows);
  });
  // A block is as wide for these rows as for all of the head: sums must not depend on how rows are shared out.
  const Seen all = seen_by_all(h, row_begin, row_end - row_begin);
  const std::int64_t end = seen_by(h, p.q_rows - 1).high;
  for (std::int64_t begin = all.low / h.s.block * h.s.block; begin < all.high; begin += h.s.block) {
    const std::int64_t count = min_of(h.s.block, end - begin);
    bool skip_hidden = false;
    const Block block = block_of(h, begin, count, scratch);
    if (!in_place) {
      pack(h, block, scratch);
      skip_hidden = !p.masked_nan && h.is_limited() && !all_finite(scratch.v, count * h.s.v_vectors * kLanes);
    }
    each([&](std::int64_t row, std::int64_t rows, Seen seen) {
      if (seen.low >= seen.high || seen.high <= begin || seen.low >= begin + h.s.block) return;
      const bool first = begin == seen.low / h.s.block * h.s.block, last = begin + h.s.block >= seen.high;
      if (in_place) run_in_place(h, row, block, min_of(count, seen.high - begin), first, last, scratch);
      else run_rows(h, row, rows, block, first, last, skip_hidden, scratch);
    });
  }
}

// Columns that there are for a batch entry. (The count lies where an f32 may.)
std::int64_t columns_of(const Call &call, const AttentionF32 &p, std::int64_t batch) noexcept {
  if (!p.has_valid) return p.kv_rows;
  std::int64_t valid;
  std::memcpy(&valid, call.operands[3 + p.has_mask] + batch * 8, sizeof valid);
  return max_of<std::int64_t>(0, min_of(p.kv_rows, valid));
}

// Keys or values of a head. Operands: q, k, v, mask, counts, scales of k and v, y; some may not be there.
Kept kept_of(const Call &call, const AttentionF32 &p, bool values, std::int64_t batch, std::int64_t head) noexcept {
  const std::int64_t *const steps = values ? p.v : p.k, *const scales = values ? p.v_scales : p.k_scales;
  const std::int64_t size = p.kept == KeptType::F32 ? 4 : p.kept == KeptType::Rows ? 1 : 2;
  const float *numbers = nullptr;
  if (p.kept == KeptType::Rows)
    numbers = call.operand<const float>(3 + p.has_mask + p.has_valid + values) + batch * scales[0] + head * scales[1];
  return {call.operand<const char>(1 + values) + (batch * steps[0] + head * steps[1]) * size, numbers, steps[2],
          scales[2], values ? p.v_cols : p.qk_cols};
}

}  // namespace

void run_AttentionF32(const Call &call) {
  const auto &p = call.as<AttentionF32>();
  const std::uint32_t first_scales = 3 + p.has_mask + p.has_valid, scales = p.kept == KeptType::Rows ? 2 : 0;
  const AttentionShape s = attention_shape(p, kLanes, kF32Panel);
  const std::int64_t heads = p.batches * p.heads;
  const double all = 2.0 * static_cast<double>(heads) * static_cast<double>(p.q_rows) * static_cast<double>(p.kv_rows) *
                     static_cast<double>(p.qk_cols + p.v_cols + 8);
  const std::int64_t workers = call.threads.workers, wanted = workers > 1 ? kTasksPerWorker * workers : 1,
                     short_ones = tasks_wanted(1, all);
  const std::int64_t row_blocks = ceil_div(p.q_rows, AttentionShape::kRows);
  // Each part lays keys and values out anew: not of few rows to be short alone.
  constexpr std::int64_t kFewRowBlocks = 8;
  const std::int64_t parts = max_of(heads >= wanted ? 1 : min_of(row_blocks, ceil_div(wanted, heads)),
                                    min_of(ceil_div(row_blocks, kFewRowBlocks), ceil_div(short_ones, heads)));
  const double flops = 2.0 * static_cast<double>(p.q_rows) * static_cast<double>(p.kv_rows) *
                       static_cast<double>(p.qk_cols + p.v_cols + 8) / static_cast<double>(parts);
  call.threads.run(static_cast<std::uint64_t>(heads * parts), static_cast<std::uint64_t>(1 + kWorthSharing / flops),
                   [&](std::uint64_t task, std::uint64_t end, std::uint32_t worker) {
                     auto *const base = reinterpret_cast<float *>(call.worker_scratch(worker));
                     float *const largest = base + s.k_floats + s.v_floats + s.s_floats;
                     const Scratch scratch{base,    base + s.k_floats,      base + s.k_floats + s.v_floats,
                                           largest, largest + s.row_floats, largest + 2 * s.row_floats};
                     for (; task < end; ++task) {
                       const std::int64_t head = static_cast<std::int64_t>(task) / parts,
                                          part = static_cast<std::int64_t>(task) % parts;
                       const std::int64_t b = head / p.heads, n = head % p.heads;
                       const std::int64_t columns = columns_of(call, p, b);
                       const Head h{p,
                                    s,
                                    call.operand<const float>(0) + b * p.q[0] + n * p.q[1],
                                    p.has_mask ? call.operand<const float>(3) + b * p.mask[0] + n * p.mask[1] : nullptr,
                                    kept_of(call, p, false, b, n / p.group),
                                    kept_of(call, p, true, b, n / p.group),
                                    call.operand<float>(first_scales + scales) + b * p.y[0] + n * p.y[1],
                                    columns,
                                    p.has_valid ? columns - p.q_rows : p.first};
                       // Blocks of rows are the same however the rows are shared out: a sum must not depend on it.
                       const std::int64_t row_begin = row_blocks * part / parts * AttentionShape::kRows;
                       const std::int64_t row_end =
                           min_of(p.q_rows, row_blocks * (part + 1) / parts * AttentionShape::kRows);
                       run_head(h, row_begin, row_end, scratch);
                     }
                   });
}

}  // namespace quarry::kernels::QR_ISA
