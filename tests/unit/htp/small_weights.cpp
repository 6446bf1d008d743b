// SPDX-License-Identifier: Apache-2.0
// Weights of u4 as signed ones: the same numbers, in 4 bits where the zero point is the middle.
#include "backends/htp/lower/small_weights.h"

#include "graph/ops/quantization.h"
#include "tests/support/check.h"

using namespace quarry;

namespace {

// y = x . w, with two columns of u4.
qir::Graph product(const std::uint8_t *packed, Vector<std::int32_t> zero_points, qir::Op op = qir::Op::MatMul) {
  qir::Graph graph;
  graph.tensors = {{"x", DType::F32, {1, 2}}, {"w", DType::U4, {2, 2}}, {"y", DType::F32, {1, 2}}};
  qir::Tensor &w = graph.tensors[1];
  w.is_constant = true, w.data = {packed, 2};
  w.quant.emplace();
  w.quant->scales.assign(zero_points.size(), 1.0f), w.quant->zero_points = std::move(zero_points);
  w.quant->axis = 1;
  qir::Node &node = graph.nodes.emplace_back();
  node.op = op, node.inputs = {0, 1}, node.outputs = {2};
  graph.inputs = {0}, graph.outputs = {2};
  return graph;
}

constexpr std::uint8_t kPacked[] = {0xf0, 0x98};  // 0, 15, 8, 9

}  // namespace

TEST_CASE("u4 around 8 is s4") {
  qir::Graph graph = product(kPacked, {8, 8});
  qir::Store store;
  htp::make_small_weights_signed(graph, store);
  const qir::Tensor &w = graph.tensors[1];
  CHECK(w.dtype == DType::I4);
  CHECK_EQ(w.quant->zero_points[0], 0);
  for (const auto &[index, expected] : {std::pair{0u, -8}, {1u, 7}, {2u, 0}, {3u, 1}})
    CHECK_EQ(qir::stored_integer(DType::I4, w.data.data, index), expected);
}

TEST_CASE("u4 around anything else is s8") {
  qir::Graph graph = product(kPacked, {0, 5});
  qir::Store store;
  htp::make_small_weights_signed(graph, store);
  const qir::Tensor &w = graph.tensors[1];
  CHECK(w.dtype == DType::I8);
  REQUIRE_EQ(w.data.size, 4u);
  for (const auto &[index, expected] : {std::pair{0u, 0}, {1u, 10}, {2u, 8}, {3u, 4}})
    CHECK_EQ(qir::stored_integer(DType::I8, w.data.data, index), expected);
}

TEST_CASE("u4 that others read stays") {
  qir::Graph graph = product(kPacked, {8}, qir::Op::Add);
  qir::Store store;
  htp::make_small_weights_signed(graph, store);
  CHECK(graph.tensors[1].dtype == DType::U4);
}
