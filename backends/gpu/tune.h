// SPDX-License-Identifier: Apache-2.0
// How products of a plan are cut into tiles on a device. A plan holds the answer, so a blob does, too.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/gpu/engine.h"
#include "backends/gpu/plan.h"
#include "backends/gpu/target.h"

namespace quarry::gpu {

// What the device computes.
Target target_of(const opencl::Device &device);

// By a rule: what processors and graphics processors like.
void fit_tiles(Plan &plan, const opencl::Device &device);

// By measuring: for each different product some ways are compiled and run on memory of their own; the quickest stays.
Status measure_tiles(Plan &plan, const Engine &engine, const plugin::StopToken &stop);

}  // namespace quarry::gpu
