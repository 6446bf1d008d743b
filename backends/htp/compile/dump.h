// SPDX-License-Identifier: Apache-2.0
// What is compiled, written to files for who looks for a mistake: the graph as the library gets it, and which operation
// came from which node.
#pragma once

#include "backends/htp/program/draft.h"
#include "backends/htp/settings/config.h"

namespace quarry::htp {

// Names of nodes may come twice, but not in a file.
class UniqueNames {
 public:
  String of(const String &name) {
    String made = name;
    for (std::size_t i = 1; !taken_.emplace(made, true).second; ++i) made = name + format("#%zu", i);
    return made;
  }

 private:
  StringMap<bool> taken_;
};

// A graph's name as part of that of a file, in no other folder.
String file_name_of(std::string_view graph);
// A file for it: into `folder`, or the working folder, under the names of the graph and the SoC, which are others for
// each.
String dump_path(std::string_view folder, const Draft &draft, const Soc &soc, std::string_view ending);

// As the options dump_json_qnn_graph and enable_framework_op_trace ask for; nothing without them. `sources`: the names
// of the model's nodes.
Status dump_draft(const Draft &draft, const Vector<String> &sources, const CompileOptions &options);

}  // namespace quarry::htp
