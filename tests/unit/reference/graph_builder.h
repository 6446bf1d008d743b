// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <initializer_list>

#include "graph/graph.h"
#include "kernels/reference/kernel.h"
#include "tests/support/check.h"

namespace quarry::test {

// Builds graphs in a few words. Data of constants lives as long as the builder.
struct Builder {
  qir::Graph graph;
  OrderedMap<std::int32_t, Vector<std::uint8_t>> data;

  Builder() { graph.name = "test"; }
  std::int32_t tensor(DType dtype, std::initializer_list<std::int64_t> shape) {
    qir::Tensor &made = graph.tensors.emplace_back();
    made.name = format("t%zu", graph.tensors.size());
    made.dtype = dtype;
    made.shape.assign(shape);
    return static_cast<std::int32_t>(graph.tensors.size() - 1);
  }
  std::int32_t input(DType dtype, std::initializer_list<std::int64_t> shape) {
    return graph.inputs.emplace_back(tensor(dtype, shape));
  }
  template <class T>
  std::int32_t constant(std::initializer_list<std::int64_t> shape, std::initializer_list<T> values) {
    const std::int32_t made = tensor(reference::DTypeOf<T>::value, shape);
    auto &bytes = data[made];
    bytes.resize(values.size() * sizeof(T) + 1);
    std::memcpy(bytes.data(), values.begin(), values.size() * sizeof(T));
    graph.tensors[static_cast<std::size_t>(made)].is_constant = true;
    graph.tensors[static_cast<std::size_t>(made)].data = {bytes.data(), values.size() * sizeof(T)};
    return made;
  }
  Builder &quantize(std::int32_t made, Vector<float> scales, Vector<std::int32_t> zero_points, std::int32_t axis = 0) {
    graph.tensors[static_cast<std::size_t>(made)].quant =
        qir::Quantization{std::move(scales), std::move(zero_points), axis, 0};
    return *this;
  }
  qir::Node &node(qir::Op op, Vector<std::int32_t> inputs, Vector<std::int32_t> outputs) {
    qir::Node &made = graph.nodes.emplace_back();
    made.op = op;
    made.name = format("n%zu", graph.nodes.size());
    made.inputs = std::move(inputs);
    made.outputs = std::move(outputs);
    return made;
  }
  Builder &gives(std::initializer_list<std::int32_t> outputs) {
    graph.outputs.assign(outputs);
    return *this;
  }
};

}  // namespace quarry::test
