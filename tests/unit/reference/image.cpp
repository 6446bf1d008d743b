// SPDX-License-Identifier: Apache-2.0
// Resize, sampling and detection kernels at their edges.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

namespace {
RunOp resize(std::initializer_list<float> data, i64 extent) {
  RunOp op(Op::Resize);
  op.in<float>({static_cast<i64>(data.size())}, data).absent().absent().in<i64>({1}, {extent});
  return op;
}
}  // namespace

TEST_CASE("resize nearest") {
  CHECK_EQ(resize({1, 2, 3}, 6).set("coordinate_transformation_mode", "asymmetric").set("nearest_mode", "floor").text(),
           "f32 [6] 1 1 2 2 3 3");
  CHECK_EQ(resize({1, 2, 3, 4}, 2).text(), "f32 [2] 1 3");  // ties go to the left
  CHECK_EQ(resize({1, 2, 3, 4}, 2).set("nearest_mode", "round_prefer_ceil").text(), "f32 [2] 2 4");
  CHECK_EQ(resize({1, 2, 3, 4}, 2).set("nearest_mode", "ceil").text(), "f32 [2] 2 4");
  CHECK_EQ(resize({1, 2}, 0).text(), "f32 [0]");
  CHECK(resize({}, 2).text().starts_with("QR-"));
  // 3 / 0.6f is 5 in f32.
  CHECK_EQ(RunOp(Op::Resize)
               .set("coordinate_transformation_mode", "asymmetric")
               .set("nearest_mode", "floor")
               .in<std::uint8_t>({7}, {0, 1, 2, 3, 4, 5, 6})
               .absent()
               .in<float>({1}, {0.6F})
               .text(),
           "u8 [4] 0 1 3 5");
  CHECK_EQ(RunOp(Op::Resize).in<i64>({1, 2}, {INT64_MAX, INT64_MIN}).absent().in<float>({2}, {1, 2}).text(),
           "i64 [1,4] 9223372036854775807 9223372036854775807 -9223372036854775808 -9223372036854775808");
}

TEST_CASE("resize smooth") {
  CHECK_EQ(resize({0, 4}, 4).set("mode", "linear").text(), "f32 [4] 0 1 3 4");
  CHECK_EQ(resize({0, 4}, 3).set("mode", "linear").set("coordinate_transformation_mode", "align_corners").text(),
           "f32 [3] 0 2 4");
  CHECK_EQ(resize({1, 2, 3, 4}, 2).set("mode", "linear").set("antialias", 1).text(),
           "f32 [2] 1.625 3.375");  // the edge counts for what lies beyond it
  CHECK_EQ(resize({2, 2, 2}, 7).set("mode", "cubic").text(), "f32 [7] 2 2 2 2 2 2 2");
  CHECK_EQ(resize({2, 2, 2}, 7).set("mode", "cubic").set("exclude_outside", 1).text(), "f32 [7] 2 2 2 2 2 2 2");
  CHECK_EQ(RunOp(Op::Resize).set("mode", "linear").in<std::uint8_t>({2}, {0, 255}).absent().in<float>({1}, {2}).text(),
           "u8 [4] 0 64 191 255");
  // Outside of the input: the extrapolation value.
  CHECK_EQ(RunOp(Op::Resize)
               .set("mode", "linear")
               .set("coordinate_transformation_mode", "tf_crop_and_resize")
               .set("extrapolation_value", 9.0)
               .in<float>({3}, {1, 2, 3})
               .in<float>({2}, {0, 1.5F})
               .absent()
               .in<i64>({1}, {4})
               .text(),
           "f32 [4] 1 2 3 9");
  CHECK_EQ(RunOp(Op::Resize)
               .set("coordinate_transformation_mode", "tf_crop_and_resize")
               .in<float>({2}, {1, 2})
               .in<float>({2}, {kNan, kInf})
               .absent()
               .in<i64>({1}, {2})
               .text(),
           "f32 [2] 0 0");
  CHECK(RunOp(Op::Resize)
            .set("coordinate_transformation_mode", "tf_crop_and_resize")
            .in<float>({2}, {1, 2})
            .absent()
            .absent()
            .in<i64>({1}, {2})
            .text()
            .starts_with("QR-"));
}

TEST_CASE("grid sample far away") {
  const auto sample = [](const char *padding, const char *mode, float at) {
    return RunOp(Op::GridSample)
        .set("padding_mode", padding)
        .set("mode", mode)
        .in<float>({1, 1, 1, 2}, {1, 3})
        .in<float>({1, 1, 1, 2}, {at, 0})
        .text();
  };
  CHECK_EQ(sample("zeros", "linear", 0), "f32 [1,1,1,1] 2");
  CHECK_EQ(sample("zeros", "linear", 1), "f32 [1,1,1,1] 1.5");
  CHECK_EQ(sample("border", "linear", 1e30F), "f32 [1,1,1,1] 3");
  CHECK_EQ(sample("border", "nearest", -kInf), "f32 [1,1,1,1] 1");
  CHECK_EQ(sample("zeros", "cubic", kInf), "f32 [1,1,1,1] 0");
  CHECK_EQ(sample("zeros", "nearest", kNan), "f32 [1,1,1,1] 0");
  // At -0.75 three taps lie on the first element and one, of weight -0.03515625, on the second.
  CHECK_EQ(sample("border", "cubic", -1.25F), "f32 [1,1,1,1] 0.929688");
  CHECK_EQ(sample("border", "cubic", kInf), "f32 [1,1,1,1] 3");
  CHECK_EQ(sample("border", "cubic", -1e30F), "f32 [1,1,1,1] 1");
  CHECK_EQ(sample("reflection", "nearest", 1.9F), "f32 [1,1,1,1] 3");
  CHECK(sample("reflection", "cubic", kInf).starts_with("f32 [1,1,1,1]"));
  CHECK(sample("reflection", "linear", kNan).starts_with("f32 [1,1,1,1]"));
}

TEST_CASE("affine grid") {
  CHECK_EQ(RunOp(Op::AffineGrid)
               .set("align_corners", 1)
               .in<float>({1, 2, 3}, {1, 0, 0, 0, 1, 0})
               .in<i64>({4}, {1, 1, 1, 3})
               .text(),
           "f32 [1,1,3,2] -1 0 0 0 1 0");
}

TEST_CASE("deform conv without offsets is conv") {
  RunOp op(Op::DeformConv);
  op.in<float>({1, 1, 2, 2}, {1, 2, 3, 4}).in<float>({1, 1, 2, 2}, {1, 1, 1, 1});
  CHECK_EQ(RunOp(op).in<float>({1, 8, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}).in<float>({1}, {0.5F}).text(),
           "f32 [1,1,1,1] 10.5");
  CHECK_EQ(RunOp(op).in<float>({1, 8, 1, 1}, {kNan, 0, 0, kInf, -kInf, 0, 0, 1e30F}).text(), "f32 [1,1,1,1] 0");
  CHECK_EQ(RunOp(op).in<float>({1, 8, 1, 1}, {0.5F, 0, 9, 9, 9, 9, 9, 9}).text(), "f32 [1,1,1,1] 2");
}

TEST_CASE("regions") {
  RunOp op(Op::RoiAlign);
  op.in<float>({1, 1, 2, 2}, {1, 2, 3, 4}).set("coordinate_transformation_mode", "output_half_pixel");
  CHECK_EQ(RunOp(op).in<float>({1, 4}, {0, 0, 1, 1}).in<i64>({1}, {0}).text(), "f32 [1,1,1,1] 2.5");
  CHECK_EQ(RunOp(op).in<float>({1, 4}, {50, 50, 60, 60}).in<i64>({1}, {0}).text(), "f32 [1,1,1,1] 0");
  CHECK(RunOp(op).in<float>({1, 4}, {0, 0, 1, 1}).in<i64>({1}, {1}).text().starts_with("QR-R0007"));
  CHECK(RunOp(op).in<float>({1, 4}, {0, 0, kInf, 1}).in<i64>({1}, {0}).text().starts_with("QR-R0007"));
  CHECK(RunOp(op).in<float>({1, 4}, {0, 0, kNan, 1}).in<i64>({1}, {0}).text().starts_with("QR-R0007"));
  CHECK_EQ(RunOp(op).in<float>({0, 4}, {}).in<i64>({0}, {}).text(), "f32 [0,1,1,1]");
  RunOp pool(Op::MaxRoiPool);
  pool.in<float>({1, 1, 2, 2}, {1, 2, 3, 4}).set("pooled_shape", {1, 2});
  CHECK_EQ(RunOp(pool).in<float>({1, 5}, {0, 0, 0, 1, 1}).text(), "f32 [1,1,1,2] 3 4");
  CHECK_EQ(RunOp(pool).in<float>({1, 5}, {0, 5, 5, 9, 9}).text(), "f32 [1,1,1,2] 0 0");
  CHECK(RunOp(pool).in<float>({1, 5}, {2, 0, 0, 1, 1}).text().starts_with("QR-R0007"));
  RunOp sevenths(Op::MaxRoiPool);  // seven sevenths of 29 rows are no more than 29
  sevenths.in<float>({1, 1, 30, 1}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14,
                                     15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29});
  sevenths.in<float>({1, 5}, {0, 0, 0, 0, 28}).set("pooled_shape", {7, 1});
  CHECK_EQ(RunOp(sevenths).text(), "f32 [1,1,7,1] 4 8 12 16 20 24 28");
}

TEST_CASE("non max suppression") {
  RunOp op(Op::NonMaxSuppression);
  op.in<float>({1, 3, 4}, {0, 0, 1, 1, 1, 1, 0, 0, 2, 2, 3, 3}).in<float>({1, 1, 3}, {0.5F, 0.5F, kNan});
  CHECK_EQ(RunOp(op).in<i64>({}, {3}).in<float>({}, {0.5F}).text(), "i64 [2,3] 0 0 0 0 0 2");
  CHECK_EQ(RunOp(op).in<i64>({}, {3}).in<float>({}, {0.5F}).in<float>({}, {0}).text(), "i64 [1,3] 0 0 0");
  CHECK_EQ(RunOp(op).text(), "i64 [0,3]");
  CHECK_EQ(RunOp(op).in<i64>({1}, {-1}).text(), "i64 [0,3]");
}

TEST_CASE("max unpool") {
  RunOp op(Op::MaxUnpool);
  op.set("kernel_shape", {2}).set("strides", {2}).in<float>({1, 1, 2}, {5, 6});
  CHECK_EQ(RunOp(op).in<i64>({1, 1, 2}, {1, 2}).text(), "f32 [1,1,4] 0 5 6 0");
  CHECK_EQ(RunOp(op).in<i64>({1, 1, 2}, {1, 2}).in<i64>({3}, {1, 1, 5}).text(), "f32 [1,1,5] 0 5 6 0 0");
  CHECK_EQ(RunOp(op).in<i64>({1, 1, 2}, {1, 4}).text(), "QR-R0007 MaxUnpool 'node': found index 4, expected 0 to 3");
  CHECK_EQ(RunOp(op).in<i64>({1, 1, 2}, {-1, 0}).text(), "QR-R0007 MaxUnpool 'node': found index -1, expected 0 to 3");
}
