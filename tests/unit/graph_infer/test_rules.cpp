// SPDX-License-Identifier: Apache-2.0
// Shape rules, family by family, against shapes worked out by hand; and the sentence that a wrong node gets.
#include "infer_case.h"
#include "tests/support/check.h"

namespace quarry::qir::test {
namespace {

constexpr DType F16 = DType::F16, F32 = DType::F32, F64 = DType::F64, I8 = DType::I8, U8 = DType::U8, I32 = DType::I32,
                I64 = DType::I64, B = DType::Bool;
constexpr std::int64_t Q = kUnknownDim;
using C = InferCase;

TEST_CASE("elementwise") {
  CHECK_INFERS(C(Op::Relu).f32({2, Q}), "f32[2,?]");
  CHECK_INFERS(C(Op::Add).f32({3, 1, 5}).f32({4, 1}), "f32[3,4,5]");
  CHECK_INFERS(C(Op::Add).f32({Q, 4}).f32({3, 1}), "f32[3,4]");
  CHECK_INFERS(C(Op::Add).f32({Q}).f32({1}), "f32[?]");
  CHECK_INFERS(C(Op::Max).f32({2}).f32({1, 1}).f32({3, 1}), "f32[3,2]");
  CHECK_INFERS(C(Op::Less).in(F16, {2, 1}).in(F16, {2}), "bool[2,2]");
  CHECK_INFERS(C(Op::Where).in(B, {2, 1}).in(I32, {3}).in(I32, {}), "i32[2,3]");
  CHECK_INFERS(C(Op::Cast).set("to", 10).f32({4}), "f16[4]");
  CHECK_INFERS(C(Op::CastLike).f32({4}).in(I8, {}), "i8[4]");
  CHECK_INFERS(C(Op::IsNaN).in(F64, {4}), "bool[4]");
  CHECK_INFERS(C(Op::Dropout, 2).f32({2, 3}), "f32[2,3] bool[2,3]");
  CHECK_INFERS(C(Op::Clip).f32({2}).absent().real(6), "f32[2]");
  CHECK_INFERS(C(Op::Add).f32({2}).f32({3}), "QR-G0004 Add 'n': shapes [2] and [3] do not broadcast: 2 against 3");
  CHECK_INFERS(C(Op::PRelu).f32({2, 3}).f32({2, 1, 1}),
               "QR-G0004 PRelu 'n': the slope has shape [2,1,1], which does not broadcast to [2,3]");
  CHECK_INFERS(C(Op::Softmax).set("axis", 2).f32({2, 3}),
               "QR-G0004 Softmax 'n': axis 2 is outside a tensor of rank 2, expected -2 to 1");
  CHECK_INFERS(C(Op::BitCast).set("to", 7).f32({2}),
               "QR-G0003 BitCast 'n': f32 has 32 bits, expected those of i64 (64)");
  CHECK_INFERS(C(Op::Cast).set("to", 8).f32({2}),
               "QR-G0005 Cast 'n': attribute 'to' is 8, which is no element type that Quarry has");
}

TEST_CASE("quantisation") {
  CHECK_INFERS(C(Op::QuantizeLinear).f32({2, 3}).f32({}).in(I8, {}), "i8[2,3]");
  CHECK_INFERS(C(Op::QuantizeLinear).f32({2, 3}).f32({}), "u8[2,3]");
  CHECK_INFERS(C(Op::QuantizeLinear).set("axis", 0).f32({2, 3}).f32({2}).in(I8, {2}), "i8[2,3]");
  CHECK_INFERS(C(Op::DequantizeLinear).set("axis", -1).set("block_size", 2).in(I8, {2, 5}).in(F16, {2, 3}), "f16[2,5]");
  CHECK_INFERS(C(Op::DynamicQuantizeLinear, 3).f32({4}), "u8[4] f32[] u8[]");
  CHECK_INFERS(C(Op::DequantizeLinear).in(I8, {2, 3}).f32({2}),
               "QR-G0004 DequantizeLinear 'n': the scale has shape [2], expected [3]");
  // A quantised tensor stands for real numbers; the bias of a quantised Conv is i32.
  CHECK_INFERS(C(Op::Conv).in(U8, {1, 3, 4, 4}).quantised().in(I8, {2, 3, 1, 1}).quantised().in(I32, {2}),
               "f32[1,2,4,4]");
  CHECK_INFERS(C(Op::Reshape).in(U8, {4}).quantised().ints({2, 2}), "f32[2,2]");
}

TEST_CASE("convolutions") {
  CHECK_INFERS(
      C(Op::Conv).f32({1, 3, 224, 224}).f32({64, 3, 7, 7}).f32({64}).set("strides", {2, 2}).set("pads", {3, 3, 3, 3}),
      "f32[1,64,112,112]");
  CHECK_INFERS(C(Op::Conv).f32({1, 8, 10}).f32({8, 1, 3}).set("group", 8).set("dilations", {2}), "f32[1,8,6]");
  CHECK_INFERS(C(Op::Conv).f32({1, 1, 5, 6}).f32({1, 1, 2, 3}).set("auto_pad", "SAME_LOWER").set("strides", {2, 4}),
               "f32[1,1,3,2]");
  CHECK_INFERS(C(Op::Conv).f32({1, 1, 5, 6}).f32({1, 1, 2, 3}).set("auto_pad", "VALID"), "f32[1,1,4,4]");
  CHECK_INFERS(C(Op::Conv).f32({Q, 3, Q, 8}).f32({4, 3, 3, 3}), "f32[?,4,?,6]");
  CHECK_INFERS(C(Op::ConvInteger).in(U8, {1, 1, 3, 3}).in(U8, {1, 1, 2, 2}).in(U8, {}), "i32[1,1,2,2]");
  CHECK_INFERS(C(Op::ConvTranspose).f32({1, 1, 3, 3}).f32({1, 2, 3, 3}).set("strides", {3, 2}), "f32[1,2,9,7]");
  CHECK_INFERS(
      C(Op::ConvTranspose).f32({1, 1, 3, 3}).f32({1, 2, 3, 3}).set("strides", {3, 2}).set("output_padding", {1, 1}),
      "f32[1,2,10,8]");
  CHECK_INFERS(
      C(Op::ConvTranspose).f32({1, 1, 3, 3}).f32({1, 2, 3, 3}).set("strides", {3, 2}).set("output_shape", {10, 8}),
      "f32[1,2,10,8]");
  CHECK_INFERS(
      C(Op::ConvTranspose).f32({1, 1, 3, 3}).f32({1, 2, 3, 3}).set("strides", {2, 2}).set("auto_pad", "SAME_UPPER"),
      "f32[1,2,6,6]");
  CHECK_INFERS(C(Op::DeformConv).f32({1, 1, 3, 3}).f32({1, 1, 2, 2}).f32({1, 8, 2, 2}), "f32[1,1,2,2]");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 8, 8}).f32({16, 4, 3, 3}),
               "QR-G0004 Conv 'n': the weight has 4 input channels, expected 3 (input channels 3 / group 1)");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 8, 8}).f32({16, 3, 3, 3}).f32({8}),
               "QR-G0004 Conv 'n': the bias has shape [8], expected [16]");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 4, 8}).f32({16, 3, 5, 3}),
               "QR-G0004 Conv 'n': the window covers 5 along spatial axis 0 (kernel 5, dilation 1), more than the "
               "padded input's 4");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 8, 8}).f32({16, 3, 3, 3}).set("strides", {1}),
               "QR-G0005 Conv 'n': attribute 'strides' has 1 entries, expected 2 for 2 spatial axes");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 8, 8}).f32({16, 3, 3, 3}).set("strides", {0, 1}),
               "QR-G0005 Conv 'n': attribute 'strides' is [0,1], expected 1 or more");
  CHECK_INFERS(C(Op::Conv).f32({1, 3, 8, 8}).f32({16, 3, 3, 3}).set("pads", {INT64_MAX, 0, INT64_MAX, 0}),
               "QR-G0004 Conv 'n': size 8 + 9223372036854775807 does not fit into 64 bits");
}

TEST_CASE("pools") {
  CHECK_INFERS(C(Op::MaxPool, 2).f32({1, 2, 5, 5}).set("kernel_shape", {2, 2}).set("strides", {2, 2}),
               "f32[1,2,2,2] i64[1,2,2,2]");
  CHECK_INFERS(C(Op::MaxPool).f32({1, 2, 5, 5}).set("kernel_shape", {2, 2}).set("strides", {2, 2}).set("ceil_mode", 1),
               "f32[1,2,3,3]");
  // The window that ceil_mode adds would start in the padding: dropped.
  CHECK_INFERS(C(Op::MaxPool).f32({1, 1, 2, 2}).set("kernel_shape", {1, 1}).set("strides", {2, 2}).set("ceil_mode", 1),
               "f32[1,1,1,1]");
  CHECK_INFERS(C(Op::AveragePool)
                   .f32({1, 1, 4, 4})
                   .set("kernel_shape", {3, 3})
                   .set("strides", {3, 3})
                   .set("pads", {0, 0, 1, 1})
                   .set("ceil_mode", 1),
               "f32[1,1,2,2]");
  CHECK_INFERS(C(Op::MaxPool).f32({1, 1, 4, 4}).set("kernel_shape", {2, 2}).set("dilations", {2, 2}), "f32[1,1,2,2]");
  CHECK_INFERS(C(Op::GlobalAveragePool).f32({1, 5, 7, 7}), "f32[1,5,1,1]");
  CHECK_INFERS(
      C(Op::MaxUnpool).f32({1, 1, 2, 2}).in(I64, {1, 1, 2, 2}).set("kernel_shape", {2, 2}).set("strides", {2, 2}),
      "f32[1,1,4,4]");
  CHECK_INFERS(C(Op::MaxUnpool)
                   .f32({1, 1, 2, 2})
                   .in(I64, {1, 1, 2, 2})
                   .ints({1, 1, 5, 5})
                   .set("kernel_shape", {2, 2})
                   .set("strides", {2, 2}),
               "f32[1,1,5,5]");
  CHECK_INFERS(C(Op::Col2Im).f32({1, 5, 5}).ints({5, 5}).ints({1, 5}), "f32[1,1,5,5]");
  CHECK_INFERS(C(Op::Col2Im).f32({1, 5, 6}).ints({5, 5}).ints({1, 5}),
               "QR-G0004 Col2Im 'n': the input has 6 columns, expected 5 (the positions of the block in the image)");
  CHECK_INFERS(C(Op::MaxPool).f32({1, 2, 5, 5}),
               "QR-G0005 MaxPool 'n': attribute 'kernel_shape' is missing; MaxPool requires it");
}

TEST_CASE("images") {
  CHECK_INFERS(C(Op::Resize).f32({1, 1, 2, 4}).absent().floats({1, 1, 0.6f, 2}), "f32[1,1,1,8]");
  CHECK_INFERS(C(Op::Resize).f32({1, 1, 2, 4}).absent().absent().ints({7, 8}).set("axes", {-1, 2}), "f32[1,1,8,7]");
  CHECK_INFERS(C(Op::Resize)
                   .f32({1, 1, 2, 4})
                   .absent()
                   .absent()
                   .ints({7, 8})
                   .set("axes", {2, 3})
                   .set("keep_aspect_ratio_policy", "not_larger"),
               "f32[1,1,4,8]");
  CHECK_INFERS(C(Op::Resize)
                   .f32({1, 1, 2, 4})
                   .absent()
                   .absent()
                   .ints({7, 8})
                   .set("axes", {2, 3})
                   .set("keep_aspect_ratio_policy", "not_smaller"),
               "f32[1,1,7,14]");
  CHECK_INFERS(C(Op::Resize).f32({1, 1, 2, 4}).absent().f32({4}), "f32[?,?,?,?]");
  CHECK_INFERS(C(Op::Resize).f32({1, 1, 2, 4}).absent().floats({1, 1, 0, 2}),
               "QR-G0004 Resize 'n': the scale of axis 2 is 0, expected more than 0");
  CHECK_INFERS(C(Op::Resize).f32({1, 1, 2, 4}).absent().absent().ints({4, 4}),
               "QR-G0004 Resize 'n': sizes has 2 entries, expected 4, one per resized axis");
  CHECK_INFERS(C(Op::GridSample).f32({1, 2, 4, 4}).f32({1, 6, 7, 2}), "f32[1,2,6,7]");
  CHECK_INFERS(C(Op::AffineGrid).f32({2, 3, 4}).ints({2, 3, 4, 5, 6}), "f32[2,4,5,6,3]");
  CHECK_INFERS(C(Op::RoiAlign).f32({1, 8, 10, 10}).f32({3, 4}).in(I64, {3}).set("output_height", 5), "f32[3,8,5,1]");
  CHECK_INFERS(C(Op::CenterCropPad).f32({20, 8, 3}).ints({10, 9}).set("axes", {0, 1}), "f32[10,9,3]");
  CHECK_INFERS(C(Op::DepthToSpace).f32({1, 8, 2, 3}).set("blocksize", 2), "f32[1,2,4,6]");
  CHECK_INFERS(C(Op::SpaceToDepth).f32({1, 2, 4, 6}).set("blocksize", 2), "f32[1,8,2,3]");
  CHECK_INFERS(C(Op::DepthToSpace).f32({1, 6, 2, 3}).set("blocksize", 2),
               "QR-G0004 DepthToSpace 'n': 6 channels do not divide by blocksize * blocksize, 4");
}

TEST_CASE("products") {
  CHECK_INFERS(C(Op::MatMul).f32({2, 1, 3, 4}).f32({5, 4, 6}), "f32[2,5,3,6]");
  CHECK_INFERS(C(Op::MatMul).f32({4}).f32({4}), "f32[]");
  CHECK_INFERS(C(Op::MatMul).f32({4}).f32({2, 4, 3}), "f32[2,3]");
  CHECK_INFERS(C(Op::MatMul).f32({Q, 4}).f32({Q, 3}), "f32[?,3]");
  CHECK_INFERS(C(Op::MatMulInteger).in(U8, {4, 3}).in(I8, {3, 2}), "i32[4,2]");
  CHECK_INFERS(C(Op::Gemm).f32({3, 4}).f32({5, 3}).f32({5}).set("transA", 1).set("transB", 1), "f32[4,5]");
  CHECK_INFERS(C(Op::FusedMatMul).f32({2, 3, 4}).f32({2, 3, 5}).set("transA", 1), "f32[2,4,5]");
  CHECK_INFERS(C(Op::MatMulNBits)
                   .f32({2, 40})
                   .in(U8, {8, 2, 16})
                   .f32({8, 2})
                   .set("K", 40)
                   .set("N", 8)
                   .set("bits", 4)
                   .set("block_size", 32),
               "f32[2,8]");
  CHECK_INFERS(C(Op::Det).f32({2, 3, 3}), "f32[2]");
  CHECK_INFERS(C(Op::MatMul).f32({2, 3}).f32({4, 5}),
               "QR-G0004 MatMul 'n': shapes [2,3] and [4,5] do not multiply: 3 columns against 4 rows");
  CHECK_INFERS(C(Op::Gemm).f32({3, 4}).f32({4, 5}).f32({3}),
               "QR-G0004 Gemm 'n': C has shape [3], which does not broadcast to [3,5]");
}

TEST_CASE("einsum") {
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).f32({3, 4}).set("equation", "ij,jk->ik"), "f32[2,4]");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).f32({3, 4}).set("equation", "ij, jk"), "f32[2,4]");
  CHECK_INFERS(C(Op::Einsum).f32({3, 3}).set("equation", "ii"), "f32[]");
  CHECK_INFERS(C(Op::Einsum).f32({5, 2, 3}).f32({7, 1, 3, 4}).set("equation", "...ij,...jk->...ik"), "f32[7,5,2,4]");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).set("equation", "ba->ab"), "f32[3,2]");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).set("equation", "ij->iij"),
               "QR-G0005 Einsum 'n': equation \"ij->iij\": the output names an index twice");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).set("equation", "ij->k"),
               "QR-G0005 Einsum 'n': equation \"ij->k\": the output names an index that no operand has");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).set("equation", "ij,jk->ik"),
               "QR-G0005 Einsum 'n': equation \"ij,jk->ik\": it does not have one term per operand");
  CHECK_INFERS(C(Op::Einsum).f32({2, 3}).f32({4, 5}).set("equation", "ij,jk"),
               "QR-G0004 Einsum 'n': equation \"ij,jk\": one index has sizes 3 and 4");
  CHECK_INFERS(C(Op::Einsum).f32({1, 1, 1, 1, 1, 1, 1, 1}).set("equation", "......"),
               "QR-G0005 Einsum 'n': equation \"......\": a term has two ellipses");
}

TEST_CASE("movement") {
  CHECK_INFERS(C(Op::Reshape).f32({2, 3, 4}).ints({0, -1}), "f32[2,12]");
  CHECK_INFERS(C(Op::Reshape).f32({Q, 3, 4}).ints({0, -1}), "f32[?,12]");
  CHECK_INFERS(C(Op::Reshape).f32({Q, 3, 4}).ints({-1, 2}), "f32[?,2]");
  CHECK_INFERS(C(Op::Reshape).f32({0, 3}).ints({3, 0}).set("allowzero", 1), "f32[3,0]");
  CHECK_INFERS(C(Op::Reshape).f32({2, 3}).in(I64, {3}), "f32[?,?,?]");
  CHECK_INFERS(C(Op::Reshape).f32({}).ints({}), "f32[]");
  CHECK_INFERS(C(Op::Reshape).f32({2, 3}).ints({4, -1}),
               "QR-G0004 Reshape 'n': [2,3] does not reshape to [4,?]: the open size is no whole number");
  CHECK_INFERS(C(Op::Reshape).f32({2, 3}).ints({5}),
               "QR-G0004 Reshape 'n': [2,3] does not reshape to [5]: the number of elements differs");
  CHECK_INFERS(C(Op::Reshape).f32({1}).ints({1, 1, 1, 1, 1, 1, 1, 1, 1}),
               "QR-G0006 Reshape 'n': the shape has 9 dimensions, expected at most 8");
  CHECK_INFERS(C(Op::Flatten).f32({2, 3, 4}).set("axis", 0), "f32[1,24]");
  CHECK_INFERS(C(Op::Squeeze).f32({1, 3, 1}), "f32[3]");
  CHECK_INFERS(C(Op::Squeeze).f32({1, 3, 1}).ints({-1}), "f32[1,3]");
  CHECK_INFERS(C(Op::Squeeze).f32({1, 3, 1}).in(I64, {2}), "f32[?]");
  CHECK_INFERS(C(Op::Squeeze).f32({1, 3, 1}).ints({1}), "QR-G0004 Squeeze 'n': axis 1 has size 3, expected 1");
  CHECK_INFERS(C(Op::Unsqueeze).f32({3, 4}).ints({2, 0}), "f32[1,3,1,4]");
  CHECK_INFERS(C(Op::Unsqueeze).f32({3, 4}).ints({0, -4}), "QR-G0004 Unsqueeze 'n': axis -4 is named twice");
  CHECK_INFERS(C(Op::Transpose).f32({2, 3, 4}), "f32[4,3,2]");
  CHECK_INFERS(C(Op::Transpose).f32({2, 3, 4}).set("perm", {1, 2, 0}), "f32[3,4,2]");
  CHECK_INFERS(C(Op::Transpose).f32({2, 3, 4}).set("perm", {0, 2, -2}),
               "QR-G0005 Transpose 'n': attribute 'perm' has the entry -2, expected 0 to 2");
  CHECK_INFERS(C(Op::Concat).f32({2, 3}).f32({2, Q}).set("axis", -1), "f32[2,?]");
  CHECK_INFERS(C(Op::Concat).f32({2, 3}).f32({3, 3}).set("axis", 1),
               "QR-G0004 Concat 'n': input 1 has shape [3,3], which does not join [2,3] along axis 1");
  CHECK_INFERS(C(Op::Split, 3).f32({7}), "f32[3] f32[3] f32[1]");
  CHECK_INFERS(C(Op::Split, 2).f32({7}).ints({2, 5}), "f32[2] f32[5]");
  CHECK_INFERS(C(Op::Split, 2).f32({7}).ints({2, 4}),
               "QR-G0004 Split 'n': the parts of split add up to 6, expected the axis' size, 7");
  CHECK_INFERS(C(Op::Expand).f32({3, 1}).ints({2, 1, 6}), "f32[2,3,6]");
  CHECK_INFERS(C(Op::Tile).f32({3, 2}).ints({2, 3}), "f32[6,6]");
  CHECK_INFERS(C(Op::Tile).f32({3, 2}).ints({INT64_MAX, 3}),
               "QR-G0004 Tile 'n': size 3 * 9223372036854775807 does not fit into 64 bits");
}

TEST_CASE("slices and pads") {
  CHECK_INFERS(C(Op::Slice).f32({20, 10, 5}).ints({0, 0}).ints({3, 10}).ints({0, 1}).ints({1, 1}), "f32[3,10,5]");
  CHECK_INFERS(C(Op::Slice).f32({20, 10}).ints({-1}).ints({INT64_MIN}).ints({0}).ints({-3}), "f32[7,10]");
  CHECK_INFERS(C(Op::Slice).f32({20, 10}).ints({5}).ints({INT64_MAX}).ints({1}), "f32[20,5]");
  CHECK_INFERS(C(Op::Slice).f32({20}).ints({10}).ints({5}), "f32[0]");
  CHECK_INFERS(C(Op::Slice).f32({20}).ints({0}).ints({20}).ints({0}).ints({INT64_MIN}), "f32[0]");
  CHECK_INFERS(C(Op::Slice).f32({4}).ints({-5}).ints({INT64_MIN}).ints({0}).ints({-1}), "f32[1]");
  CHECK_INFERS(C(Op::Slice).f32({0}).ints({-5}).ints({INT64_MIN}).ints({0}).ints({-1}), "f32[0]");
  CHECK_INFERS(C(Op::Slice).f32({20, 10}).in(I64, {1}).in(I64, {1}).ints({-1}), "f32[20,?]");
  CHECK_INFERS(C(Op::Slice).f32({20}).ints({0}).ints({5}).ints({0}).ints({0}),
               "QR-G0004 Slice 'n': the step of axis 0 is 0");
  CHECK_INFERS(C(Op::Pad).f32({2, 3}).ints({1, 0, 2, -1}), "f32[5,2]");
  CHECK_INFERS(C(Op::Pad).f32({2, 3}).ints({1, 1}).absent().ints({-1}), "f32[2,5]");
  CHECK_INFERS(C(Op::Pad).f32({2, 3}).in(I64, {2}).absent().ints({-1}), "f32[2,?]");
  CHECK_INFERS(C(Op::Pad).f32({2, 3}).ints({0, -4, 0, 0}),
               "QR-G0004 Pad 'n': pads of -4 and 0 do not fit axis 1 of size 3");
  CHECK_INFERS(C(Op::Pad).f32({2, 3}).ints({0, 4}), "QR-G0004 Pad 'n': pads has 2 entries, expected 4 (two per axis)");
}

TEST_CASE("indices") {
  CHECK_INFERS(C(Op::Gather).f32({5, 4, 3}).in(I64, {2, 6}).set("axis", 1), "f32[5,2,6,3]");
  CHECK_INFERS(C(Op::Gather).f32({5}).in(I32, {}), "f32[]");
  CHECK_INFERS(C(Op::GatherElements).f32({3, 3}).in(I64, {2, 3}), "f32[2,3]");
  CHECK_INFERS(C(Op::GatherND).f32({2, 2, 2}).in(I64, {2, 1}).set("batch_dims", 1), "f32[2,2]");
  CHECK_INFERS(
      C(Op::GatherND).f32({2, 3}).in(I64, {4, 3}),
      "QR-G0004 GatherND 'n': an index has 3 entries (shape [4,3]), expected at most 2 for data of shape [2,3]");
  CHECK_INFERS(C(Op::ScatterND).f32({8, 3}).in(I64, {4, 1}).f32({4, 3}), "f32[8,3]");
  CHECK_INFERS(C(Op::ScatterND).f32({8, 3}).in(I64, {4, 1}).f32({4}),
               "QR-G0004 ScatterND 'n': updates has shape [4], expected [4,3]");
  CHECK_INFERS(C(Op::ScatterElements).f32({3, 3}).in(I64, {2, 3}).f32({2, 3}), "f32[3,3]");
  CHECK_INFERS(C(Op::OneHot).in(I64, {2, 3}).number(4).f32({2}).set("axis", 1), "f32[2,4,3]");
  CHECK_INFERS(C(Op::OneHot).in(I64, {2}).in(I64, {}).f32({2}), "f32[2,?]");
  CHECK_INFERS(C(Op::Trilu).f32({4}), "QR-G0004 Trilu 'n': the input has shape [4], expected rank 2 or more");
}

TEST_CASE("reductions") {
  CHECK_INFERS(C(Op::ReduceSum).f32({2, 3, 4}).ints({-1, 0}), "f32[1,3,1]");
  CHECK_INFERS(C(Op::ReduceSum).f32({2, 3, 4}).ints({1}).set("keepdims", 0), "f32[2,4]");
  CHECK_INFERS(C(Op::ReduceMax).f32({2, 3}).set("keepdims", 0), "f32[]");
  CHECK_INFERS(C(Op::ReduceMax).f32({2, 3}).ints({}).set("noop_with_empty_axes", 1), "f32[2,3]");
  CHECK_INFERS(C(Op::ReduceMax).f32({2, 3}).in(I64, {1}).set("keepdims", 0), "f32[?]");
  CHECK_INFERS(C(Op::ArgMax).f32({2, 3}).set("axis", -1).set("keepdims", 0), "i64[2]");
  CHECK_INFERS(C(Op::TopK, 2).f32({3, 4}).ints({2}), "f32[3,2] i64[3,2]");
  CHECK_INFERS(C(Op::TopK, 2).f32({3, 4}).ints({5}),
               "QR-G0004 TopK 'n': K is 5, expected 0 to the 4 elements along axis 1");
  CHECK_INFERS(C(Op::CumSum).f32({3}).number(1),
               "QR-G0004 CumSum 'n': axis 1 is outside a tensor of rank 1, expected -1 to 0");
  CHECK_INFERS(C(Op::SoftmaxCrossEntropyLoss, 2).f32({3, 5, 2}).in(I64, {3, 2}).set("reduction", "none"),
               "f32[3,2] f32[3,5,2]");
}

TEST_CASE("networks") {
  CHECK_INFERS(C(Op::BatchNormalization).f32({2, 3, 4}).f32({3}).f32({3}).f32({3}).f32({3}), "f32[2,3,4]");
  CHECK_INFERS(C(Op::BatchNormalization).f32({2, 3, 4}).f32({4}).f32({3}).f32({3}).f32({3}),
               "QR-G0004 BatchNormalization 'n': scale has shape [4], expected [3]");
  CHECK_INFERS(C(Op::LayerNormalization, 3).in(F16, {2, 3, 4}).in(F16, {3, 4}).set("axis", 1),
               "f16[2,3,4] f32[2,1,1] f32[2,1,1]");
  CHECK_INFERS(C(Op::GroupNormalization).f32({1, 6, 4}).f32({6}).f32({6}).set("num_groups", 4),
               "QR-G0005 GroupNormalization 'n': attribute 'num_groups' is 4, expected a divisor of the 6 channels");
  CHECK_INFERS(C(Op::LSTM, 3)
                   .f32({7, 2, 5})
                   .f32({2, 12, 5})
                   .f32({2, 12, 3})
                   .set("hidden_size", 3)
                   .set("direction", "bidirectional"),
               "f32[7,2,2,3] f32[2,2,3] f32[2,2,3]");
  CHECK_INFERS(C(Op::GRU, 2).f32({2, 7, 5}).f32({1, 9, 5}).f32({1, 9, 3}).set("layout", 1), "f32[2,7,1,3] f32[2,1,3]");
  CHECK_INFERS(C(Op::RNN, 2).f32({7, 2, 5}).f32({1, 4, 5}).f32({1, 3, 3}).set("hidden_size", 3),
               "QR-G0004 RNN 'n': W has shape [1,4,5], expected [1,3,5]");
  CHECK_INFERS(C(Op::Attention, 4)
                   .f32({2, 4, 24})
                   .f32({2, 6, 12})
                   .f32({2, 6, 20})
                   .set("q_num_heads", 6)
                   .set("kv_num_heads", 3)
                   .absent()
                   .f32({2, 3, 5, 4})
                   .in(F32, {2, 3, 5, 7}),
               "QR-G0004 Attention 'n': V has width 20, which does not divide into 3 heads");
  C attention(Op::Attention, 4);
  attention.f32({2, 4, 24}).f32({2, 6, 12}).f32({2, 6, 21}).absent().f32({2, 3, 5, 4}).f32({2, 3, 5, 7});
  CHECK_INFERS(attention.set("q_num_heads", 6).set("kv_num_heads", 3),
               "f32[2,4,42] f32[2,3,11,4] f32[2,3,11,7] f32[2,6,4,11]");
  CHECK_INFERS(C(Op::RotaryEmbedding).f32({2, 4, 3, 8}).f32({50, 4}).f32({50, 4}).in(I64, {2, 3}), "f32[2,4,3,8]");
}

TEST_CASE("operands whose dimensions must match") {
  CHECK_INFERS(C(Op::BatchNormalization).f32({7}).f32({1}).f32({1}).f32({1}).f32({1}), "f32[7]");
  CHECK_INFERS(C(Op::BatchNormalization).f32({7}).f32({1}).f32({1}).f32({7}).f32({1}),
               "QR-G0004 BatchNormalization 'n': the mean has shape [7], expected [1]");
  CHECK_INFERS(C(Op::BatchNormalization).f32({2, 3}).f32({3}).f32({3}).f32({3}).f32({2}),
               "QR-G0004 BatchNormalization 'n': the variance has shape [2], expected [3]");
  CHECK_INFERS(C(Op::BatchNormalization).f32({}).f32({1}).f32({1}).f32({1}).f32({1}),
               "QR-G0004 BatchNormalization 'n': X has shape [], expected rank 1 or more");
  CHECK_INFERS(C(Op::InstanceNormalization).f32({2, 3, 4}).f32({3}).f32({4}),
               "QR-G0004 InstanceNormalization 'n': the bias has shape [4], expected [3]");
  CHECK_INFERS(C(Op::AffineGrid).f32({2, 2, 3}).ints({3, 1, 4, 5}),
               "QR-G0004 AffineGrid 'n': size names a batch of 3, but theta has 2");
  CHECK_INFERS(C(Op::AffineGrid).f32({2, 2, 3}).ints({2, 1, 4, 5, 6}),
               "QR-G0004 AffineGrid 'n': size has shape [5], expected [4]");
  CHECK_INFERS(C(Op::PRelu).f32({2, 3, 4}).f32({3}),
               "QR-G0004 PRelu 'n': the slope has shape [3], which does not broadcast to [2,3,4]");
  CHECK_INFERS(C(Op::Conv).f32({1, 2, 5, 5}).f32({4, 2, 3, 3}).f32({3}),
               "QR-G0004 Conv 'n': the bias has shape [3], expected [4]");
  CHECK_INFERS(C(Op::MatMulInteger).in(U8, {4, 3}).in(I8, {3, 2}).in(U8, {4}).in(I8, {2}), "i32[4,2]");
  CHECK_INFERS(C(Op::MatMulInteger).in(U8, {4, 3}).in(I8, {3, 2}).in(U8, {3}).in(I8, {2}),
               "QR-G0004 MatMulInteger 'n': a_zero_point has shape [3], expected 1, 4 or 4 elements");
  CHECK_INFERS(C(Op::MatMulInteger).in(U8, {5, 4, 3}).in(I8, {5, 3, 2}).in(U8, {5, 4, 1}).in(I8, {5, 1, 3}),
               "QR-G0004 MatMulInteger 'n': b_zero_point has shape [5,1,3], expected 1, 2 or 10 elements");
  const auto qlinear = [](std::initializer_list<std::int64_t> w_scale, std::initializer_list<std::int64_t> y_scale) {
    C made(Op::QLinearConv);
    made.in(U8, {1, 2, 5, 5}).f32({}).in(U8, {}).in(I8, {4, 2, 3, 3}).f32(w_scale).in(I8, {}).f32(y_scale).in(U8, {});
    return made;
  };
  CHECK_INFERS(qlinear({4}, {}), "u8[1,4,3,3]");
  CHECK_INFERS(qlinear({1}, {1}), "u8[1,4,3,3]");
  CHECK_INFERS(qlinear({3}, {}), "QR-G0004 QLinearConv 'n': w_scale has shape [3], expected 4 elements");
  CHECK_INFERS(qlinear({4}, {2}), "QR-G0004 QLinearConv 'n': y_scale has shape [2], expected one element");
  const auto blocks = [](std::initializer_list<std::int64_t> scales, std::initializer_list<std::int64_t> zeros) {
    C made(Op::MatMulNBits);
    made.f32({3, 40}).in(U8, {5, 3, 8}).f32(scales).in(U8, zeros);
    made.set("K", 40).set("N", 5).set("block_size", 16);
    return made;
  };
  CHECK_INFERS(blocks({15}, {10}), "f32[3,5]");
  CHECK_INFERS(blocks({5, 3}, {5, 2}), "f32[3,5]");
  CHECK_INFERS(blocks({14}, {10}), "QR-G0004 MatMulNBits 'n': scales has shape [14], expected 15 elements");
  CHECK_INFERS(blocks({15}, {15}), "QR-G0004 MatMulNBits 'n': zero_points has shape [15], expected 10 elements");
  C crop(Op::Resize);
  crop.f32({1, 1, 4, 4}).f32({7}).absent().ints({1, 1, 8, 8});
  CHECK_INFERS(crop.set("coordinate_transformation_mode", "tf_crop_and_resize"),
               "QR-G0004 Resize 'n': roi has shape [7], expected 8 elements");
}

TEST_CASE("attributes that nothing could be made of") {
  CHECK_INFERS(C(Op::Softmax).f32({}), "QR-G0004 Softmax 'n': axis -1 is outside a tensor of rank 0, expected 0 to -1");
  CHECK_INFERS(C(Op::GlobalLpPool).f32({1, 2, 3}).set("p", 0),
               "QR-G0005 GlobalLpPool 'n': attribute 'p' is 0, expected 1 or more");
  CHECK_INFERS(C(Op::LpPool).f32({1, 2, 3}).set("kernel_shape", {2}).set("p", -1),
               "QR-G0005 LpPool 'n': attribute 'p' is -1, expected 1 or more");
  CHECK_INFERS(C(Op::QuantizeLinear).f32({3}).f32({}).set("precision", 7),
               "QR-G0005 QuantizeLinear 'n': attribute 'precision' says i64, expected a float");
  CHECK_INFERS(
      C(Op::MatMulNBits)
          .f32({1, 16})
          .in(U8, {1, 1, 6})
          .f32({1})
          .set("K", 16)
          .set("N", 1)
          .set("block_size", 16)
          .set("bits", 3),
      "QR-G0005 MatMulNBits 'n': K 16, N 1, bits 3, block_size 16; expected 1 or more, 1 or more, 2, 4 or 8, a "
      "power of two from 16");
}

TEST_CASE("sizes from values") {
  CHECK_INFERS(C(Op::Shape).f32({2, Q, 4}).set("start", 1), "i64[2]");
  CHECK_INFERS(C(Op::Size).f32({2, Q, 4}), "i64[]");
  CHECK_INFERS(C(Op::ConstantOfShape).ints({4, 0}), "f32[4,0]");
  CHECK_INFERS(C(Op::ConstantOfShape).in(I64, {2}).in(I32, {1}), "i32[?,?]");
  CHECK_INFERS(C(Op::Range).number(10).number(4).number(-2), "i64[3]");
  CHECK_INFERS(C(Op::Range).real(1).real(2).real(0.3f), "f32[4]");
  CHECK_INFERS(C(Op::Range).number(INT64_MIN).number(INT64_MAX).number(1),
               "QR-G0004 Range 'n': from -9.22337e+18 to 9.22337e+18 by 1 is no range with an end");
  CHECK_INFERS(C(Op::NonZero).f32({2, 3}), "i64[2,?]");
  CHECK_INFERS(C(Op::NonMaxSuppression).f32({1, 6, 4}).f32({1, 2, 6}), "i64[?,3]");
  CHECK_INFERS(C(Op::Unique, 4).f32({2, 3}).set("axis", 0), "f32[?,3] i64[?] i64[2] i64[?]");
  CHECK_INFERS(C(Op::Compress).f32({3, 2}).flags({false, true, true}).set("axis", 0), "f32[2,2]");
  CHECK_INFERS(C(Op::Compress).f32({3, 2}).in(B, {5}), "f32[?]");
  CHECK_INFERS(C(Op::DFT).f32({1, 10, 10, 1}).absent().number(1).set("onesided", 1), "f32[1,6,10,2]");
  CHECK_INFERS(C(Op::DFT).f32({1, 6, 2}).set("onesided", 1).set("inverse", 1), "f32[1,10,1]");
  CHECK_INFERS(C(Op::STFT).f32({1, 128, 1}).number(8).f32({16}), "f32[1,15,9,2]");
  CHECK_INFERS(C(Op::STFT).f32({1, 128}).number(8).f32({16}), "f32[1,15,9,2]");
  CHECK_INFERS(C(Op::STFT).f32({128}).number(8).f32({16}),
               "QR-G0004 STFT 'n': the signal has shape [128], expected [batch,length], [batch,length,1] or "
               "[batch,length,2]");
  CHECK_INFERS(C(Op::HannWindow).number(10), "f32[10]");
  CHECK_INFERS(C(Op::MelWeightMatrix).number(8).number(16).number(8192).real(0).real(4096), "f32[9,8]");
  CHECK_INFERS(C(Op::RandomNormalLike).in(I32, {3}).set("dtype", 1), "f32[3]");
  CHECK_INFERS(C(Op::RandomNormalLike).in(I32, {3}),
               "QR-G0003 RandomNormalLike 'n': output 0 would be i32, expected f32, f16, f64, bf16");
}

}  // namespace
}  // namespace quarry::qir::test
