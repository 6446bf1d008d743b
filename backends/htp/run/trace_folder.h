// SPDX-License-Identifier: Apache-2.0
// A working folder for one call: the library writes what it traces into the folder that its caller works in.
#pragma once

#include <functional>

#include "base/status.h"

namespace quarry::htp {

// Calls `body` on a thread whose working folder is `folder`; that of the process stays what it is. An error: there is
// no such folder, or the system gives a thread none of its own; `body` was not called then.
Status in_folder(std::string_view folder, const std::function<void()> &body);

}  // namespace quarry::htp
