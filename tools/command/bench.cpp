// SPDX-License-Identifier: Apache-2.0
// quarry bench: how long a model takes to load and to run, alone or in several sessions, and how much memory.
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "base/os/process.h"
#include "tools/command/environment.h"
#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/output.h"
#include "tools/console/progress.h"
#include "tools/console/usage.h"
#include "tools/input/input_files.h"
#include "tools/input/saved_files.h"
#include "tools/input/shapes.h"
#include "tools/input/tensor_file.h"
#include "tools/report/latency_plot.h"
#include "tools/report/processor_peaks.h"
#include "tools/report/profile_output.h"
#include "tools/report/queued_runs.h"
#include "tools/report/roofline.h"

namespace tools {
namespace {

using Clock = std::chrono::steady_clock;

struct BenchFlags {
  SessionFlags session;
  AdapterFlags adapter;
  ProfileFlags profile;
  std::string model, json, plot;
  std::vector<std::string> beside;  // files of figures
  std::vector<std::string> inputs;  // NAME=FILE
  ImageFlags image;
  bool roofline = false;
  uint64_t iterations = 0, warmup = 1, sessions = 1, group = 1, queue = 0, batch = 0;
  double duration_s = 0;

  double duration_ms() const { return duration_s > 0 ? duration_s * 1000 : iterations ? INFINITY : 2000; }
  uint64_t most() const { return iterations ? iterations : UINT64_MAX; }
};

double ms_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double percentile(const std::vector<double> &sorted, double part) {
  const size_t rank = static_cast<size_t>(std::ceil(part * static_cast<double>(sorted.size())));
  return sorted[std::clamp<size_t>(rank, 1, sorted.size()) - 1];
}

// A session with its tensors, and what its runs took.
struct MeasuredSession {
  MeasuredSession(qr::Session made, std::vector<TensorData> &data)
      : session(std::move(made)), outputs(session.outputs().size()) {
    for (TensorData &tensor : data) inputs.push_back(tensor.tensor());
  }
  double once(uint64_t group = 1, qr::Signal *signal = nullptr) {
    const Clock::time_point start = Clock::now();
    for (uint64_t i = 0; i < group; ++i) session.run(inputs, outputs, signal);
    return ms_since(start) / static_cast<double>(group);
  }
  // Ends early when the program is interrupted; `times` is then what there is so far.
  void measure(const BenchFlags &flags, qr::Signal *signal, ProgressLine *progress) try {
    const Clock::time_point start = Clock::now();
    while (!interrupted() &&
           (times.empty() || (times.size() < flags.most() && ms_since(start) < flags.duration_ms()))) {
      const double before = processor_ms();
      times.push_back(once(flags.group, signal));
      processor_times.push_back((processor_ms() - before) / static_cast<double>(flags.group));
      if (progress) progress->show(times.size(), flags.iterations, "runs");
    }
  } catch (const qr::Error &error) {
    if (!interrupted() || error.code() != QR_CANCELLED) throw;
  }

  // Some more runs, to see where their time goes: recording it takes some itself.
  void profile(qr::Profile &events, qr::Signal *signal) try {
    constexpr int kMost = 30, kFewest = 3;
    constexpr double kLongMs = 2000;
    const Clock::time_point start = Clock::now();
    while (!interrupted() && profiled < kMost && (profiled < kFewest || ms_since(start) < kLongMs)) {
      session.run(inputs, outputs, signal, &events);
      ++profiled;
    }
  } catch (const qr::Error &error) {
    if (!interrupted() || error.code() != QR_CANCELLED) throw;
  }

  qr::Session session;
  std::vector<qr::Tensor> inputs, outputs;
  std::vector<double> times, processor_times;  // of one run each, in ms
  int profiled = 0;                            // runs
};

// Of the files that were given, else made up.
std::vector<TensorData> input_data(const BenchFlags &flags, const Buckets &buckets,
                                   const std::vector<qr::TensorInfo> &inputs) {
  std::map<std::string, std::string> files;
  for (const std::string &text : flags.inputs) {
    const auto [name, path] = split_input(text, inputs);
    files[name] = path;
  }
  std::vector<TensorData> data;
  bool has_batch = false;
  for (qr::TensorInfo info : inputs) {
    const bool is_open = flags.batch && !info.dims.empty() && info.dims[0] < 0;
    if (is_open) info.dims[0] = static_cast<int64_t>(flags.batch);
    has_batch = has_batch || is_open;
    const auto file = files.find(info.name);
    const bool says = file != files.end() && says_its_shape(file->second);  // a range takes what the file has
    if (!is_known(info.dims) && !says) buckets.refuse_unknown(info);
    data.push_back(file == files.end() ? made_input(info) : load_input(file->second, info, flags.image));
  }
  if (flags.batch && !has_batch)
    throw UsageError("--batch: found no input whose first dimension is a range",
                     "leave it to the runs: --shape batch=1..64, with the model's name of the dimension");
  return data;
}

// All runners at once, each on a thread of its own; the wall time in ms.
double measure_together(std::vector<MeasuredSession> &runners, const BenchFlags &flags, qr::Signal *signal) {
  if (runners.size() == 1) {
    ProgressLine progress;
    const Clock::time_point start = Clock::now();
    runners[0].measure(flags, signal, &progress);
    const double wall = ms_since(start);
    progress.clear();
    return wall;
  }
  std::barrier ready(static_cast<std::ptrdiff_t>(runners.size() + 1));
  std::vector<std::exception_ptr> failures(runners.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < runners.size(); ++i)
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      try {
        runners[i].measure(flags, signal, nullptr);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  ready.arrive_and_wait();
  const Clock::time_point start = Clock::now();
  for (std::thread &thread : threads) thread.join();
  const double wall = ms_since(start);
  for (const std::exception_ptr &failure : failures)
    if (failure) std::rethrow_exception(failure);
  return wall;
}

// Each node beside the peaks, in words unless standard output is for JSON.
nlohmann::json report_roofline(const ProcessorPeaks &peaks, const qr::Profile &profile, const BenchFlags &flags) {
  const std::vector<RunTable> tables = run_tables(read_events(profile));
  const RunTable none, &table = tables.empty() ? none : tables[0];
  if (!is_standard_output(flags.json)) {
    print_text("\n" + peaks_text(peaks));
    if (table.nodes.empty()) print("the backend reports no nodes\n");
    else print_text(roofline_text(table, peaks, flags.profile.top()));
  }
  return roofline_json(table, peaks);
}

// The distribution of the times, and of those that were measured before.
std::string plot_text(const BenchFlags &flags, const nlohmann::json &result, std::vector<LatencySeries> before) {
  LatencySeries mine;
  mine.title = result["backend"].get<std::string>() + ", " + threads_text(result["threads"].dump());
  mine.about = result["runs"].dump() + " runs" +
               (flags.sessions > 1 ? " in " + std::to_string(flags.sessions) + " sessions" : std::string());
  mine.quantiles = result["quantiles_ms"].get<std::vector<double>>();
  before.insert(before.begin(), std::move(mine));
  return latency_svg(base_name(flags.model), before);
}

// A session from a container that was compiled before, as devices with a compiler of their own are meant to be used; in
// ms. The container lies in the folder for temporary files while it is measured.
double warm_create_ms(const qr::Runtime &runtime, const qr::Model &model, const qr::Options &options) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/warm.qrm";
  model.compile(path, &options);
  const Clock::time_point begin = Clock::now();
  const qr::Model container(runtime, path, &options);
  const qr::Session session(container, &options);
  return ms_since(begin);
}

// What a run hands over to a device: kernels, the model's nodes that they are of, and by how many calls.
nlohmann::json launches_of(MeasuredSession &runner, const qr::Runtime &runtime) {
  qr::Profile profile(runtime);
  runner.session.run(runner.inputs, runner.outputs, nullptr, &profile);
  const std::vector<ProfileEvent> events = read_events(profile);
  const std::vector<RunTable> tables = run_tables(events);
  double kernels = 0, launches = 0;
  for (const RunTable &table : tables)
    for (const NodeRow &row : table.nodes) kernels += row.calls;
  for (const ProfileEvent &event : events) launches += static_cast<double>(event.launches);
  return {{"kernels", kernels},
          {"launches", launches > 0 ? launches : kernels},
          {"nodes", tables.empty() ? 0 : tables[0].nodes.size()}};
}

// Of times in order.
nlohmann::json latencies_json(const std::vector<double> &times, uint64_t runs, double wall_ms) {
  return {{"min_ms", times.front()},
          {"median_ms", percentile(times, 0.5)},
          {"p90_ms", percentile(times, 0.9)},
          {"p99_ms", percentile(times, 0.99)},
          {"quantiles_ms", quantiles_of(times)},
          {"runs_per_s", static_cast<double>(runs) / wall_ms * 1000}};
}

// Of times in order; nothing where an interrupt came before the first one. The processor's time is what a busy machine
// does not lengthen; of several sessions nobody can say whose it was.
void add_latencies(std::vector<MeasuredSession> &runners, const std::vector<double> &times, uint64_t runs,
                   double wall_ms, uint64_t batch, nlohmann::json *to) {
  if (times.empty()) return;
  to->update(latencies_json(times, runs, wall_ms));
  if (batch) (*to)["rows_per_s"] = (*to)["runs_per_s"].get<double>() * static_cast<double>(batch);
  std::vector<double> &used = runners[0].processor_times;
  std::sort(used.begin(), used.end());
  if (runners.size() == 1) (*to)["median_processor_ms"] = percentile(used, 0.5);
}

nlohmann::json queue_json(QueuedRuns queued, uint64_t depth) {
  std::vector<double> &times = queued.times;
  std::sort(times.begin(), times.end());
  const auto count = static_cast<double>(times.size());
  return {{"depth", depth},
          {"runs", times.size()},
          {"mean_ms", std::accumulate(times.begin(), times.end(), 0.0) / count},
          {"median_ms", percentile(times, 0.5)},
          {"p99_ms", percentile(times, 0.99)},
          {"runs_per_s", count / queued.wall_ms * 1000}};
}

void print_result(const BenchFlags &flags, const nlohmann::json &result) {
  const uint64_t runs = result["runs"].get<uint64_t>();
  print("%s on %s: %llu runs%s\n", flags.model, result["backend"].get<std::string>(), runs,
        result["interrupted"].get<bool>() ? ", then interrupted" : "");
  for (const auto &[title, key] : {std::pair{"create", "create_ms"},
                                   {"from .qrm", "warm_create_ms"},
                                   {"first run", "first_ms"},
                                   {"median", "median_ms"},
                                   {"p90", "p90_ms"},
                                   {"p99", "p99_ms"},
                                   {"processor", "median_processor_ms"}})
    if (result.contains(key))
      print("  %-9s %10.*f ms\n", title, result[key].get<double>() < 0.1 ? 5 : 3, result[key].get<double>());
  if (result.contains("rows_per_s"))
    print("  batch     %10.1f rows a second, %llu a run\n", result["rows_per_s"].get<double>(), flags.batch);
  if (flags.sessions > 1 && runs)
    print("  together  %10.1f runs a second in %llu sessions\n", result["runs_per_s"].get<double>(), flags.sessions);
  if (result.contains("kernels"))
    print("  kernels   %10.0f a run, of %zu steps; %.0f launches\n", result["kernels"]["kernels"].get<double>(),
          result["kernels"]["nodes"].get<size_t>(), result["kernels"]["launches"].get<double>());
  if (result.contains("queue"))
    print("  queued    %10.1f runs a second with %llu under way, each done %.3f ms after its submission (median)\n",
          result["queue"]["runs_per_s"].get<double>(), flags.queue, result["queue"]["median_ms"].get<double>());
  if (const nlohmann::json padding = result.value("padding", nlohmann::json()); padding.contains("last"))
    print("  padded    %s\n", padding["last"].get<std::string>());
  if (result.contains("plans")) {
    const nlohmann::json &plans = result["plans"];
    print("  plans     %10llu of at most %llu, %.1f MB; %llu made, %llu dropped, met by %llu runs\n",
          plans["kept"].get<uint64_t>(), plans["most"].get<uint64_t>(), plans["bytes"].get<double>() / 1e6,
          plans["made"].get<uint64_t>(), plans["dropped"].get<uint64_t>(), plans["hits"].get<uint64_t>());
  }
  print("  peak memory %8.1f MB%s\n", result["peak_rss_kb"].get<double>() / 1000,
        result["peak_rss_source"] == "VmHWM" ? "" : " (at most: /proc cannot be read)");
}

struct Measured {
  double wall_ms = 0;
  QueuedRuns queued;
};

Measured measure_all(std::vector<MeasuredSession> &runners, const BenchFlags &flags, double first_ms,
                     qr::Signal &signal, qr::Profile &profile) {
  // Looking at a signal costs a short run some of its time; a long one should not be waited for.
  const bool is_long = first_ms * static_cast<double>(flags.group) > 100;
  Measured out;
  const Interruptible interruptible([&signal] { signal.abort(); });
  out.wall_ms = measure_together(runners, flags, is_long ? &signal : nullptr);
  if (flags.queue && !interrupted())
    out.queued = run_queued(runners[0].session, runners[0].inputs, runners[0].outputs, flags.queue, flags.most(),
                            flags.duration_ms(), signal);
  if (flags.profile.wanted() || flags.roofline) runners[0].profile(profile, &signal);
  return out;
}

std::vector<double> sorted_times(const std::vector<MeasuredSession> &runners) {
  std::vector<double> times;
  for (const MeasuredSession &runner : runners) times.insert(times.end(), runner.times.begin(), runner.times.end());
  std::sort(times.begin(), times.end());
  return times;
}

// What a session costs before it runs warm.
struct Costs {
  double runtime_ms = 0, open_ms = 0, create_ms = 0, first_ms = 0;
  quarry::os::PeakMemory peak = {};
};

nlohmann::json costs_json(const BenchFlags &flags, const nlohmann::json &report, const Costs &costs) {
  return {{"model", flags.model},
          {"backend", report.value("backend", "")},
          {"threads", report.value("threads", 0)},
          {"sessions", flags.sessions},
          {"interrupted", interrupted() != 0},
          {"runtime_ms", costs.runtime_ms},
          {"open_ms", costs.open_ms},
          {"create_ms", costs.create_ms},
          {"first_ms", costs.first_ms},
          {"peak_rss_kb", costs.peak.bytes >> 10},
          {"peak_rss_source", costs.peak.source},
          {"backend_version", report.value("backend_version", "")},
          {"environment", environment()}};
}

// Of a range, as they are now.
void add_plans(qr::Session &session, nlohmann::json *result) {
  const nlohmann::json report = nlohmann::json::parse(session.report());
  for (const char *const key : {"plans", "padding"})
    if (report.contains(key)) (*result)[key] = report[key];
}

int bench(const BenchFlags &flags) {
  flags.profile.check();
  if (is_standard_output(flags.plot)) print_beside_result();
  std::vector<LatencySeries> before_this;
  for (const std::string &path : flags.beside) before_this.push_back(read_latencies(path));
  Costs costs;
  const Clock::time_point before = Clock::now();
  const qr::Runtime runtime = flags.session.runtime();
  qr::Options options = flags.session.make_options(runtime, SessionFlags::Shapes::None);
  costs.runtime_ms = ms_since(before);
  const Clock::time_point begin = Clock::now();
  const qr::Model model(runtime, model_source(flags.model), &options);
  costs.open_ms = ms_since(begin);
  const Buckets buckets(model, flags.session.shapes);
  if (!buckets.of_container())
    for (const std::string &shape : flags.session.shapes) options.set("shape", shape);
  if (flags.queue) options.set("queue_depth", std::to_string(flags.queue));
  const Clock::time_point opened = Clock::now();
  qr::Session session(model, &options);
  costs.create_ms = costs.open_ms + ms_since(opened);
  flags.adapter.apply(session);
  std::vector<TensorData> data =
      input_data(flags, buckets, buckets.of_container() ? buckets.inputs() : session.inputs());
  std::vector<MeasuredSession> runners;
  runners.emplace_back(std::move(session), data);
  costs.first_ms = runners[0].once();
  for (uint64_t i = 1; i < flags.sessions; ++i) runners.emplace_back(runners[0].session.clone(), data);
  for (uint64_t i = 0; i < flags.warmup; ++i)
    for (MeasuredSession &runner : runners) runner.once();
  // Before the list of times grows: what is reported is the memory of the model, not of its measurement.
  costs.peak = quarry::os::peak_memory();
  const nlohmann::json report = nlohmann::json::parse(runners[0].session.report());
  std::optional<ProcessorPeaks> peaks;
  if (flags.roofline) peaks = measure_peaks(report.value("threads", 1u), qr_runtime_cpu_features(runtime.get()));
  qr::Signal signal(runtime);
  qr::Profile profile(runtime);
  Measured measured = measure_all(runners, flags, costs.first_ms, signal, profile);
  const std::vector<double> times = sorted_times(runners);
  const uint64_t runs = times.size() * flags.group;
  nlohmann::json result = costs_json(flags, report, costs);
  result["runs"] = runs;
  add_latencies(runners, times, runs, measured.wall_ms, flags.batch, &result);
  add_plans(runners[0].session, &result);
  if (report.value("backend", "") == "gpu") {
    if (!flags.model.ends_with(".qrm")) result["warm_create_ms"] = warm_create_ms(runtime, model, options);
    result["kernels"] = launches_of(runners[0], runtime);
  }
  if (!measured.queued.times.empty()) result["queue"] = queue_json(std::move(measured.queued), flags.queue);
  if (!is_standard_output(flags.json)) print_result(flags, result);
  if (flags.profile.wanted()) result["profile"] = ProfileFlags::json(profile);
  if (peaks) result["roofline"] = report_roofline(*peaks, profile, flags);
  if (!flags.json.empty())
    write_text(flags.json, result.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  if (!flags.plot.empty() && !times.empty()) write_text(flags.plot, plot_text(flags, result, std::move(before_this)));
  flags.profile.tell(profile,
                     "profile of " + std::to_string(runners[0].profiled) +
                         " more warm runs, medians (the times above are of runs without one):",
                     !is_standard_output(flags.json));
  return 0;
}

// How many runs, and of what.
void add_runs(CLI::App &command, BenchFlags &flags) {
  command.add_option("--iterations,-n", flags.iterations, "Timed runs (default: as many as --duration allows)")
      ->type_name("N")
      ->check(whole_number(1));
  command
      .add_option("--duration,-d", flags.duration_s,
                  "Seconds of timed runs (default: 2, or no limit with --iterations)")
      ->type_name("SECONDS")
      ->check(number(Sign::Positive));
  command
      .add_option("--batch", flags.batch, "Rows of each run, where a range leaves the first dimension of inputs open")
      ->type_name("N")
      ->check(whole_number(1));
}

}  // namespace

void register_bench(CLI::App &app, Action &action) {
  auto flags = std::make_shared<BenchFlags>();
  CLI::App *command = app.add_subcommand("bench", "Measure create time, first run, run times and peak memory");
  command->add_option("model", flags->model, "Model: .onnx or .qrm; - is standard input")
      ->required()
      ->type_name("MODEL");
  command->add_option("--input,-i", flags->inputs, "The file of a named input (default: made-up values)")
      ->type_name("NAME=FILE");
  flags->adapter.add_to(*command);
  flags->session.add_to(*command);
  add_runs(*command, *flags);
  command->add_option("--warmup", flags->warmup, "Untimed runs after the first")
      ->type_name("N")
      ->check(whole_number(0))
      ->capture_default_str();
  CLI::Option *const sessions =
      command
          ->add_option("--sessions", flags->sessions,
                       "Sessions (clones of one) that run at the same time, each on a thread of the program's")
          ->type_name("N")
          ->check(whole_number(1, 1024))
          ->capture_default_str();
  command
      ->add_option("--queue", flags->queue,
                   "Measures runs in a queue too: how many a second when so many are under way (option queue_depth)")
      ->type_name("N")
      ->check(whole_number(1, 64))
      ->excludes(sessions);
  command->add_option("--group", flags->group, "Runs that are timed together, for runs of a microsecond or less")
      ->type_name("N")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_flag("--roofline", flags->roofline,
                    "Each node's operations and bytes a second beside the most that this processor does, which is "
                    "measured first");
  flags->profile.add_to(*command, "in warm runs, which are others than the timed ones");
  command->add_option("--json", flags->json, "Write the figures as JSON to a file, or to standard output for -")
      ->type_name("FILE|-");
  CLI::Option *const plot =
      command
          ->add_option("--plot", flags->plot,
                       "Draw the distribution of the times into an SVG file, or to standard output for -")
          ->type_name("FILE|-")
          ->check(name_with(".svg"));
  command
      ->add_option(
          "--beside", flags->beside,
          "Draw what another run measured below it: the file that its --json wrote; may be given several times")
      ->type_name("FILE")
      ->allow_extra_args(false)
      ->needs(plot);
  command->callback([&action, flags] { action = [flags] { return bench(*flags); }; });
}

}  // namespace tools
