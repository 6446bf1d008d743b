// SPDX-License-Identifier: Apache-2.0
// quarry completion: what a shell reads to complete this program's words; quarry manual: pages for man. Both are
// written from the help. quarry words: what a completion asks for.

#include "tools/command/command_table.h"
#include "tools/console/command.h"
#include "tools/console/usage.h"

namespace tools {
namespace {

int print_words(const std::string &kind) {
  qr::Runtime runtime;
  const uint64_t backends = runtime.scan();
  if (kind == "backends") {
    for (uint64_t i = 0; i < backends; ++i)
      if (const qr_backend_info info = runtime.backend(i); info.usable)
        print("%.*s\n", static_cast<int>(info.id.size), info.id.data);
    return 0;
  }
  for (uint64_t i = 0;; ++i) {
    qr_option_info info = QR_OPTION_INFO_INIT;
    if (!qr::Status(qr_runtime_option(runtime.get(), i, &info)).ok()) return 0;
    print("%.*s=\n", static_cast<int>(info.key.size), info.key.data);
  }
}

int write_manual(const ProgramTable &table, const std::string &command, const std::string &folder) {
  if (folder.empty()) {
    print_text(manual_page(table, command));
    return 0;
  }
  write_text(folder + "/quarry.1", manual_page(table, ""));
  for (const CommandRow &one : table.commands)
    write_text(folder + "/quarry-" + one.name + ".1", manual_page(table, one.name));
  return 0;
}

}  // namespace

void register_completion(CLI::App &app, Action &action) {
  auto shell = std::make_shared<std::string>();
  CLI::App *completion =
      app.add_subcommand("completion", "Print what bash, zsh or fish reads to complete this program's words");
  completion->add_option("shell", *shell, "The shell")
      ->required()
      ->type_name("SHELL")
      ->check(one_of({"bash", "zsh", "fish"}));
  completion->footer(
      "Installed packages have it in place. Else: `source <(quarry completion bash)` in ~/.bashrc, the same with zsh "
      "in "
      "~/.zshrc behind compinit, `quarry completion fish > ~/.config/fish/completions/quarry.fish`.");
  completion->callback([&app, &action, shell] {
    action = [&app, shell] { return print_text(completion_script(command_table(app), *shell)), 0; };
  });

  struct Pages {
    std::string command, folder;
  };
  auto pages = std::make_shared<Pages>();
  CLI::App *manual = app.add_subcommand("manual", "Print the manual page of the program or of a command")->group("");
  manual->add_option("command", pages->command, "The command (default: the program)")
      ->check([&app](const std::string &name) {
        for (const CommandRow &one : command_table(app).commands)
          if (one.name == name) return std::string();
        return "there is no command '" + name + "'";
      });
  manual->add_option("--all", pages->folder, "Write all pages into a folder")->type_name("DIR");
  manual->callback([&app, &action, pages] {
    action = [&app, pages] { return write_manual(command_table(app), pages->command, pages->folder); };
  });

  auto kind = std::make_shared<std::string>();
  CLI::App *words = app.add_subcommand("words", "Print the ids of usable backends, or the keys of options")->group("");
  words->add_option("kind", *kind, "backends or keys")->required()->check(CLI::IsMember({"backends", "keys"}));
  words->callback([&action, kind] { action = [kind] { return print_words(*kind); }; });
}

}  // namespace tools
