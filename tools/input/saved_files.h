// SPDX-License-Identifier: Apache-2.0
// Names for the files that `run --save` writes: no two results share one, and no input is written over.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tools {

class SavedFiles {
 public:
  // Makes the folder where there is none. `inputs`: the files that are read and must stay.
  SavedFiles(std::string folder, const std::vector<std::string> &inputs);
  // A file for this output: "OUTPUT.npy", or "INPUT.OUTPUT.npy" where `input` names what it was computed from; with
  // "-2", "-3", ... after the name where another result or an input has it.
  std::string path(const std::string &input, const std::string &output);

 private:
  bool is_input(const std::string &path) const;

  std::string folder_;
  std::vector<std::string> taken_;
  std::vector<std::pair<uint64_t, uint64_t>> inputs_;  // device and number of each
};

// The part of a path behind the last '/'.
std::string base_name(const std::string &path);
// A name of a tensor or file as a part of a file's name: no separators and no control characters.
std::string file_stem(std::string name);

}  // namespace tools
