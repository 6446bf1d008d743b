// SPDX-License-Identifier: Apache-2.0
// Operators that slide a window: convolutions, pools and their inverses.
#include <algorithm>

#include "graph/infer/rules.h"

namespace quarry::qir {

using rules::is_known;

namespace {

enum class AutoPad { NotSet, SameUpper, SameLower, Valid };
AutoPad auto_pad_of(const Node &node) noexcept {
  const std::string_view text = node.get_string("auto_pad", "NOTSET");
  if (text == "SAME_UPPER") return AutoPad::SameUpper;
  if (text == "SAME_LOWER") return AutoPad::SameLower;
  return text == "VALID" ? AutoPad::Valid : AutoPad::NotSet;
}

// Copies a per-axis attribute; keeps what is there when the attribute is absent.
Status read_per_axis(const Node &node, const char *name, std::size_t count, std::int64_t least, std::int64_t *first,
                     std::int64_t *second = nullptr) {
  const Vector<std::int64_t> *list = node.get_ints(name);
  if (!list || list->empty()) return {};
  const std::size_t expected = second ? 2 * count : count;
  if (list->size() != expected)
    return node_error(node, ErrorId::qir_attribute, "attribute '%s' has %zu entries, expected %zu for %zu spatial axes",
                      name, list->size(), expected, count);
  for (std::size_t i = 0; i < list->size(); ++i) {
    if ((*list)[i] < least)
      return node_error(node, ErrorId::qir_attribute, "attribute '%s' is %s, expected %lld or more", name, text(*list),
                        ll(least));
    (i < count ? first[i] : second[i - count]) = (*list)[i];
  }
  return {};
}

// strides, dilations and explicit pads; the space of `x` behind batch and channels.
Status start_window(const Node &node, Dims x, Window *out) {
  QR_RETURN_IF_ERROR(rules::expect_rank_from(node, "X", x, 3));
  if (x.size() > kMaxRank)
    return node_error(node, ErrorId::qir_rank, "X has %zu dimensions, expected at most %zu", x.size(), kMaxRank);
  out->rank = static_cast<std::uint32_t>(x.size() - 2);
  std::copy(x.begin() + 2, x.end(), out->in);
  std::fill_n(out->stride, out->rank, 1);
  std::fill_n(out->dilation, out->rank, 1);
  QR_RETURN_IF_ERROR(read_per_axis(node, "strides", out->rank, 1, out->stride));
  QR_RETURN_IF_ERROR(read_per_axis(node, "dilations", out->rank, 1, out->dilation));
  if (auto_pad_of(node) == AutoPad::NotSet)
    QR_RETURN_IF_ERROR(read_per_axis(node, "pads", out->rank, 0, out->pad_begin, out->pad_end));
  return {};
}

// (kernel - 1) * dilation + 1
Status covered_extent(const Node &node, const Window &w, std::size_t i, std::int64_t *out) {
  if (!is_known(w.kernel[i])) return *out = kUnknownDim, Status();
  if (w.kernel[i] < 1)
    return node_error(node, ErrorId::qir_shape, "the kernel has size %lld along spatial axis %zu, expected 1 or more",
                      ll(w.kernel[i]), i);
  QR_RETURN_IF_ERROR(rules::multiply(node, w.kernel[i] - 1, w.dilation[i], out));
  return rules::add(node, *out, 1, out);
}

// Pads (from auto_pad) and the number of window positions. With `ceil` the last position may hang over the end, if it
// starts before it.
Status place_windows(const Node &node, bool ceil, Window *w) {
  const AutoPad mode = auto_pad_of(node);
  for (std::size_t i = 0; i < w->rank; ++i) {
    std::int64_t covered;
    QR_RETURN_IF_ERROR(covered_extent(node, *w, i, &covered));
    const std::int64_t in = w->in[i], stride = w->stride[i];
    w->out[i] = kUnknownDim;
    if (!is_known(in)) continue;
    if (mode == AutoPad::SameUpper || mode == AutoPad::SameLower) {
      w->out[i] = in / stride + (in % stride != 0);
      if (!is_known(covered) || in == 0) continue;
      std::int64_t reach;
      if (!checked_add((w->out[i] - 1) * stride, covered, &reach))
        return node_error(node, ErrorId::qir_shape, "the window reaches past 64 bits along spatial axis %zu", i);
      const std::int64_t total = std::max<std::int64_t>(reach - in, 0);
      w->pad_begin[i] = mode == AutoPad::SameUpper ? total / 2 : total - total / 2;
      w->pad_end[i] = total - w->pad_begin[i];
      continue;
    }
    if (!is_known(covered)) continue;
    std::int64_t padded;
    QR_RETURN_IF_ERROR(rules::add(node, in, w->pad_begin[i], &padded));
    QR_RETURN_IF_ERROR(rules::add(node, padded, w->pad_end[i], &padded));
    if (padded < covered)
      return node_error(node, ErrorId::qir_shape,
                        "the window covers %lld along spatial axis %zu (kernel %lld, dilation %lld), more than the "
                        "padded input's %lld",
                        ll(covered), i, ll(w->kernel[i]), ll(w->dilation[i]), ll(padded));
    const std::int64_t room = padded - covered;
    std::int64_t positions = room / stride + 1;
    if (ceil && room % stride != 0 && positions <= (in + w->pad_begin[i] - 1) / stride) ++positions;
    w->out[i] = positions;
  }
  return {};
}

// Channels and groups of a convolution; `transposed`: w is [C, M/group, ...] instead of [M, C/group, ...].
Status read_channels(const Node &node, Dims x, Dims w, bool transposed, ConvGeometry *out) {
  QR_RETURN_IF_ERROR(start_window(node, x, out));
  QR_RETURN_IF_ERROR(rules::expect_rank(node, "the weight", w, x.size()));
  std::copy(w.begin() + 2, w.end(), out->kernel);
  std::int64_t kernel[kMaxSpatial];
  std::copy_n(out->kernel, out->rank, kernel);
  QR_RETURN_IF_ERROR(read_per_axis(node, "kernel_shape", out->rank, 1, kernel));
  for (std::size_t i = 0; i < out->rank; ++i) {
    if (!rules::may_equal(out->kernel[i], kernel[i]))
      return node_error(node, ErrorId::qir_shape, "kernel_shape is %s, but the weight's kernel is %s",
                        text({kernel, out->rank}), text({out->kernel, out->rank}));
    out->kernel[i] = kernel[i];
  }
  out->group = node.get_int("group", 1);
  if (out->group < 1)
    return node_error(node, ErrorId::qir_attribute, "attribute 'group' is %lld, expected 1 or more", ll(out->group));
  const long long group = out->group;
  out->batch = x[0];
  out->in_channels = x[1];
  const auto divides = [&](std::int64_t channels, const char *what) -> Status {
    if (!is_known(channels) || channels % group == 0) return {};
    return node_error(node, ErrorId::qir_shape, "%lld %s channels do not divide into %lld groups", ll(channels), what,
                      group);
  };
  QR_RETURN_IF_ERROR(divides(x[1], "input"));
  const std::int64_t in_per_group = is_known(x[1]) ? x[1] / group : kUnknownDim;
  if (transposed) {
    if (!rules::may_equal(w[0], x[1]))
      return node_error(node, ErrorId::qir_shape, "the weight has %lld input channels, expected the input's %lld",
                        ll(w[0]), ll(x[1]));
    QR_RETURN_IF_ERROR(divides(w[0], "input"));
    out->in_channels = rules::known_of(x[1], w[0]);
    out->in_per_group = is_known(out->in_channels) ? out->in_channels / group : kUnknownDim;
    out->out_per_group = w[1];
    return rules::multiply(node, w[1], group, &out->out_channels);
  }
  if (!rules::may_equal(w[1], in_per_group))
    return node_error(node, ErrorId::qir_shape,
                      "the weight has %lld input channels, expected %lld (input channels %lld / group %lld)", ll(w[1]),
                      ll(in_per_group), ll(x[1]), group);
  QR_RETURN_IF_ERROR(divides(w[0], "output"));
  out->in_per_group = rules::known_of(w[1], in_per_group);
  QR_RETURN_IF_ERROR(rules::multiply(node, out->in_per_group, group, &out->in_channels));
  out->out_channels = w[0];
  out->out_per_group = is_known(w[0]) ? w[0] / group : kUnknownDim;
  return {};
}

rules::DimList conv_shape(const ConvGeometry &g) {
  rules::DimList shape;
  shape.push(g.batch);
  shape.push(g.out_channels);
  for (std::size_t i = 0; i < g.rank; ++i) shape.push(g.out[i]);
  return shape;
}

}  // namespace

Status resolve_conv(const Node &node, Dims x, Dims w, ConvGeometry *out) {
  *out = ConvGeometry();
  QR_RETURN_IF_ERROR(read_channels(node, x, w, false, out));
  return place_windows(node, false, out);
}

Status resolve_conv_transpose(const Node &node, Dims x, Dims w, ConvGeometry *out) {
  *out = ConvGeometry();
  QR_RETURN_IF_ERROR(read_channels(node, x, w, true, out));
  std::int64_t extra[kMaxSpatial] = {}, wanted[kMaxSpatial];
  std::fill_n(wanted, kMaxSpatial, kUnknownDim);
  QR_RETURN_IF_ERROR(read_per_axis(node, "output_padding", out->rank, 0, extra));
  QR_RETURN_IF_ERROR(read_per_axis(node, "output_shape", out->rank, 0, wanted));
  const AutoPad mode = auto_pad_of(node);
  const bool same = mode == AutoPad::SameUpper || mode == AutoPad::SameLower;
  for (std::size_t i = 0; i < out->rank; ++i) {
    std::int64_t covered, full;  // `full`: the dimension without pads
    QR_RETURN_IF_ERROR(covered_extent(node, *out, i, &covered));
    if (out->in[i] == 0) full = 0;
    else {
      QR_RETURN_IF_ERROR(
          rules::multiply(node, is_known(out->in[i]) ? out->in[i] - 1 : kUnknownDim, out->stride[i], &full));
      QR_RETURN_IF_ERROR(rules::add(node, full, covered, &full));
      QR_RETURN_IF_ERROR(rules::add(node, full, extra[i], &full));
    }
    if (same && !is_known(wanted[i])) QR_RETURN_IF_ERROR(rules::multiply(node, out->in[i], out->stride[i], &wanted[i]));
    if (is_known(wanted[i])) {
      out->out[i] = wanted[i];
      if (!is_known(full)) continue;
      // What is asked beyond `full` lies at the end and holds the bias alone.
      const std::int64_t total = std::max<std::int64_t>(full - wanted[i], 0);
      out->pad_begin[i] = mode == AutoPad::SameUpper ? total / 2 : total - total / 2;
      out->pad_end[i] = total - out->pad_begin[i];
      continue;
    }
    out->out[i] = kUnknownDim;
    if (!is_known(full)) continue;
    std::int64_t pads;
    QR_RETURN_IF_ERROR(rules::add(node, out->pad_begin[i], out->pad_end[i], &pads));
    if (pads > full)
      return node_error(node, ErrorId::qir_shape,
                        "pads of %lld take more than the %lld that there is along spatial axis %zu", ll(pads), ll(full),
                        i);
    out->out[i] = full - pads;
  }
  return {};
}

Status resolve_pool(const Node &node, Dims x, Window *out) {
  *out = Window();
  QR_RETURN_IF_ERROR(start_window(node, x, out));
  QR_RETURN_IF_ERROR(read_per_axis(node, "kernel_shape", out->rank, 1, out->kernel));
  return place_windows(node, node.get_int("ceil_mode", 0) != 0, out);
}

Status resolve_unpool(const Node &node, Dims x, Window *out) {
  *out = Window();
  QR_RETURN_IF_ERROR(start_window(node, x, out));
  QR_RETURN_IF_ERROR(read_per_axis(node, "kernel_shape", out->rank, 1, out->kernel));
  for (std::size_t i = 0; i < out->rank; ++i) {
    std::int64_t extent = out->in[i] == 0 ? 0 : is_known(out->in[i]) ? out->in[i] - 1 : kUnknownDim;
    QR_RETURN_IF_ERROR(rules::multiply(node, extent, out->stride[i], &extent));
    QR_RETURN_IF_ERROR(rules::add(node, extent, out->kernel[i], &extent));
    if (is_known(extent) && (extent < out->pad_begin[i] || extent - out->pad_begin[i] < out->pad_end[i]))
      return node_error(node, ErrorId::qir_shape,
                        "the pads take more than the %lld that there is along spatial axis %zu", ll(extent), i);
    out->out[i] = is_known(extent) ? extent - out->pad_begin[i] - out->pad_end[i] : kUnknownDim;
  }
  return {};
}

Status resolve_col2im(const Node &node, Dims x, Dims image, Dims block, Window *out) {
  *out = Window();
  QR_RETURN_IF_ERROR(rules::expect_rank(node, "the input", x, 3));
  if (image.empty() || image.size() != block.size() || image.size() > kMaxSpatial)
    return node_error(node, ErrorId::qir_shape,
                      "image_shape has %zu entries and block_shape %zu, expected the same number, 1 to %zu",
                      image.size(), block.size(), kMaxSpatial);
  rules::DimList like;
  like.push(x[0]);
  like.push(x[1]);
  for (const std::int64_t d : image) {
    if (d < kUnknownDim) return node_error(node, ErrorId::qir_shape, "image_shape has a negative entry, %lld", ll(d));
    like.push(d);
  }
  QR_RETURN_IF_ERROR(start_window(node, like, out));
  std::copy(block.begin(), block.end(), out->kernel);
  QR_RETURN_IF_ERROR(place_windows(node, false, out));
  std::int64_t positions, area;
  QR_RETURN_IF_ERROR(rules::product(node, {out->out, out->rank}, &positions));
  QR_RETURN_IF_ERROR(rules::product(node, block, &area));
  if (!rules::may_equal(positions, x[2]))
    return node_error(node, ErrorId::qir_shape,
                      "the input has %lld columns, expected %lld (the positions of the block in the image)", ll(x[2]),
                      ll(positions));
  if (is_known(area) && is_known(x[1]) && (area == 0 || x[1] % area != 0))
    return node_error(node, ErrorId::qir_shape,
                      "the input's axis 1 is %lld, expected a multiple of the block's %lld elements", ll(x[1]),
                      ll(area));
  return {};
}

namespace rules {

namespace {

Status real_conv(decltype(resolve_conv) resolve, const Node &node, Inputs inputs, Outputs outputs) {
  ConvGeometry g;
  QR_RETURN_IF_ERROR(resolve(node, dims_of(inputs[0]), dims_of(inputs[1]), &g));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "the bias", {&g.out_channels, 1}));
  set_output(outputs, 0, real_dtype(inputs[0]), conv_shape(g));
  return {};
}

}  // namespace

Status conv(const Node &node, Inputs inputs, Outputs outputs) { return real_conv(resolve_conv, node, inputs, outputs); }
Status conv_transpose(const Node &node, Inputs inputs, Outputs outputs) {
  return real_conv(resolve_conv_transpose, node, inputs, outputs);
}

Status conv_integer(const Node &node, Inputs inputs, Outputs outputs) {
  ConvGeometry g;
  QR_RETURN_IF_ERROR(resolve_conv(node, dims_of(inputs[0]), dims_of(inputs[1]), &g));
  if (has_input(inputs, 2)) QR_RETURN_IF_ERROR(expect_one_element(node, "x_zero_point", inputs[2]));
  if (has_input(inputs, 3) && !inputs[3].shape.empty() && inputs[3].shape != Shape{1})
    QR_RETURN_IF_ERROR(expect_shape(node, "w_zero_point", dims_of(inputs[3]), {&g.out_channels, 1}));
  set_output(outputs, 0, DType::I32, conv_shape(g));
  return {};
}

Status qlinear_conv(const Node &node, Inputs inputs, Outputs outputs) {
  ConvGeometry g;
  QR_RETURN_IF_ERROR(resolve_conv(node, dims_of(inputs[0]), dims_of(inputs[3]), &g));
  static constexpr const char *kNames[] = {"x_scale", "x_zero_point", "", "w_scale", "w_zero_point",
                                           "y_scale", "y_zero_point"};
  for (const std::size_t i : {1u, 2u, 6u, 7u}) QR_RETURN_IF_ERROR(expect_one_element(node, kNames[i - 1], inputs[i]));
  for (const std::size_t i : {4u, 5u})
    QR_RETURN_IF_ERROR(expect_one_or(node, inputs, i, kNames[i - 1], g.out_channels));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 8, "the bias", {&g.out_channels, 1}));
  set_output(outputs, 0, inputs[7].dtype, conv_shape(g));
  return {};
}

Status deform_conv(const Node &node, Inputs inputs, Outputs outputs) {
  ConvGeometry g;
  QR_RETURN_IF_ERROR(resolve_conv(node, dims_of(inputs[0]), dims_of(inputs[1]), &g));
  const std::int64_t offset_group = node.get_int("offset_group", 1);
  if (offset_group < 1 || (is_known(g.in_channels) && g.in_channels % offset_group != 0))
    return node_error(node, ErrorId::qir_attribute,
                      "attribute 'offset_group' is %lld, expected a divisor of the %lld input channels",
                      ll(offset_group), ll(g.in_channels));
  DimList taps = DimList(conv_shape(g));  // of the mask; the offsets have `rank` numbers per tap
  QR_RETURN_IF_ERROR(product(node, {g.kernel, g.rank}, &taps.values[1]));
  QR_RETURN_IF_ERROR(multiply(node, taps.values[1], offset_group, &taps.values[1]));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 4, "the mask", taps));
  QR_RETURN_IF_ERROR(multiply(node, taps.values[1], g.rank, &taps.values[1]));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 2, "the offset", taps));
  QR_RETURN_IF_ERROR(expect_input_shape(node, inputs, 3, "the bias", {&g.out_channels, 1}));
  set_output(outputs, 0, real_dtype(inputs[0]), conv_shape(g));
  return {};
}

namespace {
// The p of LpPool and GlobalLpPool, whose root is taken.
Status check_norm(const Node &node) {
  const std::int64_t p = node.get_int("p", 2);
  if (p >= 1) return {};
  return node_error(node, ErrorId::qir_attribute, "attribute 'p' is %lld, expected 1 or more", ll(p));
}
}  // namespace

Status pool(const Node &node, Inputs inputs, Outputs outputs) {
  Window w;
  QR_RETURN_IF_ERROR(resolve_pool(node, dims_of(inputs[0]), &w));
  QR_RETURN_IF_ERROR(check_norm(node));
  DimList shape(dims_of(inputs[0]).first(2));
  for (std::size_t i = 0; i < w.rank; ++i) shape.push(w.out[i]);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  set_output(outputs, 1, DType::I64, shape);
  return {};
}

Status global_pool(const Node &node, Inputs inputs, Outputs outputs) {
  QR_RETURN_IF_ERROR(expect_rank_from(node, "X", dims_of(inputs[0]), 2));
  QR_RETURN_IF_ERROR(check_norm(node));
  DimList shape(dims_of(inputs[0]));
  std::fill(shape.values + 2, shape.values + shape.size, 1);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status max_unpool(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  Window w;
  QR_RETURN_IF_ERROR(resolve_unpool(node, x, &w));
  QR_RETURN_IF_ERROR(expect_shape(node, "I", dims_of(inputs[1]), x));
  DimList shape(x.first(2));
  for (std::size_t i = 0; i < w.rank; ++i) shape.push(w.out[i]);
  if (has_input(inputs, 2)) {
    std::fill(shape.values + 2, shape.values + shape.size, kUnknownDim);
    if (inputs[2].value.data) {
      IntList wanted;
      QR_RETURN_IF_ERROR(read_ints(node, 2, inputs[2], &wanted));
      if (wanted.size != x.size() ||
          std::any_of(wanted.values, wanted.values + wanted.size, [](std::int64_t d) { return d < 0; }))
        return node_error(node, ErrorId::qir_shape, "output_shape is %s, expected %zu sizes", text(wanted), x.size());
      static_cast<IntList &>(shape) = wanted;
    }
  }
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

Status col2im(const Node &node, Inputs inputs, Outputs outputs) {
  const Dims x = dims_of(inputs[0]);
  QR_RETURN_IF_ERROR(expect_rank(node, "image_shape", dims_of(inputs[1]), 1));
  QR_RETURN_IF_ERROR(expect_rank(node, "block_shape", dims_of(inputs[2]), 1));
  const auto list_of = [&](std::size_t i, IntList *out) -> Status {
    if (inputs[i].value.data) return read_ints(node, i, inputs[i], out);
    const std::int64_t count = known_of(inputs[1].shape[0], inputs[2].shape[0]);
    if (count < 1 || count > static_cast<std::int64_t>(kMaxSpatial))
      return node_error(node, ErrorId::qir_shape, "image_shape has %lld entries, expected 1 to %zu", ll(count),
                        kMaxSpatial);
    out->size = static_cast<std::uint32_t>(count);
    std::fill_n(out->values, out->size, kUnknownDim);
    return {};
  };
  IntList image, block;
  QR_RETURN_IF_ERROR(list_of(1, &image));
  QR_RETURN_IF_ERROR(list_of(2, &block));
  Window w;
  QR_RETURN_IF_ERROR(resolve_col2im(node, x, image, block, &w));
  std::int64_t area;
  QR_RETURN_IF_ERROR(product(node, block, &area));
  DimList shape;
  shape.push(x[0]);
  shape.push(is_known(area) && is_known(x[1]) ? x[1] / area : kUnknownDim);
  for (const std::int64_t d : Dims(image)) shape.push(d);
  set_output(outputs, 0, real_dtype(inputs[0]), shape);
  return {};
}

}  // namespace rules
}  // namespace quarry::qir
