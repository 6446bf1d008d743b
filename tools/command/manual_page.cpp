// SPDX-License-Identifier: Apache-2.0
// Manual pages in groff's man macros, from the rows of the help.
#include <quarry/quarry.h>

#include "tools/command/command_table.h"
#include "tools/console/help.h"

namespace tools {
namespace {

// A text as groff takes it: '-' is a minus that can be copied, and no line is taken for a request.
std::string roff(const std::string &text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') out += "\\e";
    else if (c == '-') out += "\\-";
    else if (c == '\'') out += "\\(aq";
    else if (c == '`') out += "\\(ga";
    else if (c == '~') out += "\\(ti";
    else if (c == '^') out += "\\(ha";
    else if (c == '\n') out += ' ';
    else out += c;
  }
  return !out.empty() && out[0] == '.' ? "\\&" + out : out;
}

std::string upper(std::string text) {
  for (char &c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string page_name(const ProgramTable &table, const CommandRow &command) {
  return &command == &table.program ? table.program.name : table.program.name + "-" + command.name;
}

std::string heading(const ProgramTable &table, const CommandRow &command) {
  const std::string name = page_name(table, command);
  std::string out = ".\\\" Written by `quarry manual`\n.TH " + upper(roff(name)) + " 1 \"\" \"quarry " +
                    std::string(qr_version()) + "\" \"Quarry\"\n.SH NAME\n" + roff(name) + " \\- ";
  // What stands behind a name begins small and ends without a stop.
  std::string help = command.help;
  if (help.size() > 1 && help[1] >= 'a' && help[1] <= 'z' && help.rfind("Quarry", 0) != 0)
    help[0] = static_cast<char>(help[0] >= 'A' && help[0] <= 'Z' ? help[0] - 'A' + 'a' : help[0]);
  if (!help.empty() && help.back() == '.') help.pop_back();
  return out + roff(help) + "\n";
}

std::string synopsis(const CommandRow &command, const std::string &call) {
  std::string out = ".SH SYNOPSIS\n.B " + roff(call) + "\n[\\fIoptions\\fR]";
  for (const FlagRow &flag : command.flags)
    if (flag.required && !flag.long_names.empty())
      out += "\n\\fB\\-\\-" + roff(flag.long_names[0]) + "\\fR \\fI" + roff(flag.value) + "\\fR";
  for (const FlagRow &flag : command.positionals)
    out += std::string("\n") + (flag.required ? "" : "[") + "\\fI" + roff(flag.positional) + "\\fR" +
           (flag.repeats ? " ..." : "") + (flag.required ? "" : "]");
  return out + "\n";
}

std::string item(const FlagRow &flag) {
  std::string out = ".TP\n";
  bool first = true;
  const auto name = [&](const char *dashes, const std::string &word) {
    out += std::string(first ? "" : ", ") + "\\fB" + dashes + roff(word) + "\\fR";
    first = false;
  };
  for (const std::string &word : flag.short_names) name("\\-", word);
  for (const std::string &word : flag.long_names) name("\\-\\-", word);
  if (first) out += "\\fI" + roff(flag.positional) + "\\fR";
  else if (!flag.value.empty()) {
    const std::string value = "\\fI" + roff(flag.value) + "\\fR";
    out += flag.value_follows ? " " + value : "[=" + value + "]";
  }
  out += "\n" + roff(flag.help);
  if (!flag.help.empty() && flag.help.back() != '.') out += '.';
  if (!flag.choices.empty()) {
    out += "\nOne of";
    for (size_t i = 0; i < flag.choices.size(); ++i)
      out += std::string(i ? "," : "") + " \\fB" + roff(flag.choices[i]) + "\\fR";
    out += ".";
  }
  if (!flag.limits.empty()) out += "\nA whole number: " + roff(flag.limits) + ".";
  if (!flag.preset.empty()) out += "\nDefault: \\fB" + roff(flag.preset) + "\\fR.";
  return out + "\n";
}

void items(const CommandRow &command, std::string &out) {
  if (!command.positionals.empty()) out += ".SH ARGUMENTS\n";
  for (const FlagRow &flag : command.positionals) out += item(flag);
  std::string group;
  for (const FlagRow &flag : command.flags) {
    if (flag.group != group) out += ".SH " + upper(roff(flag.group)) + "\n";
    group = flag.group;
    out += item(flag);
  }
}

}  // namespace

std::string manual_page(const ProgramTable &table, const std::string &name) {
  const CommandRow *command = &table.program;
  for (const CommandRow &one : table.commands)
    if (one.name == name) command = &one;
  std::string out = heading(table, *command);
  if (command == &table.program) {
    out += ".SH SYNOPSIS\n.B " + table.program.name +
           "\n\\fIcommand\\fR [\\fIoptions\\fR] [\\fIarguments\\fR]\n.SH COMMANDS\n";
    for (const CommandRow &one : table.commands)
      out += ".TP\n\\fB" + roff(one.name) + "\\fR\n" + roff(one.help) + ".\nSee \\fB" + roff(page_name(table, one)) +
             "\\fR(1).\n";
    items(*command, out);
  } else {
    out += synopsis(*command, table.program.name + " " + command->name);
    items(*command, out);
  }
  const std::string &footer = command->footer.empty() ? table.program.footer : command->footer;
  if (const std::vector<std::string> lines = examples_of(command->name); !lines.empty()) {
    out += ".SH EXAMPLES\n.nf\n";
    for (const std::string &line : lines) out += roff(line) + "\n";
    out += ".fi\n";
  }
  if (!footer.empty()) out += ".SH NOTES\n" + roff(footer) + "\n";
  out += ".SH SEE ALSO\n";
  if (command == &table.program) {
    for (size_t i = 0; i < table.commands.size(); ++i)
      out += ".BR " + roff(page_name(table, table.commands[i])) + " (1)" + (i + 1 < table.commands.size() ? " ," : "") +
             "\n";
  } else {
    out += ".BR " + roff(table.program.name) + " (1)\n";
  }
  return out;
}

}  // namespace tools
