// SPDX-License-Identifier: Apache-2.0
// quarry run: a model on real inputs, from .onnx or .qrm.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <sstream>

#include "tools/console/command.h"
#include "tools/console/read_file.h"
#include "tools/console/usage.h"
#include "tools/input/image.h"
#include "tools/input/input_files.h"
#include "tools/input/samples.h"
#include "tools/input/saved_files.h"
#include "tools/input/shapes.h"
#include "tools/input/tensor_file.h"
#include "tools/report/draw.h"
#include "tools/report/profile_output.h"

namespace tools {
namespace {

struct RunFlags {
  SessionFlags session;
  ImageFlags image;
  ProfileFlags profile;
  DrawFlags draw;
  AdapterFlags adapter;
  std::string model, labels, save, state;
  std::vector<std::string> files, inputs;
  int top = 5;
  bool softmax = false, picture = false, zeros = false, json = false;
};

std::vector<std::string> load_labels(const std::string &path) {
  std::vector<std::string> labels;
  if (path.empty()) return labels;
  const std::vector<uint8_t> file = read_file(path);
  std::istringstream in(std::string(file.begin(), file.end()));
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    labels.push_back(line);
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  if (labels.empty()) throw UsageError("--labels: found no labels in '" + path + "'", "one name a line");
  return labels;
}

// Scores: one row of more than one value. Everything else is summed up.
bool is_scores(const std::vector<int64_t> &dims) {
  const int64_t count = element_count(dims);
  return count > 1 && !dims.empty() && std::any_of(dims.begin(), dims.end(), [&](int64_t dim) { return dim == count; });
}

// Labels name the scores of an output that has as many. A list that is one too long or too short would name every class
// wrongly and look right.
void check_labels(const RunFlags &flags, const std::vector<std::string> &labels,
                  const std::vector<qr::TensorInfo> &infos, const std::vector<qr::Tensor> &outputs) {
  if (labels.empty()) return;
  std::string found;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<int64_t> dims = outputs[i].shape();
    if (!is_scores(dims)) continue;
    if (static_cast<size_t>(element_count(dims)) == labels.size()) return;
    found += (found.empty() ? "" : ", ") + infos[i].name + " " + std::to_string(element_count(dims));
  }
  throw UsageError("--labels: found " + std::to_string(labels.size()) + " labels in '" + flags.labels + "', " +
                       (found.empty() ? "but no output of the model is a row of scores"
                                      : "expected one for each score of an output: " + found),
                   "a model whose first class is the background has one class more than lists without it");
}

nlohmann::json report_output(const RunFlags &flags, const std::vector<std::string> &labels, const qr::TensorInfo &info,
                             const qr::Tensor &tensor, bool show) {
  const std::vector<int64_t> dims = tensor.shape();
  const int64_t count = element_count(dims);
  std::vector<double> values = to_doubles(tensor.dtype, tensor.bytes(), count);
  nlohmann::json out = {{"name", info.name}, {"dtype", qr_dtype_name(tensor.dtype)}, {"dims", dims}};
  if (show) print("  %s %s%s\n", info.name, qr_dtype_name(tensor.dtype), shape_text(dims));
  if (is_scores(dims) && count > 1) {
    if (flags.softmax) {
      const double high = *std::max_element(values.begin(), values.end());
      double sum = 0;
      for (double &value : values) sum += value = std::exp(value - high);
      for (double &value : values) value /= sum;
    }
    std::vector<size_t> order(values.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t top = std::min<size_t>(static_cast<size_t>(std::max(flags.top, 0)), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                      [&](size_t a, size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
    out["top"] = nlohmann::json::array();
    for (size_t i = 0; i < top; ++i) {
      const std::string label = labels.size() == order.size() ? labels[order[i]] : "";
      out["top"].push_back({{"index", order[i]}, {"value", values[order[i]]}, {"label", label}});
      if (show) print("    %8.4f  %5zu  %s\n", values[order[i]], order[i], label);
    }
  } else if (count > 0) {
    double low = INFINITY, high = -INFINITY, sum = 0;
    int64_t bad = 0;
    for (double value : values) {
      if (!std::isfinite(value)) ++bad;
      else low = std::min(low, value), high = std::max(high, value), sum += value;
    }
    out["min"] = low, out["max"] = high, out["mean"] = sum / static_cast<double>(std::max<int64_t>(count - bad, 1)),
    out["not_finite"] = bad;
    if (show && count <= 8) {
      print("   ");
      for (double value : values) print(" %.6g", value);
      print("\n");
    } else if (show) {
      print("    min %.6g  max %.6g  mean %.6g%s\n", low, high,
            sum / static_cast<double>(std::max<int64_t>(count - bad, 1)),
            bad ? ("  not finite: " + std::to_string(bad)).c_str() : "");
    }
  }
  return out;
}

// The files of one run, by the names of the inputs.
using RunFiles = std::map<std::string, std::string>;

// A file, or what is in a folder.
void add_runs(const std::string &file, const std::vector<qr::TensorInfo> &wanted, std::vector<RunFiles> &runs) {
  if (!is_folder(file) && wanted.size() == 1) {
    runs.push_back({{wanted[0].name, file}});
    return;
  }
  for (SampleFiles &one : find_samples(file, wanted, "run")) runs.push_back(std::move(one.files));
}

// The runs: files one by one for a model with one input, and those in folders (as --calibration of `quarry quantize`
// has them); --input NAME=FILE for all inputs of one run.
std::vector<RunFiles> plan_runs(const RunFlags &flags, const std::vector<qr::TensorInfo> &wanted) {
  std::vector<RunFiles> runs;
  if (!flags.inputs.empty()) {
    if (!flags.files.empty())
      throw UsageError("files and --input exclude each other", "name every input with --input NAME=FILE");
    runs.emplace_back();
    for (const std::string &text : flags.inputs) {
      const auto [name, path] = split_input(text, wanted);
      runs.back()[name] = path;
    }
  } else if (!flags.files.empty()) {
    if (wanted.size() == 1 || std::any_of(flags.files.begin(), flags.files.end(), is_folder)) {
      for (const std::string &file : flags.files) add_runs(file, wanted, runs);
    } else if (flags.files.size() == wanted.size()) {
      runs.emplace_back();
      for (size_t i = 0; i < wanted.size(); ++i) runs.back()[wanted[i].name] = flags.files[i];
    } else {
      throw UsageError("found " + std::to_string(flags.files.size()) + " files for a model with " +
                           std::to_string(wanted.size()) + " inputs",
                       "name them: --input NAME=FILE");
    }
  } else if (flags.zeros || wanted.empty()) {
    runs.emplace_back();
  } else {
    std::string list;
    for (const qr::TensorInfo &info : wanted)
      list += "\n    " + info.name + " " + qr_dtype_name(info.dtype) + shape_text(info.dims);
    throw UsageError("no input given; the model wants" + list,
                     "give files (.npy, .pb, raw, PNG, JPEG), --input NAME=FILE, or --zeros");
  }
  return runs;
}

// The shape of what a file holds, for an input whose dimensions are not all known; empty where the file does not say.
std::vector<int64_t> file_shape(const std::string &path, const qr::TensorInfo &info, const ImageFlags &image) {
  if (is_image_path(path)) return image_shape(path, info, image);
  return says_its_shape(path) ? load_input(path, info, image).dims : std::vector<int64_t>();
}

// Each run's shapes of the inputs, as far as model and files have them.
std::vector<std::vector<int64_t>> run_shapes(const RunFiles &files, const std::vector<qr::TensorInfo> &wanted,
                                             const ImageFlags &image) {
  std::vector<std::vector<int64_t>> shapes;
  for (const qr::TensorInfo &info : wanted) {
    shapes.push_back(info.dims);
    const auto at = files.find(info.name);
    if (is_known(info.dims) || at == files.end()) continue;
    if (std::vector<int64_t> found = file_shape(at->second, info, image); !found.empty()) shapes.back() = found;
  }
  return shapes;
}

// The buckets of an .onnx: what --shape says, and where that leaves room, one for each shape among the input files.
void bind_shapes(const RunFlags &flags, const std::vector<qr::TensorInfo> &wanted,
                 const std::vector<std::vector<std::vector<int64_t>>> &shapes, qr::Options &options) {
  const std::vector<std::string> &asked = flags.session.shapes;
  std::vector<std::string> texts = asked;
  // A range is left to the runs.
  const bool has_range = asked.size() == 1 && asked[0].find("..") != std::string::npos;
  if (asked.size() <= 1 && !has_range) {
    std::vector<std::string> bound;
    for (const auto &one : shapes) {
      std::vector<std::vector<int64_t>> left = one;
      for (size_t i = 0; i < wanted.size(); ++i)  // --shape has the first word
        if (!asked.empty() && ("," + asked[0]).find("," + wanted[i].name + "=") != std::string::npos) left[i].clear();
      std::string text = binding_text(wanted, left);
      if (!asked.empty()) text = text.empty() ? asked[0] : asked[0] + "," + text;
      if (!text.empty() && std::find(bound.begin(), bound.end(), text) == bound.end()) bound.push_back(text);
    }
    if (!bound.empty()) texts = bound;
  }
  for (const std::string &text : texts) options.set("shape", text);
}

// The run's picture to draw on, and the input that it went to.
Drawn picture_of(const RunFiles &files, const std::vector<qr::TensorInfo> &wanted,
                 const std::vector<TensorData> &data) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    const auto at = files.find(wanted[i].name);
    if (at == files.end() || !is_image_path(at->second)) continue;
    qr::TensorInfo info = wanted[i];
    info.dims = data[i].dims;
    return {at->second, info};
  }
  throw UsageError("--draw: found no picture among the inputs, expected one to draw on", "PNG, JPEG and BMP work");
}

// The runs of one session, one after the other.
class Runs {
 public:
  Runs(const RunFlags &flags, std::vector<std::string> labels, const Buckets &buckets, qr::Session session,
       const std::vector<RunFiles> &runs, qr::Profile *profiled)
      : flags_(flags),
        labels_(std::move(labels)),
        buckets_(buckets),
        session_(std::move(session)),
        wanted_(session_.inputs()),
        given_(session_.outputs()),
        is_one_(runs.size() == 1),
        profiled_(profiled) {
    if (flags.save.empty()) return;
    std::vector<std::string> inputs;
    for (const RunFiles &files : runs)
      for (const auto &[name, path] : files) inputs.push_back(path);
    saved_.emplace(flags.save, inputs);
  }

  nlohmann::json run(const RunFiles &files, const std::vector<std::vector<int64_t>> &shapes) {
    std::vector<TensorData> data = load(files, shapes);
    std::vector<qr::Tensor> inputs, outputs(given_.size());
    for (TensorData &tensor : data) inputs.push_back(tensor.tensor());
    const auto begin = std::chrono::steady_clock::now();
    session_.run(inputs, outputs, nullptr, profiled_);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (!flags_.draw.wanted()) check_labels(flags_, labels_, given_, outputs);
    std::string title;
    for (const auto &[name, path] : files) title += (title.empty() ? "" : ", ") + path;
    const bool is_turned = std::ranges::any_of(data, &TensorData::is_turned);
    if (!flags_.json)
      print("%s%s%.1f ms%s\n", title, title.empty() ? "" : ": ", ms, is_turned ? ", turned as its Exif says" : "");
    if (!flags_.json && flags_.picture)
      for (const auto &[name, path] : files)
        if (is_image_path(path)) print_text(picture_text(path));
    nlohmann::json one = {{"inputs", files}, {"ms", ms}, {"outputs", nlohmann::json::array()}};
    if (is_turned) one["turned"] = true;
    for (size_t i = 0; i < given_.size(); ++i)
      one["outputs"].push_back(report(given_[i], outputs[i], is_one_ ? "" : title));
    if (flags_.draw.wanted())
      one["drawn"] =
          draw(flags_.draw, picture_of(files, wanted_, data), flags_.image, labels_, given_, outputs, !flags_.json);
    return one;
  }

  // Of the session's report: "state", "plans", "padding"; null: it has none.
  nlohmann::json kept(const char *key) const {
    return nlohmann::json::parse(session_.report()).value(key, nlohmann::json());
  }

 private:
  std::vector<TensorData> load(const RunFiles &files, const std::vector<std::vector<int64_t>> &shapes) const {
    std::vector<TensorData> data;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      qr::TensorInfo info = wanted_[i];
      if (is_known(shapes[i])) info.dims = shapes[i];
      const auto at = files.find(info.name);
      if (at != files.end()) {
        if (!is_known(info.dims) && !says_its_shape(at->second)) buckets_.refuse_unknown(info);
        data.push_back(load_input(at->second, info, flags_.image));
      } else if (flags_.zeros) {
        TensorData zero;
        zero.dtype = info.dtype, zero.dims = info.dims;
        if (!is_known(info.dims)) buckets_.refuse_unknown(info);
        zero.bytes = room_for(packed_bytes(info.dtype, info.dims), "input '" + info.name + "'");
        data.push_back(std::move(zero));
      } else {
        throw UsageError("no file for input '" + info.name + "' " + qr_dtype_name(info.dtype) + shape_text(info.dims),
                         "--input " + info.name + "=FILE, or --zeros");
      }
    }
    return data;
  }

  // What an output is, and the file that it is saved as.
  nlohmann::json report(const qr::TensorInfo &info, const qr::Tensor &tensor, const std::string &title) {
    nlohmann::json out = report_output(flags_, labels_, info, tensor, !flags_.json && !flags_.draw.wanted());
    if (!saved_) return out;
    const std::string path = saved_->path(title, info.name);
    write_npy(path, tensor.dtype, tensor.shape(), tensor.bytes(), tensor.size_bytes);
    out["file"] = path;
    if (!flags_.json) print("    saved as %s\n", path);
    return out;
  }

  const RunFlags &flags_;
  const std::vector<std::string> labels_;
  const Buckets &buckets_;
  qr::Session session_;
  const std::vector<qr::TensorInfo> wanted_, given_;
  const bool is_one_;
  qr::Profile *const profiled_;
  std::optional<SavedFiles> saved_;
};

int run(const RunFlags &flags) {
  flags.profile.check(flags.files);
  if (is_standard_output(flags.draw.file)) print_beside_result();
  std::vector<std::string> labels = load_labels(flags.labels);
  const qr::Runtime runtime = flags.session.runtime();
  qr::Options options = flags.session.make_options(runtime, SessionFlags::Shapes::None);
  if (!flags.state.empty()) options.set("state", flags.state);
  const qr::Model model(runtime, model_source(flags.model), &options);
  const Buckets buckets(model, flags.session.shapes);
  qr::Profile profile(runtime);
  qr::Profile *const profiled = flags.profile.wanted() ? &profile : nullptr;
  // What the session keeps is no input of its runs: it says which are. Their shapes are left to the runs.
  qr::Session session;
  if (const bool keeps_state = !options.value("state").empty(); keeps_state) {
    for (const std::string &text : flags.session.shapes) options.set("shape", text);
    session = qr::Session::try_create(model, &options, nullptr, profiled).value();
  }
  const std::vector<qr::TensorInfo> declared = session ? session.inputs() : buckets.inputs();
  const std::vector<RunFiles> runs = plan_runs(flags, declared);
  if (flags.draw.wanted() && runs.size() > 1)
    throw UsageError(
        "--draw: found " + std::to_string(runs.size()) + " inputs, expected one, for one picture is written",
        "run `quarry run` once for each");
  std::vector<std::vector<std::vector<int64_t>>> shapes;
  for (const RunFiles &files : runs) shapes.push_back(run_shapes(files, declared, flags.image));
  if (!session) {
    if (!buckets.of_container()) bind_shapes(flags, declared, shapes, options);
    session = qr::Session::try_create(model, &options, nullptr, profiled).value();
  }
  flags.adapter.apply(session);
  Runs all(flags, std::move(labels), buckets, std::move(session), runs, profiled);
  nlohmann::json results = nlohmann::json::array();
  for (size_t r = 0; r < runs.size(); ++r) results.push_back(all.run(runs[r], shapes[r]));
  const nlohmann::json state = all.kept("state");
  if (!flags.json && !state.is_null())
    print("state: %zu pairs, length %s of %s, %s\n", state["pairs"].size(), state["length"].dump(),
          state["capacity"].dump(), bytes_text(state["bytes"].get<uint64_t>()));
  const nlohmann::json padding = all.kept("padding");
  if (!flags.json && padding.contains("last"))
    print("padded: %s runs, the last %s\n", padding["runs"].dump(), padding["last"].get<std::string>());
  if (flags.json) {
    nlohmann::json report = {{"runs", std::move(results)}};
    if (!padding.is_null()) report["padding"] = padding;
    if (!state.is_null()) report["state"] = state, report["plans"] = all.kept("plans");
    if (profiled) report["profile"] = ProfileFlags::json(profile);
    print("%s\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  const std::string title = runs.size() > 1
                                ? "profile of the " + std::to_string(runs.size()) + " runs, the first a cold one"
                                : "profile of the run, a cold one";
  flags.profile.tell(profile, title + " (`quarry bench --profile` has warm ones):", !flags.json);
  return 0;
}

}  // namespace

void register_run(CLI::App &app, Action &action) {
  auto flags = std::make_shared<RunFlags>();
  CLI::App *command = app.add_subcommand("run", "Run a model on files: .npy, .pb, raw bytes, PNG, JPEG");
  command->add_option("model", flags->model, "Model: .onnx or .qrm; - is standard input")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("files", flags->files,
                   "Inputs (- is standard input); with a model of one input each file is a run of its own, and each "
                   "picture, .npy and .pb in a folder")
      ->type_name("FILE");
  command->add_option("--input,-i", flags->inputs, "The file of a named input")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  command->add_flag("--zeros", flags->zeros, "Fill the inputs that no file is given for with zeros");
  command
      ->add_option("--state", flags->state,
                   "Keeps state from each run to the next: pairs INPUT:OUTPUT with commas between, or auto, by their "
                   "names (as -O state=TEXT)")
      ->type_name("TEXT");
  flags->adapter.add_to(*command);
  flags->session.add_to(*command);
  flags->image.add_to(*command);
  command->add_option("--labels,-l", flags->labels, "Names of the classes, one a line")->type_name("FILE");
  command->add_option("--top,-k", flags->top, "How many of the best scores to print")
      ->capture_default_str()
      ->type_name("N")
      ->check(whole_number(0));
  command->add_flag("--softmax", flags->softmax, "Show scores as probabilities");
  command->add_flag("--picture", flags->picture, "Show input images in characters");
  command->add_option("--save,-o", flags->save, "Folder to write each output to, as .npy")->type_name("DIR");
  flags->draw.add_to(*command);
  flags->profile.add_to(*command, "when the session is made and in the runs");
  command->add_flag("--json", flags->json, "Print the results as JSON");
  command->callback([&action, flags] { action = [flags] { return run(*flags); }; });
}

}  // namespace tools
