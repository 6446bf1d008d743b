// SPDX-License-Identifier: Apache-2.0
// Events for who traces the whole machine: event tracing (ETW) on Windows, where the provider is "Quarry",
// 3c447214-010a-5e4d-7ec1-8c8d478c2eca. Elsewhere nobody listens, and nothing is compiled.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace quarry::os {

// What an event is about: who listens chooses by these bits and by level (2 errors, 3 warnings, 4 what happens, 5 all).
enum class TraceKeyword : std::uint64_t { Log = 1, Profile = 2 };

struct TraceField {
  constexpr TraceField(const char *of, std::string_view value) noexcept : name(of), text(value), is_text(true) {}
  constexpr TraceField(const char *of, std::uint64_t value) noexcept : name(of), number(value) {}
  const char *name;
  std::string_view text;  // UTF-8; what is over 8 kB is cut off
  std::uint64_t number = 0;
  bool is_text = false;
};

#if defined(_WIN32)
bool is_traced(unsigned level, TraceKeyword keyword) noexcept;
// At most 8 fields.
void trace(const char *event, unsigned level, TraceKeyword keyword, std::initializer_list<TraceField> fields) noexcept;
#else
constexpr bool is_traced(unsigned, TraceKeyword) noexcept { return false; }
inline void trace(const char *, unsigned, TraceKeyword, std::initializer_list<TraceField>) noexcept {}
#endif

}  // namespace quarry::os
