// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications of bytes of which neither is known before the run. Panels of b are packed as dot products read
// them, and rows of a pass over them; what the zero points make of the sums comes off behind that:
// sum (a - za)(b - zb) = sum a b - za * sum b - zb * (sum a - k za).
#include "kernels/cpu/contraction/int_gemm.h"
#include "kernels/cpu/contraction/matmul_tasks.h"
#include "kernels/cpu/shapes/matmul_shape.h"

namespace quarry::kernels::QR_ISA {

namespace {

constexpr std::int64_t kColumns = std::int64_t{kF32Panel} * kLanes;  // of a panel

// Rows of signed bytes, weights of unsigned ones: x86's dot product with its sides swapped.
struct SwappedQuads : Quads {
  static QR_MEMBER VecI add(VecI c, VecB x, VecB w) noexcept { return add_quads(c, w, x); }
};
constexpr int kElements = kIntGroup == 4 ? 4 : 2;  // of a step
using Element = std::conditional_t<kElements == 4, std::int8_t, std::int16_t>;

template <class Kind>
QR_INLINE auto ones() noexcept {
  return reinterpret_cast<typename Kind::Vec>(splat(sizeof(typename Kind::Element) == 1 ? 0x01010101 : 0x00010001));
}
QR_INLINE std::int32_t total(VecI v) noexcept {
  std::int32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += v[i];
  return sum;
}
QR_INLINE VecI load_i32(const std::int32_t *p, int count) noexcept {
  return kLanes < 16 && count == kLanes ? load(p)
                                        : reinterpret_cast<VecI>(load_part(reinterpret_cast<const float *>(p), count));
}
QR_INLINE void store_i32(std::int32_t *p, VecI v, int count) noexcept {
  if (kLanes < 16 && count == kLanes) store(p, v);  // (with masks it is all the same)
  else store_part(reinterpret_cast<float *>(p), reinterpret_cast<VecF>(v), count);
}

// A few rows of a with a panel of b: sums that begin with what stands somewhere.
struct Tile {
  const std::byte *rows;
  std::int64_t row_bytes;
  const std::int8_t *w;
  std::int64_t steps;
  const std::int32_t *from;
  std::int32_t *to;
  std::int64_t from_row, to_row;  // elements from row to row
};

template <class Kind, int R, int V>
__attribute__((noinline)) void run_tile(const Tile &t) noexcept {
  VecI acc[R][V];
  QR_UNROLL
  for (int r = 0; r < R; ++r)
    QR_UNROLL for (int v = 0; v < V; ++v) acc[r][v] = load(t.from + r * t.from_row + v * kLanes);
  multiply<Kind>(t.rows, t.row_bytes, t.w, t.steps, acc);
  std::int32_t *const to = t.to;
  const std::int64_t to_row = t.to_row;
  QR_UNROLL
  for (int r = 0; r < R; ++r) QR_UNROLL for (int v = 0; v < V; ++v) store(to + r * to_row + v * kLanes, acc[r][v]);
}
template <class Kind>
void run_vectors(const Tile &t, std::int64_t rows, int vectors) noexcept {
  choose_tile(
      rows, vectors, [&]<int R, int V>() __attribute__((always_inline)) { run_tile<Kind, R, V>(t); });
}

// What the sums of a panel's columns begin with, and where they go.
struct Ends {
  std::int32_t *y;
  std::int64_t y_row;
  int vectors, tail;  // tail: columns of the last vector
  bool add;           // to what stands there
  // What zero points make of them: a number of each column times one of each row, nullptr: 1.
  const std::int32_t *column_sums, *row_zeros;   // column_sums nullptr: nothing
  const std::int32_t *column_zeros, *row_terms;  // row_terms nullptr: nothing

  int count(int v) const noexcept { return v + 1 < vectors ? kLanes : tail; }
  bool plain() const noexcept { return !add && !column_sums && !row_terms; }

  // Of rows [row, row + rows).
  __attribute__((noinline)) void begin(std::int64_t row, std::int64_t rows, std::int32_t *sums) const noexcept {
    if (!add && !row_zeros && !column_zeros && row_terms) {
      for (int v = 0; v < vectors; ++v) {
        const VecI columns = column_sums ? load(column_sums + v * kLanes) : VecI{};
        for (std::int64_t r = 0; r < rows; ++r)
          store(sums + (r * vectors + v) * kLanes, splat(-row_terms[row + r]) - columns);
      }
      return;
    }
    for (std::int64_t r = row; r < row + rows; ++r, sums += vectors * kLanes)
      for (int v = 0; v < vectors; ++v) {
        asm volatile("");  // or all of this is compiled once for each case
        VecI sum = add ? load_i32(y + r * y_row + v * kLanes, count(v)) : VecI{};
        if (column_sums) {
          const VecI columns = load(column_sums + v * kLanes);
          sum -= row_zeros ? columns * splat(row_zeros[r]) : columns;
        }
        if (row_terms) {
          const VecI terms = splat(row_terms[r]);
          sum -= column_zeros ? load(column_zeros + v * kLanes) * terms : terms;
        }
        store(sums + v * kLanes, sum);
      }
  }
  __attribute__((noinline)) void end(std::int64_t row, std::int64_t rows, const std::int32_t *sums) const noexcept {
    for (std::int64_t r = row; r < row + rows; ++r, sums += vectors * kLanes)
      for (int v = 0; v < vectors; ++v) store_i32(y + r * y_row + v * kLanes, load(sums + v * kLanes), count(v));
  }
};

typedef std::int32_t Dwords __attribute__((vector_size(16), aligned(1), may_alias));

// `depth` rows of b's columns as [step][column][elements], columns and steps filled up with zeros.
__attribute__((noinline)) void pack_panel(const std::uint8_t *b, std::int64_t b_row, std::int64_t b_col,
                                          std::int64_t depth, std::int64_t columns, int vectors, std::uint8_t flip,
                                          std::uint8_t *to) noexcept {
  const std::int64_t width = std::int64_t{vectors} * kLanes, step_bytes = width * kElements,
                     steps = depth / kElements;  // whole ones
  std::int64_t step = 0;
  if (b_col == 1) {
#if QR_ISA_BYTES == 64
    const ByteMask mask = first_bytes(columns);
    const VecB flips = VecB{} + static_cast<std::int8_t>(flip);
    for (; step < steps; ++step) {
      const std::uint8_t *const from = b + step * 4 * b_row;
      VecB given[4], packed[4];
      QR_UNROLL for (int i = 0; i < 4; ++i) given[i] = for_pack(load_bytes(from + i * b_row, mask) ^ flips);
      interleave_four(given[0], given[1], given[2], given[3], packed);
      for (int v = 0; v < vectors; ++v) std::memcpy(to + step * step_bytes + v * kBytes, &packed[v], kBytes);
    }
#else
    for (; step < steps; ++step) {
      std::uint8_t *const at = to + step * step_bytes;
      const std::uint8_t *const from = b + step * kElements * b_row;
      for (std::int64_t c = 0; c < columns; ++c)
        QR_UNROLL for (int i = 0; i < kElements; ++i) at[c * kElements + i] =
            static_cast<std::uint8_t>(from[i * b_row + c] ^ flip);
      std::memset(at + columns * kElements, 0, static_cast<std::size_t>((width - columns) * kElements));
    }
#endif
  } else if (kElements == 4 && b_row == 1) {
    // Four steps of four columns at a time, turned over.
    const Dwords flips = Dwords{} + static_cast<std::int32_t>(flip * 0x01010101u);
    for (; step + 4 <= steps; step += 4) {
      std::uint8_t *const at = to + step * step_bytes;
      const std::uint8_t *const from = b + step * 4;
      std::int64_t c = 0;
      for (; c + 4 <= columns; c += 4) {
        Dwords in[4], pairs[4];
        QR_UNROLL for (int i = 0; i < 4; ++i) std::memcpy(&in[i], from + (c + i) * b_col, 16);
        pairs[0] = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
        pairs[1] = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
        pairs[2] = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
        pairs[3] = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
        QR_UNROLL for (int i = 0; i < 4; ++i) {
          const Dwords low = pairs[i / 2 * 2], high = pairs[i / 2 * 2 + 1];
          const Dwords out = (i % 2 == 0 ? __builtin_shufflevector(low, high, 0, 1, 4, 5)
                                         : __builtin_shufflevector(low, high, 2, 3, 6, 7)) ^
                             flips;
          std::memcpy(at + i * step_bytes + c * 4, &out, 16);
        }
      }
      for (int i = 0; i < 4; ++i) {
        for (std::int64_t rest = c * 4; rest < columns * 4; ++rest)
          at[i * step_bytes + rest] = static_cast<std::uint8_t>(from[rest / 4 * b_col + i * 4 + rest % 4] ^ flip);
        std::memset(at + i * step_bytes + columns * 4, 0, static_cast<std::size_t>((width - columns) * 4));
      }
    }
  }
  for (; step * kElements < depth; ++step)
    for (std::int64_t c = 0; c < width; ++c)
      for (std::int64_t i = 0; i < kElements; ++i) {
        const std::int64_t k = step * kElements + i;
        to[step * step_bytes + c * kElements + i] =
            c < columns && k < depth ? static_cast<std::uint8_t>(b[k * b_row + c * b_col] ^ flip) : std::uint8_t{0};
      }
}

// Rows of a as products read them, filled up with zeros.
template <class T>
void copy_rows(const std::uint8_t *a, std::int64_t a_row, std::int64_t a_col, bool is_signed, std::uint8_t flip,
               std::int64_t rows, std::int64_t depth, std::byte *to, std::int64_t row_bytes) noexcept {
  for (std::int64_t r = 0; r < rows; ++r, a += a_row, to += row_bytes) {
    auto *const row = reinterpret_cast<T *>(to);
    std::int64_t k = 0;
    if constexpr (sizeof(T) == 2) {
      if (a_col == 1)
        for (; k + kHalves <= depth; k += kHalves)
          store(row + k, is_signed ? widen_halves(reinterpret_cast<const std::int8_t *>(a) + k) : widen_halves(a + k));
      for (; k < depth; ++k) row[k] = static_cast<T>(is_signed ? static_cast<std::int8_t>(a[k * a_col]) : a[k * a_col]);
    } else {
      if (a_col == 1) {
        for (; k < depth; ++k) row[k] = static_cast<T>(a[k] ^ flip);
      } else {
        for (; k < depth; ++k) row[k] = static_cast<T>(a[k * a_col] ^ flip);
      }
    }
    std::memset(to + depth * static_cast<std::int64_t>(sizeof(T)), 0,
                static_cast<std::size_t>(row_bytes - depth * static_cast<std::int64_t>(sizeof(T))));
  }
}

// The sum of a row's elements; `bytes` of them.
template <class Kind>
std::int32_t row_sum(const std::byte *row, std::int64_t bytes) noexcept {
  using Vec = typename Kind::Vec;
  VecI sum{};
  std::int64_t i = 0;
  for (; i + kBytes <= bytes; i += kBytes) {
    Vec x;
    std::memcpy(&x, row + i, kBytes);
    sum = Kind::add(sum, x, ones<Kind>());
  }
  if (i < bytes) {
    Vec x{};
    std::memcpy(&x, row + i, static_cast<std::size_t>(bytes - i));
    sum = Kind::add(sum, x, ones<Kind>());
  }
  return total(sum);
}

// The sums of a panel's columns.
template <class Kind>
void column_sums(const std::int8_t *w, std::int64_t steps, int vectors, std::int32_t *to) noexcept {
  for (int v = 0; v < vectors; ++v) {
    VecI sum{};
    for (std::int64_t s = 0; s < steps; ++s)
      sum = Kind::add(sum, ones<Kind>(), Kind::weights(w + (s * vectors + v) * Kind::kWeights));
    store(to + v * kLanes, sum);
  }
}

// What is compiled for each sort of products.
struct Sort {
  void (*run_vectors)(const Tile &t, std::int64_t rows, int vectors) noexcept;
  std::int32_t (*row_sum)(const std::byte *row, std::int64_t bytes) noexcept;
  void (*column_sums)(const std::int8_t *w, std::int64_t steps, int vectors, std::int32_t *to) noexcept;
};
template <class Kind>
constexpr Sort kSort{run_vectors<Kind>, row_sum<Kind>, column_sums<Kind>};

// A matrix of a batch.
struct Matrices {
  const std::uint8_t *a, *b;
  std::int32_t *y;
};

struct IntGemm {
  const MatMulInt &p;
  const MatMulIntShape s;
  const Sort &sort;
  const std::uint8_t *a_zeros, *b_zeros;  // or nullptr
  std::uint8_t a_flip, b_flip;

  // What is taken off b's bytes when they are packed is 128 where their type is not the one that weights have.
  IntGemm(const Call &call, const MatMulInt &params, const MatMulIntShape &shape, const Sort &kind,
          bool signed_weights) noexcept
      : p(params), s(shape), sort(kind) {
    std::size_t next = 2;
    a_zeros = p.a_zeros != ByteZeros::None ? call.operand<const std::uint8_t>(next++) : nullptr;
    b_zeros = p.b_zeros != ByteZeros::None ? call.operand<const std::uint8_t>(next++) : nullptr;
    a_flip = kElements == 4 && kDotSigned && p.a_dtype == kU8 ? 0x80 : 0;
    b_flip = (p.b_dtype == kI8) == signed_weights ? 0 : 0x80;
  }
  // Of what products read.
  static __attribute__((noinline)) std::int32_t zero_of(const std::uint8_t *zeros, ByteZeros form, std::uint32_t dtype,
                                                        std::uint8_t flip, std::int64_t at) noexcept {
    std::int32_t zero = 0;
    if (zeros) {
      const std::uint8_t byte = zeros[form == ByteZeros::One ? 0 : at];
      zero = dtype == kI8 ? static_cast<std::int8_t>(byte) : byte;
    }
    return flip ? dtype == kI8 ? zero + 128 : zero - 128 : zero;
  }

  // Rows [row, row + rows) and panels [first, last), of a chunk of k.
  void run(const Matrices &m, std::int64_t row, std::int64_t rows, std::int64_t first, std::int64_t last,
           std::int64_t chunk, std::byte *scratch) const noexcept {
    auto *const panel_at = reinterpret_cast<std::int8_t *>(scratch);
    auto *const sums_at = reinterpret_cast<std::int32_t *>(scratch + s.panel_bytes);
    std::int32_t *const column_zeros = sums_at + s.column_numbers, *const row_zeros = column_zeros + s.column_numbers,
                        *const row_terms = row_zeros + s.row_numbers;
    const std::int64_t from = chunk * s.chunk, depth = max_of<std::int64_t>(0, min_of(s.chunk, p.k - from)),
                       steps = ceil_div<std::int64_t>(depth, kElements);
    const std::byte *a = reinterpret_cast<const std::byte *>(m.a + row * p.a_row + from * p.a_col);
    std::int64_t a_bytes = p.a_row;
    if (!s.a_in_place) {
      std::byte *const copied = reinterpret_cast<std::byte *>(row_terms + s.row_numbers);
      a_bytes = s.row_bytes;
      copy_rows<Element>(m.a + row * p.a_row + from * p.a_col, p.a_row, p.a_col, p.a_dtype == kI8, a_flip, rows, depth,
                         copied, a_bytes);
      a = copied;
    }
    bool any_row = false, any_column = b_flip != 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      row_zeros[r] = zero_of(a_zeros, p.a_zeros, p.a_dtype, a_flip, row + r);
      any_row |= row_zeros[r] != 0;
    }
    for (std::int64_t c = 0; !any_column && b_zeros && c < (p.b_zeros == ByteZeros::One ? 1 : p.n); ++c)
      any_column = b_zeros[c] != 0;
    // One zero point for all is multiplied in beforehand.
    const bool each_row = p.a_zeros == ByteZeros::Each, each_column = p.b_zeros == ByteZeros::Each;
    if (any_column) {
      const std::int32_t by = each_column ? 1 : zero_of(b_zeros, p.b_zeros, p.b_dtype, b_flip, 0);
      for (std::int64_t r = 0; r < rows; ++r)
        row_terms[r] =
            (sort.row_sum(a + r * a_bytes, steps * 4) - static_cast<std::int32_t>(depth) * row_zeros[r]) * by;
    }
    for (std::int64_t panel = first; panel < last; ++panel) {
      const std::int64_t column = panel * kColumns, columns = min_of(kColumns, p.n - column);
      const int vectors = static_cast<int>(ceil_div<std::int64_t>(columns, kLanes));
      pack_panel(m.b + from * p.b_row + column * p.b_col, p.b_row, p.b_col, depth, columns, vectors, b_flip,
                 reinterpret_cast<std::uint8_t *>(panel_at));
      Ends ends{};
      ends.y = m.y + row * p.y_row + column, ends.y_row = p.y_row;
      ends.vectors = vectors, ends.tail = static_cast<int>(columns - (vectors - 1) * kLanes), ends.add = chunk > 0;
      if (any_row) {
        sort.column_sums(panel_at, steps, vectors, sums_at);
        if (!each_row)
          for (std::int64_t c = 0; c < vectors * kLanes; c += kLanes)
            store(sums_at + c, load(sums_at + c) * splat(row_zeros[0]));
        ends.column_sums = sums_at, ends.row_zeros = each_row ? row_zeros : nullptr;
      }
      if (any_column) {
        for (std::int64_t c = 0; each_column && c < vectors * kLanes; ++c)
          column_zeros[c] = c < columns ? zero_of(b_zeros, p.b_zeros, p.b_dtype, b_flip, column + c) : 0;
        ends.column_zeros = each_column ? column_zeros : nullptr, ends.row_terms = row_terms;
      }
      static constexpr std::int32_t kNothing[kColumns] = {};
      alignas(kBytes) std::int32_t sums[kIntRows * kColumns];
      const bool plain = ends.plain(), in_place = ends.tail == kLanes;
      Tile t{};
      t.row_bytes = a_bytes, t.w = panel_at, t.steps = steps;
      t.from = plain ? kNothing : sums, t.from_row = plain ? 0 : vectors * kLanes;
      t.to = sums, t.to_row = in_place ? p.y_row : vectors * kLanes;
      const std::int64_t tiles = ceil_div<std::int64_t>(rows, kIntRows);
      for (std::int64_t tile = 0, at = 0, until = 0; tile < tiles; ++tile, at = until) {
        until = (tile + 1) * rows / tiles;
        if (!plain) ends.begin(at, until - at, sums);
        t.rows = a + at * a_bytes;
        if (in_place) t.to = ends.y + at * p.y_row;
        sort.run_vectors(t, until - at, vectors);
        if (!in_place) ends.end(at, until - at, sums);
      }
    }
  }
};

void run_as(const Call &call, const MatMulInt &p, const MatMulIntShape &s, const Sort &sort,
            bool signed_weights) noexcept {
  std::int64_t batches = 1;
  for (const std::int64_t dim : p.batch) batches *= dim;
  if (batches == 0 || p.m == 0 || p.n == 0) return;
  const IntGemm gemm(call, p, s, sort, signed_weights);
  const std::size_t y_at = 2 + std::size_t{p.a_zeros != ByteZeros::None} + std::size_t{p.b_zeros != ByteZeros::None};
  const MatMulTasks tasks(call.threads.workers, batches, p.m, p.n, p.k, s.panels, s.rows, 48);
  call.threads.run(static_cast<std::uint64_t>(tasks.count),
                   static_cast<std::uint64_t>(1 + kWorthSharing / (tasks.operations / kElements)),
                   [&](std::uint64_t begin, std::uint64_t end, std::uint32_t worker) {
                     for (; begin < end; ++begin) {
                       const MatMulTasks::Part part = tasks.part(static_cast<std::int64_t>(begin), p.m, s.panels);
                       std::int64_t rest = part.batch;
                       Matrices m{call.operand<const std::uint8_t>(0), call.operand<const std::uint8_t>(1),
                                  call.operand<std::int32_t>(y_at)};
                       for (int i = kBatchRank - 1; i >= 0; --i) {
                         const std::int64_t at = rest % p.batch[i];
                         rest /= p.batch[i];
                         m.a += at * p.a_batch[i], m.b += at * p.b_batch[i], m.y += at * p.y_batch[i];
                       }
                       for (std::int64_t chunk = 0; chunk < s.chunks; ++chunk)
                         gemm.run(m, part.row, part.rows, part.first_panel, part.last_panel, chunk,
                                  call.worker_scratch(worker));
                     }
                   });
}

}  // namespace

void run_MatMulInt(const Call &call) {
  const auto &p = call.as<MatMulInt>();
  const MatMulIntShape s = matmul_int_shape(p, kLanes, kF32Panel, kIntGroup, dot_takes(p.a_dtype));
  if constexpr (kIntGroup == 4) {
    if (!kDotSigned && p.a_dtype == kI8) return run_as(call, p, s, kSort<SwappedQuads>, false);
    return run_as(call, p, s, kSort<Quads>, true);
  } else {
    return run_as(call, p, s, kSort<Pairs<std::int8_t>>, true);
  }
}

}  // namespace quarry::kernels::QR_ISA
