// SPDX-License-Identifier: Apache-2.0
// Matrix multiplications: Y[batch, i, j] = sum over k of A[batch, i, k] * B[batch, k, j], however the operands lie in
// memory.
#include "kernels/reference/dot_tiles.h"
#include "kernels/reference/kernels.h"
#include "kernels/reference/reals.h"
#include "kernels/reference/rows.h"

namespace quarry::reference {

namespace {

using qir::MatMulGeometry;

// Elements between neighbours: rows, columns, and every batch axis (0 where the operand is broadcast).
struct Layout {
  std::int64_t row = 0, column = 0;
  std::int64_t batch[qir::kMaxRank] = {};
};

struct Product : MatMulGeometry {
  Layout a, b;

  std::int64_t batches() const noexcept { return product(batch, 0, batch_rank); }
  // Where an operand's matrix of batch entry `i` starts.
  std::int64_t offset(const Layout &layout, std::int64_t i) const noexcept {
    std::int64_t result = 0;
    for (std::uint32_t axis = batch_rank; axis-- > 0; i /= batch[axis]) result += i % batch[axis] * layout.batch[axis];
    return result;
  }
};

// The layout of dense [batch..., rows, columns]; with `batch_inside` of dense [rows, batch..., columns]; `transposed`:
// rows and columns, as the product sees them, are swapped in memory.
Layout layout_of(const std::int64_t *extents, std::uint32_t batch_rank, std::int64_t rows, std::int64_t columns,
                 bool transposed, bool batch_inside) {
  if (transposed) std::swap(rows, columns);
  Layout layout;
  layout.column = 1;
  layout.row = columns;
  std::int64_t stride = batch_inside ? columns : rows * columns;
  for (std::uint32_t axis = batch_rank; axis-- > 0; stride *= extents[axis])
    layout.batch[axis] = extents[axis] == 1 ? 0 : stride;
  if (batch_inside) layout.row = stride;
  if (transposed) std::swap(layout.row, layout.column);
  return layout;
}

Status matmul_product(const Context &context, const View &a, const View &b, Product *out) {
  QR_RETURN_IF_ERROR(qir::resolve_matmul(context.node(), dims_of(a), dims_of(b), out));
  out->a = layout_of(out->a_batch, out->batch_rank, out->m, out->k, false, false);
  out->b = layout_of(out->b_batch, out->batch_rank, out->k, out->n, false, false);
  return {};
}

// Zero points and scales of one operand of a quantised product: one, one per row (of A) or column (of B), or those for
// every batch entry.
struct Quantised {
  Values scale, zero;
  std::int64_t rows = 0;

  double scale_of(std::int64_t batch, std::int64_t row) const noexcept {
    return scale[scale.count == rows ? row : batch * rows + row];
  }
  double zero_of(std::int64_t batch, std::int64_t row) const noexcept {
    return zero[zero.count == rows ? row : batch * rows + row];
  }
};
constexpr Quantised kPlain;  // with zero points of 0

// Parameters per batch entry follow the operand's own batch entries.
std::int64_t own_batch(const Product &p, const Layout &layout, std::int64_t batch, std::int64_t size) noexcept {
  return size == 0 ? 0 : p.offset(layout, batch) / size;
}

// Takes results [batch, i, j] to [batch, i, j + count).
template <class Sum>
struct StoreRow {
  void (*store)(const void *user, std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t count,
                const Sum *sums);
  const void *user;
  void operator()(std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t count, const Sum *sums) const {
    store(user, batch, i, j, count, sums);
  }
};

// A and B are f32, f64, i8 or u8; their zero points are taken off them.
Status multiply(Context &context, const Product &p, const View &a, const View &b, const Quantised &qa,
                const Quantised &qb, StoreRow<double> store) {
  const LoadRows load_rows = find_load_rows(a.dtype);
  const LoadColumns load_columns = find_load_columns(b.dtype);
  if (!load_rows || !load_columns) return type_error(context, load_rows ? b.dtype : a.dtype);
  const Tiling tiling{p.m, p.n};
  const std::int64_t tiles = tiling.count();
  parallel(context, p.batches() * tiles, [&](std::int64_t task) {
    if (context.stopped()) return;
    const std::int64_t batch = task / tiles;
    const Tiling::Tile tile = tiling[task % tiles];
    const std::int64_t rows = p.offset(p.a, batch) + tile.row * p.a.row,
                       columns = p.offset(p.b, batch) + tile.column * p.b.column;
    const std::int64_t a_batch = own_batch(p, p.a, batch, p.m * p.k), b_batch = own_batch(p, p.b, batch, p.k * p.n);
    double zeros[kTileRows + kTileColumns];
    double *const a_zeros = qa.zero.data ? zeros : nullptr, *const b_zeros = qb.zero.data ? zeros + kTileRows : nullptr;
    for (std::int64_t i = 0; a_zeros && i < tile.rows; ++i) a_zeros[i] = qa.zero_of(a_batch, tile.row + i);
    for (std::int64_t j = 0; b_zeros && j < tile.columns; ++j) b_zeros[j] = qb.zero_of(b_batch, tile.column + j);
    Poll poll(context);
    dot_tile(
        tile.rows, tile.columns, p.k,
        [&](std::int64_t k, std::int64_t count, TileA &to) {
          if (poll.stopped(count * tile.rows)) return false;
          load_rows(a.data, rows + k * p.a.column, p.a.row, p.a.column, tile.rows, count, a_zeros, to.at[0]);
          return true;
        },
        [&](std::int64_t k, std::int64_t count, TileB &to) {
          load_columns(b.data, columns + k * p.b.row, p.b.row, p.b.column, count, tile.columns, b_zeros, to);
        },
        [&](std::int64_t i, const double *sums) { store(batch, tile.row + i, tile.column, tile.columns, sums); });
  });
  return {};
}

// Sums of products of one row with `n` columns, modulo 2^32 or 2^64: those of signed and unsigned integers are the same
// bits, in whatever order.
template <class T>
void exact_row(const Product &p, const void *a, std::int64_t row, const void *b, std::int64_t column, std::int64_t n,
               std::uint64_t *sums) {
  const T *const left = static_cast<const T *>(a) + row, *const right = static_cast<const T *>(b) + column;
  const std::int64_t a_step = p.a.column, b_step = p.b.row, b_column = p.b.column;
  constexpr std::int64_t kWide = 16;
  if (sizeof(T) == 4 && b_column == 1 && n >= kWide) {  // there are vectors for it
    T sum[kTileColumns] = {};
    for (std::int64_t k = 0; k < p.k; ++k) {
      const T factor = left[k * a_step], *const from = right + k * b_step;
      for (std::int64_t j = 0; j < n; ++j) sum[j] += factor * from[j];
    }
    std::copy_n(sum, n, sums);
    return;
  }
  for (std::int64_t j = 0; j < n; ++j) {
    const T *const from = right + j * b_column;
    T sum = 0;
    if (a_step == 1 && b_step == 1) {
      T more[4] = {};  // side by side, which do not wait for each other
      std::int64_t k = 0;
      for (; k + 4 <= p.k; k += 4)
        more[0] += left[k] * from[k], more[1] += left[k + 1] * from[k + 1], more[2] += left[k + 2] * from[k + 2],
            more[3] += left[k + 3] * from[k + 3];
      for (; k < p.k; ++k) sum += left[k] * from[k];
      sum += more[0] + more[1] + more[2] + more[3];
    } else {
      for (std::int64_t k = 0; k < p.k; ++k) sum += left[k * a_step] * from[k * b_step];
    }
    sums[j] = sum;
  }
}

// Integers of 32 and 64 bits: exact, wrapping around like the type itself. store gets the sums as unsigned numbers.
Status multiply_exact(Context &context, const Product &p, const View &a, const View &b, StoreRow<std::uint64_t> store) {
  const auto row = a.width == 4 ? exact_row<std::uint32_t> : exact_row<std::uint64_t>;
  parallel(context, p.batches() * p.m, [&](std::int64_t task) {
    if (context.stopped()) return;
    const std::int64_t batch = task / p.m, i = task % p.m;
    const std::int64_t first = p.offset(p.a, batch) + i * p.a.row, columns = p.offset(p.b, batch);
    for (std::int64_t j = 0; j < p.n; j += kTileColumns) {
      const std::int64_t count = std::min(kTileColumns, p.n - j);
      std::uint64_t sums[kTileColumns];
      row(p, a.data, first, b.data, columns + j * p.b.column, count, sums);
      store(batch, i, j, count, sums);
    }
  });
  return {};
}

// Y[batch, i, j] = finish(tag of the type, sum, i, j).
template <class Finish>
struct Finished {
  const Product &p;
  const Finish &finish;
  const View &y;

  template <class T, class Sum>
  static void store(const void *user, std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t count,
                    const Sum *sums) {
    using Given = std::conditional_t<std::is_floating_point_v<T>, double, T>;
    const Finished &to = *static_cast<const Finished *>(user);
    T *const row = to.y.template as<T>() + (batch * to.p.m + i) * to.p.n + j;
    for (std::int64_t x = 0; x < count; ++x) row[x] = to.finish(T{}, static_cast<Given>(sums[x]), i, j + x);
  }
};

// For every type that MatMul and Gemm take; integer sums come as that type.
template <class Finish>
Status product_of_any(Context &context, const Product &p, const Finish &finish) {
  using Target = Finished<Finish>;
  const View &a = *context.input(0), &b = *context.input(1);
  View *y = context.output(0);
  if (!y) return {};
  if (b.dtype != a.dtype || y->dtype != a.dtype) return type_error(context, b.dtype);
  const Target target = {p, finish, *y};
  Status status;
  const bool real = dispatch<float, double>(a.dtype, [&](auto tag) {
    status = multiply(context, p, a, b, kPlain, kPlain, {Target::template store<decltype(tag), double>, &target});
  });
  const bool integer =
      !real && dispatch<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>(a.dtype, [&](auto tag) {
        status = multiply_exact(context, p, a, b, {Target::template store<decltype(tag), std::uint64_t>, &target});
      });
  return real || integer ? std::move(status) : type_error(context, a.dtype);
}

}  // namespace

Status kernel_mat_mul(Context &context) {
  Product p;
  QR_RETURN_IF_ERROR(matmul_product(context, *context.input(0), *context.input(1), &p));
  return product_of_any(context, p,
                        [](auto tag, auto sum, std::int64_t, std::int64_t) { return static_cast<decltype(tag)>(sum); });
}

Status kernel_fused_mat_mul(Context &context) {
  const qir::Node &node = context.node();
  Product p;
  QR_RETURN_IF_ERROR(qir::resolve_fused_matmul(node, dims_of(*context.input(0)), dims_of(*context.input(1)), &p));
  p.a = layout_of(p.a_batch, p.batch_rank, p.m, p.k, node.get_int("transA", 0) != 0 && !p.a_vector,
                  node.get_int("transBatchA", 0) != 0);
  p.b = layout_of(p.b_batch, p.batch_rank, p.k, p.n, node.get_int("transB", 0) != 0 && !p.b_vector,
                  node.get_int("transBatchB", 0) != 0);
  const double alpha = static_cast<double>(node.get_float("alpha", 1));
  return product_of_any(context, p, [alpha](auto tag, auto sum, std::int64_t, std::int64_t) {
    return static_cast<decltype(tag)>(alpha * static_cast<double>(sum));
  });
}

Status kernel_gemm(Context &context) {
  const qir::Node &node = context.node();
  const View &a = *context.input(0), &b = *context.input(1);
  const View *c = context.input(2);
  const bool a_transposed = node.get_int("transA", 0) != 0, b_transposed = node.get_int("transB", 0) != 0;
  if (a.rank != 2 || b.rank != 2 || a.dims[a_transposed ? 0 : 1] != b.dims[b_transposed ? 1 : 0]) {
    return qir::node_error(node, ErrorId::run_value, "found A %s%s and B %s%s, expected [M,K] and [K,N]",
                           shape_text(a.dims, a.rank), a_transposed ? " transposed" : "", shape_text(b.dims, b.rank),
                           b_transposed ? " transposed" : "");
  }
  Product p;
  p.m = a.dims[a_transposed ? 1 : 0];
  p.k = a.dims[a_transposed ? 0 : 1];
  p.n = b.dims[b_transposed ? 0 : 1];
  p.a = layout_of(nullptr, 0, p.m, p.k, a_transposed, false);
  p.b = layout_of(nullptr, 0, p.k, p.n, b_transposed, false);

  const double alpha = static_cast<double>(node.get_float("alpha", 1)),
               beta = static_cast<double>(node.get_float("beta", 1));
  std::int64_t c_row = 0, c_column = 0;  // strides; 0 where C is broadcast
  if (c) {
    const std::int64_t columns = c->rank > 0 ? c->dims[c->rank - 1] : 1, rows = c->rank > 1 ? c->dims[c->rank - 2] : 1;
    if (c->dtype != a.dtype) return type_error(context, c->dtype);
    if (c->count != rows * columns || (columns != 1 && columns != p.n) || (rows != 1 && rows != p.m)) {
      return qir::node_error(node, ErrorId::run_value, "C is %s, expected what can be broadcast to [%lld,%lld]",
                             shape_text(c->dims, c->rank), p.m, p.n);
    }
    c_row = rows == 1 ? 0 : columns;
    c_column = columns == 1 ? 0 : 1;
  }
  return product_of_any(context, p, [&](auto tag, auto sum, std::int64_t i, std::int64_t j) {
    using T = decltype(tag);
    const T addend = c && beta != 0 ? c->as<const T>()[i * c_row + j * c_column] : T{};
    if constexpr (std::is_integral_v<T>) {
      if (alpha == 1 && (beta == 1 || beta == 0))
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(sum) + static_cast<std::make_unsigned_t<T>>(addend));
    }
    return round_to<T>(alpha * static_cast<double>(sum) + beta * static_cast<double>(addend));
  });
}

namespace {

// `scale_input` -1: there is none.
Status read_quantised(Context &context, int scale_input, int zero_input, std::int64_t rows, std::int64_t batches,
                      Quantised *out) {
  out->rows = rows;
  if (scale_input >= 0)
    QR_RETURN_IF_ERROR(read_values(context, static_cast<std::uint32_t>(scale_input), "a scale", {rows, rows * batches},
                                   1, &out->scale));
  return read_values(context, static_cast<std::uint32_t>(zero_input), "a zero point", {rows, rows * batches}, 0,
                     &out->zero);
}

std::int64_t batches_of(const View &view) noexcept { return view.rank > 2 ? product(view.dims, 0, view.rank - 2) : 1; }

}  // namespace

Status kernel_mat_mul_integer(Context &context) {
  const View &a = *context.input(0), &b = *context.input(1);
  Product p;
  Quantised qa, qb;
  QR_RETURN_IF_ERROR(matmul_product(context, a, b, &p));
  QR_RETURN_IF_ERROR(read_quantised(context, -1, 2, p.m, batches_of(a), &qa));
  QR_RETURN_IF_ERROR(read_quantised(context, -1, 3, p.n, batches_of(b), &qb));
  View *y = context.output(0);
  if (!y) return {};
  struct Target {
    const Product &p;
    std::int32_t *y;
    static void store(const void *user, std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t count,
                      const double *sums) {
      const Target &to = *static_cast<const Target *>(user);
      std::int32_t *const row = to.y + (batch * to.p.m + i) * to.p.n + j;
      for (std::int64_t x = 0; x < count; ++x)
        row[x] = static_cast<std::int32_t>(static_cast<std::int64_t>(sums[x]));  // wraps around, as 32-bit sums do
    }
  };
  const Target target = {p, y->as<std::int32_t>()};
  return multiply(context, p, a, b, qa, qb, {Target::store, &target});
}

Status kernel_qlinear_mat_mul(Context &context) {
  const View &a = *context.input(0), &b = *context.input(3);
  Product p;
  Quantised qa, qb;
  Values y_scale, y_zero;
  QR_RETURN_IF_ERROR(matmul_product(context, a, b, &p));
  QR_RETURN_IF_ERROR(read_quantised(context, 1, 2, p.m, batches_of(a), &qa));
  QR_RETURN_IF_ERROR(read_quantised(context, 4, 5, p.n, batches_of(b), &qb));
  QR_RETURN_IF_ERROR(read_values(context, 6, "y_scale", {}, 1, &y_scale));
  QR_RETURN_IF_ERROR(read_values(context, 7, "y_zero_point", {}, 0, &y_zero));
  View *y = context.output(0);
  if (!y) return {};
  struct Target {
    const Product &p;
    const Quantised &qa, &qb;
    const Values &y_scale, &y_zero;
    const View &y;
    static void store(const void *user, std::int64_t batch, std::int64_t i, std::int64_t j, std::int64_t count,
                      const double *sums) {
      const Target &to = *static_cast<const Target *>(user);
      const Product &p = to.p;
      const std::int64_t b_batch = own_batch(p, p.b, batch, p.k * p.n);
      const double a_scale = to.qa.scale_of(own_batch(p, p.a, batch, p.m * p.k), i);
      const bool real = to.y.dtype == DType::F32;
      double row[kTileColumns];
      for (std::int64_t x = 0; x < count; ++x) {
        const double scaled = sums[x] * (a_scale * to.qb.scale_of(b_batch, j + x)) / to.y_scale[0];
        row[x] = (real ? scaled : __builtin_rint(scaled)) + to.y_zero[0];
      }
      store_rounded(to.y, (batch * p.m + i) * p.n + j, count, row);
    }
  };
  if (y->dtype != DType::I8 && y->dtype != DType::U8 && y->dtype != DType::F32) return type_error(context, y->dtype);
  const Target target = {p, qa, qb, y_scale, y_zero, *y};
  return multiply(context, p, a, b, qa, qb, {Target::store, &target});
}

// com.microsoft: Y[..., N] = A[..., K] * W^T + bias. W is [N, K] in blocks of block_size along K, `bits` bits an
// element, the lowest first: w = (q - zero) * scale, zero being 2^(bits-1) unless given (packed like W, a row of N
// starting at a byte; or as real numbers).
Status kernel_mat_mul_n_bits(Context &context) {
  const qir::Node &node = context.node();
  const View &a = *context.input(0), &w = *context.input(1), &scale = *context.input(2);
  const View *zero = context.input(3), *group = context.input(4), *bias = context.input(5);
  const std::int64_t depth = node.get_int("K", 0), columns = node.get_int("N", 0), bits = node.get_int("bits", 4),
                     block = node.get_int("block_size", 0);
  if ((bits != 2 && bits != 4 && bits != 8) || block < 1 || block % (8 / bits) != 0 || depth < 0 || columns < 0) {
    return qir::node_error(
        node, ErrorId::qir_attribute,
        "found K %lld, N %lld, bits %lld, block_size %lld; expected 2, 4 or 8 bits and blocks of whole bytes", depth,
        columns, bits, block);
  }
  const std::int64_t blocks = depth / block + (depth % block != 0), block_bytes = block / (8 / bits);
  const bool packed_zero = zero && zero->dtype == DType::U8;
  const std::int64_t zero_bytes = (blocks * bits + 7) / 8;  // of a row
  const struct {
    const char *what;
    const View *view;
    std::int64_t row;
    bool known;
  } operands[] = {{"B", &w, blocks * block_bytes, w.dtype == DType::U8},
                  {"scales", &scale, blocks, is_real(scale)},
                  {"zero_points", zero, packed_zero ? zero_bytes : blocks, !zero || packed_zero || is_real(*zero)},
                  {"bias", bias, 1, !bias || is_real(*bias)}};
  for (const auto &operand : operands) {
    std::int64_t expected = 0;
    if (!operand.known) return type_error(context, operand.view->dtype);
    if (operand.view && (!checked_mul(columns, operand.row, &expected) || operand.view->count != expected)) {
      return qir::node_error(node, ErrorId::run_value, "%s has %lld entries, expected N %lld * %lld", operand.what,
                             operand.view->count, columns, operand.row);
    }
  }
  if (a.rank == 0 || a.dims[a.rank - 1] != depth) {
    return qir::node_error(node, ErrorId::run_value, "A is %s, expected [...,%lld]", shape_text(a.dims, a.rank), depth);
  }
  if (group) {
    if (group->dtype != DType::I32 || group->count < depth) return type_error(context, group->dtype);
    for (std::int64_t k = 0; k < depth; ++k) {
      if (group->as<const std::int32_t>()[k] < 0 || group->as<const std::int32_t>()[k] >= blocks)
        return index_error(context, group->as<const std::int32_t>()[k], blocks);
    }
  }
  View *y = context.output(0);
  if (!y) return {};
  if (!is_real(a) || !is_real(*y)) return type_error(context, a.dtype);

  const auto element = [bits](const std::uint8_t *row, std::int64_t i) {
    const std::int64_t bit = i * bits;
    return (row[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
  };
  const auto weight = [&](std::int64_t j, std::int64_t k) {
    const std::int64_t b = group ? group->as<const std::int32_t>()[k] : k / block;
    const double q = element(w.as<const std::uint8_t>() + j * blocks * block_bytes, k);
    const double z = packed_zero ? element(zero->as<const std::uint8_t>() + j * zero_bytes, b)
                     : zero      ? real_at(*zero, j * blocks + b)
                                 : 1 << (bits - 1);
    return (q - z) * real_at(scale, j * blocks + b);
  };
  const Tiling tiling{product(a.dims, 0, a.rank - 1), columns};
  parallel(context, tiling.count(), [&](std::int64_t task) {
    if (context.stopped()) return;
    const Tiling::Tile tile = tiling[task];
    dot_tile(
        tile.rows, tile.columns, depth,
        [&](std::int64_t k, std::int64_t count, TileA &to) {
          for (std::int64_t i = 0; i < tile.rows; ++i) {
            for (std::int64_t x = 0; x < count; ++x) to.at[i][x] = real_at(a, (tile.row + i) * depth + k + x);
          }
        },
        [&](std::int64_t k, std::int64_t count, TileB &to) {
          for (std::int64_t j = 0; j < tile.columns; ++j) {
            for (std::int64_t x = 0; x < count; ++x) to.at[x][j] = weight(tile.column + j, k + x);
          }
        },
        [&](std::int64_t i, const double *sums) {
          for (std::int64_t j = 0; j < tile.columns; ++j)
            set_real(*y, (tile.row + i) * columns + tile.column + j,
                     bias ? sums[j] + real_at(*bias, tile.column + j) : sums[j]);
        });
  });
  return {};
}

// com.microsoft: Y[i, j] is the distance of row i of A and row j of B: the sum over k of (A[i, k] - B[j, k])^2, or its
// root.
Status kernel_cdist(Context &context) {
  const View &a = *context.input(0), &b = *context.input(1);
  const std::int64_t depth = a.dims[1], columns = b.dims[0];
  const bool root = context.node().get_string("metric", "sqeuclidean") == "euclidean";
  View *y = context.output(0);
  if (!y) return {};
  if (!is_real(a) || !is_real(b) || !is_real(*y)) return type_error(context, a.dtype);
  parallel(context, y->count, [&](std::int64_t at) {
    Poll poll(context);
    const std::int64_t left = at / columns * depth, right = at % columns * depth;
    double sum = 0;
    for (std::int64_t k = 0; k < depth && !poll.stopped(1); ++k) {
      const double difference = real_at(a, left + k) - real_at(b, right + k);
      sum += difference * difference;
    }
    set_real(*y, at, root ? std::sqrt(sum) : sum);
  });
  return {};
}

}  // namespace quarry::reference
