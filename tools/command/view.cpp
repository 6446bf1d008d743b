// SPDX-License-Identifier: Apache-2.0
// quarry view: a model as one page for a browser: its graph, what runs each node, memory, and the times of a profile.
// The page is made of the files of tools/command/view and of one JSON text; it opens nothing else.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "tools/console/command.h"
#include "tools/input/saved_files.h"
#include "tools/input/tensor_file.h"
#include "tools/report/profile_file.h"
#include "view_page.h"

namespace tools {
namespace {

using Json = nlohmann::json;

struct ViewFlags {
  SessionFlags session;
  std::string model, out, profile;
};

// What a session would need; nothing where none can be made (the page then says which nodes are refused).
Json plan_of(const qr::Model &model, const qr::Options &options) {
  qr::Result<qr_memory_plan> plan = qr::Session::try_plan(model, &options);
  if (!plan.ok()) return nullptr;
  const qr_memory_plan bytes = std::move(plan).value();
  return {{"weights_bytes", bytes.weights_bytes},
          {"arena_bytes", bytes.arena_bytes},
          {"io_bytes", bytes.io_bytes},
          {"device_bytes", bytes.device_bytes},
          {"scratchpad_bytes", bytes.scratchpad_bytes}};
}

// A row for each node, of one run, which all figures of the page are of: copies that bring its operands into another
// layout count as its own time.
Json times_of(const RunTable &table, uint64_t runs) {
  std::map<std::string, Json> nodes;
  std::map<std::string, double> longest;
  for (const NodeRow &row : table.nodes) {
    Json &one = nodes[row.name];
    if (one.is_null())
      one = {{"name", row.name}, {"ms", 0.0}, {"share", 0.0}, {"calls", row.calls}, {"bytes", uint64_t{0}}};
    one["ms"] = one["ms"].get<double>() + row.time;
    one["share"] = one["share"].get<double>() + row.share;
    one["bytes"] = one["bytes"].get<uint64_t>() + row.bytes_read + row.bytes_written;
    if (row.time < longest[row.name]) continue;
    longest[row.name] = row.time;
    one["kernel"] = row.kernel, one["fused"] = row.fused, one["calls"] = row.calls;
    if (row.gb_per_s > 0) one["gb_per_s"] = row.gb_per_s;
  }
  Json list = Json::array(), operators = Json::array();
  for (auto &[name, one] : nodes) list.push_back(std::move(one));
  for (const GroupRow &row : table.operators)
    operators.push_back({{"name", row.name}, {"nodes", row.nodes}, {"ms", row.time}, {"share", row.share}});
  return {{"runs", runs},           {"wall", table.wall}, {"sum", table.sum}, {"explained", table.explained},
          {"operators", operators}, {"nodes", list}};
}

// Events by the call that they are of.
struct Calls {
  std::vector<size_t> whole;               // the event of each call
  std::vector<std::vector<size_t>> parts;  // the events of each
};

Calls group_calls(const std::vector<ProfileEvent> &events) {
  Calls out;
  std::unordered_map<uint64_t, size_t> root;
  for (size_t i = 0; i < events.size(); ++i) {
    const ProfileEvent &event = events[i];
    if (!event.timed || event.cycles) continue;
    const auto outer = root.find(event.parent);
    if (event.parent == 0 || outer == root.end()) {
      if (event.parent != 0) continue;
      root[event.id] = out.whole.size();
      out.whole.push_back(i);
      out.parts.emplace_back();
    } else {
      root[event.id] = outer->second;
      out.parts[outer->second].push_back(i);
    }
  }
  return out;
}

struct ShorterCall {
  const std::vector<ProfileEvent> &events;
  const Calls &calls;
  uint64_t length(size_t call) const { return events[calls.whole[call]].end - events[calls.whole[call]].begin; }
  bool operator()(size_t a, size_t b) const { return length(a) < length(b); }
};

using Titles = std::map<size_t, std::string>;  // by call

// Of several runs the median (the event of that number), the first, the quickest and the slowest.
Titles titles_of(const std::vector<ProfileEvent> &events, const Calls &calls, const std::vector<size_t> &runs,
                 uint64_t median) {
  Titles titles;
  if (runs.size() == 1) titles[runs[0]] = "run";
  if (runs.size() < 2) return titles;
  const auto add = [&](size_t call, const char *word) {
    std::string &title = titles[call];
    if (title.empty())
      title = "run " + std::to_string(std::find(runs.begin(), runs.end(), call) - runs.begin() + 1) + " of " +
              std::to_string(runs.size());
    title += word;
  };
  const ShorterCall by_length{events, calls};
  for (const size_t call : runs)
    if (events[calls.whole[call]].id == median) add(call, ", the median");
  add(runs[0], "");
  add(*std::max_element(runs.begin(), runs.end(), by_length), ", the slowest");
  add(*std::min_element(runs.begin(), runs.end(), by_length), ", the quickest");
  return titles;
}

double ms_between(uint64_t from, uint64_t to) { return to > from ? static_cast<double>(to - from) / 1e6 : 0.0; }

// The events of a call, in rows in which none covers another.
Json rows_of(const std::vector<ProfileEvent> &events, const ProfileEvent &whole, std::vector<size_t> list) {
  constexpr size_t kMost = 20000;  // events of a call: a browser draws them all
  std::stable_sort(list.begin(), list.end(), [&](size_t a, size_t b) {
    return events[a].begin != events[b].begin ? events[a].begin < events[b].begin : events[a].end > events[b].end;
  });
  if (list.size() > kMost) list.resize(kMost);
  Json rows = Json::array();
  std::vector<uint64_t> ends;  // of the last event in each row
  std::unordered_map<uint64_t, size_t> row_of;
  for (const size_t i : list) {
    const auto outer = row_of.find(events[i].parent);
    size_t row = outer == row_of.end() ? 0 : outer->second + 1;
    while (row < ends.size() && ends[row] > events[i].begin) ++row;
    if (row >= ends.size()) ends.resize(row + 1);
    ends[row] = events[i].end;
    row_of[events[i].id] = row;
    rows.push_back({{"name", events[i].name},
                    {"op", events[i].op},
                    {"begin", ms_between(whole.begin, events[i].begin)},
                    {"ms", ms_between(events[i].begin, events[i].end)},
                    {"row", row}});
  }
  return rows;
}

// The calls for the timeline: all that are no runs, and of the runs those that have a title.
Json calls_of(const std::vector<ProfileEvent> &events, uint64_t median) {
  const Calls calls = group_calls(events);
  std::vector<size_t> shown, runs;
  for (size_t call = 0; call < calls.whole.size(); ++call)
    (events[calls.whole[call]].kind == "run" ? runs : shown).push_back(call);
  const Titles titles = titles_of(events, calls, runs, median);
  // The median first: its times are those of the nodes.
  std::vector<size_t> chosen;
  for (const auto &[call, title] : titles) chosen.push_back(call);
  std::sort(chosen.begin(), chosen.end(), ShorterCall{events, calls});
  std::stable_partition(chosen.begin(), chosen.end(),
                        [&](size_t call) { return events[calls.whole[call]].id == median; });
  shown.insert(shown.begin(), chosen.begin(), chosen.end());
  Json out = Json::array();
  for (const size_t call : shown) {
    const ProfileEvent &whole = events[calls.whole[call]];
    const auto title = titles.find(call);
    out.push_back({{"name", title == titles.end() ? whole.name : title->second},
                   {"ms", ms_between(whole.begin, whole.end)},
                   {"events", rows_of(events, whole, calls.parts[call])}});
  }
  return out;
}

// JSON within a script element: nothing in it may look like the element's end.
std::string script_text(const Json &json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  for (size_t at = 0; (at = text.find('<', at)) != std::string::npos; at += 6) text.replace(at, 1, "\\u003c");
  return text;
}

// The file's name; with its folder's where half of all models have that name.
std::string title_of(const std::string &path) {
  const std::string name = base_name(path);
  const size_t slash = path.size() > name.size() + 1 ? path.size() - name.size() - 1 : 0;
  return slash > 0 && name == "model.onnx" ? base_name(path.substr(0, slash)) + "/" + name : name;
}

int view(const ViewFlags &flags) {
  const std::string out = flags.out.empty() ? base_name(name_beside(flags.model, ".html")) : flags.out;
  std::vector<ProfileEvent> events;
  if (!flags.profile.empty()) events = read_profile_file(flags.profile);
  const qr::Runtime runtime = flags.session.runtime();
  const qr::Options options = flags.session.make_options(runtime);
  const qr::Model model(runtime, model_source(flags.model), &options);
  Json page = {{"title", title_of(flags.model)}, {"info", Json::parse(model.inspect())}};
  page["check"] = Json::parse(model.check_nodes(options));
  {
    qr::Bytes graphs;
    model.export_to(qr::Target::in_memory(graphs, "graph.json"), &options);
    page["graphs"] = Json::parse(graphs.view())["graphs"];
  }
  page["info"].erase("path");  // of this machine, and no part of the model
  page["plan"] = plan_of(model, options);
  if (!events.empty()) {
    uint64_t runs = 0;
    for (const RunTable &table : run_tables(events)) runs = std::max(runs, table.runs);
    const std::vector<ProfileEvent> median = median_run(events);
    const std::vector<RunTable> tables = run_tables(median);
    const auto table = std::find_if(tables.begin(), tables.end(),
                                    [](const RunTable &one) { return !one.cycles && !one.nodes.empty(); });
    if (table != tables.end()) page["times"] = times_of(*table, runs);
    page["calls"] = calls_of(events, median.empty() ? 0 : median.front().id);
    bool known = table == tables.end();
    for (const Json &node : page["check"]["nodes"])
      known = known || std::any_of(table->nodes.begin(), table->nodes.end(),
                                   [&](const NodeRow &row) { return row.name == node.value("name", ""); });
    if (!known)
      throw UsageError("--profile: '" + flags.profile + "' has none of this model's nodes",
                       "give the profile of a run of '" + flags.model + "'");
  }
  write_text(out, std::string(kPageBefore) + script_text(page) + kPageAfter);
  if (!is_standard_output(out)) {
    size_t nodes = 0;
    for (const Json &graph : page["graphs"]) nodes += graph["nodes"].size();
    print("%s: %zu nodes on %s%s\n", out, nodes, page["check"].value("backend", ""),
          page.contains("times") ? ", with times" : "");
  }
  return 0;
}

}  // namespace

void register_view(CLI::App &app, Action &action) {
  auto flags = std::make_shared<ViewFlags>();
  CLI::App *command = app.add_subcommand(
      "view", "Write a page for a browser that shows a model: graph, kernels, what was fused, memory, times");
  command->add_option("model", flags->model, "Model: .onnx, or a .qrm that kept its graph; - is standard input")
      ->required()
      ->type_name("MODEL");
  command
      ->add_option("--output,-o", flags->out,
                   "The page to write, or - for standard output (default: the model's name with .html, "
                   "in this folder)")
      ->type_name("FILE|-");
  command
      ->add_option("--profile", flags->profile,
                   "Times to show, from `quarry bench` or `quarry run` with --profile=FILE: .csv or .json")
      ->type_name("FILE");
  flags->session.add_to(*command, false);
  command->callback([&action, flags] { action = [flags] { return view(*flags); }; });
}

}  // namespace tools
