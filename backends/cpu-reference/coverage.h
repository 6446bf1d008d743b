// SPDX-License-Identifier: Apache-2.0
// Which nodes and operators cpu-reference runs, and what reports say of them; so does `cpu`, whose last resort it is.
#pragma once

#include "backends/common/plugin_support.h"
#include "backends/cpu-reference/program.h"
#include "kernels/reference/kernel.h"

namespace quarry::reference {

// What reports say of a node that its kernel runs.
inline String path_of(qir::Op op) { return format("reference: %s", qir::op_name(op)); }

// The slot `check` of a compiler.
inline Status give_verdicts(const qr_compile_request &request, const qr_verdict_sink &verdicts) {
  QR_ASSIGN_OR_RETURN(const qir::Graph graph, plugin::read_request(request));
  for (std::uint32_t i = 0; i < graph.nodes.size(); ++i) {
    QR_RETURN_IF_ERROR(stop_status("check"));
    plugin::report_verdict(verdicts, i, check_node(graph, graph.nodes[i]), QR_PLUGIN_PATH_REFERENCE,
                           path_of(graph.nodes[i].op));
  }
  return {};
}

// The slot `supports`.
inline std::int32_t supports(qr_plugin_string domain, qr_plugin_string name, qr_plugin_string *out_types,
                             qr_plugin_string *out_note) {
  const qir::OpRow *const op = qir::find_op(plugin::view(domain), plugin::view(name));
  const KernelRow *const row = op ? find_kernel(op->op) : nullptr;
  *out_types = plugin::text(row ? row->types : "");
  *out_note = plugin::text(row ? row->note : "");
  return row ? 1 : op ? 0 : -1;
}

}  // namespace quarry::reference
