// SPDX-License-Identifier: Apache-2.0
#include "quantize/plan/overrides.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/os/console.h"
#include "base/os_error.h"
#include "base/text.h"
#include "quantize/plan/yaml.h"

namespace quarry::quantize {
namespace {

using Json = nlohmann::json;

// What messages name: the file and the tensor.
class Entry {
 public:
  Entry(std::string_view file, std::string_view tensor) : file_(file), tensor_(tensor) {}

  Status wrong(const String &what) const {
    return Status::error(
               ErrorId::bad_option_value,
               format("option overrides: '%s': tensor '%s': %s", printable(file_, 1000), printable(tensor_), what),
               "docs/quantize/types.md has an example")
        .with("tensor", tensor_);
  }

  Result<Override> read(const Json &from, bool is_convert, TensorOverride *whole) const {
    Override out;
    if (!from.is_object()) return wrong("found no mapping of keys to values");
    for (const auto &[key, value] : from.items()) {
      Status status;
      if (key == "quant_type" || key == "type") status = type(value, &out);
      else if (key == "symmetric") status = flag(key, value, &out.symmetric);
      else if (key == "rmin" || key == "low") status = number(key, value, &out.low);
      else if (key == "rmax" || key == "high") status = number(key, value, &out.high);
      else if (key == "scale") status = scale(value, &out);
      else if (key == "zero_point") status = zero_point(value, &out);
      else if (key == "axis" && !is_convert) status = axis(value, &out);
      else if (key == "reduce_range" && !is_convert) status = reduced(value);
      else if (key == "convert" && !is_convert) status = convert(value, whole);
      else if ((key == "recv_nodes" || key == "nodes") && is_convert) status = receivers(value, whole);
      else
        status = wrong(format("found the key \"%s\", expected quant_type, symmetric, rmin, rmax, scale, zero_point, %s",
                              printable(key), is_convert ? "recv_nodes" : "axis, convert"));
      QR_RETURN_IF_ERROR(std::move(status));
    }
    if (out.scale.has_value() != out.zero_point.has_value())
      return wrong("found one of scale and zero_point, expected both");
    if (out.scale && (out.symmetric || out.low || out.high))
      return wrong("found scale and zero_point beside symmetric, rmin or rmax, expected one of them");
    if (out.low && out.high && *out.low > *out.high) return wrong("found rmin over rmax");
    return out;
  }

 private:
  Status type(const Json &value, Override *out) const {
    if (value.is_string()) out->dtype = integer_type_named(value.get_ref<const std::string &>());
    if (!out->dtype)
      return wrong(
          format("quant_type: found %s, expected QUInt8, QInt8, QUInt16, QInt16, QUInt4 or QInt4 (or u8, i8, ...)",
                 text(value)));
    return {};
  }
  Status flag(std::string_view key, const Json &value, std::optional<bool> *out) const {
    if (!value.is_boolean()) return wrong(format("%s: found %s, expected true or false", String(key), text(value)));
    *out = value.get<bool>();
    return {};
  }
  Status number(std::string_view key, const Json &value, std::optional<double> *out) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()) || std::fabs(value.get<double>()) > 1e30)
      return wrong(format("%s: found %s, expected a number", String(key), text(value)));
    *out = value.get<double>();
    return {};
  }
  Status scale(const Json &value, Override *out) const {
    std::optional<double> found;
    QR_RETURN_IF_ERROR(number("scale", value, &found));
    if (!(*found > 1e-30)) return wrong(format("scale: found %s, expected more than 0", text(value)));
    out->scale = static_cast<float>(*found);
    return {};
  }
  Status zero_point(const Json &value, Override *out) const {
    if (!value.is_number_integer() || std::abs(value.get<double>()) > 65535)
      return wrong(format("zero_point: found %s, expected an integer of the type", text(value)));
    out->zero_point = value.get<std::int32_t>();
    return {};
  }
  Status axis(const Json &value, Override *out) const {
    if (!value.is_number_integer() || std::abs(value.get<double>()) > 8)
      return wrong(format("axis: found %s, expected the number of an axis", text(value)));
    out->axis = value.get<std::int64_t>();
    return {};
  }
  Status reduced(const Json &value) const {
    if (value.is_boolean() && !value.get<bool>()) return {};
    return wrong("reduce_range: found true: no backend of Quarry needs it");
  }
  Status convert(const Json &value, TensorOverride *whole) const {
    whole->has_convert = true;
    QR_ASSIGN_OR_RETURN(whole->convert, read(value, true, whole));
    if (!whole->convert.dtype) return wrong("convert: found no quant_type");
    return {};
  }
  Status receivers(const Json &value, TensorOverride *whole) const {
    if (!value.is_array()) return wrong("recv_nodes: found no list");
    whole->all_receive = false;
    for (const Json &one : value) {
      if (!one.is_string()) return wrong(format("recv_nodes: found %s, expected names of nodes", text(one)));
      whole->receivers.push_back(String(one.get_ref<const std::string &>()));
    }
    return {};
  }
  static String text(const Json &value) {
    return printable(value.dump(-1, ' ', true, Json::error_handler_t::replace), 60);
  }

  const std::string_view file_, tensor_;
};

}  // namespace

std::optional<DType> integer_type_named(std::string_view name) {
  if (const std::size_t dot = name.rfind('.'); dot != std::string_view::npos) name.remove_prefix(dot + 1);
  constexpr std::pair<std::string_view, DType> kNames[] = {{"QUInt8", DType::U8},   {"QInt8", DType::I8},
                                                           {"QUInt16", DType::U16}, {"QInt16", DType::I16},
                                                           {"QUInt4", DType::U4},   {"QInt4", DType::I4}};
  for (const auto &[known, dtype] : kNames)
    if (name == known) return dtype;
  const auto found = dtype_from_name(name);
  for (const auto &[known, dtype] : kNames)
    if (found == dtype) return dtype;
  return std::nullopt;
}

Result<Overrides> parse_overrides(std::string_view text, bool is_yaml, std::string_view name) {
  Json all;
  if (is_yaml) {
    QR_ASSIGN_OR_RETURN(all, parse_yaml(text, name));
  } else {
    all = Json::parse(text.begin(), text.end(), nullptr, false);
    if (all.is_discarded())
      return Status::error(ErrorId::bad_option_value,
                           format("option overrides: '%s': found a text that is no JSON", printable(name, 1000)),
                           "a file of YAML has a name that ends in .yaml");
  }
  if (!all.is_object())
    return Status::error(ErrorId::bad_option_value,
                         format("option overrides: '%s': found no mapping of tensors' names to what is said of them",
                                printable(name, 1000)));
  Overrides out;
  for (const auto &[tensor, said] : all.items()) {
    const Entry entry(name, tensor);
    TensorOverride one;
    if (said.is_array() && said.empty()) continue;
    const Json &first = said.is_array() ? said[0] : said;
    QR_ASSIGN_OR_RETURN(one.own, entry.read(first, false, &one));
    if (said.is_array() && said.size() > 1) {
      if (!one.own.axis) return entry.wrong("found several encodings without an axis");
      if (one.has_convert) return entry.wrong("found a conversion of a tensor with several encodings");
      for (const Json &channel : said) {
        QR_ASSIGN_OR_RETURN(Override read, entry.read(channel, false, &one));
        one.channels.push_back(read);
      }
    }
    out[String(tensor)] = std::move(one);
  }
  return out;
}

Result<Overrides> read_overrides(std::string_view path) {
  const String name(path);
  FILE *file = os::open_stream(name.c_str());
  const auto failed = [&](int number) {
    return Status::error(os_error_id(number, ErrorId::io_error), format("option overrides: '%s' cannot be read: %s",
                                                                        printable(path, 1000), os_error_text(number)))
        .with("file", path);
  };
  if (!file) return failed(errno);
  constexpr std::size_t kMost = std::size_t{64} << 20;
  std::string text;
  char part[4096];
  std::size_t got = 0;
  while ((got = std::fread(part, 1, sizeof part, file)) > 0 && text.size() <= kMost) text.append(part, got);
  const int number = std::ferror(file) ? errno : 0;
  std::fclose(file);
  if (number != 0) return failed(number);
  if (text.size() > kMost)
    return Status::error(ErrorId::bad_option_value,
                         format("option overrides: '%s': found more than 64 MB", printable(path, 1000)));
  return parse_overrides(text, path.ends_with(".yaml") || path.ends_with(".yml"), path);
}

}  // namespace quarry::quantize
