// SPDX-License-Identifier: Apache-2.0
// What changes a plan's steps after lowering, in the order in which compile.cpp calls it.
#pragma once

#include "backends/cpu/program/plan.h"

namespace quarry::cpu {

class NodePathTable;

// Makes one step of elementwise steps that come one behind the other (chain.cpp).
void chain_steps(Plan &plan, NodePathTable &paths);

// Lets steps read and write f16 and bf16 themselves where Casts stand beside them (float16_steps.cpp).
void read_float16(Plan &plan, NodePathTable &paths);

// Makes one step of Dequantize, a function of one element and Quantize (quantized_functions.cpp).
void fuse_quantized_functions(Plan &plan, NodePathTable &paths);

// Gives every arena and output value its offset, and lets elementwise steps write where they read (arena.cpp).
void assign_offsets(Plan &plan);

}  // namespace quarry::cpu
