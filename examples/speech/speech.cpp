// SPDX-License-Identifier: Apache-2.0
// When somebody speaks in a recording: Silero VAD, 32 ms at a time, its state carried from one to the next.
//   speech MODEL RECORDING.wav      (16 kHz, one channel, 16 bits)
#include <quarry/quarry.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr int kRate = 16000, kFrame = 512, kContext = 64, kState = 2 * 128;

std::vector<float> read_wav(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(in), {}};
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint32_t value = 0;
    if (at + size > file.size()) throw std::runtime_error("'" + path + "' is cut short");
    std::memcpy(&value, file.data() + at, size);
    return value;
  };
  if (file.size() < 12 || file.compare(0, 4, "RIFF") != 0 || file.compare(8, 4, "WAVE") != 0)
    throw std::runtime_error("'" + path + "' is no WAV file that can be read");
  bool known = false;
  for (std::size_t at = 12; at + 8 <= file.size(); at += 8 + number(at + 4, 4) + (number(at + 4, 4) & 1)) {
    if (file.compare(at, 4, "fmt ") == 0)
      known =
          number(at + 8, 2) == 1 && number(at + 10, 2) == 1 && number(at + 12, 4) == kRate && number(at + 22, 2) == 16;
    if (file.compare(at, 4, "data") != 0) continue;
    if (!known) throw std::runtime_error("'" + path + "': expected 16 kHz, one channel, 16 bits");
    std::vector<std::int16_t> samples(std::min<std::size_t>(number(at + 4, 4), file.size() - at - 8) / 2);
    std::memcpy(samples.data(), file.data() + at + 8, samples.size() * 2);
    std::vector<float> out(samples.size());
    std::transform(samples.begin(), samples.end(), out.begin(),
                   [](std::int16_t s) { return static_cast<float>(s) / 32768; });
    return out;
  }
  throw std::runtime_error("'" + path + "' has no sound in it");
}

}  // namespace

int main(int argc, char **argv) try {
  if (argc != 3) return std::fprintf(stderr, "usage: speech MODEL RECORDING.wav\n"), 2;
  std::vector<float> sound = read_wav(argv[2]);
  sound.insert(sound.begin(), kContext, 0.f);  // each frame comes with the last samples of the one before
  const qr::Runtime runtime;
  qr::Options options(runtime);
  options.set("shape",
              "input=1x576,state=2x1x128,sr=[16000]");  // the rate is a constant, and so no input of the session
  const qr::Model model(runtime, argv[1], &options);
  qr::Session session(model, &options);

  std::vector<float> input(kContext + kFrame), state(kState), next(kState);
  float probability = 0;
  const std::vector<qr::Tensor> inputs{qr::Tensor::of(input.data(), {1, kContext + kFrame}),
                                       qr::Tensor::of(state.data(), {2, 1, 128})};
  std::vector<qr::Tensor> outputs{qr::Tensor::of(&probability, {1, 1}), qr::Tensor::of(next.data(), {2, 1, 128})};
  const std::size_t frames = (sound.size() - kContext) / kFrame;
  std::size_t speech = 0;
  double begin = -1, sum = 0;
  const auto seconds = [](std::size_t frame) { return static_cast<double>(frame) * kFrame / kRate; };
  for (std::size_t frame = 0; frame < frames; ++frame) {
    std::copy_n(sound.begin() + static_cast<std::ptrdiff_t>(frame * kFrame), input.size(), input.begin());
    session.run(inputs, outputs);
    state = next;  // of one size: its memory stays where the tensor says
    speech += probability >= 0.5f, sum += static_cast<double>(probability);
    if (probability >= 0.5f && begin < 0) begin = seconds(frame);
    if (probability < 0.35f && begin >= 0)
      std::printf("speech from %.2f to %.2f s\n", begin, seconds(frame)), begin = -1;
  }
  if (begin >= 0) std::printf("speech from %.2f to %.2f s\n", begin, seconds(frames));
  std::printf("%zu of %zu frames are speech, mean probability %.3f\n", speech, frames,
              frames ? sum / static_cast<double>(frames) : 0.0);
  return 0;
} catch (const qr::Error &error) {
  return std::fprintf(stderr, "%s: %s\n  hint: %s\n", error.id().c_str(), error.message().c_str(),
                      error.hint().c_str()),
         3;
} catch (const std::exception &error) {
  return std::fprintf(stderr, "speech: %s\n", error.what()), 2;
}
