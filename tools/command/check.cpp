// SPDX-License-Identifier: Apache-2.0
// quarry check: what a backend says of every node, without compiling; and where a model can be cut.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/console/command.h"
#include "tools/console/reasons.h"

namespace tools {
namespace {

using Json = nlohmann::json;

struct Counts {
  int taken = 0, slow = 0, refused = 0;
};

std::string joined(const Json &names) {
  std::string text;
  for (const Json &name : names) text += (text.empty() ? "" : ",") + name.get<std::string>();
  return text;
}

struct Group {
  std::string op, text, hint;
  std::vector<std::string> names;
};

// What stands behind "; " in the text of a node that is taken, once, with the nodes that have it.
void print_remarks(const Json &nodes) {
  std::vector<Group> groups;
  for (const Json &node : nodes) {
    const std::string kernel = node.value("kernel", "");
    const size_t at = kernel.find("; ");
    if (!node.value("supported", false) || at == std::string::npos) continue;
    const std::string op = node.value("op", ""), text = kernel.substr(at + 2);
    auto group =
        std::find_if(groups.begin(), groups.end(), [&](const Group &one) { return one.op == op && one.text == text; });
    if (group == groups.end()) group = groups.insert(group, Group{op, text, "", {}});
    group->names.push_back(node.value("name", ""));
  }
  for (const Group &group : groups) print("note on %s (%s): %s\n", some_names(group.names), group.op, group.text);
}

// A reason once, with the nodes that have it.
void print_refused(const Json &nodes) {
  std::vector<Group> groups;
  for (const Json &node : nodes) {
    if (node.value("supported", false)) continue;
    const std::string op = node.value("op", ""), text = node.value("id", "") + " " + node.value("reason", ""),
                      hint = node.value("hint", "");
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const Group &one) { return one.op == op && one.text == text && one.hint == hint; });
    if (group == groups.end()) group = groups.insert(group, Group{op, text, hint, {}});
    group->names.push_back(node.value("name", ""));
  }
  for (const Group &group : groups) {
    const std::string count = group.names.size() > 1 ? ", " + std::to_string(group.names.size()) + " nodes" : "";
    print("refused %s (%s%s): %s\n", some_names(group.names), group.op, count, group.text);
    if (!group.hint.empty()) print("  what to do: %s\n", group.hint);
  }
}

void print_nodes(const Json &nodes) {
  print_refused(nodes);
  print_remarks(nodes);
  for (const Json &node : nodes)
    if (node.value("path", "") == "reference")
      print("slow %s (%s): %s\n", node.value("name", ""), node.value("op", ""), node.value("kernel", ""));
}

void print_table(const std::map<std::string, Counts> &operators) {
  size_t width = 8;
  for (const auto &[name, counts] : operators) width = std::max(width, name.size());
  print("%-*s  %6s  %6s  %7s\n", static_cast<int>(width), "operator", "nodes", "taken", "refused");
  for (const auto &[name, counts] : operators)
    print("%-*s  %6d  %6d  %7d\n", static_cast<int>(width), name, counts.taken + counts.refused, counts.taken,
          counts.refused);
}

void print_cut(const Json &report) {
  if (!report.contains("cut")) {
    print("no cut leaves a part that the backend takes wholly\n");
    return;
  }
  const Json &cut = report["cut"];
  const std::string front = joined(cut["front"]), back = joined(cut["back"]);
  print("%s of %s nodes run wholly on backend %s when the model is cut", cut["kept"].dump(), cut["nodes"].dump(),
        report.value("backend", ""));
  if (!front.empty()) print("\n  behind %s", front);
  if (!back.empty()) print("\n  in front of what follows %s", back);
  std::string flags;
  for (const std::string &at : {front, back})
    if (!at.empty()) flags += " --at " + at;
  if (!flags.empty()) print(":\n  quarry cut MODEL%s", flags);
  print("\n");
}

}  // namespace

int report_check(const qr::Model &model, const qr::Options &options, bool json) {
  const Json report = Json::parse(model.check_nodes(options));
  const int refused = report.value("refused", 0);
  if (json) {
    print("%s\n", report.dump(2, ' ', false, Json::error_handler_t::replace));
    return refused == 0 ? 0 : 1;
  }
  print_nodes(report["nodes"]);
  int slow = 0, gone = 0;
  std::map<std::string, Counts> operators;
  for (const Json &node : report["nodes"]) {
    const std::string path = node.value("path", "");
    slow += path == "reference", gone += path == "none";
    Counts &counts = operators[node.value("op", "")];
    ++(node.value("supported", false) ? counts.taken : counts.refused);
  }
  print_table(operators);
  if (slow > 0 || gone > 0)
    print("%d nodes run by the reference's kernels, %d need no step of their own\n", slow, gone);
  if (refused > 0) print_cut(report);
  print("backend %s: %d nodes supported, %d refused\n", report.value("backend", ""), report.value("supported", 0),
        refused);
  return refused == 0 ? 0 : 1;
}

void register_check(CLI::App &app, Action &action) {
  struct Flags {
    SessionFlags session;
    std::string model;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App *command = app.add_subcommand(
      "check", "Ask a backend about every node of a model without compiling it; exit status 1 when it refuses one");
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
      ->required()
      ->type_name("MODEL");
  flags->session.add_to(*command, false);
  command->add_flag("--json", flags->json, "Print the report as JSON");
  command->callback([&action, flags] {
    action = [flags] {
      const qr::Runtime runtime = flags->session.runtime();
      const qr::Options options = flags->session.make_options(runtime);
      return report_check(qr::Model(runtime, model_source(flags->model), &options), options, flags->json);
    };
  });
}

}  // namespace tools
