// SPDX-License-Identifier: Apache-2.0
// A record as it is written: each entry is the system's before the call that it is of goes on.
#pragma once

#include <map>

#include "backends/htp/record/format.h"
#include "base/open_fd.h"
#include "base/status.h"

namespace quarry::record {

// Memory that the library knows by a handle, where it lies in this process.
struct Mapped {
  void *base = nullptr;  // of the mapping
  std::uint64_t mapped = 0;
  void *data = nullptr;  // in it
  std::uint64_t bytes = 0;
};

class RecordFile {
 public:
  // Replaces a record that is there; other files and those that another process writes are refused.
  Status open(std::string_view path, const Head &head);
  // The number of these bytes in the file, which it has once.
  std::uint64_t keep(const void *data, std::uint64_t size, bool is_weight);
  void add(EntryKind kind, const CallHead &call, const void *content, std::uint64_t size);
  // Why the file has ended, 0: it has not.
  int error() const noexcept { return error_; }
  const String &path() const noexcept { return path_; }

 private:
  void put(EntryKind kind, const void *head, std::uint64_t head_size, const void *content, std::uint64_t size);

  String path_;
  OpenFd fd_;
  bool keeps_weights_ = true;
  int error_ = 0;
  std::uint64_t bytes_entries_ = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint64_t, std::less<>,
           Alloc<std::pair<const std::pair<std::uint64_t, std::uint64_t>, std::uint64_t>>>
      numbers_;  // by sum and size
};

// What an entry's sum is of.
std::uint64_t entry_sum(const EntryHead &head, const void *first, std::uint64_t first_size, const void *second,
                        std::uint64_t second_size) noexcept;

}  // namespace quarry::record
