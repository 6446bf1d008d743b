// SPDX-License-Identifier: Apache-2.0
// libquarry-quantize, opened when `quarry quantize` or the help of it is asked for: the other commands start without
// it, and are built without it.
#pragma once

namespace tools {

// Before the first call of a function of quarry/quantize.h. Throws Failure where the library cannot be opened.
void open_quantize_library();

}  // namespace tools
