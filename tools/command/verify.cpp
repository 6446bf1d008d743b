// SPDX-License-Identifier: Apache-2.0
// quarry verify: reads every byte of containers and checks every sum and rule.
#include <cstdio>

#include "tools/console/command.h"

namespace tools {
namespace {

struct VerifyFlags {
  std::vector<std::string> files;
  bool quiet = false;
};

int verify(const VerifyFlags &flags) {
  const qr::Runtime runtime;
  int bad = 0;
  for (const std::string &file : flags.files) {
    try {
      qr::Options whole(runtime);
      whole.set("model", "*");  // of several networks all
      qr::Model(runtime, model_source(file), &whole).verify();
      if (!flags.quiet) print("%s: sound\n", file);
    } catch (const qr::Error &error) {
      ++bad;
      std::fprintf(stderr, "%s: ", file.c_str());
      print_error(error);
    }
  }
  return bad ? 1 : 0;
}

}  // namespace

void register_verify(CLI::App &app, Action &action) {
  auto flags = std::make_shared<VerifyFlags>();
  CLI::App *command =
      app.add_subcommand("verify", "Read every byte of a .qrm (or check an .onnx) and say whether it is sound");
  command->add_option("files", flags->files, "Models: .qrm or .onnx; - is standard input")
      ->required()
      ->type_name("FILE");
  command->add_flag("--quiet,-q", flags->quiet, "Print nothing for sound files");
  command->callback([&action, flags] { action = [flags] { return verify(*flags); }; });
}

}  // namespace tools
