// SPDX-License-Identifier: Apache-2.0
// Pools, reductions, softmax, normalisations and losses at their edges. ONNX's node tests cover the ordinary cases.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("average pool counts") {
  RunOp op(Op::AveragePool);
  op.in<float>({1, 1, 4}, {1, 2, 3, 4}).set("kernel_shape", {3}).set("strides", {2}).set("pads", {1, 0});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,2] 1.5 3");
  CHECK_EQ(RunOp(op).set("count_include_pad", 1).text(), "f32 [1,1,2] 1 3");
  // The last window of ceil_mode reaches past the input: what lies past the padding counts in neither case.
  RunOp ceil(Op::AveragePool);
  ceil.in<float>({1, 1, 4}, {1, 2, 3, 4}).set("kernel_shape", {3}).set("strides", {2}).set("ceil_mode", 1);
  CHECK_EQ(RunOp(ceil).text(), "f32 [1,1,2] 2 3.5");
  CHECK_EQ(RunOp(ceil).set("count_include_pad", 1).text(), "f32 [1,1,2] 2 3.5");
  CHECK_EQ(RunOp(Op::AveragePool)
               .in<double>({1, 1, 5}, {1, 2, 3, 4, 5})
               .set("kernel_shape", {2})
               .set("dilations", {3})
               .text(),
           "f64 [1,1,2] 2.5 3.5");
}

TEST_CASE("max pool places") {
  RunOp op(Op::MaxPool, 2);
  op.in<float>({1, 1, 2, 3}, {1, 5, 5, 4, 2, 0}).set("kernel_shape", {2, 2});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,1,2] 5 5; i64 [1,1,1,2] 1 1");
  CHECK_EQ(RunOp(op).set("storage_order", 1).text(), "f32 [1,1,1,2] 5 5; i64 [1,1,1,2] 2 2");
  CHECK_EQ(RunOp(Op::MaxPool).in<float>({1, 1, 3}, {1, kNan, 2}).set("kernel_shape", {2}).text(),
           "f32 [1,1,2] nan nan");
  CHECK_EQ(
      RunOp(Op::MaxPool).in<std::int8_t>({1, 1, 2}, {-128, -7}).set("kernel_shape", {2}).set("pads", {1, 1}).text(),
      "i8 [1,1,3] -128 -7 -7");
  CHECK_EQ(RunOp(Op::MaxPool).in<float>({1, 1, 1}, {-kInf}).set("kernel_shape", {1}).text(), "f32 [1,1,1] -inf");
}

TEST_CASE("lp and global pools") {
  CHECK_EQ(RunOp(Op::LpPool).in<float>({1, 1, 2}, {-3, 4}).set("kernel_shape", {2}).text(), "f32 [1,1,1] 5");
  CHECK_EQ(RunOp(Op::LpPool).in<float>({1, 1, 2}, {-3, 4}).set("kernel_shape", {2}).set("p", 1).text(),
           "f32 [1,1,1] 7");
  CHECK_EQ(RunOp(Op::GlobalAveragePool).in<float>({1, 2, 2}, {1, 2, 3, 5}).text(), "f32 [1,2,1] 1.5 4");
  CHECK_EQ(RunOp(Op::GlobalMaxPool).in<float>({1, 2, 1, 2}, {1, 2, -3, -5}).text(), "f32 [1,2,1,1] 2 -3");
  CHECK_EQ(RunOp(Op::GlobalLpPool).in<float>({1, 1, 3}, {2, 2, 1}).text(), "f32 [1,1,1] 3");
}

TEST_CASE("reduce axes") {
  RunOp op(Op::ReduceSum);
  op.in<float>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1] 21");
  CHECK_EQ(RunOp(op).in<i64>({1}, {-1}).text(), "f32 [2,1] 6 15");
  CHECK_EQ(RunOp(op).in<i64>({1}, {0}).set("keepdims", 0).text(), "f32 [3] 5 7 9");
  CHECK_EQ(RunOp(op).set("noop_with_empty_axes", 1).text(), "f32 [2,3] 1 2 3 4 5 6");
  CHECK_EQ(RunOp(Op::ReduceSumSquare).in<float>({2}, {2, -3}).set("noop_with_empty_axes", 1).text(), "f32 [2] 4 9");
  CHECK_EQ(RunOp(Op::ReduceSum).in<float>({}, {7}).text(), "f32 [] 7");
  // Axes 0 and 2 of three: neither is a neighbour of the other.
  CHECK_EQ(RunOp(Op::ReduceMax)
               .in<std::int32_t>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})
               .in<i64>({2}, {2, 0})
               .set("keepdims", 0)
               .text(),
           "i32 [2] 6 8");
}

TEST_CASE("reduce nothing") {
  const auto of_nothing = [](Op op) {
    return RunOp(op).in<float>({0, 2}, {}).in<i64>({1}, {0}).set("keepdims", 0).text();
  };
  CHECK_EQ(of_nothing(Op::ReduceSum), "f32 [2] 0 0");
  CHECK_EQ(of_nothing(Op::ReduceProd), "f32 [2] 1 1");
  CHECK_EQ(of_nothing(Op::ReduceMax), "f32 [2] -inf -inf");
  CHECK_EQ(of_nothing(Op::ReduceMin), "f32 [2] inf inf");
  CHECK_EQ(of_nothing(Op::ReduceLogSum), "f32 [2] -inf -inf");
  CHECK_EQ(of_nothing(Op::ReduceLogSumExp), "f32 [2] -inf -inf");
  CHECK_EQ(of_nothing(Op::ReduceL2), "f32 [2] 0 0");
  CHECK_EQ(RunOp(Op::ReduceMin).in<bool>({0}, {}).set("keepdims", 0).text(), "bool [] 1");
  CHECK_EQ(RunOp(Op::ReduceMax).in<std::int8_t>({0}, {}).set("keepdims", 0).text(), "i8 [] -128");
  CHECK_EQ(RunOp(Op::ReduceMean).in<i64>({0}, {}).set("keepdims", 0).text(), "i64 [] 0");
  CHECK_EQ(RunOp(Op::ReduceSum).in<float>({2, 0}, {}).in<i64>({1}, {0}).text(), "f32 [1,0]");
}

TEST_CASE("reduce numbers") {
  CHECK_EQ(RunOp(Op::ReduceMean).in<i64>({2}, {INT64_MAX, INT64_MAX - 2}).text(), "i64 [1] 9223372036854775806");
  CHECK_EQ(RunOp(Op::ReduceMean).in<std::int32_t>({2}, {-3, 0}).text(), "i32 [1] -1");  // cut towards zero
  CHECK_EQ(RunOp(Op::ReduceSum).in<std::int32_t>({2}, {INT32_MAX, 1}).text(), "i32 [1] -2147483648");
  CHECK_EQ(RunOp(Op::ReduceSumSquare).in<std::uint64_t>({1}, {UINT64_MAX}).text(), "u64 [1] 1");
  CHECK_EQ(RunOp(Op::ReduceL1).in<i64>({2}, {-3, 4}).text(), "i64 [1] 7");
  CHECK_EQ(RunOp(Op::ReduceL2).in<std::int32_t>({2}, {-3, 4}).text(), "i32 [1] 5");
  CHECK_EQ(RunOp(Op::ReduceProd).in<std::uint32_t>({2}, {65536, 65537}).text(), "u32 [1] 65536");
  CHECK_EQ(RunOp(Op::ReduceSum).in<float>({3}, {1e8F, 1, -1e8F}).text(), "f32 [1] 1");
  CHECK_EQ(RunOp(Op::ReduceMax).in<float>({3}, {1, kNan, 2}).text(), "f32 [1] nan");
  CHECK_EQ(RunOp(Op::ReduceMin).in<bool>({2}, {true, false}).text(), "bool [1] 0");
  CHECK_EQ(RunOp(Op::ReduceLogSumExp).in<float>({2}, {1000, 1000}).text(), "f32 [1] 1000.69");
  CHECK_EQ(RunOp(Op::ReduceLogSumExp).in<float>({3}, {-kInf, 3, -kInf}).text(), "f32 [1] 3");
  CHECK_EQ(RunOp(Op::ReduceLogSumExp).in<float>({2}, {kInf, 3}).text(), "f32 [1] inf");
  CHECK_EQ(RunOp(Op::ReduceLogSumExp).in<float>({2}, {kNan, kInf}).text(), "f32 [1] nan");
}

TEST_CASE("softmax family") {
  CHECK_EQ(RunOp(Op::Softmax).in<float>({2, 2}, {1000, 1000, 0, -kInf}).text(), "f32 [2,2] 0.5 0.5 1 0");
  CHECK_EQ(RunOp(Op::Softmax).in<float>({2, 2}, {0, 5, 0, 5}).set("axis", 0).text(), "f32 [2,2] 0.5 0.5 0.5 0.5");
  CHECK_EQ(RunOp(Op::LogSoftmax).in<double>({1, 2}, {-1000, 0}).text(), "f64 [1,2] -1000 0");
  CHECK_EQ(RunOp(Op::Hardmax).in<float>({1, 3}, {2, 2, 1}).text(), "f32 [1,3] 1 0 0");
  CHECK_EQ(RunOp(Op::Softmax).in<float>({2, 0}, {}).text(), "f32 [2,0]");
}

TEST_CASE("normalizations") {
  CHECK_EQ(RunOp(Op::LayerNormalization, 3)
               .in<float>({2, 2}, {1, 3, 5, 9})
               .in<float>({2}, {1, 2})
               .in<float>({2}, {10, 20})
               .set("epsilon", 0.0)
               .text(),
           "f32 [2,2] 9 22 9 22; f32 [2,1] 2 7; f32 [2,1] 1 0.5");
  CHECK_EQ(
      RunOp(Op::RMSNormalization).in<float>({2, 2}, {3, 3, 4, -4}).in<float>({2}, {1, 10}).set("epsilon", 0.0).text(),
      "f32 [2,2] 1 10 1 -10");
  CHECK_EQ(RunOp(Op::InstanceNormalization)
               .in<float>({1, 2, 2}, {1, 3, 5, 7})
               .in<float>({2}, {1, 2})
               .in<float>({2}, {0, 1})
               .set("epsilon", 0.0)
               .text(),
           "f32 [1,2,2] -1 1 -1 3");
  CHECK_EQ(RunOp(Op::GroupNormalization)
               .in<float>({1, 2, 2}, {1, 1, 3, 3})
               .in<float>({2}, {1, 2})
               .in<float>({2}, {0, 1})
               .set("num_groups", 1)
               .set("epsilon", 0.0)
               .text(),
           "f32 [1,2,2] -1 -1 3 3");
  CHECK_EQ(RunOp(Op::LpNormalization).in<float>({2, 2}, {3, 0, -4, 0}).set("axis", 0).text(), "f32 [2,2] 0.6 0 -0.8 0");
  // size 2: the channel itself and the next.
  CHECK_EQ(RunOp(Op::LRN)
               .in<float>({1, 3, 1}, {1, 2, 3})
               .set("size", 2)
               .set("alpha", 2.0)
               .set("beta", 1.0)
               .set("bias", 0.0)
               .text(),
           "f32 [1,3,1] 0.2 0.153846 0.333333");
  CHECK_EQ(RunOp(Op::MeanVarianceNormalization).in<float>({2, 1, 1, 1}, {1, 3}).text(), "f32 [2,1,1,1] -1 1");
}

TEST_CASE("batch normalization modes") {
  RunOp op(Op::BatchNormalization);
  op.in<float>({2, 1}, {1, 3})
      .in<float>({1}, {2})
      .in<float>({1}, {10})
      .in<float>({1}, {1})
      .in<float>({1}, {4})
      .set("epsilon", 0.0);
  CHECK_EQ(RunOp(op).text(), "f32 [2,1] 10 12");
  RunOp training(Op::BatchNormalization, 3);
  training.in<float>({2, 1}, {1, 3})
      .in<float>({1}, {2})
      .in<float>({1}, {10})
      .in<float>({1}, {1})
      .in<float>({1}, {4})
      .set("epsilon", 0.0);
  CHECK_EQ(training.set("training_mode", 1).set("momentum", 0.5).text(), "f32 [2,1] 8 12; f32 [1] 1.5; f32 [1] 2.5");
}

TEST_CASE("losses") {
  RunOp op(Op::NegativeLogLikelihoodLoss);
  op.in<float>({2, 2}, {-1, -2, -3, -4});
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 1}).text(), "f32 [] 2.5");
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 1}).in<float>({2}, {1, 3}).text(), "f32 [] 3.25");
  CHECK_EQ(RunOp(op).in<std::int32_t>({2}, {0, -5}).set("ignore_index", -5).set("reduction", "none").text(),
           "f32 [2] 1 0");
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 2}).text(),
           "QR-R0007 NegativeLogLikelihoodLoss 'node': found class 2, expected 0 to 1");
  CHECK_EQ(
      RunOp(Op::SoftmaxCrossEntropyLoss, 2).in<float>({1, 2}, {0, 0}).in<i64>({1}, {1}).set("reduction", "sum").text(),
      "f32 [] 0.693147; f32 [1,2] -0.693147 -0.693147");
}
