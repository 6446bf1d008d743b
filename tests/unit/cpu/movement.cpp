// SPDX-License-Identifier: Apache-2.0
// What moves elements or makes them out of little, by which steps it runs, beside cpu-reference.
#include "tests/unit/cpu/plan_case.h"

using namespace quarry;
using namespace quarry::test;
using qir::Op;
using i32 = std::int32_t;

namespace {

template <class T>
i32 constant(Builder &b, const Vector<T> &values) {
  const i32 made = b.tensor(reference::DTypeOf<T>::value, {static_cast<std::int64_t>(values.size())});
  auto &bytes = b.data[made];
  bytes.resize(values.size() * sizeof(T) + 1);
  std::memcpy(bytes.data(), values.data(), values.size() * sizeof(T));
  qir::Tensor &tensor = b.graph.tensors[static_cast<std::size_t>(made)];
  tensor.is_constant = true, tensor.data = {bytes.data(), values.size() * sizeof(T)};
  return made;
}
i32 input(Builder &b, DType dtype, const Vector<std::int64_t> &shape) {
  const i32 made = b.input(dtype, {});
  b.graph.tensors[static_cast<std::size_t>(made)].shape = shape;
  return made;
}

template <class Set>
void check(Builder &b, Op op, Vector<i32> inputs, DType out, const std::string &steps, float tolerance, Random &random,
           Set &&set) {
  const i32 made = b.tensor(out, {});
  set(b.node(op, std::move(inputs), {made}));
  b.gives({made});
  REQUIRE_OK(qir::infer_graph(b.graph));
  const PlanCase sample(b.graph);
  REQUIRE_EQ(sample.ok(), true);
  CHECK_EQ(sample.steps(), steps);
  same_results(sample, qir::op_name(op), random, tolerance);
}
constexpr auto kAsItIs = [](qir::Node &) {};

}  // namespace

TEST_CASE("repeated tensors are copies") {
  Random random(1);
  for (const DType dtype : {DType::F32, DType::U8, DType::I64, DType::F16})
    for (const Vector<std::int64_t> &shape :
         {Vector<std::int64_t>{5}, Vector<std::int64_t>{3, 1, 7}, Vector<std::int64_t>{2, 3, 4, 5}}) {
      Builder b;
      Vector<std::int64_t> repeats;
      for (std::size_t d = 0; d < shape.size(); ++d) repeats.push_back(random.integer(1, 3));
      const i32 x = input(b, dtype, shape);
      check(b, Op::Tile, {x, constant(b, repeats)}, dtype, "Copy", 0, random, kAsItIs);
    }
}

TEST_CASE("what is padded is written once where it is large") {
  Random random(6);
  const auto padded = [&](Vector<std::int64_t> shape, const Vector<std::int64_t> &pads, const char *steps) {
    for (const DType dtype : {DType::F32, DType::U8}) {
      Builder b;
      const i32 x = input(b, dtype, shape), by = constant(b, pads);
      const i32 with = dtype == DType::F32 ? constant(b, Vector<float>{-1.5f}) : constant(b, Vector<std::uint8_t>{7});
      b.graph.tensors[static_cast<std::size_t>(with)].shape.clear();
      check(b, Op::Pad, {x, by, with}, dtype, steps, 0, random, kAsItIs);
    }
  };
  padded({2, 4, 100, 99}, {0, 0, 0, 0, 0, 0, 0, 1}, "Copy Copy");
  padded({2, 4, 100, 99}, {0, 1, 2, 3, 0, 0, 2, 5}, "Copy Copy Copy Copy Copy Copy");
  padded({2, 4, 100, 99}, {0, -1, 2, 3, 0, 0, -2, 5}, "Fill Copy");  // less than that is kept
  padded({1, 300, 300}, {0, 0, 0, 2, 0, 0}, "Fill Copy");
  padded({3, 5}, {1, 0, 0, 2}, "Fill Copy");
}

TEST_CASE("planes that are resized and leave the graph stay planes") {
  Random random(2);
  struct Case {
    std::int64_t h, w, oh, ow;
    const char *mode, *coordinates;
  };
  for (const Case &c : {Case{5, 20, 10, 40, "nearest", "asymmetric"},
                        {5, 70, 3, 31, "nearest", "half_pixel"},
                        {9, 33, 21, 80, "linear", "align_corners"},
                        {40, 50, 20, 25, "linear", "half_pixel"},
                        {1, 1, 3, 3, "linear", "half_pixel"}}) {
    Builder b;
    const i32 x = input(b, DType::F32, {2, 3, c.h, c.w}), sizes = constant(b, Vector<std::int64_t>{2, 3, c.oh, c.ow});
    check(b, Op::Resize, {x, qir::kAbsent, qir::kAbsent, sizes}, DType::F32, "ResizePlanesF32", 1e-6f, random,
          [&](qir::Node &node) {
            node.set("mode", std::string_view(c.mode));
            node.set("coordinate_transformation_mode", std::string_view(c.coordinates));
          });
  }
  for (const DType dtype : {DType::U8, DType::I8}) {
    Builder b;
    const i32 x = input(b, dtype, {2, 3, 30, 40}), sizes = constant(b, Vector<std::int64_t>{2, 3, 60, 20});
    check(b, Op::Resize, {x, qir::kAbsent, qir::kAbsent, sizes}, dtype, "Cast ResizePlanesF32 Quantize", 0, random,
          [](qir::Node &node) { node.set("mode", std::string_view("linear")); });
  }
  // A part of the image; what reaches beyond it is cpu-reference's.
  for (const float end : {0.9f, 1.2f}) {
    Builder b;
    const i32 x = input(b, DType::F32, {1, 3, 30, 40}), sizes = constant(b, Vector<std::int64_t>{1, 3, 12, 17}),
              region = constant(b, Vector<float>{0, 0, 0.1f, 0.2f, 1, 1, end, 0.8f});
    check(b, Op::Resize, {x, region, qir::kAbsent, sizes}, DType::F32, end < 1 ? "ResizePlanesF32" : "reference", 1e-6f,
          random, [](qir::Node &node) {
            node.set("mode", std::string_view("linear"));
            node.set("coordinate_transformation_mode", std::string_view("tf_crop_and_resize"));
          });
  }
}

TEST_CASE("one channel is a plane, whatever it is made of") {
  Random random(5);
  for (const std::int64_t stride : {1, 2, 3, 5})
    for (const Op op : {Op::MaxPool, Op::AveragePool}) {
      const auto set = [&](qir::Node &node) {
        node.set("kernel_shape", Vector<std::int64_t>{3, 4}), node.set("strides", Vector<std::int64_t>{2, stride});
        node.set("pads", Vector<std::int64_t>{1, 1, 1, 1});
      };
      Builder b;
      check(b, op, {input(b, DType::F32, {2, 1, 21, 13})}, DType::F32, "PoolPlanesF32", 1e-6f, random, set);
      // Beside other channels.
      Builder joined;
      const i32 x = input(joined, DType::F32, {2, 1, 21, 40}), y = joined.tensor(DType::F32, {}),
                z = input(joined, DType::F32, {2, 2, 11, 38 / stride + 1});
      qir::Node &pool = joined.node(op, {x}, {y});
      set(pool);
      check(joined, Op::Concat, {y, z}, DType::F32, "PoolPlanesF32 Copy Copy Copy", 1e-6f, random,
            [](qir::Node &node) { node.set("axis", std::int64_t{1}); });
    }
  Builder b;
  const i32 x = input(b, DType::F32, {1, 1, 30, 40}), sizes = constant(b, Vector<std::int64_t>{1, 1, 12, 17}),
            y = b.tensor(DType::F32, {});
  b.node(Op::Resize, {x, qir::kAbsent, qir::kAbsent, sizes}, {y}).set("mode", std::string_view("linear"));
  check(b, Op::Sigmoid, {y}, DType::F32, "ResizePlanesF32 UnaryF32", 1e-6f, random, kAsItIs);
}

TEST_CASE("images of places are one step where their columns are adjacent") {
  Random random(4);
  for (const std::int64_t step : {1, 2}) {
    Builder b;
    const i32 x = input(b, DType::F32, {2, 18, step == 1 ? 80 : 20}), image = constant(b, Vector<std::int64_t>{8, 10}),
              block = constant(b, Vector<std::int64_t>{3, 3});
    check(b, Op::Col2Im, {x, image, block}, DType::F32, step == 1 ? "Col2ImF32" : "reference", 0, random,
          [&](qir::Node &node) {
            node.set("pads", Vector<std::int64_t>{1, 1, 1, 1});
            node.set("strides", Vector<std::int64_t>{step, step});
          });
  }
}

TEST_CASE("random numbers and equal truth values are one step") {
  Random random(3);
  for (const Op op : {Op::RandomNormalLike, Op::RandomUniformLike})
    for (const float seed : {0.0f, 7.0f, -3.0f}) {
      Builder b;
      const i32 x = input(b, DType::F32, {3, 401});
      check(b, op, {x}, DType::F32, "RandomF32", 1e-7f, random, [&](qir::Node &node) {
        node.set("seed", seed);
        if (op == Op::RandomNormalLike) node.set("mean", 0.5f), node.set("scale", 2.0f);
        else node.set("low", -1.5f), node.set("high", 9.0f);
      });
    }
  Builder b;
  const i32 x = input(b, DType::Bool, {3, 70}), y = input(b, DType::Bool, {70});
  check(b, Op::Equal, {x, y}, DType::Bool, "Elements", 0, random, kAsItIs);
}
