// SPDX-License-Identifier: Apache-2.0
// Cross-layer equalisation. Behind a product whose results go, through operators that f(s * x) = s * f(x) holds for, to
// one other product, each channel's weights may be divided by a number that the other's weights of that channel are
// multiplied with: what is computed stays the same. Where one scale serves all channels, or few bits all weights of
// one, that is what makes narrow channels heard beside wide ones.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <optional>

#include "base/real/real.h"
#include "quantize/stop.h"
#include "quantize/weights/improve.h"
#include "quantize/weights/products.h"

namespace quarry::quantize {
namespace {

using qir::at;
using qir::Op;

struct Pair {
  std::int32_t first, second;  // nodes
  std::size_t channels;
};

// Channels of input that an output of a product is made of: terms, but for the taps of a window.
std::size_t inputs_of_group(const qir::Graph &graph, const qir::Node &node, const Product &product) {
  return node.op == Op::Conv ? static_cast<std::size_t>(at(graph, node.inputs[1]).shape[1]) : product.terms;
}

// f(s * x) = s * f(x) for s > 0, each channel by itself.
bool keeps_factors(const qir::Node &node) {
  switch (node.op) {
    case Op::Relu:
    case Op::LeakyRelu:
    case Op::MaxPool:
    case Op::AveragePool:
    case Op::GlobalAveragePool:
    case Op::GlobalMaxPool:
    case Op::PRelu:
    case Op::Dropout:
    case Op::Identity: return node.outputs.size() == 1;
    default: return false;
  }
}

bool has_own_weights(const qir::Graph &graph, const qir::Uses &uses, const qir::Node &node) {
  if (!product_of(graph, node) || !uses.used_once(node.inputs[1])) return false;
  if (node.op == Op::Gemm && (node.get_float("alpha", 1) != 1 || node.get_float("beta", 1) != 1)) return false;
  const std::int32_t bias = node.inputs[2];
  if (bias == qir::kAbsent) return true;
  const Product product = *product_of(graph, node);
  return qir::constant_floats(graph, bias) && uses.used_once(bias) &&
         at(graph, bias).data.size == product.groups * product.outputs * sizeof(float);
}

std::optional<Pair> pair_from(const qir::Graph &graph, const qir::Uses &uses, std::int32_t first) {
  const qir::Node &node = graph.nodes[index_of(first)];
  if (!has_own_weights(graph, uses, node)) return std::nullopt;
  std::int32_t result = node.outputs[0];
  for (;;) {
    if (!uses.used_once(result)) return std::nullopt;
    const std::int32_t next = uses.users(result)[0];
    const qir::Node &user = graph.nodes[index_of(next)];
    if (user.inputs[0] != result) return std::nullopt;
    if (keeps_factors(user)) {
      result = user.outputs[0];
      continue;
    }
    // Channels are along another axis in Gemm and MatMul than in Conv.
    if (!has_own_weights(graph, uses, user) || (user.op == Op::Conv) != (node.op == Op::Conv)) return std::nullopt;
    const Product a = *product_of(graph, node), b = *product_of(graph, user);
    const std::size_t channels = a.groups * a.outputs;
    if (channels != b.groups * inputs_of_group(graph, user, b)) return std::nullopt;
    return Pair{first, next, channels};
  }
}

// Each weight of a product with the channel of results, or of inputs, that it belongs to.
template <class Body>
void each_weight(const qir::Graph &graph, const qir::Node &node, bool of_inputs, const Body &body) {
  const Product product = *product_of(graph, node);
  const std::size_t per_group = inputs_of_group(graph, node, product);
  const std::size_t taps = product.terms / per_group;
  SeldomAsked asked;  // a caller that was stopped asks too
  for (std::size_t g = 0; g < product.groups; ++g)
    for (std::size_t o = 0; o < product.outputs && !asked.stopped(product.terms); ++o)
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

// Constants are of others: what is changed is a copy.
class OwnConstants {
 public:
  OwnConstants(qir::Graph &graph, qir::Store &store)
      : graph_(graph), store_(store), own_(graph.tensors.size(), nullptr) {}
  float *operator()(std::int32_t id) {
    float *&values = own_[index_of(id)];
    if (!values) {
      qir::Tensor &tensor = at(graph_, id);
      tensor.data = store_.copy(tensor.data.data, tensor.data.size);
      values = static_cast<float *>(const_cast<void *>(tensor.data.data));
    }
    return values;
  }

 private:
  qir::Graph &graph_;
  qir::Store &store_;
  Vector<float *> own_;
};

// The results of a product times `by`, channel by channel.
void scale_results(const qir::Graph &graph, const qir::Node &node, const Vector<float> &by, OwnConstants &own) {
  float *weights = own(node.inputs[1]);
  each_weight(graph, node, false, [&](std::size_t weight, std::size_t channel) { weights[weight] *= by[channel]; });
  if (const std::int32_t bias = node.inputs[2]; bias != qir::kAbsent) {
    float *values = own(bias);
    for (std::size_t c = 0; c < by.size(); ++c) values[c] *= by[c];
  }
}

// As if its inputs were divided by `by`.
void divide_inputs(const qir::Graph &graph, const qir::Node &node, const Vector<float> &by, OwnConstants &own) {
  float *weights = own(node.inputs[1]);
  each_weight(graph, node, true, [&](std::size_t weight, std::size_t channel) { weights[weight] /= by[channel]; });
}

}  // namespace

void equalize_layers(qir::Graph &graph, qir::Store &store, Vector<Change> *changes) {
  constexpr int kMostRounds = 20;
  constexpr double kMostAtOnce = 1e4;
  const qir::Uses uses(graph);
  Vector<Pair> pairs;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (const auto pair = pair_from(graph, uses, static_cast<std::int32_t>(n))) pairs.push_back(*pair);
  OwnConstants own(graph, store);
  Vector<Vector<double>> factors;  // of all rounds
  for (const Pair &pair : pairs) factors.push_back(Vector<double>(pair.channels, 1));
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (std::size_t p = 0; p < pairs.size() && !stop_asked(); ++p) {
      const Pair &pair = pairs[p];
      const qir::Node first = graph.nodes[index_of(pair.first)];
      const qir::Node second = graph.nodes[index_of(pair.second)];
      const Vector<float> gives = reach(graph, first, false, pair.channels);
      const Vector<float> takes = reach(graph, second, true, pair.channels);
      Vector<float> by(pair.channels, 1);
      for (std::size_t c = 0; c < pair.channels; ++c) {
        if (!(gives[c] > 0) || !(takes[c] > 0) || !std::isfinite(gives[c]) || !std::isfinite(takes[c])) continue;
        const double wanted = std::sqrt(static_cast<double>(gives[c]) / static_cast<double>(takes[c]));
        by[c] = static_cast<float>(std::clamp(wanted, 1 / kMostAtOnce, kMostAtOnce));
        moved = std::max(moved, std::fabs(real::log(static_cast<double>(by[c]))));
        factors[p][c] *= static_cast<double>(by[c]);
      }
      Vector<float> inverse(pair.channels);
      for (std::size_t c = 0; c < pair.channels; ++c) inverse[c] = 1 / by[c];
      scale_results(graph, first, inverse, own);
      divide_inputs(graph, second, inverse, own);
    }
    if (moved < 0.01) break;
  }
  for (std::size_t p = 0; changes && p < pairs.size(); ++p) {
    const auto [least, most] = std::ranges::minmax(factors[p]);
    changes->push_back({"equalised", graph.nodes[index_of(pairs[p].first)].name,
                        format("%zu channels with %s, factors %.3g to %.3g", pairs[p].channels,
                               printable(graph.nodes[index_of(pairs[p].second)].name), least, most)});
  }
}

// ---- by the activations -------------------------------------------------------------------------

namespace {

// A product with a scale for each channel of results, and the products that read all of those, each channel by itself.
struct Chain {
  std::int32_t first = 0;
  Vector<std::int32_t> readers;
  std::size_t channels = 0;
  double bound = HUGE_VAL;  // what Clip on the way lets through
  // SiLU on the way: x * Sigmoid(x) becomes (s * x) * Sigmoid(1 / s * (s * x)), an operator more.
  std::int32_t gate = qir::Uses::kNobody;  // that Sigmoid
  std::int32_t silu = qir::kAbsent;        // what it gives
};

// The results of a product that go to a Sigmoid, and to its Mul, alone.
bool find_gate(const qir::Graph &graph, const qir::Uses &uses, std::int32_t tensor, Chain &chain) {
  const std::span<const std::int32_t> users = uses.users(tensor);
  if (uses.is_output(tensor) || users.size() != 2) return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const qir::Node &sigmoid = graph.nodes[index_of(users[i])];
    const qir::Node &mul = graph.nodes[index_of(users[1 - i])];
    if (sigmoid.op != Op::Sigmoid || mul.op != Op::Mul || !uses.used_once(sigmoid.outputs[0]) ||
        uses.users(sigmoid.outputs[0])[0] != users[1 - i])
      continue;
    chain.gate = users[i], chain.silu = mul.outputs[0];
    return true;
  }
  return false;
}

// Clip from 0 up: min(s * x, high) = s * min(x, high) as long as s * x stays under `high`.
bool clips_above(const qir::Graph &graph, const qir::Node &node, double *high) {
  if (node.op != Op::Clip) return false;
  const std::int32_t least = node.inputs[1], most = node.inputs[2];
  const float *low = least == qir::kAbsent ? nullptr : qir::constant_floats(graph, least);
  const float *up = most == qir::kAbsent ? nullptr : qir::constant_floats(graph, most);
  if (!low || *low != 0 || (most != qir::kAbsent && !up)) return false;
  *high = up ? static_cast<double>(*up) : HUGE_VAL;
  return *high > 0;
}

// Depth first, without calling itself: a file says how long the way is.
bool follow(const qir::Graph &graph, const qir::Uses &uses, std::int32_t from, Chain &chain) {
  const bool is_conv = graph.nodes[index_of(chain.first)].op == Op::Conv;
  struct Step {
    std::int32_t tensor;
    std::size_t next = 0;  // of its users
  };
  Vector<Step> way = {{from}};
  while (!way.empty()) {
    const std::int32_t tensor = way.back().tensor;
    const std::span<const std::int32_t> users = uses.users(tensor);
    if (uses.is_output(tensor) || users.empty()) return false;
    if (way.back().next == users.size()) {
      way.pop_back();
      continue;
    }
    const std::int32_t n = users[way.back().next++];
    const qir::Node &user = graph.nodes[index_of(n)];
    if (user.inputs[0] != tensor || std::ranges::count(user.inputs, tensor) != 1) return false;
    double high = HUGE_VAL;
    if (keeps_factors(user) || clips_above(graph, user, &high)) {
      chain.bound = std::min(chain.bound, high);
      way.push_back({user.outputs[0]});
      continue;
    }
    if (!has_own_weights(graph, uses, user) || (user.op == Op::Conv) != is_conv) return false;
    const Product product = *product_of(graph, user);
    if (product.groups * inputs_of_group(graph, user, product) != chain.channels) return false;
    chain.readers.push_back(n);
  }
  return true;
}

Vector<Chain> chains_of(const qir::Graph &graph) {
  const qir::Uses uses(graph);
  Vector<Chain> out;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const qir::Node &node = graph.nodes[n];
    if ((node.op != Op::Conv && node.op != Op::Gemm) || !has_own_weights(graph, uses, node)) continue;
    const Product product = *product_of(graph, node);
    Chain chain;
    chain.first = static_cast<std::int32_t>(n), chain.channels = product.groups * product.outputs;
    if (chain.channels < 2) continue;
    const std::int32_t result = find_gate(graph, uses, node.outputs[0], chain) ? chain.silu : node.outputs[0];
    if (follow(graph, uses, result, chain)) out.push_back(std::move(chain));
  }
  return out;
}

// Of a tensor's channels over samples.
struct Channels {
  Vector<double> reach, square;  // the most; the mean of squares
  double values = 0;             // of a channel
};

void look(std::span<const float> values, const qir::Shape &shape, std::size_t axis, Channels &channels) {
  std::size_t inner = 1;
  for (std::size_t d = axis + 1; d < shape.size(); ++d) inner *= static_cast<std::size_t>(shape[d]);
  const std::size_t count = channels.reach.size();
  if (inner == 0 || values.empty()) return;
  SeldomAsked asked;
  for (std::size_t at = 0, c = 0; at + inner <= values.size() && !asked.stopped(inner);
       at += inner, c = c + 1 == count ? 0 : c + 1) {
    float most = 0, squares = 0;
    for (std::size_t i = at; i < at + inner; ++i) {
      most = std::max(most, std::fabs(values[i]));
      squares += values[i] * values[i];
    }
    channels.reach[c] = std::max(channels.reach[c], static_cast<double>(most));
    channels.square[c] += static_cast<double>(squares);
  }
  channels.values += static_cast<double>(values.size()) / static_cast<double>(count);
}

// How many steps the types have.
struct Steps {
  double activations, weights;
};

// What rounding makes of results, as the sum of squares.
struct RoundingNoise {
  double step;          // of the activations between
  double weight_steps;  // how many the weights' type has
  double sum = 0;
  SeldomAsked asked;
};

void add_noise_of_reader(const qir::Graph &graph, const qir::Node &node, const Channels &channels,
                         const Vector<double> &by, RoundingNoise &noise) {
  const float *weights = qir::constant_floats(graph, node.inputs[1]);
  const Product product = *product_of(graph, node);
  const bool has_scales = node.op == Op::Conv || node.op == Op::Gemm;
  const std::size_t per_group = inputs_of_group(graph, node, product);
  const std::size_t taps = product.terms / per_group;
  Vector<double> reach(product.groups * product.outputs, 0), power(product.groups, 0);
  double most = 0, sum = noise.sum;
  for (std::size_t g = 0; g < product.groups; ++g) {
    for (std::size_t t = 0; t < product.terms; ++t) {
      const std::size_t c = g * per_group + t / taps;
      power[g] += by[c] * by[c] * channels.square[c];
    }
    for (std::size_t o = 0; o < product.outputs && !noise.asked.stopped(product.terms); ++o) {
      double &one = reach[g * product.outputs + o];
      for (std::size_t t = 0; t < product.terms; ++t) {
        const double weight = static_cast<double>(weights[product.weight(g, o, t)]) / by[g * per_group + t / taps];
        one = std::max(one, std::fabs(weight));
        sum += weight * weight * noise.step * noise.step / 12;
      }
      most = std::max(most, one);
    }
  }
  for (std::size_t o = 0; o < reach.size(); ++o) {
    const double weight_step = (has_scales ? reach[o] : most) / noise.weight_steps;
    sum += weight_step * weight_step / 12 * power[o / product.outputs];
  }
  noise.sum = sum;
}

// What rounding of the activations between and of the readers' weights makes of the readers' results, as the sum of
// squares. `by`: factors of channels, the widest of which stays as it is.
double cost(const qir::Graph &graph, const Chain &chain, const Channels &channels, const Vector<double> &by,
            Steps steps) {
  double widest = 0;
  for (std::size_t c = 0; c < chain.channels; ++c) widest = std::max(widest, by[c] * channels.reach[c]);
  RoundingNoise noise{widest / steps.activations, steps.weights, 0, {}};
  for (const std::int32_t n : chain.readers) add_noise_of_reader(graph, graph.nodes[index_of(n)], channels, by, noise);
  return noise.sum;
}

// (s * x) as Sigmoid wants it: times 1 / s. `before`: the Sigmoid.
struct Inserted {
  std::int32_t before;
  qir::Node node;
};
Inserted undo_for_gate(qir::Graph &graph, qir::Names &names, qir::Store &store, const Chain &chain,
                       const Vector<float> &by) {
  const qir::Node &first = graph.nodes[index_of(chain.first)];
  const qir::Tensor like = at(graph, first.outputs[0]);
  Vector<float> inverse(by.size());
  for (std::size_t c = 0; c < by.size(); ++c) inverse[c] = 1 / by[c];
  qir::Tensor factors;
  factors.name = names.fresh(like.name + "_factors");
  factors.dtype = DType::F32;
  factors.is_constant = true;
  factors.shape.assign(like.shape.size(), 1);
  factors.shape[first.op == Op::Conv ? 1 : like.shape.size() - 1] = static_cast<std::int64_t>(by.size());
  factors.data = store.copy(inverse.data(), inverse.size() * sizeof(float));
  qir::Tensor result;
  result.name = names.fresh(like.name + "_equalised");
  result.dtype = DType::F32;
  result.shape = like.shape;
  Inserted out{chain.gate, {}};
  out.node.op = Op::Mul;
  out.node.name = result.name;
  const auto next = static_cast<std::int32_t>(graph.tensors.size());
  out.node.inputs = {first.outputs[0], next};
  out.node.outputs = {next + 1};
  graph.tensors.push_back(std::move(factors));
  graph.tensors.push_back(std::move(result));
  return out;
}

// What the samples show of chains: what readers read; behind those: what a SiLU on the way reads.
Result<Vector<Channels>> look_at_chains(const qir::Graph &graph, const Vector<Chain> &chains, const Feed &feed) {
  Vector<Channels> seen(2 * chains.size());
  Vector<std::int32_t> tensors(seen.size(), qir::kAbsent);
  for (std::size_t i = 0; i < chains.size(); ++i) {
    for (Channels *one : {&seen[i], &seen[chains.size() + i]})
      one->reach.assign(chains[i].channels, 0), one->square.assign(chains[i].channels, 0);
    tensors[i] = graph.nodes[index_of(chains[i].readers[0])].inputs[0];
    if (chains[i].gate != qir::Uses::kNobody)
      tensors[chains.size() + i] = graph.nodes[index_of(chains[i].first)].outputs[0];
  }
  Vector<std::int32_t> wanted;
  Vector<Vector<std::size_t>> seen_of;  // which of `seen` are of each that is wanted
  Vector<std::int32_t> place_of(graph.tensors.size(), -1);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i] == qir::kAbsent) continue;
    std::int32_t &place = place_of[index_of(tensors[i])];
    if (place < 0) {
      place = static_cast<std::int32_t>(wanted.size());
      wanted.push_back(tensors[i]);
      seen_of.emplace_back();
    }
    seen_of[index_of(place)].push_back(i);
  }
  QR_RETURN_IF_ERROR(feed(wanted, [&](std::size_t place, std::span<const float> values) {
    for (const std::size_t i : seen_of[place]) {
      const qir::Shape &shape = at(graph, tensors[i]).shape;
      const bool is_conv = graph.nodes[index_of(chains[i % chains.size()].first)].op == Op::Conv;
      look(values, shape, is_conv ? 1 : shape.size() - 1, seen[i]);
    }
  }));
  return seen;
}

// Factors for the channels of a chain, as samples show them.
class ChainFactors {
 public:
  ChainFactors(const Chain &chain, const Channels &channels, const Vector<double> &before_gate)
      : chain_(chain), channels_(channels), before_gate_(before_gate), gated_(chain.gate != qir::Uses::kNobody) {
    widest_ = *std::ranges::max_element(channels.reach);
    widest_before_ = *std::ranges::max_element(before_gate);
  }

  // Finds the best; false: none is worth it.
  bool choose(const qir::Graph &graph, Steps steps);
  bool gated() const noexcept { return gated_; }
  Vector<float> by() const { return Vector<float>(best_.begin(), best_.end()); }
  double before() const noexcept { return before_; }  // noise, and what is left of it
  double least() const noexcept { return least_; }

 private:
  Vector<double> factors(double power) const;

  const Chain &chain_;
  const Channels &channels_;
  const Vector<double> &before_gate_;
  const bool gated_;
  double widest_, widest_before_, before_ = 0, least_ = 0;
  Vector<double> best_;
};

Vector<double> ChainFactors::factors(double power) const {
  // A clipped value stays clipped: other inputs than the samples may reach a little further.
  constexpr double kFurther = 1.25, kMost = 64;
  const bool clips = chain_.bound < HUGE_VAL;
  Vector<double> by(chain_.channels, 1);
  for (std::size_t c = 0; c < chain_.channels; ++c) {
    const double reach = channels_.reach[c] * (clips ? kFurther : 1);
    if (reach > 0 && reach < widest_) by[c] = std::min(real::pow(widest_ / reach, power), kMost);
    if (!gated_) continue;
    // Nor further than SiLU's input reaches. Powers of 2: their reciprocals lie on a grid of 8 bits.
    by[c] = std::min(by[c], before_gate_[c] > 0 ? widest_before_ / before_gate_[c] : 1);
    by[c] = std::exp2(std::floor(std::log2(std::max(by[c], 1.0)) + 1e-6));
  }
  return by;
}

bool ChainFactors::choose(const qir::Graph &graph, Steps steps) {
  if (!(widest_ > 0) || !std::isfinite(widest_)) return false;
  constexpr double kWorthAnOperator = 0.25;  // of the noise
  before_ = cost(graph, chain_, channels_, factors(0), steps);
  least_ = before_ * (gated_ ? kWorthAnOperator : 0.98);
  for (const double power : {0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1.0}) {
    Vector<double> tried = factors(power);
    const double found = cost(graph, chain_, channels_, tried, steps);
    if (found < least_) least_ = found, best_ = std::move(tried);
  }
  return !best_.empty();
}

}  // namespace

Status equalize_activations(qir::Graph &graph, qir::Store &store, const Feed &feed, double activation_steps,
                            double weight_steps, Vector<Change> *changes, bool *changed) {
  *changed = false;
  Vector<Chain> chains = chains_of(graph);
  if (chains.empty()) return {};
  QR_ASSIGN_OR_RETURN(Vector<Channels> seen, look_at_chains(graph, chains, feed));
  OwnConstants own(graph, store);
  qir::Names names(graph);
  Vector<Inserted> inserted;
  for (std::size_t i = 0; i < chains.size(); ++i) {
    QR_RETURN_IF_ERROR(stop_status(kStopped));
    const Chain &chain = chains[i];
    for (double &square : seen[i].square) square /= std::max(seen[i].values, 1.0);
    ChainFactors factors(chain, seen[i], seen[chains.size() + i].reach);
    if (!factors.choose(graph, {activation_steps, weight_steps})) continue;
    const Vector<float> by = factors.by();
    const qir::Node first = graph.nodes[index_of(chain.first)];
    scale_results(graph, first, by, own);
    for (const std::int32_t n : chain.readers) divide_inputs(graph, graph.nodes[index_of(n)], by, own);
    if (factors.gated()) inserted.push_back(undo_for_gate(graph, names, store, chain, by));
    *changed = true;
    if (changes)
      changes->push_back({"activations equalised", first.name,
                          format("%zu channels%s, factors to %.3g; foretold noise %.1f dB less", chain.channels,
                                 factors.gated() ? ", with a Mul before the Sigmoid behind it" : "",
                                 static_cast<double>(*std::ranges::max_element(by)),
                                 10 * real::log10(factors.before() / factors.least()))});
  }
  // From the last on: indices of those before stay what they are.
  std::ranges::sort(inserted, std::greater<>(), &Inserted::before);
  for (Inserted &one : inserted) {
    graph.nodes[index_of(one.before)].inputs.set(0, one.node.outputs[0]);
    graph.nodes.insert(graph.nodes.begin() + one.before, std::move(one.node));
  }
  return {};
}

}  // namespace quarry::quantize
