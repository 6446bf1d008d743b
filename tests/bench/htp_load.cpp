// SPDX-License-Identifier: Apache-2.0
// Session creation on htp beside what the library alone takes for the same bytes: htp-load MODEL.qrm ROUNDS. Both
// alternate in one process, after a first session that opens the library. Prints JSON, in milliseconds. Run by
// tools/bench_htp.sh.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "backends/htp/blob.h"
#include "backends/htp/engine.h"
#include "base/hash.h"
#include "formats/qrm/qrm.h"
#include "quarry/quarry.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "htp-load: %s\n", what);
  std::exit(1);
}

template <class T>
T must(quarry::Result<T> result) {
  if (!result.ok()) fail(result.status().message().data());
  return std::move(*result);
}

double create_session(const qr::Runtime &runtime, const char *path, const qr::Options &options) {
  const Clock::time_point begin = Clock::now();
  const qr::Model model(runtime, path);
  const qr::Session session(model, &options);
  return ms_since(begin);
}

int measure(const char *path, int rounds) {
  using namespace quarry;
  AllocatorScope scope(malloc_allocator());
  const qrm::ValidatedModel model = must(qrm::ValidatedModel::open(must(qrm::RawFile::open_path(path))));
  const qrm::ContextInfo *context = nullptr;
  for (const qrm::ContextInfo &one : model.metadata().contexts)
    if (one.backend == "htp") context = &one;
  if (!context || context->programs.empty() || context->programs[0].segments.empty()) fail("no context of htp in it");
  const qir::Bytes stored = must(model.segment(context->programs[0].blob_segment));
  const htp::Blob blob = must(htp::read_blob({static_cast<const std::uint8_t *>(stored.data), stored.size}));
  const qir::Bytes binary = must(model.segment(context->programs[0].segments[0]));
  const htp::Soc *soc = htp::find_soc(blob.soc);
  if (!soc) fail("its SoC is not known");

  const qr::Runtime runtime;
  qr::Options options(runtime);
  options.set("backend", "htp");
  const double first = create_session(runtime, path, options);
  const auto library = must(qnn::Library::open(qnn::library_places({})));
  std::vector<double> ours, theirs, hash, ratios;
  std::uint64_t sum = 0;
  for (int round = 0; round < rounds; ++round) {
    Clock::time_point begin = Clock::now();
    sum += hash64(binary.data, binary.size);
    hash.push_back(ms_since(begin));
    const auto engine = must(htp::Engine::make(library, *soc, false));  // as a session has it: of its own
    qnn::Handle made = nullptr;
    begin = Clock::now();
    if (engine->api().contextCreateFromBinary(engine->backend(), engine->device(), nullptr, binary.data, binary.size,
                                              &made, nullptr))
      fail("contextCreateFromBinary failed");
    theirs.push_back(ms_since(begin));
    (void)engine->api().contextFree(made, nullptr);
    ours.push_back(create_session(runtime, path, options));
    ratios.push_back(ours.back() / (theirs.back() + hash.back()));
  }
  std::printf(
      "{\"binary_bytes\": %llu, \"first\": %.2f, \"session\": %.2f, \"library\": %.2f, \"hash\": %.3f, \"ratio\": "
      "%.3f, "
      "\"sum\": %llu}\n",
      static_cast<unsigned long long>(binary.size), first, median(ours), median(theirs), median(hash), median(ratios),
      static_cast<unsigned long long>(sum & 1));
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) fail("usage: htp-load MODEL.qrm ROUNDS");
  try {
    return measure(argv[1], std::max(1, std::atoi(argv[2])));
  } catch (const std::exception &error) {
    fail(error.what());
  }
}
