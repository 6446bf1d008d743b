// SPDX-License-Identifier: Apache-2.0
#include "backends/dynamic/prepared_shapes.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "graph/dimensions.h"

namespace quarry::dynamic {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The next item of a text, up to a separator.
std::string_view take_item(std::string_view &text, char separator) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view item = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return trimmed(item);
}

Status bad(std::string_view item, const String &what) {
  return Status::error(ErrorId::bad_option_value,
                       format("option shape.prepare: found '%s', expected %s", printable(item), what),
                       "name dimensions of the option shape, as in seq=64,batch=2;seq=512");
}

Status read_number(const qir::Dimension &dimension, std::string_view item, std::string_view value, std::int64_t *out) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *out);
  if (error != std::errc() || end != value.data() + value.size() || *out < dimension.low || *out > dimension.high)
    return bad(item, format("a number of dimension '%s', %s", printable(dimension.name), qir::range_text(dimension)));
  return {};
}

// "seq=64", of a shape. `given`: the dimensions that the shape has named before.
Status read_named(const qir::Graph &graph, std::string_view item, Vector<std::int64_t> *shape, Vector<bool> *given) {
  const std::size_t equals = item.rfind('=');
  const std::string_view name = trimmed(item.substr(0, std::min(equals, item.size())));
  const auto found =
      std::ranges::find_if(graph.dimensions, [&](const qir::Dimension &dimension) { return dimension.name == name; });
  if (equals != std::string_view::npos && found != graph.dimensions.end() && found->terms.empty()) {
    const std::size_t d = index_of(found - graph.dimensions.begin());
    if ((*given)[d]) return bad(item, format("dimension '%s' once in a shape", printable(name)));
    (*given)[d] = true;
    return read_number(*found, item, trimmed(item.substr(equals + 1)), &(*shape)[d]);
  }
  NearestWord nearest(name);
  for (const qir::Dimension &dimension : graph.dimensions) nearest.offer(dimension.name);
  String expected = "a dimension of the program";
  if (!nearest.word().empty()) expected += format("; did you mean '%s'?", printable(nearest.word()));
  return bad(item, expected);
}

}  // namespace

Result<Vector<Vector<std::int64_t>>> prepared_shapes(const qir::Graph &graph, std::string_view text) {
  Vector<std::int64_t> least;
  std::size_t free = 0, last_free = 0;
  for (std::size_t d = 0; d < graph.dimensions.size(); ++d) {
    least.push_back(graph.dimensions[d].low);
    if (graph.dimensions[d].terms.empty()) ++free, last_free = d;
  }
  Vector<Vector<std::int64_t>> out;
  while (!text.empty()) {
    std::string_view part = take_item(text, ';');
    const bool is_named = part.find('=') != std::string_view::npos;
    const std::string_view whole = trimmed(part);
    const std::size_t first = out.size();
    if (is_named) out.push_back(least);
    Vector<bool> given(least.size());
    while (!part.empty()) {
      const std::string_view item = take_item(part, ',');
      if (item.empty()) continue;
      if (is_named) {
        QR_RETURN_IF_ERROR(read_named(graph, item, &out.back(), &given));
        continue;
      }
      if (free != 1) return bad(item, format("NAME=NUMBER: the program has %zu dimensions", free));
      out.push_back(least);
      QR_RETURN_IF_ERROR(read_number(graph.dimensions[last_free], item, item, &out.back()[last_free]));
    }
    for (std::size_t i = first; i < out.size(); ++i)
      if (!qir::bound_shapes(graph, out[i]))
        return bad(whole, "a shape that a run may have: its dimensions leave their ranges together");
  }
  return out;
}

}  // namespace quarry::dynamic
