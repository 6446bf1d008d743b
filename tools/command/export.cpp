// SPDX-License-Identifier: Apache-2.0
// quarry export: the graph as Quarry has it after its passes, as ONNX for other programs.

#include "base/os/file.h"
#include "tools/console/command.h"
#include "tools/console/interrupt.h"
#include "tools/console/progress.h"

namespace tools {
namespace {

struct ExportFlags {
  SessionFlags session;
  std::string model, out;
  bool external = false, json = false;
};

void check_flags(const ExportFlags &flags, bool piped) {
  if (flags.json && !piped)
    throw UsageError("--json: found -o '" + flags.out + "', expected -o -", "its name says what it is");
  if (piped && flags.external)
    throw UsageError("--external-data: found -o -, expected a file: the constants lie beside it");
  if (!piped && (flags.out.size() <= 5 || (!flags.out.ends_with(".onnx") && !flags.out.ends_with(".json"))))
    throw UsageError("-o: found '" + flags.out + "', expected a name that ends in .onnx or .json");
  if (flags.external && !flags.out.ends_with(".onnx"))
    throw UsageError("--external-data: found -o '" + flags.out + "', expected a name that ends in .onnx");
}

int export_model(const ExportFlags &flags) {
  const bool piped = is_standard_output(flags.out);
  check_flags(flags, piped);
  const std::string data = flags.out + ".data";
  quarry::os::FileInfo before{};
  quarry::os::get_info(data.c_str(), &before);
  const qr::Runtime runtime = flags.session.runtime();
  const qr::Options options = flags.session.make_options(runtime);
  const qr::Model model(runtime, model_source(flags.model), &options);
  const qr::Target target =
      piped ? qr::Target::in_file(standard_output_for("a graph"), flags.json ? "graph.json" : "graph.onnx")
            : qr::Target(flags.external ? data : flags.out);
  ProgressLine progress;
  {
    qr::Signal signal(runtime);
    const Interruptible interruptible([&signal] { signal.abort(); });
    model.export_to(target, &options, &signal,
                    [&](uint64_t done, uint64_t total, std::string_view what) { progress.show(done, total, what); });
  }
  progress.clear();
  if (piped) return 0;
  quarry::os::FileInfo made{};
  quarry::os::get_info(flags.out.c_str(), &made);
  print("%s: %s\n", flags.out, bytes_text(made.size));
  quarry::os::FileInfo beside{};  // a new one is another file than the one before
  if (quarry::os::get_info(data.c_str(), &beside) && beside.number != before.number)
    print("%s: %s\n", data, bytes_text(beside.size));
  return 0;
}

}  // namespace

void register_export(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App *command = app.add_subcommand(
      "export", "Write a model's graph, as it is after the passes that all backends share, as ONNX or as JSON");
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--output,-o", flags->out,
                   "The file to write: .onnx, or .json (docs/formats/graph.md); - is standard output")
      ->required()
      ->type_name("FILE|-");
  command->add_flag("--json", flags->json, "With -o -: write JSON, not ONNX");
  command->add_flag(
      "--external-data", flags->external,
      "Write the constants to a file beside the model, its name with .data behind it (as is done by itself "
      "where they are more than 2 GB)");
  flags->session.add_to(*command, false);
  command->callback([&action, flags] { action = [flags] { return export_model(*flags); }; });
}

}  // namespace tools
