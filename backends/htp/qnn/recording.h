// SPDX-License-Identifier: Apache-2.0
// Calls of a library through libquarry-replay, which records them (option htp.record). It is opened here, and by nobody
// who does not ask for it.
#pragma once

#include "backends/htp/qnn/library.h"

namespace quarry::qnn {

// From here on the library is called by functions that record. `plugin_folder`: of LibraryPlaces.
Status record_calls(Library &library, const String &plugin_folder, std::string_view file, bool keeps_weights);

}  // namespace quarry::qnn
