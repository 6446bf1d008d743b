// SPDX-License-Identifier: Apache-2.0
// Completion for bash, zsh and fish, from the rows of the help.
#include "tools/command/command_table.h"

namespace tools {
namespace {

using Values = FlagRow::Values;

// In single quotes, for every shell.
std::string in_quotes(const std::string &text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string joined(const std::vector<std::string> &words, const char *between) {
  std::string out;
  for (const std::string &word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

// The first sentence or clause: what fits beside a word in a list.
std::string brief(const std::string &help) {
  const size_t end = help.find_first_of(";(");
  std::string out = help.substr(0, end);
  while (!out.empty() && (out.back() == ' ' || out.back() == ':')) out.pop_back();
  return out;
}

std::vector<std::string> names_of(const FlagRow &flag) {
  std::vector<std::string> names;
  for (const std::string &name : flag.short_names) names.push_back("-" + name);
  for (const std::string &name : flag.long_names) names.push_back("--" + name);
  return names;
}

std::string command_names(const ProgramTable &table) {
  std::vector<std::string> names;
  for (const CommandRow &command : table.commands) names.push_back(command.name);
  return joined(names, " ");
}

std::string list_call(Values values) { return values == Values::Backends ? "words backends" : "words keys"; }

// ---- bash

std::string bash_answer(const FlagRow &flag) {
  switch (flag.values()) {
    case Values::Choices: return "COMPREPLY=($(compgen -W " + in_quotes(joined(flag.choices, " ")) + " -- \"$cur\"))";
    case Values::Files: return "_quarry_files -f";
    case Values::Folders: return "_quarry_files -d";
    case Values::Backends:
    case Values::OptionKeys: return "_quarry_ask " + list_call(flag.values());
    case Values::Any: break;
  }
  return "COMPREPLY=()";
}

void bash_command(const CommandRow &command, std::string &out) {
  std::vector<std::string> all;
  std::string answers;
  for (const FlagRow &flag : command.flags) {
    const std::vector<std::string> names = names_of(flag);
    all.insert(all.end(), names.begin(), names.end());
    if (flag.value_follows) answers += "        " + joined(names, "|") + ") " + bash_answer(flag) + "; return ;;\n";
  }
  out += "    " + command.name + ")\n      case $prev in\n" + answers +
         "      esac\n      words=" + in_quotes(joined(all, " ")) + "\n";
  out += "      rest=" +
         in_quotes(command.positionals.empty() ? "COMPREPLY=()" : bash_answer(command.positionals.back())) + " ;;\n";
}

std::string bash(const ProgramTable &table) {
  std::string out = R"sh(# bash completion of quarry, written by `quarry completion bash`
_quarry_files() {
  compopt -o filenames 2>/dev/null
  local line
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen "$1" -- "$cur")
}
_quarry_ask() {
  COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "$@" 2>/dev/null)" -- "$cur"))
  [[ $2 == keys && ${#COMPREPLY[@]} -gt 0 ]] && compopt -o nospace 2>/dev/null
}
_quarry() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= words= rest= i
  # bash takes '=' for a word: --layout = nchw
  [[ $cur == = ]] && cur=
  [[ ${COMP_WORDS[COMP_CWORD]} == = ]] || { [[ $prev == = && COMP_CWORD -gt 1 ]] && prev=${COMP_WORDS[COMP_CWORD - 2]}; }
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} != -* ]] && { command=${COMP_WORDS[i]}; break; }
  done
  case $command in
    '')
)sh";
  std::vector<std::string> flags;
  for (const FlagRow &flag : table.program.flags)
    for (const std::string &name : names_of(flag)) flags.push_back(name);
  out += "      words=" + in_quotes(command_names(table) + " " + joined(flags, " ")) +
         "\n      COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n      return ;;\n";
  for (const CommandRow &command : table.commands) bash_command(command, out);
  out += R"sh(    *) return ;;
  esac
  if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W "$words" -- "$cur")); else eval "$rest"; fi
}
complete -F _quarry quarry
)sh";
  return out;
}

// ---- zsh

std::string zsh_text(const std::string &text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_answer(const FlagRow &flag) {
  switch (flag.values()) {
    case Values::Choices: return "(" + joined(flag.choices, " ") + ")";
    case Values::Files: return "_files";
    case Values::Folders: return "_files -/";
    case Values::Backends:
    case Values::OptionKeys: return "_quarry_ask " + list_call(flag.values());
    case Values::Any: break;
  }
  return "( )";
}

std::string zsh_value(const FlagRow &flag) { return ":" + zsh_text(flag.value) + ":" + zsh_answer(flag); }

void zsh_command(const CommandRow &command, std::string &out) {
  out += "    " + command.name + ")\n      _arguments -s -S";
  for (const FlagRow &flag : command.flags) {
    const std::vector<std::string> names = names_of(flag);
    for (const std::string &name : names) {
      // A flag that repeats does not exclude itself.
      std::string row = flag.repeats ? "*" : names.size() > 1 ? "(" + joined(names, " ") + ")" : "";
      row += name;
      if (flag.value_follows) row += name.rfind("--", 0) == 0 ? "=" : "+";
      row += "[" + zsh_text(brief(flag.help)) + "]";
      if (flag.value_follows) row += zsh_value(flag);
      out += " \\\n        " + in_quotes(row);
    }
  }
  for (const FlagRow &flag : command.positionals)
    out +=
        " \\\n        " + in_quotes((flag.repeats    ? "*"
                                     : flag.required ? ":"
                                                     : "::") +
                                    (flag.repeats ? zsh_value(flag) : zsh_text(flag.value) + ":" + zsh_answer(flag)));
  out += " ;;\n";
}

std::string zsh(const ProgramTable &table) {
  std::string out = R"sh(#compdef quarry
# zsh completion of quarry, written by `quarry completion zsh`
_quarry_ask() {
  local -a found
  found=(${(f)"$(_call_program quarry quarry "$1" "$2" 2>/dev/null)"})
  if [[ $2 == keys ]]; then compadd -S '' -a found; else compadd -a found; fi
}
_quarry() {
  local curcontext=$curcontext state line
  local -a commands
  commands=(
)sh";
  for (const CommandRow &command : table.commands)
    out += "    " + in_quotes(command.name + ":" + zsh_text(brief(command.help))) + "\n";
  out += "  )\n  _arguments -C";
  for (const FlagRow &flag : table.program.flags)
    for (const std::string &name : names_of(flag))
      out += " \\\n    " + in_quotes("(- *)" + name + "[" + zsh_text(brief(flag.help)) + "]");
  out += R"sh( \
    '1:command:->command' '*::argument:->argument'
  case $state in
    command) _describe -t commands command commands; return ;;
  esac
  case $words[1] in
)sh";
  for (const CommandRow &command : table.commands) zsh_command(command, out);
  out += R"sh(  esac
}
if [[ $funcstack[1] == _quarry ]]; then _quarry "$@"; else compdef _quarry quarry; fi
)sh";
  return out;
}

// ---- fish

std::string fish_answer(const FlagRow &flag) {
  switch (flag.values()) {
    case Values::Choices: return " -x -a " + in_quotes(joined(flag.choices, " "));
    case Values::Files: return " -r -F";
    case Values::Folders: return " -x -a '(__fish_complete_directories (commandline -ct))'";
    case Values::Backends:
    case Values::OptionKeys: return " -x -a '(quarry " + list_call(flag.values()) + " 2>/dev/null)'";
    case Values::Any: break;
  }
  return " -x";
}

std::string fish(const ProgramTable &table) {
  std::string out = "# fish completion of quarry, written by `quarry completion fish`\ncomplete -c quarry -f\n";
  const auto flags = [&out](const CommandRow &command, const std::string &when) {
    for (const FlagRow &flag : command.flags) {
      out += "complete -c quarry -n " + in_quotes(when);
      for (const std::string &name : flag.short_names) out += " -s " + name;
      for (const std::string &name : flag.long_names) out += " -l " + name;
      if (flag.value_follows) out += fish_answer(flag);
      out += " -d " + in_quotes(brief(flag.help)) + "\n";
    }
  };
  flags(table.program, "__fish_use_subcommand");
  for (const CommandRow &command : table.commands) {
    out += "complete -c quarry -n __fish_use_subcommand -a " + command.name + " -d " + in_quotes(brief(command.help)) +
           "\n";
    const std::string when = "__fish_seen_subcommand_from " + command.name;
    for (const FlagRow &flag : command.positionals) {
      const Values values = flag.values();
      if (values == Values::Files || values == Values::Folders)
        out += "complete -c quarry -n " + in_quotes(when) + " -F\n";
      if (values == Values::Choices)
        out += "complete -c quarry -n " + in_quotes(when) + " -a " + in_quotes(joined(flag.choices, " ")) + "\n";
    }
    flags(command, when);
  }
  return out;
}

}  // namespace

std::string completion_script(const ProgramTable &table, const std::string &shell) {
  return shell == "bash" ? bash(table) : shell == "zsh" ? zsh(table) : fish(table);
}

}  // namespace tools
