// SPDX-License-Identifier: Apache-2.0
#include "base/paths.h"

#include <unistd.h>

#include <filesystem>

#include "tests/support/check.h"
#include "tests/unit/qrm/folder.h"

namespace quarry {
namespace {

TEST_CASE("a relative path is of the working folder of now") {
  const test::Folder folder;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.file(""));
  const std::string here = std::filesystem::current_path().string();
  CHECK_EQ(absolute_path("a/b"), here + "/a/b");
  CHECK_EQ(absolute_path("././a"), here + "/a");
  CHECK_EQ(absolute_path("../a"), here + "/../a");
  CHECK_EQ(absolute_path("/a"), "/a");
  CHECK_EQ(absolute_path(""), "");
  std::filesystem::current_path("/");
  CHECK_EQ(absolute_path("a"), "/a");
  std::filesystem::current_path(before);
}

}  // namespace
}  // namespace quarry
