// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix multiplications of integers with constant weights: of quantised tensors, and those whose sums
// stay integers, which dynamically quantised models are made of.
#include <algorithm>
#include <array>
#include <bit>

#include "backends/cpu/lower/convolution.h"
#include "backends/cpu/lower/quantized_nodes.h"
#include "backends/cpu/lower/rules.h"
#include "graph/ops/quantization.h"

namespace quarry::cpu {

using kernels::ElementOp;
using kernels::Kernel;
using qir::Op;

namespace {

bool is_byte(DType dtype) { return dtype == DType::U8 || dtype == DType::I8; }
constexpr std::uint32_t kI32 = static_cast<std::uint32_t>(DType::I32);

// The weights as they are stored.
struct Filter {
  kernels::FilterView<std::int32_t> strides{};
  std::int64_t taps = 1;  // one after the other, for each pair of channels
};

// Shapes of a convolution.
Result<bool> match_conv(const Lowering &l, const qir::Node &node, kernels::ConvInt *p, Filter *filter,
                        qir::ConvGeometry *g) {
  const qir::Shape &w = l.tensor(node.inputs[1]).shape;
  QR_RETURN_IF_ERROR(qir::resolve_conv(node, l.tensor(node.inputs[0]).shape, w, g));
  if (!conv_window(*g, &p->window)) return false;
  p->ic = narrow(g->in_channels), p->oc = narrow(g->out_channels), p->groups = narrow(g->group);
  const Dims strides = cpu::row_major(w);
  filter->strides = {nullptr, strides[0], strides[1], strides.size() == 4 ? strides[2] : 0, strides.back()};
  filter->taps = count_of(w) / (w[0] * w[1]);
  return true;
}

// Of a matrix multiplication with a matrix on the right.
bool match_matmul(const Lowering &l, const qir::Node &node, kernels::ConvInt *p, Filter *filter) {
  const bool transposed_b = node.op == Op::Gemm && node.get_int("transB", 0) != 0;
  const qir::Shape &w = l.tensor(node.inputs[1]).shape;
  const std::int64_t k = w[transposed_b ? 1 : 0], n = w[transposed_b ? 0 : 1],
                     m = count_of(l.tensor(node.inputs[0]).shape) / k;
  if (m > 1 << 24 || k > 1 << 20 || n > 1 << 20) return false;
  p->window.iw = p->window.ow = narrow(m);
  p->ic = p->x_stride = narrow(k), p->oc = p->y_stride = narrow(n);
  filter->strides = {nullptr, transposed_b ? k : 1, transposed_b ? 1 : n, 0, 0};
  return true;
}

// Takes zero points off the weights: `zero(c)` of the output channel c, `sum(c, value)` gets what is left.
template <class Zero, class Sum>
Vector<std::int32_t> centred_weights(const qir::Tensor &w, const kernels::ConvInt &p, const Filter &filter, Zero &&zero,
                                     Sum &&sum) {
  Vector<std::int32_t> weights = qir::stored_integers(w, static_cast<std::uint64_t>(count_of(w.shape)));
  const std::int64_t per_group = p.ic / p.groups;
  for (std::int64_t c = 0; c < p.oc; ++c) {
    const std::int32_t off = zero(index_of(c));
    for (std::int64_t i = 0; i < per_group; ++i)
      for (std::int64_t t = 0; t < filter.taps; ++t) {
        const std::int64_t at = c * filter.strides.oc_stride + i * filter.strides.ic_stride + t;
        sum(index_of(c), weights[index_of(at)] -= off);
      }
  }
  return weights;
}

std::int32_t pixel_of(const View &view) {
  std::int64_t pixel = 0;
  is_channels_last(view, &pixel);
  return narrow(pixel);
}

// Weights as ConvInt reads them, in one constant: the quickest form that holds them, which packing finds out, then
// weights, bias, factors, and the sums of each channel's weights.
struct PackedHead {
  kernels::IntForm form;
  std::uint32_t w_bits;
  std::uint8_t reserved[56];
};
static_assert(sizeof(PackedHead) == kAlign);
struct PackedParts {
  std::uint64_t begins[4], end;
  explicit PackedParts(const kernels::Needs &needs, std::int64_t channels) {
    end = sizeof(PackedHead);
    const std::uint64_t sizes[] = {needs.operand_bytes[1], needs.operand_bytes[2], needs.operand_bytes[3],
                                   static_cast<std::uint64_t>(channels) * sizeof(std::int32_t)};
    for (std::size_t i = 0; i < 4; ++i) begins[i] = end, end += (sizes[i] + kAlign - 1) / kAlign * kAlign;
  }
};

// What they are packed from: zero points are off.
struct IntWeights {
  Vector<std::int32_t> weights, bias, sums;  // bias: none
  Vector<float> multiplier;                  // none: ones
  std::uint32_t w_bits = 8;
};

Result<Vector<std::uint8_t>> pack(Lowering &l, const qir::Node &node, kernels::ConvInt p, Filter filter,
                                  const IntWeights &from) {
  p.w_bits = from.w_bits;
  filter.strides.data = from.weights.data();
  const auto channels = static_cast<std::size_t>(p.oc);
  const Vector<std::int32_t> none(from.bias.empty() ? channels : 0, 0);
  const Vector<float> ones(from.multiplier.empty() ? channels : 0, 1.0f);
  if (kernels::may_pair_bytes(p, l.isa())) p.form = kernels::IntForm::BytePairs2;
  for (;;) {
    kernels::Needs needs;
    QR_RETURN_IF_ERROR(l.check(Kernel::ConvInt, &p, &needs));
    const PackedParts parts(needs, p.oc);
    Vector<std::uint8_t> packed(parts.end);
    if (kernels::pack_conv_int(p, l.isa(), filter.strides, (from.bias.empty() ? none : from.bias).data(),
                               packed.data() + parts.begins[0], packed.data() + parts.begins[1])) {
      const PackedHead head{p.form, p.w_bits, {}};
      std::memcpy(packed.data(), &head, sizeof head);
      kernels::pack_channels((from.multiplier.empty() ? ones : from.multiplier).data(), p.oc,
                             packed.data() + parts.begins[2], needs.operand_bytes[3]);
      if (!from.sums.empty())
        std::memcpy(packed.data() + parts.begins[3], from.sums.data(), channels * sizeof(std::int32_t));
      return packed;
    }
    if (p.form != kernels::IntForm::Plain) {
      p.form = p.form == kernels::IntForm::BytePairs2 ? kernels::IntForm::BytePairs1 : kernels::IntForm::Plain;
    } else if (p.w_bits < 16) {
      p.w_bits = 16;
    } else {
      return Status::error(ErrorId::internal,
                           format("plan: the weights of node '%s' do not fit 16 bits", printable(node.name)));
    }
  }
}

// What weights of integers are packed from and by: all that `pack` reads but how many pixels there are.
String int_key(const Lowering &l, const kernels::ConvInt &p, const Filter &filter, const qir::Tensor &weights) {
  Vector<std::int64_t> form = kernels::pack_form(p, l.isa());
  form.insert(form.end(), {filter.strides.oc_stride, filter.strides.ic_stride, filter.strides.kh_stride,
                           filter.strides.kw_stride, static_cast<std::int64_t>(weights.dtype)});
  return l.weights_key(" integers", weights.data, form);
}

// The operands of a step that are packed weights; `source()` gives what they are packed from, where nobody has packed
// them.
struct IntOperands {
  View weights, bias, factors, sums;
  void append(Vector<Arg> *args) const {
    for (const View *view : {&weights, &bias, &factors}) args->push_back(arg(*view, 1));
  }
};
template <class Source>
Status add_packed(Lowering &l, const qir::Node &node, kernels::ConvInt &p, const Filter &filter, const String &key,
                  Source &&source, IntOperands *out) {
  PackedHead head{kernels::IntForm::Plain, p.w_bits, {}};
  std::uint32_t value = 0;
  qir::Bytes packed;
  if (!l.options().dry_run) {
    const auto made = [&] { return pack(l, node, p, filter, source()); };
    if (key.empty()) {
      QR_ASSIGN_OR_RETURN(Vector<std::uint8_t> bytes, made());
      value = l.own_constant(std::move(bytes), &packed);
    } else {
      QR_ASSIGN_OR_RETURN(SharedBytes block, l.options().shared->get(key, made));
      packed = block->bytes();
      value = l.shared_constant(std::move(block));
    }
    if (packed.size >= sizeof head) std::memcpy(&head, packed.data, sizeof head);
  }
  p.form = head.form, p.w_bits = head.w_bits;
  kernels::Needs needs;
  QR_RETURN_IF_ERROR(l.check(Kernel::ConvInt, &p, &needs));
  const PackedParts parts(needs, p.oc);
  if (l.options().dry_run) value = l.packed_constant(parts.end, [](auto &) {});
  else if (packed.size < parts.end)  // of a container
    return Status::error(ErrorId::backend_bad_blob,
                         format("cpu blob: packed integers: found %llu bytes, expected %llu", packed.size, parts.end));
  View *const views[] = {&out->weights, &out->bias, &out->factors, &out->sums};
  for (std::size_t i = 0; i < 4; ++i)
    *views[i] = View{static_cast<std::int32_t>(value), static_cast<std::int64_t>(parts.begins[i]), {}, {}};
  return {};
}

// Weights and bias of quantised tensors: factors bring the sums to what is stored first.
Status add_quantized(Lowering &l, const qir::Node &node, kernels::ConvInt &p, const Filter &filter, IntOperands *out) {
  const qir::Tensor &w = l.tensor(node.inputs[1]);
  const qir::Quantization &wq = *w.quant;
  if (l.options().dry_run) p.w_bits = dtype_bits(w.dtype);
  const auto of = [&](std::size_t c) { return wq.per_tensor() ? 0 : c; };
  const std::int32_t bi = l.input(node, 2);
  const auto source = [&] {
    IntWeights from;
    std::int32_t low = 0, high = 0;
    from.weights = centred_weights(
        w, p, filter, [&](std::size_t c) { return wq.zero_points[of(c)]; },
        [&](std::size_t, std::int32_t value) { low = std::min(low, value), high = std::max(high, value); });
    from.w_bits = low >= -128 && high <= 127       ? 8
                  : low >= -256 && high <= 255     ? 9
                  : low >= -32767 && high <= 32767 ? 16
                                                   : 17;
    const auto channels = static_cast<std::size_t>(p.oc);
    from.multiplier.resize(channels);
    for (std::size_t c = 0; c < channels; ++c)
      from.multiplier[c] = static_cast<float>(static_cast<double>(p.x.scale) * static_cast<double>(wq.scales[of(c)]) /
                                              static_cast<double>(p.mid.scale));
    if (bi == qir::kAbsent) return from;
    const bool one = count_of(l.tensor(bi).shape) == 1;
    const auto *const values = static_cast<const std::int32_t *>(l.tensor(bi).data.data);
    from.bias.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) from.bias[c] = values[one ? 0 : c];
    return from;
  };
  String key = int_key(l, p, filter, w);
  if (!key.empty()) {
    const auto bits = [](float value) { return std::int64_t{std::bit_cast<std::int32_t>(value)}; };
    key += l.weights_key(" scales", {wq.scales.data(), wq.scales.size() * sizeof(float)},
                         {bits(p.x.scale), bits(p.mid.scale)});
    key += l.weights_key(" zeros", {wq.zero_points.data(), wq.zero_points.size() * sizeof(std::int32_t)}, {});
    if (bi != qir::kAbsent) key += l.weights_key(" bias", l.tensor(bi).data, {});
  }
  return add_packed(l, node, p, filter, key, source, out);
}

}  // namespace

Result<Lowered> lower_conv_int(Lowering &l, const Group &group) {
  const qir::Node &node = l.node(group);
  if (!runs_in_integers(l.graph(), node)) return Lowered::NotMine;
  const std::int32_t xi = node.inputs[0], yi = group.output, ri = group.residual;
  const bool residual = ri != qir::kAbsent;
  if (residual && !quantized_activation(l.tensor(ri))) return Lowered::NotMine;
  kernels::ConvInt p;
  Filter filter;
  const bool conv = node.op == Op::Conv;
  bool fits = false;
  if (conv) {
    qir::ConvGeometry geometry;
    QR_ASSIGN_OR_RETURN(fits, match_conv(l, node, &p, &filter, &geometry));
  } else {
    fits = match_matmul(l, node, &p, &filter);
  }
  if (!fits) return Lowered::NotMine;

  const View x = conv ? l.channels_last(xi) : l.row_major(xi);
  View r;
  if (residual) r = conv ? l.channels_last(ri) : l.row_major(ri);
  View y;
  if (conv) {
    y = l.image_output(yi);
    p.x_stride = pixel_of(x), p.y_stride = pixel_of(y);
  } else {
    l.define(yi, y = l.new_row_major(l.tensor(yi).shape, l.width(yi)));
  }
  if (residual) p.r_stride = conv ? pixel_of(r) : p.oc, p.r = quant_of(l.tensor(ri));
  const qir::Tensor &first = l.tensor(residual ? group.mid : yi);  // what the sums are rounded to
  p.x = quant_of(l.tensor(xi)), p.y = quant_of(l.tensor(yi)), p.mid = quant_of(first);
  p.has_residual = residual;
  const Limits of_y = limits_of(l.tensor(yi).dtype), of_mid = limits_of(first.dtype);
  p.lo = of_y.low, p.hi = of_y.high, p.mid_lo = of_mid.low, p.mid_hi = of_mid.high;
  Vector<Arg> args{arg(x, l.width(xi))};
  IntOperands packed;
  QR_RETURN_IF_ERROR(add_quantized(l, node, p, filter, &packed));
  packed.append(&args);
  if (residual) args.push_back(arg(r, l.width(ri)));
  args.push_back(arg(y, l.width(yi)));
  return l.finish(Kernel::ConvInt, &p, args);
}

namespace {

// y = (x - zero_x) * (w - zero_w). zero_x may be known at run time only: where nothing is padded it comes in behind the
// sums, times the sums of the weights; else it is taken off x before.
struct IntegerSums {
  Lowering &l;
  const qir::Node &node;
  kernels::ConvInt p;
  Filter filter;
  bool padded = false;
  DType x_type = DType::Unknown;
  View zero;  // of x, as i32 or i16, where it is known at run time only

  bool conv() const { return node.op == Op::ConvInteger; }
  std::int32_t x_zero() const { return l.input(node, 2); }
  std::int32_t w_zero() const { return l.input(node, 3); }
  bool zero_of_run() const { return x_zero() != qir::kAbsent && !l.constant(x_zero()); }
  bool corrects() const { return zero_of_run() && !padded; }
  Result<bool> match();
  Status emit();

 private:
  bool match_types() const;
  Result<View> widened(const View &from, DType dtype, DType to);
  Result<View> input();
  Status subtract_zero(const View &y, View of_weights);
  IntWeights weights() const;
};

bool IntegerSums::match_types() const {
  const qir::Tensor &x = l.tensor(node.inputs[0]), &w = l.tensor(node.inputs[1]), &y = l.tensor(node.outputs[0]);
  if (!is_byte(x.dtype) || !w.is_constant || !is_byte(w.dtype) || y.dtype != DType::I32 || x.quant || w.quant ||
      y.quant || (w_zero() != qir::kAbsent && !l.constant(w_zero())))
    return false;
  if (x_zero() == qir::kAbsent) return true;
  const qir::Tensor &zeros = l.tensor(x_zero());
  return count_of(zeros.shape) == 1 && is_byte(zeros.dtype) && (!zeros.is_constant || zeros.dtype == x.dtype);
}

Result<bool> IntegerSums::match() {
  if (!match_types()) return false;
  x_type = l.tensor(node.inputs[0]).dtype;
  if (conv()) {
    qir::ConvGeometry g;
    QR_ASSIGN_OR_RETURN(const bool fits, match_conv(l, node, &p, &filter, &g));
    if (!fits || g.in_channels > 1 << 20 || g.out_channels > 1 << 20) return false;
    for (std::size_t i = 0; i < g.rank; ++i)
      padded |= g.pad_begin[i] != 0 ||
                (g.out[i] - 1) * g.stride[i] + (g.kernel[i] - 1) * g.dilation[i] - g.pad_begin[i] >= g.in[i];
  } else if (l.tensor(node.inputs[1]).shape.size() != 2 || l.tensor(node.inputs[0]).shape.size() < 2 ||
             !match_matmul(l, node, &p, &filter)) {
    return false;
  }
  if (w_zero() == qir::kAbsent) return true;
  const qir::Shape &zeros = l.tensor(w_zero()).shape;
  return count_of(zeros) == 1 || (count_of(zeros) == p.oc && zeros.size() == 1);
}

Result<View> IntegerSums::widened(const View &from, DType dtype, DType to) {
  const View made = l.new_like(from, dtype_bits(to) / 8);
  const kernels::Cast cast{static_cast<std::uint32_t>(dtype), static_cast<std::uint32_t>(to), count_of(from.dims)};
  QR_RETURN_IF_ERROR(l.emit_step(Kernel::Cast, cast, {arg(from, 1), arg(made, dtype_bits(to) / 8)}));
  return made;
}

// x, without its zero point where that has to go before.
Result<View> IntegerSums::input() {
  const std::int32_t xi = node.inputs[0];
  View x = conv() ? l.channels_last(xi) : l.row_major(xi);
  if (x_zero() == qir::kAbsent) return x;
  const DType zero_type = l.tensor(x_zero()).dtype;
  if (!zero_of_run()) {
    p.x.zero = narrow(qir::stored_integer(zero_type, l.tensor(x_zero()).data.data, 0));
    return x;
  }
  QR_ASSIGN_OR_RETURN(zero, widened(l.dense(x_zero()), zero_type, padded ? DType::I16 : DType::I32));
  if (!padded) return x;
  QR_ASSIGN_OR_RETURN(x, widened(conv() ? l.channels_last(xi, true) : x, x_type, DType::I16));
  zero.dims = x.dims, zero.strides.assign(x.rank(), 0);
  kernels::Elements sub;
  sub.op = ElementOp::Sub, sub.dtype = static_cast<std::uint32_t>(DType::I16);
  const View y = l.new_like(x, 2);
  const View *const operands[] = {&x, &zero};
  QR_RETURN_IF_ERROR(emit_elements(l, sub, operands, y));
  x_type = DType::I16;
  return y;
}

Status IntegerSums::emit() {
  const std::int32_t yi = node.outputs[0];
  QR_ASSIGN_OR_RETURN(const View x, input());
  p.x.dtype = static_cast<std::uint32_t>(x_type);
  p.y.dtype = kI32, p.mid.dtype = kI32;
  View y;
  if (conv()) {
    y = l.image_output(yi);
    p.x_stride = pixel_of(x), p.y_stride = pixel_of(y);
  } else {
    l.define(yi, y = l.new_row_major(l.tensor(yi).shape, 4));
  }
  Vector<Arg> args{arg(x, dtype_bits(x_type) / 8)};
  String key = int_key(l, p, filter, l.tensor(node.inputs[1]));
  if (!key.empty() && w_zero() != qir::kAbsent) key += l.weights_key(" zeros", l.tensor(w_zero()).data, {});
  IntOperands packed;
  QR_RETURN_IF_ERROR(add_packed(
      l, node, p, filter, key, [&] { return weights(); }, &packed));
  packed.append(&args);
  args.push_back(arg(y));
  QR_RETURN_IF_ERROR(l.emit(Kernel::ConvInt, &p, args));
  return corrects() ? subtract_zero(y, packed.sums) : Status();
}

IntWeights IntegerSums::weights() const {
  const auto zero_of = [&](std::size_t c) {
    if (w_zero() == qir::kAbsent) return 0;
    const qir::Tensor &zeros = l.tensor(w_zero());
    return narrow(qir::stored_integer(zeros.dtype, zeros.data.data, count_of(zeros.shape) == 1 ? 0 : c));
  };
  IntWeights from;
  from.sums.resize(static_cast<std::size_t>(p.oc));
  std::int32_t low = 0, high = 0;
  from.weights = centred_weights(l.tensor(node.inputs[1]), p, filter, zero_of, [&](std::size_t c, std::int32_t value) {
    from.sums[c] += value;
    low = std::min(low, value), high = std::max(high, value);
  });
  from.w_bits = low >= -128 && high <= 127 ? 8 : 9;
  return from;
}

// zero * sums of the channels, off every pixel.
Status IntegerSums::subtract_zero(const View &y, View of_weights) {
  of_weights.offset /= 4, of_weights.dims = {p.oc}, of_weights.strides = {1};  // in elements
  View product = l.new_row_major({p.oc}, 4);
  zero.dims = {p.oc}, zero.strides = {0};
  kernels::Elements element;
  element.op = ElementOp::Mul, element.dtype = kI32;
  const View *const factors[] = {&of_weights, &zero};
  QR_RETURN_IF_ERROR(emit_elements(l, element, factors, product));
  product.dims = y.dims, product.strides.assign(y.rank(), 0);
  product.strides[conv() ? 1 : y.rank() - 1] = 1;
  element.op = ElementOp::Sub;
  const View *const difference[] = {&y, &product};
  return emit_elements(l, element, difference, y);
}

}  // namespace

Result<Lowered> lower_integer_sums(Lowering &l, const qir::Node &node) {
  IntegerSums sums{.l = l, .node = node};
  QR_ASSIGN_OR_RETURN(const bool fits, sums.match());
  if (!fits) return Lowered::NotMine;
  return done(sums.emit());
}

}  // namespace quarry::cpu
