// SPDX-License-Identifier: Apache-2.0
// A graph as JSON, for who shows it: docs/formats/graph.md.
#pragma once

#include "base/json_writer.h"
#include "graph/graph.h"

namespace quarry::qir {

void describe_graph(const Graph &graph, std::string_view name, JsonWriter &json);

}  // namespace quarry::qir
