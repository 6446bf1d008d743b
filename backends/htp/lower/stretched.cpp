// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/stretched.h"

#include <algorithm>
#include <limits>

namespace quarry::htp {

using qnn::DataType;
using qnn::TensorType;

namespace {

constexpr std::string_view kWrong[] = {"ElementWiseAdd", "ElementWiseMultiply"};
// Measured right behind such a sum, whatever its dimensions.
constexpr std::string_view kRight[] = {"FullyConnected", "LogSoftmax", "MatMul", "ReluMinMax", "Softmax"};

template <std::size_t kCount>
bool has(const std::string_view (&list)[kCount], const char *type) {
  return std::ranges::find(list, std::string_view(type)) != std::end(list);
}

// Rows and columns of its own, and one matrix where the result has several.
bool is_stretched(const DraftTensor &operand, const DraftTensor &result) {
  const std::size_t rank = result.dims.size(), own = operand.dims.size();
  if (rank < 3) return false;
  const auto extent = [&](std::size_t back) { return back > own ? 1u : operand.dims[own - back]; };
  return extent(1) > 1 && extent(2) > 1 && extent(3) == 1 && result.dims[rank - 3] > 1;
}

}  // namespace

void keep_stretched_apart(Draft &draft, const Soc &soc) {
  const auto tensor = [&](std::int32_t id) -> DraftTensor & { return draft.tensors[index_of(id)]; };
  const auto is_wanted = [&](const DraftNode &node) {
    if (node.custom || !has(kWrong, node.type)) return false;
    const DraftTensor &y = tensor(node.outputs[0]);
    if (y.dtype != DataType::F32 && y.dtype != DataType::F16) return false;
    return std::ranges::any_of(node.inputs, [&](std::int32_t id) { return is_stretched(tensor(id), y); });
  };
  HashMap<std::int32_t, bool> apart;  // by result: whether somebody reads it wrongly
  for (const DraftNode &node : draft.nodes)
    if (is_wanted(node)) apart.emplace(node.outputs[0], false);
  if (apart.empty()) return;
  for (const DraftNode &node : draft.nodes)
    for (const std::int32_t id : node.inputs)
      if (const auto found = apart.find(id); found != apart.end() && !has(kRight, node.type)) found->second = true;
  // Architectures that compute in f32 keep its numbers.
  const float most = soc.arch < 69 ? std::numeric_limits<float>::max() : 65504.0f;
  HashMap<std::int32_t, std::int32_t> clipped;  // what is read instead
  Vector<DraftNode> nodes;
  for (DraftNode &node : draft.nodes) {
    for (std::int32_t &id : node.inputs)
      if (const auto found = clipped.find(id); found != clipped.end()) id = found->second;
    const std::int32_t y = node.outputs.empty() ? -1 : node.outputs[0];
    const auto found = apart.find(y);
    const bool is_apart = found != apart.end() && found->second;
    DraftNode clip;
    if (is_apart) {
      DraftTensor made = tensor(y);
      made.name += "~apart";
      made.type = TensorType::Native;
      draft.tensors.push_back(std::move(made));
      clip = {node.name, "ReluMinMax", {y}, {static_cast<std::int32_t>(draft.tensors.size() - 1)}, {}, node.source};
      clip.params.push_back({"min_value", -most});
      clip.params.push_back({"max_value", most});
      clipped.emplace(y, clip.outputs[0]);
    }
    nodes.push_back(std::move(node));
    if (is_apart) nodes.push_back(std::move(clip));
  }
  draft.nodes = std::move(nodes);
}

}  // namespace quarry::htp
