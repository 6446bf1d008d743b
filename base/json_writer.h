// SPDX-License-Identifier: Apache-2.0
// Writes JSON, indented by two spaces, into a String. The caller nests begin and end rightly; commas and escapes are
//   the writer's. JsonWriter json;  json.begin_object();  json.key("nodes").value(3);  json.end_object();  String text
//   = json.take();
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include "base/alloc.h"

namespace quarry {

class JsonWriter {
 public:
  JsonWriter &begin_object() { return begin('{'); }
  JsonWriter &end_object() { return end('}'); }
  JsonWriter &begin_array() { return begin('['); }
  JsonWriter &end_array() { return end(']'); }
  JsonWriter &key(std::string_view name);
  JsonWriter &key(const char *name);  // as field(): callers need not measure a literal

  JsonWriter &value(std::string_view text);
  JsonWriter &value(const char *text) { return value(std::string_view(text)); }
  JsonWriter &value(bool flag) { return raw(flag ? "true" : "false"); }
  JsonWriter &value(double number);  // NaN and infinities, which JSON lacks, become null
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter &value(T number) {
    if constexpr (std::signed_integral<T>) return value_signed(number);
    else return value_unsigned(number);
  }
  JsonWriter &null() { return raw("null"); }
  // An array of dimensions on one line; an unknown one is null.
  JsonWriter &shape(const std::int64_t *dims, std::size_t rank);
  // A value that is JSON already (from the compiler library, say).
  JsonWriter &raw(std::string_view json);

  template <class T>
  JsonWriter &field(std::string_view name, const T &content) {
    return key(name).value(content);
  }
  template <class T>
  JsonWriter &field(const char *name, const T &content) {
    return key(name).value(content);
  }

  String take() { return std::move(text_ += '\n'); }

 private:
  JsonWriter &begin(char bracket);
  JsonWriter &end(char bracket);
  JsonWriter &value_signed(std::int64_t number);
  JsonWriter &value_unsigned(std::uint64_t number);
  void separate();
  void new_line();
  void quote(std::string_view text);

  String text_;
  int depth_ = 0;
  bool first_ = true;  // nothing stands in the current object or array yet
  bool after_key_ = false;
};

}  // namespace quarry
