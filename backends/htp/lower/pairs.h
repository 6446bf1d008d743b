// SPDX-License-Identifier: Apache-2.0
// 64-bit integers that a graph only moves, as pairs of i32 on one more axis: the device has no 64 bits, and moves all
// that it has of them. The caller's bytes are such pairs already.
#pragma once

#include "graph/store.h"

namespace quarry::htp {

// What the session has at an input or output that is pairs in the graph; Unknown: what the graph has.
struct HostIntegers {
  Vector<DType> inputs, outputs;
};
// Where no node computes with what goes through a tensor, or takes it for an index. Nothing is done where no input is
// such and no constant has more than 32 bits.
HostIntegers take_moved_integers_as_pairs(qir::Graph &graph, qir::Store &store);

}  // namespace quarry::htp
