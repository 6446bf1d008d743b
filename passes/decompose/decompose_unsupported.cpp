// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "passes/decompose/decompose.h"

namespace quarry::passes {

using qir::at;
using qir::Op;

std::int32_t Decomposer::number(DType dtype, double value) {
  const auto put = [&](auto stored) { return constant({}, &stored, sizeof stored, dtype); };
  switch (dtype) {
    case DType::F16: return put(f32_to_f16(static_cast<float>(value)));
    case DType::I32: return put(static_cast<std::int32_t>(value));
    case DType::I64: return put(static_cast<std::int64_t>(value));
    default: return put(static_cast<float>(value));
  }
}

std::int32_t Decomposer::slice(std::int32_t x, std::size_t axis, std::int64_t from, std::int64_t end,
                               std::int64_t step) {
  qir::Shape shape = tensor(x).shape;
  shape[axis] = (end - from + step - 1) / step;
  const std::int32_t starts = ints({from}), ends = ints({end}), axes = ints({static_cast<std::int64_t>(axis)}),
                     steps = ints({step});
  return of(Op::Slice, {x, starts, ends, axes, steps}, tensor(x).dtype, shape);
}

std::int32_t Decomposer::constant_like(const qir::Tensor &like, const qir::Shape &shape, const void *data,
                                       std::size_t bytes) {
  const std::int32_t id = to_.tensor(like.name, like.dtype, shape);
  qir::Tensor &made = at(to_.graph, id);
  made.quant = like.quant;
  made.is_constant = true;
  made.data = to_.store.copy(data, bytes);
  return id;
}

bool Decomposer::give_constant(std::span<const float> values) {
  qir::Tensor &made = at(to_.graph, node_.outputs[0]);
  const auto write = [&](auto type) {
    using T = decltype(type);
    Vector<T> stored;
    for (const float value : values) {
      if (std::is_same_v<T, std::uint16_t>) stored.push_back(static_cast<T>(f32_to_f16(value)));
      else stored.push_back(static_cast<T>(value));
    }
    made.data = to_.store.copy(stored.data(), stored.size() * sizeof(T));
    made.is_constant = true;
    return true;
  };
  switch (made.dtype) {
    case DType::F32: return write(float{});
    case DType::F16: return write(std::uint16_t{});
    case DType::I32: return write(std::int32_t{});
    case DType::I64: return write(std::int64_t{});
    case DType::U8:
    case DType::Bool: return write(std::uint8_t{});
    default: return false;
  }
}

namespace {

bool has_known_shapes(const qir::Graph &graph, const qir::Node &node) {
  for (const auto *list : {&node.inputs, &node.outputs})
    for (const std::int32_t id : *list)
      if (id != qir::kAbsent &&
          std::ranges::any_of(at(graph, id).shape, [](std::int64_t extent) { return extent < 0; }))
        return false;
  return true;
}

bool has_real_elements(const qir::Graph &graph, const qir::Node &node) {
  for (const auto *list : {&node.inputs, &node.outputs}) {
    if (list->empty() || list->front() == qir::kAbsent) return false;
    for (const std::int32_t id : *list) {
      if (id == qir::kAbsent) continue;
      const qir::Tensor &one = at(graph, id);
      if (one.quant || std::ranges::any_of(one.shape, [](std::int64_t dimension) { return dimension < 1; }))
        return false;
    }
  }
  return node.subgraphs.empty();
}

}  // namespace

void decompose_nodes(qir::Graph &graph, Store &store, NodeTest stays, bool (*decompose)(Decomposer &)) {
  Rewriting rewriting(graph, store);
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return;
    if (has_real_elements(graph, node) && !(stays && stays(graph, node))) {
      Decomposer decomposer(rewriting, node, DType::F32);
      if (decompose(decomposer)) continue;
    }
    rewriting.keep(std::move(node));
  }
}

void decompose_unsupported(qir::Graph &graph, Store &store, NodeTest wanted, bool has_infinities) {
  if (std::ranges::none_of(graph.nodes, [&](const qir::Node &node) { return wanted(graph, node); })) return;
  Rewriting rewriting(graph, store);
  rewriting.has_infinities = has_infinities;
  bool again = false;  // a loss became another one
  for (qir::Node &node : rewriting.old) {
    if (stop_asked()) return;
    if (wanted(graph, node) && node.subgraphs.empty() && has_known_shapes(graph, node)) {
      const bool half =
          !node.inputs.empty() && node.inputs[0] != qir::kAbsent && at(graph, node.inputs[0]).dtype == DType::F16;
      Decomposer decomposer(rewriting, node, half ? DType::F16 : DType::F32);
      if (decompose_composites(decomposer) || decompose_elements(decomposer) || decompose_contractions(decomposer) ||
          decompose_pools(decomposer) || decompose_order(decomposer) || decompose_integers(decomposer) ||
          decompose_losses(decomposer) || decompose_movement(decomposer) || decompose_signals(decomposer) ||
          decompose_bits(decomposer) || decompose_regions(decomposer)) {
        again |= node.op == Op::SoftmaxCrossEntropyLoss;
        continue;
      }
    }
    rewriting.keep(std::move(node));
  }
  if (again) decompose_unsupported(graph, store, wanted, has_infinities);
}

}  // namespace quarry::passes
