// SPDX-License-Identifier: Apache-2.0
// Recurrent operators, attention and embeddings, by hand: weights are chosen so that the steps can be followed. With
// Relu or Affine as activations all numbers stay whole.
#include "tests/unit/reference/run_op.h"

using namespace quarry;
using namespace quarry::test;

namespace {

Vector<String> names(std::initializer_list<const char *> list) {
  Vector<String> result;
  for (const char *name : list) result.emplace_back(name);
  return result;
}

// h = relu(x + 10 h) over x = 1, 2, 3.
RunOp counting_rnn() {
  RunOp op(Op::RNN, 2);
  op.set("activations", names({"Relu"})).set("hidden_size", 1);
  op.in<float>({3, 1, 1}, {1, 2, 3}).in<float>({1, 1, 1}, {1}).in<float>({1, 1, 1}, {10});
  return op;
}

}  // namespace

TEST_CASE("rnn steps") {
  CHECK_EQ(counting_rnn().text(), "f32 [3,1,1,1] 1 12 123; f32 [1,1,1] 123");
  CHECK_EQ(counting_rnn().set("direction", "reverse").text(), "f32 [3,1,1,1] 321 32 3; f32 [1,1,1] 321");
  CHECK_EQ(counting_rnn().in<float>({1, 2}, {0.25F, 0.5F}).absent().in<float>({1, 1, 1}, {1}).text(),
           "f32 [3,1,1,1] 11.75 120.25 1206.25; f32 [1,1,1] 1206.25");
  CHECK_EQ(counting_rnn().set("clip", 20.0).text(), "f32 [3,1,1,1] 1 12 20; f32 [1,1,1] 20");
}

TEST_CASE("rnn sequence lengths") {
  CHECK_EQ(counting_rnn().absent().in<std::int32_t>({1}, {2}).text(), "f32 [3,1,1,1] 1 12 0; f32 [1,1,1] 12");
  CHECK_EQ(counting_rnn().set("direction", "reverse").absent().in<std::int32_t>({1}, {2}).text(),
           "f32 [3,1,1,1] 21 2 0; f32 [1,1,1] 21");
  CHECK_EQ(counting_rnn().absent().in<std::int32_t>({1}, {0}).in<float>({1, 1, 1}, {7}).text(),
           "f32 [3,1,1,1] 0 0 0; f32 [1,1,1] 7");
  CHECK_EQ(counting_rnn().absent().in<std::int32_t>({1}, {4}).text(),
           "QR-R0007 RNN 'node': sequence_lens has 4, expected 0 to 3");
}

TEST_CASE("rnn bidirectional batch first") {
  RunOp op(Op::RNN, 2);
  op.set("activations", names({"relu", "Affine"}))
      .set("activation_alpha", Vector<float>{2})
      .set("activation_beta", Vector<float>{1});
  op.set("hidden_size", 1).set("direction", "bidirectional").set("layout", 1);
  // Two batch entries of two steps; backwards h = 2 (x + h) + 1.
  op.in<float>({2, 2, 1}, {1, 2, 3, 4}).in<float>({2, 1, 1}, {1, 1}).in<float>({2, 1, 1}, {10, 1});
  CHECK_EQ(op.text(), "f32 [2,2,2,1] 1 13 12 5 3 25 34 9; f32 [2,2,1] 12 13 34 25");
  RunOp bad = counting_rnn();
  CHECK_EQ(bad.set("activations", names({"Gelu"})).text(),
           "QR-G0005 RNN 'node': 'Gelu' is no activation of recurrent operators");
}

TEST_CASE("gru gates") {
  // Relu gates: z = x, r = 2; the candidate is x + r * h * 1 (+ 1 as the recurrent bias).
  RunOp op(Op::GRU, 2);
  op.set("activations", names({"Relu", "Relu"})).set("hidden_size", 1);
  op.in<float>({1, 1, 1}, {0.5F}).in<float>({1, 3, 1}, {1, 0, 1}).in<float>({1, 3, 1}, {0, 0, 1});
  op.in<float>({1, 6}, {0, 2, 0, 0, 0, 1}).absent().in<float>({1, 1, 1}, {4});
  // 0.5 * (0.5 + 2 * 4 + 1) + 0.5 * 4, and with the bias inside what is reset: 0.5 * (0.5 + 2 * (4 + 1)) + 2.
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,1,1] 6.75; f32 [1,1,1] 6.75");
  CHECK_EQ(RunOp(op).set("linear_before_reset", 1).text(), "f32 [1,1,1,1] 7.25; f32 [1,1,1] 7.25");
}

TEST_CASE("lstm gates") {
  // Relu everywhere: i = 1 + 2 c', o = 3 + 5 c, f = 2 + 3 c', new cell = x.
  RunOp op(Op::LSTM, 3);
  op.set("activations", names({"Relu", "Relu", "Relu"})).set("hidden_size", 1);
  op.in<float>({1, 1, 1}, {7}).in<float>({1, 4, 1}, {0, 0, 0, 1}).in<float>({1, 4, 1}, {0, 0, 0, 0});
  op.in<float>({1, 8}, {1, 3, 2, 0, 0, 0, 0, 0})
      .absent()
      .absent()
      .in<float>({1, 1, 1}, {1})
      .in<float>({1, 3}, {2, 5, 3});
  // i = 3, f = 5, c = 5 * 1 + 3 * 7 = 26, o = 3 + 130 = 133, h = 133 * 26.
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,1,1] 3458; f32 [1,1,1] 3458; f32 [1,1,1] 26");
  // Coupled: f = 1 - 3, c = -2 + 21 = 19, o = 98.
  CHECK_EQ(RunOp(op).set("input_forget", 1).text(), "f32 [1,1,1,1] 1862; f32 [1,1,1] 1862; f32 [1,1,1] 19");
}

TEST_CASE("attention masks") {
  // Equal scores: every visible key has the same share. V shows which were seen.
  RunOp op(Op::Attention);
  op.in<float>({1, 1, 2, 1}, {0, 0}).in<float>({1, 1, 2, 1}, {1, 1}).in<float>({1, 1, 2, 1}, {2, 4});
  CHECK_EQ(RunOp(op).text(), "f32 [1,1,2,1] 3 3");
  CHECK_EQ(RunOp(op).set("is_causal", 1).text(), "f32 [1,1,2,1] 2 3");
  CHECK_EQ(RunOp(op).in<bool>({2, 2}, {false, true, false, false}).text(),
           "f32 [1,1,2,1] 4 0");                                          // a row that sees nothing is 0
  CHECK_EQ(RunOp(op).in<bool>({1}, {true}).text(), "f32 [1,1,2,1] 2 2");  // shorter masks hide the rest
  CHECK_EQ(RunOp(op).set("left_window_size", 0).text(), "f32 [1,1,2,1] 3 4");
  CHECK_EQ(RunOp(op).absent().absent().absent().in<i64>({1}, {1}).text(), "f32 [1,1,2,1] 2 2");
  CHECK_EQ(RunOp(op).in<bool>({3}, {true, true, true}).text().substr(0, 8), "QR-G0004");
  // What is hidden has no say, whatever it is.
  CHECK_EQ(RunOp(Op::Attention)
               .in<float>({1, 1, 1, 1}, {1})
               .in<float>({1, 1, 2, 1}, {1, kNan})
               .in<float>({1, 1, 2, 1}, {2, kNan})
               .in<bool>({2}, {true, false})
               .text(),
           "f32 [1,1,1,1] 2");
}

TEST_CASE("attention cache and groups") {
  // Two query heads share one key head; the past comes first.
  RunOp op(Op::Attention, 4);
  op.set("q_num_heads", 2).set("kv_num_heads", 1).set("is_causal", 1).set("scale", 1.0);
  op.in<float>({1, 1, 2}, {0, 1}).in<float>({1, 1, 1}, {3}).in<float>({1, 1, 1}, {10}).absent();
  op.in<float>({1, 1, 1, 1}, {3}).in<float>({1, 1, 1, 1}, {20});
  CHECK_EQ(op.text(), "f32 [1,1,2] 15 15; f32 [1,1,2,1] 3 3; f32 [1,1,2,1] 20 10; f32 [1,2,1,2] 0 0 3 3");
  CHECK_EQ(op.set("qk_matmul_output_mode", 3).text(),
           "f32 [1,1,2] 15 15; f32 [1,1,2,1] 3 3; f32 [1,1,2,1] 20 10; f32 [1,2,1,2] 0.5 0.5 0.5 0.5");
}

TEST_CASE("rotary embedding") {
  // A quarter turn: (a, b) -> (-b, a); the pair is (0, 1) interleaved and (0, 2) otherwise. Position 1 of the caches.
  RunOp op(Op::RotaryEmbedding);
  op.in<float>({1, 1, 1, 4}, {1, 2, 3, 4}).in<float>({2, 2}, {1, 1, 0, 1}).in<float>({2, 2}, {0, 0, 1, 0});
  CHECK_EQ(RunOp(op).in<i64>({1, 1}, {1}).text(), "f32 [1,1,1,4] -3 2 1 4");
  CHECK_EQ(RunOp(op).in<i64>({1, 1}, {1}).set("interleaved", 1).text(), "f32 [1,1,1,4] -2 1 3 4");
  CHECK_EQ(RunOp(op).in<i64>({1, 1}, {2}).text(), "QR-R0007 RotaryEmbedding 'node': found position 2, expected 0 to 1");
}

TEST_CASE("linear attention") {
  RunOp op(Op::LinearAttention, 2);
  op.set("q_num_heads", 1).set("kv_num_heads", 1).set("scale", 1.0).set("update_rule", "linear");
  op.in<float>({1, 2, 1}, {1, 10}).in<float>({1, 2, 1}, {1, 2}).in<float>({1, 2, 1}, {3, 4});
  CHECK_EQ(RunOp(op).text(), "f32 [1,2,1] 3 110; f32 [1,1,1,1] 11");  // S = 3, then 3 + 8
  // S = 0 + 1 * 3, then 3 + 2 * 0.5 * (4 - 6).
  CHECK_EQ(RunOp(op).set("update_rule", "delta").absent().absent().in<float>({1, 2, 1}, {1, 0.5F}).text(),
           "f32 [1,2,1] 3 10; f32 [1,1,1,1] 1");
  CHECK_EQ(RunOp(op).set("update_rule", "gated").text().substr(0, 8), "QR-R0007");
}
