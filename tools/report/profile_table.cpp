// SPDX-License-Identifier: Apache-2.0
#include "tools/report/profile_table.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "tools/console/text_grid.h"

namespace tools {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Milliseconds, or thousands of cycles.
double length_of(const ProfileEvent &event) {
  const auto ticks = static_cast<double>(event.end > event.begin ? event.end - event.begin : 0);
  return event.cycles ? ticks / 1e3 : ticks / 1e6;
}

// Which event each is a part of, and the call that it belongs to. A call comes before its parts.
struct Tree {
  explicit Tree(const std::vector<ProfileEvent> &events) : parent(events.size(), kNone), call(events.size()) {
    std::unordered_map<uint64_t, size_t> by_id;
    uint64_t last_call = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      if (events[i].parent == 0) {
        call[i] = last_call = events[i].id;
      } else if (const auto at = by_id.find(events[i].parent); at != by_id.end()) {
        parent[i] = at->second, call[i] = call[at->second];
      } else {  // what it is a part of was lost; a call that nobody reported is known by the number that its parts give
        call[i] = last_call ? last_call : events[i].parent;
      }
      by_id.emplace(events[i].id, i);
    }
  }
  static constexpr size_t kNone = SIZE_MAX;
  std::vector<size_t> parent;
  std::vector<uint64_t> call;
};

// Compiling and loading have nodes too.
bool is_other_call(const ProfileEvent &event) {
  return event.parent == 0 && event.kind != "run" && event.kind != "node";
}

// ---- runs ---------------------------------------------------------------------------------------

// What a node did in one run.
struct InRun {
  double time = 0;
  uint64_t calls = 0, bytes_read = 0, bytes_written = 0;
  bool has_bytes = false;
};

struct Run {
  double wall = 0;
  uint64_t first = UINT64_MAX, last = 0;
  double explained = 0;
};

// The same node with other shapes is another row: it is other work.
using RowKey = std::tuple<int64_t, std::string, std::string, std::string, std::string, std::string>;

std::vector<GroupRow> group(const RunTable &table, std::string NodeRow::*word) {
  std::map<std::string, GroupRow> groups;
  for (const NodeRow &node : table.nodes) {
    GroupRow &row = groups[node.*word];
    row.name = node.*word;
    ++row.nodes, row.time += node.share * table.sum, row.share += node.share;
  }
  std::vector<GroupRow> out;
  for (auto &[name, row] : groups) out.push_back(std::move(row));
  std::stable_sort(out.begin(), out.end(), [](const GroupRow &a, const GroupRow &b) { return a.time > b.time; });
  return out;
}

// Whether kernels are reported, and split the nodes in another way than operators do.
bool kernels_say_more(const std::vector<NodeRow> &nodes) {
  if (std::all_of(nodes.begin(), nodes.end(), [](const NodeRow &node) { return node.kernel.empty(); })) return false;
  std::map<std::string, std::string> kernel_of, op_of;
  for (const NodeRow &node : nodes)
    if (kernel_of.emplace(node.op, node.kernel).first->second != node.kernel ||
        op_of.emplace(node.kernel, node.op).first->second != node.op)
      return true;
  return false;
}

bool is_node(const ProfileEvent &event, bool cycles) {
  return event.kind == "node" && event.timed && event.cycles == cycles;
}

// Of each node, without those that are a part of it.
std::vector<double> own_times(const std::vector<ProfileEvent> &events, const Tree &tree, bool cycles) {
  std::vector<double> self(events.size());
  for (size_t i = 0; i < events.size(); ++i) {
    if (!is_node(events[i], cycles)) continue;
    self[i] += length_of(events[i]);
    size_t outer = tree.parent[i];
    while (outer != Tree::kNone && !is_node(events[outer], cycles)) outer = tree.parent[outer];
    if (outer != Tree::kNone) self[outer] -= length_of(events[i]);
  }
  return self;
}

using ByRun = std::map<uint64_t, InRun>;

// What a node did in its runs, as one.
void sum_up(const ByRun &by_run, bool cycles, NodeRow &row) {
  std::vector<double> times;
  uint64_t calls = 0;
  for (const auto &[call, in] : by_run) {
    times.push_back(in.time), calls += in.calls;
    row.has_bytes = row.has_bytes || in.has_bytes;
    row.bytes_read = std::max(row.bytes_read, in.bytes_read);
    row.bytes_written = std::max(row.bytes_written, in.bytes_written);
  }
  row.time = median(times);
  row.calls = static_cast<double>(calls) / static_cast<double>(by_run.size());
  if (!cycles && row.has_bytes && row.time > 0)
    row.gb_per_s = static_cast<double>(row.bytes_read + row.bytes_written) / row.time / 1e6;
}

// How long runs took, and how much of that their nodes did.
void sum_up(const std::map<uint64_t, Run> &runs, RunTable &table) {
  std::vector<double> walls, parts;
  for (const auto &[call, run] : runs) {
    double wall = run.wall;
    if (wall == 0 && !table.cycles && run.last > run.first) wall = static_cast<double>(run.last - run.first) / 1e6;
    if (wall <= 0) continue;
    walls.push_back(wall);
    if (!table.cycles) parts.push_back(run.explained / wall);
  }
  table.wall = median(walls), table.explained = median(parts);
}

RunTable make_table(const std::vector<ProfileEvent> &events, const Tree &tree, bool cycles) {
  RunTable table;
  table.cycles = cycles;
  std::map<uint64_t, bool> other;  // calls that are no runs
  for (size_t i = 0; i < events.size(); ++i)
    if (is_other_call(events[i])) other[tree.call[i]] = true;
  const std::vector<double> self = own_times(events, tree, cycles);
  std::map<uint64_t, Run> runs;
  std::map<RowKey, std::pair<NodeRow, ByRun>> rows;
  for (size_t i = 0; i < events.size(); ++i) {
    const ProfileEvent &event = events[i];
    const uint64_t call = tree.call[i];
    if (other.count(call)) continue;
    if (event.kind == "run" && event.parent == 0 && event.timed && !event.cycles) runs[call].wall = length_of(event);
    if (!is_node(event, cycles)) continue;
    Run &run = runs[call];
    run.first = std::min(run.first, event.begin), run.last = std::max(run.last, event.end);
    const double time = std::max(self[i], 0.0);  // the parts of a node may run at the same time
    run.explained += time;
    auto &[row, by_run] = rows[{event.node, event.name, event.op, event.kernel, event.shapes, event.fused}];
    row.name = !event.name.empty() ? event.name : event.node >= 0 ? "node " + std::to_string(event.node) : "-";
    row.op = event.op, row.kernel = event.kernel, row.shapes = event.shapes, row.fused = event.fused;
    InRun &in = by_run[call];
    in.time += time, ++in.calls;
    in.bytes_read += event.bytes_read, in.bytes_written += event.bytes_written;
    in.has_bytes = in.has_bytes || event.has_bytes;
  }
  table.runs = runs.size();
  for (auto &[key, value] : rows) {
    auto &[row, by_run] = value;
    sum_up(by_run, cycles, row);
    // A node that some runs leave out counts as much less.
    row.share = row.time * static_cast<double>(by_run.size()) / static_cast<double>(runs.size());
    table.sum += row.share;
    table.nodes.push_back(std::move(row));
  }
  for (NodeRow &row : table.nodes) row.share = table.sum > 0 ? row.share / table.sum : 0;
  std::stable_sort(table.nodes.begin(), table.nodes.end(),
                   [](const NodeRow &a, const NodeRow &b) { return a.share > b.share; });
  sum_up(runs, table);
  table.operators = group(table, &NodeRow::op);
  if (kernels_say_more(table.nodes)) table.kernels = group(table, &NodeRow::kernel);
  return table;
}

// ---- texts --------------------------------------------------------------------------------------

int decimals_for(double sum) { return sum < 1 ? 5 : 3; }

// A tree deeper than this is none that a person reads, and must not use up the stack.
constexpr size_t kDeepest = 32;

Phase phase_of(const std::vector<ProfileEvent> &events, const std::vector<std::vector<size_t>> &parts, size_t index,
               size_t depth = 0) {
  const ProfileEvent &event = events[index];
  Phase out;
  out.name = event.name.empty() ? event.kind : event.name;
  out.ms = event.timed && !event.cycles ? length_of(event) : 0;
  if (depth == kDeepest) return out;
  for (const size_t part : parts[index]) {
    Phase made = phase_of(events, parts, part, depth + 1);
    if (out.parts.empty() || out.parts.back().name != made.name) {
      out.parts.push_back(std::move(made));
      continue;
    }
    Phase &before = out.parts.back();
    before.ms += made.ms, ++before.times;
    for (Phase &inner : made.parts) before.parts.push_back(std::move(inner));
  }
  return out;
}

void add_phase(const Phase &phase, double whole, size_t depth, size_t top, std::vector<Column> &table) {
  table[0].cells.push_back(std::string(2 * depth, ' ') + phase.name +
                           (phase.times > 1 ? " (" + std::to_string(phase.times) + " times)" : ""));
  table[1].cells.push_back(number(phase.ms, 3));
  table[2].cells.push_back(whole > 0 ? percent(phase.ms / whole) : "");
  // The longest parts, in their order.
  std::vector<double> lengths;
  for (const Phase &part : phase.parts) lengths.push_back(part.ms);
  std::sort(lengths.rbegin(), lengths.rend());
  const bool some = top != 0 && lengths.size() > top;
  const double least = some ? lengths[top - 1] : 0;
  size_t told = 0, more = 0;
  double rest = 0;
  for (const Phase &part : phase.parts) {
    if (some && (part.ms < least || told == top)) {
      ++more, rest += part.ms;
      continue;
    }
    ++told;
    add_phase(part, whole, depth + 1, top, table);
  }
  if (more == 0) return;
  table[0].cells.push_back(std::string(2 * depth + 2, ' ') + std::to_string(more) + " more");
  table[1].cells.push_back(number(rest, 3));
  table[2].cells.push_back(whole > 0 ? percent(rest / whole) : "");
}

}  // namespace

std::vector<RunTable> run_tables(const std::vector<ProfileEvent> &events) {
  const Tree tree(events);
  std::vector<RunTable> out;
  for (const bool cycles : {false, true}) {
    RunTable table = make_table(events, tree, cycles);
    if (!table.nodes.empty() || (!cycles && table.runs > 0)) out.push_back(std::move(table));
  }
  // That the host saw no node is not worth telling beside what a device counted.
  if (out.size() == 2 && out[0].nodes.empty()) out.erase(out.begin());
  return out;
}

std::vector<ProfileEvent> median_run(const std::vector<ProfileEvent> &events) {
  const Tree tree(events);
  std::map<uint64_t, Run> runs;
  for (size_t i = 0; i < events.size(); ++i) {
    const ProfileEvent &event = events[i];
    if (event.kind == "run" && event.parent == 0 && event.timed && !event.cycles)
      runs[tree.call[i]].wall = length_of(event);
    if (event.kind != "node" || !event.timed) continue;
    Run &run = runs[tree.call[i]];
    run.first = std::min(run.first, event.begin), run.last = std::max(run.last, event.end);
  }
  for (size_t i = 0; i < events.size(); ++i)
    if (is_other_call(events[i])) runs.erase(tree.call[i]);
  std::vector<std::pair<double, uint64_t>> lengths;
  for (const auto &[call, run] : runs)
    if (run.last >= run.first)
      lengths.emplace_back(run.wall > 0 ? run.wall : static_cast<double>(run.last - run.first), call);
  std::vector<ProfileEvent> out;
  if (lengths.empty()) return out;
  std::sort(lengths.begin(), lengths.end());
  const uint64_t chosen = lengths[(lengths.size() - 1) / 2].second;
  for (size_t i = 0; i < events.size(); ++i)
    if (tree.call[i] == chosen) out.push_back(events[i]);
  return out;
}

std::vector<Phase> phase_trees(const std::vector<ProfileEvent> &events) {
  const Tree tree(events);
  std::vector<std::vector<size_t>> parts(events.size());
  for (size_t i = 0; i < events.size(); ++i)
    if (tree.parent[i] != Tree::kNone) parts[tree.parent[i]].push_back(i);
  std::vector<Phase> out;
  for (size_t i = 0; i < events.size(); ++i)
    if (tree.parent[i] == Tree::kNone && is_other_call(events[i])) out.push_back(phase_of(events, parts, i));
  return out;
}

std::string nodes_text(const RunTable &table, size_t top) {
  const int decimals = decimals_for(table.sum);
  const size_t shown = top == 0 ? table.nodes.size() : std::min(top, table.nodes.size());
  std::vector<Column> out = {{"node", false, {}},
                             {"operator", false, {}},
                             {"kernel", false, {}},
                             {"shapes", false, {}},
                             {table.cycles ? "kcycles" : "ms", true, {}},
                             {"share", true, {}},
                             {"calls", true, {}},
                             {"bytes", true, {}},
                             {"GB/s", true, {}},
                             {"fused in", false, {}}};
  for (size_t i = 0; i < shown; ++i) {
    const NodeRow &row = table.nodes[i];
    size_t at = 0;
    for (const std::string &word : {row.name, row.op, row.kernel, row.shapes}) out[at++].cells.push_back(word);
    out[at++].cells.push_back(number(row.time, decimals));
    out[at++].cells.push_back(percent(row.share));
    out[at++].cells.push_back(row.calls > 1 ? number(row.calls, 0) : "");
    out[at++].cells.push_back(row.has_bytes ? size_text(row.bytes_read + row.bytes_written) : "");
    out[at++].cells.push_back(row.gb_per_s > 0 ? number(row.gb_per_s, 2) : "");
    out[at++].cells.push_back(row.fused);
  }
  std::string text = grid(std::move(out));
  if (shown < table.nodes.size()) {
    double rest = 0;
    for (size_t i = shown; i < table.nodes.size(); ++i) rest += table.nodes[i].share;
    text += "  and " + std::to_string(table.nodes.size() - shown) + " more, together " + percent(rest) + "\n";
  }
  return text;
}

std::string groups_text(const RunTable &table) {
  const int decimals = decimals_for(table.sum);
  std::string text;
  for (const auto &[title, rows] : {std::pair{"operator", &table.operators}, std::pair{"kernel", &table.kernels}}) {
    if (rows->empty()) continue;
    std::vector<Column> out = {
        {title, false, {}}, {"nodes", true, {}}, {table.cycles ? "kcycles" : "ms", true, {}}, {"share", true, {}}};
    for (const GroupRow &row : *rows) {
      out[0].cells.push_back(row.name.empty() ? "-" : row.name);
      out[1].cells.push_back(std::to_string(row.nodes));
      out[2].cells.push_back(number(row.time, decimals));
      out[3].cells.push_back(percent(row.share));
    }
    text += (text.empty() ? "" : "\n") + grid(std::move(out));
  }
  return text;
}

std::string phases_text(const std::vector<Phase> &calls, size_t top) {
  if (calls.empty()) return "";
  std::vector<Column> out = {{"phase", false, {}}, {"ms", true, {}}, {"share", true, {}}};
  for (const Phase &call : calls) add_phase(call, call.ms, 0, top, out);
  return grid(std::move(out));
}

}  // namespace tools
