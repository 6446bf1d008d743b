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

TEST_CASE("the system knows the file of a library") {
  CHECK_EQ(library_file("/said", nullptr), "/said");
  static const int here = 0;
  CHECK_EQ(library_file("a/relative/name", &here), std::filesystem::read_symlink("/proc/self/exe").string());
  CHECK_EQ(library_file(nullptr, &here), std::filesystem::read_symlink("/proc/self/exe").string());
  int nowhere = 0;  // on the stack, which is of no file
  CHECK_EQ(library_file("name", &nowhere), "");
  CHECK_EQ(library_file("name", nullptr), "");
}

}  // namespace
}  // namespace quarry
