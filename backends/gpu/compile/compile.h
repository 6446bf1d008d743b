// SPDX-License-Identifier: Apache-2.0
// A graph made into a plan: passes, lowering, storage, constants.
#pragma once

#include "backends/gpu/program/compiled_plan.h"
#include "backends/gpu/program/target.h"

namespace quarry::gpu {

// Whether the host may run operators of data-dependent shapes, and small parts of what depends on them (option
// gpu.tail).
enum class HostRegion : std::uint8_t { Refused, Allowed };

// Whether the rest of a dynamic region, behind the operators that the host runs, is planned.
bool is_planned(const qir::Graph &region, const qir::Graph &rest) noexcept;

// Where a node is refused, the plan is of no use. `sources`: the graph is a part of one of so many nodes, and its nodes
// know theirs; 0: it is whole. `prepare`: of a range, the option shape.prepare; a plan of such shapes says which nodes
// are refused.
Result<Compiled> compile(qir::Graph graph, std::span<const qir::Bytes> segments, const Target &target,
                         HostRegion host_region = HostRegion::Refused, std::size_t sources = 0,
                         std::string_view prepare = {});

}  // namespace quarry::gpu
