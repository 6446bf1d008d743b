// SPDX-License-Identifier: Apache-2.0
// Element-wise kernels where C++ or IEEE would trip: wrap-around, division by zero, NaN, broadcasting, small and
// quantised types.
#include <cmath>

#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("integers wrap around") {
  CHECK_EQ(RunOp(Op::Add).in<i8>({2}, {127, -128}).in<i8>({2}, {1, -1}).text(), "i8 [2] -128 127");
  CHECK_EQ(RunOp(Op::Sub).in<u64>({1}, {0}).in<u64>({1}, {1}).text(), "u64 [1] 18446744073709551615");
  CHECK_EQ(RunOp(Op::Mul).in<i32>({1}, {INT32_MAX}).in<i32>({1}, {2}).text(), "i32 [1] -2");
  CHECK_EQ(RunOp(Op::Neg).in<i32>({1}, {INT32_MIN}).text(), "i32 [1] -2147483648");
  CHECK_EQ(RunOp(Op::Abs).in<i8>({2}, {-128, -3}).text(), "i8 [2] -128 3");
}

TEST_CASE("integer division and remainder") {
  CHECK_EQ(RunOp(Op::Div).in<i32>({4}, {7, -7, 7, INT32_MIN}).in<i32>({4}, {2, 2, 0, -1}).text(),
           "i32 [4] 3 -3 0 -2147483648");
  CHECK_EQ(RunOp(Op::Mod).in<i32>({4}, {-7, 7, 7, INT32_MIN}).in<i32>({4}, {3, -3, 0, -1}).text(), "i32 [4] 2 -2 0 0");
  CHECK_EQ(RunOp(Op::Mod).set("fmod", 1).in<i32>({2}, {-7, 7}).in<i32>({2}, {3, -3}).text(), "i32 [2] -1 1");
  CHECK_EQ(
      RunOp(Op::Mod).in<float>({6}, {-5.5f, 5.5f, 0, kInf, 3, -3}).in<float>({6}, {2, -2, -1, 2, kInf, kInf}).text(),
      "f32 [6] 0.5 -0.5 -0 nan 3 inf");
}

TEST_CASE("powers") {
  CHECK_EQ(RunOp(Op::Pow).in<i32>({5}, {2, -1, 0, 3, 1}).in<i64>({5}, {10, -3, 0, -1, -5}).text(),
           "i32 [5] 1024 -1 1 0 1");
  CHECK_EQ(RunOp(Op::Pow).in<float>({3}, {2, 4, 9}).in<i32>({1}, {2}).text(), "f32 [3] 4 16 81");
  CHECK_EQ(RunOp(Op::Pow).in<i64>({1}, {9}).in<float>({1}, {0.5f}).text(), "i64 [1] 3");
  CHECK_EQ(RunOp(Op::Pow).in<i32>({2}, {-2, 0}).in<float>({2}, {0.5f, -1}).text(), "i32 [2] 0 2147483647");
}

TEST_CASE("broadcasting") {
  CHECK_EQ(RunOp(Op::Add).in<float>({2, 1, 2}, {1, 2, 3, 4}).in<float>({3, 1}, {10, 20, 30}).text(),
           "f32 [2,3,2] 11 12 21 22 31 32 13 14 23 24 33 34");
  CHECK_EQ(RunOp(Op::Sub).in<float>({}, {1}).in<float>({2, 2}, {1, 2, 3, 4}).text(), "f32 [2,2] 0 -1 -2 -3");
  CHECK_EQ(RunOp(Op::Mul).in<float>({2, 0}, {}).in<float>({1, 1}, {5}).text(), "f32 [2,0]");
  CHECK_EQ(RunOp(Op::Where).in<bool>({2, 1}, {true, false}).in<i64>({2}, {1, 2}).in<i64>({1, 1}, {9}).text(),
           "i64 [2,2] 1 2 9 9");
  CHECK_EQ(RunOp(Op::Sum).in<float>({2}, {1, 2}).in<float>({2, 1}, {10, 20}).in<float>({}, {100}).text(),
           "f32 [2,2] 111 112 121 122");
}

TEST_CASE("nan stays") {
  CHECK_EQ(RunOp(Op::Max).in<float>({2}, {kNan, 1}).in<float>({2}, {1, kNan}).text(), "f32 [2] nan nan");
  CHECK_EQ(RunOp(Op::Relu).in<float>({3}, {kNan, -1, 2}).text(), "f32 [3] nan 0 2");
  CHECK_EQ(RunOp(Op::Clip).in<float>({3}, {kNan, -1, 9}).in<float>({}, {0}).in<float>({}, {6}).text(),
           "f32 [3] nan 0 6");
  CHECK_EQ(RunOp(Op::Sign).in<float>({3}, {kNan, -2, 0}).text(), "f32 [3] nan -1 0");
  CHECK_EQ(RunOp(Op::IsInf).set("detect_negative", 0).in<float>({3}, {kInf, -kInf, kNan}).text(), "bool [3] 1 0 0");
}

TEST_CASE("bounds of clip") {
  CHECK_EQ(RunOp(Op::Clip).in<i8>({3}, {-5, 0, 5}).absent().in<i8>({}, {2}).text(), "i8 [3] -5 0 2");
  CHECK_EQ(RunOp(Op::Clip).in<float>({2}, {-5, 5}).in<float>({}, {3}).in<float>({}, {1}).text(),
           "f32 [2] 1 1");  // min above max
}

TEST_CASE("shifts past the width") {
  CHECK_EQ(RunOp(Op::BitShift).set("direction", "LEFT").in<u8>({3}, {1, 1, 255}).in<u8>({3}, {7, 8, 4}).text(),
           "u8 [3] 128 0 240");
  CHECK_EQ(RunOp(Op::BitShift).set("direction", "RIGHT").in<u64>({2}, {8, 8}).in<u64>({2}, {3, 64}).text(),
           "u64 [2] 1 0");
}

TEST_CASE("bools of any byte") {
  const u8 odd[] = {0, 2, 255};
  CHECK_EQ(RunOp(Op::Equal).packed(DType::Bool, {3}, odd, 3).in<bool>({1}, {true}).text(), "bool [3] 0 1 1");
  CHECK_EQ(RunOp(Op::And).packed(DType::Bool, {3}, odd, 3).in<bool>({3}, {true, true, false}).text(), "bool [3] 0 1 0");
  CHECK_EQ(RunOp(Op::Not).packed(DType::Bool, {3}, odd, 3).text(), "bool [3] 1 0 0");
}

TEST_CASE("activations at extremes") {
  CHECK_EQ(RunOp(Op::Sigmoid).in<float>({4}, {-1000, 0, 1000, kNan}).text(), "f32 [4] 0 0.5 1 nan");
  CHECK_EQ(RunOp(Op::Softplus).in<float>({3}, {-1000, 0, 1000}).text(), "f32 [3] 0 0.693147 1000");
  CHECK_EQ(RunOp(Op::Mish).in<float>({2}, {1000, 0}).text(), "f32 [2] 1000 0");
  CHECK_EQ(RunOp(Op::Gelu).in<float>({3}, {-1, 0, 1}).text(), "f32 [3] -0.158655 0 0.841345");
  CHECK_EQ(RunOp(Op::Round).in<float>({4}, {0.5f, 1.5f, -2.5f, 2.5f}).text(), "f32 [4] 0 2 -2 2");
}

TEST_CASE("integers less a fraction lose it as Cast has it") {
  CHECK_EQ(RunOp(Op::Shrink).set("bias", 0.25f).in<i32>({4}, {10, -10, 0, 1}).text(), "i32 [4] 9 -9 0 0");
  CHECK_EQ(RunOp(Op::Shrink).set("bias", 0.75f).set("lambd", 1.5f).in<u8>({3}, {10, 2, 1}).text(), "u8 [3] 9 1 0");
  CHECK_EQ(RunOp(Op::OneHot).in<i64>({1}, {1}).in<float>({}, {2.75f}).in<float>({2}, {0, 1}).text(), "f32 [1,2] 0 1");
}

TEST_CASE("f16 is rounded once") {
  // 1 + 2^-11 is a tie and goes to even, 65504 + 16 overflows.
  CHECK_EQ(RunOp(Op::Add)
               .packed(DType::F16, {2}, {0x00, 0x3c, 0xff, 0x7b})
               .packed(DType::F16, {2}, {0x00, 0x10, 0x00, 0x4c})
               .text(),
           "f16 [2] 00 3c 00 7c");
}

TEST_CASE("quantised addition") {
  // (10-2)*0.5 + (3-0)*0.25 = 4.75 -> 4.75/0.5 = 9.5 -> 10 (even) + 1; the other saturates.
  CHECK_EQ(RunOp(Op::Add)
               .in<u8>({2}, {10, 255})
               .quantized(0.5f, 2)
               .in<u8>({2}, {3, 255})
               .quantized(0.25f, 0)
               .gives(DType::U8, 0.5f, 1)
               .text(),
           "u8 [2] 11 255");
  CHECK_EQ(RunOp(Op::Relu).packed(DType::I4, {3}, {0x9f, 0x07}).quantized(1, 0).gives(DType::I4, 1, 0).text(),
           "i4 [3] 00 07");
}
