// SPDX-License-Identifier: Apache-2.0
// Binary sections: what Qualcomm's tools write of the weights of a context that may be updated (LoRA). A device puts
// them in place of those that are there. What is in them only the library knows; what is plainly something else never
// reaches it, which would end the process.
#pragma once

#include "backends/htp/engine/engine.h"
#include "base/text.h"

namespace quarry::htp {

struct Section {
  String graph, path;
};
// The lines GRAPH;PATH of a text file, which the option htp.lora_sections names.
Result<Vector<Section>> read_section_list(std::string_view path);

// Gives the library what is in the file, for a graph that is loaded.
Status apply_section(const Engine &engine, qnn::Handle context, qnn::Handle graph, const Section &section);

}  // namespace quarry::htp
