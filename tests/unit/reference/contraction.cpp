// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix multiplications at their edges. ONNX's node tests cover the ordinary cases.
#include <limits>

#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("conv padding stride dilation") {
  // [1 2 3 4 5], kernel [1 10]: padding of 1 before, none after.
  RunOp op(Op::Conv);
  op.in<float>({1, 1, 5}, {1, 2, 3, 4, 5}).in<float>({1, 1, 2}, {1, 10});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,4] 21 32 43 54");
  CHECK_EQ(RunOp(op).set("pads", {1, 0}).text(), "f32 [1,1,5] 10 21 32 43 54");
  CHECK_EQ(RunOp(op).set("pads", {1, 0}).set("strides", {2}).text(), "f32 [1,1,3] 10 32 54");
  CHECK_EQ(RunOp(op).set("dilations", {2}).text(), "f32 [1,1,3] 31 42 53");
  CHECK_EQ(RunOp(op).set("auto_pad", "SAME_UPPER").text(), "f32 [1,1,5] 21 32 43 54 5");
  CHECK_EQ(RunOp(op).set("auto_pad", "SAME_LOWER").text(), "f32 [1,1,5] 10 21 32 43 54");
  // Pads wider than the kernel: windows that see nothing hold the bias.
  CHECK_EQ(RunOp(op).in<float>({1}, {7}).set("pads", {3, 0}).text(), "f32 [1,1,7] 7 7 17 28 39 50 61");
}

TEST_CASE("conv groups and empty") {
  RunOp op(Op::Conv);
  op.in<float>({1, 2, 1, 2}, {1, 2, 3, 4}).in<float>({4, 1, 1, 1}, {1, 2, 3, 4}).set("group", 2);
  CHECK_EQ(RunOp(op).text(), "f32 [1,4,1,2] 1 2 2 4 9 12 12 16");
  CHECK_EQ(RunOp(Op::Conv).in<float>({0, 1, 3}, {}).in<float>({2, 1, 2}, {1, 2, 3, 4}).text(), "f32 [0,2,2]");
  CHECK_EQ(RunOp(Op::Conv).in<double>({1, 1, 2}, {1, 2}).in<double>({1, 1, 1}, {0.1}).text(), "f64 [1,1,2] 0.1 0.2");
}

TEST_CASE("conv sums in double") {
  // In f32 the 1 would be lost next to 1e8.
  CHECK_EQ(RunOp(Op::Conv).in<float>({1, 3, 1}, {1e8F, 1, -1e8F}).in<float>({1, 3, 1}, {1, 1, 1}).text(),
           "f32 [1,1,1] 1");
  CHECK_EQ(RunOp(Op::MatMul).in<float>({1, 3}, {1e8F, 1, -1e8F}).in<float>({3, 1}, {1, 1, 1}).text(), "f32 [1,1] 1");
}

TEST_CASE("quantised conv is conv of real numbers") {
  // x = (q - 2) * 0.5 = [-0.5 1 4], w = 2, bias 3 * (0.5 * 1) = 1.5; y = 2x + 1.5 = [0.5 3.5 9.5], stored / 0.25 + 1.
  CHECK_EQ(RunOp(Op::Conv)
               .in<u8>({1, 1, 3}, {1, 4, 10})
               .quantized(0.5F, 2)
               .in<i8>({1, 1, 1}, {2})
               .quantized(1, 0)
               .in<std::int32_t>({1}, {3})
               .gives(DType::U8, 0.25F, 1)
               .text(),
           "u8 [1,1,3] 3 15 39");
}

TEST_CASE("conv transpose") {
  RunOp op(Op::ConvTranspose);
  op.in<float>({1, 1, 3}, {1, 2, 3}).in<float>({1, 1, 2}, {1, 10});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,4] 1 12 23 30");
  CHECK_EQ(RunOp(op).set("strides", {3}).text(), "f32 [1,1,8] 1 10 0 2 20 0 3 30");
  CHECK_EQ(RunOp(op).set("strides", {2}).set("output_padding", {1}).text(), "f32 [1,1,7] 1 10 2 20 3 30 0");
  CHECK_EQ(RunOp(op).set("dilations", {2}).text(), "f32 [1,1,5] 1 2 13 20 30");
  CHECK_EQ(RunOp(op).set("pads", {1, 1}).in<float>({1}, {0.5F}).text(), "f32 [1,1,2] 12.5 23.5");
  // Two groups, two output channels each.
  CHECK_EQ(
      RunOp(Op::ConvTranspose).in<float>({1, 2, 1}, {1, 2}).in<float>({2, 2, 1}, {1, 2, 3, 4}).set("group", 2).text(),
      "f32 [1,4,1] 1 2 6 8");
}

TEST_CASE("integer convs") {
  RunOp op(Op::ConvInteger);
  op.in<u8>({1, 1, 3}, {0, 128, 255}).in<i8>({2, 1, 1}, {-128, 127});
  CHECK_EQ(RunOp(op).text(), "i32 [1,2,3] 0 -16384 -32640 0 16256 32385");
  // Padding counts as the zero point.
  CHECK_EQ(RunOp(op).in<u8>({}, {128}).in<i8>({2}, {0, 127}).set("pads", {1, 0}).text(),
           "i32 [1,2,4] 0 16384 0 -16256 0 0 0 0");
  CHECK_EQ(RunOp(op).in<u8>({}, {0}).in<i8>({3}, {0, 0, 0}).text(),
           "QR-G0004 ConvInteger 'node': w_zero_point has shape [3], expected [2]");
  // 2 * 3 * (0.5 * 0.5) / 0.6 = 2.5 goes to the even 2, 3.5 to 4.
  CHECK_EQ(RunOp(Op::QLinearConv)
               .in<u8>({1, 1, 2}, {2, 2})
               .in<float>({}, {0.5F})
               .in<u8>({}, {0})
               .in<u8>({1, 1, 1}, {5})
               .in<float>({1}, {0.5F})
               .in<u8>({}, {0})
               .in<float>({}, {1})
               .in<u8>({}, {10})
               .in<std::int32_t>({1}, {4})
               .text(),
           "u8 [1,1,2] 14 14");
}

TEST_CASE("causal conv carries its state") {
  RunOp op(Op::CausalConvWithState, 2);
  op.in<float>({1, 1, 2}, {1, 2}).in<float>({1, 1, 3}, {100, 10, 1});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,2] 1 12; f32 [1,1,2] 1 2");
  CHECK_EQ(RunOp(op).in<float>({1}, {0.5F}).in<float>({1, 1, 2}, {8, 9}).text(),
           "f32 [1,1,2] 891.5 912.5; f32 [1,1,2] 1 2");
}

TEST_CASE("matmul shapes") {
  CHECK_EQ(RunOp(Op::MatMul).in<float>({2}, {1, 2}).in<float>({2}, {3, 4}).text(), "f32 [] 11");
  CHECK_EQ(RunOp(Op::MatMul).in<float>({2, 1, 2}, {1, 2, 3, 4}).in<float>({2}, {1, 10}).text(), "f32 [2,1] 21 43");
  CHECK_EQ(RunOp(Op::MatMul).in<float>({2, 1, 1, 2}, {1, 2, 3, 4}).in<float>({2, 2, 1}, {1, 1, 10, 10}).text(),
           "f32 [2,2,1,1] 3 30 7 70");
  CHECK_EQ(RunOp(Op::MatMul).in<float>({2, 0}, {}).in<float>({0, 2}, {}).text(), "f32 [2,2] 0 0 0 0");
  CHECK_EQ(RunOp(Op::MatMul).in<float>({0, 2}, {}).in<float>({2, 2}, {1, 2, 3, 4}).text(), "f32 [0,2]");
  // Integers are exact and wrap around.
  CHECK_EQ(RunOp(Op::MatMul).in<i64>({1, 2}, {INT64_MAX, 1}).in<i64>({2, 1}, {1, 1}).text(),
           "i64 [1,1] -9223372036854775808");
  CHECK_EQ(RunOp(Op::MatMul).in<std::int32_t>({1, 1}, {65536}).in<std::int32_t>({1, 1}, {65536}).text(), "i32 [1,1] 0");
}

TEST_CASE("matmul over many tiles") {
  // A[i][k] = (i + k) % 5, B[k][j] = (k * j) % 7, checked against a plain loop.
  constexpr std::int64_t kRows = 37, kDepth = 131, kColumns = 41;
  Vector<float> a, b;
  for (std::int64_t i = 0; i < kRows * kDepth; ++i) a.push_back(static_cast<float>((i / kDepth + i % kDepth) % 5));
  for (std::int64_t i = 0; i < kDepth * kColumns; ++i)
    b.push_back(static_cast<float>((i / kColumns) * (i % kColumns) % 7));
  RunOp op(Op::MatMul);
  op.packed(DType::F32, {kRows, kDepth}, a.data(), a.size() * 4)
      .packed(DType::F32, {kDepth, kColumns}, b.data(), b.size() * 4);
  REQUIRE_OK(op.run());
  const float *y = reinterpret_cast<const float *>(op.outputs()[0].data.data());
  bool equal = true;
  for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
    float sum = 0;
    for (std::int64_t k = 0; k < kDepth; ++k) {
      sum += a[static_cast<std::size_t>(i / kColumns * kDepth + k)] *
             b[static_cast<std::size_t>(k * kColumns + i % kColumns)];
    }
    equal = equal && y[i] == sum;
  }
  CHECK(equal);
}

TEST_CASE("gemm") {
  RunOp op(Op::Gemm);
  op.in<float>({1, 2}, {1, 2}).in<float>({2, 2}, {1, 2, 3, 4});
  CHECK_EQ(RunOp(op).text(), "f32 [1,2] 7 10");
  CHECK_EQ(RunOp(op).set("transB", 1).text(), "f32 [1,2] 5 11");
  CHECK_EQ(RunOp(op).set("alpha", 2.0).set("beta", 0.5).in<float>({2}, {2, 4}).text(), "f32 [1,2] 15 22");
  CHECK_EQ(RunOp(op).in<float>({1, 1}, {1}).text(), "f32 [1,2] 8 11");
  CHECK_EQ(RunOp(op).set("beta", 0.0).in<float>({}, {std::numeric_limits<float>::quiet_NaN()}).text(),
           "f32 [1,2] 7 10");
  CHECK_EQ(RunOp(Op::Gemm).in<float>({2, 1}, {1, 2}).in<float>({2, 1}, {3, 4}).set("transA", 1).text(), "f32 [1,1] 11");
  CHECK_EQ(RunOp(Op::Gemm)
               .in<std::int32_t>({1, 1}, {INT32_MAX})
               .in<std::int32_t>({1, 1}, {1})
               .in<std::int32_t>({1}, {1})
               .text(),
           "i32 [1,1] -2147483648");
  CHECK_EQ(RunOp(Op::Gemm).in<float>({1, 0}, {}).in<float>({0, 2}, {}).in<float>({2}, {3, 4}).text(), "f32 [1,2] 3 4");
}

TEST_CASE("fused matmul transposes") {
  // A is [2 rows, 1 batch, 2 columns] in memory with transBatchA.
  CHECK_EQ(RunOp(Op::FusedMatMul)
               .in<float>({2, 1, 2}, {1, 2, 3, 4})
               .in<float>({1, 2, 1}, {1, 10})
               .set("transBatchA", 1)
               .set("alpha", 2.0)
               .text(),
           "f32 [1,2,1] 42 86");
  CHECK_EQ(RunOp(Op::FusedMatMul)
               .in<float>({2, 1}, {1, 2})
               .in<float>({1, 2}, {3, 4})
               .set("transA", 1)
               .set("transB", 1)
               .text(),
           "f32 [1,1] 11");
}

TEST_CASE("integer products") {
  RunOp op(Op::MatMulInteger);
  op.in<u8>({2, 2}, {255, 255, 1, 2}).in<i8>({2, 1}, {127, 127});
  CHECK_EQ(RunOp(op).text(), "i32 [2,1] 64770 381");
  CHECK_EQ(RunOp(op).in<u8>({2}, {255, 1}).in<i8>({1}, {126}).text(), "i32 [2,1] 0 1");  // zero points per row
  CHECK_EQ(RunOp(op).in<u8>({3}, {0, 0, 0}).text(),
           "QR-G0004 MatMulInteger 'node': a_zero_point has shape [3], expected 1, 2 or 2 elements");
  // 12 * 0.25 / 2 = 1.5 -> 2, and saturation at both ends.
  CHECK_EQ(RunOp(Op::QLinearMatMul)
               .in<i8>({3, 1}, {3, 100, -100})
               .in<float>({}, {0.5F})
               .in<i8>({}, {0})
               .in<i8>({1, 1}, {4})
               .in<float>({}, {0.5F})
               .in<i8>({}, {0})
               .in<float>({}, {2})
               .in<i8>({}, {0})
               .text(),
           "i8 [3,1] 2 50 -50");
}

TEST_CASE("matmul n bits") {
  // One output, K 3, blocks of 16: q = 9, 7, 12 in 4 bits, scale 2, zero point 8: w = 2, -2, 8.
  RunOp op(Op::MatMulNBits);
  op.set("K", 3).set("N", 1).set("bits", 4).set("block_size", 16).in<float>({1, 3}, {1, 10, 100});
  op.in<u8>({1, 1, 8}, {0x79, 0x0c, 0, 0, 0, 0, 0, 0}).in<float>({1}, {2});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1] 782");
  CHECK_EQ(RunOp(op).in<u8>({1}, {0xf7}).text(), "f32 [1,1] 1004");                                 // zero point 7
  CHECK_EQ(RunOp(op).in<float>({1}, {7.5F}).absent().in<float>({1}, {1}).text(), "f32 [1,1] 894");  // 7.5, and a bias
  CHECK_EQ(RunOp(op).absent().in<std::int32_t>({3}, {0, 0, 1}).text(),
           "QR-R0007 MatMulNBits 'node': found index 1, expected -1 to 0");
  // 2 bits: q = 3, 0, 1 about 2.
  CHECK_EQ(RunOp(Op::MatMulNBits)
               .set("K", 3)
               .set("N", 1)
               .set("bits", 2)
               .set("block_size", 16)
               .in<float>({1, 3}, {1, 10, 100})
               .in<u8>({1, 1, 4}, {0x13, 0, 0, 0})
               .in<float>({1}, {1})
               .text(),
           "f32 [1,1] -119");
}
