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

namespace {

bool ends_with(const std::string &text, std::string_view ending) {
  return text.size() > ending.size() && text.compare(text.size() - ending.size(), ending.size(), ending) == 0;
}

bool is_same_file(const std::string &a, const std::string &b) {
  struct stat one = {}, two = {};
  return stat(a.c_str(), &one) == 0 && stat(b.c_str(), &two) == 0 && one.st_dev == two.st_dev &&
         one.st_ino == two.st_ino;
}

}  // namespace

void register_export(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    std::string model, out;
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
  flags->session.add_to(*command, false);
  command->callback([&action, flags] {
    action = [flags] {
      if (!ends_with(flags->out, ".onnx") && !ends_with(flags->out, ".json"))
        throw UsageError("-o: found '" + flags->out + "', expected a name that ends in .onnx or .json");
      if (is_same_file(flags->model, flags->out))
        throw UsageError("exporting '" + flags->model + "' would overwrite it", "name another file with -o");
      const qr::Runtime runtime = flags->session.runtime();
      const qr::Options options = flags->session.make_options(runtime);
      const qr::Model model(runtime, flags->model, &options);
      const nlohmann::json report = nlohmann::json::parse(check_and_export(model, flags->session, runtime, flags->out));
      struct stat made = {};
      stat(flags->out.c_str(), &made);
      print("%s: %s, %zu nodes\n", flags->out.c_str(), bytes_text(static_cast<uint64_t>(made.st_size)).c_str(),
            report["nodes"].size());
      return 0;
    };
  });
}

}  // namespace tools
