// SPDX-License-Identifier: Apache-2.0
// Convolutions, matrix products, attention.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/lowering.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "graph/infer/infer.h"
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::cpu {

using kernels::Kernel;
using kernels::Residual;
using qir::Op;

namespace {

std::int32_t narrow(std::int64_t value) { return static_cast<std::int32_t>(value); }

std::int64_t pixel_of(const View &view) {
  std::int64_t pixel = view.dims[1];
  is_channels_last(view, &pixel);
  return pixel;
}

}  // namespace

bool conv_window(const qir::ConvGeometry &geometry, kernels::Window *out) {
  // Kernels of depthwise convolutions keep all of a window at hand; others, as long as a filter bank's, are products.
  const std::int64_t most = geometry.group == 1 ? 1 << 14 : 255;
  if (geometry.rank < 1 || geometry.rank > 2) return false;
  const std::size_t w = geometry.rank - 1;
  for (std::size_t i = 0; i < geometry.rank; ++i)
    for (const std::int64_t value :
         {geometry.in[i], geometry.out[i], geometry.kernel[i], geometry.stride[i], geometry.dilation[i]})
      if (value < 1 || value > 1 << 24) return false;
  if (geometry.batch < 1 || geometry.batch > 1 << 24) return false;
  std::int64_t taps = 1;
  for (std::size_t i = 0; i < geometry.rank; ++i) {
    if (geometry.pad_begin[i] < 0 || geometry.pad_begin[i] > 1 << 24 || geometry.kernel[i] > most) return false;
    taps *= geometry.kernel[i];
  }
  if (taps > 1 << 16) return false;
  *out = {};
  // (Between the taps of one there is nothing.)
  const auto dilation = [&](std::size_t i) { return geometry.kernel[i] > 1 ? narrow(geometry.dilation[i]) : 1; };
  out->n = narrow(geometry.batch);
  out->iw = narrow(geometry.in[w]), out->ow = narrow(geometry.out[w]), out->kw = narrow(geometry.kernel[w]);
  out->sw = narrow(geometry.stride[w]), out->dw = dilation(w), out->pad_left = narrow(geometry.pad_begin[w]);
  if (geometry.rank == 2) {
    out->ih = narrow(geometry.in[0]), out->oh = narrow(geometry.out[0]), out->kh = narrow(geometry.kernel[0]);
    out->sh = narrow(geometry.stride[0]), out->dh = dilation(0), out->pad_top = narrow(geometry.pad_begin[0]);
  }
  return true;
}

// The bias of a product, times `scale`, plus what an Add behind it brings; empty: there is none. False: not one value
// per channel.
bool Lowering::bias_of(const Group &group, std::int64_t channels, float scale, std::int32_t bias,
                       Vector<float> *out) const {
  out->clear();
  for (const std::int32_t id : {bias, group.bias}) {
    if (id == qir::kAbsent) continue;
    const float *values = qir::constant_floats(graph_, id);
    if (!values) return false;
    const std::int64_t count = count_of(tensor(id).shape);
    // One value for all, or one per column with ones before it; of what an Add brings, fusion has looked.
    if (count != 1 && (count != channels || (id != group.bias && tensor(id).shape.back() != channels))) return false;
    if (out->empty()) out->assign(static_cast<std::size_t>(channels), 0);
    for (std::size_t c = 0; c < out->size(); ++c) (*out)[c] += values[count == 1 ? 0 : c] * (id == bias ? scale : 1.0f);
  }
  return true;
}

kernels::WeightType Lowering::weight_type(const float *values, std::int64_t count) const {
  if (look_only_) return kernels::WeightType::F32;
  switch (weights_) {
    case WeightStorage::F16: return kernels::WeightType::F16;
    case WeightStorage::BF16: return kernels::WeightType::BF16;
    case WeightStorage::Exact: break;
  }
  return kernels::shortest_exact(values, count);
}

void Lowering::choose_numbers(kernels::ConvF32 *p, const float *values, std::int64_t count) const {
  p->weights = weight_type(values, count);
  const kernels::Isa &isa = *plan_.isa;
  const bool split = f32_products_ == F32Products::Auto    ? kernels::split_wins(*p, isa)
                     : f32_products_ == F32Products::Split ? kernels::split_possible(*p, isa)
                                                           : false;
  if (split && (look_only_ || kernels::split_holds(values, count))) p->algorithm = kernels::ConvAlgorithm::Split;
}

// A convolution's shapes and constants.
struct Lowering::ConvParts {
  qir::ConvGeometry geometry;
  kernels::Window window;
  Vector<float> bias;
  kernels::FilterView<float> filter{};
  std::int64_t weights = 0;  // in all
  // Filters of one channel each; how many of them each channel has: geometry.out_per_group.
  bool depthwise() const noexcept { return geometry.in_per_group == 1 && geometry.group > 1; }
};

// False where kernels cannot take it.
Result<bool> Lowering::conv_parts(const Group &group, ConvParts *out) const {
  const qir::Node &node = graph_.nodes[static_cast<std::size_t>(group.root)];
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!is_f32(xi) || !is_f32(group.output) || !qir::constant_floats(graph_, wi)) return false;
  if (Status status = qir::resolve_conv(node, tensor(xi).shape, tensor(wi).shape, &out->geometry); !status.ok())
    return status;
  if (!conv_window(out->geometry, &out->window) || out->geometry.in_channels > 1 << 20 ||
      out->geometry.out_channels > 1 << 20)
    return false;
  if (!bias_of(group, out->geometry.out_channels, 1, input(node, 2), &out->bias)) return false;
  const qir::Shape &ws = tensor(wi).shape;
  const Dims strides = quarry::cpu::row_major(ws);
  out->weights = count_of(ws);
  out->filter = {qir::constant_floats(graph_, wi), strides[0], strides[1], ws.size() == 4 ? strides[2] : 0,
                 strides.back()};
  return true;
}

Status Lowering::lower_conv(const Group &group, bool *done) {
  QR_RETURN_IF_ERROR(lower_pointwise(group, done));
  if (*done) return {};
  ConvParts parts;
  QR_ASSIGN_OR_RETURN(const bool fits, conv_parts(group, &parts));
  if (!fits) {
    QR_RETURN_IF_ERROR(lower_depthwise3d(group, done));
    return *done ? Status() : lower_conv3d(group, done);
  }
  if (parts.depthwise()) {
    QR_RETURN_IF_ERROR(lower_depthwise_planes(group, parts, done));
    if (*done) return {};
  }
  const std::int64_t times = parts.depthwise() ? parts.geometry.out_per_group : 1;
  kernels::ConvF32 p;
  p.ic = narrow(parts.geometry.in_channels), p.oc = narrow(parts.geometry.out_channels),
  p.groups = narrow(parts.geometry.group), p.window = parts.window;
  const bool row_major_x = !parts.depthwise() && kernels::reads_planes(p) && is_row_major(any(current_->inputs[0])),
             few = p.oc <= narrow(plan_.isa->f32_lanes) && group.residual == qir::kAbsent,  // turns_planes()
      planes = row_major_x && (p.ic > 1 || few);
  if (row_major_x && stays_planar(current_->inputs[0], group.output)) {
    p.x_stride = p.y_stride = p.r_stride = kernels::kPlanes;
    choose_numbers(&p, parts.filter.data, parts.weights);
    if (kernels::writes_planes(p, plan_.isa->f32_lanes, plan_.isa->f32_panel)) {
      p.act = group.act, p.residual = group.residual_mode, p.has_bias = !parts.bias.empty();
      View r;
      if (group.residual != qir::kAbsent) r = row_major(group.residual);
      const View in = any(current_->inputs[0]), out = new_row_major(tensor(group.output).shape, 4);
      define(group.output, out);
      *done = true;
      return emit_conv(p, in, parts.filter, parts.weights, parts.bias, out,
                       group.residual == qir::kAbsent ? nullptr : &r);
    }
    p.algorithm = kernels::ConvAlgorithm::Direct, p.weights = kernels::WeightType::F32;
  }
  const View x = times > 1 ? repeated_channels(current_->inputs[0], times)
                 : planes  ? any(current_->inputs[0])
                           : channels_last(current_->inputs[0]);
  View r;
  if (group.residual != qir::kAbsent) r = channels_last(group.residual);
  const View y = image_output(group.output);
  const auto fill = [&](auto &params) {
    params.window = parts.window;
    params.x_stride = planes ? kernels::kPlanes : narrow(pixel_of(x)), params.y_stride = narrow(pixel_of(y));
    if (group.residual != qir::kAbsent) params.r_stride = narrow(pixel_of(r)), params.residual = group.residual_mode;
    params.act = group.act;
    params.has_bias = !parts.bias.empty();
  };
  *done = true;
  if (parts.depthwise()) {
    kernels::DepthwiseF32 d;
    d.c = narrow(parts.geometry.out_channels);
    fill(d);
    return emit_depthwise(d, x, parts.filter, parts.bias, y, group.residual == qir::kAbsent ? nullptr : &r);
  }
  fill(p);
  return emit_conv(p, x, parts.filter, parts.weights, parts.bias, y, group.residual == qir::kAbsent ? nullptr : &r);
}

// Over planes that stay planes. Strides are quicker channels last, copies and all, but for 3x3 with steps of two on
// long vectors; and narrow filters where vectors are short (measured with 3, 5 and 7 columns).
Status Lowering::lower_depthwise_planes(const Group &group, const ConvParts &parts, bool *done) {
  constexpr std::int32_t kWide = 7;
  constexpr std::uint32_t kLongVector = 16;
  const kernels::Window &w = parts.window;
  const bool long_vector = plan_.isa->f32_lanes >= kLongVector,
             pairs = w.sw == 2 && w.sh == 2 && w.kw == 3 && w.kh == 3 && w.dw == 1 && w.dh == 1 && w.ow <= 256;
  if (w.sw == 1 ? w.kw < kWide && !long_vector : !pairs || !long_vector) return {};
  const std::int32_t xi = current_->inputs[0];
  kernels::DepthwiseF32 p;
  p.window = parts.window, p.c = narrow(parts.geometry.in_channels);
  p.x_stride = p.y_stride = p.r_stride = kernels::kPlanes;
  p.act = group.act, p.residual = group.residual_mode, p.has_bias = !parts.bias.empty();
  if (parts.geometry.out_per_group != 1 || !kernels::depthwise_in_planes(p) || !stays_planar(xi, group.output))
    return {};
  View r;
  if (group.residual != qir::kAbsent) r = row_major(group.residual);
  const View x = row_major(xi), y = new_row_major(tensor(group.output).shape, 4);
  define(group.output, y);
  *done = true;
  return emit_depthwise(p, x, parts.filter, parts.bias, y, group.residual == qir::kAbsent ? nullptr : &r);
}

Status Lowering::lower_block(const Group &group, bool *done) {
  const Group &expand = fusion_.group(group.expand), &depthwise = fusion_.group(group.depthwise);
  ConvParts e, d, o;
  for (const auto &[of, parts] : {std::pair{&expand, &e}, std::pair{&depthwise, &d}, std::pair{&group, &o}}) {
    QR_ASSIGN_OR_RETURN(const bool fits, conv_parts(*of, parts));
    if (!fits) return {};
  }
  if (!d.depthwise() || d.geometry.out_per_group != 1 || d.window.dh != 1) return {};
  const View x = channels_last(graph_.nodes[static_cast<std::size_t>(expand.root)].inputs[0]);
  View r;
  if (group.residual != qir::kAbsent) r = channels_last(group.residual);
  const View y = image_output(group.output);
  kernels::BlockF32 p;
  const std::int32_t c = narrow(d.geometry.in_channels);
  p.expand.window = e.window, p.expand.ic = narrow(e.geometry.in_channels), p.expand.oc = c;
  p.expand.weights = weight_type(e.filter.data, e.weights), p.project.weights = weight_type(o.filter.data, o.weights);
  p.expand.x_stride = narrow(pixel_of(x)), p.expand.y_stride = c, p.expand.act = expand.act,
  p.expand.has_bias = !e.bias.empty();
  p.depthwise.window = d.window, p.depthwise.c = p.depthwise.x_stride = p.depthwise.y_stride = c,
  p.depthwise.act = depthwise.act;
  p.depthwise.has_bias = !d.bias.empty();
  p.project.window = o.window, p.project.ic = p.project.x_stride = c, p.project.oc = narrow(o.geometry.out_channels);
  p.project.y_stride = narrow(pixel_of(y)), p.project.act = group.act, p.project.has_bias = !o.bias.empty();
  if (group.residual != qir::kAbsent)
    p.project.r_stride = narrow(pixel_of(r)), p.project.residual = group.residual_mode;
  Vector<Arg> args{arg(x)};
  QR_RETURN_IF_ERROR(add_packed(
      Kernel::ConvF32, p.expand, e.bias, [&](void *to) { kernels::pack_conv_f32(p.expand, *plan_.isa, e.filter, to); },
      &args));
  QR_RETURN_IF_ERROR(add_packed(
      Kernel::DepthwiseF32, p.depthwise, d.bias,
      [&](void *to) { kernels::pack_depthwise_f32(p.depthwise, *plan_.isa, d.filter, to); }, &args));
  QR_RETURN_IF_ERROR(add_packed(
      Kernel::ConvF32, p.project, o.bias,
      [&](void *to) { kernels::pack_conv_f32(p.project, *plan_.isa, o.filter, to); }, &args));
  if (group.residual != qir::kAbsent) args.push_back(arg(r));
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::BlockF32, &p, args);
}

// Sizes come from the kernel's check function, `pack` fills the weights.
template <class P, class Pack>
Status Lowering::add_packed(Kernel kernel, const P &params, const Vector<float> &bias, Pack &&pack, Vector<Arg> *args) {
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(check(kernel, &params, &needs));
  args->push_back(arg(packed_constant(needs.operand_bytes[1], [&](auto &packed) { pack(packed.data()); })));
  if (bias.empty()) return {};
  args->push_back(arg(packed_constant(needs.operand_bytes[2], [&](auto &padded) {
    kernels::pack_channels(bias.data(), static_cast<std::int64_t>(bias.size()), padded.data(), padded.size());
  })));
  return {};
}

// The step of a product with constant weights.
template <class P, class Pack>
Status Lowering::emit_packed(Kernel kernel, const P &params, const View &x, const Vector<float> &bias, const View *r,
                             const View &y, Pack &&pack) {
  Vector<Arg> args{arg(x)};
  QR_RETURN_IF_ERROR(add_packed(kernel, params, bias, pack, &args));
  if (r) args.push_back(arg(*r));
  args.push_back(arg(y));
  return emit(kernel, &params, args);
}

Status Lowering::emit_conv(kernels::ConvF32 p, const View &x, const kernels::FilterView<float> &filter,
                           std::int64_t weights, const Vector<float> &bias, const View &y, const View *r) {
  // Groups were quicker wherever they are possible, than Winograd's algorithm too.
  if (kernels::groups_possible(p, plan_.isa->f32_lanes)) p.algorithm = kernels::ConvAlgorithm::Groups;
  else if (winograd_) p.algorithm = kernels::winograd_choice(p, *plan_.isa);
  // (A filter that is not finite would spoil all that its points are parts of.)
  if (kernels::is_winograd(p.algorithm) && !look_only_ &&
      !std::all_of(filter.data, filter.data + weights, [](float v) { return std::isfinite(v); }))
    p.algorithm = kernels::ConvAlgorithm::Direct;
  if (p.algorithm == kernels::ConvAlgorithm::Direct) choose_numbers(&p, filter.data, weights);
  return emit_packed(Kernel::ConvF32, p, x, bias, r, y,
                     [&](void *to) { kernels::pack_conv_f32(p, *plan_.isa, filter, to); });
}

Status Lowering::emit_depthwise(const kernels::DepthwiseF32 &p, const View &x, const kernels::FilterView<float> &filter,
                                const Vector<float> &bias, const View &y, const View *r) {
  return emit_packed(Kernel::DepthwiseF32, p, x, bias, r, y,
                     [&](void *to) { kernels::pack_depthwise_f32(p, *plan_.isa, filter, to); });
}

// Gemm and MatMul with a constant right side: a convolution of one row.
Status Lowering::lower_gemm(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!is_f32(ai) || !is_f32(group.output) || constant(ai) || !qir::constant_floats(graph_, bi) ||
      tensor(bi).shape.size() != 2 || tensor(ai).shape.empty())
    return {};
  const bool gemm = node.op == Op::Gemm;
  if (gemm && node.get_int("transA", 0) != 0) return {};
  const bool b_transposed = gemm && node.get_int("transB", 0) != 0;
  const float alpha = gemm ? node.get_float("alpha", 1) : group.scale, beta = gemm ? node.get_float("beta", 1) : 1;
  const std::int64_t k = tensor(bi).shape[b_transposed ? 1 : 0], n = tensor(bi).shape[b_transposed ? 0 : 1];
  const std::int64_t m = count_of(tensor(ai).shape) / k;
  if (m < 1 || m > 1 << 24 || n > 1 << 24 || k > 1 << 24) return {};
  Vector<float> bias;
  if (!bias_of(group, n, beta, gemm ? input(node, 2) : qir::kAbsent, &bias)) return {};

  // Rows at even distances, columns adjacent.
  std::optional<View> a;
  any(ai);
  for (const View &form : forms_[static_cast<std::size_t>(ai)]) {
    a = reshaped(form, {m, k});
    if (a && (k == 1 || a->strides[1] == 1) && (m == 1 || a->strides[0] >= k) && a->strides[0] <= INT32_MAX) break;
    a.reset();
  }
  if (!a) a = reshaped(row_major(ai), {m, k});
  kernels::ConvF32 p;
  p.window.iw = p.window.ow = narrow(m);
  p.ic = narrow(k), p.oc = narrow(n);
  p.x_stride = narrow(m == 1 ? k : a->strides[0]), p.y_stride = narrow(n);
  p.act = group.act;
  p.has_bias = !bias.empty();
  View r;
  if (group.residual != qir::kAbsent) {
    r = row_major(group.residual);
    p.r_stride = narrow(n), p.residual = group.residual_mode;
  }
  const float *weights = qir::constant_floats(graph_, bi);
  Vector<float> scaled;
  if (alpha != 1 && !look_only_) {
    scaled.assign(weights, weights + n * k);
    for (float &w : scaled) w *= alpha;
    weights = scaled.data();
  }
  choose_numbers(&p, weights, n * k);
  const kernels::FilterView<float> filter{weights, b_transposed ? k : 1, b_transposed ? 1 : n, 0, 0};
  const View y = new_row_major(tensor(group.output).shape, 4);
  define(group.output, y);
  *done = true;
  return emit_packed(Kernel::ConvF32, p, *a, bias, group.residual == qir::kAbsent ? nullptr : &r, y,
                     [&](void *to) { kernels::pack_conv_f32(p, *plan_.isa, filter, to); });
}

namespace {

// Extents and steps of a product of batches of matrices, with y row-major; false where it has too many dimensions.
// wide_a, wide_b: the operands for all batches. A vector is a matrix of one row, or of one column.
template <class P>
bool matmul_strides(View a, View b, Dims out, View *wide_a, View *wide_b, P *p) {
  if (b.rank() == 1) b.dims.push_back(1), b.strides.push_back(0), out.push_back(1);
  if (a.rank() == 1)
    a.dims.insert(a.dims.begin(), 1), a.strides.insert(a.strides.begin(), 0), out.insert(out.end() - 1, 1);
  if (a.rank() < 2 || b.rank() < 2 || out.size() - 2 > kernels::kBatchRank) return false;
  const std::size_t row = out.size() - 2, col = out.size() - 1, lead = kernels::kBatchRank - row;
  p->m = a.dims[a.rank() - 2], p->k = a.dims[a.rank() - 1], p->n = b.dims[b.rank() - 1];
  Dims a_dims(out.begin(), out.end()), b_dims = a_dims;
  a_dims[col] = p->k;
  b_dims[row] = p->k;
  *wide_a = broadcast(a, a_dims), *wide_b = broadcast(b, b_dims);
  const Dims y = row_major(out);
  for (std::size_t d = 0; d < row; ++d) {
    p->batch[lead + d] = out[d];
    p->a_batch[lead + d] = wide_a->strides[d], p->b_batch[lead + d] = wide_b->strides[d], p->y_batch[lead + d] = y[d];
  }
  p->a_row = wide_a->strides[row], p->a_col = wide_a->strides[col];
  p->b_row = wide_b->strides[row], p->b_col = wide_b->strides[col], p->y_row = y[row];
  return true;
}

}  // namespace

Status Lowering::lower_batched_matmul(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1];
  if (!is_f32(ai) || !is_f32(bi) || !is_f32(group.output)) return {};
  kernels::MatMulF32 p;
  View wide_a, wide_b;
  if (!matmul_strides(any(ai), any(bi), tensor(node.outputs[0]).shape, &wide_a, &wide_b, &p)) return {};
  Vector<float> bias;
  if (!bias_of(group, p.n, 1, qir::kAbsent, &bias)) return {};
  const View y = new_row_major(tensor(group.output).shape, 4);
  define(group.output, y);
  p.act = group.act;
  p.alpha = group.scale;
  p.has_bias = !bias.empty();
  Vector<Arg> args{arg(wide_a), arg(wide_b)};
  View bias_view, r;
  if (!bias.empty()) {
    bias_view = constant_floats(bias, {p.n});
    args.push_back(arg(bias_view));
  }
  if (group.residual != qir::kAbsent) {
    r = row_major(group.residual);
    p.residual = group.residual_mode;
    args.push_back(arg(r));
  }
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::MatMulF32, &p, args);
}

// Products of f64 and of integers that wrap around.
Status Lowering::lower_matmul_wide(const Group &group, bool *done) {
  const qir::Node &node = *current_;
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0];
  const DType dtype = tensor(ai).dtype;
  if (group.members.size() > 1 ||
      (dtype != DType::F64 && dtype != DType::I32 && dtype != DType::U32 && dtype != DType::I64 && dtype != DType::U64))
    return {};
  for (const std::int32_t id : {ai, bi, yi})
    if (tensor(id).quant || tensor(id).dtype != dtype) return {};
  kernels::MatMulWide p;
  View a, b;
  if (!matmul_strides(any(ai), any(bi), tensor(yi).shape, &a, &b, &p)) return {};
  p.dtype = static_cast<std::uint32_t>(dtype);
  const std::uint64_t each = width(ai);
  const View y = new_row_major(tensor(yi).shape, each);
  define(yi, y);
  *done = true;
  return emit_step(Kernel::MatMulWide, p, {arg(a, each), arg(b, each), arg(y, each)});
}

// Bytes whose sums stay integers, neither side packed beforehand.
Status Lowering::lower_matmul_int(const qir::Node &node, bool *done) {
  if (!integer_matrices(graph_, node)) return {};
  const std::int32_t ai = node.inputs[0], bi = node.inputs[1], yi = node.outputs[0], a_zeros = input(node, 2),
                     b_zeros = input(node, 3);
  kernels::MatMulInt p;
  View a, b;
  if (!matmul_strides(any(ai), any(bi), tensor(yi).shape, &a, &b, &p)) return {};
  p.a_dtype = static_cast<std::uint32_t>(tensor(ai).dtype), p.b_dtype = static_cast<std::uint32_t>(tensor(bi).dtype);
  Vector<Arg> args{arg(a, 1), arg(b, 1)};
  View zeros[2];
  const auto take = [&](std::int32_t id, View *view, kernels::ByteZeros *form) {
    if (id == qir::kAbsent) return;
    *form = count_of(tensor(id).shape) == 1 ? kernels::ByteZeros::One : kernels::ByteZeros::Each;
    *view = row_major(id);
    args.push_back(arg(*view, 1));
  };
  take(a_zeros, &zeros[0], &p.a_zeros), take(b_zeros, &zeros[1], &p.b_zeros);
  const View y = new_row_major(tensor(yi).shape, 4);
  define(yi, y);
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::MatMulInt, &p, args);
}

Status Lowering::lower_attention(const Group &group, bool *done) {
  const auto find = [&](std::int32_t id, std::size_t adjacent) {
    any(id);
    for (const View &form : forms_[static_cast<std::size_t>(id)])
      if (form.strides[adjacent] == 1 || form.dims[adjacent] == 1) return form;
    return View{};
  };
  const std::size_t rank = tensor(group.q).shape.size(), row = rank - 2, col = rank - 1;
  View q = find(group.q, col), k = find(group.k_transposed, row), v = find(group.v, col);
  if (q.value == kNoValue) q = row_major(group.q);
  if (v.value == kNoValue) v = row_major(group.v);
  if (k.value == kNoValue) {  // rows of k adjacent
    const View from = any(group.k_transposed);
    Vector<std::size_t> order(rank);
    for (std::size_t d = 0; d < rank; ++d) order[d] = d;
    std::swap(order[row], order[col]);
    k = new_dense(from.dims, order, 4);
    copy(from, k, 4, group.k_transposed);
    define(group.k_transposed, k);
  }
  kernels::AttentionF32 p;
  p.q_rows = q.dims[row], p.qk_cols = q.dims[col], p.kv_rows = k.dims[col], p.v_cols = v.dims[col];
  if (k.dims[row] != p.qk_cols || v.dims[row] != p.kv_rows) return {};
  // Heads side by side in a row, as the projection behind it reads them, where that follows.
  Vector<std::size_t> order(rank);
  for (std::size_t d = 0; d < rank; ++d) order[d] = d;
  if (rank == 4 && uses_.used_once(group.output)) {
    const qir::Node &user = graph_.nodes[static_cast<std::size_t>(uses_.users(group.output)[0])];
    const auto *perm = user.op == Op::Transpose ? user.get_ints("perm") : nullptr;
    if (perm && *perm == Vector<std::int64_t>{0, 2, 1, 3}) order = {0, 2, 1, 3};
  }
  const View y = new_dense(tensor(group.output).shape, order, 4);
  define(group.output, y);
  const auto strides = [&](const View &view, std::size_t rows, std::int64_t(&to)[3]) {
    to[0] = rank == 4 ? view.strides[0] : 0, to[1] = view.strides[rank - 3], to[2] = view.strides[rows];
  };
  p.batches = rank == 4 ? q.dims[0] : 1, p.heads = q.dims[rank - 3];
  strides(q, row, p.q), strides(k, col, p.k), strides(v, row, p.v), strides(y, row, p.y);
  p.scale = group.scale;
  p.masked_nan = 1;  // as Softmax has it
  p.has_mask = group.mask != qir::kAbsent;
  Vector<Arg> args{arg(q), arg(k), arg(v)};
  View mask;
  if (p.has_mask) {
    Dims scores(q.dims);
    scores[col] = p.kv_rows;
    mask = broadcast(any(group.mask), scores);
    p.mask[0] = rank == 4 ? mask.strides[0] : 0;
    for (std::size_t d = 0; d < 3; ++d) p.mask[1 + d] = mask.strides[rank - 3 + d];
    args.push_back(arg(mask));
  }
  args.push_back(arg(y));
  *done = true;
  return emit(Kernel::AttentionF32, &p, args);
}

}  // namespace quarry::cpu
