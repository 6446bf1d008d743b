// SPDX-License-Identifier: Apache-2.0
// Segments of a container, by who uses them.
#pragma once

#include <nlohmann/json.hpp>
#include <quarry/quarry.hpp>
#include <set>
#include <string>
#include <vector>

namespace tools {

// The segments that a program or a graph (of what inspect says) names.
void add_segments(const nlohmann::json &part, std::set<size_t> &segments);

// The networks of a container, what is in it once for several of them, and how many bytes that saves.
void print_networks(const qr::Runtime &runtime, const std::string &file, const std::vector<std::string> &names);

}  // namespace tools
