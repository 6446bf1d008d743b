// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/overflow.h"

#include <algorithm>
#include <limits>

#include "base/float16.h"

namespace quarry::htp {

namespace {

using qnn::DataType;
using qnn::TensorType;

// Of these a result may be past what the operands are.
constexpr std::string_view kGrow[] = {"Batchnorm",
                                      "Cast",
                                      "Conv2d",
                                      "Conv3d",
                                      "CumulativeSum",
                                      "DepthWiseConv2d",
                                      "Dequantize",
                                      "ElementWiseAdd",
                                      "ElementWiseBinary",
                                      "ElementWiseDivide",
                                      "ElementWiseExp",
                                      "ElementWiseMultiply",
                                      "ElementWisePower",
                                      "ElementWiseRsqrt",
                                      "ElementWiseSubtract",
                                      "FullyConnected",
                                      "MatMul",
                                      "ReduceProd",
                                      "ReduceSum",
                                      "TransposeConv2d",
                                      "TransposeConv3d"};

class Clamps {
 public:
  explicit Clamps(Draft &draft) : draft_(draft) {}

  void run() {
    Vector<DraftNode> old = std::move(draft_.nodes);
    draft_.nodes = {};
    // The host gives f32, of which the device makes f16.
    HashMap<std::int32_t, std::int32_t> inputs;
    for (const IoBinding &border : draft_.inputs) {
      if (border.tensor < 0 || !is_float(border.tensor)) continue;
      const std::int32_t made = like(border.tensor);
      add(border.tensor, made, "clamp " + border.name, qir::kNoSource);
      inputs.emplace(border.tensor, made);
    }
    for (DraftNode &node : old) {
      for (std::int32_t &id : node.inputs)
        if (const auto found = inputs.find(id); found != inputs.end()) id = found->second;
      const bool grows = std::ranges::find(kGrow, std::string_view(node.type)) != std::end(kGrow);
      draft_.nodes.push_back(std::move(node));
      if (!grows) continue;
      const std::size_t at = draft_.nodes.size() - 1;
      for (std::size_t i = 0; i < draft_.nodes[at].outputs.size(); ++i) {
        const std::int32_t to = draft_.nodes[at].outputs[i];
        if (!is_float(to)) continue;
        const std::int32_t made = like(to);
        draft_.nodes[at].outputs[i] = made;
        add(made, to, draft_.nodes[at].name, draft_.nodes[at].source);
      }
    }
  }

 private:
  bool is_float(std::int32_t id) const {
    const DataType dtype = draft_.tensors[index_of(id)].dtype;
    return dtype == DataType::F32 || dtype == DataType::F16;
  }
  std::int32_t like(std::int32_t id) {
    DraftTensor made = draft_.tensors[index_of(id)];
    made.name += format("~clamped%zu", draft_.tensors.size()).c_str();
    made.type = TensorType::Native;
    draft_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }
  void add(std::int32_t from, std::int32_t to, const String &name, std::int32_t source) {
    draft_.nodes.push_back(
        {name, "ReluMinMax", {from}, {to}, {{"min_value", -kLargestF16}, {"max_value", kLargestF16}}, source});
  }
  Draft &draft_;
};

struct Bounds {
  std::string_view type;
  float least, most;
};
// Where the library is wrong past them, and the result within them is that of all beyond to f16. An exponential below
// -88 is -131008 or 131008 there; the arc tangent of 40000 is 131008.
constexpr Bounds kBounds[] = {{"ElementWiseExp", -80, std::numeric_limits<float>::max()},
                              {"ElementWiseAtan", -16384, 16384}};

struct Limits {
  float least = std::numeric_limits<float>::lowest(), most = std::numeric_limits<float>::max();
};

Limits limits_of(const DraftNode &clamp) {
  Limits out;
  for (const DraftParam &param : clamp.params)
    if (const float *const value = std::get_if<float>(&param.value))
      (std::string_view(param.name) == "min_value" ? out.least : out.most) = *value;
  return out;
}

}  // namespace

void bound_operands(Draft &draft) {
  Vector<DraftNode> nodes;
  HashMap<std::int32_t, Limits> clamped;  // by the tensor
  for (DraftNode &node : draft.nodes) {
    if (std::string_view(node.type) == "ReluMinMax") clamped.emplace(node.outputs[0], limits_of(node));
    const Bounds *const bounds = std::ranges::find(kBounds, std::string_view(node.type), &Bounds::type);
    if (bounds != std::end(kBounds) && draft.tensors[index_of(node.inputs[0])].encoding.scales.empty()) {
      const std::int32_t x = node.inputs[0];
      const auto found = clamped.find(x);
      if (found == clamped.end() || found->second.least < bounds->least || found->second.most > bounds->most) {
        DraftTensor made = draft.tensors[index_of(x)];
        made.name = draft.tensors[index_of(node.outputs[0])].name + "~bounded";
        made.type = TensorType::Native, made.data = {};
        node.inputs[0] = static_cast<std::int32_t>(draft.tensors.size());
        draft.tensors.push_back(std::move(made));
        nodes.push_back({node.name,
                         "ReluMinMax",
                         {x},
                         {node.inputs[0]},
                         {{"min_value", bounds->least}, {"max_value", bounds->most}},
                         node.source});
      }
    }
    nodes.push_back(std::move(node));
  }
  draft.nodes = std::move(nodes);
}

void clamp_overflow(Draft &draft) { Clamps(draft).run(); }

}  // namespace quarry::htp
