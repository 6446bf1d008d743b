// SPDX-License-Identifier: Apache-2.0
// What `quarry export` and `quarry view` share: a backend is asked about a model's nodes, and the graph that it is
// asked about is written to a file (option graph.export).
#pragma once

#include <string>

#include "command.h"

namespace tools {

// The report of qr_model_check, as JSON text.
std::string check_and_export(const qr::Model &model, const SessionFlags &flags, const qr::Runtime &runtime,
                             const std::string &path);

}  // namespace tools
