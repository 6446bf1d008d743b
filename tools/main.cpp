// SPDX-License-Identifier: Apache-2.0
// The `quarry` program: one subcommand a file, all of them on the public C ABI alone.
#include <cstdio>

#include "command.h"

int main(int argc, char **argv) {
  CLI::App app{"Quarry runs neural networks: one model file, the backend chosen when it is deployed.", "quarry"};
  app.set_version_flag("--version", std::string("quarry ") + qr_version());
  app.require_subcommand(1);
  app.footer(
      "`quarry COMMAND --help` tells of a command. Exit status: 0 done, 1 the answer is no, 2 wrong use, 3 an error.");
  tools::Action action;
  tools::register_run(app, action);
  tools::register_compile(app, action);
  tools::register_inspect(app, action);
  tools::register_verify(app, action);
  tools::register_conform(app, action);
  tools::register_bench(app, action);
  tools::register_doctor(app, action);
  tools::register_options(app, action);
  tools::register_ops(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    const int status = app.exit(error);
    return status == 0 ? 0 : 2;
  }
  try {
    return action();
  } catch (const qr::Error &error) {
    tools::print_error(error);
    return 3;
  } catch (const tools::UsageError &error) {
    std::fprintf(stderr, "quarry: %s\n", error.what());
    if (!error.hint.empty()) std::fprintf(stderr, "  hint: %s\n", error.hint.c_str());
    return 2;
  } catch (const std::exception &error) {
    std::fprintf(stderr, "quarry: %s\n", error.what());
    return 3;
  }
}
