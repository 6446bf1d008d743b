// SPDX-License-Identifier: Apache-2.0
// What goes wrong in the program itself, how it and the library's errors are reported, and the nearest of several
// words.
#pragma once

#include <quarry/quarry.hpp>

#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tools {

// Something that the program could not do: exit status 3. `hint` may be empty.
struct Failure : std::runtime_error {
  explicit Failure(const std::string &message, std::string hint_text = {})
      : std::runtime_error(message), hint(std::move(hint_text)) {}
  std::string hint;
};

// A mistake of the user's that the library never saw: exit status 2.
struct UsageError : Failure {
  using Failure::Failure;
};

// For memory whose size comes from a file or a model: where there is none, the Failure names what wanted it and how
// much.
[[noreturn]] void no_room(uint64_t bytes, const std::string &what);
template <class Body>
auto with_room(uint64_t bytes, const std::string &what, Body body) {
  try {
    return body();
  } catch (const std::bad_alloc &) {
    no_room(bytes, what);
  } catch (const std::length_error &) {  // more than there is address space
    no_room(bytes, what);
  }
}
inline std::vector<uint8_t> room_for(uint64_t bytes, const std::string &what) {
  return with_room(bytes, what, [&] { return std::vector<uint8_t>(static_cast<size_t>(bytes)); });
}

// An errno in words; where descriptors ran out, with how many the program may have.
std::string os_text(int number);

// Writes an error of the library to stderr: id, message, each reason, hint, and what to type where the command line has
// a flag for it.
void print_error(const qr::Error &error);

// Writes the exception that is being handled to stderr and gives the exit status; texts of the C++ library are not for
// users and stay inside.
int report_failure();
// The same as one line without a hint, for reports.
std::string failure_text();

// The word nearest to what was typed; empty when none is near.
std::string nearest_word(std::string_view typed, const std::vector<std::string> &words);
// "did you mean 'x'?", or nothing.
std::string did_you_mean(std::string_view typed, const std::vector<std::string> &words);

}  // namespace tools
