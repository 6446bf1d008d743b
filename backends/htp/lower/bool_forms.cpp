// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/bool_forms.h"

#include <algorithm>

namespace quarry::htp {

using qnn::DataType;
using qnn::TensorType;

namespace {

// Those of which the library's tables say nothing of bools. They move values, or take the larger or smaller one.
constexpr std::string_view kNoBools[] = {"Gather",    "GatherElements", "GatherNd",        "Pad",
                                         "ReduceMax", "ReduceMin",      "ScatterElements", "StridedSlice"};

class BoolForms {
 public:
  BoolForms(Draft &draft, qir::Store &store) : draft_(draft), store_(store) {}

  void run() {
    if (std::ranges::none_of(draft_.nodes, [&](const DraftNode &node) { return is_wanted(node); })) return;
    Vector<DraftNode> old = std::move(draft_.nodes);
    draft_.nodes = {};
    for (DraftNode &node : old) {
      if (!is_wanted(node)) {
        draft_.nodes.push_back(std::move(node));
        continue;
      }
      for (std::int32_t &id : node.inputs)
        if (is_bool(id)) id = counted(id, node);
      Vector<std::int32_t> results;
      for (std::int32_t &id : node.outputs) {
        results.push_back(id);
        if (is_bool(id)) id = bytes_[id] = add(id);
      }
      const DraftNode like = node;
      draft_.nodes.push_back(std::move(node));
      for (std::size_t i = 0; i < results.size(); ++i) {
        if (!is_bool(results[i])) continue;
        made_.push_back(results[i]);
        draft_.nodes.push_back(
            {like.name, "ElementWiseNotEqual", {like.outputs[i], zero()}, {results[i]}, {}, like.source});
      }
    }
    drop_unread();
  }

 private:
  DraftTensor &tensor(std::int32_t id) { return draft_.tensors[index_of(id)]; }
  bool is_bool(std::int32_t id) { return tensor(id).dtype == DataType::Bool8; }
  bool is_wanted(const DraftNode &node) {
    return !node.custom && std::ranges::find(kNoBools, std::string_view(node.type)) != std::end(kNoBools) &&
           std::ranges::any_of(node.outputs, [&](std::int32_t id) { return is_bool(id); });
  }
  std::int32_t add(std::int32_t like) {
    DraftTensor made = tensor(like);
    made.name += format("~u8_%zu", draft_.tensors.size()).c_str();
    made.type = made.data.data ? TensorType::Static : TensorType::Native;
    made.dtype = DataType::UQ8;
    made.encoding.scales = {1}, made.encoding.zero_points = {0};
    draft_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }
  std::int32_t counted(std::int32_t id, const DraftNode &like) {
    if (const auto found = bytes_.find(id); found != bytes_.end()) return found->second;
    const std::int32_t made = add(id);
    if (tensor(made).type != TensorType::Static)
      draft_.nodes.push_back({like.name, "Cast", {id}, {made}, {}, like.source});
    bytes_.emplace(id, made);
    return made;
  }
  std::int32_t zero() {
    if (zero_ >= 0) return zero_;
    const std::uint8_t nothing = 0;
    draft_.tensors.push_back(
        {"zero~u8", TensorType::Static, DataType::UQ8, {1}, {{1}, {0}, 0, 0, {}, {}}, store_.copy(&nothing, 1)});
    return zero_ = static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }

  // Bools of which the next one reads the bytes.
  void drop_unread() {
    Vector<bool> read(draft_.tensors.size()), goes(draft_.tensors.size());
    for (const DraftNode &node : draft_.nodes)
      for (const std::int32_t id : node.inputs) read[index_of(id)] = true;
    for (const std::int32_t id : made_)
      goes[index_of(id)] = !read[index_of(id)] && tensor(id).type == TensorType::Native;
    std::erase_if(draft_.nodes, [&](const DraftNode &node) { return goes[index_of(node.outputs[0])]; });
  }

  Draft &draft_;
  qir::Store &store_;
  Vector<std::int32_t> made_;
  HashMap<std::int32_t, std::int32_t> bytes_;  // by bool: the same as u8
  std::int32_t zero_ = -1;
};

}  // namespace

void give_bool_forms(Draft &draft, qir::Store &store) { BoolForms(draft, store).run(); }

}  // namespace quarry::htp
