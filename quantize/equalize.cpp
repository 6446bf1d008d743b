// SPDX-License-Identifier: Apache-2.0
// Cross-layer equalisation. Behind a product whose results go, through operators that f(s * x) = s * f(x) holds for, to
// one other product, each channel's weights may be divided by a number that the other's weights of that channel are
// multiplied with: what is computed stays the same. Where one scale serves all channels, or few bits all weights of
// one, that is what makes narrow channels heard beside wide ones.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "quantize/improve.h"
#include "quantize/products.h"

namespace quarry::quantize {
namespace {

using qir::at;
using qir::Op;

struct Pair {
  std::int32_t first, second;  // nodes
  std::size_t channels;
};

// f(s * x) = s * f(x) for s > 0, each channel by itself.
bool keeps_factors(const qir::Node &node) {
  switch (node.op) {
    case Op::Relu:
    case Op::LeakyRelu:
    case Op::MaxPool:
    case Op::AveragePool:
    case Op::GlobalAveragePool:
    case Op::GlobalMaxPool:
    case Op::Dropout:
    case Op::Identity: return node.outputs.size() == 1;
    default: return false;
  }
}

bool has_own_weights(const qir::Graph &graph, const qir::Uses &uses, const qir::Node &node) {
  if (!product_of(graph, node) || !uses.used_once(node.inputs[1])) return false;
  if (node.op == Op::Gemm && (node.get_float("alpha", 1) != 1 || node.get_float("beta", 1) != 1)) return false;
  const std::int32_t bias = qir::input_of(node, 2);
  if (bias == qir::kAbsent) return true;
  const Product product = *product_of(graph, node);
  return qir::constant_floats(graph, bias) && uses.used_once(bias) &&
         at(graph, bias).data.size == product.groups * product.outputs * sizeof(float);
}

std::optional<Pair> pair_from(const qir::Graph &graph, const qir::Uses &uses, std::int32_t first) {
  const qir::Node &node = graph.nodes[static_cast<std::size_t>(first)];
  if (!has_own_weights(graph, uses, node)) return std::nullopt;
  std::int32_t result = node.outputs[0];
  for (;;) {
    if (!uses.used_once(result)) return std::nullopt;
    const std::int32_t next = uses.users(result)[0];
    const qir::Node &user = graph.nodes[static_cast<std::size_t>(next)];
    if (user.inputs[0] != result) return std::nullopt;
    if (keeps_factors(user)) {
      result = user.outputs[0];
      continue;
    }
    // Channels are along another axis in Gemm and MatMul than in Conv.
    if (!has_own_weights(graph, uses, user) || (user.op == Op::Conv) != (node.op == Op::Conv)) return std::nullopt;
    const Product a = *product_of(graph, node), b = *product_of(graph, user);
    const std::size_t channels = a.groups * a.outputs;
    const std::size_t taken =
        user.op == Op::Conv ? b.groups * static_cast<std::size_t>(at(graph, user.inputs[1]).shape[1]) : b.terms;
    if (channels != taken) return std::nullopt;
    return Pair{first, next, channels};
  }
}

// Each weight of a product with the channel of results, or of inputs, that it belongs to.
template <class Body>
void each_weight(const qir::Graph &graph, const qir::Node &node, bool of_inputs, const Body &body) {
  const Product product = *product_of(graph, node);
  const std::size_t per_group =
      node.op == Op::Conv ? static_cast<std::size_t>(at(graph, node.inputs[1]).shape[1]) : product.terms;
  const std::size_t taps = product.terms / per_group;
  for (std::size_t g = 0; g < product.groups; ++g)
    for (std::size_t o = 0; o < product.outputs; ++o)
      for (std::size_t t = 0; t < product.terms; ++t)
        body(product.weight(g, o, t), of_inputs ? g * per_group + t / taps : g * product.outputs + o);
}

Vector<float> reach(const qir::Graph &graph, const qir::Node &node, bool of_inputs, std::size_t channels) {
  Vector<float> most(channels, 0);
  const float *weights = qir::constant_floats(graph, node.inputs[1]);
  each_weight(graph, node, of_inputs, [&](std::size_t weight, std::size_t channel) {
    most[channel] = std::max(most[channel], std::fabs(weights[weight]));
  });
  return most;
}

}  // namespace

void equalize_layers(qir::Graph &graph, qir::Store &store, Vector<Change> *changes) {
  constexpr int kMostRounds = 20;
  constexpr double kMostAtOnce = 1e4;
  const qir::Uses uses(graph);
  Vector<Pair> pairs;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (const auto pair = pair_from(graph, uses, static_cast<std::int32_t>(n))) pairs.push_back(*pair);
  // Constants are of others: what is changed is a copy.
  Vector<float *> own(graph.tensors.size(), nullptr);
  const auto writable = [&](std::int32_t id) {
    float *&values = own[static_cast<std::size_t>(id)];
    if (!values) {
      qir::Tensor &tensor = at(graph, id);
      tensor.data = store.copy(tensor.data.data, tensor.data.size);
      values = static_cast<float *>(const_cast<void *>(tensor.data.data));
    }
    return values;
  };
  Vector<Vector<double>> factors;  // of all rounds
  for (const Pair &pair : pairs) factors.push_back(Vector<double>(pair.channels, 1));
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (std::size_t p = 0; p < pairs.size(); ++p) {
      const Pair &pair = pairs[p];
      const qir::Node first = graph.nodes[static_cast<std::size_t>(pair.first)];
      const qir::Node second = graph.nodes[static_cast<std::size_t>(pair.second)];
      const Vector<float> gives = reach(graph, first, false, pair.channels);
      const Vector<float> takes = reach(graph, second, true, pair.channels);
      Vector<float> by(pair.channels, 1);
      for (std::size_t c = 0; c < pair.channels; ++c) {
        if (!(gives[c] > 0) || !(takes[c] > 0) || !std::isfinite(gives[c]) || !std::isfinite(takes[c])) continue;
        const double wanted = std::sqrt(static_cast<double>(gives[c]) / static_cast<double>(takes[c]));
        by[c] = static_cast<float>(std::clamp(wanted, 1 / kMostAtOnce, kMostAtOnce));
        moved = std::max(moved, std::fabs(std::log(static_cast<double>(by[c]))));
        factors[p][c] *= static_cast<double>(by[c]);
      }
      float *weights = writable(first.inputs[1]);
      each_weight(graph, first, false,
                  [&](std::size_t weight, std::size_t channel) { weights[weight] /= by[channel]; });
      if (const std::int32_t bias = qir::input_of(first, 2); bias != qir::kAbsent) {
        float *values = writable(bias);
        for (std::size_t c = 0; c < pair.channels; ++c) values[c] /= by[c];
      }
      float *others = writable(second.inputs[1]);
      each_weight(graph, second, true, [&](std::size_t weight, std::size_t channel) { others[weight] *= by[channel]; });
    }
    if (moved < 0.01) break;
  }
  for (std::size_t p = 0; changes && p < pairs.size(); ++p) {
    const auto [least, most] = std::ranges::minmax(factors[p]);
    changes->push_back(
        {"equalised", graph.nodes[static_cast<std::size_t>(pairs[p].first)].name,
         format("%zu channels with %s, factors %.3g to %.3g", pairs[p].channels,
                printable(graph.nodes[static_cast<std::size_t>(pairs[p].second)].name).c_str(), least, most)});
  }
}

}  // namespace quarry::quantize
