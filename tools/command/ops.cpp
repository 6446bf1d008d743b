// SPDX-License-Identifier: Apache-2.0
// quarry ops: which operators there are, and which backend runs them.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/console/command.h"

namespace tools {
namespace {

std::string full_name(const nlohmann::json &row) {
  const std::string domain = row.value("domain", "");
  return domain.empty() ? row["name"].get<std::string>() : domain + "." + row["name"].get<std::string>();
}

// A plugin of another release may not know the operator: it says neither yes nor no then.
bool is_supported(const nlohmann::json &row) {
  const auto found = row.find("supported");
  return found != row.end() && found->is_boolean() && found->get<bool>();
}

// What backends say of an operator, in their order: who says the same is named together.
class Sayings {
 public:
  void add(const std::string &text, const std::string &backend) {
    if (text.empty()) return;
    const auto same = std::find_if(list_.begin(), list_.end(), [&](const auto &one) { return one.first == text; });
    if (same == list_.end()) list_.push_back({text, {backend}});
    else same->second.push_back(backend);
  }
  // What all `takers` say needs no name.
  std::string text(size_t takers) const {
    std::string out;
    for (const auto &[text, whose] : list_) {
      out += out.empty() ? "" : "; ";
      if (list_.size() > 1 || whose.size() != takers)
        for (size_t i = 0; i < whose.size(); ++i) out += whose[i] + (i + 1 < whose.size() ? ", " : ": ");
      out += text;
    }
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> list_;
};

// A note begins with how the operator is run where the backend has no rule for it. Gives that, and cuts it off.
std::string take_path(std::string *note) {
  for (const std::string path : {"decomposed", "by the host", "by the reference"}) {
    if (note->compare(0, path.size(), path) != 0) continue;
    if (note->size() > path.size() && note->compare(path.size(), 2, "; ") != 0) continue;
    note->erase(0, path.size() + 2);
    return path;
  }
  return "native";
}

// The one that was named, or all.
std::vector<std::string> backends_of(const SessionFlags &flags, qr::Runtime &runtime) {
  std::vector<std::string> backends;
  if (!flags.backend.empty()) {
    backends.push_back(flags.backend);
  } else {
    const uint64_t count = runtime.scan();
    for (uint64_t i = 0; i < count; ++i) backends.push_back(qr::from_c(runtime.backend(i).id));
    std::sort(backends.begin(), backends.end());
    backends.erase(std::unique(backends.begin(), backends.end()), backends.end());
  }
  return backends;
}

using Cells = std::map<std::string, std::map<std::string, nlohmann::json>>;  // operator -> backend -> row

class OpTable {
 public:
  OpTable(std::vector<std::string> backends, Cells cells, bool markdown)
      : backends_(std::move(backends)), cells_(std::move(cells)), markdown_(markdown) {}

  // The skeleton runs nothing: no column for it.
  void drop_empty_columns() {
    std::erase_if(backends_, [&](const std::string &backend) {
      return std::none_of(cells_.begin(), cells_.end(), [&](const auto &row) {
        const auto cell = row.second.find(backend);
        return cell != row.second.end() && is_supported(cell->second);
      });
    });
  }

  void print_all(const nlohmann::json &operators) {
    print_head();
    for (const nlohmann::json &row : operators) print_row(full_name(row));
    if (!markdown_)
      for (const auto &[backend, count] : supported_)
        print("%s: %d of %zu operators\n", backend, count, operators.size());
  }

 private:
  void print_head() const {
    markdown_ ? print("| %s |", "operator") : print("%-32s", "operator");
    for (const std::string &backend : backends_) markdown_ ? print(" %s |", backend) : print(" %-16s", backend);
    print_text(markdown_ ? " types | notes |\n|---|" : " types\n");
    if (markdown_) {
      for (size_t i = 0; i < backends_.size(); ++i) print("---|");
      print("---|---|\n");
    }
  }

  void print_row(const std::string &name) {
    markdown_ ? print("| %s |", name) : print("%-32s", name);
    Sayings types, notes;
    size_t takers = 0;
    for (const std::string &backend : backends_) {
      const nlohmann::json &cell = cells_[name][backend];
      const bool yes = is_supported(cell);
      std::string note = yes ? cell.value("note", "") : "";
      supported_[backend] += yes, takers += yes;
      const std::string path = yes ? take_path(&note) : "-";
      markdown_ ? print(" %s |", path) : print(" %-16s", path);
      if (!yes) continue;
      types.add(cell.value("types", ""), backend);
      notes.add(note, backend);
    }
    const std::string text = notes.text(takers);
    const char *const between = markdown_ ? " | " : text.empty() ? "" : "; ";
    print(" %s%s%s%s\n", types.text(takers), between, text, markdown_ ? " |" : "");
  }

  std::vector<std::string> backends_;
  Cells cells_;
  const bool markdown_;
  std::map<std::string, int> supported_;
};

int ops(const SessionFlags &flags, bool as_json, bool markdown) {
  qr::Runtime runtime = flags.runtime();
  const std::vector<std::string> backends = backends_of(flags, runtime);
  nlohmann::json report = {{"operators", nlohmann::json::parse(runtime.operators(""))},
                           {"backends", nlohmann::json::array()}};
  Cells cells;
  for (const std::string &backend : backends) {
    nlohmann::json one = nlohmann::json::parse(runtime.operators(backend));
    for (const nlohmann::json &row : one["operators"]) cells[full_name(row)][backend] = row;
    report["backends"].push_back(std::move(one));
  }
  if (as_json) {
    print("%s\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  }
  OpTable table(backends, std::move(cells), markdown);
  if (flags.backend.empty()) table.drop_empty_columns();
  table.print_all(report["operators"]["operators"]);
  return 0;
}

}  // namespace

void register_ops(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    bool json = false, markdown = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand("ops", "List the operators and which backend runs them");
  command->add_option("--backend,-b", flags->session.backend, "Only this backend")->type_name("ID");
  command
      ->add_option("--backend-path", flags->session.backend_path,
                   "Folders to look for backend plugins in first, ':' between")
      ->type_name("DIRS");
  auto *json = command->add_flag("--json", flags->json, "Print the table as JSON");
  command->add_flag("--markdown", flags->markdown, "Print the table as Markdown (docs/operators.md)")->excludes(json);
  command->callback(
      [&action, flags] { action = [flags] { return ops(flags->session, flags->json, flags->markdown); }; });
}

}  // namespace tools
