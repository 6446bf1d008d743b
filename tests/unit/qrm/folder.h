// SPDX-License-Identifier: Apache-2.0
// A folder for one test; gone with everything in it when the test ends.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace quarry::test {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "quarry-qrm-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  Folder(const Folder &) = delete;
  Folder &operator=(const Folder &) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string &name) const { return (path_ / name).string(); }
  std::size_t count() const {
    using std::filesystem::directory_iterator;
    return static_cast<std::size_t>(std::distance(directory_iterator(path_), directory_iterator()));
  }

 private:
  std::filesystem::path path_;
};

}  // namespace quarry::test
