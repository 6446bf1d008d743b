// SPDX-License-Identifier: Apache-2.0
// Which nodes and operators cpu-reference runs; so does `cpu`, whose last resort it is.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/kernel.h"
#include "backends/cpu-reference/program.h"

namespace quarry::reference {

// The slot `check` of a compiler.
inline Status give_verdicts(const qr_compile_request &request, const qr_verdict_sink &verdicts) {
  QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(request));
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    const Status refused = check_node(graph, graph.nodes[i]);
    verdicts.verdict(verdicts.self, i, refused.ok() ? 1 : 0, plugin::text(refused.id()),
                     plugin::text(refused.message()), plugin::text(refused.hint()));
  }
  return {};
}

// The slot `supports`.
inline std::int32_t supports(std::uint32_t op, qr_plugin_string *out_types, qr_plugin_string *out_note) {
  const KernelRow *row = op < qir::op_count() ? find_kernel(static_cast<qir::Op>(op)) : nullptr;
  *out_types = plugin::text(row ? row->types : "");
  *out_note = plugin::text(row ? row->note : "");
  return row ? 1 : 0;
}

}  // namespace quarry::reference
