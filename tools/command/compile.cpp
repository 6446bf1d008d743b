// SPDX-License-Identifier: Apache-2.0
// quarry compile: a model into a .qrm container for one backend; with --check, only the question whether it would.

#include <cstdio>
#include <nlohmann/json.hpp>
#include <set>

#include "base/os/file.h"
#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"
#include "tools/input/tensor_file.h"
#include "tools/report/profile_output.h"

namespace tools {
namespace {

struct CompileFlags {
  SessionFlags session;
  ProfileFlags profile;
  std::string model, out;
  std::vector<std::string> metadata;
  bool check = false, json = false;
};

// The segments that a program or a graph says are its.
void add_segments(const nlohmann::json &part, std::set<size_t> &segments) {
  for (const nlohmann::json &index : part.value("segments", nlohmann::json::array()))
    segments.insert(index.get<size_t>());
  if (part.contains("segment")) segments.insert(part["segment"].get<size_t>());
}

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
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
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
  command->callback([&action, flags] { action = [flags] { return compile(*flags); }; });
}

}  // namespace tools
