// SPDX-License-Identifier: Apache-2.0
// Movement kernels at their edges. ONNX's node tests cover the ordinary cases.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("reshape keeps every type") {
  CHECK_EQ(RunOp(Op::Reshape).in<float>({2, 3}, {1, 2, 3, 4, 5, 6}).in<i64>({2}, {-1, 2}).text(),
           "f32 [3,2] 1 2 3 4 5 6");
  CHECK_EQ(RunOp(Op::Reshape).packed(DType::U4, {3}, {0x21, 0x03}).in<i64>({2}, {3, 1}).text(), "u4 [3,1] 21 03");
  CHECK_EQ(RunOp(Op::Reshape).packed(DType::F16, {1, 2}, {0x00, 0x3c, 0x01, 0x7e}).in<i64>({1}, {2}).text(),
           "f16 [2] 00 3c 01 7e");
  CHECK_EQ(RunOp(Op::Reshape).in<double>({0, 3}, {}).in<i64>({2}, {3, 0}).set("allowzero", 1).text(), "f64 [3,0]");
  CHECK_EQ(RunOp(Op::Reshape).in<bool>({}, {true}).in<i64>({2}, {1, 1}).text(), "bool [1,1] 1");
}

TEST_CASE("transpose") {
  CHECK_EQ(RunOp(Op::Transpose).in<i64>({2, 3}, {1, 2, 3, 4, 5, 6}).text(), "i64 [3,2] 1 4 2 5 3 6");
  CHECK_EQ(RunOp(Op::Transpose).set("perm", {1, 2, 0}).in<std::uint8_t>({2, 1, 3}, {1, 2, 3, 4, 5, 6}).text(),
           "u8 [1,3,2] 1 4 2 5 3 6");
  CHECK_EQ(RunOp(Op::Transpose).in<float>({}, {7}).text(), "f32 [] 7");
  CHECK_EQ(RunOp(Op::Transpose).in<float>({0, 2}, {}).text(), "f32 [2,0]");
  CHECK_EQ(RunOp(Op::Transpose).packed(DType::I4, {2, 2}, {0x21, 0x43}).text(), "i4 [2,2] 31 42");
}

TEST_CASE("concat with empty parts") {
  CHECK_EQ(RunOp(Op::Concat)
               .set("axis", 1)
               .in<float>({2, 1}, {1, 2})
               .in<float>({2, 0}, {})
               .in<float>({2, 2}, {3, 4, 5, 6})
               .text(),
           "f32 [2,3] 1 3 4 2 5 6");
  CHECK_EQ(RunOp(Op::Concat).set("axis", -1).in<bool>({1}, {true}).in<bool>({2}, {false, true}).text(),
           "bool [3] 1 0 1");
  // Different quantisation: the real numbers are joined.
  CHECK_EQ(RunOp(Op::Concat)
               .set("axis", 0)
               .in<std::uint8_t>({2}, {10, 20})
               .quantized(0.5F, 0)
               .in<std::uint8_t>({1}, {10})
               .quantized(1.0F, 5)
               .gives(DType::U8, 0.5F, 1)
               .text(),
           "u8 [3] 11 21 11");
}

TEST_CASE("split") {
  CHECK_EQ(RunOp(Op::Split, 3).in<float>({5}, {1, 2, 3, 4, 5}).set("num_outputs", 3).text(),
           "f32 [2] 1 2; f32 [2] 3 4; f32 [1] 5");
  CHECK_EQ(RunOp(Op::Split, 2).set("axis", 1).in<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}).in<i64>({2}, {0, 3}).text(),
           "i32 [2,0]; i32 [2,3] 1 2 3 4 5 6");
}

TEST_CASE("slice steps") {
  RunOp op(Op::Slice);
  op.in<i64>({5}, {0, 1, 2, 3, 4});
  CHECK_EQ(RunOp(op).in<i64>({1}, {-1}).in<i64>({1}, {-100}).in<i64>({1}, {0}).in<i64>({1}, {-2}).text(),
           "i64 [3] 4 2 0");
  CHECK_EQ(RunOp(op).in<i64>({1}, {1}).in<i64>({1}, {INT64_MAX}).absent().in<i64>({1}, {INT64_MAX}).text(),
           "i64 [1] 1");
  CHECK_EQ(RunOp(op).in<i64>({1}, {3}).in<i64>({1}, {1}).text(), "i64 [0]");
  CHECK_EQ(RunOp(op).in<i64>({1}, {-6}).in<i64>({1}, {INT64_MIN}).in<i64>({1}, {0}).in<i64>({1}, {-1}).text(),
           "i64 [1] 0");
  CHECK_EQ(RunOp(op).in<i64>({1}, {-6}).in<i64>({1}, {0}).in<i64>({1}, {0}).in<i64>({1}, {-1}).text(), "i64 [0]");
  CHECK_EQ(
      RunOp(op).in<i64>({1}, {INT64_MAX}).in<i64>({1}, {INT64_MIN}).in<i64>({1}, {0}).in<i64>({1}, {INT64_MIN}).text(),
      "i64 [1] 4");
  CHECK_EQ(RunOp(Op::Slice)
               .in<float>({2, 3}, {1, 2, 3, 4, 5, 6})
               .in<std::int32_t>({1}, {-1})
               .in<std::int32_t>({1}, {-4})
               .in<std::int32_t>({1}, {-1})
               .in<std::int32_t>({1}, {-1})
               .text(),
           "f32 [2,3] 3 2 1 6 5 4");
}

TEST_CASE("expand and tile") {
  CHECK_EQ(RunOp(Op::Expand).in<float>({2, 1}, {1, 2}).in<i64>({3}, {2, 1, 2}).text(), "f32 [2,2,2] 1 1 2 2 1 1 2 2");
  CHECK_EQ(RunOp(Op::Expand).in<float>({}, {3}).in<i64>({1}, {0}).text(), "f32 [0]");
  CHECK_EQ(RunOp(Op::Expand).in<float>({2, 2}, {1, 2, 3, 4}).in<i64>({1}, {1}).text(), "f32 [2,2] 1 2 3 4");
  CHECK_EQ(RunOp(Op::Tile).in<std::int16_t>({1, 2}, {1, 2}).in<i64>({2}, {2, 2}).text(), "i16 [2,4] 1 2 1 2 1 2 1 2");
  CHECK_EQ(RunOp(Op::Tile).in<float>({2}, {1, 2}).in<i64>({1}, {0}).text(), "f32 [0]");
}

TEST_CASE("pad modes") {
  const auto pad = [](const char *mode, std::initializer_list<i64> pads) {
    return RunOp(Op::Pad).set("mode", mode).in<float>({3}, {1, 2, 3}).in<i64>({2}, pads).text();
  };
  CHECK_EQ(pad("constant", {1, 2}), "f32 [6] 0 1 2 3 0 0");
  CHECK_EQ(pad("edge", {2, 1}), "f32 [6] 1 1 1 2 3 3");
  CHECK_EQ(pad("reflect", {2, 2}), "f32 [7] 3 2 1 2 3 2 1");
  CHECK_EQ(pad("reflect", {5, 0}), "f32 [8] 2 1 2 3 2 1 2 3");  // further than one reflection
  CHECK_EQ(pad("wrap", {4, 1}), "f32 [8] 3 1 2 3 1 2 3 1");
  CHECK_EQ(pad("constant", {-1, 2}), "f32 [4] 2 3 0 0");
  CHECK_EQ(pad("edge", {-2, 1}), "f32 [2] 3 3");
  CHECK_EQ(pad("constant", {-3, 0}), "f32 [0]");
  // What is cut is not repeated or mirrored.
  const auto cut = [](const char *mode, std::initializer_list<i64> pads) {
    return RunOp(Op::Pad).set("mode", mode).in<float>({5}, {1, 2, 3, 4, 5}).in<i64>({2}, pads).text();
  };
  CHECK_EQ(cut("wrap", {-1, 2}), "f32 [6] 2 3 4 5 2 3");
  CHECK_EQ(cut("wrap", {2, -1}), "f32 [6] 3 4 1 2 3 4");
  CHECK_EQ(cut("reflect", {-3, 2}), "f32 [4] 4 5 4 5");
  CHECK_EQ(cut("edge", {-4, 2}), "f32 [3] 5 5 5");
  CHECK_EQ(RunOp(Op::Pad).in<i64>({0}, {}).in<i64>({2}, {1, 1}).in<i64>({}, {9}).text(), "i64 [2] 9 9");
  CHECK_EQ(RunOp(Op::Pad).in<bool>({1, 1}, {true}).in<i64>({2}, {0, 1}).absent().in<std::int32_t>({1}, {-1}).text(),
           "bool [1,2] 1 0");
  CHECK_EQ(RunOp(Op::Pad).set("mode", "edge").in<float>({2, 2}, {1, 2, 3, 4}).in<i64>({4}, {1, 0, 0, 1}).text(),
           "f32 [3,3] 1 2 2 1 2 2 3 4 4");
  // Zero of a quantised tensor is its zero point.
  CHECK_EQ(RunOp(Op::Pad)
               .in<std::uint8_t>({1}, {7})
               .quantized(0.5F, 3)
               .in<i64>({2}, {1, 0})
               .gives(DType::U8, 0.5F, 3)
               .text(),
           "u8 [2] 3 7");
}

TEST_CASE("trilu") {
  RunOp op(Op::Trilu);
  op.in<i64>({2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK_EQ(RunOp(op).in<i64>({}, {1}).text(), "i64 [2,3] 0 2 3 0 0 6");
  CHECK_EQ(RunOp(op).in<i64>({}, {INT64_MAX}).text(), "i64 [2,3] 0 0 0 0 0 0");
  CHECK_EQ(RunOp(op).set("upper", 0).in<i64>({}, {INT64_MIN}).text(), "i64 [2,3] 0 0 0 0 0 0");
  CHECK_EQ(RunOp(op).set("upper", 0).text(), "i64 [2,3] 1 0 0 4 5 0");
  CHECK_EQ(RunOp(Op::Trilu).in<float>({0, 3}, {}).text(), "f32 [0,3]");
}

TEST_CASE("blocks") {
  CHECK_EQ(RunOp(Op::DepthToSpace).set("blocksize", 2).in<float>({1, 4, 1, 1}, {1, 2, 3, 4}).text(),
           "f32 [1,1,2,2] 1 2 3 4");
  CHECK_EQ(RunOp(Op::DepthToSpace)
               .set("blocksize", 2)
               .set("mode", "CRD")
               .in<std::uint8_t>({1, 8, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8})
               .text(),
           "u8 [1,2,2,2] 1 2 3 4 5 6 7 8");
  CHECK_EQ(RunOp(Op::DepthToSpace).set("blocksize", 2).in<std::uint8_t>({1, 8, 1, 1}, {1, 2, 3, 4, 5, 6, 7, 8}).text(),
           "u8 [1,2,2,2] 1 3 5 7 2 4 6 8");
  CHECK_EQ(RunOp(Op::SpaceToDepth).set("blocksize", 2).in<float>({1, 1, 2, 2}, {1, 2, 3, 4}).text(),
           "f32 [1,4,1,1] 1 2 3 4");
}

TEST_CASE("reverse sequence refuses long sequences") {
  RunOp op(Op::ReverseSequence);
  op.in<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK_EQ(RunOp(op).in<i64>({2}, {3, 0}).text(), "f32 [3,2] 5 2 3 4 1 6");
  CHECK_EQ(RunOp(op).in<i64>({2}, {4, 0}).text(),
           "QR-R0007 ReverseSequence 'node': found sequence length 4, expected 0 to 3");
}

TEST_CASE("crop pad and compress") {
  CHECK_EQ(RunOp(Op::CenterCropPad).in<float>({5}, {1, 2, 3, 4, 5}).in<i64>({1}, {2}).text(), "f32 [2] 2 3");
  CHECK_EQ(RunOp(Op::CenterCropPad).in<float>({2}, {1, 2}).in<i64>({1}, {5}).text(), "f32 [5] 0 1 2 0 0");
  CHECK_EQ(RunOp(Op::Compress).in<float>({2, 2}, {1, 2, 3, 4}).in<bool>({3}, {false, true, true}).text(),
           "f32 [2] 2 3");
  CHECK_EQ(RunOp(Op::Compress).set("axis", 1).in<float>({2, 2}, {1, 2, 3, 4}).in<bool>({1}, {true}).text(),
           "f32 [2,1] 1 3");
  CHECK_EQ(RunOp(Op::Compress).set("axis", 0).in<float>({2, 2}, {1, 2, 3, 4}).in<bool>({2}, {false, false}).text(),
           "f32 [0,2]");
  CHECK(RunOp(Op::Compress).in<float>({1}, {1}).in<bool>({2}, {false, true}).text().starts_with("QR-"));
}

TEST_CASE("col2im adds overlaps") {
  CHECK_EQ(RunOp(Op::Col2Im).in<float>({1, 2, 2}, {1, 2, 3, 4}).in<i64>({1}, {3}).in<i64>({1}, {2}).text(),
           "f32 [1,1,3] 1 5 4");
}
