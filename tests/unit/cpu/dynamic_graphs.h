// SPDX-License-Identifier: Apache-2.0
// Graphs with data-dependent shapes.
#pragma once

#include "tests/unit/cpu/plan_case.h"

namespace quarry::test {

inline std::int32_t weights(Builder &b, std::initializer_list<std::int64_t> shape) {
  const std::int32_t made = b.tensor(DType::F32, shape);
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  auto &bytes = b.data[made];
  Random random(static_cast<std::uint64_t>(made));
  bytes.resize(static_cast<std::size_t>(count) * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = random.real(-1, 1);
    std::memcpy(bytes.data() + static_cast<std::size_t>(i) * sizeof value, &value, sizeof value);
  }
  qir::Tensor &tensor = b.graph.tensors[static_cast<std::size_t>(made)];
  tensor.is_constant = true;
  tensor.data = {bytes.data(), bytes.size()};
  return made;
}

// A network with NonMaxSuppression at its end: boxes and scores of two convolutions, the selected boxes gathered.
struct Detector : Builder {
  Detector() {
    const std::int32_t x = input(DType::F32, {1, 3, 8, 8}), w = weights(*this, {8, 3, 3, 3}),
                       h = tensor(DType::F32, {1, 8, 8, 8}), r = tensor(DType::F32, {1, 8, 8, 8});
    node(qir::Op::Conv, {x, w}, {h}).set("pads", Vector<std::int64_t>{1, 1, 1, 1});
    node(qir::Op::Relu, {h}, {r});
    const std::int32_t boxes4 = tensor(DType::F32, {1, 4, 8, 8}), flat = tensor(DType::F32, {1, 4, 64}),
                       boxes = tensor(DType::F32, {1, 64, 4}), scores2 = tensor(DType::F32, {1, 2, 8, 8}),
                       scores = tensor(DType::F32, {1, 2, 64});
    node(qir::Op::Conv, {r, weights(*this, {4, 8, 1, 1})}, {boxes4});
    node(qir::Op::Reshape, {boxes4, constant<std::int64_t>({3}, {1, 4, 64})}, {flat});
    node(qir::Op::Transpose, {flat}, {boxes}).set("perm", Vector<std::int64_t>{0, 2, 1});
    node(qir::Op::Conv, {r, weights(*this, {2, 8, 1, 1})}, {scores2});
    node(qir::Op::Reshape, {scores2, constant<std::int64_t>({3}, {1, 2, 64})}, {scores});
    const std::int32_t selected = tensor(DType::I64, {-1, 3}), which = tensor(DType::I64, {-1}),
                       found = tensor(DType::F32, {1, -1, 4});
    node(qir::Op::NonMaxSuppression,
         {boxes, scores, constant<std::int64_t>({1}, {20}), constant<float>({1}, {0.5f}), constant<float>({1}, {0.1f})},
         {selected});
    node(qir::Op::Gather, {selected, constant<std::int64_t>({}, {2})}, {which}).set("axis", std::int64_t{1});
    node(qir::Op::Gather, {boxes, which}, {found}).set("axis", std::int64_t{1});
    gives({selected, r, found, boxes});
  }
};

// Which rows are positive on the whole, and a product of each of those.
struct ChosenRows : Builder {
  explicit ChosenRows(bool twice = false) {
    const std::int32_t x = input(DType::F32, {12, 8}), h = tensor(DType::F32, {12, 8}),
                       total = tensor(DType::F32, {12}), over = tensor(DType::F32, {12});
    node(qir::Op::MatMul, {x, weights(*this, {8, 8})}, {h});
    node(qir::Op::ReduceSum, {h, constant<std::int64_t>({1}, {1})}, {total}).set("keepdims", std::int64_t{0});
    node(qir::Op::Relu, {total}, {over});
    std::int32_t rows = h, chosen = over;
    for (int round = 0; round < 1 + twice; ++round) {
      const std::int32_t where = tensor(DType::I64, {1, -1}), list = tensor(DType::I64, {-1}),
                         picked = tensor(DType::F32, {-1, 8}), made = tensor(DType::F32, {-1, 8}),
                         extents = tensor(DType::I64, {2}), again = tensor(DType::F32, {-1, 8});
      node(qir::Op::NonZero, {chosen}, {where});
      node(qir::Op::Squeeze, {where, constant<std::int64_t>({1}, {0})}, {list});
      node(qir::Op::Gather, {rows, list}, {picked}).set("axis", std::int64_t{0});
      node(qir::Op::MatMul, {picked, weights(*this, {8, 8})}, {made});
      node(qir::Op::Shape, {made}, {extents});
      node(qir::Op::Reshape, {made, extents}, {again});
      const std::int32_t column = tensor(DType::F32, {-1}), positive = tensor(DType::F32, {-1});
      node(qir::Op::Gather, {again, constant<std::int64_t>({}, {0})}, {column}).set("axis", std::int64_t{1});
      node(qir::Op::Relu, {column}, {positive});
      rows = again, chosen = positive;
    }
    gives({rows});
  }
};

// Products, a softmax over the ranged axis, and a shape that is computed; "rows" is 1..high.
inline Builder ranged(std::int64_t high) {
  Builder b;
  const std::int32_t x = b.input(DType::F32, {-1, 64}), mask = b.input(DType::F32, {-1, 1});
  const std::int32_t w = weights(b, {64, 64});
  const std::int32_t p = b.tensor(DType::F32, {-1, 64}), r = b.tensor(DType::F32, {-1, 64}),
                     shape = b.tensor(DType::I64, {2}), flat = b.tensor(DType::F32, {-1, -1}),
                     soft = b.tensor(DType::F32, {-1, -1}), y = b.tensor(DType::F32, {-1, -1});
  b.node(qir::Op::MatMul, {x, w}, {p});
  b.node(qir::Op::Relu, {p}, {r});
  b.node(qir::Op::Shape, {r}, {shape});
  b.node(qir::Op::Reshape, {r, shape}, {flat});
  b.node(qir::Op::Softmax, {flat}, {soft}).set("axis", std::int64_t{0});
  b.node(qir::Op::Add, {soft, mask}, {y});
  b.gives({y});
  b.graph.dimensions.push_back({"rows", 1, high, {{0, 0}, {1, 0}}, {}, 0});
  return b;
}

}  // namespace quarry::test
