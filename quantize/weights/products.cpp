// SPDX-License-Identifier: Apache-2.0
#include "quantize/weights/products.h"

#include <algorithm>

#include "graph/infer/infer.h"

namespace quarry::quantize {
namespace {

using qir::at;
using qir::Op;

std::size_t extent(const qir::Tensor &tensor, std::size_t axis) { return static_cast<std::size_t>(tensor.shape[axis]); }

bool is_known(const qir::Tensor &tensor) {
  return std::ranges::all_of(tensor.shape, [](std::int64_t e) { return e > 0; });
}

// The inputs of one sum after the other: where each tap of the window lies depends on the position alone, not on the
// channel.
class ConvRows {
 public:
  explicit ConvRows(const qir::ConvGeometry &conv) : conv_(conv) {
    std::int64_t taps = 1;
    for (std::uint32_t d = 0; d < conv.rank; ++d) plane_ *= conv.in[d], places_ *= conv.out[d], taps *= conv.kernel[d];
    taps_.resize(static_cast<std::size_t>(taps));
  }
  std::size_t places() const { return static_cast<std::size_t>(conv_.batch * places_); }

  void go_to(std::size_t place) {
    batch_ = static_cast<std::int64_t>(place) / places_;
    std::int64_t rest = static_cast<std::int64_t>(place) % places_, begin[qir::kMaxSpatial];
    for (std::uint32_t d = conv_.rank; d-- > 0; rest /= conv_.out[d])
      begin[d] = rest % conv_.out[d] * conv_.stride[d] - conv_.pad_begin[d];
    for (std::size_t tap = 0; tap < taps_.size(); ++tap) {
      auto left = static_cast<std::int64_t>(tap);
      std::int64_t offset = 0, step = 1;
      bool inside = true;
      for (std::uint32_t d = conv_.rank; d-- > 0; left /= conv_.kernel[d]) {
        const std::int64_t at = begin[d] + left % conv_.kernel[d] * conv_.dilation[d];
        inside = inside && at >= 0 && at < conv_.in[d];
        offset += at * step, step *= conv_.in[d];
      }
      taps_[tap] = inside ? offset : kOutside;
    }
  }

  void row(const float *values, std::size_t group, float *out) const {
    const std::int64_t first = batch_ * conv_.in_channels + static_cast<std::int64_t>(group) * conv_.in_per_group;
    const float *channel = values + first * plane_;
    for (std::int64_t c = 0; c < conv_.in_per_group; ++c, channel += plane_)
      for (const std::int64_t tap : taps_) *out++ = tap == kOutside ? 0.0f : channel[tap];
  }

 private:
  static constexpr std::int64_t kOutside = -1;
  const qir::ConvGeometry &conv_;
  std::int64_t plane_ = 1, places_ = 1, batch_ = 0;
  Vector<std::int64_t> taps_;  // offsets in a plane
};

std::optional<qir::ConvGeometry> geometry(const qir::Graph &graph, const qir::Node &node) {
  qir::ConvGeometry conv;
  const Status status =
      qir::resolve_conv(node, at(graph, node.inputs[0]).shape, at(graph, node.inputs[1]).shape, &conv);
  if (!status.ok()) return std::nullopt;
  return conv;
}

}  // namespace

std::optional<Product> product_of(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::Conv && node.op != Op::Gemm && node.op != Op::MatMul) return std::nullopt;
  const std::int32_t x = node.inputs[0], w = node.inputs[1];
  if (x == qir::kAbsent || w == qir::kAbsent || !qir::constant_floats(graph, w)) return std::nullopt;
  const qir::Tensor &input = at(graph, x), &weights = at(graph, w);
  if (input.dtype != DType::F32 || input.is_constant || !is_known(input) || !is_known(weights)) return std::nullopt;
  Product product;
  if (node.op == Op::Conv) {
    const auto conv = geometry(graph, node);
    if (!conv) return std::nullopt;
    product.groups = static_cast<std::size_t>(conv->group);
    product.outputs = static_cast<std::size_t>(conv->out_per_group);
    product.terms = 1;
    for (std::size_t d = 1; d < weights.shape.size(); ++d) product.terms *= extent(weights, d);
    product.output_stride = product.terms;
    product.group_stride = product.outputs * product.terms;
    return product;
  }
  if (weights.shape.size() != 2 || input.shape.empty()) return std::nullopt;
  const bool is_gemm = node.op == Op::Gemm, turned = is_gemm && node.get_int("transB", 0) != 0;
  if (is_gemm && node.get_int("transA", 0) != 0) return std::nullopt;
  product.terms = extent(weights, turned ? 1 : 0);
  product.outputs = extent(weights, turned ? 0 : 1);
  product.output_stride = turned ? product.terms : 1;
  product.term_stride = turned ? 1 : product.outputs;
  if (extent(input, input.shape.size() - 1) != product.terms) return std::nullopt;
  return product;
}

void gather_rows(const qir::Graph &graph, const qir::Node &node, const Product &product, std::span<const float> values,
                 std::size_t most, const std::function<void(std::size_t group, std::span<const float> row)> &give) {
  const std::optional<qir::ConvGeometry> conv = node.op == Op::Conv ? geometry(graph, node) : std::nullopt;
  std::optional<ConvRows> windows;
  if (conv) windows.emplace(*conv);
  const std::size_t places = windows ? windows->places() : values.size() / product.terms;
  const std::size_t count = std::min(places, most);
  Vector<float> row(product.terms);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = i * places / count;
    if (!windows) {
      give(0, values.subspan(place * product.terms, product.terms));
      continue;
    }
    windows->go_to(place);
    for (std::size_t group = 0; group < product.groups; ++group) {
      windows->row(values.data(), group, row.data());
      give(group, row);
    }
  }
}

}  // namespace quarry::quantize
