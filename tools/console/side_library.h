// SPDX-License-Identifier: Apache-2.0
// Libraries beside libquarry that a command opens when it is asked for: the other commands start without them, and are
// built without them.
#pragma once

#include <string>

namespace tools {

class SideLibrary {
 public:
  // Throws Failure where it cannot be opened. `command`: "quarry quantize"; `way_out`: how it is had.
  SideLibrary(const std::string &file, const std::string &command, const std::string &way_out);
  // A function of the library's; throws Failure where it has none of that name.
  void *function(const char *name) const;

 private:
  std::string file_;
  void *library_;
};

}  // namespace tools
