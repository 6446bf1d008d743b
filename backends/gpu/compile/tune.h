// SPDX-License-Identifier: Apache-2.0
// How matrix multiplications of a plan are cut into tiles on a device. A plan holds the answer, so a blob does, too.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/gpu/compile/compile.h"
#include "backends/gpu/engine/engine.h"

namespace quarry::gpu {

// What the device computes, and whether it is known to like images.
Target target_of(const opencl::Device &device);

// By a rule: what processors and graphics processors like.
void fit_tiles(Plan &plan, const opencl::Device &device);

// A graph made into a plan whose multiplications go by the quickest of all paths on the device: convolutions by
// Winograd's form or not, each cut as measure_tiles does.
Result<Compiled> compile_measured(const qir::Graph &graph, std::span<const qir::Bytes> segments, Target target,
                                  HostRegion host_region, const Engine &engine, const plugin::StopToken &stop);

// By measuring: for each different multiplication some variants are compiled and run on memory of their own; the
// quickest stays.
Status measure_tiles(Plan &plan, const Engine &engine, const plugin::StopToken &stop, Images images = Images::None);

}  // namespace quarry::gpu
