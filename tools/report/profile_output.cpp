// SPDX-License-Identifier: Apache-2.0
#include "tools/report/profile_output.h"

#include <cstdio>

#include "tools/console/failure.h"
#include "tools/console/output.h"
#include "tools/console/usage.h"

namespace tools {
namespace {

constexpr const char *kNoFile = "true";  // what CLI11 gives for a flag without a value

std::string text_of(qr_string text) { return std::string(text.data ? text.data : "", text.size); }

// (".csv" alone is no name with an ending.)
bool is_events_file(const std::string &path) {
  return (path.size() > 4 && path.ends_with(".csv")) || (path.size() > 5 && path.ends_with(".json"));
}

// How much of a run's time the nodes account for; more than all of it where they run beside each other.
std::string sum_line(const RunTable &table) {
  char line[200];
  const int decimals = table.sum < 1 ? 5 : 3;
  const char *const unit = table.cycles ? "kcycles" : "ms";
  std::string text;
  if (table.explained > 0) {
    std::snprintf(line, sizeof line, "the nodes' times explain %.1f %% of a run's %.*f ms", table.explained * 100,
                  decimals, table.wall);
    text = line;
  }
  if (table.explained == 0 || table.runs > 1) {
    std::snprintf(line, sizeof line, "%stheir medians add up to %.*f %s", text.empty() ? "" : "; ", decimals, table.sum,
                  unit);
    text += line;
  }
  return text + "\n";
}

nlohmann::json json_of(const std::vector<Phase> &phases) {
  nlohmann::json out = nlohmann::json::array();
  for (const Phase &phase : phases)
    out.push_back({{"name", phase.name}, {"ms", phase.ms}, {"times", phase.times}, {"parts", json_of(phase.parts)}});
  return out;
}

nlohmann::json json_of(const RunTable &table) {
  const char *const time = table.cycles ? "kcycles" : "ms";
  nlohmann::json out = {{"runs", table.runs}, {"wall_ms", table.wall}, {std::string("nodes_") + time, table.sum}};
  if (table.explained > 0) out["explained"] = table.explained;
  out["nodes"] = nlohmann::json::array();
  for (const NodeRow &row : table.nodes) {
    nlohmann::json one = {
        {"name", row.name}, {"operator", row.op}, {time, row.time}, {"share", row.share}, {"calls", row.calls}};
    for (const auto &[key, value] :
         {std::pair{"kernel", &row.kernel}, std::pair{"shapes", &row.shapes}, std::pair{"fused", &row.fused}})
      if (!value->empty()) one[key] = *value;
    if (row.has_bytes) one["bytes_read"] = row.bytes_read, one["bytes_written"] = row.bytes_written;
    if (row.gb_per_s > 0) one["gb_per_s"] = row.gb_per_s;
    out["nodes"].push_back(std::move(one));
  }
  for (const auto &[key, rows] : {std::pair{"operators", &table.operators}, std::pair{"kernels", &table.kernels}}) {
    if (rows->empty()) continue;
    out[key] = nlohmann::json::array();
    for (const GroupRow &row : *rows)
      out[key].push_back({{"name", row.name}, {"nodes", row.nodes}, {time, row.time}, {"share", row.share}});
  }
  return out;
}

}  // namespace

std::vector<ProfileEvent> read_events(const qr::Profile &profile) {
  std::vector<ProfileEvent> events;
  for (uint64_t i = 0; i < profile.size(); ++i) {
    const qr_profile_event from = profile[i];
    ProfileEvent &event = events.emplace_back();
    event.id = from.id, event.parent = from.parent, event.node = from.node;
    event.timed = from.clock < QR_CLOCK_NONE, event.cycles = from.clock == QR_CLOCK_DEVICE_CYCLES;
    event.begin = from.begin, event.end = from.end;
    event.name = text_of(from.name), event.kind = text_of(from.kind), event.op = text_of(from.op);
    for (uint64_t a = 0; a < from.attribute_count; ++a) {
      const std::string key = text_of(from.attributes[a].key);
      if (key == "kernel") event.kernel = text_of(from.attributes[a].value);
      if (key == "shapes") event.shapes = text_of(from.attributes[a].value);
      if (key == "fused") event.fused = text_of(from.attributes[a].value);
    }
    for (uint64_t c = 0; c < from.counter_count; ++c) {
      const std::string name = text_of(from.counters[c].name);
      if (name == "bytes read") event.bytes_read = from.counters[c].value, event.has_bytes = true;
      if (name == "launches") event.launches = from.counters[c].value;
      if (name == "bytes written") event.bytes_written = from.counters[c].value, event.has_bytes = true;
    }
  }
  return events;
}

void ProfileFlags::add_to(CLI::App &command, const std::string &subject) {
  command.add_flag("--profile", value_,
                   "Tables of where the time goes " + subject +
                       "; --profile=FILE writes the events too: .csv (- is standard output), or .json for a Chrome "
                       "trace (Perfetto)");
  command.add_option("--profile-top", top_, "Rows in a table of the profile; 0: all")
      ->capture_default_str()
      ->type_name("N")
      ->check(whole_number(0));
}

std::string ProfileFlags::file() const { return value_ == kNoFile ? "" : value_; }

void ProfileFlags::check(const std::vector<std::string> &files) const {
  if (!wanted()) return;
  if (is_standard_output(file())) print_beside_result();
  else if (!file().empty() && !is_events_file(file()))
    throw UsageError("--profile: found the file '" + file() + "', expected a name that ends in .csv or .json",
                     ".csv has one line for each event; .json is a trace for Perfetto and chrome://tracing");
  for (const std::string &path : files)
    if (file().empty() && is_events_file(path))
      throw UsageError("--profile: found '" + path + "' as an input, expected a file of tensors",
                       "to write the events there: --profile=" + path);
}

void ProfileFlags::tell(const qr::Profile &profile, const std::string &runs_title, bool show) const {
  if (!wanted()) return;
  if (show) {
    const std::vector<ProfileEvent> events = read_events(profile);
    const std::vector<Phase> phases = phase_trees(events);
    if (!phases.empty()) print_text("\n" + phases_text(phases, top_));
    for (const RunTable &table : run_tables(events)) {
      print_text("\n" + runs_title + "\n");
      if (table.nodes.empty()) {
        print("the backend reports no nodes; a run took %.3f ms\n", table.wall);
        continue;
      }
      print_text(nodes_text(table, top_) + sum_line(table) + "\n" + groups_text(table));
    }
    if (events.empty()) print("\nthere are no events: nothing that was done is profiled\n");
    if (profile.lost()) print("%llu events were lost: the tables are incomplete\n", profile.lost());
  }
  if (const std::string path = file(); !path.empty()) {
    write_text(path, profile.export_as(path.ends_with(".json") ? "chrome" : "csv"));
    if (show) print("events written to %s\n", path);
  }
}

nlohmann::json ProfileFlags::json(const qr::Profile &profile) {
  const std::vector<ProfileEvent> events = read_events(profile);
  nlohmann::json out = {{"lost_events", profile.lost()}, {"phases", json_of(phase_trees(events))}};
  out["tables"] = nlohmann::json::array();
  for (const RunTable &table : run_tables(events)) out["tables"].push_back(json_of(table));
  return out;
}

}  // namespace tools
