// SPDX-License-Identifier: Apache-2.0
// What a profile's events say, summed up for a reader: where the time of runs goes, node by node and by kinds of nodes;
// and the tree of what compiling and loading did. Makes texts and figures, prints nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tools {

// An event, as qr_profile_event has it.
struct ProfileEvent {
  uint64_t id = 0, parent = 0;
  bool timed = true;    // begin and end say something
  bool cycles = false;  // of a device, in place of nanoseconds
  uint64_t begin = 0, end = 0;
  int64_t node = -1;
  std::string name, kind, op;
  std::string kernel, shapes, fused;  // empty where nobody said
  bool has_bytes = false;
  uint64_t bytes_read = 0, bytes_written = 0;
  uint64_t launches = 0;  // calls that hand a run's kernels over to a device, where nobody profiles it
};

// The times of one clock are in milliseconds, or for `cycles` in thousands of cycles of the device's.
struct NodeRow {
  std::string name, op, kernel, shapes, fused;
  double time = 0;   // median over the runs in which it ran, without the nodes inside it (of a loop's body)
  double share = 0;  // of the sum over all nodes; from 0 to 1
  double calls = 0;  // in one run
  bool has_bytes = false;
  uint64_t bytes_read = 0, bytes_written = 0;  // in one run
  double gb_per_s = 0;                         // 0: not known
};

// Nodes of one operator, or of one kernel.
struct GroupRow {
  std::string name;
  uint64_t nodes = 0;
  double time = 0, share = 0;
};

// What the runs in a profile did, as far as one clock says.
struct RunTable {
  bool cycles = false;
  uint64_t runs = 0;
  double wall = 0;       // of one run, median; 0 where no event says
  double explained = 0;  // part of the wall time that the nodes' times add up to, median over the runs; 0: not known
  double sum = 0;        // of the nodes' times
  std::vector<NodeRow> nodes;                // the longest first
  std::vector<GroupRow> operators, kernels;  // likewise; no kernels where they say nothing more
};

// What a call did: itself and its parts, in the order in which they began.
struct Phase {
  std::string name;
  double ms = 0;       // 0 where the clock is none of nanoseconds
  uint64_t times = 1;  // parts of one name behind each other are one row
  std::vector<Phase> parts;
};

// Events of calls that are no runs ("compile", "load") are left out. Usually one table; one more where a device counts
// cycles; none where nothing ran.
std::vector<RunTable> run_tables(const std::vector<ProfileEvent> &events);

// The events of one run: of those that did something, the one of median length. A table of it alone has sums that add
// up, which medians of each node by itself do not.
std::vector<ProfileEvent> median_run(const std::vector<ProfileEvent> &events);

// The calls that are no runs.
std::vector<Phase> phase_trees(const std::vector<ProfileEvent> &events);

// As texts of at most 120 columns; long words are cut in the middle. `top`: how many rows; 0: all.
std::string nodes_text(const RunTable &table, size_t top);
std::string groups_text(const RunTable &table);
std::string phases_text(const std::vector<Phase> &calls, size_t top);

}  // namespace tools
