// SPDX-License-Identifier: Apache-2.0
// Picks a token, and asks a network that is no language model for some: libquarry-generate as a program outside the
// tree has it.
//   generate models/digits/digits.onnx
#include <quarry/generate.hpp>

#include <cstdio>

int main(int argc, char **argv) try {
  if (argc != 2) return std::fprintf(stderr, "usage: generate MODEL\n"), 2;
  const float logits[] = {0.5f, 2.0f, 1.0f};
  qr_sampler_options options = QR_SAMPLER_OPTIONS_INIT;
  options.temperature = 0.1f, options.top_k = 1;
  qr::Sampler sampler(options);
  const long long token = sampler.pick(logits, 3);
  const qr::Runtime runtime;
  const qr::Session session(qr::Model(runtime, argv[1]));
  const qr::Result<qr::Generator> generator = qr::Generator::try_create(session);
  std::printf("picked token %lld; the network of digits: %s\n", token,
              generator ? "a decoder" : generator.status().id());
  return token == 1 && !generator ? 0 : 1;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n%s\n", error.id().c_str(), error.message().c_str(), error.hint().c_str()), 1;
}
