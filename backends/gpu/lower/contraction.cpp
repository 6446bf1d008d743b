// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix multiplications.
#include <algorithm>
#include <cstring>

#include "backends/gpu/kernels/bounds.h"
#include "backends/gpu/lower/quantized.h"
#include "backends/gpu/lower/rules.h"
#include "graph/infer/infer.h"

namespace quarry::gpu {

namespace {

// Weights [M, C/group, taps] as [group][block of channels][C/group * taps][tile], zeros beyond the last channel.
// `turned`: taps before channels of the input.
qir::Bytes packed_weights(Lowering &l, const qir::Bytes from, std::size_t width, std::int64_t groups,
                          std::int64_t channels, std::int64_t inputs, std::int64_t taps, std::int64_t tile,
                          bool turned) {
  const std::int64_t blocks = (channels + tile - 1) / tile, row = inputs * taps;
  const auto bytes = static_cast<std::uint64_t>(groups * blocks * row * tile) * width;
  auto *const to = static_cast<std::uint8_t *>(l.store().allocate(bytes));
  std::memset(to, 0, bytes);
  const auto *const source = static_cast<const std::uint8_t *>(from.data);
  const auto w = static_cast<std::int64_t>(width);
  for (std::int64_t g = 0; g < groups; ++g)
    for (std::int64_t m = 0; m < channels; ++m)
      for (std::int64_t i = 0; i < row; ++i)
        std::memcpy(
            to + (((g * blocks + m / tile) * row + (turned ? i % taps * inputs + i / taps : i)) * tile + m % tile) * w,
            source + ((g * channels + m) * row + i) * w, width);
  return {to, bytes};
}

// A matrix [k, n] as [panel of columns][k][kPanel], zeros beyond the last column.
qir::Bytes packed_columns(Lowering &l, const qir::Bytes from, const View &b, std::int64_t n_step, std::int64_t k_step,
                          std::size_t width, std::int64_t k, std::int64_t n) {
  const std::int64_t panels = (n + kPanel - 1) / kPanel;
  const auto bytes = static_cast<std::uint64_t>(panels * k * kPanel) * width;
  auto *const to = static_cast<std::uint8_t *>(l.store().allocate(bytes));
  std::memset(to, 0, bytes);
  const auto w = static_cast<std::int64_t>(width);
  const auto *const source = static_cast<const std::uint8_t *>(from.data) + b.offset * w;
  for (std::int64_t column = 0; column < n; ++column)
    for (std::int64_t i = 0; i < k; ++i)
      std::memcpy(to + ((column / kPanel * k + i) * kPanel + column % kPanel) * w,
                  source + (column * n_step + i * k_step) * w, width);
  return {to, bytes};
}

// How many products of float16 are summed in 16 bits, before sums of 32 take them: 0 where the user did not ask for it.
// So few that what they lose is a thousandth of their sum.
std::int64_t float16_steps(const Lowering &l, DType dtype) {
  return l.target().float16 && dtype == DType::F16 ? 16 : 0;
}
// Columns that vectors of kernels are worth while for.
constexpr std::int64_t kFewestColumns = 4;

// A vector of channels seen as [1, M, 1, ...].
View per_channel(const View &vector, std::size_t rank) {
  View out{vector.value, vector.offset, Dims(rank, 1), Dims(rank, 0)};
  out.dims[1] = vector.dims[0], out.strides[1] = vector.strides[0];
  return out;
}

}  // namespace

// tune.cpp fits it to the device.
TileParams tile_of(std::int64_t rows, std::int64_t columns) {
  TileParams tile{.ROWS = 8, .COLS = kPanel, .GROUP_X = 4, .GROUP_Y = 1};
  while (tile.ROWS > 1 && tile.ROWS / 2 >= rows) tile.ROWS /= 2;
  while (tile.COLS > 2 && tile.COLS > columns) tile.COLS /= 2;
  return tile;
}

Status lower_conv(Lowering &l, const qir::Node &node) {
  if (is_integer_contraction(l, node)) return lower_integer_contraction(l, node);
  const bool transposed = node.op == qir::Op::ConvTranspose;
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1], bi = node.inputs[2];
  if (l.dtype(xi) != l.dtype(wi) || !is_real(*number_of(l.dtype(xi))))
    return refuse(ErrorId::backend_type, node, "found weights of another type");
  qir::ConvGeometry c;
  QR_RETURN_IF_ERROR(transposed ? qir::resolve_conv_transpose(node, l.shape(xi), l.shape(wi), &c)
                                : qir::resolve_conv(node, l.shape(xi), l.shape(wi), &c));
  if (c.rank > 3)
    return refuse(ErrorId::backend_limit, node, format("found %u spatial axes, expected at most 3", c.rank));
  const View x = l.view(xi);
  if (strided::count_of(x.dims) == 0) return refuse(ErrorId::backend_limit, node, "found an input without elements");
  const WindowParams window = window_of(c, x);
  std::int64_t taps = 1, pixels = 1;
  for (std::uint32_t i = 0; i < c.rank; ++i) taps *= c.kernel[i], pixels *= c.out[i];
  const std::int64_t per_in = c.in_channels / c.group, per_out = c.out_channels / c.group;
  const Dims dims{c.batch, c.group, per_out, pixels};
  const qir::Tensor &weights = l.tensor(wi);
  // Without a window it is a matrix multiplication of weights and pixels, which lie side by side.
  const bool is_gemm = !transposed && weights.is_constant && taps == 1 && pixels >= kFewestColumns &&
                       std::ranges::equal(window.IN, window.OUT) &&
                       std::ranges::all_of(window.STRIDE, [](auto s) { return s == 1; }) &&
                       std::ranges::all_of(window.PAD, [](auto p) { return p == 0; }) && window.X[2] == 1 &&
                       (window.IN[1] == 1 || window.X[1] == window.IN[2]) &&
                       (window.IN[0] == 1 || window.X[0] == window.IN[1] * window.IN[2]);
  const bool packed = !transposed && !is_gemm && weights.is_constant, tiled = packed && per_out >= kFewestColumns;
  std::int64_t tile = tiled ? kPanel : kTile;
  while (!tiled && tile / 2 >= per_out) tile /= 2;
  FusedExpression elements;
  elements.result = node.outputs[0];
  if (bi != qir::kAbsent) {
    const View bias =
        strided::broadcast(per_channel(l.view(bi), l.shape(node.outputs[0]).size()), l.shape(node.outputs[0]));
    elements.operands.push_back({bias, l.dtype(bi)});
    elements.tensors.push_back(bi);
    elements.at = elements.code.add(Element::Add, Code::kValue, 0);
  }
  l.fuse(elements, Reshapes{dims});
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  if (const std::int64_t step = winograd_step(l, node, c)) return emit_winograd(l, node, c, step, dims, elements);
  View w;
  if (packed) {
    const std::size_t width = dtype_bits(weights.dtype) / 8;
    const qir::Bytes bytes = packed_weights(l, weights.data, width, c.group, per_out, per_in, taps, tile, tiled);
    w = l.constant(bytes, {static_cast<std::int64_t>(bytes.size / width)});
  } else {
    w = l.dense(wi);
  }
  const std::int64_t blocks = (per_out + tile - 1) / tile;
  const std::int64_t per_group = transposed ? per_in * per_out * taps
                                 : packed   ? blocks * per_in * taps * tile
                                            : per_out * per_in * taps;
  const std::int64_t along = is_gemm ? 1 : 0;
  const Arg images{{x.value, x.offset, dims, {x.strides[0], x.strides[1] * per_in, 0, along}}, l.dtype(xi)};
  const Arg filters{{w.value, w.offset, dims, {0, per_group, along * per_in, 0}}, l.dtype(wi)};
  if (is_gemm) {
    const MatMulTileParams p{.K = per_in,
                             .A_K = 1,
                             .B_K = x.strides[1],
                             .FLOAT16_STEPS = float16_steps(l, l.dtype(xi)),
                             .tile = tile_of(per_out, pixels)};
    const Arg base[] = {filters, images};
    const View y = l.result(elements.result);
    return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
  }
  const Arg base[] = {images, filters};
  const Arg y{l.result(elements.result), l.dtype(elements.result)};
  if (transposed)
    return l.emit(ConvTransposeParams{.CHANNELS = per_in,
                                      .X_CHANNEL = x.strides[1],
                                      .W_CHANNEL = per_out * taps,
                                      .W_OUT = taps,
                                      .window = window},
                  dims, base, elements, y);
  if (tiled)
    return l.emit(ConvTileParams{.CHANNELS = per_in,
                                 .X_CHANNEL = x.strides[1],
                                 .window = window,
                                 .FLOAT16_STEPS = float16_steps(l, l.dtype(xi)),
                                 .tile = tile_of(pixels, per_out)},
                  dims, base, elements, y);
  return l.emit(
      ConvParams{.CHANNELS = per_in, .X_CHANNEL = x.strides[1], .window = window, .PACKED = packed, .TILE = tile}, dims,
      base, elements, y);
}

namespace {

// y[batch, m, n]; views of a and b in the coordinates [batch, m, n] with the distance along k beside them.
Status product(Lowering &l, const Dims &dims, View a, std::int64_t a_k, View b, std::int64_t b_k, std::int64_t k,
               DType dtype, FusedExpression &elements) {
  l.fuse(elements, Reshapes{dims});
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const std::size_t rank = dims.size();
  const std::int64_t m = dims[rank - 2], n = dims[rank - 1], n_step = b.strides[rank - 1];
  bool tiled = is_real(*number_of(dtype)) && n >= kFewestColumns;
  std::int64_t panel = 0;
  const auto *const weights = l.contents(b);
  if (tiled && weights && std::all_of(b.strides.begin(), b.strides.end() - 1, [](auto step) { return step == 0; })) {
    const std::size_t width = dtype_bits(dtype) / 8;
    const qir::Bytes bytes = packed_columns(l, *weights, b, n_step, b_k, width, k, n);
    b = {l.constant(bytes, {static_cast<std::int64_t>(bytes.size / width)}).value, 0, dims, Dims(rank, 0)};
    panel = b_k = kPanel;
  } else if (tiled && n_step != 1) {
    // Its columns are laid side by side where that is little beside the multiplication.
    tiled = m >= kFewestColumns;
    if (tiled) {
      Dims wanted = dims, from = b.strides;
      wanted[rank - 2] = k, from[rank - 2] = b_k;
      for (std::size_t d = 0; d + 2 < rank; ++d)
        if (b.strides[d] == 0) wanted[d] = 1;
      const View columns = l.between(wanted, dtype);
      QR_RETURN_IF_ERROR(l.copy({{b.value, b.offset, wanted, from}, dtype}, {columns, dtype}));
      for (std::size_t d = 0; d + 2 < rank; ++d) b.strides[d] = wanted[d] == 1 ? 0 : columns.strides[d];
      b.value = columns.value, b.offset = 0, b.strides[rank - 1] = 1, b_k = n;
    }
  }
  const Arg base[] = {{std::move(a), dtype}, {std::move(b), dtype}};
  const Arg y{l.result(elements.result), l.dtype(elements.result)};
  if (!tiled) return l.emit(MatMulParams{.K = k, .A_K = a_k, .B_K = b_k}, dims, base, elements, y);
  return l.emit(MatMulTileParams{.K = k,
                                 .A_K = a_k,
                                 .B_K = b_k,
                                 .PANEL = panel,
                                 .FLOAT16_STEPS = float16_steps(l, dtype),
                                 .tile = tile_of(m, n)},
                dims, base, elements, y);
}

}  // namespace

Status lower_matmul(Lowering &l, const qir::Node &node) {
  if (is_integer_contraction(l, node)) return lower_integer_contraction(l, node);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  qir::MatMulGeometry g;
  QR_RETURN_IF_ERROR(qir::resolve_matmul(node, l.shape(ai), l.shape(bi), &g));
  if (l.dtype(ai) != l.dtype(bi)) return refuse(ErrorId::backend_type, node, "found operands of two types");
  if (g.k == 0) return refuse(ErrorId::backend_limit, node, "found sums of nothing");
  View a = l.view(ai), b = l.view(bi);
  if (a.rank() == 1) a.dims.insert(a.dims.begin(), 1), a.strides.insert(a.strides.begin(), 0);
  if (b.rank() == 1) b.dims.push_back(1), b.strides.push_back(0);
  Dims batch(g.batch, g.batch + g.batch_rank);
  const auto in = [&](const View &v, bool left) {
    Dims wanted = batch;
    wanted.insert(wanted.end(), v.dims.end() - 2, v.dims.end());
    View out = strided::broadcast(v, wanted);
    // Broadcasting loses the stride of what has one element: none is needed.
    out.strides[wanted.size() - 2] = v.strides[v.rank() - 2], out.strides.back() = v.strides.back();
    const std::int64_t along_k = out.strides[left ? wanted.size() - 1 : wanted.size() - 2];
    if (left) out.strides.back() = 0;
    else out.strides[wanted.size() - 2] = 0;
    out.dims[wanted.size() - 2] = g.m, out.dims.back() = g.n;
    return std::pair(out, along_k);
  };
  auto [av, a_k] = in(a, true);
  auto [bv, b_k] = in(b, false);
  Dims dims = batch;
  dims.push_back(g.m), dims.push_back(g.n);
  if (dims.size() > kMaxRank) return refuse(ErrorId::backend_limit, node, "found more than 8 axes");
  FusedExpression elements;
  elements.result = node.outputs[0];
  return product(l, dims, av, a_k, bv, b_k, g.k, l.dtype(ai), elements);
}

Status lower_distances(Lowering &l, const qir::Node &node) {
  const View a = l.view(node.inputs[0]), b = l.view(node.inputs[1]);
  if (a.dims[1] == 0) return refuse(ErrorId::backend_limit, node, "found rows of no elements, expected some");
  const Dims dims{a.dims[0], b.dims[0]};
  const DistanceParams p{.EUCLIDEAN = node.get_string("metric", "sqeuclidean") == "euclidean",
                         .K = a.dims[1],
                         .A_K = a.strides[1],
                         .B_K = b.strides[1]};
  FusedExpression elements;
  elements.result = node.outputs[0];
  l.fuse(elements, [](const View &) { return true; });
  for (Arg &operand : elements.operands) operand.view = strided::broadcast(operand.view, l.shape(elements.result));
  const Arg base[] = {{{a.value, a.offset, dims, {a.strides[0], 0}}, l.dtype(node.inputs[0])},
                      {{b.value, b.offset, dims, {0, b.strides[0]}}, l.dtype(node.inputs[1])}};
  const View y = l.result(elements.result);
  return l.emit(p, dims, base, elements, {y, l.dtype(elements.result)});
}

Status lower_gemm(Lowering &l, const qir::Node &node) {
  if (is_integer_contraction(l, node)) return lower_integer_contraction(l, node);
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], ci = node.inputs[2];
  const bool trans_a = node.get_int("transA", 0) != 0, trans_b = node.get_int("transB", 0) != 0;
  const View a = l.view(ai), b = l.view(bi);
  const std::int64_t m = a.dims[trans_a ? 1 : 0], k = a.dims[trans_a ? 0 : 1], n = b.dims[trans_b ? 0 : 1];
  if (k == 0) return refuse(ErrorId::backend_limit, node, "found sums of nothing");
  const Number number = *number_of(l.dtype(ai));
  const float alpha = node.get_float("alpha", 1), beta = node.get_float("beta", 1);
  if (!is_real(number) && (alpha != 1 || beta != 1))
    return refuse(ErrorId::backend_limit, node, "found factors of integers, expected 1");
  FusedExpression elements;
  elements.result = node.outputs[0];
  if (alpha != 1)
    elements.at =
        elements.code.add(Element::Mul, elements.at, elements.code.constant(number, static_cast<double>(alpha)));
  if (ci != qir::kAbsent) {
    elements.operands.push_back({strided::broadcast(l.view(ci), {m, n}), l.dtype(ci)});
    elements.tensors.push_back(qir::kAbsent);
    std::uint32_t c = 0;
    if (beta != 1) c = elements.code.add(Element::Mul, c, elements.code.constant(number, static_cast<double>(beta)));
    elements.at = elements.code.add(Element::Add, elements.at, c);
  }
  const View av{a.value, a.offset, {m, n}, {a.strides[trans_a ? 1 : 0], 0}};
  const View bv{b.value, b.offset, {m, n}, {0, b.strides[trans_b ? 0 : 1]}};
  return product(l, {m, n}, av, a.strides[trans_a ? 0 : 1], bv, b.strides[trans_b ? 1 : 0], k, l.dtype(ai), elements);
}

}  // namespace quarry::gpu
