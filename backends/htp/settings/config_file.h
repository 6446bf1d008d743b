// SPDX-License-Identifier: Apache-2.0
// The JSON file of backend extensions (option htp.config_file): what it says, as options.
#pragma once

#include <span>

#include "base/status.h"

namespace quarry::htp {

class ConfigFile {
 public:
  // `text` is that of the file `path`. Everything in it is known and of the right kind, or it is refused.
  static Result<ConfigFile> parse(std::string_view text, std::string_view path);
  static Result<ConfigFile> read(std::string_view path);  // empty: there is none

  // What it says of an option, for a graph or (empty) for all of them; nullptr: nothing.
  const String *find(std::string_view key, std::string_view graph = {}) const noexcept;
  // All that it says of an option, whatever the graph.
  Vector<std::string_view> all(std::string_view key) const;
  // A graph that it names and that is not among these; empty: there is none.
  std::string_view stranger(std::span<const std::string_view> graphs) const noexcept;

 private:
  friend class ConfigReader;
  struct Entry {
    String graph, key, value;
  };
  Vector<Entry> entries_;
};

}  // namespace quarry::htp
