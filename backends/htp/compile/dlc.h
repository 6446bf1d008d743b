// SPDX-License-Identifier: Apache-2.0
// The graph as a DLC file, which Qualcomm's tools read: written by libQnnIr.so, a backend of its own.
#pragma once

#include "backends/htp/compile/writer.h"

namespace quarry::htp {

// As the option dump_qnn_ir_dlc asks for; nothing without it.
Status dump_dlc(const Engine &engine, const Draft &draft, const CompileOptions &options, const Writer::Step &step);

}  // namespace quarry::htp
