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

bool parse_extent(std::string_view text, std::int64_t *out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *out);
  return error == std::errc() && end == text.data() + text.size() && *out >= 0;
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
  explicit Binder(const onnx_import::Model &model) : required_(model.inputs().size()) {
    for (const auto *list : {&model.inputs(), &model.defaults()})
      for (const Declared &input : *list) {
        places_.emplace(input.name, inputs_.size());
        inputs_.push_back(&input);
      }
    shapes_.resize(inputs_.size()), given_.resize(inputs_.size()), values_.resize(inputs_.size());
    for (const Declared &input : model.inputs())
      for (const String &name : input.dim_names)
        if (!name.empty()) symbols_.emplace(name, qir::kUnknownDim);
  }

  Status entry(std::string_view text) {
    const std::size_t equals = text.rfind('=');
    if (equals == std::string_view::npos) return bad(text, "found no '='");
    const std::string_view name = trim(text.substr(0, equals)), value = trim(text.substr(equals + 1));
    const auto found = places_.find(name);
    const Declared *const input = found == places_.end() ? nullptr : inputs_[found->second];
    const auto symbol = symbols_.find(name);
    if (input && value.starts_with('[')) return read_value(found->second, value, text);
    std::int64_t extent = 0;
    if (symbol != symbols_.end() && (!input || (parse_extent(value, &extent) && input->shape.size() != 1))) {
      if (!parse_extent(value, &extent)) return bad(text, "the value of a dimension is one number");
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
  Result<Vector<InputBinding>> finish() {
    Vector<String> missing;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      const Declared &input = *inputs_[i];
      if (given_[i] || is_default(i)) continue;
      shapes_[i] = input.shape;
      // As many values as there are say how long a vector is.
      if (!values_[i].empty() && (!input.has_shape || (input.shape.size() == 1 && input.shape[0] < 0)))
        shapes_[i] = {static_cast<std::int64_t>(values_[i].size())};
      bool open = !input.has_shape && values_[i].empty();
      for (std::size_t d = 0; d < shapes_[i].size(); ++d) {
        if (shapes_[i][d] >= 0 || d >= input.dim_names.size()) continue;
        if (const auto symbol = symbols_.find(input.dim_names[d]); symbol != symbols_.end())
          shapes_[i][d] = symbol->second;
        open |= shapes_[i][d] < 0;
      }
      if (!open && !element_count(shapes_[i].data(), shapes_[i].size()))
        return bad(input.name,
                   format("%s has more elements than a tensor can", shape_text(shapes_[i].data(), shapes_[i].size())));
      if (open) missing.push_back(format("input '%s' %s", printable(input.name), declared_text(input)));
    }
    if (missing.empty()) return bindings();
    String list;
    for (const String &one : missing) (list += list.empty() ? "" : ", ") += one;
    Status status = Status::error(ErrorId::onnx_unbound_shape, format("the model has unbound dimensions: %s", list),
                                  format("bind them with the option shape: %s", wanted()));
    status.with("shape", wanted());
    for (const String &one : missing) status.with("reason", one);
    return status;
  }

 private:
  Status bind(const String &name, std::int64_t extent, std::string_view text) {
    std::int64_t &bound = symbols_[name];
    if (bound >= 0 && bound != extent)
      return bad(text, format("dimension '%s' would be %lld, but is bound to %lld", printable(name), extent, bound));
    bound = extent;
    return {};
  }

  Status bind_input(std::size_t index, std::string_view value, std::string_view text) {
    const Declared &input = *inputs_[index];
    qir::Shape shape;
    for (std::size_t begin = 0; !value.empty() && begin <= value.size();) {
      const std::size_t end = std::min(value.find('x', begin), value.size());
      std::int64_t extent;
      if (!parse_extent(value.substr(begin, end - begin), &extent))
        return bad(text, "expected dimensions with 'x' between them, such as 1x3x224x224");
      shape.push_back(extent);
      begin = end + 1;
    }
    if (shape.size() > qir::kMaxRank)
      return bad(text, format("has %zu dimensions, the limit is %zu", shape.size(), qir::kMaxRank));
    if (!element_count(shape.data(), shape.size())) return bad(text, "has more elements than a tensor can");
    const String declared = declared_text(input);
    // A scalar may be given as a vector of one, as much that writes test data and callers' code does.
    const bool scalar = input.has_shape && input.shape.empty() && shape == qir::Shape{1};
    if (input.has_shape && input.shape.size() != shape.size() && !scalar)
      return bad(text, format("the input is declared as %s", declared));
    for (std::size_t d = 0; d < input.shape.size(); ++d) {
      if (input.shape[d] >= 0 && input.shape[d] != shape[d])
        return bad(text, format("the input is declared as %s", declared));
      if (!input.dim_names[d].empty()) QR_RETURN_IF_ERROR(bind(input.dim_names[d], shape[d], text));
    }
    shapes_[index] = std::move(shape);
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
  Result<Vector<InputBinding>> bindings() {
    Vector<InputBinding> made;
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      if (is_default(i)) continue;
      made.push_back({std::move(shapes_[i]), std::move(values_[i]), i < required_ ? 0 : i - required_});
      const qir::Shape &shape = made.back().shape;
      Vector<double> &values = made.back().values;
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

  // What to give for the option, for this model.
  String wanted() const {
    String text;
    for (const auto &[name, bound] : symbols_)
      if (bound < 0) (text += text.empty() ? "" : ",") += format("%s=N", printable(name));
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
  Vector<const Declared *> inputs_;
  Vector<qir::Shape> shapes_;
  Vector<bool> given_;
  Vector<Vector<double>> values_;
  HashMap<std::string_view, std::size_t> places_;  // of inputs
  OrderedMap<String, std::int64_t> symbols_;
};

}  // namespace

Result<Vector<InputBinding>> bind_shapes(const onnx_import::Model &model, std::string_view text) {
  Binder binder(model);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view entry = trim(text.substr(begin, end - begin));
    if (!entry.empty()) QR_RETURN_IF_ERROR(binder.entry(entry));
    begin = end + 1;
  }
  return binder.finish();
}

}  // namespace quarry::prepare
