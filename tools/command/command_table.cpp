// SPDX-License-Identifier: Apache-2.0
// CLI11's application as rows.
#include "tools/command/command_table.h"

#include <algorithm>

namespace tools {
namespace {

// CLI11 has what validators say behind the type: "TEXT:{auto,nchw,nhwc}", "N:0 to 1024".
void take_value(const CLI::Option &option, FlagRow &row) {
  const std::string told = option.get_type_name();
  const size_t colon = told.find(':');
  row.value = told.substr(0, colon);
  if (colon == std::string::npos) return;
  const std::string rest = told.substr(colon + 1);
  if (rest.size() < 2 || rest.front() != '{' || rest.back() != '}') {
    row.limits = rest;
    return;
  }
  for (size_t at = 1; at < rest.size();) {
    const size_t end = rest.find_first_of(",}", at);
    row.choices.push_back(rest.substr(at, end - at));
    at = end + 1;
  }
}

FlagRow flag_row(const CLI::Option &option) {
  FlagRow row;
  row.short_names = option.get_snames();
  row.long_names = option.get_lnames();
  if (option.get_positional()) row.positional = option.get_name(true);
  const bool may_stand_alone = option.get_expected_min() == 0;
  if (option.get_items_expected_max() > 0) take_value(option, row);
  row.value_follows = option.get_items_expected_max() > 0 && !may_stand_alone;
  row.repeats = option.get_items_expected_max() > 1;
  row.required = option.get_required();
  row.preset = option.get_default_str();
  row.help = option.get_description();
  row.group = option.get_group();
  return row;
}

CommandRow command_row(const CLI::App &app) {
  CommandRow row{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option *option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->nonpositional() ? row.flags : row.positionals).push_back(flag_row(*option));
  }
  return row;
}

}  // namespace

FlagRow::Values FlagRow::values() const {
  if (!choices.empty()) return Values::Choices;
  if (value == "ID") return Values::Backends;
  if (value == "DIR" || value == "DIRS") return Values::Folders;
  if (value == "MODEL" || value.find("FILE") != std::string::npos) return Values::Files;
  const bool is_option =
      value == "KEY=VALUE" &&
      std::any_of(long_names.begin(), long_names.end(), [](const auto &name) { return name.rfind("option", 0) == 0; });
  return is_option ? Values::OptionKeys : Values::Any;
}

ProgramTable command_table(const CLI::App &app) {
  ProgramTable table;
  table.program = command_row(app);
  for (const CLI::App *command : app.get_subcommands([](const CLI::App *one) { return !one->get_group().empty(); }))
    table.commands.push_back(command_row(*command));
  return table;
}

}  // namespace tools
