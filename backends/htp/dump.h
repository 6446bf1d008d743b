// SPDX-License-Identifier: Apache-2.0
// What is compiled, written to files for who looks for a mistake: the graph as the library gets it, and which operation
// came from which node.
#pragma once

#include "backends/htp/config.h"
#include "backends/htp/lower/draft.h"

namespace quarry::htp {

// As the options dump_json_qnn_graph and enable_framework_op_trace ask for; nothing without them. `sources`: the names
// of the model's nodes.
Status dump_draft(const Draft &draft, const Vector<String> &sources, const CompileOptions &options);

}  // namespace quarry::htp
