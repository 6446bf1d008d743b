// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/unsigned.h"

#include <algorithm>
#include <cstring>

#include "graph/edit/graph_edit.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

using qir::Op;

namespace {

bool is_signed_value(const qir::Tensor &tensor) {
  return tensor.quant && tensor.quant->per_tensor() && (tensor.dtype == DType::I8 || tensor.dtype == DType::I16);
}

std::int32_t shift_of(DType dtype) { return dtype == DType::I8 ? 128 : 32768; }
DType unsigned_of(DType dtype) { return dtype == DType::I8 ? DType::U8 : DType::U16; }

void shift(qir::Tensor &tensor) {
  tensor.quant->zero_points[0] += shift_of(tensor.dtype);
  tensor.dtype = unsigned_of(tensor.dtype);
}

class Unsigned {
 public:
  Unsigned(qir::Graph &graph, qir::Store &store, HostBorders &host) : graph_(graph), store_(store), host_(host) {}

  void run() {
    if (std::none_of(graph_.tensors.begin(), graph_.tensors.end(),
                     [](const qir::Tensor &t) { return !t.is_constant && is_signed_value(t); }))
      return;
    const std::size_t count = graph_.tensors.size();
    borders();
    for (std::size_t i = 0; i < count; ++i) {
      qir::Tensor &tensor = graph_.tensors[i];
      if (!tensor.is_constant && is_signed_value(tensor) && !kept(static_cast<std::int32_t>(i))) shift(tensor);
    }
    for (qir::Node &node : graph_.nodes) adapt(node);
    for (qir::Node &node : behind_) graph_.nodes.push_back(std::move(node));
    graph_.nodes.insert(graph_.nodes.begin(), std::make_move_iterator(before_.begin()),
                        std::make_move_iterator(before_.end()));
  }

 private:
  // The host has f32 there, or the model has the signed type, which an Identity converts.
  void borders() {
    HashMap<std::int32_t, std::int32_t> inside;  // by input: what is read instead
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i) {
      const std::int32_t id = graph_.inputs[i];
      if (!is_signed_value(qir::at(graph_, id))) continue;
      if (i < host_.inputs.size() && !host_.inputs[i].name.empty()) {
        host_.inputs[i].zero_point += shift_of(qir::at(graph_, id).dtype);
        continue;
      }
      const std::int32_t inner = twin(id);
      shift(qir::at(graph_, inner));
      inside.emplace(id, inner);
      before_.push_back(identity(id, inner));
      kept_.insert(id);
    }
    const auto turn = [&](std::int32_t &id) {
      if (const auto found = inside.find(id); found != inside.end()) id = found->second;
    };
    for (qir::Node &node : graph_.nodes) std::ranges::for_each(node.inputs, turn);
    std::ranges::for_each(graph_.outputs, turn);
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) {
      const std::int32_t id = graph_.outputs[i];
      if (!is_signed_value(qir::at(graph_, id)) || kept(id)) continue;
      if (i < host_.outputs.size() && !host_.outputs[i].name.empty()) {
        host_.outputs[i].zero_point += shift_of(qir::at(graph_, id).dtype);
        continue;
      }
      const std::int32_t outer = twin(id);
      std::swap(qir::at(graph_, id).name, qir::at(graph_, outer).name);
      graph_.outputs[i] = outer;
      behind_.push_back(identity(id, outer));
      kept_.insert(outer);
    }
  }

  bool kept(std::int32_t id) const { return kept_.contains(id); }

  // Of the same type. What stands at an output may be an input too, so whose twin is shifted its border says.
  std::int32_t twin(std::int32_t id) {
    qir::Tensor made = qir::at(graph_, id);
    made.name += "/unsigned";
    graph_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(graph_.tensors.size() - 1);
  }

  qir::Node identity(std::int32_t from, std::int32_t to) const {
    qir::Node node;
    node.op = Op::Identity;
    node.name = qir::at(graph_, to).name;
    node.inputs = {from};
    node.outputs = {to};
    return node;
  }

  void adapt(qir::Node &node) {
    if (node.op == Op::QuantizeLinear || node.op == Op::DequantizeLinear) {
      const std::int32_t stored = node.op == Op::QuantizeLinear ? node.outputs[0] : node.inputs[0];
      const qir::Tensor like = qir::at(graph_, stored);
      const std::optional<qir::Quantization> said = qir::read_quantization(graph_, node);
      if (like.is_constant || !like.quant || !said || !said->per_tensor() || *said == *like.quant) return;
      node.inputs.resize(1);
      qir::give_quantization(graph_, store_, names_, node, like);
      return;
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] == qir::kAbsent || (is_product(node.op) && i > 0)) continue;
      const qir::Tensor from = qir::at(graph_, node.inputs[i]);
      if (!from.is_constant || !is_signed_value(from)) continue;
      qir::Tensor made = from;
      made.name += "/unsigned";
      auto *const bytes = static_cast<std::uint8_t *>(store_.allocate(from.data.size));
      std::memcpy(bytes, from.data.data, from.data.size);
      const std::size_t size = from.dtype == DType::I8 ? 1 : 2;
      for (std::uint64_t at = size - 1; at < from.data.size; at += size) bytes[at] ^= 0x80;
      made.data = {bytes, from.data.size};
      shift(made);
      node.inputs.set(i, static_cast<std::int32_t>(graph_.tensors.size()));
      graph_.tensors.push_back(std::move(made));
    }
  }

  qir::Graph &graph_;
  qir::Store &store_;
  qir::Names names_{graph_};
  HostBorders &host_;
  Vector<qir::Node> before_, behind_;
  HashSet<std::int32_t> kept_;  // at a border of the model, in the model's type
};

}  // namespace

void make_unsigned(qir::Graph &graph, qir::Store &store, HostBorders &host) { Unsigned(graph, store, host).run(); }

}  // namespace quarry::htp
