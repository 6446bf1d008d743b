// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/quantized.h"

#include <algorithm>

#include "backends/htp/lower/byte_weights.h"
#include "backends/htp/lower/lowering.h"
#include "backends/htp/lower/rules.h"
#include "base/checked.h"
#include "graph/edit/graph_edit.h"
#include "graph/infer/infer.h"
#include "graph/ops/quantization.h"

namespace quarry::htp {

using qir::Op;

namespace {

// Of what bits a result may be for the library to compute it well on quantised tensors; the rest is why the others go
// by f16.
enum class Form : std::uint8_t { Both, Bits8, Bits16, Neither };
struct Row {
  Op op;
  Form form;
};
constexpr Row kRows[] = {
    {Op::BatchNormalization, Form::Neither},  // of f32 parameters
    {Op::Celu, Form::Neither},                // composed: nobody measured the ranges between the pieces
    {Op::CumSum, Form::Bits16},               // of 8 bits it saturates
    {Op::Div, Form::Neither},                 // 195 steps off where 0 is no number of the divisor
    {Op::Erf, Form::Neither},
    {Op::GroupNormalization, Form::Neither},
    {Op::HardSigmoid, Form::Bits8},  // of 16 bits: nonsense
    {Op::LogSoftmax, Form::Bits16},
    {Op::LRN, Form::Bits8},  // the library has it of no more
    {Op::LpNormalization, Form::Bits16},
    {Op::LpPool, Form::Neither},
    {Op::MatMulNBits, Form::Neither},
    {Op::Mean, Form::Neither},
    {Op::MeanVarianceNormalization, Form::Neither},
    {Op::Mish, Form::Neither},
    {Op::PRelu, Form::Bits8},  // of 16 bits the library cannot prepare it
    {Op::Reciprocal, Form::Bits16},
    {Op::ReduceL1, Form::Neither},
    {Op::ReduceL2, Form::Neither},
    {Op::ReduceLogSum, Form::Neither},
    {Op::ReduceLogSumExp, Form::Neither},
    {Op::ReduceProd, Form::Neither},
    {Op::ReduceSumSquare, Form::Neither},
    {Op::ScatterElements, Form::Neither},  // takes the updates' integers as those of the data
    {Op::Selu, Form::Neither},
    {Op::Softplus, Form::Bits8},
    {Op::Softsign, Form::Neither},
    {Op::Swish, Form::Neither},
};

// Whose operands are all data of one type.
bool is_of_elements(Op op) noexcept {
  switch (op) {
    case Op::Add:
    case Op::Concat:
    case Op::Div:
    case Op::Max:
    case Op::Min:
    case Op::Mul:
    case Op::Sub:
    case Op::Sum:
    case Op::Where: return true;
    default: return false;
  }
}

// The library takes no float beside integers.
bool has_float_operand(const qir::Graph &graph, const qir::Node &node) {
  switch (node.op) {
    case Op::Add:
    case Op::Conv:
    case Op::ConvTranspose:
    case Op::Div:
    case Op::Gemm:
    case Op::InstanceNormalization:
    case Op::LayerNormalization:
    case Op::MatMul:
    case Op::Max:
    case Op::Min:
    case Op::Mul:
    case Op::PRelu:
    case Op::RMSNormalization:
    case Op::Sub:
    case Op::Sum: break;
    default: return false;
  }
  for (const auto *list : {&node.inputs, &node.outputs})
    for (const std::int32_t id : *list)
      if (id != qir::kAbsent && (qir::at(graph, id).dtype == DType::F32 || qir::at(graph, id).dtype == DType::F16))
        return true;
  return false;
}

// A product whose second operand has 16 bits is off by tens of steps of the result's type, however few of them the
// numbers use; by hundreds where the operand is known at run time.
bool has_wide_weights(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::Conv && node.op != Op::ConvTranspose && node.op != Op::Gemm && node.op != Op::MatMul) return false;
  const qir::Tensor &weights = qir::at(graph, node.inputs[1]);
  return weights.quant && dtype_bits(weights.dtype) == 16;
}

// Of a sum of 16-bit data times weights the library drops the low byte, however fine the result's steps are: then f16,
// which is no further off than its rounding of the largest number of the result's type.
bool drops_low_byte(const qir::Graph &graph, const qir::Node &node) {
  if (node.op != Op::Conv && node.op != Op::ConvTranspose && node.op != Op::Gemm && node.op != Op::MatMul) return false;
  const qir::Tensor &x = qir::at(graph, node.inputs[0]), &w = qir::at(graph, node.inputs[1]),
                    &y = qir::at(graph, node.outputs[0]);
  if (!x.quant || !w.quant || !y.quant || !x.quant->per_tensor() || !y.quant->per_tensor()) return false;
  if (dtype_bits(x.dtype) != 16 || dtype_bits(w.dtype) > 8) return false;
  const double unit = static_cast<double>(x.quant->scales[0]) * std::ranges::max(w.quant->scales);
  const double zero = y.quant->zero_points[0], low = static_cast<double>(qir::integer_range(y.dtype).low),
               high = static_cast<double>(qir::integer_range(y.dtype).high);
  return 256 * unit > y.quant->scales[0] * std::max(high - zero, zero - low) / 2048;
}

// The library has no operator from 8 bits to 16 or back but a Convert, which an Identity is.
bool changes_width(const qir::Graph &graph, const qir::Node &node) {
  const qir::Tensor &y = qir::at(graph, node.outputs[0]);
  if (node.op == Op::Identity || !y.quant) return false;
  const std::size_t count = is_of_elements(node.op) ? node.inputs.size() : 1;  // others are weights, indices, numbers
  for (std::size_t i = 0; i < count; ++i) {
    if (node.inputs[i] == qir::kAbsent) continue;
    const qir::Tensor &x = qir::at(graph, node.inputs[i]);
    if (x.quant && dtype_bits(x.dtype) + dtype_bits(y.dtype) == 8 + 16) return true;
  }
  return false;
}

// Convolutions without groups get a ninth bit by input channels that they have twice (byte_weights.h); others go by
// f16.
bool lacks_ninth_bit(const qir::Graph &graph, const qir::Node &node) {
  const bool product = node.op == Op::MatMul || node.op == Op::Gemm;
  return (product || (node.op == Op::Conv && node.get_int("group", 1) != 1)) &&
         dtype_bits(qir::at(graph, node.inputs[0]).dtype) == 8 && passes_byte(qir::at(graph, node.inputs[1]));
}

// Scales for blocks of an axis, which few products have a form for.
bool has_blocks(const qir::Graph &graph, const qir::Node &node) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](std::int32_t id) {
    return id != qir::kAbsent && qir::at(graph, id).quant && qir::at(graph, id).quant->block_size > 0;
  });
}

// By numbers of which none is 0.
bool divides_by_constant(const qir::Graph &graph, const qir::Node &node) {
  const qir::Tensor &by = qir::at(graph, node.inputs[1]);
  if (!by.is_constant || !by.quant || !by.quant->per_tensor()) return false;
  const std::int64_t count = element_count(by.shape.data(), by.shape.size()).value_or(0);
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
    if (qir::stored_integer(by.dtype, by.data.data, i) == by.quant->zero_points[0]) return false;
  return true;
}

// Averages that are tens of steps off: of one channel, where padding counts and windows lie side by side, and where
// padding is uneven, or a window sees both edges.
bool averages_wrongly(const qir::Graph &graph, const qir::Node &node) {
  qir::Window w;
  const qir::Shape &shape = qir::at(graph, node.inputs[0]).shape;
  if (node.op != Op::AveragePool || !qir::resolve_pool(node, shape, &w).ok()) return false;
  const bool counts = node.get_int("count_include_pad", 0) != 0;
  for (std::uint32_t i = 0; i < w.rank; ++i)
    if ((w.pad_begin[i] > 0 || w.pad_end[i] > 0) &&
        (shape[1] == 1 || (counts && (w.stride[i] == w.kernel[i] || w.out[i] == 1))))
      return true;
  return rules::has_odd_edges(w, false);
}

// Softmax of 8 bits counts its result from 0, whatever the zero point.
bool forgets_zero_point(const qir::Graph &graph, const qir::Node &node) {
  const qir::Tensor &y = qir::at(graph, node.outputs[0]);
  return node.op == Op::Softmax && y.quant && dtype_bits(y.dtype) == 8 &&
         std::ranges::any_of(y.quant->zero_points, [](std::int32_t zero) { return zero != 0; });
}

// Operators whose result is where or whether something is larger.
bool reads_order(Op op) noexcept { return op == Op::ArgMax || op == Op::ArgMin || is_comparison(op); }

}  // namespace

bool computes_quantized(const qir::Graph &graph, const qir::Node &node) {
  const Row *const row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &r) { return r.op == node.op; });
  if (multiplies_blocks(graph, node)) return true;
  if (is_rewritten(node.op) || has_float_operand(graph, node) || has_blocks(graph, node) ||
      has_wide_weights(graph, node) || lacks_ninth_bit(graph, node) || drops_low_byte(graph, node) ||
      changes_width(graph, node) || averages_wrongly(graph, node) || forgets_zero_point(graph, node))
    return false;
  if (node.op == Op::Div && divides_by_constant(graph, node)) return true;
  if (row == std::end(kRows) || row->form == Form::Both) return true;
  if (row->form == Form::Neither) return false;
  const qir::Tensor &y = qir::at(graph, node.outputs[0]);
  return y.quant && dtype_bits(y.dtype) == (row->form == Form::Bits8 ? 8u : 16u);
}

void forget_axis_quantization(qir::Graph &graph) {
  const qir::Uses uses(graph);
  for (const qir::Node &node : graph.nodes) {
    if (node.op != Op::QuantizeLinear) continue;
    const std::int32_t id = node.outputs[0];
    qir::Tensor &made = qir::at(graph, id);
    if (!made.quant || made.quant->per_tensor() || std::ranges::find(graph.outputs, id) != graph.outputs.end())
      continue;
    if (std::ranges::all_of(uses.users(id),
                            [&](std::int32_t user) { return graph.nodes[index_of(user)].op == Op::DequantizeLinear; }))
      made.quant.reset();
  }
}

namespace {

// Integers whose order is that of the reals: what was dequantised is read as it is stored.
void read_stored(const qir::Graph &graph, const Vector<std::int32_t> &stored, qir::Node &node) {
  const std::size_t count = node.op == Op::ArgMax || node.op == Op::ArgMin ? 1 : node.inputs.size();
  bool all = true;
  for (std::size_t i = 0; i < count; ++i) all = all && stored[index_of(node.inputs[i])] >= 0;
  for (std::size_t i = 1; i < count; ++i)  // two integer types have no comparison
    all = all && qir::at(graph, stored[index_of(node.inputs[i])]).dtype ==
                     qir::at(graph, stored[index_of(node.inputs[0])]).dtype;
  for (std::size_t i = 0; all && i < count; ++i) node.inputs.set(i, stored[index_of(node.inputs[i])]);
}

}  // namespace

void adapt_quantized(qir::Graph &graph) {
  const auto per_tensor = [&](std::int32_t id) {
    const qir::Tensor &t = qir::at(graph, id);
    return t.quant && t.quant->per_tensor() && !t.is_constant;
  };
  const qir::Uses uses(graph);
  Vector<std::int32_t> stored(graph.tensors.size(), qir::kAbsent);  // what a DequantizeLinear made a tensor of
  Vector<bool> absorbed(graph.nodes.size());
  Vector<qir::Node> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    qir::Node &node = graph.nodes[n];
    if (absorbed[n]) continue;
    if (node.op == Op::DequantizeLinear && per_tensor(node.inputs[0])) {
      const std::optional<qir::Quantization> quant = qir::read_quantization(graph, node);
      if (quant && *quant == *qir::at(graph, node.inputs[0]).quant) stored[index_of(node.outputs[0])] = node.inputs[0];
    }
    if (reads_order(node.op)) read_stored(graph, stored, node);
    // Sums in f16 lose units.
    if (node.op == Op::CumSum && stored[index_of(node.inputs[0])] >= 0 && uses.used_once(node.outputs[0])) {
      const auto at = static_cast<std::size_t>(uses.users(node.outputs[0])[0]);
      const qir::Node &user = graph.nodes[at];
      const std::int32_t from = stored[index_of(node.inputs[0])];
      if (user.op == Op::QuantizeLinear && per_tensor(user.outputs[0]) &&
          dtype_bits(qir::at(graph, from).dtype) == 16 &&
          qir::at(graph, from).dtype == qir::at(graph, user.outputs[0]).dtype) {
        absorbed[at] = true;
        node.inputs.set(0, from);
        node.outputs.set(0, user.outputs[0]);
      }
    }
    const bool moves = qir::moves_real_values(graph, node) && qir::moved_inputs(node) == 1 && node.op != Op::Identity &&
                       per_tensor(node.inputs[0]);
    Vector<qir::Node> behind;
    for (std::int32_t &id : node.outputs) {
      if (!moves || id == qir::kAbsent || !per_tensor(id)) continue;
      const qir::Tensor from = qir::at(graph, node.inputs[0]);
      if (from.quant == qir::at(graph, id).quant || from.dtype != qir::at(graph, id).dtype) continue;
      qir::Tensor between = qir::at(graph, id);
      between.name += "/moved";
      between.quant = from.quant;
      qir::Node &convert = behind.emplace_back();
      convert.op = Op::Identity;
      convert.name = node.name + "/convert";
      convert.source = node.source;
      convert.outputs = {id};
      id = static_cast<std::int32_t>(graph.tensors.size());
      convert.inputs = {id};
      graph.tensors.push_back(std::move(between));
      stored.push_back(qir::kAbsent);
    }
    nodes.push_back(std::move(node));
    for (qir::Node &one : behind) nodes.push_back(std::move(one));
  }
  graph.nodes = std::move(nodes);
}

bool ConstantDequantizer::fold(const qir::Graph &graph, const qir::Node &node, qir::Store &store,
                               Vector<qir::Constant> *outputs) {
  if (node.op != Op::DequantizeLinear) return false;
  const qir::Tensor &x = qir::at(graph, node.inputs[0]), &y = qir::at(graph, node.outputs[0]);
  const std::optional<qir::Quantization> quant = qir::read_quantization(graph, node);
  const std::optional<std::int64_t> count = element_count(x.shape.data(), x.shape.size());
  if (!quant || !count || y.dtype != DType::F32) return false;
  const std::size_t axis = quant->per_tensor() ? 0 : static_cast<std::size_t>(quant->axis);
  if (!quant->per_tensor() && axis >= x.shape.size()) return false;
  std::uint64_t inner = 1;
  for (std::size_t i = axis + 1; i < x.shape.size(); ++i) inner *= static_cast<std::uint64_t>(x.shape[i]);
  const std::uint64_t extent = quant->per_tensor() ? 1 : static_cast<std::uint64_t>(x.shape[axis]);
  const std::uint64_t block = quant->block_size > 0 ? static_cast<std::uint64_t>(quant->block_size) : 1;
  const std::uint64_t blocks = (extent + block - 1) / block;
  const auto n = static_cast<std::uint64_t>(*count);
  auto *const reals = static_cast<float *>(store.allocate(n * sizeof(float)));
  for (std::uint64_t i = 0; i < n; ++i) {
    std::size_t which = 0;
    if (quant->block_size > 0)
      which = ((i / (inner * extent)) * blocks + i / inner % extent / block) * inner + i % inner;
    else if (!quant->per_tensor()) which = i / inner % extent;
    if (which >= quant->scales.size()) return false;
    reals[i] = static_cast<float>(qir::stored_integer(x.dtype, x.data.data, i) - quant->zero_points[which]) *
               quant->scales[which];
  }
  if (quant->block_size > 0) blocks_.add(reals, x, *quant);
  outputs->push_back({DType::F32, x.shape, {reals, n * sizeof(float)}});
  return true;
}

}  // namespace quarry::htp
