// SPDX-License-Identifier: Apache-2.0
// A small Llama goes on with a text: libquarry-generate runs the prompt, then a token a run; the session keeps keys and
// values of all tokens before (option "state").
//   llm MODEL HOW_MANY ID...         (ids of tokens: libquarry-tokenizer makes them of texts)
#include <quarry/generate.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char **argv) try {
  if (argc < 4) return std::fprintf(stderr, "usage: llm MODEL HOW_MANY ID...\n"), 2;
  const int wanted = std::clamp(std::atoi(argv[2]), 1, 200);
  std::vector<std::int64_t> prompt;
  for (int i = 3; i < argc; ++i) prompt.push_back(std::atoi(argv[i]));

  const qr::Runtime runtime;
  qr::Options options(runtime, {{"state", "auto"}});
  const qr::Model model(runtime, argv[1], &options);
  const qr::Session session(model, &options);
  qr_generator_options settings = QR_GENERATOR_OPTIONS_INIT;  // without a sampler: the most probable token
  settings.max_new_tokens = static_cast<std::uint64_t>(wanted);
  qr::Generator generator(session, settings);

  for (const std::int64_t id : prompt) std::printf("%lld ", static_cast<long long>(id));
  const auto start = std::chrono::steady_clock::now();
  generator.prompt(prompt);
  const qr::Generator::Outcome made = generator.run([](std::int64_t id) {
    std::printf("%lld ", static_cast<long long>(id));
    return std::fflush(stdout) == 0;
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("\n");
  std::fprintf(stderr, "%.0f tokens a second\n", static_cast<double>(made.count) / seconds);
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
}
