// SPDX-License-Identifier: Apache-2.0
// Cast, the linear quantisation operators, and the conversions under them.
#include <bit>
#include <cmath>

#include "base/float16.h"
#include "kernels/reference/convert.h"
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

namespace {
RunOp cast_to(DType dtype) { return RunOp(Op::Cast).set("to", static_cast<i64>(dtype)); }
}  // namespace

TEST_CASE("every half survives") {
  int changed = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = f16_to_f32(half), wide_b = bf16_to_f32(half);
    changed += std::isnan(wide) ? !std::isnan(f16_to_f32(f32_to_f16(wide))) : f32_to_f16(wide) != half;
    changed += std::isnan(wide_b) ? !std::isnan(bf16_to_f32(f32_to_bf16(wide_b))) : f32_to_bf16(wide_b) != half;
  }
  CHECK_EQ(changed, 0);
}

TEST_CASE("every small float survives") {
  int changed = 0;
  for (const SmallFloat *type : {&kF8E4M3FN, &kF8E4M3FNUZ, &kF8E5M2, &kF8E5M2FNUZ, &kF4E2M1})
    for (std::uint32_t bits = 0; bits < 2 * type->sign_bit; ++bits) {
      const float wide = small_to_f32(*type, static_cast<u8>(bits));
      if (!std::isnan(wide)) changed += f32_to_small(*type, wide, false) != bits;
    }
  CHECK_EQ(changed, 0);
}

TEST_CASE("small floats round to even") {
  CHECK_EQ(f32_to_small(kF8E4M3FN, 17.0f, true), 0x58);  // between 16 and 18
  CHECK_EQ(f32_to_small(kF8E4M3FN, 19.0f, true), 0x5a);  // between 18 and 20
  CHECK_EQ(f32_to_small(kF8E4M3FN, 1e9f, true), 0x7e);
  CHECK_EQ(f32_to_small(kF8E4M3FN, 1e9f, false), 0x7f);
  CHECK_EQ(f32_to_small(kF8E5M2, -kInf, false), 0xfc);
  CHECK_EQ(f32_to_small(kF8E4M3FNUZ, -0.0f, true), 0);
  CHECK_EQ(f32_to_e8m0(3.0f, E8M0Round::Up, true), 129);
  CHECK_EQ(f32_to_e8m0(3.0f, E8M0Round::Down, true), 128);
}

TEST_CASE("casts between integers drop bits") {
  CHECK_EQ(cast_to(DType::I8).in<i32>({3}, {200, -200, 127}).text(), "i8 [3] -56 56 127");
  CHECK_EQ(cast_to(DType::U64).in<i64>({1}, {-1}).text(), "u64 [1] 18446744073709551615");
  CHECK_EQ(cast_to(DType::F32).in<u64>({1}, {UINT64_MAX}).text(), "f32 [1] 1.84467e+19");
  CHECK_EQ(cast_to(DType::I32).packed(DType::I4, {3}, {0x8f, 0x07}).text(), "i32 [3] -1 -8 7");
  CHECK_EQ(cast_to(DType::U2).in<i32>({4}, {1, 2, 3, 4}).text(), "u2 [4] 39");
  CHECK_EQ(cast_to(DType::Bool).in<float>({4}, {0, -0.0f, 0.1f, kNan}).text(), "bool [4] 0 0 1 1");
}

// 2^62 + 2^54 + 1 is just more than half way from 2^62 to the next bf16: rounded to f64 on the way it would be half
// way, and go back to 2^62.
TEST_CASE("casts from integers round once") {
  const i64 value = (i64{1} << 62) + (i64{1} << 54) + 1;
  CHECK_EQ(cast_to(DType::BF16).in<i64>({2}, {value, -value}).text(), "bf16 [2] 81 5e 81 de");
  CHECK_EQ(cast_to(DType::BF16).in<u64>({1}, {static_cast<u64>(value)}).text(), "bf16 [1] 81 5e");
}

TEST_CASE("casts of reals") {
  CHECK_EQ(cast_to(DType::I64).in<float>({5}, {1.9f, -1.9f, 1e30f, -1e30f, kNan}).text(),
           "i64 [5] 1 -1 9223372036854775807 -9223372036854775808 0");
  // A double just above the middle of two numbers of float16: rounding through f32 first would lose the bit that
  // decides.
  CHECK_EQ(cast_to(DType::F16).in<double>({1}, {1 + 0x1p-11 + 0x1p-40}).text(), "f16 [1] 01 3c");
  CHECK_EQ(cast_to(DType::BF16).in<double>({1}, {1 + 0x1p-8 + 0x1p-40}).text(), "bf16 [1] 81 3f");
}

TEST_CASE("quantize linear") {
  CHECK_EQ(RunOp(Op::QuantizeLinear)
               .in<float>({6}, {0, 1, 2.5f, 3.5f, 1000, kNan})
               .in<float>({}, {1})
               .in<u8>({}, {3})
               .text(),
           "u8 [6] 3 4 5 7 255 3");
  CHECK_EQ(RunOp(Op::QuantizeLinear)
               .set("axis", 0)
               .in<float>({2, 2}, {1, 2, 1, 2})
               .in<float>({2}, {1, 0.5f})
               .in<i8>({2}, {0, -1})
               .text(),
           "i8 [2,2] 1 2 1 3");
  CHECK_EQ(RunOp(Op::QuantizeLinear)
               .set("axis", 1)
               .set("block_size", 2)
               .in<float>({1, 3}, {2, 4, 6})
               .in<float>({1, 2}, {2, 3})
               .in<i8>({1, 2}, {0, 0})
               .text(),
           "i8 [1,3] 1 2 2");
  CHECK_EQ(RunOp(Op::QuantizeLinear).in<float>({3}, {-9, 3, 9}).in<float>({}, {1}).packed(DType::I4, {}, {0x0f}).text(),
           "i4 [3] 28 07");
}

TEST_CASE("dequantize linear") {
  CHECK_EQ(RunOp(Op::DequantizeLinear).in<u8>({2}, {0, 255}).in<float>({}, {0.5f}).in<u8>({}, {128}).text(),
           "f32 [2] -64 63.5");
  CHECK_EQ(RunOp(Op::DequantizeLinear)
               .packed(DType::U4, {3}, {0xf0, 0x01})
               .in<float>({}, {2})
               .packed(DType::U4, {}, {0x01})
               .text(),
           "f32 [3] -2 28 0");
  CHECK_EQ(RunOp(Op::DequantizeLinear).in<i32>({1}, {INT32_MIN}).in<float>({}, {1}).text(), "f32 [1] -2.14748e+09");
}

TEST_CASE("too few scales are refused") {
  const std::string text =
      RunOp(Op::DequantizeLinear).set("axis", 0).in<u8>({3}, {1, 2, 3}).in<float>({2}, {1, 1}).text();
  CHECK((text.substr(0, 4) == "QR-G" || text.substr(0, 4) == "QR-R"));
}

TEST_CASE("packing") {
  const u8 packed[] = {0xe1, 0x37};
  u8 elements[8], back[2] = {};
  reference::unpack(DType::I2, false, packed, 8, elements);
  CHECK_EQ(static_cast<i8>(elements[3]), -1);
  CHECK_EQ(static_cast<i8>(elements[2]), -2);
  reference::pack(DType::I2, elements, 8, back);
  CHECK((back[0] == packed[0] && back[1] == packed[1]));
}
