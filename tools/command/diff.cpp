// SPDX-License-Identifier: Apache-2.0
// quarry diff: two backends, or two models, compared layer by layer. Both compute the same inputs with every tensor of
// their graphs as an output; what differs first is where to look.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "tools/console/command.h"
#include "tools/console/usage.h"
#include "tools/input/input_files.h"
#include "tools/input/shapes.h"

namespace tools {
namespace {

using Json = nlohmann::json;

struct DiffFlags {
  SessionFlags first;
  ImageFlags image;
  std::string one, two, backend;
  std::vector<std::string> inputs, options;
  double tolerance = 0.05, sqnr = 10;
  bool random = false, as_json = false;
};

// One side: a model, by one backend with one set of options.
struct Side {
  qr::Runtime runtime;
  qr::Options options;
  qr::Model model;
  std::optional<qr::Session> session;

  Side(const SessionFlags &flags, const std::string &path)
      : runtime(flags.runtime()), options(flags.make_options(runtime)), model(runtime, model_source(path), &options) {}
};

// A container's context says what it was compiled with: the layers are compiled once more, in the same way.
SessionFlags as_compiled(SessionFlags flags, const std::string &path) {
  const qr::Runtime runtime = flags.runtime();
  const Json info = Json::parse(qr::Model(runtime, model_source(path)).inspect());
  if (info.value("kind", "") != "qrm") return flags;
  for (const Json &context : info["contexts"]) {
    if (flags.backend.empty()) flags.backend = context.value("backend", "");
    if (context.value("backend", "") != flags.backend) continue;
    for (const auto &[key, value] : context["options"].items()) {
      const bool given = std::any_of(flags.options.begin(), flags.options.end(),
                                     [&, name = key](const auto &option) { return option.rfind(name + "=", 0) == 0; });
      if (!given) flags.options.insert(flags.options.begin(), key + "=" + value.get<std::string>());
    }
    break;
  }
  return flags;
}

struct Row {
  std::string tensor, node, op, shape;
  double worst = 0, of_range = 0, sqnr = INFINITY;
  std::optional<double> steps;  // of a quantised tensor
  size_t rank = 0;
  bool bad = false;
};

// The scale and zero point of element `i` (qr_tensor_info).
std::pair<double, double> scale_of(const qr::TensorInfo &info, const std::vector<int64_t> &shape, size_t i) {
  if (info.scales.empty()) return {info.scale, static_cast<double>(info.zero_point)};
  size_t inner = 1;
  for (size_t axis = info.quantized_axis + 1; axis < shape.size(); ++axis) inner *= static_cast<size_t>(shape[axis]);
  const size_t extent = static_cast<size_t>(shape[info.quantized_axis]), channel = i / inner % extent;
  size_t entry = channel;
  if (const auto block = static_cast<size_t>(info.block_size))
    entry = (i / inner / extent * ((extent + block - 1) / block) + channel / block) * inner + i % inner;
  return {info.scales.at(entry), info.zero_points.empty() ? 0 : info.zero_points.at(entry)};
}

std::vector<double> real_values(const qr::TensorInfo &info, const qr::Tensor &tensor) {
  const std::vector<int64_t> shape = tensor.shape();
  std::vector<double> values = to_doubles(tensor.dtype, tensor.bytes(), element_count(shape));
  if (info.is_quantized)
    for (size_t i = 0; i < values.size(); ++i) {
      const auto [scale, zero_point] = scale_of(info, shape, i);
      values[i] = (values[i] - zero_point) * scale;
    }
  return values;
}

Row compare_tensor(const qr::TensorInfo &info, const std::vector<double> &a, const std::vector<double> &b) {
  Row row;
  row.tensor = info.name;
  double low = 0, high = 0, signal = 0, noise = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) {
      if (std::isfinite(b[i])) signal += b[i] * b[i], low = std::min(low, b[i]), high = std::max(high, b[i]);
      continue;
    }
    const double error = a[i] - b[i];
    row.worst = std::max(row.worst, std::isfinite(error) ? std::fabs(error) : INFINITY);
    noise += error * error;
    if (std::isfinite(b[i])) signal += b[i] * b[i], low = std::min(low, b[i]), high = std::max(high, b[i]);
  }
  // What a quantised tensor can hold, whatever this input made of it.
  if (info.is_quantized) {
    const double scale = info.scales.empty() ? info.scale : *std::max_element(info.scales.begin(), info.scales.end());
    low = 0, high = scale * (std::exp2(qr_dtype_bits(info.dtype)) - 1);
  }
  row.of_range = row.worst == 0 ? 0 : high > low ? row.worst / (high - low) : INFINITY;
  if (row.worst > 0) row.sqnr = std::isfinite(noise) && signal > 0 ? 10 * std::log10(signal / noise) : -INFINITY;
  if (info.is_quantized && info.scale > 0) row.steps = std::round(row.worst / info.scale);
  return row;
}

// Who makes each tensor, and as which of all.
struct Maker {
  std::string node, op;
  size_t rank = 0;
};
std::map<std::string, Maker> makers(const Side &side) {
  std::map<std::string, Maker> found;
  const Json report = Json::parse(side.model.check_nodes(side.options));
  for (const Json &node : report["nodes"])
    for (const Json &tensor : node["outputs"])
      found[tensor.get<std::string>()] = {node.value("name", ""), node.value("op", ""), found.size() + 1};
  return found;
}

std::vector<TensorData> load_inputs(const DiffFlags &flags, const std::vector<qr::TensorInfo> &wanted) {
  std::map<std::string, std::string> files;
  for (const std::string &text : flags.inputs) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos && wanted.size() == 1) files[wanted[0].name] = text;
    else files.insert(split_input(text, wanted));
  }
  std::vector<TensorData> data;
  for (const qr::TensorInfo &info : wanted) {
    const auto at = files.find(info.name);
    if (at == files.end() && !flags.random)
      throw UsageError("no file for input '" + info.name + "' " + qr_dtype_name(info.dtype) + shape_text(info.dims),
                       "--input " + info.name + "=FILE, or --random");
    data.push_back(at == files.end() ? made_input(info) : load_input(at->second, info, flags.image));
    if (at != files.end()) files.erase(at);
  }
  return data;
}

Json finite(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void print_rows(const std::vector<Row> &rows) {
  size_t tensor = 6, op = 8;
  for (const Row &row : rows) tensor = std::max(tensor, row.tensor.size()), op = std::max(op, row.op.size());
  tensor = std::min<size_t>(tensor, 48);
  print("%-*s  %-*s  %10s  %8s  %8s  %s\n", static_cast<int>(tensor), "tensor", static_cast<int>(op), "operator",
        "max error", "of range", "SQNR dB", "steps");
  for (const Row &row : rows) {
    char ratio[32] = "exact", steps[32] = "";
    if (row.worst > 0) std::snprintf(ratio, sizeof ratio, "%.1f", row.sqnr);
    if (row.steps) std::snprintf(steps, sizeof steps, "%.0f", *row.steps);
    const std::string name =
        row.tensor.size() > tensor ? ".." + row.tensor.substr(row.tensor.size() - tensor + 2) : row.tensor;
    print("%-*s  %-*s  %10.4g  %7.2f%%  %8s  %s%s\n", static_cast<int>(tensor), name, static_cast<int>(op), row.op,
          row.worst, 100 * row.of_range, ratio, steps, row.bad ? "  BAD" : "");
  }
}

// What a side makes of the inputs of the first one.
std::vector<qr::Tensor> outputs_of(Side &side, const std::vector<qr::TensorInfo> &wanted,
                                   std::vector<TensorData> &data) {
  std::vector<qr::Tensor> inputs;
  for (const qr::TensorInfo &info : side.session->inputs()) {
    const auto found =
        std::find_if(wanted.begin(), wanted.end(), [&](const auto &one) { return one.name == info.name; });
    if (found == wanted.end())
      throw UsageError("the second model has an input '" + info.name + "' that the first has not");
    inputs.push_back(data[static_cast<size_t>(found - wanted.begin())].tensor());
  }
  std::vector<qr::Tensor> outputs(side.session->outputs().size());
  side.session->run(inputs, outputs);
  return outputs;
}

struct Rows {
  std::vector<Row> rows;
  size_t alone = 0;  // tensors of the first side that the second has not, or in another shape
};

Rows compare_sides(const DiffFlags &flags, const Side &a, const Side &b, const std::vector<qr::Tensor> &first,
                   const std::vector<qr::Tensor> &second) {
  const auto made_by = makers(a);
  std::map<std::string, size_t> others;
  const std::vector<qr::TensorInfo> ours = a.session->outputs(), theirs = b.session->outputs();
  for (size_t i = 0; i < theirs.size(); ++i) others[theirs[i].name] = i;
  Rows out;
  for (size_t i = 0; i < ours.size(); ++i) {
    const auto at = others.find(ours[i].name);
    if (at == others.end() || first[i].shape() != second[at->second].shape()) {
      ++out.alone;
      continue;
    }
    Row row =
        compare_tensor(ours[i], real_values(ours[i], first[i]), real_values(theirs[at->second], second[at->second]));
    row.shape = shape_text(first[i].shape());
    if (const auto maker = made_by.find(row.tensor); maker != made_by.end())
      row.node = maker->second.node, row.op = maker->second.op, row.rank = maker->second.rank;
    row.bad = row.of_range > flags.tolerance || row.sqnr < flags.sqnr;
    out.rows.push_back(std::move(row));
  }
  return out;
}

void print_json(const std::vector<Row> &rows, size_t alone, const Row *first_bad) {
  Json report = {{"tensors", Json::array()}, {"not_in_both", alone}};
  for (const Row &row : rows)
    report["tensors"].push_back({{"name", row.tensor},
                                 {"node", row.node},
                                 {"op", row.op},
                                 {"shape", row.shape},
                                 {"max_error", finite(row.worst)},
                                 {"of_range", finite(row.of_range)},
                                 {"sqnr_db", finite(row.sqnr)},
                                 {"steps", row.steps ? finite(*row.steps) : Json(nullptr)},
                                 {"bad", row.bad}});
  report["first_bad"] = first_bad ? Json(first_bad->tensor) : Json(nullptr);
  print("%s\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
}

int diff(const DiffFlags &flags) {
  const std::string &second_model = flags.two.empty() ? flags.one : flags.two;
  SessionFlags other = flags.first;
  if (!flags.backend.empty()) other.backend = flags.backend;
  else if (!flags.two.empty()) other.backend.clear();
  other.options.insert(other.options.end(), flags.options.begin(), flags.options.end());
  Side a(as_compiled(flags.first, flags.one), flags.one), b(as_compiled(other, second_model), second_model);
  for (Side *side : {&a, &b}) {
    side->options.set("graph.watch", "*");
    side->session.emplace(side->model, &side->options);
  }
  const std::vector<qr::TensorInfo> wanted = a.session->inputs();
  std::vector<TensorData> data = load_inputs(flags, wanted);
  const std::vector<qr::Tensor> first = outputs_of(a, wanted, data), second = outputs_of(b, wanted, data);
  Rows found = compare_sides(flags, a, b, first, second);
  std::vector<Row> &rows = found.rows;
  if (rows.empty()) throw UsageError("the two models have no tensor in common", "compare models made of one .onnx");
  // In the order in which the nodes run; the models' own outputs came first.
  std::stable_sort(rows.begin(), rows.end(), [](const Row &x, const Row &y) { return x.rank < y.rank; });
  const auto bad = std::find_if(rows.begin(), rows.end(), [](const Row &row) { return row.bad; });
  if (flags.as_json) {
    print_json(rows, found.alone, bad == rows.end() ? nullptr : &*bad);
  } else {
    print_rows(rows);
    if (found.alone > 0)
      print("%zu tensors are in the first model alone, or have another shape in the second\n", found.alone);
    if (bad == rows.end()) print("%zu tensors agree\n", rows.size());
    else
      print("the first that does not: %s, made by node %s (%s): %.2f%% of its range, SQNR %.1f dB\n", bad->tensor,
            bad->node, bad->op, 100 * bad->of_range, bad->sqnr);
  }
  return bad == rows.end() ? 0 : 1;
}

}  // namespace

void register_diff(CLI::App &app, Action &action) {
  auto flags = std::make_shared<DiffFlags>();
  CLI::App *command = app.add_subcommand(
      "diff", "Compare two backends or models layer by layer; exit status 1 when a layer differs too much");
  command->add_option("model", flags->one, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
      ->required()
      ->type_name("MODEL");
  command->add_option("other", flags->two, "The one to compare with (default: the same)")->type_name("MODEL");
  flags->first.add_to(*command);
  command
      ->add_option("--backend-b", flags->backend,
                   "Backend of the second (default: that of its container, or of the first)")
      ->type_name("ID");
  command
      ->add_option("--option-b", flags->options, "Option for the second alone, key=value; may be given several times")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_option("--input,-i", flags->inputs, "The file of an input: .npy, .pb, raw bytes, PNG, JPEG")
      ->type_name("[NAME=]FILE")
      ->allow_extra_args(false);
  command->add_flag("--random", flags->random, "Fill inputs that no file is given for with made-up values");
  flags->image.add_to(*command);
  command->add_option("--tolerance", flags->tolerance, "Part of a tensor's range that it may differ by")
      ->capture_default_str()
      ->type_name("NUMBER")
      ->check(number(Sign::NotNegative));
  command->add_option("--sqnr", flags->sqnr, "Signal to noise that a tensor must have, in dB")
      ->type_name("NUMBER")
      ->check(number(Sign::Any))
      ->capture_default_str();
  command->add_flag("--json", flags->as_json, "Print the report as JSON");
  command->callback([&action, flags] { action = [flags] { return diff(*flags); }; });
}

}  // namespace tools
