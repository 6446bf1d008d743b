// SPDX-License-Identifier: Apache-2.0
// Speculative decoding: a small model drafts some tokens, the large one looks at all of them in one run and takes as
// many as it would have picked itself. The text is that of the large model alone, in fewer runs of it. What was drafted
// in vain is forgotten: the state of the large model is rewound, the generator of the small one does so by itself.
//   speculative MODEL DRAFT HOW_MANY ID...         (both of one vocabulary, with no input but input_ids and a cache)
#include <quarry/generate.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <vector>

using Tokens = std::vector<std::int64_t>;

// The large model: logits of each token that is new to it.
class Judge {
 public:
  explicit Judge(qr::Session session) : session_(std::move(session)), state_(session_.state()) {}
  // What it picks behind each of the last `count` tokens of the sequence.
  Tokens picks(const Tokens &sequence, std::size_t count) {
    Tokens fresh(sequence.begin() + static_cast<std::ptrdiff_t>(state_.length()), sequence.end());
    const auto length = static_cast<std::int64_t>(fresh.size());
    const std::vector<qr::Tensor> outputs = session_.run({qr::Tensor::of(fresh, {1, length})});
    const std::vector<std::int64_t> dims = outputs.at(0).shape();
    if (dims.size() != 3 || dims[1] != length) throw std::runtime_error("the model does not give logits of each token");
    const auto width = static_cast<std::size_t>(dims[2]);
    const float *row = outputs[0].data<float>() + (fresh.size() - count) * width;
    Tokens made;
    for (; made.size() < count; row += width) made.push_back(std::max_element(row, row + width) - row);
    ++runs_;
    return made;
  }
  void forget(std::size_t length) { state_.rewind(length); }
  int runs() const { return runs_; }

 private:
  qr::Session session_;
  qr::State state_;
  int runs_ = 0;
};

qr::Session open(const qr::Runtime &runtime, const char *path) {
  const qr::Options options(runtime, {{"state", "auto"}});
  return qr::Session(qr::Model(runtime, path, &options), &options);
}

int main(int argc, char **argv) try {
  if (argc < 5) return std::fprintf(stderr, "usage: speculative MODEL DRAFT HOW_MANY ID...\n"), 2;
  Tokens sequence;
  for (int i = 4; i < argc; ++i) sequence.push_back(std::atoi(argv[i]));
  const std::size_t wanted = sequence.size() + static_cast<std::size_t>(std::clamp(std::atoi(argv[3]), 1, 200));

  const qr::Runtime runtime;
  Judge judge(open(runtime, argv[1]));
  qr_generator_options settings = QR_GENERATOR_OPTIONS_INIT;
  settings.max_new_tokens = 4;
  qr::Generator drafter(open(runtime, argv[2]), settings);
  while (sequence.size() < wanted) {
    Tokens drafted = sequence;
    drafter.prompt(sequence);
    drafter.run([&](std::int64_t id) { return drafted.push_back(id), true; });
    const std::size_t guesses = drafted.size() - sequence.size();
    const Tokens picked = judge.picks(drafted, guesses + 1);
    std::size_t right = 0;
    while (right < guesses && picked[right] == drafted[sequence.size() + right]) ++right;
    sequence.insert(sequence.end(), picked.begin(), picked.begin() + static_cast<std::ptrdiff_t>(right + 1));
    judge.forget(sequence.size() - 1);  // the last was picked, and is not run yet
  }
  sequence.resize(wanted);
  for (const std::int64_t id : sequence) std::printf("%lld ", static_cast<long long>(id));
  std::printf("\n");
  std::fprintf(stderr, "%d runs of the large model\n", judge.runs());
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "speculative: %s\n", error.what()), 2;
}
