// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/divisors.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/float16.h"

namespace quarry::htp {

namespace {

using qnn::DataType;
using qnn::TensorType;

// A divisor past this has no reciprocal in the library's f16: the quotient is 0. An eighth of any number of f16 has
// one.
constexpr float kMostDivisor = 16384, kDown = 0.125f;

class Divisions {
 public:
  Divisions(Draft &draft, qir::Store &store) : draft_(draft), store_(store) {}

  void run() {
    if (std::ranges::none_of(draft_.nodes, [&](const DraftNode &node) { return divides(node); })) return;
    Vector<DraftNode> old = std::move(draft_.nodes);
    draft_.nodes = {};
    for (DraftNode &node : old) {
      if (divides(node) && bound_of(node.inputs[1]) > kMostDivisor) {
        scale(std::move(node));
      } else {
        for (const std::int32_t id : node.outputs) bounds_[id] = bound(node);
        draft_.nodes.push_back(std::move(node));
      }
    }
  }

 private:
  DraftTensor &tensor(std::int32_t id) { return draft_.tensors[index_of(id)]; }
  static bool is(const DraftNode &node, std::string_view type) { return type == node.type; }
  bool divides(const DraftNode &node) {
    if (!is(node, "ElementWiseDivide")) return false;
    const DataType dtype = tensor(node.outputs[0]).dtype;
    return dtype == DataType::F32 || dtype == DataType::F16;
  }

  // A number that none of a tensor's is further from 0 than.
  float bound_of(std::int32_t id) {
    if (const auto found = bounds_.find(id); found != bounds_.end()) return found->second;
    const DraftTensor &from = tensor(id);
    if (from.type != TensorType::Static || from.dtype != DataType::F32 || !from.data.data) return kLargestF16;
    float most = 0;
    for (std::uint64_t i = 0; i < from.data.size / sizeof(float); ++i)
      most = std::max(most, std::fabs(float_at(from, i)));
    return bounds_[id] = std::isnan(most) ? kLargestF16 : std::min(most, kLargestF16);
  }
  static float float_at(const DraftTensor &from, std::uint64_t i) {
    float value;
    std::memcpy(&value, static_cast<const std::uint8_t *>(from.data.data) + sizeof value * i, sizeof value);
    return value;
  }
  float bound(const DraftNode &node) {
    constexpr std::string_view kToOne[] = {"ElementWiseCos", "ElementWiseSign", "ElementWiseSin",
                                           "Sigmoid",        "Softmax",         "Tanh"};
    constexpr std::string_view kKeep[] = {"Cast",         "ElementWiseAbs", "ElementWiseNeg", "ExpandDims", "ReduceMax",
                                          "ReduceMean",   "ReduceMin",      "Relu",           "Reshape",    "Squeeze",
                                          "StridedSlice", "Tile",           "Transpose"};
    const std::string_view type = node.type;
    if (std::ranges::find(kToOne, type) != std::end(kToOne)) return 1;
    if (std::ranges::find(kKeep, type) != std::end(kKeep)) return bound_of(node.inputs[0]);
    if (type == "ElementWiseSquareRoot") return std::sqrt(bound_of(node.inputs[0]));
    if (type == "ElementWiseAdd") return std::min(bound_of(node.inputs[0]) + bound_of(node.inputs[1]), kLargestF16);
    if (type == "ElementWiseMaximum") return std::max(bound_of(node.inputs[0]), bound_of(node.inputs[1]));
    if (type == "ReluMinMax") {
      float most = 0;
      for (const DraftParam &param : node.params)
        if (const float *const value = std::get_if<float>(&param.value)) most = std::max(most, std::fabs(*value));
      return std::min(most, bound_of(node.inputs[0]));
    }
    return kLargestF16;
  }

  std::int32_t add(std::int32_t like, const char *suffix, DataType dtype, Vector<std::uint32_t> dims,
                   qir::Bytes data = {}) {
    DraftTensor made;
    made.name = format("%s~%s%zu", tensor(like).name, suffix, draft_.tensors.size());
    made.type = data.data ? TensorType::Static : TensorType::Native;
    made.dtype = dtype, made.dims = std::move(dims), made.data = data;
    draft_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(draft_.tensors.size() - 1);
  }
  // One number, of as many axes as the divisor.
  std::int32_t number(std::int32_t like, float value) {
    const DataType dtype = tensor(like).dtype;
    const Vector<std::uint32_t> dims(tensor(like).dims.size(), 1);
    const std::uint16_t half = f32_to_f16(value);
    return add(like, "number", dtype, dims,
               dtype == DataType::F16 ? store_.copy(&half, sizeof half) : store_.copy(&value, sizeof value));
  }

  // a / b as a / (b * f) * f, where f is an eighth for the divisors that are too large, and 1 for all others.
  void scale(DraftNode &&node) {
    const std::int32_t by = node.inputs[1], result = node.outputs[0];
    const Vector<std::uint32_t> dims = tensor(by).dims;
    const DataType dtype = tensor(by).dtype;
    const auto emit = [&](const char *type, std::initializer_list<std::int32_t> inputs, std::int32_t to) {
      draft_.nodes.push_back({node.name, type, inputs, {to}, {}, node.source});
      return to;
    };
    const std::int32_t eighth = number(by, kDown), one = number(by, 1), limit = number(by, kMostDivisor);
    const std::int32_t size = emit("ElementWiseAbs", {by}, add(by, "size", dtype, dims));
    const std::int32_t is_large = emit("ElementWiseGreater", {size, limit}, add(by, "large", DataType::Bool8, dims));
    const std::int32_t factor = emit("ElementWiseSelect", {is_large, eighth, one}, add(by, "factor", dtype, dims));
    const std::int32_t smaller = emit("ElementWiseMultiply", {by, factor}, add(by, "scaled", dtype, dims));
    const std::int32_t quotient = add(result, "quotient", tensor(result).dtype, tensor(result).dims);
    node.inputs[1] = smaller, node.outputs[0] = quotient;
    const DraftNode like = node;
    draft_.nodes.push_back(std::move(node));
    draft_.nodes.push_back({like.name, "ElementWiseMultiply", {quotient, factor}, {result}, {}, like.source});
  }

  Draft &draft_;
  qir::Store &store_;
  HashMap<std::int32_t, float> bounds_;
};

}  // namespace

void scale_divisions(Draft &draft, qir::Store &store) { Divisions(draft, store).run(); }

}  // namespace quarry::htp
