// SPDX-License-Identifier: Apache-2.0
// This process.
#pragma once

#include <cstdint>

namespace quarry::os {

// The system's number of it, never 0.
std::uint32_t process_id() noexcept;

// It has rights that its caller has not, and must not do what the caller's environment says.
bool is_privileged() noexcept;

// A page of zeros that every child of fork() finds zeroed anew. nullptr: the system cannot do so.
void *make_page_zeroed_by_fork() noexcept;
void free_page_zeroed_by_fork(void *page) noexcept;

}  // namespace quarry::os
