// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/cpu/random_graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/checked.h"
#include "base/float16.h"
#include "graph/edit/graph_edit.h"

namespace quarry::test {

using qir::kAbsent;
using qir::Op;
using qir::Shape;
using Ints = Vector<std::int64_t>;

namespace {

std::int64_t elements(const Shape &shape) { return element_count(shape.data(), shape.size()).value_or(-1); }

}  // namespace

// ---- making -------------------------------------------------------------------------------------

std::int32_t RandomGraph::tensor(DType dtype, Shape extents) {
  qir::Tensor &made = graph_.tensors.emplace_back();
  made.name = format("t%zu", graph_.tensors.size());
  made.dtype = dtype;
  made.shape = std::move(extents);
  return static_cast<std::int32_t>(graph_.tensors.size() - 1);
}

std::int32_t RandomGraph::input(DType dtype, Shape extents) {
  return graph_.inputs.emplace_back(tensor(dtype, std::move(extents)));
}

std::int32_t RandomGraph::constant(DType dtype, Shape extents, Vector<std::uint8_t> data) {
  const std::int32_t made = tensor(dtype, std::move(extents));
  const std::uint64_t size = data.size();
  data.push_back(0);  // never no memory at all
  data_.push_back(std::move(data));
  at(made).is_constant = true;
  at(made).data = {data_.back().data(), size};
  return made;
}

std::int32_t RandomGraph::reals(Shape extents, float low, float high) {
  const std::int64_t count = elements(extents);
  Vector<std::uint8_t> data;
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = random_.real(low, high);
    const std::uint16_t half = f32_to_f16(value);
    const auto *bytes = real_ == DType::F16 ? reinterpret_cast<const std::uint8_t *>(&half)
                                            : reinterpret_cast<const std::uint8_t *>(&value);
    data.insert(data.end(), bytes, bytes + (real_ == DType::F16 ? 2 : 4));
  }
  return constant(real_, std::move(extents), std::move(data));
}
std::int32_t RandomGraph::scalar(float value) { return reals(random_.chance(50) ? Shape{} : Shape{1}, value, value); }

std::int32_t RandomGraph::integers(Ints values) {
  Vector<std::uint8_t> data(values.size() * sizeof(std::int64_t));
  if (!values.empty()) std::memcpy(data.data(), values.data(), data.size());
  return constant(DType::I64, {static_cast<std::int64_t>(values.size())}, std::move(data));
}

std::int32_t RandomGraph::node(Op op, Vector<std::int32_t> inputs, const std::function<void(qir::Node &)> &set,
                               std::size_t outputs) {
  qir::Node &made = graph_.nodes.emplace_back();
  made.op = op;
  made.name = format("n%zu", graph_.nodes.size());
  made.inputs = std::move(inputs);
  const std::size_t before = graph_.tensors.size();
  for (std::size_t i = 0; i < outputs; ++i) made.outputs.push_back(tensor(DType::F32, {}));
  if (set) set(made);
  bool good = qir::infer_graph(graph_).ok();
  for (std::size_t i = before; good && i < graph_.tensors.size(); ++i)
    good = elements(graph_.tensors[i].shape) >= 1 && elements(graph_.tensors[i].shape) <= most_ &&
           graph_.tensors[i].shape.size() <= 6;
  if (!good) {
    graph_.nodes.pop_back();
    graph_.tensors.resize(before);
    return kAbsent;
  }
  const std::int32_t first = graph_.nodes.back().outputs[0];
  for (std::size_t i = 0; i < outputs; ++i) pool_.push_back(first + static_cast<std::int32_t>(i));
  return first;
}

std::int32_t RandomGraph::same_shape(std::int32_t id) {
  Vector<std::int32_t> alike;
  for (const std::int32_t other : pool_)
    if (shape(other) == shape(id) && (other != id || random_.chance(20))) alike.push_back(other);
  return alike.empty() ? kAbsent : random_.one_of(alike);
}

Ints RandomGraph::shuffled(std::size_t rank) {
  Ints order(rank);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = rank; i > 1; --i)
    std::swap(order[i - 1], order[static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(i) - 1))]);
  return order;
}

void RandomGraph::finish() {
  const qir::Uses uses(graph_);
  for (const qir::Node &made : graph_.nodes)
    for (const std::int32_t id : made.outputs)
      if (uses.users(id).empty()) graph_.outputs.push_back(id);
  if (random_.chance(40)) graph_.outputs.push_back(random_.one_of(pool_));
  if (random_.chance(10)) graph_.outputs.push_back(graph_.outputs[0]);
  if (random_.chance(10)) graph_.outputs.insert(graph_.outputs.begin(), graph_.inputs[0]);
}

// ---- reals --------------------------------------------------------------------------------------

RandomGraph::RandomGraph(std::uint64_t seed, DType real) : random_(seed), real_(real) {
  graph_.name = "random";
  switch (random_.integer(0, 3)) {
    case 0:
      pool_.push_back(input(real_, {random_.integer(1, 3), random_.integer(2, 12), 4 * random_.integer(1, 3)}));
      break;
    case 1: pool_.push_back(input(real_, {random_.integer(1, 6), random_.integer(1, 40)})); break;
    default:
      pool_.push_back(input(real_, {random_.integer(1, 2), random_.one_of({1, 3, 4, 8, 12, 17}), random_.integer(1, 12),
                                    random_.integer(1, 12)}));
      break;
  }
  if (random_.chance(30)) pool_.push_back(input(real_, shape(pool_[0])));
  const std::int64_t wanted = random_.integer(3, 14);
  for (int attempts = 0; attempts < 100 && static_cast<std::int64_t>(graph_.nodes.size()) < wanted; ++attempts) grow();
  finish();
}

std::int32_t RandomGraph::grow() {
  const std::int32_t x = pick();
  const std::size_t rank = shape(x).size();
  const std::int64_t kind = random_.integer(0, 99);
  if (rank >= 3 && rank <= 4 && kind < 45) return image(x);
  if (rank == 3 && kind < 55) return attention(x);
  if (kind < 65) return elementwise(x);
  if (kind < 82) return movement(x);
  return rows(x);
}

std::int32_t RandomGraph::image(std::int32_t x) {
  const Shape in = shape(x);
  const std::size_t rank = in.size() - 2;
  const auto each = [&](auto &&value) {
    Ints list(rank);
    for (std::int64_t &v : list) v = value();
    return list;
  };
  switch (random_.integer(0, 9)) {
    case 0:
    case 1:
    case 2:
    case 3: {
      const std::int64_t c = in[1];
      Ints groups;
      for (std::int64_t g = 1; g <= c; ++g)
        if (c % g == 0) groups.push_back(g);
      const std::int64_t group = random_.chance(60) ? 1 : random_.chance(50) ? c : random_.one_of(groups);
      const std::int64_t oc = group == c && random_.chance(70)
                                  ? c
                                  : group * std::max<std::int64_t>(1, random_.one_of({1, 2, 5, 8, 16, 33}) / group);
      Shape w{oc, c / group};
      const std::int64_t k = random_.one_of({1, 1, 3, 3, 3, 5, 2});
      const Ints kernel = each([&] { return random_.chance(85) ? k : 1; });
      w.insert(w.end(), kernel.begin(), kernel.end());
      const float reach = 1.5f / std::sqrt(static_cast<float>(elements(w) / oc));
      Vector<std::int32_t> inputs{x, reals(w, -reach, reach)};
      if (random_.chance(60)) inputs.push_back(reals({oc}, -1, 1));
      const Ints pads = [&] {
        Ints list(2 * rank);
        const bool same = random_.chance(60);
        for (std::size_t i = 0; i < rank; ++i)
          list[i] = list[i + rank] = same ? kernel[i] / 2 : random_.integer(0, kernel[i] - 1);
        return list;
      }();
      const Ints strides = each([&] {
        return random_.one_of({1, 1, 1, 2, 3});
      }),
                 dilations = each([&] {
                   return random_.one_of({1, 1, 1, 2});
                 });
      std::int32_t y = node(Op::Conv, inputs, [&](qir::Node &n) {
        n.set("group", group), n.set("pads", pads), n.set("strides", strides), n.set("dilations", dilations);
        if (random_.chance(50)) n.set("kernel_shape", kernel);
      });
      if (y == kAbsent) return y;
      if (random_.chance(50)) y = node(random_.chance(50) ? Op::Relu : Op::HardSwish, {y});
      if (const std::int32_t other = same_shape(y); other != kAbsent && random_.chance(70))
        y = node(Op::Add, random_.chance(50) ? Vector<std::int32_t>{y, other} : Vector<std::int32_t>{other, y});
      return y;
    }
    case 4:
    case 5: {
      const Ints kernel = each([&] { return random_.integer(1, 3); });
      Ints pads(2 * rank);
      for (std::size_t i = 0; i < 2 * rank; ++i) pads[i] = random_.integer(0, kernel[i % rank] - 1);
      const Ints strides = each([&] { return random_.integer(1, 2); });
      const bool most = random_.chance(50);
      return node(most ? Op::MaxPool : Op::AveragePool, {x}, [&](qir::Node &n) {
        n.set("kernel_shape", kernel), n.set("pads", pads), n.set("strides", strides),
            n.set("ceil_mode", random_.integer(0, 1));
        if (!most) n.set("count_include_pad", random_.integer(0, 1));
      });
    }
    case 6: return node(random_.chance(70) ? Op::GlobalAveragePool : Op::GlobalMaxPool, {x});
    case 7: {
      if (rank != 2) return kAbsent;
      const std::int32_t sizes = integers({in[0], in[1], random_.integer(1, 2 * in[2]), random_.integer(1, 2 * in[3])});
      const bool nearest = random_.chance(50);
      const char *const modes[] = {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"},
                        *const rounds[] = {"floor", "ceil", "round_prefer_floor", "round_prefer_ceil"};
      const auto mode = random_.integer(0, 3), round = random_.integer(0, 3);
      return node(Op::Resize, {x, kAbsent, kAbsent, sizes}, [&](qir::Node &n) {
        n.set("mode", std::string_view(nearest ? "nearest" : "linear"));
        n.set("coordinate_transformation_mode", std::string_view(modes[mode])),
            n.set("nearest_mode", std::string_view(rounds[round]));
      });
    }
    case 8:
      return node(Op::BatchNormalization, {x, reals({in[1]}, 0.5f, 1.5f), reals({in[1]}, -1, 1), reals({in[1]}, -1, 1),
                                           reals({in[1]}, 0.5f, 2)});
    default: {
      const bool space = in[1] % 4 == 0;
      return node(space ? Op::DepthToSpace : Op::SpaceToDepth, {x}, [&](qir::Node &n) {
        n.set("blocksize", std::int64_t{2});
        if (space) n.set("mode", std::string_view(random_.chance(50) ? "DCR" : "CRD"));
      });
    }
  }
}

std::int32_t RandomGraph::elementwise(std::int32_t x) {
  const Shape in = shape(x);
  switch (random_.integer(0, 9)) {
    case 0:
    case 1:
    case 2: {
      constexpr Op kUnary[] = {Op::Relu,        Op::Sigmoid, Op::Tanh, Op::HardSwish, Op::LeakyRelu,
                               Op::Gelu,        Op::Abs,     Op::Neg,  Op::Elu,       Op::Softplus,
                               Op::HardSigmoid, Op::Erf,     Op::Mish, Op::Swish,     Op::Sin};
      std::int32_t y = x;
      for (std::int64_t chain = random_.integer(1, 3); chain > 0 && y != kAbsent; --chain)
        y = node(kUnary[random_.integer(0, std::ssize(kUnary) - 1)], {y});
      return y;
    }
    case 3: return node(Op::Clip, {x, random_.chance(50) ? scalar(-0.5f) : kAbsent, scalar(1)});
    case 4: {  // x * sigmoid(x)
      const std::int32_t s = node(Op::Sigmoid, {x});
      return s == kAbsent ? s
                          : node(Op::Mul, random_.chance(50) ? Vector<std::int32_t>{x, s} : Vector<std::int32_t>{s, x});
    }
    case 5: {  // Gelu's pieces
      const std::int32_t scaled = node(Op::Div, {x, scalar(1.41421356f)}),
                         erf = scaled == kAbsent ? scaled : node(Op::Erf, {scaled});
      const std::int32_t plus = erf == kAbsent ? erf : node(Op::Add, {erf, scalar(1)}),
                         product = plus == kAbsent ? plus : node(Op::Mul, {x, plus});
      return product == kAbsent ? product : node(Op::Mul, {product, scalar(0.5f)});
    }
    case 6:
    case 7: {
      const std::int32_t other = same_shape(x);
      constexpr Op kBinary[] = {Op::Add, Op::Mul, Op::Sub, Op::Max, Op::Min};
      return other == kAbsent ? other : node(kBinary[random_.integer(0, 4)], {x, other});
    }
    default: {  // a constant that is broadcast, or broadcasts
      Shape side = in;
      for (std::int64_t &extent : side)
        if (random_.chance(60)) extent = 1;
      while (!side.empty() && random_.chance(40)) side.erase(side.begin());
      if (random_.chance(10))
        side.insert(side.begin(), 2 - static_cast<std::int64_t>(side.size() >= in.size() && in.size() > 3));
      const Op op = random_.chance(20)   ? Op::PRelu
                    : random_.chance(30) ? Op::Div
                    : random_.chance(50) ? Op::Mul
                                         : Op::Add;
      const std::int32_t c = op == Op::Div ? reals(side, 1, 2) : reals(side, -1, 1);
      return node(op, op != Op::PRelu && op != Op::Div && random_.chance(30) ? Vector<std::int32_t>{c, x}
                                                                             : Vector<std::int32_t>{x, c});
    }
  }
}

std::int32_t RandomGraph::movement(std::int32_t x) {
  const Shape in = shape(x);
  const std::int64_t rank = static_cast<std::int64_t>(in.size());
  if (rank == 0) return node(Op::Unsqueeze, {x, integers({0})});
  const std::int64_t axis = random_.integer(0, rank - 1), extent = in[index_of(axis)];
  const auto with_axis = [&](qir::Node &n) { n.set("axis", random_.chance(50) ? axis : axis - rank); };
  switch (random_.integer(0, 10)) {
    case 0:
    case 1: {
      const Ints perm = shuffled(in.size());
      return node(Op::Transpose, {x}, [&](qir::Node &n) { n.set("perm", perm); });
    }
    case 2: {  // neighbours merged, and one cut
      Ints to = in;
      if (rank > 1 && random_.chance(70)) {
        const auto at_axis = random_.integer(0, rank - 2);
        to[index_of(at_axis)] *= to[index_of(at_axis) + 1];
        to.erase(to.begin() + at_axis + 1);
      }
      const auto cut = static_cast<std::size_t>(random_.integer(0, static_cast<std::int64_t>(to.size()) - 1));
      for (const std::int64_t by : {3, 2})
        if (to[cut] % by == 0 && random_.chance(70)) {
          to[cut] /= by;
          to.insert(to.begin() + static_cast<std::ptrdiff_t>(cut), by);
          break;
        }
      return node(Op::Reshape, {x, integers(to)});
    }
    case 3:
    case 4: {
      Vector<std::int32_t> parts{x};
      for (std::int64_t more = random_.integer(1, 2); more > 0; --more) {
        Vector<std::int32_t> fits;
        for (const std::int32_t other : pool_) {
          Shape adjusted = shape(other);
          if (adjusted.size() != in.size()) continue;
          adjusted[index_of(axis)] = extent;
          if (adjusted == in) fits.push_back(other);
        }
        Shape made = in;
        made[index_of(axis)] = random_.integer(1, 3);
        parts.insert(random_.chance(50) ? parts.begin() : parts.end(),
                     random_.chance(80) ? random_.one_of(fits) : reals(made, -1, 1));
      }
      return node(Op::Concat, parts, with_axis);
    }
    case 5: {
      const std::int64_t start = random_.integer(0, extent - 1), step = random_.chance(15) ? -1 : random_.integer(1, 2),
                         end = random_.integer(start + 1, extent);
      return node(Op::Slice, step > 0 ? Vector<std::int32_t>{x, integers({start}), integers({end}), integers({axis}),
                                                             integers({step})}
                                      : Vector<std::int32_t>{x, integers({end - 1}), integers({start - 1 - extent}),
                                                             integers({axis}), integers({step})});
    }
    case 6: {
      if (extent < 2) return kAbsent;
      const std::int64_t first = random_.integer(1, extent - 1);
      return node(Op::Split, {x, integers({first, extent - first})}, with_axis, 2);
    }
    case 7: {
      Ints pads(2 * in.size());
      for (std::int64_t &pad : pads) pad = random_.chance(40) ? random_.integer(1, 2) : 0;
      const bool edge = random_.chance(15);
      const std::int32_t with = edge || random_.chance(50) ? kAbsent : reals({}, 0.5f, 0.5f);
      return node(Op::Pad, {x, integers(pads), with}, [&](qir::Node &n) {
        if (edge) n.set("mode", std::string_view("edge"));
      });
    }
    case 8: {
      Ints indices;
      for (std::int64_t i = random_.one_of({1, 1, 3, 5}); i > 0; --i)
        indices.push_back(random_.integer(-extent, extent - 1));
      std::int32_t list = integers(indices);
      if (indices.size() == 1 && random_.chance(50)) at(list).shape.clear();
      if (random_.chance(15)) list = input(DType::I64, {2, 2});
      return node(Op::Gather, {x, list}, with_axis);
    }
    case 9: {
      if (extent == 1 && random_.chance(50)) return node(Op::Squeeze, {x, integers({axis})});
      return node(Op::Unsqueeze, {x, integers({axis})});
    }
    default: {
      Shape to = in;
      if (extent == 1) to[index_of(axis)] = 3;
      else to.insert(to.begin(), 2);
      return node(Op::Expand, {x, integers(to)});
    }
  }
}

std::int32_t RandomGraph::rows(std::int32_t x) {
  const Shape in = shape(x);
  const std::int64_t rank = static_cast<std::int64_t>(in.size());
  if (rank == 0) return kAbsent;
  const std::int64_t k = in.back(), axis = random_.integer(-rank, rank - 1);
  const float reach = 1.5f / std::sqrt(static_cast<float>(k));
  const auto keep = [&](qir::Node &n) { n.set("keepdims", std::int64_t{1}); };
  switch (random_.integer(0, 9)) {
    case 0:
    case 1: {
      const std::int64_t n = random_.one_of({1, 4, 7, 16, 35});
      std::int32_t y = node(Op::MatMul, {x, reals({k, n}, -reach, reach)});
      if (y != kAbsent && random_.chance(60)) y = node(Op::Add, {y, reals({n}, -1, 1)});
      if (y != kAbsent && random_.chance(50)) y = node(Op::Gelu, {y});
      if (y != kAbsent && random_.chance(50))
        if (const std::int32_t other = same_shape(y); other != kAbsent) y = node(Op::Add, {y, other});
      return y;
    }
    case 2: {
      if (rank != 2) return kAbsent;
      const std::int64_t n = random_.one_of({1, 5, 20}), turned = random_.integer(0, 1), across = random_.chance(20);
      const std::int64_t sum = across ? in[0] : k;
      Vector<std::int32_t> inputs{x, reals(turned ? Shape{n, sum} : Shape{sum, n}, -0.4f, 0.4f)};
      if (random_.chance(70))
        inputs.push_back(reals(random_.chance(70)   ? Shape{n}
                               : random_.chance(50) ? Shape{1}
                                                    : Shape{across ? k : in[0], n},
                               -1, 1));
      return node(Op::Gemm, inputs, [&](qir::Node &made) {
        made.set("transB", turned), made.set("transA", across);
        if (random_.chance(40)) made.set("alpha", 0.5f);
        if (random_.chance(40)) made.set("beta", 2.0f);
      });
    }
    case 3: {  // x x^T
      if (rank < 2) return kAbsent;
      Ints perm(in.size());
      std::iota(perm.begin(), perm.end(), std::int64_t{0});
      std::swap(perm[in.size() - 1], perm[in.size() - 2]);
      const std::int32_t turned = node(Op::Transpose, {x}, [&](qir::Node &n) { n.set("perm", perm); });
      const std::int32_t y = turned == kAbsent ? turned
                                               : node(Op::MatMul, random_.chance(70) ? Vector<std::int32_t>{x, turned}
                                                                                     : Vector<std::int32_t>{turned, x});
      return y == kAbsent ? y : node(Op::Mul, {y, scalar(0.2f)});
    }
    case 4:
      return node(random_.chance(80) ? Op::Softmax : Op::LogSoftmax, {x}, [&](qir::Node &n) { n.set("axis", axis); });
    case 5:
    case 6: {
      constexpr Op kReduce[] = {Op::ReduceMean, Op::ReduceMean, Op::ReduceMax,
                                Op::ReduceMin,  Op::ReduceSum,  Op::ReduceL1};
      Ints axes = shuffled(in.size());
      axes.resize(static_cast<std::size_t>(random_.integer(1, rank)));
      return node(kReduce[random_.integer(0, 5)], {x, integers(axes)},
                  [&](qir::Node &n) { n.set("keepdims", random_.integer(0, 1)); });
    }
    case 7: {
      const std::int32_t y = random_.chance(70)
                                 ? node(Op::LayerNormalization, {x, reals({k}, 0.5f, 1.5f), reals({k}, -1, 1)})
                                 : node(Op::RMSNormalization, {x, reals({k}, 0.5f, 1.5f)});
      return y;
    }
    default: {  // the same in pieces
      const bool rms = random_.chance(30);
      std::int32_t centred = x;
      if (!rms) {
        const std::int32_t mean = node(Op::ReduceMean, {x, integers({-1})}, keep);
        centred = mean == kAbsent ? mean : node(Op::Sub, {x, mean});
      }
      const std::int32_t square = centred == kAbsent   ? kAbsent
                                  : random_.chance(50) ? node(Op::Mul, {centred, centred})
                                                       : node(Op::Pow, {centred, scalar(2)});
      const std::int32_t variance = square == kAbsent ? square : node(Op::ReduceMean, {square, integers({-1})}, keep);
      const std::int32_t sum = variance == kAbsent ? variance : node(Op::Add, {variance, scalar(0.01f)}),
                         root = sum == kAbsent ? sum : node(Op::Sqrt, {sum});
      const std::int32_t normal = root == kAbsent ? root : node(Op::Div, {centred, root}),
                         scaled = normal == kAbsent ? normal : node(Op::Mul, {normal, reals({k}, 0.5f, 1.5f)});
      return scaled == kAbsent || random_.chance(20) ? scaled : node(Op::Add, {scaled, reals({k}, -1, 1)});
    }
  }
}

std::int32_t RandomGraph::attention(std::int32_t x) {
  const Shape in = shape(x);
  const std::int64_t b = in[0], t = in[1], d = in[2], heads = d % 4 == 0 ? 4 : 1;
  if (d > 64) return kAbsent;
  const float reach = 1.5f / std::sqrt(static_cast<float>(d));
  const auto part = [&](Ints perm) {
    const std::int32_t p = node(Op::MatMul, {x, reals({d, d}, -reach, reach)});
    const std::int32_t split = p == kAbsent ? p : node(Op::Reshape, {p, integers({b, t, heads, d / heads})});
    return split == kAbsent ? split : node(Op::Transpose, {split}, [&](qir::Node &n) { n.set("perm", perm); });
  };
  const std::int32_t q = part({0, 2, 1, 3}), k = part({0, 2, 3, 1}), v = part({0, 2, 1, 3});
  if (q == kAbsent || k == kAbsent || v == kAbsent) return kAbsent;
  std::int32_t scores = node(Op::MatMul, {q, k});
  if (scores != kAbsent && random_.chance(70))
    scores = random_.chance(50) ? node(Op::Mul, {scores, scalar(0.5f)}) : node(Op::Div, {scores, scalar(2)});
  if (scores != kAbsent && random_.chance(50)) {
    const Shape masks[] = {{t, t}, {b, 1, 1, t}, {1, heads, t, t}, {b, 1, t, t}};
    scores = node(Op::Add, {scores, reals(masks[random_.integer(0, 3)], -2, 1)});
  }
  const std::int32_t weights = scores == kAbsent ? scores : node(Op::Softmax, {scores}),
                     mixed = weights == kAbsent ? weights : node(Op::MatMul, {weights, v});
  const std::int32_t turned = mixed == kAbsent ? mixed : node(Op::Transpose, {mixed}, [](qir::Node &n) {
    n.set("perm", Ints{0, 2, 1, 3});
  });
  return turned == kAbsent ? turned : node(Op::Reshape, {turned, integers({b, t, d})});
}

// ---- quantised ----------------------------------------------------------------------------------

float RandomQuantizedGraph::reach(std::int32_t id) {
  const qir::Tensor &t = at(id);
  return t.quant->scales[0] * (dtype_bits(t.dtype) == 8 ? 128.0f : 32768.0f);
}

std::int32_t RandomQuantizedGraph::typed(std::int32_t id, float most, bool adds_rounding) {
  if (id == kAbsent) return id;
  const DType dtype = random_.chance(45) ? DType::U8 : random_.chance(70) ? DType::I8 : DType::U16;
  const std::int32_t middle = dtype == DType::U8   ? 128
                              : dtype == DType::I8 ? 0
                                                   : 32768,
                     half = dtype == DType::U16 ? 32768 : 128;
  at(id).dtype = dtype;
  // No ratio of two scales is a simple one: those meet ties, where f32 and f64 may round to different sides.
  at(id).quant = qir::Quantization{{most * random_.real(0.97f, 1.03f) / static_cast<float>(half)},
                                   {middle + static_cast<std::int32_t>(random_.integer(-half / 8, half / 8))},
                                   0,
                                   0};
  depth_ += adds_rounding;
  return id;
}
std::int32_t RandomQuantizedGraph::typed_like(std::int32_t id, std::int32_t like) {
  if (id == kAbsent) return id;
  at(id).dtype = at(like).dtype;
  at(id).quant = at(like).quant;
  return id;
}

RandomQuantizedGraph::RandomQuantizedGraph(std::uint64_t seed) : RandomGraph(seed) {
  const Shape extents = random_.chance(75) ? Shape{random_.integer(1, 2), random_.one_of({3, 4, 8, 16, 20}),
                                                   random_.integer(1, 10), random_.integer(1, 10)}
                                           : Shape{random_.integer(1, 6), random_.integer(2, 40)};
  pool_.push_back(typed(input(DType::F32, extents), 2, false));
  if (random_.chance(40)) pool_.push_back(typed(input(DType::F32, extents), 3, false));
  const std::int64_t wanted = random_.integer(2, 8);
  for (int attempts = 0; attempts < 60 && static_cast<std::int64_t>(graph_.nodes.size()) < wanted; ++attempts) grow();
  finish();
}

std::int32_t RandomQuantizedGraph::product(std::int32_t x) {
  const Shape in = shape(x);
  const bool conv = in.size() >= 3 && in.size() <= 4;
  const std::int64_t k = conv ? random_.one_of({1, 3, 3}) : 1, c = conv ? in[1] : in.back();
  const std::int64_t group = conv && random_.chance(40) ? c : 1,
                     oc = group == c ? c : random_.one_of({1, 4, 8, 17, 32});
  Shape extents = conv ? Shape{oc, c / group} : Shape{c, oc};
  if (conv) extents.insert(extents.end(), in.size() - 2, k);
  const bool is_unsigned = random_.chance(30), channels = random_.chance(60), words = random_.chance(20);
  const DType dtype = words ? (is_unsigned ? DType::U16 : DType::I16) : is_unsigned ? DType::U8 : DType::I8;
  const std::int32_t w =
      constant(dtype, extents, random_data(random_, words ? DType::U16 : DType::U8, elements(extents)));
  const float sum = static_cast<float>(elements(extents) / oc),
              scale = 1.2f / (words ? 74 * 256 : 74) / std::sqrt(sum);  // 74: the deviation of what is even in a byte
  qir::Quantization quant{{}, {}, conv ? 0 : 1, 0};
  for (std::int64_t i = channels ? oc : 1; i > 0; --i) {
    quant.scales.push_back(scale * random_.real(0.5f, 1.2f));
    quant.zero_points.push_back(is_unsigned ? (words ? static_cast<std::int32_t>(random_.integer(20000, 40000)) : 128)
                                : channels || random_.chance(70) ? 0
                                                                 : static_cast<std::int32_t>(random_.integer(-3, 3)));
  }
  at(w).quant = quant;
  Vector<std::int32_t> inputs{x, w};
  if (random_.chance(70) && (conv || in.size() == 2)) {
    Vector<std::int32_t> values;
    const float unit = at(x).quant->scales[0] * scale;
    for (std::int64_t i = 0; i < oc; ++i)
      values.push_back(static_cast<std::int32_t>(std::clamp(random_.real(-0.5f, 0.5f) * reach(x) / unit, -2e9f, 2e9f)));
    Vector<std::uint8_t> data(values.size() * 4);
    std::memcpy(data.data(), values.data(), data.size());
    inputs.push_back(constant(DType::I32, {oc}, std::move(data)));
  }
  const std::int64_t stride = random_.one_of({1, 1, 2});
  const float most = reach(x) * 1.5f;
  std::int32_t y;
  if (conv) {
    y = node(Op::Conv, inputs, [&](qir::Node &n) {
      n.set("group", group), n.set("pads", Ints(2 * (in.size() - 2), k / 2)),
          n.set("strides", Ints(in.size() - 2, stride));
    });
  } else {
    y = node(in.size() == 2 && inputs.size() == 3 ? Op::Gemm : Op::MatMul, inputs);
  }
  typed(y, most);
  if (y == kAbsent) return y;
  if (const std::int32_t other = same_shape(y); other != kAbsent && other != y && random_.chance(70)) {
    const std::int32_t sum_of =
        node(Op::Add, random_.chance(50) ? Vector<std::int32_t>{y, other} : Vector<std::int32_t>{other, y});
    return typed(sum_of, most + reach(other));
  }
  return y;
}

std::int32_t RandomQuantizedGraph::grow() {
  const std::int32_t x = pick();
  const Shape in = shape(x);
  if (in.empty()) return kAbsent;
  const std::int64_t rank = static_cast<std::int64_t>(in.size()), axis = random_.integer(0, rank - 1);
  const bool image = rank >= 3 && rank <= 4;
  const float most = reach(x);
  switch (random_.integer(0, 13)) {
    case 0:
    case 1:
    case 2:
    case 3: return product(x);
    case 4: {
      const std::int32_t other = same_shape(x);
      if (other == kAbsent) return kAbsent;
      const bool times = random_.chance(30);
      return typed(node(times                ? Op::Mul
                        : random_.chance(50) ? Op::Add
                                             : Op::Sub,
                        {x, other}),
                   times ? most * reach(other) : most + reach(other));
    }
    case 5:
    case 6: {
      Vector<std::int32_t> parts{x};
      for (const std::int32_t other : pool_) {
        Shape adjusted = shape(other);
        if (adjusted.size() != in.size()) continue;
        adjusted[index_of(axis)] = in[index_of(axis)];
        if (adjusted == in && parts.size() < 3) parts.push_back(other);
      }
      return typed(node(Op::Concat, parts, [&](qir::Node &n) { n.set("axis", axis); }), most * 1.2f);
    }
    case 7: {
      if (!image) return kAbsent;
      const bool largest = random_.chance(50);
      const std::int32_t y = node(largest ? Op::MaxPool : Op::AveragePool, {x}, [&](qir::Node &n) {
        n.set("kernel_shape", Ints(in.size() - 2, 3)), n.set("pads", Ints(2 * (in.size() - 2), 1)),
            n.set("strides", Ints(in.size() - 2, random_.integer(1, 2)));
      });
      return largest ? typed_like(y, x) : typed(y, most);
    }
    case 8: return image ? typed(node(Op::GlobalAveragePool, {x}), most) : kAbsent;
    case 9:
    case 10: {
      constexpr Op kUnary[] = {Op::Relu, Op::Sigmoid, Op::Tanh, Op::HardSwish, Op::LeakyRelu, Op::Gelu};
      return typed(node(kUnary[random_.integer(0, 5)], {x}), most);
    }
    case 11: {
      const Ints perm = shuffled(in.size());
      return typed_like(node(Op::Transpose, {x}, [&](qir::Node &n) { n.set("perm", perm); }), x);
    }
    case 12: return typed_like(node(Op::Reshape, {x, integers({in[0], -1})}), x);
    default: {
      const std::int64_t end = random_.integer(1, in[index_of(axis)]);
      return typed_like(node(Op::Slice, {x, integers({0}), integers({end}), integers({axis})}), x);
    }
  }
}

}  // namespace quarry::test
