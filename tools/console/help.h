// SPDX-License-Identifier: Apache-2.0
// Help as wide as the terminal, with examples at its end.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace tools {

// Columns of the terminal that standard output is; COLUMNS where it is set, 80 where nobody says.
size_t terminal_width();

// `text` in lines of at most `width` columns, each but the first behind `indent` blanks; words are not cut.
std::string wrapped(std::string_view text, size_t width, size_t indent);

// Command lines that show what a subcommand is for, as somebody would type them in a folder with these files:
// model.onnx, model.qrm, picture.jpg, pictures/, labels.txt. A test runs each.
std::vector<std::string> examples_of(std::string_view command);

// Lays out the help of the program and of every subcommand.
void lay_out_help(CLI::App &app);

}  // namespace tools
