// SPDX-License-Identifier: Apache-2.0
// Kernels that follow index tensors, and those that compare and order.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

TEST_CASE("gather") {
  RunOp op(Op::Gather);
  op.in<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  CHECK_EQ(RunOp(op).in<i64>({}, {-1}).text(), "f32 [2] 5 6");
  CHECK_EQ(RunOp(op).set("axis", -1).in<std::int32_t>({1, 1}, {1}).text(), "f32 [3,1,1] 2 4 6");
  CHECK_EQ(RunOp(op).in<i64>({0}, {}).text(), "f32 [0,2]");
  CHECK_EQ(RunOp(op).in<i64>({1}, {3}).text(), "QR-R0007 Gather 'node': found index 3, expected -3 to 2");
  CHECK_EQ(RunOp(op).in<i64>({1}, {-4}).text(), "QR-R0007 Gather 'node': found index -4, expected -3 to 2");
  CHECK_EQ(RunOp(op).in<i64>({1}, {INT64_MIN}).text(),
           "QR-R0007 Gather 'node': found index -9223372036854775808, expected -3 to 2");
  CHECK_EQ(RunOp(Op::Gather).in<double>({0}, {}).in<i64>({1}, {0}).text(),
           "QR-R0007 Gather 'node': found index 0, expected 0 to -1");
}

TEST_CASE("gather elements and nd") {
  RunOp op(Op::GatherElements);
  op.in<std::uint8_t>({2, 2}, {1, 2, 3, 4}).set("axis", 1);
  CHECK_EQ(RunOp(op).in<i64>({1, 3}, {0, -1, 0}).text(), "u8 [1,3] 1 2 1");
  CHECK_EQ(RunOp(op).in<i64>({2, 1}, {0, 2}).text(), "QR-R0007 GatherElements 'node': found index 2, expected -2 to 1");
  RunOp nd(Op::GatherND);
  nd.in<i64>({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  CHECK_EQ(RunOp(nd).in<i64>({2, 2}, {0, 1, 1, -2}).text(), "i64 [2,2] 3 4 5 6");
  CHECK_EQ(RunOp(nd).set("batch_dims", 1).in<i64>({2, 1}, {1, 0}).text(), "i64 [2,2] 3 4 5 6");
  CHECK_EQ(RunOp(nd).in<i64>({1, 3}, {0, 0, 2}).text(), "QR-R0007 GatherND 'node': found index 2, expected -2 to 1");
}

TEST_CASE("scatter elements") {
  RunOp op(Op::ScatterElements);
  op.in<float>({3}, {1, 2, 3});
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 0}).in<float>({2}, {10, 20}).set("reduction", "add").text(), "f32 [3] 31 2 3");
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 0}).in<float>({2}, {10, 20}).set("reduction", "mul").text(), "f32 [3] 200 2 3");
  CHECK_EQ(RunOp(op).in<i64>({2}, {-1, -1}).in<float>({2}, {10, kNan}).set("reduction", "max").text(),
           "f32 [3] 1 2 nan");
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 0}).in<float>({2}, {10, 20}).text(), "f32 [3] 20 2 3");  // the last one stays
  CHECK_EQ(RunOp(op).in<i64>({1}, {3}).in<float>({1}, {0}).text(),
           "QR-R0007 ScatterElements 'node': found index 3, expected -3 to 2");
  CHECK_EQ(RunOp(op).in<i64>({0}, {}).in<float>({0}, {}).text(), "f32 [3] 1 2 3");
  CHECK_EQ(RunOp(Op::ScatterElements)
               .in<std::int8_t>({1}, {100})
               .in<i64>({1}, {0})
               .in<std::int8_t>({1}, {100})
               .set("reduction", "add")
               .text(),
           "i8 [1] -56");  // integers wrap around
  CHECK_EQ(RunOp(Op::ScatterElements)
               .in<std::int32_t>({2, 2}, {1, 2, 3, 4})
               .set("axis", 1)
               .in<std::int32_t>({1, 1}, {1})
               .in<std::int32_t>({1, 1}, {INT32_MAX})
               .set("reduction", "min")
               .text(),
           "i32 [2,2] 1 2 3 4");
}

TEST_CASE("scatter nd") {
  RunOp op(Op::ScatterND);
  op.in<i64>({2, 2}, {1, 2, 3, 4});
  CHECK_EQ(RunOp(op).in<i64>({2, 1}, {1, 1}).in<i64>({2, 2}, {10, 20, 30, 40}).set("reduction", "add").text(),
           "i64 [2,2] 1 2 43 64");
  CHECK_EQ(RunOp(op).in<i64>({1, 2}, {-1, 0}).in<i64>({1}, {9}).text(), "i64 [2,2] 1 2 9 4");
  CHECK_EQ(RunOp(op).in<i64>({1, 1}, {2}).in<i64>({1, 2}, {9, 9}).text(),
           "QR-R0007 ScatterND 'node': found index 2, expected -2 to 1");
}

TEST_CASE("tensor scatter") {
  RunOp op(Op::TensorScatter);
  op.in<float>({1, 3, 1}, {1, 2, 3}).in<float>({1, 2, 1}, {8, 9});
  CHECK_EQ(RunOp(op).text(), "f32 [1,3,1] 8 9 3");
  CHECK_EQ(RunOp(op).in<i64>({1}, {1}).text(), "f32 [1,3,1] 1 8 9");
  CHECK_EQ(RunOp(op).in<i64>({1}, {2}).text(), "QR-R0007 TensorScatter 'node': found write index 2, expected 0 to 1");
  CHECK_EQ(RunOp(op).set("mode", "circular").in<i64>({1}, {5}).text(), "f32 [1,3,1] 9 2 8");
}

TEST_CASE("one hot") {
  RunOp op(Op::OneHot);
  CHECK_EQ(RunOp(op).in<i64>({3}, {0, -1, 5}).in<i64>({}, {2}).in<float>({2}, {-1, 1}).text(),
           "f32 [3,2] 1 -1 -1 1 -1 -1");
  CHECK_EQ(RunOp(op)
               .set("axis", 0)
               .in<float>({2}, {1, kNan})
               .in<std::int32_t>({1}, {2})
               .in<std::uint8_t>({2}, {0, 9})
               .text(),
           "u8 [2,2] 0 0 9 0");
  CHECK_EQ(RunOp(op).in<i64>({2}, {0, 0}).in<i64>({}, {0}).in<i64>({2}, {0, 1}).text(), "i64 [2,0]");
}

TEST_CASE("arg extremes") {
  RunOp op(Op::ArgMax);
  op.in<float>({5}, {1, 3, kNan, 3, kNan});
  CHECK_EQ(RunOp(op).text(), "i64 [1] 2");
  CHECK_EQ(RunOp(op).set("select_last_index", 1).set("keepdims", 0).text(), "i64 [] 4");
  CHECK_EQ(RunOp(Op::ArgMin).in<float>({3}, {1, kNan, 0}).text(), "i64 [1] 1");
  CHECK_EQ(RunOp(Op::ArgMin).in<i64>({2, 2}, {1, 1, INT64_MIN, 2}).set("axis", -1).set("select_last_index", 1).text(),
           "i64 [2,1] 1 0");
  CHECK_EQ(RunOp(Op::ArgMax).in<float>({2, 0}, {}).text(), "i64 [1,0]");
  CHECK(RunOp(Op::ArgMax).in<float>({0, 2}, {}).text().starts_with("QR-"));
}

TEST_CASE("top k order") {
  RunOp op(Op::TopK, 2);
  op.in<float>({5}, {1, kNan, -kInf, 1, 2});
  CHECK_EQ(RunOp(op).in<i64>({1}, {5}).text(), "f32 [5] nan 2 1 1 -inf; i64 [5] 1 4 0 3 2");
  CHECK_EQ(RunOp(op).set("largest", 0).in<i64>({1}, {5}).text(), "f32 [5] -inf 1 1 2 nan; i64 [5] 2 0 3 4 1");
  CHECK_EQ(RunOp(op).in<i64>({1}, {0}).text(), "f32 [0]; i64 [0]");
  CHECK(RunOp(op).in<i64>({1}, {6}).text().starts_with("QR-"));
  CHECK_EQ(RunOp(Op::TopK, 2).set("axis", 0).in<std::uint64_t>({2, 2}, {1, UINT64_MAX, 2, 0}).in<i64>({1}, {1}).text(),
           "u64 [1,2] 2 18446744073709551615; i64 [1,2] 1 0");
}

TEST_CASE("non zero") {
  CHECK_EQ(RunOp(Op::NonZero).in<float>({2, 2}, {0, kNan, 1, -0.0F}).text(), "i64 [2,2] 0 1 1 0");
  CHECK_EQ(RunOp(Op::NonZero).in<bool>({3}, {false, false, false}).text(), "i64 [1,0]");
  CHECK_EQ(RunOp(Op::NonZero).in<float>({0, 2}, {}).text(), "i64 [2,0]");
  // As numpy has it: a scalar is a list of one.
  CHECK_EQ(RunOp(Op::NonZero).in<float>({}, {2}).text(), "i64 [1,1] 0");
  CHECK_EQ(RunOp(Op::NonZero).in<float>({}, {0}).text(), "i64 [1,0]");
}

TEST_CASE("unique") {
  RunOp op(Op::Unique, 4);
  CHECK_EQ(RunOp(op).in<float>({5}, {2, kNan, 1, kNan, 2}).text(),
           "f32 [3] 1 2 nan; i64 [3] 2 0 1; i64 [5] 1 2 0 2 1; i64 [3] 1 2 2");
  CHECK_EQ(RunOp(op).set("sorted", 0).in<i64>({4}, {5, 3, 5, 4}).text(),
           "i64 [3] 5 3 4; i64 [3] 0 1 3; i64 [4] 0 1 0 2; i64 [3] 2 1 1");
  CHECK_EQ(RunOp(op).set("axis", 1).in<std::uint8_t>({2, 3}, {2, 1, 2, 0, 0, 0}).text(),
           "u8 [2,2] 1 2 0 0; i64 [2] 1 0; i64 [3] 1 0 1; i64 [2] 1 2");
  CHECK_EQ(RunOp(op).in<float>({0}, {}).text(), "f32 [0]; i64 [0]; i64 [0]; i64 [0]");
}

TEST_CASE("running sums") {
  CHECK_EQ(RunOp(Op::CumSum)
               .in<float>({3}, {1, 2, 3})
               .in<std::int32_t>({}, {-1})
               .set("exclusive", 1)
               .set("reverse", 1)
               .text(),
           "f32 [3] 5 3 0");
  CHECK_EQ(RunOp(Op::CumSum).in<std::int32_t>({2}, {INT32_MAX, 1}).in<i64>({}, {0}).text(),
           "i32 [2] 2147483647 -2147483648");
  CHECK_EQ(RunOp(Op::CumProd).in<double>({2, 2}, {1, 2, 3, 4}).in<i64>({}, {0}).text(), "f64 [2,2] 1 2 3 8");
  CHECK_EQ(RunOp(Op::CumSum).in<float>({0, 2}, {}).in<i64>({}, {0}).text(), "f32 [0,2]");
}
