// SPDX-License-Identifier: Apache-2.0
// Matrix products: Y[batch, i, j] = sum over k of A[batch, i, k] * B[batch, k, j], however the operands lie in memory.
#include "backends/cpu-reference/kernels/dot_tiles.h"
#include "backends/cpu-reference/kernels/kernels.h"
#include "backends/cpu-reference/kernels/reals.h"

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

// zero(i): what is taken off row i.
template <class T, class Zero>
void load_rows(const T *from, std::int64_t row_stride, std::int64_t stride, std::int64_t rows, std::int64_t count,
               Zero &&zero, TileA &to) noexcept {
  for (std::int64_t i = 0; i < rows; ++i) {
    const double off = zero(i);
    for (std::int64_t k = 0; k < count; ++k) to.at[i][k] = static_cast<double>(from[i * row_stride + k * stride]) - off;
  }
}
template <class T, class Zero>
void load_columns(const T *from, std::int64_t stride, std::int64_t column_stride, std::int64_t count,
                  std::int64_t columns, Zero &&zero, TileB &to) noexcept {
  if (column_stride == 1) {
    for (std::int64_t k = 0; k < count; ++k) {
      for (std::int64_t j = 0; j < columns; ++j) to.at[k][j] = static_cast<double>(from[k * stride + j]) - zero(j);
    }
  } else {
    for (std::int64_t j = 0; j < columns; ++j) {
      for (std::int64_t k = 0; k < count; ++k)
        to.at[k][j] = static_cast<double>(from[k * stride + j * column_stride]) - zero(j);
    }
  }
}

constexpr auto kNoZero = [](std::int64_t, std::int64_t) { return 0.0; };

// a_zero(batch, i) and b_zero(batch, j) are taken off the operands; store(batch, i, j, sum) takes the results.
template <class A, class B, class AZero, class BZero, class Store>
void multiply(Context &context, const Product &p, const A *a, const B *b, AZero &&a_zero, BZero &&b_zero,
              Store &&store) {
  const Tiling tiling{p.m, p.n};
  const std::int64_t tiles = tiling.count();
  parallel(context, p.batches() * tiles, [&](std::int64_t task) {
    if (context.stopped()) return;
    const std::int64_t batch = task / tiles;
    const Tiling::Tile tile = tiling[task % tiles];
    const A *rows = a + p.offset(p.a, batch) + tile.row * p.a.row;
    const B *columns = b + p.offset(p.b, batch) + tile.column * p.b.column;
    dot_tile(
        tile.rows, tile.columns, p.k,
        [&](std::int64_t k, std::int64_t count, TileA &to) {
          load_rows(
              rows + k * p.a.column, p.a.row, p.a.column, tile.rows, count,
              [&](std::int64_t i) { return a_zero(batch, tile.row + i); }, to);
        },
        [&](std::int64_t k, std::int64_t count, TileB &to) {
          load_columns(
              columns + k * p.b.row, p.b.row, p.b.column, count, tile.columns,
              [&](std::int64_t j) { return b_zero(batch, tile.column + j); }, to);
        },
        [&](std::int64_t i, std::int64_t j, double sum) { store(batch, tile.row + i, tile.column + j, sum); });
  });
}

// Integers of 32 and 64 bits: exact, wrapping around like the type itself. store gets the sum as the unsigned 64-bit
// number it is modulo 2^64.
template <class T, class Store>
void multiply_exact(Context &context, const Product &p, const T *a, const T *b, Store &&store) {
  parallel(context, p.batches() * p.m, [&](std::int64_t task) {
    if (context.stopped()) return;
    const std::int64_t batch = task / p.m, i = task % p.m;
    const T *row = a + p.offset(p.a, batch) + i * p.a.row;
    const T *columns = b + p.offset(p.b, batch);
    for (std::int64_t j = 0; j < p.n; ++j) {
      std::uint64_t sum = 0;
      for (std::int64_t k = 0; k < p.k; ++k) {
        sum += static_cast<std::uint64_t>(row[k * p.a.column]) *
               static_cast<std::uint64_t>(columns[k * p.b.row + j * p.b.column]);
      }
      store(batch, i, j, sum);
    }
  });
}

// Y = finish(sum, index, i, j) for every type that MatMul and Gemm take; integer sums come as T.
template <class Finish>
Status product_of_any(Context &context, const Product &p, Finish &&finish) {
  const View &a = *context.input(0), &b = *context.input(1);
  View *y = context.output(0);
  if (!y) return {};
  if (b.dtype != a.dtype || y->dtype != a.dtype) return type_error(context, b.dtype);
  const bool real = dispatch<float, double>(a.dtype, [&](auto tag) {
    using T = decltype(tag);
    multiply(context, p, a.as<const T>(), b.as<const T>(), kNoZero, kNoZero,
             [&](std::int64_t batch, std::int64_t i, std::int64_t j, double sum) {
               y->as<T>()[(batch * p.m + i) * p.n + j] = finish(tag, sum, i, j);
             });
  });
  const bool integer =
      !real && dispatch<std::int32_t, std::int64_t, std::uint32_t, std::uint64_t>(a.dtype, [&](auto tag) {
        using T = decltype(tag);
        multiply_exact(context, p, a.as<const T>(), b.as<const T>(),
                       [&](std::int64_t batch, std::int64_t i, std::int64_t j, std::uint64_t sum) {
                         y->as<T>()[(batch * p.m + i) * p.n + j] = finish(tag, static_cast<T>(sum), i, j);
                       });
      });
  return real || integer ? Status() : type_error(context, a.dtype);
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
                           shape_text(a.dims, a.rank).c_str(), a_transposed ? " transposed" : "",
                           shape_text(b.dims, b.rank).c_str(), b_transposed ? " transposed" : "");
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
                             shape_text(c->dims, c->rank).c_str(), static_cast<long long>(p.m),
                             static_cast<long long>(p.n));
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

// Zero points and scales of one operand of a quantised product: one, one per row (of A) or column (of B), or those for
// every batch entry.
struct Quantised {
  Values scale, zero;
  std::int64_t lines = 0;

  double scale_of(std::int64_t batch, std::int64_t line) const noexcept {
    return scale[scale.count == lines ? line : batch * lines + line];
  }
  double zero_of(std::int64_t batch, std::int64_t line) const noexcept {
    return zero[zero.count == lines ? line : batch * lines + line];
  }
};

// `scale_input` -1: there is none.
Status read_quantised(Context &context, int scale_input, int zero_input, std::int64_t lines, std::int64_t batches,
                      Quantised *out) {
  out->lines = lines;
  if (scale_input >= 0)
    QR_RETURN_IF_ERROR(read_values(context, static_cast<std::uint32_t>(scale_input), "a scale",
                                   {lines, lines * batches}, 1, &out->scale));
  return read_values(context, static_cast<std::uint32_t>(zero_input), "a zero point", {lines, lines * batches}, 0,
                     &out->zero);
}

// The product of two operands that are i8, u8 or (f8, widened) f32.
template <class Store>
Status quantised_product(Context &context, const Product &p, const View &a, const View &b, const Quantised &qa,
                         const Quantised &qb, Store &&store) {
  // Parameters per batch entry follow the operand's own batch entries.
  const auto a_batch = [&](std::int64_t batch) { return p.m * p.k == 0 ? 0 : p.offset(p.a, batch) / (p.m * p.k); };
  const auto b_batch = [&](std::int64_t batch) { return p.k * p.n == 0 ? 0 : p.offset(p.b, batch) / (p.k * p.n); };
  bool known = false;
  dispatch<std::int8_t, std::uint8_t, float>(a.dtype, [&](auto a_tag) {
    known = dispatch<std::int8_t, std::uint8_t, float>(b.dtype, [&](auto b_tag) {
      multiply(
          context, p, a.as<const decltype(a_tag)>(), b.as<const decltype(b_tag)>(),
          [&](std::int64_t batch, std::int64_t i) { return qa.zero_of(a_batch(batch), i); },
          [&](std::int64_t batch, std::int64_t j) { return qb.zero_of(b_batch(batch), j); },
          [&](std::int64_t batch, std::int64_t i, std::int64_t j, double sum) {
            store((batch * p.m + i) * p.n + j, sum, qa.scale_of(a_batch(batch), i) * qb.scale_of(b_batch(batch), j));
          });
    });
  });
  return known ? Status() : type_error(context, a.dtype);
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
  return quantised_product(
      context, p, a, b, qa, qb, [out = y->as<std::int32_t>()](std::int64_t index, double sum, double) {
        out[index] = static_cast<std::int32_t>(static_cast<std::int64_t>(sum));  // wraps around, as 32-bit sums do
      });
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
  Status status;
  const bool known = dispatch<std::int8_t, std::uint8_t, float>(y->dtype, [&](auto tag) {
    using T = decltype(tag);
    status = quantised_product(context, p, a, b, qa, qb, [&](std::int64_t index, double sum, double scale) {
      const double scaled = sum * scale / y_scale[0];
      y->as<T>()[index] =
          std::is_integral_v<T> ? round_to<T>(__builtin_rint(scaled) + y_zero[0]) : static_cast<T>(scaled + y_zero[0]);
    });
  });
  return known ? std::move(status) : type_error(context, y->dtype);
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
        "found K %lld, N %lld, bits %lld, block_size %lld; expected 2, 4 or 8 bits and blocks of whole bytes",
        static_cast<long long>(depth), static_cast<long long>(columns), static_cast<long long>(bits),
        static_cast<long long>(block));
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
                             static_cast<long long>(operand.view->count), static_cast<long long>(columns),
                             static_cast<long long>(operand.row));
    }
  }
  if (a.rank == 0 || a.dims[a.rank - 1] != depth) {
    return qir::node_error(node, ErrorId::run_value, "A is %s, expected [...,%lld]", shape_text(a.dims, a.rank).c_str(),
                           static_cast<long long>(depth));
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
        [&](std::int64_t i, std::int64_t j, double sum) {
          set_real(*y, (tile.row + i) * columns + tile.column + j, bias ? sum + real_at(*bias, tile.column + j) : sum);
        });
  });
  return {};
}

}  // namespace quarry::reference
