// SPDX-License-Identifier: Apache-2.0
// The calls that compile a graph, as C that Qualcomm's people know: written by libQnnSaver.so, a backend of its own.
// SoC and options are not in it, and no runs (htp.record has all of that).
#pragma once

#include "backends/htp/compile/writer.h"

namespace quarry::htp {

// As the option qnn_saver_path asks for; nothing without it.
Status save_calls(const Engine &engine, const Draft &draft, const CompileOptions &options, const Writer::Step &step);

}  // namespace quarry::htp
