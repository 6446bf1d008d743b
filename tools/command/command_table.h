// SPDX-License-Identifier: Apache-2.0
// What the program's help says, as plain rows: completion scripts and manual pages are written from these, and from
// nothing else.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

namespace tools {

struct FlagRow {
  std::vector<std::string> short_names, long_names;  // without dashes; none of a positional
  std::string positional;                            // "model", "files"
  std::string value;                                 // "FILE", "INT"; empty: takes none
  std::vector<std::string> choices;                  // where the values are few
  std::string limits;                                // "0 to 1024"
  std::string preset;                                // the value where it is not given
  std::string help, group;
  bool required = false, repeats = false;
  // Not for a flag that may stand alone: --profile, --profile=FILE.
  bool value_follows = false;

  // What a shell can offer for its value.
  enum class Values { Any, Choices, Files, Folders, Backends, OptionKeys };
  Values values() const;
};

struct CommandRow {
  std::string name, help, footer;
  std::vector<FlagRow> flags, positionals;
};

struct ProgramTable {
  CommandRow program;
  std::vector<CommandRow> commands;  // without hidden ones
};

ProgramTable command_table(const CLI::App &app);

// For "bash", "zsh" or "fish". Ids of backends and keys of options are asked of the program when they are needed:
// `quarry words backends`, `quarry words keys`.
std::string completion_script(const ProgramTable &table, const std::string &shell);
// "quarry.1", or "quarry-run.1" for a command, as groff's man macros.
std::string manual_page(const ProgramTable &table, const std::string &command);

}  // namespace tools
