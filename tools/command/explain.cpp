// SPDX-License-Identifier: Apache-2.0
// quarry explain: what docs/errors.md has of an error's id, without the web.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <string_view>

#include "tools/console/help.h"
#include "errors_page.h"
#include "tools/console/command.h"

namespace tools {
namespace {

struct Entry {
  std::string_view id, title, group, text;
};

// The page's headings: "## Files" begins a group, "### QR-F0001 no such file" an entry.
std::vector<Entry> entries() {
  std::vector<Entry> out;
  std::string_view group;
  for (std::string_view rest = kErrorsPage; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size() - 1);
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    if (line.starts_with("## ")) {
      group = line.substr(3);
    } else if (line.starts_with("### ")) {
      const size_t space = line.find(' ', 4);
      const size_t next = std::min(rest.find("\n##"), rest.size());
      out.push_back({line.substr(4, space - 4), line.substr(space + 1), group, rest.substr(0, next)});
    }
  }
  return out;
}

// "QR-O0008" of "qr-o0008", "O0008" or "o8".
std::string whole_id(std::string typed) {
  for (char &c : typed) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  if (typed.starts_with("QR-")) typed.erase(0, 3);
  const bool letter_and_number =
      typed.size() > 1 && std::all_of(typed.begin() + 1, typed.end(), [](unsigned char c) { return std::isdigit(c); });
  if (letter_and_number && typed.size() < 5) typed.insert(1, 5 - typed.size(), '0');
  return "QR-" + typed;
}

std::string page_of(const Entry &entry, size_t width) {
  std::string out = std::string(entry.id) + ": " + std::string(entry.title) + "\n";
  for (std::string_view rest = entry.text; !rest.empty();) {
    const size_t end = std::min(rest.find("\n\n"), rest.size());
    std::string_view paragraph = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    while (paragraph.starts_with('\n')) paragraph.remove_prefix(1);
    if (paragraph.empty()) continue;
    if (paragraph.size() > 2 && paragraph.front() == '*' && paragraph.back() == '*')  // its code
      paragraph = paragraph.substr(1, paragraph.size() - 2);
    out += "\n" + wrapped(paragraph, width, 0) + "\n";
  }
  return out;
}

int explain(const std::vector<std::string> &ids) {
  const std::vector<Entry> all = entries();
  std::string out;
  if (ids.empty()) {
    std::string_view group;
    for (const Entry &entry : all) {
      if (entry.group != group) out += (out.empty() ? "" : "\n") + std::string(entry.group) + "\n";
      group = entry.group;
      out += "  " + std::string(entry.id) + "  " + std::string(entry.title) + "\n";
    }
  }
  for (const std::string &typed : ids) {
    const std::string id = whole_id(typed);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Entry &entry) { return entry.id == id; });
    if (found == all.end()) {
      std::vector<std::string> known;
      for (const Entry &entry : all) known.emplace_back(entry.id);
      const std::string near = did_you_mean(id, known);
      throw UsageError("explain: found '" + typed + "', expected the id of an error, such as QR-M0001",
                       near.empty() ? "`quarry explain` alone lists them" : near);
    }
    out += (out.empty() ? "" : "\n") + page_of(*found, terminal_width());
  }
  print_text(out);
  return 0;
}

}  // namespace

void register_explain(CLI::App &app, Action &action) {
  auto ids = std::make_shared<std::vector<std::string>>();
  CLI::App *command = app.add_subcommand("explain", "Say what an error means and what to do: quarry explain QR-M0001");
  command->add_option("id", *ids, "Ids of errors, as messages have them; none lists all")->type_name("ID");
  command->callback([&action, ids] { action = [ids] { return explain(*ids); }; });
}

}  // namespace tools
