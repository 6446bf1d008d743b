// SPDX-License-Identifier: Apache-2.0
#include "base/json_writer.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/text.h"

namespace quarry {
void JsonWriter::new_line() {
  text_ += '\n';
  text_.append(static_cast<std::size_t>(depth_) * 2, ' ');
}

void JsonWriter::separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (!first_) text_ += ',';
  if (depth_ > 0) new_line();
  first_ = false;
}

JsonWriter &JsonWriter::begin(char bracket) {
  separate();
  text_ += bracket;
  ++depth_;
  first_ = true;
  return *this;
}

JsonWriter &JsonWriter::end(char bracket) {
  --depth_;
  if (!first_) new_line();
  text_ += bracket;
  first_ = false;
  return *this;
}

JsonWriter &JsonWriter::key(const char *name) { return key(std::string_view(name)); }

JsonWriter &JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ": ";
  after_key_ = true;
  return *this;
}

JsonWriter &JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  return *this;
}

JsonWriter &JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char digits[32];
  const auto made = std::to_chars(digits, digits + sizeof digits, number);  // shortest form that reads back the same
  return raw(std::string_view(digits, static_cast<std::size_t>(made.ptr - digits)));
}

JsonWriter &JsonWriter::value_signed(std::int64_t number) {
  char digits[24];
  const auto made = std::to_chars(digits, digits + sizeof digits, number);
  return raw(std::string_view(digits, static_cast<std::size_t>(made.ptr - digits)));
}

JsonWriter &JsonWriter::value_unsigned(std::uint64_t number) {
  char digits[24];
  const auto made = std::to_chars(digits, digits + sizeof digits, number);
  return raw(std::string_view(digits, static_cast<std::size_t>(made.ptr - digits)));
}

JsonWriter &JsonWriter::raw(std::string_view json) {
  separate();
  while (!json.empty() && (json.back() == '\n' || json.back() == ' ')) json.remove_suffix(1);
  text_.append(json);
  return *this;
}

JsonWriter &JsonWriter::shape(const std::int64_t *dims, std::size_t rank) {
  separate();
  text_ += '[';
  for (std::size_t i = 0; i < rank; ++i) {
    if (i) text_ += ", ";
    char digits[24];
    const auto made = std::to_chars(digits, digits + sizeof digits, dims[i]);
    if (dims[i] < 0) text_ += "null";
    else text_.append(digits, static_cast<std::size_t>(made.ptr - digits));
  }
  text_ += ']';
  return *this;
}

// Bytes that are not UTF-8 become U+FFFD each: the text stays valid JSON whatever a file held.
void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  for (std::size_t i = 0; i < text.size();) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const std::size_t length = utf8_sequence(text, i);
    if (length == 0) {
      text_ += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += static_cast<char>(c);
    } else if (c == '\n') {
      text_ += "\\n";
    } else if (c == '\t') {
      text_ += "\\t";
    } else if (c < 0x20 || c == 0x7f) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
      text_ += escaped;
    } else {
      text_.append(text.substr(i, length));
    }
    i += length;
  }
  text_ += '"';
}

}  // namespace quarry
