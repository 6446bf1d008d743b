// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "base/status.h"
#include "graph/graph.h"

namespace quarry::qir {

// Files of a model's external data that lie in no folder.
class ExternalSource {
 public:
  // The whole file, which stays as long as the model; nothing: there is none of that name.
  virtual Result<std::optional<Bytes>> find(std::string_view location) = 0;

 protected:
  ~ExternalSource() = default;
};

}  // namespace quarry::qir
