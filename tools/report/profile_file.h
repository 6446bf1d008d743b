// SPDX-License-Identifier: Apache-2.0
// The events of a file that --profile=FILE wrote, as they were before.
#pragma once

#include <string>
#include <vector>

#include "tools/report/profile_table.h"

namespace tools {

// .csv or .json (a Chrome trace); what lies within what is found by the times there. Throws UsageError.
std::vector<ProfileEvent> read_profile_file(const std::string &path);

}  // namespace tools
