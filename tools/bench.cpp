// SPDX-License-Identifier: Apache-2.0
// quarry bench: how long a model takes to load and to run, and how much memory.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>

#include "command.h"
#include "progress.h"
#include "tensor_file.h"

namespace tools {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  SessionFlags session;
  std::string model, json;
  uint64_t iterations = 0, warmup = 1;
  double duration_s = 0;
};

double ms_since(Clock::time_point begin) { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }

// The same values in every run: floats in [-1, 1), integers small and not negative (they may be indices).
TensorData made_input(const qr::TensorInfo &info) {
  TensorData out;
  out.name = info.name, out.dtype = info.dtype, out.dims = info.dims;
  const int64_t count = element_count(info.dims);
  std::mt19937 random(42);
  const bool is_float = info.dtype == QR_DTYPE_F32 || info.dtype == QR_DTYPE_F64 || info.dtype == QR_DTYPE_F16 || info.dtype == QR_DTYPE_BF16;
  const bool is_byte = info.dtype == QR_DTYPE_U8 || info.dtype == QR_DTYPE_U16;
  if (!is_float && qr_dtype_bits(info.dtype) < 8) {
    out.bytes.assign(packed_bytes(info.dtype, info.dims), 0x11);
    return out;
  }
  std::vector<double> values(static_cast<size_t>(count));
  for (double &value : values) value = is_float ? random() / 2147483648.0 - 1 : is_byte ? random() % 256 : random() % 2;
  out.bytes = from_doubles(info.dtype, values);
  return out;
}

double percentile(const std::vector<double> &sorted, double part) {
  const size_t rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

int bench(const BenchFlags &flags) {
  const qr::Runtime runtime = flags.session.runtime();
  qr::Options options = flags.session.make_options(runtime);
  const Clock::time_point begin = Clock::now();
  const qr::Model model(runtime, flags.model, &options);
  qr::Session session(model, &options);
  const double create_ms = ms_since(begin);

  std::vector<TensorData> data;
  for (const qr::TensorInfo &info : session.inputs()) {
    if (element_count(info.dims) < 0) throw UsageError("input '" + info.name + "' " + shape_text(info.dims) + " has unknown dimensions", "bind them with --shape");
    data.push_back(made_input(info));
  }
  std::vector<qr::Tensor> inputs, outputs(session.outputs().size());
  for (TensorData &tensor : data) inputs.push_back(tensor.tensor());
  const auto once = [&] {
    const Clock::time_point start = Clock::now();
    session.run(inputs, outputs);
    return ms_since(start);
  };
  const double first_ms = once();
  for (uint64_t i = 0; i < flags.warmup; ++i) once();
  std::vector<double> times;
  ProgressLine progress;
  const Clock::time_point start = Clock::now();
  const double duration_ms = flags.duration_s > 0 ? flags.duration_s * 1000 : flags.iterations ? INFINITY : 2000;
  const uint64_t most = flags.iterations ? flags.iterations : UINT64_MAX;
  while (times.empty() || (times.size() < most && ms_since(start) < duration_ms)) {
    times.push_back(once());
    progress.show(times.size(), flags.iterations, "runs");
  }
  progress.clear();
  std::sort(times.begin(), times.end());
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  const nlohmann::json result = {{"model", flags.model},
                                 {"backend", nlohmann::json::parse(session.report()).value("backend", "")},
                                 {"runs", times.size()},
                                 {"create_ms", create_ms},
                                 {"first_ms", first_ms},
                                 {"min_ms", times.front()},
                                 {"median_ms", percentile(times, 0.5)},
                                 {"p90_ms", percentile(times, 0.9)},
                                 {"p99_ms", percentile(times, 0.99)},
                                 {"peak_rss_kb", usage.ru_maxrss}};
  if (flags.json != "-")
    std::printf("%s on %s: %zu runs\n  create    %10.3f ms\n  first run %10.3f ms\n  median    %10.3f ms\n  p90       %10.3f ms\n  p99       %10.3f ms\n  peak memory %8.1f MB\n",
                flags.model.c_str(), result["backend"].get<std::string>().c_str(), times.size(), create_ms, first_ms, result["median_ms"].get<double>(),
                result["p90_ms"].get<double>(), result["p99_ms"].get<double>(), static_cast<double>(usage.ru_maxrss) / 1000);
  if (!flags.json.empty()) write_text(flags.json, result.dump(2) + "\n");
  return 0;
}

}  // namespace

void register_bench(CLI::App &app, Action &action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command = app.add_subcommand("bench", "Measure create time, first run, run times and peak memory");
  command->add_option("model", flags->model, "Model: .onnx or .qrm")->required()->type_name("MODEL");
  flags->session.add_to(*command);
  command->add_option("--iterations,-n", flags->iterations, "Timed runs (default: as many as --duration allows)")->check(CLI::PositiveNumber);
  command->add_option("--duration,-d", flags->duration_s, "Seconds of timed runs (default: 2, or no limit with --iterations)")->check(CLI::PositiveNumber);
  command->add_option("--warmup", flags->warmup, "Untimed runs after the first")->capture_default_str();
  command->add_option("--json", flags->json, "Write the figures as JSON to a file, or to standard output for -")->type_name("FILE|-");
  command->callback([&action, flags] { action = [flags] { return bench(*flags); }; });
}

}  // namespace tools
