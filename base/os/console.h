// SPDX-License-Identifier: Apache-2.0
// Standard input, output and errors of a program, and the terminal that they may be.
#pragma once

#include <cstdint>
#include <cstdio>

namespace quarry::os {

bool is_terminal(int fd) noexcept;
// 0: no terminal, or one that does not say it.
std::uint32_t terminal_columns(int fd) noexcept;

// First in main(). Descriptors 0, 1 and 2 that the caller of the program left closed are taken, so that no file gets
// their number: reading 0 and writing 1 and 2 fail. A file that may not grow further (ulimit -f) is an error like a
// full disk. A console of Windows shows UTF-8 and knows the escapes of other terminals.
void begin_program() noexcept;
// A stream of the program's own onto what standard output is; what others print there goes to standard error from here
// on. nullptr: it cannot be written, and all is as it was.
std::FILE *take_standard_output() noexcept;
// Bytes of standard input. nullptr: errno.
std::FILE *open_standard_input() noexcept;
// A file that is read as bytes. nullptr: errno.
std::FILE *open_stream(const char *path) noexcept;

}  // namespace quarry::os
