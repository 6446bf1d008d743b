// SPDX-License-Identifier: Apache-2.0
#include "backends/dynamic/lengths.h"

namespace quarry::dynamic {

std::optional<Lengths> Lengths::from(const Vector<qir::Shape> &first, const Vector<qir::Shape> &other) {
  Lengths lengths;
  lengths.first_ = lengths.each_ = first;
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (first[i].size() != other[i].size()) return std::nullopt;
    for (std::size_t d = 0; d < first[i].size(); ++d) lengths.each_[i][d] = first[i][d] != other[i][d];
  }
  if (!lengths.longer(other)) return std::nullopt;
  return lengths;
}

std::optional<std::int64_t> Lengths::longer(const Vector<qir::Shape> &shapes) const {
  std::optional<std::int64_t> longer;
  for (std::size_t i = 0; i < first_.size(); ++i) {
    if (first_[i].size() != shapes[i].size()) return std::nullopt;
    for (std::size_t d = 0; d < first_[i].size(); ++d) {
      const std::int64_t by = shapes[i][d] - first_[i][d];
      if (each_[i][d] == 0 ? by != 0 : by != longer.value_or(by)) return std::nullopt;
      if (each_[i][d] != 0) longer = by;
    }
  }
  return longer;
}

Vector<qir::Shape> Lengths::at(std::int64_t longer) const {
  Vector<qir::Shape> shapes = first_;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    for (std::size_t d = 0; d < shapes[i].size(); ++d) shapes[i][d] += longer * each_[i][d];
  return shapes;
}

}  // namespace quarry::dynamic
