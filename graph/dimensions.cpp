// SPDX-License-Identifier: Apache-2.0
#include "graph/dimensions.h"

#include <algorithm>

#include "base/checked.h"

namespace quarry::qir {
namespace {

// The sum of a dimension's terms; nothing where that is no number of elements.
std::optional<std::int64_t> sum_of(const Dimension &dimension, const Vector<std::int64_t> &numbers) {
  std::int64_t sum = dimension.added;
  for (const Dimension::Term &term : dimension.terms) {
    std::int64_t part;
    if (!checked_mul(term.factor, numbers[term.dimension], &part) || !checked_add(sum, part, &sum)) return std::nullopt;
  }
  return sum;
}

Status refused(const Graph &graph, const Dimension &dimension, const Dimension::Place &place, std::int64_t found,
               const String &expected, const char *hint) {
  return Status::error(ErrorId::run_shape,
                       format("input %s: found %lld for dimension '%s' (axis %u), expected %s",
                              printable(at(graph, graph.inputs[place.input]).name), found, printable(dimension.name),
                              place.axis, expected),
                       hint);
}

// "the sum of 'past' (3) and 'seq' (1)"
String terms_text(const Graph &graph, const Dimension &dimension, const Vector<std::int64_t> &numbers) {
  String text;
  for (const Dimension::Term &term : dimension.terms) {
    if (!text.empty()) text += " + ";
    if (term.factor != 1) text += format("%lld * ", term.factor);
    text += format("'%s' (%lld)", printable(graph.dimensions[term.dimension].name), numbers[term.dimension]);
  }
  if (dimension.added != 0) text += format(" + %lld", dimension.added);
  return text;
}

}  // namespace

String range_text(const Dimension &dimension) {
  if (dimension.high == kMaxExtent) return format("%lld or more", dimension.low);
  return format("%lld..%lld", dimension.low, dimension.high);
}

Status check_dimensions(const Graph &graph, std::span<const Shape> inputs) {
  Vector<std::int64_t> numbers(graph.dimensions.size(), 0);
  for (std::size_t d = 0; d < graph.dimensions.size(); ++d) {
    const Dimension &dimension = graph.dimensions[d];
    const std::optional<std::int64_t> sum = sum_of(dimension, numbers);
    if (dimension.places.empty()) {  // of a part that reads no such input
      numbers[d] = sum.value_or(0);
      continue;
    }
    const Dimension::Place &first = dimension.places[0];
    const std::int64_t found = numbers[d] = inputs[first.input][first.axis];
    if (found < dimension.low || found > dimension.high)
      return refused(graph, dimension, first, found, range_text(dimension),
                     "give the option shape a range that holds it, as in NAME=1..512, or resize the data");
    const auto is_seen = [&](const Dimension::Term &term) { return !graph.dimensions[term.dimension].places.empty(); };
    if (!dimension.terms.empty() && std::ranges::all_of(dimension.terms, is_seen) && sum != found)
      return refused(graph, dimension, first, found, terms_text(graph, dimension, numbers), "resize the data");
    for (const Dimension::Place &place : dimension.places)
      if (const std::int64_t other = inputs[place.input][place.axis]; other != found)
        return refused(graph, dimension, place, other,
                       format("%lld, as input %s has it", found, printable(at(graph, graph.inputs[first.input]).name)),
                       "give the inputs the same size there");
  }
  return {};
}

std::optional<Vector<Shape>> bound_shapes(const Graph &graph, Vector<std::int64_t> numbers) {
  Vector<Shape> shapes;
  for (const std::int32_t id : graph.inputs) shapes.push_back(at(graph, id).shape);
  for (std::size_t d = 0; d < graph.dimensions.size(); ++d) {
    const Dimension &dimension = graph.dimensions[d];
    if (!dimension.terms.empty()) {
      const std::optional<std::int64_t> sum = sum_of(dimension, numbers);
      if (!sum) return std::nullopt;
      numbers[d] = *sum;
    }
    if (numbers[d] < dimension.low || numbers[d] > dimension.high) return std::nullopt;
    for (const Dimension::Place &place : dimension.places) shapes[place.input][place.axis] = numbers[d];
  }
  for (const Shape &shape : shapes)
    if (std::ranges::any_of(shape, [](std::int64_t extent) { return extent < 0; })) return std::nullopt;
  return shapes;
}

}  // namespace quarry::qir
