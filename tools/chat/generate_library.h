// SPDX-License-Identifier: Apache-2.0
// libquarry-generate, opened when `quarry chat` runs.
#pragma once

namespace tools {

// Before the first call of a function of quarry/generate.h. Throws Failure where the library cannot be opened.
void open_generate_library();

}  // namespace tools
