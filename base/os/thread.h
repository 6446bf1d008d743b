// SPDX-License-Identifier: Apache-2.0
// Threads of ours, and the processors that they may run on.
#pragma once

#include <bitset>
#include <cstdint>

namespace quarry::os {

// A thread that was started and not joined yet: what the system knows it by.
struct Thread {
  std::uintptr_t handle = 0;
};

// The thread leaves the application's signals to the application's own threads. False where the system refuses it.
// `name` is what debuggers and profilers show, at most 15 bytes.
bool start_thread(Thread *out, const char *name, void *(*body)(void *), void *argument) noexcept;
void join_thread(Thread thread) noexcept;

// Lets another thread have the processor.
void yield_thread() noexcept;

// The system's number of the calling thread, never 0.
std::uint32_t current_thread_id() noexcept;

constexpr std::uint32_t kMostProcessors = 1024;  // that may be named
using ProcessorSet = std::bitset<kMostProcessors>;

// Those that this process may use. None: the system has more of them than a set can name.
ProcessorSet usable_processor_set() noexcept;
// How many they are, at least 1.
std::uint32_t usable_processors() noexcept;

// The thread runs on these alone. A processor that went since they were looked up is no reason to stop working, so a
// refusal is not reported.
void pin_thread(Thread thread, const ProcessorSet &to) noexcept;

}  // namespace quarry::os
