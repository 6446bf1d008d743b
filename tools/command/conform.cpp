// SPDX-License-Identifier: Apache-2.0
// quarry conform: folders in the layout of ONNX's own tests, run on a backend: passed, failed, or refused with a
// reason.

#include <algorithm>
#include <cmath>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/os/processor.h"
#include "base/os/process.h"
#include "base/os/path.h"
#include "tools/conformance/compare.h"
#include "tools/conformance/half_precision.h"
#include "tools/conformance/name_pattern.h"
#include "tools/conformance/onnx_operators.h"
#include "tools/conformance/worker_pool.h"
#include "tools/console/command.h"
#include "tools/console/read_file.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"
#include "tools/console/usage.h"
#include "tools/input/constant_inputs.h"
#include "tools/input/saved_files.h"
#include "tools/input/shapes.h"
#include "tools/input/tensor_file.h"

namespace tools {

namespace os = quarry::os;

namespace {

using Json = nlohmann::json;

struct ConformFlags {
  SessionFlags session;
  Tolerance tolerance;
  std::vector<std::string> folders, filters;
  std::string json, exclude, precision = "f32";
  int jobs = 0;
  double timeout_s = 300;
  bool in_process = false, compiled = false, checked = false, list = false, constant_inputs = false;
};

bool can_read(const std::string &path) { return os::allows(path.c_str(), os::Access::Read); }

std::vector<std::string> names_in(const std::string &folder) {
  std::vector<std::string> names;
  const int error = os::for_each_name(folder.c_str(), [&](const char *name) { names.emplace_back(name); });
  if (error != 0) throw Failure("cannot read the folder '" + folder + "': " + os_text(error));
  std::sort(names.begin(), names.end());
  return names;
}

// A case is a folder with a model.onnx (or model.qrm); anything else is searched for cases below it.
void find_cases(const std::string &folder, std::vector<std::string> &cases, int depth = 0) {
  if (can_read(folder + "/model.onnx") || can_read(folder + "/model.qrm")) {
    cases.push_back(folder);
    return;
  }
  if (depth > 6) return;
  for (const std::string &name : names_in(folder))
    if (is_folder(folder + "/" + name)) find_cases(folder + "/" + name, cases, depth + 1);
}

std::string last_part(std::string path) {
  while (path.size() > 1 && os::is_separator(path.back())) path.pop_back();
  return base_name(path);
}

// input_0.pb, input_1.pb, ... of a data set.
std::vector<std::string> numbered(const std::string &folder, const char *prefix) {
  std::vector<std::string> paths;
  for (int i = 0;; ++i) {
    std::string path = folder + "/" + prefix + "_" + std::to_string(i) + ".pb";
    if (!can_read(path)) return paths;
    paths.push_back(std::move(path));
  }
}

// Files belong to inputs by name where every name fits, else by position.
std::vector<TensorData> in_order(std::vector<TensorData> data, const std::vector<qr::TensorInfo> &wanted) {
  std::vector<TensorData> ordered;
  for (const qr::TensorInfo &info : wanted) {
    const auto at =
        std::find_if(data.begin(), data.end(), [&](const TensorData &tensor) { return tensor.name == info.name; });
    if (at == data.end()) return data;
    ordered.push_back(*at);
  }
  return ordered.size() == data.size() ? ordered : data;
}

// Operators of both kinds of model: those of the ONNX file, or of every graph that the container kept.
std::set<std::string> operators_of(const Json &info) {
  std::set<std::string> names;
  const auto add = [&](const Json &counts) {
    for (const auto &[name, count] : counts.items()) names.insert(name.substr(name.rfind('.') + 1));
  };
  if (info.contains("onnx")) add(info["onnx"].value("operators", Json::object()));
  for (const Json &graph : info.value("graphs", Json::array())) add(graph.value("operators", Json::object()));
  return names;
}

bool is_quantized_model(const Json &info) {
  bool quantized = false, sums = false;
  for (const std::string &op : operators_of(info)) {
    const bool is_qlinear = op.rfind("QLinear", 0) == 0;
    quantized |= is_qlinear || op == "QuantizeLinear" || op == "DequantizeLinear";
    sums |= is_qlinear || op == "Conv" || op == "Gemm" || op == "MatMul" || op == "ConvTranspose";
  }
  return quantized && sums;
}

// Its integers were rounded from reals.
bool rounds_to_integers(const Json &info) {
  const std::set<std::string> names = operators_of(info);
  return std::any_of(names.begin(), names.end(), [](const std::string &op) {
    return op.rfind("QLinear", 0) == 0 || op == "QuantizeLinear" || op == "DynamicQuantizeLinear";
  });
}

class Runner {
 public:
  // `scratch`: where compiled models go; its owner outlives this process, which may be killed.
  Runner(const ConformFlags &flags, std::string scratch)
      : flags_(flags), runtime_(flags.session.runtime()), scratch_(std::move(scratch)) {}

  // {"name", "folder", "operators", "result": "passed", "failed" or "refused", "reason", "id", "worst_of_range",
  // "rule", "constant_inputs"}
  Json run(const std::string &folder) const {
    Json out = {{"name", last_part(folder)}, {"folder", folder}};
    try {
      run_case(folder, out);
      if (!out.contains("result")) out["result"] = "passed";
    } catch (const qr::Error &error) {
      // A verdict is a promise: what took every node and does not compile is a fault of the one or the other.
      const bool promised = out.value("promised", false);
      out["result"] = error.code() == QR_UNSUPPORTED && !promised ? "refused" : "failed";
      out["id"] = error.id();
      std::string reason = promised ? "check took every node, then: " : "";
      reason += error.message();
      for (const auto &[key, value] : error.details())
        if (key == "reason") reason += "; " + value;
      out["reason"] = reason;
    } catch (...) {
      out["result"] = "failed";
      out["reason"] = failure_text();
    }
    return out;
  }

 private:
  void run_case(const std::string &folder, Json &out) const {
    const bool container = can_read(folder + "/model.qrm");
    const std::string path = folder + (container ? "/model.qrm" : "/model.onnx");
    bool random = false;
    if (!container) {
      const OnnxOperators operators = onnx_operators(path);
      out["operators"] = operators.names;
      random = operators.random;
    }
    const qr::Model model(runtime_, path);
    const bool quantized = is_quantized_model(Json::parse(model.inspect()));
    std::vector<std::string> sets;
    for (const std::string &name : names_in(folder))
      if (name.rfind("test_data_set_", 0) == 0) sets.push_back(folder + "/" + name);
    if (sets.empty()) throw UsageError("'" + folder + "' has no test_data_set_* folder");
    try {
      run_sets(model, sets, quantized, random, out);
    } catch (const qr::Error &error) {
      if (error.code() != QR_UNSUPPORTED || !flags_.constant_inputs || container || model.inputs().size() < 2) throw;
      if (!run_with_constants(path, model.inputs(), sets, quantized, random, out)) throw;
    }
  }

  // `first_alone`: the other inputs of the files are constants of the model.
  void run_sets(const qr::Model &model, const std::vector<std::string> &sets, bool quantized, bool random, Json &out,
                bool first_alone = false) const {
    std::optional<qr::Session> session;
    std::vector<std::vector<int64_t>> bound;
    for (const std::string &set : sets) {
      std::vector<TensorData> inputs;
      for (const std::string &file : numbered(set, "input")) inputs.push_back(read_tensor_proto(file));
      if (first_alone) inputs.resize(1);
      inputs = in_order(std::move(inputs), model.inputs());
      if (const std::string why = fit(inputs, model.inputs()); !why.empty()) {
        out["result"] = "refused", out["reason"] = last_part(set) + ": " + why;
        return;
      }
      std::vector<std::vector<int64_t>> shapes;
      for (const TensorData &tensor : inputs) shapes.push_back(tensor.dims);
      if (!session || shapes != bound) {
        session.reset();
        session.emplace(make_session(model, inputs, out));
        out.erase("promised");  // it was kept; what a run says is of a run
        bound = shapes;
      }
      check_set(*session, inputs, set, quantized, random, out);
      if (out.value("result", "") == "failed" && flags_.precision == "f16")
        judge_by_half(model, *session, inputs, set, out);
      if (out.contains("result")) return;
    }
  }

  // As models have them: every input but the first is a constant. False: refused all the same.
  bool run_with_constants(const std::string &path, const std::vector<qr::TensorInfo> &declared,
                          const std::vector<std::string> &sets, bool quantized, bool random, Json &out) const {
    for (const std::string &set : sets) {
      const std::vector<std::string> files = numbered(set, "input");
      if (files.size() != declared.size()) return false;
      std::map<std::string, std::string> constants;
      for (size_t i = 1; i < files.size(); ++i) constants.emplace(declared[i].name, files[i]);
      const std::vector<uint8_t> content = with_constant_inputs(path, constants);
      const std::string file = scratch_ + "/" + std::to_string(os::process_id()) + ".onnx";
      write_bytes(file, std::string(content.begin(), content.end()));
      try {
        const qr::Model model(runtime_, file);
        run_sets(model, {set}, quantized, random, out, true);
      } catch (const qr::Error &error) {
        os::remove_file(file.c_str());
        if (error.code() == QR_UNSUPPORTED) return false;
        throw;
      }
      os::remove_file(file.c_str());
      out["constant_inputs"] = true;
      if (out.contains("result")) return true;
    }
    return true;
  }

  // Makes stored data what the model declares where only the file's words differ; says why where it cannot be this
  // model's input.
  static std::string fit(std::vector<TensorData> &inputs, const std::vector<qr::TensorInfo> &wanted) {
    for (size_t i = 0; i < inputs.size() && i < wanted.size(); ++i) {
      const qr::TensorInfo &info = wanted[i];
      as_bfloat16(inputs[i], info.dtype);
      if (info.dims.empty() && inputs[i].dims == std::vector<int64_t>{1})
        inputs[i].dims.clear();  // ONNX Runtime takes [1] for a scalar
      bool same = info.dims.size() == inputs[i].dims.size();
      for (size_t d = 0; same && d < info.dims.size(); ++d)
        same = info.dims[d] < 0 || info.dims[d] == inputs[i].dims[d];
      if (!same)
        return "input '" + info.name + "' is declared " + qr_dtype_name(info.dtype) + shape_text(info.dims) +
               ", the file holds " + qr_dtype_name(inputs[i].dtype) + shape_text(inputs[i].dims);
    }
    return "";
  }

  // Files of ONNX releases before 1.13 hold bfloat16 as uint16.
  static void as_bfloat16(TensorData &tensor, qr_dtype wanted) {
    if (wanted == QR_DTYPE_BF16 && tensor.dtype == QR_DTYPE_U16) tensor.dtype = QR_DTYPE_BF16;
  }

  qr::Session make_session(const qr::Model &model, const std::vector<TensorData> &inputs, Json &out) const {
    qr::Options options = flags_.session.make_options(runtime_);
    std::vector<std::vector<int64_t>> dims;
    for (const TensorData &input : inputs) dims.push_back(input.dims);
    if (const std::string shape = binding_text(model.inputs(), dims); !shape.empty()) options.set("shape", shape);
    if (flags_.checked) out["promised"] = Json::parse(model.check_nodes(options)).value("refused", 0) == 0;
    if (!flags_.compiled) return qr::Session(model, &options);
    // The way through a container: what a user ships. Mapped, it needs its name no longer.
    const std::string file = scratch_ + "/" + std::to_string(os::process_id()) + ".qrm";
    model.compile(file, &options);
    const qr::Model compiled(runtime_, file);
    os::remove_file(file.c_str());
    qr::Options plain(runtime_);
    if (!flags_.session.backend.empty()) plain.set("backend", flags_.session.backend);
    return qr::Session(compiled, &plain);
  }

  void check_set(qr::Session &session, std::vector<TensorData> &data, const std::string &set, bool quantized,
                 bool random, Json &out) const {
    std::vector<qr::Tensor> inputs, outputs(session.outputs().size());
    for (TensorData &tensor : data) inputs.push_back(tensor.tensor());
    session.run(inputs, outputs);
    const std::vector<std::string> files = numbered(set, "output");
    if (files.empty()) throw UsageError("'" + set + "' has no output_0.pb");
    std::vector<TensorData> expected;
    double range = 0;
    for (const std::string &file : files) {
      expected.push_back(read_tensor_proto(file));
      if (expected.size() <= outputs.size()) as_bfloat16(expected.back(), outputs[expected.size() - 1].dtype);
      range = std::max(range, value_range(expected.back()));
    }
    for (size_t i = 0; i < files.size(); ++i) {
      if (i >= outputs.size()) {
        out["result"] = "failed", out["reason"] = "the model gives " + std::to_string(outputs.size()) +
                                                  " outputs, expected " + std::to_string(files.size());
        return;
      }
      const Difference difference =
          compare(expected[i], outputs[i].dtype, outputs[i].shape(), outputs[i].bytes(), flags_.tolerance, range);
      if (quantized)
        out["worst_of_range"] = std::max(out.value("worst_of_range", 0.0),
                                         std::isfinite(difference.worst_of_range) ? difference.worst_of_range : 1e9);
      if (difference.within_float) continue;
      if (random && difference.same_type) {
        out["rule"] = "random: type and shape alone";
        continue;
      }
      if (quantized && difference.within_quantized) {
        out["rule"] = "quantized";
        continue;
      }
      out["result"] = "failed";
      out["reason"] = last_part(set) + ", output " + std::to_string(i) + ": " + difference.text;
      return;
    }
  }

  static std::vector<TensorData> results_of(qr::Session &session, std::vector<TensorData> &data) {
    std::vector<qr::Tensor> inputs, outputs(session.outputs().size());
    for (TensorData &tensor : data) inputs.push_back(tensor.tensor());
    session.run(inputs, outputs);
    std::vector<TensorData> results;
    for (const qr::Tensor &tensor : outputs) {
      const auto *const bytes = static_cast<const uint8_t *>(tensor.bytes());
      results.push_back({"", tensor.dtype, tensor.shape(), {}});
      results.back().bytes.assign(bytes, bytes + packed_bytes(tensor.dtype, results.back().dims));
    }
    return results;
  }

  // A set that failed, by what f16 can give: refused where it has numbers that f16 has not; passed where the
  // results are those of cpu-reference for the inputs as f16 has them, or integers that are a step off by rounding.
  void judge_by_half(const qr::Model &model, qr::Session &session, std::vector<TensorData> data, const std::string &set,
                     Json &out) const {
    std::vector<TensorData> expected;
    for (const std::string &file : numbered(set, "output")) expected.push_back(read_tensor_proto(file));
    for (const auto *list : {&data, &expected})
      for (const TensorData &tensor : *list)
        if (const std::string number = beyond_half(tensor); !number.empty()) {
          out["result"] = "refused", out["rule"] = "f16: no such number";
          out["reason"] = last_part(set) + ": " + (list == &data ? "input" : "result") + " '" + tensor.name + "' has " +
                          number + "; an NPU's f16 has no number past 65504, no infinity and no NaN";
          return;
        }
    const std::vector<TensorData> found = results_of(session, data);
    const bool rounds = rounds_to_integers(Json::parse(model.inspect()));
    const auto agree = [&](const std::vector<TensorData> &wanted) {
      double range = 0;
      for (const TensorData &tensor : wanted) range = std::max(range, value_range(tensor));
      for (size_t i = 0; i < wanted.size() && i < found.size(); ++i) {
        if (rounds && within_a_step(wanted[i], found[i].dtype, found[i].dims, found[i].bytes.data())) continue;
        if (!compare(wanted[i], found[i].dtype, found[i].dims, found[i].bytes.data(), flags_.tolerance, range)
                 .within_float)
          return false;
      }
      return wanted.size() <= found.size();
    };
    const char *rule = nullptr;
    if (rounds && agree(expected)) {
      rule = "f16: integers a step off";
    } else {
      bool changed = false;
      for (TensorData &tensor : data) changed |= round_to_half(tensor);
      if (!changed) return;
      qr::Options plain(runtime_);
      plain.set("backend", "cpu-reference");
      std::vector<std::vector<int64_t>> dims;
      for (const TensorData &input : data) dims.push_back(input.dims);
      if (const std::string shape = binding_text(model.inputs(), dims); !shape.empty()) plain.set("shape", shape);
      qr::Session reference(model, &plain);
      if (!agree(results_of(reference, data))) return;
      rule = "f16: of inputs rounded to f16";
    }
    out.erase("result"), out.erase("reason");
    out["rule"] = rule;
  }

  const ConformFlags &flags_;
  qr::Runtime runtime_;
  std::string scratch_;
};

// The folders of cases that --filter leaves.
std::vector<std::string> cases_of(const ConformFlags &flags) {
  std::vector<std::string> cases;
  for (const std::string &folder : flags.folders) {
    if (!is_folder(folder))
      throw UsageError("conform: found that '" + folder + "' is no folder, expected one",
                       "a case is a folder with model.onnx and test_data_set_*; give one, or a folder of such");
    const size_t before = cases.size();
    find_cases(folder, cases);
    if (cases.size() == before)
      throw UsageError("'" + folder + "' holds no case", "a case is a folder with model.onnx and test_data_set_*");
  }
  if (!flags.filters.empty())
    std::erase_if(cases, [&](const std::string &folder) {
      return std::none_of(flags.filters.begin(), flags.filters.end(),
                          [&](const std::string &filter) { return fits_name(filter, last_part(folder)); });
    });
  return cases;
}

// A result for each case; null where an interrupt came before it.
std::vector<Json> run_cases(const ConformFlags &flags, const std::vector<std::string> &cases) {
  std::vector<Json> results(cases.size());
  uint64_t finished = 0;
  ProgressLine progress;
  const auto take = [&](uint64_t index, Json result) {
    progress.show(++finished, cases.size(), result.value("name", ""));
    results[index] = std::move(result);
  };
  const Interruptible interruptible;
  std::optional<ScratchFolder> scratch;
  if (flags.compiled || flags.constant_inputs) scratch.emplace();
  const std::string scratch_path = scratch ? scratch->path() : "";
  if (flags.in_process) {
    const Runner runner(flags, scratch_path);
    for (uint64_t i = 0; i < cases.size() && !interrupted(); ++i) take(i, runner.run(cases[i]));
  } else {
    std::optional<Runner> runner;  // made in each worker, after the fork
    const int jobs = flags.jobs > 0 ? flags.jobs : static_cast<int>(os::processor_count());
    run_in_workers(
        cases.size(), jobs, flags.timeout_s,
        [&](uint64_t i) {
          if (!runner) runner.emplace(flags, scratch_path);
          return runner->run(cases[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
        },
        [&](uint64_t i, const std::string &text, bool died) {
          if (!died) return take(i, Json::parse(text));
          take(i, {{"name", last_part(cases[i])}, {"folder", cases[i]}, {"result", "failed"}, {"reason", text}});
        },
        [] { return interrupted() != 0; });
  }
  progress.clear();
  return results;
}

int conform(const ConformFlags &flags) {
  const std::vector<std::string> cases = cases_of(flags);
  if (flags.list) {
    for (const std::string &folder : cases) print("%s\n", folder);
    return 0;
  }
  if (cases.empty()) throw UsageError("no case is left by --filter");

  std::vector<Json> results = run_cases(flags, cases);
  std::erase_if(results, [](const Json &result) { return result.is_null(); });  // not come to
  std::map<std::string, int> counts{{"passed", 0}, {"failed", 0}, {"refused", 0}};
  for (const Json &result : results) ++counts[result["result"].get<std::string>()];
  FILE *listing = is_standard_output(flags.json) ? stderr : standard_output();
  for (const char *kind : {"refused", "failed"})
    for (const Json &result : results)
      if (result["result"] == kind)
        print_to(listing, "%s %s: %s\n", kind, result["name"].get<std::string>(), result.value("reason", ""));
  print_to(listing, "%d passed, %d failed, %d refused", counts["passed"], counts["failed"], counts["refused"]);
  const auto constants = std::ranges::count_if(results, [](const Json &r) { return r.contains("constant_inputs"); });
  if (constants > 0) print_to(listing, ", %td of them with constant inputs", constants);
  const auto halves =
      std::ranges::count_if(results, [](const Json &r) { return r.value("rule", "").rfind("f16:", 0) == 0; });
  if (halves > 0) print_to(listing, ", %td checked against what f16 has", halves);
  if (const size_t left = cases.size() - results.size()) print_to(listing, ", %zu not run: interrupted", left);
  print_to(listing, "\n");
  if (!flags.json.empty()) {
    const Json report = {{"backend", flags.session.backend.empty() ? "cpu" : flags.session.backend},
                         {"passed", counts["passed"]},
                         {"failed", counts["failed"]},
                         {"refused", counts["refused"]},
                         {"not_run", cases.size() - results.size()},
                         {"cases", results}};
    write_text(flags.json, report.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return counts["failed"] ? 1 : 0;
}

void add_tolerances(CLI::App &command, Tolerance &tolerance) {
  command.add_option("--rtol", tolerance.rtol, "Relative tolerance")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command.add_option("--atol", tolerance.atol, "Absolute tolerance")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command
      .add_option("--range-floor", tolerance.range_floor,
                  "Differences under this part of the range of the case's outputs agree")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
  command
      .add_option("--quantized-tolerance", tolerance.quantized_range,
                  "For quantised models: allowed difference as a part of the output's range")
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative))
      ->capture_default_str();
}

}  // namespace

void register_conform(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ConformFlags>();
  CLI::App *command = app.add_subcommand(
      "conform", "Run folders in the layout of ONNX's own tests and compare with the stored outputs");
  command
      ->add_option("folders", flags->folders,
                   "Cases (model.onnx, test_data_set_*/input_*.pb, output_*.pb) or folders of cases")
      ->required()
      ->type_name("DIR");
  flags->session.add_to(*command);
  add_tolerances(*command, flags->tolerance);
  command
      ->add_option("--precision", flags->precision,
                   "What the backend computes in. With f16 a case that fails is checked again: by cpu-reference on its "
                   "inputs rounded to f16, integers that were rounded from reals to a step; and it is refused where it "
                   "has numbers past 65504, infinities or NaN")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  command->add_option("--filter", flags->filters, "Only cases whose name fits this pattern (*, ?)")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  command->add_option("--json", flags->json, "Write the results as JSON to a file, or to standard output for -")
      ->type_name("FILE|-");
  command->add_option("--jobs,-j", flags->jobs, "Worker processes (default: one per processor)")
      ->type_name("N")
      ->check(whole_number(1, 256));
  command->add_option("--timeout", flags->timeout_s, "Seconds for one case")
      ->type_name("SECONDS")
      ->check(whole_number(1, 1000000))
      ->capture_default_str();
  command->add_flag("--in-process", flags->in_process,
                    "Run the cases in this process, for a debugger: a crash then ends everything");
  command->add_flag("--compiled", flags->compiled, "Compile each model into a .qrm and run that");
  command->add_flag("--checked", flags->checked,
                    "Ask the backend about every node first, as check does: a case that it took wholly and that is "
                    "refused then has failed");
  command->add_flag(
      "--constant-inputs", flags->constant_inputs,
      "A case that is refused is tried again with all inputs but the first as constants, as models have them");
  command->add_flag("--list", flags->list, "Only list the cases");
  command->callback([&action, flags] { action = [flags] { return conform(*flags); }; });
}

}  // namespace tools
