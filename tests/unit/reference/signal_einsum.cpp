// SPDX-License-Identifier: Apache-2.0
// Transforms, windows, Einsum and square matrices.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("dft and back") {
  // [1, 2, 3] -> 6, -1.5 +- 0.866i
  CHECK_EQ(RunOp(Op::DFT).in<float>({3, 1}, {1, 2, 3}).absent().in<i64>({}, {0}).text(),
           "f32 [3,2] 6 0 -1.5 0.866025 -1.5 -0.866025");
  CHECK_EQ(RunOp(Op::DFT).set("onesided", 1).in<double>({4, 1}, {1, 2, 3, 4}).text(), "f64 [3,2] 10 0 -2 2 -2 0");
  CHECK_EQ(RunOp(Op::DFT).set("onesided", 1).set("inverse", 1).in<double>({3, 2}, {10, 0, -2, 2, -2, 0}).text(),
           "f64 [4,1] 1 2 3 4");
  CHECK_EQ(RunOp(Op::DFT).set("inverse", 1).in<double>({2, 2}, {3, 0, -1, 0}).text(), "f64 [2,2] 1 0 2 0");
  CHECK_EQ(RunOp(Op::DFT).in<double>({1, 1}, {5}).in<i64>({}, {2}).text(), "f64 [2,2] 5 0 5 0");  // padded with zero
  CHECK(RunOp(Op::DFT).in<double>({1, 1}, {5}).in<i64>({}, {0}).text().starts_with("QR-"));
  CHECK(RunOp(Op::DFT).in<double>({1, 1}, {5}).absent().in<i64>({}, {1}).text().starts_with("QR-"));
}

TEST_CASE("stft") {
  CHECK_EQ(RunOp(Op::STFT).in<float>({1, 4, 1}, {1, 2, 3, 4}).in<i64>({}, {2}).in<float>({2}, {1, 0.5F}).text(),
           "f32 [1,2,2,2] 2 0 0 0 5 0 1 0");
  CHECK_EQ(RunOp(Op::STFT).in<float>({1, 4}, {1, 2, 3, 4}).in<i64>({}, {2}).in<float>({2}, {1, 0.5F}).text(),
           "f32 [1,2,2,2] 2 0 0 0 5 0 1 0");
  CHECK(RunOp(Op::STFT)
            .in<float>({1, 4, 1}, {1, 2, 3, 4})
            .in<i64>({}, {0})
            .in<float>({2}, {1, 1})
            .text()
            .starts_with("QR-"));
  CHECK(RunOp(Op::STFT)
            .in<float>({1, 4, 1}, {1, 2, 3, 4})
            .in<i64>({}, {1})
            .absent()
            .in<i64>({}, {5})
            .text()
            .starts_with("QR-"));
}

TEST_CASE("windows") {
  CHECK_EQ(RunOp(Op::HannWindow).in<i64>({}, {4}).text(), "f32 [4] 0 0.5 1 0.5");
  CHECK_EQ(RunOp(Op::HannWindow).set("periodic", 0).set("output_datatype", 11).in<std::int32_t>({}, {3}).text(),
           "f64 [3] 0 1 0");
  CHECK_EQ(RunOp(Op::HammingWindow).set("periodic", 0).in<i64>({}, {1}).text(), "f32 [1] 0.0869565");
  CHECK_EQ(RunOp(Op::BlackmanWindow).in<i64>({}, {0}).text(), "f32 [0]");
  CHECK(RunOp(Op::HannWindow).in<i64>({}, {-1}).text().starts_with("QR-"));
}

TEST_CASE("einsum") {
  const auto with = [](const char *equation) { return RunOp(Op::Einsum).set("equation", equation); };
  CHECK_EQ(with("ij,jk->ik").in<float>({2, 2}, {1, 2, 3, 4}).in<float>({2, 2}, {1, 0, 0, 2}).text(),
           "f32 [2,2] 1 4 3 8");
  CHECK_EQ(with("ii").in<i64>({2, 2}, {1, 2, 3, 4}).text(), "i64 [] 5");
  CHECK_EQ(with("ii->i").in<i64>({2, 2}, {1, 2, 3, 4}).text(), "i64 [2] 1 4");
  CHECK_EQ(with("...j->j...").in<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6}).text(), "i32 [3,2] 1 4 2 5 3 6");
  CHECK_EQ(with("i,j,k->").in<double>({2}, {1, 2}).in<double>({2}, {3, 4}).in<double>({2}, {5, 6}).text(),
           "f64 [] 231");
  CHECK_EQ(with("a,ab,b->ab").in<float>({2}, {1, 2}).in<float>({2, 2}, {1, 1, 1, 1}).in<float>({2}, {3, 4}).text(),
           "f32 [2,2] 3 4 6 8");
  CHECK_EQ(with("ij,jk->ik").in<float>({2, 0}, {}).in<float>({0, 1}, {}).text(), "f32 [2,1] 0 0");
  CHECK_EQ(with("i->i").in<float>({0}, {}).text(), "f32 [0]");
  CHECK_EQ(with("i,i->").in<std::int32_t>({2}, {INT32_MAX, INT32_MAX}).in<std::int32_t>({2}, {2, 2}).text(),
           "i32 [] -4");
  CHECK(with("ij,jk->ik").in<float>({1, 2}, {1, 2}).in<float>({3, 1}, {1, 2, 3}).text().starts_with("QR-"));
}

TEST_CASE("square matrices") {
  CHECK_EQ(RunOp(Op::Det).in<float>({2, 2}, {0, 1, 1, 0}).text(), "f32 [] -1");
  CHECK_EQ(RunOp(Op::Det).in<double>({2, 1, 1}, {3, 4}).text(), "f64 [2] 3 4");
  CHECK_EQ(RunOp(Op::Det).in<float>({2, 2}, {1, 2, 2, 4}).text(), "f32 [] 0");
  CHECK_EQ(RunOp(Op::Inverse).in<float>({2, 2}, {0, 2, 4, 0}).text(), "f32 [2,2] 0 0.25 0.5 0");
  CHECK_EQ(RunOp(Op::Inverse).in<float>({2, 2}, {1, 2, 2, 4}).text(),
           "QR-R0007 Inverse 'node': found a singular matrix at 0, which has no inverse");
}
