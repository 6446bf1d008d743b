// SPDX-License-Identifier: Apache-2.0
// quarry inspect: what a model says of itself, readable or as JSON (docs/formats/inspect.md).
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/conformance/worker_pool.h"
#include "tools/console/command.h"
#include "tools/report/networks.h"

namespace tools {
namespace {

using Json = nlohmann::json;

std::string dims_text(const Json &dims) {
  std::string out = "[";
  for (const Json &dim : dims)
    out += (out.size() > 1 ? "," : "") + (dim.is_number()   ? dim.dump()
                                          : dim.is_string() ? dim.get<std::string>()
                                                            : "?");
  return out + "]";
}

// What the names of inputs begin with that adapters fill, two for each weight (qr_adapter).
constexpr std::string_view kAdapterInput = "quarry.lora_";

void print_tensors(const char *title, const Json &tensors) {
  print("%s\n", title);
  for (const Json &tensor : tensors) {
    if (tensor.value("name", "").starts_with(kAdapterInput)) continue;
    print("  %s %s%s", tensor.value("name", ""), tensor.value("dtype", ""), dims_text(tensor["dims"]));
    if (tensor.contains("quantization")) {
      const Json &quantization = tensor["quantization"];
      const size_t entries = quantization["scales"].size();
      if (entries == 1)
        print(", (q - %s) * %s", quantization["zero_points"][0].dump(), quantization["scales"][0].dump());
      else print(", quantised with %zu scales", entries);
    }
    print("\n");
  }
}

void print_operators(const Json &operators) {
  std::string line = "   ";
  for (const auto &[name, count] : operators.items()) {
    const std::string word = " " + name + " " + count.dump();
    if (line.size() + word.size() > 110) print("%s\n", line), line = "   ";
    line += word;
  }
  if (line.size() > 3) print("%s\n", line);
}

void print_pairs(const char *title, const Json &pairs) {
  if (pairs.empty()) return;
  print("%s\n", title);
  for (const auto &[key, value] : pairs.items())
    print("  %s = %s\n", key, value.is_string() ? value.get<std::string>().c_str() : value.dump().c_str());
}

// Pairs that a session can keep (the option state).
void print_state(const Json &info) {
  if (!info.contains("state")) return;
  print("state (-O state=auto)\n");
  for (const Json &pair : info["state"])
    print("  %s -> %s, %s\n", pair.value("input", ""), pair.value("output", ""),
          pair["axis"].is_null() ? std::string("keeps its size") : "grows along axis " + pair["axis"].dump());
}

// Weights that adapters may change (the option adapter.targets).
void print_adapters(const Json &info) {
  const std::string beginning = std::string(kAdapterInput) + "A.";
  bool any = false;
  for (const Json &input : info["inputs"]) {
    const std::string name = input.value("name", "");
    if (!name.starts_with(beginning)) continue;
    const Json &dims = input["dims"];
    const bool by_point = dims.size() == 4;
    if (!std::exchange(any, true)) print("weights that adapters may change\n");
    print("  %s, rank at most %s\n", name.substr(beginning.size()), dims[by_point ? 0 : 1].dump());
  }
}

void print_onnx(const Json &info) {
  const Json &onnx = info["onnx"];
  print("  producer %s, IR version %s, opsets %s\n", onnx.value("producer", "?"),
        onnx.value("ir_version", Json()).dump(), onnx.value("opsets", Json()).dump());
  if (onnx.contains("parameters")) print("  %s parameters\n", onnx["parameters"].dump());
  print_tensors("inputs", info["inputs"]);
  print_tensors("outputs", info["outputs"]);
  print_state(info);
  print("operators\n");
  print_operators(onnx.value("operators", Json::object()));
  print_pairs("metadata", onnx.value("metadata", Json::object()));
}

// What a backend says of its own: values on one line, and what has parts below it.
void print_about(const Json &about, int indent) {
  std::string line;
  for (const auto &[key, value] : about.items()) {
    const bool has_parts = value.is_object() || (value.is_array() && !value.empty() && value[0].is_object());
    if (!has_parts)
      line += (line.empty() ? "" : ", ") + key + " " + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  print("%*s%s\n", indent, "", line);
  for (const auto &[key, value] : about.items()) {
    if (value.is_object()) {
      print("%*s%s\n", indent, "", key);
      print_about(value, indent + 2);
    } else if (value.is_array() && !value.empty() && value[0].is_object()) {
      print("%*s%s\n", indent, "", key);
      for (const Json &part : value) print_about(part, indent + 2);
    }
  }
}

void print_container(const Json &info) {
  print("  container format %s, written by %s%s%s\n", info.value("format", "?"), info.value("producer", "?"),
        info.value("source", "").empty() ? "" : " from ", info.value("source", ""));
  print_tensors("inputs", info["inputs"]);
  print_tensors("outputs", info["outputs"]);
  print_state(info);
  print_adapters(info);
  print("graphs\n");
  for (const Json &graph : info["graphs"]) {
    std::string dims;
    for (const Json &one : graph["input_dims"]) dims += " " + dims_text(one);
    print("  %s%s inputs%s", graph.value("name", ""), graph.value("name", "").empty() ? "main:" : ":", dims);
    if (graph.value("kept", false))
      print(", %s nodes, graph kept\n", graph["nodes"].dump()), print_operators(graph["operators"]);
    else print(", graph not kept\n");
  }
  print("contexts\n");
  for (const Json &context : info["contexts"]) {
    print("  %s %s for %s, blob version %s\n", context.value("backend", "?"), context.value("backend_version", ""),
          context.value("target", "?"), context["blob_version"].dump());
    for (const Json &program : context["programs"]) {
      const Json &memory = program["memory"];
      std::string graphs;
      size_t others = 0;  // of other networks
      for (const Json &graph : program["graphs"])
        if (graph.is_null()) ++others;
        else graphs += (graphs.empty() ? "graph " : ", ") + graph.dump();
      if (others > 0) graphs += " beside " + std::to_string(others) + " of other networks";
      print("    %s: weights %s, arena %s, inputs and outputs %s\n", graphs,
            bytes_text(memory["weights_bytes"].get<uint64_t>()), bytes_text(memory["arena_bytes"].get<uint64_t>()),
            bytes_text(memory["io_bytes"].get<uint64_t>()));
    }
    for (const Json &program : context["programs"])
      if (program.contains("about")) print_about(program["about"], 4);
    for (const auto &[key, value] : context["options"].items()) print("    %s = %s\n", key, value.get<std::string>());
  }
  print("segments\n  %-10s %14s %14s %6s  %-16s %s\n", "kind", "offset", "size", "align", "xxh3", "name");
  for (const Json &segment : info["segments"])
    print("  %-10s %14s %14s %6s  %-16s %s\n", segment.value("kind", ""), segment["offset"].dump(),
          segment["size"].dump(), segment["align"].dump(), segment.value("xxh3", ""), segment.value("name", ""));
  print_pairs("created with", info.value("created_by", Json::object()));
  print_pairs("metadata", info.value("metadata", Json::object()));
}

void print_context(const Json &info) {
  print_tensors("inputs", info["inputs"]);
  print_tensors("outputs", info["outputs"]);
  print_state(info);
  print("context\n");
  print_about(info["about"], 2);
}

// A file that is neither .onnx nor .qrm may be a context of one of the backends: they are asked in turn, where none is
// named.
qr::Model open_model(qr::Runtime &runtime, const SessionFlags &flags, const std::string &path) {
  constexpr std::string_view kUnknownFormat = "QR-F0006";
  qr::Options options = flags.make_options(runtime);
  if (std::none_of(flags.options.begin(), flags.options.end(),
                   [](const std::string &one) { return one.rfind("model=", 0) == 0; }))
    options.set("model", "*");  // of several networks all
  qr::Result<qr::Model> opened = qr::Model::try_open(runtime, model_source(path), &options);
  if (opened.ok() || std::string_view(opened.status().id()) != kUnknownFormat || !flags.backend.empty())
    return std::move(opened).value();
  const uint64_t count = runtime.scan();
  for (uint64_t i = 0; i < count; ++i) {
    qr::Options with = flags.make_options(runtime);
    with.set("backend", qr::from_c(runtime.backend(i).id));
    with.set("htp.foreign_context", "trust");  // it is looked at here and not run
    qr::Result<qr::Model> known = qr::Model::try_open(runtime, model_source(path), &with);
    if (known.ok() || std::string_view(known.status().id()) != kUnknownFormat) return std::move(known).value();
  }
  return std::move(opened).value();
}

// What a model says of itself, or the exit status of what was reported instead. In a process of its own: a library that
// reads a damaged context binary may crash.
int inspect(const SessionFlags &flags, const std::string &path, Json *info) {
  constexpr double kTimeoutS = 600;
  std::string answer;
  bool crashed = false;
  run_in_workers(
      1, 1, kTimeoutS,
      [&](uint64_t) {
        try {
          qr::Runtime runtime = flags.runtime();
          return Json::parse(open_model(runtime, flags, path).inspect())
              .dump(-1, ' ', false, Json::error_handler_t::replace);
        } catch (...) {
          return std::to_string(report_failure());
        }
      },
      [&](uint64_t, const std::string &text, bool died) { answer = text, crashed = died; }, [] { return false; });
  if (crashed)
    throw Failure("'" + path + "' cannot be inspected: what reads it was " + answer,
                  "the file is damaged, or a backend's library has a fault");
  *info = Json::parse(answer);
  return info->is_object() ? 0 : info->get<int>();
}

}  // namespace

void register_inspect(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    std::string model;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command =
      app.add_subcommand("inspect", "Print what a model says of itself: inputs, outputs, graphs, contexts, segments");
  command
      ->add_option("model", flags->model,
                   "Model: .onnx or .qrm, or a context binary that a backend knows; - is standard input")
      ->required()
      ->type_name("MODEL");
  flags->session.add_to(*command, false);
  command->add_flag("--json", flags->json, "Print it as JSON (docs/formats/inspect.md)");
  command->callback([&action, flags] {
    action = [flags] {
      Json info;
      if (const int failed = inspect(flags->session, flags->model, &info)) return failed;
      if (flags->json) {
        print("%s\n", info.dump(2, ' ', false, Json::error_handler_t::replace));
        return 0;
      }
      print("%s: %s, %s\n", flags->model, info.value("kind", "?"), bytes_text(info.value("file_bytes", uint64_t{0})));
      if (info.value("kind", "") == "onnx") print_onnx(info);
      else if (info.value("kind", "") == "context") print_context(info);
      else print_container(info);
      if (!info.contains("networks")) return 0;
      print("networks (-O model=NAME)\n");
      print_networks(flags->session.runtime(), flags->model, info["networks"].get<std::vector<std::string>>());
      return 0;
    };
  });
}

}  // namespace tools
