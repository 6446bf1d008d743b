// SPDX-License-Identifier: Apache-2.0
// A plan as nodes. A quantised tensor X goes through one QuantizeLinear and one DequantizeLinear that all its readers
// share; where some read it in another type:
//
//   maker -> Q1 -+-> DQ1 -> readers of the first type
//                +-> DQ1' -> Q2 -> DQ2 -> readers of the second     (without DQ1 where nobody reads the first type)
#include <algorithm>

#include "graph/ops/quantization.h"
#include "quantize/plan/plan.h"
#include "quantize/plan/weights.h"

namespace quarry::quantize {

using qir::at;
using qir::Op;

namespace {

class Writer {
 public:
  Writer(const qir::Graph &from, const Plan &plan, qir::Store &store)
      : from_(from),
        plan_(plan),
        store_(store),
        uses_(from),
        own_(from.tensors.size(), qir::kAbsent),
        converted_(from.tensors.size(), qir::kAbsent) {
    graph_.name = from.name;
    graph_.tensors = from.tensors;
    graph_.inputs = from.inputs;
    graph_.outputs = from.outputs;
  }

  qir::Graph write() {
    for (const std::int32_t id : from_.inputs) quantize(id, id, false);
    for (std::size_t n = 0; n < from_.nodes.size(); ++n)
      if (!plan_.absorbed[n]) node(n);
    qir::compact(graph_, Vector<bool>(graph_.nodes.size()));
    return std::move(graph_);
  }

 private:
  std::int32_t tensor(const String &name, DType dtype, const qir::Shape &shape) {
    qir::Tensor made;
    made.name = names_.fresh(name);
    made.dtype = dtype;
    made.shape = shape;
    graph_.tensors.push_back(std::move(made));
    return static_cast<std::int32_t>(graph_.tensors.size() - 1);
  }

  void change(Op op, const String &name, std::int32_t input, std::int32_t output, DType dtype,
              const qir::Quantization &quant) {
    qir::Tensor like = at(graph_, input);
    like.dtype = dtype;
    like.quant = quant;
    qir::Node made;
    made.op = op;
    made.name = name;
    made.inputs = {input};
    made.outputs = {output};
    qir::give_quantization(graph_, store_, names_, made, like);
    graph_.nodes.push_back(std::move(made));
  }
  static qir::Quantization quantization(const Encoding &encoding) {
    qir::Quantization out;
    out.scales = {encoding.scale};
    out.zero_points = {encoding.zero_point};
    return out;
  }

  // Q and DQ for a tensor: `real` is what its maker gives, `id` the tensor of the float graph.
  void quantize(std::int32_t id, std::int32_t real, bool is_output) {
    const Activation &a = plan_.activations[index_of(id)];
    if (!a.quantized) return;
    const String name = at(from_, id).name;
    const qir::Shape shape = at(from_, id).shape;
    const bool all_converted = a.has_convert && std::ranges::all_of(uses_.users(id), [&](std::int32_t n) {
                                 return std::ranges::find(a.receivers, n) != a.receivers.end();
                               });
    const std::int32_t stored = tensor(name + "_QuantizeLinear_Output", a.encoding.dtype, shape);
    change(Op::QuantizeLinear, name + "_QuantizeLinear", real, stored, a.encoding.dtype, quantization(a.encoding));
    own_[index_of(id)] =
        is_output && !all_converted ? id : tensor(name + "_DequantizeLinear_Output", DType::F32, shape);
    change(Op::DequantizeLinear, name + "_DequantizeLinear", stored, own_[index_of(id)], a.encoding.dtype,
           quantization(a.encoding));
    if (!a.has_convert) return;
    std::int32_t before = own_[index_of(id)];
    if (!all_converted) {
      before = tensor(name + "_convert_QuantizeLinear_Input", DType::F32, shape);
      change(Op::DequantizeLinear, name + "_convert_clone_DequantizeLinear", stored, before, a.encoding.dtype,
             quantization(a.encoding));
    }
    const std::int32_t again = tensor(name + "_convert_QuantizeLinear_Output", a.converted.dtype, shape);
    change(Op::QuantizeLinear, name + "_convert_QuantizeLinear", before, again, a.converted.dtype,
           quantization(a.converted));
    converted_[index_of(id)] =
        is_output && all_converted ? id : tensor(name + "_convert_DequantizeLinear_Output", DType::F32, shape);
    change(Op::DequantizeLinear, name + "_convert_DequantizeLinear", again, converted_[index_of(id)], a.converted.dtype,
           quantization(a.converted));
  }

  std::int32_t constant(const Constant &constant) {
    const auto [first, last] = constants_.equal_range(constant.tensor);
    for (auto at = first; at != last; ++at) {
      const auto &[known, real] = at->second;
      if (known->dtype == constant.dtype && known->quant == constant.quant && known->stored == constant.stored)
        return real;
    }
    const String name = at(from_, constant.tensor).name;
    const qir::Shape shape = at(from_, constant.tensor).shape;
    const std::int32_t stored = tensor(name + "_quantized", constant.dtype, shape);
    const Vector<std::uint8_t> bytes = packed(constant.dtype, constant.stored);
    at(graph_, stored).is_constant = true;
    at(graph_, stored).data = store_.copy(bytes.data(), bytes.size());
    const std::int32_t real = tensor(name + "_DequantizeLinear_Output", DType::F32, shape);
    change(Op::DequantizeLinear, name + "_DequantizeLinear", stored, real, constant.dtype, constant.quant);
    constants_.emplace(constant.tensor, std::pair(&constant, real));
    return real;
  }

  // What a node reads of a tensor.
  std::int32_t read(std::size_t n, std::int32_t id) const {
    const Activation &a = plan_.activations[index_of(id)];
    if (!a.quantized) return id;
    if (plan_.quantized[n])
      return std::ranges::find(a.receivers, static_cast<std::int32_t>(n)) != a.receivers.end()
                 ? converted_[index_of(id)]
                 : own_[index_of(id)];
    // Float nodes read what float nodes make as it is.
    const std::int32_t maker = uses_.maker(id);
    const bool made_in_float = maker == qir::Uses::kNobody || !plan_.quantized[index_of(maker)];
    return made_in_float && !uses_.is_output(id) ? id : own_[index_of(id)];
  }

  void node(std::size_t n) {
    qir::Node made = from_.nodes[n];
    for (std::size_t i = 0; i < made.inputs.size(); ++i) {
      const std::int32_t id = made.inputs[i];
      if (id == qir::kAbsent) continue;
      if (const Constant *known = plan_.constant(n, i)) made.inputs.set(i, constant(*known));
      else made.inputs.set(i, read(n, id));
    }
    struct Result {
      std::int32_t id, real;
      bool is_output;
    };
    Vector<Result> results;
    for (std::int32_t &id : made.outputs) {
      if (id == qir::kAbsent) continue;
      if (uses_.users(id).size() == 1 && plan_.absorbed[index_of(uses_.users(id)[0])])
        id = from_.nodes[index_of(uses_.users(id)[0])].outputs[0];
      if (!plan_.activations[index_of(id)].quantized) continue;
      const std::int32_t result = id;
      if (uses_.is_output(id)) {
        const qir::Tensor like = at(from_, id);
        id = tensor(like.name + "_QuantizeLinear_Input", like.dtype, like.shape);
      }
      results.push_back({result, id, uses_.is_output(result)});
    }
    graph_.nodes.push_back(std::move(made));
    for (const Result &result : results) quantize(result.id, result.real, result.is_output);
  }

  const qir::Graph &from_;
  const Plan &plan_;
  qir::Store &store_;
  qir::Uses uses_;
  qir::Graph graph_;
  qir::Names names_{graph_};
  Vector<std::int32_t> own_, converted_;  // by tensor: what readers of each form read
  HashMultimap<std::int32_t, std::pair<const Constant *, std::int32_t>> constants_;  // by tensor
};

}  // namespace

qir::Graph write_qdq(const qir::Graph &graph, const Plan &plan, qir::Store &store) {
  return Writer(graph, plan, store).write();
}

String dequantized_name(std::string_view name) { return String(name) + "_DequantizeLinear_Output"; }

}  // namespace quarry::quantize
