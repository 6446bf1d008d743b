// SPDX-License-Identifier: Apache-2.0
// A container's kept graph as a backend reads it, of the outline that the core reads.
#pragma once

#include "formats/qrm/qrm.h"

namespace quarry::test {

// Constants point into the model.
inline Result<qir::Graph> kept_graph(const qrm::ValidatedModel &model, std::uint32_t index) {
  QR_ASSIGN_OR_RETURN(const qir::Outline outline, model.outline(index));
  const qrm::GraphInfo &info = model.metadata().graphs[index];
  QR_ASSIGN_OR_RETURN(const qir::Bytes bytes, model.segment(*info.qir_segment));
  QR_ASSIGN_OR_RETURN(const Vector<qir::Bytes> constants, model.mapped_segments(info.segments));
  QR_ASSIGN_OR_RETURN(qir::Graph graph, qir::read_graph(bytes, constants.data(), constants.size()));
  if (graph.nodes.size() != outline.node_count())
    return Status::errorf(ErrorId::internal, "test: found %zu nodes, expected the outline's %zu", graph.nodes.size(),
                          outline.node_count());
  for (std::size_t n = 0; n < graph.nodes.size(); ++n)
    if (outline.node_name(n) != graph.nodes[n].name || outline.op_text(n) != qir::op_text(graph.nodes[n]))
      return Status::errorf(ErrorId::internal, "test: found node '%s', expected '%s'", outline.op_text(n),
                            qir::op_text(graph.nodes[n]));
  return graph;
}

}  // namespace quarry::test
