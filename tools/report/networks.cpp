// SPDX-License-Identifier: Apache-2.0
#include "tools/report/networks.h"

#include <map>

#include "tools/console/command.h"

namespace tools {

void add_segments(const nlohmann::json &part, std::set<size_t> &segments) {
  for (const nlohmann::json &index : part.value("segments", nlohmann::json::array()))
    segments.insert(index.get<size_t>());
  if (part.contains("segment")) segments.insert(part["segment"].get<size_t>());
}

void print_networks(const qr::Runtime &runtime, const std::string &file, const std::vector<std::string> &names) {
  std::vector<int> users;
  nlohmann::json segments;
  std::map<size_t, nlohmann::json> programs;  // that say what their graphs share, by segment
  for (const std::string &name : names) {
    qr::Options options(runtime);
    options.set("model", name);
    const nlohmann::json info = nlohmann::json::parse(qr::Model(runtime, model_source(file), &options).inspect());
    segments = info["segments"];
    users.resize(segments.size());
    std::set<size_t> own;
    for (const nlohmann::json &context : info["contexts"])
      for (const nlohmann::json &program : context["programs"]) {
        add_segments(program, own);
        const nlohmann::json about = program.value("about", nlohmann::json::object());
        if (about.contains("shared_weight_bytes")) programs[program["segment"].get<size_t>()] = about;
      }
    for (const nlohmann::json &graph : info["graphs"])
      if (graph.value("kept", false)) add_segments(graph, own);
    for (const size_t index : own)
      if (index < users.size()) ++users[index];
    print("  %s: %zu graph%s\n", name, info["graphs"].size(), info["graphs"].size() == 1 ? "" : "s");
  }
  uint64_t shared = 0, saved = 0;
  for (size_t i = 0; i < users.size(); ++i) {
    const uint64_t size = segments[i].value("size", uint64_t{0});
    if (users[i] > 1) shared += size, saved += size * static_cast<uint64_t>(users[i] - 1);
  }
  if (shared > 0)
    print("  %s are in the file once for several of them, which saves %s\n", bytes_text(shared), bytes_text(saved));
  for (const auto &[segment, about] : programs)
    print("  of its graphs' weights %s are shared, which saves %s\n",
          bytes_text(about["shared_weight_bytes"].get<uint64_t>()),
          about.contains("saved_bytes") ? bytes_text(about["saved_bytes"].get<uint64_t>()) : std::string("?"));
}

}  // namespace tools
