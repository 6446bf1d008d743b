// SPDX-License-Identifier: Apache-2.0
// Reasons that many nodes share, each once with the nodes that it is of.
#pragma once

#include <string>
#include <vector>

namespace tools {

// A reason of the library's as its parts: "node conv1 (Conv): found ..." or "QR-O0005 Frob 'n': operator ...". `name`
// is empty where it speaks of no node.
struct Reason {
  std::string before, name, after;
};
Reason split_reason(const std::string &text);

// "conv1", "conv1, conv2", "conv1, conv2, conv3 and 9 more".
std::string some_names(const std::vector<std::string> &names);

// The reasons in the order in which they come, each text once: "node conv1 (Conv): found ... (2 nodes: conv1, conv2)".
std::vector<std::string> each_once(const std::vector<std::string> &reasons);

}  // namespace tools
