// SPDX-License-Identifier: Apache-2.0
// quarry export: the graph as Quarry has it after its passes, as ONNX for other programs.
#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "graph_export.h"

namespace tools {

std::string check_and_export(const qr::Model &model, const SessionFlags &flags, const qr::Runtime &runtime,
                             const std::string &path) {
  qr::Options options = flags.make_options(runtime);
  options.set("graph.export", path);
  return model.check_nodes(options);
}

void register_export(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    std::string model, out;
    bool external = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "export", "Write a model's graph, as it is after the passes that all backends share, as ONNX or as JSON");
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph")
      ->required()
      ->type_name("MODEL");
  command->add_option("--output,-o", flags->out, "The file to write: .onnx, or .json (docs/formats/graph.md)")
      ->required()
      ->type_name("FILE");
  command->add_flag(
      "--external-data", flags->external,
      "Write the constants to a file beside the model, its name with .data behind it (as is done by itself "
      "where they are more than 2 GB)");
  flags->session.add_to(*command, false);
  command->callback([&action, flags] {
    action = [flags] {
      if (flags->out.size() <= 5 || (!flags->out.ends_with(".onnx") && !flags->out.ends_with(".json")))
        throw UsageError("-o: found '" + flags->out + "', expected a name that ends in .onnx or .json");
      const std::string data = flags->out + ".data";
      if (flags->external && !flags->out.ends_with(".onnx"))
        throw UsageError("--external-data: found -o '" + flags->out + "', expected a name that ends in .onnx");
      struct stat before = {};
      stat(data.c_str(), &before);
      const qr::Runtime runtime = flags->session.runtime();
      const qr::Options options = flags->session.make_options(runtime);
      const qr::Model model(runtime, flags->model, &options);
      const nlohmann::json report =
          nlohmann::json::parse(check_and_export(model, flags->session, runtime, flags->external ? data : flags->out));
      struct stat made = {};
      stat(flags->out.c_str(), &made);
      print("%s: %s, %zu nodes\n", flags->out.c_str(), bytes_text(static_cast<uint64_t>(made.st_size)).c_str(),
            report["nodes"].size());
      struct stat beside = {};  // a new one is another file than the one before
      if (stat(data.c_str(), &beside) == 0 && beside.st_ino != before.st_ino)
        print("%s: %s\n", data.c_str(), bytes_text(static_cast<uint64_t>(beside.st_size)).c_str());
      return 0;
    };
  });
}

}  // namespace tools
