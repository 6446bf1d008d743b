// SPDX-License-Identifier: Apache-2.0
// The `quarry` program: one subcommand a file, all of them on the public C ABI alone.
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "command.h"
#include "interrupt.h"

namespace tools {
namespace {

// A word that is no subcommand, or a flag that the subcommand does not have.
void check_words(const CLI::App &app, int argc, char **argv) {
  std::vector<std::string> commands;  // those that the help tells of
  for (const CLI::App *one : app.get_subcommands([](const CLI::App *) { return true; })) {
    if (argc < 2 || argv[1][0] == '-' || one->get_name() == argv[1]) return;
    if (!one->get_group().empty()) commands.push_back(one->get_name());
  }
  const std::string near = did_you_mean(argv[1], commands);
  throw UsageError(std::string("found '") + argv[1] + "', expected a subcommand: " + CLI::detail::join(commands, ", "),
                   near.empty() ? "`quarry --help` tells what each does" : near);
}

// The nearest flag for the first one that nobody took.
std::string flag_hint(const CLI::App &app) {
  for (const CLI::App *command : app.get_subcommands()) {
    std::vector<std::string> flags;
    for (const CLI::Option *option : command->get_options())
      for (const std::string &name : option->get_lnames()) flags.push_back("--" + name);
    for (const std::string &rest : command->remaining(true))
      if (rest.rfind("--", 0) == 0) return did_you_mean(rest.substr(0, rest.find('=')), flags);
  }
  return "";
}

int run_program(int argc, char **argv) {
  CLI::App app{"Quarry runs neural networks: one model file, the backend chosen when it is deployed.", "quarry"};
  app.set_version_flag("--version", std::string("quarry ") + qr_version());
  app.require_subcommand(1);
  app.footer(
      "`quarry COMMAND --help` tells of a command. Exit status: 0 done, 1 the answer is no, 2 wrong use, 3 an error.");
  Action action;
  register_run(app, action);
  register_compile(app, action);
  register_check(app, action);
  register_cut(app, action);
  register_export(app, action);
  register_view(app, action);
  register_inspect(app, action);
  register_verify(app, action);
  register_conform(app, action);
  register_diff(app, action);
  register_bench(app, action);
  register_doctor(app, action);
  register_options(app, action);
  register_ops(app, action);
  register_completion(app, action);
  check_words(app, argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    std::ostringstream out, wrong;
    const int status = app.exit(error, out, wrong);
    print_text(out.str());
    std::fputs(wrong.str().c_str(), stderr);
    if (status == 0) return 0;
    if (const std::string near = flag_hint(app); !near.empty()) std::fprintf(stderr, "  hint: %s\n", near.c_str());
    return 2;
  }
  return action();
}

// The exit status of `body`, or of what it throws.
template <class Body>
int status_of(Body body) {
  try {
    return body();
  } catch (const qr::Error &error) {
    if (error.code() == QR_CANCELLED && interrupted()) return 3;  // told below
    return tell_failure();
  } catch (...) {
    return tell_failure();
  }
}

}  // namespace
}  // namespace tools

int main(int argc, char **argv) {
  tools::occupy_standard_descriptors();
  tools::keep_standard_output();
  int status = tools::status_of([&] { return tools::run_program(argc, argv); });
  if (status <= 1)  // otherwise the reader was told already that this is not the whole
    status = tools::status_of([&] {
      tools::finish_output();
      return status;
    });
  if (tools::interrupted()) std::fprintf(stderr, "quarry: stopped by %s\n", tools::interrupt_name());
  tools::end_by_interrupt();
  return status;
}
