// SPDX-License-Identifier: Apache-2.0
#include "tools/console/reasons.h"

#include <algorithm>

namespace tools {

Reason split_reason(const std::string &text) {
  const std::string node = "node ";
  if (text.starts_with(node)) {
    const size_t end = text.find("): "), open = text.rfind(" (", end);
    if (end != std::string::npos && open != std::string::npos && open >= node.size())
      return {node, text.substr(node.size(), open - node.size()), text.substr(open)};
  }
  const size_t close = text.find("': "), open = close == std::string::npos ? close : text.rfind('\'', close - 1);
  if (open != std::string::npos && close > 0)
    return {text.substr(0, open + 1), text.substr(open + 1, close - open - 1), text.substr(close)};
  return {text, "", ""};
}

std::string some_names(const std::vector<std::string> &names) {
  constexpr size_t kMost = 3;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i) out += (i ? ", " : "") + names[i];
  if (names.size() > kMost) out += " and " + std::to_string(names.size() - kMost) + " more";
  return out;
}

std::vector<std::string> each_once(const std::vector<std::string> &reasons) {
  struct Group {
    std::string text, key;
    std::vector<std::string> names;
    size_t times = 0;
  };
  std::vector<Group> groups;
  for (const std::string &reason : reasons) {
    const Reason parts = split_reason(reason);
    const std::string key = parts.before + "\n" + parts.after;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group &one) { return one.key == key; });
    if (group == groups.end()) group = groups.insert(group, Group{reason, key, {}, 0});
    ++group->times;
    if (std::find(group->names.begin(), group->names.end(), parts.name) == group->names.end())
      group->names.push_back(parts.name);
  }
  std::vector<std::string> out;
  for (const Group &group : groups) {
    out.push_back(group.text);
    if (group.times == 1) continue;
    out.back() += " (" + std::to_string(group.times) + (group.names[0].empty() ? " times" : " nodes");
    out.back() += (group.names.size() > 1 ? ": " + some_names(group.names) : "") + ")";
  }
  return out;
}

}  // namespace tools
