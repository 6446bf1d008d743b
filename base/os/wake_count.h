// SPDX-License-Identifier: Apache-2.0
// What a handler of signals wakes a thread by (not on Windows).
#pragma once

namespace quarry::os {

void begin_wake_count() noexcept;
void add_wake() noexcept;    // safe in a handler
void await_wake() noexcept;  // sleeps until there is one, and takes it

}  // namespace quarry::os
