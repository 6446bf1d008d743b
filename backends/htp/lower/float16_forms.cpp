// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/float16_forms.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace quarry::htp {

using qnn::DataType;
using qnn::TensorType;

namespace {

// Measured, one graph of one operation each.
constexpr std::string_view kHalfAlone[] = {"DepthToSpace",
                                           "ElementWiseAtan",
                                           "ElementWiseNeuron",
                                           "ElementWiseRound",
                                           "ElementWiseSelect",
                                           "Elu",
                                           "Gather",
                                           "GatherElements",
                                           "GatherNd",
                                           "Gelu",
                                           "GridSample",
                                           "LayerNorm",
                                           "PoolAvg2d",
                                           "PoolMax2d",
                                           "RmsNorm",
                                           "ScatterElements",
                                           "ScatterNd",
                                           "SpaceToDepth"};
// What the library's own tables take in bf16, of those that compute.
constexpr std::string_view kBrain[] = {"Concat",
                                       "Conv2d",
                                       "DepthWiseConv2d",
                                       "ElementWiseAdd",
                                       "ElementWiseDivide",
                                       "ElementWiseExp",
                                       "ElementWiseMultiply",
                                       "ElementWiseNeuron",
                                       "ElementWiseRsqrt",
                                       "ElementWiseSquareRoot",
                                       "ElementWiseSubtract",
                                       "FullyConnected",
                                       "Gelu",
                                       "LayerNorm",
                                       "MatMul",
                                       "Pad",
                                       "PoolAvg2d",
                                       "PoolMax2d",
                                       "Prelu",
                                       "ReduceMean",
                                       "ReduceSum",
                                       "Relu",
                                       "Relu1",
                                       "Relu6",
                                       "ReluMinMax",
                                       "Reshape",
                                       "RmsNorm",
                                       "Sigmoid",
                                       "Softmax",
                                       "Split",
                                       "StridedSlice",
                                       "Tile",
                                       "Transpose",
                                       "TransposeConv2d"};
// These are where types change.
constexpr std::string_view kAsIs[] = {"Cast", "Dequantize", "Quantize"};

template <std::size_t kCount>
bool has(const std::string_view (&list)[kCount], const char *type) {
  return std::ranges::find(list, std::string_view(type)) != std::end(list);
}

class HalfForms {
 public:
  enum class Which : std::uint8_t { Alone, All, Brain };
  HalfForms(Draft &draft, qir::Store &store, Which which) : draft_(draft), store_(store), which_(which) {}

  void run() {
    Vector<DraftNode> old = std::move(draft_.nodes);
    draft_.nodes = {};
    for (DraftNode &node : old) {
      if (!wants(node.type)) {
        draft_.nodes.push_back(std::move(node));
        continue;
      }
      Vector<DraftNode> behind;
      for (std::int32_t &id : node.inputs)
        if (is_float(id)) id = narrowed(id, node);
      for (std::int32_t &id : node.outputs) {
        if (!is_float(id)) continue;
        const std::int32_t half = add(id);
        behind.push_back(cast(half, id, node));
        narrow_[id] = half;
        id = half;
      }
      draft_.nodes.push_back(std::move(node));
      for (DraftNode &one : behind) {
        widened_.push_back(one.outputs[0]);
        draft_.nodes.push_back(std::move(one));
      }
    }
    drop_unread();
  }

 private:
  bool wants(const char *type) const {
    return which_ == Which::All     ? !has(kAsIs, type)
           : which_ == Which::Brain ? has(kBrain, type)
                                    : has(kHalfAlone, type);
  }
  // The f32 results that only nodes of f16 read.
  void drop_unread() {
    Vector<bool> read(draft_.tensors.size(), false);
    for (const DraftNode &node : draft_.nodes)
      for (const std::int32_t id : node.inputs) read[index_of(id)] = true;
    Vector<bool> goes(draft_.tensors.size(), false);
    for (const std::int32_t id : widened_)
      goes[index_of(id)] = !read[index_of(id)] && tensor(id).type == TensorType::Native;
    std::erase_if(draft_.nodes, [&](const DraftNode &node) { return goes[index_of(node.outputs[0])]; });
  }
  DraftTensor &tensor(std::int32_t id) { return draft_.tensors[index_of(id)]; }
  bool is_float(std::int32_t id) { return tensor(id).dtype == DataType::F32; }
  std::int32_t add(std::int32_t like) {
    DraftTensor made = tensor(like);
    made.name += format("~half%zu", draft_.tensors.size()).c_str();
    made.type = TensorType::Native;
    made.dtype = which_ == Which::Brain ? DataType::BF16 : DataType::F16;
    made.data = {};
    draft_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }
  static DraftNode cast(std::int32_t from, std::int32_t to, const DraftNode &like) {
    return {like.name, "Cast", {from}, {to}, {}, like.source};
  }
  std::int32_t narrowed(std::int32_t id, const DraftNode &node) {
    const auto found = narrow_.find(id);
    if (found != narrow_.end()) return found->second;
    const std::int32_t made = add(id);
    if (tensor(id).type == TensorType::Static) {
      const std::uint64_t count = tensor(id).data.size / 4;
      auto *const halves = static_cast<std::uint16_t *>(store_.allocate(count * 2));
      for (std::uint64_t i = 0; i < count; ++i) {
        float value;
        std::memcpy(&value, static_cast<const std::uint8_t *>(tensor(id).data.data) + 4 * i, 4);
        if (which_ == Which::Brain) halves[i] = f32_to_bf16(value);
        else halves[i] = f32_to_f16(std::isnan(value) ? value : std::clamp(value, -kLargestF16, kLargestF16));
      }
      tensor(made).type = TensorType::Static;
      tensor(made).data = {halves, count * 2};
    } else {
      draft_.nodes.push_back(cast(id, made, node));
    }
    narrow_.emplace(id, made);
    return made;
  }

  Draft &draft_;
  qir::Store &store_;
  const Which which_;
  HashMap<std::int32_t, std::int32_t> narrow_;
  Vector<std::int32_t> widened_;  // f32 results that a Cast writes
};

}  // namespace

void give_float16_forms(Draft &draft, const Soc &soc, bool half_precision, qir::Store &store) {
  if (soc.arch == 68) HalfForms(draft, store, half_precision ? HalfForms::Which::All : HalfForms::Which::Alone).run();
}

void give_brain_forms(Draft &draft, qir::Store &store) { HalfForms(draft, store, HalfForms::Which::Brain).run(); }

}  // namespace quarry::htp
