// SPDX-License-Identifier: Apache-2.0
// A small Llama goes on with a text: the prompt in one run, then a token a run, with keys and values of all tokens
// before in the cache. Each length of the cache is a shape bucket; all share the weights.
//   llm MODEL HOW_MANY ID...         (ids of tokens: the model's vocabulary is the caller's)
#include <quarry/quarry.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: llm MODEL HOW_MANY ID...\n"), 2;
  const std::int64_t wanted = std::clamp<std::int64_t>(std::atoi(argv[2]), 1, 200);
  std::vector<std::int64_t> ids;
  for (int i = 3; i < argc; ++i) ids.push_back(std::atoi(argv[i]));
  const auto prompt = static_cast<std::int64_t>(ids.size());

  const qr::Runtime runtime;
  qr::Options options(runtime);
  std::string shapes = "past=0,seq=" + std::to_string(prompt);
  for (std::int64_t past = prompt; past < prompt + wanted - 1; ++past)
    shapes += ";past=" + std::to_string(past) + ",seq=1";
  options.set("shape", shapes);
  const qr::Model model(runtime, argv[1], &options);
  qr::Session session(model, &options);

  // Inputs: ids, then key and value of each layer [1, heads, past, width]; outputs: logits, and the same longer.
  const std::size_t caches = session.input_count() - 1;
  const std::vector<std::int64_t> cache_dims = session.input(1).dims;
  const std::int64_t heads = cache_dims.at(1), width = cache_dims.at(3);
  std::vector<std::vector<float>> past(caches), present(caches);
  std::vector<qr::Tensor> inputs(caches + 1), outputs(caches + 1);
  std::vector<std::int64_t> fresh = ids;
  std::int64_t length = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t made = 0; made < wanted; ++made) {
    const auto count = static_cast<std::int64_t>(fresh.size());
    inputs[0] = qr::Tensor::of(fresh.data(), {1, count});
    outputs[0] = qr::Tensor();  // in the session's memory
    for (std::size_t i = 0; i < caches; ++i) {
      past[i].swap(present[i]);
      past[i].resize(std::max<std::size_t>(past[i].size(), 1));  // an empty cache too has an address
      present[i].resize(static_cast<std::size_t>(heads * (length + count) * width));
      inputs[i + 1] = qr::Tensor::of(past[i].data(), {1, heads, length, width});
      outputs[i + 1] = qr::Tensor::of(present[i].data(), {1, heads, length + count, width});
    }
    session.run(inputs, outputs);
    length += count;
    const float *logits = outputs[0].data<float>();
    if (!logits) throw std::runtime_error("the model's first output is not f32");
    const std::int64_t vocabulary = outputs[0].shape().at(2);
    const float *last = logits + (count - 1) * vocabulary;
    fresh = {std::max_element(last, last + vocabulary) - last};
    ids.push_back(fresh[0]);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::int64_t id : ids) std::printf("%lld ", static_cast<long long>(id));
  std::printf("\n");
  std::fprintf(stderr, "%.0f tokens a second\n", static_cast<double>(wanted) / seconds);
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "llm: %s\n", error.what()), 2;
}
