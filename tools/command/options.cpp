// SPDX-License-Identifier: Apache-2.0
// quarry options: every key with its values, default and meaning.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/console/command.h"

namespace tools {
namespace {

// What an option has a part in: "compile", "load", "run".
nlohmann::json applies(const qr_option_info &info) {
  nlohmann::json words = nlohmann::json::array();
  if (info.applies & QR_OPTION_COMPILE) words.push_back("compile");
  if (info.applies & QR_OPTION_LOAD) words.push_back("load");
  if (info.applies & QR_OPTION_RUN) words.push_back("run");
  return words;
}

std::string in_one_line(const nlohmann::json &words) {
  std::string line;
  for (const nlohmann::json &word : words) line += (line.empty() ? "" : ", ") + word.get<std::string>();
  return line;
}

nlohmann::json option_table(const qr::Runtime &runtime) {
  nlohmann::json rows = nlohmann::json::array();
  for (uint64_t i = 0;; ++i) {
    qr_option_info info = QR_OPTION_INFO_INIT;
    if (qr_status *status = qr_runtime_option(runtime.get(), i, &info)) {
      const bool past_the_end = qr_status_code(status) == QR_OUT_OF_RANGE;
      if (!past_the_end) throw qr::Error(status);
      qr_status_destroy(status);
      return rows;
    }
    rows.push_back({{"key", qr::from_c(info.key)},
                    {"values", qr::from_c(info.values)},
                    {"default", qr::from_c(info.default_value)},
                    {"scope", qr::from_c(info.scope)},
                    {"applies", applies(info)},
                    {"changes_at_run_time", info.changes_at_run_time != 0},
                    {"help", qr::from_c(info.help)}});
  }
}

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\|");
  return text;
}

int options(const SessionFlags &flags, const std::string &filter, bool as_json, bool markdown) {
  qr::Runtime runtime = flags.runtime();
  runtime.scan();  // the plugins' own rows come with them
  nlohmann::json rows = nlohmann::json::array();
  for (const nlohmann::json &row : option_table(runtime))
    if (filter.empty() || row["key"].get<std::string>().find(filter) != std::string::npos) rows.push_back(row);
  if (as_json) {
    print("%s\n", rows.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (markdown) {
    print("| key | values | default | for | in | help |\n|---|---|---|---|---|---|\n");
    for (const nlohmann::json &row : rows)
      print("| `%s` | %s | %s | %s | %s%s | %s |\n", row["key"].get<std::string>(), cell(row["values"]),
            cell(row["default"]), row["scope"].get<std::string>(), in_one_line(row["applies"]),
            row["changes_at_run_time"].get<bool>() ? ", at run time" : "", cell(row["help"]));
  } else {
    for (const nlohmann::json &row : rows) {
      const std::string default_value = row["default"].get<std::string>(), when = in_one_line(row["applies"]);
      print("%s = %s\n    %s\n    for: %s%s%s%s\n", row["key"].get<std::string>(), row["values"].get<std::string>(),
            row["help"].get<std::string>(), row["scope"].get<std::string>(),
            when.empty() ? "" : ("; in: " + when).c_str(),
            row["changes_at_run_time"].get<bool>() ? "; may change at run time" : "",
            default_value.empty() ? "" : ("; default: " + default_value).c_str());
    }
  }
  if (rows.empty() && !filter.empty()) {
    std::fprintf(stderr, "quarry: no option's key contains '%s'\n", filter.c_str());
    return 1;
  }
  return 0;
}

}  // namespace

void register_options(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    std::string filter;
    bool json = false, markdown = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("options", "List every option: key, values, default, help");
  command->add_option("filter", flags->filter, "Only keys that contain this")->type_name("TEXT");
  command
      ->add_option("--backend-path", flags->session.backend_path,
                   "Folders to look for backend plugins in first, ':' between")
      ->type_name("DIRS");
  auto *json = command->add_flag("--json", flags->json, "Print the table as JSON");
  command->add_flag("--markdown", flags->markdown, "Print the table as Markdown (docs/options.md)")->excludes(json);
  command->callback([&action, flags] {
    action = [flags] { return options(flags->session, flags->filter, flags->json, flags->markdown); };
  });
}

}  // namespace tools
