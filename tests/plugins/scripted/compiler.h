// SPDX-License-Identifier: Apache-2.0
// The scripted backend's slots of the compiler, and the blob that it writes.
#pragma once

#include "backends/common/plugin_support.h"

namespace quarry::scripted {

extern const qr_plugin_compiler_api kCompiler;

// Why a node is refused; empty: it is not.
String refusal(const qir::Graph &graph, const qir::Node &node);
const char *kernel_of(const qir::Node &node) noexcept;
qr_plugin_plan plan_of(const qir::Graph &graph);
Result<Vector<qir::Graph>> read_blob(const qr_blob &blob);

}  // namespace quarry::scripted
