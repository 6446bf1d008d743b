// SPDX-License-Identifier: Apache-2.0
// Events that a program waits for beside others: descriptors, readable while the event is raised.
#pragma once

namespace quarry::os {

using EventHandle = int;
constexpr EventHandle kNoEvent = -1;

// kNoEvent where the system gives none, with the reason in errno.
EventHandle make_event(bool raised) noexcept;
void close_event(EventHandle event) noexcept;

// Safe in a signal handler. An event that is raised already stays so.
void raise_event(EventHandle event) noexcept;
void lower_event(EventHandle event) noexcept;

// In a child of fork(): the handle keeps its number and becomes an event of this process alone, not raised; the
// parent's own is not touched. False where the system gives none.
bool renew_event(EventHandle event) noexcept;

}  // namespace quarry::os
