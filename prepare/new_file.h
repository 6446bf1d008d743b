// SPDX-License-Identifier: Apache-2.0
// Files that appear whole or not at all: each is written beside its place and put there at the end.
#pragma once

#include <cstdio>

#include "base/status.h"

namespace quarry::prepare {

// One file, or several that belong together: what commit has not put in its place is removed.
class NewFile {
 public:
  NewFile() = default;
  ~NewFile();
  NewFile(const NewFile &) = delete;
  NewFile &operator=(const NewFile &) = delete;

  Status open(std::string_view path);
  Status write(const void *data, std::uint64_t size);
  Status zeros(std::uint64_t count);
  // Everything is on its way to the disk: what can fail for want of room has failed. No more writing.
  Status close();
  // Takes the place of a file of that name. After that `undo` brings the one before back, until this object ends.
  Status put_in_place();
  void undo() noexcept;

 private:
  Status failed(int number) const;

  String path_, part_, before_;  // before_: the name that the file that was there has meanwhile
  std::FILE *file_ = nullptr;
  bool placed_ = false;
};

}  // namespace quarry::prepare
