// SPDX-License-Identifier: Apache-2.0
// Random small graphs for the cpu backend: every operator that it has a way of its own for, in arrangements that nobody
// thought of.
#pragma once

#include <functional>

#include "tests/unit/cpu/plan_case.h"

namespace quarry::test {

class RandomGraph {
 public:
  // `real` is the type of its tensors: f32 or f16.
  RandomGraph(std::uint64_t seed, DType real);
  const qir::Graph &graph() const noexcept { return graph_; }

 protected:
  explicit RandomGraph(std::uint64_t seed) : random_(seed * 7919 + 1), real_(DType::F32) { graph_.name = "random"; }

  qir::Tensor &at(std::int32_t id) { return graph_.tensors[index_of(id)]; }
  const qir::Shape &shape(std::int32_t id) { return at(id).shape; }
  std::int32_t tensor(DType dtype, qir::Shape extents);
  std::int32_t input(DType dtype, qir::Shape extents);
  std::int32_t constant(DType dtype, qir::Shape extents, Vector<std::uint8_t> data);
  std::int32_t reals(qir::Shape extents, float low, float high);
  std::int32_t scalar(float value);
  std::int32_t integers(Vector<std::int64_t> values);
  // A node with one output (or as many as `outputs`), whose shapes are inferred; the first output, or kAbsent (and
  // nothing added) where the operator does not take these inputs or the result is large.
  std::int32_t node(qir::Op op, Vector<std::int32_t> inputs, const std::function<void(qir::Node &)> &set = {},
                    std::size_t outputs = 1);
  void finish();  // outputs: what nobody reads, and at times something from the middle, twice the same, or an input

  std::int32_t pick() {
    return pool_[static_cast<std::size_t>(random_.chance(60)
                                              ? static_cast<std::int64_t>(pool_.size()) - 1
                                              : random_.integer(0, static_cast<std::int64_t>(pool_.size()) - 1))];
  }
  std::int32_t same_shape(std::int32_t id);  // another tensor, or kAbsent
  Vector<std::int64_t> shuffled(std::size_t rank);

  std::int64_t most_ = 6000;  // elements of a tensor
  Random random_;
  const DType real_;
  qir::Graph graph_;
  Data data_;
  Vector<std::int32_t> pool_;  // what nodes may read

 private:
  std::int32_t grow();
  std::int32_t image(std::int32_t x);
  std::int32_t elementwise(std::int32_t x);
  std::int32_t movement(std::int32_t x);
  std::int32_t rows(std::int32_t x);  // products, norms, reductions
  std::int32_t attention(std::int32_t x);
};

// Tensors are quantised, of u8, i8 and u16; it begins and ends in either.
class RandomQuantizedGraph : public RandomGraph {
 public:
  explicit RandomQuantizedGraph(std::uint64_t seed);
  int depth() const noexcept { return depth_; }  // most roundings one after the other

 private:
  std::int32_t grow();
  std::int32_t product(std::int32_t x);
  // Gives an output its type: numbers of [-reach, reach], or the type of `like`.
  std::int32_t typed(std::int32_t id, float reach, bool adds_rounding = true);
  std::int32_t typed_like(std::int32_t id, std::int32_t like);
  float reach(std::int32_t id);
  int depth_ = 0;
};

}  // namespace quarry::test
