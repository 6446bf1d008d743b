// SPDX-License-Identifier: Apache-2.0
#include "prepare/shapes.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/checked.h"
#include "base/text.h"

namespace quarry::prepare {
namespace {

using onnx_import::Declared;
using onnx_import::InputBinding;

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool parse_number(std::string_view text, std::int64_t *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0;
}

// What a dimension is bound to: a number where both are the same.
struct Extent {
  std::int64_t low = qir::kUnknownDim, high = qir::kUnknownDim;
  bool is_bound() const noexcept { return low >= 0; }
  bool is_number() const noexcept { return is_bound() && low == high; }
  std::int64_t number() const noexcept { return is_number() ? low : qir::kUnknownDim; }
  bool has_end() const noexcept { return high < qir::kMaxExtent; }
  String text() const {
    if (is_number()) return format("%lld", low);
    return has_end() ? format("%lld..%lld", low, high) : format("%lld..", low);
  }
  friend bool operator==(const Extent &, const Extent &) = default;
};
constexpr Extent kOpen{1, qir::kMaxExtent};  // a dimension that nobody binds, where ranges are taken

// "8", "1..8", or "1..", which has no end.
bool parse_extent(std::string_view text, Extent *out) {
  const std::size_t dots = text.find("..");
  if (dots == std::string_view::npos) return parse_number(text, &out->low) && (out->high = out->low, true);
  const std::string_view end = text.substr(dots + 2);
  out->high = qir::kMaxExtent;
  return parse_number(text.substr(0, dots), &out->low) && (end.empty() || parse_number(end, &out->high)) &&
         out->low <= out->high;
}

// Where the next sign stands: a minus with a space or a number behind it, or a space before; "seq-len" is a name.
std::size_t find_sign(std::string_view name) {
  std::size_t at = name.find_first_of("+-");
  for (; at < name.size(); at = name.find_first_of("+-", at + 1)) {
    const char before = at > 0 ? name[at - 1] : ' ', behind = at + 1 < name.size() ? name[at + 1] : ' ';
    if (name[at] == '+' || before == ' ' || behind == ' ' || (behind >= '0' && behind <= '9')) return at;
  }
  return name.size();
}

// The terms of a dimension's name: "past + 2*n - 1" is past, n twice, and -1.
struct Sum {
  Vector<std::pair<std::string_view, std::int64_t>> terms;
  std::int64_t added = 0;
};
std::optional<Sum> parse_sum(std::string_view name) {
  Sum sum;
  std::int64_t sign = 1;
  while (true) {
    const std::size_t end = find_sign(name);
    std::string_view term = trim(name.substr(0, end));
    const std::size_t times = term.find('*');
    std::int64_t factor = 1;
    if (times != std::string_view::npos) {
      const std::string_view left = trim(term.substr(0, times)), right = trim(term.substr(times + 1));
      const bool number_first = parse_number(left, &factor);
      if (!number_first && !parse_number(right, &factor)) return std::nullopt;
      term = number_first ? right : left;
    }
    if (term.empty() || factor > qir::kMaxExtent) return std::nullopt;
    if (std::int64_t number; times == std::string_view::npos && parse_number(term, &number)) {
      if (number > qir::kMaxExtent || sum.added > qir::kMaxExtent || sum.added < -qir::kMaxExtent) return std::nullopt;
      sum.added += sign * number;
    } else {
      sum.terms.emplace_back(term, sign * factor);
    }
    if (end == name.size()) break;
    sign = name[end] == '-' ? -1 : 1;
    name.remove_prefix(end + 1);
  }
  if (sum.terms.empty() || (sum.terms.size() == 1 && sum.terms[0].second == 1 && sum.added == 0)) return std::nullopt;
  return sum;
}

Status bad(std::string_view entry, const String &what) {
  return Status::error(ErrorId::onnx_bad_shape_option, format("shape '%s': %s", printable(entry), what));
}

String declared_text(const Declared &input) {
  if (!input.has_shape) return "[of unknown rank]";
  String out = "[";
  for (std::size_t i = 0; i < input.shape.size(); ++i) {
    if (i) out += ',';
    if (input.shape[i] >= 0) out += format("%lld", input.shape[i]);
    else out += input.dim_names[i].empty() ? String("?") : printable(input.dim_names[i]);
  }
  return out + "]";
}

class Binder {
 public:
  Binder(const onnx_import::Model &model, Ranges ranges) : required_(model.inputs().size()), ranges_(ranges) {
    for (const auto *list : {&model.inputs(), &model.defaults()})
      for (const Declared &input : *list) {
        places_.emplace(input.name, inputs_.size());
        inputs_.push_back(&input);
      }
    shapes_.resize(inputs_.size()), given_.resize(inputs_.size()), values_.resize(inputs_.size());
    for (const Declared &input : model.inputs())
      for (const String &name : input.dim_names)
        if (!name.empty()) symbols_.try_emplace(name);
    for (const auto &[name, bound] : symbols_) {
      std::optional<Sum> sum = parse_sum(name);
      const auto is_known = [&](const auto &term) { return term.first != name && symbols_.contains(term.first); };
      if (!sum || !std::ranges::all_of(sum->terms, is_known)) continue;
      sums_.emplace(name, std::move(*sum));
      sums_in_order_.push_back(&name);
    }
    // A name is longer than those in it: terms stand before what is their sum.
    std::ranges::stable_sort(sums_in_order_, {}, [](const String *name) { return name->size(); });
  }

  Status entry(std::string_view text) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos) return bad(text, "found no '='");
    const std::string_view name = trim(text.substr(0, equals)), value = trim(text.substr(equals + 1));
    const auto found = places_.find(name);
    const Declared *const input = found == places_.end() ? nullptr : inputs_[found->second];
    const auto symbol = symbols_.find(name);
    if (input && value.starts_with('[')) return read_value(found->second, value, text);
    Extent extent;
    if (symbol != symbols_.end() && (!input || (parse_extent(value, &extent) && input->shape.size() != 1))) {
      if (!parse_extent(value, &extent)) return bad(text, "the value of a dimension is a number, or a range as 1..512");
      return bind(symbol->first, extent, text);
    }
    if (input) return bind_input(found->second, value, text);
    NearestWord nearest(name);
    for (const Declared *known : inputs_) nearest.offer(known->name);
    for (const auto &[known, at] : symbols_) nearest.offer(known);
    String message = "the model has neither an input nor a dimension of that name";
    if (!nearest.word().empty()) message += format("; did you mean '%s'?", printable(nearest.word()));
    return bad(text, message);
  }

  // All inputs, or one message with everything that is not bound.
  Result<BoundShapes> finish() {
    QR_RETURN_IF_ERROR(follow_sums());
    Vector<String> missing;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const Declared &input = *inputs_[i];
      if (is_default(i)) continue;
      if (!given_[i]) {
        shapes_[i].assign(input.shape.size(), {});
        // As many values as there are say how long a vector is.
        const auto count = static_cast<std::int64_t>(values_[i].size());
        if (count != 0 && (!input.has_shape || (input.shape.size() == 1 && input.shape[0] < 0)))
          shapes_[i] = {Extent{count, count}};
      }
      bool open = !input.has_shape && !given_[i] && values_[i].empty();
      for (std::size_t d = 0; d < shapes_[i].size(); ++d) {
        Extent &extent = shapes_[i][d];
        if (extent.is_bound() || d >= input.shape.size()) continue;
        if (input.shape[d] >= 0) extent = {input.shape[d], input.shape[d]};
        else if (const auto symbol = symbols_.find(input.dim_names[d]); symbol != symbols_.end())
          extent = symbol->second;
        if (!extent.is_bound() && ranges_ == Ranges::Taken && values_[i].empty()) continue;
        open |= !extent.is_bound();
      }
      const qir::Shape shape = numbers_of(shapes_[i]);
      if (std::ranges::none_of(shape, [](std::int64_t extent) { return extent < 0; }) &&
          !element_count(shape.data(), shape.size()))
        return bad(input.name,
                   format("%s has more elements than a tensor can", shape_text(shape.data(), shape.size())));
      if (open) missing.push_back(format("input '%s' %s", printable(input.name), declared_text(input)));
    }
    if (missing.empty()) return bindings();
    constexpr std::size_t kNamed = 3;
    String list;
    for (std::size_t i = 0; i < missing.size() && i < kNamed; ++i) (list += list.empty() ? "" : ", ") += missing[i];
    if (missing.size() > kNamed) list += format(" and %zu more", missing.size() - kNamed);
    Status status = Status::error(ErrorId::onnx_unbound_shape, format("the model has unbound dimensions: %s", list),
                                  format("bind them with the option shape: %s", wanted()));
    status.with("shape", wanted());
    for (const String &one : missing) status.with("reason", one);
    return status;
  }

 private:
  static qir::Shape numbers_of(const Vector<Extent> &extents) {
    qir::Shape shape;
    for (const Extent &extent : extents) shape.push_back(extent.number());
    return shape;
  }

  Status take_range(const Extent &extent, std::string_view text) {
    if (extent.is_number()) return {};
    if (ranges_ == Ranges::Refused)
      return bad(text, format("found the range %s, expected a number: the backend has a program for each shape, or "
                              "there are other buckets",
                              extent.text()));
    if (extent.high > qir::kMaxExtent)
      return bad(text, format("found the range %s, the limit is %lld", extent.text(), qir::kMaxExtent));
    has_ranges_ |= extent.has_end();
    return {};
  }

  Status bind(const String &name, Extent extent, std::string_view text) {
    QR_RETURN_IF_ERROR(take_range(extent, text));
    Extent &bound = symbols_[name];
    if (bound.is_bound() && bound != extent)
      return bad(
          text, format("dimension '%s' would be %s, but is bound to %s", printable(name), extent.text(), bound.text()));
    bound = extent;
    return {};
  }

  // What a dimension may be in a run, bound or not.
  Extent extent_of(std::string_view name) const {
    const Extent &bound = symbols_.find(name)->second;
    if (bound.is_bound()) return bound;
    return sums_.contains(name) ? Extent{0, qir::kMaxExtent} : kOpen;
  }
  // Of what the terms may be; nothing where that is past all numbers.
  std::optional<Extent> interval_of(const Sum &sum) const {
    Extent all{sum.added, sum.added};
    for (const auto &[term, factor] : sum.terms) {
      Extent extent = extent_of(term);
      if (factor < 0) std::swap(extent.low, extent.high);
      if (!checked_mul(extent.low, factor, &extent.low) || !checked_mul(extent.high, factor, &extent.high) ||
          !checked_add(all.low, extent.low, &all.low) || !checked_add(all.high, extent.high, &all.high))
        return std::nullopt;
    }
    return all;
  }
  // A sum that runs have to keep to, though it may be bound to a number: one of its terms is theirs.
  bool is_free_sum(std::string_view name) const {
    const auto sum = sums_.find(name);
    return ranges_ == Ranges::Taken && sum != sums_.end() &&
           std::ranges::any_of(sum->second.terms, [&](const auto &term) {
             return !symbols_.find(term.first)->second.is_number() || is_free_sum(term.first);
           });
  }

  // Gives dimensions that nobody bound, and whose names say what they are, their numbers; what is bound has to be what
  // some run can give.
  Status follow_sums() {
    for (const String *const name : sums_in_order_) {
      const Sum &sum = sums_.find(*name)->second;
      const std::optional<Extent> found = interval_of(sum);
      if (!found) continue;
      const bool is_number = std::ranges::all_of(
          sum.terms, [&](const auto &term) { return symbols_.find(term.first)->second.is_number(); });
      Extent &bound = symbols_.find(*name)->second;
      if (!bound.is_bound()) {
        if (is_number && found->low >= 0) bound = *found;
      } else if ((is_number || ranges_ == Ranges::Taken) && (found->high < bound.low || found->low > bound.high)) {
        return bad(*name, format("the dimension is bound to %s, and its terms give %s", bound.text(), found->text()));
      }
    }
    return {};
  }

  Status bind_input(std::size_t index, std::string_view value, std::string_view text) {
    const Declared &input = *inputs_[index];
    Vector<Extent> extents;
    for (std::size_t begin = 0; !value.empty() && begin <= value.size();) {
      const std::size_t end = std::min(value.find('x', begin), value.size());
      Extent extent;
      if (!parse_extent(value.substr(begin, end - begin), &extent))
        return bad(text, "expected dimensions with 'x' between them, such as 1x3x224x224 or 1x3x32x1..640");
      QR_RETURN_IF_ERROR(take_range(extent, text));
      extents.push_back(extent);
      begin = end + 1;
    }
    if (extents.size() > qir::kMaxRank)
      return bad(text, format("has %zu dimensions, the limit is %zu", extents.size(), qir::kMaxRank));
    const qir::Shape shape = numbers_of(extents);
    if (std::ranges::none_of(shape, [](std::int64_t extent) { return extent < 0; }) &&
        !element_count(shape.data(), shape.size()))
      return bad(text, "has more elements than a tensor can");
    const String declared = declared_text(input);
    // A scalar may be given as a vector of one, as much that writes test data and callers' code does.
    const bool scalar = input.has_shape && input.shape.empty() && shape == qir::Shape{1};
    if (input.has_shape && input.shape.size() != shape.size() && !scalar)
      return bad(text, format("the input is declared as %s", declared));
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0 && input.shape[d] != shape[d])
        return bad(text, format("the input is declared as %s", declared));
      if (!input.dim_names[d].empty()) QR_RETURN_IF_ERROR(bind(input.dim_names[d], extents[d], text));
    }
    shapes_[index] = std::move(extents);
    given_[index] = true;
    return {};
  }

  // "[1 2 3]"
  Status read_value(std::size_t index, std::string_view value, std::string_view text) {
    if (value.size() < 3 || value.back() != ']')
      return bad(text, "expected numbers with spaces between, such as [16000]");
    const DType dtype = inputs_[index]->dtype;
    value = value.substr(1, value.size() - 2);
    while (!(value = trim(value)).empty()) {
      double number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      const std::size_t used = static_cast<std::size_t>(end - value.data());
      if (error != std::errc() || (used < value.size() && value[used] != ' '))
        return bad(text, "expected numbers with spaces between, such as [16000]");
      if (!holds(dtype, number))
        return bad(text, format("found %g, which %s does not hold", number, dtype_name(dtype)));
      values_[index].push_back(number);
      value.remove_prefix(used);
    }
    return values_[index].empty() ? bad(text, "found no number") : Status();
  }
  static bool holds(DType dtype, double number) {
    if (dtype == DType::Bool) return number == 0 || number == 1;
    if (is_float(dtype)) return dtype_bits(dtype) >= 16;
    if (!is_integer(dtype) || dtype_bits(dtype) < 8 || number != std::trunc(number)) return false;
    const bool has_sign = dtype_kind(dtype) == DTypeKind::Signed;
    // Past 2^53 a double no longer has every integer.
    const int bits = std::min(static_cast<int>(dtype_bits(dtype)) - has_sign, 53);
    const double limit = std::ldexp(1.0, bits);
    return number < limit && number >= (has_sign ? -limit : 0);
  }
  Result<BoundShapes> bindings() {
    BoundShapes made;
    made.has_ranges = has_ranges_;
    list_dimensions(&made.dimensions);
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (is_default(i)) continue;
      made.inputs.push_back({numbers_of(shapes_[i]), std::move(values_[i]), i < required_ ? 0 : i - required_});
      for (std::size_t d = 0; d < shapes_[i].size() && made.inputs.back().values.empty(); ++d)
        if (is_given_by_run(i, d)) made.inputs.back().shape[d] = qir::kUnknownDim;
      const qir::Shape &shape = made.inputs.back().shape;
      Vector<double> &values = made.inputs.back().values;
      if (values.empty()) continue;
      const std::int64_t count = element_count(shape.data(), shape.size()).value_or(0);
      const std::size_t given = values.size();
      if (given == 1 && count >= 1 && count <= std::int64_t{1} << 24)
        values.resize(static_cast<std::size_t>(count), values[0]);
      if (values.size() != static_cast<std::uint64_t>(count))
        return bad(inputs_[i]->name, format("found %zu values for %s, expected one for each element, or one for all",
                                            given, shape_text(shape.data(), shape.size())));
    }
    return made;
  }

  bool is_given_by_run(std::size_t input, std::size_t axis) const {
    const auto &names = inputs_[input]->dim_names;
    return !shapes_[input][axis].is_number() || (axis < names.size() && is_free_sum(names[axis]));
  }

  // Those of the run: by their names, the sums of others behind those; then those without a name.
  void list_dimensions(Vector<qir::Dimension> *out) const {
    HashMap<std::string_view, std::uint32_t> numbers;
    const auto add = [&](const String &name) {
      const Extent extent = extent_of(name);
      numbers.emplace(name, static_cast<std::uint32_t>(out->size()));
      out->push_back({name, extent.low, extent.high, {}, {}, 0});
    };
    for (const auto &[name, bound] : symbols_)
      if (!bound.is_number() && !sums_.contains(name)) add(name);
    for (const String *const name : sums_in_order_) {
      if (extent_of(*name).is_number() && !is_free_sum(*name)) continue;
      add(*name);
      add_terms(sums_.find(*name)->second, numbers, &out->back());
    }
    std::uint32_t place = 0;  // of the graph's inputs: one with a value is a constant
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (is_default(i) || !values_[i].empty()) continue;
      for (std::uint32_t d = 0; d < shapes_[i].size(); ++d) {
        if (!is_given_by_run(i, d)) continue;
        const bool is_named = d < inputs_[i]->dim_names.size() && !inputs_[i]->dim_names[d].empty();
        if (!is_named) {
          const Extent extent = shapes_[i][d].is_bound() ? shapes_[i][d] : kOpen;
          out->push_back({format("%s[%u]", inputs_[i]->name, d), extent.low, extent.high, {{place, d}}, {}, 0});
        } else if (const auto number = numbers.find(inputs_[i]->dim_names[d]); number != numbers.end()) {
          (*out)[number->second].places.push_back({place, d});
        }
      }
      ++place;
    }
  }

  // Terms that are numbers are a part of what is added.
  void add_terms(const Sum &sum, const HashMap<std::string_view, std::uint32_t> &numbers,
                 qir::Dimension *dimension) const {
    dimension->added = sum.added;
    for (const auto &[term, factor] : sum.terms) {
      const auto number = numbers.find(term);
      std::int64_t part;
      if (number != numbers.end()) dimension->terms.push_back({number->second, factor});
      else if (checked_mul(symbols_.find(term)->second.number(), factor, &part) &&
               checked_add(dimension->added, part, &part))
        dimension->added = part;
    }
  }

  // What to give for the option, for this model.
  String wanted() const {
    String text;
    for (const auto &[name, bound] : symbols_)
      if (!bound.is_bound() && !sums_.contains(name))
        (text += text.empty() ? "" : ",") += format("%s=N", printable(name));
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const Declared &input = *inputs_[i];
      if (is_default(i)) continue;
      bool nameless = !input.has_shape;
      for (std::size_t d = 0; d < input.shape.size(); ++d) nameless |= input.shape[d] < 0 && input.dim_names[d].empty();
      if (nameless && !given_[i]) (text += text.empty() ? "" : ",") += format("%s=1x...", printable(input.name));
    }
    return text;
  }

  // It keeps the value that the model gives it.
  bool is_default(std::size_t i) const noexcept { return i >= required_ && !given_[i] && values_[i].empty(); }

  const std::size_t required_;  // inputs without a default; those with one are behind them
  const Ranges ranges_;
  bool has_ranges_ = false;
  Vector<const Declared *> inputs_;
  Vector<Vector<Extent>> shapes_;
  Vector<bool> given_;
  Vector<Vector<double>> values_;
  HashMap<std::string_view, std::size_t> places_;  // of inputs
  OrderedMap<String, Extent> symbols_;
  Vector<const String *> sums_in_order_;
  OrderedMap<String, Sum> sums_;  // of those whose names say what they are; views of the names in symbols_
};

}  // namespace

Result<BoundShapes> bind_shapes(const onnx_import::Model &model, std::string_view text, Ranges ranges) {
  Binder binder(model, ranges);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trim(text.substr(begin, end - begin));
    if (!entry.empty()) QR_RETURN_IF_ERROR(binder.entry(entry));
    begin = end + 1;
  }
  return binder.finish();
}

}  // namespace quarry::prepare
