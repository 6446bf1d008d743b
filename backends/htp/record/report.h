// SPDX-License-Identifier: Apache-2.0
// What a record has and what a replay found, as JSON (docs/formats/record.md).
#pragma once

#include "backends/htp/record/replay.h"

namespace quarry::record {

// `library` nullptr: no call was made. `lists`: every call by itself.
String report_json(std::string_view path, const Reader &reader, const Outcome &outcome, const qnn::Library *library,
                   bool lists);

}  // namespace quarry::record
