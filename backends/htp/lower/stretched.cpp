// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/stretched.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/float16.h"

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

// A product of integers that are a row and a column of one size, each by a Reshape (a mask by its transpose): the
// library takes the Reshapes for ones that it need not do. The larger of a number and the least one is no Reshape.
void keep_outer_products_apart(Draft &draft) {
  static constexpr std::int32_t kLeast = std::numeric_limits<std::int32_t>::min();
  Vector<bool> is_reshaped(draft.tensors.size());
  Vector<DraftNode> nodes;
  for (DraftNode &node : draft.nodes) {
    if (std::string_view(node.type) == "Reshape") is_reshaped[index_of(node.outputs[0])] = true;
    const bool is_outer =
        std::string_view(node.type) == "ElementWiseMultiply" &&
        draft.tensors[index_of(node.outputs[0])].dtype == DataType::I32 &&
        draft.tensors[index_of(node.inputs[0])].dims != draft.tensors[index_of(node.inputs[1])].dims &&
        std::ranges::all_of(node.inputs, [&](std::int32_t id) { return is_reshaped[index_of(id)]; });
    if (is_outer) {
      const DraftTensor &from = draft.tensors[index_of(node.inputs[0])];
      DraftTensor least{format("%s~least%zu", from.name, draft.tensors.size()),
                        TensorType::Static,
                        DataType::I32,
                        {},
                        {},
                        {&kLeast, sizeof kLeast}};
      least.dims.assign(from.dims.size(), 1);
      DraftTensor made = from;
      made.name += format("~apart%zu", draft.tensors.size()).c_str(), made.type = TensorType::Native;
      const auto number = static_cast<std::int32_t>(draft.tensors.size()), apart = number + 1;
      draft.tensors.push_back(std::move(least)), draft.tensors.push_back(std::move(made));
      is_reshaped.resize(draft.tensors.size());
      nodes.push_back({node.name, "ElementWiseMaximum", {node.inputs[0], number}, {apart}, {}, node.source});
      node.inputs[0] = apart;
    }
    nodes.push_back(std::move(node));
  }
  draft.nodes = std::move(nodes);
}

// Whether it is a constant of one float, or of several.
bool is_constant(const DraftTensor &tensor, bool several) {
  std::uint64_t count = 1;
  for (const std::uint32_t extent : tensor.dims) count *= extent;
  return tensor.type == TensorType::Static && tensor.data.data && (count > 1) == several &&
         (tensor.dtype == DataType::F32 || tensor.dtype == DataType::F16);
}

std::int32_t negated(Draft &draft, qir::Store &store, std::int32_t id) {
  DraftTensor made = draft.tensors[index_of(id)];
  made.name += format("~negative%zu", draft.tensors.size()).c_str();
  auto *const bytes = static_cast<std::uint8_t *>(store.allocate(made.data.size));
  std::memcpy(bytes, made.data.data, made.data.size);
  const std::size_t size = made.dtype == DataType::F16 ? 2 : 4;
  for (std::uint64_t i = size - 1; i < made.data.size; i += size) bytes[i] ^= 0x80;  // the sign
  made.data.data = bytes;
  draft.tensors.push_back(std::move(made));
  return static_cast<std::int32_t>(draft.tensors.size() - 1);
}

// A sum with a constant that is multiplied by a number: the library takes the constant's first element for all of it
// where the last axis is not a whole vector. The difference with what is the constant's negative it computes rightly.
// Gives the sums that must stay sums, so that something else stands behind them: of an InstanceNorm, in another shape
// and multiplied by constants, and the sum behind it the library makes one operation (GroupNorm), and cannot prepare it
// with a difference.
HashSet<std::int32_t> subtract_what_is_scaled(Draft &draft, qir::Store &store) {
  const auto tensor = [&](std::int32_t id) -> DraftTensor & { return draft.tensors[index_of(id)]; };
  HashMap<std::int32_t, std::int32_t> sums;   // a sum, or the same in another shape -> the sum
  HashSet<std::int32_t> scaled, norms, left;  // norms: an InstanceNorm, or the same in another shape or scaled
  for (const DraftNode &node : draft.nodes) {
    if (node.custom) continue;
    const std::string_view type = node.type;
    const bool keeps_norm = type == "Reshape" || type == "Transpose" ||
                            (type == "ElementWiseMultiply" && is_constant(tensor(node.inputs[1]), true));
    if (type == "InstanceNorm" || (keeps_norm && norms.contains(node.inputs[0]))) norms.insert(node.outputs[0]);
    if (type == "ElementWiseAdd") {
      if (is_constant(tensor(node.inputs[0]), true) || is_constant(tensor(node.inputs[1]), true))
        sums.emplace(node.outputs[0], node.outputs[0]);
    } else if (type == "Reshape" || type == "Transpose") {
      if (const auto found = sums.find(node.inputs[0]); found != sums.end()) {
        const std::int32_t sum = found->second;
        sums.emplace(node.outputs[0], sum);
      }
    } else if (type == "ElementWiseMultiply") {
      for (int i = 0; i < 2; ++i)
        if (const auto found = sums.find(node.inputs[i]);
            found != sums.end() && is_constant(tensor(node.inputs[1 - i]), false))
          scaled.insert(found->second);
    }
  }
  for (DraftNode &node : draft.nodes) {
    if (node.custom || std::string_view(node.type) != "ElementWiseAdd" || !scaled.count(node.outputs[0])) continue;
    if (is_constant(tensor(node.inputs[0]), true)) std::swap(node.inputs[0], node.inputs[1]);
    if (norms.contains(node.inputs[0])) {
      left.insert(node.outputs[0]);
      continue;
    }
    const std::int32_t negative = negated(draft, store, node.inputs[1]);
    node.type = "ElementWiseSubtract", node.inputs[1] = negative;
  }
  return left;
}

// Products of rows that a Reshape made of columns ([2,33,1] as [2,33]), or the other way round: of a Reshape behind
// them the library takes both for ones that it need not do, and multiplies other elements or fails in the run.
void add_products_of_columns(const Draft &draft, HashMap<std::int32_t, bool> &apart) {
  const auto tensor = [&](std::int32_t id) -> const DraftTensor & { return draft.tensors[index_of(id)]; };
  HashSet<std::int32_t> rows, columns, reshaped;
  for (const DraftNode &node : draft.nodes)
    if (!node.custom && std::string_view(node.type) == "Reshape") reshaped.insert(node.inputs[0]);
  for (const DraftNode &node : draft.nodes) {
    const std::string_view type = node.type;
    if (node.custom || node.inputs.empty()) continue;
    const Vector<std::uint32_t> &from = tensor(node.inputs[0]).dims, &to = tensor(node.outputs[0]).dims;
    if (type == "Reshape" && to.back() == 1 && from.back() > 1) columns.insert(node.outputs[0]);
    if (type == "Reshape" && from.size() > 2 && from.back() == 1 && from[from.size() - 2] > 1 &&
        from[from.size() - 2] == to.back())
      rows.insert(node.outputs[0]);
    const DataType dtype = tensor(node.outputs[0]).dtype;
    const bool is_of_columns = columns.contains(node.inputs[0]) && reshaped.contains(node.outputs[0]);
    if ((type == "MatMul" || type == "FullyConnected") && (rows.contains(node.inputs[0]) || is_of_columns) &&
        (dtype == DataType::F32 || dtype == DataType::F16))
      apart.emplace(node.outputs[0], false);
  }
}

}  // namespace

void keep_stretched_apart(Draft &draft, const Soc &soc, qir::Store &store) {
  keep_outer_products_apart(draft);
  const HashSet<std::int32_t> sums = subtract_what_is_scaled(draft, store);
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
  add_products_of_columns(draft, apart);
  for (const std::int32_t sum : sums) apart[sum] = true;
  if (apart.empty()) return;
  for (const DraftNode &node : draft.nodes)
    for (const std::int32_t id : node.inputs)
      if (const auto found = apart.find(id); found != apart.end() && !has(kRight, node.type)) found->second = true;
  // Architectures that compute in f32 keep its numbers.
  const float most = soc.arch < 69 ? std::numeric_limits<float>::max() : kLargestF16;
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
