// SPDX-License-Identifier: Apache-2.0
#include "backends/htp/lower/quantized.h"

#include <algorithm>

#include "base/checked.h"
#include "formats/qir/quantization.h"

namespace quarry::htp {

using qir::Op;

namespace {

// Of what bits a result may be for the library to compute it well on quantised tensors; the rest is why the others go
// by f16.
enum class Form : std::uint8_t { Both, Bits8, Neither };
struct Row {
  Op op;
  Form form;
};
constexpr Row kRows[] = {
    {Op::BatchNormalization, Form::Neither},  // of f32 parameters
    {Op::Celu, Form::Neither},                // composed: nobody measured the ranges between the pieces
    {Op::CumSum, Form::Neither},              // sums in the units of the result and saturates
    {Op::Div, Form::Neither},                 // 195 steps off where 0 is no number of the divisor
    {Op::Erf, Form::Neither},
    {Op::GroupNormalization, Form::Neither},
    {Op::HardSigmoid, Form::Bits8},  // of 16 bits: nonsense
    {Op::LogSoftmax, Form::Neither},
    {Op::MatMulNBits, Form::Neither},
    {Op::Mean, Form::Neither},
    {Op::MeanVarianceNormalization, Form::Neither},
    {Op::Mish, Form::Neither},
    {Op::Reciprocal, Form::Neither},
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

}  // namespace

bool computes_quantized(const qir::Graph &graph, const qir::Node &node) {
  const Row *const row =
      std::find_if(std::begin(kRows), std::end(kRows), [&](const Row &r) { return r.op == node.op; });
  if (row == std::end(kRows) || row->form == Form::Both) return true;
  if (row->form == Form::Neither) return false;
  const qir::Tensor &y = qir::at(graph, node.outputs[0]);
  return y.quant && dtype_bits(y.dtype) == 8;
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
    if (quant->block_size > 0) which = ((i / (inner * extent)) * blocks + i / inner % extent / block) * inner + i % inner;
    else if (!quant->per_tensor()) which = i / inner % extent;
    if (which >= quant->scales.size()) return false;
    reals[i] = static_cast<float>(qir::stored_integer(x.dtype, x.data.data, i) - quant->zero_points[which]) *
               quant->scales[which];
  }
  outputs->push_back({DType::F32, x.shape, {reals, n * sizeof(float)}});
  return true;
}

}  // namespace quarry::htp
