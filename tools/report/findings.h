// SPDX-License-Identifier: Apache-2.0
// What the outputs of detectors and segmenters say about a picture: boxes, masks.
#pragma once

#include <quarry/quarry.hpp>

#include <optional>
#include <string>
#include <vector>

#include "tools/input/image.h"

namespace CLI {
class App;
}

namespace tools {

struct FindingFlags {
  std::string form = "auto";
  double least_score = 0.4, most_overlap = 0.45;

  void add_to(CLI::App &command, const char *group);
};

// In pixels of the model's input; `kind` counts the label's line from 0.
struct Box {
  double left = 0, top = 0, right = 0, bottom = 0, score = 0;
  int64_t kind = 0;
  std::vector<bool> mask;  // of the input's pixels, where the model says which are the thing's
};

// The kind of each position; the whole lies over the whole input.
struct Mask {
  int64_t width = 0, height = 0;
  std::vector<int64_t> kinds;
};

struct Findings {
  std::string form;
  int64_t kinds = 0;        // how many names a list of labels has; 0: the outputs do not say
  bool background = false;  // the first kind is none of the things looked for, and a list of labels may leave it out
  std::vector<Box> boxes;   // the best first
  std::optional<Mask> mask;
};

// Reads the outputs as the form that they have, or that was asked for. Throws UsageError naming what was found and
// expected.
Findings find(const std::vector<qr::TensorInfo> &infos, const std::vector<qr::Tensor> &outputs, const Placement &place,
              const FindingFlags &flags);

}  // namespace tools
