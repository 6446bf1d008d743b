// SPDX-License-Identifier: Apache-2.0
// The tables that the program makes of a profile's events.
#include "tools/report/profile_table.h"

#include <sstream>

#include "tests/support/check.h"

namespace {

using tools::ProfileEvent;

ProfileEvent event(uint64_t id, uint64_t parent, const char *kind, const char *name, uint64_t begin, uint64_t end) {
  ProfileEvent out;
  out.id = id, out.parent = parent, out.kind = kind, out.name = name, out.begin = begin, out.end = end;
  return out;
}

ProfileEvent node(uint64_t id, uint64_t parent, const char *name, const char *op, uint64_t begin, uint64_t end) {
  ProfileEvent out = event(id, parent, "node", name, begin, end);
  out.op = op;
  return out;
}

// Three runs of two nodes: "a" takes 1, 2, 9 ms and "b" 3 ms; each run takes 10 ms.
std::vector<ProfileEvent> three_runs() {
  std::vector<ProfileEvent> events;
  const uint64_t ms = 1000000, a_takes[] = {1, 9, 2};
  for (uint64_t run = 0; run < 3; ++run) {
    const uint64_t root = 100 * (run + 1), at = 50 * ms * run;
    events.push_back(event(root, 0, "run", "run", at, at + 10 * ms));
    events.push_back(node(root + 1, root, "a", "Conv", at, at + a_takes[run] * ms));
    events.back().has_bytes = true, events.back().bytes_read = 3000000, events.back().bytes_written = 1000000;
    events.back().kernel = "conv.direct", events.back().fused = "bn, relu";
    events.push_back(node(root + 2, root, "b", "Gemm", at, at + 3 * ms));
  }
  return events;
}

size_t widest_line(const std::string &text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

}  // namespace

TEST_CASE("nodes: medians over the runs, shares of their sum") {
  const auto tables = tools::run_tables(three_runs());
  REQUIRE_EQ(tables.size(), 1u);
  const tools::RunTable &table = tables[0];
  CHECK_EQ(table.runs, 3u);
  CHECK_EQ(table.wall, doctest::Approx(10));
  CHECK_EQ(table.sum, doctest::Approx(5));
  CHECK_EQ(table.explained, doctest::Approx(0.5));  // 4, 12 and 5 of 10 ms
  REQUIRE_EQ(table.nodes.size(), 2u);
  CHECK_EQ(table.nodes[0].name, "b");
  CHECK_EQ(table.nodes[0].share, doctest::Approx(0.6));
  CHECK_EQ(table.nodes[1].name, "a");
  CHECK_EQ(table.nodes[1].time, doctest::Approx(2));
  CHECK_EQ(table.nodes[1].gb_per_s, doctest::Approx(2));  // 4 MB in 2 ms
  CHECK_EQ(table.nodes[1].calls, doctest::Approx(1));
}

TEST_CASE("the run of median length, of which a table adds up") {
  std::vector<ProfileEvent> events = three_runs();
  for (ProfileEvent &one : events)  // of 10, 30 and 20 ms; and a call that is no run
    if (one.kind == "run")
      one.end = one.begin + (one.id == 200 ? 30000000u : one.id / 100 % 2 * 5000000u + one.id / 100 * 5000000u);
  events.push_back(event(900, 0, "compile", "compile", 0, 15000000));
  events.push_back(node(901, 900, "c", "Conv", 0, 15000000));
  const std::vector<ProfileEvent> median = tools::median_run(events);
  REQUIRE_EQ(median.size(), 3u);
  CHECK_EQ(median[0].id, 300u);
  const auto tables = tools::run_tables(median);
  REQUIRE_EQ(tables.size(), 1u);
  CHECK_EQ(tables[0].runs, 1u);
  CHECK_EQ(tables[0].wall, doctest::Approx(20));
  CHECK_EQ(tables[0].sum, doctest::Approx(5));
  CHECK_EQ(tables[0].explained, doctest::Approx(0.25));
  CHECK(tools::median_run({event(900, 0, "compile", "compile", 0, 15000000)}).empty());
  CHECK(tools::median_run({}).empty());
  // Of two the quicker; runs that nobody reported by their nodes.
  CHECK_EQ(tools::median_run({node(2, 1, "a", "Add", 0, 9), node(4, 3, "a", "Add", 20, 25)})[0].id, 4u);
}

TEST_CASE("a node without the nodes inside it") {
  std::vector<ProfileEvent> events = {event(1, 0, "run", "run", 0, 10000000), node(2, 1, "loop", "Loop", 0, 10000000),
                                      node(3, 2, "body", "Add", 0, 3000000),
                                      node(4, 2, "body", "Add", 4000000, 8000000)};
  const auto tables = tools::run_tables(events);
  REQUIRE_EQ(tables.size(), 1u);
  REQUIRE_EQ(tables[0].nodes.size(), 2u);
  CHECK_EQ(tables[0].nodes[0].name, "body");
  CHECK_EQ(tables[0].nodes[0].time, doctest::Approx(7));
  CHECK_EQ(tables[0].nodes[0].calls, doctest::Approx(2));
  CHECK_EQ(tables[0].nodes[1].time, doctest::Approx(3));
  CHECK_EQ(tables[0].explained, doctest::Approx(1));
}

TEST_CASE("a node that only one run in two has, and one with other shapes") {
  std::vector<ProfileEvent> events = {event(1, 0, "run", "run", 0, 4000000), node(2, 1, "a", "Add", 0, 2000000),
                                      node(3, 1, "b", "Mul", 2000000, 4000000), event(4, 0, "run", "run", 0, 4000000),
                                      node(5, 4, "a", "Add", 0, 2000000)};
  events[1].shapes = "[1]", events[4].shapes = "[2]";
  const auto tables = tools::run_tables(events);
  REQUIRE_EQ(tables.size(), 1u);
  REQUIRE_EQ(tables[0].nodes.size(), 3u);
  CHECK_EQ(tables[0].sum, doctest::Approx(3));  // of an average run
  for (const tools::NodeRow &row : tables[0].nodes) CHECK_EQ(row.share, doctest::Approx(1.0 / 3));
}

TEST_CASE("compiling and loading are no runs, though they have nodes") {
  std::vector<ProfileEvent> events = {
      event(1, 0, "compile", "compile", 0, 9000000), event(2, 1, "phase", "passes", 0, 4000000),
      event(3, 2, "phase", "fold", 0, 1000000),      event(4, 2, "phase", "fold", 1000000, 3000000),
      node(5, 1, "a", "Add", 4000000, 5000000),      event(6, 0, "load", "load", 9000000, 10000000),
      event(7, 0, "run", "run", 20000000, 22000000), node(8, 7, "a", "Add", 20000000, 21000000)};
  const auto tables = tools::run_tables(events);
  REQUIRE_EQ(tables.size(), 1u);
  CHECK_EQ(tables[0].runs, 1u);
  CHECK_EQ(tables[0].nodes.size(), 1u);
  const auto calls = tools::phase_trees(events);
  REQUIRE_EQ(calls.size(), 2u);
  CHECK_EQ(calls[0].name, "compile");
  CHECK_EQ(calls[0].ms, doctest::Approx(9));
  REQUIRE_EQ(calls[0].parts.size(), 2u);
  REQUIRE_EQ(calls[0].parts[0].parts.size(), 1u);  // the two behind each other are one row
  CHECK_EQ(calls[0].parts[0].parts[0].times, 2u);
  CHECK_EQ(calls[0].parts[0].parts[0].ms, doctest::Approx(3));
  const std::string text = tools::phases_text(calls, 1);
  CHECK_NE(text.find("    fold (2 times)"), std::string::npos);
  CHECK_NE(text.find("  1 more"), std::string::npos);
}

TEST_CASE("events without the call that they are a part of, and parts of what was lost") {
  std::vector<ProfileEvent> events = {node(2, 1, "a", "Add", 0, 1000000), node(3, 1, "b", "Mul", 1000000, 4000000)};
  auto tables = tools::run_tables(events);
  REQUIRE_EQ(tables.size(), 1u);
  CHECK_EQ(tables[0].runs, 1u);
  CHECK_EQ(tables[0].wall, doctest::Approx(4));
  events = three_runs();
  events[4].parent = 77;
  tables = tools::run_tables(events);
  CHECK_EQ(tables[0].runs, 3u);
  CHECK(tools::run_tables({}).empty());
  CHECK(tools::phases_text(tools::phase_trees({}), 0).empty());
}

TEST_CASE("a device's cycles and the host's time are two tables") {
  std::vector<ProfileEvent> events = three_runs();
  const size_t count = events.size();
  for (size_t i = 0; i < count; ++i)
    if (events[i].kind == "node") {
      events.push_back(events[i]);
      events.back().id += 10, events.back().cycles = true, events.back().begin = 0, events.back().end = 5000;
    }
  const auto tables = tools::run_tables(events);
  REQUIRE_EQ(tables.size(), 2u);
  CHECK(!tables[0].cycles);
  CHECK(tables[1].cycles);
  CHECK_EQ(tables[1].nodes[0].time, doctest::Approx(5));  // thousands
  CHECK_EQ(tables[1].nodes[0].gb_per_s, 0);
  CHECK_NE(tools::nodes_text(tables[1], 0).find("kcycles"), std::string::npos);
}

TEST_CASE("kernels are a table where they split the nodes in another way than operators do") {
  std::vector<ProfileEvent> events = three_runs();
  CHECK(tools::run_tables(events)[0].kernels.empty());
  for (ProfileEvent &one : events)
    if (one.name == "b") one.kernel = "conv.direct";
  CHECK_EQ(tools::run_tables(events)[0].kernels.size(), 1u);
  for (ProfileEvent &one : events) one.kernel.clear();
  CHECK(tools::run_tables(events)[0].kernels.empty());
}

TEST_CASE("texts are at most 120 columns, cut in the middle, without columns that nobody fills") {
  std::vector<ProfileEvent> events = three_runs();
  std::string text = tools::nodes_text(tools::run_tables(events)[0], 0);
  CHECK_NE(text.find("fused in"), std::string::npos);
  CHECK_EQ(text.find("shapes"), std::string::npos);
  CHECK_EQ(text.find("calls"), std::string::npos);
  const std::string name = "/model/layers.0/attention/" + std::string(200, 'x') + "/MatMul_quant";
  for (ProfileEvent &one : events)
    if (one.name == "b") one.name = name, one.shapes = std::string(90, '1'), one.fused = "tab\there";
  text = tools::nodes_text(tools::run_tables(events)[0], 0);
  CHECK_EQ(widest_line(text), 120u);
  CHECK_EQ(text.find(name), std::string::npos);
  CHECK_NE(text.find("/model/"), std::string::npos);
  CHECK_NE(text.find("_quant"), std::string::npos);
  CHECK_NE(text.find("tab?here"), std::string::npos);
  CHECK_NE(tools::nodes_text(tools::run_tables(events)[0], 1).find("and 1 more, together 40.0 %"), std::string::npos);
}
