// SPDX-License-Identifier: Apache-2.0
// What the cases of kernels write again and again: a node for the reference, operands, params that must be refused.
#pragma once

#include <limits>
#include <stdexcept>

#include "tests/kernels/driver.h"

namespace quarry::kernel_test {

using namespace kernels;
using Dims = std::vector<std::int64_t>;

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

inline qir::Node node_of(qir::Op op, std::size_t inputs, std::size_t outputs = 1) {
  qir::Node node;
  node.op = op;
  node.name = "node";
  for (std::size_t i = 0; i < inputs; ++i) node.inputs.push_back(static_cast<std::int32_t>(i));
  for (std::size_t i = 0; i < outputs; ++i) node.outputs.push_back(static_cast<std::int32_t>(100 + i));
  return node;
}
inline Tensor tensor_of(Dims shape, const std::vector<float> &values) {
  return {DType::F32, std::move(shape), bytes_of(values), {}};
}
inline Tensor tensor_of(Dims shape, const std::vector<std::int64_t> &values) {
  return {DType::I64, std::move(shape), bytes_of(values), {}};
}
inline std::vector<float> reference_values(const qir::Node &node, const std::vector<Tensor> &inputs) {
  return values_of<float>(reference(node, inputs)[0].data);
}

inline Operand in(const std::vector<float> &values) { return {bytes_of(values)}; }
inline Operand out(std::size_t bytes) { return {Bytes(bytes, std::byte{0xa5}), true}; }
inline std::size_t product(const Dims &dims) {
  std::size_t count = 1;
  for (const std::int64_t dim : dims) count *= static_cast<std::size_t>(dim);
  return count;
}

inline void expect_refused(const Isa &isa, Kernel kernel, const void *params, const char *what) {
  Needs needs;
  if (kernel_row(kernel).check(params, isa, needs).ok())
    throw std::runtime_error(std::string(kernel_row(kernel).name) + ": accepted " + what);
}
template <class P, class Change>
void refuse(const Isa &isa, Kernel kernel, P params, const char *what, Change change) {
  change(params);
  expect_refused(isa, kernel, &params, what);
}

// The reference's results; operands that the node does not have are left out.
inline std::vector<Tensor> expected_of(const qir::Node &node, std::vector<Tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (node.inputs[i] == qir::kAbsent) inputs[i].dtype = DType::Unknown;
  return reference(node, inputs);
}
inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

// Zeros in all operands: nothing here takes longer for other numbers.
template <class P>
Registry::Prepared of_zeros(const Isa &isa, Kernel kernel, const P &params, double flops) {
  Needs needs;
  if (Status status = kernel_row(kernel).check(&params, isa, needs); !status.ok())
    throw std::runtime_error(std::string(status.message()));
  Registry::Prepared prepared{kernel, params_of(params), {}, {flops, 0}};
  for (std::size_t i = 0; i < needs.operand_count; ++i) {
    prepared.operands.push_back({Bytes(needs.operand_bytes[i]), needs.written[i]});
    prepared.work.bytes += static_cast<double>(needs.operand_bytes[i]);
  }
  return prepared;
}

// Of what is broadcast: 0 along an axis of one.
inline std::vector<std::int64_t> strides_of(const Dims &shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = shape[i] == 1 ? 0 : step;
    step *= shape[i];
  }
  return strides;
}

// What the reference makes of x behind an operator that ends with this activation. In elementwise/elementwise_f32.cpp.
std::vector<float> activated(const Activation &act, std::vector<float> x);

}  // namespace quarry::kernel_test
