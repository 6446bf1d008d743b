// SPDX-License-Identifier: Apache-2.0
#include "tools/report/profile_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "tools/console/failure.h"
#include "tools/console/read_file.h"
#include "tools/input/tensor_file.h"

namespace tools {
namespace {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string &path, const std::string &found) {
  throw UsageError("--profile: '" + path + "': " + found,
                   "give a file that `quarry run` or `quarry bench` wrote with --profile=FILE: .csv or .json");
}

// Rows of cells; a cell in quotes may hold commas, line ends and doubled quotes.
std::vector<std::vector<std::string>> csv_rows(const std::string &text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string &cell = rows.back().back();
    const char c = text[i];
    if (quoted) {
      if (c != '"') cell += c;
      else if (i + 1 < text.size() && text[i + 1] == '"') cell += '"', ++i;
      else quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.emplace_back(1);
    } else if (c != '\r') {
      cell += c;
    }
  }
  return rows;
}

void set_attribute(ProfileEvent &event, const std::string &key, const std::string &value) {
  if (key == "kernel") event.kernel = value;
  if (key == "shapes") event.shapes = value;
  if (key == "fused") event.fused = value;
}

void set_counter(ProfileEvent &event, std::string_view key, uint64_t value) {
  if (key.starts_with("bytes read")) event.bytes_read = value, event.has_bytes = true;
  if (key.starts_with("bytes written")) event.bytes_written = value, event.has_bytes = true;
}

// "key=value; key=value": a value may hold "; ", so a part without one of the known keys goes on with the one before.
std::vector<std::pair<std::string, std::string>> pairs_of(const std::string &text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find("; ", at), text.size()), equals = text.find('=', at);
    if (equals < end) pairs.emplace_back(text.substr(at, equals - at), text.substr(equals + 1, end - equals - 1));
    else if (!pairs.empty()) pairs.back().second += "; " + text.substr(at, end - at);
    at = end + 2;
  }
  return pairs;
}

std::vector<ProfileEvent> from_csv(const std::string &path, const std::string &text) {
  const std::vector<std::vector<std::string>> rows = csv_rows(text);
  std::map<std::string, size_t> columns;
  for (size_t i = 0; i < rows[0].size(); ++i) columns[rows[0][i]] = i;
  for (const char *wanted : {"id", "parent", "name", "kind", "op", "node", "clock", "begin", "end"})
    if (!columns.count(wanted)) refuse(path, std::string("found no column '") + wanted + "' in its first line");
  std::vector<ProfileEvent> events;
  for (size_t r = 1; r < rows.size(); ++r) {
    const std::vector<std::string> &row = rows[r];
    if (row.size() == 1) continue;  // the end, or a remark
    if (row.size() != rows[0].size())
      refuse(path, "line " + std::to_string(r + 1) + ": found " + std::to_string(row.size()) + " cells, expected " +
                       std::to_string(rows[0].size()));
    const auto number = [&](const char *column) {
      const std::string &cell = row[columns[column]];
      uint64_t value = 0;
      const auto read = std::from_chars(cell.data(), cell.data() + cell.size(), value);
      if (!cell.empty() && (read.ec != std::errc() || read.ptr != cell.data() + cell.size()))
        refuse(path, "line " + std::to_string(r + 1) + ": found '" + cell + "' as " + column + ", expected a number");
      return value;
    };
    ProfileEvent &event = events.emplace_back();
    event.id = number("id"), event.parent = number("parent");
    event.name = row[columns["name"]], event.kind = row[columns["kind"]], event.op = row[columns["op"]];
    if (!row[columns["node"]].empty()) event.node = static_cast<int64_t>(number("node"));
    event.begin = number("begin"), event.end = number("end");
    event.timed = !row[columns["begin"]].empty() && event.end >= event.begin;
    event.cycles = row[columns["clock"]].find("cycle") != std::string::npos;
    if (columns.count("attributes"))
      for (const auto &[key, value] : pairs_of(row[columns["attributes"]])) set_attribute(event, key, value);
    if (columns.count("counters"))
      for (const auto &[key, value] : pairs_of(row[columns["counters"]]))
        set_counter(event, key, std::strtoull(value.c_str(), nullptr, 10));
  }
  return events;
}

using Lane = std::pair<int64_t, int64_t>;  // process and thread

// A trace does not say what belongs to what: the shortest one around it, on the same clock.
void find_parents(std::vector<ProfileEvent> &events, const std::vector<Lane> &lanes) {
  std::vector<size_t> order(events.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (lanes[a].first != lanes[b].first) return lanes[a].first < lanes[b].first;
    return events[a].begin != events[b].begin ? events[a].begin < events[b].begin : events[a].end > events[b].end;
  });
  std::vector<size_t> open;
  for (const size_t i : order) {
    const auto is_around = [&](size_t outer) {
      return lanes[outer].first == lanes[i].first && events[outer].end >= events[i].end &&
             (lanes[outer].second == lanes[i].second || events[outer].kind != events[i].kind);
    };
    while (!open.empty() && (lanes[open.back()].first != lanes[i].first || events[open.back()].end <= events[i].begin))
      open.pop_back();
    for (size_t k = open.size(); k-- > 0;)
      if (is_around(open[k])) {
        events[i].parent = events[open[k]].id;
        break;
      }
    open.push_back(i);
  }
}

std::vector<ProfileEvent> from_trace(const std::string &path, const std::string &text) {
  const Json trace = Json::parse(text, nullptr, false);
  const Json *list = trace.is_array()                                     ? &trace
                     : trace.is_object() && trace.contains("traceEvents") ? &trace["traceEvents"]
                                                                          : nullptr;
  if (!list || !list->is_array()) refuse(path, "found no trace events in it");
  std::map<int64_t, bool> cycles;  // of a process, which stands for a clock
  std::vector<ProfileEvent> events;
  std::vector<Lane> lanes;
  const auto ns = [](const Json &event, const char *key) {
    const double us = event.contains(key) && event[key].is_number() ? event[key].get<double>() : 0;
    return us > 0 && us < 9e12 ? static_cast<uint64_t>(std::llround(us * 1000)) : 0;
  };
  for (const Json &from : *list) {
    if (!from.is_object()) refuse(path, "found a trace event that is no object");
    const auto word = [&](const Json &in, const char *key) {
      return in.is_object() && in.contains(key) && in[key].is_string() ? in[key].get<std::string>() : std::string();
    };
    const Json args = from.contains("args") ? from["args"] : Json::object();
    const auto whole = [&](const Json &in, const char *key) {
      return in.is_object() && in.contains(key) && in[key].is_number_integer() ? in[key].get<int64_t>() : -1;
    };
    const std::string kind = word(from, "ph");
    if (kind == "M") cycles[whole(from, "pid")] = word(args, "name").find("cycle") != std::string::npos;
    if (kind != "X") continue;
    ProfileEvent &event = events.emplace_back();
    event.id = events.size();
    event.name = word(from, "name"), event.kind = word(from, "cat"), event.op = word(args, "op");
    event.node = whole(args, "node");
    event.begin = ns(from, "ts"), event.end = event.begin + ns(from, "dur");
    event.cycles = cycles[whole(from, "pid")];
    for (const char *key : {"kernel", "shapes", "fused"}) set_attribute(event, key, word(args, key));
    if (args.is_object())
      for (const auto &[key, value] : args.items())
        if (value.is_number_unsigned()) set_counter(event, key, value.get<uint64_t>());
    lanes.emplace_back(whole(from, "pid"), whole(from, "tid"));
  }
  find_parents(events, lanes);
  return events;
}

}  // namespace

std::vector<ProfileEvent> read_profile_file(const std::string &path) {
  const std::vector<uint8_t> bytes = read_file(path);
  const std::string text(bytes.begin(), bytes.end());
  std::vector<ProfileEvent> events =
      path.size() > 5 && path.compare(path.size() - 5, 5, ".json") == 0 ? from_trace(path, text) : from_csv(path, text);
  if (events.empty()) refuse(path, "found no events in it");
  return events;
}

}  // namespace tools
