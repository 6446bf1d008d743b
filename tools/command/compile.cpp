// SPDX-License-Identifier: Apache-2.0
// quarry compile: a model into a .qrm container for one backend; with --check, only the question whether it would.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/os/file.h"
#include "base/os/path.h"
#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"
#include "tools/input/tensor_file.h"
#include "tools/report/networks.h"
#include "tools/report/profile_output.h"

namespace tools {
namespace {

struct CompileFlags {
  SessionFlags session;
  ProfileFlags profile;
  std::string model, out;
  std::vector<std::string> models;  // several: networks of one container
  std::vector<std::string> metadata;
  bool check = false, json = false;
};

// What the container is made of, where it is twice the model: who ships it may leave the graph out.
void print_contents(const CompileFlags &flags, const nlohmann::json &info) {
  quarry::os::FileInfo model;
  if (!quarry::os::get_info(flags.model.c_str(), &model) || model.kind != quarry::os::FileKind::Regular) return;
  if (info.value("file_bytes", uint64_t{0}) < 2 * model.size) return;
  const nlohmann::json none = nlohmann::json::array(), segments = info.value("segments", none);
  std::set<size_t> programs, graphs;
  for (const nlohmann::json &context : info.value("contexts", none))
    for (const nlohmann::json &program : context.value("programs", none)) add_segments(program, programs);
  for (const nlohmann::json &graph : info.value("graphs", none))
    if (graph.value("kept", false)) add_segments(graph, graphs);
  const auto bytes_of = [&](const std::set<size_t> &part) {
    uint64_t bytes = 0;
    for (const size_t index : part)
      if (index < segments.size()) bytes += segments[index].value("size", uint64_t{0});
    return bytes_text(bytes);
  };
  if (graphs.empty()) return;
  print(
      "  %s are the program, %s the portable graph, from which it is compiled again for other machines and backends;\n"
      "  without it: -O container.keep_graph=0 (the model has %s)\n",
      bytes_of(programs), bytes_of(graphs), bytes_text(model.size));
}

// A name that ends in .onnx is for ONNX Runtime, which backends of one kind write; who meant another thing is asked.
void check_name(const CompileFlags &flags, const qr::Error &error) {
  if (error.id() != "QR-B0007" || !flags.out.ends_with(".onnx")) return;
  const std::string stem = flags.out.substr(0, flags.out.size() - 5);
  throw UsageError(
      "-o: found '" + flags.out + "', which is for ONNX Runtime and which this backend cannot write, " +
          "expected a name that ends in .qrm",
      "a container: -o " + stem + ".qrm; the graph as ONNX: quarry export " + flags.model + " -o " + flags.out);
}

// "NAME=FILE", or a file, whose name without its ending is then the network's.
struct NamedModel {
  std::string name, file;
  std::vector<std::string> shapes;
};
NamedModel named_model(const std::string &word) {
  quarry::os::FileInfo info;
  const size_t equals = word.find('=');
  if (equals != std::string::npos && equals > 0 && !quarry::os::get_info(word.c_str(), &info))
    return {word.substr(0, equals), word.substr(equals + 1), {}};
  const std::string stem = name_beside(word, "");
  const size_t slash = quarry::os::last_separator(stem);
  return {slash == std::string::npos ? stem : stem.substr(slash + 1), word, {}};
}

// "NAME:SHAPES" is for that network, others are for all of them.
std::vector<NamedModel> named_models(const CompileFlags &flags) {
  std::vector<NamedModel> out;
  for (const std::string &word : flags.models) out.push_back(named_model(word));
  for (const std::string &given : flags.session.shapes) {
    const size_t colon = given.find(':');
    const std::string name = colon == std::string::npos ? "" : given.substr(0, colon);
    bool is_of_one = false;
    for (NamedModel &one : out)
      if (one.name == name) one.shapes.push_back(given.substr(colon + 1)), is_of_one = true;
    if (!is_of_one)
      for (NamedModel &one : out) one.shapes.push_back(given);
  }
  return out;
}

int compile_several(const CompileFlags &flags) {
  if (flags.out.empty()) {
    const std::string &last = flags.models.back();
    quarry::os::FileInfo info;
    const bool is_there = quarry::os::get_info(last.c_str(), &info);
    throw UsageError("found several models and no name for what becomes of them, expected -o FILE",
                     is_there ? "name the result: -o FILE" : "to write to it: -o " + last);
  }
  if (flags.check || is_standard_output(flags.out))
    throw UsageError(std::string(flags.check ? "--check" : "-o -") + ": found several models, expected one");
  const qr::Runtime runtime = flags.session.runtime();
  qr::Options options = flags.session.make_options(runtime, SessionFlags::Shapes::None);
  for (const std::string &text : flags.metadata) {
    const auto [key, value] = split_pair(text, "--metadata");
    options.set("metadata." + key, value);
  }
  const std::vector<NamedModel> named = named_models(flags);
  std::vector<qr::Model> models;
  std::vector<qr::Network> networks;
  for (const NamedModel &one : named) {
    qr::Options own = options.copy();
    for (const std::string &shape : one.shapes) own.set("shape", shape);
    models.emplace_back(runtime, model_source(one.file), &own);
  }
  for (size_t i = 0; i < named.size(); ++i) networks.push_back({&models[i], named[i].name});
  ProgressLine progress;
  qr::Profile profile(runtime);
  {
    qr::Signal signal(runtime);
    const Interruptible interruptible([&signal] { signal.abort(); });
    try {
      qr::compile_networks(
          networks, qr::Target(flags.out), &options, &signal,
          [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); },
          flags.profile.wanted() ? &profile : nullptr);
    } catch (const qr::Error &error) {
      progress.clear();
      check_name(flags, error);
      if (error.code() == QR_CANCELLED) end_by_interrupt();
      throw;
    }
  }
  progress.clear();
  if (flags.out.ends_with(".onnx")) {
    print("%s_1.onnx to _%zu and on for more shapes, in the order of the models, with their binary\n",
          flags.out.substr(0, flags.out.size() - 5), named.size());
  } else {
    qr::Options whole(runtime);
    whole.set("model", "*");
    const nlohmann::json info = nlohmann::json::parse(qr::Model(runtime, model_source(flags.out), &whole).inspect());
    print("%s: %s, %zu networks (-O model=NAME)\n", flags.out, bytes_text(info.value("file_bytes", uint64_t{0})),
          named.size());
    print_networks(runtime, flags.out, info["networks"].get<std::vector<std::string>>());
  }
  flags.profile.tell(profile, "profile of runs:", true);
  return 0;
}

int compile(const CompileFlags &flags) {
  flags.profile.check();
  if (flags.check && flags.profile.wanted())
    throw UsageError("--profile: found --check, which compiles nothing, expected one of the two");
  if (is_standard_output(flags.out) && flags.profile.only_tables())
    throw UsageError("--profile: found -o -, which leaves no room for tables, expected --profile=FILE");
  const qr::Runtime runtime = flags.session.runtime();
  qr::Options options = flags.session.make_options(runtime);
  for (const std::string &text : flags.metadata) {
    const auto [key, value] = split_pair(text, "--metadata");
    options.set("metadata." + key, value);
  }
  const qr::Model model(runtime, model_source(flags.model), &options);
  if (flags.check) return report_check(model, options, flags.json);
  std::string out = flags.out;
  if (out.empty()) {
    out = name_beside(flags.model, ".qrm");
    if (out == flags.model)
      throw UsageError("compiling '" + flags.model + "' again would overwrite it", "name the result: -o FILE");
  }
  const bool piped = is_standard_output(out);
  const qr::Target target = piped ? qr::Target::in_file(standard_output_for("a container")) : qr::Target(out);
  ProgressLine progress;
  qr::Profile profile(runtime);
  {
    // Stopped by its signal the library leaves nothing there.
    qr::Signal signal(runtime);
    const Interruptible interruptible([&signal] { signal.abort(); });
    try {
      model.compile(
          target, &options, &signal,
          [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); },
          flags.profile.wanted() ? &profile : nullptr);
    } catch (const qr::Error &error) {
      progress.clear();
      check_name(flags, error);
      if (error.code() == QR_CANCELLED) end_by_interrupt();  // at once: to take a large model apart takes long
      throw;
    }
  }
  progress.clear();
  if (piped) {
    flags.profile.tell(profile, "profile of runs:", false);
    return 0;
  }
  const qr::Model made(runtime, model_source(out));
  const nlohmann::json info = nlohmann::json::parse(made.inspect());
  print("%s: %s", out, bytes_text(info.value("file_bytes", uint64_t{0})));
  for (const nlohmann::json &context : info.value("contexts", nlohmann::json::array()))
    print(", backend %s for %s", context.value("backend", "?"), context.value("target", "?"));
  const size_t graphs = info.value("graphs", nlohmann::json::array()).size();
  if (graphs > 0) print(", %zu graph%s", graphs, graphs == 1 ? "" : "s");
  print("\n");
  print_contents(flags, info);
  flags.profile.tell(profile, "profile of runs:", true);
  return 0;
}

}  // namespace

void register_compile(CLI::App &app, Action &action) {
  auto flags = std::make_shared<CompileFlags>();
  CLI::App *command = app.add_subcommand("compile", "Compile a model into a .qrm container for a backend");
  command
      ->add_option("model", flags->models,
                   "Model: .onnx, or a .qrm that kept its graph; - is standard input. Several, each as FILE or "
                   "NAME=FILE, become networks of one container")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option(
          "--output,-o", flags->out,
          "The container to write (default: the model's name with .qrm), or an .onnx for ONNX Runtime where the "
          "backend can (htp); - is standard output")
      ->type_name("FILE|-");
  flags->session.add_to(*command, false);
  flags->profile.add_to(*command, "when the model is compiled");
  command->add_option("--metadata", flags->metadata, "A key and value to keep in the container")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command->add_flag("--check", flags->check,
                    "Only ask the backend about every node; exit status 1 when it refuses one");
  command->add_flag("--json", flags->json, "With --check: print the report as JSON");
  command->callback([&action, flags] {
    flags->model = flags->models[0];
    action = [flags] { return flags->models.size() > 1 ? compile_several(*flags) : compile(*flags); };
  });
}

}  // namespace tools
