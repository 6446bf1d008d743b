// SPDX-License-Identifier: Apache-2.0
// EPContext nodes: what another runtime compiled for one device, inside an ONNX model. The importer passes them on with
// these attributes; a backend that knows such contexts takes them, the others say what they are.
#pragma once

#include "base/status.h"
#include "graph/graph.h"

namespace quarry {

inline bool is_ep_context(const qir::Node &node) noexcept {
  return node.op == qir::Op::Custom && node.custom && node.custom->type == "EPContext" &&
         node.custom->domain == "com.microsoft";
}

inline Status refuse_ep_context(const qir::Node &node, const char *why, std::string_view hint) {
  const auto text = [&](const char *key) {
    const String value = printable(node.get_string(key, ""));
    return value.empty() ? String("not given") : "'" + value + "'";
  };
  return Status::error(
      ErrorId::onnx_ep_context,
      format("EPContext is a context that another runtime compiled (source %s, SDK version %s, main_context %lld, "
             "embed_mode %lld): %s",
             text("source"), text("ep_sdk_version"), node.get_int("main_context", 1), node.get_int("embed_mode", 1),
             why),
      hint);
}

}  // namespace quarry
