// SPDX-License-Identifier: Apache-2.0
// Shapes of runs between which a state alone has grown: some dimensions of the inputs differ, all by one number. Called
// by dynamic_region.cpp, for one plan to serve many lengths.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace quarry::dynamic {

class Lengths {
 public:
  // Of runs of one model. Nothing where they differ otherwise, or not at all.
  static std::optional<Lengths> from(const Vector<qir::Shape> &first, const Vector<qir::Shape> &other);
  bool grows(std::size_t input, std::size_t axis) const { return each_[input][axis] != 0; }
  // By how much shapes are longer than the first; nothing: they are no such shapes.
  std::optional<std::int64_t> longer(const Vector<qir::Shape> &shapes) const;
  Vector<qir::Shape> at(std::int64_t longer) const;

 private:
  Vector<qir::Shape> first_, each_;  // `each_`: 1 where it grows
};

}  // namespace quarry::dynamic
