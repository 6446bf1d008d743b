// SPDX-License-Identifier: Apache-2.0
// Wrong command lines, reported as every other mistake is: subject, what was found, what was expected, and the way out.
#pragma once

#include <CLI/CLI.hpp>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/console/failure.h"

namespace tools {

// What the value of a flag may be.
CLI::Validator whole_number(int64_t low, int64_t high = INT64_MAX);
enum class Sign : uint8_t { Any, NotNegative, Positive, NotZero };
CLI::Validator number(Sign sign);
CLI::Validator name_with(const std::string &ending);
CLI::Validator one_of(std::vector<std::string> words);

// What somebody does who has typed `quarry` and nothing else.
std::string first_steps();

// The words of a command line, without the program's name, as the parser is to see them: `help run` is `run --help`.
// Throws UsageError for what the parser would misread.
std::vector<std::string> command_words(const CLI::App &app, int argc, const char *const *argv);

// What the parser refused.
UsageError usage_error(const CLI::App &app, const CLI::ParseError &error);

// What it took and no subcommand can use: an empty name of a file.
void check_parsed(const CLI::App &app);

}  // namespace tools
