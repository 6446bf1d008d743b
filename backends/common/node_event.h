// SPDX-License-Identifier: Apache-2.0
// What profiles get of nodes. Nothing here allocates: runs must not.
#pragma once

#include <string_view>

#include "base/dtype.h"
#include "quarry/backend.h"

namespace quarry::plugin {

// The tensors of a node: "1x3x8x8 f32, 4x3x3x3 f32 -> 1x4x8x8 f32". Those for which there is no room are "...".
class ShapesText {
 public:
  void input(DType dtype, const std::int64_t *dims, std::size_t rank) noexcept { add(false, dtype, dims, rank); }
  void output(DType dtype, const std::int64_t *dims, std::size_t rank) noexcept { add(true, dtype, dims, rank); }
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  void add(bool is_output, DType dtype, const std::int64_t *dims, std::size_t rank) noexcept;
  void append(std::string_view part) noexcept;
  static constexpr std::size_t kRoom = 256;
  char text_[kRoom];
  std::size_t size_ = 0;
  bool any_output_ = false, full_ = false;
};

// A node that ran on the host.
struct NodeRun {
  std::uint64_t id = 0;    // as in qr_plugin_event
  std::int64_t node = -1;  // index of the source node in the graph's QIR; -1: no node's
  std::string_view name, op;
  std::uint64_t begin_ns = 0, end_ns = 0;
  // What the level "linting" adds; empty where it is not known or there is none.
  std::string_view kernel;  // what ran it
  std::string_view shapes;  // as in ShapesText
  std::string_view fused;   // names of other nodes that ran with it: "relu_1, add_3"
  // Of its operands, weights too, each counted once; working memory does not count.
  std::uint64_t bytes_read = 0, bytes_written = 0;
};

// Whether a profile (may be null) wants events of nodes, and whether it wants more of them than their times.
inline bool wants_nodes(const qr_profile_sink *profile) noexcept {
  return profile && profile->level >= QR_PLUGIN_PROFILE_DETAILED;
}
inline bool wants_node_facts(const qr_profile_sink *profile) noexcept {
  return profile && profile->level >= QR_PLUGIN_PROFILE_LINTING;
}

// Reports a node to a profile, as much as its level wants.
void report_node(const qr_profile_sink &profile, const NodeRun &ran) noexcept;

// The event of a node, its name and times alone.
qr_plugin_event node_event(const NodeRun &ran) noexcept;

}  // namespace quarry::plugin
