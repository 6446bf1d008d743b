// SPDX-License-Identifier: Apache-2.0
// `quarry run --draw`: what a detector or segmenter says, on the photograph that it saw.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/report/findings.h"

namespace tools {

struct DrawFlags {
  std::string file;  // empty: nothing is drawn
  FindingFlags finding;

  void add_to(CLI::App &command);
  bool wanted() const { return !file.empty(); }
};

// One picture of a run: the file, and the input that it went to with its shape known.
struct Drawn {
  std::string photo;
  qr::TensorInfo input;
};

// Writes the picture, prints a line for each thing where `show`, and answers the same as JSON. Labels that do not fit
// the outputs are a UsageError.
nlohmann::json draw(const DrawFlags &flags, const Drawn &drawn, const ImageFlags &image,
                    const std::vector<std::string> &labels, const std::vector<qr::TensorInfo> &infos,
                    const std::vector<qr::Tensor> &outputs, bool show);

}  // namespace tools
