// SPDX-License-Identifier: Apache-2.0
// Convolutions that have kernels as they are, and what all convolutions and matrix multiplications with constant
// weights write with.
#include <algorithm>
#include <cmath>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/rules.h"
#include "kernels/cpu/pack/pack.h"
#include "kernels/cpu/shapes/conv_shape.h"

namespace quarry::cpu {

using kernels::Kernel;

namespace {

std::int64_t pixel_of(const View &view) {
  std::int64_t pixel = view.dims[1];
  is_channels_last(view, &pixel);
  return pixel;
}

qir::Bytes bytes_of(const float *values, std::int64_t count) {
  return {values, static_cast<std::uint64_t>(count) * sizeof(float)};
}

// A convolution's shapes and constants.
struct ConvParts {
  qir::ConvGeometry geometry;
  kernels::Window window;
  Bias bias;
  std::int32_t weights = qir::kAbsent;
  // Filters of one channel each; how many of them each channel has: geometry.out_per_group.
  bool depthwise() const noexcept { return geometry.in_per_group == 1 && geometry.group > 1; }
};

// False where kernels cannot take it.
Result<bool> conv_parts(const Lowering &l, const Group &group, ConvParts *out) {
  const qir::Node &node = l.node(group);
  const std::int32_t xi = node.inputs[0], wi = node.inputs[1];
  if (!l.is_f32(xi) || !l.is_f32(group.output) || !l.is_f32(wi)) return false;
  if (Status status = qir::resolve_conv(node, l.tensor(xi).shape, l.tensor(wi).shape, &out->geometry); !status.ok())
    return status;
  if (!conv_window(out->geometry, &out->window) || out->geometry.in_channels > 1 << 20 ||
      out->geometry.out_channels > 1 << 20)
    return false;
  out->weights = wi;
  return bias_of(l, group, out->geometry.out_channels, 1, l.input(node, 2), &out->bias);
}

kernels::WeightType weight_type(const Lowering &l, const float *values, std::int64_t count) {
  if (l.options().dry_run) return kernels::WeightType::F32;
  switch (l.options().weights) {
    case WeightStorage::F16: return kernels::WeightType::F16;
    case WeightStorage::BF16: return kernels::WeightType::BF16;
    case WeightStorage::Exact: break;
  }
  return static_cast<kernels::WeightType>(l.weights_fact(" type", bytes_of(values, count), [&] {
    return static_cast<std::uint32_t>(kernels::shortest_exact(values, count));
  }));
}

// The step that packs weights in the run.
Status emit_pack(Lowering &l, kernels::PackF32 pack, const FilterSource &filter, std::uint32_t to) {
  pack.lanes = l.isa().f32_lanes, pack.panel = l.isa().f32_panel;
  pack.strides[0] = filter.at.oc_stride, pack.strides[1] = filter.at.ic_stride;
  pack.strides[2] = filter.at.kh_stride, pack.strides[3] = filter.at.kw_stride;
  const kernels::ConvF32 &c = pack.conv;
  const std::int64_t dims[] = {c.oc, c.ic / c.groups, c.window.kh, c.window.kw};
  View from = filter.view;
  for (std::size_t i = 0; i < 4; ++i) from.offset += std::min<std::int64_t>(0, pack.strides[i]) * (dims[i] - 1);
  return l.emit_step(Kernel::PackF32, pack, {arg(from), arg(to)});
}
kernels::PackF32 pack_of(const kernels::ConvF32 &p) {
  kernels::PackF32 pack;
  pack.conv = p;
  return pack;
}
kernels::PackF32 pack_of(const kernels::DepthwiseF32 &p) {
  kernels::PackF32 pack;
  pack.conv.window = p.window, pack.conv.ic = pack.conv.oc = pack.conv.groups = p.c;
  pack.kind = kernels::PackKind::Depthwise;
  return pack;
}
void pack_constants(const Lowering &l, const kernels::ConvF32 &p, const kernels::FilterView<float> &w, void *to) {
  kernels::pack_conv_f32(p, l.isa(), w, to);
}
void pack_constants(const Lowering &l, const kernels::DepthwiseF32 &p, const kernels::FilterView<float> &w, void *to) {
  kernels::pack_depthwise_f32(p, l.isa(), w, to);
}

Vector<std::int64_t> form_of(const Lowering &l, const kernels::ConvF32 &p) { return kernels::pack_form(p, l.isa()); }
Vector<std::int64_t> form_of(const Lowering &, const kernels::DepthwiseF32 &p) { return kernels::pack_form(p); }

// Appends packed weights and bias to a step's operands; their sizes come from the check of its kernel.
template <class P>
Status add_packed(Lowering &l, Kernel kernel, const P &p, const FilterSource &filter, const Bias &bias,
                  Vector<Arg> *args, View *bias_view) {
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(l.check(kernel, &p, &needs));
  if (filter.constant()) {
    Vector<std::int64_t> form = form_of(l, p);
    form.insert(form.end(), {filter.at.oc_stride, filter.at.ic_stride, filter.at.kh_stride, filter.at.kw_stride});
    const String key =
        l.weights_key(kernel == Kernel::ConvF32 ? " conv" : " depthwise", bytes_of(filter.at.data, filter.count), form);
    args->push_back(
        arg(l.packed_weights(key, needs.operand_bytes[1], [&](void *to) { pack_constants(l, p, filter.at, to); })));
  } else {
    const std::uint32_t packed = l.new_value(needs.operand_bytes[1]);
    QR_RETURN_IF_ERROR(emit_pack(l, pack_of(p), filter, packed));
    args->push_back(arg(packed));
  }
  if (bias.empty()) return {};
  QR_RETURN_IF_ERROR(bias_operand(l, bias, needs.operand_bytes[2], bias_view));
  args->push_back(arg(*bias_view));
  return {};
}

// The steps of packed weights.
template <class P>
Status emit_packed(Lowering &l, Kernel kernel, const P &p, std::span<const Images> images, const FilterSource &filter,
                   const Bias &bias) {
  Vector<Arg> packed;
  View bias_view;
  QR_RETURN_IF_ERROR(add_packed(l, kernel, p, filter, bias, &packed, &bias_view));
  for (const Images &image : images) {
    Vector<Arg> args{arg(image.x)};
    args.insert(args.end(), packed.begin(), packed.end());
    if (image.r) args.push_back(arg(*image.r));
    args.push_back(arg(image.y));
    QR_RETURN_IF_ERROR(l.emit(kernel, &p, args));
  }
  return {};
}

}  // namespace

bool conv_window(const qir::ConvGeometry &geometry, kernels::Window *out) {
  // Kernels of depthwise convolutions keep all of a window at hand; others, as long as those of a filter bank, are
  // matrix multiplications.
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

bool bias_of(const Lowering &l, const Group &group, std::int64_t channels, float scale, std::int32_t bias, Bias *out) {
  *out = {};
  out->channels = channels, out->scale = scale;
  for (const bool own : {true, false}) {  // (which may be one tensor)
    const std::int32_t id = own ? bias : group.bias;
    if (id == qir::kAbsent) continue;
    const std::int64_t count = count_of(l.tensor(id).shape);
    // One value for all, or one per column with ones before it; of what an Add brings, fusion has looked.
    if (count != 1 && (count != channels || (own && l.tensor(id).shape.back() != channels))) return false;
    const float *values = qir::constant_floats(l.graph(), id);
    if (!values) {
      if (!l.is_f32(id)) return false;
      out->tensor = id;
      continue;
    }
    const float factor = own ? scale : 1.0f;
    if (out->constants().empty() && count == channels && factor == 1) {
      out->stored = values;
      continue;
    }
    const std::span<const float> before = out->constants();
    Vector<float> sums(before.begin(), before.end());
    sums.resize(static_cast<std::size_t>(channels), 0);
    for (std::size_t c = 0; c < sums.size(); ++c) sums[c] += values[count == 1 ? 0 : c] * factor;
    out->values = std::move(sums), out->stored = nullptr;
  }
  return true;
}

namespace {

Vector<float> repeated_constants(const Bias &bias) {
  Vector<float> out;
  const std::span<const float> values = bias.constants();
  for (std::int64_t first = 0; first < bias.channels; first += bias.each)
    for (std::int64_t i = 0; i < bias.times; ++i)
      out.insert(out.end(), values.begin() + first, values.begin() + first + bias.each);
  return out;
}

}  // namespace

Status bias_operand(Lowering &l, const Bias &bias, std::uint64_t bytes, View *out) {
  const std::int64_t n = bias.channels;
  if (bias.tensor == qir::kAbsent) {
    const Vector<float> repeated = bias.times > 1 ? repeated_constants(bias) : Vector<float>();
    const std::span<const float> values = bias.times > 1 ? repeated : bias.constants();
    const String key = l.weights_key(" channels", {values.data(), values.size_bytes()}, {});
    const std::uint32_t value = l.packed_weights(key, bytes, [&](void *padded) {
      kernels::pack_channels(values.data(), static_cast<std::int64_t>(values.size()), padded, bytes);
    });
    *out = View{static_cast<std::int32_t>(value), 0, {n * bias.times}, {1}};
    return {};
  }
  View from = l.row_major(bias.tensor);
  const std::int64_t given = count_of(from.dims);
  from.dims = {n}, from.strides = {given == 1 && n > 1 ? 0 : 1};
  if (bias.scale != 1) {
    const View scaled = l.new_row_major({given}, 4);
    const kernels::UnaryF32 p{given, {kernels::Act::Linear, bias.scale, 0, 0}};
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::UnaryF32, p, {arg(from), arg(scaled)}));
    from.value = scaled.value, from.offset = 0;
  }
  if (const std::span<const float> values = bias.constants(); !values.empty()) {
    const View added = l.constant_floats({values.begin(), values.end()}, {n}), sum = l.new_row_major({n}, 4);
    kernels::BinaryF32 p;
    p.dims[0] = n, p.a[0] = from.strides[0], p.b[0] = 1;
    QR_RETURN_IF_ERROR(l.emit_step(Kernel::BinaryF32, p, {arg(from), arg(added), arg(sum)}));
    from = sum;
  }
  *out = from;
  if (from.strides[0] == 1 && bias.times == 1 && bytes == static_cast<std::uint64_t>(n) * 4) return {};
  const Dims dims{n / bias.each, bias.times, bias.each};
  const View padded{static_cast<std::int32_t>(l.new_value(bytes)), 0, dims, cpu::row_major(dims)};
  from.dims = dims, from.strides = {bias.each * from.strides[0], 0, from.strides[0]};
  l.copy(from, padded, 4, bias.tensor);
  *out = View{padded.value, 0, {count_of(dims)}, {1}};
  return {};
}

FilterSource filter_of(Lowering &l, std::int32_t weights) {
  const qir::Shape &shape = l.tensor(weights).shape;
  FilterSource filter;
  filter.count = count_of(shape);
  Dims strides = cpu::row_major(shape);
  if (!(filter.at.data = qir::constant_floats(l.graph(), weights))) {
    filter.view = l.any(weights);
    strides = filter.view.strides;
  }
  filter.at.oc_stride = strides[0], filter.at.ic_stride = strides[1];
  filter.at.kh_stride = shape.size() == 4 ? strides[2] : 0, filter.at.kw_stride = strides.back();
  return filter;
}

void choose_numbers(const Lowering &l, kernels::ConvF32 *p, const float *values, std::int64_t count) {
  p->weights = weight_type(l, values, count);
  // Auto is FMA: on the processor with AMX that was measured networks take 1.05 to 1.25 times as long by split numbers.
  const bool split = l.options().f32_gemm == F32Gemm::Split && kernels::split_possible(*p, l.isa());
  const auto holds = [&] { return kernels::split_holds(values, count) ? 1u : 0u; };
  if (split && (l.options().dry_run || l.weights_fact(" splits", bytes_of(values, count), holds)))
    p->algorithm = kernels::ConvAlgorithm::Split;
}

Status emit_gemm(Lowering &l, const kernels::ConvF32 &p, const View &x, const FilterSource &filter, const Bias &bias,
                 const View &y, const View *r) {
  const Images images[] = {{x, y, r}};
  return emit_packed(l, Kernel::ConvF32, p, images, filter, bias);
}

Status emit_conv(Lowering &l, kernels::ConvF32 p, const View &x, const FilterSource &filter, const Bias &bias,
                 const View &y, const View *r) {
  const float *const weights = filter.at.data;
  // Groups were quicker wherever they are possible, than Winograd's algorithm too. (To transform weights in each run
  // takes longer than it saves.)
  if (kernels::groups_possible(p, l.isa().f32_lanes)) p.algorithm = kernels::ConvAlgorithm::Groups;
  else if (l.options().winograd && filter.constant()) p.algorithm = kernels::winograd_choice(p, l.isa());
  // (A filter that is not finite would spoil all that its points are parts of.)
  const auto finite = [&] {
    return std::all_of(weights, weights + filter.count, [](float v) { return std::isfinite(v); }) ? 1u : 0u;
  };
  if (kernels::is_winograd(p.algorithm) && !l.options().dry_run &&
      !l.weights_fact(" finite", bytes_of(weights, filter.count), finite))
    p.algorithm = kernels::ConvAlgorithm::Direct;
  if (p.algorithm == kernels::ConvAlgorithm::Direct && filter.constant()) choose_numbers(l, &p, weights, filter.count);
  return emit_gemm(l, p, x, filter, bias, y, r);
}

Status emit_depthwise(Lowering &l, const kernels::DepthwiseF32 &p, const View &x, const FilterSource &filter,
                      const Bias &bias, const View &y, const View *r) {
  const Images images[] = {{x, y, r}};
  return emit_depthwise(l, p, images, filter, bias);
}
Status emit_depthwise(Lowering &l, const kernels::DepthwiseF32 &p, std::span<const Images> images,
                      const FilterSource &filter, const Bias &bias) {
  return emit_packed(l, Kernel::DepthwiseF32, p, images, filter, bias);
}

// A filter bank; or filters of one channel each, channels last.
Result<Lowered> lower_conv(Lowering &l, const Group &group) {
  ConvParts parts;
  QR_ASSIGN_OR_RETURN(const bool fits, conv_parts(l, group, &parts));
  if (!fits) return Lowered::NotMine;
  const std::int32_t xi = l.node(group).inputs[0];
  const std::int64_t times = parts.depthwise() ? parts.geometry.out_per_group : 1;
  kernels::ConvF32 p;
  p.ic = narrow(parts.geometry.in_channels), p.oc = narrow(parts.geometry.out_channels),
  p.groups = narrow(parts.geometry.group), p.window = parts.window;
  const bool row_major_x = !parts.depthwise() && kernels::reads_planes(p) && is_row_major(l.peek(xi)),
             few = p.oc <= narrow(l.isa().f32_lanes) && group.residual == qir::kAbsent,  // turns_planes()
      planes = row_major_x && (p.ic > 1 || few);
  if (row_major_x && stays_planar(l, xi, group.output)) {
    p.x_stride = p.y_stride = p.r_stride = kernels::kPlanes;
    if (const float *const weights = qir::constant_floats(l.graph(), parts.weights))
      choose_numbers(l, &p, weights, count_of(l.tensor(parts.weights).shape));
    if (kernels::writes_planes(p, l.isa().f32_lanes, l.isa().f32_panel)) {
      p.act = group.act, p.residual = group.residual_mode, p.has_bias = !parts.bias.empty();
      View r;
      if (group.residual != qir::kAbsent) r = l.row_major(group.residual);
      const View in = l.any(xi), out = l.new_row_major(l.tensor(group.output).shape, 4);
      l.define(group.output, out);
      return done(emit_conv(l, p, in, filter_of(l, parts.weights), parts.bias, out,
                            group.residual == qir::kAbsent ? nullptr : &r));
    }
    p.algorithm = kernels::ConvAlgorithm::Direct, p.weights = kernels::WeightType::F32;
  }
  const View x = times > 1 ? repeated_channels(l, xi, times) : planes ? l.any(xi) : l.channels_last(xi);
  View r;
  if (group.residual != qir::kAbsent) r = l.channels_last(group.residual);
  const View y = l.image_output(group.output);
  const auto fill = [&](auto &params) {
    params.window = parts.window;
    params.x_stride = planes ? kernels::kPlanes : narrow(pixel_of(x)), params.y_stride = narrow(pixel_of(y));
    if (group.residual != qir::kAbsent) params.r_stride = narrow(pixel_of(r)), params.residual = group.residual_mode;
    params.act = group.act;
    params.has_bias = !parts.bias.empty();
  };
  if (parts.depthwise()) {
    kernels::DepthwiseF32 d;
    d.c = narrow(parts.geometry.out_channels);
    fill(d);
    return done(emit_depthwise(l, d, x, filter_of(l, parts.weights), parts.bias, y,
                               group.residual == qir::kAbsent ? nullptr : &r));
  }
  fill(p);
  return done(
      emit_conv(l, p, x, filter_of(l, parts.weights), parts.bias, y, group.residual == qir::kAbsent ? nullptr : &r));
}

// Filters of one channel each, over planes that stay planes. Strides are quicker channels last, copies and all, but for
// 3x3 with steps of two on long vectors; and narrow filters where vectors are short (measured with 3, 5 and 7 columns).
Result<Lowered> lower_depthwise_planes(Lowering &l, const Group &group) {
  ConvParts parts;
  QR_ASSIGN_OR_RETURN(const bool fits, conv_parts(l, group, &parts));
  if (!fits || !parts.depthwise()) return Lowered::NotMine;
  constexpr std::int32_t kWide = 7;
  constexpr std::uint32_t kLongVector = 16;
  const kernels::Window &w = parts.window;
  const bool long_vector = l.isa().f32_lanes >= kLongVector,
             pairs = w.sw == 2 && w.sh == 2 && w.kw == 3 && w.kh == 3 && w.dw == 1 && w.dh == 1 && w.ow <= 256;
  if (w.sw == 1 ? w.kw < kWide && !long_vector : !pairs || !long_vector) return Lowered::NotMine;
  const std::int32_t xi = l.node(group).inputs[0];
  kernels::DepthwiseF32 p;
  p.window = parts.window, p.c = narrow(parts.geometry.in_channels);
  p.x_stride = p.y_stride = p.r_stride = kernels::kPlanes;
  p.act = group.act, p.residual = group.residual_mode, p.has_bias = !parts.bias.empty();
  if (parts.geometry.out_per_group != 1 || !kernels::depthwise_in_planes(p) || !stays_planar(l, xi, group.output))
    return Lowered::NotMine;
  View r;
  if (group.residual != qir::kAbsent) r = l.row_major(group.residual);
  const View x = l.row_major(xi), y = l.new_row_major(l.tensor(group.output).shape, 4);
  l.define(group.output, y);
  return done(emit_depthwise(l, p, x, filter_of(l, parts.weights), parts.bias, y,
                             group.residual == qir::kAbsent ? nullptr : &r));
}

Result<Lowered> lower_block(Lowering &l, const Group &group) {
  const Group &expand = l.group(group.expand), &depthwise = l.group(group.depthwise);
  ConvParts e, d, o;
  for (const auto &[of, parts] : {std::pair{&expand, &e}, std::pair{&depthwise, &d}, std::pair{&group, &o}}) {
    QR_ASSIGN_OR_RETURN(const bool fits, conv_parts(l, *of, parts));
    if (!fits || !qir::constant_floats(l.graph(), parts->weights)) return Lowered::NotMine;
  }
  if (!d.depthwise() || d.geometry.out_per_group != 1 || d.window.dh != 1) return Lowered::NotMine;
  const View x = l.channels_last(l.node(expand).inputs[0]);
  View r;
  if (group.residual != qir::kAbsent) r = l.channels_last(group.residual);
  const View y = l.image_output(group.output);
  kernels::BlockF32 p;
  const std::int32_t c = narrow(d.geometry.in_channels);
  p.expand.window = e.window, p.expand.ic = narrow(e.geometry.in_channels), p.expand.oc = c;
  const FilterSource filters[] = {filter_of(l, e.weights), filter_of(l, d.weights), filter_of(l, o.weights)};
  p.expand.weights = weight_type(l, filters[0].at.data, filters[0].count),
  p.project.weights = weight_type(l, filters[2].at.data, filters[2].count);
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
  View biases[3];
  QR_RETURN_IF_ERROR(add_packed(l, Kernel::ConvF32, p.expand, filters[0], e.bias, &args, &biases[0]));
  QR_RETURN_IF_ERROR(add_packed(l, Kernel::DepthwiseF32, p.depthwise, filters[1], d.bias, &args, &biases[1]));
  QR_RETURN_IF_ERROR(add_packed(l, Kernel::ConvF32, p.project, filters[2], o.bias, &args, &biases[2]));
  if (group.residual != qir::kAbsent) args.push_back(arg(r));
  args.push_back(arg(y));
  return l.finish(Kernel::BlockF32, &p, args);
}

}  // namespace quarry::cpu
