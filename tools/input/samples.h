// SPDX-License-Identifier: Apache-2.0
// Samples of a model's inputs in files: a folder of pictures or arrays, or of folders with a file for each input.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/input/input_files.h"

namespace tools {

// A sample: the file of each input, by the input's name, and what to call it.
struct SampleFiles {
  std::string name;
  std::map<std::string, std::string> files;
};

// What a path holds:
//   a file                     one sample of a model of one input
//   FOLDER/*.png, *.npy, ...   one sample each, of a model of one input
//   FOLDER/*/                  one sample each: NAME.npy, NAME.pb or NAME.png for each input, or input_0.pb,
//   input_1.pb, ... in
//                              the model's order, as ONNX's tests have it
// In the order of their names. Other files (labels, a README) are passed over. Throws UsageError where there is none,
// or a sample lacks an input. `subject`: what messages begin with, "--calibration".
std::vector<SampleFiles> find_samples(const std::string &path, const std::vector<qr::TensorInfo> &inputs,
                                      const char *subject);

}  // namespace tools
