// SPDX-License-Identifier: Apache-2.0
// Where figures were measured: what one needs to compare them with others.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tools {

// The commit that the program was built from; "unknown" outside a git tree.
const char *commit();

// Processor, how many there are and may be used, their governor, system, load, versions, time. What the system does not
// say is null.
nlohmann::json environment();

// What the threads of this process have had of the processors, in ms; 0 where the system does not say.
double processor_ms();

}  // namespace tools
