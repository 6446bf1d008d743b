// SPDX-License-Identifier: Apache-2.0
// The model that the command line names.
#pragma once

#include <quarry/quarry.hpp>

#include <string>

namespace tools {

// A file, or "-": standard input, where it lies if that is a regular file, else read once and kept to the program's
// end. Borrows `path`.
qr_model_source model_source(const std::string &path);

}  // namespace tools
