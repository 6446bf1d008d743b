// SPDX-License-Identifier: Apache-2.0
// --profile: tables of where the time goes on standard output, figures for JSON, and the events in a file.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <quarry/quarry.hpp>

#include <string>
#include <vector>

#include "tools/report/profile_table.h"

namespace tools {

std::vector<ProfileEvent> read_events(const qr::Profile &profile);

class ProfileFlags {
 public:
  // `subject`: what is profiled, for the help: "of the runs".
  void add_to(CLI::App &command, const std::string &subject);
  // Before any work: throws UsageError for a file whose ending is none of the two. `files`: what the command takes for
  // inputs; events do not go there.
  void check(const std::vector<std::string> &files = {}) const;
  bool wanted() const { return !value_.empty(); }
  bool only_tables() const { return wanted() && file().empty(); }  // no file to write them to
  size_t top() const { return top_; }

  // What it all says, and the file where one was asked for. `runs_title` stands above the tables of runs; `show`:
  // print the tables. Throws as write_text does, when the tables have been printed.
  void tell(const qr::Profile &profile, const std::string &runs_title, bool show) const;
  static nlohmann::json json(const qr::Profile &profile);

 private:
  std::string file() const;

  std::string value_;  // "true" where no file is given
  size_t top_ = 20;
};

}  // namespace tools
