// SPDX-License-Identifier: Apache-2.0
// What a blob says, for readers; it needs no library.
#pragma once

#include "backends/htp/program/blob.h"

namespace quarry::htp {

// A JSON object: SoC, versions, sizes; of each graph its tensors with ids, types and encodings, and what it takes.
String describe_blob(const Blob &blob);

}  // namespace quarry::htp
